/* What the threads of a warp do together: matrices in fragments of registers,
 * as the PTX ISA lays them out.  wmma's fragments are opaque there; here they
 * are rows, one after the other.
 */
#include "config.h"

#include "tests/ptx_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LANES = 32, MAX_SIDE = 32 };

typedef const struct ptx_instruction *ins;

static const struct ptx_type b32 = {PTX_BITS, 32, false};

/* Elements as bits. */
struct matrix {
  struct ptx_type type;
  int rows, columns;
  uint64_t at[MAX_SIDE][MAX_SIDE];
};

static uint64_t
get_part(const struct thread *t, const struct ptx_operand *o, int reg,
         struct ptx_type type, int part)
{
  return ptx_get(t, &o->items[reg], b32) >> type.bits * part &
         ((UINT64_C(1) << type.bits) - 1);
}

static void
set_part(struct thread *t, const struct ptx_operand *o, int reg,
         struct ptx_type type, int part, uint64_t v)
{
  uint64_t mask = ((UINT64_C(1) << type.bits) - 1) << type.bits * part;
  uint64_t old = ptx_get(t, &o->items[reg], b32);
  ptx_set(t, &o->items[reg], b32, (old & ~mask) | v << type.bits * part);
}

/* ---- ldmatrix ---------------------------------------------------------- */

/* Eight lanes have the addresses of the rows of a matrix of 8 x 8 halves. */
static const char *
load_matrices(struct thread *lanes, ins i)
{
  static const struct ptx_type half = {PTX_BITS, 16, false};
  int n = ptx_has(i, "x4") ? 4 : ptx_has(i, "x2") ? 2 : 1;
  bool transposed = ptx_has(i, "trans");
  const char *error = NULL;
  uint16_t rows[32][8];
  if (!ptx_has(i, "m8n8") || !ptx_has(i, "b16") || i->operands[0].n != n)
    return "a shape of ldmatrix";
  for (int k = 0; k < 8 * n; k++) {
    const uint8_t *p =
        ptx_at(&lanes[k], PTX_SHARED, ptx_address(&lanes[k], &i->operands[1]),
               16, &error);
    if (error)
      return error;
    memcpy(rows[k], p, 16);
  }
  for (int l = 0; l < LANES; l++)
    for (int m = 0; m < n; m++)
      for (int part = 0; part < 2; part++) {
        int r = l / 4, c = l % 4 * 2 + part;
        uint16_t v = transposed ? rows[8 * m + c][r] : rows[8 * m + r][c];
        set_part(&lanes[l], &i->operands[0], m, half, part, v);
      }
  return NULL;
}

/* ---- products ---------------------------------------------------------- */

static double
value_of(struct ptx_type t, uint64_t bits)
{
  if (t.class == PTX_FLOAT || t.class == PTX_BRAIN)
    return ptx_bits_float(t, bits);
  if (t.class == PTX_SIGNED && bits >> (t.bits - 1))
    return (double)bits - ldexp(1, t.bits);
  return (double)bits;
}

/* d = a b + c.  (Integers are exact in f64, but wrap at 32 bits.) */
static void
multiply(struct matrix *d, const struct matrix *a, const struct matrix *b,
         const struct matrix *c)
{
  for (int m = 0; m < d->rows; m++)
    for (int n = 0; n < d->columns; n++) {
      double sum = value_of(c->type, c->at[m][n]);
      for (int k = 0; k < a->columns; k++)
        sum += value_of(a->type, a->at[m][k]) * value_of(b->type, b->at[k][n]);
      d->at[m][n] = d->type.class == PTX_FLOAT
                        ? ptx_float_bits(d->type, sum)
                        : (uint64_t)(int64_t)sum & 0xffffffff;
    }
}

static bool
shape_of(ins i, int *m, int *n, int *k)
{
  for (int w = 1; w < i->nwords; w++)
    if (sscanf(i->words[w], "m%dn%dk%d", m, n, k) == 3)
      return *m <= MAX_SIDE && *n <= MAX_SIDE && *k <= MAX_SIDE;
  return false;
}

/* Where element `part` of register `reg` of a lane's fragment lies.  Fragments
 * are tiles of 8 rows, and of 16 bytes a row (of A; of B, with columns as
 * rows), of which a lane has 4 bytes; of sums 8 x 8, two neighbours. */
enum fragment { A, B, C };

static void
place(enum fragment f, int m, struct ptx_type t, int lane, int reg, int part,
      int *row, int *column)
{
  int parts = 32 / t.bits, tiles = m / 8;
  if (f == C) {
    *row = lane / 4 + reg / 2 * 8;
    *column = lane % 4 * 2 + reg % 2;
  } else if (f == A) {
    *row = lane / 4 + reg % tiles * 8;
    *column = lane % 4 * parts + part + reg / tiles * parts * 4;
  } else {
    *row = lane % 4 * parts + part + reg * parts * 4;
    *column = lane / 4;
  }
}

static const char *
gather(const struct thread *lanes, const struct ptx_operand *o, enum fragment f,
       int m, struct matrix *to)
{
  int parts = 32 / to->type.bits;
  if (o->n * parts * LANES != to->rows * to->columns)
    return "a fragment of another size";
  for (int l = 0; l < LANES; l++)
    for (int reg = 0; reg < o->n; reg++)
      for (int part = 0; part < parts; part++) {
        int r, c;
        place(f, m, to->type, l, reg, part, &r, &c);
        to->at[r][c] = get_part(&lanes[l], o, reg, to->type, part);
      }
  return NULL;
}

/* mma.sync.aligned.mMnNkK.row.col.D.A.B.C d, a, b, c */
static const char *
multiply_fragments(struct thread *lanes, ins i)
{
  int m, n, k;
  if (i->ntypes != 4 || i->n != 4 || !shape_of(i, &m, &n, &k) || n != 8 ||
      i->types[0].bits != 32 || i->types[3].bits != 32 || !ptx_has(i, "row") ||
      !ptx_has(i, "col") || ptx_has(i, "satfinite"))
    return "a shape of mma";
  struct matrix a = {.type = i->types[1], .rows = m, .columns = k},
                b = {.type = i->types[2], .rows = k, .columns = n},
                c = {.type = i->types[3], .rows = m, .columns = n},
                d = {.type = i->types[0], .rows = m, .columns = n};
  const char *error = gather(lanes, &i->operands[1], A, m, &a);
  if (!error)
    error = gather(lanes, &i->operands[2], B, m, &b);
  if (!error)
    error = gather(lanes, &i->operands[3], C, m, &c);
  if (error)
    return error;
  multiply(&d, &a, &b, &c);
  for (int l = 0; l < LANES; l++)
    for (int reg = 0; reg < i->operands[0].n; reg++) {
      int r, column;
      place(C, m, d.type, l, reg, 0, &r, &column);
      ptx_set(&lanes[l], &i->operands[0].items[reg], b32, d.at[r][column]);
    }
  return NULL;
}

/* ---- wmma -------------------------------------------------------------- */

/* The part of a lane: rows * columns / 32 elements that follow each other.
 * (Fragments of halves have registers for all of them twice.) */
static const char *
move_opaque(struct thread *lanes, const struct ptx_operand *o, bool set,
            struct matrix *x)
{
  int parts = 32 / x->type.bits, each = x->rows * x->columns / LANES;
  if (o->n * parts < each)
    return "a fragment of another size";
  for (int l = 0; l < LANES; l++)
    for (int e = 0; e < each; e++) {
      int at = l * each + e;
      uint64_t *v = &x->at[at / x->columns][at % x->columns];
      if (set)
        set_part(&lanes[l], o, e / parts, x->type, e % parts, *v);
      else
        *v = get_part(&lanes[l], o, e / parts, x->type, e % parts);
    }
  return NULL;
}

/* wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 fragment, [p], stride;
 * wmma.store.d... [p], fragment, stride */
static const char *
move_memory(struct thread *lanes, ins i)
{
  bool store = ptx_has(i, "store");
  char what = *i->words[2];
  int m, n, k, bytes = i->types[0].bits / 8;
  const char *error = NULL;
  if (!shape_of(i, &m, &n, &k) || i->n < 2)
    return "a shape of wmma";
  struct matrix x = {.type = i->types[0],
                     .rows = what == 'b' ? k : m,
                     .columns = what == 'a' ? k : n};
  bool by_column = ptx_has(i, "col");
  uint64_t stride = (uint64_t)(by_column ? x.rows : x.columns);
  if (i->n > 2)
    stride = ptx_get(lanes, &i->operands[2], b32);
  uint64_t base = ptx_address(lanes, &i->operands[store ? 0 : 1]);
  if (base % 32 != 0 && i->space != PTX_SHARED)
    return "an address of wmma that is not aligned";
  if (stride * (uint64_t)bytes % 16 != 0)
    return "a stride of wmma that is not one of 16 bytes";
  if (store)
    error = move_opaque(lanes, &i->operands[1], false, &x);
  for (int r = 0; r < x.rows && !error; r++)
    for (int c = 0; c < x.columns && !error; c++) {
      uint64_t at = by_column ? (uint64_t)c * stride + (uint64_t)r
                              : (uint64_t)r * stride + (uint64_t)c;
      uint8_t *p =
          ptx_at(lanes, i->space, base + at * (uint64_t)bytes, bytes, &error);
      if (p && store)
        memcpy(p, &x.at[r][c], (size_t)bytes);
      else if (p)
        memcpy(&x.at[r][c], p, (size_t)bytes);
    }
  if (!store && !error)
    error = move_opaque(lanes, &i->operands[0], true, &x);
  return error;
}

/* The types are those of D, (A, B,) C. */
static const char *
multiply_opaque(struct thread *lanes, ins i)
{
  static const struct ptx_type half = {PTX_FLOAT, 16, false};
  int m, n, k;
  if (!shape_of(i, &m, &n, &k) || i->n != 4 || ptx_has(i, "satfinite"))
    return "a shape of wmma";
  bool halves = i->ntypes == 2;
  struct matrix a = {.type = halves ? half : i->types[1],
                     .rows = m,
                     .columns = k},
                b = {.type = halves ? half : i->types[2],
                     .rows = k,
                     .columns = n},
                c = {.type = i->types[i->ntypes - 1], .rows = m, .columns = n},
                d = {.type = i->types[0], .rows = m, .columns = n};
  const char *error = move_opaque(lanes, &i->operands[1], false, &a);
  if (!error)
    error = move_opaque(lanes, &i->operands[2], false, &b);
  if (!error)
    error = move_opaque(lanes, &i->operands[3], false, &c);
  if (error)
    return error;
  multiply(&d, &a, &b, &c);
  return move_opaque(lanes, &i->operands[0], true, &d);
}

/* ---- names ------------------------------------------------------------- */

bool
ptx_find_warp(struct ptx_instruction *i)
{
  static const char *const names[] = {"bar", "barrier", "ldmatrix", "mma",
                                      "wmma"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    i->warp |= strcmp(i->words[0], names[k]) == 0;
  return i->warp;
}

const char *
ptx_run_warp(struct thread *lanes, ins i)
{
  const char *w = i->words[0];
  if (strcmp(w, "bar") == 0) /* bar.warp.sync */
    return NULL;
  if (strcmp(w, "ldmatrix") == 0)
    return load_matrices(lanes, i);
  if (strcmp(w, "mma") == 0)
    return multiply_fragments(lanes, i);
  return ptx_has(i, "mma") ? multiply_opaque(lanes, i) : move_memory(lanes, i);
}
