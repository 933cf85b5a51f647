/* Pointers that the accesses of one block share:
 *
 *   const float *const A_at = &A[m * 6144 + k * 2];    A_at[1024] ...
 *
 * Where a block uses several elements of a tensor that are constants apart,
 * their offset is written, and compiled, once.  Compilers find that out
 * themselves; with straight code of many accesses it is half of their work.
 * Blocks without vectors stay as they are: it is loops over plain subscripts
 * that compilers vectorize best.
 *
 * Invariant: a pointer is declared right before a statement that reads or
 * writes the element it points to whenever it runs: it never leaves the
 * tensor.
 */
#include "config.h"

#include "codegen/cprint.h"

#include <string.h>

enum {
  FEWEST = 6, /* accesses that a pointer is worth */
  MOST = 256  /* pointers of one block that are thought of */
};

static bool
same_terms(const struct tt_affine *a, const struct tt_affine *b)
{
  if (a->n != b->n)
    return false;
  for (int i = 0; i < a->n; i++)
    if (a->coef[i] != b->coef[i] || !tt_expr_equal(a->term[i], b->term[i]))
      return false;
  return true;
}

static void
find_load(void *ctx, const struct tt_expr *e)
{
  bool *found = ctx;
  *found = *found || e->kind == TT_LOAD;
}

/* An offset that is worth a pointer and means the same in all of a block. */
static bool
is_fixed(const struct tt_affine *a)
{
  bool loads = false;
  for (int i = 0; i < a->n; i++)
    tt_expr_visit(a->term[i], find_load, &loads);
  return a->n > 0 && !loads;
}

static bool
has_elements(const struct tt_tensor *t)
{
  return !tt_is_register(t) && t->ndim > 0 && t->role != TT_CONST;
}

/* The base of the tensor with these terms, innermost first; NULL: none. */
static struct base *
find(struct cprinter *c, const struct tt_tensor *t, const struct tt_affine *a,
     int from)
{
  for (int i = c->bases.n - 1; i >= from; i--)
    if (c->bases.items[i].tensor == t && same_terms(&c->bases.items[i].at, a))
      return &c->bases.items[i];
  return NULL;
}

/* ---- accesses that are made whenever the statement runs ---------------- */

typedef void access_fn(struct cprinter *, const struct tt_tensor *,
                       const struct tt_affine *, bool store);

static void
visit(struct cprinter *c, access_fn *fn, const struct tt_tensor *t, int n,
      const struct tt_expr *const *idx, bool store)
{
  if (!has_elements(t))
    return;
  struct tt_affine a =
      tt_affine_of(c->arena, tt_access_base(c->arena, t, n, idx));
  if (is_fixed(&a))
    fn(c, t, &a, store);
}

static void
visit_expr(struct cprinter *c, access_fn *fn, const struct tt_expr *e)
{
  /* What is evaluated under a condition does not count. */
  bool lazy = e->kind == TT_SELECT && e->c->type.lanes == 1;
  bool half = e->kind == TT_BINARY && (e->op == TT_AND || e->op == TT_OR) &&
              e->type.lanes == 1;
  if (e->kind == TT_LOAD)
    visit(c, fn, e->tensor, e->nargs, e->args, false);
  for (int i = 0; i < e->nargs; i++)
    visit_expr(c, fn, e->args[i]);
  if (e->c)
    visit_expr(c, fn, e->c);
  if (e->a && !lazy)
    visit_expr(c, fn, e->a);
  if (e->b && !lazy && !half)
    visit_expr(c, fn, e->b);
}

static void
visit_store(struct cprinter *c, access_fn *fn, const struct tt_stmt *s)
{
  for (int i = 0; i < s->nidx; i++)
    visit_expr(c, fn, s->idx[i]);
  visit_expr(c, fn, s->value);
  visit(c, fn, s->tensor, s->nidx, s->idx, true);
}

/* ---- the plan of a block ----------------------------------------------- */

static void
count(struct cprinter *c, const struct tt_tensor *t, const struct tt_affine *a,
      bool store)
{
  const struct base *outer = find(c, t, a, 0);
  struct base *b = find(c, t, a, c->block);
  if (!b && outer && outer->name)
    return; /* that one serves */
  if (!b && c->bases.n - c->block >= MOST)
    return;
  if (!b) {
    TT_PUSH(c->bases, ((struct base){.tensor = t, .at = *a}));
    b = &c->bases.items[c->bases.n - 1];
  }
  b->count++;
  b->varied = b->varied || b->at.c0 != a->c0;
  b->stored = b->stored || store;
}

static void
find_vector(void *ctx, const struct tt_expr *e)
{
  *(bool *)ctx |= e->type.lanes > 1;
}

static void
find_vector_in(void *ctx, const struct tt_expr *e)
{
  tt_expr_visit(e, find_vector, ctx);
}

/* *vectors: are there any? */
static void
plan(struct cprinter *c, const struct tt_stmt *s, bool *vectors)
{
  switch (s->kind) {
  case TT_STORE:
    visit_store(c, count, s);
    if (!*vectors)
      tt_own_exprs(s, find_vector_in, vectors);
    break;
  case TT_SEQ:
    for (int i = 0; i < s->nitems; i++)
      if (!tt_c_needs_block(s->items[i], i == s->nitems - 1))
        plan(c, s->items[i], vectors);
    break;
  case TT_ALLOC:
    plan(c, s->body, vectors);
    break;
  case TT_PREFETCH: /* may be of an element that is not there */
    break;
  case TT_FOR:
  case TT_IF:
  case TT_INTRIN:
    break; /* blocks of their own */
  }
}

struct block_mark
tt_c_bases_open(struct cprinter *c, const struct tt_stmt *s)
{
  struct block_mark mark = {c->bases.n, c->block};
  bool vectors = false;
  c->block = c->bases.n;
  if (!c->options->naive && !c->options->gpu)
    plan(c, s, &vectors);
  if (!vectors)
    c->bases.n = c->block;
  return mark;
}

void
tt_c_bases_close(struct cprinter *c, struct block_mark mark)
{
  c->bases.n = mark.n;
  c->block = mark.block;
}

/* ---- use --------------------------------------------------------------- */

/* Gives the base of an access that is about to be made its name. */
static void
announce(struct cprinter *c, const struct tt_tensor *t,
         const struct tt_affine *a, bool store)
{
  (void)store;
  struct base *b = find(c, t, a, c->block);
  if (!b || b->name || b->count < FEWEST || !b->varied)
    return;
  b->at = *a;
  b->name = tt_names_bind(
      c->names, NULL, tt_arena_printf(c->arena, "%s_at", tt_c_tensor(c, t)));
  c->announced++;
}

void
tt_c_bases_announce(struct cprinter *c, const struct tt_stmt *s)
{
  if (c->bases.n > c->block)
    visit_store(c, announce, s);
}

void
tt_c_bases_declare(struct cprinter *c)
{
  int all = c->announced;
  c->announced = 0; /* the lines below are no statements */
  for (int i = c->block; all > 0 && i < c->bases.n; i++) {
    struct base *b = &c->bases.items[i];
    if (!b->name || b->declared)
      continue;
    b->declared = b->used;
    if (!b->used)
      b->name = NULL; /* what prints the statement had another way */
    else
      tt_c_line(c, "%s%s *const %s = &%s[%s];", b->stored ? "" : "const ",
                tt_c_storage(b->tensor->dtype), b->name,
                tt_c_tensor(c, b->tensor), tt_c_offset(c, &b->at));
  }
}

const char *
tt_c_element(struct cprinter *c, const struct tt_tensor *t,
             const struct tt_expr *offset)
{
  struct tt_affine a = tt_affine_of(c->arena, offset);
  for (int i = c->bases.n - 1; i >= 0; i--) {
    struct base *b = &c->bases.items[i];
    if (b->tensor != t || !b->name || !same_terms(&b->at, &a))
      continue;
    b->used = true;
    return tt_arena_printf(c->arena, "%s[%lld]", b->name,
                           (long long)(a.c0 - b->at.c0));
  }
  return tt_arena_printf(c->arena, "%s[%s]", tt_c_tensor(c, t),
                         tt_c_offset(c, &a));
}
