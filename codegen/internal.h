/* What the passes of code generation share; private to codegen/. */
#ifndef TT_CODEGEN_INTERNAL_H
#define TT_CODEGEN_INTERNAL_H

#include "codegen/codegen.h"

/* The state of one run of the passes. */
struct pass {
  struct tt_arena *arena;
  const struct tt_codegen_options *options;
  int nextvar;       /* ids of fresh variables */
  bool ahead;        /* it is NAME_prepare that is made */
  const char *error; /* set by the first pass that cannot go on */
};

/* Each takes a statement and returns an equal one. */
/* Conditions are moved out of the loops on whose variables they do not
 * depend. */
const struct tt_stmt *tt_pass_hoist_ifs(struct pass *, const struct tt_stmt *);
const struct tt_stmt *tt_pass_partition(struct pass *, const struct tt_stmt *);
const struct tt_stmt *tt_pass_vectorize(struct pass *, const struct tt_stmt *);
const struct tt_stmt *tt_pass_unroll(struct pass *, const struct tt_stmt *);
const struct tt_stmt *tt_pass_transpose(struct pass *, const struct tt_stmt *);
/* Gives every TT_ALLOC a tensor of its own. */
const struct tt_stmt *tt_pass_unique_locals(struct pass *,
                                            const struct tt_stmt *);
const struct tt_stmt *tt_pass_join_ifs(struct pass *, const struct tt_stmt *);
const struct tt_stmt *tt_pass_promote(struct pass *, const struct tt_stmt *);
const struct tt_stmt *tt_pass_dots(struct pass *, const struct tt_stmt *);
const struct tt_stmt *tt_pass_drop_dead(struct pass *, const struct tt_stmt *);
/* Vectors that are stored lane by lane are all computed, then stored. */
const struct tt_stmt *tt_pass_gather(struct pass *, const struct tt_stmt *);
const struct tt_stmt *tt_pass_name_loads(struct pass *, const struct tt_stmt *);

/* All of them, top to bottom, and the verifier. */
const struct tt_stmt *tt_pass_all(struct pass *, const struct tt_stmt *);
/* The id of the first variable that a pass may make. */
int tt_next_var(const struct tt_nest *);

/* ---- util.c ------------------------------------------------------------ */

/* A new loop variable. */
const struct tt_var *tt_pass_var(struct pass *, const char *name,
                                 int64_t extent);
/* A copy of a local tensor to be changed; the caller owns nothing. */
struct tt_tensor *tt_pass_tensor(struct pass *, const struct tt_tensor *);
/* Largest id of a variable bound by a loop of the statement; -1: none. */
int tt_max_var(const struct tt_stmt *);

/* Calls `fn` for every statement, outer ones first. */
typedef void stmt_fn(void *ctx, const struct tt_stmt *);
void tt_walk(const struct tt_stmt *, stmt_fn *fn, void *ctx);
/* Calls `fn` for every expression of one statement (not of its children):
 * indices and value of a store, the condition of an if. */
void tt_own_exprs(const struct tt_stmt *,
                  void (*fn)(void *, const struct tt_expr *), void *ctx);
/* The same statement with other children: `fn` applied to each. */
typedef const struct tt_stmt *child_fn(void *ctx, const struct tt_stmt *);
const struct tt_stmt *tt_map_children(struct pass *, const struct tt_stmt *,
                                      child_fn *fn, void *ctx);

/* Memory access: a store or a load. */
struct access {
  const struct tt_tensor *tensor;
  int n;
  const struct tt_expr *const *idx;
  bool store;
};
struct accesses {
  struct access *items;
  int n, cap;
};
/* Appends all accesses of the statement; release with free(items). */
void tt_collect_accesses(const struct tt_stmt *, struct accesses *);

/* Lanes and stride of an access in the flattened tensor: the offset of lane
 * i is base + i * stride.  1 lane: the stride is 0. */
void tt_access_shape(const struct tt_tensor *, int n,
                     const struct tt_expr *const *idx, int *lanes,
                     int64_t *stride);
/* The flattened offset of lane 0. */
const struct tt_expr *tt_access_base(struct tt_arena *,
                                     const struct tt_tensor *, int n,
                                     const struct tt_expr *const *idx);

#endif
