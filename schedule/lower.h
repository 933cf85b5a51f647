/* Lowering: shared between region.c (what a stage must compute where) and
 * lower.c (the statements). */
#ifndef TT_LOWER_H
#define TT_LOWER_H

#include "schedule/state.h"

/* A range of an index: base <= v < base + extent, base an expression over the
 * loops entered so far.  ok false: nothing is known. */
struct tt_range {
  bool ok;
  const struct tt_expr *base;
  int64_t extent;
};

/* A stage being lowered at one place: the region it computes and how far its
 * loops have been entered.  Extents are always constants: a split whose
 * factor does not divide is lowered as several nests ("pieces"), each with a
 * different state here. */
struct tt_inst {
  struct tt_lowering *lw;
  const struct tt_stage_schedule *ss;
  int index;                               /* of the stage */
  const struct tt_tensor *target;          /* where results go */
  const struct tt_expr *base[TT_MAX_DIMS]; /* region, spatial axes */
  int64_t region[TT_MAX_DIMS];
  /* by loop handle: */
  int64_t extent[TT_MAX_LOOPS];            /* SPLIT_*: in this piece; 0: not yet
                                              decided */
  int64_t lo[TT_MAX_LOOPS];                /* SPLIT_OUTER: first iteration */
  const struct tt_expr *val[TT_MAX_LOOPS]; /* leaves entered: lo excluded */
  /* caches filled so far, by position in ss->caches */
  const struct tt_tensor *cache[TT_MAX_CACHES];
  const struct tt_expr *cache_base[TT_MAX_CACHES][TT_MAX_DIMS];
  const struct tt_tensor *acc; /* live accumulators, and the position of the
                                  first loop inside them */
  int acc_position;
  int nguards;
  int guards[TT_MAX_LOOPS]; /* split loops whose value must be checked */
};

/* A tensor seen through a local copy of a part of it, innermost first. */
struct tt_binding {
  struct tt_binding *outer;
  const struct tt_tensor *tensor, *local;
  const struct tt_expr *base[TT_MAX_DIMS]; /* NULL entries: 0 */
};

/* A region that was promised for a tensor further out: see region.c. */
struct tt_limit {
  struct tt_limit *outer;
  const struct tt_tensor *tensor;
  struct tt_range dim[TT_MAX_DIMS];
};

struct tt_lowering {
  struct tt_arena *arena;
  const struct tt_schedule *s;
  struct tt_binding *bindings;
  struct tt_limit *limits;
  const struct tt_tensor **global; /* by tensor id: what stands for it in the
                                      whole function; NULL: itself */
  int nvars;
  int64_t nodes; /* statements made so far */
  const char *error;
};

/* Extent of a loop in the present piece, or the largest it can have in the
 * pieces not decided yet. */
int64_t tt_max_extent(const struct tt_inst *, int loop);
/* Value of a loop from the leaves entered; all of them must be. */
const struct tt_expr *tt_loop_value(const struct tt_inst *, int loop);
/* Range of a loop given the leaves entered so far. */
struct tt_range tt_loop_range(const struct tt_inst *, int loop);
/* Range of an index expression of the stage over its axes. */
struct tt_range tt_index_range(const struct tt_inst *, const struct tt_expr *);
/* The part of `tensor` that `in` and what is computed inside it read in the
 * iterations not entered yet, clipped to the tensor.  Sets limits for the
 * stages computed inside.  `base` and `extent` have an entry a dimension. */
void tt_required_region(const struct tt_inst *, const struct tt_tensor *,
                        const struct tt_expr **base, int64_t *extent);
/* The same for the stage's own reads alone; with or without clipping to the
 * tensor.  false, without clipping, when a read has no constant bounds. */
bool tt_own_region(const struct tt_inst *, const struct tt_tensor *, bool clip,
                   const struct tt_expr **base, int64_t *extent);

/* The nest of a stage at root, written to `target`.  lw->error is set when it
 * cannot be made. */
const struct tt_stmt *tt_lower_stage(struct tt_lowering *, int stage,
                                     const struct tt_tensor *target);

#endif
