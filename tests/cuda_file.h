/* Kernels in CUDA C, several to a file: nvcc takes a second for each file. */
#ifndef TT_TESTS_CUDA_FILE_H
#define TT_TESTS_CUDA_FILE_H

#include "codegen/codegen.h"

/* Zero-initialize; release with cuda_file_clear(), which empties it. */
struct cuda_file {
  struct tt_sb head, text;
  int n; /* nests in it */
};

/* Print the kernels of a nest, whose names begin with f0, f1, ...  NULL, or
 * why they cannot be printed: a limit of GPUs; the arena's. */
const char *cuda_file_add(struct tt_arena *, struct cuda_file *,
                          const struct tt_nest *, struct tt_gpu_code *);
/* Write the file; false: it cannot be. */
bool cuda_file_write(const struct cuda_file *, const char *path);
/* What `nvcc -ptx` makes of it, the arena's; NULL: *error has its words. */
const char *cuda_file_ptx(struct tt_arena *, const struct cuda_file *,
                          const char *arch, const char **error);
void cuda_file_clear(struct cuda_file *);

#endif
