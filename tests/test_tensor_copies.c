/* Copies in shared memory that instructions of several threads read: padded,
 * swizzled and made ahead.  What they compute, in C; that no thread reads or
 * overwrites too early, and none waits without need; that the matrices which
 * tensor cores take find all banks free; what is refused. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "schedule/schedule.h"
#include "tests/compile.h"
#include "tests/exec_c.h"
#include "tests/gpu_made.h"

/* %s: what each copy is besides; %d: rows, columns and steps. */
static const char product[] =
    "param M = %d, N = %d, K = %d;\n"
    "input A[M,K], B[K,N]: f16;\n"
    "output C[M,N]: f32;\n"
    "intrin mma(c[16,8]: f32 rows(1) aligned(8) reg \"float4\",\n"
    "           a[16,16]: f16 rows(1) aligned(16) scope \"shared\" reg \"A\",\n"
    "           b[16,8]: f16 rows(1) aligned(16) scope \"shared\" reg \"B\") "
    "{\n"
    "  c[i,j] += sum[k](f32(a[i,k]) * f32(b[k,j]));\n"
    "  threads \"32\";  guard \"__CUDA_ARCH__ >= 800\";\n"
    "  init %%{ $c; %%}  emit %%{ $c; $a; $b; %%}  store %%{ $out; $c; %%}\n"
    "  a %%{ a($a, $in($lane %% 16, $lane / 16 * 8)); %%}\n"
    "  b %%{ b($b, $in($lane %% 16, 0)); %%}\n"
    "}\n"
    "C[m,n] = sum[k](f32(A[m,k]) * f32(B[k,n]));\n"
    "schedule {\n"
    "  C.split(m, 64, mw);  C.split(mw, 32, mf);  C.split(mf, 16, mi);\n"
    "  C.split(n, 64, nw);  C.split(nw, 32, nf);  C.split(nf, 8, ni);\n"
    "  C.split(k, 32, ks);  C.split(ks, 16, ki);\n"
    "  C.reorder(m, n, k, mw, nw, ks, mf, nf, mi, ni, ki);\n"
    "  C.bind(m, \"block.y\");    C.bind(n, \"block.x\");\n"
    "  C.bind(mw, \"thread.z\");  C.bind(nw, \"thread.y\");\n"
    "  C.cache_write(n);\n"
    "  C.cache_read(A, k, %svectorize=8, name=As%s);\n"
    "  C.cache_read(B, k, vectorize=8, name=Bs%s);\n"
    "  C.unroll(ks);  C.unroll(mf);  C.unroll(nf);\n"
    "  C.tensorize(mi, mma);\n"
    "}\n";

static struct run
compiled(int m, int n, int k, const char *layout, const char *a, const char *b)
{
  struct tt_sb text = {0};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  tt_sb_printf(&text, product, m, n, k, layout, a, b);
#pragma GCC diagnostic pop
  struct run r = compile_text(tt_sb_str(&text), text.len);
  if (!r.result.program)
    fail_msg("%s", tt_sb_str(&r.text));
  tt_sb_free(&text);
  return r;
}

static void
lowered(struct run *r, struct tt_nest *nest)
{
  struct tt_schedule *s = tt_schedule_new(r->arena, r->result.program, false);
  const char *error = NULL;
  if (!tt_schedule_apply(s, &r->result.program->blocks[0], NULL) ||
      !tt_schedule_lower(r->arena, s, nest, &error))
    fail_msg("%s", error ? error : s->error);
}

/* A row of the first operand is what an instruction has in one, whichever
 * loops are outside of it. */
static const char loops[] = "layout=\"mw mf mi ks ki\", ";

static const struct copy {
  const char *text;
  int stages;
  int apart; /* rows of so many bytes and longer ones lie in different banks,
                for what copies them, too; 0: none do */
} copies[] = {
    {"", 1, 0},
    {", pad=8", 1, 128},
    {", pad=8, stages=2", 2, 128},
    {", pad=1, stages=3", 3, 128}, /* rounded up */
    {", stages=4", 4, 0},
    {", swizzle=8", 1, 64},
    {", swizzle=8, stages=2", 2, 64},
    {", swizzle=8, stages=3", 3, 64},
    {", swizzle=8, stages=4", 4, 64},
    {", swizzle=8, pad=8", 1, 256},
};
enum { COPIES = sizeof copies / sizeof *copies };

static void
check_banks(struct tt_arena *ar, const struct gpu_made *m, const char *name,
            const struct copy *c, int bytes)
{
  struct gpu_steps t = gpu_bank_steps(ar, &m->nest.kernels[0], name);
  assert_true(t.least > 0);
  if (c->apart && bytes >= c->apart && t.taken != t.least)
    fail_msg("%s%s: %lld steps instead of %lld", name, c->text,
             (long long)t.taken, (long long)t.least);
  if (!c->apart && t.taken == t.least)
    fail_msg("%s%s: nothing to mend", name, c->text);
}

static void
check_kernel(struct tt_arena *ar, const struct tt_nest *nest,
             const struct copy *a, const struct copy *b, int tiles)
{
  struct gpu_made m;
  assert_true(gpu_made(ar, nest, TT_CUDA, &m));
  const char *error = gpu_check_barriers(ar, &m);
  bool ahead = a->stages > 1 && b->stages > 1 && tiles > 1;
  if (!error && ahead && gpu_waits_in_loop(&m) != 1)
    error = "threads wait more than once a tile";
  if (error)
    fail_msg("A%s, B%s: %s", a->text, b->text, error);
  check_banks(ar, &m, "As", a, 64);
  check_banks(ar, &m, "Bs", b, 128);
  gpu_made_free(&m);
}

/* One tile of the sum, some, as many as stages, more. */
static void
copies_are_right(void **state)
{
  (void)state;
  static const int steps[] = {32, 64, 96, 192};
  for (int i = 0; i < (int)(sizeof steps / sizeof *steps); i++) {
    struct exec_case cases[2 * COPIES];
    struct tt_nest nests[COPIES];
    struct run runs[COPIES];
    struct tt_values *v = tt_values_new();
    int failed = 0;
    for (int k = 0; k < COPIES; k++) {
      const struct copy *a = &copies[k], *b = &copies[(k + i) % COPIES];
      runs[k] =
          compiled(128, 64, steps[i], k % 2 ? loops : "", a->text, b->text);
      lowered(&runs[k], &nests[k]);
      check_kernel(runs[k].arena, &nests[k], a, b, steps[i] / 32);
      if (k == 0) {
        tt_values_random(v, runs[0].result.program, 1);
        assert_null(tt_interpret_program(runs[0].result.program, v));
      }
      for (int wide = 0; wide < 2; wide++)
        cases[2 * k + wide] = (struct exec_case){
            .nest = &nests[k], .in = v, .want = v, .gpu = true, .wide = wide};
    }
    const char *error = exec_c(runs[0].arena, 2 * COPIES, cases, 0, &failed);
    if (error)
      fail_msg("%d steps, A%s: %s", steps[i], copies[failed / 2].text, error);
    tt_values_free(v);
    for (int k = 0; k < COPIES; k++)
      finish(&runs[k]);
  }
}

/* ---- what is printed ----------------------------------------------------- */

static void
prints(const char *a, const char *b, const char *const *texts)
{
  struct run r = compiled(128, 64, 192, "", a, b);
  struct tt_nest nest;
  struct tt_gpu_code code;
  struct tt_sb text = {0};
  lowered(&r, &nest);
  assert_null(tt_codegen_gpu(r.arena, &nest, TT_CUDA, NULL, &code, &text));
  for (; *texts; texts++)
    if (!strstr(tt_sb_str(&text), *texts))
      fail_msg("'%s' is not in %s", *texts, tt_sb_str(&text));
  tt_sb_free(&text);
  finish(&r);
}

/* Copies of 16 bytes, asynchronous with more than one stage; addresses of rows
 * that are padded and swizzled. */
static void
addresses_are_of_places(void **state)
{
  (void)state;
  prints("", ", pad=8",
         (const char *const[]){
             "*(uint4 *)&As[",
             "a(a, (&As[tz * 1024 + ((int)threadIdx.x % 16) * 32 + "
             "((int)threadIdx.x / 16 * 8)]));",
             "b(b, (&Bs[((int)threadIdx.x % 16) * 72 + ty * 32]));", NULL});
  prints(", swizzle=8, stages=3", ", stages=2",
         (const char *const[]){
             "cp.async.cg.shared.global [%0], [%1], 16;",
             "a(a, (&As[k % 3 * 2048 + tz * 1024 + ((int)threadIdx.x % 16) * "
             "32 + (((int)threadIdx.x / 16 * 8) ^ (((int)threadIdx.x % 16) / 2 "
             "% 4 * 8))]));",
             "b(b, (&Bs[k % 2 * 2048 + ((int)threadIdx.x % 16) * 64 + ty * "
             "32]));",
             NULL});
}

/* ---- what is refused ----------------------------------------------------- */

static const char by_rows[] =
    "input A[8,64], B[64,8]: i8; output C[8,8]: i32;\n"
    "intrin rows(c[8,8]: i32 reg \"c\", a[8,16]: i8 rows(1) aligned(16),\n"
    "            b[16,8]: i8) {\n"
    "  c[i,j] += sum[k](i32(a[i,k]) * i32(b[k,j]));  threads \"32\";\n"
    "  init %{ $c; %} emit %{ $c + $a[$a.0] + $b[0]; %} store %{ $c; %}\n"
    "}\n"
    "intrin places(c[8,8]: i32 reg \"c\", a[8,16]: i8 rows(1) aligned(16),\n"
    "              b[16,8]: i8) {\n"
    "  c[i,j] += sum[k](i32(a[i,k]) * i32(b[k,j]));  threads \"32\";\n"
    "  init %{ $c; %} emit %{ $c + *$a(0, 1) + $b[0]; %} store %{ $c; %}\n"
    "}\n"
    "intrin dense(c[8,8]: i32 reg \"c\", a[8,16]: i8 contiguous(1),\n"
    "             b[16,8]: i8) {\n"
    "  c[i,j] += sum[k](i32(a[i,k]) * i32(b[k,j]));  threads \"32\";\n"
    "  init %{ $c; %} emit %{ $c + $a[0] + $b[0]; %} store %{ $c; %}\n"
    "}\n"
    "C[m,n] = sum[k](i32(A[m,k]) * i32(B[k,n]));\n"
    "schedule {\n"
    "  C.split(m, 8, mi); C.split(n, 8, nt); C.split(nt, 8, ni);\n"
    "  C.split(k, 16, ki); C.reorder(m, n, k, nt, mi, ni, ki);\n"
    "  C.bind(m, \"block.x\"); C.bind(nt, \"thread.y\"); C.cache_write(n);\n"
    "  C.cache_read(A, k, name=As, %s); C.tensorize(mi, %s);\n"
    "}\n";

static void
refused(const char *intrin, const char *copy, const char *why)
{
  struct tt_sb text = {0};
  const char *first = strstr(by_rows, "%s"), *second = strstr(first + 2, "%s");
  tt_sb_addn(&text, by_rows, (size_t)(first - by_rows));
  tt_sb_printf(&text, "%s%.*s%s%s", copy, (int)(second - first - 2), first + 2,
               intrin, second + 2);
  struct run r = compile_text(tt_sb_str(&text), text.len);
  if (!r.result.program)
    fail_msg("%s", tt_sb_str(&r.text));
  struct tt_schedule *s = tt_schedule_new(r.arena, r.result.program, false);
  struct tt_nest nest;
  struct tt_gpu_code code;
  const char *error = NULL;
  tt_sb_clear(&text);
  if (!tt_schedule_apply(s, &r.result.program->blocks[0], NULL))
    error = s->error;
  else if (tt_schedule_lower(r.arena, s, &nest, &error))
    error = tt_codegen_gpu(r.arena, &nest, TT_CUDA, NULL, &code, &text);
  if (why ? !error || !strstr(error, why) : error != NULL)
    fail_msg("%s, %s: %s", intrin, copy, error ? error : "not refused");
  tt_sb_free(&text);
  finish(&r);
}

static void
mismatches_are_named(void **state)
{
  (void)state;
  refused("rows", "swizzle=16",
          "rows does not match: a, in As, is swizzled, and its text takes its "
          "rows as they lie: $in(row, column) asks where each is");
  refused("places", "swizzle=8",
          "places does not match: a, in As, is swizzled by groups of 8 bytes, "
          "and read by 16");
  refused("places", "swizzle=16", NULL);
  refused("places", "pad=4", NULL);
  refused("rows", "pad=4", NULL);
  refused("dense", "pad=16",
          "As cannot be padded so in a GPU's shared memory: dense does not "
          "match: a, in As, has stride");
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(copies_are_right),
      cmocka_unit_test(addresses_are_of_places),
      cmocka_unit_test(mismatches_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
