/* Vectors of narrow types: conversions from and to 16-bit floats, saturation,
 * min and max, bit by bit as scalars have them, whatever instructions the
 * compiler may use; sums of products of narrow integers.
 *
 * CC names the compiler.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "tests/nest.h"

/* Sets of flags that choose other branches of the macros. */
static const char *const flags[] = {
    "-march=native",
#if defined(__x86_64__) && defined(__GNUC__)
    "-march=native -mno-avx512f -mno-avx512vnni",
    "",
#endif
};
enum { NFLAGS = sizeof flags / sizeof *flags, NWIDTHS = 4 };
static const int widths[NWIDTHS] = {0, 16, 32, 64};

static const char *
compiler(void)
{
  const char *cc = getenv("CC");
  return cc && *cc ? cc : "cc";
}

/* ---- conversions --------------------------------------------------------- */

enum { ALL = 65536, N = 4 * ALL };

/* Inputs, and what each kernel makes of them. */
struct in {
  uint16_t half[ALL]; /* every bit pattern */
  uint32_t z[N], w[N];
};
enum { S8, U8, S16, U16, NSATS };
struct out {
  uint32_t up[2][ALL]; /* f16, bf16 */
  uint16_t down[2][N];
  uint16_t twice[2][ALL]; /* x + x */
  uint32_t max[N], min[N];
  int16_t sat[NSATS][N];
};

static const enum tt_dtype halves[2] = {TT_F16, TT_BF16};
static const enum tt_dtype sats[NSATS] = {TT_I8, TT_U8, TT_I16, TT_U16};

static const struct tt_stmt *
loop(struct fix *f, const struct tt_tensor *out, int width,
     const struct tt_expr *(*value)(struct fix *, const struct tt_expr *i,
                                    const void *),
     const void *ctx)
{
  const struct tt_var *v = var(f, "i", out->dims[0]);
  const struct tt_expr *i = ref(f, v);
  const struct tt_stmt *body = store(f, out, &i, value(f, i, ctx));
  return width ? vector(f, v, width / 4, body) : serial(f, v, body);
}

struct value {
  const struct tt_tensor *x, *y;
  enum tt_dtype to;
  enum tt_binop op;
  bool sat;
};

static const struct tt_expr *
value_of(struct fix *f, const struct tt_expr *i, const void *ctx)
{
  const struct value *v = ctx;
  const struct tt_expr *x = load(f, v->x, &i);
  if (v->y)
    x = tt_binary(f->ar, v->op, x, load(f, v->y, &i));
  return v->sat ? tt_sat(f->ar, v->to, x) : tt_cast(f->ar, v->to, x);
}

/* The kernel's parameters: z, w, both halves, then the outputs in the order
 * of struct out (but i8 and u8 have outputs of their own). */
static void
print_kernel(int width, struct tt_sb *text)
{
  struct fix f;
  const struct tt_stmt *loops[16];
  int n = 0;
  start(&f, "narrow");
  const int64_t all[1] = {ALL}, many[1] = {N};
  struct tt_tensor *z = param(&f, "Z", TT_INPUT, TT_F32, 1, many);
  struct tt_tensor *w = param(&f, "W", TT_INPUT, TT_F32, 1, many);
  struct tt_tensor *h[2];
  for (int k = 0; k < 2; k++)
    h[k] = param(&f, k ? "B" : "H", TT_INPUT, halves[k], 1, all);
  for (int k = 0; k < 2; k++)
    loops[n++] =
        loop(&f, param(&f, k ? "UpB" : "UpH", TT_OUTPUT, TT_F32, 1, all), width,
             value_of, &(struct value){h[k], NULL, TT_F32, 0, false});
  for (int k = 0; k < 2; k++)
    loops[n++] = loop(
        &f, param(&f, k ? "DownB" : "DownH", TT_OUTPUT, halves[k], 1, many),
        width, value_of, &(struct value){z, NULL, halves[k], 0, false});
  for (int k = 0; k < 2; k++)
    loops[n++] = loop(
        &f, param(&f, k ? "TwoB" : "TwoH", TT_OUTPUT, halves[k], 1, all), width,
        value_of, &(struct value){h[k], h[k], halves[k], TT_ADD, 0});
  for (int k = 0; k < 2; k++)
    loops[n++] = loop(
        &f, param(&f, k ? "Min" : "Max", TT_OUTPUT, TT_F32, 1, many), width,
        value_of, &(struct value){z, w, TT_F32, k ? TT_MIN : TT_MAX, 0});
  for (int k = 0; k < NSATS; k++)
    loops[n++] = loop(
        &f,
        param(&f, tt_arena_printf(f.ar, "S%d", k), TT_OUTPUT, sats[k], 1, many),
        width, value_of, &(struct value){z, NULL, sats[k], 0, true});
  f.nest.body = tt_seq(f.ar, n, loops);
  struct tt_codegen_options o = {.vector_bytes = width ? width : 64,
                                 .entry = true};
  struct tt_code_sizes sizes;
  const char *error = tt_codegen_c(f.ar, &f.nest, &o, &sizes, text);
  if (error)
    fail_msg("%s", error);
  tt_arena_free(f.ar);
}

typedef void entry_fn(void **args, int what);

/* Prints, compiles, loads; leaves no file. */
static void *
build(int width, const char *with, entry_fn **entry)
{
  char dir[] = "/tmp/narrowXXXXXX";
  struct tt_sb text = {0}, cmd = {0};
  char path[64], so[64];
  print_kernel(width, &text);
  assert_non_null(mkdtemp(dir));
  snprintf(path, sizeof path, "%s/k.c", dir);
  snprintf(so, sizeof so, "%s/k.so", dir);
  FILE *f = fopen(path, "w");
  assert_non_null(f);
  fputs(tt_sb_str(&text), f);
  assert_int_equal(fclose(f), 0);
  tt_sb_printf(&cmd,
               "%s -std=gnu11 -O1 %s -Wall -Wextra -Werror -fPIC -shared "
               "-o %s %s",
               compiler(), with, so, path);
  bool compiled = system(tt_sb_str(&cmd)) == 0;
  void *lib = compiled ? dlopen(so, RTLD_NOW) : NULL;
  unlink(path);
  unlink(so);
  rmdir(dir);
  if (!lib)
    fail_msg("%s", compiled ? dlerror() : tt_sb_str(&cmd));
  *(void **)entry = dlsym(lib, "narrow_entry");
  assert_non_null(*entry);
  tt_sb_free(&text);
  tt_sb_free(&cmd);
  return lib;
}

static void
run(entry_fn *entry, struct in *in, struct out *out)
{
  int8_t *bytes = malloc(2 * N);
  void *args[24] = {in->z,         in->w,         in->half,     in->half,
                    out->up[0],    out->up[1],    out->down[0], out->down[1],
                    out->twice[0], out->twice[1], out->max,     out->min,
                    bytes,         bytes + N,     out->sat[2],  out->sat[3]};
  assert_non_null(bytes);
  entry(args, 1);
  for (int i = 0; i < N; i++) {
    out->sat[S8][i] = bytes[i];
    out->sat[U8][i] = (uint8_t)bytes[N + i];
  }
  free(bytes);
}

static float
float_of(uint32_t bits)
{
  float f;
  memcpy(&f, &bits, sizeof f);
  return f;
}

static uint32_t
bits_of(float f)
{
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

/* Every bf16 and its neighbours as f32, the middles between f16 values and
 * their neighbours, numbers around the ends of integer types, and random
 * bits. */
static void
make_inputs(struct in *in)
{
  uint64_t seed = 1;
  for (int i = 0; i < ALL; i++) {
    in->half[i] = (uint16_t)i;
    uint32_t middle = bits_of((float)(tt_f16_to_f64((uint16_t)i) / 2 +
                                      tt_f16_to_f64((uint16_t)(i + 1)) / 2));
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    in->z[4 * i] = (uint32_t)i << 16 | (seed >> 33 & 1 ? 0x8000 : 0);
    in->z[4 * i + 1] = in->z[4 * i] + (seed >> 34 & 1 ? 1u : -1u);
    in->z[4 * i + 2] = middle + (uint32_t)(seed >> 40) % 3 - 1;
    in->z[4 * i + 3] = seed >> 62 ? (uint32_t)(seed >> 20)
                                  : bits_of((float)(i - 32768) * 2.03125f);
  }
  for (int i = 0; i < N; i++) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    in->w[i] = seed >> 61 == 0   ? in->z[i] ^ 0x80000000u
               : seed >> 61 == 1 ? 0x7fc00000u
               : seed >> 61 == 2 ? in->z[(i * 7 + 1) % N]
                                 : (uint32_t)(seed >> 20);
  }
}

/* The scalar kernel against what the interpreter computes with. */
static void
check_scalars(const struct in *in, const struct out *o)
{
  for (int i = 0; i < ALL; i++) {
    double h = tt_f16_to_f64((uint16_t)i);
    float b = tt_bf16_to_f32((uint16_t)i);
    float x = float_of(o->up[0][i]), y = float_of(o->up[1][i]);
    if (!(isnan(h) ? isnan(x) : x == h && !signbit(x) == !signbit(h)))
      fail_msg("f16 %04x is %g", (unsigned)i, x);
    if (!(isnan(b) ? isnan(y) : y == b && !signbit(y) == !signbit(b)))
      fail_msg("bf16 %04x is %g", (unsigned)i, y);
  }
  for (int i = 0; i < N; i++) {
    float z = float_of(in->z[i]), w = float_of(in->w[i]);
    uint16_t h = tt_f64_to_f16(z), b = tt_f32_to_bf16(z);
    if (isnan(z) ? !isnan(tt_f16_to_f64(o->down[0][i])) : h != o->down[0][i])
      fail_msg("%a as f16 is %04x", z, o->down[0][i]);
    if (b != o->down[1][i])
      fail_msg("%a as bf16 is %04x", z, o->down[1][i]);
    assert_int_equal(o->max[i], bits_of(z > w ? z : w));
    assert_int_equal(o->min[i], bits_of(z < w ? z : w));
    for (int k = 0; k < NSATS; k++) {
      int64_t s = tt_saturate(sats[k], tt_f2i(z));
      if (s != (k == U16 ? (uint16_t)o->sat[k][i] : o->sat[k][i]))
        fail_msg("%a as %s is %d", z, tt_dtype_name(sats[k]), o->sat[k][i]);
    }
  }
}

static bool
has_f16(void)
{
  char cmd[256];
  snprintf(cmd, sizeof cmd,
           "echo 'float f(_Float16 x) { return (float)x; }' | %s -w -x c -c "
           "-o /dev/null - 2>/dev/null",
           compiler());
  return system(cmd) == 0;
}

static void
conversions_are_exact(void **state)
{
  (void)state;
  struct in *in = malloc(sizeof *in);
  struct out *scalar = calloc(1, sizeof *scalar);
  struct out *vectors = calloc(1, sizeof *vectors);
  assert_true(in && scalar && vectors);
  if (!has_f16()) {
    print_message("the compiler has no _Float16\n");
    skip();
  }
  make_inputs(in);
  for (int k = 0; k < NFLAGS; k++)
    for (int w = 0; w < NWIDTHS; w++) {
      entry_fn *entry;
      void *lib = build(widths[w], flags[k], &entry);
      struct out *o = widths[w] ? vectors : scalar;
      memset(o, 0xa5, sizeof *o);
      run(entry, in, o);
      dlclose(lib);
      if (!widths[w])
        check_scalars(in, o);
      else if (memcmp(scalar, vectors, sizeof *o) != 0)
        fail_msg("vectors of %d bytes differ with %s", widths[w], flags[k]);
    }
  free(in);
  free(scalar);
  free(vectors);
}

/* ---- sums of products ---------------------------------------------------- */

struct dots {
  uint64_t seed;
  int n, groups, rows, vectors, lanes;
  int64_t add[2], stride; /* of the scalar factor's neighbours */
  enum tt_dtype type[2];
  bool both, swapped, minus; /* two vectors; the order of factors */
  enum { NEIGHBOURS, BACKWARDS, ROWS, NLAYOUTS } layout; /* of B */
  enum tt_dtype sum;
};

static uint64_t
draw(struct dots *d, uint64_t n)
{
  d->seed = d->seed * 6364136223846793005u + 1442695040888963407u;
  return (d->seed >> 33) % n;
}

static void
draw_dots(struct dots *d)
{
  static const enum tt_dtype types[] = {TT_I8, TT_U8, TT_I8, TT_I16};
  static const int ns[] = {4, 4, 2, 3, 8};
  static const int64_t adds[] = {0, 0, 128, -128, 5, -3};
  d->n = ns[draw(d, 5)];
  d->groups = 1 + (int)draw(d, 5);
  d->rows = 1 + (int)draw(d, 3);
  d->vectors = 1 + (int)draw(d, 3);
  d->lanes = 4 << draw(d, 3);
  d->stride = draw(d, 4) ? 1 : 3;
  d->both = draw(d, 4) == 0;
  d->swapped = draw(d, 2);
  d->minus = draw(d, 2);
  d->layout = draw(d, 2) ? NEIGHBOURS : draw(d, NLAYOUTS);
  d->sum = draw(d, 3) ? TT_I32 : TT_I64;
  for (int k = 0; k < 2; k++) {
    d->type[k] = types[draw(d, 4)];
    d->add[k] = adds[draw(d, 6)];
    if (d->type[k] == TT_U8 && d->add[k] > 0)
      d->add[k] = -128;
    if (d->type[k] == TT_I16)
      d->add[k] = 0;
  }
}

/* Do the factors fit, as the code generator is to find? */
static int
expected(const struct dots *d)
{
  bool bytes = d->n % 4 == 0;
  for (int k = 0; k < 2; k++) {
    int64_t lo = tt_dtype_min(d->type[k]) + d->add[k];
    int64_t hi = tt_dtype_max(d->type[k]) + d->add[k];
    bytes = bytes && d->type[k] != TT_I16 &&
            ((lo >= INT8_MIN && hi <= INT8_MAX) || (lo >= 0 && hi <= 255));
  }
  if (d->layout == ROWS || d->sum == TT_I64)
    return 0;
  return bytes && d->n == 4 ? 4 : d->n == 2 ? 2 : 0;
}

static const struct tt_expr *
factor(struct fix *f, const struct tt_expr *x, int64_t add, bool minus)
{
  x = tt_cast(f->ar, TT_I32, x);
  if (!add)
    return x;
  return minus ? tt_binary(f->ar, TT_SUB, x, tt_int(f->ar, TT_I32, -add))
               : tt_binary(f->ar, TT_ADD, x, tt_int(f->ar, TT_I32, add));
}

/* C[r, x] = sum over k and j of (A[...] + a) * (B[k, x, j] + b), where A is
 * the same for all x, or another B. */
static void
make_dots(struct fix *f, const struct dots *d)
{
  start(f, "dots");
  int64_t width = (int64_t)d->lanes * d->vectors;
  struct tt_tensor *a =
      d->both ? param(f, "A", TT_INPUT, d->type[0], 4,
                      DIMS(d->rows, d->groups, width, d->n))
              : param(f, "A", TT_INPUT, d->type[0], 2,
                      DIMS(d->rows, d->groups * d->n * d->stride));
  bool rows = d->layout == ROWS;
  struct tt_tensor *b =
      param(f, "B", TT_INPUT, d->type[1], 3,
            rows ? DIMS(d->groups, d->n, width) : DIMS(d->groups, width, d->n));
  struct tt_tensor *c =
      param(f, "C", TT_OUTPUT, d->sum, 2, DIMS(d->rows, width));
  struct tt_tensor *acc =
      local(f, "acc", TT_REGISTER, d->sum, 2, DIMS(d->rows, width));
  const struct tt_var *k = var(f, "k", d->groups), *j = var(f, "j", d->n);
  const struct tt_var *r[3], *x[3];
  const struct tt_expr *er[3], *ex[3];
  for (int i = 0; i < 3; i++) {
    r[i] = var(f, "r", d->rows);
    x[i] = var(f, "x", width);
    er[i] = ref(f, r[i]);
    ex[i] = ref(f, x[i]);
  }
  const struct tt_expr *ek = ref(f, k), *ej = ref(f, j);
  const struct tt_expr *at =
      tt_imul(f->ar, tt_iadd(f->ar, tt_imul(f->ar, ek, d->n), ej), d->stride);
  const struct tt_expr *p =
      factor(f,
             d->both ? load(f, a, IDX(er[1], ek, ex[1], ej))
                     : load(f, a, IDX(er[1], at)),
             d->add[0], d->minus);
  const struct tt_expr *back = tt_isub(f->ar, tt_idx(f->ar, d->n - 1), ej);
  const struct tt_expr *q = load(f, b,
                                 rows                     ? IDX(ek, ej, ex[1])
                                 : d->layout == BACKWARDS ? IDX(ek, ex[1], back)
                                                          : IDX(ek, ex[1], ej));
  q = factor(f, q, d->add[1], d->minus);
  const struct tt_expr *product =
      tt_binary(f->ar, TT_MUL, d->swapped ? q : p, d->swapped ? p : q);
  if (d->sum == TT_I64)
    product = tt_cast(f->ar, TT_I64, product);
  const struct tt_stmt *init = tt_for(
      f->ar, TT_UNROLL, 1, r[0],
      vector(f, x[0], d->lanes,
             store(f, acc, IDX(er[0], ex[0]), tt_int(f->ar, d->sum, 7))));
  const struct tt_stmt *step =
      vector(f, x[1], d->lanes,
             store(f, acc, IDX(er[1], ex[1]),
                   tt_binary(f->ar, TT_ADD, load(f, acc, IDX(er[1], ex[1])),
                             product)));
  const struct tt_stmt *sum = serial(
      f, k,
      tt_for(f->ar, TT_UNROLL, 1, j, tt_for(f->ar, TT_UNROLL, 1, r[1], step)));
  const struct tt_stmt *end = tt_for(
      f->ar, TT_UNROLL, 1, r[2],
      vector(f, x[2], d->lanes,
             store(f, c, IDX(er[2], ex[2]), load(f, acc, IDX(er[2], ex[2])))));
  f->nest.body = tt_alloc_stmt(f->ar, acc, seq2(f, init, seq2(f, sum, end)));
}

static bool
contains(struct fix *f, const char *word)
{
  struct tt_codegen_options o = {.vector_bytes = 64};
  struct tt_code_sizes sizes;
  struct tt_sb sb = {0};
  const char *error = tt_codegen_c(f->ar, &f->nest, &o, &sizes, &sb);
  assert_null(error);
  bool found = strstr(tt_sb_str(&sb), word) != NULL;
  tt_sb_free(&sb);
  return found;
}

/* All shapes give what the interpreter does, under all sets of flags; those
 * that fit become groups. */
static void
products_are_summed(void **state)
{
  (void)state;
  char *cc = strdup(compiler()), with[512];
  const char *count = getenv("TT_RANDOM_COUNT");
  int n = count ? atoi(count) : 36, grouped = 0;
  for (int i = 0; i < n; i++) {
    struct dots d = {.seed = 77 + (uint64_t)i};
    struct fix f;
    draw(&d, 2);
    draw_dots(&d);
    make_dots(&f, &d);
    int want = expected(&d);
    snprintf(with, sizeof with, "%s %s", cc, flags[i % NFLAGS]);
    setenv("CC", with, 1);
    grouped += contains(&f, "dot4_i32x") || contains(&f, "dot2_i32x");
    if (want) {
      if (!contains(&f, want == 4 ? "dot4_i32x" : "dot2_i32x"))
        fail_msg("shape %d has no groups of %d", i, want);
    }
    check_nest(&f);
  }
  setenv("CC", cc, 1);
  free(cc);
  assert_true(grouped * 2 >= n || n < 10);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(conversions_are_exact),
      cmocka_unit_test(products_are_summed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
