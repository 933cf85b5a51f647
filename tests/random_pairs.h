/* Random programs under random schedules, compiled and run some at a time. */
#ifndef TT_TESTS_RANDOM_PAIRS_H
#define TT_TESTS_RANDOM_PAIRS_H

#include "schedule/schedule.h"
#include "tests/exec_c.h"

struct random_pair {
  uint64_t seed;
  struct tt_program *program;
  struct tt_schedule *schedule;
  struct tt_nest nest;
};

/* Prints the pair with the seed that repeats it, and fails the test. */
void fail_pair(const struct random_pair *, const char *error);

/* Makes program, schedule and nest of the pair's seed, and the case to run;
 * its `in` is freed afterwards.  false: the pair is refused. */
typedef bool make_pair_fn(struct tt_arena *, struct random_pair *,
                          struct exec_case *);

/* The pairs of n seeds; of ten and more, one in `refused` may be refused, or
 * the test shows nothing. */
void check_pairs(uint64_t seed, uint64_t n, uint64_t refused, make_pair_fn *);
/* The same from the seed TT_RANDOM_SEED: TT_RANDOM_COUNT pairs, by default the
 * one of a given seed, or n from seed 1. */
void check_random_pairs(uint64_t n, uint64_t refused, make_pair_fn *);

#endif
