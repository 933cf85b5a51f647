/* Linear forms over terms with known bounds, and what facts say about them.
 *
 * A fact is a form that is >= 0; a bound improves by subtracting a multiple of
 * a fact that cancels a term.  Invariant: the ends INT64_MIN and INT64_MAX
 * stand for "no bound" and are never computed with, so that a finite bound is
 * one of the mathematical value.
 */
#include "config.h"

#include "ir/bounds.h"

enum { ROUNDS = 6 };

/* ---- arithmetic with infinite ends ------------------------------------- */

bool
tt_is_inf(int64_t v)
{
  return v == INT64_MIN || v == INT64_MAX;
}

/* a + b where an infinite end stays infinite; `inf` wins over the other. */
int64_t
tt_add_end(int64_t a, int64_t b, int64_t inf)
{
  int64_t r;
  if (a == inf || b == inf)
    return inf;
  if (__builtin_add_overflow(a, b, &r))
    return a > 0 ? INT64_MAX : INT64_MIN;
  return r;
}

int64_t
tt_mul_end(int64_t a, int64_t b)
{
  int64_t r;
  if (a == 0 || b == 0)
    return 0;
  if (tt_is_inf(a) || tt_is_inf(b) || __builtin_mul_overflow(a, b, &r))
    return (a > 0) == (b > 0) ? INT64_MAX : INT64_MIN;
  return r;
}

static int64_t
max2(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* ---- linear forms ------------------------------------------------------ */

void
tt_linear_add(struct tt_linear *l, const struct tt_expr *e, int64_t k,
              struct tt_range r)
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
struct tt_linear
tt_linear_combine(const struct tt_linear *a, int64_t k,
                  const struct tt_linear *b)
{
  struct tt_linear r = *a;
  int64_t c;
  r.ok = a->ok && b->ok && !__builtin_mul_overflow(k, b->c0, &c) &&
         !__builtin_add_overflow(r.c0, c, &r.c0);
  for (int i = 0; i < b->n && r.ok; i++) {
    if (__builtin_mul_overflow(k, b->t[i].k, &c))
      r.ok = false;
    else
      tt_linear_add(&r, b->t[i].e, c,
                    (struct tt_range){b->t[i].lo, b->t[i].hi});
  }
  return r;
}

static int64_t
low_end(const struct tt_linear *l)
{
  int64_t lo = l->c0;
  for (int i = 0; i < l->n; i++) {
    const struct tt_term *t = &l->t[i];
    lo = tt_add_end(lo, tt_mul_end(t->k, t->k > 0 ? t->lo : t->hi), INT64_MIN);
  }
  return lo;
}

int64_t
tt_gcd(int64_t a, int64_t b)
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
  p->lo = tt_is_inf(lo) ? lo : -tt_floordiv(-lo, p->scale);
}

/* Take in the multiple of d that cancels its term j; r is scaled up when its
 * coefficient is no multiple.  false if that cannot be. */
static bool
cancel(const struct proof *p, const struct tt_linear *d, int j,
       struct proof *next)
{
  static const struct tt_linear zero = {.ok = true};
  int i = 0;
  while (i < p->r.n && !tt_expr_equal(p->r.t[i].e, d->t[j].e))
    i++;
  if (i == p->r.n || (p->r.t[i].k < 0) != (d->t[j].k < 0))
    return false;
  int64_t common = tt_gcd(p->r.t[i].k, d->t[j].k), by = d->t[j].k / common;
  int64_t m = p->r.t[i].k / common;
  if (by == INT64_MIN || m == INT64_MIN ||
      __builtin_mul_overflow(p->scale, by < 0 ? -by : by, &next->scale))
    return false;
  next->r = by == 1 || by == -1
                ? p->r
                : tt_linear_combine(&zero, by < 0 ? -by : by, &p->r);
  next->r = tt_linear_combine(&next->r, m < 0 ? m : -m, d);
  settle(next);
  return true;
}

/* The best of what one fact can do for `p`, by cancelling any of its terms or
 * just `term` (when not NULL); false if that is nothing. */
static bool
best_step(const struct tt_factset *facts, const struct proof *p,
          const struct tt_expr *term, struct proof *best)
{
  struct proof next;
  best->lo = INT64_MIN;
  for (int f = facts->forms.n - 1; f >= 0; f--) {
    const struct tt_linear *d = &facts->forms.items[f];
    for (int j = 0; j < d->n; j++) {
      if (term && !tt_expr_equal(d->t[j].e, term))
        continue;
      if (cancel(p, d, j, &next) && next.lo > best->lo)
        *best = next;
    }
  }
  return best->lo > INT64_MIN;
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

/* Improve the bound step by step, the best one each time. */
static int64_t
climb(const struct tt_factset *facts, struct proof p)
{
  struct proof next;
  for (int round = 0; round < ROUNDS; round++) {
    if (!best_step(facts, &p, NULL, &next) || next.lo <= p.lo)
      break;
    p = next;
  }
  return p.lo;
}

/* Cancel terms from the largest coefficient down, whatever that does to the
 * bound on the way: this undoes the flattening of several dimensions. */
static int64_t
descend(const struct tt_factset *facts, struct proof p)
{
  struct proof next;
  int64_t best = p.lo, below = INT64_MAX;
  for (int round = 0; round < ROUNDS; round++) {
    int i = largest_term(&p.r, below);
    if (i < 0)
      break;
    below = p.r.t[i].k < 0 ? -(p.r.t[i].k + 1) : p.r.t[i].k;
    if (!best_step(facts, &p, p.r.t[i].e, &next))
      continue;
    p = next;
    best = max2(best, p.lo);
    below = INT64_MAX;
  }
  return best;
}

/* A search: at most `nodes` proofs. */
struct search {
  const struct tt_factset *facts;
  int nodes;
  int64_t best;
  int nkept; /* terms that will not be cancelled any more */
  const struct tt_expr *kept[TT_LINEAR_MAX];
};

static bool
is_kept(const struct search *s, const struct tt_expr *e)
{
  for (int i = 0; i < s->nkept; i++)
    if (tt_expr_equal(s->kept[i], e))
      return true;
  return false;
}

/* Either a term is cancelled, by any of the facts, or it is kept for good. */
static void
search(struct search *s, const struct proof *p, int depth)
{
  s->best = max2(s->best, p->lo);
  if (depth == 0 || s->nodes-- <= 0)
    return;
  int i = p->r.n - 1;
  while (i >= 0 && is_kept(s, p->r.t[i].e))
    i--;
  if (i < 0)
    return;
  const struct tt_expr *term = p->r.t[i].e;
  for (int f = s->facts->forms.n - 1; f >= 0; f--) {
    const struct tt_linear *d = &s->facts->forms.items[f];
    struct proof next;
    for (int j = 0; j < d->n; j++)
      if (tt_expr_equal(d->t[j].e, term) && cancel(p, d, j, &next) && next.r.ok)
        search(s, &next, depth - 1);
  }
  if (s->nkept == TT_LINEAR_MAX)
    return;
  s->kept[s->nkept++] = term;
  search(s, p, depth);
  s->nkept--;
}

/* The lowest value of `l` given the facts.  The exact answer is a linear
 * program; two cheap ways find what arises as a rule, and a search most of the
 * rest. */
static int64_t
lower(const struct tt_factset *facts, const struct tt_linear *l)
{
  if (facts->forms.n == 0)
    return low_end(l);
  struct proof p = {.r = *l, .scale = 1};
  settle(&p);
  int64_t best = max2(climb(facts, p), descend(facts, p));
  if (!facts->thorough)
    return best;
  struct search s = {.facts = facts, .nodes = 1000, .best = best};
  search(&s, &p, ROUNDS);
  return s.best;
}

struct tt_range
tt_linear_range(const struct tt_factset *facts, const struct tt_linear *l)
{
  if (!l->ok)
    return (struct tt_range){INT64_MIN, INT64_MAX};
  static const struct tt_linear zero = {.ok = true};
  struct tt_linear minus = tt_linear_combine(&zero, -1, l);
  int64_t hi = minus.ok ? lower(facts, &minus) : INT64_MIN;
  return (struct tt_range){lower(facts, l), hi == INT64_MIN ? INT64_MAX : -hi};
}

/* Is the value of this form that of the (wrapping) expression it came from? */
bool
tt_linear_is_exact(const struct tt_linear *l, struct tt_range r)
{
  if (!l->ok)
    return false;
  if (l->n == 1 && l->t[0].k == 1 && l->c0 == 0)
    return true;
  return !tt_is_inf(r.lo) && !tt_is_inf(r.hi);
}

/* k*d + c >= 0 holds: add it, divided by the common factor of its terms. */
void
tt_factset_push_form(struct tt_factset *facts, int64_t k,
                     const struct tt_linear *d, int64_t c)
{
  struct tt_linear f = {.ok = true, .c0 = c};
  f = tt_linear_combine(&f, k, d);
  if (!f.ok || f.n == 0)
    return;
  int64_t g = 0;
  for (int i = 0; i < f.n; i++)
    g = tt_gcd(g, f.t[i].k);
  for (int i = 0; i < f.n && g > 1; i++)
    f.t[i].k /= g;
  if (g > 1)
    f.c0 = tt_floordiv(f.c0, g);
  TT_PUSH(facts->forms, f);
}
