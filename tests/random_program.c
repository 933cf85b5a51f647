/* The generator of random programs.
 *
 * Stages are made one after the other from tensors that are there already or
 * are added as inputs when a stage wants one.  Of every float tensor the
 * generator knows a bound of its values and whether it is exact (not the result
 * of rounded arithmetic).
 */
#include "config.h"

#include "tests/random_program.h"

#include <stdio.h>
#include <string.h>

#include "ir/passes.h"

enum { MAX_TENSORS = 64, MAX_AXES = 8, STAGE_POINTS = 2500, POINTS = 14000 };

/* An expression with a bound of its absolute value (floats). */
struct val {
  const struct tt_expr *e;
  double mag;
  bool exact;
};

struct gen {
  struct tt_arena *arena;
  struct tt_program *program;
  uint64_t seed, calls;
  int64_t points; /* left to spend */
  bool frozen;    /* this stage reads weights and constants alone */
  int nspatial, nreduce, naxes;
  const struct tt_var *axes[MAX_AXES]; /* spatial, then reduction */
  bool allow_where;
  const struct tt_expr *where;
  double mag[MAX_TENSORS]; /* by tensor id */
  bool exact[MAX_TENSORS];
};

static int64_t
pick(struct gen *g, int64_t n)
{
  return (int64_t)(tt_random_bits(g->seed, 0x5eed, g->calls++) % (uint64_t)n);
}

static bool
chance(struct gen *g, int percent)
{
  return pick(g, 100) < percent;
}

static enum tt_dtype
any_dtype(struct gen *g)
{
  static const enum tt_dtype types[] = {TT_F32, TT_F32, TT_F32,  TT_F32, TT_F32,
                                        TT_F64, TT_F16, TT_BF16, TT_I8,  TT_I8,
                                        TT_U8,  TT_I16, TT_U16,  TT_I32, TT_I32,
                                        TT_I32, TT_U32, TT_I64,  TT_BOOL};
  return types[pick(g, 19)];
}

static int64_t
extent(struct gen *g)
{
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13};
  return sizes[pick(g, 11)];
}

/* ---- tensors
 * ---------------------------------------------------------------------- */

static struct tt_tensor *
add_tensor(struct gen *g, const char *prefix, enum tt_role role,
           enum tt_dtype t, int ndim, const int64_t *dims)
{
  char name[16];
  snprintf(name, sizeof name, "%s%d", prefix, g->program->ntensors);
  struct tt_tensor *r =
      tt_program_tensor(g->program, name, role, t, ndim, dims);
  g->mag[r->id] = 2;
  g->exact[r->id] = true;
  return r;
}

static void
fill_table(struct gen *g, struct tt_tensor *t)
{
  static const double floats[] = {0, 0, 1, 1, -1, 0.5, -0.5, 2, 0.25};
  size_t n = (size_t)tt_tensor_size(t);
  double *f = TT_ARRAY(g->arena, double, n);
  int64_t *i = TT_ARRAY(g->arena, int64_t, n);
  for (size_t k = 0; k < n; k++) {
    f[k] = floats[pick(g, 9)];
    i[k] = tt_wrap(t->dtype, pick(g, 9) - 3);
  }
  if (tt_dtype_is_float(t->dtype))
    t->fdata = f;
  else
    t->idata = i;
}

/* A new source of data: an input, a weight or a table. */
static struct tt_tensor *
add_source(struct gen *g, enum tt_dtype t, int ndim, const int64_t *dims)
{
  bool weight = g->frozen || chance(g, 12);
  struct tt_tensor *r;
  if (chance(g, 12)) {
    r = add_tensor(g, "T", TT_CONST, t, ndim, dims);
    fill_table(g, r);
    return r;
  }
  r = weight ? add_tensor(g, "W", TT_WEIGHT, t, ndim, dims)
             : add_tensor(g, "X", TT_INPUT, t, ndim, dims);
  if (tt_dtype_is_int(t) && chance(g, 30)) {
    r->has_range = true;
    r->lo = tt_dtype_is_signed(t) ? -pick(g, 5) : 0;
    r->hi = r->lo + 1 + pick(g, 100);
  }
  return r;
}

static struct tt_tensor *
add_any_source(struct gen *g, enum tt_dtype t)
{
  int64_t dims[3];
  int ndim = (int)pick(g, 4);
  for (int i = 0; i < ndim; i++)
    dims[i] = extent(g);
  return add_source(g, t, ndim, dims);
}

static bool
is_defined(const struct gen *g, const struct tt_tensor *t)
{
  return t->role == TT_INPUT || t->role == TT_WEIGHT || t->role == TT_CONST ||
         tt_stage_of(g->program, t);
}

static bool
is_frozen(const struct gen *g, const struct tt_tensor *t)
{
  const struct tt_stage *s = tt_stage_of(g->program, t);
  return t->role == TT_WEIGHT || t->role == TT_CONST || (s && s->prepare);
}

/* Something of this type to read: the later ones rather, to make chains. */
static struct tt_tensor *
source(struct gen *g, enum tt_dtype t, bool exact)
{
  int n = g->program->ntensors;
  for (int tries = 0; tries < 12; tries++) {
    int back =
        (int)(chance(g, 60) ? pick(g, n < 4 ? n + 1 : 4) : pick(g, n + 1));
    if (back >= n)
      break;
    struct tt_tensor *r = g->program->tensors[n - 1 - back];
    if (r->dtype == t && is_defined(g, r) && (!exact || g->exact[r->id]) &&
        (!g->frozen || is_frozen(g, r)))
      return r;
  }
  return n < MAX_TENSORS - 16 ? add_any_source(g, t) : NULL;
}

/* A result of an earlier stage, the later ones rather; NULL: none to be had. */
static struct tt_tensor *
recent(struct gen *g)
{
  int n = g->program->nstages;
  for (int tries = 0; tries < 3 && n > 0; tries++) {
    int back = (int)pick(g, chance(g, 70) && n > 2 ? 2 : n);
    struct tt_tensor *t = g->program->stages[n - 1 - back]->out;
    if (!g->frozen || is_frozen(g, t))
      return t;
  }
  return NULL;
}

/* ---- accesses
 * ----------------------------------------------------------------------- */

static const struct tt_var *
axis(struct gen *g)
{
  return g->axes[pick(g, g->naxes)];
}

static const struct tt_expr *
ref(struct gen *g, const struct tt_var *v)
{
  return tt_var_ref(g->arena, v);
}

static const struct tt_expr *
plus(struct gen *g, const struct tt_expr *a, int64_t c)
{
  return c < 0 ? tt_isub(g->arena, a, tt_idx(g->arena, -c))
               : tt_iadd(g->arena, a, tt_idx(g->arena, c));
}

static const struct tt_expr *
clamp(struct gen *g, const struct tt_expr *e, int64_t size)
{
  e = tt_imin(g->arena, e, tt_idx(g->arena, size - 1));
  return tt_imax(g->arena, e, tt_idx(g->arena, 0));
}

/* i64(ids[...]) in 0..size. */
static const struct tt_expr *
indirect(struct gen *g, int64_t size)
{
  const struct tt_var *v = axis(g);
  struct tt_tensor *ids = NULL;
  enum tt_dtype t = chance(g, 50) ? TT_I32 : TT_U8;
  for (int i = 0; i < g->program->ntensors && !ids; i++) {
    struct tt_tensor *r = g->program->tensors[i];
    if (r->role == (g->frozen ? TT_WEIGHT : TT_INPUT) && r->has_range &&
        r->lo >= 0 && r->hi <= size && r->ndim == 1 && r->dims[0] >= v->extent)
      ids = r;
  }
  if (!ids && g->program->ntensors >= MAX_TENSORS - 8)
    return tt_idx(g->arena, 0);
  if (!ids) {
    ids = g->frozen ? add_tensor(g, "W", TT_WEIGHT, t, 1, &v->extent)
                    : add_tensor(g, "X", TT_INPUT, t, 1, &v->extent);
    ids->has_range = true;
    ids->hi = size;
  }
  const struct tt_expr *at = ref(g, v);
  return tt_cast(g->arena, TT_I64, tt_load(g->arena, ids, 1, &at));
}

/* v*s + w*d - p, as in convolutions. */
static const struct tt_expr *
window(struct gen *g)
{
  const struct tt_expr *a = tt_imul(g->arena, ref(g, axis(g)), 1 + pick(g, 3));
  const struct tt_expr *b = tt_imul(g->arena, ref(g, axis(g)), 1 + pick(g, 2));
  return plus(g, tt_iadd(g->arena, a, b), -pick(g, 4));
}

/* A quotient or remainder of an axis or of two fused ones. */
static const struct tt_expr *
div_mod(struct gen *g)
{
  const struct tt_var *v = axis(g), *w = axis(g);
  int64_t c = 2 + pick(g, 4);
  const struct tt_expr *e = ref(g, v);
  if (chance(g, 50))
    e = tt_iadd(g->arena, tt_imul(g->arena, e, w->extent), ref(g, w));
  e = plus(g, e, pick(g, 3));
  return chance(g, 50) ? tt_idiv(g->arena, e, c) : tt_imod(g->arena, e, c);
}

static const struct tt_expr *
index_shape(struct gen *g, int64_t size)
{
  if (g->naxes == 0 || chance(g, 6))
    return tt_idx(g->arena, pick(g, size));
  const struct tt_var *v = axis(g);
  switch (pick(g, 10)) {
  case 0:
    return window(g);
  case 1:
    return div_mod(g);
  case 2:
    return size <= 250 ? indirect(g, size) : clamp(g, window(g), size);
  case 3:
    return clamp(g, window(g), size);
  case 4:
    return tt_isub(g->arena, tt_idx(g->arena, size - 1), ref(g, v));
  case 5:
    return tt_select(
        g->arena, tt_binary(g->arena, TT_LT, ref(g, v), tt_idx(g->arena, size)),
        ref(g, v), tt_idx(g->arena, pick(g, size)));
  default:
    /* An axis that fits, if there is one. */
    for (int i = 0; i < 4 && v->extent != size; i++)
      v = axis(g);
    return v->extent < size ? plus(g, ref(g, v), pick(g, size - v->extent + 1))
                            : ref(g, v);
  }
}

static void
conjoin(struct gen *g, const struct tt_expr **all, const struct tt_expr *c)
{
  *all = *all ? tt_binary(g->arena, TT_AND, *all, c) : c;
}

/* An index into a dimension.  What is not proven inside is clamped or gets
 * a guard. */
static const struct tt_expr *
index_into(struct gen *g, int64_t size, const struct tt_expr **guard)
{
  const struct tt_expr *e = index_shape(g, size);
  struct tt_interval r = tt_bounds(e, NULL);
  if (r.ok && r.lo >= 0 && r.hi < size)
    return e;
  if (chance(g, 30))
    return clamp(g, e, size);
  if (!r.ok || r.lo < 0)
    conjoin(g, guard, tt_binary(g->arena, TT_GE, e, tt_idx(g->arena, 0)));
  if (!r.ok || r.hi >= size)
    conjoin(g, guard, tt_binary(g->arena, TT_LT, e, tt_idx(g->arena, size)));
  return e;
}

static struct val
number(struct gen *g, enum tt_dtype t)
{
  static const double floats[] = {0, 1, -1, 0.5, 2, -0.25, 1.5, 0.1};
  if (tt_dtype_is_float(t))
    return (struct val){tt_flt(g->arena, t, floats[pick(g, 8)]), 2, true};
  int64_t v = t == TT_BOOL ? pick(g, 2) : pick(g, 24) - 8;
  return (struct val){tt_int(g->arena, t, v), 0, true};
}

static struct val
read_tensor(struct gen *g, const struct tt_tensor *t)
{
  const struct tt_expr *idx[TT_MAX_DIMS], *guard = NULL;
  for (int i = 0; i < t->ndim; i++)
    idx[i] = index_into(g, t->dims[i], &guard);
  struct val v = {tt_load(g->arena, t, t->ndim, idx), g->mag[t->id],
                  g->exact[t->id]};
  if (!guard)
    return v;
  if (g->allow_where && chance(g, 40)) {
    conjoin(g, &g->where, guard);
    return v;
  }
  struct val other = number(g, t->dtype);
  v.e = tt_select(g->arena, guard, v.e, other.e);
  return v;
}

/* `a` as type t; keeps floats small, and takes none to an integer that is not
 * exact. */
static bool
convert(struct gen *g, enum tt_dtype t, struct val *a)
{
  enum tt_dtype from = a->e->type.dtype;
  if (t == from)
    return true;
  if (!tt_dtype_is_float(t)) {
    if (tt_dtype_is_float(from) && !a->exact)
      return false;
    a->e = tt_cast(g->arena, t, a->e);
    a->exact = true;
    return true;
  }
  if (tt_dtype_is_int(from)) {
    a->e = tt_binary(g->arena, TT_BAND, a->e, tt_int(g->arena, from, 15));
    a->mag = 15;
  }
  a->exact = !tt_dtype_is_float(from);
  a->mag = from == TT_BOOL ? 1 : a->mag;
  a->e = tt_cast(g->arena, t, a->e);
  return true;
}

static struct val
read_any(struct gen *g, enum tt_dtype t, bool exact)
{
  struct tt_tensor *from = chance(g, 55) ? recent(g) : NULL;
  if (from && (!exact || g->exact[from->id])) {
    struct val v = read_tensor(g, from);
    if (convert(g, t, &v))
      return v;
  }
  from = source(g, t, exact);
  return from ? read_tensor(g, from) : number(g, t);
}

/* ---- conditions
 * ---------------------------------------------------------------------- */

static const struct tt_expr *
cond(struct gen *g, int depth)
{
  static const enum tt_binop ops[] = {TT_LT, TT_LE, TT_GT, TT_GE, TT_EQ, TT_NE};
  enum tt_binop op = ops[pick(g, 6)];
  if (depth > 0 && chance(g, 35)) {
    const struct tt_expr *a = cond(g, depth - 1);
    if (chance(g, 25))
      return tt_not(g->arena, a);
    return tt_binary(g->arena, chance(g, 50) ? TT_AND : TT_OR, a,
                     cond(g, depth - 1));
  }
  if (g->naxes > 0 && chance(g, 45)) {
    const struct tt_expr *v = ref(g, axis(g));
    if (chance(g, 30))
      v = tt_imod(g->arena, v, 2 + pick(g, 2));
    const struct tt_expr *w =
        chance(g, 40) ? ref(g, axis(g)) : tt_idx(g->arena, pick(g, 8));
    return tt_binary(g->arena, op, v, w);
  }
  enum tt_dtype t = any_dtype(g);
  struct val a = read_any(g, t, true);
  if (t == TT_BOOL)
    return a.e;
  struct val b = chance(g, 50) ? read_any(g, t, true) : number(g, t);
  return tt_binary(g->arena, op, a.e, b.e);
}

/* ---- values
 * -------------------------------------------------------------------------- */

static struct val value(struct gen *g, enum tt_dtype t, int depth);

static struct val
unary(struct gen *g, enum tt_fn fn, struct val a, double mag)
{
  return (struct val){tt_call(g->arena, fn, a.e->type.dtype, 1, &a.e), mag,
                      false};
}

static struct val
limit(struct gen *g, struct val a, double to)
{
  if (a.mag <= to)
    return a;
  enum tt_dtype t = a.e->type.dtype;
  a.e = tt_binary(g->arena, TT_MIN, a.e, tt_flt(g->arena, t, to));
  a.e = tt_binary(g->arena, TT_MAX, a.e, tt_flt(g->arena, t, -to));
  a.mag = to;
  return a;
}

/* |a| + 0.5: away from where roots, logarithms and quotients are steep. */
static struct val
positive(struct gen *g, struct val a)
{
  enum tt_dtype t = a.e->type.dtype;
  a.e = tt_call(g->arena, TT_FN_ABS, t, 1, &a.e);
  a.e = tt_binary(g->arena, TT_ADD, a.e, tt_flt(g->arena, t, 0.5));
  a.mag += 0.5;
  a.exact = false;
  return a;
}

static struct val
float_call(struct gen *g, struct val a)
{
  switch (pick(g, 8)) {
  case 0:
    return unary(g, TT_FN_EXP, limit(g, a, 2), 8);
  case 1:
    return unary(g, TT_FN_TANH, a, 1);
  case 2:
    return unary(g, TT_FN_SIGMOID, a, 1);
  case 3:
    return unary(g, TT_FN_ERF, a, 1);
  case 4:
    return unary(g, TT_FN_SQRT, positive(g, a), a.mag + 1);
  case 5:
    return unary(g, TT_FN_RSQRT, positive(g, a), 1.5);
  case 6:
    return unary(g, TT_FN_LOG, positive(g, a), a.mag + 1);
  default: {
    struct val p = positive(g, limit(g, a, 2));
    const struct tt_expr *args[] = {p.e,
                                    tt_flt(g->arena, p.e->type.dtype, 1.5)};
    return (struct val){tt_call(g->arena, TT_FN_POW, p.e->type.dtype, 2, args),
                        8, false};
  }
  }
}

static struct val
float_binary(struct gen *g, enum tt_dtype t, int depth)
{
  struct val a = value(g, t, depth - 1), b = value(g, t, depth - 1);
  struct val r = {.exact = false};
  switch (pick(g, 6)) {
  case 0:
    r.e = tt_binary(g->arena, TT_SUB, a.e, b.e);
    r.mag = a.mag + b.mag;
    break;
  case 1:
  case 2:
    r.e = tt_binary(g->arena, TT_MUL, a.e, b.e);
    r.mag = a.mag * b.mag;
    break;
  case 3:
    r.e = tt_binary(g->arena, chance(g, 50) ? TT_MIN : TT_MAX, a.e, b.e);
    r.mag = a.mag > b.mag ? a.mag : b.mag;
    break;
  case 4:
    r.e = tt_binary(g->arena, TT_DIV, a.e, positive(g, b).e);
    r.mag = 2 * a.mag;
    break;
  default:
    r.e = tt_binary(g->arena, TT_ADD, a.e, b.e);
    r.mag = a.mag + b.mag;
    break;
  }
  return r;
}

static enum tt_dtype
float_dtype(struct gen *g)
{
  static const enum tt_dtype t[] = {TT_F32, TT_F64, TT_F16, TT_BF16};
  return t[pick(g, 4)];
}

static enum tt_dtype
int_dtype(struct gen *g)
{
  static const enum tt_dtype t[] = {TT_I8,  TT_U8,  TT_I16, TT_U16,
                                    TT_I32, TT_U32, TT_I64};
  return t[pick(g, 7)];
}

/* A float from an integer (small ones), another float, or a rounding. */
static struct val
float_from(struct gen *g, enum tt_dtype t, int depth)
{
  if (chance(g, 40)) {
    enum tt_dtype u = int_dtype(g);
    const struct tt_expr *e = tt_binary(
        g->arena, TT_BAND, value(g, u, depth - 1).e, tt_int(g->arena, u, 15));
    return (struct val){tt_cast(g->arena, t, e), 15, true};
  }
  if (chance(g, 50)) {
    struct val a = read_any(g, t, true);
    enum tt_fn fn = chance(g, 40)   ? TT_FN_FLOOR
                    : chance(g, 50) ? TT_FN_CEIL
                                    : TT_FN_ROUND;
    struct val r = unary(g, fn, a, a.mag + 1);
    r.exact = true;
    return r;
  }
  struct val a = value(g, float_dtype(g), depth - 1);
  a.e = tt_cast(g->arena, t, a.e);
  a.exact = false;
  return a;
}

static struct val
float_value(struct gen *g, enum tt_dtype t, int depth)
{
  struct val a;
  switch (pick(g, 8)) {
  case 0:
    a = float_call(g, value(g, t, depth - 1));
    break;
  case 1:
    a = value(g, t, depth - 1);
    a.e = chance(g, 50) ? tt_neg(g->arena, a.e)
                        : tt_call(g->arena, TT_FN_ABS, t, 1, &a.e);
    break;
  case 2:
    a = float_from(g, t, depth);
    break;
  default:
    a = float_binary(g, t, depth);
    break;
  }
  return limit(g, a, 64);
}

static const struct tt_expr *
int_binary(struct gen *g, enum tt_dtype t, int depth)
{
  static const enum tt_binop ops[] = {TT_ADD, TT_ADD, TT_SUB,  TT_MUL, TT_MUL,
                                      TT_MIN, TT_MAX, TT_BAND, TT_BOR, TT_BXOR,
                                      TT_DIV, TT_MOD, TT_SHL,  TT_SHR};
  static const int64_t divisors[] = {2, 3, 4, 7, 8, -3};
  enum tt_binop op = ops[pick(g, 14)];
  const struct tt_expr *a = value(g, t, depth - 1).e, *b;
  if (op == TT_SHL || op == TT_SHR)
    b = tt_int(g->arena, t, pick(g, tt_dtype_bits(t) < 16 ? 7 : 15));
  else if (op == TT_DIV || op == TT_MOD) {
    b = tt_int(g->arena, t, divisors[pick(g, 6)]);
    if (chance(g, 30)) { /* 1..7, from data */
      b = tt_binary(g->arena, TT_BAND, value(g, t, depth - 1).e,
                    tt_int(g->arena, t, 7));
      b = tt_binary(g->arena, TT_MAX, b, tt_int(g->arena, t, 1));
    }
  } else
    b = value(g, t, depth - 1).e;
  return tt_binary(g->arena, op, a, b);
}

static const struct tt_expr *
int_call(struct gen *g, enum tt_dtype t, int depth)
{
  const struct tt_expr *args[] = {value(g, t, depth - 1).e, NULL};
  if (t == TT_I32 && chance(g, 50)) {
    bool mul = chance(g, 50);
    args[1] = mul ? value(g, t, depth - 1).e : tt_int(g->arena, t, pick(g, 20));
    return tt_call(g->arena, mul ? TT_FN_SQRDMULH : TT_FN_RDIVP2, t, 2, args);
  }
  if (chance(g, 50))
    return tt_call(g->arena, TT_FN_ABS, t, 1, args);
  args[1] = tt_int(g->arena, t, 1 + pick(g, 9));
  return tt_call(g->arena, chance(g, 50) ? TT_FN_QUOT : TT_FN_REM, t, 2, args);
}

/* An integer from an axis, a float input, a bool or another integer. */
static const struct tt_expr *
int_from(struct gen *g, enum tt_dtype t, int depth)
{
  const struct tt_expr *e;
  if (g->naxes > 0 && chance(g, 30))
    e = ref(g, axis(g));
  else if (chance(g, 25)) {
    enum tt_dtype u = float_dtype(g);
    e = tt_binary(g->arena, TT_MUL, read_any(g, u, true).e,
                  tt_flt(g->arena, u, 8));
    e = tt_call(g->arena, TT_FN_ROUND, u, 1, &e);
  } else if (chance(g, 15))
    e = cond(g, 1);
  else
    e = value(g, int_dtype(g), depth - 1).e;
  return chance(g, 35) ? tt_sat(g->arena, t, e) : tt_cast(g->arena, t, e);
}

static const struct tt_expr *
int_value(struct gen *g, enum tt_dtype t, int depth)
{
  switch (pick(g, 8)) {
  case 0:
    return tt_neg(g->arena, value(g, t, depth - 1).e);
  case 1:
    return int_call(g, t, depth);
  case 2:
    return int_from(g, t, depth);
  case 3:
    return tt_not(g->arena, value(g, t, depth - 1).e);
  default:
    return int_binary(g, t, depth);
  }
}

static struct val
value(struct gen *g, enum tt_dtype t, int depth)
{
  if (depth <= 0 || chance(g, 15))
    return chance(g, 88) ? read_any(g, t, false) : number(g, t);
  if (t == TT_BOOL)
    return (struct val){cond(g, depth), 0, true};
  if (chance(g, 12)) {
    struct val a = value(g, t, depth - 1), b = value(g, t, depth - 1);
    a.e = tt_select(g->arena, cond(g, 1), a.e, b.e);
    a.mag = a.mag > b.mag ? a.mag : b.mag;
    a.exact = false;
    return a;
  }
  if (tt_dtype_is_float(t))
    return float_value(g, t, depth);
  return (struct val){int_value(g, t, depth), 0, true};
}

/* ---- stages
 * ---------------------------------------------------------------------------
 */

static void
open_stage(struct gen *g, int nspatial, const int64_t *spatial, int nreduce,
           const int64_t *reduce)
{
  static const char *const names[] = {"i", "j", "k", "l", "m"};
  static const char *const rnames[] = {"r", "s", "t"};
  g->nspatial = nspatial;
  g->nreduce = nreduce;
  g->naxes = nspatial + nreduce;
  for (int i = 0; i < nspatial; i++)
    g->axes[i] = tt_program_var(g->program, names[i], spatial[i]);
  for (int i = 0; i < nreduce; i++)
    g->axes[nspatial + i] = tt_program_var(g->program, rnames[i], reduce[i]);
  g->allow_where = false;
  g->where = NULL;
}

static int64_t
stage_points(const struct gen *g, bool spatial)
{
  int64_t n = 1;
  for (int i = spatial ? 0 : g->nspatial; i < g->naxes; i++)
    n *= g->axes[i]->extent;
  return n;
}

struct frozen {
  const struct gen *g;
  bool all;
};

static void
check_frozen(void *ctx, const struct tt_expr *e)
{
  struct frozen *f = ctx;
  if (e->kind == TT_LOAD)
    f->all &= is_frozen(f->g, e->tensor);
}

static struct tt_tensor *
close_stage(struct gen *g, enum tt_red red, struct val v)
{
  int64_t dims[MAX_AXES];
  for (int i = 0; i < g->nspatial; i++)
    dims[i] = g->axes[i]->extent;
  struct tt_tensor *out =
      add_tensor(g, "S", TT_TEMP, v.e->type.dtype, g->nspatial, dims);
  g->mag[out->id] = v.mag;
  g->exact[out->id] = !tt_dtype_is_float(out->dtype);
  struct tt_stage *s =
      tt_program_stage(g->program, out, g->axes, red, g->nreduce,
                       g->axes + g->nspatial, v.e, g->where);
  struct frozen f = {g, true};
  tt_expr_visit(v.e, check_frozen, &f);
  if (g->where)
    tt_expr_visit(g->where, check_frozen, &f);
  s->prepare = f.all; /* for now: settle() looks at the whole program */
  g->points -= stage_points(g, true);
  return out;
}

static enum tt_red
any_red(struct gen *g, enum tt_dtype t)
{
  static const enum tt_red reds[] = {TT_RED_SUM, TT_RED_SUM, TT_RED_SUM,
                                     TT_RED_MAX, TT_RED_MIN, TT_RED_PROD};
  if (t == TT_BOOL)
    return chance(g, 50) ? TT_RED_ANY : TT_RED_ALL;
  return reds[pick(g, 6)];
}

/* Keep what a float reduction gives small. */
static struct val
reducible(struct gen *g, enum tt_red red, struct val v)
{
  enum tt_dtype t = v.e->type.dtype;
  if (!tt_dtype_is_float(t))
    return v;
  if (red == TT_RED_PROD) {
    v = limit(g, v, 1.125);
    for (int64_t n = stage_points(g, false); n > 1; n--)
      v.mag *= 1.125;
  }
  if (red == TT_RED_SUM) {
    double scale = 1;
    v.mag *= (double)stage_points(g, false);
    for (; v.mag * scale > 64; scale /= 2)
      ;
    if (scale < 1)
      v.e = tt_binary(g->arena, TT_MUL, v.e, tt_flt(g->arena, t, scale));
    v.mag *= scale;
  }
  return v;
}

static void
generic_stage(struct gen *g)
{
  int64_t spatial[4], reduce[3];
  int ns = (int)pick(g, 10) < 1 ? 0 : 1 + (int)pick(g, 3), nr = 0;
  enum tt_dtype t = any_dtype(g);
  enum tt_red red = TT_RED_NONE;
  if (chance(g, 45)) {
    nr = 1 + (int)pick(g, 2);
    red = any_red(g, t);
  }
  int64_t points = 1;
  for (int i = 0; i < ns + nr; i++) {
    int64_t n = extent(g);
    if (i >= ns && red == TT_RED_PROD && n > 4)
      n = 3;
    if (points * n > STAGE_POINTS)
      n = 1;
    points *= n;
    *(i < ns ? &spatial[i] : &reduce[i - ns]) = n;
  }
  open_stage(g, ns, spatial, nr, reduce);
  /* The extremum of nothing is infinite: not for floats. */
  g->allow_where =
      red != TT_RED_NONE &&
      !(tt_dtype_is_float(t) && (red == TT_RED_MIN || red == TT_RED_MAX));
  struct val v = value(g, t, 1 + (int)pick(g, 3));
  if (g->allow_where && chance(g, 15)) {
    g->allow_where = false;
    conjoin(g, &g->where, cond(g, 1));
  }
  close_stage(g, red, reducible(g, red, v));
}

/* Sum of products of two tensors, integers widened before. */
static struct val
product(struct gen *g, const struct tt_expr *a, const struct tt_expr *b)
{
  enum tt_dtype t = a->type.dtype;
  if (tt_dtype_is_int(t) && tt_dtype_bits(t) < 32) {
    a = tt_cast(g->arena, TT_I32, a);
    b = tt_cast(g->arena, TT_I32, b);
  }
  return (struct val){tt_binary(g->arena, TT_MUL, a, b), 4, false};
}

static enum tt_dtype
number_dtype(struct gen *g)
{
  enum tt_dtype t = any_dtype(g);
  return t == TT_BOOL ? TT_F32 : t;
}

/* A matrix of numbers among the results, for the operators that want one. */
static struct tt_tensor *
recent_matrix(struct gen *g)
{
  struct tt_tensor *t = chance(g, 65) ? recent(g) : NULL;
  return t && t->ndim == 2 && t->dtype != TT_BOOL && t->dims[0] <= 13 &&
                 t->dims[1] <= 13
             ? t
             : NULL;
}

static void
matmul_stage(struct gen *g)
{
  int64_t m = extent(g), n = extent(g), k = extent(g);
  enum tt_dtype t = number_dtype(g);
  bool transposed = chance(g, 40);
  struct tt_tensor *ta = recent_matrix(g);
  if (ta) {
    t = ta->dtype;
    m = ta->dims[0];
    k = ta->dims[1];
  }
  int64_t out[] = {m, n}, a[] = {m, k}, b[] = {k, n}, bt[] = {n, k};
  ta = ta ? ta : add_source(g, t, 2, a);
  struct tt_tensor *tb = add_source(g, t, 2, transposed ? bt : b);
  open_stage(g, 2, out, 1, &k);
  const struct tt_expr *i = ref(g, g->axes[0]), *j = ref(g, g->axes[1]);
  const struct tt_expr *r = ref(g, g->axes[2]);
  const struct tt_expr *ia[] = {i, r}, *ib[] = {r, j}, *ibt[] = {j, r};
  struct val v = product(g, tt_load(g->arena, ta, 2, ia),
                         tt_load(g->arena, tb, 2, transposed ? ibt : ib));
  v.mag = 2 * g->mag[ta->id];
  close_stage(g, TT_RED_SUM, reducible(g, TT_RED_SUM, v));
}

/* A convolution or a pooling in one dimension, with channels, padding,
 * stride and dilation; the border by else, where or nothing. */
static void
window_stage(struct gen *g)
{
  int64_t r = 1 + pick(g, 4), stride = 1 + pick(g, 2), dil = 1 + pick(g, 2);
  int64_t pad = pick(g, 3), y = extent(g), c = 1 + pick(g, 3);
  int64_t k = 1 + pick(g, 4);
  int64_t h = (y - 1) * stride + (r - 1) * dil + 1 - 2 * pad;
  h = h < 1 ? 1 : h;
  bool pool = chance(g, 35), by_where = !pool && chance(g, 40);
  enum tt_dtype t = number_dtype(g);
  struct tt_tensor *x = recent_matrix(g);
  if (x && (x->dims[1] + 2 * pad - (r - 1) * dil - 1) / stride >= 0 &&
      x->dims[1] + 2 * pad > (r - 1) * dil) {
    t = x->dtype;
    c = x->dims[0];
    h = x->dims[1];
    y = (h + 2 * pad - (r - 1) * dil - 1) / stride + 1;
  } else {
    x = NULL;
  }
  int64_t out[] = {pool ? c : k, y}, red[] = {pool ? r : c, r};
  int64_t dx[] = {c, h}, dw[] = {k, c, r};
  x = x ? x : add_source(g, t, 2, dx);
  struct tt_tensor *w = pool ? NULL : add_source(g, t, 3, dw);
  open_stage(g, 2, out, pool ? 1 : 2, red);
  const struct tt_expr *tap = ref(g, g->axes[g->naxes - 1]);
  const struct tt_expr *chan = ref(g, g->axes[pool ? 0 : 2]);
  const struct tt_expr *pos =
      plus(g,
           tt_iadd(g->arena, tt_imul(g->arena, ref(g, g->axes[1]), stride),
                   tt_imul(g->arena, tap, dil)),
           -pad);
  const struct tt_expr *ix[] = {chan, pos};
  const struct tt_expr *iw[] = {ref(g, g->axes[0]), chan, tap};
  const struct tt_expr *in = tt_binary(
      g->arena, TT_AND, tt_binary(g->arena, TT_GE, pos, tt_idx(g->arena, 0)),
      tt_binary(g->arena, TT_LT, pos, tt_idx(g->arena, h)));
  const struct tt_expr *e = tt_load(g->arena, x, 2, ix);
  if (by_where)
    g->where = in;
  else
    e = tt_select(g->arena, in, e,
                  pool && tt_dtype_is_float(t) ? tt_flt(g->arena, t, -2)
                                               : tt_zero(g->arena, t));
  struct val v = {e, g->mag[x->id] + 2, false};
  if (pool) {
    close_stage(g, chance(g, 70) ? TT_RED_MAX : TT_RED_MIN, v);
    return;
  }
  v = product(g, e, tt_load(g->arena, w, 3, iw));
  v.mag = 2 * g->mag[x->id];
  close_stage(g, TT_RED_SUM, reducible(g, TT_RED_SUM, v));
}

/* Another shape or order of the elements of a tensor. */
static void
layout_stage(struct gen *g)
{
  struct tt_tensor *from = recent(g);
  from = from ? from : source(g, any_dtype(g), false);
  if (!from || from->ndim < 2 || tt_tensor_size(from) > STAGE_POINTS)
    return;
  int64_t dims[TT_MAX_DIMS], total = tt_tensor_size(from);
  const struct tt_expr *idx[TT_MAX_DIMS];
  int n = from->ndim;
  if (chance(g, 50)) { /* transposed by a rotation */
    int by = 1 + (int)pick(g, n - 1);
    for (int i = 0; i < n; i++)
      dims[i] = from->dims[(i + by) % n];
    open_stage(g, n, dims, 0, NULL);
    for (int i = 0; i < n; i++)
      idx[(i + by) % n] = ref(g, g->axes[i]);
  } else { /* flattened */
    open_stage(g, 1, &total, 0, NULL);
    const struct tt_expr *rest = ref(g, g->axes[0]);
    for (int i = n - 1; i >= 0; i--) {
      idx[i] = i ? tt_imod(g->arena, rest, from->dims[i]) : rest;
      rest = tt_idiv(g->arena, rest, from->dims[i]);
    }
  }
  close_stage(
      g, TT_RED_NONE,
      (struct val){tt_load(g->arena, from, n, idx), g->mag[from->id], false});
}

/* The same element of one or two tensors of one shape. */
static void
pointwise_stage(struct gen *g)
{
  struct tt_tensor *from = recent(g);
  from =
      from && from->dtype != TT_BOOL ? from : source(g, number_dtype(g), false);
  if (!from || from->ndim == 0 || tt_tensor_size(from) > STAGE_POINTS)
    return;
  const struct tt_expr *idx[TT_MAX_DIMS];
  open_stage(g, from->ndim, from->dims, 0, NULL);
  for (int i = 0; i < from->ndim; i++)
    idx[i] = ref(g, g->axes[i]);
  struct val a = {tt_load(g->arena, from, from->ndim, idx), g->mag[from->id],
                  false};
  struct val b = value(g, from->dtype, 1);
  bool is_float = tt_dtype_is_float(from->dtype);
  struct val r = {
      tt_binary(g->arena, chance(g, 60) ? TT_ADD : TT_MAX, a.e, b.e),
      a.mag + b.mag, false};
  if (is_float && chance(g, 50))
    r = float_call(g, r);
  close_stage(g, TT_RED_NONE, is_float ? limit(g, r, 64) : r);
}

/* The lowest index of the largest of each row, as the frontend lowers
 * argmax. */
static void
argmax_stages(struct gen *g)
{
  int64_t dims[] = {extent(g), extent(g)};
  enum tt_dtype t = number_dtype(g);
  struct tt_tensor *x = add_source(g, t, 2, dims);
  open_stage(g, 1, dims, 1, dims + 1);
  const struct tt_expr *ix[] = {ref(g, g->axes[0]), ref(g, g->axes[1])};
  struct val v = {tt_load(g->arena, x, 2, ix), 2, true};
  struct tt_tensor *most = close_stage(g, TT_RED_MAX, v);
  open_stage(g, 1, dims, 1, dims + 1);
  const struct tt_expr *iy[] = {ref(g, g->axes[0]), ref(g, g->axes[1])};
  const struct tt_expr *same =
      tt_binary(g->arena, TT_EQ, tt_load(g->arena, x, 2, iy),
                tt_load(g->arena, most, 1, iy));
  v.e = tt_select(g->arena, same, tt_cast(g->arena, TT_I32, iy[1]),
                  tt_int(g->arena, TT_I32, INT32_MAX));
  close_stage(g, TT_RED_MIN, v);
}

static void
one_stage(struct gen *g)
{
  switch (pick(g, 12)) {
  case 0:
  case 1:
    matmul_stage(g);
    break;
  case 2:
  case 3:
    window_stage(g);
    break;
  case 4:
    layout_stage(g);
    break;
  case 5:
  case 6:
    pointwise_stage(g);
    break;
  case 7:
    argmax_stages(g);
    break;
  default:
    generic_stage(g);
    break;
  }
}

/* ---- the whole
 * ------------------------------------------------------------------------ */

static void
mark_used(void *ctx, const struct tt_expr *e)
{
  bool *used = ctx;
  if (e->kind == TT_LOAD)
    used[e->tensor->id] = true;
}

/* Results that nobody reads become outputs, and some others; then what is
 * prepared can be told. */
static void
settle(struct gen *g)
{
  struct tt_program *p = g->program;
  bool used[MAX_TENSORS] = {0}, weights = false;
  for (int i = 0; i < p->nstages; i++) {
    tt_expr_visit(p->stages[i]->value, mark_used, used);
    if (p->stages[i]->where)
      tt_expr_visit(p->stages[i]->where, mark_used, used);
  }
  for (int i = 0; i < p->ntensors; i++)
    weights |= p->tensors[i]->role == TT_WEIGHT;
  for (int i = 0; i < p->nstages; i++) {
    struct tt_stage *s = p->stages[i];
    if (!used[s->out->id] || chance(g, 15))
      s->out->role = TT_OUTPUT;
    struct frozen f = {g, weights && s->out->role == TT_TEMP};
    tt_expr_visit(s->value, check_frozen, &f);
    if (s->where)
      tt_expr_visit(s->where, check_frozen, &f);
    s->prepare = f.all;
  }
}

struct tt_program *
tt_random_program(struct tt_arena *arena, uint64_t seed)
{
  struct gen g = {.arena = arena, .seed = seed, .points = POINTS};
  g.program = tt_program_new(arena, "random");
  int stages = 1 + (int)pick(&g, 6);
  bool weights = chance(&g, 40);
  for (int i = 0; g.program->nstages < stages && i < 4 * stages; i++) {
    if (g.points < STAGE_POINTS || g.program->ntensors > MAX_TENSORS - 16)
      break;
    g.frozen = weights && chance(&g, 40);
    one_stage(&g);
  }
  while (g.program->nstages == 0) {
    g.frozen = false;
    matmul_stage(&g);
  }
  settle(&g);
  return g.program;
}
