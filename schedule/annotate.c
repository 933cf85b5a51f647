/* Primitives that say how a loop runs: unroll, vectorize, parallel. (bind is
 * in bind.c.) */
#include "config.h"

#include "schedule/state.h"

#include <string.h>

/* A longer unrolled loop makes code that no compiler handles well. */
#define MAX_UNROLL 512

bool
tt_set_kind(struct tt_schedule *s, int stage, int loop, enum tt_for_kind kind,
            int lanes)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (!tt_need_leaf(s, stage, loop))
    return false;
  struct tt_loop *l = &ss->loops[loop];
  if (l->kind != TT_SERIAL)
    return tt_refuse(
        s, "%s of %s is already unrolled, vectorized, parallel or bound",
        l->name, tt_stage_name(s, stage));
  int order[TT_MAX_LOOPS];
  memcpy(order, ss->order, sizeof order);
  l->kind = kind;
  l->lanes = lanes;
  tt_sink_vthreads(ss);
  if (tt_check_stage(s, stage))
    return true;
  memcpy(ss->order, order, sizeof order);
  l->kind = TT_SERIAL;
  l->lanes = 0;
  return false;
}

bool
tt_unroll(struct tt_schedule *s, int stage, int loop)
{
  if (!tt_need_leaf(s, stage, loop))
    return false;
  const struct tt_loop *l = &s->stages[stage].loops[loop];
  if (l->extent > MAX_UNROLL)
    return tt_refuse(s, "%s of %s has %lld iterations; at most %d are unrolled",
                     l->name, tt_stage_name(s, stage), (long long)l->extent,
                     MAX_UNROLL);
  if (!tt_set_kind(s, stage, loop, TT_UNROLL, 0))
    return false;
  tt_record(s, stage, "unroll", "l", l->name);
  return true;
}

bool
tt_vectorize(struct tt_schedule *s, int stage, int loop, int lanes)
{
  if (!tt_need_leaf(s, stage, loop))
    return false;
  const struct tt_loop *l = &s->stages[stage].loops[loop];
  if (lanes < 2 || lanes > 64 || (lanes & (lanes - 1)))
    return tt_refuse(s, "%d lanes for %s of %s: must be a power of two, 2..64",
                     lanes, l->name, tt_stage_name(s, stage));
  if (l->extent > (int64_t)MAX_UNROLL * lanes)
    return tt_refuse(s,
                     "%s of %s has %lld iterations: split it before "
                     "vectorizing (at most %d vectors are unrolled)",
                     l->name, tt_stage_name(s, stage), (long long)l->extent,
                     MAX_UNROLL);
  if (!tt_set_kind(s, stage, loop, TT_VECTOR, lanes))
    return false;
  tt_record(s, stage, "vectorize", "li", l->name, (int64_t)lanes);
  return true;
}

bool
tt_parallel(struct tt_schedule *s, int stage, int loop)
{
  if (!tt_set_kind(s, stage, loop, TT_PARALLEL, 0))
    return false;
  tt_record(s, stage, "parallel", "l", s->stages[stage].loops[loop].name);
  return true;
}
