/* Private to the generator of random programs: random values. */
#ifndef TT_RANDOM_VALUE_H
#define TT_RANDOM_VALUE_H

#include "ir/ir.h"

enum { MAX_TENSORS = 64, MAX_AXES = 8, STAGE_POINTS = 2500, POINTS = 14000 };

/* An expression with a bound of its absolute value (floats). */
struct rnd_val {
  const struct tt_expr *e;
  double mag;
  bool exact;
};

struct rnd {
  struct tt_arena *arena;
  struct tt_program *program;
  uint64_t seed, calls;
  int64_t points; /* left to spend */
  bool frozen;    /* this stage reads weights and constants alone */
  int nspatial, nreduce, naxes;
  const struct tt_var *axes[MAX_AXES]; /* spatial, then reduction */
  bool allow_where;
  const struct tt_expr *where;
  double mag[MAX_TENSORS]; /* by tensor id */
  bool exact[MAX_TENSORS];
};

int64_t rnd_pick(struct rnd *, int64_t n); /* 0..n-1 */
bool rnd_chance(struct rnd *, int percent);
enum tt_dtype rnd_any_dtype(struct rnd *);
int64_t rnd_extent(struct rnd *);

struct tt_tensor *rnd_add_tensor(struct rnd *, const char *prefix, enum tt_role,
                                 enum tt_dtype, int ndim, const int64_t *dims);
/* A new source of data: an input, a weight or a table. */
struct tt_tensor *rnd_add_source(struct rnd *, enum tt_dtype, int ndim,
                                 const int64_t *dims);
/* Something of this type to read, or NULL when there are too many tensors. */
struct tt_tensor *rnd_source(struct rnd *, enum tt_dtype, bool exact);
/* A result of an earlier stage, or NULL. */
struct tt_tensor *rnd_recent(struct rnd *);
/* Does it depend on weights and constants alone? */
bool rnd_is_frozen(const struct rnd *, const struct tt_tensor *);

const struct tt_expr *rnd_ref(struct rnd *, const struct tt_var *);
const struct tt_expr *rnd_plus(struct rnd *, const struct tt_expr *, int64_t c);
/* *all && c */
void rnd_conjoin(struct rnd *, const struct tt_expr **all,
                 const struct tt_expr *c);
const struct tt_expr *rnd_cond(struct rnd *, int depth);
struct rnd_val rnd_value(struct rnd *, enum tt_dtype, int depth);
/* Clamped to -to..to when it might be outside. */
struct rnd_val rnd_limit(struct rnd *, struct rnd_val, double to);
struct rnd_val rnd_float_call(struct rnd *, struct rnd_val);

#endif
