/* Whole programs: which stages run in NAME and which in NAME_prepare, and the
 * plain loops that everything is compared with.
 */
#include "config.h"

#include "schedule/lower.h"

#include "ir/passes.h"

#include <stdlib.h>

enum { GPU_ALIGNED = 16 }; /* bytes: what kernels assume of their arguments */

struct marking {
  bool *needed;
};

static void
mark_load(void *ctx, const struct tt_expr *e)
{
  if (e->kind == TT_LOAD && e->tensor->id >= 0)
    ((struct marking *)ctx)->needed[e->tensor->id] = true;
}

static void
mark_reads(const struct tt_stage_schedule *ss, bool *needed)
{
  struct marking m = {needed};
  tt_expr_visit(ss->value, mark_load, &m);
  if (ss->where)
    tt_expr_visit(ss->where, mark_load, &m);
}

/* The stage at root whose nest contains this one. */
static int
root_of(const struct tt_schedule *s, int stage)
{
  while (s->stages[stage].place == TT_AT)
    stage = s->stages[stage].at_stage;
  return stage;
}

struct whole {
  const struct tt_schedule *s;
  struct tt_arena *ar;
  bool *live;       /* by stage: an output depends on it */
  bool *in_main;    /* by tensor id: read in NAME */
  bool *in_prepare; /* by stage: runs in NAME_prepare */
};

static void
find_uses(struct whole *w)
{
  const struct tt_schedule *s = w->s;
  const struct tt_program *p = s->program;
  w->live = TT_ARRAY(w->ar, bool, (size_t)s->nstages + 1);
  w->in_prepare = TT_ARRAY(w->ar, bool, (size_t)s->nstages + 1);
  w->in_main = TT_ARRAY(w->ar, bool, (size_t)p->ntensors + 1);
  bool *needed = TT_ARRAY(w->ar, bool, (size_t)p->ntensors + 1);
  for (int i = s->nstages - 1; i >= 0; i--) {
    const struct tt_stage_schedule *ss = &s->stages[i];
    const struct tt_tensor *out = ss->stage->out;
    if (ss->place == TT_INLINE || (out->role != TT_OUTPUT && !needed[out->id]))
      continue;
    w->live[i] = true;
    w->in_prepare[i] = s->program->stages[root_of(s, i)]->prepare;
    mark_reads(ss, needed);
    if (!w->in_prepare[i])
      mark_reads(ss, w->in_main);
  }
}

static struct tt_tensor *
prepared_copy(struct tt_arena *ar, const struct tt_tensor *t)
{
  struct tt_tensor *copy = tt_arena_dup(ar, t, sizeof *t);
  copy->role = TT_PREPARED; /* (its id stays that of the original) */
  return copy;
}

/* copy[i...] = weight[i...] */
static const struct tt_stmt *
copy_weight(struct tt_lowering *lw, const struct tt_tensor *weight,
            const struct tt_tensor *copy)
{
  struct tt_arena *ar = lw->arena;
  const struct tt_expr *idx[TT_MAX_DIMS];
  struct tt_var *vars[TT_MAX_DIMS];
  for (int d = 0; d < weight->ndim; d++) {
    vars[d] = TT_NEW(ar, struct tt_var);
    *vars[d] = (struct tt_var){.name = tt_arena_printf(ar, "i%d", d),
                               .extent = weight->dims[d],
                               .id = lw->nvars++};
    idx[d] = tt_var_ref(ar, vars[d]);
  }
  const struct tt_stmt *st = tt_store(ar, copy, weight->ndim, idx,
                                      tt_load(ar, weight, weight->ndim, idx));
  for (int d = weight->ndim - 1; d >= 0; d--)
    st = tt_for(ar, TT_SERIAL, 0, vars[d], st);
  return st;
}

/* What a nest computes, as a comment for whoever reads the code. */
static const char *
describe(struct tt_arena *ar, const struct tt_stage_schedule *ss)
{
  const struct tt_stage *st = ss->stage;
  struct tt_sb sb = {0};
  tt_sb_add(&sb, st->out->name);
  for (int i = 0; i < st->nspatial; i++)
    tt_sb_printf(&sb, "%s%s%s", i ? ", " : "[", st->spatial[i]->name,
                 i + 1 == st->nspatial ? "]" : "");
  tt_sb_add(&sb, " = ");
  for (int i = 0; i < st->nreduce; i++)
    tt_sb_printf(&sb, "%s%s%s", i ? ", " : tt_red_name(st->red), i ? "" : "[",
                 st->reduce[i]->name);
  if (st->nreduce)
    tt_sb_add(&sb, "](");
  tt_dump_expr(&sb, ss->value);
  if (st->nreduce)
    tt_sb_add(&sb, ")");
  const char *text = sb.len > 150
                         ? tt_arena_printf(ar, "%.140s ...", tt_sb_str(&sb))
                         : tt_arena_strdup(ar, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return ss->intrin ? tt_arena_printf(ar, "%s, by %s", text, ss->intrin->name)
                    : text;
}

struct lists {
  TT_VEC(const struct tt_stmt *) prepare, body;
  TT_VEC(struct tt_tensor *) prepared, temps;
};

/* Weights that NAME may read: it reads a copy. */
static void
copy_weights(struct whole *w, struct tt_lowering *lw)
{
  const struct tt_program *p = w->s->program;
  for (int i = 0; i < p->ntensors; i++)
    if (p->tensors[i]->role == TT_WEIGHT && w->in_main[i])
      lw->global[i] = prepared_copy(w->ar, p->tensors[i]);
}

struct read_set {
  struct whole *w;
  bool *used; /* by id of the weight */
};

static void
note_copy(void *ctx, const struct tt_expr *e)
{
  struct read_set *r = ctx;
  if (e->kind == TT_LOAD && e->tensor->role == TT_PREPARED &&
      e->tensor->id >= 0)
    r->used[e->tensor->id] = true;
}

static const struct tt_expr *
note_copies(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  (void)ar;
  tt_expr_visit(e, note_copy, ctx);
  return e;
}

/* A result of NAME_prepare that only it reads: a temporary of its own. */
static void
forget(struct tt_lowering *lw, struct lists *l, struct tt_tensor *t)
{
  struct tt_tensor *own = lw->s->program->tensors[t->id];
  int *dims = TT_ARRAY(lw->arena, int, TT_MAX_DIMS);
  for (int i = 0; i < lw->stored.n; i++)
    if (lw->stored.items[i].tensor == t) {
      lw->stored.items[i].stored->role = TT_TEMP;
      TT_PUSH(l->temps, t);
      return;
    }
  for (int d = 0; d < t->ndim; d++)
    dims[d] = d;
  TT_PUSH(lw->stored, ((struct tt_stored){t, own, dims}));
  TT_PUSH(l->temps, own);
}

/* The copies that NAME does read are made by NAME_prepare.  What is computed
 * there and only read there is no part of what it leaves behind. */
static void
prepare_weights(struct whole *w, struct tt_lowering *lw, struct lists *l)
{
  const struct tt_program *p = w->s->program;
  struct read_set read = {w, TT_ARRAY(w->ar, bool, (size_t)p->ntensors + 1)};
  for (int i = 0; i < l->body.n; i++)
    tt_stmt_map_exprs(w->ar, l->body.items[i], note_copies, &read);
  int kept = 0;
  for (int i = 0; i < l->prepared.n; i++) {
    struct tt_tensor *t = l->prepared.items[i];
    if (read.used[t->id])
      l->prepared.items[kept++] = t;
    else
      forget(lw, l, t);
  }
  l->prepared.n = kept;
  for (int i = 0; i < p->ntensors; i++) {
    struct tt_tensor *t = p->tensors[i];
    if (t->role != TT_WEIGHT || !read.used[i])
      continue;
    struct tt_tensor *copy = (struct tt_tensor *)lw->global[i];
    TT_PUSH(l->prepared, copy);
    TT_PUSH(l->prepare, copy_weight(lw, t, copy));
  }
}

static void
lower_roots(struct whole *w, struct tt_lowering *lw, struct lists *l,
            bool prepare)
{
  for (int i = 0; i < w->s->nstages && !lw->error; i++) {
    const struct tt_stage_schedule *ss = &w->s->stages[i];
    if (!w->live[i] || ss->place != TT_ROOT || w->in_prepare[i] != prepare)
      continue;
    struct tt_tensor *out = ss->stage->out;
    const struct tt_tensor *target = out;
    if (prepare) {
      struct tt_tensor *kept = prepared_copy(w->ar, out);
      TT_PUSH(l->prepared, kept);
      lw->global[out->id] = target = kept;
    } else if (out->role == TT_TEMP) {
      TT_PUSH(l->temps, out);
    }
    tt_lw_store_as(lw, target, ss->nlayout, ss->layout);
    const struct tt_stage_schedule *finish =
        ss->finish < 0 ? NULL : &w->s->stages[ss->finish];
    if (finish && finish->stage->out->role == TT_TEMP) {
      TT_PUSH(l->temps, finish->stage->out);
      tt_lw_store_as(lw, finish->stage->out, finish->nlayout, finish->layout);
    }
    const struct tt_stmt *st = tt_lower_stage(lw, i, target);
    if (lw->error)
      return;
    st = tt_comment(w->ar, describe(w->ar, ss), st);
    if (finish)
      st = tt_comment(w->ar, describe(w->ar, finish), st);
    if (prepare)
      TT_PUSH(l->prepare, st);
    else
      TT_PUSH(l->body, st);
  }
}

/* Weights, constants, and what NAME_prepare leaves behind. */
static const bool *
fixed_tensors(const struct whole *w)
{
  const struct tt_program *p = w->s->program;
  bool *fixed = TT_ARRAY(w->ar, bool, (size_t)p->ntensors + 1);
  bool weights = false;
  for (int i = 0; i < p->ntensors; i++) {
    enum tt_role role = p->tensors[i]->role;
    fixed[i] = role == TT_WEIGHT || role == TT_CONST;
    weights |= role == TT_WEIGHT;
  }
  for (int i = 0; i < p->nstages; i++)
    if (w->live[i] && w->s->stages[i].place == TT_ROOT && w->in_prepare[i])
      fixed[p->stages[i]->out->id] = true;
  return weights ? fixed : NULL; /* without weights there is no prepare */
}

/* The program with the tensors that nests speak of in their places. */
static const struct tt_program *
stored_program(struct tt_arena *ar, const struct tt_lowering *lw,
               const struct tt_program *p)
{
  if (!lw->stored.n)
    return p;
  struct tt_program *copy = tt_arena_dup(ar, p, sizeof *p);
  copy->tensors =
      tt_arena_dup(ar, p->tensors, (size_t)p->ntensors * sizeof *p->tensors);
  for (int i = 0; i < lw->stored.n; i++) {
    struct tt_tensor *t = lw->stored.items[i].stored;
    if (t->role == TT_TEMP)
      copy->tensors[t->id] = t;
  }
  return copy;
}

bool
tt_schedule_lower(struct tt_arena *ar, const struct tt_schedule *s,
                  struct tt_nest *out, const char **error)
{
  struct whole w = {.s = s, .ar = ar};
  find_uses(&w);
  struct tt_lowering lw = {.arena = ar, .s = s, .nvars = s->program->nvars};
  lw.global =
      TT_ARRAY(ar, const struct tt_tensor *, (size_t)s->program->ntensors + 1);
  struct lists l = {0};
  bool weights = false;
  for (int i = 0; i < s->program->ntensors; i++)
    weights |= s->program->tensors[i]->role == TT_WEIGHT;
  /* In NAME_prepare weights are themselves; in NAME they are their copies. */
  lower_roots(&w, &lw, &l, true);
  lw.prepare_global = tt_arena_dup(
      ar, lw.global, ((size_t)s->program->ntensors + 1) * sizeof *lw.global);
  lw.fixed = fixed_tensors(&w);
  copy_weights(&w, &lw);
  lower_roots(&w, &lw, &l, false);
  prepare_weights(&w, &lw, &l);
  for (int i = 0; i < lw.ahead.n; i++) {
    TT_PUSH(l.prepared, lw.ahead.items[i]);
    TT_PUSH(l.prepare, lw.ahead_fills.items[i]);
  }
  for (int i = 0; i < l.prepared.n; i++)
    l.prepared.items[i] =
        (struct tt_tensor *)tt_lw_stored(&lw, l.prepared.items[i]);
  for (int i = 0; i < l.temps.n; i++)
    l.temps.items[i] = (struct tt_tensor *)tt_lw_stored(&lw, l.temps.items[i]);
  const struct tt_stmt *prepare = tt_seq(ar, l.prepare.n, l.prepare.items),
                       *body = tt_seq(ar, l.body.n, l.body.items);
  *out = (struct tt_nest){
      .program = stored_program(ar, &lw, s->program),
      .prepare = weights ? tt_lw_relayout(&lw, prepare) : NULL,
      .body = tt_lw_relayout(&lw, body),
      .nprepared = l.prepared.n,
      .prepared = tt_arena_dup(ar, l.prepared.items,
                               (size_t)l.prepared.n * sizeof(void *)),
      .ntemps = l.temps.n,
      .temps =
          tt_arena_dup(ar, l.temps.items, (size_t)l.temps.n * sizeof(void *))};
  int64_t aligned = s->nbound ? GPU_ALIGNED : 1;
  if (!lw.error)
    lw.error = tt_check_instructions(ar, out->body, NULL, aligned);
  if (!lw.error && out->prepare)
    lw.error = tt_check_instructions(ar, out->prepare, NULL, aligned);
  free(l.prepare.items);
  free(l.body.items);
  free(l.prepared.items);
  free(l.temps.items);
  free(lw.ahead.items);
  free(lw.ahead_fills.items);
  free(lw.stored.items);
  *error = lw.error;
  return !lw.error;
}

bool
tt_plain_nest(struct tt_arena *ar, const struct tt_program *program,
              struct tt_nest *out, const char **error)
{
  struct tt_schedule *s = tt_schedule_new(ar, program, true);
  for (int i = 0; i < s->nstages; i++)
    if (program->stages[i]->red != TT_RED_NONE &&
        !tt_cache_write(s, i, program->stages[i]->nspatial - 1)) {
      *error = s->error;
      return false;
    }
  return tt_schedule_lower(ar, s, out, error);
}
