/* Features of a schedule (section 3.1 and the supplement: loop context and
 * context relations), from the schedule's data, without lowering. */
#ifndef TT_FEATURES_H
#define TT_FEATURES_H

#include "schedule/schedule.h"

/* Changes whenever width or meaning does: stored with models. */
#define TT_FEATURES_VERSION 1

int tt_features_width(void);
/* Fill `row` (width floats). */
void tt_features(const struct tt_schedule *, const struct tt_target_model *,
                 float *row);
/* Copies of statements that the code will have: unrolled, in vectors, and in
 * the nests of remainders.  The time of a build grows with them. */
double tt_code_copies(const struct tt_schedule *);

#endif
