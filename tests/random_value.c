/* Random values for random programs: sources of data, accesses, conditions,
 * expressions.
 *
 * Of every float tensor the generator knows a bound of its values and whether
 * it is exact (not the result of rounded arithmetic).
 */
#include "config.h"

#include "tests/random_value.h"

#include "ir/passes.h"

#include <stdio.h>

int64_t
rnd_pick(struct rnd *g, int64_t n)
{
  return (int64_t)(tt_random_bits(g->seed, 0x5eed, g->calls++) % (uint64_t)n);
}

bool
rnd_chance(struct rnd *g, int percent)
{
  return rnd_pick(g, 100) < percent;
}

enum tt_dtype
rnd_any_dtype(struct rnd *g)
{
  static const enum tt_dtype types[] = {TT_F32, TT_F32, TT_F32,  TT_F32, TT_F32,
                                        TT_F64, TT_F16, TT_BF16, TT_I8,  TT_I8,
                                        TT_U8,  TT_I16, TT_U16,  TT_I32, TT_I32,
                                        TT_I32, TT_U32, TT_I64,  TT_BOOL};
  return types[rnd_pick(g, 19)];
}

int64_t
rnd_extent(struct rnd *g)
{
  static const int64_t sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 13};
  return sizes[rnd_pick(g, 11)];
}

/* ---- tensors ----------------------------------------------------------- */

struct tt_tensor *
rnd_add_tensor(struct rnd *g, const char *prefix, enum tt_role role,
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
fill_table(struct rnd *g, struct tt_tensor *t)
{
  static const double floats[] = {0, 0, 1, 1, -1, 0.5, -0.5, 2, 0.25};
  size_t n = (size_t)tt_tensor_size(t);
  double *f = TT_ARRAY(g->arena, double, n);
  int64_t *i = TT_ARRAY(g->arena, int64_t, n);
  for (size_t k = 0; k < n; k++) {
    f[k] = floats[rnd_pick(g, 9)];
    i[k] = tt_wrap(t->dtype, rnd_pick(g, 9) - 3);
  }
  if (tt_dtype_is_float(t->dtype))
    t->fdata = f;
  else
    t->idata = i;
}

/* A new source of data: an input, a weight or a table. */
struct tt_tensor *
rnd_add_source(struct rnd *g, enum tt_dtype t, int ndim, const int64_t *dims)
{
  bool weight = g->frozen || rnd_chance(g, 12);
  struct tt_tensor *r;
  if (rnd_chance(g, 12)) {
    r = rnd_add_tensor(g, "T", TT_CONST, t, ndim, dims);
    fill_table(g, r);
    return r;
  }
  r = weight ? rnd_add_tensor(g, "W", TT_WEIGHT, t, ndim, dims)
             : rnd_add_tensor(g, "X", TT_INPUT, t, ndim, dims);
  if (tt_dtype_is_int(t) && rnd_chance(g, 30)) {
    r->has_range = true;
    r->lo = tt_dtype_is_signed(t) ? -rnd_pick(g, 5) : 0;
    r->hi = r->lo + 1 + rnd_pick(g, 100);
  }
  return r;
}

static struct tt_tensor *
add_any_source(struct rnd *g, enum tt_dtype t)
{
  int64_t dims[3];
  int ndim = (int)rnd_pick(g, 4);
  for (int i = 0; i < ndim; i++)
    dims[i] = rnd_extent(g);
  return rnd_add_source(g, t, ndim, dims);
}

static bool
is_defined(const struct rnd *g, const struct tt_tensor *t)
{
  return t->role == TT_INPUT || t->role == TT_WEIGHT || t->role == TT_CONST ||
         tt_stage_of(g->program, t);
}

bool
rnd_is_frozen(const struct rnd *g, const struct tt_tensor *t)
{
  const struct tt_stage *s = tt_stage_of(g->program, t);
  return t->role == TT_WEIGHT || t->role == TT_CONST || (s && s->prepare);
}

/* Something of this type to read: the later ones rather, to make chains. */
struct tt_tensor *
rnd_source(struct rnd *g, enum tt_dtype t, bool exact)
{
  int n = g->program->ntensors;
  for (int tries = 0; tries < 12; tries++) {
    int back = (int)(rnd_chance(g, 60) ? rnd_pick(g, n < 4 ? n + 1 : 4)
                                       : rnd_pick(g, n + 1));
    if (back >= n)
      break;
    struct tt_tensor *r = g->program->tensors[n - 1 - back];
    if (r->dtype == t && is_defined(g, r) && (!exact || g->exact[r->id]) &&
        (!g->frozen || rnd_is_frozen(g, r)))
      return r;
  }
  return n < MAX_TENSORS - 16 ? add_any_source(g, t) : NULL;
}

/* A result of an earlier stage, the later ones rather; NULL: none to be had. */
struct tt_tensor *
rnd_recent(struct rnd *g)
{
  int n = g->program->nstages;
  for (int tries = 0; tries < 3 && n > 0; tries++) {
    int back = (int)rnd_pick(g, rnd_chance(g, 70) && n > 2 ? 2 : n);
    struct tt_tensor *t = g->program->stages[n - 1 - back]->out;
    if (!g->frozen || rnd_is_frozen(g, t))
      return t;
  }
  return NULL;
}

/* ---- accesses ---------------------------------------------------------- */

static const struct tt_var *
axis(struct rnd *g)
{
  return g->axes[rnd_pick(g, g->naxes)];
}

const struct tt_expr *
rnd_ref(struct rnd *g, const struct tt_var *v)
{
  return tt_var_ref(g->arena, v);
}

const struct tt_expr *
rnd_plus(struct rnd *g, const struct tt_expr *a, int64_t c)
{
  return c < 0 ? tt_isub(g->arena, a, tt_idx(g->arena, -c))
               : tt_iadd(g->arena, a, tt_idx(g->arena, c));
}

static const struct tt_expr *
clamp(struct rnd *g, const struct tt_expr *e, int64_t size)
{
  e = tt_imin(g->arena, e, tt_idx(g->arena, size - 1));
  return tt_imax(g->arena, e, tt_idx(g->arena, 0));
}

/* i64(ids[...]) in 0..size. */
static const struct tt_expr *
indirect(struct rnd *g, int64_t size)
{
  const struct tt_var *v = axis(g);
  struct tt_tensor *ids = NULL;
  enum tt_dtype t = rnd_chance(g, 50) ? TT_I32 : TT_U8;
  for (int i = 0; i < g->program->ntensors && !ids; i++) {
    struct tt_tensor *r = g->program->tensors[i];
    if (r->role == (g->frozen ? TT_WEIGHT : TT_INPUT) && r->has_range &&
        r->lo >= 0 && r->hi <= size && r->ndim == 1 && r->dims[0] >= v->extent)
      ids = r;
  }
  if (!ids && g->program->ntensors >= MAX_TENSORS - 8)
    return tt_idx(g->arena, 0);
  if (!ids) {
    ids = g->frozen ? rnd_add_tensor(g, "W", TT_WEIGHT, t, 1, &v->extent)
                    : rnd_add_tensor(g, "X", TT_INPUT, t, 1, &v->extent);
    ids->has_range = true;
    ids->hi = size;
  }
  const struct tt_expr *at = rnd_ref(g, v);
  return tt_cast(g->arena, TT_I64, tt_load(g->arena, ids, 1, &at));
}

/* v*s + w*d - p, as in convolutions.  (Here and below no two draws stand in
 * one argument list: C leaves their order open.) */
static const struct tt_expr *
window(struct rnd *g)
{
  const struct tt_var *v = axis(g), *w = axis(g);
  int64_t s = 1 + rnd_pick(g, 3), d = 1 + rnd_pick(g, 2);
  const struct tt_expr *e =
      tt_iadd(g->arena, tt_imul(g->arena, rnd_ref(g, v), s),
              tt_imul(g->arena, rnd_ref(g, w), d));
  return rnd_plus(g, e, -rnd_pick(g, 4));
}

/* A quotient or remainder of an axis or of two fused ones. */
static const struct tt_expr *
div_mod(struct rnd *g)
{
  const struct tt_var *v = axis(g), *w = axis(g);
  int64_t c = 2 + rnd_pick(g, 4);
  const struct tt_expr *e = rnd_ref(g, v);
  if (rnd_chance(g, 50))
    e = tt_iadd(g->arena, tt_imul(g->arena, e, w->extent), rnd_ref(g, w));
  e = rnd_plus(g, e, rnd_pick(g, 3));
  return rnd_chance(g, 50) ? tt_idiv(g->arena, e, c) : tt_imod(g->arena, e, c);
}

static const struct tt_expr *
index_shape(struct rnd *g, int64_t size)
{
  if (g->naxes == 0 || rnd_chance(g, 6))
    return tt_idx(g->arena, rnd_pick(g, size));
  const struct tt_var *v = axis(g);
  switch (rnd_pick(g, 10)) {
  case 0:
    return window(g);
  case 1:
    return div_mod(g);
  case 2:
    return size <= 250 ? indirect(g, size) : clamp(g, window(g), size);
  case 3:
    return clamp(g, window(g), size);
  case 4:
    return tt_isub(g->arena, tt_idx(g->arena, size - 1), rnd_ref(g, v));
  case 5:
    return tt_select(
        g->arena,
        tt_binary(g->arena, TT_LT, rnd_ref(g, v), tt_idx(g->arena, size)),
        rnd_ref(g, v), tt_idx(g->arena, rnd_pick(g, size)));
  default:
    /* An axis that fits, if there is one. */
    for (int i = 0; i < 4 && v->extent != size; i++)
      v = axis(g);
    return v->extent < size
               ? rnd_plus(g, rnd_ref(g, v), rnd_pick(g, size - v->extent + 1))
               : rnd_ref(g, v);
  }
}

void
rnd_conjoin(struct rnd *g, const struct tt_expr **all, const struct tt_expr *c)
{
  *all = *all ? tt_binary(g->arena, TT_AND, *all, c) : c;
}

/* An index into a dimension.  What is not proven inside is clamped or gets
 * a guard. */
static const struct tt_expr *
index_into(struct rnd *g, int64_t size, const struct tt_expr **guard)
{
  const struct tt_expr *e = index_shape(g, size);
  struct tt_interval r = tt_bounds(e, NULL);
  if (r.ok && r.lo >= 0 && r.hi < size)
    return e;
  if (rnd_chance(g, 30))
    return clamp(g, e, size);
  if (!r.ok || r.lo < 0)
    rnd_conjoin(g, guard, tt_binary(g->arena, TT_GE, e, tt_idx(g->arena, 0)));
  if (!r.ok || r.hi >= size)
    rnd_conjoin(g, guard,
                tt_binary(g->arena, TT_LT, e, tt_idx(g->arena, size)));
  return e;
}

static struct rnd_val
number(struct rnd *g, enum tt_dtype t)
{
  static const double floats[] = {0, 1, -1, 0.5, 2, -0.25, 1.5, 0.1};
  if (tt_dtype_is_float(t))
    return (struct rnd_val){tt_flt(g->arena, t, floats[rnd_pick(g, 8)]), 2,
                            true};
  int64_t v = t == TT_BOOL ? rnd_pick(g, 2) : rnd_pick(g, 24) - 8;
  return (struct rnd_val){tt_int(g->arena, t, v), 0, true};
}

static struct rnd_val
read_tensor(struct rnd *g, const struct tt_tensor *t)
{
  const struct tt_expr *idx[TT_MAX_DIMS] = {NULL}, *guard = NULL;
  for (int i = 0; i < t->ndim; i++)
    idx[i] = index_into(g, t->dims[i], &guard);
  struct rnd_val v = {tt_load(g->arena, t, t->ndim, idx), g->mag[t->id],
                      g->exact[t->id]};
  if (!guard)
    return v;
  if (g->allow_where && rnd_chance(g, 40)) {
    rnd_conjoin(g, &g->where, guard);
    return v;
  }
  struct rnd_val other = number(g, t->dtype);
  v.e = tt_select(g->arena, guard, v.e, other.e);
  return v;
}

/* `a` as type t; keeps floats small, and takes none to an integer that is not
 * exact. */
static bool
convert(struct rnd *g, enum tt_dtype t, struct rnd_val *a)
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

static struct rnd_val
read_any(struct rnd *g, enum tt_dtype t, bool exact)
{
  struct tt_tensor *from = rnd_chance(g, 55) ? rnd_recent(g) : NULL;
  if (from && (!exact || g->exact[from->id])) {
    struct rnd_val v = read_tensor(g, from);
    if (convert(g, t, &v))
      return v;
  }
  from = rnd_source(g, t, exact);
  return from ? read_tensor(g, from) : number(g, t);
}

/* ---- conditions -------------------------------------------------------- */

const struct tt_expr *
rnd_cond(struct rnd *g, int depth)
{
  static const enum tt_binop ops[] = {TT_LT, TT_LE, TT_GT, TT_GE, TT_EQ, TT_NE};
  enum tt_binop op = ops[rnd_pick(g, 6)];
  if (depth > 0 && rnd_chance(g, 35)) {
    const struct tt_expr *a = rnd_cond(g, depth - 1);
    if (rnd_chance(g, 25))
      return tt_not(g->arena, a);
    const struct tt_expr *b = rnd_cond(g, depth - 1);
    return tt_binary(g->arena, rnd_chance(g, 50) ? TT_AND : TT_OR, a, b);
  }
  if (g->naxes > 0 && rnd_chance(g, 45)) {
    const struct tt_expr *v = rnd_ref(g, axis(g));
    if (rnd_chance(g, 30))
      v = tt_imod(g->arena, v, 2 + rnd_pick(g, 2));
    const struct tt_expr *w = rnd_chance(g, 40)
                                  ? rnd_ref(g, axis(g))
                                  : tt_idx(g->arena, rnd_pick(g, 8));
    return tt_binary(g->arena, op, v, w);
  }
  enum tt_dtype t = rnd_any_dtype(g);
  struct rnd_val a = read_any(g, t, true);
  if (t == TT_BOOL)
    return a.e;
  struct rnd_val b = rnd_chance(g, 50) ? read_any(g, t, true) : number(g, t);
  return tt_binary(g->arena, op, a.e, b.e);
}

/* ---- values ------------------------------------------------------------ */

static struct rnd_val
unary(struct rnd *g, enum tt_fn fn, struct rnd_val a, double mag)
{
  return (struct rnd_val){tt_call(g->arena, fn, a.e->type.dtype, 1, &a.e), mag,
                          false};
}

struct rnd_val
rnd_limit(struct rnd *g, struct rnd_val a, double to)
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
static struct rnd_val
positive(struct rnd *g, struct rnd_val a)
{
  enum tt_dtype t = a.e->type.dtype;
  a.e = tt_call(g->arena, TT_FN_ABS, t, 1, &a.e);
  a.e = tt_binary(g->arena, TT_ADD, a.e, tt_flt(g->arena, t, 0.5));
  a.mag += 0.5;
  a.exact = false;
  return a;
}

struct rnd_val
rnd_float_call(struct rnd *g, struct rnd_val a)
{
  switch (rnd_pick(g, 8)) {
  case 0:
    return unary(g, TT_FN_EXP, rnd_limit(g, a, 2), 8);
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
    struct rnd_val p = positive(g, rnd_limit(g, a, 2));
    const struct tt_expr *args[] = {p.e,
                                    tt_flt(g->arena, p.e->type.dtype, 1.5)};
    return (struct rnd_val){
        tt_call(g->arena, TT_FN_POW, p.e->type.dtype, 2, args), 8, false};
  }
  }
}

static struct rnd_val
float_binary(struct rnd *g, enum tt_dtype t, int depth)
{
  struct rnd_val a = rnd_value(g, t, depth - 1), b = rnd_value(g, t, depth - 1);
  struct rnd_val r = {.exact = false};
  switch (rnd_pick(g, 6)) {
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
    r.e = tt_binary(g->arena, rnd_chance(g, 50) ? TT_MIN : TT_MAX, a.e, b.e);
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
float_dtype(struct rnd *g)
{
  static const enum tt_dtype t[] = {TT_F32, TT_F64, TT_F16, TT_BF16};
  return t[rnd_pick(g, 4)];
}

static enum tt_dtype
int_dtype(struct rnd *g)
{
  static const enum tt_dtype t[] = {TT_I8,  TT_U8,  TT_I16, TT_U16,
                                    TT_I32, TT_U32, TT_I64};
  return t[rnd_pick(g, 7)];
}

/* A float from an integer (small ones), another float, or a rounding. */
static struct rnd_val
float_from(struct rnd *g, enum tt_dtype t, int depth)
{
  if (rnd_chance(g, 40)) {
    enum tt_dtype u = int_dtype(g);
    const struct tt_expr *e =
        tt_binary(g->arena, TT_BAND, rnd_value(g, u, depth - 1).e,
                  tt_int(g->arena, u, 15));
    return (struct rnd_val){tt_cast(g->arena, t, e), 15, true};
  }
  if (rnd_chance(g, 50)) {
    struct rnd_val a = read_any(g, t, true);
    enum tt_fn fn = rnd_chance(g, 40)   ? TT_FN_FLOOR
                    : rnd_chance(g, 50) ? TT_FN_CEIL
                                        : TT_FN_ROUND;
    struct rnd_val r = unary(g, fn, a, a.mag + 1);
    r.exact = true;
    return r;
  }
  struct rnd_val a = rnd_value(g, float_dtype(g), depth - 1);
  a.e = tt_cast(g->arena, t, a.e);
  a.exact = false;
  return a;
}

static struct rnd_val
float_value(struct rnd *g, enum tt_dtype t, int depth)
{
  struct rnd_val a;
  switch (rnd_pick(g, 8)) {
  case 0:
    a = rnd_float_call(g, rnd_value(g, t, depth - 1));
    break;
  case 1:
    a = rnd_value(g, t, depth - 1);
    a.e = rnd_chance(g, 50) ? tt_neg(g->arena, a.e)
                            : tt_call(g->arena, TT_FN_ABS, t, 1, &a.e);
    break;
  case 2:
    a = float_from(g, t, depth);
    break;
  default:
    a = float_binary(g, t, depth);
    break;
  }
  return rnd_limit(g, a, 64);
}

static const struct tt_expr *
int_binary(struct rnd *g, enum tt_dtype t, int depth)
{
  static const enum tt_binop ops[] = {TT_ADD, TT_ADD, TT_SUB,  TT_MUL, TT_MUL,
                                      TT_MIN, TT_MAX, TT_BAND, TT_BOR, TT_BXOR,
                                      TT_DIV, TT_MOD, TT_SHL,  TT_SHR};
  static const int64_t divisors[] = {2, 3, 4, 7, 8, -3};
  enum tt_binop op = ops[rnd_pick(g, 14)];
  const struct tt_expr *a = rnd_value(g, t, depth - 1).e, *b;
  if (op == TT_SHL || op == TT_SHR)
    b = tt_int(g->arena, t, rnd_pick(g, tt_dtype_bits(t) < 16 ? 7 : 15));
  else if (op == TT_DIV || op == TT_MOD) {
    b = tt_int(g->arena, t, divisors[rnd_pick(g, 6)]);
    if (rnd_chance(g, 30)) { /* 1..7, from data */
      b = tt_binary(g->arena, TT_BAND, rnd_value(g, t, depth - 1).e,
                    tt_int(g->arena, t, 7));
      b = tt_binary(g->arena, TT_MAX, b, tt_int(g->arena, t, 1));
    }
  } else
    b = rnd_value(g, t, depth - 1).e;
  return tt_binary(g->arena, op, a, b);
}

static const struct tt_expr *
int_call(struct rnd *g, enum tt_dtype t, int depth)
{
  const struct tt_expr *args[] = {rnd_value(g, t, depth - 1).e, NULL};
  if (t == TT_I32 && rnd_chance(g, 50)) {
    bool mul = rnd_chance(g, 50);
    args[1] = mul ? rnd_value(g, t, depth - 1).e
                  : tt_int(g->arena, t, rnd_pick(g, 20));
    return tt_call(g->arena, mul ? TT_FN_SQRDMULH : TT_FN_RDIVP2, t, 2, args);
  }
  if (rnd_chance(g, 50))
    return tt_call(g->arena, TT_FN_ABS, t, 1, args);
  args[1] = tt_int(g->arena, t, 1 + rnd_pick(g, 9));
  return tt_call(g->arena, rnd_chance(g, 50) ? TT_FN_QUOT : TT_FN_REM, t, 2,
                 args);
}

/* An integer from an axis, a float input, a bool or another integer. */
static const struct tt_expr *
int_from(struct rnd *g, enum tt_dtype t, int depth)
{
  const struct tt_expr *e;
  if (g->naxes > 0 && rnd_chance(g, 30))
    e = rnd_ref(g, axis(g));
  else if (rnd_chance(g, 25)) {
    enum tt_dtype u = float_dtype(g);
    e = tt_binary(g->arena, TT_MUL, read_any(g, u, true).e,
                  tt_flt(g->arena, u, 8));
    e = tt_call(g->arena, TT_FN_ROUND, u, 1, &e);
  } else if (rnd_chance(g, 15))
    e = rnd_cond(g, 1);
  else
    e = rnd_value(g, int_dtype(g), depth - 1).e;
  return rnd_chance(g, 35) ? tt_sat(g->arena, t, e) : tt_cast(g->arena, t, e);
}

static const struct tt_expr *
int_value(struct rnd *g, enum tt_dtype t, int depth)
{
  switch (rnd_pick(g, 8)) {
  case 0:
    return tt_neg(g->arena, rnd_value(g, t, depth - 1).e);
  case 1:
    return int_call(g, t, depth);
  case 2:
    return int_from(g, t, depth);
  case 3:
    return tt_not(g->arena, rnd_value(g, t, depth - 1).e);
  default:
    return int_binary(g, t, depth);
  }
}

struct rnd_val
rnd_value(struct rnd *g, enum tt_dtype t, int depth)
{
  if (depth <= 0 || rnd_chance(g, 15))
    return rnd_chance(g, 88) ? read_any(g, t, false) : number(g, t);
  if (t == TT_BOOL)
    return (struct rnd_val){rnd_cond(g, depth), 0, true};
  if (rnd_chance(g, 12)) {
    struct rnd_val a = rnd_value(g, t, depth - 1),
                   b = rnd_value(g, t, depth - 1);
    a.e = tt_select(g->arena, rnd_cond(g, 1), a.e, b.e);
    a.mag = a.mag > b.mag ? a.mag : b.mag;
    a.exact = false;
    return a;
  }
  if (tt_dtype_is_float(t))
    return float_value(g, t, depth);
  return (struct rnd_val){int_value(g, t, depth), 0, true};
}
