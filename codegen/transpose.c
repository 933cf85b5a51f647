/* Copies whose source runs along one loop and whose target runs along another
 * become copies of transposed blocks: loads and stores of whole vectors with
 * shuffles between them, where else every element is moved by itself.
 *
 *   for (u) for (v) D[.., v, u] = S[.., u, v]
 *
 * becomes loops over blocks, each a pair of TT_TRANSPOSE loops that the
 * printer knows as one operation.  Results that are computed as vectors
 * along v, but stored along u, go through a block of memory first.
 */
#include "config.h"

#include "codegen/internal.h"

#include "ir/passes.h"

/* Sizes of blocks; copies of fewer elements stay loops, which read better. */
enum { MAX_NEST = 16, LEAST = 4, MOST = 16, FEW = 64 };

/* A perfect nest around one store. */
struct copy {
  struct pass *pass;
  int n; /* loops, outermost first */
  const struct tt_stmt *loop[MAX_NEST];
  const struct tt_stmt *store;
  const struct tt_expr *to;    /* the flattened offset of the target */
  int64_t to_stride[MAX_NEST]; /* by loop */
  int along, across;           /* loops: the target's, the value's direction */
};

static bool
find_nest(struct copy *c, const struct tt_stmt *s)
{
  for (; s->kind == TT_FOR; s = s->body) {
    if (c->n == MAX_NEST || s->comment)
      return false;
    c->loop[c->n++] = s;
  }
  c->store = s;
  return s->kind == TT_STORE && !s->comment && c->n >= 2 && s->nidx > 0 &&
         tt_dtype_bytes(s->tensor->dtype) >= 4 &&
         !tt_expr_uses_tensor(s->value, s->tensor);
}

static bool
find_strides(struct copy *c)
{
  struct tt_arena *ar = c->pass->arena;
  const struct tt_stmt *s = c->store;
  for (int d = 0; d < s->nidx; d++)
    if (s->idx[d]->type.lanes > 1)
      return false;
  c->to = tt_access_base(ar, s->tensor, s->nidx, s->idx);
  for (int i = 0; i < c->n; i++)
    if (!tt_affine_coef(ar, c->to, c->loop[i]->var, &c->to_stride[i]))
      return false;
  return true;
}

/* Does every iteration store to a place of its own?  Sorted by stride, no
 * stride is reached by the loops before it. */
static bool
is_injective(const struct copy *c)
{
  bool used[MAX_NEST] = {false};
  int64_t reach = 0;
  for (int k = 0; k < c->n; k++) {
    int least = -1;
    for (int i = 0; i < c->n; i++)
      if (!used[i] && (least < 0 || c->to_stride[i] < c->to_stride[least]))
        least = i;
    if (c->to_stride[least] <= reach)
      return false;
    used[least] = true;
    reach += c->to_stride[least] * (c->loop[least]->var->extent - 1);
  }
  return true;
}

static bool
in_registers(const struct tt_tensor *t)
{
  return t->role == TT_LOCAL && t->scope == TT_REGISTER;
}

/* Which loop the value runs along: for a plain copy, that in which its load
 * has unit stride; else the vectorized one. */
static bool
find_directions(struct copy *c, bool *plain)
{
  struct tt_arena *ar = c->pass->arena;
  const struct tt_expr *v = c->store->value;
  c->along = c->across = -1;
  *plain = v->kind == TT_LOAD && !in_registers(v->tensor) &&
           v->tensor->dtype == c->store->tensor->dtype;
  for (int i = 0; i < c->n; i++) {
    int64_t from = 0;
    if (c->loop[i]->for_kind == TT_PARALLEL)
      continue;
    if (c->to_stride[i] == 1)
      c->along = i;
    else if (*plain &&
             tt_affine_coef(ar,
                            tt_access_base(ar, v->tensor, v->nargs, v->args),
                            c->loop[i]->var, &from) &&
             from == 1)
      c->across = i;
    else if (!*plain && c->loop[i]->for_kind == TT_VECTOR)
      c->across = i;
  }
  if (c->along < 0 || c->across < 0)
    return false;
  int64_t from = 0;
  if (*plain &&
      (!tt_affine_coef(ar, tt_access_base(ar, v->tensor, v->nargs, v->args),
                       c->loop[c->along]->var, &from) ||
       from == 0))
    return false;
  /* What is copied into registers is indexed by constants there. */
  if (in_registers(c->store->tensor) &&
      c->loop[c->along]->for_kind != TT_SERIAL &&
      c->loop[c->across]->for_kind != TT_SERIAL)
    return false;
  int64_t m = c->loop[c->along]->var->extent;
  int64_t n = c->loop[c->across]->var->extent;
  return m >= LEAST && n >= LEAST && m * n >= FEW;
}

/* ---- blocks ------------------------------------------------------------ */

struct blocks {
  struct pass *pass;
  const struct tt_stmt *store; /* a plain copy */
  const struct tt_var *var[2]; /* across, along */
  int64_t size;
};

/* One block: `base` is added to the loops' variables. */
static const struct tt_stmt *
block(const struct blocks *b, const struct tt_expr *const *base,
      const int64_t *extent)
{
  struct tt_arena *ar = b->pass->arena;
  const struct tt_var *inner[2];
  const struct tt_expr *value[2], *idx[TT_MAX_DIMS];
  for (int i = 0; i < 2; i++) {
    inner[i] = tt_pass_var(b->pass, b->var[i]->name, extent[i]);
    value[i] = tt_iadd(ar, base[i], tt_var_ref(ar, inner[i]));
  }
  for (int d = 0; d < b->store->nidx; d++)
    idx[d] = tt_expr_subst(ar, b->store->idx[d], 2, b->var, value);
  const struct tt_stmt *s =
      tt_store(ar, b->store->tensor, b->store->nidx, idx,
               tt_expr_subst(ar, b->store->value, 2, b->var, value));
  /* A single row or column has nothing to transpose. */
  bool one = extent[0] == 1 || extent[1] == 1;
  for (int i = 1; i >= 0; i--)
    s = tt_for(ar, one ? TT_SERIAL : TT_TRANSPOSE, 1, inner[i], s);
  return s;
}

/* The blocks along loop i on: a loop over whole ones, then the rest. */
static const struct tt_stmt *
all_blocks(const struct blocks *b, int i, const struct tt_expr **base,
           int64_t *extent)
{
  struct tt_arena *ar = b->pass->arena;
  if (i == 2)
    return block(b, base, extent);
  int64_t n = b->var[i]->extent, full = n / b->size;
  const struct tt_stmt *parts[2] = {NULL, NULL};
  if (full) {
    const struct tt_var *v = tt_pass_var(b->pass, b->var[i]->name, full);
    base[i] =
        full > 1 ? tt_imul(ar, tt_var_ref(ar, v), b->size) : tt_idx(ar, 0);
    extent[i] = b->size;
    parts[0] = all_blocks(b, i + 1, base, extent);
    if (full > 1)
      parts[0] = tt_for(ar, TT_SERIAL, 1, v, parts[0]);
  }
  if (n % b->size) {
    base[i] = tt_idx(ar, full * b->size);
    extent[i] = n % b->size;
    parts[1] = all_blocks(b, i + 1, base, extent);
  }
  return tt_seq(ar, 2, parts);
}

static const struct tt_stmt *
blocks_of(struct pass *p, const struct tt_stmt *store,
          const struct tt_var *across, const struct tt_var *along)
{
  int64_t lanes =
      p->options->vector_bytes / tt_dtype_bytes(store->tensor->dtype);
  int64_t least =
      across->extent < along->extent ? across->extent : along->extent;
  struct blocks b = {p, store, {across, along}, LEAST};
  while (b.size < least && b.size < lanes && b.size < MOST)
    b.size *= 2;
  if (b.size > lanes)
    return NULL;
  const struct tt_expr *base[2];
  int64_t extent[2];
  return all_blocks(&b, 0, base, extent);
}

/* ---- the pass ---------------------------------------------------------- */

static const struct tt_stmt *
wrapped(const struct copy *c, const struct tt_stmt *s)
{
  for (int i = c->n - 1; i >= 0; i--)
    if (i != c->along && i != c->across)
      s = tt_for(c->pass->arena, c->loop[i]->for_kind, c->loop[i]->lanes,
                 c->loop[i]->var, s);
  return s;
}

/* Vectors into a block of memory, and that to where they belong. */
static const struct tt_stmt *
through_memory(const struct copy *c)
{
  struct tt_arena *ar = c->pass->arena;
  const struct tt_stmt *along = c->loop[c->along], *across = c->loop[c->across];
  struct tt_tensor *t = TT_NEW(ar, struct tt_tensor);
  t->name = tt_arena_printf(ar, "%s_tile", c->store->tensor->name);
  t->dtype = c->store->tensor->dtype;
  t->role = TT_LOCAL;
  t->scope = TT_REGISTER; /* small: on the stack */
  t->id = -1;
  t->ndim = 2;
  t->dims[0] = along->var->extent;
  t->dims[1] = across->var->extent;
  const struct tt_expr *idx[2] = {tt_var_ref(ar, along->var),
                                  tt_var_ref(ar, across->var)};
  const struct tt_stmt *items[2];
  items[0] = tt_store(ar, t, 2, idx, c->store->value);
  items[0] = tt_for(ar, across->for_kind, across->lanes, across->var, items[0]);
  items[0] = tt_for(ar, along->for_kind, along->lanes, along->var, items[0]);
  items[1] = blocks_of(c->pass,
                       tt_store(ar, c->store->tensor, c->store->nidx,
                                c->store->idx, tt_load(ar, t, 2, idx)),
                       across->var, along->var);
  return items[1] ? tt_alloc_stmt(ar, t, tt_seq(ar, 2, items)) : NULL;
}

static const struct tt_stmt *
transposed(struct pass *p, const struct tt_stmt *s)
{
  enum { LARGEST = 16384 };
  struct copy c = {.pass = p};
  bool plain;
  if (!find_nest(&c, s) || !find_strides(&c) || !is_injective(&c) ||
      !find_directions(&c, &plain))
    return NULL;
  const struct tt_var *along = c.loop[c.along]->var,
                      *across = c.loop[c.across]->var;
  const struct tt_stmt *r;
  if (plain)
    r = blocks_of(p, c.store, across, along);
  else if (along->extent * across->extent *
               tt_dtype_bytes(c.store->tensor->dtype) <=
           LARGEST)
    r = through_memory(&c);
  else
    return NULL;
  return r ? wrapped(&c, r) : NULL;
}

static const struct tt_stmt *
visit(void *ctx, const struct tt_stmt *s)
{
  struct pass *p = ctx;
  if (s->kind == TT_FOR) {
    const struct tt_stmt *plain = s;
    struct tt_stmt bare = *s;
    bare.comment = NULL;
    const struct tt_stmt *r = transposed(p, s->comment ? &bare : plain);
    if (r)
      return s->comment ? tt_comment(p->arena, s->comment, r) : r;
  }
  return tt_map_children(p, s, visit, p);
}

const struct tt_stmt *
tt_pass_transpose(struct pass *p, const struct tt_stmt *s)
{
  /* (What is done ahead of time need not be fast.) */
  if (p->options->naive || p->options->gpu || p->options->vector_bytes < 16 ||
      p->ahead)
    return s;
  return visit(p, s);
}
