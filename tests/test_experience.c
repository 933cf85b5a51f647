/* Sources in the history, and records of other programs as rows. */
#include "config.h"

#include "tuner/experience.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "frontend/frontend.h"
#include "ir/passes.h"
#include "tests/fake_tuning.h"
#include "tests/product.h"
#include "tuner/history_db.h"
#include "tuner/random.h"
#include "tuner/trials.h"

struct bed {
  struct tt_arena *arena;
  struct tt_history *history;
  char dir[64];
  const char *path;
  struct tt_experience_query q;
  struct tt_workload own; /* of the run that asks */
};

static int
setup(void **state)
{
  struct bed *b = calloc(1, sizeof *b);
  const char *error = NULL;

  fake_reset();
  b->arena = tt_arena_new();
  strcpy(b->dir, "/tmp/tt-experience-XXXXXX");
  assert_non_null(mkdtemp(b->dir));
  b->path = tt_arena_printf(b->arena, "%s/history.db", b->dir);
  b->history = tt_history_open(b->path, &error);
  assert_non_null(b->history);
  b->own = (struct tt_workload){"none", "", "cpu", "cc -O2", "threads=1", NULL};
  b->q = (struct tt_experience_query){.workload = &b->own,
                                      .features = TT_FEATURES_RELATION,
                                      .target = &product_target,
                                      .most = 1000};
  *state = b;
  return 0;
}

static int
teardown(void **state)
{
  struct bed *b = *state;
  char command[128];

  tt_history_close(b->history);
  tt_arena_free(b->arena);
  snprintf(command, sizeof command, "rm -rf %s", b->dir);
  assert_int_equal(system(command), 0);
  free(b);
  return 0;
}

/* ---- sources ----------------------------------------------------------- */

static void
check_source(const char *path, int n, const struct tt_define *defines)
{
  struct tt_arena *arena = tt_arena_new();
  struct tt_diags *diags = tt_diags_new(arena);
  struct tt_frontend_options o = {.ndefines = n, .defines = defines};
  struct tt_frontend_result r = tt_compile_file(arena, diags, path, &o, false);

  assert_non_null(r.program);
  assert_non_null(r.source);
  for (int strict = 0; strict < 2; strict++) {
    r = tt_compile_file(arena, diags, path, &o, false);
    tt_solve_congruences(r.program);
    tt_factor_sums(r.program, strict);
    if (tt_program_of_source(arena, r.source, TT_BUILT_IN_NONE, strict,
                             tt_program_hash(arena, r.program)) == NULL)
      fail_msg("%s: %s", path, r.source);
  }
  assert_null(strstr(r.source, "schedule"));
  assert_null(tt_program_of_source(arena, r.source, TT_BUILT_IN_NONE, false,
                                   "another"));
  tt_arena_free(arena);
}

static void
test_sources_of_examples(void **state)
{
  static const char *const files[] = {
      "attention", "avgpool_s8", "conv2d",    "conv2d_s8", "embed",
      "fir_q15",   "layernorm",  "lstm_cell", "matmul_ep", "quant",
      "sdot",      "softmax",    "wino43",    "winograd"};
  const char *top = getenv("abs_top_srcdir");

  (void)state;
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    char path[4096];
    snprintf(path, sizeof path, "%s/examples/%s.te", top ? top : "..",
             files[i]);
    check_source(path, 0, NULL);
  }
}

static void
write_file(const struct bed *b, const char *name, const char *text)
{
  FILE *f = fopen(tt_arena_printf(b->arena, "%s/%s", b->dir, name), "w");

  assert_non_null(f);
  assert_true(fputs(text, f) >= 0);
  assert_int_equal(fclose(f), 0);
}

/* Includes and all kinds of values that options give. */
static void
test_source_with_options(void **state)
{
  struct bed *b = *state;
  static const struct tt_define defines[] = {
      {"N", "8"},   {"N", "+12"}, {"S", "-3"},   {"F", "2"},
      {"G", "0.5"}, {"T", "f64"}, {"B", "false"}};

  write_file(b, "sizes.te",
             "param N = 4; param S = 1; type T = f32;\n"
             "param F = 1.0; param G: f32 = -1.5; param B = true;\n");
  write_file(b, "main.te",
             "include \"sizes.te\";\n"
             "input A[N]: T; output Y[N]: T;\n"
             "Y[i] = B ? A[i] * F + T(G) : A[N - 1 - i] * F + T(S + i);\n"
             "schedule \"one\" { Y.vectorize(i); }\n");
  for (int n = 0; n <= 7; n++)
    check_source(tt_arena_printf(b->arena, "%s/main.te", b->dir), n, defines);
}

static void
test_long_source_is_not_kept(void **state)
{
  struct bed *b = *state;
  char *text = tt_xmalloc(70000);

  memset(text, ' ', 69999);
  text[69999] = '\0';
  write_file(b, "filler.te", text);
  write_file(b, "main.te",
             "include \"filler.te\";\n"
             "input A[4]: f32; output Y[4]: f32; Y[i] = A[i];\n");
  struct tt_frontend_result r = tt_compile_file(
      b->arena, tt_diags_new(b->arena),
      tt_arena_printf(b->arena, "%s/main.te", b->dir), NULL, false);
  assert_non_null(r.program);
  assert_null(r.source);
  free(text);
}

/* ---- records ----------------------------------------------------------- */

/* The workload of a product of matrices that are n long. */
static struct tt_workload
product_work(struct bed *b, int n)
{
  return (struct tt_workload){
      .program = tt_program_hash(b->arena, product(b->arena, n, product_names)),
      .text = "a product",
      .target = "cpu",
      .compiler = "cc -O2",
      .options = "threads=1",
      .source = tt_arena_printf(b->arena,
                                "input A[%d,%d]: f32; input B[%d,%d]: f32;"
                                "output C[%d,%d]: f32;"
                                "C[y,x] = sum[k](A[k,y] * B[k,x]);",
                                n, n, n, n, n, n)};
}

static void
put(struct bed *b, const struct tt_workload *w, const char *tool,
    const char *schedule, enum tt_outcome outcome, double seconds)
{
  static int64_t created;
  struct tt_history_row row = {
      .workload = *w,
      .record = {.schedule = schedule,
                 .result = {.outcome = outcome, .seconds = seconds}},
      .tool = tool,
      .created = ++created};
  const char *error = NULL;
  int added;

  assert_true(tt_history_put(b->history, &row, &added, &error));
  assert_int_equal(added, 1);
}

/* n right records, the i-th of them 1 + i milliseconds. */
static void
put_some(struct bed *b, const struct tt_workload *w, const char *tool, int n)
{
  for (int i = 0; i < n; i++)
    put(b, w, tool,
        tt_arena_printf(b->arena, "schedule { C.split(x, %d, xi); }", 2 + i),
        TT_OUT_OK, 1e-3 * (1 + i));
}

static struct tt_experience
load(struct bed *b)
{
  struct tt_experience e;
  const char *error = NULL;

  if (!tt_experience_load(b->history, &b->q, &e, &error))
    fail_msg("%s", error);
  return e;
}

static void
expect_rows(struct bed *b, int rows, int groups, int unread)
{
  struct tt_experience e = load(b);
  int n = 0;

  assert_int_equal(e.fit.n, rows);
  assert_int_equal(e.fit.ngroups, groups);
  assert_int_equal(e.unread, unread);
  for (int g = 0; g < e.fit.ngroups; g++)
    n += e.fit.groups[g];
  assert_int_equal(n, rows);
  tt_experience_free(&e);
}

static void
test_rows(void **state)
{
  struct bed *b = *state;
  struct tt_workload w = product_work(b, 64);
  struct tt_program *p = product(b->arena, 64, product_names);

  expect_rows(b, 0, 0, 0);
  put_some(b, &w, "1.0", 3);
  put(b, &w, "1.0", "schedule { }", TT_OUT_WRONG, 0);
  put(b, &w, "1.0", "schedule { C.vectorize(k); }", TT_OUT_CANCELLED, 0);
  put(b, &w, "1.0", "schedule { D.split(x, 4, xi); }", TT_OUT_OK, 1e-5);
  put(b, &w, "1.0", "sch", TT_OUT_OK, 1);
  struct tt_experience e = load(b);
  assert_int_equal(e.fit.n, 4); /* newest first */
  assert_int_equal(e.unread, 2);
  assert_int_equal(e.fit.ngroups, 1);
  assert_string_equal(e.programs[0], w.program);
  assert_true(e.fit.labels[0] == 0);
  assert_true(e.fit.labels[1] * 3 == e.fit.labels[3]);
  for (int i = 0; i < 4; i++) {
    const char *text =
        i == 0 ? "schedule { }"
               : tt_arena_printf(b->arena, "schedule { C.split(x, %d, xi); }",
                                 5 - i);
    struct tt_schedule *s = tt_schedule_of_text(b->arena, p, false, text);
    assert_non_null(s);
    assert_memory_equal(features_of(b->arena, s), e.fit.rows + i * e.fit.width,
                        (size_t)e.fit.width * sizeof(float));
  }
  tt_experience_free(&e);
}

/* Which records are asked for. */
static void
test_which_records(void **state)
{
  struct bed *b = *state;
  struct tt_workload w = product_work(b, 64), other = w;

  put_some(b, &w, "1.0", 3);
  other.options = "threads=1 choices=C.split(x, ?, xi);";
  put_some(b, &other, "1.0", 4);
  expect_rows(b, 7, 2, 0);
  other.target = "another cpu";
  put_some(b, &other, "1.0", 5);
  other.compiler = "cc -O3";
  other.target = "cpu";
  put_some(b, &other, "1.0", 6);
  other.compiler = "cc -O2";
  other.options = "threads=2";
  put_some(b, &other, "1.0", 7);
  expect_rows(b, 7, 2, 0);
  b->q.any_target = true;
  expect_rows(b, 25, 5, 0);
  b->own = w; /* not those of the run itself */
  expect_rows(b, 22, 4, 0);
  b->q.any_target = false;
  expect_rows(b, 4, 1, 0);
}

/* What versions measured is not compared; old records are not preferred. */
static void
test_versions_and_limit(void **state)
{
  struct bed *b = *state;
  struct tt_workload w = product_work(b, 64), v = product_work(b, 32);

  put_some(b, &w, "0.1", 10);
  put_some(b, &w, "9.0", 20);
  put_some(b, &v, "9.0", 3);
  expect_rows(b, 33, 3, 0);
  b->q.most = 19;
  struct tt_experience e = load(b);
  assert_int_equal(e.fit.n, 19);
  assert_int_equal(e.fit.groups[0], 3); /* the newest first */
  assert_int_equal(e.fit.groups[1], 8);
  assert_int_equal(e.fit.groups[2], 8);
  /* of ten, the eight newest: the last was the slowest */
  assert_true(e.fit.labels[11] < 0.11f && e.fit.labels[18] > 0.3f);
  tt_experience_free(&e);
  b->q.most = 2;
  e = load(b);
  assert_true(e.fit.n <= 2);
  tt_experience_free(&e);
}

/* Programs that cannot be had again, and ones without a right record. */
static void
test_lost_programs(void **state)
{
  struct bed *b = *state;
  struct tt_workload w = product_work(b, 64), v = product_work(b, 32);
  const char *good = v.source;

  v.source = w.source; /* means another program */
  put_some(b, &v, "1.0", 3);
  expect_rows(b, 0, 0, 1);
  v = product_work(b, 16);
  v.source = "output C[4]: f32; C[i] = ;"; /* means none */
  put_some(b, &v, "1.0", 3);
  expect_rows(b, 0, 0, 2);
  v = product_work(b, 8);
  put(b, &v, "1.0", "schedule { }", TT_OUT_CRASH, 0);
  put(b, &v, "1.0", "schedule { C.unroll(k); }", TT_OUT_BUILD, 0);
  expect_rows(b, 0, 0, 2);
  put_some(b, &w, "1.0", 3);
  expect_rows(b, 3, 1, 2);
  assert_non_null(good);
}

/* A file of the version before has no sources: they come with the next run of
 * a program, whether it searches or not. */
static void
test_older_file(void **state)
{
  struct bed *b = *state;
  struct tt_workload w = product_work(b, 64), unknown = product_work(b, 32);
  const char *error = NULL;

  put_some(b, &w, "0.1", 3);
  assert_int_equal(sqlite3_exec(b->history->db, "DROP TABLE sources", 0, 0, 0),
                   SQLITE_OK);
  tt_history_close(b->history);
  b->history = tt_history_open_existing(b->path, &error);
  assert_non_null(b->history);
  expect_rows(b, 0, 0, 0);
  assert_true(tt_history_add_source(b->history, &unknown, &error));
  assert_true(tt_history_add_source(b->history, &w, &error));
  assert_true(tt_history_add_source(b->history, &w, &error));
  expect_rows(b, 3, 1, 0);
  put_some(b, &unknown, "1.0", 2);
  expect_rows(b, 5, 2, 0);
  /* Pruning drops the sources of programs without records. */
  struct tt_prune prune = {.before = INT64_MAX / 2, .keep = -1};
  assert_true(tt_history_prune(b->history, &prune, &error) >= 5);
  put_some(b,
           &(struct tt_workload){w.program, w.text, w.target, w.compiler,
                                 w.options, NULL},
           "1.0", 3);
  expect_rows(b, 0, 0, 0);
}

/* ---- tuning ------------------------------------------------------------ */

/* n records of a product of matrices of 256, measured by the fake. */
static void
put_experience(struct bed *b, int n)
{
  struct tt_workload w = product_work(b, 256);
  struct tt_program *p = product(b->arena, 256, product_names);
  struct tt_space *space = fake_space.open(b->arena, p, &product_target, false);
  uint64_t random = 1;

  for (int i = 0; i < n;) {
    int config[5];
    for (int k = 0; k < 5; k++)
      config[k] = tt_draw_below(&random, space->knobs[k].n);
    struct tt_schedule *s = fake_space.schedule(b->arena, space, config);
    if (s == NULL)
      continue;
    put(b, &w, "1.0", tt_schedule_text(b->arena, s),
        i % 20 == 7 ? TT_OUT_WRONG : TT_OUT_OK, fake_seconds(s));
    i++;
  }
}

/* Tune a product of 128 with a batch; returns the mean logarithm of what its
 * schedules but the first take. */
static double
first_batch(struct bed *b, const struct tt_tune_options *o,
            struct tt_tuned *out)
{
  struct tt_program *p = product(b->arena, 128, product_names);
  double sum = 0;

  fake_reset();
  *out = tt_tune(b->arena, p, o);
  for (int i = 1; i < fake.measured; i++) {
    struct tt_schedule *s =
        tt_schedule_of_text(b->arena, p, false, fake.texts[i]);
    sum += log(fake_seconds(s)) / (fake.measured - 1);
  }
  fake_forget();
  return sum;
}

static struct tt_tune_options
tune_options(struct bed *b)
{
  struct tt_tune_options o = {.trials = 16,
                              .seed = 1,
                              .search = TT_SEARCH_ANNEAL,
                              .model = TT_MODEL_GBT,
                              .target = product_target,
                              .retune = true,
                              .history = b->history,
                              .workload = product_work(b, 128),
                              .measure_ops = &fake_ops,
                              .space_ops = &fake_space};
  return o;
}

/* What was learned of another program makes the first batch better, whatever
 * the model and the search. */
static void
test_first_batch(void **state)
{
  struct bed *b = *state;
  struct tt_tune_options o = tune_options(b);
  struct tt_tuned with, without;

  put_experience(b, 600);
  for (int model = TT_MODEL_GBT; model <= TT_MODEL_TREEGRU; model++)
    for (int a = TT_MEAN; a <= TT_EXPECTED_IMPROVEMENT; a++) {
      /* A workload of its own each time: nothing is resumed. */
      o.workload.program = tt_arena_printf(b->arena, "none %d %d", model, a);
      o.workload.source = NULL;
      o.model = (enum tt_model)model;
      o.search = a == TT_MEAN ? TT_SEARCH_ANNEAL : TT_SEARCH_GENETIC;
      o.acquisition = (enum tt_acquisition)a;
      o.no_transfer = true;
      double plain = first_batch(b, &o, &without);
      assert_int_equal(without.learned_records, 0);
      o.workload.program = tt_arena_printf(b->arena, "some %d %d", model, a);
      o.no_transfer = false;
      double learned = first_batch(b, &o, &with);
      assert_int_equal(with.learned_records, 600);
      assert_int_equal(with.learned_programs, 1);
      assert_null(with.warning);
      if (!(learned < plain - 0.4))
        fail_msg("model %d, acquisition %d: %g, without %g", model, a, learned,
                 plain);
    }
}

/* When nothing is transferred. */
static void
test_no_transfer(void **state)
{
  struct bed *b = *state;
  struct tt_tune_options o = tune_options(b);
  struct tt_tuned t;

  put_experience(b, TT_EXPERIENCE_LEAST - 1);
  first_batch(b, &o, &t);
  assert_int_equal(t.learned_records, 0);
  put_experience(b, 1);
  first_batch(b, &o, &t);
  assert_int_equal(t.learned_records, TT_EXPERIENCE_LEAST);
  o.features = TT_FEATURES_CONFIG;
  first_batch(b, &o, &t);
  assert_int_equal(t.learned_records, 0);
  o = tune_options(b);
  o.search = TT_SEARCH_RANDOM;
  first_batch(b, &o, &t);
  assert_int_equal(t.learned_records, 0);
  o = tune_options(b);
  o.model = TT_MODEL_NONE;
  first_batch(b, &o, &t);
  assert_int_equal(t.learned_records, 0);
  o = tune_options(b);
  o.workload.compiler = "cc -O3";
  first_batch(b, &o, &t);
  assert_int_equal(t.learned_records, 0);
  o.transfer_any = true;
  first_batch(b, &o, &t);
  assert_true(t.learned_records >= TT_EXPERIENCE_LEAST);
  assert_null(t.warning);
}

/* A history whose records of other programs cannot be read is no reason not to
 * tune. */
static void
test_unreadable_experience(void **state)
{
  struct bed *b = *state;
  struct tt_tune_options o = tune_options(b);
  struct tt_tuned t;

  put_experience(b, 600);
  o.workload.source = NULL;
  assert_int_equal(sqlite3_exec(b->history->db,
                                "ALTER TABLE sources RENAME TO lost", 0, 0, 0),
                   SQLITE_OK);
  first_batch(b, &o, &t);
  assert_int_equal(t.status, TT_TUNED);
  assert_int_equal(t.learned_records, 0);
  assert_non_null(t.warning);
  assert_non_null(strstr(t.warning, "nothing was learned from other programs"));
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sources_of_examples),
      cmocka_unit_test_setup_teardown(test_source_with_options, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_long_source_is_not_kept, setup,
                                      teardown),
      cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
      cmocka_unit_test_setup_teardown(test_which_records, setup, teardown),
      cmocka_unit_test_setup_teardown(test_versions_and_limit, setup, teardown),
      cmocka_unit_test_setup_teardown(test_lost_programs, setup, teardown),
      cmocka_unit_test_setup_teardown(test_older_file, setup, teardown),
      cmocka_unit_test_setup_teardown(test_first_batch, setup, teardown),
      cmocka_unit_test_setup_teardown(test_no_transfer, setup, teardown),
      cmocka_unit_test_setup_teardown(test_unreadable_experience, setup,
                                      teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
