/* Arithmetic, comparisons, conversions and moves of PTX, for one thread.
 *
 * f16 and bf16 are computed in f64 and rounded; what is approximate on a GPU is
 * as exact here as libm.
 */
#include "config.h"

#include "tests/ptx_internal.h"

#include <fenv.h>
#include <math.h>
#include <string.h>

typedef const struct ptx_instruction *ins;

static bool
is_float(struct ptx_type t)
{
  return t.class == PTX_FLOAT || t.class == PTX_BRAIN;
}

/* ---- floating point ---------------------------------------------------- */

static int
rounding(ins i)
{
  return ptx_has(i, "rz")   ? FE_TOWARDZERO
         : ptx_has(i, "rm") ? FE_DOWNWARD
         : ptx_has(i, "rp") ? FE_UPWARD
                            : FE_TONEAREST;
}

static void
set_rounding(ins i, int mode)
{
  if (i->rounding != FE_TONEAREST)
    fesetround(mode);
}

static double
finish(ins i, double v)
{
  if (!i->sat)
    return v;
  return v > 0 ? v < 1 ? v : 1 : 0; /* (0 for NaN) */
}

static double
compute(ins i, double a, double b, double c)
{
  volatile float fa = (float)a, fb = (float)b, fc = (float)c, fr;
  volatile double r;
  set_rounding(i, i->rounding);
  switch (i->op) {
  case PTX_ADD:
    fr = fa + fb;
    r = a + b;
    break;
  case PTX_SUB:
    fr = fa - fb;
    r = a - b;
    break;
  case PTX_MUL:
    fr = fa * fb;
    r = a * b;
    break;
  case PTX_DIV:
    fr = fa / fb;
    r = a / b;
    break;
  default: /* fma, mad */
    fr = fmaf(fa, fb, fc);
    r = fma(a, b, c);
  }
  set_rounding(i, FE_TONEAREST);
  return i->types[0].bits == 32 ? fr : r;
}

/* Of both lanes where there are two. */
static const char *
float_arithmetic(struct thread *t, ins i)
{
  struct ptx_type type = i->types[0], one = type;
  uint64_t v[4] = {0}, r = 0;
  one.pair = false;
  for (int k = 1; k < i->n; k++)
    v[k] = ptx_get(t, &i->operands[k], type);
  for (int lane = 0; lane <= type.pair; lane++) {
    double x[4];
    for (int k = 1; k < 4; k++)
      x[k] = ptx_bits_float(one, v[k] >> 16 * lane);
    double y = finish(i, compute(i, x[1], x[2], x[3]));
    if (i->relu && !(y > 0))
      y = 0;
    r |= ptx_float_bits(one, y) << 16 * lane;
  }
  ptx_set(t, &i->operands[0], type, r);
  return NULL;
}

static const char *
float_function(struct thread *t, ins i)
{
  static const struct {
    const char *name;
    double (*fn)(double);
  } functions[] = {{"sqrt", sqrt}, {"ex2", exp2}, {"lg2", log2},
                   {"sin", sin},   {"cos", cos},  {"tanh", tanh}};
  const char *w = i->words[0];
  struct ptx_type type = i->types[0];
  double a = ptx_get_float(t, &i->operands[1], type), r = 0;
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    if (strcmp(functions[k].name, w) == 0)
      r = functions[k].fn(a);
  if (strcmp(w, "rcp") == 0)
    r = 1 / a;
  else if (strcmp(w, "rsqrt") == 0)
    r = 1 / sqrt(a);
  else if (strcmp(w, "sqrt") == 0 && type.bits == 32)
    r = sqrtf((float)a);
  ptx_set_float(t, &i->operands[0], type, r);
  return NULL;
}

/* The sign of the first operand, the rest of the second. */
static const char *
copy_sign(struct thread *t, ins i)
{
  struct ptx_type type = i->types[0];
  uint64_t sign = UINT64_C(1) << (type.bits - 1);
  uint64_t a = ptx_get(t, &i->operands[1], type),
           b = ptx_get(t, &i->operands[2], type);
  ptx_set(t, &i->operands[0], type, (a & sign) | (b & ~sign));
  return NULL;
}

static const char *
test_property(struct thread *t, ins i)
{
  static const struct ptx_type predicate = {PTX_BITS, 1, false};
  double a = ptx_get_float(t, &i->operands[1], i->types[0]);
  int class = fpclassify(a);
  bool r = ptx_has(i, "finite")       ? isfinite(a)
           : ptx_has(i, "infinite")   ? class == FP_INFINITE
           : ptx_has(i, "number")     ? class != FP_NAN
           : ptx_has(i, "notanumber") ? class == FP_NAN
           : ptx_has(i, "normal")     ? class == FP_NORMAL
                                      : class == FP_SUBNORMAL;
  ptx_set(t, &i->operands[0], predicate, r);
  return NULL;
}

/* ---- integers ---------------------------------------------------------- */

static uint64_t
high_product(struct ptx_type t, uint64_t a, uint64_t b)
{
  __int128 p = t.class == PTX_SIGNED ? (__int128)(int64_t)a * (int64_t)b
                                     : (__int128)((unsigned __int128)a * b);
  return (uint64_t)(p >> t.bits);
}

static const char *
multiply(struct thread *t, ins i)
{
  struct ptx_type type = i->types[0], to = type;
  uint64_t a = ptx_get(t, &i->operands[1], type),
           b = ptx_get(t, &i->operands[2], type);
  uint64_t r = i->high ? high_product(type, a, b) : a * b;
  if (i->wide)
    to.bits *= 2;
  if (i->op == PTX_MAD)
    r += ptx_get(t, &i->operands[3], to);
  ptx_set(t, &i->operands[0], to, r);
  return NULL;
}

static uint64_t
divide(struct ptx_type t, bool rest, uint64_t a, uint64_t b)
{
  int64_t x = (int64_t)a, y = (int64_t)b;
  if (b == 0)
    return ~UINT64_C(0);
  if (t.class == PTX_UNSIGNED)
    return rest ? a % b : a / b;
  if (y == -1)
    return rest ? 0 : 0 - a;
  return (uint64_t)(rest ? x % y : x / y);
}

static uint64_t
shift(ins i, uint64_t a, uint64_t n)
{
  struct ptx_type t = i->types[0];
  uint64_t bits = (uint64_t)t.bits;
  if (i->op == PTX_SHL)
    return n >= bits ? 0 : a << n;
  if (t.class == PTX_SIGNED)
    return (uint64_t)((int64_t)a >> (n >= bits ? bits - 1 : n));
  return n >= bits ? 0 : a >> n;
}

static uint64_t
larger(struct ptx_type t, bool max, uint64_t a, uint64_t b)
{
  bool less = t.class == PTX_SIGNED ? (int64_t)a < (int64_t)b : a < b;
  return less == max ? b : a;
}

static const char *
saturated(ins i, uint64_t a, uint64_t b, uint64_t *r)
{
  int64_t v =
      i->words[0][0] == 's' ? (int64_t)a - (int64_t)b : (int64_t)a + (int64_t)b;
  if (i->types[0].class != PTX_SIGNED || i->types[0].bits != 32)
    return "saturates";
  *r = (uint64_t)(v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v);
  return NULL;
}

static uint64_t
integer_result(ins i, uint64_t a, uint64_t b)
{
  struct ptx_type type = i->types[0];
  switch (i->op) {
  case PTX_SHL:
  case PTX_SHR:
    return shift(i, a, b);
  case PTX_ADD:
    return a + b;
  case PTX_SUB:
    return a - b;
  case PTX_DIV:
  case PTX_REM:
    return divide(type, i->op == PTX_REM, a, b);
  case PTX_MIN:
  case PTX_MAX:
    return larger(type, i->op == PTX_MAX, a, b);
  case PTX_AND:
    return a & b;
  case PTX_OR:
    return a | b;
  case PTX_XOR:
    return a ^ b;
  case PTX_NOT:
    return type.bits == 1 ? !a : ~a;
  case PTX_NEG:
    return 0 - a;
  default:
    return (int64_t)a < 0 ? 0 - a : a; /* abs */
  }
}

static const char *
integer_arithmetic(struct thread *t, ins i)
{
  static const struct ptx_type count = {PTX_UNSIGNED, 32, false};
  struct ptx_type type = i->types[0];
  const char *error = NULL;
  bool shifts = i->op == PTX_SHL || i->op == PTX_SHR;
  uint64_t a = ptx_get(t, &i->operands[1], type), b = 0, r;
  if (i->n > 2)
    b = ptx_get(t, &i->operands[2], shifts ? count : type);
  r = integer_result(i, a, b);
  if (i->sat)
    error = saturated(i, a, b, &r);
  ptx_set(t, &i->operands[0], type, r);
  return error;
}

static const char *
count_bits(struct thread *t, ins i)
{
  static const struct ptx_type u32 = {PTX_UNSIGNED, 32, false};
  struct ptx_type type = i->types[0];
  uint64_t a = ptx_get(t, &i->operands[1], type), r = 0;
  const char *w = i->words[0];
  if (strcmp(w, "popc") == 0) {
    r = (uint64_t)__builtin_popcountll(a);
  } else if (strcmp(w, "clz") == 0) {
    r = a ? (uint64_t)(__builtin_clzll(a) - (64 - type.bits))
          : (uint64_t)type.bits;
  } else { /* brev */
    for (int k = 0; k < type.bits; k++)
      r |= (a >> k & 1) << (type.bits - 1 - k);
    ptx_set(t, &i->operands[0], type, r);
    return NULL;
  }
  ptx_set(t, &i->operands[0], u32, r);
  return NULL;
}

/* bfe d, a, position, length; bfi d, a, into, position, length. */
static const char *
bit_field(struct thread *t, ins i)
{
  static const struct ptx_type u32 = {PTX_UNSIGNED, 32, false};
  struct ptx_type type = i->types[0];
  bool insert = i->words[0][2] == 'i';
  uint64_t a = ptx_get(t, &i->operands[1], type);
  uint64_t at = ptx_get(t, &i->operands[2 + insert], u32) & 0xff,
           n = ptx_get(t, &i->operands[3 + insert], u32) & 0xff;
  if (at + n > (uint64_t)type.bits || n == 0 || n == 64)
    return "a field of bits that is not inside";
  uint64_t mask = (UINT64_C(1) << n) - 1, r;
  if (insert) {
    uint64_t b = ptx_get(t, &i->operands[2], type);
    r = (b & ~(mask << at)) | (a & mask) << at;
  } else {
    r = a >> at & mask;
    if (type.class == PTX_SIGNED && r >> (n - 1))
      r |= ~mask;
  }
  ptx_set(t, &i->operands[0], type, r);
  return NULL;
}

static const char *
permute(struct thread *t, ins i)
{
  static const struct ptx_type u32 = {PTX_UNSIGNED, 32, false};
  uint64_t pool =
      ptx_get(t, &i->operands[1], u32) | ptx_get(t, &i->operands[2], u32) << 32;
  uint64_t how = ptx_get(t, &i->operands[3], u32), r = 0;
  if (i->nwords != 2)
    return "a mode of prmt";
  for (int k = 0; k < 4; k++) {
    uint64_t sel = how >> 4 * k & 15, byte = pool >> 8 * (sel & 7) & 0xff;
    if (sel & 8)
      byte = byte & 0x80 ? 0xff : 0;
    r |= byte << 8 * k;
  }
  ptx_set(t, &i->operands[0], u32, r);
  return NULL;
}

/* shf.l.wrap.b32 d, low, high, n */
static const char *
funnel_shift(struct thread *t, ins i)
{
  static const struct ptx_type u32 = {PTX_UNSIGNED, 32, false};
  uint64_t v =
      ptx_get(t, &i->operands[1], u32) | ptx_get(t, &i->operands[2], u32) << 32;
  uint64_t n = ptx_get(t, &i->operands[3], u32);
  n = ptx_has(i, "wrap") ? n & 31 : n > 32 ? 32 : n;
  ptx_set(t, &i->operands[0], u32, ptx_has(i, "l") ? (v << n) >> 32 : v >> n);
  return NULL;
}

static const char *
logic3(struct thread *t, ins i)
{
  static const struct ptx_type u32 = {PTX_UNSIGNED, 32, false};
  uint64_t x[3], table = i->operands[4].value, r = 0;
  for (int k = 0; k < 3; k++)
    x[k] = ptx_get(t, &i->operands[k + 1], u32);
  for (int k = 0; k < 32; k++) {
    uint64_t row =
        (x[0] >> k & 1) << 2 | (x[1] >> k & 1) << 1 | (x[2] >> k & 1);
    r |= (table >> row & 1) << k;
  }
  ptx_set(t, &i->operands[0], u32, r);
  return NULL;
}

/* dp4a, dp2a.lo and dp2a.hi */
static const char *
dot_product(struct thread *t, ins i)
{
  static const struct ptx_type u32 = {PTX_UNSIGNED, 32, false};
  bool two = i->words[0][2] == '2';
  int width = two ? 16 : 8, first = ptx_has(i, "hi") ? 2 : 0;
  struct ptx_type at = i->types[0], bt = i->types[1];
  uint64_t a = ptx_get(t, &i->operands[1], u32),
           b = ptx_get(t, &i->operands[2], u32),
           c = ptx_get(t, &i->operands[3], u32);
  at.bits = width;
  bt.bits = 8;
  for (int k = 0; k < (two ? 2 : 4); k++)
    c += ptx_extend(at, a >> width * k) * ptx_extend(bt, b >> 8 * (first + k));
  ptx_set(t, &i->operands[0], u32, c);
  return NULL;
}

/* ---- both -------------------------------------------------------------- */

static const char *
float_extreme(struct thread *t, ins i)
{
  struct ptx_type type = i->types[0], one = type;
  uint64_t x = ptx_get(t, &i->operands[1], type),
           y = ptx_get(t, &i->operands[2], type), r = 0;
  one.pair = false;
  for (int lane = 0; lane <= type.pair; lane++) {
    double a = ptx_bits_float(one, x >> 16 * lane),
           b = ptx_bits_float(one, y >> 16 * lane), v;
    v = i->op == PTX_MAX ? fmax(a, b) : fmin(a, b);
    if (a == 0 && b == 0) /* -0 is less than 0 */
      v = (i->op == PTX_MAX) == !signbit(a) ? a : b;
    if (ptx_has(i, "NaN") && (isnan(a) || isnan(b)))
      v = NAN;
    r |= ptx_float_bits(one, v) << 16 * lane;
  }
  ptx_set(t, &i->operands[0], type, r);
  return NULL;
}

/* neg and abs: of the bits of the sign. */
static const char *
float_sign(struct thread *t, ins i)
{
  struct ptx_type type = i->types[0];
  uint64_t sign = UINT64_C(1) << (type.bits - 1);
  uint64_t a = ptx_get(t, &i->operands[1], type);
  if (type.pair)
    sign |= sign << 16;
  ptx_set(t, &i->operands[0], type, i->op == PTX_NEG ? a ^ sign : a & ~sign);
  return NULL;
}

static const char *
arithmetic(struct thread *t, ins i)
{
  if (!is_float(i->types[0]))
    return i->op == PTX_MUL || i->op == PTX_MAD ? multiply(t, i)
                                                : integer_arithmetic(t, i);
  if (i->op == PTX_MIN || i->op == PTX_MAX)
    return float_extreme(t, i);
  if (i->op == PTX_NEG || i->op == PTX_ABS)
    return float_sign(t, i);
  return float_arithmetic(t, i);
}

static bool
compare_floats(const char *w, double a, double b)
{
  bool unordered = isnan(a) || isnan(b);
  size_t n = strlen(w);
  if (strcmp(w, "num") == 0)
    return !unordered;
  if (strcmp(w, "nan") == 0)
    return unordered;
  if (unordered)
    return n == 3;
  return w[0] == 'e'                  ? a == b
         : w[0] == 'n'                ? a != b
         : w[0] == 'l' && w[1] == 't' ? a < b
         : w[0] == 'l'                ? a <= b
         : w[1] == 't'                ? a > b
                                      : a >= b;
}

static bool
compare_integers(const char *w, struct ptx_type t, uint64_t a, uint64_t b)
{
  bool less = t.class == PTX_SIGNED ? (int64_t)a < (int64_t)b : a < b;
  if (strcmp(w, "eq") == 0)
    return a == b;
  if (strcmp(w, "ne") == 0)
    return a != b;
  if (strcmp(w, "lt") == 0 || strcmp(w, "lo") == 0)
    return less;
  if (strcmp(w, "le") == 0 || strcmp(w, "ls") == 0)
    return less || a == b;
  if (strcmp(w, "gt") == 0 || strcmp(w, "hi") == 0)
    return !less && a != b;
  return !less; /* ge, hs */
}

static bool
compare(struct thread *t, ins i, struct ptx_type type, int first)
{
  const struct ptx_operand *o = i->operands + first;
  return is_float(type)
             ? compare_floats(i->words[1], ptx_get_float(t, o, type),
                              ptx_get_float(t, o + 1, type))
             : compare_integers(i->words[1], type, ptx_get(t, o, type),
                                ptx_get(t, o + 1, type));
}

/* setp.lt[.and].s32 p, a, b [, c]; no second predicate. */
static const char *
set_predicate(struct thread *t, ins i)
{
  static const struct ptx_type predicate = {PTX_BITS, 1, false};
  bool combines = i->n == 4;
  bool r = compare(t, i, i->types[0], 1);
  bool c = combines && ptx_get(t, &i->operands[3], predicate);
  if (ptx_has(i, "and"))
    r = r && c;
  else if (ptx_has(i, "or"))
    r = r || c;
  else if (ptx_has(i, "xor"))
    r = r != c;
  else if (combines)
    return "two predicates";
  ptx_set(t, &i->operands[0], predicate, r);
  return NULL;
}

/* set.lt.u32.f32: all bits, or 1.0 */
static const char *
set_number(struct thread *t, ins i)
{
  bool r = compare(t, i, ptx_type(i, 1), 1);
  if (is_float(i->types[0]))
    ptx_set_float(t, &i->operands[0], i->types[0], r);
  else
    ptx_set(t, &i->operands[0], i->types[0], r ? ~UINT64_C(0) : 0);
  return NULL;
}

static const char *
select_one(struct thread *t, ins i)
{
  static const struct ptx_type predicate = {PTX_BITS, 1, false};
  bool c = ptx_get(t, &i->operands[3], predicate);
  ptx_set(t, &i->operands[0], i->types[0],
          ptx_get(t, &i->operands[c ? 1 : 2], i->types[0]));
  return NULL;
}

/* mov; of vectors: the parts of a register. */
static const char *
move(struct thread *t, ins i)
{
  const struct ptx_operand *to = &i->operands[0], *from = &i->operands[1];
  struct ptx_type type = i->types[0], part = {PTX_BITS, 0, false};
  int n = to->kind == PTX_VECTOR_OF ? to->n : from->n;
  uint64_t v = 0;
  if (n > 0)
    part.bits = type.bits / n;
  if (from->kind == PTX_VECTOR_OF)
    for (int k = 0; k < n; k++)
      v |= ptx_get(t, &from->items[k], part) << part.bits * k;
  else
    v = ptx_get(t, from, type);
  if (to->kind == PTX_VECTOR_OF)
    for (int k = 0; k < n; k++)
      ptx_set(t, &to->items[k], part, v >> part.bits * k);
  else
    ptx_set(t, to, type, v);
  return NULL;
}

/* ---- conversions ------------------------------------------------------- */

static double
to_integral(ins i, double v)
{
  if (ptx_has(i, "rzi"))
    return trunc(v);
  if (ptx_has(i, "rmi"))
    return floor(v);
  if (ptx_has(i, "rpi"))
    return ceil(v);
  return ptx_has(i, "rni") ? nearbyint(v) : v;
}

static uint64_t
float_to_integer(ins i, struct ptx_type to, double v)
{
  bool is_signed = to.class == PTX_SIGNED;
  double low = is_signed ? -ldexp(1, to.bits - 1) : 0;
  double high = ldexp(1, is_signed ? to.bits - 1 : to.bits);
  v = to_integral(i, v);
  if (isnan(v))
    return 0;
  if (v <= low)
    return is_signed ? ~UINT64_C(0) << (to.bits - 1) : 0;
  if (v >= high)
    return is_signed ? (UINT64_C(1) << (to.bits - 1)) - 1 : ~UINT64_C(0);
  return is_signed ? (uint64_t)(int64_t)v : (uint64_t)v;
}

static uint64_t
integer_to_integer(ins i, struct ptx_type to, struct ptx_type from, uint64_t v)
{
  if (!i->sat)
    return v;
  __int128 x = from.class == PTX_SIGNED ? (__int128)(int64_t)v : (__int128)v;
  __int128 low = to.class == PTX_SIGNED ? -((__int128)1 << (to.bits - 1)) : 0;
  __int128 high = ((__int128)1 << (to.bits - (to.class == PTX_SIGNED))) - 1;
  return (uint64_t)(x < low ? low : x > high ? high : x);
}

/* Rounded once: of 64 bits, too. */
static uint64_t
integer_to_float(ins i, struct ptx_type to, struct ptx_type from, uint64_t v)
{
  bool is_signed = from.class == PTX_SIGNED;
  volatile float f;
  volatile double d;
  set_rounding(i, i->rounding);
  f = is_signed ? (float)(int64_t)v : (float)v;
  d = is_signed ? (double)(int64_t)v : (double)v;
  set_rounding(i, FE_TONEAREST);
  return ptx_float_bits(to, to.bits == 32 ? f : d);
}

static uint64_t
float_to_float(ins i, struct ptx_type to, struct ptx_type from, double v)
{
  if (to.bits == from.bits)
    v = to_integral(i, v);
  v = finish(i, v);
  if (to.bits == 32 && from.bits == 64) {
    volatile float f;
    set_rounding(i, i->rounding);
    f = (float)v;
    set_rounding(i, FE_TONEAREST);
    v = f;
  }
  return ptx_float_bits(to, v);
}

static const char *
convert(struct thread *t, ins i)
{
  struct ptx_type to = i->types[0], from = ptx_type(i, 1);
  uint64_t v = ptx_get(t, &i->operands[1], from), r;
  if (to.bits == 16 && is_float(to) && !ptx_has(i, "rn"))
    return "a rounding";
  if (to.pair) { /* the first operand becomes the upper half */
    struct ptx_type one = to;
    one.pair = false;
    uint64_t low = ptx_get(t, &i->operands[2], from);
    r = float_to_float(i, one, from, ptx_bits_float(from, v)) << 16 |
        float_to_float(i, one, from, ptx_bits_float(from, low));
  } else if (is_float(from)) {
    double x = ptx_bits_float(from, v);
    r = is_float(to) ? float_to_float(i, to, from, x)
                     : float_to_integer(i, to, x);
  } else {
    r = is_float(to) ? integer_to_float(i, to, from, v)
                     : integer_to_integer(i, to, from, v);
  }
  /* The register may be wider: what is signed is extended. */
  ptx_set(t, &i->operands[0], to, r);
  return NULL;
}

/* ---- names ------------------------------------------------------------- */

/* What changes no result here. */
static const char *const ignored[] = {"ftz",  "approx", "full", "rn",
                                      "lo",   "relu",   "NaN",  "clamp",
                                      "wrap", "l",      "r"};

static bool
is_known(const struct ptx_instruction *i, int k)
{
  static const char *const words[] = {
      "rz",       "rm",     "rp",         "rni",    "rzi",      "rmi",
      "rpi",      "sat",    "hi",         "wide",   "and",      "or",
      "xor",      "eq",     "ne",         "lt",     "le",       "gt",
      "ge",       "ls",     "hs",         "ltu",    "leu",      "gtu",
      "geu",      "equ",    "neu",        "num",    "nan",      "finite",
      "infinite", "number", "notanumber", "normal", "subnormal"};
  for (size_t n = 0; n < sizeof ignored / sizeof *ignored; n++)
    if (strcmp(ignored[n], i->words[k]) == 0)
      return true;
  for (size_t n = 0; n < sizeof words / sizeof *words; n++)
    if (strcmp(words[n], i->words[k]) == 0)
      return true;
  return strpbrk(i->words[k], "0123456789") || strcmp(i->words[k], "pred") == 0;
}

bool
ptx_find(struct ptx_instruction *i)
{
  static const struct {
    const char *name;
    ptx_fn *fn;
    enum ptx_op op;
  } names[] = {{"add", arithmetic, PTX_ADD},
               {"sub", arithmetic, PTX_SUB},
               {"mul", arithmetic, PTX_MUL},
               {"mad", arithmetic, PTX_MAD},
               {"fma", arithmetic, PTX_FMA},
               {"div", arithmetic, PTX_DIV},
               {"rem", arithmetic, PTX_REM},
               {"min", arithmetic, PTX_MIN},
               {"max", arithmetic, PTX_MAX},
               {"and", arithmetic, PTX_AND},
               {"or", arithmetic, PTX_OR},
               {"xor", arithmetic, PTX_XOR},
               {"not", arithmetic, PTX_NOT},
               {"neg", arithmetic, PTX_NEG},
               {"abs", arithmetic, PTX_ABS},
               {"shl", arithmetic, PTX_SHL},
               {"shr", arithmetic, PTX_SHR},
               {"sqrt", float_function, PTX_OTHER},
               {"rcp", float_function, PTX_OTHER},
               {"rsqrt", float_function, PTX_OTHER},
               {"ex2", float_function, PTX_OTHER},
               {"lg2", float_function, PTX_OTHER},
               {"sin", float_function, PTX_OTHER},
               {"cos", float_function, PTX_OTHER},
               {"tanh", float_function, PTX_OTHER},
               {"copysign", copy_sign, PTX_OTHER},
               {"testp", test_property, PTX_OTHER},
               {"popc", count_bits, PTX_OTHER},
               {"clz", count_bits, PTX_OTHER},
               {"brev", count_bits, PTX_OTHER},
               {"bfe", bit_field, PTX_OTHER},
               {"bfi", bit_field, PTX_OTHER},
               {"prmt", permute, PTX_OTHER},
               {"shf", funnel_shift, PTX_OTHER},
               {"lop3", logic3, PTX_OTHER},
               {"dp4a", dot_product, PTX_OTHER},
               {"dp2a", dot_product, PTX_OTHER},
               {"setp", set_predicate, PTX_OTHER},
               {"set", set_number, PTX_OTHER},
               {"selp", select_one, PTX_OTHER},
               {"mov", move, PTX_OTHER},
               {"cvt", convert, PTX_OTHER}};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (strcmp(names[k].name, i->words[0]) == 0) {
      i->fn = names[k].fn;
      i->op = names[k].op;
      i->rounding = rounding(i);
      i->sat = ptx_has(i, "sat");
      i->relu = ptx_has(i, "relu");
      i->high = ptx_has(i, "hi");
      i->wide = ptx_has(i, "wide");
      for (int w = 1; w < i->nwords; w++)
        if (!is_known(i, w))
          return false;
      return i->ntypes > 0 && i->n >= 2;
    }
  return false;
}
