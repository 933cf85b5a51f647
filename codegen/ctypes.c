/* C's names for element types, vector types, and constants. */
#include "config.h"

#include "codegen/cprint.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *
tt_c_storage(enum tt_dtype t)
{
  switch (t) {
  case TT_F64:
    return "double";
  case TT_F32:
    return "float";
  case TT_F16:
    return "_Float16";
  case TT_BF16:
    return "uint16_t";
  case TT_I8:
    return "int8_t";
  case TT_U8:
  case TT_BOOL:
    return "uint8_t";
  case TT_I16:
    return "int16_t";
  case TT_U16:
    return "uint16_t";
  case TT_I32:
    return "int32_t";
  case TT_U32:
    return "uint32_t";
  case TT_I64:
    return "int64_t";
  case TT_NDTYPES:
    break;
  }
  return "void";
}

const char *
tt_c_memory(const struct cprinter *c, enum tt_dtype t)
{
  return t == TT_F16 && c->options->gpu ? "uint16_t" : tt_c_storage(t);
}

bool
tt_c_is_half(enum tt_dtype t)
{
  return t == TT_F16 || t == TT_BF16;
}

const char *
tt_c_value(enum tt_dtype t)
{
  return tt_c_is_half(t) ? "float" : tt_c_storage(t);
}

enum tt_dtype
tt_unsigned_of(enum tt_dtype t)
{
  switch (t) {
  case TT_I8:
    return TT_U8;
  case TT_I16:
    return TT_U16;
  case TT_I32:
    return TT_U32;
  case TT_I64: /* there is no u64 in the language: see the callers */
  case TT_F64:
  case TT_F32:
  case TT_F16:
  case TT_BF16:
  case TT_U8:
  case TT_U16:
  case TT_U32:
  case TT_BOOL:
  case TT_NDTYPES:
    break;
  }
  return t;
}

enum tt_dtype
tt_signed_of_bytes(int bytes)
{
  return bytes == 1   ? TT_I8
         : bytes == 2 ? TT_I16
         : bytes == 4 ? TT_I32
                      : TT_I64;
}

/* ---- vectors ---------------------------------------------------------- */

static void
add_typedef(struct cprinter *c, const char *text)
{
  for (int i = 0; i < c->typedefs.n; i++)
    if (strcmp(c->typedefs.items[i], text) == 0)
      return;
  TT_PUSH(c->typedefs, text);
}

static const char *
vector_of(struct cprinter *c, const char *element, const char *stem, int lanes,
          int bytes)
{
  lanes = tt_c_lanes(lanes);
  const char *name = tt_arena_printf(c->arena, "%sx%d", stem, lanes);
  add_typedef(c,
              tt_arena_printf(c->arena,
                              "typedef %s %s __attribute__((vector_size(%d)));",
                              element, name, lanes * bytes));
  return name;
}

const char *
tt_c_opencl_vector(struct cprinter *c, enum tt_dtype t, bool u, int lanes)
{
  static const char *const ints[] = {"char", "short", "int", "long"};
  int bytes = tt_dtype_bytes(t);
  int size = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
  if (tt_dtype_is_float(t) && bytes >= 4)
    return tt_arena_printf(c->arena, "%s%d", tt_c_storage(t), lanes);
  u = u || !tt_dtype_is_signed(t) || tt_dtype_is_float(t);
  return tt_arena_printf(c->arena, "%s%s%d", u ? "u" : "", ints[size], lanes);
}

/* What CUDA C moves at once: of narrow types, as many bytes. */
static const char *
cuda_vector(struct cprinter *c, enum tt_dtype t, int lanes)
{
  int bytes = tt_dtype_bytes(t);
  if (bytes < 4 && bytes * lanes == 2)
    return "unsigned short";
  if (bytes < 4)
    return tt_arena_printf(c->arena, "uint%d", bytes * lanes / 4);
  if (t == TT_I64)
    return tt_arena_printf(c->arena, "longlong%d", lanes);
  return tt_c_opencl_vector(c, t, false, lanes);
}

const char *
tt_c_raw_vector(struct cprinter *c, int bytes, int lanes)
{
  static const char *const elements[] = {"char", "short", "int", "long long"};
  static const char *const stems[] = {"c8", "c16", "c32", "c64"};
  int i = bytes == 1 ? 0 : bytes == 2 ? 1 : bytes == 4 ? 2 : 3;
  return vector_of(c, elements[i], stems[i], lanes, bytes);
}

const char *
tt_c_memory_vector(struct cprinter *c, enum tt_dtype t, int lanes)
{
  const char *stem = t == TT_BF16 ? "u16" : tt_dtype_name(t);
  if (c->dialect->style == TT_CUDA_VECTORS)
    return cuda_vector(c, t, lanes);
  if (c->dialect->style == TT_OPENCL_VECTORS)
    return tt_c_opencl_vector(c, t, false, lanes);
  return vector_of(c, tt_c_storage(t), stem, lanes, tt_dtype_bytes(t));
}

const char *
tt_c_vector(struct cprinter *c, enum tt_dtype t, int lanes)
{
  bool half = tt_c_is_half(t) && c->dialect->style != TT_CUDA_VECTORS;
  return tt_c_memory_vector(c, half ? TT_F32 : t, lanes);
}

const char *
tt_c_uvector(struct cprinter *c, enum tt_dtype t, int lanes)
{
  if (c->dialect->style == TT_OPENCL_VECTORS)
    return tt_c_opencl_vector(c, t, !tt_dtype_is_float(t), lanes);
  if (t != TT_I64)
    return tt_c_vector(c, tt_unsigned_of(t), lanes);
  lanes = tt_c_lanes(lanes);
  const char *name = tt_arena_printf(c->arena, "u64x%d", lanes);
  add_typedef(c, tt_arena_printf(
                     c->arena,
                     "typedef uint64_t %s __attribute__((vector_size(%d)));",
                     name, lanes * 8));
  return name;
}

const char *
tt_c_unaligned(struct cprinter *c, enum tt_dtype t, int lanes)
{
  if (c->dialect->style != TT_GNU_VECTORS)
    return tt_c_memory_vector(c, t, lanes);
  const char *name =
      tt_arena_printf(c->arena, "%sx%du", tt_dtype_name(t), lanes);
  add_typedef(c,
              tt_arena_printf(c->arena,
                              "typedef %s %s __attribute__((vector_size(%d), "
                              "aligned(%d), may_alias));",
                              tt_c_storage(t), name, lanes * tt_dtype_bytes(t),
                              tt_dtype_bytes(t)));
  return name;
}

/* ---- constants -------------------------------------------------------- */

/* The fewest digits that read back as the same value. */
static const char *
shortest(struct tt_arena *arena, double v, bool single)
{
  char buf[64];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(buf, sizeof buf, "%.*g", digits, v);
    if (single ? strtof(buf, NULL) == (float)v : strtod(buf, NULL) == v)
      break;
  }
  if (!strpbrk(buf, ".e"))
    strcat(buf, ".0");
  return tt_arena_strdup(arena, buf);
}

const char *
tt_c_float(struct cprinter *c, enum tt_dtype t, double v, int *prec)
{
  *prec = signbit(v) ? PREC_UNARY : PREC_PRIMARY;
  if (isnan(v) || isinf(v)) {
    c->math = true;
    const char *cast = t == TT_F64 ? "(double)" : "";
    if (t == TT_F64)
      *prec = PREC_UNARY;
    return tt_arena_printf(c->arena, "%s%s%s", cast,
                           signbit(v) && !isnan(v) ? "-" : "",
                           isnan(v) ? "NAN" : "INFINITY");
  }
  bool single = t != TT_F64;
  return tt_arena_printf(c->arena, "%s%s", shortest(c->arena, v, single),
                         single ? "f" : "");
}

const char *
tt_c_int(struct cprinter *c, enum tt_dtype t, int64_t v, int *prec)
{
  *prec = v < 0 ? PREC_UNARY : PREC_PRIMARY;
  if (v == INT64_MIN || (t == TT_I32 && v == INT32_MIN)) {
    *prec = PREC_PRIMARY;
    return v == INT64_MIN ? "INT64_MIN" : "INT32_MIN";
  }
  if (t == TT_U32)
    return tt_arena_printf(c->arena, "%lldu", (long long)v);
  if (v > INT32_MAX || v < INT32_MIN)
    return tt_arena_printf(c->arena, "%sINT64_C(%llu)", v < 0 ? "-" : "",
                           v < 0 ? -(unsigned long long)v
                                 : (unsigned long long)v);
  return tt_arena_printf(c->arena, "%lld", (long long)v);
}
