/* Repeated loads get names: const f32x16 b_0 = ...
 *
 * In a run of stores, a subexpression with a load that is evaluated more than
 * once, and that no store in between can change, becomes a variable defined
 * at its first use.  Tensors never overlap, so a store only changes loads of
 * its own tensor.  What is evaluated only under a condition does not count:
 * a load may be named, and thus made, only where the program makes it.
 */
#include "config.h"

#include "codegen/dot.h"
#include "ir/passes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 256 /* in one run */ };

/* An expression that was seen, valid for stores first..last of the run. */
struct entry {
  const struct tt_expr *expr;
  uint32_t hash;
  int next; /* with the same hash bucket; -1: none */
  int first, last;
  int count;
  int height;                   /* of the expression: more than its operands' */
  const struct tt_tensor *name; /* NULL: not named */
};

enum { BUCKETS = 1024 };

struct table {
  struct pass *pass;
  TT_VEC(struct entry) entries;
  TT_VEC(const struct tt_tensor *) stored; /* in the run, for lookups only */
  TT_VEC(int) changing; /* entries that are valid and read one of these */
  int bucket[BUCKETS];
  int now; /* the store that is being looked at */
  TT_VEC(int) named;
};

/* ---- lookup ----------------------------------------------------------- */

static uint32_t
mix(uint32_t h, uint64_t v)
{
  h ^= (uint32_t)v ^ (uint32_t)(v >> 32);
  return h * 0x9e3779b1u + (h >> 15);
}

static uint32_t
hash(const struct tt_expr *e)
{
  uint32_t h = mix(e->kind, e->type.dtype * 1024u + (unsigned)e->type.lanes);
  h = mix(h, (uint64_t)e->ival + (uint64_t)e->op * 64 + e->fn);
  if (e->var)
    h = mix(h, (uint64_t)e->var->id);
  if (e->tensor)
    for (const char *p = e->tensor->name; *p; p++)
      h = mix(h, (unsigned char)*p);
  if (e->kind == TT_FLT) {
    uint64_t bits;
    memcpy(&bits, &e->fval, sizeof bits);
    h = mix(h, bits);
  }
  const struct tt_expr *ops[3] = {e->a, e->b, e->c};
  for (int i = 0; i < 3; i++)
    if (ops[i])
      h = mix(h, hash(ops[i]));
  for (int i = 0; i < e->nargs; i++)
    h = mix(h, hash(e->args[i]));
  return h;
}

static int
height(const struct tt_expr *e)
{
  const struct tt_expr *ops[3] = {e->a, e->b, e->c};
  int most = 0;
  for (int i = 0; i < 3; i++) {
    int h = ops[i] ? height(ops[i]) : 0;
    most = h > most ? h : most;
  }
  for (int i = 0; i < e->nargs; i++) {
    int h = height(e->args[i]);
    most = h > most ? h : most;
  }
  return most + 1;
}

static struct entry *
lookup(struct table *t, const struct tt_expr *e, uint32_t h)
{
  for (int i = t->bucket[h % BUCKETS]; i >= 0; i = t->entries.items[i].next) {
    struct entry *x = &t->entries.items[i];
    if (x->hash == h && x->first <= t->now && t->now <= x->last &&
        tt_expr_equal(x->expr, e))
      return x;
  }
  return NULL;
}

static void
find_load(void *ctx, const struct tt_expr *e)
{
  bool *found = ctx;
  *found = *found || (e->kind == TT_LOAD && !(e->tensor->role == TT_LOCAL &&
                                              e->tensor->scope == TT_REGISTER));
}

/* Loads from memory, and what is computed from them. */
static bool
is_candidate(const struct tt_expr *e)
{
  bool found = false;
  switch (e->kind) {
  case TT_LOAD:
  case TT_BINARY:
  case TT_NEG:
  case TT_CAST:
  case TT_SAT:
  case TT_CALL:
    break;
  case TT_INT:
  case TT_FLT:
  case TT_VAR:
  case TT_NOT:
  case TT_SELECT:
  case TT_RAMP:
  case TT_BROADCAST:
    return false;
  }
  /* Bools are masks of no fixed type, indices stay where they are used. */
  if (e->type.dtype == TT_BOOL)
    return false;
  tt_expr_visit(e, find_load, &found);
  return found;
}

static int
by_address(const void *x, const void *y)
{
  const struct tt_tensor *a = *(const struct tt_tensor *const *)x;
  const struct tt_tensor *b = *(const struct tt_tensor *const *)y;
  return a < b ? -1 : a > b;
}

struct change {
  const struct table *table;
  bool found;
};

static void
find_change(void *ctx, const struct tt_expr *e)
{
  struct change *c = ctx;
  if (e->kind == TT_LOAD && !c->found)
    c->found =
        bsearch(&e->tensor, c->table->stored.items, (size_t)c->table->stored.n,
                sizeof e->tensor, by_address) != NULL;
}

static bool
may_change(const struct table *t, const struct tt_expr *e)
{
  struct change c = {t, false};
  tt_expr_visit(e, find_change, &c);
  return c.found;
}

/* ---- counting --------------------------------------------------------- */

static void count(struct table *t, const struct tt_expr *e);

/* Operands that are evaluated whenever the expression is. */
static void
count_operands(struct table *t, const struct tt_expr *e)
{
  bool lanes = e->type.lanes > 1;
  for (int i = 0; i < e->nargs; i++)
    count(t, e->args[i]);
  if (e->c)
    count(t, e->c);
  bool lazy = e->kind == TT_SELECT && !(e->c->type.lanes > 1);
  bool half =
      e->kind == TT_BINARY && (e->op == TT_AND || e->op == TT_OR) && !lanes;
  if (e->a && !lazy)
    count(t, e->a);
  if (e->b && !lazy && !half)
    count(t, e->b);
}

static void
count(struct table *t, const struct tt_expr *e)
{
  struct dot d;
  if (tt_dot_match(t->pass->arena, e, &d)) { /* would be none with names */
    count(t, d.acc);
    return;
  }
  if (is_candidate(e)) {
    uint32_t h = hash(e);
    struct entry *x = lookup(t, e, h);
    if (x) {
      x->count++;
      return;
    }
    struct entry n = {
        e, h, t->bucket[h % BUCKETS], t->now, INT32_MAX, 1, height(e), NULL};
    t->bucket[h % BUCKETS] = t->entries.n;
    if (may_change(t, e))
      TT_PUSH(t->changing, t->entries.n);
    TT_PUSH(t->entries, n);
  }
  count_operands(t, e);
}

/* Nothing read from the tensor is the same after store `now`. */
static void
invalidate(struct table *t, const struct tt_tensor *tensor)
{
  int n = 0;
  for (int i = 0; i < t->changing.n; i++) {
    struct entry *x = &t->entries.items[t->changing.items[i]];
    if (tt_expr_uses_tensor(x->expr, tensor))
      x->last = t->now;
    else
      t->changing.items[n++] = t->changing.items[i];
  }
  t->changing.n = n;
}

/* ---- naming ----------------------------------------------------------- */

static const struct tt_tensor *
first_tensor(const struct tt_expr *e)
{
  if (e->kind == TT_LOAD)
    return e->tensor;
  const struct tt_expr *ops[3] = {e->a, e->b, e->c};
  for (int i = 0; i < 3; i++) {
    const struct tt_tensor *t = ops[i] ? first_tensor(ops[i]) : NULL;
    if (t)
      return t;
  }
  for (int i = 0; i < e->nargs; i++) {
    const struct tt_tensor *t = first_tensor(e->args[i]);
    if (t)
      return t;
  }
  return NULL;
}

/* b_3: the fourth that begins with a load of B (or of a cache of it). */
static const char *
name_of(struct table *t, const struct entry *x)
{
  const char *from = first_tensor(x->expr)->name;
  char *base = tt_arena_strdup(t->pass->arena, from);
  for (char *p = base; *p; p++)
    *p = (char)tolower((unsigned char)*p);
  int ordinal = 0;
  for (const struct entry *y = t->entries.items; y != x; y++)
    if (y->name && strcmp(first_tensor(y->expr)->name, from) == 0)
      ordinal++;
  return tt_arena_printf(t->pass->arena, "%s_%d", base, ordinal);
}

/* What is known of the values stays known: they may be indices. */
static void
keep_range(struct tt_tensor *v, const struct tt_expr *e)
{
  if (!tt_dtype_is_int(v->dtype))
    return;
  struct tt_interval r = tt_bounds(e, NULL);
  v->has_range = r.ok && r.lo > INT64_MIN && r.hi < INT64_MAX;
  v->lo = r.lo;
  v->hi = v->has_range ? r.hi + 1 : 0;
}

static void
give_names(struct table *t)
{
  for (int i = 0; i < t->entries.n && t->named.n < MAX_NAMES; i++) {
    struct entry *x = &t->entries.items[i];
    if (x->count < 2)
      continue;
    struct tt_tensor *v = TT_NEW(t->pass->arena, struct tt_tensor);
    v->name = name_of(t, x);
    v->dtype = x->expr->type.dtype;
    v->role = TT_LOCAL;
    v->scope = TT_REGISTER;
    v->ndim = x->expr->type.lanes > 1;
    v->dims[0] = x->expr->type.lanes;
    v->id = -1;
    keep_range(v, x->expr);
    x->name = v;
    TT_PUSH(t->named, i);
  }
}

/* The variable, whole. */
static const struct tt_expr *
variable(struct table *t, const struct tt_tensor *v)
{
  struct tt_arena *arena = t->pass->arena;
  const struct tt_expr *all = NULL;
  if (v->ndim)
    all = tt_ramp(arena, tt_idx(arena, 0), 1, (int)v->dims[0]);
  return tt_load(arena, v, v->ndim, &all);
}

static const struct tt_expr *replace(struct table *, const struct tt_expr *);

static const struct tt_expr *
replace_operands(struct table *t, const struct tt_expr *e)
{
  struct tt_expr *r = tt_arena_dup(t->pass->arena, e, sizeof *e);
  const struct tt_expr **args =
      TT_ARRAY(t->pass->arena, const struct tt_expr *, (size_t)e->nargs + 1);
  bool changed = false;
  for (int i = 0; i < e->nargs; i++) {
    args[i] = replace(t, e->args[i]);
    changed = changed || args[i] != e->args[i];
  }
  r->args = args;
  r->a = e->a ? replace(t, e->a) : NULL;
  r->b = e->b ? replace(t, e->b) : NULL;
  r->c = e->c ? replace(t, e->c) : NULL;
  changed = changed || r->a != e->a || r->b != e->b || r->c != e->c;
  return changed ? r : e;
}

/* Largest first, so that a name stands for as much as it can. */
static const struct tt_expr *
replace(struct table *t, const struct tt_expr *e)
{
  if (is_candidate(e)) {
    struct entry *x = lookup(t, e, hash(e));
    if (x && x->name)
      return variable(t, x->name);
  }
  return replace_operands(t, e);
}

static const struct tt_stmt *
replace_store(struct table *t, const struct tt_stmt *s)
{
  const struct tt_expr *idx[TT_MAX_DIMS];
  for (int i = 0; i < s->nidx; i++)
    idx[i] = replace(t, s->idx[i]);
  const struct tt_stmt *r =
      tt_store(t->pass->arena, s->tensor, s->nidx, idx, replace(t, s->value));
  return s->comment ? tt_comment(t->pass->arena, s->comment, r) : r;
}

/* ---- runs ------------------------------------------------------------- */

static const struct tt_stmt *
definition(struct table *t, const struct entry *x)
{
  struct tt_arena *arena = t->pass->arena;
  const struct tt_expr *all = NULL;
  if (x->name->ndim)
    all = tt_ramp(arena, tt_idx(arena, 0), 1, (int)x->name->dims[0]);
  return tt_store(arena, x->name, x->name->ndim, &all,
                  replace_operands(t, x->expr));
}

/* The named entries of store `i`, the highest first: they are defined from the
 * back, so that one whose operands have names comes after those.  Returns
 * their number. */
static int
entries_of(const struct table *t, int i, const struct entry **out)
{
  int n = 0;
  for (int k = 0; k < t->named.n; k++) {
    const struct entry *x = &t->entries.items[t->named.items[k]];
    if (x->first != i)
      continue;
    int at = n++;
    for (; at > 0 && out[at - 1]->height < x->height; at--)
      out[at] = out[at - 1];
    out[at] = x;
  }
  return n;
}

static const struct tt_stmt *
rebuild(struct table *t, int n, const struct tt_stmt *const *run)
{
  struct tt_arena *arena = t->pass->arena;
  const struct entry *here[MAX_NAMES];
  const struct tt_stmt *rest = NULL;
  for (int i = n - 1; i >= 0; i--) {
    t->now = i;
    const struct tt_stmt *pair[2] = {replace_store(t, run[i]), rest};
    rest = tt_seq(arena, 2, pair);
    int m = entries_of(t, i, here);
    for (int k = 0; k < m; k++) {
      pair[0] = definition(t, here[k]);
      pair[1] = rest;
      rest = tt_alloc_stmt(arena, here[k]->name, tt_seq(arena, 2, pair));
    }
  }
  return rest;
}

static const struct tt_stmt *
name_run(struct pass *p, int n, const struct tt_stmt *const *run)
{
  struct table *t = TT_NEW(p->arena, struct table);
  t->pass = p;
  for (int i = 0; i < BUCKETS; i++)
    t->bucket[i] = -1;
  for (int i = 0; i < n; i++)
    TT_PUSH(t->stored, run[i]->tensor);
  qsort(t->stored.items, (size_t)n, sizeof *t->stored.items, by_address);
  for (int i = 0; i < n; i++, t->now++) {
    for (int d = 0; d < run[i]->nidx; d++)
      count(t, run[i]->idx[d]);
    count(t, run[i]->value);
    invalidate(t, run[i]->tensor);
  }
  give_names(t);
  const struct tt_stmt *r =
      t->named.n > 0 ? rebuild(t, n, run) : tt_seq(p->arena, n, run);
  free(t->entries.items);
  free(t->stored.items);
  free(t->changing.items);
  free(t->named.items);
  return r;
}

static const struct tt_stmt *
name_loads(void *ctx, const struct tt_stmt *s)
{
  struct pass *p = ctx;
  if (s->kind == TT_STORE) {
    const struct tt_stmt *const one[1] = {s};
    return name_run(p, 1, one);
  }
  if (s->kind != TT_SEQ)
    return tt_map_children(p, s, name_loads, p);
  const struct tt_stmt **items =
      TT_ARRAY(p->arena, const struct tt_stmt *, (size_t)s->nitems);
  int n = 0;
  for (int i = 0, j; i < s->nitems; i = j) {
    for (j = i; j < s->nitems && s->items[j]->kind == TT_STORE; j++)
      ;
    if (j > i)
      items[n++] = name_run(p, j - i, s->items + i);
    else
      items[n++] = name_loads(p, s->items[j++]);
  }
  const struct tt_stmt *r = tt_seq(p->arena, n, items);
  return s->comment ? tt_comment(p->arena, s->comment, r) : r;
}

const struct tt_stmt *
tt_pass_name_loads(struct pass *p, const struct tt_stmt *s)
{
  return name_loads(p, s);
}
