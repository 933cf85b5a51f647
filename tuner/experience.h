/* What was learned of other programs (section 4): the records of a history,
 * made into rows for a model that serves any program. */
#ifndef TT_EXPERIENCE_H
#define TT_EXPERIENCE_H

#include "frontend/frontend.h"
#include "tuner/features.h"
#include "tuner/history.h"
#include "tuner/model.h"

/* Fewer rows than this teach too little (AutoTVM's figure); more than
 * TT_EXPERIENCE_MOST cost more time than they are worth. */
enum { TT_EXPERIENCE_LEAST = 500, TT_EXPERIENCE_MOST = 5000 };

struct tt_experience_query {
  /* Records of the target, the compiler and the options, whatever choices were
   * open; those of this very workload are left out. */
  const struct tt_workload *workload;
  bool any_target;                /* whatever the target, compiler, options */
  enum tt_features_kind features; /* not TT_FEATURES_CONFIG */
  const struct tt_target_model *target;
  bool strict_fp;
  int most; /* rows; workloads share them evenly, newest records first */
};

struct tt_experience {
  struct tt_fit fit; /* a group is what one version of the tool measured of a
                        workload; base is NULL */
  struct tt_arena *arena;
  const char *const *programs; /* of each group: the hash */
  int nprograms;               /* different ones */
  int unread; /* records that mean no schedule of their program now, and
                 programs whose source is gone or means another one */
};

/* Failures have label 0.  A record that no longer applies is skipped, and so
 * are workloads none of whose records was right.  false: *error; then and
 * without records there are no rows.  *out is freed in either case. */
bool tt_experience_load(struct tt_history *, const struct tt_experience_query *,
                        struct tt_experience *out, const char **error);
void tt_experience_free(struct tt_experience *);

/* The program that a source of the history means, as the tuner has it; NULL
 * when that is not the one with this hash. */
struct tt_program *tt_program_of_source(struct tt_arena *, const char *source,
                                        enum tt_built_in, bool strict_fp,
                                        const char *hash);

#endif
