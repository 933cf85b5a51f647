/* Reductions over the points that a congruence leaves: where (e - r) % c == 0
 * says that r is e plus a multiple of c, so that
 *
 *   sum[r in R where (e - r) % c == 0](...)
 *     = sum[r in ceil(R/c)](... c*r + e%c in the place of r ...)
 *
 * which has no condition (but c*r + e%c < R where c does not divide R) and
 * does a part of the work.  Points are visited in the same order.  The
 * quotient (e - r)/c becomes e/c - r: affine in r.
 */
#include "config.h"

#include "ir/passes.h"

/* r = c*by + phase satisfies `form` = c*quotient + k, whatever `by` is. */
struct solution {
  struct tt_program *p;
  struct tt_arena *ar;
  const struct tt_var *var, *by;
  int64_t c, k;
  const struct tt_expr *form, *phase, *quotient;
};

/* cond: form % c == k, with form affine in `var`, its coefficient 1 or -1. */
static bool
solve(struct solution *s, const struct tt_expr *cond, const struct tt_var *var)
{
  struct tt_arena *ar = s->ar;
  if (cond->kind != TT_BINARY || cond->op != TT_EQ || cond->b->kind != TT_INT ||
      cond->a->kind != TT_BINARY || cond->a->op != TT_MOD ||
      cond->a->type.dtype != TT_I64 || cond->a->b->kind != TT_INT ||
      cond->a->b->ival < 2)
    return false;
  int64_t sign;
  s->form = cond->a->a;
  s->c = cond->a->b->ival;
  s->k = cond->b->ival;
  s->var = var;
  if (s->k < 0 || s->k >= s->c || !tt_affine_coef(ar, s->form, var, &sign) ||
      (sign != 1 && sign != -1))
    return false;
  s->by = tt_program_var(s->p, var->name, (var->extent + s->c - 1) / s->c);
  const struct tt_expr *zero = tt_idx(ar, 0), *k = tt_idx(ar, s->k);
  const struct tt_expr *rest = tt_expr_subst(ar, s->form, 1, &var, &zero);
  /* var = goal modulo c */
  const struct tt_expr *goal = tt_simplify(
      ar, sign < 0 ? tt_isub(ar, rest, k) : tt_isub(ar, k, rest), NULL);
  const struct tt_expr *steps = tt_idiv(ar, goal, s->c);
  s->phase = tt_imod(ar, goal, s->c);
  s->quotient = sign < 0 ? tt_isub(ar, steps, tt_var_ref(ar, s->by))
                         : tt_isub(ar, tt_var_ref(ar, s->by), steps);
  return true;
}

/* Quotients and remainders of the form and what is a constant away. */
static const struct tt_expr *
replace_form(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct solution *s = ctx;
  int64_t d;
  if (e->kind != TT_BINARY || (e->op != TT_DIV && e->op != TT_MOD) ||
      e->type.dtype != TT_I64 || !tt_is_int(e->b, s->c) ||
      !tt_expr_uses_var(e->a, s->var) ||
      !tt_const_difference(ar, e->a, s->form, &d))
    return e;
  const struct tt_expr *rest = tt_idx(ar, s->k + d);
  if (e->op == TT_MOD)
    return tt_imod(ar, rest, s->c);
  return tt_iadd(ar, s->quotient, tt_idiv(ar, rest, s->c));
}

static const struct tt_expr *
with_solution(struct solution *s, const struct tt_expr *e,
              const struct tt_expr *r)
{
  e = tt_expr_rewrite(s->ar, e, replace_form, s);
  return tt_simplify(s->ar, tt_expr_subst(s->ar, e, 1, &s->var, &r), NULL);
}

/* The condition without one of its parts; *found is that part. */
static const struct tt_expr *
without(struct solution *s, const struct tt_expr *cond,
        const struct tt_var *var, bool *found)
{
  if (!*found && cond->kind == TT_BINARY && cond->op == TT_AND) {
    const struct tt_expr *a = without(s, cond->a, var, found);
    const struct tt_expr *b =
        *found ? cond->b : without(s, cond->b, var, found);
    return !a ? b : !b ? a : tt_binary(s->ar, TT_AND, a, b);
  }
  if (*found || !solve(s, cond, var))
    return cond;
  *found = true;
  return NULL;
}

static void
solve_axis(struct tt_program *p, struct tt_stage *st, int axis)
{
  struct tt_arena *ar = p->arena;
  struct solution s = {.p = p, .ar = ar};
  const struct tt_var *var = st->reduce[axis];
  bool found = false;
  const struct tt_expr *where = without(&s, st->where, var, &found);
  if (!found)
    return;
  const struct tt_expr *r =
      tt_iadd(ar, tt_imul(ar, tt_var_ref(ar, s.by), s.c), s.phase);
  st->value = with_solution(&s, st->value, r);
  where = where ? with_solution(&s, where, r) : NULL;
  if (var->extent % s.c) {
    const struct tt_expr *inside =
        tt_simplify(ar, tt_binary(ar, TT_LT, r, tt_idx(ar, var->extent)), NULL);
    where = where ? tt_binary(ar, TT_AND, inside, where) : inside;
  }
  const struct tt_var **reduce =
      tt_arena_dup(ar, st->reduce, (size_t)st->nreduce * sizeof *reduce);
  reduce[axis] = s.by;
  st->reduce = reduce;
  st->where = where;
}

void
tt_solve_congruences(struct tt_program *p)
{
  for (int i = 0; i < p->nstages; i++) {
    struct tt_stage *st = p->stages[i];
    for (int a = 0; st->where && a < st->nreduce; a++)
      solve_axis(p, st, a);
  }
}
