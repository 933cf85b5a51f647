/* What the primitives share: recording, errors, and the checks that hold
 * after every edit. */
#ifndef TT_STATE_H
#define TT_STATE_H

#include "schedule/schedule.h"

/* Set s->error and return false. */
bool tt_refuse(struct tt_schedule *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Append a call to the text form; `fmt` has a letter an argument: l loop name
 * or identifier (const char *), i integer (int64_t), s string, k key of the
 * next argument. */
void tt_record(struct tt_schedule *, int stage, const char *primitive,
               const char *fmt, ...);
/* Make a plain leaf a loop of that kind, if the stage's invariants hold. */
bool tt_set_kind(struct tt_schedule *, int stage, int loop, enum tt_for_kind,
                 int lanes);
/* Move virtual threads to where they run: after an edit of the order or of
 * kinds, before its check. */
void tt_sink_vthreads(struct tt_stage_schedule *);
/* Position of a leaf in the order, or -1. */
int tt_position(const struct tt_stage_schedule *, int loop);
/* Plain loops over the axes of a stage. */
void tt_init_stage(struct tt_stage_schedule *, const struct tt_stage *);
/* Does the result of a reduction depend on the order of its points? */
bool tt_sum_rounds(const struct tt_stage *);
/* Add a loop; -1 when there are too many or the name is taken. */
int tt_add_loop(struct tt_schedule *, int stage, const char *name);
/* Is `loop` a leaf of the stage?  Refuses otherwise. */
bool tt_need_leaf(struct tt_schedule *, int stage, int loop);
/* The axis of a split chain; a fused loop gives that of its outer part. */
bool tt_loop_uses_axis(const struct tt_stage_schedule *, int loop,
                       const struct tt_var *axis);
/* Do the invariants of a stage hold (order of reductions, places of caches,
 * what stands inside vector loops)?  Sets s->error. */
bool tt_check_stage(struct tt_schedule *, int stage);
/* The part of it about loops that are bound to blocks or threads; the places
 * of all stages matter. */
bool tt_check_bound(struct tt_schedule *);
/* Is the loop made of that one by splits and fusions? */
bool tt_comes_from(const struct tt_stage_schedule *, int loop, int ancestor);
/* The parts of it about tensorized loops; the second is about instructions
 * that several threads execute, and the places of all stages matter. */
bool tt_check_tile(struct tt_schedule *, int stage);
bool tt_check_warps(struct tt_schedule *, int stage);
/* The position of the first tensorized loop; after all loops: there is none. */
int tt_tensor_position(const struct tt_stage_schedule *);
const char *tt_stage_name(const struct tt_schedule *, int stage);
/* For a read with a value outside the tensor, SELECT(inside, load, v): v, when
 * the condition says nothing but that the index is inside.  Else NULL. */
const struct tt_expr *tt_padding_value(struct tt_arena *,
                                       const struct tt_expr *,
                                       const struct tt_tensor *);
/* Conditions over the stage's axes, each with a shrunk axis in it: where one
 * is false, the point is neutral in the reduction.  At most `max`, without
 * loads; returns their number. */
enum { TT_MAX_SHRINK = 32 };
int tt_shrink_conditions(struct tt_arena *, const struct tt_stage_schedule *,
                         const struct tt_expr **out, int max);
/* Do they take the place of every condition around a read of the tensor, so
 * that none needs a border? */
bool tt_shrinks_border(struct tt_arena *, const struct tt_stage_schedule *,
                       const struct tt_tensor *);
/* Is there one with both axes in it (loop handles)? */
bool tt_shrinks_with(struct tt_arena *, const struct tt_stage_schedule *, int a,
                     int b);
/* ---- gpu_tiles.c, gpu_reduce.c ---- */
/* What became of a stage: nothing; what it should; another one stands in its
 * place, to be looked at again; a primitive was refused, and it is half done.
 */
enum tt_gpu_step { TT_GPU_NONE, TT_GPU_DONE, TT_GPU_CUT, TT_GPU_REFUSED };
/* Results of a block, and how many of them a thread has side by side; its
 * others are as many times further on as there are threads, so that threads
 * beside each other read what lies side by side. */
struct tt_gpu_tile {
  int rows, cols, row_run, col_run, row_threads, col_threads;
  int steps;      /* of the reduction, that blocks share operands for */
  int parts;      /* of its longest axis, each of blocks of its own: whole */
  bool shared[2]; /* those of rows, of columns */
  struct tt_staging staging; /* how; rows of those are padded and swizzled that
                                lie across the reduction */
  const struct tt_intrin *dot; /* does some steps at once; NULL: none */
};
/* Do a block's threads, registers and shared memory suffice? */
bool tt_gpu_tile_fits(const struct tt_gpu_tile *, const struct tt_gpu_limits *);
/* How many times as long so many blocks take as if they kept all processors
 * busy to the end: those of the last round may be few. */
double tt_gpu_idle(const struct tt_gpu_limits *, double blocks);
/* The tile by the stage's extents and the device; false: no operand is read
 * again and again, or none fits. */
bool tt_gpu_choose_tile(const struct tt_schedule *, int stage,
                        const struct tt_gpu_limits *, struct tt_gpu_tile *);
/* Tiles for a GPU, where the stage's operands are read again and again.  With
 * parts, the stage of their sums
 * stands at `stage`, and the one that sums these behind it. */
enum tt_gpu_step tt_gpu_tile(struct tt_schedule *, int stage,
                             const struct tt_gpu_tile *);
/* The first intrin of the program that adds up products for one result, in one
 * thread, and that tile of the stage can have on such a device; or NULL. */
const struct tt_intrin *tt_gpu_dot(const struct tt_schedule *, int stage,
                                   const struct tt_gpu_limits *,
                                   const struct tt_gpu_tile *);
/* ---- gpu_tensor.c ---- */
/* Does the language have the instruction, and the device?  Of one that comes
 * with the tool the device must be known; another one was declared for it. */
bool tt_gpu_has_intrin(const struct tt_gpu_limits *, const struct tt_intrin *);
/* A copy of the schedule as it is, to try something in. */
struct tt_schedule *tt_gpu_trial(struct tt_arena *, const struct tt_schedule *);
/* Groups of threads of a block along either side, results of an instruction
 * that each has, steps of it that operands are shared for, copies of these that
 * there is room for, and rows of blocks that run side by side. */
struct tt_gpu_warps {
  int rows, cols, row_warps, col_warps, steps, stages, row_group;
};
/* Tiles of that instruction, which several threads execute, where the stage is
 * a product that it matches and the sizes divide.  NONE: nothing was done. */
enum tt_gpu_step tt_gpu_tensor(struct tt_schedule *, int stage,
                               const struct tt_intrin *,
                               const struct tt_gpu_warps *);
/* Those of the program that the stage could be tiled by on such a device, at
 * most `max`: of operands that lie as it takes them, where there are some.
 * Returns their number. */
int tt_gpu_tensor_intrins(struct tt_arena *, const struct tt_schedule *,
                          int stage, const struct tt_gpu_limits *, int max,
                          const struct tt_intrin **out);
/* The tile by the stage's extents; false: none of its sizes divides them. */
bool tt_gpu_choose_warps(struct tt_arena *, const struct tt_schedule *,
                         int stage, const struct tt_intrin *,
                         const struct tt_gpu_limits *, struct tt_gpu_warps *);
/* Do a block's threads, registers and shared memory suffice? */
bool tt_gpu_tensor_fits(const struct tt_intrin *, const struct tt_gpu_warps *,
                        const struct tt_gpu_limits *);

/* The threads of a block for each result of a long reduction.  DONE: stages
 * were added before it that are computed in it. */
enum tt_gpu_step tt_gpu_reduce(struct tt_schedule *, int stage,
                               const struct tt_gpu_limits *);

/* Are they the same in all lanes of a vector loop?  Refuses otherwise. */
bool tt_check_shrink(struct tt_schedule *, int stage);
/* Are these the numbers 0..ndim-1, each once? */
bool tt_is_permutation(int n, const int *dims, int ndim);
/* Does any value or condition of the stage load the tensor? */
bool tt_stage_reads(const struct tt_stage_schedule *, const struct tt_tensor *);

/* Does stage `i` run inside loop `loop` of `consumer`: is it that stage, or
 * computed at that loop or deeper? */
bool tt_runs_inside(const struct tt_schedule *, int i, int consumer, int loop);

/* ---- gpu_default.c ---- */
/* Inline what is cheap; one thread for every result of a stage at root. */
void tt_gpu_inline(struct tt_schedule *);
void tt_gpu_bind(struct tt_schedule *, int stage, const struct tt_gpu_limits *);
/* The first elementwise stage that can take a reduction's sums from their
 * registers does. */
void tt_gpu_finish(struct tt_schedule *, int stage);

#endif
