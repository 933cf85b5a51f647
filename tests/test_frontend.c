/* The frontend: every diagnostic by a golden case, the examples,
 * and small programs run by the interpreter.
 *
 * tests/errors/NAME.te is compiled with the options of its first line
 * (`# args: -D X=3 -I dir`); what is printed must be NAME.err exactly.
 * UPDATE_GOLDEN=1 rewrites the expected texts.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/passes.h"
#include "tests/compile.h"

#define MAX_OPTIONS 16

static const char *
source_dir(void)
{
  const char *dir = getenv("abs_top_srcdir");

  return dir ? dir : ".";
}

/* ---- files ------------------------------------------------------------- */

static bool
read_file(const char *path, struct tt_sb *out)
{
  FILE *f = fopen(path, "rb");
  char buffer[4096];
  size_t n;

  if (!f)
    return false;
  while ((n = fread(buffer, 1, sizeof buffer, f)) > 0)
    tt_sb_addn(out, buffer, n);
  fclose(f);
  return true;
}

static void
write_file(const char *path, const char *text)
{
  FILE *f = fopen(path, "wb");

  assert_non_null(f);
  fputs(text, f);
  assert_int_equal(fclose(f), 0);
}

static int
by_name(const void *a, const void *b)
{
  return strcmp(*(char *const *)a, *(char *const *)b);
}

typedef TT_VEC(char *) names;

static names
list_dir(const char *dir, const char *suffix)
{
  names v = {0};
  DIR *d = opendir(dir);
  struct dirent *e;

  assert_non_null(d);
  while ((e = readdir(d)) != NULL) {
    size_t n = strlen(e->d_name), m = strlen(suffix);
    if (n > m && strcmp(e->d_name + n - m, suffix) == 0)
      TT_PUSH(v, tt_xstrdup(e->d_name));
  }
  closedir(d);
  qsort(v.items, (size_t)v.n, sizeof *v.items, by_name);
  return v;
}

static void
free_names(names v)
{
  for (int i = 0; i < v.n; i++)
    free(v.items[i]);
  free(v.items);
}

/* ---- golden errors ----------------------------------------------------- */

struct options {
  struct tt_define defines[MAX_OPTIONS];
  const char *dirs[MAX_OPTIONS];
  struct tt_frontend_options o;
};

/* The options of a first line "# args: -D A=1 -I dir"; `line` is cut up. */
static void
parse_args(char *line, struct options *o)
{
  char *word, *save = NULL;
  bool define = false;

  memset(o, 0, sizeof *o);
  o->o.defines = o->defines;
  o->o.include_dirs = o->dirs;
  if (strncmp(line, "# args:", 7) != 0)
    return;
  line[strcspn(line, "\n")] = '\0';
  for (word = strtok_r(line + 7, " ", &save); word;
       word = strtok_r(NULL, " ", &save)) {
    char *eq = strchr(word, '=');
    if (strcmp(word, "-D") == 0 || strcmp(word, "-I") == 0) {
      define = word[1] == 'D';
    } else if (define) {
      assert_non_null(eq);
      *eq = '\0';
      o->defines[o->o.ndefines++] = (struct tt_define){word, eq + 1};
    } else {
      o->dirs[o->o.ninclude_dirs++] = word;
    }
  }
}

static int
run_case(const char *name, bool *codes)
{
  struct run r = start();
  struct tt_sb text = {0}, expected = {0};
  struct options o;
  char *line, err[300];
  int failed = 0;

  assert_true(read_file(name, &text));
  line = tt_xstrdup(tt_sb_str(&text));
  parse_args(line, &o);
  r.result = tt_compile_file(r.arena, r.diags, name, &o.o, false);
  tt_diags_print(r.diags, &r.text, false);
  for (int i = 0; i < TT_NDIAGS; i++)
    codes[i] = codes[i] || tt_diags_has(r.diags, (enum tt_diag_code)i);
  if ((r.result.program == NULL) != (tt_diags_errors(r.diags) > 0)) {
    print_message("%s: a program in spite of errors, or none\n", name);
    failed = 1;
  }
  snprintf(err, sizeof err, "%.*s.err", (int)strlen(name) - 3, name);
  if (getenv("UPDATE_GOLDEN"))
    write_file(err, tt_sb_str(&r.text));
  read_file(err, &expected);
  if (strcmp(tt_sb_str(&expected), tt_sb_str(&r.text)) != 0) {
    print_message("%s: expected\n%sgot\n%s", name, tt_sb_str(&expected),
                  tt_sb_str(&r.text));
    failed = 1;
  }
  free(line);
  tt_sb_free(&text);
  tt_sb_free(&expected);
  finish(&r);
  return failed;
}

/* Codes that no .te file alone can show; each has a test below. */
static bool
shown_elsewhere(enum tt_diag_code code)
{
  return code == TT_D_TOO_LARGE || code == TT_D_TOO_DEEP;
}

static void
test_errors(void **state)
{
  bool codes[TT_NDIAGS] = {false};
  names cases;
  char dir[4096];
  int failed = 0;

  (void)state;
  snprintf(dir, sizeof dir, "%s/tests/errors", source_dir());
  assert_int_equal(chdir(dir), 0);
  cases = list_dir(".", ".te");
  assert_true(cases.n > 40);
  for (int i = 0; i < cases.n; i++)
    failed += run_case(cases.items[i], codes);
  for (int i = 0; i < TT_NDIAGS; i++)
    if (!codes[i] && !shown_elsewhere((enum tt_diag_code)i)) {
      print_message("no case shows %s\n", tt_diag_name((enum tt_diag_code)i));
      failed++;
    }
  free_names(cases);
  assert_int_equal(failed, 0);
}

/* Every code has its entry in the manual, and none is there twice. */
static void
test_manual(void **state)
{
  struct tt_sb page = {0};
  char path[4096], entry[100];
  int missing = 0;

  (void)state;
  snprintf(path, sizeof path, "%s/man/te.5", source_dir());
  assert_true(read_file(path, &page));
  for (int i = 0; i < TT_NDIAGS; i++) {
    const char *at;
    snprintf(entry, sizeof entry, ".It Sy %s\n",
             tt_diag_name((enum tt_diag_code)i));
    at = strstr(tt_sb_str(&page), entry);
    if (!at || strstr(at + 1, entry)) {
      print_message("te.5: not exactly one entry for %s\n",
                    tt_diag_name((enum tt_diag_code)i));
      missing++;
    }
  }
  tt_sb_free(&page);
  assert_int_equal(missing, 0);
}

/* The programs of the manual: displays after a line .\" program. */
static void
test_manual_programs(void **state)
{
  struct tt_sb page = {0};
  char path[4096];
  const char *p;
  int n = 0;

  (void)state;
  snprintf(path, sizeof path, "%s/man/te.5", source_dir());
  assert_true(read_file(path, &page));
  for (p = tt_sb_str(&page); (p = strstr(p, ".\\\" program\n.Bd")) != NULL;
       n++) {
    const char *end = strstr(p, "\n.Ed");
    struct run r;
    assert_non_null(end);
    p = strchr(strchr(p, '\n') + 1, '\n') + 1;
    r = compile_text(p, (size_t)(end - p));
    assert_string_equal(tt_sb_str(&r.text), "");
    assert_non_null(r.result.program);
    finish(&r);
  }
  assert_true(n >= 4);
  tt_sb_free(&page);
}

/* ---- examples ---------------------------------------------------------- */

static void
test_examples(void **state)
{
  char dir[4096];
  names files;

  (void)state;
  snprintf(dir, sizeof dir, "%s/examples", source_dir());
  assert_int_equal(chdir(dir), 0);
  files = list_dir(".", ".te");
  assert_true(files.n >= 27);
  for (int i = 0; i < files.n; i++) {
    struct run r = start();
    r.result = tt_compile_file(r.arena, r.diags, files.items[i], NULL, true);
    tt_diags_print(r.diags, &r.text, false);
    assert_string_equal(tt_sb_str(&r.text), "");
    assert_non_null(r.result.program);
    assert_true(r.result.nfiles >= 1);
    finish(&r);
  }
  free_names(files);
}

/* The dump of the syntax tree is a program of the same meaning: its dump is
 * itself. */
static void
test_ast_dump(void **state)
{
  char dir[4096];
  names files;

  (void)state;
  snprintf(dir, sizeof dir, "%s/examples", source_dir());
  assert_int_equal(chdir(dir), 0);
  files = list_dir(".", ".te");
  for (int i = 0; i < files.n; i++) {
    struct run r = start();
    struct tt_frontend_result again;
    r.result = tt_compile_file(r.arena, r.diags, files.items[i], NULL, true);
    again = tt_compile_text(r.arena, r.diags, "again.te", r.result.ast_dump,
                            strlen(r.result.ast_dump), NULL, true);
    assert_int_equal(tt_diags_errors(r.diags), 0);
    assert_string_equal(again.ast_dump, r.result.ast_dump);
    assert_int_equal(again.program->nstages, r.result.program->nstages);
    finish(&r);
  }
  free_names(files);
}

/* ---- programs ---------------------------------------------------------- */

/* The dump of a text's program. */
static void
expect_program(const char *text, const char *expected)
{
  struct run r = compile_text(text, strlen(text));
  struct tt_sb sb = {0};

  assert_string_equal(tt_sb_str(&r.text), "");
  assert_non_null(r.result.program);
  tt_dump_program(&sb, r.result.program);
  assert_string_equal(tt_sb_str(&sb), expected);
  tt_sb_free(&sb);
  finish(&r);
}

static void
test_nested_reductions(void **state)
{
  (void)state;
  /* Exactly the free indices; equal ones share a stage; names do not clash. */
  expect_program("input A[4,3]: f32; output Y[4,2]: f32;\n"
                 "Y_sum[i] = sum[k](A[i,k]);\n"
                 "Y[i,j] = sum[k](A[i,k]) + sum[q](A[i,q]) * Y_sum[i];\n",
                 "kernel t;\n"
                 "input A[4, 3]: f32;\n"
                 "output Y[4, 2]: f32;\n"
                 "temp Y_sum[4]: f32;\n"
                 "temp Y_sum_2[4]: f32;\n"
                 "Y_sum[i in 4] = sum[k in 3] (A[i, k]);\n"
                 "Y_sum_2[i in 4] = sum[k in 3] (A[i, k]);\n"
                 "Y[i in 4, j in 2] = Y_sum_2[i] + Y_sum_2[i] * Y_sum[i];\n");
}

static void
test_weights(void **state)
{
  struct run r;
  const char *text = "input X[4]: f32; weight W[4]: f32; output Y[4]: f32;\n"
                     "c[i in 4] = 2.0;\n"
                     "u[i] = W[i] * c[i];\n"
                     "v[i] = sqrt(u[i]);\n"
                     "d[i in 4] = 3.0;\n"
                     "Y[i] = X[i] * v[i] + d[i];\n";
  static const bool prepare[] = {true, true, true, false, false};

  (void)state;
  r = compile_text(text, strlen(text));
  assert_non_null(r.result.program);
  assert_int_equal(r.result.program->nstages, 5);
  for (int i = 0; i < 5; i++)
    assert_int_equal(r.result.program->stages[i]->prepare, prepare[i]);
  finish(&r);
}

static void
test_defines(void **state)
{
  struct run r = start();
  struct tt_define d[] = {{"N", "3"}, {"T", "i8"}, {"E", "2"}, {"N", "0x5"}};
  struct tt_frontend_options o = {.ndefines = 4, .defines = d};
  const char *text = "param N = 7, E: f32 = 0.5; type T = f32;\n"
                     "input A[N]: T; output Y[N]: f32;\n"
                     "Y[i] = f32(A[i]) * E;\n";

  (void)state;
  r.result = tt_compile_text(r.arena, r.diags, "dir/3 x.te", text, strlen(text),
                             &o, false);
  assert_non_null(r.result.program);
  assert_string_equal(r.result.program->name, "kernel_3_x");
  assert_int_equal(r.result.program->tensors[0]->dims[0], 5);
  assert_int_equal(r.result.program->tensors[0]->dtype, TT_I8);
  finish(&r);
}

/* ---- programs, run ----------------------------------------------------- */

/* Compile, run on given inputs, compare an output with what is expected.
 * Numbers are given as doubles whatever the type. */
static void
expect_run(const char *text, const double *const *inputs, const char *output,
           int n, const double *expected)
{
  struct run r = compile_text(text, strlen(text));
  struct tt_values *values = tt_values_new();
  double *f;
  int64_t *v;

  assert_string_equal(tt_sb_str(&r.text), "");
  assert_non_null(r.result.program);
  assert_null(tt_verify_program(r.arena, r.result.program));
  for (int i = 0, k = 0; i < r.result.program->ntensors; i++) {
    const struct tt_tensor *t = r.result.program->tensors[i];
    if (t->role != TT_INPUT && t->role != TT_WEIGHT)
      continue;
    tt_values_of(values, t, &f, &v);
    for (int64_t e = 0; e < tt_tensor_size(t); e++)
      if (f)
        f[e] = inputs[k][e];
      else
        v[e] = (int64_t)inputs[k][e];
    k++;
  }
  assert_null(tt_interpret_program(r.result.program, values));
  for (int i = 0; i < r.result.program->ntensors; i++) {
    const struct tt_tensor *t = r.result.program->tensors[i];
    if (strcmp(t->name, output) != 0)
      continue;
    assert_int_equal(tt_tensor_size(t), n);
    tt_values_of(values, t, &f, &v);
    for (int e = 0; e < n; e++)
      if ((f ? f[e] : (double)v[e]) != expected[e]) {
        print_message("%s[%d] is %g, expected %g\n", output, e,
                      f ? f[e] : (double)v[e], expected[e]);
        fail();
      }
  }
  tt_values_free(values);
  finish(&r);
}

#define LIST(...) ((const double[]){__VA_ARGS__})

static void
test_run_arithmetic(void **state)
{
  const double *in[] = {LIST(-7, 7, -128, 100)};

  (void)state;
  /* Floor, truncation, wrapping, saturation, shifts. */
  expect_run("input a[4]: i8; output y[4]: i8; y[i] = a[i] / 2;", in, "y", 4,
             LIST(-4, 3, -64, 50));
  expect_run("input a[4]: i8; output y[4]: i8; y[i] = a[i] % 3;", in, "y", 4,
             LIST(2, 1, 1, 1));
  expect_run("input a[4]: i8; output y[4]: i8; y[i] = quot(a[i], 2);", in, "y",
             4, LIST(-3, 3, -64, 50));
  expect_run("input a[4]: i8; output y[4]: i8; y[i] = rem(a[i], 3);", in, "y",
             4, LIST(-1, 1, -2, 1));
  expect_run("input a[4]: i8; output y[4]: i8; y[i] = a[i] + a[i];", in, "y", 4,
             LIST(-14, 14, 0, -56));
  expect_run("input a[4]: i8; output y[4]: i8; "
             "y[i] = sat_i8(i32(a[i]) * 2);",
             in, "y", 4, LIST(-14, 14, -128, 127));
  expect_run("input a[4]: i8; output y[4]: i8; y[i] = a[i] >> 1;", in, "y", 4,
             LIST(-4, 3, -64, 50));
  expect_run("input a[4]: i8; output y[4]: i32; "
             "y[i] = ceildiv(i32(a[i]), 4);",
             in, "y", 4, LIST(-1, 2, -32, 25));
  expect_run("input a[4]: i8; output y[4]: i8; "
             "y[i] = clamp(a[i], -10, 50) ^ 3;",
             in, "y", 4, LIST(-7 ^ 3, 7 ^ 3, -10 ^ 3, 50 ^ 3));
}

static void
test_run_reductions(void **state)
{
  const double *in[] = {LIST(3, 9, 2, 9, 5, 1)};

  (void)state;
  expect_run("input a[2,3]: i32; output y[2]: i32; "
             "y[i] = argmax[j](a[i,j]);",
             in, "y", 2, LIST(1, 0));
  expect_run("input a[2,3]: i32; output y[2]: i32; "
             "y[i] = argmin[j in 1..3](a[i,j]) * 10;",
             in, "y", 2, LIST(20, 20));
  expect_run("input a[2,3]: i32; output y: i32; y = sum[i,j](a[i,j]);", in, "y",
             1, LIST(29));
  expect_run("input a[2,3]: i32; output y[2]: bool; "
             "y[i] = any[j](a[i,j] == 2);",
             in, "y", 2, LIST(1, 0));
  expect_run("input a[2,3]: i32; output y[2]: i32; "
             "y[i] = sum[j where j >= i](a[i,j]);",
             in, "y", 2, LIST(14, 6));
  expect_run("input a[6]: i32; output y[3]: i32; "
             "y[i in 3] = sum[r in -1..2](a[i+r else 0]);",
             in, "y", 3, LIST(12, 14, 20));
}

static void
test_run_else(void **state)
{
  const double *in[] = {LIST(1, 2, 3, 4), LIST(0, 3, 1, 2)};

  (void)state;
  expect_run("input a[4]: f32; output y[4]: f32; y[i] = a[i-1 else -1];", in,
             "y", 4, LIST(-1, 1, 2, 3));
  expect_run("input a[4], b[4]: f32; output y[4]: f32; "
             "y[i] = a[i] + b[3-i];",
             in, "y", 4, LIST(3, 3, 6, 4));
}

/* A reduction is a stage of its own also when it stands under a condition;
 * what is legal only under the condition takes it along. */
static void
test_run_hoisted(void **state)
{
  const double *in[] = {LIST(1, 2, 3, 4), LIST(2, 0, 1, 0)};

  (void)state;
  expect_run("input a[2,2]: f32; output y[3]: f32; "
             "y[i] = i > 0 ? sum[k](a[i-1,k]) : -1;",
             in, "y", 3, LIST(-1, 3, 7));
  expect_run("input a[4], d[4]: i32; output y[4]: i32; "
             "y[i] = d[i] != 0 ? sum[k](a[k] / d[i]) : 0;",
             in, "y", 4, LIST(4, 0, 10, 0));
  expect_run("input a[4]: i32; output y[3]: i32; "
             "y[i] = sum[j in 2 where i + j < 3](sum[k in 4 where k >= j && "
             "k + i + j < 4](a[k + i + j]));",
             in, "y", 3, LIST(17, 13, 7));
}

static void
test_run_indirect(void **state)
{
  const double *in[] = {LIST(2, 0, 1), LIST(10, 20, 30)};

  (void)state;
  expect_run("input p[3]: i32 in 0..3; input a[3]: f32; output y[3]: f32; "
             "y[i] = a[p[i]];",
             in, "y", 3, LIST(30, 10, 20));
  /* A range follows from the expression of an intermediate. */
  expect_run("input p[3]: i32; input a[3]: f32; output y[3]: f32; "
             "q[i] = clamp(p[i], 0, 1); y[i] = a[q[i]];",
             in, "y", 3, LIST(20, 10, 20));
}

/* ---- schedules --------------------------------------------------------- */

static void
test_schedule_text(void **state)
{
  struct run r = start();
  const struct tt_sblock *b;
  const char *text = "/* made by tcc-tune\n"
                     " * the schedule of C:\n"
                     " *   schedule \"fast\" {\n"
                     " *     C.split(k, 8, k1, tail=\"peel\");\n"
                     " *     C.reorder(m.1, ?, {1, 2});\n"
                     " *   }\n"
                     " */\n"
                     "#include <stdint.h>\nvoid C(void) { }\n";

  (void)state;
  b = tt_parse_schedule(r.arena, r.diags, "m.c", text, strlen(text));
  assert_non_null(b);
  assert_string_equal(b->name, "fast");
  assert_int_equal(b->ncalls, 2);
  assert_string_equal(b->calls[0].primitive, "split");
  assert_int_equal(b->calls[0].nargs, 4);
  assert_int_equal(b->calls[0].args[1].ival, 8);
  assert_string_equal(b->calls[0].args[3].key, "tail");
  assert_string_equal(b->calls[1].args[0].str, "m.1");
  assert_int_equal(b->calls[1].args[1].kind, TT_SARG_ANY);
  assert_int_equal(b->calls[1].args[2].nset, 2);
  finish(&r);
}

static void
test_schedule_errors(void **state)
{
  struct run r = start();
  const char *none = "int x;", *wrong = "a\n *schedule { C.split(; }\n";

  (void)state;
  assert_null(tt_parse_schedule(r.arena, r.diags, "x.c", none, strlen(none)));
  assert_true(tt_diags_has(r.diags, TT_D_SCHEDULE));
  assert_null(tt_parse_schedule(r.arena, r.diags, "y.c", wrong, strlen(wrong)));
  tt_diags_print(r.diags, &r.text, false);
  assert_non_null(strstr(tt_sb_str(&r.text), "y.c:2:22: error"));
  finish(&r);
}

/* ---- the bag of diagnostics -------------------------------------------- */

static void
test_at_most_20(void **state)
{
  struct tt_sb sb = {0};
  struct run r;

  (void)state;
  for (int i = 0; i < 30; i++)
    tt_sb_printf(&sb, "const a%d = b%d;\n", i, i);
  r = compile_text(tt_sb_str(&sb), sb.len);
  assert_int_equal(tt_diags_errors(r.diags), 30);
  assert_non_null(strstr(tt_sb_str(&r.text), "t.te:20:"));
  assert_null(strstr(tt_sb_str(&r.text), "t.te:21:"));
  assert_non_null(strstr(tt_sb_str(&r.text), "\n10 more errors\n"));
  tt_sb_free(&sb);
  finish(&r);
}

static void
test_columns(void **state)
{
  static const char text[] = "a\tb\nhé→x\n";
  struct tt_arena *arena = tt_arena_new();
  struct tt_source *s = tt_source_new(arena, "x", text, strlen(text));
  int line, column;

  (void)state;
  tt_source_place(s, 2, &line, &column);
  assert_int_equal(line, 1);
  assert_int_equal(column, 9);
  tt_source_place(s, 10, &line, &column);
  assert_int_equal(line, 2);
  assert_int_equal(column, 4);
  tt_arena_free(arena);
}

static void
test_wide_line(void **state)
{
  struct tt_sb sb = {0};
  struct run r;

  (void)state;
  tt_sb_add(&sb, "const A = ");
  for (int i = 0; i < 10000; i++)
    tt_sb_add(&sb, "          ");
  tt_sb_add(&sb, "q; # end\n");
  r = compile_text(tt_sb_str(&sb), sb.len);
  assert_true(r.text.len < 1000);
  assert_non_null(strstr(tt_sb_str(&r.text), "t.te:1:100011: error"));
  assert_non_null(strstr(tt_sb_str(&r.text), "q; # end\n"));
  tt_sb_free(&sb);
  finish(&r);
}

static void
test_missing_file(void **state)
{
  struct run r = start();

  (void)state;
  r.result =
      tt_compile_file(r.arena, r.diags, "/nonexistent/x.te", NULL, false);
  tt_diags_print(r.diags, &r.text, false);
  assert_null(r.result.program);
  assert_string_equal(tt_sb_str(&r.text),
                      "tcc-tune: error: cannot read /nonexistent/x.te: No "
                      "such file or directory [cannot-read]\n");
  finish(&r);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_errors),
      cmocka_unit_test(test_manual),
      cmocka_unit_test(test_manual_programs),
      cmocka_unit_test(test_examples),
      cmocka_unit_test(test_ast_dump),
      cmocka_unit_test(test_nested_reductions),
      cmocka_unit_test(test_run_hoisted),
      cmocka_unit_test(test_weights),
      cmocka_unit_test(test_defines),
      cmocka_unit_test(test_run_arithmetic),
      cmocka_unit_test(test_run_reductions),
      cmocka_unit_test(test_run_else),
      cmocka_unit_test(test_run_indirect),
      cmocka_unit_test(test_schedule_text),
      cmocka_unit_test(test_schedule_errors),
      cmocka_unit_test(test_at_most_20),
      cmocka_unit_test(test_columns),
      cmocka_unit_test(test_wide_line),
      cmocka_unit_test(test_missing_file),
  };

  return cmocka_run_group_tests(tests, NULL, NULL);
}
