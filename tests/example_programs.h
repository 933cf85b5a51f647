/* The examples as programs, of sizes that keep the interpreter short. */
#ifndef TT_EXAMPLE_PROGRAMS_H
#define TT_EXAMPLE_PROGRAMS_H

#include "frontend/frontend.h"

enum { TT_EXAMPLE_DEFINES = 6 };

struct example {
  const char *file;
  struct tt_define defines[TT_EXAMPLE_DEFINES];
};

extern const struct example tt_examples[];
extern const int tt_nexamples;

/* After the passes that precede schedules; `whole`: of the example's own
 * sizes.  NULL: it does not compile.  Owned by the arena. */
struct tt_program *tt_example_program(struct tt_arena *, const struct example *,
                                      bool whole);

#endif
