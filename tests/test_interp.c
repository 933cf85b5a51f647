/* The interpreters on hand-built programs and loop nests. */
#include "config.h"

#include "ir/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

struct fix {
  struct tt_arena *arena;
  struct tt_program *program;
  struct tt_values *values;
};

static void
open_fix(struct fix *f)
{
  f->arena = tt_arena_new();
  f->program = tt_program_new(f->arena, "k");
  f->values = tt_values_new();
}

static void
close_fix(struct fix *f)
{
  tt_values_free(f->values);
  tt_arena_free(f->arena);
}

static struct tt_tensor *
tensor(struct fix *f, const char *name, enum tt_role role, enum tt_dtype t,
       int64_t m, int64_t n)
{
  int64_t dims[] = {m, n};
  return tt_program_tensor(f->program, name, role, t, n ? 2 : m ? 1 : 0, dims);
}

static const struct tt_var *
var(struct fix *f, const char *name, int64_t n)
{
  return tt_program_var(f->program, name, n);
}

static const struct tt_expr *
ref(struct fix *f, const struct tt_var *v)
{
  return tt_var_ref(f->arena, v);
}

static const struct tt_expr *
at(struct fix *f, const struct tt_tensor *t, const struct tt_expr *i,
   const struct tt_expr *j)
{
  const struct tt_expr *idx[] = {i, j};
  return tt_load(f->arena, t, t->ndim, idx);
}

static const struct tt_stmt *
put(struct fix *f, const struct tt_tensor *t, const struct tt_expr *i,
    const struct tt_expr *j, const struct tt_expr *v)
{
  const struct tt_expr *idx[] = {i, j};
  return tt_store(f->arena, t, t->ndim, idx, v);
}

/* C[y,x] = sum[k](A[y,k] * B[k,x]); D[y,x] = exp(C[y,x] - max of row y). */
struct matmul {
  struct tt_tensor *a, *b, *c, *m, *d;
};

static struct matmul
matmul(struct fix *f)
{
  struct matmul p = {.a = tensor(f, "A", TT_INPUT, TT_F32, 5, 7),
                     .b = tensor(f, "B", TT_INPUT, TT_F32, 7, 6),
                     .c = tensor(f, "C", TT_TEMP, TT_F32, 5, 6),
                     .m = tensor(f, "M", TT_TEMP, TT_F32, 5, 0),
                     .d = tensor(f, "D", TT_OUTPUT, TT_F32, 5, 6)};
  for (int stage = 0; stage < 3; stage++) {
    const struct tt_var *s[] = {var(f, "y", 5), var(f, "x", 6)};
    const struct tt_expr *y = ref(f, s[0]), *x = ref(f, s[1]);
    const struct tt_var *k = var(f, "k", stage == 0 ? 7 : 6);
    const struct tt_expr *kk = ref(f, k);
    if (stage == 0)
      tt_program_stage(
          f->program, p.c, s, TT_RED_SUM, 1, &k,
          tt_binary(f->arena, TT_MUL, at(f, p.a, y, kk), at(f, p.b, kk, x)),
          NULL);
    else if (stage == 1)
      tt_program_stage(f->program, p.m, s, TT_RED_MAX, 1, &k, at(f, p.c, y, kk),
                       NULL);
    else {
      const struct tt_expr *e =
          tt_binary(f->arena, TT_SUB, at(f, p.c, y, x), at(f, p.m, y, NULL));
      tt_program_stage(f->program, p.d, s, TT_RED_NONE, 0, NULL,
                       tt_call(f->arena, TT_FN_EXP, TT_F32, 1, &e), NULL);
    }
  }
  return p;
}

static double *
floats(struct fix *f, const struct tt_tensor *t)
{
  double *d;
  int64_t *i;
  tt_values_of(f->values, t, &d, &i);
  assert_non_null(d);
  assert_null(i);
  return d;
}

static void
softmax_of_matmul(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct matmul p = matmul(&f);
  tt_values_random(f.values, f.program, 3);
  assert_null(tt_interpret_program(f.program, f.values));
  const double *a = floats(&f, p.a), *b = floats(&f, p.b);
  for (int y = 0; y < 5; y++) {
    double row[6], most = -INFINITY;
    for (int x = 0; x < 6; x++) {
      row[x] = 0;
      for (int k = 0; k < 7; k++)
        row[x] += a[y * 7 + k] * b[k * 6 + x];
      most = fmax(most, row[x]);
    }
    for (int x = 0; x < 6; x++)
      assert_true(floats(&f, p.d)[y * 6 + x] == (float)exp(row[x] - most));
  }
  assert_true(tt_program_flops(f.program) == 2 * 5 * 6 * 7 + 5 * 6 + 2 * 5 * 6);
  close_fix(&f);
}

static void
single_points_agree(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct matmul p = matmul(&f);
  tt_values_random(f.values, f.program, 4);
  struct tt_values *one = tt_values_new();
  tt_values_random(one, f.program, 4);
  assert_null(tt_interpret_program(f.program, f.values));
  for (int64_t y = 4; y >= 0; y -= 2)
    for (int64_t x = 0; x < 6; x += 5) {
      int64_t idx[] = {y, x};
      assert_true(tt_interpret_point(f.program, one, p.d, idx) ==
                  floats(&f, p.d)[y * 6 + x]);
    }
  int64_t outside[] = {5, 0};
  assert_true(isnan(tt_interpret_point(f.program, one, p.d, outside)));
  tt_values_free(one);
  close_fix(&f);
}

/* A chain of thousands of stages needs no deep stack. */
static void
long_chain(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  enum { STAGES = 20000 };
  struct tt_tensor *t = tensor(&f, "A", TT_INPUT, TT_I32, 3, 0);
  t->has_range = true;
  t->hi = 10;
  for (int i = 0; i < STAGES; i++) {
    struct tt_tensor *u =
        tensor(&f, "t", i + 1 < STAGES ? TT_TEMP : TT_OUTPUT, TT_I32, 3, 0);
    const struct tt_var *v = var(&f, "i", 3);
    const struct tt_expr *e =
        tt_binary(f.arena, TT_ADD, at(&f, t, ref(&f, v), NULL),
                  tt_int(f.arena, TT_I32, 1));
    tt_program_stage(f.program, u, &v, TT_RED_NONE, 0, NULL, e, NULL);
    t = u;
  }
  tt_values_random(f.values, f.program, 1);
  int64_t index = 2, *in;
  double *none;
  tt_values_of(f.values, f.program->tensors[0], &none, &in);
  assert_true(tt_interpret_point(f.program, f.values, t, &index) ==
              (double)(in[2] + STAGES));
  close_fix(&f);
}

/* The element that an index outside its table asks for. */
static void
indirect_out_of_range(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_tensor *ids = tensor(&f, "ids", TT_INPUT, TT_I32, 4, 0);
  struct tt_tensor *e = tensor(&f, "E", TT_INPUT, TT_F32, 3, 2);
  struct tt_tensor *y = tensor(&f, "Y", TT_OUTPUT, TT_F32, 4, 2);
  const struct tt_var *s[] = {var(&f, "i", 4), var(&f, "d", 2)};
  const struct tt_expr *row =
      tt_cast(f.arena, TT_I64, at(&f, ids, ref(&f, s[0]), NULL));
  tt_program_stage(f.program, y, s, TT_RED_NONE, 0, NULL,
                   at(&f, e, row, ref(&f, s[1])), NULL);
  double *none;
  int64_t *id;
  tt_values_of(f.values, ids, &none, &id);
  id[2] = 2;
  assert_null(tt_interpret_program(f.program, f.values));
  id[2] = 3;
  const char *error = tt_interpret_program(f.program, f.values);
  assert_non_null(error);
  assert_non_null(strstr(error, "E dimension 0 (0..2) is read at 3"));
  close_fix(&f);
}

/* ---- loop nests -------------------------------------------------------- */

/* C = A + A over 16 elements as loops of 4 vectors of 4. */
struct vecs {
  struct tt_tensor *a, *c, *local;
  const struct tt_var *o, *i;
  struct tt_nest nest;
};

static struct vecs
vecs(struct fix *f)
{
  struct vecs p = {.a = tensor(f, "A", TT_INPUT, TT_F32, 16, 0),
                   .c = tensor(f, "C", TT_OUTPUT, TT_F32, 16, 0),
                   .o = var(f, "o", 4),
                   .i = var(f, "i", 16)};
  const struct tt_expr *x = at(f, p.a, ref(f, p.i), NULL);
  tt_program_stage(f->program, p.c, &p.i, TT_RED_NONE, 0, NULL,
                   tt_binary(f->arena, TT_ADD, x, x), NULL);
  p.local = TT_NEW(f->arena, struct tt_tensor);
  *p.local = (struct tt_tensor){.name = "L",
                                .dtype = TT_F32,
                                .role = TT_LOCAL,
                                .ndim = 1,
                                .dims = {4},
                                .id = -1};
  p.nest.program = f->program;
  return p;
}

static const struct tt_stmt *
vec_loop(struct fix *f, const struct vecs *p, enum tt_for_kind kind,
         int64_t filled)
{
  struct tt_arena *a = f->arena;
  const struct tt_expr *base = tt_imul(a, ref(f, p->o), 4);
  const struct tt_expr *ramp = tt_ramp(a, base, 1, 4);
  const struct tt_expr *local = tt_ramp(a, tt_idx(a, 0), 1, 4);
  const struct tt_var *v = var(f, "v", filled);
  const struct tt_stmt *fill =
      tt_for(a, TT_SERIAL, 1, v,
             put(f, p->local, ref(f, v), NULL,
                 at(f, p->a, tt_iadd(a, base, ref(f, v)), NULL)));
  const struct tt_stmt *add = put(f, p->c, ramp, NULL,
                                  tt_binary(a, TT_ADD, at(f, p->a, ramp, NULL),
                                            at(f, p->local, local, NULL)));
  const struct tt_stmt *both[] = {fill, add};
  return tt_for(a, kind, 1, p->o,
                tt_alloc_stmt(a, p->local, tt_seq(a, 2, both)));
}

static void
vector_nest(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct vecs p = vecs(&f);
  p.nest.body = vec_loop(&f, &p, TT_PARALLEL, 4);
  tt_values_random(f.values, f.program, 9);
  assert_null(tt_interpret_nest(&p.nest, f.values));
  for (int i = 0; i < 16; i++)
    assert_true(floats(&f, p.c)[i] == 2 * floats(&f, p.a)[i]);
  close_fix(&f);
}

static void
expect_error(struct fix *f, struct vecs *p, const char *text)
{
  tt_values_random(f->values, f->program, 9);
  const char *error = tt_interpret_nest(&p->nest, f->values);
  assert_non_null(error);
  if (!strstr(error, text))
    fail_msg("\"%s\" is not in \"%s\"", text, error);
}

static void
faults_are_found(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  struct vecs p = vecs(&f);
  /* One element of the local is left unwritten. */
  p.nest.body = vec_loop(&f, &p, TT_SERIAL, 3);
  expect_error(&f, &p, "L is read at element 3 before");
  /* Not all of the output is written. */
  p.nest.body = put(&f, p.c, tt_idx(a, 0), NULL, tt_flt(a, TT_F32, 1));
  expect_error(&f, &p, "C is never written at element 1");
  /* Indices outside, scalar and vector. */
  p.nest.body = put(&f, p.c, tt_idx(a, 16), NULL, tt_flt(a, TT_F32, 1));
  expect_error(&f, &p, "C dimension 0 (0..15) is written at 16");
  const struct tt_expr *ramp = tt_ramp(a, tt_idx(a, 10), 2, 4);
  p.nest.body = put(&f, p.c, ramp, NULL, at(&f, p.a, ramp, NULL));
  expect_error(&f, &p, "A dimension 0 (0..15) is read at 16");
  /* A mask does not hide what a vector reads. */
  const struct tt_expr *mask =
      tt_binary(a, TT_LT, ramp, tt_broadcast(a, tt_idx(a, 16), 4));
  const struct tt_expr *first = tt_ramp(a, tt_idx(a, 0), 1, 4);
  p.nest.body = put(&f, p.c, first, NULL,
                    tt_select(a, mask, at(&f, p.a, ramp, NULL),
                              tt_broadcast(a, tt_flt(a, TT_F32, 0), 4)));
  expect_error(&f, &p, "A dimension 0 (0..15) is read at 16");
  /* A local that is not allocated, a variable that is not bound. */
  p.nest.body = put(&f, p.local, tt_idx(a, 0), NULL, tt_flt(a, TT_F32, 1));
  expect_error(&f, &p, "L may not be written");
  p.nest.body = put(&f, p.c, ref(&f, p.i), NULL, tt_flt(a, TT_F32, 1));
  expect_error(&f, &p, "i is not bound");
  p.nest.body = put(&f, p.a, tt_idx(a, 0), NULL, tt_flt(a, TT_F32, 1));
  expect_error(&f, &p, "A may not be written");
  close_fix(&f);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(softmax_of_matmul),
      cmocka_unit_test(single_points_agree),
      cmocka_unit_test(long_chain),
      cmocka_unit_test(indirect_out_of_range),
      cmocka_unit_test(vector_nest),
      cmocka_unit_test(faults_are_found),
  };
  return cmocka_run_group_tests_name("interp", tests, NULL, NULL);
}
