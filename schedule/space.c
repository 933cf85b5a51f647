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
 *   transforms by constant tables, and products between them: see
 *       space_transform.c
 *   elementwise         vectors along the last dimension; placed at root,
 *       inlined, or at a loop of its last consumer
 *
 * Stages with little of the program's work follow the default choice and get
 * no knob.
 */
#include "config.h"

#include "schedule/space.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- knobs ------------------------------------------------------------- */

static int
add_knob(struct tt_rules *r, int stage, const char *what,
         enum tt_knob_kind kind, int n, const int64_t *values,
         int64_t preferred)
{
  struct tt_space *sp = r->space;
  if (n < 2 || sp->nknobs == TT_MAX_KNOBS)
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

int
tt_space_knob(struct tt_rules *r, int stage, const char *what,
              enum tt_knob_kind kind, int n, const int64_t *values,
              int64_t preferred)
{
  return add_knob(r, stage, what, kind, n, values, preferred);
}

static int
add_choice(struct tt_rules *r, int stage, const char *what, int n,
           int preferred)
{
  int64_t values[16];
  for (int i = 0; i < n && i < 16; i++)
    values[i] = i;
  return add_knob(r, stage, what, TT_KNOB_CHOICE, n, values, preferred);
}

int
tt_space_choice(struct tt_rules *r, int stage, const char *what, int n,
                int preferred)
{
  return add_choice(r, stage, what, n, preferred);
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

int
tt_space_lanes(const struct tt_rules *r, const struct tt_stage *st)
{
  int bytes = tt_widest_type(st);
  int lanes = r->target.vector_bytes / bytes;
  return lanes < 2 ? 0 : lanes > 64 ? 64 : lanes;
}

int64_t
tt_space_extent(const struct tt_stage *st, int axis)
{
  return axis < st->nspatial ? st->spatial[axis]->extent
                             : st->reduce[axis - st->nspatial]->extent;
}

/* How many points read the same element because they differ only in axes on
 * which the access does not depend. */
static int64_t
reuse_of(const struct tt_stage *st, const struct tt_access *acc)
{
  int64_t again = 1;
  for (int a = 0; a < st->nspatial; a++)
    if (acc->stride[a] == 0)
      again *= tt_space_extent(st, a);
  return again;
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

/* Is the tensor a weight, or computed from weights ahead of time? */
bool
tt_space_is_fixed(const struct tt_program *p, const struct tt_tensor *t)
{
  if (t->role == TT_WEIGHT)
    return true;
  if (t->role != TT_TEMP)
    return false;
  const struct tt_stage *st = tt_stage_of(p, t);
  return st && st->prepare;
}

struct asking {
  const struct tt_var *var;
  bool found;
};

static void
look_at_condition(void *ctx, const struct tt_expr *e)
{
  struct asking *a = ctx;
  a->found |= e->kind == TT_SELECT && tt_expr_uses_var(e->c, a->var);
}

/* Does a condition tell the points along the axis apart? */
static bool
has_border(const struct tt_stage *st, int axis)
{
  struct asking a = {st->spatial[axis], false};
  tt_expr_visit(st->value, look_at_condition, &a);
  return a.found;
}

/* Sixteenths of the lanes that have work in vectors along an axis; what does
 * not fill vectors is done in halves, quarters and so on. */
static int
filled_lanes(int64_t extent, int lanes)
{
  int64_t vectors = extent / lanes;
  for (int64_t rest = extent % lanes; rest; rest &= rest - 1)
    vectors++;
  return (int)(16 * extent / (vectors * lanes));
}

#define MANY (2 * TT_MAX_ACCESSES)

/* Vector axes: unit stride somewhere, or what can be laid out so ahead of
 * time, best first; rows: the other axes, the ones along which an operand is
 * reused first.  Results of a reduction may be stored apart from each other:
 * that is done once for all of its points. */
static void
find_axes(struct tt_rules *r, struct tt_rule *rule, const struct tt_stage *st,
          const struct tt_access *acc, int nacc)
{
  int score[TT_MAX_DIMS];
  int lanes = tt_space_lanes(r, st);
  int first = r->in_parts[rule->stage] ? 1 : 0; /* the others are shared */
  for (int a = 0; a < st->nspatial; a++) {
    score[a] = -1;
    if (a < first || !lanes ||
        tt_space_extent(st, a) < (lanes < 8 ? 2 : lanes / 4) ||
        !tt_vectorizes(r->arena, st, st->value, st->where, a, false))
      continue;
    int unit = a == st->nspatial - 1, bad = !unit;
    for (int i = 0; i < nacc; i++) {
      int64_t s = acc[i].stride[a];
      bool ahead = s != 0 && tt_space_is_fixed(r->program, acc[i].tensor);
      unit += s == 1 || ahead;
      bad += s != 0 && s != 1 && !ahead;
      /* A vector that is not read as it lies must serve often.  For small
       * strides, too: what a window needs at its borders (a padded copy, or
       * lanes one by one) costs more than compilers lose on plain loops.
       * (Weights lie as they are wanted.) */
      if (s != 0 && s != 1 && reuse_of(st, &acc[i]) < 8 &&
          !(ahead && acc[i].affine && !acc[i].several))
        unit = -MANY;
    }
    if (unit > 0)
      score[a] = 4 * unit - 3 * bad + 40 + (tt_space_extent(st, a) >= lanes) -
                 8 * has_border(st, a) +
                 filled_lanes(tt_space_extent(st, a), lanes) - 16;
  }
  for (rule->nvec = 0; rule->nvec < TT_MAX_AXES;) {
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
    gain[a] = a >= first && tt_space_extent(st, a) > 1 ? 0 : -1;
    /* Most of all the ones that are loaded as vectors. */
    for (int i = 0; i < nacc && gain[a] >= 0; i++)
      if (acc[i].stride[a] == 0)
        gain[a] += rule->nvec && acc[i].stride[rule->vec[0]] != 0 ? 4 : 2;
    if (gain[a] >= 0 && tt_space_extent(st, a) >= 4)
      gain[a]++;
  }
  for (rule->nrow = 0; rule->nrow < TT_MAX_AXES;) {
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
  for (int a = first; a < st->nspatial; a++)
    if (tt_space_extent(st, a) > 1 &&
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
    if (best < 0 || tt_space_extent(st, a) > tt_space_extent(st, best))
      best = a;
  return best;
}

struct reading {
  struct tt_readers *reader;
  int stage;
};

static void
note_load(void *ctx, const struct tt_expr *e)
{
  struct reading *r = ctx;
  if (e->kind != TT_LOAD || e->tensor->id < 0)
    return;
  struct tt_readers *t = &r->reader[e->tensor->id];
  if (t->n == 0 || t->last != r->stage)
    t->n++;
  t->last = r->stage;
}

/* Found once for all: a search by each stage would take quadratic time. */
static struct tt_readers *
find_readers(struct tt_arena *arena, const struct tt_program *p)
{
  struct reading r = {
      .reader = TT_ARRAY(arena, struct tt_readers, (size_t)p->ntensors + 1)};
  for (r.stage = 0; r.stage < p->nstages; r.stage++) {
    const struct tt_stage *st = p->stages[r.stage];
    tt_expr_visit(st->value, note_load, &r);
    if (st->where)
      tt_expr_visit(st->where, note_load, &r);
  }
  return r.reader;
}

/* The last stage that reads what this one defines, or -1. */
static int
last_reader(const struct tt_rules *r, const struct tt_stage *st)
{
  const struct tt_readers *t = &r->reader[st->out->id];
  return t->n > 0 ? t->last : -1;
}

/* The elementwise stage that alone reads this one, point by point. */
int
tt_space_epilogue(const struct tt_rules *r, int stage)
{
  const struct tt_program *p = r->program;
  const struct tt_stage *st = p->stages[stage];
  int reader = last_reader(r, st);
  if (reader < 0 || r->reader[st->out->id].n > 1 ||
      p->stages[reader]->red != TT_RED_NONE ||
      p->stages[reader]->prepare != st->prepare ||
      !tt_reads_pointwise(p->stages[reader], st->out))
    return -1;
  return reader;
}

/* Copies that are made of a whole operand cannot be inside a tile. */
static bool
whole_copies(const struct tt_rule *rule)
{
  bool any = false;
  for (int i = 0; i < rule->noperands; i++)
    any |= rule->fixed[i] || (rule->padded[i] && !rule->shrinks);
  return any;
}

/* Is an operand packed by default?  A copy costs its elements, once; it pays
 * when vectors could not be loaded otherwise, or when what is read line by
 * line is too large to stay in the cache and is read often. */
static bool
packs(const struct tt_rules *r, const struct tt_rule *rule,
      const struct tt_stage *st, int operand)
{
  const struct tt_access *a = &rule->access[operand];
  int64_t reuse = rule->reuse[operand], v = a->stride[rule->vec[0]];
  int64_t ke = rule->kaxis < 0 ? 1 : tt_space_extent(st, rule->kaxis);
  if (v != 0 && v != 1)
    return reuse >= 16 && ke >= 32;
  /* A row that is read along the reduction is a stream already. */
  if (v == 0 && rule->kaxis >= 0 && a->stride[rule->kaxis] == 1)
    return false;
  /* Vectors are copied faster than single elements, and a use of an element
   * gives work for a whole vector. */
  return reuse >= (v == 0 ? 512 : 128) &&
         tt_tensor_size(a->tensor) * tt_dtype_bytes(a->tensor->dtype) >
             r->target.l2 / 2;
}

/* The most rows of a tile whose lines of an operand meet in one set of the
 * first cache: they are no more than its ways. */
static int
most_rows(const struct tt_rules *r, const struct tt_rule *rule)
{
  enum { WAYS = 8 };
  int most = INT_MAX;
  for (int i = 0; i < rule->noperands && rule->row[0] >= 0; i++) {
    const struct tt_access *a = &rule->access[i];
    int64_t bytes = a->stride[rule->row[0]];
    if (bytes <= 0 || bytes == INT64_MAX || rule->fixed[i] || rule->padded[i])
      continue;
    bytes *= tt_dtype_bytes(a->tensor->dtype);
    /* Rows at distances that are multiples of l1 / WAYS share a set. */
    int64_t way = r->target.l1 / WAYS, sets = 1;
    while (sets * 2 <= 4 && bytes * sets % way != 0)
      sets *= 2;
    if (way > 0 && bytes * sets % way == 0 && WAYS * sets < most)
      most = (int)(WAYS * sets);
  }
  return most;
}

/* What threads share: a loop outside the tile that gives each of them as
 * much, or else parts of the tile's own axes. */
static enum tt_parts
best_parts(const struct tt_rules *r, const struct tt_rule *rule,
           const struct tt_stage *st)
{
  int64_t threads = r->target.threads;
  for (int a = 0; a < st->nspatial; a++) {
    int64_t e = tt_space_extent(st, a);
    if (a != rule->vec[0] && a != rule->row[0] &&
        (e >= 4 * threads || (e >= threads && e % threads == 0)))
      return TT_PART_OTHERS;
  }
  int64_t rows = rule->row[0] < 0 ? 1 : tt_space_extent(st, rule->row[0]);
  int64_t lanes = tt_space_lanes(r, st);
  return rows / 8 >= tt_space_extent(st, rule->vec[0]) / (4 * lanes)
             ? TT_PART_ROWS
             : TT_PART_VECTORS;
}

/* Blocks of a tiled stage in points.  A row of a block of the reduction takes
 * an eighth of the first cache, which holds about those of a tile; blocks of
 * rows and of vectors leave room in the second and third for what streams
 * by. */
struct block_sizes {
  int64_t k, rows, vectors;
};

static struct block_sizes
best_blocks(const struct tt_rules *r, const struct tt_stage *st)
{
  const struct tt_target_model *t = &r->target;
  int64_t bytes = tt_widest_type(st);
  struct block_sizes b = {.k = t->l1 / 8 / bytes};
  b.k = b.k < 32 ? 32 : min64(b.k, 4096);
  b.rows = t->l2 / 8 * 3 / (b.k * bytes);
  b.rows = b.rows < 16 ? 16 : b.rows;
  b.vectors = t->l3 / 8 / (b.k * bytes);
  b.vectors = b.vectors < 64 ? 64 : b.vectors;
  return b;
}

/* Do the loops that are no part of a tile stand inside the blocks of vectors?
 * When an operand that is the same in all of them is too large to stay in the
 * cache: a block of it does. */
static bool
vectors_outside(const struct tt_rules *r, const struct tt_rule *rule,
                const struct tt_stage *st)
{
  bool large = false;
  for (int i = 0; i < rule->noperands; i++) {
    const struct tt_access *x = &rule->access[i];
    bool same = x->stride[rule->vec[0]] != 0;
    int64_t again = 1;
    for (int a = 0; a < st->nspatial; a++) {
      if (a == rule->vec[0] || a == rule->row[0])
        continue;
      again *= tt_space_extent(st, a);
      same = same && (x->stride[a] == 0 || tt_space_extent(st, a) == 1);
    }
    large |= same && again > 1 &&
             tt_tensor_size(x->tensor) * tt_dtype_bytes(x->tensor->dtype) >
                 r->target.l2 / 2;
  }
  return large;
}

/* Can the points outside of padded operands be left out of the reduction?
 * The axis that is blocked shall have all of its points, and the others, whose
 * loops are written out, few. */
static bool
can_shrink(struct tt_rules *r, const struct tt_rule *rule,
           const struct tt_stage *st)
{
  struct tt_schedule *trial = r->trial;
  bool any = false, blocked = false;
  int64_t copies = 1;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (tt_shrink(trial, rule->stage, a)) {
      trial->stages[rule->stage].loops[a].shrink = false;
      trial->ncalls--;
      any = true;
      blocked |= a == rule->kaxis;
      copies *= tt_space_extent(st, a);
    }
  return any && !blocked && copies <= 64;
}

/* Is no operand a vector that differs from row to row? */
static bool
broadcasts_rows(const struct tt_rule *rule)
{
  bool both = false;
  for (int i = 0; i < rule->noperands && rule->row[0] >= 0; i++)
    both |= rule->access[i].stride[rule->vec[0]] != 0 &&
            rule->access[i].stride[rule->row[0]] != 0;
  return !both;
}

static void
tiled_knobs(struct tt_rules *r, struct tt_rule *rule, const struct tt_stage *st)
{
  int64_t v[32];
  int lanes = tt_space_lanes(r, st), s = rule->stage;
  int64_t ve = tt_space_extent(st, rule->vec[0]);
  int64_t re = rule->row[0] < 0 ? 1 : tt_space_extent(st, rule->row[0]);
  int64_t ke = rule->kaxis < 0 ? 1 : tt_space_extent(st, rule->kaxis);
  struct block_sizes b = best_blocks(r, st);
  int registers = r->target.registers;
  int nr = registers >= 32 ? 4 : 2;
  /* With few rows what is loaded as vectors is a stream: it is read in longer
   * pieces. */
  while (nr < 8 && 2 * nr * (re + 1) <= registers - 4)
    nr *= 2;
  if (ceildiv(ve, lanes) < nr)
    nr = (int)ceildiv(ve, lanes);
  int mr = (registers - 4) / nr - (registers >= 32);
  if (mr > 14)
    mr = 14;
  if (mr > most_rows(r, rule))
    mr = most_rows(r, rule);
  /* Rows that divide evenly leave no tail; there is room for one more where
   * what differs in them is broadcast from memory. */
  bool more = registers >= 32 && (mr + 2) * nr <= registers &&
              mr < most_rows(r, rule) && broadcasts_rows(rule);
  int most = mr + more;
  for (int m = most; m >= mr - 1 && m > 1; m--)
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
  bool outside = vectors_outside(r, rule, st);
  rule->k_nc = add_knob(r, s, "nb", TT_KNOB_FACTOR, n, v,
                        ceildiv(ve, outside ? nr * lanes : b.vectors));
  n = UP_TO(blocks, re, v);
  rule->k_mc = add_knob(r, s, "mb", TT_KNOB_FACTOR, n, v, ceildiv(re, b.rows));
  n = UP_TO(blocks, ceildiv(ke, 8), v);
  rule->k_kc = add_knob(r, s, "kb", TT_KNOB_FACTOR, n, v, ceildiv(ke, b.k));
  n = UP_TO(unrolls, ke, v);
  /* The rows of a window meet in registers when all of it is written out. */
  rule->k_ku = add_knob(r, s, "ku", TT_KNOB_FACTOR, n, v, ke <= 4 ? ke : 1);
  if (rule->group)
    rule->k_group = add_choice(r, s, "group", 2, 1);
  rule->k_order = add_choice(r, s, "order", 6, outside ? 4 : 0);
  if (rule->shrinks)
    rule->k_pad = add_choice(r, s, "pad", 2, 1);
  if (rule->epilogue >= 0)
    rule->k_fuse = add_choice(r, s, "fuse", rule->finish < 0 ? 2 : 3,
                              tt_chain_fuses(r, rule, whole_copies(rule)));
  if (r->target.threads > 1)
    rule->k_par = add_choice(r, s, "par", TT_NPARTS, best_parts(r, rule, st));
  for (int i = 0; i < rule->noperands; i++) {
    if (rule->padded[i])
      continue;                 /* copied with its border, not packed */
    n = rule->fixed[i] ? 3 : 2; /* not, by block, ahead of time */
    rule->k_pack[i] = add_choice(r, s, tt_arena_printf(r->arena, "pack%d", i),
                                 n, rule->fixed[i] ? 2 : packs(r, rule, st, i));
  }
}

/* Can products of neighbours of the reduction be summed at once?  What the
 * vectors are loaded from is packed for that. */
static bool
groups(const struct tt_rules *r, const struct tt_rule *rule,
       const struct tt_stage *st)
{
  int n = tt_product_group(st);
  if (!n || rule->kaxis < 0 || tt_space_extent(st, rule->kaxis) < n)
    return false;
  const struct tt_tensor *t = tt_product_vector(r->arena, st, rule->vec[0]);
  for (int i = 0; i < rule->noperands; i++)
    if (rule->operand[i] == t)
      return !rule->padded[i];
  return false;
}

static void
derive_tiled(struct tt_rules *r, struct tt_rule *rule,
             const struct tt_stage *st, const struct tt_access *acc, int nacc)
{
  rule->kaxis = longest_reduction(st);
  rule->epilogue = tt_space_epilogue(r, rule->stage);
  rule->finish =
      tt_chain_finish(r, rule->stage, rule->epilogue, &rule->finish_calls);
  for (int i = 0; i < nacc && rule->noperands < TT_MAX_OPERANDS; i++) {
    bool seen = acc[i].several;
    for (int j = 0; j < rule->noperands; j++)
      seen |= rule->operand[j] == acc[i].tensor;
    if (seen || acc[i].tensor->role == TT_CONST)
      continue;
    struct tt_schedule *trial = r->trial;
    rule->padded[rule->noperands] = tt_cache_padded(
        trial, rule->stage, acc[i].tensor, TT_OUTSIDE, 0, NULL, 0, "trial");
    trial->stages[rule->stage].ncaches = 0;
    rule->reuse[rule->noperands] = reuse_of(st, &acc[i]);
    rule->fixed[rule->noperands] = tt_space_is_fixed(r->program, acc[i].tensor);
    rule->access[rule->noperands] = acc[i];
    rule->operand[rule->noperands++] = acc[i].tensor;
  }
  if (groups(r, rule, st))
    rule->group = tt_product_group(st);
  bool padded = false;
  for (int i = 0; i < rule->noperands; i++)
    padded |= rule->padded[i];
  rule->shrinks = padded && can_shrink(r, rule, st);
  if (rule->open)
    tiled_knobs(r, rule, st);
}

/* A reduction axis along which every read has stride 1 or none: its loop can
 * be vectorized, each lane summing for itself. */
static int
unit_reduction(const struct tt_rules *r, const struct tt_stage *st,
               const struct tt_access *acc, int nacc)
{
  bool exact = !tt_dtype_is_float(st->out->dtype) ||
               (st->red != TT_RED_SUM && st->red != TT_RED_PROD);
  if (!tt_space_lanes(r, st) || (r->strict_fp && !exact))
    return -1;
  int best = -1;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++) {
    int unit = 0, bad = 0;
    for (int i = 0; i < nacc; i++) {
      unit += acc[i].stride[a] == 1;
      bad += acc[i].stride[a] != 1 && acc[i].stride[a] != 0;
    }
    if (unit && !bad && tt_space_extent(st, a) >= tt_space_lanes(r, st) &&
        (best < 0 || tt_space_extent(st, a) > tt_space_extent(st, best)))
      best = a;
  }
  return best;
}

/* How often an operand that the vector axis reads badly is read again: when
 * seldom, packing it does not pay, unless it is packed ahead of time, and
 * summing along a row is better. */
static bool
rows_are_better(const struct tt_rules *r, const struct tt_rule *rule,
                const struct tt_stage *st, const struct tt_access *acc,
                int nacc)
{
  if (!rule->nvec)
    return true;
  for (int i = 0; i < nacc; i++) {
    int64_t stride = acc[i].stride[rule->vec[0]];
    if (stride != 0 && stride != 1 && reuse_of(st, &acc[i]) < 16 &&
        (acc[i].several || !acc[i].affine ||
         !tt_space_is_fixed(r->program, acc[i].tensor)))
      return true;
  }
  return false;
}

/* Sums in i64 of products of narrow integers: compilers have multiply-add
 * instructions for the plain loop that explicit vectors do not reach. */
static bool
left_to_compiler(const struct tt_stage *st, const struct tt_access *acc,
                 int nacc)
{
  bool narrow = nacc > 1 && st->red == TT_RED_SUM;
  for (int i = 0; i < nacc; i++)
    narrow = narrow && !tt_dtype_is_float(acc[i].tensor->dtype) &&
             tt_dtype_bits(acc[i].tensor->dtype) <= 16;
  return narrow && st->out->dtype == TT_I64;
}

static void
derive_reduction(struct tt_rules *r, struct tt_rule *rule,
                 const struct tt_stage *st, bool better)
{
  int64_t v[16];
  if (rule->kaxis < 0)
    rule->kaxis = longest_reduction(st);
  if (!rule->open)
    return;
  if (rule->vred < 0 && !rule->nvec) {
    int n = UP_TO(unrolls, tt_space_extent(st, rule->kaxis), v);
    rule->k_ku = add_knob(r, rule->stage, "ku", TT_KNOB_FACTOR, n, v, 1);
  }
  if (rule->nvec)
    rule->k_style = add_choice(r, rule->stage, "rows", 2, better);
  if (rule->vred < 0)
    return;
  int64_t rows = rule->rrow < 0 ? 1 : tt_space_extent(st, rule->rrow);
  int n = UP_TO(unrolls, rows, v);
  rule->k_rmr = add_knob(r, rule->stage, "rmr", TT_KNOB_FACTOR, n, v, 4);
  n = UP_TO(unrolls, tt_space_extent(st, rule->vred) / tt_space_lanes(r, st),
            v);
  rule->k_rw = add_knob(r, rule->stage, "rw", TT_KNOB_FACTOR, n, v, 4);
}

static void
derive(struct tt_rules *r, int stage, double share)
{
  const struct tt_stage *st = r->program->stages[stage];
  struct tt_rule *rule = &r->rule[stage];
  memset(rule, 0, sizeof *rule);
  rule->stage = stage;
  rule->open = share >= 0.01 && !st->prepare;
  rule->k_vec = rule->k_row = rule->k_mr = rule->k_nr = rule->k_mc =
      rule->k_nc = rule->k_kc = rule->k_ku = rule->k_order = rule->k_fuse =
          rule->k_par = rule->k_group = rule->k_pad = rule->k_place =
              rule->k_width = rule->k_style = rule->k_rmr = rule->k_rw = -1;
  rule->epilogue = rule->kaxis = rule->consumer = rule->vred = -1;
  rule->finish = rule->k_depth = rule->k_block = rule->k_wrows = -1;
  rule->wrow = -1;
  for (int i = 0; i < TT_MAX_OPERANDS; i++)
    rule->k_pack[i] = -1;
  if (st->red == TT_RED_NONE) {
    rule->kind = TT_ELEMENTWISE;
    rule->consumer = st->out->role == TT_OUTPUT ? -1 : last_reader(r, st);
    rule->place = tt_chain_inlines(r, stage);
    rule->wrow = tt_chain_window(r, stage, &rule->wrows);
    if (rule->open && rule->consumer >= 0)
      rule->k_place = add_choice(r, stage, "place", 4, rule->place);
    if (rule->open && rule->wrow >= 0)
      rule->k_wrows =
          add_knob(r, stage, "rows", TT_KNOB_FACTOR, 4, unrolls, rule->wrows);
    if (rule->open && tt_space_lanes(r, st))
      rule->k_width = add_knob(r, stage, "width", TT_KNOB_FACTOR, 3,
                               (const int64_t[]){1, 2, 4}, 1);
    return;
  }
  if (tt_derive_transform(r, rule, st))
    return;
  struct tt_access acc[TT_MAX_ACCESSES];
  int nacc = tt_accesses(r->arena, st, st->value, acc);
  find_axes(r, rule, st, acc, nacc);
  rule->vred = unit_reduction(r, st, acc, nacc);
  if (!rule->nvec && rule->vred < 0 && tt_derive_lone_product(r, rule, st))
    return;
  rule->kind = rule->nvec ? TT_TILED : TT_REDUCTION;
  bool along = rule->vred >= 0 && rows_are_better(r, rule, st, acc, nacc);
  if (rule->kind == TT_TILED)
    derive_tiled(r, rule, st, acc, nacc);
  bool left = !rule->group && left_to_compiler(st, acc, nacc);
  rule->rows = left || along;
  if (rule->kind == TT_REDUCTION || rule->vred >= 0 || left)
    derive_reduction(r, rule, st, rule->rows);
}

struct tt_space *
tt_space_new(struct tt_arena *arena, const struct tt_program *program,
             const struct tt_target_model *target, bool strict_fp)
{
  struct tt_rules *r = TT_NEW(arena, struct tt_rules);
  r->arena = arena;
  r->program = program;
  r->target = *target;
  r->strict_fp = strict_fp;
  tt_parts_derive(r);
  program = r->program;
  r->rule = TT_ARRAY(arena, struct tt_rule, (size_t)program->nstages + 1);
  r->defaults = TT_ARRAY(arena, int, TT_MAX_KNOBS);
  r->space = TT_NEW(arena, struct tt_space);
  r->space->knobs = TT_ARRAY(arena, struct tt_knob, TT_MAX_KNOBS);
  r->space->size = 1;
  r->space->rules = r;
  r->reader = find_readers(arena, program);
  r->trial = tt_parts_schedule(arena, r);
  double total = 0;
  for (int i = 0; i < program->nstages; i++)
    total += tt_stage_work(program->stages[i]);
  for (int i = program->nstages - 1; i >= 0; i--)
    derive(r, i, tt_stage_work(program->stages[i]) / total);
  tt_chain_derive(r);
  return r->space;
}

void
tt_space_default(const struct tt_space *space, int *config)
{
  const struct tt_rules *r = space->rules;
  memcpy(config, r->defaults, (size_t)space->nknobs * sizeof *config);
}
