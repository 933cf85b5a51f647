/* Intrin declarations: operands, the one statement that is both the pattern
 * and the portable code, and the clauses with C text.  They are checked and
 * kept in the syntax tree.
 *
 * The statement is checked like a stage of a small program whose tensors are
 * the operands.
 */
#include "config.h"

#include "frontend/sema.h"

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

static void
check_attrs(struct tt_sema *s, const struct tt_operand *o)
{
  for (int i = 0; i < o->nattrs; i++) {
    const struct tt_attr *a = &o->attrs[i];
    int64_t v;
    if (strcmp(a->id.name, "reg") == 0 && a->text)
      continue;
    if (strcmp(a->id.name, "contiguous") == 0 && a->nargs == 1) {
      if (tt_sema_const_int(s, a->args[0], &v) && v < 1)
        bad_intrin(s, a->args[0]->span, "%s needs a stride of at least 1",
                   a->id.name);
      continue;
    }
    tt_diag(s->diags, TT_D_UNKNOWN_ATTRIBUTE, a->id.span,
            "an operand has no attribute '%s' of this form (have reg \"…\" "
            "contiguous(n))",
            a->id.name);
  }
}

/* "$name" in C text must be an operand, or $out. */
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
    bool known = strcmp(name, "out") == 0;
    for (int i = 0; i < intrin->noperands; i++)
      known = known || strcmp(name, intrin->operands[i].shape.id.name) == 0;
    if (!known)
      bad_intrin(
          s, (struct tt_span){clause->text_span.src, at - 1, at + (uint32_t)n},
          "'$%s' is no operand", name);
    p += n;
  }
}

static void
check_clause(struct tt_sema *s, const struct tt_item *intrin,
             const struct tt_item *c)
{
  static const struct {
    const char *name;
    bool block;
  } known[] = {{"guard", false},
               {"header", false},
               {"init", true},
               {"emit", true},
               {"store", true}};

  for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
    if (strcmp(c->id.name, known[i].name) == 0 && c->block == known[i].block) {
      if (c->block)
        check_c_text(s, intrin, c);
      return;
    }
  tt_diag(s->diags, TT_D_UNKNOWN_ATTRIBUTE, c->id.span,
          "an intrin has no clause '%s' of this form (have guard \"…\" header "
          "\"…\" init emit store %%{…%%})",
          c->id.name);
}

static bool
declare_operands(struct tt_sema *s, const struct tt_item *intrin,
                 struct tt_sema *inner)
{
  bool ok = true;

  for (int i = 0; i < intrin->noperands; i++) {
    const struct tt_operand *o = &intrin->operands[i];
    struct tt_sym *sym = tt_symbol_find(inner, o->shape.id.name);
    int64_t dims[TT_MAX_DIMS];
    enum tt_dtype t;
    check_attrs(s, o);
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

static void
check_statement(struct tt_sema *s, const struct tt_item *item,
                struct tt_sema *inner)
{
  struct tt_sym *out = tt_symbol_find(inner, item->id.name);
  const struct tt_names *names = NULL;
  struct tt_elab el = {.s = inner, .stage = item->id.name};
  struct tt_axes axes = {0};
  struct tt_left left;
  const struct tt_rx *rx;
  struct tt_value v;
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
  if (tt_infer_ranges(inner, rx, &axes, tt_diags_errors(s->diags) != errors)) {
    for (int i = 0; i < left.n; i++) {
      left.axes[i]->var = tt_program_var(inner->program, left.axes[i]->name,
                                         left.axes[i]->extent);
      el.active[el.nactive++] = left.axes[i];
    }
    v = tt_elab(&el, rx, out->tensor->dtype);
    if (v.e && v.weak == TT_STRONG && v.e->type.dtype != out->tensor->dtype)
      tt_diag(s->diags, TT_D_TYPE_MIX, item->expr->span,
              "%s into %s: %s; cast it", tt_value_type(&v), out->name,
              tt_dtype_name(out->tensor->dtype));
    else
      tt_adapt(inner, v, out->tensor->dtype, rx, NULL);
  }
  free(axes.items);
}

void
tt_check_intrin(struct tt_sema *s, struct tt_sym *sym)
{
  const struct tt_item *intrin = sym->item;
  struct tt_sema inner;
  int errors = tt_diags_errors(s->diags), statements = 0;
  bool ok;

  inner_names(s, intrin, &inner);
  ok = declare_operands(s, intrin, &inner);
  for (int i = 0; i < intrin->nbody; i++) {
    const struct tt_item *b = intrin->body[i];
    if (b->kind == TT_ITEM_CLAUSE)
      check_clause(s, intrin, b);
    else if (++statements > 1)
      bad_intrin(s, b->span, "%s has more than one statement", intrin->id.name);
    else if (ok)
      check_statement(s, b, &inner);
  }
  if (statements == 0)
    bad_intrin(s, intrin->id.span, "%s has no statement: the pattern to match",
               intrin->id.name);
  s->nterms = inner.nterms;
  s->points = inner.points;
  sym->state = tt_diags_errors(s->diags) == errors ? TT_DONE : TT_BAD;
}
