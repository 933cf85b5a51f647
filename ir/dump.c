/* Dumps: readable C-like text of expressions, programs and loop nests.
 *
 * The text is a function of the IR alone (no pointers), so that it can stand in
 * golden files.  Parentheses come from the precedence table only, and floats
 * have the fewest digits that read back to the same value.
 */
#include "config.h"

#include "ir/passes.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Binding strength beside the table of binop.def: a ?: binds loosest, then
 * the binary operators, then a prefix, then what never needs parentheses. */
enum { PREC_SELECT = 0, PREC_UNARY = 11, PREC_PRIMARY = 12 };
enum { MAX_ELEMENTS = 64 };

static void expr_at(struct tt_sb *, const struct tt_expr *, int prec);

static void
dump_float(struct tt_sb *sb, enum tt_dtype t, double v)
{
  char text[40];
  if (isnan(v))
    snprintf(text, sizeof text, "nan");
  else if (isinf(v))
    snprintf(text, sizeof text, v < 0 ? "-inf" : "inf");
  else
    for (int digits = 1; digits <= 17; digits++) {
      snprintf(text, sizeof text, "%.*g", digits, v);
      double back = t == TT_F64 ? strtod(text, NULL) : strtof(text, NULL);
      if (back == v)
        break;
    }
  tt_sb_add(sb, text);
  for (const char *p = text; *p != '.' && *p != 'e' && *p != 'n'; p++)
    if (!*p) {
      tt_sb_add(sb, ".0");
      break;
    }
  if (t == TT_F32 && isfinite(v))
    tt_sb_putc(sb, 'f');
}

static void
dump_number(struct tt_sb *sb, enum tt_dtype t, int64_t i, double f)
{
  bool typed =
      t != TT_F32 && t != TT_F64 && t != TT_I64 && t != TT_I32 && t != TT_BOOL;
  if (typed)
    tt_sb_printf(sb, "%s(", tt_dtype_name(t));
  if (tt_dtype_is_float(t))
    dump_float(sb, t, f);
  else if (t == TT_BOOL)
    tt_sb_add(sb, i ? "true" : "false");
  else
    tt_sb_printf(sb, "%" PRId64, i);
  if (typed)
    tt_sb_putc(sb, ')');
}

static void
dump_list(struct tt_sb *sb, int n, const struct tt_expr *const *items)
{
  for (int i = 0; i < n; i++) {
    if (i)
      tt_sb_add(sb, ", ");
    expr_at(sb, items[i], PREC_SELECT);
  }
}

static void
dump_access(struct tt_sb *sb, const struct tt_tensor *t, int n,
            const struct tt_expr *const *idx)
{
  tt_sb_add(sb, t->name);
  if (n == 0)
    return;
  tt_sb_putc(sb, '[');
  dump_list(sb, n, idx);
  tt_sb_putc(sb, ']');
}

static int
prec_of(const struct tt_expr *e)
{
  switch (e->kind) {
  case TT_INT: {
    bool plain = e->type.dtype == TT_I64 || e->type.dtype == TT_I32;
    return plain && e->ival < 0 ? PREC_UNARY : PREC_PRIMARY;
  }
  case TT_FLT: {
    bool plain = e->type.dtype == TT_F64 || e->type.dtype == TT_F32;
    return plain && signbit(e->fval) ? PREC_UNARY : PREC_PRIMARY;
  }
  case TT_BINARY:
    return tt_binop_prec(e->op) ? tt_binop_prec(e->op) : PREC_PRIMARY;
  case TT_NEG:
  case TT_NOT:
    return PREC_UNARY;
  case TT_SELECT:
    return PREC_SELECT;
  case TT_VAR:
  case TT_LOAD:
  case TT_CAST:
  case TT_SAT:
  case TT_CALL:
  case TT_RAMP:
  case TT_BROADCAST:
    return PREC_PRIMARY;
  }
  return PREC_PRIMARY;
}

static void
dump_binary(struct tt_sb *sb, const struct tt_expr *e)
{
  int prec = tt_binop_prec(e->op);
  if (prec == 0) {
    tt_sb_printf(sb, "%s(", tt_binop_text(e->op));
    expr_at(sb, e->a, PREC_SELECT);
    tt_sb_add(sb, ", ");
    expr_at(sb, e->b, PREC_SELECT);
    tt_sb_putc(sb, ')');
    return;
  }
  expr_at(sb, e->a, prec);
  tt_sb_printf(sb, " %s ", tt_binop_text(e->op));
  expr_at(sb, e->b, prec + 1);
}

static void
dump_convert(struct tt_sb *sb, const char *prefix, const struct tt_expr *e)
{
  tt_sb_printf(sb, "%s%s(", prefix, tt_dtype_name(e->type.dtype));
  expr_at(sb, e->a, PREC_SELECT);
  tt_sb_putc(sb, ')');
}

static void
dump_node(struct tt_sb *sb, const struct tt_expr *e)
{
  switch (e->kind) {
  case TT_INT:
  case TT_FLT:
    dump_number(sb, e->type.dtype, e->ival, e->fval);
    return;
  case TT_VAR:
    tt_sb_add(sb, e->var->name);
    return;
  case TT_LOAD:
    dump_access(sb, e->tensor, e->nargs, e->args);
    return;
  case TT_BINARY:
    dump_binary(sb, e);
    return;
  case TT_NEG:
    tt_sb_putc(sb, '-');
    expr_at(sb, e->a, PREC_UNARY + 1);
    return;
  case TT_NOT:
    tt_sb_putc(sb, e->type.dtype == TT_BOOL ? '!' : '~');
    expr_at(sb, e->a, PREC_UNARY);
    return;
  case TT_CAST:
    dump_convert(sb, "", e);
    return;
  case TT_SAT:
    dump_convert(sb, "sat_", e);
    return;
  case TT_SELECT:
    expr_at(sb, e->c, PREC_SELECT + 1);
    tt_sb_add(sb, " ? ");
    expr_at(sb, e->a, PREC_SELECT);
    tt_sb_add(sb, " : ");
    expr_at(sb, e->b, PREC_SELECT);
    return;
  case TT_CALL:
    tt_sb_printf(sb, "%s(", tt_fn_name(e->fn));
    dump_list(sb, e->nargs, e->args);
    tt_sb_putc(sb, ')');
    return;
  case TT_RAMP:
    tt_sb_add(sb, "ramp(");
    expr_at(sb, e->a, PREC_SELECT);
    tt_sb_printf(sb, ", %" PRId64 ", %d)", e->ival, e->type.lanes);
    return;
  case TT_BROADCAST:
    tt_sb_add(sb, "broadcast(");
    expr_at(sb, e->a, PREC_SELECT);
    tt_sb_printf(sb, ", %d)", e->type.lanes);
    return;
  }
}

/* Print where something that binds at least as tightly as `prec` may stand. */
static void
expr_at(struct tt_sb *sb, const struct tt_expr *e, int prec)
{
  bool parens = prec_of(e) < prec;
  if (parens)
    tt_sb_putc(sb, '(');
  dump_node(sb, e);
  if (parens)
    tt_sb_putc(sb, ')');
}

void
tt_dump_expr(struct tt_sb *sb, const struct tt_expr *e)
{
  expr_at(sb, e, PREC_SELECT);
}

/* ---- programs ---------------------------------------------------------- */

static void
dump_shape(struct tt_sb *sb, const struct tt_tensor *t)
{
  tt_sb_add(sb, t->name);
  for (int i = 0; i < t->ndim; i++)
    tt_sb_printf(sb, "%s%" PRId64, i ? ", " : "[", t->dims[i]);
  tt_sb_printf(sb, "%s: %s", t->ndim ? "]" : "", tt_dtype_name(t->dtype));
}

static void
dump_elements(struct tt_sb *sb, const struct tt_tensor *t)
{
  int64_t n = tt_tensor_size(t);
  tt_sb_add(sb, " = {");
  for (int64_t i = 0; i < n && i < MAX_ELEMENTS; i++) {
    tt_sb_add(sb, i ? ", " : "");
    dump_number(sb, t->dtype, t->idata ? t->idata[i] : 0,
                t->fdata ? t->fdata[i] : 0);
  }
  tt_sb_add(sb, n > MAX_ELEMENTS ? ", ...}" : "}");
}

static const char *
role_name(enum tt_role role)
{
  switch (role) {
  case TT_INPUT:
    return "input";
  case TT_WEIGHT:
    return "weight";
  case TT_OUTPUT:
    return "output";
  case TT_TEMP:
    return "temp";
  case TT_CONST:
    return "const";
  case TT_PREPARED:
    return "prepared";
  case TT_LOCAL:
    return "local";
  }
  return "?";
}

static const char *
scope_name(enum tt_scope scope)
{
  switch (scope) {
  case TT_WORKSPACE:
    return "workspace";
  case TT_STACK:
    return "stack";
  case TT_REGISTER:
    return "register";
  case TT_SHARED:
    return "shared";
  }
  return "?";
}

static void
dump_tensor(struct tt_sb *sb, const struct tt_tensor *t)
{
  tt_sb_printf(sb, "%s ", role_name(t->role));
  dump_shape(sb, t);
  if (t->has_range)
    tt_sb_printf(sb, " in %" PRId64 "..%" PRId64, t->lo, t->hi);
  if (t->role == TT_CONST)
    dump_elements(sb, t);
  tt_sb_add(sb, ";\n");
}

static void
dump_axes(struct tt_sb *sb, int n, const struct tt_var *const *axes)
{
  for (int i = 0; i < n; i++)
    tt_sb_printf(sb, "%s%s in %" PRId64, i ? ", " : "[", axes[i]->name,
                 axes[i]->extent);
  if (n)
    tt_sb_putc(sb, ']');
}

static void
dump_stage(struct tt_sb *sb, const struct tt_stage *s)
{
  if (s->prepare)
    tt_sb_add(sb, "prepare ");
  tt_sb_add(sb, s->out->name);
  dump_axes(sb, s->nspatial, s->spatial);
  tt_sb_add(sb, " = ");
  if (s->red == TT_RED_NONE) {
    tt_dump_expr(sb, s->value);
    tt_sb_add(sb, ";\n");
    return;
  }
  tt_sb_add(sb, tt_red_name(s->red));
  dump_axes(sb, s->nreduce, s->reduce);
  if (s->where) {
    tt_sb_add(sb, " where ");
    tt_dump_expr(sb, s->where);
  }
  tt_sb_add(sb, " (");
  tt_dump_expr(sb, s->value);
  tt_sb_add(sb, ");\n");
}

void
tt_dump_program(struct tt_sb *sb, const struct tt_program *p)
{
  tt_sb_printf(sb, "kernel %s;\n", p->name);
  for (int i = 0; i < p->ntensors; i++)
    dump_tensor(sb, p->tensors[i]);
  for (int i = 0; i < p->nstages; i++)
    dump_stage(sb, p->stages[i]);
}

/* ---- loop nests -------------------------------------------------------- */

static void
indent_to(struct tt_sb *sb, int indent)
{
  for (int i = 0; i < indent; i++)
    tt_sb_add(sb, "  ");
}

static void
dump_for(struct tt_sb *sb, const struct tt_stmt *s)
{
  switch (s->for_kind) {
  case TT_SERIAL:
    break;
  case TT_UNROLL:
    tt_sb_add(sb, "unroll ");
    break;
  case TT_VECTOR:
    tt_sb_printf(sb, "vector(%d) ", s->lanes);
    break;
  case TT_PARALLEL:
    tt_sb_add(sb, "parallel ");
    break;
  case TT_TRANSPOSE:
    tt_sb_add(sb, "transpose ");
    break;
  case TT_BLOCK_X:
  case TT_BLOCK_Y:
  case TT_BLOCK_Z:
  case TT_THREAD_X:
  case TT_THREAD_Y:
  case TT_THREAD_Z:
    tt_sb_printf(sb, "%s ", tt_bound_name(s->for_kind));
    break;
  }
  tt_sb_printf(sb, "for (%s = 0; %s < %" PRId64 "; %s++) {\n", s->var->name,
               s->var->name, s->var->extent, s->var->name);
}

void
tt_dump_stmt(struct tt_sb *sb, const struct tt_stmt *s, int indent)
{
  if (s->comment) {
    indent_to(sb, indent);
    tt_sb_printf(sb, "/* %s */\n", s->comment);
  }
  if (s->kind == TT_SEQ) {
    for (int i = 0; i < s->nitems; i++)
      tt_dump_stmt(sb, s->items[i], indent);
    return;
  }
  indent_to(sb, indent);
  switch (s->kind) {
  case TT_FOR:
    dump_for(sb, s);
    break;
  case TT_STORE:
    dump_access(sb, s->tensor, s->nidx, s->idx);
    tt_sb_add(sb, " = ");
    tt_dump_expr(sb, s->value);
    tt_sb_add(sb, ";\n");
    return;
  case TT_PREFETCH:
    tt_sb_add(sb, "prefetch ");
    dump_access(sb, s->tensor, s->nidx, s->idx);
    tt_sb_add(sb, ";\n");
    return;
  case TT_IF:
    tt_sb_add(sb, "if (");
    tt_dump_expr(sb, s->cond);
    tt_sb_add(sb, ") {\n");
    break;
  case TT_INTRIN:
    tt_sb_printf(sb, "%s %s(", s->intrin->name,
                 s->op == TT_INTRIN_INIT   ? "init"
                 : s->op == TT_INTRIN_EMIT ? "emit"
                                           : "store");
    dump_list(sb, s->nidx, s->idx);
    tt_sb_add(sb, ") {\n");
    break;
  case TT_ALLOC:
    tt_sb_printf(sb, "alloc %s ", scope_name(s->tensor->scope));
    dump_shape(sb, s->tensor);
    tt_sb_add(sb, " {\n");
    break;
  case TT_SEQ:
    break;
  }
  tt_dump_stmt(sb, s->body, indent + 1);
  if (s->kind == TT_IF && s->other) {
    indent_to(sb, indent);
    tt_sb_add(sb, "} else {\n");
    tt_dump_stmt(sb, s->other, indent + 1);
  }
  indent_to(sb, indent);
  tt_sb_add(sb, "}\n");
}
