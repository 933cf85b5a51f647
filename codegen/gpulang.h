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

struct gpu_printer {
  const struct language *language;
  const struct gpu_kernel *kernel;
  const char *index[2 * TT_GPU_DIMS]; /* names of variables */
  /* of plain C: counters of them, and which of a block's threads it is */
  const char *nth[2 * TT_GPU_DIMS], *thread;
  struct gpu_barriers barriers;
};

extern const struct language tt_cuda, tt_opencl, tt_plain;

/* Binds the words of these languages that C does not have: no name is one. */
void tt_gpu_reserve(struct names *);
/* Defines what OpenCL C has under other names and the text uses. */
void tt_opencl_words(const char *text, struct tt_sb *out);

/* ---- gpucopy.c ---- */

/* Waits for copies that must be there when threads have waited. */
void tt_gpu_wait_copies(struct cprinter *, const struct gpu_barrier *);
/* After a phase: its asynchronous copies are a group. */
void tt_gpu_end_copies(struct cprinter *, const struct tt_stmt *phase);
/* Declares what the threads of a block share. */
void tt_gpu_declare_shared(struct cprinter *, const struct language *,
                           const struct gpu_kernel *);
/* Bytes of it that a launch must ask for; 0: it is declared. */
int64_t tt_gpu_dynamic(const struct language *, const struct gpu_kernel *);

#endif
