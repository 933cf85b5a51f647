/* The tuning loop (Algorithm 1): search, measure, learn, until the budget is
 * spent or nothing is to be gained; the answer is the best in history, timed
 * again against the others.
 */
#ifndef TT_TUNE_H
#define TT_TUNE_H

#include <signal.h>

#include "tuner/features.h"
#include "tuner/history.h"
#include "tuner/model.h"
#include "tuner/search.h"

enum tt_search { TT_SEARCH_ANNEAL, TT_SEARCH_GENETIC, TT_SEARCH_RANDOM };
enum tt_model { TT_MODEL_GBT, TT_MODEL_TREEGRU, TT_MODEL_NONE };

struct tt_progress { /* passed to the callback after each trial */
  int program;       /* which of several, from 0 */
  int trials;        /* of the program */
  int all_trials;    /* of all programs */
  int max_trials;    /* of all */
  double elapsed;    /* since the call; in the result: spent on the program */
  double max_seconds;
  double best, plain; /* seconds a call; best 0: none yet */
  double flops;       /* of a call */
  int outcomes[TT_NOUTCOMES];
  const char *phase;   /* "building", "measuring", "learning", "finalists" */
  const char *stopped; /* before the budget was spent: "gain", "exhausted";
                          NULL: not so */
};
typedef void tt_progress_fn(void *ctx, const struct tt_progress *);

/* What the loop calls to measure and for its space; the signatures are those
 * of measure.h and schedule.h.  Tests put others in their place. */
struct tt_measure_ops {
  struct tt_measurer *(*open)(const struct tt_program *,
                              const struct tt_measure_options *,
                              struct tt_result *plain, const char **error);
  void (*close)(struct tt_measurer *);
  bool (*measure)(struct tt_measurer *, const struct tt_stream *,
                  const char **error);
  void (*pump)(struct tt_measurer *);
  bool (*finalists)(struct tt_measurer *, int n,
                    struct tt_schedule *const *schedules,
                    struct tt_result *results, const char **error);
};
struct tt_space_ops {
  struct tt_space *(*open)(struct tt_arena *, const struct tt_program *,
                           const struct tt_target_model *, bool strict_fp);
  struct tt_schedule *(*schedule)(struct tt_arena *, const struct tt_space *,
                                  const int *config);
  void (*initial)(const struct tt_space *, int *config);
};
extern const struct tt_measure_ops tt_real_measure;
extern const struct tt_space_ops tt_derived_space;

/* The search is a function of the seed, of the history's records and of the
 * times measured.  Budgets: the loop ends when the first of them is spent.
 * Records of an earlier run that did not finish count as trials; with
 * `retune` they are only learned from.  The time includes the building of the
 * plain loops and the finalists' turns, and is kept to about a second. */
struct tt_tune_options {
  int trials;      /* budget; < 0: unlimited; 0: the default schedule,
                      nothing is measured and history is not asked */
  double seconds;  /* budget; <= 0: unlimited */
  double min_gain; /* stop when the trials that are left (without a budget: as
                      many again) are expected to gain less than this share,
                      or less than the noise; <= 0: go on until the budget is
                      spent */
  uint64_t seed;
  enum tt_search search;
  enum tt_model model;
  enum tt_objective objective;
  enum tt_features_kind features;  /* of boosted trees */
  enum tt_acquisition acquisition; /* of one model, or of five */
  struct tt_search_params params;  /* chains 0: tt_search_defaults */
  struct tt_target_model target;
  bool strict_fp;
  bool retune;       /* do not reuse a finished record (which is reused
                        whatever its budget was) but search on from it */
  bool blind;        /* the first batch is drawn: none of it around the default
                        schedule */
  bool no_transfer;  /* learn nothing from other programs of the history */
  bool transfer_any; /* nor only from those of this target and compiler */
  struct tt_measure_options measure;
  struct tt_history *history; /* NULL: none */
  struct tt_workload workload;
  tt_progress_fn *progress; /* NULL: none */
  void *progress_ctx;
  const volatile sig_atomic_t *interrupted; /* set by SIGINT: stop, keep best;
                                               NULL: never */
  const struct tt_measure_ops *measure_ops; /* NULL: tt_real_measure */
  const struct tt_space_ops *space_ops;     /* NULL: tt_derived_space */
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
                                   default schedule; NULL: TT_NO_CANDIDATE, or
                                   TT_TOOLCHAIN before anything was measured */
  double seconds, plain_seconds, max_error;
  bool checked; /* its result was compared with the reference */
  /* Of a search that was stopped because little was to be gained
   * (final.stopped is "gain"), shares of its time: */
  double expected_gain, noise;
  int ahead; /* the trials that were expected to gain that */
  struct tt_progress final;
  int learned_records, learned_programs; /* of other programs; 0: nothing was
                                            transferred */
  bool pretrained;     /* the model that ships took the place of them */
  const char *error;   /* owned by the arena; NULL: nothing to say */
  const char *warning; /* history could not be written, ...; or NULL */
};

/* models.c: the representation that the options' model has, and a new model,
 * beside a global one if there is one; NULL: none is wanted, or it cannot be
 * had (*error). */
enum tt_features_kind tt_tune_features(const struct tt_tune_options *);
struct tt_cost_model *tt_tune_model(const struct tt_tune_options *,
                                    struct tt_cost_model *global,
                                    const char **error);
/* A model of the records of other programs, or, where they are too few, the one
 * that ships; NULL: transfer is not wanted or not possible.  *error may be set
 * in either case.  What it was fitted to
 * is said in *out. */
struct tt_cost_model *tt_tune_global(const struct tt_tune_options *,
                                     struct tt_tuned *out, const char **error);

struct tt_tuned tt_tune(struct tt_arena *, const struct tt_program *,
                        const struct tt_tune_options *);
/* Tunes n programs, options[i] and out[i] for programs[i].  The budgets are
 * those of options[0] and are shared: each program has its default schedule
 * and a first batch, and then the next batch goes to the one that is expected
 * to gain most, as a share of its time, by a second of it (by a trial, where
 * the budget is not one of time).  What befalls one program does not touch the
 * others. */
void tt_tune_several(struct tt_arena *, int n,
                     const struct tt_program *const *programs,
                     const struct tt_tune_options *options,
                     struct tt_tuned *out);

#endif
