/* Sums of products of narrow integers, printed: see dot.h.
 *
 * x86 has an instruction for 4 products of unsigned and signed bytes, and one
 * for 2 products of 16 bits.  Two signed factors are made to fit: with 128
 * added to one of them, 128 times the sum of the other one is too much, which
 * is a second such sum, but one that rows of a tile share.
 */
#include "config.h"

#include "codegen/cprint.h"
#include "codegen/dot.h"

#include "ir/passes.h"

/* ---- sums ------------------------------------------------------------- */

/* The branches of the macro that use builtins, which compilers name in
 * several ways. */
static void
add_branch(struct cprinter *c, struct tt_sb *sb, const char *feature,
           const char *fn, const char *name, const char *value)
{
  tt_sb_printf(sb, "#%s %s\n#define %s(z, x, y) \\\n  (%s)\n",
               sb->len ? "elif" : "if", tt_c_builtin_if(c, feature, fn), name,
               value);
}

static void
add_vnni(struct cprinter *c, struct tt_sb *sb, const char *name,
         const char *stem, int lanes)
{
  const char *raw = tt_c_raw_vector(c, 4, lanes);
  const char *v = tt_c_vector(c, TT_I32, lanes);
  for (int k = 0; k < 2; k++) {
    const char *fn =
        k == 0
            ? tt_arena_printf(c->arena, "__builtin_ia32_%s_v%dsi", stem, lanes)
            : tt_arena_printf(c->arena, "__builtin_ia32_%s%d", stem,
                              lanes * 32);
    /* All machines with VNNI and AVX-512 have AVX512VL, too. */
    add_branch(c, sb, "__AVX512VNNI__", fn, name,
               tt_arena_printf(c->arena, "(%s)%s((%s)(z), (%s)(x), (%s)(y))", v,
                               fn, raw, raw, raw));
  }
}

/* vpmaddwd of two texts; `fn` its name. */
static const char *
maddwd(struct cprinter *c, const char *fn, int lanes, const char *x,
       const char *y)
{
  const char *raw = tt_c_raw_vector(c, 2, 2 * lanes);
  const char *more = "";
  if (lanes == 16)
    more = tt_arena_printf(c->arena, ", (%s){0}, -1",
                           tt_c_raw_vector(c, 4, lanes));
  return tt_arena_printf(c->arena, "(%s)%s((%s)(%s), (%s)(%s)%s)",
                         tt_c_vector(c, TT_U32, lanes), fn, raw, x, raw, y,
                         more);
}

static void
add_maddwd(struct cprinter *c, struct tt_sb *sb, const char *name, int n,
           int lanes)
{
  const char *fn = tt_arena_printf(c->arena, "__builtin_ia32_pmaddwd%d%s",
                                   lanes * 32, lanes == 16 ? "_mask" : "");
  const char *feature = lanes == 16  ? "__AVX512BW__"
                        : lanes == 8 ? "__AVX2__"
                                     : "__SSE2__";
  const char *u16 = tt_c_vector(c, TT_U16, 2 * lanes);
  const char *i16 = tt_c_vector(c, TT_I16, 2 * lanes);
  const char *sum;
  if (n == 2)
    sum = maddwd(c, fn, lanes, "x", "y");
  else
    sum = tt_arena_printf(
        c->arena, "%s +\n   %s",
        maddwd(c, fn, lanes, tt_arena_printf(c->arena, "(%s)(x) & 255", u16),
               tt_arena_printf(c->arena, "(%s)((%s)(y) << 8) >> 8", i16, u16)),
        maddwd(c, fn, lanes, tt_arena_printf(c->arena, "(%s)(x) >> 8", u16),
               tt_arena_printf(c->arena, "(%s)(y) >> 8", i16)));
  struct tt_sb text = {0};
  for (const char *p = sum; *p; p++) {
    if (*p == '\n')
      tt_sb_add(&text, " \\");
    tt_sb_putc(&text, *p);
  }
  add_branch(c, sb, feature, fn, name,
             tt_arena_printf(c->arena, "(%s)((%s)(z) + %s)",
                             tt_c_vector(c, TT_I32, lanes),
                             tt_c_vector(c, TT_U32, lanes), tt_sb_str(&text)));
  tt_sb_free(&text);
}

/* With shifts of whole lanes, right everywhere. */
static const char *
portable(struct cprinter *c, const char *name, int n, int lanes)
{
  const char *i32 = tt_c_vector(c, TT_I32, lanes);
  const char *u32 = tt_c_vector(c, TT_U32, lanes);
  int bits = 32 / n;
  struct tt_sb sb = {0};
  tt_sb_printf(&sb,
               "  const %s tt_x = (%s)(x), tt_y = (%s)(y);\n"
               "  (%s)((%s)(z)",
               u32, u32, u32, i32, u32);
  for (int j = 0; j < n; j++) {
    const char *x =
        n == 4 ? tt_arena_printf(c->arena, "(tt_x >> %d & 255)", bits * j)
               : tt_arena_printf(c->arena, "(%s)((%s)(tt_x << %d) >> %d)", u32,
                                 i32, 32 - bits * (j + 1), 32 - bits);
    tt_sb_printf(&sb, " +\n    %s *\n      (%s)((%s)(tt_y << %d) >> %d)", x,
                 u32, i32, 32 - bits * (j + 1), 32 - bits);
  }
  tt_sb_add(&sb, ");\n");
  const char *text = tt_c_vector_macro(c, name, "z, x, y", tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* z + the sum of n products: of unsigned bytes of x and signed ones of y, or
 * of 16 bits. */
static const char *
macro(struct cprinter *c, int n, int lanes)
{
  const char *name =
      tt_c_helper_name(c, tt_arena_printf(c->arena, "dot%d_%s", n,
                                          tt_c_vector(c, TT_I32, lanes)));
  struct tt_sb sb = {0};
  if (tt_c_has_helper(c, name))
    return name;
  add_vnni(c, &sb, name, n == 4 ? "vpdpbusd" : "vpdpwssd", lanes);
  add_maddwd(c, &sb, name, n, lanes);
  tt_sb_printf(&sb, "#else\n%s#endif\n", portable(c, name, n, lanes));
  const char *text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return tt_c_add_helper(c, name, text);
}

/* ---- factors ---------------------------------------------------------- */

/* pair_i32, quad_i32: scalars side by side in the bits of one. */
static const char *
side_by_side(struct cprinter *c, int n)
{
  const char *name = tt_c_helper_name(c, n == 4 ? "quad_i32" : "pair_i32");
  if (tt_c_has_helper(c, name))
    return name;
  const char *text =
      n == 4 ? "static inline int32_t %s(int32_t a, int32_t b, int32_t c, "
               "int32_t d)\n{\n"
               "  return (int32_t)((uint32_t)(uint8_t)a | "
               "(uint32_t)(uint8_t)b << 8 |\n"
               "                   (uint32_t)(uint8_t)c << 16 | "
               "(uint32_t)d << 24);\n}\n"
             : "static inline int32_t %s(int32_t a, int32_t b)\n{\n"
               "  return (int32_t)((uint32_t)(uint16_t)a | "
               "(uint32_t)b << 16);\n}\n";
  struct tt_sb sb = {0};
  for (const char *p = text; *p; p++)
    if (p[0] == '%' && p[1] == 's') {
      tt_sb_add(&sb, name);
      p++;
    } else {
      tt_sb_putc(&sb, *p);
    }
  text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return tt_c_add_helper(c, name, text);
}

static const char *
scalars(struct cprinter *c, const struct dot *d, const struct dot_factor *f)
{
  struct tt_sb sb = {0};
  for (int j = 0; j < d->n; j++)
    tt_sb_printf(&sb, "%s%s", j ? ", " : "",
                 tt_c_expr(c, f->value[j], PREC_ANY));
  const char *text = tt_arena_printf(c->arena, "%s(%s)", side_by_side(c, d->n),
                                     tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* Vectors of i32, the elements of which lie side by side then. */
static const char *
woven(struct cprinter *c, const struct dot *d, const struct dot_factor *f)
{
  const char *u = tt_c_vector(c, TT_U32, d->lanes);
  int width = 32 / d->n;
  struct tt_sb sb = {0};
  tt_sb_printf(&sb, "((%s)(",
               tt_c_vector(c, d->n == 4 ? TT_U8 : TT_U16, d->n * d->lanes));
  for (int j = 0; j < d->n; j++) {
    const char *v = tt_c_vexpr(c, f->value[j], PREC_UNARY);
    v = tt_arena_printf(c->arena, "(%s)%s", u, v);
    if (j + 1 < d->n)
      v = tt_arena_printf(c->arena, "(%s & %d)", v, d->n == 4 ? 255 : 65535);
    tt_sb_printf(&sb, j ? " | %s << %d" : "%s", v, width * j);
  }
  tt_sb_add(&sb, "))");
  const char *text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* The bits of a factor: a vector of d->lanes times n elements, of bytes when
 * n is 4 and else of 16 bits, in parentheses. */
static const char *
bits(struct cprinter *c, const struct dot *d, const struct dot_factor *f)
{
  enum tt_dtype t = d->n == 4 ? TT_U8 : TT_U16;
  int lanes = d->n * d->lanes;
  const char *v = tt_c_vector(c, t, lanes), *text;
  const struct tt_expr *load = f->load;
  if (!f->scalar && !load)
    return woven(c, d, f);
  if (f->scalar) {
    text = load ? tt_arena_printf(c->arena, "(int32_t)%s",
                                  tt_c_neighbours(c, load, d->n))
                : scalars(c, d, f);
    text = tt_arena_printf(c->arena, "(%s)(%s - (%s){0})", v, text,
                           tt_c_vector(c, TT_I32, d->lanes));
  } else {
    text = tt_c_neighbours(c, load, lanes);
    if (tt_dtype_bytes(load->type.dtype) != tt_dtype_bytes(t))
      text = tt_c_convert(c, text, TT_I16, load->type.dtype, lanes);
    text = tt_arena_printf(c->arena, "(%s)%s", v, text);
  }
  int64_t add = load ? f->add & (d->n == 4 ? 0xff : 0xffff) : 0;
  if (add == 0)
    return tt_arena_printf(c->arena, "(%s)", text);
  return tt_arena_printf(c->arena, "(%s + (%s)%lld)", text, tt_c_storage(t),
                         (long long)add);
}

static const char *
biased(struct cprinter *c, const char *text)
{
  return tt_arena_printf(c->arena, "%s ^ (uint8_t)128", text);
}

/* z + sum of x * y, where one of them is 128 too large or too small: less 128
 * times the other one. */
static const char *
corrected(struct cprinter *c, const struct dot *d, const char *sum,
          const char *x, const char *y)
{
  const char *u = tt_c_vector(c, TT_U32, d->lanes);
  return tt_arena_printf(c->arena, "(%s)((%s)%s - (%s)%s((%s){0}, %s, %s))",
                         tt_c_vector(c, TT_I32, d->lanes), u, sum, u,
                         macro(c, d->n, d->lanes),
                         tt_c_vector(c, TT_I32, d->lanes), x, y);
}

static bool
is_unsigned(const struct dot_factor *f)
{
  return f->lo >= 0 && f->hi <= UINT8_MAX;
}

static bool
is_signed(const struct dot_factor *f)
{
  return f->lo >= INT8_MIN && f->hi <= INT8_MAX;
}

const char *
tt_c_dot(struct cprinter *c, const struct tt_expr *e, int prec)
{
  struct dot d;
  if (!tt_dot_match(c->arena, e, &d))
    return NULL;
  const char *fn = macro(c, d.n, d.lanes);
  const char *acc = tt_c_vexpr(c, d.acc, PREC_ANY);
  /* What varies with the lanes comes last. */
  int k = d.f[1].scalar;
  const struct dot_factor *p = &d.f[k], *q = &d.f[1 - k];
  if (d.n == 4 && !(is_unsigned(p) && is_signed(q)) && is_unsigned(q) &&
      is_signed(p)) {
    const struct dot_factor *swap = p;
    p = q;
    q = swap;
  }
  const char *x = bits(c, &d, p), *y = bits(c, &d, q);
  if (d.n == 2 || (is_unsigned(p) && is_signed(q)))
    return tt_arena_printf(c->arena, "%s(%s, %s, %s)", fn, acc, x, y);
  const char *bias = tt_arena_printf(c->arena, "(uint8_t)128 - (%s){0}",
                                     tt_c_vector(c, TT_U8, d.n * d.lanes));
  const char *text;
  if (is_signed(q)) {
    text =
        tt_arena_printf(c->arena, "%s(%s, %s, %s)", fn, acc, biased(c, x), y);
    text = corrected(c, &d, text, bias, y);
  } else {
    /* q * (p - 128) - q * -128 */
    text =
        tt_arena_printf(c->arena, "%s(%s, %s, %s)", fn, acc, y, biased(c, x));
    text = corrected(c, &d, text, y, bias);
  }
  return tt_c_paren(c, text, PREC_UNARY, prec);
}
