/* Copies of transposed blocks: a function of its own for every type and size.
 *
 * Rows are loaded as vectors; log2(size) rounds that each interleave the
 * first half of the rows with the second one leave the columns.
 */
#include "config.h"

#include "codegen/cprint.h"

#include "ir/passes.h"

/* The elements of two rows in turns: of their first or their last halves. */
static const char *
zip(struct cprinter *c, enum tt_dtype t, int size, bool high)
{
  const char *v = tt_c_vector(c, t, size);
  const char *name = tt_c_helper_name(
      c, tt_arena_printf(c->arena, "%s_%s", high ? "zip_high" : "zip_low", v));
  if (tt_c_has_helper(c, name))
    return name;
  enum tt_dtype m = tt_signed_of_bytes(tt_dtype_bytes(t));
  struct tt_sb sb = {0};
  tt_sb_printf(&sb, "#define %s(x, y) \\\n  %s(%s, x, y,", name,
               tt_c_shuffle_helper(c), tt_c_vector(c, m, size));
  for (int i = 0; i < size; i++)
    tt_sb_printf(&sb, "%s%d%s", i % 16 ? " " : " \\\n      ",
                 i / 2 + (high ? size / 2 : 0) + (i % 2 ? size : 0),
                 i + 1 < size ? "," : ")\n");
  const char *text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return tt_c_add_helper(c, name, text);
}

static const char *
row(struct cprinter *c, const char *of, int i)
{
  if (i == 0)
    return of;
  return tt_arena_printf(c->arena, "%s + %d * %s_stride", of, i, of);
}

static void
add_loads(struct cprinter *c, struct tt_sb *sb, enum tt_dtype t, int rows,
          int cols, int size)
{
  const char *v = tt_c_vector(c, t, size), *u = tt_c_unaligned(c, t, size);
  for (int i = 0; i < rows; i++) {
    const char *from = row(c, "from", i);
    if (cols == size)
      tt_sb_printf(sb, "  %s a%d = *(const %s *)(%s);\n", v, i, u, from);
    else
      tt_sb_printf(sb, "  %s a%d = %s;\n", v, i,
                   tt_c_part_load(c, t, size, cols, from));
  }
  for (int i = rows; i < size; i++)
    tt_sb_printf(sb, "  %s a%d = {0};\n", v, i);
  tt_sb_printf(sb, "  %s", v);
  for (int i = 0; i < size; i++)
    tt_sb_printf(sb, " b%d%s", i, i + 1 < size ? "," : ";\n");
}

/* Returns the letter of the variables that hold the result. */
static char
add_rounds(struct cprinter *c, struct tt_sb *sb, enum tt_dtype t, int size)
{
  const char *low = zip(c, t, size, false), *high = zip(c, t, size, true);
  char in = 'a', out = 'b';
  for (int round = 1; round < size; round *= 2) {
    for (int i = 0; i < size / 2; i++)
      tt_sb_printf(sb, "  %c%d = %s(%c%d, %c%d);\n  %c%d = %s(%c%d, %c%d);\n",
                   out, 2 * i, low, in, i, in, i + size / 2, out, 2 * i + 1,
                   high, in, i, in, i + size / 2);
    char other = in;
    in = out;
    out = other;
  }
  return in;
}

static void
add_stores(struct cprinter *c, struct tt_sb *sb, enum tt_dtype t, int rows,
           int cols, int size, char from)
{
  const char *u = tt_c_unaligned(c, t, size);
  for (int i = 0; i < cols; i++) {
    const char *to = row(c, "to", i);
    if (rows == size)
      tt_sb_printf(sb, "  *(%s *)(%s) = %c%d;\n", u, to, from, i);
    else
      tt_sb_printf(sb, "  %s;\n",
                   tt_c_part_store(c, t, size, rows, to,
                                   tt_arena_printf(c->arena, "%c%d", from, i)));
  }
}

const char *
tt_c_transpose_helper(struct cprinter *c, enum tt_dtype t, int rows, int cols)
{
  int size = tt_c_lanes(rows > cols ? rows : cols);
  const char *name =
      tt_c_helper_name(c, tt_arena_printf(c->arena, "transpose_%dx%d_%s", rows,
                                          cols, tt_dtype_name(t)));
  if (tt_c_has_helper(c, name))
    return name;
  struct tt_sb sb = {0};
  tt_sb_printf(&sb,
               "/* %d rows of %d elements become %d rows of %d. */\n"
               "static inline void %s(%s *to, %s to_stride, const %s *from,\n"
               "    %s from_stride)\n{\n",
               rows, cols, cols, rows, name, tt_c_storage(t), c->dialect->index,
               tt_c_storage(t), c->dialect->index);
  add_loads(c, &sb, t, rows, cols, size);
  char result = add_rounds(c, &sb, t, size);
  add_stores(c, &sb, t, rows, cols, size, result);
  tt_sb_add(&sb, "}\n");
  const char *text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return tt_c_add_helper(c, name, text);
}
