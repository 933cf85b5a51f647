/* The interpreter of loop nests.
 *
 * Every index is checked against its tensor, and every element that is read
 * must have been written since its tensor came to life, so that a wrong
 * schedule is an error here rather than a wrong or a lucky number.  Parallel
 * loops run backwards: what depends on their order shows.
 */
#include "config.h"

#include "ir/passes.h"

#include "ir/interp.h"

#include <inttypes.h>
#include <stdlib.h>

/* A statement ready to run. */
struct op {
  enum tt_stmt_kind kind;
  int slot;              /* FOR */
  int64_t extent;        /* FOR */
  bool backwards;        /* FOR */
  int nidx, lanes;       /* STORE */
  int nitems;            /* SEQ */
  struct tt_buffer *buf; /* STORE, ALLOC */
  struct tt_code *value; /* STORE; IF: the condition */
  struct tt_code **idx;
  struct op **items; /* SEQ; FOR, IF, ALLOC: body, other */
};

struct nest {
  struct tt_arena *arena;
  struct tt_run run;
  const struct tt_program *program;
  struct tt_values *values; /* of the program's tensors */
  struct tt_values *own;    /* of those that lowering made */
  bool preparing, has_prepare;
  TT_VEC(const struct tt_var *) vars; /* slot i: vars.items[i] */
  TT_VEC(const struct tt_tensor *) live;
};

static bool
in_program(const struct nest *n, const struct tt_tensor *t)
{
  return t->id >= 0 && t->id < n->program->ntensors &&
         n->program->tensors[t->id] == t;
}

static struct tt_buffer *
buffer_of(const struct nest *n, const struct tt_tensor *t)
{
  return tt_values_buffer(in_program(n, t) ? n->values : n->own, t);
}

static bool
is_live(const struct nest *n, const struct tt_tensor *t)
{
  for (int i = n->live.n - 1; i >= 0; i--)
    if (n->live.items[i] == t)
      return true;
  return false;
}

/* What may be read: a local while it lives; weights only in preparation. */
static struct tt_buffer *
readable(void *ctx, const struct tt_tensor *t)
{
  struct nest *n = ctx;
  if (t->role == TT_LOCAL && !is_live(n, t))
    return NULL;
  if (t->role == TT_WEIGHT && n->has_prepare && !n->preparing)
    return NULL;
  if (t->role == TT_INPUT && n->preparing)
    return NULL;
  return buffer_of(n, t);
}

static bool
is_writable(const struct nest *n, const struct tt_tensor *t)
{
  switch (t->role) {
  case TT_OUTPUT:
    return !n->preparing;
  case TT_TEMP:
    return true;
  case TT_PREPARED:
    return n->preparing;
  case TT_LOCAL:
    return is_live(n, t);
  case TT_INPUT:
  case TT_WEIGHT:
  case TT_CONST:
    return false;
  }
  return false;
}

/* ---- compiling --------------------------------------------------------- */

static struct op *compile(struct nest *n, const struct tt_stmt *s);

static struct tt_code *
code(struct nest *n, const struct tt_expr *e)
{
  struct tt_scope_vars scope = {n->vars.n, n->vars.items};
  return tt_code_new(n->arena, &n->run, e, &scope, readable, n);
}

static struct op **
one_or_two(struct nest *n, const struct tt_stmt *a, const struct tt_stmt *b)
{
  struct op **items = TT_ARRAY(n->arena, struct op *, 2);
  items[0] = compile(n, a);
  items[1] = b ? compile(n, b) : NULL;
  return items;
}

static void
compile_for(struct nest *n, const struct tt_stmt *s, struct op *o)
{
  o->slot = n->vars.n;
  o->extent = s->var->extent;
  /* Their order must not matter. */
  o->backwards = s->for_kind == TT_PARALLEL || tt_is_block(s->for_kind) ||
                 tt_is_thread(s->for_kind);
  TT_PUSH(n->vars, s->var);
  o->items = one_or_two(n, s->body, NULL);
  n->vars.n--;
}

static void
compile_store(struct nest *n, const struct tt_stmt *s, struct op *o)
{
  if (!is_writable(n, s->tensor) || s->nidx != s->tensor->ndim) {
    tt_run_fail(&n->run, "%s may not be written so here", s->tensor->name);
    return;
  }
  o->buf = buffer_of(n, s->tensor);
  o->nidx = s->nidx;
  o->lanes = s->value->type.lanes;
  o->idx = TT_ARRAY(n->arena, struct tt_code *, (size_t)s->nidx);
  for (int i = 0; i < s->nidx; i++)
    o->idx[i] = code(n, s->idx[i]);
  o->value = code(n, s->value);
}

static struct op *
compile(struct nest *n, const struct tt_stmt *s)
{
  struct op *o = TT_NEW(n->arena, struct op);
  o->kind = s->kind;
  switch (s->kind) {
  case TT_FOR:
    compile_for(n, s, o);
    break;
  case TT_STORE:
    compile_store(n, s, o);
    break;
  case TT_PREFETCH:
    break;
  case TT_INTRIN:
    o->items = one_or_two(n, s->body, NULL);
    break;
  case TT_IF:
    o->value = code(n, s->cond);
    o->items = one_or_two(n, s->body, s->other);
    break;
  case TT_SEQ:
    o->nitems = s->nitems;
    o->items = TT_ARRAY(n->arena, struct op *, (size_t)s->nitems);
    for (int i = 0; i < s->nitems; i++)
      o->items[i] = compile(n, s->items[i]);
    break;
  case TT_ALLOC:
    o->buf = buffer_of(n, s->tensor);
    TT_PUSH(n->live, s->tensor);
    o->items = one_or_two(n, s->body, NULL);
    n->live.n--;
    break;
  }
  return o;
}

static int
depth_of(const struct tt_stmt *s)
{
  int most = 0, d;
  switch (s->kind) {
  case TT_STORE:
  case TT_PREFETCH:
    return 0;
  case TT_SEQ:
    for (int i = 0; i < s->nitems; i++) {
      d = depth_of(s->items[i]);
      most = d > most ? d : most;
    }
    return most;
  case TT_IF:
    most = depth_of(s->body);
    d = s->other ? depth_of(s->other) : 0;
    return d > most ? d : most;
  case TT_FOR:
    return 1 + depth_of(s->body);
  case TT_ALLOC:
  case TT_INTRIN:
    return depth_of(s->body);
  }
  return 0;
}

/* ---- running ----------------------------------------------------------- */

static void
put(struct tt_buffer *b, int64_t at, union tt_number v)
{
  if (b->f)
    b->f[at] = v.f;
  else
    b->i[at] = v.i;
  if (b->written)
    b->written[at] = 1;
}

static void
run_store(struct tt_run *r, const struct op *o)
{
  int64_t at[TT_MAX_DIMS];
  if (o->lanes == 1) {
    union tt_number v = tt_code_eval(r, o->value);
    for (int i = 0; i < o->nidx; i++)
      at[i] = tt_code_eval(r, o->idx[i]).i;
    int64_t to = tt_run_offset(r, o->buf->tensor, at, "written");
    if (!r->failed)
      put(o->buf, to, v);
    return;
  }
  union tt_number v[o->lanes], idx[o->nidx ? o->nidx : 1][o->lanes];
  tt_code_eval_lanes(r, o->value, o->lanes, v);
  for (int i = 0; i < o->nidx; i++)
    tt_code_eval_lanes(r, o->idx[i], o->lanes, idx[i]);
  for (int l = 0; l < o->lanes && !r->failed; l++) {
    for (int i = 0; i < o->nidx; i++)
      at[i] = idx[i][l].i;
    int64_t to = tt_run_offset(r, o->buf->tensor, at, "written");
    if (!r->failed)
      put(o->buf, to, v[l]);
  }
}

static void
run_op(struct tt_run *r, const struct op *o)
{
  if (r->failed)
    return;
  switch (o->kind) {
  case TT_FOR:
    for (int64_t i = 0; i < o->extent && !r->failed; i++) {
      r->slots[o->slot] = o->backwards ? o->extent - 1 - i : i;
      run_op(r, o->items[0]);
    }
    break;
  case TT_STORE:
    run_store(r, o);
    break;
  case TT_PREFETCH:
    break;
  case TT_INTRIN:
    run_op(r, o->items[0]);
    break;
  case TT_IF:
    if (tt_code_eval(r, o->value).i)
      run_op(r, o->items[0]);
    else if (o->items[1])
      run_op(r, o->items[1]);
    break;
  case TT_SEQ:
    for (int i = 0; i < o->nitems; i++)
      run_op(r, o->items[i]);
    break;
  case TT_ALLOC:
    tt_buffer_poison(o->buf);
    run_op(r, o->items[0]);
    break;
  }
}

static void
run_stmt(struct nest *n, const struct tt_stmt *s)
{
  n->run.slots = TT_ARRAY(n->arena, int64_t, (size_t)depth_of(s) + 1);
  struct op *o = compile(n, s);
  if (!n->run.failed)
    run_op(&n->run, o);
}

/* Nothing that the nest computes counts as there before it runs. */
static void
poison(struct nest *n, const struct tt_nest *nest)
{
  for (int i = 0; i < n->program->ntensors; i++) {
    const struct tt_tensor *t = n->program->tensors[i];
    if (t->role == TT_OUTPUT || t->role == TT_TEMP || t->role == TT_PREPARED)
      tt_buffer_poison(buffer_of(n, t));
  }
  for (int i = 0; i < nest->nprepared; i++)
    tt_buffer_poison(buffer_of(n, nest->prepared[i]));
  for (int i = 0; i < nest->ntemps; i++)
    tt_buffer_poison(buffer_of(n, nest->temps[i]));
}

static void
check_outputs(struct nest *n)
{
  for (int i = 0; i < n->program->ntensors && !n->run.failed; i++) {
    const struct tt_tensor *t = n->program->tensors[i];
    if (t->role != TT_OUTPUT)
      continue;
    struct tt_buffer *b = buffer_of(n, t);
    for (int64_t k = 0; k < b->size && !n->run.failed; k++)
      if (!b->written[k])
        tt_run_fail(&n->run, "%s is never written at element %" PRId64, t->name,
                    k);
  }
}

const char *
tt_interpret_nest(const struct tt_nest *nest, struct tt_values *values)
{
  struct nest n = {.arena = tt_arena_new(),
                   .program = nest->program,
                   .values = values,
                   .own = tt_values_new(),
                   .has_prepare = nest->prepare != NULL};
  poison(&n, nest);
  if (nest->prepare) {
    n.preparing = true;
    run_stmt(&n, nest->prepare);
    n.preparing = false;
  }
  if (!n.run.failed)
    run_stmt(&n, nest->body);
  check_outputs(&n);
  const char *text = n.run.failed ? tt_values_error(values, n.run.error) : NULL;
  free(n.run.misses.items);
  free(n.vars.items);
  free(n.live.items);
  tt_values_free(n.own);
  tt_arena_free(n.arena);
  return text;
}
