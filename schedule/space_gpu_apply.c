/* Configurations of the space for GPUs made into schedules.
 *
 * Invariant: a schedule exceeds no limit of the device that can be known before
 * it is built; NULL where it would.
 */
#include "config.h"
#include "schedule/space_gpu.h"

#include "ir/passes.h"

#include <string.h>

enum {
  MAX_THREADS = 64, /* of a block on a CPU */
  MOST_SIDE = 256   /* rows and columns of a block's tile */
};

static int64_t
value_of(const struct tt_gpu_rules *r, const int *config, int knob,
         int64_t fallback)
{
  return knob < 0 ? fallback : r->space->knobs[knob].values[config[knob]];
}

/* ---- configurations ---------------------------------------------------- */

struct tile {
  int v, u; /* axes; u -1: none */
  int lanes;
  int64_t nr, mr, ku;
  int fast, slow; /* loops of blocks, -1: none */
  int vr, ur, k, kr, thread;
  unsigned padded; /* axes that are rounded up, a bit each */
};

static bool
choose(const struct tt_gpu_rules *r, const int *config,
       const struct tt_gpu_rule *rule, const struct tt_stage *st,
       struct tile *t)
{
  *t = (struct tile){.u = -1, .vr = -1, .ur = -1, .k = -1, .kr = -1};
  t->v = rule->vec[value_of(r, config, rule->k_vec, 0)];
  if (rule->nrow)
    t->u = rule->row[value_of(r, config, rule->k_row, 0)];
  for (int i = 0; i < rule->nrow && t->u == t->v; i++)
    t->u = rule->row[i];
  if (t->u == t->v)
    t->u = -1;
  t->lanes = tt_gpu_lanes_along(r, rule, st, t->v);
  t->nr = t->lanes * value_of(r, config, rule->k_nr, 1);
  t->mr = t->u < 0 ? 1 : value_of(r, config, rule->k_mr, 1);
  if (tt_gpu_extent_of(st, t->v) % t->nr)
    t->padded |= 1u << t->v;
  if (t->u >= 0 && tt_gpu_extent_of(st, t->u) % t->mr)
    t->padded |= 1u << t->u;
  unsigned vector = 1u << t->v;
  if (t->padded & ~rule->pads || t->padded & vector & ~rule->vec_pads)
    return false;
  t->ku = value_of(r, config, rule->k_ku, 1);
  int64_t vectors = t->nr / t->lanes;
  return t->mr * vectors + tt_min64(t->mr, vectors) + 1 <=
         r->target.registers + 2;
}

static int
split(struct tt_schedule *s, int stage, int loop, int64_t factor, bool pad,
      const char *suffix, int *outer)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const char *name =
      tt_arena_printf(s->arena, "%s%s", ss->loops[loop].name, suffix);
  int inner =
      tt_split(s, stage, loop, factor, name, pad ? TT_TAIL_PAD : TT_TAIL_PEEL);
  if (inner >= 0)
    *outer = ss->loops[inner].other;
  return inner;
}

/* A thread for each of some tiles side by side; at least two, since a block
 * without threads would be shared out among many. */
static bool
split_threads(struct tt_schedule *s, int stage, const struct tt_gpu_rule *rule,
              int64_t threads, int axis, struct tile *t)
{
  int64_t n = s->stages[stage].loops[t->fast].extent, part = 0;
  for (int64_t d = 2; d <= n && d <= MAX_THREADS; d++)
    if (n % d == 0 && (d <= threads || !part))
      part = d;
  unsigned pads = axis == t->v ? rule->vec_pads : rule->pads;
  if ((part == 0 || part > threads) && n > 1 && pads >> axis & 1) {
    part = threads < 2 ? 2 : tt_min64(threads, n);
    t->padded |= n % part ? 1u << axis : 0;
  }
  if (!part)
    return false;
  t->thread = split(s, stage, t->fast, part, n % part, "_t", &t->fast);
  return t->thread >= 0;
}

/* Splits the axes of the tile, and threads off the blocks. */
static bool
split_axes(struct tt_schedule *s, int stage, const struct tt_gpu_rule *rule,
           int64_t threads, bool rows_fast, struct tile *t)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_stage *st = ss->stage;
  int v, u = -1;
  t->vr = split(s, stage, t->v, t->nr, t->padded >> t->v & 1, "_v", &v);
  if (t->vr < 0)
    return false;
  if (t->u >= 0)
    t->ur = split(s, stage, t->u, t->mr, t->padded >> t->u & 1, "_r", &u);
  if (t->u >= 0 && t->ur < 0)
    return false;
  t->fast = u >= 0 && (rows_fast || ss->loops[v].extent < 2) &&
                    ss->loops[u].extent > 1
                ? u
                : v;
  t->slow = t->fast == u ? v : u;
  if (!split_threads(s, stage, rule, threads, t->fast == u ? t->u : t->v, t))
    return false;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (t->k < 0 || tt_gpu_extent_of(st, a) > tt_gpu_extent_of(st, t->k))
      t->k = a;
  if (t->k >= 0 && t->ku > 1) {
    if (tt_gpu_extent_of(st, t->k) % t->ku)
      return false;
    t->kr = split(s, stage, t->k, t->ku, false, "_u", &t->k);
    return t->kr >= 0;
  }
  return true;
}

/* The other spatial axes, one after the other in the order, as one loop; -1:
 * there are none, -2: they cannot be. */
static int
fuse_rest(struct tt_schedule *s, int stage, const int *rest, int n)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int loop = n ? rest[0] : -1;
  for (int i = 1; i < n; i++) {
    loop = tt_fuse(s, stage, loop, rest[i],
                   tt_arena_printf(s->arena, "%s_%s", ss->loops[loop].name,
                                   ss->loops[rest[i]].name));
    if (loop < 0)
      return -2;
  }
  return loop;
}

/* Orders the loops; *inner: where those of a block begin.  (Axes of which
 * there is but one iteration are no loops worth a block.) */
static bool
order_loops(struct tt_schedule *s, int stage, const struct tile *t, int *order,
            int *n, int *rest)
{
  const struct tt_stage *st = s->stages[stage].stage;
  int others[TT_MAX_DIMS], k = 0;
  *n = 0;
  for (int a = 0; a < st->nspatial; a++)
    if (a != t->v && a != t->u) {
      others[k++] = a;
      order[(*n)++] = a;
    }
  if (t->slow >= 0)
    order[(*n)++] = t->slow;
  order[(*n)++] = t->fast;
  order[(*n)++] = t->thread;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    order[(*n)++] =
        t->kr >= 0 && a == s->stages[stage].loops[t->k].parent ? t->k : a;
  if (t->kr >= 0)
    order[(*n)++] = t->kr;
  if (t->ur >= 0)
    order[(*n)++] = t->ur;
  order[(*n)++] = t->vr;
  if (!tt_reorder(s, stage, *n, order))
    return false;
  *rest = fuse_rest(s, stage, others, k);
  if (k > 1) { /* one loop in place of k */
    order[k - 1] = *rest;
    memmove(order, order + k - 1, (size_t)(*n - k + 1) * sizeof *order);
    *n -= k - 1;
  }
  return *rest > -2;
}

/* Is it read along an axis that is rounded up? */
static bool
runs_over(const struct tt_access *a, const struct tile *t)
{
  for (int i = 0; i < TT_MAX_DIMS; i++)
    if ((t->padded >> i & 1) && a->stride[i] != 0)
      return true;
  return false;
}

static bool
lay_out(const struct tt_gpu_rules *r, const int *config,
        const struct tt_gpu_rule *rule, struct tt_schedule *s, int stage,
        const struct tile *t, const int *order, int n)
{
  int inner = 0;
  while (order[inner] != t->thread)
    inner++;
  for (int i = 0; i < rule->noperands; i++) {
    const struct tt_tensor *x = rule->operand[i];
    if (rule->padded[i]) {
      if (!tt_cache_padded(s, stage, x, TT_OUTSIDE, 0, NULL, 0,
                           tt_arena_printf(s->arena, "%s_pad", x->name)))
        return false;
      continue;
    }
    if ((value_of(r, config, rule->k_pack[i], 0) ||
         runs_over(&rule->access[i], t)) &&
        !tt_pack_operand(s, stage, x, order, n, inner, true, t->lanes))
      return false;
  }
  return true;
}

static bool
apply_tiled(const struct tt_gpu_rules *r, const int *config,
            const struct tt_gpu_rule *rule, struct tt_schedule *s, int stage)
{
  struct tile t;
  int order[TT_MAX_LOOPS], n, rest;
  if (!choose(r, config, rule, s->stages[stage].stage, &t))
    return false;
  int64_t threads = value_of(r, config, rule->k_threads, 4);
  bool rows_fast = value_of(r, config, rule->k_fast, 1);
  threads = tt_min64(threads, MAX_THREADS);
  if (!split_axes(s, stage, rule, threads, rows_fast, &t) ||
      !order_loops(s, stage, &t, order, &n, &rest))
    return false;
  return (rest < 0 || tt_bind(s, stage, rest, TT_BLOCK_Z)) &&
         (t.slow < 0 || tt_bind(s, stage, t.slow, TT_BLOCK_Y)) &&
         tt_bind(s, stage, t.fast, TT_BLOCK_X) &&
         tt_bind(s, stage, t.thread, TT_THREAD_X) &&
         tt_cache_write(s, stage, t.thread) &&
         lay_out(r, config, rule, s, stage, &t, order, n) &&
         (t.kr < 0 || tt_unroll(s, stage, t.kr)) &&
         (t.ur < 0 || tt_unroll(s, stage, t.ur)) &&
         tt_vectorize(s, stage, t.vr, t.lanes);
}

static bool
apply_grid(const struct tt_gpu_rules *r, const int *config,
           const struct tt_gpu_rule *rule, struct tt_schedule *s, int stage)
{
  struct tt_gpu_tile t = {
      .row_run = (int)value_of(r, config, rule->k_rrun, 4),
      .col_run = (int)value_of(r, config, rule->k_crun, 4),
      .row_threads = (int)value_of(r, config, rule->k_rthreads, 16),
      .col_threads = (int)value_of(r, config, rule->k_cthreads, 16),
      .steps = (int)value_of(r, config, rule->k_steps, 16),
      .parts = (int)value_of(r, config, rule->k_splitk, 1),
      .shared = {value_of(r, config, rule->k_share[0], 1) != 0,
                 value_of(r, config, rule->k_share[1], 1) != 0},
      .staging = tt_gpu_banks_of[value_of(r, config, rule->k_banks, 2)],
      .dot = value_of(r, config, rule->k_dot, 0) ? rule->dot : NULL};
  t.staging.stages = (int)value_of(r, config, rule->k_stages, 2);
  t.rows = t.row_threads * t.row_run *
           (int)value_of(r, config, rule->k_rvthreads, 1);
  t.cols = t.col_threads * t.col_run *
           (int)value_of(r, config, rule->k_cvthreads, 1);
  if (t.rows > MOST_SIDE || t.cols > MOST_SIDE ||
      !tt_gpu_tile_fits(&t, &r->target.gpu))
    return false;
  return tt_gpu_tile(s, stage, &t) == TT_GPU_DONE;
}

static bool
apply_tensor(const struct tt_gpu_rules *r, const int *config,
             const struct tt_gpu_rule *rule, struct tt_schedule *s, int stage,
             const struct tt_intrin *in)
{
  int v[TT_GPU_WARP_KNOBS];
  for (int i = 0; i < TT_GPU_WARP_KNOBS; i++)
    v[i] = (int)value_of(r, config, rule->k_warps[i], 1);
  const struct tt_gpu_warps w = {v[0], v[1], v[2], v[3], v[4], v[5], v[6]};
  return tt_gpu_tensor_fits(in, &w, &r->target.gpu) &&
         tt_gpu_tensor(s, stage, in, &w) == TT_GPU_DONE;
}

static bool
apply_rule(const struct tt_gpu_rules *r, const int *config,
           const struct tt_gpu_rule *rule, struct tt_schedule *s, int stage)
{
  int intrin = (int)value_of(r, config, rule->k_intrin, 0);
  if (intrin)
    return apply_tensor(r, config, rule, s, stage, rule->intrin[intrin - 1]);
  return (rule->grid ? apply_grid : apply_tiled)(r, config, rule, s, stage);
}

/* Threads of what is bound. */
static bool
within_limits(const struct tt_gpu_rules *r, const struct tt_schedule *s)
{
  const struct tt_gpu_limits *g = &r->target.gpu;
  for (int i = 0; i < s->nstages; i++) {
    const struct tt_stage_schedule *ss = &s->stages[i];
    int64_t threads = 1;
    for (int k = 0; k < ss->norder; k++) {
      const struct tt_loop *l = &ss->loops[ss->order[k]];
      if (!tt_is_thread(l->kind))
        continue;
      threads *= l->extent;
      if (l->extent > g->items[l->kind - TT_THREAD_X])
        return false;
    }
    if (threads > g->threads)
      return false;
  }
  return true;
}

struct tt_schedule *
tt_gpu_space_schedule(struct tt_arena *arena, const struct tt_space *space,
                      const int *config)
{
  const struct tt_gpu_rules *r = space->rules;
  struct tt_schedule *s = tt_schedule_new(arena, r->program, r->strict_fp);
  tt_gpu_inline(s);
  for (int i = 0, of = 0; i < s->nstages; i++, of++) { /* of the program */
    const struct tt_gpu_rule *rule = &r->rule[of];
    int before = s->nstages;
    if (s->stages[i].place != TT_ROOT)
      continue;
    if ((rule->tiled || rule->grid) && !apply_rule(r, config, rule, s, i))
      return NULL;
    i += s->nstages - before; /* behind the sums of parts */
    if (s->nstages > before || !(rule->tiled || rule->grid))
      tt_gpu_bind(s, i, &r->target.gpu);
    if (value_of(r, config, rule->k_finish, 1))
      tt_gpu_finish(s, i);
  }
  s->error = NULL;
  return within_limits(r, s) ? s : NULL;
}
