/* The interpreter of programs: all stages in order, or one element and what it
 * depends on.
 *
 * A program's meaning is defined here: the points of a stage are independent,
 * a reduction runs over its axes as nested loops in their order, and the value
 * is rounded to its type after every operation.
 */
#include "config.h"

#include "ir/passes.h"

#include "ir/interp.h"

#include <math.h>
#include <stdlib.h>

/* A stage ready to run.  Slots: the spatial axes, then the reduction's. */
struct stage_code {
  const struct tt_stage *stage;
  struct tt_buffer *out;
  struct tt_code *value, *where;
};

static struct tt_buffer *
any_buffer(void *values, const struct tt_tensor *t)
{
  return tt_values_buffer(values, t);
}

static bool
compile_stage(struct tt_arena *arena, struct tt_run *run,
              tt_buffer_fn *buffer_of, void *ctx, const struct tt_stage *stage,
              struct stage_code *c)
{
  int n = stage->nspatial + stage->nreduce;
  const struct tt_var **vars =
      TT_ARRAY(arena, const struct tt_var *, (size_t)n);
  for (int i = 0; i < n; i++)
    vars[i] = i < stage->nspatial ? stage->spatial[i]
                                  : stage->reduce[i - stage->nspatial];
  struct tt_scope_vars scope = {n, vars};
  *c = (struct stage_code){.stage = stage};
  c->out = buffer_of(ctx, stage->out);
  c->value = tt_code_new(arena, run, stage->value, &scope, buffer_of, ctx);
  if (stage->where)
    c->where = tt_code_new(arena, run, stage->where, &scope, buffer_of, ctx);
  return !run->failed;
}

static enum tt_binop
combine_op(enum tt_red red)
{
  switch (red) {
  case TT_RED_SUM:
    return TT_ADD;
  case TT_RED_PROD:
    return TT_MUL;
  case TT_RED_MIN:
    return TT_MIN;
  case TT_RED_MAX:
    return TT_MAX;
  case TT_RED_ANY:
    return TT_OR;
  case TT_RED_ALL:
    return TT_AND;
  case TT_RED_NONE:
    break;
  }
  return TT_NBINOPS;
}

static union tt_number
identity(enum tt_red red, enum tt_dtype t)
{
  bool is_float = tt_dtype_is_float(t);
  bool one = red == TT_RED_PROD || red == TT_RED_ALL;
  if (red == TT_RED_MIN)
    return is_float ? (union tt_number){.f = INFINITY}
                    : (union tt_number){.i = tt_dtype_max(t)};
  if (red == TT_RED_MAX)
    return is_float ? (union tt_number){.f = -INFINITY}
                    : (union tt_number){.i = tt_dtype_min(t)};
  return is_float ? (union tt_number){.f = one} : (union tt_number){.i = one};
}

/* Advance slots lo..hi-1 like nested loops, the last fastest; false after the
 * last point, when all are 0 again. */
static bool
advance(int64_t *slots, int n, const struct tt_var *const *axes)
{
  for (int i = n - 1; i >= 0; i--) {
    if (++slots[i] < axes[i]->extent)
      return true;
    slots[i] = 0;
  }
  return false;
}

/* The value at the point that the spatial slots hold. */
static union tt_number
stage_value(struct tt_run *run, const struct stage_code *c)
{
  const struct tt_stage *s = c->stage;
  if (s->red == TT_RED_NONE)
    return tt_code_eval(run, c->value);
  enum tt_binop op = combine_op(s->red);
  union tt_number acc = identity(s->red, s->out->dtype);
  int64_t *slots = run->slots + s->nspatial;
  for (int i = 0; i < s->nreduce; i++)
    slots[i] = 0;
  do {
    if (c->where && !tt_code_eval(run, c->where).i)
      continue;
    tt_eval_binary(op, s->out->dtype, acc, tt_code_eval(run, c->value), &acc);
  } while (!run->failed && advance(slots, s->nreduce, s->reduce));
  return acc;
}

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
run_stage(struct tt_run *run, const struct stage_code *c)
{
  const struct tt_stage *s = c->stage;
  for (int i = 0; i < s->nspatial; i++)
    run->slots[i] = 0;
  int64_t at = 0;
  do
    put(c->out, at++, stage_value(run, c));
  while (!run->failed && advance(run->slots, s->nspatial, s->spatial));
}

/* The most slots any stage needs. */
static size_t
slots_of(const struct tt_program *p)
{
  int most = 1;
  for (int i = 0; i < p->nstages; i++) {
    int n = p->stages[i]->nspatial + p->stages[i]->nreduce;
    most = n > most ? n : most;
  }
  return (size_t)most;
}

static const char *
finish(struct tt_run *run, struct tt_values *values, const struct tt_stage *at)
{
  const char *text = NULL;
  if (run->failed) {
    struct tt_sb sb = {0};
    tt_sb_printf(&sb, "%s: %s", at ? at->out->name : "?", run->error);
    text = tt_values_error(values, tt_sb_str(&sb));
    tt_sb_free(&sb);
  }
  free(run->misses.items);
  return text;
}

const char *
tt_interpret_program(const struct tt_program *p, struct tt_values *values)
{
  struct tt_arena *arena = tt_arena_new();
  struct tt_run run = {.slots = TT_ARRAY(arena, int64_t, slots_of(p))};
  int i;
  for (i = 0; i < p->nstages && !run.failed; i++) {
    struct tt_buffer *b = tt_values_buffer(values, p->stages[i]->out);
    free(b->written);
    b->written = NULL;
  }
  const struct tt_stage *at = NULL;
  for (i = 0; i < p->nstages && !run.failed; i++) {
    struct stage_code c;
    at = p->stages[i];
    if (compile_stage(arena, &run, any_buffer, values, at, &c)) {
      run_stage(&run, &c);
      c.out->done = !run.failed;
    }
  }
  const char *text = finish(&run, values, at);
  tt_arena_free(arena);
  return text;
}

/* ---- one element ------------------------------------------------------- */

struct demand {
  struct tt_arena *arena;
  struct tt_values *values;
  struct stage_code **codes;        /* by tensor id; NULL: not compiled */
  const struct tt_stage **stage_of; /* by tensor id */
};

/* The result of a stage counts as unwritten when it is first met. */
static struct tt_buffer *
demanded(void *ctx, const struct tt_tensor *t)
{
  struct demand *d = ctx;
  struct tt_buffer *b = tt_values_buffer(d->values, t);
  if (d->stage_of[t->id] && !b->done && !b->written)
    tt_buffer_poison(b);
  return b;
}

static struct stage_code *
code_of(struct demand *d, struct tt_run *run, const struct tt_tensor *t)
{
  struct stage_code **c = &d->codes[t->id];
  if (!*c && d->stage_of[t->id]) {
    *c = TT_NEW(d->arena, struct stage_code);
    compile_stage(d->arena, run, demanded, d, d->stage_of[t->id], *c);
  }
  if (!*c)
    tt_run_fail(run, "%s is never defined", t->name);
  return run->failed ? NULL : *c;
}

/* Try the element on top of the stack of misses.  If others are missing they
 * are above it now and it will be tried again; this needs no recursion, however
 * long the chain of stages. */
static void
try_top(struct demand *d, struct tt_run *run)
{
  struct tt_miss top = run->misses.items[run->misses.n - 1];
  struct tt_buffer *b = demanded(d, top.tensor);
  if (!b->written || b->written[top.at]) {
    run->misses.n--;
    return;
  }
  struct stage_code *c = code_of(d, run, top.tensor);
  if (!c)
    return;
  int64_t rest = top.at;
  for (int i = top.tensor->ndim - 1; i >= 0; i--) {
    run->slots[i] = rest % top.tensor->dims[i];
    rest /= top.tensor->dims[i];
  }
  /* The stack below is set aside, so that `misses` holds only those of this
   * evaluation: with one, values and errors mean nothing yet. */
  struct tt_run part = *run;
  part.misses.items = NULL;
  part.misses.n = part.misses.cap = 0;
  union tt_number v = stage_value(&part, c);
  if (part.misses.n == 0) {
    put(b, top.at, v);
    run->misses.n--;
  }
  for (int i = 0; i < part.misses.n; i++)
    TT_PUSH(run->misses, part.misses.items[i]);
  free(part.misses.items);
  if (part.failed)
    tt_run_fail(run, "%s", part.error);
}

double
tt_interpret_point(const struct tt_program *p, struct tt_values *values,
                   const struct tt_tensor *t, const int64_t *index)
{
  struct tt_arena *arena = tt_arena_new();
  struct demand d = {.arena = arena, .values = values};
  d.codes = TT_ARRAY(arena, struct stage_code *, (size_t)p->ntensors);
  d.stage_of = TT_ARRAY(arena, const struct tt_stage *, (size_t)p->ntensors);
  for (int i = 0; i < p->nstages; i++)
    d.stage_of[p->stages[i]->out->id] = p->stages[i];
  struct tt_run run = {.slots = TT_ARRAY(arena, int64_t, slots_of(p)),
                       .collect = true};
  int64_t at = tt_run_offset(&run, t, index, "asked for");
  struct tt_miss first = {t, at};
  TT_PUSH(run.misses, first);
  while (!run.failed && run.misses.n > 0)
    try_top(&d, &run);
  struct tt_buffer *b = tt_values_buffer(values, t);
  double v = run.failed ? NAN : b->f ? b->f[at] : (double)b->i[at];
  finish(&run, values, d.stage_of[t->id]);
  tt_arena_free(arena);
  return v;
}
