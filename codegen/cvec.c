/* Vector expressions as GNU C.
 *
 * Operators work on vectors as on scalars, and a scalar operand is broadcast
 * by the compiler.  There is no vector ?: in C, so conditions are masks (all
 * bits of a lane) and choices blend bits, which keeps the exact meaning of
 * a < b ? a : b.  What has no operator goes through a function that does it
 * lane by lane.
 */
#include "config.h"

#include "codegen/cprint.h"
#include "codegen/vmath.h"

#include "ir/passes.h"

#include <math.h>

static const char *
cast(struct cprinter *c, const char *type, const char *text, int prec)
{
  return tt_c_paren(c, tt_arena_printf(c->arena, "(%s)%s", type, text),
                    PREC_UNARY, prec);
}

static bool
is_opencl(const struct cprinter *c)
{
  return c->dialect->style == TT_OPENCL_VECTORS;
}

/* The bits of a vector, an operand of a cast, as another type. */
static const char *
as_type(struct cprinter *c, const char *type, const char *text, int prec)
{
  return is_opencl(c) ? tt_arena_printf(c->arena, "as_%s(%s)", type, text)
                      : cast(c, type, text, prec);
}

/* Bytes of a lane. */
static int
lane_bytes(enum tt_dtype t)
{
  return tt_c_is_half(t) ? 4 : tt_dtype_bytes(t);
}

/* A scalar whose C type is exactly the element type, so that it may meet a
 * vector. */
static const char *
exact_scalar(struct cprinter *c, const struct tt_expr *e, int prec)
{
  if (lane_bytes(e->type.dtype) < 4 && e->kind != TT_LOAD)
    return cast(c, tt_c_storage(e->type.dtype), tt_c_expr(c, e, PREC_UNARY),
                prec);
  if (e->kind == TT_INT && e->type.dtype == TT_I64)
    return cast(c, "int64_t", tt_c_expr(c, e, PREC_UNARY), prec);
  return tt_c_expr(c, e, prec);
}

static const char *
broadcast(struct cprinter *c, const struct tt_expr *e, int prec)
{
  const char *type = tt_c_vector(c, e->type.dtype, e->type.lanes);
  const struct tt_expr *s = e->a;
  if (is_opencl(c))
    return tt_arena_printf(c->arena, "((%s)(%s))", type,
                           exact_scalar(c, s, PREC_ANY));
  if ((s->kind == TT_INT && s->ival == 0) ||
      (s->kind == TT_FLT && s->fval == 0 && !signbit(s->fval)))
    return tt_arena_printf(c->arena, "(%s){0}", type);
  /* x - 0 is x for every float; -0.0 + 0 would not be -0.0. */
  return tt_c_infix(c, TT_SUB, exact_scalar(c, s, 9),
                    tt_arena_printf(c->arena, "(%s){0}", type), prec);
}

/* {0, s, 2 s, ...}; in parentheses, because it may be a macro's argument. */
static const char *
steps(struct cprinter *c, enum tt_dtype t, int64_t stride, int lanes)
{
  struct tt_sb sb = {0};
  tt_sb_printf(&sb, is_opencl(c) ? "((%s)(" : "((%s){",
               tt_c_vector(c, t, lanes));
  for (int i = 0; i < lanes; i++) {
    int prec;
    tt_sb_printf(&sb, "%s%s", i ? ", " : "",
                 tt_c_int(c, t, tt_wrap(t, i * stride), &prec));
  }
  tt_sb_add(&sb, is_opencl(c) ? "))" : "})");
  const char *text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* A ramp of indices in the integer type `t`, wrapped. */
static const char *
ramp(struct cprinter *c, const struct tt_expr *e, enum tt_dtype t, int prec)
{
  const char *v = steps(c, t, e->ival, e->type.lanes);
  if (tt_is_int(e->a, 0))
    return v;
  const char *base =
      cast(c, tt_c_storage(t), tt_c_expr(c, e->a, PREC_UNARY), 9);
  struct tt_interval b = tt_bounds(e->a, NULL);
  int64_t last = e->ival * (e->type.lanes - 1);
  if (b.ok && b.lo >= tt_dtype_min(t) && b.hi <= tt_dtype_max(t) &&
      b.lo + last >= tt_dtype_min(t) && b.hi + last <= tt_dtype_max(t))
    return tt_c_infix(c, TT_ADD, base, v, prec);
  const char *u = tt_c_uvector(c, t, e->type.lanes);
  const char *ubase =
      t == TT_I64 ? "uint64_t" : tt_c_storage(tt_unsigned_of(t));
  const char *sum = tt_c_infix(c, TT_ADD, cast(c, ubase, base, 9),
                               as_type(c, u, v, 10), PREC_UNARY);
  return as_type(c, tt_c_vector(c, t, e->type.lanes), sum, prec);
}

/* ---- masks ------------------------------------------------------------ */

static bool
is_compare(const struct tt_expr *e)
{
  return e->kind == TT_BINARY && e->type.dtype == TT_BOOL &&
         e->a->type.dtype != TT_BOOL && e->op >= TT_EQ && e->op <= TT_GE;
}

static const char *operand(struct cprinter *, const struct tt_expr *, int prec);
static const char *pair(struct cprinter *, enum tt_binop,
                        const struct tt_expr *, const struct tt_expr *,
                        int prec);

static const char *
resized(struct cprinter *c, const char *text, int has, int from, int to,
        int lanes, int prec)
{
  if (from == to)
    return tt_c_paren(c, text, has, prec);
  return tt_c_convert(c, text, tt_signed_of_bytes(to), tt_signed_of_bytes(from),
                      lanes);
}

static const char *mask(struct cprinter *, const struct tt_expr *, int bytes,
                        int prec);

static const char *
mask_logic(struct cprinter *c, const struct tt_expr *e, int bytes, int prec)
{
  const char *a = mask(c, e->a, bytes, PREC_UNARY);
  const char *b = mask(c, e->b, bytes, PREC_UNARY);
  if (e->op == TT_EQ)
    return tt_c_paren(c, tt_arena_printf(c->arena, "~(%s ^ %s)", a, b),
                      PREC_UNARY, prec);
  enum tt_binop op = e->op == TT_AND  ? TT_BAND
                     : e->op == TT_OR ? TT_BOR
                     : e->op == TT_NE ? TT_BXOR
                                      : e->op;
  return tt_c_infix(c, op, a, b, prec);
}

static const char *
mask_choice(struct cprinter *c, const struct tt_expr *e, int bytes, int prec)
{
  if (e->c->type.lanes == 1)
    return tt_c_paren(c,
                      tt_arena_printf(c->arena, "%s ? %s : %s",
                                      tt_c_expr(c, e->c, PREC_COND + 1),
                                      mask(c, e->a, bytes, PREC_UNARY),
                                      mask(c, e->b, bytes, PREC_UNARY)),
                      PREC_COND, prec);
  return tt_arena_printf(
      c->arena, "%s(%s, %s, %s)",
      tt_c_vec_helper(c, "select", tt_signed_of_bytes(bytes), e->type.lanes),
      mask(c, e->c, bytes, PREC_ANY), mask(c, e->a, bytes, PREC_ANY),
      mask(c, e->b, bytes, PREC_ANY));
}

/* A vector bool as a mask of signed integers of `bytes`. */
static const char *
mask(struct cprinter *c, const struct tt_expr *e, int bytes, int prec)
{
  int lanes = e->type.lanes, width = 1;
  enum tt_dtype t = tt_signed_of_bytes(bytes);
  const char *text;
  if (is_compare(e)) {
    width = lane_bytes(e->a->type.dtype);
    text = pair(c, e->op, e->a, e->b, PREC_ANY);
    return resized(c, text, tt_binop_prec(e->op), width, bytes, lanes, prec);
  }
  switch (e->kind) {
  case TT_BINARY:
    return mask_logic(c, e, bytes, prec);
  case TT_SELECT:
    return mask_choice(c, e, bytes, prec);
  case TT_NOT:
    text = tt_arena_printf(c->arena, "~%s", mask(c, e->a, bytes, PREC_UNARY));
    return tt_c_paren(c, text, PREC_UNARY, prec);
  case TT_BROADCAST: {
    const char *bit =
        tt_arena_printf(c->arena, "-%s", tt_c_expr(c, e->a, PREC_PRIMARY));
    if (is_opencl(c))
      return tt_arena_printf(c->arena, "((%s)(%s))", tt_c_vector(c, t, lanes),
                             cast(c, tt_c_storage(t), bit, PREC_UNARY));
    text = tt_arena_printf(c->arena, "(%s){0}", tt_c_vector(c, t, lanes));
    return tt_c_infix(c, TT_SUB, cast(c, tt_c_storage(t), bit, PREC_UNARY),
                      text, prec);
  }
  case TT_CAST: /* from a number */
    width = lane_bytes(e->a->type.dtype);
    text = tt_arena_printf(c->arena, "%s != 0", operand(c, e->a, 9));
    return resized(c, text, tt_binop_prec(TT_NE), width, bytes, lanes, prec);
  case TT_INT:
  case TT_FLT:
  case TT_VAR:
  case TT_LOAD: /* bools in memory have no vectors: see vexpr.c */
  case TT_NEG:
  case TT_SAT:
  case TT_CALL:
  case TT_RAMP:
    break;
  }
  return "";
}

/* ---- operators -------------------------------------------------------- */

/* An operand that may stay a scalar beside a vector. */
static const char *
operand(struct cprinter *c, const struct tt_expr *e, int prec)
{
  if (e->kind == TT_BROADCAST && e->type.dtype != TT_BOOL)
    return exact_scalar(c, e->a, prec);
  return tt_c_vexpr(c, e, prec);
}

static const char *
pair(struct cprinter *c, enum tt_binop op, const struct tt_expr *a,
     const struct tt_expr *b, int prec)
{
  int left = tt_c_operand_prec(op, a, false);
  int right = tt_c_operand_prec(op, b, true);
  bool both = a->kind == TT_BROADCAST && b->kind == TT_BROADCAST;
  return tt_c_infix(c, op, both ? tt_c_vexpr(c, a, left) : operand(c, a, left),
                    operand(c, b, right), prec);
}

/* The operand as a vector (or scalar) of the unsigned type. */
static const char *
as_unsigned(struct cprinter *c, const struct tt_expr *e, bool scalar)
{
  enum tt_dtype t = e->type.dtype;
  const char *u = t == TT_I64 ? "uint64_t" : tt_c_storage(tt_unsigned_of(t));
  if (scalar && e->kind == TT_BROADCAST)
    return cast(c, u, tt_c_expr(c, e->a, PREC_UNARY), PREC_UNARY);
  return as_type(c, tt_c_uvector(c, t, e->type.lanes),
                 tt_c_vexpr(c, e, PREC_UNARY), PREC_UNARY);
}

static const char *
modular(struct cprinter *c, const struct tt_expr *e, int prec)
{
  bool both = e->a->kind == TT_BROADCAST && e->b->kind == TT_BROADCAST;
  const char *a = as_unsigned(c, e->a, !both);
  const char *b = as_unsigned(c, e->b, true);
  return as_type(c, tt_c_vector(c, e->type.dtype, e->type.lanes),
                 tt_c_infix(c, e->op, a, b, PREC_UNARY), prec);
}

static const char *
lanewise(struct cprinter *c, const struct tt_expr *e)
{
  const struct tt_expr *args[2] = {e->a, e->b};
  int n = e->b ? 2 : 1;
  if (e->kind == TT_CALL) {
    n = e->nargs;
    for (int i = 0; i < n; i++)
      args[i] = e->args[i];
  }
  const char *fn = NULL;
  fn = tt_c_opencl_math(c, e);
  if (!fn && e->kind == TT_CALL)
    fn = tt_c_vmath(c, e->fn, e->type.dtype, e->type.lanes);
  if (!fn)
    fn = tt_c_fixed_helper(c, e);
  if (!fn)
    fn = tt_c_lane_helper(c, e);
  const char *a = tt_c_vexpr(c, args[0], PREC_ANY);
  return n > 1 ? tt_arena_printf(c->arena, "%s(%s, %s)", fn, a,
                                 tt_c_vexpr(c, args[1], PREC_ANY))
               : tt_arena_printf(c->arena, "%s(%s)", fn, a);
}

static const char *
shift(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  if (e->b->kind != TT_BROADCAST)
    return lanewise(c, e);
  const char *count = tt_c_expr(c, e->b->a, PREC_UNARY);
  if (e->b->a->type.dtype != TT_I32 || t == TT_I64)
    count = cast(c, t == TT_I64 ? "int64_t" : "int", count, PREC_UNARY);
  if (tt_dtype_bytes(t) < 4) /* the count must be of the element's type */
    count = cast(c, tt_c_storage(t), count, PREC_UNARY);
  if (t == TT_U32)
    count = cast(c, "uint32_t", count, PREC_UNARY);
  if (e->op == TT_SHR || !tt_dtype_is_signed(t))
    return tt_c_infix(c, e->op, tt_c_vexpr(c, e->a, PREC_UNARY), count, prec);
  return as_type(
      c, tt_c_vector(c, t, e->type.lanes),
      tt_c_infix(c, TT_SHL, as_unsigned(c, e->a, false), count, PREC_UNARY),
      prec);
}

static const char *
division(struct cprinter *c, const struct tt_expr *e, int prec)
{
  const struct tt_expr *bits = tt_c_bits(c, e);
  if (!bits)
    return lanewise(c, e);
  return e->op == TT_DIV ? shift(c, bits, prec)
                         : pair(c, bits->op, bits->a, bits->b, prec);
}

static const char *
binary(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  bool f = tt_dtype_is_float(t);
  const char *dot = c->options->gpu ? NULL : tt_c_dot(c, e, prec);
  if (dot)
    return dot;
  switch (e->op) {
  case TT_ADD:
  case TT_SUB:
  case TT_MUL:
    if (f || !tt_dtype_is_signed(t) || !tt_c_wraps(e))
      return pair(c, e->op, e->a, e->b, prec);
    return modular(c, e, prec);
  case TT_DIV:
  case TT_MOD:
    return f ? pair(c, e->op, e->a, e->b, prec) : division(c, e, prec);
  case TT_SHL:
  case TT_SHR:
    return shift(c, e, prec);
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
    return pair(c, e->op, e->a, e->b, prec);
  case TT_MIN:
  case TT_MAX:
    return tt_arena_printf(
        c->arena, "%s(%s, %s)",
        tt_c_vec_helper(c, e->op == TT_MIN ? "min" : "max", t, e->type.lanes),
        tt_c_vexpr(c, e->a, PREC_ANY), tt_c_vexpr(c, e->b, PREC_ANY));
  case TT_OR:
  case TT_AND:
  case TT_EQ:
  case TT_NE:
  case TT_LT:
  case TT_GT:
  case TT_LE:
  case TT_GE:
  case TT_NBINOPS:
    break; /* bool: see mask() */
  }
  return "";
}

/* ---- conversions and choices ------------------------------------------ */

static const char *
conversion(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype, s = e->a->type.dtype;
  int lanes = e->type.lanes;
  const char *type = tt_c_vector(c, t, lanes);
  if (t == s)
    return tt_c_vexpr(c, e->a, prec);
  if (e->a->kind == TT_RAMP && tt_dtype_is_int(t))
    return ramp(c, e->a, t, prec);
  if (e->a->kind == TT_BROADCAST) {
    const struct tt_expr *s1 = tt_cast(c->arena, t, e->a->a);
    return broadcast(c, tt_broadcast(c->arena, s1, lanes), prec);
  }
  if (s == TT_BOOL) {
    int bytes = lane_bytes(t);
    const char *m =
        tt_arena_printf(c->arena, "-%s", mask(c, e->a, bytes, PREC_PRIMARY));
    if (t == tt_signed_of_bytes(bytes))
      return tt_c_paren(c, m, PREC_UNARY, prec);
    if (is_opencl(c))
      return tt_c_convert(c, m, t, tt_signed_of_bytes(bytes), lanes);
    return tt_arena_printf(c->arena, "__builtin_convertvector(%s, %s)", m,
                           type);
  }
  if (tt_dtype_is_float(s) && !tt_dtype_is_float(t))
    return lanewise(c, e);
  if (tt_c_is_half(s))
    s = TT_F32;
  return t == s ? tt_c_vexpr(c, e->a, prec)
                : tt_c_convert(c, tt_c_vexpr(c, e->a, PREC_ANY), t, s, lanes);
}

/* One integer type into another, saturating: a clamp first. */
static const char *
saturation(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype, s = e->a->type.dtype;
  if (tt_dtype_is_float(t) || t == s || s == TT_BOOL)
    return conversion(c, e, prec);
  if (tt_dtype_is_int(t) && tt_dtype_bits(t) <= 16 && tt_dtype_is_float(s) &&
      s != TT_F64)
    return tt_c_saturate(c, tt_c_vexpr(c, e->a, PREC_ANY), t, e->type.lanes);
  if (!tt_dtype_is_int(s) || !tt_dtype_is_int(t))
    return lanewise(c, e);
  const struct tt_expr *a = e->a;
  int lanes = e->type.lanes;
  if (tt_dtype_max(s) > tt_dtype_max(t))
    a = tt_binary(
        c->arena, TT_MIN, a,
        tt_broadcast(c->arena, tt_int(c->arena, s, tt_dtype_max(t)), lanes));
  if (tt_dtype_min(s) < tt_dtype_min(t))
    a = tt_binary(
        c->arena, TT_MAX, a,
        tt_broadcast(c->arena, tt_int(c->arena, s, tt_dtype_min(t)), lanes));
  return conversion(c, tt_cast(c->arena, t, a), prec);
}

/* Is the expression of the unaligned type of a load from memory?  Operators
 * take over the type of their operands. */
static bool
is_unaligned(const struct cprinter *c, const struct tt_expr *e)
{
  if (e->type.lanes == 1 || is_opencl(c))
    return false;
  if (e->kind == TT_LOAD)
    return !tt_is_register(e->tensor) && !tt_c_is_half(e->type.dtype);
  if (e->kind == TT_BINARY)
    return is_unaligned(c, e->a) || is_unaligned(c, e->b);
  return (e->kind == TT_NEG || e->kind == TT_NOT) && is_unaligned(c, e->a);
}

/* A branch of ?:, where both must have the same type: not an unaligned one. */
static const char *
branch(struct cprinter *c, const struct tt_expr *e)
{
  if (is_unaligned(c, e))
    return cast(c, tt_c_vector(c, e->type.dtype, e->type.lanes),
                tt_c_vexpr(c, e, PREC_UNARY), PREC_UNARY);
  return tt_c_vexpr(c, e, PREC_COND + 1);
}

static const char *
choice(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  if (e->c->type.lanes > 1)
    return tt_arena_printf(c->arena, "%s(%s, %s, %s)",
                           tt_c_vec_helper(c, "select", t, e->type.lanes),
                           mask(c, e->c, lane_bytes(t), PREC_ANY),
                           tt_c_vexpr(c, e->a, PREC_ANY),
                           tt_c_vexpr(c, e->b, PREC_ANY));
  return tt_c_paren(c,
                    tt_arena_printf(c->arena, "%s ? %s : %s",
                                    tt_c_expr(c, e->c, PREC_COND + 1),
                                    branch(c, e->a), branch(c, e->b)),
                    PREC_COND, prec);
}

static const char *
negation(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  if (!tt_dtype_is_signed(t))
    return tt_c_paren(
        c, tt_arena_printf(c->arena, "-%s", tt_c_vexpr(c, e->a, PREC_PRIMARY)),
        PREC_UNARY, prec);
  return as_type(c, tt_c_vector(c, t, e->type.lanes),
                 tt_arena_printf(c->arena, "-%s", as_unsigned(c, e->a, false)),
                 prec);
}

/* ---- 16-bit floats ---------------------------------------------------- */

/* The operation in f32, not yet rounded; NULL: its result is exact. */
static const struct tt_expr *
in_f32(struct cprinter *c, const struct tt_expr *e)
{
  struct tt_arena *ar = c->arena;
  enum tt_dtype s = e->a ? e->a->type.dtype : TT_F32;
  if (e->kind == TT_BINARY && e->op != TT_MIN && e->op != TT_MAX)
    return tt_binary(ar, e->op, tt_cast(ar, TT_F32, e->a),
                     tt_cast(ar, TT_F32, e->b));
  if (e->kind == TT_CALL) {
    const struct tt_expr *args[TT_MAX_DIMS];
    for (int i = 0; i < e->nargs; i++)
      args[i] = tt_cast(ar, TT_F32, e->args[i]);
    return tt_call(ar, e->fn, TT_F32, e->nargs, args);
  }
  /* Integers that f32 does not hold are infinite in f16; f64 would be rounded
   * twice, which is bf16's way in scalars, too. */
  if ((e->kind == TT_CAST || e->kind == TT_SAT) && s != e->type.dtype &&
      !(s == TT_F64 && e->type.dtype == TT_F16))
    return tt_cast(ar, TT_F32, e->a);
  return NULL;
}

const char *
tt_c_half_stored(struct cprinter *c, const struct tt_expr *e)
{
  const struct tt_expr *raw = in_f32(c, e);
  return tt_c_half_store(c, e->type.dtype,
                         tt_c_vexpr(c, raw ? raw : e, PREC_ANY), e->type.lanes);
}

static const char *
memory(struct cprinter *c, const struct tt_expr *e, int prec)
{
  const char *text = tt_c_access(c, e->tensor, e->nargs, e->args, false);
  if (tt_c_is_half(e->type.dtype) && !tt_is_register(e->tensor) &&
      c->dialect->style != TT_CUDA_VECTORS)
    return tt_c_half_load(c, e->type.dtype, text, e->type.lanes);
  int has = *text == '*' || *text == '(' ? PREC_UNARY : PREC_PRIMARY;
  return tt_c_paren(c, text, has, prec);
}

const char *
tt_c_vexpr(struct cprinter *c, const struct tt_expr *e, int prec)
{
  enum tt_dtype t = e->type.dtype;
  const struct tt_expr *raw = tt_c_is_half(t) ? in_f32(c, e) : NULL;
  if (t == TT_BOOL)
    return mask(c, e, 1, prec);
  if (raw)
    return tt_c_half_round(c, t, tt_c_vexpr(c, raw, PREC_ANY), e->type.lanes);
  switch (e->kind) {
  case TT_LOAD:
    return memory(c, e, prec);
  case TT_BINARY:
    return binary(c, e, prec);
  case TT_NEG:
    return negation(c, e, prec);
  case TT_NOT:
    return tt_c_paren(
        c, tt_arena_printf(c->arena, "~%s", tt_c_vexpr(c, e->a, PREC_UNARY)),
        PREC_UNARY, prec);
  case TT_CAST:
    return conversion(c, e, prec);
  case TT_SAT:
    return saturation(c, e, prec);
  case TT_SELECT:
    return choice(c, e, prec);
  case TT_CALL:
    return lanewise(c, e);
  case TT_RAMP:
    return ramp(c, e, TT_I64, prec);
  case TT_BROADCAST:
    return broadcast(c, e, prec);
  case TT_INT:
  case TT_FLT:
  case TT_VAR:
    break; /* scalars */
  }
  return "";
}
