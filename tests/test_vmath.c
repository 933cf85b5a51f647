/* The functions of codegen/vmath.c: errors against a wider libm, special
 * values, the same bits whatever the width.
 *
 * The kernel is printed as for a user, compiled with several sets of flags
 * and loaded.  Of the bit patterns of f32 one in 4099 is tried; with
 * TT_EXHAUSTIVE=1 all are, which takes half an hour; there the kernel for f64
 * serves as the reference, itself tested against long double.  CC names the
 * compiler, TT_VERBOSE=1 prints the largest errors.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"

enum { N = 4096, NFNS = 6, NWIDTHS = 4 };

static const enum tt_fn fns[NFNS] = {TT_FN_EXP,  TT_FN_LOG,     TT_FN_RSQRT,
                                     TT_FN_TANH, TT_FN_SIGMOID, TT_FN_ERF};
/* Bytes of a vector; the first kernel calls the scalar form. */
static const int widths[NWIDTHS] = {0, 16, 32, 64};

typedef void kernel(const void *x, void *, void *, void *, void *, void *,
                    void *);

struct built {
  char dir[32];
  void *lib[NWIDTHS];
  kernel *run[NWIDTHS];
  double bound[NFNS]; /* as stated in the text */
};

/* ---- kernels ------------------------------------------------------------ */

/* Y_f[i] = f(X[i]) for all functions. */
static void
print_kernel(enum tt_dtype t, int width, struct tt_sb *out)
{
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_program_new(ar, "vmath");
  struct tt_nest nest = {.program = p};
  const int64_t dims[1] = {N};
  const struct tt_tensor *x = tt_program_tensor(p, "X", TT_INPUT, t, 1, dims);
  const struct tt_stmt *loops[NFNS];
  int lanes = width / tt_dtype_bytes(t);
  for (int k = 0; k < NFNS; k++) {
    const char *name = tt_arena_printf(ar, "Y_%s", tt_fn_name(fns[k]));
    const struct tt_tensor *y =
        tt_program_tensor(p, name, TT_OUTPUT, t, 1, dims);
    struct tt_var *v = TT_NEW(ar, struct tt_var);
    *v = (struct tt_var){.name = "i", .extent = N, .id = k};
    const struct tt_expr *i = tt_var_ref(ar, v), *a = tt_load(ar, x, 1, &i);
    const struct tt_expr *value = tt_call(ar, fns[k], t, 1, &a);
    loops[k] = tt_for(ar, width ? TT_VECTOR : TT_SERIAL, width ? lanes : 1, v,
                      tt_store(ar, y, 1, &i, value));
  }
  nest.body = tt_seq(ar, NFNS, loops);
  struct tt_codegen_options o = {.vector_bytes = width ? width : 64,
                                 .workspace = TT_WS_STATIC};
  struct tt_code_sizes sizes;
  const char *error = tt_codegen_c(ar, &nest, &o, &sizes, out);
  if (error)
    fail_msg("%s", error);
  tt_arena_free(ar);
}

static void
build_one(struct built *b, int w, enum tt_dtype t, const char *cc,
          const char *flags)
{
  struct tt_sb text = {0}, cmd = {0};
  char path[64], so[64];
  print_kernel(t, widths[w], &text);
  snprintf(path, sizeof path, "%s/%d.c", b->dir, w);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(tt_sb_str(&text), f);
  assert_int_equal(fclose(f), 0);
  for (int k = 0; k < NFNS; k++) {
    char say[32];
    snprintf(say, sizeof say, "/* %s(*v), within ", tt_fn_name(fns[k]));
    const char *at = strstr(tt_sb_str(&text), say);
    assert_non_null(at);
    b->bound[k] = strtod(at + strlen(say), NULL);
    assert_true(b->bound[k] > 0 && b->bound[k] <= 2);
  }
  tt_sb_printf(&cmd,
               "%s -std=gnu11 %s -Wall -Wextra -Werror -fPIC "
               "-shared -o %s/%d.so %s",
               cc, flags, b->dir, w, path);
  bool compiled = system(tt_sb_str(&cmd)) == 0;
  snprintf(so, sizeof so, "%s/%d.so", b->dir, w);
  b->lib[w] = compiled ? dlopen(so, RTLD_NOW) : NULL;
  unlink(path);
  unlink(so);
  if (!b->lib[w])
    rmdir(b->dir);
  if (!b->lib[w])
    fail_msg("%s", compiled ? dlerror() : tt_sb_str(&cmd));
  *(void **)&b->run[w] = dlsym(b->lib[w], "vmath");
  assert_non_null(b->run[w]);
  tt_sb_free(&text);
  tt_sb_free(&cmd);
}

/* Leaves no file, whatever fails. */
static void
build(struct built *b, enum tt_dtype t, const char *cc, const char *flags)
{
  memset(b, 0, sizeof *b);
  strcpy(b->dir, "/tmp/vmathXXXXXX");
  assert_non_null(mkdtemp(b->dir));
  for (int w = 0; w < NWIDTHS; w++)
    build_one(b, w, t, cc, flags);
  rmdir(b->dir);
}

static void
unbuild(struct built *b)
{
  for (int w = 0; w < NWIDTHS; w++)
    dlclose(b->lib[w]);
}

/* ---- what is right ------------------------------------------------------ */

static long double
exact(enum tt_fn fn, enum tt_dtype t, double x)
{
  bool d = t == TT_F64;
  switch ((int)fn) {
  case TT_FN_EXP:
    return d ? expl(x) : (long double)exp(x);
  case TT_FN_LOG:
    return d ? logl(x) : (long double)log(x);
  case TT_FN_RSQRT:
    return 1 / (d ? sqrtl(x) : (long double)sqrt(x));
  case TT_FN_TANH:
    return d ? tanhl(x) : (long double)tanh(x);
  case TT_FN_SIGMOID:
    return 1 / (1 + (d ? expl(-(long double)x) : (long double)exp(-x)));
  case TT_FN_ERF:
    return d ? erfl(x) : (long double)erf(x);
  }
  return 0;
}

/* The error in units of the last place of the exact value; infinite when it
 * is wrong in kind. */
static double
ulps(enum tt_dtype t, double got, long double want)
{
  int digits = t == TT_F64 ? DBL_MANT_DIG : FLT_MANT_DIG;
  int low = t == TT_F64 ? DBL_MIN_EXP : FLT_MIN_EXP, e;
  if (isnan(want) || isnan(got))
    return isnan(want) && isnan(got) ? 0 : INFINITY;
  if (want == 0 || isinf(want))
    return got == want && !signbit(got) == !signbit(want) ? 0 : INFINITY;
  long double over = ldexpl(1, t == TT_F64 ? DBL_MAX_EXP : FLT_MAX_EXP),
              g = got;
  if (isinf(got) && !signbit(got) == !signbit(want) && fabsl(want) >= over)
    return 0;
  if (isinf(got)) /* counts as the number after the largest one */
    g = copysignl(over, got);
  frexpl(want, &e);
  return (double)(fabsl(g - want) / ldexpl(1, (e > low ? e : low) - digits));
}

/* ---- runs --------------------------------------------------------------- */

union element {
  float f;
  double d;
  uint32_t u32;
  uint64_t u64;
};

struct block {
  enum tt_dtype type;
  void *x, *y[NWIDTHS][NFNS];
  /* Reference values: from a kernel for f64, or libm where there is none. */
  const struct built *wider;
  double *wide, *want[NFNS];
  double worst[NFNS], at[NFNS];
};

static void
block_new(struct block *b, enum tt_dtype t)
{
  size_t bytes = (size_t)N * (size_t)tt_dtype_bytes(t);
  memset(b, 0, sizeof *b);
  b->type = t;
  b->x = calloc(1, bytes);
  b->wide = calloc(N, sizeof(double));
  for (int k = 0; k < NFNS; k++) {
    b->want[k] = calloc(N, sizeof(double));
    for (int w = 0; w < NWIDTHS; w++)
      b->y[w][k] = calloc(1, bytes);
  }
}

static void
block_free(struct block *b)
{
  free(b->x);
  free(b->wide);
  for (int k = 0; k < NFNS; k++) {
    free(b->want[k]);
    for (int w = 0; w < NWIDTHS; w++)
      free(b->y[w][k]);
  }
}

static double
element(const struct block *b, const void *array, int i)
{
  return b->type == TT_F64 ? ((const double *)array)[i]
                           : (double)((const float *)array)[i];
}

static void
run(const struct built *lib, int w, const void *x, void *const *y)
{
  lib->run[w](x, y[0], y[1], y[2], y[3], y[4], y[5]);
}

/* ulps() for f32 in the common case. */
static double
quick_ulps(double got, double want)
{
  union element e = {.d = want};
  int exponent = (int)(e.u64 >> 52 & 0x7ff) - 1022;
  if (exponent < FLT_MIN_EXP)
    exponent = FLT_MIN_EXP;
  e.u64 = (uint64_t)(FLT_MANT_DIG - exponent + 1023) << 52;
  double error = fabs(got - want) * e.d;
  return error < 8 && want != 0 ? error : ulps(TT_F32, got, want);
}

static void
check_values(struct block *b, int k)
{
  for (int i = 0; i < N; i++) {
    double x = element(b, b->x, i), y = element(b, b->y[0][k], i);
    double error = b->wider ? quick_ulps(y, b->want[k][i])
                            : ulps(b->type, y, exact(fns[k], b->type, x));
    if (error > b->worst[k]) {
      b->worst[k] = error;
      b->at[k] = x;
    }
  }
}

/* NaNs are equal. */
static void
check_same(const struct block *b, int k, int w)
{
  size_t bytes = (size_t)N * (size_t)tt_dtype_bytes(b->type);
  if (memcmp(b->y[0][k], b->y[w][k], bytes) == 0)
    return;
  for (int i = 0; i < N; i++) {
    double y = element(b, b->y[0][k], i), z = element(b, b->y[w][k], i);
    if (!(isnan(y) && isnan(z)) && (y != z || !signbit(y) != !signbit(z)))
      fail_msg("%s(%a): %a, but %a in a vector of %d bytes", tt_fn_name(fns[k]),
               element(b, b->x, i), y, z, widths[w]);
  }
}

static void
check_block(const struct built *lib, struct block *b)
{
  for (int w = 0; w < NWIDTHS; w++)
    run(lib, w, b->x, b->y[w]);
  if (b->wider) {
    for (int i = 0; i < N; i++)
      b->wide[i] = element(b, b->x, i);
    run(b->wider, NWIDTHS - 1, b->wide, (void *const *)b->want);
  }
  for (int k = 0; k < NFNS; k++) {
    check_values(b, k);
    for (int w = 1; w < NWIDTHS; w++)
      check_same(b, k, w);
  }
}

static void
check_bounds(const struct built *lib, const struct block *b, const char *what)
{
  for (int k = 0; k < NFNS; k++) {
    if (getenv("TT_VERBOSE"))
      print_message("%s %s: %.3f ulp at %a\n", what, tt_fn_name(fns[k]),
                    b->worst[k], b->at[k]);
    if (b->worst[k] > lib->bound[k])
      fail_msg("%s: %s(%a) is %.3f ulp off, not %g", what, tt_fn_name(fns[k]),
               b->at[k], b->worst[k], lib->bound[k]);
  }
}

/* ---- inputs ------------------------------------------------------------- */

static void
try_f32(const char *cc, const char *flags)
{
  struct built lib, wider;
  struct block b;
  bool all = getenv("TT_EXHAUSTIVE") != NULL;
  uint64_t stride = all ? 1 : 4099, end = (uint64_t)1 << 32;
  build(&lib, TT_F32, cc, flags);
  block_new(&b, TT_F32);
  if (all) {
    build(&wider, TT_F64, cc, "-O3 -march=native");
    b.wider = &wider;
  }
  for (uint64_t bits = 0; bits < end; bits += stride * N) {
    for (uint64_t i = 0; i < N; i++)
      ((uint32_t *)b.x)[i] = (uint32_t)(bits + i * stride);
    check_block(&lib, &b);
  }
  check_bounds(&lib, &b, flags);
  block_free(&b);
  if (all)
    unbuild(&wider);
  unbuild(&lib);
}

static double
random_f64(uint64_t *state, int kind)
{
  static const double scales[] = {1, 8, 50, 750};
  union element e;
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  uint64_t bits = *state ^ *state >> 29;
  double unit = ldexp((double)(int64_t)bits, -63); /* -1..1 */
  if (kind < 4)
    return unit * scales[kind];
  if (kind == 4)
    return 1 + unit * 0.3;
  e.u64 = bits;
  return e.d;
}

static void
try_f64(const char *cc, const char *flags)
{
  static const double edges[] = {
      0,
      INFINITY,
      NAN,
      1,
      0x1p-1022,
      0x1p-1074,
      DBL_MAX,
      709.78,
      709.79,
      745.13,
      745.14,
      744.44,
      0.625,
      0.921875,
      6,
      20,
      40,
      0x1p-1023,
      0x1p-30,
      0.70710678118654752,
      0.34657359027997264,
  };
  enum { NEDGES = sizeof edges / sizeof *edges };
  if (LDBL_MANT_DIG < 64) /* nothing to compare with */
    skip();
  struct built lib;
  struct block b;
  uint64_t state = 1;
  int blocks = getenv("TT_EXHAUSTIVE") ? 6000 : 60;
  build(&lib, TT_F64, cc, flags);
  block_new(&b, TT_F64);
  for (int n = 0; n < blocks; n++) {
    double *x = b.x;
    for (int i = 0; i < N; i++)
      x[i] = random_f64(&state, n % 6);
    for (int i = 0; n == 0 && i < NEDGES; i++) {
      x[2 * i] = edges[i];
      x[2 * i + 1] = -edges[i];
    }
    check_block(&lib, &b);
  }
  check_bounds(&lib, &b, flags);
  block_free(&b);
  unbuild(&lib);
}

static const char *
compiler(void)
{
  const char *cc = getenv("CC");
  return cc && *cc ? cc : "cc";
}

static void
test_f32_native(void **state)
{
  (void)state;
  try_f32(compiler(), "-O3 -march=native");
}

/* Products and sums rounded one by one, with as wide vectors. */
static void
test_f32_uncontracted(void **state)
{
  (void)state;
  try_f32(compiler(), "-O3 -march=native -ffp-contract=off");
}

static void
test_f32_baseline(void **state)
{
  (void)state;
  try_f32(compiler(), "-O2");
}

static void
test_f64_native(void **state)
{
  (void)state;
  try_f64(compiler(), "-O3 -march=native");
}

static void
test_f64_baseline(void **state)
{
  (void)state;
  try_f64(compiler(), "-O2");
}

/* Flags that would break the functions are refused, not obeyed. */
static void
test_fast_math(void **state)
{
  (void)state;
  struct tt_sb text = {0}, cmd = {0};
  char path[] = "/tmp/vmathXXXXXX.c";
  print_kernel(TT_F32, 16, &text);
  int fd = mkstemps(path, 2);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text.s, text.len), text.len);
  close(fd);
  tt_sb_printf(&cmd, "%s -fsyntax-only %s", compiler(), path);
  int plain = system(tt_sb_str(&cmd));
  tt_sb_clear(&cmd);
  tt_sb_printf(&cmd, "%s -ffast-math -fsyntax-only %s 2>/dev/null", compiler(),
               path);
  int fast = system(tt_sb_str(&cmd));
  unlink(path);
  assert_int_equal(plain, 0);
  assert_int_not_equal(fast, 0);
  tt_sb_free(&text);
  tt_sb_free(&cmd);
}

/* The measure itself: 1 ulp is 1, a sign or a kind is not forgiven. */
static void
test_measure(void **state)
{
  (void)state;
  assert_true(ulps(TT_F32, 1 + 0x1p-23, 1) == 1);
  assert_true(ulps(TT_F32, 0, 0x1p-149L) == 1);
  assert_true(isinf(ulps(TT_F32, -0.0, 0)));
  assert_true(isinf(ulps(TT_F32, NAN, 1)));
  assert_true(ulps(TT_F32, INFINITY, 0x1p130L) == 0);
  assert_true(ulps(TT_F32, -INFINITY, 0x1p130L) > 1e6);
  assert_true(ulps(TT_F32, INFINITY, FLT_MAX) == 1);
  assert_true(ulps(TT_F32, FLT_MAX, 0x1p130L) > 2);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_measure),
      cmocka_unit_test(test_fast_math),
      cmocka_unit_test(test_f32_native),
      cmocka_unit_test(test_f32_baseline),
      cmocka_unit_test(test_f32_uncontracted),
      cmocka_unit_test(test_f64_native),
      cmocka_unit_test(test_f64_baseline),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
