/* The loop context of a stage: its loops with nominal extents, what each
 * access touches at each depth, and its arithmetic.  All of it follows from
 * the schedule's data; nothing is lowered, nothing is allocated.
 */
#ifndef TT_CONTEXT_H
#define TT_CONTEXT_H

#include "schedule/schedule.h"

/* What goes beyond these is left out: features are approximations. */
enum {
  TT_CTX_AXES = 16,
  TT_CTX_ACCESSES = 16,
  TT_CTX_PARTS = 4, /* axes that one fused loop runs over */
  TT_CTX_NODES = 4000
};

/* A leaf of the nest.  Running it once moves `parts[i].axis` over `count`
 * values that are `step` apart. */
struct tt_ctx_loop {
  float extent;
  enum tt_for_kind kind;
  bool reduce;
  int lanes, handle, nparts;
  struct {
    int axis;
    float count, step;
  } parts[TT_CTX_PARTS];
};

/* One subscript: c0 + sum of coef[axis] * axis, where c0 is in lo..hi over
 * the accesses that were merged; at most `cap` values. */
struct tt_ctx_index {
  float coef[TT_CTX_AXES];
  float lo, hi, cap;
};
struct tt_ctx_access {
  const struct tt_tensor *tensor;
  bool write;
  int ndim, bytes;
  const struct tt_cache_read *cache; /* read through it; NULL: directly */
  int cache_depth; /* loops outside the fill; the cache serves those inside */
  struct tt_ctx_index index[TT_MAX_DIMS];
};

/* Operations a point. */
struct tt_ctx_ops {
  float add, mul, div, special, integer, choice;
};

struct tt_context {
  const struct tt_stage_schedule *ss;
  int n; /* loops, outermost first */
  struct tt_ctx_loop loops[TT_MAX_LOOPS];
  int naxes;               /* spatial, then reduction */
  float axis[TT_CTX_AXES]; /* extents: of the region, if computed inside */
  float outer;             /* times that the whole nest is entered */
  int naccesses;           /* the write first */
  struct tt_ctx_access accesses[TT_CTX_ACCESSES];
  struct tt_ctx_ops ops;
};

/* How much of each axis a set of loops covers: the width of the box, and the
 * number of points in it. */
struct tt_ctx_cover {
  float width[TT_CTX_AXES], count[TT_CTX_AXES];
};

/* The context of a stage that is not inlined. */
void tt_context(const struct tt_schedule *, int stage, struct tt_context *);
/* One point. */
void tt_cover_none(const struct tt_context *, struct tt_ctx_cover *);
/* The cover of one loop more, outside those added before. */
void tt_cover_add(const struct tt_context *, struct tt_ctx_cover *,
                  const struct tt_ctx_loop *);
/* Elements that an access touches over a cover; *run: neighbours in memory
 * that they come in. */
float tt_ctx_touched(const struct tt_context *, const struct tt_ctx_access *,
                     const struct tt_ctx_cover *, float *run);
/* Elements that one step of the loop moves an access by (by its leading
 * axis), in the cache's layout where `cached`. */
float tt_ctx_stride(const struct tt_context *, const struct tt_ctx_access *,
                    const struct tt_ctx_loop *, bool cached);

/* Copies of the stage's statement in the code: of unrolled loops, of vectors,
 * and of the nests that remainders become. */
float tt_ctx_copies(const struct tt_context *);

#endif
