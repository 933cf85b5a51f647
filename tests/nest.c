/* The check of a nest built by hand: one set of random inputs, interpreted
 * before and after the passes, and run as C. */
#include "config.h"

#include "tests/nest.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/exec_c.h"

static bool
equal(double x, double y, double tol)
{
  return x == y || (isnan(x) && isnan(y)) || fabs(x - y) <= tol * (1 + fabs(y));
}

static void
assert_outputs(const struct fix *f, struct tt_values *want,
               struct tt_values *got)
{
  for (int i = 0; i < f->p->ntensors; i++) {
    const struct tt_tensor *t = f->p->tensors[i];
    double *wf, *gf;
    int64_t *wi, *gi;
    if (t->role != TT_OUTPUT)
      continue;
    tt_values_of(want, t, &wf, &wi);
    tt_values_of(got, t, &gf, &gi);
    for (int64_t k = 0; k < tt_tensor_size(t); k++)
      if (wf ? !equal(gf[k], wf[k], 0) : wi[k] != gi[k])
        fail_msg("%s[%lld]: %g instead of %g", t->name, (long long)k,
                 wf ? gf[k] : (double)gi[k], wf ? wf[k] : (double)wi[k]);
  }
}

static const int widths[] = {0, 16, 32, 64};

static void
check_seed(struct fix *f, uint64_t seed)
{
  struct exec_case cases[12];
  int n = 0;
  struct tt_values *want = tt_values_new();
  tt_values_random(want, f->p, seed);
  const char *error = tt_interpret_nest(&f->nest, want);
  if (error)
    fail_msg("the nest itself: %s", error);
  for (int w = 0; w < 4; w++) {
    struct tt_codegen_options o = {.vector_bytes = widths[w],
                                   .workspace = (enum tt_workspace)(w % 3)};
    struct tt_nest r = tt_codegen_passes(f->ar, &f->nest, &o, &error);
    if (error)
      fail_msg("passes at %d: %s", widths[w], error);
    struct tt_values *got = tt_values_new();
    tt_values_random(got, f->p, seed);
    error = tt_interpret_nest(&r, got);
    if (error) {
      struct tt_sb sb = {0};
      tt_dump_stmt(&sb, r.body, 0);
      fail_msg("after passes at %d: %s\n%s", widths[w], error, sb.s);
    }
    assert_outputs(f, want, got);
    tt_values_free(got);
    cases[n++] = (struct exec_case){
        .nest = &f->nest, .options = o, .in = want, .want = want};
  }
  cases[n++] =
      (struct exec_case){.nest = &f->nest,
                         .options = {.c99 = true, .workspace = TT_WS_ARG},
                         .in = want,
                         .want = want};
  int failed;
  error = exec_c(f->ar, n, cases, 0, &failed);
  if (error)
    fail_msg("case %d: %s", failed, error);
  tt_values_free(want);
}

void
check_nest(struct fix *f)
{
  check_seed(f, 1);
  tt_arena_free(f->ar);
}
