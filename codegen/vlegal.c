/* Which loops may become vectors, and how wide.
 *
 * A vector loop runs statement by statement over all of its iterations; that
 * is right when no iteration reads or overwrites what another one stores.
 * Schedules only mark such loops, but a nest may come from elsewhere, so it
 * is proven here from the indices, and a loop that fails stays serial.
 */
#include "config.h"

#include "codegen/vectorize.h"

#include "ir/passes.h"

#include <stdlib.h>

enum { MOST_LANES_OF_GPU = 16 };

/* ---- dependence ------------------------------------------------------- */

struct inner {
  TT_VEC(const struct tt_var *) vars;
  TT_VEC(const struct tt_tensor *) locals; /* allocated inside the loop */
};

static void
collect_inner(void *ctx, const struct tt_stmt *s)
{
  struct inner *in = ctx;
  if (s->kind == TT_FOR)
    TT_PUSH(in->vars, s->var);
  else if (s->kind == TT_ALLOC)
    TT_PUSH(in->locals, s->tensor);
}

static bool
is_local(const struct inner *in, const struct tt_tensor *t)
{
  for (int i = 0; i < in->locals.n; i++)
    if (in->locals.items[i] == t)
      return true;
  return false;
}

static bool
uses_inner(const struct inner *in, const struct tt_expr *e)
{
  for (int i = 0; i < in->vars.n; i++)
    if (tt_expr_uses_var(e, in->vars.items[i]))
      return true;
  return false;
}

static int64_t
gcd(int64_t a, int64_t b)
{
  while (b) {
    int64_t t = a % b;
    a = b;
    b = t;
  }
  return a < 0 ? -a : a;
}

/* The difference of two indices without their parts in the loop's variable:
 * lo..hi, all multiples of `step` away from `fixed`. */
struct difference {
  int64_t coef; /* of the variable, equal on both sides */
  int64_t fixed, lo, hi, step;
};

static bool
add_inner(struct difference *d, const struct tt_expr *term, int64_t coef)
{
  struct tt_interval b = tt_bounds(term, NULL);
  int64_t x, y;
  if (!b.ok || __builtin_mul_overflow(b.lo, coef, &x) ||
      __builtin_mul_overflow(b.hi, coef, &y) ||
      __builtin_add_overflow(d->lo, x < y ? x : y, &d->lo) ||
      __builtin_add_overflow(d->hi, x < y ? y : x, &d->hi))
    return false;
  d->step = gcd(d->step, coef);
  return true;
}

/* Adds `sign` times the terms of `a` that are not in the loop's variable;
 * outer terms must appear equally in `b`. */
static bool
add_terms(struct difference *d, const struct inner *in,
          const struct tt_var *var, const struct tt_affine *a, int sign,
          const struct tt_affine *b, int64_t *coef)
{
  *coef = 0;
  for (int i = 0; i < a->n; i++) {
    const struct tt_expr *t = a->term[i];
    if (t->kind == TT_VAR && t->var == var) {
      *coef = a->coef[i];
    } else if (tt_expr_uses_var(t, var)) {
      return false;
    } else if (uses_inner(in, t)) {
      if (!add_inner(d, t, sign * a->coef[i]))
        return false;
    } else {
      bool found = false;
      for (int j = 0; j < b->n && !found; j++)
        found = b->coef[j] == a->coef[i] && tt_expr_equal(b->term[j], t);
      if (!found)
        return false;
    }
  }
  return true;
}

/* Can this dimension's indices only be equal in the same iteration? */
static bool
separates(struct tt_arena *arena, const struct inner *in,
          const struct tt_var *var, const struct tt_expr *x,
          const struct tt_expr *y)
{
  struct tt_affine a = tt_affine_of(arena, x), b = tt_affine_of(arena, y);
  struct difference d = {.fixed = a.c0 - b.c0};
  int64_t other;
  if (!add_terms(&d, in, var, &a, 1, &b, &d.coef) ||
      !add_terms(&d, in, var, &b, -1, &a, &other) || d.coef != other ||
      d.coef == 0)
    return false;
  int64_t c = d.coef < 0 ? -d.coef : d.coef;
  /* coef * distance == -(fixed + inner): none but 0 is a multiple ... */
  if (d.fixed + d.lo > -c && d.fixed + d.hi < c)
    return true;
  /* ... or the inner part moves in steps that the variable cannot reach. */
  return d.fixed == 0 && c * (var->extent - 1) < d.step;
}

static bool
never_meet(struct tt_arena *arena, const struct inner *in,
           const struct tt_var *var, const struct access *a,
           const struct access *b)
{
  for (int i = 0; i < a->n; i++)
    if (separates(arena, in, var, a->idx[i], b->idx[i]))
      return true;
  return false;
}

bool
tt_vec_independent(struct tt_arena *arena, const struct tt_stmt *loop)
{
  struct accesses all = {0};
  struct inner in = {0};
  tt_collect_accesses(loop->body, &all);
  tt_walk(loop->body, collect_inner, &in);
  bool ok = true;
  for (int i = 0; i < all.n && ok; i++) {
    if (!all.items[i].store || is_local(&in, all.items[i].tensor))
      continue;
    for (int j = 0; j < all.n && ok; j++)
      if (all.items[j].tensor == all.items[i].tensor &&
          !(all.items[j].store && j < i))
        ok = never_meet(arena, &in, loop->var, &all.items[i], &all.items[j]);
  }
  free(all.items);
  free(in.vars.items);
  free(in.locals.items);
  return ok;
}

/* ---- lanes ------------------------------------------------------------ */

struct width {
  const struct tt_var *var;
  int bytes;
  bool moves; /* vectors move values, and compute none */
};

static bool
is_compare(const struct tt_expr *e)
{
  return e->kind == TT_BINARY && e->type.dtype == TT_BOOL && e->op != TT_AND &&
         e->op != TT_OR;
}

/* Bytes of a value: 16-bit floats are computed as f32. */
static int
value_bytes(const struct width *w, enum tt_dtype t)
{
  bool half = tt_dtype_is_float(t) && tt_dtype_bytes(t) < 4;
  return half && !w->moves ? 4 : tt_dtype_bytes(t);
}

/* The widest type among the operations that depend on the variable.  Indices
 * do not count: their vectors are formed in the type they are cast to, or in
 * 32 bits for a comparison. */
static void
widest(struct width *w, const struct tt_expr *e)
{
  if (!e || !tt_expr_uses_var(e, w->var))
    return;
  int bytes = value_bytes(w, e->type.dtype);
  if (e->kind == TT_CAST && e->a->type.dtype == TT_I64 &&
      tt_bounds(e->a, NULL).ok && e->a->kind != TT_LOAD) {
    /* an index as a value */
  } else if (is_compare(e) && e->a->type.dtype == TT_I64) {
    bytes = 4;
  } else if (e->kind != TT_LOAD) {
    widest(w, e->a);
    widest(w, e->b);
    widest(w, e->c);
    for (int i = 0; i < e->nargs; i++)
      widest(w, e->args[i]);
  }
  if (bytes > w->bytes)
    w->bytes = bytes;
}

static void
widest_stmt(void *ctx, const struct tt_stmt *s)
{
  struct width *w = ctx;
  if (s->kind != TT_STORE)
    return;
  widest(w, s->value);
  int bytes = value_bytes(w, s->tensor->dtype);
  if (bytes > w->bytes)
    w->bytes = bytes;
}

struct vec_lanes {
  struct tt_arena *arena;
  int bytes, most; /* of a vector; lanes */
  bool masks, moves;
  int n, cap;
  struct entry {
    const struct tt_stmt *loop;
    int lanes;
    bool parts;
    int first, nlocals; /* in `locals` */
  } * items;
  struct {
    const struct tt_tensor **items;
    int n, cap;
  } locals;
};

static int
power_of_two(int64_t n)
{
  int p = 1;
  while (2 * p <= n && p < 1024)
    p *= 2;
  return p;
}

/* ---- remainders as part of a vector ------------------------------------ */

struct parts {
  const struct tt_var *var;
  bool ok;
};

static bool
is_maskable(enum tt_dtype t)
{
  return t == TT_BOOL || tt_dtype_bytes(t) >= 4;
}

static void
parts_expr(void *ctx, const struct tt_expr *e)
{
  struct parts *p = ctx;
  if (!tt_expr_uses_var(e, p->var))
    return;
  bool divides =
      (e->kind == TT_BINARY && (e->op == TT_DIV || e->op == TT_MOD)) ||
      (e->kind == TT_CALL && (e->fn == TT_FN_QUOT || e->fn == TT_FN_REM));
  if (!is_maskable(e->type.dtype) ||
      (e->kind == TT_LOAD && e->tensor->dtype == TT_BOOL) ||
      (divides && !tt_dtype_is_float(e->type.dtype)))
    p->ok = false;
}

static void
parts_own(void *ctx, const struct tt_expr *e)
{
  tt_expr_visit(e, parts_expr, ctx);
}

static void
parts_stmt(void *ctx, const struct tt_stmt *s)
{
  struct parts *p = ctx;
  tt_own_exprs(s, parts_own, p);
  if (s->kind == TT_STORE && tt_dtype_bytes(s->tensor->dtype) < 4)
    p->ok = false;
}

/* Can the last lanes of a vector stay unused: are all elements wide enough
 * for the machine's masks, and does no arithmetic trap on what is in them? */
static bool
in_parts(const struct tt_stmt *loop)
{
  struct parts p = {loop->var, true};
  tt_walk(loop->body, parts_stmt, &p);
  return p.ok;
}

static void
add_loop(void *ctx, const struct tt_stmt *s)
{
  struct vec_lanes *v = ctx;
  if (s->kind != TT_FOR || s->for_kind != TT_VECTOR)
    return;
  struct width w = {s->var, 1, v->moves};
  tt_walk(s->body, widest_stmt, &w);
  int fit = v->bytes / w.bytes < v->most ? v->bytes / w.bytes : v->most;
  struct entry e = {s, power_of_two(s->lanes < fit ? s->lanes : fit),
                    v->masks && in_parts(s), v->locals.n, 0};
  struct accesses all = {0};
  tt_collect_accesses(s->body, &all);
  for (int i = 0; i < all.n; i++) {
    bool depends = false;
    for (int d = 0; d < all.items[i].n; d++)
      depends = depends || tt_expr_uses_var(all.items[i].idx[d], s->var);
    if (!depends || all.items[i].tensor->role != TT_LOCAL)
      continue;
    TT_PUSH(v->locals, all.items[i].tensor);
    e.nlocals++;
  }
  free(all.items);
  TT_PUSH(*v, e);
}

static int
by_tensor(const void *x, const void *y)
{
  const struct tt_tensor *a = *(const struct tt_tensor *const *)x;
  const struct tt_tensor *b = *(const struct tt_tensor *const *)y;
  return a < b ? -1 : a > b;
}

/* Loops that share a local take the least of their lanes, and parts only if
 * all can, and so on until nothing changes.  (The order of addresses only
 * serves to look up.) */
static void
agree(struct vec_lanes *v)
{
  size_t size = sizeof *v->locals.items;
  const struct tt_tensor **keys =
      tt_arena_dup(v->arena, v->locals.items, (size_t)v->locals.n * size);
  int *lanes = TT_ARRAY(v->arena, int, (size_t)v->locals.n + 1);
  qsort(keys, (size_t)v->locals.n, size, by_tensor);
  int n = 0;
  for (int i = 0; i < v->locals.n; i++)
    if (n == 0 || keys[n - 1] != keys[i])
      keys[n++] = keys[i];
  bool *parts = TT_ARRAY(v->arena, bool, (size_t)v->locals.n + 1);
  for (int i = 0; i < n; i++) {
    lanes[i] = 1024;
    parts[i] = true;
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int i = 0; i < v->n; i++) {
      struct entry *e = &v->items[i];
      for (int j = 0; j < e->nlocals; j++) {
        const struct tt_tensor **k = bsearch(&v->locals.items[e->first + j],
                                             keys, (size_t)n, size, by_tensor);
        int *l = &lanes[k - keys];
        bool *p = &parts[k - keys];
        if (*l == e->lanes && *p == e->parts)
          continue;
        changed = true;
        *l = e->lanes = *l < e->lanes ? *l : e->lanes;
        *p = e->parts = *p && e->parts;
      }
    }
  }
}

struct vec_lanes *
tt_vec_lanes(struct tt_arena *arena, const struct tt_stmt *s,
             const struct tt_codegen_options *options)
{
  struct vec_lanes *v = TT_NEW(arena, struct vec_lanes);
  v->arena = arena;
  v->bytes = options->vector_bytes;
  v->most = options->gpu ? MOST_LANES_OF_GPU : INT32_MAX;
  v->masks = v->bytes >= 32 && !options->gpu;
  v->moves = options->moves;
  tt_walk(s, add_loop, v);
  if (v->locals.n > 0)
    agree(v);
  struct entry *items = v->items;
  v->items = tt_arena_dup(arena, items, (size_t)v->n * sizeof *items);
  free(items);
  free(v->locals.items);
  return v;
}

int
tt_vec_lanes_of(const struct vec_lanes *v, const struct tt_stmt *loop,
                bool *parts)
{
  for (int i = 0; i < v->n; i++)
    if (v->items[i].loop == loop) {
      *parts = v->items[i].parts;
      return v->items[i].lanes;
    }
  *parts = false;
  return 1;
}

/* ---- registers -------------------------------------------------------- */

bool
tt_vec_in_registers(const struct tt_var *var, const struct tt_stmt *body)
{
  struct accesses all = {0};
  tt_collect_accesses(body, &all);
  bool found = false;
  for (int i = 0; i < all.n && !found; i++)
    if (all.items[i].tensor->role == TT_LOCAL &&
        all.items[i].tensor->scope == TT_REGISTER)
      for (int d = 0; d < all.items[i].n; d++)
        found = found || tt_expr_uses_var(all.items[i].idx[d], var);
  free(all.items);
  return found;
}
