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
  bool root;
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
  /* Accumulators while they live, and the position of the first loop inside
   * them.  With a vectorized reduction loop, `acc` has a last dimension for
   * its iterations, and `acc_rest` takes what does not fill its vectors. */
  const struct tt_tensor *acc, *acc_rest;
  int acc_position, acc_vector;
  bool finishing;            /* the sums to be stored are whole */
  bool registers;            /* the accumulators are an intrin's registers */
  const struct tt_var *lane; /* of the threads that execute an intrin */
  const struct tt_tensor *results; /* where its registers are stored on their
                                      way to the stage that finishes them */
  bool in_rest;                    /* in the iterations that fill no vector */
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

/* A tensor stored with its dimensions in another order: dimension d of
 * `stored` is dims[d] of `tensor`.  Lowering speaks of `tensor`; in the end
 * tt_lw_relayout() puts `stored` in its place. */
struct tt_stored {
  const struct tt_tensor *tensor;
  struct tt_tensor *stored;
  const int *dims;
};

struct tt_lowering {
  struct tt_arena *arena;
  const struct tt_schedule *s;
  struct tt_binding *bindings;
  struct tt_limit *limits;
  const struct tt_tensor **global; /* by tensor id: what stands for it in the
                                      whole function; NULL: itself */
  const struct tt_tensor **prepare_global; /* the same in NAME_prepare */
  /* By tensor id: is it the same on every call (weights, constants, what
   * NAME_prepare computes)?  NULL while NAME_prepare itself is lowered. */
  const bool *fixed;
  /* Copies of fixed tensors at root: filled by NAME_prepare. */
  TT_VEC(struct tt_tensor *) ahead;
  TT_VEC(const struct tt_stmt *) ahead_fills;
  TT_VEC(struct tt_stored) stored;
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
/* The part of `tensor` that `in` and what is computed inside it read in the
 * iterations not entered yet, clipped to the tensor.  Sets limits for the
 * stages computed inside.  `base` and `extent` have an entry a dimension. */
void tt_required_region(const struct tt_inst *, const struct tt_tensor *,
                        const struct tt_expr **base, int64_t *extent);
/* The same for the stage's own reads alone; with or without clipping to the
 * tensor.  false, without clipping, when a read has no constant bounds. */
bool tt_own_region(const struct tt_inst *, const struct tt_tensor *, bool clip,
                   const struct tt_expr **base, int64_t *extent);

/* Store the tensor's dimensions in this order; n 0: as they are. */
void tt_lw_store_as(struct tt_lowering *, const struct tt_tensor *, int n,
                    const int *dims);
/* The tensor that stands for it in the end. */
const struct tt_tensor *tt_lw_stored(const struct tt_lowering *,
                                     const struct tt_tensor *);
const struct tt_stmt *tt_lw_relayout(const struct tt_lowering *,
                                     const struct tt_stmt *);

/* ---- between lower.c and accumulate.c ---- */

/* How a loop is emitted: as scheduled, or as a loop of a fill. */
struct tt_how {
  bool scheduled;
  enum tt_for_kind kind;
  int lanes;
};
typedef const struct tt_stmt *tt_inside_fn(struct tt_inst *, void *ctx);
/* Enter a loop, in as many pieces as its splits make, with what `fn` makes
 * inside. */
const struct tt_stmt *tt_lw_enter(struct tt_inst *, int loop, struct tt_how,
                                  tt_inside_fn *fn, void *ctx);
/* The statement of a prefetch in its loop's body, or NULL. */
const struct tt_stmt *tt_lw_prefetch(struct tt_inst *,
                                     const struct tt_prefetch_of *);
/* The loops from position i on. */
const struct tt_stmt *tt_lw_rest(struct tt_inst *, int i);
/* Index of a loop in a layout: its iteration counted over all pieces; told
 * apart only where tt_lw_layout_distinct(). */
const struct tt_expr *tt_lw_layout_index(struct tt_inst *, int loop);
bool tt_lw_layout_distinct(const struct tt_inst *, int loop);
/* What the axes of a stage are at the place reached. */
struct tt_place_values {
  struct tt_inst *in;
  int naxes;
  const struct tt_var *axis[TT_MAX_DIMS * 2];
  const struct tt_expr *value[TT_MAX_DIMS * 2];
  int skip_cache; /* being filled */
};
struct tt_place_values tt_lw_place_of(struct tt_inst *);
/* An expression over the axes of the stage, at that place. */
const struct tt_expr *tt_lw_at_place(struct tt_place_values *,
                                     const struct tt_expr *);
/* Wrap in the guards of splits with a guarded tail. */
const struct tt_stmt *tt_lw_guarded(struct tt_inst *, const struct tt_stmt *);
/* The same without those of padded tails: what is computed there lies in
 * memory made for it. */
const struct tt_stmt *tt_lw_padded(struct tt_inst *, const struct tt_stmt *);
/* Are all guards at the place reached those of padded tails? */
bool tt_lw_all_padded(const struct tt_inst *);
/* Can a value be computed for points that are none of the stage's: is all that
 * it reads, copies with padded tails above all, there for them, too? */
bool tt_lw_is_harmless(const struct tt_inst *, const struct tt_expr *value);
/* The value where padded tails have points of the stage, else the other. */
const struct tt_expr *tt_lw_inside_padding(struct tt_inst *,
                                           const struct tt_expr *value,
                                           const struct tt_expr *other);
/* A new TT_LOCAL; its scope follows from its size. */
struct tt_tensor *tt_lw_local_tensor(struct tt_lowering *, const char *name,
                                     enum tt_dtype, int ndim,
                                     const int64_t *dims);
/* The statement at the innermost place. */
const struct tt_stmt *tt_lw_update(struct tt_inst *);
/* The nest that starts results in place, over the spatial loops from position
 * i on. */
const struct tt_stmt *tt_lw_init_target(struct tt_inst *, int i);
/* The nest from position i on around accumulators. */
const struct tt_stmt *tt_lw_accumulate(struct tt_inst *, int i);

/* ---- instruct.c ---- */
/* Can tensorized loops, from the place reached on, be instructions? */
bool tt_lw_whole_tiles(const struct tt_inst *);
/* Are accumulators made here the intrin's registers?  Sets lw->error where
 * they must be and cannot. */
bool tt_lw_keeps_registers(struct tt_inst *);
/* The instruction for the tile at the place reached; `fn` makes what it does
 * at one point. */
const struct tt_stmt *tt_lw_instruction(struct tt_inst *, enum tt_intrin_op,
                                        tt_inside_fn *fn, void *ctx);
/* The inside of a loop, once for each of the threads that execute the stage's
 * intrin where the loop counts groups of them. */
const struct tt_stmt *tt_lw_in_threads(struct tt_inst *, int loop,
                                       tt_inside_fn *fn, void *ctx);
/* Indices of the point reached in the accumulators, or in what the stage
 * computes; returns their number. */
int tt_lw_result_index(struct tt_inst *, bool acc, const struct tt_tensor **,
                       const struct tt_expr **idx);

/* What becomes of the sum of a point, `t` in the target: it is stored, or what
 * finishes the reduction takes it. */
const struct tt_stmt *tt_lw_finished(struct tt_inst *,
                                     const struct tt_expr *const *t,
                                     const struct tt_expr *sum);

/* The nest of a stage at root, written to `target`.  lw->error is set when it
 * cannot be made. */
const struct tt_stmt *tt_lower_stage(struct tt_lowering *, int stage,
                                     const struct tt_tensor *target);
/* Store the sums of accumulators inside position i, by `store`, which is
 * called with in->finishing set where they are whole. */
const struct tt_stmt *
tt_lw_finish_or_store(struct tt_inst *, int i,
                      const struct tt_stmt *(*store)(struct tt_inst *, int i));

/* Indices of the point reached in in->results; returns their number. */
int tt_lw_tile_index(struct tt_inst *, const struct tt_expr **idx);
/* The same for an intrin's registers, over the loops from position i on: tile
 * by tile they are stored in memory, from where their sums are taken. */
const struct tt_stmt *tt_lw_finish_tiles(struct tt_inst *, int i);

#endif
