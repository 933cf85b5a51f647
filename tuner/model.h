/* The learned cost: one small interface for every model. */
#ifndef TT_MODEL_H
#define TT_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What a model is fitted to: n rows of `width` floats, row-major, and for
 * each its label, the speed relative to the best of its workload (1: the
 * best, 0: a failure). */
struct tt_fit {
  int n, width;
  const float *rows, *labels;
  /* Rows of a workload follow one another: how many each of the ngroups
   * workloads has, n together.  0 groups: all rows are of one workload.  Rows
   * of different workloads are not ordered against each other. */
  int ngroups;
  const int *groups;
  /* NULL, or what another model says of each row: then the model learns what
   * is left, and only the sum of both is the score. */
  const float *base;
};

/* Scores are higher for faster schedules. */
struct tt_cost_model;
struct tt_cost_ops {
  const char *name;
  /* Forgets earlier fits, but for where it begins.  false: *error. */
  bool (*fit)(struct tt_cost_model *, const struct tt_fit *,
              const char **error);
  /* The scores of n rows; of a model that could not learn anything, 0. */
  bool (*predict)(struct tt_cost_model *, int n, int width, const float *rows,
                  float *scores, const char **error);
  void (*free)(struct tt_cost_model *);
};
struct tt_cost_model {
  const struct tt_cost_ops *ops;
};
/* Fit to the rows of one workload. */
bool tt_cost_fit(struct tt_cost_model *, int n, int width, const float *rows,
                 const float *labels, const char **error);

/* What a model is fitted to (section 3.2): the order of each pair, by
 * log(1 + exp(-sign(c_i - c_j) (f_i - f_j))), or the labels themselves, by
 * the square of the error. */
enum tt_objective { TT_RANK, TT_REGRESSION };

/* Gradient boosted trees by XGBoost; rows of any width. */
struct tt_cost_model *tt_gbt_new(enum tt_objective, int threads, unsigned seed,
                                 const char **error);
/* Number and depth of the trees of the next fits; without this they are what
 * a few hundred rows of one workload can use. */
void tt_gbt_size(struct tt_cost_model *gbt, int rounds, int depth);
/* The fitted trees as bytes (UBJSON, that of XGBoost), owned by the caller
 * (free()); of a model without trees *n is 0.  false: *error. */
bool tt_gbt_save(struct tt_cost_model *gbt, char **bytes, size_t *n,
                 const char **error);
/* A model with the trees of tt_gbt_save(), to be used as it is or fitted
 * anew.  NULL: *error, a constant. */
struct tt_cost_model *tt_gbt_load(const char *bytes, size_t n,
                                  enum tt_objective, int threads, unsigned seed,
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
 * fitted to as many rows, drawn with replacement from each workload. */
struct tt_cost_model *tt_ensemble_new(enum tt_acquisition, int n,
                                      struct tt_cost_model *const *members,
                                      uint64_t seed);

/* weight * global + local: the global model stays the caller's, is fitted
 * already and outlives this one, which takes the local one over.  Before the
 * first fit the weight is 1. */
struct tt_cost_model *tt_transfer_new(struct tt_cost_model *global,
                                      struct tt_cost_model *local);

#endif
