/* How far an output may be from the reference.
 *
 * Inputs are small multiples of 1/64, so sums of products are exact for a
 * long while, and what differs is what was reordered or rounded:
 *
 *   floats    |got - want| <= tol * max(|want|, rms of the output); tol adds
 *             up, along the longest chain of stages, eps * (16 + 8 sqrt(R))
 *             for the arithmetic of a stage with a reduction of length R and
 *             2 eps for each rounding to another float type
 *   integers  equal, unless they come from floats that were made integers:
 *             then one more or less, or, when further stages compute with
 *             them, 2 % of max(|want|, rms) beside it; floats that depend on
 *             such integers get the 2 % too
 *
 * An output of few elements has no rms to speak of: its tol is eight times
 * as large.
 */
#ifndef TT_TOLERANCE_H
#define TT_TOLERANCE_H

#include "ir/ir.h"
#include "runtime/check.h"

/* The tolerance of an output of the program. */
struct tt_tolerance tt_output_tolerance(const struct tt_program *,
                                        const struct tt_tensor *output);

#endif
