/* Typing: which types an operator takes, how literals and indices adapt.
 *
 * Types never mix silently.  A weak value takes the type of the other side if
 * it fits; where both sides are weak the result stays weak.
 */
#include "config.h"

#include "frontend/sema.h"

#include <assert.h>
#include <math.h>

struct tt_value
tt_bad(void)
{
  return (struct tt_value){NULL, TT_STRONG, false};
}

struct tt_value
tt_strong(const struct tt_expr *e)
{
  return (struct tt_value){e, TT_STRONG, false};
}

static struct tt_value
weak(const struct tt_expr *e, enum tt_weakness w, bool literal)
{
  return (struct tt_value){e, w, literal};
}

const char *
tt_value_type(const struct tt_value *v)
{
  switch (v->weak) {
  case TT_STRONG:
    return tt_dtype_name(v->e->type.dtype);
  case TT_WEAK_FLT:
    return "a float literal";
  case TT_WEAK_INT:
    break;
  }
  return v->literal             ? "an integer literal"
         : v->e->kind == TT_INT ? "an integer"
                                : "an index";
}

static bool
is_bool(const struct tt_value *v)
{
  return v->weak == TT_STRONG && v->e->type.dtype == TT_BOOL;
}

static bool
is_float(const struct tt_value *v)
{
  return tt_dtype_is_float(v->e->type.dtype);
}

static bool
is_int(const struct tt_value *v)
{
  return tt_dtype_is_int(v->e->type.dtype);
}

static const char *
text_of(struct tt_sema *s, const struct tt_rx *rx)
{
  return tt_span_text(s->arena, rx->span);
}

/* ---- adapting ---------------------------------------------------------- */

static struct tt_value
adapt_float(struct tt_sema *s, struct tt_value v, enum tt_dtype t,
            const struct tt_rx *rx)
{
  double f;

  if (!tt_dtype_is_float(t)) {
    tt_diag(s->diags, TT_D_TYPE_MIX, rx->span,
            "float literal %s where %s is needed", text_of(s, rx),
            tt_dtype_name(t));
    tt_note_use(s, rx->use);
    return tt_bad();
  }
  f = tt_round_float(t, v.e->fval);
  if (!isfinite(f)) {
    tt_diag(s->diags, TT_D_LITERAL_RANGE, rx->span, "%s does not fit %s",
            text_of(s, rx), tt_dtype_name(t));
    tt_note_use(s, rx->use);
    return tt_bad();
  }
  return tt_strong(tt_flt(s->arena, t, f));
}

static struct tt_value
adapt_int(struct tt_sema *s, struct tt_value v, enum tt_dtype t,
          const struct tt_rx *rx, const struct tt_facts *facts)
{
  struct tt_interval r = tt_range_of(v.e, facts, NULL);

  if (r.ok && r.lo >= tt_dtype_min(t) && r.hi <= tt_dtype_max(t))
    return tt_strong(t == TT_I64 ? v.e
                                 : tt_fold_unary(s->arena, TT_CAST, t, v.e));
  if (r.ok && r.lo == r.hi && v.literal)
    tt_diag(s->diags, TT_D_LITERAL_RANGE, rx->span, "%lld does not fit %s",
            (long long)r.lo, tt_dtype_name(t));
  else if (r.ok && r.lo == r.hi)
    tt_diag(s->diags, TT_D_LITERAL_RANGE, rx->span, "%s = %lld does not fit %s",
            text_of(s, rx), (long long)r.lo, tt_dtype_name(t));
  else
    tt_diag(s->diags, TT_D_LITERAL_RANGE, rx->span,
            "%s (%lld..%lld) does not fit %s; write %s(…)", text_of(s, rx),
            (long long)r.lo, (long long)r.hi, tt_dtype_name(t),
            tt_dtype_name(t));
  tt_note_use(s, rx->use);
  return tt_bad();
}

struct tt_value
tt_adapt(struct tt_sema *s, struct tt_value v, enum tt_dtype t,
         const struct tt_rx *rx, const struct tt_facts *facts)
{
  if (!v.e || (v.weak == TT_STRONG && v.e->type.dtype == t))
    return v;
  assert(v.weak != TT_STRONG);
  if (v.weak == TT_WEAK_FLT)
    return adapt_float(s, v, t, rx);
  if (t == TT_BOOL) {
    tt_diag(s->diags, TT_D_TYPE_MIX, rx->span,
            "%s where bool is needed; write != 0", tt_value_type(&v));
    tt_note_use(s, rx->use);
    return tt_bad();
  }
  if (!tt_dtype_is_float(t))
    return adapt_int(s, v, t, rx, facts);
  if (v.literal && v.e->kind == TT_INT)
    return adapt_float(
        s, weak(tt_flt(s->arena, TT_F64, (double)v.e->ival), TT_WEAK_FLT, true),
        t, rx);
  tt_diag(s->diags, TT_D_TYPE_MIX, rx->span, "%s is an integer; write %s(%s)",
          text_of(s, rx), tt_dtype_name(t), text_of(s, rx));
  tt_note_use(s, rx->use);
  return tt_bad();
}

enum tt_dtype
tt_default_type(struct tt_sema *s, struct tt_value v,
                const struct tt_facts *facts)
{
  struct tt_interval r;

  (void)s;
  if (v.weak == TT_STRONG)
    return v.e->type.dtype;
  if (v.weak == TT_WEAK_FLT)
    return TT_F32;
  r = tt_range_of(v.e, facts, NULL);
  return r.ok && r.lo >= INT32_MIN && r.hi <= INT32_MAX ? TT_I32 : TT_I64;
}

static struct tt_value
mix(struct tt_sema *s, const struct tt_rx *rx, const char *op,
    const struct tt_value *a, const struct tt_rx *ra, const struct tt_value *b,
    const struct tt_rx *rb)
{
  tt_diag(s->diags, TT_D_TYPE_MIX, rx->at, "'%s' of %s and %s; cast one side",
          op, tt_value_type(a), tt_value_type(b));
  tt_diag_note(s->diags, ra->span, "this is %s", tt_value_type(a));
  tt_diag_note(s->diags, rb->span, "this is %s", tt_value_type(b));
  tt_note_use(s, rx->use);
  return tt_bad();
}

/* Bring both sides to one type (or leave both weak of one kind). */
static bool
join(struct tt_sema *s, const struct tt_rx *rx, const char *op,
     struct tt_value *a, const struct tt_rx *ra, struct tt_value *b,
     const struct tt_rx *rb, const struct tt_facts *facts)
{
  if (!a->e || !b->e)
    return false;
  if (a->weak == TT_STRONG && b->weak == TT_STRONG) {
    if (a->e->type.dtype == b->e->type.dtype)
      return true;
    mix(s, rx, op, a, ra, b, rb);
    return false;
  }
  if (a->weak == TT_STRONG || b->weak == TT_STRONG) {
    bool left = a->weak != TT_STRONG;
    struct tt_value *v = left ? a : b;
    enum tt_dtype t = (left ? b : a)->e->type.dtype;
    if (t == TT_BOOL || (v->weak == TT_WEAK_FLT && !tt_dtype_is_float(t)))
      *v = mix(s, rx, op, a, ra, b, rb);
    else
      *v = tt_adapt(s, *v, t, left ? ra : rb, facts);
    return v->e != NULL;
  }
  if (a->weak != b->weak) {
    struct tt_value *v = a->weak == TT_WEAK_INT ? a : b;
    if (v->literal && v->e->kind == TT_INT)
      *v =
          weak(tt_flt(s->arena, TT_F64, (double)v->e->ival), TT_WEAK_FLT, true);
    else
      *v = mix(s, rx, op, a, ra, b, rb);
    return v->e != NULL;
  }
  return true;
}

/* ---- arithmetic -------------------------------------------------------- */

static struct tt_value
operand_error(struct tt_sema *s, const struct tt_rx *rx, const char *op,
              const struct tt_value *v, const char *needs)
{
  tt_diag(s->diags, TT_D_TYPE_MIX, rx->at, "'%s' of %s; it needs %s", op,
          tt_value_type(v), needs);
  tt_note_use(s, rx->use);
  return tt_bad();
}

static struct tt_value
overflow(struct tt_sema *s, const struct tt_rx *rx)
{
  tt_diag(s->diags, TT_D_SIZE_OVERFLOW, rx->span, "'%s' does not fit 64 bits",
          text_of(s, rx));
  tt_note_use(s, rx->use);
  return tt_bad();
}

static struct tt_value
not_finite(struct tt_sema *s, const struct tt_rx *rx)
{
  tt_diag(s->diags, TT_D_LITERAL_RANGE, rx->span, "'%s' is not finite",
          text_of(s, rx));
  tt_note_use(s, rx->use);
  return tt_bad();
}

/* A divisor that is the constant 0: reports. */
static bool
divides_by_zero(struct tt_sema *s, const struct tt_rx *rx,
                const struct tt_rx *divisor, const struct tt_value *v)
{
  if (!tt_is_int(v->e, 0) || tt_dtype_is_float(v->e->type.dtype))
    return false;
  if (divisor->kind == TT_RX_VALUE && !divisor->sym)
    tt_diag(s->diags, TT_D_DIVISION_BY_ZERO, rx->at, "division by zero");
  else
    tt_diag(s->diags, TT_D_DIVISION_BY_ZERO, rx->at, "division by zero: %s = 0",
            text_of(s, divisor));
  tt_diag_note(s->diags, divisor->span, "this is 0");
  tt_note_use(s, rx->use);
  return true;
}

/* Weak integer constants are checked: a size that wraps is a mistake. */
static bool
weak_overflows(enum tt_binop op, const struct tt_value *a,
               const struct tt_value *b)
{
  int64_t v;

  if (a->weak != TT_WEAK_INT || a->e->kind != TT_INT || b->e->kind != TT_INT)
    return false;
  if (op == TT_ADD)
    return __builtin_add_overflow(a->e->ival, b->e->ival, &v);
  if (op == TT_SUB)
    return __builtin_sub_overflow(a->e->ival, b->e->ival, &v);
  if (op == TT_MUL)
    return __builtin_mul_overflow(a->e->ival, b->e->ival, &v);
  return op == TT_SHL && b->e->ival < 63 &&
         __builtin_mul_overflow(a->e->ival, (int64_t)1 << b->e->ival, &v);
}

static struct tt_value
build(struct tt_sema *s, const struct tt_rx *rx, enum tt_binop op,
      struct tt_value a, struct tt_value b)
{
  const struct tt_expr *e;

  if (weak_overflows(op, &a, &b))
    return overflow(s, rx);
  e = tt_fold_binary(s->arena, op, a.e, b.e);
  if (e->type.dtype == TT_BOOL)
    return tt_strong(e);
  if (a.weak == TT_WEAK_FLT && e->kind != TT_FLT)
    return not_finite(s, rx);
  return weak(e, a.weak, a.literal && b.literal);
}

static struct tt_value
shift(struct tt_sema *s, const struct tt_rx *rx, struct tt_value a,
      struct tt_value b, const struct tt_facts *facts)
{
  struct tt_interval r;
  const char *op = tt_binop_text(rx->op);
  int bits;

  if (!is_int(&a))
    return operand_error(s, rx, op, &a, "integers");
  if (!is_int(&b))
    return operand_error(s, rx, op, &b, "integers");
  if (a.weak != TT_STRONG && b.weak == TT_STRONG)
    a = tt_adapt(s, a, b.e->type.dtype, rx->args[0], facts);
  if (!a.e)
    return a;
  bits = tt_dtype_bits(a.e->type.dtype);
  r = tt_range_of(b.e, facts, NULL);
  if (r.ok && (r.hi < 0 || r.lo >= bits)) {
    tt_diag(s->diags, TT_D_SHIFT_RANGE, rx->args[1]->span,
            "shift by %lld of %s", (long long)r.lo,
            a.weak == TT_STRONG ? tt_dtype_name(a.e->type.dtype) : "i64");
    tt_note_use(s, rx->use);
    return tt_bad();
  }
  if (a.weak == TT_STRONG && b.weak == TT_STRONG &&
      a.e->type.dtype != b.e->type.dtype)
    return mix(s, rx, op, &a, rx->args[0], &b, rx->args[1]);
  if (a.weak == TT_STRONG && b.weak != TT_STRONG)
    b = tt_adapt(s, b, a.e->type.dtype, rx->args[1], facts);
  return b.e ? build(s, rx, rx->op, a, b) : b;
}

static struct tt_value
logic(struct tt_sema *s, const struct tt_rx *rx, struct tt_value a,
      struct tt_value b)
{
  const char *op = tt_binop_text(rx->op);

  a = tt_type_bool(s, rx->args[0], a, op);
  b = tt_type_bool(s, rx->args[1], b, op);
  return a.e && b.e ? build(s, rx, rx->op, a, b) : tt_bad();
}

struct tt_value
tt_type_binary(struct tt_sema *s, const struct tt_rx *rx, struct tt_value a,
               struct tt_value b, const struct tt_facts *facts)
{
  const char *op = tt_binop_text(rx->op);
  bool equality = rx->op == TT_EQ || rx->op == TT_NE;
  bool integral = rx->op == TT_MOD || rx->op == TT_BOR || rx->op == TT_BXOR ||
                  rx->op == TT_BAND;

  if (!a.e || !b.e)
    return tt_bad();
  if (rx->op == TT_AND || rx->op == TT_OR)
    return logic(s, rx, a, b);
  if (rx->op == TT_SHL || rx->op == TT_SHR)
    return shift(s, rx, a, b, facts);
  if (!join(s, rx, op, &a, rx->args[0], &b, rx->args[1], facts))
    return tt_bad();
  if (is_bool(&a) && !equality)
    return operand_error(s, rx, op, &a, "numbers");
  if (integral && !is_int(&a))
    return operand_error(s, rx, op, &a, "integers");
  if ((rx->op == TT_DIV || rx->op == TT_MOD) &&
      divides_by_zero(s, rx, rx->args[1], &b))
    return tt_bad();
  return build(s, rx, rx->op, a, b);
}

struct tt_value
tt_type_bool(struct tt_sema *s, const struct tt_rx *rx, struct tt_value v,
             const char *what)
{
  if (!v.e || is_bool(&v))
    return v;
  tt_diag(s->diags, TT_D_TYPE_MIX, rx->span,
          "%s needs bool, this is %s; write a comparison", what,
          tt_value_type(&v));
  tt_note_use(s, rx->use);
  return tt_bad();
}

struct tt_value
tt_type_unary(struct tt_sema *s, const struct tt_rx *rx, struct tt_value v)
{
  enum tt_expr_kind kind = rx->kind == TT_RX_NEG ? TT_NEG : TT_NOT;

  if (!v.e)
    return v;
  if (rx->kind == TT_RX_NOT) {
    v = tt_type_bool(s, rx->args[0], v, "!");
    if (!v.e)
      return v;
  } else if (rx->kind == TT_RX_BITNOT && !is_int(&v)) {
    return operand_error(s, rx, "~", &v, "integers");
  } else if (rx->kind == TT_RX_NEG && is_bool(&v)) {
    return operand_error(s, rx, "-", &v, "numbers");
  }
  v.e = tt_fold_unary(s->arena, kind, v.e->type.dtype, v.e);
  return v;
}

struct tt_value
tt_type_cond(struct tt_sema *s, const struct tt_rx *rx, struct tt_value c,
             struct tt_value a, struct tt_value b, const struct tt_facts *facts)
{
  c = tt_type_bool(s, rx->args[0], c, "the condition of ?:");
  if (!c.e || !join(s, rx, "?:", &a, rx->args[1], &b, rx->args[2], facts))
    return tt_bad();
  if (c.e->kind == TT_INT)
    return c.e->ival ? a : b;
  if (a.weak == TT_WEAK_FLT) { /* no float expression may stay weak */
    a = tt_adapt(s, a, TT_F32, rx->args[1], facts);
    b = tt_adapt(s, b, TT_F32, rx->args[2], facts);
    if (!a.e || !b.e)
      return tt_bad();
  }
  return weak(tt_select(s->arena, c.e, a.e, b.e), a.weak, false);
}

/* ---- conversions ------------------------------------------------------- */

struct tt_value
tt_type_cast(struct tt_sema *s, const struct tt_rx *rx, struct tt_value v)
{
  bool saturate = rx->kind == TT_RX_SAT;
  const struct tt_expr *e;

  if (!v.e)
    return v;
  if (saturate && (!tt_dtype_is_int(rx->dtype) || is_bool(&v))) {
    tt_diag(s->diags, TT_D_TYPE_MIX, rx->span,
            "sat_%s of %s; it converts numbers to integers",
            tt_dtype_name(rx->dtype), tt_value_type(&v));
    tt_note_use(s, rx->use);
    return tt_bad();
  }
  if (v.e->type.dtype == rx->dtype)
    return tt_strong(v.e);
  e = tt_fold_unary(s->arena, saturate ? TT_SAT : TT_CAST, rx->dtype, v.e);
  if (v.weak == TT_WEAK_FLT && !tt_is_const(e)) {
    tt_diag(s->diags, TT_D_LITERAL_RANGE, rx->span, "%s does not fit %s",
            text_of(s, rx->args[0]), tt_dtype_name(rx->dtype));
    tt_note_use(s, rx->use);
    return tt_bad();
  }
  return tt_strong(e);
}

/* ---- builtins ---------------------------------------------------------- */

static struct tt_value
type_minmax(struct tt_sema *s, const struct tt_rx *rx, struct tt_value *v,
            const struct tt_facts *facts)
{
  enum tt_binop op = rx->builtin == TT_B_MIN ? TT_MIN : TT_MAX;
  const char *name = rx->builtin == TT_B_MIN ? "min" : "max";
  struct tt_value r = v[0];

  for (int i = 1; i < rx->nargs; i++) {
    if (!join(s, rx, name, &r, rx->args[0], &v[i], rx->args[i], facts))
      return tt_bad();
    if (is_bool(&r))
      return operand_error(s, rx, name, &r, "numbers");
    r = build(s, rx, op, r, v[i]);
  }
  return r;
}

static struct tt_value
type_clamp(struct tt_sema *s, const struct tt_rx *rx, struct tt_value *v,
           const struct tt_facts *facts)
{
  const struct tt_rx *const *x = rx->args;
  struct tt_value r;

  /* Twice, so that a type on either bound reaches the value. */
  if (!join(s, rx, "clamp", &v[0], x[0], &v[2], x[2], facts) ||
      !join(s, rx, "clamp", &v[0], x[0], &v[1], x[1], facts) ||
      !join(s, rx, "clamp", &v[0], x[0], &v[2], x[2], facts))
    return tt_bad();
  if (is_bool(&v[0]))
    return operand_error(s, rx, "clamp", &v[0], "numbers");
  r = build(s, rx, TT_MAX, v[0], v[1]);
  return build(s, rx, TT_MIN, r, v[2]);
}

/* a/b rounded up: -((-a)/b), as / floors. */
static struct tt_value
type_ceildiv(struct tt_sema *s, const struct tt_rx *rx, struct tt_value *v,
             const struct tt_facts *facts)
{
  enum tt_dtype t;

  if (!join(s, rx, "ceildiv", &v[0], rx->args[0], &v[1], rx->args[1], facts))
    return tt_bad();
  if (!is_int(&v[0]))
    return operand_error(s, rx, "ceildiv", &v[0], "integers");
  if (divides_by_zero(s, rx, rx->args[1], &v[1]))
    return tt_bad();
  t = v[0].e->type.dtype;
  v[0].e = tt_fold_unary(s->arena, TT_NEG, t, v[0].e);
  v[0] = build(s, rx, TT_DIV, v[0], v[1]);
  v[0].e = tt_fold_unary(s->arena, TT_NEG, t, v[0].e);
  return v[0];
}

static struct tt_value
call(struct tt_sema *s, const struct tt_rx *rx, struct tt_value *v)
{
  const struct tt_expr *args[2] = {v[0].e, rx->nargs > 1 ? v[1].e : NULL};
  const struct tt_expr *e =
      tt_fold_call(s->arena, rx->fn, v[0].e->type.dtype, rx->nargs, args);

  if (v[0].weak == TT_WEAK_FLT && e->kind != TT_FLT)
    return not_finite(s, rx);
  return weak(e, v[0].weak, v[0].literal);
}

static struct tt_value
type_float_call(struct tt_sema *s, const struct tt_rx *rx, struct tt_value *v,
                const struct tt_facts *facts)
{
  const char *name = tt_fn_name(rx->fn);

  if (rx->nargs == 2 &&
      !join(s, rx, name, &v[0], rx->args[0], &v[1], rx->args[1], facts))
    return tt_bad();
  for (int i = 0; i < rx->nargs; i++)
    if (v[i].weak == TT_WEAK_INT && v[i].literal && v[i].e->kind == TT_INT)
      v[i] = weak(tt_flt(s->arena, TT_F64, (double)v[i].e->ival), TT_WEAK_FLT,
                  true);
  if (!is_float(&v[0])) {
    tt_diag(s->diags, TT_D_TYPE_MIX, rx->args[0]->span,
            "%s of %s; write f32(%s)", name, tt_value_type(&v[0]),
            text_of(s, rx->args[0]));
    tt_note_use(s, rx->use);
    return tt_bad();
  }
  return call(s, rx, v);
}

/* sqrdmulh and rdivp2 are on i32. */
static struct tt_value
type_fixed_call(struct tt_sema *s, const struct tt_rx *rx, struct tt_value *v,
                const struct tt_facts *facts)
{
  struct tt_interval r;

  for (int i = 0; i < 2; i++) {
    if (v[i].weak == TT_STRONG && v[i].e->type.dtype != TT_I32) {
      tt_diag(s->diags, TT_D_TYPE_MIX, rx->args[i]->span,
              "%s of %s; write i32(…)", tt_fn_name(rx->fn),
              tt_value_type(&v[i]));
      tt_note_use(s, rx->use);
      return tt_bad();
    }
    v[i] = tt_adapt(s, v[i], TT_I32, rx->args[i], facts);
    if (!v[i].e)
      return v[i];
  }
  r = tt_range_of(v[1].e, facts, NULL);
  if (rx->fn == TT_FN_RDIVP2 && r.ok && (r.hi < 0 || r.lo > 31)) {
    tt_diag(s->diags, TT_D_SHIFT_RANGE, rx->args[1]->span,
            "rdivp2 by %lld; it takes 0..31", (long long)r.lo);
    tt_note_use(s, rx->use);
    return tt_bad();
  }
  return call(s, rx, v);
}

static struct tt_value
type_fn(struct tt_sema *s, const struct tt_rx *rx, struct tt_value *v,
        const struct tt_facts *facts)
{
  const char *name = tt_fn_name(rx->fn);

  switch (rx->fn) {
  case TT_FN_ABS:
    if (is_bool(&v[0]))
      return operand_error(s, rx, name, &v[0], "numbers");
    return call(s, rx, v);
  case TT_FN_QUOT:
  case TT_FN_REM:
    if (!join(s, rx, name, &v[0], rx->args[0], &v[1], rx->args[1], facts))
      return tt_bad();
    if (!is_int(&v[0]))
      return operand_error(s, rx, name, &v[0], "integers");
    if (divides_by_zero(s, rx, rx->args[1], &v[1]))
      return tt_bad();
    return call(s, rx, v);
  case TT_FN_SQRDMULH:
  case TT_FN_RDIVP2:
    return type_fixed_call(s, rx, v, facts);
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
  case TT_NFNS:
    break;
  }
  return type_float_call(s, rx, v, facts);
}

struct tt_value
tt_type_call(struct tt_sema *s, const struct tt_rx *rx, struct tt_value *v,
             const struct tt_facts *facts)
{
  for (int i = 0; i < rx->nargs; i++)
    if (!v[i].e)
      return tt_bad();
  switch (rx->builtin) {
  case TT_B_MIN:
  case TT_B_MAX:
    return type_minmax(s, rx, v, facts);
  case TT_B_CLAMP:
    return type_clamp(s, rx, v, facts);
  case TT_B_SQ:
    if (is_bool(&v[0]))
      return operand_error(s, rx, "sq", &v[0], "numbers");
    return build(s, rx, TT_MUL, v[0], v[0]);
  case TT_B_CEILDIV:
    return type_ceildiv(s, rx, v, facts);
  case TT_B_FN:
    return type_fn(s, rx, v, facts);
  }
  return tt_bad();
}
