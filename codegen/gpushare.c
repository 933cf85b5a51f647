/* Sharing out: what stands outside of thread loops, copies into shared memory
 * above all, is done by all threads of a block, or by those of many blocks.
 *
 * Only loops whose points can be computed in any order are shared out; what
 * else there is, one thread does.  Neighbours in memory go to neighbouring
 * threads; where the innermost loop was to be vectorized, a thread takes as
 * many of them as a vector of 16 bytes has.
 */
#include "config.h"

#include "codegen/gpu.h"

#include "codegen/vectorize.h"
#include "ir/passes.h"

enum { MAX_CHAIN = 16, VECTOR_BYTES = 16 };

typedef const struct tt_stmt *stmt;

static bool
is_bound(stmt s)
{
  return s->kind == TT_FOR &&
         (tt_is_block(s->for_kind) || tt_is_thread(s->for_kind));
}

/* Loops directly inside one another whose points can be computed in any
 * order, and what is inside them. */
struct chain {
  int n;
  const struct tt_var *var[MAX_CHAIN];
  stmt body;
  int64_t points;
  int lanes;   /* that its vector loop asks for */
  int64_t run; /* of the last loop: points that one thread does */
  bool vector; /* at once */
};

static struct chain
peel(struct pass *p, stmt s)
{
  struct chain c = {.points = 1, .run = 1};
  while (s->kind == TT_FOR && !is_bound(s) && c.n < MAX_CHAIN &&
         tt_vec_independent(p->arena, s) &&
         c.points <= INT32_MAX / s->var->extent) {
    c.points *= s->var->extent;
    if (s->for_kind == TT_VECTOR)
      c.lanes = s->lanes;
    c.var[c.n++] = s->var;
    s = s->body;
  }
  c.body = s;
  return c;
}

/* ---- which thread takes which points ----------------------------------- */

static void
find_global(void *ctx, const struct tt_expr *e)
{
  const struct tt_expr **load = ctx;
  if (e->kind == TT_LOAD && e->tensor->role != TT_LOCAL && !*load)
    *load = e;
}

/* Strides of an access along the loops; false: they are not constants. */
static bool
strides(struct pass *p, const struct chain *c, const struct tt_tensor *t, int n,
        const struct tt_expr *const *idx, int64_t *stride)
{
  for (int i = 0; i < n; i++)
    if (idx[i]->type.lanes > 1)
      return false;
  const struct tt_expr *base =
      tt_simplify(p->arena, tt_access_base(p->arena, t, n, idx), NULL);
  for (int i = 0; i < c->n; i++)
    if (!tt_affine_coef(p->arena, base, c->var[i], &stride[i]))
      return false;
  return true;
}

static int64_t
distance(int64_t stride)
{
  return stride == 0 ? INT64_MAX : stride < 0 ? -stride : stride;
}

/* Largest strides outermost; loops that do not matter around them. */
static void
sort_loops(struct chain *c, int64_t *stride, int64_t *other)
{
  for (int i = 1; i < c->n; i++)
    for (int j = i; j > 0 && distance(stride[j - 1]) < distance(stride[j]);
         j--) {
      const struct tt_var *v = c->var[j];
      int64_t a = stride[j], b = other[j];
      c->var[j] = c->var[j - 1];
      stride[j] = stride[j - 1];
      other[j] = other[j - 1];
      c->var[j - 1] = v;
      stride[j - 1] = a;
      other[j - 1] = b;
    }
}

/* Neighbours in the memory that all blocks see go to neighbouring threads: of
 * what is stored there, or else of what is read. */
static void
arrange(struct pass *p, struct chain *c)
{
  int64_t from[MAX_CHAIN], to[MAX_CHAIN];
  const struct tt_expr *load = NULL;
  stmt s = c->body;
  if (s->kind == TT_IF && !s->other)
    s = s->body;
  if (c->n == 0 || s->kind != TT_STORE)
    return;
  tt_expr_visit(s->value, find_global, &load);
  if (!load || !strides(p, c, s->tensor, s->nidx, s->idx, to) ||
      !strides(p, c, load->tensor, load->nargs, load->args, from))
    return;
  int64_t *key = s->tensor->role == TT_LOCAL ? from : to;
  sort_loops(c, key, key == from ? to : from);
  int last = c->n - 1, size = tt_dtype_bytes(s->tensor->dtype);
  if (key[last] != 1 || c->lanes < 2)
    return;
  int64_t run = c->lanes * size > VECTOR_BYTES ? VECTOR_BYTES / size : c->lanes;
  while (run > 1 && c->var[last]->extent % run != 0)
    run /= 2;
  c->run = run;
  /* (What is copied asynchronously goes element by element to places that lie
   * apart.) */
  c->vector = from[last] == 1 &&
              (to[last] == 1 || (key == from && s->tensor->staging.stages < 3));
}

struct values {
  int n;
  const struct tt_var *const *vars;
  const struct tt_expr *value[MAX_CHAIN];
};

static const struct tt_expr *
put_values(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct values *v = ctx;
  return tt_expr_subst(ar, e, v->n, v->vars, v->value);
}

/* What is stored under a condition, as a statement under it: then the load
 * may be a vector. */
static stmt
choose(struct pass *p, stmt s)
{
  struct tt_arena *ar = p->arena;
  if (s->kind != TT_STORE || s->value->kind != TT_SELECT)
    return s;
  stmt a = tt_store(ar, s->tensor, s->nidx, s->idx, s->value->a);
  stmt b = tt_store(ar, s->tensor, s->nidx, s->idx, s->value->b);
  return tt_if(ar, s->value->c, choose(p, a), choose(p, b));
}

/* The body for the run of points number `at` of the chain, counted through. */
static stmt
at_point(struct pass *p, const struct chain *c, const struct tt_expr *at)
{
  struct tt_arena *ar = p->arena;
  struct values v = {.n = c->n, .vars = c->var};
  const struct tt_var *in_run = NULL;
  int64_t stride = 1;
  for (int i = c->n - 1; i >= 0; i--) {
    const struct tt_expr *q = tt_idiv(ar, at, stride);
    int64_t n = c->var[i]->extent / (i == c->n - 1 ? c->run : 1);
    v.value[i] = i ? tt_imod(ar, q, n) : q;
    stride *= n;
  }
  if (c->run > 1) {
    const struct tt_expr **last = &v.value[c->n - 1];
    in_run = tt_pass_var(p, "j", c->run);
    *last = tt_iadd(ar, tt_imul(ar, *last, c->run), tt_var_ref(ar, in_run));
  }
  stmt s = tt_stmt_map_exprs(ar, c->body, put_values, &v);
  if (in_run)
    s = choose(p, s);
  if (in_run)
    s = tt_for(ar, c->vector ? TT_VECTOR : TT_UNROLL,
               c->vector ? (int)c->run : 0, in_run, s);
  return s;
}

static stmt
below(struct pass *p, const struct tt_expr *at, int64_t end, stmt s)
{
  const struct tt_expr *inside =
      tt_binary(p->arena, TT_LT, at, tt_idx(p->arena, end));
  return tt_if(p->arena, inside, s, NULL);
}

static const char *
index_name(int dim)
{
  static const char *const names[] = {"tx", "ty", "tz"};
  return names[dim];
}

/* The points of a chain, shared by the threads of a block. */
static stmt
among_threads(struct pass *p, const struct gpu_kernel *k, struct chain *c)
{
  struct tt_arena *ar = p->arena;
  const struct tt_var *v[TT_GPU_DIMS] = {NULL, NULL, NULL};
  const struct tt_expr *at = tt_idx(ar, 0);
  int64_t threads = 1;
  arrange(p, c);
  for (int d = TT_GPU_DIMS - 1; d >= 0; d--) {
    int64_t n = k->block[d];
    threads *= n;
    if (n == 1)
      continue;
    v[d] = tt_pass_var(p, index_name(d), n);
    at = tt_iadd(ar, tt_imul(ar, at, n), tt_var_ref(ar, v[d]));
  }
  int64_t runs = c->points / c->run, rounds = (runs + threads - 1) / threads;
  const struct tt_var *i = NULL;
  if (rounds > 1) {
    i = tt_pass_var(p, "i", rounds);
    at = tt_iadd(ar, tt_imul(ar, tt_var_ref(ar, i), threads), at);
  }
  stmt s = at_point(p, c, at);
  if (rounds * threads != runs)
    s = below(p, at, runs, s);
  if (i)
    s = tt_for(ar, TT_SERIAL, 0, i, s);
  for (int d = 0; d < TT_GPU_DIMS; d++)
    if (v[d])
      s = tt_for(ar, (enum tt_for_kind)(TT_THREAD_X + d), 0, v[d], s);
  return s;
}

stmt
tt_gpu_share_blocks(struct pass *p, stmt s)
{
  struct tt_arena *ar = p->arena;
  struct chain c = peel(p, s);
  if (c.n == 0)
    return NULL;
  arrange(p, &c);
  int64_t runs = c.points / c.run;
  int64_t blocks = (runs + TT_GPU_THREADS - 1) / TT_GPU_THREADS;
  const struct tt_var *b = tt_pass_var(p, "bx", blocks);
  const struct tt_var *t = tt_pass_var(p, "tx", TT_GPU_THREADS);
  const struct tt_expr *at = tt_var_ref(ar, t);
  if (blocks > 1)
    at = tt_iadd(ar, tt_imul(ar, tt_var_ref(ar, b), TT_GPU_THREADS), at);
  s = at_point(p, &c, at);
  if (blocks * TT_GPU_THREADS != runs)
    s = below(p, at, runs, s);
  s = tt_for(ar, TT_THREAD_X, 0, t, s);
  return blocks > 1 ? tt_for(ar, TT_BLOCK_X, 0, b, s) : s;
}

struct sharing {
  struct pass *pass;
  const struct gpu_kernel *k;
};

/* Outside of thread loops. */
static stmt
share_out(void *ctx, stmt s)
{
  struct sharing *g = ctx;
  if (s->kind == TT_STORE || s->kind == TT_INTRIN ||
      (s->kind == TT_FOR && tt_is_thread(s->for_kind)))
    return s;
  if (s->kind == TT_FOR && !is_bound(s) &&
      !tt_gpu_has(s, TT_THREAD_X, TT_THREAD_Z)) {
    struct chain c = peel(g->pass, s);
    if (c.n > 0) {
      stmt r = among_threads(g->pass, g->k, &c);
      return s->comment ? tt_comment(g->pass->arena, s->comment, r) : r;
    }
  }
  return tt_map_children(g->pass, s, share_out, g);
}

stmt
tt_gpu_share_threads(struct pass *p, const struct gpu_kernel *k, stmt s)
{
  struct sharing g = {p, k};
  return share_out(&g, s);
}
