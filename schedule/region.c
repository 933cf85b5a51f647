/* Bounds of what is read in the loops not entered yet: how large a cache, a
 * computed-at stage or an accumulator must be, and where it starts.
 *
 * Extents are constants, bases are expressions over the loops entered.  What
 * cannot be bounded that way is the whole dimension: larger, never wrong.
 */
#include "config.h"

#include "schedule/lower.h"

#include "ir/passes.h"

static int64_t
min64(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static int64_t
max64(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

/* ---- loops ------------------------------------------------------------- */

int64_t
tt_max_extent(const struct tt_inst *in, int loop)
{
  const struct tt_loop *l = &in->ss->loops[loop];
  switch (l->node) {
  case TT_AXIS:
    return l->reduce ? l->axis->extent
                     : in->region[loop]; /* axes are the first loops */
  case TT_SPLIT_OUTER:
    if (in->extent[loop])
      return in->extent[loop];
    return (tt_max_extent(in, l->parent) + l->factor - 1) / l->factor;
  case TT_SPLIT_INNER:
    if (in->extent[loop])
      return in->extent[loop];
    return min64(l->factor, tt_max_extent(in, l->parent));
  case TT_FUSED:
    return tt_max_extent(in, l->fused_outer) *
           tt_max_extent(in, l->fused_inner);
  }
  return 1;
}

/* First value of the part of split `loop` (its outer half `o`, already with
 * the piece's start added) in units of its parent. */
static const struct tt_expr *
split_start(const struct tt_inst *in, int o, const struct tt_expr *outer)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_loop *l = &in->ss->loops[o];
  const struct tt_expr *start = tt_imul(ar, outer, l->factor);
  int64_t whole = tt_max_extent(in, l->parent);
  if (l->tail == TT_TAIL_SHIFT && whole % l->factor && whole > l->factor)
    start = tt_imin(ar, start, tt_idx(ar, whole - l->factor));
  return start;
}

const struct tt_expr *
tt_loop_value(const struct tt_inst *in, int loop)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_loop *l = &in->ss->loops[loop];
  int c = l->child[0];
  if (c < 0)
    return in->val[loop] ? in->val[loop] : tt_idx(ar, 0);
  const struct tt_loop *k = &in->ss->loops[c];
  if (k->node == TT_FUSED) {
    const struct tt_expr *f = tt_loop_value(in, c);
    int64_t n = tt_max_extent(in, k->fused_inner);
    return k->fused_outer == loop ? tt_idiv(ar, f, n) : tt_imod(ar, f, n);
  }
  const struct tt_expr *outer =
      tt_iadd(ar, tt_loop_value(in, c), tt_idx(ar, in->lo[c]));
  return tt_iadd(ar, split_start(in, c, outer), tt_loop_value(in, l->child[1]));
}

static struct tt_range
exact(const struct tt_expr *e)
{
  return (struct tt_range){true, e, 1};
}

static const struct tt_range unknown = {false, NULL, 0};

/* base mod c, when every term but a constant is a multiple of c; else -1. */
static int64_t
residue(struct tt_arena *ar, const struct tt_expr *base, int64_t c)
{
  struct tt_affine a = tt_affine_of(ar, base);
  for (int i = 0; i < a.n; i++)
    if (a.coef[i] % c)
      return -1;
  return tt_floormod(a.c0, c);
}

static struct tt_range
div_range(struct tt_arena *ar, struct tt_range a, int64_t c)
{
  if (!a.ok || c <= 0)
    return unknown;
  if (a.extent == 1)
    return exact(tt_idiv(ar, a.base, c));
  int64_t r = residue(ar, a.base, c);
  if (r >= 0)
    return (struct tt_range){true, tt_idiv(ar, a.base, c),
                             (r + a.extent - 1) / c + 1};
  return (struct tt_range){true, tt_idiv(ar, a.base, c),
                           (a.extent - 1 + c - 1) / c + 1};
}

static struct tt_range
mod_range(struct tt_arena *ar, struct tt_range a, int64_t c)
{
  if (!a.ok || c <= 0)
    return unknown;
  if (a.extent == 1)
    return exact(tt_imod(ar, a.base, c));
  int64_t r = residue(ar, a.base, c);
  if (r >= 0 && r + a.extent <= c)
    return (struct tt_range){true, tt_idx(ar, r), a.extent};
  return (struct tt_range){true, tt_idx(ar, 0), c};
}

struct tt_range
tt_loop_range(const struct tt_inst *in, int loop)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_loop *l = &in->ss->loops[loop];
  int c = l->child[0];
  if (c < 0) {
    if (in->val[loop])
      return exact(in->val[loop]);
    return (struct tt_range){true, tt_idx(ar, 0), tt_max_extent(in, loop)};
  }
  const struct tt_loop *k = &in->ss->loops[c];
  if (k->node == TT_FUSED) {
    struct tt_range f = tt_loop_range(in, c);
    int64_t n = tt_max_extent(in, k->fused_inner);
    if (k->fused_outer == loop)
      f = div_range(ar, f, n);
    else
      f = mod_range(ar, f, n);
    f.extent = min64(f.extent, tt_max_extent(in, loop));
    return f;
  }
  if (!in->extent[c]) /* no piece chosen: nothing below was entered */
    return (struct tt_range){true, tt_idx(ar, 0), tt_max_extent(in, loop)};
  struct tt_range o = tt_loop_range(in, c), i = tt_loop_range(in, l->child[1]);
  if (!o.ok || !i.ok)
    return unknown;
  int64_t whole = tt_max_extent(in, loop);
  const struct tt_expr *outer = tt_iadd(ar, o.base, tt_idx(ar, in->lo[c]));
  bool shifts =
      k->tail == TT_TAIL_SHIFT && whole % k->factor && whole > k->factor;
  if (shifts && o.extent > 1)
    return (struct tt_range){true, tt_idx(ar, 0), whole};
  return (struct tt_range){true, tt_iadd(ar, split_start(in, c, outer), i.base),
                           min64(whole, (o.extent - 1) * k->factor + i.extent)};
}

/* ---- index expressions ------------------------------------------------- */

/* Ranges of variables: the axes of an instance, or of a stage computed inside
 * it whose region is known but which is not lowered yet. */
struct axes {
  const struct tt_inst *in; /* NULL: use `range` */
  const struct tt_stage *stage;
  struct tt_range range[TT_MAX_DIMS];
};

static struct tt_range
var_range(const struct axes *ax, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct tt_stage *st = ax->stage;
  int n = st->nspatial + st->nreduce;
  for (int i = 0; i < n; i++) {
    const struct tt_var *v =
        i < st->nspatial ? st->spatial[i] : st->reduce[i - st->nspatial];
    if (v != e->var)
      continue;
    if (!ax->in) {
      if (i < st->nspatial)
        return ax->range[i];
      return (struct tt_range){true, tt_idx(ar, 0), v->extent};
    }
    struct tt_range r = tt_loop_range(ax->in, i);
    if (r.ok && i < st->nspatial)
      r.base = tt_iadd(ar, ax->in->base[i], r.base);
    return r;
  }
  return exact(e); /* a loop entered further out */
}

static struct tt_range index_range(const struct axes *, struct tt_arena *,
                                   const struct tt_expr *);

static struct tt_range
binary_range(const struct axes *ax, struct tt_arena *ar,
             const struct tt_expr *e)
{
  struct tt_range a = index_range(ax, ar, e->a), b = index_range(ax, ar, e->b);
  if (!a.ok || !b.ok)
    return unknown;
  bool cb = e->b->kind == TT_INT, ca = e->a->kind == TT_INT;
  switch (e->op) {
  case TT_ADD:
    return (struct tt_range){true, tt_iadd(ar, a.base, b.base),
                             a.extent + b.extent - 1};
  case TT_SUB:
    return (struct tt_range){
        true,
        tt_isub(ar, tt_isub(ar, a.base, b.base), tt_idx(ar, b.extent - 1)),
        a.extent + b.extent - 1};
  case TT_MUL: {
    if (!ca && !cb)
      return a.extent == 1 && b.extent == 1
                 ? exact(tt_binary(ar, TT_MUL, a.base, b.base))
                 : unknown;
    int64_t c = cb ? e->b->ival : e->a->ival;
    struct tt_range x = cb ? a : b;
    const struct tt_expr *base = tt_imul(ar, x.base, c);
    if (c < 0)
      base = tt_iadd(ar, base, tt_idx(ar, c * (x.extent - 1)));
    return (struct tt_range){true, base, (c < 0 ? -c : c) * (x.extent - 1) + 1};
  }
  case TT_DIV:
    return cb ? div_range(ar, a, e->b->ival) : unknown;
  case TT_MOD:
    return cb ? mod_range(ar, a, e->b->ival) : unknown;
  case TT_MIN:
    return (struct tt_range){true, tt_imin(ar, a.base, b.base),
                             max64(a.extent, b.extent)};
  case TT_MAX:
    return (struct tt_range){true, tt_imax(ar, a.base, b.base),
                             max64(a.extent, b.extent)};
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
  case TT_NBINOPS:
    break;
  }
  return unknown;
}

static struct tt_range
index_range(const struct axes *ax, struct tt_arena *ar, const struct tt_expr *e)
{
  switch (e->kind) {
  case TT_INT:
    return exact(e);
  case TT_VAR:
    return var_range(ax, ar, e);
  case TT_NEG: {
    struct tt_range a = index_range(ax, ar, e->a);
    if (!a.ok)
      return unknown;
    return (struct tt_range){
        true, tt_isub(ar, tt_idx(ar, 1 - a.extent), a.base), a.extent};
  }
  case TT_BINARY:
    return e->type.dtype == TT_I64 ? binary_range(ax, ar, e) : unknown;
  case TT_FLT:
  case TT_LOAD:
  case TT_NOT:
  case TT_CAST:
  case TT_SAT:
  case TT_SELECT:
  case TT_CALL:
  case TT_RAMP:
  case TT_BROADCAST:
    break;
  }
  return unknown;
}

/* ---- regions of tensors ------------------------------------------------ */

/* Ranges further apart have no useful hull. */
#define MAX_APART (INT64_C(1) << 32)

struct region {
  int ndim;
  bool any;
  struct tt_range dim[TT_MAX_DIMS];
};

/* The hull of two ranges whose starts are a bounded distance apart. */
static struct tt_range
join(struct tt_arena *ar, struct tt_range a, struct tt_range b)
{
  if (!a.ok || !b.ok)
    return unknown;
  int64_t d;
  struct tt_interval apart;
  if (tt_const_difference(ar, b.base, a.base, &d))
    apart = (struct tt_interval){true, d, d};
  else
    apart = tt_bounds(tt_isub(ar, b.base, a.base), NULL);
  if (!apart.ok || apart.lo < -MAX_APART || apart.hi > MAX_APART)
    return unknown;
  const struct tt_expr *base = apart.lo >= 0   ? a.base
                               : apart.hi <= 0 ? b.base
                                               : tt_imin(ar, a.base, b.base);
  return (struct tt_range){
      true, base,
      max64(a.extent + max64(0, -apart.lo), b.extent + max64(0, apart.hi))};
}

struct collect {
  const struct axes *ax;
  struct tt_arena *ar;
  const struct tt_tensor *tensor;
  struct region *region;
};

static void
collect_load(void *ctx, const struct tt_expr *e)
{
  struct collect *c = ctx;
  if (e->kind != TT_LOAD || e->tensor != c->tensor)
    return;
  struct region *r = c->region;
  for (int d = 0; d < e->nargs; d++) {
    struct tt_range x = index_range(c->ax, c->ar, e->args[d]);
    r->dim[d] = r->any ? join(c->ar, r->dim[d], x) : x;
  }
  r->any = true;
}

/* Clip to the tensor: reads outside it are never evaluated. */
static void
clip(struct tt_arena *ar, const struct tt_tensor *t, struct region *r)
{
  for (int d = 0; d < t->ndim; d++) {
    struct tt_range *x = &r->dim[d];
    int64_t n = t->dims[d];
    if (!x->ok || x->extent >= n) {
      *x = (struct tt_range){true, tt_idx(ar, 0), n};
      continue;
    }
    x->base = tt_simplify(ar, x->base, NULL);
    struct tt_interval b = tt_bounds(x->base, NULL);
    if (!b.ok || b.lo < 0 || b.hi > n - x->extent)
      x->base = tt_imax(ar, tt_idx(ar, 0),
                        tt_imin(ar, x->base, tt_idx(ar, n - x->extent)));
  }
}

static bool
inside(const struct tt_schedule *s, int stage, int ancestor)
{
  while (stage != ancestor) {
    if (s->stages[stage].place != TT_AT)
      return false;
    stage = s->stages[stage].at_stage;
  }
  return true;
}

/* Bounds are rounded outward, and an inner place may round further than the
 * outer one did for which room was made: keep a region inside the limits set
 * further out.  Points that are really needed are inside both. */
static void
apply_limits(struct tt_arena *ar, const struct tt_limit *limit,
             const struct tt_tensor *t, struct region *r)
{
  if (!limit)
    return;
  apply_limits(ar, limit->outer, t, r); /* outermost first */
  if (limit->tensor != t)
    return;
  for (int d = 0; d < t->ndim; d++) {
    struct tt_range *x = &r->dim[d];
    struct tt_range l = limit->dim[d];
    int64_t diff;
    if (x->extent >= l.extent)
      *x = l;
    else if (!tt_const_difference(ar, x->base, l.base, &diff) || diff < 0 ||
             diff > l.extent - x->extent)
      x->base = tt_imax(
          ar, l.base,
          tt_imin(ar, x->base,
                  tt_iadd(ar, l.base, tt_idx(ar, l.extent - x->extent))));
  }
}

/* The region of `tensor` that is needed inside `in`, over all readers there,
 * as ranges; readers computed inside it need their own regions first, and are
 * held to them when their turn comes. */
static void
required(const struct tt_inst *in, const struct tt_tensor *tensor,
         struct region *out)
{
  const struct tt_schedule *s = in->lw->s;
  struct tt_arena *ar = in->lw->arena;
  out->ndim = tensor->ndim;
  out->any = false;
  for (int i = 0; i <= in->index; i++) {
    const struct tt_stage_schedule *ss = &s->stages[i];
    if (ss->place == TT_INLINE || !tt_stage_reads(ss, tensor) ||
        !inside(s, i, in->index))
      continue;
    struct axes ax = {.stage = ss->stage};
    if (i == in->index) {
      ax.in = in;
    } else {
      struct region r;
      required(in, ss->stage->out, &r);
      struct tt_limit *limit = TT_NEW(ar, struct tt_limit);
      limit->tensor = ss->stage->out;
      limit->outer = in->lw->limits;
      for (int d = 0; d < r.ndim; d++)
        ax.range[d] = limit->dim[d] = r.dim[d];
      in->lw->limits = limit;
    }
    struct collect c = {&ax, ar, tensor, out};
    tt_expr_visit(ss->value, collect_load, &c);
    if (ss->where)
      tt_expr_visit(ss->where, collect_load, &c);
  }
  clip(ar, tensor, out);
  apply_limits(ar, in->lw->limits, tensor, out);
}

void
tt_required_region(const struct tt_inst *in, const struct tt_tensor *tensor,
                   const struct tt_expr **base, int64_t *extent)
{
  struct region r;
  required(in, tensor, &r);
  for (int d = 0; d < tensor->ndim; d++) {
    base[d] = r.dim[d].base;
    extent[d] = r.dim[d].extent;
  }
}

static const struct tt_binding *
binding_of(const struct tt_lowering *lw, const struct tt_tensor *tensor)
{
  const struct tt_binding *b = lw->bindings;
  while (b && b->tensor != tensor)
    b = b->outer;
  return b;
}

/* A tensor that is computed in part is read in that part alone. */
static void
hold_to_binding(const struct tt_inst *in, const struct tt_tensor *tensor,
                struct region *r)
{
  const struct tt_binding *b = binding_of(in->lw, tensor);
  if (!b)
    return;
  struct tt_limit part = {.tensor = tensor};
  for (int d = 0; d < tensor->ndim; d++)
    part.dim[d] = (struct tt_range){
        true, b->base[d] ? b->base[d] : tt_idx(in->lw->arena, 0),
        b->local->dims[d]};
  apply_limits(in->lw->arena, &part, tensor, r);
}

bool
tt_own_region(const struct tt_inst *in, const struct tt_tensor *tensor,
              bool clipped, const struct tt_expr **base, int64_t *extent)
{
  struct tt_arena *ar = in->lw->arena;
  struct region r = {.ndim = tensor->ndim};
  struct axes ax = {.in = in, .stage = in->ss->stage};
  struct collect c = {&ax, ar, tensor, &r};
  tt_expr_visit(in->ss->value, collect_load, &c);
  if (in->ss->where)
    tt_expr_visit(in->ss->where, collect_load, &c);
  if (clipped) {
    clip(ar, tensor, &r);
    hold_to_binding(in, tensor, &r);
  } else if (binding_of(in->lw, tensor)) {
    return false; /* a part of a tensor has no border */
  }
  for (int d = 0; d < tensor->ndim; d++) {
    if (!r.dim[d].ok)
      return false;
    base[d] = r.dim[d].base;
    extent[d] = r.dim[d].extent;
  }
  return true;
}
