/* Unrolled sums of products become sums of groups of products; see dot.h.
 *
 * Integer addition wraps, so that the order of a sum is free.
 */
#include "config.h"

#include "codegen/dot.h"

#include "ir/passes.h"

#include <stdlib.h>

/* ---- factors ---------------------------------------------------------- */

/* A factor of one product, taken apart. */
struct part {
  bool scalar;
  const struct tt_expr *value; /* a scalar, or all lanes */
  const struct tt_expr *load;  /* NULL: not a load plus a constant */
  int64_t add, lo, hi;
};

static bool
constant(const struct tt_expr *e, int64_t *v)
{
  if (e->kind == TT_BROADCAST)
    e = e->a;
  *v = e->ival;
  return e->kind == TT_INT;
}

static bool
is_memory(const struct tt_expr *e)
{
  enum tt_dtype t = e->type.dtype;
  return e->kind == TT_LOAD && (t == TT_I8 || t == TT_U8 || t == TT_I16) &&
         !(e->tensor->role == TT_LOCAL && e->tensor->scope == TT_REGISTER);
}

static bool
take_apart(const struct tt_expr *e, struct part *p)
{
  int64_t v;
  *p = (struct part){.scalar = e->kind == TT_BROADCAST};
  p->value = e = p->scalar ? e->a : e;
  struct tt_interval b = tt_bounds(e, NULL);
  if (!b.ok || b.lo < INT16_MIN || b.hi > INT16_MAX)
    return false;
  p->lo = b.lo;
  p->hi = b.hi;
  if (e->kind == TT_BINARY && e->op == TT_SUB && constant(e->b, &v)) {
    p->add = -v;
    e = e->a;
  } else if (e->kind == TT_BINARY && e->op == TT_ADD && constant(e->b, &v)) {
    p->add = v;
    e = e->a;
  } else if (e->kind == TT_BINARY && e->op == TT_ADD && constant(e->a, &v)) {
    p->add = v;
    e = e->b;
  }
  if (e->kind == TT_CAST && is_memory(e->a))
    p->load = e->a;
  return p->scalar || p->load;
}

/* How many elements `b` lies behind `a`, when that is a constant. */
static bool
distance(struct tt_arena *arena, const struct tt_expr *a,
         const struct tt_expr *b, int64_t *d)
{
  if (a->tensor != b->tensor)
    return false;
  const struct tt_expr *x = tt_access_base(arena, a->tensor, a->nargs, a->args);
  const struct tt_expr *y = tt_access_base(arena, b->tensor, b->nargs, b->args);
  struct tt_affine diff = tt_affine_of(arena, tt_isub(arena, y, x));
  *d = diff.c0;
  return diff.n == 0;
}

/* Is the load of part `j` the j-th neighbour of the first one? */
static bool
follows(struct tt_arena *arena, const struct part *first, const struct part *p,
        int j)
{
  int64_t d;
  return first->load && p->load && p->add == first->add &&
         distance(arena, first->load, p->load, &d) && d == j;
}

/* The factors of n products as one; false: not all of one kind. */
static bool
join(struct tt_arena *arena, int n, const struct part *const *parts,
     struct dot_factor *f)
{
  const struct part *first = parts[0];
  *f = (struct dot_factor){first->scalar, first->load, first->add,
                           {0},           first->lo,   first->hi};
  for (int j = 0; j < n; j++) {
    const struct part *p = parts[j];
    if (p->scalar != first->scalar)
      return false;
    if (!follows(arena, first, p, j))
      f->load = NULL;
    f->value[j] = p->value;
    f->lo = p->lo < f->lo ? p->lo : f->lo;
    f->hi = p->hi > f->hi ? p->hi : f->hi;
  }
  int bytes = n == 4 ? 1 : 2, lanes;
  int64_t stride;
  if (f->scalar) {
    /* Neighbours are read as they lie. */
    if (f->load && tt_dtype_bytes(f->load->type.dtype) != bytes)
      f->load = NULL;
  } else {
    if (!f->load || tt_dtype_bytes(f->load->type.dtype) > bytes)
      return false;
    tt_access_shape(f->load->tensor, f->load->nargs, f->load->args, &lanes,
                    &stride);
    if (stride != n)
      return false;
  }
  return n == 2 || (f->lo >= INT8_MIN && f->hi <= INT8_MAX) ||
         (f->lo >= 0 && f->hi <= UINT8_MAX);
}

struct product {
  const struct tt_expr *e;
  struct part part[2];
  bool usable, used;
};

static bool
take_product(const struct tt_expr *e, struct product *p)
{
  *p = (struct product){.e = e};
  p->usable = e->kind == TT_BINARY && e->op == TT_MUL &&
              take_apart(e->a, &p->part[0]) && take_apart(e->b, &p->part[1]) &&
              !(p->part[0].scalar && p->part[1].scalar);
  return p->usable;
}

static bool
join_products(struct tt_arena *arena, int n, const struct product *const *p,
              struct dot *d)
{
  for (int k = 0; k < 2; k++) {
    const struct part *parts[TT_DOT_MAX];
    for (int j = 0; j < n; j++)
      parts[j] = &p[j]->part[k];
    if (!join(arena, n, parts, &d->f[k]))
      return false;
  }
  d->n = n;
  return true;
}

bool
tt_dot_match(struct tt_arena *arena, const struct tt_expr *e, struct dot *d)
{
  struct product products[TT_DOT_MAX];
  const struct product *p[TT_DOT_MAX];
  const struct tt_expr *terms[TT_DOT_MAX], *sum = e->b;
  int n = 0;
  if (e->kind != TT_BINARY || e->op != TT_ADD || e->type.dtype != TT_I32 ||
      e->type.lanes < 4)
    return false;
  for (; sum->kind == TT_BINARY && sum->op == TT_ADD; sum = sum->a) {
    if (n == TT_DOT_MAX - 1)
      return false;
    terms[n++] = sum->b;
  }
  terms[n++] = sum;
  if (n != 4 && n != 2)
    return false;
  for (int j = 0; j < n; j++) {
    if (!take_product(terms[n - 1 - j], &products[j]))
      return false;
    p[j] = &products[j];
  }
  d->lanes = e->type.lanes;
  d->acc = e->a;
  return join_products(arena, n, p, d);
}

/* ---- grouping --------------------------------------------------------- */

/* All that is added to one variable in a run of stores. */
struct sum {
  const struct tt_stmt *first;
  TT_VEC(struct product) terms;
};

struct run {
  struct pass *pass;
  TT_VEC(struct sum) sums; /* in the order of the first store */
  bool found;
};

/* The term of x = x + term of a vector variable of i32; NULL: not that. */
static const struct tt_expr *
added(const struct tt_stmt *s)
{
  const struct tt_expr *v = s->value;
  if (s->kind != TT_STORE || v->type.dtype != TT_I32 || v->type.lanes < 4 ||
      s->tensor->role != TT_LOCAL || s->tensor->scope != TT_REGISTER ||
      v->kind != TT_BINARY || v->op != TT_ADD)
    return NULL;
  if (v->a->kind == TT_LOAD && v->a->tensor == s->tensor)
    return v->b;
  return v->b->kind == TT_LOAD && v->b->tensor == s->tensor ? v->a : NULL;
}

static bool
reads_a_sum(const struct run *r, const struct tt_expr *e)
{
  for (int i = 0; i < r->sums.n; i++)
    if (tt_expr_uses_tensor(e, r->sums.items[i].first->tensor))
      return true;
  return false;
}

static void
add_term(struct run *r, const struct tt_stmt *s, const struct tt_expr *term)
{
  struct product p;
  int i = 0;
  while (i < r->sums.n && r->sums.items[i].first->tensor != s->tensor)
    i++;
  if (i == r->sums.n)
    TT_PUSH(r->sums, ((struct sum){.first = s}));
  take_product(term, &p);
  TT_PUSH(r->sums.items[i].terms, p);
}

/* Is the store added to the run?  What it adds must not depend on a sum. */
static bool
extend(struct run *r, const struct tt_stmt *s)
{
  const struct tt_expr *term = added(s);
  if (!term || tt_expr_uses_tensor(term, s->tensor) || reads_a_sum(r, term))
    return false;
  /* nor may an earlier term read what becomes a sum now */
  for (int i = 0; i < r->sums.n; i++)
    for (int j = 0; j < r->sums.items[i].terms.n; j++)
      if (tt_expr_uses_tensor(r->sums.items[i].terms.items[j].e, s->tensor))
        return false;
  add_term(r, s, term);
  return true;
}

/* Finds the n products that begin with `first`, neighbours in the factor that
 * differs between lanes. */
static bool
find_group(struct run *r, struct sum *s, int first, int n, int *group)
{
  struct product *p = &s->terms.items[first];
  int key = p->part[0].scalar;
  const struct product *members[TT_DOT_MAX] = {p};
  group[0] = first;
  for (int j = 1; j < n; j++) {
    int i = 0;
    for (; i < s->terms.n; i++) {
      struct product *q = &s->terms.items[i];
      if (q->usable && !q->used && i != first && !q->part[key].scalar &&
          follows(r->pass->arena, &p->part[key], &q->part[key], j))
        break;
    }
    if (i == s->terms.n)
      return false;
    group[j] = i;
    members[j] = &s->terms.items[i];
  }
  struct dot d;
  return join_products(r->pass->arena, n, members, &d);
}

static const struct tt_expr *
grouped(struct run *r, struct sum *s)
{
  struct tt_arena *arena = r->pass->arena;
  const struct tt_expr *v = s->first->value;
  bool left = v->a->kind == TT_LOAD && v->a->tensor == s->first->tensor;
  v = left ? v->a : v->b;
  for (int i = 0; i < s->terms.n; i++) {
    struct product *p = &s->terms.items[i];
    int group[TT_DOT_MAX], n = 4;
    if (p->used)
      continue;
    while (p->usable && n > 1 && !find_group(r, s, i, n, group))
      n /= 2;
    if (!p->usable || n == 1) {
      p->used = true;
      v = tt_binary(arena, TT_ADD, v, p->e);
      continue;
    }
    const struct tt_expr *sum = NULL;
    for (int j = 0; j < n; j++) {
      struct product *q = &s->terms.items[group[j]];
      q->used = true;
      sum = sum ? tt_binary(arena, TT_ADD, sum, q->e) : q->e;
    }
    v = tt_binary(arena, TT_ADD, v, sum);
    r->found = true;
  }
  return v;
}

/* The items from..to of a sequence, a run, into `out`; returns how many. */
static int
end_run(struct run *r, const struct tt_stmt *const *items, int from, int to,
        const struct tt_stmt **out)
{
  int n = 0;
  for (int i = 0; i < r->sums.n; i++) {
    struct sum *s = &r->sums.items[i];
    const struct tt_stmt *f = s->first;
    const struct tt_stmt *store =
        tt_store(r->pass->arena, f->tensor, f->nidx, f->idx, grouped(r, s));
    out[n++] =
        f->comment ? tt_comment(r->pass->arena, f->comment, store) : store;
  }
  if (!r->found)
    for (n = 0; n < to - from; n++)
      out[n] = items[from + n];
  for (int i = 0; i < r->sums.n; i++)
    free(r->sums.items[i].terms.items);
  r->sums.n = 0;
  r->found = false;
  return n;
}

static const struct tt_stmt *dots(void *ctx, const struct tt_stmt *s);

static const struct tt_stmt *
sequence(struct pass *p, const struct tt_stmt *s)
{
  const struct tt_stmt **out =
      TT_ARRAY(p->arena, const struct tt_stmt *, (size_t)s->nitems + 1);
  struct run r = {.pass = p};
  int n = 0, from = 0;
  for (int i = 0; i < s->nitems; i++) {
    if (extend(&r, s->items[i]))
      continue;
    n += end_run(&r, s->items, from, i, out + n);
    from = i;
    if (extend(&r, s->items[i]))
      continue;
    out[n++] = dots(p, s->items[i]);
    from = i + 1;
  }
  n += end_run(&r, s->items, from, s->nitems, out + n);
  free(r.sums.items);
  const struct tt_stmt *q = tt_seq(p->arena, n, out);
  return s->comment ? tt_comment(p->arena, s->comment, q) : q;
}

static const struct tt_stmt *
dots(void *ctx, const struct tt_stmt *s)
{
  if (s->kind == TT_SEQ)
    return sequence(ctx, s);
  return tt_map_children(ctx, s, dots, ctx);
}

const struct tt_stmt *
tt_pass_dots(struct pass *p, const struct tt_stmt *s)
{
  return dots(p, s);
}
