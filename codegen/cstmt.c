/* Statements as C.
 *
 * Variables are declared where they get their first value if that is in the
 * same block; the names of a block are free again after it.
 */
#include "config.h"

#include "codegen/cprint.h"

#include "codegen/internal.h"
#include "ir/passes.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { WIDTH = 96 };

/* ---- lines ------------------------------------------------------------ */

static void
indent(struct cprinter *c, int columns)
{
  for (int i = 0; i < columns; i++)
    tt_sb_putc(&c->body, ' ');
}

/* A space after a comma or after an operator: the best places to break. */
static bool
good_break(const char *s, size_t i)
{
  if (s[i] != ' ' || i < 2)
    return false;
  return s[i - 1] == ',' || s[i - 1] == ';' ||
         (strchr("+-*/%?:=<>&|^", s[i - 1]) &&
          (s[i - 2] == ' ' || strchr("+-*/<>=&|!", s[i - 2])));
}

/* The last good place outside of as many brackets as possible; failing that
 * any space, be it past the room. */
static size_t
break_at(const char *s, size_t room)
{
  size_t best = 0, any = 0;
  int depth = 0, least = INT_MAX;
  for (size_t i = 0; s[i] && (i <= room || !any); i++) {
    depth += strchr("([{", s[i]) ? 1 : strchr(")]}", s[i]) ? -1 : 0;
    if (s[i] == ' ' && i > room / 6)
      any = i;
    if (i > room / 6 && i <= room && depth <= least && good_break(s, i)) {
      best = i;
      least = depth;
    }
  }
  return best ? best : any ? any : strlen(s);
}

void
tt_c_line(struct cprinter *c, const char *fmt, ...)
{
  struct tt_sb sb = {0};
  va_list ap;
  va_start(ap, fmt);
  tt_sb_vprintf(&sb, fmt, ap);
  va_end(ap);
  if (c->announced > 0)
    tt_c_bases_declare(c);
  const char *s = tt_sb_str(&sb);
  int left = 2 * c->depth, more = left + 4 + (int)strspn(s, " ");
  for (bool first = true;; first = false) {
    int in = first ? left : more;
    size_t len = strlen(s), room = in < WIDTH - 40 ? (size_t)(WIDTH - in) : 40;
    indent(c, len ? in : 0);
    size_t n = len > room ? break_at(s, room) : len;
    tt_sb_addn(&c->body, s, n);
    tt_sb_putc(&c->body, '\n');
    if (!s[n])
      break;
    s += n + 1;
  }
  tt_sb_free(&sb);
}

/* Text inside of a comment cannot end it. */
void
tt_c_comment(struct cprinter *c, const char *text)
{
  char *safe = tt_arena_strdup(c->arena, text);
  for (char *p = strstr(safe, "*/"); p; p = strstr(p, "*/"))
    *p = '+';
  for (char *p = safe; *p; p++)
    if (*p == '\n')
      *p = ' ';
  int in = 2 * c->depth;
  size_t room = in < WIDTH - 40 ? (size_t)(WIDTH - in - 3) : 40;
  const char *open = "/* ";
  for (const char *s = safe;; open = " * ") {
    size_t len = strlen(s), n = len;
    if (len > room)
      for (n = room; n > room / 2 && s[n] != ' '; n--)
        ;
    indent(c, in);
    tt_sb_add(&c->body, open);
    tt_sb_addn(&c->body, s, n);
    if (n == len)
      break;
    tt_sb_putc(&c->body, '\n');
    s += n + (s[n] == ' ');
  }
  tt_sb_add(&c->body, " */\n");
}

/* ---- variables -------------------------------------------------------- */

static const char *
variable_type(struct cprinter *c, const struct tt_tensor *t)
{
  if (t->ndim == 0)
    return tt_c_value(t->dtype);
  return tt_c_vector(c, t->dtype, (int)t->dims[0]);
}

static bool
is_pending(const struct cprinter *c, const struct tt_tensor *t)
{
  for (int i = 0; i < c->pending.n; i++)
    if (c->pending.items[i].tensor == t)
      return true;
  return false;
}

static struct pending
find_pending(const struct cprinter *c, const struct tt_tensor *t)
{
  for (int i = 0; i < c->pending.n; i++)
    if (c->pending.items[i].tensor == t)
      return c->pending.items[i];
  return (struct pending){0};
}

static void
not_pending(struct cprinter *c, const struct tt_tensor *t)
{
  int n = 0;
  for (int i = 0; i < c->pending.n; i++)
    if (c->pending.items[i].tensor != t)
      c->pending.items[n++] = c->pending.items[i];
  c->pending.n = n;
}

/* Declares, by type, the pending variables that are marked as used. */
static void
declare(struct cprinter *c, int n, const struct tt_tensor **used)
{
  for (int i = 0; i < n; i++) {
    if (!is_pending(c, used[i]))
      continue;
    const char *type = variable_type(c, used[i]);
    bool risky = find_pending(c, used[i]).risky;
    struct tt_sb sb = {0};
    for (int j = i; j < n; j++) {
      if (!is_pending(c, used[j]) || find_pending(c, used[j]).risky != risky ||
          strcmp(variable_type(c, used[j]), type) != 0)
        continue;
      tt_sb_printf(&sb, "%s%s%s", sb.len ? ", " : "",
                   tt_names_of(c->names, used[j]),
                   !risky ? ""
                   : used[j]->ndim > 0 && c->dialect->style != TT_OPENCL_VECTORS
                       ? " = {0}"
                       : " = 0");
      not_pending(c, used[j]);
    }
    tt_c_line(c, "%s %s;", type, tt_sb_str(&sb));
    tt_sb_free(&sb);
  }
}

static bool
reads(const struct tt_stmt *s, const struct tt_tensor *t)
{
  return tt_expr_uses_tensor(s->value, t);
}

/* Before a statement: the variables it uses must be declared, save one that
 * a store can declare itself. */
static void
declare_used(struct cprinter *c, const struct tt_stmt *s)
{
  if (c->pending.n == 0)
    return;
  const struct tt_tensor *self = NULL;
  if (s->kind == TT_STORE && !reads(s, s->tensor) &&
      (s->nidx == 0 || s->idx[0]->type.lanes > 1))
    self = s->tensor;
  struct accesses all = {0};
  tt_collect_accesses(s, &all);
  const struct tt_tensor **used =
      TT_ARRAY(c->arena, const struct tt_tensor *, (size_t)c->pending.n + 1);
  int n = 0;
  for (int i = 0; i < c->pending.n; i++) {
    const struct tt_tensor *t = c->pending.items[i].tensor;
    bool found = false;
    for (int j = 0; j < all.n && !found; j++)
      found = all.items[j].tensor == t;
    if (found && t != self)
      used[n++] = t;
  }
  free(all.items);
  declare(c, n, used);
}

struct store_count {
  const struct tt_tensor *tensor;
  int n;
};

static void
count_store(void *ctx, const struct tt_stmt *s)
{
  struct store_count *k = ctx;
  k->n += s->kind == TT_STORE && s->tensor == k->tensor;
}

/* Is a variable set on every path before it is read?  Loops run at least
 * once.  Of an array, any element will do: compilers warn of small ones. */
struct flow {
  const struct tt_tensor *tensor;
  bool set, risky;
};

static void
flow(struct flow *f, const struct tt_stmt *s)
{
  switch (s->kind) {
  case TT_PREFETCH:
    break;
  case TT_STORE:
    if (tt_expr_uses_tensor(s->value, f->tensor) && !f->set)
      f->risky = true;
    for (int i = 0; i < s->nidx; i++)
      if (tt_expr_uses_tensor(s->idx[i], f->tensor) && !f->set)
        f->risky = true;
    if (s->tensor == f->tensor) {
      bool whole = s->nidx == 0 || s->idx[0]->type.lanes > 1 ||
                   !tt_is_register(s->tensor);
      f->risky = f->risky || (!whole && !f->set);
      f->set = f->set || whole;
    }
    break;
  case TT_IF: {
    struct flow other = *f;
    if (tt_expr_uses_tensor(s->cond, f->tensor) && !f->set)
      f->risky = true;
    flow(f, s->body);
    if (s->other)
      flow(&other, s->other);
    f->set = f->set && other.set;
    f->risky = f->risky || other.risky;
    break;
  }
  case TT_SEQ:
    for (int i = 0; i < s->nitems; i++)
      flow(f, s->items[i]);
    break;
  case TT_FOR:
  case TT_ALLOC:
  case TT_INTRIN:
    flow(f, s->body);
    break;
  }
}

/* ---- stores ----------------------------------------------------------- */

static bool
same_access(const struct tt_expr *e, const struct tt_stmt *s)
{
  if (e->kind != TT_LOAD || e->tensor != s->tensor)
    return false;
  for (int i = 0; i < s->nidx; i++)
    if (!tt_expr_equal(e->args[i], s->idx[i]))
      return false;
  return true;
}

/* x = x + y can be x += y where C's arithmetic is the language's. */
static bool
can_update(const struct tt_stmt *s, const struct tt_expr **rest)
{
  const struct tt_expr *v = s->value;
  enum tt_dtype t = v->type.dtype;
  if (v->kind != TT_BINARY || (t != TT_F32 && t != TT_F64 && t != TT_U32))
    return false;
  if (v->op != TT_ADD && v->op != TT_SUB && v->op != TT_MUL)
    return false;
  if (same_access(v->a, s))
    *rest = v->b;
  else if (v->op != TT_SUB && same_access(v->b, s))
    *rest = v->a;
  else
    return false;
  return !tt_is_register(s->tensor) || s->nidx == 0 ||
         s->idx[0]->type.lanes > 1;
}

static const char *
stored_value(struct cprinter *c, const struct tt_tensor *t,
             const struct tt_expr *v)
{
  bool moved = c->dialect->style == TT_CUDA_VECTORS && v->type.lanes > 1;
  if (t->role == TT_LOCAL && tt_c_is_byte(c, v)) /* perhaps for products */
    return tt_c_opaque(c, v);
  if (moved)
    return tt_c_expr(c, v, PREC_ANY);
  if (tt_c_is_half(t->dtype) && !tt_is_register(t) && v->type.lanes > 1)
    return tt_c_half_stored(c, v);
  if (tt_c_is_half(t->dtype) && !tt_is_register(t) && c->options->gpu &&
      v->type.lanes == 1 && v->kind == TT_LOAD &&
      v->tensor->dtype == t->dtype && !tt_is_register(v->tensor)) /* as it is */
    return tt_c_access(c, v->tensor, v->nargs, v->args, false);
  bool half = t->dtype == TT_F16 && c->options->gpu;
  if ((t->dtype == TT_BF16 || half) && !tt_is_register(t))
    return tt_arena_printf(c->arena, "%s(%s)",
                           tt_c_helper(c, half ? "f32_to_f16" : "f32_to_bf16"),
                           tt_c_expr(c, v, PREC_ANY));
  return tt_c_expr(c, v, PREC_ANY);
}

static bool
is_zero_vector(const struct tt_expr *v)
{
  if (v->kind != TT_BROADCAST)
    return false;
  return (v->a->kind == TT_INT && v->a->ival == 0) ||
         (v->a->kind == TT_FLT && v->a->fval == 0 && !signbit(v->a->fval));
}

static void
print_store(struct cprinter *c, const struct tt_stmt *s)
{
  const struct tt_expr *rest;
  const struct tt_tensor *t = s->tensor;
  if (c->gpu && tt_gpu_copy(c, s))
    return;
  const char *left = tt_c_access(c, t, s->nidx, s->idx, true);
  bool opencl = c->dialect->style == TT_OPENCL_VECTORS;
  if (tt_is_register(t) && is_pending(c, t)) {
    const char *qualifier = find_pending(c, t).once ? "const " : "";
    not_pending(c, t);
    const char *value = !is_zero_vector(s->value) ? stored_value(c, t, s->value)
                        : opencl                  ? "0"
                                                  : "{0}";
    tt_c_line(c, "%s%s %s = %s;", qualifier, variable_type(c, t), left, value);
  } else if (opencl && !tt_is_register(t) && s->value->type.lanes > 1) {
    tt_c_line(c, "vstore%d(%s, 0, %s);", s->value->type.lanes,
              stored_value(c, t, s->value), left);
  } else if (s->nidx > 0 && !tt_is_register(t) &&
             tt_c_is_part(s->value->type.lanes)) {
    tt_c_line(c, "%s;",
              tt_c_part_store(c, t->dtype, tt_c_lanes(s->value->type.lanes),
                              s->value->type.lanes, left,
                              stored_value(c, t, s->value)));
  } else if (can_update(s, &rest)) {
    /* a broadcast may stay a scalar beside the vector */
    const struct tt_expr *r =
        rest->kind == TT_BROADCAST && tt_dtype_bytes(rest->type.dtype) >= 4
            ? rest->a
            : rest;
    tt_c_line(c, "%s %s= %s;", left, tt_binop_text(s->value->op),
              tt_c_expr(c, r, PREC_ANY));
  } else {
    tt_c_line(c, "%s = %s;", left, stored_value(c, t, s->value));
  }
}

/* ---- blocks ----------------------------------------------------------- */

void
tt_c_block(struct cprinter *c, const struct tt_stmt *s)
{
  int mark = tt_names_mark(c->names), pending = c->pending.n;
  struct block_mark bases = tt_c_bases_open(c, s);
  c->depth++;
  tt_c_stmt(c, s);
  c->depth--;
  tt_c_bases_close(c, bases);
  tt_names_release(c->names, mark);
  c->pending.n = pending;
}

struct start {
  const struct tt_var *outer, *inner;
};

static const struct tt_expr *
at_start(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct start *s = ctx;
  bool one = e->kind == TT_VAR && (e->var == s->outer || e->var == s->inner);
  return one ? tt_idx(ar, 0) : e;
}

/* &T[offset at the start of both loops] */
static const char *
first_element(struct cprinter *c, struct start *s, const struct tt_tensor *t,
              int n, const struct tt_expr *const *idx, bool store)
{
  const struct tt_expr *first[TT_MAX_DIMS];
  for (int d = 0; d < n; d++)
    first[d] = tt_expr_rewrite(c->arena, idx[d], at_start, s);
  return tt_arena_printf(c->arena, "&%s", tt_c_access(c, t, n, first, store));
}

static void
print_transpose(struct cprinter *c, const struct tt_stmt *s)
{
  struct start at = {s->var, s->body->var};
  const struct tt_stmt *store = s->body->body;
  const struct tt_expr *load = store->value;
  int64_t to = 0, from = 0;
  tt_affine_coef(
      c->arena,
      tt_access_base(c->arena, store->tensor, store->nidx, store->idx),
      at.outer, &to);
  tt_affine_coef(
      c->arena, tt_access_base(c->arena, load->tensor, load->nargs, load->args),
      at.inner, &from);
  tt_c_line(c, "%s(%s, %lld, %s, %lld);",
            tt_c_transpose_helper(c, store->tensor->dtype,
                                  (int)at.inner->extent, (int)at.outer->extent),
            first_element(c, &at, store->tensor, store->nidx, store->idx, true),
            (long long)to,
            first_element(c, &at, load->tensor, load->nargs, load->args, false),
            (long long)from);
}

static void
print_for(struct cprinter *c, const struct tt_stmt *s)
{
  if (s->for_kind == TT_TRANSPOSE) {
    print_transpose(c, s);
    return;
  }
  if (c->gpu && (tt_is_block(s->for_kind) || tt_is_thread(s->for_kind))) {
    tt_gpu_loop(c, s);
    return;
  }
  bool parallel = s->for_kind == TT_PARALLEL && c->parallel == 0;
  if (parallel)
    tt_sb_add(&c->body, "#ifdef _OPENMP\n#pragma omp parallel for\n#endif\n");
  c->parallel += parallel;
  int mark = tt_names_mark(c->names);
  const char *i = tt_names_bind(c->names, s->var, s->var->name);
  if (c->gpu && tt_gpu_unrolls(c, s))
    tt_c_line(c, "#pragma unroll");
  tt_c_line(c, "for (%s %s = 0; %s < %lld; %s++) {", c->dialect->index, i, i,
            (long long)s->var->extent, i);
  tt_c_block(c, s->body);
  tt_c_line(c, "}");
  tt_names_release(c->names, mark);
  c->parallel -= parallel;
}

static void
print_if(struct cprinter *c, const struct tt_stmt *s)
{
  const char *open = "if";
  for (;;) {
    tt_c_line(c, "%s (%s) {", open, tt_c_expr(c, s->cond, PREC_ANY));
    tt_c_block(c, s->body);
    const struct tt_stmt *other = s->other;
    if (!other || (other->kind == TT_SEQ && other->nitems == 0))
      break;
    if (other->kind != TT_IF || other->comment) {
      tt_c_line(c, "} else {");
      tt_c_block(c, other);
      break;
    }
    open = "} else if";
    s = other;
  }
  tt_c_line(c, "}");
}

static void
print_array(struct cprinter *c, const struct tt_stmt *alloc)
{
  const struct tt_tensor *t = alloc->tensor;
  const struct place *p = tt_place_of(c->layout, t);
  const char *name = tt_names_bind(c->names, t, t->name);
  const char *type = tt_c_memory(c, t->dtype);
  if (!p)
    return;
  if (p->stack) {
    struct flow f = {t, false, false};
    flow(&f, alloc->body);
    bool zero = f.risky && tt_tensor_size(t) <= 256;
    if (t->fragment) {
      tt_c_fragments(c, t, name, zero ? " = {0}" : "");
      return;
    }
    tt_c_line(c, "%s %s[%lld]%s%s;", type, name, (long long)tt_tensor_size(t),
              c->dialect->vectors ? " __attribute__((aligned(64)))" : "",
              zero ? " = {0}" : "");
    return;
  }
  struct tt_sb sb = {0};
  tt_sb_add(&sb, c->workspace);
  if (p->offset)
    tt_sb_printf(&sb, " + %lld", (long long)p->offset);
  if (p->var && p->var->extent > 1)
    tt_sb_printf(&sb, " + %s * %lld", tt_names_of(c->names, p->var),
                 (long long)p->stride);
  tt_c_line(c, "%s *const %s = (%s *)(%s);", type, name, type, tt_sb_str(&sb));
  tt_sb_free(&sb);
}

static void
print_alloc(struct cprinter *c, const struct tt_stmt *s)
{
  const struct tt_tensor *t = s->tensor;
  if (c->gpu && tt_gpu_private(c, t)) {
    tt_c_stmt(c, s->body);
    return;
  }
  if (!tt_is_register(t)) {
    if (t->scope != TT_SHARED) /* those are declared by the kernel */
      print_array(c, s);
    tt_c_stmt(c, s->body);
    return;
  }
  struct store_count k = {t, 0};
  tt_walk(s->body, count_store, &k);
  tt_names_bind(c->names, t, t->name);
  struct flow f = {t, false, false};
  flow(&f, s->body);
  TT_PUSH(c->pending, ((struct pending){t, k.n == 1, f.risky}));
  tt_c_stmt(c, s->body);
}

/* An array of a local that ends before its block does is in a block of its
 * own, so that its memory can be used again. */
bool
tt_c_needs_block(const struct tt_stmt *s, bool last)
{
  return s->kind == TT_ALLOC && !last && !tt_is_register(s->tensor);
}

static void
print_instructions(struct cprinter *c, int n, const struct tt_stmt *const *run)
{
  for (int i = 0; i < n; i++)
    declare_used(c, run[i]);
  if (c->gpu)
    tt_gpu_before(c, run[0]);
  if (run[0]->comment)
    tt_c_comment(c, run[0]->comment);
  tt_c_instructions(c, n, run);
}

static void
print_items(struct cprinter *c, const struct tt_stmt *s)
{
  int again = 0; /* where to look for a run of stores next */
  for (int i = 0; i < s->nitems; i++) {
    const struct tt_stmt *item = s->items[i];
    int run = i < again ? 0 : tt_c_rows_run(c, s, i);
    if (run < 0)
      again = i - run;
    if (run > 0) {
      for (int k = 0; k < run; k++)
        declare_used(c, s->items[i + k]);
      tt_c_rows(c, run, s->items + i);
      i += run - 1;
      continue;
    }
    int same = 1;
    while (i + same < s->nitems && tt_c_same_run(item, s->items[i + same]))
      same++;
    if (same > 1) {
      print_instructions(c, same, s->items + i);
      i += same - 1;
      continue;
    }
    if (!tt_c_needs_block(item, i == s->nitems - 1)) {
      tt_c_stmt(c, item);
      continue;
    }
    declare_used(c, item);
    tt_c_line(c, "{");
    tt_c_block(c, item);
    tt_c_line(c, "}");
  }
}

void
tt_c_stmt(struct cprinter *c, const struct tt_stmt *s)
{
  if (s->kind == TT_INTRIN) {
    print_instructions(c, 1, &s);
    return;
  }
  if (s->kind == TT_STORE || s->kind == TT_FOR || s->kind == TT_IF)
    declare_used(c, s);
  if (c->gpu)
    tt_gpu_before(c, s);
  if (s->comment)
    tt_c_comment(c, s->comment);
  switch (s->kind) {
  case TT_STORE:
    tt_c_bases_announce(c, s);
    print_store(c, s);
    break;
  case TT_PREFETCH:
    tt_c_line(c, "%s;", tt_c_prefetch(c, s));
    break;
  case TT_FOR:
    print_for(c, s);
    break;
  case TT_IF:
    print_if(c, s);
    break;
  case TT_SEQ:
    print_items(c, s);
    break;
  case TT_ALLOC:
    print_alloc(c, s);
    break;
  case TT_INTRIN: /* done above */
    break;
  }
}
