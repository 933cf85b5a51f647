/* Comparing a candidate's outputs with the reference. */
#ifndef TT_CHECK_H
#define TT_CHECK_H

#include <stdint.h>

#include "ir/types.h"

/* An element is right when |got - want| <= rel * max(|want|, rms) + abs, rms
 * being the root mean square of the whole reference.  Both 0: it must be
 * equal.  A NaN wants a NaN, an infinity the same one. */
struct tt_tolerance {
  double rel, abs;
};

struct tt_check {
  double error;     /* the largest error as a share of the tolerance */
  int64_t wrong;    /* how many elements are wrong */
  int64_t first;    /* the first of them; -1: none */
  double got, want; /* its values */
};

/* Root mean square of the finite elements. */
double tt_check_rms(enum tt_dtype, const void *data, int64_t n);
/* Fills an output so that no element is right by chance: NaN for floats,
 * else the complement of the reference. */
void tt_check_poison(enum tt_dtype, void *out, const void *reference,
                     int64_t n);
void tt_check_compare(enum tt_dtype, const void *got, const void *want,
                      int64_t n, const struct tt_tolerance *, double rms,
                      struct tt_check *out);
/* One element as a number. */
double tt_check_element(enum tt_dtype, const void *data, int64_t i);

#endif
