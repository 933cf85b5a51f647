/* Loop nests of GPUs: what runs as one kernel, and where its tensors lie;
 * private to codegen/gpu*.c.
 *
 * The body of a kernel is a loop nest like any other, TT_BLOCK_* loops outside,
 * and inside them phases: TT_THREAD_* loops with what each thread does.  Run
 * in the order of the text it computes the same; the threads of a block may
 * run a phase in any order, and wait for each other between phases where what
 * one has written is used by another.
 */
#ifndef TT_CODEGEN_GPU_H
#define TT_CODEGEN_GPU_H

#include "codegen/internal.h"

enum {
  TT_GPU_DIMS = 3,
  TT_GPU_LINE = 16,          /* bytes that a thread moves at once */
  TT_GPU_THREADS = 256,      /* of a block where a schedule says nothing */
  TT_GPU_SHARED = 48 << 10,  /* bytes that a block may share everywhere */
  TT_GPU_DYNAMIC = 227 << 10 /* that it may ask CUDA for on some devices */
};

struct gpu_kernel {
  const char *comment;                           /* what it computes, or NULL */
  int64_t grid[TT_GPU_DIMS], block[TT_GPU_DIMS]; /* x, y, z */
  const struct tt_stmt *body;
};

/* What one function of a CPU does. */
struct gpu_nest {
  int n;
  struct gpu_kernel *kernels; /* in the order in which they run */
  int nlocals;
  const struct tt_tensor **locals; /* that kernels share, as TT_TEMP */
};

/* Cuts a nest into kernels.  Tensors that are allocated outside of thread loops
 * become TT_SHARED, or each thread's own where no thread uses another one's
 * elements: they lose the dimensions that tell threads apart.  NULL, or which
 * limit is exceeded. */
const char *tt_gpu_kernels(struct pass *, const struct tt_stmt *,
                           struct gpu_nest *);
/* After the passes: every store stands inside a loop of each index that the
 * kernel has more than one of; those that are missing are added, with one
 * iteration. */
const struct tt_stmt *tt_gpu_complete(struct pass *, const struct gpu_kernel *);

/* Bytes that the threads of a block share. */
int64_t tt_gpu_shared(const struct tt_stmt *);

/* What code generation does for a language. */
struct tt_codegen_options tt_gpu_options(enum tt_gpu_language);
/* The kernels of a statement after the passes, complete and within limits;
 * NULL: none.  Returns an error or NULL. */
const char *tt_gpu_make(struct pass *, const struct tt_stmt *,
                        struct gpu_nest *);

/* ---- gpushare.c ---- */

/* What stands outside of thread loops is done by all threads of the kernel's
 * blocks where its order does not matter. */
const struct tt_stmt *tt_gpu_share_threads(struct pass *,
                                           const struct gpu_kernel *,
                                           const struct tt_stmt *);
/* A statement without bound loops, among all threads of many blocks; NULL: its
 * order matters. */
const struct tt_stmt *tt_gpu_share_blocks(struct pass *,
                                          const struct tt_stmt *);

/* ---- gpupipe.c ---- */

/* Of what is shared out: copies whose tensors have stages are made that many
 * iterations ahead, less one. */
const struct tt_stmt *tt_gpu_copy_ahead(struct pass *, const struct tt_stmt *);

/* ---- gpubank.c ---- */

/* After the passes: shared copies with their rows padded and swizzled.  Sets
 * the pass's error where an instruction cannot read them so. */
const struct tt_stmt *tt_gpu_banks(struct pass *, const struct tt_stmt *);

/* ---- gpubar.c ---- */

enum { TT_GPU_NO_GROUPS = 16 };
/* A statement before which the threads of a block wait for each other. */
struct gpu_barrier {
  const struct tt_stmt *before;
  bool global; /* for what they wrote outside of shared memory, too */
  int groups;  /* of asynchronous copies, that many of the last ones may be on
                  their way still; TT_GPU_NO_GROUPS: it waits for none */
};
struct gpu_barriers {
  struct gpu_barrier *items;
  int n, cap;
};
/* For a complete body; release with free(items). */
void tt_gpu_barriers(struct tt_arena *, const struct tt_stmt *,
                     struct gpu_barriers *);
/* Is nothing read or overwritten too early with these, save one of them? */
bool tt_gpu_barriers_suffice(struct tt_arena *, const struct tt_stmt *,
                             const struct gpu_barriers *,
                             const struct gpu_barrier *without);

/* The body with phases that no barrier parts joined into one, so that each
 * thread does all of them before the next one begins. */
const struct tt_stmt *tt_gpu_join_phases(struct pass *,
                                         const struct gpu_kernel *,
                                         const struct gpu_barriers *);

/* ---- util ---- */
/* 0 to 2: x to z. */
int tt_gpu_dim(enum tt_for_kind);
/* Is a loop of such a kind (TT_BLOCK_X to TT_THREAD_Z) in the statement? */
bool tt_gpu_has(const struct tt_stmt *, enum tt_for_kind from,
                enum tt_for_kind to);

#endif
