/* Expressions over all lanes of a piece of a vector loop.
 *
 * A result has either the lanes of the piece or one lane, when every
 * iteration has the same value; operands are broadcast only where they meet
 * a vector.  Nothing is evaluated that the scalar loop would not evaluate,
 * unless it is proven harmless.
 */
#include "config.h"

#include "codegen/vectorize.h"

#include "ir/passes.h"

static const struct private *
private_of(const struct vec *v, const struct tt_tensor *t)
{
  for (int i = 0; i < v->nprivate; i++)
    if (v->privates[i].old == t)
      return &v->privates[i];
  return NULL;
}

struct dep {
  const struct vec *vec;
  bool found;
};

static void
find_dep(void *ctx, const struct tt_expr *e)
{
  struct dep *d = ctx;
  if ((e->kind == TT_VAR && e->var == d->vec->var) ||
      (e->kind == TT_LOAD && private_of(d->vec, e->tensor)))
    d->found = true;
}

bool
tt_vec_depends(const struct vec *v, const struct tt_expr *e)
{
  struct dep d = {v, false};
  tt_expr_visit(e, find_dep, &d);
  return d.found;
}

/* ---- one lane --------------------------------------------------------- */

struct lane {
  const struct vec *vec;
  const struct tt_expr *value, *off;
};

static const struct tt_expr *
rewrite_lane(void *ctx, struct tt_arena *arena, const struct tt_expr *e)
{
  const struct lane *l = ctx;
  if (e->kind == TT_VAR && e->var == l->vec->var)
    return l->value;
  if (e->kind != TT_LOAD)
    return e;
  const struct private *p = private_of(l->vec, e->tensor);
  if (!p)
    return e;
  const struct tt_expr *idx[TT_MAX_DIMS];
  for (int i = 0; i < e->nargs; i++)
    idx[i] = e->args[i];
  idx[e->nargs] = l->off;
  return tt_load(arena, p->new, e->nargs + 1, idx);
}

const struct tt_expr *
tt_vec_scalar(const struct vec *v, const struct tt_expr *value,
              const struct tt_expr *off, const struct tt_expr *e)
{
  struct lane l = {v, value, off};
  return tt_expr_rewrite(v->arena, e, rewrite_lane, &l);
}

/* ---- indices ---------------------------------------------------------- */

static const struct tt_expr *
at(const struct vec *v, const struct piece *p, const struct tt_expr *e,
   int lane)
{
  return tt_vec_scalar(v, tt_iadd(v->arena, p->base, tt_idx(v->arena, lane)),
                       tt_idx(v->arena, p->off + lane), e);
}

/* An i64 expression as a scalar or a ramp; NULL: not affine. */
static const struct tt_expr *
ramp(const struct vec *v, const struct piece *p, const struct tt_expr *e)
{
  if (!tt_vec_depends(v, e))
    return e;
  struct tt_affine a = tt_affine_of(v->arena, e);
  int64_t c = 0;
  for (int i = 0; i < a.n; i++) {
    if (a.term[i]->kind == TT_VAR && a.term[i]->var == v->var)
      c = a.coef[i];
    else if (tt_vec_depends(v, a.term[i]))
      return NULL;
  }
  const struct tt_expr *base = at(v, p, e, 0);
  return c == 0 ? base : tt_ramp(v->arena, base, c, p->lanes);
}

bool
tt_vec_index(const struct vec *v, const struct piece *p,
             const struct tt_tensor **t, int *n,
             const struct tt_expr *const **idx)
{
  const struct private *pr = private_of(v, *t);
  const struct tt_expr **r =
      TT_ARRAY(v->arena, const struct tt_expr *, (size_t)*n + 1);
  for (int i = 0; i < *n; i++) {
    r[i] = ramp(v, p, (*idx)[i]);
    if (!r[i])
      return false;
  }
  if (pr) {
    const struct tt_expr *off = tt_idx(v->arena, p->off);
    r[(*n)++] = p->lanes > 1 ? tt_ramp(v->arena, off, 1, p->lanes) : off;
    *t = pr->new;
  }
  *idx = r;
  return true;
}

/* ---- values ----------------------------------------------------------- */

/* A harmless expression may be evaluated where the program would not. */
static void
find_harm(void *ctx, const struct tt_expr *e)
{
  bool *harm = ctx;
  if (e->kind == TT_LOAD) {
    for (int i = 0; i < e->nargs; i++) {
      struct tt_interval b = tt_bounds(e->args[i], NULL);
      if (!b.ok || b.lo < 0 || b.hi >= e->tensor->dims[i])
        *harm = true;
    }
  } else if ((e->kind == TT_BINARY && (e->op == TT_DIV || e->op == TT_MOD) &&
              !tt_dtype_is_float(e->type.dtype)) ||
             (e->kind == TT_CALL &&
              (e->fn == TT_FN_QUOT || e->fn == TT_FN_REM))) {
    const struct tt_expr *d = e->kind == TT_CALL ? e->args[1] : e->b;
    struct tt_interval b = tt_bounds(d, NULL);
    if (!b.ok || (b.lo <= 0 && b.hi >= 0))
      *harm = true;
  }
}

static bool
harmless(const struct tt_expr *e)
{
  bool harm = false;
  tt_expr_visit(e, find_harm, &harm);
  return !harm;
}

static const struct tt_expr *
widen(const struct vec *v, const struct tt_expr *e, int lanes)
{
  return e->type.lanes == lanes ? e : tt_broadcast(v->arena, e, lanes);
}

static bool
fits32(const struct tt_expr *e)
{
  struct tt_interval b = tt_bounds(e, NULL);
  return b.ok && b.lo >= INT32_MIN && b.hi <= INT32_MAX;
}

static const struct tt_expr *
vec_load(const struct vec *v, const struct piece *p, const struct tt_expr *e)
{
  const struct tt_tensor *t = e->tensor;
  const struct tt_expr *const *idx = e->args;
  int n = e->nargs, lanes;
  int64_t stride;
  /* Vectors hold the storage of a type; bools are masks. */
  const struct tt_codegen_options *o = v->pass->options;
  bool half = t->dtype == TT_F16 || t->dtype == TT_BF16;
  if (t->dtype == TT_BOOL || (half && o->gpu && !o->moves))
    return NULL;
  if (!tt_vec_index(v, p, &t, &n, &idx))
    return NULL;
  tt_access_shape(t, n, idx, &lanes, &stride);
  if (lanes > 1 && stride == 0)
    return NULL;
  return tt_load(v->arena, t, n, idx);
}

static const struct tt_expr *
vec_binary(const struct vec *v, const struct piece *p, const struct tt_expr *e,
           const struct tt_expr **guard)
{
  bool lazy = e->op == TT_AND || e->op == TT_OR;
  if (lazy && !harmless(e->b))
    return NULL;
  const struct tt_expr *a = tt_vec_expr(v, p, e->a, guard);
  const struct tt_expr *b = a ? tt_vec_expr(v, p, e->b, guard) : NULL;
  if (!b)
    return NULL;
  if (a->type.lanes == 1 && b->type.lanes == 1)
    return tt_binary(v->arena, e->op, a, b);
  if (e->a->type.dtype == TT_I64 && e->type.dtype == TT_BOOL && fits32(e->a) &&
      fits32(e->b)) {
    a = tt_cast(v->arena, TT_I32, a);
    b = tt_cast(v->arena, TT_I32, b);
  }
  return tt_binary(v->arena, e->op, widen(v, a, p->lanes),
                   widen(v, b, p->lanes));
}

static const struct tt_expr *
vec_select(const struct vec *v, const struct piece *p, const struct tt_expr *e,
           const struct tt_expr **guard)
{
  if (tt_vec_depends(v, e->c) && !(harmless(e->a) && harmless(e->b))) {
    *guard = e->c;
    return NULL;
  }
  const struct tt_expr *c = tt_vec_expr(v, p, e->c, guard);
  const struct tt_expr *a = c ? tt_vec_expr(v, p, e->a, guard) : NULL;
  const struct tt_expr *b = a ? tt_vec_expr(v, p, e->b, guard) : NULL;
  if (!b)
    return NULL;
  int lanes = c->type.lanes;
  if (a->type.lanes > lanes)
    lanes = a->type.lanes;
  if (b->type.lanes > lanes)
    lanes = b->type.lanes;
  return tt_select(v->arena, c, widen(v, a, lanes), widen(v, b, lanes));
}

static const struct tt_expr *
vec_call(const struct vec *v, const struct piece *p, const struct tt_expr *e,
         const struct tt_expr **guard)
{
  const struct tt_expr *args[TT_MAX_DIMS];
  int lanes = 1;
  for (int i = 0; i < e->nargs; i++) {
    args[i] = tt_vec_expr(v, p, e->args[i], guard);
    if (!args[i])
      return NULL;
    if (args[i]->type.lanes > lanes)
      lanes = args[i]->type.lanes;
  }
  for (int i = 0; i < e->nargs; i++)
    args[i] = widen(v, args[i], lanes);
  return tt_call(v->arena, e->fn, e->type.dtype, e->nargs, args);
}

static const struct tt_expr *
vec_unary(const struct vec *v, const struct piece *p, const struct tt_expr *e,
          const struct tt_expr **guard)
{
  const struct tt_expr *a = tt_vec_expr(v, p, e->a, guard);
  if (!a)
    return NULL;
  switch (e->kind) {
  case TT_NEG:
    return tt_neg(v->arena, a);
  case TT_NOT:
    return tt_not(v->arena, a);
  case TT_CAST:
    return tt_cast(v->arena, e->type.dtype, a);
  case TT_SAT:
    return tt_sat(v->arena, e->type.dtype, a);
  case TT_INT:
  case TT_FLT:
  case TT_VAR:
  case TT_LOAD:
  case TT_BINARY:
  case TT_SELECT:
  case TT_CALL:
  case TT_RAMP:
  case TT_BROADCAST:
    break;
  }
  return NULL;
}

const struct tt_expr *
tt_vec_expr(const struct vec *v, const struct piece *p, const struct tt_expr *e,
            const struct tt_expr **guard)
{
  if (!tt_vec_depends(v, e))
    return e;
  if (p->lanes == 1)
    return at(v, p, e, 0);
  if (e->type.dtype == TT_I64 && e->kind != TT_LOAD && fits32(e)) {
    const struct tt_expr *r = ramp(v, p, e);
    if (r)
      return r;
  }
  switch (e->kind) {
  case TT_INT:
  case TT_FLT:
  case TT_RAMP:
  case TT_BROADCAST:
    return NULL;
  case TT_VAR:
    return tt_ramp(v->arena, p->base, 1, p->lanes);
  case TT_LOAD:
    return vec_load(v, p, e);
  case TT_BINARY:
    return vec_binary(v, p, e, guard);
  case TT_SELECT:
    return vec_select(v, p, e, guard);
  case TT_CALL:
    return vec_call(v, p, e, guard);
  case TT_NEG:
  case TT_NOT:
  case TT_CAST:
  case TT_SAT:
    return vec_unary(v, p, e, guard);
  }
  return NULL;
}

/* ---- conditions over all lanes ---------------------------------------- */

/* A conjunction of comparisons of affine forms is convex: if it holds in the
 * first and in the last lane, it holds between them. */
static bool
is_convex(const struct vec *v, const struct tt_expr *c)
{
  if (!tt_vec_depends(v, c))
    return true;
  if (c->kind != TT_BINARY)
    return false;
  if (c->op == TT_AND)
    return is_convex(v, c->a) && is_convex(v, c->b);
  int64_t coef;
  return (c->op == TT_LT || c->op == TT_LE || c->op == TT_GT ||
          c->op == TT_GE) &&
         c->a->type.dtype == TT_I64 &&
         tt_affine_coef(v->arena, c->a, v->var, &coef) &&
         tt_affine_coef(v->arena, c->b, v->var, &coef);
}

const struct tt_expr *
tt_vec_all(const struct vec *v, const struct piece *p,
           const struct tt_expr *cond)
{
  if (!is_convex(v, cond) || !harmless(cond))
    return NULL;
  return tt_binary(v->arena, TT_AND, at(v, p, cond, 0),
                   at(v, p, cond, p->lanes - 1));
}
