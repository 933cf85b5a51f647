/* Statements of loop nests: constructors and mapping over expressions.
 *
 * Like expressions they are immutable and may share parts.  A TT_SEQ never
 * directly contains another one, unless that has a comment to keep.
 */
#include "config.h"

#include "ir/ir.h"

#include <assert.h>

static struct tt_stmt *
node(struct tt_arena *arena, enum tt_stmt_kind kind)
{
  struct tt_stmt *s = TT_NEW(arena, struct tt_stmt);
  s->kind = kind;
  s->lanes = 1;
  return s;
}

bool
tt_is_block(enum tt_for_kind kind)
{
  return kind == TT_BLOCK_X || kind == TT_BLOCK_Y || kind == TT_BLOCK_Z;
}

bool
tt_is_thread(enum tt_for_kind kind)
{
  return kind == TT_THREAD_X || kind == TT_THREAD_Y || kind == TT_THREAD_Z;
}

const char *
tt_bound_name(enum tt_for_kind kind)
{
  switch (kind) {
  case TT_BLOCK_X:
    return "block.x";
  case TT_BLOCK_Y:
    return "block.y";
  case TT_BLOCK_Z:
    return "block.z";
  case TT_THREAD_X:
    return "thread.x";
  case TT_THREAD_Y:
    return "thread.y";
  case TT_THREAD_Z:
    return "thread.z";
  case TT_SERIAL:
  case TT_UNROLL:
  case TT_VECTOR:
  case TT_PARALLEL:
  case TT_TRANSPOSE:
    break;
  }
  return NULL;
}

const struct tt_stmt *
tt_for(struct tt_arena *arena, enum tt_for_kind kind, int lanes,
       const struct tt_var *var, const struct tt_stmt *body)
{
  struct tt_stmt *s = node(arena, TT_FOR);
  s->for_kind = kind;
  s->lanes = lanes;
  s->var = var;
  s->body = body;
  return s;
}

const struct tt_stmt *
tt_store(struct tt_arena *arena, const struct tt_tensor *tensor, int n,
         const struct tt_expr *const *idx, const struct tt_expr *value)
{
  assert(tensor->dtype == value->type.dtype);
  struct tt_stmt *s = node(arena, TT_STORE);
  s->tensor = tensor;
  s->nidx = n;
  s->idx = tt_arena_dup(arena, idx, (size_t)n * sizeof *idx);
  s->value = value;
  return s;
}

const struct tt_stmt *
tt_prefetch(struct tt_arena *arena, const struct tt_tensor *tensor, int n,
            const struct tt_expr *const *idx)
{
  struct tt_stmt *s = node(arena, TT_PREFETCH);
  s->tensor = tensor;
  s->nidx = n;
  s->idx = tt_arena_dup(arena, idx, (size_t)n * sizeof *idx);
  return s;
}

const struct tt_stmt *
tt_instruction(struct tt_arena *arena, const struct tt_intrin *intrin,
               enum tt_intrin_op op, const struct tt_var *const *vars, int n,
               const struct tt_expr *const *operands,
               const struct tt_stmt *body)
{
  size_t nvars = (size_t)(intrin->nspatial + intrin->nreduce);
  struct tt_stmt *s = node(arena, TT_INTRIN);
  s->intrin = intrin;
  s->op = op;
  s->vars = tt_arena_dup(arena, vars, nvars * sizeof *vars);
  s->nidx = n;
  s->idx = tt_arena_dup(arena, operands, (size_t)n * sizeof *operands);
  s->body = body;
  return s;
}

const struct tt_stmt *
tt_if(struct tt_arena *arena, const struct tt_expr *cond,
      const struct tt_stmt *body, const struct tt_stmt *other)
{
  assert(cond->type.dtype == TT_BOOL && cond->type.lanes == 1);
  struct tt_stmt *s = node(arena, TT_IF);
  s->cond = cond;
  s->body = body;
  s->other = other;
  return s;
}

static bool
is_flat(const struct tt_stmt *s)
{
  return s->kind == TT_SEQ && !s->comment;
}

const struct tt_stmt *
tt_seq(struct tt_arena *arena, int n, const struct tt_stmt *const *items)
{
  int total = 0;
  const struct tt_stmt *only = NULL;
  for (int i = 0; i < n; i++) {
    if (!items[i])
      continue;
    int here = is_flat(items[i]) ? items[i]->nitems : 1;
    if (here == 1)
      only = is_flat(items[i]) ? items[i]->items[0] : items[i];
    total += here;
  }
  if (total == 1)
    return only;
  const struct tt_stmt **flat =
      TT_ARRAY(arena, const struct tt_stmt *, (size_t)total);
  int k = 0;
  for (int i = 0; i < n; i++) {
    if (!items[i])
      continue;
    if (!is_flat(items[i]))
      flat[k++] = items[i];
    else
      for (int j = 0; j < items[i]->nitems; j++)
        flat[k++] = items[i]->items[j];
  }
  struct tt_stmt *s = node(arena, TT_SEQ);
  s->nitems = total;
  s->items = flat;
  return s;
}

const struct tt_stmt *
tt_alloc_stmt(struct tt_arena *arena, const struct tt_tensor *tensor,
              const struct tt_stmt *body)
{
  struct tt_stmt *s = node(arena, TT_ALLOC);
  s->tensor = tensor;
  s->body = body;
  return s;
}

const struct tt_stmt *
tt_comment(struct tt_arena *arena, const char *text, const struct tt_stmt *s)
{
  struct tt_stmt *r = tt_arena_dup(arena, s, sizeof *s);
  r->comment = text;
  return r;
}

const struct tt_stmt *
tt_stmt_map_exprs(struct tt_arena *arena, const struct tt_stmt *s,
                  tt_rewrite_fn *fn, void *ctx)
{
  struct tt_stmt *r = tt_arena_dup(arena, s, sizeof *s);
  switch (s->kind) {
  case TT_STORE:
  case TT_PREFETCH:
  case TT_INTRIN: {
    const struct tt_expr **idx =
        TT_ARRAY(arena, const struct tt_expr *, (size_t)s->nidx);
    for (int i = 0; i < s->nidx; i++)
      idx[i] = fn(ctx, arena, s->idx[i]);
    r->idx = idx;
    if (s->value)
      r->value = fn(ctx, arena, s->value);
    if (s->body)
      r->body = tt_stmt_map_exprs(arena, s->body, fn, ctx);
    break;
  }
  case TT_IF:
    r->cond = fn(ctx, arena, s->cond);
    r->body = tt_stmt_map_exprs(arena, s->body, fn, ctx);
    if (s->other)
      r->other = tt_stmt_map_exprs(arena, s->other, fn, ctx);
    break;
  case TT_SEQ: {
    const struct tt_stmt **items =
        TT_ARRAY(arena, const struct tt_stmt *, (size_t)s->nitems);
    for (int i = 0; i < s->nitems; i++)
      items[i] = tt_stmt_map_exprs(arena, s->items[i], fn, ctx);
    r->items = items;
    break;
  }
  case TT_FOR:
  case TT_ALLOC:
    r->body = tt_stmt_map_exprs(arena, s->body, fn, ctx);
    break;
  }
  return r;
}
