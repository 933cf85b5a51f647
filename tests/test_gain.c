/* The expected gain of more trials, against what samples do gain. */
#include "config.h"

#include "tuner/gain.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tuner/random.h"

enum { MOST = 512 };
static struct tt_trial items[MOST];

static struct tt_trials
trials(int n)
{
  return (struct tt_trials){.n = n, .items = items};
}

static void
set(int i, double seconds)
{
  items[i].result = (struct tt_result){
      .outcome = seconds > 0 ? TT_OUT_OK : TT_OUT_WRONG, .seconds = seconds};
}

/* Log speeds with an exponential tail, some of them failures. */
static void
draw(uint64_t *random, int n, double scale)
{
  for (int i = 0; i < n; i++) {
    double u = (tt_draw_below(random, 1 << 20) + 0.5) / (1 << 20);
    set(i, tt_draw_below(random, 10) ? exp(scale * log(u)) : 0);
  }
}

static double
best_of(int from, int n)
{
  double best = INFINITY;

  for (int i = from; i < from + n; i++)
    if (items[i].result.seconds > 0)
      best = fmin(best, items[i].result.seconds);
  return best;
}

static void
test_gain_of_samples(void **state)
{
  enum { N = 128, MORE = 64, ROUNDS = 400 };
  uint64_t random = 7;
  double expected = 0, gained = 0;

  (void)state;
  for (int round = 0; round < ROUNDS; round++) {
    struct tt_trials t = trials(N);
    draw(&random, N + MORE, 0.05);
    expected += tt_expected_gain(&t, MORE);
    gained += fmax(0, log(best_of(0, N) / best_of(N, MORE)));
  }
  /* The more hopeful of two windows is believed: never less than half, and
   * not out of all proportion. */
  assert_true(gained > 0);
  assert_true(expected > 0.5 * gained);
  assert_true(expected < 3 * gained);
}

static void
test_gain_follows_the_tail(void **state)
{
  struct tt_trials t = trials(128);
  uint64_t random = 3;
  double wide, narrow, outlier;

  (void)state;
  draw(&random, 128, 0.1);
  wide = tt_expected_gain(&t, 64);
  assert_true(tt_expected_gain(&t, 128) > wide);
  random = 3;
  draw(&random, 128, 0.01);
  narrow = tt_expected_gain(&t, 64);
  assert_true(fabs(wide / narrow - 10) < 1e-6); /* in its scale */
  /* A best one far from all others will hardly be beaten; that it was long
   * ago, too, changes nothing. */
  t = trials(400);
  draw(&random, 400, 0.01);
  set(0, 0.5 * best_of(0, 400));
  outlier = tt_expected_gain(&t, 64);
  assert_true(outlier < 1e-6);
}

static void
test_gain_at_the_edges(void **state)
{
  struct tt_trials t = trials(0);

  (void)state;
  assert_true(tt_expected_gain(&t, 64) > 0.99);
  for (int i = 0; i < 300; i++)
    set(i, 0);
  t = trials(30); /* all failed: the more, the less hope */
  assert_true(tt_expected_gain(&t, 1) > 0.03);
  t = trials(300);
  assert_true(tt_expected_gain(&t, 1) < 0.004);
  set(299, 1e-3); /* one was right */
  assert_true(tt_expected_gain(&t, 64) >= 0);
  for (int i = 0; i < 300; i++)
    set(i, 1e-3); /* all the same */
  assert_true(tt_expected_gain(&t, 64) == 0);
  t = trials(1);
  assert_true(tt_expected_gain(&t, 64) == 0);
}

static void
test_noise(void **state)
{
  struct tt_trials t = trials(40);

  (void)state;
  for (int i = 0; i < 40; i++) {
    set(i, 1e-3 * (i + 1));
    items[i].result.spread = i < 10 ? 0.008 : 0.5;
  }
  items[2].result.spread = 0.3; /* one that was disturbed */
  assert_true(fabs(tt_gain_noise(&t) - 0.004) < 1e-12);
  for (int i = 0; i < 40; i++)
    items[i].result.spread = 0.5;
  assert_true(tt_gain_noise(&t) == 0.0075);
  t = trials(0);
  assert_true(tt_gain_noise(&t) == 0);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_gain_of_samples),
      cmocka_unit_test(test_gain_follows_the_tail),
      cmocka_unit_test(test_gain_at_the_edges),
      cmocka_unit_test(test_noise),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
