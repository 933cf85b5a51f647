/* Inputs and reference of a measurer: filling the runner's memory, and
 * comparing what the plain loops computed with the interpreter. */
#ifndef TT_REFERENCE_H
#define TT_REFERENCE_H

#include "ir/passes.h"
#include "runtime/check.h"

/* Fills an input or weight with the interpreter's values for that seed. */
void tt_fill_input(const struct tt_tensor *, uint64_t seed, void *data);

/* Compares an output, as computed by the plain loops, with the interpreter at
 * a sample of points.  `values` holds the inputs, as tt_values_random() fills
 * them, and keeps what is computed on the way.  Returns NULL, or what differs,
 * owned by the arena.  Where code and interpreter differ visibly though not
 * wrongly, the tolerance is widened. */
const char *tt_check_reference(struct tt_arena *, const struct tt_program *,
                               struct tt_values *values,
                               const struct tt_tensor *output, uint64_t seed,
                               const void *data, struct tt_tolerance *);

#endif
