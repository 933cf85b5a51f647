/* The learned cost that ships with the tool. */
#ifndef TT_PRETRAINED_H
#define TT_PRETRAINED_H

#include "tuner/features.h"
#include "tuner/model.h"

/* A new model, trained ahead on a spread of programs, to be used as it is:
 * it is never fitted.  Its scores order the schedules of one program; their
 * difference is the logarithm of the odds that one is faster.  NULL: there is
 * none for this representation, whose features are not those it was trained
 * on, or for this target: it was trained on kernels with vectors for one
 * core. */
struct tt_cost_model *tt_pretrained_new(enum tt_features_kind,
                                        const struct tt_target_model *);

#endif
