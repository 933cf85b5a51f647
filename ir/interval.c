/* Bounds of integer expressions.
 *
 * Sums become linear forms (linear.c); other nodes are bounded by their
 * structure.  A form whose value might leave i64 would wrap when evaluated and
 * is not used.
 */
#include "config.h"

#include "ir/bounds.h"
#include "ir/sum.h"

/* The number of a lane, the term that a ramp adds to its base. */
static const struct tt_expr lane_term = {.kind = TT_VAR, .type = {TT_I64, 1}};

static struct tt_range range_of(struct tt_bounds_ctx *, const struct tt_expr *);

static int64_t
min2(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t
max2(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

static struct tt_range
hull4(int64_t a, int64_t b, int64_t c, int64_t d)
{
  return (struct tt_range){min2(min2(a, b), min2(c, d)),
                           max2(max2(a, b), max2(c, d))};
}

static struct tt_range
type_range(enum tt_dtype t)
{
  if (tt_dtype_is_float(t))
    return (struct tt_range){INT64_MIN, INT64_MAX};
  return (struct tt_range){tt_dtype_min(t), tt_dtype_max(t)};
}

/* `r`, unless the type would wrap it. */
static struct tt_range
in_type(enum tt_dtype t, struct tt_range r)
{
  struct tt_range whole = type_range(t);
  if (t == TT_I64 && (tt_is_inf(r.lo) || tt_is_inf(r.hi))) {
    /* One infinite end: the value may have wrapped past it. */
    return whole;
  }
  return r.lo < whole.lo || r.hi > whole.hi ? whole : r;
}

/* ---- sums -------------------------------------------------------------- */

static int64_t
wrap_mul(int64_t a, int64_t b)
{
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* May the operands of this narrow ADD, SUB or MUL be looked into: does it
 * never wrap? */
static bool
never_wraps(struct tt_bounds_ctx *x, const struct tt_expr *e)
{
  struct tt_range a = range_of(x, e->a), b = range_of(x, e->b), r;
  struct tt_range whole = type_range(e->type.dtype);
  if (e->op == TT_ADD)
    r = (struct tt_range){tt_add_end(a.lo, b.lo, INT64_MIN),
                          tt_add_end(a.hi, b.hi, INT64_MAX)};
  else if (e->op == TT_SUB)
    r = (struct tt_range){tt_add_end(a.lo, -b.hi, INT64_MIN),
                          tt_add_end(a.hi, -b.lo, INT64_MAX)};
  else
    r = hull4(tt_mul_end(a.lo, b.lo), tt_mul_end(a.lo, b.hi),
              tt_mul_end(a.hi, b.lo), tt_mul_end(a.hi, b.hi));
  return r.lo >= whole.lo && r.hi <= whole.hi;
}

static struct tt_range term_range(struct tt_bounds_ctx *,
                                  const struct tt_expr *);

static void collect(struct tt_bounds_ctx *, struct tt_linear *,
                    const struct tt_expr *, int64_t k);

static void
collect_binary(struct tt_bounds_ctx *x, struct tt_linear *l,
               const struct tt_expr *e, int64_t k)
{
  int64_t c;
  bool wide = e->type.dtype == TT_I64;
  switch (e->op) {
  case TT_ADD:
  case TT_SUB:
    if (!wide && !never_wraps(x, e))
      break;
    collect(x, l, e->a, k);
    collect(x, l, e->b, e->op == TT_ADD ? k : wrap_mul(k, -1));
    return;
  case TT_MUL:
    if (!tt_const_int(e->a, &c) && !tt_const_int(e->b, &c))
      break;
    if (!wide && !never_wraps(x, e))
      break;
    if (tt_const_int(e->b, &c))
      collect(x, l, e->a, wrap_mul(k, c));
    else if (tt_const_int(e->a, &c))
      collect(x, l, e->b, wrap_mul(k, c));
    return;
  case TT_SHL:
    if (!wide || !tt_const_int(e->b, &c) || c < 0 || c > 62)
      break;
    collect(x, l, e->a, wrap_mul(k, INT64_C(1) << c));
    return;
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
  case TT_SHR:
  case TT_DIV:
  case TT_MOD:
  case TT_MIN:
  case TT_MAX:
  case TT_NBINOPS:
    break;
  }
  tt_linear_add(l, e, k, term_range(x, e));
}

/* Conversions that keep every value of the operand's type. */
static bool
is_widening(const struct tt_expr *e)
{
  if (e->kind != TT_CAST || tt_dtype_is_float(e->type.dtype) ||
      tt_dtype_is_float(e->a->type.dtype))
    return false;
  struct tt_range from = type_range(e->a->type.dtype);
  struct tt_range to = type_range(e->type.dtype);
  return from.lo >= to.lo && from.hi <= to.hi;
}

/* l += k*e, modulo 2^64. */
static void
collect(struct tt_bounds_ctx *x, struct tt_linear *l, const struct tt_expr *e,
        int64_t k)
{
  if (!l->ok || x->budget-- <= 0) {
    l->ok = false;
    return;
  }
  if (e->kind == TT_INT) {
    l->c0 = (int64_t)((uint64_t)l->c0 + (uint64_t)wrap_mul(k, e->ival));
  } else if (e->kind == TT_BROADCAST || is_widening(e)) {
    collect(x, l, e->a, k);
  } else if (e->kind == TT_RAMP && e->type.dtype == TT_I64) {
    collect(x, l, e->a, k);
    tt_linear_add(l, &lane_term, wrap_mul(k, e->ival),
                  (struct tt_range){0, e->type.lanes - 1});
  } else if (e->kind == TT_NEG && e->type.dtype == TT_I64) {
    collect(x, l, e->a, wrap_mul(k, -1));
  } else if (e->kind == TT_BINARY) {
    collect_binary(x, l, e, k);
  } else {
    tt_linear_add(l, e, k, term_range(x, e));
  }
}

struct tt_linear
tt_linear_of(struct tt_bounds_ctx *x, const struct tt_expr *e)
{
  struct tt_linear l = {.ok = true};
  collect(x, &l, e, 1);
  return l;
}
static int
height(const struct tt_expr *e)
{
  int a = e->a ? height(e->a) : 0, b = e->b ? height(e->b) : 0;
  return 1 + (a > b ? a : b);
}

/* The minimum or maximum among the terms to split at, or -1.  The deepest
 * first: a shallow one may occur again inside it, and cancel. */
static int
extremum_term(const struct tt_linear *l)
{
  int found = -1;
  for (int i = 0; i < l->n; i++)
    if (l->t[i].e->kind == TT_BINARY &&
        (l->t[i].e->op == TT_MIN || l->t[i].e->op == TT_MAX) &&
        (found < 0 || height(l->t[i].e) > height(l->t[found].e)))
      found = i;
  return found;
}

/* The term of `l` that is e->a / e->b for a remainder e->a % e->b. */
static const struct tt_term *
quotient_of(const struct tt_linear *l, const struct tt_expr *e)
{
  for (int i = 0; i < l->n; i++) {
    const struct tt_expr *q = l->t[i].e;
    if (q->kind == TT_BINARY && q->op == TT_DIV && tt_expr_equal(q->a, e->a) &&
        tt_expr_equal(q->b, e->b))
      return &l->t[i];
  }
  return NULL;
}

void
tt_linear_push_quotients(struct tt_bounds_ctx *x, const struct tt_linear *l)
{
  int64_t c;
  for (int i = 0; l->ok && i < l->n; i++) {
    const struct tt_expr *e = l->t[i].e;
    if (e->kind != TT_BINARY || (e->op != TT_DIV && e->op != TT_MOD) ||
        tt_dtype_is_float(e->type.dtype) || !tt_const_int(e->b, &c) || c <= 0)
      continue;
    struct tt_linear a = tt_linear_of(x, e->a), t = {.ok = true};
    struct tt_range r = tt_linear_range(x->facts, &a);
    if (!tt_linear_is_exact(&a, r))
      continue;
    tt_linear_add(&t, e, 1, (struct tt_range){l->t[i].lo, l->t[i].hi});
    struct tt_linear d = tt_linear_combine(&a, e->op == TT_DIV ? -c : -1, &t);
    if (e->op == TT_DIV)
      tt_factset_push_form(x->facts, -1, &d, c - 1);
    if (e->op == TT_DIV || r.lo >= 0)
      tt_factset_push_form(x->facts, 1, &d, 0);
    const struct tt_term *q = e->op == TT_MOD ? quotient_of(l, e) : NULL;
    if (q) {
      tt_linear_add(&d, q->e, -c, (struct tt_range){q->lo, q->hi});
      tt_factset_push_form(x->facts, 1, &d, 0);
      tt_factset_push_form(x->facts, -1, &d, 0);
    }
  }
}

static struct tt_range split_range(struct tt_bounds_ctx *,
                                   const struct tt_linear *, int depth);

/* What is left of a form without its term min(a, b) or max(a, b). */
struct split {
  struct tt_linear others, a, b;
  bool is_min;
  int64_t k; /* of the term */
};

/* others + k*a, and others + k*b. */
static struct tt_range
operand_range(struct tt_bounds_ctx *x, const struct split *s, bool first,
              int depth)
{
  struct tt_linear form =
      tt_linear_combine(&s->others, s->k, first ? &s->a : &s->b);
  return split_range(x, &form, depth - 1);
}

/* A sum with a minimum in it is itself the minimum, or for k < 0 the maximum,
 * of the two. */
static struct tt_range
extremum_range(struct tt_bounds_ctx *x, const struct split *s, int depth)
{
  struct tt_range p = operand_range(x, s, true, depth);
  struct tt_range q = operand_range(x, s, false, depth);
  if (s->is_min == (s->k > 0))
    return (struct tt_range){min2(p.lo, q.lo), min2(p.hi, q.hi)};
  return (struct tt_range){max2(p.lo, q.lo), max2(p.hi, q.hi)};
}

/* It is the one where that operand is the lower (higher) one, else the other:
 * slower, but each case has a fact more. */
static struct tt_range
cases_range(struct tt_bounds_ctx *x, const struct split *s, int depth)
{
  struct tt_linear d = tt_linear_combine(&s->b, -1, &s->a);
  struct tt_range r[2];
  for (int i = 0; i < 2; i++) {
    struct tt_fact_mark mark = tt_factset_mark(x->facts);
    tt_linear_push_quotients(x, &d);
    tt_factset_push_form(x->facts, s->is_min == (i == 0) ? 1 : -1, &d, 0);
    r[i] = operand_range(x, s, i == 0, depth);
    tt_factset_pop(x->facts, mark);
  }
  /* A case that cannot be has no say. */
  if (r[0].lo > r[0].hi)
    return r[1];
  if (r[1].lo > r[1].hi)
    return r[0];
  return (struct tt_range){min2(r[0].lo, r[1].lo), max2(r[0].hi, r[1].hi)};
}

static struct tt_range
meet(struct tt_range a, struct tt_range b)
{
  return (struct tt_range){max2(a.lo, b.lo), min2(a.hi, b.hi)};
}

/* Bounds of a form; minima and maxima among its terms are taken apart.  This
 * is how an index minus a clamped start of a region is bounded. */
static struct tt_range
split_range(struct tt_bounds_ctx *x, const struct tt_linear *l, int depth)
{
  struct tt_fact_mark mark = tt_factset_mark(x->facts);
  bool related = l->ok && (l->n > 1 || mark.forms > 0);
  if (related)
    tt_linear_push_quotients(x, l);
  struct tt_range r = tt_linear_range(x->facts, l);
  int i = related && depth > 0 ? extremum_term(l) : -1;
  if (i >= 0) {
    const struct tt_expr *e = l->t[i].e;
    struct split s = {*l, tt_linear_of(x, e->a), tt_linear_of(x, e->b),
                      e->op == TT_MIN, l->t[i].k};
    s.others.t[i] = s.others.t[--s.others.n];
    if (tt_linear_is_exact(&s.a, tt_linear_range(x->facts, &s.a)) &&
        tt_linear_is_exact(&s.b, tt_linear_range(x->facts, &s.b))) {
      r = meet(r, extremum_range(x, &s, depth));
      if (x->facts->thorough)
        r = meet(r, cases_range(x, &s, depth));
    }
  }
  tt_factset_pop(x->facts, mark);
  return r;
}

struct tt_range
tt_linear_bounds(struct tt_bounds_ctx *x, const struct tt_linear *l)
{
  return split_range(x, l, 4);
}

/* ---- bounds by structure ----------------------------------------------- */

static struct tt_range
div_range(struct tt_range a, struct tt_range b)
{
  if (b.lo <= 0)
    return (struct tt_range){INT64_MIN, INT64_MAX};
  return hull4(tt_floordiv(a.lo, b.lo), tt_floordiv(a.lo, b.hi),
               tt_floordiv(a.hi, b.lo), tt_floordiv(a.hi, b.hi));
}

static struct tt_range
mod_range(struct tt_range a, struct tt_range b)
{
  if (b.lo > 0) {
    if (a.lo >= 0 && a.hi < b.lo)
      return a;
    return (struct tt_range){0, a.lo >= 0 ? min2(a.hi, b.hi - 1) : b.hi - 1};
  }
  if (b.hi < 0 && b.lo > INT64_MIN)
    return (struct tt_range){b.lo + 1, 0};
  return (struct tt_range){INT64_MIN, INT64_MAX};
}

/* The lowest 2^n - 1 that is >= v >= 0. */
static int64_t
all_ones(int64_t v)
{
  int64_t r = 0;
  while (r < v)
    r = 2 * r + 1;
  return r;
}

static struct tt_range
shift_range(const struct tt_expr *e, struct tt_range a, struct tt_range b)
{
  if (b.lo < 0 || b.hi >= tt_dtype_bits(e->type.dtype) || b.hi > 62)
    return type_range(e->type.dtype);
  if (e->op == TT_SHR)
    return hull4(a.lo >> b.lo, a.lo >> b.hi, a.hi >> b.lo, a.hi >> b.hi);
  int64_t p = INT64_C(1) << b.lo, q = INT64_C(1) << b.hi;
  return hull4(tt_mul_end(a.lo, p), tt_mul_end(a.lo, q), tt_mul_end(a.hi, p),
               tt_mul_end(a.hi, q));
}

static struct tt_range
bits_range(const struct tt_expr *e, struct tt_range a, struct tt_range b)
{
  if (e->op == TT_BAND && a.lo >= 0 && b.lo >= 0)
    return (struct tt_range){0, min2(a.hi, b.hi)};
  if (e->op == TT_BAND && (a.lo >= 0 || b.lo >= 0))
    return (struct tt_range){0, a.lo >= 0 ? a.hi : b.hi};
  if (a.lo >= 0 && b.lo >= 0)
    return (struct tt_range){0, all_ones(max2(a.hi, b.hi))};
  return type_range(e->type.dtype);
}

static struct tt_range
binary_range(struct tt_bounds_ctx *x, const struct tt_expr *e)
{
  enum tt_dtype t = e->type.dtype;
  if (t == TT_BOOL)
    return (struct tt_range){0, 1};
  struct tt_range a = range_of(x, e->a), b = range_of(x, e->b);
  switch (e->op) {
  case TT_ADD:
    return in_type(t, (struct tt_range){tt_add_end(a.lo, b.lo, INT64_MIN),
                                        tt_add_end(a.hi, b.hi, INT64_MAX)});
  case TT_SUB:
    if (b.lo == INT64_MIN)
      return type_range(t);
    return in_type(t, (struct tt_range){tt_add_end(a.lo, -b.hi, INT64_MIN),
                                        tt_add_end(a.hi, -b.lo, INT64_MAX)});
  case TT_MUL:
    return in_type(t, hull4(tt_mul_end(a.lo, b.lo), tt_mul_end(a.lo, b.hi),
                            tt_mul_end(a.hi, b.lo), tt_mul_end(a.hi, b.hi)));
  case TT_DIV:
    return in_type(t, div_range(a, b));
  case TT_MOD:
    return in_type(t, mod_range(a, b));
  case TT_MIN:
    return (struct tt_range){min2(a.lo, b.lo), min2(a.hi, b.hi)};
  case TT_MAX:
    return (struct tt_range){max2(a.lo, b.lo), max2(a.hi, b.hi)};
  case TT_SHL:
  case TT_SHR:
    return in_type(t, shift_range(e, a, b));
  case TT_BAND:
  case TT_BOR:
  case TT_BXOR:
    return in_type(t, bits_range(e, a, b));
  case TT_OR:
  case TT_AND:
  case TT_EQ:
  case TT_NE:
  case TT_LT:
  case TT_GT:
  case TT_LE:
  case TT_GE:
  case TT_NBINOPS:
    break;
  }
  return type_range(t);
}

static struct tt_range
load_range(const struct tt_expr *e)
{
  const struct tt_tensor *t = e->tensor;
  if (t->has_range && !tt_dtype_is_float(t->dtype))
    return (struct tt_range){t->lo, t->hi - 1};
  int64_t n = t->role == TT_CONST && t->idata ? tt_tensor_size(t) : 0;
  if (n < 1 || n > 1024)
    return type_range(t->dtype);
  struct tt_range r = {t->idata[0], t->idata[0]};
  for (int64_t i = 1; i < n; i++)
    r = (struct tt_range){min2(r.lo, t->idata[i]), max2(r.hi, t->idata[i])};
  return r;
}

static struct tt_range
call_range(struct tt_bounds_ctx *x, const struct tt_expr *e)
{
  struct tt_range whole = type_range(e->type.dtype);
  if (tt_dtype_is_float(e->type.dtype))
    return whole;
  struct tt_range a = range_of(x, e->args[0]);
  if (e->fn == TT_FN_ABS) {
    if (a.lo == whole.lo) /* -lowest wraps to itself */
      return whole;
    return a.lo >= 0
               ? a
               : (struct tt_range){a.hi < 0 ? -a.hi : 0, max2(-a.lo, a.hi)};
  }
  if (e->fn != TT_FN_QUOT && e->fn != TT_FN_REM)
    return whole;
  struct tt_range b = range_of(x, e->args[1]);
  if (a.lo < 0 || b.lo <= 0)
    return whole;
  return e->fn == TT_FN_QUOT ? div_range(a, b) : mod_range(a, b);
}

static struct tt_range
select_range(struct tt_bounds_ctx *x, const struct tt_expr *e)
{
  struct tt_range a, b;
  if (e->c->type.lanes > 1) {
    a = range_of(x, e->a);
    b = range_of(x, e->b);
  } else {
    struct tt_fact_mark mark = tt_factset_mark(x->facts);
    tt_factset_push(x->facts, e->c, false);
    a = range_of(x, e->a);
    tt_factset_pop(x->facts, mark);
    tt_factset_push(x->facts, e->c, true);
    b = range_of(x, e->b);
    tt_factset_pop(x->facts, mark);
  }
  return (struct tt_range){min2(a.lo, b.lo), max2(a.hi, b.hi)};
}

static struct tt_range
cast_range(struct tt_bounds_ctx *x, const struct tt_expr *e)
{
  struct tt_range whole = type_range(e->type.dtype);
  if (tt_dtype_is_float(e->a->type.dtype) || tt_dtype_is_float(e->type.dtype))
    return whole;
  struct tt_range a = range_of(x, e->a);
  if (e->kind == TT_SAT)
    return (struct tt_range){max2(min2(a.lo, whole.hi), whole.lo),
                             min2(max2(a.hi, whole.lo), whole.hi)};
  return a.lo < whole.lo || a.hi > whole.hi ? whole : a;
}

/* Bounds of a node that is no sum. */
static struct tt_range
term_range(struct tt_bounds_ctx *x, const struct tt_expr *e)
{
  struct tt_range whole = type_range(e->type.dtype);
  if (tt_dtype_is_float(e->type.dtype) || x->budget-- <= 0)
    return whole;
  switch (e->kind) {
  case TT_INT:
    return (struct tt_range){e->ival, e->ival};
  case TT_VAR:
    return (struct tt_range){0, e->var->extent - 1};
  case TT_LOAD:
    return load_range(e);
  case TT_BINARY:
    return binary_range(x, e);
  case TT_NEG: {
    struct tt_range a = range_of(x, e->a);
    return a.lo == INT64_MIN
               ? whole
               : in_type(e->type.dtype, (struct tt_range){-a.hi, -a.lo});
  }
  case TT_NOT: {
    struct tt_range a = range_of(x, e->a);
    if (e->type.dtype == TT_BOOL)
      return (struct tt_range){1 - a.hi, 1 - a.lo};
    return in_type(e->type.dtype, (struct tt_range){~a.hi, ~a.lo});
  }
  case TT_CAST:
  case TT_SAT:
    return cast_range(x, e);
  case TT_SELECT:
    return select_range(x, e);
  case TT_CALL:
    return call_range(x, e);
  case TT_BROADCAST:
    return range_of(x, e->a);
  case TT_RAMP:
  case TT_FLT:
    break;
  }
  return whole;
}

static bool
is_sum(const struct tt_expr *e)
{
  switch (e->kind) {
  case TT_BINARY:
    return e->op == TT_ADD || e->op == TT_SUB || e->op == TT_MUL ||
           e->op == TT_SHL;
  case TT_NEG:
  case TT_CAST:
  case TT_BROADCAST:
  case TT_RAMP:
    return true;
  case TT_VAR:
  case TT_LOAD:
  case TT_INT:
  case TT_FLT:
  case TT_NOT:
  case TT_SAT:
  case TT_SELECT:
  case TT_CALL:
    return false;
  }
  return false;
}

static struct tt_range
range_of(struct tt_bounds_ctx *x, const struct tt_expr *e)
{
  struct tt_range whole = type_range(e->type.dtype);
  if (x->budget <= 0 || tt_dtype_is_float(e->type.dtype))
    return whole;
  /* Facts can speak of any term, so that with facts everything goes through
   * the linear form. */
  if (!is_sum(e) && x->facts->forms.n == 0)
    return term_range(x, e);
  struct tt_linear l = tt_linear_of(x, e);
  struct tt_range r = tt_linear_bounds(x, &l);
  if (!tt_linear_is_exact(&l, r))
    return l.ok ? whole : meet(whole, term_range(x, e));
  return meet(r, whole);
}

struct tt_interval
tt_bounds_in(struct tt_factset *facts, const struct tt_expr *e, int budget)
{
  struct tt_bounds_ctx x = {facts, budget};
  struct tt_range r = range_of(&x, e);
  return (struct tt_interval){r.lo != INT64_MIN || r.hi != INT64_MAX, r.lo,
                              r.hi};
}
