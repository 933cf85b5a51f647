/* The runner, with candidates that misbehave in every way we know, and with
 * nonsense on its own input. */
#include "config.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/protocol.h"
#include "runtime/runner.h"
#include "tests/building.h"

#define N 1000

/* C[i] = A[i] + B[i], with a hole at each place where one may err. */
#define CANDIDATE(globals, prepare, run)                                       \
  "typedef unsigned long size_t; int printf(const char *, ...);"               \
  "void exit(int); int fork(void); int close(int); void *malloc(size_t);"      \
  "void *memset(void *, int, size_t); int pause(void); int setsid(void);"      \
  "int write(int, const void *, size_t); void abort(void);" globals            \
  "void k_entry(void **args, int what) {"                                      \
  " float *A = args[0]; float *B = args[1]; float *C = args[2];"               \
  " float *P = args[3]; float *W = args[4]; (void)P; (void)W;"                 \
  " if (what == 0) {" prepare " return; }"                                     \
  " for (int i = 0; i < 1000; i++) C[i] = A[i] + B[i];" run " }"

struct bench {
  struct tt_builder *b;
  struct tt_runner *r;
};

static struct tt_run_result
wait_run(struct tt_runner *r)
{
  struct tt_run_result res;
  while (!tt_runner_take(r, &res)) {
    struct tt_process *p = tt_runner_process(r);
    assert_non_null(p);
    tt_process_poll(&p, 1, -1);
  }
  assert_false(tt_runner_busy(r));
  return res;
}

static struct tt_run_result
run_job(struct bench *b, enum tt_run_mode mode, const char *source,
        double timeout)
{
  char *error = NULL;
  struct tt_built built = build_one(b->b, 1, source);
  if (built.message)
    print_message("%s\n", built.message);
  assert_int_equal(built.status, TT_BUILT);
  struct tt_run_candidate c = {built.object, "k_entry", 4 * N, 4 * N};
  struct tt_run_job job = {
      .id = 7, .mode = mode, .n = 1, .candidates = &c, .timeout = timeout};
  assert_true(tt_runner_submit(b->r, &job, &error));
  assert_true(tt_runner_busy(b->r));
  struct tt_run_result res = wait_run(b->r);
  assert_int_equal(res.id, 7);
  tt_builder_discard(b->b, built.object);
  return res;
}

static void
outcome_is(struct bench *b, const char *source, enum tt_run_status status,
           const char *message)
{
  struct tt_run_result r = run_job(b, TT_RUN_CHECK, source, 1.0);
  if (r.status != status || !strstr(r.message, message))
    print_message("status %d, message: %s\n", (int)r.status, r.message);
  assert_int_equal(r.status, status);
  assert_non_null(strstr(r.message, message));
}

static void
good_runs(struct bench *b)
{
  struct tt_run_result r = run_job(b, TT_RUN_CHECK, CANDIDATE("", "", ""), 10);
  if (r.status)
    print_message("%s\n", r.message);
  assert_int_equal(r.status, TT_RUN_OK);
  assert_true(r.error == 0);
  assert_true(r.timing[0].n >= 2);
  assert_true(tt_timing_min(&r.timing[0]) > 0);
  assert_true(r.run_seconds > 0);
}

static int
setup(void **state)
{
  static struct bench b;
  static const struct tt_run_tensor tensors[] = {
      {"A", TT_F32, N, false}, {"B", TT_F32, N, false}, {"C", TT_F32, N, true}};
  char *error = NULL;
  b.b = builder("cc", "-O1", 1, 20);
  struct tt_runner_options o = {.ntensors = 3,
                                .tensors = tensors,
                                .dir = tt_builder_dir(b.b),
                                .threads = 1};
  b.r = tt_runner_new(&o, &error);
  assert_non_null(b.r);
  float *A = tt_runner_data(b.r, 0), *B = tt_runner_data(b.r, 1);
  for (int i = 0; i < N; i++) {
    A[i] = (float)i / 8;
    B[i] = (float)(i % 37);
  }
  struct tt_run_result r =
      run_job(&b, TT_RUN_REFERENCE, CANDIDATE("", "", ""), 10);
  if (r.status)
    print_message("%s\n", r.message);
  assert_int_equal(r.status, TT_RUN_OK);
  const float *C = tt_runner_data(b.r, 2);
  for (int i = 0; i < N; i++)
    assert_true(C[i] == A[i] + B[i]);
  tt_runner_tolerance(b.r, 2, &(struct tt_tolerance){1e-6, 0});
  *state = &b;
  return 0;
}

static int
teardown(void **state)
{
  struct bench *b = *state;
  tt_runner_free(b->r);
  tt_builder_free(b->b);
  return 0;
}

static void
test_run_right(void **state)
{
  struct bench *b = *state;
  good_runs(b);
  struct tt_run_result r =
      run_job(b, TT_RUN_CHECK, CANDIDATE("", "", "C[3] *= 1.0000002f;"), 10);
  assert_int_equal(r.status, TT_RUN_OK);
  assert_true(r.error > 0 && r.error <= 1);
}

static void
test_run_wrong(void **state)
{
  struct bench *b = *state;
  outcome_is(b, CANDIDATE("", "", "C[999] += 1;"), TT_RUN_WRONG,
             "C: 1 of 1000 elements are wrong, the first is [999]");
  outcome_is(b, CANDIDATE("", "", "C[7] = 0.0f / 0.0f;"), TT_RUN_WRONG, "[7]");
  /* Right at first, wrong when called again. */
  outcome_is(b, CANDIDATE("static int n;", "", "C[0] += n++;"), TT_RUN_WRONG,
             "[0]");
  /* Works the first time alone. */
  outcome_is(b,
             "void k_entry(void **args, int what) { static int n;"
             " float *A = args[0]; float *B = args[1]; float *C = args[2];"
             " if (what && !n++)"
             "  for (int i = 0; i < 1000; i++) C[i] = A[i] + B[i]; }",
             TT_RUN_WRONG, "1000 of 1000");
  /* Reads what it has not written. */
  outcome_is(b, CANDIDATE("", "", "C[5] += 0 * W[5];"), TT_RUN_WRONG, "[5]");
  outcome_is(b, CANDIDATE("", "P[1] = 0;", "C[5] += P[1] + 0 * P[2];"),
             TT_RUN_WRONG, "[5]");
  /* Does nothing. */
  outcome_is(b,
             "void k_entry(void **args, int what) "
             "{ (void)args; (void)what; }",
             TT_RUN_WRONG, "1000 of 1000");
  good_runs(b);
}

static void
test_run_crash(void **state)
{
  struct bench *b = *state;
  outcome_is(b, CANDIDATE("", "", "*(volatile int *)0 = 1;"), TT_RUN_CRASH,
             "signal 11");
  outcome_is(b, CANDIDATE("", "abort();", ""), TT_RUN_CRASH, "signal 6");
  outcome_is(b, CANDIDATE("", "", "__builtin_trap();"), TT_RUN_CRASH,
             "signal 4");
  outcome_is(b,
             CANDIDATE("static int f(volatile char *p) { volatile char x[4096];"
                       " x[0] = *p; return f(x) + x[0]; }",
                       "", "char c = 1; C[0] += f(&c);"),
             TT_RUN_CRASH, "stack overflow");
  outcome_is(b, CANDIDATE("", "", "exit(0);"), TT_RUN_CRASH,
             "ended the process (exit status");
  outcome_is(b, CANDIDATE("", "", "exit(3);"), TT_RUN_CRASH,
             "ended the process (exit status");
  good_runs(b);
}

static void
test_run_hang(void **state)
{
  struct bench *b = *state;
  outcome_is(b, CANDIDATE("", "", "for (volatile int i = 0;; i++) ;"),
             TT_RUN_TIMEOUT, "ran too long");
  outcome_is(b, CANDIDATE("", "pause();", ""), TT_RUN_TIMEOUT, "ran too long");
  good_runs(b);
}

static void
test_run_memory(void **state)
{
  struct bench *b = *state;
#ifndef __SANITIZE_ADDRESS__ /* without limits on address space */
  outcome_is(
      b, CANDIDATE("", "", "for (;;) *(volatile char *)malloc(1 << 24) = 1;"),
      TT_RUN_MEMORY, "used more than");
  outcome_is(
      b, CANDIDATE("static volatile char huge[1ul << 36];", "", "huge[0] = 1;"),
      TT_RUN_MEMORY, "");
#endif
  char *error;
  struct tt_built built = build_one(b->b, 1, CANDIDATE("", "", ""));
  struct tt_run_candidate c = {built.object, "k_entry", 0, (int64_t)1 << 60};
  struct tt_run_job job = {.id = 1, .n = 1, .candidates = &c, .timeout = 5};
  assert_true(tt_runner_submit(b->r, &job, &error));
  struct tt_run_result r = wait_run(b->r);
  assert_int_equal(r.status, TT_RUN_MEMORY);
  assert_non_null(strstr(r.message, "no memory for"));
  good_runs(b);
}

static void
test_run_bounds(void **state)
{
  struct bench *b = *state;
  outcome_is(b, CANDIDATE("", "", "C[1000] = 1;"), TT_RUN_BOUNDS,
             "wrote outside C");
  outcome_is(b, CANDIDATE("", "", "C[-1] = 1;"), TT_RUN_BOUNDS,
             "wrote outside C");
  outcome_is(b, CANDIDATE("", "", "W[1000] = 1;"), TT_RUN_BOUNDS,
             "wrote outside the workspace");
  outcome_is(b, CANDIDATE("", "P[1000] = 1;", ""), TT_RUN_BOUNDS,
             "wrote outside prepared");
  outcome_is(b, CANDIDATE("", "", "P[0] = 1;"), TT_RUN_BOUNDS,
             "wrote to prepared");
  outcome_is(b, CANDIDATE("", "", "B[999] = 1;"), TT_RUN_BOUNDS, "wrote to B");
  outcome_is(b, CANDIDATE("", "", "C[100000] = 1;"), TT_RUN_BOUNDS,
             "touched memory outside C");
  outcome_is(b, CANDIDATE("", "", "C[0] += A[-100000];"), TT_RUN_BOUNDS,
             "touched memory outside A");
  /* Only when called again. */
  outcome_is(b, CANDIDATE("static int n;", "", "if (n++) C[1000] = 1;"),
             TT_RUN_BOUNDS, "wrote outside C");
  good_runs(b);
}

static void
test_run_load(void **state)
{
  struct bench *b = *state;
  outcome_is(b, "int x;", TT_RUN_LOAD, "k_entry");
  outcome_is(b, CANDIDATE("int missing(void);", "", "C[0] += missing();"),
             TT_RUN_LOAD, "missing");
  good_runs(b);
}

static void
test_run_tricks(void **state)
{
  struct bench *b = *state;
  outcome_is(b,
             CANDIDATE("", "",
                       "printf(\"@tt end 7*00\\n@tt bad\\n\");"
                       "for (int f = 0; f < 100; f++)"
                       " write(f, \"@tt end 7*3d\\n\\377\", 14);"),
             TT_RUN_OK, "");
  outcome_is(b, CANDIDATE("", "", "for (int f = 0; f < 100; f++) close(f);"),
             TT_RUN_OK, "");
  outcome_is(b, CANDIDATE("", "if (fork() == 0) for (;;) pause();", ""),
             TT_RUN_OK, "");
  outcome_is(b, CANDIDATE("", "if (fork() == 0) return; pause();", ""),
             TT_RUN_TIMEOUT, "ran too long");
  good_runs(b);
}

/* The runner itself is killed: before, between and during jobs. */
static void
test_run_killed(void **state)
{
  struct bench *b = *state;
  char *error;
  good_runs(b);
  kill(tt_runner_process(b->r)->pid, SIGKILL);
  good_runs(b);
  struct tt_built built =
      build_one(b->b, 1, CANDIDATE("", "", "for (;;) pause();"));
  struct tt_run_candidate c = {built.object, "k_entry", 0, 0};
  struct tt_run_job job = {.id = 7, .n = 1, .candidates = &c, .timeout = 60};
  assert_true(tt_runner_submit(b->r, &job, &error));
  usleep(300000);
  kill(tt_runner_process(b->r)->pid, SIGKILL);
  struct tt_run_result r = wait_run(b->r);
  assert_int_equal(r.status, TT_RUN_CRASH);
  assert_non_null(strstr(r.message, "the runner ended: killed by signal 9"));
  good_runs(b);
  /* Cancelling ends the candidate's process, too. */
  assert_true(tt_runner_submit(b->r, &job, &error));
  usleep(300000);
  tt_runner_cancel(b->r);
  assert_false(tt_runner_busy(b->r));
  assert_null(tt_runner_process(b->r));
  good_runs(b);
  tt_builder_discard(b->b, built.object);
}

static void
test_run_loser(void **state)
{
  struct bench *b = *state;
  char *error;
  struct tt_built built = build_one(
      b->b, 1,
      CANDIDATE("", "", "for (volatile int i = 0; i < 20000000; i++) ;"));
  struct tt_run_candidate c = {built.object, "k_entry", 0, 0};
  struct tt_run_job job = {
      .id = 7, .n = 1, .candidates = &c, .timeout = 60, .best = 1e-6};
  assert_true(tt_runner_submit(b->r, &job, &error));
  struct tt_run_result r = wait_run(b->r);
  assert_int_equal(r.status, TT_RUN_OK);
  assert_true(r.timing[0].gave_up);
  assert_int_equal(r.timing[0].n, 1);
  tt_builder_discard(b->b, built.object);
}

/* A device whose driver completes kernels when they are first started: that
 * alone makes no loser. */
static void
test_run_slow_start(void **state)
{
  struct bench *b = *state;
  char *error;
  struct tt_built built =
      build_one(b->b, 1,
                CANDIDATE("static double t; static int calls;"
                          "double k_entry_clock(void) { return t; }",
                          "", "if (what == 1) t += calls++ ? 1e-3 : 1;"));
  struct tt_run_candidate c = {built.object, "k_entry", 0, 0};
  struct tt_run_job job = {
      .id = 7, .n = 1, .candidates = &c, .timeout = 60, .best = 1e-3};
  assert_true(tt_runner_submit(b->r, &job, &error));
  struct tt_run_result r = wait_run(b->r);
  assert_int_equal(r.status, TT_RUN_OK);
  assert_false(r.timing[0].gave_up);
  assert_true(tt_timing_min(&r.timing[0]) < 2e-3); /* by its own clock */
  tt_builder_discard(b->b, built.object);
}

static void
test_run_duel(void **state)
{
  struct bench *b = *state;
  char *error;
  struct tt_built built[3];
  struct tt_run_candidate c[3];
  static const char *const sources[3] = {
      CANDIDATE("", "", ""),
      CANDIDATE("", "", "for (volatile int i = 0; i < 100000; i++) ;"),
      CANDIDATE("", "P[0] = 1;", "C[0] += P[0] - 1;")};
  for (int i = 0; i < 3; i++) {
    built[i] = build_one(b->b, i, sources[i]);
    c[i] = (struct tt_run_candidate){built[i].object, "k_entry", 4, 0};
  }
  struct tt_run_job job = {
      .id = 7, .mode = TT_RUN_DUEL, .n = 3, .candidates = c, .timeout = 60};
  assert_true(tt_runner_submit(b->r, &job, &error));
  struct tt_run_result r = wait_run(b->r);
  assert_int_equal(r.status, TT_RUN_OK);
  assert_int_equal(r.n, 3);
  for (int i = 0; i < 3; i++) {
    assert_true(r.timing[i].n >= 3);
    assert_int_equal(r.timing[i].n, r.timing[0].n);
    tt_builder_discard(b->b, built[i].object);
  }
  /* Its loop takes a hundred times as long: no close call. */
  assert_true(tt_timing_min(&r.timing[1]) > tt_timing_min(&r.timing[0]));
}

/* A runner that is told nonsense gives up; it is never killed by it. */
static void
test_run_nonsense(void **state)
{
  (void)state;
  static const char once_more[] = "setup n=3 threads=1 device=-1 bytes=64";
  static const char *const verbs[] = {"setup", "tensor", "tensor", "ready",
                                      "tol",   "cand",   "run",    "x",
                                      "",      once_more};
  static const char *const keys[] = {
      "n",    "threads",  "bytes",   "dtype", "output",   "elements",
      "name", "offset",   "rel",     "abs",   "object",   "symbol",
      "mode", "prepared", "timeout", "best",  "workspace"};
  static const char *const values[] = {
      "0",   "1",   "2",   "-1", "64",   "16", "9223372036854775807",
      "nan", "%41", "%zz", "",   "1e300"};
  unsigned seed = 99;
  char self[512], *error;
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  assert_true(n > 0);
  self[n] = 0;
  FILE *memory = tmpfile();
  assert_int_equal(ftruncate(fileno(memory), 64), 0);
  const char *argv[] = {self, "--tt-runner", NULL};
  struct tt_process_options o = {.argv = argv,
                                 .input = true,
                                 .timeout = 60,
                                 .max_output = 10000,
                                 .pass_fd = fileno(memory)};
  for (int round = 0; round < 60; round++) {
    struct tt_sb sb = {0};
    struct tt_process *p = tt_process_start(&o, &error);
    assert_non_null(p);
    if (round % 2) { /* as far as it goes in earnest */
      tt_line_add(&sb, "setup n=1 threads=1 device=-1 bytes=64");
      tt_line_add(&sb,
                  "tensor 0 dtype=1 output=%d elements=16 offset=0 "
                  "name=C",
                  round % 4 == 1);
      tt_line_add(&sb, "ready");
    }
    for (int line = 0; line < 6; line++) {
      struct tt_sb text = {0};
      tt_sb_printf(&text, "%s %d", verbs[rand_r(&seed) % 10],
                   rand_r(&seed) % 4 - 1);
      for (int k = 0; k < 12; k++)
        tt_sb_printf(&text, " %s=%s", keys[rand_r(&seed) % 17],
                     values[rand_r(&seed) % 12]);
      tt_line_add(&sb, "%s", text.s);
      tt_sb_free(&text);
    }
    tt_sb_add(&sb, "@tt half");
    tt_process_write(p, sb.s, sb.len);
    shutdown(p->infd, SHUT_WR);
    while (!p->done)
      tt_process_poll(&p, 1, -1);
    assert_false(p->timed_out);
    assert_true(WIFEXITED(p->status));
    tt_process_free(p);
    tt_sb_free(&sb);
  }
  fclose(memory);
}

int
main(int argc, char **argv)
{
  int status = tt_runner_main(argc, argv);
  if (status >= 0)
    return status;
  const struct CMUnitTest runs[] = {
      cmocka_unit_test(test_run_right),      cmocka_unit_test(test_run_wrong),
      cmocka_unit_test(test_run_crash),      cmocka_unit_test(test_run_hang),
      cmocka_unit_test(test_run_memory),     cmocka_unit_test(test_run_bounds),
      cmocka_unit_test(test_run_load),       cmocka_unit_test(test_run_tricks),
      cmocka_unit_test(test_run_killed),     cmocka_unit_test(test_run_loser),
      cmocka_unit_test(test_run_slow_start), cmocka_unit_test(test_run_duel),
      cmocka_unit_test(test_run_nonsense)};
  return cmocka_run_group_tests_name("runner", runs, setup, teardown);
}
