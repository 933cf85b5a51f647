/* Programs rewritten before they are scheduled: sums of products that are
 * summed one axis after the other, reductions over the points of a congruence:
 * which ones are, what becomes of them, and that results stay the same; then
 * of what is derived for them: transforms, products, phases. */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/passes.h"
#include "schedule/schedule.h"
#include "frontend/frontend.h"
#include "tests/random_program.h"

static struct tt_program *
program_of(struct tt_arena *ar, const char *text)
{
  struct tt_diags *diags = tt_diags_new(ar);
  struct tt_frontend_options options = {0};
  struct tt_program *p =
      tt_compile_text(ar, diags, "t.te", text, strlen(text), &options, false)
          .program;
  assert_non_null(p);
  return p;
}

/* The largest difference of outputs, relative to the largest value. */
static double
difference(const struct tt_program *a, const struct tt_program *b,
           uint64_t seed)
{
  struct tt_values *va = tt_values_new(), *vb = tt_values_new();
  double most = 0, scale = 1;
  tt_values_random(va, a, seed);
  tt_values_random(vb, b, seed);
  const char *bad = tt_interpret_program(a, va);
  bad = bad ? bad : tt_interpret_program(b, vb);
  assert_null(bad);
  for (int i = 0; i < a->ntensors; i++) {
    const struct tt_tensor *t = a->tensors[i];
    double *fa, *fb;
    int64_t *ia, *ib;
    if (t->role != TT_OUTPUT)
      continue;
    tt_values_of(va, t, &fa, &ia);
    tt_values_of(vb, b->tensors[i], &fb, &ib);
    for (int64_t e = 0; e < tt_tensor_size(t); e++) {
      double x = fa ? fa[e] : (double)ia[e], y = fa ? fb[e] : (double)ib[e];
      if (x == y || (isnan(x) && isnan(y)))
        continue;
      scale = fmax(scale, fabs(x));
      most = fmax(most, fa ? fabs(x - y) : INFINITY);
    }
  }
  tt_values_free(va);
  tt_values_free(vb);
  return most / scale;
}

/* Factored and not, the program has `stages` stages and one result. */
static struct tt_program *
factored(struct tt_arena *ar, const char *text, int stages)
{
  struct tt_program *p = program_of(ar, text), *q = program_of(ar, text);
  tt_factor_sums(q, false);
  assert_null(tt_verify_program(ar, q));
  assert_int_equal(q->nstages, stages);
  assert_true(difference(p, q, 3) < 1e-5);
  return q;
}

static void
a_chain_of_products(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *q =
      factored(ar,
               "input A[7,9], B[9,8], C[8,6]: f32; output D[7,6]: f32;\n"
               "D[i,l] = sum[j,k](A[i,j] * B[j,k] * C[k,l]);",
               2);
  assert_string_equal(q->stages[0]->out->name, "D_part");
  assert_int_equal(q->stages[0]->nreduce, 1);
  assert_int_equal(q->stages[1]->nreduce, 1);
  /* Integers wrap, whatever the order. */
  factored(ar,
           "input A[7,9], B[9,8], C[8,6]: i32; output D[7,6]: i32;\n"
           "D[i,l] = sum[j,k](A[i,j] * B[j,k] * C[k,l]);",
           2);
  /* Three: each is a sum of its own. */
  factored(ar,
           "input A[7,9], B[9,8], C[8,6], E[6,5]: f32; output D[7,5]: f32;\n"
           "D[i,m] = sum[j,k,l](A[i,j] * B[j,k] * C[k,l] * E[l,m]);",
           3);
  tt_arena_free(ar);
}

static const char windows[] =
    "param P = 5, T = 3, H = 15;\n"
    "const BT[4,5]: f32 = {{1,0,2,0,1}, {0,1,1,3,0}, {0,-1,1,0,2}, "
    "{1,1,0,1,1}};"
    "\ninput X[2,H,H]: f32; output V[4,4,2,P,P]: f32;\n"
    "V[a,b,c,p,q] = sum[i,j](BT[a,i] * BT[b,j] * "
    "X[c, p*T + i - 1, q*T + j - 1 else 0]);";

static void
windows_share_their_parts(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *q = factored(ar, windows, 2);
  const struct tt_tensor *part = q->stages[0]->out;
  /* b, c, q*T + j or p*T + i of 0..4*3+4, and the other of p and q. */
  assert_int_equal(part->ndim, 4);
  assert_int_equal(tt_tensor_size(part), 4 * 2 * 17 * 5);
  tt_arena_free(ar);
}

static void
quotients_become_axes(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *q = factored(
      ar,
      "const AT[4,6]: f32 = {{1,1,1,1,1,0}, {0,1,-1,2,-2,0}, {0,1,1,4,4,0},"
      " {0,1,-1,8,-8,1}};\n"
      "input M[6,6,3,2,3]: f32; output Y[3,7,12]: f32;\n"
      "Y[k,y,x] = sum[a,b](AT[y%4,a] * AT[x%4,b] * M[a,b,k,y/4,x/4]);",
      2);
  /* k, y, x/4, b */
  assert_int_equal(tt_tensor_size(q->stages[0]->out), 3 * 7 * 3 * 6);
  tt_arena_free(ar);
}

static void
what_stays_one_sum(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  /* No factor is free of an axis. */
  factored(ar,
           "input X[3,9,9], W[4,3,3,3]: f32; output Y[4,7,7]: f32;\n"
           "Y[k,y,x] = sum[c,r,s](X[c,y+r,x+s] * W[k,c,r,s]);",
           1);
  /* Less than half of the work is saved. */
  factored(ar,
           "input A[2], B[2]: f32; input X[2,2,50]: f32; output Y[50]: f32;\n"
           "Y[i] = sum[r,s](A[r] * B[s] * X[r,s,i]);",
           1);
  factored(ar,
           "input A[7,9], B[9,8], C[8,6]: f32; output D[7,6]: f32;\n"
           "D[i,l] = max[j,k](A[i,j] * B[j,k] * C[k,l]);",
           1);
  struct tt_program *p = program_of(ar, windows);
  tt_factor_sums(p, true);
  assert_int_equal(p->nstages, 1);
  tt_arena_free(ar);
}

/* The points of a congruence: fewer, with no condition where the stride
 * divides their number, and the same result. */
static void
congruences_are_solved(void **state)
{
  (void)state;
  static const struct {
    int r, stride, taps;
    bool whole;
  } cases[] = {{4, 2, 2, true},
               {3, 2, 2, false},
               {6, 3, 2, true},
               {2, 3, 1, false},
               {1, 2, 1, false}};
  struct tt_arena *ar = tt_arena_new();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const char *text =
        tt_arena_printf(ar,
                        "param R = %d, S = %d;\n"
                        "input X[2,5], F[2,3,R]: f32; output Y[3,4*S+R]: f32;\n"
                        "Y[k,y] = sum[c,r where (y+1-r) %% S == 0]("
                        "X[c,(y+1-r)/S else 0] * F[c,k,r]);",
                        cases[i].r, cases[i].stride);
    struct tt_program *p = program_of(ar, text), *q = program_of(ar, text);
    tt_solve_congruences(q);
    assert_null(tt_verify_program(ar, q));
    assert_int_equal(q->stages[0]->reduce[1]->extent, cases[i].taps);
    assert_int_equal(q->stages[0]->where == NULL, cases[i].whole);
    assert_true(difference(p, q, 5) == 0);
  }
  tt_arena_free(ar);
}

/* ---- the schedules derived for them ------------------------------------- */

static const char winograd[] =
    "const T = %d, PAD = %d, A = T + 2, C = %d, K = %d, H = %d;\n"
    "const O = H + 2*PAD - 2, P = ceildiv(O,T);\n"
    "const BT[6,6]: f32 = {{4,0,-5,0,1,0}, {0,-4,-4,1,1,0}, {0,4,-4,-1,1,0},"
    "{0,-2,-1,2,1,0}, {0,2,-1,-2,1,0}, {0,4,0,-5,0,1}},"
    "AT[4,6]: f32 = {{1,1,1,1,1,0}, {0,1,-1,2,-2,0}, {0,1,1,4,4,0},"
    "{0,1,-1,8,-8,1}};\n"
    "input X[C,H,H]: f32; weight U[A,A,K,C]: f32; output Y[K,O,O]: f32;\n"
    "V[a in A,b in A,c,p in P,q in P] = sum[i in A,j in A](BT[a,i] * BT[b,j] *"
    " X[c, p*T + i - PAD, q*T + j - PAD else 0]);\n"
    "M[a,b,k,p,q] = sum[c](U[a,b,k,c] * V[a,b,c,p,q]);\n"
    "Y[k,y,x] = sum[a in A,b in A](AT[y%%T,a] * AT[x%%T,b] *"
    " M[a,b,k,y/T,x/T]);";
static const char transposed[] =
    "const S = %d, PAD = %d, C = %d, K = %d, H = %d, R = %d;\n"
    "const O = (H-1)*S - 2*PAD + R;\n"
    "input X[C,H,H]: f32; weight F[C,K,R,R]: f32; output Y[K,O,O]: f32;\n"
    "Y[k,y,x] = sum[c,r,s where (y+PAD-r) %% S == 0 && (x+PAD-s) %% S == 0]("
    "X[c, (y+PAD-r)/S, (x+PAD-s)/S else 0] * F[c,k,r,s]);";

static double
nest_difference(const struct tt_program *plain, const struct tt_program *p,
                const struct tt_schedule *s, struct tt_arena *ar)
{
  struct tt_nest nest;
  const char *error;
  if (!tt_schedule_lower(ar, s, &nest, &error))
    fail_msg("%s", error);
  struct tt_values *want = tt_values_new(), *got = tt_values_new();
  tt_values_random(want, plain, 7);
  tt_values_random(got, p, 7);
  assert_null(tt_interpret_program(plain, want));
  const char *bad = tt_interpret_nest(&nest, got);
  if (bad)
    fail_msg("%s", bad);
  const struct tt_tensor *y = plain->stages[plain->nstages - 1]->out;
  double *fw, *fg, most = 0, scale = 1;
  int64_t *none;
  tt_values_of(want, y, &fw, &none);
  tt_values_of(got, p->tensors[y->id], &fg, &none);
  for (int64_t e = 0; e < tt_tensor_size(y); e++) {
    most = fmax(most, fabs(fw[e] - fg[e]));
    scale = fmax(scale, fabs(fw[e]));
  }
  tt_values_free(want);
  tt_values_free(got);
  return most / scale;
}

/* The default and a few others, for vectors of `bytes`.  Does the text of the
 * default have `part`? */
static void
check_derived(const char *text, int bytes, const char *part)
{
  struct tt_arena *ar = tt_arena_new();
  struct tt_program *plain = program_of(ar, text), *p = program_of(ar, text);
  const struct tt_target_model target = {.vector_bytes = bytes,
                                         .registers = 32,
                                         .l1 = 32 << 10,
                                         .l2 = 1 << 20,
                                         .l3 = 16 << 20,
                                         .threads = 1 + (bytes == 32)};
  tt_solve_congruences(p);
  tt_factor_sums(p, false);
  struct tt_space *space = tt_space_new(ar, p, &target, false);
  int *config = TT_ARRAY(ar, int, (size_t)space->nknobs + 1);
  tt_space_default(space, config);
  for (uint32_t draw = 0; draw < 4; draw++) {
    for (int i = 0; draw && i < space->nknobs; i++)
      config[i] = (int)(tt_random_bits((uint64_t)bytes, draw, (uint64_t)i) %
                        (uint64_t)space->knobs[i].n);
    struct tt_schedule *s = tt_space_schedule(ar, space, config);
    if (!draw)
      assert_non_null(s);
    if (!s)
      continue;
    struct tt_sb sb = {0};
    tt_schedule_print(s, &sb);
    if (!draw && !strstr(tt_sb_str(&sb), part))
      fail_msg("no %s in %s", part, tt_sb_str(&sb));
    if (nest_difference(plain, p, s, ar) > 1e-3)
      fail_msg("wrong: %s\n%s", text, tt_sb_str(&sb));
    tt_sb_free(&sb);
  }
  tt_arena_free(ar);
}

/* Tiles and channels that divide nothing, with and without a border. */
static void
derived_schedules_are_right(void **state)
{
  (void)state;
  static const int w[][5] = {{4, 1, 8, 9, 7},
                             {4, 1, 5, 4, 10},
                             {2, 1, 9, 16, 6},
                             {4, 0, 16, 17, 9},
                             {3, 1, 6, 8, 8}};
  static const int t[][6] = {{2, 1, 3, 8, 5, 4},  {2, 1, 5, 9, 4, 3},
                             {3, 0, 2, 5, 3, 5},  {2, 0, 3, 16, 4, 5},
                             {3, 1, 4, 17, 3, 4}, {2, 1, 3, 8, 4, 1}};
  struct tt_arena *ar = tt_arena_new();
  for (size_t i = 0; i < sizeof w / sizeof *w; i++)
    check_derived(tt_arena_printf(ar, winograd, w[i][0], w[i][1], w[i][2],
                                  w[i][3], w[i][4]),
                  i % 2 ? 32 : 16, "layout=\"");
  for (size_t i = 0; i < sizeof t / sizeof *t; i++)
    check_derived(tt_arena_printf(ar, transposed, t[i][0], t[i][1], t[i][2],
                                  t[i][3], t[i][4], t[i][5]),
                  16, "vectorize");
  tt_arena_free(ar);
}

static void
random_programs_keep_their_results(void **state)
{
  (void)state;
  const char *count = getenv("TT_RANDOM_COUNT");
  uint64_t n = count ? strtoull(count, NULL, 10) : 600;
  struct tt_arena *ar = tt_arena_new();
  int split = 0;
  for (uint64_t seed = 0; seed < n; seed++) {
    tt_arena_reset(ar);
    struct tt_program *p = tt_random_program(ar, seed),
                      *q = tt_random_program(ar, seed);
    tt_solve_congruences(q);
    tt_factor_sums(q, false);
    split += q->nstages > p->nstages;
    const char *bad = tt_verify_program(ar, q);
    if (bad)
      fail_msg("seed %d: %s", (int)seed, bad);
    /* (What is rounded to 16 bits later may fall to either side.) */
    bool coarse = false;
    for (int i = 0; i < p->ntensors; i++)
      coarse |= tt_dtype_bits(p->tensors[i]->dtype) < 32;
    double d = difference(p, q, seed);
    if (d > (coarse ? 0.4 : 1e-4))
      fail_msg("seed %d: results differ by %g", (int)seed, d);
  }
  assert_true(split > (int)(n / 100));
  tt_arena_free(ar);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_of_products),
      cmocka_unit_test(windows_share_their_parts),
      cmocka_unit_test(quotients_become_axes),
      cmocka_unit_test(what_stays_one_sum),
      cmocka_unit_test(congruences_are_solved),
      cmocka_unit_test(derived_schedules_are_right),
      cmocka_unit_test(random_programs_keep_their_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
