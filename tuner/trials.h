/* The data D of one run: what was measured, now or in an earlier run, with
 * the features of each schedule. */
#ifndef TT_TRIALS_H
#define TT_TRIALS_H

#include "tuner/features.h"
#include "tuner/model.h"
#include "tuner/tune.h"

struct tt_trial {
  const char *text;  /* the schedule */
  uint64_t hash;     /* of the text */
  const int *config; /* NULL: not a configuration of this space */
  const float *row;  /* features */
  struct tt_result result;
};

struct tt_trials {
  struct tt_arena *arena; /* owns what the trials point to */
  const struct tt_program *program;
  const struct tt_space *space;
  const struct tt_space_ops *ops;
  const struct tt_target_model *target;
  enum tt_features_kind features;
  int width; /* of a row */
  bool strict_fp;
  int n, cap;
  struct tt_trial *items;
  struct tt_arena *scratch; /* schedules looked at for a moment */
};

void tt_trials_init(struct tt_trials *, const struct tt_program *,
                    const struct tt_space *, const struct tt_space_ops *,
                    const struct tt_tune_options *);
void tt_trials_free(struct tt_trials *);
/* Text of a schedule, owned by the arena. */
const char *tt_schedule_text(struct tt_arena *, const struct tt_schedule *);
uint64_t tt_text_hash(const char *text);
/* Add a measured schedule; what is given is copied. */
void tt_trials_add(struct tt_trials *, const struct tt_schedule *,
                   const char *text, const int *config,
                   const struct tt_result *);
/* The trial with that text, or NULL. */
const struct tt_trial *tt_trials_find(const struct tt_trials *,
                                      const char *text);
/* Add the records that still mean a schedule of this program; returns how
 * many there were. */
int tt_trials_resume(struct tt_trials *, int n, const struct tt_record *);
/* The trials that were right, fastest first: up to `max` positions. */
int tt_trials_best(const struct tt_trials *, int max, int *out);
/* Fit the model to the trials. */
bool tt_trials_fit(const struct tt_trials *, struct tt_cost_model *,
                   const char **error);
/* The schedule of a trial, built anew in the arena; NULL if that fails. */
struct tt_schedule *tt_trial_schedule(const struct tt_trials *,
                                      struct tt_arena *,
                                      const struct tt_trial *);
/* The schedule that a text means for a program; NULL if it does not apply. */
struct tt_schedule *tt_schedule_of_text(struct tt_arena *,
                                        const struct tt_program *,
                                        bool strict_fp, const char *text);
/* Do two texts differ in the names of stages and loops only? */
bool tt_same_but_names(const char *a, const char *b);

#endif
