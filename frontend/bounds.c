/* Proofs about index expressions: linear forms, intervals, facts.
 *
 * An expression is a linear form over terms: variables, and subexpressions
 * that are not linear (a division, a load), compared by structure.  A fact is
 * a linear form known to be >= 0.  e >= 0 is proven when the least value of e
 * over the box of the terms is, or that of e minus a fact or two.  Every
 * doubt (an overflow, too many terms) gives "not proven", never a wrong proof.
 */
#include "config.h"

#include "frontend/sema.h"

#include <string.h>

enum { MAX_LIN = 20, MAX_FACTS = 24, MAX_BOX = 48, ROUNDS = 3 };

struct lin {
  bool ok;
  int64_t c0;
  int n;
  struct {
    const struct tt_expr *t;
    int64_t c; /* never 0 */
  } term[MAX_LIN];
};

/* What the facts say: linear inequalities, and intervals of terms. */
struct box {
  bool impossible; /* the facts contradict each other */
  int nfacts;
  struct lin fact[MAX_FACTS];
  int n;
  struct {
    const struct tt_expr *t;
    struct tt_interval iv;
  } term[MAX_BOX];
};

static struct tt_interval range_of(const struct tt_expr *, const struct box *);
static struct lin lin_of(const struct tt_expr *);

static const struct tt_interval unknown = {false, 0, 0};

static struct tt_interval
interval(int64_t lo, int64_t hi)
{
  return (struct tt_interval){true, lo, hi};
}

/* Divisions nest at most this deep below `e`: each level is looked at from
 * several sides, so that the work grows with a power of the depth. */
static bool
nests_divisions(const struct tt_expr *e, int deepest)
{
  bool division = e->kind == TT_BINARY && (e->op == TT_DIV || e->op == TT_MOD);

  if (division && deepest-- == 0)
    return true;
  for (int i = 0; i < e->nargs; i++)
    if (nests_divisions(e->args[i], deepest))
      return true;
  return (e->a && nests_divisions(e->a, deepest)) ||
         (e->b && nests_divisions(e->b, deepest)) ||
         (e->c && nests_divisions(e->c, deepest));
}

bool
tt_too_hard(const struct tt_expr *e)
{
  return nests_divisions(e, 6);
}

/* ---- intervals of operators -------------------------------------------- */

static struct tt_interval
iv_add(struct tt_interval a, struct tt_interval b)
{
  struct tt_interval r = {a.ok && b.ok, 0, 0};

  if (!r.ok || __builtin_add_overflow(a.lo, b.lo, &r.lo) ||
      __builtin_add_overflow(a.hi, b.hi, &r.hi))
    return unknown;
  return r;
}

static struct tt_interval
iv_scale(struct tt_interval a, int64_t c)
{
  int64_t x, y;

  if (!a.ok || __builtin_mul_overflow(a.lo, c, &x) ||
      __builtin_mul_overflow(a.hi, c, &y))
    return unknown;
  return x < y ? interval(x, y) : interval(y, x);
}

/* The hull of f over the corners of a and b, for a monotone f. */
static struct tt_interval
iv_corners(struct tt_interval a, struct tt_interval b,
           bool (*f)(int64_t, int64_t, int64_t *))
{
  int64_t xs[2] = {a.lo, a.hi}, ys[2] = {b.lo, b.hi}, v;
  struct tt_interval r = {a.ok && b.ok, INT64_MAX, INT64_MIN};

  for (int i = 0; r.ok && i < 4; i++) {
    if (!f(xs[i & 1], ys[i >> 1], &v))
      return unknown;
    r.lo = v < r.lo ? v : r.lo;
    r.hi = v > r.hi ? v : r.hi;
  }
  return r;
}

static bool
mul_corner(int64_t a, int64_t b, int64_t *v)
{
  return !__builtin_mul_overflow(a, b, v);
}

static bool
div_corner(int64_t a, int64_t b, int64_t *v)
{
  *v = tt_floordiv(a, b);
  return true;
}

static bool
quot_corner(int64_t a, int64_t b, int64_t *v)
{
  *v = tt_quot(a, b);
  return true;
}

static bool
shl_corner(int64_t a, int64_t b, int64_t *v)
{
  return !__builtin_mul_overflow(a, (int64_t)1 << b, v);
}

static bool
shr_corner(int64_t a, int64_t b, int64_t *v)
{
  *v = a >> b;
  return true;
}

static struct tt_interval
iv_mod(struct tt_interval a, struct tt_interval b)
{
  if (!b.ok || b.lo < 1)
    return unknown;
  if (b.lo == b.hi && a.ok &&
      tt_floordiv(a.lo, b.lo) == tt_floordiv(a.hi, b.lo))
    return interval(tt_floormod(a.lo, b.lo), tt_floormod(a.hi, b.lo));
  if (a.ok && a.lo >= 0 && a.hi < b.hi - 1)
    return interval(0, a.hi);
  return interval(0, b.hi - 1);
}

static bool
shifts_ok(struct tt_interval b)
{
  return b.ok && b.lo >= 0 && b.hi < 63;
}

static struct tt_interval
iv_binary(enum tt_binop op, struct tt_interval a, struct tt_interval b)
{
  bool positive = b.ok && b.lo >= 1;

  switch (op) {
  case TT_ADD:
    return iv_add(a, b);
  case TT_SUB:
    return iv_add(a, iv_scale(b, -1));
  case TT_MUL:
    return iv_corners(a, b, mul_corner);
  case TT_DIV:
    return positive ? iv_corners(a, b, div_corner) : unknown;
  case TT_MOD:
    return iv_mod(a, b);
  case TT_MIN:
    if (!a.ok || !b.ok)
      return unknown;
    return interval(a.lo < b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi);
  case TT_MAX:
    if (!a.ok || !b.ok)
      return unknown;
    return interval(a.lo > b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi);
  case TT_SHL:
    return shifts_ok(b) ? iv_corners(a, b, shl_corner) : unknown;
  case TT_SHR:
    return shifts_ok(b) ? iv_corners(a, b, shr_corner) : unknown;
  case TT_BAND:
    if (b.ok && b.lo >= 0)
      return interval(0, a.ok && a.lo >= 0 && a.hi < b.hi ? a.hi : b.hi);
    return a.ok && a.lo >= 0 ? interval(0, a.hi) : unknown;
  case TT_OR:
  case TT_AND:
  case TT_EQ:
  case TT_NE:
  case TT_LT:
  case TT_GT:
  case TT_LE:
  case TT_GE:
    return interval(0, 1);
  case TT_BOR:
  case TT_BXOR:
  case TT_NBINOPS:
    break;
  }
  return unknown;
}

static struct tt_interval
iv_call(const struct tt_expr *e, const struct box *box)
{
  struct tt_interval a = range_of(e->args[0], box), b;

  if (e->fn == TT_FN_ABS && a.ok && a.lo > INT64_MIN) {
    int64_t hi = -a.lo > a.hi ? -a.lo : a.hi;
    return interval(a.lo > 0 ? a.lo : a.hi < 0 ? -a.hi : 0, hi);
  }
  if (e->nargs < 2)
    return unknown;
  b = range_of(e->args[1], box);
  if (e->fn == TT_FN_QUOT && b.ok && b.lo >= 1)
    return iv_corners(a, b, quot_corner);
  if (e->fn == TT_FN_REM && a.ok && b.ok && b.lo >= 1)
    return interval(a.lo < 0 ? 1 - b.hi : 0, a.hi > 0 ? b.hi - 1 : 0);
  return unknown;
}

/* The values that a type or a declaration allows. */
static struct tt_interval
iv_type(enum tt_dtype t)
{
  if (tt_dtype_is_float(t))
    return unknown;
  return interval(tt_dtype_min(t), tt_dtype_max(t));
}

static struct tt_interval
iv_load(const struct tt_expr *e)
{
  const struct tt_tensor *t = e->tensor;
  int64_t size, lo, hi;

  if (t->has_range)
    return interval(t->lo, t->hi - 1);
  if (!t->idata || (size = tt_tensor_size(t)) > 4096)
    return iv_type(t->dtype);
  lo = hi = t->idata[0];
  for (int64_t i = 1; i < size; i++) {
    lo = t->idata[i] < lo ? t->idata[i] : lo;
    hi = t->idata[i] > hi ? t->idata[i] : hi;
  }
  return interval(lo, hi);
}

/* ---- linear forms ------------------------------------------------------ */

static void
lin_add_term(struct lin *l, const struct tt_expr *t, int64_t c)
{
  int i;

  if (c == 0)
    return;
  for (i = 0; i < l->n && !tt_expr_equal(l->term[i].t, t); i++)
    ;
  if (i == l->n) {
    if (l->n == MAX_LIN) {
      l->ok = false;
      return;
    }
    l->term[l->n].t = t;
    l->term[l->n++].c = c;
    return;
  }
  if (__builtin_add_overflow(l->term[i].c, c, &l->term[i].c))
    l->ok = false;
  if (l->term[i].c == 0)
    l->term[i] = l->term[--l->n];
}

/* l += k * m. */
static void
lin_add(struct lin *l, const struct lin *m, int64_t k)
{
  int64_t c;

  l->ok = l->ok && m->ok;
  if (!l->ok)
    return;
  if (__builtin_mul_overflow(m->c0, k, &c) ||
      __builtin_add_overflow(l->c0, c, &l->c0))
    l->ok = false;
  for (int i = 0; l->ok && i < m->n; i++) {
    if (__builtin_mul_overflow(m->term[i].c, k, &c))
      l->ok = false;
    else
      lin_add_term(l, m->term[i].t, c);
  }
}

static struct lin
lin_const(int64_t c)
{
  struct lin l = {.ok = true, .c0 = c};

  return l;
}

static struct lin
lin_opaque(const struct tt_expr *e)
{
  struct lin l = {.ok = true};

  lin_add_term(&l, e, 1);
  return l;
}

static struct tt_interval
lin_range(const struct lin *l, const struct box *box)
{
  struct tt_interval r = interval(l->c0, l->c0);

  if (!l->ok)
    return unknown;
  for (int i = 0; i < l->n; i++)
    r = iv_add(r, iv_scale(range_of(l->term[i].t, box), l->term[i].c));
  return r;
}

/* (c*A + R) / c is A and (c*A + R) % c is R when 0 <= R < c. */
static struct lin
lin_divmod(const struct tt_expr *e)
{
  struct lin a = lin_of(e->a), quotient = {.ok = true}, rest = {.ok = true};
  int64_t c = e->b->kind == TT_INT ? e->b->ival : 0;
  struct tt_interval r;

  if (c < 1 || !lin_range(&a, NULL).ok) /* it may wrap before the division */
    return lin_opaque(e);
  quotient.c0 = tt_floordiv(a.c0, c);
  rest.c0 = tt_floormod(a.c0, c);
  for (int i = 0; i < a.n; i++) {
    if (a.term[i].c % c == 0)
      lin_add_term(&quotient, a.term[i].t, a.term[i].c / c);
    else
      lin_add_term(&rest, a.term[i].t, a.term[i].c);
  }
  r = lin_range(&rest, NULL);
  if (!r.ok || r.lo < 0 || r.hi >= c)
    return lin_opaque(e);
  return e->op == TT_DIV ? quotient : rest;
}

static struct lin
lin_of(const struct tt_expr *e)
{
  struct lin l, m;

  if (e->kind == TT_INT)
    return lin_const(e->ival);
  /* A typed integer that became an index is the same number. */
  if (e->kind == TT_CAST && e->type.dtype == TT_I64 &&
      tt_dtype_is_int(e->a->type.dtype))
    return lin_of(e->a);
  if (e->type.dtype != TT_I64)
    return lin_opaque(e);
  if (e->kind == TT_NEG) {
    l = lin_const(0);
    m = lin_of(e->a);
    lin_add(&l, &m, -1);
    return l;
  }
  if (e->kind != TT_BINARY)
    return lin_opaque(e);
  if (e->op == TT_ADD || e->op == TT_SUB) {
    l = lin_of(e->a);
    m = lin_of(e->b);
    lin_add(&l, &m, e->op == TT_ADD ? 1 : -1);
    return l;
  }
  if (e->op == TT_MUL && (e->b->kind == TT_INT || e->a->kind == TT_INT)) {
    bool right = e->b->kind == TT_INT;
    l = lin_const(0);
    m = lin_of(right ? e->a : e->b);
    lin_add(&l, &m, right ? e->b->ival : e->a->ival);
    return l;
  }
  if (e->op == TT_DIV || e->op == TT_MOD)
    return lin_divmod(e);
  return lin_opaque(e);
}

/* ---- intervals of expressions ------------------------------------------ */

static struct tt_interval
meet(struct tt_interval a, struct tt_interval b)
{
  if (!a.ok || !b.ok)
    return a.ok ? a : b;
  return interval(a.lo > b.lo ? a.lo : b.lo, a.hi < b.hi ? a.hi : b.hi);
}

static struct tt_interval
iv_select(const struct tt_expr *e, const struct box *box)
{
  struct tt_interval a = range_of(e->a, box), b = range_of(e->b, box);

  if (!a.ok || !b.ok)
    return unknown;
  return interval(a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi);
}

/* The interval of a node from its operands', as if it never wrapped. */
static struct tt_interval
iv_node(const struct tt_expr *e, const struct box *box)
{
  switch (e->kind) {
  case TT_INT:
    return interval(e->ival, e->ival);
  case TT_VAR:
    return interval(0, e->var->extent - 1);
  case TT_LOAD:
    return iv_load(e);
  case TT_BINARY:
    if (tt_dtype_is_float(e->a->type.dtype))
      return iv_type(e->type.dtype);
    return iv_binary(e->op, range_of(e->a, box), range_of(e->b, box));
  case TT_NEG:
    return iv_scale(range_of(e->a, box), -1);
  case TT_SELECT:
    return iv_select(e, box);
  case TT_CALL:
    return iv_call(e, box);
  case TT_CAST:
    return tt_dtype_is_float(e->a->type.dtype) ? unknown : range_of(e->a, box);
  case TT_SAT: {
    struct tt_interval a = range_of(e->a, box);
    if (!a.ok || tt_dtype_is_float(e->a->type.dtype))
      return unknown;
    return interval(tt_saturate(e->type.dtype, a.lo),
                    tt_saturate(e->type.dtype, a.hi));
  }
  case TT_NOT:
  case TT_FLT:
  case TT_RAMP:
  case TT_BROADCAST:
    return unknown;
  }
  return unknown;
}

/* Linear i64 arithmetic is looked at as a whole, so that x - x is 0. */
static bool
is_linear(const struct tt_expr *e)
{
  return e->type.dtype == TT_I64 &&
         (e->kind == TT_NEG ||
          (e->kind == TT_BINARY &&
           (e->op == TT_ADD || e->op == TT_SUB || e->op == TT_MUL ||
            e->op == TT_DIV || e->op == TT_MOD)));
}

static struct tt_interval
range_of(const struct tt_expr *e, const struct box *box)
{
  struct tt_interval r, type = iv_type(e->type.dtype);
  struct lin l;

  if (tt_dtype_is_float(e->type.dtype))
    return unknown;
  r = unknown;
  if (is_linear(e)) {
    l = lin_of(e);
    if (l.ok && !(l.n == 1 && l.term[0].t == e))
      r = lin_range(&l, box);
  }
  if (!r.ok)
    r = iv_node(e, box);
  if (!r.ok || (type.ok && (r.lo < type.lo || r.hi > type.hi)))
    r = type; /* it may wrap */
  for (int i = 0; box && i < box->n; i++)
    if (tt_expr_equal(box->term[i].t, e))
      r = meet(r, box->term[i].iv);
  return r;
}

/* ---- facts ------------------------------------------------------------- */

const struct tt_facts *
tt_facts_push(struct tt_arena *arena, const struct tt_facts *outer,
              const struct tt_expr *cond, bool negated)
{
  struct tt_facts *f;

  if (cond->kind == TT_BINARY && cond->op == (negated ? TT_OR : TT_AND)) {
    outer = tt_facts_push(arena, outer, cond->a, negated);
    return tt_facts_push(arena, outer, cond->b, negated);
  }
  if (cond->kind == TT_NOT)
    return tt_facts_push(arena, outer, cond->a, !negated);
  f = TT_NEW(arena, struct tt_facts);
  f->outer = outer;
  f->cond = cond;
  f->negated = negated;
  return f;
}

/* a - b + c0 >= 0. */
static void
add_fact(struct box *box, const struct tt_expr *a, const struct tt_expr *b,
         int64_t c0)
{
  struct lin l = lin_of(a), m = lin_of(b), c = lin_const(c0);

  /* A side that may wrap says nothing about its linear form. */
  if (!lin_range(&l, NULL).ok || !lin_range(&m, NULL).ok)
    return;
  lin_add(&l, &m, -1);
  lin_add(&l, &c, 1);
  if (l.ok && box->nfacts < MAX_FACTS)
    box->fact[box->nfacts++] = l;
}

static enum tt_binop
negation(enum tt_binop op)
{
  return op == TT_LT   ? TT_GE
         : op == TT_GE ? TT_LT
         : op == TT_GT ? TT_LE
         : op == TT_LE ? TT_GT
         : op == TT_EQ ? TT_NE
         : op == TT_NE ? TT_EQ
                       : op;
}

/* x != c at an end of x's interval moves the end. */
static void
add_unequal(struct box *box, const struct tt_expr *a, const struct tt_expr *b)
{
  struct tt_interval x = range_of(a, box), y = range_of(b, box);

  if (!x.ok || !y.ok)
    return;
  if (y.lo == y.hi && x.lo == y.lo)
    add_fact(box, a, b, -1);
  else if (y.lo == y.hi && x.hi == y.lo)
    add_fact(box, b, a, -1);
  else if (x.lo == x.hi && y.lo == x.lo)
    add_fact(box, b, a, -1);
  else if (x.lo == x.hi && y.hi == x.lo)
    add_fact(box, a, b, -1);
}

static void
add_condition(struct box *box, const struct tt_expr *cond, bool negated)
{
  enum tt_binop op;

  if (tt_too_hard(cond))
    return;
  if (cond->kind == TT_INT && (cond->ival != 0) == negated)
    box->impossible = true;
  if (cond->kind != TT_BINARY || tt_dtype_is_float(cond->a->type.dtype) ||
      cond->a->type.dtype == TT_BOOL)
    return;
  op = negated ? negation(cond->op) : cond->op;
  if (op == TT_LT)
    add_fact(box, cond->b, cond->a, -1);
  else if (op == TT_GT)
    add_fact(box, cond->a, cond->b, -1);
  else if (op == TT_LE)
    add_fact(box, cond->b, cond->a, 0);
  else if (op == TT_GE)
    add_fact(box, cond->a, cond->b, 0);
  else if (op == TT_NE)
    add_unequal(box, cond->a, cond->b);
  else if (op == TT_EQ) {
    add_fact(box, cond->a, cond->b, 0);
    add_fact(box, cond->b, cond->a, 0);
  }
}

/* From c*t + rest >= 0: a bound on t. */
static void
tighten(struct box *box, const struct lin *fact, int i)
{
  struct lin rest = *fact;
  struct tt_interval r, iv;
  int64_t c = fact->term[i].c;
  const struct tt_expr *t = fact->term[i].t;
  int k;

  rest.term[i] = rest.term[--rest.n];
  r = lin_range(&rest, box);
  iv = range_of(t, box);
  if (!r.ok || !iv.ok || r.hi == INT64_MIN)
    return;
  if (c > 0) { /* t >= -r.hi / c, rounded up */
    int64_t lo = -tt_floordiv(r.hi, c);
    iv.lo = lo > iv.lo ? lo : iv.lo;
  } else if (c > INT64_MIN) { /* t <= r.hi / -c */
    int64_t hi = tt_floordiv(r.hi, -c);
    iv.hi = hi < iv.hi ? hi : iv.hi;
  }
  if (iv.lo > iv.hi) {
    box->impossible = true;
    return;
  }
  for (k = 0; k < box->n && !tt_expr_equal(box->term[k].t, t); k++)
    ;
  if (k == MAX_BOX)
    return;
  box->term[k].t = t;
  box->term[k].iv = iv;
  if (k == box->n)
    box->n++;
}

static void
box_init(struct box *box, const struct tt_facts *facts,
         const struct tt_facts *stop)
{
  box->impossible = false;
  box->nfacts = box->n = 0;
  for (; facts && facts != stop; facts = facts->outer)
    add_condition(box, facts->cond, facts->negated);
  for (int round = 0; round < ROUNDS; round++)
    for (int i = 0; i < box->nfacts && !box->impossible; i++)
      for (int k = 0; k < box->fact[i].n && !box->impossible; k++)
        tighten(box, &box->fact[i], k);
}

/* ---- proofs ------------------------------------------------------------ */

static bool
least_is_positive(const struct lin *l, const struct box *box)
{
  struct tt_interval r = lin_range(l, box);

  return r.ok && r.lo >= 0;
}

/* How many times fact f goes into l, by a term they share; 0: none. */
static int64_t
multiple(const struct lin *l, const struct lin *f)
{
  for (int i = 0; i < f->n; i++)
    for (int k = 0; k < l->n; k++)
      if (tt_expr_equal(f->term[i].t, l->term[k].t) &&
          l->term[k].c / f->term[i].c > 0 && l->term[k].c % f->term[i].c == 0)
        return l->term[k].c / f->term[i].c;
  return 0;
}

/* l >= 0, by subtracting up to `depth` facts. */
static bool
positive(const struct lin *l, const struct box *box, int depth)
{
  if (!l->ok)
    return false;
  if (box->impossible || least_is_positive(l, box))
    return true;
  for (int i = 0; depth > 0 && i < box->nfacts; i++) {
    struct lin rest = *l;
    int64_t k = multiple(l, &box->fact[i]);
    if (k == 0)
      continue;
    lin_add(&rest, &box->fact[i], -k);
    if (positive(&rest, box, depth - 1))
      return true;
  }
  return false;
}

struct tt_interval
tt_range_of(const struct tt_expr *e, const struct tt_facts *facts,
            const struct tt_facts *stop)
{
  struct box box;

  if (tt_too_hard(e))
    return iv_type(e->type.dtype);
  box_init(&box, facts, stop);
  return range_of(e, &box);
}

bool
tt_prove_lower(const struct tt_expr *e, const struct tt_facts *facts,
               const struct tt_facts *stop)
{
  struct box box;
  struct lin l;
  struct tt_interval r;

  if (tt_too_hard(e))
    return false;
  l = lin_of(e);
  box_init(&box, facts, stop);
  if (positive(&l, &box, 2))
    return true;
  r = range_of(e, &box);
  return r.ok && r.lo >= 0;
}

bool
tt_prove_upper(const struct tt_expr *e, int64_t limit,
               const struct tt_facts *facts, const struct tt_facts *stop)
{
  struct box box;
  struct lin l = lin_const(limit - 1), m;
  struct tt_interval r;

  if (tt_too_hard(e))
    return false;
  m = lin_of(e);
  lin_add(&l, &m, -1);
  box_init(&box, facts, stop);
  if (positive(&l, &box, 2))
    return true;
  r = range_of(e, &box);
  return r.ok && r.hi < limit;
}
