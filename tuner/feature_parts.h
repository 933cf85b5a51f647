/* What the representations of a schedule share. */
#ifndef TT_FEATURE_PARTS_H
#define TT_FEATURE_PARTS_H

#include "tuner/context.h"

enum { TT_BUFFERS = 3 }; /* of a stage: the write and two reads */

/* What every depth d of the nest touches: loops d.. are inside. */
struct tt_depths {
  float inside[TT_MAX_LOOPS + 1];  /* product of extents */
  float outside[TT_MAX_LOOPS + 1]; /* including the outer nests */
  float elements[TT_MAX_LOOPS + 1][TT_CTX_ACCESSES];
  float bytes[TT_MAX_LOOPS + 1][TT_CTX_ACCESSES];
  float total[TT_MAX_LOOPS + 1]; /* bytes of all accesses */
};
void tt_depths_fill(const struct tt_context *, struct tt_depths *);

/* log2(x + 1) for x >= 0, exact at x = 2^n - 1 and monotonic: a parabola
 * between the powers of two; and the same for both signs. */
float tt_lg(float);
float tt_slg(float);

/* The write and the first reads of other tensors; how many there are. */
int tt_pick_buffers(const struct tt_context *, int pick[TT_BUFFERS]);

/* A row of TT_FEATURES_TREE (feature_tree.c). */
void tt_feature_tree(const struct tt_schedule *, const struct tt_target_model *,
                     float *row);

#endif
