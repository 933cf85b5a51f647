/* The generator of random programs: stages, one after the other, from tensors
 * that are there already or are added as inputs when a stage wants one. */
#include "config.h"

#include "tests/random_program.h"

#include "ir/passes.h"

#include "tests/random_value.h"

/* ---- stages ------------------------------------------------------------ */

static void
open_stage(struct rnd *g, int nspatial, const int64_t *spatial, int nreduce,
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
stage_points(const struct rnd *g, bool spatial)
{
  int64_t n = 1;
  for (int i = spatial ? 0 : g->nspatial; i < g->naxes; i++)
    n *= g->axes[i]->extent;
  return n;
}

struct frozen {
  const struct rnd *g;
  bool all;
};

static void
check_frozen(void *ctx, const struct tt_expr *e)
{
  struct frozen *f = ctx;
  if (e->kind == TT_LOAD)
    f->all &= rnd_is_frozen(f->g, e->tensor);
}

static struct tt_tensor *
close_stage(struct rnd *g, enum tt_red red, struct rnd_val v)
{
  int64_t dims[MAX_AXES];
  for (int i = 0; i < g->nspatial; i++)
    dims[i] = g->axes[i]->extent;
  struct tt_tensor *out =
      rnd_add_tensor(g, "S", TT_TEMP, v.e->type.dtype, g->nspatial, dims);
  g->mag[out->id] = v.mag;
  g->exact[out->id] = !tt_dtype_is_float(out->dtype);
  struct tt_stage *s =
      tt_program_stage(g->program, out, g->axes, red, g->nreduce,
                       g->axes + g->nspatial, v.e, g->where);
  struct frozen f = {g, true};
  tt_expr_visit(v.e, check_frozen, &f);
  if (g->where)
    tt_expr_visit(g->where, check_frozen, &f);
  s->prepare = f.all; /* settle() looks at the whole program */
  g->points -= stage_points(g, true);
  return out;
}

static enum tt_red
any_red(struct rnd *g, enum tt_dtype t)
{
  static const enum tt_red reds[] = {TT_RED_SUM, TT_RED_SUM, TT_RED_SUM,
                                     TT_RED_MAX, TT_RED_MIN, TT_RED_PROD};
  if (t == TT_BOOL)
    return rnd_chance(g, 50) ? TT_RED_ANY : TT_RED_ALL;
  return reds[rnd_pick(g, 6)];
}

/* Keep what a float reduction gives small. */
static struct rnd_val
reducible(struct rnd *g, enum tt_red red, struct rnd_val v)
{
  enum tt_dtype t = v.e->type.dtype;
  if (!tt_dtype_is_float(t))
    return v;
  if (red == TT_RED_PROD) {
    v = rnd_limit(g, v, 1.125);
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
generic_stage(struct rnd *g)
{
  int64_t spatial[4], reduce[3];
  int ns = (int)rnd_pick(g, 10) < 1 ? 0 : 1 + (int)rnd_pick(g, 3), nr = 0;
  enum tt_dtype t = rnd_any_dtype(g);
  enum tt_red red = TT_RED_NONE;
  if (rnd_chance(g, 45)) {
    nr = 1 + (int)rnd_pick(g, 2);
    red = any_red(g, t);
  }
  int64_t points = 1;
  for (int i = 0; i < ns + nr; i++) {
    int64_t n = rnd_extent(g);
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
  struct rnd_val v = rnd_value(g, t, 1 + (int)rnd_pick(g, 3));
  if (g->allow_where && rnd_chance(g, 15)) {
    g->allow_where = false;
    rnd_conjoin(g, &g->where, rnd_cond(g, 1));
  }
  close_stage(g, red, reducible(g, red, v));
}

/* Sum of products of two tensors, integers widened before. */
static struct rnd_val
product(struct rnd *g, const struct tt_expr *a, const struct tt_expr *b)
{
  enum tt_dtype t = a->type.dtype;
  if (tt_dtype_is_int(t) && tt_dtype_bits(t) < 32) {
    a = tt_cast(g->arena, TT_I32, a);
    b = tt_cast(g->arena, TT_I32, b);
  }
  return (struct rnd_val){tt_binary(g->arena, TT_MUL, a, b), 4, false};
}

static enum tt_dtype
number_dtype(struct rnd *g)
{
  enum tt_dtype t = rnd_any_dtype(g);
  return t == TT_BOOL ? TT_F32 : t;
}

/* A matrix of numbers among the results, for the operators that want one. */
static struct tt_tensor *
recent_matrix(struct rnd *g)
{
  struct tt_tensor *t = rnd_chance(g, 65) ? rnd_recent(g) : NULL;
  return t && t->ndim == 2 && t->dtype != TT_BOOL && t->dims[0] <= 13 &&
                 t->dims[1] <= 13
             ? t
             : NULL;
}

static void
matmul_stage(struct rnd *g)
{
  int64_t m = rnd_extent(g), n = rnd_extent(g), k = rnd_extent(g);
  enum tt_dtype t = number_dtype(g);
  bool transposed = rnd_chance(g, 40);
  struct tt_tensor *ta = recent_matrix(g);
  if (ta) {
    t = ta->dtype;
    m = ta->dims[0];
    k = ta->dims[1];
  }
  int64_t out[] = {m, n}, a[] = {m, k}, b[] = {k, n}, bt[] = {n, k};
  ta = ta ? ta : rnd_add_source(g, t, 2, a);
  struct tt_tensor *tb = rnd_add_source(g, t, 2, transposed ? bt : b);
  open_stage(g, 2, out, 1, &k);
  const struct tt_expr *i = rnd_ref(g, g->axes[0]), *j = rnd_ref(g, g->axes[1]);
  const struct tt_expr *r = rnd_ref(g, g->axes[2]);
  const struct tt_expr *ia[] = {i, r}, *ib[] = {r, j}, *ibt[] = {j, r};
  struct rnd_val v = product(g, tt_load(g->arena, ta, 2, ia),
                             tt_load(g->arena, tb, 2, transposed ? ibt : ib));
  v.mag = 2 * g->mag[ta->id];
  close_stage(g, TT_RED_SUM, reducible(g, TT_RED_SUM, v));
}

/* A convolution or a pooling in one dimension, with channels, padding,
 * stride and dilation; the border by else, where or nothing. */
static void
window_stage(struct rnd *g)
{
  int64_t r = 1 + rnd_pick(g, 4), stride = 1 + rnd_pick(g, 2),
          dil = 1 + rnd_pick(g, 2);
  int64_t pad = rnd_pick(g, 3), y = rnd_extent(g), c = 1 + rnd_pick(g, 3);
  int64_t k = 1 + rnd_pick(g, 4);
  int64_t h = (y - 1) * stride + (r - 1) * dil + 1 - 2 * pad;
  h = h < 1 ? 1 : h;
  bool pool = rnd_chance(g, 35), by_where = !pool && rnd_chance(g, 40);
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
  x = x ? x : rnd_add_source(g, t, 2, dx);
  struct tt_tensor *w = pool ? NULL : rnd_add_source(g, t, 3, dw);
  open_stage(g, 2, out, pool ? 1 : 2, red);
  const struct tt_expr *tap = rnd_ref(g, g->axes[g->naxes - 1]);
  const struct tt_expr *chan = rnd_ref(g, g->axes[pool ? 0 : 2]);
  const struct tt_expr *pos = rnd_plus(
      g,
      tt_iadd(g->arena, tt_imul(g->arena, rnd_ref(g, g->axes[1]), stride),
              tt_imul(g->arena, tap, dil)),
      -pad);
  const struct tt_expr *ix[] = {chan, pos};
  const struct tt_expr *iw[] = {rnd_ref(g, g->axes[0]), chan, tap};
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
  struct rnd_val v = {e, g->mag[x->id] + 2, false};
  if (pool) {
    close_stage(g, rnd_chance(g, 70) ? TT_RED_MAX : TT_RED_MIN, v);
    return;
  }
  v = product(g, e, tt_load(g->arena, w, 3, iw));
  v.mag = 2 * g->mag[x->id];
  close_stage(g, TT_RED_SUM, reducible(g, TT_RED_SUM, v));
}

/* A window backwards: points where y + pad - r is a multiple of the stride. */
static void
strided_back_stage(struct rnd *g)
{
  int64_t r = 1 + rnd_pick(g, 5), stride = 2 + rnd_pick(g, 2),
          pad = rnd_pick(g, 3), h = 1 + rnd_pick(g, 6);
  int64_t c = 1 + rnd_pick(g, 3), k = 1 + rnd_pick(g, 9);
  int64_t out[] = {k, (h - 1) * stride + r}, red[] = {c, r};
  int64_t dx[] = {c, h}, dw[] = {k, c, r};
  enum tt_dtype t = number_dtype(g);
  struct tt_tensor *x = rnd_add_source(g, t, 2, dx),
                   *w = rnd_add_source(g, t, 3, dw);
  open_stage(g, 2, out, 2, red);
  const struct tt_expr *tap = rnd_ref(g, g->axes[3]);
  const struct tt_expr *from =
      rnd_plus(g, tt_isub(g->arena, rnd_ref(g, g->axes[1]), tap), pad);
  if (rnd_chance(g, 30)) /* the other way round */
    from = rnd_plus(g, tt_iadd(g->arena, rnd_ref(g, g->axes[1]), tap), -pad);
  const struct tt_expr *pos = tt_idiv(g->arena, from, stride);
  const struct tt_expr *ix[] = {rnd_ref(g, g->axes[2]), pos};
  const struct tt_expr *iw[] = {rnd_ref(g, g->axes[0]), ix[0], tap};
  const struct tt_expr *in = tt_binary(
      g->arena, TT_AND, tt_binary(g->arena, TT_GE, pos, tt_idx(g->arena, 0)),
      tt_binary(g->arena, TT_LT, pos, tt_idx(g->arena, h)));
  g->where = tt_binary(g->arena, TT_EQ, tt_imod(g->arena, from, stride),
                       tt_idx(g->arena, rnd_chance(g, 70) ? 0 : 1));
  const struct tt_expr *e = tt_select(g->arena, in, tt_load(g->arena, x, 2, ix),
                                      tt_zero(g->arena, t));
  struct rnd_val v = product(g, e, tt_load(g->arena, w, 3, iw));
  v.mag = 2 * g->mag[x->id];
  close_stage(g, TT_RED_SUM, reducible(g, TT_RED_SUM, v));
}

/* An index of the transformed tensor: the axis of the sum alone, or in a
 * window of tiles, in or out of `n` elements. */
static const struct tt_expr *
window_index(struct rnd *g, const struct tt_var *tile, const struct tt_var *tap,
             int64_t step, int64_t pad, int64_t n, const struct tt_expr **in)
{
  const struct tt_expr *x =
      tt_iadd(g->arena, tt_imul(g->arena, rnd_ref(g, tile), step),
              rnd_plus(g, rnd_ref(g, tap), -pad));
  if (pad) {
    rnd_conjoin(g, in, tt_binary(g->arena, TT_GE, x, tt_idx(g->arena, 0)));
    rnd_conjoin(g, in, tt_binary(g->arena, TT_LT, x, tt_idx(g->arena, n)));
  }
  return x;
}

/* sum[r,s](A[i,r] * B[j,s] * X[...]), as tiles are transformed: one product;
 * windows of X, with or without a border; or back, by i % c and i / c. */
static void
transform_stage(struct rnd *g)
{
  int kind = (int)rnd_pick(g, 3);
  int64_t c = 1 + rnd_pick(g, 3), red[] = {2 + rnd_pick(g, 3), 3},
          ch = 1 + rnd_pick(g, 9), p = 1 + rnd_pick(g, 3), pad = rnd_pick(g, 2);
  int64_t rows = kind == 2 ? c : 1 + rnd_pick(g, 4), cols = kind == 2 ? c : 3;
  enum tt_dtype t = number_dtype(g);
  int64_t da[] = {rows, red[0]}, db[] = {cols, red[1]};
  int64_t h = (p - 1) * c + red[0], w = (p - 1) * c + red[1];
  int64_t sandwich[] = {rows, cols}, tiles[] = {rows, cols, ch, p, p};
  int64_t back[] = {ch, p * c, p * c};
  int64_t dx0[] = {red[0], red[1]}, dx1[] = {ch, h, w},
          dx2[] = {red[0], red[1], ch, p, p};
  struct tt_tensor *a = rnd_add_source(g, t, 2, da),
                   *b = rnd_add_source(g, t, 2, db),
                   *x = rnd_add_source(g, t, kind ? kind == 1 ? 3 : 5 : 2,
                                       kind ? kind == 1 ? dx1 : dx2 : dx0);
  if (kind == 0)
    open_stage(g, 2, sandwich, 2, red);
  else
    open_stage(g, kind == 1 ? 5 : 3, kind == 1 ? tiles : back, 2, red);
  const struct tt_var *const *ax = g->axes;
  int n = g->nspatial;
  const struct tt_expr *r = rnd_ref(g, ax[n]), *s = rnd_ref(g, ax[n + 1]);
  const struct tt_expr *i = rnd_ref(g, ax[kind == 2]),
                       *j = rnd_ref(g, ax[1 + (kind == 2)]), *in = NULL;
  const struct tt_expr *ix[5] = {r, s};
  if (kind == 1) {
    ix[0] = rnd_ref(g, ax[2]);
    ix[1] = window_index(g, ax[3], ax[n], c, pad, h, &in);
    ix[2] = window_index(g, ax[4], ax[n + 1], c, pad, w, &in);
  } else if (kind == 2) {
    ix[2] = rnd_ref(g, ax[0]);
    ix[3] = tt_idiv(g->arena, i, c);
    ix[4] = tt_idiv(g->arena, j, c);
    i = tt_imod(g->arena, i, c);
    j = tt_imod(g->arena, j, c);
  }
  const struct tt_expr *ia[] = {i, r}, *ib[] = {j, s};
  const struct tt_expr *e = tt_load(g->arena, x, x->ndim, ix);
  if (in)
    e = tt_select(g->arena, in, e, tt_zero(g->arena, t));
  const struct tt_expr *load_a = tt_load(g->arena, a, 2, ia),
                       *load_b = tt_load(g->arena, b, 2, ib);
  struct rnd_val v = product(g, load_a, e);
  if (tt_dtype_is_int(t) && tt_dtype_bits(t) < 32)
    load_b = tt_cast(g->arena, TT_I32, load_b);
  v.e = tt_binary(g->arena, TT_MUL, v.e, load_b);
  v.mag = 4 * g->mag[x->id];
  close_stage(g, TT_RED_SUM, reducible(g, TT_RED_SUM, v));
}

/* Another shape or order of the elements of a tensor. */
static void
layout_stage(struct rnd *g)
{
  struct tt_tensor *from = rnd_recent(g);
  from = from ? from : rnd_source(g, rnd_any_dtype(g), false);
  if (!from || from->ndim < 2 || tt_tensor_size(from) > STAGE_POINTS)
    return;
  int64_t dims[TT_MAX_DIMS], total = tt_tensor_size(from);
  const struct tt_expr *idx[TT_MAX_DIMS];
  int n = from->ndim;
  if (rnd_chance(g, 50)) { /* transposed by a rotation */
    int by = 1 + (int)rnd_pick(g, n - 1);
    for (int i = 0; i < n; i++)
      dims[i] = from->dims[(i + by) % n];
    open_stage(g, n, dims, 0, NULL);
    for (int i = 0; i < n; i++)
      idx[(i + by) % n] = rnd_ref(g, g->axes[i]);
  } else { /* flattened */
    open_stage(g, 1, &total, 0, NULL);
    const struct tt_expr *rest = rnd_ref(g, g->axes[0]);
    for (int i = n - 1; i >= 0; i--) {
      idx[i] = i ? tt_imod(g->arena, rest, from->dims[i]) : rest;
      rest = tt_idiv(g->arena, rest, from->dims[i]);
    }
  }
  close_stage(g, TT_RED_NONE,
              (struct rnd_val){tt_load(g->arena, from, n, idx),
                               g->mag[from->id], false});
}

/* The same element of one or two tensors of one shape. */
static void
pointwise_stage(struct rnd *g)
{
  struct tt_tensor *from = rnd_recent(g);
  from = from && from->dtype != TT_BOOL ? from
                                        : rnd_source(g, number_dtype(g), false);
  if (!from || from->ndim == 0 || tt_tensor_size(from) > STAGE_POINTS)
    return;
  const struct tt_expr *idx[TT_MAX_DIMS];
  open_stage(g, from->ndim, from->dims, 0, NULL);
  for (int i = 0; i < from->ndim; i++)
    idx[i] = rnd_ref(g, g->axes[i]);
  struct rnd_val a = {tt_load(g->arena, from, from->ndim, idx),
                      g->mag[from->id], false};
  struct rnd_val b = rnd_value(g, from->dtype, 1);
  bool is_float = tt_dtype_is_float(from->dtype);
  struct rnd_val r = {
      tt_binary(g->arena, rnd_chance(g, 60) ? TT_ADD : TT_MAX, a.e, b.e),
      a.mag + b.mag, false};
  if (is_float && rnd_chance(g, 50))
    r = rnd_float_call(g, r);
  close_stage(g, TT_RED_NONE, is_float ? rnd_limit(g, r, 64) : r);
}

/* The lowest index of the largest of each row, as the frontend lowers
 * argmax. */
static void
argmax_stages(struct rnd *g)
{
  int64_t rows = rnd_extent(g), dims[] = {rows, rnd_extent(g)};
  enum tt_dtype t = number_dtype(g);
  struct tt_tensor *x = rnd_add_source(g, t, 2, dims);
  open_stage(g, 1, dims, 1, dims + 1);
  const struct tt_expr *ix[] = {rnd_ref(g, g->axes[0]), rnd_ref(g, g->axes[1])};
  struct rnd_val v = {tt_load(g->arena, x, 2, ix), 2, true};
  struct tt_tensor *most = close_stage(g, TT_RED_MAX, v);
  open_stage(g, 1, dims, 1, dims + 1);
  const struct tt_expr *iy[] = {rnd_ref(g, g->axes[0]), rnd_ref(g, g->axes[1])};
  const struct tt_expr *same =
      tt_binary(g->arena, TT_EQ, tt_load(g->arena, x, 2, iy),
                tt_load(g->arena, most, 1, iy));
  v.e = tt_select(g->arena, same, tt_cast(g->arena, TT_I32, iy[1]),
                  tt_int(g->arena, TT_I32, INT32_MAX));
  close_stage(g, TT_RED_MIN, v);
}

static void
one_stage(struct rnd *g)
{
  switch (rnd_pick(g, 14)) {
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
  case 8:
    transform_stage(g);
    break;
  case 9:
    strided_back_stage(g);
    break;
  default:
    generic_stage(g);
    break;
  }
}

/* ---- the whole --------------------------------------------------------- */

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
settle(struct rnd *g)
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
    if (!used[s->out->id] || rnd_chance(g, 15))
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
  struct rnd g = {.arena = arena, .seed = seed, .points = POINTS};
  g.program = tt_program_new(arena, "random");
  int stages = 1 + (int)rnd_pick(&g, 6);
  bool weights = rnd_chance(&g, 40);
  for (int i = 0; g.program->nstages < stages && i < 4 * stages; i++) {
    if (g.points < STAGE_POINTS || g.program->ntensors > MAX_TENSORS - 16)
      break;
    g.frozen = weights && rnd_chance(&g, 40);
    one_stage(&g);
  }
  while (g.program->nstages == 0) {
    g.frozen = false;
    matmul_stage(&g);
  }
  settle(&g);
  return g.program;
}

struct tt_program *
tt_matmul_program(struct tt_arena *ar, int64_t m, int64_t n, int64_t k)
{
  struct tt_program *p = tt_program_new(ar, "mm");
  struct tt_tensor *a =
      tt_program_tensor(p, "A", TT_INPUT, TT_F32, 2, (int64_t[]){m, k});
  struct tt_tensor *b =
      tt_program_tensor(p, "B", TT_INPUT, TT_F32, 2, (int64_t[]){k, n});
  struct tt_tensor *c =
      tt_program_tensor(p, "C", TT_OUTPUT, TT_F32, 2, (int64_t[]){m, n});
  const struct tt_var *vm = tt_program_var(p, "m", m),
                      *vn = tt_program_var(p, "n", n),
                      *vk = tt_program_var(p, "k", k);
  const struct tt_expr *im = tt_var_ref(ar, vm), *in = tt_var_ref(ar, vn),
                       *ik = tt_var_ref(ar, vk);
  const struct tt_expr *value = tt_binary(
      ar, TT_MUL, tt_load(ar, a, 2, (const struct tt_expr *[]){im, ik}),
      tt_load(ar, b, 2, (const struct tt_expr *[]){ik, in}));
  tt_program_stage(p, c, (const struct tt_var *[]){vm, vn}, TT_RED_SUM, 1, &vk,
                   value, NULL);
  return p;
}

struct tt_program *
tt_halves_program(struct tt_arena *ar, enum tt_dtype t, int64_t m, int64_t n,
                  int64_t k)
{
  struct tt_program *p = tt_program_new(ar, "halves");
  struct tt_tensor *a =
      tt_program_tensor(p, "A", TT_INPUT, t, 2, (int64_t[]){m, k});
  struct tt_tensor *b =
      tt_program_tensor(p, "B", TT_INPUT, t, 2, (int64_t[]){k, n});
  struct tt_tensor *s =
      tt_program_tensor(p, "S", TT_TEMP, TT_F32, 2, (int64_t[]){m, n});
  struct tt_tensor *c =
      tt_program_tensor(p, "C", TT_OUTPUT, t, 2, (int64_t[]){m, n});
  const struct tt_var *at[] = {tt_program_var(p, "m", m),
                               tt_program_var(p, "n", n)};
  const struct tt_var *to[] = {tt_program_var(p, "i", m),
                               tt_program_var(p, "j", n)};
  const struct tt_var *vk = tt_program_var(p, "k", k);
  const struct tt_expr *im = tt_var_ref(ar, at[0]), *in = tt_var_ref(ar, at[1]),
                       *ik = tt_var_ref(ar, vk);
  const struct tt_expr *x =
      tt_load(ar, a, 2, (const struct tt_expr *[]){im, ik});
  const struct tt_expr *y =
      tt_load(ar, b, 2, (const struct tt_expr *[]){ik, in});
  tt_program_stage(
      p, s, at, TT_RED_SUM, 1, &vk,
      tt_binary(ar, TT_MUL, tt_cast(ar, TT_F32, x), tt_cast(ar, TT_F32, y)),
      NULL);
  const struct tt_expr *ij[] = {tt_var_ref(ar, to[0]), tt_var_ref(ar, to[1])};
  tt_program_stage(p, c, to, TT_RED_NONE, 0, NULL,
                   tt_cast(ar, t, tt_load(ar, s, 2, ij)), NULL);
  return p;
}
