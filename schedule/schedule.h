/* Schedules as data.
 *
 * For every stage: a tree of loops (axes, splits, fusions), an order of its
 * leaves with their kinds, where the stage is computed, and its caches.  A
 * primitive edits this data after checking that the result cannot change;
 * nothing is lowered until a candidate is built.  Features are computed from
 * it directly.
 */
#ifndef TT_SCHEDULE_H
#define TT_SCHEDULE_H

#include "ir/ir.h"

#define TT_MAX_LOOPS 48 /* loops of one stage, leaves or not */
#define TT_MAX_CACHES 8
#define TT_MAX_PREFETCHES 8

#define TT_OUTSIDE (-1) /* a place before all loops of a stage */
#define TT_NO_CACHE (-2)

enum tt_node { TT_AXIS, TT_SPLIT_OUTER, TT_SPLIT_INNER, TT_FUSED };
/* TT_TAIL_PAD: rounded up like TT_TAIL_GUARD; accumulators and copies laid out
 * by loops have points for the rest, too, which are computed, from zeros, and
 * never stored. */
enum tt_tail { TT_TAIL_PEEL, TT_TAIL_GUARD, TT_TAIL_SHIFT, TT_TAIL_PAD };

/* One loop of a stage.  Handles are positions in tt_stage_schedule.loops and
 * never change. */
struct tt_loop {
  const char *name;
  enum tt_node node;
  bool reduce;
  enum tt_for_kind kind;     /* of a leaf */
  bool vthread;              /* TT_UNROLL, bound to "vthread" */
  int lanes;                 /* TT_VECTOR */
  const struct tt_var *axis; /* TT_AXIS */
  int parent;                /* TT_SPLIT_*: the loop that was split */
  int other;                 /* TT_SPLIT_*: the other half */
  int64_t factor;            /* TT_SPLIT_*: extent of the inner loop */
  enum tt_tail tail;
  int fused_outer, fused_inner; /* TT_FUSED */
  int child[2];   /* what this loop became: split outer/inner, or the
                     fused loop twice; -1: a leaf */
  bool shrink;    /* of an axis: points that change nothing are left out */
  int64_t extent; /* for the whole axis, tails rounded up */
};

struct tt_cache_read {
  const char *name;
  const struct tt_tensor *tensor;
  int loop; /* filled at the top of this loop's body; or TT_OUTSIDE */
  const struct tt_expr *access; /* what one cached element is: the load, or
                                   the select around it; by axes */
  int nlayout; /* loops of the stage that index the cache, outermost first;
                  0: the layout of the tensor's own dimensions */
  int layout[TT_MAX_DIMS];
  int lanes;                 /* vectorize the fill; 0: plain */
  const struct tt_expr *pad; /* copied with its border, which holds this
                                constant; NULL: without.  Dimensions only. */
  int ndims;                 /* without loops: the dimensions in the order */
  int dims[TT_MAX_DIMS];     /* in which they are stored; 0: as declared */
  struct tt_staging staging; /* .lanes is not set here */
};

/* At the top of the loop's body: what its iteration `distance` later uses. */
struct tt_prefetch_of {
  int cache; /* by position; -1: of a tensor */
  const struct tt_tensor *tensor;
  int loop;
  int64_t distance;
};

enum tt_place { TT_ROOT, TT_INLINE, TT_AT, TT_FINISH };

struct tt_stage_schedule {
  const struct tt_stage *stage;
  const struct tt_expr *value; /* with inlined producers substituted */
  const struct tt_expr *where; /* likewise; NULL: always */
  int nloops;
  struct tt_loop loops[TT_MAX_LOOPS];
  int norder;
  int order[TT_MAX_LOOPS]; /* leaves, outermost first */
  enum tt_place place;
  int at_stage, at_loop; /* TT_AT: position of the consumer, its loop;
                            TT_FINISH: position of the reduction */
  int finish;            /* the stage that is TT_FINISH here, or -1 */
  int attached;          /* stages that are computed in this one's loops */
  int cache_write;       /* register accumulators inside this loop;
                            TT_NO_CACHE: none; TT_OUTSIDE: all loops */
  int ncaches;
  struct tt_cache_read caches[TT_MAX_CACHES];
  int nprefetches;
  struct tt_prefetch_of prefetches[TT_MAX_PREFETCHES];
  int nlayout;             /* the result's dimensions in the order in which */
  int layout[TT_MAX_DIMS]; /* they are stored, outermost first; 0: declared */
  const struct tt_intrin *intrin; /* does the innermost loops; NULL: none */
  int tile[TT_MAX_LOOPS]; /* these loops, by the intrin's indices, spatial ones
                             first: as they stand in the order */
};

struct tt_schedule {
  const struct tt_program *program; /* rfactor replaces it by a copy */
  struct tt_arena *arena;
  bool strict_fp;
  int nbound; /* loops that are bound to blocks, threads or virtual ones */
  int nstages;
  struct tt_stage_schedule *stages; /* as program->stages */
  int ncalls, capcalls;
  struct tt_scall *calls; /* what was applied, in order: the text form */
  const char *error; /* why the last primitive was refused; names the loops */
};

/* Every stage at root, plain serial loops: spatial axes, then reduction. */
struct tt_schedule *tt_schedule_new(struct tt_arena *,
                                    const struct tt_program *, bool strict_fp);

/* The primitives.  Each returns false and sets s->error, changing nothing,
 * when it would be illegal.  `stage` is a position, loops are names' handles
 * (tt_find_loop). */
int tt_find_stage(const struct tt_schedule *, const char *name); /* or -1 */
int tt_find_loop(const struct tt_schedule *, int stage, const char *name);
/* i -> outer (keeps the name of i) of ceil(extent/factor), inner `name` of
 * `factor`.  Returns the inner loop or -1; the outer one is the other half
 * (loops[inner].other). */
int tt_split(struct tt_schedule *, int stage, int loop, int64_t factor,
             const char *inner_name, enum tt_tail);
/* Returns the fused loop (named `name` or as the outer) or -1. */
int tt_fuse(struct tt_schedule *, int stage, int outer, int inner,
            const char *name);
/* The named leaves take, in this order, the positions they hold now. */
/* Split both and order outer, outer, inner, inner. */
bool tt_tile(struct tt_schedule *, int stage, int a, int b, int64_t fa,
             int64_t fb, const char *inner_a, const char *inner_b);
bool tt_reorder(struct tt_schedule *, int stage, int n, const int *loops);
bool tt_unroll(struct tt_schedule *, int stage, int loop);
bool tt_vectorize(struct tt_schedule *, int stage, int loop, int lanes);
bool tt_parallel(struct tt_schedule *, int stage, int loop);
/* The loop's iterations become blocks of a GPU or threads of a block: one of
 * TT_BLOCK_* and TT_THREAD_*. */
bool tt_bind(struct tt_schedule *, int stage, int loop, enum tt_for_kind);
/* The iterations of a spatial loop are virtual threads: one thread runs them,
 * interleaved.  The loop is unrolled and moves inside, up to the unrolled and
 * vectorized loops at the end of the order; nothing can hang on it. */
bool tt_vthread(struct tt_schedule *, int stage, int loop);
/* Leave out the points of the loop's whole axis, a reduction's, that cannot
 * change the result: those outside of a tensor, where `else` gives the neutral
 * element, and those that `where` excludes. */
bool tt_shrink(struct tt_schedule *, int stage, int loop);
/* Divisions of floats by what stays the same in the loop become products with
 * a reciprocal: within 1.5 units in the last place.  Refused with strict_fp. */
bool tt_reciprocal(struct tt_schedule *, int stage, int loop);
bool tt_inline(struct tt_schedule *, int stage);
/* The reduction axis `loop` in blocks of `factor`: their results are elements
 * of a new tensor `name`, blocks first, and the stage reduces these.  The stage
 * that computes them takes position `stage` and has `inner_name` as its
 * reduction axis; the old one and all after it move up by one.  Comes before
 * the stage's other primitives.  Returns `stage` or -1. */
int tt_rfactor(struct tt_schedule *, int stage, int loop, int64_t factor,
               const char *inner_name, const char *name);
bool tt_compute_at(struct tt_schedule *, int stage, int consumer, int loop);
bool tt_compute_root(struct tt_schedule *, int stage);
/* An elementwise stage takes the sums of the reduction from its accumulators
 * as soon as they are whole; the sums themselves are never stored.  The
 * reduction stands at root and has accumulators (tt_cache_write). */
bool tt_finish(struct tt_schedule *, int stage, int reduction);
bool tt_cache_write(struct tt_schedule *, int stage, int loop);
bool tt_cache_read(struct tt_schedule *, int stage, const struct tt_tensor *,
                   int loop, int nlayout, const int *layout, int lanes,
                   const char *name);
/* The same with the tensor's dimensions in another order. */
bool tt_cache_dims(struct tt_schedule *, int stage, const struct tt_tensor *,
                   int loop, int ndims, const int *dims, int lanes,
                   const char *name);
/* The same in the layout of the tensor's dimensions, or with these in another
 * order (ndims 0: as declared), with the values that its reads have outside
 * of it (`else`) as a border: the reads then need no condition. */
bool tt_cache_padded(struct tt_schedule *, int stage, const struct tt_tensor *,
                     int loop, int ndims, const int *dims, int lanes,
                     const char *name);
/* How the stage's newest cache, made by the call before, lies in a GPU's shared
 * memory (its .lanes is not looked at).  On other machines it changes nothing.
 * Refused for a copy outside of all loops. */
bool tt_cache_staging(struct tt_schedule *, int stage,
                      const struct tt_staging *);
/* The stage's result is stored with its dimensions in this order, outermost
 * first: a permutation of all of them. */
bool tt_layout(struct tt_schedule *, int stage, int ndims, const int *dims);
/* `what` is the name of a tensor that the stage reads, of its own, or of a
 * cache; 0 <= distance. */
bool tt_prefetch_at(struct tt_schedule *, int stage, const char *what, int loop,
                    int64_t distance);

/* The loops from `loop` on, the innermost ones, are done by an intrin of the
 * program: their values and types are its statement's, their iterations its
 * indices'. */
bool tt_tensorize(struct tt_schedule *, int stage, int loop,
                  const struct tt_intrin *);
const struct tt_intrin *tt_find_intrin(const struct tt_schedule *,
                                       const char *name); /* or NULL */

/* ---- the text form ---- */
/* Apply one call, or a block.  false: s->error (and *bad the call). */
bool tt_schedule_call(struct tt_schedule *, const struct tt_scall *);
bool tt_schedule_apply(struct tt_schedule *, const struct tt_sblock *,
                       const struct tt_scall **bad);
/* "C.split(m, 4, mi)". */
void tt_scall_print(const struct tt_scall *, struct tt_sb *);
/* `schedule { ... }` that reads back to the same state. */
void tt_schedule_print(const struct tt_schedule *, struct tt_sb *);

/* ---- lowering ---- */
/* The loop nest of a schedule, unsimplified vectors and unrolls still marked
 * on loops.  false: *error says why (a size over a limit). */
bool tt_schedule_lower(struct tt_arena *, const struct tt_schedule *,
                       struct tt_nest *out, const char **error);
/* The naive nest: what plain C a person would write. */
bool tt_plain_nest(struct tt_arena *, const struct tt_program *,
                   struct tt_nest *out, const char **error);

/* ---- the derived space ---- */
struct tt_gpu_limits { /* of a device; all 0: the target is no GPU */
  bool cpu;            /* a CPU that runs the threads of a block in turns */
  bool vectors;        /* the language has vectors */
  int lanes;           /* floats of one; 1 where threads are the lanes */
  int64_t units;       /* processors */
  int64_t warp;        /* threads that run in step */
  int64_t threads;     /* of a block, at most */
  int64_t items[3];    /* in each dimension */
  int64_t shared;      /* bytes that a block may share */
  bool scratchpad;     /* in memory that is nearer than the others */
  int64_t registers;   /* floats that a thread keeps */
  int arch;            /* of CUDA: NN of sm_NN; 0: not known */
};
/* A GPU of which nothing is known. */
extern const struct tt_gpu_limits tt_gpu_unknown;
struct tt_target_model { /* what the space and the default schedule assume */
  int vector_bytes;      /* 16, 32, 64; 0: no vectors */
  int registers;         /* vector registers: 16, 32 */
  int64_t l1, l2, l3;    /* bytes */
  int threads;
  struct tt_gpu_limits gpu;
};

enum tt_knob_kind { TT_KNOB_FACTOR, TT_KNOB_CHOICE };
struct tt_knob {
  const char *name; /* "C.m0" */
  enum tt_knob_kind kind;
  int n;                 /* number of values */
  const int64_t *values; /* factors, or choices 0..n-1 */
};
/* S_e: a vector of knobs; a configuration has an index in each. */
struct tt_space {
  int nknobs;
  struct tt_knob *knobs;
  double size; /* number of configurations */
  void *rules; /* private */
};
struct tt_space *tt_space_new(struct tt_arena *, const struct tt_program *,
                              const struct tt_target_model *, bool strict_fp);
/* The schedule of a configuration, by calling primitives; NULL if it is
 * illegal or exceeds a limit (rejected before building). */
struct tt_schedule *tt_space_schedule(struct tt_arena *,
                                      const struct tt_space *,
                                      const int *config);
/* The configuration of the default schedule (--trials=0). */
void tt_space_default(const struct tt_space *, int *config);

/* The default schedule for such a GPU: without tiles, with tiles (whose code
 * may exceed a limit of GPUs), or with those of instructions before others. */
enum tt_gpu_tiles { TT_GPU_PLAIN, TT_GPU_TILES, TT_GPU_TENSORS };
struct tt_schedule *tt_gpu_schedule(struct tt_arena *,
                                    const struct tt_program *,
                                    const struct tt_gpu_limits *,
                                    bool strict_fp, enum tt_gpu_tiles);

/* The same for GPUs (space_gpu.c): what tt_space_new(), tt_space_schedule()
 * and tt_space_default() are for CPUs. */
struct tt_space *tt_gpu_space_new(struct tt_arena *, const struct tt_program *,
                                  const struct tt_target_model *,
                                  bool strict_fp);
struct tt_schedule *tt_gpu_space_schedule(struct tt_arena *,
                                          const struct tt_space *,
                                          const int *config);
void tt_gpu_space_default(const struct tt_space *, int *config);

/* ---- the space of a block with open choices (choices.c) ---------------- */

/* How many arguments of the block are open: `?` or {...}. */
int tt_block_choices(const struct tt_sblock *);
/* One knob for each of them.  The block must outlive the space. */
struct tt_space *tt_choices_space(struct tt_arena *, const struct tt_program *,
                                  const struct tt_sblock *, bool strict_fp);
/* The schedule of a configuration; NULL if it is illegal. */
struct tt_schedule *tt_choices_schedule(struct tt_arena *,
                                        const struct tt_space *,
                                        const int *config);
/* The same, and *bad the call that was refused or NULL: then the schedule's
 * error says why. */
struct tt_schedule *tt_choices_apply(struct tt_arena *, const struct tt_space *,
                                     const int *config,
                                     const struct tt_scall **bad);
/* The first legal configuration in the order of the text.  false: none was
 * found, and `config` is the very first. */
bool tt_choices_first(const struct tt_space *, int *config);

#endif
