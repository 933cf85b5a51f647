/* Simplification of i64 expressions: canonical sums, division and modulus by
 * constants, comparisons.
 *
 * Sums hold in arithmetic modulo 2^64 and need no proof.  The rules for / and %
 * hold for mathematical integers, so that each first proves that no part of
 * what it splits can wrap (see `bounded`).
 */
#include "config.h"

#include "ir/simplify.h"

#include "ir/sum.h"

/* Bounds that leave room for sums of a few such values. */
static const int64_t ROOM = INT64_C(1) << 61;

static bool
bounded(struct tt_simp *s, const struct tt_expr *e, struct tt_interval *r)
{
  *r = tt_bounds_in(&s->facts, e, TT_SIMP_BUDGET);
  return r->ok && r->lo > -ROOM && r->hi < ROOM;
}

static struct tt_sum
empty_like(const struct tt_sum *a)
{
  return (struct tt_sum){.arena = a->arena, .lanes = a->lanes};
}

static struct tt_sum
sum_of(struct tt_simp *s, const struct tt_expr *e)
{
  struct tt_sum r = tt_sum_new(s->arena, e);
  tt_sum_collect(&r, e, 1, NULL, NULL);
  tt_sum_normalize(&r);
  return r;
}

static int64_t
gcd(int64_t a, int64_t b)
{
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a < 0 ? -a : a;
}

/* Part `a`, whose constant is in 0..c-1, into g * (*high) + *low: the terms
 * whose coefficients are multiples of g, and the others with what is left of
 * the constant. */
static void
part(const struct tt_sum *a, int64_t g, struct tt_sum *high, struct tt_sum *low)
{
  *high = *low = empty_like(a);
  for (int i = 0; i < a->n; i++) {
    bool h = a->t[i].k % g == 0;
    tt_sum_collect(h ? high : low, a->t[i].e, h ? a->t[i].k / g : a->t[i].k,
                   NULL, NULL);
  }
  if (a->lane % g == 0)
    high->lane = a->lane / g;
  else
    low->lane = a->lane;
  low->c0 = tt_floormod(a->c0, g);
  high->c0 = tt_floordiv(a->c0, g);
  tt_sum_normalize(high);
  tt_sum_normalize(low);
}

static bool
is_constant(const struct tt_sum *a)
{
  return a->n == 0 && a->lane == 0;
}

/* Look for g > 1, a divisor of c, with a == g*high + low and low in 0..g-1
 * once `*shift` was moved from low to high: then a / c == high / (c/g) and
 * a % c == high % (c/g) * g + low. */
static bool
split(struct tt_simp *s, const struct tt_sum *a, int64_t c, int64_t *g,
      struct tt_sum *high, struct tt_sum *low)
{
  int64_t best = 1;
  for (int i = a->lane ? -1 : 0; i < a->n; i++) {
    int64_t cand = gcd(i < 0 ? a->lane : a->t[i].k, c);
    if (cand <= best)
      continue;
    struct tt_sum h, l;
    struct tt_interval r;
    part(a, cand, &h, &l);
    if (is_constant(&h) || !bounded(s, tt_sum_expr(&l), &r))
      continue;
    int64_t shift = tt_floordiv(r.lo, cand);
    if (shift != tt_floordiv(r.hi, cand))
      continue;
    h.c0 += shift;
    l.c0 -= shift * cand;
    best = *g = cand;
    *high = h;
    *low = l;
  }
  return best > 1;
}

static const struct tt_expr *
op_const(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a,
         int64_t c)
{
  const struct tt_expr *k = tt_idx(s->arena, c);
  if (a->type.lanes > 1)
    k = tt_broadcast(s->arena, k, a->type.lanes);
  return tt_binary(s->arena, op, a, k);
}

/* Hoist a broadcast out of a division: one lane's work, not all of them. */
static const struct tt_expr *
hoisted(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a, int64_t c)
{
  if (a->kind == TT_BROADCAST)
    return tt_broadcast(s->arena, hoisted(s, op, a->a, c), a->type.lanes);
  return op_const(s, op, a, c);
}

static const struct tt_expr *
sum_plus(struct tt_simp *s, struct tt_sum *sum, const struct tt_expr *e)
{
  if (e)
    tt_sum_collect(sum, e, 1, NULL, NULL);
  tt_sum_normalize(sum);
  return tt_simp_sum(s, tt_sum_expr(sum));
}

/* (x / d + r) / c == (x + r*d) / (d*c) for a low part that is one division. */
static const struct tt_expr *
nested_div(struct tt_simp *s, const struct tt_sum *a, int64_t c)
{
  int64_t d, dc, add;
  if (a->n != 1 || a->lane != 0 || a->t[0].k != 1)
    return NULL;
  const struct tt_expr *q = a->t[0].e;
  if (q->kind != TT_BINARY || q->op != TT_DIV || !tt_const_int(q->b, &d) ||
      d <= 0 || __builtin_mul_overflow(c, d, &dc) ||
      __builtin_mul_overflow(a->c0, d, &add) || dc >= ROOM || add >= ROOM)
    return NULL;
  struct tt_sum x = empty_like(a);
  x.c0 = add;
  const struct tt_expr *sum = sum_plus(s, &x, q->a);
  struct tt_interval r;
  return bounded(s, sum, &r) ? tt_simp_div(s, sum, dc) : NULL;
}

/* rest / c where no term of rest is a multiple of c and 0 <= c0 < c. */
static const struct tt_expr *
div_rest(struct tt_simp *s, const struct tt_sum *rest, int64_t c)
{
  struct tt_interval r;
  const struct tt_expr *e = tt_sum_expr(rest);
  if (!bounded(s, e, &r))
    return NULL;
  if (tt_floordiv(r.lo, c) == tt_floordiv(r.hi, c)) {
    struct tt_sum q = empty_like(rest);
    q.c0 = tt_floordiv(r.lo, c);
    return tt_sum_expr(&q);
  }
  const struct tt_expr *n = nested_div(s, rest, c);
  if (n)
    return n;
  int64_t g;
  struct tt_sum high, low;
  if (split(s, rest, c, &g, &high, &low))
    return tt_simp_div(s, tt_simp_sum(s, tt_sum_expr(&high)), c / g);
  return hoisted(s, TT_DIV, e, c);
}

const struct tt_expr *
tt_simp_div(struct tt_simp *s, const struct tt_expr *a, int64_t c)
{
  struct tt_interval r;
  if (c == 1)
    return a;
  struct tt_sum sum = sum_of(s, a);
  if (is_constant(&sum)) {
    sum.c0 = tt_floordiv(sum.c0, c);
    return tt_sum_expr(&sum);
  }
  if (!bounded(s, a, &r))
    return hoisted(s, TT_DIV, a, c);
  struct tt_sum high, low;
  part(&sum, c, &high, &low);
  const struct tt_expr *q = div_rest(s, &low, c);
  if (!q)
    return hoisted(s, TT_DIV, a, c);
  return sum_plus(s, &high, q);
}

/* y % m for a term that may be replaced by y, since k*m is a multiple of c. */
static const struct tt_expr *
loose_mod(const struct tt_sum_term *t, int64_t c)
{
  int64_t m, km;
  const struct tt_expr *e = t->e;
  if (e->kind != TT_BINARY || e->op != TT_MOD || !tt_const_int(e->b, &m) ||
      __builtin_mul_overflow(t->k, m, &km) || km % c != 0)
    return NULL;
  return e->a;
}

const struct tt_expr *
tt_simp_mod(struct tt_simp *s, const struct tt_expr *a, int64_t c)
{
  struct tt_sum sum = sum_of(s, a);
  if (is_constant(&sum) || c == 1) {
    struct tt_sum k = empty_like(&sum);
    k.c0 = tt_floormod(sum.c0, c);
    return c == 1 || is_constant(&sum) ? tt_sum_expr(&k) : NULL;
  }
  struct tt_interval r;
  if (!bounded(s, a, &r))
    return hoisted(s, TT_MOD, a, c);
  struct tt_sum loose = empty_like(&sum);
  loose.c0 = sum.c0;
  loose.lane = sum.lane;
  for (int i = 0; i < sum.n; i++) {
    const struct tt_expr *y = loose_mod(&sum.t[i], c);
    tt_sum_collect(&loose, y ? y : sum.t[i].e, sum.t[i].k, NULL, NULL);
  }
  tt_sum_normalize(&loose);
  struct tt_sum high, low;
  if (bounded(s, tt_sum_expr(&loose), &r))
    part(&loose, c, &high, &low);
  else
    part(&sum, c, &high, &low);
  const struct tt_expr *e = tt_sum_expr(&low);
  if (!bounded(s, e, &r))
    return hoisted(s, TT_MOD, a, c);
  if (tt_floordiv(r.lo, c) == tt_floordiv(r.hi, c)) {
    low.c0 -= tt_floordiv(r.lo, c) * c;
    return tt_simp_sum(s, tt_sum_expr(&low));
  }
  int64_t g;
  struct tt_sum h, l;
  if (!split(s, &low, c, &g, &h, &l))
    return hoisted(s, TT_MOD, e, c);
  const struct tt_expr *m =
      tt_simp_mod(s, tt_simp_sum(s, tt_sum_expr(&h)), c / g);
  tt_sum_collect(&l, m, g, NULL, NULL);
  tt_sum_normalize(&l);
  return tt_simp_sum(s, tt_sum_expr(&l));
}

/* ---- sums that hold quotients and remainders --------------------------- */

/* Does `sum` hold m*y (constants aside)?  Then take it out. */
static bool
take(struct tt_sum *sum, const struct tt_sum *y, int64_t m)
{
  if (y->lane != 0 || y->n == 0 || y->n > 8)
    return false;
  int at[8];
  for (int i = 0; i < y->n; i++) {
    int j = 0;
    while (j < sum->n && !tt_expr_equal(sum->t[j].e, y->t[i].e))
      j++;
    if (j == sum->n ||
        (uint64_t)sum->t[j].k != (uint64_t)m * (uint64_t)y->t[i].k)
      return false;
    at[i] = j;
  }
  for (int i = 0; i < y->n; i++)
    sum->t[at[i]].k = 0;
  sum->c0 = (int64_t)((uint64_t)sum->c0 - (uint64_t)m * (uint64_t)y->c0);
  return true;
}

static bool
is_const_op(const struct tt_expr *e, enum tt_binop op, int64_t *c)
{
  return e->kind == TT_BINARY && e->op == op && tt_const_int(e->b, c) && *c > 0;
}

/* One step of  c*(y/c) + y%c -> y,  y - y%c -> c*(y/c),
 * y - c*(y/c) -> y%c,  on term i of the sum. */
static bool
recombine(struct tt_simp *s, struct tt_sum *sum, int i)
{
  int64_t c, mc, m = sum->t[i].k;
  const struct tt_expr *e = sum->t[i].e;
  if (is_const_op(e, TT_MOD, &c) && !__builtin_mul_overflow(m, c, &mc)) {
    const struct tt_expr *quotient = tt_simp_div(s, e->a, c);
    struct tt_sum y = sum_of(s, e->a), q = sum_of(s, quotient);
    const struct tt_expr *repl;
    int64_t k;
    if (take(sum, &q, mc)) {
      repl = e->a;
      k = m;
    } else if (take(sum, &y, (int64_t)(0 - (uint64_t)m))) {
      repl = quotient;
      k = (int64_t)(0 - (uint64_t)mc);
    } else {
      return false;
    }
    sum->t[i].k = 0;
    tt_sum_collect(sum, repl, k, NULL, NULL);
    return true;
  }
  if (!is_const_op(e, TT_DIV, &c) || m % c != 0)
    return false;
  struct tt_sum y = sum_of(s, e->a);
  if (!take(sum, &y, -(m / c)))
    return false;
  sum->t[i].k = 0;
  tt_sum_collect(sum, tt_simp_mod(s, e->a, c), -(m / c), NULL, NULL);
  return true;
}

/* Normalize, then take all such steps; was there any? */
static bool
recombine_all(struct tt_simp *s, struct tt_sum *sum)
{
  bool any = false;
  tt_sum_normalize(sum);
  for (int i = 0; sum->n > 1 && i < sum->n; i++)
    if (recombine(s, sum, i)) {
      tt_sum_normalize(sum);
      any = true;
      i = -1;
    }
  return any;
}

static const struct tt_expr *
finish(struct tt_simp *s, struct tt_sum *sum)
{
  recombine_all(s, sum);
  return tt_sum_expr(sum);
}

const struct tt_expr *
tt_simp_sum(struct tt_simp *s, const struct tt_expr *e)
{
  struct tt_sum sum = tt_sum_new(s->arena, e);
  tt_sum_collect(&sum, e, 1, NULL, NULL);
  return finish(s, &sum);
}

static const struct tt_expr *
leaf(void *ctx, const struct tt_expr *e)
{
  return tt_simp_node(ctx, e);
}

const struct tt_expr *
tt_simp_index(struct tt_simp *s, const struct tt_expr *e)
{
  struct tt_sum sum = tt_sum_new(s->arena, e);
  tt_sum_collect(&sum, e, 1, leaf, s);
  return finish(s, &sum);
}

/* ---- comparisons ------------------------------------------------------- */

/* The terms with positive coefficients on the left, the others on the right,
 * divided by their common factor; the constant where it is positive, save for
 * one that stands alone. */
const struct tt_expr *
tt_simp_compare(struct tt_simp *s, enum tt_binop op, const struct tt_expr *a,
                const struct tt_expr *b)
{
  struct tt_interval ra, rb;
  const struct tt_expr *as_is = tt_binary(s->arena, op, a, b);
  if (!bounded(s, a, &ra) || !bounded(s, b, &rb))
    return as_is;
  struct tt_sum d = tt_sum_new(s->arena, a);
  tt_sum_collect(&d, a, 1, NULL, NULL);
  tt_sum_collect(&d, b, -1, NULL, NULL);
  bool changed = recombine_all(s, &d);
  int64_t g = 0;
  for (int i = 0; i < d.n; i++)
    g = gcd(d.t[i].k, g);
  if (g == 0)
    return as_is;
  bool equality = op == TT_EQ || op == TT_NE;
  if (equality && d.c0 % g != 0)
    return tt_bool(s->arena, op == TT_NE);
  /* g*S + c0 < 0 is S < -c0/g rounded up; S + c < 0 below. */
  int64_t c = d.c0 - (op == TT_LE);
  c = equality ? c / g : -tt_floordiv(-c - 1, g) - 1;
  struct tt_sum left = empty_like(&d), right = empty_like(&d);
  bool flip = equality && d.t[0].k < 0;
  for (int i = 0; i < d.n; i++) {
    int64_t k = (flip ? -d.t[i].k : d.t[i].k) / g;
    tt_sum_collect(k > 0 ? &left : &right, d.t[i].e, k > 0 ? k : -k, NULL,
                   NULL);
  }
  c = flip ? -c : c;
  if (c > 0 && right.n > 0)
    left.c0 = c;
  else
    right.c0 = -c;
  tt_sum_normalize(&left);
  tt_sum_normalize(&right);
  const struct tt_expr *l = tt_sum_expr(&left), *r = tt_sum_expr(&right);
  if (!bounded(s, l, &ra) || !bounded(s, r, &rb))
    return as_is;
  const struct tt_expr *e = tt_binary(s->arena, equality ? op : TT_LT, l, r);
  int known = changed ? tt_prove_in(&s->facts, e, TT_SIMP_BUDGET) : -1;
  return known < 0 ? e : tt_bool(s->arena, known);
}
