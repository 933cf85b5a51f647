/* The studies of "Learning to Optimize Tensor Programs" on stored
 * measurements: what the parts of bench/paper/study share. */
#ifndef STUDY_H
#define STUDY_H

#include <signal.h>

#include "tuner/trials.h"

/* ---- memo.c: every schedule is measured once --------------------------- */

struct memo_entry {
  uint64_t hash;
  struct tt_record record; /* owned by the memo's arena */
};

/* What was measured of one program, by any search.  A search that asks for a
 * schedule that is here gets what was measured then; any other is measured
 * and added to the store. */
struct memo {
  struct tt_arena *arena, *scratch;
  struct tt_workload workload;
  struct tt_history *store; /* NULL: nothing is measured */
  double deadline;          /* CLOCK_MONOTONIC; no batch is begun after it */
  volatile sig_atomic_t stopped; /* something was asked for that is not here,
                                    and may not be measured now */
  int n, cap;
  struct memo_entry *items;
  int measured;         /* anew, by this process */
  double build_seconds; /* of what was asked for, measured now or before */
};

void memo_init(struct memo *, const struct tt_workload *);
void memo_free(struct memo *);
/* Take in the records of a history's workload; false: *error. */
bool memo_load(struct memo *, struct tt_history *, const char **error);
const struct memo_entry *memo_find(const struct memo *, const char *text);
/* The tuning loop's measurements from the memo; one at a time is in use. */
const struct tt_measure_ops *memo_measure(struct memo *);

double study_now(void);

/* ---- table.c: searches among stored measurements ----------------------- */

/* A sample of the space, all of it measured, with the features of one
 * representation; the default schedule is not in it. */
struct sample {
  struct tt_trials trials;
  struct tt_space *space;
};

bool sample_open(struct sample *, struct tt_arena *, const struct tt_program *,
                 const struct tt_tune_options *, struct tt_history *,
                 const char **error);
void sample_close(struct sample *);

/* Called with each trial's result, in order. */
typedef void study_trial_fn(void *ctx, const struct tt_result *);

/* Draw the sample in an order of the seed's. */
void table_random(const struct sample *, const struct tt_tune_options *,
                  study_trial_fn *, void *ctx);
/* Algorithm 1 with the sample for the space: instead of annealing, the model
 * scores all that is left.  false: *error. */
bool table_search(const struct sample *, const struct tt_tune_options *,
                  study_trial_fn *, void *ctx, const char **error);

#endif
