/* Private to ir/: the value of one operation, for folding and interpreting. */
#ifndef TT_EVAL_H
#define TT_EVAL_H

#include "ir/ir.h"

/* A number of any type: f of a float type, i of the others. */
union tt_number {
  int64_t i;
  double f;
};

/* op(a, b) on operands of type t; the result has type t, or bool for
 * comparisons.  false where the language gives no value: an integer divided
 * by zero, a shift by less than 0 or by the width of the type or more. */
bool tt_eval_binary(enum tt_binop, enum tt_dtype t, union tt_number a,
                    union tt_number b, union tt_number *out);
/* fn(args) in type t; false as above, or for rdivp2 by an exponent outside
 * 0..31. */
bool tt_eval_call(enum tt_fn, enum tt_dtype t, const union tt_number *args,
                  union tt_number *out);
union tt_number tt_eval_neg(enum tt_dtype t, union tt_number a);
union tt_number tt_eval_not(enum tt_dtype t, union tt_number a);
/* Conversions: TT_CAST and TT_SAT. */
union tt_number tt_eval_cast(enum tt_dtype to, enum tt_dtype from,
                             union tt_number a);
union tt_number tt_eval_sat(enum tt_dtype to, enum tt_dtype from,
                            union tt_number a);

#endif
