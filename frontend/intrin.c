/* Intrin declarations: operands, the one statement that is both the pattern
 * and the portable code, and the clauses with C text.
 *
 * The statement is checked like a stage of a small program whose tensors are
 * the operands.
 */
#include "config.h"

#include "frontend/sema.h"

#include "ir/passes.h"

#include <stdlib.h>
#include <string.h>

static void
bad_intrin(struct tt_sema *s, struct tt_span span, const char *fmt,
           const char *name)
{
  struct tt_sb sb = {0};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  tt_sb_printf(&sb, fmt, name);
#pragma GCC diagnostic pop
  tt_diag(s->diags, TT_D_BAD_INTRIN, span, "%s", tt_sb_str(&sb));
  tt_sb_free(&sb);
}

/* The number of an attribute, at least 1; false: it has none, or after a
 * diagnostic that says what is needed. */
static bool
attr_number(struct tt_sema *s, const struct tt_attr *a, const char *name,
            const char *needs, int64_t *v)
{
  if (strcmp(a->id.name, name) != 0 || a->nargs != 1)
    return false;
  if (tt_sema_const_int(s, a->args[0], v) && *v < 1) {
    bad_intrin(s, a->args[0]->span, needs, a->id.name);
    *v = 1;
  }
  return true;
}

static void
check_attrs(struct tt_sema *s, const struct tt_operand *o,
            struct tt_operand_of *out)
{
  for (int i = 0; i < o->nattrs; i++) {
    const struct tt_attr *a = &o->attrs[i];
    if (strcmp(a->id.name, "reg") == 0 && a->text) {
      out->reg = a->text;
      continue;
    }
    if (strcmp(a->id.name, "scope") == 0 && a->text &&
        strcmp(a->text, "shared") == 0) {
      out->shared = true;
      continue;
    }
    out->dense |= strcmp(a->id.name, "contiguous") == 0;
    if (attr_number(s, a, "contiguous", "%s needs a stride of at least 1",
                    &out->inner) ||
        attr_number(s, a, "rows", "%s needs a stride of at least 1",
                    &out->inner) ||
        attr_number(s, a, "aligned", "%s needs at least 1 byte", &out->aligned))
      continue;
    tt_diag(s->diags, TT_D_UNKNOWN_ATTRIBUTE, a->id.span,
            "an operand has no attribute '%s' of this form (have reg \"…\" "
            "scope \"shared\" contiguous(n) rows(n) aligned(n))",
            a->id.name);
  }
}

/* The operand that a word of a clause's text is: $in and $out, too. */
static const struct tt_operand *
operand_of_word(const struct tt_item *intrin, const struct tt_item *clause,
                const char *word)
{
  const char *name = strcmp(word, "in") == 0 ? clause->id.name : word;
  for (int i = 0; i < intrin->nbody && strcmp(word, "out") == 0; i++)
    if (intrin->body[i]->kind != TT_ITEM_CLAUSE)
      name = intrin->body[i]->id.name;
  for (int i = 0; i < intrin->noperands; i++)
    if (strcmp(name, intrin->operands[i].shape.id.name) == 0)
      return &intrin->operands[i];
  return NULL;
}

/* "$name(row, column)": as many as the operand has dimensions. */
static bool
names_place(const struct tt_operand *o, const char *bracket)
{
  struct tt_text args[TT_MAX_DIMS];
  int n = tt_text_arguments(bracket, TT_MAX_DIMS, args, &bracket);
  bool ok = o && n == o->shape.ndims && n > 0;
  for (int i = 0; i < n && i < TT_MAX_DIMS; i++)
    ok = ok && args[i].n > 0;
  return ok;
}

/* "$name" in C text must be an operand, $out, $in or $lane. */
static void
check_c_text(struct tt_sema *s, const struct tt_item *intrin,
             const struct tt_item *clause)
{
  const char *p = clause->text;

  while ((p = strchr(p, '$')) != NULL) {
    size_t n = strspn(++p, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
                           "YZ_0123456789");
    char *name = tt_arena_strndup(s->arena, p, n);
    uint32_t at = clause->text_span.lo + 2 + (uint32_t)(p - clause->text);
    bool known = strcmp(name, "out") == 0 || strcmp(name, "in") == 0 ||
                 strcmp(name, "lane") == 0;
    for (int i = 0; i < intrin->noperands; i++)
      known = known || strcmp(name, intrin->operands[i].shape.id.name) == 0;
    struct tt_span span = {clause->text_span.src, at - 1, at + (uint32_t)n};
    p += n;
    if (!known)
      bad_intrin(s, span, "'$%s' is no operand", name);
    else if (*p == '(' &&
             !names_place(operand_of_word(intrin, clause, name), p))
      bad_intrin(s, span,
                 "'$%s(...)' names a place in each of the operand's dimensions",
                 name);
  }
}

static struct tt_operand_of *
find_operand(const struct tt_intrin *in, struct tt_operand_of *operands,
             const char *name)
{
  for (int i = 0; i < in->noperands; i++)
    if (strcmp(operands[i].tensor->name, name) == 0)
      return &operands[i];
  return NULL;
}

/* How many threads execute it together. */
static void
check_threads(struct tt_sema *s, const struct tt_item *c, struct tt_intrin *in)
{
  char *end;
  long n = strtol(c->text, &end, 10);

  if (*end || n < 1 || n > 1024)
    bad_intrin(s, c->text_span, "threads \"%s\": must be a number, 1 to 1024",
               c->text);
  else
    in->threads = (int)n;
}

static void
check_clause(struct tt_sema *s, const struct tt_item *intrin,
             const struct tt_item *c, struct tt_intrin *in,
             struct tt_operand_of *operands)
{
  struct {
    const char *name;
    bool block;
    const char **text;
  } known[] = {{"guard", false, &in->guard},
               {"header", false, &in->header},
               {"init", true, &in->init},
               {"emit", true, &in->emit},
               {"store", true, &in->store}};
  struct tt_operand_of *o = find_operand(in, operands, c->id.name);

  if (c->block)
    check_c_text(s, intrin, c);
  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(c->id.name, known[i].name) == 0 && c->block == known[i].block) {
      *known[i].text = c->text;
      return;
    }
  if (strcmp(c->id.name, "threads") == 0 && !c->block)
    check_threads(s, c, in);
  else if (o && c->block && o->reg)
    o->load = c->text;
  else
    tt_diag(s->diags, TT_D_UNKNOWN_ATTRIBUTE, c->id.span,
            "an intrin has no clause '%s' of this form (have guard \"…\" "
            "header \"…\" threads \"…\", and with %%{…%%} init emit store and "
            "the names of operands in registers)",
            c->id.name);
}

static bool
declare_operands(struct tt_sema *s, const struct tt_item *intrin,
                 struct tt_sema *inner, struct tt_operand_of *out)
{
  bool ok = true;

  for (int i = 0; i < intrin->noperands; i++) {
    const struct tt_operand *o = &intrin->operands[i];
    struct tt_sym *sym = tt_symbol_find(inner, o->shape.id.name);
    int64_t dims[TT_MAX_DIMS];
    enum tt_dtype t;
    check_attrs(s, o, &out[i]);
    if (sym->span.lo != o->shape.id.span.lo) {
      tt_diag(s->diags, TT_D_DUPLICATE, o->shape.id.span,
              "operand '%s' appears twice", sym->name);
      tt_diag_note(s->diags, sym->span, "first here");
      ok = false;
      continue;
    }
    if (!tt_type_of(s, &o->type, &t) || !tt_shape_dims(s, &o->shape, dims)) {
      sym->state = TT_BAD;
      ok = false;
      continue;
    }
    sym->tensor = tt_program_tensor(inner->program, sym->name, TT_INPUT, t,
                                    o->shape.ndims, dims);
    sym->state = TT_DONE;
    out[i].tensor = sym->tensor;
  }
  return ok;
}

/* The names inside: the operands, and the params and consts around. */
static void
inner_names(struct tt_sema *s, const struct tt_item *intrin,
            struct tt_sema *inner)
{
  struct tt_item **items =
      TT_ARRAY(s->arena, struct tt_item *, (size_t)intrin->noperands);

  *inner = *s;
  inner->outer = s;
  inner->program = tt_program_new(s->arena, intrin->id.name);
  for (int i = 0; i < intrin->noperands; i++) {
    items[i] = TT_NEW(s->arena, struct tt_item);
    items[i]->kind = TT_ITEM_TENSOR;
    items[i]->role = TT_INPUT;
    items[i]->id = intrin->operands[i].shape.id;
    items[i]->shape = intrin->operands[i].shape;
  }
  inner->items = items;
  inner->nitems = intrin->noperands;
  tt_symbols_declare(inner);
}

/* ---- the statement ----------------------------------------------------- */

struct statement {
  struct tt_sema *s;
  const struct tt_item *item;
  struct tt_intrin *in;
  struct tt_operand_of *operands;
  bool ok;
};

/* Which of the intrin's indices the subscript is; -1: none. */
static int
index_number(const struct tt_intrin *in, const struct tt_expr *e)
{
  for (int i = 0; i < in->nspatial + in->nreduce && e->kind == TT_VAR; i++)
    if ((i < in->nspatial ? in->spatial[i] : in->reduce[i - in->nspatial]) ==
        e->var)
      return i;
  return -1;
}

/* A subscript of an operand is an index of the intrin, each another one. */
static void
check_operand_use(void *ctx, const struct tt_expr *e)
{
  struct statement *st = ctx;
  if (e->kind != TT_LOAD || !st->ok)
    return;
  struct tt_operand_of *o = find_operand(st->in, st->operands, e->tensor->name);
  for (int d = 0; d < e->nargs; d++) {
    int at = index_number(st->in, e->args[d]);
    for (int k = 0; k < d; k++)
      if (o->index[k] == at)
        at = -1;
    st->ok = st->ok && at >= 0;
    o->index[d] = at;
  }
  if (!st->ok)
    bad_intrin(st->s, st->item->expr->span,
               "the subscripts of %s must be indices, each another one",
               e->tensor->name);
  if (o - st->operands != st->in->result || !st->ok)
    return;
  bad_intrin(st->s, st->item->expr->span,
             "%s stands on both sides: write +=", e->tensor->name);
  st->ok = false;
}

static bool
has_bare_index(const struct tt_expr *e)
{
  if (e->kind == TT_VAR)
    return true;
  if (e->kind == TT_LOAD)
    return false;
  for (int i = 0; i < e->nargs; i++)
    if (has_bare_index(e->args[i]))
      return true;
  return (e->a && has_bare_index(e->a)) || (e->b && has_bare_index(e->b)) ||
         (e->c && has_bare_index(e->c));
}

static void
check_value(struct statement *st, const struct tt_reduction *r)
{
  struct tt_intrin *in = st->in;
  const char *name = in->name;
  struct tt_span span = st->item->expr->span;
  bool adds = st->item->block;

  in->value = tt_simplify(st->s->arena, r->value, NULL);
  if (r->where || (r->red != TT_RED_NONE && r->red != TT_RED_SUM))
    bad_intrin(st->s, span, "%s: of reductions only a plain sum is allowed",
               name);
  else if (r->red == TT_RED_SUM && !adds)
    bad_intrin(st->s, span,
               "%s: a sum is added to the accumulator: write +=", name);
  else if (has_bare_index(in->value))
    bad_intrin(st->s, span, "%s: an index stands outside of subscripts", name);
  else
    tt_expr_visit(in->value, check_operand_use, st);
  in->red = adds ? TT_RED_SUM : TT_RED_NONE;
}

static void
indices(struct tt_sema *s, const struct tt_left *left,
        const struct tt_reduction *r, struct tt_intrin *in,
        struct tt_operand_of *result)
{
  const struct tt_var **spatial =
      TT_ARRAY(s->arena, const struct tt_var *, (size_t)left->n + 1);

  for (int i = 0; i < left->n; i++) {
    spatial[i] = left->axes[i]->var;
    result->index[i] = i;
  }
  in->nspatial = left->n;
  in->spatial = spatial;
  in->nreduce = r->n;
  in->reduce =
      tt_arena_dup(s->arena, r->vars, (size_t)r->n * sizeof r->vars[0]);
}

static void
check_statement(struct tt_sema *s, const struct tt_item *item,
                struct tt_sema *inner, struct statement *st)
{
  struct tt_sym *out = tt_symbol_find(inner, item->id.name);
  const struct tt_names *names = NULL;
  struct tt_elab el = {.s = inner, .stage = item->id.name};
  struct tt_axes axes = {0};
  struct tt_left left;
  struct tt_reduction r = {.red = TT_RED_NONE};
  const struct tt_rx *rx;
  int errors = tt_diags_errors(s->diags);

  if (!out || !out->tensor) {
    bad_intrin(s, item->id.span, "the left side '%s' is no operand",
               item->id.name);
    return;
  }
  if (!tt_left_side(inner, item, out, &left, &names))
    return;
  for (int i = 0; i < left.n; i++)
    TT_PUSH(axes, left.axes[i]);
  rx = tt_resolve(inner, item->expr, names, false, &axes);
  st->ok =
      tt_infer_ranges(inner, rx, &axes, tt_diags_errors(s->diags) != errors);
  free(axes.items);
  for (int i = 0; i < left.n && st->ok; i++) {
    left.axes[i]->var = tt_program_var(inner->program, left.axes[i]->name,
                                       left.axes[i]->extent);
    el.active[el.nactive++] = left.axes[i];
  }
  if (!st->ok ||
      !tt_stage_value(&el, rx, item, out->tensor->dtype, out->span, &r) ||
      tt_diags_errors(s->diags) != errors)
    return;
  if (inner->program->nstages > 0) {
    bad_intrin(s, item->expr->span,
               "%s: a sum must be the whole of the right side", st->in->name);
    return;
  }
  st->in->result =
      (int)(find_operand(st->in, st->operands, out->name) - st->operands);
  indices(s, &left, &r, st->in, &st->operands[st->in->result]);
  check_value(st, &r);
}

/* Registers must be filled, and emptied. */
static void
check_registers(struct tt_sema *s, const struct tt_item *item,
                const struct tt_intrin *in)
{
  const struct tt_operand_of *r = &in->operands[in->result];
  struct tt_span span = item->operands[in->result].shape.id.span;

  for (int i = 0; i < in->noperands; i++) {
    const struct tt_operand_of *o = &in->operands[i];
    if (i != in->result && o->reg && !o->load)
      bad_intrin(s, item->operands[i].shape.id.span,
                 "'%s' is in a register: a clause of its name must load it",
                 o->tensor->name);
  }
  if (r->reg && (!in->init || !in->store || in->red != TT_RED_SUM))
    bad_intrin(s, span,
               "'%s' is in a register: += and the clauses init and store are "
               "needed",
               r->tensor->name);
  if (in->threads > 1 && !r->reg)
    bad_intrin(s, span,
               "several threads execute it: '%s' must be in a register",
               r->tensor->name);
}

void
tt_check_intrin(struct tt_sema *s, struct tt_sym *sym)
{
  const struct tt_item *intrin = sym->item;
  struct tt_sema inner;
  struct tt_operand_of *operands =
      TT_ARRAY(s->arena, struct tt_operand_of, (size_t)intrin->noperands + 1);
  struct tt_intrin *in = TT_NEW(s->arena, struct tt_intrin);
  struct statement st = {s, NULL, in, operands, false};
  int errors = tt_diags_errors(s->diags), statements = 0;
  bool ok;

  in->name = intrin->id.name;
  in->noperands = intrin->noperands;
  in->operands = operands;
  in->threads = 1;
  if (intrin->noperands > TT_MAX_OPERANDS) {
    bad_intrin(s, intrin->id.span, "%s has more than 8 operands", in->name);
    sym->state = TT_BAD;
    return;
  }
  inner_names(s, intrin, &inner);
  ok = declare_operands(s, intrin, &inner, operands);
  for (int i = 0; i < intrin->nbody; i++) {
    const struct tt_item *b = intrin->body[i];
    st.item = b;
    if (b->kind == TT_ITEM_CLAUSE && ok)
      check_clause(s, intrin, b, in, operands);
    else if (b->kind == TT_ITEM_CLAUSE)
      continue;
    else if (++statements > 1)
      bad_intrin(s, b->span, "%s has more than one statement", intrin->id.name);
    else if (ok)
      check_statement(s, b, &inner, &st);
  }
  if (statements == 0)
    bad_intrin(s, intrin->id.span, "%s has no statement: the pattern to match",
               intrin->id.name);
  if (tt_diags_errors(s->diags) == errors && !in->emit)
    bad_intrin(s, intrin->id.span, "%s has no emit clause", intrin->id.name);
  if (tt_diags_errors(s->diags) == errors)
    check_registers(s, intrin, in);
  s->nterms = inner.nterms;
  s->points = inner.points;
  sym->state = tt_diags_errors(s->diags) == errors ? TT_DONE : TT_BAD;
  if (sym->state == TT_DONE)
    tt_program_intrin(s->program, in);
}
