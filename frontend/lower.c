/* Items in source order become tensors and stages of the program.
 *
 * Invariant: stages read only what was defined before them; a tensor has at
 * most one stage.  The program is given out only when nothing was reported.
 */
#include "config.h"

#include "frontend/sema.h"

#include <stdlib.h>
#include <string.h>

/* ---- sizes ------------------------------------------------------------- */

bool
tt_count_elements(struct tt_sema *s, const char *name, struct tt_span span,
                  int ndim, const int64_t *dims)
{
  int64_t n = 1;
  double approx = 1;
  bool fits = true;

  for (int i = 0; i < ndim; i++) {
    approx *= (double)dims[i];
    fits = fits && !__builtin_mul_overflow(n, dims[i], &n);
  }
  if (!fits || n > TT_MAX_ELEMENTS) {
    tt_diag(s->diags, TT_D_SIZE_OVERFLOW, span,
            "%s needs %.2g elements; at most 2^40", name, approx);
    return false;
  }
  s->elements += n;
  if (s->elements > TT_MAX_ELEMENTS && !s->too_many_elements) {
    s->too_many_elements = true;
    tt_diag(s->diags, TT_D_SIZE_OVERFLOW, span,
            "with %s the program needs %.2g elements; at most 2^40", name,
            (double)s->elements);
  }
  return !s->too_many_elements;
}

/* The points that a stage's loops visit must be countable. */
static bool
count_points(struct tt_sema *s, const struct tt_item *item,
             const struct tt_left *left, const struct tt_reduction *r)
{
  double n = 1;

  for (int i = 0; i < left->n; i++)
    n *= (double)left->axes[i]->extent;
  for (int i = 0; i < r->n; i++)
    n *= (double)r->vars[i]->extent;
  if (n < 4e18)
    return true;
  tt_diag(s->diags, TT_D_SIZE_OVERFLOW, item->id.span,
          "%s is computed from %.2g points", item->id.name, n);
  return false;
}

/* ---- declarations ------------------------------------------------------ */

/* `in lo..hi` of a tensor. */
static bool
value_range(struct tt_sema *s, const struct tt_item *item, struct tt_tensor *t)
{
  struct tt_span span = (item->lo ? item->lo : item->hi)->span;
  enum tt_dtype dtype = t->dtype;

  span.hi = item->hi->span.hi;
  if (!tt_dtype_is_int(dtype)) {
    tt_diag(s->diags, TT_D_BAD_RANGE, span, "'in' is for integers, %s is %s",
            t->name, tt_dtype_name(dtype));
    return false;
  }
  t->lo = 0;
  if ((item->lo && !tt_sema_const_int(s, item->lo, &t->lo)) ||
      !tt_sema_const_int(s, item->hi, &t->hi))
    return false;
  if (t->lo >= t->hi) {
    tt_diag(s->diags, TT_D_BAD_RANGE, span, "the range %lld..%lld is empty",
            (long long)t->lo, (long long)t->hi);
    return false;
  }
  if (t->lo < tt_dtype_min(dtype) || t->hi - 1 > tt_dtype_max(dtype)) {
    tt_diag(s->diags, TT_D_BAD_RANGE, span, "%lld..%lld does not fit %s",
            (long long)t->lo, (long long)t->hi, tt_dtype_name(dtype));
    return false;
  }
  t->has_range = true;
  return true;
}

static void
declare_tensor(struct tt_sema *s, struct tt_sym *sym)
{
  const struct tt_item *item = sym->item;
  int64_t dims[TT_MAX_DIMS];
  enum tt_dtype dtype;
  bool ok = tt_shape_dims(s, &item->shape, dims);

  ok = tt_type_of(s, &item->type, &dtype) && ok;
  if (item->nattrs)
    tt_diag(s->diags, TT_D_UNKNOWN_ATTRIBUTE, item->attrs[0].id.span,
            "a tensor has no attribute '%s'", item->attrs[0].id.name);
  if (!ok) {
    sym->state = TT_BAD;
    return;
  }
  sym->tensor = tt_program_tensor(s->program, sym->name, item->role, dtype,
                                  item->shape.ndims, dims);
  if (item->hi)
    ok = value_range(s, item, sym->tensor);
  /* An output can be read once its stage is done. */
  if (!ok)
    sym->state = TT_BAD;
  else if (item->role != TT_OUTPUT)
    sym->state = TT_DONE;
}

/* ---- the left side ----------------------------------------------------- */

static bool
appears_twice(struct tt_sema *s, const struct tt_left *left,
              const struct tt_axis *axis)
{
  for (int i = 0; i < left->n; i++)
    if (left->axes[i] && strcmp(left->axes[i]->name, axis->name) == 0) {
      tt_diag(s->diags, TT_D_LEFT_SIDE, axis->span,
              "'%s' appears twice on the left", axis->name);
      tt_diag_note(s->diags, left->axes[i]->span, "first here");
      return true;
    }
  return false;
}

/* The range of a left index against the declared dimension. */
static bool
fit_dimension(struct tt_sema *s, struct tt_axis *axis, const struct tt_sym *out,
              int dim)
{
  if (axis->lo != 0) {
    tt_diag(s->diags, TT_D_LEFT_SIDE, axis->from_span,
            "'%s' begins at %lld; a left index begins at 0", axis->name,
            (long long)axis->lo);
    return false;
  }
  if (!out->tensor)
    return true;
  if (axis->given && axis->extent != out->tensor->dims[dim]) {
    tt_diag(s->diags, TT_D_INCONSISTENT_RANGE, axis->from_span,
            "'%s' is %lld here but %lld from %s dimension %d", axis->name,
            (long long)axis->extent, (long long)out->tensor->dims[dim],
            out->name, dim);
    tt_diag_note(s->diags, out->span, "'%s' is declared here", out->name);
    return false;
  }
  axis->given = axis->ranged = true;
  axis->extent = out->tensor->dims[dim];
  axis->from = out;
  axis->from_dim = dim;
  return true;
}

bool
tt_left_side(struct tt_sema *s, const struct tt_item *item,
             const struct tt_sym *out, struct tt_left *left,
             const struct tt_names **names)
{
  int n = item->binders->n;
  bool ok = true;

  left->n = 0;
  if (out->tensor && out->tensor->ndim != n) {
    tt_diag(s->diags, TT_D_RANK, item->id.span,
            "%s has %d dimension%s, %d on the left", out->name,
            out->tensor->ndim, out->tensor->ndim == 1 ? "" : "s", n);
    tt_diag_note(s->diags, out->span, "'%s' is declared here", out->name);
    return false;
  }
  if (n > TT_MAX_DIMS) {
    tt_diag(s->diags, TT_D_TOO_MANY_DIMS, item->id.span,
            "%s has %d dimensions; at most %d", item->id.name, n, TT_MAX_DIMS);
    return false;
  }
  for (int i = 0; i < n; i++) {
    struct tt_axis *axis = tt_axis_new(s, &item->binders->items[i], NULL, true);
    struct tt_names *name = TT_NEW(s->arena, struct tt_names);
    ok = ok && axis;
    if (!axis) {
      tt_bind_names(s, item->binders->items[i].index, names);
      continue;
    }
    if (axis->bad || appears_twice(s, left, axis) ||
        !fit_dimension(s, axis, out, i))
      axis->bad = true;
    ok = ok && !axis->bad;
    *name = (struct tt_names){*names, axis->name, axis, NULL};
    *names = name;
    left->axes[left->n++] = axis;
  }
  return ok;
}

/* ---- stages ------------------------------------------------------------ */

static bool
narrower(enum tt_dtype to, enum tt_dtype from)
{
  if (tt_dtype_is_float(from) != tt_dtype_is_float(to))
    return tt_dtype_is_float(from);
  return tt_dtype_bits(to) < tt_dtype_bits(from) ||
         tt_dtype_is_signed(to) != tt_dtype_is_signed(from);
}

/* A value of one type into a tensor of another: an error. */
static void
wrong_type(struct tt_sema *s, const struct tt_item *item,
           struct tt_span declared, enum tt_dtype from, enum tt_dtype to)
{
  const char *name = tt_dtype_name(to);
  bool sat = tt_dtype_is_int(to) && narrower(to, from);

  tt_diag(s->diags, narrower(to, from) ? TT_D_NARROWING : TT_D_TYPE_MIX,
          item->expr->span, "%s into %s: %s; use %s(…)%s%s%s",
          tt_dtype_name(from), item->id.name, name, name, sat ? " or sat_" : "",
          sat ? name : "", sat ? "(…)" : "");
  tt_diag_note(s->diags, declared, "'%s' is declared here", item->id.name);
}

bool
tt_stage_value(struct tt_elab *el, const struct tt_rx *rx,
               const struct tt_item *item, enum tt_dtype want,
               struct tt_span declared, struct tt_reduction *r)
{
  struct tt_value v;
  struct tt_interval range;

  memset(r, 0, sizeof *r);
  if (rx->kind == TT_RX_REDUCE) {
    if (!tt_reduce(el, rx, want, r))
      return false;
  } else {
    v = tt_elab(el, rx, want);
    if (!v.e)
      return false;
    if (v.weak != TT_STRONG)
      v = tt_adapt(el->s, v,
                   want != TT_NDTYPES ? want : tt_default_type(el->s, v, NULL),
                   rx, NULL);
    if (!v.e)
      return false;
    r->red = TT_RED_NONE;
    r->value = v.e;
    r->dtype = v.e->type.dtype;
    range = tt_range_of(v.e, NULL, NULL);
    if (tt_dtype_is_int(r->dtype) && range.ok && range.hi < INT64_MAX) {
      r->has_range = true;
      r->lo = range.lo;
      r->hi = range.hi + 1;
    }
  }
  if (want == TT_NDTYPES || r->dtype == want)
    return true;
  wrong_type(el->s, item, declared, r->dtype, want);
  return false;
}

/* The tensor of an intermediate, which knows what its values may be. */
static struct tt_tensor *
intermediate(struct tt_sema *s, const struct tt_item *item,
             const struct tt_left *left, const struct tt_reduction *r)
{
  int64_t dims[TT_MAX_DIMS];
  struct tt_tensor *t;

  for (int i = 0; i < left->n; i++)
    dims[i] = left->axes[i]->extent;
  if (!tt_count_elements(s, item->id.name, item->id.span, left->n, dims))
    return NULL;
  t = tt_program_tensor(s->program, item->id.name, TT_TEMP, r->dtype, left->n,
                        dims);
  if (r->has_range &&
      (r->lo > tt_dtype_min(r->dtype) || r->hi - 1 < tt_dtype_max(r->dtype))) {
    t->has_range = true;
    t->lo = r->lo;
    t->hi = r->hi;
  }
  return t;
}

/* Left side, right side, ranges; false after a diagnostic. */
static const struct tt_rx *
stage_sides(struct tt_sema *s, const struct tt_item *item,
            const struct tt_sym *sym, struct tt_left *left)
{
  const struct tt_names *names = NULL;
  struct tt_axes axes = {0};
  int errors = tt_diags_errors(s->diags);
  bool quiet = sym->state == TT_BAD; /* its dimensions are not known */
  bool ok = tt_left_side(s, item, sym, left, &names);
  const struct tt_rx *rx;

  for (int i = 0; i < left->n; i++)
    TT_PUSH(axes, left->axes[i]);
  rx = tt_resolve(s, item->expr, names, false, &axes);
  quiet = quiet || tt_diags_errors(s->diags) != errors;
  ok = tt_infer_ranges(s, rx, &axes, quiet) && ok;
  free(axes.items);
  return ok ? rx : NULL;
}

/* The declared range of an output is a promise that its stage must keep. */
static bool
keeps_range(struct tt_sema *s, const struct tt_item *item,
            const struct tt_sym *sym, const struct tt_reduction *r)
{
  const struct tt_tensor *t = sym->tensor;

  if (!t || !t->has_range || (r->has_range && r->lo >= t->lo && r->hi <= t->hi))
    return true;
  tt_diag(s->diags, TT_D_BAD_RANGE, item->expr->span,
          "%s is not known to lie in %lld..%lld; use clamp()", t->name,
          (long long)t->lo, (long long)t->hi);
  tt_diag_note(s->diags, sym->span, "'%s' is declared here", t->name);
  return false;
}

static bool
build_stage(struct tt_sema *s, struct tt_sym *sym, const struct tt_item *item,
            const struct tt_left *left, const struct tt_rx *rx)
{
  struct tt_elab el = {.s = s, .stage = sym->name};
  const struct tt_var *spatial[TT_MAX_DIMS];
  struct tt_reduction r;
  enum tt_dtype want = sym->tensor ? sym->tensor->dtype : TT_NDTYPES, t;
  struct tt_span declared = sym->span;

  if (item->has_type) {
    if (!tt_type_of(s, &item->type, &t))
      return false;
    if (want != TT_NDTYPES && want != t) {
      wrong_type(s, item, sym->span, t, want);
      return false;
    }
    want = t;
    declared = item->type.span;
  }
  for (int i = 0; i < left->n; i++) {
    struct tt_axis *axis = left->axes[i];
    axis->var = tt_program_var(s->program, axis->name, axis->extent);
    spatial[i] = axis->var;
    el.active[el.nactive++] = axis;
  }
  if (!tt_stage_value(&el, rx, item, want, declared, &r) ||
      !keeps_range(s, item, sym, &r) || !count_points(s, item, left, &r))
    return false;
  if (!sym->tensor)
    sym->tensor = intermediate(s, item, left, &r);
  if (!sym->tensor)
    return false;
  tt_program_stage(s->program, sym->tensor, spatial, r.red, r.n, r.vars,
                   r.value, r.where);
  return true;
}

/* May this item define this symbol? */
static bool
may_define(struct tt_sema *s, const struct tt_item *item,
           const struct tt_sym *sym)
{
  bool tensor = sym->kind == TT_SYM_TENSOR;

  if (tensor && sym->item->role != TT_OUTPUT) {
    tt_diag(s->diags, TT_D_INPUT_ASSIGNED, item->id.span,
            "%s %s cannot be assigned",
            sym->item->role == TT_INPUT ? "input" : "weight", sym->name);
    tt_diag_note(s->diags, sym->span, "'%s' is declared here", sym->name);
    return false;
  }
  if (!tensor && sym->kind != TT_SYM_STAGE)
    return !tt_symbol_taken(s, item, sym);
  if (sym->stage != item) {
    tt_diag(s->diags, TT_D_REDEFINITION, item->id.span,
            "%s defined twice (first at %s)", sym->name,
            tt_place_text(s, sym->stage->id.span));
    tt_diag_note(s->diags, sym->stage->id.span, "first defined here");
    return false;
  }
  return true;
}

static void
lower_stage(struct tt_sema *s, const struct tt_item *item)
{
  struct tt_sym *sym = tt_symbol_find(s, item->id.name);
  const struct tt_rx *rx;
  struct tt_left left;
  bool ok;

  if (!may_define(s, item, sym))
    return;
  if (sym->state == TT_PENDING)
    sym->state = TT_ACTIVE;
  s->active = sym;
  rx = stage_sides(s, item, sym, &left);
  ok = sym->state != TT_BAD && rx && build_stage(s, sym, item, &left, rx);
  sym->state = ok ? TT_DONE : TT_BAD;
  s->active = NULL;
}

/* ---- all items --------------------------------------------------------- */

static void
declare(struct tt_sema *s, const struct tt_item *item,
        void (*check)(struct tt_sema *, struct tt_sym *))
{
  struct tt_sym *sym = tt_symbol_find(s, item->id.name);

  if (tt_symbol_taken(s, item, sym)) {
    if (sym->item == item)
      sym->state = TT_BAD;
    return;
  }
  sym->state = TT_ACTIVE;
  s->active = sym;
  check(s, sym);
  /* What is not done has a mistake, but an output waits for its stage. */
  if (sym->state == TT_ACTIVE)
    sym->state = item->kind == TT_ITEM_TENSOR ? TT_PENDING : TT_BAD;
  s->active = NULL;
}

static void
lower_item(struct tt_sema *s, const struct tt_item *item)
{
  switch (item->kind) {
  case TT_ITEM_KERNEL:
  case TT_ITEM_INCLUDE:
  case TT_ITEM_SCHEDULE:
  case TT_ITEM_UPDATE:
  case TT_ITEM_CLAUSE:
    break;
  case TT_ITEM_TYPE:
    declare(s, item, tt_check_type_item);
    break;
  case TT_ITEM_PARAM:
    declare(s, item, tt_check_param);
    break;
  case TT_ITEM_CONST:
    declare(s, item, tt_check_const);
    break;
  case TT_ITEM_REQUIRE:
    tt_check_require(s, item);
    break;
  case TT_ITEM_TENSOR:
    declare(s, item, declare_tensor);
    break;
  case TT_ITEM_DEF:
    declare(s, item, tt_check_def);
    break;
  case TT_ITEM_STAGE:
    lower_stage(s, item);
    break;
  case TT_ITEM_INTRIN:
    declare(s, item, tt_check_intrin);
    break;
  }
}

static void
check_outputs(struct tt_sema *s)
{
  for (int i = 0; i < s->nitems; i++) {
    const struct tt_item *item = s->items[i];
    const struct tt_sym *sym;
    if (item->kind != TT_ITEM_TENSOR || item->role != TT_OUTPUT)
      continue;
    sym = tt_symbol_find(s, item->id.name);
    if (sym->item == item && !sym->stage)
      tt_diag(s->diags, TT_D_UNDEFINED_OUTPUT, item->id.span,
              "output %s is never defined", sym->name);
  }
}

/* ---- schedules --------------------------------------------------------- */

/* Is it the name of partial results, made by rfactor further up? */
static bool
made_before(const struct tt_sblock *block, int before, const char *name)
{
  for (int i = 0; i < before; i++) {
    const struct tt_scall *call = &block->calls[i];
    if (call->nargs == 0 || strcmp(call->primitive, "rfactor") != 0)
      continue;
    const struct tt_sarg *last = &call->args[call->nargs - 1];
    if (last->kind == TT_SARG_ID && strcmp(last->str, name) == 0)
      return true;
  }
  return false;
}

/* Y_part is what tt_factor_sums() may yet split off Y: whether it did is seen
 * when the call is applied. */
static bool
may_be_part(struct tt_sema *s, const char *name)
{
  const char *end = strstr(name, "_part");
  if (!end || end[strspn(end + 5, "0123456789") + 5])
    return false;
  const struct tt_sym *sym = tt_symbol_find(
      s, tt_arena_printf(s->arena, "%.*s", (int)(end - name), name));
  return sym && sym->stage;
}

static void
check_block(struct tt_sema *s, const struct tt_sblock *block)
{
  for (int i = 0; i < block->ncalls; i++) {
    const struct tt_scall *call = &block->calls[i];
    const struct tt_sym *sym = tt_symbol_find(s, call->stage);
    struct tt_sb have = {0};
    if ((sym && (sym->stage || sym->kind == TT_SYM_GENERATED)) ||
        made_before(block, i, call->stage) || may_be_part(s, call->stage))
      continue;
    for (int k = 0; k < s->program->nstages && k < 20; k++)
      tt_sb_printf(&have, "%s%s", k ? " " : "",
                   s->program->stages[k]->out->name);
    tt_diag(s->diags, TT_D_SCHEDULE, *(const struct tt_span *)call->span,
            "no stage '%s' (have %s)", call->stage, tt_sb_str(&have));
    tt_sb_free(&have);
  }
}

static void
lower_blocks(struct tt_sema *s)
{
  struct tt_sblock *blocks;
  int n = 0;

  for (int i = 0; i < s->nitems; i++)
    n += s->items[i]->kind == TT_ITEM_SCHEDULE;
  blocks = TT_ARRAY(s->arena, struct tt_sblock, (size_t)n);
  n = 0;
  for (int i = 0; i < s->nitems; i++)
    if (s->items[i]->kind == TT_ITEM_SCHEDULE) {
      blocks[n] = *s->items[i]->schedule;
      /* After mistakes the stages are not all there. */
      if (tt_diags_errors(s->diags) == 0)
        check_block(s, &blocks[n]);
      n++;
    }
  s->program->nblocks = n;
  s->program->blocks = blocks;
}

/* ---- what can be computed ahead of time -------------------------------- */

enum { NEEDS_INPUT = 1, NEEDS_WEIGHT = 2 };

struct needs {
  const unsigned char *of; /* by tensor */
  unsigned char result;
};

static void
need(void *ctx, const struct tt_expr *e)
{
  struct needs *n = ctx;

  if (e->kind == TT_LOAD)
    n->result |= n->of[e->tensor->id];
}

struct mark {
  struct tt_stage **stage_of; /* by tensor */
};

static void
mark_producer(void *ctx, const struct tt_expr *e)
{
  struct mark *m = ctx;

  if (e->kind == TT_LOAD && m->stage_of[e->tensor->id])
    m->stage_of[e->tensor->id]->prepare = true;
}

/* A stage of weights and constants alone is computed by NAME_prepare, and so
 * is a stage of constants alone that such a stage reads. */
static void
mark_prepared(struct tt_program *p)
{
  unsigned char *of = TT_ARRAY(p->arena, unsigned char, (size_t)p->ntensors);
  struct mark m = {TT_ARRAY(p->arena, struct tt_stage *, (size_t)p->ntensors)};

  for (int i = 0; i < p->ntensors; i++)
    of[i] = p->tensors[i]->role == TT_WEIGHT  ? NEEDS_WEIGHT
            : p->tensors[i]->role == TT_INPUT ? NEEDS_INPUT
                                              : 0;
  for (int i = 0; i < p->nstages; i++) {
    struct tt_stage *st = p->stages[i];
    struct needs n = {of, 0};
    tt_expr_visit(st->value, need, &n);
    if (st->where)
      tt_expr_visit(st->where, need, &n);
    if (st->out->role == TT_OUTPUT)
      n.result |= NEEDS_INPUT; /* written by the kernel itself */
    of[st->out->id] = n.result;
    m.stage_of[st->out->id] = st;
    st->prepare = n.result == NEEDS_WEIGHT;
  }
  for (int i = p->nstages - 1; i >= 0; i--)
    if (p->stages[i]->prepare) {
      tt_expr_visit(p->stages[i]->value, mark_producer, &m);
      if (p->stages[i]->where)
        tt_expr_visit(p->stages[i]->where, mark_producer, &m);
    }
}

struct tt_program *
tt_lower(struct tt_sema *s)
{
  s->cycle_budget = 20;
  s->points = 20000000;
  tt_symbols_declare(s);
  tt_defines_check(s);
  for (int i = 0; i < s->nitems; i++)
    lower_item(s, s->items[i]);
  check_outputs(s);
  lower_blocks(s);
  if (tt_diags_errors(s->diags) > 0)
    return NULL;
  mark_prepared(s->program);
  return s->program;
}
