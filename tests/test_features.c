/* What the cost model is told of a schedule: the context of its loops and its
 * accesses, the size of its code, and the features made of them. */
#include "config.h"

#include "tuner/features.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "tests/product.h"
#include "tests/random_program.h"
#include "tests/random_schedule.h"
#include "tuner/context.h"

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

static bool
same_row(const float *a, const float *b)
{
  int width = tt_features_width(TT_FEATURES_RELATION, NULL);

  return memcmp(a, b, (size_t)width * sizeof *a) == 0;
}

static void
test_features_tell_schedules_apart(void **state)
{
  struct tt_arena *arena = *state;
  struct tt_program *p = product(arena, 192, product_names);
  float *plain = features_of(arena, tt_schedule_new(arena, p, false));
  float *six = features_of(arena, tiled(arena, p, 6, false));

  assert_false(same_row(plain, six));
  assert_false(same_row(six, features_of(arena, tiled(arena, p, 4, false))));
  assert_false(same_row(six, features_of(arena, tiled(arena, p, 6, true))));
  /* Names and places in memory do not matter. */
  assert_true(same_row(six, features_of(arena, tiled(arena, p, 6, false))));
}

static void
test_kinds_of_features(void **state)
{
  static const enum tt_features_kind kinds[] = {
      TT_FEATURES_RELATION, TT_FEATURES_CONTEXT, TT_FEATURES_TREE};
  struct tt_arena *arena = *state;
  struct tt_program *p = product(arena, 192, product_names);

  for (int i = 0; i < 3; i++) {
    size_t width = (size_t)tt_features_width(kinds[i], NULL);
    float *six = features_of_kind(arena, tiled(arena, p, 6, false), kinds[i]);
    float *four = features_of_kind(arena, tiled(arena, p, 4, false), kinds[i]);
    float *packed = features_of_kind(arena, tiled(arena, p, 6, true), kinds[i]);
    assert_memory_not_equal(six, four, width * sizeof *six);
    assert_memory_not_equal(six, packed, width * sizeof *six);
  }
}

/* Knobs: factors as logarithms, choices as they are numbered. */
static void
test_features_of_a_configuration(void **state)
{
  static int64_t factors[3] = {1, 3, 7}, choices[2] = {0, 1};
  struct tt_knob knobs[2] = {{"f", TT_KNOB_FACTOR, 3, factors},
                             {"c", TT_KNOB_CHOICE, 2, choices}};
  struct tt_space space = {.nknobs = 2, .knobs = knobs};
  static const int config[2] = {2, 1};
  float row[2];

  (void)state;
  assert_int_equal(tt_features_width(TT_FEATURES_CONFIG, &space), 2);
  tt_features(TT_FEATURES_CONFIG, NULL, NULL, &space, config, row);
  assert_true(row[0] == 3 && row[1] == 1);
  tt_features(TT_FEATURES_CONFIG, NULL, NULL, &space, NULL, row);
  assert_true(isnan(row[0]) && isnan(row[1]));
  space.nknobs = 0; /* a space of one */
  assert_int_equal(tt_features_width(TT_FEATURES_CONFIG, &space), 1);
  tt_features(TT_FEATURES_CONFIG, NULL, NULL, &space, config, row);
  assert_true(row[0] == 0);
}

static int
parent_of(const float *row, int i)
{
  return (int)row[1 + i * TT_TREE_NODE];
}

/* A stage inside of another's loop hangs below it. */
static void
test_tree_of_loops(void **state)
{
  struct tt_arena *arena = *state;
  struct tt_schedule *s = tt_schedule_new(arena, pair(arena), false);
  float *row = features_of_kind(arena, s, TT_FEATURES_TREE);
  int inner;

  assert_true(row[0] == 2);
  assert_int_equal(parent_of(row, 0), -1);
  assert_int_equal(parent_of(row, 1), -1);
  inner = tt_split(s, 1, tt_find_loop(s, 1, "j"), 16, "ji", TT_TAIL_PEEL);
  assert_true(inner >= 0);
  assert_true(tt_compute_at(s, 0, 1, s->stages[1].loops[inner].other));
  row = features_of_kind(arena, s, TT_FEATURES_TREE);
  assert_true(row[0] == 3); /* j, ji, i */
  assert_int_equal(parent_of(row, 0), -1);
  assert_int_equal(parent_of(row, 1), 0);
  assert_int_equal(parent_of(row, 2), 0);
}

static void
test_context_of_a_product(void **state)
{
  struct tt_arena *arena = *state;
  struct tt_schedule *s =
      tiled(arena, product(arena, 192, product_names), 6, true);
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
      tt_schedule_new(arena, product(arena, 24, product_names), false);
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
  struct tt_program *p = product(arena, 192, product_names);

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
      features_of_kind(arena, s, TT_FEATURES_CONTEXT);
      features_of_kind(arena, s, TT_FEATURES_TREE);
      assert_true(tt_code_copies(s) >= 1);
    }
    tt_arena_free(arena);
  }
  (void)state;
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_features_tell_schedules_apart),
      TEST(test_kinds_of_features),
      TEST(test_features_of_a_configuration),
      TEST(test_tree_of_loops),
      TEST(test_context_of_a_product),
      TEST(test_context_of_fused_loops),
      TEST(test_code_of_remainders),
      TEST(test_context_inside_a_consumer),
      TEST(test_features_of_indirect_and_guarded),
      TEST(test_features_of_random_schedules),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
