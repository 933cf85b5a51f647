/* The program that tests of the tuner schedule: a product of matrices. */
#ifndef TT_TESTS_PRODUCT_H
#define TT_TESTS_PRODUCT_H

#include "tuner/features.h"

extern const struct tt_target_model product_target;

/* The tensors A, B, C and the indices y, x, k. */
extern const char *const product_names[6];

/* C[y,x] = sum[k](A[k,y] * B[k,x]), all of them n long, in the arena. */
struct tt_program *product(struct tt_arena *, int64_t n,
                           const char *const names[6]);

/* The features for product_target, in the arena, TT_FEATURES_RELATION or
 * others; the test fails unless all of them are finite. */
float *features_of(struct tt_arena *, const struct tt_schedule *);
float *features_of_kind(struct tt_arena *, const struct tt_schedule *,
                        enum tt_features_kind);

#endif
