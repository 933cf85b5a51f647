/* Running emitted C in a test: nests are printed into one file, compiled
 * with $CC (cc when unset), every warning an error, and $TT_EXEC_FLAGS,
 * loaded, called, and compared with expected values.  Kernels for GPUs run
 * once for each of some orders of their blocks and threads.
 */
#ifndef TT_EXEC_C_H
#define TT_EXEC_C_H

#include "codegen/codegen.h"
#include "ir/passes.h"

/* One kernel to run.  `options.name` and `options.entry` are set here. */
struct exec_case {
  const struct tt_nest *nest;
  struct tt_codegen_options options;
  struct tt_values *in;   /* inputs and weights */
  struct tt_values *want; /* outputs; may be the same object */
  bool gpu;  /* its kernels for GPUs, with blocks and threads as loops */
  bool wide; /* those of OpenCL C, with vectors */
};

/* Compile and run all of them.  NULL, or the first thing that is wrong: what
 * cannot be printed or compiled, or which element differs; *failed (may be
 * NULL) is the case's number.  Integers must be equal; floats may differ by
 * `tolerance` relative to 1 + |value| (0: by a default for the type).  The
 * text is owned by the arena. */
const char *exec_c(struct tt_arena *, int n, const struct exec_case *cases,
                   double tolerance, int *failed);

/* The raw bytes of a tensor's values as C sees them, and back. */
void exec_pack(const struct tt_tensor *, struct tt_values *, void *bytes);
void exec_unpack(const struct tt_tensor *, const void *bytes,
                 struct tt_values *);

/* The outputs of a program.  NULL, or which element differs: an integer, or a
 * float by more than is usual for the types of the program, relative to the
 * largest. */
const char *exec_compare(struct tt_arena *, const struct tt_program *,
                         struct tt_values *want, struct tt_values *got);

/* What is in the file, the arena's; empty where it cannot be read. */
const char *exec_read_file(struct tt_arena *, const char *path);

/* Compile the text with $CC and the flags; NULL or the compiler's words. */
const char *exec_compile(struct tt_arena *, const char *cc, const char *flags,
                         const char *text);

#endif
