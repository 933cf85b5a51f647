/* The loops of a schedule as a tree: a stage computed inside of another one's
 * loop hangs below that loop.
 *
 * Invariant: a loop comes after the one around it; there are at most
 * TT_TREE_NODES, those of the last stages, and every input is finite.
 */
#include "config.h"
#include "tuner/features.h"

#include <math.h>
#include <string.h>

#include "tuner/feature_parts.h"

struct tree {
  const struct tt_schedule *s;
  const struct tt_target_model *target;
  float *row;
  int n;
  struct {
    int stage, handle;
  } nodes[TT_TREE_NODES];
};

enum { KINDS = 5 }; /* of loops */

/* The inputs of loop i of a stage. */
static void
put_loop(const struct tt_context *c, const struct tt_depths *d, int i,
         const struct tt_target_model *target, float *o)
{
  const struct tt_ctx_loop *l = &c->loops[i];
  const struct tt_ctx_ops *ops = &c->ops;
  int pick[TT_BUFFERS], n = tt_pick_buffers(c, pick);
  float lanes = (float)(target->vector_bytes > 0 ? target->vector_bytes : 1) /
                (float)tt_dtype_bytes(c->ss->stage->out->dtype);

  *o++ = tt_lg(l->extent);
  *o++ = l->reduce;
  *o++ = tt_lg(d->outside[i]);
  *o++ = tt_lg(d->inside[i]);
  o[l->kind] = 1;
  o += KINDS;
  for (int b = 0; b < n; b++) {
    const struct tt_ctx_access *x = &c->accesses[pick[b]];
    o[3 * b] = tt_slg(tt_ctx_stride(c, x, l, i >= x->cache_depth));
    o[3 * b + 1] = tt_lg(d->bytes[i][pick[b]]);
    o[3 * b + 2] = tt_lg(d->inside[i] / d->elements[i][pick[b]]);
  }
  o += 3 * TT_BUFFERS;
  *o++ = tt_lg(ops->add);
  *o++ = tt_lg(ops->mul);
  *o++ = tt_lg(ops->div + ops->special);
  *o++ = tt_lg(ops->integer + ops->choice);
  *o++ = l->kind == TT_VECTOR ? l->extent / fmaxf(lanes, 1) : 0;
  *o++ = tt_lg(d->total[i]);
}

/* The node of a loop; -1: it is not in the tree. */
static int
find(const struct tree *t, int stage, int handle)
{
  for (int i = 0; i < t->n; i++)
    if (t->nodes[i].stage == stage && t->nodes[i].handle == handle)
      return i;
  return -1;
}

static void
add_stage(struct tree *t, int stage)
{
  const struct tt_stage_schedule *ss = &t->s->stages[stage];
  int parent = ss->place == TT_AT ? find(t, ss->at_stage, ss->at_loop) : -1;
  struct tt_context c;
  struct tt_depths d;

  tt_context(t->s, stage, &c);
  tt_depths_fill(&c, &d);
  for (int i = 0; i < c.n && t->n < TT_TREE_NODES; i++) {
    float *node = t->row + 1 + t->n * TT_TREE_NODE;
    node[0] = (float)parent;
    put_loop(&c, &d, i, t->target, node + 1);
    t->nodes[t->n].stage = stage;
    t->nodes[t->n].handle = c.loops[i].handle;
    parent = t->n++;
  }
}

void
tt_feature_tree(const struct tt_schedule *s,
                const struct tt_target_model *target, float *row)
{
  struct tree t = {.s = s, .target = target, .row = row};

  memset(row, 0, TT_TREE_WIDTH * sizeof *row);
  for (int i = s->nstages - 1; i >= 0 && t.n < TT_TREE_NODES; i--)
    if (s->stages[i].place != TT_INLINE)
      add_stage(&t, i);
  row[0] = (float)t.n;
}
