/* What a stage reads and how: facts that rules and features are made of. */
#ifndef TT_ANALYSIS_H
#define TT_ANALYSIS_H

#include "schedule/schedule.h"

#define TT_MAX_ACCESSES 16

/* One read of a tensor, seen from the axes of a stage (spatial, then
 * reduction). */
struct tt_access {
  const struct tt_tensor *tensor;
  const struct tt_expr *load;
  bool affine;  /* in every axis */
  bool several; /* the stage reads the tensor in another way, too */
  int64_t stride[2 * TT_MAX_DIMS]; /* elements per step of an axis; an axis
                                      inside / or % counts as INT64_MAX */
};

/* The distinct reads in an expression over the axes of a stage, at most
 * TT_MAX_ACCESSES.  Returns their number. */
int tt_accesses(struct tt_arena *, const struct tt_stage *,
                const struct tt_expr *, struct tt_access *out);
/* Bytes of the widest element type in the arithmetic of a stage. */
int tt_widest_type(const struct tt_stage *);
/* Does the stage read the tensor at its own point alone, and all of it? */
bool tt_reads_pointwise(const struct tt_stage *, const struct tt_tensor *);
/* Can the loop over a spatial axis become vectors without falling apart: is
 * every read affine in it, and no condition dependent on it but those that a
 * padded copy removes?  `borders`: clamps and conditions that hold in the
 * interior pass, too. */
bool tt_vectorizes(struct tt_arena *, const struct tt_stage *,
                   const struct tt_expr *value, const struct tt_expr *where,
                   int axis, bool borders);
/* Points times operations: a measure of the work of a stage. */
double tt_stage_work(const struct tt_stage *);
/* A sum of products of narrow integers, of i32: how many products should be
 * neighbours, 4 of factors that fit 8 bits, 2 of factors that fit 16; 0: it is
 * no such sum. */
int tt_product_group(const struct tt_stage *);
/* Of such a stage, the tensor that one factor reads (with a constant added or
 * not) while it alone depends on the axis; NULL: there is none. */
const struct tt_tensor *tt_product_vector(struct tt_arena *,
                                          const struct tt_stage *, int axis);
/* Pack an operand of a tiled stage.  `order` holds its n loops outermost
 * first; the loops before position `inner` (all that are no part of a block)
 * may hold the cache.  It is filled at the deepest of them on which the
 * operand depends, laid out in the order of the loops inside; the fill is
 * vectorized when the last of these is read with stride 1. `ahead`: outside
 * all loops, whole: weights are then laid out by NAME_prepare. */
bool tt_pack_operand(struct tt_schedule *, int stage, const struct tt_tensor *,
                     const int *order, int n, int inner, bool ahead, int lanes);

#endif
