/* The learned cost: one small interface for every model. */
#ifndef TT_MODEL_H
#define TT_MODEL_H

#include <stdbool.h>

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

/* Gradient boosted trees by XGBoost, objective pairwise rank. */
struct tt_cost_model *tt_gbt_new(int threads, unsigned seed,
                                 const char **error);

#endif
