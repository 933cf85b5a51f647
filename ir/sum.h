/* Private to ir/: sums under construction, for affine.c and the simplifier. */
#ifndef TT_SUM_H
#define TT_SUM_H

#include "ir/ir.h"

struct tt_sum_term {
  const struct tt_expr *e;
  int64_t k;
};
/* c0 + sum k*e, modulo 2^64, plus lane*0, lane*1, ... over the lanes of a
 * vector, in which a scalar term stands for itself in every lane. */
struct tt_sum {
  struct tt_arena *arena;
  int lanes;
  int64_t c0, lane;
  int n, cap;
  struct tt_sum_term *t;
};

/* Called for a term that is no sum itself; may return a sum. */
typedef const struct tt_expr *tt_leaf_fn(void *ctx, const struct tt_expr *);

/* An empty sum for the type of `like` (i64). */
struct tt_sum tt_sum_new(struct tt_arena *, const struct tt_expr *like);
/* Append k*e, terms unmerged; `leaf` may be NULL. */
void tt_sum_collect(struct tt_sum *, const struct tt_expr *e, int64_t k,
                    tt_leaf_fn *leaf, void *ctx);
/* Sort and merge the terms; none is left with k == 0. */
void tt_sum_normalize(struct tt_sum *);
/* The canonical expression of a normalized sum. */
const struct tt_expr *tt_sum_expr(const struct tt_sum *);
/* The value if `e` is a constant or a broadcast of one. */
bool tt_const_int(const struct tt_expr *e, int64_t *value);

#endif
