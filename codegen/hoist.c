/* Conditions go outwards: what a loop's whole body stands under, and what
 * does not depend on the loop's variable, is tested once, outside of it.
 *
 * Only conditions without loads are moved: they can be evaluated anywhere,
 * and nothing that the loop does changes them.  They stay inside of the loops
 * of a GPU's threads, which come to the places where they wait together.
 */
#include "config.h"

#include "codegen/internal.h"

#include "ir/passes.h"

enum { MAX_CONDITIONS = 64 };

struct conditions {
  const struct tt_var *var;
  int nout, nin; /* outside the loop, and left inside */
  const struct tt_expr *out[MAX_CONDITIONS], *in[MAX_CONDITIONS];
};

static void
find_load(void *ctx, const struct tt_expr *e)
{
  *(bool *)ctx |= e->kind == TT_LOAD;
}

/* false: there are too many, or a load among them. */
static bool
add_conjuncts(struct conditions *c, const struct tt_expr *cond)
{
  if (cond->kind == TT_BINARY && cond->op == TT_AND)
    return add_conjuncts(c, cond->a) && add_conjuncts(c, cond->b);
  bool loads = false;
  tt_expr_visit(cond, find_load, &loads);
  if (loads || c->nout == MAX_CONDITIONS || c->nin == MAX_CONDITIONS)
    return false;
  if (tt_expr_uses_var(cond, c->var))
    c->in[c->nin++] = cond;
  else
    c->out[c->nout++] = cond;
  return true;
}

static const struct tt_stmt *
under(struct tt_arena *ar, int n, const struct tt_expr *const *cond,
      const struct tt_stmt *body)
{
  const struct tt_expr *all = NULL;
  for (int i = 0; i < n; i++)
    all = all ? tt_binary(ar, TT_AND, all, cond[i]) : cond[i];
  return all ? tt_if(ar, all, body, NULL) : body;
}

static const struct tt_stmt *
hoist(void *ctx, const struct tt_stmt *s)
{
  struct pass *p = ctx;
  s = tt_map_children(p, s, hoist, p);
  if (s->kind != TT_FOR || tt_is_thread(s->for_kind))
    return s;
  struct conditions c = {.var = s->var};
  const struct tt_stmt *body = s->body;
  while (body->kind == TT_IF && !body->other && !body->comment) {
    struct conditions more = c;
    if (!add_conjuncts(&more, body->cond))
      break;
    c = more;
    body = body->body;
  }
  if (c.nout == 0)
    return s;
  body = tt_for(p->arena, s->for_kind, s->lanes, s->var,
                under(p->arena, c.nin, c.in, body));
  body = under(p->arena, c.nout, c.out, body);
  return s->comment ? tt_comment(p->arena, s->comment, body) : body;
}

const struct tt_stmt *
tt_pass_hoist_ifs(struct pass *p, const struct tt_stmt *s)
{
  return hoist(p, s);
}
