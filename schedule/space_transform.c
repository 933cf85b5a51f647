/* Rules for transforms by constant tables, and products between them.
 *
 *   transform   a sum over short axes of table entries times one operand:
 *       the sum and the axes that index tables are unrolled, so that the
 *       tables become constants, zeros vanish and ones become additions.  An
 *       axis known to a table as y % c is split by c for that.  Vectors go
 *       along an axis that the operand has as a dimension of its own.
 *   product     a sum whose only reader is a transform: vectors along the
 *       axis that the transform has vectors along, the axes of its other
 *       operand fused to one of rows.
 *
 * The axis of vectors is the last in the layout of what these stages compute;
 * nobody else reads that.  No two neighbours are planned apart: a stage asks
 * what its operand could do, and what its reader, derived before it, does.
 */
#include "config.h"

#include "schedule/space.h"

#include <string.h>

/* Points of the tables' axes and the sum that are written out. */
#define MAX_UNROLLED 640
/* Copies of a product's tile. */
#define MAX_COPIES 36

/* ---- transforms -------------------------------------------------------- */

struct uses {
  const struct tt_var *var;
  int total;      /* where the variable stands */
  int64_t modulo; /* as var % c: c; 0: not, -1: with several */
  int mods;
};

/* The variable, or a constant away from it. */
static bool
is_near(const struct tt_expr *e, const struct tt_var *v)
{
  if (e->kind == TT_BINARY && (e->op == TT_ADD || e->op == TT_SUB) &&
      e->b->kind == TT_INT)
    e = e->a;
  return e->kind == TT_VAR && e->var == v;
}

static void
count_uses(void *ctx, const struct tt_expr *e)
{
  struct uses *u = ctx;
  if (e->kind == TT_VAR && e->var == u->var)
    u->total++;
  if (e->kind == TT_BINARY && e->op == TT_MOD && is_near(e->a, u->var) &&
      e->b->kind == TT_INT) {
    u->modulo = u->modulo && u->modulo != e->b->ival ? -1 : e->b->ival;
    u->mods++;
  }
}

static struct uses
uses_of(const struct tt_expr *e, const struct tt_var *v)
{
  struct uses u = {.var = v};
  tt_expr_visit(e, count_uses, &u);
  return u;
}

/* The uses of a variable in the indices of tables. */
static struct uses
table_uses(const struct tt_transform *t, const struct tt_var *v)
{
  struct uses u = {.var = v};
  for (int i = 0; i < t->ntables; i++)
    tt_expr_visit(t->table[i], count_uses, &u);
  return u;
}

/* How far the loop over an axis is unrolled; 0: not at all. */
static bool
table_axes(const struct tt_stage *st, struct tt_transform *t)
{
  int64_t points = 1;
  for (int i = 0; i < st->nreduce; i++) {
    if (!table_uses(t, st->reduce[i]).total)
      return false;
    points *= st->reduce[i]->extent;
  }
  for (int i = 0; i < st->nspatial; i++) {
    struct uses u = table_uses(t, st->spatial[i]);
    t->unroll[i] = 0;
    if (!u.total)
      continue;
    if (u.mods && (u.mods != u.total || u.modulo < 2))
      return false;
    t->unroll[i] = u.mods ? min64(u.modulo, st->spatial[i]->extent)
                          : st->spatial[i]->extent;
    points *= t->unroll[i];
    if (points > MAX_UNROLLED)
      return false;
  }
  return points <= MAX_UNROLLED;
}

/* Is the stage a transform, and of what? */
static bool
find_transform(const struct tt_rules *r, const struct tt_stage *st,
               struct tt_transform *t)
{
  struct tt_access acc[TT_MAX_ACCESSES];
  memset(t, 0, sizeof *t);
  if (st->red != TT_RED_SUM || st->where || st->prepare || !st->nspatial)
    return false;
  int n = tt_accesses(r->arena, st, st->value, acc);
  for (int i = 0; i < n; i++) {
    if (acc[i].tensor->role == TT_CONST)
      t->table[t->ntables++] = acc[i].load;
    else if (t->operand || acc[i].several)
      return false;
    else
      t->operand = acc[i].load;
  }
  return t->operand && t->ntables && n < TT_MAX_ACCESSES && table_axes(st, t);
}

static int
spatial_axis(const struct tt_stage *st, const struct tt_expr *e)
{
  for (int a = 0; e->kind == TT_VAR && a < st->nspatial; a++)
    if (st->spatial[a] == e->var)
      return a;
  return -1;
}

/* Unroll an axis as far as a neighbour does, unless that is too much. */
static void
unroll_too(const struct tt_stage *st, struct tt_transform *t, int axis,
           int64_t n)
{
  int64_t points = 1;
  n = min64(n, st->spatial[axis]->extent);
  if (t->unroll[axis] >= n)
    return;
  for (int a = 0; a < st->nspatial; a++)
    points *= a == axis ? n : t->unroll[a] ? t->unroll[a] : 1;
  for (int i = 0; i < st->nreduce; i++)
    points *= st->reduce[i]->extent;
  if (points <= MAX_UNROLLED)
    t->unroll[axis] = n;
}

/* Of two transforms, one read by the other, each unrolls what the other does:
 * their tiles are the same. */
static void
like_operand(const struct tt_rules *r, const struct tt_stage *st,
             struct tt_transform *t)
{
  const struct tt_tensor *operand = t->operand->tensor;
  const struct tt_stage *ps = tt_stage_of(r->program, operand);
  struct tt_transform p;
  if (!ps || r->reader[operand->id].n != 1 || !find_transform(r, ps, &p))
    return;
  for (int d = 0; d < operand->ndim; d++) {
    int axis = spatial_axis(st, t->operand->args[d]);
    if (axis >= 0 && p.unroll[d])
      unroll_too(st, t, axis, p.unroll[d]);
  }
}

static void
like_reader(const struct tt_rules *r, const struct tt_stage *st,
            struct tt_transform *t, int reader)
{
  const struct tt_stage *rs = r->program->stages[reader];
  const struct tt_transform *c = &r->rule[reader].transform;
  for (int d = 0; d < st->nspatial; d++) {
    const struct tt_expr *e = c->operand->args[d];
    int axis = spatial_axis(rs, e);
    if (axis >= 0 && c->unroll[axis])
      unroll_too(st, t, d, c->unroll[axis]);
    else if (axis < 0 && e->kind == TT_VAR)
      unroll_too(st, t, d, st->spatial[d]->extent);
  }
}

/* The dimension of an access that is a variable, or -1. */
static int
argument_of(const struct tt_expr *load, const struct tt_var *v)
{
  for (int d = 0; d < load->nargs; d++)
    if (load->args[d]->kind == TT_VAR && load->args[d]->var == v)
      return d;
  return -1;
}

/* The same of an axis that the stage uses nowhere else. */
static int
dimension_of(const struct tt_stage *st, const struct tt_expr *load,
             const struct tt_var *v)
{
  return uses_of(st->value, v).total == 1 ? argument_of(load, v) : -1;
}

/* ---- products ---------------------------------------------------------- */

/* The rows are one axis that the vectors' operand knows as axis % c alone: a
 * tile of a multiple of c rows knows them as constants. */
static void
find_phased_row(const struct tt_stage *st, struct tt_product *p)
{
  for (int a = 0; a < st->nspatial; a++) {
    struct uses u = uses_of(p->vectors, st->spatial[a]);
    if (!tt_expr_uses_var(p->rows, st->spatial[a]) || u.mods != 1 ||
        u.total != 1 || st->spatial[a]->extent < u.modulo)
      continue;
    p->row[0] = a;
    p->nrow = 1;
    p->step = u.modulo;
  }
}

/* A condition on phases, axis % c, and on axes of the sum but the blocked one:
 * it is settled once c iterations of such axes, and all of the sum's, are
 * written out. */
static bool
find_phases(const struct tt_stage *st, struct tt_product *p)
{
  int64_t copies = 1;
  for (int i = 0; i < st->nreduce; i++)
    if (tt_expr_uses_var(st->where, st->reduce[i])) {
      if (st->nspatial + i == p->kaxis)
        return false;
      p->unroll_sum = true;
    }
  for (int i = 0; i < st->nreduce && p->unroll_sum; i++)
    copies *= st->nspatial + i == p->kaxis ? 1 : st->reduce[i]->extent;
  for (int a = 0; a < st->nspatial; a++) {
    struct uses u = uses_of(st->where, st->spatial[a]);
    if (!u.total)
      continue;
    if (u.mods != u.total || u.modulo < 2 || a == p->vec)
      return false;
    if (a == p->row[0] && p->nrow == 1) {
      p->step = p->step % u.modulo ? p->step * u.modulo : p->step;
      continue;
    }
    p->phase[a] = min64(u.modulo, st->spatial[a]->extent);
    copies *= p->phase[a];
  }
  return copies <= MAX_COPIES;
}

/* Is the stage a product of an operand that depends on spatial axis `v` and is
 * fixed, and one that does not? */
static bool
find_product(const struct tt_rules *r, const struct tt_stage *st, int v,
             struct tt_product *p)
{
  struct tt_access acc[TT_MAX_ACCESSES];
  memset(p, 0, sizeof *p);
  if (st->red != TT_RED_SUM || st->prepare || !st->nreduce ||
      st->value->kind != TT_BINARY || st->value->op != TT_MUL ||
      tt_accesses(r->arena, st, st->value, acc) != 2 || acc[0].several)
    return false;
  const struct tt_var *var = st->spatial[v];
  int w = tt_expr_uses_var(acc[0].load, var) ? 0 : 1;
  p->vectors = acc[w].load;
  p->rows = acc[1 - w].load;
  p->dim = dimension_of(st, p->vectors, var);
  if (p->dim < 0 || !tt_space_is_fixed(r->program, p->vectors->tensor))
    return false;
  p->vec = v;
  p->step = 1;
  for (int a = 0; a < st->nspatial; a++)
    if (st->spatial[a]->extent > 1 &&
        tt_expr_uses_var(p->rows, st->spatial[a]) &&
        !tt_expr_uses_var(p->vectors, st->spatial[a]))
      p->row[p->nrow++] = a;
  if (!p->nrow)
    find_phased_row(st, p);
  p->kaxis = st->nspatial;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (tt_space_extent(st, a) > tt_space_extent(st, p->kaxis))
      p->kaxis = a;
  return p->nrow > 0 && (!st->where || find_phases(st, p));
}

/* ---- choosing the axis of vectors -------------------------------------- */

static bool can_store(const struct tt_rules *r, const struct tt_tensor *t,
                      int dim, int depth);

/* Can a transform have vectors along a spatial axis?  `depth` bounds the
 * chain of stages that are asked. */
static bool
vector_axis(const struct tt_rules *r, const struct tt_stage *st,
            const struct tt_transform *t, int axis, int depth)
{
  const struct tt_tensor *operand = t->operand->tensor;
  int lanes = tt_space_lanes(r, st);
  int64_t e = st->spatial[axis]->extent;
  int d = dimension_of(st, t->operand, st->spatial[axis]);
  if (d < 0 || t->unroll[axis] || lanes < 2 || e < lanes)
    return false;
  if (operand->role == TT_TEMP && !tt_space_is_fixed(r->program, operand))
    return can_store(r, operand, d, depth);
  if (d == operand->ndim - 1)
    return true;
  return operand->role == TT_INPUT;
}

/* Can the stage that computes a tensor, which has one reader, have vectors
 * along one of its dimensions? */
static bool
can_store(const struct tt_rules *r, const struct tt_tensor *t, int dim,
          int depth)
{
  const struct tt_stage *st = tt_stage_of(r->program, t);
  struct tt_transform transform;
  struct tt_product product;
  if (!st || r->reader[t->id].n != 1 || depth == 0)
    return false;
  if (find_transform(r, st, &transform))
    return vector_axis(r, st, &transform, dim, depth - 1);
  return !st->where && find_product(r, st, dim, &product) &&
         st->spatial[dim]->extent >= tt_space_lanes(r, st);
}

/* Does the only reader of a stage take its result in any layout, with `axis`
 * last? */
static bool
reader_agrees(const struct tt_rules *r, const struct tt_stage *st, int axis)
{
  const struct tt_readers *readers = &r->reader[st->out->id];
  if (st->out->role == TT_OUTPUT)
    return true;
  if (readers->n != 1)
    return false;
  const struct tt_rule *reader = &r->rule[readers->last];
  const struct tt_stage *rs = r->program->stages[readers->last];
  if (reader->kind == TT_PRODUCT)
    return reader->product.rows->tensor == st->out;
  if (reader->kind != TT_TRANSFORM)
    return false;
  const struct tt_transform *t = &reader->transform;
  return t->operand->tensor == st->out &&
         dimension_of(rs, t->operand, rs->spatial[t->vec]) == axis;
}

static void
transform_knobs(struct tt_rules *r, struct tt_rule *rule)
{
  rule->transform.k_place = -1;
  if (rule->transform.attach >= 0 && rule->open)
    rule->transform.k_place = tt_space_choice(r, rule->stage, "place", 3,
                                              rule->transform.padded ? 1 : 2);
}

static bool
derive_transform(struct tt_rules *r, struct tt_rule *rule,
                 const struct tt_stage *st)
{
  struct tt_transform *t = &rule->transform;
  int best = -1;
  if (!find_transform(r, st, t))
    return false;
  t->attach = -1;
  const struct tt_readers *readers = &r->reader[st->out->id];
  if (st->out->role == TT_TEMP && readers->n == 1 &&
      r->rule[readers->last].kind == TT_TRANSFORM)
    t->attach = readers->last;
  like_operand(r, st, t);
  if (t->attach >= 0)
    like_reader(r, st, t, t->attach);
  int lanes = tt_space_lanes(r, st);
  int64_t most = 0;
  for (int a = 0; a < st->nspatial; a++) {
    int64_t e = st->spatial[a]->extent;
    if (e < lanes || !vector_axis(r, st, t, a, 8) || !reader_agrees(r, st, a))
      continue;
    int64_t score = (e % lanes ? 1 : 2) * (e < 1024 ? e : 1024);
    if (score > most) {
      most = score;
      best = a;
    }
  }
  if (best < 0)
    return false;
  const struct tt_tensor *operand = t->operand->tensor;
  t->vec = best;
  t->dim = dimension_of(st, t->operand, st->spatial[best]);
  t->padded = tt_cache_padded(r->trial, rule->stage, operand, TT_OUTSIDE, 0,
                              NULL, 0, "trial");
  r->trial->stages[rule->stage].ncaches = 0;
  rule->kind = TT_TRANSFORM;
  transform_knobs(r, rule);
  return true;
}

/* ---- tiles of products ------------------------------------------------- */

static const int64_t row_tiles[] = {1, 2, 3,  4,  5,  6,  7,
                                    8, 9, 10, 12, 14, 16, 28};
static const int64_t vec_tiles[] = {1, 2, 3, 4, 5, 6, 8};

static bool
tile_fits(const struct tt_rules *r, int64_t mr, int64_t nr)
{
  return mr * nr + min64(mr, nr) + 1 <= r->target.registers + 2;
}

/* Loads for each multiplication of a tile: broadcasts, and vectors, which come
 * from further away; more where tiles are left over. */
static double
tile_cost(int64_t rows, int64_t vectors, int64_t mr, int64_t nr)
{
  double cost = (0.5 * (double)mr + 2 * (double)nr) / (double)(mr * nr);
  return cost + (rows % mr ? 0.15 : 0) + (vectors % nr ? 0.15 : 0);
}

static void
product_knobs(struct tt_rules *r, struct tt_rule *rule,
              const struct tt_stage *st)
{
  struct tt_product *p = &rule->product;
  int64_t rows = 1, least_mr = p->step, least_nr = 1;
  int64_t vectors = st->spatial[p->vec]->extent / tt_space_lanes(r, st);
  for (int i = 0; i < p->nrow; i++)
    rows *= st->spatial[p->row[i]]->extent;
  double least = 1e9;
  int nm = (int)(sizeof row_tiles / sizeof *row_tiles),
      nv = (int)(sizeof vec_tiles / sizeof *vec_tiles);
  for (int m = 0; m < nm && row_tiles[m] <= rows; m++)
    for (int v = 0; v < nv && vec_tiles[v] <= vectors; v++) {
      double c = tile_cost(rows, vectors, row_tiles[m], vec_tiles[v]);
      if (row_tiles[m] % p->step == 0 && c < least &&
          tile_fits(r, row_tiles[m], vec_tiles[v])) {
        least = c;
        least_mr = row_tiles[m];
        least_nr = vec_tiles[v];
      }
    }
  p->mr = least_mr;
  p->nr = least_nr;
  rule->k_mr = rule->k_nr = -1;
  if (!rule->open)
    return;
  while (nm > 1 && row_tiles[nm - 1] > rows)
    nm--;
  while (nv > 1 && vec_tiles[nv - 1] > vectors)
    nv--;
  rule->k_mr = tt_space_knob(r, rule->stage, "mr", TT_KNOB_FACTOR, nm,
                             row_tiles, least_mr);
  rule->k_nr = tt_space_knob(r, rule->stage, "nr", TT_KNOB_FACTOR, nv,
                             vec_tiles, least_nr);
}

static bool
derive_product(struct tt_rules *r, struct tt_rule *rule,
               const struct tt_stage *st)
{
  const struct tt_readers *readers = &r->reader[st->out->id];
  if (st->out->role != TT_TEMP || readers->n != 1)
    return false;
  const struct tt_rule *reader = &r->rule[readers->last];
  if (reader->kind != TT_TRANSFORM ||
      reader->transform.operand->tensor != st->out || st->where ||
      !find_product(r, st, reader->transform.dim, &rule->product))
    return false;
  rule->kind = TT_PRODUCT;
  product_knobs(r, rule, st);
  return true;
}

/* A product by itself, where no axis can have vectors as things lie: along an
 * axis of weights, which are laid out for that; the result is stored lane by
 * lane. */
bool
tt_derive_lone_product(struct tt_rules *r, struct tt_rule *rule,
                       const struct tt_stage *st)
{
  struct tt_product *p = &rule->product;
  int lanes = tt_space_lanes(r, st), best = -1;
  for (int a = 0; a < st->nspatial; a++)
    if (lanes && st->spatial[a]->extent >= lanes && find_product(r, st, a, p) &&
        (best < 0 || st->spatial[a]->extent > st->spatial[best]->extent))
      best = a;
  if (best < 0 || !find_product(r, st, best, p))
    return false;
  const struct tt_tensor *rows = p->rows->tensor;
  p->alone = true;
  p->padded = tt_cache_padded(r->trial, rule->stage, rows, TT_OUTSIDE, 0, NULL,
                              0, "trial");
  r->trial->stages[rule->stage].ncaches = 0;
  rule->kind = TT_PRODUCT;
  product_knobs(r, rule, st);
  return true;
}

bool
tt_derive_transform(struct tt_rules *r, struct tt_rule *rule,
                    const struct tt_stage *st)
{
  return derive_transform(r, rule, st) || derive_product(r, rule, st);
}

/* ---- schedules --------------------------------------------------------- */

static int64_t
value_of(const struct tt_rules *r, const int *config, int knob,
         int64_t fallback)
{
  return knob < 0 ? fallback : r->space->knobs[knob].values[config[knob]];
}

/* Splits, the outer half keeps the name; returns the inner, *outer the other;
 * -1 if refused. */
static int
split(struct tt_schedule *s, int stage, int loop, int64_t factor,
      const char *suffix, int *outer)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const char *name =
      tt_arena_printf(s->arena, "%s%s", ss->loops[loop].name, suffix);
  int inner = tt_split(s, stage, loop, factor, name, TT_TAIL_PEEL);
  if (inner >= 0)
    *outer = ss->loops[inner].other;
  return inner;
}

/* The dimensions in their order, but `last` at the end. */
static void
with_last(int n, int last, int *dims)
{
  int k = 0;
  for (int d = 0; d < n; d++)
    if (d != last)
      dims[k++] = d;
  dims[k] = last;
}

static bool
store_last(struct tt_schedule *s, int stage, int dim)
{
  const struct tt_tensor *out = s->stages[stage].stage->out;
  int dims[TT_MAX_DIMS];
  with_last(out->ndim, dim, dims);
  return out->role != TT_TEMP || dim == out->ndim - 1 ||
         tt_layout(s, stage, out->ndim, dims);
}

/* The loops of a transform. */
struct loops {
  int order[TT_MAX_LOOPS], n;
  int vectors; /* over vectors */
  int tile;    /* the last loop outside what is unrolled */
  int unrolled[TT_MAX_LOOPS], nunrolled;
  int lanes; /* in a vector */
};

static bool
split_transform(struct tt_schedule *s, int stage, const struct tt_transform *t,
                int lanes, struct loops *l)
{
  const struct tt_stage *st = s->stages[stage].stage;
  int others[TT_MAX_DIMS], nothers = 0;
  l->lanes = split(s, stage, t->vec, lanes, "_v", &l->vectors);
  if (l->lanes < 0)
    return false;
  for (int a = 0; a < st->nspatial; a++) {
    if (a == t->vec)
      continue;
    int outer = a, inner = a;
    if (t->unroll[a] && t->unroll[a] < st->spatial[a]->extent &&
        (inner = split(s, stage, a, t->unroll[a], "_u", &outer)) < 0)
      return false;
    if (!t->unroll[a] || inner != a)
      others[nothers++] = outer;
    if (t->unroll[a])
      l->unrolled[l->nunrolled++] = inner;
  }
  for (int i = 0; i < st->nreduce; i++)
    l->unrolled[l->nunrolled++] = st->nspatial + i;
  for (int i = 0; i + 1 < nothers; i++)
    l->order[l->n++] = others[i];
  l->order[l->n++] = l->vectors;
  if (nothers)
    l->order[l->n++] = others[nothers - 1];
  l->tile = l->order[l->n - 1];
  for (int i = 0; i < l->nunrolled; i++)
    l->order[l->n++] = l->unrolled[i];
  l->order[l->n++] = l->lanes;
  return true;
}

/* Where a transform is computed in the one that reads it: whole, for a row of
 * its tiles, or for a tile. */
static bool
place_transform(struct tt_schedule *s, int stage, const struct tt_rule *reader,
                int64_t place)
{
  const struct tt_stage_schedule *c = &s->stages[reader->stage];
  int row = c->loops[reader->transform.vec].child[0];
  return place == 0 || tt_compute_at(s, stage, reader->stage,
                                     place == 1 ? row : c->cache_write);
}

bool
tt_apply_transform(struct tt_schedule *s, const struct tt_rules *r,
                   const int *config, const struct tt_rule *rule)
{
  const struct tt_transform *t = &rule->transform;
  const struct tt_tensor *operand = t->operand->tensor;
  int stage = rule->stage, dims[TT_MAX_DIMS];
  int lanes = tt_space_lanes(r, s->stages[stage].stage);
  struct loops l = {.n = 0};
  bool ok = split_transform(s, stage, t, lanes, &l) &&
            tt_reorder(s, stage, l.n, l.order) &&
            tt_cache_write(s, stage, l.tile) &&
            tt_vectorize(s, stage, l.lanes, lanes);
  for (int i = 0; ok && i < l.nunrolled; i++)
    ok = tt_unroll(s, stage, l.unrolled[i]);
  ok = ok && store_last(s, stage, t->vec);
  if (ok && t->attach >= 0)
    ok = place_transform(s, stage, &r->rule[t->attach],
                         value_of(r, config, t->k_place, t->padded ? 1 : 2));
  if (!ok || !t->padded)
    return ok;
  const char *name = tt_arena_printf(s->arena, "%s_pad", operand->name);
  with_last(operand->ndim, t->dim, dims);
  bool moved = t->dim < operand->ndim - 1;
  return tt_cache_padded(s, stage, operand, TT_OUTSIDE,
                         moved ? operand->ndim : 0, dims, moved ? lanes : 0,
                         name);
}

/* The axes of rows, as one. */
static int
fuse_rows(struct tt_schedule *s, int stage, const struct tt_product *p)
{
  int rows = p->row[0];
  for (int i = 1; i < p->nrow && rows >= 0; i++) {
    const struct tt_stage_schedule *ss = &s->stages[stage];
    const char *name = tt_arena_printf(s->arena, "%s%s", ss->loops[rows].name,
                                       ss->loops[p->row[i]].name);
    rows = tt_fuse(s, stage, rows, p->row[i], name);
  }
  return rows;
}

static bool
is_row(const struct tt_product *p, int axis)
{
  for (int i = 0; i < p->nrow; i++)
    if (p->row[i] == axis)
      return true;
  return false;
}

/* Axes outside the tile, vectors, rows, the sum. */
static bool
order_axes(struct tt_schedule *s, int stage, const struct tt_product *p)
{
  const struct tt_stage *st = s->stages[stage].stage;
  int order[TT_MAX_LOOPS], n = 0;
  for (int a = 0; a < st->nspatial; a++)
    if (a != p->vec && !is_row(p, a))
      order[n++] = a;
  order[n++] = p->vec;
  for (int i = 0; i < p->nrow; i++)
    order[n++] = p->row[i];
  for (int i = 0; i < st->nreduce; i++)
    order[n++] = st->nspatial + i;
  return tt_reorder(s, stage, n, order);
}

/* The weights with the axis of vectors last, and before it that of the sum;
 * the other operand with its border. */
static bool
copy_operands(struct tt_schedule *s, int stage, const struct tt_product *p,
              int lanes)
{
  const struct tt_stage *st = s->stages[stage].stage;
  const struct tt_tensor *w = p->vectors->tensor, *rows = p->rows->tensor;
  int dims[TT_MAX_DIMS], last[TT_MAX_DIMS];
  int k = argument_of(p->vectors, st->reduce[p->kaxis - st->nspatial]);
  with_last(w->ndim, p->dim, dims);
  for (int i = 0, n = 0; i < w->ndim; i++)
    if (dims[i] != k)
      last[n++] = dims[i];
  if (k >= 0) {
    last[w->ndim - 1] = p->dim;
    last[w->ndim - 2] = k;
  }
  const char *name = tt_arena_printf(s->arena, "%s_p", w->name);
  const char *pad = tt_arena_printf(s->arena, "%s_pad", rows->name);
  return tt_cache_dims(s, stage, w, TT_OUTSIDE, w->ndim, last, lanes, name) &&
         (!p->padded ||
          tt_cache_padded(s, stage, rows, TT_OUTSIDE, 0, NULL, 0, pad));
}

static bool
unroll_phases(struct tt_schedule *s, int stage, const struct tt_product *p)
{
  const struct tt_stage *st = s->stages[stage].stage;
  int outer;
  for (int a = 0; a < st->nspatial; a++) {
    if (!p->phase[a])
      continue;
    int inner = split(s, stage, a, p->phase[a], "_u", &outer);
    if (inner < 0 || !tt_unroll(s, stage, inner))
      return false;
  }
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (p->unroll_sum && a != p->kaxis && !tt_unroll(s, stage, a))
      return false;
  return true;
}

bool
tt_apply_product(struct tt_schedule *s, const struct tt_rules *r,
                 const int *config, const struct tt_rule *rule)
{
  const struct tt_product *p = &rule->product;
  int stage = rule->stage, order[TT_MAX_LOOPS], n = 0, outer;
  const struct tt_stage *st = s->stages[stage].stage;
  int lanes = tt_space_lanes(r, st);
  int64_t mr = value_of(r, config, rule->k_mr, p->mr);
  int64_t nr = value_of(r, config, rule->k_nr, p->nr);
  if (!tile_fits(r, mr, nr) || mr % p->step || !order_axes(s, stage, p) ||
      !unroll_phases(s, stage, p))
    return false;
  int rows = fuse_rows(s, stage, p);
  int inner_rows = rows < 0 ? -1 : split(s, stage, rows, mr, "_r", &rows);
  int lanes_loop = split(s, stage, p->vec, nr * lanes, "_r", &outer);
  if (rows < 0 || inner_rows < 0 || lanes_loop < 0)
    return false;
  for (int a = 0; a < st->nspatial; a++)
    if (a != p->vec && !is_row(p, a))
      order[n++] = p->phase[a] ? s->stages[stage].loops[a].child[0] : a;
  for (int a = 0; a < st->nspatial; a++)
    if (p->phase[a])
      order[n++] = s->stages[stage].loops[a].child[1];
  order[n++] = outer;
  order[n++] = rows;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (a != p->kaxis)
      order[n++] = a;
  order[n++] = p->kaxis;
  order[n++] = inner_rows;
  order[n++] = lanes_loop;
  return tt_reorder(s, stage, n, order) && tt_cache_write(s, stage, rows) &&
         tt_unroll(s, stage, inner_rows) &&
         tt_vectorize(s, stage, lanes_loop, lanes) &&
         (p->alone ? copy_operands(s, stage, p, lanes)
                   : store_last(s, stage, p->vec) &&
                         tt_pack_operand(s, stage, p->vectors->tensor, order, n,
                                         n, true, lanes));
}
