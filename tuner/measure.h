/* Measurement: candidates are printed, built in parallel, run in limited
 * children, checked against the reference and timed (runtime/runner.h).
 */
#ifndef TT_MEASURE_H
#define TT_MEASURE_H

#include <signal.h>

#include "codegen/codegen.h"
#include "runtime/cpus.h"
#include "schedule/schedule.h"

enum tt_outcome {
#define TT_OUTCOME(e, name, text) TT_OUT_##e,
#include "tuner/outcome.def"
#undef TT_OUTCOME
  TT_NOUTCOMES
};
/* outcome.c */
const char *tt_outcome_name(enum tt_outcome); /* "wrong" */
const char *tt_outcome_text(enum tt_outcome); /* "wrong result" */

/* What candidates run on. */
enum tt_measured_on { TT_ON_CPU, TT_ON_OPENCL, TT_ON_CUDA };

struct tt_measure_options {
  enum tt_measured_on on;
  int device;          /* its number, but for TT_ON_CPU */
  const char *nvcc;    /* TT_ON_CUDA: command that builds candidates, split */
  const char *nvflags; /* like a shell's words, and its flags */
  const char *cc;      /* compiler command, split like a shell's words */
  const char *cflags;  /* likewise */
  int jobs;            /* builds at once */
  int threads;         /* OMP_NUM_THREADS of the child; pinned when 1 */
  double timeout;      /* seconds a candidate may run in all */
  double patience;     /* this and limits of builds times so much; 0: 1 */
  uint64_t seed;       /* of the inputs */
  struct tt_codegen_options codegen;
  struct tt_claim *claim; /* NULL: the measurer claims a CPU for itself; else
                             that of all measurers of this process, which do
                             not measure at once: made by the first that needs
                             it (cpu < 0), released by the owner */
  const volatile sig_atomic_t *interrupted; /* set by SIGINT: abandon what is
                                               going on; NULL: never */
};

struct tt_result {
  enum tt_outcome outcome;
  double seconds;   /* a call: the minimum over repeats (0 on failure) */
  double spread;    /* (median - min) / min of the repeats */
  double max_error; /* largest error seen, as a share of the tolerance */
  double build_seconds, run_seconds;
  const char *message; /* first line of the compiler's or checker's words;
                          NULL or owned by the measurer's arena */
};

/* measure_device.c: a candidate for the device, with what the runner needs to
 * run it, and the sizes of its memory.  NULL, or why it is illegal, owned by
 * the arena. */
const char *tt_print_for_device(struct tt_arena *, const struct tt_nest *,
                                const struct tt_measure_options *,
                                int64_t *prepared, int64_t *workspace,
                                struct tt_sb *out);

struct tt_measurer;

/* Makes the private temporary directory, builds the plain loops with the same
 * flags as every candidate, runs and times them, checks them against the
 * interpreter at a sample of points (all points when the program is small,
 * fewer or none when a point costs too much) and keeps their outputs as the
 * reference; *plain gets the result.  How outputs are compared: see
 * tuner/tolerance.h.
 * NULL and *error when the toolchain does not work (exit 4); *error is NULL
 * when it was interrupted.  Errors are owned by the program's arena; the
 * program must outlive the measurer, the options need not. */
struct tt_measurer *tt_measurer_new(const struct tt_program *,
                                    const struct tt_measure_options *,
                                    struct tt_result *plain,
                                    const char **error);
/* Removes the directory and ends all children. */
void tt_measurer_free(struct tt_measurer *);
/* Measure `n` schedules; results[i] for schedules[i].  `best` (seconds, 0:
 * none) lets losers be given up early.  `done` is called after each one, in
 * order of completion, and may be NULL; when it returns false the rest of
 * the batch is abandoned (outcome TT_OUT_CANCELLED).  Returns false when the
 * toolchain itself has failed (*error). */
typedef bool tt_measured_fn(void *ctx, int i, const struct tt_result *);
bool tt_measure(struct tt_measurer *, int n,
                struct tt_schedule *const *schedules, double best,
                struct tt_result *results, tt_measured_fn *done, void *ctx,
                const char **error);
/* A batch that can grow while it is measured.  When three quarters of the
 * schedules that came last are done, `more` may put other schedules after them:
 * it returns how many (0: none, and it is not asked again).  What it does
 * should call tt_measure_pump() every few milliseconds.  It is not asked where
 * its work would disturb the timing. */
struct tt_stream {
  int n, most; /* schedules; room for schedules and results */
  struct tt_schedule *const *schedules;
  double best;
  struct tt_result *results;
  tt_measured_fn *done;
  int (*more)(void *ctx); /* NULL: the batch does not grow */
  void *ctx;              /* of both */
};
bool tt_measure_stream(struct tt_measurer *, const struct tt_stream *,
                       const char **error);
/* Goes on with the batch that is being measured, without waiting. */
void tt_measure_pump(struct tt_measurer *);

/* Time finalists (at most TT_MAX_FINALISTS, the rest are left alone) again in
 * turns (A B A B ...); seconds and spread of each are replaced.
 * schedules[0] is the incumbent.  One that fails now gets its outcome. */
#define TT_MAX_FINALISTS 16
bool tt_measure_finalists(struct tt_measurer *, int n,
                          struct tt_schedule *const *schedules,
                          struct tt_result *results, const char **error);

#endif
