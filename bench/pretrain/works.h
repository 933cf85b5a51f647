/* Lists of programs, and what a history knows of them. */
#ifndef TT_BENCH_WORKS_H
#define TT_BENCH_WORKS_H

#include "tuner/trials.h"

struct work {
  const char *name; /* its line in the list */
  const char *hash;
  struct tt_program *program;
  struct tt_space *space;
  struct tt_trials trials;
};
struct works {
  struct tt_arena *arena;
  struct tt_target_model target; /* this machine, one core */
  struct tt_tune_options options;
  TT_VEC(struct work) all;
};

/* Read a list: a line has a file's name without .te, looked for in the list's
 * folder, in ../work and in ../../examples, and definitions.  vector_bits 0:
 * those of this machine.  false: what is wrong was printed. */
bool works_read(struct works *, struct tt_arena *, const char *path,
                int vector_bits);
/* Add the records of a history to the trials of its programs. */
bool works_load(struct works *, const char *history);
void works_free(struct works *);

/* Speed relative to the best of the work, 0: a failure. */
float work_speed(const struct work *, int trial);

#endif
