/* Random programs under random legal schedules: what the passes make of the
 * loop nest, and the C that is printed, compute what the interpreter does.
 *
 * TT_RANDOM_COUNT sets the number of pairs, TT_RANDOM_SEED where they start:
 * a failure prints the seed that repeats it.
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
#include "tests/exec_c.h"
#include "tests/random_pairs.h"
#include "tests/random_program.h"
#include "tests/random_schedule.h"

static struct tt_codegen_options
options(uint64_t seed)
{
  static const int widths[] = {0, 16, 32, 64};
  return (struct tt_codegen_options){.verify_each = true,
                                     .vector_bytes = widths[seed % 4],
                                     .workspace =
                                         seed % 3 ? TT_WS_STATIC : TT_WS_ARG};
}

/* The reduction order is the schedule's, so floats only agree nearly. */
static double
slack(enum tt_dtype t)
{
  return t == TT_F64 ? 1e-11 : t == TT_F32 ? 1e-4 : t == TT_F16 ? 2e-2 : 2e-1;
}

static const char *
compare(struct tt_arena *ar, const struct tt_program *p, struct tt_values *want,
        struct tt_values *got)
{
  /* Rounding of a coarser type further up shows in the outputs. */
  double tolerance = 0;
  for (int i = 0; i < p->ntensors; i++)
    if (tt_dtype_is_float(p->tensors[i]->dtype))
      tolerance = fmax(tolerance, slack(p->tensors[i]->dtype));
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    double *wf, *gf;
    int64_t *wi, *gi;
    if (t->role != TT_OUTPUT)
      continue;
    tt_values_of(want, t, &wf, &wi);
    tt_values_of(got, t, &gf, &gi);
    for (int64_t k = 0; k < tt_tensor_size(t); k++) {
      bool same = wi ? wi[k] == gi[k]
                     : wf[k] == gf[k] || (isnan(wf[k]) && isnan(gf[k])) ||
                           fabs(wf[k] - gf[k]) <= tolerance * (1 + fabs(wf[k]));
      if (!same)
        return tt_arena_printf(ar, "%s[%lld] is %g instead of %g", t->name,
                               (long long)k, wi ? (double)gi[k] : gf[k],
                               wi ? (double)wi[k] : wf[k]);
    }
  }
  return NULL;
}

/* Makes the case and checks the passes; false: this pair cannot be lowered,
 * or is refused because an index is not proven inside. */
static bool
make_case(struct tt_arena *ar, struct random_pair *p, struct exec_case *c)
{
  const char *error = NULL;
  p->program = tt_random_program(ar, p->seed / 4);
  p->schedule = tt_random_schedule(ar, p->program, p->seed,
                                   4 + (int)(p->seed % 40), false);
  if (!tt_schedule_lower(ar, p->schedule, &p->nest, &error))
    return false;
  *c = (struct exec_case){.nest = &p->nest, .options = options(p->seed)};
  struct tt_nest passed = tt_codegen_passes(ar, &p->nest, &c->options, &error);
  if (error && (strstr(error, " dimension ") || strstr(error, "unrolling")))
    return false;
  if (error)
    fail_pair(p, error);
  c->in = c->want = tt_values_new();
  tt_values_random(c->in, p->program, p->seed);
  struct tt_values *got = tt_values_new();
  tt_values_random(got, p->program, p->seed);
  error = tt_interpret_program(p->program, c->want);
  if (!error)
    error = tt_interpret_nest(&passed, got);
  if (!error)
    error = compare(ar, p->program, c->want, got);
  if (error)
    fail_pair(p, tt_arena_printf(ar, "after the passes: %s", error));
  tt_values_free(got);
  return true;
}

/* One pair of five may be refused: indices are not proven inside. */
enum { REFUSED = 5 };

static void
random_code_keeps_results(void **state)
{
  (void)state;
  check_random_pairs(400, REFUSED, make_case);
}

/* Pairs that once did not compile: ~ of a truth value; a choice between a
 * sum of unaligned vectors and a constant; a prefetch of what is read packed.
 */
static void
what_failed_once(void **state)
{
  (void)state;
  static const uint64_t seeds[] = {71132, 72262, 201155};
  for (size_t i = 0; i < sizeof seeds / sizeof *seeds; i++)
    check_pairs(seeds[i], 1, REFUSED, make_case);
}

/* Y[k,x] = relu?(sum[c](W[c,k] * X[c,x])): vectors along k, whose lanes lie
 * apart in Y, in tiles of `rows`. */
static struct tt_schedule *
stored_across(struct tt_arena *ar, enum tt_dtype t, int lanes, int rows,
              bool finished)
{
  enum { K = 37, X = 25, C = 5 };
  struct tt_program *p = tt_program_new(ar, "across");
  struct tt_tensor *w =
      tt_program_tensor(p, "W", TT_INPUT, t, 2, (int64_t[]){C, K});
  struct tt_tensor *x =
      tt_program_tensor(p, "X", TT_INPUT, t, 2, (int64_t[]){C, X});
  struct tt_tensor *sum = tt_program_tensor(
      p, "S", finished ? TT_TEMP : TT_OUTPUT, t, 2, (int64_t[]){K, X});
  const struct tt_var *vk = tt_program_var(p, "k", K),
                      *vx = tt_program_var(p, "x", X),
                      *vc = tt_program_var(p, "c", C);
  const struct tt_expr *k = tt_var_ref(ar, vk), *i = tt_var_ref(ar, vx),
                       *c = tt_var_ref(ar, vc);
  tt_program_stage(
      p, sum, (const struct tt_var *[]){vk, vx}, TT_RED_SUM, 1, &vc,
      tt_binary(ar, TT_MUL, tt_load(ar, w, 2, (const struct tt_expr *[]){c, k}),
                tt_load(ar, x, 2, (const struct tt_expr *[]){c, i})),
      NULL);
  if (finished) {
    struct tt_tensor *out =
        tt_program_tensor(p, "Y", TT_OUTPUT, t, 2, (int64_t[]){K, X});
    const struct tt_var *ok = tt_program_var(p, "k", K),
                        *ox = tt_program_var(p, "x", X);
    const struct tt_expr *at[] = {tt_var_ref(ar, ok), tt_var_ref(ar, ox)};
    tt_program_stage(
        p, out, (const struct tt_var *[]){ok, ox}, TT_RED_NONE, 0, NULL,
        tt_binary(ar, TT_MAX, tt_load(ar, sum, 2, at), tt_zero(ar, t)), NULL);
  }
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  int kr = tt_split(s, 0, 0, 2 * lanes, "kr", TT_TAIL_PEEL);
  int xr = tt_split(s, 0, 1, rows, "xr", TT_TAIL_PEEL);
  int ko = tt_find_loop(s, 0, "k"), xo = tt_find_loop(s, 0, "x"),
      co = tt_find_loop(s, 0, "c");
  assert_true(tt_reorder(s, 0, 5, (int[]){ko, xo, co, xr, kr}));
  assert_true(tt_cache_write(s, 0, xo));
  assert_true(tt_unroll(s, 0, xr) && tt_vectorize(s, 0, kr, lanes));
  assert_true(!finished || tt_finish(s, 1, 0));
  return s;
}

static void
lanes_are_stored_across(void **state)
{
  (void)state;
  static const enum tt_dtype types[] = {TT_F32, TT_I32, TT_F64};
  for (int lanes = 4; lanes <= 16; lanes *= 2) {
    struct tt_arena *ar = tt_arena_new();
    struct exec_case cases[64];
    struct tt_nest *nest = TT_ARRAY(ar, struct tt_nest, 64);
    int n = 0, transposed = 0;
    for (int rows = 2; rows <= 9; rows++)
      for (int t = 0; t < 3; t++) {
        struct tt_schedule *s =
            stored_across(ar, types[t], lanes, rows, (rows + t) % 2);
        const char *error = NULL;
        assert_true(tt_schedule_lower(ar, s, &nest[n], &error));
        struct exec_case *c = &cases[n];
        *c = (struct exec_case){.nest = &nest[n]};
        c->options = (struct tt_codegen_options){
            .verify_each = true, .vector_bytes = 4 * lanes, .name = "f"};
        struct tt_sb text = {0};
        struct tt_code_sizes sizes;
        assert_null(tt_codegen_c(ar, &nest[n], &c->options, &sizes, &text));
        /* (Whole tiles of some sizes go through memory.) */
        transposed += strstr(tt_sb_str(&text), "put_rows_") ||
                      strstr(tt_sb_str(&text), "transpose_");
        tt_sb_free(&text);
        c->in = c->want = tt_values_new();
        tt_values_random(c->in, s->program, (uint64_t)n);
        assert_null(tt_interpret_program(s->program, c->want));
        n++;
      }
    const char *error = exec_c(ar, n, cases, 0, NULL);
    if (error)
      fail_msg("%d lanes: %s", lanes, error);
    assert_true(transposed >= 12); /* 4 to 9 rows of 4-byte elements */
    for (int i = 0; i < n; i++)
      tt_values_free(cases[i].in);
    tt_arena_free(ar);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_code_keeps_results),
      cmocka_unit_test(what_failed_once),
      cmocka_unit_test(lanes_are_stored_across),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
