/* The model that ships: its file, what it knows, and that a run begins with
 * it. */
#include "config.h"

#include "tuner/pretrained.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/fake_tuning.h"
#include "tests/product.h"
#include "tuner/random.h"
#include "tuner/trials.h"

static const struct tt_target_model target = {.vector_bytes = 64,
                                              .registers = 32,
                                              .l1 = 32 << 10,
                                              .l2 = 1 << 20,
                                              .l3 = 32 << 20,
                                              .threads = 1};

/* ---- the file ---------------------------------------------------------- */

enum kind { TREE, SPLIT, LEAF };
struct item {
  enum kind kind;
  int number, next; /* nodes of a tree, or a feature */
  float value;
};

#define TT_PRETRAINED(version, width)
#define TT_TREE(count) {TREE, count, 0, 0},
#define TT_SPLIT(feature, threshold, next) {SPLIT, feature, next, threshold},
#define TT_LEAF(value) {LEAF, 0, 0, value},
static const struct item items[] = {
#include "tuner/pretrained.def"
};
#undef TT_PRETRAINED
#undef TT_TREE
#undef TT_SPLIT
#undef TT_LEAF

enum { ITEMS = sizeof items / sizeof *items };

/* Each child belongs to one parent before it, in the same tree. */
static void
check_tree(const struct item *nodes, int n, int width)
{
  int parents[512] = {0};

  assert_in_range(n, 1, 511);
  for (int i = 0; i < n; i++) {
    assert_true(isfinite(nodes[i].value));
    assert_int_not_equal(nodes[i].kind, TREE);
    assert_int_equal(parents[i], i > 0);
    if (nodes[i].kind == LEAF)
      continue;
    assert_in_range(nodes[i].next, 1, n - 2 - i);
    assert_in_range(nodes[i].number, 0, width - 1);
    parents[i + nodes[i].next]++;
    parents[i + nodes[i].next + 1]++;
  }
}

static void
test_trees(void **state)
{
  int width = tt_features_width(TT_FEATURES_RELATION, NULL), trees = 0;

  (void)state;
  for (int i = 0; i < ITEMS; i += 1 + items[i].number, trees++) {
    assert_int_equal(items[i].kind, TREE);
    assert_true(i + items[i].number < ITEMS);
    check_tree(items + i + 1, items[i].number, width);
  }
  assert_true(trees > 1);
}

/* It must be made anew whenever features are. */
static void
test_is_of_these_features(void **state)
{
  struct tt_target_model other = target;
  struct tt_cost_model *m = tt_pretrained_new(TT_FEATURES_RELATION, &target);

  (void)state;
  assert_non_null(m);
  m->ops->free(m);
  assert_null(tt_pretrained_new(TT_FEATURES_CONTEXT, &target));
  assert_null(tt_pretrained_new(TT_FEATURES_CONFIG, &target));
  assert_null(tt_pretrained_new(TT_FEATURES_TREE, &target));
  other.threads = 2;
  assert_null(tt_pretrained_new(TT_FEATURES_RELATION, &other));
  other.threads = 1;
  other.vector_bytes = 0;
  assert_null(tt_pretrained_new(TT_FEATURES_RELATION, &other));
}

static void
test_refuses(void **state)
{
  struct tt_cost_model *m = tt_pretrained_new(TT_FEATURES_RELATION, &target);
  float row[3] = {0}, score;
  const char *error = NULL;

  (void)state;
  assert_false(m->ops->predict(m, 1, 3, row, &score, &error));
  assert_non_null(error);
  error = NULL;
  assert_false(tt_cost_fit(m, 1, 3, row, row, &error));
  assert_non_null(error);
  m->ops->free(m);
}

/* ---- what it knows ----------------------------------------------------- */

struct made {
  struct tt_arena *arena, *scratch;
  struct tt_space *space;
  int *config;
};

static struct made
make(int64_t n)
{
  struct made d = {.arena = tt_arena_new(), .scratch = tt_arena_new()};

  d.space =
      tt_space_new(d.arena, product(d.arena, n, product_names), &target, false);
  d.config = TT_ARRAY(d.arena, int, (size_t)d.space->nknobs + 1);
  tt_space_default(d.space, d.config);
  return d;
}

static void
unmake(struct made *d)
{
  tt_arena_free(d->arena);
  tt_arena_free(d->scratch);
}

/* -infinity: illegal. */
static float
score(struct made *d, struct tt_cost_model *m, const int *config)
{
  int width = tt_features_width(TT_FEATURES_RELATION, d->space);
  float *row, s = 0;
  const char *error = NULL;
  struct tt_schedule *schedule;

  tt_arena_reset(d->scratch);
  schedule = tt_space_schedule(d->scratch, d->space, config);
  if (schedule == NULL)
    return -INFINITY;
  row = TT_ARRAY(d->scratch, float, (size_t)width);
  tt_features(TT_FEATURES_RELATION, schedule, &target, d->space, config, row);
  assert_true(m->ops->predict(m, 1, width, row, &s, &error));
  return s;
}

/* The default schedule of a product is better than nearly all. */
static void
test_orders_schedules(void **state)
{
  struct made d = make(200);
  struct tt_cost_model *m = tt_pretrained_new(TT_FEATURES_RELATION, &target);
  int *config = TT_ARRAY(d.arena, int, (size_t)d.space->nknobs + 1);
  int legal = 0, worse = 0;
  float of_default = score(&d, m, d.config);
  uint64_t random = 1;

  (void)state;
  for (int i = 0; i < 300; i++) {
    for (int k = 0; k < d.space->nknobs; k++)
      config[k] = tt_draw_below(&random, d.space->knobs[k].n);
    float s = score(&d, m, config);
    legal += s != -INFINITY;
    worse += s != -INFINITY && s < of_default;
  }
  assert_true(legal > 50);
  assert_true(worse > 0.9 * legal);
  m->ops->free(m);
  unmake(&d);
}

/* ---- the first batch --------------------------------------------------- */

/* The mean score of what a run measures first, but for the default. */
static double
first_batch(struct made *d, struct tt_cost_model *m, bool no_transfer)
{
  struct tt_program *p = product(d->arena, 160, product_names);
  struct tt_tune_options o = {.trials = 16,
                              .seed = 1,
                              .target = target,
                              .no_transfer = no_transfer,
                              .measure_ops = &fake_ops};
  struct tt_tuned t;
  double sum = 0;

  fake_reset();
  t = tt_tune(d->arena, p, &o);
  assert_int_equal(t.status, TT_TUNED);
  assert_int_equal(t.pretrained, !no_transfer);
  for (int i = 1; i < fake.measured; i++) {
    float row[512], s;
    const char *error;
    struct tt_schedule *schedule =
        tt_schedule_of_text(d->arena, p, false, fake.texts[i]);
    assert_non_null(schedule);
    tt_features(TT_FEATURES_RELATION, schedule, &target, d->space, NULL, row);
    assert_true(m->ops->predict(
        m, 1, tt_features_width(TT_FEATURES_RELATION, NULL), row, &s, &error));
    sum += (double)s / (fake.measured - 1);
  }
  fake_forget();
  return sum;
}

static void
test_first_batch(void **state)
{
  struct made d = make(160);
  struct tt_cost_model *m = tt_pretrained_new(TT_FEATURES_RELATION, &target);
  double plain = first_batch(&d, m, true), informed = first_batch(&d, m, false);

  (void)state;
  if (!(informed > plain + 1))
    fail_msg("scores %g, without the model %g", informed, plain);
  m->ops->free(m);
  unmake(&d);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_trees),
      cmocka_unit_test(test_is_of_these_features),
      cmocka_unit_test(test_refuses),
      cmocka_unit_test(test_orders_schedules),
      cmocka_unit_test(test_first_batch),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
