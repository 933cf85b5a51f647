/* Sums of products over several axes, summed one after the other.
 *
 *   sum[i,j](A[a,i] * B[b,j] * X[i,j])
 *     = sum[j](B[b,j] * part[a,j]),  part[a,j] = sum[i](A[a,i] * X[i,j])
 *
 * Factors that depend on some of the reduction's axes alone go in front of
 * the sum over the others, which becomes a stage of its own: where it does
 * not depend on all of the result's axes that saves most of the work.  Only
 * the order of the sum changes.
 *
 * Axes of the new stage are the ones that its factors depend on.  Two axes
 * that they know as a*u + w alone become one, and so does u when they know
 * u/c alone; both make parts that several results have in common.
 *
 * Invariant: stages stay in an order in which each reads earlier ones only.
 */
#include "config.h"

#include "ir/passes.h"

#include <stdlib.h>
#include <string.h>

enum {
  MAX_FACTORS = 16,
  MAX_REDUCE = 6 /* axes of a sum that is looked at */
};
/* What is not worth it: less work saved, or more memory than this many times
 * that of what the sum reads and writes. */
static const double MOST_WORK = 0.5;
static const double MOST_MEMORY = 8;

/* An axis of the new stage: `var` of it, and `value` over the old axes. */
struct part_axis {
  const struct tt_var *var;
  const struct tt_expr *value;
};

struct split {
  const struct tt_stage *stage;
  struct tt_program *p;
  struct tt_arena *ar;
  int nfactors;
  const struct tt_expr *factor[MAX_FACTORS];
  unsigned first; /* reduction axes summed first, as bits */
  /* what follows from it */
  int naxes;
  struct part_axis axis[TT_MAX_DIMS + MAX_REDUCE];
  const struct tt_expr *inner; /* product of the factors of the first sum */
  const struct tt_expr *outer; /* and of the others; NULL: none */
  double work;
};

static bool
flatten(struct split *s, const struct tt_expr *e)
{
  if (e->kind == TT_BINARY && e->op == TT_MUL)
    return flatten(s, e->a) && flatten(s, e->b);
  if (s->nfactors == MAX_FACTORS)
    return false;
  s->factor[s->nfactors++] = e;
  return true;
}

static const struct tt_expr *
times(struct tt_arena *ar, const struct tt_expr *a, const struct tt_expr *b)
{
  return a ? tt_binary(ar, TT_MUL, a, b) : b;
}

static bool
in_first(const struct split *s, const struct tt_expr *e)
{
  for (int i = 0; i < s->stage->nreduce; i++)
    if (s->first >> i & 1 && tt_expr_uses_var(e, s->stage->reduce[i]))
      return true;
  return false;
}

/* ---- axes that are known in one form alone ----------------------------- */

struct quotient {
  const struct tt_var *var;
  int64_t divisor; /* 0: none seen */
  bool differ;
  const struct tt_var *by; /* what replaces it */
};

static bool
is_quotient(const struct tt_expr *e, const struct tt_var *v)
{
  return e->kind == TT_BINARY && e->op == TT_DIV && e->type.dtype == TT_I64 &&
         e->a->kind == TT_VAR && e->a->var == v && e->b->kind == TT_INT &&
         e->b->ival > 1;
}

static void
find_quotient(void *ctx, const struct tt_expr *e)
{
  struct quotient *q = ctx;
  if (!is_quotient(e, q->var))
    return;
  q->differ |= q->divisor && q->divisor != e->b->ival;
  q->divisor = e->b->ival;
}

static const struct tt_expr *
replace_quotient(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct quotient *q = ctx;
  return is_quotient(e, q->var) ? tt_var_ref(ar, q->by) : e;
}

/* u is known as u/c alone: one axis of the quotients. */
static bool
divide_axis(struct split *s, struct part_axis *x)
{
  struct quotient q = {.var = x->var};
  tt_expr_visit(s->inner, find_quotient, &q);
  if (!q.divisor || q.differ)
    return false;
  struct tt_var *by = TT_NEW(s->ar, struct tt_var);
  *by = *x->var;
  by->extent = (x->var->extent + q.divisor - 1) / q.divisor;
  by->id = s->p->nvars;
  q.by = by;
  const struct tt_expr *inner =
      tt_expr_rewrite(s->ar, s->inner, replace_quotient, &q);
  if (tt_expr_uses_var(inner, x->var))
    return false;
  s->p->nvars++;
  s->inner = inner;
  x->value = tt_idiv(s->ar, x->value, q.divisor);
  x->var = by;
  return true;
}

struct step {
  struct tt_arena *ar;
  const struct tt_var *u, *w;
  int64_t cu, cw;
};

/* The coefficients of u and w where both stand in one sum. */
static void
find_step(void *ctx, const struct tt_expr *e)
{
  struct step *f = ctx;
  int64_t cu, cw;
  if (f->cu || e->kind != TT_BINARY || e->type.dtype != TT_I64 ||
      (e->op != TT_ADD && e->op != TT_SUB))
    return;
  if (tt_affine_coef(f->ar, e, f->u, &cu) &&
      tt_affine_coef(f->ar, e, f->w, &cw) && cu && cw) {
    f->cu = cu;
    f->cw = cw;
  }
}

/* u and w are known as cu*u + w alone (every value between the ends of which
 * is taken): one axis of these sums. */
static bool
join_axes(struct split *s, struct part_axis *u, const struct part_axis *w)
{
  struct tt_arena *ar = s->ar;
  struct step f = {ar, u->var, w->var, 0, 0};
  tt_expr_visit(s->inner, find_step, &f);
  if (f.cu < 1 || f.cw != 1 || w->var->extent < f.cu)
    return false;
  struct tt_var *z = TT_NEW(ar, struct tt_var);
  z->name = tt_arena_printf(ar, "%s%s", u->var->name, w->var->name);
  z->extent = f.cu * (u->var->extent - 1) + w->var->extent;
  z->id = s->p->nvars;
  const struct tt_expr *rest =
      tt_isub(ar, tt_var_ref(ar, z), tt_imul(ar, tt_var_ref(ar, u->var), f.cu));
  const struct tt_expr *inner =
      tt_simplify(ar, tt_expr_subst(ar, s->inner, 1, &w->var, &rest), NULL);
  if (tt_expr_uses_var(inner, u->var))
    return false;
  s->p->nvars++;
  s->inner = inner;
  u->value = tt_iadd(ar, tt_imul(ar, u->value, f.cu), w->value);
  u->var = z;
  return true;
}

static void
compress_axes(struct split *s)
{
  for (int i = 0; i < s->naxes; i++) {
    divide_axis(s, &s->axis[i]);
    for (int j = 0; j < s->naxes; j++)
      if (j != i && join_axes(s, &s->axis[i], &s->axis[j])) {
        int gone = j;
        for (int k = gone; k + 1 < s->naxes; k++)
          s->axis[k] = s->axis[k + 1];
        s->naxes--;
        if (gone < i)
          i--;
        break;
      }
  }
}

/* ---- choosing ---------------------------------------------------------- */

static void
add_axis(struct split *s, const struct tt_var *v)
{
  if (!tt_expr_uses_var(s->inner, v))
    return;
  s->axis[s->naxes++] = (struct part_axis){v, tt_var_ref(s->ar, v)};
}

static double
work_of(const struct tt_stage *st)
{
  double n = (double)tt_tensor_size(st->out);
  for (int i = 0; i < st->nreduce; i++)
    n *= (double)st->reduce[i]->extent;
  return n;
}

struct reading {
  double elements;
};

static void
add_elements(void *ctx, const struct tt_expr *e)
{
  if (e->kind == TT_LOAD)
    ((struct reading *)ctx)->elements += (double)tt_tensor_size(e->tensor);
}

/* The two stages that `first` gives, and their work; false: none, or too
 * much memory. */
static bool
evaluate(struct split *s)
{
  const struct tt_stage *st = s->stage;
  s->inner = s->outer = NULL;
  s->naxes = 0;
  for (int i = 0; i < s->nfactors; i++) {
    const struct tt_expr **to =
        in_first(s, s->factor[i]) ? &s->inner : &s->outer;
    *to = times(s->ar, *to, s->factor[i]);
  }
  if (!s->inner || !s->outer)
    return false;
  for (int i = 0; i < st->nspatial; i++)
    add_axis(s, st->spatial[i]);
  for (int i = 0; i < st->nreduce; i++)
    if (!(s->first >> i & 1))
      add_axis(s, st->reduce[i]);
  compress_axes(s);
  if (s->naxes > TT_MAX_DIMS)
    return false;
  struct reading r = {(double)tt_tensor_size(st->out)};
  tt_expr_visit(st->value, add_elements, &r);
  double size = 1, sum = (double)tt_tensor_size(st->out);
  for (int i = 0; i < s->naxes; i++)
    size *= (double)s->axis[i].var->extent;
  s->work = size;
  for (int i = 0; i < st->nreduce; i++)
    *(s->first >> i & 1 ? &s->work : &sum) *= (double)st->reduce[i]->extent;
  s->work += sum;
  return size <= MOST_MEMORY * r.elements;
}

/* Only exact types and the wide floats: a part is rounded to its type. */
static bool
may_split(const struct tt_stage *st)
{
  enum tt_dtype t = st->out->dtype;
  return st->red == TT_RED_SUM && !st->where && !st->prepare &&
         st->nreduce > 1 && st->nreduce <= MAX_REDUCE &&
         (t == TT_F32 || t == TT_F64 || t == TT_I32 || t == TT_I64) &&
         st->value->type.dtype == t;
}

/* The best way to split a sum; false: none is worth it. */
static bool
choose(struct split *s)
{
  const struct tt_stage *st = s->stage;
  unsigned all = (1u << st->nreduce) - 1, best = 0;
  double least = MOST_WORK * work_of(st);
  if (!flatten(s, st->value) || s->nfactors < 2)
    return false;
  for (s->first = 1; s->first < all; s->first++)
    if (evaluate(s) && s->work <= least) {
      /* (Of equals the last: what is left is a sum over the first axes, which
       * are the outer ones.) */
      least = s->work;
      best = s->first;
    }
  s->first = best;
  return best && evaluate(s);
}

/* ---- doing it ---------------------------------------------------------- */

static const char *
free_name(const struct tt_program *p, const char *base)
{
  for (int n = 1;; n++) {
    const char *name = n > 1 ? tt_arena_printf(p->arena, "%s_part%d", base, n)
                             : tt_arena_printf(p->arena, "%s_part", base);
    bool taken = false;
    for (int i = 0; i < p->ntensors && !taken; i++)
      taken = strcmp(p->tensors[i]->name, name) == 0;
    if (!taken)
      return name;
  }
}

/* A new variable of the program in place of one of another stage. */
static const struct tt_var *
own_var(struct split *s, const struct tt_var *v)
{
  return tt_program_var(s->p, v->name, v->extent);
}

static struct tt_stage *
new_stage(struct split *s)
{
  const struct tt_stage *st = s->stage;
  int64_t dims[TT_MAX_DIMS];
  const struct tt_var *from[TT_MAX_DIMS + MAX_REDUCE];
  const struct tt_var *to[TT_MAX_DIMS + MAX_REDUCE];
  const struct tt_expr *ref[TT_MAX_DIMS + MAX_REDUCE];
  int n = s->naxes, nreduce = 0;
  for (int i = 0; i < n; i++) {
    from[i] = s->axis[i].var;
    dims[i] = from[i]->extent;
  }
  for (int i = 0; i < st->nreduce; i++)
    if (s->first >> i & 1)
      from[n + nreduce++] = st->reduce[i];
  for (int i = 0; i < n + nreduce; i++) {
    to[i] = own_var(s, from[i]);
    ref[i] = tt_var_ref(s->ar, to[i]);
  }
  struct tt_tensor *out = tt_program_tensor(
      s->p, free_name(s->p, st->out->name), TT_TEMP, st->out->dtype, n, dims);
  const struct tt_expr *value =
      tt_expr_subst(s->ar, s->inner, n + nreduce, from, ref);
  return tt_program_stage(s->p, out, to, TT_RED_SUM, nreduce, to + n,
                          tt_simplify(s->ar, value, NULL), NULL);
}

/* Put the last stage before the one at `at`, which then reads it. */
static void
put_before(struct tt_program *p, int at)
{
  struct tt_stage *last = p->stages[p->nstages - 1];
  for (int i = p->nstages - 1; i > at; i--) {
    p->stages[i] = p->stages[i - 1];
    p->stages[i]->id = i;
  }
  p->stages[at] = last;
  last->id = at;
}

static void
apply(struct split *s, struct tt_stage *st)
{
  const struct tt_expr *idx[TT_MAX_DIMS];
  const struct tt_var *left[MAX_REDUCE];
  int n = 0;
  struct tt_stage *part = new_stage(s);
  for (int i = 0; i < s->naxes; i++)
    idx[i] = s->axis[i].value;
  for (int i = 0; i < st->nreduce; i++)
    if (!(s->first >> i & 1))
      left[n++] = st->reduce[i];
  st->value = times(s->ar, s->outer, tt_load(s->ar, part->out, s->naxes, idx));
  st->nreduce = n;
  st->reduce = tt_arena_dup(s->ar, left, (size_t)n * sizeof *left);
  put_before(s->p, st->id);
}

void
tt_factor_sums(struct tt_program *p, bool strict_fp)
{
  /* Each split leaves sums over fewer axes, so this ends. */
  for (int i = 0; i < p->nstages;) {
    struct tt_stage *st = p->stages[i];
    struct split s = {.stage = st, .p = p, .ar = p->arena};
    bool exact = !tt_dtype_is_float(st->out->dtype);
    if (may_split(st) && (exact || !strict_fp) && choose(&s))
      apply(&s, st); /* and then the new stage, which is at i now */
    else
      i++;
  }
}
