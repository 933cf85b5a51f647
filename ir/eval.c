/* The value of one operation in the language's arithmetic.
 *
 * Invariant: numbers are always in range of, or rounded to, their type, on the
 * way in and on the way out.  Functions of the library are computed in double
 * and rounded once.
 */
#include "config.h"

#include "ir/eval.h"

#include <math.h>

static bool
eval_float(enum tt_binop op, enum tt_dtype t, double a, double b,
           union tt_number *out)
{
  switch (op) {
  case TT_ADD:
    out->f = tt_round_float(t, a + b);
    return true;
  case TT_SUB:
    out->f = tt_round_float(t, a - b);
    return true;
  case TT_MUL:
    out->f = tt_round_float(t, a * b);
    return true;
  case TT_DIV:
    out->f = tt_round_float(t, a / b);
    return true;
  case TT_MOD:
    out->f = tt_round_float(t, a - floor(a / b) * b);
    return true;
  case TT_MIN:
    out->f = a < b ? a : b;
    return true;
  case TT_MAX:
    out->f = a > b ? a : b;
    return true;
  case TT_EQ:
    out->i = a == b;
    return true;
  case TT_NE:
    out->i = a != b;
    return true;
  case TT_LT:
    out->i = a < b;
    return true;
  case TT_GT:
    out->i = a > b;
    return true;
  case TT_LE:
    out->i = a <= b;
    return true;
  case TT_GE:
    out->i = a >= b;
    return true;
  case TT_OR:
  case TT_AND:
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
  case TT_SHL:
  case TT_SHR:
  case TT_NBINOPS:
    break;
  }
  return false;
}

/* The result before it is wrapped; 64 bits wrap by themselves. */
static bool
eval_int(enum tt_binop op, enum tt_dtype t, int64_t a, int64_t b, int64_t *r)
{
  bool shift_ok = b >= 0 && b < tt_dtype_bits(t);
  switch (op) {
  case TT_ADD:
    *r = (int64_t)((uint64_t)a + (uint64_t)b);
    return true;
  case TT_SUB:
    *r = (int64_t)((uint64_t)a - (uint64_t)b);
    return true;
  case TT_MUL:
    *r = (int64_t)((uint64_t)a * (uint64_t)b);
    return true;
  case TT_DIV:
    *r = b ? tt_floordiv(a, b) : 0;
    return b != 0;
  case TT_MOD:
    *r = b ? tt_floormod(a, b) : 0;
    return b != 0;
  case TT_MIN:
    *r = a < b ? a : b;
    return true;
  case TT_MAX:
    *r = a > b ? a : b;
    return true;
  case TT_EQ:
    *r = a == b;
    return true;
  case TT_NE:
    *r = a != b;
    return true;
  case TT_LT:
    *r = a < b;
    return true;
  case TT_GT:
    *r = a > b;
    return true;
  case TT_LE:
    *r = a <= b;
    return true;
  case TT_GE:
    *r = a >= b;
    return true;
  case TT_OR:
    *r = a || b;
    return true;
  case TT_AND:
    *r = a && b;
    return true;
  case TT_BOR:
    *r = a | b;
    return true;
  case TT_BXOR:
    *r = a ^ b;
    return true;
  case TT_BAND:
    *r = a & b;
    return true;
  case TT_SHL:
    *r = shift_ok ? (int64_t)((uint64_t)a << b) : 0;
    return shift_ok;
  case TT_SHR:
    *r = shift_ok ? a >> b : 0;
    return shift_ok;
  case TT_NBINOPS:
    break;
  }
  return false;
}

bool
tt_eval_binary(enum tt_binop op, enum tt_dtype t, union tt_number a,
               union tt_number b, union tt_number *out)
{
  if (tt_dtype_is_float(t))
    return eval_float(op, t, a.f, b.f, out);
  int64_t r;
  bool ok = eval_int(op, t, a.i, b.i, &r);
  /* A comparison's 0 or 1 fits every type. */
  out->i = ok ? tt_wrap(t, r) : 0;
  return ok;
}

static double
eval_function(enum tt_fn fn, double a, double b)
{
  switch (fn) {
  case TT_FN_EXP:
    return exp(a);
  case TT_FN_LOG:
    return log(a);
  case TT_FN_SQRT:
    return sqrt(a);
  case TT_FN_RSQRT:
    return 1 / sqrt(a);
  case TT_FN_TANH:
    return tanh(a);
  case TT_FN_SIGMOID:
    return 1 / (1 + exp(-a));
  case TT_FN_ERF:
    return erf(a);
  case TT_FN_ABS:
    return fabs(a);
  case TT_FN_FLOOR:
    return floor(a);
  case TT_FN_CEIL:
    return ceil(a);
  case TT_FN_ROUND:
    return round(a);
  case TT_FN_POW:
    return pow(a, b);
  case TT_FN_QUOT:
    return trunc(a / b);
  case TT_FN_REM:
    return fmod(a, b);
  case TT_FN_SQRDMULH:
  case TT_FN_RDIVP2:
  case TT_NFNS:
    break;
  }
  return NAN;
}

/* a to the power b, wrapping; b < 0 gives 0 save for 1 and -1. */
static int64_t
int_pow(int64_t a, int64_t b)
{
  if (b < 0)
    return a == 1 ? 1 : a == -1 ? (b & 1 ? -1 : 1) : 0;
  uint64_t r = 1, base = (uint64_t)a;
  for (; b; b >>= 1, base *= base)
    if (b & 1)
      r *= base;
  return (int64_t)r;
}

bool
tt_eval_call(enum tt_fn fn, enum tt_dtype t, const union tt_number *args,
             union tt_number *out)
{
  bool two = tt_fn_nargs(fn) == 2;
  if (tt_dtype_is_float(t)) {
    out->f =
        tt_round_float(t, eval_function(fn, args[0].f, two ? args[1].f : 0));
    return true;
  }
  int64_t a = args[0].i, b = two ? args[1].i : 0, r = 0;
  bool ok = true;
  switch (fn) {
  case TT_FN_ABS:
    r = a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    break;
  case TT_FN_POW:
    r = int_pow(a, b);
    break;
  case TT_FN_QUOT:
    ok = b != 0;
    r = ok ? tt_quot(a, b) : 0;
    break;
  case TT_FN_REM:
    ok = b != 0;
    r = ok ? tt_rem(a, b) : 0;
    break;
  case TT_FN_SQRDMULH:
    r = tt_sqrdmulh((int32_t)a, (int32_t)b);
    break;
  case TT_FN_RDIVP2:
    ok = b >= 0 && b <= 31;
    r = ok ? tt_rdivp2((int32_t)a, (int)b) : 0;
    break;
  case TT_FN_FLOOR:
  case TT_FN_CEIL:
  case TT_FN_ROUND:
    r = a;
    break;
  case TT_FN_EXP:
  case TT_FN_LOG:
  case TT_FN_SQRT:
  case TT_FN_RSQRT:
  case TT_FN_TANH:
  case TT_FN_SIGMOID:
  case TT_FN_ERF:
  case TT_NFNS:
    ok = false;
    break;
  }
  out->i = tt_wrap(t, r);
  return ok;
}

union tt_number
tt_eval_neg(enum tt_dtype t, union tt_number a)
{
  if (tt_dtype_is_float(t))
    return (union tt_number){.f = -a.f};
  return (union tt_number){.i = tt_wrap(t, (int64_t)(0 - (uint64_t)a.i))};
}

union tt_number
tt_eval_not(enum tt_dtype t, union tt_number a)
{
  return (union tt_number){.i = t == TT_BOOL ? !a.i : tt_wrap(t, ~a.i)};
}

static union tt_number
float_to(enum tt_dtype to, enum tt_dtype from, union tt_number a)
{
  if (tt_dtype_is_float(from)) {
    a.f = tt_round_float(to, a.f);
  } else if (to == TT_F32 || to == TT_BF16) {
    /* Directly: a large i64 must not be rounded twice. */
    a.f = tt_round_float(to, (float)a.i);
  } else {
    a.f = tt_round_float(to, (double)a.i);
  }
  return a;
}

union tt_number
tt_eval_cast(enum tt_dtype to, enum tt_dtype from, union tt_number a)
{
  if (tt_dtype_is_float(to))
    return float_to(to, from, a);
  if (!tt_dtype_is_float(from))
    a.i = tt_wrap(to, a.i);
  else if (to == TT_BOOL)
    a.i = a.f != 0;
  else
    a.i = tt_wrap(to, tt_f2i(a.f));
  return a;
}

union tt_number
tt_eval_sat(enum tt_dtype to, enum tt_dtype from, union tt_number a)
{
  if (tt_dtype_is_float(to) || to == TT_BOOL)
    return tt_eval_cast(to, from, a);
  a.i = tt_saturate(to, tt_dtype_is_float(from) ? tt_f2i(a.f) : a.i);
  return a;
}
