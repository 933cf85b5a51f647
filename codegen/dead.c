/* Locals that nothing reads any more go, with the stores to them and the
 * loops and conditions that only held such stores.
 */
#include "config.h"

#include "codegen/internal.h"

struct dead {
  struct pass *pass;
  const struct tt_tensor *tensor;
  bool read;
};

static void
find_read(void *ctx, const struct tt_expr *e)
{
  struct dead *d = ctx;
  d->read = d->read || tt_expr_uses_tensor(e, d->tensor);
}

static void
find_read_stmt(void *ctx, const struct tt_stmt *s)
{
  tt_own_exprs(s, find_read, ctx);
}

static bool
is_empty(const struct tt_stmt *s)
{
  return s->kind == TT_SEQ && s->nitems == 0;
}

static const struct tt_stmt *
nothing(struct pass *p)
{
  return tt_seq(p->arena, 0, NULL);
}

/* Without what holds no statement. */
static const struct tt_stmt *
without_empty(struct pass *p, const struct tt_stmt *s)
{
  switch (s->kind) {
  case TT_STORE:
  case TT_PREFETCH:
  case TT_SEQ:
    break;
  case TT_IF:
    if (is_empty(s->body) && (!s->other || is_empty(s->other)))
      return nothing(p);
    if (s->other && is_empty(s->other))
      return tt_if(p->arena, s->cond, s->body, NULL);
    break;
  case TT_FOR:
  case TT_ALLOC:
  case TT_INTRIN:
    if (is_empty(s->body))
      return nothing(p);
    break;
  }
  return s;
}

static const struct tt_stmt *
drop_stores(void *ctx, const struct tt_stmt *s)
{
  struct dead *d = ctx;
  if ((s->kind == TT_STORE || s->kind == TT_PREFETCH) && s->tensor == d->tensor)
    return nothing(d->pass);
  return without_empty(d->pass, tt_map_children(d->pass, s, drop_stores, d));
}

static const struct tt_stmt *
drop(void *ctx, const struct tt_stmt *s)
{
  struct pass *p = ctx;
  s = tt_map_children(p, s, drop, p);
  if (s->kind != TT_ALLOC)
    return s;
  struct dead d = {p, s->tensor, false};
  tt_walk(s->body, find_read_stmt, &d);
  return d.read ? s : drop_stores(&d, s->body);
}

const struct tt_stmt *
tt_pass_drop_dead(struct pass *p, const struct tt_stmt *s)
{
  /* Each round may remove the last readers of another one. */
  for (const struct tt_stmt *was = NULL; s != was;) {
    was = s;
    s = drop(p, s);
  }
  return s;
}
