/* Vector loops become straight code over pieces of their range: chunks of
 * the loop's lanes, then the remainder: as part of a vector where the machine
 * has masks, else halves, quarters, ... of it.
 *
 * Every statement of the body is done for all pieces before the next one,
 * inside the loops of the body, so that a reduction has an accumulator for
 * each piece.  A statement that has no vector form is done lane by lane; a
 * loop of which no statement has one stays as it is.
 */
#include "config.h"

#include "codegen/vectorize.h"

#include "ir/passes.h"

enum {
  STRAIGHT = 8, /* chunks that are written out; more run in a loop */
  ABREAST = 4,  /* chunks of an iteration of that loop around inner loops */
  MAX_PIECES = 1024
};

/* The pieces that are done together. */
struct group {
  struct vec vec;
  int n;
  struct piece pieces[MAX_PIECES];
  int64_t extent; /* of all pieces */
};

static const struct tt_stmt *group_stmt(struct group *, const struct tt_stmt *);

/* ---- one lane after the other ----------------------------------------- */

struct lane_map {
  const struct vec *vec;
  const struct tt_expr *value, *off;
};

static const struct tt_expr *
map_lane(void *ctx, struct tt_arena *arena, const struct tt_expr *e)
{
  const struct lane_map *m = ctx;
  (void)arena;
  return tt_vec_scalar(m->vec, m->value, m->off, e);
}

static const struct tt_stmt *map_private(void *ctx, const struct tt_stmt *s);

/* Stores to private locals get their index too. */
static const struct tt_stmt *
private_stores(const struct lane_map *m, const struct tt_stmt *s)
{
  if (m->vec->nprivate == 0)
    return s;
  return map_private((void *)m, s);
}

static const struct tt_stmt *
map_private(void *ctx, const struct tt_stmt *s)
{
  const struct lane_map *m = ctx;
  if (s->kind != TT_STORE)
    return tt_map_children(m->vec->pass, s, map_private, ctx);
  for (int i = 0; i < m->vec->nprivate; i++) {
    if (m->vec->privates[i].old != s->tensor)
      continue;
    const struct tt_expr *idx[TT_MAX_DIMS];
    for (int d = 0; d < s->nidx; d++)
      idx[d] = s->idx[d];
    idx[s->nidx] = m->off;
    const struct tt_stmt *r = tt_store(m->vec->arena, m->vec->privates[i].new,
                                       s->nidx + 1, idx, s->value);
    return s->comment ? tt_comment(m->vec->arena, s->comment, r) : r;
  }
  return s;
}

static const struct tt_stmt *
lane_stmt(const struct vec *v, const struct tt_expr *value,
          const struct tt_expr *off, const struct tt_stmt *s)
{
  struct lane_map m = {v, value, off};
  return private_stores(&m, tt_stmt_map_exprs(v->arena, s, map_lane, &m));
}

/* Stores are written out lane by lane, larger statements become a loop
 * unless registers want constant indices. */
static const struct tt_stmt *
by_lane(const struct vec *v, const struct piece *p, const struct tt_stmt *s)
{
  struct tt_arena *arena = v->arena;
  const struct tt_expr *off = tt_idx(arena, p->off);
  if (p->lanes == 1)
    return lane_stmt(v, p->base, off, s);
  const struct tt_var *lane = tt_pass_var(v->pass, v->var->name, p->lanes);
  const struct tt_expr *i = tt_var_ref(arena, lane);
  const struct tt_stmt *body =
      lane_stmt(v, tt_iadd(arena, p->base, i), tt_iadd(arena, off, i), s);
  bool unroll = s->kind == TT_STORE || tt_vec_in_registers(lane, body);
  return tt_for(arena, unroll ? TT_UNROLL : TT_SERIAL, 1, lane, body);
}

/* ---- stores ----------------------------------------------------------- */

/* Replaces selects on a condition that is known to hold. */
static const struct tt_expr *
take_branch(void *ctx, struct tt_arena *arena, const struct tt_expr *e)
{
  (void)arena;
  const struct tt_expr *cond = ctx;
  return e->kind == TT_SELECT && tt_expr_equal(e->c, cond) ? e->a : e;
}

/* Is what lies there sure to be a multiple of the vector's size?  (Where GPUs
 * have vectors only to move data, all but locals begins at one of 16 bytes,
 * and so do registers that hold what is copied.) */
static bool
is_aligned(const struct vec *v, const struct tt_tensor *t, int n,
           const struct tt_expr *const *idx)
{
  int lanes;
  int64_t stride;
  tt_access_shape(t, n, idx, &lanes, &stride);
  if (stride != 1 || t->role == TT_CONST ||
      (t->role == TT_LOCAL && t->scope != TT_SHARED && !t->staging.held))
    return false;
  struct tt_affine a =
      tt_affine_of(v->arena, tt_access_base(v->arena, t, n, idx));
  bool ok = a.c0 % lanes == 0;
  for (int i = 0; i < a.n; i++)
    ok = ok && a.coef[i] % lanes == 0;
  return ok;
}

static bool
is_aligned_load(const struct vec *v, const struct tt_expr *e)
{
  return e->kind == TT_LOAD && e->type.lanes > 1 &&
         is_aligned(v, e->tensor, e->nargs, e->args);
}

static bool
is_half(enum tt_dtype t)
{
  return t == TT_F16 || t == TT_BF16;
}

/* The store of all lanes at once, or NULL; see tt_vec_expr for guard. */
static const struct tt_stmt *
vector_store(const struct vec *v, const struct piece *p,
             const struct tt_stmt *s, const struct tt_expr *value,
             const struct tt_expr **guard)
{
  const struct tt_tensor *t = s->tensor;
  const struct tt_expr *const *idx = s->idx;
  int n = s->nidx, lanes;
  int64_t stride;
  const struct tt_codegen_options *o = v->pass->options;
  if (t->dtype == TT_BOOL || (o->gpu && !o->moves && is_half(t->dtype)))
    return NULL;
  if (!tt_vec_index(v, p, &t, &n, &idx))
    return NULL;
  tt_access_shape(t, n, idx, &lanes, &stride);
  if (lanes == 1 || stride != 1)
    return NULL;
  const struct tt_expr *r = tt_vec_expr(v, p, value, guard);
  if (!r || (o->moves && !(is_aligned(v, t, n, idx) && is_aligned_load(v, r))))
    return NULL;
  if (r->type.lanes == 1)
    r = tt_broadcast(v->arena, r, lanes);
  return tt_store(v->arena, t, n, idx, r);
}

static void
find_register(void *ctx, const struct tt_expr *e)
{
  *(bool *)ctx |= e->kind == TT_LOAD && e->tensor->role == TT_LOCAL &&
                  e->tensor->scope == TT_REGISTER;
}

/* Neighbours that go to places of their own in shared memory are read as one.
 */
static const struct tt_expr *
scattered_copy(const struct vec *v, const struct piece *p,
               const struct tt_stmt *s)
{
  enum tt_dtype t = s->tensor->dtype;
  const struct tt_expr *guard = NULL, *load = s->value;
  bool sides = load->tensor->role != TT_LOCAL && s->tensor->role == TT_LOCAL &&
               s->tensor->scope == TT_SHARED;
  if (!sides || tt_dtype_bytes(t) < 4)
    return NULL;
  load = tt_vec_expr(v, p, load, &guard);
  return load && load->type.lanes == p->lanes && is_aligned_load(v, load)
             ? load
             : NULL;
}

/* Sums that leave registers through arithmetic for places that lie apart: the
 * arithmetic is done for all lanes.  NULL: it is something else. */
static const struct tt_expr *
scattered_value(const struct vec *v, const struct piece *p,
                const struct tt_stmt *s)
{
  enum tt_dtype t = s->tensor->dtype;
  const struct tt_codegen_options *o = v->pass->options;
  bool sums = false;
  if (o->gpu && s->value->kind == TT_LOAD && p->lanes > 1)
    return scattered_copy(v, p, s);
  if (o->moves)
    return NULL;
  tt_expr_visit(s->value, find_register, &sums);
  if (!sums || p->lanes == 1 || s->value->kind == TT_LOAD ||
      s->tensor->role == TT_LOCAL || t == TT_F16 || t == TT_BF16 ||
      t == TT_BOOL)
    return NULL;
  const struct tt_expr *guard = NULL, *r = tt_vec_expr(v, p, s->value, &guard);
  return r && r->type.lanes == p->lanes ? r : NULL;
}

/* t = value; target[lane] = t[lane] */
static const struct tt_stmt *
scatter(const struct vec *v, const struct piece *p, const struct tt_stmt *s,
        const struct tt_expr *value)
{
  struct tt_arena *arena = v->arena;
  struct tt_tensor *t = TT_NEW(arena, struct tt_tensor);
  *t = (struct tt_tensor){.name =
                              tt_arena_printf(arena, "%s_v", s->tensor->name),
                          .dtype = s->tensor->dtype,
                          .role = TT_LOCAL,
                          .scope = TT_REGISTER,
                          .ndim = 1,
                          .dims = {p->lanes},
                          .id = -1};
  const struct tt_expr *all = tt_ramp(arena, tt_idx(arena, 0), 1, p->lanes);
  const struct tt_expr *lane =
      tt_isub(arena, tt_var_ref(arena, v->var), p->base);
  const struct tt_stmt *parts[2];
  parts[0] = tt_store(arena, t, 1, &all, value);
  parts[1] = by_lane(
      v, p,
      tt_store(arena, s->tensor, s->nidx, s->idx, tt_load(arena, t, 1, &lane)));
  return tt_alloc_stmt(arena, t, tt_seq(arena, 2, parts));
}

static const struct tt_stmt *
store_piece(const struct vec *v, const struct piece *p, const struct tt_stmt *s)
{
  const struct tt_expr *value = s->value, *all = NULL;
  if (p->lanes == 1)
    return by_lane(v, p, s);
  for (int tries = 0; tries < 4; tries++) {
    const struct tt_expr *guard = NULL;
    const struct tt_stmt *r = vector_store(v, p, s, value, &guard);
    if (r)
      return all ? tt_if(v->arena, all, r, by_lane(v, p, s)) : r;
    const struct tt_expr *more = guard ? tt_vec_all(v, p, guard) : NULL;
    if (!more)
      break;
    all = all ? tt_binary(v->arena, TT_AND, all, more) : more;
    value = tt_expr_rewrite(v->arena, value, take_branch, (void *)guard);
  }
  value = scattered_value(v, p, s);
  return value ? scatter(v, p, s, value) : by_lane(v, p, s);
}

/* ---- statements ------------------------------------------------------- */

static const struct tt_stmt *
if_piece(struct group *g, int i, const struct tt_stmt *s)
{
  struct group one = {.vec = g->vec, .n = 1, .pieces = {g->pieces[i]}};
  const struct tt_expr *all = g->pieces[i].lanes > 1
                                  ? tt_vec_all(&g->vec, &g->pieces[i], s->cond)
                                  : NULL;
  const struct tt_stmt *scalar = by_lane(&g->vec, &g->pieces[i], s);
  if (!all)
    return scalar;
  return tt_if(g->vec.arena, all, group_stmt(&one, s->body), scalar);
}

static const struct tt_stmt *
group_alloc(struct group *g, const struct tt_stmt *s)
{
  struct tt_tensor *t = tt_pass_tensor(g->vec.pass, s->tensor);
  t->dims[t->ndim++] = g->extent;
  int n = g->vec.nprivate;
  struct private *p = TT_ARRAY(g->vec.arena, struct private, (size_t)n + 1);
  for (int i = 0; i < n; i++)
    p[i] = g->vec.privates[i];
  p[n] = (struct private){s->tensor, t};
  struct vec saved = g->vec;
  g->vec.privates = p;
  g->vec.nprivate = n + 1;
  const struct tt_stmt *body = group_stmt(g, s->body);
  g->vec = saved;
  return tt_alloc_stmt(g->vec.arena, t, body);
}

/* An uniform condition or loop range stays outside of the lanes. */
static const struct tt_stmt *
group_stmt(struct group *g, const struct tt_stmt *s)
{
  struct tt_arena *arena = g->vec.arena;
  const struct tt_stmt *r = s;
  switch (s->kind) {
  case TT_STORE: {
    const struct tt_stmt *items[MAX_PIECES];
    for (int i = 0; i < g->n; i++)
      items[i] = store_piece(&g->vec, &g->pieces[i], s);
    r = tt_seq(arena, g->n, items);
    break;
  }
  case TT_INTRIN: /* (no vector loop stands around one) */
    break;
  case TT_PREFETCH: /* stands outside of vector loops: one lane will do */
    r = lane_stmt(&g->vec, g->pieces[0].base, tt_idx(arena, 0), s);
    break;
  case TT_SEQ: {
    const struct tt_stmt **items =
        TT_ARRAY(arena, const struct tt_stmt *, (size_t)s->nitems);
    for (int i = 0; i < s->nitems; i++)
      items[i] = group_stmt(g, s->items[i]);
    r = tt_seq(arena, s->nitems, items);
    break;
  }
  case TT_IF:
    if (!tt_vec_depends(&g->vec, s->cond)) {
      r = tt_if(arena, s->cond, group_stmt(g, s->body),
                s->other ? group_stmt(g, s->other) : NULL);
    } else {
      const struct tt_stmt *items[MAX_PIECES];
      for (int i = 0; i < g->n; i++)
        items[i] = if_piece(g, i, s);
      r = tt_seq(arena, g->n, items);
    }
    break;
  case TT_FOR:
    r = tt_for(arena, s->for_kind, s->lanes, s->var, group_stmt(g, s->body));
    break;
  case TT_ALLOC:
    r = group_alloc(g, s);
    break;
  }
  return s->comment ? tt_comment(arena, s->comment, r) : r;
}

/* ---- loops ------------------------------------------------------------ */

struct shape {
  bool loop, vector, parallel, deep; /* what the body contains */
};

static void
find_shape(void *ctx, const struct tt_stmt *s)
{
  struct shape *sh = ctx;
  if (s->kind == TT_FOR) {
    sh->loop = true;
    sh->vector = sh->vector || s->for_kind == TT_VECTOR;
    sh->parallel = sh->parallel || s->for_kind == TT_PARALLEL;
  } else if (s->kind == TT_ALLOC && s->tensor->ndim == TT_MAX_DIMS) {
    sh->deep = true;
  }
}

/* Does any store of the body have a vector form? */
struct useful {
  struct vec vec;
  struct piece piece;
  bool found;
};

static void
find_useful(void *ctx, const struct tt_stmt *s)
{
  struct useful *u = ctx;
  if (s->kind == TT_ALLOC)
    u->found = true;
  if (s->kind != TT_STORE || u->found)
    return;
  const struct tt_expr *guard = NULL;
  u->found = vector_store(&u->vec, &u->piece, s, s->value, &guard) || guard ||
             scattered_value(&u->vec, &u->piece, s);
}

static void
add_piece(struct group *g, const struct tt_expr *base, int lanes)
{
  g->pieces[g->n++] = (struct piece){base, g->extent, lanes};
  g->extent += lanes;
}

/* Straight code from `start`: chunks, then what is left in halves. */
static const struct tt_stmt *
straight(const struct vec *v, int64_t start, int lanes,
         const struct tt_stmt *body)
{
  struct group *g = TT_NEW(v->arena, struct group);
  g->vec = *v;
  int64_t at = start, end = v->var->extent;
  for (int l = lanes; l >= 1; l /= 2) {
    for (; end - at >= l; at += l)
      add_piece(g, tt_idx(v->arena, at), l);
    if (v->parts && end - at > 2) {
      add_piece(g, tt_idx(v->arena, at), (int)(end - at));
      break;
    }
  }
  return group_stmt(g, body);
}

/* A loop over `count` groups of `n` chunks each. */
static const struct tt_stmt *
chunk_loop(const struct vec *v, int64_t count, int n, int lanes,
           const struct tt_stmt *body)
{
  struct group *g = TT_NEW(v->arena, struct group);
  g->vec = *v;
  const struct tt_var *c = tt_pass_var(v->pass, v->var->name, count);
  const struct tt_expr *first =
      tt_imul(v->arena, tt_var_ref(v->arena, c), (int64_t)n * lanes);
  for (int i = 0; i < n; i++)
    add_piece(g, tt_iadd(v->arena, first, tt_idx(v->arena, i * lanes)), lanes);
  return tt_for(v->arena, TT_SERIAL, 1, c, group_stmt(g, body));
}

/* A chunk loop's variable stands for several values of the loop's: what was
 * a range of the whole is now of `count`, which the bounds of indices see. */
static const struct tt_stmt *
pieces(const struct vec *v, const struct shape *sh, int lanes, bool registers,
       const struct tt_stmt *body)
{
  int64_t full = v->var->extent / lanes;
  if (full <= STRAIGHT || (registers && full < MAX_PIECES - 16))
    return straight(v, 0, lanes, body);
  int n = sh->loop ? ABREAST : 1;
  int64_t count = full / n;
  const struct tt_stmt *items[2];
  items[0] = chunk_loop(v, count, n, lanes, body);
  items[1] = count * n * lanes < v->var->extent
                 ? straight(v, count * n * lanes, lanes, body)
                 : NULL;
  return tt_seq(v->arena, 2, items);
}

struct ctx {
  struct pass *pass;
  const struct vec_lanes *lanes;
};

static const struct tt_stmt *vec_stmt(void *ctx, const struct tt_stmt *s);

static const struct tt_stmt *
vec_loop(struct ctx *c, const struct tt_stmt *s)
{
  struct tt_arena *arena = c->pass->arena;
  struct shape sh = {0};
  tt_walk(s->body, find_shape, &sh);
  bool registers = tt_vec_in_registers(s->var, s->body);
  bool parts;
  int whole = tt_vec_lanes_of(c->lanes, s, &parts), lanes = whole;
  while (lanes > s->var->extent)
    lanes /= 2;
  struct vec v = {.pass = c->pass, .arena = arena, .var = s->var};
  v.parts = parts;
  if (parts && lanes < s->var->extent && whole > lanes)
    lanes *= 2; /* all of it is part of one */
  struct useful u = {v, {tt_idx(arena, 0), 0, lanes}, false};
  if (lanes > 1)
    tt_walk(s->body, find_useful, &u);
  if (sh.vector || sh.parallel || sh.deep || !u.found ||
      !tt_vec_independent(arena, s)) {
    const struct tt_codegen_options *o = c->pass->options;
    bool write_out = o->gpu ? s->var->extent <= STRAIGHT : false;
    enum tt_for_kind kind =
        (registers && !sh.parallel && o->vector_bytes > 0) || write_out
            ? TT_UNROLL
            : TT_SERIAL;
    return tt_for(arena, kind, 1, s->var, vec_stmt(c, s->body));
  }
  return pieces(&v, &sh, lanes, registers, s->body);
}

static const struct tt_stmt *
vec_stmt(void *ctx, const struct tt_stmt *s)
{
  struct ctx *c = ctx;
  if (s->kind != TT_FOR || s->for_kind != TT_VECTOR)
    return tt_map_children(c->pass, s, vec_stmt, c);
  const struct tt_stmt *r = vec_loop(c, s);
  return s->comment ? tt_comment(c->pass->arena, s->comment, r) : r;
}

const struct tt_stmt *
tt_pass_vectorize(struct pass *p, const struct tt_stmt *s)
{
  struct ctx c = {p, tt_vec_lanes(p->arena, s, p->options)};
  return vec_stmt(&c, s);
}
