/* Private to ir/: the store behind tt_values. */
#ifndef TT_VALUES_H
#define TT_VALUES_H

#include "ir/eval.h"
#include "ir/passes.h"

/* The elements of a tensor.  `written` is NULL while all of them count as
 * written, else a byte an element. */
struct tt_buffer {
  const struct tt_tensor *tensor;
  int64_t size;
  double *f;  /* of a float tensor */
  int64_t *i; /* of any other */
  unsigned char *written;
  bool done; /* tt_interpret_point: all elements are final */
};

/* The tensor's buffer, made and zeroed on first use (a TT_CONST one holds its
 * table); it never moves. */
struct tt_buffer *tt_values_buffer(struct tt_values *,
                                   const struct tt_tensor *);
/* No element counts as written from now on. */
void tt_buffer_poison(struct tt_buffer *);
/* Keep a copy of an error text until the next one; returns it. */
const char *tt_values_error(struct tt_values *, const char *text);

#endif
