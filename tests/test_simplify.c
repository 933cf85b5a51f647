/* The simplifier, bounds and proofs against evaluation: random expressions of
 * all types, scalar and vector, at random points. */
#include "config.h"

#include "ir/eval.h"
#include "ir/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

enum { NVARS = 4, LANES = 4, POINTS = 25 };

struct fix {
  struct tt_arena *arena;
  struct tt_program *program;
  const struct tt_var *vars[NVARS];
  struct tt_tensor *table, *ftable, *ints, *bytes, *floats;
  uint64_t rng;
  int64_t point[NVARS];
  bool bad; /* the expression read outside a tensor, or has no value */
};

static uint64_t
next(struct fix *f)
{
  return tt_random_bits(f->rng++, 7, 0);
}

static int64_t
pick(struct fix *f, int64_t n)
{
  return (int64_t)(next(f) % (uint64_t)n);
}

static const int64_t itable[] = {0, 1, -1, 5, 0, 3, 2, 7};
static const double ftable[] = {0, 1, -1, 0.5, 0, 2, 1, -2};

static void
setup(struct fix *f, uint64_t seed)
{
  static const int64_t extents[] = {8, 1, 13, 96, 5, 3, 64, 7};
  f->arena = tt_arena_new();
  f->program = tt_program_new(f->arena, "k");
  f->rng = seed * 1000003;
  for (int i = 0; i < NVARS; i++) {
    char name[2] = {(char)('i' + i), 0};
    f->vars[i] = tt_program_var(f->program, name, extents[pick(f, 8)]);
  }
  int64_t dims[] = {8};
  f->table = tt_program_tensor(f->program, "T", TT_CONST, TT_I64, 1, dims);
  f->table->idata = itable;
  f->ftable = tt_program_tensor(f->program, "G", TT_CONST, TT_F32, 1, dims);
  f->ftable->fdata = ftable;
  f->ints = tt_program_tensor(f->program, "A", TT_INPUT, TT_I32, 1, dims);
  f->ints->has_range = true;
  f->ints->lo = -3;
  f->ints->hi = 9;
  f->bytes = tt_program_tensor(f->program, "B", TT_INPUT, TT_I8, 1, dims);
  f->floats = tt_program_tensor(f->program, "X", TT_INPUT, TT_F32, 1, dims);
}

/* ---- a direct evaluator ------------------------------------------------ */

static union tt_number eval(struct fix *f, const struct tt_expr *e, int lane);

static union tt_number
element(const struct tt_tensor *t, int64_t at)
{
  uint64_t bits = tt_random_bits(99, (uint32_t)t->id, (uint64_t)at);
  if (t->role == TT_CONST)
    return t->fdata ? (union tt_number){.f = t->fdata[at]}
                    : (union tt_number){.i = t->idata[at]};
  if (tt_dtype_is_float(t->dtype))
    return (union tt_number){.f = tt_random_float(bits)};
  return (union tt_number){.i = tt_random_int(bits, t)};
}

static union tt_number
eval(struct fix *f, const struct tt_expr *e, int lane)
{
  union tt_number r = {0}, args[2];
  enum tt_dtype t = e->type.dtype;
  switch (e->kind) {
  case TT_INT:
    r.i = e->ival;
    return r;
  case TT_FLT:
    r.f = e->fval;
    return r;
  case TT_VAR:
    for (int i = 0; i < NVARS; i++)
      if (f->vars[i] == e->var)
        r.i = f->point[i];
    return r;
  case TT_LOAD: {
    int64_t at = eval(f, e->args[0], lane).i;
    if (at < 0 || at >= e->tensor->dims[0]) {
      f->bad = true;
      at = 0;
    }
    return element(e->tensor, at);
  }
  case TT_BINARY:
    if (e->op == TT_AND || e->op == TT_OR) {
      r = eval(f, e->a, lane);
      return r.i == (e->op == TT_OR) ? r : eval(f, e->b, lane);
    }
    if (!tt_eval_binary(e->op, e->a->type.dtype, eval(f, e->a, lane),
                        eval(f, e->b, lane), &r))
      f->bad = true;
    return r;
  case TT_NEG:
    return tt_eval_neg(t, eval(f, e->a, lane));
  case TT_NOT:
    return tt_eval_not(t, eval(f, e->a, lane));
  case TT_CAST:
    return tt_eval_cast(t, e->a->type.dtype, eval(f, e->a, lane));
  case TT_SAT:
    return tt_eval_sat(t, e->a->type.dtype, eval(f, e->a, lane));
  case TT_SELECT:
    return eval(f, eval(f, e->c, lane).i ? e->a : e->b, lane);
  case TT_CALL:
    for (int i = 0; i < e->nargs; i++)
      args[i] = eval(f, e->args[i], lane);
    f->bad |= !tt_eval_call(e->fn, t, args, &r);
    return r;
  case TT_RAMP:
    r = eval(f, e->a, 0);
    r.i = (int64_t)((uint64_t)r.i + (uint64_t)e->ival * (uint64_t)lane);
    return r;
  case TT_BROADCAST:
    return eval(f, e->a, 0);
  }
  return r;
}

/* ---- a generator ------------------------------------------------------- */

static const struct tt_expr *gen(struct fix *f, enum tt_dtype t, int lanes,
                                 int depth);

static const struct tt_expr *
wide(struct fix *f, const struct tt_expr *e, int lanes)
{
  return lanes > 1 ? tt_broadcast(f->arena, e, lanes) : e;
}

static const struct tt_expr *
gen_const(struct fix *f, enum tt_dtype t, int lanes)
{
  static const double floats[] = {0, 1, -1, 2, 0.5, -0.25};
  if (tt_dtype_is_float(t))
    return wide(f, tt_flt(f->arena, t, floats[pick(f, 6)]), lanes);
  return wide(f, tt_int(f->arena, t, pick(f, 40) - 12), lanes);
}

static const struct tt_expr *
gen_nonzero(struct fix *f, enum tt_dtype t, int lanes)
{
  static const int64_t divisors[] = {2, 3, 4, 8, 6, 1, 12, 64, -3, 16, 5, 24};
  return wide(f, tt_int(f->arena, t, divisors[pick(f, 12)]), lanes);
}

static const struct tt_expr *
gen_leaf(struct fix *f, enum tt_dtype t, int lanes)
{
  if (t == TT_I64 && pick(f, 4)) {
    const struct tt_expr *v = tt_var_ref(f->arena, f->vars[pick(f, NVARS)]);
    return lanes > 1 && pick(f, 2) ? tt_ramp(f->arena, v, pick(f, 5) - 1, lanes)
                                   : wide(f, v, lanes);
  }
  if (t == TT_BOOL)
    return wide(f, tt_bool(f->arena, pick(f, 2)), lanes);
  struct tt_tensor *from = t == TT_F32   ? pick(f, 2) ? f->floats : f->ftable
                           : t == TT_I8  ? f->bytes
                           : t == TT_I32 ? f->ints
                                         : f->table;
  if (from->dtype != t || pick(f, 3) == 0)
    return gen_const(f, t, lanes);
  const struct tt_expr *at = gen(f, TT_I64, lanes, 1);
  at = tt_binary(f->arena, TT_MOD, at, wide(f, tt_idx(f->arena, 8), lanes));
  return tt_load(f->arena, from, 1, &at);
}

static const struct tt_expr *
gen_bool(struct fix *f, int lanes, int depth)
{
  static const enum tt_dtype types[] = {TT_I64, TT_I64, TT_I64, TT_I32,
                                        TT_I8,  TT_F32, TT_U8,  TT_BOOL};
  static const enum tt_binop ops[] = {TT_LT, TT_LE, TT_GT, TT_GE, TT_EQ, TT_NE};
  int64_t k = pick(f, 8);
  if (k < 2)
    return tt_binary(f->arena, k ? TT_AND : TT_OR,
                     gen_bool(f, lanes, depth - 1),
                     gen_bool(f, lanes, depth - 1));
  if (k == 2)
    return tt_not(f->arena, gen(f, TT_BOOL, lanes, depth - 1));
  enum tt_dtype t = depth > 0 ? types[pick(f, 8)] : TT_I64;
  return tt_binary(f->arena, ops[pick(f, 6)], gen(f, t, lanes, depth - 1),
                   gen(f, t, lanes, depth - 1));
}

static const struct tt_expr *
gen_cast(struct fix *f, enum tt_dtype t, int lanes, int depth)
{
  static const enum tt_dtype types[] = {TT_I64, TT_I32, TT_I8, TT_U8, TT_BOOL};
  enum tt_dtype from = types[pick(f, 5)];
  const struct tt_expr *a = gen(f, from, lanes, depth - 1);
  return pick(f, 3) ? tt_cast(f->arena, t, a) : tt_sat(f->arena, t, a);
}

static const struct tt_expr *
gen_arith(struct fix *f, enum tt_dtype t, int lanes, int depth)
{
  static const enum tt_binop ops[] = {TT_ADD, TT_ADD,  TT_SUB, TT_MUL, TT_MUL,
                                      TT_MIN, TT_MAX,  TT_DIV, TT_MOD, TT_SHL,
                                      TT_SHR, TT_BAND, TT_BOR, TT_BXOR};
  bool is_float = tt_dtype_is_float(t);
  enum tt_binop op = ops[pick(f, is_float ? 7 : t == TT_I64 ? 11 : 14)];
  const struct tt_expr *a = gen(f, t, lanes, depth - 1), *b;
  if (op == TT_DIV || op == TT_MOD)
    b = gen_nonzero(f, t, lanes);
  else if (op == TT_SHL || op == TT_SHR)
    b = wide(f, tt_int(f->arena, t, pick(f, 5)), lanes);
  else if (op == TT_MUL && t == TT_I64 && pick(f, 4))
    b = gen_const(f, t, lanes);
  else
    b = gen(f, t, lanes, depth - 1);
  return tt_binary(f->arena, op, a, b);
}

static const struct tt_expr *
gen(struct fix *f, enum tt_dtype t, int lanes, int depth)
{
  if (depth <= 0)
    return gen_leaf(f, t, lanes);
  if (lanes > 1 && pick(f, 5) == 0)
    return wide(f, gen(f, t, 1, depth - 1), lanes);
  if (t == TT_BOOL)
    return gen_bool(f, lanes, depth - 1);
  switch (pick(f, 9)) {
  case 0:
    return tt_neg(f->arena, gen(f, t, lanes, depth - 1));
  case 1:
    return tt_select(f->arena, gen(f, TT_BOOL, pick(f, 2) ? lanes : 1, depth),
                     gen(f, t, lanes, depth - 1), gen(f, t, lanes, depth - 1));
  case 2:
    return gen_cast(f, t, lanes, depth);
  case 3: {
    const struct tt_expr *a = gen(f, t, lanes, depth - 1);
    return tt_call(f->arena, TT_FN_ABS, t, 1, &a);
  }
  case 4:
    return gen_leaf(f, t, lanes);
  default:
    return gen_arith(f, t, lanes, depth);
  }
}

/* ---- the properties ---------------------------------------------------- */

static void
move(struct fix *f)
{
  for (int i = 0; i < NVARS; i++)
    f->point[i] = pick(f, f->vars[i]->extent);
}

static void
report(const struct tt_expr *e, const struct tt_expr *r, uint64_t seed)
{
  struct tt_sb sb = {0};
  tt_dump_expr(&sb, e);
  tt_sb_add(&sb, "\n -> ");
  tt_dump_expr(&sb, r);
  print_error("seed %llu: %s\n", (unsigned long long)seed, tt_sb_str(&sb));
  tt_sb_free(&sb);
}

static bool
same(enum tt_dtype t, union tt_number a, union tt_number b)
{
  return tt_dtype_is_float(t) ? a.f == b.f : a.i == b.i;
}

static void
check_values(struct fix *f, const struct tt_expr *e, const struct tt_expr *r,
             const struct tt_facts *facts, uint64_t seed)
{
  struct tt_interval b = {0};
  if (!tt_dtype_is_float(e->type.dtype))
    b = tt_bounds(e, facts);
  int proof = e->type.dtype == TT_BOOL ? tt_prove(e, facts) : -1;
  for (int p = 0; p < POINTS; p++) {
    move(f);
    if (facts && eval(f, facts->cond, 0).i == facts->negated)
      continue;
    for (int lane = 0; lane < e->type.lanes; lane++) {
      union tt_number want = eval(f, e, lane), got = eval(f, r, lane);
      bool ok = !f->bad && same(e->type.dtype, want, got) &&
                (!b.ok || (b.lo <= want.i && want.i <= b.hi)) &&
                (proof < 0 || proof == (want.i != 0));
      if (!ok)
        report(e, r, seed);
      assert_true(ok);
    }
  }
}

static void
random_expressions(void **state)
{
  static const enum tt_dtype types[] = {TT_I64, TT_I64, TT_BOOL, TT_I64,
                                        TT_F32, TT_I32, TT_I8,   TT_U8};
  (void)state;
  const char *scale = getenv("TEST_SCALE");
  uint64_t n = 4000 * (scale ? strtoull(scale, NULL, 10) : 1);
  for (uint64_t seed = 0; seed < n; seed++) {
    struct fix f = {0};
    setup(&f, seed);
    int lanes = pick(&f, 3) ? 1 : LANES;
    const struct tt_expr *e =
        gen(&f, types[pick(&f, 8)], lanes, 1 + (int)pick(&f, 4));
    struct tt_facts fact = {NULL, gen_bool(&f, 1, 2), pick(&f, 2)};
    const struct tt_facts *facts = pick(&f, 2) ? &fact : NULL;
    const struct tt_expr *r = tt_simplify(f.arena, e, facts);
    assert_int_equal(r->type.dtype, e->type.dtype);
    assert_int_equal(r->type.lanes, e->type.lanes);
    check_values(&f, e, r, facts, seed);
    const struct tt_expr *again = tt_simplify(f.arena, r, facts);
    if (!tt_expr_equal(r, again))
      report(r, again, seed);
    assert_true(tt_expr_equal(r, again));
    tt_arena_free(f.arena);
  }
}

/* ---- forms that lowering gives rise to --------------------------------- */

static void
check_text(struct fix *f, const struct tt_expr *e, const struct tt_facts *facts,
           const char *want)
{
  struct tt_sb sb = {0};
  tt_dump_expr(&sb, tt_simplify(f->arena, e, facts));
  assert_string_equal(tt_sb_str(&sb), want);
  tt_sb_free(&sb);
}

#define ADD(l, r) tt_binary(f.arena, TT_ADD, l, r)
#define SUB(l, r) tt_binary(f.arena, TT_SUB, l, r)
#define LT(l, r) tt_binary(f.arena, TT_LT, l, r)
#define GE(l, r) tt_binary(f.arena, TT_GE, l, r)
#define C(c) tt_idx(f.arena, c)
#define MUL(l, c) tt_binary(f.arena, TT_MUL, l, C(c))
#define DIV(l, c) tt_binary(f.arena, TT_DIV, l, C(c))
#define MOD(l, c) tt_binary(f.arena, TT_MOD, l, C(c))

static const struct tt_expr *
fresh(struct fix *f, const char *name, int64_t n)
{
  return tt_var_ref(f->arena, tt_program_var(f->program, name, n));
}

static void
splits_and_fusions(void **state)
{
  (void)state;
  struct fix f = {0};
  setup(&f, 1);
  const struct tt_expr *y = fresh(&f, "y", 56), *x = fresh(&f, "x", 56);
  const struct tt_expr *r = fresh(&f, "r", 3), *o = fresh(&f, "o", 9);
  const struct tt_expr *i = fresh(&f, "i", 16), *u = fresh(&f, "u", 1);
  const struct tt_expr *fused = fresh(&f, "f", 96);
  const struct tt_expr *tiled = ADD(MUL(o, 16), i);
  check_text(&f, ADD(SUB(ADD(y, r), C(1)), SUB(C(1), y)), NULL, "r");
  check_text(&f, DIV(tiled, 16), NULL, "o");
  check_text(&f, MOD(tiled, 16), NULL, "i");
  check_text(&f, DIV(tiled, 48), NULL, "o / 3");
  check_text(&f, MOD(tiled, 48), NULL, "i + o % 3 * 16");
  check_text(&f, DIV(MUL(tiled, 4), 8), NULL, "o * 8 + i / 2");
  check_text(&f, DIV(DIV(fused, 6), 4), NULL, "f / 24");
  check_text(&f, MOD(MOD(fused, 24), 6), NULL, "f % 6");
  check_text(&f, ADD(MUL(DIV(fused, 24), 24), MOD(fused, 24)), NULL, "f");
  check_text(&f,
             ADD(ADD(MUL(DIV(fused, 24), 24), MUL(MOD(DIV(fused, 6), 4), 6)),
                 MOD(fused, 6)),
             NULL, "f");
  check_text(&f, SUB(x, MOD(x, 4)), NULL, "x / 4 * 4");
  check_text(&f, SUB(x, MUL(DIV(x, 4), 4)), NULL, "x % 4");
  check_text(&f, ADD(u, MUL(u, 7)), NULL, "0");
  tt_arena_free(f.arena);
}

static void
guards(void **state)
{
  (void)state;
  struct fix f = {0};
  setup(&f, 1);
  const struct tt_expr *y = fresh(&f, "y", 56), *x = fresh(&f, "x", 56);
  const struct tt_expr *r = fresh(&f, "r", 3), *o = fresh(&f, "o", 9);
  const struct tt_expr *i = fresh(&f, "i", 16);
  const struct tt_expr *tiled = ADD(MUL(o, 16), i);
  const struct tt_expr *row = SUB(ADD(y, r), C(1));
  check_text(&f, tt_imin(f.arena, x, C(60)), NULL, "x");
  check_text(&f, tt_imax(f.arena, tt_imin(f.arena, x, C(60)), C(0)), NULL, "x");
  check_text(&f, GE(row, C(0)), NULL, "0 < y + r");
  check_text(&f, LT(row, C(56)), NULL, "y + r < 57");
  check_text(&f, LT(tiled, C(144)), NULL, "true");
  check_text(&f, LT(tiled, C(142)), NULL, "o * 16 + i < 142");
  check_text(&f, LT(tiled, C(0)), NULL, "false");
  struct tt_facts tail = {NULL, LT(tiled, C(10)), false};
  check_text(&f, o, &tail, "o");
  check_text(&f, LT(i, C(10)), &tail, "true");
  check_text(&f, LT(o, C(1)), &tail, "true");
  struct tt_facts inside = {NULL, GE(row, C(0)), false};
  check_text(&f, tt_imax(f.arena, row, C(0)), &inside, "y + r - 1");
  struct tt_facts outside = {NULL, LT(row, C(0)), true};
  check_text(&f, tt_imax(f.arena, row, C(0)), &outside, "y + r - 1");
  /* A flattened index needs the guards of both dimensions at once. */
  struct tt_facts both = {&inside, GE(SUB(x, r), C(0)), false};
  check_text(&f, GE(ADD(MUL(row, 56), SUB(x, r)), C(0)), &both, "true");
  tt_arena_free(f.arena);
}

static void
vectors(void **state)
{
  (void)state;
  struct fix f = {0};
  setup(&f, 1);
  const struct tt_expr *x = fresh(&f, "x", 56), *v = fresh(&f, "v", 4);
  const struct tt_expr *ramp = tt_ramp(f.arena, MUL(v, 8), 1, 8);
  const struct tt_expr *wx = tt_broadcast(f.arena, x, 8);
  const struct tt_expr *eight = tt_broadcast(f.arena, C(8), 8);
  check_text(&f, ADD(ramp, wx), NULL, "ramp(x + v * 8, 1, 8)");
  check_text(&f, ADD(wx, wx), NULL, "broadcast(x * 2, 8)");
  check_text(&f, tt_binary(f.arena, TT_DIV, ramp, eight), NULL,
             "broadcast(v, 8)");
  check_text(&f, tt_binary(f.arena, TT_MOD, ramp, eight), NULL,
             "ramp(0, 1, 8)");
  check_text(&f, tt_binary(f.arena, TT_MUL, ramp, eight), NULL,
             "ramp(v * 64, 8, 8)");
  tt_arena_free(f.arena);
}

/* What Winograd needs: 0, 1 and -1 from tables vanish. */
static void
tables(void **state)
{
  (void)state;
  struct fix f = {0};
  setup(&f, 1);
  const struct tt_expr *three = C(3), *terms[3];
  const struct tt_expr *x = tt_load(f.arena, f.floats, 1, &three);
  for (int k = 0; k < 3; k++) {
    const struct tt_expr *at = C(k);
    terms[k] =
        tt_binary(f.arena, TT_MUL, tt_load(f.arena, f.ftable, 1, &at), x);
  }
  check_text(&f, terms[0], NULL, "0.0f");
  check_text(&f, ADD(terms[0], terms[1]), NULL, "X[3]");
  check_text(&f, ADD(terms[1], terms[2]), NULL, "X[3] - X[3]");
  check_text(&f, ADD(terms[2], ADD(terms[0], terms[1])), NULL, "X[3] - X[3]");
  tt_arena_free(f.arena);
}

static void
statements(void **state)
{
  (void)state;
  struct fix f = {0};
  setup(&f, 1);
  struct tt_arena *a = f.arena;
  int64_t dims[] = {64};
  const struct tt_tensor *out =
      tt_program_tensor(f.program, "Y", TT_OUTPUT, TT_I64, 1, dims);
  const struct tt_expr *i = fresh(&f, "i", 16), *u = fresh(&f, "u", 1);
  const struct tt_expr *at = ADD(ADD(i, u), C(0));
  /* Inside a guard that i < 5, its clamp to 0..10 is nothing. */
  const struct tt_stmt *store = tt_store(a, out, 1, &at, tt_imin(a, i, C(10)));
  const struct tt_stmt *items[] = {
      tt_if(a, LT(i, C(5)), store, NULL), tt_if(a, LT(i, C(99)), store, NULL),
      tt_if(a, LT(i, C(0)), store, NULL),
      tt_for(a, TT_SERIAL, 1, fresh(&f, "n", 3)->var, tt_seq(a, 0, NULL))};
  const struct tt_stmt *loop =
      tt_for(a, TT_SERIAL, 1, i->var,
             tt_for(a, TT_SERIAL, 1, u->var, tt_seq(a, 4, items)));
  struct tt_sb sb = {0};
  tt_dump_stmt(&sb, tt_simplify_stmt(a, loop), 0);
  assert_string_equal(tt_sb_str(&sb), "for (i = 0; i < 16; i++) {\n"
                                      "  if (i < 5) {\n"
                                      "    Y[i] = i;\n"
                                      "  }\n"
                                      "  Y[i] = min(i, 10);\n"
                                      "}\n");
  tt_sb_free(&sb);
  /* A condition on what the body stores to says nothing about later reads. */
  const struct tt_expr *y0 = C(0), *load = tt_load(a, out, 1, &y0);
  const struct tt_stmt *twice[] = {
      tt_store(a, out, 1, &y0, C(9)),
      tt_store(a, out, 1, &i, tt_imin(a, load, C(5)))};
  tt_dump_stmt(
      &sb,
      tt_simplify_stmt(a, tt_if(a, LT(load, C(5)), tt_seq(a, 2, twice), NULL)),
      0);
  assert_string_equal(tt_sb_str(&sb), "if (Y[0] < 5) {\n"
                                      "  Y[0] = 9;\n"
                                      "  Y[i] = min(Y[0], 5);\n"
                                      "}\n");
  tt_sb_free(&sb);
  tt_arena_free(f.arena);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(splits_and_fusions),
                                     cmocka_unit_test(guards),
                                     cmocka_unit_test(vectors),
                                     cmocka_unit_test(tables),
                                     cmocka_unit_test(statements),
                                     cmocka_unit_test(random_expressions)};
  return cmocka_run_group_tests_name("simplify", tests, NULL, NULL);
}
