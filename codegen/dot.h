/* Sums of products of narrow integers; private to codegen/.
 *
 * acc + (a0 * b0 + a1 * b1 + a2 * b2 + a3 * b3), in vectors of i32 whose
 * lanes find their a0 to a3 next to each other in memory, is one instruction
 * on many machines.  dot.c brings what is unrolled into that form and
 * recognizes it, cdot.c prints it.  The form itself is an expression like any
 * other: whoever does not know it computes the same.
 */
#ifndef TT_CODEGEN_DOT_H
#define TT_CODEGEN_DOT_H

#include "codegen/internal.h"

enum { TT_DOT_MAX = 4 };

/* One side of the products. */
struct dot_factor {
  bool scalar;                /* the same in all lanes */
  const struct tt_expr *load; /* the first of neighbours in memory, to which
                                 `add` is added; NULL: any values */
  int64_t add;
  const struct tt_expr *value[TT_DOT_MAX]; /* of i32, of one or all lanes */
  int64_t lo, hi;                          /* of all of them */
};

/* `n` products: 4 of factors that fit 8 bits, or 2 that fit 16. */
struct dot {
  int n, lanes;
  const struct tt_expr *acc; /* what they are added to */
  struct dot_factor f[2];
};

/* Is the expression such a sum? */
bool tt_dot_match(struct tt_arena *, const struct tt_expr *, struct dot *);

#endif
