/* A configuration of the derived space becomes a schedule: what each rule
 * does with its choices, by calling primitives.  What a primitive refuses is
 * no schedule.
 */
#include "config.h"

#include "schedule/space.h"

#include <stdlib.h>
#include <string.h>

/* Value of a knob, or `fallback` where there is no choice. */
static int64_t
value_of(const struct tt_rules *r, const int *config, int knob,
         int64_t fallback)
{
  return knob < 0 ? fallback : r->space->knobs[knob].values[config[knob]];
}

struct apply {
  const struct tt_rules *r;
  const int *config;
  struct tt_schedule *s;
  bool *done; /* by stage: already scheduled as an epilogue */
};

static const char *
name_of(struct apply *ap, int stage, int loop, const char *suffix)
{
  return tt_arena_printf(ap->s->arena, "%s%s",
                         ap->s->stages[stage].loops[loop].name, suffix);
}

/* Split so that the inner loop has min(factor, extent) iterations; a factor
 * that reaches the extent still splits, so that loops are where rules expect
 * them. Returns the inner loop, *outer its other half; -1 if refused. */
static int
split(struct apply *ap, int stage, int loop, int64_t factor, const char *suffix,
      int *outer)
{
  int inner = tt_split(ap->s, stage, loop, factor,
                       name_of(ap, stage, loop, suffix), TT_TAIL_PEEL);
  if (inner >= 0)
    *outer = ap->s->stages[stage].loops[inner].other;
  return inner;
}

struct tiling {
  int v, u, k; /* axes; -1: none */
  int lanes;
  int64_t nr, mr, nc, mc, kc, ku; /* in points */
  int group;    /* steps of the reduction that are taken at once; 0: one */
  bool window;  /* lanes lie `group` apart, so that these are neighbours */
  int64_t part; /* of the axis that threads share; 0: none */
  enum tt_parts parts;
};

/* The size of `n` equal blocks; a little larger where that divides. */
static int64_t
balanced(int64_t extent, int64_t n)
{
  int64_t size = ceildiv(extent, n);
  for (int64_t d = size; d <= size + size / 4; d++)
    if (extent % d == 0)
      return d;
  return size;
}

/* Equal parts, as many as threads or some times more; 0: there are none.
 * (Parts that differ would be nests of their own, one after the other.) */
static int64_t
part_size(const struct tt_rules *r, int64_t extent)
{
  int64_t threads = r->target.threads;
  for (int64_t n = threads; n <= 4 * threads; n += threads)
    if (extent % n == 0)
      return extent / n;
  return 0;
}

/* Is what the vectors are loaded from read along a line by both axes, as a
 * filter does? */
static bool
is_window(const struct tt_rule *rule, const struct tt_tensor *vector,
          const struct tiling *t)
{
  for (int i = 0; i < rule->noperands; i++) {
    const int64_t *stride = rule->access[i].stride;
    if (rule->operand[i] == vector)
      return stride[t->v] == 1 && llabs(stride[t->k]) == 1;
  }
  return false;
}

/* How products of neighbours are summed at once. */
static void
choose_group(struct apply *ap, const struct tt_rule *rule, struct tiling *t)
{
  enum { PARTIAL = 8 }; /* products of a partial sum, for a sum in i64 */
  const struct tt_stage *st = ap->r->program->stages[rule->stage];
  bool grouped =
      rule->group && value_of(ap->r, ap->config, rule->k_group, 1) == 1;
  t->group = grouped ? rule->group : 0;
  t->window = false;
  if (!t->group)
    return;
  t->window = is_window(rule, tt_product_vector(ap->s->arena, st, t->v), t);
  t->ku = st->out->dtype == TT_I64 ? PARTIAL : t->group;
  t->kc = ceildiv(t->kc, t->ku) * t->ku;
}

static struct tiling
choose_tiling(struct apply *ap, const struct tt_rule *rule)
{
  const struct tt_rules *r = ap->r;
  const struct tt_stage *st = r->program->stages[rule->stage];
  struct tiling t;
  t.lanes = tt_space_lanes(r, st);
  t.v = rule->vec[value_of(r, ap->config, rule->k_vec, 0)];
  t.u = rule->row[value_of(r, ap->config, rule->k_row, 0)];
  if (t.u == t.v)
    t.u = rule->nrow > 1 && rule->row[0] == t.v ? rule->row[1] : rule->row[0];
  if (t.u == t.v)
    t.u = -1;
  int64_t ve = tt_space_extent(st, t.v);
  int64_t ue = t.u < 0 ? 1 : tt_space_extent(st, t.u);
  t.k = rule->kaxis;
  int64_t ke = t.k < 0 ? 1 : tt_space_extent(st, t.k);
  t.nr = t.lanes *
         value_of(r, ap->config, rule->k_nr, min64(2, ceildiv(ve, t.lanes)));
  t.mr = min64(ue, value_of(r, ap->config, rule->k_mr, 4));
  t.nr = min64(t.nr, ceildiv(ve, t.lanes) * t.lanes);
  t.parts = (enum tt_parts)value_of(r, ap->config, rule->k_par, TT_PART_OTHERS);
  int64_t *shared = t.parts == TT_PART_VECTORS            ? &ve
                    : t.parts == TT_PART_ROWS && t.u >= 0 ? &ue
                                                          : NULL;
  t.part = shared ? part_size(r, *shared) : 0;
  if (t.part)
    *shared = t.part;
  int64_t nb = value_of(r, ap->config, rule->k_nc, ceildiv(ve, 1024));
  int64_t mb = value_of(r, ap->config, rule->k_mc, ceildiv(ue, 96));
  t.nc = t.nr * ceildiv(ceildiv(ve, t.nr), nb);
  t.mc = t.mr * ceildiv(ceildiv(ue, t.mr), mb);
  t.kc = balanced(ke, value_of(r, ap->config, rule->k_kc, ceildiv(ke, 512)));
  t.ku = min64(t.kc, value_of(r, ap->config, rule->k_ku, 1));
  choose_group(ap, rule, &t);
  return t;
}

/* Registers that the tile needs, with the loads of one step. */
static bool
fits_registers(struct apply *ap, const struct tiling *t)
{
  int64_t vectors = ceildiv(t->nr, t->lanes);
  return t->mr * vectors + min64(vectors, t->mr) + 1 <=
         ap->r->target.registers + 2;
}

/* Order of the block loops, outermost first: vectors, reduction, rows, and the
 * others, which are no part of the tile. */
static const char *const orders[] = {"ovku", "oukv", "ouvk",
                                     "ovuk", "vouk", "voku"};

/* The loops of a tiled stage, -1 where there are none: blocks, tiles in a
 * block, points in a tile; and their order, outermost first, of which the
 * first `nblocks` hold the blocks. */
struct tile {
  int part;       /* parts for threads */
  int v, u, k;    /* blocks */
  int v1, u1, k1; /* tiles, and steps of the reduction */
  int vr, ur, ku; /* points */
  int vn, kn;     /* those of a group, in a window and in a partial sum */
  int order[TT_MAX_LOOPS], n, nblocks;
};

/* The spatial loops that are no part of the tile, in their order. */
static void
add_others(const struct tt_stage *st, const struct tiling *t, int *order,
           int *n)
{
  for (int a = 0; a < st->nspatial; a++)
    if (a != t->v && a != t->u)
      order[(*n)++] = a;
}

/* Blocks of the stage's own loops, in parts for threads. */
static bool
own_blocks(struct apply *ap, int stage, const struct tiling *t, struct tile *l)
{
  int v = t->v, u = t->u;
  int *shared = t->parts == TT_PART_ROWS ? &u : &v;
  if (t->part &&
      (*shared = split(ap, stage, *shared, t->part, "_p", &l->part)) < 0)
    return false;
  l->v1 = split(ap, stage, v, t->nc, "_b", &l->v);
  if (l->v1 < 0)
    return false;
  if (u >= 0)
    l->u1 = split(ap, stage, u, t->mc, "_b", &l->u);
  return u < 0 || l->u1 >= 0;
}

/* Blocks of the loops of an elementwise stage, the epilogue, in which the
 * reduction is computed block by block. */
static bool
epilogue_blocks(struct apply *ap, int stage, int epilogue,
                const struct tiling *t, bool vectors_first, struct tile *l)
{
  struct tt_schedule *s = ap->s;
  const struct tt_stage_schedule *es = &s->stages[epilogue];
  int order[TT_MAX_LOOPS], n = 0, vo, uo = -1, ui = -1;
  int vi = split(ap, epilogue, t->v, t->nc, "_b", &vo);
  if (vi < 0 ||
      (t->u >= 0 && (ui = split(ap, epilogue, t->u, t->mc, "_b", &uo)) < 0))
    return false;
  add_others(es->stage, t, order, &n);
  if (vectors_first)
    order[n++] = vo;
  if (uo >= 0)
    order[n++] = uo;
  if (!vectors_first)
    order[n++] = vo;
  int at = order[n - 1];
  if (ui >= 0)
    order[n++] = ui;
  order[n++] = vi;
  if (!tt_reorder(s, epilogue, n, order) ||
      !tt_compute_at(s, stage, epilogue, at))
    return false;
  if (tt_vectorizes(s->arena, es->stage, es->value, es->where, t->v, true)) {
    int evo,
        evi = split(ap, epilogue, vi, min64(t->nc, 4 * t->lanes), "_v", &evo);
    if (evi < 0 || !tt_vectorize(s, epilogue, evi, t->lanes))
      return false;
    (void)tt_reciprocal(s, epilogue, evi);
  }
  ap->done[epilogue] = true;
  l->v1 = t->v;
  l->u1 = t->u;
  return true;
}

/* Split tiles into points, and the reduction into blocks and steps. */
static bool
split_tile(struct apply *ap, int stage, const struct tiling *t, struct tile *l)
{
  l->vr = split(ap, stage, l->v1, t->nr, "_r", &l->v1);
  if (l->vr < 0)
    return false;
  if (l->u1 >= 0 && (l->ur = split(ap, stage, l->u1, t->mr, "_r", &l->u1)) < 0)
    return false;
  if (t->k >= 0 && (l->k1 = split(ap, stage, t->k, t->kc, "_b", &l->k)) < 0)
    return false;
  if (t->ku > 1)
    l->ku = split(ap, stage, l->k1, t->ku, "_u", &l->k1);
  if (t->ku > 1 && l->ku < 0)
    return false;
  if (t->window)
    l->vn = split(ap, stage, l->vr, t->group, "_n", &l->vr);
  else if (t->group && t->group < t->ku)
    l->kn = split(ap, stage, l->ku, t->group, "_n", &l->ku);
  return true;
}

static void
add_loop(struct tile *l, int loop)
{
  if (loop >= 0)
    l->order[l->n++] = loop;
}

/* Order the loops; accumulators live in one tile. */
static bool
order_tile(struct apply *ap, int stage, const struct tiling *t,
           const char *blocks, struct tile *l)
{
  const struct tt_stage *st = ap->s->stages[stage].stage;
  add_loop(l, l->part);
  for (const char *b = blocks; *b; b++)
    if (*b == 'o')
      add_others(st, t, l->order, &l->n);
    else
      add_loop(l, *b == 'v' ? l->v : *b == 'u' ? l->u : l->k);
  l->nblocks = l->n;
  add_loop(l, l->v1);
  add_loop(l, l->u1);
  int acc = l->order[l->n - 1];
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (a != t->k)
      add_loop(l, a);
  add_loop(l, l->k1);
  add_loop(l, l->ku);
  add_loop(l, l->kn);
  add_loop(l, l->ur);
  add_loop(l, l->vn);
  add_loop(l, l->vr);
  return tt_reorder(ap->s, stage, l->n, l->order) &&
         tt_cache_write(ap->s, stage, acc) &&
         (l->ku < 0 || tt_unroll(ap->s, stage, l->ku)) &&
         (l->kn < 0 || tt_unroll(ap->s, stage, l->kn)) &&
         (l->vn < 0 || tt_unroll(ap->s, stage, l->vn)) &&
         (l->ur < 0 || tt_unroll(ap->s, stage, l->ur)) &&
         tt_vectorize(ap->s, stage, l->vr, t->lanes);
}

/* Leave out the points outside of padded operands.  Loops whose points differ
 * with the rows of the tile are written out: their conditions become
 * constants. */
static bool
shrink_tile(struct apply *ap, int stage, const struct tiling *t)
{
  struct tt_schedule *s = ap->s;
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_stage *st = ss->stage;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (a != t->k && tt_shrink(s, stage, a) && t->u >= 0 &&
        tt_shrinks_with(s->arena, ss, a, t->u) && !tt_unroll(s, stage, a))
      return false;
  return true;
}

/* Copies of the operands: with a border, or packed. */
static bool
copy_operands(struct apply *ap, const struct tt_rule *rule,
              const struct tiling *t, bool fused, bool shrunk,
              const struct tile *l)
{
  struct tt_schedule *s = ap->s;
  const struct tt_stage *st = ap->r->program->stages[rule->stage];
  const struct tt_tensor *vector =
      t->group && !t->window ? tt_product_vector(s->arena, st, t->v) : NULL;
  int grouped[TT_MAX_LOOPS], n = 0, last = l->kn >= 0 ? l->kn : l->ku;
  for (int i = 0; i < l->n; i++)
    if (l->order[i] != last)
      grouped[n++] = l->order[i];
  if (last >= 0)
    grouped[n++] = last;
  for (int i = 0; i < rule->noperands; i++) {
    const struct tt_tensor *operand = rule->operand[i];
    if (rule->padded[i] && shrunk &&
        tt_shrinks_border(s->arena, &s->stages[rule->stage], operand))
      continue;
    if (rule->padded[i]) {
      const char *name = tt_arena_printf(s->arena, "%s_pad", operand->name);
      if (!tt_cache_padded(s, rule->stage, operand, TT_OUTSIDE, 0, NULL, 0,
                           name))
        return false;
      continue;
    }
    int64_t pack = value_of(ap->r, ap->config, rule->k_pack[i], 0);
    bool neighbours = operand == vector;
    if ((pack || neighbours) &&
        !tt_pack_operand(s, rule->stage, operand,
                         neighbours ? grouped : l->order, l->n, l->nblocks,
                         pack == 2 && !fused, t->lanes))
      return false;
  }
  return true;
}

static bool
apply_tiled(struct apply *ap, const struct tt_rule *rule)
{
  int stage = rule->stage;
  struct tiling t = choose_tiling(ap, rule);
  if (!fits_registers(ap, &t))
    return false;
  int64_t how = value_of(ap->r, ap->config, rule->k_fuse, 0);
  /* (What is computed in the loops of another stage stays a stage.) */
  if (how == 2 && tt_chain_depth(ap->r, ap->config, stage))
    how = 1;
  bool fuse = rule->epilogue >= 0 && how == 1 &&
              !ap->r->program->stages[stage]->prepare;
  bool shrink = value_of(ap->r, ap->config, rule->k_pad, rule->shrinks);
  const char *blocks = orders[value_of(ap->r, ap->config, rule->k_order, 0)];
  struct tile l = {.part = -1,
                   .v = -1,
                   .u = -1,
                   .k = -1,
                   .v1 = -1,
                   .u1 = -1,
                   .k1 = -1,
                   .vr = -1,
                   .ur = -1,
                   .ku = -1,
                   .vn = -1,
                   .kn = -1};
  bool ok = fuse
                ? epilogue_blocks(ap, stage, rule->epilogue, &t,
                                  strchr(blocks, 'v') < strchr(blocks, 'u'), &l)
                : own_blocks(ap, stage, &t, &l);
  return ok && split_tile(ap, stage, &t, &l) &&
         order_tile(ap, stage, &t, blocks, &l) &&
         (!shrink || shrink_tile(ap, stage, &t)) &&
         copy_operands(ap, rule, &t, fuse, shrink, &l) &&
         (how != 2 ||
          tt_chain_apply_finish(ap->r, ap->s, stage, rule->finish, ap->done));
}

/* Sums along rows, several rows at once: lanes are partial sums. */
static bool
apply_rows(struct apply *ap, const struct tt_rule *rule)
{
  struct tt_schedule *s = ap->s;
  const struct tt_rules *r = ap->r;
  int stage = rule->stage;
  const struct tt_stage *st = r->program->stages[stage];
  int lanes = tt_space_lanes(r, st);
  int u = rule->rrow;
  int64_t rows = u < 0 ? 1 : tt_space_extent(st, u);
  int64_t mr = min64(rows, value_of(r, ap->config, rule->k_rmr, 1));
  int64_t w = min64(tt_space_extent(st, rule->vred) / lanes,
                    value_of(r, ap->config, rule->k_rw, 4));
  if (mr * w + w + 1 > r->target.registers)
    return false;
  int uo = u, ur = -1, ko, kv, order[TT_MAX_LOOPS], n = 0;
  if (mr > 1 && (ur = split(ap, stage, u, mr, "_r", &uo)) < 0)
    return false;
  if ((kv = split(ap, stage, rule->vred, w * lanes, "_v", &ko)) < 0)
    return false;
  for (int a = 0; a < st->nspatial; a++)
    if (a != u)
      order[n++] = a;
  if (u >= 0)
    order[n++] = uo;
  int acc = n ? order[n - 1] : TT_OUTSIDE;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (a != rule->vred)
      order[n++] = a;
  order[n++] = ko;
  if (ur >= 0)
    order[n++] = ur;
  order[n++] = kv;
  return tt_reorder(s, stage, n, order) && tt_cache_write(s, stage, acc) &&
         (ur < 0 || tt_unroll(s, stage, ur)) &&
         tt_vectorize(s, stage, kv, lanes);
}

static bool
apply_reduction(struct apply *ap, const struct tt_rule *rule)
{
  if (rule->vred >= 0)
    return apply_rows(ap, rule);
  const struct tt_stage *st = ap->r->program->stages[rule->stage];
  int at = st->nspatial - 1;
  if (!tt_cache_write(ap->s, rule->stage, at < 0 ? TT_OUTSIDE : at))
    return false;
  int64_t u = value_of(ap->r, ap->config, rule->k_ku, 1);
  if (u <= 1)
    return true;
  int outer, inner = split(ap, rule->stage, rule->kaxis, u, "_u", &outer);
  /* Split in place, so the order of the sum stays. */
  return inner >= 0 && tt_unroll(ap->s, rule->stage, inner);
}

/* Several iterations of the axis along which windows overlap inside the loop
 * `outer`, over vectors. */
static bool
overlap_windows(struct apply *ap, const struct tt_rule *rule, int outer)
{
  int64_t rows = value_of(ap->r, ap->config, rule->k_wrows, rule->wrows);
  if (rule->wrow < 0 || rows <= 1)
    return true;
  int uo, ur = split(ap, rule->stage, rule->wrow, rows, "_r", &uo);
  return ur >= 0 &&
         tt_reorder(ap->s, rule->stage, 2, (const int[]){outer, ur}) &&
         tt_unroll(ap->s, rule->stage, ur);
}

/* Vectors along the last dimension. */
static bool
tile_elementwise(struct apply *ap, int stage, int64_t width)
{
  const struct tt_stage *st = ap->r->program->stages[stage];
  int lanes = tt_space_lanes(ap->r, st);
  if (!st->nspatial || !lanes)
    return true;
  int last = st->nspatial - 1;
  int64_t e = tt_space_extent(st, last);
  const struct tt_stage_schedule *ss = &ap->s->stages[stage];
  if (e < 2 ||
      !tt_vectorizes(ap->s->arena, st, ss->value, ss->where, last, true))
    return true;
  int outer,
      inner = split(ap, stage, last, min64(e, lanes * width), "_v", &outer);
  if (inner < 0 || !tt_vectorize(ap->s, stage, inner, lanes))
    return false;
  (void)tt_reciprocal(ap->s, stage, inner); /* where something is divided */
  return overlap_windows(ap, &ap->r->rule[stage], outer);
}

static bool
apply_elementwise(struct apply *ap, const struct tt_rule *rule)
{
  if (ap->done[rule->stage])
    return true;
  int64_t place = value_of(ap->r, ap->config, rule->k_place, rule->place);
  int stage = rule->stage;
  if (place == 1) {
    int last = ap->r->program->stages[stage]->nspatial - 1;
    if (last >= 0)
      (void)tt_reciprocal(ap->s, stage, last);
    return tt_inline(ap->s, stage);
  }
  if (!tile_elementwise(ap, stage,
                        value_of(ap->r, ap->config, rule->k_width, 1)))
    return false;
  if (place < 2)
    return true;
  /* At the outermost loop of its last consumer, or one further in. */
  const struct tt_stage_schedule *c = &ap->s->stages[rule->consumer];
  int depth = (int)place - 2;
  return c->place != TT_INLINE && depth < c->norder &&
         tt_compute_at(ap->s, stage, rule->consumer, c->order[depth]);
}

/* What is done before other threads have begun is not shared with them. */
#define MIN_SHARED_WORK 1e4

/* The outermost loop of what stands at root runs in parallel. */
static bool
parallelize(struct apply *ap)
{
  if (ap->r->target.threads < 2)
    return true;
  for (int i = 0; i < ap->s->nstages; i++) {
    const struct tt_stage_schedule *ss = &ap->s->stages[i];
    if (ss->place != TT_ROOT || ss->stage->prepare || !ss->norder ||
        (ap->r->program->nstages > 1 &&
         tt_stage_work(ss->stage) < MIN_SHARED_WORK))
      continue;
    for (int j = 0; j < ss->norder; j++) {
      const struct tt_loop *l = &ss->loops[ss->order[j]];
      if (l->reduce || l->kind != TT_SERIAL)
        break;
      if (l->extent < ap->r->target.threads)
        continue;
      if (!tt_parallel(ap->s, i, ss->order[j]))
        return false;
      break;
    }
  }
  return true;
}

struct tt_schedule *
tt_space_schedule(struct tt_arena *arena, const struct tt_space *space,
                  const int *config)
{
  const struct tt_rules *r = space->rules;
  struct apply ap = {r, config, tt_parts_schedule(arena, r),
                     TT_ARRAY(arena, bool, (size_t)r->program->nstages + 1)};
  for (int i = r->program->nstages - 1; i >= 0; i--) {
    const struct tt_rule *rule = &r->rule[i];
    bool ok = false;
    /* An epilogue is scheduled with the reduction that comes before it: only
     * what is left of it is done here, after that. */
    switch (rule->kind) {
    case TT_TILED:
      ok = value_of(r, config, rule->k_style, rule->rows)
               ? apply_reduction(&ap, rule)
               : apply_tiled(&ap, rule);
      break;
    case TT_REDUCTION:
      ok = apply_reduction(&ap, rule);
      break;
    case TT_TRANSFORM:
      ok = tt_apply_transform(ap.s, r, config, rule);
      break;
    case TT_PRODUCT:
      ok = tt_apply_product(ap.s, r, config, rule);
      break;
    case TT_ELEMENTWISE:
      ok = true;
      break;
    }
    if (!ok)
      return NULL;
  }
  for (int i = r->program->nstages - 1; i >= 0; i--)
    if (r->rule[i].kind == TT_ELEMENTWISE &&
        !apply_elementwise(&ap, &r->rule[i]))
      return NULL;
  tt_chain_place(r, config, ap.s);
  return parallelize(&ap) ? ap.s : NULL;
}
