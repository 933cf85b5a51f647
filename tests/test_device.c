/* Candidates that run on an OpenCL device, and misbehave there in every way we
 * know.  Skipped where there is no device. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/device.h"
#include "runtime/protocol.h"
#include "runtime/runner.h"
#include "tests/building.h"

#define N 1000

/* C = A + B; what is made of A goes through `prepared` and the workspace. */
static const char good[] =
    "__kernel void p(__global float *W, __global float *P) {"
    "  int i = get_global_id(0); P[i] = 2 * W[i]; }\n"
    "__kernel void k(__global float *A, __global float *S) {"
    "  int i = get_global_id(0); S[i] = A[i]; }\n"
    "__kernel void l(__global float *P, __global float *S, __global float *C) {"
    "  int i = get_global_id(0); C[i] = S[i] + P[i]; }\n";

struct bench {
  struct tt_builder *b;
  struct tt_runner *r;
  int serial;
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
  return res;
}

static void
put(struct bench *b, const char *source, char object[32])
{
  struct tt_sb sb = {0};
  char *error = NULL;
  tt_line_add(&sb, "kernel name=p prepare=1 global=%d,1,1 local=1,1,1 args=1,3",
              N);
  tt_line_add(&sb, "kernel name=k prepare=0 global=%d,1,1 local=1,1,1 args=0,4",
              N);
  tt_line_add(
      &sb, "kernel name=l prepare=0 global=%d,1,1 local=1,1,1 args=3,4,2", N);
  tt_line_add(&sb, "source");
  tt_sb_add(&sb, source);
  assert_true(tt_builder_put(b->b, ".cl", sb.s, sb.len, object, &error));
  tt_sb_free(&sb);
}

static struct tt_run_result
run_job(struct bench *b, enum tt_run_mode mode, const char *source,
        double timeout)
{
  char object[32], *error = NULL;
  put(b, source, object);
  struct tt_run_candidate c = {object, "", 4 * N, 4 * N};
  struct tt_run_job job = {
      .id = 7, .mode = mode, .n = 1, .candidates = &c, .timeout = timeout};
  assert_true(tt_runner_submit(b->r, &job, &error));
  return wait_run(b->r);
}

static void
outcome_is(struct bench *b, const char *source, enum tt_run_status status,
           const char *message)
{
  struct tt_run_result r =
      run_job(b, TT_RUN_CHECK, source, status == TT_RUN_TIMEOUT ? 5 : 120);
  if (r.status != status || !strstr(r.message, message))
    print_message("status %d, message: %s\n", (int)r.status, r.message);
  assert_int_equal(r.status, status);
  assert_non_null(strstr(r.message, message));
}

/* The good source with a text in place of another one. */
static const char *
but(const char *old, const char *new)
{
  static char text[4096];
  const char *at = strstr(good, old);
  assert_non_null(at);
  snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, new,
           at + strlen(old));
  return text;
}

static int
setup(void **state)
{
  static struct bench b;
  static const struct tt_run_tensor tensors[] = {
      {"A", TT_F32, N, false}, {"W", TT_F32, N, false}, {"C", TT_F32, N, true}};
  char *error = NULL;
  b.b = builder("cc", "-O1", 1, 60);
  struct tt_runner_options o = {.ntensors = 3,
                                .tensors = tensors,
                                .dir = tt_builder_dir(b.b),
                                .threads = 1,
                                .on_device = true};
  b.r = tt_runner_new(&o, &error);
  assert_non_null(b.r);
  float *a = tt_runner_data(b.r, 0), *w = tt_runner_data(b.r, 1),
        *c = tt_runner_data(b.r, 2);
  for (int i = 0; i < N; i++) {
    a[i] = (float)i;
    w[i] = (float)(3 * i + 1);
    c[i] = a[i] + 2 * w[i];
  }
  struct tt_tolerance exact = {0};
  tt_runner_tolerance(b.r, 2, &exact);
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
good_kernels_run(void **state)
{
  struct tt_run_result r = run_job(*state, TT_RUN_CHECK, good, 120);
  if (r.status)
    print_message("%s\n", r.message);
  assert_int_equal(r.status, TT_RUN_OK);
  assert_true(r.timing[0].n >= 1);
  assert_true(tt_timing_min(&r.timing[0]) > 0);
}

static void
two_are_timed_in_turns(void **state)
{
  struct bench *b = *state;
  char object[2][32], *error = NULL;
  put(b, good, object[0]);
  put(b, good, object[1]);
  struct tt_run_candidate c[2] = {{object[0], "", 4 * N, 4 * N},
                                  {object[1], "", 4 * N, 4 * N}};
  struct tt_run_job job = {
      .id = 7, .mode = TT_RUN_DUEL, .n = 2, .candidates = c, .timeout = 120};
  assert_true(tt_runner_submit(b->r, &job, &error));
  struct tt_run_result r = wait_run(b->r);
  assert_int_equal(r.status, TT_RUN_OK);
  assert_int_equal(r.n, 2);
  assert_true(r.timing[1].n >= 1);
}

/* Each costs itself alone: the next one runs. */
static void
bad_kernels_are_caught(void **state)
{
  outcome_is(*state, but("S[i] + P[i]", "S[i] + P[i] + (i == 77)"),
             TT_RUN_WRONG, "[77]");
  outcome_is(*state, but("C[i] = S[i] + P[i]", "C[0] = 1"), TT_RUN_WRONG, "C:");
  outcome_is(*state, but("C[i] =", "C[i < 999 ? i : 1000] ="), TT_RUN_BOUNDS,
             "wrote outside C");
  outcome_is(*state, but("S[i] = A[i]", "S[i - 1] = A[i]"), TT_RUN_BOUNDS,
             "outside the workspace");
  outcome_is(*state, but("S[i] = A[i]", "S[i] = A[i]; A[i] = 5"), TT_RUN_BOUNDS,
             "wrote to A");
  outcome_is(*state, but("S[i] = A[i]", "S[i] = nothing[i]"), TT_RUN_LOAD,
             "the driver refuses it");
  outcome_is(*state, but("void k(", "void other("), TT_RUN_LOAD, "kernel");
  good_kernels_run(state);
}

/* What takes the driver's process with it. */
static void
crashes_and_hangs_cost_themselves(void **state)
{
  outcome_is(*state,
             but("S[i] = A[i]", "volatile __global int *q = "
                                "(volatile __global int *)(size_t)16; *q = 1;"
                                " S[i] = A[i]"),
             TT_RUN_CRASH, "");
  outcome_is(*state,
             but("S[i] = A[i]", "volatile __global float *q = A; "
                                "while (q[0] < 1) {} S[i] = A[i]"),
             TT_RUN_TIMEOUT, "ran too long");
  good_kernels_run(state);
}

static void
devices_are_listed(void **state)
{
  struct tt_device d[TT_MAX_DEVICES];
  char *error = NULL;
  (void)state;
  int n = tt_devices(false, d, TT_MAX_DEVICES, &error);
  assert_true(n > 0);
  assert_null(error);
  for (int i = 0; i < n; i++) {
    assert_true(d[i].name[0] && d[i].driver[0]);
    assert_true(d[i].units > 0 && d[i].threads > 0 && d[i].items[0] > 0);
    assert_true(d[i].shared > 0 && d[i].memory > 0 && d[i].lanes > 0);
    assert_true(d[i].warp > 0);
  }
}

/* Without a device: of the architecture, or the one before it. */
static void
architectures_have_typical_devices(void **state)
{
  (void)state;
  assert_int_equal(tt_cuda_typical(90).units, 132);
  assert_int_equal(tt_cuda_typical(90).shared, 227 << 10);
  assert_string_equal(tt_cuda_typical(81).name, tt_cuda_typical(80).name);
  assert_true(tt_cuda_typical(30).units > 0);
  assert_true(tt_cuda_typical(999).units >= 100);
}

static void
no_device_says_so(void **state)
{
  struct tt_device d;
  char *error = NULL;
  (void)state;
  setenv("OCL_ICD_VENDORS", "/nonexistent", 1);
  assert_int_equal(tt_devices(false, &d, 1, &error), -1);
  assert_non_null(strstr(error, "OpenCL has no device"));
  free(error);
  unsetenv("OCL_ICD_VENDORS");
}

int
main(int argc, char **argv)
{
  int runner = tt_runner_main(argc, argv);
  if (runner < 0)
    runner = tt_device_main(argc, argv);
  if (runner >= 0)
    return runner;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(devices_are_listed),
      cmocka_unit_test(no_device_says_so),
      cmocka_unit_test(architectures_have_typical_devices),
      cmocka_unit_test(good_kernels_run),
      cmocka_unit_test(two_are_timed_in_turns),
      cmocka_unit_test(bad_kernels_are_caught),
      cmocka_unit_test(crashes_and_hangs_cost_themselves),
  };
  struct tt_device d;
  char *error = NULL;
  if (tt_devices(false, &d, 1, &error) < 1) {
    fprintf(stderr, "skipped: %s\n", error);
    free(error);
    return 77;
  }
  return cmocka_run_group_tests(tests, setup, teardown);
}
