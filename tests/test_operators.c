/* Code generation: every operator over all types, in vectors of every width.
 */
#include "config.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/nest.h"

static const int64_t lengths[] = {37};

/* O_i[x] = value_i(A[x], B[x]) for many values at once, as vectors. */
struct ops {
  struct fix *f;
  const struct tt_expr *x;
  const struct tt_var *v;
  int n;
  const struct tt_stmt *items[256];
};

static void
emit(struct ops *o, const struct tt_expr *value)
{
  struct fix *f = o->f;
  int64_t n = lengths[0];
  struct tt_tensor *t = param(f, tt_arena_printf(f->ar, "O%d", o->n), TT_OUTPUT,
                              value->type.dtype, 1, &n);
  o->items[o->n++] =
      vector(f, o->v, 64 / tt_dtype_bytes(t->dtype), store(f, t, &o->x, value));
}

static struct ops
ops_start(struct fix *f, const char *name)
{
  start(f, name);
  struct ops o = {.f = f};
  o.v = var(f, "x", lengths[0]);
  o.x = ref(f, o.v);
  return o;
}

static void
ops_check(struct ops *o)
{
  o->f->nest.body = tt_seq(o->f->ar, o->n, o->items);
  check_nest(o->f);
}

static struct tt_tensor *
input(struct ops *o, const char *name, enum tt_dtype t, int64_t lo, int64_t hi)
{
  struct tt_tensor *a = param(o->f, name, TT_INPUT, t, 1, lengths);
  if (lo < hi) {
    a->has_range = true;
    a->lo = lo;
    a->hi = hi;
  }
  return a;
}

static void
arithmetic(enum tt_dtype t)
{
  struct fix f;
  struct ops o = ops_start(&f, "arithmetic");
  bool is_float = tt_dtype_is_float(t);
  struct tt_arena *ar = f.ar;
  const struct tt_expr *a = load(&f, input(&o, "A", t, 0, 0), &o.x);
  const struct tt_expr *b = load(&f, input(&o, "B", t, 0, 0), &o.x);
  const struct tt_expr *k = is_float ? tt_flt(ar, t, -1.5) : tt_int(ar, t, 3);
  static const enum tt_binop all[] = {TT_ADD, TT_SUB, TT_MUL, TT_MIN, TT_MAX};
  for (int i = 0; i < 5; i++) {
    emit(&o, tt_binary(ar, all[i], a, b));
    emit(&o, tt_binary(ar, all[i], a, k));
    emit(&o, tt_binary(ar, all[i], k, b));
  }
  static const enum tt_binop cmp[] = {TT_EQ, TT_NE, TT_LT, TT_GT, TT_LE, TT_GE};
  const struct tt_expr *all_true = tt_binary(ar, TT_NE, a, k);
  for (int i = 0; i < 6; i++) {
    const struct tt_expr *c = tt_binary(ar, cmp[i], a, b);
    emit(&o, tt_select(ar, c, a, b));
    emit(&o, tt_select(ar, tt_binary(ar, TT_AND, c, all_true), k, b));
    emit(&o,
         tt_select(ar, tt_binary(ar, TT_OR, tt_not(ar, c), all_true), b, k));
    emit(&o, c);
    emit(&o, tt_cast(ar, t, c));
    emit(&o, tt_cast(ar, TT_F32, c));
  }
  emit(&o, tt_neg(ar, a));
  /* A narrow condition decides about wide values and the reverse. */
  const struct tt_expr *c = tt_binary(ar, TT_LT, a, b);
  emit(&o, tt_select(ar, c, tt_cast(ar, TT_F64, a), tt_cast(ar, TT_F64, b)));
  emit(&o, tt_select(ar, c, tt_cast(ar, TT_U8, a), tt_int(ar, TT_U8, 7)));
  if (!is_float) {
    emit(&o, tt_not(ar, a));
    emit(&o, tt_binary(ar, TT_BAND, a, b));
    emit(&o, tt_binary(ar, TT_BOR, a, k));
    emit(&o, tt_binary(ar, TT_BXOR, a, b));
    emit(&o, tt_binary(ar, TT_SHL, a, tt_int(ar, t, 3)));
    emit(&o, tt_binary(ar, TT_SHR, a, tt_int(ar, TT_I32, 2)));
    emit(&o, tt_binary(ar, TT_DIV, a, k));
    emit(&o, tt_binary(ar, TT_MOD, a, k));
    const struct tt_expr *s =
        load(&f, input(&o, "S", t, 1, tt_dtype_bits(t) - 1), &o.x);
    emit(&o, tt_binary(ar, TT_SHL, b, s));
    emit(&o, tt_binary(ar, TT_SHR, b, s));
    emit(&o, tt_binary(ar, TT_DIV, b, s));
    emit(&o, tt_binary(ar, TT_MOD, b, s));
    emit(&o, tt_call(ar, TT_FN_QUOT, t, 2, IDX(b, s)));
    emit(&o, tt_call(ar, TT_FN_REM, t, 2, IDX(b, s)));
  } else {
    emit(&o, tt_binary(ar, TT_DIV, a, k));
  }
  emit(&o, tt_call(ar, TT_FN_ABS, t, 1, IDX(a)));
  ops_check(&o);
}

static void
test_arithmetic(void **state)
{
  (void)state;
  for (int t = 0; t < TT_NDTYPES; t++)
    if (t != TT_BOOL)
      arithmetic((enum tt_dtype)t);
}

static void
test_conversions(void **state)
{
  (void)state;
  for (int s = 0; s < TT_NDTYPES; s++) {
    struct fix f;
    struct ops o = ops_start(&f, "conversions");
    const struct tt_expr *a =
        load(&f, input(&o, "A", (enum tt_dtype)s, 0, 0), &o.x);
    const struct tt_expr *big =
        s == TT_F32 || s == TT_F64
            ? tt_binary(f.ar, TT_MUL, a, tt_flt(f.ar, (enum tt_dtype)s, 3e9))
            : a;
    for (int t = 0; t < TT_NDTYPES; t++) {
      emit(&o, tt_cast(f.ar, (enum tt_dtype)t, a));
      if (t != TT_BOOL)
        emit(&o, tt_cast(f.ar, (enum tt_dtype)t, big));
      if (s != TT_BOOL && tt_dtype_is_int((enum tt_dtype)t))
        emit(&o, tt_sat(f.ar, (enum tt_dtype)t, big));
    }
    ops_check(&o);
  }
}

static void
test_builtins(void **state)
{
  (void)state;
  for (int t = 0; t < TT_NDTYPES; t++) {
    struct fix f;
    if (!tt_dtype_is_float((enum tt_dtype)t))
      continue;
    struct ops o = ops_start(&f, "builtins");
    enum tt_dtype d = (enum tt_dtype)t;
    const struct tt_expr *a = load(&f, input(&o, "A", d, 0, 0), &o.x);
    const struct tt_expr *pos = tt_binary(
        f.ar, TT_ADD, tt_call(f.ar, TT_FN_ABS, d, 1, &a), tt_flt(f.ar, d, 0.5));
    for (int fn = 0; fn < TT_NFNS; fn++) {
      if (fn == TT_FN_POW)
        emit(&o, tt_call(f.ar, TT_FN_POW, d, 2, IDX(pos, a)));
      else if (tt_fn_nargs((enum tt_fn)fn) == 1)
        emit(&o, tt_call(f.ar, (enum tt_fn)fn, d, 1, &pos));
    }
    emit(&o, tt_call(f.ar, TT_FN_ROUND, d, 1, &a));
    emit(&o, tt_call(f.ar, TT_FN_FLOOR, d, 1, &a));
    ops_check(&o);
  }
  struct fix f;
  struct ops o = ops_start(&f, "quantize");
  const struct tt_expr *a = load(&f, input(&o, "A", TT_I32, 0, 0), &o.x);
  const struct tt_expr *b = load(&f, input(&o, "B", TT_I32, 0, 0), &o.x);
  const struct tt_expr *e = load(&f, input(&o, "E", TT_I32, 0, 31), &o.x);
  const struct tt_expr *m = tt_call(f.ar, TT_FN_SQRDMULH, TT_I32, 2, IDX(a, b));
  emit(&o, m);
  emit(&o, tt_call(f.ar, TT_FN_RDIVP2, TT_I32, 2, IDX(m, e)));
  ops_check(&o);
}

/* Index values in vectors, in every integer type. */
static void
test_index_values(void **state)
{
  (void)state;
  struct fix f;
  struct ops o = ops_start(&f, "indices");
  for (int t = 0; t < TT_NDTYPES; t++) {
    enum tt_dtype d = (enum tt_dtype)t;
    const struct tt_expr *i =
        tt_iadd(f.ar, tt_imul(f.ar, o.x, 9), tt_idx(f.ar, -20));
    emit(&o, tt_cast(f.ar, d, i));
    const struct tt_expr *one = tt_cast(f.ar, d, tt_idx(f.ar, 1));
    if (t != TT_BOOL)
      emit(&o, tt_select(f.ar, tt_binary(f.ar, TT_LT, o.x, tt_idx(f.ar, 20)),
                         one, tt_zero(f.ar, d)));
  }
  emit(&o, tt_binary(f.ar, TT_MUL, o.x, o.x));
  ops_check(&o);
}

static void
test_bools(void **state)
{
  (void)state;
  struct fix f;
  struct ops o = ops_start(&f, "bools");
  const struct tt_expr *a = load(&f, input(&o, "A", TT_BOOL, 0, 0), &o.x);
  const struct tt_expr *b = load(&f, input(&o, "B", TT_BOOL, 0, 0), &o.x);
  const struct tt_expr *v = load(&f, input(&o, "V", TT_I16, 0, 0), &o.x);
  const struct tt_expr *w = load(&f, input(&o, "W", TT_I16, 0, 0), &o.x);
  const struct tt_expr *c = tt_binary(f.ar, TT_LT, v, w);
  const struct tt_expr *d = tt_binary(f.ar, TT_GT, v, tt_int(f.ar, TT_I16, 9));
  static const enum tt_binop all[] = {TT_AND, TT_OR, TT_EQ, TT_NE};
  for (int i = 0; i < 4; i++) {
    emit(&o, tt_binary(f.ar, all[i], a, b));
    emit(&o, tt_select(f.ar, tt_binary(f.ar, all[i], c, d), v, w));
    emit(&o, tt_binary(f.ar, all[i], c, d));
  }
  emit(&o, tt_not(f.ar, a));
  emit(&o, tt_select(f.ar, tt_select(f.ar, c, d, tt_not(f.ar, d)), v, w));
  ops_check(&o);
}

/* Floats print so that they read back. */
static void
test_constants(void **state)
{
  (void)state;
  static const double values[] = {0.1,      1.0 / 3,  1e-45,     3.4028235e38,
                                  -0.0,     INFINITY, -INFINITY, NAN,
                                  16777217, 5e-324};
  struct fix f;
  struct ops o = ops_start(&f, "constants");
  const struct tt_expr *a = load(&f, input(&o, "A", TT_F32, 0, 0), &o.x);
  const struct tt_expr *c =
      tt_binary(f.ar, TT_LT, a, tt_flt(f.ar, TT_F32, 100));
  for (size_t i = 0; i < sizeof values / sizeof *values; i++)
    for (int t = 0; t <= TT_F32; t++) {
      const struct tt_expr *k = tt_flt(f.ar, (enum tt_dtype)t, values[i]);
      emit(&o, k);
      emit(&o, tt_select(f.ar, c, k, tt_flt(f.ar, (enum tt_dtype)t, 1)));
    }
  static const int64_t ints[] = {INT64_MIN, INT64_MAX, INT32_MIN, -129, 0};
  const struct tt_expr *x = tt_cast(f.ar, TT_I64, a);
  for (int i = 0; i < 5; i++)
    emit(&o, tt_binary(f.ar, TT_BXOR, x, tt_int(f.ar, TT_I64, ints[i])));
  ops_check(&o);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_arithmetic), cmocka_unit_test(test_conversions),
      cmocka_unit_test(test_builtins),   cmocka_unit_test(test_index_values),
      cmocka_unit_test(test_bools),      cmocka_unit_test(test_constants),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
