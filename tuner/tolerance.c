/* Owns the error bounds of outputs; see the header for the rule. */
#include "config.h"

#include "tuner/tolerance.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FEW_ELEMENTS 32

/* What is known of the values of a stage. */
struct noise {
  double rel; /* relative error, of floats */
  int steps;  /* floats made integers: 0 never, 1 in this very stage, 2
                 further up */
};

/* What one expression adds. */
struct terms {
  const struct tt_program *program;
  const struct noise *noise; /* of earlier stages, by id */
  double arithmetic;         /* the coarsest eps of an operation */
  double roundings;
  double producers; /* the worst of what is read */
  int steps;
};

static double
epsilon(enum tt_dtype t)
{
  switch (t) {
  case TT_F64:
    return 0x1p-52;
  case TT_F32:
    return 0x1p-23;
  case TT_F16:
    return 0x1p-10;
  case TT_BF16:
    return 0x1p-7;
  case TT_I8:
  case TT_U8:
  case TT_I16:
  case TT_U16:
  case TT_I32:
  case TT_U32:
  case TT_I64:
  case TT_BOOL:
  case TT_NDTYPES:
    break;
  }
  return 0;
}

static bool
is_step(enum tt_fn fn)
{
  return fn == TT_FN_FLOOR || fn == TT_FN_CEIL || fn == TT_FN_ROUND;
}

static void
look(void *ctx, const struct tt_expr *e)
{
  struct terms *t = ctx;
  double eps = epsilon(e->type.dtype);
  switch (e->kind) {
  case TT_LOAD: {
    const struct tt_stage *s = tt_stage_of(t->program, e->tensor);
    if (!s)
      break;
    const struct noise *n = &t->noise[s->id];
    t->producers = fmax(t->producers, n->rel);
    if (n->steps)
      t->steps = 2;
    break;
  }
  case TT_CAST:
  case TT_SAT:
    t->roundings += 2 * eps;
    if (eps == 0 && tt_dtype_is_float(e->a->type.dtype) && !t->steps)
      t->steps = 1;
    break;
  case TT_CALL:
    t->arithmetic = fmax(t->arithmetic, eps);
    if (eps > 0 && is_step(e->fn) && !t->steps)
      t->steps = 1;
    break;
  case TT_BINARY:
  case TT_NEG:
    t->arithmetic = fmax(t->arithmetic, eps);
    break;
  case TT_INT:
  case TT_FLT:
  case TT_VAR:
  case TT_NOT:
  case TT_SELECT:
  case TT_RAMP:
  case TT_BROADCAST:
    break;
  }
}

static struct noise
stage_noise(const struct tt_program *p, const struct noise *earlier,
            const struct tt_stage *s)
{
  struct terms t = {.program = p, .noise = earlier};
  double points = 1, length = 0;
  for (int i = 0; i < s->nreduce; i++)
    points *= (double)s->reduce[i]->extent;
  tt_expr_visit(s->value, look, &t);
  if (s->where)
    tt_expr_visit(s->where, look, &t);
  double eps = epsilon(s->out->dtype);
  if (s->red == TT_RED_SUM || s->red == TT_RED_PROD) {
    t.arithmetic = fmax(t.arithmetic, eps);
    length = s->red == TT_RED_SUM ? sqrt(points) : points;
  }
  return (struct noise){
      t.producers + t.roundings + t.arithmetic * (16 + 8 * length), t.steps};
}

struct tt_tolerance
tt_output_tolerance(const struct tt_program *p, const struct tt_tensor *out)
{
  struct noise *noise = calloc((size_t)p->nstages + 1, sizeof *noise);
  struct tt_tolerance tol = {0, 0};
  const struct tt_stage *last = tt_stage_of(p, out);
  if (!noise || !last) {
    free(noise);
    return tol;
  }
  for (int i = 0; i <= last->id; i++)
    noise[i] = stage_noise(p, noise, p->stages[i]);
  struct noise n = noise[last->id];
  free(noise);
  bool few = tt_tensor_size(out) < FEW_ELEMENTS;
  if (tt_dtype_is_float(out->dtype)) {
    tol.rel = n.rel * (few ? 8 : 1);
    if (n.steps)
      tol.rel = fmax(tol.rel, 0.02);
  } else if (n.steps) {
    tol.abs = 1;
    tol.rel = n.steps > 1 ? 0.02 : 0;
  }
  return tol;
}
