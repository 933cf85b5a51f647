/* The simplifier of expressions.
 *
 * Bottom-up: operands first, then the rules of the node.  The functions
 * named after a node (binary, select, ...) take simplified operands and return
 * a simplified result without looking at the operands' operands more than a
 * level deep, so that the whole is linear; proofs have a budget.
 */
#include "config.h"

#include "ir/simplify.h"

#include "ir/eval.h"
#include "ir/sum.h"

#include <math.h>

static const struct tt_expr *
widen(struct tt_simp *s, const struct tt_expr *e, int lanes)
{
  return lanes > 1 ? tt_broadcast(s->arena, e, lanes) : e;
}

/* ---- constants --------------------------------------------------------- */

/* The number of a constant or of a broadcast of one. */
static bool
constant(const struct tt_expr *e, union tt_number *v)
{
  if (e->kind == TT_BROADCAST)
    e = e->a;
  if (e->kind == TT_INT)
    v->i = e->ival;
  else if (e->kind == TT_FLT)
    v->f = e->fval;
  else
    return false;
  return true;
}

/* Is `e` this small integer, in whatever type? */
static bool
is_number(const struct tt_expr *e, int v)
{
  union tt_number n;
  if (!constant(e, &n))
    return false;
  return tt_dtype_is_float(e->type.dtype) ? n.f == v : n.i == v;
}

static const struct tt_expr *
number(struct tt_simp *s, struct tt_type type, union tt_number v)
{
  return widen(s,
               tt_dtype_is_float(type.dtype)
                   ? tt_flt(s->arena, type.dtype, v.f)
                   : tt_int(s->arena, type.dtype, v.i),
               type.lanes);
}

static const struct tt_expr *
zero(struct tt_simp *s, struct tt_type type)
{
  return widen(s, tt_zero(s->arena, type.dtype), type.lanes);
}

static const struct tt_expr *
boolean(struct tt_simp *s, bool v, int lanes)
{
  return widen(s, tt_bool(s->arena, v), lanes);
}

/* ---- one operand ------------------------------------------------------- */

static const struct tt_expr *
negate(struct tt_simp *s, const struct tt_expr *a)
{
  union tt_number v;
  if (a->type.dtype == TT_I64)
    return tt_simp_sum(s, tt_neg(s->arena, a));
  if (constant(a, &v))
    return number(s, a->type, tt_eval_neg(a->type.dtype, v));
  if (a->kind == TT_NEG)
    return a->a;
  if (a->kind == TT_BROADCAST)
    return widen(s, negate(s, a->a), a->type.lanes);
  return tt_neg(s->arena, a);
}

static bool
is_comparison(const struct tt_expr *e)
{
  return e->kind == TT_BINARY &&
         (e->op == TT_EQ || e->op == TT_NE || e->op == TT_LT ||
          e->op == TT_GT || e->op == TT_LE || e->op == TT_GE);
}

static const struct tt_expr *
invert(struct tt_simp *s, const struct tt_expr *a)
{
  union tt_number v;
  if (constant(a, &v))
    return number(s, a->type, tt_eval_not(a->type.dtype, v));
  if (a->kind == TT_NOT)
    return a->a;
  if (a->kind == TT_BROADCAST)
    return widen(s, invert(s, a->a), a->type.lanes);
  if (is_comparison(a) && (a->op == TT_EQ || a->op == TT_NE))
    return tt_simp_binary(s, a->op == TT_EQ ? TT_NE : TT_EQ, a->a, a->b);
  /* Not for floats: a NaN is neither less nor not less. */
  if (is_comparison(a) && !tt_dtype_is_float(a->a->type.dtype)) {
    if (a->op == TT_LT)
      return tt_simp_binary(s, TT_LE, a->b, a->a);
    if (a->op == TT_LE)
      return tt_simp_binary(s, TT_LT, a->b, a->a);
  }
  return tt_not(s->arena, a);
}

static bool
keeps_values(enum tt_dtype from, enum tt_dtype to)
{
  if (tt_dtype_is_float(from) || tt_dtype_is_float(to))
    return from == to;
  return tt_dtype_min(from) >= tt_dtype_min(to) &&
         tt_dtype_max(from) <= tt_dtype_max(to);
}

static const struct tt_expr *
convert(struct tt_simp *s, enum tt_expr_kind kind, enum tt_dtype to,
        const struct tt_expr *a)
{
  union tt_number v;
  enum tt_dtype from = a->type.dtype;
  if (to == from)
    return a;
  if (a->kind == TT_BROADCAST)
    return widen(s, convert(s, kind, to, a->a), a->type.lanes);
  if (constant(a, &v))
    return number(s, (struct tt_type){to, 1},
                  kind == TT_SAT ? tt_eval_sat(to, from, v)
                                 : tt_eval_cast(to, from, v));
  if (kind == TT_SAT &&
      (to == TT_BOOL || tt_dtype_is_float(to) || keeps_values(from, to)))
    kind = TT_CAST;
  if (kind == TT_CAST && a->kind == TT_CAST) {
    enum tt_dtype first = a->a->type.dtype;
    if (!tt_dtype_is_float(first) && keeps_values(first, from))
      return convert(s, kind, to, a->a);
    /* i64(i32(x)) where the bounds of x say that nothing was cut off. */
    if (!tt_dtype_is_float(first) && first == to && from != TT_BOOL &&
        !tt_dtype_is_float(from)) {
      struct tt_interval r = tt_bounds_in(&s->facts, a->a, TT_SIMP_BUDGET);
      if (r.ok && r.lo >= tt_dtype_min(from) && r.hi <= tt_dtype_max(from))
        return a->a;
    }
  }
  return kind == TT_CAST ? tt_cast(s->arena, to, a) : tt_sat(s->arena, to, a);
}

/* ---- two operands ------------------------------------------------------ */

static bool
is_commutative(enum tt_binop op, enum tt_dtype t)
{
  switch (op) {
  case TT_ADD:
  case TT_MUL:
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
    return true;
  case TT_EQ:
  case TT_NE:
    return true;
  case TT_MIN:
  case TT_MAX:
    return !tt_dtype_is_float(t);
  case TT_OR:
  case TT_AND:
  case TT_LT:
  case TT_GT:
  case TT_LE:
  case TT_GE:
  case TT_SHL:
  case TT_SHR:
  case TT_SUB:
  case TT_DIV:
  case TT_MOD:
  case TT_NBINOPS:
    return false;
  }
  return false;
}

static const struct tt_expr *
add(struct tt_simp *s, const struct tt_expr *a, const struct tt_expr *b)
{
  if (is_number(a, 0))
    return b;
  if (is_number(b, 0))
    return a;
  if (b->kind == TT_NEG)
    return tt_simp_binary(s, TT_SUB, a, b->a);
  if (a->kind == TT_NEG)
    return tt_simp_binary(s, TT_SUB, b, a->a);
  return NULL;
}

static const struct tt_expr *
subtract(struct tt_simp *s, const struct tt_expr *a, const struct tt_expr *b)
{
  if (is_number(b, 0))
    return a;
  if (is_number(a, 0))
    return negate(s, b);
  if (b->kind == TT_NEG)
    return tt_simp_binary(s, TT_ADD, a, b->a);
  if (!tt_dtype_is_float(a->type.dtype) && tt_expr_equal(a, b))
    return zero(s, a->type);
  return NULL;
}

static bool
is_from_16_bits(const struct tt_expr *e)
{
  return e->kind == TT_CAST && e->type.dtype == TT_I64 &&
         !tt_dtype_is_float(e->a->type.dtype) &&
         tt_dtype_bits(e->a->type.dtype) <= 16;
}

/* i64(a) * i64(b) of operands of 16 bits: a product in 32 bits, where vectors
 * have twice the lanes and a multiplier.  Two u16 may not fit. */
static const struct tt_expr *
narrow_product(struct tt_simp *s, const struct tt_expr *a,
               const struct tt_expr *b)
{
  if (!is_from_16_bits(a) || !is_from_16_bits(b) ||
      (a->a->type.dtype == TT_U16 && b->a->type.dtype == TT_U16))
    return NULL;
  return tt_cast(s->arena, TT_I64,
                 tt_binary(s->arena, TT_MUL,
                           convert(s, TT_CAST, TT_I32, a->a),
                           convert(s, TT_CAST, TT_I32, b->a)));
}

static const struct tt_expr *
multiply(struct tt_simp *s, const struct tt_expr *a, const struct tt_expr *b)
{
  if (is_number(a, 0) || is_number(b, 0))
    return zero(s, a->type);
  if (is_number(a, 1))
    return b;
  if (is_number(b, 1))
    return a;
  bool is_signed =
      tt_dtype_is_float(a->type.dtype) || tt_dtype_is_signed(a->type.dtype);
  if (is_signed && is_number(a, -1))
    return negate(s, b);
  if (is_signed && is_number(b, -1))
    return negate(s, a);
  /* A sign moves out to where an addition can take it up. */
  if (b->kind == TT_NEG)
    return negate(s, tt_simp_binary(s, TT_MUL, a, b->a));
  if (a->kind == TT_NEG)
    return negate(s, tt_simp_binary(s, TT_MUL, a->a, b));
  return narrow_product(s, a, b);
}

static const struct tt_expr *
divide(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a,
       const struct tt_expr *b)
{
  int64_t c;
  if (tt_dtype_is_float(a->type.dtype))
    return op == TT_DIV && is_number(b, 1) ? a : NULL;
  if (is_number(b, 1))
    return op == TT_DIV ? a : zero(s, a->type);
  if (a->type.dtype == TT_I64 && tt_const_int(b, &c) && c > 0)
    return op == TT_DIV ? tt_simp_div(s, a, c) : tt_simp_mod(s, a, c);
  return NULL;
}

/* 1: a <= b always, 0: a > b always, -1: neither is known. */
static int
compare_sides(struct tt_simp *s, const struct tt_expr *a,
              const struct tt_expr *b)
{
  if (tt_expr_equal(a, b))
    return 1;
  if (tt_dtype_is_float(a->type.dtype))
    return -1;
  return tt_prove_in(&s->facts, tt_binary(s->arena, TT_LE, a, b),
                     TT_SIMP_BUDGET);
}

static const struct tt_expr *
extremum(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a,
         const struct tt_expr *b)
{
  int le = compare_sides(s, a, b);
  if (le < 0 && compare_sides(s, b, a) == 1)
    le = 0;
  if (le >= 0)
    return (le == 1) == (op == TT_MIN) ? a : b;
  /* min(min(x, 3), 5): one constant is enough. */
  union tt_number v, w, r;
  if (a->kind == TT_BINARY && a->op == op && constant(b, &w) &&
      constant(a->b, &v) && tt_eval_binary(op, a->type.dtype, v, w, &r) &&
      !tt_dtype_is_float(a->type.dtype))
    return tt_simp_binary(s, op, a->a, number(s, a->type, r));
  return NULL;
}

static const struct tt_expr *
shift(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a,
      const struct tt_expr *b)
{
  int64_t c;
  if (is_number(b, 0))
    return a;
  if (a->type.dtype == TT_I64 && tt_const_int(b, &c) && c > 0 && c <= 62)
    return op == TT_SHR ? tt_simp_div(s, a, INT64_C(1) << c)
                        : tt_simp_sum(s, tt_binary(s->arena, TT_SHL, a, b));
  return NULL;
}

static const struct tt_expr *
bits(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a,
     const struct tt_expr *b)
{
  if (op == TT_BAND) {
    if (is_number(a, 0) || is_number(b, 0))
      return zero(s, a->type);
    return tt_expr_equal(a, b) ? a : NULL;
  }
  if (is_number(b, 0))
    return a;
  if (is_number(a, 0))
    return b;
  if (tt_expr_equal(a, b))
    return op == TT_BOR ? a : zero(s, a->type);
  return NULL;
}

static const struct tt_expr *
compare(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a,
        const struct tt_expr *b)
{
  if (op == TT_GT || op == TT_GE)
    return tt_simp_binary(s, op == TT_GT ? TT_LT : TT_LE, b, a);
  const struct tt_expr *e = tt_binary(s->arena, op, a, b);
  int known = tt_prove_in(&s->facts, e, TT_SIMP_BUDGET);
  if (known >= 0)
    return boolean(s, known, a->type.lanes);
  if (a->type.dtype == TT_I64 && a->type.lanes == 1)
    return tt_simp_compare(s, op, a, b);
  if (a->type.dtype == TT_BOOL && (op == TT_EQ || op == TT_NE) &&
      b->kind == TT_INT)
    return (b->ival != 0) == (op == TT_EQ) ? a : invert(s, a);
  return NULL;
}

static const struct tt_expr *
logical(enum tt_binop op, const struct tt_expr *a, const struct tt_expr *b)
{
  int settles = op == TT_OR;
  if (is_number(a, settles) || is_number(b, !settles) || tt_expr_equal(a, b))
    return a;
  if (is_number(b, settles) || is_number(a, !settles))
    return b;
  return NULL;
}

/* A result from the operator's own rules, or NULL. */
static const struct tt_expr *
by_rules(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a,
         const struct tt_expr *b)
{
  switch (op) {
  case TT_ADD:
    return add(s, a, b);
  case TT_SUB:
    return subtract(s, a, b);
  case TT_MUL:
    return multiply(s, a, b);
  case TT_DIV:
  case TT_MOD:
    return divide(s, op, a, b);
  case TT_MIN:
  case TT_MAX:
    return extremum(s, op, a, b);
  case TT_SHL:
  case TT_SHR:
    return shift(s, op, a, b);
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
    return bits(s, op, a, b);
  case TT_EQ:
  case TT_NE:
  case TT_LT:
  case TT_GT:
  case TT_LE:
  case TT_GE:
    return compare(s, op, a, b);
  case TT_OR:
  case TT_AND:
    return logical(op, a, b);
  case TT_NBINOPS:
    break;
  }
  return NULL;
}

/* (x op c1) op c2 -> x op (c1 op c2) for integers, whose + and * wrap. */
static const struct tt_expr *
reassociate(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a,
            const struct tt_expr *b)
{
  union tt_number v, w, r;
  enum tt_dtype t = a->type.dtype;
  bool sums = op == TT_ADD || op == TT_SUB;
  if (tt_dtype_is_float(t) || (!sums && op != TT_MUL) || a->kind != TT_BINARY ||
      !constant(b, &w) || !constant(a->b, &v))
    return NULL;
  if (op == TT_MUL) {
    if (a->op != TT_MUL || !tt_eval_binary(TT_MUL, t, v, w, &r))
      return NULL;
    return tt_simp_binary(s, TT_MUL, a->a, number(s, a->type, r));
  }
  if (a->op != TT_ADD && a->op != TT_SUB)
    return NULL;
  enum tt_binop inner = a->op == op ? TT_ADD : TT_SUB;
  if (!tt_eval_binary(inner, t, v, w, &r))
    return NULL;
  return tt_simp_binary(s, a->op, a->a, number(s, a->type, r));
}

static bool
is_index_sum(enum tt_binop op, const struct tt_expr *a, const struct tt_expr *b)
{
  int64_t c;
  if (a->type.dtype != TT_I64)
    return false;
  return op == TT_ADD || op == TT_SUB ||
         (op == TT_MUL && (tt_const_int(a, &c) || tt_const_int(b, &c)));
}

const struct tt_expr *
tt_simp_binary(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a,
               const struct tt_expr *b)
{
  if (a->kind == TT_BROADCAST && b->kind == TT_BROADCAST)
    return widen(s, tt_simp_binary(s, op, a->a, b->a), a->type.lanes);
  if (is_index_sum(op, a, b))
    return tt_simp_sum(s, tt_binary(s->arena, op, a, b));
  union tt_number v, w, r;
  bool ca = constant(a, &v), cb = constant(b, &w);
  if (ca && cb && tt_eval_binary(op, a->type.dtype, v, w, &r)) {
    const struct tt_expr *like = tt_binary(s->arena, op, a, b);
    return number(s, like->type, r);
  }
  if (is_commutative(op, a->type.dtype) &&
      (ca || (!cb && !tt_dtype_is_float(a->type.dtype) &&
              a->type.dtype == TT_I64 && tt_expr_compare(a, b) > 0))) {
    const struct tt_expr *t = a;
    a = b;
    b = t;
  }
  const struct tt_expr *e = by_rules(s, op, a, b);
  e = e ? e : reassociate(s, op, a, b);
  return e ? e : tt_binary(s->arena, op, a, b);
}

/* The right side of a logical operator counts only if the left one does not
 * settle it, which is then known. */
static const struct tt_expr *
simp_logical(struct tt_simp *s, const struct tt_expr *e)
{
  const struct tt_expr *a = tt_simp(s, e->a);
  if (is_number(a, e->op == TT_OR))
    return a;
  struct tt_fact_mark mark = tt_factset_mark(&s->facts);
  if (a->type.lanes == 1)
    tt_factset_push(&s->facts, a, e->op == TT_OR);
  const struct tt_expr *b = tt_simp(s, e->b);
  tt_factset_pop(&s->facts, mark);
  /* Vectors compute both sides in any case, so that facts help only once the
   * operation is a scalar one. */
  if (a->kind == TT_BROADCAST && b->kind == TT_BROADCAST)
    return widen(s, simp_logical(s, tt_binary(s->arena, e->op, a->a, b->a)),
                 e->type.lanes);
  return tt_simp_binary(s, e->op, a, b);
}

/* ---- the rest ---------------------------------------------------------- */

static const struct tt_expr *
simp_select(struct tt_simp *s, const struct tt_expr *e)
{
  const struct tt_expr *c = tt_simp(s, e->c), *a, *b;
  if (c->kind == TT_BROADCAST)
    c = c->a;
  if (c->kind == TT_INT)
    return tt_simp(s, c->ival ? e->a : e->b);
  struct tt_fact_mark mark = tt_factset_mark(&s->facts);
  if (c->type.lanes == 1)
    tt_factset_push(&s->facts, c, false);
  a = tt_simp(s, e->a);
  tt_factset_pop(&s->facts, mark);
  if (c->type.lanes == 1)
    tt_factset_push(&s->facts, c, true);
  b = tt_simp(s, e->b);
  tt_factset_pop(&s->facts, mark);
  if (tt_expr_equal(a, b))
    return a;
  if (a->type.dtype == TT_BOOL && a->kind == TT_INT && b->kind == TT_INT)
    return a->ival ? c : invert(s, c);
  if (c->type.lanes == 1 && a->kind == TT_BROADCAST && b->kind == TT_BROADCAST)
    return widen(s, tt_select(s->arena, c, a->a, b->a), a->type.lanes);
  return tt_select(s->arena, c, a, b);
}

/* An element of a compile-time table, or NULL. */
static const struct tt_expr *
table_element(struct tt_simp *s, const struct tt_tensor *t,
              const struct tt_expr *const *idx)
{
  int64_t at = 0;
  if (t->role != TT_CONST || (!t->fdata && !t->idata))
    return NULL;
  for (int i = 0; i < t->ndim; i++) {
    if (idx[i]->kind != TT_INT || idx[i]->ival < 0 ||
        idx[i]->ival >= t->dims[i])
      return NULL;
    at = at * t->dims[i] + idx[i]->ival;
  }
  return tt_dtype_is_float(t->dtype) ? tt_flt(s->arena, t->dtype, t->fdata[at])
                                     : tt_int(s->arena, t->dtype, t->idata[at]);
}

static const struct tt_expr *
simp_load(struct tt_simp *s, const struct tt_expr *e)
{
  const struct tt_expr *idx[TT_MAX_DIMS];
  bool same = true;
  for (int i = 0; i < e->nargs; i++) {
    idx[i] = tt_simp(s, e->args[i]);
    if (idx[i]->kind == TT_BROADCAST)
      idx[i] = idx[i]->a;
    same &= idx[i] == e->args[i];
  }
  const struct tt_expr *known = table_element(s, e->tensor, idx);
  if (known)
    return widen(s, known, e->type.lanes);
  if (same)
    return e;
  const struct tt_expr *r = tt_load(s->arena, e->tensor, e->nargs, idx);
  return r->type.lanes < e->type.lanes ? widen(s, r, e->type.lanes) : r;
}

static const struct tt_expr *
simp_call(struct tt_simp *s, const struct tt_expr *e)
{
  const struct tt_expr *args[2], *scalars[2];
  union tt_number v[2], r;
  bool all_const = true, uniform = e->type.lanes > 1;
  for (int i = 0; i < e->nargs; i++) {
    args[i] = tt_simp(s, e->args[i]);
    all_const &= constant(args[i], &v[i]);
    uniform &= args[i]->kind == TT_BROADCAST;
    scalars[i] = uniform ? args[i]->a : NULL;
  }
  if (all_const && tt_eval_call(e->fn, e->type.dtype, v, &r))
    return number(s, e->type, r);
  if (uniform)
    return widen(s, tt_call(s->arena, e->fn, e->type.dtype, e->nargs, scalars),
                 e->type.lanes);
  return tt_call(s->arena, e->fn, e->type.dtype, e->nargs, args);
}

const struct tt_expr *
tt_simp_node(struct tt_simp *s, const struct tt_expr *e)
{
  switch (e->kind) {
  case TT_INT:
  case TT_FLT:
    return e;
  case TT_VAR:
    return e->var->extent == 1 ? tt_idx(s->arena, 0) : e;
  case TT_LOAD:
    return simp_load(s, e);
  case TT_BINARY:
    if (e->op == TT_AND || e->op == TT_OR)
      return simp_logical(s, e);
    return tt_simp_binary(s, e->op, tt_simp(s, e->a), tt_simp(s, e->b));
  case TT_NEG:
    return negate(s, tt_simp(s, e->a));
  case TT_NOT:
    return invert(s, tt_simp(s, e->a));
  case TT_CAST:
  case TT_SAT:
    return convert(s, e->kind, e->type.dtype, tt_simp(s, e->a));
  case TT_SELECT:
    return simp_select(s, e);
  case TT_CALL:
    return simp_call(s, e);
  case TT_RAMP:
    return tt_ramp(s->arena, tt_simp(s, e->a), e->ival, e->type.lanes);
  case TT_BROADCAST:
    return widen(s, tt_simp(s, e->a), e->type.lanes);
  }
  return e;
}

const struct tt_expr *
tt_simp(struct tt_simp *s, const struct tt_expr *e)
{
  if (e->type.dtype == TT_I64)
    return tt_simp_index(s, e);
  return tt_simp_node(s, e);
}

/* Facts in the form in which the simplifier will meet them again. */
static void
push_simplified(struct tt_simp *s, const struct tt_facts *chain)
{
  if (!chain)
    return;
  push_simplified(s, chain->outer);
  tt_factset_push(&s->facts, tt_simp(s, chain->cond), chain->negated);
}

const struct tt_expr *
tt_simplify(struct tt_arena *arena, const struct tt_expr *e,
            const struct tt_facts *chain)
{
  struct tt_simp s = {.arena = arena};
  push_simplified(&s, chain);
  e = tt_simp(&s, e);
  tt_factset_free(&s.facts);
  return e;
}
