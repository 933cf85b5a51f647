/* Kernels of GPUs run thread by thread, looking at where they read and write
 * shared memory, not at values: do threads that do not wait for each other
 * meet, and do those of a warp go to different banks? */
#ifndef TT_TESTS_GPU_TRACE_H
#define TT_TESTS_GPU_TRACE_H

#include "codegen/gpu.h"

/* Two threads touch an element between two waits, one of them to write it; or
 * an asynchronous copy is used before it was waited for; or what was never
 * written is read.  NULL: none does, in the first and the last block. */
const char *gpu_races(struct tt_arena *, const struct gpu_kernel *,
                      const struct gpu_barriers *);

/* Times that shared memory was accessed by the first warp, and what it took: as
 * many steps as the fullest bank has words. */
struct gpu_steps {
  int64_t least, taken;
};
/* Of all accesses of the tensors called `name`; instructions read matrices of
 * eight rows of 16 bytes. */
struct gpu_steps gpu_bank_steps(struct tt_arena *, const struct gpu_kernel *,
                                const char *name);

#endif
