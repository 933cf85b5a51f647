/* Vectors whose lanes are stored apart from each other, one vector after the
 * other: first all of them are computed, then stored.  Then the printer sees
 * which lanes of different vectors are neighbours in memory.
 *
 * Nothing that is computed reads what is stored.
 */
#include "config.h"

#include "codegen/internal.h"

/* { t = value; target[...] = t[lane]; ... } */
static bool
is_scatter(const struct tt_stmt *s)
{
  if (s->kind != TT_ALLOC || s->comment || s->tensor->scope != TT_REGISTER ||
      s->body->kind != TT_SEQ || s->body->nitems < 2)
    return false;
  const struct tt_stmt *const *item = s->body->items;
  const struct tt_tensor *target = item[1]->tensor;
  if (item[0]->kind != TT_STORE || item[0]->tensor != s->tensor ||
      tt_expr_uses_tensor(item[0]->value, s->tensor))
    return false;
  for (int i = 1; i < s->body->nitems; i++) {
    const struct tt_expr *v = item[i]->value;
    if (item[i]->kind != TT_STORE || item[i]->tensor != target ||
        target->role == TT_LOCAL || v->kind != TT_LOAD ||
        v->tensor != s->tensor)
      return false;
    for (int d = 0; d < item[i]->nidx; d++)
      if (tt_expr_uses_tensor(item[i]->idx[d], target))
        return false;
  }
  return !tt_expr_uses_tensor(item[0]->value, target);
}

static bool
same_target(const struct tt_stmt *a, const struct tt_stmt *b)
{
  const struct tt_tensor *t = a->body->items[1]->tensor;
  return b->body->items[1]->tensor == t &&
         !tt_expr_uses_tensor(b->body->items[0]->value, a->tensor);
}

static const struct tt_stmt *
gather_run(struct tt_arena *ar, int n, const struct tt_stmt *const *run)
{
  const struct tt_stmt **part =
      TT_ARRAY(ar, const struct tt_stmt *, 2 * (size_t)n);
  for (int i = 0; i < n; i++) {
    const struct tt_stmt *body = run[i]->body;
    part[i] = body->items[0];
    part[n + i] = tt_seq(ar, body->nitems - 1, body->items + 1);
  }
  const struct tt_stmt *r = tt_seq(ar, 2 * n, part);
  for (int i = n - 1; i >= 0; i--)
    r = tt_alloc_stmt(ar, run[i]->tensor, r);
  return r;
}

static const struct tt_stmt *
gather(void *ctx, const struct tt_stmt *s)
{
  struct pass *p = ctx;
  s = tt_map_children(p, s, gather, p);
  if (s->kind != TT_SEQ)
    return s;
  const struct tt_stmt **items =
      TT_ARRAY(p->arena, const struct tt_stmt *, (size_t)s->nitems + 1);
  int n = 0;
  for (int i = 0, j; i < s->nitems; i = j) {
    for (j = i + 1; is_scatter(s->items[i]) && j < s->nitems; j++)
      if (!is_scatter(s->items[j]) || !same_target(s->items[i], s->items[j]))
        break;
    items[n++] =
        j > i + 1 ? gather_run(p->arena, j - i, s->items + i) : s->items[i];
  }
  if (n == s->nitems)
    return s;
  const struct tt_stmt *r = tt_seq(p->arena, n, items);
  return s->comment ? tt_comment(p->arena, s->comment, r) : r;
}

const struct tt_stmt *
tt_pass_gather(struct pass *p, const struct tt_stmt *s)
{
  return gather(p, s);
}
