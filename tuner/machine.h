/* A machine described on the command line: --target. */
#ifndef TT_MACHINE_H
#define TT_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/arena.h"

/* What is said of it; -1: nothing. */
struct tt_machine {
  bool given;
  int64_t vector; /* bits; 0: none */
  int64_t registers;
  int64_t l1, l2, l3; /* bytes */
  int64_t sm;         /* of CUDA: 10 times the compute capability */
  int64_t processors; /* of a GPU */
  int64_t shared;     /* bytes that its blocks may share */
};

struct tt_machine tt_machine_unknown(void);
/* "c", "c:vector=256,l1=32K", "cuda:sm_90" or "cuda:sm_90:processors=114".
 * false and *error, one line owned
 * by the arena, without changing the machine. */
bool tt_machine_parse(struct tt_arena *, const char *text, struct tt_machine *,
                      const char **error);
/* The text that reads back to it, the same for all that mean the same. */
void tt_machine_print(const struct tt_machine *, struct tt_sb *);

#endif
