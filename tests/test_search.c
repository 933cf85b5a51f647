/* What the tuner learns and how it searches, without schedules: the cost model
 * and the searches over spaces made up here.  Nothing here depends on time. */
#include "config.h"

#include "tuner/search.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tuner/model.h"

/* ---- the cost model ---------------------------------------------------- */

static float
noise(unsigned *seed)
{
  *seed = *seed * 1103515245u + 12345u;
  return (float)(*seed >> 16 & 0x7fff) / 32768;
}

static void
test_gbt_learns_an_order(void **state)
{
  enum { N = 300, W = 8 };
  static float rows[N * W], labels[N], scores[N], again[N];
  const char *error = NULL;
  unsigned seed = 7;
  int right = 0, pairs = 0;
  struct tt_cost_model *m = tt_gbt_new(TT_RANK, 1, 1, &error);

  (void)state;
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < W; j++)
      rows[i * W + j] = noise(&seed);
    labels[i] = 1 / (1 + 4 * fabsf(rows[i * W] - 0.3f) + rows[i * W + 1]);
  }
  assert_true(tt_cost_fit(m, 200, W, rows, labels, &error));
  assert_true(m->ops->predict(m, N, W, rows, scores, &error));
  for (int i = 200; i < N; i++) /* not seen before */
    for (int j = 200; j < i; j++) {
      pairs++;
      right += (labels[i] > labels[j]) == (scores[i] > scores[j]);
    }
  assert_true(right > pairs * 0.8);
  /* The same seed and data give the same scores. */
  m->ops->free(m);
  m = tt_gbt_new(TT_RANK, 1, 1, &error);
  assert_true(tt_cost_fit(m, 200, W, rows, labels, &error));
  assert_true(m->ops->predict(m, N, W, rows, again, &error));
  assert_memory_equal(scores, again, sizeof scores);
  m->ops->free(m);
}

static void
assert_scores(struct tt_cost_model *m, int n, const float *rows,
              const float *labels)
{
  float scores[4] = {NAN, NAN, NAN, NAN};
  const char *error = NULL;

  assert_true(tt_cost_fit(m, n, 2, rows, labels, &error));
  assert_true(m->ops->predict(m, 4, 2, rows, scores, &error));
  for (int i = 0; i < 4; i++)
    assert_true(isfinite(scores[i]));
}

static void
test_gbt_odd_data(void **state)
{
  const float rows[8] = {1, 2, NAN, INFINITY, -INFINITY, 0, 3, NAN};
  const float constant[4] = {1, 1, 1, 1}, failures[4] = {0, 0, 0, 0};
  const float odd[4] = {NAN, 1, 0.5, INFINITY}, good[4] = {1, 0, 0.5, 0.25};
  const char *error = NULL;
  struct tt_cost_model *m = tt_gbt_new(TT_RANK, 1, 3, &error);
  float score;

  (void)state;
  assert_true(m->ops->predict(m, 1, 2, rows, &score, &error)); /* not fitted */
  assert_true(score == 0);
  assert_scores(m, 4, rows, constant);
  assert_scores(m, 4, rows, failures);
  assert_scores(m, 1, rows, good);
  assert_scores(m, 0, rows, good);
  assert_scores(m, 4, rows, odd);
  assert_scores(m, 4, rows, good);
  assert_true(m->ops->predict(m, 0, 2, rows, &score, &error));
  m->ops->free(m);
}

/* ---- the search -------------------------------------------------------- */

enum { KNOBS = 7 };
static const int sizes[KNOBS] = {12, 12, 12, 12, 8, 4, 2};
static const bool ordered[KNOBS] = {true, true, true, true, true, false, false};

/* A cost surface with valleys, interactions and a part that is illegal. */
static bool
synthetic_legal(const int *c)
{
  return c[0] + c[1] < 20;
}

static double
synthetic_cost(const int *c)
{
  double a = c[0] - 7, b = c[1] - 3, d = c[2] - 9, e = c[3] - c[0] / 2.0;

  return 1 + 0.06 * a * a + 0.05 * b * b + 0.03 * d * d + 0.1 * fabs(e) +
         0.04 * abs(c[4] - 5) * (c[5] == 2 ? 1 : 2) + 0.4 * (c[5] != 2) +
         0.6 * c[6];
}

static bool
synthetic_features(void *ctx, const int *c, float *row)
{
  (*(int *)ctx)++;
  for (int i = 0; i < KNOBS; i++)
    row[i] = (float)c[i];
  row[KNOBS] = (float)(c[0] - 2 * c[3]);
  return synthetic_legal(c);
}

static int looks; /* calls of synthetic_features: only ever counted up */

static struct tt_search_space
synthetic(void)
{
  return (struct tt_search_space){
      KNOBS, sizes, ordered, KNOBS + 1, synthetic_features, NULL, &looks};
}

enum { TRIALS = 128, BATCH = 16 };
enum kind { RANDOM, ANNEAL, GENETIC };

/* The best cost after TRIALS trials; no configuration may come twice. */
static double
search(uint64_t seed, enum kind kind, int *configs)
{
  static float rows[TRIALS * (KNOBS + 1)], labels[TRIALS];
  const char *error = NULL;
  struct tt_search_space space = synthetic();
  struct tt_searcher *s = tt_searcher_new(&space, &tt_search_defaults, seed);
  struct tt_cost_model *m = tt_gbt_new(TT_RANK, 1, (unsigned)seed, &error);
  double best = INFINITY, cost[TRIALS];
  int seeds[KNOBS] = {0}, got;

  for (int n = 0; n < TRIALS; n += got) {
    int *out = configs + n * KNOBS;
    if (n > 0 && kind != RANDOM) {
      for (int i = 0; i < n; i++)
        labels[i] = (float)(best / cost[i]);
      assert_true(tt_cost_fit(m, n, KNOBS + 1, rows, labels, &error));
      got = (kind == ANNEAL ? tt_search_anneal : tt_search_genetic)(
          s, m, 1, seeds, BATCH, out, &error);
    } else {
      got = tt_search_random(s, BATCH, out);
    }
    assert_int_equal(got, BATCH);
    for (int i = n; i < n + got; i++) {
      const int *c = configs + i * KNOBS;
      assert_true(synthetic_legal(c));
      synthetic_features(&looks, c, rows + i * (KNOBS + 1));
      cost[i] = synthetic_cost(c);
      if (cost[i] < best) {
        best = cost[i];
        memcpy(seeds, c, sizeof seeds);
      }
      for (int j = 0; j < i; j++)
        if (memcmp(c, configs + j * KNOBS, sizeof seeds) == 0)
          fail_msg("proposed twice");
    }
  }
  tt_searcher_free(s);
  m->ops->free(m);
  return best;
}

static void
test_learning_beats_random(void **state)
{
  static int configs[TRIALS * KNOBS];
  double above[3] = {0};

  (void)state;
  for (uint64_t seed = 1; seed <= 3; seed++)
    for (int k = RANDOM; k <= GENETIC; k++)
      above[k] += search(seed, (enum kind)k, configs) - 1;
  /* How far above the best possible: less than half as far. */
  if (!(above[ANNEAL] < 0.5 * above[RANDOM] &&
        above[GENETIC] < 0.5 * above[RANDOM]))
    fail_msg("annealing %g, genetic %g, random %g", above[ANNEAL] / 3,
             above[GENETIC] / 3, above[RANDOM] / 3);
}

static void
test_search_is_a_function_of_its_seed(void **state)
{
  static int a[TRIALS * KNOBS], b[TRIALS * KNOBS];

  (void)state;
  for (int k = RANDOM; k <= GENETIC; k++) {
    search(5, (enum kind)k, a);
    search(5, (enum kind)k, b);
    assert_memory_equal(a, b, sizeof a);
    search(6, (enum kind)k, b);
    assert_memory_not_equal(a, b, sizeof a);
  }
}

static bool
even_only(void *ctx, const int *c, float *row)
{
  (void)ctx;
  row[0] = (float)c[0];
  return (c[0] + c[1]) % 2 == 0;
}

typedef int propose_fn(struct tt_searcher *, struct tt_cost_model *, int,
                       const int *, int, int *, const char **);

static void
check_exhausts(propose_fn *propose)
{
  static const int small[2] = {4, 5};
  static const bool order[2] = {true, false};
  const struct tt_search_space space = {2,         small, order, 1,
                                        even_only, NULL,  NULL};
  struct tt_searcher *s = tt_searcher_new(&space, &tt_search_defaults, 1);
  int out[64], known[2] = {0, 0}, n;
  bool seen[4][5] = {{false}};
  const char *error = NULL;
  float rows[4] = {0, 1, 2, 3}, labels[4] = {1, 0.5, 0.25, 0};
  struct tt_cost_model *m = tt_gbt_new(TT_RANK, 1, 1, &error);

  tt_searcher_know(s, known);
  assert_true(tt_cost_fit(m, 4, 1, rows, labels, &error));
  n = propose(s, m, 1, known, 4, out, &error);
  assert_int_equal(n, 4);
  n += propose(s, NULL, 1, known, 2, out + 2 * n, &error);
  assert_int_equal(n, 6);
  n += propose(s, m, 1, known, 26, out + 2 * n, &error);
  assert_int_equal(n, 9); /* ten are legal, one was known */
  for (int i = 0; i < n; i++) {
    assert_int_equal((out[2 * i] + out[2 * i + 1]) % 2, 0);
    assert_false(seen[out[2 * i]][out[2 * i + 1]]);
    seen[out[2 * i]][out[2 * i + 1]] = true;
  }
  assert_false(seen[0][0]);
  assert_int_equal(tt_search_random(s, 4, out), 0);
  assert_int_equal(propose(s, m, 1, known, 4, out, &error), 0);
  assert_int_equal(propose(s, NULL, 1, known, 4, out, &error), 0);
  tt_searcher_free(s);
  m->ops->free(m);
}

static void
test_search_exhausts_a_space(void **state)
{
  (void)state;
  check_exhausts(tt_search_anneal);
  check_exhausts(tt_search_genetic);
}

/* A score that ties, is not a number, or says the same of all. */
static bool
odd_predict(struct tt_cost_model *m, int n, int width, const float *rows,
            float *scores, const char **error)
{
  (void)m, (void)width, (void)error;
  for (int i = 0; i < n; i++)
    scores[i] = rows[i * (KNOBS + 1)] < 4 ? NAN : 1;
  return true;
}

static void
test_search_by_odd_scores(void **state)
{
  static const struct tt_cost_ops ops = {"odd", NULL, odd_predict, NULL};
  struct tt_cost_model odd = {&ops};
  struct tt_search_space space = synthetic();
  propose_fn *const kinds[2] = {tt_search_anneal, tt_search_genetic};
  const char *error = NULL;

  (void)state;
  for (int k = 0; k < 2; k++) {
    struct tt_searcher *s = tt_searcher_new(&space, &tt_search_defaults, 1);
    int out[96 * KNOBS], seeds[KNOBS] = {0};
    for (int batch = 0; batch < 3; batch++)
      assert_int_equal(
          kinds[k](s, &odd, 1, seeds, 32, out + 32 * batch * KNOBS, &error),
          32);
    for (int i = 0; i < 96; i++)
      for (int j = 0; j < i; j++)
        assert_memory_not_equal(out + i * KNOBS, out + j * KNOBS, sizeof seeds);
    tt_searcher_free(s);
  }
}

/* Tells two kinds apart, the values of knob 6, and values of knob 0. */
static bool
kind_predict(struct tt_cost_model *m, int n, int width, const float *rows,
             float *scores, const char **error)
{
  (void)m, (void)error;
  for (int i = 0; i < n; i++)
    scores[i] = rows[i * width] - 100 * rows[i * width + 6];
  return true;
}

/* One batch of 24 by those scores. */
static void
batch_by_kind(double scouts, int out[24 * KNOBS])
{
  static const struct tt_cost_ops ops = {"kind", NULL, kind_predict, NULL};
  struct tt_cost_model model = {&ops};
  struct tt_search_params params = tt_search_defaults;
  struct tt_search_space space = synthetic();
  const char *error = NULL;
  int seed[KNOBS] = {0};

  params.epsilon = params.alpha = 0;
  params.scouts = scouts;
  struct tt_searcher *s = tt_searcher_new(&space, &params, 1);
  assert_int_equal(tt_search_anneal(s, &model, 1, seed, 24, out, &error), 24);
  tt_searcher_free(s);
}

static void
test_batch_has_one_of_equal_scores(void **state)
{
  int out[24 * KNOBS];
  bool seen[2][12] = {{false}};

  (void)state;
  batch_by_kind(0, out);
  for (int i = 0; i < 24; i++) {
    bool *one = &seen[out[i * KNOBS + 6]][out[i * KNOBS]];
    assert_false(*one); /* there are 24 scores */
    *one = true;
  }
}

static void
test_scouts_are_the_best_of_their_kind(void **state)
{
  int out[24 * KNOBS], others = 0;

  (void)state;
  batch_by_kind(1, out);
  for (int i = 0; i < 24; i++)
    if (out[i * KNOBS + 6] == 1) {
      others++;
      assert_true(out[i * KNOBS] >= 8); /* 32 draws of 12 values */
    }
  assert_in_range(others, 6, 18); /* of 24, each with even chances */
}

static bool
rare(void *ctx, const int *c, float *row)
{
  int *n = ctx;

  (*n)++;
  row[0] = 0;
  return c[0] == 17 && c[1] == 23; /* one in ten thousand */
}

static void
test_search_finds_the_one_legal(void **state)
{
  static const int size[2] = {100, 100};
  static const bool order[2] = {true, true};
  int calls = 0, out[4];
  const struct tt_search_space space = {2, size, order, 1, rare, NULL, &calls};
  struct tt_searcher *s = tt_searcher_new(&space, &tt_search_defaults, 1);

  (void)state;
  assert_int_equal(tt_search_random(s, 2, out), 1);
  assert_int_equal(out[0], 17);
  assert_int_equal(out[1], 23);
  assert_int_equal(calls, 10000); /* each is looked at once */
  tt_searcher_free(s);
}

static bool
first_kind(void *ctx, const int *c)
{
  (void)ctx;
  return c[6] == 0;
}

static void
test_search_asks_whether_it_is_news(void **state)
{
  struct tt_search_space space = synthetic();
  struct tt_searcher *s;
  int out[20 * KNOBS];

  (void)state;
  space.fresh = first_kind;
  s = tt_searcher_new(&space, &tt_search_defaults, 1);
  assert_int_equal(tt_search_random(s, 20, out), 20);
  for (int i = 0; i < 20; i++)
    assert_int_equal(out[i * KNOBS + 6], 0);
  tt_searcher_free(s);
}

static bool
nothing(void *ctx, const int *c, float *row)
{
  (void)ctx;
  (void)c;
  row[0] = 0;
  return true;
}

static void
test_search_without_knobs(void **state)
{
  const struct tt_search_space space = {0, NULL, NULL, 1, nothing, NULL, NULL};
  struct tt_searcher *s = tt_searcher_new(&space, &tt_search_defaults, 1);
  const char *error = NULL;
  int none[1] = {0};

  (void)state;
  assert_int_equal(tt_search_random(s, 3, none), 1);
  assert_int_equal(tt_search_random(s, 3, none), 0);
  assert_int_equal(tt_search_anneal(s, NULL, 1, none, 3, none, &error), 0);
  tt_searcher_free(s);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gbt_learns_an_order),
      cmocka_unit_test(test_gbt_odd_data),
      cmocka_unit_test(test_learning_beats_random),
      cmocka_unit_test(test_search_is_a_function_of_its_seed),
      cmocka_unit_test(test_search_exhausts_a_space),
      cmocka_unit_test(test_search_by_odd_scores),
      cmocka_unit_test(test_batch_has_one_of_equal_scores),
      cmocka_unit_test(test_scouts_are_the_best_of_their_kind),
      cmocka_unit_test(test_search_finds_the_one_legal),
      cmocka_unit_test(test_search_asks_whether_it_is_news),
      cmocka_unit_test(test_search_without_knobs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
