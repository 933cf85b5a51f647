/* A loop nest becomes kernels of a GPU: which statements are one, and whose
 * its locals are.
 *
 * Invariant: run in the order of its text a kernel computes what the nest
 * does.
 */
#include "config.h"

#include "codegen/gpu.h"

#include <stdlib.h>

enum {
  MAX_THREADS = 1024,     /* of a block */
  MAX_PRIVATE = 16 << 10, /* bytes of one local of a thread */
  MAX_REGISTER = 4 << 10  /* bytes of one that may become registers */
};

typedef const struct tt_stmt *stmt;

struct gpu {
  struct pass *pass;
  struct tt_arena *arena;
  struct gpu_kernel *k; /* being made */
  TT_VEC(struct gpu_kernel) kernels;
  TT_VEC(const struct tt_tensor *) locals;
};

int
tt_gpu_dim(enum tt_for_kind kind)
{
  return ((int)kind - (int)TT_BLOCK_X) % TT_GPU_DIMS;
}

struct search {
  enum tt_for_kind from, to;
  bool found;
};

static void
look(void *ctx, stmt s)
{
  struct search *f = ctx;
  f->found |=
      s->kind == TT_FOR && s->for_kind >= f->from && s->for_kind <= f->to;
}

bool
tt_gpu_has(stmt s, enum tt_for_kind from, enum tt_for_kind to)
{
  struct search f = {from, to, false};
  tt_walk(s, look, &f);
  return f.found;
}

static bool
has_threads(stmt s)
{
  return tt_gpu_has(s, TT_THREAD_X, TT_THREAD_Z);
}

static bool
is_bound(stmt s)
{
  return s->kind == TT_FOR &&
         (tt_is_block(s->for_kind) || tt_is_thread(s->for_kind));
}

static int64_t
bytes_of(const struct tt_tensor *t)
{
  return tt_tensor_size(t) * tt_dtype_bytes(t->dtype);
}

/* ---- other tensors ----------------------------------------------------- */

/* Accesses of a tensor go to another one, without some of its dimensions. */
struct change {
  struct gpu *g;
  const struct tt_tensor *old, *new;
  bool drop[TT_MAX_DIMS];
};

static int
keep_indices(const struct change *c, int n, const struct tt_expr *const *idx,
             const struct tt_expr **kept)
{
  int k = 0;
  for (int i = 0; i < n; i++)
    if (!c->drop[i])
      kept[k++] = idx[i];
  return k;
}

static const struct tt_expr *
change_load(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct change *c = ctx;
  const struct tt_expr *idx[TT_MAX_DIMS];
  if (e->kind != TT_LOAD || e->tensor != c->old)
    return e;
  int n = keep_indices(c, e->nargs, e->args, idx);
  return tt_load(ar, c->new, n, idx);
}

static const struct tt_expr *
change_expr(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  return tt_expr_rewrite(ar, e, change_load, ctx);
}

static stmt
change_stores(void *ctx, stmt s)
{
  const struct change *c = ctx;
  const struct tt_expr *idx[TT_MAX_DIMS];
  if (s->kind != TT_STORE)
    return tt_map_children(c->g->pass, s, change_stores, ctx);
  if (s->tensor != c->old)
    return s;
  int n = keep_indices(c, s->nidx, s->idx, idx);
  stmt r = tt_store(c->g->arena, c->new, n, idx, s->value);
  return s->comment ? tt_comment(c->g->arena, s->comment, r) : r;
}

static stmt
change_tensor(struct change *c, stmt s)
{
  return change_stores(c, tt_stmt_map_exprs(c->g->arena, s, change_expr, c));
}

/* ---- whose a local is -------------------------------------------------- */

struct uses {
  const struct gpu *g;
  const struct tt_tensor *tensor;
  const struct tt_var *thread[TT_GPU_DIMS]; /* of the loops around */
  unsigned could[TT_GPU_DIMS]; /* dimensions that this index always is */
};

/* The threads of the first dimension share the registers of an intrin that
 * they execute together. */
static bool
is_together(const struct tt_tensor *t, int dim)
{
  return dim == 0 && t->fragment && t->fragment->threads > 1;
}

static void
note_use(struct uses *u, int n, const struct tt_expr *const *idx)
{
  for (int d = 0; d < TT_GPU_DIMS; d++) {
    unsigned here = 0;
    if (is_together(u->tensor, d))
      continue;
    for (int i = 0; i < n && u->thread[d]; i++)
      if (idx[i]->kind == TT_VAR && idx[i]->var == u->thread[d])
        here |= 1u << i;
    u->could[d] &= here;
  }
}

static void
note_load(void *ctx, const struct tt_expr *e)
{
  struct uses *u = ctx;
  if (e->kind == TT_LOAD && e->tensor == u->tensor)
    note_use(u, e->nargs, e->args);
}

static void
note_loads(void *ctx, const struct tt_expr *e)
{
  tt_expr_visit(e, note_load, ctx);
}

static void
note_uses(struct uses *u, stmt s)
{
  tt_own_exprs(s, note_loads, u);
  switch (s->kind) {
  case TT_STORE:
    if (s->tensor == u->tensor)
      note_use(u, s->nidx, s->idx);
    break;
  case TT_PREFETCH:
    break;
  case TT_SEQ:
    for (int i = 0; i < s->nitems; i++)
      note_uses(u, s->items[i]);
    break;
  case TT_IF:
    note_uses(u, s->body);
    if (s->other)
      note_uses(u, s->other);
    break;
  case TT_FOR:
    if (tt_is_thread(s->for_kind))
      u->thread[tt_gpu_dim(s->for_kind)] = s->var;
    note_uses(u, s->body);
    if (tt_is_thread(s->for_kind))
      u->thread[tt_gpu_dim(s->for_kind)] = NULL;
    break;
  case TT_ALLOC:
  case TT_INTRIN:
    note_uses(u, s->body);
    break;
  }
}

/* Does every thread use elements of its own alone?  Then, which dimensions
 * tell the threads apart. */
static bool
is_private(struct gpu *g, stmt alloc, bool *drop)
{
  struct uses u = {.g = g, .tensor = alloc->tensor};
  for (int d = 0; d < TT_GPU_DIMS; d++)
    u.could[d] = (1u << TT_MAX_DIMS) - 1;
  note_uses(&u, alloc->body);
  for (int d = 0; d < TT_GPU_DIMS; d++)
    if (g->k->block[d] > 1 && !u.could[d])
      return false;
  for (int d = 0; d < TT_GPU_DIMS; d++) {
    if (g->k->block[d] == 1 || is_together(alloc->tensor, d))
      continue;
    int p = __builtin_ctz(u.could[d]);
    if (p < alloc->tensor->ndim)
      drop[p] = true;
  }
  return true;
}

/* (Registers of an intrin are spread over the threads that execute it.) */
static void
check_size(struct gpu *g, const struct tt_tensor *t)
{
  int64_t bytes = bytes_of(t);
  if (t->fragment)
    bytes /= t->fragment->threads;
  if (bytes > MAX_PRIVATE)
    g->pass->error = tt_arena_printf(
        g->arena, "%s takes %lld bytes of each thread of a GPU; at most %d",
        t->name, (long long)bytes, MAX_PRIVATE);
}

static stmt settle(void *ctx, stmt s);

static stmt
settle_alloc(struct gpu *g, stmt s)
{
  struct change c = {.g = g, .old = s->tensor};
  struct tt_tensor *t = tt_pass_tensor(g->pass, s->tensor);
  if (is_private(g, s, c.drop)) {
    t->ndim = 0;
    for (int d = 0; d < s->tensor->ndim; d++)
      if (!c.drop[d])
        t->dims[t->ndim++] = s->tensor->dims[d];
    t->scope = bytes_of(t) <= MAX_REGISTER ? TT_REGISTER : TT_STACK;
    check_size(g, t);
  } else if (t->fragment) {
    g->pass->error = tt_arena_printf(
        g->arena, "%s, registers of %s, would be shared by threads of a GPU",
        t->name, t->fragment->name);
  } else {
    t->scope = TT_SHARED;
  }
  c.new = t;
  if (g->pass->error)
    return s;
  stmt r = tt_alloc_stmt(g->arena, t, settle(g, change_tensor(&c, s->body)));
  return s->comment ? tt_comment(g->arena, s->comment, r) : r;
}

/* Locals inside of thread loops are each thread's own. */
static stmt
settle_inner(void *ctx, stmt s)
{
  struct gpu *g = ctx;
  if (s->kind == TT_ALLOC)
    check_size(g, s->tensor);
  if (g->pass->error || s->kind != TT_ALLOC || s->tensor->scope != TT_WORKSPACE)
    return tt_map_children(g->pass, s, settle_inner, g);
  struct tt_tensor *t = tt_pass_tensor(g->pass, s->tensor);
  struct change c = {.g = g, .old = s->tensor, .new = t};
  t->scope = TT_STACK;
  return tt_alloc_stmt(g->arena, t,
                       settle_inner(g, change_tensor(&c, s->body)));
}

static stmt
settle(void *ctx, stmt s)
{
  struct gpu *g = ctx;
  if (g->pass->error)
    return s;
  if (s->kind == TT_ALLOC)
    return settle_alloc(g, s);
  if (s->kind == TT_FOR && tt_is_thread(s->for_kind))
    return settle_inner(g, s);
  return tt_map_children(g->pass, s, settle, g);
}

/* ---- kernels ----------------------------------------------------------- */

static void
measure(void *ctx, stmt s)
{
  struct gpu_kernel *k = ctx;
  if (!is_bound(s))
    return;
  int64_t *n = tt_is_block(s->for_kind) ? k->grid : k->block;
  int d = tt_gpu_dim(s->for_kind);
  n[d] = s->var->extent > n[d] ? s->var->extent : n[d];
}

/* Instructions of several threads take all of a block's first dimension. */
static void
check_together(void *ctx, stmt s)
{
  struct gpu *g = ctx;
  if (s->kind != TT_INTRIN || s->intrin->threads == 1 ||
      g->k->block[0] == s->intrin->threads)
    return;
  g->pass->error = tt_arena_printf(
      g->arena,
      "%d threads of a GPU execute %s together, and its blocks have "
      "%lld in the first dimension",
      s->intrin->threads, s->intrin->name, (long long)g->k->block[0]);
}

static void
add_kernel(struct gpu *g, stmt s, const char *comment)
{
  struct gpu_kernel k = {comment, {1, 1, 1}, {1, 1, 1}, NULL};
  bool threads = has_threads(s);
  bool blocks = tt_gpu_has(s, TT_BLOCK_X, TT_BLOCK_Z);
  g->k = &k;
  tt_walk(s, measure, &k);
  if (!threads)
    k.block[0] = TT_GPU_THREADS;
  const struct tt_stmt *shared = NULL;
  if (!threads && !blocks)
    shared = tt_gpu_share_blocks(g->pass, s);
  s = shared ? shared
             : tt_gpu_copy_ahead(g->pass, tt_gpu_share_threads(g->pass, &k, s));
  tt_walk(s, measure, &k);
  s = settle(g, s);
  tt_walk(s, check_together, g);
  if (k.block[0] * k.block[1] * k.block[2] > MAX_THREADS)
    g->pass->error = tt_arena_printf(
        g->arena,
        "a block of a GPU would have %lld by %lld by %lld threads; at most %d",
        (long long)k.block[0], (long long)k.block[1], (long long)k.block[2],
        MAX_THREADS);
  k.body = s;
  g->k = NULL;
  TT_PUSH(g->kernels, k);
}

/* Does it pay to keep the whole statement in one block? */
static bool
is_small(stmt alloc)
{
  return !tt_gpu_has(alloc, TT_BLOCK_X, TT_BLOCK_Z) &&
         bytes_of(alloc->tensor) <= TT_GPU_SHARED / 4;
}

static void
add_root(struct gpu *g, stmt s, const char *comment)
{
  if (g->pass->error)
    return;
  comment = s->comment ? s->comment : comment;
  if (s->kind == TT_SEQ) {
    for (int i = 0; i < s->nitems; i++)
      add_root(g, s->items[i], comment);
  } else if (s->kind == TT_ALLOC && !is_small(s)) {
    struct tt_tensor *t = tt_pass_tensor(g->pass, s->tensor);
    struct change c = {.g = g, .old = s->tensor, .new = t};
    t->role = TT_TEMP;
    t->scope = TT_WORKSPACE;
    TT_PUSH(g->locals, t);
    add_root(g, change_tensor(&c, s->body), comment);
  } else {
    add_kernel(g, s, comment);
  }
}

/* A GPU has no use for them: other threads run while one waits. */
static stmt
without_prefetch(void *ctx, stmt s)
{
  struct gpu *g = ctx;
  return s->kind == TT_PREFETCH
             ? tt_seq(g->arena, 0, NULL)
             : tt_map_children(g->pass, s, without_prefetch, g);
}

static void
count_shared(void *ctx, stmt s)
{
  if (s->kind == TT_ALLOC && s->tensor->scope == TT_SHARED)
    *(int64_t *)ctx += (bytes_of(s->tensor) + 15) / 16 * 16;
}

int64_t
tt_gpu_shared(stmt s)
{
  int64_t bytes = 0;
  tt_walk(s, count_shared, &bytes);
  return bytes;
}

const char *
tt_gpu_kernels(struct pass *pass, const struct tt_stmt *s, struct gpu_nest *out)
{
  struct gpu g = {.pass = pass, .arena = pass->arena};
  add_root(&g, without_prefetch(&g, s), NULL);
  out->n = g.kernels.n;
  out->kernels = tt_arena_dup(pass->arena, g.kernels.items,
                              (size_t)g.kernels.n * sizeof *out->kernels);
  out->nlocals = g.locals.n;
  out->locals = tt_arena_dup(pass->arena, g.locals.items,
                             (size_t)g.locals.n * sizeof *out->locals);
  free(g.kernels.items);
  free(g.locals.items);
  return pass->error;
}

/* ---- completion -------------------------------------------------------- */

struct completion {
  struct pass *pass;
  const struct gpu_kernel *k;
  bool bound[2 * TT_GPU_DIMS]; /* loops around: blocks, then threads */
};

static int64_t
extent_of(const struct completion *c, int i)
{
  return i < TT_GPU_DIMS ? c->k->grid[i] : c->k->block[i - TT_GPU_DIMS];
}

static bool
inside_threads(const struct completion *c)
{
  return c->bound[TT_GPU_DIMS] || c->bound[TT_GPU_DIMS + 1] ||
         c->bound[TT_GPU_DIMS + 2];
}

static stmt complete(void *ctx, stmt s);

static stmt
complete_inside(struct completion *c, stmt s)
{
  if (!is_bound(s))
    return tt_map_children(c->pass, s, complete, c);
  int i = (int)s->for_kind - (int)TT_BLOCK_X;
  c->bound[i] = true;
  s = tt_map_children(c->pass, s, complete, c);
  c->bound[i] = false;
  return s;
}

static void
find_global(void *ctx, stmt s)
{
  *(bool *)ctx |= s->kind == TT_STORE && s->tensor->role != TT_LOCAL;
}

/* Where no loop of an index is around or inside, one is put around: of
 * threads, around a phase as a whole; of blocks, around what all of them can
 * see: each fills its own memory itself. */
static stmt
complete(void *ctx, stmt s)
{
  struct completion *c = ctx;
  bool phase = inside_threads(c) || !has_threads(s) ||
               (s->kind == TT_FOR && tt_is_thread(s->for_kind));
  bool global = false;
  int added[2 * TT_GPU_DIMS], n = 0;
  if (s->kind == TT_SEQ && s->nitems == 0)
    return s;
  tt_walk(s, find_global, &global);
  for (int i = 2 * TT_GPU_DIMS - 1; i >= 0; i--) {
    enum tt_for_kind kind = (enum tt_for_kind)(TT_BLOCK_X + i);
    if (extent_of(c, i) == 1 || c->bound[i] ||
        !(i < TT_GPU_DIMS ? global : phase) || tt_gpu_has(s, kind, kind))
      continue;
    c->bound[i] = true;
    added[n++] = i;
  }
  s = complete_inside(c, s);
  for (int j = 0; j < n; j++) {
    c->bound[added[j]] = false;
    s = tt_for(c->pass->arena, (enum tt_for_kind)(TT_BLOCK_X + added[j]), 0,
               tt_pass_var(c->pass, "one", 1), s);
  }
  return s;
}

const struct tt_stmt *
tt_gpu_complete(struct pass *pass, const struct gpu_kernel *k)
{
  struct completion c = {.pass = pass, .k = k};
  return complete(&c, k->body);
}
