/* Primitives on loops: split, tile, fuse, reorder.
 *
 * Each saves the stage, edits it, checks the invariants, and restores the
 * stage when they do not hold.
 */
#include "config.h"

#include "schedule/state.h"

#include <string.h>

/* Names are unique among all loops a stage ever had, so that a handle in the
 * text form means one loop.  The outer half of a split keeps its name. */
static bool
name_free(struct tt_schedule *s, int stage, const char *name)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  if (strcmp(name, "root") == 0)
    return tt_refuse(s, "a loop cannot be named root");
  for (int i = 0; i < ss->nloops; i++)
    if (strcmp(ss->loops[i].name, name) == 0)
      return tt_refuse(s, "%s already has a loop named %s",
                       tt_stage_name(s, stage), name);
  return true;
}

static bool
kept(struct tt_schedule *s, int stage, const struct tt_stage_schedule *old)
{
  tt_sink_vthreads(&s->stages[stage]);
  if (tt_check_stage(s, stage))
    return true;
  s->stages[stage] = *old;
  return false;
}

/* Is the place of something tied to this loop, so that it cannot be split or
 * fused any more? */
static bool
loop_is_plain(struct tt_schedule *s, int stage, int loop)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_loop *l = &ss->loops[loop];
  if (l->kind != TT_SERIAL)
    return tt_refuse(
        s, "%s of %s is already unrolled, vectorized, parallel or bound",
        l->name, tt_stage_name(s, stage));
  return true;
}

int
tt_split(struct tt_schedule *s, int stage, int loop, int64_t factor,
         const char *inner_name, enum tt_tail tail)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (!tt_need_leaf(s, stage, loop) || !loop_is_plain(s, stage, loop) ||
      !name_free(s, stage, inner_name))
    return -1;
  if (factor < 1) {
    tt_refuse(s, "%s of %s cannot be split by %lld", ss->loops[loop].name,
              tt_stage_name(s, stage), (long long)factor);
    return -1;
  }
  struct tt_stage_schedule old = *ss;
  int outer = tt_add_loop(s, stage, ss->loops[loop].name);
  int inner = outer < 0 ? -1 : tt_add_loop(s, stage, inner_name);
  if (inner < 0) {
    *ss = old;
    return -1;
  }
  struct tt_loop *p = &ss->loops[loop], *o = &ss->loops[outer],
                 *i = &ss->loops[inner];
  o->node = TT_SPLIT_OUTER;
  i->node = TT_SPLIT_INNER;
  o->reduce = i->reduce = p->reduce;
  o->parent = i->parent = loop;
  o->other = inner;
  i->other = outer;
  o->factor = i->factor = factor;
  o->tail = i->tail = tail;
  o->extent = (p->extent + factor - 1) / factor;
  i->extent = factor < p->extent ? factor : p->extent;
  p->child[0] = outer;
  p->child[1] = inner;
  int at = tt_position(ss, loop);
  memmove(&ss->order[at + 2], &ss->order[at + 1],
          (size_t)(ss->norder - at - 1) * sizeof ss->order[0]);
  ss->order[at] = outer;
  ss->order[at + 1] = inner;
  ss->norder++;
  /* What hung on the loop hangs on its inner half: the same iterations. */
  for (int c = 0; c < ss->ncaches; c++)
    if (ss->caches[c].loop == loop)
      ss->caches[c].loop = inner;
  if (ss->cache_write == loop)
    ss->cache_write = inner;
  for (int f = 0; f < ss->nprefetches; f++)
    if (ss->prefetches[f].loop == loop)
      ss->prefetches[f].loop = inner;
  for (int st = 0; st < stage && ss->attached; st++)
    if (s->stages[st].place == TT_AT && s->stages[st].at_stage == stage &&
        s->stages[st].at_loop == loop)
      s->stages[st].at_loop = inner;
  if (!kept(s, stage, &old)) {
    for (int st = 0; st < stage && ss->attached; st++)
      if (s->stages[st].place == TT_AT && s->stages[st].at_stage == stage &&
          s->stages[st].at_loop == inner)
        s->stages[st].at_loop = loop;
    return -1;
  }
  static const char *const tails[] = {"peel", "guard", "shift", "pad"};
  if (tail == TT_TAIL_PEEL)
    tt_record(s, stage, "split", "lil", ss->loops[loop].name, factor,
              inner_name);
  else
    tt_record(s, stage, "split", "lilks", ss->loops[loop].name, factor,
              inner_name, "tail", tails[tail]);
  return inner;
}

/* Do caches, accumulators or stages hang on the loop? */
static bool
something_hangs_on(struct tt_schedule *s, int stage, int loop)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  bool hangs = ss->cache_write == loop;
  for (int c = 0; c < ss->ncaches; c++)
    hangs |= ss->caches[c].loop == loop;
  for (int f = 0; f < ss->nprefetches; f++)
    hangs |= ss->prefetches[f].loop == loop;
  for (int st = 0; st < stage && ss->attached; st++)
    hangs |= s->stages[st].place == TT_AT && s->stages[st].at_stage == stage &&
             s->stages[st].at_loop == loop;
  return hangs;
}

int
tt_fuse(struct tt_schedule *s, int stage, int outer, int inner,
        const char *name)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (!tt_need_leaf(s, stage, outer) || !tt_need_leaf(s, stage, inner) ||
      !loop_is_plain(s, stage, outer) || !loop_is_plain(s, stage, inner) ||
      !name_free(s, stage, name))
    return -1;
  const char *on = ss->loops[outer].name, *in = ss->loops[inner].name;
  int at = tt_position(ss, outer);
  if (at + 1 >= ss->norder || ss->order[at + 1] != inner) {
    tt_refuse(s, "%s is not directly inside %s in %s; reorder first", in, on,
              tt_stage_name(s, stage));
    return -1;
  }
  if (ss->loops[outer].reduce != ss->loops[inner].reduce) {
    tt_refuse(s,
              "%s and %s of %s: a reduction loop and a spatial one cannot "
              "be fused",
              on, in, tt_stage_name(s, stage));
    return -1;
  }
  if (something_hangs_on(s, stage, outer)) {
    tt_refuse(s, "something is computed or cached between %s and %s of %s", on,
              in, tt_stage_name(s, stage));
    return -1;
  }
  if (ss->loops[inner].node == TT_SPLIT_INNER &&
      ss->loops[inner].other != outer &&
      tt_position(ss, ss->loops[inner].other) > at) {
    tt_refuse(s, "%s of %s is outside the other half of its split", in,
              tt_stage_name(s, stage));
    return -1;
  }
  struct tt_stage_schedule old = *ss;
  int f = tt_add_loop(s, stage, name);
  if (f < 0)
    return -1;
  struct tt_loop *l = &ss->loops[f];
  l->node = TT_FUSED;
  l->reduce = ss->loops[outer].reduce;
  l->fused_outer = outer;
  l->fused_inner = inner;
  l->extent = ss->loops[outer].extent * ss->loops[inner].extent;
  ss->loops[outer].child[0] = ss->loops[outer].child[1] = f;
  ss->loops[inner].child[0] = ss->loops[inner].child[1] = f;
  ss->order[at] = f;
  memmove(&ss->order[at + 1], &ss->order[at + 2],
          (size_t)(ss->norder - at - 2) * sizeof ss->order[0]);
  ss->norder--;
  for (int c = 0; c < ss->ncaches; c++)
    if (ss->caches[c].loop == inner)
      ss->caches[c].loop = f;
  if (ss->cache_write == inner)
    ss->cache_write = f;
  for (int p = 0; p < ss->nprefetches; p++)
    if (ss->prefetches[p].loop == inner)
      ss->prefetches[p].loop = f;
  int moved[TT_MAX_LOOPS], nmoved = 0;
  for (int st = 0; st < stage && ss->attached; st++)
    if (s->stages[st].place == TT_AT && s->stages[st].at_stage == stage &&
        s->stages[st].at_loop == inner && nmoved < TT_MAX_LOOPS) {
      s->stages[st].at_loop = f;
      moved[nmoved++] = st;
    }
  if (!kept(s, stage, &old)) {
    for (int i = 0; i < nmoved; i++)
      s->stages[moved[i]].at_loop = inner;
    return -1;
  }
  tt_record(s, stage, "fuse", "lll", on, in, name);
  return f;
}

bool
tt_reorder(struct tt_schedule *s, int stage, int n, const int *loops)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  bool chosen[TT_MAX_LOOPS] = {false};
  for (int i = 0; i < n; i++) {
    if (!tt_need_leaf(s, stage, loops[i]))
      return false;
    if (chosen[loops[i]])
      return tt_refuse(s, "%s appears twice", ss->loops[loops[i]].name);
    chosen[loops[i]] = true;
  }
  struct tt_stage_schedule old = *ss;
  int k = 0;
  for (int i = 0; i < ss->norder; i++)
    if (chosen[ss->order[i]])
      ss->order[i] = loops[k++];
  if (!kept(s, stage, &old))
    return false;
  tt_record(s, stage, "reorder", "");
  struct tt_scall *call = &s->calls[s->ncalls - 1];
  struct tt_sarg *args = TT_ARRAY(s->arena, struct tt_sarg, (size_t)n);
  for (int i = 0; i < n; i++)
    args[i] =
        (struct tt_sarg){.kind = TT_SARG_ID, .str = ss->loops[loops[i]].name};
  call->nargs = n;
  call->args = args;
  return true;
}

bool
tt_tile(struct tt_schedule *s, int stage, int a, int b, int64_t fa, int64_t fb,
        const char *inner_a, const char *inner_b)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  struct tt_stage_schedule old = *ss;
  int ncalls = s->ncalls;
  int ia = tt_split(s, stage, a, fa, inner_a, TT_TAIL_PEEL);
  int ib = ia < 0 ? -1 : tt_split(s, stage, b, fb, inner_b, TT_TAIL_PEEL);
  if (ib >= 0) {
    int order[4] = {ss->loops[ia].other, ss->loops[ib].other, ia, ib};
    if (tt_reorder(s, stage, 4, order))
      return true;
  }
  s->stages[stage] = old;
  s->ncalls = ncalls;
  return false;
}
