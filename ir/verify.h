/* Private to ir/: the verifier's state and its check of expressions. */
#ifndef TT_VERIFY_H
#define TT_VERIFY_H

#include "ir/bounds.h"

struct tt_verifier {
  struct tt_arena *arena;
  struct tt_factset facts;
  const char *error; /* the first one */
  bool unrolled;     /* registers must have constant indices by now */
  TT_VEC(const struct tt_var *) vars; /* bound here */
  /* May this tensor be read here?  NULL, or why not ("is not defined"). */
  const char *(*unreadable)(void *ctx, const struct tt_tensor *);
  void *ctx;
};

void tt_verifier_fail(struct tt_verifier *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Types, lanes and bindings of all nodes, and every access proven inside. */
void tt_verify_expr(struct tt_verifier *, const struct tt_expr *);
/* The indices of an access: their number, types and bounds. */
void tt_verify_access(struct tt_verifier *, const struct tt_tensor *, int n,
                      const struct tt_expr *const *idx);

#endif
