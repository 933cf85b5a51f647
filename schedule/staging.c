/* The part of the primitive cache_read that speaks of a GPU's shared memory:
 * rows that are padded or swizzled, so that threads beside each other find
 * what they want in different banks, and copies made ahead of their use.
 *
 * Invariant: none of it changes what a nest computes.
 */
#include "config.h"

#include "schedule/state.h"

#include <string.h>

enum { MAX_PAD = 64, MAX_SWIZZLE = 64, MAX_STAGES = 4, MAX_ADDED = 3 };

static bool
check(struct tt_schedule *s, int stage, const struct tt_cache_read *c,
      const struct tt_staging *g)
{
  const char *at = tt_stage_name(s, stage);
  if (c->loop == TT_OUTSIDE)
    return tt_refuse(s,
                     "%s is copied outside of all loops of %s: it does not "
                     "lie in shared memory",
                     c->name, at);
  if (g->pad < 0 || g->pad > MAX_PAD)
    return tt_refuse(s, "pad=%d of %s: must be 0..%d", g->pad, c->name,
                     MAX_PAD);
  if (g->swizzle < 0 || g->swizzle > MAX_SWIZZLE ||
      (g->swizzle & (g->swizzle - 1)))
    return tt_refuse(s, "swizzle=%d of %s: must be 0 or a power of two, 1..%d",
                     g->swizzle, c->name, MAX_SWIZZLE);
  if (g->stages < 0 || g->stages > MAX_STAGES)
    return tt_refuse(s, "stages=%d of %s: must be 1..%d", g->stages, c->name,
                     MAX_STAGES);
  return true;
}

/* As arguments of the call that made the cache. */
static void
record(struct tt_schedule *s, const struct tt_staging *g)
{
  struct tt_scall *call = &s->calls[s->ncalls - 1];
  const struct {
    const char *key;
    int value;
  } added[MAX_ADDED] = {
      {"pad", g->pad}, {"swizzle", g->swizzle}, {"stages", g->stages}};
  struct tt_sarg *args =
      TT_ARRAY(s->arena, struct tt_sarg, (size_t)call->nargs + MAX_ADDED);
  memcpy(args, call->args, (size_t)call->nargs * sizeof *args);
  for (int i = 0; i < MAX_ADDED; i++)
    if (added[i].value)
      args[call->nargs++] = (struct tt_sarg){
          .key = added[i].key, .kind = TT_SARG_INT, .ival = added[i].value};
  call->args = args;
}

bool
tt_cache_staging(struct tt_schedule *s, int stage,
                 const struct tt_staging *staging)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  struct tt_cache_read *c = &ss->caches[ss->ncaches - 1];
  struct tt_staging before = c->staging;
  if (!check(s, stage, c, staging))
    return false;
  c->staging = *staging;
  if (!tt_check_stage(s, stage)) {
    c->staging = before;
    return false;
  }
  record(s, staging);
  return true;
}
