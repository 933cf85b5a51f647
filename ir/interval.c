/* Bounds of integer expressions and proofs of conditions.
 *
 * An expression becomes a linear form over terms with known bounds; a fact is
 * a linear form that is >= 0, and a bound improves by subtracting a multiple
 * of a fact that cancels a term.  Invariant: the ends INT64_MIN and INT64_MAX
 * stand for "no bound" and are never computed with, so that a finite bound is
 * one of the mathematical value; a form whose value might leave i64 would wrap
 * when evaluated and is not used.
 */
#include "config.h"

#include "ir/bounds.h"

#include <stdlib.h>

enum { BUDGET = 4096, ROUNDS = 4 };

struct range {
  int64_t lo, hi;
};

struct ctx {
  struct tt_factset *facts;
  int budget;
};

/* The number of a lane, the term that a ramp adds to its base. */
static const struct tt_expr lane_term = {.kind = TT_VAR, .type = {TT_I64, 1}};

static struct range range_of(struct ctx *, const struct tt_expr *);

/* ---- arithmetic with infinite ends ------------------------------------ */

static bool
is_inf(int64_t v)
{
  return v == INT64_MIN || v == INT64_MAX;
}

/* a + b where an infinite end stays infinite; `inf` wins over the other. */
static int64_t
add_end(int64_t a, int64_t b, int64_t inf)
{
  int64_t r;
  if (a == inf || b == inf)
    return inf;
  if (__builtin_add_overflow(a, b, &r))
    return a > 0 ? INT64_MAX : INT64_MIN;
  return r;
}

static int64_t
mul_end(int64_t a, int64_t b)
{
  int64_t r;
  if (a == 0 || b == 0)
    return 0;
  if (is_inf(a) || is_inf(b) || __builtin_mul_overflow(a, b, &r))
    return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
  return r;
}

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

static struct range
hull4(int64_t a, int64_t b, int64_t c, int64_t d)
{
  return (struct range){min2(min2(a, b), min2(c, d)),
                        max2(max2(a, b), max2(c, d))};
}

static struct range
type_range(enum tt_dtype t)
{
  if (tt_dtype_is_float(t))
    return (struct range){INT64_MIN, INT64_MAX};
  return (struct range){tt_dtype_min(t), tt_dtype_max(t)};
}

/* `r`, unless the type would wrap it. */
static struct range
in_type(enum tt_dtype t, struct range r)
{
  struct range whole = type_range(t);
  if (t == TT_I64 && (is_inf(r.lo) || is_inf(r.hi))) {
    /* One infinite end: the value may have wrapped past it. */
    return whole;
  }
  return r.lo < whole.lo || r.hi > whole.hi ? whole : r;
}

/* ---- linear forms ------------------------------------------------------ */

static void
add_term(struct tt_linear *l, const struct tt_expr *e, int64_t k,
         struct range r)
{
  if (k == 0)
    return;
  for (int i = 0; i < l->n; i++) {
    if (!tt_expr_equal(l->t[i].e, e))
      continue;
    if (__builtin_add_overflow(l->t[i].k, k, &l->t[i].k))
      l->ok = false;
    if (l->t[i].k == 0)
      l->t[i] = l->t[--l->n];
    return;
  }
  if (l->n == TT_LINEAR_MAX) {
    l->ok = false;
    return;
  }
  l->t[l->n++] = (struct tt_term){e, k, r.lo, r.hi};
}

/* a + k*b; a form that overflows is not ok. */
static struct tt_linear
combine(const struct tt_linear *a, int64_t k, const struct tt_linear *b)
{
  struct tt_linear r = *a;
  int64_t c;
  r.ok = a->ok && b->ok && !__builtin_mul_overflow(k, b->c0, &c) &&
         !__builtin_add_overflow(r.c0, c, &r.c0);
  for (int i = 0; i < b->n && r.ok; i++) {
    if (__builtin_mul_overflow(k, b->t[i].k, &c))
      r.ok = false;
    else
      add_term(&r, b->t[i].e, c, (struct range){b->t[i].lo, b->t[i].hi});
  }
  return r;
}

static int64_t
low_end(const struct tt_linear *l)
{
  int64_t lo = l->c0;
  for (int i = 0; i < l->n; i++) {
    const struct tt_term *t = &l->t[i];
    lo = add_end(lo, mul_end(t->k, t->k > 0 ? t->lo : t->hi), INT64_MIN);
  }
  return lo;
}

static int64_t
gcd(int64_t a, int64_t b)
{
  uint64_t x = a < 0 ? 0 - (uint64_t)a : (uint64_t)a;
  uint64_t y = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
  while (y) {
    uint64_t t = x % y;
    x = y;
    y = t;
  }
  return x > INT64_MAX ? 1 : (int64_t)x;
}

/* A bound in the making: scale*l = r + sum(multiple * fact), with multiples
 * >= 0 and facts >= 0, so that l >= r / scale. */
struct proof {
  struct tt_linear r;
  int64_t scale, lo;
};

static void
settle(struct proof *p)
{
  int64_t lo = p->r.ok ? low_end(&p->r) : INT64_MIN;
  p->lo = is_inf(lo) ? lo : -tt_floordiv(-lo, p->scale);
}

/* Take in the multiple of d that cancels its term j; r is scaled up when its
 * coefficient is no multiple.  A proof of INT64_MIN if that cannot be. */
static struct proof
cancel(const struct proof *p, const struct tt_linear *d, int j)
{
  static const struct tt_linear zero = {.ok = true};
  struct proof next = {.lo = INT64_MIN};
  int i = 0;
  while (i < p->r.n && !tt_expr_equal(p->r.t[i].e, d->t[j].e))
    i++;
  if (i == p->r.n || (p->r.t[i].k < 0) != (d->t[j].k < 0))
    return next;
  int64_t common = gcd(p->r.t[i].k, d->t[j].k), by = d->t[j].k / common;
  int64_t m = p->r.t[i].k / common;
  if (by == INT64_MIN || m == INT64_MIN ||
      __builtin_mul_overflow(p->scale, by < 0 ? -by : by, &next.scale))
    return next;
  next.r = by == 1 ? p->r : combine(&zero, by < 0 ? -by : by, &p->r);
  next.r = combine(&next.r, m < 0 ? m : -m, d);
  settle(&next);
  return next;
}

/* The best of what one fact can do for `p`, by cancelling any of its terms or
 * just `term` (when not NULL). */
static struct proof
best_step(const struct tt_factset *facts, const struct proof *p,
          const struct tt_expr *term)
{
  struct proof best = {.lo = INT64_MIN};
  for (int f = facts->forms.n - 1; f >= 0; f--) {
    const struct tt_linear *d = &facts->forms.items[f];
    for (int j = 0; j < d->n; j++) {
      if (term && !tt_expr_equal(d->t[j].e, term))
        continue;
      struct proof next = cancel(p, d, j);
      if (next.lo > best.lo)
        best = next;
    }
  }
  return best;
}

/* The term with the largest coefficient of those below `below`. */
static int
largest_term(const struct tt_linear *l, int64_t below)
{
  int found = -1;
  int64_t most = 0;
  for (int i = 0; i < l->n; i++) {
    int64_t k = l->t[i].k < 0 ? -(l->t[i].k + 1) : l->t[i].k;
    if (k < below && (found < 0 || k > most)) {
      found = i;
      most = k;
    }
  }
  return found;
}

/* The lowest value of `l` given the facts.  Exact answers are a linear
 * program; two cheap ways find what arises in practice: steps that improve the
 * bound, the best one each time, and cancelling terms from the largest
 * coefficient down, which undoes the flattening of several dimensions. */
static int64_t
lower(const struct tt_factset *facts, const struct tt_linear *l)
{
  if (facts->forms.n == 0)
    return low_end(l);
  struct proof p = {.r = *l, .scale = 1};
  settle(&p);
  int64_t best = p.lo;
  struct proof q = p;
  for (int round = 0; round < ROUNDS; round++) {
    struct proof next = best_step(facts, &q, NULL);
    if (next.lo <= q.lo)
      break;
    q = next;
  }
  best = max2(best, q.lo);
  int64_t below = INT64_MAX;
  for (int round = 0; round < ROUNDS; round++) {
    int i = largest_term(&p.r, below);
    if (i < 0)
      break;
    below = p.r.t[i].k < 0 ? -(p.r.t[i].k + 1) : p.r.t[i].k;
    struct proof next = best_step(facts, &p, p.r.t[i].e);
    if (next.lo == INT64_MIN)
      continue;
    p = next;
    best = max2(best, p.lo);
    below = INT64_MAX;
  }
  return best;
}

static struct range
linear_range(const struct tt_factset *facts, const struct tt_linear *l)
{
  if (!l->ok)
    return (struct range){INT64_MIN, INT64_MAX};
  static const struct tt_linear zero = {.ok = true};
  struct tt_linear minus = combine(&zero, -1, l);
  int64_t hi = minus.ok ? lower(facts, &minus) : INT64_MIN;
  return (struct range){lower(facts, l), hi == INT64_MIN ? INT64_MAX : -hi};
}

/* Is the value of this form that of the (wrapping) expression it came from? */
static bool
is_exact(const struct tt_linear *l, struct range r)
{
  if (!l->ok)
    return false;
  if (l->n == 1 && l->t[0].k == 1 && l->c0 == 0)
    return true;
  return !is_inf(r.lo) && !is_inf(r.hi);
}

static bool
const_value(const struct tt_expr *e, int64_t *v)
{
  if (e->kind == TT_BROADCAST)
    e = e->a;
  if (e->kind != TT_INT)
    return false;
  *v = e->ival;
  return true;
}

static int64_t
wrap_mul(int64_t a, int64_t b)
{
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

/* May the operands of this narrow ADD, SUB or MUL be looked into: does it
 * never wrap? */
static bool
never_wraps(struct ctx *x, const struct tt_expr *e)
{
  struct range a = range_of(x, e->a), b = range_of(x, e->b), r;
  struct range whole = type_range(e->type.dtype);
  if (e->op == TT_ADD)
    r = (struct range){add_end(a.lo, b.lo, INT64_MIN),
                       add_end(a.hi, b.hi, INT64_MAX)};
  else if (e->op == TT_SUB)
    r = (struct range){add_end(a.lo, -b.hi, INT64_MIN),
                       add_end(a.hi, -b.lo, INT64_MAX)};
  else
    r = hull4(mul_end(a.lo, b.lo), mul_end(a.lo, b.hi), mul_end(a.hi, b.lo),
              mul_end(a.hi, b.hi));
  return r.lo >= whole.lo && r.hi <= whole.hi;
}

static struct range term_range(struct ctx *, const struct tt_expr *);

static void collect(struct ctx *, struct tt_linear *, const struct tt_expr *,
                    int64_t k);

static void
collect_binary(struct ctx *x, struct tt_linear *l, const struct tt_expr *e,
               int64_t k)
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
    if (!const_value(e->a, &c) && !const_value(e->b, &c))
      break;
    if (!wide && !never_wraps(x, e))
      break;
    if (const_value(e->b, &c))
      collect(x, l, e->a, wrap_mul(k, c));
    else if (const_value(e->a, &c))
      collect(x, l, e->b, wrap_mul(k, c));
    return;
  case TT_SHL:
    if (!wide || !const_value(e->b, &c) || c < 0 || c > 62)
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
  add_term(l, e, k, term_range(x, e));
}

/* Conversions that keep every value of the operand's type. */
static bool
is_widening(const struct tt_expr *e)
{
  if (e->kind != TT_CAST || tt_dtype_is_float(e->type.dtype) ||
      tt_dtype_is_float(e->a->type.dtype))
    return false;
  struct range from = type_range(e->a->type.dtype);
  struct range to = type_range(e->type.dtype);
  return from.lo >= to.lo && from.hi <= to.hi;
}

/* l += k*e, modulo 2^64. */
static void
collect(struct ctx *x, struct tt_linear *l, const struct tt_expr *e, int64_t k)
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
    add_term(l, &lane_term, wrap_mul(k, e->ival),
             (struct range){0, e->type.lanes - 1});
  } else if (e->kind == TT_NEG && e->type.dtype == TT_I64) {
    collect(x, l, e->a, wrap_mul(k, -1));
  } else if (e->kind == TT_BINARY) {
    collect_binary(x, l, e, k);
  } else {
    add_term(l, e, k, term_range(x, e));
  }
}

static struct tt_linear
linear_of(struct ctx *x, const struct tt_expr *e)
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

/* A form with a minimum or maximum among its terms is itself the minimum or
 * maximum of the two forms with one operand in its place.  This is how an
 * index minus a clamped start of a region is bounded. */
static struct range
split_range(struct ctx *x, const struct tt_linear *l, int depth)
{
  struct range r = linear_range(x->facts, l);
  if (!l->ok || l->n < 2 || depth == 0)
    return r;
  /* The deepest first: a shallow one may occur again inside it, and cancel. */
  int i = -1;
  for (int j = 0; j < l->n; j++)
    if (l->t[j].e->kind == TT_BINARY &&
        (l->t[j].e->op == TT_MIN || l->t[j].e->op == TT_MAX) &&
        (i < 0 || height(l->t[j].e) > height(l->t[i].e)))
      i = j;
  if (i < 0)
    return r;
  const struct tt_expr *e = l->t[i].e;
  int64_t k = l->t[i].k;
  struct tt_linear others = *l, a = linear_of(x, e->a), b = linear_of(x, e->b);
  if (!is_exact(&a, linear_range(x->facts, &a)) ||
      !is_exact(&b, linear_range(x->facts, &b)))
    return r;
  others.t[i] = others.t[--others.n];
  a = combine(&others, k, &a);
  b = combine(&others, k, &b);
  struct range p = split_range(x, &a, depth - 1);
  struct range q = split_range(x, &b, depth - 1);
  if ((e->op == TT_MIN) == (k > 0))
    return (struct range){max2(r.lo, min2(p.lo, q.lo)),
                          min2(r.hi, min2(p.hi, q.hi))};
  return (struct range){max2(r.lo, max2(p.lo, q.lo)),
                        min2(r.hi, max2(p.hi, q.hi))};
}

/* ---- bounds by structure ----------------------------------------------- */

static struct range
div_range(struct range a, struct range b)
{
  if (b.lo <= 0)
    return (struct range){INT64_MIN, INT64_MAX};
  return hull4(tt_floordiv(a.lo, b.lo), tt_floordiv(a.lo, b.hi),
               tt_floordiv(a.hi, b.lo), tt_floordiv(a.hi, b.hi));
}

static struct range
mod_range(struct range a, struct range b)
{
  if (b.lo > 0) {
    if (a.lo >= 0 && a.hi < b.lo)
      return a;
    return (struct range){0, a.lo >= 0 ? min2(a.hi, b.hi - 1) : b.hi - 1};
  }
  if (b.hi < 0 && b.lo > INT64_MIN)
    return (struct range){b.lo + 1, 0};
  return (struct range){INT64_MIN, INT64_MAX};
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

static struct range
shift_range(const struct tt_expr *e, struct range a, struct range b)
{
  if (b.lo < 0 || b.hi >= tt_dtype_bits(e->type.dtype) || b.hi > 62)
    return type_range(e->type.dtype);
  if (e->op == TT_SHR)
    return hull4(a.lo >> b.lo, a.lo >> b.hi, a.hi >> b.lo, a.hi >> b.hi);
  int64_t p = INT64_C(1) << b.lo, q = INT64_C(1) << b.hi;
  return hull4(mul_end(a.lo, p), mul_end(a.lo, q), mul_end(a.hi, p),
               mul_end(a.hi, q));
}

static struct range
bits_range(const struct tt_expr *e, struct range a, struct range b)
{
  if (e->op == TT_BAND && a.lo >= 0 && b.lo >= 0)
    return (struct range){0, min2(a.hi, b.hi)};
  if (e->op == TT_BAND && (a.lo >= 0 || b.lo >= 0))
    return (struct range){0, a.lo >= 0 ? a.hi : b.hi};
  if (a.lo >= 0 && b.lo >= 0)
    return (struct range){0, all_ones(max2(a.hi, b.hi))};
  return type_range(e->type.dtype);
}

static struct range
binary_range(struct ctx *x, const struct tt_expr *e)
{
  enum tt_dtype t = e->type.dtype;
  if (t == TT_BOOL)
    return (struct range){0, 1};
  struct range a = range_of(x, e->a), b = range_of(x, e->b);
  switch (e->op) {
  case TT_ADD:
    return in_type(t, (struct range){add_end(a.lo, b.lo, INT64_MIN),
                                     add_end(a.hi, b.hi, INT64_MAX)});
  case TT_SUB:
    if (b.lo == INT64_MIN)
      return type_range(t);
    return in_type(t, (struct range){add_end(a.lo, -b.hi, INT64_MIN),
                                     add_end(a.hi, -b.lo, INT64_MAX)});
  case TT_MUL:
    return in_type(t, hull4(mul_end(a.lo, b.lo), mul_end(a.lo, b.hi),
                            mul_end(a.hi, b.lo), mul_end(a.hi, b.hi)));
  case TT_DIV:
    return in_type(t, div_range(a, b));
  case TT_MOD:
    return in_type(t, mod_range(a, b));
  case TT_MIN:
    return (struct range){min2(a.lo, b.lo), min2(a.hi, b.hi)};
  case TT_MAX:
    return (struct range){max2(a.lo, b.lo), max2(a.hi, b.hi)};
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

static struct range
load_range(const struct tt_expr *e)
{
  const struct tt_tensor *t = e->tensor;
  if (t->has_range && !tt_dtype_is_float(t->dtype))
    return (struct range){t->lo, t->hi - 1};
  int64_t n = t->role == TT_CONST && t->idata ? tt_tensor_size(t) : 0;
  if (n < 1 || n > 1024)
    return type_range(t->dtype);
  struct range r = {t->idata[0], t->idata[0]};
  for (int64_t i = 1; i < n; i++)
    r = (struct range){min2(r.lo, t->idata[i]), max2(r.hi, t->idata[i])};
  return r;
}

static struct range
call_range(struct ctx *x, const struct tt_expr *e)
{
  struct range whole = type_range(e->type.dtype);
  if (tt_dtype_is_float(e->type.dtype))
    return whole;
  struct range a = range_of(x, e->args[0]);
  if (e->fn == TT_FN_ABS) {
    if (a.lo == whole.lo) /* -lowest wraps to itself */
      return whole;
    return a.lo >= 0 ? a
                     : (struct range){a.hi < 0 ? -a.hi : 0, max2(-a.lo, a.hi)};
  }
  if (e->fn != TT_FN_QUOT && e->fn != TT_FN_REM)
    return whole;
  struct range b = range_of(x, e->args[1]);
  if (a.lo < 0 || b.lo <= 0)
    return whole;
  return e->fn == TT_FN_QUOT ? div_range(a, b) : mod_range(a, b);
}

static struct range
select_range(struct ctx *x, const struct tt_expr *e)
{
  struct range a, b;
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
  return (struct range){min2(a.lo, b.lo), max2(a.hi, b.hi)};
}

static struct range
cast_range(struct ctx *x, const struct tt_expr *e)
{
  struct range whole = type_range(e->type.dtype);
  if (tt_dtype_is_float(e->a->type.dtype) || tt_dtype_is_float(e->type.dtype))
    return whole;
  struct range a = range_of(x, e->a);
  if (e->kind == TT_SAT)
    return (struct range){max2(min2(a.lo, whole.hi), whole.lo),
                          min2(max2(a.hi, whole.lo), whole.hi)};
  return a.lo < whole.lo || a.hi > whole.hi ? whole : a;
}

/* Bounds of a node that is no sum. */
static struct range
term_range(struct ctx *x, const struct tt_expr *e)
{
  struct range whole = type_range(e->type.dtype);
  if (tt_dtype_is_float(e->type.dtype) || x->budget-- <= 0)
    return whole;
  switch (e->kind) {
  case TT_INT:
    return (struct range){e->ival, e->ival};
  case TT_VAR:
    return (struct range){0, e->var->extent - 1};
  case TT_LOAD:
    return load_range(e);
  case TT_BINARY:
    return binary_range(x, e);
  case TT_NEG: {
    struct range a = range_of(x, e->a);
    return a.lo == INT64_MIN
               ? whole
               : in_type(e->type.dtype, (struct range){-a.hi, -a.lo});
  }
  case TT_NOT: {
    struct range a = range_of(x, e->a);
    if (e->type.dtype == TT_BOOL)
      return (struct range){1 - a.hi, 1 - a.lo};
    return in_type(e->type.dtype, (struct range){~a.hi, ~a.lo});
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

static struct range
meet(struct range a, struct range b)
{
  return (struct range){max2(a.lo, b.lo), min2(a.hi, b.hi)};
}

static struct range
range_of(struct ctx *x, const struct tt_expr *e)
{
  struct range whole = type_range(e->type.dtype);
  if (x->budget <= 0 || tt_dtype_is_float(e->type.dtype))
    return whole;
  /* Facts can speak of any term, so that with facts everything goes through
   * the linear form. */
  if (!is_sum(e) && x->facts->forms.n == 0)
    return term_range(x, e);
  struct tt_linear l = linear_of(x, e);
  struct range r = split_range(x, &l, 4);
  if (!is_exact(&l, r))
    return l.ok ? whole : meet(whole, term_range(x, e));
  return meet(r, whole);
}

struct tt_interval
tt_bounds_in(struct tt_factset *facts, const struct tt_expr *e, int budget)
{
  struct ctx x = {facts, budget};
  struct range r = range_of(&x, e);
  return (struct tt_interval){r.lo != INT64_MIN || r.hi != INT64_MAX, r.lo,
                              r.hi};
}

/* ---- conditions --------------------------------------------------------- */

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
difference(struct ctx *x, const struct tt_expr *e, struct tt_linear *d)
{
  struct tt_linear a = linear_of(x, e->a), b = linear_of(x, e->b);
  if (!is_exact(&a, linear_range(x->facts, &a)) ||
      !is_exact(&b, linear_range(x->facts, &b)))
    return false;
  *d = combine(&a, -1, &b);
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

/* k*d + c >= 0 holds: add it, divided by the common factor of its terms. */
static void
push_form(struct tt_factset *facts, int64_t k, const struct tt_linear *d,
          int64_t c)
{
  struct tt_linear f = {.ok = true, .c0 = c};
  f = combine(&f, k, d);
  if (!f.ok || f.n == 0)
    return;
  int64_t g = 0;
  for (int i = 0; i < f.n; i++)
    g = gcd(g, f.t[i].k);
  for (int i = 0; i < f.n && g > 1; i++)
    f.t[i].k /= g;
  if (g > 1)
    f.c0 = tt_floordiv(f.c0, g);
  TT_PUSH(facts->forms, f);
}

static void
push_comparison(struct tt_factset *facts, const struct tt_expr *e, bool negated)
{
  struct ctx x = {facts, BUDGET};
  struct tt_linear d;
  if (e->type.lanes > 1 || !difference(&x, e, &d))
    return;
  enum tt_binop op = negated ? negated_op(e->op) : e->op;
  if (op == TT_LT || op == TT_LE)
    push_form(facts, -1, &d, op == TT_LT ? -1 : 0);
  else if (op == TT_GT || op == TT_GE)
    push_form(facts, 1, &d, op == TT_GT ? -1 : 0);
  else if (op == TT_EQ) {
    push_form(facts, 1, &d, 0);
    push_form(facts, -1, &d, 0);
  } else {
    /* Not zero: a bound moves when zero is at the end. */
    struct range r = linear_range(facts, &d);
    if (r.lo == 0)
      push_form(facts, 1, &d, -1);
    if (r.hi == 0)
      push_form(facts, -1, &d, -1);
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

/* ---- proofs -------------------------------------------------------------- */

/* Can d be 0 at all, given that every term is an integer? */
static bool
divisible(const struct tt_linear *d)
{
  int64_t g = 0;
  for (int i = 0; i < d->n; i++)
    g = gcd(g, d->t[i].k);
  return g == 0 ? d->c0 == 0 : tt_rem(d->c0, g) == 0;
}

static int
prove_comparison(struct ctx *x, const struct tt_expr *e)
{
  struct tt_linear d;
  if (!difference(x, e, &d))
    return -1;
  struct range r = linear_range(x->facts, &d);
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
prove(struct ctx *x, const struct tt_expr *e)
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
  struct ctx x = {facts, budget};
  return prove(&x, cond);
}

/* ---- the public face ------------------------------------------------------
 */

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
