/* A configuration of the derived space becomes a schedule: what each rule
 * does with its choices, by calling primitives.  What a primitive refuses is
 * no schedule.
 */
#include "config.h"

#include "schedule/space.h"

#include <stdlib.h>

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
  int64_t nb = value_of(r, ap->config, rule->k_nc, ceildiv(ve, 1024));
  int64_t mb = value_of(r, ap->config, rule->k_mc, ceildiv(ue, 96));
  t.nc = t.nr * ceildiv(ceildiv(ve, t.nr), nb);
  t.mc = t.mr * ceildiv(ceildiv(ue, t.mr), mb);
  t.kc = balanced(ke, value_of(r, ap->config, rule->k_kc, ceildiv(ke, 512)));
  t.ku = min64(t.kc, value_of(r, ap->config, rule->k_ku, 1));
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

/* Order of the three block loops, outermost first: vectors, reduction, rows. */
static const char *const orders[] = {"vku", "ukv", "uvk", "vuk"};

static bool tile_elementwise(struct apply *ap, int stage, int64_t width);

static bool
apply_tiled(struct apply *ap, const struct tt_rule *rule)
{
  struct tt_schedule *s = ap->s;
  const struct tt_rules *r = ap->r;
  int st = rule->stage;
  struct tt_stage_schedule *ss = &s->stages[st];
  struct tiling t = choose_tiling(ap, rule);
  if (!fits_registers(ap, &t))
    return false;
  bool fuse = rule->epilogue >= 0 && !ap->r->program->stages[st]->prepare &&
              value_of(r, ap->config, rule->k_fuse, 0) == 1;
  int o = fuse ? rule->epilogue : st; /* whose loops the blocks are */
  struct tt_stage_schedule *os = &s->stages[o];
  int vo = t.v, uo = t.u, ko = t.k, vi, ui = -1, ki = -1, vr, ur = -1, ku = -1;
  vi = split(ap, o, t.v, t.nc, "_b", &vo);
  if (vi < 0)
    return false;
  if (t.u >= 0 && (ui = split(ap, o, t.u, t.mc, "_b", &uo)) < 0)
    return false;
  int order[TT_MAX_LOOPS], n = 0;
  int norder = (int)value_of(r, ap->config, rule->k_order, 0);
  if (fuse) {
    /* Blocks are loops of the epilogue; the reduction is computed in them. */
    for (int a = 0; a < os->stage->nspatial; a++)
      if (a != t.v && a != t.u)
        order[n++] = a;
    if (orders[norder][0] == 'v')
      order[n++] = vo;
    if (uo >= 0)
      order[n++] = uo;
    if (orders[norder][0] != 'v')
      order[n++] = vo;
    int at = order[n - 1];
    if (ui >= 0)
      order[n++] = ui;
    order[n++] = vi;
    if (!tt_reorder(s, o, n, order) || !tt_compute_at(s, st, o, at))
      return false;
    if (tt_vectorizes(s->arena, os->stage, os->value, os->where, t.v, true)) {
      int64_t wide = min64(t.nc, 4 * t.lanes);
      int evo, evi = split(ap, o, vi, wide, "_v", &evo);
      if (evi < 0 || !tt_vectorize(s, o, evi, t.lanes))
        return false;
    }
    ap->done[o] = true;
    vi = t.v;
    ui = t.u;
    vo = uo = -1;
  }
  /* Register tile. */
  int v1 = vi, u1 = ui;
  vr = split(ap, st, vi, t.nr, "_r", &v1);
  if (vr < 0)
    return false;
  if (ui >= 0 && (ur = split(ap, st, ui, t.mr, "_r", &u1)) < 0)
    return false;
  if (t.k >= 0 && (ki = split(ap, st, t.k, t.kc, "_b", &ko)) < 0)
    return false;
  int kt = ki;
  if (t.ku > 1 && (ku = split(ap, st, ki, t.ku, "_u", &kt)) < 0)
    return false;
  n = 0;
  for (int a = 0; a < ss->stage->nspatial; a++)
    if (a != t.v && a != t.u)
      order[n++] = a;
  for (const char *b = orders[norder]; *b; b++) {
    int loop = *b == 'v' ? vo : *b == 'u' ? uo : ko;
    if (loop >= 0 && !(*b == 'u' && t.u < 0))
      order[n++] = loop;
  }
  int nblocks = n, acc;
  acc = order[n++] = v1;
  if (u1 >= 0)
    acc = order[n++] = u1;
  for (int a = ss->stage->nspatial;
       a < ss->stage->nspatial + ss->stage->nreduce; a++)
    if (a != t.k)
      order[n++] = a;
  if (kt >= 0)
    order[n++] = kt;
  if (ku >= 0)
    order[n++] = ku;
  if (ur >= 0)
    order[n++] = ur;
  order[n++] = vr;
  if (!tt_reorder(s, st, n, order) || !tt_cache_write(s, st, acc))
    return false;
  if (ku >= 0 && !tt_unroll(s, st, ku))
    return false;
  if (ur >= 0 && !tt_unroll(s, st, ur))
    return false;
  if (!tt_vectorize(s, st, vr, t.lanes))
    return false;
  for (int i = 0; i < rule->noperands; i++) {
    if (rule->padded[i]) {
      const char *name =
          tt_arena_printf(s->arena, "%s_pad", rule->operand[i]->name);
      if (!tt_cache_padded(s, st, rule->operand[i], TT_OUTSIDE, 0, name))
        return false;
      continue;
    }
    int64_t pack = value_of(r, ap->config, rule->k_pack[i], 0);
    bool ahead = pack == 2 && !fuse;
    if (pack && !tt_pack_operand(s, st, rule->operand[i], order, n, nblocks,
                                 ahead, t.lanes))
      return false;
  }
  return true;
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
  return inner >= 0 && tt_vectorize(ap->s, stage, inner, lanes);
}

static bool
apply_elementwise(struct apply *ap, const struct tt_rule *rule)
{
  if (ap->done[rule->stage])
    return true;
  int64_t place = value_of(ap->r, ap->config, rule->k_place, 0);
  int stage = rule->stage;
  if (place == 1)
    return tt_inline(ap->s, stage);
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

/* The outermost loop of what stands at root runs in parallel. */
static bool
parallelize(struct apply *ap)
{
  if (ap->r->target.threads < 2)
    return true;
  for (int i = 0; i < ap->s->nstages; i++) {
    const struct tt_stage_schedule *ss = &ap->s->stages[i];
    if (ss->place != TT_ROOT || ss->stage->prepare || !ss->norder)
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
  struct apply ap = {r, config,
                     tt_schedule_new(arena, r->program, r->strict_fp),
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
  return parallelize(&ap) ? ap.s : NULL;
}
