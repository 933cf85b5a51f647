/* Scalar replacement: local tensors become variables.
 *
 * A local all of whose indices are constants is cut into slices, the vectors
 * that are read and written as a whole, each of which becomes a TT_REGISTER
 * tensor of its own: without dimensions for a scalar, or of as many elements
 * as a vector has lanes.  After this pass every TT_REGISTER tensor has that
 * form, and the printer makes it a variable; any other local is an array.
 */
#include "config.h"

#include "codegen/internal.h"

#include <stdlib.h>

enum {
  MAX_REGISTERS = 1024, /* slices of a local that was meant for registers */
  MAX_SLICES = 64       /* slices of another small local */
};

struct slice {
  int64_t off;
  int lanes;
  const struct tt_tensor *var;
};

/* What became of a local. */
struct promoted {
  const struct tt_tensor *old;
  int64_t stride;                /* between the lanes of its vectors */
  const struct tt_tensor *array; /* not NULL: only moved to memory */
  struct slice *slices;
  int n;
};

static int
by_offset(const void *x, const void *y)
{
  const struct slice *a = x, *b = y;
  if (a->off != b->off)
    return a->off < b->off ? -1 : 1;
  return b->lanes - a->lanes;
}

/* Elements that lie `stride` apart become neighbours: lanes of one slice. */
static int64_t
rearranged(const struct promoted *p, int64_t off)
{
  int64_t rows = (tt_tensor_size(p->old) + p->stride - 1) / p->stride;
  return off % p->stride * rows + off / p->stride;
}

/* The constant offset and lanes of an access; false: not constant, or the
 * stride is another one. */
static bool
constant_slice(const struct promoted *p, int n,
               const struct tt_expr *const *idx, struct slice *out)
{
  const struct tt_tensor *t = p->old;
  int64_t stride, off = 0;
  tt_access_shape(t, n, idx, &out->lanes, &stride);
  if (out->lanes > 1 && stride != p->stride)
    return false;
  for (int i = 0; i < n; i++) {
    const struct tt_expr *e = idx[i];
    if (e->kind == TT_RAMP || e->kind == TT_BROADCAST)
      e = e->a;
    if (e->kind != TT_INT)
      return false;
    off += e->ival * tt_tensor_stride(t, i);
  }
  out->off = rearranged(p, off);
  return true;
}

/* Sorts the accesses and keeps the distinct slices; false if two overlap.  A
 * scalar may be a lane of a slice. */
static bool
merge(struct promoted *p, int n)
{
  qsort(p->slices, (size_t)n, sizeof *p->slices, by_offset);
  for (int i = 0; i < n; i++) {
    struct slice *s = &p->slices[i];
    struct slice *last = p->n ? &p->slices[p->n - 1] : NULL;
    if (last && s->off < last->off + last->lanes) {
      if (s->lanes > 1 && (s->off != last->off || s->lanes != last->lanes))
        return false;
      continue;
    }
    p->slices[p->n++] = *s;
  }
  return true;
}

/* The stride of some vector of the tensor: all must have the same. */
static int64_t
stride_of(const struct tt_tensor *t, const struct accesses *all)
{
  for (int i = 0; i < all->n; i++) {
    int lanes;
    int64_t stride;
    if (all->items[i].tensor != t)
      continue;
    tt_access_shape(t, all->items[i].n, all->items[i].idx, &lanes, &stride);
    if (lanes > 1)
      return stride > 0 ? stride : 1;
  }
  return 1;
}

static bool
find_slices(struct pass *pass, const struct tt_stmt *alloc, struct promoted *p)
{
  const struct tt_tensor *t = alloc->tensor;
  struct accesses all = {0};
  if (t->fragment)
    return false;
  tt_collect_accesses(alloc->body, &all);
  p->slices = TT_ARRAY(pass->arena, struct slice, (size_t)all.n + 1);
  p->n = 0;
  int n = 0;
  bool ok = true;
  p->stride = stride_of(t, &all);
  for (int i = 0; i < all.n && ok; i++)
    if (all.items[i].tensor == t)
      ok = constant_slice(p, all.items[i].n, all.items[i].idx, &p->slices[n++]);
  free(all.items);
  return ok && merge(p, n) &&
         p->n <= (t->scope == TT_REGISTER ? MAX_REGISTERS : MAX_SLICES);
}

/* acc_2_1: the indices of the slice, where the last one counts slices. */
static const char *
slice_name(struct pass *pass, const struct tt_tensor *t, const struct slice *s,
           int ordinal, bool alone)
{
  const char *name = t->name;
  for (int d = 0; d < t->ndim; d++) {
    int64_t i = s->off / tt_tensor_stride(t, d) % t->dims[d];
    bool last = d == t->ndim - 1;
    if (last && s->lanes > 1)
      i = ordinal;
    if (t->dims[d] > 1 && !(last && alone))
      name = tt_arena_printf(pass->arena, "%s_%lld", name, (long long)i);
  }
  return name;
}

static void
make_variables(struct pass *pass, struct promoted *p)
{
  const struct tt_tensor *t = p->old;
  int64_t row = t->ndim ? t->dims[t->ndim - 1] : 1;
  int ordinal = 0;
  for (int i = 0; i < p->n; i++) {
    struct slice *s = &p->slices[i];
    bool first = i == 0 || s->off / row != s[-1].off / row;
    bool final = i == p->n - 1 || s->off / row != s[1].off / row;
    ordinal = first ? 0 : ordinal + 1;
    struct tt_tensor *v = tt_pass_tensor(pass, t);
    v->name =
        p->stride == 1
            ? slice_name(pass, t, s, ordinal, first && final && s->lanes > 1)
            : tt_arena_printf(pass->arena, "%s_%d", t->name, i);
    v->scope = TT_REGISTER;
    v->ndim = s->lanes > 1;
    v->dims[0] = s->lanes;
    s->var = v;
  }
}

/* ---- rewriting -------------------------------------------------------- */

struct rewrite {
  struct pass *pass;
  const struct promoted *p;
};

static const struct slice *
find_slice(const struct promoted *p, int64_t off)
{
  int lo = 0, hi = p->n - 1;
  while (lo < hi) {
    int mid = (lo + hi + 1) / 2;
    if (p->slices[mid].off <= off)
      lo = mid;
    else
      hi = mid - 1;
  }
  return &p->slices[lo];
}

/* The tensor and indices (0 or 1) that replace an access. */
static const struct tt_tensor *
new_access(const struct rewrite *r, int *n, const struct tt_expr *const *idx,
           const struct tt_expr **new_idx)
{
  struct slice want;
  if (r->p->array) {
    for (int i = 0; i < *n; i++)
      new_idx[i] = idx[i];
    return r->p->array;
  }
  constant_slice(r->p, *n, idx, &want);
  const struct slice *s = find_slice(r->p, want.off);
  const struct tt_expr *lane = tt_idx(r->pass->arena, want.off - s->off);
  *n = s->lanes > 1;
  new_idx[0] =
      want.lanes > 1 ? tt_ramp(r->pass->arena, lane, 1, want.lanes) : lane;
  return s->var;
}

static const struct tt_expr *
rewrite_load(void *ctx, struct tt_arena *arena, const struct tt_expr *e)
{
  const struct rewrite *r = ctx;
  const struct tt_expr *idx[TT_MAX_DIMS];
  if (e->kind != TT_LOAD || e->tensor != r->p->old)
    return e;
  int n = e->nargs;
  const struct tt_tensor *t = new_access(r, &n, e->args, idx);
  return tt_load(arena, t, n, idx);
}

static const struct tt_expr *
rewrite_expr(void *ctx, struct tt_arena *arena, const struct tt_expr *e)
{
  return tt_expr_rewrite(arena, e, rewrite_load, ctx);
}

static const struct tt_stmt *
rewrite_stores(void *ctx, const struct tt_stmt *s)
{
  const struct rewrite *r = ctx;
  const struct tt_expr *idx[TT_MAX_DIMS];
  if (s->kind != TT_STORE)
    return tt_map_children(r->pass, s, rewrite_stores, ctx);
  if (s->tensor != r->p->old)
    return s;
  int n = s->nidx;
  const struct tt_tensor *t = new_access(r, &n, s->idx, idx);
  const struct tt_stmt *q = tt_store(r->pass->arena, t, n, idx, s->value);
  return s->comment ? tt_comment(r->pass->arena, s->comment, q) : q;
}

static const struct tt_stmt *
replace(struct pass *pass, const struct promoted *p, const struct tt_stmt *s)
{
  struct rewrite r = {pass, p};
  s = tt_stmt_map_exprs(pass->arena, s, rewrite_expr, &r);
  return rewrite_stores(&r, s);
}

static const struct tt_stmt *
promote(void *ctx, const struct tt_stmt *s)
{
  struct pass *pass = ctx;
  if (s->kind != TT_ALLOC || s->tensor->scope == TT_WORKSPACE ||
      s->tensor->scope == TT_SHARED)
    return tt_map_children(pass, s, promote, pass);
  struct promoted p = {.old = s->tensor};
  const struct tt_stmt *body = s->body;
  if (find_slices(pass, s, &p)) {
    make_variables(pass, &p);
    body = promote(pass, replace(pass, &p, body));
    for (int i = p.n - 1; i >= 0; i--)
      body = tt_alloc_stmt(pass->arena, p.slices[i].var, body);
  } else if (s->tensor->scope == TT_REGISTER) {
    struct tt_tensor *array = tt_pass_tensor(pass, s->tensor);
    array->scope = TT_STACK;
    p.array = array;
    body = promote(pass, replace(pass, &p, body));
    body = tt_alloc_stmt(pass->arena, array, body);
  } else {
    return tt_map_children(pass, s, promote, pass);
  }
  return s->comment ? tt_comment(pass->arena, s->comment, body) : body;
}

const struct tt_stmt *
tt_pass_promote(struct pass *p, const struct tt_stmt *s)
{
  return promote(p, s);
}
