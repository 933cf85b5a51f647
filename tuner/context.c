/* Loop contexts from the schedule's data.
 *
 * Invariant: every extent, width and count is at least 1 and at most what the
 * axis or tensor has, whatever the expression: what cannot be analysed counts
 * as touching as much as its loops could reach.
 */
#include "config.h"
#include "tuner/context.h"

#include <math.h>
#include <string.h>

/* Consumers around consumers that are followed; deeper ones count as whole. */
enum { MAX_DEPTH = 6 };

/* ---- subscripts -------------------------------------------------------- */

struct collector {
  struct tt_context *c;
  int budget; /* nodes still to be visited */
};

static int
axis_of(const struct tt_stage *s, const struct tt_var *v)
{
  for (int i = 0; i < s->nspatial && i < TT_CTX_AXES; i++)
    if (s->spatial[i] == v)
      return i;
  for (int i = 0; i < s->nreduce && s->nspatial + i < TT_CTX_AXES; i++)
    if (s->reduce[i] == v)
      return s->nspatial + i;
  return -1;
}

/* Every axis in `e` may move the subscript anywhere: an opaque form. */
static void
opaque(struct collector *k, const struct tt_expr *e, float reach,
       struct tt_ctx_index *out)
{
  int a;

  if (e == NULL || k->budget-- <= 0)
    return;
  if (e->kind == TT_VAR) {
    a = axis_of(k->c->ss->stage, e->var);
    if (a >= 0)
      out->coef[a] = fmaxf(out->coef[a], reach);
  }
  for (int i = 0; i < e->nargs; i++)
    opaque(k, e->args[i], reach, out);
  opaque(k, e->a, reach, out);
  opaque(k, e->b, reach, out);
  opaque(k, e->c, reach, out);
}

static void linear(struct collector *k, const struct tt_expr *e, float scale,
                   float reach, struct tt_ctx_index *out);

static void
linear_binary(struct collector *k, const struct tt_expr *e, float scale,
              float reach, struct tt_ctx_index *out)
{
  bool ka = e->a->kind == TT_INT, kb = e->b->kind == TT_INT;

  if (e->op == TT_ADD || e->op == TT_SUB) {
    linear(k, e->a, scale, reach, out);
    linear(k, e->b, e->op == TT_ADD ? scale : -scale, reach, out);
  } else if (e->op == TT_MUL && kb) {
    linear(k, e->a, scale * (float)e->b->ival, reach, out);
  } else if (e->op == TT_MUL && ka) {
    linear(k, e->b, scale * (float)e->a->ival, reach, out);
  } else if (e->op == TT_DIV && kb && e->b->ival != 0) {
    linear(k, e->a, scale / (float)e->b->ival, reach, out);
  } else if (e->op == TT_MOD && kb && e->b->ival > 0) {
    linear(k, e->a, scale, reach, out);
    out->cap = fminf(out->cap, (float)e->b->ival * fabsf(scale));
  } else if (e->op == TT_MIN || e->op == TT_MAX) { /* a clamp */
    linear(k, ka ? e->b : e->a, scale, reach, out);
  } else {
    opaque(k, e, reach, out);
  }
}

static void
linear(struct collector *k, const struct tt_expr *e, float scale, float reach,
       struct tt_ctx_index *out)
{
  int a;

  if (k->budget-- <= 0)
    return;
  switch (e->kind) {
  case TT_INT:
    out->lo += scale * (float)e->ival;
    break;
  case TT_VAR:
    a = axis_of(k->c->ss->stage, e->var);
    if (a >= 0)
      out->coef[a] += scale;
    break;
  case TT_BINARY:
    linear_binary(k, e, scale, reach, out);
    break;
  case TT_NEG:
    linear(k, e->a, -scale, reach, out);
    break;
  case TT_CAST:
  case TT_SAT:
  case TT_RAMP:
  case TT_BROADCAST:
    linear(k, e->a, scale, reach, out);
    break;
  case TT_FLT:
  case TT_LOAD:
  case TT_NOT:
  case TT_SELECT:
  case TT_CALL:
    opaque(k, e, reach, out);
    break;
  }
}

/* ---- accesses ---------------------------------------------------------- */

static bool
same_form(const struct tt_context *c, const struct tt_ctx_access *a,
          const struct tt_ctx_access *b)
{
  if (a->tensor != b->tensor || a->write != b->write)
    return false;
  for (int d = 0; d < a->ndim; d++)
    if (memcmp(a->index[d].coef, b->index[d].coef,
               (size_t)c->naxes * sizeof(float)) != 0)
      return false;
  return true;
}

/* Where the access differs by constants only from one before, widen that. */
static void
add_access(struct tt_context *c)
{
  struct tt_ctx_access *n = &c->accesses[c->naccesses];

  for (int i = 0; i < c->naccesses; i++) {
    struct tt_ctx_access *o = &c->accesses[i];
    if (!same_form(c, o, n))
      continue;
    for (int d = 0; d < n->ndim; d++) {
      o->index[d].lo = fminf(o->index[d].lo, n->index[d].lo);
      o->index[d].hi = fmaxf(o->index[d].hi, n->index[d].hi);
    }
    return;
  }
  c->naccesses++;
}

/* The next free access, set up for a tensor; NULL when there are too many. */
static struct tt_ctx_access *
new_access(struct tt_context *c, const struct tt_tensor *t, bool write)
{
  struct tt_ctx_access *a;

  if (c->naccesses == TT_CTX_ACCESSES)
    return NULL;
  a = &c->accesses[c->naccesses];
  a->tensor = t;
  a->write = write;
  a->ndim = t->ndim;
  a->bytes = tt_dtype_bytes(t->dtype);
  a->cache = NULL;
  a->cache_depth = 0;
  memset(a->index, 0, (size_t)t->ndim * sizeof *a->index);
  for (int d = 0; d < t->ndim; d++)
    a->index[d].cap = (float)t->dims[d];
  return a;
}

static void
collect_load(struct collector *k, const struct tt_expr *e)
{
  struct tt_ctx_access *a = new_access(k->c, e->tensor, false);

  if (a == NULL)
    return;
  for (int d = 0; d < a->ndim && d < e->nargs; d++) {
    linear(k, e->args[d], 1, (float)e->tensor->dims[d], &a->index[d]);
    a->index[d].hi = a->index[d].lo;
  }
  add_access(k->c);
}

static void
count_binary(const struct tt_expr *e, struct tt_ctx_ops *ops)
{
  if (!tt_dtype_is_float(e->a->type.dtype)) {
    ops->integer += 1;
    return;
  }
  switch (e->op) {
  case TT_ADD:
  case TT_SUB:
    ops->add += 1;
    break;
  case TT_MUL:
    ops->mul += 1;
    break;
  case TT_DIV:
  case TT_MOD:
    ops->div += 1;
    break;
  case TT_OR:
  case TT_AND:
  case TT_EQ:
  case TT_NE:
  case TT_LT:
  case TT_GT:
  case TT_LE:
  case TT_GE:
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
  case TT_SHL:
  case TT_SHR:
  case TT_MIN:
  case TT_MAX:
  case TT_NBINOPS:
    ops->choice += 1;
    break;
  }
}

/* Accesses and operations of a value.  The arithmetic of subscripts does not
 * count: strides replace it; loads in subscripts do. */
static void
collect(struct collector *k, const struct tt_expr *e, bool subscript)
{
  struct tt_ctx_ops *ops = &k->c->ops;

  if (e == NULL || k->budget-- <= 0)
    return;
  for (int i = 0; i < e->nargs; i++)
    collect(k, e->args[i], subscript || e->kind == TT_LOAD);
  collect(k, e->a, subscript);
  collect(k, e->b, subscript);
  collect(k, e->c, subscript);
  if (e->kind == TT_LOAD)
    collect_load(k, e);
  if (subscript)
    return;
  switch (e->kind) {
  case TT_BINARY:
    count_binary(e, ops);
    break;
  case TT_NEG:
  case TT_NOT:
  case TT_CAST:
  case TT_SAT:
    ops->integer += 1;
    break;
  case TT_SELECT:
    ops->choice += 1;
    break;
  case TT_CALL:
    ops->special += 1;
    break;
  case TT_INT:
  case TT_FLT:
  case TT_VAR:
  case TT_LOAD:
  case TT_RAMP:
  case TT_BROADCAST:
    break;
  }
}

static void
collect_stage(struct tt_context *c)
{
  const struct tt_stage *s = c->ss->stage;
  struct collector k = {c, TT_CTX_NODES};
  struct tt_ctx_access *w = new_access(c, s->out, true);

  for (int d = 0; d < s->nspatial && d < TT_CTX_AXES; d++)
    w->index[d].coef[d] = 1;
  c->naccesses++;
  collect(&k, c->ss->value, false);
  collect(&k, c->ss->where, false);
  if (s->red == TT_RED_SUM)
    c->ops.add += 1;
  else if (s->red == TT_RED_PROD)
    c->ops.mul += 1;
  else if (s->red != TT_RED_NONE)
    c->ops.choice += 1;
}

/* ---- loops ------------------------------------------------------------- */

static int
position(const struct tt_stage_schedule *ss, int loop)
{
  for (int i = 0; i < ss->norder; i++)
    if (ss->order[i] == loop)
      return i;
  return -1;
}

/* Extents of all loops from those of the axes: a loop's parents come before
 * it. */
static void
extents(const struct tt_context *c, float *ext)
{
  const struct tt_stage_schedule *ss = c->ss;
  const struct tt_loop *l;
  int a;

  for (int i = 0; i < ss->nloops; i++) {
    l = &ss->loops[i];
    switch (l->node) {
    case TT_AXIS:
      a = axis_of(ss->stage, l->axis);
      ext[i] = a >= 0 ? c->axis[a] : (float)l->extent;
      break;
    case TT_SPLIT_OUTER:
      ext[i] = ceilf(ext[l->parent] / (float)l->factor);
      break;
    case TT_SPLIT_INNER:
      ext[i] = fminf((float)l->factor, ext[l->parent]);
      break;
    case TT_FUSED:
      ext[i] = ext[l->fused_outer] * ext[l->fused_inner];
      break;
    }
  }
}

/* `count` values of a loop, `step` apart, in terms of the axes. */
static void
add_parts(const struct tt_context *c, const float *ext, int loop, float count,
          float step, struct tt_ctx_loop *out)
{
  const struct tt_loop *l = &c->ss->loops[loop];
  float inner, n;
  int a;

  switch (l->node) {
  case TT_AXIS:
    a = axis_of(c->ss->stage, l->axis);
    if (a < 0 || out->nparts == TT_CTX_PARTS)
      break;
    out->parts[out->nparts].axis = a;
    out->parts[out->nparts].count = count;
    out->parts[out->nparts++].step = step;
    break;
  case TT_SPLIT_OUTER:
    add_parts(c, ext, l->parent, count, step * (float)l->factor, out);
    break;
  case TT_SPLIT_INNER:
    add_parts(c, ext, l->parent, count, step, out);
    break;
  case TT_FUSED:
    inner = ext[l->fused_inner];
    if (step >= inner) {
      add_parts(c, ext, l->fused_outer, count, step / inner, out);
      break;
    }
    n = fminf(count, ceilf(inner / step));
    add_parts(c, ext, l->fused_inner, n, step, out);
    if (count > n)
      add_parts(c, ext, l->fused_outer, ceilf(count / n), 1, out);
    break;
  }
}

static void
build_loops(struct tt_context *c)
{
  const struct tt_stage_schedule *ss = c->ss;
  float ext[TT_MAX_LOOPS];
  const struct tt_loop *l;

  extents(c, ext);
  c->n = ss->norder;
  for (int i = 0; i < c->n; i++) {
    struct tt_ctx_loop *o = &c->loops[i];
    l = &ss->loops[ss->order[i]];
    o->extent = ext[ss->order[i]];
    o->kind = l->kind;
    o->reduce = l->reduce;
    o->lanes = l->lanes;
    o->handle = ss->order[i];
    o->nparts = 0;
    add_parts(c, ext, ss->order[i], o->extent, 1, o);
  }
}

static void
find_caches(struct tt_context *c)
{
  const struct tt_stage_schedule *ss = c->ss;

  for (int i = 0; i < ss->ncaches; i++)
    for (int j = 0; j < c->naccesses; j++)
      if (!c->accesses[j].write &&
          c->accesses[j].tensor == ss->caches[i].tensor) {
        c->accesses[j].cache = &ss->caches[i];
        c->accesses[j].cache_depth =
            ss->caches[i].loop < 0 ? 0 : position(ss, ss->caches[i].loop) + 1;
      }
}

static void context_at(const struct tt_schedule *, int stage, int depth,
                       struct tt_context *);

/* The part of each axis that one iteration of the consumer's loop needs, and
 * how often that is. */
static void
find_region(const struct tt_schedule *s, int depth, struct tt_context *c)
{
  const struct tt_stage_schedule *ss = c->ss;
  struct tt_context consumer;
  struct tt_ctx_cover cover;
  int inside;

  if (ss->place != TT_AT || depth >= MAX_DEPTH)
    return;
  context_at(s, ss->at_stage, depth + 1, &consumer);
  inside =
      ss->at_loop < 0 ? 0 : position(&s->stages[ss->at_stage], ss->at_loop) + 1;
  tt_cover_none(&consumer, &cover);
  for (int i = consumer.n - 1; i >= inside; i--)
    tt_cover_add(&consumer, &cover, &consumer.loops[i]);
  c->outer = consumer.outer;
  for (int i = 0; i < inside; i++)
    c->outer *= consumer.loops[i].extent;
  for (int a = 0; a < ss->stage->nspatial && a < TT_CTX_AXES; a++) {
    float need = 0;
    for (int j = 0; j < consumer.naccesses; j++) {
      const struct tt_ctx_access *r = &consumer.accesses[j];
      struct tt_ctx_access one = {.tensor = r->tensor, .ndim = 1};
      float run;
      if (r->write || r->tensor != ss->stage->out)
        continue;
      one.index[0] = r->index[a];
      need = fmaxf(need, tt_ctx_touched(&consumer, &one, &cover, &run));
    }
    if (need >= 1) /* 0: read by another stage inside the loop */
      c->axis[a] = fminf(c->axis[a], need);
  }
}

static void
context_at(const struct tt_schedule *s, int stage, int depth,
           struct tt_context *c)
{
  const struct tt_stage *st = s->stages[stage].stage;

  c->ss = &s->stages[stage];
  c->outer = 1;
  c->naccesses = 0;
  c->naxes = 0;
  memset(&c->ops, 0, sizeof c->ops);
  for (int i = 0; i < st->nspatial && c->naxes < TT_CTX_AXES; i++)
    c->axis[c->naxes++] = (float)st->spatial[i]->extent;
  for (int i = 0; i < st->nreduce && c->naxes < TT_CTX_AXES; i++)
    c->axis[c->naxes++] = (float)st->reduce[i]->extent;
  find_region(s, depth, c);
  build_loops(c);
  collect_stage(c);
  find_caches(c);
}

void
tt_context(const struct tt_schedule *s, int stage, struct tt_context *c)
{
  context_at(s, stage, 0, c);
}

/* ---- what is touched --------------------------------------------------- */

void
tt_cover_none(const struct tt_context *c, struct tt_ctx_cover *cover)
{
  for (int a = 0; a < c->naxes; a++)
    cover->width[a] = cover->count[a] = 1;
}

void
tt_cover_add(const struct tt_context *c, struct tt_ctx_cover *cover,
             const struct tt_ctx_loop *l)
{
  for (int i = 0; i < l->nparts; i++) {
    int a = l->parts[i].axis;
    cover->width[a] =
        fminf(c->axis[a],
              cover->width[a] + (l->parts[i].count - 1) * l->parts[i].step);
    cover->count[a] = fminf(c->axis[a], cover->count[a] * l->parts[i].count);
  }
}

float
tt_ctx_touched(const struct tt_context *c, const struct tt_ctx_access *x,
               const struct tt_ctx_cover *cover, float *run)
{
  float total = 1, span, points, n;

  *run = 1;
  for (int d = 0; d < x->ndim; d++) {
    const struct tt_ctx_index *ix = &x->index[d];
    span = ix->hi - ix->lo;
    points = span + 1;
    for (int a = 0; a < c->naxes; a++)
      if (ix->coef[a] != 0) {
        span += fabsf(ix->coef[a]) * (cover->width[a] - 1);
        points *= cover->count[a];
      }
    n = fminf(fminf(span + 1, points), ix->cap);
    n = fmaxf(n, 1);
    total *= n;
    *run = n;
  }
  return total;
}

/* Strides of a cache: by the loops of its layout, outermost first. */
static float
layout_stride(const struct tt_context *c, const struct tt_cache_read *cache,
              int handle)
{
  float stride = 1;

  for (int i = cache->nlayout - 1; i >= 0; i--) {
    if (cache->layout[i] == handle)
      return stride;
    for (int j = 0; j < c->n; j++)
      if (c->loops[j].handle == cache->layout[i])
        stride *= c->loops[j].extent;
  }
  return 0;
}

float
tt_ctx_stride(const struct tt_context *c, const struct tt_ctx_access *x,
              const struct tt_ctx_loop *l, bool cached)
{
  float stride = 0, row = 1;

  if (cached && x->cache != NULL && x->cache->nlayout > 0)
    return layout_stride(c, x->cache, l->handle);
  if (l->nparts == 0)
    return 0;
  for (int d = x->ndim - 1; d >= 0; d--) {
    stride += row * x->index[d].coef[l->parts[0].axis] * l->parts[0].step;
    row *= (float)x->tensor->dims[d];
  }
  return stride;
}

/* ---- code -------------------------------------------------------------- */

/* Nests that a loop of that many iterations becomes. */
static float
pieces(const struct tt_stage_schedule *ss, int loop, int64_t extent)
{
  const struct tt_loop *l = &ss->loops[loop], *inner;
  float n = 0;

  if (l->child[0] < 0 || ss->loops[l->child[0]].node == TT_FUSED)
    return 1;
  inner = &ss->loops[l->child[1]];
  if (extent < inner->factor)
    return pieces(ss, l->child[1], extent);
  n = pieces(ss, l->child[0], extent / inner->factor) *
      pieces(ss, l->child[1], inner->factor);
  if (extent % inner->factor != 0 && inner->tail == TT_TAIL_PEEL)
    n += pieces(ss, l->child[1], extent % inner->factor);
  return n;
}

float
tt_ctx_copies(const struct tt_context *c)
{
  const struct tt_stage_schedule *ss = c->ss;
  float n = 1, lanes;

  for (int i = 0; i < c->n; i++) {
    lanes = c->loops[i].lanes > 0 ? (float)c->loops[i].lanes : 1;
    if (c->loops[i].kind == TT_UNROLL)
      n *= c->loops[i].extent;
    else if (c->loops[i].kind == TT_VECTOR)
      n *= ceilf(c->loops[i].extent / lanes);
  }
  for (int i = 0; i < ss->nloops; i++)
    if (ss->loops[i].node == TT_AXIS)
      n *= pieces(ss, i, ss->loops[i].extent);
  return n;
}
