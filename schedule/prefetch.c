/* prefetch: what a later iteration of a loop uses is named at the top of an
 * earlier one's body, a cache line at a time.
 *
 * Invariant: no value depends on it.  Lines are counted from the first element
 * of the region's rows, wherever that lies in its line, and may be outside the
 * tensor at the loop's end.
 */
#include "config.h"

#include "ir/passes.h"
#include "schedule/lower.h"

#include <string.h>

#define LINE_BYTES 64
/* More lines than this at once only push others out. */
#define MAX_LINES 1024
/* So many are written out; more are a loop. */
#define MAX_STRAIGHT 32

/* ---- the primitive ----------------------------------------------------- */

/* The cache, or else the tensor of a name; what the stage neither reads nor
 * writes is refused. */
static bool
find_target(struct tt_schedule *s, int stage, const char *name,
            struct tt_prefetch_of *p)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  p->cache = -1;
  for (int c = 0; c < ss->ncaches; c++)
    if (strcmp(ss->caches[c].name, name) == 0) {
      p->cache = c;
      p->tensor = ss->caches[c].tensor;
      return true;
    }
  for (int i = 0; i < s->program->ntensors; i++)
    if (strcmp(s->program->tensors[i]->name, name) == 0)
      p->tensor = s->program->tensors[i];
  if (!p->tensor)
    return tt_refuse(s, "no tensor or cache '%s'", name);
  if (p->tensor != ss->stage->out && !tt_stage_reads(ss, p->tensor))
    return tt_refuse(s, "%s does not use %s", tt_stage_name(s, stage), name);
  return true;
}

bool
tt_prefetch_at(struct tt_schedule *s, int stage, const char *what, int loop,
               int64_t distance)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  struct tt_prefetch_of p = {.loop = loop, .distance = distance};
  if (ss->place == TT_INLINE)
    return tt_refuse(s, "%s is inlined", tt_stage_name(s, stage));
  if (!tt_need_leaf(s, stage, loop) || !find_target(s, stage, what, &p))
    return false;
  if (distance < 0 || distance > 1000000)
    return tt_refuse(s, "a distance of %lld iterations: must be 0..1000000",
                     (long long)distance);
  if (ss->nprefetches == TT_MAX_PREFETCHES)
    return tt_refuse(s, "%s already has %d prefetches", tt_stage_name(s, stage),
                     TT_MAX_PREFETCHES);
  ss->prefetches[ss->nprefetches++] = p;
  if (!tt_check_stage(s, stage)) {
    ss->nprefetches--;
    return false;
  }
  tt_record(s, stage, "prefetch", "lli", what, ss->loops[loop].name, distance);
  return true;
}

/* ---- lowering ---------------------------------------------------------- */

/* What one iteration uses: so many elements of each dimension from a place
 * on. */
struct region {
  const struct tt_tensor *tensor;
  const struct tt_expr *base[TT_MAX_DIMS];
  int64_t extent[TT_MAX_DIMS];
};

/* The part of a packed block. */
static bool
packed_region(struct tt_inst *in, const struct tt_prefetch_of *p,
              struct region *r)
{
  const struct tt_cache_read *c = &in->ss->caches[p->cache];
  r->tensor = in->cache[p->cache];
  for (int d = 0; d < c->nlayout; d++) {
    int h = c->layout[d];
    bool entered = in->val[h] != NULL;
    r->base[d] =
        entered ? tt_lw_layout_index(in, h) : tt_idx(in->lw->arena, in->lo[h]);
    r->extent[d] = entered ? 1 : tt_max_extent(in, h);
  }
  return true;
}

/* (Sums that another stage takes from the registers are stored nowhere.) */
static bool
own_result(struct tt_inst *in, struct region *r)
{
  if (in->ss->finish >= 0)
    return false;
  r->tensor = in->target;
  for (int d = 0; d < in->target->ndim; d++) {
    struct tt_range x = tt_loop_range(in, d);
    if (!x.ok)
      return false;
    r->base[d] = x.base;
    r->extent[d] = x.extent;
  }
  return true;
}

/* Of a tensor that is read, through what stands for it here. */
static bool
read_region(struct tt_inst *in, const struct tt_tensor *t, struct region *r)
{
  if (!tt_stage_reads(in->ss, t) ||
      !tt_own_region(in, t, false, r->base, r->extent))
    return false;
  struct tt_place_values p = {.in = in, .skip_cache = -1};
  const struct tt_expr *e =
      tt_lw_at_place(&p, tt_load(in->lw->arena, t, t->ndim, r->base));
  if (e->kind != TT_LOAD || e->tensor->ndim != t->ndim)
    return false;
  r->tensor = e->tensor;
  for (int d = 0; d < t->ndim; d++)
    r->base[d] = e->args[d];
  return true;
}

static bool
find_region(struct tt_inst *in, const struct tt_prefetch_of *p,
            struct region *r)
{
  if (p->cache >= 0 && in->ss->caches[p->cache].nlayout)
    return in->cache[p->cache] && packed_region(in, p, r);
  if (p->tensor == in->ss->stage->out)
    return own_result(in, r);
  /* Where a packed copy is read, the tensor itself is not. */
  for (int c = 0; c < in->ss->ncaches; c++)
    if (in->cache[c] && in->ss->caches[c].nlayout &&
        in->ss->caches[c].tensor == p->tensor)
      return false;
  return read_region(in, p->tensor, r);
}

/* A prefetch of every line of the region. */
static const struct tt_stmt *
lines_of(struct tt_inst *in, const struct region *r)
{
  struct tt_lowering *lw = in->lw;
  struct tt_arena *ar = lw->arena;
  int n = r->tensor->ndim;
  int64_t per = LINE_BYTES / tt_dtype_bytes(r->tensor->dtype), lines = 1;
  int64_t count[TT_MAX_DIMS];
  for (int d = 0; d < n; d++) {
    count[d] = d == n - 1 ? (r->extent[d] + per - 1) / per : r->extent[d];
    if (count[d] > MAX_LINES || lines * count[d] > MAX_LINES) {
      lw->error = tt_arena_printf(ar, "a prefetch of %s has more than %d lines",
                                  r->tensor->name, MAX_LINES);
      return NULL;
    }
    lines *= count[d];
  }
  const struct tt_expr *idx[TT_MAX_DIMS];
  const struct tt_var *vars[TT_MAX_DIMS] = {NULL};
  for (int d = 0; d < n; d++) {
    idx[d] = r->base[d];
    if (count[d] == 1)
      continue;
    struct tt_var *v = TT_NEW(ar, struct tt_var);
    *v = (struct tt_var){.name = d == n - 1 ? "line" : "row",
                         .extent = count[d],
                         .id = lw->nvars++};
    vars[d] = v;
    idx[d] = tt_iadd(ar, idx[d],
                     tt_imul(ar, tt_var_ref(ar, v), d == n - 1 ? per : 1));
  }
  const struct tt_stmt *st = tt_prefetch(ar, r->tensor, n, idx);
  for (int d = n - 1; d >= 0; d--)
    if (vars[d])
      st = tt_for(ar, lines <= MAX_STRAIGHT ? TT_UNROLL : TT_SERIAL, 0, vars[d],
                  st);
  return st;
}

const struct tt_stmt *
tt_lw_prefetch(struct tt_inst *in, const struct tt_prefetch_of *p)
{
  struct region r;
  const struct tt_expr *now = in->val[p->loop];
  /* (Nothing comes after the only iteration of a tail.) */
  if (p->distance > 0 && tt_max_extent(in, p->loop) == 1)
    return NULL;
  in->val[p->loop] =
      tt_iadd(in->lw->arena, now, tt_idx(in->lw->arena, p->distance));
  bool found = find_region(in, p, &r);
  in->val[p->loop] = now;
  /* What is in registers, or as good as there, needs none. */
  if (!found || r.tensor->ndim == 0 ||
      (r.tensor->role == TT_LOCAL && r.tensor->scope == TT_REGISTER))
    return NULL;
  return lines_of(in, &r);
}
