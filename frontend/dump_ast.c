/* The syntax tree as text, for --dump=ast: one item a line, expressions fully
 * parenthesized, so that precedence can be read off.  The text is a .te file
 * of the same meaning. */
#include "config.h"

#include "frontend/ast.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"

static void dump(struct tt_sb *, const struct tt_ast *);

static void
dump_list(struct tt_sb *sb, int n, const struct tt_ast *const *args)
{
  for (int i = 0; i < n; i++) {
    if (i)
      tt_sb_add(sb, ", ");
    dump(sb, args[i]);
  }
}

static void
dump_range(struct tt_sb *sb, const struct tt_ast *lo, const struct tt_ast *hi)
{
  if (!hi)
    return;
  tt_sb_add(sb, " in ");
  if (lo) {
    dump(sb, lo);
    tt_sb_add(sb, "..");
  }
  dump(sb, hi);
}

static void
dump_binders(struct tt_sb *sb, const struct tt_binders *binders)
{
  for (int i = 0; i < binders->n; i++) {
    const struct tt_binder *b = &binders->items[i];
    if (i)
      tt_sb_add(sb, ", ");
    dump(sb, b->index);
    dump_range(sb, b->lo, b->hi);
  }
}

/* Floats keep a digit after the point: the language needs one. */
static void
dump_float(struct tt_sb *sb, double v)
{
  char text[40];

  for (int digits = 1; digits <= 17; digits++) {
    struct tt_sb try = {0};
    double back = 0;
    tt_sb_printf(&try, "%.*g", digits, v);
    strncpy(text, tt_sb_str(&try), sizeof text - 1);
    text[sizeof text - 1] = '\0';
    tt_sb_free(&try);
    if ((back = strtod(text, NULL)) == v)
      break;
  }
  tt_sb_add(sb, text);
  if (!strpbrk(text, ".e"))
    tt_sb_add(sb, ".0");
}

static void
dump_reduce(struct tt_sb *sb, const struct tt_ast *e)
{
  tt_sb_printf(sb, "%s[", tt_reducer_name((enum tt_reducer)e->op));
  dump_binders(sb, e->binders);
  if (e->other) {
    tt_sb_add(sb, " where ");
    dump(sb, e->other);
  }
  tt_sb_add(sb, "](");
  dump(sb, e->args[0]);
  tt_sb_putc(sb, ')');
}

static void
dump_call(struct tt_sb *sb, const char *name, char open, const struct tt_ast *e,
          char close)
{
  tt_sb_printf(sb, "%s%c", name, open);
  dump_list(sb, e->nargs, e->args);
  if (open == '[' && e->other) {
    tt_sb_add(sb, " else ");
    dump(sb, e->other);
  }
  tt_sb_putc(sb, close);
}

static void
dump_unary(struct tt_sb *sb, const char *op, const struct tt_ast *e)
{
  tt_sb_printf(sb, "(%s", op);
  dump(sb, e->args[0]);
  tt_sb_putc(sb, ')');
}

static void
dump(struct tt_sb *sb, const struct tt_ast *e)
{
  switch ((enum tt_ast_kind)e->kind) {
  case TT_AST_ERROR:
    tt_sb_add(sb, "<error>");
    break;
  case TT_AST_INT:
    tt_sb_printf(sb, "%lld", (long long)e->ival);
    break;
  case TT_AST_FLT:
    dump_float(sb, e->fval);
    break;
  case TT_AST_BOOL:
    tt_sb_add(sb, e->ival ? "true" : "false");
    break;
  case TT_AST_NAME:
    tt_sb_add(sb, e->name);
    break;
  case TT_AST_MEMBER:
    tt_sb_printf(sb, "%s.%s", e->name, e->member);
    break;
  case TT_AST_ACCESS:
    dump_call(sb, e->name, '[', e, ']');
    break;
  case TT_AST_CALL:
    dump_call(sb, e->name, '(', e, ')');
    break;
  case TT_AST_NARY:
    dump_call(sb, tt_reducer_name((enum tt_reducer)e->op), '(', e, ')');
    break;
  case TT_AST_REDUCE:
    dump_reduce(sb, e);
    break;
  case TT_AST_BINARY:
    tt_sb_putc(sb, '(');
    dump(sb, e->args[0]);
    tt_sb_printf(sb, " %s ", tt_binop_text((enum tt_binop)e->op));
    dump(sb, e->args[1]);
    tt_sb_putc(sb, ')');
    break;
  case TT_AST_NEG:
    dump_unary(sb, "-", e);
    break;
  case TT_AST_NOT:
    dump_unary(sb, "!", e);
    break;
  case TT_AST_BITNOT:
    dump_unary(sb, "~", e);
    break;
  case TT_AST_COND:
    tt_sb_putc(sb, '(');
    dump(sb, e->args[0]);
    tt_sb_add(sb, " ? ");
    dump(sb, e->args[1]);
    tt_sb_add(sb, " : ");
    dump(sb, e->args[2]);
    tt_sb_putc(sb, ')');
    break;
  }
}

/* ---- items ------------------------------------------------------------- */

static void
dump_string(struct tt_sb *sb, const char *text)
{
  tt_sb_putc(sb, '"');
  for (; *text; text++) {
    if (*text == '"' || *text == '\\')
      tt_sb_putc(sb, '\\');
    tt_sb_putc(sb, *text);
  }
  tt_sb_putc(sb, '"');
}

static void
dump_shape(struct tt_sb *sb, const struct tt_shape *s)
{
  tt_sb_add(sb, s->id.name);
  if (!s->brackets)
    return;
  tt_sb_putc(sb, '[');
  dump_list(sb, s->ndims, s->dims);
  tt_sb_putc(sb, ']');
}

static void
dump_init(struct tt_sb *sb, const struct tt_init *init)
{
  if (init->expr) {
    dump(sb, init->expr);
    return;
  }
  tt_sb_putc(sb, '{');
  for (int i = 0; i < init->n; i++) {
    if (i)
      tt_sb_add(sb, ", ");
    dump_init(sb, init->items[i]);
  }
  tt_sb_putc(sb, '}');
}

static void
dump_type(struct tt_sb *sb, const struct tt_item *item)
{
  if (item->has_type)
    tt_sb_printf(sb, ": %s", item->type.name);
}

static void
dump_attrs(struct tt_sb *sb, int n, const struct tt_attr *attrs)
{
  for (int i = 0; i < n; i++) {
    tt_sb_printf(sb, " %s", attrs[i].id.name);
    if (attrs[i].text) {
      tt_sb_putc(sb, ' ');
      dump_string(sb, attrs[i].text);
      continue;
    }
    tt_sb_putc(sb, '(');
    dump_list(sb, attrs[i].nargs, attrs[i].args);
    tt_sb_putc(sb, ')');
  }
}

static void
dump_stage(struct tt_sb *sb, const struct tt_item *item)
{
  tt_sb_add(sb, item->id.name);
  if (item->brackets) {
    tt_sb_putc(sb, '[');
    dump_binders(sb, item->binders);
    tt_sb_putc(sb, ']');
  }
  dump_type(sb, item);
  tt_sb_add(sb, item->block ? " += " : " = ");
  dump(sb, item->expr);
}

static void
dump_sarg(struct tt_sb *sb, const struct tt_sarg *arg)
{
  if (arg->key)
    tt_sb_printf(sb, "%s=", arg->key);
  switch (arg->kind) {
  case TT_SARG_ID:
    tt_sb_add(sb, arg->str);
    break;
  case TT_SARG_INT:
    tt_sb_printf(sb, "%lld", (long long)arg->ival);
    break;
  case TT_SARG_STR:
    dump_string(sb, arg->str);
    break;
  case TT_SARG_ANY:
    tt_sb_putc(sb, '?');
    break;
  case TT_SARG_SET:
    for (int i = 0; i < arg->nset; i++)
      tt_sb_printf(sb, "%s%lld", i ? ", " : "{", (long long)arg->set[i]);
    tt_sb_putc(sb, '}');
    break;
  }
}

static void
dump_schedule(struct tt_sb *sb, const struct tt_sblock *block)
{
  tt_sb_add(sb, "schedule ");
  if (block->name) {
    dump_string(sb, block->name);
    tt_sb_putc(sb, ' ');
  }
  tt_sb_add(sb, "{\n");
  for (int i = 0; i < block->ncalls; i++) {
    const struct tt_scall *call = &block->calls[i];
    tt_sb_printf(sb, "  %s.%s(", call->stage, call->primitive);
    for (int k = 0; k < call->nargs; k++) {
      if (k)
        tt_sb_add(sb, ", ");
      dump_sarg(sb, &call->args[k]);
    }
    tt_sb_add(sb, ");\n");
  }
  tt_sb_add(sb, "}\n");
}

static void
dump_intrin(struct tt_sb *sb, const struct tt_item *item)
{
  tt_sb_printf(sb, "intrin %s(", item->id.name);
  for (int i = 0; i < item->noperands; i++) {
    const struct tt_operand *o = &item->operands[i];
    if (i)
      tt_sb_add(sb, ", ");
    dump_shape(sb, &o->shape);
    tt_sb_printf(sb, ": %s", o->type.name);
    dump_attrs(sb, o->nattrs, o->attrs);
  }
  tt_sb_add(sb, ") {\n");
  for (int i = 0; i < item->nbody; i++) {
    const struct tt_item *b = item->body[i];
    tt_sb_add(sb, "  ");
    if (b->kind == TT_ITEM_UPDATE) {
      dump_stage(sb, b);
      tt_sb_add(sb, ";\n");
    } else if (b->block) {
      tt_sb_printf(sb, "%s %%{%s%%}\n", b->id.name, b->text);
    } else {
      tt_sb_printf(sb, "%s ", b->id.name);
      dump_string(sb, b->text);
      tt_sb_add(sb, ";\n");
    }
  }
  tt_sb_add(sb, "}\n");
}

static void
dump_tensor(struct tt_sb *sb, const struct tt_item *item)
{
  tt_sb_add(sb, item->role == TT_INPUT    ? "input "
                : item->role == TT_WEIGHT ? "weight "
                                          : "output ");
  dump_shape(sb, &item->shape);
  dump_type(sb, item);
  dump_range(sb, item->lo, item->hi);
  dump_attrs(sb, item->nattrs, item->attrs);
}

static void
dump_def(struct tt_sb *sb, const struct tt_item *item)
{
  tt_sb_printf(sb, "def %s(", item->id.name);
  for (int i = 0; i < item->nparams; i++)
    tt_sb_printf(sb, "%s%s", i ? ", " : "", item->params[i].name);
  tt_sb_add(sb, ") = ");
  dump(sb, item->expr);
}

static void
dump_item(struct tt_sb *sb, const struct tt_item *item)
{
  switch (item->kind) {
  case TT_ITEM_KERNEL:
    tt_sb_printf(sb, "kernel %s", item->id.name);
    break;
  case TT_ITEM_INCLUDE:
    tt_sb_add(sb, "include ");
    dump_string(sb, item->text);
    break;
  case TT_ITEM_TYPE:
    tt_sb_printf(sb, "type %s = %s", item->id.name, item->type.name);
    break;
  case TT_ITEM_PARAM:
    tt_sb_printf(sb, "param %s", item->id.name);
    dump_type(sb, item);
    tt_sb_add(sb, " = ");
    dump(sb, item->expr);
    break;
  case TT_ITEM_CONST:
    tt_sb_add(sb, "const ");
    dump_shape(sb, &item->shape);
    dump_type(sb, item);
    tt_sb_add(sb, " = ");
    dump_init(sb, item->init);
    break;
  case TT_ITEM_REQUIRE:
    tt_sb_add(sb, "require ");
    dump(sb, item->expr);
    if (item->text) {
      tt_sb_add(sb, ", ");
      dump_string(sb, item->text);
    }
    break;
  case TT_ITEM_TENSOR:
    dump_tensor(sb, item);
    break;
  case TT_ITEM_DEF:
    dump_def(sb, item);
    break;
  case TT_ITEM_STAGE:
  case TT_ITEM_UPDATE:
    dump_stage(sb, item);
    break;
  case TT_ITEM_CLAUSE:
    break; /* only inside an intrin */
  case TT_ITEM_INTRIN:
    dump_intrin(sb, item);
    return;
  case TT_ITEM_SCHEDULE:
    dump_schedule(sb, item->schedule);
    return;
  }
  tt_sb_add(sb, ";\n");
}

void
tt_dump_ast(struct tt_sb *sb, const struct tt_file *file)
{
  for (int i = 0; i < file->nitems; i++)
    dump_item(sb, file->items[i]);
}

/* ---- a program that needs no options ----------------------------------- */

static const char *
given_value(const struct tt_frontend_options *o, const struct tt_item *item)
{
  const char *value = NULL;

  if (item->kind != TT_ITEM_PARAM && item->kind != TT_ITEM_TYPE)
    return NULL;
  for (int i = 0; i < o->ndefines; i++)
    if (strcmp(o->defines[i].name, item->id.name) == 0)
      value = o->defines[i].value; /* the last one holds */
  return value != NULL && *value == '+' ? value + 1 : value;
}

static bool
is_float(const struct tt_ast *e)
{
  return e->kind == TT_AST_FLT ||
         (e->kind == TT_AST_NEG && is_float(e->args[0]));
}

static void
dump_given(struct tt_sb *sb, const struct tt_item *item, const char *value)
{
  bool whole = value[strspn(value, "-0123456789")] == '\0';

  tt_sb_printf(sb, item->kind == TT_ITEM_TYPE ? "type %s" : "param %s",
               item->id.name);
  if (item->kind == TT_ITEM_PARAM)
    dump_type(sb, item);
  tt_sb_printf(sb, " = %s", value);
  /* Of a param that is declared as a float the value stays one. */
  if (item->kind == TT_ITEM_PARAM && whole && is_float(item->expr))
    tt_sb_add(sb, ".0");
  tt_sb_add(sb, ";\n");
}

void
tt_dump_source(struct tt_sb *sb, int n, struct tt_item *const *items,
               const struct tt_frontend_options *options)
{
  for (int i = 0; i < n; i++) {
    const char *value = given_value(options, items[i]);
    if (items[i]->kind == TT_ITEM_SCHEDULE)
      continue;
    if (value != NULL)
      dump_given(sb, items[i], value);
    else
      dump_item(sb, items[i]);
  }
}
