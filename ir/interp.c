/* The interpreter of expressions.
 *
 * An expression is compiled once to a tree with variables resolved to slots
 * and tensors to buffers, then evaluated often without any allocation.
 * Scalars are lazy where the language is; vectors compute all lanes of all
 * operands, as the emitted code does, so that an access that only a lane mask
 * would hide is caught here too.
 */
#include "config.h"

#include "ir/interp.h"

#include <inttypes.h>
#include <stdio.h>

/* Operations worth a case of their own, for speed. */
enum fast { SLOW, ADD_F32, SUB_F32, MUL_F32, ADD_I64, SUB_I64, MUL_I64 };

struct tt_code {
  enum tt_expr_kind kind;
  enum tt_binop op;
  enum tt_fn fn;
  enum fast fast;
  enum tt_dtype dtype, from; /* of the result, of the first operand */
  int lanes;
  int slot;              /* VAR */
  int nargs;             /* LOAD, CALL */
  union tt_number num;   /* INT, FLT; i: the stride of a RAMP */
  struct tt_buffer *buf; /* LOAD */
  struct tt_code *a, *b, *c, **args;
};

void
tt_run_fail(struct tt_run *r, const char *fmt, ...)
{
  if (r->failed)
    return;
  r->failed = true;
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(r->error, sizeof r->error, fmt, ap);
  va_end(ap);
}

/* ---- compiling --------------------------------------------------------- */

struct compiler {
  struct tt_arena *arena;
  struct tt_run *run;
  const struct tt_scope_vars *vars;
  tt_buffer_fn *buffer_of;
  void *ctx;
};

static enum fast
fast_op(const struct tt_expr *e)
{
  if (e->kind != TT_BINARY || e->type.lanes > 1)
    return SLOW;
  bool f32 = e->type.dtype == TT_F32, i64 = e->type.dtype == TT_I64;
  if (e->op == TT_ADD)
    return f32 ? ADD_F32 : i64 ? ADD_I64 : SLOW;
  if (e->op == TT_SUB)
    return f32 ? SUB_F32 : i64 ? SUB_I64 : SLOW;
  if (e->op == TT_MUL)
    return f32 ? MUL_F32 : i64 ? MUL_I64 : SLOW;
  return SLOW;
}

static void
bind(struct compiler *k, struct tt_code *c, const struct tt_expr *e)
{
  if (e->kind == TT_VAR) {
    c->slot = k->vars->n - 1;
    while (c->slot >= 0 && k->vars->vars[c->slot] != e->var)
      c->slot--;
    if (c->slot < 0)
      tt_run_fail(k->run, "%s is not bound", e->var->name);
  }
  if (e->kind == TT_LOAD) {
    c->buf = k->buffer_of(k->ctx, e->tensor);
    if (!c->buf)
      tt_run_fail(k->run, "%s may not be read here", e->tensor->name);
    else if (e->nargs != e->tensor->ndim)
      tt_run_fail(k->run, "%s has %d dimensions, %d indices", e->tensor->name,
                  e->tensor->ndim, e->nargs);
  }
}

static struct tt_code *
compile(struct compiler *k, const struct tt_expr *e)
{
  struct tt_code *c = TT_NEW(k->arena, struct tt_code);
  c->kind = e->kind;
  c->op = e->op;
  c->fn = e->fn;
  c->fast = fast_op(e);
  c->dtype = e->type.dtype;
  c->lanes = e->type.lanes;
  c->nargs = e->nargs;
  if (e->kind == TT_FLT)
    c->num.f = e->fval;
  else
    c->num.i = e->ival;
  bind(k, c, e);
  c->a = e->a ? compile(k, e->a) : NULL;
  c->b = e->b ? compile(k, e->b) : NULL;
  c->c = e->c ? compile(k, e->c) : NULL;
  c->args = TT_ARRAY(k->arena, struct tt_code *, (size_t)e->nargs);
  for (int i = 0; i < e->nargs; i++)
    c->args[i] = compile(k, e->args[i]);
  if (e->a)
    c->from = e->a->type.dtype;
  return c;
}

struct tt_code *
tt_code_new(struct tt_arena *arena, struct tt_run *run, const struct tt_expr *e,
            const struct tt_scope_vars *vars, tt_buffer_fn *buffer_of,
            void *ctx)
{
  struct compiler k = {arena, run, vars, buffer_of, ctx};
  struct tt_code *c = compile(&k, e);
  return run->failed ? NULL : c;
}

/* ---- evaluating -------------------------------------------------------- */

int64_t
tt_run_offset(struct tt_run *r, const struct tt_tensor *t, const int64_t *idx,
              const char *what)
{
  int64_t at = 0;
  for (int i = 0; i < t->ndim; i++) {
    if (idx[i] < 0 || idx[i] >= t->dims[i]) {
      /* What a missing element would have given may stand in an index. */
      if (r->misses.n == 0)
        tt_run_fail(r, "%s dimension %d (0..%" PRId64 ") is %s at %" PRId64,
                    t->name, i, t->dims[i] - 1, what, idx[i]);
      return 0;
    }
    at = at * t->dims[i] + idx[i];
  }
  return at;
}

static union tt_number
element(struct tt_run *r, const struct tt_buffer *b, int64_t at)
{
  if (b->written && !b->written[at]) {
    if (r->collect) {
      struct tt_miss miss = {b->tensor, at};
      TT_PUSH(r->misses, miss);
    } else {
      tt_run_fail(r, "%s is read at element %" PRId64 " before it is written",
                  b->tensor->name, at);
    }
    return (union tt_number){0};
  }
  return b->f ? (union tt_number){.f = b->f[at]}
              : (union tt_number){.i = b->i[at]};
}

static union tt_number
load(struct tt_run *r, const struct tt_code *c)
{
  int64_t idx[TT_MAX_DIMS];
  for (int i = 0; i < c->nargs; i++)
    idx[i] = tt_code_eval(r, c->args[i]).i;
  return element(r, c->buf, tt_run_offset(r, c->buf->tensor, idx, "read"));
}

static union tt_number
apply(struct tt_run *r, const struct tt_code *c, union tt_number a,
      union tt_number b)
{
  union tt_number v = {0};
  if (!tt_eval_binary(c->op, c->from, a, b, &v) && r->misses.n == 0)
    tt_run_fail(r, "%s by %" PRId64 " has no value", tt_binop_text(c->op), b.i);
  return v;
}

static union tt_number
call(struct tt_run *r, const struct tt_code *c, const union tt_number *args)
{
  union tt_number v = {0};
  if (!tt_eval_call(c->fn, c->dtype, args, &v) && r->misses.n == 0)
    tt_run_fail(r, "%s has no value for its arguments", tt_fn_name(c->fn));
  return v;
}

static union tt_number
binary(struct tt_run *r, const struct tt_code *c)
{
  union tt_number a = tt_code_eval(r, c->a), b;
  if ((c->op == TT_AND && !a.i) || (c->op == TT_OR && a.i))
    return a;
  b = tt_code_eval(r, c->b);
  switch (c->fast) {
  case ADD_F32:
    return (union tt_number){.f = (float)(a.f + b.f)};
  case SUB_F32:
    return (union tt_number){.f = (float)(a.f - b.f)};
  case MUL_F32:
    return (union tt_number){.f = (float)(a.f * b.f)};
  case ADD_I64:
    return (union tt_number){.i = (int64_t)((uint64_t)a.i + (uint64_t)b.i)};
  case SUB_I64:
    return (union tt_number){.i = (int64_t)((uint64_t)a.i - (uint64_t)b.i)};
  case MUL_I64:
    return (union tt_number){.i = (int64_t)((uint64_t)a.i * (uint64_t)b.i)};
  case SLOW:
    break;
  }
  return apply(r, c, a, b);
}

union tt_number
tt_code_eval(struct tt_run *r, const struct tt_code *c)
{
  union tt_number args[2];
  switch (c->kind) {
  case TT_INT:
  case TT_FLT:
    return c->num;
  case TT_VAR:
    return (union tt_number){.i = r->slots[c->slot]};
  case TT_LOAD:
    return load(r, c);
  case TT_BINARY:
    return binary(r, c);
  case TT_NEG:
    return tt_eval_neg(c->dtype, tt_code_eval(r, c->a));
  case TT_NOT:
    return tt_eval_not(c->dtype, tt_code_eval(r, c->a));
  case TT_CAST:
    return tt_eval_cast(c->dtype, c->from, tt_code_eval(r, c->a));
  case TT_SAT:
    return tt_eval_sat(c->dtype, c->from, tt_code_eval(r, c->a));
  case TT_SELECT:
    return tt_code_eval(r, tt_code_eval(r, c->c).i ? c->a : c->b);
  case TT_CALL:
    for (int i = 0; i < c->nargs; i++)
      args[i] = tt_code_eval(r, c->args[i]);
    return call(r, c, args);
  case TT_RAMP:
  case TT_BROADCAST:
    break;
  }
  tt_run_fail(r, "a vector where a scalar is due");
  return (union tt_number){0};
}

static void
load_lanes(struct tt_run *r, const struct tt_code *c, union tt_number *out)
{
  int n = c->lanes, ndim = c->nargs;
  union tt_number idx[ndim ? ndim : 1][n];
  for (int i = 0; i < ndim; i++)
    tt_code_eval_lanes(r, c->args[i], n, idx[i]);
  for (int l = 0; l < n; l++) {
    int64_t at[TT_MAX_DIMS];
    for (int i = 0; i < ndim; i++)
      at[i] = idx[i][l].i;
    out[l] = element(r, c->buf, tt_run_offset(r, c->buf->tensor, at, "read"));
  }
}

static void
call_lanes(struct tt_run *r, const struct tt_code *c, union tt_number *out)
{
  union tt_number b[c->lanes];
  tt_code_eval_lanes(r, c->args[0], c->lanes, out);
  if (c->nargs == 2)
    tt_code_eval_lanes(r, c->args[1], c->lanes, b);
  for (int l = 0; l < c->lanes; l++) {
    union tt_number args[2] = {out[l], c->nargs == 2 ? b[l] : out[l]};
    out[l] = call(r, c, args);
  }
}

static void
binary_lanes(struct tt_run *r, const struct tt_code *c, union tt_number *out)
{
  union tt_number b[c->lanes];
  tt_code_eval_lanes(r, c->a, c->lanes, out);
  tt_code_eval_lanes(r, c->b, c->lanes, b);
  for (int l = 0; l < c->lanes; l++)
    out[l] = apply(r, c, out[l], b[l]);
}

static void
select_lanes(struct tt_run *r, const struct tt_code *c, union tt_number *out)
{
  if (c->c->lanes == 1) { /* one condition for all lanes is a branch */
    tt_code_eval_lanes(r, tt_code_eval(r, c->c).i ? c->a : c->b, c->lanes, out);
    return;
  }
  union tt_number cond[c->lanes], b[c->lanes];
  tt_code_eval_lanes(r, c->c, c->lanes, cond);
  tt_code_eval_lanes(r, c->a, c->lanes, out);
  tt_code_eval_lanes(r, c->b, c->lanes, b);
  for (int l = 0; l < c->lanes; l++)
    if (!cond[l].i)
      out[l] = b[l];
}

static void
unary_lanes(struct tt_run *r, const struct tt_code *c, union tt_number *out)
{
  tt_code_eval_lanes(r, c->a, c->lanes, out);
  for (int l = 0; l < c->lanes; l++)
    out[l] = c->kind == TT_NEG    ? tt_eval_neg(c->dtype, out[l])
             : c->kind == TT_NOT  ? tt_eval_not(c->dtype, out[l])
             : c->kind == TT_CAST ? tt_eval_cast(c->dtype, c->from, out[l])
                                  : tt_eval_sat(c->dtype, c->from, out[l]);
}

void
tt_code_eval_lanes(struct tt_run *r, const struct tt_code *c, int lanes,
                   union tt_number *out)
{
  if (c->lanes == 1) {
    out[0] = tt_code_eval(r, c);
    for (int l = 1; l < lanes; l++)
      out[l] = out[0];
    return;
  }
  if (c->lanes != lanes) {
    tt_run_fail(r, "%d lanes where %d are due", c->lanes, lanes);
    return;
  }
  switch (c->kind) {
  case TT_LOAD:
    load_lanes(r, c, out);
    return;
  case TT_BINARY:
    binary_lanes(r, c, out);
    return;
  case TT_NEG:
  case TT_NOT:
  case TT_CAST:
  case TT_SAT:
    unary_lanes(r, c, out);
    return;
  case TT_SELECT:
    select_lanes(r, c, out);
    return;
  case TT_CALL:
    call_lanes(r, c, out);
    return;
  case TT_BROADCAST:
    tt_code_eval_lanes(r, c->a, lanes, out);
    return;
  case TT_RAMP: {
    uint64_t v = (uint64_t)tt_code_eval(r, c->a).i;
    for (int l = 0; l < lanes; l++, v += (uint64_t)c->num.i)
      out[l].i = (int64_t)v;
    return;
  }
  case TT_INT:
  case TT_FLT:
  case TT_VAR:
    for (int l = 0; l < lanes; l++)
      out[l] = tt_code_eval(r, c);
    return;
  }
}
