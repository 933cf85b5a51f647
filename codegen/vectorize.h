/* Parts of the vectorizer; private to codegen/vec*.c. */
#ifndef TT_CODEGEN_VECTORIZE_H
#define TT_CODEGEN_VECTORIZE_H

#include "codegen/internal.h"

/* Some consecutive values of the vector loop's variable. */
struct piece {
  const struct tt_expr *base; /* the first one */
  int64_t off; /* the same, counted from the first piece of the group */
  int lanes;
};

/* A local that was allocated inside the vector loop: every value of the
 * variable gets its own copy, as a new last dimension indexed from the start
 * of the group. */
struct private
{
  const struct tt_tensor *old, *new;
};

struct vec {
  struct pass *pass;
  struct tt_arena *arena;
  const struct tt_var *var;
  bool parts; /* a piece may be part of a vector: any number of lanes */
  int nprivate;
  const struct private *privates;
};

/* ---- vlegal.c ---- */
/* Can the iterations of the loop run interleaved, statement by statement?
 * True unless one could see what another one stores. */
bool tt_vec_independent(struct tt_arena *, const struct tt_stmt *loop);
/* Lanes to use for every vector loop of a statement: a power of two, such
 * that the widest type of the loop's arithmetic fits the target's vectors, and
 * equal for loops that share a local tensor, so that they slice it alike.
 * *parts: the loop's remainder may be part of a vector, because the machine has
 * masks for all that is loaded and stored, and no arithmetic traps in unused
 * lanes. */
struct vec_lanes;
struct vec_lanes *tt_vec_lanes(struct tt_arena *, const struct tt_stmt *,
                               const struct tt_codegen_options *);
int tt_vec_lanes_of(const struct vec_lanes *, const struct tt_stmt *loop,
                    bool *parts);
/* Is a register tensor indexed by the variable somewhere in the body? */
bool tt_vec_in_registers(const struct tt_var *, const struct tt_stmt *body);

/* ---- vexpr.c ---- */
/* Does the value differ between iterations? */
bool tt_vec_depends(const struct vec *, const struct tt_expr *);
/* The expression for all lanes of the piece: a vector, or a scalar when all
 * lanes agree.  NULL when there is no such form; *guard then is a condition
 * under which there would be one (NULL: none). */
const struct tt_expr *tt_vec_expr(const struct vec *, const struct piece *,
                                  const struct tt_expr *,
                                  const struct tt_expr **guard);
/* Indices of an access for all lanes; false when they are not affine. */
bool tt_vec_index(const struct vec *, const struct piece *,
                  const struct tt_tensor **, int *n,
                  const struct tt_expr *const **idx);
/* The expression for one lane: the variable is `value`, counted `off` from
 * the start of the group. */
const struct tt_expr *tt_vec_scalar(const struct vec *,
                                    const struct tt_expr *value,
                                    const struct tt_expr *off,
                                    const struct tt_expr *);
/* A scalar condition that holds only if `cond` holds in all lanes; NULL when
 * the ends do not tell. */
const struct tt_expr *tt_vec_all(const struct vec *, const struct piece *,
                                 const struct tt_expr *cond);

#endif
