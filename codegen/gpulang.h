/* The languages that kernels are printed in; private to codegen/gpu*.c. */
#ifndef TT_CODEGEN_GPULANG_H
#define TT_CODEGEN_GPULANG_H

#include "codegen/cprint.h"
#include "codegen/gpu.h"

/* How a language says what the others say otherwise. */
struct language {
  struct dialect dialect;
  const char *index[2 * TT_GPU_DIMS]; /* of blocks and threads: x, y, z */
  const char *kernel;                 /* before its name; %lld: threads x, y, z
                                         or their product */
  bool product;
  const char *global, *shared; /* before a type, with a space */
  const char *shared_end;      /* after the declaration */
  bool assume;                 /* that parameters are aligned to 16 bytes */
  const char *local_fence, *global_fence;
  const char *head; /* of the file */
};

extern const struct language tt_cuda, tt_opencl, tt_plain;

/* Binds the words of these languages that C does not have: no name is one. */
void tt_gpu_reserve(struct names *);
/* Defines what OpenCL C has under other names and the text uses. */
void tt_opencl_words(const char *text, struct tt_sb *out);

#endif
