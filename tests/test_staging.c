/* Copies in shared memory: padded, swizzled, made ahead.  What they compute, in
 * C; where their elements lie; that no thread reads or overwrites too early,
 * and that none waits without need. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"
#include "schedule/state.h"
#include "tests/exec_c.h"
#include "tests/gpu_made.h"
#include "tests/random_program.h"
#include "tests/random_schedule.h"

static int
loop(const struct tt_schedule *s, const char *name)
{
  int l = tt_find_loop(s, 0, name);
  if (l < 0)
    fail_msg("no loop %s", name);
  return l;
}

/* Tiles of 32 by 64 for 8 by 16 threads, eight steps of the sum at a time; the
 * first operand is turned. */
static struct tt_schedule *
tiled(struct tt_arena *ar, struct tt_program *p, const struct tt_staging *a,
      const struct tt_staging *b)
{
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  static const char *const names[2][4] = {{"m", "mg", "mt", "mr"},
                                          {"n", "ng", "nt", "nr"}};
  static const int64_t sizes[2][3] = {{32, 32, 4}, {64, 64, 4}};
  for (int i = 0; i < 2; i++)
    for (int k = 0; k < 3; k++)
      assert_true(tt_split(s, 0, loop(s, names[i][k]), sizes[i][k],
                           names[i][k + 1],
                           k ? TT_TAIL_PEEL : TT_TAIL_PAD) >= 0);
  assert_true(tt_split(s, 0, loop(s, "k"), 8, "ki", TT_TAIL_PEEL) >= 0);
  int order[] = {loop(s, "m"),  loop(s, "n"),  loop(s, "k"),  loop(s, "mt"),
                 loop(s, "nt"), loop(s, "ki"), loop(s, "mg"), loop(s, "mr"),
                 loop(s, "ng"), loop(s, "nr")};
  assert_true(tt_reorder(s, 0, 10, order));
  assert_true(tt_bind(s, 0, loop(s, "m"), TT_BLOCK_Y));
  assert_true(tt_bind(s, 0, loop(s, "n"), TT_BLOCK_X));
  assert_true(tt_bind(s, 0, loop(s, "mt"), TT_THREAD_Y));
  assert_true(tt_bind(s, 0, loop(s, "nt"), TT_THREAD_X));
  assert_true(tt_cache_write(s, 0, loop(s, "n")));
  for (int i = 0; i < 2; i++) {
    int layout[] = {loop(s, "ki"), loop(s, names[i][1]), loop(s, names[i][2]),
                    loop(s, names[i][3])};
    assert_true(tt_cache_read(s, 0, p->tensors[i], loop(s, "k"), 4, layout, 4,
                              i ? "Bs" : "As"));
    if (!tt_cache_staging(s, 0, i ? b : a))
      fail_msg("%s", s->error);
  }
  return s;
}

static const struct tt_staging stagings[] = {
    {.pad = 4},
    {.swizzle = 16},
    {.pad = 3, .swizzle = 8, .stages = 2},
    {.stages = 2},
    {.pad = 4, .stages = 3},
    {.swizzle = 4, .stages = 4},
};
enum { STAGINGS = sizeof stagings / sizeof *stagings };

/* A product under one of the stagings, and its nest. */
static void
stage_product(struct tt_arena *ar, struct tt_program *p, int k, int other,
              struct tt_nest *nest)
{
  const struct tt_staging *a = &stagings[k],
                          *b = &stagings[(k + other) % STAGINGS];
  const char *error = NULL;
  assert_true(tt_schedule_lower(ar, tiled(ar, p, a, b), nest, &error));
  for (int wide = 0; wide < 2 && !error; wide++) {
    struct gpu_made made;
    assert_true(gpu_made(ar, nest, wide ? TT_OPENCL : TT_CUDA, &made));
    error = gpu_check_barriers(ar, &made);
    int64_t steps = p->tensors[0]->dims[1], rows = p->tensors[0]->dims[0];
    if (!error && rows >= 32 && gpu_waits_in_loop(&made) != (steps >= 16) &&
        a->stages > 1 && b->stages > 1)
      error = "threads wait more than once a tile";
    gpu_made_free(&made);
  }
  if (error)
    fail_msg("pad %d swizzle %d stages %d: %s", a->pad, a->swizzle, a->stages,
             error);
}

/* One iteration, some, as many as stages, more; tails of every loop. */
static void
staged_products_are_right(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {
      {32, 64, 8}, {33, 68, 16}, {40, 70, 24}, {32, 64, 37}, {5, 7, 3}};
  for (int i = 0; i < (int)(sizeof sizes / sizeof *sizes); i++) {
    struct tt_arena *ar = tt_arena_new();
    const int64_t *n = sizes[i];
    struct tt_program *p = tt_matmul_program(ar, n[0], n[1], n[2]);
    struct tt_nest nest[STAGINGS];
    struct exec_case cases[2 * STAGINGS];
    struct tt_values *v = tt_values_new();
    int failed;
    tt_values_random(v, p, 1);
    assert_null(tt_interpret_program(p, v));
    for (int k = 0; k < STAGINGS; k++) {
      stage_product(ar, p, k, i, &nest[k]);
      for (int wide = 0; wide < 2; wide++)
        cases[2 * k + wide] =
            (struct exec_case){&nest[k], {0}, v, v, true, wide};
    }
    const char *error = exec_c(ar, 2 * STAGINGS, cases, 0, &failed);
    if (error)
      fail_msg("size %d, staging %d: %s", i, failed / 2, error);
    tt_values_free(v);
    tt_arena_free(ar);
  }
}

/* ---- where elements lie -------------------------------------------------- */

static struct gpu_steps
steps_with(struct tt_staging a, const char *name, int64_t *row)
{
  struct tt_arena *ar = tt_arena_new();
  const struct tt_staging plain = {0};
  struct tt_nest nest;
  const char *error;
  struct gpu_made m;
  assert_true(tt_schedule_lower(
      ar, tiled(ar, tt_matmul_program(ar, 64, 64, 32), &a, &plain), &nest,
      &error));
  assert_true(gpu_made(ar, &nest, TT_CUDA, &m));
  const struct tt_tensor *t = gpu_shared_tensor(&m, name);
  assert_non_null(t);
  *row = t->dims[t->ndim - 1];
  struct gpu_steps r = gpu_bank_steps(ar, &m.nest.kernels[0], name);
  gpu_made_free(&m);
  tt_arena_free(ar);
  return r;
}

/* The turned operand: neighbours in a warp write rows four apart. */
static void
banks_do_not_conflict(void **state)
{
  (void)state;
  int64_t row;
  struct gpu_steps plain = steps_with((struct tt_staging){0}, "As", &row);
  assert_true(plain.least > 0 && plain.taken > plain.least);
  struct gpu_steps padded =
      steps_with((struct tt_staging){.pad = 4}, "As", &row);
  assert_int_equal(row, 36);
  assert_int_equal(padded.taken, padded.least);
  struct gpu_steps swizzled =
      steps_with((struct tt_staging){.swizzle = 16}, "As", &row);
  assert_int_equal(swizzled.taken, swizzled.least);
  struct gpu_steps other = steps_with((struct tt_staging){0}, "Bs", &row);
  assert_int_equal(other.taken, other.least);
}

/* Padding is rounded up to whole vectors, where there are any; a row that is no
 * power of two is not swizzled. */
static void
rows_stay_aligned(void **state)
{
  (void)state;
  int64_t row;
  steps_with((struct tt_staging){.pad = 1}, "As", &row);
  assert_int_equal(row, 36);
}

static void
default_tiles_do_not_conflict(void **state)
{
  (void)state;
  /* One of each of the tiles' numbers of steps. */
  static const int64_t sizes[][3] = {{1024, 1024, 24}, {256, 256, 48}};
  for (int i = 0; i < 2; i++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p =
        tt_matmul_program(ar, sizes[i][0], sizes[i][1], sizes[i][2]);
    struct tt_schedule *s =
        tt_gpu_schedule(ar, p, &tt_gpu_unknown, false, true);
    struct tt_nest nest;
    const char *error;
    struct gpu_made m;
    assert_true(tt_schedule_lower(ar, s, &nest, &error));
    assert_true(gpu_made(ar, &nest, TT_CUDA, &m));
    assert_null(gpu_check_barriers(ar, &m));
    assert_int_equal(gpu_waits_in_loop(&m), 1);
    for (int k = 0; k < 2; k++) {
      struct gpu_steps t =
          gpu_bank_steps(ar, &m.nest.kernels[0], k ? "B_s" : "A_s");
      assert_true(t.least > 0);
      if (t.taken != t.least)
        fail_msg("%s: %lld steps instead of %lld", k ? "B_s" : "A_s",
                 (long long)t.taken, (long long)t.least);
    }
    gpu_made_free(&m);
    tt_arena_free(ar);
  }
}

/* Some 64 KB: CUDA is asked for them, OpenCL has them not. */
static void
large_rings_are_dynamic(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 256, 256, 256);
  const struct tt_gpu_tile tile = {.rows = 128,
                                   .cols = 128,
                                   .row_run = 4,
                                   .col_run = 4,
                                   .row_threads = 16,
                                   .col_threads = 16,
                                   .steps = 16,
                                   .parts = 1,
                                   .shared = {true, true},
                                   .staging = {.stages = 4}};
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  assert_int_equal(tt_gpu_tile(s, 0, &tile), TT_GPU_DONE);
  struct tt_nest nest;
  const char *error;
  struct tt_gpu_code code;
  struct tt_sb text = {0};
  assert_true(tt_schedule_lower(ar, s, &nest, &error));
  assert_null(tt_codegen_gpu(ar, &nest, TT_CUDA, NULL, &code, &text));
  assert_int_equal(code.launches[0].shared, 4 * 16 * 256 * 4);
  assert_non_null(strstr(tt_sb_str(&text), "cp.async.cg"));
  assert_non_null(strstr(tt_sb_str(&text), "MaxDynamicSharedMemorySize"));
  error = tt_codegen_gpu(ar, &nest, TT_OPENCL, NULL, &code, &text);
  assert_non_null(error);
  assert_non_null(strstr(error, "share 65536 bytes"));
  tt_sb_free(&text);
  tt_arena_free(ar);
}

/* ---- the primitive ------------------------------------------------------- */

static void
refused(struct tt_schedule *s, struct tt_staging g, const char *why)
{
  assert_false(tt_cache_staging(s, 0, &g));
  if (!strstr(s->error, why))
    fail_msg("'%s' is not in '%s'", why, s->error);
}

static void
illegal_stagings_are_refused(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 16, 16, 16);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  assert_true(
      tt_cache_read(s, 0, p->tensors[0], loop(s, "m"), 0, NULL, 0, "As"));
  refused(s, (struct tt_staging){.pad = -1}, "pad=-1 of As");
  refused(s, (struct tt_staging){.swizzle = 12}, "power of two");
  refused(s, (struct tt_staging){.stages = 5}, "must be 1..4");
  assert_true(tt_cache_staging(s, 0, &(struct tt_staging){.stages = 2}));
  assert_false(tt_bind(s, 0, loop(s, "m"), TT_THREAD_X));
  assert_non_null(strstr(s->error, "m of C does not run one iteration"));
  assert_true(tt_cache_read(s, 0, p->tensors[1], TT_OUTSIDE, 0, NULL, 0, "Bs"));
  refused(s, (struct tt_staging){.pad = 1}, "outside of all loops");
  tt_arena_free(ar);
}

/* ---- at random ------------------------------------------------------------
 */

/* Threads never meet, whatever a random schedule stages. */
static void
random_kernels_do_not_race(void **state)
{
  (void)state;
  int looked = 0;
  for (uint64_t seed = 1; seed <= 80; seed++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p = tt_random_program(ar, seed);
    struct tt_schedule *s =
        seed % 3 ? tt_random_schedule(ar, p, 7 * seed + 5, 8, false)
                 : tt_random_gpu_point(ar, p, seed, false);
    struct tt_nest nest;
    struct gpu_made m;
    const char *error = NULL;
    if (s && tt_schedule_lower(ar, s, &nest, &error) &&
        gpu_made(ar, &nest, TT_CUDA, &m)) {
      error = gpu_check_barriers(ar, &m);
      if (error)
        fail_msg("seed %llu: %s", (unsigned long long)seed, error);
      gpu_made_free(&m);
      looked++;
    }
    tt_arena_free(ar);
  }
  assert_true(looked > 30);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(staged_products_are_right),
      cmocka_unit_test(banks_do_not_conflict),
      cmocka_unit_test(rows_stay_aligned),
      cmocka_unit_test(default_tiles_do_not_conflict),
      cmocka_unit_test(large_rings_are_dynamic),
      cmocka_unit_test(illegal_stagings_are_refused),
      cmocka_unit_test(random_kernels_do_not_race),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
