/* Several models of one kind, each fitted to a sample of the data drawn with
 * replacement; where they disagree, little is known (section 3.3).
 *
 * Invariant: scores of a member are taken relative to those it gives to the
 * rows of the fit, for only differences mean anything with the rank
 * objective; a row's score is finite.
 */
#include "config.h"
#include "tuner/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "tuner/random.h"

struct member {
  struct tt_cost_model *model;
  double mean, deviation; /* of its scores of the rows of the fit */
};

struct ensemble {
  struct tt_cost_model base;
  enum tt_acquisition acquisition;
  uint64_t random;
  int n;
  struct member members[TT_MOST_MEMBERS];
  double best; /* highest mean of a row of the fit */
};

/* As many rows, drawn from the group that begins at `from`. */
static void
draw_rows(struct ensemble *e, const struct tt_fit *f, int from, int n, float *x,
          float *y, float *base)
{
  size_t width = (size_t)f->width;

  for (int i = from; i < from + n; i++) {
    int k = from + tt_draw_below(&e->random, n);
    memcpy(x + (size_t)i * width, f->rows + (size_t)k * width,
           width * sizeof *x);
    y[i] = f->labels[k];
    if (f->base != NULL)
      base[i] = f->base[k];
  }
}

static bool
fit_member(struct ensemble *e, struct member *m, const struct tt_fit *f,
           const char **error)
{
  size_t n = (size_t)f->n;
  float *x = tt_xmalloc((n * (size_t)f->width + 1) * sizeof *x);
  float *y = tt_xmalloc((2 * n + 1) * sizeof *y), *base = y + n;
  struct tt_fit drawn = *f;
  int from = 0;
  bool ok;

  if (f->ngroups == 0)
    draw_rows(e, f, 0, f->n, x, y, base);
  for (int g = 0; g < f->ngroups; from += f->groups[g++])
    draw_rows(e, f, from, f->groups[g], x, y, base);
  drawn.rows = x;
  drawn.labels = y;
  drawn.base = f->base != NULL ? base : NULL;
  ok = m->model->ops->fit(m->model, &drawn, error);
  free(x);
  free(y);
  return ok;
}

/* Mean and deviation of what a member says of n rows, *scores. */
static void
measure(struct member *m, int n, const float *scores)
{
  double sum = 0, squares = 0;

  for (int i = 0; i < n; i++)
    sum += (double)scores[i];
  m->mean = sum / n;
  for (int i = 0; i < n; i++) {
    double d = (double)scores[i] - m->mean;
    squares += d * d;
  }
  m->deviation = sqrt(squares / n);
  if (!(m->deviation > 0) || !isfinite(m->deviation))
    m->deviation = 1;
  if (!isfinite(m->mean))
    m->mean = 0;
}

static bool
ensemble_fit(struct tt_cost_model *model, const struct tt_fit *f,
             const char **error)
{
  struct ensemble *e = (struct ensemble *)model;
  int n = f->n;
  float *scores = tt_xmalloc(((size_t)n + 1) * sizeof *scores);
  double *sums = tt_xmalloc(((size_t)n + 1) * sizeof *sums);
  bool ok = true;

  memset(sums, 0, ((size_t)n + 1) * sizeof *sums);
  for (int k = 0; k < e->n && ok; k++) {
    struct member *m = &e->members[k];
    ok = fit_member(e, m, f, error) &&
         m->model->ops->predict(m->model, n, f->width, f->rows, scores, error);
    if (!ok || n == 0)
      continue;
    measure(m, n, scores);
    for (int i = 0; i < n; i++)
      sums[i] += ((double)scores[i] - m->mean) / m->deviation / e->n;
  }
  e->best = n > 0 ? sums[0] : 0;
  for (int i = 1; i < n; i++)
    e->best = fmax(e->best, sums[i]);
  free(scores);
  free(sums);
  return ok;
}

/* log(d * (z * Phi(z) + phi(z))), z = gain / d: the logarithm, as far below
 * the best all values would be 0 otherwise. */
static double
log_improvement(double gain, double d)
{
  static const double half_log_tau = 0.918938533204672742;
  double z;

  d = fmax(d, 1e-6);
  z = gain / d;
  if (z < -1e6)
    z = -1e6;
  if (z < -8) /* asymptotically phi(z) / z^2 */
    return log(d) - 0.5 * z * z - half_log_tau - 2 * log(-z);
  return log(d) +
         log(z * 0.5 * erfc(-z * M_SQRT1_2) + exp(-0.5 * z * z - half_log_tau));
}

static double
acquire(const struct ensemble *e, double mean, double deviation)
{
  switch (e->acquisition) {
  case TT_MEAN:
    return mean;
  case TT_EXPECTED_IMPROVEMENT:
    return log_improvement(mean - e->best, deviation);
  case TT_UPPER_BOUND:
    return mean + deviation;
  }
  return mean;
}

static bool
ensemble_predict(struct tt_cost_model *model, int n, int width,
                 const float *rows, float *scores, const char **error)
{
  struct ensemble *e = (struct ensemble *)model;
  double *sum = tt_xmalloc(((size_t)n + 1) * sizeof *sum);
  double *squares = tt_xmalloc(((size_t)n + 1) * sizeof *squares);
  bool ok = true;

  memset(sum, 0, ((size_t)n + 1) * sizeof *sum);
  memset(squares, 0, ((size_t)n + 1) * sizeof *squares);
  for (int k = 0; k < e->n && ok; k++) {
    const struct member *m = &e->members[k];
    ok = m->model->ops->predict(m->model, n, width, rows, scores, error);
    for (int i = 0; i < n && ok; i++) {
      double s = ((double)scores[i] - m->mean) / m->deviation;
      sum[i] += s;
      squares[i] += s * s;
    }
  }
  for (int i = 0; i < n && ok; i++) {
    double mean = sum[i] / e->n, v = squares[i] / e->n - mean * mean;
    scores[i] = (float)acquire(e, mean, sqrt(fmax(v, 0)));
  }
  free(sum);
  free(squares);
  return ok;
}

static void
ensemble_free(struct tt_cost_model *model)
{
  struct ensemble *e = (struct ensemble *)model;

  for (int k = 0; k < e->n; k++)
    e->members[k].model->ops->free(e->members[k].model);
  free(e);
}

struct tt_cost_model *
tt_ensemble_new(enum tt_acquisition acquisition, int n,
                struct tt_cost_model *const *members, uint64_t seed)
{
  static const struct tt_cost_ops ops = {"ensemble", ensemble_fit,
                                         ensemble_predict, ensemble_free};
  struct ensemble *e = tt_xmalloc(sizeof *e);

  memset(e, 0, sizeof *e);
  e->base.ops = &ops;
  e->acquisition = acquisition;
  e->random = seed ^ 0x656e73656d626c65u;
  e->n = n;
  for (int k = 0; k < n; k++)
    e->members[k] = (struct member){members[k], 0, 1};
  return &e->base;
}
