/* Schedule blocks with open choices as spaces. */
#include "config.h"

#include "schedule/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static struct tt_arena *arena;

static int
setup(void **state)
{
  (void)state;
  arena = tt_arena_new();
  return 0;
}

static int
teardown(void **state)
{
  (void)state;
  tt_arena_free(arena);
  return 0;
}

/* Y[i] = X[i] over n. */
static struct tt_program *
copy_program(int64_t n)
{
  struct tt_program *p = tt_program_new(arena, "copy");
  struct tt_tensor *x = tt_program_tensor(p, "X", TT_INPUT, TT_F32, 1, &n);
  struct tt_tensor *y = tt_program_tensor(p, "Y", TT_OUTPUT, TT_F32, 1, &n);
  const struct tt_var *i = tt_program_var(p, "i", n);
  const struct tt_expr *idx = tt_var_ref(arena, i);
  tt_program_stage(p, y, &i, TT_RED_NONE, 0, NULL, tt_load(arena, x, 1, &idx),
                   NULL);
  return p;
}

static const struct tt_sarg loop_i = {.kind = TT_SARG_ID, .str = "i"};
static const struct tt_sarg loop_ii = {.kind = TT_SARG_ID, .str = "ii"};
static const struct tt_sarg any = {.kind = TT_SARG_ANY};

/* Y.split(i, FACTOR, ii); Y.vectorize(ii, LANES) */
static struct tt_sblock
split_vectorize(struct tt_sarg factor, struct tt_sarg lanes)
{
  const struct tt_sarg split[] = {loop_i, factor, loop_ii};
  const struct tt_sarg vectorize[] = {loop_ii, lanes};
  const struct tt_scall calls[] = {
      {.stage = "Y",
       .primitive = "split",
       .nargs = 3,
       .args = tt_arena_dup(arena, split, sizeof split)},
      {.stage = "Y",
       .primitive = "vectorize",
       .nargs = 2,
       .args = tt_arena_dup(arena, vectorize, sizeof vectorize)},
  };
  return (struct tt_sblock){.ncalls = 2,
                            .calls = tt_arena_dup(arena, calls, sizeof calls)};
}

static struct tt_sarg
one_of(int n, const int64_t *values)
{
  return (struct tt_sarg){.kind = TT_SARG_SET, .nset = n, .set = values};
}

static const char *
text(const struct tt_schedule *s)
{
  struct tt_sb sb = {0};
  tt_schedule_print(s, &sb);
  const char *copy = tt_arena_strdup(arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return copy;
}

static void
test_sets(void **state)
{
  (void)state;
  static const int64_t factors[] = {8, 16, 32}, lanes[] = {4, 8};
  struct tt_sblock b = split_vectorize(one_of(3, factors), one_of(2, lanes));
  assert_int_equal(tt_block_choices(&b), 2);
  struct tt_space *s = tt_choices_space(arena, copy_program(64), &b, false);
  assert_int_equal(s->nknobs, 2);
  assert_true(s->size == 6);
  int config[2] = {2, 1};
  struct tt_schedule *chosen = tt_choices_schedule(arena, s, config);
  assert_non_null(chosen);
  assert_string_equal(text(chosen), "schedule {\n  Y.split(i, 32, ii);\n"
                                    "  Y.vectorize(ii, 8);\n}\n");
}

static void
test_any_factor(void **state)
{
  (void)state;
  static const int64_t lanes[] = {1};
  struct tt_sblock b = split_vectorize(any, one_of(1, lanes));
  struct tt_space *s = tt_choices_space(arena, copy_program(24), &b, false);
  /* Powers of two and divisors. */
  static const int64_t want[] = {1, 2, 3, 4, 6, 8, 12, 16, 24};
  assert_int_equal(s->knobs[0].n, 9);
  assert_memory_equal(s->knobs[0].values, want, sizeof want);
  /* A large prime still has factors, in a bounded number. */
  s = tt_choices_space(arena, copy_program(1000003), &b, false);
  assert_true(s->knobs[0].n >= 20 && s->knobs[0].n <= 256);
}

static void
test_first_legal(void **state)
{
  (void)state;
  static const int64_t factors[] = {0, 128, 16}, lanes[] = {-1, 4};
  struct tt_sblock b = split_vectorize(one_of(3, factors), one_of(2, lanes));
  struct tt_space *s = tt_choices_space(arena, copy_program(64), &b, false);
  int config[2];
  const struct tt_scall *bad;
  assert_true(tt_choices_first(s, config));
  assert_non_null(tt_choices_apply(arena, s, config, &bad));
  assert_null(bad);
  assert_int_equal(config[1], 1);
  /* None at all: the first one says why. */
  b = split_vectorize(one_of(1, factors), one_of(2, lanes));
  s = tt_choices_space(arena, copy_program(64), &b, false);
  assert_false(tt_choices_first(s, config));
  assert_null(tt_choices_schedule(arena, s, config));
  struct tt_schedule *refused = tt_choices_apply(arena, s, config, &bad);
  assert_ptr_equal(bad, &b.calls[0]);
  assert_non_null(refused->error);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sets),
      cmocka_unit_test(test_any_factor),
      cmocka_unit_test(test_first_legal),
  };
  return cmocka_run_group_tests(tests, setup, teardown);
}
