/* Code generation of whole programs: names, memory, limits, weights, what goes
 * with a kernel; it compiles without a warning, and a few texts are as they
 * were (tests/golden; UPDATE_GOLDEN=1 rewrites them).
 */
#include "config.h"

#include "codegen/codegen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "codegen/plan.h"
#include "schedule/schedule.h"
#include "tests/exec_c.h"
#include "tests/nest.h"

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
  check_nest(&f);
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
  check_nest(&f);
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
  check_nest(&f);
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
    check_nest(&f);
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

/* Locals that take turns in an iteration of a parallel loop, of different
 * sizes: another iteration, wherever it is, must not meet them. */
static void
test_frames(void **state)
{
  (void)state;
  enum { N = 3, THREADS = 4 };
  static const int64_t sizes[N] = {9000, 5000, 20000};
  struct fix f;
  start(&f, "frames");
  struct tt_tensor *o = param(&f, "Y", TT_OUTPUT, TT_F32, 1, DIMS(THREADS));
  const struct tt_var *v = var(&f, "i", THREADS);
  const struct tt_expr *at = ref(&f, v), *first = tt_idx(f.ar, 0);
  struct tt_tensor *locals[N];
  const struct tt_stmt *turns[N];
  for (int i = 0; i < N; i++) {
    locals[i] = local(&f, "t", TT_WORKSPACE, TT_F32, 1, DIMS(sizes[i]));
    const struct tt_stmt *both[2] = {
        store(&f, locals[i], &first, tt_flt(f.ar, TT_F32, i)),
        store(&f, o, &at, load(&f, locals[i], &first))};
    turns[i] = tt_alloc_stmt(f.ar, locals[i], tt_seq(f.ar, 2, both));
  }
  f.nest.body = tt_for(f.ar, TT_PARALLEL, 0, v, tt_seq(f.ar, N, turns));
  struct tt_codegen_options opt = {.vector_bytes = 64};
  struct plan plan;
  assert_null(tt_plan(f.ar, &f.nest, &opt, &plan));
  for (int a = 0; a < N; a++)
    for (int b = 0; b < N; b++)
      for (int i = 0; i < THREADS; i++)
        for (int j = 0; j < THREADS; j++) {
          const struct place *p = tt_place_of(&plan.body, locals[a]);
          const struct place *q = tt_place_of(&plan.body, locals[b]);
          int64_t from = p->offset + i * p->stride;
          int64_t to = q->offset + j * q->stride;
          assert_true(i == j || from + 4 * sizes[a] <= to ||
                      to + 4 * sizes[b] <= from);
          assert_true(from + 4 * sizes[a] <= plan.sizes.workspace_bytes);
        }
  tt_arena_free(f.ar);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_identifiers),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_liveness),
      cmocka_unit_test(test_frames),
      cmocka_unit_test(test_limits),
      cmocka_unit_test(test_product),
      cmocka_unit_test(test_golden_product),
      cmocka_unit_test(test_golden_weights),
      cmocka_unit_test(test_programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
