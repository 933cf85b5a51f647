/* The learned cost: one small interface for every model. */
#ifndef TT_MODEL_H
#define TT_MODEL_H

#include <stdbool.h>
#include <stdint.h>

/* Scores are higher for faster schedules.  Rows are row-major floats. */
struct tt_cost_model;
struct tt_cost_ops {
  const char *name;
  /* Fit to n rows of `width` features; label: speed relative to the best
   * (1: the best, 0: a failure).  false: *error. */
  bool (*fit)(struct tt_cost_model *, int n, int width, const float *rows,
              const float *labels, const char **error);
  bool (*predict)(struct tt_cost_model *, int n, int width, const float *rows,
                  float *scores, const char **error);
  void (*free)(struct tt_cost_model *);
};
struct tt_cost_model {
  const struct tt_cost_ops *ops;
};

/* What a model is fitted to (section 3.2): the order of each pair, by
 * log(1 + exp(-sign(c_i - c_j) (f_i - f_j))), or the labels themselves, by
 * the square of the error. */
enum tt_objective { TT_RANK, TT_REGRESSION };

/* Gradient boosted trees by XGBoost; rows of any width. */
struct tt_cost_model *tt_gbt_new(enum tt_objective, int threads, unsigned seed,
                                 const char **error);
/* A TreeGRU; rows as TT_FEATURES_TREE has them. */
struct tt_cost_model *tt_treegru_new(enum tt_objective, unsigned seed,
                                     const char **error);

/* How the scores of several models become one: their mean, the mean and one
 * deviation, or the logarithm of the improvement that is to be expected over
 * the best row of the fit. */
enum tt_acquisition { TT_MEAN, TT_EXPECTED_IMPROVEMENT, TT_UPPER_BOUND };
enum { TT_MOST_MEMBERS = 16 };
/* A model of n <= TT_MOST_MEMBERS members, which it takes over; each is
 * fitted to as many rows, drawn with replacement. */
struct tt_cost_model *tt_ensemble_new(enum tt_acquisition, int n,
                                      struct tt_cost_model *const *members,
                                      uint64_t seed);

#endif
