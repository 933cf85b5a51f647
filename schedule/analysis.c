/* Accesses, work, and packing of operands. */
#include "config.h"

#include "schedule/analysis.h"

#include "ir/passes.h"
#include "schedule/state.h"

/* A packed block larger than this is no cache. */
#define MAX_PACK_BYTES (INT64_C(32) << 20)
#define MAX_AHEAD_BYTES (INT64_C(1) << 30) /* weights, laid out ahead */

struct collecting {
  struct tt_arena *ar;
  const struct tt_stage *stage;
  struct tt_access *out;
  int n;
};

static const struct tt_var *
axis_var(const struct tt_stage *st, int axis)
{
  return axis < st->nspatial ? st->spatial[axis]
                             : st->reduce[axis - st->nspatial];
}

static void
measure(struct collecting *c, struct tt_access *a)
{
  int naxes = c->stage->nspatial + c->stage->nreduce;
  a->affine = true;
  for (int d = 0; d < a->load->nargs; d++) {
    int64_t step = tt_tensor_stride(a->tensor, d);
    for (int x = 0; x < naxes; x++) {
      const struct tt_var *v = axis_var(c->stage, x);
      int64_t coef = 0;
      if (!tt_affine_coef(c->ar, a->load->args[d], v, &coef)) {
        a->affine = false;
        a->stride[x] = INT64_MAX;
      } else if (a->stride[x] != INT64_MAX) {
        a->stride[x] += coef * step;
      }
    }
  }
}

static void
collect(void *ctx, const struct tt_expr *e)
{
  struct collecting *c = ctx;
  if (e->kind != TT_LOAD || c->n == TT_MAX_ACCESSES)
    return;
  bool several = false;
  for (int i = 0; i < c->n; i++) {
    if (c->out[i].tensor != e->tensor)
      continue;
    if (tt_expr_equal(c->out[i].load, e))
      return;
    c->out[i].several = several = true;
  }
  struct tt_access *a = &c->out[c->n++];
  *a = (struct tt_access){.tensor = e->tensor, .load = e, .several = several};
  measure(c, a);
}

int
tt_accesses(struct tt_arena *ar, const struct tt_stage *stage,
            const struct tt_expr *e, struct tt_access *out)
{
  struct collecting c = {ar, stage, out, 0};
  tt_expr_visit(e, collect, &c);
  return c.n;
}

static void
widest(void *ctx, const struct tt_expr *e)
{
  int *bytes = ctx;
  /* Indices are i64 but stay scalar. */
  if (e->type.dtype == TT_I64 && (e->kind == TT_VAR || e->kind == TT_INT))
    return;
  if (e->kind == TT_BINARY && e->type.dtype == TT_I64 &&
      (e->a->kind == TT_VAR || e->b->kind == TT_INT))
    return;
  int b = tt_dtype_bytes(e->type.dtype);
  if (b > *bytes)
    *bytes = b;
}

int
tt_widest_type(const struct tt_stage *st)
{
  int bytes = tt_dtype_bytes(st->out->dtype);
  /* 16-bit floats are computed in f32. */
  if (tt_dtype_is_float(st->out->dtype) && bytes < 4)
    bytes = 4;
  struct tt_access acc[TT_MAX_ACCESSES];
  struct tt_arena *scratch = tt_arena_new();
  int n = tt_accesses(scratch, st, st->value, acc);
  for (int i = 0; i < n; i++)
    widest(&bytes, acc[i].load);
  tt_arena_free(scratch);
  return bytes;
}

struct pointwise {
  const struct tt_stage *stage;
  const struct tt_tensor *tensor;
  bool ok;
};

static void
check_point(void *ctx, const struct tt_expr *e)
{
  struct pointwise *p = ctx;
  if (e->kind != TT_LOAD || e->tensor != p->tensor)
    return;
  if (e->nargs != p->stage->nspatial)
    p->ok = false;
  for (int d = 0; d < e->nargs && p->ok; d++)
    p->ok = p->stage->out->dims[d] == p->tensor->dims[d] &&
            (tt_is_int(e->args[d], 0)
                 ? p->tensor->dims[d] == 1
                 : e->args[d]->kind == TT_VAR &&
                       e->args[d]->var == p->stage->spatial[d]);
}

bool
tt_reads_pointwise(const struct tt_stage *st, const struct tt_tensor *tensor)
{
  struct pointwise p = {st, tensor, true};
  tt_expr_visit(st->value, check_point, &p);
  if (st->where)
    tt_expr_visit(st->where, check_point, &p);
  return p.ok;
}

struct smooth {
  struct tt_arena *ar;
  const struct tt_var *var;
  bool borders; /* clamps and conditions that the interior is free of pass */
};

static bool smooth(struct smooth *s, const struct tt_expr *e);

static bool
smooth_index(struct smooth *s, const struct tt_expr *e)
{
  int64_t coef;
  if (tt_affine_coef(s->ar, e, s->var, &coef))
    return true;
  return s->borders && e->kind == TT_BINARY &&
         (e->op == TT_MIN || e->op == TT_MAX || e->op == TT_ADD ||
          e->op == TT_SUB) &&
         smooth_index(s, e->a) && smooth_index(s, e->b);
}

static bool
smooth_load(struct smooth *s, const struct tt_expr *e)
{
  for (int d = 0; d < e->nargs; d++)
    if (!smooth_index(s, e->args[d]))
      return false;
  return true;
}

static bool
smooth_condition(struct smooth *s, const struct tt_expr *c)
{
  if (!tt_expr_uses_var(c, s->var))
    return true;
  if (!s->borders || c->kind != TT_BINARY)
    return false;
  if (c->op == TT_AND || c->op == TT_OR)
    return smooth_condition(s, c->a) && smooth_condition(s, c->b);
  return c->a->type.dtype == TT_I64 && c->op != TT_EQ && c->op != TT_NE &&
         smooth_index(s, c->a) && smooth_index(s, c->b);
}

static bool
smooth(struct smooth *s, const struct tt_expr *e)
{
  if (!tt_expr_uses_var(e, s->var))
    return true;
  if (e->kind == TT_LOAD)
    return smooth_load(s, e);
  if (e->kind == TT_SELECT) {
    if (e->a->kind == TT_LOAD && tt_padding_value(s->ar, e, e->a->tensor))
      return smooth_load(s, e->a);
    if (!smooth_condition(s, e->c))
      return false;
  }
  for (int i = 0; i < e->nargs; i++)
    if (!smooth(s, e->args[i]))
      return false;
  return (!e->a || smooth(s, e->a)) && (!e->b || smooth(s, e->b));
}

bool
tt_vectorizes(struct tt_arena *ar, const struct tt_stage *st,
              const struct tt_expr *value, const struct tt_expr *where,
              int axis, bool borders)
{
  struct smooth s = {ar, axis_var(st, axis), borders};
  return smooth(&s, value) && (!where || smooth_condition(&s, where));
}

static void
count(void *ctx, const struct tt_expr *e)
{
  double *n = ctx;
  *n += e->kind == TT_CALL ? 10 : e->kind == TT_LOAD ? 1 : 0.25;
}

double
tt_stage_work(const struct tt_stage *st)
{
  double ops = 1, points = (double)tt_tensor_size(st->out);
  tt_expr_visit(st->value, count, &ops);
  for (int i = 0; i < st->nreduce; i++)
    points *= (double)st->reduce[i]->extent;
  return points * ops;
}

static bool
depends(const struct tt_stage_schedule *ss, int loop,
        const struct tt_expr *load)
{
  int naxes = ss->stage->nspatial + ss->stage->nreduce;
  for (int a = 0; a < naxes; a++)
    if (tt_loop_uses_axis(ss, loop, ss->loops[a].axis) &&
        tt_expr_uses_var(load, ss->loops[a].axis))
      return true;
  return false;
}

bool
tt_pack_operand(struct tt_schedule *s, int stage,
                const struct tt_tensor *tensor, const int *order, int n,
                int inner, bool ahead, int lanes)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  struct tt_access acc[TT_MAX_ACCESSES];
  int nacc = tt_accesses(s->arena, ss->stage, ss->value, acc), which = -1;
  for (int i = 0; i < nacc; i++)
    if (acc[i].tensor == tensor)
      which = i;
  if (which < 0 || acc[which].several)
    return tt_refuse(s, "%s is not read in one way", tensor->name);
  int at = -1, layout[TT_MAX_DIMS], k = 0;
  for (int i = 0; i < inner && !ahead; i++)
    if (depends(ss, order[i], acc[which].load))
      at = i;
  int64_t bytes = tt_dtype_bytes(tensor->dtype);
  for (int i = at + 1; i < n; i++)
    if (depends(ss, order[i], acc[which].load)) {
      if (k == TT_MAX_DIMS)
        return tt_refuse(s, "too many dimensions to pack %s", tensor->name);
      layout[k++] = order[i];
      bytes *= ss->loops[order[i]].extent;
      if (bytes > (ahead ? MAX_AHEAD_BYTES : MAX_PACK_BYTES))
        return tt_refuse(s, "a packed block of %s would be too large",
                         tensor->name);
    }
  if (!k)
    return tt_refuse(s, "nothing of %s to pack", tensor->name);
  /* Stride of the last loop: that of its axis, for the inner part of a
   * split. */
  const struct tt_loop *last = &ss->loops[layout[k - 1]];
  int axis = layout[k - 1];
  while (ss->loops[axis].node != TT_AXIS)
    axis = ss->loops[axis].node == TT_FUSED ? ss->loops[axis].fused_inner
                                            : ss->loops[axis].parent;
  bool unit = (last->node == TT_SPLIT_INNER || last->node == TT_AXIS) &&
              acc[which].stride[axis] == 1;
  const char *name = tt_arena_printf(s->arena, "%s_p", tensor->name);
  return tt_cache_read(s, stage, tensor, at < 0 ? TT_OUTSIDE : order[at], k,
                       layout, unit ? lanes : 0, name);
}
