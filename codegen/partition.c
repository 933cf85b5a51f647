/* Loop partitioning: borders apart from the interior.
 *
 * A condition, clamp or guard in a loop's body is often settled for all but
 * the first and last iterations.  Such a loop becomes up to three: the
 * iterations before, the interior, the iterations after, each with a constant
 * extent; in the interior the condition is proven and vanishes.  Nothing is
 * computed that was not before.
 */
#include "config.h"

#include "codegen/internal.h"

#include "ir/passes.h"

#include <stdlib.h>

/* Copies multiply: loops with larger bodies stay whole. */
#define MAX_NODES 3000
/* The parts of a parallel loop run one after the other: one of fewer
 * iterations stays whole, or threads would have nothing to do. */
#define MIN_PARALLEL 8
/* Iterations of a loop beside which a test before it costs nothing. */
#define LONG 8

/* Iterations lo <= v < hi. */
struct span {
  int64_t lo, hi;
};

struct finder {
  struct pass *pass;
  const struct tt_var *var;
  struct span interior;
  int64_t nodes;
};

static int64_t
length(struct span s)
{
  return s.hi > s.lo ? s.hi - s.lo : 0;
}

static struct span
meet(struct span a, struct span b)
{
  return (struct span){a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi};
}

/* c*v + rest, rest between lo and hi whatever the other variables. */
struct form {
  int64_t c, lo, hi;
};

/* false when v does not occur, or not affinely. */
static bool
form_of(struct finder *f, const struct tt_expr *e, struct form *out)
{
  struct tt_arena *ar = f->pass->arena;
  struct tt_affine a = tt_affine_of(ar, e), rest = {.c0 = a.c0};
  rest.term = TT_ARRAY(ar, const struct tt_expr *, (size_t)a.n + 1);
  rest.coef = TT_ARRAY(ar, int64_t, (size_t)a.n + 1);
  out->c = 0;
  for (int i = 0; i < a.n; i++) {
    if (a.term[i]->kind == TT_VAR && a.term[i]->var == f->var) {
      out->c = a.coef[i];
      continue;
    }
    if (tt_expr_uses_var(a.term[i], f->var))
      return false;
    rest.term[rest.n] = a.term[i];
    rest.coef[rest.n++] = a.coef[i];
  }
  if (out->c == 0)
    return false;
  struct tt_interval b = tt_bounds(tt_affine_expr(ar, &rest), NULL);
  out->lo = b.lo;
  out->hi = b.hi;
  /* Room for the divisions below. */
  return b.ok && b.lo > INT64_MIN / 4 && b.hi < INT64_MAX / 4 &&
         llabs(out->c) < INT64_MAX / 4;
}

/* Iterations in which k*(c*v + rest) + d >= 0 for every rest; k is 1 or -1. */
static struct span
always(const struct form *x, int k, int64_t d, int64_t extent)
{
  int64_t c = k * x->c, lo = k > 0 ? x->lo + d : -x->hi + d;
  struct span s = {0, extent};
  if (c > 0)
    s.lo = -tt_floordiv(lo, c); /* ceil(-lo / c) */
  else
    s.hi = tt_floordiv(lo, -c) + 1;
  return meet(s, (struct span){0, extent});
}

/* Keep the interior inside the iterations in which one of two things holds,
 * the one that holds longer. */
static void
keep_inside(struct finder *f, struct span a, struct span b)
{
  struct span s = meet(f->interior, length(a) >= length(b) ? a : b);
  if (length(s) > 0 && 2 * length(s) >= f->var->extent)
    f->interior = s;
}

static void
look_at(void *ctx, const struct tt_expr *e)
{
  struct finder *f = ctx;
  f->nodes++;
  if (e->kind != TT_BINARY || e->a->type.dtype != TT_I64 ||
      e->a->type.lanes != 1)
    return;
  /* a - b >= d and its opposite b - a >= 1 - d */
  int64_t d;
  int k = 1;
  if (e->op == TT_GE || e->op == TT_MIN || e->op == TT_MAX) {
    d = 0;
  } else if (e->op == TT_GT) {
    d = -1;
  } else if (e->op == TT_LE) {
    d = 0;
    k = -1;
  } else if (e->op == TT_LT) {
    d = -1;
    k = -1;
  } else {
    return;
  }
  struct form x;
  if (!tt_expr_uses_var(e, f->var) ||
      !form_of(f, tt_isub(f->pass->arena, e->a, e->b), &x))
    return;
  int64_t n = f->var->extent;
  int64_t opposite = e->op == TT_MIN || e->op == TT_MAX ? 0 : -1 - d;
  keep_inside(f, always(&x, k, d, n), always(&x, -k, opposite, n));
}

static void
look_in(void *ctx, const struct tt_expr *e)
{
  tt_expr_visit(e, look_at, ctx);
}

/* Is there a loop that runs many times for one test of a condition? */
static void
find_loop(void *ctx, const struct tt_stmt *s)
{
  if (s->kind == TT_FOR &&
      (s->for_kind == TT_SERIAL || s->for_kind == TT_PARALLEL) &&
      s->var->extent >= LONG)
    *(bool *)ctx = true;
}

/* A condition around such a loop is not worth a copy of it. */
static bool
is_cheap(const struct tt_stmt *s)
{
  bool loop = false;
  if (s->kind == TT_IF)
    tt_walk(s->body, find_loop, &loop);
  return loop;
}

static void
look_at_stmt(void *ctx, const struct tt_stmt *s)
{
  struct finder *f = ctx;
  f->nodes++;
  if (!is_cheap(s))
    tt_own_exprs(s, look_in, f);
}

struct shift {
  const struct tt_var *var;
  const struct tt_expr *by;
};

static const struct tt_expr *
shift_expr(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct shift *s = ctx;
  return tt_expr_subst(ar, e, 1, &s->var, &s->by);
}

/* The loop over part of its iterations. */
static const struct tt_stmt *
piece(struct pass *p, const struct tt_stmt *loop, struct span s)
{
  if (length(s) == 0)
    return NULL;
  const struct tt_var *v = tt_pass_var(p, loop->var->name, length(s));
  struct shift shift = {loop->var, tt_iadd(p->arena, tt_var_ref(p->arena, v),
                                           tt_idx(p->arena, s.lo))};
  const struct tt_stmt *body =
      tt_stmt_map_exprs(p->arena, loop->body, shift_expr, &shift);
  return tt_for(p->arena, loop->for_kind, loop->lanes, v, body);
}

static void
find_local(void *ctx, const struct tt_stmt *s)
{
  if (s->kind == TT_STORE && s->tensor->role == TT_LOCAL)
    *(bool *)ctx = true;
}

static void
find_bound(void *ctx, const struct tt_stmt *s)
{
  if (s->kind == TT_FOR &&
      (tt_is_block(s->for_kind) || tt_is_thread(s->for_kind)))
    *(bool *)ctx = true;
}

/* A vector loop that fills a local must keep its slices: those of other loops
 * over the same local are the same only when the loops are. */
static bool
may_split(const struct tt_stmt *loop)
{
  if (loop->for_kind == TT_UNROLL ||
      (loop->for_kind == TT_PARALLEL && loop->var->extent < MIN_PARALLEL))
    return false;
  /* Blocks and threads of a GPU do not differ in what they run, and what is
   * around them has memory that they share. */
  bool local = false;
  tt_walk(loop, find_bound, &local);
  if (local)
    return false;
  if (loop->for_kind == TT_VECTOR)
    tt_walk(loop->body, find_local, &local);
  return !local;
}

static const struct tt_stmt *partition(void *ctx, const struct tt_stmt *s);

/* The body of a part: loops inside it may have borders of their own. */
static const struct tt_stmt *
partition_inside(void *ctx, const struct tt_stmt *s)
{
  if (s->kind == TT_FOR)
    return tt_map_children(ctx, s, partition, ctx);
  return partition(ctx, s);
}

static const struct tt_stmt *
partition_loop(struct pass *p, const struct tt_stmt *loop)
{
  struct finder f = {p, loop->var, {0, loop->var->extent}, 0};
  tt_walk(loop->body, look_at_stmt, &f);
  if (length(f.interior) == loop->var->extent || f.nodes > MAX_NODES)
    return loop;
  const struct tt_stmt *parts[3] = {
      piece(p, loop, (struct span){0, f.interior.lo}),
      piece(p, loop, f.interior),
      piece(p, loop, (struct span){f.interior.hi, loop->var->extent})};
  return tt_seq(p->arena, 3, parts);
}

static const struct tt_stmt *
partition(void *ctx, const struct tt_stmt *s)
{
  struct pass *p = ctx;
  if (s->kind == TT_FOR && may_split(s)) {
    const struct tt_stmt *parts = partition_loop(p, s);
    if (parts != s) {
      const struct tt_stmt *r =
          parts->kind == TT_SEQ ? tt_map_children(p, parts, partition_inside, p)
                                : partition_inside(p, parts);
      return s->comment ? tt_comment(p->arena, s->comment, r) : r;
    }
  }
  return tt_map_children(p, s, partition, p);
}

const struct tt_stmt *
tt_pass_partition(struct pass *p, const struct tt_stmt *s)
{
  return partition(p, s);
}
