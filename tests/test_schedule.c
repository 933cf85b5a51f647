/* Schedules: what is refused and why, the text form, and above all: random
 * legal schedules of random programs keep the interpreter's results.
 *
 * TT_RANDOM_COUNT sets the number of random pairs, TT_RANDOM_SEED where they
 * start: a failure prints the seed that repeats it.
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
#include "tests/random_program.h"
#include "tests/random_schedule.h"

static double
tolerance(enum tt_dtype t)
{
  switch (t) {
  case TT_F64:
    return 1e-11;
  case TT_F32:
    return 1e-4;
  case TT_F16:
    return 6e-2; /* sums of a hundred terms, in any order */
  case TT_BF16:
    return 4e-1;
  case TT_I8:
  case TT_U8:
  case TT_I16:
  case TT_U16:
  case TT_I32:
  case TT_U32:
  case TT_I64:
  case TT_BOOL:
  case TT_NDTYPES:
    break;
  }
  return 0;
}

/* Text of the first difference between outputs, or NULL. */
static const char *
compare(struct tt_arena *ar, const struct tt_program *p, struct tt_values *want,
        struct tt_values *got)
{
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    if (t->role != TT_OUTPUT)
      continue;
    double *wf, *gf;
    int64_t *wi, *gi;
    tt_values_of(want, t, &wf, &wi);
    tt_values_of(got, t, &gf, &gi);
    /* Rounding of a coarser type further up shows in this one. */
    double scale = 1, tol = 0;
    for (int j = 0; j < p->ntensors; j++)
      tol = fmax(tol, tolerance(p->tensors[j]->dtype));
    for (int64_t e = 0; wf && e < tt_tensor_size(t); e++)
      if (fabs(wf[e]) > scale && !isinf(wf[e]))
        scale = fabs(wf[e]);
    for (int64_t e = 0; e < tt_tensor_size(t); e++) {
      bool same = wf ? wf[e] == gf[e] || (isnan(wf[e]) && isnan(gf[e])) ||
                           fabs(wf[e] - gf[e]) <= tol * scale
                     : wi[e] == gi[e];
      if (!same)
        return tt_arena_printf(ar, "%s element %lld: want %g, got %g", t->name,
                               (long long)e, wf ? wf[e] : (double)wi[e],
                               wf ? gf[e] : (double)gi[e]);
    }
  }
  return NULL;
}

/* Lower and interpret; NULL, or what is wrong. `*skipped` when lowering
 * refuses (a size over a limit). */
static const char *
check_schedule(struct tt_arena *ar, const struct tt_program *p,
               const struct tt_schedule *s, uint64_t seed, bool *skipped)
{
  struct tt_nest nest;
  const char *error = NULL;
  *skipped = !tt_schedule_lower(ar, s, &nest, &error);
  if (*skipped)
    return NULL;
  const char *bad = tt_verify_stmt(ar, nest.body, false);
  if (!bad && nest.prepare)
    bad = tt_verify_stmt(ar, nest.prepare, false);
  /* An access that cannot be proven inside is rejected before code is made;
   * it must be right all the same. */
  *skipped = bad && strstr(bad, " dimension ");
  if (bad && !*skipped)
    return tt_arena_printf(ar, "verify: %s", bad);
  struct tt_values *want = tt_values_new(), *got = tt_values_new();
  tt_values_random(want, p, seed);
  tt_values_random(got, p, seed);
  bad = tt_interpret_program(p, want);
  if (!bad)
    bad = tt_interpret_nest(&nest, got);
  if (bad)
    bad = tt_arena_strdup(ar, bad);
  else
    bad = compare(ar, p, want, got);
  tt_values_free(want);
  tt_values_free(got);
  return bad;
}

static void
show_failure(const struct tt_program *p, const struct tt_schedule *s,
             const char *bad, uint64_t seed)
{
  struct tt_sb sb = {0};
  tt_dump_program(&sb, p);
  tt_schedule_print(s, &sb);
  struct tt_nest nest;
  const char *error;
  struct tt_arena *ar = tt_arena_new();
  if (tt_schedule_lower(ar, s, &nest, &error))
    tt_dump_stmt(&sb, nest.body, 0);
  fprintf(stderr, "%s\nTT_RANDOM_SEED=%llu: %s\n", tt_sb_str(&sb),
          (unsigned long long)seed, bad);
  tt_sb_free(&sb);
  tt_arena_free(ar);
}

static bool
calls(const struct tt_schedule *s, const char *primitive)
{
  for (int i = 0; i < s->ncalls; i++)
    if (strcmp(s->calls[i].primitive, primitive) == 0)
      return true;
  return false;
}

static void
random_schedules_keep_results(void **state)
{
  (void)state;
  const char *count = getenv("TT_RANDOM_COUNT"),
             *start = getenv("TT_RANDOM_SEED");
  uint64_t first = start ? strtoull(start, NULL, 10) : 1;
  uint64_t n = count ? strtoull(count, NULL, 10) : start ? 1 : 3000;
  int skips = 0;
  uint64_t shrunk = 0;
  struct tt_arena *ar = tt_arena_new();
  for (uint64_t seed = first; seed < first + n; seed++) {
    tt_arena_reset(ar);
    struct tt_program *p = tt_random_program(ar, seed / 4);
    if (seed % 4 == 1) {
      tt_solve_congruences(p);
      tt_factor_sums(p, false);
    }
    struct tt_schedule *s =
        tt_random_schedule(ar, p, seed, 4 + (int)(seed % 40), seed % 7 == 0);
    bool skipped;
    const char *bad = check_schedule(ar, p, s, seed, &skipped);
    skips += skipped;
    shrunk += calls(s, "shrink");
    if (bad)
      show_failure(p, s, bad, seed);
    assert_null(bad);
  }
  tt_arena_free(ar);
  /* Most must be lowered, and what few programs allow must be among them, or
   * the test shows nothing. */
  assert_true((uint64_t)skips * 5 <= n || n < 10);
  assert_true(shrunk * 50 >= n || n < 1000);
}

/* What the derived space makes of random programs: its default, which is a
 * schedule nearly always, and configurations drawn at random. */
static void
derived_schedules_keep_results(void **state)
{
  (void)state;
  const char *count = getenv("TT_RANDOM_COUNT"),
             *start = getenv("TT_RANDOM_SEED");
  uint64_t first = start ? strtoull(start, NULL, 10) : 1;
  uint64_t n = count ? strtoull(count, NULL, 10) : start ? 1 : 400;
  uint64_t none = 0;
  struct tt_arena *ar = tt_arena_new();
  for (uint64_t seed = first; seed < first + n; seed++) {
    tt_arena_reset(ar);
    struct tt_program *p = tt_random_program(ar, seed / 2);
    tt_solve_congruences(p);
    tt_factor_sums(p, false);
    const struct tt_target_model target = {.vector_bytes = 16 << seed % 3,
                                           .registers = seed % 5 ? 32 : 16,
                                           .l1 = 32 << 10,
                                           .l2 = 1 << 20,
                                           .l3 = 16 << 20,
                                           .threads = 1 + (int)(seed % 2)};
    struct tt_space *space = tt_space_new(ar, p, &target, false);
    int *config = TT_ARRAY(ar, int, (size_t)space->nknobs + 1);
    for (int draw = 0; draw < 3; draw++) {
      if (draw == 0)
        tt_space_default(space, config);
      for (int i = 0; draw && i < space->nknobs; i++)
        config[i] = (int)(tt_random_bits(seed, (uint32_t)draw, (uint64_t)i) %
                          (uint64_t)space->knobs[i].n);
      struct tt_schedule *s = tt_space_schedule(ar, space, config);
      none += !s && !draw; /* plain loops are the default then */
      if (!s)
        continue;
      bool skipped;
      const char *bad = check_schedule(ar, p, s, seed, &skipped);
      if (bad)
        show_failure(p, s, bad, seed);
      assert_null(bad);
    }
  }
  tt_arena_free(ar);
  assert_true(none * 20 <= n || n < 20);
}

static void
text_form_reads_back(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  for (uint64_t seed = 1; seed < 300; seed++) {
    tt_arena_reset(ar);
    struct tt_program *p = tt_random_program(ar, seed);
    struct tt_schedule *s = tt_random_schedule(ar, p, seed, 30, false);
    struct tt_schedule *t = tt_schedule_new(ar, p, false);
    struct tt_sblock block = {NULL, s->ncalls, s->calls};
    const struct tt_scall *bad = NULL;
    if (!tt_schedule_apply(t, &block, &bad))
      fail_msg("seed %d: %s.%s: %s", (int)seed, bad->stage, bad->primitive,
               t->error);
    struct tt_sb a = {0}, b = {0};
    tt_schedule_print(s, &a);
    tt_schedule_print(t, &b);
    struct tt_nest na, nb;
    const char *ea, *eb;
    bool la = tt_schedule_lower(ar, s, &na, &ea);
    assert_int_equal(la, tt_schedule_lower(ar, t, &nb, &eb));
    if (la) {
      tt_dump_stmt(&a, na.body, 0);
      tt_dump_stmt(&b, nb.body, 0);
    }
    assert_string_equal(tt_sb_str(&a), tt_sb_str(&b));
    tt_sb_free(&a);
    tt_sb_free(&b);
  }
  tt_arena_free(ar);
}

/* ---- refusals ---------------------------------------------------------- */

static void
refused(const struct tt_schedule *s, bool result, const char *why)
{
  assert_false(result);
  assert_non_null(s->error);
  if (!strstr(s->error, why))
    fail_msg("refused for another reason: %s", s->error);
}

static void
illegal_primitives_name_the_loops(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 16, 16, 16);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  refused(s, tt_vectorize(s, 0, 2, 4), "only inside accumulators");
  refused(s, tt_parallel(s, 0, 2), "only spatial loops can be parallel");
  refused(s, tt_vectorize(s, 0, 1, 3), "power of two");
  refused(s, tt_fuse(s, 0, 0, 2, "f") >= 0, "not directly inside m");
  refused(s, tt_fuse(s, 0, 1, 2, "f") >= 0, "reduction loop and a spatial");
  refused(s, tt_split(s, 0, 0, 0, "mi", TT_TAIL_PEEL) >= 0, "split by 0");
  refused(s, tt_split(s, 0, 0, 4, "n", TT_TAIL_PEEL) >= 0, "already has");
  refused(s, tt_inline(s, 0), "output");
  assert_true(tt_unroll(s, 0, 0));
  refused(s, tt_split(s, 0, 0, 4, "mi", TT_TAIL_PEEL) >= 0, "already unrolled");
  assert_true(tt_vectorize(s, 0, 1, 8));
  refused(s, tt_cache_write(s, 0, 2), "inside a vectorized loop");
  tt_arena_free(ar);
}

static void
strict_fp_keeps_the_order_of_sums(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 16, 16, 16);
  struct tt_schedule *s = tt_schedule_new(ar, p, true);
  int ki = tt_split(s, 0, 2, 4, "ki", TT_TAIL_PEEL);
  int ko = s->stages[0].loops[ki].other;
  refused(s, tt_reorder(s, 0, 2, (int[]){ki, ko}), "--strict-fp");
  assert_true(tt_reorder(s, 0, 3, (int[]){ko, 0, ki}));
  tt_arena_free(ar);
}

static void
shifted_tails_are_not_summed_twice(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 10, 16, 16);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  assert_true(tt_split(s, 0, 0, 4, "mi", TT_TAIL_SHIFT) >= 0);
  int mo = tt_find_loop(s, 0, "m"), k = tt_find_loop(s, 0, "k");
  refused(s, tt_reorder(s, 0, 2, (int[]){k, mo}), "tail is shifted");
  refused(s, tt_parallel(s, 0, mo), "shifted tail");
  tt_arena_free(ar);
}

/* The default schedule of the program for some threads, as text. */
static const char *
default_text(struct tt_arena *ar, struct tt_program *p, int threads,
             bool strict_fp)
{
  struct tt_target_model m = {.vector_bytes = 64,
                              .registers = 32,
                              .l1 = 32 << 10,
                              .l2 = 1 << 20,
                              .l3 = 32 << 20,
                              .threads = threads};
  struct tt_space *space = tt_space_new(ar, p, &m, strict_fp);
  int *config = TT_ARRAY(ar, int, (size_t)space->nknobs + 1);
  tt_space_default(space, config);
  struct tt_schedule *s = tt_space_schedule(ar, space, config);
  assert_non_null(s);
  struct tt_sb sb = {0};
  tt_schedule_print(s, &sb);
  const char *text = tt_arena_strdup(ar, tt_sb_str(&sb));
  tt_sb_free(&sb);
  bool skipped;
  const char *bad = check_schedule(ar, p, s, 1, &skipped);
  if (bad)
    show_failure(p, s, bad, 1);
  assert_null(bad);
  assert_false(skipped);
  return text;
}

/* Few results of long sums: threads share the sums. */
static void
threads_share_long_sums(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *few = tt_matmul_program(ar, 2, 2, 100003),
                    *many = tt_matmul_program(ar, 60, 60, 200);
  const char *text = default_text(ar, few, 4, false);
  assert_non_null(strstr(text, "C.rfactor(k, 25001, k_part, C_parts)"));
  assert_non_null(strstr(text, "C_parts.parallel(k)"));
  assert_null(strstr(default_text(ar, few, 1, false), "rfactor"));
  assert_null(strstr(default_text(ar, few, 4, true), "rfactor"));
  assert_null(strstr(default_text(ar, many, 4, false), "rfactor"));
  tt_arena_free(ar);
}

/* Copies of a point in one tile's accumulators are whole sums each; copies in
 * two tiles, with the reduction outside, would be summed twice. */
static void
shifted_tails_inside_accumulators(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 6, 22, 32);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  int ni = tt_split(s, 0, 1, 8, "ni", TT_TAIL_SHIFT);
  int n = s->stages[0].loops[ni].other, m = 0;
  int ki = tt_split(s, 0, 2, 8, "ki", TT_TAIL_PEEL);
  int k = s->stages[0].loops[ki].other;
  refused(s, tt_reorder(s, 0, 2, (int[]){k, n}), "tail is shifted");
  assert_true(tt_cache_write(s, 0, m));
  assert_true(tt_reorder(s, 0, 4, (int[]){k, ki, n, ni}));
  refused(s, tt_reorder(s, 0, 4, (int[]){k, ni, m, n}), "tail is shifted");
  assert_true(tt_reorder(s, 0, 2, (int[]){k, m})); /* sums loaded and stored */
  assert_true(tt_vectorize(s, 0, ni, 8));
  bool skipped;
  const char *bad = check_schedule(ar, p, s, 1, &skipped);
  if (bad)
    show_failure(p, s, bad, 1);
  assert_null(bad);
  assert_false(skipped);
  tt_arena_free(ar);
}

/* Blocks of a reduction as a stage of their own: positions, names, and what is
 * refused. */
static void
rfactor_makes_a_stage(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 6, 16, 50);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  refused(s, tt_rfactor(s, 0, 1, 8, "ki", "P") >= 0, "no reduction loop");
  refused(s, tt_rfactor(s, 0, 2, 0, "ki", "P") >= 0, "split by 0");
  refused(s, tt_rfactor(s, 0, 2, 8, "m", "P") >= 0, "a loop named m");
  refused(s, tt_rfactor(s, 0, 2, 8, "ki", "A") >= 0, "a tensor A already");
  assert_int_equal(tt_rfactor(s, 0, 2, 16, "ki", "P"), 0);
  assert_int_equal(s->nstages, 2);
  assert_int_equal(p->nstages, 1);
  assert_int_equal(tt_find_stage(s, "P"), 0);
  assert_int_equal(tt_find_stage(s, "C"), 1);
  assert_int_equal(s->stages[0].loops[0].extent, 4); /* 16, 16, 16, 2 */
  assert_true(tt_parallel(s, 0, tt_find_loop(s, 0, "k")));
  assert_true(tt_vectorize(s, 0, tt_find_loop(s, 0, "n"), 8));
  refused(s, tt_rfactor(s, 0, 3, 4, "kj", "Q") >= 0, "rfactor comes first");
  assert_true(tt_rfactor(s, 1, 2, 2, "kj", "Q") >= 0); /* of the sum of P */
  assert_int_equal(s->nstages, 3);
  assert_true(tt_compute_at(s, 0, 1, tt_find_loop(s, 1, "k")));
  bool skipped;
  const char *bad = check_schedule(ar, p, s, 1, &skipped);
  if (bad)
    show_failure(p, s, bad, 1);
  assert_null(bad);
  assert_false(skipped);
  s = tt_schedule_new(ar, p, true);
  refused(s, tt_rfactor(s, 0, 2, 16, "ki", "P") >= 0, "--strict-fp");
  tt_arena_free(ar);
}

static void
count_prefetch(const struct tt_stmt *st, int *n)
{
  *n += st->kind == TT_PREFETCH;
  for (int i = 0; i < st->nitems; i++)
    count_prefetch(st->items[i], n);
  if (st->body)
    count_prefetch(st->body, n);
}

static void
prefetch_names_lines(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 64, 64, 64);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  int ni = tt_split(s, 0, 1, 32, "ni", TT_TAIL_PEEL), m = 0, k = 2;
  int n = s->stages[0].loops[ni].other;
  assert_true(tt_reorder(s, 0, 3, (int[]){n, k, ni}));
  assert_true(
      tt_cache_read(s, 0, p->tensors[1], m, 3, (int[]){n, k, ni}, 0, "P"));
  refused(s, tt_prefetch_at(s, 0, "X", m, 1), "no tensor or cache 'X'");
  refused(s, tt_prefetch_at(s, 0, "C", m, -1), "a distance of -1");
  assert_true(tt_vectorize(s, 0, ni, 8));
  refused(s, tt_prefetch_at(s, 0, "C", ni, 1), "inside a vectorized loop");
  assert_true(tt_prefetch_at(s, 0, "C", m, 1));
  assert_true(tt_prefetch_at(s, 0, "A", k, 16));
  assert_true(tt_prefetch_at(s, 0, "P", n, 1));
  struct tt_nest nest;
  const char *error = NULL;
  if (!tt_schedule_lower(ar, s, &nest, &error))
    fail_msg("%s", error);
  int count = 0;
  count_prefetch(nest.body, &count);
  assert_int_equal(count, 3);
  tt_arena_free(ar);
}

/* The hand-written schedule of the fast matrix product, at sizes with tails
 * everywhere; A is packed by blocks or whole. */
static void
check_packed(bool whole)
{
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_matmul_program(ar, 23, 37, 29);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  int n1 = tt_split(s, 0, 1, 32, "n1", TT_TAIL_PEEL);
  int nr = tt_split(s, 0, n1, 8, "nr", TT_TAIL_PEEL);
  int k1 = tt_split(s, 0, 2, 8, "k1", TT_TAIL_PEEL);
  int m1 = tt_split(s, 0, 0, 12, "m1", TT_TAIL_PEEL);
  int mr = tt_split(s, 0, m1, 6, "mr", TT_TAIL_PEEL);
  int n = tt_find_loop(s, 0, "n"), k = tt_find_loop(s, 0, "k"),
      m = tt_find_loop(s, 0, "m");
  m1 = tt_find_loop(s, 0, "m1");
  n1 = tt_find_loop(s, 0, "n1");
  assert_true(tt_reorder(s, 0, 8, (int[]){n, k, m, n1, m1, k1, mr, nr}));
  assert_true(tt_cache_write(s, 0, m1));
  assert_true(
      tt_cache_read(s, 0, p->tensors[1], k, 3, (int[]){n1, k1, nr}, 4, "B_p"));
  assert_true(whole ? tt_cache_read(s, 0, p->tensors[0], TT_OUTSIDE, 5,
                                    (int[]){k, m, m1, k1, mr}, 0, "A_p")
                    : tt_cache_read(s, 0, p->tensors[0], m, 3,
                                    (int[]){m1, k1, mr}, 0, "A_p"));
  assert_true(tt_unroll(s, 0, mr));
  assert_true(tt_vectorize(s, 0, nr, 4));
  bool skipped;
  const char *bad = check_schedule(ar, p, s, 1, &skipped);
  if (bad)
    show_failure(p, s, bad, 1);
  assert_null(bad);
  assert_false(skipped);
  tt_arena_free(ar);
}

static void
packed_matmul_is_right(void **state)
{
  (void)state;
  check_packed(false);
  /* Splits with tails of a split's inner half index the layout: once refused.
   */
  check_packed(true);
}

/* ---- windows at borders ------------------------------------------------ */

/* Y[y,x,k] = sum[c,r,s](X[y+r-1, x+s-1, c else outside] * F[r,s,c,k]) */
static struct tt_program *
window(struct tt_arena *ar, int64_t h, int64_t c, int64_t k, double outside)
{
  struct tt_program *p = tt_program_new(ar, "window");
  struct tt_tensor *x =
      tt_program_tensor(p, "X", TT_INPUT, TT_F32, 3, (int64_t[]){h, h, c});
  struct tt_tensor *f =
      tt_program_tensor(p, "F", TT_INPUT, TT_F32, 4, (int64_t[]){3, 3, c, k});
  struct tt_tensor *out =
      tt_program_tensor(p, "Y", TT_OUTPUT, TT_F32, 3, (int64_t[]){h, h, k});
  const struct tt_var *v[] = {
      tt_program_var(p, "y", h), tt_program_var(p, "x", h),
      tt_program_var(p, "k", k), tt_program_var(p, "c", c),
      tt_program_var(p, "r", 3), tt_program_var(p, "s", 3)};
  const struct tt_expr *i[6], *at[2], *in = NULL;
  for (int a = 0; a < 6; a++)
    i[a] = tt_var_ref(ar, v[a]);
  for (int d = 0; d < 2; d++) {
    at[d] = tt_iadd(ar, tt_iadd(ar, i[d], i[d + 4]), tt_idx(ar, -1));
    const struct tt_expr *both =
        tt_binary(ar, TT_AND, tt_binary(ar, TT_GE, at[d], tt_idx(ar, 0)),
                  tt_binary(ar, TT_LT, at[d], tt_idx(ar, h)));
    in = in ? tt_binary(ar, TT_AND, in, both) : both;
  }
  const struct tt_expr *value = tt_binary(
      ar, TT_MUL,
      tt_select(
          ar, in,
          tt_load(ar, x, 3, (const struct tt_expr *[]){at[0], at[1], i[3]}),
          tt_flt(ar, TT_F32, outside)),
      tt_load(ar, f, 4, (const struct tt_expr *[]){i[4], i[5], i[3], i[2]}));
  tt_program_stage(p, out, v, TT_RED_SUM, 3, v + 3, value, NULL);
  return p;
}

static void
shrink_says_what_it_cannot_leave_out(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = window(ar, 6, 4, 8, 0);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  int x = tt_find_loop(s, 0, "x"), k = tt_find_loop(s, 0, "k"),
      c = tt_find_loop(s, 0, "c"), r = tt_find_loop(s, 0, "r"),
      q = tt_find_loop(s, 0, "s");
  refused(s, tt_shrink(s, 0, x), "x is no reduction loop");
  refused(s, tt_shrink(s, 0, c), "every point of c counts");
  assert_true(tt_shrink(s, 0, r));
  refused(s, tt_shrink(s, 0, r), "already shrunk");
  assert_true(tt_vectorize(s, 0, x, 2));
  refused(s, tt_shrink(s, 0, q), "x of Y is vectorized");
  s = tt_schedule_new(ar, p, false);
  assert_true(tt_shrink(s, 0, q));
  refused(s, tt_vectorize(s, 0, x, 2), "x of Y is vectorized");
  assert_true(tt_vectorize(s, 0, k, 4));
  s = tt_schedule_new(ar, p, false);
  int f = tt_fuse(s, 0, r, q, "f");
  refused(s, tt_shrink(s, 0, f), "f of Y is fused");
  /* Outside is 1, and 1 * F is not nothing. */
  s = tt_schedule_new(ar, window(ar, 6, 4, 8, 1), false);
  refused(s, tt_shrink(s, 0, r), "every point of r counts");
  tt_arena_free(ar);
}

/* The tile of a fast convolution, its border tiles and its interior. */
static void
shrunk_window_is_right(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  for (int64_t h = 1; h < 12; h++) {
    struct tt_program *p = window(ar, h, 5, 11, 0);
    struct tt_schedule *s = tt_schedule_new(ar, p, false);
    int kr = tt_split(s, 0, 2, 8, "kr", TT_TAIL_PEEL);
    int xr = tt_split(s, 0, 1, 3, "xr", TT_TAIL_PEEL);
    int y = tt_find_loop(s, 0, "y"), x = tt_find_loop(s, 0, "x"),
        k = tt_find_loop(s, 0, "k"), c = tt_find_loop(s, 0, "c"),
        r = tt_find_loop(s, 0, "r"), q = tt_find_loop(s, 0, "s");
    assert_true(tt_reorder(s, 0, 8, (int[]){k, y, x, r, q, c, xr, kr}));
    assert_true(tt_cache_write(s, 0, x));
    assert_true(tt_unroll(s, 0, q) && tt_unroll(s, 0, xr));
    assert_true(tt_vectorize(s, 0, kr, 4));
    assert_true(tt_shrink(s, 0, r) && tt_shrink(s, 0, q));
    bool skipped;
    const char *bad = check_schedule(ar, p, s, (uint64_t)h, &skipped);
    if (bad)
      show_failure(p, s, bad, (uint64_t)h);
    assert_null(bad);
    assert_false(skipped);
  }
  tt_arena_free(ar);
}

/* The product as a step on the way to E[m, n] = C[m, n] * C[m, n] + D[n]. */
static struct tt_program *
matmul_squared(struct tt_arena *ar, int64_t m, int64_t n, int64_t k)
{
  struct tt_program *p = tt_matmul_program(ar, m, n, k);
  struct tt_tensor *c = p->stages[0]->out;
  c->role = TT_TEMP;
  struct tt_tensor *d =
      tt_program_tensor(p, "D", TT_INPUT, TT_F32, 1, (int64_t[]){n});
  struct tt_tensor *e =
      tt_program_tensor(p, "E", TT_OUTPUT, TT_F32, 2, (int64_t[]){m, n});
  const struct tt_var *v[] = {tt_program_var(p, "i", m),
                              tt_program_var(p, "j", n)};
  const struct tt_expr *at[] = {tt_var_ref(ar, v[0]), tt_var_ref(ar, v[1])};
  const struct tt_expr *sum = tt_load(ar, c, 2, at);
  tt_program_stage(p, e, v, TT_RED_NONE, 0, NULL,
                   tt_binary(ar, TT_ADD, tt_binary(ar, TT_MUL, sum, sum),
                             tt_load(ar, d, 1, at + 1)),
                   NULL);
  return p;
}

static void
finish_needs_accumulators_at_root(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = matmul_squared(ar, 9, 10, 11);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  refused(s, tt_finish(s, 1, 0), "no accumulators");
  refused(s, tt_finish(s, 0, 0), "does not read");
  int ki = tt_split(s, 0, 2, 4, "ki", TT_TAIL_GUARD);
  int ko = s->stages[0].loops[ki].other;
  assert_true(tt_reorder(s, 0, 2, (int[]){ko, 1}));
  assert_true(tt_cache_write(s, 0, ko));
  refused(s, tt_finish(s, 1, 0), "no plain tail");
  s = tt_schedule_new(ar, p, false);
  assert_true(tt_cache_write(s, 0, 1));
  assert_true(tt_finish(s, 1, 0));
  refused(s, tt_finish(s, 1, 0), "must both stand at root");
  refused(s, tt_compute_at(s, 0, 1, 0), "stay at root");
  refused(s, tt_compute_root(s, 1), "finishes C");
  refused(s, tt_vectorize(s, 1, 1, 4), "no loops of its own");
  tt_arena_free(ar);
}

/* Parts of the reduction outside the accumulators, tails everywhere: what
 * finishes the sums runs once for each, after the last part. */
static void
finish_takes_whole_sums(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  int finished = 0;
  for (uint64_t seed = 3; seed < 8000; seed += 4) {
    tt_arena_reset(ar);
    struct tt_program *p = matmul_squared(ar, 9, 10, 11);
    struct tt_schedule *s =
        tt_random_schedule(ar, p, seed, 4 + (int)(seed % 40), false);
    int last = s->nstages - 1;
    finished += s->stages[last].place == TT_FINISH;
    bool skipped;
    const char *bad = check_schedule(ar, p, s, seed, &skipped);
    if (bad)
      show_failure(p, s, bad, seed);
    assert_null(bad);
  }
  assert_true(finished > 300);
  tt_arena_free(ar);
}

/* Q[i, j] = X[i, j] / S[i], with or without something that asks for more. */
static struct tt_program *
quotients(struct tt_arena *ar, enum tt_dtype t, bool rounded)
{
  struct tt_program *p = tt_program_new(ar, "quotients");
  struct tt_tensor *x =
      tt_program_tensor(p, "X", TT_INPUT, t, 2, (int64_t[]){16, 5});
  struct tt_tensor *s =
      tt_program_tensor(p, "S", TT_INPUT, t, 1, (int64_t[]){16});
  struct tt_tensor *q =
      tt_program_tensor(p, "Q", TT_OUTPUT, t, 2, (int64_t[]){16, 5});
  const struct tt_var *v[] = {tt_program_var(p, "i", 16),
                              tt_program_var(p, "j", 5)};
  const struct tt_expr *at[] = {tt_var_ref(ar, v[0]), tt_var_ref(ar, v[1])};
  const struct tt_expr *value =
      tt_binary(ar, TT_DIV, tt_load(ar, x, 2, at), tt_load(ar, s, 1, at));
  if (rounded)
    value = tt_call(ar, TT_FN_FLOOR, t, 1, &value);
  tt_program_stage(p, q, v, TT_RED_NONE, 0, NULL, value, NULL);
  return p;
}

static void
reciprocal_keeps_what_could_jump(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_schedule *s =
      tt_schedule_new(ar, quotients(ar, TT_F32, false), false);
  refused(s, tt_reciprocal(s, 0, 0), "stays the same in i");
  assert_true(tt_reciprocal(s, 0, 1));
  refused(s, tt_reciprocal(s, 0, 1), "stays the same in j");
  s = tt_schedule_new(ar, quotients(ar, TT_F32, true), false);
  refused(s, tt_reciprocal(s, 0, 1), "stays the same in j");
  s = tt_schedule_new(ar, quotients(ar, TT_F32, false), true);
  refused(s, tt_reciprocal(s, 0, 1), "--strict-fp");
  tt_arena_free(ar);
}

/* From the least to the largest number, and what is none. */
static void
reciprocal_is_near_for_all(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  static const float by[16] = {
      1e-45f,  1e-40f,  1.1e-38f, 2.4e-38f, 3e-20f, 0.1f,     1,    3,
      -7.123f, 1.7e20f, 4.2e37f,  8.5e37f,  3e38f,  INFINITY, 0.0f, -1e-45f};
  static const float of[5] = {1, -3.3f, 1e-20f, 1e20f, 0};
  struct tt_program *p = quotients(ar, TT_F32, false);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  assert_true(tt_reciprocal(s, 0, 1));
  struct tt_nest nest;
  const char *error;
  assert_true(tt_schedule_lower(ar, s, &nest, &error));
  struct tt_values *got = tt_values_new();
  tt_values_random(got, p, 1);
  double *x, *d, *q;
  int64_t *none;
  tt_values_of(got, p->tensors[0], &x, &none);
  tt_values_of(got, p->tensors[1], &d, &none);
  for (int i = 0; i < 16; i++) {
    d[i] = by[i];
    for (int j = 0; j < 5; j++)
      x[5 * i + j] = of[j];
  }
  assert_null(tt_interpret_nest(&nest, got));
  tt_values_of(got, p->tensors[2], &q, &none);
  for (int i = 0; i < 80; i++) {
    float want = of[i % 5] / by[i / 5];
    if (isnan(want) || isinf(want) || want == 0)
      assert_true(isnan(want) ? isnan(q[i]) : q[i] == want);
    else /* (numbers below the normal ones have a unit of their own) */
      assert_true(fabs(q[i] - want) <= 1.8e-7 * fabs(want) + 1.5e-45);
  }
  tt_values_free(got);
  tt_arena_free(ar);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(illegal_primitives_name_the_loops),
      cmocka_unit_test(strict_fp_keeps_the_order_of_sums),
      cmocka_unit_test(shifted_tails_are_not_summed_twice),
      cmocka_unit_test(threads_share_long_sums),
      cmocka_unit_test(shifted_tails_inside_accumulators),
      cmocka_unit_test(rfactor_makes_a_stage),
      cmocka_unit_test(prefetch_names_lines),
      cmocka_unit_test(packed_matmul_is_right),
      cmocka_unit_test(shrink_says_what_it_cannot_leave_out),
      cmocka_unit_test(shrunk_window_is_right),
      cmocka_unit_test(finish_needs_accumulators_at_root),
      cmocka_unit_test(finish_takes_whole_sums),
      cmocka_unit_test(reciprocal_keeps_what_could_jump),
      cmocka_unit_test(reciprocal_is_near_for_all),
      cmocka_unit_test(text_form_reads_back),
      cmocka_unit_test(derived_schedules_keep_results),
      cmocka_unit_test(random_schedules_keep_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
