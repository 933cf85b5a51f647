/* The simplifier of statements: conditions become facts for their branches,
 * what is never run or does nothing disappears. */
#include "config.h"

#include "ir/passes.h"

#include "ir/simplify.h"

static bool
is_empty(const struct tt_stmt *s)
{
  return !s || (s->kind == TT_SEQ && s->nitems == 0);
}

static bool
stores_to(const struct tt_stmt *s, const struct tt_tensor *t)
{
  switch (s->kind) {
  case TT_STORE:
    return s->tensor == t;
  case TT_PREFETCH:
    return false;
  case TT_SEQ:
    for (int i = 0; i < s->nitems; i++)
      if (stores_to(s->items[i], t))
        return true;
    return false;
  case TT_IF:
    return stores_to(s->body, t) || (s->other && stores_to(s->other, t));
  case TT_FOR:
  case TT_ALLOC:
  case TT_INTRIN:
    return stores_to(s->body, t);
  }
  return false;
}

struct stable {
  const struct tt_stmt *body;
  bool ok;
};

static void
check_load(void *ctx, const struct tt_expr *e)
{
  struct stable *c = ctx;
  if (e->kind == TT_LOAD && c->ok && e->tensor->role != TT_INPUT &&
      e->tensor->role != TT_CONST && e->tensor->role != TT_WEIGHT)
    c->ok = !stores_to(c->body, e->tensor);
}

bool
tt_cond_is_stable(const struct tt_expr *cond, const struct tt_stmt *body)
{
  struct stable c = {body, true};
  tt_expr_visit(cond, check_load, &c);
  return c.ok;
}

static const struct tt_stmt *stmt(struct tt_simp *, const struct tt_stmt *);

static const struct tt_stmt *
commented(struct tt_simp *s, const struct tt_stmt *from,
          const struct tt_stmt *to)
{
  if (!from->comment || to->comment || is_empty(to))
    return to;
  return tt_comment(s->arena, from->comment, to);
}

/* A body under a condition that stays true in it. */
static const struct tt_stmt *
guarded(struct tt_simp *s, const struct tt_expr *cond, bool negated,
        const struct tt_stmt *body)
{
  struct tt_fact_mark mark = tt_factset_mark(&s->facts);
  if (tt_cond_is_stable(cond, body))
    tt_factset_push(&s->facts, cond, negated);
  body = stmt(s, body);
  tt_factset_pop(&s->facts, mark);
  return body;
}

static const struct tt_stmt *
simp_if(struct tt_simp *s, const struct tt_stmt *st)
{
  const struct tt_expr *cond = tt_simp(s, st->cond);
  if (cond->kind == TT_INT) {
    if (cond->ival)
      return stmt(s, st->body);
    return st->other ? stmt(s, st->other) : tt_seq(s->arena, 0, NULL);
  }
  const struct tt_stmt *body = guarded(s, cond, false, st->body);
  const struct tt_stmt *other =
      st->other ? guarded(s, cond, true, st->other) : NULL;
  if (is_empty(other))
    other = NULL;
  if (is_empty(body)) {
    if (!other)
      return tt_seq(s->arena, 0, NULL);
    cond = tt_simp(s, tt_not(s->arena, cond));
    body = other;
    other = NULL;
  }
  return tt_if(s->arena, cond, body, other);
}

/* Is this the element that is stored to (x += 0, at a border)? */
static bool
is_itself(const struct tt_tensor *t, int n, const struct tt_expr *const *idx,
          const struct tt_expr *value)
{
  if (value->kind != TT_LOAD || value->tensor != t)
    return false;
  for (int i = 0; i < n; i++)
    if (!tt_expr_equal(value->args[i], idx[i]))
      return false;
  return true;
}

static const struct tt_stmt *
simp_store(struct tt_simp *s, const struct tt_stmt *st)
{
  const struct tt_expr *idx[TT_MAX_DIMS];
  int lanes = 1;
  for (int i = 0; i < st->nidx; i++) {
    idx[i] = tt_simp(s, st->idx[i]);
    /* Beside a ramp an index that is the same in every lane is a scalar. */
    if (idx[i]->kind != TT_BROADCAST && idx[i]->type.lanes > lanes)
      lanes = idx[i]->type.lanes;
  }
  for (int i = 0; i < st->nidx; i++)
    if (idx[i]->kind == TT_BROADCAST && lanes > 1)
      idx[i] = idx[i]->a;
  const struct tt_expr *value = tt_simp(s, st->value);
  if (is_itself(st->tensor, st->nidx, idx, value))
    return tt_seq(s->arena, 0, NULL);
  return tt_store(s->arena, st->tensor, st->nidx, idx, value);
}

static const struct tt_stmt *
simp_prefetch(struct tt_simp *s, const struct tt_stmt *st)
{
  const struct tt_expr *idx[TT_MAX_DIMS];
  for (int i = 0; i < st->nidx; i++)
    idx[i] = tt_simp(s, st->idx[i]);
  return tt_prefetch(s->arena, st->tensor, st->nidx, idx);
}

/* Operands stay loads, whatever is known of what they read. */
static const struct tt_stmt *
simp_intrin(struct tt_simp *s, const struct tt_stmt *st)
{
  const struct tt_expr *loads[TT_MAX_OPERANDS], *idx[TT_MAX_DIMS];
  const struct tt_stmt *body = stmt(s, st->body);
  if (is_empty(body))
    return body;
  for (int o = 0; o < st->nidx; o++) {
    const struct tt_expr *e = st->idx[o];
    for (int i = 0; i < e->nargs; i++)
      idx[i] = tt_simp(s, e->args[i]);
    loads[o] = tt_load(s->arena, e->tensor, e->nargs, idx);
  }
  return tt_instruction(s->arena, st->intrin, st->op, st->vars, st->nidx, loads,
                        body);
}

static const struct tt_stmt *
simp_seq(struct tt_simp *s, const struct tt_stmt *st)
{
  const struct tt_stmt **items =
      TT_ARRAY(s->arena, const struct tt_stmt *, (size_t)st->nitems);
  for (int i = 0; i < st->nitems; i++) {
    items[i] = stmt(s, st->items[i]);
    if (is_empty(items[i]))
      items[i] = NULL;
  }
  return tt_seq(s->arena, st->nitems, items);
}

static const struct tt_stmt *
stmt(struct tt_simp *s, const struct tt_stmt *st)
{
  const struct tt_stmt *r = st;
  switch (st->kind) {
  case TT_FOR:
    r = stmt(s, st->body);
    /* A variable of extent 1 has become 0 everywhere.  (A loop of one block
     * still says that what is in it is one kernel.) */
    if (!is_empty(r) && (st->var->extent > 1 || tt_is_block(st->for_kind)))
      r = tt_for(s->arena, st->for_kind, st->lanes, st->var, r);
    break;
  case TT_STORE:
    r = simp_store(s, st);
    break;
  case TT_PREFETCH:
    r = simp_prefetch(s, st);
    break;
  case TT_INTRIN:
    r = simp_intrin(s, st);
    break;
  case TT_IF:
    r = simp_if(s, st);
    break;
  case TT_SEQ:
    r = simp_seq(s, st);
    break;
  case TT_ALLOC:
    r = stmt(s, st->body);
    if (!is_empty(r))
      r = tt_alloc_stmt(s->arena, st->tensor, r);
    break;
  }
  return commented(s, st, r);
}

const struct tt_stmt *
tt_simplify_stmt(struct tt_arena *arena, const struct tt_stmt *st)
{
  struct tt_simp s = {.arena = arena};
  st = stmt(&s, st);
  tt_factset_free(&s.facts);
  return st;
}
