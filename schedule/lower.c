/* A schedule becomes loop nests with constant extents.
 *
 * Loops are entered from the outside in.  A split whose factor does not
 * divide is two pieces, each lowered as a nest of its own with constant
 * extents, so that no guard stands in a hot loop.  What hangs on a loop
 * (stages computed there, caches, accumulators) is emitted at the top of its
 * body.
 */
#include "config.h"

#include "schedule/lower.h"

#include "ir/passes.h"

#include <stdlib.h>

/* Pieces multiply: more statements than this are no kernel any more. */
#define MAX_STATEMENTS 20000
/* Locals up to this size may become registers, or else stand on the stack;
 * larger ones go to the workspace. */
#define MAX_REGISTER_BYTES 8192

typedef const struct tt_stmt *stmt;

static stmt nest(struct tt_inst *in, int i);

/* ---- entering loops ---------------------------------------------------- */

/* The outermost split above `loop` whose piece is not chosen, or -1. */
static int
undecided(const struct tt_inst *in, int loop)
{
  const struct tt_loop *l = &in->ss->loops[loop];
  switch (l->node) {
  case TT_AXIS:
    return -1;
  case TT_SPLIT_OUTER:
  case TT_SPLIT_INNER: {
    int q = undecided(in, l->parent);
    if (q >= 0)
      return q;
    return in->extent[loop] ? -1 : l->parent;
  }
  case TT_FUSED: {
    int q = undecided(in, l->fused_outer);
    return q >= 0 ? q : undecided(in, l->fused_inner);
  }
  }
  return -1;
}

static stmt
enter_piece(struct tt_inst *in, int loop, struct tt_how how, tt_inside_fn *fn,
            void *ctx, int split, int64_t lo, int64_t n, int64_t inner)
{
  int o = in->ss->loops[split].child[0], i = in->ss->loops[split].child[1];
  in->lo[o] = lo;
  in->extent[o] = n;
  in->extent[i] = inner;
  stmt st = tt_lw_enter(in, loop, how, fn, ctx);
  in->extent[o] = in->extent[i] = in->lo[o] = 0;
  return st;
}

/* Choose the pieces of a split, then go on. */
static stmt
enter_split(struct tt_inst *in, int loop, struct tt_how how, tt_inside_fn *fn,
            void *ctx, int split)
{
  int64_t e = tt_max_extent(in, split);
  const struct tt_loop *o = &in->ss->loops[in->ss->loops[split].child[0]];
  int64_t f = o->factor, full = e / f, rem = e % f;
  if (full == 0)
    return enter_piece(in, loop, how, fn, ctx, split, 0, 1, e);
  if (rem == 0)
    return enter_piece(in, loop, how, fn, ctx, split, 0, full, f);
  switch (o->tail) {
  case TT_TAIL_PEEL: {
    stmt parts[2];
    parts[0] = enter_piece(in, loop, how, fn, ctx, split, 0, full, f);
    parts[1] = enter_piece(in, loop, how, fn, ctx, split, full, 1, rem);
    return tt_seq(in->lw->arena, 2, parts);
  }
  case TT_TAIL_PAD:
  case TT_TAIL_GUARD: {
    in->guards[in->nguards++] = split;
    stmt st = enter_piece(in, loop, how, fn, ctx, split, 0, full + 1, f);
    in->nguards--;
    return st;
  }
  case TT_TAIL_SHIFT:
    return enter_piece(in, loop, how, fn, ctx, split, 0, full + 1, f);
  }
  return NULL;
}

/* A loop over lo..lo+n of a leaf whose pieces are chosen. */
static stmt
enter_leaf(struct tt_inst *in, int loop, struct tt_how how, tt_inside_fn *fn,
           void *ctx, int64_t lo, int64_t n)
{
  struct tt_lowering *lw = in->lw;
  in->val[loop] = tt_idx(lw->arena, lo);
  struct tt_var *v = NULL;
  if (n > 1 || tt_is_block(how.kind)) { /* (one block is a kernel, too) */
    v = TT_NEW(lw->arena, struct tt_var);
    v->name = in->ss->loops[loop].name;
    v->extent = n;
    v->id = lw->nvars++;
    in->val[loop] = tt_iadd(lw->arena, tt_var_ref(lw->arena, v), in->val[loop]);
  }
  stmt st = how.scheduled ? tt_lw_in_threads(in, loop, fn, ctx) : fn(in, ctx);
  in->val[loop] = NULL;
  return v ? tt_for(lw->arena, how.kind, how.lanes, v, st) : st;
}

stmt
tt_lw_enter(struct tt_inst *in, int loop, struct tt_how how, tt_inside_fn *fn,
            void *ctx)
{
  struct tt_lowering *lw = in->lw;
  int split = undecided(in, loop);
  if (split >= 0)
    return enter_split(in, loop, how, fn, ctx, split);
  const struct tt_loop *l = &in->ss->loops[loop];
  int64_t n = tt_max_extent(in, loop);
  if (how.scheduled) {
    how.kind = l->kind;
    how.lanes = l->lanes;
  }
  if (!how.scheduled || !l->reduce || l->kind != TT_VECTOR)
    return enter_leaf(in, loop, how, fn, ctx, 0, n);
  /* A vectorized reduction: what fills vectors, then the rest, which goes to
   * accumulators of its own. */
  int64_t full = n / l->lanes * l->lanes;
  stmt parts[2] = {NULL, NULL};
  if (full)
    parts[0] = enter_leaf(in, loop, how, fn, ctx, 0, full);
  if (n > full) {
    how.kind = TT_SERIAL;
    in->in_rest = true;
    parts[1] = enter_leaf(in, loop, how, fn, ctx, full, n - full);
    in->in_rest = false;
  }
  return tt_seq(lw->arena, 2, parts);
}

/* ---- expressions at a place -------------------------------------------- */

/* Index of a loop in a layout: its iteration counted over all pieces. */
const struct tt_expr *
tt_lw_layout_index(struct tt_inst *in, int loop)
{
  return tt_iadd(in->lw->arena, in->val[loop],
                 tt_idx(in->lw->arena, in->lo[loop]));
}

/* Iterations of a layout loop are told apart by tt_lw_layout_index() only when
 * it does not come from the outer half of a split that has two pieces yet to
 * come: the tail's piece starts that half later, which no half of it counts.
 * (An inner half starts at 0 in either piece.) */
bool
tt_lw_layout_distinct(const struct tt_inst *in, int loop)
{
  const struct tt_loop *l = &in->ss->loops[loop];
  if (l->node != TT_SPLIT_OUTER && l->node != TT_SPLIT_INNER)
    return l->node == TT_AXIS;
  for (int p = l->parent; in->ss->loops[p].node != TT_AXIS;) {
    const struct tt_loop *k = &in->ss->loops[p];
    if (k->node == TT_FUSED)
      return undecided(in, p) < 0;
    int64_t e = tt_max_extent(in, k->parent);
    if (k->node == TT_SPLIT_OUTER && !in->extent[p] &&
        k->tail == TT_TAIL_PEEL && e > k->factor && e % k->factor)
      return false;
    p = k->parent;
  }
  return true;
}

static const struct tt_expr *
use_cache(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  struct tt_place_values *p = ctx;
  struct tt_inst *in = p->in;
  for (int c = 0; c < in->ss->ncaches; c++) {
    const struct tt_cache_read *r = &in->ss->caches[c];
    /* The copy has the border: the condition around the read goes. */
    if (in->cache[c] && r->pad && tt_padding_value(ar, e, r->tensor))
      return e->a;
    if (!in->cache[c] || !r->nlayout || c == p->skip_cache ||
        e->kind != r->access->kind || !tt_expr_equal(e, r->access))
      continue;
    const struct tt_expr *idx[TT_MAX_DIMS];
    int d = 0;
    for (; d < r->nlayout && in->val[r->layout[d]]; d++)
      idx[d] = tt_lw_layout_index(in, r->layout[d]);
    /* (While another cache is filled, some of its loops may not run.) */
    if (d == r->nlayout)
      return tt_load(ar, in->cache[c], r->nlayout, idx);
  }
  return e;
}

static const struct tt_expr *
load_at(struct tt_arena *ar, const struct tt_expr *e,
        const struct tt_tensor *local, const struct tt_expr *const *base)
{
  const struct tt_expr *idx[TT_MAX_DIMS];
  for (int d = 0; d < e->nargs; d++)
    idx[d] = base[d] ? tt_isub(ar, e->args[d], base[d]) : e->args[d];
  return tt_load(ar, local, e->nargs, idx);
}

static const struct tt_expr *
use_binding(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  struct tt_place_values *p = ctx;
  struct tt_inst *in = p->in;
  if (e->kind == TT_VAR) {
    for (int i = 0; i < p->naxes; i++)
      if (p->axis[i] == e->var)
        return p->value[i];
    return e;
  }
  if (e->kind != TT_LOAD)
    return e;
  for (int c = 0; c < in->ss->ncaches; c++)
    if (in->cache[c] && !in->ss->caches[c].nlayout && c != p->skip_cache &&
        in->ss->caches[c].tensor == e->tensor)
      return load_at(ar, e, in->cache[c], in->cache_base[c]);
  for (const struct tt_binding *b = in->lw->bindings; b; b = b->outer)
    if (b->tensor == e->tensor)
      return load_at(ar, e, b->local, b->base);
  if (e->tensor->id >= 0 && in->lw->global[e->tensor->id])
    return tt_load(ar, in->lw->global[e->tensor->id], e->nargs, e->args);
  return e;
}

struct tt_place_values
tt_lw_place_of(struct tt_inst *in)
{
  const struct tt_stage *st = in->ss->stage;
  struct tt_place_values p = {.in = in, .skip_cache = -1};
  for (int i = 0; i < st->nspatial; i++) {
    p.axis[p.naxes] = st->spatial[i];
    p.value[p.naxes++] =
        tt_iadd(in->lw->arena, in->base[i], tt_loop_value(in, i));
  }
  for (int i = 0; i < st->nreduce; i++) {
    p.axis[p.naxes] = st->reduce[i];
    p.value[p.naxes++] = tt_loop_value(in, st->nspatial + i);
  }
  return p;
}

/* An expression of the stage, over its axes, at the place reached. */
const struct tt_expr *
tt_lw_at_place(struct tt_place_values *p, const struct tt_expr *e)
{
  struct tt_arena *ar = p->in->lw->arena;
  bool any = false;
  for (int c = 0; c < p->in->ss->ncaches; c++)
    any |= p->in->cache[c] != NULL;
  if (any)
    e = tt_expr_rewrite(ar, e, use_cache, p);
  return tt_expr_rewrite(ar, e, use_binding, p);
}

/* ---- statements at the innermost place --------------------------------- */

static bool
all_entered(const struct tt_inst *in, int loop)
{
  const struct tt_loop *l = &in->ss->loops[loop];
  if (l->child[0] < 0)
    return in->val[loop] != NULL;
  return all_entered(in, l->child[0]) && all_entered(in, l->child[1]);
}

/* (Of a reduction, where an intrin sums zeros with the rest.) */
static bool
is_padded(const struct tt_inst *in, int split)
{
  const struct tt_loop *l = &in->ss->loops[split];
  return in->ss->loops[l->child[0]].tail == TT_TAIL_PAD &&
         (!l->reduce || in->ss->intrin);
}

static const struct tt_expr *
guard_of(struct tt_inst *in, int split)
{
  struct tt_arena *ar = in->lw->arena;
  return tt_binary(ar, TT_LT, tt_loop_value(in, split),
                   tt_idx(ar, tt_max_extent(in, split)));
}

static stmt
guarded(struct tt_inst *in, stmt st, bool padded)
{
  if (++in->lw->nodes > MAX_STATEMENTS && !in->lw->error)
    in->lw->error = "the tails of its splits make too much code";
  for (int i = in->nguards - 1; i >= 0; i--) {
    int q = in->guards[i];
    if (all_entered(in, q) && !(padded && is_padded(in, q)))
      st = tt_if(in->lw->arena, guard_of(in, q), st, NULL);
  }
  return st;
}

/* Wrap in the guards of splits with a guarded tail. */
stmt
tt_lw_guarded(struct tt_inst *in, stmt st)
{
  return guarded(in, st, false);
}

bool
tt_lw_all_padded(const struct tt_inst *in)
{
  for (int i = 0; i < in->nguards; i++)
    if (!is_padded(in, in->guards[i]))
      return false;
  return true;
}

/* The same without those of padded tails. */
stmt
tt_lw_padded(struct tt_inst *in, stmt st)
{
  return guarded(in, st, true);
}

/* The value where padded tails have points of the stage, else the other. */
const struct tt_expr *
tt_lw_inside_padding(struct tt_inst *in, const struct tt_expr *value,
                     const struct tt_expr *other)
{
  const struct tt_expr *inside = NULL;
  for (int i = 0; i < in->nguards; i++) {
    int q = in->guards[i];
    if (!all_entered(in, q) || !is_padded(in, q))
      continue;
    const struct tt_expr *one = guard_of(in, q);
    inside = inside ? tt_binary(in->lw->arena, TT_AND, inside, one) : one;
  }
  return inside ? tt_select(in->lw->arena, inside, value, other) : value;
}

struct tt_tensor *
tt_lw_local_tensor(struct tt_lowering *lw, const char *name,
                   enum tt_dtype dtype, int ndim, const int64_t *dims)
{
  struct tt_tensor *t = TT_NEW(lw->arena, struct tt_tensor);
  t->name = name;
  t->dtype = dtype;
  t->role = TT_LOCAL;
  t->ndim = ndim;
  t->id = -1;
  int64_t bytes = tt_dtype_bytes(dtype);
  for (int d = 0; d < ndim; d++) {
    t->dims[d] = dims[d];
    bytes *= dims[d];
    if (bytes > INT64_C(1) << 40) {
      lw->error = "a cache is too large";
      bytes = 1;
    }
  }
  t->scope = bytes <= MAX_REGISTER_BYTES ? TT_REGISTER : TT_WORKSPACE;
  return t;
}

/* ---- what hangs on a loop ---------------------------------------------- */

static void
bind(struct tt_lowering *lw, const struct tt_tensor *tensor,
     const struct tt_tensor *local, int ndim, const struct tt_expr **base)
{
  struct tt_binding *b = TT_NEW(lw->arena, struct tt_binding);
  b->outer = lw->bindings;
  b->tensor = tensor;
  b->local = local;
  for (int d = 0; base && d < ndim; d++)
    b->base[d] = base[d];
  lw->bindings = b;
}

/* The statements at the top of a loop's body, and the locals that live for
 * the rest of it. */
struct top {
  TT_VEC(stmt) items;
  TT_VEC(const struct tt_tensor *) locals;
};

static void
compute_here(struct tt_inst *in, int stage, struct top *top)
{
  struct tt_lowering *lw = in->lw;
  const struct tt_stage_schedule *ps = &lw->s->stages[stage];
  const struct tt_tensor *out = ps->stage->out;
  struct tt_inst *p = TT_NEW(lw->arena, struct tt_inst);
  p->lw = lw;
  p->ss = ps;
  p->index = stage;
  tt_required_region(in, out, p->base, p->region);
  p->acc_vector = -1;
  p->target =
      tt_lw_local_tensor(lw, out->name, out->dtype, out->ndim, p->region);
  tt_lw_store_as(lw, p->target, ps->nlayout, ps->layout);
  TT_PUSH(top->locals, p->target);
  TT_PUSH(top->items, nest(p, 0));
  bind(lw, out, p->target, out->ndim, p->base);
}

struct filling {
  int cache;
  int position;
};

static stmt
fill_inside(struct tt_inst *in, void *ctx)
{
  struct tt_arena *ar = in->lw->arena;
  struct filling f = *(const struct filling *)ctx;
  const struct tt_cache_read *c = &in->ss->caches[f.cache];
  if (f.position < c->nlayout) {
    int loop = c->layout[f.position++];
    struct tt_how how = {.kind = TT_SERIAL};
    if (f.position == c->nlayout && c->lanes)
      how = (struct tt_how){.kind = TT_VECTOR, .lanes = c->lanes};
    return tt_lw_enter(in, loop, how, fill_inside, &f);
  }
  struct tt_place_values p = tt_lw_place_of(in);
  p.skip_cache = f.cache;
  const struct tt_expr *idx[TT_MAX_DIMS];
  for (int d = 0; d < c->nlayout; d++)
    idx[d] = tt_lw_layout_index(in, c->layout[d]);
  const struct tt_expr *value = tt_lw_inside_padding(
      in, tt_lw_at_place(&p, c->access), tt_zero(ar, c->access->type.dtype));
  return tt_lw_padded(in,
                      tt_store(ar, in->cache[f.cache], c->nlayout, idx, value));
}

/* `value` where `index` is inside the tensor, else the border's. */
static const struct tt_expr *
with_border(struct tt_lowering *lw, const struct tt_tensor *t,
            const struct tt_expr *const *index, const struct tt_expr *value,
            const struct tt_expr *border)
{
  struct tt_arena *ar = lw->arena;
  const struct tt_expr *inside = NULL;
  for (int d = 0; d < t->ndim; d++) {
    const struct tt_expr *c[2] = {
        tt_binary(ar, TT_GE, index[d], tt_idx(ar, 0)),
        tt_binary(ar, TT_LT, index[d], tt_idx(ar, t->dims[d]))};
    for (int i = 0; i < 2; i++)
      if (tt_prove(c[i], NULL) != 1)
        inside = inside ? tt_binary(ar, TT_AND, inside, c[i]) : c[i];
  }
  return inside ? tt_select(ar, inside, value, border) : value;
}

/* One copy of a region: dimension d from `lo` over `n` (lo is not 0 for the
 * dimension that is cut alone). */
struct copying {
  struct tt_inst *in;
  int cache;
  int norder, order[TT_MAX_DIMS]; /* dimensions, outermost loop first */
  int cut;                        /* copied in blocks, or -1 */
  int64_t block, lo, n; /* of the cut dimension: a block, the part copied */
};

static const struct tt_var *
new_var(struct tt_lowering *lw, const char *name, int64_t extent)
{
  struct tt_var *v = TT_NEW(lw->arena, struct tt_var);
  *v = (struct tt_var){.name = name, .extent = extent, .id = lw->nvars++};
  return v;
}

static const struct tt_expr *
counted(struct tt_arena *ar, const struct tt_var *v)
{
  return v->extent == 1 ? tt_idx(ar, 0) : tt_var_ref(ar, v);
}

static stmt
copy_part(const struct copying *k)
{
  struct tt_inst *in = k->in;
  struct tt_lowering *lw = in->lw;
  struct tt_arena *ar = lw->arena;
  const struct tt_cache_read *c = &in->ss->caches[k->cache];
  const struct tt_tensor *local = in->cache[k->cache], *t = c->tensor;
  const struct tt_expr *to[TT_MAX_DIMS], *from[TT_MAX_DIMS];
  const struct tt_var *vars[TT_MAX_DIMS], *blocks = NULL;
  for (int d = 0; d < t->ndim; d++) {
    bool cut = d == k->cut;
    vars[d] = new_var(lw, tt_arena_printf(ar, "i%d", d),
                      cut ? k->block : local->dims[d]);
    to[d] = counted(ar, vars[d]);
    if (cut) {
      blocks = new_var(lw, "block", k->n / k->block);
      to[d] = tt_iadd(ar, tt_iadd(ar, tt_idx(ar, k->lo), to[d]),
                      tt_imul(ar, counted(ar, blocks), k->block));
    }
    from[d] = tt_iadd(ar, in->cache_base[k->cache][d], to[d]);
  }
  struct tt_place_values p = {.in = in, .skip_cache = k->cache};
  const struct tt_expr *value =
      tt_lw_at_place(&p, tt_load(ar, t, t->ndim, from));
  if (c->pad)
    value = with_border(lw, t, from, value, c->pad);
  stmt st = tt_lw_guarded(in, tt_store(ar, local, t->ndim, to, value));
  for (int i = k->norder - 1; i >= 0; i--) {
    const struct tt_var *v = vars[k->order[i]];
    bool vector = i == k->norder - 1 && c->lanes;
    if (v->extent > 1)
      st = tt_for(ar, vector ? TT_VECTOR : TT_SERIAL, vector ? c->lanes : 0, v,
                  st);
    if (i == k->norder - 2 && blocks && blocks->extent > 1)
      st = tt_for(ar, TT_SERIAL, 0, blocks, st);
  }
  return st;
}

/* Copy the region of a tensor, dimension by dimension.  In another order, as
 * vectors: in blocks of a vector along the last one, so that the lines that
 * each lane is read from serve for the points beside it, too. */
static stmt
copy_region(struct tt_inst *in, int cache)
{
  const struct tt_cache_read *c = &in->ss->caches[cache];
  const struct tt_tensor *local = in->cache[cache];
  struct copying k = {in, cache, local->ndim, {0}, -1, 0, 0, 0};
  for (int d = 0; d < k.norder; d++)
    k.order[d] = c->ndims ? c->dims[d] : d;
  int last = k.norder ? k.order[k.norder - 1] : 0;
  if (!c->ndims || k.norder < 2 || !c->lanes || local->dims[last] < c->lanes)
    return copy_part(&k);
  k.cut = last;
  k.block = c->lanes;
  k.n = local->dims[last] / k.block * k.block;
  stmt parts[2] = {copy_part(&k), NULL};
  k.lo = k.n;
  k.n = k.block = local->dims[last] - k.lo;
  if (k.n)
    parts[1] = copy_part(&k);
  return tt_seq(in->lw->arena, 2, parts);
}

struct fixity {
  const bool *fixed;
  bool all;
};

static void
check_fixed(void *ctx, const struct tt_expr *e)
{
  struct fixity *f = ctx;
  if (e->kind == TT_LOAD)
    f->all = f->all && e->tensor->id >= 0 && f->fixed[e->tensor->id];
}

/* A copy at root of what is the same on every call is made once. */
static bool
fills_ahead(const struct tt_inst *in, const struct tt_cache_read *c)
{
  if (!in->root || c->loop != TT_OUTSIDE || !in->lw->fixed)
    return false;
  struct fixity f = {in->lw->fixed, in->lw->fixed[c->tensor->id]};
  if (c->access)
    tt_expr_visit(c->access, check_fixed, &f);
  return f.all;
}

static void
fill_here(struct tt_inst *in, int cache, struct top *top)
{
  struct tt_lowering *lw = in->lw;
  const struct tt_cache_read *c = &in->ss->caches[cache];
  int64_t dims[TT_MAX_DIMS];
  int ndim = c->nlayout ? c->nlayout : c->tensor->ndim;
  if (c->nlayout)
    for (int d = 0; d < ndim; d++) {
      /* (lo: the loop may stand inside its inner half, its piece chosen) */
      dims[d] = in->lo[c->layout[d]] + tt_max_extent(in, c->layout[d]);
      if (!tt_lw_layout_distinct(in, c->layout[d]))
        lw->error = "a cache is laid out by a loop whose split leaves a tail "
                    "further out";
    }
  else if (!tt_own_region(in, c->tensor, !c->pad, in->cache_base[cache], dims))
    lw->error = "a padded copy has no constant bounds, or is of a part";
  if (lw->error)
    return;
  struct tt_tensor *local =
      tt_lw_local_tensor(lw, c->name, c->tensor->dtype, ndim, dims);
  /* A plain copy holds indices as good as the original's. */
  if (!c->pad && (!c->access || c->access->kind == TT_LOAD)) {
    local->has_range = c->tensor->has_range;
    local->lo = c->tensor->lo;
    local->hi = c->tensor->hi;
  }
  local->staging = c->staging;
  local->staging.lanes = c->lanes ? c->lanes : 1;
  in->cache[cache] = local;
  struct filling f = {cache, 0};
  bool ahead = fills_ahead(in, c);
  const struct tt_tensor **global = lw->global;
  if (ahead)
    lw->global = lw->prepare_global;
  stmt st = c->nlayout ? fill_inside(in, &f) : copy_region(in, cache);
  lw->global = global;
  st = tt_comment(
      lw->arena, tt_arena_printf(lw->arena, "copy of %s", c->tensor->name), st);
  if (ahead) {
    local->role = TT_PREPARED;
    TT_PUSH(lw->ahead, local);
    TT_PUSH(lw->ahead_fills, st);
  } else {
    TT_PUSH(top->locals, in->cache[cache]);
    TT_PUSH(top->items, st);
  }
  tt_lw_store_as(lw, local, c->ndims, c->dims);
}

static stmt
nest_inside(struct tt_inst *in, void *ctx)
{
  return nest(in, *(const int *)ctx);
}

static stmt
update_inside(struct tt_inst *in, void *ctx)
{
  (void)ctx;
  return tt_lw_update(in);
}

/* The loops from position i on. */
stmt
tt_lw_rest(struct tt_inst *in, int i)
{
  if (in->lw->error)
    return NULL;
  if (in->ss->intrin && i == tt_tensor_position(in->ss)) {
    if (tt_lw_whole_tiles(in))
      return tt_lw_instruction(in, TT_INTRIN_EMIT, update_inside, NULL);
    if (in->registers)
      in->lw->error =
          tt_arena_printf(in->lw->arena, "a part of %s is no whole tile of %s",
                          in->ss->stage->out->name, in->ss->intrin->name);
  }
  if (i == in->ss->norder)
    return tt_lw_update(in);
  int next = i + 1;
  return tt_lw_enter(in, in->ss->order[i], (struct tt_how){.scheduled = true},
                     nest_inside, &next);
}

static int
first_reduction(const struct tt_stage_schedule *ss)
{
  for (int i = 0; i < ss->norder; i++)
    if (ss->loops[ss->order[i]].reduce)
      return i;
  return -1;
}

/* The body of the loop before position i: what hangs on it, then the rest. */
static stmt
nest(struct tt_inst *in, int i)
{
  struct tt_lowering *lw = in->lw;
  const struct tt_stage_schedule *ss = in->ss;
  int at = i ? ss->order[i - 1] : TT_OUTSIDE;
  struct tt_binding *bindings = lw->bindings;
  struct tt_limit *limits = lw->limits;
  struct top top = {0};
  for (int p = 0; p < in->index && ss->attached; p++)
    if (lw->s->stages[p].place == TT_AT &&
        lw->s->stages[p].at_stage == in->index &&
        lw->s->stages[p].at_loop == at)
      compute_here(in, p, &top);
  for (int c = 0; c < ss->ncaches; c++)
    /* (Inlining may have taken the reads of it away.) */
    if (ss->caches[c].loop == at && tt_stage_reads(ss, ss->caches[c].tensor))
      fill_here(in, c, &top);
  for (int f = 0; f < ss->nprefetches && !lw->error; f++)
    if (ss->prefetches[f].loop == at)
      TT_PUSH(top.items, tt_lw_prefetch(in, &ss->prefetches[f]));
  if (ss->cache_write == at) {
    TT_PUSH(top.items, tt_lw_accumulate(in, i));
  } else {
    if (ss->cache_write == TT_NO_CACHE && ss->stage->red != TT_RED_NONE &&
        i == first_reduction(ss))
      TT_PUSH(top.items, tt_lw_init_target(in, i));
    TT_PUSH(top.items, tt_lw_rest(in, i));
  }
  stmt st = tt_seq(lw->arena, top.items.n, top.items.items);
  for (int l = top.locals.n - 1; l >= 0; l--)
    st = tt_alloc_stmt(lw->arena, top.locals.items[l], st);
  for (int c = 0; c < ss->ncaches; c++)
    if (ss->caches[c].loop == at)
      in->cache[c] = NULL;
  free(top.items.items);
  free(top.locals.items);
  lw->bindings = bindings;
  lw->limits = limits;
  return st;
}

const struct tt_stmt *
tt_lower_stage(struct tt_lowering *lw, int stage,
               const struct tt_tensor *target)
{
  struct tt_inst *in = TT_NEW(lw->arena, struct tt_inst);
  const struct tt_stage_schedule *ss = &lw->s->stages[stage];
  in->lw = lw;
  in->ss = ss;
  in->index = stage;
  in->root = true;
  in->target = target;
  in->acc_vector = -1;
  for (int d = 0; d < target->ndim; d++) {
    in->base[d] = tt_idx(lw->arena, 0);
    in->region[d] = target->dims[d];
  }
  return nest(in, 0);
}
