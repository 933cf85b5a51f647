/* Owns the loop over random pairs: a batch is one file for the compiler. */
#include "config.h"

#include "tests/random_pairs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

enum { BATCH = 40 };

void
fail_pair(const struct random_pair *p, const char *error)
{
  struct tt_sb sb = {0};
  tt_dump_program(&sb, p->program);
  tt_schedule_print(p->schedule, &sb);
  tt_dump_stmt(&sb, p->nest.body, 0);
  fprintf(stderr, "%s\nTT_RANDOM_SEED=%llu: %s\n", tt_sb_str(&sb),
          (unsigned long long)p->seed, error);
  tt_sb_free(&sb);
  fail();
}

void
check_pairs(uint64_t seed, uint64_t n, uint64_t refused, make_pair_fn *make)
{
  uint64_t end = seed + n, skipped = 0;
  while (seed < end) {
    struct tt_arena *ar = tt_arena_new();
    struct exec_case cases[BATCH];
    struct random_pair pairs[BATCH];
    int k = 0, failed;
    for (; k < BATCH && seed < end; seed++) {
      pairs[k] = (struct random_pair){.seed = seed};
      if (make(ar, &pairs[k], &cases[k]))
        k++;
      else
        skipped++;
    }
    const char *error = exec_c(ar, k, cases, 0, &failed);
    if (error)
      fail_pair(&pairs[failed], error);
    for (int i = 0; i < k; i++)
      tt_values_free(cases[i].in);
    tt_arena_free(ar);
  }
  assert_true(skipped * refused <= n || n < 10);
}

void
check_random_pairs(uint64_t n, uint64_t refused, make_pair_fn *make)
{
  const char *count = getenv("TT_RANDOM_COUNT");
  const char *start = getenv("TT_RANDOM_SEED");
  uint64_t seed = start ? strtoull(start, NULL, 10) : 1;
  if (start)
    n = 1;
  if (count)
    n = strtoull(count, NULL, 10);
  check_pairs(seed, n, refused, make);
}
