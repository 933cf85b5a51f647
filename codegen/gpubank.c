/* Where the elements of a shared copy lie: rows that are padded or swizzled,
 * so that threads beside each other find what they want in different banks.
 *
 * Invariant: different elements lie at different places, all inside the
 * tensor, and vectors stay whole and as aligned as they were.  Padding is
 * neither written nor read.
 *
 * A row is swizzled by exchanging its groups of elements: group q of row r is
 * stored as group q ^ (r / alike % patterns).  With as many groups as a power
 * of two and at most as many patterns, that is a permutation of the groups.
 *
 * A row is what lies at one index of the first dimension; where instructions
 * read the copy, what lies at one index of all dimensions up to the one that
 * their rows run along.  They find the same chunk of rows below each other at
 * once: as many rows are alike as all banks have room for.
 */
#include "config.h"

#include "codegen/gpu.h"
#include "ir/passes.h"

#include <stdlib.h>

enum { ALL_BANKS = 128 }; /* bytes */

typedef const struct tt_stmt *stmt;

struct banks {
  struct pass *pass;
  const struct tt_tensor *old, *new;
  int lead;         /* dimensions outside of the rows, less one */
  int64_t patterns; /* 1: no swizzle */
  int64_t alike;    /* neighbouring rows of one pattern */
  bool intrins;     /* read it */
};

static int64_t
row_length(const struct tt_tensor *t, int lead)
{
  int64_t n = 1;
  for (int d = lead + 1; d < t->ndim; d++)
    n *= t->dims[d];
  return n;
}

/* The index of lane 0, and what is added from a lane to the next. */
static const struct tt_expr *
first_lane(const struct tt_expr *e, int64_t *step)
{
  *step = e->kind == TT_RAMP ? e->ival : 0;
  return e->kind == TT_RAMP || e->kind == TT_BROADCAST ? e->a : e;
}

/* The place in a row, of lane 0; *lanes and *step of the others. */
static const struct tt_expr *
column(const struct banks *b, int n, const struct tt_expr *const *idx,
       int *lanes, int64_t *step)
{
  struct tt_arena *ar = b->pass->arena;
  const struct tt_expr *at = tt_idx(ar, 0);
  *lanes = 1;
  *step = 0;
  for (int d = b->lead + 1; d < n; d++) {
    int64_t one, size = tt_tensor_stride(b->old, d);
    at = tt_iadd(ar, at, tt_imul(ar, first_lane(idx[d], &one), size));
    *step += one * size;
    *lanes = idx[d]->type.lanes > *lanes ? idx[d]->type.lanes : *lanes;
  }
  return tt_simplify(ar, at, NULL);
}

static int64_t
power_of_two(int64_t n)
{
  int64_t p = 1;
  while (p < n)
    p *= 2;
  return p;
}

/* How many patterns the rows of a tensor can have. */
static int64_t
patterns_of(const struct banks *b)
{
  const struct tt_tensor *t = b->old;
  const struct tt_staging *s = &t->staging;
  int64_t row = row_length(t, b->lead);
  if (!s->swizzle || row != power_of_two(row) || row < 2 * s->swizzle)
    return 1;
  int64_t groups = row / s->swizzle;
  int64_t wanted = power_of_two((t->dims[b->lead] + b->alike - 1) / b->alike);
  return wanted < groups ? wanted : groups;
}

/* Does every vector of neighbours lie in one group, and are other vectors in
 * rows of one pattern? */
static bool
keeps_whole(const struct banks *b, const struct access *a)
{
  struct tt_arena *ar = b->pass->arena;
  int lanes;
  int64_t step;
  const struct tt_expr *at = column(b, a->n, a->idx, &lanes, &step);
  if (a->idx[b->lead]->type.lanes > 1)
    return false;
  if (lanes == 1)
    return true;
  return step == 1 && b->old->staging.swizzle % lanes == 0 &&
         tt_is_int(tt_simplify(ar, tt_imod(ar, at, lanes), NULL), 0);
}

/* at ^ which, where `which` is a multiple of the group: what is added within a
 * vector stays outside, so that compilers see neighbours. */
static const struct tt_expr *
swizzled(const struct banks *b, const struct tt_expr *at,
         const struct tt_expr *which)
{
  struct tt_arena *ar = b->pass->arena;
  struct tt_affine a = tt_affine_of(ar, at);
  int64_t size = b->old->staging.swizzle;
  for (int i = 0; i < a.n; i++)
    while (a.coef[i] % size)
      size /= 2;
  int64_t low = (a.c0 % size + size) % size;
  a.c0 = (a.c0 - low) / size;
  for (int i = 0; i < a.n; i++)
    a.coef[i] /= size;
  at = tt_simplify(ar, tt_affine_expr(ar, &a), NULL);
  which = tt_simplify(ar, tt_idiv(ar, which, size), NULL);
  at = tt_simplify(ar, tt_binary(ar, TT_BXOR, at, which), NULL);
  return tt_iadd(ar, tt_imul(ar, at, size), tt_idx(ar, low));
}

static int
place(const struct banks *b, int n, const struct tt_expr *const *idx,
      const struct tt_expr **out)
{
  struct tt_arena *ar = b->pass->arena;
  int lanes;
  int64_t step;
  const struct tt_expr *at = column(b, n, idx, &lanes, &step);
  for (int d = 0; d <= b->lead; d++)
    out[d] = idx[d];
  if (b->patterns > 1) {
    const struct tt_staging *s = &b->old->staging;
    const struct tt_expr *which =
        tt_imod(ar, tt_idiv(ar, idx[b->lead], b->alike), b->patterns);
    which = tt_simplify(ar, tt_imul(ar, which, s->swizzle), NULL);
    if (!tt_is_int(which, 0))
      at = swizzled(b, at, which);
  }
  out[b->lead + 1] = lanes > 1 ? tt_ramp(ar, at, step, lanes) : at;
  return b->lead + 2;
}

static const struct tt_expr *
place_load(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct banks *b = ctx;
  const struct tt_expr *idx[TT_MAX_DIMS];
  if (e->kind != TT_LOAD || e->tensor != b->old)
    return e;
  return tt_load(ar, b->new, place(b, e->nargs, e->args, idx), idx);
}

static const struct tt_expr *
place_loads(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  return tt_expr_rewrite(ar, e, place_load, ctx);
}

static stmt
place_stores(void *ctx, stmt s)
{
  const struct banks *b = ctx;
  const struct tt_expr *idx[TT_MAX_DIMS];
  if (s->kind != TT_STORE)
    return tt_map_children(b->pass, s, place_stores, ctx);
  if (s->tensor != b->old)
    return s;
  stmt r = tt_store(b->pass->arena, b->new, place(b, s->nidx, s->idx, idx), idx,
                    s->value);
  return s->comment ? tt_comment(b->pass->arena, s->comment, r) : r;
}

/* ---- what instructions read --------------------------------------------- */

/* The dimensions that an index is in, a bit each. */
static unsigned
dims_of(const struct tt_expr *load, const struct tt_var *v)
{
  unsigned dims = 0;
  for (int d = 0; d < load->nargs; d++)
    if (tt_expr_uses_var(load->args[d], v))
      dims |= 1u << d;
  return dims;
}

/* Operands that are rows: the last of their dimensions is inside, the one
 * before it outside. */
static void
find_rows(void *ctx, stmt s)
{
  struct banks *b = ctx;
  if (s->kind != TT_INTRIN || s->op != TT_INTRIN_EMIT)
    return;
  for (int i = 0; i < s->nidx; i++) {
    const struct tt_operand_of *o = &s->intrin->operands[i];
    int n = o->tensor->ndim;
    if (s->idx[i]->tensor != b->old)
      continue;
    b->intrins = true;
    if (n < 2)
      continue;
    unsigned row = dims_of(s->idx[i], s->vars[o->index[n - 2]]);
    unsigned column = dims_of(s->idx[i], s->vars[o->index[n - 1]]);
    if (row && column && (row & (row - 1)) == 0 && column > row &&
        (column & row) == 0)
      b->lead = __builtin_ctz(row);
  }
}

/* Are padded rows what the instructions ask for? */
static bool
suits_intrins(struct banks *b, stmt alloc)
{
  struct tt_arena *ar = b->pass->arena;
  struct banks padded = *b;
  padded.patterns = 1;
  stmt body = tt_stmt_map_exprs(ar, alloc->body, place_loads, &padded);
  const char *error = tt_check_instructions(ar, body, b->new, TT_GPU_LINE);
  if (error)
    b->pass->error = tt_arena_printf(
        ar, "%s cannot be padded so in a GPU's shared memory: %s", b->old->name,
        error);
  return !error;
}

/* ---- tensors ------------------------------------------------------------- */

/* false: it stays as it is. */
static bool
choose(struct banks *b, stmt alloc)
{
  const struct tt_tensor *t = alloc->tensor;
  struct accesses all = {0};
  *b = (struct banks){.pass = b->pass, .old = t, .lead = t->staging.ring > 0};
  if (t->scope != TT_SHARED || t->ndim < b->lead + 2 ||
      (!t->staging.pad && !t->staging.swizzle))
    return false;
  tt_walk(alloc->body, find_rows, b);
  int64_t row = row_length(t, b->lead), pad = t->staging.pad;
  int64_t bytes = row * tt_dtype_bytes(t->dtype);
  b->alike = !b->intrins         ? t->staging.lanes
             : bytes > ALL_BANKS ? 1
                                 : ALL_BANKS / bytes;
  tt_collect_accesses(alloc->body, &all);
  b->patterns = patterns_of(b);
  for (int i = 0; i < all.n; i++)
    if (all.items[i].tensor == t && !keeps_whole(b, &all.items[i]))
      b->patterns = 1;
  int64_t line = TT_GPU_LINE / tt_dtype_bytes(t->dtype);
  free(all.items);
  if (row % line == 0) /* rows begin where vectors can be moved */
    pad = (pad + line - 1) / line * line;
  if (!pad && b->patterns == 1)
    return false;
  struct tt_tensor *new = tt_pass_tensor(b->pass, t);
  new->ndim = b->lead + 2;
  new->dims[b->lead + 1] = row + pad;
  b->new = new;
  return !b->intrins || !pad || suits_intrins(b, alloc);
}

static stmt
lay_out(void *ctx, stmt s)
{
  struct pass *p = ctx;
  struct banks b = {.pass = p};
  s = tt_map_children(p, s, lay_out, p);
  if (s->kind != TT_ALLOC || !choose(&b, s))
    return s;
  stmt body = tt_stmt_map_exprs(p->arena, s->body, place_loads, &b);
  stmt r = tt_alloc_stmt(p->arena, b.new, place_stores(&b, body));
  return s->comment ? tt_comment(p->arena, s->comment, r) : r;
}

const struct tt_stmt *
tt_gpu_banks(struct pass *p, const struct tt_stmt *s)
{
  return lay_out(p, s);
}
