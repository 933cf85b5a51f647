/* Owns the comparison of raw outputs.  Blocks that are equal byte for byte
 * are right and cost a memcmp; only the others are looked at by element. */
#include "config.h"

#include "runtime/check.h"

#include <math.h>
#include <string.h>

#define BLOCK 1024 /* elements compared at once */

double
tt_check_element(enum tt_dtype t, const void *data, int64_t i)
{
  switch (t) {
  case TT_F64:
    return ((const double *)data)[i];
  case TT_F32:
    return ((const float *)data)[i];
  case TT_F16:
    return tt_f16_to_f64(((const uint16_t *)data)[i]);
  case TT_BF16:
    return tt_bf16_to_f32(((const uint16_t *)data)[i]);
  case TT_I8:
    return ((const int8_t *)data)[i];
  case TT_U8:
  case TT_BOOL:
    return ((const uint8_t *)data)[i];
  case TT_I16:
    return ((const int16_t *)data)[i];
  case TT_U16:
    return ((const uint16_t *)data)[i];
  case TT_I32:
    return ((const int32_t *)data)[i];
  case TT_U32:
    return ((const uint32_t *)data)[i];
  case TT_I64:
    return (double)((const int64_t *)data)[i];
  case TT_NDTYPES:
    break;
  }
  return 0;
}

double
tt_check_rms(enum tt_dtype t, const void *data, int64_t n)
{
  double sum = 0;
  int64_t m = 0;
  for (int64_t i = 0; i < n; i++) {
    double v = tt_check_element(t, data, i);
    if (isfinite(v)) {
      sum += v * v;
      m++;
    }
  }
  double rms = m ? sqrt(sum / (double)m) : 0;
  return isfinite(rms) ? rms : 0;
}

void
tt_check_poison(enum tt_dtype t, void *out, const void *reference, int64_t n)
{
  size_t bytes = (size_t)n * (size_t)tt_dtype_bytes(t);
  unsigned char *o = out;
  const unsigned char *r = reference;
  if (tt_dtype_is_float(t))
    memset(out, 0xff, bytes);
  else
    for (size_t i = 0; i < bytes; i++)
      o[i] = (unsigned char)~r[i];
}

/* Is it the very pattern that tt_check_poison() wrote into floats? */
static int
is_poison(enum tt_dtype t, const void *data, int64_t i)
{
  size_t bytes = (size_t)tt_dtype_bytes(t);
  const unsigned char *p = (const unsigned char *)data + (size_t)i * bytes;
  for (size_t k = 0; k < bytes; k++)
    if (p[k] != 0xff)
      return 0;
  return 1;
}

/* The error of one element as a share of the tolerance. */
static double
share(double got, double want, const struct tt_tolerance *tol, double rms)
{
  if (isnan(want) || isnan(got))
    return isnan(want) && isnan(got) ? 0 : HUGE_VAL;
  if (isinf(want) || isinf(got))
    return want == got ? 0 : HUGE_VAL;
  double scale = fabs(want) > rms ? fabs(want) : rms;
  double allowed = tol->rel * scale + tol->abs, error = fabs(got - want);
  if (error == 0)
    return 0;
  return allowed > 0 ? error / allowed : HUGE_VAL;
}

static void
wrong(struct tt_check *c, int64_t i, double got, double want)
{
  if (c->first < 0) {
    c->first = i;
    c->got = got;
    c->want = want;
  }
  c->wrong++;
}

static void
compare_block(enum tt_dtype t, const void *got, const void *want, int64_t lo,
              int64_t hi, const struct tt_tolerance *tol, double rms,
              struct tt_check *c)
{
  bool flt = tt_dtype_is_float(t);
  size_t bytes = (size_t)tt_dtype_bytes(t);
  for (int64_t i = lo; i < hi; i++) {
    size_t at = (size_t)i * bytes;
    if (!memcmp((const char *)got + at, (const char *)want + at, bytes))
      continue;
    double g = tt_check_element(t, got, i), w = tt_check_element(t, want, i);
    double e = share(g, w, tol, rms);
    /* Unequal integers of 64 bits may be equal as doubles. */
    if ((!flt && e == 0 && tol->rel == 0 && tol->abs == 0) ||
        (flt && is_poison(t, got, i)))
      e = HUGE_VAL;
    if (e > c->error)
      c->error = e;
    if (e > 1)
      wrong(c, i, g, w);
  }
}

void
tt_check_compare(enum tt_dtype t, const void *got, const void *want, int64_t n,
                 const struct tt_tolerance *tol, double rms,
                 struct tt_check *out)
{
  size_t bytes = (size_t)tt_dtype_bytes(t);
  *out = (struct tt_check){.first = -1};
  for (int64_t lo = 0; lo < n; lo += BLOCK) {
    int64_t hi = lo + BLOCK < n ? lo + BLOCK : n;
    size_t at = (size_t)lo * bytes;
    if (memcmp((const char *)got + at, (const char *)want + at,
               (size_t)(hi - lo) * bytes))
      compare_block(t, got, want, lo, hi, tol, rms, out);
  }
}
