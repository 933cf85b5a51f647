/* Private to ir/: compiled expressions of the interpreter. */
#ifndef TT_INTERP_H
#define TT_INTERP_H

#include "ir/values.h"

/* An expression with variables resolved to slots and tensors to buffers. */
struct tt_code;

/* Where a variable's value is kept while it runs. */
struct tt_scope_vars {
  int n;
  const struct tt_var *const *vars; /* vars[i] has slot i */
};

/* An element that is needed but not there yet (tt_interpret_point). */
struct tt_miss {
  const struct tt_tensor *tensor;
  int64_t at;
};

struct tt_run {
  int64_t *slots;
  bool failed;
  char error[240]; /* the first thing that went wrong */
  bool collect;    /* unwritten elements are misses, not errors */
  TT_VEC(struct tt_miss) misses;
};

/* Compile for these variables; `buffer_of` finds the buffer of a tensor that
 * is loaded, or gives NULL when it must not be.  NULL and an error in `run`
 * when something is not bound.  The code lives in the arena. */
typedef struct tt_buffer *tt_buffer_fn(void *ctx, const struct tt_tensor *);
struct tt_code *tt_code_new(struct tt_arena *, struct tt_run *,
                            const struct tt_expr *,
                            const struct tt_scope_vars *, tt_buffer_fn *,
                            void *ctx);
/* The value of a scalar; 0 once the run has failed. */
union tt_number tt_code_eval(struct tt_run *, const struct tt_code *);
/* All lanes of a scalar or vector into out[lanes]. */
void tt_code_eval_lanes(struct tt_run *, const struct tt_code *, int lanes,
                        union tt_number *out);
/* Offset of an element; fails the run (and gives 0) outside the tensor. */
int64_t tt_run_offset(struct tt_run *, const struct tt_tensor *,
                      const int64_t *idx, const char *what);
void tt_run_fail(struct tt_run *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

#endif
