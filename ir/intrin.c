/* Intrins: do expressions say what one does, and are statements that use one
 * what it asks for?
 *
 * Operands of sums and products may change places; nothing else may differ
 * but what stands for the operands.
 */
#include "config.h"

#include "ir/passes.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- matching ---------------------------------------------------------- */

struct matching {
  const struct tt_intrin *intrin;
  tt_accept_fn *accept;
  void *ctx;
  const struct tt_expr **found;
};

static bool matches(struct matching *m, const struct tt_expr *pattern,
                    const struct tt_expr *e);

static int
operand_of(const struct tt_intrin *in, const struct tt_tensor *t)
{
  for (int i = 0; i < in->noperands; i++)
    if (in->operands[i].tensor == t)
      return i;
  return -1;
}

static bool
is_place(struct matching *m, const struct tt_expr *pattern,
         const struct tt_expr *e)
{
  int o = operand_of(m->intrin, pattern->tensor);
  if (o < 0 || e->type.dtype != pattern->type.dtype || e->type.lanes != 1 ||
      (e->kind != TT_LOAD && e->kind != TT_SELECT))
    return false;
  if (m->found[o])
    return tt_expr_equal(m->found[o], e);
  if (!m->accept(m->ctx, o, e))
    return false;
  m->found[o] = e;
  return true;
}

static bool
commutes(const struct tt_expr *e)
{
  return e->op == TT_ADD || e->op == TT_MUL || e->op == TT_BAND ||
         e->op == TT_BOR || e->op == TT_BXOR;
}

static bool
pair_matches(struct matching *m, const struct tt_expr *pattern,
             const struct tt_expr *a, const struct tt_expr *b)
{
  const struct tt_expr *before[TT_MAX_OPERANDS];
  memcpy(before, m->found, sizeof before);
  if (matches(m, pattern->a, a) && matches(m, pattern->b, b))
    return true;
  memcpy(m->found, before, sizeof before);
  return false;
}

static bool
matches(struct matching *m, const struct tt_expr *pattern,
        const struct tt_expr *e)
{
  if (pattern->kind == TT_LOAD)
    return is_place(m, pattern, e);
  if (pattern->kind != e->kind || pattern->type.dtype != e->type.dtype ||
      e->type.lanes != 1)
    return false;
  switch (pattern->kind) {
  case TT_INT:
    return pattern->ival == e->ival;
  case TT_FLT:
    return tt_expr_equal(pattern, e);
  case TT_BINARY:
    return pattern->op == e->op &&
           (pair_matches(m, pattern, e->a, e->b) ||
            (commutes(e) && pair_matches(m, pattern, e->b, e->a)));
  case TT_NEG:
  case TT_NOT:
  case TT_CAST:
  case TT_SAT:
    return matches(m, pattern->a, e->a);
  case TT_SELECT:
    return matches(m, pattern->c, e->c) && pair_matches(m, pattern, e->a, e->b);
  case TT_CALL:
    if (pattern->fn != e->fn || pattern->nargs != e->nargs)
      return false;
    for (int i = 0; i < e->nargs; i++)
      if (!matches(m, pattern->args[i], e->args[i]))
        return false;
    return true;
  case TT_VAR: /* the frontend lets none stand beside operands */
  case TT_LOAD:
  case TT_RAMP:
  case TT_BROADCAST:
    break;
  }
  return false;
}

bool
tt_intrin_matches(const struct tt_intrin *intrin, const struct tt_expr *value,
                  tt_accept_fn *accept, void *ctx,
                  const struct tt_expr *found[TT_MAX_OPERANDS])
{
  struct matching m = {intrin, accept, ctx, found};
  for (int i = 0; i < TT_MAX_OPERANDS; i++)
    found[i] = NULL;
  return matches(&m, intrin->value, value);
}

int
tt_intrin_arch(const struct tt_intrin *in)
{
  static const char word[] = "__CUDA_ARCH__";
  const char *p = in->guard ? strstr(in->guard, word) : NULL;
  if (!p)
    return 0;
  p += sizeof word - 1;
  p += strspn(p, " ");
  return strncmp(p, ">=", 2) == 0 ? atoi(p + 2) : 0;
}

/* ---- C text ------------------------------------------------------------ */

int
tt_text_arguments(const char *text, int max, struct tt_text *args,
                  const char **end)
{
  int depth = 0, n = 0;
  const char *p = text, *from = text + 1;
  for (; *p; p++) {
    depth += *p == '(' ? 1 : *p == ')' ? -1 : 0;
    if (depth && (depth > 1 || *p != ','))
      continue;
    const char *to = p;
    while (from < to && isspace((unsigned char)*from))
      from++;
    while (to > from && isspace((unsigned char)to[-1]))
      to--;
    if (n < max)
      args[n] = (struct tt_text){from, (size_t)(to - from)};
    n++;
    from = p + 1;
    if (!depth)
      break;
  }
  *end = *p ? p + 1 : p;
  return *p ? n : -1;
}

/* Is "$name" always followed by a bracket? */
static bool
by_place(const char *text, const char *name)
{
  size_t n = strlen(name);
  for (const char *p = text; p && (p = strchr(p, '$')) != NULL;) {
    p++;
    bool whole = strncmp(p, name, n) == 0 &&
                 !(isalnum((unsigned char)p[n]) || p[n] == '_');
    if (whole && p[n] != '(')
      return false;
  }
  return true;
}

bool
tt_operand_by_place(const struct tt_intrin *in, int operand)
{
  const struct tt_operand_of *o = &in->operands[operand];
  return o->reg ? by_place(o->load, "in") : by_place(in->emit, o->tensor->name);
}

/* ---- operands of a statement ------------------------------------------- */

/* The declared operand that operand number `i` of the statement is, or is
 * shaped like. */
static const struct tt_operand_of *
declared(const struct tt_stmt *s, int i)
{
  return &s->intrin->operands[s->op == TT_INTRIN_EMIT ? i : s->intrin->result];
}

struct zeros {
  int n;
  const struct tt_var *const *vars;
};

static const struct tt_expr *
put_zero(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct zeros *z = ctx;
  for (int i = 0; i < z->n && e->kind == TT_VAR; i++)
    if (e->var == z->vars[i])
      return tt_idx(ar, 0);
  return e;
}

const struct tt_expr *
tt_operand_base(struct tt_arena *ar, const struct tt_stmt *s, int operand)
{
  struct zeros z = {s->intrin->nspatial + s->intrin->nreduce, s->vars};
  return tt_expr_rewrite(ar, s->idx[operand], put_zero, &z);
}

static const struct tt_expr *
offset_of(struct tt_arena *ar, const struct tt_expr *load)
{
  const struct tt_expr *sum = tt_idx(ar, 0);
  for (int i = 0; i < load->nargs; i++)
    sum = tt_iadd(
        ar, sum, tt_imul(ar, load->args[i], tt_tensor_stride(load->tensor, i)));
  return tt_simplify(ar, sum, NULL);
}

bool
tt_operand_strides(struct tt_arena *ar, const struct tt_stmt *s, int operand,
                   int64_t *strides)
{
  const struct tt_operand_of *o = declared(s, operand);
  const struct tt_expr *at = offset_of(ar, s->idx[operand]);
  for (int d = 0; d < o->tensor->ndim; d++) {
    if (!tt_affine_coef(ar, at, s->vars[o->index[d]], &strides[d]))
      return false;
    /* (A loop of one iteration is gone from the subscripts.) */
    if (o->tensor->dims[d] == 1 && o->inner)
      strides[d] = d + 1 == o->tensor->ndim ? o->inner
                                            : o->inner * o->tensor->dims[d + 1];
  }
  return true;
}

/* ---- what an intrin asks for ------------------------------------------- */

struct checking {
  struct tt_arena *arena;
  const struct tt_tensor *tensor; /* the only one that matters, or NULL */
  int64_t aligned;                /* bytes that all memory is aligned to */
  const char *error;
};

static const char *
refuse(struct checking *c, const struct tt_stmt *s, int operand,
       const char *what, int64_t a, int64_t b)
{
  const struct tt_operand_of *o = declared(s, operand);
  struct tt_sb sb = {0};
  tt_sb_printf(&sb, "%s does not match: ", s->intrin->name);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  tt_sb_printf(&sb, what, o->tensor->name, s->idx[operand]->tensor->name,
               (long long)a, (long long)b);
#pragma GCC diagnostic pop
  c->error = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return c->error;
}

static bool
check_strides(struct checking *c, const struct tt_stmt *s, int operand,
              const int64_t *strides)
{
  const struct tt_operand_of *o = declared(s, operand);
  const struct tt_tensor *t = o->tensor;
  int64_t want = o->inner;
  for (int d = t->ndim - 1; d >= 0 && o->inner; d--) {
    bool last = d == t->ndim - 1;
    if ((last || o->dense) && t->dims[d] > 1 && strides[d] != want)
      return !refuse(c, s, operand, "%s, in %s, has stride %lld, needs %lld",
                     strides[d], want);
    if (!last && !o->dense && strides[d] < 1)
      return !refuse(c, s, operand, "%s, in %s, has rows of stride %lld",
                     strides[d], 0);
    want = o->dense ? want * t->dims[d] : want;
  }
  return true;
}

/* Rows begin at multiples of so many bytes. */
static bool
check_alignment(struct checking *c, const struct tt_stmt *s, int operand,
                const int64_t *strides)
{
  const struct tt_operand_of *o = declared(s, operand);
  int64_t bytes = tt_dtype_bytes(o->tensor->dtype);
  struct tt_affine a = tt_affine_of(
      c->arena, offset_of(c->arena, tt_operand_base(c->arena, s, operand)));
  bool ok = (o->aligned <= c->aligned || o->aligned <= bytes) &&
            a.c0 * bytes % o->aligned == 0;
  for (int i = 0; i < a.n; i++)
    ok = ok && a.coef[i] * bytes % o->aligned == 0;
  if (!ok)
    return !refuse(c, s, operand,
                   "%s, in %s, is not known to begin at a multiple of %lld "
                   "bytes",
                   o->aligned, 0);
  for (int d = 0; d < o->tensor->ndim - 1; d++)
    if (o->tensor->dims[d] > 1 && strides[d] * bytes % o->aligned != 0)
      return !refuse(c, s, operand,
                     "%s, in %s, has rows of %lld bytes, no multiple of %lld",
                     strides[d] * bytes, o->aligned);
  return true;
}

/* Groups of a row's elements change places: the text asks for each place, and
 * what it finds there lies together as far as it is aligned. */
static bool
check_swizzle(struct checking *c, const struct tt_stmt *s, int operand)
{
  const struct tt_operand_of *o = declared(s, operand);
  const struct tt_tensor *t = s->idx[operand]->tensor;
  int64_t group = (int64_t)t->staging.swizzle * tt_dtype_bytes(t->dtype);
  if (!t->staging.swizzle || o->tensor->ndim == 0)
    return true;
  if (!tt_operand_by_place(s->intrin, (int)(o - s->intrin->operands)))
    return !refuse(c, s, operand,
                   "%s, in %s, is swizzled, and its text takes its rows as "
                   "they lie: $in(row, column) asks where each is",
                   0, 0);
  return group % (o->aligned > 0 ? o->aligned : 1) == 0 ||
         !refuse(c, s, operand,
                 "%s, in %s, is swizzled by groups of %lld bytes, and read by "
                 "%lld",
                 group, o->aligned);
}

static bool
check_operand(struct checking *c, const struct tt_stmt *s, int operand)
{
  const struct tt_operand_of *o = declared(s, operand);
  const struct tt_tensor *t = s->idx[operand]->tensor;
  int64_t strides[TT_MAX_DIMS];
  if (t->fragment)
    return true;
  if (!tt_operand_strides(c->arena, s, operand, strides))
    return !refuse(c, s, operand, "the strides of %s, in %s, are no constants",
                   0, 0);
  if (o->shared && t->role != TT_LOCAL)
    return !refuse(c, s, operand, "%s, %s, must be in shared memory: cache it",
                   0, 0);
  if (!check_swizzle(c, s, operand))
    return false;
  return check_strides(c, s, operand, strides) &&
         (o->aligned <= 1 || check_alignment(c, s, operand, strides));
}

static void
check(struct checking *c, const struct tt_stmt *s)
{
  for (int i = 0; i < s->nitems; i++)
    check(c, s->items[i]);
  if (s->body)
    check(c, s->body);
  if (s->other)
    check(c, s->other);
  for (int i = 0; i < s->nidx && s->kind == TT_INTRIN && !c->error; i++)
    if (!c->tensor || s->idx[i]->tensor == c->tensor)
      check_operand(c, s, i);
}

const char *
tt_check_instructions(struct tt_arena *arena, const struct tt_stmt *s,
                      const struct tt_tensor *tensor, int64_t aligned)
{
  struct checking c = {arena, tensor, aligned, NULL};
  check(&c, s);
  return c.error;
}
