/* Primitives for caches: cache_read (packing in any layout) and cache_write
 * (register accumulators). */
#include "config.h"

#include "ir/passes.h"
#include "schedule/state.h"

#include <string.h>

struct finder {
  const struct tt_tensor *tensor;
  const struct tt_expr *load;    /* the one access, or the first of several */
  const struct tt_expr *guarded; /* a select around exactly that load */
  bool several;
  int loads, guards;
};

static void
find_access(void *ctx, const struct tt_expr *e)
{
  struct finder *f = ctx;
  if (e->kind == TT_LOAD && e->tensor == f->tensor) {
    if (f->load && !tt_expr_equal(f->load, e))
      f->several = true;
    if (!f->load)
      f->load = e;
    f->loads++;
  }
  if (e->kind == TT_SELECT && e->a->kind == TT_LOAD &&
      e->a->tensor == f->tensor &&
      (e->b->kind == TT_FLT || e->b->kind == TT_INT)) {
    if (!f->guarded)
      f->guarded = e;
    if (tt_expr_equal(f->guarded, e))
      f->guards++;
  }
}

/* The loop-layout cache holds the value of one access, select included: two
 * different accesses of a tensor have no common layout by loops. */
static bool
one_access(struct tt_schedule *s, int stage, const struct tt_tensor *t,
           const struct tt_expr **access)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  struct finder f = {.tensor = t};
  tt_expr_visit(ss->value, find_access, &f);
  if (ss->where)
    tt_expr_visit(ss->where, find_access, &f);
  if (!f.load)
    return tt_refuse(s, "%s does not read %s", tt_stage_name(s, stage),
                     t->name);
  *access = f.guards == f.loads ? f.guarded : f.load;
  if (f.several)
    return tt_refuse(s,
                     "%s reads %s in more than one way: a layout by loops "
                     "needs one",
                     tt_stage_name(s, stage), t->name);
  /* A load that is only legal under a condition further out cannot be
   * evaluated ahead of it. */
  const struct tt_facts facts = {.cond = f.guarded ? f.guarded->c : NULL};
  bool guarded = *access == f.guarded;
  for (int d = 0; d < f.load->nargs; d++) {
    struct tt_interval in = tt_bounds(f.load->args[d], guarded ? &facts : NULL);
    if (!in.ok || in.lo < 0 || in.hi >= t->dims[d])
      return tt_refuse(s,
                       "%s reads %s under a condition: a layout by loops "
                       "would read outside it",
                       tt_stage_name(s, stage), t->name);
  }
  return true;
}

bool
tt_cache_read(struct tt_schedule *s, int stage, const struct tt_tensor *tensor,
              int loop, int nlayout, const int *layout, int lanes,
              const char *name)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (ss->place == TT_INLINE)
    return tt_refuse(s, "%s is inlined", tt_stage_name(s, stage));
  if (loop != TT_OUTSIDE && !tt_need_leaf(s, stage, loop))
    return false;
  if (ss->ncaches == TT_MAX_CACHES || nlayout > TT_MAX_DIMS)
    return tt_refuse(s, "too many caches or dimensions in %s",
                     tt_stage_name(s, stage));
  for (int i = 0; i < ss->ncaches; i++)
    if (ss->caches[i].tensor == tensor)
      return tt_refuse(s, "%s of %s is already cached as %s", tensor->name,
                       tt_stage_name(s, stage), ss->caches[i].name);
  if (lanes && (lanes < 2 || lanes > 64 || (lanes & (lanes - 1))))
    return tt_refuse(s, "%d lanes: must be a power of two, 2..64", lanes);
  struct tt_cache_read *c = &ss->caches[ss->ncaches];
  *c = (struct tt_cache_read){.name = name,
                              .tensor = tensor,
                              .loop = loop,
                              .nlayout = nlayout,
                              .lanes = lanes};
  if (nlayout) {
    if (!one_access(s, stage, tensor, &c->access))
      return false;
    memcpy(c->layout, layout, (size_t)nlayout * sizeof *layout);
  } else if (!tt_stage_reads(ss, tensor)) {
    return tt_refuse(s, "%s does not read %s", tt_stage_name(s, stage),
                     tensor->name);
  }
  for (int i = 0; i < nlayout; i++)
    if (!tt_need_leaf(s, stage, layout[i]))
      return false;
  ss->ncaches++;
  if (!tt_check_stage(s, stage)) {
    ss->ncaches--;
    return false;
  }
  struct tt_sb text = {0};
  for (int i = 0; i < nlayout; i++)
    tt_sb_printf(&text, "%s%s", i ? " " : "", ss->loops[layout[i]].name);
  const char *at = loop == TT_OUTSIDE ? "root" : ss->loops[loop].name;
  const char *lay = tt_arena_strdup(s->arena, tt_sb_str(&text));
  tt_sb_free(&text);
  if (nlayout && lanes)
    tt_record(s, stage, "cache_read", "llkskikl", tensor->name, at, "layout",
              lay, "vectorize", (int64_t)lanes, "name", name);
  else if (nlayout)
    tt_record(s, stage, "cache_read", "llkskl", tensor->name, at, "layout", lay,
              "name", name);
  else if (lanes)
    tt_record(s, stage, "cache_read", "llkikl", tensor->name, at, "vectorize",
              (int64_t)lanes, "name", name);
  else
    tt_record(s, stage, "cache_read", "llkl", tensor->name, at, "name", name);
  return true;
}

bool
tt_cache_write(struct tt_schedule *s, int stage, int loop)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (ss->stage->red == TT_RED_NONE)
    return tt_refuse(s, "%s is no reduction: it needs no accumulators",
                     tt_stage_name(s, stage));
  if (ss->cache_write != TT_NO_CACHE)
    return tt_refuse(s, "%s already has accumulators", tt_stage_name(s, stage));
  if (loop != TT_OUTSIDE && !tt_need_leaf(s, stage, loop))
    return false;
  ss->cache_write = loop;
  if (!tt_check_stage(s, stage)) {
    ss->cache_write = TT_NO_CACHE;
    return false;
  }
  tt_record(s, stage, "cache_write", "lks",
            loop == TT_OUTSIDE ? "root" : ss->loops[loop].name, "scope",
            "register");
  return true;
}
