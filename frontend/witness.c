/* Witnesses: a point at which an index leaves its tensor, for messages.
 *
 * Corners of the box are tried, and all points where there are few; finding
 * none proves nothing.
 */
#include "config.h"

#include "frontend/sema.h"

bool
tt_has_load(const struct tt_expr *e)
{
  if (e->kind == TT_LOAD)
    return true;
  for (int i = 0; i < e->nargs; i++)
    if (tt_has_load(e->args[i]))
      return true;
  return (e->a && tt_has_load(e->a)) || (e->b && tt_has_load(e->b)) ||
         (e->c && tt_has_load(e->c));
}

static void
collect_var(void *ctx, const struct tt_expr *e)
{
  struct tt_point *p = ctx;

  if (e->kind != TT_VAR || p->n == TT_MAX_ACTIVE)
    return;
  for (int i = 0; i < p->n; i++)
    if (p->vars[i] == e->var)
      return;
  p->vars[p->n] = e->var;
  p->values[p->n++] = 0;
}

void
tt_collect_vars(const struct tt_expr *e, struct tt_point *p)
{
  tt_expr_visit(e, collect_var, p);
}

static bool
allowed(const struct tt_facts *facts, const struct tt_point *p)
{
  int64_t v;

  for (; facts; facts = facts->outer)
    if (!tt_eval_at(facts->cond, p, &v) || (v != 0) == facts->negated)
      return false;
  return true;
}

/* Candidate values of an index: all if there are few, else both ends and some
 * between; their number. */
static int
candidates(int64_t extent, bool all, int64_t *out, int max)
{
  int64_t few[] = {0, extent - 1, 1, extent - 2, extent / 2, 2};
  int n = 0;

  if (all) {
    for (; n < extent && n < max; n++)
      out[n] = n;
    return n;
  }
  for (int i = 0; i < 6; i++) {
    bool seen = few[i] < 0 || few[i] >= extent;
    for (int k = 0; k < n; k++)
      seen = seen || out[k] == few[i];
    if (!seen)
      out[n++] = few[i];
  }
  return n;
}

bool
tt_witness(const struct tt_expr *e, int64_t limit, const struct tt_facts *facts,
           struct tt_point *p, int64_t *value)
{
  enum { ALL = 4096, MOST = 20000, PER_VAR = 4096 };
  int64_t choices[TT_MAX_ACTIVE][6], points = 1;
  int n[TT_MAX_ACTIVE], at[TT_MAX_ACTIVE] = {0}, i;
  bool all;

  p->n = 0;
  tt_collect_vars(e, p);
  for (const struct tt_facts *f = facts; f; f = f->outer)
    tt_collect_vars(f->cond, p);
  for (i = 0; i < p->n && points <= ALL; i++)
    points *= p->vars[i]->extent > ALL ? ALL + 1 : p->vars[i]->extent;
  all = points <= ALL;
  for (i = 0; i < p->n; i++)
    n[i] = all ? (int)p->vars[i]->extent
               : candidates(p->vars[i]->extent, false, choices[i], 6);
  for (int tried = 0; tried < MOST; tried++) {
    for (i = 0; i < p->n; i++)
      p->values[i] = all ? at[i] : choices[i][at[i]];
    if (tt_eval_at(e, p, value) && (*value < 0 || *value >= limit) &&
        allowed(facts, p))
      return true;
    for (i = p->n - 1; i >= 0 && ++at[i] == n[i]; i--)
      at[i] = 0;
    if (i < 0)
      return false;
  }
  return false;
}
