/* CUDA C as nvcc understands it: kernels of the examples, and of random
 * programs under random schedules, compute what the interpreter of programs
 * does; and the interpreter of PTX finds what is wrong with others.
 *
 * TT_RANDOM_COUNT sets the number of random pairs, TT_RANDOM_SEED where they
 * start, TT_POINTS that of points of each product.  Skipped where there is no
 * nvcc.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/compile.h"
#include "tests/example_programs.h"
#include "tests/exec_ptx.h"
#include "tests/random_pairs.h"
#include "tests/random_program.h"
#include "tests/random_schedule.h"

enum { BATCH = 25 };

struct batch {
  struct tt_arena *arena;
  const char *arch;
  int n, skipped;
  struct exec_case cases[BATCH];
  struct random_pair pairs[BATCH];
  TT_VEC(struct tt_values *) values; /* what end() frees */
};

static void
begin(struct batch *b, const char *arch)
{
  *b = (struct batch){.arena = tt_arena_new(), .arch = arch};
}

/* Inputs and what the program makes of them; the batch's. */
static struct tt_values *
values(struct batch *b, const struct tt_program *p, uint64_t seed)
{
  struct tt_values *v = tt_values_new();
  tt_values_random(v, p, seed);
  const char *error = tt_interpret_program(p, v);
  if (error)
    fail_msg("seed %llu: %s", (unsigned long long)seed, error);
  TT_PUSH(b->values, v);
  return v;
}

static void
run_batch(struct batch *b)
{
  int failed = 0;
  const char *error =
      exec_ptx(b->arena, b->arch, b->n, b->cases, NULL, &failed);
  if (error)
    fail_pair(&b->pairs[failed], error);
  b->n = 0;
}

/* Schedules that exceed a limit of GPUs are counted, no more. */
static void
add(struct batch *b, struct tt_program *p, struct tt_schedule *s,
    struct tt_values *v, uint64_t seed)
{
  struct random_pair *pair = &b->pairs[b->n];
  struct tt_nest *nest = TT_NEW(b->arena, struct tt_nest);
  struct tt_gpu_code code;
  struct tt_sb text = {0};
  const char *error = NULL;
  bool fits = s && tt_schedule_lower(b->arena, s, nest, &error) &&
              !tt_codegen_gpu(b->arena, nest, TT_CUDA, NULL, &code, &text);
  tt_sb_free(&text);
  b->skipped += !fits;
  if (!fits)
    return;
  *pair = (struct random_pair){seed, p, s, *nest};
  b->cases[b->n] = (struct exec_case){.nest = nest, .in = v, .want = v};
  if (++b->n == BATCH)
    run_batch(b);
}

static void
end(struct batch *b)
{
  if (b->n)
    run_batch(b);
  for (int i = 0; i < b->values.n; i++)
    tt_values_free(b->values.items[i]);
  free(b->values.items);
  tt_arena_free(b->arena);
}

/* ---- programs ---------------------------------------------------------- */

/* By default, with their own schedules, and under points of the space. */
static void
examples_are_right(void **state)
{
  (void)state;
  struct batch b;
  begin(&b, "sm_90");
  for (int i = 0; i < tt_nexamples; i++) {
    struct tt_program *p = tt_example_program(b.arena, &tt_examples[i], false);
    if (!p)
      fail_msg("%s does not compile", tt_examples[i].file);
    struct tt_values *v = values(&b, p, 1);
    add(&b, p, tt_gpu_schedule(b.arena, p, &tt_gpu_unknown, false, true), v, 1);
    if (p->nblocks) {
      struct tt_schedule *own = tt_schedule_new(b.arena, p, false);
      if (tt_schedule_apply(own, &p->blocks[0], NULL))
        add(&b, p, own, v, 1);
    }
    assert_int_equal(b.skipped, 0);
    for (uint64_t seed = 3; seed < 5; seed++)
      add(&b, p, tt_random_gpu_point(b.arena, p, seed, false), v, seed);
    b.skipped = 0;
  }
  end(&b);
}

static void
add_random(struct batch *b, uint64_t seed)
{
  struct tt_program *p = tt_random_program(b->arena, seed);
  struct tt_schedule *s = seed % 3
                              ? tt_random_schedule(b->arena, p, 7 * seed + 5,
                                                   4 + (int)(seed % 30), false)
                              : tt_random_gpu_point(b->arena, p, seed, false);
  add(b, p, s, values(b, s ? s->program : p, seed), seed);
}

/* Pairs that were wrong once.  7105: two places of a kernel that only write
 * elements, without waiting in between. */
static void
random_kernels_stay_right(void **state)
{
  (void)state;
  static const uint64_t found[] = {1373, 7105};
  struct batch b;
  begin(&b, "sm_80");
  for (size_t i = 0; i < sizeof found / sizeof *found; i++)
    add_random(&b, found[i]);
  assert_int_equal(b.skipped, 0);
  end(&b);
}

static void
random_kernels_are_right(void **state)
{
  (void)state;
  const char *count = getenv("TT_RANDOM_COUNT");
  const char *start = getenv("TT_RANDOM_SEED");
  uint64_t first = start ? strtoull(start, NULL, 10) : 1;
  uint64_t n = count ? strtoull(count, NULL, 10) : start ? 1 : 50;
  int skips = 0;
  for (uint64_t i = first; i < first + n;) {
    struct batch b;
    begin(&b, i % 2 ? "sm_75" : "sm_80");
    for (uint64_t last = i + BATCH; i < last && i < first + n; i++)
      add_random(&b, i);
    end(&b);
    skips += b.skipped;
  }
  assert_true((uint64_t)skips * 2 <= n || n < 10);
}

/* ---- instructions of warps --------------------------------------------- */

/* Products that instructions which come with the tool match: in all layouts, of
 * sizes that tiles divide and others, and with a stage behind them. */
static const struct {
  const char *text;
  int arch;
} products[] = {
    {"input A[64,64], B[64,96]: f16; output C[64,96]: f32;\n"
     "C[m,n] = sum[k](f32(A[m,k]) * f32(B[k,n]));",
     80},
    {"input A[64,64], B[32,64]: bf16; output C[64,32]: f32;\n"
     "C[m,n] = sum[k](f32(A[m,k]) * f32(B[n,k]));",
     80},
    {"input A[64,128], B[64,64]: f16; input b[64]: f32; output C[128,64]: "
     "f16;\n"
     "T[m,n] = sum[k](f32(A[k,m]) * f32(B[k,n]));\n"
     "C[m,n] = f16(max(T[m,n] + b[n], 0.0));",
     80},
    {"input A[2,64,64], B[2,64,64]: f16; output C[2,64,64]: f32;\n"
     "C[b,m,n] = sum[k](f32(A[b,k,m]) * f32(B[b,n,k]));",
     90},
    {"input A[64,128], B[96,128]: i8; output C[64,96]: i32;\n"
     "C[m,n] = sum[k](i32(A[m,k]) * i32(B[n,k]));",
     80},
    {"input A[64,64], B[64,64]: u8; output C[64,64]: i32;\n"
     "C[m,n] = sum[k](i32(A[m,k]) * i32(B[k,n]));",
     75},
    {"input A[70,50], B[50,90]: f16; output C[70,90]: f32;\n"
     "C[m,n] = sum[k](f32(A[m,k]) * f32(B[k,n]));",
     80},
    {"input A[64,64], B[64,32]: f16; output C[64,32]: f32;\n"
     "C[m,n] = sum[k](f32(A[m,k]) * f32(B[k,n]));",
     75},
};

static const struct tt_space *
space_of(struct tt_arena *ar, const struct tt_program *p, int arch)
{
  const struct tt_target_model target = {.registers = 32,
                                         .gpu = {.lanes = 1,
                                                 .units = 80,
                                                 .threads = 1024,
                                                 .items = {1024, 1024, 64},
                                                 .shared = 48 << 10,
                                                 .scratchpad = true,
                                                 .registers = 255,
                                                 .arch = arch}};
  return tt_gpu_space_new(ar, p, &target, false);
}

/* The default configuration, and some drawn at random of which at least one has
 * an instruction. */
static void
points_of_products_are_right(void **state)
{
  (void)state;
  const char *count = getenv("TT_POINTS");
  int points = count ? atoi(count) : 4;
  uint64_t dice = 88172645463325252u;
  for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
    struct batch b;
    int arch = products[i].arch;
    begin(&b, arch == 75 ? "sm_75" : arch == 80 ? "sm_80" : "sm_90");
    struct run r = compile_built_in(products[i].text, TT_BUILT_IN_CUDA);
    struct tt_program *p = r.result.program;
    if (!p)
      fail_msg("%s", tt_sb_str(&r.text));
    const struct tt_space *space = space_of(b.arena, p, arch);
    struct tt_values *v = values(&b, p, i);
    int *config = TT_ARRAY(b.arena, int, (size_t)space->nknobs + 1);
    int with = 0;
    for (int n = 0, tries = 0; n < points && tries < 50 * points; tries++) {
      tt_gpu_space_default(space, config);
      for (int k = 0; k < space->nknobs && tries > 0; k++) {
        dice = dice * 6364136223846793005u + 1442695040888963407u;
        if (dice >> 63)
          config[k] = (int)((dice >> 33) % (uint64_t)space->knobs[k].n);
      }
      struct tt_schedule *s = tt_gpu_space_schedule(b.arena, space, config);
      int skipped = b.skipped;
      bool has = s && s->stages[0].intrin;
      if (!has && tries > 0)
        continue;
      add(&b, p, s, v, i);
      n += b.skipped == skipped;
      with += has && b.skipped == skipped;
    }
    if (with == 0)
      fail_msg("%s: no point has an instruction", products[i].text);
    end(&b);
    finish(&r);
  }
}

/* ---- compilers --------------------------------------------------------- */

/* Products of two bytes of a word each that are added up: nvcc 13 takes bytes 0
 * and 2 for halves.  With operands in registers, in an array, and neither. */
static const char *const bytes[] = {
    "input X[8,2,2], P[2]: i8; output Y[8,2]: i32;\n"
    "Y[i,s] = sum[r](i32(X[i,r,s]) * i32(P[r]));\n"
    "schedule { Y.bind(i, \"thread.x\"); Y.unroll(s); Y.unroll(r); }\n",
    "input X[8,2,2], P[2,2]: i8; output Y[8,2,2]: i32;\n"
    "Y[i,s,t] = sum[r](i32(X[i,r,s]) * i32(P[r,t]));\n"
    "schedule { Y.bind(i, \"thread.x\"); Y.unroll(s); Y.unroll(t);\n"
    "  Y.cache_write(s); Y.unroll(r); }\n",
    "input X[8,2,2], P[2]: u8; output Y[8,2]: i32;\n"
    "W[i,r,s] = i32(X[i,r,s]);\n"
    "Y[i,s] = sum[r](W[i,r,s] * i32(P[r]));\n"
    "schedule { Y.bind(i, \"thread.x\"); W.compute_at(Y, i); Y.unroll(s);\n"
    "  Y.unroll(r); W.unroll(r); W.unroll(s); }\n",
};

/* 16-bit floats that are only read, and only written. */
static const char *const halves[] = {
    "input X[40]: f16; output Y[40]: f32; Y[i] = f32(X[i]) * 2;",
    "input X[40]: f32; output Y[40]: f16; Y[i] = f16(X[i]);",
    "input X[40]: bf16; output Y[40]: f32; Y[i] = f32(X[i]) * 2;",
    "input X[40]: f32; output Y[40]: bf16; Y[i] = bf16(X[i]);",
};

/* Alone in a file, under the program's own schedule or the default one. */
static void
check_text(const char *text)
{
  struct batch b;
  begin(&b, "sm_75");
  struct run r = compile_text(text, strlen(text));
  struct tt_program *p = r.result.program;
  if (!p)
    fail_msg("%s", tt_sb_str(&r.text));
  struct tt_schedule *s =
      p->nblocks ? tt_schedule_new(b.arena, p, false)
                 : tt_gpu_schedule(b.arena, p, &tt_gpu_unknown, false, true);
  if (p->nblocks && !tt_schedule_apply(s, &p->blocks[0], NULL))
    fail_msg("%s", s->error);
  add(&b, p, s, values(&b, p, 1), 1);
  assert_int_equal(b.skipped, 0);
  end(&b);
  finish(&r);
}

static void
bytes_are_no_halves(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
    check_text(bytes[i]);
}

static void
conversions_have_their_header(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof halves / sizeof *halves; i++)
    check_text(halves[i]);
}

/* ---- faults ------------------------------------------------------------ */

static const char staged[] =
    "param M = 32, N = 64, K = 64;\n"
    "input A[M,K], B[K,N]: f32; output C[M,N]: f32;\n"
    "C[m,n] = sum[k](A[m,k] * B[k,n]);\n"
    "schedule { C.split(m, 16, my); C.split(my, 4, mr);\n"
    "  C.split(n, 32, nx); C.split(nx, 4, nr); C.split(k, 8, ki);\n"
    "  C.reorder(m, n, k, my, nx, ki, mr, nr);\n"
    "  C.bind(m, \"block.y\"); C.bind(n, \"block.x\");\n"
    "  C.bind(my, \"thread.y\"); C.bind(nx, \"thread.x\"); C.cache_write(n);\n"
    "  C.cache_read(A, k, pad=4, stages=3);\n"
    "  C.cache_read(B, k, vectorize=4, stages=3);\n"
    "  C.unroll(mr); C.unroll(nr); }\n";

/* A product by the instructions of a file's own. */
static struct run
example(const char *file)
{
  static const struct tt_define sizes[] = {
      {"M", "128"}, {"N", "128"}, {"K", "64"}};
  const struct tt_frontend_options o = {3, sizes, 0, NULL, 0};
  const char *top = getenv("abs_top_srcdir");
  struct run r = start();
  r.result = tt_compile_file(
      r.arena, r.diags,
      tt_arena_printf(r.arena, "%s/examples/%s", top ? top : "..", file), &o,
      false);
  return r;
}

static const struct {
  const char *file; /* NULL: the text above */
  struct ptx_edit edit;
  const char *says;
} faults[] = {
    {NULL, {"bar.sync", "// bar.sync"}, " instead of "},
    {NULL, {"cp.async.wait_group", "cp.async.wait_group 9; //"}, ""},
    {NULL, {"st.global", "st.shared"}, "outside of all buffers"},
    {NULL, {"fma.rn", "fma.rx"}, "unknown instruction"},
    {"hgemm.te", {"bar.sync", "// bar.sync"}, " instead of "},
    {"hgemm.te",
     {"wmma.load.b.sync.aligned.row", "wmma.load.b.sync.aligned.col"},
     " instead of "},
    {"hgemm_mma.te", {"bar.sync", "// bar.sync"}, " instead of "},
    {"hgemm_mma.te", {".trans", ""}, " instead of "},
};

static void
faults_are_found(void **state)
{
  (void)state;
  const char *before = "";
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    const char *file = faults[i].file ? faults[i].file : "";
    struct run r = *file ? example(file) : compile_text(staged, strlen(staged));
    struct tt_program *p = r.result.program;
    assert_non_null(p);
    struct tt_schedule *s = tt_schedule_new(r.arena, p, false);
    struct tt_nest nest;
    const char *error = NULL;
    if (!tt_schedule_apply(s, &p->blocks[0], NULL) ||
        !tt_schedule_lower(r.arena, s, &nest, &error))
      fail_msg("%s", error ? error : s->error);
    struct tt_values *v = tt_values_new();
    tt_values_random(v, p, 1);
    assert_null(tt_interpret_program(p, v));
    const struct exec_case c = {.nest = &nest, .in = v, .want = v};
    /* As it is, it is right. */
    if (strcmp(file, before) != 0 || i == 0)
      error = exec_ptx(r.arena, "sm_80", 1, &c, NULL, NULL);
    if (error)
      fail_msg("%s: %s", file, error);
    error = exec_ptx(r.arena, "sm_80", 1, &c, &faults[i].edit, NULL);
    if (!error || !strstr(error, faults[i].says))
      fail_msg("%s, %s: %s", file, faults[i].edit.to,
               error ? error : "not found");
    before = file;
    tt_values_free(v);
    finish(&r);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(examples_are_right),
      cmocka_unit_test(random_kernels_are_right),
      cmocka_unit_test(random_kernels_stay_right),
      cmocka_unit_test(points_of_products_are_right),
      cmocka_unit_test(bytes_are_no_halves),
      cmocka_unit_test(conversions_have_their_header),
      cmocka_unit_test(faults_are_found),
  };
  if (!exec_ptx_can()) {
    fprintf(stderr, "skipped: no nvcc\n");
    return 77;
  }
  if (getenv("TT_RANDOM_SEED"))
    cmocka_set_test_filter("random_kernels_are*");
  return cmocka_run_group_tests(tests, NULL, NULL);
}
