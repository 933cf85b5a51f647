/* Instructions that come with the tool: each of them, under tiles of its own,
 * computes what it says where it is not there, and default schedules have those
 * that an architecture has. */
#include "config.h"

#include "schedule/state.h"
#include "tests/compile.h"
#include "tests/exec_ptx.h"
#include "tests/gpu_made.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

enum { MAX_CASES = 64 };

static struct run
compile_for(enum tt_built_in built_in, const char *text)
{
  struct run r = compile_built_in(text, built_in);
  if (!r.result.program)
    fail_msg("%s", tt_sb_str(&r.text));
  return r;
}

static const struct tt_gpu_limits a_gpu = {.lanes = 1,
                                           .units = 80,
                                           .warp = 32,
                                           .threads = 1024,
                                           .items = {1024, 1024, 64},
                                           .shared = 48 << 10,
                                           .scratchpad = true,
                                           .registers = 255};

/* ---- the texts ---------------------------------------------------------- */

static void
texts_are_programs(void **state)
{
  (void)state;
  const enum tt_built_in all[] = {TT_BUILT_IN_CUDA, TT_BUILT_IN_OPENCL};
  for (int i = 0; i < 2; i++) {
    const char *name, *text = tt_built_in_text(all[i], &name);
    struct run r = compile_text(text, strlen(text));
    if (!r.result.program || r.text.len)
      fail_msg("%s: %s", name, tt_sb_str(&r.text));
    struct run with = compile_for(all[i], "output Y[4]: f32; Y[i] = 1.0;");
    assert_int_equal(with.result.program->nintrins, r.result.program->nintrins);
    for (int k = 0; k < with.result.program->nintrins; k++) {
      const struct tt_intrin *in = with.result.program->intrins[k];
      assert_true(in->built_in);
      if (all[i] == TT_BUILT_IN_CUDA)
        assert_in_range(tt_intrin_arch(in), 610, 800);
    }
    finish(&with);
    finish(&r);
  }
  struct run none = compile_for(TT_BUILT_IN_NONE, "output Y: f32; Y = 1.0;");
  assert_int_equal(none.result.program->nintrins, 0);
  finish(&none);
}

static void
own_ones_come_first(void **state)
{
  (void)state;
  static const char text[] = "output Y[4]: f32; Y[i] = 1.0;\n"
                             "intrin dp4a(c: i32, a[2]: i8) {\n"
                             "  c += sum[k](i32(a[k]));\n"
                             "  guard \"0 || __CUDA_ARCH__>=350\";\n"
                             "  emit %{ $c += $a[0] + $a[1]; %} }\n";
  struct run r = compile_for(TT_BUILT_IN_CUDA, text);
  const struct tt_program *p = r.result.program;
  int n = 0;
  for (int i = 0; i < p->nintrins; i++)
    n += strcmp(p->intrins[i]->name, "dp4a") == 0;
  assert_int_equal(n, 1);
  assert_false(p->intrins[0]->built_in);
  assert_int_equal(p->intrins[0]->noperands, 2);
  assert_int_equal(tt_intrin_arch(p->intrins[0]), 350);
  finish(&r);
}

/* ---- what they compute -------------------------------------------------- */

/* "A[m,k]" of an operand, or with sizes; one of bytes has no rows. */
static const char *
shape(struct tt_arena *ar, const char *name, const char *row,
      const struct tt_operand_of *o, const char *const *names)
{
  if (o->tensor->ndim == 1)
    return tt_arena_printf(ar, "%s[%s,%s]", name, row, names[2]);
  return tt_arena_printf(ar, "%s[%s,%s]", name, names[o->index[0]],
                         names[o->index[1]]);
}

/* The product that the instruction is for; with a stage after it that takes
 * its sums, or without. */
static const char *
product_of(struct tt_arena *ar, const struct tt_intrin *in,
           const char *const *sizes, bool finished)
{
  static const char *const vars[] = {"m", "n", "k"};
  const char *m = sizes[0], *n = sizes[1];
  const struct tt_operand_of *c = &in->operands[0], *a = &in->operands[1],
                             *b = &in->operands[2];
  const char *from = tt_dtype_name(a->tensor->dtype);
  const char *to = tt_dtype_name(c->tensor->dtype);
  const char *sum = tt_arena_printf(ar, "[m,n] = sum[k](%s(%s) * %s(%s));\n",
                                    to, shape(ar, "A", "m", a, vars), to,
                                    shape(ar, "B", "n", b, vars));
  const char *inputs = tt_arena_printf(
      ar, "input %s, %s: %s; output C[%s,%s]: ", shape(ar, "A", m, a, sizes),
      shape(ar, "B", n, b, sizes), from, m, n);
  if (!finished)
    return tt_arena_printf(ar, "%s%s; C%s", inputs, to, sum);
  if (tt_dtype_is_float(a->tensor->dtype))
    return tt_arena_printf(ar,
                           "%s%s; input b[%s]: f32; T%s"
                           "C[m,n] = %s(max(T[m,n] + b[n], 0.0));",
                           inputs, from, n, sum, from);
  return tt_arena_printf(ar,
                         "%sf32; input s[%s]: f32; T%s"
                         "C[m,n] = f32(T[m,n]) * s[m];",
                         inputs, m, sum);
}

/* A warp for tiles of results, or a thread for each. */
static void
use(struct tt_schedule *s, const struct tt_intrin *in)
{
  struct tt_gpu_warps w = {2, 1, 1, 2, 2, 3, 2};
  if (in->threads > 1) {
    if (tt_gpu_tensor(s, 0, in, &w) != TT_GPU_DONE)
      fail_msg("%s does not match its own statement: %s", in->name,
               s->error ? s->error : "");
    return;
  }
  int inner = tt_split(s, 0, 2, in->reduce[0]->extent, "ki", TT_TAIL_PEEL);
  if (inner < 0 || !tt_tensorize(s, 0, inner, in))
    fail_msg("%s: %s", in->name, s->error);
  tt_gpu_bind(s, 0, &tt_gpu_unknown);
}

/* No thread reads or overwrites too early, all wait once a tile, and matrices
 * whose places the text asks for find all banks free, as copies of vectors do.
 */
static void
check_copies(struct tt_arena *ar, const struct tt_nest *nest,
             const struct tt_intrin *in, bool vectors)
{
  struct gpu_made m;
  assert_true(gpu_made(ar, nest, TT_CUDA, &m));
  const char *error = gpu_check_barriers(ar, &m);
  if (!error && gpu_waits_in_loop(&m) != 1)
    error = "threads wait more than once a tile";
  bool apart = vectors && tt_operand_by_place(in, 1);
  for (int i = 0; i < 2 && !error && apart; i++) {
    struct gpu_steps t =
        gpu_bank_steps(ar, &m.nest.kernels[0], i ? "B_s" : "A_s");
    if (t.least == 0 || t.taken != t.least)
      error = tt_arena_printf(ar, "%lld steps instead of %lld",
                              (long long)t.taken, (long long)t.least);
  }
  if (error)
    fail_msg("%s: %s", in->name, error);
  gpu_made_free(&m);
}

/* Whole tiles, and ones with tails in every direction. */
static const char *const whole[] = {"64", "64", "128"};
static const char *const tails[] = {"50", "50", "120"};

/* Its sums are results, or finished by another stage; in plain C, where it is
 * not there, or compiled by nvcc, where it is. */
static void
check_all(enum tt_built_in built_in, const char *const *sizes, bool finished,
          bool compiled)
{
  struct run all = compile_for(built_in, "output Y: f32; Y = 1.0;");
  struct tt_arena *ar = all.arena;
  const struct tt_program *p = all.result.program;
  struct exec_case cases[MAX_CASES];
  struct tt_nest nests[MAX_CASES];
  struct run runs[MAX_CASES];
  int failed = 0;
  assert_true(p->nintrins <= MAX_CASES);
  for (int i = 0; i < p->nintrins; i++) {
    const struct tt_intrin *in = p->intrins[i];
    const char *error = NULL;
    runs[i] = compile_for(built_in, product_of(ar, in, sizes, finished));
    const struct tt_program *q = runs[i].result.program;
    struct tt_schedule *s = tt_schedule_new(ar, q, false);
    use(s, tt_find_intrin(s, in->name));
    assert_non_null(s->stages[0].intrin);
    if (finished && !tt_finish(s, 1, 0))
      fail_msg("%s: %s", in->name, s->error);
    if (!tt_schedule_lower(ar, s, &nests[i], &error))
      fail_msg("%s: %s", in->name, error);
    if (in->threads > 1)
      check_copies(ar, &nests[i], in, sizes == whole);
    struct tt_values *want = tt_values_new();
    tt_values_random(want, q, (uint64_t)i);
    assert_null(tt_interpret_program(q, want));
    cases[i] = (struct exec_case){.nest = &nests[i],
                                  .in = want,
                                  .want = want,
                                  .gpu = true,
                                  .wide = built_in == TT_BUILT_IN_OPENCL};
  }
  const char *error =
      compiled ? exec_ptx(ar, "sm_80", p->nintrins, cases, NULL, &failed)
               : exec_c(ar, p->nintrins, cases, 0, &failed);
  if (error)
    fail_msg("%s: %s", p->intrins[failed]->name, error);
  for (int i = 0; i < p->nintrins; i++) {
    tt_values_free(cases[i].want);
    finish(&runs[i]);
  }
  finish(&all);
}

static void
each_is_right(void **state)
{
  (void)state;
  check_all(TT_BUILT_IN_CUDA, whole, false, false);
  check_all(TT_BUILT_IN_OPENCL, whole, false, false);
}

static void
their_sums_can_be_finished(void **state)
{
  (void)state;
  check_all(TT_BUILT_IN_CUDA, whole, true, false);
}

static void
tails_are_padded(void **state)
{
  (void)state;
  check_all(TT_BUILT_IN_CUDA, tails, false, false);
  check_all(TT_BUILT_IN_CUDA, tails, true, false);
}

/* Threads that each have accumulators of their own cannot store them together.
 */
static void
reach_is_named(void **state)
{
  (void)state;
  static const char text[] =
      "input A[64,16], B[16,16]: f16; output C[64,16]: f16;\n"
      "T[m,n] = sum[k](f32(A[m,k]) * f32(B[k,n]));\n"
      "C[m,n] = f16(T[m,n]);\n"
      "schedule {\n"
      "  T.split(m, 16, mi);  T.split(n, 16, ni);  T.split(k, 16, ki);\n"
      "  T.reorder(m, n, k, mi, ni, ki);\n"
      "  T.bind(m, \"thread.y\");  T.cache_write(n);\n"
      "  T.tensorize(mi, wmma_f16_nn);  C.finish(T);\n"
      "}\n";
  struct run r = compile_for(TT_BUILT_IN_CUDA, text);
  struct tt_schedule *s = tt_schedule_new(r.arena, r.result.program, false);
  const struct tt_scall *bad = NULL;
  assert_false(tt_schedule_apply(s, &r.result.program->blocks[0], &bad));
  assert_string_equal(bad->primitive, "finish");
  assert_string_equal(s->error,
                      "loop m of T is outside the accumulators: C cannot take "
                      "the sums that the 32 threads of wmma_f16_nn store "
                      "together");
  finish(&r);
}

static void
each_is_right_compiled(void **state)
{
  (void)state;
  if (!exec_ptx_can()) {
    fprintf(stderr, "skipped: no nvcc\n");
    skip();
  }
  check_all(TT_BUILT_IN_CUDA, whole, false, true);
  check_all(TT_BUILT_IN_CUDA, whole, true, true);
  check_all(TT_BUILT_IN_CUDA, tails, false, true);
}

/* ---- default schedules -------------------------------------------------- */

static const struct {
  const char *type, *sum, *a, *b;
  int arch;
  const char *name; /* of the instruction; NULL: none */
} defaults[] = {
    {"f16", "f32", "m,k", "k,n", 80, "mma_f16_nn"},
    {"f16", "f32", "m,k", "n,k", 90, "mma_f16_nt"},
    {"f16", "f32", "k,m", "k,n", 80, "mma_f16_tn"},
    {"f16", "f32", "k,m", "n,k", 80, "mma_f16_tt"},
    {"f16", "f32", "m,k", "k,n", 75, "wmma_f16_nn"},
    {"f16", "f32", "k,m", "n,k", 70, "wmma_f16_tt"},
    {"f16", "f32", "m,k", "k,n", 61, NULL},
    {"f16", "f32", "m,k", "k,n", 0, NULL},
    {"bf16", "f32", "m,k", "n,k", 80, "mma_bf16_nt"},
    {"bf16", "f32", "m,k", "n,k", 75, NULL},
    {"i8", "i32", "m,k", "n,k", 80, "mma_s8_nt"},
    {"i8", "i32", "m,k", "k,n", 80, "wmma_s8_nn"},
    {"i8", "i32", "m,k", "n,k", 75, "wmma_s8_nt"},
    {"u8", "i32", "m,k", "n,k", 86, "mma_u8_nt"},
    {"i8", "i32", "m,k", "n,k", 61, "dp4a"},
    {"u8", "i32", "m,k", "k,n", 70, "dp4a_u8"},
    {"i8", "i32", "m,k", "n,k", 60, NULL},
    {"f32", "f32", "m,k", "k,n", 90, NULL},
};

static const char *
size_of(char axis)
{
  return axis == 'm' ? "96" : axis == 'n' ? "64" : "64";
}

static const char *
dims(struct tt_arena *ar, const char *axes)
{
  return tt_arena_printf(ar, "%s,%s", size_of(axes[0]), size_of(axes[2]));
}

static const char *
text_of(struct tt_arena *ar, size_t i)
{
  return tt_arena_printf(ar,
                         "input A[%s], B[%s]: %s; output C[96,64]: %s;\n"
                         "C[m,n] = sum[k](%s(A[%s]) * %s(B[%s]));\n",
                         dims(ar, defaults[i].a), dims(ar, defaults[i].b),
                         defaults[i].type, defaults[i].sum, defaults[i].sum,
                         defaults[i].a, defaults[i].sum, defaults[i].b);
}

/* And what they have computes the same, compiled by nvcc, too. */
static void
architectures_have_theirs(void **state)
{
  (void)state;
  enum { N = sizeof defaults / sizeof *defaults };
  struct exec_case cases[N];
  struct tt_nest nests[N];
  struct run runs[N];
  struct tt_arena *texts = tt_arena_new();
  bool compiles = exec_ptx_can();
  int failed = 0;
  for (size_t i = 0; i < N; i++) {
    const char *text = text_of(texts, i), *want = defaults[i].name;
    const char *error = NULL;
    runs[i] = compile_for(TT_BUILT_IN_CUDA, text);
    struct tt_arena *ar = runs[i].arena;
    const struct tt_program *p = runs[i].result.program;
    struct tt_gpu_limits g = a_gpu;
    g.arch = defaults[i].arch;
    const struct tt_schedule *s =
        tt_gpu_schedule(ar, p, &g, false, TT_GPU_TENSORS);
    const struct tt_intrin *in = s->stages[0].intrin;
    if (!in != !want || (in && strcmp(in->name, want) != 0))
      fail_msg("%s sm_%d: %s, not %s", text, g.arch, in ? in->name : "none",
               want ? want : "none");
    if (!tt_schedule_lower(ar, s, &nests[i], &error))
      fail_msg("%s: %s", text, error);
    struct tt_values *values = tt_values_new();
    tt_values_random(values, p, i);
    assert_null(tt_interpret_program(p, values));
    cases[i] = (struct exec_case){
        .nest = &nests[i], .in = values, .want = values, .gpu = true};
    if (want && compiles)
      error =
          exec_ptx(ar, tt_arena_printf(ar, "sm_%d", g.arch < 75 ? 75 : g.arch),
                   1, &cases[i], NULL, NULL);
    if (error)
      fail_msg("%s sm_%d: %s", text, g.arch, error);
    g.vectors = true; /* OpenCL */
    s = tt_gpu_schedule(ar, p, &g, false, TT_GPU_TENSORS);
    assert_null(s->stages[0].intrin);
  }
  const char *error = exec_c(texts, N, cases, 0, &failed);
  if (error)
    fail_msg("%s: %s", text_of(texts, (size_t)failed), error);
  for (size_t i = 0; i < N; i++) {
    tt_values_free(cases[i].want);
    finish(&runs[i]);
  }
  tt_arena_free(texts);
}

/* One that a CPU has stays out of default schedules. */
static void
those_of_cpus_are_left_out(void **state)
{
  (void)state;
  static const char text[] = "input A[64,64], B[64,64]: i8;\n"
                             "output C[64,64]: i32;\n"
                             "intrin dot(c: i32, a[4]: i8, b[4]: i8) {\n"
                             "  c += sum[k](i32(a[k]) * i32(b[k]));\n"
                             "  guard \"__AVX512VNNI__\"; emit %{ $c; %} }\n"
                             "C[m,n] = sum[k](i32(A[m,k]) * i32(B[n,k]));\n";
  struct run r = compile_for(TT_BUILT_IN_NONE, text);
  struct tt_gpu_limits g = a_gpu;
  g.arch = 60;
  const struct tt_schedule *s =
      tt_gpu_schedule(r.arena, r.result.program, &g, false, TT_GPU_TENSORS);
  assert_null(s->stages[0].intrin);
  finish(&r);
}

/* So do spaces: what a search begins with. */
static void
spaces_have_theirs(void **state)
{
  (void)state;
  static const char text[] = "input A[96,64], B[64,64]: i8;\n"
                             "output C[96,64]: i32;\n"
                             "C[m,n] = sum[k](i32(A[m,k]) * i32(B[n,k]));\n";
  static const struct {
    int arch;
    const char *name, *knob;
  } wanted[] = {
      {80, "mma_s8_nt", "C.intrin"}, {61, "dp4a", "C.dot"}, {60, NULL, NULL}};
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
    struct run r = compile_for(TT_BUILT_IN_CUDA, text);
    struct tt_target_model target = {.registers = 32, .gpu = a_gpu};
    target.gpu.arch = wanted[i].arch;
    struct tt_space *space =
        tt_gpu_space_new(r.arena, r.result.program, &target, false);
    int *config = TT_ARRAY(r.arena, int, (size_t)space->nknobs + 1);
    tt_gpu_space_default(space, config);
    struct tt_schedule *s = tt_gpu_space_schedule(r.arena, space, config);
    assert_non_null(s);
    const struct tt_intrin *in = s->stages[0].intrin;
    assert_string_equal(in ? in->name : "none",
                        wanted[i].name ? wanted[i].name : "none");
    bool knob = false;
    for (int k = 0; k < space->nknobs && wanted[i].knob; k++)
      knob |= strcmp(space->knobs[k].name, wanted[i].knob) == 0;
    assert_int_equal(knob, wanted[i].knob != NULL);
    finish(&r);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(texts_are_programs),
      cmocka_unit_test(own_ones_come_first),
      cmocka_unit_test(each_is_right),
      cmocka_unit_test(their_sums_can_be_finished),
      cmocka_unit_test(tails_are_padded),
      cmocka_unit_test(reach_is_named),
      cmocka_unit_test(each_is_right_compiled),
      cmocka_unit_test(architectures_have_theirs),
      cmocka_unit_test(those_of_cpus_are_left_out),
      cmocka_unit_test(spaces_have_theirs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
