/* The verifier takes what is right and names what is wrong. */
#include "config.h"

#include "ir/passes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

/* Y[i] = sum[r] where i + r >= 1 of X[i + r - 1], X of 8, Y of 6, r in 3. */
struct fix {
  struct tt_arena *arena;
  struct tt_program *program;
  struct tt_tensor *x, *y;
  const struct tt_var *vi, *vr;
  const struct tt_expr *i, *r, *row;
  struct tt_stage *stage;
};

static void
open_fix(struct fix *f)
{
  int64_t in[] = {8}, out[] = {6};
  struct tt_arena *a = f->arena = tt_arena_new();
  f->program = tt_program_new(a, "k");
  f->x = tt_program_tensor(f->program, "X", TT_INPUT, TT_F32, 1, in);
  f->y = tt_program_tensor(f->program, "Y", TT_OUTPUT, TT_F32, 1, out);
  f->vi = tt_program_var(f->program, "i", 6);
  f->vr = tt_program_var(f->program, "r", 3);
  f->i = tt_var_ref(a, f->vi);
  f->r = tt_var_ref(a, f->vr);
  f->row = tt_isub(a, tt_iadd(a, f->i, f->r), tt_idx(a, 1));
  f->stage = tt_program_stage(f->program, f->y, &f->vi, TT_RED_SUM, 1, &f->vr,
                              tt_load(a, f->x, 1, &f->row),
                              tt_binary(a, TT_GE, f->row, tt_idx(a, 0)));
}

static void
expect(const char *error, const char *part)
{
  if (!error)
    fail_msg("nothing was said of \"%s\"", part);
  else if (!strstr(error, part))
    fail_msg("\"%s\" is not in \"%s\"", part, error);
}

static void
expect_program(struct fix *f, const char *part)
{
  expect(tt_verify_program(f->arena, f->program), part);
  tt_arena_free(f->arena);
  open_fix(f);
  assert_null(tt_verify_program(f->arena, f->program));
}

/* A node with one field changed, which no constructor would make. */
static struct tt_expr *
forge(struct fix *f, const struct tt_expr *e)
{
  return tt_arena_dup(f->arena, e, sizeof *e);
}

static void
programs(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  assert_null(tt_verify_program(f.arena, f.program));
  f.stage->where = NULL;
  expect_program(&f, "X dimension 0 (0..7) is accessed at i + r - 1 in -1..6");
  f.x->dims[0] = 6;
  expect_program(&f, "in 0..6");
  f.stage->reduce = NULL;
  f.stage->nreduce = 0;
  expect_program(&f, "reduction axes");
  f.stage->spatial = &f.vr;
  expect_program(&f, "does not span dimension 0");
  f.stage->reduce = &f.vi;
  expect_program(&f, "axis i is bound twice");
  f.stage->red = TT_RED_ANY;
  expect_program(&f, "any of f32");
  f.y->dtype = TT_F64;
  expect_program(&f, "its value has another type");
  f.stage->value = tt_load(f.arena, f.y, 1, &f.i);
  expect_program(&f, "Y is read before it is defined");
  f.program->nstages = 0;
  expect_program(&f, "output Y is never defined");
  f.stage->prepare = true;
  expect_program(&f, "an output cannot be prepared");
  f.y->role = TT_TEMP;
  f.stage->prepare = true;
  expect_program(&f, "X is an input, read in preparation");
  f.x->role = TT_CONST;
  expect_program(&f, "X has no elements");
  f.stage->where = tt_binary(f.arena, TT_GE, f.row, f.row);
  expect_program(&f, "X dimension 0");
  tt_program_stage(f.program, f.y, &f.vi, TT_RED_SUM, 1, &f.vr, f.stage->value,
                   f.stage->where);
  expect_program(&f, "defined twice");
  tt_arena_free(f.arena);
}

static void
nodes(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_expr *e = forge(&f, f.stage->value);
  e->type.dtype = TT_F16;
  f.y->dtype = TT_F16;
  f.stage->value = e;
  expect_program(&f, "a load has not its tensor's type");
  e = forge(&f, f.stage->value);
  e->nargs = 0;
  f.stage->value = e;
  expect_program(&f, "X has 1 dimensions, 0 indices");
  const struct tt_expr *x = f.stage->value;
  e = forge(&f, tt_binary(f.arena, TT_ADD, x, x));
  e->b = tt_flt(f.arena, TT_F64, 1);
  f.stage->value = e;
  expect_program(&f, "operand types differ");
  x = f.stage->value;
  e = forge(&f, tt_binary(f.arena, TT_ADD, x, x));
  e->op = TT_SHL;
  f.stage->value = e;
  expect_program(&f, "an operator of the wrong type");
  e = forge(&f, tt_flt(f.arena, TT_F32, 0));
  e->fval = 0.1;
  f.stage->value = e;
  expect_program(&f, "not rounded");
  e = forge(&f, f.i);
  e->var = tt_program_var(f.program, "q", 2);
  const struct tt_expr *q = e;
  f.stage->value = tt_load(f.arena, f.x, 1, &q);
  expect_program(&f, "q is not bound");
  const struct tt_expr *v = f.stage->value;
  e = forge(&f, tt_call(f.arena, TT_FN_EXP, TT_F32, 1, &v));
  e->fn = TT_FN_SQRDMULH;
  f.stage->value = e;
  expect_program(&f, "wrong number of arguments");
  f.stage->value =
      tt_cast(f.arena, TT_F32, tt_broadcast(f.arena, tt_idx(f.arena, 1), 4));
  expect_program(&f, "its value has another type");
  tt_arena_free(f.arena);
}

/* Guards of all kinds are understood. */
static void
guards(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  const struct tt_expr *x = f.stage->value, *zero = tt_zero(a, TT_F32);
  const struct tt_expr *low = tt_binary(a, TT_LT, f.row, tt_idx(a, 0));
  f.stage->where = NULL;
  f.stage->value = tt_select(a, low, zero, x);
  assert_null(tt_verify_program(a, f.program));
  f.stage->value = tt_select(a, tt_not(a, low), x, zero);
  assert_null(tt_verify_program(a, f.program));
  f.stage->value = tt_select(a, tt_not(a, low), zero, x);
  assert_non_null(tt_verify_program(a, f.program));
  const struct tt_expr *big = tt_binary(a, TT_GT, x, zero);
  f.stage->value =
      tt_select(a, tt_binary(a, TT_AND, tt_not(a, low), big), zero, zero);
  assert_null(tt_verify_program(a, f.program));
  f.stage->value =
      tt_select(a, tt_binary(a, TT_AND, big, tt_not(a, low)), zero, zero);
  assert_non_null(tt_verify_program(a, f.program));
  const struct tt_expr *at = tt_imax(a, f.row, tt_idx(a, 0));
  f.stage->value = tt_load(a, f.x, 1, &at);
  assert_null(tt_verify_program(a, f.program));
  tt_arena_free(f.arena);
}

/* ---- loop nests -------------------------------------------------------- */

static const struct tt_stmt *
loop(struct fix *f, const struct tt_var *v, const struct tt_stmt *body)
{
  return tt_for(f->arena, TT_SERIAL, 1, v, body);
}

static void
statements(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  const struct tt_expr *zero = tt_zero(a, TT_F32), *c0 = tt_idx(a, 0);
  const struct tt_stmt *init = tt_store(a, f.y, 1, &f.i, zero);
  assert_null(tt_verify_stmt(a, loop(&f, f.vi, init), false));
  expect(tt_verify_stmt(a, init, false), "i is not bound");
  expect(tt_verify_stmt(a, loop(&f, f.vi, loop(&f, f.vi, init)), false),
         "two live loops run over i");
  expect(tt_verify_stmt(a, tt_store(a, f.x, 1, &c0, zero), false),
         "X cannot be written");
  const struct tt_expr *six = tt_idx(a, 6);
  expect(tt_verify_stmt(a, tt_store(a, f.y, 1, &six, zero), false),
         "Y dimension 0 (0..5) is accessed at 6");
  /* An if is a guard, and an else. */
  const struct tt_expr *wide = tt_imul(a, f.i, 2);
  const struct tt_stmt *store = tt_store(a, f.y, 1, &wide, zero);
  const struct tt_expr *in = tt_binary(a, TT_LT, wide, six);
  assert_null(
      tt_verify_stmt(a, loop(&f, f.vi, tt_if(a, in, store, init)), false));
  expect(tt_verify_stmt(a, loop(&f, f.vi, tt_if(a, in, init, store)), false),
         "Y dimension 0");
  tt_arena_free(f.arena);
}

static void
locals(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  struct tt_tensor local = {.name = "acc",
                            .dtype = TT_F32,
                            .role = TT_LOCAL,
                            .scope = TT_REGISTER,
                            .ndim = 1,
                            .dims = {6},
                            .id = -1};
  const struct tt_stmt *put =
      loop(&f, f.vi, tt_store(a, &local, 1, &f.i, tt_zero(a, TT_F32)));
  expect(tt_verify_stmt(a, put, false), "acc is used where it is not alloc");
  put = tt_alloc_stmt(a, &local, put);
  assert_null(tt_verify_stmt(a, put, false));
  expect(tt_verify_stmt(a, put, true), "an index of a register is not const");
  expect(tt_verify_stmt(a, tt_alloc_stmt(a, &local, put), false),
         "acc is allocated twice");
  tt_arena_free(f.arena);
}

static void
vectors(void **state)
{
  (void)state;
  struct fix f;
  open_fix(&f);
  struct tt_arena *a = f.arena;
  const struct tt_expr *ramp = tt_ramp(a, tt_idx(a, 1), 1, 4);
  const struct tt_expr *x = tt_load(a, f.x, 1, &ramp);
  assert_null(tt_verify_stmt(a, tt_store(a, f.y, 1, &ramp, x), true));
  const struct tt_expr *last = tt_ramp(a, tt_idx(a, 3), 1, 4);
  expect(tt_verify_stmt(a, tt_store(a, f.y, 1, &last, x), true),
         "Y dimension 0 (0..5) is accessed at ramp(3, 1, 4) in 3..6");
  const struct tt_expr *c0 = tt_idx(a, 0);
  expect(tt_verify_stmt(a, tt_store(a, f.y, 1, &c0, x), true),
         "a vector without a vector index");
  const struct tt_expr *far = tt_ramp(a, tt_idx(a, 0), 3, 4);
  /* A mask does not make a vector load legal. */
  const struct tt_expr *mask =
      tt_binary(a, TT_LT, far, tt_broadcast(a, tt_idx(a, 8), 4));
  const struct tt_expr *e = tt_select(a, mask, tt_load(a, f.x, 1, &far),
                                      tt_broadcast(a, tt_zero(a, TT_F32), 4));
  expect(tt_verify_stmt(a, tt_store(a, f.y, 1, &ramp, e), true),
         "X dimension 0 (0..7) is accessed at ramp(0, 3, 4)");
  tt_arena_free(f.arena);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(programs), cmocka_unit_test(nodes),
      cmocka_unit_test(guards),   cmocka_unit_test(statements),
      cmocka_unit_test(locals),   cmocka_unit_test(vectors),
  };
  return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
