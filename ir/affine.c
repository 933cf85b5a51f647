/* Affine forms of index expressions, and the canonical order of terms.
 *
 * All arithmetic on coefficients is modulo 2^64, as that of i64 values is, so
 * that a sum and the expression it came from agree whatever the values are.
 */
#include "config.h"

#include "ir/passes.h"

#include "ir/sum.h"

#include <stdlib.h>
#include <string.h>

/* ---- the canonical order ----------------------------------------------- */

static int
order(int64_t a, int64_t b)
{
  return (a > b) - (a < b);
}

static int
compare_vars(const struct tt_var *a, const struct tt_var *b)
{
  if (a == b)
    return 0;
  if (!a || !b)
    return a ? 1 : -1;
  int r = order(a->id, b->id);
  return r ? r : (uintptr_t)a < (uintptr_t)b ? -1 : 1;
}

static int
compare_tensors(const struct tt_tensor *a, const struct tt_tensor *b)
{
  if (a == b)
    return 0;
  if (!a || !b)
    return a ? 1 : -1;
  int r = order(a->id, b->id);
  if (!r)
    r = strcmp(a->name, b->name);
  return r ? r : (uintptr_t)a < (uintptr_t)b ? -1 : 1;
}

static int
compare_nodes(const struct tt_expr *x, const struct tt_expr *y)
{
  if (x->kind != y->kind) {
    if (x->kind == TT_VAR || y->kind == TT_VAR)
      return x->kind == TT_VAR ? -1 : 1;
    return order(x->kind, y->kind);
  }
  int r = compare_vars(x->var, y->var);
  r = r ? r : compare_tensors(x->tensor, y->tensor);
  r = r ? r : order(x->type.dtype, y->type.dtype);
  r = r ? r : order(x->type.lanes, y->type.lanes);
  r = r ? r : order(x->op, y->op);
  r = r ? r : order(x->fn, y->fn);
  r = r ? r : order(x->nargs, y->nargs);
  r = r ? r : order(x->ival, y->ival);
  return r ? r : memcmp(&x->fval, &y->fval, sizeof x->fval);
}

int
tt_expr_compare(const struct tt_expr *x, const struct tt_expr *y)
{
  if (x == y)
    return 0;
  if (!x || !y)
    return x ? 1 : -1;
  int r = compare_nodes(x, y);
  for (int i = 0; i < x->nargs && !r; i++)
    r = tt_expr_compare(x->args[i], y->args[i]);
  r = r ? r : tt_expr_compare(x->a, y->a);
  r = r ? r : tt_expr_compare(x->b, y->b);
  return r ? r : tt_expr_compare(x->c, y->c);
}

/* ---- sums -------------------------------------------------------------- */

static int64_t
wrap_add(int64_t a, int64_t b)
{
  return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t
wrap_mul(int64_t a, int64_t b)
{
  return (int64_t)((uint64_t)a * (uint64_t)b);
}

bool
tt_const_int(const struct tt_expr *e, int64_t *value)
{
  if (e->kind == TT_BROADCAST)
    e = e->a;
  if (e->kind != TT_INT)
    return false;
  *value = e->ival;
  return true;
}

struct tt_sum
tt_sum_new(struct tt_arena *arena, const struct tt_expr *like)
{
  return (struct tt_sum){.arena = arena, .lanes = like->type.lanes};
}

static void
append(struct tt_sum *s, const struct tt_expr *e, int64_t k)
{
  if (s->n == s->cap) {
    int cap = s->cap ? 2 * s->cap : 8;
    struct tt_sum_term *t = TT_ARRAY(s->arena, struct tt_sum_term, (size_t)cap);
    if (s->n)
      memcpy(t, s->t, (size_t)s->n * sizeof *t);
    s->t = t;
    s->cap = cap;
  }
  s->t[s->n++] = (struct tt_sum_term){e, k};
}

/* Descend into a sum; false if `e` is none. */
static bool
collect_sum(struct tt_sum *s, const struct tt_expr *e, int64_t k,
            tt_leaf_fn *leaf, void *ctx)
{
  int64_t c;
  switch (e->kind) {
  case TT_INT:
    s->c0 = wrap_add(s->c0, wrap_mul(k, e->ival));
    return true;
  case TT_NEG:
    tt_sum_collect(s, e->a, wrap_mul(k, -1), leaf, ctx);
    return true;
  case TT_BROADCAST:
    tt_sum_collect(s, e->a, k, leaf, ctx);
    return true;
  case TT_RAMP:
    tt_sum_collect(s, e->a, k, leaf, ctx);
    s->lane = wrap_add(s->lane, wrap_mul(k, e->ival));
    return true;
  case TT_BINARY:
    if (e->op == TT_ADD || e->op == TT_SUB) {
      tt_sum_collect(s, e->a, k, leaf, ctx);
      tt_sum_collect(s, e->b, e->op == TT_ADD ? k : wrap_mul(k, -1), leaf, ctx);
      return true;
    }
    if (e->op == TT_SHL && tt_const_int(e->b, &c) && c >= 0 && c <= 62) {
      tt_sum_collect(s, e->a, wrap_mul(k, INT64_C(1) << c), leaf, ctx);
      return true;
    }
    if (e->op == TT_MUL && tt_const_int(e->b, &c)) {
      tt_sum_collect(s, e->a, wrap_mul(k, c), leaf, ctx);
      return true;
    }
    if (e->op == TT_MUL && tt_const_int(e->a, &c)) {
      tt_sum_collect(s, e->b, wrap_mul(k, c), leaf, ctx);
      return true;
    }
    return false;
  case TT_VAR:
  case TT_FLT:
  case TT_LOAD:
  case TT_NOT:
  case TT_CAST:
  case TT_SAT:
  case TT_SELECT:
  case TT_CALL:
    return false;
  }
  return false;
}

void
tt_sum_collect(struct tt_sum *s, const struct tt_expr *e, int64_t k,
               tt_leaf_fn *leaf, void *ctx)
{
  if (k == 0 || collect_sum(s, e, k, leaf, ctx))
    return;
  const struct tt_expr *known = leaf ? leaf(ctx, e) : e;
  if (known == e || !collect_sum(s, known, k, NULL, NULL))
    append(s, known, k);
}

static int
compare_terms(const void *a, const void *b)
{
  const struct tt_sum_term *x = a, *y = b;
  return tt_expr_compare(x->e, y->e);
}

static void
insertion_sort(struct tt_sum_term *t, int n)
{
  for (int i = 1; i < n; i++) {
    struct tt_sum_term x = t[i];
    int j = i;
    for (; j > 0 && tt_expr_compare(t[j - 1].e, x.e) > 0; j--)
      t[j] = t[j - 1];
    t[j] = x;
  }
}

void
tt_sum_normalize(struct tt_sum *s)
{
  if (s->n <= 16)
    insertion_sort(s->t, s->n);
  else
    qsort(s->t, (size_t)s->n, sizeof *s->t, compare_terms);
  int n = 0;
  for (int i = 0; i < s->n; i++) {
    if (n > 0 && tt_expr_equal(s->t[n - 1].e, s->t[i].e))
      s->t[n - 1].k = wrap_add(s->t[n - 1].k, s->t[i].k);
    else
      s->t[n++] = s->t[i];
    if (s->t[n - 1].k == 0)
      n--;
  }
  s->n = n;
}

static const struct tt_expr *
wide(const struct tt_sum *s, const struct tt_expr *e, int lanes)
{
  return lanes > 1 && e->type.lanes == 1 ? tt_broadcast(s->arena, e, lanes) : e;
}

static const struct tt_expr *
number(const struct tt_sum *s, int64_t v, int lanes)
{
  return wide(s, tt_idx(s->arena, v), lanes);
}

/* sum + k*e, or k*e when there is no sum yet. */
static const struct tt_expr *
plus(const struct tt_sum *s, const struct tt_expr *sum, int64_t k,
     const struct tt_expr *e)
{
  bool minus = sum && k < 0 && k != INT64_MIN;
  int64_t factor = minus ? -k : k;
  if (factor == -1)
    e = tt_neg(s->arena, e);
  else if (factor != 1)
    e = tt_binary(s->arena, TT_MUL, e, number(s, factor, e->type.lanes));
  if (!sum)
    return e;
  return tt_binary(s->arena, minus ? TT_SUB : TT_ADD, sum, e);
}

static const struct tt_expr *
plus_const(const struct tt_sum *s, const struct tt_expr *sum, int64_t c,
           int lanes)
{
  if (!sum)
    return number(s, c, lanes);
  if (c == 0)
    return sum;
  bool minus = c < 0 && c != INT64_MIN;
  return tt_binary(s->arena, minus ? TT_SUB : TT_ADD, sum,
                   number(s, minus ? -c : c, lanes));
}

/* The terms with these lanes, those with k > 0 first; added to `sum`. */
static const struct tt_expr *
add_terms(const struct tt_sum *s, const struct tt_expr *sum, int lanes)
{
  for (int minus = 0; minus < 2; minus++)
    for (int i = 0; i < s->n; i++)
      if (s->t[i].e->type.lanes == lanes && (s->t[i].k < 0) == minus)
        sum = plus(s, sum, s->t[i].k, s->t[i].e);
  return sum;
}

const struct tt_expr *
tt_sum_expr(const struct tt_sum *s)
{
  bool any_plus = false;
  for (int i = 0; i < s->n; i++)
    any_plus |= s->t[i].e->type.lanes == 1 && s->t[i].k > 0;
  /* "7 - x", not "-x + 7". */
  bool first = !any_plus && s->c0 != 0;
  const struct tt_expr *e = first ? tt_idx(s->arena, s->c0) : NULL;
  e = add_terms(s, e, 1);
  if (!first)
    e = plus_const(s, e, s->c0, 1);
  if (s->lanes == 1)
    return e;
  if (s->lane != 0)
    e = tt_ramp(s->arena, e, s->lane, s->lanes);
  else if (tt_is_int(e, 0))
    e = NULL;
  else
    e = tt_broadcast(s->arena, e, s->lanes);
  e = add_terms(s, e, s->lanes);
  return e ? e : number(s, 0, s->lanes);
}

/* ---- the public face --------------------------------------------------- */

static struct tt_sum
sum_of(struct tt_arena *arena, const struct tt_expr *e)
{
  struct tt_sum s = tt_sum_new(arena, e);
  tt_sum_collect(&s, e, 1, NULL, NULL);
  tt_sum_normalize(&s);
  return s;
}

struct tt_affine
tt_affine_of(struct tt_arena *arena, const struct tt_expr *e)
{
  struct tt_sum s = sum_of(arena, e);
  struct tt_affine f = {.c0 = s.c0, .n = s.n};
  f.term = TT_ARRAY(arena, const struct tt_expr *, (size_t)s.n);
  f.coef = TT_ARRAY(arena, int64_t, (size_t)s.n);
  for (int i = 0; i < s.n; i++) {
    f.term[i] = s.t[i].e;
    f.coef[i] = s.t[i].k;
  }
  return f;
}

const struct tt_expr *
tt_affine_expr(struct tt_arena *arena, const struct tt_affine *f)
{
  struct tt_sum s = {.arena = arena, .lanes = 1, .c0 = f->c0};
  for (int i = 0; i < f->n; i++)
    append(&s, f->term[i], f->coef[i]);
  return tt_sum_expr(&s);
}

bool
tt_affine_coef(struct tt_arena *arena, const struct tt_expr *e,
               const struct tt_var *var, int64_t *coef)
{
  struct tt_sum s = sum_of(arena, e);
  *coef = 0;
  for (int i = 0; i < s.n; i++) {
    if (s.t[i].e->kind == TT_VAR && s.t[i].e->var == var)
      *coef = s.t[i].k;
    else if (tt_expr_uses_var(s.t[i].e, var))
      return false;
  }
  return true;
}

bool
tt_const_difference(struct tt_arena *arena, const struct tt_expr *a,
                    const struct tt_expr *b, int64_t *out)
{
  struct tt_sum s = tt_sum_new(arena, a);
  tt_sum_collect(&s, a, 1, NULL, NULL);
  tt_sum_collect(&s, b, -1, NULL, NULL);
  tt_sum_normalize(&s);
  *out = s.c0;
  return s.n == 0 && s.lane == 0;
}
