/* Loops bound to blocks and threads of a GPU: what is refused and why, and
 * that a tiled product keeps its results; then kernels of random programs,
 * whose blocks and threads are loops of C.
 *
 * TT_RANDOM_COUNT sets the number of random pairs, TT_RANDOM_SEED where they
 * start.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/passes.h"
#include "schedule/schedule.h"
#include "tests/exec_c.h"
#include "tests/random_pairs.h"
#include "tests/random_program.h"
#include "tests/random_schedule.h"

static void
refused(const struct tt_schedule *s, bool result, const char *why)
{
  assert_false(result);
  assert_non_null(s->error);
  if (!strstr(s->error, why))
    fail_msg("refused for another reason: %s", s->error);
}

static int
loop(const struct tt_schedule *s, const char *name)
{
  int l = tt_find_loop(s, 0, name);
  assert_true(l >= 0);
  return l;
}

static void
illegal_bindings_name_the_loops(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_schedule *s =
      tt_schedule_new(ar, tt_matmul_program(ar, 100, 2048, 16), false);
  refused(s, tt_bind(s, 0, loop(s, "k"), TT_THREAD_X), "only spatial loops");
  refused(s, tt_bind(s, 0, loop(s, "n"), TT_BLOCK_X), "m is outside n");
  refused(s, tt_bind(s, 0, loop(s, "n"), TT_THREAD_X), "at most 1024");
  assert_true(tt_split(s, 0, loop(s, "n"), 32, "t", TT_TAIL_PEEL) >= 0);
  assert_true(tt_bind(s, 0, loop(s, "m"), TT_BLOCK_Y));
  refused(s, tt_bind(s, 0, loop(s, "n"), TT_BLOCK_Y), "both bound to block.y");
  assert_true(tt_bind(s, 0, loop(s, "n"), TT_BLOCK_X));
  refused(s, tt_reorder(s, 0, 2, (int[]){loop(s, "t"), loop(s, "n")}),
          "only other blocks");
  refused(s, tt_unroll(s, 0, loop(s, "n")), "bound");
  assert_true(tt_bind(s, 0, loop(s, "t"), TT_THREAD_X));
  assert_int_equal(s->nbound, 3);
  tt_arena_free(ar);
}

static void
threads_stand_inside_one_another(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_schedule *s =
      tt_schedule_new(ar, tt_matmul_program(ar, 20, 20, 16), false);
  assert_true(tt_split(s, 0, loop(s, "m"), 8, "mi", TT_TAIL_SHIFT) >= 0);
  refused(s, tt_bind(s, 0, loop(s, "m"), TT_THREAD_Y), "shifted tail");
  s = tt_schedule_new(ar, tt_matmul_program(ar, 20, 20, 16), false);
  assert_true(tt_cache_read(s, 0, s->program->tensors[0], loop(s, "m"), 0, NULL,
                            0, "A_c"));
  assert_true(tt_bind(s, 0, loop(s, "m"), TT_THREAD_Y));
  refused(s, tt_bind(s, 0, loop(s, "n"), TT_THREAD_X), "between m and n");
  tt_arena_free(ar);
}

/* The schedule of a tiled product, its operands shared by a block's threads:
 * tiles of 16 by 16, four results by four a thread. */
static struct tt_schedule *
tiled(struct tt_arena *ar, struct tt_program *p, enum tt_tail tail)
{
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  static const char *const outer[] = {"m", "n"};
  static const char *const inner[2][2] = {{"my", "mr"}, {"nx", "nr"}};
  for (int i = 0; i < 2; i++) {
    assert_true(tt_split(s, 0, loop(s, outer[i]), 16, inner[i][0], tail) >= 0);
    assert_true(tt_split(s, 0, loop(s, inner[i][0]), 4, inner[i][1],
                         TT_TAIL_PEEL) >= 0);
  }
  assert_true(tt_split(s, 0, loop(s, "k"), 8, "ki", TT_TAIL_PEEL) >= 0);
  int order[] = {loop(s, "m"),  loop(s, "n"),  loop(s, "k"),  loop(s, "my"),
                 loop(s, "nx"), loop(s, "ki"), loop(s, "mr"), loop(s, "nr")};
  assert_true(tt_reorder(s, 0, 8, order));
  assert_true(tt_bind(s, 0, loop(s, "m"), TT_BLOCK_Y));
  assert_true(tt_bind(s, 0, loop(s, "n"), TT_BLOCK_X));
  assert_true(tt_bind(s, 0, loop(s, "my"), TT_THREAD_Y));
  assert_true(tt_bind(s, 0, loop(s, "nx"), TT_THREAD_X));
  assert_true(tt_cache_write(s, 0, loop(s, "n")));
  for (int i = 0; i < 2; i++)
    assert_true(tt_cache_read(s, 0, p->tensors[i], loop(s, "k"), 0, NULL, 4,
                              i ? "Bs" : "As"));
  assert_true(tt_unroll(s, 0, loop(s, "mr")));
  assert_true(tt_unroll(s, 0, loop(s, "nr")));
  return s;
}

static void
assert_equal(const struct tt_tensor *t, struct tt_values *want,
             struct tt_values *got)
{
  double *wf, *gf;
  int64_t *wi, *gi;
  tt_values_of(want, t, &wf, &wi);
  tt_values_of(got, t, &gf, &gi);
  for (int64_t i = 0; i < tt_tensor_size(t); i++)
    if (!(fabs(wf[i] - gf[i]) <= 1e-4))
      fail_msg("%s[%lld]: %g instead of %g", t->name, (long long)i, gf[i],
               wf[i]);
}

typedef struct tt_schedule *make_tiles_fn(struct tt_arena *,
                                          struct tt_program *, enum tt_tail);

static void
check_tiles(make_tiles_fn *make, enum tt_tail second)
{
  struct tt_arena *ar = tt_arena_new();
  for (int i = 0; i < 4; i++) {
    struct tt_program *p = i < 2 ? tt_matmul_program(ar, 32, 48, 16)
                                 : tt_matmul_program(ar, 37, 50, 21);
    struct tt_schedule *s = make(ar, p, i % 2 ? second : TT_TAIL_PEEL);
    struct tt_nest nest;
    const char *error = NULL;
    assert_true(tt_schedule_lower(ar, s, &nest, &error));
    struct tt_values *want = tt_values_new(), *got = tt_values_new();
    tt_values_random(want, p, 1);
    tt_values_random(got, p, 1);
    assert_null(tt_interpret_program(p, want));
    error = tt_interpret_nest(&nest, got);
    if (error)
      fail_msg("%s", error);
    assert_equal(p->tensors[2], want, got);
    for (int wide = 0; wide < 2; wide++) {
      struct exec_case c = {&nest, {0}, want, want, true, wide};
      error = exec_c(ar, 1, &c, 0, NULL);
      if (error)
        fail_msg("%s", error);
    }
    tt_values_free(want);
    tt_values_free(got);
  }
  tt_arena_free(ar);
}

static void
tiled_product_is_right(void **state)
{
  (void)state;
  check_tiles(tiled, TT_TAIL_GUARD);
}

/* The order of a stage's loops, by names. */
static void
assert_order(const struct tt_schedule *s, const char *want)
{
  const struct tt_stage_schedule *ss = &s->stages[0];
  struct tt_sb sb = {0};
  for (int i = 0; i < ss->norder; i++)
    tt_sb_printf(&sb, "%s%s", i ? " " : "", ss->loops[ss->order[i]].name);
  assert_string_equal(tt_sb_str(&sb), want);
  tt_sb_free(&sb);
}

/* Strided tiles: blocks, virtual threads, threads, and what lies side by
 * side; A's rows are shared by all virtual threads. */
static struct tt_schedule *
strided(struct tt_arena *ar, struct tt_program *p, enum tt_tail tail)
{
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  static const char *const name[2][4] = {{"m", "mv", "mt", "mr"},
                                         {"n", "nv", "nt", "nr"}};
  static const int64_t factor[] = {16, 8, 2};
  for (int i = 0; i < 2; i++)
    for (int j = 0; j < 3; j++)
      assert_true(tt_split(s, 0, loop(s, name[i][j]), factor[j], name[i][j + 1],
                           j ? TT_TAIL_PEEL : tail) >= 0);
  assert_true(tt_split(s, 0, loop(s, "k"), 8, "ki", TT_TAIL_PEEL) >= 0);
  int order[] = {loop(s, "m"),  loop(s, "n"),  loop(s, "mv"), loop(s, "nv"),
                 loop(s, "k"),  loop(s, "mt"), loop(s, "nt"), loop(s, "ki"),
                 loop(s, "mr"), loop(s, "nr")};
  assert_true(tt_reorder(s, 0, 10, order));
  assert_true(tt_vthread(s, 0, loop(s, "mv")));
  assert_true(tt_bind(s, 0, loop(s, "m"), TT_BLOCK_Y));
  assert_true(tt_bind(s, 0, loop(s, "n"), TT_BLOCK_X));
  assert_true(tt_bind(s, 0, loop(s, "mt"), TT_THREAD_Y));
  assert_true(tt_bind(s, 0, loop(s, "nt"), TT_THREAD_X));
  assert_true(tt_vthread(s, 0, loop(s, "nv")));
  assert_true(tt_cache_write(s, 0, loop(s, "n")));
  for (int i = 0; i < 2; i++)
    assert_true(tt_cache_read(s, 0, p->tensors[i], loop(s, "k"), 0, NULL, 4,
                              i ? "Bs" : "As"));
  assert_true(tt_unroll(s, 0, loop(s, "mr")));
  assert_true(tt_unroll(s, 0, loop(s, "nr")));
  assert_order(s, "m n k mt nt ki nv mv mr nr");
  return s;
}

static void
strided_tiles_are_right(void **state)
{
  (void)state;
  check_tiles(strided, TT_TAIL_PAD);
}

static void
virtual_threads_run_innermost(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_schedule *s =
      tt_schedule_new(ar, tt_matmul_program(ar, 64, 1024, 16), false);
  refused(s, tt_vthread(s, 0, loop(s, "k")), "only spatial loops");
  refused(s, tt_vthread(s, 0, loop(s, "n")), "more than 256 virtual threads");
  assert_true(tt_split(s, 0, loop(s, "n"), 16, "ni", TT_TAIL_PEEL) >= 0);
  assert_true(tt_vthread(s, 0, loop(s, "m")));
  assert_order(s, "n ni k m");
  refused(s, tt_vthread(s, 0, loop(s, "ni")), "virtual threads of one");
  refused(s, tt_vthread(s, 0, loop(s, "m")), "already");
  refused(s, tt_unroll(s, 0, loop(s, "m")), "already");
  assert_true(tt_unroll(s, 0, loop(s, "k")));
  assert_order(s, "n ni m k");
  refused(s, tt_cache_write(s, 0, loop(s, "m")), "something stands in m of C");
  assert_true(tt_reorder(s, 0, 2, (int[]){loop(s, "m"), loop(s, "n")}));
  assert_order(s, "ni n m k");
  assert_int_equal(s->nbound, 1);
  tt_arena_free(ar);
}

/* A schedule that has something in it keeps the results. */
static void
check_schedule(struct tt_arena *ar, const struct tt_program *p,
               struct tt_schedule *s, const char *primitive)
{
  struct tt_nest nest;
  struct tt_sb text = {0};
  const char *error = NULL;
  tt_schedule_print(s, &text);
  if (!strstr(tt_sb_str(&text), primitive))
    fail_msg("no %s in %s", primitive, tt_sb_str(&text));
  assert_true(tt_schedule_lower(ar, s, &nest, &error));
  struct tt_values *want = tt_values_new(), *got = tt_values_new();
  tt_values_random(want, p, 1);
  tt_values_random(got, p, 1);
  assert_null(tt_interpret_program(p, want));
  error = tt_interpret_nest(&nest, got);
  for (int wide = 0; wide < 2 && !error; wide++) {
    struct exec_case c = {&nest, {0}, want, want, true, wide};
    error = exec_c(ar, 1, &c, 0, NULL);
  }
  if (error)
    fail_msg("%s\n%s", tt_sb_str(&text), error);
  tt_sb_free(&text);
  tt_values_free(want);
  tt_values_free(got);
}

/* Under the default schedule, which is to share something out. */
static void
check_default(struct tt_arena *ar, const struct tt_program *p,
              const char *primitive)
{
  check_schedule(ar, p, tt_gpu_schedule(ar, p, &tt_gpu_unknown, false, true),
                 primitive);
}

static void
default_tiles_are_right(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {
      {32, 48, 16}, {37, 50, 21}, {9, 8, 8}, {70, 132, 40}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct tt_arena *ar = tt_arena_new();
    check_default(ar,
                  tt_matmul_program(ar, sizes[i][0], sizes[i][1], sizes[i][2]),
                  "tail=\"pad\"");
    tt_arena_free(ar);
  }
}

/* Few tiles: the reduction is cut into parts, in tiles as well, where sums may
 * change. */
static void
few_tiles_cut_their_reduction(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {{16, 24, 1024}, {9, 20, 1023}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p =
        tt_matmul_program(ar, sizes[i][0], sizes[i][1], sizes[i][2]);
    check_default(ar, p, "C.rfactor(k, ");
    check_default(ar, p, "C_parts.cache_read(A, ");
    assert_int_equal(
        tt_gpu_schedule(ar, p, &tt_gpu_unknown, true, true)->nstages, 1);
    tt_arena_free(ar);
  }
}

/* Y[i] = sum[k](X[i, k]) */
static struct tt_program *
rows_program(struct tt_arena *ar, int64_t rows, int64_t n)
{
  struct tt_program *p = tt_program_new(ar, "rows");
  struct tt_tensor *x = tt_program_tensor(p, "X", TT_INPUT, TT_F32, 2,
                                          (const int64_t[]){rows, n});
  struct tt_tensor *y =
      tt_program_tensor(p, "Y", TT_OUTPUT, TT_F32, 1, (const int64_t[]){rows});
  const struct tt_var *i = tt_program_var(p, "i", rows),
                      *k = tt_program_var(p, "k", n);
  const struct tt_expr *at[] = {tt_var_ref(ar, i), tt_var_ref(ar, k)};
  tt_program_stage(p, y, &i, TT_RED_SUM, 1, &k, tt_load(ar, x, 2, at), NULL);
  return p;
}

/* 16-bit floats are integers in memory. */
static void
halves_are_right(void **state)
{
  (void)state;
  static const enum tt_dtype types[] = {TT_F16, TT_BF16};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    struct tt_arena *ar = tt_arena_new();
    check_default(ar, tt_halves_program(ar, types[i], 20, 36, 24), "finish");
    check_default(ar, tt_halves_program(ar, types[i], 5, 6, 7), "finish");
    tt_arena_free(ar);
  }
}

static void
threads_share_long_reductions(void **state)
{
  (void)state;
  static const int64_t sizes[][2] = {
      {3, 1000}, {7, 130}, {20, 4099}, {2, 70001}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct tt_arena *ar = tt_arena_new();
    check_default(ar, rows_program(ar, sizes[i][0], sizes[i][1]), "rfactor");
    tt_arena_free(ar);
  }
}

/* What stands between block loops, here a copy, is done by every block. */
static void
blocks_fill_their_own_memory(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 6, 10, 7);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  assert_true(
      tt_cache_read(s, 0, p->tensors[1], loop(s, "m"), 0, NULL, 0, "Bs"));
  assert_true(tt_bind(s, 0, loop(s, "m"), TT_BLOCK_Y));
  assert_true(tt_bind(s, 0, loop(s, "n"), TT_BLOCK_X));
  struct tt_nest nest;
  const char *error = NULL;
  assert_true(tt_schedule_lower(ar, s, &nest, &error));
  struct tt_values *v = tt_values_new();
  tt_values_random(v, p, 1);
  assert_null(tt_interpret_program(p, v));
  struct exec_case c = {&nest, {0}, v, v, true, false};
  error = exec_c(ar, 1, &c, 0, NULL);
  if (error)
    fail_msg("%s", error);
  tt_values_free(v);
  tt_arena_free(ar);
}

static const struct tt_target_model a_cpu = {.registers = 32,
                                             .gpu = {.cpu = true,
                                                     .vectors = true,
                                                     .lanes = 16,
                                                     .units = 2,
                                                     .warp = 32,
                                                     .threads = 256,
                                                     .items = {256, 256, 64},
                                                     .shared = 16384,
                                                     .registers = 255}};

/* What no tile divides is rounded up on such a device, where it can be. */
static void
prime_extents_have_tiles(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {{37, 41, 13}, {64, 67, 8}, {31, 64, 5}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p =
        tt_matmul_program(ar, sizes[i][0], sizes[i][1], sizes[i][2]);
    struct tt_space *space = tt_gpu_space_new(ar, p, &a_cpu, false);
    int config[64];
    tt_gpu_space_default(space, config);
    struct tt_schedule *s = tt_gpu_space_schedule(ar, space, config);
    assert_non_null(s);
    check_schedule(ar, p, s, "tail=\"pad\"");
    check_schedule(ar, p, s, "C.vectorize(n_v, 16)");
    tt_arena_free(ar);
  }
}

/* On such a device rows that are a page apart are copied together. */
static void
scattered_rows_are_packed(void **state)
{
  (void)state;
  static const int64_t columns[] = {512, 1024};
  for (int i = 0; i < 2; i++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p = tt_matmul_program(ar, 64, columns[i], 64);
    struct tt_space *space = tt_gpu_space_new(ar, p, &a_cpu, false);
    int config[64];
    tt_gpu_space_default(space, config);
    struct tt_schedule *s = tt_gpu_space_schedule(ar, space, config);
    struct tt_sb text = {0};
    assert_non_null(s);
    tt_schedule_print(s, &text);
    bool packed = strstr(tt_sb_str(&text), "C.cache_read(B, root") != NULL;
    assert_int_equal(packed, i == 1);
    tt_sb_free(&text);
    tt_arena_free(ar);
  }
}

/* Y[k, x] = sum[c](F[k, c] * X[c, x] for x > 0, else 0): nothing along x can be
 * rounded up. */
static struct tt_program *
bordered_program(struct tt_arena *ar, int64_t nk, int64_t nx, int64_t nc)
{
  struct tt_program *p = tt_program_new(ar, "border");
  struct tt_tensor *f =
      tt_program_tensor(p, "F", TT_WEIGHT, TT_F32, 2, (int64_t[]){nk, nc});
  struct tt_tensor *x =
      tt_program_tensor(p, "X", TT_INPUT, TT_F32, 2, (int64_t[]){nc, nx});
  struct tt_tensor *y =
      tt_program_tensor(p, "Y", TT_OUTPUT, TT_F32, 2, (int64_t[]){nk, nx});
  const struct tt_var *vk = tt_program_var(p, "k", nk),
                      *vx = tt_program_var(p, "x", nx),
                      *vc = tt_program_var(p, "c", nc);
  const struct tt_expr *k = tt_var_ref(ar, vk), *i = tt_var_ref(ar, vx),
                       *c = tt_var_ref(ar, vc);
  const struct tt_expr *before = tt_isub(ar, i, tt_idx(ar, 1));
  const struct tt_expr *at[] = {c, before}, *weight[] = {k, c};
  const struct tt_expr *value =
      tt_select(ar, tt_binary(ar, TT_GE, before, tt_idx(ar, 0)),
                tt_load(ar, x, 2, at), tt_flt(ar, TT_F32, 0));
  tt_program_stage(p, y, (const struct tt_var *[]){vk, vx}, TT_RED_SUM, 1, &vc,
                   tt_binary(ar, TT_MUL, value, tt_load(ar, f, 2, weight)),
                   NULL);
  return p;
}

/* The default is legal whatever the extents are. */
static void
defaults_fit_the_extents(void **state)
{
  (void)state;
  static const int64_t rows[] = {1, 2, 3, 5, 7, 11, 13, 14, 22, 28, 29, 56};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p = bordered_program(ar, 64, rows[i], 9);
    struct tt_space *space = tt_gpu_space_new(ar, p, &a_cpu, false);
    int config[64];
    tt_gpu_space_default(space, config);
    struct tt_schedule *s = tt_gpu_space_schedule(ar, space, config);
    if (!s)
      fail_msg("there is no default for %d", (int)rows[i]);
    if (i % 4 == 3)
      check_schedule(ar, p, s, "Y.vectorize(k_v, 16)");
    tt_arena_free(ar);
  }
}

/* A weight that has more elements than the result: on a device that is a CPU
 * it is laid out ahead of time, and there are tiles to choose from. */
static void
large_weights_leave_a_choice(void **state)
{
  (void)state;
  enum { M = 4, N = 32, K = 64 };
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_program_new(ar, "dense");
  struct tt_tensor *x =
      tt_program_tensor(p, "X", TT_INPUT, TT_F32, 2, (int64_t[]){M, K});
  struct tt_tensor *w =
      tt_program_tensor(p, "W", TT_WEIGHT, TT_F32, 2, (int64_t[]){N, K});
  struct tt_tensor *y =
      tt_program_tensor(p, "Y", TT_OUTPUT, TT_F32, 2, (int64_t[]){M, N});
  const struct tt_var *vm = tt_program_var(p, "m", M),
                      *vn = tt_program_var(p, "n", N),
                      *vk = tt_program_var(p, "k", K);
  const struct tt_expr *m = tt_var_ref(ar, vm), *n = tt_var_ref(ar, vn),
                       *k = tt_var_ref(ar, vk);
  tt_program_stage(
      p, y, (const struct tt_var *[]){vm, vn}, TT_RED_SUM, 1, &vk,
      tt_binary(ar, TT_MUL, tt_load(ar, x, 2, (const struct tt_expr *[]){m, k}),
                tt_load(ar, w, 2, (const struct tt_expr *[]){n, k})),
      NULL);
  assert_true(tt_gpu_space_new(ar, p, &a_cpu, false)->size > 100);
  tt_arena_free(ar);
}

static const char *
text_of(struct tt_arena *ar, const struct tt_schedule *s)
{
  struct tt_sb sb = {0};
  tt_schedule_print(s, &sb);
  const char *text = tt_arena_strdup(ar, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static const struct tt_target_model a_gpu = {.gpu = {.lanes = 1,
                                                     .units = 80,
                                                     .warp = 32,
                                                     .threads = 1024,
                                                     .items = {1024, 1024, 64},
                                                     .shared = 48 << 10,
                                                     .registers = 255}};

/* A search begins with the schedule that is the default without one. */
static void
spaces_begin_with_the_default(void **state)
{
  (void)state;
  static const int64_t sizes[][3] = {
      {1024, 1024, 1024}, {512, 512, 512}, {128, 256, 4096}, {100, 60, 70}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p =
        tt_matmul_program(ar, sizes[i][0], sizes[i][1], sizes[i][2]);
    struct tt_space *space = tt_gpu_space_new(ar, p, &a_gpu, false);
    int config[64];
    tt_gpu_space_default(space, config);
    struct tt_schedule *s = tt_gpu_space_schedule(ar, space, config);
    assert_non_null(s);
    assert_string_equal(
        text_of(ar, s),
        text_of(ar, tt_gpu_schedule(ar, p, &a_gpu.gpu, false, true)));
    tt_arena_free(ar);
  }
}

static const struct tt_stage_schedule *
default_of(struct tt_arena *ar, const struct tt_gpu_limits *g, int64_t m,
           int64_t n, int64_t k)
{
  struct tt_program *p = tt_matmul_program(ar, m, n, k);
  return tt_gpu_schedule(ar, p, g, false, TT_GPU_TILES)->stages;
}

static int64_t
bound_to(const struct tt_stage_schedule *ss, enum tt_for_kind kind)
{
  for (int i = 0; i < ss->norder; i++)
    if (ss->loops[ss->order[i]].kind == kind)
      return ss->loops[ss->order[i]].extent;
  return 1;
}

/* Tiles, and parts of the reduction, are for the device's processors; blocks
 * exceed none of its limits. */
static void
defaults_are_for_the_device(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_gpu_limits g = tt_gpu_unknown;
  const struct tt_stage_schedule *ss;
  int64_t blocks[2];
  for (int i = 0; i < 2; i++) {
    g.units = i ? 132 : 16;
    ss = default_of(ar, &g, 1024, 1024, 1024);
    blocks[i] = bound_to(ss, TT_BLOCK_X) * bound_to(ss, TT_BLOCK_Y);
  }
  assert_int_equal(blocks[0], 64);
  assert_in_range(blocks[1], 128, 132 * 4);
  /* A product of 128 by 128: parts of the sum for many processors. */
  g.units = 1;
  assert_int_equal(default_of(ar, &g, 128, 128, 4096)[0].stage->nspatial, 2);
  g.units = 8;
  ss = default_of(ar, &g, 128, 128, 8192);
  int64_t few = bound_to(ss, TT_BLOCK_Z);
  g.units = 132;
  ss = default_of(ar, &g, 128, 128, 8192);
  assert_int_equal(ss[0].stage->nspatial, 3);
  assert_true(bound_to(ss, TT_BLOCK_Z) > few);
  /* Few threads, or little memory. */
  g = tt_gpu_unknown;
  g.threads = g.items[0] = g.items[1] = 64;
  ss = default_of(ar, &g, 1024, 1024, 64);
  assert_int_equal(bound_to(ss, TT_THREAD_X) * bound_to(ss, TT_THREAD_Y), 64);
  struct tt_program *p = tt_matmul_program(ar, 70, 132, 40);
  check_schedule(ar, p, tt_gpu_schedule(ar, p, &g, false, TT_GPU_TILES),
                 "tail=\"pad\"");
  g = tt_gpu_unknown;
  g.shared = 9 << 10;
  ss = default_of(ar, &g, 4096, 4096, 64);
  assert_true(bound_to(ss, TT_BLOCK_X) > 4096 / 128);
  tt_arena_free(ar);
}

/* The parts are a knob of the space, whose other knobs are for their tiles. */
static void
parts_are_a_knob(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 64, 64, 320);
  struct tt_space *space = tt_gpu_space_new(ar, p, &a_gpu, false);
  int config[64], knob = 0;
  tt_gpu_space_default(space, config);
  while (strcmp(space->knobs[knob].name, "C.splitk") != 0)
    assert_true(++knob < space->nknobs);
  assert_int_equal(space->knobs[knob].values[config[knob]], 1);
  config[knob] = space->knobs[knob].n - 1;
  assert_int_equal(space->knobs[knob].values[config[knob]], 10);
  struct tt_schedule *s = tt_gpu_space_schedule(ar, space, config);
  assert_non_null(s);
  assert_int_equal(s->nstages, 2);
  assert_int_equal(s->stages[0].stage->spatial[0]->extent, 10);
  assert_true(s->stages[0].ncaches == 2 && s->stages[1].ncaches == 0);
  space = tt_gpu_space_new(ar, p, &a_gpu, true);
  for (int i = 0; i < space->nknobs; i++)
    assert_null(strstr(space->knobs[i].name, "splitk"));
  tt_arena_free(ar);
}

/* ---- kernels ----------------------------------------------------------- */

/* false: the pair exceeds a limit of GPUs, or is refused because an index is
 * not proven inside. */
static bool
make_case(struct tt_arena *ar, struct random_pair *p, struct exec_case *c)
{
  struct tt_gpu_code code;
  struct tt_sb text = {0};
  const char *error = NULL;
  p->program = tt_random_program(ar, p->seed);
  p->schedule =
      p->seed % 3 == 0
          ? tt_gpu_schedule(ar, p->program, &tt_gpu_unknown, false, p->seed % 2)
          : tt_random_schedule(ar, p->program, 7 * p->seed + 5,
                               4 + (int)(p->seed % 30), false);
  if (p->seed % 4 == 1)
    p->schedule = tt_random_gpu_point(ar, p->program, p->seed, false);
  if (!p->schedule || !tt_schedule_lower(ar, p->schedule, &p->nest, &error))
    return false;
  bool wide = p->seed % 2;
  error = tt_codegen_gpu(ar, &p->nest, wide ? TT_GPU_C_WIDE : TT_GPU_C, NULL,
                         &code, &text);
  tt_sb_free(&text);
  if (error && (strstr(error, "GPU") || strstr(error, " dimension ") ||
                strstr(error, "unrolling")))
    return false;
  if (error)
    fail_pair(p, error);
  *c = (struct exec_case){.nest = &p->nest, .gpu = true, .wide = wide};
  c->in = c->want = tt_values_new();
  tt_values_random(c->in, p->program, p->seed);
  error = tt_interpret_program(p->program, c->want);
  if (error)
    fail_pair(p, error);
  return true;
}

/* Kernels of random programs under random schedules, run as loops of C. */
static void
random_kernels_keep_results(void **state)
{
  (void)state;
  check_random_pairs(200, 2, make_case);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(illegal_bindings_name_the_loops),
      cmocka_unit_test(threads_stand_inside_one_another),
      cmocka_unit_test(tiled_product_is_right),
      cmocka_unit_test(strided_tiles_are_right),
      cmocka_unit_test(virtual_threads_run_innermost),
      cmocka_unit_test(default_tiles_are_right),
      cmocka_unit_test(halves_are_right),
      cmocka_unit_test(few_tiles_cut_their_reduction),
      cmocka_unit_test(spaces_begin_with_the_default),
      cmocka_unit_test(defaults_are_for_the_device),
      cmocka_unit_test(parts_are_a_knob),
      cmocka_unit_test(threads_share_long_reductions),
      cmocka_unit_test(blocks_fill_their_own_memory),
      cmocka_unit_test(prime_extents_have_tiles),
      cmocka_unit_test(scattered_rows_are_packed),
      cmocka_unit_test(defaults_fit_the_extents),
      cmocka_unit_test(large_weights_leave_a_choice),
      cmocka_unit_test(random_kernels_keep_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
