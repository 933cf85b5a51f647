/* Chains of stages in the derived space: stages that share outer axes with
 * their last consumer are computed in its loops, so that what they leave for
 * each other stays in caches, and an elementwise stage takes the sums of a
 * reduction from its registers.
 *
 * Invariant: the stages of a group share at least as many axes with its owner
 * as the stages that they are read by do.
 */
#include "config.h"

#include "schedule/space.h"

#include <stdlib.h>
#include <string.h>

#include "schedule/state.h"

/* Elementwise stages that are inlined one into the next, to finish sums. */
#define MAX_STEPS 4
#define MAX_DEPTHS 5

/* ---- what finishes a reduction ----------------------------------------- */

struct reads {
  const struct tt_rules *r;
  int from, to; /* stages computed in between */
  int but;      /* except this one */
  bool any;
  int calls;
};

static void
note_read(void *ctx, const struct tt_expr *e)
{
  struct reads *d = ctx;
  d->calls += e->kind == TT_CALL;
  if (e->kind != TT_LOAD)
    return;
  for (int i = d->from + 1; i < d->to; i++)
    d->any |= i != d->but && d->r->program->stages[i]->out == e->tensor;
}

int
tt_chain_finish(const struct tt_rules *r, int stage, int epilogue, int *calls)
{
  int last = -1, before = stage, steps = 0;
  *calls = 0;
  while (epilogue >= 0 && !r->program->stages[stage]->prepare &&
         steps++ < MAX_STEPS && epilogue - stage <= 64) {
    const struct tt_stage *st = r->program->stages[epilogue];
    struct reads d = {r, stage, epilogue, before, false, 0};
    tt_expr_visit(st->value, note_read, &d);
    if (d.any || st->where)
      break;
    *calls += d.calls;
    before = last = epilogue;
    epilogue = st->out->role == TT_OUTPUT ? -1 : tt_space_epilogue(r, last);
  }
  return last;
}

bool
tt_chain_apply_finish(const struct tt_rules *r, struct tt_schedule *s,
                      int stage, int last, bool *done)
{
  for (int e = tt_space_epilogue(r, stage); e != last;
       e = tt_space_epilogue(r, e)) {
    done[e] = true;
    if (!tt_inline(s, e))
      return false;
  }
  done[last] = true;
  return tt_finish(s, last, stage);
}

/* ---- elementwise stages ------------------------------------------------ */

/* Inlined values larger than this, all reads together, are worth a buffer. */
#define MAX_INLINED 100

struct cost {
  const struct tt_tensor *tensor;
  int nodes, calls, reads; /* reads of the tensor */
};

static void
add_cost(void *ctx, const struct tt_expr *e)
{
  struct cost *c = ctx;
  c->nodes += e->type.dtype != TT_I64; /* (Indices are cheap.) */
  c->calls += e->kind == TT_CALL ||
              (e->kind == TT_BINARY && e->op == TT_DIV &&
               tt_dtype_is_float(e->type.dtype) && e->b->kind != TT_FLT);
  c->reads += e->kind == TT_LOAD && e->tensor == c->tensor;
}

/* Scaled values and the like, which several stages read: are they as easily
 * made again from the one tensor that they are made of? */
static bool
made_again(const struct tt_rules *r, int stage, const struct cost *own)
{
  const struct tt_stage *st = r->program->stages[stage];
  int last = r->reader[st->out->id].last;
  struct tt_access acc[TT_MAX_ACCESSES];
  if (own->calls || own->nodes > 4 || last - stage > 64 || st->nspatial == 0 ||
      tt_accesses(r->arena, st, st->value, acc) != 1 ||
      acc[0].stride[st->nspatial - 1] != 1)
    return false;
  for (int i = stage + 1; i <= last; i++) {
    const struct tt_stage *o = r->program->stages[i];
    if ((tt_expr_uses_tensor(o->value, st->out) ||
         (o->where && tt_expr_uses_tensor(o->where, st->out))) &&
        (o->prepare || (r->rule[i].kind == TT_TILED && !r->rule[i].rows)))
      return false;
  }
  return true;
}

bool
tt_chain_inlines(const struct tt_rules *r, int stage)
{
  const struct tt_stage *st = r->program->stages[stage];
  const struct tt_readers *t = &r->reader[st->out->id];
  if (st->out->role != TT_TEMP || st->prepare || st->where || t->n < 1)
    return false;
  if (t->n > 1) {
    struct cost own = {st->out, 0, 0, 0};
    tt_expr_visit(st->value, add_cost, &own);
    return made_again(r, stage, &own);
  }
  const struct tt_stage *reader = r->program->stages[t->last];
  if (reader->red != TT_RED_NONE || reader->prepare)
    return false;
  struct cost own = {st->out, 0, 0, 0}, its = {st->out, 0, 0, 0};
  tt_expr_visit(st->value, add_cost, &own);
  tt_expr_visit(reader->value, add_cost, &its);
  return its.reads == 1 || (!own.calls && its.reads * own.nodes <= MAX_INLINED);
}

int
tt_chain_fuses(const struct tt_rules *r, const struct tt_rule *rule,
               bool whole_copies)
{
  const struct tt_tensor *out = r->program->stages[rule->epilogue]->out;
  if (r->rule[rule->epilogue].place == 1 && r->reader[out->id].n > 1)
    return 0; /* inlined where it is read */
  return rule->finish >= 0 && !rule->finish_calls ? 2 : !whole_copies;
}

/* Are there vectors that all rows read, beside those of each row? */
static bool
shares_vectors(const struct tt_stage *st, const struct tt_access *acc, int n,
               int axis)
{
  bool shared = false, own = false;
  for (int i = 0; i < n; i++)
    if (acc[i].affine && acc[i].stride[st->nspatial - 1] == 1) {
      shared |= acc[i].stride[axis] == 0;
      own |= acc[i].stride[axis] != 0;
    }
  return shared && own;
}

int
tt_chain_window(const struct tt_rules *r, int stage, int *rows)
{
  const struct tt_stage *st = r->program->stages[stage];
  int axis = st->nspatial - 2;
  *rows = 1;
  if (axis < 0 || tt_space_extent(st, axis) < 16)
    return -1;
  struct tt_access acc[TT_MAX_ACCESSES];
  int n = tt_accesses(r->arena, st, st->value, acc);
  const struct tt_var *v = st->spatial[axis];
  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++)
      for (int d = 0; acc[i].tensor == acc[j].tensor && d < acc[i].tensor->ndim;
           d++)
        if (tt_expr_uses_var(acc[i].load->args[d], v) &&
            !tt_expr_equal(acc[i].load->args[d], acc[j].load->args[d])) {
          *rows = n <= 9 ? 8 : 4;
          return axis;
        }
  if (!shares_vectors(st, acc, n, axis))
    return -1;
  *rows = 2;
  return axis;
}

/* ---- groups ------------------------------------------------------------ */

/* While stages are visited from the last to the first: what the readers seen
 * so far leave to each. */
struct grouping {
  struct tt_rules *r;
  int *maker; /* by tensor: the stage that computes it, or -1 */
  int *owner; /* by stage: that of all its readers; -1: none yet; -2: several */
  int *shared; /* by stage: axes that all its readers share */
  int stage;   /* being visited */
};

/* Leading dimensions in which the load stands at the reader's own axes. */
static int
common_prefix(const struct tt_stage *reader, const struct tt_expr *load)
{
  int d = 0;
  while (d < load->nargs && d < reader->nspatial &&
         load->tensor->dims[d] == reader->spatial[d]->extent &&
         (load->tensor->dims[d] == 1 ||
          (load->args[d]->kind == TT_VAR &&
           load->args[d]->var == reader->spatial[d])))
    d++;
  return d;
}

static void
note_reader(void *ctx, const struct tt_expr *e)
{
  struct grouping *g = ctx;
  int made =
      e->kind == TT_LOAD && e->tensor->id >= 0 ? g->maker[e->tensor->id] : -1;
  if (made < 0)
    return;
  const struct tt_rule *rule = &g->r->rule[g->stage];
  int d = common_prefix(g->r->program->stages[g->stage], e);
  if (d > rule->share)
    d = rule->share;
  if (g->owner[made] == -1)
    g->owner[made] = rule->owner;
  else if (g->owner[made] != rule->owner)
    g->owner[made] = -2;
  if (d < g->shared[made])
    g->shared[made] = d;
}

/* A reduction whose operand is read again along an axis wants the loops of
 * that axis inside: axes before it may be outside. */
static int
axes_without_reuse(const struct tt_rules *r, const struct tt_rule *rule,
                   int most)
{
  const struct tt_stage *st = r->program->stages[rule->stage];
  struct tt_access acc[TT_MAX_ACCESSES];
  int n = tt_accesses(r->arena, st, st->value, acc);
  for (int a = 0; a < most; a++) {
    if (tt_space_extent(st, a) == 1)
      continue;
    bool tiled = rule->kind == TT_TILED && !rule->rows;
    if (!tiled && a != rule->rrow)
      continue;
    for (int i = 0; i < n; i++)
      if (acc[i].stride[a] == 0)
        return a;
    if (tiled && rule->vec[0] == a)
      return a;
  }
  return most;
}

/* How many outer axes the stage can leave to its owner. */
static int
shareable(const struct tt_rules *r, const struct tt_rule *rule, int most)
{
  const struct tt_stage *st = r->program->stages[rule->stage];
  if (st->out->role != TT_TEMP || st->prepare)
    return 0;
  for (int i = 0; i < rule->noperands; i++)
    if (rule->padded[i])
      return 0;
  if (st->red != TT_RED_NONE)
    most = axes_without_reuse(r, rule, most);
  while (most > 0 && tt_space_extent(st, most - 1) == 1)
    most--;
  return most;
}

static void
find_groups(struct grouping *g)
{
  struct tt_rules *r = g->r;
  const struct tt_program *p = r->program;
  for (int i = p->nstages - 1; i >= 0; i--) {
    struct tt_rule *rule = &r->rule[i];
    const struct tt_stage *st = p->stages[i];
    rule->owner = i;
    /* Vectors of the owner's last axis stay whole. */
    rule->share = st->nspatial - (st->red == TT_RED_NONE);
    if (g->owner[i] >= 0) {
      int n = shareable(r, rule, g->shared[i]);
      if (n > 0) {
        rule->owner = g->owner[i];
        rule->share = n;
      }
    }
    g->stage = i;
    if (st->prepare)
      continue;
    tt_expr_visit(st->value, note_reader, g);
    if (st->where)
      tt_expr_visit(st->where, note_reader, g);
  }
}

/* ---- depths ------------------------------------------------------------ */

struct size {
  const struct tt_rules *r;
  int owner;
  double bytes;
};

static void
add_read(void *ctx, const struct tt_expr *e)
{
  struct size *z = ctx;
  if (e->kind == TT_LOAD && e->tensor->role != TT_TEMP)
    z->bytes +=
        (double)tt_tensor_size(e->tensor) * tt_dtype_bytes(e->tensor->dtype);
}

/* Bytes that the owner and its group touch. */
static double
bytes_of_group(const struct tt_rules *r, int owner, const int *members, int n)
{
  struct size z = {r, owner, 0};
  for (int i = 0; i <= n; i++) {
    const struct tt_stage *st = r->program->stages[i < n ? members[i] : owner];
    z.bytes += (double)tt_tensor_size(st->out) * tt_dtype_bytes(st->out->dtype);
    /* (What one stage streams in, the others read again.) */
    double before = z.bytes;
    tt_expr_visit(st->value, add_read, &z);
    if (i > 0 && i < n)
      z.bytes = before;
  }
  return z.bytes;
}

/* How much less one iteration of the loops of the first d axes touches. */
static double
iterations(const struct tt_stage *st, int d)
{
  double n = 1;
  for (int a = 0; a < d; a++)
    n *= (double)tt_space_extent(st, a);
  return n;
}

static void
group_knobs(struct tt_rules *r, int owner, const int *members, int n)
{
  struct tt_rule *rule = &r->rule[owner];
  const struct tt_stage *st = r->program->stages[owner];
  int64_t depths[MAX_DEPTHS] = {0};
  int nd = 1;
  bool open = rule->open;
  for (int i = 0; i < n; i++) {
    const struct tt_rule *m = &r->rule[members[i]];
    open |= m->open;
    bool seen = false;
    for (int j = 0; j < nd; j++)
      seen |= depths[j] == m->share;
    if (!seen && nd < MAX_DEPTHS)
      depths[nd++] = m->share;
  }
  /* The outermost loops whose part fits the cache. */
  double bytes = bytes_of_group(r, owner, members, n);
  int best = 0;
  if (bytes > (double)r->target.l1)
    for (int j = 1; j < nd; j++) {
      double part = bytes / iterations(st, (int)depths[j]);
      bool fits = part <= (double)r->target.l2 / 2;
      double old = bytes / iterations(st, (int)depths[best]);
      bool had = best && old <= (double)r->target.l2 / 2;
      if (!best || (fits && (!had || depths[j] < depths[best])) ||
          (!fits && !had && depths[j] > depths[best]))
        best = j;
    }
  rule->depth = (int)depths[best];
  double part = bytes / iterations(st, rule->depth);
  rule->block = 1;
  while (best && rule->block < 4 &&
         2 * (double)rule->block * part <= (double)r->target.l1 / 2)
    rule->block *= 2;
  if (!open)
    return;
  rule->k_depth =
      tt_space_knob(r, owner, "depth", TT_KNOB_CHOICE, nd, depths, rule->depth);
  static const int64_t blocks[] = {1, 2, 4, 8};
  rule->k_block =
      tt_space_knob(r, owner, "block", TT_KNOB_FACTOR, 4, blocks, rule->block);
}

void
tt_chain_derive(struct tt_rules *r)
{
  const struct tt_program *p = r->program;
  size_t n = (size_t)p->nstages + 1;
  struct grouping g = {.r = r,
                       .maker = TT_ARRAY(r->arena, int, p->ntensors + 1),
                       .owner = TT_ARRAY(r->arena, int, n),
                       .shared = TT_ARRAY(r->arena, int, n)};
  for (int i = 0; i < p->ntensors; i++)
    g.maker[i] = -1;
  for (int i = 0; i < p->nstages; i++) {
    g.maker[p->stages[i]->out->id] = i;
    g.owner[i] = -1;
    g.shared[i] = TT_MAX_DIMS;
  }
  find_groups(&g);
  /* Members by owner, in the order of stages. */
  int *count = TT_ARRAY(r->arena, int, n), *at = TT_ARRAY(r->arena, int, n),
      *members = TT_ARRAY(r->arena, int, n);
  for (int i = 0; i < p->nstages; i++)
    count[r->rule[i].owner] += r->rule[i].owner != i;
  for (int i = 1; i < p->nstages; i++)
    at[i] = at[i - 1] + count[i - 1];
  for (int i = 0; i < p->nstages; i++)
    if (r->rule[i].owner != i)
      members[at[r->rule[i].owner]++] = i;
  for (int i = p->nstages - 1; i >= 0; i--)
    if (count[i])
      group_knobs(r, i, members + at[i] - count[i], count[i]);
}

/* ---- schedules --------------------------------------------------------- */

static int64_t
choice(const struct tt_rules *r, const int *config, int knob, int64_t fallback)
{
  return knob < 0 ? fallback : r->space->knobs[knob].values[config[knob]];
}

int
tt_chain_depth(const struct tt_rules *r, const int *config, int stage)
{
  const struct tt_rule *o = &r->rule[r->rule[stage].owner];
  int64_t depth = choice(r, config, o->k_depth, o->depth);
  return o->stage == stage || r->rule[stage].share >= depth ? (int)depth : 0;
}

/* The innermost of the loops that hold nothing but the first `depth` axes,
 * which stand outside all others; -1 when they do not. */
static int
loop_of_depth(const struct tt_stage_schedule *ss, int depth)
{
  bool covered[TT_MAX_DIMS] = {false};
  int at = 0, loop = -1;
  for (; at < ss->norder; at++) {
    bool leading = false;
    for (int a = 0; a < depth; a++)
      if (tt_loop_uses_axis(ss, ss->order[at], ss->stage->spatial[a]))
        leading = covered[a] = true;
    if (!leading || ss->loops[ss->order[at]].kind != TT_SERIAL)
      break;
    loop = ss->order[at];
  }
  for (int a = 0; a < depth; a++)
    if (!covered[a])
      return -1;
  return loop;
}

/* Several iterations of the innermost shared axis at once. */
static int
loop_of_group(const struct tt_rules *r, struct tt_schedule *s, int owner,
              int depth, int64_t block)
{
  const struct tt_stage_schedule *ss = &s->stages[owner];
  int loop = loop_of_depth(ss, depth);
  if (loop < 0 || block <= 1 || loop != depth - 1 || ss->attached ||
      r->rule[owner].kind != TT_ELEMENTWISE)
    return loop;
  const char *name = tt_arena_printf(s->arena, "%s_g", ss->loops[loop].name);
  int inner = tt_split(s, owner, loop, block, name, TT_TAIL_PEEL);
  return inner < 0 ? -1 : ss->loops[inner].other;
}

void
tt_chain_place(const struct tt_rules *r, const int *config,
               struct tt_schedule *s)
{
  int *loop = TT_ARRAY(s->arena, int, (size_t)s->nstages + 1);
  for (int i = s->nstages - 1; i >= 0; i--) {
    const struct tt_rule *rule = &r->rule[i];
    int depth = tt_chain_depth(r, config, i);
    loop[i] = -1;
    if (depth <= 0)
      continue;
    if (rule->owner == i) {
      if (rule->depth || rule->k_depth >= 0)
        loop[i] = loop_of_group(r, s, i, depth,
                                choice(r, config, rule->k_block, rule->block));
      continue;
    }
    /* What is refused stays where it is. */
    if (loop[rule->owner] >= 0 && s->stages[i].place == TT_ROOT)
      (void)tt_compute_at(s, i, rule->owner, loop[rule->owner]);
  }
}
