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
enum { ROUNDS = 60, DEPTH = 3 };

struct gbt {
  struct tt_cost_model base;
  BoosterHandle booster;
  int width; /* of the rows it was fitted to */
  enum tt_objective objective;
  int rounds, depth, threads;
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
      {"verbosity", "0"},  {"booster", "gbtree"},     {"eta", "0.3"},
      {"gamma", "0.0001"}, {"min_child_weight", "1"}, {"tree_method", "hist"},
      {"max_bin", "64"}};
  char text[32];

  for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
    if (XGBoosterSetParam(b, fixed[i][0], fixed[i][1]) != 0)
      return false;
  if (XGBoosterSetParam(b, "objective",
                        g->objective == TT_RANK ? "rank:pairwise"
                                                : "reg:squarederror") != 0)
    return false;
  snprintf(text, sizeof text, "%d", g->depth);
  if (XGBoosterSetParam(b, "max_depth", text) != 0)
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

/* Labels without NaN.  The caller frees them; *constant: no two of one
 * workload differ. */
static float *
clean_labels(const struct tt_fit *f, bool *constant)
{
  float *copy = tt_xmalloc((size_t)f->n * sizeof *copy);
  int group = 0, end = f->ngroups > 0 ? f->groups[0] : f->n;

  *constant = true;
  for (int i = 0; i < f->n; i++) {
    bool first = i == 0 || i == end;
    while (i == end && group + 1 < f->ngroups)
      end += f->groups[++group];
    copy[i] = isfinite(f->labels[i]) ? f->labels[i] : 0;
    if (!first && copy[i] != copy[i - 1])
      *constant = false;
  }
  return copy;
}

/* What XGBoost is told of the rows beside their features. */
static bool
set_info(const struct gbt *g, DMatrixHandle m, const struct tt_fit *f,
         const float *labels)
{
  unsigned all = (unsigned)f->n, *groups;
  bst_ulong n = (bst_ulong)f->n;
  bool ok;

  if (XGDMatrixSetFloatInfo(m, "label", labels, n) != 0 ||
      (f->base != NULL &&
       XGDMatrixSetFloatInfo(m, "base_margin", f->base, n) != 0))
    return false;
  if (g->objective != TT_RANK)
    return true;
  if (f->ngroups == 0)
    return XGDMatrixSetUIntInfo(m, "group", &all, 1) == 0;
  groups = tt_xmalloc((size_t)f->ngroups * sizeof *groups);
  for (int i = 0; i < f->ngroups; i++)
    groups[i] = (unsigned)f->groups[i];
  ok = XGDMatrixSetUIntInfo(m, "group", groups, (bst_ulong)f->ngroups) == 0;
  free(groups);
  return ok;
}

static bool
train(struct gbt *g, DMatrixHandle m, const struct tt_fit *f,
      const float *labels)
{
  BoosterHandle b = NULL;

  if (!set_info(g, m, f, labels) || XGBoosterCreate(&m, 1, &b) != 0)
    return false;
  /* Alone, the trees are what is added to the base. */
  if (!set_params(g, b) ||
      (f->base != NULL && XGBoosterSetParam(b, "base_score", "0") != 0))
    goto fail;
  for (int i = 0; i < g->rounds; i++)
    if (XGBoosterUpdateOneIter(b, i, m) != 0)
      goto fail;
  g->booster = b;
  return true;
fail:
  XGBoosterFree(b);
  return false;
}

static bool
gbt_fit(struct tt_cost_model *model, const struct tt_fit *f, const char **error)
{
  struct gbt *g = (struct gbt *)model;
  DMatrixHandle m = NULL;
  bool constant = true, ok = true;
  float *x, *y;

  if (g->booster != NULL)
    XGBoosterFree(g->booster);
  g->booster = NULL;
  if (f->n < 2 || f->width < 1)
    return true;
  y = clean_labels(f, &constant);
  g->width = f->width;
  if (!constant) {
    x = clean_rows(f->n, f->width, f->rows);
    ok = XGDMatrixCreateFromMat(x, (bst_ulong)f->n, (bst_ulong)f->width, NAN,
                                &m) == 0 &&
         train(g, m, f, y);
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
  g->rounds = ROUNDS;
  g->depth = DEPTH;
  g->threads = threads;
  g->seed = seed;
  return &g->base;
}

void
tt_gbt_size(struct tt_cost_model *model, int rounds, int depth)
{
  struct gbt *g = (struct gbt *)model;

  g->rounds = rounds;
  g->depth = depth;
}

/* ---- as bytes ---------------------------------------------------------- */

bool
tt_gbt_save(struct tt_cost_model *model, char **bytes, size_t *n,
            const char **error)
{
  struct gbt *g = (struct gbt *)model;
  const char *data = NULL;
  bst_ulong length = 0;

  *bytes = NULL;
  *n = 0;
  if (g->booster == NULL)
    return true;
  if (XGBoosterSaveModelToBuffer(g->booster, "{\"format\":\"ubj\"}", &length,
                                 &data) != 0) {
    *error = last_error(g);
    return false;
  }
  *bytes = tt_xmalloc(length + 1);
  memcpy(*bytes, data, length); /* XGBoost's until its next call */
  *n = length;
  return true;
}

static bool
load(struct gbt *g, const char *bytes, size_t n)
{
  bst_ulong width = 0;

  if (XGBoosterCreate(NULL, 0, &g->booster) != 0)
    return false;
  /* XGBoost tells its formats apart by the first byte. */
  if (n < 2 || bytes[0] != '{' ||
      XGBoosterLoadModelFromBuffer(g->booster, bytes, n) != 0 ||
      XGBoosterGetNumFeature(g->booster, &width) != 0 || width < 1 ||
      width > INT32_MAX)
    return false;
  g->width = (int)width;
  return set_params(g, g->booster);
}

struct tt_cost_model *
tt_gbt_load(const char *bytes, size_t n, enum tt_objective objective,
            int threads, unsigned seed, const char **error)
{
  struct tt_cost_model *model = tt_gbt_new(objective, threads, seed, error);

  if (load((struct gbt *)model, bytes, n))
    return model;
  gbt_free(model);
  *error = "not a model of boosted trees";
  return NULL;
}
