/* The tuner without a toolchain: cost model, features, searches, and the loop
 * against a measurer and spaces of our own.  Nothing here depends on time. */
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

#include "tests/random_program.h"
#include "tests/random_schedule.h"
#include "tuner/context.h"
#include "tuner/features.h"
#include "tuner/history_db.h"
#include "tuner/model.h"
#include "tuner/search.h"
#include "tuner/trials.h"

static const struct tt_target_model target = {
    .vector_bytes = 32,
    .registers = 16,
    .l1 = 32 << 10,
    .l2 = 1 << 20,
    .l3 = 32 << 20,
    .threads = 2,
};

static int
setup(void **state)
{
  *state = tt_arena_new();
  return 0;
}

static int
teardown(void **state)
{
  tt_arena_free(*state);
  return 0;
}

/* ---- the cost model ---------------------------------------------------- */

static float
noise(unsigned *seed)
{
  *seed = *seed * 1103515245u + 12345u;
  return (float)(*seed >> 16 & 0x7fff) / 32768;
}

static void
test_gbt_learns_an_order(void **state)
{
  enum { N = 300, W = 8 };
  static float rows[N * W], labels[N], scores[N], again[N];
  const char *error = NULL;
  unsigned seed = 7;
  int right = 0, pairs = 0;
  struct tt_cost_model *m = tt_gbt_new(1, 1, &error);

  (void)state;
  for (int i = 0; i < N; i++) {
    for (int j = 0; j < W; j++)
      rows[i * W + j] = noise(&seed);
    labels[i] = 1 / (1 + 4 * fabsf(rows[i * W] - 0.3f) + rows[i * W + 1]);
  }
  assert_true(m->ops->fit(m, 200, W, rows, labels, &error));
  assert_true(m->ops->predict(m, N, W, rows, scores, &error));
  for (int i = 200; i < N; i++) /* not seen before */
    for (int j = 200; j < i; j++) {
      pairs++;
      right += (labels[i] > labels[j]) == (scores[i] > scores[j]);
    }
  assert_true(right > pairs * 0.8);
  /* The same seed and data give the same scores. */
  m->ops->free(m);
  m = tt_gbt_new(1, 1, &error);
  assert_true(m->ops->fit(m, 200, W, rows, labels, &error));
  assert_true(m->ops->predict(m, N, W, rows, again, &error));
  assert_memory_equal(scores, again, sizeof scores);
  m->ops->free(m);
}

static void
assert_scores(struct tt_cost_model *m, int n, const float *rows,
              const float *labels)
{
  float scores[4] = {NAN, NAN, NAN, NAN};
  const char *error = NULL;

  assert_true(m->ops->fit(m, n, 2, rows, labels, &error));
  assert_true(m->ops->predict(m, 4, 2, rows, scores, &error));
  for (int i = 0; i < 4; i++)
    assert_true(isfinite(scores[i]));
}

static void
test_gbt_odd_data(void **state)
{
  const float rows[8] = {1, 2, NAN, INFINITY, -INFINITY, 0, 3, NAN};
  const float constant[4] = {1, 1, 1, 1}, failures[4] = {0, 0, 0, 0};
  const float odd[4] = {NAN, 1, 0.5, INFINITY}, good[4] = {1, 0, 0.5, 0.25};
  const char *error = NULL;
  struct tt_cost_model *m = tt_gbt_new(1, 3, &error);
  float score;

  (void)state;
  assert_true(m->ops->predict(m, 1, 2, rows, &score, &error)); /* not fitted */
  assert_true(score == 0);
  assert_scores(m, 4, rows, constant);
  assert_scores(m, 4, rows, failures);
  assert_scores(m, 1, rows, good);
  assert_scores(m, 0, rows, good);
  assert_scores(m, 4, rows, odd);
  assert_scores(m, 4, rows, good);
  assert_true(m->ops->predict(m, 0, 2, rows, &score, &error));
  m->ops->free(m);
}

/* ---- features ---------------------------------------------------------- */

/* C[y,x] = sum[k](A[k,y] * B[k,x]), all of them n long. */
static struct tt_program *
product(struct tt_arena *arena, int64_t n, const char *const names[6])
{
  struct tt_program *p = tt_program_new(arena, "product");
  int64_t dims[2] = {n, n};
  struct tt_tensor *a, *b, *c;
  const struct tt_var *s[2], *k;
  const struct tt_expr *ia[2], *ib[2];

  a = tt_program_tensor(p, names[0], TT_INPUT, TT_F32, 2, dims);
  b = tt_program_tensor(p, names[1], TT_INPUT, TT_F32, 2, dims);
  c = tt_program_tensor(p, names[2], TT_OUTPUT, TT_F32, 2, dims);
  s[0] = tt_program_var(p, names[3], n);
  s[1] = tt_program_var(p, names[4], n);
  k = tt_program_var(p, names[5], n);
  ia[0] = ib[0] = tt_var_ref(arena, k);
  ia[1] = tt_var_ref(arena, s[0]);
  ib[1] = tt_var_ref(arena, s[1]);
  tt_program_stage(p, c, s, TT_RED_SUM, 1, &k,
                   tt_binary(arena, TT_MUL, tt_load(arena, a, 2, ia),
                             tt_load(arena, b, 2, ib)),
                   NULL);
  return p;
}

static const char *const usual[6] = {"A", "B", "C", "y", "x", "k"};

/* Y[i] = T[i] + T[i+1] where T[i] = 2 * X[i]: to compute T inside Y. */
static struct tt_program *
pair(struct tt_arena *arena)
{
  struct tt_program *p = tt_program_new(arena, "pair");
  int64_t n = 64, m = 65;
  struct tt_tensor *x, *t, *y;
  const struct tt_var *i, *j;
  const struct tt_expr *at, *next;

  x = tt_program_tensor(p, "X", TT_INPUT, TT_F32, 1, &m);
  t = tt_program_tensor(p, "T", TT_TEMP, TT_F32, 1, &m);
  y = tt_program_tensor(p, "Y", TT_OUTPUT, TT_F32, 1, &n);
  i = tt_program_var(p, "i", m);
  at = tt_var_ref(arena, i);
  tt_program_stage(p, t, &i, TT_RED_NONE, 0, NULL,
                   tt_binary(arena, TT_MUL, tt_flt(arena, TT_F32, 2),
                             tt_load(arena, x, 1, &at)),
                   NULL);
  j = tt_program_var(p, "j", n);
  at = tt_var_ref(arena, j);
  next = tt_iadd(arena, at, tt_idx(arena, 1));
  tt_program_stage(p, y, &j, TT_RED_NONE, 0, NULL,
                   tt_binary(arena, TT_ADD, tt_load(arena, t, 1, &at),
                             tt_load(arena, t, 1, &next)),
                   NULL);
  return p;
}

static int
loop(struct tt_schedule *s, const char *name)
{
  int l = tt_find_loop(s, 0, name);

  assert_true(l >= 0);
  return l;
}

/* 6 x 16 accumulators, B packed, as a hand-written product has it. */
static struct tt_schedule *
tiled(struct tt_arena *arena, struct tt_program *p, int64_t mr, bool pack)
{
  struct tt_schedule *s = tt_schedule_new(arena, p, false);
  int order[6], layout[2];

  assert_true(tt_split(s, 0, loop(s, "y"), mr, "yr", TT_TAIL_PEEL) >= 0);
  assert_true(tt_split(s, 0, loop(s, "x"), 16, "xr", TT_TAIL_PEEL) >= 0);
  assert_true(tt_split(s, 0, loop(s, "k"), 64, "kr", TT_TAIL_PEEL) >= 0);
  order[0] = loop(s, "x");
  order[1] = loop(s, "k");
  order[2] = loop(s, "y");
  order[3] = loop(s, "kr");
  order[4] = loop(s, "yr");
  order[5] = loop(s, "xr");
  assert_true(tt_reorder(s, 0, 6, order));
  assert_true(tt_cache_write(s, 0, loop(s, "y")));
  layout[0] = loop(s, "kr");
  layout[1] = loop(s, "xr");
  if (pack)
    assert_true(
        tt_cache_read(s, 0, p->tensors[1], loop(s, "k"), 2, layout, 0, "Bp"));
  assert_true(tt_unroll(s, 0, loop(s, "yr")));
  assert_true(tt_vectorize(s, 0, loop(s, "xr"), 8));
  return s;
}

static float *
features_of(struct tt_arena *arena, const struct tt_schedule *s)
{
  float *row = TT_ARRAY(arena, float, (size_t)tt_features_width());

  for (int i = 0; i < tt_features_width(); i++)
    row[i] = NAN; /* every entry must be written */
  tt_features(s, &target, row);
  for (int i = 0; i < tt_features_width(); i++)
    if (!isfinite(row[i]))
      fail_msg("feature %d is not finite", i);
  return row;
}

static bool
same_row(const float *a, const float *b)
{
  return memcmp(a, b, (size_t)tt_features_width() * sizeof *a) == 0;
}

static void
test_features_tell_schedules_apart(void **state)
{
  struct tt_arena *arena = *state;
  struct tt_program *p = product(arena, 192, usual);
  float *plain = features_of(arena, tt_schedule_new(arena, p, false));
  float *six = features_of(arena, tiled(arena, p, 6, false));

  assert_false(same_row(plain, six));
  assert_false(same_row(six, features_of(arena, tiled(arena, p, 4, false))));
  assert_false(same_row(six, features_of(arena, tiled(arena, p, 6, true))));
  /* Names and places in memory do not matter. */
  assert_true(same_row(six, features_of(arena, tiled(arena, p, 6, false))));
}

static void
test_context_of_a_product(void **state)
{
  struct tt_arena *arena = *state;
  struct tt_schedule *s = tiled(arena, product(arena, 192, usual), 6, true);
  struct tt_context c;
  struct tt_ctx_cover cover;
  float run;

  tt_context(s, 0, &c);
  assert_int_equal(c.n, 6);
  assert_int_equal(c.naccesses, 3);
  assert_true(c.accesses[0].write);
  assert_true(c.loops[3].extent == 64 && c.loops[3].reduce);
  assert_true(c.ops.add == 1 && c.ops.mul == 1);
  /* One block of k: C 6x16, A 64x6, B 64x16. */
  tt_cover_none(&c, &cover);
  for (int i = 5; i >= 3; i--)
    tt_cover_add(&c, &cover, &c.loops[i]);
  assert_true(tt_ctx_touched(&c, &c.accesses[0], &cover, &run) == 6 * 16);
  assert_true(run == 16);
  assert_true(tt_ctx_touched(&c, &c.accesses[1], &cover, &run) == 64 * 6);
  assert_true(tt_ctx_touched(&c, &c.accesses[2], &cover, &run) == 64 * 16);
  /* Strides: of B along kr 192, in the packed panel 16. */
  assert_true(tt_ctx_stride(&c, &c.accesses[2], &c.loops[3], false) == 192);
  assert_true(tt_ctx_stride(&c, &c.accesses[2], &c.loops[3], true) == 16);
  assert_true(tt_ctx_stride(&c, &c.accesses[2], &c.loops[5], true) == 1);
  assert_true(tt_ctx_stride(&c, &c.accesses[1], &c.loops[5], true) == 0);
  assert_true(tt_ctx_stride(&c, &c.accesses[0], &c.loops[2], true) == 6 * 192);
}

static void
test_context_of_fused_loops(void **state)
{
  struct tt_arena *arena = *state;
  struct tt_schedule *s =
      tt_schedule_new(arena, product(arena, 24, usual), false);
  struct tt_context c;
  struct tt_ctx_cover cover;
  float run;
  int f = tt_fuse(s, 0, loop(s, "y"), loop(s, "x"), "f");

  assert_true(f >= 0);
  assert_true(tt_split(s, 0, f, 48, "g", TT_TAIL_PEEL) >= 0);
  tt_context(s, 0, &c); /* f 12, g 48, k 24 */
  assert_true(c.loops[0].extent == 12 && c.loops[1].extent == 48);
  tt_cover_none(&c, &cover);
  tt_cover_add(&c, &cover, &c.loops[1]); /* two rows of C */
  assert_true(tt_ctx_touched(&c, &c.accesses[0], &cover, &run) == 48);
  assert_true(tt_ctx_touched(&c, &c.accesses[1], &cover, &run) == 2);
  tt_cover_add(&c, &cover, &c.loops[0]);
  assert_true(tt_ctx_touched(&c, &c.accesses[0], &cover, &run) == 24 * 24);
}

static void
test_code_of_remainders(void **state)
{
  struct tt_arena *arena = *state;
  struct tt_program *p = product(arena, 192, usual);

  /* Six or five rows of two vectors; 192 = 38 * 5 + 2 makes two nests. */
  assert_true(tt_code_copies(tiled(arena, p, 6, false)) == 12);
  assert_true(tt_code_copies(tiled(arena, p, 5, false)) == 20);
  assert_true(tt_code_copies(tt_schedule_new(arena, p, false)) == 1);
}

static void
test_context_inside_a_consumer(void **state)
{
  struct tt_arena *arena = *state;
  struct tt_schedule *s = tt_schedule_new(arena, pair(arena), false);
  struct tt_context c;
  int j = tt_find_loop(s, 1, "j"), inner;

  tt_context(s, 1, &c);
  assert_int_equal(c.naccesses, 2); /* T[j] and T[j+1] are one, two wide */
  inner = tt_split(s, 1, j, 16, "ji", TT_TAIL_PEEL);
  assert_true(inner >= 0);
  assert_true(tt_compute_at(s, 0, 1, s->stages[1].loops[inner].other));
  tt_context(s, 0, &c);
  assert_true(c.outer == 4);
  assert_true(c.axis[0] == 17); /* 16 and one more */
  assert_true(c.loops[0].extent == 17);
  features_of(arena, s);
}

static void
test_features_of_indirect_and_guarded(void **state)
{
  struct tt_arena *arena = *state;
  struct tt_program *p = tt_program_new(arena, "gather");
  int64_t de[2] = {50, 8}, di = 10, dy[2] = {10, 8};
  struct tt_tensor *e, *ids, *y;
  const struct tt_var *v[2];
  const struct tt_expr *at[2], *i, *d, *load;
  struct tt_context c;
  struct tt_ctx_cover cover;
  struct tt_schedule *s;
  float run;

  e = tt_program_tensor(p, "E", TT_INPUT, TT_F32, 2, de);
  ids = tt_program_tensor(p, "ids", TT_INPUT, TT_I32, 1, &di);
  ids->has_range = true;
  ids->hi = 50;
  y = tt_program_tensor(p, "Y", TT_OUTPUT, TT_F32, 2, dy);
  v[0] = tt_program_var(p, "i", 10);
  v[1] = tt_program_var(p, "d", 8);
  i = tt_var_ref(arena, v[0]);
  d = tt_var_ref(arena, v[1]);
  at[0] = tt_cast(arena, TT_I64, tt_load(arena, ids, 1, &i));
  at[1] = d;
  load = tt_load(arena, e, 2, at);
  tt_program_stage(p, y, v, TT_RED_NONE, 0, NULL,
                   tt_select(arena,
                             tt_binary(arena, TT_LT, d, tt_idx(arena, 5)), load,
                             tt_flt(arena, TT_F32, 0)),
                   NULL);
  s = tt_schedule_new(arena, p, false);
  tt_context(s, 0, &c);
  assert_int_equal(c.naccesses, 3);
  tt_cover_none(&c, &cover);
  tt_cover_add(&c, &cover, &c.loops[1]);
  tt_cover_add(&c, &cover, &c.loops[0]);
  for (int j = 1; j < 3; j++) { /* ten rows of eight at most; ten indices */
    bool rows = c.accesses[j].tensor == e;
    float n = tt_ctx_touched(&c, &c.accesses[j], &cover, &run);
    assert_true(n == (rows ? 80 : 10));
  }
  features_of(arena, s);
}

static void
test_features_of_random_schedules(void **state)
{
  for (uint64_t seed = 0; seed < 60; seed++) {
    struct tt_arena *arena = tt_arena_new();
    struct tt_program *p = tt_random_program(arena, seed);
    for (int tries = 0; tries <= 40; tries += 20) {
      struct tt_schedule *s = tt_random_schedule(arena, p, seed, tries, false);
      features_of(arena, s);
      assert_true(tt_code_copies(s) >= 1);
    }
    tt_arena_free(arena);
  }
  (void)state;
}

/* ---- the search -------------------------------------------------------- */

enum { KNOBS = 7 };
static const int sizes[KNOBS] = {12, 12, 12, 12, 8, 4, 2};
static const bool ordered[KNOBS] = {true, true, true, true, true, false, false};

/* A cost surface with valleys, interactions and a part that is illegal. */
static bool
synthetic_legal(const int *c)
{
  return c[0] + c[1] < 20;
}

static double
synthetic_cost(const int *c)
{
  double a = c[0] - 7, b = c[1] - 3, d = c[2] - 9, e = c[3] - c[0] / 2.0;

  return 1 + 0.06 * a * a + 0.05 * b * b + 0.03 * d * d + 0.1 * fabs(e) +
         0.04 * abs(c[4] - 5) * (c[5] == 2 ? 1 : 2) + 0.4 * (c[5] != 2) +
         0.6 * c[6];
}

static bool
synthetic_features(void *ctx, const int *c, float *row)
{
  (*(int *)ctx)++;
  for (int i = 0; i < KNOBS; i++)
    row[i] = (float)c[i];
  row[KNOBS] = (float)(c[0] - 2 * c[3]);
  return synthetic_legal(c);
}

static int looks; /* calls of synthetic_features: only ever counted up */

static struct tt_search_space
synthetic(void)
{
  return (struct tt_search_space){
      KNOBS, sizes, ordered, KNOBS + 1, synthetic_features, NULL, &looks};
}

enum { TRIALS = 128, BATCH = 16 };

/* The best cost after TRIALS trials; no configuration may come twice. */
static double
search(uint64_t seed, bool anneal, int *configs)
{
  static float rows[TRIALS * (KNOBS + 1)], labels[TRIALS];
  const char *error = NULL;
  struct tt_search_space space = synthetic();
  struct tt_searcher *s = tt_searcher_new(&space, &tt_search_defaults, seed);
  struct tt_cost_model *m = tt_gbt_new(1, (unsigned)seed, &error);
  double best = INFINITY, cost[TRIALS];
  int seeds[KNOBS] = {0}, got;

  for (int n = 0; n < TRIALS; n += got) {
    int *out = configs + n * KNOBS;
    if (n > 0 && anneal) {
      for (int i = 0; i < n; i++)
        labels[i] = (float)(best / cost[i]);
      assert_true(m->ops->fit(m, n, KNOBS + 1, rows, labels, &error));
      got = tt_search_anneal(s, m, 1, seeds, BATCH, out, &error);
    } else {
      got = tt_search_random(s, BATCH, out);
    }
    assert_int_equal(got, BATCH);
    for (int i = n; i < n + got; i++) {
      const int *c = configs + i * KNOBS;
      assert_true(synthetic_legal(c));
      synthetic_features(&looks, c, rows + i * (KNOBS + 1));
      cost[i] = synthetic_cost(c);
      if (cost[i] < best) {
        best = cost[i];
        memcpy(seeds, c, sizeof seeds);
      }
      for (int j = 0; j < i; j++)
        if (memcmp(c, configs + j * KNOBS, sizeof seeds) == 0)
          fail_msg("proposed twice");
    }
  }
  tt_searcher_free(s);
  m->ops->free(m);
  return best;
}

static void
test_annealing_beats_random(void **state)
{
  static int configs[TRIALS * KNOBS];
  double learned = 0, blind = 0;

  (void)state;
  for (uint64_t seed = 1; seed <= 3; seed++) {
    learned += search(seed, true, configs) - 1;
    blind += search(seed, false, configs) - 1;
  }
  /* How far above the best possible: less than half as far. */
  if (!(learned < 0.5 * blind))
    fail_msg("annealing %g, random %g", learned / 3, blind / 3);
}

static void
test_search_is_a_function_of_its_seed(void **state)
{
  static int a[TRIALS * KNOBS], b[TRIALS * KNOBS];

  (void)state;
  search(5, true, a);
  search(5, true, b);
  assert_memory_equal(a, b, sizeof a);
  search(6, true, b);
  assert_memory_not_equal(a, b, sizeof a);
}

static bool
even_only(void *ctx, const int *c, float *row)
{
  (void)ctx;
  row[0] = (float)c[0];
  return (c[0] + c[1]) % 2 == 0;
}

static void
test_search_exhausts_a_space(void **state)
{
  static const int small[2] = {4, 5};
  static const bool order[2] = {true, false};
  const struct tt_search_space space = {2,         small, order, 1,
                                        even_only, NULL,  NULL};
  struct tt_searcher *s = tt_searcher_new(&space, &tt_search_defaults, 1);
  int out[64], known[2] = {0, 0}, n;
  bool seen[4][5] = {{false}};
  const char *error = NULL;
  float rows[4] = {0, 1, 2, 3}, labels[4] = {1, 0.5, 0.25, 0};
  struct tt_cost_model *m = tt_gbt_new(1, 1, &error);

  (void)state;
  tt_searcher_know(s, known);
  assert_true(m->ops->fit(m, 4, 1, rows, labels, &error));
  n = tt_search_anneal(s, m, 1, known, 6, out, &error);
  assert_int_equal(n, 6);
  n += tt_search_random(s, 26, out + 2 * n);
  assert_int_equal(n, 9); /* ten are legal, one was known */
  for (int i = 0; i < n; i++) {
    assert_int_equal((out[2 * i] + out[2 * i + 1]) % 2, 0);
    assert_false(seen[out[2 * i]][out[2 * i + 1]]);
    seen[out[2 * i]][out[2 * i + 1]] = true;
  }
  assert_false(seen[0][0]);
  assert_int_equal(tt_search_random(s, 4, out), 0);
  assert_int_equal(tt_search_anneal(s, m, 1, known, 4, out, &error), 0);
  assert_int_equal(tt_search_anneal(s, NULL, 1, known, 4, out, &error), 0);
  tt_searcher_free(s);
  m->ops->free(m);
}

static bool
rare(void *ctx, const int *c, float *row)
{
  int *n = ctx;

  (*n)++;
  row[0] = 0;
  return c[0] == 17 && c[1] == 23; /* one in ten thousand */
}

static void
test_search_finds_the_one_legal(void **state)
{
  static const int size[2] = {100, 100};
  static const bool order[2] = {true, true};
  int calls = 0, out[4];
  const struct tt_search_space space = {2, size, order, 1, rare, NULL, &calls};
  struct tt_searcher *s = tt_searcher_new(&space, &tt_search_defaults, 1);

  (void)state;
  assert_int_equal(tt_search_random(s, 2, out), 1);
  assert_int_equal(out[0], 17);
  assert_int_equal(out[1], 23);
  assert_int_equal(calls, 10000); /* each is looked at once */
  tt_searcher_free(s);
}

static bool
first_kind(void *ctx, const int *c)
{
  (void)ctx;
  return c[6] == 0;
}

static void
test_search_asks_whether_it_is_news(void **state)
{
  struct tt_search_space space = synthetic();
  struct tt_searcher *s;
  int out[20 * KNOBS];

  (void)state;
  space.fresh = first_kind;
  s = tt_searcher_new(&space, &tt_search_defaults, 1);
  assert_int_equal(tt_search_random(s, 20, out), 20);
  for (int i = 0; i < 20; i++)
    assert_int_equal(out[i * KNOBS + 6], 0);
  tt_searcher_free(s);
}

static bool
nothing(void *ctx, const int *c, float *row)
{
  (void)ctx;
  (void)c;
  row[0] = 0;
  return true;
}

static void
test_search_without_knobs(void **state)
{
  const struct tt_search_space space = {0, NULL, NULL, 1, nothing, NULL, NULL};
  struct tt_searcher *s = tt_searcher_new(&space, &tt_search_defaults, 1);
  const char *error = NULL;
  int none[1] = {0};

  (void)state;
  assert_int_equal(tt_search_random(s, 3, none), 1);
  assert_int_equal(tt_search_random(s, 3, none), 0);
  assert_int_equal(tt_search_anneal(s, NULL, 1, none, 3, none, &error), 0);
  tt_searcher_free(s);
}

/* ---- the loop: a space and a measurer of our own ----------------------- */

/* Knobs of the product's schedule: factors of y, x, k as powers of two, the
 * order of the inner loops, and whether x is vectorized. */
static int64_t powers[8] = {1, 2, 4, 8, 16, 32, 64, 128};
static int64_t choices[3] = {0, 1, 2};
static const struct tt_program *the_program;

static struct tt_space *
space_open(struct tt_arena *arena, const struct tt_program *p,
           const struct tt_target_model *t, bool strict)
{
  static const char *const names[5] = {"fy", "fx", "fk", "order", "vector"};
  struct tt_space *s = TT_NEW(arena, struct tt_space);

  (void)t;
  (void)strict;
  the_program = p;
  s->nknobs = 5;
  s->knobs = TT_ARRAY(arena, struct tt_knob, 5);
  for (int i = 0; i < 5; i++)
    s->knobs[i] =
        (struct tt_knob){names[i], i < 3 ? TT_KNOB_FACTOR : TT_KNOB_CHOICE,
                         i < 3    ? 8
                         : i == 3 ? 3
                                  : 2,
                         i < 3 ? powers : choices};
  s->size = 8 * 8 * 8 * 3 * 2;
  return s;
}

static struct tt_space *
tiny_open(struct tt_arena *arena, const struct tt_program *p,
          const struct tt_target_model *t, bool strict)
{
  struct tt_space *s = space_open(arena, p, t, strict);

  for (int i = 0; i < 3; i++)
    s->knobs[i].n = 2;
  return s;
}

static struct tt_schedule *
space_schedule(struct tt_arena *arena, const struct tt_space *space,
               const int *c)
{
  static const int orders[3][3] = {{0, 1, 2}, {2, 0, 1}, {0, 2, 1}};
  struct tt_schedule *s = tt_schedule_new(arena, the_program, false);
  int inner[3], order[6];

  (void)space;
  if (c[0] == 7 && c[1] == 7)
    return NULL; /* illegal: too large a tile */
  for (int i = 0; i < 3; i++) {
    inner[i] =
        tt_split(s, 0, i, powers[c[i]],
                 tt_arena_printf(arena, "%s_in", s->stages[0].loops[i].name),
                 TT_TAIL_PEEL);
    assert_true(inner[i] >= 0);
  }
  for (int i = 0; i < 3; i++) {
    order[i] = s->stages[0].loops[inner[i]].other;
    order[3 + i] = inner[orders[c[3]][i]];
  }
  assert_true(tt_reorder(s, 0, 6, order));
  if (c[4] && c[3] == 0)
    return NULL; /* illegal: k is innermost; else this knob changes nothing */
  return s;
}

static void
space_initial(const struct tt_space *space, int *c)
{
  memset(c, 0, (size_t)space->nknobs * sizeof *c);
}

static const struct tt_space_ops our_space = {space_open, space_schedule,
                                              space_initial};
static const struct tt_space_ops tiny_space = {tiny_open, space_schedule,
                                               space_initial};

enum { MOST = 2000 };
struct fake { /* the measurer, and what it is told to do */
  int opened, measured, finals;
  char *texts[MOST];
  double scale;     /* of all times */
  double plain;     /* seconds of the plain loops */
  int interrupt_at; /* after that many trials; -1: never */
  int break_at;     /* the toolchain fails then; -1: never */
  bool open_fails, all_wrong;
  double final_gain; /* what finalists but the first get faster by */
  double final_spread;
  volatile sig_atomic_t interrupted;
};

static struct fake fake;

static double
fake_seconds(const struct tt_schedule *s)
{
  double e[3] = {0}, cost;
  const struct tt_stage_schedule *ss = &s->stages[0];

  for (int i = 0; i < ss->nloops; i++)
    if (ss->loops[i].node == TT_SPLIT_INNER && ss->loops[i].parent < 3)
      e[ss->loops[i].parent] = log2((double)ss->loops[i].factor);
  cost = 1 + 0.2 * (e[0] - 3) * (e[0] - 3) + 0.2 * (e[1] - 5) * (e[1] - 5) +
         0.1 * (e[2] - 6) * (e[2] - 6);
  for (int i = 0; i + 1 < ss->norder; i++) /* which inner loop is last */
    if (ss->loops[ss->order[ss->norder - 1]].parent != 1)
      cost += 0.3;
  return cost * 1e-3 * fake.scale;
}

static struct tt_measurer *
fake_open(const struct tt_program *p, const struct tt_measure_options *o,
          struct tt_result *plain, const char **error)
{
  (void)p;
  (void)o;
  if (fake.open_fails) {
    *error = "cc: not found";
    return NULL;
  }
  fake.opened++;
  plain->outcome = TT_OUT_OK;
  plain->seconds = fake.plain;
  return (struct tt_measurer *)&fake;
}

static void
fake_close(struct tt_measurer *m)
{
  assert_ptr_equal(m, &fake);
  fake.opened--;
}

static bool
fake_measure(struct tt_measurer *m, int n, struct tt_schedule *const *s,
             double best, struct tt_result *results, tt_measured_fn *done,
             void *ctx, const char **error)
{
  (void)m;
  (void)best;
  for (int i = 0; i < n; i++)
    results[i].outcome = TT_OUT_CANCELLED;
  for (int i = 0; i < n; i++) {
    struct tt_sb sb = {0};
    if (fake.measured == fake.break_at) {
      *error = "the disk is full";
      return false;
    }
    tt_schedule_print(s[i], &sb);
    for (int j = 0; j < fake.measured; j++)
      if (strcmp(fake.texts[j], sb.s) == 0)
        fail_msg("measured twice: %s", sb.s);
    assert_true(fake.measured < MOST);
    fake.texts[fake.measured++] = sb.s;
    results[i] = (struct tt_result){.outcome = TT_OUT_OK,
                                    .seconds = fake_seconds(s[i]),
                                    .spread = 0.001,
                                    .max_error = 0.125};
    if (fake.all_wrong || fake.measured % 10 == 7)
      results[i] = (struct tt_result){.outcome = TT_OUT_WRONG,
                                      .message = "C[0,1] is 3, not 4"};
    if (fake.measured == fake.interrupt_at)
      fake.interrupted = 1;
    if (!done(ctx, i, &results[i]))
      return true;
  }
  return true;
}

static bool
fake_finalists(struct tt_measurer *m, int n, struct tt_schedule *const *s,
               struct tt_result *results, const char **error)
{
  (void)m;
  (void)error;
  fake.finals += n;
  for (int i = 0; i < n; i++) {
    results[i].seconds = s[i]->ncalls == 0 ? fake.plain : fake_seconds(s[i]);
    results[i].spread = fake.final_spread;
    if (fake.final_gain > 0)
      results[i].seconds = 1e-3 * (i == 0 ? 1 : 1 - fake.final_gain);
  }
  return true;
}

static const struct tt_measure_ops fake_ops = {fake_open, fake_close,
                                               fake_measure, fake_finalists};

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
  b->program = product(b->arena, 128, usual);
  memset(&fake, 0, sizeof fake);
  fake.scale = 1;
  fake.plain = 0.5;
  fake.interrupt_at = fake.break_at = -1;
  b->o = (struct tt_tune_options){
      .trials = 64,
      .seed = 1,
      .search = TT_SEARCH_ANNEAL,
      .model = TT_MODEL_GBT,
      .target = target,
      .workload = {"", "a product", "cpu", "cc", "none"},
      .interrupted = &fake.interrupted,
      .measure_ops = &fake_ops,
      .space_ops = &our_space,
  };
  b->o.workload.program = tt_program_hash(b->arena, b->program);
  *state = b;
  return 0;
}

static void
forget_texts(void)
{
  for (int i = 0; i < fake.measured; i++)
    free(fake.texts[i]);
  fake.measured = 0;
}

static int
teardown_bed(void **state)
{
  struct bed *b = *state;
  char command[128];

  assert_int_equal(fake.opened, 0);
  forget_texts();
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
  forget_texts();
  b->o.search = TT_SEARCH_ANNEAL;
  b->o.model = TT_MODEL_NONE;
  assert_int_equal(tune(b).status, TT_TUNED);
  assert_int_equal(fake.measured, 64);
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

  b->o.space_ops = &tiny_space;
  b->o.trials = -1; /* no limit of any kind */
  t = tune(b);
  assert_int_equal(t.status, TT_TUNED);
  /* 8 tiles, 3 orders; the knob "vector" changes nothing but legality. */
  assert_int_equal(fake.measured, 24);
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
  b->program = product(b->arena, 128, usual);
  b->o.workload.compiler = "another";
  forget_texts();
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
  forget_texts();
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
  initial = tt_schedule_text(b->arena, space_schedule(b->arena, NULL, zeros));
  assert_string_equal(tt_schedule_text(b->arena, t.schedule), initial);
  forget_texts();
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
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define LOOP(f) cmocka_unit_test_setup_teardown(f, setup_bed, teardown_bed)
  const struct CMUnitTest tests[] = {
      TEST(test_gbt_learns_an_order),
      TEST(test_gbt_odd_data),
      TEST(test_features_tell_schedules_apart),
      TEST(test_context_of_a_product),
      TEST(test_context_of_fused_loops),
      TEST(test_code_of_remainders),
      TEST(test_context_inside_a_consumer),
      TEST(test_features_of_indirect_and_guarded),
      TEST(test_features_of_random_schedules),
      TEST(test_annealing_beats_random),
      TEST(test_search_is_a_function_of_its_seed),
      TEST(test_search_exhausts_a_space),
      TEST(test_search_finds_the_one_legal),
      TEST(test_search_asks_whether_it_is_news),
      TEST(test_search_without_knobs),
      TEST(test_same_but_names),
      LOOP(test_tune),
      LOOP(test_tune_is_a_function_of_its_seed),
      LOOP(test_tune_searches_and_models),
      LOOP(test_tune_without_trials),
      LOOP(test_tune_exhausts_a_space),
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
      LOOP(test_tune_derived_space),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
