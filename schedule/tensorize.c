/* The primitive tensorize: a stage's innermost loops are what an instruction
 * of the program does.
 *
 * Invariant: from position of the outermost of them on, the order holds the
 * intrin's indices, spatial ones first, as plain loops of their ranges, and
 * the stage's value over them is the intrin's statement.  What only lowering
 * knows, strides and alignments, it checks (tt_check_instructions()).
 */
#include "config.h"

#include "ir/passes.h"
#include "schedule/state.h"

#include <string.h>

int
tt_tensor_position(const struct tt_stage_schedule *ss)
{
  return ss->intrin ? tt_position(ss, ss->tile[0]) : ss->norder;
}

static int
rank(const struct tt_intrin *in)
{
  return in->nspatial + in->nreduce;
}

static const struct tt_var *
index_of(const struct tt_intrin *in, int i)
{
  return i < in->nspatial ? in->spatial[i] : in->reduce[i - in->nspatial];
}

/* ---- which loop is which index ----------------------------------------- */

struct mapping {
  const struct tt_stage_schedule *ss;
  const struct tt_intrin *intrin;
  const int *loops; /* those of the tile */
  int tile[TT_MAX_LOOPS];
  int operand, loop; /* last mismatch: an operand that does or does not vary
                        with a loop; -1: none */
  bool varies;
};

static bool
depends(const struct tt_stage_schedule *ss, int loop, const struct tt_expr *e)
{
  for (int h = 0; h < ss->nloops && ss->loops[h].node == TT_AXIS; h++)
    if (tt_loop_uses_axis(ss, loop, ss->loops[h].axis) &&
        tt_expr_uses_var(e, ss->loops[h].axis))
      return true;
  return false;
}

/* Does it vary with the loops of the operand's subscripts, and no others? */
static bool
accept(void *ctx, int operand, const struct tt_expr *e)
{
  struct mapping *m = ctx;
  const struct tt_operand_of *o = &m->intrin->operands[operand];
  unsigned used = 0;
  for (int d = 0; d < o->tensor->ndim; d++)
    used |= 1u << o->index[d];
  for (int i = 0; i < rank(m->intrin); i++) {
    bool varies = depends(m->ss, m->tile[i], e);
    if (varies == (used >> i & 1))
      continue;
    m->operand = operand;
    m->loop = m->tile[i];
    m->varies = varies;
    return false;
  }
  return true;
}

static bool
any(void *ctx, int operand, const struct tt_expr *e)
{
  (void)ctx;
  (void)operand;
  (void)e;
  return true;
}

static bool
fits(const struct mapping *m, int i, int loop)
{
  const struct tt_loop *l = &m->ss->loops[loop];
  return l->extent == index_of(m->intrin, i)->extent &&
         l->reduce == (i >= m->intrin->nspatial);
}

/* Loops for the indices from number i on; `taken`: positions in m->loops. */
static bool
assign(struct mapping *m, int i, unsigned taken)
{
  const struct tt_expr *found[TT_MAX_OPERANDS];
  int n = rank(m->intrin);
  if (i == n)
    return tt_intrin_matches(m->intrin, m->ss->value, accept, m, found);
  for (int k = 0; k < n; k++) {
    if ((taken >> k & 1) || !fits(m, i, m->loops[k]))
      continue;
    m->tile[i] = m->loops[k];
    if (assign(m, i + 1, taken | 1u << k))
      return true;
  }
  return false;
}

/* Why no loops were found for the indices. */
static bool
no_match(struct tt_schedule *s, int stage, const struct mapping *m)
{
  const struct tt_intrin *in = m->intrin;
  const char *name = tt_stage_name(s, stage);
  const struct tt_expr *found[TT_MAX_OPERANDS];
  for (int i = 0; i < rank(in); i++) {
    bool one = false;
    for (int k = 0; k < rank(in); k++)
      one |= fits(m, i, m->loops[k]);
    if (!one)
      return tt_refuse(s,
                       "%s does not match %s: none of its loops from %s on is "
                       "a %s one of %lld iterations, for the index %s",
                       in->name, name, m->ss->loops[m->loops[0]].name,
                       i < in->nspatial ? "spatial" : "reduction",
                       (long long)index_of(in, i)->extent,
                       index_of(in, i)->name);
  }
  if (!tt_intrin_matches(in, m->ss->value, any, NULL, found))
    return tt_refuse(s,
                     "%s does not match %s: its statement or the types of its "
                     "operands are not the stage's",
                     in->name, name);
  if (m->operand < 0)
    return tt_refuse(s,
                     "%s does not match %s: two of its loops would be one "
                     "index",
                     in->name, name);
  return tt_refuse(s, "%s does not match %s: what stands for %s %s with %s",
                   in->name, name, in->operands[m->operand].tensor->name,
                   m->varies ? "varies" : "does not vary",
                   m->ss->loops[m->loop].name);
}

static bool
map_loops(struct tt_schedule *s, int stage, const struct tt_intrin *in,
          const int *loops, int *tile)
{
  struct mapping m = {
      .ss = &s->stages[stage], .intrin = in, .loops = loops, .operand = -1};
  if (!assign(&m, 0, 0))
    return no_match(s, stage, &m);
  memcpy(tile, m.tile, (size_t)rank(in) * sizeof *tile);
  return true;
}

/* ---- invariants -------------------------------------------------------- */

/* Nothing hangs on loops of the tile, and they are plain. */
static bool
check_inside(struct tt_schedule *s, int stage, int at)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const char *name = tt_stage_name(s, stage);
  if (at < 0 || at + rank(ss->intrin) != ss->norder)
    return tt_refuse(s, "the loops of %s that %s does must stay innermost",
                     name, ss->intrin->name);
  for (int i = at; i < ss->norder; i++) {
    const struct tt_loop *l = &ss->loops[ss->order[i]];
    int h = ss->order[i];
    if (h != ss->tile[i - at])
      return tt_refuse(s, "the loops of %s that %s does must keep their order",
                       name, ss->intrin->name);
    if (l->kind != TT_SERIAL)
      return tt_refuse(s, "%s of %s is done by %s: it must be a plain loop",
                       l->name, name, ss->intrin->name);
    bool hangs = ss->cache_write == h;
    for (int c = 0; c < ss->ncaches; c++)
      hangs |= ss->caches[c].loop == h;
    for (int f = 0; f < ss->nprefetches; f++)
      hangs |= ss->prefetches[f].loop == h;
    for (int p = 0; p < stage && ss->attached; p++)
      hangs |= s->stages[p].place == TT_AT && s->stages[p].at_stage == stage &&
               s->stages[p].at_loop == h;
    if (hangs)
      return tt_refuse(s, "something stands in %s of %s, which %s does",
                       l->name, name, ss->intrin->name);
  }
  return true;
}

static const struct tt_expr *
put_zero(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  (void)ctx;
  return e->kind == TT_LOAD ? tt_zero(ar, e->type.dtype) : e;
}

/* Adds it nothing where its operands are zero? */
static bool
adds_no_zeros(struct tt_arena *ar, const struct tt_intrin *in)
{
  const struct tt_expr *v =
      tt_simplify(ar, tt_expr_rewrite(ar, in->value, put_zero, NULL), NULL);
  return in->red == TT_RED_SUM &&
         (v->kind == TT_FLT ? v->fval == 0 : tt_is_int(v, 0));
}

/* Has a split room for whole tiles, from zeros, in registers that are stored
 * point by point? */
static bool
is_padded(struct tt_schedule *s, int stage, int outer, int acc)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_loop *l = &ss->loops[outer];
  const struct tt_intrin *in = ss->intrin;
  bool inside = false;
  for (int i = acc + 1; i < ss->norder; i++)
    inside |= tt_comes_from(ss, ss->order[i], outer);
  return l->tail == TT_TAIL_PAD && in->operands[in->result].reg &&
         ss->loops[l->parent].extent > l->factor &&
         (l->reduce ? adds_no_zeros(s->arena, in) : !inside);
}

/* The tails of the splits that a loop of the tile comes from. */
static bool
check_tails(struct tt_schedule *s, int stage, int loop, int acc)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_intrin *in = ss->intrin;
  bool reg = in->operands[in->result].reg;
  for (int h = loop; ss->loops[h].node != TT_AXIS; h = ss->loops[h].parent) {
    const struct tt_loop *l = &ss->loops[h];
    if (l->node == TT_FUSED)
      return tt_refuse(s, "%s of %s comes from a fused loop: %s cannot do it",
                       ss->loops[loop].name, tt_stage_name(s, stage), in->name);
    if (ss->loops[l->parent].extent % l->factor == 0)
      continue;
    bool inside = false;
    int outer = l->node == TT_SPLIT_INNER ? l->other : h;
    if (is_padded(s, stage, outer, acc))
      continue;
    for (int i = acc + 1; i < ss->norder && reg; i++)
      inside |= tt_comes_from(ss, ss->order[i], outer);
    if (inside || in->threads > 1 || l->tail == TT_TAIL_GUARD ||
        l->tail == TT_TAIL_PAD)
      return tt_refuse(s,
                       "%s leaves a tail of %s in %s, which %s cannot do here",
                       ss->loops[l->parent].name, ss->loops[loop].name,
                       tt_stage_name(s, stage), in->name);
  }
  return true;
}

/* A result in a register lives in the stage's accumulators. */
static bool
check_accumulators(struct tt_schedule *s, int stage, int acc)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_intrin *in = ss->intrin;
  const char *name = tt_stage_name(s, stage);
  if (!in->operands[in->result].reg)
    return true;
  if (ss->cache_write == TT_NO_CACHE)
    return tt_refuse(s,
                     "%s keeps its result in a register: %s needs accumulators "
                     "(cache_write) outside %s",
                     in->name, name, ss->loops[ss->tile[0]].name);
  bool pads = false;
  for (int h = 0; h < ss->nloops; h++)
    pads |= ss->loops[h].node == TT_SPLIT_OUTER && !ss->loops[h].reduce &&
            ss->loops[h].tail == TT_TAIL_PAD &&
            ss->loops[ss->loops[h].parent].extent % ss->loops[h].factor;
  for (int i = 0; i <= acc && (ss->finish >= 0 || pads) && in->threads > 1; i++)
    if (tt_is_thread(ss->loops[ss->order[i]].kind))
      return tt_refuse(s,
                       "loop %s of %s is outside the accumulators: %s cannot "
                       "take the sums that the %d threads of %s store together",
                       ss->loops[ss->order[i]].name, name,
                       ss->finish >= 0 ? tt_stage_name(s, ss->finish) : name,
                       in->threads, in->name);
  for (int i = 0; i <= acc; i++)
    if (ss->loops[ss->order[i]].reduce)
      return tt_refuse(s,
                       "reduction loop %s of %s is outside the accumulators, "
                       "which %s keeps in a register",
                       ss->loops[ss->order[i]].name, name, in->name);
  for (int h = 0; h < ss->nloops; h++) {
    const struct tt_loop *l = &ss->loops[h];
    if (l->node == TT_SPLIT_OUTER &&
        ss->loops[l->parent].extent % l->factor != 0 &&
        (l->tail == TT_TAIL_GUARD ||
         (l->tail == TT_TAIL_PAD && !is_padded(s, stage, h, acc))))
      return tt_refuse(
          s,
          "%s of %s has a guarded tail, and %s keeps its result in "
          "a register",
          l->name, name, in->name);
  }
  return true;
}

static bool
check_value(struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_intrin *in = ss->intrin;
  const char *name = tt_stage_name(s, stage);
  int tile[TT_MAX_LOOPS];
  if (ss->stage->red != in->red)
    return tt_refuse(s, "%s %s, %s does not", in->name,
                     in->red == TT_RED_SUM ? "adds to its result"
                                           : "overwrites its result",
                     name);
  if (ss->where)
    return tt_refuse(s, "%s of %s has a condition: %s cannot do it",
                     ss->loops[ss->tile[0]].name, name, in->name);
  for (int h = 0; h < ss->nloops; h++)
    if (ss->loops[h].shrink)
      return tt_refuse(s, "points of %s of %s are left out: %s cannot do it",
                       ss->loops[h].name, name, in->name);
  if (s->strict_fp && tt_sum_rounds(ss->stage) && in->nreduce)
    return tt_refuse(s,
                     "--strict-fp: %s would change the order of the sum in %s",
                     in->name, name);
  return map_loops(s, stage, in, ss->tile, tile);
}

bool
tt_check_tile(struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int acc = ss->cache_write < 0 ? -1 : tt_position(ss, ss->cache_write);
  if (!ss->intrin)
    return true;
  if (!check_inside(s, stage, tt_tensor_position(ss)) ||
      !check_value(s, stage) || !check_accumulators(s, stage, acc))
    return false;
  for (int i = 0; i < ss->norder; i++)
    if (ss->loops[ss->order[i]].kind == TT_VECTOR)
      return tt_refuse(s, "%s of %s is vectorized: %s cannot stand in it",
                       ss->loops[ss->order[i]].name, tt_stage_name(s, stage),
                       ss->intrin->name);
  for (int i = 0; i < rank(ss->intrin); i++)
    if (!check_tails(s, stage, ss->tile[i], acc))
      return false;
  return true;
}

/* ---- instructions of several threads ----------------------------------- */

static int
root_of(const struct tt_schedule *s, int stage)
{
  while (s->stages[stage].place == TT_AT)
    stage = s->stages[stage].at_stage;
  return stage;
}

/* What is copied or computed inside the loops of threads is each one's own,
 * and out of the others' reach. */
static bool
check_reach(struct tt_schedule *s, int stage, int first)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const char *what = NULL;
  for (int c = 0; c < ss->ncaches; c++)
    if (ss->caches[c].loop != TT_OUTSIDE &&
        tt_position(ss, ss->caches[c].loop) >= first)
      what = ss->caches[c].name;
  for (int p = 0; p < stage && ss->attached; p++)
    if (s->stages[p].place == TT_AT && s->stages[p].at_stage == stage &&
        s->stages[p].at_loop != TT_OUTSIDE &&
        tt_position(ss, s->stages[p].at_loop) >= first)
      what = tt_stage_name(s, p);
  return !what ||
         tt_refuse(s,
                   "%s is filled inside loop %s of %s: the %d threads of %s "
                   "cannot share it",
                   what, ss->loops[ss->order[first]].name,
                   tt_stage_name(s, stage), ss->intrin->threads,
                   ss->intrin->name);
}

bool
tt_check_warps(struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_intrin *in = ss->intrin;
  const char *name = tt_stage_name(s, stage);
  if (!in || in->threads == 1)
    return true;
  int first = -1;
  int64_t groups = 1;
  for (int i = 0; i < ss->norder; i++) {
    const struct tt_loop *l = &ss->loops[ss->order[i]];
    if (!tt_is_thread(l->kind))
      continue;
    if (l->kind == TT_THREAD_X)
      return tt_refuse(
          s,
          "%s of %s is bound to thread.x: those are the %d threads "
          "of %s",
          l->name, name, in->threads, in->name);
    first = first < 0 ? i : first;
    groups *= l->extent;
  }
  if (first < 0)
    return tt_refuse(s,
                     "%s takes %d threads: a loop of %s outside %s must be "
                     "bound to thread.y or thread.z, to count groups of them",
                     in->name, in->threads, name, ss->loops[ss->tile[0]].name);
  if (groups * in->threads > 1024)
    return tt_refuse(s,
                     "%lld groups of the %d threads of %s are more than 1024",
                     (long long)groups, in->threads, in->name);
  for (int j = 0; j < s->nstages; j++) {
    const struct tt_stage_schedule *o = &s->stages[j];
    for (int i = 0; i < o->norder && o->place != TT_INLINE; i++)
      if (o->loops[o->order[i]].kind == TT_THREAD_X &&
          o->loops[o->order[i]].extent > in->threads &&
          root_of(s, j) == root_of(s, stage))
        return tt_refuse(s,
                         "%s of %s has more iterations than the %d threads "
                         "of %s in %s",
                         o->loops[o->order[i]].name, tt_stage_name(s, j),
                         in->threads, in->name, name);
  }
  return check_reach(s, stage, first);
}

/* ---- the primitive ----------------------------------------------------- */

const struct tt_intrin *
tt_find_intrin(const struct tt_schedule *s, const char *name)
{
  for (int i = 0; i < s->program->nintrins; i++)
    if (strcmp(s->program->intrins[i]->name, name) == 0)
      return s->program->intrins[i];
  return NULL;
}

static bool
apply(struct tt_schedule *s, int stage, int at, const struct tt_intrin *in)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (!map_loops(s, stage, in, &ss->order[at], ss->tile))
    return false;
  memcpy(&ss->order[at], ss->tile, (size_t)rank(in) * sizeof ss->order[0]);
  ss->intrin = in;
  return tt_check_stage(s, stage);
}

bool
tt_tensorize(struct tt_schedule *s, int stage, int loop,
             const struct tt_intrin *in)
{
  struct tt_stage_schedule *ss = &s->stages[stage];
  if (!tt_need_leaf(s, stage, loop))
    return false;
  const char *name = tt_stage_name(s, stage);
  if (ss->intrin)
    return tt_refuse(s, "%s is tensorized already, by %s", name,
                     ss->intrin->name);
  int at = tt_position(ss, loop), n = ss->norder - at;
  if (n != rank(in))
    return tt_refuse(s,
                     "%s does not match %s: it has %d indices, and %d loops "
                     "stand from %s on",
                     in->name, name, rank(in), n, ss->loops[loop].name);
  struct tt_stage_schedule old = *ss;
  if (!apply(s, stage, at, in)) {
    *ss = old;
    return false;
  }
  tt_record(s, stage, "tensorize", "ll", ss->loops[loop].name, in->name);
  return true;
}
