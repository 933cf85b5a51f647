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
};
struct tt_fact_mark {
  int forms, conds;
};

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
