/* shrink: the points of a reduction that cannot change its result are left
 * out, so that a window at a border does only the work inside.
 *
 * Where one of the conditions found here is false, a point's value is the
 * reduction's neutral element: the value of `else` makes it so, or `where`
 * excludes the point.  Lowering puts those that mention a shrunk axis around
 * the update of the innermost place; code generation moves them outwards.
 */
#include "config.h"

#include "schedule/state.h"

#include "ir/passes.h"

/* More padded reads than these in one value are looked at one by one. */
enum { MAX_SELECTS = 8 };

struct selects {
  const struct tt_expr *item[MAX_SELECTS];
  int n;
};

static void
find_select(void *ctx, const struct tt_expr *e)
{
  struct selects *s = ctx;
  if (e->kind != TT_SELECT || s->n == MAX_SELECTS)
    return;
  for (int i = 0; i < s->n; i++)
    if (tt_expr_equal(s->item[i], e))
      return;
  s->item[s->n++] = e;
}

static const struct tt_expr *
take_else(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  (void)ar;
  const struct tt_expr *select = ctx;
  return e->kind == TT_SELECT && tt_expr_equal(e, select) ? select->b : e;
}

/* Is the value neutral in the reduction where the select takes `else`? */
static bool
neutral_outside(struct tt_arena *ar, const struct tt_stage_schedule *ss,
                const struct tt_expr *select)
{
  const struct tt_expr *v =
      tt_expr_rewrite(ar, ss->value, take_else, (void *)select);
  v = tt_simplify(ar, v, NULL);
  const struct tt_expr *id = tt_red_identity(ar, ss->stage->red, v->type.dtype);
  if (v->kind == TT_FLT && id->kind == TT_FLT)
    return v->fval == id->fval; /* (a sum's -0 is as good as 0) */
  return tt_expr_equal(v, id);
}

struct conditions {
  const struct tt_stage_schedule *ss;
  int n, max;
  const struct tt_expr **out;
};

static void
find_load(void *ctx, const struct tt_expr *e)
{
  *(bool *)ctx |= e->kind == TT_LOAD;
}

static bool
mentions_shrunk(const struct tt_stage_schedule *ss, const struct tt_expr *cond)
{
  const struct tt_stage *st = ss->stage;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (ss->loops[a].shrink && tt_expr_uses_var(cond, ss->loops[a].axis))
      return true;
  return false;
}

static void
add_conjuncts(struct conditions *c, const struct tt_expr *cond)
{
  if (cond->kind == TT_BINARY && cond->op == TT_AND) {
    add_conjuncts(c, cond->a);
    add_conjuncts(c, cond->b);
    return;
  }
  bool loads = false;
  tt_expr_visit(cond, find_load, &loads);
  if (loads || !mentions_shrunk(c->ss, cond))
    return;
  for (int i = 0; i < c->n; i++)
    if (tt_expr_equal(c->out[i], cond))
      return;
  if (c->n < c->max)
    c->out[c->n++] = cond;
}

int
tt_shrink_conditions(struct tt_arena *ar, const struct tt_stage_schedule *ss,
                     const struct tt_expr **out, int max)
{
  struct conditions c = {ss, 0, max, out};
  bool any = false;
  for (int a = ss->stage->nspatial;
       a < ss->stage->nspatial + ss->stage->nreduce; a++)
    any |= ss->loops[a].shrink;
  if (!any)
    return 0;
  if (ss->where)
    add_conjuncts(&c, ss->where);
  struct selects s = {.n = 0};
  tt_expr_visit(ss->value, find_select, &s);
  for (int i = 0; i < s.n; i++)
    if (neutral_outside(ar, ss, s.item[i]))
      add_conjuncts(&c, s.item[i]->c);
  return c.n;
}

struct border {
  const struct tt_tensor *tensor;
  int n;
  const struct tt_expr *const *cond;
  bool gone;
};

static bool
is_known(const struct border *b, const struct tt_expr *cond)
{
  if (cond->kind == TT_BINARY && cond->op == TT_AND)
    return is_known(b, cond->a) && is_known(b, cond->b);
  for (int i = 0; i < b->n; i++)
    if (tt_expr_equal(b->cond[i], cond))
      return true;
  return false;
}

static void
check_border(void *ctx, const struct tt_expr *e)
{
  struct border *b = ctx;
  if (e->kind == TT_SELECT && tt_expr_uses_tensor(e, b->tensor))
    b->gone = b->gone && is_known(b, e->c);
}

bool
tt_shrinks_border(struct tt_arena *ar, const struct tt_stage_schedule *ss,
                  const struct tt_tensor *tensor)
{
  const struct tt_expr *cond[TT_MAX_SHRINK];
  int n = tt_shrink_conditions(ar, ss, cond, TT_MAX_SHRINK);
  struct border b = {tensor, n, cond, true};
  tt_expr_visit(ss->value, check_border, &b);
  return b.gone;
}

bool
tt_shrinks_with(struct tt_arena *ar, const struct tt_stage_schedule *ss, int a,
                int b)
{
  const struct tt_expr *cond[TT_MAX_SHRINK];
  int n = tt_shrink_conditions(ar, ss, cond, TT_MAX_SHRINK);
  for (int i = 0; i < n; i++)
    if (tt_expr_uses_var(cond[i], ss->loops[a].axis) &&
        tt_expr_uses_var(cond[i], ss->loops[b].axis))
      return true;
  return false;
}

/* The lanes of a vector have one range of the reduction: no condition may
 * tell them apart. */
bool
tt_check_shrink(struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_expr *cond[TT_MAX_SHRINK];
  int n = tt_shrink_conditions(s->arena, ss, cond, TT_MAX_SHRINK);
  for (int i = 0; i < ss->norder && n; i++) {
    const struct tt_loop *l = &ss->loops[ss->order[i]];
    if (l->kind != TT_VECTOR)
      continue;
    for (int a = 0; a < ss->stage->nspatial + ss->stage->nreduce; a++) {
      if (!tt_loop_uses_axis(ss, ss->order[i], ss->loops[a].axis))
        continue;
      for (int k = 0; k < n; k++)
        if (tt_expr_uses_var(cond[k], ss->loops[a].axis))
          return tt_refuse(s,
                           "%s of %s is vectorized, and its lanes reach the "
                           "border of a shrunk reduction at different points",
                           l->name, tt_stage_name(s, stage));
    }
  }
  return true;
}

/* The axis that a loop is part of; -1: a fused loop has several. */
static int
axis_of(const struct tt_stage_schedule *ss, int loop)
{
  while (ss->loops[loop].parent >= 0)
    loop = ss->loops[loop].parent;
  return ss->loops[loop].node == TT_AXIS ? loop : -1;
}

bool
tt_shrink(struct tt_schedule *s, int stage, int loop)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (!tt_need_leaf(s, stage, loop))
    return false;
  const char *name = ss->loops[loop].name;
  if (ss->place == TT_INLINE)
    return tt_refuse(s, "%s is inlined", tt_stage_name(s, stage));
  if (!ss->loops[loop].reduce)
    return tt_refuse(s,
                     "%s is no reduction loop of %s: only a reduction has "
                     "points to leave out",
                     name, tt_stage_name(s, stage));
  int axis = axis_of(ss, loop);
  if (axis < 0)
    return tt_refuse(s, "%s of %s is fused: shrink its loops before that", name,
                     tt_stage_name(s, stage));
  if (ss->loops[axis].shrink)
    return tt_refuse(s, "%s of %s is already shrunk", name,
                     tt_stage_name(s, stage));
  const struct tt_expr *cond[TT_MAX_SHRINK];
  int before = tt_shrink_conditions(s->arena, ss, cond, TT_MAX_SHRINK);
  ss->loops[axis].shrink = true;
  bool ok = true;
  if (tt_shrink_conditions(s->arena, ss, cond, TT_MAX_SHRINK) == before)
    ok = tt_refuse(s,
                   "every point of %s counts in %s: there is none to leave "
                   "out",
                   name, tt_stage_name(s, stage));
  if (!ok || !tt_check_stage(s, stage)) {
    ss->loops[axis].shrink = false;
    return false;
  }
  tt_record(s, stage, "shrink", "l", name);
  return true;
}
