/* Primitives that say where a stage is computed: inline, compute_at,
 * compute_root; and how its result is stored: layout. */
#include "config.h"

#include "schedule/state.h"

/* An inlined value may not grow beyond this many nodes. */
#define MAX_INLINE_NODES 4000

struct substitution {
  const struct tt_stage_schedule *producer;
};

static const struct tt_expr *
replace_load(void *ctx, struct tt_arena *arena, const struct tt_expr *e)
{
  const struct tt_stage_schedule *p =
      ((const struct substitution *)ctx)->producer;
  if (e->kind != TT_LOAD || e->tensor != p->stage->out)
    return e;
  return tt_expr_subst(arena, p->value, p->stage->nspatial, p->stage->spatial,
                       e->args);
}

static void
count_node(void *ctx, const struct tt_expr *e)
{
  (void)e;
  ++*(int64_t *)ctx;
}

static void
count_loads(void *ctx, const struct tt_expr *e)
{
  struct {
    const struct tt_tensor *tensor;
    int64_t n;
  } *c = ctx;
  c->n += e->kind == TT_LOAD && e->tensor == c->tensor;
}

static int64_t
nodes_of(const struct tt_expr *e)
{
  int64_t n = 0;
  if (e)
    tt_expr_visit(e, count_node, &n);
  return n;
}

static int64_t
loads_of(const struct tt_expr *e, const struct tt_tensor *t)
{
  struct {
    const struct tt_tensor *tensor;
    int64_t n;
  } c = {t, 0};
  if (e)
    tt_expr_visit(e, count_loads, &c);
  return c.n;
}

/* Is anything already tied to the stage's own loops? */
static bool
untouched(struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  if (ss->nloops != ss->stage->nspatial + ss->stage->nreduce || ss->ncaches ||
      ss->nprefetches || ss->cache_write != TT_NO_CACHE || ss->nlayout)
    return tt_refuse(s, "%s has a schedule of its own",
                     tt_stage_name(s, stage));
  for (int i = 0; i < s->nstages && ss->attached; i++)
    if (s->stages[i].place == TT_AT && s->stages[i].at_stage == stage)
      return tt_refuse(s, "%s is computed inside %s, which needs its loops",
                       tt_stage_name(s, i), tt_stage_name(s, stage));
  return true;
}

bool
tt_inline(struct tt_schedule *s, int stage)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_tensor *out = ss->stage->out;
  if (out->role == TT_OUTPUT)
    return tt_refuse(s, "%s is an output and cannot be inlined", out->name);
  if (ss->stage->red != TT_RED_NONE)
    return tt_refuse(s, "%s is a reduction and cannot be inlined", out->name);
  if (ss->place != TT_ROOT)
    return tt_refuse(s, "%s is already placed", out->name);
  if (!untouched(s, stage))
    return false;
  int64_t size = nodes_of(ss->value);
  for (int i = stage + 1; i < s->nstages; i++) {
    const struct tt_stage_schedule *c = &s->stages[i];
    int64_t loads = loads_of(c->value, out) + loads_of(c->where, out);
    if (!loads)
      continue;
    if (nodes_of(c->value) + nodes_of(c->where) + loads * size >
        MAX_INLINE_NODES)
      return tt_refuse(s,
                       "%s inlined into %s would make an expression of more "
                       "than %d nodes",
                       out->name, tt_stage_name(s, i), MAX_INLINE_NODES);
    for (int j = 0; j < c->ncaches; j++)
      if (c->caches[j].tensor == out ||
          (c->caches[j].access &&
           tt_expr_uses_tensor(c->caches[j].access, out)))
        return tt_refuse(s, "%s is cached as %s in %s and cannot be inlined",
                         out->name, c->caches[j].name, tt_stage_name(s, i));
  }
  struct substitution sub = {ss};
  for (int i = stage + 1; i < s->nstages; i++) {
    struct tt_stage_schedule *c = &s->stages[i];
    if (!tt_stage_reads(c, out))
      continue;
    c->value = tt_expr_rewrite(s->arena, c->value, replace_load, &sub);
    if (c->where)
      c->where = tt_expr_rewrite(s->arena, c->where, replace_load, &sub);
  }
  ss->place = TT_INLINE;
  tt_record(s, stage, "inline", "");
  return true;
}

static void
move_to(struct tt_schedule *s, int stage, enum tt_place place, int consumer,
        int loop)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (ss->place == TT_AT)
    s->stages[ss->at_stage].attached--;
  ss->place = place;
  ss->at_stage = consumer;
  ss->at_loop = loop;
  if (place == TT_AT)
    s->stages[consumer].attached++;
}

/* Does the stage, or one that is computed in its loops, read the tensor? */
static bool
read_in(const struct tt_schedule *s, int stage, const struct tt_tensor *t)
{
  for (int i = 0; i <= stage; i++)
    if (s->stages[i].place != TT_INLINE && tt_stage_reads(&s->stages[i], t) &&
        tt_runs_inside(s, i, stage, TT_OUTSIDE))
      return true;
  return false;
}

bool
tt_compute_at(struct tt_schedule *s, int stage, int consumer, int loop)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_tensor *out = ss->stage->out;
  const char *cn = tt_stage_name(s, consumer);
  if (out->role == TT_OUTPUT)
    return tt_refuse(s, "%s is an output and stays at root", out->name);
  if (ss->place == TT_INLINE)
    return tt_refuse(s, "%s is inlined", out->name);
  if (s->stages[consumer].place == TT_INLINE)
    return tt_refuse(s, "%s is inlined and has no loops", cn);
  if (ss->place == TT_FINISH || ss->finish >= 0)
    return tt_refuse(s, "%s and what finishes it stay at root", out->name);
  if (s->stages[consumer].place == TT_FINISH)
    return tt_refuse(s, "%s finishes %s and has no loops of its own", cn,
                     tt_stage_name(s, s->stages[consumer].at_stage));
  if (consumer <= stage || !read_in(s, consumer, out))
    return tt_refuse(s, "%s does not read %s", cn, out->name);
  if (loop != TT_OUTSIDE && !tt_need_leaf(s, consumer, loop))
    return false;
  for (int i = stage + 1; i < s->nstages; i++)
    if (s->stages[i].place != TT_INLINE && tt_stage_reads(&s->stages[i], out) &&
        !tt_runs_inside(s, i, consumer, loop))
      return tt_refuse(
          s, "%s is read by %s, outside loop %s of %s", out->name,
          tt_stage_name(s, i),
          loop == TT_OUTSIDE ? "root" : s->stages[consumer].loops[loop].name,
          cn);
  struct tt_stage_schedule old = *ss;
  move_to(s, stage, TT_AT, consumer, loop);
  bool ok = tt_check_stage(s, consumer);
  for (int i = 0; ok && i < stage; i++)
    if (s->stages[i].place == TT_AT)
      ok = tt_check_stage(s, s->stages[i].at_stage);
  if (!ok) {
    move_to(s, stage, old.place, old.at_stage, old.at_loop);
    return false;
  }
  tt_record(s, stage, "compute_at", "ll", cn,
            loop == TT_OUTSIDE ? "root" : s->stages[consumer].loops[loop].name);
  return true;
}

bool
tt_compute_root(struct tt_schedule *s, int stage)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (ss->place == TT_INLINE)
    return tt_refuse(s, "%s is inlined", tt_stage_name(s, stage));
  if (ss->place == TT_FINISH)
    return tt_refuse(s, "%s finishes %s", tt_stage_name(s, stage),
                     tt_stage_name(s, ss->at_stage));
  struct tt_stage_schedule old = *ss;
  move_to(s, stage, TT_ROOT, -1, -1);
  /* What it reads may be computed inside a loop that it has now left. */
  for (int i = 0; i < stage; i++)
    if (s->stages[i].place == TT_AT &&
        !tt_check_stage(s, s->stages[i].at_stage)) {
      move_to(s, stage, old.place, old.at_stage, old.at_loop);
      return false;
    }
  tt_record(s, stage, "compute_root", "");
  return true;
}

/* Does the elementwise value read the tensor at its own point alone? */
static void
check_point(void *ctx, const struct tt_expr *e)
{
  struct {
    const struct tt_stage *stage;
    const struct tt_tensor *tensor;
    bool ok;
  } *p = ctx;
  if (e->kind != TT_LOAD || e->tensor != p->tensor)
    return;
  p->ok = p->ok && e->nargs == p->stage->nspatial;
  for (int d = 0; d < e->nargs && p->ok; d++)
    p->ok = p->tensor->dims[d] == p->stage->out->dims[d] &&
            (tt_is_int(e->args[d], 0)
                 ? p->tensor->dims[d] == 1
                 : e->args[d]->kind == TT_VAR &&
                       e->args[d]->var == p->stage->spatial[d]);
}

static bool
reads_own_point(const struct tt_stage_schedule *ss, const struct tt_tensor *t)
{
  struct {
    const struct tt_stage *stage;
    const struct tt_tensor *tensor;
    bool ok;
  } p = {ss->stage, t, true};
  tt_expr_visit(ss->value, check_point, &p);
  return p.ok;
}

/* Is all that the stage reads there when the reduction is computed, and the
 * reduction read by nothing else? */
static bool
can_finish(struct tt_schedule *s, int stage, int reduction)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_tensor *sums = s->stages[reduction].stage->out;
  for (int i = reduction + 1; i < s->nstages; i++) {
    const struct tt_stage_schedule *o = &s->stages[i];
    if (o->place == TT_INLINE || i == stage)
      continue;
    if (tt_stage_reads(o, sums))
      return tt_refuse(s, "%s is read by %s, too", sums->name,
                       tt_stage_name(s, i));
    if (i < stage && tt_stage_reads(ss, o->stage->out))
      return tt_refuse(s, "%s reads %s, which is computed after %s",
                       tt_stage_name(s, stage), tt_stage_name(s, i),
                       sums->name);
  }
  return true;
}

bool
tt_finish(struct tt_schedule *s, int stage, int reduction)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  struct tt_stage_schedule *rs = &s->stages[reduction];
  const char *name = tt_stage_name(s, stage);
  const char *rn = tt_stage_name(s, reduction);
  if (reduction >= stage || !tt_stage_reads(ss, rs->stage->out))
    return tt_refuse(s, "%s does not read %s", name, rn);
  if (ss->stage->red != TT_RED_NONE || ss->where ||
      !reads_own_point(ss, rs->stage->out))
    return tt_refuse(s, "%s does not read %s point by point", name, rn);
  if (ss->place != TT_ROOT || rs->place != TT_ROOT || ss->stage->prepare ||
      rs->stage->prepare)
    return tt_refuse(s, "%s and %s must both stand at root", name, rn);
  if (rs->stage->out->role == TT_OUTPUT)
    return tt_refuse(s, "%s is an output and must be stored", rn);
  if (rs->cache_write == TT_NO_CACHE)
    return tt_refuse(s, "%s has no accumulators (cache_write)", rn);
  if (rs->finish >= 0)
    return tt_refuse(s, "%s is already finished by %s", rn,
                     tt_stage_name(s, rs->finish));
  if (!untouched(s, stage) || !can_finish(s, stage, reduction))
    return false;
  rs->finish = stage;
  if (!tt_check_stage(s, reduction)) {
    rs->finish = -1;
    return false;
  }
  ss->place = TT_FINISH;
  ss->at_stage = reduction;
  tt_record(s, stage, "finish", "l", rn);
  return true;
}

bool
tt_layout(struct tt_schedule *s, int stage, int ndims, const int *dims)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_tensor *out = ss->stage->out;
  if (out->role != TT_TEMP)
    return tt_refuse(s, "%s is an output: its layout is given", out->name);
  if (ss->place == TT_INLINE)
    return tt_refuse(s, "%s is inlined", out->name);
  if (!tt_is_permutation(ndims, dims, out->ndim))
    return tt_refuse(s, "a layout of %s names each of its axes once",
                     out->name);
  struct tt_sb text = {0};
  for (int i = 0; i < ndims; i++) {
    ss->layout[i] = dims[i];
    tt_sb_printf(&text, "%s%s", i ? " " : "",
                 ss->stage->spatial[dims[i]]->name);
  }
  ss->nlayout = ndims;
  tt_record(s, stage, "layout", "s",
            tt_arena_strdup(s->arena, tt_sb_str(&text)));
  tt_sb_free(&text);
  return true;
}
