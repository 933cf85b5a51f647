/* From the syntax tree to resolved expressions: every name becomes a value,
 * an index, a tensor or a builtin, and calls of defs are expanded.
 *
 * A def sees its parameters and the global names, not the indices of its
 * caller.  An argument is resolved once, in the caller's names, and shared by
 * all its uses, so a resolved expression is a graph; `size` is that of the
 * tree it stands for and is bounded, so that later passes may walk the tree.
 */
#include "config.h"

#include "frontend/sema.h"
#include "frontend/parse.h"

#include <stdlib.h>
#include <string.h>

struct resolver {
  struct tt_sema *s;
  const struct tt_use *use;
  bool constant;  /* compile time only: indices are not expected */
  bool subscript; /* inside a subscript: an unknown name is an index */
  bool dry;       /* checking a def that is not called */
  int expansions; /* open calls of defs */
  struct tt_axes *axes;
};

static const struct tt_rx *resolve(struct resolver *, const struct tt_ast *,
                                   const struct tt_names *);

/* ---- builtins ---------------------------------------------------------- */

static const struct builtin {
  const char *name;
  enum tt_builtin builtin;
  int nargs;
} builtins[] = {
    {"clamp", TT_B_CLAMP, 3},
    {"sq", TT_B_SQ, 1},
    {"ceildiv", TT_B_CEILDIV, 2},
};

static bool
find_builtin(const char *name, enum tt_builtin *builtin, enum tt_fn *fn,
             int *nargs)
{
  for (size_t i = 0; i < sizeof builtins / sizeof builtins[0]; i++)
    if (strcmp(name, builtins[i].name) == 0) {
      *builtin = builtins[i].builtin;
      *nargs = builtins[i].nargs;
      return true;
    }
  for (int i = 0; i < TT_NFNS; i++)
    if (strcmp(name, tt_fn_name((enum tt_fn)i)) == 0) {
      *builtin = TT_B_FN;
      *fn = (enum tt_fn)i;
      *nargs = tt_fn_nargs(*fn);
      return true;
    }
  return false;
}

bool
tt_is_builtin(const char *name)
{
  enum tt_builtin builtin;
  enum tt_fn fn;
  int nargs;

  return strncmp(name, "sat_", 4) == 0 ||
         find_builtin(name, &builtin, &fn, &nargs);
}

/* ---- nodes ------------------------------------------------------------- */

static struct tt_rx *
node(struct resolver *r, enum tt_rx_kind kind, const struct tt_ast *e)
{
  struct tt_rx *rx = TT_NEW(r->s->arena, struct tt_rx);

  rx->kind = kind;
  rx->span = e->span;
  rx->at = e->at;
  rx->use = r->use;
  rx->size = 1;
  return rx;
}

static const struct tt_rx *
bad(struct resolver *r, const struct tt_ast *e)
{
  return node(r, TT_RX_BAD, e);
}

/* Set size and depth from the children's; beyond the limits: bad. */
static const struct tt_rx *
measured(struct resolver *r, const struct tt_ast *e, struct tt_rx *rx)
{
  int64_t size = 1;
  int depth = 0;

  for (int i = 0; i <= rx->nargs; i++) {
    const struct tt_rx *x = i < rx->nargs ? rx->args[i] : rx->other;
    if (!x)
      continue;
    size += x->size;
    depth = x->depth > depth ? x->depth : depth;
  }
  if (rx->kind == TT_RX_CALL && rx->builtin == TT_B_SQ)
    size += size; /* sq(x) is x*x */
  if (size > TT_MAX_TERMS || depth >= TT_MAX_DEPTH) {
    tt_diag(r->s->diags, size > TT_MAX_TERMS ? TT_D_TOO_LARGE : TT_D_TOO_DEEP,
            e->span,
            size > TT_MAX_TERMS
                ? "this has more than 131072 terms when defs are expanded"
                : "this nests more than 1000 deep when defs are expanded");
    return bad(r, e);
  }
  rx->size = (int)size;
  rx->depth = depth + 1;
  return rx;
}

static const struct tt_rx *
with_args(struct resolver *r, struct tt_rx *rx, const struct tt_ast *e,
          const struct tt_names *names)
{
  const struct tt_rx **args =
      TT_ARRAY(r->s->arena, const struct tt_rx *, (size_t)e->nargs);

  for (int i = 0; i < e->nargs; i++)
    args[i] = resolve(r, e->args[i], names);
  rx->args = args;
  rx->nargs = e->nargs;
  return measured(r, e, rx);
}

static const struct tt_rx *
constant(struct resolver *r, const struct tt_ast *e, const struct tt_expr *x,
         enum tt_weakness weak)
{
  struct tt_rx *rx = node(r, TT_RX_VALUE, e);

  rx->value = (struct tt_value){x, weak, weak != TT_STRONG};
  return rx;
}

/* ---- names ------------------------------------------------------------- */

static const struct tt_names *
lookup(const struct tt_names *names, const char *name)
{
  for (; names; names = names->outer)
    if (strcmp(names->name, name) == 0)
      return names;
  return NULL;
}

static void
wrong_kind(struct resolver *r, struct tt_span span, const char *fmt,
           const char *a, const char *b)
{
  struct tt_sb sb = {0};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  tt_sb_printf(&sb, fmt, a, b);
#pragma GCC diagnostic pop
  tt_diag(r->s->diags, TT_D_WRONG_KIND, span, "%s", tt_sb_str(&sb));
  tt_note_use(r->s, r->use);
  tt_sb_free(&sb);
}

static void
rank_error(struct resolver *r, const struct tt_ast *e, const struct tt_sym *sym,
           int ndim)
{
  tt_diag(r->s->diags, TT_D_RANK, e->span,
          "%s has %d dimension%s, %d subscript%s", sym->name, ndim,
          ndim == 1 ? "" : "s", e->nargs, e->nargs == 1 ? "" : "s");
  tt_diag_note(r->s->diags, sym->span, "'%s' is declared here", sym->name);
  tt_note_use(r->s, r->use);
}

/* A global name that stands for a value. */
static const struct tt_rx *
global_name(struct resolver *r, const struct tt_ast *e, struct tt_sym *sym)
{
  struct tt_rx *rx;

  switch (sym->kind) {
  case TT_SYM_PARAM:
  case TT_SYM_CONST:
    rx = node(r, TT_RX_VALUE, e);
    rx->value = sym->value;
    rx->sym = sym;
    return rx;
  case TT_SYM_TENSOR:
  case TT_SYM_STAGE:
  case TT_SYM_TABLE:
    if (r->constant && sym->kind != TT_SYM_TABLE) {
      tt_diag(r->s->diags, TT_D_NOT_CONSTANT, e->span,
              "tensor '%s' is not known at compile time", sym->name);
      return bad(r, e);
    }
    if (sym->tensor->ndim != 0) {
      rank_error(r, e, sym, sym->tensor->ndim);
      return bad(r, e);
    }
    rx = node(r, TT_RX_LOAD, e);
    rx->sym = sym;
    return rx;
  case TT_SYM_TYPE:
    wrong_kind(r, e->span, "type '%s' is no value; write %s(…)", sym->name,
               sym->name);
    break;
  case TT_SYM_DEF:
    wrong_kind(r, e->span, "def '%s' needs arguments: %s(…)", sym->name,
               sym->name);
    break;
  case TT_SYM_INTRIN:
  case TT_SYM_GENERATED:
    wrong_kind(r, e->span, "intrin '%s' is no value%s", sym->name, "");
    break;
  }
  return bad(r, e);
}

static const struct tt_rx *
resolve_name(struct resolver *r, const struct tt_ast *e,
             const struct tt_names *names)
{
  const struct tt_names *found = lookup(names, e->name);
  struct tt_rx *rx;
  struct tt_sym *sym;

  if (found && found->axis) {
    rx = node(r, TT_RX_AXIS, e);
    rx->axis = found->axis;
    return found->axis->bad ? bad(r, e) : rx;
  }
  if (found && found->rx)
    return found->rx;
  if (found) /* a parameter of a def that is only checked */
    return bad(r, e);
  sym = tt_symbol_use(r->s, e->name, e->span, r->use,
                      !r->constant && (r->subscript || strlen(e->name) == 1));
  return sym ? global_name(r, e, sym) : bad(r, e);
}

/* T.lowest and T.max. */
static const struct tt_rx *
resolve_member(struct resolver *r, const struct tt_ast *e)
{
  struct tt_ident id = {
      e->name,
      {e->span.src, e->span.lo, e->span.lo + (uint32_t)strlen(e->name)}};
  bool lowest = strcmp(e->member, "lowest") == 0;
  enum tt_dtype t;
  double f;

  if (!lowest && strcmp(e->member, "max") != 0) {
    tt_diag(r->s->diags, TT_D_UNKNOWN_MEMBER, e->at,
            "a type has no '%s' (have lowest max)", e->member);
    tt_note_use(r->s, r->use);
    return bad(r, e);
  }
  if (!tt_type_of(r->s, &id, &t))
    return bad(r, e);
  if (!tt_dtype_is_float(t))
    return constant(
        r, e,
        tt_int(r->s->arena, t, lowest ? tt_dtype_min(t) : tt_dtype_max(t)),
        TT_STRONG);
  f = t == TT_F64    ? 1.7976931348623157e308
      : t == TT_F32  ? 3.4028234663852886e38
      : t == TT_BF16 ? 3.3895313892515355e38
                     : 65504;
  return constant(r, e, tt_flt(r->s->arena, t, lowest ? -f : f), TT_STRONG);
}

/* ---- accesses ---------------------------------------------------------- */

static const struct tt_rx *
resolve_access(struct resolver *r, const struct tt_ast *e,
               const struct tt_names *names)
{
  bool subscript = r->subscript;
  struct tt_rx *rx;
  struct tt_sym *sym = NULL;
  const struct tt_rx *result;

  if (lookup(names, e->name))
    wrong_kind(r, e->at, "'%s' is an index or a parameter, no tensor%s",
               e->name, "");
  else
    sym = tt_symbol_use(r->s, e->name, e->at, r->use, false);
  if (sym && !sym->tensor) {
    wrong_kind(r, e->at, "'%s' is no tensor%s", e->name, "");
    sym = NULL;
  }
  if (sym && r->constant && sym->kind != TT_SYM_TABLE) {
    tt_diag(r->s->diags, TT_D_NOT_CONSTANT, e->span,
            "tensor '%s' is not known at compile time", sym->name);
    sym = NULL;
  }
  if (sym && sym->tensor->ndim != e->nargs) {
    rank_error(r, e, sym, sym->tensor->ndim);
    sym = NULL;
  }
  rx = node(r, TT_RX_LOAD, e);
  rx->sym = sym;
  r->subscript = true;
  result = with_args(r, rx, e, names);
  r->subscript = subscript;
  if (e->other) {
    rx->other = resolve(r, e->other, names);
    result = measured(r, e, rx);
  }
  return sym ? result : bad(r, e);
}

/* ---- calls ------------------------------------------------------------- */

static bool
arity_ok(struct resolver *r, const struct tt_ast *e, const char *name, int n)
{
  if (e->nargs == n)
    return true;
  tt_diag(r->s->diags, TT_D_ARITY, e->span, "%s takes %d argument%s, %d given",
          name, n, n == 1 ? "" : "s", e->nargs);
  tt_note_use(r->s, r->use);
  return false;
}

static const struct tt_rx *
expand(struct resolver *r, const struct tt_ast *e, const struct tt_sym *sym,
       const struct tt_names *names)
{
  const struct tt_item *def = sym->item;
  struct tt_names *params =
      TT_ARRAY(r->s->arena, struct tt_names, (size_t)def->nparams);
  struct tt_use *use = TT_NEW(r->s->arena, struct tt_use);
  const struct tt_use *outer = r->use;
  bool subscript = r->subscript;
  const struct tt_rx *rx;

  if (!arity_ok(r, e, sym->name, def->nparams)) {
    tt_diag_note(r->s->diags, sym->span, "'%s' is defined here", sym->name);
    return bad(r, e);
  }
  for (int i = 0; i < def->nparams; i++) {
    params[i].name = def->params[i].name;
    params[i].rx = resolve(r, e->args[i], names);
    params[i].outer = i ? &params[i - 1] : NULL;
  }
  if (r->dry) /* its own check covers the body */
    return bad(r, e);
  *use = (struct tt_use){sym->name, e->span, outer};
  r->use = use;
  r->subscript = false;
  r->expansions++;
  rx = resolve(r, def->expr, def->nparams ? &params[def->nparams - 1] : NULL);
  r->expansions--;
  r->use = outer;
  r->subscript = subscript;
  return rx;
}

/* T(x) and sat_T(x): is `name` a type? */
static bool
names_type(struct resolver *r, const char *name, enum tt_dtype *t)
{
  const struct tt_sym *sym;

  if (tt_dtype_parse(name, t))
    return true;
  sym = tt_symbol_find(r->s, name);
  if (!sym || sym->kind != TT_SYM_TYPE || sym->state != TT_DONE)
    return false;
  *t = sym->dtype;
  return true;
}

static const struct tt_rx *
resolve_conversion(struct resolver *r, const struct tt_ast *e,
                   const struct tt_names *names, bool saturate, enum tt_dtype t)
{
  struct tt_rx *rx = node(r, saturate ? TT_RX_SAT : TT_RX_CAST, e);

  if (!arity_ok(r, e, e->name, 1))
    return bad(r, e);
  rx->dtype = t;
  return with_args(r, rx, e, names);
}

static const struct tt_rx *
resolve_call(struct resolver *r, const struct tt_ast *e,
             const struct tt_names *names)
{
  struct tt_rx *rx;
  struct tt_sym *sym;
  enum tt_dtype t;
  int nargs;

  if (names_type(r, e->name, &t))
    return resolve_conversion(r, e, names, false, t);
  if (strncmp(e->name, "sat_", 4) == 0 && names_type(r, e->name + 4, &t))
    return resolve_conversion(r, e, names, true, t);
  rx = node(r, TT_RX_CALL, e);
  if (find_builtin(e->name, &rx->builtin, &rx->fn, &nargs))
    return arity_ok(r, e, e->name, nargs) ? with_args(r, rx, e, names)
                                          : bad(r, e);
  sym = tt_symbol_find(r->s, e->name);
  if (!sym || sym->kind == TT_SYM_GENERATED) {
    tt_diag(r->s->diags, TT_D_UNKNOWN_FUNCTION, e->at,
            "there is no function '%s'", e->name);
    tt_note_use(r->s, r->use);
    return bad(r, e);
  }
  if (sym->kind != TT_SYM_DEF && sym->kind != TT_SYM_TYPE) {
    wrong_kind(r, e->at,
               sym->tensor ? "'%s' is a tensor; write %s[…]"
                           : "'%s' is no function%.0s",
               e->name, e->name);
    return bad(r, e);
  }
  sym = tt_symbol_use(r->s, e->name, e->at, r->use, false);
  return sym ? expand(r, e, sym, names) : bad(r, e);
}

static const struct tt_rx *
resolve_nary(struct resolver *r, const struct tt_ast *e,
             const struct tt_names *names)
{
  enum tt_reducer red = (enum tt_reducer)e->op;
  struct tt_rx *rx = node(r, TT_RX_CALL, e);

  if (red != TT_REDUCE_MIN && red != TT_REDUCE_MAX) {
    tt_diag(r->s->diags, TT_D_ARITY, e->at, "%s needs indices: %s[k](…)",
            tt_reducer_name(red), tt_reducer_name(red));
    tt_note_use(r->s, r->use);
    return bad(r, e);
  }
  if (e->nargs < 2) {
    tt_diag(r->s->diags, TT_D_ARITY, e->span,
            "%s takes at least 2 arguments, or indices: %s[k](…)",
            tt_reducer_name(red), tt_reducer_name(red));
    tt_note_use(r->s, r->use);
    return bad(r, e);
  }
  rx->builtin = red == TT_REDUCE_MIN ? TT_B_MIN : TT_B_MAX;
  return with_args(r, rx, e, names);
}

/* ---- reductions -------------------------------------------------------- */

struct tt_axis *
tt_axis_new(struct tt_sema *s, const struct tt_binder *b,
            const struct tt_use *use, bool left)
{
  struct tt_axis *axis;
  const struct tt_sym *sym;

  if (b->index->kind == TT_AST_ERROR)
    return NULL;
  if (b->index->kind != TT_AST_NAME) {
    tt_diag(s->diags, TT_D_LEFT_SIDE, b->index->span,
            left ? "the left side needs plain index names; write the gather "
                   "form: Y[i] = X[…]"
                 : "a reduction's index must be a plain name");
    tt_note_use(s, use);
    return NULL;
  }
  axis = TT_NEW(s->arena, struct tt_axis);
  axis->name = b->index->name;
  axis->span = b->index->span;
  axis->use = use;
  axis->left = left;
  sym = tt_symbol_find(s, axis->name);
  if (sym && sym->kind != TT_SYM_GENERATED && sym->state != TT_PENDING) {
    tt_diag(s->diags, TT_D_SHADOWING, axis->span, "index '%s' hides %s %s (%s)",
            axis->name, tt_symbol_kind(sym), axis->name,
            tt_place_text(s, sym->span));
    tt_diag_note(s->diags, sym->span, "'%s' is declared here", axis->name);
    axis->bad = true;
  }
  if (b->hi) {
    axis->ranged = axis->given = true;
    if (!tt_const_range(s, b->lo, b->hi, &axis->lo, &axis->extent))
      axis->bad = true;
    axis->from_span = b->hi->span;
  }
  return axis;
}

void
tt_bind_names(struct tt_sema *s, const struct tt_ast *e,
              const struct tt_names **names)
{
  struct tt_names *name;

  for (int i = 0; i < e->nargs; i++)
    tt_bind_names(s, e->args[i], names);
  if (e->kind != TT_AST_NAME || tt_symbol_find(s, e->name))
    return;
  name = TT_NEW(s->arena, struct tt_names);
  *name = (struct tt_names){*names, e->name, TT_NEW(s->arena, struct tt_axis),
                            NULL};
  name->axis->name = e->name;
  name->axis->span = e->span;
  name->axis->bad = true;
  *names = name;
}

static bool
rebound(struct resolver *r, const struct tt_axis *axis,
        const struct tt_names *names)
{
  const struct tt_names *found = lookup(names, axis->name);

  if (!found || !found->axis)
    return false;
  tt_diag(r->s->diags, TT_D_INDEX_REBOUND, axis->span,
          found->axis->left ? "'%s' is bound on the left; use a fresh name"
                            : "'%s' is bound already; use a fresh name",
          axis->name);
  tt_diag_note(r->s->diags, found->axis->span, "'%s' is bound here",
               axis->name);
  tt_note_use(r->s, r->use);
  return true;
}

/* The indices of a reduction in front of `names`; false after a diagnostic. */
static bool
bind_all(struct resolver *r, struct tt_rx *rx, const struct tt_binders *b,
         const struct tt_names **names)
{
  struct tt_axis **axes = TT_ARRAY(r->s->arena, struct tt_axis *, (size_t)b->n);
  bool ok = true;

  for (int i = 0; i < b->n; i++) {
    struct tt_axis *axis = tt_axis_new(r->s, &b->items[i], r->use, false);
    struct tt_names *n = TT_NEW(r->s->arena, struct tt_names);
    ok = axis && ok;
    axes[i] = axis;
    if (!axis) {
      tt_bind_names(r->s, b->items[i].index, names);
      continue;
    }
    if (rebound(r, axis, *names))
      axis->bad = true;
    ok = ok && !axis->bad;
    *n = (struct tt_names){*names, axis->name, axis, NULL};
    *names = n;
    if (r->axes)
      TT_PUSH(*r->axes, axis);
  }
  rx->axes = axes;
  rx->naxes = b->n;
  return ok;
}

static const struct tt_rx *
resolve_reduce(struct resolver *r, const struct tt_ast *e,
               const struct tt_names *names)
{
  enum tt_reducer red = (enum tt_reducer)e->op;
  struct tt_rx *rx = node(r, TT_RX_REDUCE, e);
  bool arg = red == TT_REDUCE_ARGMIN || red == TT_REDUCE_ARGMAX;
  bool ok = !r->constant, subscript = r->subscript;
  const struct tt_rx *result;

  if (r->constant)
    tt_diag(r->s->diags, TT_D_NOT_CONSTANT, e->span,
            "a reduction is not computed at compile time");
  if (e->binders->n > TT_MAX_REDUCE) {
    tt_diag(r->s->diags, TT_D_TOO_MANY_DIMS, e->span,
            "a reduction has at most %d indices, this has %d", TT_MAX_REDUCE,
            e->binders->n);
    return bad(r, e);
  }
  if (arg && e->binders->n != 1) {
    tt_diag(r->s->diags, TT_D_ARG_INDICES, e->span,
            "%s takes exactly one index", tt_reducer_name(red));
    tt_note_use(r->s, r->use);
    ok = false;
  }
  rx->red = red;
  if (!ok && r->constant)
    return bad(r, e);
  ok = bind_all(r, rx, e->binders, &names) && ok;
  r->subscript = false;
  if (e->other)
    rx->other = resolve(r, e->other, names);
  result = with_args(r, rx, e, names);
  r->subscript = subscript;
  return ok ? result : bad(r, e);
}

/* ---- everything -------------------------------------------------------- */

static bool
too_many_terms(struct resolver *r, const struct tt_ast *e)
{
  if (++r->s->nterms <= TT_MAX_ALL_TERMS)
    return false;
  if (!r->s->too_many_terms)
    tt_diag(r->s->diags, TT_D_TOO_LARGE, e->span,
            "the program has more than 4194304 terms when defs are expanded");
  r->s->too_many_terms = true;
  return true;
}

static const struct tt_rx *
resolve(struct resolver *r, const struct tt_ast *e,
        const struct tt_names *names)
{
  struct tt_rx *rx;

  if (too_many_terms(r, e))
    return bad(r, e);
  if (r->expansions > TT_MAX_DEPTH / 4) {
    tt_diag(r->s->diags, TT_D_TOO_DEEP, e->span,
            "defs expand each other more than 250 deep");
    return bad(r, e);
  }
  switch ((enum tt_ast_kind)e->kind) {
  case TT_AST_ERROR:
    return bad(r, e);
  case TT_AST_INT:
    return constant(r, e, tt_idx(r->s->arena, e->ival), TT_WEAK_INT);
  case TT_AST_FLT:
    return constant(r, e, tt_flt(r->s->arena, TT_F64, e->fval), TT_WEAK_FLT);
  case TT_AST_BOOL:
    return constant(r, e, tt_bool(r->s->arena, e->ival), TT_STRONG);
  case TT_AST_NAME:
    return resolve_name(r, e, names);
  case TT_AST_MEMBER:
    return resolve_member(r, e);
  case TT_AST_ACCESS:
    return resolve_access(r, e, names);
  case TT_AST_CALL:
    return resolve_call(r, e, names);
  case TT_AST_NARY:
    return resolve_nary(r, e, names);
  case TT_AST_REDUCE:
    return resolve_reduce(r, e, names);
  case TT_AST_BINARY:
    rx = node(r, TT_RX_BINARY, e);
    rx->op = (enum tt_binop)e->op;
    return with_args(r, rx, e, names);
  case TT_AST_NEG:
    return with_args(r, node(r, TT_RX_NEG, e), e, names);
  case TT_AST_NOT:
    return with_args(r, node(r, TT_RX_NOT, e), e, names);
  case TT_AST_BITNOT:
    return with_args(r, node(r, TT_RX_BITNOT, e), e, names);
  case TT_AST_COND:
    return with_args(r, node(r, TT_RX_COND, e), e, names);
  }
  return bad(r, e);
}

const struct tt_rx *
tt_resolve(struct tt_sema *s, const struct tt_ast *e,
           const struct tt_names *names, bool is_constant, struct tt_axes *axes)
{
  struct resolver r = {.s = s, .constant = is_constant, .axes = axes};

  return resolve(&r, e, names);
}

/* A def's names are checked even if it is never called. */
void
tt_check_def(struct tt_sema *s, struct tt_sym *sym)
{
  const struct tt_item *def = sym->item;
  struct resolver r = {.s = s, .dry = true};
  struct tt_names *params =
      TT_ARRAY(s->arena, struct tt_names, (size_t)def->nparams);
  int errors = tt_diags_errors(s->diags);

  for (int i = 0; i < def->nparams; i++) {
    for (int k = 0; k < i; k++)
      if (strcmp(def->params[k].name, def->params[i].name) == 0) {
        tt_diag(s->diags, TT_D_DUPLICATE, def->params[i].span,
                "parameter '%s' appears twice", def->params[i].name);
        tt_diag_note(s->diags, def->params[k].span, "first here");
      }
    params[i].name = def->params[i].name;
    params[i].outer = i ? &params[i - 1] : NULL;
  }
  resolve(&r, def->expr, &params[def->nparams - 1]);
  sym->state = tt_diags_errors(s->diags) == errors ? TT_DONE : TT_BAD;
}
