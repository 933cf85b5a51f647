/* Expressions: constructors, comparison and rewriting.
 *
 * Nodes are never changed once returned, so that subtrees may be shared
 * between expressions and programs of the same arena.
 */
#include "config.h"

#include "ir/ir.h"

#include <assert.h>
#include <string.h>

static const struct binop_info {
  const char *text;
  int prec;
} binops[TT_NBINOPS] = {
#define TT_BINOP(e, text, prec) {text, prec},
#include "ir/binop.def"
#undef TT_BINOP
};

static const struct fn_info {
  const char *name;
  int nargs;
} fns[TT_NFNS] = {
#define TT_FN(e, name, nargs) {name, nargs},
#include "ir/fn.def"
#undef TT_FN
};

const char *
tt_binop_text(enum tt_binop op)
{
  return binops[op].text;
}

int
tt_binop_prec(enum tt_binop op)
{
  return binops[op].prec;
}

const char *
tt_fn_name(enum tt_fn fn)
{
  return fns[fn].name;
}

int
tt_fn_nargs(enum tt_fn fn)
{
  return fns[fn].nargs;
}

/* ---- constructors ------------------------------------------------------ */

static struct tt_expr *
node(struct tt_arena *arena, enum tt_expr_kind kind, enum tt_dtype dtype,
     int lanes)
{
  struct tt_expr *e = TT_NEW(arena, struct tt_expr);
  e->kind = kind;
  e->type = (struct tt_type){dtype, lanes};
  return e;
}

const struct tt_expr *
tt_int(struct tt_arena *arena, enum tt_dtype dtype, int64_t v)
{
  assert(!tt_dtype_is_float(dtype));
  struct tt_expr *e = node(arena, TT_INT, dtype, 1);
  e->ival = tt_wrap(dtype, v);
  return e;
}

const struct tt_expr *
tt_flt(struct tt_arena *arena, enum tt_dtype dtype, double v)
{
  assert(tt_dtype_is_float(dtype));
  struct tt_expr *e = node(arena, TT_FLT, dtype, 1);
  e->fval = tt_round_float(dtype, v);
  return e;
}

const struct tt_expr *
tt_idx(struct tt_arena *arena, int64_t v)
{
  return tt_int(arena, TT_I64, v);
}

const struct tt_expr *
tt_bool(struct tt_arena *arena, bool v)
{
  return tt_int(arena, TT_BOOL, v);
}

const struct tt_expr *
tt_zero(struct tt_arena *arena, enum tt_dtype dtype)
{
  return tt_dtype_is_float(dtype) ? tt_flt(arena, dtype, 0)
                                  : tt_int(arena, dtype, 0);
}

const struct tt_expr *
tt_var_ref(struct tt_arena *arena, const struct tt_var *var)
{
  struct tt_expr *e = node(arena, TT_VAR, TT_I64, 1);
  e->var = var;
  return e;
}

static int
max_lanes(int n, const struct tt_expr *const *args)
{
  int lanes = 1;
  for (int i = 0; i < n; i++)
    if (args[i]->type.lanes > lanes)
      lanes = args[i]->type.lanes;
  return lanes;
}

static const struct tt_expr *const *
copy_args(struct tt_arena *arena, int n, const struct tt_expr *const *args)
{
  return tt_arena_dup(arena, args, (size_t)n * sizeof *args);
}

const struct tt_expr *
tt_load(struct tt_arena *arena, const struct tt_tensor *tensor, int n,
        const struct tt_expr *const *idx)
{
  struct tt_expr *e = node(arena, TT_LOAD, tensor->dtype, max_lanes(n, idx));
  e->tensor = tensor;
  e->nargs = n;
  e->args = copy_args(arena, n, idx);
  return e;
}

static bool
is_comparison(enum tt_binop op)
{
  return op == TT_EQ || op == TT_NE || op == TT_LT || op == TT_GT ||
         op == TT_LE || op == TT_GE;
}

const struct tt_expr *
tt_binary(struct tt_arena *arena, enum tt_binop op, const struct tt_expr *a,
          const struct tt_expr *b)
{
  assert(a->type.lanes == b->type.lanes);
  assert(op == TT_SHL || op == TT_SHR || a->type.dtype == b->type.dtype);
  struct tt_expr *e =
      node(arena, TT_BINARY, is_comparison(op) ? TT_BOOL : a->type.dtype,
           a->type.lanes);
  e->op = op;
  e->a = a;
  e->b = b;
  return e;
}

static const struct tt_expr *
unary(struct tt_arena *arena, enum tt_expr_kind kind, enum tt_dtype dtype,
      const struct tt_expr *a)
{
  struct tt_expr *e = node(arena, kind, dtype, a->type.lanes);
  e->a = a;
  return e;
}

const struct tt_expr *
tt_neg(struct tt_arena *arena, const struct tt_expr *a)
{
  return unary(arena, TT_NEG, a->type.dtype, a);
}

const struct tt_expr *
tt_not(struct tt_arena *arena, const struct tt_expr *a)
{
  return unary(arena, TT_NOT, a->type.dtype, a);
}

const struct tt_expr *
tt_cast(struct tt_arena *arena, enum tt_dtype dtype, const struct tt_expr *a)
{
  return unary(arena, TT_CAST, dtype, a);
}

const struct tt_expr *
tt_sat(struct tt_arena *arena, enum tt_dtype dtype, const struct tt_expr *a)
{
  return unary(arena, TT_SAT, dtype, a);
}

const struct tt_expr *
tt_select(struct tt_arena *arena, const struct tt_expr *cond,
          const struct tt_expr *then, const struct tt_expr *otherwise)
{
  assert(cond->type.dtype == TT_BOOL);
  assert(then->type.dtype == otherwise->type.dtype);
  assert(then->type.lanes == otherwise->type.lanes);
  assert(cond->type.lanes == 1 || cond->type.lanes == then->type.lanes);
  struct tt_expr *e =
      node(arena, TT_SELECT, then->type.dtype, then->type.lanes);
  e->c = cond;
  e->a = then;
  e->b = otherwise;
  return e;
}

const struct tt_expr *
tt_call(struct tt_arena *arena, enum tt_fn fn, enum tt_dtype dtype, int n,
        const struct tt_expr *const *args)
{
  assert(n == fns[fn].nargs);
  struct tt_expr *e = node(arena, TT_CALL, dtype, max_lanes(n, args));
  e->fn = fn;
  e->nargs = n;
  e->args = copy_args(arena, n, args);
  return e;
}

const struct tt_expr *
tt_ramp(struct tt_arena *arena, const struct tt_expr *base, int64_t stride,
        int lanes)
{
  assert(base->type.lanes == 1 && lanes > 1);
  struct tt_expr *e = node(arena, TT_RAMP, base->type.dtype, lanes);
  e->a = base;
  e->ival = stride;
  return e;
}

const struct tt_expr *
tt_broadcast(struct tt_arena *arena, const struct tt_expr *a, int lanes)
{
  assert(a->type.lanes == 1 && lanes > 1);
  struct tt_expr *e = node(arena, TT_BROADCAST, a->type.dtype, lanes);
  e->a = a;
  return e;
}

/* ---- index arithmetic -------------------------------------------------- */

bool
tt_is_int(const struct tt_expr *e, int64_t value)
{
  return e->kind == TT_INT && e->ival == value;
}

const struct tt_expr *
tt_iadd(struct tt_arena *arena, const struct tt_expr *a,
        const struct tt_expr *b)
{
  if (tt_is_int(a, 0))
    return b;
  if (tt_is_int(b, 0))
    return a;
  if (a->kind == TT_INT && b->kind == TT_INT)
    return tt_idx(arena, (int64_t)((uint64_t)a->ival + (uint64_t)b->ival));
  return tt_binary(arena, TT_ADD, a, b);
}

const struct tt_expr *
tt_isub(struct tt_arena *arena, const struct tt_expr *a,
        const struct tt_expr *b)
{
  if (tt_is_int(b, 0))
    return a;
  if (a->kind == TT_INT && b->kind == TT_INT)
    return tt_idx(arena, (int64_t)((uint64_t)a->ival - (uint64_t)b->ival));
  return tt_binary(arena, TT_SUB, a, b);
}

const struct tt_expr *
tt_imul(struct tt_arena *arena, const struct tt_expr *a, int64_t c)
{
  if (c == 1 || tt_is_int(a, 0))
    return a;
  if (c == 0)
    return tt_idx(arena, 0);
  if (a->kind == TT_INT)
    return tt_idx(arena, (int64_t)((uint64_t)a->ival * (uint64_t)c));
  return tt_binary(arena, TT_MUL, a, tt_idx(arena, c));
}

const struct tt_expr *
tt_idiv(struct tt_arena *arena, const struct tt_expr *a, int64_t c)
{
  assert(c != 0);
  if (c == 1 || tt_is_int(a, 0))
    return a;
  if (a->kind == TT_INT)
    return tt_idx(arena, tt_floordiv(a->ival, c));
  return tt_binary(arena, TT_DIV, a, tt_idx(arena, c));
}

const struct tt_expr *
tt_imod(struct tt_arena *arena, const struct tt_expr *a, int64_t c)
{
  assert(c != 0);
  if (c == 1)
    return tt_idx(arena, 0);
  if (a->kind == TT_INT)
    return tt_idx(arena, tt_floormod(a->ival, c));
  return tt_binary(arena, TT_MOD, a, tt_idx(arena, c));
}

const struct tt_expr *
tt_imin(struct tt_arena *arena, const struct tt_expr *a,
        const struct tt_expr *b)
{
  if (a->kind == TT_INT && b->kind == TT_INT)
    return a->ival < b->ival ? a : b;
  return tt_binary(arena, TT_MIN, a, b);
}

const struct tt_expr *
tt_imax(struct tt_arena *arena, const struct tt_expr *a,
        const struct tt_expr *b)
{
  if (a->kind == TT_INT && b->kind == TT_INT)
    return a->ival > b->ival ? a : b;
  return tt_binary(arena, TT_MAX, a, b);
}

/* ---- comparison and search --------------------------------------------- */

bool
tt_expr_equal(const struct tt_expr *x, const struct tt_expr *y)
{
  if (x == y)
    return true;
  if (!x || !y || x->kind != y->kind || x->type.dtype != y->type.dtype ||
      x->type.lanes != y->type.lanes || x->op != y->op || x->fn != y->fn ||
      x->ival != y->ival || x->var != y->var || x->tensor != y->tensor ||
      x->nargs != y->nargs)
    return false;
  /* By bits: 0 and -0 differ, a NaN equals itself. */
  if (memcmp(&x->fval, &y->fval, sizeof x->fval) != 0)
    return false;
  for (int i = 0; i < x->nargs; i++)
    if (!tt_expr_equal(x->args[i], y->args[i]))
      return false;
  return tt_expr_equal(x->a, y->a) && tt_expr_equal(x->b, y->b) &&
         tt_expr_equal(x->c, y->c);
}

/* `var` or `tensor` is NULL. */
static bool
uses(const struct tt_expr *e, const struct tt_var *var,
     const struct tt_tensor *tensor)
{
  if (!e)
    return false;
  if ((var && e->var == var) || (tensor && e->tensor == tensor))
    return true;
  for (int i = 0; i < e->nargs; i++)
    if (uses(e->args[i], var, tensor))
      return true;
  return uses(e->a, var, tensor) || uses(e->b, var, tensor) ||
         uses(e->c, var, tensor);
}

bool
tt_expr_uses_var(const struct tt_expr *e, const struct tt_var *var)
{
  return uses(e, var, NULL);
}

bool
tt_expr_uses_tensor(const struct tt_expr *e, const struct tt_tensor *tensor)
{
  return uses(e, NULL, tensor);
}

/* ---- rewriting --------------------------------------------------------- */

static const struct tt_expr *
widen(struct tt_arena *arena, const struct tt_expr *e, int lanes)
{
  return e && e->type.lanes == 1 && lanes > 1 ? tt_broadcast(arena, e, lanes)
                                              : e;
}

/* `e` with other operands.  When a rewrite made some operands vectors the
 * scalar ones beside them are broadcast; indices of a load and the condition
 * of a select may stay scalar. */
static const struct tt_expr *
rebuild(struct tt_arena *arena, const struct tt_expr *e,
        const struct tt_expr **args, const struct tt_expr *a,
        const struct tt_expr *b, const struct tt_expr *c)
{
  struct tt_expr *r = tt_arena_dup(arena, e, sizeof *e);
  if (e->kind != TT_RAMP && e->kind != TT_BROADCAST) {
    int lanes = max_lanes(e->nargs, args);
    const struct tt_expr *ops[] = {a, b, c};
    for (int i = 0; i < 3; i++)
      if (ops[i] && ops[i]->type.lanes > lanes)
        lanes = ops[i]->type.lanes;
    for (int i = 0; i < e->nargs && e->kind == TT_CALL; i++)
      args[i] = widen(arena, args[i], lanes);
    a = widen(arena, a, lanes);
    b = widen(arena, b, lanes);
    r->type.lanes = lanes;
  }
  if (e->nargs)
    r->args = args;
  r->a = a;
  r->b = b;
  r->c = c;
  return r;
}

const struct tt_expr *
tt_expr_rewrite(struct tt_arena *arena, const struct tt_expr *e,
                tt_rewrite_fn *fn, void *ctx)
{
  const struct tt_expr **args = NULL;
  for (int i = 0; i < e->nargs; i++) {
    const struct tt_expr *x = tt_expr_rewrite(arena, e->args[i], fn, ctx);
    if (x != e->args[i] && !args)
      args = tt_arena_dup(arena, e->args, (size_t)e->nargs * sizeof *args);
    if (args)
      args[i] = x;
  }
  const struct tt_expr *a = e->a ? tt_expr_rewrite(arena, e->a, fn, ctx) : NULL;
  const struct tt_expr *b = e->b ? tt_expr_rewrite(arena, e->b, fn, ctx) : NULL;
  const struct tt_expr *c = e->c ? tt_expr_rewrite(arena, e->c, fn, ctx) : NULL;
  if (args || a != e->a || b != e->b || c != e->c) {
    if (!args)
      args = tt_arena_dup(arena, e->args, (size_t)e->nargs * sizeof *args);
    e = rebuild(arena, e, args, a, b, c);
  }
  return fn(ctx, arena, e);
}

void
tt_expr_visit(const struct tt_expr *e, tt_visit_fn *fn, void *ctx)
{
  for (int i = 0; i < e->nargs; i++)
    tt_expr_visit(e->args[i], fn, ctx);
  if (e->c)
    tt_expr_visit(e->c, fn, ctx);
  if (e->a)
    tt_expr_visit(e->a, fn, ctx);
  if (e->b)
    tt_expr_visit(e->b, fn, ctx);
  fn(ctx, e);
}

struct subst {
  int n;
  const struct tt_var *const *vars;
  const struct tt_expr *const *repl;
};

static const struct tt_expr *
subst_node(void *ctx, struct tt_arena *arena, const struct tt_expr *e)
{
  (void)arena;
  const struct subst *s = ctx;
  if (e->kind == TT_VAR)
    for (int i = 0; i < s->n; i++)
      if (e->var == s->vars[i])
        return s->repl[i];
  return e;
}

const struct tt_expr *
tt_expr_subst(struct tt_arena *arena, const struct tt_expr *e, int n,
              const struct tt_var *const *vars,
              const struct tt_expr *const *repl)
{
  struct subst s = {n, vars, repl};
  return n ? tt_expr_rewrite(arena, e, subst_node, &s) : e;
}
