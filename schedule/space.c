/* The derived space S_e: rules walk the stages from the outputs back and
 * leave choices (knobs) open; a configuration chooses, and becomes a schedule
 * by calling primitives.  No rule knows an operator by name.
 *
 *   reduction with a vectorizable spatial axis   register tile of rows x
 *       vectors, blocks of both and of the reduction, an order of the block
 *       loops, packing of each operand, unrolling; fused with an elementwise
 *       consumer or not
 *   reduction read along rows   several rows at once, vectors of partial sums
 *   other reductions    accumulators in registers, the reduction unrolled
 *   elementwise         vectors along the last dimension; placed at root,
 *       inlined, or at a loop of its last consumer
 *
 * Stages with little of the program's work follow the default choice and get
 * no knob.
 */
#include "config.h"

#include "schedule/analysis.h"

#include <stdlib.h>
#include <string.h>

#define MAX_AXES 3     /* candidates for the vector or row axis */
#define MAX_OPERANDS 4 /* that can be packed */
#define MAX_KNOBS 96

enum rule_kind { TILED, REDUCTION, ELEMENTWISE };

/* Positions of knobs in the space; -1: no choice, the default is taken. */
struct rule {
  enum rule_kind kind;
  bool open; /* has knobs */
  int stage;
  /* TILED */
  int nvec, vec[MAX_AXES];
  int nrow, row[MAX_AXES + 1]; /* -1: no row axis */
  int kaxis;                   /* the reduction axis that is blocked; -1 */
  int epilogue;                /* elementwise stage it can be fused into; -1 */
  int noperands;
  const struct tt_tensor *operand[MAX_OPERANDS];
  int k_vec, k_row, k_mr, k_nr, k_mc, k_nc, k_kc, k_ku, k_order, k_fuse;
  int k_pack[MAX_OPERANDS];
  bool padded[MAX_OPERANDS]; /* is read outside, with one border value */
  /* REDUCTION, and TILED where `k_style` chooses so */
  bool rows; /* the default is along a row */
  int rrow;  /* several rows at once along this axis; -1 */
  int vred;  /* reduction axis read with unit stride; -1 */
  int k_style, k_rmr, k_rw;
  /* ELEMENTWISE */
  int consumer; /* the last stage that reads it */
  int k_place, k_width;
};

struct rules {
  struct tt_arena *arena;
  const struct tt_program *program;
  struct tt_target_model target;
  bool strict_fp;
  struct rule *rule;         /* by stage */
  struct tt_schedule *trial; /* to ask primitives what they would refuse */
  struct tt_space *space;
  int *defaults; /* index of the default value, by knob */
};

/* ---- knobs ------------------------------------------------------------- */

static int
add_knob(struct rules *r, int stage, const char *what, enum tt_knob_kind kind,
         int n, const int64_t *values, int64_t preferred)
{
  struct tt_space *sp = r->space;
  if (n < 2 || sp->nknobs == MAX_KNOBS)
    return -1;
  struct tt_knob *k = &sp->knobs[sp->nknobs];
  k->name = tt_arena_printf(r->arena, "%s.%s",
                            r->program->stages[stage]->out->name, what);
  k->kind = kind;
  k->n = n;
  k->values = tt_arena_dup(r->arena, values, (size_t)n * sizeof *values);
  int best = 0;
  for (int i = 0; i < n; i++)
    if (llabs(values[i] - preferred) < llabs(values[best] - preferred))
      best = i;
  r->defaults[sp->nknobs] = best;
  sp->size *= n;
  return sp->nknobs++;
}

static int
add_choice(struct rules *r, int stage, const char *what, int n, int preferred)
{
  int64_t values[16];
  for (int i = 0; i < n && i < 16; i++)
    values[i] = i;
  return add_knob(r, stage, what, TT_KNOB_CHOICE, n, values, preferred);
}

/* Value of a knob, or `fallback` where there is no choice. */
static int64_t
value_of(const struct rules *r, const int *config, int knob, int64_t fallback)
{
  return knob < 0 ? fallback : r->space->knobs[knob].values[config[knob]];
}

static int64_t
min64(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t
ceildiv(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* ---- deriving the rules ------------------------------------------------ */

static const int64_t row_tiles[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16};
static const int64_t vec_tiles[] = {1, 2, 3, 4, 5, 6, 8};
/* Blocks are counted, not sized, so that they come out balanced. */
static const int64_t blocks[] = {1,  2,  3,  4,  5,  6,  8,  10,
                                 12, 16, 20, 24, 32, 48, 64, 96};
static const int64_t unrolls[] = {1, 2, 4, 8};

/* The values of a table that make a difference below `limit`: all smaller
 * ones and the first that reaches it. */
static int
up_to(int n, const int64_t *table, int64_t limit, int64_t *out)
{
  int k = 0;
  for (int i = 0; i < n; i++) {
    out[k++] = table[i];
    if (table[i] >= limit)
      break;
  }
  return k;
}
#define UP_TO(table, limit, out)                                               \
  up_to((int)(sizeof(table) / sizeof(table)[0]), table, limit, out)

static int
lanes_of(const struct rules *r, const struct tt_stage *st)
{
  int bytes = tt_widest_type(st);
  int lanes = r->target.vector_bytes / bytes;
  return lanes < 2 ? 0 : lanes > 64 ? 64 : lanes;
}

static int64_t
axis_extent(const struct tt_stage *st, int axis)
{
  return axis < st->nspatial ? st->spatial[axis]->extent
                             : st->reduce[axis - st->nspatial]->extent;
}

/* Reads that stay the same along an axis. */
static int
reuse_along(int axis, const struct tt_access *acc, int nacc)
{
  int n = 0;
  for (int i = 0; i < nacc; i++)
    n += acc[i].stride[axis] == 0;
  return n;
}

/* Vector axes: unit stride somewhere, best first; rows: the other axes, the
 * ones along which an operand is reused first. */
static void
find_axes(struct rules *r, struct rule *rule, const struct tt_stage *st,
          const struct tt_access *acc, int nacc)
{
  int score[TT_MAX_DIMS];
  int lanes = lanes_of(r, st);
  for (int a = 0; a < st->nspatial; a++) {
    score[a] = -1;
    if (!lanes || axis_extent(st, a) < (lanes < 8 ? 2 : lanes / 4) ||
        !tt_vectorizes(r->arena, st, st->value, st->where, a))
      continue;
    int unit = a == st->nspatial - 1, bad = 0;
    for (int i = 0; i < nacc; i++) {
      int64_t s = acc[i].stride[a];
      unit += s == 1;
      bad += s != 0 && s != 1;
    }
    if (unit)
      score[a] = 4 * unit - 3 * bad + 20 + (axis_extent(st, a) >= lanes);
  }
  for (rule->nvec = 0; rule->nvec < MAX_AXES;) {
    int best = -1;
    for (int a = 0; a < st->nspatial; a++)
      if (score[a] >= 0 && (best < 0 || score[a] > score[best]))
        best = a;
    if (best < 0)
      break;
    rule->vec[rule->nvec++] = best;
    score[best] = -1;
  }
  /* A row axis reuses every operand that does not depend on it. */
  int gain[TT_MAX_DIMS];
  for (int a = 0; a < st->nspatial; a++) {
    gain[a] = axis_extent(st, a) > 1 ? 0 : -1;
    /* Most of all the ones that are loaded as vectors. */
    for (int i = 0; i < nacc && gain[a] >= 0; i++)
      if (acc[i].stride[a] == 0)
        gain[a] += rule->nvec && acc[i].stride[rule->vec[0]] != 0 ? 4 : 2;
    if (gain[a] >= 0 && axis_extent(st, a) >= 4)
      gain[a]++;
  }
  for (rule->nrow = 0; rule->nrow < MAX_AXES;) {
    int best = -1;
    for (int a = st->nspatial - 1; a >= 0; a--)
      if (gain[a] >= 0 && (best < 0 || gain[a] > gain[best]) &&
          !(rule->nvec == 1 && rule->vec[0] == a))
        best = a;
    if (best < 0)
      break;
    rule->row[rule->nrow++] = best;
    gain[best] = -1;
  }
  if (!rule->nrow)
    rule->row[rule->nrow++] = -1;
  rule->rrow = -1;
  for (int a = 0; a < st->nspatial; a++)
    if (axis_extent(st, a) > 1 &&
        (rule->rrow < 0 ||
         reuse_along(a, acc, nacc) > reuse_along(rule->rrow, acc, nacc)))
      rule->rrow = a;
}

/* The reduction axis worth blocking: the longest. */
static int
longest_reduction(const struct tt_stage *st)
{
  int best = -1;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (best < 0 || axis_extent(st, a) > axis_extent(st, best))
      best = a;
  return best;
}

/* The elementwise stage that alone reads this one, point by point. */
static int
find_epilogue(const struct tt_program *p, int stage)
{
  const struct tt_stage *st = p->stages[stage];
  int reader = -1;
  for (int i = stage + 1; i < p->nstages; i++)
    if (tt_expr_uses_tensor(p->stages[i]->value, st->out) ||
        (p->stages[i]->where &&
         tt_expr_uses_tensor(p->stages[i]->where, st->out))) {
      if (reader >= 0)
        return -1;
      reader = i;
    }
  if (reader < 0 || p->stages[reader]->red != TT_RED_NONE ||
      p->stages[reader]->prepare != st->prepare ||
      !tt_reads_pointwise(p->stages[reader], st->out))
    return -1;
  return reader;
}

static void
tiled_knobs(struct rules *r, struct rule *rule, const struct tt_stage *st)
{
  int64_t v[32];
  int lanes = lanes_of(r, st), s = rule->stage;
  int64_t ve = axis_extent(st, rule->vec[0]);
  int64_t re = rule->row[0] < 0 ? 1 : axis_extent(st, rule->row[0]);
  int64_t ke = rule->kaxis < 0 ? 1 : axis_extent(st, rule->kaxis);
  int registers = r->target.registers;
  int nr = registers >= 32 ? 4 : 2;
  if (ceildiv(ve, lanes) < nr)
    nr = (int)ceildiv(ve, lanes);
  int mr = (registers - 4) / nr - (registers >= 32);
  if (mr > 14)
    mr = 14;
  /* Rows that divide evenly leave no tail. */
  for (int m = mr; m >= mr - 1 && m > 1; m--)
    if (re % m == 0) {
      mr = m;
      break;
    }
  rule->k_vec = add_choice(r, s, "vector", rule->nvec, 0);
  rule->k_row = add_choice(r, s, "row", rule->nrow, 0);
  int n = UP_TO(vec_tiles, ceildiv(ve, lanes), v);
  rule->k_nr = add_knob(r, s, "nr", TT_KNOB_FACTOR, n, v, nr);
  n = UP_TO(row_tiles, re, v);
  rule->k_mr = add_knob(r, s, "mr", TT_KNOB_FACTOR, n, v, mr);
  n = UP_TO(blocks, ceildiv(ve, lanes), v);
  rule->k_nc = add_knob(r, s, "nb", TT_KNOB_FACTOR, n, v, ceildiv(ve, 1024));
  n = UP_TO(blocks, re, v);
  rule->k_mc = add_knob(r, s, "mb", TT_KNOB_FACTOR, n, v, ceildiv(re, 96));
  n = UP_TO(blocks, ceildiv(ke, 8), v);
  rule->k_kc = add_knob(r, s, "kb", TT_KNOB_FACTOR, n, v, ceildiv(ke, 512));
  n = UP_TO(unrolls, ke, v);
  rule->k_ku = add_knob(r, s, "ku", TT_KNOB_FACTOR, n, v, 1);
  rule->k_order = add_choice(r, s, "order", 4, 0);
  if (rule->epilogue >= 0)
    rule->k_fuse = add_choice(r, s, "fuse", 2, 1);
  /* Packing pays when the block is read many times. */
  bool large = ve * re >= 64 * 64 && ke >= 32;
  for (int i = 0; i < rule->noperands; i++) {
    if (rule->padded[i])
      continue; /* copied with its border, not packed */
    rule->k_pack[i] =
        add_choice(r, s, tt_arena_printf(r->arena, "pack%d", i), 2, large);
  }
}

static void
derive_tiled(struct rules *r, struct rule *rule, const struct tt_stage *st,
             const struct tt_access *acc, int nacc)
{
  rule->kaxis = longest_reduction(st);
  rule->epilogue = find_epilogue(r->program, rule->stage);
  for (int i = 0; i < nacc && rule->noperands < MAX_OPERANDS; i++) {
    bool seen = acc[i].several;
    for (int j = 0; j < rule->noperands; j++)
      seen |= rule->operand[j] == acc[i].tensor;
    if (seen || acc[i].tensor->role == TT_CONST)
      continue;
    struct tt_schedule *trial = r->trial;
    rule->padded[rule->noperands] = tt_cache_padded(
        trial, rule->stage, acc[i].tensor, TT_OUTSIDE, 0, "trial");
    trial->stages[rule->stage].ncaches = 0;
    rule->operand[rule->noperands++] = acc[i].tensor;
  }
  if (rule->open)
    tiled_knobs(r, rule, st);
}

/* A reduction axis along which every read has stride 1 or none: its loop can
 * be vectorized, each lane summing for itself. */
static int
unit_reduction(const struct rules *r, const struct tt_stage *st,
               const struct tt_access *acc, int nacc)
{
  bool exact = !tt_dtype_is_float(st->out->dtype) ||
               (st->red != TT_RED_SUM && st->red != TT_RED_PROD);
  if (!lanes_of(r, st) || (r->strict_fp && !exact))
    return -1;
  int best = -1;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++) {
    int unit = 0, bad = 0;
    for (int i = 0; i < nacc; i++) {
      unit += acc[i].stride[a] == 1;
      bad += acc[i].stride[a] != 1 && acc[i].stride[a] != 0;
    }
    if (unit && !bad && axis_extent(st, a) >= lanes_of(r, st) &&
        (best < 0 || axis_extent(st, a) > axis_extent(st, best)))
      best = a;
  }
  return best;
}

/* How often an operand that the vector axis reads badly is read again: when
 * seldom, packing it does not pay, and summing along a row is better. */
static bool
rows_are_better(const struct rule *rule, const struct tt_stage *st,
                const struct tt_access *acc, int nacc)
{
  if (!rule->nvec)
    return true;
  for (int i = 0; i < nacc; i++) {
    int64_t stride = acc[i].stride[rule->vec[0]], again = 1;
    if (stride == 0 || stride == 1)
      continue;
    for (int a = 0; a < st->nspatial; a++)
      if (acc[i].stride[a] == 0)
        again *= axis_extent(st, a);
    if (again < 16)
      return true;
  }
  return false;
}

static void
derive_reduction(struct rules *r, struct rule *rule, const struct tt_stage *st,
                 bool better)
{
  int64_t v[16];
  if (rule->kaxis < 0)
    rule->kaxis = longest_reduction(st);
  if (!rule->open)
    return;
  if (rule->vred < 0) {
    int n = UP_TO(unrolls, axis_extent(st, rule->kaxis), v);
    rule->k_ku = add_knob(r, rule->stage, "ku", TT_KNOB_FACTOR, n, v, 4);
    return;
  }
  if (rule->nvec)
    rule->k_style = add_choice(r, rule->stage, "rows", 2, better);
  int64_t rows = rule->rrow < 0 ? 1 : axis_extent(st, rule->rrow);
  int n = UP_TO(unrolls, rows, v);
  rule->k_rmr = add_knob(r, rule->stage, "rmr", TT_KNOB_FACTOR, n, v, 4);
  n = UP_TO(unrolls, axis_extent(st, rule->vred) / lanes_of(r, st), v);
  rule->k_rw = add_knob(r, rule->stage, "rw", TT_KNOB_FACTOR, n, v, 4);
}

static int
last_reader(const struct tt_program *p, int stage)
{
  const struct tt_tensor *t = p->stages[stage]->out;
  for (int i = p->nstages - 1; i > stage; i--)
    if (tt_expr_uses_tensor(p->stages[i]->value, t) ||
        (p->stages[i]->where && tt_expr_uses_tensor(p->stages[i]->where, t)))
      return i;
  return -1;
}

static void
derive(struct rules *r, int stage, double share)
{
  const struct tt_stage *st = r->program->stages[stage];
  struct rule *rule = &r->rule[stage];
  memset(rule, 0, sizeof *rule);
  rule->stage = stage;
  rule->open = share >= 0.01 && !st->prepare;
  rule->k_vec = rule->k_row = rule->k_mr = rule->k_nr = rule->k_mc =
      rule->k_nc = rule->k_kc = rule->k_ku = rule->k_order = rule->k_fuse =
          rule->k_place = rule->k_width = rule->k_style = rule->k_rmr =
              rule->k_rw = -1;
  rule->epilogue = rule->kaxis = rule->consumer = rule->vred = -1;
  for (int i = 0; i < MAX_OPERANDS; i++)
    rule->k_pack[i] = -1;
  if (st->red == TT_RED_NONE) {
    rule->kind = ELEMENTWISE;
    rule->consumer =
        st->out->role == TT_OUTPUT ? -1 : last_reader(r->program, stage);
    if (rule->open && rule->consumer >= 0)
      rule->k_place = add_choice(r, stage, "place", 4, 0);
    if (rule->open && lanes_of(r, st))
      rule->k_width = add_knob(r, stage, "width", TT_KNOB_FACTOR, 3,
                               (const int64_t[]){1, 2, 4}, 1);
    return;
  }
  struct tt_access acc[TT_MAX_ACCESSES];
  int nacc = tt_accesses(r->arena, st, st->value, acc);
  find_axes(r, rule, st, acc, nacc);
  rule->vred = unit_reduction(r, st, acc, nacc);
  rule->kind = rule->nvec ? TILED : REDUCTION;
  rule->rows = rule->vred >= 0 && rows_are_better(rule, st, acc, nacc);
  if (rule->kind == TILED)
    derive_tiled(r, rule, st, acc, nacc);
  if (rule->kind == REDUCTION || rule->vred >= 0)
    derive_reduction(r, rule, st, rule->rows);
}

struct tt_space *
tt_space_new(struct tt_arena *arena, const struct tt_program *program,
             const struct tt_target_model *target, bool strict_fp)
{
  struct rules *r = TT_NEW(arena, struct rules);
  r->arena = arena;
  r->program = program;
  r->target = *target;
  r->strict_fp = strict_fp;
  r->rule = TT_ARRAY(arena, struct rule, (size_t)program->nstages + 1);
  r->defaults = TT_ARRAY(arena, int, MAX_KNOBS);
  r->space = TT_NEW(arena, struct tt_space);
  r->space->knobs = TT_ARRAY(arena, struct tt_knob, MAX_KNOBS);
  r->space->size = 1;
  r->space->rules = r;
  r->trial = tt_schedule_new(arena, program, strict_fp);
  double total = 0;
  for (int i = 0; i < program->nstages; i++)
    total += tt_stage_work(program->stages[i]);
  for (int i = program->nstages - 1; i >= 0; i--)
    derive(r, i, tt_stage_work(program->stages[i]) / total);
  return r->space;
}

void
tt_space_default(const struct tt_space *space, int *config)
{
  const struct rules *r = space->rules;
  memcpy(config, r->defaults, (size_t)space->nknobs * sizeof *config);
}

/* ---- a configuration becomes a schedule -------------------------------- */

struct apply {
  const struct rules *r;
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
choose_tiling(struct apply *ap, const struct rule *rule)
{
  const struct rules *r = ap->r;
  const struct tt_stage *st = r->program->stages[rule->stage];
  struct tiling t;
  t.lanes = lanes_of(r, st);
  t.v = rule->vec[value_of(r, ap->config, rule->k_vec, 0)];
  t.u = rule->row[value_of(r, ap->config, rule->k_row, 0)];
  if (t.u == t.v)
    t.u = rule->nrow > 1 && rule->row[0] == t.v ? rule->row[1] : rule->row[0];
  if (t.u == t.v)
    t.u = -1;
  int64_t ve = axis_extent(st, t.v);
  int64_t ue = t.u < 0 ? 1 : axis_extent(st, t.u);
  t.k = rule->kaxis;
  int64_t ke = t.k < 0 ? 1 : axis_extent(st, t.k);
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
apply_tiled(struct apply *ap, const struct rule *rule)
{
  struct tt_schedule *s = ap->s;
  const struct rules *r = ap->r;
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
    if (tt_vectorizes(s->arena, os->stage, os->value, os->where, t.v)) {
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
    if (value_of(r, ap->config, rule->k_pack[i], 0) == 0)
      continue;
    if (!tt_pack_operand(s, st, rule->operand[i], order, n, nblocks, t.lanes))
      return false;
  }
  return true;
}

/* Sums along rows, several rows at once: lanes are partial sums. */
static bool
apply_rows(struct apply *ap, const struct rule *rule)
{
  struct tt_schedule *s = ap->s;
  const struct rules *r = ap->r;
  int stage = rule->stage;
  const struct tt_stage *st = r->program->stages[stage];
  int lanes = lanes_of(r, st);
  int u = rule->rrow;
  int64_t rows = u < 0 ? 1 : axis_extent(st, u);
  int64_t mr = min64(rows, value_of(r, ap->config, rule->k_rmr, 1));
  int64_t w = min64(axis_extent(st, rule->vred) / lanes,
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
apply_reduction(struct apply *ap, const struct rule *rule)
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
  int lanes = lanes_of(ap->r, st);
  if (!st->nspatial || !lanes)
    return true;
  int last = st->nspatial - 1;
  int64_t e = axis_extent(st, last);
  const struct tt_stage_schedule *ss = &ap->s->stages[stage];
  if (e < 2 || !tt_vectorizes(ap->s->arena, st, ss->value, ss->where, last))
    return true;
  int outer,
      inner = split(ap, stage, last, min64(e, lanes * width), "_v", &outer);
  return inner >= 0 && tt_vectorize(ap->s, stage, inner, lanes);
}

static bool
apply_elementwise(struct apply *ap, const struct rule *rule)
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
  const struct rules *r = space->rules;
  struct apply ap = {r, config,
                     tt_schedule_new(arena, r->program, r->strict_fp),
                     TT_ARRAY(arena, bool, (size_t)r->program->nstages + 1)};
  for (int i = r->program->nstages - 1; i >= 0; i--) {
    const struct rule *rule = &r->rule[i];
    bool ok = false;
    /* An epilogue is scheduled with the reduction that comes before it: only
     * what is left of it is done here, after that. */
    switch (rule->kind) {
    case TILED:
      ok = value_of(r, config, rule->k_style, rule->rows)
               ? apply_rows(&ap, rule)
               : apply_tiled(&ap, rule);
      break;
    case REDUCTION:
      ok = apply_reduction(&ap, rule);
      break;
    case ELEMENTWISE:
      ok = true;
      break;
    }
    if (!ok)
      return NULL;
  }
  for (int i = r->program->nstages - 1; i >= 0; i--)
    if (r->rule[i].kind == ELEMENTWISE && !apply_elementwise(&ap, &r->rule[i]))
      return NULL;
  return parallelize(&ap) ? ap.s : NULL;
}
