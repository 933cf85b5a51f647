/* Sums that an elementwise stage takes from the accumulators: its value is
 * stored in place of them.
 *
 * Invariant: where parts of the reduction stand outside the accumulators, the
 * sums are whole in the last iteration of these alone, which is found here.
 */
#include "config.h"

#include "schedule/lower.h"

/* Is the present piece of every split above the loop the last one, so that
 * its last iteration is the last of all? */
static bool
in_last_piece(const struct tt_inst *in, int loop)
{
  for (int h = loop; in->ss->loops[h].node != TT_AXIS;) {
    const struct tt_loop *l = &in->ss->loops[h];
    int outer = in->ss->loops[l->parent].child[0];
    int64_t all = tt_max_extent(in, l->parent);
    if (in->lo[outer] + in->extent[outer] < (all + l->factor - 1) / l->factor)
      return false;
    h = l->parent;
  }
  return true;
}

/* True in the last of the reduction's iterations outside position i; NULL
 * when there are none outside. */
static const struct tt_expr *
last_iteration(const struct tt_inst *in, int i)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_expr *last = NULL;
  for (int j = 0; j < i; j++) {
    int h = in->ss->order[j];
    if (!in->ss->loops[h].reduce)
      continue;
    if (!in_last_piece(in, h))
      return tt_bool(ar, false);
    const struct tt_expr *end =
        tt_binary(ar, TT_EQ, in->val[h], tt_idx(ar, tt_max_extent(in, h) - 1));
    last = last ? tt_binary(ar, TT_AND, last, end) : end;
  }
  return last;
}

struct taking {
  const struct tt_tensor *sums;
  const struct tt_expr *sum;
};

static const struct tt_expr *
take_sum(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct taking *t = ctx;
  (void)ar;
  return e->kind == TT_LOAD && e->tensor == t->sums ? t->sum : e;
}

const struct tt_stmt *
tt_lw_finished(struct tt_inst *in, const struct tt_expr *const *t,
               const struct tt_expr *sum)
{
  struct tt_lowering *lw = in->lw;
  const struct tt_stage *st = in->ss->stage;
  if (!in->finishing)
    return tt_store(lw->arena, in->target, st->nspatial, t, sum);
  const struct tt_stage_schedule *fs = &lw->s->stages[in->ss->finish];
  struct taking take = {st->out, sum};
  const struct tt_expr *value =
      tt_expr_rewrite(lw->arena, fs->value, take_sum, &take);
  /* (The caches are the reduction's own.) */
  struct tt_inst own = {.lw = lw, .ss = fs, .index = in->ss->finish};
  struct tt_place_values p = tt_lw_place_of(in);
  p.in = &own;
  p.naxes = st->nspatial;
  for (int d = 0; d < st->nspatial; d++)
    p.axis[d] = fs->stage->spatial[d];
  return tt_store(lw->arena, fs->stage->out, st->nspatial, t,
                  tt_lw_at_place(&p, value));
}

const struct tt_stmt *
tt_lw_finish_or_store(struct tt_inst *in, int i,
                      const struct tt_stmt *(*store)(struct tt_inst *, int i))
{
  if (in->ss->finish < 0)
    return store(in, i);
  const struct tt_expr *last = last_iteration(in, i);
  in->finishing = true;
  const struct tt_stmt *whole = store(in, i);
  in->finishing = false;
  return last ? tt_if(in->lw->arena, last, whole, store(in, i)) : whole;
}
