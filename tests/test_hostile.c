/* Hostile input: deep nesting, huge texts, exploding defs, many stages.  Each
 * gets a diagnostic or is compiled, in bounded time and memory.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <string.h>

#include "tests/compile.h"

static void
expect_code(const char *text, size_t len, enum tt_diag_code code)
{
  struct run r = compile_text(text, len);

  if (!tt_diags_has(r.diags, code)) {
    print_message("expected %s, got %.2000s\n", tt_diag_name(code),
                  tt_sb_str(&r.text));
    fail();
  }
  assert_null(r.result.program);
  assert_true(r.text.len < 100000);
  finish(&r);
}

/* prefix, then `unit` n times, then suffix. */
static void
expect_repeated(const char *prefix, const char *unit, int n, const char *suffix,
                enum tt_diag_code code)
{
  struct tt_sb sb = {0};

  tt_sb_add(&sb, prefix);
  for (int i = 0; i < n; i++)
    tt_sb_add(&sb, unit);
  tt_sb_add(&sb, suffix);
  expect_code(tt_sb_str(&sb), sb.len, code);
  tt_sb_free(&sb);
}

static void
test_hostile_nesting(void **state)
{
  (void)state;
  expect_repeated("const A = ", "(", 1000000, "", TT_D_TOO_DEEP);
  expect_repeated("const A = ", "-", 1000000, "1;", TT_D_TOO_DEEP);
  expect_repeated("const A = ", "1+", 100000, "1;", TT_D_TOO_DEEP);
  expect_repeated("const A = ", "1?1:", 100000, "1;", TT_D_TOO_DEEP);
  expect_repeated("const A[1] = ", "{", 100000, "1;", TT_D_TOO_DEEP);
  expect_repeated("Y = ", "sum[i](", 100000, "1;", TT_D_TOO_DEEP);
  expect_repeated("Y = ", "a[", 100000, "1;", TT_D_TOO_DEEP);
}

static void
test_hostile_size(void **state)
{
  struct tt_sb sb = {0};

  (void)state;
  expect_repeated("const A = ", "          ", 1700000, ";", TT_D_TOO_LARGE);
  expect_repeated("const A = ", "          ", 1000000, ";", TT_D_SYNTAX);
  expect_repeated("const A = ", "?", 1000000, ";", TT_D_SYNTAX);
  expect_repeated("const A = 1", "\t\x01", 100000, ";", TT_D_BAD_CHARACTER);
  expect_repeated("", "x", 100000, " = 1;", TT_D_TOO_LARGE);
  expect_repeated("", "=;", 1000000, "", TT_D_SYNTAX);
  expect_repeated("const A[8] = {1", ",1", 2500000, "};", TT_D_TOO_LARGE);
  tt_sb_addn(&sb, "const A = \0 1;", 14);
  expect_code(sb.s, sb.len, TT_D_BAD_CHARACTER);
  tt_sb_free(&sb);
  expect_code("input A[9223372036854775807]: f32;", 34, TT_D_SIZE_OVERFLOW);
  expect_code("input A[9223372036854775808]: f32;", 34, TT_D_LITERAL_RANGE);
  expect_repeated("input A[1", "*1000000", 9, "]: f32;", TT_D_SIZE_OVERFLOW);
  expect_repeated("input A[1", ",1", 20, "]: f32;", TT_D_TOO_MANY_DIMS);
}

/* A chain of defs, each of which calls the one before twice. */
static void
test_hostile_defs(void **state)
{
  struct tt_sb sb = {0};

  (void)state;
  tt_sb_add(&sb, "def d0(x) = x + x;\n");
  for (int i = 1; i < 60; i++)
    tt_sb_printf(&sb, "def d%d(x) = d%d(d%d(x));\n", i, i - 1, i - 1);
  tt_sb_add(&sb, "input A[4]: f32; output Y[4]: f32; Y[i] = d59(A[i]);\n");
  expect_code(tt_sb_str(&sb), sb.len, TT_D_TOO_LARGE);
  tt_sb_clear(&sb);
  tt_sb_add(&sb, "def g0(x) = x;\n");
  for (int i = 1; i < 5000; i++)
    tt_sb_printf(&sb, "def g%d(x) = -g%d(x);\n", i, i - 1);
  tt_sb_add(&sb, "input A[4]: f32; output Y[4]: f32; Y[i] = g4999(A[i]);\n");
  expect_code(tt_sb_str(&sb), sb.len, TT_D_TOO_DEEP);
  tt_sb_free(&sb);
}

/* Divisions in divisions: the proofs give up instead of going on for ever. */
static void
test_hostile_divisions(void **state)
{
  struct tt_sb sb = {0};

  (void)state;
  tt_sb_add(&sb, "input A[4]: f32; output Y[4]: f32; Y[i] = A[");
  for (int i = 0; i < 150; i++)
    tt_sb_add(&sb, "(");
  tt_sb_add(&sb, "i");
  for (int i = 0; i < 150; i++)
    tt_sb_add(&sb, "+1)/3");
  tt_sb_add(&sb, "];\n");
  expect_code(tt_sb_str(&sb), sb.len, TT_D_TOO_DEEP);
  tt_sb_free(&sb);
}

static void
test_many_stages(void **state)
{
  struct tt_sb sb = {0};
  struct run r;

  (void)state;
  tt_sb_add(&sb, "input s0[4]: f32; output Y[4]: f32;\n");
  for (int i = 1; i <= 10000; i++)
    tt_sb_printf(&sb, "s%d[i] = s%d[i] + s%d[i];\n", i, i - 1, i / 2);
  tt_sb_add(&sb, "Y[i] = s10000[i];\n");
  r = compile_text(tt_sb_str(&sb), sb.len);
  assert_non_null(r.result.program);
  assert_int_equal(r.result.program->nstages, 10001);
  tt_sb_free(&sb);
  finish(&r);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_hostile_nesting),
      cmocka_unit_test(test_hostile_size),
      cmocka_unit_test(test_hostile_defs),
      cmocka_unit_test(test_hostile_divisions),
      cmocka_unit_test(test_many_stages),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
