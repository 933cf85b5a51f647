/* The verifier of programs and of loop nests.
 *
 * It runs between passes: what it accepts can be interpreted and printed
 * without further checks.  It reports a bug of the compiler, so the text is for
 * its makers.
 */
#include "config.h"

#include "ir/passes.h"

#include "ir/simplify.h"
#include "ir/verify.h"

#include <stdlib.h>

static const char *
finish(struct tt_verifier *v)
{
  tt_factset_free(&v->facts);
  free(v->vars.items);
  return v->error;
}

/* ---- programs ---------------------------------------------------------- */

struct program_ctx {
  const struct tt_program *program;
  const struct tt_stage **by; /* by tensor id: the stage, once passed */
  bool prepare;               /* checking a stage of the preparation */
};

static const char *
program_unreadable(void *ctx, const struct tt_tensor *t)
{
  const struct program_ctx *p = ctx;
  if (t->id < 0 || t->id >= p->program->ntensors ||
      p->program->tensors[t->id] != t)
    return "is no tensor of the program";
  switch (t->role) {
  case TT_INPUT:
    return p->prepare ? "is an input, read in preparation" : NULL;
  case TT_WEIGHT:
  case TT_CONST:
    return NULL;
  case TT_OUTPUT:
  case TT_TEMP:
    if (!p->by[t->id])
      return "is read before it is defined";
    return p->prepare && !p->by[t->id]->prepare
               ? "is not prepared, but read in preparation"
               : NULL;
  case TT_PREPARED:
  case TT_LOCAL:
    break;
  }
  return "has a role that programs do not have";
}

static void
check_tensor(struct tt_verifier *v, const struct tt_tensor *t, int id)
{
  if (t->id != id)
    tt_verifier_fail(v, "%s has id %d at position %d", t->name, t->id, id);
  if (t->ndim < 0 || t->ndim > TT_MAX_DIMS)
    tt_verifier_fail(v, "%s has %d dimensions", t->name, t->ndim);
  for (int i = 0; i < t->ndim && !v->error; i++)
    if (t->dims[i] < 1)
      tt_verifier_fail(v, "%s dimension %d is empty", t->name, i);
  if (t->has_range && (t->lo >= t->hi || tt_dtype_is_float(t->dtype)))
    tt_verifier_fail(v, "%s has a bad range", t->name);
  if (t->role == TT_CONST &&
      !(tt_dtype_is_float(t->dtype) ? (const void *)t->fdata
                                    : (const void *)t->idata))
    tt_verifier_fail(v, "%s has no elements", t->name);
}

static bool
red_allows(enum tt_red red, enum tt_dtype t)
{
  switch (red) {
  case TT_RED_NONE:
    return true;
  case TT_RED_SUM:
  case TT_RED_PROD:
  case TT_RED_MIN:
  case TT_RED_MAX:
    return t != TT_BOOL;
  case TT_RED_ANY:
  case TT_RED_ALL:
    return t == TT_BOOL;
  }
  return false;
}

static void
check_signature(struct tt_verifier *v, const struct tt_stage *s,
                const struct program_ctx *p)
{
  const struct tt_tensor *out = s->out;
  if (out->role != TT_OUTPUT && out->role != TT_TEMP)
    tt_verifier_fail(v, "it is neither output nor temp");
  if (p->by[out->id])
    tt_verifier_fail(v, "it is defined twice");
  if (s->prepare && out->role == TT_OUTPUT)
    tt_verifier_fail(v, "an output cannot be prepared");
  if (s->nspatial != out->ndim)
    tt_verifier_fail(v, "%d axes for %d dimensions", s->nspatial, out->ndim);
  for (int i = 0; i < s->nspatial && !v->error; i++)
    if (s->spatial[i]->extent != out->dims[i])
      tt_verifier_fail(v, "axis %s does not span dimension %d",
                       s->spatial[i]->name, i);
  if ((s->red == TT_RED_NONE) != (s->nreduce == 0))
    tt_verifier_fail(v, "reduction axes without a reduction, or none");
  if (s->red == TT_RED_NONE && s->where)
    tt_verifier_fail(v, "where without a reduction");
  if (!red_allows(s->red, out->dtype))
    tt_verifier_fail(v, "%s of %s", tt_red_name(s->red),
                     tt_dtype_name(out->dtype));
  if (s->value->type.dtype != out->dtype || s->value->type.lanes != 1)
    tt_verifier_fail(v, "its value has another type");
  if (s->where &&
      (s->where->type.dtype != TT_BOOL || s->where->type.lanes != 1))
    tt_verifier_fail(v, "where is no bool");
}

static void
bind_axes(struct tt_verifier *v, int n, const struct tt_var *const *axes)
{
  for (int i = 0; i < n; i++) {
    for (int j = 0; j < v->vars.n; j++)
      if (v->vars.items[j] == axes[i])
        tt_verifier_fail(v, "axis %s is bound twice", axes[i]->name);
    if (axes[i]->extent < 1)
      tt_verifier_fail(v, "axis %s is empty", axes[i]->name);
    TT_PUSH(v->vars, axes[i]);
  }
}

static void
check_stage(struct tt_verifier *v, const struct tt_stage *s,
            struct program_ctx *p)
{
  check_signature(v, s, p);
  if (v->error)
    return;
  p->prepare = s->prepare;
  v->vars.n = 0;
  bind_axes(v, s->nspatial, s->spatial);
  bind_axes(v, s->nreduce, s->reduce);
  struct tt_fact_mark mark = tt_factset_mark(&v->facts);
  if (s->where) {
    tt_verify_expr(v, s->where);
    if (v->error)
      return;
  }
  bool never = s->where && tt_prove_in(&v->facts, s->where, 4096) == 0;
  if (s->where)
    tt_factset_push(&v->facts, s->where, false);
  /* Nothing is evaluated where the condition never holds. */
  if (!never)
    tt_verify_expr(v, s->value);
  tt_factset_pop(&v->facts, mark);
  p->by[s->out->id] = s;
}

const char *
tt_verify_program(struct tt_arena *arena, const struct tt_program *p)
{
  struct program_ctx ctx = {.program = p};
  ctx.by = TT_ARRAY(arena, const struct tt_stage *, (size_t)p->ntensors);
  struct tt_verifier v = {
      .arena = arena, .unreadable = program_unreadable, .ctx = &ctx};
  for (int i = 0; i < p->ntensors && !v.error; i++)
    check_tensor(&v, p->tensors[i], i);
  for (int i = 0; i < p->nstages && !v.error; i++) {
    const struct tt_stage *s = p->stages[i];
    if (s->id != i)
      tt_verifier_fail(&v, "stage %d has id %d", i, s->id);
    const char *why = s->out->id < 0 || s->out->id >= p->ntensors ||
                              p->tensors[s->out->id] != s->out
                          ? "is no tensor of the program"
                          : NULL;
    if (why)
      tt_verifier_fail(&v, "%s %s", s->out->name, why);
    else if (!v.error)
      check_stage(&v, s, &ctx);
    if (v.error)
      v.error = tt_arena_printf(arena, "stage %s: %s", s->out->name, v.error);
  }
  for (int i = 0; i < p->ntensors && !v.error; i++)
    if (p->tensors[i]->role == TT_OUTPUT && !ctx.by[i])
      tt_verifier_fail(&v, "output %s is never defined", p->tensors[i]->name);
  return finish(&v);
}

/* ---- loop nests -------------------------------------------------------- */

struct nest_ctx {
  struct tt_verifier *v;
  TT_VEC(const struct tt_tensor *) live;
};

static bool
is_live(const struct nest_ctx *n, const struct tt_tensor *t)
{
  for (int i = n->live.n - 1; i >= 0; i--)
    if (n->live.items[i] == t)
      return true;
  return false;
}

static const char *
nest_unreadable(void *ctx, const struct tt_tensor *t)
{
  const struct nest_ctx *n = ctx;
  return t->role == TT_LOCAL && !is_live(n, t) ? "is used where it is not "
                                                 "allocated"
                                               : NULL;
}

static void check_stmt(struct nest_ctx *n, const struct tt_stmt *s);

/* Half of a pair of TT_TRANSPOSE loops. */
static bool
is_transposed(const struct tt_stmt *s)
{
  const struct tt_stmt *b = s->body;
  return s->var->extent <= 16 &&
         ((b->kind == TT_STORE && b->value->kind == TT_LOAD) ||
          (b->kind == TT_FOR && b->for_kind == TT_TRANSPOSE &&
           b->body->kind == TT_STORE));
}

static void
check_for(struct nest_ctx *n, const struct tt_stmt *s)
{
  struct tt_verifier *v = n->v;
  for (int i = 0; i < v->vars.n; i++)
    if (v->vars.items[i] == s->var)
      tt_verifier_fail(v, "two live loops run over %s", s->var->name);
  if (s->var->extent < 1)
    tt_verifier_fail(v, "the loop over %s is empty", s->var->name);
  if (s->for_kind == TT_VECTOR && s->lanes < 1)
    tt_verifier_fail(v, "the loop over %s has %d lanes", s->var->name,
                     s->lanes);
  if (s->for_kind == TT_TRANSPOSE && !is_transposed(s))
    tt_verifier_fail(v, "the loop over %s copies no block transposed",
                     s->var->name);
  TT_PUSH(v->vars, s->var);
  check_stmt(n, s->body);
  v->vars.n--;
}

static void
check_store(struct nest_ctx *n, const struct tt_stmt *s)
{
  struct tt_verifier *v = n->v;
  const struct tt_tensor *t = s->tensor;
  const char *why = nest_unreadable(n, t);
  if (!why &&
      (t->role == TT_INPUT || t->role == TT_WEIGHT || t->role == TT_CONST))
    why = "cannot be written";
  if (why) {
    tt_verifier_fail(v, "%s %s", t->name, why);
    return;
  }
  struct tt_type type = s->value->type;
  if (type.dtype != t->dtype)
    tt_verifier_fail(v, "%s gets a value of type %s", t->name,
                     tt_dtype_name(type.dtype));
  int lanes = 1;
  for (int i = 0; i < s->nidx; i++) {
    int l = s->idx[i]->type.lanes;
    if (l != 1 && l != type.lanes)
      tt_verifier_fail(v, "%s: lanes of index and value differ", t->name);
    lanes = l > lanes ? l : lanes;
  }
  if (lanes != type.lanes)
    tt_verifier_fail(v, "%s: a vector without a vector index", t->name);
  tt_verify_access(v, t, s->nidx, s->idx);
  tt_verify_expr(v, s->value);
}

/* (The place may be outside: nothing is read.) */
static void
check_prefetch(struct nest_ctx *n, const struct tt_stmt *s)
{
  const struct tt_tensor *t = s->tensor;
  const char *why = nest_unreadable(n, t);
  if (why)
    tt_verifier_fail(n->v, "%s %s", t->name, why);
  if (s->nidx != t->ndim)
    tt_verifier_fail(n->v, "%s has %d dimensions, %d indices", t->name, t->ndim,
                     s->nidx);
  for (int i = 0; i < s->nidx; i++) {
    if (s->idx[i]->type.dtype != TT_I64 || s->idx[i]->type.lanes != 1)
      tt_verifier_fail(n->v, "an index of a prefetch of %s is no i64", t->name);
    tt_verify_expr(n->v, s->idx[i]);
  }
}

/* Its operands, over its own indices, and what it does. */
static void
check_intrin(struct nest_ctx *n, const struct tt_stmt *s)
{
  struct tt_verifier *v = n->v;
  int nvars = s->intrin->nspatial + s->intrin->nreduce;
  for (int i = 0; i < nvars; i++)
    TT_PUSH(v->vars, s->vars[i]);
  for (int i = 0; i < s->nidx; i++) {
    if (s->idx[i]->kind != TT_LOAD)
      tt_verifier_fail(v, "an operand of %s is no element", s->intrin->name);
    tt_verify_expr(v, s->idx[i]);
  }
  v->vars.n -= nvars;
  check_stmt(n, s->body);
}

static void
check_branch(struct nest_ctx *n, const struct tt_expr *cond, bool negated,
             const struct tt_stmt *body)
{
  struct tt_verifier *v = n->v;
  if (v->error || tt_prove_in(&v->facts, cond, 4096) == negated)
    return;
  struct tt_fact_mark mark = tt_factset_mark(&v->facts);
  if (tt_cond_is_stable(cond, body))
    tt_factset_push(&v->facts, cond, negated);
  check_stmt(n, body);
  tt_factset_pop(&v->facts, mark);
}

static void
check_alloc(struct nest_ctx *n, const struct tt_stmt *s)
{
  const struct tt_tensor *t = s->tensor;
  if (t->role != TT_LOCAL)
    tt_verifier_fail(n->v, "%s is allocated but no local", t->name);
  if (is_live(n, t))
    tt_verifier_fail(n->v, "%s is allocated twice", t->name);
  for (int i = 0; i < t->ndim; i++)
    if (t->dims[i] < 1)
      tt_verifier_fail(n->v, "%s dimension %d is empty", t->name, i);
  TT_PUSH(n->live, t);
  check_stmt(n, s->body);
  n->live.n--;
}

static void
check_stmt(struct nest_ctx *n, const struct tt_stmt *s)
{
  struct tt_verifier *v = n->v;
  if (v->error)
    return;
  switch (s->kind) {
  case TT_FOR:
    check_for(n, s);
    break;
  case TT_STORE:
    check_store(n, s);
    break;
  case TT_PREFETCH:
    check_prefetch(n, s);
    break;
  case TT_INTRIN:
    check_intrin(n, s);
    break;
  case TT_IF:
    if (s->cond->type.dtype != TT_BOOL || s->cond->type.lanes != 1)
      tt_verifier_fail(v, "the condition of an if is no bool");
    tt_verify_expr(v, s->cond);
    check_branch(n, s->cond, false, s->body);
    if (s->other)
      check_branch(n, s->cond, true, s->other);
    break;
  case TT_SEQ:
    for (int i = 0; i < s->nitems; i++)
      check_stmt(n, s->items[i]);
    break;
  case TT_ALLOC:
    check_alloc(n, s);
    break;
  }
}

const char *
tt_verify_stmt(struct tt_arena *arena, const struct tt_stmt *s, bool unrolled)
{
  struct nest_ctx n = {0};
  struct tt_verifier v = {.arena = arena,
                          .unrolled = unrolled,
                          .unreadable = nest_unreadable,
                          .ctx = &n};
  n.v = &v;
  check_stmt(&n, s);
  free(n.live.items);
  return finish(&v);
}
