/* Facts and proofs of conditions.
 *
 * Integer comparisons become linear forms that are >= 0; all conditions are
 * also kept as they are written, to be recognized.
 */
#include "config.h"

#include "ir/bounds.h"

#include <stdlib.h>

enum { BUDGET = 4096 };

/* ---- conditions -------------------------------------------------------- */

static bool
is_int_comparison(const struct tt_expr *e)
{
  if (e->kind != TT_BINARY || tt_dtype_is_float(e->a->type.dtype))
    return false;
  return e->op == TT_EQ || e->op == TT_NE || e->op == TT_LT || e->op == TT_GT ||
         e->op == TT_LE || e->op == TT_GE;
}

/* a - b of a comparison, when both sides are what they seem. */
static bool
difference(struct tt_bounds_ctx *x, const struct tt_expr *e,
           struct tt_linear *d)
{
  struct tt_linear a = tt_linear_of(x, e->a), b = tt_linear_of(x, e->b);
  if (!tt_linear_is_exact(&a, tt_linear_range(x->facts, &a)) ||
      !tt_linear_is_exact(&b, tt_linear_range(x->facts, &b)))
    return false;
  *d = tt_linear_combine(&a, -1, &b);
  return d->ok;
}

static enum tt_binop
negated_op(enum tt_binop op)
{
  switch (op) {
  case TT_EQ:
    return TT_NE;
  case TT_NE:
    return TT_EQ;
  case TT_LT:
    return TT_GE;
  case TT_GE:
    return TT_LT;
  case TT_GT:
    return TT_LE;
  case TT_LE:
    return TT_GT;
  case TT_OR:
  case TT_AND:
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
  case TT_SHL:
  case TT_SHR:
  case TT_ADD:
  case TT_SUB:
  case TT_MUL:
  case TT_DIV:
  case TT_MOD:
  case TT_MIN:
  case TT_MAX:
  case TT_NBINOPS:
    break;
  }
  return op;
}

static void
push_comparison(struct tt_factset *facts, const struct tt_expr *e, bool negated)
{
  struct tt_bounds_ctx x = {facts, BUDGET};
  struct tt_linear d;
  if (e->type.lanes > 1 || !difference(&x, e, &d))
    return;
  tt_linear_push_quotients(&x, &d);
  enum tt_binop op = negated ? negated_op(e->op) : e->op;
  if (op == TT_LT || op == TT_LE)
    tt_factset_push_form(facts, -1, &d, op == TT_LT ? -1 : 0);
  else if (op == TT_GT || op == TT_GE)
    tt_factset_push_form(facts, 1, &d, op == TT_GT ? -1 : 0);
  else if (op == TT_EQ) {
    tt_factset_push_form(facts, 1, &d, 0);
    tt_factset_push_form(facts, -1, &d, 0);
  } else {
    /* Not zero: a bound moves when zero is at the end. */
    struct tt_range r = tt_linear_range(facts, &d);
    if (r.lo == 0)
      tt_factset_push_form(facts, 1, &d, -1);
    if (r.hi == 0)
      tt_factset_push_form(facts, -1, &d, -1);
  }
}

struct tt_fact_mark
tt_factset_mark(const struct tt_factset *facts)
{
  return (struct tt_fact_mark){facts->forms.n, facts->conds.n};
}

void
tt_factset_pop(struct tt_factset *facts, struct tt_fact_mark mark)
{
  facts->forms.n = mark.forms;
  facts->conds.n = mark.conds;
}

void
tt_factset_free(struct tt_factset *facts)
{
  free(facts->forms.items);
  free(facts->conds.items);
  *facts = (struct tt_factset){0};
}

void
tt_factset_push(struct tt_factset *facts, const struct tt_expr *cond,
                bool negated)
{
  if (cond->kind == TT_NOT) {
    tt_factset_push(facts, cond->a, !negated);
    return;
  }
  if (cond->kind == TT_BINARY && cond->op == (negated ? TT_OR : TT_AND)) {
    tt_factset_push(facts, cond->a, negated);
    tt_factset_push(facts, cond->b, negated);
    return;
  }
  if (is_int_comparison(cond))
    push_comparison(facts, cond, negated);
  struct tt_facts known = {.cond = cond, .negated = negated};
  TT_PUSH(facts->conds, known);
}

void
tt_factset_push_chain(struct tt_factset *facts, const struct tt_facts *chain)
{
  if (!chain)
    return;
  tt_factset_push_chain(facts, chain->outer);
  tt_factset_push(facts, chain->cond, chain->negated);
}

/* ---- proofs ------------------------------------------------------------ */

/* Can d be 0 at all, given that every term is an integer? */
static bool
divisible(const struct tt_linear *d)
{
  int64_t g = 0;
  for (int i = 0; i < d->n; i++)
    g = tt_gcd(g, d->t[i].k);
  return g == 0 ? d->c0 == 0 : tt_rem(d->c0, g) == 0;
}

static int
prove_comparison(struct tt_bounds_ctx *x, const struct tt_expr *e)
{
  struct tt_linear d;
  if (!difference(x, e, &d))
    return -1;
  struct tt_range r = tt_linear_bounds(x, &d);
  switch (e->op) {
  case TT_LT:
    return r.hi < 0 ? 1 : r.lo >= 0 ? 0 : -1;
  case TT_LE:
    return r.hi <= 0 ? 1 : r.lo > 0 ? 0 : -1;
  case TT_GT:
    return r.lo > 0 ? 1 : r.hi <= 0 ? 0 : -1;
  case TT_GE:
    return r.lo >= 0 ? 1 : r.hi < 0 ? 0 : -1;
  case TT_EQ:
  case TT_NE: {
    bool never = r.lo > 0 || r.hi < 0 || !divisible(&d);
    bool always = r.lo == 0 && r.hi == 0;
    if (!never && !always)
      return -1;
    return (e->op == TT_EQ) == always;
  }
  case TT_OR:
  case TT_AND:
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
  case TT_SHL:
  case TT_SHR:
  case TT_ADD:
  case TT_SUB:
  case TT_MUL:
  case TT_DIV:
  case TT_MOD:
  case TT_MIN:
  case TT_MAX:
  case TT_NBINOPS:
    break;
  }
  return -1;
}

/* Is the condition, or its opposite, written among the facts? */
static int
look_up(const struct tt_factset *facts, const struct tt_expr *e)
{
  for (int i = facts->conds.n - 1; i >= 0; i--) {
    const struct tt_facts *f = &facts->conds.items[i];
    if (tt_expr_equal(f->cond, e))
      return !f->negated;
  }
  return -1;
}

static int
prove(struct tt_bounds_ctx *x, const struct tt_expr *e)
{
  if (x->budget-- <= 0)
    return -1;
  if (e->kind == TT_INT)
    return e->ival != 0;
  if (e->kind == TT_BROADCAST)
    return prove(x, e->a);
  if (e->kind == TT_NOT) {
    int r = prove(x, e->a);
    return r < 0 ? r : !r;
  }
  if (e->kind == TT_BINARY && (e->op == TT_AND || e->op == TT_OR)) {
    int settles = e->op == TT_OR;
    int a = prove(x, e->a), b = prove(x, e->b);
    if (a == settles || b == settles)
      return settles;
    return a < 0 || b < 0 ? -1 : !settles;
  }
  int known = look_up(x->facts, e);
  return known < 0 && is_int_comparison(e) ? prove_comparison(x, e) : known;
}

int
tt_prove_in(struct tt_factset *facts, const struct tt_expr *cond, int budget)
{
  struct tt_bounds_ctx x = {facts, budget};
  return prove(&x, cond);
}

/* ---- the public face --------------------------------------------------- */

struct tt_interval
tt_bounds(const struct tt_expr *e, const struct tt_facts *chain)
{
  struct tt_factset facts = {0};
  tt_factset_push_chain(&facts, chain);
  struct tt_interval r = tt_bounds_in(&facts, e, BUDGET);
  tt_factset_free(&facts);
  return r;
}

int
tt_prove(const struct tt_expr *cond, const struct tt_facts *chain)
{
  struct tt_factset facts = {0};
  tt_factset_push_chain(&facts, chain);
  int r = tt_prove_in(&facts, cond, BUDGET);
  tt_factset_free(&facts);
  return r;
}
