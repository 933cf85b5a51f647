/* What is common to all learned costs. */
#include "config.h"
#include "tuner/model.h"

bool
tt_cost_fit(struct tt_cost_model *model, int n, int width, const float *rows,
            const float *labels, const char **error)
{
  struct tt_fit fit = {.n = n, .width = width, .rows = rows, .labels = labels};

  return model->ops->fit(model, &fit, error);
}
