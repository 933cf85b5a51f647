/* Arithmetic on constants, in the language's meaning (ir/types.h), and the
 * value of index expressions at a point.
 *
 * Folding never makes an infinity or a NaN and never divides by zero: such
 * expressions are left as they are.
 */
#include "config.h"

#include "frontend/sema.h"

#include <math.h>

bool
tt_is_const(const struct tt_expr *e)
{
  return e->kind == TT_INT || e->kind == TT_FLT;
}

bool
tt_fold_int(enum tt_binop op, enum tt_dtype t, int64_t a, int64_t b,
            int64_t *out)
{
  uint64_t ua = (uint64_t)a, ub = (uint64_t)b;
  int bits = tt_dtype_bits(t);

  switch (op) {
  case TT_OR:
    *out = a || b;
    return true;
  case TT_AND:
    *out = a && b;
    return true;
  case TT_EQ:
    *out = a == b;
    return true;
  case TT_NE:
    *out = a != b;
    return true;
  case TT_LT:
    *out = a < b;
    return true;
  case TT_GT:
    *out = a > b;
    return true;
  case TT_LE:
    *out = a <= b;
    return true;
  case TT_GE:
    *out = a >= b;
    return true;
  case TT_BOR:
    *out = a | b;
    return true;
  case TT_BXOR:
    *out = a ^ b;
    return true;
  case TT_BAND:
    *out = a & b;
    return true;
  case TT_SHL:
    *out = b < 0 || b >= bits ? 0 : tt_wrap(t, (int64_t)(ua << b));
    return b >= 0 && b < bits;
  case TT_SHR:
    *out = b < 0 || b >= bits ? 0 : a >> b;
    return b >= 0 && b < bits;
  case TT_ADD:
    *out = tt_wrap(t, (int64_t)(ua + ub));
    return true;
  case TT_SUB:
    *out = tt_wrap(t, (int64_t)(ua - ub));
    return true;
  case TT_MUL:
    *out = tt_wrap(t, (int64_t)(ua * ub));
    return true;
  case TT_DIV:
    *out = b ? tt_wrap(t, tt_floordiv(a, b)) : 0;
    return b != 0;
  case TT_MOD:
    *out = b ? tt_wrap(t, tt_floormod(a, b)) : 0;
    return b != 0;
  case TT_MIN:
    *out = a < b ? a : b;
    return true;
  case TT_MAX:
    *out = a > b ? a : b;
    return true;
  case TT_NBINOPS:
    break;
  }
  return false;
}

static bool
is_comparison(enum tt_binop op)
{
  return op == TT_EQ || op == TT_NE || op == TT_LT || op == TT_GT ||
         op == TT_LE || op == TT_GE;
}

static bool
compare_floats(enum tt_binop op, double a, double b)
{
  return op == TT_EQ   ? a == b
         : op == TT_NE ? a != b
         : op == TT_LT ? a < b
         : op == TT_GT ? a > b
         : op == TT_LE ? a <= b
                       : a >= b;
}

static const struct tt_expr *
fold_float(struct tt_arena *arena, enum tt_binop op, enum tt_dtype t, double a,
           double b)
{
  double v;

  if (is_comparison(op))
    return tt_bool(arena, compare_floats(op, a, b));
  if (op == TT_ADD)
    v = a + b;
  else if (op == TT_SUB)
    v = a - b;
  else if (op == TT_MUL)
    v = a * b;
  else if (op == TT_DIV && b != 0)
    v = a / b;
  else if (op == TT_MIN)
    v = a < b ? a : b;
  else if (op == TT_MAX)
    v = a > b ? a : b;
  else
    return NULL;
  v = tt_round_float(t, v);
  return isfinite(v) ? tt_flt(arena, t, v) : NULL;
}

/* Index arithmetic with a neutral constant, so that x*1 + 0 is x. */
static const struct tt_expr *
neutral(struct tt_arena *arena, enum tt_binop op, const struct tt_expr *a,
        const struct tt_expr *b)
{
  if (op == TT_ADD)
    return tt_iadd(arena, a, b);
  if (op == TT_SUB)
    return tt_isub(arena, a, b);
  if (op == TT_MUL && b->kind == TT_INT)
    return tt_imul(arena, a, b->ival);
  if (op == TT_MUL && a->kind == TT_INT)
    return tt_imul(arena, b, a->ival);
  if (op == TT_DIV && b->kind == TT_INT && b->ival != 0)
    return tt_idiv(arena, a, b->ival);
  if (op == TT_MOD && b->kind == TT_INT && b->ival != 0)
    return tt_imod(arena, a, b->ival);
  return tt_binary(arena, op, a, b);
}

const struct tt_expr *
tt_fold_binary(struct tt_arena *arena, enum tt_binop op,
               const struct tt_expr *a, const struct tt_expr *b)
{
  enum tt_dtype t = a->type.dtype;
  const struct tt_expr *e = NULL;
  int64_t v;

  if (op == TT_AND && a->kind == TT_INT)
    return a->ival ? b : a;
  if (op == TT_OR && a->kind == TT_INT)
    return a->ival ? a : b;
  if (op == TT_AND && tt_is_int(b, 1))
    return a;
  if (op == TT_OR && tt_is_int(b, 0))
    return a;
  if (a->kind == TT_INT && b->kind == TT_INT &&
      tt_fold_int(op, t, a->ival, b->ival, &v))
    return is_comparison(op) ? tt_bool(arena, v) : tt_int(arena, t, v);
  if (a->kind == TT_FLT && b->kind == TT_FLT)
    e = fold_float(arena, op, t, a->fval, b->fval);
  if (e)
    return e;
  return t == TT_I64 ? neutral(arena, op, a, b) : tt_binary(arena, op, a, b);
}

static const struct tt_expr *
fold_conversion(struct tt_arena *arena, bool saturate, enum tt_dtype t,
                const struct tt_expr *a)
{
  bool from_float = a->kind == TT_FLT;
  double f = from_float ? a->fval : (double)a->ival;
  int64_t i;

  if (tt_dtype_is_float(t)) {
    /* An i64 rounds once, to the type, not first to f64. */
    f = tt_round_float(t, t == TT_F32 && !from_float ? (float)a->ival : f);
    return isfinite(f) ? tt_flt(arena, t, f) : NULL;
  }
  if (t == TT_BOOL)
    return tt_bool(arena, from_float ? f != 0 : a->ival != 0);
  i = from_float ? tt_f2i(f) : a->ival;
  return tt_int(arena, t, saturate ? tt_saturate(t, i) : tt_wrap(t, i));
}

const struct tt_expr *
tt_fold_unary(struct tt_arena *arena, enum tt_expr_kind kind, enum tt_dtype t,
              const struct tt_expr *a)
{
  const struct tt_expr *e = NULL;

  if (kind == TT_NEG) {
    if (a->kind == TT_INT)
      return tt_int(arena, t, (int64_t)(0 - (uint64_t)a->ival));
    if (a->kind == TT_FLT)
      return tt_flt(arena, t, -a->fval);
    return tt_neg(arena, a);
  }
  if (kind == TT_NOT) {
    if (a->kind == TT_INT)
      return tt_int(arena, t, t == TT_BOOL ? !a->ival : ~a->ival);
    return tt_not(arena, a);
  }
  if (tt_is_const(a))
    e = fold_conversion(arena, kind == TT_SAT, t, a);
  if (e)
    return e;
  return kind == TT_SAT ? tt_sat(arena, t, a) : tt_cast(arena, t, a);
}

static bool
fold_float_call(enum tt_fn fn, double a, double b, double *v)
{
  switch (fn) {
  case TT_FN_EXP:
    *v = exp(a);
    break;
  case TT_FN_LOG:
    *v = log(a);
    break;
  case TT_FN_SQRT:
    *v = sqrt(a);
    break;
  case TT_FN_RSQRT:
    *v = 1 / sqrt(a);
    break;
  case TT_FN_TANH:
    *v = tanh(a);
    break;
  case TT_FN_SIGMOID:
    *v = 1 / (1 + exp(-a));
    break;
  case TT_FN_ERF:
    *v = erf(a);
    break;
  case TT_FN_ABS:
    *v = fabs(a);
    break;
  case TT_FN_FLOOR:
    *v = floor(a);
    break;
  case TT_FN_CEIL:
    *v = ceil(a);
    break;
  case TT_FN_ROUND:
    *v = round(a);
    break;
  case TT_FN_POW:
    *v = pow(a, b);
    break;
  case TT_FN_QUOT:
  case TT_FN_REM:
  case TT_FN_SQRDMULH:
  case TT_FN_RDIVP2:
  case TT_NFNS:
    return false;
  }
  return true;
}

static bool
fold_int_call(enum tt_fn fn, int64_t a, int64_t b, int64_t *v)
{
  if (fn == TT_FN_ABS)
    *v = a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
  else if (fn == TT_FN_QUOT && b != 0)
    *v = tt_quot(a, b);
  else if (fn == TT_FN_REM && b != 0)
    *v = tt_rem(a, b);
  else if (fn == TT_FN_SQRDMULH)
    *v = tt_sqrdmulh((int32_t)a, (int32_t)b);
  else if (fn == TT_FN_RDIVP2 && b >= 0 && b <= 31)
    *v = tt_rdivp2((int32_t)a, (int)b);
  else
    return false;
  return true;
}

const struct tt_expr *
tt_fold_call(struct tt_arena *arena, enum tt_fn fn, enum tt_dtype t, int n,
             const struct tt_expr *const *args)
{
  const struct tt_expr *a = args[0], *b = args[n - 1];
  double f = 0;
  int64_t i = 0;

  if (a->kind == TT_INT && b->kind == TT_INT &&
      fold_int_call(fn, a->ival, b->ival, &i))
    return tt_int(arena, t, tt_wrap(t, i));
  if (a->kind == TT_FLT && b->kind == TT_FLT &&
      fold_float_call(fn, a->fval, b->fval, &f)) {
    f = tt_round_float(t, f);
    if (isfinite(f))
      return tt_flt(arena, t, f);
  }
  return tt_call(arena, fn, t, n, args);
}

/* ---- evaluation at a point --------------------------------------------- */

static bool
eval_binary(const struct tt_expr *e, const struct tt_point *p, int64_t *out)
{
  int64_t a, b;
  bool known = tt_eval_at(e->a, p, &a);

  /* A false side decides though the other depends on data. */
  if (e->op == TT_AND || e->op == TT_OR) {
    int64_t decides = e->op == TT_OR;
    if (known && a == decides) {
      *out = a;
      return true;
    }
    if (!tt_eval_at(e->b, p, &b))
      return false;
    *out = b;
    return known || b == decides;
  }
  if (!known || !tt_eval_at(e->b, p, &b) || tt_dtype_is_float(e->a->type.dtype))
    return false;
  return tt_fold_int(e->op, e->a->type.dtype, a, b, out);
}

static bool
eval_unary(const struct tt_expr *e, const struct tt_point *p, int64_t *out)
{
  enum tt_dtype t = e->type.dtype;
  int64_t a;

  if (tt_dtype_is_float(t) || tt_dtype_is_float(e->a->type.dtype) ||
      !tt_eval_at(e->a, p, &a))
    return false;
  if (e->kind == TT_NEG)
    *out = tt_wrap(t, (int64_t)(0 - (uint64_t)a));
  else if (e->kind == TT_NOT)
    *out = t == TT_BOOL ? !a : tt_wrap(t, ~a);
  else if (e->kind == TT_SAT)
    *out = tt_saturate(t, a);
  else
    *out = tt_wrap(t, a);
  return true;
}

static bool
eval_load(const struct tt_expr *e, const struct tt_point *p, int64_t *out)
{
  int64_t at = 0, v;

  if (!e->tensor->idata)
    return false;
  for (int i = 0; i < e->nargs; i++) {
    if (!tt_eval_at(e->args[i], p, &v) || v < 0 || v >= e->tensor->dims[i])
      return false;
    at = at * e->tensor->dims[i] + v;
  }
  *out = e->tensor->idata[at];
  return true;
}

bool
tt_eval_at(const struct tt_expr *e, const struct tt_point *p, int64_t *out)
{
  int64_t a, b;

  switch (e->kind) {
  case TT_INT:
    *out = e->ival;
    return true;
  case TT_VAR:
    for (int i = 0; i < p->n; i++)
      if (p->vars[i] == e->var) {
        *out = p->values[i];
        return true;
      }
    return false;
  case TT_LOAD:
    return eval_load(e, p, out);
  case TT_BINARY:
    return eval_binary(e, p, out);
  case TT_NEG:
  case TT_NOT:
  case TT_CAST:
  case TT_SAT:
    return eval_unary(e, p, out);
  case TT_SELECT:
    return tt_eval_at(e->c, p, &a) && tt_eval_at(a ? e->a : e->b, p, out);
  case TT_CALL:
    if (tt_dtype_is_float(e->type.dtype) || !tt_eval_at(e->args[0], p, &a) ||
        !tt_eval_at(e->args[e->nargs - 1], p, &b) ||
        !fold_int_call(e->fn, a, b, out))
      return false;
    *out = tt_wrap(e->type.dtype, *out);
    return true;
  case TT_FLT:
  case TT_RAMP:
  case TT_BROADCAST:
    return false;
  }
  return false;
}
