/* Lowering of tensorized loops: statements that are instructions, with what
 * they do as their portable bodies.
 *
 * Invariant: an instruction's operands are found in the very value that its
 * body computes.  Where a tile is not whole, in the tail of a split, there is
 * no instruction but the loops themselves; tails that are padded are whole.
 */
#include "config.h"

#include "schedule/lower.h"

#include <string.h>

/* ---- tiles ------------------------------------------------------------- */

/* Has every piece of the loop, those to come too, as many iterations as the
 * intrin takes? */
static bool
is_exact(const struct tt_inst *in, int loop)
{
  const struct tt_loop *l = &in->ss->loops[loop];
  if (l->node == TT_AXIS || in->extent[loop])
    return true;
  int64_t e = tt_max_extent(in, l->parent);
  return (e % l->factor == 0 ||
          ((l->tail == TT_TAIL_SHIFT || l->tail == TT_TAIL_PAD) &&
           e > l->factor)) &&
         is_exact(in, l->parent);
}

static const struct tt_var *
index_of(const struct tt_intrin *k, int i)
{
  return i < k->nspatial ? k->spatial[i] : k->reduce[i - k->nspatial];
}

bool
tt_lw_whole_tiles(const struct tt_inst *in)
{
  const struct tt_intrin *k = in->ss->intrin;
  if (!k || !tt_lw_all_padded(in))
    return false;
  for (int i = 0; i < k->nspatial + k->nreduce; i++)
    if (tt_max_extent(in, in->ss->tile[i]) != index_of(k, i)->extent ||
        !is_exact(in, in->ss->tile[i]))
      return false;
  return true;
}

bool
tt_lw_keeps_registers(struct tt_inst *in)
{
  const struct tt_intrin *k = in->ss->intrin;
  if (!k || !k->operands[k->result].reg)
    return false;
  bool whole = tt_lw_whole_tiles(in);
  if (!whole && k->threads > 1)
    in->lw->error =
        tt_arena_printf(in->lw->arena, "a part of %s is no whole tiles of %s",
                        in->ss->stage->out->name, k->name);
  return whole;
}

/* ---- operands ---------------------------------------------------------- */

struct finding {
  const struct tt_intrin *intrin;
  const struct tt_var *vars[TT_MAX_LOOPS];
  int conditional; /* an operand that is read under a condition, or -1 */
};

static bool
accept(void *ctx, int operand, const struct tt_expr *e)
{
  struct finding *f = ctx;
  const struct tt_operand_of *o = &f->intrin->operands[operand];
  unsigned used = 0;
  if (e->kind != TT_LOAD) {
    f->conditional = operand;
    return false;
  }
  for (int d = 0; d < o->tensor->ndim; d++)
    used |= 1u << o->index[d];
  for (int i = 0; i < f->intrin->nspatial + f->intrin->nreduce; i++)
    if (tt_expr_uses_var(e, f->vars[i]) != (used >> i & 1))
      return false;
  return true;
}

static bool
find_operands(struct tt_inst *in, struct finding *f,
              const struct tt_expr **found)
{
  struct tt_lowering *lw = in->lw;
  const struct tt_intrin *k = f->intrin;
  const char *name = in->ss->stage->out->name;
  struct tt_place_values p = tt_lw_place_of(in);
  const struct tt_expr *value = tt_lw_at_place(&p, in->ss->value);
  if (tt_intrin_matches(k, value, accept, f, found)) {
    if (!in->nguards || tt_lw_is_harmless(in, value))
      return true;
    lw->error = tt_arena_printf(
        lw->arena,
        "%s reads beyond the tails of %s: copies of its operands that are laid "
        "out by loops have room for them",
        k->name, name);
    return false;
  }
  if (f->conditional >= 0)
    lw->error = tt_arena_printf(
        lw->arena,
        "%s does not match %s: %s is read under a condition; a copy that has "
        "its border needs none",
        k->name, name, k->operands[f->conditional].tensor->name);
  else
    lw->error = tt_arena_printf(lw->arena,
                                "%s does not match %s as it is computed here",
                                k->name, name);
  return false;
}

/* ---- statements -------------------------------------------------------- */

/* Each lane has as many results of its own: value[i] of the intrin's i-th
 * index, which a loop of extent[i] counts.  false: they cannot be shared out
 * so, and the first lane does everything. */
static bool
share_out(struct tt_inst *in, const struct finding *f,
          const struct tt_expr **value, int64_t *extent)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_expr *lane = in->lane ? tt_var_ref(ar, in->lane) : NULL;
  int64_t left = in->lane ? in->lane->extent : 1;
  for (int i = f->intrin->nspatial - 1; i >= 0 && left > 1; i--) {
    int64_t e = extent[i];
    if (left % e == 0) {
      value[i] = tt_imod(ar, lane, e);
      lane = tt_idiv(ar, lane, e);
      extent[i] = 1;
      left /= e;
    } else if (e % left == 0) {
      value[i] = tt_iadd(ar, tt_imul(ar, value[i], left), lane);
      extent[i] /= left;
      left = 1;
    } else {
      return false;
    }
  }
  return left == 1;
}

/* What the instruction does, as loops of n of the intrin's indices. */
static const struct tt_stmt *
portable_body(struct tt_inst *in, const struct finding *f, int n,
              tt_inside_fn *fn, void *ctx)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_expr *value[TT_MAX_LOOPS];
  int64_t extent[TT_MAX_LOOPS];
  struct tt_var *v[TT_MAX_LOOPS];
  for (int i = 0; i < n; i++) {
    v[i] = TT_NEW(ar, struct tt_var);
    *v[i] = *f->vars[i];
    v[i]->id = in->lw->nvars++;
    value[i] = tt_var_ref(ar, v[i]);
    extent[i] = v[i]->extent;
  }
  bool shared = share_out(in, f, value, extent);
  for (int i = 0; i < n; i++) {
    v[i]->extent = shared ? extent[i] : v[i]->extent;
    in->val[in->ss->tile[i]] = shared ? value[i] : tt_var_ref(ar, v[i]);
  }
  const struct tt_stmt *body = fn(in, ctx);
  for (int i = n - 1; i >= 0; i--)
    body = tt_for(ar, TT_SERIAL, 0, v[i], body);
  if (shared)
    return body;
  const struct tt_expr *first =
      tt_binary(ar, TT_EQ, tt_var_ref(ar, in->lane), tt_idx(ar, 0));
  return tt_if(ar, first, body, NULL);
}

/* The result's element, in its accumulator or where it goes. */
static const struct tt_expr *
element(struct tt_inst *in, bool acc)
{
  const struct tt_expr *idx[TT_MAX_LOOPS];
  const struct tt_tensor *t;
  int n = tt_lw_result_index(in, acc, &t, idx);
  return tt_load(in->lw->arena, t, n, idx);
}

const struct tt_stmt *
tt_lw_instruction(struct tt_inst *in, enum tt_intrin_op op, tt_inside_fn *fn,
                  void *ctx)
{
  struct tt_lowering *lw = in->lw;
  const struct tt_stage_schedule *ss = in->ss;
  const struct tt_intrin *k = ss->intrin;
  const struct tt_expr *operands[TT_MAX_OPERANDS];
  struct finding f = {.intrin = k, .conditional = -1};
  int n = op == TT_INTRIN_EMIT ? k->nspatial + k->nreduce : k->nspatial;
  for (int i = 0; i < k->nspatial + k->nreduce; i++) {
    struct tt_var *v = TT_NEW(lw->arena, struct tt_var);
    *v = (struct tt_var){.name = ss->loops[ss->tile[i]].name,
                         .extent = index_of(k, i)->extent,
                         .id = lw->nvars++};
    f.vars[i] = v;
    if (i < n)
      in->val[ss->tile[i]] = tt_var_ref(lw->arena, v);
  }
  bool ok = op != TT_INTRIN_EMIT || find_operands(in, &f, operands);
  operands[op == TT_INTRIN_EMIT ? k->result : 0] = element(in, in->acc);
  if (op == TT_INTRIN_STORE)
    operands[1] = element(in, false);
  const struct tt_stmt *body = portable_body(in, &f, n, fn, ctx);
  for (int i = 0; i < n; i++)
    in->val[ss->tile[i]] = NULL;
  if (!ok)
    return NULL;
  return tt_instruction(lw->arena, k, op, f.vars,
                        op == TT_INTRIN_EMIT   ? k->noperands
                        : op == TT_INTRIN_INIT ? 1
                                               : 2,
                        operands, body);
}

/* ---- threads ----------------------------------------------------------- */

/* Is it the innermost of the loops that count groups of threads? */
static bool
counts_groups(const struct tt_inst *in, int loop)
{
  const struct tt_stage_schedule *ss = in->ss;
  int last = -1;
  for (int i = 0; i < ss->norder; i++)
    if (tt_is_thread(ss->loops[ss->order[i]].kind))
      last = ss->order[i];
  return loop == last;
}

const struct tt_stmt *
tt_lw_in_threads(struct tt_inst *in, int loop, tt_inside_fn *fn, void *ctx)
{
  struct tt_lowering *lw = in->lw;
  const struct tt_intrin *k = in->ss->intrin;
  if (!k || k->threads == 1 || !counts_groups(in, loop))
    return fn(in, ctx);
  struct tt_var *lane = TT_NEW(lw->arena, struct tt_var);
  *lane =
      (struct tt_var){.name = "lane", .extent = k->threads, .id = lw->nvars++};
  in->lane = lane;
  const struct tt_stmt *st = fn(in, ctx);
  in->lane = NULL;
  return tt_for(lw->arena, TT_THREAD_X, 0, lane, st);
}
