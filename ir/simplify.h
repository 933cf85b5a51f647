/* Private to ir/: the parts of the simplifier. */
#ifndef TT_SIMPLIFY_H
#define TT_SIMPLIFY_H

#include "ir/bounds.h"

/* How many nodes a proof may look at: what keeps large bodies linear. */
enum { TT_SIMP_BUDGET = 200 };

struct tt_simp {
  struct tt_arena *arena;
  struct tt_factset facts;
};

/* simplify.c: any expression. */
const struct tt_expr *tt_simp(struct tt_simp *, const struct tt_expr *);
/* The same for a node that is no sum (in the sense of tt_sum_collect). */
const struct tt_expr *tt_simp_node(struct tt_simp *, const struct tt_expr *);
/* op(a, b) of simplified operands. */
const struct tt_expr *tt_simp_binary(struct tt_simp *, enum tt_binop,
                                     const struct tt_expr *a,
                                     const struct tt_expr *b);

/* simplify_index.c: i64 expressions, scalar or vector. */
const struct tt_expr *tt_simp_index(struct tt_simp *, const struct tt_expr *);
/* A sum of simplified terms. */
const struct tt_expr *tt_simp_sum(struct tt_simp *, const struct tt_expr *);
/* a / c and a % c of a simplified a; c > 0. */
const struct tt_expr *tt_simp_div(struct tt_simp *, const struct tt_expr *a,
                                  int64_t c);
const struct tt_expr *tt_simp_mod(struct tt_simp *, const struct tt_expr *a,
                                  int64_t c);
/* A comparison (LT, LE, EQ or NE) of simplified scalars that could not be
 * proven, in canonical form. */
const struct tt_expr *tt_simp_compare(struct tt_simp *, enum tt_binop,
                                      const struct tt_expr *a,
                                      const struct tt_expr *b);

/* simplify_stmt.c: does `body` leave alone what `cond` loads, so that cond
 * still holds after any part of it? */
bool tt_cond_is_stable(const struct tt_expr *cond, const struct tt_stmt *body);

#endif
