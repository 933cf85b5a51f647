/* Unrolled loops are written out, and neighbours under one condition joined.
 *
 * A copy of the body has constants for the variables of the unrolled loops
 * and locals of its own, so that no local is allocated in two places.
 */
#include "config.h"

#include "codegen/internal.h"

/* More statements than this in one function help no compiler. */
enum { MAX_STATEMENTS = 20000 };

/* What stands for a variable or a local in this copy, innermost first. */
struct env {
  const struct env *outer;
  const struct tt_var *var;
  const struct tt_expr *value;
  const struct tt_tensor *old, *new;
};

enum place { OUTSIDE, FIRST_COPY, LATER_COPY };

struct unroll {
  struct pass *pass;
  int count;
};

static const struct tt_expr *
rewrite(void *ctx, struct tt_arena *arena, const struct tt_expr *e)
{
  for (const struct env *v = ctx; v; v = v->outer) {
    if (e->kind == TT_VAR && e->var == v->var)
      return v->value;
    if (e->kind == TT_LOAD && v->old == e->tensor)
      return tt_load(arena, v->new, e->nargs, e->args);
  }
  return e;
}

static const struct tt_expr *
apply(struct tt_arena *arena, const struct env *env, const struct tt_expr *e)
{
  return env ? tt_expr_rewrite(arena, e, rewrite, (void *)env) : e;
}

/* A store or a prefetch. */
static const struct tt_stmt *
copy_access(struct tt_arena *arena, const struct env *env,
            const struct tt_stmt *s)
{
  const struct tt_tensor *t = s->tensor;
  const struct tt_expr *idx[TT_MAX_DIMS];
  for (const struct env *v = env; v; v = v->outer)
    if (v->old == t) {
      t = v->new;
      break;
    }
  for (int i = 0; i < s->nidx; i++)
    idx[i] = apply(arena, env, s->idx[i]);
  if (s->kind == TT_PREFETCH)
    return tt_prefetch(arena, t, s->nidx, idx);
  return tt_store(arena, t, s->nidx, idx, apply(arena, env, s->value));
}

static const struct tt_stmt *copy(struct unroll *, const struct env *,
                                  enum place at, const struct tt_stmt *);

static const struct tt_stmt *
copy_items(struct unroll *u, const struct env *env, enum place at,
           const struct tt_stmt *s)
{
  struct tt_arena *arena = u->pass->arena;
  const struct tt_stmt **items =
      TT_ARRAY(arena, const struct tt_stmt *, (size_t)s->nitems);
  for (int i = 0; i < s->nitems; i++)
    items[i] = copy(u, env, at, s->items[i]);
  return tt_seq(arena, s->nitems, items);
}

static const struct tt_stmt *
copy_loop(struct unroll *u, const struct env *env, enum place at,
          const struct tt_stmt *s)
{
  struct tt_arena *arena = u->pass->arena;
  if (s->var->extent > MAX_STATEMENTS) {
    u->count = MAX_STATEMENTS + 1;
    return s;
  }
  int n = (int)s->var->extent;
  const struct tt_stmt **items =
      TT_ARRAY(arena, const struct tt_stmt *, (size_t)n);
  for (int i = 0; i < n && u->count <= MAX_STATEMENTS; i++) {
    struct env *e = TT_NEW(arena, struct env);
    *e = (struct env){.outer = env, .var = s->var, .value = tt_idx(arena, i)};
    items[i] = copy(u, e, at == LATER_COPY || i > 0 ? LATER_COPY : FIRST_COPY,
                    s->body);
  }
  return tt_seq(arena, n, items);
}

static const struct tt_stmt *
copy_intrin(struct unroll *u, const struct env *env, enum place at,
            const struct tt_stmt *s)
{
  struct tt_arena *arena = u->pass->arena;
  const struct tt_expr *operands[TT_MAX_OPERANDS];
  for (int i = 0; i < s->nidx; i++)
    operands[i] = apply(arena, env, s->idx[i]);
  return tt_instruction(arena, s->intrin, s->op, s->vars, s->nidx, operands,
                        copy(u, env, at, s->body));
}

static const struct tt_stmt *
copy_alloc(struct unroll *u, const struct env *env, enum place at,
           const struct tt_stmt *s)
{
  struct tt_arena *arena = u->pass->arena;
  if (at == OUTSIDE)
    return tt_alloc_stmt(arena, s->tensor, copy(u, env, at, s->body));
  const struct tt_tensor *t = tt_pass_tensor(u->pass, s->tensor);
  struct env *e = TT_NEW(arena, struct env);
  *e = (struct env){.outer = env, .old = s->tensor, .new = t};
  return tt_alloc_stmt(arena, t, copy(u, e, at, s->body));
}

/* Comments are kept in the first copy of an unrolled loop alone. */
static const struct tt_stmt *
copy(struct unroll *u, const struct env *env, enum place at,
     const struct tt_stmt *s)
{
  struct tt_arena *arena = u->pass->arena;
  const struct tt_stmt *r = s;
  if (at != OUTSIDE && ++u->count > MAX_STATEMENTS)
    return s;
  switch (s->kind) {
  case TT_STORE:
  case TT_PREFETCH:
    r = env ? copy_access(arena, env, s) : s; /* (drops the comment) */
    break;
  case TT_SEQ:
    r = copy_items(u, env, at, s);
    break;
  case TT_IF:
    r = tt_if(arena, apply(arena, env, s->cond), copy(u, env, at, s->body),
              s->other ? copy(u, env, at, s->other) : NULL);
    break;
  case TT_FOR:
    r = s->for_kind == TT_UNROLL ? copy_loop(u, env, at, s)
                                 : tt_for(arena, s->for_kind, s->lanes, s->var,
                                          copy(u, env, at, s->body));
    break;
  case TT_ALLOC:
    r = copy_alloc(u, env, at, s);
    break;
  case TT_INTRIN:
    r = copy_intrin(u, env, at, s);
    break;
  }
  return s->comment && r != s && at != LATER_COPY
             ? tt_comment(arena, s->comment, r)
             : r;
}

struct counter {
  int n;
};

static void
count(void *ctx, const struct tt_stmt *s)
{
  struct counter *c = ctx;
  c->n += s->kind == TT_FOR && s->for_kind == TT_UNROLL;
}

static const struct tt_stmt *
unroll_nest(struct pass *p, const struct tt_stmt *s)
{
  struct counter c = {0};
  tt_walk(s, count, &c);
  if (c.n == 0 || p->error)
    return s;
  struct unroll u = {p, 0};
  const struct tt_stmt *r = copy(&u, NULL, OUTSIDE, s);
  if (u.count > MAX_STATEMENTS)
    p->error = tt_arena_printf(
        p->arena, "unrolling gives more than %d statements", MAX_STATEMENTS);
  return r;
}

/* A program with many stages may be long: what unrolling adds to one nest is
 * limited. */
const struct tt_stmt *
tt_pass_unroll(struct pass *p, const struct tt_stmt *s)
{
  if (s->kind != TT_SEQ)
    return unroll_nest(p, s);
  const struct tt_stmt **items =
      TT_ARRAY(p->arena, const struct tt_stmt *, (size_t)s->nitems);
  for (int i = 0; i < s->nitems; i++)
    items[i] = unroll_nest(p, s->items[i]);
  return tt_seq(p->arena, s->nitems, items);
}

/* ---- neighbours ------------------------------------------------------- */

static void
find_load(void *ctx, const struct tt_expr *e)
{
  bool *found = ctx;
  *found = *found || e->kind == TT_LOAD;
}

/* May b follow a under a's condition, evaluated once? */
static bool
same_condition(const struct tt_stmt *a, const struct tt_stmt *b)
{
  bool loads = false;
  if (a->kind != TT_IF || b->kind != TT_IF || b->comment ||
      !tt_expr_equal(a->cond, b->cond))
    return false;
  tt_expr_visit(a->cond, find_load, &loads);
  return !loads;
}

static const struct tt_stmt *
join_run(struct pass *p, int n, const struct tt_stmt *const *run)
{
  const struct tt_stmt **part =
      TT_ARRAY(p->arena, const struct tt_stmt *, (size_t)n);
  bool other = false;
  for (int i = 0; i < n; i++) {
    part[i] = run[i]->body;
    other = other || run[i]->other;
  }
  const struct tt_stmt *then = tt_seq(p->arena, n, part), *rest = NULL;
  if (other) {
    for (int i = 0; i < n; i++)
      part[i] = run[i]->other;
    rest = tt_seq(p->arena, n, part);
  }
  const struct tt_stmt *r = tt_if(p->arena, run[0]->cond, then, rest);
  return run[0]->comment ? tt_comment(p->arena, run[0]->comment, r) : r;
}

static const struct tt_stmt *
join(void *ctx, const struct tt_stmt *s)
{
  struct pass *p = ctx;
  if (s->kind == TT_SEQ) {
    const struct tt_stmt **items =
        TT_ARRAY(p->arena, const struct tt_stmt *, (size_t)s->nitems);
    int n = 0;
    for (int i = 0, j; i < s->nitems; i = j) {
      for (j = i + 1; j < s->nitems; j++)
        if (!same_condition(s->items[i], s->items[j]))
          break;
      items[n++] = j > i + 1 ? join_run(p, j - i, s->items + i) : s->items[i];
    }
    if (n < s->nitems) {
      const struct tt_stmt *r = tt_seq(p->arena, n, items);
      s = s->comment ? tt_comment(p->arena, s->comment, r) : r;
    }
  }
  return tt_map_children(p, s, join, p);
}

const struct tt_stmt *
tt_pass_join_ifs(struct pass *p, const struct tt_stmt *s)
{
  return join(p, s);
}
