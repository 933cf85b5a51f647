/* The tuning loop, without a toolchain: against a measurer and spaces of our
 * own.  Nothing here depends on time. */
#include "config.h"

#include "tuner/tune.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/fake_tuning.h"
#include "tests/product.h"
#include "tuner/history_db.h"
#include "tuner/trials.h"

struct bed { /* what a test of the loop has */
  struct tt_arena *arena;
  struct tt_program *program;
  struct tt_tune_options o;
  char dir[64];
};

static int
setup_bed(void **state)
{
  struct bed *b = calloc(1, sizeof *b);

  b->arena = tt_arena_new();
  b->program = product(b->arena, 128, product_names);
  fake_reset();
  b->o = (struct tt_tune_options){
      .trials = 64,
      .seed = 1,
      .search = TT_SEARCH_ANNEAL,
      .model = TT_MODEL_GBT,
      .target = product_target,
      .workload = {"", "a product", "cpu", "cc", "none"},
      .interrupted = &fake.interrupted,
      .measure_ops = &fake_ops,
      .space_ops = &fake_space,
  };
  b->o.workload.program = tt_program_hash(b->arena, b->program);
  *state = b;
  return 0;
}

static int
teardown_bed(void **state)
{
  struct bed *b = *state;
  char command[128];

  assert_int_equal(fake.opened, 0);
  fake_forget();
  tt_history_close(b->o.history);
  tt_arena_free(b->arena);
  if (b->dir[0]) {
    snprintf(command, sizeof command, "rm -rf %s", b->dir);
    assert_int_equal(system(command), 0);
  }
  free(b);
  return 0;
}

static void
add_history(struct bed *b)
{
  const char *error = NULL;

  strcpy(b->dir, "/tmp/tt-tuner-XXXXXX");
  assert_non_null(mkdtemp(b->dir));
  b->o.history = tt_history_open(
      tt_arena_printf(b->arena, "%s/history.db", b->dir), &error);
  assert_non_null(b->o.history);
}

static int
records(struct bed *b)
{
  struct tt_record *r;
  const char *error = NULL;
  int n = tt_history_load(b->o.history, b->arena, &b->o.workload, &r, &error);

  assert_true(n >= 0);
  return n;
}

static struct tt_tuned
tune(struct bed *b)
{
  return tt_tune(b->arena, b->program, &b->o);
}

static void
test_tune(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t = tune(b);

  assert_int_equal(t.status, TT_TUNED);
  assert_int_equal(fake.measured, 64);
  assert_int_equal(t.final.trials, 64);
  assert_int_equal(t.final.outcomes[TT_OUT_WRONG], 6);
  assert_true(t.checked);
  assert_true(t.max_error == 0.125);
  assert_true(t.plain_seconds == 0.5);
  assert_true(fabs(t.seconds - fake_seconds(t.schedule)) < 1e-12);
  assert_true(t.seconds < 2e-3); /* of 1e-3 to 20e-3 */
  assert_true(fake.finals >= 2);
  assert_null(t.warning);
}

static void
test_tune_is_a_function_of_its_seed(void **state)
{
  struct bed *b = *state;
  char *first[64];

  tune(b);
  memcpy(first, fake.texts, sizeof first);
  fake.measured = 0;
  tune(b);
  for (int i = 0; i < 64; i++) {
    assert_string_equal(first[i], fake.texts[i]);
    free(first[i]);
  }
}

static void
test_tune_searches_and_models(void **state)
{
  struct bed *b = *state;

  b->o.search = TT_SEARCH_RANDOM;
  assert_int_equal(tune(b).status, TT_TUNED);
  assert_int_equal(fake.measured, 64);
  fake_forget();
  for (int search = TT_SEARCH_ANNEAL; search <= TT_SEARCH_GENETIC; search++)
    for (int model = TT_MODEL_GBT; model <= TT_MODEL_NONE; model++) {
      fake_forget();
      b->o.search = (enum tt_search)search;
      b->o.model = (enum tt_model)model;
      assert_int_equal(tune(b).status, TT_TUNED);
      assert_int_equal(fake.measured, 64);
    }
}

static void
test_tune_with_other_models(void **state)
{
  struct bed *b = *state;

  for (int f = TT_FEATURES_RELATION; f <= TT_FEATURES_CONFIG; f++)
    for (int a = TT_MEAN; a <= TT_UPPER_BOUND; a++) {
      fake_forget();
      b->o.objective = f == TT_FEATURES_CONTEXT ? TT_REGRESSION : TT_RANK;
      b->o.features = (enum tt_features_kind)f;
      b->o.acquisition = (enum tt_acquisition)a;
      assert_int_equal(tune(b).status, TT_TUNED);
      assert_int_equal(fake.measured, 64);
    }
}

static void
test_tune_without_trials(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  b->o.trials = 0;
  t = tune(b);
  assert_int_equal(t.status, TT_TUNED);
  assert_non_null(t.schedule);
  assert_false(t.checked);
  assert_int_equal(fake.measured, 0);
}

static void
test_tune_exhausts_a_space(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  b->o.space_ops = &fake_tiny_space;
  b->o.trials = -1; /* no limit of any kind */
  t = tune(b);
  assert_int_equal(t.status, TT_TUNED);
  /* 8 tiles, 3 orders; the knob "vector" changes nothing but legality. */
  assert_int_equal(fake.measured, 24);
  assert_string_equal(t.final.stopped, "exhausted");
}

static void
test_tune_stops_when_little_is_to_be_gained(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  b->o.trials = 600;
  b->o.min_gain = 0.005;
  t = tune(b);
  assert_int_equal(t.status, TT_TUNED);
  assert_in_range(fake.measured, 64, 599);
  assert_string_equal(t.final.stopped, "gain");
  assert_true(t.expected_gain < 0.005);
  assert_true(t.seconds <= 1.3e-3); /* of 1e-3 to 20e-3 */
  /* The same search to the end of its budget, and one that may not stop. */
  b->o.min_gain = 0;
  fake_forget();
  t = tune(b);
  assert_int_equal(fake.measured, 600);
  assert_null(t.final.stopped);
}

static void
test_retune_does_not_stop_at_once(void **state)
{
  struct bed *b = *state;
  int before;

  add_history(b);
  b->o.trials = 600;
  b->o.min_gain = 0.005;
  tune(b);
  before = fake.measured;
  b->o.retune = true;
  b->o.seed = 2;
  tune(b);
  assert_true(fake.measured >= before + 64);
}

static void
test_tune_interrupted(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  add_history(b);
  fake.interrupt_at = 21;
  t = tune(b);
  assert_int_equal(t.status, TT_INTERRUPTED);
  assert_int_equal(fake.measured, 21);
  assert_int_equal(fake.finals, 0);
  assert_non_null(t.schedule);
  assert_true(t.checked);
  assert_true(fabs(t.seconds - fake_seconds(t.schedule)) < 1e-12);
  assert_int_equal(records(b), 21);

  /* Go on where it stopped: nothing is measured twice. */
  fake.interrupt_at = -1;
  fake.interrupted = 0;
  t = tune(b);
  assert_int_equal(t.status, TT_TUNED);
  assert_int_equal(fake.measured, 64);
  assert_int_equal(t.final.trials, 64);
  assert_int_equal(records(b), 64);
}

static void
test_tune_interrupted_at_once(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  fake.interrupted = 1;
  t = tune(b);
  assert_int_equal(t.status, TT_INTERRUPTED);
  assert_non_null(t.schedule); /* the default one */
  assert_false(t.checked);
  fake.open_fails = true; /* Ctrl-C may kill the compiler too */
  t = tune(b);
  assert_int_equal(t.status, TT_INTERRUPTED);
  assert_non_null(t.schedule);
}

static void
test_tune_reuses(void **state)
{
  static const char *const others[6] = {"P", "Q", "R", "i", "j", "l"};
  struct bed *b = *state;
  struct tt_tuned first, t;

  add_history(b);
  first = tune(b);
  assert_int_equal(first.status, TT_TUNED);
  t = tune(b);
  assert_int_equal(t.status, TT_REUSED);
  assert_int_equal(fake.measured, 64);
  assert_true(t.seconds == first.seconds);
  assert_true(t.plain_seconds == first.plain_seconds);
  assert_true(t.max_error == first.max_error);
  assert_true(t.checked);
  assert_string_equal(tt_schedule_text(b->arena, t.schedule),
                      tt_schedule_text(b->arena, first.schedule));
  /* A larger budget does not change that; another seed neither. */
  b->o.trials = 128;
  b->o.seed = 2;
  assert_int_equal(tune(b).status, TT_REUSED);
  /* Names do not matter. */
  b->program = product(b->arena, 128, others);
  t = tune(b);
  assert_int_equal(t.status, TT_REUSED);
  assert_true(fake_seconds(t.schedule) == fake_seconds(first.schedule));
  assert_int_equal(fake.measured, 64);
  /* Another compiler does. */
  b->program = product(b->arena, 128, product_names);
  b->o.workload.compiler = "another";
  fake_forget();
  assert_int_equal(tune(b).status, TT_TUNED);
}

static void
test_retune_searches_on(void **state)
{
  struct bed *b = *state;
  struct tt_tuned first, t;

  add_history(b);
  b->o.trials = 32;
  first = tune(b);
  b->o.retune = true;
  t = tune(b);
  assert_int_equal(t.status, TT_TUNED);
  assert_int_equal(fake.measured, 64); /* 32 others */
  assert_true(t.seconds <= first.seconds);
  b->o.retune = false;
  assert_int_equal(tune(b).status, TT_REUSED);
}

static void
test_tune_survives_a_failing_history(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  add_history(b);
  sqlite3_exec(b->o.history->db, "PRAGMA max_page_count=12", 0, 0, 0);
  t = tune(b);
  assert_int_equal(t.status, TT_TUNED);
  assert_int_equal(fake.measured, 64);
  assert_non_null(t.warning);
  assert_non_null(strstr(t.warning, "no space left"));
  assert_null(strchr(t.warning, '\n'));
}

static void
test_tune_saves_late(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;
  struct tt_history *other;
  const char *error = NULL;

  add_history(b);
  /* Locked for a moment: the records wait, and are written in the end. */
  other = tt_history_open(tt_arena_printf(b->arena, "%s/history.db", b->dir),
                          &error);
  sqlite3_busy_timeout(b->o.history->db, 1);
  assert_true(tt_history_begin(other, &error));
  fake.interrupt_at = 10;
  t = tune(b);
  assert_int_equal(t.status, TT_INTERRUPTED);
  assert_non_null(strstr(t.warning, "locked"));
  assert_true(tt_history_commit(other, &error));
  tt_history_close(other);
  assert_int_equal(records(b), 0);
  fake.interrupt_at = -1;
  fake.interrupted = 0;
  fake_forget();
  t = tune(b);
  assert_null(t.warning);
  assert_int_equal(records(b), 64);
}

static void
test_tune_no_candidate(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  fake.all_wrong = true;
  t = tune(b);
  assert_int_equal(t.status, TT_NO_CANDIDATE);
  assert_null(t.schedule);
  assert_int_equal(t.final.outcomes[TT_OUT_WRONG], 64);
  assert_non_null(strstr(t.error, "wrong result: C[0,1] is 3, not 4"));
}

static void
test_tune_toolchain(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  fake.open_fails = true;
  t = tune(b);
  assert_int_equal(t.status, TT_TOOLCHAIN);
  assert_string_equal(t.error, "cc: not found");
  assert_null(t.schedule);

  fake.open_fails = false;
  fake.break_at = 12;
  t = tune(b);
  assert_int_equal(t.status, TT_TOOLCHAIN);
  assert_string_equal(t.error, "the disk is full");
  assert_non_null(t.schedule); /* the best of twelve */
}

static void
test_winner_must_beat_noise(void **state)
{
  struct bed *b = *state;
  const char *initial;
  int zeros[5] = {0};
  struct tt_tuned t;

  fake.final_gain = 0.01;
  fake.final_spread = 0.04; /* half of it is more than the gain */
  t = tune(b);
  initial =
      tt_schedule_text(b->arena, fake_space.schedule(b->arena, NULL, zeros));
  assert_string_equal(tt_schedule_text(b->arena, t.schedule), initial);
  fake_forget();
  fake.final_spread = 0.002;
  t = tune(b);
  assert_string_not_equal(tt_schedule_text(b->arena, t.schedule), initial);
}

static void
test_plain_loops_may_win(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  fake.plain = 1e-5;
  t = tune(b);
  assert_int_equal(t.status, TT_TUNED);
  assert_int_equal(t.schedule->ncalls, 0);
  assert_true(t.seconds == 1e-5);
}

static void
count_report(void *ctx, const struct tt_progress *p)
{
  int *n = ctx;

  assert_non_null(p->phase);
  assert_true(p->trials <= p->max_trials);
  (*n)++;
}

static void
test_progress(void **state)
{
  struct bed *b = *state;
  int n = 0;

  b->o.progress = count_report;
  b->o.progress_ctx = &n;
  tune(b);
  assert_true(n >= 64);
}

static void
test_time_budget(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  /* Spent before it begins: the default schedule is measured all the same. */
  b->o.trials = -1;
  b->o.seconds = 1e-9;
  t = tune(b);
  assert_int_equal(t.status, TT_TUNED);
  assert_in_range(fake.measured, 1, 32);
  assert_true(t.checked);
}

/* ---- several programs -------------------------------------------------- */

enum { SEVERAL = 3 };
struct several {
  const struct tt_program *programs[SEVERAL];
  struct tt_tune_options o[SEVERAL];
  struct tt_tuned t[SEVERAL];
};

/* Products of three sizes; what the bed's options say holds for all. */
static struct several
several(struct bed *b)
{
  struct several s;

  for (int i = 0; i < SEVERAL; i++) {
    s.programs[i] = product(b->arena, 128 + 128 * i, product_names);
    s.o[i] = b->o;
    s.o[i].workload.program = tt_program_hash(b->arena, s.programs[i]);
  }
  return s;
}

static void
tune_several(struct bed *b, struct several *s)
{
  tt_tune_several(b->arena, SEVERAL, s->programs, s->o, s->t);
}

/* How many trials the program had. */
static int
trials_of(const struct several *s, int i)
{
  int n = 0;

  for (int k = 0; k < fake.measured; k++)
    n += fake.programs[k] == s->programs[i];
  assert_int_equal(n, s->t[i].final.trials);
  return n;
}

static void
test_several_share_a_budget(void **state)
{
  struct bed *b = *state;
  struct several s;
  char *first[240];

  b->o.trials = 240;
  s = several(b);
  tune_several(b, &s);
  assert_int_equal(fake.measured, 240);
  for (int i = 0; i < SEVERAL; i++) {
    assert_int_equal(s.t[i].status, TT_TUNED);
    assert_ptr_equal(s.t[i].schedule->program, s.programs[i]);
    assert_in_range(trials_of(&s, i), 32, 160);
    assert_true(s.t[i].seconds < 2.5e-3);
  }
  /* A function of the seed. */
  memcpy(first, fake.texts, sizeof first);
  fake.measured = 0;
  tune_several(b, &s);
  for (int i = 0; i < 240; i++) {
    assert_string_equal(first[i], fake.texts[i]);
    free(first[i]);
  }
}

static void
test_several_by_gain(void **state)
{
  struct bed *b = *state;
  struct several s;

  b->o.trials = 240;
  s = several(b);
  fake.flat = s.programs[1];
  tune_several(b, &s);
  assert_int_equal(fake.measured, 240);
  assert_int_equal(trials_of(&s, 1), 16); /* the first batch alone */
  assert_in_range(trials_of(&s, 0), 48, 224);
  assert_in_range(trials_of(&s, 2), 48, 224);
}

static void
test_several_stop(void **state)
{
  struct bed *b = *state;
  struct several s;

  b->o.trials = -1;
  b->o.min_gain = 0.005;
  s = several(b);
  fake.flat = s.programs[0];
  tune_several(b, &s);
  assert_int_equal(trials_of(&s, 0), 80); /* more than 64 */
  for (int i = 0; i < SEVERAL; i++) {
    assert_int_equal(s.t[i].status, TT_TUNED);
    assert_string_equal(s.t[i].final.stopped, "gain");
  }
}

static void
test_several_with_small_budgets(void **state)
{
  struct bed *b = *state;
  struct several s;

  /* Each has its default schedule measured, whatever the budget. */
  b->o.trials = 1;
  s = several(b);
  tune_several(b, &s);
  for (int i = 0; i < SEVERAL; i++) {
    assert_int_equal(s.t[i].status, TT_TUNED);
    assert_int_equal(trials_of(&s, i), 1);
  }
  fake_forget();
  b->o.trials = 13;
  s = several(b);
  tune_several(b, &s);
  for (int i = 0; i < SEVERAL; i++)
    assert_in_range(trials_of(&s, i), 4, 5);
  fake_forget();
  b->o.trials = -1;
  b->o.seconds = 1e-9;
  s = several(b);
  tune_several(b, &s);
  for (int i = 0; i < SEVERAL; i++) {
    assert_int_equal(s.t[i].status, TT_TUNED);
    assert_in_range(trials_of(&s, i), 1, 32);
  }
}

static void
test_several_and_one_fails(void **state)
{
  struct bed *b = *state;
  struct several s;

  b->o.trials = 240;
  s = several(b);
  fake.bad = s.programs[0];
  fake.hopeless = s.programs[2];
  tune_several(b, &s);
  assert_int_equal(s.t[0].status, TT_TOOLCHAIN);
  assert_string_equal(s.t[0].error, "cc: not found");
  assert_int_equal(s.t[1].status, TT_TUNED);
  assert_true(trials_of(&s, 1) >= 16);
  assert_int_equal(s.t[2].status, TT_NO_CANDIDATE);
  assert_non_null(strstr(s.t[2].error, "wrong result"));
  assert_int_equal(fake.measured, 240);
}

static void
test_several_interrupted(void **state)
{
  struct bed *b = *state;
  struct several s;

  add_history(b);
  b->o.trials = 240;
  fake.interrupt_at = 20; /* in the first batch of the second */
  s = several(b);
  tune_several(b, &s);
  assert_int_equal(fake.measured, 20);
  for (int i = 0; i < SEVERAL; i++) {
    assert_int_equal(s.t[i].status, TT_INTERRUPTED);
    assert_non_null(s.t[i].schedule);
    assert_int_equal(s.t[i].checked, i < 2);
  }
  /* Go on; what was finished costs nothing. */
  fake.interrupt_at = -1;
  fake.interrupted = 0;
  tune_several(b, &s);
  assert_int_equal(fake.measured, 240);
  for (int i = 0; i < SEVERAL; i++)
    assert_int_equal(s.t[i].status, TT_TUNED);
  tune_several(b, &s);
  assert_int_equal(fake.measured, 240);
  for (int i = 0; i < SEVERAL; i++)
    assert_int_equal(s.t[i].status, TT_REUSED);
  s.o[1].workload.compiler = "another";
  s.o[0].trials = s.o[1].trials = s.o[2].trials = 40;
  fake_forget();
  tune_several(b, &s);
  assert_int_equal(fake.measured, 40);
  assert_int_equal(s.t[0].status, TT_REUSED);
  assert_int_equal(s.t[1].status, TT_TUNED);
  assert_int_equal(s.t[2].status, TT_REUSED);
}

static void
test_same_but_names(void **state)
{
  const char *a = "schedule {\n  C.split(x, 16, x1);\n  "
                  "C.cache_read(B, x, layout=\"x x1\");\n}\n";

  (void)state;
  assert_true(tt_same_but_names(a, a));
  assert_true(tt_same_but_names(
      a, "schedule { D.split(q, 16, qq); D.cache_read(split, q, layout = "
         "\"q qq\"); }"));
  /* a factor, a primitive, a key, a name used twice, a name for two */
  assert_false(tt_same_but_names(
      a,
      "schedule { C.split(x, 8, x1); C.cache_read(B, x, layout=\"x x1\");}"));
  assert_false(tt_same_but_names(
      a,
      "schedule { C.tile(x, 16, x1); C.cache_read(B, x, layout=\"x x1\");}"));
  assert_false(tt_same_but_names(
      a,
      "schedule { C.split(x, 16, x1); C.cache_read(B, x, other=\"x x1\");}"));
  assert_false(tt_same_but_names(
      a,
      "schedule { C.split(x, 16, x1); C.cache_read(C, x, layout=\"x x1\");}"));
  assert_false(tt_same_but_names(
      a,
      "schedule { C.split(x, 16, x1); C.cache_read(B, x1, layout=\"x x1\");}"));
  assert_false(tt_same_but_names(a, "schedule { C.split(x, 16, x1); }"));
}

/* ---- the derived space ------------------------------------------------- */

static void
test_tune_derived_space(void **state)
{
  struct bed *b = *state;
  struct tt_tuned t;

  b->o.space_ops = NULL;
  b->o.trials = 40;
  t = tune(b);
  assert_int_equal(t.status, TT_TUNED);
  assert_int_equal(fake.measured, 40);
  features_of(b->arena, t.schedule);
}

int
main(void)
{
#define LOOP(f) cmocka_unit_test_setup_teardown(f, setup_bed, teardown_bed)
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_same_but_names),
      LOOP(test_tune),
      LOOP(test_tune_is_a_function_of_its_seed),
      LOOP(test_tune_searches_and_models),
      LOOP(test_tune_with_other_models),
      LOOP(test_tune_without_trials),
      LOOP(test_tune_exhausts_a_space),
      LOOP(test_tune_stops_when_little_is_to_be_gained),
      LOOP(test_retune_does_not_stop_at_once),
      LOOP(test_tune_interrupted),
      LOOP(test_tune_interrupted_at_once),
      LOOP(test_tune_reuses),
      LOOP(test_retune_searches_on),
      LOOP(test_tune_survives_a_failing_history),
      LOOP(test_tune_saves_late),
      LOOP(test_tune_no_candidate),
      LOOP(test_tune_toolchain),
      LOOP(test_winner_must_beat_noise),
      LOOP(test_plain_loops_may_win),
      LOOP(test_progress),
      LOOP(test_time_budget),
      LOOP(test_several_share_a_budget),
      LOOP(test_several_by_gain),
      LOOP(test_several_stop),
      LOOP(test_several_with_small_budgets),
      LOOP(test_several_and_one_fails),
      LOOP(test_several_interrupted),
      LOOP(test_tune_derived_space),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
