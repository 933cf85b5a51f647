/* The verifier of expressions: what every pass may rely on. */
#include "config.h"

#include "ir/verify.h"

#include "ir/simplify.h"

#include <inttypes.h>
#include <string.h>

enum { BUDGET = 4096, MAX_LANES = 256 };

void
tt_verifier_fail(struct tt_verifier *v, const char *fmt, ...)
{
  if (v->error)
    return;
  struct tt_sb sb = {0};
  va_list ap;
  va_start(ap, fmt);
  tt_sb_vprintf(&sb, fmt, ap);
  va_end(ap);
  v->error = tt_arena_strdup(v->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
}

/* Fail and show the expression, cut to a readable length. */
static void
fail_at(struct tt_verifier *v, const struct tt_expr *e, const char *what)
{
  if (v->error)
    return;
  struct tt_sb sb = {0};
  tt_dump_expr(&sb, e);
  tt_verifier_fail(v, "%s: %.200s", what, tt_sb_str(&sb));
  tt_sb_free(&sb);
}

static void
expect(struct tt_verifier *v, bool ok, const struct tt_expr *e,
       const char *what)
{
  if (!ok)
    fail_at(v, e, what);
}

/* ---- accesses ---------------------------------------------------------- */

static bool
inside(struct tt_interval r, int64_t dim)
{
  return r.ok && r.lo >= 0 && r.hi < dim;
}

/* Once more with the index simplified, and each fact in the light of the
 * others: slower, but sees through quotients and remainders. */
static struct tt_interval
bounds_again(struct tt_verifier *v, const struct tt_expr *idx)
{
  struct tt_simp s = {.arena = v->arena}, all = {.arena = v->arena};
  int n = v->facts.conds.n;
  bool reached = true;
  for (int i = 0; i < n; i++) {
    struct tt_facts f = v->facts.conds.items[i];
    struct tt_fact_mark mark = tt_factset_mark(&s.facts);
    for (int j = 0; j < n; j++)
      if (j != i && n <= 16)
        tt_factset_push(&s.facts, v->facts.conds.items[j].cond,
                        v->facts.conds.items[j].negated);
    const struct tt_expr *cond = tt_simp(&s, f.cond);
    tt_factset_pop(&s.facts, mark);
    reached &= cond->kind != TT_INT || (cond->ival != 0) != f.negated;
    tt_factset_push(&all.facts, f.cond, f.negated);
    tt_factset_push(&all.facts, cond, f.negated);
  }
  const struct tt_expr *simple = tt_simp(&all, idx);
  all.facts.thorough = true;
  struct tt_interval r = tt_bounds_in(&all.facts, simple, BUDGET);
  tt_factset_free(&s.facts);
  tt_factset_free(&all.facts);
  return reached ? r : (struct tt_interval){true, 0, -1};
}

static void
check_index(struct tt_verifier *v, const struct tt_tensor *t, int dim,
            const struct tt_expr *idx)
{
  int64_t size = t->dims[dim];
  expect(v, idx->type.dtype == TT_I64, idx, "an index is no i64");
  if (v->error || (idx->kind == TT_INT && idx->ival >= 0 && idx->ival < size))
    return;
  if (inside(tt_bounds_in(&v->facts, idx, BUDGET), size))
    return;
  struct tt_interval r = bounds_again(v, idx);
  if (inside(r, size))
    return;
  struct tt_sb sb = {0};
  tt_dump_expr(&sb, idx);
  if (r.ok)
    tt_verifier_fail(v,
                     "%s dimension %d (0..%" PRId64 ") is accessed at %.200s"
                     " in %" PRId64 "..%" PRId64,
                     t->name, dim, size - 1, tt_sb_str(&sb), r.lo, r.hi);
  else
    tt_verifier_fail(v, "%s dimension %d is accessed at %.200s, unbounded",
                     t->name, dim, tt_sb_str(&sb));
  tt_sb_free(&sb);
}

static bool
is_constant_index(const struct tt_expr *e)
{
  if (e->kind == TT_RAMP || e->kind == TT_BROADCAST)
    e = e->a;
  return e->kind == TT_INT;
}

void
tt_verify_access(struct tt_verifier *v, const struct tt_tensor *t, int n,
                 const struct tt_expr *const *idx)
{
  if (n != t->ndim) {
    tt_verifier_fail(v, "%s has %d dimensions, %d indices", t->name, t->ndim,
                     n);
    return;
  }
  for (int i = 0; i < n; i++) {
    tt_verify_expr(v, idx[i]);
    if (!v->error)
      check_index(v, t, i, idx[i]);
    if (v->unrolled && t->role == TT_LOCAL && t->scope == TT_REGISTER)
      expect(v, is_constant_index(idx[i]), idx[i],
             "an index of a register is not constant");
  }
}

/* ---- nodes ------------------------------------------------------------- */

static bool
same(struct tt_type a, struct tt_type b)
{
  return a.dtype == b.dtype && a.lanes == b.lanes;
}

static bool
is_shift(enum tt_binop op)
{
  return op == TT_SHL || op == TT_SHR;
}

/* Is the operator there for operands of this type? */
static bool
op_allows(enum tt_binop op, enum tt_dtype t)
{
  bool is_float = tt_dtype_is_float(t), is_bool = t == TT_BOOL;
  switch (op) {
  case TT_OR:
  case TT_AND:
    return is_bool;
  case TT_EQ:
  case TT_NE:
    return true;
  case TT_LT:
  case TT_GT:
  case TT_LE:
  case TT_GE:
  case TT_ADD:
  case TT_SUB:
  case TT_MUL:
  case TT_DIV:
  case TT_MIN:
  case TT_MAX:
    return !is_bool;
  case TT_MOD:
  case TT_SHL:
  case TT_SHR:
    return !is_bool && !is_float;
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
    return !is_float;
  case TT_NBINOPS:
    break;
  }
  return false;
}

static bool
is_comparison(enum tt_binop op)
{
  return op == TT_EQ || op == TT_NE || op == TT_LT || op == TT_GT ||
         op == TT_LE || op == TT_GE;
}

static void
check_binary(struct tt_verifier *v, const struct tt_expr *e)
{
  enum tt_dtype t = e->a->type.dtype, u = e->b->type.dtype;
  struct tt_type want = {is_comparison(e->op) ? TT_BOOL : t, e->a->type.lanes};
  expect(v, op_allows(e->op, t), e, "an operator of the wrong type");
  expect(v, e->a->type.lanes == e->b->type.lanes, e, "lanes differ");
  expect(v, is_shift(e->op) ? tt_dtype_is_int(u) : t == u, e,
         "operand types differ");
  expect(v, same(e->type, want), e, "the result has the wrong type");
}

static bool
fn_allows(enum tt_fn fn, enum tt_dtype t)
{
  bool is_float = tt_dtype_is_float(t);
  switch (fn) {
  case TT_FN_EXP:
  case TT_FN_LOG:
  case TT_FN_SQRT:
  case TT_FN_RSQRT:
  case TT_FN_TANH:
  case TT_FN_SIGMOID:
  case TT_FN_ERF:
    return is_float;
  case TT_FN_ABS:
  case TT_FN_FLOOR:
  case TT_FN_CEIL:
  case TT_FN_ROUND:
  case TT_FN_POW:
  case TT_FN_QUOT:
  case TT_FN_REM:
    return t != TT_BOOL;
  case TT_FN_SQRDMULH:
  case TT_FN_RDIVP2:
    return t == TT_I32;
  case TT_NFNS:
    break;
  }
  return false;
}

static void
check_call(struct tt_verifier *v, const struct tt_expr *e)
{
  enum tt_dtype t = e->type.dtype;
  expect(v, e->nargs == tt_fn_nargs(e->fn), e, "wrong number of arguments");
  expect(v, fn_allows(e->fn, t), e, "a function of the wrong type");
  for (int i = 0; i < e->nargs; i++) {
    enum tt_dtype u = e->args[i]->type.dtype;
    bool count = e->fn == TT_FN_RDIVP2 && i == 1;
    expect(v, count ? tt_dtype_is_int(u) : u == t, e,
           "an argument of the wrong type");
    expect(v, e->args[i]->type.lanes == e->type.lanes, e, "lanes differ");
  }
}

static void
check_load(struct tt_verifier *v, const struct tt_expr *e)
{
  const char *why = v->unreadable(v->ctx, e->tensor);
  if (why) {
    tt_verifier_fail(v, "%s %s", e->tensor->name, why);
    return;
  }
  expect(v, e->type.dtype == e->tensor->dtype, e,
         "a load has not its tensor's type");
  int lanes = 1;
  for (int i = 0; i < e->nargs; i++) {
    int l = e->args[i]->type.lanes;
    expect(v, l == 1 || l == e->type.lanes, e, "lanes differ");
    lanes = l > lanes ? l : lanes;
  }
  expect(v, lanes == e->type.lanes, e, "a load of the wrong lanes");
  tt_verify_access(v, e->tensor, e->nargs, e->args);
}

static void
check_var(struct tt_verifier *v, const struct tt_expr *e)
{
  expect(v, same(e->type, (struct tt_type){TT_I64, 1}), e,
         "a variable is no i64");
  for (int i = v->vars.n - 1; i >= 0; i--)
    if (v->vars.items[i] == e->var)
      return;
  tt_verifier_fail(v, "%s is not bound", e->var->name);
}

/* `e` where `cond` is known; nothing to check where that never happens. */
static void
check_under(struct tt_verifier *v, const struct tt_expr *e,
            const struct tt_expr *cond, bool negated)
{
  if (cond->type.lanes > 1) { /* a mask: all lanes are computed */
    tt_verify_expr(v, e);
    return;
  }
  int known = tt_prove_in(&v->facts, cond, BUDGET);
  if (known == negated)
    return;
  struct tt_fact_mark mark = tt_factset_mark(&v->facts);
  tt_factset_push(&v->facts, cond, negated);
  tt_verify_expr(v, e);
  tt_factset_pop(&v->facts, mark);
}

static void
check_select(struct tt_verifier *v, const struct tt_expr *e)
{
  struct tt_type c = e->c->type;
  expect(v, c.dtype == TT_BOOL && (c.lanes == 1 || c.lanes == e->type.lanes), e,
         "a condition of the wrong type");
  expect(v, same(e->a->type, e->type) && same(e->b->type, e->type), e,
         "the sides of ?: differ in type");
  tt_verify_expr(v, e->c);
  if (v->error)
    return;
  check_under(v, e->a, e->c, false);
  check_under(v, e->b, e->c, true);
}

static void
check_operands(struct tt_verifier *v, const struct tt_expr *e)
{
  if (e->kind == TT_BINARY && (e->op == TT_AND || e->op == TT_OR)) {
    tt_verify_expr(v, e->a);
    if (!v->error)
      check_under(v, e->b, e->a, e->op == TT_OR);
    return;
  }
  if (e->a)
    tt_verify_expr(v, e->a);
  if (e->b)
    tt_verify_expr(v, e->b);
  for (int i = 0; i < e->nargs; i++)
    tt_verify_expr(v, e->args[i]);
}

static void
check_constant(struct tt_verifier *v, const struct tt_expr *e)
{
  expect(v, e->type.lanes == 1, e, "a constant with lanes");
  if (e->kind == TT_INT) {
    expect(v, !tt_dtype_is_float(e->type.dtype), e, "an integer of type float");
    expect(v, tt_wrap(e->type.dtype, e->ival) == e->ival, e,
           "a constant is outside its type");
    return;
  }
  double r = tt_round_float(e->type.dtype, e->fval);
  expect(v, tt_dtype_is_float(e->type.dtype), e, "a float of type integer");
  expect(v, r == e->fval || e->fval != e->fval, e,
         "a constant is not rounded to its type");
}

void
tt_verify_expr(struct tt_verifier *v, const struct tt_expr *e)
{
  struct tt_type t = e->type;
  if (v->error)
    return;
  expect(v, t.lanes >= 1 && t.lanes <= MAX_LANES, e, "a bad number of lanes");
  switch (e->kind) {
  case TT_INT:
  case TT_FLT:
    check_constant(v, e);
    return;
  case TT_VAR:
    check_var(v, e);
    return;
  case TT_LOAD:
    check_load(v, e);
    return;
  case TT_SELECT:
    check_select(v, e);
    return;
  case TT_BINARY:
    check_binary(v, e);
    break;
  case TT_NEG:
    expect(v, same(t, e->a->type) && t.dtype != TT_BOOL, e,
           "- of a wrong type");
    break;
  case TT_NOT:
    expect(v, same(t, e->a->type) && !tt_dtype_is_float(t.dtype), e,
           "! of a wrong type");
    break;
  case TT_CAST:
  case TT_SAT:
    expect(v, t.lanes == e->a->type.lanes, e, "lanes differ");
    break;
  case TT_CALL:
    check_call(v, e);
    break;
  case TT_RAMP:
    expect(v, t.dtype == TT_I64, e, "a ramp is no i64");
    /* fall through */
  case TT_BROADCAST:
    expect(v,
           t.lanes > 1 && e->a->type.lanes == 1 && e->a->type.dtype == t.dtype,
           e, "a vector of the wrong type");
    break;
  }
  if (!v->error)
    check_operands(v, e);
}
