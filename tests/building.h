/* Building candidates in tests. */
#ifndef TT_TESTS_BUILDING_H
#define TT_TESTS_BUILDING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/build.h"

static inline struct tt_builder *
builder(const char *cc, const char *cflags, int jobs, double timeout)
{
  char *error;
  struct tt_builder_options o = {
      .cc = cc, .cflags = cflags, .jobs = jobs, .timeout = timeout};
  struct tt_builder *b = tt_builder_new(&o, &error);
  if (!b)
    print_message("%s\n", error);
  assert_non_null(b);
  return b;
}

static inline struct tt_built
wait_built(struct tt_builder *b)
{
  struct tt_built built;
  while (!tt_builder_take(b, &built)) {
    struct tt_process *ps[8];
    int n = tt_builder_processes(b, ps, 8);
    assert_true(n > 0);
    tt_process_poll(ps, n, -1);
  }
  return built;
}

static inline struct tt_built
build_one(struct tt_builder *b, int id, const char *source)
{
  char *error;
  assert_true(tt_builder_start(b, false, id, source, strlen(source), &error));
  return wait_built(b);
}

#endif
