/* Element types, generated from types.def, and conversions between them. */
#ifndef TT_TYPES_H
#define TT_TYPES_H

#include <stdbool.h>
#include <stdint.h>

enum tt_dtype {
#define TT_DTYPE(e, name, bytes, kind, bits, lo, hi) TT_##e,
#include "ir/types.def"
#undef TT_DTYPE
  TT_NDTYPES
};

/* The type's name in the language ("f32"). */
const char *tt_dtype_name(enum tt_dtype t);
/* The type with that name; false if there is none. */
bool tt_dtype_parse(const char *name, enum tt_dtype *out);
int tt_dtype_bytes(enum tt_dtype t);
int tt_dtype_bits(enum tt_dtype t);
bool tt_dtype_is_float(enum tt_dtype t);
/* Signed or unsigned integer; bool is neither float nor int. */
bool tt_dtype_is_int(enum tt_dtype t);
bool tt_dtype_is_signed(enum tt_dtype t);
/* Bounds of an integer type or bool. */
int64_t tt_dtype_min(enum tt_dtype t);
int64_t tt_dtype_max(enum tt_dtype t);

/* The arithmetic of the language, used by folding and by the interpreter, so
 * that both agree with the emitted C. */

/* `v` wrapped to the integer type (or v != 0 for bool). */
int64_t tt_wrap(enum tt_dtype t, int64_t v);
/* `v` clamped to the integer type. */
int64_t tt_saturate(enum tt_dtype t, int64_t v);
/* Float to i64: truncates, saturates at the ends of i64, NaN gives 0. */
int64_t tt_f2i(double v);
/* `v` rounded to the precision of the float type (f16, bf16 by nearest even,
 * f32, f64). */
double tt_round_float(enum tt_dtype t, double v);
/* Floor division and modulus; the divisor is not 0.  INT64_MIN / -1 wraps. */
int64_t tt_floordiv(int64_t a, int64_t b);
int64_t tt_floormod(int64_t a, int64_t b);
/* Truncating division and remainder (`quot`, `rem`). */
int64_t tt_quot(int64_t a, int64_t b);
int64_t tt_rem(int64_t a, int64_t b);
/* (a*b + 2^30) >> 31, saturating at INT32_MIN squared (TFLite, gemmlowp). */
int32_t tt_sqrdmulh(int32_t a, int32_t b);
/* x / 2^e, halves rounded away from zero; 0 <= e <= 31. */
int32_t tt_rdivp2(int32_t x, int e);
/* Bit patterns of the 16-bit floats. */
uint16_t tt_f32_to_bf16(float v);
float tt_bf16_to_f32(uint16_t v);
uint16_t tt_f64_to_f16(double v);
double tt_f16_to_f64(uint16_t v);

#endif
