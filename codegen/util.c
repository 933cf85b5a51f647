/* Walking and rebuilding statements, shared by the passes. */
#include "config.h"

#include "codegen/internal.h"

#include <stdlib.h>

const struct tt_var *
tt_pass_var(struct pass *p, const char *name, int64_t extent)
{
  struct tt_var *v = TT_NEW(p->arena, struct tt_var);
  v->name = name;
  v->extent = extent;
  v->id = p->nextvar++;
  return v;
}

struct tt_tensor *
tt_pass_tensor(struct pass *p, const struct tt_tensor *t)
{
  struct tt_tensor *r = tt_arena_dup(p->arena, t, sizeof *t);
  r->id = -1;
  r->role = TT_LOCAL;
  return r;
}

void
tt_walk(const struct tt_stmt *s, stmt_fn *fn, void *ctx)
{
  fn(ctx, s);
  switch (s->kind) {
  case TT_STORE:
  case TT_PREFETCH:
    break;
  case TT_SEQ:
    for (int i = 0; i < s->nitems; i++)
      tt_walk(s->items[i], fn, ctx);
    break;
  case TT_IF:
    tt_walk(s->body, fn, ctx);
    if (s->other)
      tt_walk(s->other, fn, ctx);
    break;
  case TT_FOR:
  case TT_ALLOC:
  case TT_INTRIN:
    tt_walk(s->body, fn, ctx);
    break;
  }
}

static void
max_var(void *ctx, const struct tt_stmt *s)
{
  int *max = ctx;
  if (s->kind == TT_FOR && s->var->id > *max)
    *max = s->var->id;
}

int
tt_max_var(const struct tt_stmt *s)
{
  int max = -1;
  tt_walk(s, max_var, &max);
  return max;
}

void
tt_own_exprs(const struct tt_stmt *s,
             void (*fn)(void *, const struct tt_expr *), void *ctx)
{
  if (s->kind == TT_STORE || s->kind == TT_PREFETCH) {
    for (int i = 0; i < s->nidx; i++)
      fn(ctx, s->idx[i]);
    if (s->value)
      fn(ctx, s->value);
  } else if (s->kind == TT_INTRIN) {
    for (int i = 0; i < s->nidx; i++)
      fn(ctx, s->idx[i]);
  } else if (s->kind == TT_IF) {
    fn(ctx, s->cond);
  }
}

const struct tt_stmt *
tt_map_children(struct pass *p, const struct tt_stmt *s, child_fn *fn,
                void *ctx)
{
  switch (s->kind) {
  case TT_STORE:
  case TT_PREFETCH:
    return s;
  case TT_SEQ: {
    const struct tt_stmt **items =
        TT_ARRAY(p->arena, const struct tt_stmt *, (size_t)s->nitems);
    bool same = true;
    for (int i = 0; i < s->nitems; i++) {
      items[i] = fn(ctx, s->items[i]);
      same = same && items[i] == s->items[i];
    }
    if (same)
      return s;
    const struct tt_stmt *r = tt_seq(p->arena, s->nitems, items);
    return s->comment ? tt_comment(p->arena, s->comment, r) : r;
  }
  case TT_IF:
  case TT_FOR:
  case TT_INTRIN:
  case TT_ALLOC: {
    const struct tt_stmt *body = fn(ctx, s->body);
    const struct tt_stmt *other = s->other ? fn(ctx, s->other) : NULL;
    if (body == s->body && other == s->other)
      return s;
    struct tt_stmt *r = tt_arena_dup(p->arena, s, sizeof *s);
    r->body = body;
    r->other = other;
    return r;
  }
  }
  return s;
}

/* ---- accesses --------------------------------------------------------- */

static void
collect_load(void *ctx, const struct tt_expr *e)
{
  struct accesses *all = ctx;
  if (e->kind == TT_LOAD)
    TT_PUSH(*all, ((struct access){e->tensor, e->nargs, e->args, false}));
}

static void
collect_expr(void *ctx, const struct tt_expr *e)
{
  tt_expr_visit(e, collect_load, ctx);
}

static void
collect_stmt(void *ctx, const struct tt_stmt *s)
{
  struct accesses *all = ctx;
  if (s->kind == TT_STORE)
    TT_PUSH(*all, ((struct access){s->tensor, s->nidx, s->idx, true}));
  if (s->kind == TT_PREFETCH)
    TT_PUSH(*all, ((struct access){s->tensor, s->nidx, s->idx, false}));
  tt_own_exprs(s, collect_expr, all);
}

void
tt_collect_accesses(const struct tt_stmt *s, struct accesses *all)
{
  tt_walk(s, collect_stmt, all);
}

void
tt_access_shape(const struct tt_tensor *t, int n,
                const struct tt_expr *const *idx, int *lanes, int64_t *stride)
{
  *lanes = 1;
  *stride = 0;
  for (int i = 0; i < n; i++)
    if (idx[i]->type.lanes > 1) {
      *lanes = idx[i]->type.lanes;
      if (idx[i]->kind == TT_RAMP)
        *stride += idx[i]->ival * tt_tensor_stride(t, i);
    }
}

const struct tt_expr *
tt_access_base(struct tt_arena *arena, const struct tt_tensor *t, int n,
               const struct tt_expr *const *idx)
{
  const struct tt_expr *sum = tt_idx(arena, 0);
  for (int i = 0; i < n; i++) {
    const struct tt_expr *e = idx[i];
    if (e->kind == TT_RAMP || e->kind == TT_BROADCAST)
      e = e->a;
    sum = tt_iadd(arena, sum, tt_imul(arena, e, tt_tensor_stride(t, i)));
  }
  return sum;
}

/* ---- locals ----------------------------------------------------------- */

struct unique {
  struct pass *pass;
  TT_VEC(const struct tt_tensor *) seen;
};

struct swap {
  const struct tt_tensor *old, *new;
  struct pass *pass;
};

static const struct tt_expr *
swap_load(void *ctx, struct tt_arena *arena, const struct tt_expr *e)
{
  const struct swap *w = ctx;
  if (e->kind != TT_LOAD || e->tensor != w->old)
    return e;
  return tt_load(arena, w->new, e->nargs, e->args);
}

static const struct tt_expr *
swap_expr(void *ctx, struct tt_arena *arena, const struct tt_expr *e)
{
  return tt_expr_rewrite(arena, e, swap_load, ctx);
}

static const struct tt_stmt *
swap_stores(void *ctx, const struct tt_stmt *s)
{
  const struct swap *w = ctx;
  if (s->kind != TT_STORE && s->kind != TT_PREFETCH)
    return tt_map_children(w->pass, s, swap_stores, ctx);
  if (s->tensor != w->old)
    return s;
  struct tt_stmt *r = tt_arena_dup(w->pass->arena, s, sizeof *s);
  r->tensor = w->new;
  return r;
}

static const struct tt_stmt *
unique(void *ctx, const struct tt_stmt *s)
{
  struct unique *u = ctx;
  if (s->kind != TT_ALLOC)
    return tt_map_children(u->pass, s, unique, u);
  for (int i = 0; i < u->seen.n; i++) {
    if (u->seen.items[i] != s->tensor)
      continue;
    struct swap w = {s->tensor, tt_pass_tensor(u->pass, s->tensor), u->pass};
    const struct tt_stmt *body =
        tt_stmt_map_exprs(u->pass->arena, s->body, swap_expr, &w);
    struct tt_stmt *r = tt_arena_dup(u->pass->arena, s, sizeof *s);
    r->tensor = w.new;
    r->body = swap_stores(&w, body);
    return tt_map_children(u->pass, r, unique, u);
  }
  TT_PUSH(u->seen, s->tensor);
  return tt_map_children(u->pass, s, unique, u);
}

const struct tt_stmt *
tt_pass_unique_locals(struct pass *p, const struct tt_stmt *s)
{
  struct unique u = {.pass = p};
  s = unique(&u, s);
  free(u.seen.items);
  return s;
}
