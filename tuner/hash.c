/* The canonical hash of a program: 128 bits over a serialization in which
 * tensors are numbered by position, and the axes of a stage by theirs.
 *
 * Invariant: two programs that differ only in names (of the kernel, tensors,
 * axes) and in their schedule blocks have one hash; any difference in what
 * they compute gives another.
 */
#include "config.h"
#include "tuner/history.h"

#include <string.h>

/* Two independent lanes of multiply-rotate mixing. */
struct lanes {
  uint64_t a, b;
};

static uint64_t
mix(uint64_t x)
{
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static void
put(struct lanes *h, uint64_t word)
{
  h->a = mix(h->a ^ word) + 0x9e3779b97f4a7c15u;
  h->b = mix(h->b + word * 0xd6e8feb86659fd93u) ^ (h->b << 23 | h->b >> 41);
}

static void
put_double(struct lanes *h, double v)
{
  uint64_t bits;

  memcpy(&bits, &v, sizeof bits);
  put(h, bits);
}

static void
put_tensor(struct lanes *h, const struct tt_tensor *t)
{
  int64_t n = tt_tensor_size(t);

  put(h, (uint64_t)t->role << 32 | (uint64_t)t->dtype);
  put(h, (uint64_t)t->ndim);
  for (int d = 0; d < t->ndim; d++)
    put(h, (uint64_t)t->dims[d]);
  put(h, t->has_range);
  if (t->has_range) {
    put(h, (uint64_t)t->lo);
    put(h, (uint64_t)t->hi);
  }
  for (int64_t i = 0; t->fdata != NULL && i < n; i++)
    put_double(h, t->fdata[i]);
  for (int64_t i = 0; t->idata != NULL && i < n; i++)
    put(h, (uint64_t)t->idata[i]);
}

/* The number of a variable in its stage: spatial axes, then reduction. */
static uint64_t
axis_number(const struct tt_stage *s, const struct tt_var *v)
{
  for (int i = 0; i < s->nspatial; i++)
    if (s->spatial[i] == v)
      return (uint64_t)i;
  for (int i = 0; i < s->nreduce; i++)
    if (s->reduce[i] == v)
      return (uint64_t)(s->nspatial + i);
  return ~(uint64_t)0;
}

struct visit {
  struct lanes *h;
  const struct tt_stage *stage;
};

/* Post order with the number of operands after each node says which tree it
 * was: no two trees give one sequence. */
static void
put_node(void *ctx, const struct tt_expr *e)
{
  struct visit *v = ctx;
  struct lanes *h = v->h;

  put(h, (uint64_t)e->kind << 32 | (uint64_t)e->type.dtype << 16 |
             (uint64_t)e->type.lanes);
  put(h, (uint64_t)e->nargs);
  switch (e->kind) {
  case TT_INT:
  case TT_RAMP:
    put(h, (uint64_t)e->ival);
    break;
  case TT_FLT:
    put_double(h, e->fval);
    break;
  case TT_VAR:
    put(h, axis_number(v->stage, e->var));
    break;
  case TT_LOAD:
    put(h, (uint64_t)e->tensor->id);
    break;
  case TT_BINARY:
    put(h, (uint64_t)e->op);
    break;
  case TT_CALL:
    put(h, (uint64_t)e->fn);
    break;
  case TT_NEG:
  case TT_NOT:
  case TT_CAST:
  case TT_SAT:
  case TT_SELECT:
  case TT_BROADCAST:
    break;
  }
}

static void
put_stage(struct lanes *h, const struct tt_stage *s)
{
  struct visit v = {h, s};

  put(h, (uint64_t)s->out->id);
  put(h, (uint64_t)s->red);
  put(h, (uint64_t)s->nspatial);
  put(h, (uint64_t)s->nreduce);
  for (int i = 0; i < s->nspatial; i++)
    put(h, (uint64_t)s->spatial[i]->extent);
  for (int i = 0; i < s->nreduce; i++)
    put(h, (uint64_t)s->reduce[i]->extent);
  tt_expr_visit(s->value, put_node, &v);
  put(h, s->where != NULL);
  if (s->where != NULL)
    tt_expr_visit(s->where, put_node, &v);
}

/* NULL is another text than "". */
static void
put_text(struct lanes *h, const char *text)
{
  size_t n = text ? strlen(text) + 1 : 0;
  put(h, n);
  for (size_t i = 0; i < n; i++)
    put(h, (uint64_t)(unsigned char)text[i]);
}

/* What schedules can say and what comes of it depends on all of an intrin. */
static void
put_intrin(struct lanes *h, const struct tt_intrin *in)
{
  const struct tt_stage s = {
      .out = (struct tt_tensor *)in->operands[in->result].tensor,
      .red = in->red,
      .nspatial = in->nspatial,
      .nreduce = in->nreduce,
      .spatial = in->spatial,
      .reduce = in->reduce,
      .value = in->value};
  const char *texts[] = {in->name, in->guard, in->header,
                         in->init, in->emit,  in->store};

  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
    put_text(h, texts[i]);
  put(h, (uint64_t)in->threads);
  put(h, (uint64_t)in->noperands);
  for (int i = 0; i < in->noperands; i++) {
    const struct tt_operand_of *o = &in->operands[i];
    put_tensor(h, o->tensor);
    put_text(h, o->reg);
    put_text(h, o->load);
    put(h, (uint64_t)o->inner);
    put(h, (uint64_t)o->aligned);
    put(h, (uint64_t)o->dense << 1 | (uint64_t)o->shared);
  }
  put_stage(h, &s);
}

static bool
any_operand(void *ctx, int operand, const struct tt_expr *e)
{
  (void)ctx, (void)operand, (void)e;
  return true;
}

/* Does one that comes with the tool matter to the program? */
static bool
is_used(const struct tt_program *p, const struct tt_intrin *in)
{
  const struct tt_expr *found[TT_MAX_OPERANDS];
  for (int i = 0; i < p->nstages && in->built_in; i++)
    if (tt_intrin_matches(in, p->stages[i]->value, any_operand, NULL, found))
      return true;
  return !in->built_in;
}

const char *
tt_program_hash(struct tt_arena *arena, const struct tt_program *p)
{
  struct lanes h = {0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu};

  put(&h, (uint64_t)p->ntensors);
  for (int i = 0; i < p->ntensors; i++)
    put_tensor(&h, p->tensors[i]);
  put(&h, (uint64_t)p->nstages);
  for (int i = 0; i < p->nstages; i++)
    put_stage(&h, p->stages[i]);
  for (int i = 0; i < p->nintrins; i++)
    if (is_used(p, p->intrins[i]))
      put_intrin(&h, p->intrins[i]);
  return tt_arena_printf(arena, "%016llx%016llx",
                         (unsigned long long)mix(h.a ^ h.b << 1),
                         (unsigned long long)mix(h.b + h.a));
}
