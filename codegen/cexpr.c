/* Scalar expressions as C.
 *
 * The language's arithmetic wraps where C's is undefined or promotes, so
 * additions, subtractions and multiplications go through unsigned types
 * unless intervals show that nothing can overflow.  The C type of a printed
 * value holds the value exactly; small integers may be promoted to int.
 * Parentheses follow tt_binop_prec(), with a few more where compilers warn.
 */
#include "config.h"

#include "codegen/cprint.h"
#include "codegen/vmath.h"

#include "ir/passes.h"

#include <stdlib.h>
#include <string.h>

const char *
tt_c_paren(struct cprinter *c, const char *text, int has, int prec)
{
  return has < prec ? tt_arena_printf(c->arena, "(%s)", text) : text;
}

int
tt_c_operand_prec(enum tt_binop op, const struct tt_expr *operand, bool right)
{
  int prec = tt_binop_prec(op);
  switch (op) {
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
  case TT_SHL:
  case TT_SHR:
    return PREC_UNARY;
  case TT_OR:
  case TT_AND:
    if (!right && operand->kind == TT_BINARY && operand->op == op)
      return prec;
    return tt_binop_prec(TT_EQ);
  case TT_EQ:
  case TT_NE:
  case TT_LT:
  case TT_GT:
  case TT_LE:
  case TT_GE:
    return tt_binop_prec(TT_ADD);
  case TT_ADD:
  case TT_SUB:
  case TT_MUL:
  case TT_DIV:
  case TT_MOD:
    return prec + right;
  case TT_MIN:
  case TT_MAX:
  case TT_NBINOPS:
    break;
  }
  return PREC_ANY;
}

const char *
tt_c_infix(struct cprinter *c, enum tt_binop op, const char *a, const char *b,
           int prec)
{
  const char *text =
      tt_arena_printf(c->arena, "%s %s %s", a, tt_binop_text(op), b);
  return tt_c_paren(c, text, tt_binop_prec(op), prec);
}

static const char *
cast(struct cprinter *c, const char *type, const char *operand, int prec)
{
  return tt_c_paren(c, tt_arena_printf(c->arena, "(%s)%s", type, operand),
                    PREC_UNARY, prec);
}

/* ---- ranges ----------------------------------------------------------- */

static struct tt_interval
range(const struct tt_expr *e)
{
  struct tt_interval b = tt_bounds(e, NULL);
  if (!b.ok) {
    b.lo = tt_dtype_min(e->type.dtype);
    b.hi = tt_dtype_max(e->type.dtype);
  }
  return b;
}

static bool
fits(const struct tt_expr *e, int64_t lo, int64_t hi)
{
  struct tt_interval b = tt_bounds(e, NULL);
  return b.ok && b.lo >= lo && b.hi <= hi;
}

bool
tt_c_wraps(const struct tt_expr *e)
{
  struct tt_interval a = range(e->a), b = range(e->b);
  int64_t min = tt_dtype_min(e->type.dtype);
  int64_t max = tt_dtype_max(e->type.dtype);
  int64_t x[2] = {a.lo, a.hi}, y[2] = {b.lo, b.hi}, r;
  for (int i = 0; i < 4; i++) {
    int64_t p = x[i & 1], q = y[i >> 1];
    bool over = e->op == TT_ADD   ? __builtin_add_overflow(p, q, &r)
                : e->op == TT_SUB ? __builtin_sub_overflow(p, q, &r)
                                  : __builtin_mul_overflow(p, q, &r);
    if (over || r < min || r > max)
      return true;
  }
  return false;
}

/* ---- integer arithmetic ----------------------------------------------- */

static const char *
unsigned_type(enum tt_dtype t)
{
  return t == TT_I64 ? "uint64_t" : "uint32_t";
}

static bool
is_modular(const struct tt_expr *e)
{
  return e->kind == TT_BINARY &&
         (e->op == TT_ADD || e->op == TT_SUB || e->op == TT_MUL) &&
         !tt_dtype_is_float(e->type.dtype);
}

/* A value modulo 2^32 or 2^64, of an unsigned C type. */
static const char *
modular(struct cprinter *c, const struct tt_expr *e, int prec)
{
  if (is_modular(e) && tt_c_wraps(e)) {
    const char *a = modular(c, e->a, tt_c_operand_prec(e->op, e->a, false));
    const char *b = modular(c, e->b, tt_c_operand_prec(e->op, e->b, true));
    return tt_c_infix(c, e->op, a, b, prec);
  }
  if (e->kind == TT_INT && e->ival >= 0 && e->ival <= INT32_MAX)
    return tt_arena_printf(c->arena, "%lldu", (long long)e->ival);
  return cast(c, unsigned_type(e->type.dtype), tt_c_expr(c, e, PREC_UNARY),
              prec);
}

/* An i64 operand must not be computed in a narrower ptrdiff_t. */
static const char *
operand(struct cprinter *c, const struct tt_expr *e, const struct tt_expr *of,
        bool right)
{
  int prec = tt_c_operand_prec(of->op, e, right);
  if (!c->index && of->type.dtype == TT_I64 && e->kind == TT_VAR &&
      !fits(of, INT32_MIN, INT32_MAX))
    return cast(c, "int64_t", tt_c_expr(c, e, PREC_UNARY), prec);
  return tt_c_expr(c, e, prec);
}

static const char *
plain(struct cprinter *c, const struct tt_expr *e, int prec)
{
  const char *a = operand(c, e->a, e, false);
  return tt_c_infix(c, e->op, a, operand(c, e->b, e, true), prec);
}

static const char *
arithmetic(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  if (c->index || t == TT_U32 || !tt_c_wraps(e))
    return plain(c, e, prec);
  if (tt_dtype_bytes(t) >= 4)
    return cast(c, tt_c_value(t), modular(c, e, PREC_UNARY), prec);
  const char *text = plain(c, e, PREC_UNARY);
  if (t == TT_U16 && e->op == TT_MUL) /* would overflow int */
    text =
        tt_arena_printf(c->arena, "(1u * %s)",
                        tt_c_infix(c, e->op, tt_c_expr(c, e->a, PREC_UNARY),
                                   tt_c_expr(c, e->b, PREC_UNARY), PREC_ANY));
  return cast(c, tt_c_value(t), text, prec);
}

static const char *
call(struct cprinter *c, const char *fn, const char *a, const char *b)
{
  return b ? tt_arena_printf(c->arena, "%s(%s, %s)", fn, a, b)
           : tt_arena_printf(c->arena, "%s(%s)", fn, a);
}

/* op_type(a, b) */
static const char *
helper2(struct cprinter *c, const char *op, enum tt_dtype t,
        const struct tt_expr *x, const struct tt_expr *y)
{
  const char *name = tt_arena_printf(c->arena, "%s_%s", op, tt_dtype_name(t));
  const char *a = tt_c_expr(c, x, PREC_ANY);
  return call(c, tt_c_helper(c, name), a, y ? tt_c_expr(c, y, PREC_ANY) : NULL);
}

/* Types smaller than int are computed in i32 and cut off. */
static const char *
narrowed(struct cprinter *c, enum tt_dtype t, const char *text, int prec)
{
  return tt_dtype_bytes(t) < 4 ? cast(c, tt_c_value(t), text, prec) : text;
}

static enum tt_dtype
promoted(enum tt_dtype t)
{
  return tt_dtype_bytes(t) < 4 ? TT_I32 : t;
}

const struct tt_expr *
tt_c_bits(struct cprinter *c, const struct tt_expr *e)
{
  const struct tt_expr *d = e->b->kind == TT_BROADCAST ? e->b->a : e->b;
  int64_t v = d->kind == TT_INT ? d->ival : 0;
  if (v <= 0 || (v & (v - 1)) != 0)
    return NULL;
  const struct tt_expr *by =
      e->op == TT_DIV ? tt_int(c->arena, TT_I32, __builtin_ctzll((uint64_t)v))
                      : tt_int(c->arena, e->type.dtype, v - 1);
  if (e->type.lanes > 1)
    by = tt_broadcast(c->arena, by, e->type.lanes);
  return tt_binary(c->arena, e->op == TT_DIV ? TT_SHR : TT_BAND, e->a, by);
}

static const char *shift(struct cprinter *, const struct tt_expr *, int prec);

static const char *
division(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  if (!tt_dtype_is_signed(t) ||
      (fits(e->a, 0, INT64_MAX) && fits(e->b, 1, INT64_MAX)))
    return plain(c, e, prec);
  const struct tt_expr *bits = tt_c_bits(c, e);
  if (bits)
    return e->op == TT_DIV ? shift(c, bits, prec) : plain(c, bits, prec);
  return narrowed(c, t,
                  helper2(c, e->op == TT_DIV ? "floordiv" : "floormod",
                          promoted(t), e->a, e->b),
                  prec);
}

static const char *
shift(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  if (e->op == TT_SHR || t == TT_U32) {
    if (e->a->kind == TT_INT && t == TT_I64)
      return tt_c_infix(
          c, e->op,
          cast(c, "int64_t", tt_c_expr(c, e->a, PREC_UNARY), PREC_UNARY),
          tt_c_expr(c, e->b, PREC_UNARY), prec);
    return plain(c, e, prec);
  }
  const char *a =
      cast(c, unsigned_type(t), tt_c_expr(c, e->a, PREC_UNARY), PREC_UNARY);
  const char *b = tt_c_expr(c, e->b, PREC_UNARY);
  return cast(c, tt_c_value(t), tt_c_infix(c, TT_SHL, a, b, PREC_UNARY), prec);
}

/* ---- floats ----------------------------------------------------------- */

/* Rounds what was computed as float to a 16-bit type. */
static const char *
rounded(struct cprinter *c, enum tt_dtype t, const char *text, int has,
        int prec)
{
  if (t == TT_F16 && c->options->gpu)
    return call(c, tt_c_helper(c, "round_f16"), text, NULL);
  if (t == TT_F16)
    return cast(
        c, "float",
        cast(c, "_Float16", tt_c_paren(c, text, has, PREC_UNARY), PREC_UNARY),
        prec);
  if (t == TT_BF16)
    return call(c, tt_c_helper(c, "round_bf16"), text, NULL);
  return tt_c_paren(c, text, has, prec);
}

bool
tt_c_is_byte(const struct cprinter *c, const struct tt_expr *e)
{
  return c->dialect->style == TT_CUDA_VECTORS && c->index == 0 &&
         e->kind == TT_CAST && !tt_dtype_is_float(e->a->type.dtype) &&
         tt_dtype_bytes(e->a->type.dtype) == 1 &&
         (e->type.dtype == TT_I32 || e->type.dtype == TT_U32);
}

const char *
tt_c_opaque(struct cprinter *c, const struct tt_expr *e)
{
  const struct tt_expr *outer = c->opaque;
  c->opaque = e;
  const char *text = tt_c_expr(c, e, PREC_ANY);
  c->opaque = outer;
  return text;
}

static const char *
product(struct cprinter *c, const struct tt_expr *e, int prec)
{
  const struct tt_expr *outer = c->opaque;
  c->opaque = tt_c_is_byte(c, e->a)   ? e->a
              : tt_c_is_byte(c, e->b) ? e->b
                                      : NULL;
  const char *text = arithmetic(c, e, prec);
  c->opaque = outer;
  return text;
}

static const char *
binary(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  bool f = tt_dtype_is_float(t);
  switch (e->op) {
  case TT_ADD:
  case TT_SUB:
  case TT_MUL:
    if (!f)
      return e->op == TT_MUL ? product(c, e, prec) : arithmetic(c, e, prec);
    return rounded(c, t, plain(c, e, PREC_ANY), tt_binop_prec(e->op), prec);
  case TT_DIV:
  case TT_MOD:
    if (!f)
      return division(c, e, prec);
    return rounded(c, t, plain(c, e, PREC_ANY), tt_binop_prec(e->op), prec);
  case TT_SHL:
  case TT_SHR:
    return shift(c, e, prec);
  case TT_MIN:
  case TT_MAX:
    if (t == TT_F16 || t == TT_BF16)
      t = TT_F32;
    if (t == TT_BOOL)
      t = TT_I32;
    return helper2(c, e->op == TT_MIN ? "min" : "max", f ? t : promoted(t),
                   e->a, e->b);
  case TT_OR:
  case TT_AND:
  case TT_EQ:
  case TT_NE:
  case TT_LT:
  case TT_GT:
  case TT_LE:
  case TT_GE:
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
    return plain(c, e, prec);
  case TT_NBINOPS:
    break;
  }
  return "";
}

/* ---- conversions ------------------------------------------------------ */

static const char *
from_float(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  const char *a = tt_c_expr(c, e->a, PREC_ANY);
  if (t == TT_BOOL)
    return tt_c_paren(
        c, tt_arena_printf(c->arena, "%s != 0", tt_c_expr(c, e->a, 9)),
        tt_binop_prec(TT_NE), prec);
  a = call(c, tt_c_helper(c, "f2i_i64"), a, NULL);
  return t == TT_I64 ? a : cast(c, tt_c_value(t), a, prec);
}

static const char *
conversion(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype, s = e->a->type.dtype;
  if (t == s)
    return tt_c_expr(c, e->a, prec);
  if (tt_dtype_is_float(s) && !tt_dtype_is_float(t))
    return from_float(c, e, prec);
  if (t == TT_BOOL)
    return tt_c_paren(
        c, tt_arena_printf(c->arena, "%s != 0", tt_c_expr(c, e->a, 9)),
        tt_binop_prec(TT_NE), prec);
  const char *a = tt_c_expr(c, e->a, PREC_UNARY);
  if (t == TT_F16)
    return rounded(c, t, a, PREC_UNARY, prec);
  if (t == TT_BF16)
    return rounded(c, t, cast(c, "float", a, PREC_ANY), PREC_UNARY, prec);
  if ((s == TT_F16 || s == TT_BF16) && t == TT_F32)
    return tt_c_expr(c, e->a, prec);
  return cast(c, tt_c_value(t), a, prec);
}

static const char *
saturation(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype, s = e->a->type.dtype;
  if (tt_dtype_is_float(t) || t == TT_BOOL || t == s || s == TT_BOOL)
    return conversion(c, e, prec);
  const char *from = tt_dtype_is_float(s)    ? s == TT_F64 ? "f64" : "f32"
                     : tt_dtype_bytes(s) < 4 ? "i32"
                     : s == TT_I32           ? "i32"
                                             : "i64";
  const char *name =
      tt_arena_printf(c->arena, "sat_%s_%s", tt_dtype_name(t), from);
  if (!tt_dtype_is_float(s) && fits(e->a, tt_dtype_min(t), tt_dtype_max(t)))
    return conversion(c, e, prec);
  if (t == TT_I64)
    return tt_dtype_is_float(s) ? from_float(c, e, prec)
                                : conversion(c, e, prec);
  return call(c, tt_c_helper(c, name), tt_c_expr(c, e->a, PREC_ANY), NULL);
}

/* ---- builtins --------------------------------------------------------- */

static const char *
math_call(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  bool is_double = t == TT_F64;
  const char *a = tt_c_expr(c, e->args[0], PREC_ANY), *text;
  const char *b = e->nargs > 1 ? tt_c_expr(c, e->args[1], PREC_ANY) : NULL;
  const char *own = tt_c_vmath(c, e->fn, is_double ? t : TT_F32, 1);
  if (own)
    text = call(c, own, a, NULL);
  else if (e->fn == TT_FN_RSQRT || e->fn == TT_FN_SIGMOID) {
    const char *name = tt_arena_printf(c->arena, "%s_%s", tt_fn_name(e->fn),
                                       is_double ? "f64" : "f32");
    text = call(c, tt_c_helper(c, name), a, NULL);
  } else {
    const char *name = e->fn == TT_FN_ABS ? "fabs" : tt_fn_name(e->fn);
    c->math = true;
    text = call(c,
                tt_arena_printf(c->arena, "%s%s", name,
                                is_double ? "" : c->dialect->single),
                a, b);
  }
  return rounded(c, t, text, PREC_PRIMARY, prec);
}

static const char *
builtin(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  switch (e->fn) {
  case TT_FN_EXP:
  case TT_FN_LOG:
  case TT_FN_SQRT:
  case TT_FN_RSQRT:
  case TT_FN_TANH:
  case TT_FN_SIGMOID:
  case TT_FN_ERF:
  case TT_FN_FLOOR:
  case TT_FN_CEIL:
  case TT_FN_ROUND:
  case TT_FN_POW:
    return math_call(c, e, prec);
  case TT_FN_ABS:
    if (tt_dtype_is_float(t))
      return math_call(c, e, prec);
    if (!tt_dtype_is_signed(t))
      return tt_c_expr(c, e->args[0], prec);
    return narrowed(c, t, helper2(c, "abs", promoted(t), e->args[0], NULL),
                    prec);
  case TT_FN_QUOT:
  case TT_FN_REM:
    if (!tt_dtype_is_signed(t)) {
      enum tt_binop op = e->fn == TT_FN_QUOT ? TT_DIV : TT_MOD;
      return plain(c, tt_binary(c->arena, op, e->args[0], e->args[1]), prec);
    }
    return narrowed(
        c, t,
        helper2(c, tt_fn_name(e->fn), promoted(t), e->args[0], e->args[1]),
        prec);
  case TT_FN_SQRDMULH:
  case TT_FN_RDIVP2:
    return helper2(c, tt_fn_name(e->fn), TT_I32, e->args[0], e->args[1]);
  case TT_NFNS:
    break;
  }
  return "";
}

/* ---- all kinds -------------------------------------------------------- */

static const char *
load(struct cprinter *c, const struct tt_expr *e, int prec)
{
  const struct tt_tensor *t = e->tensor;
  const char *text = tt_c_access(c, t, e->nargs, e->args, false);
  if (e->type.lanes > 1)
    return tt_c_paren(c, text, *text == '*' ? PREC_UNARY : PREC_PRIMARY, prec);
  if (tt_is_register(t))
    return text;
  if (t->dtype == TT_F16 && c->options->gpu)
    return call(c, tt_c_helper(c, "f16_to_f32"), text, NULL);
  if (t->dtype == TT_F16)
    return cast(c, "float", text, prec);
  if (t->dtype == TT_BF16)
    return call(c, tt_c_helper(c, "bf16_to_f32"), text, NULL);
  return text;
}

static const char *
negation(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  const char *a = tt_c_expr(c, e->a, PREC_PRIMARY);
  const char *text = tt_arena_printf(c->arena, "-%s", a);
  if (tt_dtype_is_float(t) || c->index || t == TT_U32 ||
      (tt_dtype_is_signed(t) && range(e->a).lo > tt_dtype_min(t)))
    return tt_c_paren(c, text, PREC_UNARY, prec);
  if (tt_dtype_bytes(t) < 4)
    return cast(c, tt_c_value(t), text, prec);
  text = tt_arena_printf(c->arena, "(0u - %s)", modular(c, e->a, PREC_UNARY));
  return cast(c, tt_c_value(t), text, prec);
}

/* A truth value, whatever integer type it was converted to. */
static bool
is_truth(const struct tt_expr *e)
{
  while (e->kind == TT_CAST || e->kind == TT_SAT)
    e = e->a;
  return e->type.dtype == TT_BOOL;
}

static const char *
complement(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  const char *text;
  int own = PREC_UNARY;
  if (t != TT_BOOL && is_truth(e->a)) {
    /* Compilers take ~ of a truth value for a slip. */
    own = tt_binop_prec(TT_SUB);
    text =
        tt_arena_printf(c->arena, "%s - %s", t == TT_U32 ? "0xffffffffu" : "-1",
                        tt_c_expr(c, e->a, own + 1));
  } else {
    text = tt_arena_printf(c->arena, "%s%s", t == TT_BOOL ? "!" : "~",
                           tt_c_expr(c, e->a, PREC_UNARY));
  }
  if (t == TT_U8 || t == TT_U16)
    return cast(c, tt_c_value(t), text, prec);
  return tt_c_paren(c, text, own, prec);
}

static const char *
choice(struct cprinter *c, const struct tt_expr *e, int prec)
{
  const char *cond = tt_c_expr(c, e->c, PREC_COND + 1);
  const char *a = tt_c_expr(c, e->a, PREC_COND + 1);
  const char *b = tt_c_expr(c, e->b, PREC_COND);
  return tt_c_paren(c, tt_arena_printf(c->arena, "%s ? %s : %s", cond, a, b),
                    PREC_COND, prec);
}

const char *
tt_c_expr(struct cprinter *c, const struct tt_expr *e, int prec)
{
  int has;
  if (e->type.lanes > 1)
    return tt_c_vexpr(c, e, prec);
  switch (e->kind) {
  case TT_INT: {
    const char *text = tt_c_int(c, e->type.dtype, e->ival, &has);
    return tt_c_paren(c, text, has, prec);
  }
  case TT_FLT: {
    const char *text = tt_c_float(c, e->type.dtype, e->fval, &has);
    return tt_c_paren(c, text, has, prec);
  }
  case TT_VAR: {
    const char *name = tt_names_of(c->names, e->var);
    return name ? name : e->var->name;
  }
  case TT_LOAD:
    return load(c, e, prec);
  case TT_BINARY:
    return binary(c, e, prec);
  case TT_NEG:
    return negation(c, e, prec);
  case TT_NOT:
    return complement(c, e, prec);
  case TT_CAST:
    if (e == c->opaque)
      return call(c,
                  tt_c_helper(c, tt_arena_printf(c->arena, "opaque_%s",
                                                 tt_dtype_name(e->type.dtype))),
                  conversion(c, e, PREC_ANY), NULL);
    return conversion(c, e, prec);
  case TT_SAT:
    return saturation(c, e, prec);
  case TT_SELECT:
    return choice(c, e, prec);
  case TT_CALL:
    return builtin(c, e, prec);
  case TT_RAMP:
  case TT_BROADCAST:
    break; /* have lanes */
  }
  return "";
}

const char *
tt_c_index(struct cprinter *c, const struct tt_expr *e, int prec)
{
  c->index++;
  const char *text = tt_c_expr(c, e, prec);
  c->index--;
  return text;
}
