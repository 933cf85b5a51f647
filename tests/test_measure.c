/* tuner/measure.c: schedules become times, whatever becomes of them on the
 * way; tolerances; the reference. */
#include "config.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "runtime/runner.h"
#include "tuner/measure.h"
#include "tuner/reference.h"
#include "tuner/tolerance.h"

/* ---- programs ---------------------------------------------------------- */

struct matmul {
  struct tt_program *p;
  struct tt_tensor *a, *b, *c;
};

/* C[y, x] = sum[k](A[y, k] * B[k, x]), in one type. */
static struct matmul
matmul(struct tt_arena *arena, enum tt_dtype type, int64_t n,
       enum tt_role b_role)
{
  struct matmul m;
  int64_t dims[2] = {n, n};
  m.p = tt_program_new(arena, "matmul");
  m.a = tt_program_tensor(m.p, "A", TT_INPUT, type, 2, dims);
  m.b = tt_program_tensor(m.p, "B", b_role, type, 2, dims);
  m.c = tt_program_tensor(m.p, "C", TT_OUTPUT, type, 2, dims);
  const struct tt_var *v[3] = {tt_program_var(m.p, "y", n),
                               tt_program_var(m.p, "x", n),
                               tt_program_var(m.p, "k", n)};
  const struct tt_expr *y = tt_var_ref(arena, v[0]);
  const struct tt_expr *x = tt_var_ref(arena, v[1]);
  const struct tt_expr *k = tt_var_ref(arena, v[2]);
  const struct tt_expr *ia[2] = {y, k}, *ib[2] = {k, x};
  tt_program_stage(m.p, m.c, v, TT_RED_SUM, 1, v + 2,
                   tt_binary(arena, TT_MUL, tt_load(arena, m.a, 2, ia),
                             tt_load(arena, m.b, 2, ib)),
                   NULL);
  return m;
}

/* out[i] = f(in[i]) as a further stage. */
static struct tt_tensor *
map(struct tt_program *p, const char *name, enum tt_role role,
    enum tt_dtype type, struct tt_tensor *in,
    const struct tt_expr *(*f)(struct tt_arena *, const struct tt_expr *))
{
  const struct tt_var *v[TT_MAX_DIMS];
  const struct tt_expr *idx[TT_MAX_DIMS];
  struct tt_tensor *out =
      tt_program_tensor(p, name, role, type, in->ndim, in->dims);
  for (int d = 0; d < in->ndim; d++) {
    v[d] = tt_program_var(p, "i", in->dims[d]);
    idx[d] = tt_var_ref(p->arena, v[d]);
  }
  tt_program_stage(p, out, v, TT_RED_NONE, 0, NULL,
                   f(p->arena, tt_load(p->arena, in, in->ndim, idx)), NULL);
  return out;
}

/* ---- tolerances -------------------------------------------------------- */

static const struct tt_expr *
to_int8(struct tt_arena *a, const struct tt_expr *e)
{
  return tt_sat(a, TT_I8, e);
}

static const struct tt_expr *
to_f32(struct tt_arena *a, const struct tt_expr *e)
{
  return tt_cast(a, TT_F32, e);
}

static const struct tt_expr *
to_f16(struct tt_arena *a, const struct tt_expr *e)
{
  return tt_cast(a, TT_F16, e);
}

static const struct tt_expr *
twice(struct tt_arena *a, const struct tt_expr *e)
{
  return tt_binary(a, TT_ADD, e, e);
}

static void
test_tolerance(void **state)
{
  (void)state;
  struct tt_arena *arena = tt_arena_new();
  struct matmul m = matmul(arena, TT_F32, 64, TT_INPUT);
  struct tt_tolerance t = tt_output_tolerance(m.p, m.c);
  double base = 0x1p-23 * (16 + 8 * 8);
  assert_true(fabs(t.rel / base - 1) < 1e-9 && t.abs == 0);
  struct tt_tensor *h = map(m.p, "H", TT_OUTPUT, TT_F16, m.c, to_f16);
  t = tt_output_tolerance(m.p, h);
  assert_true(fabs(t.rel / (base + 2 * 0x1p-10) - 1) < 1e-9);
  struct tt_tensor *q = map(m.p, "Q", TT_OUTPUT, TT_I8, m.c, to_int8);
  t = tt_output_tolerance(m.p, q);
  assert_true(t.rel == 0 && t.abs == 1);
  struct tt_tensor *q2 = map(m.p, "Q2", TT_OUTPUT, TT_I8, q, twice);
  t = tt_output_tolerance(m.p, q2);
  assert_true(t.rel == 0.02 && t.abs == 1);
  struct tt_tensor *f = map(m.p, "F", TT_OUTPUT, TT_F32, q, to_f32);
  t = tt_output_tolerance(m.p, f);
  assert_true(t.rel == 0.02 && t.abs == 0);
  m = matmul(arena, TT_I32, 64, TT_INPUT);
  t = tt_output_tolerance(m.p, m.c);
  assert_true(t.rel == 0 && t.abs == 0);
  m = matmul(arena, TT_F32, 2, TT_INPUT);
  t = tt_output_tolerance(m.p, m.c);
  assert_true(fabs(t.rel / (8 * 0x1p-23 * (16 + 8 * sqrt(2))) - 1) < 1e-9);
  tt_arena_free(arena);
}

static void
test_reference(void **state)
{
  (void)state;
  struct tt_arena *arena = tt_arena_new();
  struct matmul m = matmul(arena, TT_F32, 20, TT_INPUT);
  struct tt_values *v = tt_values_new();
  struct tt_tolerance tol = {1e-5, 0};
  float A[400], B[400], C[400];
  tt_fill_input(m.a, 3, A);
  tt_fill_input(m.b, 3, B);
  tt_values_random(v, m.p, 3);
  for (int i = 0; i < 400; i++) {
    float sum = 0;
    for (int k = 0; k < 20; k++)
      sum += A[i / 20 * 20 + k] * B[k * 20 + i % 20];
    C[i] = sum;
  }
  assert_null(tt_check_reference(arena, m.p, v, m.c, 3, C, &tol));
  assert_true(tol.rel == 1e-5);
  C[217] *= 1.00001f; /* noise: the tolerance is widened */
  assert_null(tt_check_reference(arena, m.p, v, m.c, 3, C, &tol));
  assert_true(tol.rel > 1e-5 && tol.rel < 1e-3);
  C[217] += 1;
  const char *bad = tt_check_reference(arena, m.p, v, m.c, 3, C, &tol);
  assert_non_null(bad);
  assert_non_null(strstr(bad, "C[10, 17] of the plain loops is"));
  tt_values_free(v);
  tt_arena_free(arena);
}

/* ---- measuring --------------------------------------------------------- */

struct bed {
  struct tt_arena *arena;
  char dir[64], cc[128];
};

/* A temporary directory, and a compiler in it that breaks candidates by the
 * name of their object: it links a second entry before the true one.  c0 is
 * the builder's probe, c1 are the plain loops. */
static const char script[] =
    "body='real_entry(args, what); if (what) { RUN }'\n"
    "k=kernel_entry\n"
    "[ -z \"$TT_TEST_BROKEN\" ] || { echo 'x.c:1: error: gone' >&2; exit 1; }\n"
    "case $5 in\n"
    "c12.so) echo 'x.c:1: error: no' >&2; exit 1;;\n"
    "c13.so) run='__builtin_trap();';;\n"
    "c14.so) run='((char *)args[2])[3] ^= 64;';;\n"
    "c15.so) run='((float *)args[2])[-1] = 1;';;\n"
    "c16.so) run='for (volatile int i = 0;; i++) ;';;\n"
    "c2.so) [ \"$TT_TEST_KEEP\" ] || exec cc \"$@\"\n"
    "  body='static int n; static float kept[4]; float *C = args[1];\n"
    "  if (!n) real_entry(args, what);\n"
    "  for (int i = 0; i < 4; i++) if (n) C[i] = kept[i];\n"
    "  else kept[i] = C[i];\n"
    "  n += what;';;\n"
    "*) exec cc \"$@\";;\n"
    "esac\n"
    "echo \"void real_entry(void **args, int what);\n"
    "void $k(void **args, int what);\n"
    "void $k(void **args, int what) {\n"
    "$(echo \"$body\" | sed \"s/RUN/$run/\") }\" >extra_$5.c\n"
    "cc -c -fPIC extra_$5.c -o extra_$5.o &&\n"
    "exec cc \"-D$k=real_entry\" \"$@\" extra_$5.o\n";

static int
setup(void **state)
{
  static struct bed b;
  char path[96];
  strcpy(b.dir, "/tmp/tt-measure-XXXXXX");
  assert_non_null(mkdtemp(b.dir));
  setenv("TMPDIR", b.dir, 1);
  snprintf(path, sizeof path, "%s/cc.sh", b.dir);
  FILE *f = fopen(path, "w");
  fputs(script, f);
  fclose(f);
  snprintf(b.cc, sizeof b.cc, "sh %s", path);
  b.arena = tt_arena_new();
  *state = &b;
  return 0;
}

/* How many entries TMPDIR has beside the compiler. */
static int
leftovers(const struct bed *b)
{
  int n = -1;
  DIR *d = opendir(b->dir);
  for (struct dirent *e; (e = readdir(d));)
    n += e->d_name[0] != '.';
  closedir(d);
  return n;
}

static int
teardown(void **state)
{
  struct bed *b = *state;
  char path[96];
  snprintf(path, sizeof path, "%s/cc.sh", b->dir);
  unlink(path);
  rmdir(b->dir);
  unsetenv("TMPDIR");
  tt_arena_free(b->arena);
  return 0;
}

static struct tt_measure_options
options(void)
{
  return (struct tt_measure_options){.cc = "cc",
                                     .cflags = "-O1",
                                     .jobs = 2,
                                     .threads = 1,
                                     .timeout = 5,
                                     .seed = 1,
                                     .codegen = {.vector_bytes = 16}};
}

static struct tt_measurer *
measurer(const struct tt_program *p, const struct tt_measure_options *o)
{
  struct tt_result plain;
  const char *error = NULL;
  struct tt_measurer *m = tt_measurer_new(p, o, &plain, &error);
  if (!m)
    print_message("%s\n", error ? error : "interrupted");
  assert_non_null(m);
  assert_int_equal(plain.outcome, TT_OUT_OK);
  assert_true(plain.seconds > 0 && plain.build_seconds > 0);
  return m;
}

/* n schedules of a matmul: plain, and tiled in growing sizes. */
static struct tt_schedule **
schedules(struct tt_arena *a, const struct tt_program *p, int n)
{
  struct tt_schedule **s = TT_ARRAY(a, struct tt_schedule *, (size_t)n);
  for (int i = 0; i < n; i++) {
    s[i] = tt_schedule_new(a, p, false);
    if (i == 0)
      continue;
    int x = tt_find_loop(s[i], 0, "x");
    int inner = tt_split(s[i], 0, x, 4 * i, "x1", TT_TAIL_PEEL);
    int order[2] = {tt_find_loop(s[i], 0, "k"), inner};
    assert_true(inner >= 0);
    assert_true(tt_reorder(s[i], 0, 2, order));
  }
  return s;
}

struct seen {
  int n, stop_after;
  const struct tt_result *results;
};

static bool
see(void *ctx, int i, const struct tt_result *r)
{
  struct seen *s = ctx;
  assert_ptr_equal(r, &s->results[i]);
  return ++s->n != s->stop_after;
}

static void
test_measure(void **state)
{
  struct bed *b = *state;
  struct matmul m = matmul(b->arena, TT_F32, 48, TT_INPUT);
  struct tt_measure_options o = options();
  struct tt_measurer *me = measurer(m.p, &o);
  struct tt_result r[10];
  struct seen seen = {.results = r};
  const char *error;
  assert_int_equal(leftovers(b), 1);
  assert_true(tt_measure(me, 10, schedules(b->arena, m.p, 10), 0, r, see, &seen,
                         &error));
  assert_null(error);
  assert_int_equal(seen.n, 10);
  for (int i = 0; i < 10; i++) {
    if (r[i].outcome)
      print_message("%d: %s\n", i, r[i].message);
    assert_int_equal(r[i].outcome, TT_OUT_OK);
    assert_true(r[i].seconds > 0 && r[i].spread >= 0);
    assert_true(r[i].max_error <= 1);
    assert_true(r[i].build_seconds > 0 && r[i].run_seconds > 0);
    assert_null(r[i].message);
  }
  /* Finalists, in turns. */
  double before = r[0].build_seconds;
  assert_true(
      tt_measure_finalists(me, 3, schedules(b->arena, m.p, 3), r, &error));
  for (int i = 0; i < 3; i++)
    assert_true(r[i].outcome == TT_OUT_OK && r[i].seconds > 0);
  assert_true(r[0].build_seconds == before);
  tt_measurer_free(me);
  assert_int_equal(leftovers(b), 0);
}

/* A batch that grows while it is measured. */
struct growing {
  struct tt_measurer *me;
  int asked, done, at[12]; /* results when it was asked; how often each came */
};

static bool
see_growing(void *ctx, int i, const struct tt_result *r)
{
  struct growing *g = ctx;
  assert_int_equal(r->outcome, TT_OUT_OK);
  assert_in_range(i, 0, g->asked ? 11 : 7);
  assert_int_equal(g->at[i]++, 0);
  g->done++;
  return true;
}

static int
grow(void *ctx)
{
  struct growing *g = ctx;
  if (g->asked++)
    return 0;
  assert_int_equal(g->done, 6); /* of 8 */
  /* The rest goes on meanwhile, and nobody asks again. */
  for (int i = 0; i < 2000 && g->done < 8; i++) {
    usleep(10000);
    tt_measure_pump(g->me);
  }
  assert_int_equal(g->done, 8);
  assert_int_equal(g->asked, 1);
  return 4;
}

static void
test_batch_grows(void **state)
{
  struct bed *b = *state;
  struct matmul m = matmul(b->arena, TT_F32, 48, TT_INPUT);
  struct tt_measure_options o = options();
  struct growing g = {.me = measurer(m.p, &o)};
  struct tt_result r[12];
  const struct tt_stream s = {.n = 8,
                              .most = 12,
                              .schedules = schedules(b->arena, m.p, 12),
                              .results = r,
                              .done = see_growing,
                              .more = grow,
                              .ctx = &g};
  struct tt_cpus cpus = tt_cpus_allowed();
  const char *error;
  tt_measure_pump(g.me); /* nothing is being measured */
  assert_true(tt_measure_stream(g.me, &s, &error));
  /* With one CPU the search would disturb the timing. */
  assert_int_equal(g.asked, tt_cpus_count(&cpus) > 1 ? 2 : 0);
  assert_int_equal(g.done, g.asked ? 12 : 8);
  tt_measurer_free(g.me);
  assert_int_equal(leftovers(b), 0);
}

/* The objects of the fastest are kept for it. */
static void
test_finalists_are_not_built_again(void **state)
{
  struct bed *b = *state;
  struct matmul m = matmul(b->arena, TT_F32, 48, TT_INPUT);
  struct tt_measure_options o = options();
  struct tt_result r[4];
  const char *error;
  o.cc = b->cc;
  struct tt_measurer *me = measurer(m.p, &o);
  assert_true(
      tt_measure(me, 3, schedules(b->arena, m.p, 3), 0, r, NULL, NULL, &error));
  r[3] = (struct tt_result){.outcome = TT_OUT_OK};
  setenv("TT_TEST_BROKEN", "1", 1);
  assert_true(
      tt_measure_finalists(me, 4, schedules(b->arena, m.p, 4), r, &error));
  unsetenv("TT_TEST_BROKEN");
  for (int i = 0; i < 3; i++)
    assert_true(r[i].outcome == TT_OUT_OK && r[i].seconds > 0);
  assert_int_equal(r[3].outcome, TT_OUT_BUILD); /* was not measured before */
  tt_measurer_free(me);
  assert_int_equal(leftovers(b), 0);
}

/* More code than twice that of the fastest, and more than a good deal. */
static void
test_too_much_code_is_not_built(void **state)
{
  struct bed *b = *state;
  struct matmul m = matmul(b->arena, TT_F32, 48, TT_INPUT);
  struct tt_measure_options o = options();
  struct tt_measurer *me = measurer(m.p, &o);
  struct tt_schedule **s = schedules(b->arena, m.p, 2);
  struct tt_result r[2];
  const char *error;
  s[1] = tt_schedule_new(b->arena, m.p, false);
  assert_true(tt_unroll(s[1], 0, tt_find_loop(s[1], 0, "y")));
  assert_true(tt_unroll(s[1], 0, tt_find_loop(s[1], 0, "x")));
  assert_true(tt_measure(me, 1, s, 0, r, NULL, NULL, &error));
  assert_int_equal(r[0].outcome, TT_OUT_OK);
  assert_true(tt_measure(me, 1, s + 1, 0, r + 1, NULL, NULL, &error));
  assert_int_equal(r[1].outcome, TT_OUT_BUILD_TIME);
  assert_true(r[1].build_seconds == 0);
  assert_non_null(strstr(r[1].message, "too long"));
  tt_measurer_free(me);
  assert_int_equal(leftovers(b), 0);
}

static void
test_failures(void **state)
{
  struct bed *b = *state;
  struct matmul m = matmul(b->arena, TT_F32, 80, TT_INPUT);
  struct tt_measure_options o = options();
  o.cc = b->cc;
  o.jobs = 1;     /* so that objects go in order */
  o.timeout = 10; /* one takes them all; others may wait for a CPU */
  struct tt_measurer *me = measurer(m.p, &o);
  struct tt_result r[17];
  const char *error;
  assert_true(tt_measure(me, 17, schedules(b->arena, m.p, 17), 0, r, NULL, NULL,
                         &error));
  static const enum tt_outcome want[17] = {[10] = TT_OUT_BUILD,
                                           [11] = TT_OUT_CRASH,
                                           [12] = TT_OUT_WRONG,
                                           [13] = TT_OUT_BOUNDS,
                                           [14] = TT_OUT_TIMEOUT};
  for (int i = 0; i < 17; i++) {
    if (r[i].outcome != want[i])
      print_message("%d: %s\n", i, r[i].message ? r[i].message : "");
    assert_int_equal(r[i].outcome, want[i]);
    assert_true((r[i].message != NULL) == (want[i] != TT_OUT_OK));
    assert_true((r[i].seconds > 0) == (want[i] == TT_OUT_OK));
  }
  assert_string_equal(r[10].message, "x.c:1: error: no");
  assert_string_equal(r[13].message, "wrote outside C");
  tt_measurer_free(me);
  assert_int_equal(leftovers(b), 0);
}

/* It keeps its results and computes nothing any more. */
static void
test_impossible(void **state)
{
  struct bed *b = *state;
  int64_t dims[2] = {4, 200000};
  struct tt_program *p = tt_program_new(b->arena, "sums");
  struct tt_tensor *a = tt_program_tensor(p, "A", TT_INPUT, TT_F32, 2, dims);
  struct tt_tensor *c = tt_program_tensor(p, "C", TT_OUTPUT, TT_F32, 1, dims);
  const struct tt_var *v[2] = {tt_program_var(p, "y", dims[0]),
                               tt_program_var(p, "k", dims[1])};
  const struct tt_expr *idx[2] = {tt_var_ref(b->arena, v[0]),
                                  tt_var_ref(b->arena, v[1])};
  tt_program_stage(p, c, v, TT_RED_SUM, 1, v + 1, tt_load(b->arena, a, 2, idx),
                   NULL);
  struct tt_measure_options o = options();
  struct tt_schedule *s[2] = {tt_schedule_new(b->arena, p, false),
                              tt_schedule_new(b->arena, p, false)};
  struct tt_result r[2];
  const char *error;
  o.cc = b->cc;
  o.jobs = 1;
  setenv("TT_TEST_KEEP", "1", 1);
  struct tt_measurer *me = measurer(p, &o);
  assert_true(tt_measure(me, 2, s, 0, r, NULL, NULL, &error));
  unsetenv("TT_TEST_KEEP");
  assert_int_equal(r[0].outcome, TT_OUT_IMPOSSIBLE);
  assert_true(r[0].seconds == 0 && r[0].message != NULL);
  assert_int_equal(r[1].outcome, TT_OUT_OK);
  tt_measurer_free(me);
}

static void
test_cancel(void **state)
{
  struct bed *b = *state;
  struct matmul m = matmul(b->arena, TT_F32, 16, TT_INPUT);
  struct tt_measure_options o = options();
  volatile sig_atomic_t stop = 0;
  o.interrupted = &stop;
  struct tt_measurer *me = measurer(m.p, &o);
  struct tt_result r[8];
  struct seen seen = {.results = r, .stop_after = 3};
  const char *error;
  int cancelled = 0;
  assert_true(
      tt_measure(me, 8, schedules(b->arena, m.p, 8), 0, r, see, &seen, &error));
  assert_int_equal(seen.n, 3);
  for (int i = 0; i < 8; i++)
    cancelled += r[i].outcome == TT_OUT_CANCELLED;
  assert_int_equal(cancelled, 5);
  /* And it goes on afterwards. */
  assert_true(
      tt_measure(me, 2, schedules(b->arena, m.p, 2), 0, r, NULL, NULL, &error));
  assert_int_equal(r[1].outcome, TT_OUT_OK);
  stop = 1;
  assert_true(
      tt_measure(me, 4, schedules(b->arena, m.p, 4), 0, r, NULL, NULL, &error));
  assert_int_equal(r[3].outcome, TT_OUT_CANCELLED);
  tt_measurer_free(me);
  struct tt_result plain;
  assert_null(tt_measurer_new(m.p, &o, &plain, &error));
  assert_null(error);
  assert_int_equal(leftovers(b), 0);
}

static void
test_kinds(void **state)
{
  struct bed *b = *state;
  static const enum tt_dtype types[] = {TT_F64, TT_F16, TT_BF16, TT_I8,
                                        TT_U16, TT_I32, TT_I64};
  for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
    /* The second operand is a weight: prepared ahead. */
    struct matmul m = matmul(b->arena, types[k], 12, TT_WEIGHT);
    struct tt_measure_options o = options();
    struct tt_result r;
    const char *error;
    o.codegen.workspace = k % 2 ? TT_WS_ARG : TT_WS_STATIC;
    o.threads = k == 0 ? 2 : 1;
    struct tt_measurer *me = measurer(m.p, &o);
    assert_true(tt_measure(me, 1, schedules(b->arena, m.p, 1), 0, &r, NULL,
                           NULL, &error));
    if (r.outcome)
      print_message("%s: %s\n", tt_dtype_name(types[k]), r.message);
    assert_int_equal(r.outcome, TT_OUT_OK);
    tt_measurer_free(me);
  }
  assert_int_equal(leftovers(b), 0);
}

static void
no_measurer(struct bed *b, const char *cc, const char *cflags,
            const char *message)
{
  struct matmul m = matmul(b->arena, TT_F32, 4, TT_INPUT);
  struct tt_measure_options o = options();
  struct tt_result plain;
  const char *error = NULL;
  o.cc = cc;
  o.cflags = cflags;
  assert_null(tt_measurer_new(m.p, &o, &plain, &error));
  assert_non_null(error);
  if (!strstr(error, message))
    print_message("got: %s\n", error);
  assert_non_null(strstr(error, message));
  assert_int_equal(leftovers(b), 0);
}

static void
test_toolchain(void **state)
{
  struct bed *b = *state;
  no_measurer(b, "foo-cc", "",
              "cannot run 'foo-cc': No such file or directory");
  no_measurer(b, "cc", "--no-such-flag", "--no-such-flag");
  /* Works for the probe, breaks the code. */
  no_measurer(b, "cc", "-Dkernel_entry=other", "the plain loops fail");
}

int
main(int argc, char **argv)
{
  int status = tt_runner_main(argc, argv);
  if (status >= 0)
    return status;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_tolerance),
      cmocka_unit_test(test_reference),
      cmocka_unit_test(test_measure),
      cmocka_unit_test(test_batch_grows),
      cmocka_unit_test(test_finalists_are_not_built_again),
      cmocka_unit_test(test_too_much_code_is_not_built),
      cmocka_unit_test(test_failures),
      cmocka_unit_test(test_impossible),
      cmocka_unit_test(test_cancel),
      cmocka_unit_test(test_kinds),
      cmocka_unit_test(test_toolchain)};
  return cmocka_run_group_tests_name("measure", tests, setup, teardown);
}
