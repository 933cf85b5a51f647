/* What the parts of measuring share: measure_open.c makes a measurer and its
 * reference, measure.c measures with it. */
#ifndef TT_MEASURE_PARTS_H
#define TT_MEASURE_PARTS_H

#include "runtime/build.h"
#include "runtime/cpus.h"
#include "runtime/runner.h"
#include "tuner/measure.h"

#define BUILD_TIMEOUT 20.0 /* seconds for one candidate */
#define BUILD_CPU 5        /* seconds of CPU, until one was right */

/* The object of a candidate that was right, and the source that it is of. */
struct kept {
  char object[32];
  char *source;
  double seconds;
};

struct tt_measurer {
  struct tt_arena *arena;   /* messages */
  struct tt_arena *scratch; /* of the candidate being printed */
  const struct tt_program *program;
  struct tt_measure_options o;
  struct tt_builder *builder;
  struct tt_runner *runner;
  struct tt_claim claim;
  bool pinned;  /* one thread, on a CPU of its own */
  bool overlap; /* builds may run while something is timed */
  int nparams;
  const struct tt_tensor **params; /* inputs, weights, outputs */
  double flops, out_bytes, plain_seconds;
  struct batch *batch; /* that is being measured, or NULL */
  int nkept;
  struct kept kept[TT_MAX_FINALISTS];
  double fastest;     /* of the candidates that were right; 0: none yet */
  size_t most_source; /* bytes of a candidate; 0: any */
};

enum state { WAITING, BUILDING, BUILT, RUNNING, FINISHED };

struct candidate {
  enum state state;
  char object[32];
  char *source; /* of the object; to be freed */
  size_t length;
  double build_cpu; /* seconds; 0: it was not built now */
  int64_t prepared, workspace;
};

/* One call of tt_measure_stream(). */
struct batch {
  struct tt_measurer *m;
  int n;
  struct tt_schedule *const *schedules; /* NULL: the plain loops */
  struct tt_result *results;
  struct candidate *cands;
  tt_measured_fn *done;
  void *ctx;
  double best, timeout;
  enum tt_run_mode mode;
  bool build_only;
  bool timing; /* without overlap: the queue is being run, none is built */
  bool stop;
  int (*more)(void *ctx); /* NULL: there are no more */
  int most;               /* room in the arrays, where there are more */
  int last;               /* schedules that came together last */
  int finished;
  bool asking; /* for more */
  char *error; /* the toolchain's; to be freed */
};

/* Runs a batch to its end.  false: the toolchain failed, `error` of the batch
 * says how. */
bool tt_measure_batch(struct batch *);
/* What a build may take, times the measurer's patience. */
void tt_limit_builds(struct tt_measurer *, double seconds, double cpu);
/* Hands an error over to the program's arena; frees the text (NULL: there is
 * none); returns false. */
bool tt_measure_error(struct tt_measurer *, char *text, const char **error);

#endif
