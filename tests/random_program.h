/* Random valid programs, for tests of schedules and code generation. */
#ifndef TT_RANDOM_PROGRAM_H
#define TT_RANDOM_PROGRAM_H

#include "ir/ir.h"

/* A small program, a function of the seed alone; owned by the arena.  It
 * passes tt_verify_program(), costs the interpreter at most about 20,000 points
 * and keeps floats finite (about -100..100).  What depends on a comparison, a
 * rounding to an integer or a conversion of floats depends on inputs and
 * constants alone, so that a sum in another order moves results a little but
 * never makes them jump.  Programs hold chains and DAGs of stages of all
 * types: elementwise ones, reductions of all kinds with and without `where`,
 * guarded, clamped, strided, dilated, fused and indirect accesses, scalars,
 * tables, weights with stages of preparation, several outputs. */
struct tt_program *tt_random_program(struct tt_arena *, uint64_t seed);

/* C[m, n] = T(sum[k](f32(A[m, k]) * f32(B[k, n]))), all of a 16-bit float. */
struct tt_program *tt_halves_program(struct tt_arena *, enum tt_dtype,
                                     int64_t m, int64_t n, int64_t k);
/* C[m,n] = sum[k](A[m,k] * B[k,n]) of f32, called mm. */
struct tt_program *tt_matmul_program(struct tt_arena *, int64_t m, int64_t n,
                                     int64_t k);

#endif
