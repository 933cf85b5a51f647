/* Sums of products of narrow integers: facts for rules that bring neighbours
 * of the reduction into one lane, for machines that multiply and add them in
 * one step. */
#include "config.h"

#include "schedule/analysis.h"

#include "ir/passes.h"

static bool
fits(const struct tt_expr *e, int64_t lo, int64_t hi)
{
  struct tt_interval b = tt_bounds(e, NULL);
  return b.ok && b.lo >= lo && b.hi <= hi;
}

static bool
is_constant(const struct tt_expr *e)
{
  return e->kind == TT_INT;
}

/* The load that a factor is, perhaps with a constant added; NULL: it is
 * something else.  A border that a padded copy provides is no difference. */
static const struct tt_expr *
load_of(const struct tt_expr *e)
{
  if (e->kind == TT_BINARY && (e->op == TT_ADD || e->op == TT_SUB) &&
      is_constant(e->b))
    e = e->a;
  else if (e->kind == TT_BINARY && e->op == TT_ADD && is_constant(e->a))
    e = e->b;
  if (e->kind == TT_CAST)
    e = e->a;
  if (e->kind == TT_SELECT && is_constant(e->b))
    e = e->a;
  return e->kind == TT_LOAD ? e : NULL;
}

/* The product that is summed, in i32 even if the sum is not. */
static const struct tt_expr *
product_of(const struct tt_stage *st)
{
  const struct tt_expr *v = st->value;
  if (st->out->dtype == TT_I64 && v->kind == TT_CAST)
    v = v->a;
  return v->kind == TT_BINARY && v->op == TT_MUL && v->type.dtype == TT_I32
             ? v
             : NULL;
}

int
tt_product_group(const struct tt_stage *st)
{
  const struct tt_expr *v = product_of(st);
  if (st->red != TT_RED_SUM || st->where || !v)
    return 0;
  int n = 4;
  const struct tt_expr *factors[2] = {v->a, v->b};
  for (int i = 0; i < 2; i++) {
    const struct tt_expr *f = factors[i], *load = load_of(f);
    if (!fits(f, INT16_MIN, INT16_MAX))
      return 0;
    bool bytes = fits(f, INT8_MIN, INT8_MAX) || fits(f, 0, UINT8_MAX);
    if (!bytes || !load || tt_dtype_bytes(load->type.dtype) > 1)
      n = 2;
  }
  return n;
}

const struct tt_tensor *
tt_product_vector(struct tt_arena *arena, const struct tt_stage *st, int axis)
{
  const struct tt_tensor *found = NULL;
  const struct tt_expr *v = product_of(st);
  const struct tt_expr *factors[2] = {v->a, v->b};
  for (int i = 0; i < 2; i++) {
    const struct tt_expr *load = load_of(factors[i]);
    struct tt_access acc[TT_MAX_ACCESSES];
    int n = tt_accesses(arena, st, factors[i], acc);
    bool depends = false;
    for (int j = 0; j < n; j++)
      depends = depends || acc[j].stride[axis] != 0;
    if (!depends)
      continue;
    if (!load || found || load->tensor->role == TT_CONST)
      return NULL;
    found = load->tensor;
  }
  return found;
}
