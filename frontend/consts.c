/* What is known at compile time: params, consts, tables, types, requires,
 * sizes and ranges, and the -D options that set params and types.
 */
#include "config.h"

#include "frontend/sema.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ------------------------------------------------------------ */

struct tt_value
tt_const_value(struct tt_sema *s, const struct tt_ast *e)
{
  struct tt_elab elab = {.s = s};
  const struct tt_rx *rx = tt_resolve(s, e, NULL, true, NULL);
  struct tt_value v = tt_elab(&elab, rx, TT_NDTYPES);

  if (v.e && !tt_is_const(v.e)) {
    tt_diag(s->diags, TT_D_NOT_CONSTANT, e->span,
            "'%s' is not known at compile time",
            tt_span_text(s->arena, e->span));
    return tt_bad();
  }
  return v;
}

bool
tt_sema_const_int(struct tt_sema *s, const struct tt_ast *e, int64_t *out)
{
  struct tt_value v = tt_const_value(s, e);

  if (!v.e)
    return false;
  if (!tt_dtype_is_int(v.e->type.dtype)) {
    tt_diag(s->diags, TT_D_TYPE_MIX, e->span, "%s where an integer is needed",
            tt_value_type(&v));
    return false;
  }
  *out = v.e->ival;
  return true;
}

/* The const or param that an expression names, or NULL. */
static struct tt_sym *
named(struct tt_sema *s, const struct tt_ast *e)
{
  struct tt_sym *sym =
      e->kind == TT_AST_NAME ? tt_symbol_find(s, e->name) : NULL;

  return sym && (sym->kind == TT_SYM_PARAM || sym->kind == TT_SYM_CONST) ? sym
                                                                         : NULL;
}

static void
explain_name(struct tt_sema *s, const struct tt_ast *e, struct tt_sb *sb,
             int *n)
{
  const struct tt_sym *sym = named(s, e);
  struct tt_sb item = {0};

  if (sym && sym->value.e && sym->value.e->kind == TT_INT)
    tt_sb_printf(&item, "%s=%lld", sym->name, (long long)sym->value.e->ival);
  else if (sym && sym->value.e)
    tt_sb_printf(&item, "%s=%g", sym->name, sym->value.e->fval);
  if (item.len && *n < 8 && !strstr(tt_sb_str(sb), item.s)) {
    tt_sb_printf(sb, "%s%s", *n ? ", " : "", item.s);
    ++*n;
  }
  tt_sb_free(&item);
}

static void
explain(struct tt_sema *s, const struct tt_ast *e, struct tt_sb *sb, int *n)
{
  if (*n >= 8)
    return;
  if (e->kind == TT_AST_NAME)
    explain_name(s, e, sb, n);
  for (int i = 0; i < e->nargs; i++)
    explain(s, e->args[i], sb, n);
}

const char *
tt_explain(struct tt_sema *s, const struct tt_ast *e)
{
  struct tt_sb sb = {0};
  const char *text = "";
  int n = 0;

  explain(s, e, &sb, &n);
  if (n)
    text = tt_arena_printf(s->arena, " (%s)", tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* What made a size: its own parts, or those of the const that it names. */
static const char *
explain_size(struct tt_sema *s, const struct tt_ast *e)
{
  const struct tt_sym *sym = named(s, e);

  if (!sym)
    return tt_explain(s, e);
  return sym->kind == TT_SYM_CONST && sym->item->expr
             ? tt_explain(s, sym->item->expr)
             : "";
}

static void
bad_size(struct tt_sema *s, const struct tt_ast *e, int64_t v)
{
  struct tt_sym *sym = named(s, e);

  if (sym && sym->complained)
    return;
  if (e->kind == TT_AST_INT)
    tt_diag(s->diags, TT_D_BAD_SHAPE, e->span,
            "a size is %lld; must be at least 1", (long long)v);
  else
    tt_diag(s->diags, TT_D_BAD_SHAPE, e->span,
            "%s = %lld%s; must be at least 1", tt_span_text(s->arena, e->span),
            (long long)v, explain_size(s, e));
  if (sym) {
    sym->complained = true;
    tt_diag_note(s->diags, sym->span, "'%s' is declared here", sym->name);
  }
}

/* 1 <= v <= 2^40, reporting at `e`. */
static bool
check_size(struct tt_sema *s, const struct tt_ast *e, int64_t v)
{
  if (v < 1) {
    bad_size(s, e, v);
    return false;
  }
  if (v > TT_MAX_ELEMENTS) {
    tt_diag(s->diags, TT_D_SIZE_OVERFLOW, e->span,
            "%s%s%.3g is too large; at most 2^40",
            e->kind == TT_AST_INT ? "" : tt_span_text(s->arena, e->span),
            e->kind == TT_AST_INT ? "" : " = ", (double)v);
    return false;
  }
  return true;
}

bool
tt_const_size(struct tt_sema *s, const struct tt_ast *e, int64_t *out)
{
  return tt_sema_const_int(s, e, out) && check_size(s, e, *out);
}

bool
tt_const_range(struct tt_sema *s, const struct tt_ast *lo,
               const struct tt_ast *hi, int64_t *first, int64_t *extent)
{
  int64_t end;

  *first = 0;
  if (!lo)
    return tt_const_size(s, hi, extent);
  if (!tt_sema_const_int(s, lo, first) || !tt_sema_const_int(s, hi, &end))
    return false;
  if (end <= *first) {
    tt_diag(s->diags, TT_D_BAD_SHAPE,
            (struct tt_span){lo->span.src, lo->span.lo, hi->span.hi},
            "the range %lld..%lld is empty", (long long)*first, (long long)end);
    return false;
  }
  if (__builtin_sub_overflow(end, *first, extent) ||
      *extent > TT_MAX_ELEMENTS || *first < -TT_MAX_ELEMENTS) {
    tt_diag(s->diags, TT_D_SIZE_OVERFLOW,
            (struct tt_span){lo->span.src, lo->span.lo, hi->span.hi},
            "the range %lld..%lld is too large; at most 2^40 values",
            (long long)*first, (long long)end);
    return false;
  }
  return true;
}

bool
tt_shape_dims(struct tt_sema *s, const struct tt_shape *shape, int64_t *dims)
{
  bool ok = true;

  if (shape->ndims > TT_MAX_DIMS) {
    tt_diag(s->diags, TT_D_TOO_MANY_DIMS, shape->id.span,
            "%s has %d dimensions; at most %d", shape->id.name, shape->ndims,
            TT_MAX_DIMS);
    return false;
  }
  for (int i = 0; i < shape->ndims; i++)
    ok = tt_const_size(s, shape->dims[i], &dims[i]) && ok;
  return ok && tt_count_elements(s, shape->id.name, shape->id.span,
                                 shape->ndims, dims);
}

/* ---- types ------------------------------------------------------------- */

bool
tt_type_of(struct tt_sema *s, const struct tt_ident *id, enum tt_dtype *t)
{
  struct tt_sym *sym;

  if (tt_dtype_parse(id->name, t))
    return true;
  sym = tt_symbol_find(s, id->name);
  if (!sym || sym->kind != TT_SYM_TYPE) {
    tt_diag(s->diags, TT_D_UNKNOWN_TYPE, id->span, "there is no type '%s'",
            id->name);
    return false;
  }
  sym = tt_symbol_use(s, id->name, id->span, NULL, false);
  if (sym)
    *t = sym->dtype;
  return sym != NULL;
}

/* ---- -D ---------------------------------------------------------------- */

static const struct tt_span nowhere = {NULL, 0, 0};

static const char *
define_of(const struct tt_sema *s, const char *name)
{
  const char *value = NULL;

  for (int i = 0; i < s->options->ndefines; i++)
    if (strcmp(s->options->defines[i].name, name) == 0)
      value = s->options->defines[i].value; /* the last one holds */
  return value;
}

static void
unknown_define(struct tt_sema *s, const char *name)
{
  struct tt_sb sb = {0};
  int n = 0;

  for (int i = 0; i < s->nitems && n < 40; i++)
    if (s->items[i]->kind == TT_ITEM_PARAM ||
        s->items[i]->kind == TT_ITEM_TYPE) {
      tt_sb_printf(&sb, "%s%s", n++ ? " " : "", s->items[i]->id.name);
    }
  tt_diag(s->diags, TT_D_UNKNOWN_PARAM, nowhere,
          n ? "-D %s: no param '%s' (have %s)"
            : "-D %s: no param '%s'; the file has none%s",
          name, name, tt_sb_str(&sb));
  tt_sb_free(&sb);
}

void
tt_defines_check(struct tt_sema *s)
{
  for (int i = 0; i < s->options->ndefines; i++) {
    const char *name = s->options->defines[i].name;
    const struct tt_sym *sym = tt_symbol_find(s, name);
    if (sym && (sym->kind == TT_SYM_CONST || sym->kind == TT_SYM_TABLE)) {
      tt_diag(s->diags, TT_D_CONST_OVERRIDE, nowhere,
              "-D %s: %s is const; only a param can be set", name, name);
      tt_diag_note(s->diags, sym->span, "'%s' is declared here", name);
    } else if (!sym ||
               (sym->kind != TT_SYM_PARAM && sym->kind != TT_SYM_TYPE)) {
      unknown_define(s, name);
    }
  }
}

/* The value of -D text: an integer, a float, true or false. */
static struct tt_value
parse_define(struct tt_sema *s, const char *text)
{
  struct tt_value v = {NULL, TT_WEAK_INT, true};
  const char *digits = text + (*text == '-' || *text == '+');
  bool hex = digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'X');
  char *end;
  long long i;
  double f;

  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
    return tt_strong(tt_bool(s->arena, *text == 't'));
  if (*digits < '0' || *digits > '9')
    return v;
  errno = 0;
  i = strtoll(text, &end, hex ? 16 : 10);
  if (!*end && errno == 0)
    v.e = tt_idx(s->arena, i);
  if (!*end || hex)
    return v;
  f = strtod(text, &end);
  if (*end || !isfinite(f))
    return v;
  v.e = tt_flt(s->arena, TT_F64, f);
  v.weak = TT_WEAK_FLT;
  return v;
}

/* The value of -D as a param of this declared value's kind. */
static struct tt_value
define_value(struct tt_sema *s, const struct tt_sym *sym, const char *text,
             struct tt_value declared, const enum tt_dtype *type)
{
  struct tt_value v = parse_define(s, text);
  enum tt_dtype t = type ? *type : declared.e ? declared.e->type.dtype : TT_I64;
  bool flt = tt_dtype_is_float(t);

  if (!v.e) {
    tt_diag(s->diags, TT_D_BAD_DEFINE, nowhere, "-D %s=%s: not a number",
            sym->name, text);
  } else if (flt && v.weak == TT_WEAK_INT) {
    v = (struct tt_value){tt_flt(s->arena, TT_F64, (double)v.e->ival),
                          TT_WEAK_FLT, true};
  } else if ((v.weak == TT_STRONG) != (t == TT_BOOL) ||
             (!flt && v.weak == TT_WEAK_FLT)) {
    tt_diag(s->diags, TT_D_BAD_DEFINE, nowhere, "-D %s=%s: not %s", sym->name,
            text,
            flt            ? "a number"
            : t == TT_BOOL ? "true or false"
                           : "an integer");
    v = tt_bad();
  }
  if (!v.e)
    tt_diag_note(s->diags, sym->span, "'%s' is declared here", sym->name);
  if (v.e && v.weak == TT_WEAK_INT && t != TT_I64 &&
      (v.e->ival < tt_dtype_min(t) || v.e->ival > tt_dtype_max(t))) {
    tt_diag(s->diags, TT_D_LITERAL_RANGE, nowhere,
            "-D %s=%s: %lld does not fit %s", sym->name, text,
            (long long)v.e->ival, tt_dtype_name(t));
    return tt_bad();
  }
  return v;
}

/* ---- items ------------------------------------------------------------- */

void
tt_check_type_item(struct tt_sema *s, struct tt_sym *sym)
{
  const char *text = define_of(s, sym->name);

  sym->state = tt_type_of(s, &sym->item->type, &sym->dtype) ? TT_DONE : TT_BAD;
  if (text && !tt_dtype_parse(text, &sym->dtype)) {
    tt_diag(s->diags, TT_D_BAD_DEFINE, nowhere,
            "-D %s=%s: no element type has this name", sym->name, text);
    tt_diag_note(s->diags, sym->span, "'%s' is declared here", sym->name);
    sym->state = TT_BAD;
  }
}

/* A value brought to its declared type, if any; named values are no literals
 * any more. */
static struct tt_value
declare_value(struct tt_sema *s, struct tt_value v, const struct tt_ast *e,
              const enum tt_dtype *t)
{
  struct tt_rx rx = {.kind = TT_RX_VALUE, .span = e->span, .at = e->span};

  if (v.e && t && v.weak == TT_STRONG && v.e->type.dtype != *t) {
    tt_diag(s->diags, TT_D_TYPE_MIX, e->span, "%s where %s is declared",
            tt_value_type(&v), tt_dtype_name(*t));
    return tt_bad();
  }
  if (v.e && t)
    v = tt_adapt(s, v, *t, &rx, NULL);
  v.literal = v.weak == TT_WEAK_FLT;
  return v;
}

void
tt_check_param(struct tt_sema *s, struct tt_sym *sym)
{
  const struct tt_item *item = sym->item;
  const char *text = define_of(s, sym->name);
  enum tt_dtype t, *type = item->has_type ? &t : NULL;
  struct tt_value v = tt_const_value(s, item->expr);

  if (type && !tt_type_of(s, &item->type, type))
    return;
  if (text) {
    v = define_value(s, sym, text, v, type);
    if (!v.e)
      return;
  }
  sym->value = declare_value(s, v, item->expr, type);
  if (sym->value.e)
    sym->state = TT_DONE;
}

/* ---- tables ------------------------------------------------------------ */

struct table {
  struct tt_sema *s;
  const struct tt_sym *sym;
  const int64_t *dims;
  int ndim;
  int64_t n;
  struct tt_value *values;
  const struct tt_ast **places;
  bool ok;
};

static void
fill(struct table *t, const struct tt_init *init, int dim)
{
  struct tt_diags *diags = t->s->diags;
  struct tt_value v;

  if (dim == t->ndim && init->expr) {
    v = tt_const_value(t->s, init->expr);
    t->ok = t->ok && v.e;
    t->places[t->n] = init->expr;
    t->values[t->n++] = v;
    return;
  }
  t->ok = false;
  if (dim == t->ndim)
    tt_diag(diags, TT_D_BAD_INIT, init->span,
            "a value is needed here: %s has %d dimension%s", t->sym->name,
            t->ndim, t->ndim == 1 ? "" : "s");
  else if (init->expr)
    tt_diag(diags, TT_D_BAD_INIT, init->span,
            "a braced list of %lld is needed for dimension %d of %s",
            (long long)t->dims[dim], dim, t->sym->name);
  else if (init->n != t->dims[dim])
    tt_diag(diags, TT_D_BAD_INIT, init->span,
            "%d value%s for dimension %d of %s, which is %lld", init->n,
            init->n == 1 ? "" : "s", dim, t->sym->name,
            (long long)t->dims[dim]);
  else {
    t->ok = true;
    for (int i = 0; i < init->n && t->ok; i++)
      fill(t, init->items[i], dim + 1);
  }
}

/* The element type of a table that declares none. */
static enum tt_dtype
table_type(struct table *t)
{
  enum tt_dtype result = TT_I32;

  for (int64_t i = 0; i < t->n; i++) {
    enum tt_dtype one = tt_default_type(t->s, t->values[i], NULL);
    if (t->values[i].weak == TT_STRONG)
      return one;
    if (one == TT_F32 || (one == TT_I64 && result == TT_I32))
      result = one;
  }
  return result;
}

static int64_t
count_values(const struct tt_init *init)
{
  int64_t n = init->expr != NULL;

  for (int i = 0; i < init->n; i++)
    n += count_values(init->items[i]);
  return n;
}

static void
store_table(struct table *t, struct tt_sym *sym, enum tt_dtype type)
{
  struct tt_arena *arena = t->s->arena;
  bool flt = tt_dtype_is_float(type);
  double *f = flt ? TT_ARRAY(arena, double, (size_t)t->n) : NULL;
  int64_t *v = flt ? NULL : TT_ARRAY(arena, int64_t, (size_t)t->n);

  for (int64_t i = 0; i < t->n; i++) {
    struct tt_value x = declare_value(t->s, t->values[i], t->places[i], &type);
    if (!x.e)
      return;
    if (flt)
      f[i] = x.e->fval;
    else
      v[i] = x.e->ival;
  }
  sym->tensor = tt_program_tensor(t->s->program, sym->name, TT_CONST, type,
                                  t->ndim, t->dims);
  sym->tensor->fdata = f;
  sym->tensor->idata = v;
  sym->state = TT_DONE;
}

static void
check_table(struct tt_sema *s, struct tt_sym *sym)
{
  const struct tt_item *item = sym->item;
  int64_t dims[TT_MAX_DIMS], n = count_values(item->init);
  enum tt_dtype type;
  struct table t = {
      .s = s, .sym = sym, .dims = dims, .ok = true, .ndim = item->shape.ndims};

  if (!tt_shape_dims(s, &item->shape, dims))
    return;
  t.values = TT_ARRAY(s->arena, struct tt_value, (size_t)n);
  t.places = TT_ARRAY(s->arena, const struct tt_ast *, (size_t)n);
  fill(&t, item->init, 0);
  if (!t.ok || (item->has_type && !tt_type_of(s, &item->type, &type)))
    return;
  if (!item->has_type)
    type = table_type(&t);
  store_table(&t, sym, type);
}

void
tt_check_const(struct tt_sema *s, struct tt_sym *sym)
{
  const struct tt_item *item = sym->item;
  enum tt_dtype t, *type = item->has_type ? &t : NULL;

  if (sym->kind == TT_SYM_TABLE) {
    check_table(s, sym);
    return;
  }
  if (!item->expr) {
    tt_diag(s->diags, TT_D_BAD_INIT, item->init->span,
            "%s has no dimensions; write %s[…] = {…}", sym->name, sym->name);
    return;
  }
  if (type && !tt_type_of(s, &item->type, type))
    return;
  sym->value =
      declare_value(s, tt_const_value(s, item->expr), item->expr, type);
  if (sym->value.e)
    sym->state = TT_DONE;
}

void
tt_check_require(struct tt_sema *s, const struct tt_item *item)
{
  struct tt_value v = tt_const_value(s, item->expr);
  struct tt_rx rx = {.kind = TT_RX_VALUE, .span = item->expr->span};

  v = tt_type_bool(s, &rx, v, "require");
  if (v.e && !v.e->ival)
    tt_diag(s->diags, TT_D_REQUIRE_FAILED, item->expr->span,
            "require failed: %s%s",
            item->text ? item->text : tt_span_text(s->arena, item->expr->span),
            tt_explain(s, item->expr));
}
