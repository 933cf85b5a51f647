/* Instructions that programs declare: what is refused, and random programs
 * that contain their statements under random schedules, with their C text and
 * without. */
#include "config.h"

#include "tests/compile.h"
#include "tests/example_programs.h"
#include "tests/random_pairs.h"
#include "tests/random_schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

/* ---- intrins whose text is C ------------------------------------------- */

/* %s: the guard.  A result in a register, rows that must lie together; one of
 * three sizes with any strides, its second operand in a register, too; a
 * scalar result; one without a sum; one that adds nothing up; and one that
 * eight threads execute together, which in C none do. */
static const char intrins[] =
    "intrin dot4x4(c[4]: i32 reg \"struct { int32_t x[4]; }\","
    "              a[4,4]: i8 contiguous(1), b[4]: i8 contiguous(1)) {\n"
    "  c[i] += sum[k](i32(a[i,k]) * i32(b[k]));\n"
    "  guard \"%s\"; header \"string.h\";\n"
    "  init %%{ memset(&$c, 0, sizeof $c); %%}\n"
    "  emit %%{ for (int i_ = 0; i_ < 4; i_++)\n"
    "             for (int k_ = 0; k_ < 4; k_++)\n"
    "               $c.x[i_] += $a[4 * i_ + k_] * $b[k_]; %%}\n"
    "  store %%{ for (int i_ = 0; i_ < 4; i_++)\n"
    "              $out[i_ * $out.0] = $c.x[i_]; %%}\n"
    "}\n"
    "intrin mm(c[2,3]: i32 reg \"struct { int32_t x[6]; }\","
    "          a[2,4]: i8, b[4,3]: i8 reg \"struct { int8_t x[12]; }\") {\n"
    "  c[i,j] += sum[k](i32(a[i,k]) * i32(b[k,j]));\n"
    "  guard \"%s\";\n"
    "  init %%{ for (int i_ = 0; i_ < 6; i_++) $c.x[i_] = 0; %%}\n"
    "  b %%{ for (int k_ = 0; k_ < 4; k_++)\n"
    "          for (int j_ = 0; j_ < 3; j_++)\n"
    "            $b.x[3 * k_ + j_] = *$in(k_, j_); %%}\n"
    "  emit %%{ for (int i_ = 0; i_ < 2; i_++)\n"
    "             for (int j_ = 0; j_ < 3; j_++)\n"
    "               for (int k_ = 0; k_ < 4; k_++)\n"
    "                 $c.x[3 * i_ + j_] +=\n"
    "                     $a[i_ * $a.0 + k_ * $a.1] * $b.x[3 * k_ + j_]; %%}\n"
    "  store %%{ for (int i_ = 0; i_ < 2; i_++)\n"
    "              for (int j_ = 0; j_ < 3; j_++)\n"
    "                $out[i_ * $out.0 + j_ * $out.1] = $c.x[3 * i_ + j_]; %%}\n"
    "}\n"
    "intrin dot4(c: i32, a[4]: i8 contiguous(1), b[4]: i8) {\n"
    "  c += sum[k](i32(a[k]) * i32(b[k]));\n"
    "  guard \"%s\";\n"
    "  emit %%{ for (int k_ = 0; k_ < 4; k_++) $c += $a[k_] * $b[k_ * $b.0]; "
    "%%}\n"
    "}\n"
    "intrin axpy(c[4]: i32, a: i8, b[4]: i8 rows(1)) {\n"
    "  c[i] += i32(a) * i32(b[i]);\n"
    "  guard \"%s\";\n"
    "  emit %%{ for (int i_ = 0; i_ < 4; i_++)\n"
    "             $c[i_ * $c.0] += $a * $b[i_]; %%}\n"
    "}\n"
    "intrin add4(c[4]: i32 contiguous(1), a[4]: i32 contiguous(1)) {\n"
    "  c[i] = 3 * a[i] + 1;\n"
    "  guard \"%s\";\n"
    "  emit %%{ for (int i_ = 0; i_ < 4; i_++) $c[i_] = 3 * $a[i_] + 1; %%}\n"
    "}\n"
    "intrin warp(c[2,2]: i32 reg \"fragment\", a[2,4]: i8, b[4,2]: i8) {\n"
    "  c[i,j] += sum[k](i32(a[i,k]) * i32(b[k,j]));\n"
    "  threads \"8\";\n"
    "  init %%{ #error %%} emit %%{ #error %%} store %%{ #error %%}\n"
    "}\n";

static const char *const programs[] = {
    "input A[%d,%d], B[%d,%d]: i8; output C[%d,%d]: i32;\n"
    "C[m,n] = sum[k](i32(A[m,k]) * i32(B[k,n]));\n",
    "input A[%d,%d], B[%d,%d]: i8; output C[%d,%d]: i32;\n"
    "C[m,n] = sum[k](i32(B[n,k]) * i32(A[m,k]));\n",
    "input A[%d,%d], B[%d,%d]: i8; output C[%d,%d]: i32;\n"
    "T[m,n] = sum[k](i32(A[m,k]) * i32(B[k,n]));\n"
    "C[m,n] = 3 * T[m,n] + 1;\n",
};

/* Sizes that the intrins divide, more often than not. */
static int
size(uint64_t seed, int which)
{
  static const int sizes[] = {12, 24, 8, 12, 16, 13, 36, 7};
  uint64_t h = (seed * 8 + (uint64_t)which) * 0x9E3779B97F4A7C15u;
  return sizes[h >> 61];
}

static struct tt_frontend_result
random_text(struct tt_arena *ar, uint64_t seed, bool on)
{
  struct tt_sb text = {0};
  const char *guard = on ? "1" : "0";
  int m = size(seed, 0), n = size(seed, 1), k = size(seed, 2);
  bool turned = seed % 3 == 1;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  tt_sb_printf(&text, intrins, guard, guard, guard, guard, guard);
  tt_sb_printf(&text, programs[seed % 3], m, k, turned ? n : k, turned ? k : n,
               m, n);
#pragma GCC diagnostic pop
  struct tt_diags *diags = tt_diags_new(ar);
  struct tt_frontend_result r = tt_compile_text(
      ar, diags, "t.te", tt_sb_str(&text), text.len, NULL, false);
  struct tt_sb said = {0};
  tt_diags_print(diags, &said, false);
  if (!r.program)
    fail_msg("%s", tt_sb_str(&said));
  tt_sb_free(&said);
  tt_sb_free(&text);
  return r;
}

static int tensorized;

static void
count_tensorized(const struct tt_stmt *s)
{
  tensorized += s->kind == TT_INTRIN && s->op == TT_INTRIN_EMIT;
  for (int i = 0; i < s->nitems; i++)
    count_tensorized(s->items[i]);
  if (s->body)
    count_tensorized(s->body);
  if (s->other)
    count_tensorized(s->other);
}

static bool
make_case(struct tt_arena *ar, struct random_pair *p, struct exec_case *c)
{
  const char *error = NULL;
  p->program = random_text(ar, p->seed, p->seed % 4 != 0).program;
  p->schedule = tt_random_schedule(ar, p->program, p->seed,
                                   4 + (int)(p->seed % 24), false);
  if (!tt_schedule_lower(ar, p->schedule, &p->nest, &error))
    return false;
  count_tensorized(p->nest.body);
  *c = (struct exec_case){.nest = &p->nest, .options = {.vector_bytes = 32}};
  c->options.verify_each = true;
  c->gpu = p->schedule->nbound > 0 || p->seed % 8 == 5;
  c->wide = c->gpu && p->seed % 2;
  c->in = c->want = tt_values_new();
  tt_values_random(c->in, p->program, p->seed);
  struct tt_values *got = tt_values_new();
  tt_values_random(got, p->program, p->seed);
  error = tt_interpret_program(p->program, c->want);
  if (!error)
    error = tt_interpret_nest(&p->nest, got);
  if (error)
    fail_pair(p, error);
  tt_values_free(got);
  struct tt_gpu_code code;
  struct tt_sb text = {0};
  if (c->gpu)
    error = tt_codegen_gpu(ar, &p->nest, c->wide ? TT_GPU_C_WIDE : TT_GPU_C,
                           NULL, &code, &text);
  tt_sb_free(&text);
  if (error && (strstr(error, "GPU") || strstr(error, " dimension ")))
    return false;
  if (error)
    fail_pair(p, error);
  return true;
}

static void
random_tiles_keep_results(void **state)
{
  (void)state;
  tensorized = 0;
  check_random_pairs(200, 2, make_case);
  assert_true(tensorized > 100 || getenv("TT_RANDOM_SEED") ||
              getenv("TT_RANDOM_COUNT"));
}

/* ---- examples ---------------------------------------------------------- */

/* Under its own schedule, for threads of GPUs. */
static void
run_example(const struct example *e)
{
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_example_program(ar, e, false);
  if (!p || !p->nblocks)
    fail_msg("%s does not compile, or has no schedule", e->file);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  struct tt_nest nest;
  const char *error = NULL;
  if (!tt_schedule_apply(s, &p->blocks[0], NULL) ||
      !tt_schedule_lower(ar, s, &nest, &error))
    fail_msg("%s: %s", e->file, error ? error : s->error);
  struct tt_values *want = tt_values_new();
  tt_values_random(want, p, 1);
  assert_null(tt_interpret_program(p, want));
  for (int wide = 0; wide < 2; wide++) {
    struct exec_case c = {
        .nest = &nest, .in = want, .want = want, .gpu = true, .wide = wide};
    error = exec_c(ar, 1, &c, 0, NULL);
    if (error)
      fail_msg("%s: %s", e->file, error);
  }
  tt_values_free(want);
  tt_arena_free(ar);
}

static void
examples_for_gpus_are_right(void **state)
{
  (void)state;
  static const char *const names[] = {"dp4a.te", "hgemm.te", "hgemm_mma.te"};
  int found = 0;
  for (int i = 0; i < tt_nexamples; i++)
    for (int k = 0; k < 3; k++)
      if (strcmp(tt_examples[i].file, names[k]) == 0) {
        run_example(&tt_examples[i]);
        found++;
      }
  assert_int_equal(found, 3);
}

/* ---- the space --------------------------------------------------------- */

/* A space for CUDA of a product that an instruction matches begins with it, and
 * its points are right; one for OpenCL has none. */
static void
check_space(const struct example *e)
{
  struct tt_target_model target = {.registers = 32,
                                   .gpu = {.lanes = 1,
                                           .units = 4,
                                           .warp = 32,
                                           .threads = 1024,
                                           .items = {1024, 1024, 64},
                                           .shared = 49152,
                                           .scratchpad = true,
                                           .registers = 255}};
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *p = tt_example_program(ar, e, false);
  struct tt_space *space = tt_gpu_space_new(ar, p, &target, false);
  int *config = TT_ARRAY(ar, int, (size_t)space->nknobs + 1), points = 0;
  struct tt_nest nests[2];
  struct exec_case cases[2];
  struct tt_values *want = tt_values_new();
  tt_values_random(want, p, 1);
  assert_null(tt_interpret_program(p, want));
  tt_gpu_space_default(space, config);
  for (int i = 0; i < 200 && points < 2; i++) {
    struct tt_schedule *s = tt_gpu_space_schedule(ar, space, config);
    const char *error = NULL;
    if (i == 0 && (!s || !s->stages[0].intrin))
      fail_msg("%s: no instruction by default", e->file);
    if (s && s->stages[0].intrin) {
      if (!tt_schedule_lower(ar, s, &nests[points], &error))
        fail_msg("%s: %s", e->file, error);
      cases[points] = (struct exec_case){
          .nest = &nests[points], .in = want, .want = want, .gpu = true};
      points++;
    }
    for (int k = 0; k < space->nknobs; k++)
      config[k] = (config[k] + 1 + i / (k + 1)) % space->knobs[k].n;
  }
  assert_int_equal(points, 2);
  const char *error = exec_c(ar, points, cases, 0, NULL);
  if (error)
    fail_msg("%s: %s", e->file, error);
  target.gpu.vectors = true;
  space = tt_gpu_space_new(ar, p, &target, false);
  for (int k = 0; k < space->nknobs; k++)
    assert_null(strstr(space->knobs[k].name, ".intrin"));
  tt_values_free(want);
  tt_arena_free(ar);
}

static void
spaces_have_instructions(void **state)
{
  (void)state;
  for (int i = 0; i < tt_nexamples; i++)
    if (strcmp(tt_examples[i].file, "hgemm.te") == 0 ||
        strcmp(tt_examples[i].file, "hgemm_mma.te") == 0)
      check_space(&tt_examples[i]);
}

/* ---- what is refused --------------------------------------------------- */

static const char wide[] =
    "input A[8,16], B[16,8]: i8; input S[8,16]: i32; output C[8,8]: i32;\n"
    "intrin dot(c[4]: i32 reg \"v4\", a[4,4]: i8 contiguous(1),\n"
    "           b[4]: i8 contiguous(1)) {\n"
    "  c[i] += sum[k](i32(a[i,k]) * i32(b[k]));\n"
    "  init %{ $c; %} emit %{ $c; %} store %{ $c; %}\n"
    "}\n"
    "intrin warp(c[8]: i32 reg \"v4\", a[8,4]: i8, b[4]: i8 scope \"shared\") "
    "{\n"
    "  c[i] += sum[k](i32(a[i,k]) * i32(b[k]));\n"
    "  threads \"32\";\n"
    "  init %{ $c; %} emit %{ $c; %} store %{ $c; %}\n"
    "}\n"
    "intrin other(c[4]: i32, a[4,4]: i32, b[4]: i8 contiguous(1)) {\n"
    "  c[i] += sum[k](a[i,k] * i32(b[k])); emit %{ $c; %}\n"
    "}\n"
    "intrin fours(c: i32, a[4]: i8 aligned(4), b[4]: i8) {\n"
    "  c += sum[k](i32(a[k]) * i32(b[k])); emit %{ $c; %}\n"
    "}\n"
    "C[m,n] = sum[k](i32(A[m,k]) * i32(B[k,n]));\n"
    "schedule { %s }\n";

/* What is said of the schedule, by a primitive or by lowering. */
static void
refused(const char *calls, const char *why)
{
  struct tt_sb text = {0};
  const char *at = strstr(wide, "%s");
  tt_sb_addn(&text, wide, (size_t)(at - wide));
  tt_sb_printf(&text, "%s%s", calls, at + 2);
  struct run r = compile_text(tt_sb_str(&text), text.len);
  if (!r.result.program)
    fail_msg("%s", tt_sb_str(&r.text));
  struct tt_schedule *s = tt_schedule_new(r.arena, r.result.program, false);
  struct tt_nest nest;
  const char *error = NULL;
  if (!tt_schedule_apply(s, &r.result.program->blocks[0], NULL))
    error = s->error;
  else
    tt_schedule_lower(r.arena, s, &nest, &error);
  if (!error || !strstr(error, why))
    fail_msg("%s: %s", calls, error ? error : "not refused");
  tt_sb_free(&text);
  finish(&r);
}

#define TILE                                                                   \
  "C.split(n, 4, ni); C.split(k, 4, ki); C.reorder(m, n, k, ni, ki); "
#define WARP                                                                   \
  "C.split(m, 8, mi); C.split(k, 4, ki); C.reorder(m, n, k, mi, ki); "

static void
mismatches_are_named(void **state)
{
  (void)state;
  refused(TILE "C.tensorize(ni, sdot);",
          "no intrin 'sdot' (have dot warp other fours)");
  refused(
      TILE "C.tensorize(n, dot);",
      "dot does not match C: it has 2 indices, and 4 loops stand from n on");
  refused("C.split(n, 2, ni); C.split(k, 4, ki); C.reorder(m, n, k, ni, ki); "
          "C.tensorize(ni, dot);",
          "none of its loops from ni on is a spatial one of 4 iterations, for "
          "the index i");
  refused(TILE "C.tensorize(ni, other);",
          "its statement or the types of its operands are not the stage's");
  refused("C.split(n, 4, ni); C.split(m, 4, mi); C.reorder(m, n, k, mi, ni);"
          "C.tensorize(mi, dot);",
          "a reduction one of 4 iterations, for the index k");
  refused(TILE "C.tensorize(ni, dot);",
          "dot keeps its result in a register: C needs accumulators");
  refused(TILE "C.cache_write(k); C.tensorize(ni, dot);",
          "reduction loop k of C is outside the accumulators");
  refused(TILE "C.cache_write(m); C.tensorize(ni, dot); C.tensorize(ni, dot);",
          "C is tensorized already, by dot");
  refused(TILE "C.cache_write(m); C.tensorize(ni, dot); C.unroll(ki);",
          "ki of C is done by dot: it must be a plain loop");
  refused(TILE "C.cache_write(m); C.tensorize(ni, dot); C.split(ki, 2, kj);",
          "the loops of C that dot does must stay innermost");
  refused(TILE "C.cache_write(m); C.tensorize(ni, dot); "
               "C.cache_read(B, ni, layout=\"ki\");",
          "something stands in ni of C, which dot does");
  refused("C.split(m, 3, mi, tail=\"guard\"); " TILE
          "C.cache_write(m); C.tensorize(ni, dot);",
          "m of C has a guarded tail, and dot keeps its result in a register");
}

static void
tails_are_named(void **state)
{
  (void)state;
  refused("C.split(n, 4, ni); C.split(k, 6, kj); C.split(kj, 4, ki);"
          "C.reorder(m, n, k, kj, ni, ki);"
          "C.cache_write(n); C.tensorize(ni, dot);",
          "leaves a tail of ki in C, which dot cannot do here");
  refused("C.split(n, 4, ni); C.split(k, 12, kj, tail=\"pad\");"
          "C.split(kj, 4, ki); C.reorder(m, n, k, kj, ni, ki);"
          "C.cache_write(n); C.tensorize(ni, dot);",
          "dot reads beyond the tails of C: copies of its operands that are "
          "laid out by loops have room for them");
}

static void
strides_are_named(void **state)
{
  (void)state;
  refused(TILE "C.cache_write(n); C.tensorize(ni, dot);",
          "dot does not match: a, in B, has stride 8, needs 1");
  refused(TILE "C.cache_write(n); C.cache_read(B, n, layout=\"k ki ni\"); "
               "C.tensorize(ni, dot);",
          "dot does not match: a, in B_c, has stride 4, needs 1");
  refused("C.split(k, 4, ki); C.cache_write(n); C.tensorize(ki, fours);",
          "fours does not match: a, in A, is not known to begin at a multiple "
          "of 4 bytes");
}

static void
threads_are_named(void **state)
{
  (void)state;
  refused(WARP "C.cache_write(n); C.tensorize(mi, warp);",
          "warp takes 32 threads: a loop of C outside mi must be bound to "
          "thread.y or thread.z");
  refused(WARP "C.bind(n, \"thread.x\"); C.cache_write(n); "
               "C.tensorize(mi, warp);",
          "n of C is bound to thread.x: those are the 32 threads of warp");
  refused(WARP "C.bind(n, \"thread.y\"); C.cache_write(n); "
               "C.cache_read(B, k, name=Bk); C.tensorize(mi, warp);",
          "Bk is filled inside loop n of C: the 32 threads of warp cannot "
          "share it");
  refused(WARP "C.bind(n, \"thread.y\"); C.cache_write(n); "
               "C.tensorize(mi, warp);",
          "warp does not match: b, B, must be in shared memory: cache it");
  refused("C.split(m, 5, mi); C.split(k, 4, ki); C.reorder(m, n, k, mi, ki); "
          "C.bind(n, \"thread.y\"); C.cache_write(n); C.tensorize(mi, warp);",
          "none of its loops from mi on is a spatial one of 8");
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(mismatches_are_named),
      cmocka_unit_test(tails_are_named),
      cmocka_unit_test(strides_are_named),
      cmocka_unit_test(threads_are_named),
      cmocka_unit_test(examples_for_gpus_are_right),
      cmocka_unit_test(spaces_have_instructions),
      cmocka_unit_test(random_tiles_keep_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
