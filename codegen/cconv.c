/* Conversions of whole vectors.
 *
 * __builtin_convertvector says it all, but gcc makes element by element what
 * the machine does in one instruction; so each conversion is a macro that
 * names the builtin where there is one and convertvector elsewhere.  Both
 * give the same bits.
 */
#include "config.h"

#include "codegen/cprint.h"

const char *
tt_c_either(struct cprinter *c, const char *name, const char *params,
            const char *condition, const char *fast, const char *slow)
{
  const char *text =
      tt_arena_printf(c->arena,
                      "#if %s\n#define %s(%s) \\\n  (%s)\n"
                      "#else\n#define %s(%s) \\\n  (%s)\n#endif\n",
                      condition, name, params, fast, name, params, slow);
  return tt_c_add_helper(c, name, text);
}

const char *
tt_c_builtin_if(struct cprinter *c, const char *feature, const char *builtin)
{
  const char *has = tt_c_helper_name(c, "has_builtin");
  if (!tt_c_has_helper(c, has))
    tt_c_add_helper(c, has,
                    tt_arena_printf(c->arena,
                                    "#ifdef __has_builtin\n"
                                    "#define %s(x) __has_builtin(x)\n"
                                    "#else\n"
                                    "#define %s(x) 0\n"
                                    "#endif\n",
                                    has, has));
  return tt_arena_printf(c->arena, "defined(%s) && %s(%s)", feature, has,
                         builtin);
}

/* ---- integers --------------------------------------------------------- */

static char
letter(int bytes)
{
  return bytes == 1 ? 'b' : bytes == 2 ? 'w' : bytes == 4 ? 'd' : 'q';
}

/* The argument (x), filled up to the 16 bytes that builtins take; NULL: too
 * short. */
static const char *
filled(struct cprinter *c, int bytes, int lanes, const char *type)
{
  int size = bytes * lanes;
  if (size >= 16)
    return tt_arena_printf(c->arena, "(%s)(x)",
                           tt_c_raw_vector(c, bytes, lanes));
  if (size != 4 && size != 8)
    return NULL;
  return tt_arena_printf(c->arena, "(%s)(%s){(%s)(%s)(x)}",
                         tt_c_raw_vector(c, bytes, 16 / bytes),
                         tt_c_raw_vector(c, size, 16 / size),
                         size == 8 ? "long long" : "int", type);
}

/* A macro for a wider integer type, by its builtin; NULL: there is none. */
static const char *
wider(struct cprinter *c, enum tt_dtype to, enum tt_dtype from, int lanes,
      const char **condition)
{
  int b = tt_dtype_bytes(to), a = tt_dtype_bytes(from), size = b * lanes;
  const char *arg = filled(c, a, lanes, tt_c_vector(c, from, lanes));
  if (!arg || (size != 16 && size != 32 && size != 64))
    return NULL;
  const char *fn =
      tt_arena_printf(c->arena, "__builtin_ia32_pmov%cx%c%c%d%s",
                      tt_dtype_is_signed(from) ? 's' : 'z', letter(a),
                      letter(b), size * 8, size == 64 ? "_mask" : "");
  const char *feature = size == 16         ? "__SSE4_1__"
                        : size == 32       ? "__AVX2__"
                        : a == 1 && b == 2 ? "__AVX512BW__"
                                           : "__AVX512F__";
  *condition = tt_c_builtin_if(c, feature, fn);
  const char *more = "";
  if (size == 64)
    more = tt_arena_printf(c->arena, ", (%s){0}, -1",
                           tt_c_raw_vector(c, b, lanes));
  return tt_arena_printf(c->arena, "(%s)%s(%s%s)", tt_c_vector(c, to, lanes),
                         fn, arg, more);
}

static const char *
narrower(struct cprinter *c, enum tt_dtype to, enum tt_dtype from, int lanes,
         const char **condition)
{
  int b = tt_dtype_bytes(to), a = tt_dtype_bytes(from);
  int size = a * lanes, left = b * lanes;
  if ((size != 64 && size != 32) || left < 4)
    return NULL;
  const char *fn = tt_arena_printf(c->arena, "__builtin_ia32_pmov%c%c%d_mask",
                                   letter(a), letter(b), size * 8);
  const char *feature = a == 2       ? "__AVX512BW__"
                        : size == 64 ? "__AVX512F__"
                                     : "__AVX512VL__";
  *condition = tt_c_builtin_if(c, feature, fn);
  if (size == 32 && a == 2)
    *condition =
        tt_arena_printf(c->arena, "defined(__AVX512VL__) && %s", *condition);
  int full = left < 16 ? 16 : left;
  const char *call = tt_arena_printf(c->arena, "%s((%s)(x), (%s){0}, -1)", fn,
                                     tt_c_raw_vector(c, a, lanes),
                                     tt_c_raw_vector(c, b, full / b));
  const char *type = tt_c_vector(c, to, lanes);
  if (left >= 16)
    return tt_arena_printf(c->arena, "(%s)%s", type, call);
  return tt_arena_printf(c->arena, "(%s)((%s)%s)[0]", type,
                         tt_c_raw_vector(c, left, 16 / left), call);
}

static const char *
plain(struct cprinter *c, const char *text, enum tt_dtype to, int lanes)
{
  if (c->dialect->style == TT_OPENCL_VECTORS)
    return tt_arena_printf(c->arena, "convert_%s(%s)",
                           tt_c_vector(c, to, lanes), text);
  return tt_arena_printf(c->arena, "__builtin_convertvector(%s, %s)", text,
                         tt_c_vector(c, to, lanes));
}

/* The type between two that differ by more than a factor of 2 in size: two
 * steps are shorter than one in which elements are taken apart. */
static bool
half_way(enum tt_dtype to, enum tt_dtype from, enum tt_dtype *mid)
{
  int b = tt_dtype_bytes(to), a = tt_dtype_bytes(from);
  bool s = tt_dtype_is_signed(from);
  if (b < 4 * a && a < 4 * b)
    return false;
  int bytes = b > a ? b / 2 : 2 * b;
  *mid = bytes == 4 ? (s ? TT_I32 : TT_U32) : (s ? TT_I16 : TT_U16);
  return true;
}

static const char *
macro_name(struct cprinter *c, enum tt_dtype to, enum tt_dtype from, int lanes)
{
  return tt_c_helper_name(c, tt_arena_printf(c->arena, "%s_of_%s",
                                             tt_c_vector(c, to, lanes),
                                             tt_dtype_name(from)));
}

static const char *
integers(struct cprinter *c, const char *text, enum tt_dtype to,
         enum tt_dtype from, int lanes)
{
  const char *name = macro_name(c, to, from, lanes);
  if (!tt_c_has_helper(c, name)) {
    const char *condition = NULL, *fast;
    if (tt_dtype_bytes(to) > tt_dtype_bytes(from))
      fast = wider(c, to, from, lanes, &condition);
    else
      fast = narrower(c, to, from, lanes, &condition);
    enum tt_dtype mid;
    const char *slow =
        half_way(to, from, &mid)
            ? plain(c, tt_c_convert(c, "x", mid, from, lanes), to, lanes)
            : plain(c, "x", to, lanes);
    if (!fast)
      return half_way(to, from, &mid)
                 ? plain(c, tt_c_convert(c, text, mid, from, lanes), to, lanes)
                 : plain(c, text, to, lanes);
    tt_c_either(c, name, "x", condition, fast, slow);
  }
  return tt_arena_printf(c->arena, "%s(%s)", name, text);
}

/* ---- floats ----------------------------------------------------------- */

/* f64 of f32: twice the bytes, which gcc makes half by half. */
static const char *
doubles(struct cprinter *c, const char *text, int lanes)
{
  if (lanes != 8)
    return plain(c, text, TT_F64, lanes);
  const char *name = macro_name(c, TT_F64, TT_F32, lanes);
  const char *fn = "__builtin_ia32_cvtps2pd512_mask";
  const char *v = tt_c_vector(c, TT_F64, lanes);
  if (!tt_c_has_helper(c, name))
    tt_c_either(c, name, "x", tt_c_builtin_if(c, "__AVX512F__", fn),
                tt_arena_printf(c->arena, "%s((%s)(x), (%s){0}, -1, 4)", fn,
                                tt_c_vector(c, TT_F32, lanes), v),
                plain(c, "x", TT_F64, lanes));
  return tt_arena_printf(c->arena, "%s(%s)", name, text);
}

const char *
tt_c_convert(struct cprinter *c, const char *text, enum tt_dtype to,
             enum tt_dtype from, int lanes)
{
  int b = tt_dtype_bytes(to), a = tt_dtype_bytes(from);
  if (c->dialect->style == TT_OPENCL_VECTORS)
    return plain(c, text, to, lanes);
  if (to == TT_F64 && from == TT_F32)
    return doubles(c, text, lanes);
  if (tt_dtype_is_float(from))
    return plain(c, text, to, lanes);
  if (tt_dtype_is_float(to)) {
    /* through i32, exactly: from bytes there is no instruction */
    if (a < 4)
      text = tt_c_convert(c, text, TT_I32, from, lanes);
    return plain(c, text, to, lanes);
  }
  if (a == b)
    return plain(c, text, to, lanes);
  return integers(c, text, to, from, lanes);
}

const char *
tt_c_saturate(struct cprinter *c, const char *text, enum tt_dtype to, int lanes)
{
  const char *f = tt_c_vector(c, TT_F32, lanes);
  const char *i = tt_c_vector(c, TT_I32, lanes);
  if (c->dialect->style == TT_OPENCL_VECTORS)
    return tt_arena_printf(c->arena, "convert_%s_sat(%s)",
                           tt_c_vector(c, to, lanes), text);
  const char *name = tt_c_helper_name(
      c, tt_arena_printf(c->arena, "sat_%s_%s", tt_dtype_name(to), f));
  if (!tt_c_has_helper(c, name)) {
    const char *min = tt_c_vec_helper(c, "min", TT_F32, lanes);
    const char *max = tt_c_vec_helper(c, "max", TT_F32, lanes);
    const char *whole =
        tt_arena_printf(c->arena, "__builtin_convertvector(tt_b, %s)", i);
    const char *body = tt_arena_printf(
        c->arena,
        "  const %s tt_a = (x);\n"
        "  const %s tt_n = (%s)((tt_a == tt_a) & (%s)tt_a);\n"
        "  const %s tt_b = %s(%s(tt_n, %lld.0f - (%s){0}), %lld.0f - (%s){0});"
        "\n  %s;\n",
        f, f, f, i, f, min, max, (long long)tt_dtype_min(to), f,
        (long long)tt_dtype_max(to), f,
        tt_c_convert(c, whole, to, TT_I32, lanes));
    tt_c_add_helper(c, name, tt_c_vector_macro(c, name, "x", body));
  }
  return tt_arena_printf(c->arena, "%s(%s)", name, text);
}

/* ---- extrema ---------------------------------------------------------- */

/* What the instruction needs: of floats and of integers up to 32 bits by the
 * size of the vector; others are younger. */
static const char *
extremum_feature(enum tt_dtype t, int size)
{
  int bytes = tt_dtype_bytes(t);
  if (size == 64)
    return bytes < 4 ? "__AVX512BW__" : "__AVX512F__";
  if (tt_dtype_is_float(t))
    return size == 32 ? "__AVX__" : bytes == 4 ? "__SSE__" : "__SSE2__";
  if (bytes == 8)
    return "__AVX512VL__";
  return size == 32 ? "__AVX2__" : "__SSE4_1__";
}

const char *
tt_c_extremum(struct cprinter *c, const char *op, enum tt_dtype t, int lanes,
              const char **condition)
{
  int bytes = tt_dtype_bytes(t), size = bytes * lanes;
  bool f = tt_dtype_is_float(t);
  const char *v = tt_c_vector(c, t, lanes);
  if (size != 16 && size != 32 && size != 64)
    return NULL;
  const char *suffix = size == 64 ? "512_mask" : size == 32 ? "256" : "128";
  if (f && size == 16)
    suffix = "";
  if (!f && bytes == 8)
    suffix = tt_arena_printf(c->arena, "%d_mask", size * 8);
  const char *fn = f ? tt_arena_printf(c->arena, "__builtin_ia32_%sp%c%s", op,
                                       bytes == 4 ? 's' : 'd', suffix)
                     : tt_arena_printf(c->arena, "__builtin_ia32_p%s%c%c%s", op,
                                       tt_dtype_is_signed(t) ? 's' : 'u',
                                       letter(bytes), suffix);
  const char *raw = f ? v : tt_c_raw_vector(c, bytes, lanes);
  const char *more = "";
  if (size == 64 || (!f && bytes == 8))
    more = tt_arena_printf(c->arena, ", (%s){0}, -1%s", raw, f ? ", 4" : "");
  *condition = tt_c_builtin_if(c, extremum_feature(t, size), fn);
  return tt_arena_printf(c->arena, "(%s)%s((%s)(x), (%s)(y)%s)", v, fn, raw,
                         raw, more);
}

/* ---- 16-bit floats ---------------------------------------------------- */

/* Builtins by the number of lanes; the shortest ones take and give 16 bytes
 * of f16, of which half counts. */
static const char *
f16_builtin(struct cprinter *c, bool load, int lanes, const char **condition)
{
  const char *f32 = tt_c_vector(c, TT_F32, lanes);
  const char *f16 = tt_c_memory_vector(c, TT_F16, lanes);
  const char *fn = tt_arena_printf(c->arena, "__builtin_ia32_vcvt%s%s",
                                   load ? "ph2ps" : "ps2ph",
                                   lanes == 16  ? "512_mask"
                                   : lanes == 8 ? "256"
                                                : "");
  if (lanes != 16 && lanes != 8 && lanes != 4)
    return NULL;
  *condition = tt_c_builtin_if(c, lanes == 16 ? "__AVX512F__" : "__F16C__", fn);
  if (load && lanes == 16)
    return tt_arena_printf(c->arena, "%s((%s)(x), (%s){0}, -1, 4)", fn,
                           tt_c_raw_vector(c, 2, 16), f32);
  if (load)
    return tt_arena_printf(c->arena, "%s(%s)", fn, filled(c, 2, lanes, f16));
  if (lanes == 16)
    return tt_arena_printf(c->arena, "(%s)%s((%s)(x), 0, (%s){0}, -1)", f16, fn,
                           f32, tt_c_raw_vector(c, 2, 16));
  if (lanes == 8)
    return tt_arena_printf(c->arena, "(%s)%s((%s)(x), 0)", f16, fn, f32);
  return tt_arena_printf(c->arena, "(%s)((%s)%s((%s)(x), 0))[0]", f16,
                         tt_c_raw_vector(c, 8, 2), fn, f32);
}

/* The macro that loads or stores vectors of f16. */
static const char *
f16_macro(struct cprinter *c, bool load, int lanes)
{
  const char *type = load ? tt_c_vector(c, TT_F32, lanes)
                          : tt_c_memory_vector(c, TT_F16, lanes);
  const char *name = tt_c_helper_name(
      c, tt_arena_printf(c->arena, "%s_of_%s", type, load ? "f16" : "f32"));
  const char *condition = "0";
  if (tt_c_has_helper(c, name))
    return name;
  const char *slow =
      tt_arena_printf(c->arena, "__builtin_convertvector(x, %s)", type);
  const char *fast = f16_builtin(c, load, lanes, &condition);
  return tt_c_either(c, name, "x", condition, fast ? fast : slow, slow);
}

/* To the nearest bf16, halves to even, in the upper half of each lane; NaN
 * stays one, and quiet. */
static const char *
bf16_round_bits(struct cprinter *c, int lanes)
{
  const char *u = tt_c_vector(c, TT_U32, lanes);
  const char *name =
      tt_c_helper_name(c, tt_arena_printf(c->arena, "bf16_bits_u32x%d", lanes));
  if (tt_c_has_helper(c, name))
    return name;
  const char *body =
      tt_arena_printf(c->arena,
                      "  const %s tt_a = (x);\n"
                      "  const %s tt_u = (%s)tt_a, tt_n = (%s)(tt_a != tt_a);\n"
                      "  (~tt_n & (tt_u + 0x7fffu + (tt_u >> 16 & 1u))) |\n"
                      "    (tt_n & (tt_u | 0x400000u));\n",
                      tt_c_vector(c, TT_F32, lanes), u, u, u);
  return tt_c_add_helper(c, name, tt_c_vector_macro(c, name, "x", body));
}

const char *
tt_c_half_load(struct cprinter *c, enum tt_dtype t, const char *text, int lanes)
{
  if (t == TT_F16)
    return tt_arena_printf(c->arena, "%s(%s)", f16_macro(c, true, lanes), text);
  return tt_arena_printf(c->arena, "((%s)(%s << 16))",
                         tt_c_vector(c, TT_F32, lanes),
                         tt_c_convert(c, text, TT_U32, TT_U16, lanes));
}

const char *
tt_c_half_store(struct cprinter *c, enum tt_dtype t, const char *text,
                int lanes)
{
  if (t == TT_F16)
    return tt_arena_printf(c->arena, "%s(%s)", f16_macro(c, false, lanes),
                           text);
  text = tt_arena_printf(c->arena, "%s(%s) >> 16", bf16_round_bits(c, lanes),
                         text);
  return tt_c_convert(c, text, TT_U16, TT_U32, lanes);
}

const char *
tt_c_half_round(struct cprinter *c, enum tt_dtype t, const char *text,
                int lanes)
{
  if (t == TT_F16)
    return tt_c_half_load(c, t, tt_c_half_store(c, t, text, lanes), lanes);
  return tt_arena_printf(c->arena, "((%s)(%s(%s) & 0xffff0000u))",
                         tt_c_vector(c, TT_F32, lanes),
                         bf16_round_bits(c, lanes), text);
}
