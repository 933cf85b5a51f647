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

struct safety {
  bool ok;
  const struct tt_facts *facts;
};

/* Is every read proven inside, by itself? */
static void
check_safe(void *ctx, const struct tt_expr *e)
{
  struct safety *s = ctx;
  for (int d = 0; s->ok && e->kind == TT_LOAD && d < e->nargs; d++) {
    struct tt_interval in = tt_bounds(e->args[d], s->facts);
    s->ok = in.ok && in.lo >= 0 && in.hi < e->tensor->dims[d];
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
  struct safety safe = {true, NULL};
  if (*access == f.guarded) {
    tt_expr_visit(f.guarded->c, check_safe, &safe);
    safe.facts = &facts;
  }
  tt_expr_visit(f.load, check_safe, &safe);
  if (!safe.ok)
    return tt_refuse(s,
                     "%s reads %s under a condition: a layout by loops would "
                     "read outside it",
                     tt_stage_name(s, stage), t->name);
  return true;
}

/* ---- padding ----------------------------------------------------------- */

/* Does `lhs op rhs`, where lhs - rhs == sign * (index + k), hold for every
 * 0 <= index < n? */
static bool
holds_inside(enum tt_binop op, int sign, int64_t k, int64_t n)
{
  bool at_least = sign > 0 ? op == TT_GE : op == TT_LE;
  bool above = sign > 0 ? op == TT_GT : op == TT_LT;
  bool at_most = sign > 0 ? op == TT_LE : op == TT_GE;
  bool below = sign > 0 ? op == TT_LT : op == TT_GT;
  return (at_least && k >= 0) || (above && k >= 1) ||
         (at_most && -k >= n - 1) || (below && -k >= n);
}

/* Is the condition implied by 0 <= index < dims? */
static bool
only_inside(struct tt_arena *ar, const struct tt_expr *cond,
            const struct tt_expr *load)
{
  if (cond->kind != TT_BINARY)
    return false;
  if (cond->op == TT_AND)
    return only_inside(ar, cond->a, load) && only_inside(ar, cond->b, load);
  if (cond->a->type.dtype != TT_I64)
    return false;
  const struct tt_expr *up = tt_isub(ar, cond->a, cond->b),
                       *down = tt_isub(ar, cond->b, cond->a);
  for (int d = 0; d < load->nargs; d++) {
    int64_t k, n = load->tensor->dims[d];
    if ((tt_const_difference(ar, up, load->args[d], &k) &&
         holds_inside(cond->op, 1, k, n)) ||
        (tt_const_difference(ar, down, load->args[d], &k) &&
         holds_inside(cond->op, -1, k, n)))
      return true;
  }
  return false;
}

const struct tt_expr *
tt_padding_value(struct tt_arena *ar, const struct tt_expr *e,
                 const struct tt_tensor *tensor)
{
  if (e->kind != TT_SELECT || e->a->kind != TT_LOAD || e->a->tensor != tensor ||
      (e->b->kind != TT_FLT && e->b->kind != TT_INT) ||
      !only_inside(ar, e->c, e->a))
    return NULL;
  return e->b;
}

struct padding {
  struct tt_arena *ar;
  const struct tt_tensor *tensor;
  const struct tt_expr *value;
  int loads, padded;
  bool differ;
};

static void
find_padding(void *ctx, const struct tt_expr *e)
{
  struct padding *p = ctx;
  if (e->kind == TT_LOAD && e->tensor == p->tensor)
    p->loads++;
  const struct tt_expr *v = tt_padding_value(p->ar, e, p->tensor);
  if (!v)
    return;
  p->padded++;
  p->differ |= p->value && !tt_expr_equal(p->value, v);
  p->value = v;
}

/* The value around the tensor, if all its reads agree on one; reads that stay
 * inside by themselves agree with any. */
static const struct tt_expr *
common_padding(struct tt_schedule *s, int stage, const struct tt_tensor *t)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  struct padding p = {.ar = s->arena, .tensor = t};
  tt_expr_visit(ss->value, find_padding, &p);
  if (ss->where)
    tt_expr_visit(ss->where, find_padding, &p);
  if (!p.padded)
    tt_refuse(s, "%s reads nothing outside %s: there is no border to copy",
              tt_stage_name(s, stage), t->name);
  else if (p.differ || p.padded != p.loads)
    tt_refuse(s, "the reads of %s in %s do not agree on the values outside it",
              t->name, tt_stage_name(s, stage));
  else
    return p.value;
  return NULL;
}

/* What all caches have in common; returns the new cache or NULL. */
static struct tt_cache_read *
new_cache(struct tt_schedule *s, int stage, const struct tt_tensor *tensor,
          int loop, int lanes, const char *name)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  bool ok = true;
  if (ss->place == TT_INLINE)
    ok = tt_refuse(s, "%s is inlined", tt_stage_name(s, stage));
  else if (ss->place == TT_FINISH)
    ok = tt_refuse(s, "%s finishes %s and has no loops of its own",
                   tt_stage_name(s, stage), tt_stage_name(s, ss->at_stage));
  else if (loop != TT_OUTSIDE && !tt_need_leaf(s, stage, loop))
    ok = false;
  else if (ss->ncaches == TT_MAX_CACHES)
    ok = tt_refuse(s, "%s already has %d caches", tt_stage_name(s, stage),
                   TT_MAX_CACHES);
  else if (lanes && (lanes < 2 || lanes > 64 || (lanes & (lanes - 1))))
    ok = tt_refuse(s, "%d lanes: must be a power of two, 2..64", lanes);
  else if (!tt_stage_reads(ss, tensor))
    ok = tt_refuse(s, "%s does not read %s", tt_stage_name(s, stage),
                   tensor->name);
  for (int i = 0; ok && i < ss->ncaches; i++)
    if (ss->caches[i].tensor == tensor)
      ok = tt_refuse(s, "%s of %s is already cached as %s", tensor->name,
                     tt_stage_name(s, stage), ss->caches[i].name);
  if (!ok)
    return NULL;
  struct tt_cache_read *c = &ss->caches[ss->ncaches];
  *c = (struct tt_cache_read){
      .name = name, .tensor = tensor, .loop = loop, .lanes = lanes};
  return c;
}

static const char *
loop_name(const struct tt_stage_schedule *ss, int loop)
{
  return loop == TT_OUTSIDE ? "root" : ss->loops[loop].name;
}

/* Keep the new cache if the stage's invariants hold with it. */
static bool
keep_cache(struct tt_schedule *s, int stage)
{
  s->stages[stage].ncaches++;
  if (tt_check_stage(s, stage))
    return true;
  s->stages[stage].ncaches--;
  return false;
}

bool
tt_cache_read(struct tt_schedule *s, int stage, const struct tt_tensor *tensor,
              int loop, int nlayout, const int *layout, int lanes,
              const char *name)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  struct tt_cache_read *c = new_cache(s, stage, tensor, loop, lanes, name);
  if (!c)
    return false;
  if (nlayout > TT_MAX_DIMS)
    return tt_refuse(s, "a layout has at most %d loops", TT_MAX_DIMS);
  if (nlayout && !one_access(s, stage, tensor, &c->access))
    return false;
  struct tt_sb text = {0};
  for (int i = 0; i < nlayout; i++) {
    c->layout[i] = layout[i];
    if (!tt_need_leaf(s, stage, layout[i]))
      break;
    c->nlayout++;
    tt_sb_printf(&text, "%s%s", i ? " " : "", ss->loops[layout[i]].name);
  }
  const char *lay = tt_arena_strdup(s->arena, tt_sb_str(&text));
  tt_sb_free(&text);
  if (c->nlayout != nlayout || !keep_cache(s, stage))
    return false;
  const char *at = loop_name(ss, loop);
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

/* "0 2 1" */
static const char *
dims_text(struct tt_arena *ar, int n, const int *dims)
{
  struct tt_sb text = {0};
  for (int i = 0; i < n; i++)
    tt_sb_printf(&text, "%s%d", i ? " " : "", dims[i]);
  const char *s = tt_arena_strdup(ar, tt_sb_str(&text));
  tt_sb_free(&text);
  return s;
}

static bool
set_dims(struct tt_schedule *s, struct tt_cache_read *c, int n, const int *dims)
{
  if (n && !tt_is_permutation(n, dims, c->tensor->ndim))
    return tt_refuse(s,
                     "a layout of the copy of %s names each of its dimensions "
                     "0..%d once",
                     c->tensor->name, c->tensor->ndim - 1);
  c->ndims = n;
  if (n)
    memcpy(c->dims, dims, (size_t)n * sizeof *dims);
  return true;
}

bool
tt_cache_dims(struct tt_schedule *s, int stage, const struct tt_tensor *tensor,
              int loop, int ndims, const int *dims, int lanes, const char *name)
{
  if (!ndims)
    return tt_cache_read(s, stage, tensor, loop, 0, NULL, lanes, name);
  struct tt_cache_read *c = new_cache(s, stage, tensor, loop, lanes, name);
  if (!c || !set_dims(s, c, ndims, dims) || !keep_cache(s, stage))
    return false;
  const char *at = loop_name(&s->stages[stage], loop);
  const char *lay = dims_text(s->arena, ndims, dims);
  if (lanes)
    tt_record(s, stage, "cache_read", "llkskikl", tensor->name, at, "layout",
              lay, "vectorize", (int64_t)lanes, "name", name);
  else
    tt_record(s, stage, "cache_read", "llkskl", tensor->name, at, "layout", lay,
              "name", name);
  return true;
}

bool
tt_cache_padded(struct tt_schedule *s, int stage,
                const struct tt_tensor *tensor, int loop, int ndims,
                const int *dims, int lanes, const char *name)
{
  struct tt_cache_read *c = new_cache(s, stage, tensor, loop, lanes, name);
  if (!c)
    return false;
  if (!set_dims(s, c, ndims, dims))
    return false;
  c->pad = common_padding(s, stage, tensor);
  if (!c->pad || !keep_cache(s, stage))
    return false;
  const char *at = loop_name(&s->stages[stage], loop);
  const char *lay = dims_text(s->arena, ndims, dims);
  if (ndims && lanes)
    tt_record(s, stage, "cache_read", "llkskskikl", tensor->name, at, "pad",
              "copy", "layout", lay, "vectorize", (int64_t)lanes, "name", name);
  else if (ndims)
    tt_record(s, stage, "cache_read", "llkskskl", tensor->name, at, "pad",
              "copy", "layout", lay, "name", name);
  else if (lanes)
    tt_record(s, stage, "cache_read", "llkskikl", tensor->name, at, "pad",
              "copy", "vectorize", (int64_t)lanes, "name", name);
  else
    tt_record(s, stage, "cache_read", "llkskl", tensor->name, at, "pad", "copy",
              "name", name);
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
