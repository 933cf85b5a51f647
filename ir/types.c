/* Element types and the exact arithmetic of the language.
 *
 * Folding, the interpreter and the emitted C must agree bit by bit, so what is
 * undefined or left open in C (overflow, conversions out of range, halves) is
 * settled here in unsigned arithmetic and explicit bit patterns.
 */
#include "config.h"

#include "ir/types.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const struct dtype_info {
  const char *name;
  int bytes, kind, bits;
  int64_t lo, hi;
} dtypes[TT_NDTYPES] = {
#define TT_DTYPE(e, name, bytes, kind, bits, lo, hi)                           \
  {name, bytes, kind, bits, lo, hi},
#include "ir/types.def"
#undef TT_DTYPE
};

const char *
tt_dtype_name(enum tt_dtype t)
{
  return dtypes[t].name;
}

bool
tt_dtype_parse(const char *name, enum tt_dtype *out)
{
  for (int i = 0; i < TT_NDTYPES; i++)
    if (strcmp(dtypes[i].name, name) == 0) {
      *out = (enum tt_dtype)i;
      return true;
    }
  return false;
}

int
tt_dtype_bytes(enum tt_dtype t)
{
  return dtypes[t].bytes;
}

int
tt_dtype_bits(enum tt_dtype t)
{
  return dtypes[t].bits;
}

bool
tt_dtype_is_float(enum tt_dtype t)
{
  return dtypes[t].kind == 'f';
}

bool
tt_dtype_is_int(enum tt_dtype t)
{
  return dtypes[t].kind == 'i' || dtypes[t].kind == 'u';
}

bool
tt_dtype_is_signed(enum tt_dtype t)
{
  return dtypes[t].kind == 'i';
}

int64_t
tt_dtype_min(enum tt_dtype t)
{
  return dtypes[t].lo;
}

int64_t
tt_dtype_max(enum tt_dtype t)
{
  return dtypes[t].hi;
}

int64_t
tt_wrap(enum tt_dtype t, int64_t v)
{
  switch (t) {
  case TT_I8:
    return (int8_t)(uint8_t)v;
  case TT_U8:
    return (uint8_t)v;
  case TT_I16:
    return (int16_t)(uint16_t)v;
  case TT_U16:
    return (uint16_t)v;
  case TT_I32:
    return (int32_t)(uint32_t)v;
  case TT_U32:
    return (uint32_t)v;
  case TT_BOOL:
    return v != 0;
  case TT_I64:
  case TT_F64:
  case TT_F32:
  case TT_F16:
  case TT_BF16:
  case TT_NDTYPES:
    break;
  }
  return v;
}

int64_t
tt_saturate(enum tt_dtype t, int64_t v)
{
  return v < dtypes[t].lo ? dtypes[t].lo : v > dtypes[t].hi ? dtypes[t].hi : v;
}

int64_t
tt_f2i(double v)
{
  if (isnan(v))
    return 0;
  if (v >= 0x1p63)
    return INT64_MAX;
  if (v < -0x1p63)
    return INT64_MIN;
  return (int64_t)v;
}

double
tt_round_float(enum tt_dtype t, double v)
{
  switch (t) {
  case TT_F32:
    return (float)v;
  case TT_F16:
    return tt_f16_to_f64(tt_f64_to_f16(v));
  case TT_BF16:
    return tt_bf16_to_f32(tt_f32_to_bf16((float)v));
  case TT_F64:
  case TT_I8:
  case TT_U8:
  case TT_I16:
  case TT_U16:
  case TT_I32:
  case TT_U32:
  case TT_I64:
  case TT_BOOL:
  case TT_NDTYPES:
    break;
  }
  return v;
}

int64_t
tt_quot(int64_t a, int64_t b)
{
  if (b == -1)
    return (int64_t)(0 - (uint64_t)a);
  return a / b;
}

int64_t
tt_rem(int64_t a, int64_t b)
{
  return b == -1 ? 0 : a % b;
}

int64_t
tt_floordiv(int64_t a, int64_t b)
{
  int64_t r = tt_rem(a, b);
  return tt_quot(a, b) - (r != 0 && (r < 0) != (b < 0));
}

int64_t
tt_floormod(int64_t a, int64_t b)
{
  int64_t r = tt_rem(a, b);
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

int32_t
tt_sqrdmulh(int32_t a, int32_t b)
{
  if (a == INT32_MIN && b == INT32_MIN)
    return INT32_MAX;
  /* The product is under 2^62, and >> of a negative is arithmetic in every
   * compiler that is supported. */
  return (int32_t)(((int64_t)a * b + (INT64_C(1) << 30)) >> 31);
}

int32_t
tt_rdivp2(int32_t x, int e)
{
  int64_t mask = (INT64_C(1) << e) - 1;
  int64_t rest = x & mask;
  int64_t threshold = (mask >> 1) + (x < 0);
  return (int32_t)(((int64_t)x >> e) + (rest > threshold));
}

uint16_t
tt_f32_to_bf16(float v)
{
  uint32_t u;
  memcpy(&u, &v, sizeof u);
  if (isnan(v)) /* keep it quiet: the low half must not round it away */
    return (uint16_t)(u >> 16 | 0x40);
  u += 0x7fff + (u >> 16 & 1);
  return (uint16_t)(u >> 16);
}

float
tt_bf16_to_f32(uint16_t v)
{
  uint32_t u = (uint32_t)v << 16;
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

uint16_t
tt_f64_to_f16(double v)
{
  uint64_t u;
  memcpy(&u, &v, sizeof u);
  uint16_t sign = (uint16_t)(u >> 48 & 0x8000);
  uint64_t mant = u & ((UINT64_C(1) << 52) - 1);
  int e = (int)(u >> 52 & 0x7ff);
  if (e == 0x7ff) /* a NaN stays one, and quiet */
    return (uint16_t)(sign | 0x7c00 | (mant ? 0x200 | mant >> 42 : 0));
  e -= 1023;
  if (e < -25) /* below half of the smallest subnormal */
    return sign;
  if (e > 15)
    return sign | 0x7c00;
  /* `mant` with its hidden one has 53 bits; keep those from 2^-24, or the
   * 11 leading ones, and round the rest to nearest, ties to even. */
  mant |= UINT64_C(1) << 52;
  int drop = e < -14 ? 28 - e : 42;
  uint64_t kept = drop < 64 ? mant >> drop : 0;
  uint64_t rest = mant - (kept << drop);
  uint64_t half = UINT64_C(1) << (drop - 1);
  kept += rest > half || (rest == half && (kept & 1));
  /* A carry out of the mantissa moves into the exponent, as it should. */
  uint64_t base = e < -14 ? 0 : (uint64_t)(e + 14) << 10;
  return (uint16_t)(sign | (base + kept));
}

double
tt_f16_to_f64(uint16_t v)
{
  int e = v >> 10 & 0x1f, mant = v & 0x3ff;
  double m;
  if (e == 0x1f)
    m = mant ? NAN : INFINITY;
  else if (e == 0)
    m = ldexp(mant, -24);
  else
    m = ldexp(mant + 0x400, e - 25);
  return v & 0x8000 ? -m : m;
}
