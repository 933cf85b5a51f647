/* The primitive bind: loops become blocks of a GPU, threads of a block, or
 * virtual threads, whose work one thread does for all of them in turns.
 *
 * Invariant: blocks do not wait for each other, so block loops stand outside
 * all others of a stage at root; threads of a block do, so that any loops may
 * stand around thread loops.  Bound loops are spatial, and no two of a stage
 * have the same index.  Virtual threads stand in the order where they run: side
 * by side, outside of nothing but the unrolled and vectorized loops at its end;
 * a thread waits for others outside of them, once for all of them.
 */
#include "config.h"

#include "schedule/state.h"

#include <string.h>

enum {
  MAX_THREADS = 1024,
  MAX_THREADS_Z = 64,
  MAX_BLOCKS_YZ = 65535,
  MAX_VTHREADS = 256
};

static bool
is_bound(enum tt_for_kind kind)
{
  return tt_is_block(kind) || tt_is_thread(kind);
}

/* A shifted tail is computed twice: by two threads at the same time. */
static bool
check_tail(struct tt_schedule *s, int stage, int loop)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  for (int h = 0; h < ss->nloops; h++)
    if (ss->loops[h].node == TT_SPLIT_OUTER &&
        ss->loops[h].tail == TT_TAIL_SHIFT && tt_comes_from(ss, loop, h))
      return tt_refuse(s,
                       "%s of %s cannot be bound: two threads would compute "
                       "its shifted tail",
                       ss->loops[loop].name, tt_stage_name(s, stage));
  return true;
}

static bool
check_size(struct tt_schedule *s, int stage, const struct tt_loop *l)
{
  int64_t most = l->kind == TT_BLOCK_X    ? INT32_MAX
                 : tt_is_block(l->kind)   ? MAX_BLOCKS_YZ
                 : l->kind == TT_THREAD_Z ? MAX_THREADS_Z
                                          : MAX_THREADS;
  if (l->extent > most)
    return tt_refuse(s, "%s of %s has %lld iterations; %s has at most %lld",
                     l->name, tt_stage_name(s, stage), (long long)l->extent,
                     tt_bound_name(l->kind), (long long)most);
  return true;
}

/* The bound loop at position i, given those before it. */
static bool
check_loop(struct tt_schedule *s, int stage, int i)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_loop *l = &ss->loops[ss->order[i]];
  const char *name = tt_stage_name(s, stage);
  if (l->reduce)
    return tt_refuse(s,
                     "%s is a reduction loop of %s: only spatial loops can be "
                     "bound",
                     l->name, name);
  for (int j = 0; j < ss->norder; j++) {
    const struct tt_loop *o = &ss->loops[ss->order[j]];
    if (j != i && o->kind == l->kind)
      return tt_refuse(s, "%s and %s of %s are both bound to %s", o->name,
                       l->name, name, tt_bound_name(l->kind));
    if (o->kind == TT_PARALLEL)
      return tt_refuse(s, "%s of %s is parallel and %s is bound to %s", o->name,
                       name, l->name, tt_bound_name(l->kind));
    if (j < i && o->kind == TT_VECTOR)
      return tt_refuse(s, "%s is inside the vectorized loop %s of %s", l->name,
                       o->name, name);
    if (j < i && tt_is_block(l->kind) && !tt_is_block(o->kind))
      return tt_refuse(s,
                       "%s is outside %s of %s, which is bound to %s: only "
                       "other blocks can be",
                       o->name, l->name, name, tt_bound_name(l->kind));
  }
  if (ss->place == TT_AT && tt_is_block(l->kind))
    return tt_refuse(s,
                     "%s is computed in %s: its loop %s cannot be bound "
                     "to %s",
                     name, tt_stage_name(s, ss->at_stage), l->name,
                     tt_bound_name(l->kind));
  return check_size(s, stage, l) && check_tail(s, stage, ss->order[i]);
}

/* Does anything stand at the top of the loop's body? */
static bool
hangs_on(const struct tt_schedule *s, int stage, int loop)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  bool any = ss->cache_write == loop;
  for (int i = 0; i < ss->ncaches; i++)
    any |= ss->caches[i].loop == loop;
  for (int i = 0; i < ss->nprefetches; i++)
    any |= ss->prefetches[i].loop == loop;
  for (int i = 0; i < stage && ss->attached; i++)
    any |= s->stages[i].place == TT_AT && s->stages[i].at_stage == stage &&
           s->stages[i].at_loop == loop;
  return any;
}

/* Between thread loops stands nothing: it would run once for several threads,
 * which then would have to wait for it. */
static bool
check_between(struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int last = -1;
  for (int i = 0; i < ss->norder; i++)
    if (tt_is_thread(ss->loops[ss->order[i]].kind))
      last = i;
  for (int i = 0; i < last; i++)
    if (tt_is_thread(ss->loops[ss->order[i]].kind) &&
        (!tt_is_thread(ss->loops[ss->order[i + 1]].kind) ||
         hangs_on(s, stage, ss->order[i])))
      return tt_refuse(s,
                       "something stands between %s and %s of %s, which are "
                       "bound to threads",
                       ss->loops[ss->order[i]].name,
                       ss->loops[ss->order[last]].name,
                       tt_stage_name(s, stage));
  return true;
}

/* A thread loop outside the place of a stage that is computed in another one;
 * NULL: there is none. */
static const struct tt_loop *
around(const struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  while (ss->place == TT_AT) {
    const struct tt_stage_schedule *c = &s->stages[ss->at_stage];
    int at = ss->at_loop == TT_OUTSIDE ? -1 : tt_position(c, ss->at_loop);
    for (int i = 0; i <= at; i++)
      if (tt_is_thread(c->loops[c->order[i]].kind))
        return &c->loops[c->order[i]];
    ss = c;
  }
  return NULL;
}

/* ---- virtual threads ---------------------------------------------------- */

static bool
runs_innermost(const struct tt_loop *l)
{
  return !l->vthread && (l->kind == TT_UNROLL || l->kind == TT_VECTOR);
}

void
tt_sink_vthreads(struct tt_stage_schedule *ss)
{
  int order[TT_MAX_LOOPS], n = 0, inner = tt_tensor_position(ss);
  while (inner > 0 && (ss->loops[ss->order[inner - 1]].vthread ||
                       runs_innermost(&ss->loops[ss->order[inner - 1]])))
    inner--;
  for (int part = 0; part < 3; part++)
    for (int i = 0; i < ss->norder; i++) {
      bool v = ss->loops[ss->order[i]].vthread;
      if (part == 1 ? v : !v && (i < inner) == (part == 0))
        order[n++] = ss->order[i];
    }
  memcpy(ss->order, order, (size_t)n * sizeof *order);
}

static bool
check_vthreads(struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const char *name = tt_stage_name(s, stage);
  int64_t n = 1;
  for (int i = 0; i < ss->norder; i++) {
    const struct tt_loop *l = &ss->loops[ss->order[i]];
    if (!l->vthread)
      continue;
    n *= l->extent;
    if (l->reduce)
      return tt_refuse(s,
                       "%s is a reduction loop of %s: only spatial loops can "
                       "be bound",
                       l->name, name);
    if (hangs_on(s, stage, ss->order[i]))
      return tt_refuse(s,
                       "something stands in %s of %s, which is bound to "
                       "vthread and runs inside all of it",
                       l->name, name);
    if (l->extent > MAX_VTHREADS || n > MAX_VTHREADS)
      return tt_refuse(s,
                       "%s of %s makes more than %d virtual threads of one "
                       "thread",
                       l->name, name, MAX_VTHREADS);
  }
  return true;
}

static bool
check_stage(struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int64_t threads = 1;
  for (int i = 0; i < ss->norder; i++) {
    const struct tt_loop *l = &ss->loops[ss->order[i]];
    if (!is_bound(l->kind))
      continue;
    if (!check_loop(s, stage, i))
      return false;
    if (tt_is_block(l->kind))
      continue;
    threads *= l->extent;
    if (threads > MAX_THREADS)
      return tt_refuse(s,
                       "the loops of %s that are bound to threads have more "
                       "than %d iterations",
                       tt_stage_name(s, stage), MAX_THREADS);
    const struct tt_loop *outer = around(s, stage);
    if (outer)
      return tt_refuse(s,
                       "%s of %s cannot be bound to %s inside the loop %s, "
                       "which is bound to %s",
                       l->name, tt_stage_name(s, stage), tt_bound_name(l->kind),
                       outer->name, tt_bound_name(outer->kind));
  }
  return check_between(s, stage) && check_vthreads(s, stage);
}

bool
tt_check_bound(struct tt_schedule *s)
{
  for (int i = 0; i < s->nstages; i++)
    if (s->stages[i].place != TT_INLINE &&
        ((s->nbound > 0 && !check_stage(s, i)) || !tt_check_warps(s, i)))
      return false;
  return true;
}

bool
tt_bind(struct tt_schedule *s, int stage, int loop, enum tt_for_kind kind)
{
  s->nbound++;
  if (!tt_set_kind(s, stage, loop, kind, 0)) {
    s->nbound--;
    return false;
  }
  tt_record(s, stage, "bind", "ls", s->stages[stage].loops[loop].name,
            tt_bound_name(kind));
  return true;
}

bool
tt_vthread(struct tt_schedule *s, int stage, int loop)
{
  if (!tt_need_leaf(s, stage, loop))
    return false;
  struct tt_stage_schedule *ss = &s->stages[stage], old = *ss;
  s->nbound++;
  ss->loops[loop].vthread = true;
  if (!tt_set_kind(s, stage, loop, TT_UNROLL, 0)) {
    *ss = old;
    s->nbound--;
    return false;
  }
  tt_record(s, stage, "bind", "ls", ss->loops[loop].name, "vthread");
  return true;
}
