/* Copies into shared memory made ahead: while the threads of a block compute on
 * one tile, the next ones are on their way.
 *
 *   for (k) { S = tile k; use S }
 *
 * becomes, with two stages,
 *
 *   S[0] = tile 0
 *   for (k) { R = tile k + 1; use S[k % 2]; S[(k + 1) % 2] = R }
 *
 * where R are registers: what is loaded arrives while one computes.  With more
 * stages D + 1 it is
 *
 *   S[0] = tile 0; ... S[D - 1] = tile D - 1
 *   for (k) { S[(k + D) % (D + 1)] = tile k + D; use S[k % (D + 1)] }
 *
 * whose copies may be asynchronous.  Either has one place at which threads wait
 * for each other.
 *
 * Invariant: in the order of the text the same is computed; tiles beyond the
 * last one are not copied.  A tile is copied ahead only where nothing in the
 * loop writes what it is a copy of.
 */
#include "config.h"

#include "codegen/gpu.h"
#include "ir/passes.h"

#include <stdlib.h>

enum { MAX_TILES = 8, MAX_UNROLLED = 16, MAX_NEST = TT_MAX_DIMS };

typedef const struct tt_stmt *stmt;

struct pipeline {
  struct pass *pass;
  const struct accesses *kernel; /* all that it does */
};

/* A copy that is made ahead in a loop. */
struct tile {
  const struct tt_tensor *old;
  struct tt_tensor *ring; /* as many of them as there are stages */
  int64_t ahead;          /* iterations */
  bool registers;         /* on the way */
};

struct loop {
  struct pipeline *p;
  stmt s;
  int nallocs;
  stmt alloc[MAX_TILES];
  int nitems;
  const stmt *item;
  int ntiles;
  struct tile tile[MAX_TILES];
  TT_VEC(const struct tt_tensor *) registers;
};

/* ---- which copies can be made ahead ------------------------------------ */

static bool
stores(const struct accesses *all, const struct tt_tensor *t)
{
  for (int i = 0; i < all->n; i++)
    if (all->items[i].store && all->items[i].tensor == t)
      return true;
  return false;
}

/* Does the statement write the tensor alone, and read nothing that `all`
 * writes? */
static bool
is_copy(stmt s, const struct tt_tensor *t, const struct accesses *all)
{
  struct accesses own = {0};
  tt_collect_accesses(s, &own);
  bool ok = true;
  for (int i = 0; i < own.n && ok; i++)
    ok = own.items[i].store ? own.items[i].tensor == t
                            : !stores(all, own.items[i].tensor);
  ok = ok && stores(&own, t);
  free(own.items);
  return ok;
}

static bool
writes(stmt s, const struct tt_tensor *t)
{
  struct accesses own = {0};
  tt_collect_accesses(s, &own);
  bool found = stores(&own, t);
  free(own.items);
  return found;
}

static void
find_alloc(void *ctx, stmt s)
{
  *(bool *)ctx |= s->kind == TT_ALLOC;
}

static void
find_intrin(void *ctx, stmt s)
{
  *(bool *)ctx |= s->kind == TT_INTRIN;
}

/* Every statement that writes it is a copy without memory of its own. */
static bool
is_tile(const struct loop *l, const struct tt_tensor *t,
        const struct accesses *body)
{
  int copies = 0;
  bool allocs = false, intrins = false;
  /* (Rows of an instruction's operands begin where they are aligned.) */
  tt_walk(l->s, find_intrin, &intrins);
  if (intrins && tt_tensor_size(t) * tt_dtype_bytes(t->dtype) % TT_GPU_LINE)
    return false;
  for (int i = 0; i < l->nitems; i++) {
    if (!writes(l->item[i], t))
      continue;
    if (!is_copy(l->item[i], t, body))
      return false;
    tt_walk(l->item[i], find_alloc, &allocs);
    copies++;
  }
  return copies > 0 && copies < l->nitems && !allocs;
}

/* Reads a copy anything that the kernel writes? */
static bool
reads_constants(const struct loop *l, const struct tt_tensor *t)
{
  bool ok = true;
  for (int i = 0; i < l->nitems; i++) {
    struct accesses own = {0};
    if (!writes(l->item[i], t))
      continue;
    tt_collect_accesses(l->item[i], &own);
    for (int k = 0; k < own.n; k++)
      ok = ok &&
           (own.items[k].store || !stores(l->p->kernel, own.items[k].tensor));
    free(own.items);
  }
  return ok;
}

static void
add_tile(struct loop *l, const struct tt_tensor *t)
{
  struct tt_tensor *ring = tt_pass_tensor(l->p->pass, t);
  int64_t n = l->s->var->extent, stages = t->staging.stages;
  struct tile *tile = &l->tile[l->ntiles++];
  ring->ndim = t->ndim + 1;
  ring->dims[0] = stages < n ? stages : n;
  for (int d = 0; d < t->ndim; d++)
    ring->dims[d + 1] = t->dims[d];
  ring->staging.ring = (int)ring->dims[0];
  /* (Vectors of elements of less than four bytes cannot be taken apart.) */
  bool registers = stages == 2 && tt_dtype_bytes(t->dtype) >= 4;
  *tile = (struct tile){t, ring, ring->dims[0] - 1, registers};
  ring->staging.async = !tile->registers && reads_constants(l, t);
}

static bool
find_tiles(struct loop *l)
{
  stmt body = l->s->body;
  struct accesses all = {0};
  while (body->kind == TT_ALLOC && l->nallocs < MAX_TILES) {
    l->alloc[l->nallocs++] = body;
    body = body->body;
  }
  if (body->kind != TT_SEQ)
    return false;
  l->nitems = body->nitems;
  l->item = body->items;
  tt_collect_accesses(body, &all);
  for (int i = 0; i < l->nallocs; i++) {
    const struct tt_tensor *t = l->alloc[i]->tensor;
    if (t->staging.stages > 1 && t->ndim < TT_MAX_DIMS && is_tile(l, t, &all))
      add_tile(l, t);
  }
  free(all.items);
  return l->ntiles > 0;
}

/* ---- statements at another iteration ----------------------------------- */

struct moving {
  struct loop *l;
  const struct tt_expr *at; /* the iteration; NULL: as it is */
};

static const struct tile *
tile_of(const struct loop *l, const struct tt_tensor *t)
{
  for (int i = 0; i < l->ntiles; i++)
    if (l->tile[i].old == t)
      return &l->tile[i];
  return NULL;
}

/* The indices behind the one that says which of the ring's copies it is. */
static void
in_ring(const struct moving *m, const struct tile *t, int n,
        const struct tt_expr *const *idx, const struct tt_expr **out)
{
  struct tt_arena *ar = m->l->p->pass->arena;
  out[0] = tt_simplify(
      ar,
      tt_imod(ar, m->at ? m->at : tt_var_ref(ar, m->l->s->var), t->ahead + 1),
      NULL);
  for (int i = 0; i < n; i++)
    out[i + 1] = idx[i];
}

static const struct tt_expr *
move_load(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct moving *m = ctx;
  const struct tt_expr *idx[TT_MAX_DIMS];
  if (m->at && e->kind == TT_VAR && e->var == m->l->s->var)
    return m->at;
  const struct tile *t = e->kind == TT_LOAD ? tile_of(m->l, e->tensor) : NULL;
  if (!t)
    return e;
  in_ring(m, t, e->nargs, e->args, idx);
  return tt_load(ar, t->ring, e->nargs + 1, idx);
}

static const struct tt_expr *
move_loads(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  return tt_expr_rewrite(ar, e, move_load, ctx);
}

static stmt
move_stores(void *ctx, stmt s)
{
  const struct moving *m = ctx;
  const struct tt_expr *idx[TT_MAX_DIMS];
  struct pass *p = m->l->p->pass;
  if (s->kind != TT_STORE)
    return tt_map_children(p, s, move_stores, ctx);
  const struct tile *t = tile_of(m->l, s->tensor);
  if (!t)
    return s;
  in_ring(m, t, s->nidx, s->idx, idx);
  stmt r = tt_store(p->arena, t->ring, s->nidx + 1, idx, s->value);
  return s->comment ? tt_comment(p->arena, s->comment, r) : r;
}

static stmt
moved(struct loop *l, stmt s, const struct tt_expr *at)
{
  struct moving m = {l, at};
  return move_stores(&m,
                     tt_stmt_map_exprs(l->p->pass->arena, s, move_loads, &m));
}

/* ---- conditions --------------------------------------------------------- */

struct guarding {
  struct pass *pass;
  const struct tt_expr *cond;
};

/* Threads stay together: the condition stands inside of their loops. */
static stmt
guard(void *ctx, stmt s)
{
  const struct guarding *g = ctx;
  bool around = tt_gpu_has(s, TT_THREAD_X, TT_THREAD_Z);
  if (around)
    return tt_map_children(g->pass, s, guard, ctx);
  return tt_if(g->pass->arena, g->cond, s, NULL);
}

/* The statement where iteration k + ahead is one. */
static stmt
within(struct loop *l, const struct tile *t, stmt s)
{
  struct tt_arena *ar = l->p->pass->arena;
  const struct tt_var *k = l->s->var;
  const struct tt_expr *cond =
      tt_binary(ar, TT_LT, tt_var_ref(ar, k), tt_idx(ar, k->extent - t->ahead));
  struct guarding g = {l->p->pass, cond};
  return guard(&g, s);
}

static const struct tt_expr *
later(struct loop *l, const struct tile *t)
{
  struct tt_arena *ar = l->p->pass->arena;
  return tt_iadd(ar, tt_var_ref(ar, l->s->var), tt_idx(ar, t->ahead));
}

/* ---- registers on the way ---------------------------------------------- */

struct halving {
  struct loop *l;
  const struct tile *tile;
  bool store; /* from registers into the ring, else into registers */
  int next;   /* of the loop's registers */
  int n;      /* loops around */
  const struct tt_var *var[MAX_NEST];
  const struct tt_tensor *held; /* by the stores met now */
};

/* Registers for every point of the loops around. */
static const struct tt_tensor *
registers_of(struct halving *h)
{
  struct loop *l = h->l;
  if (h->next < l->registers.n)
    return l->registers.items[h->next++];
  struct tt_tensor *t = tt_pass_tensor(l->p->pass, h->tile->old);
  t->name = tt_arena_printf(l->p->pass->arena, "%s_next", t->name);
  t->staging.held = true;
  t->ndim = h->n;
  for (int i = 0; i < h->n; i++)
    t->dims[i] = h->var[i]->extent;
  TT_PUSH(l->registers, t);
  h->next++;
  return t;
}

static stmt
half_store(struct halving *h, stmt s)
{
  struct tt_arena *ar = h->l->p->pass->arena;
  const struct tt_expr *idx[MAX_NEST];
  const struct tt_tensor *t = h->held ? h->held : registers_of(h);
  for (int i = 0; i < h->n; i++)
    idx[i] = tt_var_ref(ar, h->var[i]);
  if (h->store)
    return tt_store(ar, s->tensor, s->nidx, s->idx, tt_load(ar, t, h->n, idx));
  return tt_store(ar, t, h->n, idx, s->value);
}

static bool
same_place(stmt a, stmt b)
{
  bool same = a->kind == TT_STORE && b->kind == TT_STORE &&
              a->tensor == b->tensor && a->nidx == b->nidx;
  for (int i = 0; same && i < a->nidx; i++)
    same = tt_expr_equal(a->idx[i], b->idx[i]);
  return same;
}

static stmt half(struct halving *h, stmt s);

/* The branches hold their values in the same registers. */
static stmt
half_if(struct halving *h, stmt s)
{
  struct tt_arena *ar = h->l->p->pass->arena;
  const struct tt_tensor *held = h->held;
  if (s->other && !h->held)
    h->held = registers_of(h);
  stmt a = half(h, s->body), b = s->other ? half(h, s->other) : NULL;
  h->held = held;
  return b && h->store && same_place(a, b) ? a : tt_if(ar, s->cond, a, b);
}

static stmt
half_loop(struct halving *h, stmt s)
{
  struct tt_arena *ar = h->l->p->pass->arena;
  bool serial = s->for_kind == TT_SERIAL && s->var->extent <= MAX_UNROLLED;
  bool held = h->held != NULL; /* has no dimension for this loop */
  const struct tt_tensor *outer = h->held;
  h->var[h->n++] = s->var;
  if (held)
    h->held = NULL;
  stmt body = half(h, s->body);
  h->held = outer;
  h->n--;
  return tt_for(ar, serial ? TT_UNROLL : s->for_kind, s->lanes, s->var, body);
}

/* The half of a copy: into registers, or from them. */
static stmt
half(struct halving *h, stmt s)
{
  struct tt_arena *ar = h->l->p->pass->arena;
  stmt r = s;
  switch (s->kind) {
  case TT_STORE:
    r = half_store(h, s);
    break;
  case TT_IF:
    r = half_if(h, s);
    break;
  case TT_FOR:
    r = half_loop(h, s);
    break;
  case TT_SEQ: {
    stmt *items = TT_ARRAY(ar, stmt, (size_t)s->nitems + 1);
    for (int i = 0; i < s->nitems; i++)
      items[i] = half(h, s->items[i]);
    r = tt_seq(ar, s->nitems, items);
    break;
  }
  case TT_PREFETCH:
  case TT_INTRIN:
  case TT_ALLOC:
    break; /* there are none in a copy */
  }
  return s->comment ? tt_comment(ar, s->comment, r) : r;
}

/* ---- the loop ----------------------------------------------------------- */

/* What one copy becomes. */
struct parts {
  TT_VEC(stmt) before, first, last;
};

static void
split_copy(struct loop *l, const struct tile *t, stmt s, struct parts *out)
{
  struct tt_arena *ar = l->p->pass->arena;
  stmt next = moved(l, s, later(l, t));
  if (!t->registers) {
    TT_PUSH(out->first, within(l, t, next));
    return;
  }
  struct halving load = {.l = l, .tile = t, .next = l->registers.n};
  struct halving store = load;
  store.store = true;
  TT_PUSH(out->first, within(l, t, half(&load, next)));
  stmt into = within(l, t, half(&store, next));
  struct tt_stmt *plain = tt_arena_dup(ar, into, sizeof *into);
  plain->comment = NULL;
  TT_PUSH(out->last, plain);
}

static const struct tile *
copied_by(const struct loop *l, stmt s)
{
  for (int i = 0; i < l->ntiles; i++)
    if (writes(s, l->tile[i].old))
      return &l->tile[i];
  return NULL;
}

/* The tiles that are copied before the loop, one after the other. */
static void
copy_first(struct loop *l, struct parts *out)
{
  struct tt_arena *ar = l->p->pass->arena;
  int64_t most = 0;
  for (int i = 0; i < l->ntiles; i++)
    most = l->tile[i].ahead > most ? l->tile[i].ahead : most;
  for (int64_t at = 0; at < most; at++)
    for (int i = 0; i < l->nitems; i++) {
      const struct tile *t = copied_by(l, l->item[i]);
      if (t && at < t->ahead)
        TT_PUSH(out->before, moved(l, l->item[i], tt_idx(ar, at)));
    }
}

static stmt
assemble(struct loop *l, struct parts *out)
{
  struct tt_arena *ar = l->p->pass->arena;
  for (int i = 0; i < l->nitems; i++)
    if (!copied_by(l, l->item[i]))
      TT_PUSH(out->first, moved(l, l->item[i], NULL));
  for (int i = 0; i < out->last.n; i++)
    TT_PUSH(out->first, out->last.items[i]);
  stmt body = tt_seq(ar, out->first.n, out->first.items);
  for (int i = l->registers.n - 1; i >= 0; i--)
    body = tt_alloc_stmt(ar, l->registers.items[i], body);
  for (int i = l->nallocs - 1; i >= 0; i--)
    if (!tile_of(l, l->alloc[i]->tensor))
      body = tt_alloc_stmt(ar, l->alloc[i]->tensor, body);
  stmt loop = tt_for(ar, l->s->for_kind, l->s->lanes, l->s->var, body);
  if (l->s->comment)
    loop = tt_comment(ar, l->s->comment, loop);
  TT_PUSH(out->before, loop);
  stmt r = tt_seq(ar, out->before.n, out->before.items);
  for (int i = l->ntiles - 1; i >= 0; i--)
    r = tt_alloc_stmt(ar, l->tile[i].ring, r);
  return r;
}

static stmt
copy_ahead(struct pipeline *p, stmt s)
{
  struct loop l = {.p = p, .s = s};
  struct parts out = {0};
  if (!find_tiles(&l))
    return s;
  copy_first(&l, &out);
  for (int i = 0; i < l.nitems; i++) {
    const struct tile *t = copied_by(&l, l.item[i]);
    if (t)
      split_copy(&l, t, l.item[i], &out);
  }
  s = assemble(&l, &out);
  free(out.before.items);
  free(out.first.items);
  free(out.last.items);
  free(l.registers.items);
  return s;
}

static stmt
visit(void *ctx, stmt s)
{
  struct pipeline *p = ctx;
  if (s->kind == TT_FOR && tt_is_thread(s->for_kind))
    return s;
  s = tt_map_children(p->pass, s, visit, p);
  bool loop = s->kind == TT_FOR && s->for_kind == TT_SERIAL &&
              s->var->extent > 1 && tt_gpu_has(s, TT_THREAD_X, TT_THREAD_Z);
  return loop ? copy_ahead(p, s) : s;
}

const struct tt_stmt *
tt_gpu_copy_ahead(struct pass *pass, const struct tt_stmt *s)
{
  struct accesses all = {0};
  struct pipeline p = {pass, &all};
  tt_collect_accesses(s, &all);
  s = visit(&p, s);
  free(all.items);
  return s;
}
