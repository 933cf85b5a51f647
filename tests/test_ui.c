/* What is shown while tuning, as text. */
#include "config.h"

#include "tuner/ui.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct tt_ui_program shown = {"mm", "GFLOP/s"};

static struct tt_progress
sample(void)
{
  struct tt_progress p = {
      .trials = 16,
      .all_trials = 16,
      .max_trials = 64,
      .elapsed = 15,
      .max_seconds = 120,
      .best = 0.0187,
      .plain = 0.174,
      .flops = 2147483648.0,
      .phase = "measuring",
  };
  p.outcomes[TT_OUT_OK] = 13;
  p.outcomes[TT_OUT_BUILD] = 2;
  p.outcomes[TT_OUT_WRONG] = 1;
  return p;
}

static void
test_seconds(void **state)
{
  (void)state;
  static const struct {
    double seconds;
    const char *text;
  } cases[] = {
      {1234, "1234 s"},    {2.5, "2.50 s"},         {0.0187, "18.7 ms"},
      {0.99999, "1.00 s"}, {0.00099999, "1.00 ms"}, {123e-6, "123 us"},
      {4.2e-9, "4.20 ns"}, {9.996, "10.0 s"},       {99.96, "100 s"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct tt_sb sb = {0};
    tt_ui_seconds(&sb, cases[i].seconds);
    assert_string_equal(sb.s, cases[i].text);
    tt_sb_free(&sb);
  }
}

static void
test_speed(void **state)
{
  (void)state;
  struct tt_sb sb = {0};
  tt_ui_speed(&sb, 0.0187, 0.174, 2147483648.0, "GFLOP/s");
  assert_string_equal(
      sb.s, "18.7 ms a call, 115 GFLOP/s, 9.30 times the plain loops (174 ms)");
  tt_sb_clear(&sb);
  tt_ui_speed(&sb, 0.5, 0, 0, "GFLOP/s");
  assert_string_equal(sb.s, "500 ms a call");
  tt_sb_free(&sb);
}

static void
test_trials(void **state)
{
  (void)state;
  struct tt_progress p = sample();
  struct tt_sb sb = {0};
  tt_ui_trials(&sb, &p);
  assert_string_equal(sb.s, "16 trials in 15.0 s; failed: 2 compiler error, "
                            "1 wrong result");
  memset(p.outcomes, 0, sizeof p.outcomes);
  p.outcomes[TT_OUT_CANCELLED] = 5; /* no failure */
  p.trials = 1;
  tt_sb_clear(&sb);
  tt_ui_trials(&sb, &p);
  assert_string_equal(sb.s, "1 trial in 15.0 s");
  tt_sb_free(&sb);
}

static void
test_bar(void **state)
{
  (void)state;
  struct tt_progress p = sample();
  struct tt_sb sb = {0};
  tt_ui_bar(&sb, &p, 1, &shown, 200);
  assert_string_equal(
      sb.s, "mm [==>       ] 16/64 trials, 15 s, 45 s left, 18.7 ms, 115 "
            "GFLOP/s, 9.30x, failed: 2 build, 1 wrong, measuring");
  /* Never as wide as the terminal: it would wrap. */
  for (int columns = 0; columns < 120; columns++) {
    tt_sb_clear(&sb);
    tt_ui_bar(&sb, &p, 1, &shown, columns);
    assert_true(sb.len == 0 || sb.len < (size_t)columns);
  }
  /* Without a budget there is no bar, without a result no speed. */
  p = (struct tt_progress){
      .trials = 3, .all_trials = 3, .max_trials = -1, .elapsed = 2};
  tt_sb_clear(&sb);
  tt_ui_bar(&sb, &p, 1, &shown, 200);
  assert_string_equal(sb.s, "mm 3 trials, 2 s");
  tt_sb_free(&sb);
}

static void
test_several(void **state)
{
  (void)state;
  static const struct tt_ui_program both[] = {{"mm", "GFLOP/s"},
                                              {"conv", "Gop/s"}};
  struct tt_progress p = sample();
  struct tt_sb sb = {0};
  p.program = 1;
  p.all_trials = 32;
  tt_ui_bar(&sb, &p, 2, both, 70);
  assert_string_equal(sb.s, "conv (2 of 2) [=====>    ] 32/64 trials, 15 s, "
                            "15 s left, 18.7 ms, 11");
  tt_sb_clear(&sb);
  p = (struct tt_progress){.trials = 3, .all_trials = 9};
  tt_ui_json(&sb, "progress", "conv", &p, NULL);
  assert_string_equal(sb.s, "{\"event\": \"progress\", \"program\": "
                            "\"conv\", \"trials\": 3, \"elapsed\": 0.000, "
                            "\"outcomes\": {}}");
  tt_sb_free(&sb);
}

static void
test_stopped(void **state)
{
  (void)state;
  struct tt_tuned t = {.expected_gain = 0.0031, .noise = 0.001, .ahead = 64};
  struct tt_sb sb = {0};
  tt_ui_stopped(&sb, &t);
  assert_string_equal(tt_sb_str(&sb), "");
  t.final.stopped = "gain";
  tt_ui_stopped(&sb, &t);
  assert_string_equal(sb.s,
                      "stopped: 64 more trials are expected to gain 0.31 %");
  tt_sb_clear(&sb);
  t.noise = 0.0062;
  tt_ui_stopped(&sb, &t);
  assert_string_equal(sb.s, "stopped: 64 more trials are expected to gain "
                            "0.31 %, within noise (0.62 %)");
  tt_sb_clear(&sb);
  t.final.stopped = "exhausted";
  tt_ui_stopped(&sb, &t);
  assert_string_equal(sb.s, "stopped: every schedule of the space was "
                            "measured");
  tt_sb_free(&sb);
}

static void
test_json(void **state)
{
  (void)state;
  struct tt_progress p = sample();
  struct tt_sb sb = {0};
  tt_ui_json(&sb, "tuned", NULL, &p, "a\"b\\\n.c");
  assert_string_equal(
      sb.s, "{\"event\": \"tuned\", \"trials\": 16, \"max_trials\": 64, "
            "\"elapsed\": 15.000, \"max_seconds\": 120, \"best\": 0.0187, "
            "\"plain\": 0.174, \"flops\": 2147483648, \"phase\": "
            "\"measuring\", \"outcomes\": {\"ok\": 13, \"build\": 2, "
            "\"wrong\": 1}, \"output\": \"a\\\"b\\\\\\u000a.c\"}");
  tt_sb_free(&sb);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_seconds), cmocka_unit_test(test_speed),
      cmocka_unit_test(test_trials),  cmocka_unit_test(test_bar),
      cmocka_unit_test(test_json),    cmocka_unit_test(test_stopped),
      cmocka_unit_test(test_several),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
