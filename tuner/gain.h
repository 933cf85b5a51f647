/* What more trials can be expected to gain. */
#ifndef TT_GAIN_H
#define TT_GAIN_H

#include "tuner/trials.h"

/* The expected decrease of the logarithm of the best time (a share of it,
 * where it is small) by `more` trials that are chosen as the last ones were.
 * Of trials none of which was right: the chance that one will be. */
double tt_expected_gain(const struct tt_trials *, int more);
/* The noise of measuring, a share of a time: half the median spread of the
 * best trials, at most 0.75 %. */
double tt_gain_noise(const struct tt_trials *);

#endif
