/* The state of a schedule: its creation, lookups, and the invariants that
 * every primitive must keep.
 *
 * Invariant: `order` holds exactly the loops without children, each once.
 */
#include "config.h"

#include "schedule/state.h"

#include <stdarg.h>
#include <string.h>

const char *
tt_stage_name(const struct tt_schedule *s, int stage)
{
  return s->stages[stage].stage->out->name;
}

bool
tt_refuse(struct tt_schedule *s, const char *fmt, ...)
{
  struct tt_sb sb = {0};
  va_list ap;
  va_start(ap, fmt);
  tt_sb_vprintf(&sb, fmt, ap);
  va_end(ap);
  s->error = tt_arena_strdup(s->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return false;
}

void
tt_record(struct tt_schedule *s, int stage, const char *primitive,
          const char *fmt, ...)
{
  if (s->ncalls == s->capcalls) {
    int cap = s->capcalls ? 2 * s->capcalls : 32;
    struct tt_scall *grown = TT_ARRAY(s->arena, struct tt_scall, (size_t)cap);
    if (s->ncalls)
      memcpy(grown, s->calls, (size_t)s->ncalls * sizeof *grown);
    s->calls = grown;
    s->capcalls = cap;
  }
  struct tt_scall *call = &s->calls[s->ncalls++];
  call->stage = tt_stage_name(s, stage);
  call->primitive = primitive;
  int n = 0;
  for (const char *f = fmt; *f; f++)
    n += *f != 'k';
  struct tt_sarg *args = TT_ARRAY(s->arena, struct tt_sarg, (size_t)n);
  va_list ap;
  va_start(ap, fmt);
  int i = 0;
  const char *key = NULL;
  for (const char *f = fmt; *f; f++) {
    if (*f == 'k') {
      key = va_arg(ap, const char *);
      continue;
    }
    args[i].key = key;
    key = NULL;
    if (*f == 'i') {
      args[i].kind = TT_SARG_INT;
      args[i].ival = va_arg(ap, int64_t);
    } else {
      args[i].kind = *f == 's' ? TT_SARG_STR : TT_SARG_ID;
      args[i].str = va_arg(ap, const char *);
    }
    i++;
  }
  va_end(ap);
  call->nargs = n;
  call->args = args;
}

int
tt_position(const struct tt_stage_schedule *ss, int loop)
{
  for (int i = 0; i < ss->norder; i++)
    if (ss->order[i] == loop)
      return i;
  return -1;
}

bool
tt_need_leaf(struct tt_schedule *s, int stage, int loop)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  if (ss->place == TT_FINISH)
    return tt_refuse(s, "%s finishes %s and has no loops of its own",
                     tt_stage_name(s, stage), tt_stage_name(s, ss->at_stage));
  if (loop >= 0 && loop < ss->nloops && ss->loops[loop].child[0] < 0)
    return true;
  if (loop < 0 || loop >= ss->nloops)
    return tt_refuse(s, "no such loop in %s", tt_stage_name(s, stage));
  return tt_refuse(s, "%s of %s was split or fused", ss->loops[loop].name,
                   tt_stage_name(s, stage));
}

int
tt_add_loop(struct tt_schedule *s, int stage, const char *name)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (ss->nloops == TT_MAX_LOOPS) {
    tt_refuse(s, "%s has more than %d loops", tt_stage_name(s, stage),
              TT_MAX_LOOPS);
    return -1;
  }
  int i = ss->nloops++;
  ss->loops[i] = (struct tt_loop){
      .name = name, .child = {-1, -1}, .parent = -1, .other = -1};
  return i;
}

void
tt_init_stage(struct tt_stage_schedule *ss, const struct tt_stage *stage)
{
  *ss = (struct tt_stage_schedule){.stage = stage};
  ss->value = stage->value;
  ss->where = stage->where;
  ss->cache_write = TT_NO_CACHE;
  ss->at_stage = ss->at_loop = ss->finish = -1;
  int n = stage->nspatial + stage->nreduce;
  for (int i = 0; i < n; i++) {
    bool reduce = i >= stage->nspatial;
    const struct tt_var *axis =
        reduce ? stage->reduce[i - stage->nspatial] : stage->spatial[i];
    ss->loops[i] = (struct tt_loop){.name = axis->name,
                                    .node = TT_AXIS,
                                    .reduce = reduce,
                                    .axis = axis,
                                    .parent = -1,
                                    .other = -1,
                                    .child = {-1, -1},
                                    .extent = axis->extent};
    ss->order[i] = i;
  }
  ss->nloops = ss->norder = n;
}

struct tt_schedule *
tt_schedule_new(struct tt_arena *arena, const struct tt_program *program,
                bool strict_fp)
{
  struct tt_schedule *s = TT_NEW(arena, struct tt_schedule);
  s->program = program;
  s->arena = arena;
  s->strict_fp = strict_fp;
  s->nstages = program->nstages;
  s->stages =
      TT_ARRAY(arena, struct tt_stage_schedule, (size_t)program->nstages);
  for (int i = 0; i < s->nstages; i++)
    tt_init_stage(&s->stages[i], program->stages[i]);
  return s;
}

int
tt_find_stage(const struct tt_schedule *s, const char *name)
{
  for (int i = 0; i < s->nstages; i++)
    if (strcmp(tt_stage_name(s, i), name) == 0)
      return i;
  return -1;
}

int
tt_find_loop(const struct tt_schedule *s, int stage, const char *name)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  for (int i = 0; i < ss->norder; i++)
    if (strcmp(ss->loops[ss->order[i]].name, name) == 0)
      return ss->order[i];
  return -1;
}

bool
tt_sum_rounds(const struct tt_stage *st)
{
  return tt_dtype_is_float(st->out->dtype) &&
         (st->red == TT_RED_SUM || st->red == TT_RED_PROD);
}

bool
tt_loop_uses_axis(const struct tt_stage_schedule *ss, int loop,
                  const struct tt_var *axis)
{
  const struct tt_loop *l = &ss->loops[loop];
  switch (l->node) {
  case TT_AXIS:
    return l->axis == axis;
  case TT_SPLIT_OUTER:
  case TT_SPLIT_INNER:
    return tt_loop_uses_axis(ss, l->parent, axis);
  case TT_FUSED:
    return tt_loop_uses_axis(ss, l->fused_outer, axis) ||
           tt_loop_uses_axis(ss, l->fused_inner, axis);
  }
  return false;
}

bool
tt_stage_reads(const struct tt_stage_schedule *ss,
               const struct tt_tensor *tensor)
{
  return tt_expr_uses_tensor(ss->value, tensor) ||
         (ss->where && tt_expr_uses_tensor(ss->where, tensor));
}

/* ---- invariants -------------------------------------------------------- */

/* A vectorized reduction loop sums each lane for itself: it needs
 * accumulators around it, and a sum that may be reordered. */
static bool
vector_accumulates(struct tt_schedule *s, int stage, int position)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  const char *name = ss->loops[ss->order[position]].name;
  int at =
      ss->cache_write == TT_OUTSIDE ? -1 : tt_position(ss, ss->cache_write);
  if (ss->cache_write == TT_NO_CACHE || at >= position)
    return tt_refuse(s,
                     "%s is a reduction loop of %s: it can be vectorized only "
                     "inside accumulators (cache_write)",
                     name, tt_stage_name(s, stage));
  if (s->strict_fp && tt_sum_rounds(ss->stage))
    return tt_refuse(s,
                     "--strict-fp: vectorizing %s in %s would change the order "
                     "of the sum",
                     name, tt_stage_name(s, stage));
  return true;
}

/* Nothing but plain and unrolled loops stands inside a vector loop, and
 * only spatial loops are parallel. */
static bool
check_kinds(struct tt_schedule *s, int stage)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  int vector = -1, parallel = -1;
  for (int i = 0; i < ss->norder; i++) {
    const struct tt_loop *l = &ss->loops[ss->order[i]];
    if (l->kind != TT_VECTOR && l->kind != TT_PARALLEL)
      continue;
    if (l->reduce && l->kind == TT_PARALLEL)
      return tt_refuse(s,
                       "%s is a reduction loop of %s: only spatial loops "
                       "can be parallel",
                       l->name, tt_stage_name(s, stage));
    if (l->reduce && !vector_accumulates(s, stage, i))
      return false;
    if (vector >= 0)
      return tt_refuse(s, "%s is inside the vectorized loop %s of %s", l->name,
                       ss->loops[vector].name, tt_stage_name(s, stage));
    if (l->kind == TT_PARALLEL && parallel >= 0)
      return tt_refuse(s, "%s and %s of %s are both parallel; fuse them",
                       ss->loops[parallel].name, l->name,
                       tt_stage_name(s, stage));
    if (l->kind == TT_VECTOR)
      vector = ss->order[i];
    else
      parallel = ss->order[i];
  }
  return true;
}

bool
tt_comes_from(const struct tt_stage_schedule *ss, int loop, int ancestor)
{
  if (loop == ancestor)
    return true;
  const struct tt_loop *l = &ss->loops[loop];
  if (l->node == TT_FUSED)
    return tt_comes_from(ss, l->fused_outer, ancestor) ||
           tt_comes_from(ss, l->fused_inner, ancestor);
  return l->parent >= 0 && tt_comes_from(ss, l->parent, ancestor);
}

/* Is a part of the loop inside accumulators (after position acc)? */
static bool
reaches_inside(const struct tt_stage_schedule *ss, int loop, int acc)
{
  for (int i = acc + 1; i < ss->norder; i++)
    if (tt_comes_from(ss, ss->order[i], loop))
      return true;
  return false;
}

/* A shifted tile computes some points twice.  Inside accumulators, with all
 * loops of the axis, that does no harm, as each copy has its own; otherwise
 * the whole reduction of a point must stand inside the shifted loop. */
static bool
check_shift(struct tt_schedule *s, int stage)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (!ss->stage->nreduce)
    return true;
  int first = ss->norder, acc = ss->norder;
  if (ss->cache_write != TT_NO_CACHE)
    acc = ss->cache_write == TT_OUTSIDE ? -1 : tt_position(ss, ss->cache_write);
  for (int i = ss->norder - 1; i >= 0; i--)
    if (ss->loops[ss->order[i]].reduce)
      first = i;
  for (int h = 0; h < ss->nloops; h++) {
    const struct tt_loop *l = &ss->loops[h];
    /* (Whether it divides depends on the piece and the place.) */
    if (l->node != TT_SPLIT_OUTER || l->tail != TT_TAIL_SHIFT)
      continue;
    for (int i = 0; i < ss->norder; i++)
      if (tt_comes_from(ss, ss->order[i], h) &&
          ss->loops[ss->order[i]].kind == TT_PARALLEL)
        return tt_refuse(s,
                         "%s of %s cannot be parallel: two threads would "
                         "sum into its shifted tail",
                         ss->loops[ss->order[i]].name, tt_stage_name(s, stage));
    if (l->reduce)
      return tt_refuse(s,
                       "%s is a reduction loop of %s: a shifted tail would "
                       "add some points twice",
                       l->name, tt_stage_name(s, stage));
    int whole = reaches_inside(ss, h, acc) ? l->parent : h;
    for (int i = first; i < ss->norder && i <= acc; i++)
      if (tt_comes_from(ss, ss->order[i], whole))
        return tt_refuse(s,
                         "reduction loop %s of %s is outside %s, whose "
                         "tail is shifted",
                         ss->loops[ss->order[first]].name,
                         tt_stage_name(s, stage), l->name);
  }
  return true;
}

/* With strict_fp the reduction loops of a float sum or product keep the order
 * of the source: axes in order, every outer loop outside its inner one. */
static bool
check_strict(struct tt_schedule *s, int stage)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_stage *st = ss->stage;
  if (!s->strict_fp || !tt_sum_rounds(st))
    return true;
  /* The natural order is a walk of the split trees, outer before inner. */
  int natural[TT_MAX_LOOPS], n = 0, stack[TT_MAX_LOOPS], top = 0;
  for (int i = st->nspatial + st->nreduce - 1; i >= st->nspatial; i--)
    stack[top++] = i;
  while (top) {
    int h = stack[--top];
    const struct tt_loop *l = &ss->loops[h];
    if (l->child[0] < 0) {
      if (n == 0 || natural[n - 1] != h)
        natural[n++] = h;
    } else if (l->child[0] == l->child[1]) {
      stack[top++] = l->child[0];
    } else {
      stack[top++] = l->child[1];
      stack[top++] = l->child[0];
    }
  }
  int k = 0;
  for (int i = 0; i < ss->norder; i++) {
    if (!ss->loops[ss->order[i]].reduce)
      continue;
    if (k >= n || natural[k] != ss->order[i])
      return tt_refuse(s,
                       "--strict-fp: the order of %s in %s would change the "
                       "order of the sum",
                       ss->loops[ss->order[i]].name, tt_stage_name(s, stage));
    k++;
  }
  return true;
}

/* Position of the first vector loop, or norder. */
static int
vector_position(const struct tt_stage_schedule *ss)
{
  for (int i = 0; i < ss->norder; i++)
    if (ss->loops[ss->order[i]].kind == TT_VECTOR)
      return i;
  return ss->norder;
}

/* Is the access of a cache determined by loops outside it and its layout? */
static bool
check_layout(struct tt_schedule *s, int stage, const struct tt_cache_read *c)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  int at = c->loop == TT_OUTSIDE ? -1 : tt_position(ss, c->loop);
  for (int i = at + 1; i < ss->norder; i++) {
    int h = ss->order[i];
    bool used = false, listed = false;
    for (int a = 0; a < ss->nloops && !used; a++)
      if (ss->loops[a].node == TT_AXIS &&
          tt_loop_uses_axis(ss, h, ss->loops[a].axis))
        used = tt_expr_uses_var(c->access, ss->loops[a].axis);
    for (int j = 0; j < c->nlayout; j++)
      listed |= c->layout[j] == h;
    if (used && !listed)
      return tt_refuse(s, "the layout of %s in %s lacks loop %s", c->name,
                       tt_stage_name(s, stage), ss->loops[h].name);
  }
  for (int j = 0; j < c->nlayout; j++)
    if (tt_position(ss, c->layout[j]) <= at)
      return tt_refuse(s,
                       "%s is in the layout of %s but not a loop of %s "
                       "inside %s",
                       ss->loops[c->layout[j]].name, c->name,
                       tt_stage_name(s, stage),
                       at < 0 ? "root" : ss->loops[c->loop].name);
    else if (ss->loops[c->layout[j]].node == TT_FUSED)
      return tt_refuse(s, "fused loop %s of %s cannot index cache %s",
                       ss->loops[c->layout[j]].name, tt_stage_name(s, stage),
                       c->name);
  return true;
}

/* A cache of a stage that is computed inside this one can only be filled where
 * that stage was computed, or further in. */
static bool
check_filled_late(struct tt_schedule *s, int stage,
                  const struct tt_cache_read *c, int at)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  for (int i = 0; i < stage && ss->attached; i++) {
    const struct tt_stage_schedule *p = &s->stages[i];
    if (p->place != TT_AT || p->at_stage != stage ||
        p->stage->out != c->tensor || p->at_loop == TT_OUTSIDE)
      continue;
    if (tt_position(ss, p->at_loop) > at)
      return tt_refuse(s,
                       "cache %s of %s is filled outside loop %s, in which %s "
                       "is computed",
                       c->name, tt_stage_name(s, stage),
                       ss->loops[p->at_loop].name, c->tensor->name);
  }
  return true;
}

static bool
check_caches(struct tt_schedule *s, int stage)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  int vector = vector_position(ss);
  for (int i = 0; i < ss->ncaches; i++) {
    const struct tt_cache_read *c = &ss->caches[i];
    int at = c->loop == TT_OUTSIDE ? -1 : tt_position(ss, c->loop);
    if (c->loop != TT_OUTSIDE && at < 0)
      return tt_refuse(s, "%s of %s holds cache %s and is no longer a loop",
                       ss->loops[c->loop].name, tt_stage_name(s, stage),
                       c->name);
    if (at >= vector)
      return tt_refuse(s, "cache %s of %s stands inside a vectorized loop",
                       c->name, tt_stage_name(s, stage));
    if (c->nlayout && !check_layout(s, stage, c))
      return false;
    if (c->staging.stages > 1 && ss->loops[c->loop].kind != TT_SERIAL)
      return tt_refuse(s,
                       "%s of %s does not run one iteration after the other: "
                       "%s cannot be copied ahead",
                       ss->loops[c->loop].name, tt_stage_name(s, stage),
                       c->name);
    if (!check_filled_late(s, stage, c, at))
      return false;
  }
  if (ss->cache_write == TT_NO_CACHE)
    return true;
  int at =
      ss->cache_write == TT_OUTSIDE ? -1 : tt_position(ss, ss->cache_write);
  if (ss->cache_write != TT_OUTSIDE && at < 0)
    return tt_refuse(s,
                     "%s of %s holds the accumulators and is no longer a "
                     "loop",
                     ss->loops[ss->cache_write].name, tt_stage_name(s, stage));
  if (at >= vector)
    return tt_refuse(s, "the accumulators of %s stand inside a vectorized loop",
                     tt_stage_name(s, stage));
  for (int i = at + 1; i < ss->norder; i++) {
    const struct tt_loop *l = &ss->loops[ss->order[i]];
    if (!l->reduce && l->node == TT_FUSED)
      return tt_refuse(s, "fused loop %s of %s cannot index accumulators",
                       l->name, tt_stage_name(s, stage));
  }
  return true;
}

/* Prefetches stand outside vector loops, where what they name is alive. */
static bool
check_prefetches(struct tt_schedule *s, int stage)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  int vector = vector_position(ss);
  for (int i = 0; i < ss->nprefetches; i++) {
    const struct tt_prefetch_of *p = &ss->prefetches[i];
    const struct tt_cache_read *c = p->cache < 0 ? NULL : &ss->caches[p->cache];
    int at = tt_position(ss, p->loop);
    if (at < 0)
      return tt_refuse(s, "%s of %s holds a prefetch and is no longer a loop",
                       ss->loops[p->loop].name, tt_stage_name(s, stage));
    if (at >= vector)
      return tt_refuse(s, "a prefetch of %s stands inside a vectorized loop",
                       tt_stage_name(s, stage));
    if (c && c->loop != TT_OUTSIDE && tt_position(ss, c->loop) > at)
      return tt_refuse(s, "cache %s of %s is not filled yet in loop %s",
                       c->name, tt_stage_name(s, stage),
                       ss->loops[p->loop].name);
  }
  return true;
}

/* Does stage `i` run inside loop `loop` of `consumer`: itself, or computed at
 * that loop or deeper? */
bool
tt_runs_inside(const struct tt_schedule *s, int i, int consumer, int loop)
{
  while (i != consumer) {
    const struct tt_stage_schedule *ss = &s->stages[i];
    if (ss->place != TT_AT)
      return false;
    if (ss->at_stage == consumer) {
      const struct tt_stage_schedule *c = &s->stages[consumer];
      int at = ss->at_loop == TT_OUTSIDE ? -1 : tt_position(c, ss->at_loop);
      int want = loop == TT_OUTSIDE ? -1 : tt_position(c, loop);
      return at >= want;
    }
    i = ss->at_stage;
  }
  return true;
}

/* Where stages are computed inside this one. */
static bool
check_attached(struct tt_schedule *s, int stage)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  int vector = vector_position(ss);
  for (int i = 0; i < stage && ss->attached; i++) {
    const struct tt_stage_schedule *p = &s->stages[i];
    if (p->place != TT_AT || p->at_stage != stage)
      continue;
    int at = p->at_loop == TT_OUTSIDE ? -1 : tt_position(ss, p->at_loop);
    if (p->at_loop != TT_OUTSIDE && at < 0)
      return tt_refuse(s,
                       "%s is computed at %s of %s, which is no longer a "
                       "loop",
                       p->stage->out->name, ss->loops[p->at_loop].name,
                       tt_stage_name(s, stage));
    if (at >= vector)
      return tt_refuse(s, "%s is computed inside the vectorized loop %s of %s",
                       p->stage->out->name, ss->loops[ss->order[vector]].name,
                       tt_stage_name(s, stage));
    for (int j = i + 1; j < s->nstages; j++)
      if (s->stages[j].place != TT_INLINE &&
          tt_stage_reads(&s->stages[j], p->stage->out) &&
          !tt_runs_inside(s, j, stage, p->at_loop))
        return tt_refuse(s, "%s is read by %s, outside loop %s of %s",
                         p->stage->out->name, tt_stage_name(s, j),
                         at < 0 ? "root" : ss->loops[p->at_loop].name,
                         tt_stage_name(s, stage));
  }
  return true;
}

/* What takes the sums from the accumulators runs in the last of the
 * reduction's iterations outside them: which one that is must be plain. */
static bool
check_finish(struct tt_schedule *s, int stage)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (ss->finish < 0)
    return true;
  int at =
      ss->cache_write == TT_OUTSIDE ? -1 : tt_position(ss, ss->cache_write);
  for (int i = 0; i <= at; i++) {
    if (!ss->loops[ss->order[i]].reduce)
      continue;
    for (int h = ss->order[i]; h >= 0; h = ss->loops[h].parent)
      if (ss->loops[h].node == TT_FUSED ||
          (ss->loops[h].node != TT_AXIS && ss->loops[h].tail != TT_TAIL_PEEL))
        return tt_refuse(s,
                         "reduction loop %s of %s is fused or has no plain "
                         "tail, and is outside the accumulators that %s "
                         "finishes",
                         ss->loops[ss->order[i]].name, tt_stage_name(s, stage),
                         tt_stage_name(s, ss->finish));
  }
  return true;
}

bool
tt_is_permutation(int n, const int *dims, int ndim)
{
  unsigned seen = 0;
  for (int i = 0; i < n; i++)
    seen |= dims[i] >= 0 && dims[i] < ndim ? 1u << dims[i] : 0;
  return n == ndim && seen == (1u << ndim) - 1;
}

bool
tt_check_stage(struct tt_schedule *s, int stage)
{
  return check_finish(s, stage) && check_kinds(s, stage) &&
         check_shift(s, stage) && check_strict(s, stage) &&
         check_caches(s, stage) && check_prefetches(s, stage) &&
         check_attached(s, stage) && tt_check_shrink(s, stage) &&
         tt_check_tile(s, stage) && tt_check_bound(s);
}
