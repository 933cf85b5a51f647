/* Training of a TreeGRU: Adam on small batches, with the objectives of
 * section 3.2.
 *
 * Invariant: every score is finite: what would not be is 0.  The scores are a
 * function of the seed and of the fits that were made; where data grows by
 * less than a factor of two, a fit goes on from the one before.
 */
#include "config.h"
#include "tuner/treegru.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "tuner/features.h"
#include "tuner/random.h"

enum {
  BATCH = 64,        /* rows of one step */
  FRESH_STEPS = 250, /* from random parameters */
  MORE_STEPS = 100,  /* from those of the fit before */
  CHUNK = 256        /* rows scored together */
};

struct treegru {
  struct tt_cost_model base;
  enum tt_objective objective;
  uint64_t random;
  bool fitted;
  int fresh; /* rows of the last fit from random parameters */
  float shift[TT_TREE_INPUTS], scale[TT_TREE_INPUTS];
  float mean, deviation; /* of the labels, which are taken relative to them */
  int nparams;
  float *params, *first, *second; /* parameters; Adam's moments */
};

/* One BLAS thread: matrices are small, and timing wants the other CPUs
 * quiet. */
extern void openblas_set_num_threads(int) __attribute__((weak));
extern void bli_thread_set_num_threads(long) __attribute__((weak));

static void
one_thread(void)
{
  if (openblas_set_num_threads)
    openblas_set_num_threads(1);
  if (bli_thread_set_num_threads)
    bli_thread_set_num_threads(1);
}

/* ---- inputs ------------------------------------------------------------ */

/* Mean and deviation of each input over all loops. */
static void
measure_inputs(struct treegru *g, int n, const float *rows)
{
  double sum[TT_TREE_INPUTS] = {0}, squares[TT_TREE_INPUTS] = {0}, count = 0;

  for (int k = 0; k < n; k++) {
    const float *row = rows + (size_t)k * TT_TREE_WIDTH;
    int nodes = row[0] >= 1 && row[0] <= TT_TREE_NODES ? (int)row[0] : 0;
    for (int i = 0; i < nodes; i++)
      for (int j = 0; j < TT_TREE_INPUTS; j++) {
        double x = (double)row[2 + i * TT_TREE_NODE + j];
        x = isfinite(x) ? fmin(fmax(x, -1e4), 1e4) : 0;
        sum[j] += x;
        squares[j] += x * x;
      }
    count += nodes;
  }
  for (int j = 0; j < TT_TREE_INPUTS; j++) {
    double mean = count > 0 ? sum[j] / count : 0;
    double v = count > 0 ? squares[j] / count - mean * mean : 0;
    g->shift[j] = (float)mean;
    g->scale[j] = v > 1e-6 ? (float)(1 / sqrt(v)) : 1;
  }
}

static float
label_of(float label)
{
  return isfinite(label) ? label : 0;
}

/* Of what is to be learned: that is left by a base. */
static void
measure_labels(struct treegru *g, const struct tt_fit *f)
{
  double sum = 0, squares = 0;
  bool left = f->base != NULL && g->objective == TT_REGRESSION;

  for (int i = 0; i < f->n; i++) {
    double y = (double)label_of(f->labels[i]);
    if (left)
      y -= (double)label_of(f->base[i]);
    sum += y;
    squares += y * y;
  }
  double v = squares / f->n - sum / f->n * (sum / f->n);
  g->mean = (float)(sum / f->n);
  g->deviation = v > 1e-12 ? (float)sqrt(v) : 1;
}

/* ---- training ---------------------------------------------------------- */

/* One step of Adam; gradients longer than 1 are cut. */
static void
adam(struct treegru *g, float *gradient, int step, double rate)
{
  double norm = 0, b1 = 0.9, b2 = 0.99;

  for (int i = 0; i < g->nparams; i++)
    norm += (double)gradient[i] * (double)gradient[i];
  norm = sqrt(norm);
  if (!isfinite(norm))
    return;
  float cut = norm > 1 ? (float)(1 / norm) : 1;
  float c1 = (float)(1 / (1 - pow(b1, step))), r = (float)rate;
  float c2 = (float)(1 / (1 - pow(b2, step)));
  for (int i = 0; i < g->nparams; i++) {
    float d = gradient[i] * cut;
    g->first[i] = 0.9f * g->first[i] + 0.1f * d;
    g->second[i] = 0.99f * g->second[i] + 0.01f * d * d;
    g->params[i] -= r * (g->first[i] * c1 / (sqrtf(g->second[i] * c2) + 1e-6f) +
                         1e-2f * g->params[i]);
  }
}

struct batch {
  int n;
  float rows[BATCH * TT_TREE_WIDTH], labels[BATCH], base[BATCH];
  float scores[BATCH], slopes[BATCH];
};

static void
train_step(struct treegru *g, struct batch *b, float *gradient, int step,
           double rate)
{
  struct tt_trees *t = tt_trees_new(b->n, b->rows, g->shift, g->scale);

  memset(gradient, 0, (size_t)g->nparams * sizeof *gradient);
  tt_treegru_forward(g->params, t, b->scores);
  for (int i = 0; i < b->n; i++)
    b->scores[i] += b->base[i];
  tt_treegru_loss(g->objective, b->n, b->scores, b->labels, b->slopes);
  tt_treegru_backward(g->params, t, b->slopes, gradient);
  adam(g, gradient, step, rate);
  tt_trees_free(t);
}

/* The rows in an order drawn anew for each pass, in batches of one workload
 * each: rows of different ones are not to be ordered. */
struct pass {
  int n;                      /* batches */
  int *order, *begin, *count; /* rows; positions of batches in `order` */
  int at;                     /* next batch */
};

static void
shuffle(struct treegru *g, int n, int *order)
{
  for (int i = n - 1; i > 0; i--) {
    int j = tt_draw_below(&g->random, i + 1), v = order[i];
    order[i] = order[j];
    order[j] = v;
  }
}

static void
pass_init(struct pass *p, const struct tt_fit *f)
{
  size_t most = (size_t)f->n / BATCH + (size_t)f->ngroups + 1;

  p->order = tt_xmalloc((size_t)f->n * sizeof *p->order);
  p->begin = tt_xmalloc(most * sizeof *p->begin);
  p->count = tt_xmalloc(most * sizeof *p->count);
  p->n = p->at = 0;
  for (int i = 0; i < f->n; i++)
    p->order[i] = i;
}

static void
pass_free(struct pass *p)
{
  free(p->order);
  free(p->begin);
  free(p->count);
}

/* Batches of the n rows from `from`; the last one is filled up with rows of
 * those before. */
static void
pass_group(struct treegru *g, struct pass *p, int from, int n)
{
  shuffle(g, n, p->order + from);
  for (int i = 0; i < n; i += BATCH) {
    p->count[p->n] = n < BATCH ? n : BATCH;
    p->begin[p->n++] = from + (i + BATCH <= n || n < BATCH ? i : n - BATCH);
  }
}

static void
pass_draw(struct treegru *g, struct pass *p, const struct tt_fit *f)
{
  int from = 0;

  p->n = p->at = 0;
  if (f->ngroups == 0)
    pass_group(g, p, 0, f->n);
  for (int k = 0; k < f->ngroups; from += f->groups[k++])
    pass_group(g, p, from, f->groups[k]);
  for (int i = p->n - 1; i > 0; i--) {
    int j = tt_draw_below(&g->random, i + 1);
    int begin = p->begin[i], count = p->count[i];
    p->begin[i] = p->begin[j];
    p->count[i] = p->count[j];
    p->begin[j] = begin;
    p->count[j] = count;
  }
}

/* The next batch.  Labels and bases are taken relative to the deviation of the
 * labels where they are what is learned. */
static void
next_batch(struct treegru *g, struct pass *p, const struct tt_fit *f,
           struct batch *b)
{
  float unit = g->objective == TT_REGRESSION ? g->deviation : 1;

  if (p->at == p->n)
    pass_draw(g, p, f);
  b->n = p->count[p->at];
  for (int i = 0; i < b->n; i++) {
    int k = p->order[p->begin[p->at] + i];
    memcpy(b->rows + (size_t)i * TT_TREE_WIDTH,
           f->rows + (size_t)k * TT_TREE_WIDTH,
           TT_TREE_WIDTH * sizeof *f->rows);
    b->labels[i] = (label_of(f->labels[k]) - g->mean) / g->deviation;
    b->base[i] = f->base != NULL ? label_of(f->base[k]) / unit : 0;
  }
  p->at++;
}

static void
train(struct treegru *g, const struct tt_fit *f, int steps)
{
  struct batch *b = tt_xmalloc(sizeof *b);
  float *gradient = tt_xmalloc((size_t)g->nparams * sizeof *gradient);
  struct pass p;

  pass_init(&p, f);
  memset(g->first, 0, (size_t)g->nparams * sizeof *g->first);
  memset(g->second, 0, (size_t)g->nparams * sizeof *g->second);
  for (int step = 1; step <= steps; step++) {
    next_batch(g, &p, f, b);
    train_step(g, b, gradient, step, 6e-3 * (1 - 0.95 * step / steps));
  }
  pass_free(&p);
  free(gradient);
  free(b);
}

static bool
constant(int n, const float *labels)
{
  for (int i = 1; i < n; i++)
    if (label_of(labels[i]) != label_of(labels[0]))
      return false;
  return true;
}

static bool
all_finite(const struct treegru *g)
{
  for (int i = 0; i < g->nparams; i++)
    if (!isfinite(g->params[i]))
      return false;
  return true;
}

static bool
wrong_width(int width, const char **error)
{
  if (width == TT_TREE_WIDTH)
    return false;
  *error = "a TreeGRU takes the loops of a schedule";
  return true;
}

/* Steps for many rows of several workloads: about twelve passes. */
static int
fresh_steps(const struct tt_fit *f)
{
  int passes = f->n / BATCH * 12;

  return f->ngroups > 1 && passes > FRESH_STEPS ? passes : FRESH_STEPS;
}

static bool
treegru_fit(struct tt_cost_model *model, const struct tt_fit *f,
            const char **error)
{
  struct treegru *g = (struct treegru *)model;
  bool more = g->fitted && f->n < 2 * g->fresh && f->n >= g->fresh;

  if (f->n > 0 && wrong_width(f->width, error))
    return false;
  g->fitted = false;
  if (f->n < 2 || constant(f->n, f->labels))
    return true;
  one_thread();
  if (!more) {
    measure_inputs(g, f->n, f->rows);
    measure_labels(g, f);
    tt_treegru_init(&g->random, g->params);
    g->fresh = f->n;
  }
  train(g, f, more ? MORE_STEPS : fresh_steps(f));
  g->fitted = all_finite(g);
  return true;
}

static bool
treegru_predict(struct tt_cost_model *model, int n, int width,
                const float *rows, float *scores, const char **error)
{
  struct treegru *g = (struct treegru *)model;

  if (n > 0 && wrong_width(width, error))
    return false;
  for (int i = 0; i < n; i += CHUNK) {
    int k = n - i < CHUNK ? n - i : CHUNK;
    memset(scores + i, 0, (size_t)k * sizeof *scores);
    if (!g->fitted)
      continue;
    struct tt_trees *t =
        tt_trees_new(k, rows + (size_t)i * TT_TREE_WIDTH, g->shift, g->scale);
    tt_treegru_forward(g->params, t, scores + i);
    tt_trees_free(t);
    for (int j = i; j < i + k; j++) {
      if (g->objective == TT_REGRESSION)
        scores[j] = scores[j] * g->deviation + g->mean;
      if (!isfinite(scores[j]))
        scores[j] = 0;
    }
  }
  return true;
}

static void
treegru_free(struct tt_cost_model *model)
{
  struct treegru *g = (struct treegru *)model;

  free(g->params);
  free(g->first);
  free(g->second);
  free(g);
}

struct tt_cost_model *
tt_treegru_new(enum tt_objective objective, unsigned seed, const char **error)
{
  static const struct tt_cost_ops ops = {"treegru", treegru_fit,
                                         treegru_predict, treegru_free};
  struct treegru *g = tt_xmalloc(sizeof *g);

  (void)error;
  memset(g, 0, sizeof *g);
  g->base.ops = &ops;
  g->objective = objective;
  g->random = seed * UINT64_C(0x2545f4914f6cdd1d) + 0x74726565;
  g->nparams = tt_treegru_params();
  g->params = tt_xmalloc((size_t)g->nparams * sizeof *g->params);
  g->first = tt_xmalloc((size_t)g->nparams * sizeof *g->first);
  g->second = tt_xmalloc((size_t)g->nparams * sizeof *g->second);
  return &g->base;
}
