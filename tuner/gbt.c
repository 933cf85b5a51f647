/* Gradient boosted trees by XGBoost's C API (section 3.2).  With the pairwise
 * rank objective only the order of the scores means anything.
 *
 * Invariant: `booster` is NULL until a fit had at least two different labels;
 * without it every score is 0.  Every call is a fresh fit: trees are cheap
 * and the labels change with the best time.
 */
#include "config.h"
#include "tuner/model.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xgboost/c_api.h>

#include "ir/arena.h"

/* What a fit on a few hundred rows can use; more rounds cost time and gained
 * nothing in the order of held-out schedules. */
enum { ROUNDS = 60 };

struct gbt {
  struct tt_cost_model base;
  BoosterHandle booster;
  int width; /* of the rows it was fitted to */
  enum tt_objective objective;
  int threads;
  unsigned seed;
  char error[256];
};

/* XGBoost's last error without its time stamp and stack trace. */
static const char *
last_error(struct gbt *g)
{
  const char *s = XGBGetLastError(), *p;
  size_t n;

  if (s == NULL)
    s = "";
  if (*s == '[' && (p = strstr(s, ": ")) != NULL)
    s = p + 2;
  n = strcspn(s, "\n");
  snprintf(g->error, sizeof g->error, "XGBoost: %.*s", (int)(n < 200 ? n : 200),
           n ? s : "unknown error");
  return g->error;
}

static bool
set_params(struct gbt *g, BoosterHandle b)
{
  static const char *const fixed[][2] = {
      {"verbosity", "0"},      {"booster", "gbtree"}, {"max_depth", "3"},
      {"eta", "0.3"},          {"gamma", "0.0001"},   {"min_child_weight", "1"},
      {"tree_method", "hist"}, {"max_bin", "64"}};
  char text[32];

  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    if (XGBoosterSetParam(b, fixed[i][0], fixed[i][1]) != 0)
      return false;
  if (XGBoosterSetParam(b, "objective",
                        g->objective == TT_RANK ? "rank:pairwise"
                                                : "reg:squarederror") != 0)
    return false;
  snprintf(text, sizeof text, "%d", g->threads > 0 ? g->threads : 1);
  if (XGBoosterSetParam(b, "nthread", text) != 0)
    return false;
  snprintf(text, sizeof text, "%u", g->seed & 0x7fffffffu);
  return XGBoosterSetParam(b, "seed", text) == 0;
}

/* A copy of the rows that XGBoost accepts: NaN means missing, infinities are
 * refused by it and become the largest float.  The caller frees it. */
static float *
clean_rows(int n, int width, const float *rows)
{
  size_t total = (size_t)n * (size_t)width;
  float *copy = tt_xmalloc(total * sizeof *copy);

  for (size_t i = 0; i < total; i++)
    copy[i] = isinf(rows[i]) ? copysignf(1e30f, rows[i]) : rows[i];
  return copy;
}

/* Labels without NaN.  The caller frees them; *constant: no two differ. */
static float *
clean_labels(int n, const float *labels, bool *constant)
{
  float *copy = tt_xmalloc((size_t)n * sizeof *copy);

  *constant = true;
  for (int i = 0; i < n; i++) {
    copy[i] = isfinite(labels[i]) ? labels[i] : 0;
    if (copy[i] != copy[0])
      *constant = false;
  }
  return copy;
}

static bool
train(struct gbt *g, DMatrixHandle m, int n, const float *labels)
{
  unsigned group = (unsigned)n;
  BoosterHandle b = NULL;

  if (XGDMatrixSetFloatInfo(m, "label", labels, (bst_ulong)n) != 0 ||
      (g->objective == TT_RANK &&
       XGDMatrixSetUIntInfo(m, "group", &group, 1) != 0) ||
      XGBoosterCreate(&m, 1, &b) != 0)
    return false;
  if (!set_params(g, b))
    goto fail;
  for (int i = 0; i < ROUNDS; i++)
    if (XGBoosterUpdateOneIter(b, i, m) != 0)
      goto fail;
  g->booster = b;
  return true;
fail:
  XGBoosterFree(b);
  return false;
}

static bool
gbt_fit(struct tt_cost_model *model, int n, int width, const float *rows,
        const float *labels, const char **error)
{
  struct gbt *g = (struct gbt *)model;
  DMatrixHandle m = NULL;
  bool constant = true, ok = true;
  float *x, *y;

  if (g->booster != NULL)
    XGBoosterFree(g->booster);
  g->booster = NULL;
  if (n < 2 || width < 1)
    return true;
  y = clean_labels(n, labels, &constant);
  g->width = width;
  if (!constant) {
    x = clean_rows(n, width, rows);
    ok = XGDMatrixCreateFromMat(x, (bst_ulong)n, (bst_ulong)width, NAN, &m) ==
             0 &&
         train(g, m, n, y);
    if (!ok)
      *error = last_error(g);
    if (m != NULL)
      XGDMatrixFree(m);
    free(x);
  }
  free(y);
  return ok;
}

static bool
gbt_predict(struct tt_cost_model *model, int n, int width, const float *rows,
            float *scores, const char **error)
{
  static const char config[] =
      "{\"type\":1,\"training\":false,\"iteration_begin\":0,"
      "\"iteration_end\":0,\"strict_shape\":false,\"missing\":NaN,"
      "\"cache_id\":0}";
  struct gbt *g = (struct gbt *)model;
  const bst_ulong *shape;
  const float *out;
  bst_ulong dim;
  char array[160];

  if (n < 1)
    return true;
  if (g->booster == NULL) {
    memset(scores, 0, (size_t)n * sizeof *scores);
    return true;
  }
  if (width != g->width) {
    snprintf(g->error, sizeof g->error, "fitted to %d features, not to %d",
             g->width, width);
    *error = g->error;
    return false;
  }
  snprintf(array, sizeof array,
           "{\"data\":[%llu,true],\"shape\":[%d,%d],\"typestr\":\"<f4\","
           "\"version\":3}",
           (unsigned long long)(uintptr_t)rows, n, width);
  if (XGBoosterPredictFromDense(g->booster, array, config, NULL, &shape, &dim,
                                &out) != 0) {
    *error = last_error(g);
    return false;
  }
  memcpy(scores, out, (size_t)n * sizeof *scores);
  return true;
}

static void
gbt_free(struct tt_cost_model *model)
{
  struct gbt *g = (struct gbt *)model;

  if (g->booster != NULL)
    XGBoosterFree(g->booster);
  free(g);
}

struct tt_cost_model *
tt_gbt_new(enum tt_objective objective, int threads, unsigned seed,
           const char **error)
{
  static const struct tt_cost_ops ops = {"gbt", gbt_fit, gbt_predict, gbt_free};
  struct gbt *g = tt_xmalloc(sizeof *g);

  (void)error;
  memset(g, 0, sizeof *g);
  g->base.ops = &ops;
  g->objective = objective;
  g->threads = threads;
  g->seed = seed;
  return &g->base;
}
