/* Private to ir/: known facts as a stack, for passes that walk in and out of
 * scopes.  tt_bounds() and tt_prove() in passes.h are the public face. */
#ifndef TT_BOUNDS_H
#define TT_BOUNDS_H

#include "ir/passes.h"

/* Terms of a linear form that analysis keeps; longer sums are bounded term by
 * term without facts. */
#define TT_LINEAR_MAX 12

struct tt_term {
  const struct tt_expr *e;
  int64_t k;      /* coefficient, not 0 */
  int64_t lo, hi; /* bounds of e alone */
};
/* c0 + sum k*e as mathematical integers; `ok` false: too many terms or a
 * coefficient that does not fit. */
struct tt_linear {
  bool ok;
  int n;
  int64_t c0;
  struct tt_term t[TT_LINEAR_MAX];
};

/* What is known to hold, innermost last.  Zero-initialize. */
struct tt_factset {
  TT_VEC(struct tt_linear) forms; /* each is >= 0 */
  TT_VEC(struct tt_facts) conds;  /* each holds as written */
  bool thorough; /* search for bounds that the quick ways do not find */
};
struct tt_fact_mark {
  int forms, conds;
};

struct tt_range {
  int64_t lo, hi;
};
/* A query under way: what is known, and how many nodes may be looked at. */
struct tt_bounds_ctx {
  struct tt_factset *facts;
  int budget;
};

/* ---- linear.c ---- */
bool tt_is_inf(int64_t end); /* INT64_MIN or INT64_MAX: no bound */
/* a + b where an infinite end stays so; `inf` wins over the other. */
int64_t tt_add_end(int64_t a, int64_t b, int64_t inf);
int64_t tt_mul_end(int64_t a, int64_t b);
int64_t tt_gcd(int64_t a, int64_t b);
/* l += k*e, where e lies in r. */
void tt_linear_add(struct tt_linear *l, const struct tt_expr *e, int64_t k,
                   struct tt_range r);
/* a + k*b */
struct tt_linear tt_linear_combine(const struct tt_linear *a, int64_t k,
                                   const struct tt_linear *b);
/* Bounds of the form given the facts. */
struct tt_range tt_linear_range(const struct tt_factset *,
                                const struct tt_linear *);
/* k*d + c >= 0 holds: add it, divided by the common factor of its terms. */
void tt_factset_push_form(struct tt_factset *, int64_t k,
                          const struct tt_linear *d, int64_t c);
/* Is its value, which lies in r, that of the wrapping expression it came
 * from? */
bool tt_linear_is_exact(const struct tt_linear *, struct tt_range r);

/* ---- interval.c ---- */
struct tt_linear tt_linear_of(struct tt_bounds_ctx *, const struct tt_expr *);
/* Facts about the quotients and remainders among the terms:
 * 0 <= a - c*(a/c) < c, a % c <= a when a >= 0, a == a/c*c + a%c. */
void tt_linear_push_quotients(struct tt_bounds_ctx *, const struct tt_linear *);
/* tt_linear_range() with those facts, and with minima and maxima among the
 * terms taken apart. */
struct tt_range tt_linear_bounds(struct tt_bounds_ctx *,
                                 const struct tt_linear *);

/* ---- prove.c ---- */
/* Remember the state, add a condition (or its negation), go back. */
struct tt_fact_mark tt_factset_mark(const struct tt_factset *);
void tt_factset_push(struct tt_factset *, const struct tt_expr *cond,
                     bool negated);
void tt_factset_push_chain(struct tt_factset *, const struct tt_facts *);
void tt_factset_pop(struct tt_factset *, struct tt_fact_mark);
void tt_factset_free(struct tt_factset *);

/* tt_bounds() and tt_prove() under a factset; at most `budget` nodes are
 * looked at, then the answer is the bounds of the type or "not known".  The
 * factset is as before on return. */
struct tt_interval tt_bounds_in(struct tt_factset *, const struct tt_expr *,
                                int budget);
int tt_prove_in(struct tt_factset *, const struct tt_expr *cond, int budget);

#endif
