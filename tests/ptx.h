/* PTX, what nvcc makes of CUDA C, is interpreted: kernels run without a GPU,
 * those of tensor cores too.
 *
 * Only what nvcc writes of our kernels is understood; anything else is an
 * error, never a guess.  Every access must lie inside one of the buffers and
 * be aligned.  Threads run one after the other from one point where they wait
 * for each other to the next; copies that are asynchronous are made as late as
 * it is allowed, or at once.
 */
#ifndef TT_TESTS_PTX_H
#define TT_TESTS_PTX_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/arena.h"

struct ptx_module;

/* Parse the text of a file; it, the arena's, must stay.  NULL: *error says
 * why. */
struct ptx_module *ptx_parse(struct tt_arena *, const char *text,
                             const char **error);

struct ptx_buffer {
  void *data; /* can be read up to the next multiple of 16 bytes */
  int64_t bytes;
};

enum ptx_order {
  PTX_FORWARD, /* thread 0 first; asynchronous copies at the wait */
  PTX_BACKWARD /* thread 0 last; asynchronous copies at once */
};

struct ptx_launch {
  const char *kernel;
  int64_t grid[3], block[3];
  int64_t shared; /* bytes of dynamic shared memory */
  int nargs;      /* each a pointer to a buffer */
  const struct ptx_buffer *args;
};

/* Run a kernel.  NULL, or what is wrong, with the instruction; the arena's. */
const char *ptx_run(struct tt_arena *, const struct ptx_module *,
                    const struct ptx_launch *, enum ptx_order);

#endif
