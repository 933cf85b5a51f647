/* rfactor: a reduction in two steps.
 *
 * One axis of the reduction is cut into blocks; the sum of every block is an
 * element of a new tensor, with the blocks as its first dimension, and the
 * stage sums these.  The new stage comes right before the old one and is
 * scheduled like any other: its blocks are spatial, so that they can run in
 * parallel.  The program of the schedule becomes a copy that has both; the
 * program it was made for never changes.
 */
#include "config.h"

#include "ir/passes.h"
#include "schedule/state.h"

#include <string.h>

/* The partial results may take this much; the frontend's limit for all. */
#define MAX_PARTIAL (INT64_C(1) << 40)

/* Is everything as it was when the schedule was made?  (Inlined producers
 * only changed the value.) */
static bool
untouched(struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int n = ss->stage->nspatial + ss->stage->nreduce;
  bool plain = ss->place == TT_ROOT && ss->nloops == n && !ss->ncaches &&
               !ss->nprefetches && !ss->attached &&
               ss->cache_write == TT_NO_CACHE;
  for (int i = 0; i < n && plain; i++)
    plain = ss->order[i] == i && ss->loops[i].kind == TT_SERIAL &&
            !ss->loops[i].shrink;
  if (plain)
    return true;
  return tt_refuse(s, "%s has a schedule already: rfactor comes first",
                   tt_stage_name(s, stage));
}

static bool
new_name(struct tt_schedule *s, const char *name)
{
  for (int i = 0; i < s->program->ntensors; i++)
    if (strcmp(s->program->tensors[i]->name, name) == 0)
      return tt_refuse(s, "there is a tensor %s already", name);
  return true;
}

static bool
may_factor(struct tt_schedule *s, int stage, int loop, int64_t factor,
           const char *inner_name, const char *name)
{
  const struct tt_stage *st = s->stages[stage].stage;
  const char *sn = tt_stage_name(s, stage);
  if (st->red == TT_RED_NONE)
    return tt_refuse(s, "%s is no reduction", sn);
  if (!tt_need_leaf(s, stage, loop) || !untouched(s, stage))
    return false;
  const struct tt_loop *l = &s->stages[stage].loops[loop];
  if (!l->reduce)
    return tt_refuse(s, "%s is no reduction loop of %s", l->name, sn);
  if (s->strict_fp && tt_sum_rounds(st))
    return tt_refuse(s,
                     "--strict-fp: sums of parts of %s would change the order "
                     "of the sum %s",
                     l->name, sn);
  if (factor < 1)
    return tt_refuse(s, "%s of %s cannot be split by %lld", l->name, sn,
                     (long long)factor);
  if (st->nspatial == TT_MAX_DIMS)
    return tt_refuse(s, "%s has %d dimensions: there is no room for one more",
                     sn, TT_MAX_DIMS);
  for (int i = 0; i < st->nspatial + st->nreduce; i++)
    if (strcmp(s->stages[stage].loops[i].name, inner_name) == 0)
      return tt_refuse(s, "%s already has a loop named %s", sn, inner_name);
  if (strcmp(inner_name, "root") == 0)
    return tt_refuse(s, "a loop cannot be named root");
  int64_t parts = (l->extent + factor - 1) / factor;
  if (tt_tensor_size(st->out) > MAX_PARTIAL / parts)
    return tt_refuse(s, "%lld parts of %s would be too large", (long long)parts,
                     sn);
  return new_name(s, name);
}

/* The program with room for one more stage before position `stage`: a copy,
 * whose stages after it are copies too, as their positions change. */
static struct tt_program *
copy_program(struct tt_arena *ar, const struct tt_program *p, int stage)
{
  struct tt_program *r = tt_arena_dup(ar, p, sizeof *p);
  r->arena = ar;
  r->tensors = TT_ARRAY(ar, struct tt_tensor *, (size_t)p->ntensors + 1);
  r->stages = TT_ARRAY(ar, struct tt_stage *, (size_t)p->nstages + 1);
  for (int i = 0; i < p->ntensors; i++)
    r->tensors[i] = p->tensors[i];
  for (int i = 0; i < stage; i++)
    r->stages[i] = p->stages[i];
  for (int i = stage; i < p->nstages; i++) {
    r->stages[i + 1] = tt_arena_dup(ar, p->stages[i], sizeof *p->stages[i]);
    r->stages[i + 1]->id = i + 1;
  }
  r->nstages++;
  return r;
}

static const struct tt_var *
new_var(struct tt_program *p, const char *name, int64_t extent)
{
  struct tt_var *v = TT_NEW(p->arena, struct tt_var);
  *v = (struct tt_var){.name = name, .extent = extent, .id = p->nvars++};
  return v;
}

static struct tt_tensor *
new_tensor(struct tt_program *p, const struct tt_tensor *out, const char *name,
           int64_t parts)
{
  struct tt_tensor *t = TT_NEW(p->arena, struct tt_tensor);
  *t = (struct tt_tensor){.name = name,
                          .dtype = out->dtype,
                          .role = TT_TEMP,
                          .ndim = out->ndim + 1,
                          .id = p->ntensors};
  t->dims[0] = parts;
  for (int d = 0; d < out->ndim; d++)
    t->dims[d + 1] = out->dims[d];
  p->tensors[p->ntensors++] = t;
  return t;
}

/* What the axis is in terms of block and place in it; its end in *rest when
 * the last block is shorter. */
static const struct tt_expr *
in_blocks(struct tt_arena *ar, const struct tt_var *axis, int64_t factor,
          const struct tt_var *block, const struct tt_var *inner,
          const struct tt_expr **rest)
{
  const struct tt_expr *e = tt_iadd(
      ar, tt_imul(ar, tt_var_ref(ar, block), factor), tt_var_ref(ar, inner));
  *rest = axis->extent % factor
              ? tt_binary(ar, TT_LT, e, tt_idx(ar, axis->extent))
              : NULL;
  return e;
}

/* The axes of the stage of partial results, and what those of the old one are
 * in terms of them. */
struct axes {
  int n;
  const struct tt_var *old[2 * TT_MAX_DIMS];
  const struct tt_expr *value[2 * TT_MAX_DIMS];
  const struct tt_var *spatial[TT_MAX_DIMS], *reduce[TT_MAX_DIMS];
};

static const struct tt_var *
same_axis(struct tt_program *p, const struct tt_var *old, struct axes *ax)
{
  const struct tt_var *v = new_var(p, old->name, old->extent);
  ax->old[ax->n] = old;
  ax->value[ax->n++] = tt_var_ref(p->arena, v);
  return v;
}

/* partial[block, ...] = reduction over one block. */
static struct tt_stage *
partial_stage(struct tt_program *p, const struct tt_stage_schedule *ss,
              int axis, int64_t factor, struct tt_tensor *out,
              const char *inner_name)
{
  struct tt_arena *ar = p->arena;
  const struct tt_stage *st = ss->stage;
  const struct tt_var *cut = st->reduce[axis];
  struct axes ax = {.n = 0};
  ax.spatial[0] = new_var(p, cut->name, out->dims[0]);
  for (int i = 0; i < st->nspatial; i++)
    ax.spatial[i + 1] = same_axis(p, st->spatial[i], &ax);
  for (int i = 0; i < st->nreduce; i++)
    if (i != axis)
      ax.reduce[i] = same_axis(p, st->reduce[i], &ax);
  ax.reduce[axis] =
      new_var(p, inner_name, factor < cut->extent ? factor : cut->extent);
  const struct tt_expr *rest, *where = NULL;
  ax.old[ax.n] = cut;
  ax.value[ax.n++] =
      in_blocks(ar, cut, factor, ax.spatial[0], ax.reduce[axis], &rest);
  if (ss->where)
    where = tt_expr_subst(ar, ss->where, ax.n, ax.old, ax.value);
  if (rest)
    where = where ? tt_binary(ar, TT_AND, rest, where) : rest;
  struct tt_stage *r = tt_arena_dup(ar, st, sizeof *st);
  r->out = out;
  r->nspatial = out->ndim;
  r->spatial =
      tt_arena_dup(ar, ax.spatial, (size_t)out->ndim * sizeof *ax.spatial);
  r->reduce =
      tt_arena_dup(ar, ax.reduce, (size_t)st->nreduce * sizeof *ax.reduce);
  r->value = tt_expr_subst(ar, ss->value, ax.n, ax.old, ax.value);
  r->where = where;
  return r;
}

/* The stage as a reduction of the partial results. */
static void
combine_stage(struct tt_program *p, struct tt_stage *st,
              const struct tt_tensor *partial, const char *block_name)
{
  struct tt_arena *ar = p->arena;
  const struct tt_var **block = TT_ARRAY(ar, const struct tt_var *, 1);
  const struct tt_expr *idx[TT_MAX_DIMS];
  block[0] = new_var(p, block_name, partial->dims[0]);
  idx[0] = tt_var_ref(ar, block[0]);
  for (int i = 0; i < st->nspatial; i++)
    idx[i + 1] = tt_var_ref(ar, st->spatial[i]);
  st->nreduce = 1;
  st->reduce = block;
  st->value = tt_load(ar, partial, partial->ndim, idx);
  st->where = NULL;
}

/* Room for the new stage: those from `stage` on move up by one. */
static void
insert_stage(struct tt_schedule *s, struct tt_program *p, int stage)
{
  struct tt_stage_schedule *moved =
      TT_ARRAY(s->arena, struct tt_stage_schedule, (size_t)s->nstages + 1);
  for (int i = 0; i < s->nstages; i++) {
    struct tt_stage_schedule *ss = &moved[i < stage ? i : i + 1];
    *ss = s->stages[i];
    if ((ss->place == TT_AT || ss->place == TT_FINISH) && ss->at_stage >= stage)
      ss->at_stage++;
    if (ss->finish >= stage)
      ss->finish++;
  }
  s->stages = moved;
  s->nstages++;
  s->program = p;
  for (int i = 0; i < s->nstages; i++)
    s->stages[i].stage = p->stages[i];
  tt_init_stage(&s->stages[stage], p->stages[stage]);
  tt_init_stage(&s->stages[stage + 1], p->stages[stage + 1]);
}

int
tt_rfactor(struct tt_schedule *s, int stage, int loop, int64_t factor,
           const char *inner_name, const char *name)
{
  if (!may_factor(s, stage, loop, factor, inner_name, name))
    return -1;
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int axis = loop - ss->stage->nspatial;
  const char *loop_name = ss->loops[loop].name;
  struct tt_program *p = copy_program(s->arena, s->program, stage);
  int64_t parts = (ss->loops[loop].extent + factor - 1) / factor;
  struct tt_tensor *partial = new_tensor(p, ss->stage->out, name, parts);
  p->stages[stage] = partial_stage(p, ss, axis, factor, partial, inner_name);
  p->stages[stage]->id = stage;
  combine_stage(p, p->stages[stage + 1], partial, loop_name);
  tt_record(s, stage, "rfactor", "lill", loop_name, factor, inner_name, name);
  insert_stage(s, p, stage);
  return stage;
}
