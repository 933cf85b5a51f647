/* From resolved expressions to typed expressions of the IR, proving on the
 * way that every access stays inside its tensor.
 *
 * Facts grow while going down: the condition of ?: for its branches, the left
 * side of && and || for the right, a reduction's `where` for its body.
 * Invariant: every load built here is inside its tensor under the facts of
 * its place, and that place's conditions stand in the expression built.
 */
#include "config.h"

#include "frontend/sema.h"

#include <string.h>

static const struct tt_facts *
push(struct tt_elab *el, const struct tt_expr *cond, bool negated)
{
  return tt_facts_push(el->s->arena, el->facts, cond, negated);
}

static const struct tt_expr *
conjunct(struct tt_elab *el, const struct tt_facts *f)
{
  return f->negated ? tt_fold_unary(el->s->arena, TT_NOT, TT_BOOL, f->cond)
                    : f->cond;
}

/* All facts, outermost first, so that each may rely on those before. */
static const struct tt_expr *
conjunction(struct tt_elab *el, const struct tt_facts *f)
{
  const struct tt_expr *all = NULL;

  for (; f; f = f->outer) {
    const struct tt_expr *c = conjunct(el, f);
    all = all ? tt_fold_binary(el->s->arena, TT_AND, c, all) : c;
  }
  return all ? all : tt_bool(el->s->arena, true);
}

const struct tt_expr *
tt_enclosing_guard(struct tt_elab *el)
{
  return conjunction(el, el->barrier);
}

/* ---- accesses ---------------------------------------------------------- */

/* Sums of c*index, /c, %c, min, max and integers read from tensors. */
static const struct tt_expr *
not_affine(const struct tt_expr *e)
{
  const struct tt_expr *bad;

  switch (e->kind) {
  case TT_INT:
  case TT_VAR:
    return NULL;
  case TT_NEG:
    return not_affine(e->a);
  case TT_CAST:
    return tt_has_load(e->a) ? NULL : not_affine(e->a);
  case TT_BINARY:
    if (e->op == TT_MUL && e->a->kind != TT_INT && e->b->kind != TT_INT)
      return e;
    if ((e->op == TT_DIV || e->op == TT_MOD) &&
        (e->b->kind != TT_INT || e->b->ival < 1))
      return e;
    if (e->op != TT_ADD && e->op != TT_SUB && e->op != TT_MUL &&
        e->op != TT_DIV && e->op != TT_MOD && e->op != TT_MIN &&
        e->op != TT_MAX)
      return e;
    bad = not_affine(e->a);
    return bad ? bad : not_affine(e->b);
  case TT_LOAD:
    return NULL;
  case TT_FLT:
  case TT_NOT:
  case TT_SAT:
  case TT_SELECT:
  case TT_CALL:
  case TT_RAMP:
  case TT_BROADCAST:
    return tt_has_load(e) ? NULL : e;
  }
  return e;
}

/* May index arithmetic leave the range where it is surely exact? */
static bool
may_wrap(const struct tt_expr *e)
{
  const int64_t limit = (int64_t)1 << 62;
  struct tt_interval r;

  if (e->kind == TT_INT)
    return e->ival <= -limit || e->ival >= limit;
  if (e->kind != TT_BINARY && e->kind != TT_NEG)
    return false;
  if (may_wrap(e->a) || (e->b && may_wrap(e->b)))
    return true;
  if (e->kind == TT_BINARY && e->op != TT_ADD && e->op != TT_SUB &&
      e->op != TT_MUL)
    return false;
  r = tt_range_of(e, NULL, NULL);
  return !r.ok || r.lo <= -limit || r.hi >= limit;
}

/* A subscript as an i64; NULL after a diagnostic. */
static const struct tt_expr *
subscript(struct tt_elab *el, const struct tt_rx *rx)
{
  struct tt_sema *s = el->s;
  struct tt_value v = tt_elab(el, rx, TT_NDTYPES);
  const struct tt_expr *e = v.e;

  if (!e)
    return NULL;
  if (!tt_dtype_is_int(e->type.dtype)) {
    tt_diag(s->diags, TT_D_TYPE_MIX, rx->span,
            "a subscript needs an integer, this is %s", tt_value_type(&v));
    tt_note_use(s, rx->use);
    return NULL;
  }
  e = tt_has_load(e) && v.weak == TT_STRONG && e->type.dtype == TT_I64
          ? e
          : tt_fold_unary(s->arena, TT_CAST, TT_I64, e);
  if (e->kind == TT_CAST && e->a->type.dtype == TT_I64)
    e = e->a;
  if (not_affine(e)) {
    tt_diag(s->diags, TT_D_NOT_AFFINE, rx->span,
            "'%s' is not affine; allowed: c*i + …, /c, %%c, clamp, an "
            "integer tensor",
            tt_span_text(s->arena, rx->span));
    tt_note_use(s, rx->use);
    return NULL;
  }
  if (tt_too_hard(e)) {
    tt_diag(s->diags, TT_D_TOO_DEEP, rx->span,
            "divisions nest more than 6 deep in this subscript");
    tt_note_use(s, rx->use);
    return NULL;
  }
  if (may_wrap(e)) {
    if (tt_has_load(e))
      tt_diag(s->diags, TT_D_UNBOUNDED_INDIRECT, rx->span,
              "cannot bound '%s': it may not fit 62 bits; declare 'in …'",
              tt_span_text(s->arena, rx->span));
    else
      tt_diag(s->diags, TT_D_SIZE_OVERFLOW, rx->span,
              "the subscript '%s' may not fit 62 bits",
              tt_span_text(s->arena, rx->span));
    tt_note_use(s, rx->use);
    return NULL;
  }
  return e;
}

/* The index that a variable stands for: its binder may begin above 0. */
static int64_t
shown_value(const struct tt_elab *el, const struct tt_var *var, int64_t v)
{
  for (int i = 0; i < el->nactive; i++)
    if (el->active[i]->var == var)
      return v + el->active[i]->lo;
  return v;
}

static void
out_of_bounds(struct tt_elab *el, const struct tt_rx *rx, int dim,
              const struct tt_expr *e)
{
  struct tt_sema *s = el->s;
  const struct tt_tensor *t = rx->sym->tensor;
  struct tt_span span = rx->args[dim]->span;
  struct tt_point p, shown = {0};
  struct tt_interval r;
  struct tt_sb at = {0};
  int64_t v;

  if (tt_has_load(e)) {
    tt_diag(s->diags, TT_D_UNBOUNDED_INDIRECT, span,
            "cannot bound %s; declare 'in 0..%lld' or add else",
            tt_span_text(s->arena, span), (long long)t->dims[dim]);
  } else if (tt_witness(e, t->dims[dim], el->facts, &p, &v)) {
    tt_collect_vars(e, &shown);
    for (int i = 0; i < shown.n && i < 6; i++) {
      tt_eval_at(tt_var_ref(s->arena, shown.vars[i]), &p, &shown.values[i]);
      tt_sb_printf(&at, "%s%s=%lld", i ? ", " : " when ", shown.vars[i]->name,
                   (long long)shown_value(el, shown.vars[i], shown.values[i]));
    }
    tt_diag(s->diags, TT_D_OUT_OF_BOUNDS, span,
            "%s dimension %d (0..%lld) is read at %lld%s; add 'else v', "
            "clamp() or where",
            rx->sym->name, dim, (long long)t->dims[dim] - 1, (long long)v,
            tt_sb_str(&at));
  } else {
    r = tt_range_of(e, el->facts, NULL);
    tt_diag(s->diags, TT_D_OUT_OF_BOUNDS, span,
            "%s dimension %d (0..%lld) may be read at %lld..%lld; add 'else "
            "v', clamp() or where",
            rx->sym->name, dim, (long long)t->dims[dim] - 1, (long long)r.lo,
            (long long)r.hi);
  }
  tt_sb_free(&at);
  tt_diag_note(s->diags, rx->sym->span, "'%s' is declared here", rx->sym->name);
  tt_note_use(s, rx->use);
}

static bool
proven(const struct tt_expr *e, int64_t limit, bool upper,
       const struct tt_facts *facts, const struct tt_facts *stop)
{
  return upper ? tt_prove_upper(e, limit, facts, stop)
               : tt_prove_lower(e, facts, stop);
}

/* What a hoisted reduction must carry along so that the bound holds: one of
 * the enclosing conditions if that is enough, else all.  *guard grows. */
static void
add_guard(struct tt_elab *el, const struct tt_expr *e, int64_t limit,
          bool upper, const struct tt_expr **guard)
{
  struct tt_arena *arena = el->s->arena;
  const struct tt_expr *g = NULL;

  for (const struct tt_facts *f = el->barrier; f && !g; f = f->outer) {
    struct tt_facts one = {NULL, f->cond, f->negated};
    if (!tt_has_load(f->cond) && proven(e, limit, upper, &one, NULL))
      g = conjunct(el, f);
  }
  if (!g)
    g = conjunction(el, el->barrier);
  if (*guard && !tt_expr_equal(*guard, g))
    g = tt_fold_binary(arena, TT_AND, *guard, g);
  *guard = g;
}

/* Is one bound of a subscript sure?  If only thanks to conditions around the
 * reduction that is being hoisted, they are added to the guard. */
static bool
sure(struct tt_elab *el, const struct tt_expr *e, int64_t limit, bool upper,
     const struct tt_expr **guard)
{
  const struct tt_facts *stop = el->hoisting ? el->barrier : NULL;

  if (proven(e, limit, upper, el->facts, stop))
    return true;
  if (!el->hoisting || !el->barrier ||
      !proven(e, limit, upper, el->facts, NULL))
    return false;
  add_guard(el, e, limit, upper, guard);
  return true;
}

/* The bounds of all subscripts: those not proven are added to *inside, or
 * reported when there is no `else`. */
static bool
check_bounds(struct tt_elab *el, const struct tt_rx *rx,
             const struct tt_expr *const *idx, const struct tt_expr **inside,
             const struct tt_expr **guard)
{
  struct tt_arena *arena = el->s->arena;
  const struct tt_tensor *t = rx->sym->tensor;
  bool ok = true;

  for (int i = 0; i < rx->nargs; i++) {
    bool reported = false;
    for (int upper = 0; upper < 2 && !reported; upper++) {
      const struct tt_expr *bound, *c;
      if (sure(el, idx[i], t->dims[i], upper, guard))
        continue;
      if (!rx->other) {
        out_of_bounds(el, rx, i, idx[i]);
        reported = true;
        ok = false;
        continue;
      }
      bound = tt_idx(arena, upper ? t->dims[i] : 0);
      c = tt_fold_binary(arena, upper ? TT_LT : TT_GE, idx[i], bound);
      *inside = *inside ? tt_fold_binary(arena, TT_AND, *inside, c) : c;
    }
  }
  return ok;
}

/* An element of a constant table at constant subscripts, or NULL. */
static const struct tt_expr *
table_element(struct tt_elab *el, const struct tt_tensor *t,
              const struct tt_expr *const *idx)
{
  int64_t at = 0;

  if (t->role != TT_CONST)
    return NULL;
  for (int i = 0; i < t->ndim; i++) {
    if (idx[i]->kind != TT_INT || idx[i]->ival < 0 ||
        idx[i]->ival >= t->dims[i])
      return NULL;
    at = at * t->dims[i] + idx[i]->ival;
  }
  return t->fdata ? tt_flt(el->s->arena, t->dtype, t->fdata[at])
                  : tt_int(el->s->arena, t->dtype, t->idata[at]);
}

/* The value of an access that may be outside. */
static struct tt_value
with_else(struct tt_elab *el, const struct tt_rx *rx,
          const struct tt_expr *load, const struct tt_expr *inside)
{
  struct tt_sema *s = el->s;
  const struct tt_facts *saved = el->facts;
  struct tt_value v;

  if (!inside) {
    el->dead++;
    tt_elab(el, rx->other, rx->sym->tensor->dtype);
    el->dead--;
    if (!el->dead) {
      tt_diag(s->diags, TT_D_DEAD_ELSE, rx->other->span,
              "'else %s' is never taken",
              tt_span_text(s->arena, rx->other->span));
      tt_note_use(s, rx->use);
    }
    return tt_strong(load);
  }
  el->facts = push(el, inside, true);
  v = tt_elab(el, rx->other, rx->sym->tensor->dtype);
  if (v.e && v.weak == TT_STRONG && v.e->type.dtype != rx->sym->tensor->dtype) {
    tt_diag(s->diags, TT_D_TYPE_MIX, rx->other->span,
            "'else' of %s for %s: %s; cast it", tt_value_type(&v),
            rx->sym->name, tt_dtype_name(rx->sym->tensor->dtype));
    tt_note_use(s, rx->use);
    v = tt_bad();
  }
  v = tt_adapt(s, v, rx->sym->tensor->dtype, rx->other, el->facts);
  el->facts = saved;
  if (!v.e)
    return v;
  if (inside->kind == TT_INT)
    return tt_strong(inside->ival ? load : v.e);
  return tt_strong(tt_select(s->arena, inside, load, v.e));
}

static struct tt_value
elab_load(struct tt_elab *el, const struct tt_rx *rx)
{
  struct tt_arena *arena = el->s->arena;
  const struct tt_expr *idx[TT_MAX_DIMS], *inside = NULL, *guard = NULL, *load;
  bool ok = true;

  for (int i = 0; i < rx->nargs; i++) {
    idx[i] = subscript(el, rx->args[i]);
    ok = ok && idx[i];
  }
  if (!ok || !check_bounds(el, rx, idx, &inside, &guard))
    return tt_bad();
  load = table_element(el, rx->sym->tensor, idx);
  if (!load)
    load = tt_load(arena, rx->sym->tensor, rx->nargs, idx);
  if (guard && guard->kind != TT_INT)
    load =
        tt_select(arena, guard, load, tt_zero(arena, rx->sym->tensor->dtype));
  return rx->other ? with_else(el, rx, load, inside) : tt_strong(load);
}

/* ---- operators --------------------------------------------------------- */

/* The right side of && and || is looked at only if the left allows it. */
static struct tt_value
elab_logic(struct tt_elab *el, const struct tt_rx *rx)
{
  const struct tt_facts *saved = el->facts;
  struct tt_value a = tt_elab(el, rx->args[0], TT_BOOL), b;
  bool negated = rx->op == TT_OR, dead = false;

  if (a.e && a.e->type.dtype == TT_BOOL) {
    el->facts = push(el, a.e, negated);
    dead = a.e->kind == TT_INT && (a.e->ival != 0) == negated;
  }
  el->dead += dead;
  b = tt_elab(el, rx->args[1], TT_BOOL);
  el->dead -= dead;
  el->facts = saved;
  return tt_type_binary(el->s, rx, a, b, el->facts);
}

/* An integer division in a reduction that is hoisted out of a condition may
 * meet the zero that the condition kept away. */
static struct tt_value
guard_division(struct tt_elab *el, const struct tt_expr *divisor,
               struct tt_value v)
{
  struct tt_interval r;
  const struct tt_expr *guard;

  if (!v.e || v.weak != TT_STRONG || !el->hoisting || !el->barrier ||
      !tt_dtype_is_int(v.e->type.dtype) || tt_is_const(v.e))
    return v;
  r = tt_range_of(divisor, el->facts, el->barrier);
  if (r.ok && (r.lo > 0 || r.hi < 0))
    return v;
  guard = tt_enclosing_guard(el);
  if (guard->kind != TT_INT)
    v.e = tt_select(el->s->arena, guard, v.e,
                    tt_zero(el->s->arena, v.e->type.dtype));
  return v;
}

static struct tt_value
elab_binary(struct tt_elab *el, const struct tt_rx *rx, enum tt_dtype want)
{
  struct tt_value a, b, v;
  bool compares = rx->op == TT_EQ || rx->op == TT_NE || rx->op == TT_LT ||
                  rx->op == TT_GT || rx->op == TT_LE || rx->op == TT_GE;

  if (rx->op == TT_AND || rx->op == TT_OR)
    return elab_logic(el, rx);
  want = compares ? TT_NDTYPES : want;
  a = tt_elab(el, rx->args[0], want);
  b = tt_elab(el, rx->args[1], want);
  v = tt_type_binary(el->s, rx, a, b, el->facts);
  if (rx->op == TT_DIV || rx->op == TT_MOD)
    v = b.e ? guard_division(el, b.e, v) : v;
  return v;
}

static struct tt_value
elab_cond(struct tt_elab *el, const struct tt_rx *rx, enum tt_dtype want)
{
  const struct tt_facts *saved = el->facts;
  struct tt_value c = tt_elab(el, rx->args[0], TT_BOOL), branch[2];

  for (int i = 0; i < 2; i++) {
    bool dead = false;
    if (c.e && c.e->type.dtype == TT_BOOL) {
      el->facts = push(el, c.e, i == 1);
      dead = c.e->kind == TT_INT && (c.e->ival != 0) == (i == 1);
    }
    el->dead += dead;
    branch[i] = tt_elab(el, rx->args[1 + i], want);
    el->dead -= dead;
    el->facts = saved;
  }
  return tt_type_cond(el->s, rx, c, branch[0], branch[1], el->facts);
}

static struct tt_value
elab_call(struct tt_elab *el, const struct tt_rx *rx, enum tt_dtype want)
{
  struct tt_value *v =
      TT_ARRAY(el->s->arena, struct tt_value, (size_t)rx->nargs);
  struct tt_value r;
  bool divides =
      rx->builtin == TT_B_CEILDIV ||
      (rx->builtin == TT_B_FN && (rx->fn == TT_FN_QUOT || rx->fn == TT_FN_REM));

  for (int i = 0; i < rx->nargs; i++)
    v[i] = tt_elab(el, rx->args[i], want);
  r = tt_type_call(el->s, rx, v, el->facts);
  return divides && v[1].e ? guard_division(el, v[1].e, r) : r;
}

static struct tt_value
elab_axis(struct tt_elab *el, const struct tt_rx *rx)
{
  const struct tt_expr *e;

  if (rx->axis->bad || !rx->axis->var)
    return tt_bad();
  e = tt_iadd(el->s->arena, tt_var_ref(el->s->arena, rx->axis->var),
              tt_idx(el->s->arena, rx->axis->lo));
  return (struct tt_value){e, TT_WEAK_INT, false};
}

struct tt_value
tt_elab(struct tt_elab *el, const struct tt_rx *rx, enum tt_dtype want)
{
  switch (rx->kind) {
  case TT_RX_BAD:
    return tt_bad();
  case TT_RX_VALUE:
    return rx->value;
  case TT_RX_AXIS:
    return elab_axis(el, rx);
  case TT_RX_LOAD:
    return elab_load(el, rx);
  case TT_RX_REDUCE:
    return tt_reduce_nested(el, rx, want);
  case TT_RX_BINARY:
    return elab_binary(el, rx, want);
  case TT_RX_NEG:
  case TT_RX_NOT:
  case TT_RX_BITNOT:
    return tt_type_unary(el->s, rx, tt_elab(el, rx->args[0], want));
  case TT_RX_COND:
    return elab_cond(el, rx, want);
  case TT_RX_CAST:
  case TT_RX_SAT:
    return tt_type_cast(el->s, rx, tt_elab(el, rx->args[0], TT_NDTYPES));
  case TT_RX_CALL:
    return elab_call(el, rx, want);
  }
  return tt_bad();
}
