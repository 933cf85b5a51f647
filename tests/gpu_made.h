/* Kernels as code generation makes them, before they are printed: what their
 * threads share, and where they wait. */
#ifndef TT_TESTS_GPU_MADE_H
#define TT_TESTS_GPU_MADE_H

#include "tests/gpu_trace.h"

/* The kernels of a nest in a language; release with gpu_made_free(). */
struct gpu_made {
  struct gpu_nest nest;
  struct gpu_barriers *barriers;
};
/* false: a limit of GPUs is exceeded. */
bool gpu_made(struct tt_arena *, const struct tt_nest *, enum tt_gpu_language,
              struct gpu_made *);
void gpu_made_free(struct gpu_made *);

/* Neither is a place to wait missing nor is there one too many. */
const char *gpu_check_barriers(struct tt_arena *, const struct gpu_made *);
/* Places where threads wait in the loop over tiles; 0: there is no loop. */
int gpu_waits_in_loop(const struct gpu_made *);
/* The shared tensor of that name in the first kernel; NULL: there is none. */
const struct tt_tensor *gpu_shared_tensor(const struct gpu_made *,
                                          const char *name);

#endif
