/* Accumulation: where the points of a reduction are kept while they are
 * summed, how that starts and where it goes.
 *
 * Accumulators are indexed by the spatial loops inside them, so that once
 * these are unrolled every access has constant indices: registers.
 */
#include "config.h"

#include "schedule/lower.h"

#include "ir/passes.h"

typedef const struct tt_stmt *stmt;

static void
target_index(struct tt_inst *in, const struct tt_expr **idx)
{
  for (int d = 0; d < in->ss->stage->nspatial; d++)
    idx[d] = tt_loop_value(in, d);
}

static int
acc_index(struct tt_inst *in, const struct tt_expr **idx)
{
  int n = 0;
  for (int i = in->acc_position; i < in->ss->norder; i++)
    if (!in->ss->loops[in->ss->order[i]].reduce)
      idx[n++] = tt_lw_layout_index(in, in->ss->order[i]);
  return n;
}

/* The accumulators for the place reached: the vectors of a vectorized
 * reduction or what is beside them; *n indices. */
static const struct tt_tensor *
acc_here(struct tt_inst *in, const struct tt_expr **idx, int *n)
{
  *n = acc_index(in, idx);
  int v = in->acc_vector;
  if (v < 0)
    return in->acc;
  if (in->in_rest)
    return in->acc_rest;
  idx[(*n)++] = in->val[v];
  return in->acc;
}

int
tt_lw_result_index(struct tt_inst *in, bool acc, const struct tt_tensor **t,
                   const struct tt_expr **idx)
{
  *t = acc ? in->acc : in->results ? in->results : in->target;
  if (acc)
    return acc_index(in, idx);
  if (in->results)
    return tt_lw_tile_index(in, idx);
  target_index(in, idx);
  return in->ss->stage->nspatial;
}

static bool
is_true(const struct tt_expr *e)
{
  return e->kind == TT_INT && e->type.dtype == TT_BOOL && e->ival;
}

/* What is known to hold: conditions of a shrunk reduction. */
struct known {
  int n;
  const struct tt_expr *cond[TT_MAX_SHRINK];
};

/* The values of known conditions, and of what consists of them. */
static const struct tt_expr *
take_known(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct known *k = ctx;
  if (e->kind == TT_SELECT && is_true(e->c))
    return e->a;
  if (e->kind != TT_BINARY || e->type.dtype != TT_BOOL)
    return e;
  if (e->op == TT_AND && is_true(e->a))
    return e->b;
  if (e->op == TT_AND && is_true(e->b))
    return e->a;
  for (int i = 0; i < k->n; i++)
    if (tt_expr_equal(k->cond[i], e))
      return tt_bool(ar, true);
  return e;
}

/* The conditions at the place reached. */
static struct known
shrunk_at(struct tt_inst *in, struct tt_place_values *p)
{
  struct known k;
  k.n = tt_shrink_conditions(in->lw->arena, in->ss, k.cond, TT_MAX_SHRINK);
  for (int i = 0; i < k.n; i++)
    k.cond[i] = tt_lw_at_place(p, k.cond[i]);
  return k;
}

static void
find_harm(void *ctx, const struct tt_expr *e)
{
  bool *harm = ctx;
  bool divides =
      (e->kind == TT_BINARY && (e->op == TT_DIV || e->op == TT_MOD)) ||
      (e->kind == TT_CALL && (e->fn == TT_FN_QUOT || e->fn == TT_FN_REM));
  if (divides && !tt_dtype_is_float(e->type.dtype)) {
    struct tt_interval d =
        tt_bounds(e->kind == TT_CALL ? e->args[1] : e->b, NULL);
    *harm |= !d.ok || (d.lo <= 0 && d.hi >= 0);
  }
  for (int i = 0; e->kind == TT_LOAD && i < e->nargs; i++) {
    struct tt_interval at = tt_bounds(e->args[i], NULL);
    *harm |= !at.ok || at.lo < 0 || at.hi >= e->tensor->dims[i];
  }
}

bool
tt_lw_is_harmless(const struct tt_inst *in, const struct tt_expr *value)
{
  bool harm = false;
  for (int c = 0; c < in->ss->ncaches;
       c++) /* copied as far as they are there */
    harm |= in->cache[c] && !in->ss->caches[c].nlayout;
  tt_expr_visit(value, find_harm, &harm);
  return !harm;
}

stmt
tt_lw_update(struct tt_inst *in)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_stage *st = in->ss->stage;
  struct tt_place_values p = tt_lw_place_of(in);
  const struct tt_expr *value = tt_lw_at_place(&p, in->ss->value);
  if (in->ss->where)
    value = tt_select(ar, tt_lw_at_place(&p, in->ss->where), value,
                      tt_red_identity(ar, st->red, value->type.dtype));
  struct known known = shrunk_at(in, &p);
  if (known.n)
    value = tt_expr_rewrite(ar, value, take_known, &known);
  const struct tt_expr *idx[TT_MAX_LOOPS];
  const struct tt_tensor *t = in->target;
  int n = st->nspatial;
  if (in->acc)
    t = acc_here(in, idx, &n);
  else
    target_index(in, idx);
  if (st->red != TT_RED_NONE)
    value = tt_red_combine(ar, st->red, tt_load(ar, t, n, idx), value);
  stmt store = tt_store(ar, t, n, idx, value);
  for (int i = known.n - 1; i >= 0; i--)
    store = tt_if(ar, known.cond[i], store, NULL);
  return in->acc && tt_lw_is_harmless(in, value) ? tt_lw_padded(in, store)
                                                 : tt_lw_guarded(in, store);
}

/* What a nest over the remaining spatial loops does. */
enum sweep { INIT_TARGET, INIT_ACC, LOAD_ACC, STORE_ACC };

struct sweeping {
  enum sweep what;
  int position;
};

static stmt sweep_from(struct tt_inst *in, struct sweeping sw);

static stmt
sweep_inside(struct tt_inst *in, void *ctx)
{
  struct sweeping sw = *(const struct sweeping *)ctx;
  sw.position++;
  return sweep_from(in, sw);
}

/* A new variable over the lanes of a vectorized reduction. */
static void
over_lanes(struct tt_inst *in, const struct tt_var **v, int64_t extent,
           const struct tt_expr **index)
{
  struct tt_var *lane = TT_NEW(in->lw->arena, struct tt_var);
  *lane =
      (struct tt_var){.name = "lane", .extent = extent, .id = in->lw->nvars++};
  *v = lane;
  *index = tt_var_ref(in->lw->arena, lane);
}

/* acc[point][...] = identity, in vectors */
static stmt
init_lanes(struct tt_inst *in, int n, const struct tt_expr **idx,
           const struct tt_expr *identity)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_var *v;
  over_lanes(in, &v, in->acc->dims[n], &idx[n]);
  return tt_for(ar, TT_VECTOR, in->ss->loops[in->acc_vector].lanes, v,
                tt_store(ar, in->acc, n + 1, idx, identity));
}

/* Elements first, first + step, ... of a vector as a tree: in the end the
 * upper half meets the lower one, which compilers make vectors of. */
static const struct tt_expr *
combine_every(struct tt_arena *ar, enum tt_red red, const struct tt_tensor *t,
              int64_t first, int64_t step)
{
  const struct tt_expr *at = tt_idx(ar, first);
  if (first + step >= t->dims[0])
    return tt_load(ar, t, 1, &at);
  return tt_red_combine(ar, red, combine_every(ar, red, t, first, 2 * step),
                        combine_every(ar, red, t, first + step, 2 * step));
}

/* target[t] = acc_rest[point], combined with every lane of acc[point]: first
 * vector with vector, then the lanes of one vector. */
static stmt
combine_lanes(struct tt_inst *in, int n, const struct tt_expr **idx,
              const struct tt_expr *const *t)
{
  struct tt_lowering *lw = in->lw;
  struct tt_arena *ar = lw->arena;
  const struct tt_stage *st = in->ss->stage;
  int64_t lanes = in->ss->loops[in->acc_vector].lanes;
  int64_t all = in->acc->dims[n];
  const struct tt_tensor *one =
      tt_lw_local_tensor(lw, tt_arena_printf(ar, "%s_lanes", st->out->name),
                         st->out->dtype, 1, &lanes);
  const struct tt_var *v;
  const struct tt_expr *lane, *sum = NULL;
  over_lanes(in, &v, lanes, &lane);
  for (int64_t at = 0; at < all; at += lanes) {
    idx[n] = tt_iadd(ar, lane, tt_idx(ar, at));
    const struct tt_expr *x = tt_load(ar, in->acc, n + 1, idx);
    sum = sum ? tt_red_combine(ar, st->red, sum, x) : x;
  }
  stmt parts[2];
  parts[0] =
      tt_for(ar, TT_VECTOR, (int)lanes, v, tt_store(ar, one, 1, &lane, sum));
  sum = tt_red_combine(ar, st->red, tt_load(ar, in->acc_rest, n, idx),
                       combine_every(ar, st->red, one, 0, 1));
  parts[1] = tt_lw_finished(in, t, sum);
  return tt_alloc_stmt(ar, one, tt_seq(ar, 2, parts));
}

static stmt
sweep_point(struct tt_inst *in, enum sweep what)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_stage *st = in->ss->stage;
  const struct tt_expr *t[TT_MAX_LOOPS], *a[TT_MAX_LOOPS];
  target_index(in, t);
  int na = in->acc ? acc_index(in, a) : 0;
  const struct tt_tensor *acc = in->acc_vector < 0 ? in->acc : in->acc_rest;
  const struct tt_expr *identity = tt_red_identity(ar, st->red, st->out->dtype);
  stmt parts[2] = {NULL, NULL};
  switch (what) {
  case INIT_TARGET:
    parts[0] = tt_store(ar, in->target, st->nspatial, t, identity);
    break;
  case INIT_ACC:
    parts[0] = tt_store(ar, acc, na, a, identity);
    break;
  case LOAD_ACC:
    parts[0] =
        tt_store(ar, acc, na, a,
                 tt_lw_inside_padding(
                     in, tt_load(ar, in->target, st->nspatial, t), identity));
    break;
  case STORE_ACC:
    if (in->acc_vector < 0)
      parts[0] = tt_lw_finished(in, t, tt_load(ar, acc, na, a));
    else
      parts[0] = combine_lanes(in, na, a, t);
    break;
  }
  if (in->acc_vector >= 0 && (what == INIT_ACC || what == LOAD_ACC))
    parts[1] = init_lanes(in, na, a, identity);
  stmt all = tt_seq(ar, 2, parts);
  return what == INIT_ACC || what == LOAD_ACC ? tt_lw_padded(in, all)
                                              : tt_lw_guarded(in, all);
}

static stmt
point_inside(struct tt_inst *in, void *ctx)
{
  return sweep_point(in, ((const struct sweeping *)ctx)->what);
}

/* A nest over the spatial loops from a position on. */
static stmt
sweep_from(struct tt_inst *in, struct sweeping sw)
{
  const struct tt_stage_schedule *ss = in->ss;
  int tile = in->registers ? tt_tensor_position(ss) : ss->norder;
  while (sw.position < tile && ss->loops[ss->order[sw.position]].reduce)
    sw.position++;
  if (in->registers && sw.position == tile)
    return tt_lw_instruction(
        in, sw.what == INIT_ACC ? TT_INTRIN_INIT : TT_INTRIN_STORE,
        point_inside, &sw);
  if (sw.position == ss->norder)
    return sweep_point(in, sw.what);
  return tt_lw_enter(in, ss->order[sw.position],
                     (struct tt_how){.scheduled = true}, sweep_inside, &sw);
}

/* Is the loop in a later piece of a split: itself or further up? */
static bool
starts_later(const struct tt_inst *in, int loop)
{
  const struct tt_loop *l = &in->ss->loops[loop];
  if (in->lo[loop] > 0 || (l->other >= 0 && in->lo[l->other] > 0))
    return true;
  if (l->node == TT_FUSED)
    return starts_later(in, l->fused_outer) || starts_later(in, l->fused_inner);
  return l->parent >= 0 && starts_later(in, l->parent);
}

/* True in the first of the reduction's iterations outside position i; NULL
 * when there are none outside. */
static const struct tt_expr *
first_iteration(struct tt_inst *in, int i)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_expr *first = NULL;
  for (int j = 0; j < i; j++) {
    int h = in->ss->order[j];
    if (!in->ss->loops[h].reduce)
      continue;
    const struct tt_expr *zero =
        starts_later(in, h) ? tt_bool(ar, false)
                            : tt_binary(ar, TT_EQ, in->val[h], tt_idx(ar, 0));
    first = first ? tt_binary(ar, TT_AND, first, zero) : zero;
  }
  return first;
}

static int
vectorized_reduction(const struct tt_stage_schedule *ss)
{
  for (int i = 0; i < ss->norder; i++)
    if (ss->loops[ss->order[i]].reduce &&
        ss->loops[ss->order[i]].kind == TT_VECTOR)
      return ss->order[i];
  return -1;
}

static stmt
store_accumulators(struct tt_inst *in, int i)
{
  if (in->registers && (in->finishing || in->nguards))
    return tt_lw_finish_tiles(in, i);
  return sweep_from(in, (struct sweeping){STORE_ACC, i});
}

/* The rest of a nest around accumulators for the points of its spatial
 * loops: started at the identity or what an earlier block of the reduction
 * left, kept over the reduction loops inside, stored back. */
stmt
tt_lw_accumulate(struct tt_inst *in, int i)
{
  struct tt_lowering *lw = in->lw;
  struct tt_arena *ar = lw->arena;
  int64_t dims[TT_MAX_LOOPS];
  int n = 0;
  for (int j = i; j < in->ss->norder; j++) {
    int h = in->ss->order[j];
    if (in->ss->loops[h].reduce)
      continue;
    if (n == TT_MAX_DIMS || !tt_lw_layout_distinct(in, h)) {
      lw->error = "accumulators span a loop whose split leaves a tail further "
                  "out";
      return NULL;
    }
    dims[n++] = in->lo[h] + tt_max_extent(in, h);
  }
  const struct tt_tensor *out = in->ss->stage->out;
  const char *name = tt_arena_printf(ar, "%s_acc", out->name);
  in->acc_vector = vectorized_reduction(in->ss);
  if (in->acc_vector >= 0) {
    in->acc_rest = tt_lw_local_tensor(
        lw, tt_arena_printf(ar, "%s_rest", out->name), out->dtype, n, dims);
    if (n == TT_MAX_DIMS) {
      lw->error = "accumulators have too many dimensions";
      return NULL;
    }
    const struct tt_loop *v = &in->ss->loops[in->acc_vector];
    dims[n] = tt_max_extent(in, in->acc_vector);
    dims[n] = (dims[n] + v->lanes - 1) / v->lanes * v->lanes;
    n++;
  }
  struct tt_tensor *local = tt_lw_local_tensor(lw, name, out->dtype, n, dims);
  in->registers = tt_lw_keeps_registers(in);
  if (in->registers) {
    local->fragment = in->ss->intrin;
    local->scope = TT_REGISTER;
  }
  in->acc = local;
  in->acc_position = i;
  const struct tt_tensor *acc = in->acc, *acc_rest = in->acc_rest;
  const struct tt_expr *first = first_iteration(in, i);
  stmt parts[3];
  parts[0] = sweep_from(in, (struct sweeping){INIT_ACC, i});
  if (first)
    parts[0] = tt_if(ar, first, parts[0],
                     sweep_from(in, (struct sweeping){LOAD_ACC, i}));
  parts[1] = tt_lw_rest(in, i);
  parts[2] = tt_lw_finish_or_store(in, i, store_accumulators);
  in->acc = in->acc_rest = NULL;
  in->registers = false;
  in->acc_vector = -1;
  stmt st = tt_alloc_stmt(ar, acc, tt_seq(ar, 3, parts));
  return acc_rest ? tt_alloc_stmt(ar, acc_rest, st) : st;
}

stmt
tt_lw_init_target(struct tt_inst *in, int i)
{
  return sweep_from(in, (struct sweeping){INIT_TARGET, i});
}
