/* Where the tensors of a nest lie in memory; private to codegen/. */
#ifndef TT_CODEGEN_PLAN_H
#define TT_CODEGEN_PLAN_H

#include "codegen/internal.h"

/* A tensor in the workspace: at `offset` bytes, plus `stride` for every
 * iteration of the parallel loop of `var` (NULL: not inside one). */
struct place {
  const struct tt_tensor *tensor;
  bool stack; /* an automatic array instead */
  int64_t offset;
  const struct tt_var *var;
  int64_t stride;
};

/* One function's memory. */
struct layout {
  struct place *items; /* sorted for tt_place_of */
  int n, cap;
  int64_t workspace; /* bytes */
  int64_t stack;     /* bytes of arrays that live at once */
};

struct plan {
  struct layout body, prepare;
  int64_t *prepared; /* offsets of nest->prepared, in bytes */
  int64_t scratch;   /* offset of prepare's workspace in `prepared` */
  struct tt_code_sizes sizes;
};

/* All offsets are multiples of 64.  NULL, or which size is over a limit.
 * Arrays are owned by the arena. */
const char *tt_plan(struct tt_arena *, const struct tt_nest *,
                    const struct tt_codegen_options *, struct plan *);
/* Every local as an automatic array, wherever it is allocated. */
void tt_plan_automatic(struct tt_arena *, const struct tt_stmt *,
                       struct layout *);
/* NULL: a parameter, a variable, a constant. */
const struct place *tt_place_of(const struct layout *,
                                const struct tt_tensor *);

#endif
