/* Tensors stored with their dimensions in another order.
 *
 * Lowering speaks of every tensor by the dimensions that the program gives
 * it.  At the end the accesses of those that a schedule lays out otherwise
 * are rewritten, all in one walk.
 */
#include "config.h"

#include "schedule/lower.h"

typedef const struct tt_stmt *stmt;

void
tt_lw_store_as(struct tt_lowering *lw, const struct tt_tensor *t, int n,
               const int *dims)
{
  if (!n)
    return;
  struct tt_tensor *stored = tt_arena_dup(lw->arena, t, sizeof *t);
  for (int d = 0; d < n; d++)
    stored->dims[d] = t->dims[dims[d]];
  TT_PUSH(lw->stored, ((struct tt_stored){t, stored, dims}));
}

static const struct tt_stored *
find(const struct tt_lowering *lw, const struct tt_tensor *t)
{
  for (int i = 0; i < lw->stored.n; i++)
    if (lw->stored.items[i].tensor == t)
      return &lw->stored.items[i];
  return NULL;
}

const struct tt_tensor *
tt_lw_stored(const struct tt_lowering *lw, const struct tt_tensor *t)
{
  const struct tt_stored *s = find(lw, t);
  return s ? s->stored : t;
}

static void
permute(const struct tt_stored *s, int n, const struct tt_expr *const *idx,
        const struct tt_expr **out)
{
  for (int d = 0; d < n; d++)
    out[d] = idx[s->dims[d]];
}

static const struct tt_expr *
permute_load(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  if (e->kind != TT_LOAD)
    return e;
  const struct tt_stored *s = find(ctx, e->tensor);
  if (!s)
    return e;
  const struct tt_expr *idx[TT_MAX_DIMS];
  permute(s, e->nargs, e->args, idx);
  return tt_load(ar, s->stored, e->nargs, idx);
}

static const struct tt_expr *
permute_loads(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  return tt_expr_rewrite(ar, e, permute_load, ctx);
}

static stmt permute_stores(const struct tt_lowering *lw, stmt s);

static stmt
permute_items(const struct tt_lowering *lw, stmt s)
{
  stmt *items = TT_ARRAY(lw->arena, stmt, (size_t)s->nitems + 1);
  for (int i = 0; i < s->nitems; i++)
    items[i] = permute_stores(lw, s->items[i]);
  return tt_seq(lw->arena, s->nitems, items);
}

static stmt
permute_stores(const struct tt_lowering *lw, stmt s)
{
  struct tt_arena *ar = lw->arena;
  stmt r = s;
  switch (s->kind) {
  case TT_FOR:
    r = tt_for(ar, s->for_kind, s->lanes, s->var, permute_stores(lw, s->body));
    break;
  case TT_IF:
    r = tt_if(ar, s->cond, permute_stores(lw, s->body),
              s->other ? permute_stores(lw, s->other) : NULL);
    break;
  case TT_SEQ:
    r = permute_items(lw, s);
    break;
  case TT_ALLOC:
    r = tt_alloc_stmt(ar, tt_lw_stored(lw, s->tensor),
                      permute_stores(lw, s->body));
    break;
  case TT_INTRIN:
    r = tt_instruction(ar, s->intrin, s->op, s->vars, s->nidx, s->idx,
                       permute_stores(lw, s->body));
    break;
  case TT_STORE:
  case TT_PREFETCH: {
    const struct tt_stored *t = find(lw, s->tensor);
    const struct tt_expr *idx[TT_MAX_DIMS];
    if (!t)
      return s;
    permute(t, s->nidx, s->idx, idx);
    r = s->kind == TT_STORE ? tt_store(ar, t->stored, s->nidx, idx, s->value)
                            : tt_prefetch(ar, t->stored, s->nidx, idx);
    break;
  }
  }
  return s->comment ? tt_comment(ar, s->comment, r) : r;
}

stmt
tt_lw_relayout(const struct tt_lowering *lw, stmt s)
{
  if (!lw->stored.n)
    return s;
  s = tt_stmt_map_exprs(lw->arena, s, permute_loads, (void *)lw);
  return permute_stores(lw, s);
}
