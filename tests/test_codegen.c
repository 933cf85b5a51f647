/* Code generation: what the passes make of a nest means the same, the C that
 * is printed does the same, it compiles without a warning, and a few texts
 * are as they were (tests/golden; UPDATE_GOLDEN=1 rewrites them).
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

#define IDX(...) ((const struct tt_expr *[]){__VA_ARGS__})
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* ---- a program under construction -------------------------------------- */

struct fix {
  struct tt_arena *ar;
  struct tt_program *p;
  struct tt_nest nest;
  int nextvar;
};

static void
start(struct fix *f, const char *name)
{
  *f = (struct fix){.ar = tt_arena_new()};
  f->p = tt_program_new(f->ar, name);
  f->nest.program = f->p;
  f->nextvar = 1000;
}

static struct tt_tensor *
param(struct fix *f, const char *name, enum tt_role role, enum tt_dtype t,
      int ndim, const int64_t *dims)
{
  return tt_program_tensor(f->p, name, role, t, ndim, dims);
}

static struct tt_tensor *
local(struct fix *f, const char *name, enum tt_scope scope, enum tt_dtype d,
      int ndim, const int64_t *dims)
{
  struct tt_tensor *t = TT_NEW(f->ar, struct tt_tensor);
  t->name = name;
  t->role = TT_LOCAL;
  t->scope = scope;
  t->dtype = d;
  t->ndim = ndim;
  t->id = -1;
  for (int i = 0; i < ndim; i++)
    t->dims[i] = dims[i];
  return t;
}

static const struct tt_var *
var(struct fix *f, const char *name, int64_t extent)
{
  struct tt_var *v = TT_NEW(f->ar, struct tt_var);
  v->name = name;
  v->extent = extent;
  v->id = f->nextvar++;
  return v;
}

static const struct tt_expr *
ref(struct fix *f, const struct tt_var *v)
{
  return tt_var_ref(f->ar, v);
}

static const struct tt_expr *
load(struct fix *f, const struct tt_tensor *t, const struct tt_expr *const *i)
{
  return tt_load(f->ar, t, t->ndim, i);
}

static const struct tt_stmt *
store(struct fix *f, const struct tt_tensor *t, const struct tt_expr *const *i,
      const struct tt_expr *v)
{
  return tt_store(f->ar, t, t->ndim, i, v);
}

static const struct tt_stmt *
vector(struct fix *f, const struct tt_var *v, int lanes,
       const struct tt_stmt *body)
{
  return tt_for(f->ar, TT_VECTOR, lanes, v, body);
}

static const struct tt_stmt *
serial(struct fix *f, const struct tt_var *v, const struct tt_stmt *body)
{
  return tt_for(f->ar, TT_SERIAL, 1, v, body);
}

static const struct tt_stmt *
seq2(struct fix *f, const struct tt_stmt *a, const struct tt_stmt *b)
{
  return tt_seq(f->ar, 2, (const struct tt_stmt *[]){a, b});
}

/* ---- the same meaning --------------------------------------------------- */

static bool
equal(double x, double y, double tol)
{
  return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tol * (1 + fabs(y));
}

static void
assert_outputs(const struct fix *f, struct tt_values *want,
               struct tt_values *got)
{
  for (int i = 0; i < f->p->ntensors; i++) {
    const struct tt_tensor *t = f->p->tensors[i];
    double *wf, *gf;
    int64_t *wi, *gi;
    if (t->role != TT_OUTPUT)
      continue;
    tt_values_of(want, t, &wf, &wi);
    tt_values_of(got, t, &gf, &gi);
    for (int64_t k = 0; k < tt_tensor_size(t); k++)
      if (wf ? !equal(gf[k], wf[k], 0) : wi[k] != gi[k])
        fail_msg("%s[%lld]: %g instead of %g", t->name, (long long)k,
                 wf ? gf[k] : (double)gi[k], wf ? wf[k] : (double)wi[k]);
  }
}

static const int widths[] = {0, 16, 32, 64};

/* The nest, what the passes make of it for every width, and the compiled C
 * give the same. */
static void
check_seed(struct fix *f, uint64_t seed)
{
  struct exec_case cases[12];
  int n = 0;
  struct tt_values *want = tt_values_new();
  tt_values_random(want, f->p, seed);
  const char *error = tt_interpret_nest(&f->nest, want);
  if (error)
    fail_msg("the nest itself: %s", error);
  for (int w = 0; w < 4; w++) {
    struct tt_codegen_options o = {.vector_bytes = widths[w],
                                   .workspace = (enum tt_workspace)(w % 3)};
    struct tt_nest r = tt_codegen_passes(f->ar, &f->nest, &o, &error);
    if (error)
      fail_msg("passes at %d: %s", widths[w], error);
    struct tt_values *got = tt_values_new();
    tt_values_random(got, f->p, seed);
    error = tt_interpret_nest(&r, got);
    if (error) {
      struct tt_sb sb = {0};
      tt_dump_stmt(&sb, r.body, 0);
      fail_msg("after passes at %d: %s\n%s", widths[w], error, sb.s);
    }
    assert_outputs(f, want, got);
    tt_values_free(got);
    cases[n++] = (struct exec_case){&f->nest, o, want, want};
  }
  cases[n++] = (struct exec_case){
      &f->nest, {.c99 = true, .workspace = TT_WS_ARG}, want, want};
  int failed;
  error = exec_c(f->ar, n, cases, 0, &failed);
  if (error)
    fail_msg("case %d: %s", failed, error);
  tt_values_free(want);
}

static void
check(struct fix *f)
{
  check_seed(f, 1);
  tt_arena_free(f->ar);
}

/* ---- operators over all types ------------------------------------------- */

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
  check(o->f);
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

/* ---- shapes of loops ---------------------------------------------------- */

/* Every small extent, with chunks and all remainders. */
static void
test_extents(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "extents");
  const struct tt_stmt *items[48];
  int n = 0;
  for (int64_t e = 1; e <= 40; e++, n++) {
    struct tt_tensor *a =
        param(&f, tt_arena_printf(f.ar, "A%d", n), TT_INPUT, TT_F32, 1, &e);
    struct tt_tensor *o =
        param(&f, tt_arena_printf(f.ar, "O%d", n), TT_OUTPUT, TT_F32, 1, &e);
    const struct tt_var *v = var(&f, "x", e);
    const struct tt_expr *x = ref(&f, v);
    items[n] = vector(&f, v, 1 << n % 5,
                      store(&f, o, &x, tt_neg(f.ar, load(&f, a, &x))));
  }
  f.nest.body = tt_seq(f.ar, n, items);
  check(&f);
}

static void
test_long_loop(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "copy");
  int64_t n = 1003;
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, &n);
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, &n);
  const struct tt_var *v = var(&f, "x", n);
  const struct tt_expr *x = ref(&f, v);
  f.nest.body = vector(&f, v, 16, store(&f, o, &x, load(&f, a, &x)));
  check(&f);
}

/* Strides: loads of every second element, backwards, along rows, from one
 * place; stores along columns. */
static void
test_strides(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "strides");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 2, DIMS(24, 48));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 2, DIMS(5, 24));
  struct tt_tensor *q = param(&f, "Q", TT_OUTPUT, TT_F32, 2, DIMS(24, 3));
  const struct tt_var *v = var(&f, "x", 24);
  const struct tt_expr *x = ref(&f, v), *zero = tt_idx(f.ar, 0);
  const struct tt_expr *idx[5][2] = {{zero, tt_imul(f.ar, x, 2)},
                                     {zero, tt_isub(f.ar, tt_idx(f.ar, 23), x)},
                                     {x, zero},
                                     {zero, zero},
                                     {x, tt_iadd(f.ar, x, tt_idx(f.ar, 5))}};
  const struct tt_stmt *items[6];
  for (int i = 0; i < 5; i++)
    items[i] = store(&f, o, IDX(tt_idx(f.ar, i), x), load(&f, a, idx[i]));
  items[5] = store(&f, q, IDX(x, tt_idx(f.ar, 1)), load(&f, a, idx[1]));
  const struct tt_var *y = var(&f, "y", 3), *z = var(&f, "z", 24);
  f.nest.body = seq2(&f,
                     serial(&f, z,
                            serial(&f, y,
                                   store(&f, q, IDX(ref(&f, z), ref(&f, y)),
                                         tt_flt(f.ar, TT_F32, 0)))),
                     vector(&f, v, 8, tt_seq(f.ar, 6, items)));
  check(&f);
}

/* Small strides forth and back in every type and width: up to both ends of
 * what may be read. */
static void
test_spread(void **state)
{
  (void)state;
  enum { N = 81 };
  for (int t = 0; t < TT_NDTYPES; t++) {
    struct fix f;
    start(&f, "spread");
    enum tt_dtype d = (enum tt_dtype)t;
    const struct tt_stmt *items[20];
    int n = 0;
    for (int64_t stride = -5; stride <= 5; stride++) {
      if (stride == 0)
        continue;
      int64_t step = stride < 0 ? -stride : stride;
      int64_t size = (N - 1) * step + 1, all = N;
      struct tt_tensor *a =
          param(&f, tt_arena_printf(f.ar, "A%d", n), TT_INPUT, d, 1, &size);
      struct tt_tensor *o =
          param(&f, tt_arena_printf(f.ar, "O%d", n), TT_OUTPUT, d, 1, &all);
      const struct tt_var *v = var(&f, "x", N);
      const struct tt_expr *x = ref(&f, v);
      const struct tt_expr *at =
          tt_iadd(f.ar, tt_imul(f.ar, x, stride),
                  tt_idx(f.ar, stride < 0 ? size - 1 : 0));
      items[n++] = vector(&f, v, 64 / tt_dtype_bytes(d),
                          store(&f, o, &x, load(&f, a, &at)));
    }
    f.nest.body = tt_seq(f.ar, n, items);
    check(&f);
  }
}

/* A loop whose iterations depend on each other stays serial. */
static void
test_dependence(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "prefix");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(33));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, DIMS(34));
  const struct tt_var *v = var(&f, "x", 33);
  const struct tt_expr *x = ref(&f, v);
  const struct tt_expr *next = tt_iadd(f.ar, x, tt_idx(f.ar, 1));
  const struct tt_expr *zero = tt_idx(f.ar, 0);
  f.nest.body = seq2(
      &f, store(&f, o, &zero, tt_flt(f.ar, TT_F32, 0)),
      vector(&f, v, 16,
             store(&f, o, &next,
                   tt_binary(f.ar, TT_ADD, load(&f, o, &x), load(&f, a, &x)))));
  check(&f);
}

/* A sum over the vector loop itself. */
static void
test_vector_reduction(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "total");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_I32, 1, DIMS(33));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_I32, 0, NULL);
  const struct tt_var *v = var(&f, "x", 33);
  const struct tt_expr *x = ref(&f, v);
  f.nest.body = seq2(&f, store(&f, o, NULL, tt_int(f.ar, TT_I32, 0)),
                     vector(&f, v, 16,
                            store(&f, o, NULL,
                                  tt_binary(f.ar, TT_ADD, load(&f, o, NULL),
                                            load(&f, a, &x)))));
  check(&f);
}

/* Padding: a choice whose branch may not be evaluated in every lane. */
static void
test_padding(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "pad");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(70));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 2, DIMS(5, 16));
  const struct tt_var *y = var(&f, "y", 5), *v = var(&f, "x", 16);
  const struct tt_expr *i =
      tt_isub(f.ar, tt_iadd(f.ar, tt_imul(f.ar, ref(&f, y), 16), ref(&f, v)),
              tt_idx(f.ar, 3));
  const struct tt_expr *inside =
      tt_binary(f.ar, TT_AND, tt_binary(f.ar, TT_GE, i, tt_idx(f.ar, 0)),
                tt_binary(f.ar, TT_LT, i, tt_idx(f.ar, 70)));
  f.nest.body = serial(&f, y,
                       vector(&f, v, 8,
                              store(&f, o, IDX(ref(&f, y), ref(&f, v)),
                                    tt_select(f.ar, inside, load(&f, a, &i),
                                              tt_flt(f.ar, TT_F32, -0.0)))));
  check(&f);
}

/* A guard around stores and a loop. */
static void
test_guard(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "guard");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(21));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, DIMS(21));
  const struct tt_var *y = var(&f, "y", 3), *v = var(&f, "x", 8);
  const struct tt_var *k = var(&f, "k", 4);
  const struct tt_expr *i =
      tt_iadd(f.ar, tt_imul(f.ar, ref(&f, y), 8), ref(&f, v));
  const struct tt_stmt *body = seq2(
      &f, store(&f, o, &i, tt_flt(f.ar, TT_F32, 1)),
      serial(&f, k,
             store(&f, o, &i,
                   tt_binary(f.ar, TT_ADD, load(&f, o, &i), load(&f, a, &i)))));
  f.nest.body =
      serial(&f, y,
             vector(&f, v, 4,
                    tt_if(f.ar, tt_binary(f.ar, TT_LT, i, tt_idx(f.ar, 21)),
                          body, NULL)));
  check(&f);
}

/* A sum in a register inside of the vector loop. */
static void
test_private_sum(void **state)
{
  (void)state;
  for (int scope = TT_STACK; scope <= TT_REGISTER; scope++) {
    struct fix f;
    start(&f, "colsum");
    struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 2, DIMS(9, 77));
    struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, DIMS(77));
    struct tt_tensor *t =
        local(&f, "acc", (enum tt_scope)scope, TT_F32, 0, NULL);
    const struct tt_var *v = var(&f, "x", 77), *k = var(&f, "k", 9);
    const struct tt_expr *x = ref(&f, v);
    const struct tt_stmt *items[3] = {
        store(&f, t, NULL, tt_flt(f.ar, TT_F32, 0)),
        serial(&f, k,
               store(&f, t, NULL,
                     tt_binary(f.ar, TT_ADD, load(&f, t, NULL),
                               load(&f, a, IDX(ref(&f, k), x))))),
        store(&f, o, &x, load(&f, t, NULL))};
    f.nest.body =
        vector(&f, v, 8, tt_alloc_stmt(f.ar, t, tt_seq(f.ar, 3, items)));
    check(&f);
  }
}

/* Lanes of a register tile that one loop writes as vectors and another reads
 * one by one, and one with a wider type. */
static void
test_mixed_tile(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "mixed");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_I8, 1, DIMS(48));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_I64, 1, DIMS(48));
  struct tt_tensor *q = param(&f, "Q", TT_OUTPUT, TT_I32, 1, DIMS(1));
  struct tt_tensor *t = local(&f, "t", TT_REGISTER, TT_I32, 1, DIMS(48));
  const struct tt_var *v = var(&f, "x", 48), *w = var(&f, "y", 48);
  const struct tt_expr *x = ref(&f, v), *y = ref(&f, w);
  const struct tt_expr *zero = tt_idx(f.ar, 0), *five = tt_idx(f.ar, 5);
  const struct tt_stmt *items[3] = {
      vector(&f, v, 16,
             store(&f, t, &x, tt_cast(f.ar, TT_I32, load(&f, a, &x)))),
      vector(&f, w, 16,
             store(&f, o, &y, tt_cast(f.ar, TT_I64, load(&f, t, &y)))),
      store(&f, q, &zero, load(&f, t, &five))};
  f.nest.body = tt_alloc_stmt(f.ar, t, tt_seq(f.ar, 3, items));
  check(&f);
}

/* A register local with a variable index goes to memory. */
static void
test_not_registers(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "reverse");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(10));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, DIMS(10));
  struct tt_tensor *t = local(&f, "t", TT_REGISTER, TT_F32, 1, DIMS(10));
  const struct tt_var *v = var(&f, "x", 10), *w = var(&f, "x", 10);
  const struct tt_expr *x = ref(&f, v), *y = ref(&f, w);
  const struct tt_expr *back = tt_isub(f.ar, tt_idx(f.ar, 9), y);
  f.nest.body =
      tt_alloc_stmt(f.ar, t,
                    seq2(&f, serial(&f, v, store(&f, t, &x, load(&f, a, &x))),
                         serial(&f, w, store(&f, o, &y, load(&f, t, &back)))));
  check(&f);
}

/* Loads of what was stored in between are not taken from an old name. */
static void
test_names_and_stores(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "swap");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(4));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, DIMS(4));
  const struct tt_expr *i[4];
  for (int k = 0; k < 4; k++)
    i[k] = tt_idx(f.ar, k);
  const struct tt_expr *a0 = load(&f, a, &i[0]), *o0 = load(&f, o, &i[0]);
  const struct tt_stmt *items[5] = {
      store(&f, o, &i[0], tt_binary(f.ar, TT_ADD, a0, a0)),
      store(&f, o, &i[1], tt_binary(f.ar, TT_MUL, o0, o0)),
      store(&f, o, &i[0], tt_binary(f.ar, TT_MUL, o0, o0)),
      store(&f, o, &i[2], tt_binary(f.ar, TT_MUL, o0, a0)),
      store(&f, o, &i[3], tt_binary(f.ar, TT_SUB, o0, a0))};
  f.nest.body = tt_seq(f.ar, 5, items);
  check(&f);
}

static void
test_parallel(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "parallel");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 2, DIMS(3, 9000));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 2, DIMS(3, 9000));
  struct tt_tensor *big = local(&f, "big", TT_WORKSPACE, TT_F32, 1, DIMS(9000));
  struct tt_tensor *small =
      local(&f, "small", TT_WORKSPACE, TT_F32, 1, DIMS(1));
  const struct tt_var *y = var(&f, "y", 3), *v = var(&f, "x", 9000);
  const struct tt_var *w = var(&f, "x", 9000);
  const struct tt_expr *x = ref(&f, v), *z = ref(&f, w);
  const struct tt_expr *zero = tt_idx(f.ar, 0);
  const struct tt_stmt *items[3] = {
      store(&f, small, &zero, tt_flt(f.ar, TT_F32, 2)),
      serial(&f, v,
             store(&f, big, &x,
                   tt_binary(f.ar, TT_MUL, load(&f, small, &zero),
                             load(&f, a, IDX(ref(&f, y), x))))),
      vector(&f, w, 16, store(&f, o, IDX(ref(&f, y), z), load(&f, big, &z)))};
  f.nest.body =
      tt_for(f.ar, TT_PARALLEL, 1, y,
             tt_alloc_stmt(f.ar, small,
                           tt_alloc_stmt(f.ar, big, tt_seq(f.ar, 3, items))));
  struct tt_codegen_options opt = {.vector_bytes = 64};
  struct tt_code_sizes sizes;
  struct tt_sb sb = {0};
  assert_null(tt_codegen_c(f.ar, &f.nest, &opt, &sizes, &sb));
  assert_true(sizes.workspace_bytes >= 3 * 36000);
  assert_true(sizes.workspace_bytes < 3 * 36000 + 3 * 64 + 1);
  assert_true(sizes.stack_bytes == 64);
  assert_non_null(strstr(sb.s, "#pragma omp parallel for"));
  assert_null(exec_compile(f.ar, "cc", "-fopenmp -Wall -Wextra -Werror", sb.s));
  tt_sb_free(&sb);
  check(&f);
}

/* ---- whole programs ------------------------------------------------------ */

/* Names that are keywords, types, functions, or equal but for dots. */
static void
test_identifiers(void **state)
{
  (void)state;
  static const char *const names[] = {"int",    "f32x16", "a.b",   "a_b",
                                      "9lives", "expf",   "k",     "min_f32",
                                      "double", "odd",    "size_t"};
  struct fix f;
  start(&f, "odd");
  struct tt_tensor *o = param(&f, "restrict", TT_OUTPUT, TT_F32, 1, DIMS(8));
  const struct tt_var *v = var(&f, "k", 8), *u = var(&f, "for", 1);
  const struct tt_expr *x = ref(&f, v);
  const struct tt_expr *sum = tt_flt(f.ar, TT_F32, 1);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    struct tt_tensor *a = param(&f, names[i], TT_INPUT, TT_F32, 1, DIMS(8));
    const struct tt_expr *l = load(&f, a, &x);
    sum = tt_binary(f.ar, i % 2 ? TT_MIN : TT_ADD, sum,
                    tt_call(f.ar, TT_FN_EXP, TT_F32, 1, &l));
  }
  (void)u;
  f.nest.body = vector(&f, v, 8, store(&f, o, &x, sum));
  check(&f);
}

/* Weights: prepare lays them out anew, the kernel reads the result. */
static void
make_weights(struct fix *f)
{
  start(f, "dense");
  struct tt_tensor *x = param(f, "X", TT_INPUT, TT_F32, 1, DIMS(6));
  struct tt_tensor *w = param(f, "W", TT_WEIGHT, TT_F32, 2, DIMS(6, 10));
  struct tt_tensor *b = param(f, "bias", TT_WEIGHT, TT_F32, 1, DIMS(10));
  struct tt_tensor *y = param(f, "Y", TT_OUTPUT, TT_F32, 1, DIMS(10));
  struct tt_tensor *wp = param(f, "W.p", TT_PREPARED, TT_F32, 2, DIMS(10, 6));
  struct tt_tensor *bp = param(f, "b.p", TT_PREPARED, TT_F32, 1, DIMS(10));
  struct tt_tensor *t = param(f, "t", TT_TEMP, TT_F32, 1, DIMS(10));
  const struct tt_var *o = var(f, "o", 10), *i = var(f, "i", 6);
  const struct tt_var *o2 = var(f, "o", 10), *i2 = var(f, "i", 6);
  const struct tt_var *o3 = var(f, "o", 10), *o4 = var(f, "o", 10);
  const struct tt_expr *eo = ref(f, o), *ei = ref(f, i);
  const struct tt_expr *eo2 = ref(f, o2), *ei2 = ref(f, i2);
  const struct tt_expr *eo3 = ref(f, o3), *eo4 = ref(f, o4);
  f->nest.prepare = seq2(
      f,
      serial(f, o,
             serial(f, i, store(f, wp, IDX(eo, ei), load(f, w, IDX(ei, eo))))),
      seq2(f, vector(f, o4, 4, store(f, t, &eo4, load(f, b, &eo4))),
           vector(f, o3, 4,
                  store(f, bp, &eo3,
                        tt_binary(f->ar, TT_MUL, load(f, t, &eo3),
                                  tt_flt(f->ar, TT_F32, 2))))));
  f->nest.body =
      serial(f, o2,
             seq2(f, store(f, y, &eo2, load(f, bp, &eo2)),
                  serial(f, i2,
                         store(f, y, &eo2,
                               tt_binary(f->ar, TT_ADD, load(f, y, &eo2),
                                         tt_binary(f->ar, TT_MUL,
                                                   load(f, wp, IDX(eo2, ei2)),
                                                   load(f, x, &ei2)))))));
  struct tt_tensor **prepared = TT_ARRAY(f->ar, struct tt_tensor *, 2);
  prepared[0] = wp;
  prepared[1] = bp;
  f->nest.nprepared = 2;
  f->nest.prepared = prepared;
  struct tt_tensor **temps = TT_ARRAY(f->ar, struct tt_tensor *, 1);
  temps[0] = t;
  f->nest.ntemps = 1;
  f->nest.temps = temps;
}

static void
test_weights(void **state)
{
  (void)state;
  struct fix f;
  make_weights(&f);
  check(&f);
}

/* A chain of temporaries needs the space of two. */
static void
test_liveness(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "chain");
  enum { N = 9 };
  struct tt_tensor *prev = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(64));
  const struct tt_stmt *items[N + 1];
  for (int i = 0; i <= N; i++) {
    struct tt_tensor *t =
        param(&f, i < N ? tt_arena_printf(f.ar, "t%d", i) : "O",
              i < N ? TT_TEMP : TT_OUTPUT, TT_F32, 1, DIMS(64));
    const struct tt_var *v = var(&f, "x", 64);
    const struct tt_expr *x = ref(&f, v);
    items[i] = vector(&f, v, 16,
                      store(&f, t, &x,
                            tt_binary(f.ar, TT_ADD, load(&f, prev, &x),
                                      tt_flt(f.ar, TT_F32, 1))));
    prev = t;
  }
  f.nest.body = tt_seq(f.ar, N + 1, items);
  struct tt_codegen_options o = {.vector_bytes = 64};
  struct tt_code_sizes sizes;
  struct tt_sb sb = {0};
  assert_null(tt_codegen_c(f.ar, &f.nest, &o, &sizes, &sb));
  assert_int_equal(sizes.workspace_bytes, 2 * 256);
  tt_sb_free(&sb);
  check(&f);
}

static void
test_limits(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "big");
  int64_t n = 30000;
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, &n);
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, &n);
  struct tt_tensor *t = param(&f, "T", TT_TEMP, TT_F32, 2, DIMS(1000, 1000));
  const struct tt_var *v = var(&f, "x", n);
  const struct tt_expr *x = ref(&f, v);
  f.nest.body =
      tt_for(f.ar, TT_UNROLL, 1, v, store(&f, o, &x, load(&f, a, &x)));
  struct tt_codegen_options opt = {.vector_bytes = 64,
                                   .workspace = TT_WS_STACK};
  struct tt_code_sizes sizes;
  struct tt_sb sb = {0};
  const char *error = tt_codegen_c(f.ar, &f.nest, &opt, &sizes, &sb);
  assert_non_null(error);
  assert_non_null(strstr(error, "unroll"));
  assert_int_equal(sb.len, 0);
  const struct tt_expr *zero = tt_idx(f.ar, 0);
  f.nest.body = seq2(&f, store(&f, t, IDX(zero, zero), tt_flt(f.ar, TT_F32, 0)),
                     store(&f, o, &zero, load(&f, t, IDX(zero, zero))));
  error = tt_codegen_c(f.ar, &f.nest, &opt, &sizes, &sb);
  assert_non_null(error);
  assert_non_null(strstr(error, "stack"));
  tt_sb_free(&sb);
  tt_arena_free(f.ar);
}

/* ---- the matrix product -------------------------------------------------- */

static struct tt_schedule *
make_product(struct fix *f, int64_t n, bool tuned)
{
  start(f, "matmul");
  struct tt_tensor *a = param(f, "A", TT_INPUT, TT_F32, 2, DIMS(n, n));
  struct tt_tensor *b = param(f, "B", TT_INPUT, TT_F32, 2, DIMS(n, n));
  struct tt_tensor *c = param(f, "C", TT_OUTPUT, TT_F32, 2, DIMS(n, n));
  const struct tt_var *y = tt_program_var(f->p, "y", n);
  const struct tt_var *x = tt_program_var(f->p, "x", n);
  const struct tt_var *k = tt_program_var(f->p, "k", n);
  tt_program_stage(f->p, c, (const struct tt_var *[]){y, x}, TT_RED_SUM, 1, &k,
                   tt_binary(f->ar, TT_MUL,
                             load(f, a, IDX(ref(f, k), ref(f, y))),
                             load(f, b, IDX(ref(f, k), ref(f, x)))),
                   NULL);
  struct tt_schedule *s = tt_schedule_new(f->ar, f->p, false);
  if (!tuned)
    return s;
#define L(name) tt_find_loop(s, 0, name)
  tt_split(s, 0, L("x"), 32, "xr", TT_TAIL_PEEL);
  tt_split(s, 0, L("k"), 16, "k1", TT_TAIL_PEEL);
  tt_split(s, 0, L("y"), 3, "yr", TT_TAIL_PEEL);
  int order[] = {L("x"), L("k"), L("y"), L("k1"), L("yr"), L("xr")};
  assert_true(tt_reorder(s, 0, 6, order));
  assert_true(tt_cache_write(s, 0, L("y")));
  int layout[] = {L("k1"), L("xr")};
  assert_true(tt_cache_read(s, 0, b, L("k"), 2, layout, 16, "Bp"));
  assert_true(tt_unroll(s, 0, L("yr")));
  assert_true(tt_vectorize(s, 0, L("xr"), 16));
#undef L
  return s;
}

static void
lower(struct fix *f, const struct tt_schedule *s)
{
  const char *error = NULL;
  if (!tt_schedule_lower(f->ar, s, &f->nest, &error))
    fail_msg("%s", error);
}

static void
test_product(void **state)
{
  (void)state;
  static const int64_t sizes[] = {1, 5, 16, 37};
  for (int i = 0; i < 4; i++) {
    struct fix f;
    lower(&f, make_product(&f, sizes[i], sizes[i] > 5));
    check(&f);
  }
}

/* ---- golden texts -------------------------------------------------------- */

static void
golden(const char *name, const char *text)
{
  const char *dir = getenv("abs_top_srcdir");
  struct tt_sb path = {0}, was = {0};
  tt_sb_printf(&path, "%s/tests/golden/%s", dir ? dir : ".", name);
  const char *update = getenv("UPDATE_GOLDEN");
  if (update && *update) {
    FILE *f = fopen(path.s, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
  }
  FILE *f = fopen(path.s, "r");
  if (!f)
    fail_msg("%s is missing", path.s);
  char buf[4096];
  for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;)
    tt_sb_addn(&was, buf, n);
  fclose(f);
  assert_string_equal(tt_sb_str(&was), text);
  tt_sb_free(&path);
  tt_sb_free(&was);
}

static bool
works(const char *cc)
{
  struct tt_arena *ar = tt_arena_new();
  bool ok = !exec_compile(ar, cc, "", "int x;");
  tt_arena_free(ar);
  return ok;
}

/* Also: no warning by either compiler, and twice the same bytes. */
static void
golden_c(struct fix *f, const char *name, struct tt_codegen_options o)
{
  struct tt_sb a = {0}, b = {0};
  struct tt_code_sizes sizes;
  const char *error = tt_codegen_c(f->ar, &f->nest, &o, &sizes, &a);
  if (error)
    fail_msg("%s: %s", name, error);
  assert_null(tt_codegen_c(f->ar, &f->nest, &o, &sizes, &b));
  assert_string_equal(a.s, b.s);
  golden(name, a.s);
  const char *flags = o.vector_bytes == 0
                          ? "-std=c99 -pedantic -Wall -Wextra -Werror -O2"
                          : "-std=gnu11 -Wall -Wextra -Werror -O2";
  static const char *const compilers[] = {"gcc", "clang"};
  for (int i = 0; i < 2; i++) {
    error = works(compilers[i]) ? exec_compile(f->ar, compilers[i], flags, a.s)
                                : NULL;
    if (error)
      fail_msg("%s", error);
  }
  tt_sb_free(&a);
  tt_sb_free(&b);
}

static void
test_golden_product(void **state)
{
  (void)state;
  struct fix f;
  lower(&f, make_product(&f, 64, true));
  golden_c(&f, "matmul.c",
           (struct tt_codegen_options){.vector_bytes = 64,
                                       .workspace = TT_WS_STATIC});
  golden_c(&f, "matmul_none.c",
           (struct tt_codegen_options){.workspace = TT_WS_ARG});
  tt_arena_free(f.ar);
}

static void
test_golden_weights(void **state)
{
  (void)state;
  struct fix f;
  make_weights(&f);
  golden_c(
      &f, "dense.c",
      (struct tt_codegen_options){.vector_bytes = 16, .workspace = TT_WS_ARG});
  golden_c(&f, "dense_static.c", (struct tt_codegen_options){.c99 = true});
  tt_arena_free(f.ar);
}

/* The header, the test and the benchmark; the test must also be able to
 * fail. */
static void
link_and_run(struct fix *f, const char *kernel, const char *program, int status)
{
  char dir[] = "/tmp/tt-link-XXXXXX";
  assert_non_null(mkdtemp(dir));
  const char *names[2] = {"k.c", "t.c"}, *texts[2] = {kernel, program};
  for (int i = 0; i < 2; i++) {
    FILE *o = fopen(tt_arena_printf(f->ar, "%s/%s", dir, names[i]), "w");
    assert_non_null(o);
    fputs(texts[i], o);
    fclose(o);
  }
  const char *build = tt_arena_printf(
      f->ar,
      "cd %s && cc -std=c99 -pedantic -Wall -Wextra -Werror -O1 t.c -c && "
      "cc -std=gnu11 -O1 -w k.c t.o -o t -lm",
      dir);
  assert_int_equal(system(build), 0);
  int rc = system(tt_arena_printf(f->ar, "cd %s && ./t > out", dir));
  assert_true(WIFEXITED(rc));
  assert_int_equal(WEXITSTATUS(rc), status);
  assert_int_equal(system(tt_arena_printf(f->ar, "rm -r %s", dir)), 0);
}

static void
test_programs(void **state)
{
  (void)state;
  for (int arg = 0; arg < 2; arg++) {
    struct fix f;
    make_weights(&f);
    struct tt_codegen_options o = {.vector_bytes = 16,
                                   .workspace = arg ? TT_WS_ARG : TT_WS_STATIC};
    struct tt_code_sizes sizes;
    struct tt_sb k = {0}, h = {0}, t = {0}, b = {0};
    assert_null(tt_codegen_c(f.ar, &f.nest, &o, &sizes, &k));
    tt_codegen_header(f.p, &o, &sizes, &h);
    assert_null(tt_codegen_test(f.ar, f.p, &f.nest, &o, &sizes, &t));
    assert_null(tt_codegen_bench(f.ar, f.p, &f.nest, &o, &sizes, &b));
    if (arg) {
      golden("dense.h", h.s);
      golden("dense_test.c", t.s);
      golden("dense_bench.c", b.s);
    }
    /* The header goes with the kernel. */
    tt_sb_add(&h, k.s);
    assert_null(exec_compile(f.ar, "cc", "-Wall -Wextra -Werror", h.s));
    link_and_run(&f, k.s, t.s, 0);
    link_and_run(&f, k.s, b.s, 0);
    char *wrong = strstr(k.s, "Y[o] = ");
    assert_non_null(wrong);
    memcpy(wrong, "Y[o] =1", 7); /* Y[o] =1 b_p[o] does not compile ... */
    char *rest = strchr(wrong + 7, ';');
    memset(wrong + 7, ' ', (size_t)(rest - wrong) - 7);
    link_and_run(&f, k.s, t.s, 1);
    tt_sb_free(&k);
    tt_sb_free(&h);
    tt_sb_free(&t);
    tt_sb_free(&b);
    tt_arena_free(f.ar);
  }
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
      cmocka_unit_test(test_arithmetic),
      cmocka_unit_test(test_conversions),
      cmocka_unit_test(test_builtins),
      cmocka_unit_test(test_index_values),
      cmocka_unit_test(test_bools),
      cmocka_unit_test(test_constants),
      cmocka_unit_test(test_extents),
      cmocka_unit_test(test_long_loop),
      cmocka_unit_test(test_strides),
      cmocka_unit_test(test_spread),
      cmocka_unit_test(test_dependence),
      cmocka_unit_test(test_vector_reduction),
      cmocka_unit_test(test_padding),
      cmocka_unit_test(test_guard),
      cmocka_unit_test(test_private_sum),
      cmocka_unit_test(test_mixed_tile),
      cmocka_unit_test(test_not_registers),
      cmocka_unit_test(test_names_and_stores),
      cmocka_unit_test(test_parallel),
      cmocka_unit_test(test_identifiers),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_liveness),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_product),
      cmocka_unit_test(test_golden_product),
      cmocka_unit_test(test_golden_weights),
      cmocka_unit_test(test_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
