/* Reductions: their values, stages without a name, argmin and argmax, and
 * the check that min and max have a point everywhere.
 *
 * A reduction inside an expression becomes a stage over exactly the indices
 * that are free in it, in the order in which they are bound around it.  Two
 * that are the same but for the names of their own indices share one stage.
 */
#include "config.h"

#include "frontend/sema.h"

#include <assert.h>
#include <string.h>

struct tt_hoisted {
  struct tt_hoisted *next;
  uint64_t hash;
  struct tt_reduction r; /* in the variables of the enclosing stage */
  int nfree;
  struct tt_axis *const *axes; /* the free indices */
  const struct tt_var *free[TT_MAX_ACTIVE];
  struct tt_tensor *out;
};

static enum tt_red
ir_reducer(enum tt_reducer red)
{
  switch (red) {
  case TT_REDUCE_SUM:
    return TT_RED_SUM;
  case TT_REDUCE_PROD:
    return TT_RED_PROD;
  case TT_REDUCE_MIN:
  case TT_REDUCE_ARGMIN:
    return TT_RED_MIN;
  case TT_REDUCE_MAX:
  case TT_REDUCE_ARGMAX:
    return TT_RED_MAX;
  case TT_REDUCE_ANY:
    return TT_RED_ANY;
  case TT_REDUCE_ALL:
    return TT_RED_ALL;
  }
  return TT_RED_NONE;
}

/* ---- points of a reduction --------------------------------------------- */

static int64_t
count_points(const struct tt_reduction *r)
{
  int64_t n = 1;

  for (int i = 0; i < r->n; i++)
    if (__builtin_mul_overflow(n, r->vars[i]->extent, &n))
      return INT64_MAX;
  return n;
}

static bool
contains(int n, const struct tt_var *const *vars, const struct tt_var *var)
{
  for (int i = 0; i < n; i++)
    if (vars[i] == var)
      return true;
  return false;
}

/* Search for a point of `inner` where `where` holds. 1: found; 0: there is
 * none; -1: not known. */
static int
has_point(struct tt_sema *s, const struct tt_expr *where, struct tt_point *p,
          int from)
{
  int64_t v;

  if (s->points-- <= 0)
    return -1;
  if (from == p->n)
    return tt_eval_at(where, p, &v) ? v != 0 : -1;
  for (int64_t i = 0; i < p->vars[from]->extent; i++) {
    int found;
    p->values[from] = i;
    found = has_point(s, where, p, from + 1);
    if (found)
      return found;
  }
  return 0;
}

/* The conjuncts of a condition. */
static int
split(const struct tt_expr *e, const struct tt_expr **out, int n, int max)
{
  if (e->kind == TT_BINARY && e->op == TT_AND && n + 1 < max)
    return split(e->b, out, split(e->a, out, n, max), max);
  if (n < max)
    out[n++] = e;
  return n;
}

/* Conditions on different indices of the reduction can be looked at apart:
 * join to `group` all conjuncts that share such an index with it. */
static const struct tt_expr *
take_group(struct tt_sema *s, const struct tt_reduction *r,
           const struct tt_expr **c, int n)
{
  const struct tt_expr *group = c[0];
  bool grew = true;

  c[0] = NULL;
  while (grew) {
    grew = false;
    for (int i = 1; i < n; i++) {
      bool shares = false;
      for (int k = 0; c[i] && k < r->n; k++)
        shares = shares || (tt_expr_uses_var(c[i], r->vars[k]) &&
                            tt_expr_uses_var(group, r->vars[k]));
      if (!shares)
        continue;
      group = tt_binary(s->arena, TT_AND, group, c[i]);
      c[i] = NULL;
      grew = true;
    }
  }
  return group;
}

/* Indices outside the reduction first, its own after. */
static int
order_vars(const struct tt_reduction *r, const struct tt_expr *e,
           struct tt_point *p)
{
  struct tt_point all = {0};
  int outer;

  tt_collect_vars(e, &all);
  p->n = 0;
  for (int i = 0; i < all.n; i++)
    if (!contains(r->n, r->vars, all.vars[i]))
      p->vars[p->n++] = all.vars[i];
  outer = p->n;
  for (int i = 0; i < all.n; i++)
    if (contains(r->n, r->vars, all.vars[i]))
      p->vars[p->n++] = all.vars[i];
  return outer;
}

/* Go through values of the outer indices (ends first when there are many)
 * until one has no point; true: *p holds it. */
static bool
find_empty(struct tt_sema *s, const struct tt_expr *group, struct tt_point *p,
           int outer, int at)
{
  int64_t extent;

  if (at == outer)
    return has_point(s, group, p, outer) == 0;
  extent = p->vars[at]->extent;
  for (int64_t i = 0; i < extent && s->points > 0; i++) {
    /* 0, last, 1, last-1, ...: edges are where points run out. */
    p->values[at] = i % 2 ? extent - 1 - i / 2 : i / 2;
    if (find_empty(s, group, p, outer, at + 1))
      return true;
  }
  return false;
}

static void
empty_error(struct tt_elab *el, const struct tt_rx *rx,
            const struct tt_point *p, int outer)
{
  struct tt_sb at = {0};

  for (int i = 0; i < outer && i < 6; i++) {
    int64_t lo = 0;
    for (int k = 0; k < el->nactive; k++)
      if (el->active[k]->var == p->vars[i])
        lo = el->active[k]->lo;
    tt_sb_printf(&at, "%s%s=%lld", i ? ", " : " when ", p->vars[i]->name,
                 (long long)(p->values[i] + lo));
  }
  tt_diag(el->s->diags, TT_D_EMPTY_REDUCTION, rx->at, "%s has no points%s",
          tt_reducer_name(rx->red), tt_sb_str(&at));
  tt_diag_note(el->s->diags, rx->other->span, "this is never true there");
  tt_note_use(el->s, rx->use);
  tt_sb_free(&at);
}

/* min, max, argmin and argmax have no value over no points. */
static bool
check_points(struct tt_elab *el, const struct tt_rx *rx,
             const struct tt_reduction *r)
{
  enum { MAX = 16, EACH = 200000 };
  struct tt_sema *s = el->s;
  const struct tt_expr *c[MAX];
  bool arg = rx->red == TT_REDUCE_ARGMIN || rx->red == TT_REDUCE_ARGMAX;
  int64_t saved = s->points;
  int n;

  if (!r->where || (r->red != TT_RED_MIN && r->red != TT_RED_MAX))
    return true;
  if (arg && tt_has_load(r->where)) {
    tt_diag(s->diags, TT_D_EMPTY_REDUCTION, rx->at,
            "%s may have no points: its where depends on data",
            tt_reducer_name(rx->red));
    tt_diag_note(s->diags, rx->other->span, "this may never be true");
    tt_note_use(s, rx->use);
    return false;
  }
  n = split(r->where, c, 0, MAX);
  for (int i = 0; i < n; i++) {
    struct tt_point p = {0};
    const struct tt_expr *group;
    int outer;
    if (!c[i])
      continue;
    group = take_group(s, r, c + i, n - i);
    outer = order_vars(r, group, &p);
    s->points = saved < EACH ? saved : EACH;
    saved -= s->points;
    if (find_empty(s, group, &p, outer, 0)) {
      empty_error(el, rx, &p, outer);
      return false;
    }
    saved += s->points > 0 ? s->points : 0;
  }
  s->points = saved;
  return true;
}

/* ---- the value --------------------------------------------------------- */

/* What the result of a reduction may be, from what one term may be. */
static void
result_range(struct tt_reduction *r, struct tt_interval one)
{
  int64_t n = count_points(r), lo = 0, hi = 0;

  if (!one.ok || !tt_dtype_is_int(r->dtype))
    return;
  if (r->red == TT_RED_SUM) {
    if (__builtin_mul_overflow(n, one.lo, &lo) ||
        __builtin_mul_overflow(n, one.hi, &hi))
      return;
    if (r->where) { /* fewer terms, or none */
      lo = lo < 0 ? lo : 0;
      hi = hi > 0 ? hi : 0;
    }
  } else if ((r->red == TT_RED_MIN || r->red == TT_RED_MAX) &&
             !(r->where && tt_has_load(r->where))) {
    lo = one.lo;
    hi = one.hi;
  } else {
    return;
  }
  if (lo < tt_dtype_min(r->dtype) || hi > tt_dtype_max(r->dtype) ||
      hi == INT64_MAX)
    return;
  r->has_range = true;
  r->lo = lo;
  r->hi = hi + 1;
}

/* A sum whose terms are known to be able to leave the type. */
static void
check_accumulator(struct tt_elab *el, const struct tt_rx *rx,
                  const struct tt_reduction *r, struct tt_interval one)
{
  int64_t min, max, n = count_points(r);
  bool narrow;

  if (r->red != TT_RED_SUM || !tt_dtype_is_int(r->dtype) || !one.ok || el->dead)
    return;
  min = tt_dtype_min(r->dtype);
  max = tt_dtype_max(r->dtype);
  narrow = tt_dtype_bits(r->dtype) <= 16;
  if (r->has_range || n == 1 ||
      (!narrow && (one.lo <= min || one.hi >= max))) /* nothing is known */
    return;
  tt_diag(el->s->diags, TT_D_WEAK_ACCUMULATOR, rx->at,
          "sum of %s over %lld terms can overflow%s", tt_dtype_name(r->dtype),
          (long long)n,
          narrow               ? "; sum i32(…)"
          : r->dtype == TT_I64 ? ""
                               : "; sum i64(…)");
  tt_note_use(el->s, rx->use);
}

static void
check_unused(struct tt_elab *el, const struct tt_rx *rx,
             const struct tt_reduction *r)
{
  for (int i = 0; i < r->n; i++) {
    const char *name = rx->axes[i]->name;
    long long extent = (long long)rx->axes[i]->extent;
    if (el->dead || tt_expr_uses_var(r->value, r->vars[i]) ||
        (r->where && tt_expr_uses_var(r->where, r->vars[i])))
      continue;
    if (r->red == TT_RED_SUM)
      tt_diag(el->s->diags, TT_D_UNUSED_INDEX, rx->axes[i]->span,
              "'%s' is unused: the result is multiplied by %lld", name, extent);
    else
      tt_diag(el->s->diags, TT_D_UNUSED_INDEX, rx->axes[i]->span,
              "'%s' is unused", name);
    tt_note_use(el->s, rx->use);
  }
}

/* Bind the reduction's indices to fresh variables. */
static bool
enter(struct tt_elab *el, const struct tt_rx *rx, struct tt_reduction *r)
{
  if (el->nactive + rx->naxes > TT_MAX_ACTIVE) {
    tt_diag(el->s->diags, TT_D_TOO_MANY_DIMS, rx->span,
            "more than %d indices are bound here", TT_MAX_ACTIVE);
    return false;
  }
  r->n = rx->naxes;
  for (int i = 0; i < rx->naxes; i++) {
    struct tt_axis *axis = rx->axes[i];
    if (axis->bad)
      return false;
    axis->var = tt_program_var(el->s->program, axis->name, axis->extent);
    r->vars[i] = axis->var;
    el->active[el->nactive + i] = axis;
  }
  el->nactive += rx->naxes;
  return true;
}

/* The body in its type: bool for any and all, else a number. */
static bool
body_value(struct tt_elab *el, const struct tt_rx *rx, enum tt_dtype want,
           struct tt_reduction *r)
{
  bool logical = r->red == TT_RED_ANY || r->red == TT_RED_ALL;
  struct tt_value v = tt_elab(el, rx->args[0], logical ? TT_BOOL : want);
  struct tt_interval sum;

  if (!v.e)
    return false;
  if (logical)
    v = tt_type_bool(el->s, rx->args[0], v, tt_reducer_name(rx->red));
  else if (v.e->type.dtype == TT_BOOL) {
    tt_diag(el->s->diags, TT_D_TYPE_MIX, rx->args[0]->span,
            "%s of bool; it needs numbers: i32(…)", tt_reducer_name(rx->red));
    tt_note_use(el->s, rx->use);
    return false;
  }
  if (v.e && v.weak != TT_STRONG) {
    enum tt_dtype t = tt_default_type(el->s, v, el->facts);
    sum = tt_range_of(v.e, el->facts, NULL);
    if (t == TT_I32 && r->red == TT_RED_SUM && sum.ok) {
      int64_t n = count_points(r), lo, hi;
      if (__builtin_mul_overflow(n, sum.lo, &lo) ||
          __builtin_mul_overflow(n, sum.hi, &hi) || lo < INT32_MIN ||
          hi > INT32_MAX)
        t = TT_I64;
    }
    if (want != TT_NDTYPES && want != TT_BOOL)
      t = want;
    v = tt_adapt(el->s, v, t, rx->args[0], el->facts);
  }
  if (!v.e)
    return false;
  r->value = v.e;
  r->dtype = v.e->type.dtype;
  return true;
}

/* Everything but argmin's second half. */
static bool
plain_reduce(struct tt_elab *el, const struct tt_rx *rx, enum tt_dtype want,
             struct tt_reduction *r)
{
  const struct tt_facts *saved = el->facts;
  struct tt_value where = {0};
  struct tt_interval one;
  bool ok;

  memset(r, 0, sizeof *r);
  r->red = ir_reducer(rx->red);
  if (!enter(el, rx, r))
    return false;
  ok = true;
  if (rx->other) {
    where = tt_elab(el, rx->other, TT_BOOL);
    where = tt_type_bool(el->s, rx->other, where, "where");
    ok = where.e != NULL;
    if (ok && !(where.e->kind == TT_INT && where.e->ival)) {
      r->where = where.e;
      el->facts = tt_facts_push(el->s->arena, el->facts, where.e, false);
    }
  }
  ok = body_value(el, rx, want, r) && ok;
  if (ok) {
    one = tt_range_of(r->value, el->facts, NULL);
    result_range(r, one);
    check_accumulator(el, rx, r, one);
    check_unused(el, rx, r);
    ok = el->dead || check_points(el, rx, r);
  }
  el->facts = saved;
  el->nactive -= rx->naxes;
  return ok;
}

/* ---- stages without a name --------------------------------------------- */

static uint64_t
mix(uint64_t h, uint64_t v)
{
  return (h ^ v) * 0x9e3779b97f4a7c15u;
}

/* A hash that does not see which variables of the reduction are which. */
static uint64_t
hash_expr(const struct tt_expr *e, const struct tt_reduction *r, uint64_t h)
{
  uint64_t bits;

  h = mix(h, (uint64_t)e->kind * 64 + (uint64_t)e->op);
  h = mix(h, (uint64_t)e->type.dtype * 64 + (uint64_t)e->fn);
  memcpy(&bits, &e->fval, sizeof bits);
  h = mix(h, (uint64_t)e->ival ^ bits);
  if (e->tensor)
    h = mix(h, (uint64_t)e->tensor->id);
  if (e->var)
    h = mix(h, contains(r->n, r->vars, e->var) ? 1 : 2 + (uint64_t)e->var->id);
  for (int i = 0; i < e->nargs; i++)
    h = hash_expr(e->args[i], r, h);
  if (e->c)
    h = hash_expr(e->c, r, h);
  if (e->a)
    h = hash_expr(e->a, r, h);
  return e->b ? hash_expr(e->b, r, h) : h;
}

static const struct tt_expr *
renamed(struct tt_sema *s, const struct tt_expr *e,
        const struct tt_reduction *from, const struct tt_reduction *to)
{
  const struct tt_expr *repl[TT_MAX_REDUCE];

  for (int i = 0; i < from->n; i++)
    repl[i] = tt_var_ref(s->arena, to->vars[i]);
  return tt_expr_subst(s->arena, e, from->n, from->vars, repl);
}

static bool
same_reduction(struct tt_sema *s, const struct tt_reduction *a,
               const struct tt_reduction *b)
{
  if (a->red != b->red || a->dtype != b->dtype || a->n != b->n ||
      !a->where != !b->where)
    return false;
  for (int i = 0; i < a->n; i++)
    if (a->vars[i]->extent != b->vars[i]->extent)
      return false;
  return tt_expr_equal(renamed(s, a->value, a, b), b->value) &&
         (!a->where || tt_expr_equal(renamed(s, a->where, a, b), b->where));
}

/* The indices bound around the reduction that occur in it. */
static int
free_vars(struct tt_elab *el, const struct tt_reduction *r,
          const struct tt_var **out)
{
  struct tt_point p = {0};
  int n = 0;

  tt_collect_vars(r->value, &p);
  if (r->where)
    tt_collect_vars(r->where, &p);
  for (int i = 0; i < el->nactive; i++)
    if (contains(p.n, p.vars, el->active[i]->var))
      out[n++] = el->active[i]->var;
  return n;
}

static struct tt_tensor *
make_stage(struct tt_elab *el, const struct tt_rx *rx, const char *suffix,
           const struct tt_reduction *r, int n,
           const struct tt_var *const *free)
{
  struct tt_sema *s = el->s;
  const struct tt_var *spatial[TT_MAX_DIMS];
  const struct tt_expr *repl[TT_MAX_DIMS];
  int64_t dims[TT_MAX_DIMS];
  struct tt_tensor *out;
  const char *name;

  if (n > TT_MAX_DIMS) {
    tt_diag(s->diags, TT_D_TOO_MANY_DIMS, rx->span,
            "this reduction has %d free indices; at most %d", n, TT_MAX_DIMS);
    return NULL;
  }
  for (int i = 0; i < n; i++) {
    dims[i] = free[i]->extent;
    spatial[i] = tt_program_var(s->program, free[i]->name, dims[i]);
    repl[i] = tt_var_ref(s->arena, spatial[i]);
  }
  name = tt_symbol_generate(
      s, tt_arena_printf(s->arena, "%s_%s", el->stage, suffix));
  if (!tt_count_elements(s, name, rx->span, n, dims))
    return NULL;
  out = tt_program_tensor(s->program, name, TT_TEMP, r->dtype, n, dims);
  out->has_range = r->has_range;
  out->lo = r->lo;
  out->hi = r->hi;
  tt_program_stage(s->program, out, spatial, r->red, r->n, r->vars,
                   tt_expr_subst(s->arena, r->value, n, free, repl),
                   r->where ? tt_expr_subst(s->arena, r->where, n, free, repl)
                            : NULL);
  return out;
}

/* The stage of a reduction, made or found, and a load of it. */
static const struct tt_expr *
hoist(struct tt_elab *el, const struct tt_rx *rx, const char *suffix,
      const struct tt_reduction *r)
{
  struct tt_sema *s = el->s;
  struct tt_hoisted *h;
  uint64_t hash = hash_expr(r->value, r, (uint64_t)r->red);
  const struct tt_expr *idx[TT_MAX_DIMS];

  for (h = el->hoisted; h; h = h->next)
    if (h->hash == hash && same_reduction(s, r, &h->r))
      break;
  if (!h) {
    h = TT_NEW(s->arena, struct tt_hoisted);
    h->hash = hash;
    h->r = *r;
    h->nfree = free_vars(el, r, h->free);
    h->out = make_stage(el, rx, suffix, r, h->nfree, h->free);
    h->next = el->hoisted;
    el->hoisted = h;
  }
  if (!h->out)
    return NULL;
  for (int i = 0; i < h->nfree; i++)
    idx[i] = tt_var_ref(s->arena, h->free[i]);
  return tt_load(s->arena, h->out, h->nfree, idx);
}

/* ---- argmin, argmax ---------------------------------------------------- */

/* From the extremum to the lowest index that attains it.  Where no value is
 * equal (NaN) the last index is the answer, so that it is always legal. */
static bool
arg_reduce(struct tt_elab *el, const struct tt_rx *rx, struct tt_reduction *r)
{
  struct tt_sema *s = el->s;
  const struct tt_axis *axis = rx->axes[0];
  struct tt_reduction best = *r;
  const struct tt_var *var = best.vars[0];
  const struct tt_expr *m, *i, *fresh;
  int64_t last = axis->lo + axis->extent - 1;

  if (axis->lo < INT32_MIN || last > INT32_MAX) {
    tt_diag(s->diags, TT_D_SIZE_OVERFLOW, axis->span,
            "the indices %lld..%lld of %s do not fit i32", (long long)axis->lo,
            (long long)last, tt_reducer_name(rx->red));
    return false;
  }
  m = hoist(el, rx, tt_red_name(best.red), &best);
  if (!m)
    return false;
  r->vars[0] = tt_program_var(s->program, axis->name, axis->extent);
  fresh = tt_var_ref(s->arena, r->vars[0]);
  i = tt_cast(s->arena, TT_I32,
              tt_iadd(s->arena, fresh, tt_idx(s->arena, axis->lo)));
  r->value = tt_select(
      s->arena,
      tt_binary(s->arena, TT_EQ,
                tt_expr_subst(s->arena, best.value, 1, &var, &fresh), m),
      i, tt_int(s->arena, TT_I32, last));
  if (r->where)
    r->where = tt_expr_subst(s->arena, r->where, 1, &var, &fresh);
  r->red = TT_RED_MIN;
  r->dtype = TT_I32;
  r->has_range = true;
  r->lo = axis->lo;
  r->hi = last + 1;
  return true;
}

bool
tt_reduce(struct tt_elab *el, const struct tt_rx *rx, enum tt_dtype want,
          struct tt_reduction *r)
{
  bool arg = rx->red == TT_REDUCE_ARGMIN || rx->red == TT_REDUCE_ARGMAX;

  if (!plain_reduce(el, rx, arg ? TT_NDTYPES : want, r))
    return false;
  return !arg || el->dead || arg_reduce(el, rx, r);
}

struct tt_value
tt_reduce_nested(struct tt_elab *el, const struct tt_rx *rx, enum tt_dtype want)
{
  const struct tt_facts *barrier = el->barrier;
  bool hoisting = el->hoisting;
  struct tt_reduction r;
  const struct tt_expr *e = NULL;
  bool ok;

  el->barrier = el->facts;
  el->hoisting = true;
  ok = tt_reduce(el, rx, want, &r);
  if (ok && el->dead)
    e = tt_zero(el->s->arena,
                rx->red == TT_REDUCE_ARGMIN || rx->red == TT_REDUCE_ARGMAX
                    ? TT_I32
                    : r.dtype);
  else if (ok)
    e = hoist(el, rx, tt_reducer_name(rx->red), &r);
  el->barrier = barrier;
  el->hoisting = hoisting;
  return e ? tt_strong(e) : tt_bad();
}
