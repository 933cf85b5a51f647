/* Arenas, types and their arithmetic, expressions, affine forms, bounds,
 * dumps. */
#include "config.h"

#include "ir/passes.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* ---- arenas ------------------------------------------------------------ */

static void
arena_hands_out_zeroed_memory(void **state)
{
  (void)state;
  struct tt_arena *a = tt_arena_new();
  for (int round = 0; round < 3; round++) {
    for (size_t n = 0; n < 3000; n += 7) {
      unsigned char *p = tt_arena_alloc(a, n);
      assert_int_equal((uintptr_t)p % 16, 0);
      for (size_t i = 0; i < n; i++)
        assert_int_equal(p[i], 0);
      memset(p, 0xab, n);
    }
    unsigned char *big = tt_arena_alloc(a, 3 << 20);
    assert_int_equal(big[(3 << 20) - 1], 0);
    memset(big, 0xcd, 3 << 20);
    assert_true(tt_arena_used(a) >= 3 << 20);
    tt_arena_reset(a);
    assert_int_equal(tt_arena_used(a), 0);
  }
  assert_string_equal(tt_arena_printf(a, "%s-%d", "x", 12), "x-12");
  assert_string_equal(tt_arena_strndup(a, "hello", 3), "hel");
  tt_arena_free(a);
  tt_arena_free(NULL);
}

static void
strings_grow(void **state)
{
  (void)state;
  struct tt_sb sb = {0};
  assert_string_equal(tt_sb_str(&sb), "");
  for (int i = 0; i < 1000; i++)
    tt_sb_printf(&sb, "%d,", i % 10);
  assert_int_equal(sb.len, 2000);
  assert_int_equal(sb.s[1998], '9');
  tt_sb_clear(&sb);
  tt_sb_putc(&sb, 'a');
  tt_sb_addn(&sb, "bcd", 2);
  assert_string_equal(tt_sb_str(&sb), "abc");
  tt_sb_free(&sb);
}

/* ---- types ------------------------------------------------------------- */

static void
integers_wrap_and_saturate(void **state)
{
  (void)state;
  assert_int_equal(tt_wrap(TT_I8, 128), -128);
  assert_int_equal(tt_wrap(TT_U8, -1), 255);
  assert_int_equal(tt_wrap(TT_I16, 0x18000), -0x8000);
  assert_int_equal(tt_wrap(TT_U32, -1), UINT32_MAX);
  assert_int_equal(tt_wrap(TT_I32, INT64_C(1) << 31), INT32_MIN);
  assert_int_equal(tt_wrap(TT_BOOL, 6), 1);
  assert_true(tt_wrap(TT_I64, INT64_MIN) == INT64_MIN);
  assert_int_equal(tt_saturate(TT_I8, 300), 127);
  assert_int_equal(tt_saturate(TT_U16, -3), 0);
  assert_int_equal(tt_saturate(TT_I16, -4), -4);
  assert_true(tt_f2i(1e300) == INT64_MAX);
  assert_true(tt_f2i(-1e300) == INT64_MIN);
  assert_true(tt_f2i(NAN) == 0);
  assert_true(tt_f2i(-2.9) == -2);
  enum tt_dtype t;
  assert_true(tt_dtype_parse("bf16", &t) && t == TT_BF16);
  assert_false(tt_dtype_parse("f8", &t));
}

static void
division_floors(void **state)
{
  (void)state;
  for (int64_t a = -20; a <= 20; a++)
    for (int64_t b = -6; b <= 6; b++) {
      if (b == 0)
        continue;
      double q = floor((double)a / (double)b);
      assert_true((double)tt_floordiv(a, b) == q);
      assert_true(tt_floormod(a, b) == a - (int64_t)q * b);
      assert_true(tt_quot(a, b) == a / b && tt_rem(a, b) == a % b);
    }
  assert_true(tt_floordiv(INT64_MIN, -1) == INT64_MIN);
  assert_true(tt_floormod(INT64_MIN, -1) == 0);
  assert_true(tt_floordiv(INT64_MIN, 3) == INT64_MIN / 3 - 1);
}

/* Against the definitions, in arithmetic wide enough for them. */
static void
requantization(void **state)
{
  (void)state;
  static const int32_t edge[] = {
      INT32_MIN, INT32_MIN + 1, -2,       -1, 0, 1, 2,
      1 << 30,   INT32_MAX - 1, INT32_MAX};
  for (int i = 0; i < 20000; i++) {
    uint64_t r = tt_random_bits(1, 2, (uint64_t)i);
    int32_t a = i < 100 ? edge[i / 10] : (int32_t)r;
    int32_t b = i < 100 ? edge[i % 10] : (int32_t)(r >> 32);
    long double wide = floorl(((long double)a * b + 0x1p30L) / 0x1p31L);
    int32_t want = wide > INT32_MAX ? INT32_MAX : (int32_t)wide;
    assert_int_equal(tt_sqrdmulh(a, b), want);
    int e = (int)(r >> 40) & 31;
    /* roundl() takes halves away from zero. */
    assert_int_equal(tt_rdivp2(a, e), (int32_t)roundl(a / powl(2, e)));
  }
}

static void
f16_round_trips(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < 65536; i++) {
    double v = tt_f16_to_f64((uint16_t)i);
    if (isnan(v)) {
      assert_true(isnan(tt_f16_to_f64(tt_f64_to_f16(v))));
      continue;
    }
    assert_int_equal(tt_f64_to_f16(v), i);
    if (isinf(v) || i % 0x8000 == 0x7bff)
      continue;
    /* Halfway to the next one: to even; a little less: back. */
    double up = tt_f16_to_f64((uint16_t)(i + 1)), half = (v + up) / 2;
    assert_int_equal(tt_f64_to_f16(half), i & 1 ? i + 1 : i);
    assert_int_equal(tt_f64_to_f16(nextafter(half, v)), i);
    assert_int_equal(tt_f64_to_f16(nextafter(half, up)), i + 1);
  }
  assert_int_equal(tt_f64_to_f16(65519), 0x7bff);
  assert_int_equal(tt_f64_to_f16(65520), 0x7c00);
  assert_int_equal(tt_f64_to_f16(-1e-30), 0x8000);
}

static void
bf16_round_trips(void **state)
{
  (void)state;
  for (uint32_t i = 0; i < 65536; i++) {
    float v = tt_bf16_to_f32((uint16_t)i);
    if (isnan(v)) {
      assert_true(isnan(tt_bf16_to_f32(tt_f32_to_bf16(v))));
      continue;
    }
    assert_int_equal(tt_f32_to_bf16(v), i);
    float up = tt_bf16_to_f32((uint16_t)(i + 1));
    if (isinf(v) || !isfinite(up))
      continue;
    float half = v / 2 + up / 2;
    if (fabsf(v) < FLT_MIN * 4)
      continue;
    assert_int_equal(tt_f32_to_bf16(half), i & 1 ? i + 1 : i);
    assert_int_equal(tt_f32_to_bf16(nextafterf(half, v)), i);
    assert_int_equal(tt_f32_to_bf16(nextafterf(half, up)), i + 1);
  }
}

/* ---- expressions ------------------------------------------------------- */

struct fix {
  struct tt_arena *arena;
  struct tt_program *program;
  const struct tt_expr *i, *j, *k; /* of extents 8, 5, 100 */
};

static void
open_fix(struct fix *f)
{
  f->arena = tt_arena_new();
  f->program = tt_program_new(f->arena, "k");
  f->i = tt_var_ref(f->arena, tt_program_var(f->program, "i", 8));
  f->j = tt_var_ref(f->arena, tt_program_var(f->program, "j", 5));
  f->k = tt_var_ref(f->arena, tt_program_var(f->program, "k", 100));
}

static void
check_dump(const struct tt_expr *e, const char *want)
{
  struct tt_sb sb = {0};
  tt_dump_expr(&sb, e);
  assert_string_equal(tt_sb_str(&sb), want);
  tt_sb_free(&sb);
}

static void
dumps_need_few_parentheses(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  const struct tt_expr *two = tt_idx(a, 2), *five = tt_idx(a, 5);
#define OP(op, x, y) tt_binary(a, TT_##op, x, y)
  check_dump(OP(MUL, five, OP(MOD, f.i, two)), "5 * (i % 2)");
  check_dump(OP(MOD, OP(MUL, five, f.i), two), "5 * i % 2");
  check_dump(OP(SUB, f.i, OP(SUB, f.j, two)), "i - (j - 2)");
  check_dump(OP(SUB, OP(SUB, f.i, f.j), tt_idx(a, -2)), "i - j - -2");
  check_dump(tt_neg(a, tt_neg(a, tt_idx(a, -3))), "-(-(-3))");
  check_dump(
      OP(AND, OP(LT, f.i, two), OP(OR, OP(EQ, f.j, two), tt_bool(a, true))),
      "i < 2 && (j == 2 || true)");
  check_dump(tt_select(a, OP(LT, f.i, two), OP(MIN, f.i, f.j),
                       tt_select(a, OP(GE, f.i, five), two, five)),
             "i < 2 ? min(i, j) : i >= 5 ? 2 : 5");
  check_dump(OP(MUL, tt_select(a, tt_bool(a, false), two, five), five),
             "(false ? 2 : 5) * 5");
  check_dump(tt_not(a, OP(LT, f.i, two)), "!(i < 2)");
  check_dump(tt_ramp(a, OP(ADD, f.i, two), 4, 8), "ramp(i + 2, 4, 8)");
#undef OP
  tt_arena_free(a);
}

static void
floats_read_back(void **state)
{
  (void)state;
  struct tt_arena *a = tt_arena_new();
  check_dump(tt_flt(a, TT_F32, 0.1), "0.1f");
  check_dump(tt_flt(a, TT_F64, 0.1), "0.1");
  check_dump(tt_flt(a, TT_F64, (float)0.1), "0.10000000149011612");
  check_dump(tt_flt(a, TT_F32, 3), "3.0f");
  check_dump(tt_flt(a, TT_F32, 1e30), "1e+30f");
  check_dump(tt_flt(a, TT_F32, -INFINITY), "-inf");
  check_dump(tt_flt(a, TT_BF16, -3), "bf16(-3.0)");
  check_dump(tt_int(a, TT_U8, -1), "u8(255)");
  for (uint64_t n = 0; n < 5000; n++) {
    uint32_t bits = (uint32_t)tt_random_bits(1, 1, n);
    float v;
    memcpy(&v, &bits, sizeof v);
    if (!isfinite(v))
      continue;
    struct tt_sb sb = {0};
    tt_dump_expr(&sb, tt_flt(a, TT_F32, v));
    assert_true(strtof(tt_sb_str(&sb), NULL) == v);
    tt_sb_free(&sb);
  }
  tt_arena_free(a);
}

static void
rewriting_shares_what_stays(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  const struct tt_expr *left = tt_iadd(a, f.i, tt_idx(a, 1));
  const struct tt_expr *e = tt_iadd(a, left, tt_imul(a, f.j, 3));
  const struct tt_expr *same = tt_expr_subst(a, e, 1, &f.k->var, &f.i);
  assert_ptr_equal(same, e);
  const struct tt_expr *r = tt_expr_subst(a, e, 1, &f.j->var, &f.k);
  assert_ptr_equal(r->a, left);
  check_dump(r, "i + 1 + k * 3");
  assert_true(tt_expr_uses_var(r, f.k->var));
  assert_false(tt_expr_uses_var(r, f.j->var));
  assert_true(tt_expr_equal(e, tt_expr_subst(a, r, 1, &f.k->var, &f.j)));
  assert_false(tt_expr_equal(tt_flt(a, TT_F32, 0.0), tt_flt(a, TT_F32, -0.0)));
  /* A variable that becomes a ramp makes vectors of what it meets. */
  const struct tt_expr *ramp = tt_ramp(a, tt_idx(a, 0), 1, 4);
  check_dump(tt_expr_subst(a, e, 1, &f.j->var, &ramp),
             "broadcast(i + 1, 4) + ramp(0, 1, 4) * broadcast(3, 4)");
  tt_arena_free(a);
}

static void
affine_forms(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  const struct tt_expr *e =
      tt_isub(a, tt_imul(a, tt_iadd(a, f.k, f.i), 3),
              tt_iadd(a, tt_imul(a, tt_idiv(a, f.j, 2), 4), tt_idx(a, 7)));
  struct tt_affine g = tt_affine_of(a, e);
  assert_int_equal(g.n, 3);
  assert_int_equal(g.c0, -7);
  check_dump(tt_affine_expr(a, &g), "i * 3 + k * 3 - j / 2 * 4 - 7");
  int64_t c;
  assert_true(tt_affine_coef(a, e, f.k->var, &c) && c == 3);
  assert_false(tt_affine_coef(a, e, f.j->var, &c));
  assert_true(tt_const_difference(a, tt_iadd(a, e, tt_idx(a, 9)), e, &c));
  assert_int_equal(c, 9);
  assert_false(tt_const_difference(a, e, f.i, &c));
  tt_arena_free(a);
}

static void
bounds_under_facts(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  const struct tt_expr *e =
      tt_isub(a, tt_iadd(a, tt_imul(a, f.i, 2), f.j), tt_idx(a, 3));
  struct tt_interval r = tt_bounds(e, NULL);
  assert_true(r.ok && r.lo == -3 && r.hi == 15);
  struct tt_facts low = {NULL, tt_binary(a, TT_LT, e, tt_idx(a, 0)), true};
  r = tt_bounds(tt_imul(a, e, 10), &low);
  assert_true(r.lo == 0 && r.hi == 150);
  struct tt_facts both = {&low, tt_binary(a, TT_LE, e, f.k), false};
  assert_int_equal(tt_prove(tt_binary(a, TT_GE, f.k, tt_idx(a, 0)), &both), 1);
  assert_int_equal(tt_prove(tt_binary(a, TT_GT, e, tt_idx(a, 15)), NULL), 0);
  assert_int_equal(tt_prove(tt_binary(a, TT_GT, e, f.k), &both), 0);
  assert_int_equal(tt_prove(tt_binary(a, TT_GT, e, f.j), &both), -1);
  /* 2*i == 2*j + 1 never holds. */
  assert_int_equal(
      tt_prove(tt_binary(a, TT_EQ, tt_imul(a, f.i, 2),
                         tt_iadd(a, tt_imul(a, f.j, 2), tt_idx(a, 1))),
               NULL),
      0);
  r = tt_bounds(tt_imod(a, e, 4), NULL);
  assert_true(r.lo == 0 && r.hi == 3);
  tt_arena_free(a);
}

static void
check_bounds(const struct tt_expr *e, const struct tt_facts *facts, int64_t lo,
             int64_t hi)
{
  struct tt_interval r = tt_bounds(e, facts);
  assert_true(r.ok);
  assert_int_equal(r.lo, lo);
  assert_int_equal(r.hi, hi);
}

/* What the regions of caches and of stages computed at loops give rise to. */
static void
bounds_of_regions(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  const struct tt_expr *i = f.i, *j = f.j, *k = f.k;
#define C(n) tt_idx(a, n)
  /* An index minus the clamped start of its region. */
  const struct tt_expr *start =
      tt_imax(a, tt_imin(a, tt_isub(a, tt_imul(a, i, 2), C(1)), C(10)), C(0));
  const struct tt_expr *at = tt_isub(a, tt_iadd(a, tt_imul(a, i, 2), j), C(1));
  struct tt_facts in = {NULL,
                        tt_binary(a, TT_AND, tt_binary(a, TT_GE, at, C(0)),
                                  tt_binary(a, TT_LT, at, C(13))),
                        false};
  check_bounds(tt_isub(a, at, start), &in, 0, 4);
  /* Quotients that move together. */
  const struct tt_expr *ten = tt_imul(a, i, 10);
  check_bounds(
      tt_isub(a, tt_idiv(a, tt_iadd(a, ten, j), 9), tt_idiv(a, ten, 9)), NULL,
      0, 1);
  /* A guard on the whole, an index of its quotient. */
  const struct tt_expr *whole = tt_iadd(a, tt_imul(a, i, 8), j);
  struct tt_facts part = {NULL, tt_binary(a, TT_LT, whole, C(20)), false};
  check_bounds(tt_iadd(a, tt_imul(a, i, 2), tt_idiv(a, j, 4)), &part, 0, 4);
  /* A guard on quotient and remainder, an index of the whole. */
  struct tt_facts both = {
      NULL,
      tt_binary(a, TT_LT, tt_iadd(a, tt_idiv(a, k, 8), tt_imod(a, k, 8)), C(1)),
      false};
  check_bounds(tt_imul(a, k, 2), &both, 0, 0);
  /* Flattened dimensions, each with its guard. */
  const struct tt_expr *row = tt_isub(a, tt_iadd(a, i, j), C(1));
  struct tt_facts low = {NULL, tt_binary(a, TT_GE, row, C(0)), false};
  struct tt_facts high = {&low, tt_binary(a, TT_GE, k, j), false};
  check_bounds(tt_iadd(a, tt_imul(a, row, 100), tt_isub(a, k, j)), &high, 0,
               1095);
#undef C
  tt_arena_free(a);
}

/* An i64 that may be anything wraps: x + 1 > x is not true. */
static void
unbounded_values_may_wrap(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  int64_t dims[] = {8};
  struct tt_tensor *t =
      tt_program_tensor(f.program, "A", TT_INPUT, TT_I64, 1, dims);
  const struct tt_expr *x = tt_load(a, t, 1, &f.i);
  const struct tt_expr *x1 = tt_iadd(a, x, tt_idx(a, 1));
  assert_int_equal(tt_prove(tt_binary(a, TT_GT, x1, x), NULL), -1);
  assert_false(tt_bounds(x1, NULL).ok);
  struct tt_facts in = {NULL, tt_binary(a, TT_LT, x, tt_idx(a, 50)), false};
  assert_int_equal(tt_prove(tt_binary(a, TT_GT, x1, x), &in), -1);
  struct tt_facts both = {&in, tt_binary(a, TT_GE, x, tt_idx(a, 0)), false};
  assert_int_equal(tt_prove(tt_binary(a, TT_GT, x1, x), &both), 1);
  struct tt_interval r = tt_bounds(x1, &both);
  assert_true(r.ok && r.lo == 1 && r.hi == 50);
  tt_arena_free(a);
}

static void
dump_of_a_program(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  int64_t dims[] = {8, 5}, three[] = {3};
  static const double table[] = {0.5, 1, -1};
  struct tt_tensor *x =
      tt_program_tensor(f.program, "X", TT_INPUT, TT_F32, 2, dims);
  struct tt_tensor *t =
      tt_program_tensor(f.program, "T", TT_CONST, TT_F32, 1, three);
  t->fdata = table;
  struct tt_tensor *y =
      tt_program_tensor(f.program, "Y", TT_OUTPUT, TT_F32, 1, dims);
  const struct tt_expr *idx[] = {f.i, f.j};
  tt_program_stage(f.program, y, &f.i->var, TT_RED_MAX, 1, &f.j->var,
                   tt_load(f.arena, x, 2, idx),
                   tt_binary(f.arena, TT_NE, f.i, f.j));
  struct tt_sb sb = {0};
  tt_dump_program(&sb, f.program);
  assert_string_equal(tt_sb_str(&sb),
                      "kernel k;\n"
                      "input X[8, 5]: f32;\n"
                      "const T[3]: f32 = {0.5f, 1.0f, -1.0f};\n"
                      "output Y[8]: f32;\n"
                      "Y[i in 8] = max[j in 5] where i != j (X[i, j]);\n");
  tt_sb_free(&sb);
  tt_arena_free(f.arena);
}

static void
sequences_are_flat(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  int64_t dims[] = {8};
  struct tt_tensor *y =
      tt_program_tensor(f.program, "Y", TT_OUTPUT, TT_I64, 1, dims);
  const struct tt_stmt *s = tt_store(a, y, 1, &f.i, f.i);
  const struct tt_stmt *two[] = {s, s};
  const struct tt_stmt *inner = tt_seq(a, 2, two);
  const struct tt_stmt *mixed[] = {NULL, inner, s, NULL, tt_seq(a, 0, NULL)};
  assert_int_equal(tt_seq(a, 5, mixed)->nitems, 3);
  const struct tt_stmt *one[] = {NULL, s};
  assert_ptr_equal(tt_seq(a, 2, one), s);
  const struct tt_stmt *named[] = {tt_comment(a, "part", inner), s};
  assert_int_equal(tt_seq(a, 2, named)->nitems, 2);
  tt_arena_free(a);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arena_hands_out_zeroed_memory),
      cmocka_unit_test(strings_grow),
      cmocka_unit_test(integers_wrap_and_saturate),
      cmocka_unit_test(division_floors),
      cmocka_unit_test(requantization),
      cmocka_unit_test(f16_round_trips),
      cmocka_unit_test(bf16_round_trips),
      cmocka_unit_test(dumps_need_few_parentheses),
      cmocka_unit_test(floats_read_back),
      cmocka_unit_test(rewriting_shares_what_stays),
      cmocka_unit_test(affine_forms),
      cmocka_unit_test(bounds_under_facts),
      cmocka_unit_test(bounds_of_regions),
      cmocka_unit_test(unbounded_values_may_wrap),
      cmocka_unit_test(dump_of_a_program),
      cmocka_unit_test(sequences_are_flat),
  };
  return cmocka_run_group_tests_name("ir", tests, NULL, NULL);
}
