/* Unrolled sums of products become sums of groups of products; see dot.h.
 *
 * Integer addition wraps, so that the order of a sum is free.  First come
 * products whose factors are neighbours in memory, then the rest: their
 * factors, vectors of i32, are woven into one vector of narrow elements.
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
  return true;
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
  } else if (f->load) {
    tt_access_shape(f->load->tensor, f->load->nargs, f->load->args, &lanes,
                    &stride);
    if (stride != n || tt_dtype_bytes(f->load->type.dtype) > bytes)
      f->load = NULL;
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
is_woven(const struct dot_factor *f)
{
  return !f->scalar && !f->load;
}

static bool
join_products(struct tt_arena *arena, int n, const struct product *const *p,
              struct dot *d)
{
  for (int k = 0; k < 2; k++) {
    const struct part *parts[TT_DOT_MAX] = {0};
    for (int j = 0; j < n; j++)
      parts[j] = &p[j]->part[k];
    if (!join(arena, n, parts, &d->f[k]))
      return false;
  }
  /* To weave both sides costs as much as it saves. */
  d->n = n;
  return !(is_woven(&d->f[0]) && is_woven(&d->f[1]));
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

/* The unused product whose factor `key` lies `d` elements behind that of
 * product `i`; -1: there is none. */
static int
neighbour(struct run *r, const struct product *p, int n, int i, int key, int d)
{
  for (int k = 0; k < n; k++)
    if (p[k].usable && !p[k].used && !p[k].part[key].scalar &&
        (k == i) == (d == 0) &&
        follows(r->pass->arena, &p[i].part[key], &p[k].part[key], d))
      return k;
  return -1;
}

/* Finds the products that are neighbours of product `i` in the factor that
 * differs between lanes, `size` with it. */
static bool
find_neighbours(struct run *r, const struct product *p, int n, int i, int size,
                int *group)
{
  int key = p[i].part[0].scalar;
  const struct product *members[TT_DOT_MAX];
  struct dot d;
  if (!p[i].part[key].load)
    return false;
  for (int before = 0; before < size; before++) {
    int j = 0;
    for (; j < size; j++) {
      group[j] = neighbour(r, p, n, i, key, j - before);
      if (group[j] < 0)
        break;
      members[j] = &p[group[j]];
    }
    if (j == size && join_products(r->pass->arena, size, members, &d) &&
        !is_woven(&d.f[key]))
      return true;
  }
  return false;
}

/* The product `i` and the next ones, whose factors have to be woven. */
static bool
find_next(struct run *r, const struct product *p, int n, int i, int size,
          int *group)
{
  const struct product *members[TT_DOT_MAX];
  struct dot d;
  int k = 0;
  for (; i < n && k < size; i++)
    if (p[i].usable && !p[i].used) {
      group[k] = i;
      members[k++] = &p[i];
    }
  return k == size && join_products(r->pass->arena, size, members, &d);
}

/* `v` and the groups of products that `find` gives. */
static const struct tt_expr *
add_groups(struct run *r, struct product *p, int n, const struct tt_expr *v,
           bool (*find)(struct run *, const struct product *, int n, int i,
                        int size, int *group))
{
  struct tt_arena *arena = r->pass->arena;
  for (int i = 0; i < n; i++) {
    int group[TT_DOT_MAX], size = 4;
    if (!p[i].usable || p[i].used)
      continue;
    while (size > 1 && !find(r, p, n, i, size, group))
      size /= 2;
    const struct tt_expr *sum = NULL;
    for (int j = 0; j < size && size > 1; j++) {
      struct product *q = &p[group[j]];
      q->used = true;
      sum = sum ? tt_binary(arena, TT_ADD, sum, q->e) : q->e;
    }
    if (sum) {
      v = tt_binary(arena, TT_ADD, v, sum);
      r->found = true;
    }
  }
  return v;
}

/* `v` plus the products, in i32. */
static const struct tt_expr *
add_products(struct run *r, struct product *p, int n, const struct tt_expr *v)
{
  v = add_groups(r, p, n, v, find_neighbours);
  v = add_groups(r, p, n, v, find_next);
  for (int i = 0; i < n; i++)
    if (!p[i].used)
      v = tt_binary(r->pass->arena, TT_ADD, v, p[i].e);
  return v;
}

/* ---- sums in i64 ------------------------------------------------------ */

static int64_t
magnitude(const struct part *p)
{
  return p->hi > -p->lo ? p->hi : -p->lo;
}

/* Products of which the factor `key` is replaced. */
static const struct tt_expr *
sum_of_parts(struct run *r, const struct product *const *p, int n, int key,
             enum tt_binop op, int64_t with)
{
  struct tt_arena *arena = r->pass->arena;
  struct product *q = TT_ARRAY(arena, struct product, (size_t)n + 1);
  int lanes = p[0]->e->type.lanes;
  for (int i = 0; i < n; i++) {
    const struct tt_expr *old[2] = {p[i]->e->a, p[i]->e->b};
    if (key >= 0)
      old[key] = tt_broadcast(arena,
                              tt_binary(arena, op, p[i]->part[key].value,
                                        tt_int(arena, TT_I32, with)),
                              lanes);
    take_product(tt_binary(arena, TT_MUL, old[0], old[1]), &q[i]);
  }
  return add_products(r, q, n,
                      tt_broadcast(arena, tt_int(arena, TT_I32, 0), lanes));
}

/* How many of the products, from the first, have a sum that fits i32 if the
 * factor `key` (-1: none) is at most `most`. */
static int
how_many(const struct product *const *p, int n, int key, int64_t most)
{
  int64_t left = INT32_MAX;
  for (int i = 0; i < n; i++) {
    int64_t a = magnitude(&p[i]->part[0]), b = magnitude(&p[i]->part[1]);
    if (key == 0)
      a = most;
    if (key == 1)
      b = most;
    if (a * b > left)
      return i;
    left -= a * b;
  }
  return n;
}

/* A store that adds to the variable of the store `like`. */
static const struct tt_stmt *
add_to(struct run *r, const struct tt_stmt *like, const struct tt_expr *term)
{
  struct tt_arena *arena = r->pass->arena;
  const struct tt_expr *old =
      tt_load(arena, like->tensor, like->nidx, like->idx);
  return tt_store(arena, like->tensor, like->nidx, like->idx,
                  tt_binary(arena, TT_ADD, old, term));
}

/* The groups of a sum, which begins with zero, one after the other in a
 * variable; then it is added, shifted to the left, to that of `like`. */
static const struct tt_stmt *
in_a_variable(struct run *r, const struct tt_stmt *like,
              const struct tt_expr *sum, int shift)
{
  struct tt_arena *arena = r->pass->arena;
  struct tt_tensor *t = tt_pass_tensor(r->pass, like->tensor);
  t->name = tt_arena_printf(arena, "%s_part", like->tensor->name);
  t->dtype = TT_I32;
  int lanes = sum->type.lanes, depth = 0, n;
  const struct tt_expr *lane = tt_ramp(arena, tt_idx(arena, 0), 1, lanes);
  for (const struct tt_expr *e = sum; e->kind != TT_BROADCAST; e = e->a)
    depth++;
  const struct tt_stmt **items =
      TT_ARRAY(arena, const struct tt_stmt *, (size_t)depth + 1);
  n = depth;
  for (const struct tt_expr *e = sum; e->kind != TT_BROADCAST; e = e->a) {
    const struct tt_expr *before =
        e->a->kind == TT_BROADCAST ? e->a : tt_load(arena, t, 1, &lane);
    items[--n] =
        tt_store(arena, t, 1, &lane, tt_binary(arena, TT_ADD, before, e->b));
  }
  const struct tt_expr *wide =
      tt_cast(arena, TT_I64, tt_load(arena, t, 1, &lane));
  if (shift)
    wide = tt_binary(arena, TT_SHL, wide,
                     tt_broadcast(arena, tt_int(arena, TT_I64, shift), lanes));
  items[depth] = add_to(r, like, wide);
  return tt_alloc_stmt(arena, t, tt_seq(arena, depth + 1, items));
}

/* The first of the products, in i64: sums of several in i32, exact, are added
 * at once.  A scalar of 16 bits is cut into its bytes, x = 256 * (x >> 8) +
 * (x & 255), when only so a sum of some length fits.  Returns how many were
 * taken, 0 where it does not pay; one or two statements into `out`. */
static int
partial_sum(struct run *r, const struct tt_stmt *like,
            const struct product *const *p, int n, const struct tt_stmt **out,
            int *nout)
{
  enum { WORTH = 4 };
  int key = -1, most = how_many(p, n, -1, 0);
  if (most < WORTH) {
    key = p[0]->part[0].scalar ? 0 : 1;
    for (int i = 0; i < n; i++)
      if (!p[i]->part[key].scalar)
        return 0;
    most = how_many(p, n, key, 255);
  }
  if (most < WORTH)
    return 0;
  out[(*nout)++] =
      in_a_variable(r, like, sum_of_parts(r, p, most, key, TT_BAND, 255), 0);
  if (key >= 0)
    out[(*nout)++] =
        in_a_variable(r, like, sum_of_parts(r, p, most, key, TT_SHR, 8), 8);
  return most;
}

/* The terms of a sum in i64. */
static const struct tt_stmt *
in_i64(struct run *r, struct sum *s)
{
  struct tt_arena *arena = r->pass->arena;
  int n = s->terms.n, usable = 0, at = 0, nout = 0;
  int *which = TT_ARRAY(arena, int, (size_t)n + 1);
  const struct product **p =
      TT_ARRAY(arena, const struct product *, (size_t)n + 1);
  const struct tt_stmt **out =
      TT_ARRAY(arena, const struct tt_stmt *, 2 * (size_t)n + 1);
  for (int i = 0; i < n; i++)
    if (s->terms.items[i].usable) {
      which[usable] = i;
      p[usable++] = &s->terms.items[i];
    }
  while (at < usable) {
    int taken = partial_sum(r, s->first, p + at, usable - at, out, &nout);
    if (!taken)
      break;
    for (int end = at + taken; at < end; at++)
      s->terms.items[which[at]].used = true;
  }
  for (int i = 0; i < n; i++)
    if (!s->terms.items[i].used)
      out[nout++] =
          add_to(r, s->first, tt_cast(arena, TT_I64, s->terms.items[i].e));
  return tt_seq(arena, nout, out);
}

/* ---- runs of stores --------------------------------------------------- */

/* The term of x = x + term of a vector variable; NULL: not that. */
static const struct tt_expr *
added(const struct tt_stmt *s)
{
  const struct tt_expr *v = s->value;
  if (s->kind != TT_STORE || v->type.lanes < 4 ||
      (v->type.dtype != TT_I32 && v->type.dtype != TT_I64) ||
      s->tensor->role != TT_LOCAL || s->tensor->scope != TT_REGISTER ||
      v->kind != TT_BINARY || v->op != TT_ADD)
    return NULL;
  const struct tt_expr *term = NULL;
  if (v->a->kind == TT_LOAD && v->a->tensor == s->tensor)
    term = v->b;
  else if (v->b->kind == TT_LOAD && v->b->tensor == s->tensor)
    term = v->a;
  if (!term || v->type.dtype == TT_I32)
    return term;
  return term->kind == TT_CAST && term->a->type.dtype == TT_I32 ? term->a
                                                                : NULL;
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

static const struct tt_stmt *
grouped(struct run *r, struct sum *s)
{
  const struct tt_stmt *f = s->first;
  const struct tt_expr *v = f->value;
  bool left = v->a->kind == TT_LOAD && v->a->tensor == f->tensor;
  if (v->type.dtype == TT_I64)
    return in_i64(r, s);
  v = add_products(r, s->terms.items, s->terms.n, left ? v->a : v->b);
  return tt_store(r->pass->arena, f->tensor, f->nidx, f->idx, v);
}

/* The items from..to of a sequence, a run, into `out`; returns how many. */
static int
end_run(struct run *r, const struct tt_stmt *const *items, int from, int to,
        const struct tt_stmt **out)
{
  int n = 0;
  for (int i = 0; i < r->sums.n; i++) {
    struct sum *s = &r->sums.items[i];
    const struct tt_stmt *q = grouped(r, s);
    const char *comment = s->first->comment;
    out[n++] = comment ? tt_comment(r->pass->arena, comment, q) : q;
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
  return p->options->gpu ? s : dots(p, s);
}
