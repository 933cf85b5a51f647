/* The learned costs: what they learn, that gradients are right, odd data. */
#include "config.h"

#include "tuner/model.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/arena.h"
#include "tuner/features.h"
#include "tuner/random.h"
#include "tuner/treegru.h"

enum { N = 400, TRAIN = 300, W = TT_TREE_WIDTH };

/* ---- synthetic loop trees ---------------------------------------------- */

/* A tree of 2 to 9 loops: a chain with side branches. */
static void
draw_tree(uint64_t *random, float *row)
{
  int n = 2 + tt_draw_below(random, 8);

  memset(row, 0, W * sizeof *row);
  row[0] = (float)n;
  for (int i = 0; i < n; i++) {
    float *node = row + 1 + i * TT_TREE_NODE;
    int back = tt_draw_below(random, 4) == 0 && i > 1 ? 2 : 1;
    node[0] = (float)(i - back);
    for (int j = 0; j < 8; j++) /* some say nothing, the rest is the same */
      node[1 + j] = (float)(12 * tt_draw_unit(random));
  }
}

/* A cost in which loops, their order and two inputs of one loop interact. */
static float
speed_of(const float *row)
{
  double cost = 1;
  int n = (int)row[0];

  for (int i = 0; i < n; i++) {
    const float *x = row + 2 + i * TT_TREE_NODE;
    cost += fmax((double)x[1] - 6, 0) * 0.15 + (x[0] > 6 && x[2] > 6) * 0.5;
    if (i == n - 1) /* the innermost */
      cost += fabs((double)x[3] - 5) * 0.4;
  }
  return (float)(1 / cost);
}

struct data {
  float rows[N * W], labels[N];
};

static struct data *
synthetic(void)
{
  struct data *d = tt_xmalloc(sizeof *d);
  uint64_t random = 7;

  for (int i = 0; i < N; i++) {
    draw_tree(&random, d->rows + i * W);
    d->labels[i] = speed_of(d->rows + i * W);
  }
  return d;
}

/* Share of pairs of held-out rows in the right order. */
static double
share_in_order(const struct data *d, const float *scores)
{
  int right = 0, pairs = 0;

  for (int i = TRAIN; i < N; i++)
    for (int j = TRAIN; j < i; j++) {
      pairs++;
      right += (d->labels[i] > d->labels[j]) == (scores[i] > scores[j]);
    }
  return (double)right / pairs;
}

static void
check_learns(struct tt_cost_model *m, double least)
{
  struct data *d = synthetic();
  float *scores = tt_xmalloc(N * sizeof *scores);
  const char *error = NULL;

  assert_true(tt_cost_fit(m, TRAIN, W, d->rows, d->labels, &error));
  assert_true(m->ops->predict(m, N, W, d->rows, scores, &error));
  double share = share_in_order(d, scores);
  if (!(share > least))
    fail_msg("%s: %g of the pairs are in order", m->ops->name, share);
  free(scores);
  free(d);
  m->ops->free(m);
}

static void
test_models_learn(void **state)
{
  const char *error = NULL;

  (void)state;
  for (int o = TT_RANK; o <= TT_REGRESSION; o++) {
    enum tt_objective objective = (enum tt_objective)o;
    check_learns(tt_treegru_new(objective, 1, &error), 0.7);
    check_learns(tt_gbt_new(objective, 1, 1, &error), 0.65);
  }
}

/* ---- several workloads, and what another model says ------------------- */

/* In each pair of rows the first input is better lower; over all of them it is
 * better higher. */
static void
draw_pairs(struct data *d, int *groups)
{
  uint64_t random = 3;

  for (int i = 0; i < N; i++) {
    draw_tree(&random, d->rows + i * W);
    float *x = d->rows + i * W + 2;
    double base = i / 2 * 2.0 / N;
    for (int k = 0; k < (int)d->rows[i * W]; k++)
      x[k * TT_TREE_NODE] = (float)(12 * (0.7 * base + 0.3 * (i % 2)));
    d->labels[i] = (float)(0.1 + 0.8 * base - 0.1 * (i % 2));
    groups[i / 2] = 2;
  }
}

static void
check_groups(struct tt_cost_model *m)
{
  struct data *d = tt_xmalloc(sizeof *d);
  float *scores = tt_xmalloc(N * sizeof *scores);
  int groups[N / 2], right = 0;
  const char *error = NULL;

  draw_pairs(d, groups);
  struct tt_fit f = {N, W, d->rows, d->labels, N / 2, groups, NULL};
  assert_true(m->ops->fit(m, &f, &error));
  assert_true(m->ops->predict(m, N, W, d->rows, scores, &error));
  for (int i = 0; i < N; i += 2)
    right += scores[i] > scores[i + 1];
  if (right < 0.9 * N / 2)
    fail_msg("%s: %d pairs of %d", m->ops->name, right, N / 2);
  m->ops->free(m);
  free(scores);
  free(d);
}

static void
test_groups(void **state)
{
  const char *error = NULL;
  struct tt_cost_model *members[2];

  (void)state;
  check_groups(tt_gbt_new(TT_RANK, 1, 1, &error));
  check_groups(tt_treegru_new(TT_RANK, 1, &error));
  for (unsigned i = 0; i < 2; i++)
    members[i] = tt_gbt_new(TT_RANK, 1, i, &error);
  check_groups(tt_ensemble_new(TT_MEAN, 2, members, 1));
}

/* What is learned beside a base is what makes their sum right: where the base
 * is so already, and where it says something that does not matter. */
static void
check_base(struct tt_cost_model *m, float good, float bad, double least)
{
  struct data *d = synthetic();
  float *scores = tt_xmalloc(N * sizeof *scores);
  float *base = tt_xmalloc(N * sizeof *base);
  struct tt_fit f = {TRAIN, W, d->rows, d->labels, 0, NULL, base};
  const char *error = NULL;

  for (int i = 0; i < N; i++)
    base[i] = good * d->labels[i] + bad * d->rows[i * W + 2 + 7];
  assert_true(m->ops->fit(m, &f, &error));
  assert_true(m->ops->predict(m, N, W, d->rows, scores, &error));
  for (int i = 0; i < N; i++)
    scores[i] += base[i];
  double share = share_in_order(d, scores);
  if (!(share > least))
    fail_msg("%s: %g of the pairs with %g %g", m->ops->name, share,
             (double)good, (double)bad);
  free(base);
  free(scores);
  free(d);
  m->ops->free(m);
}

static void
test_base(void **state)
{
  const char *error = NULL;

  (void)state;
  check_base(tt_gbt_new(TT_RANK, 1, 1, &error), 1000, 0, 0.97);
  check_base(tt_gbt_new(TT_RANK, 1, 1, &error), 0, 0.5f, 0.6);
  check_base(tt_gbt_new(TT_REGRESSION, 1, 1, &error), 1, 0, 0.97);
  check_base(tt_gbt_new(TT_REGRESSION, 1, 1, &error), 0, 0.1f, 0.6);
  check_base(tt_treegru_new(TT_RANK, 1, &error), 1000, 0, 0.97);
  check_base(tt_treegru_new(TT_RANK, 1, &error), 0, 0.5f, 0.6);
  check_base(tt_treegru_new(TT_REGRESSION, 1, &error), 1, 0, 0.97);
  check_base(tt_treegru_new(TT_REGRESSION, 1, &error), 0, 0.1f, 0.6);
}

static void
test_gbt_as_bytes(void **state)
{
  struct data *d = synthetic();
  float *a = tt_xmalloc(N * sizeof *a), *b = tt_xmalloc(N * sizeof *b);
  const char *error = NULL;
  struct tt_cost_model *m = tt_gbt_new(TT_RANK, 1, 1, &error), *copy;
  char *bytes;
  size_t n;

  (void)state;
  assert_true(tt_gbt_save(m, &bytes, &n, &error));
  assert_int_equal(n, 0); /* without trees */
  free(bytes);
  tt_gbt_size(m, 20, 4);
  assert_true(tt_cost_fit(m, TRAIN, W, d->rows, d->labels, &error));
  assert_true(m->ops->predict(m, N, W, d->rows, a, &error));
  assert_true(tt_gbt_save(m, &bytes, &n, &error));
  m->ops->free(m);
  copy = tt_gbt_load(bytes, n, TT_RANK, 1, 1, &error);
  assert_non_null(copy);
  assert_true(copy->ops->predict(copy, N, W, d->rows, b, &error));
  assert_memory_equal(a, b, N * sizeof *a);
  assert_false(copy->ops->predict(copy, 1, W - 1, d->rows, b, &error));
  copy->ops->free(copy);
  for (size_t cut = 0; cut < n; cut += 1 + n / 13) {
    assert_null(tt_gbt_load(bytes, cut, TT_RANK, 1, 1, &error));
    assert_string_equal(error, "not a model of boosted trees");
  }
  assert_null(tt_gbt_load("no model at all", 15, TT_RANK, 1, 1, &error));
  free(bytes);
  free(a);
  free(b);
  free(d);
}

/* ---- the TreeGRU ------------------------------------------------------- */

static double
loss_of(const float *params, const float *rows, int n, enum tt_objective o,
        const float *labels, float *gradient)
{
  static const float shift[TT_TREE_INPUTS] = {6, 6, 6, 6};
  float scale[TT_TREE_INPUTS], scores[8], slopes[8];
  struct tt_trees *t;
  double loss;

  for (int j = 0; j < TT_TREE_INPUTS; j++)
    scale[j] = 0.3f;
  t = tt_trees_new(n, rows, shift, scale);
  tt_treegru_forward(params, t, scores);
  loss = tt_treegru_loss(o, n, scores, labels, slopes);
  if (gradient != NULL) {
    memset(gradient, 0, (size_t)tt_treegru_params() * sizeof *gradient);
    tt_treegru_backward(params, t, slopes, gradient);
  }
  tt_trees_free(t);
  return loss;
}

/* Along random directions within each of 16 parts of the parameters, in
 * steps forth and back, the loss changes as the gradient says. */
static void
check_gradient(enum tt_objective o)
{
  enum { TREES = 8, PARTS = 16 };
  int n = tt_treegru_params();
  float *params = tt_xmalloc((size_t)n * sizeof *params);
  float *moved = tt_xmalloc((size_t)n * sizeof *moved);
  float *gradient = tt_xmalloc((size_t)n * sizeof *gradient);
  float *rows = tt_xmalloc(TREES * W * sizeof *rows), labels[TREES];
  uint64_t random = 3;

  tt_treegru_init(&random, params);
  for (int i = 0; i < n; i++)
    params[i] += (float)(0.1 * (tt_draw_unit(&random) - 0.5));
  for (int k = 0; k < TREES; k++) {
    draw_tree(&random, rows + k * W);
    labels[k] = (float)tt_draw_unit(&random);
  }
  loss_of(params, rows, TREES, o, labels, gradient);
  for (int part = 0; part < PARTS; part++) {
    int from = n * part / PARTS, to = n * (part + 1) / PARTS;
    double slope = 0, step = 2e-3, ends[2];
    uint64_t start = random;
    for (int e = 0; e < 2; e++) {
      random = start;
      slope = 0;
      memcpy(moved, params, (size_t)n * sizeof *moved);
      for (int i = from; i < to; i++) {
        double d = tt_draw_below(&random, 2) ? 1 : -1;
        moved[i] = (float)((double)params[i] + (e ? -step : step) * d);
        slope += d * (double)gradient[i];
      }
      ends[e] = loss_of(moved, rows, TREES, o, labels, NULL);
    }
    double seen = (ends[0] - ends[1]) / (2 * step);
    if (fabs(seen - slope) > 0.02 * fabs(slope) + 2e-3)
      fail_msg("part %d: slope %g, gradient says %g", part, seen, slope);
  }
  free(params);
  free(moved);
  free(gradient);
  free(rows);
}

static void
test_treegru_gradient(void **state)
{
  (void)state;
  check_gradient(TT_RANK);
  check_gradient(TT_REGRESSION);
}

/* Scores do not depend on which trees are scored together. */
static void
test_treegru_batches(void **state)
{
  struct data *d = synthetic();
  float *all = tt_xmalloc(N * sizeof *all), one;
  const char *error = NULL;
  struct tt_cost_model *m = tt_treegru_new(TT_RANK, 1, &error);

  (void)state;
  assert_true(tt_cost_fit(m, 50, W, d->rows, d->labels, &error));
  assert_true(m->ops->predict(m, N, W, d->rows, all, &error));
  for (int i = 0; i < N; i += 37) {
    assert_true(m->ops->predict(m, 1, W, d->rows + i * W, &one, &error));
    assert_true(fabsf(one - all[i]) < 1e-4f * (1 + fabsf(one)));
  }
  assert_false(m->ops->predict(m, 1, W - 1, d->rows, &one, &error));
  assert_non_null(error);
  m->ops->free(m);
  free(all);
  free(d);
}

static void
check_same_again(struct tt_cost_model *(*make)(void))
{
  struct data *d = synthetic();
  float *a = tt_xmalloc(N * sizeof *a), *b = tt_xmalloc(N * sizeof *b);
  const char *error = NULL;

  for (int i = 0; i < 2; i++) {
    struct tt_cost_model *m = make();
    /* The second fit goes on from the first. */
    assert_true(tt_cost_fit(m, 60, W, d->rows, d->labels, &error));
    assert_true(tt_cost_fit(m, 80, W, d->rows, d->labels, &error));
    assert_true(m->ops->predict(m, N, W, d->rows, i ? b : a, &error));
    m->ops->free(m);
  }
  assert_memory_equal(a, b, N * sizeof *a);
  free(a);
  free(b);
  free(d);
}

static struct tt_cost_model *
a_treegru(void)
{
  const char *error;
  return tt_treegru_new(TT_RANK, 5, &error);
}

static struct tt_cost_model *
an_ensemble(void)
{
  struct tt_cost_model *members[3];
  const char *error;

  for (unsigned i = 0; i < 3; i++)
    members[i] = tt_gbt_new(TT_RANK, 1, i, &error);
  return tt_ensemble_new(TT_UPPER_BOUND, 3, members, 5);
}

static void
test_same_seed_same_scores(void **state)
{
  (void)state;
  check_same_again(a_treegru);
  check_same_again(an_ensemble);
}

/* ---- ensembles --------------------------------------------------------- */

/* A model that says one input, or that plus a constant. */
struct fixed {
  struct tt_cost_model base;
  int column;
};

static bool
fixed_fit(struct tt_cost_model *m, const struct tt_fit *f, const char **error)
{
  (void)m, (void)f, (void)error;
  return true;
}

static bool
fixed_predict(struct tt_cost_model *m, int n, int width, const float *rows,
              float *scores, const char **error)
{
  (void)error;
  for (int i = 0; i < n; i++)
    scores[i] = rows[i * width + ((struct fixed *)m)->column];
  return true;
}

static void
fixed_free(struct tt_cost_model *m)
{
  free(m);
}

static struct tt_cost_model *
fixed_model(int column)
{
  static const struct tt_cost_ops ops = {"fixed", fixed_fit, fixed_predict,
                                         fixed_free};
  struct fixed *f = tt_xmalloc(sizeof *f);

  *f = (struct fixed){{&ops}, column};
  return &f->base;
}

static void
acquired(enum tt_acquisition a, float *scores)
{
  /* Two members, rows where they agree and one where they do not; each
   * member's scores have mean 0 and deviation 1. */
  static const float rows[8] = {-1, -1, 1, 1, -1, 1, 1, -1};
  struct tt_cost_model *members[2] = {fixed_model(0), fixed_model(1)};
  struct tt_cost_model *m = tt_ensemble_new(a, 2, members, 1);
  const float labels[4] = {0, 1, 0.5f, 0.5f};
  const char *error = NULL;

  assert_true(tt_cost_fit(m, 4, 2, rows, labels, &error));
  assert_true(m->ops->predict(m, 4, 2, rows, scores, &error));
  m->ops->free(m);
}

static void
test_acquisition(void **state)
{
  float s[4];

  (void)state;
  acquired(TT_MEAN, s);
  assert_true(s[0] == -1 && s[1] == 1 && s[2] == 0 && s[3] == 0);
  acquired(TT_UPPER_BOUND, s);
  assert_true(s[0] == -1 && s[1] == 1 && s[2] == 1 && s[3] == 1);
  /* The best so far is 1: where the members agree nothing is expected; where
   * they do not, with deviation 1 around 0, phi(1) - Q(1) is. */
  acquired(TT_EXPECTED_IMPROVEMENT, s);
  assert_true(s[2] > s[1] && s[1] > s[0] && s[2] == s[3]);
  assert_true(fabs((double)s[2] - log(0.24197072 - 0.15865525)) < 1e-4);
}

/* ---- transfer ---------------------------------------------------------- */

/* A local model that says nothing and keeps the base that it is given. */
struct listener {
  struct tt_cost_model base;
  float *seen; /* the test's */
};

static bool
listener_fit(struct tt_cost_model *m, const struct tt_fit *f,
             const char **error)
{
  (void)error;
  assert_non_null(f->base);
  memcpy(((struct listener *)m)->seen, f->base, (size_t)f->n * sizeof *f->base);
  return true;
}

static bool
listener_predict(struct tt_cost_model *m, int n, int width, const float *rows,
                 float *scores, const char **error)
{
  (void)m, (void)width, (void)rows, (void)error;
  memset(scores, 0, (size_t)n * sizeof *scores);
  return true;
}

static struct tt_cost_model *
listener(float *seen)
{
  static const struct tt_cost_ops ops = {"listener", listener_fit,
                                         listener_predict, fixed_free};
  struct listener *l = tt_xmalloc(sizeof *l);

  *l = (struct listener){{&ops}, seen};
  return &l->base;
}

/* The weight that the global model has after n trials that it orders right,
 * save for those of a number divisible by `wrong`, which are turned over. */
static float
weight_of(int n, int wrong)
{
  float rows[256], labels[256], seen[256] = {0}, score = 0;
  struct tt_cost_model *global = fixed_model(0);
  struct tt_cost_model *m = tt_transfer_new(global, listener(seen));
  const char *error = NULL;

  for (int i = 0; i < n; i++) {
    rows[i] = (float)(i + 1);
    labels[i] = (float)(i % wrong == 0 ? n - i : i + 1) / (float)(n + 1);
  }
  rows[255] = 1;
  if (n > 0)
    assert_true(tt_cost_fit(m, n, 1, rows, labels, &error));
  assert_true(m->ops->predict(m, 1, 1, rows + 255, &score, &error));
  for (int i = 0; i < n; i++)
    assert_true(seen[i] == score * rows[i]);
  m->ops->free(m);
  global->ops->free(global);
  return score;
}

/* Its weight halves with every 64 trials; it has none where its order is not
 * that of the trials. */
static void
test_transfer(void **state)
{
  (void)state;
  assert_true(weight_of(0, 1000) == 1);
  assert_true(fabsf(weight_of(64, 1000) - 0.5f) < 1e-3f);
  assert_true(fabsf(weight_of(128, 1000) - 0.25f) < 1e-3f);
  assert_true(weight_of(64, 1) == 0);
  assert_true(weight_of(64, 2) < 0.4f);
  assert_true(weight_of(7, 1) > 0.9f); /* too few to judge by */
}

/* ---- odd data ---------------------------------------------------------- */

static void
check_scores(struct tt_cost_model *m, int n, int width, const float *rows,
             const float *labels)
{
  float scores[4] = {NAN, NAN, NAN, NAN};
  const char *error = NULL;

  assert_true(tt_cost_fit(m, n, width, rows, labels, &error));
  assert_true(m->ops->predict(m, 4, width, rows, scores, &error));
  for (int i = 0; i < 4; i++)
    assert_true(isfinite(scores[i]));
}

static void
check_odd(struct tt_cost_model *m)
{
  static const float constant[4] = {1, 1, 1, 1}, failures[4] = {0, 0, 0, 0};
  static const float odd[4] = {NAN, 1, 0.5, INFINITY};
  static const float good[4] = {1, 0, 0.5, 0.5};
  float *rows = tt_xmalloc(4 * W * sizeof *rows), score;
  const char *error = NULL;
  uint64_t random = 1;

  for (int i = 0; i < 4; i++)
    draw_tree(&random, rows + i * W);
  rows[3] = NAN;
  rows[W + 4] = INFINITY;
  rows[2 * W] = NAN;     /* a tree without a size */
  rows[3 * W + 1] = 7e9; /* a parent that is none */
  assert_true(m->ops->predict(m, 1, W, rows, &score, &error)); /* not fitted */
  assert_true(isfinite(score));
  check_scores(m, 4, W, rows, constant);
  check_scores(m, 4, W, rows, failures);
  check_scores(m, 1, W, rows, good);
  check_scores(m, 0, W, rows, good);
  check_scores(m, 4, W, rows, odd);
  check_scores(m, 4, W, rows, good);
  assert_true(m->ops->predict(m, 0, W, rows, &score, &error));
  m->ops->free(m);
  free(rows);
}

/* Rows of another representation are refused. */
static void
test_other_width(void **state)
{
  const float rows[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  const float labels[4] = {0, 0.2f, 0.5f, 1};
  const char *error = NULL;
  struct tt_cost_model *m = tt_gbt_new(TT_RANK, 1, 1, &error);
  float scores[4];

  (void)state;
  assert_true(tt_cost_fit(m, 4, 2, rows, labels, &error));
  assert_false(m->ops->predict(m, 2, 4, rows, scores, &error));
  assert_string_equal(error, "fitted to 2 features, not to 4");
  assert_true(m->ops->predict(m, 4, 2, rows, scores, &error));
  m->ops->free(m);
}

static void
test_odd_data(void **state)
{
  const char *error;

  (void)state;
  for (int o = TT_RANK; o <= TT_REGRESSION; o++) {
    check_odd(tt_treegru_new((enum tt_objective)o, 1, &error));
    check_odd(tt_gbt_new((enum tt_objective)o, 1, 1, &error));
  }
  for (int a = TT_MEAN; a <= TT_UPPER_BOUND; a++) {
    struct tt_cost_model *members[2] = {tt_gbt_new(TT_RANK, 1, 1, &error),
                                        tt_treegru_new(TT_RANK, 1, &error)};
    check_odd(tt_ensemble_new((enum tt_acquisition)a, 2, members, 1));
  }
  struct tt_cost_model *global = tt_treegru_new(TT_RANK, 1, &error);
  check_odd(tt_transfer_new(global, tt_gbt_new(TT_RANK, 1, 1, &error)));
  check_odd(tt_transfer_new(global, tt_treegru_new(TT_RANK, 1, &error)));
  global->ops->free(global);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_models_learn),
      cmocka_unit_test(test_groups),
      cmocka_unit_test(test_base),
      cmocka_unit_test(test_gbt_as_bytes),
      cmocka_unit_test(test_treegru_gradient),
      cmocka_unit_test(test_treegru_batches),
      cmocka_unit_test(test_same_seed_same_scores),
      cmocka_unit_test(test_acquisition),
      cmocka_unit_test(test_transfer),
      cmocka_unit_test(test_other_width),
      cmocka_unit_test(test_odd_data),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
