/* Kernels for GPUs as nvcc understands them: compiled to PTX, which is
 * interpreted. */
#ifndef TT_TESTS_EXEC_PTX_H
#define TT_TESTS_EXEC_PTX_H

#include "tests/exec_c.h"

/* Is there a compiler? */
bool exec_ptx_can(void);

/* Replaces a text in the PTX, wherever it stands: a fault that is to be found.
 */
struct ptx_edit {
  const char *from, *to;
};

/* What exec_c() does, for the kernels in CUDA C of all of them, in one file for
 * an architecture ("sm_80"), in two orders of threads.  `edit`, or NULL: it is
 * an error when its text does not stand in the PTX. */
const char *exec_ptx(struct tt_arena *, const char *arch, int n,
                     const struct exec_case *cases, const struct ptx_edit *edit,
                     int *failed);

#endif
