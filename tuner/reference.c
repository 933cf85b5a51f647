/* Owns the tie between compiled code and the interpreter. */
#include "config.h"

#include "tuner/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define POINTS 200      /* of an output, when all are too many */
#define ALL_POINTS 4096 /* an output this small is compared as a whole */
#define MAX_WORK 4e7    /* operations of the interpreter: a few seconds */
#define MAX_WIDER 64    /* beyond this multiple it is not noise */

void
tt_fill_input(const struct tt_tensor *t, uint64_t seed, void *data)
{
  int64_t n = tt_tensor_size(t);
  for (int64_t i = 0; i < n; i++) {
    uint64_t bits = tt_random_bits(seed, (uint32_t)t->id, (uint64_t)i);
    bool flt = tt_dtype_is_float(t->dtype);
    double f = flt ? tt_random_float(bits) : 0;
    int64_t v = flt ? 0 : tt_random_int(bits, t);
    switch (t->dtype) {
    case TT_F64:
      ((double *)data)[i] = f;
      break;
    case TT_F32:
      ((float *)data)[i] = (float)f;
      break;
    case TT_F16:
      ((uint16_t *)data)[i] = tt_f64_to_f16(f);
      break;
    case TT_BF16:
      ((uint16_t *)data)[i] = tt_f32_to_bf16((float)f);
      break;
    case TT_I8:
    case TT_U8:
    case TT_BOOL:
      ((uint8_t *)data)[i] = (uint8_t)v;
      break;
    case TT_I16:
    case TT_U16:
      ((uint16_t *)data)[i] = (uint16_t)v;
      break;
    case TT_I32:
    case TT_U32:
      ((uint32_t *)data)[i] = (uint32_t)v;
      break;
    case TT_I64:
      ((int64_t *)data)[i] = v;
      break;
    case TT_NDTYPES:
      break;
    }
  }
}

/* ---- what a sample costs ----------------------------------------------- */

struct cost {
  const struct tt_program *program;
  double *needed; /* points of each stage */
  double points;  /* evaluations of the stage looked at */
  double nodes;
};

static void
count_node(void *ctx, const struct tt_expr *e)
{
  struct cost *c = ctx;
  c->nodes++;
  if (e->kind != TT_LOAD)
    return;
  const struct tt_stage *s = tt_stage_of(c->program, e->tensor);
  if (s)
    c->needed[s->id] =
        fmin(c->needed[s->id] + c->points, (double)tt_tensor_size(s->out));
}

/* Operations to interpret `points` elements of an output, from the consumers
 * back: a stage is computed where it is read, and nowhere twice. */
static double
work(const struct tt_program *p, const struct tt_tensor *out, double points)
{
  const struct tt_stage *last = tt_stage_of(p, out);
  double total = 0;
  double *needed = calloc((size_t)p->nstages + 1, sizeof *needed);
  if (!needed || !last) {
    free(needed);
    return HUGE_VAL;
  }
  needed[last->id] = points;
  for (int i = last->id; i >= 0; i--) {
    const struct tt_stage *s = p->stages[i];
    struct cost c = {p, needed, needed[i], 0};
    if (needed[i] <= 0)
      continue;
    for (int k = 0; k < s->nreduce; k++)
      c.points *= (double)s->reduce[k]->extent;
    tt_expr_visit(s->value, count_node, &c);
    if (s->where)
      tt_expr_visit(s->where, count_node, &c);
    total += c.points * c.nodes;
  }
  free(needed);
  return total;
}

/* How many points to compare; 0: even one costs too much. */
static int64_t
sample_size(const struct tt_program *p, const struct tt_tensor *out)
{
  int64_t size = tt_tensor_size(out);
  int64_t n = size <= ALL_POINTS ? size : POINTS;
  while (n > 1 && work(p, out, (double)n) > MAX_WORK)
    n /= 2;
  return work(p, out, (double)n) > 10 * MAX_WORK ? 0 : n;
}

/* ---- comparing --------------------------------------------------------- */

static const char *
explain(struct tt_arena *a, const struct tt_tensor *out, const int64_t *idx,
        double got, double want)
{
  struct tt_sb sb = {0};
  tt_sb_printf(&sb, "%s[", out->name);
  for (int d = 0; d < out->ndim; d++)
    tt_sb_printf(&sb, "%s%lld", d ? ", " : "", (long long)idx[d]);
  tt_sb_printf(&sb,
               "] of the plain loops is %.9g where the interpreter has "
               "%.9g: the compiler or its flags break the code",
               got, want);
  const char *text = tt_arena_strdup(a, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* |got - want| as a multiple of the tolerance. */
static double
share(double got, double want, double rms, const struct tt_tolerance *tol)
{
  if (got == want || (isnan(got) && isnan(want)))
    return 0;
  double allowed = tol->rel * fmax(fabs(want), rms) + tol->abs;
  double e = fabs(got - want) / allowed;
  return isnan(e) ? HUGE_VAL : e;
}

const char *
tt_check_reference(struct tt_arena *arena, const struct tt_program *p,
                   struct tt_values *values, const struct tt_tensor *out,
                   uint64_t seed, const void *data, struct tt_tolerance *tol)
{
  int64_t size = tt_tensor_size(out), n = sample_size(p, out);
  double rms = tt_check_rms(out->dtype, data, size), worst = 0;
  const char *error = NULL;
  for (int64_t i = 0; i < n && !error; i++) {
    /* The corners always, then at random. */
    uint64_t at =
        n == size ? (uint64_t)i
        : i == 0  ? 0
        : i == 1  ? (uint64_t)size - 1
                  : tt_random_bits(seed + 1, (uint32_t)out->id, (uint64_t)i) %
                       (uint64_t)size;
    int64_t idx[TT_MAX_DIMS];
    uint64_t rest = at;
    for (int d = out->ndim - 1; d >= 0; d--) {
      idx[d] = (int64_t)(rest % (uint64_t)out->dims[d]);
      rest /= (uint64_t)out->dims[d];
    }
    double want = tt_interpret_point(p, values, out, idx);
    double got = tt_check_element(out->dtype, data, (int64_t)at);
    double e = share(got, want, rms, tol);
    worst = fmax(worst, e);
    if (e > MAX_WIDER || (e > 1 && tol->rel == 0))
      error = explain(arena, out, idx, got, want);
  }
  /* Two orders of summation may differ by more than code and interpreter,
   * which sum in the same one. */
  if (8 * worst > 1)
    tol->rel *= 8 * worst;
  return error;
}
