/* Vectors whose lanes lie apart in memory, beside those of other vectors.
 *
 * A tile whose vectors run along one dimension of its result while another
 * one lies in memory is stored lane by lane.  Where the same lanes of several
 * vectors are neighbours there, four vectors at a time are transposed in
 * registers and stored in pieces of four.  Only constants tell the places
 * apart, and no two are the same, so that their order does not matter.
 */
#include "config.h"

#include "codegen/cprint.h"

#include "ir/passes.h"

#include <stdlib.h>

enum { ROWS = 4, MIN_STORES = 16 };

/* A vector of which every lane is stored, `step` elements apart. */
struct row {
  const struct tt_tensor *reg;
  int lanes, seen;
  int64_t at, step; /* of lane 0, from the run's first store */
  const struct tt_stmt *first;
  bool even;  /* lanes came in order, evenly spaced */
  bool inner; /* begins where another one has its neighbour */
  int next;   /* the row one element further on; -1 */
};

/* A lane of a register that goes to memory as it is. */
static bool
is_lane_store(const struct tt_stmt *s)
{
  if (s->kind != TT_STORE || s->comment || tt_is_register(s->tensor) ||
      s->value->kind != TT_LOAD || s->value->type.lanes != 1 ||
      !tt_is_register(s->value->tensor) || s->value->nargs != 1 ||
      s->value->args[0]->kind != TT_INT ||
      s->value->type.dtype != s->tensor->dtype)
    return false;
  enum tt_dtype t = s->tensor->dtype;
  int64_t lanes = s->value->tensor->dims[0];
  return (t == TT_F32 || t == TT_I32 || t == TT_U32) &&
         (lanes == 4 || lanes == 8 || lanes == 16);
}

static const struct tt_expr *
place_of(struct cprinter *c, const struct tt_stmt *s)
{
  return tt_access_base(c->arena, s->tensor, s->nidx, s->idx);
}

static int
by_value(const void *x, const void *y)
{
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

int
tt_c_rows_run(struct cprinter *c, const struct tt_stmt *seq, int first)
{
  int n = 0;
  const struct tt_stmt *const *s = seq->items + first;
  while (first + n < seq->nitems && is_lane_store(s[n]) &&
         s[n]->tensor == s[0]->tensor)
    n++;
  if (!c->dialect->vectors || n < MIN_STORES)
    return -n;
  const struct tt_expr *base = place_of(c, s[0]);
  int64_t *at = TT_ARRAY(c->arena, int64_t, (size_t)n);
  for (int i = 0; i < n; i++)
    if (!tt_const_difference(c->arena, place_of(c, s[i]), base, &at[i]))
      return -n;
  qsort(at, (size_t)n, sizeof *at, by_value);
  for (int i = 1; i < n; i++)
    if (at[i] == at[i - 1])
      return -n;
  return n;
}

/* The rows of a run; returns their number. */
static int
find_rows(struct cprinter *c, int n, const struct tt_stmt *const *s,
          struct row *row)
{
  int rows = 0;
  const struct tt_expr *base = place_of(c, s[0]);
  for (int i = 0; i < n; i++) {
    const struct tt_tensor *reg = s[i]->value->tensor;
    int r = rows - 1;
    while (r >= 0 && row[r].reg != reg)
      r--;
    int64_t at = 0, lane = s[i]->value->args[0]->ival;
    tt_const_difference(c->arena, place_of(c, s[i]), base, &at);
    if (r < 0) {
      r = rows++;
      row[r] = (struct row){.reg = reg,
                            .lanes = (int)reg->dims[0],
                            .at = at,
                            .first = s[i],
                            .even = true,
                            .next = -1};
    }
    if (row[r].seen == 1)
      row[r].step = at - row[r].at;
    row[r].even = row[r].even && lane == row[r].seen &&
                  at == row[r].at + lane * row[r].step;
    row[r].seen++;
  }
  return rows;
}

static void
link_rows(int n, struct row *row)
{
  for (int i = 0; i < n; i++) {
    row[i].even = row[i].even && row[i].seen == row[i].lanes;
    for (int j = 0; j < n && row[i].even; j++)
      if (row[j].even && row[j].lanes == row[i].lanes &&
          row[j].step == row[i].step && row[j].at == row[i].at + 1 &&
          row[j].seen == row[j].lanes) {
        row[i].next = j;
        row[j].inner = true;
      }
  }
}

/* A choice of lanes of x and y: in every group of four, two of x at `from` and
 * two of y; alternating or one after the other. */
static void
add_choice(struct cprinter *c, struct tt_sb *sb, const char *of, int lanes,
           int from, bool alternate)
{
  static const int sides[2][4] = {{0, 0, 1, 1}, {0, 1, 0, 1}};
  static const int steps[2][4] = {{0, 1, 0, 1}, {0, 0, 1, 1}};
  tt_sb_printf(sb, "%s(%s, %s", tt_c_shuffle_helper(c),
               tt_c_vector(c, TT_I32, lanes), of);
  for (int i = 0; i < lanes; i++) {
    int k = i % 4, lane = i - k + from + steps[alternate][k];
    tt_sb_printf(sb, ",%s%d", i % 8 ? " " : "\n      ",
                 lane + (sides[alternate][k] ? lanes : 0));
  }
  tt_sb_add(sb, ")");
}

/* Lanes 4i .. 4i+3 of x to p. */
static const char *
piece_helper(struct cprinter *c, enum tt_dtype t)
{
  const char *name = tt_c_helper_name(
      c, tt_arena_printf(c->arena, "put_four_%s", tt_dtype_name(t)));
  if (tt_c_has_helper(c, name))
    return name;
  const char *text = tt_arena_printf(
      c->arena,
      "#if defined(__clang__) || __GNUC__ >= 12\n"
      "#define %s(p, x, i) \\\n"
      "  (*(%s *)(p) = __builtin_shufflevector( \\\n"
      "       x, x, 4 * (i), 4 * (i) + 1, 4 * (i) + 2, 4 * (i) + 3))\n"
      "#else\n"
      "#define %s(p, x, i) \\\n"
      "  __builtin_memcpy(p, (const char *)&(x) + 16 * (i), 16)\n"
      "#endif\n",
      name, tt_c_unaligned(c, t, 4), name);
  return tt_c_add_helper(c, name, text);
}

/* put_rows_f32x16(p, step, a, b, c, d): lane i of the four vectors side by
 * side to p + i * step. */
static const char *
rows_helper(struct cprinter *c, enum tt_dtype t, int lanes)
{
  const char *v = tt_c_vector(c, t, lanes);
  const char *name =
      tt_c_helper_name(c, tt_arena_printf(c->arena, "put_rows_%s", v));
  if (tt_c_has_helper(c, name))
    return name;
  const char *put = piece_helper(c, t);
  struct tt_sb sb = {0};
  tt_sb_printf(&sb, "  %s *const tt_p = (p);\n", tt_c_storage(t));
  static const char *const pairs[] = {"a, b", "c, d"};
  static const char *const halves[] = {"tt_t0, tt_t2", "tt_t1, tt_t3"};
  for (int i = 0; i < 4; i++) {
    tt_sb_printf(&sb, "  const %s tt_t%d = ", v, i);
    add_choice(c, &sb, pairs[i / 2], lanes, 2 * (i % 2), true);
    tt_sb_add(&sb, ";\n");
  }
  for (int i = 0; i < 4; i++) {
    tt_sb_printf(&sb, "  const %s tt_u%d = ", v, i);
    add_choice(c, &sb, halves[i / 2], lanes, 2 * (i % 2), false);
    tt_sb_add(&sb, ";\n");
  }
  for (int i = 0; i < lanes; i++)
    tt_sb_printf(&sb, "  %s(tt_p + %d * (step), tt_u%d, %d);\n", put, i, i % 4,
                 i / 4);
  const char *text =
      tt_c_vector_macro(c, name, "p, step, a, b, c, d", tt_sb_str(&sb));
  tt_sb_free(&sb);
  return tt_c_add_helper(c, name, text);
}

static void
print_rows(struct cprinter *c, const struct row *const *row)
{
  const struct tt_stmt *s = row[0]->first;
  struct tt_sb sb = {0};
  for (int i = 0; i < ROWS; i++)
    tt_sb_printf(&sb, ", %s", tt_names_of(c->names, row[i]->reg));
  tt_c_line(c, "%s(&%s, %lld%s);",
            rows_helper(c, s->tensor->dtype, row[0]->lanes),
            tt_c_access(c, s->tensor, s->nidx, s->idx, true),
            (long long)row[0]->step, tt_sb_str(&sb));
  tt_sb_free(&sb);
}

/* Rows that follow each other, in fours; the last four may overlap others. */
static bool
print_chain(struct cprinter *c, struct row *row, int first)
{
  int n = 0;
  for (int i = first; i >= 0; i = row[i].next)
    n++;
  if (n < ROWS)
    return false;
  const struct row **chain = TT_ARRAY(c->arena, const struct row *, (size_t)n);
  n = 0;
  for (int i = first; i >= 0; i = row[i].next)
    chain[n++] = &row[i];
  for (int i = 0; i < n; i += ROWS)
    print_rows(c, chain + (i + ROWS <= n ? i : n - ROWS));
  return true;
}

void
tt_c_rows(struct cprinter *c, int n, const struct tt_stmt *const *s)
{
  struct row *row = TT_ARRAY(c->arena, struct row, (size_t)n);
  int rows = find_rows(c, n, s, row);
  link_rows(rows, row);
  for (int i = 0; i < rows; i++) {
    if (row[i].inner)
      continue;
    if (row[i].even && print_chain(c, row, i))
      continue;
    for (int j = i; j >= 0; j = row[j].next)
      for (int k = 0; k < n; k++)
        if (s[k]->value->tensor == row[j].reg)
          tt_c_stmt(c, s[k]);
  }
}
