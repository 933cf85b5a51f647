/* Several inputs in one run: what each of them is written to. */
#ifndef TT_INPUTS_H
#define TT_INPUTS_H

#include "tuner/options.h"

/* The folders that were made for outputs. */
struct tt_folders {
  int n;
  const char *made[4]; /* owned by the arena */
};

/* The options of each input, *each (one for every o->inputs.items), owned by
 * the arena.  With one input and outputs that are no folders they are `o`.
 * Else -o is a folder, and input DIR/a.te is written to FOLDER/a.c; --header,
 * --emit-test and --emit-bench, if given, are folders too, for a.h, a_test.c
 * and a_bench.c.  NULL, or what is wrong. */
const char *tt_inputs_options(struct tt_arena *, const struct tt_options *o,
                              struct tt_options **each);
/* Make the folders of the options that are not there yet.  NULL, or why that
 * fails. */
const char *tt_inputs_folders(struct tt_arena *, const struct tt_options *o,
                              struct tt_folders *);
/* Remove those of them that have remained empty. */
void tt_inputs_tidy(const struct tt_folders *);

#endif
