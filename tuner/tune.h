/* The tuning loop (Algorithm 1): search, measure, learn, until the budget is
 * spent; the answer is the best in history, timed again against the others.
 */
#ifndef TT_TUNE_H
#define TT_TUNE_H

#include <signal.h>

#include "tuner/history.h"

enum tt_search { TT_SEARCH_ANNEAL, TT_SEARCH_RANDOM };
enum tt_model { TT_MODEL_GBT, TT_MODEL_NONE };

struct tt_progress { /* passed to the callback after each trial */
  int trials, max_trials;
  double elapsed, max_seconds;
  double best, plain;  /* seconds a call; best 0: none yet */
  double flops;        /* of a call */
  int outcomes[TT_NOUTCOMES];
  const char *phase;   /* "building", "measuring", "learning", "finalists" */
};
typedef void tt_progress_fn(void *ctx, const struct tt_progress *);

struct tt_tune_options {
  int trials;          /* budget; < 0: unlimited */
  double seconds;      /* budget; <= 0: unlimited */
  uint64_t seed;
  enum tt_search search;
  enum tt_model model;
  struct tt_target_model target;
  bool strict_fp;
  bool retune;         /* do not reuse a finished record */
  struct tt_measure_options measure;
  struct tt_history *history; /* NULL: none */
  struct tt_workload workload;
  tt_progress_fn *progress; /* NULL: none */
  void *progress_ctx;
  const volatile sig_atomic_t *interrupted; /* set by SIGINT: stop, keep best */
};

enum tt_tune_status {
  TT_TUNED,        /* the budget was spent */
  TT_REUSED,       /* from history, nothing measured */
  TT_INTERRUPTED,  /* best so far */
  TT_NO_CANDIDATE, /* exit 3 */
  TT_TOOLCHAIN     /* exit 4; error says why */
};

struct tt_tuned {
  enum tt_tune_status status;
  struct tt_schedule *schedule; /* the winner, in the arena; may be the
                                   default schedule */
  double seconds, plain_seconds, max_error;
  bool checked;
  struct tt_progress final;
  const char *error;   /* owned by the arena */
  const char *warning; /* history could not be written, ...; or NULL */
};

struct tt_tuned tt_tune(struct tt_arena *, const struct tt_program *,
                        const struct tt_tune_options *);

#endif
