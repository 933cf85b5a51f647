/* Random legal schedules: primitives tried at random, refusals ignored. */
#ifndef TT_RANDOM_SCHEDULE_H
#define TT_RANDOM_SCHEDULE_H

#include "schedule/schedule.h"

/* Try `tries` primitives with random arguments.  Deterministic in the seed. */
struct tt_schedule *tt_random_schedule(struct tt_arena *,
                                       const struct tt_program *, uint64_t seed,
                                       int tries, bool strict_fp);

/* A random point of the space for GPUs, of a device drawn at random, too, or of
 * one of those that OpenCL has; NULL: none of some that were tried is legal. */
struct tt_schedule *tt_random_gpu_point(struct tt_arena *,
                                        const struct tt_program *,
                                        uint64_t seed, bool opencl);

#endif
