/* Programs: builders and facts about stages, tensors and reductions.
 *
 * Invariant: tensors[i]->id == i, stages[i]->id == i, and the ids of the
 * variables made by tt_program_var() are 0 .. nvars-1.
 */
#include "config.h"

#include "ir/ir.h"

#include <assert.h>
#include <math.h>
#include <string.h>

struct tt_program *
tt_program_new(struct tt_arena *arena, const char *name)
{
  struct tt_program *p = TT_NEW(arena, struct tt_program);
  p->arena = arena;
  p->name = tt_arena_strdup(arena, name);
  return p;
}

/* `items` with room for one more after `n`: capacities are powers of two, so
 * that no field is needed to know them. */
static void *
grown(struct tt_arena *arena, void *items, int n, size_t size)
{
  if (n != 0 && (n < 8 || (n & (n - 1)) != 0))
    return items;
  void *bigger = tt_arena_array(arena, n ? 2 * (size_t)n : 8, size);
  if (n)
    memcpy(bigger, items, (size_t)n * size);
  return bigger;
}

void
tt_program_intrin(struct tt_program *p, const struct tt_intrin *in)
{
  const struct tt_intrin **all =
      grown(p->arena, (void *)p->intrins, p->nintrins, sizeof *all);
  all[p->nintrins++] = in;
  p->intrins = all;
}

struct tt_tensor *
tt_program_tensor(struct tt_program *p, const char *name, enum tt_role role,
                  enum tt_dtype dtype, int ndim, const int64_t *dims)
{
  assert(ndim >= 0 && ndim <= TT_MAX_DIMS);
  struct tt_tensor *t = TT_NEW(p->arena, struct tt_tensor);
  t->name = tt_arena_strdup(p->arena, name);
  t->dtype = dtype;
  t->role = role;
  t->ndim = ndim;
  for (int i = 0; i < ndim; i++)
    t->dims[i] = dims[i];
  t->id = p->ntensors;
  p->tensors = grown(p->arena, p->tensors, p->ntensors, sizeof *p->tensors);
  p->tensors[p->ntensors++] = t;
  return t;
}

const struct tt_var *
tt_program_var(struct tt_program *p, const char *name, int64_t extent)
{
  assert(extent >= 1);
  struct tt_var *v = TT_NEW(p->arena, struct tt_var);
  v->name = tt_arena_strdup(p->arena, name);
  v->extent = extent;
  v->id = p->nvars++;
  return v;
}

struct tt_stage *
tt_program_stage(struct tt_program *p, struct tt_tensor *out,
                 const struct tt_var *const *spatial, enum tt_red red,
                 int nreduce, const struct tt_var *const *reduce,
                 const struct tt_expr *value, const struct tt_expr *where)
{
  struct tt_stage *s = TT_NEW(p->arena, struct tt_stage);
  s->out = out;
  s->nspatial = out->ndim;
  s->spatial =
      tt_arena_dup(p->arena, spatial, (size_t)out->ndim * sizeof *spatial);
  s->red = red;
  s->nreduce = nreduce;
  s->reduce = tt_arena_dup(p->arena, reduce, (size_t)nreduce * sizeof *reduce);
  s->value = value;
  s->where = where;
  s->id = p->nstages;
  p->stages = grown(p->arena, p->stages, p->nstages, sizeof *p->stages);
  p->stages[p->nstages++] = s;
  return s;
}

int64_t
tt_tensor_size(const struct tt_tensor *t)
{
  return t->ndim ? t->dims[0] * tt_tensor_stride(t, 0) : 1;
}

int64_t
tt_tensor_stride(const struct tt_tensor *t, int dim)
{
  int64_t stride = 1;
  for (int i = dim + 1; i < t->ndim; i++)
    stride *= t->dims[i];
  return stride;
}

struct tt_stage *
tt_stage_of(const struct tt_program *p, const struct tt_tensor *t)
{
  for (int i = 0; i < p->nstages; i++)
    if (p->stages[i]->out == t)
      return p->stages[i];
  return NULL;
}

/* ---- reductions -------------------------------------------------------- */

const char *
tt_red_name(enum tt_red red)
{
  switch (red) {
  case TT_RED_NONE:
    return "none";
  case TT_RED_SUM:
    return "sum";
  case TT_RED_PROD:
    return "prod";
  case TT_RED_MIN:
    return "min";
  case TT_RED_MAX:
    return "max";
  case TT_RED_ANY:
    return "any";
  case TT_RED_ALL:
    return "all";
  }
  return "?";
}

static const struct tt_expr *
number(struct tt_arena *arena, enum tt_dtype t, int64_t v)
{
  return tt_dtype_is_float(t) ? tt_flt(arena, t, (double)v)
                              : tt_int(arena, t, v);
}

const struct tt_expr *
tt_red_identity(struct tt_arena *arena, enum tt_red red, enum tt_dtype t)
{
  bool is_float = tt_dtype_is_float(t);
  switch (red) {
  case TT_RED_NONE:
  case TT_RED_SUM:
    return number(arena, t, 0);
  case TT_RED_PROD:
    return number(arena, t, 1);
  case TT_RED_MIN:
    return is_float ? tt_flt(arena, t, INFINITY)
                    : tt_int(arena, t, tt_dtype_max(t));
  case TT_RED_MAX:
    return is_float ? tt_flt(arena, t, -INFINITY)
                    : tt_int(arena, t, tt_dtype_min(t));
  case TT_RED_ANY:
    return tt_bool(arena, false);
  case TT_RED_ALL:
    return tt_bool(arena, true);
  }
  return NULL;
}

const struct tt_expr *
tt_red_combine(struct tt_arena *arena, enum tt_red red,
               const struct tt_expr *acc, const struct tt_expr *x)
{
  switch (red) {
  case TT_RED_NONE:
    return x;
  case TT_RED_SUM:
    return tt_binary(arena, TT_ADD, acc, x);
  case TT_RED_PROD:
    return tt_binary(arena, TT_MUL, acc, x);
  case TT_RED_MIN:
    return tt_binary(arena, TT_MIN, acc, x);
  case TT_RED_MAX:
    return tt_binary(arena, TT_MAX, acc, x);
  case TT_RED_ANY:
    return tt_binary(arena, TT_OR, acc, x);
  case TT_RED_ALL:
    return tt_binary(arena, TT_AND, acc, x);
  }
  return NULL;
}

/* ---- operations -------------------------------------------------------- */

static bool
is_arithmetic(const struct tt_expr *e)
{
  if (e->kind == TT_CALL)
    return true;
  if (e->kind != TT_BINARY)
    return false;
  switch (e->op) {
  case TT_ADD:
  case TT_SUB:
  case TT_MUL:
  case TT_DIV:
  case TT_MOD:
  case TT_MIN:
  case TT_MAX:
    return true;
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
    return false;
  }
  return false;
}

/* Count operations on values: those with a load below them, since arithmetic
 * on indices alone is not the program's work.  Returns whether there is. */
static bool
count_ops(const struct tt_expr *e, double *ops)
{
  if (!e)
    return false;
  if (e->kind == TT_LOAD)
    return true;
  bool loads = false;
  for (int i = 0; i < e->nargs; i++)
    loads |= count_ops(e->args[i], ops);
  loads |= count_ops(e->a, ops);
  loads |= count_ops(e->b, ops);
  loads |= count_ops(e->c, ops);
  if (loads && is_arithmetic(e))
    *ops += 1;
  return loads;
}

double
tt_program_flops(const struct tt_program *p)
{
  double total = 0;
  for (int i = 0; i < p->nstages; i++) {
    const struct tt_stage *s = p->stages[i];
    double ops = s->red != TT_RED_NONE, points = 1;
    count_ops(s->value, &ops);
    for (int j = 0; j < s->nspatial; j++)
      points *= (double)s->spatial[j]->extent;
    for (int j = 0; j < s->nreduce; j++)
      points *= (double)s->reduce[j]->extent;
    total += ops * points;
  }
  return total;
}
