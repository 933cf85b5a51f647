/* reciprocal: divisions by what stays the same in a loop become products with
 * a reciprocal, which is computed once before the loop.
 *
 *   a / b  =  a * (1 / (b * p)) * p      p a power of two, 1 for most b
 *
 * p keeps the reciprocal of a very large or small b among the normal numbers,
 * so that the result is within 1.5 units in the last place for every b.
 * Only divisions whose result stays in arithmetic of floats are replaced: what
 * is compared, rounded or converted to an integer could jump.
 */
#include "config.h"

#include "ir/passes.h"
#include "schedule/state.h"

#include <math.h>

struct replacing {
  struct tt_schedule *s;
  const struct tt_stage_schedule *ss;
  int loop;
  int found;
};

static bool
stays_the_same(const struct replacing *r, const struct tt_expr *e)
{
  int naxes = r->ss->stage->nspatial + r->ss->stage->nreduce;
  for (int a = 0; a < naxes; a++)
    if (tt_loop_uses_axis(r->ss, r->loop, r->ss->loops[a].axis) &&
        tt_expr_uses_var(e, r->ss->loops[a].axis))
      return false;
  return true;
}

/* 2^exponent where b is at least that of `large`, 2^-exponent where it is less
 * than that of `small`, else 1. */
static const struct tt_expr *
scale_of(struct tt_arena *ar, const struct tt_expr *b)
{
  enum tt_dtype t = b->type.dtype;
  int limit = t == TT_F64 ? 1021 : 125, shift = t == TT_F64 ? 512 : 64;
  const struct tt_expr *size = tt_call(ar, TT_FN_ABS, t, 1, &b);
  return tt_select(
      ar, tt_binary(ar, TT_GE, size, tt_flt(ar, t, ldexp(1, limit))),
      tt_flt(ar, t, ldexp(1, -shift)),
      tt_select(ar, tt_binary(ar, TT_LT, size, tt_flt(ar, t, ldexp(1, -limit))),
                tt_flt(ar, t, ldexp(1, shift)), tt_flt(ar, t, 1)));
}

static const struct tt_expr *
as_product(struct tt_arena *ar, const struct tt_expr *a,
           const struct tt_expr *b)
{
  enum tt_dtype t = b->type.dtype;
  const struct tt_expr *one = tt_flt(ar, t, 1);
  if (b->kind == TT_FLT) {
    double size = fabs(b->fval), limit = t == TT_F64 ? 1021 : 125;
    if (!(size < ldexp(1, (int)limit) && size >= ldexp(1, -(int)limit)))
      return NULL;
    double r = 1 / b->fval;
    return tt_binary(ar, TT_MUL, a,
                     tt_flt(ar, t, t == TT_F64 ? r : (double)(float)r));
  }
  const struct tt_expr *p = scale_of(ar, b);
  const struct tt_expr *r =
      tt_binary(ar, TT_DIV, one, tt_binary(ar, TT_MUL, b, p));
  return tt_binary(ar, TT_MUL, tt_binary(ar, TT_MUL, a, r), p);
}

static const struct tt_expr *replace(struct replacing *,
                                     const struct tt_expr *);

static const struct tt_expr *
replace_binary(struct replacing *r, const struct tt_expr *e)
{
  struct tt_arena *ar = r->s->arena;
  if (e->op != TT_ADD && e->op != TT_SUB && e->op != TT_MUL &&
      e->op != TT_DIV && e->op != TT_MIN && e->op != TT_MAX)
    return e;
  const struct tt_expr *a = replace(r, e->a);
  if (e->op == TT_DIV && stays_the_same(r, e->b) && !stays_the_same(r, e->a)) {
    const struct tt_expr *product = as_product(ar, a, e->b);
    if (product) {
      r->found++;
      return product;
    }
  }
  const struct tt_expr *b = replace(r, e->b);
  return a == e->a && b == e->b ? e : tt_binary(ar, e->op, a, b);
}

/* Functions whose results do not jump. */
static bool
is_smooth(enum tt_fn fn)
{
  return fn == TT_FN_EXP || fn == TT_FN_LOG || fn == TT_FN_SQRT ||
         fn == TT_FN_RSQRT || fn == TT_FN_TANH || fn == TT_FN_SIGMOID ||
         fn == TT_FN_ERF || fn == TT_FN_ABS;
}

static const struct tt_expr *
replace(struct replacing *r, const struct tt_expr *e)
{
  struct tt_arena *ar = r->s->arena;
  enum tt_dtype t = e->type.dtype;
  if (t != TT_F32 && t != TT_F64)
    return e;
  switch (e->kind) {
  case TT_BINARY:
    return replace_binary(r, e);
  case TT_NEG: {
    const struct tt_expr *a = replace(r, e->a);
    return a == e->a ? e : tt_neg(ar, a);
  }
  case TT_CAST: {
    const struct tt_expr *a = replace(r, e->a);
    return a == e->a ? e : tt_cast(ar, t, a);
  }
  case TT_SELECT: {
    const struct tt_expr *a = replace(r, e->a), *b = replace(r, e->b);
    return a == e->a && b == e->b ? e : tt_select(ar, e->c, a, b);
  }
  case TT_CALL: {
    if (!is_smooth(e->fn))
      return e;
    const struct tt_expr *a = replace(r, e->args[0]);
    return a == e->args[0] ? e : tt_call(ar, e->fn, t, 1, &a);
  }
  case TT_INT:
  case TT_FLT:
  case TT_VAR:
  case TT_LOAD:
  case TT_NOT:
  case TT_SAT:
  case TT_RAMP:
  case TT_BROADCAST:
    break;
  }
  return e;
}

bool
tt_reciprocal(struct tt_schedule *s, int stage, int loop)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  const char *name = tt_stage_name(s, stage);
  if (!tt_need_leaf(s, stage, loop))
    return false;
  if (s->strict_fp)
    return tt_refuse(s,
                     "--strict-fp: a reciprocal in %s would change the "
                     "rounding of a division",
                     name);
  if (ss->stage->red != TT_RED_NONE && ss->stage->red != TT_RED_SUM)
    return tt_refuse(s, "%s is neither elementwise nor a sum", name);
  if (ss->place == TT_INLINE)
    return tt_refuse(s, "%s is inlined", name);
  struct replacing r = {s, ss, loop, 0};
  enum tt_dtype out = ss->stage->out->dtype;
  const struct tt_expr *value =
      tt_dtype_is_float(out) ? replace(&r, ss->value) : ss->value;
  if (!r.found)
    return tt_refuse(s,
                     "no float of %s is divided by what stays the same in %s",
                     name, ss->loops[loop].name);
  ss->value = value;
  tt_record(s, stage, "reciprocal", "l", ss->loops[loop].name);
  return true;
}
