/* Code generation: a loop nest becomes C source.
 *
 * tt_codegen_passes() in lower.c lists the passes top to bottom: vectorize,
 * unroll, simplify, promote registers, group products, name repeated loads,
 * verify; then plan.c lays out workspace and stack, and cprint.c prints.
 */
#ifndef TT_CODEGEN_H
#define TT_CODEGEN_H

#include "ir/ir.h"

enum tt_workspace { TT_WS_STATIC, TT_WS_STACK, TT_WS_ARG };

struct tt_codegen_options {
  int vector_bytes; /* 16, 32, 64; 0: --vector=none, plain loops */
  bool c99;         /* --std=c99: no GNU extension at all */
  enum tt_workspace workspace;
  /* Also print `void NAME_entry(void **args, int what)` for a runner: what 0
   * calls NAME_prepare (nothing without weights), 1 calls NAME, with args[] =
   * inputs, weights, outputs (each in order of declaration), prepared,
   * workspace; the sizes of the last two are in tt_code_sizes.  Static names
   * then carry NAME, so that a file can hold several kernels. */
  bool entry;
  bool naive; /* the loops as they stand, as a person would write them:
                 what others are measured against */
  /* For a GPU's languages: vectors have at most 16 lanes, all of them used,
   * and no 16-bit floats; with `moves` they only carry what 16-byte loads and
   * stores move, arithmetic is scalar. */
  bool gpu, moves;
  int64_t shared_bytes; /* of memory that a block may share, at most */
  bool verify_each;     /* check after every pass, not at the end alone */
  const char *name;     /* function name; NULL: the program's */
};

/* The sizes that are known once the nest is planned. */
struct tt_code_sizes {
  int64_t workspace_bytes, stack_bytes, prepared_bytes;
};

/* The C file.  `out` is appended to.  NULL, or why it cannot be printed (a
 * verifier message: a bug; or a size over a limit). */
const char *tt_codegen_c(struct tt_arena *, const struct tt_nest *,
                         const struct tt_codegen_options *,
                         struct tt_code_sizes *, struct tt_sb *out);
/* The nest after the passes: for tests and --dump=loops. */
struct tt_nest tt_codegen_passes(struct tt_arena *, const struct tt_nest *,
                                 const struct tt_codegen_options *,
                                 const char **error);
/* --header: prototypes and NAME_WORKSPACE_BYTES. */
void tt_codegen_header(const struct tt_program *,
                       const struct tt_codegen_options *,
                       const struct tt_code_sizes *, struct tt_sb *out);
/* --emit-test, --emit-bench: complete C99 programs that link with the
 * kernel; the test compares with plain loops printed into the test itself. */
const char *tt_codegen_test(struct tt_arena *, const struct tt_program *,
                            const struct tt_nest *plain,
                            const struct tt_codegen_options *,
                            const struct tt_code_sizes *, struct tt_sb *out);
const char *tt_codegen_bench(struct tt_arena *, const struct tt_program *,
                             const struct tt_nest *plain,
                             const struct tt_codegen_options *,
                             const struct tt_code_sizes *, struct tt_sb *out);

/* ---- GPUs ---- */

/* TT_GPU_C: what CUDA C gets as C with blocks and threads as loops, with the
 * entry of a runner (see tt_codegen_options.entry): what tests run;
 * TT_GPU_C_WIDE: the same of OpenCL C, with its vectors. */
enum tt_gpu_language { TT_CUDA, TT_OPENCL, TT_GPU_C, TT_GPU_C_WIDE };
enum tt_gpu_what { TT_GPU_TENSOR, TT_GPU_PREPARED, TT_GPU_WORKSPACE };
struct tt_gpu_arg {
  const struct tt_tensor *tensor; /* TT_GPU_TENSOR */
  enum tt_gpu_what what;
};
struct tt_gpu_launch {
  const char *name;
  bool prepare; /* a part of NAME_prepare */
  int64_t grid[3], block[3];
  int64_t shared; /* bytes to be asked for, of CUDA's dynamic memory */
  int nargs;
  const struct tt_gpu_arg *args;
};
struct tt_gpu_code {
  int n;
  const struct tt_gpu_launch *launches; /* in the order in which they run,
                                           those of NAME_prepare first */
  int64_t workspace_bytes, prepared_bytes;
};

/* Kernels and, for CUDA, `cudaError_t NAME_launch(..., cudaStream_t)`.  `name`
 * NULL: the program's.  NULL, or why it cannot be printed (a limit of GPUs that
 * is exceeded). */
const char *tt_codegen_gpu(struct tt_arena *, const struct tt_nest *,
                           enum tt_gpu_language, const char *name,
                           struct tt_gpu_code *, struct tt_sb *out);
/* The kernels' loop nests after the passes, for --dump=loops. */
const char *tt_codegen_gpu_loops(struct tt_arena *, const struct tt_nest *,
                                 enum tt_gpu_language, struct tt_sb *out);
/* --header, for TT_CUDA and TT_OPENCL: sizes and order of arguments; for
 * OpenCL, with NAME_WITH_LAUNCH defined, functions that launch. */
void tt_codegen_gpu_header(struct tt_arena *, const struct tt_program *,
                           enum tt_gpu_language, const struct tt_gpu_code *,
                           struct tt_sb *out);
/* --emit-test and (`bench`) --emit-bench: C99 programs of a host, which link
 * with the kernels in CUDA C, or read those in OpenCL C from `file`. */
const char *tt_codegen_gpu_program(struct tt_arena *, const struct tt_program *,
                                   const struct tt_nest *plain,
                                   enum tt_gpu_language,
                                   const struct tt_gpu_code *, const char *file,
                                   bool bench, struct tt_sb *out);
/* What a runner calls, behind kernels in CUDA C named `name`: `symbol` and
 * `symbol`_clock (see runtime/runner.h), on that device. */
void tt_codegen_cuda_entry(struct tt_arena *, const struct tt_program *,
                           const struct tt_gpu_code *, const char *name,
                           int device, const char *symbol, struct tt_sb *out);

#endif
