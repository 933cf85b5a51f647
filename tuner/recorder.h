/* Writes records to the history as they come, and keeps those that it does
 * not take. */
#ifndef TT_RECORDER_H
#define TT_RECORDER_H

#include "tuner/history.h"

struct tt_recorder {
  struct tt_history *history; /* NULL: nothing is kept */
  const struct tt_workload *workload;
  struct tt_arena *arena; /* owns what waits */
  bool failed;            /* the history did not take something */
  int n, cap;
  struct tt_record *items; /* what waits */
};

void tt_recorder_init(struct tt_recorder *, struct tt_history *,
                      const struct tt_workload *, struct tt_arena *);
void tt_recorder_free(struct tt_recorder *);
/* Write the record now.  After a failure records wait: a locked file would
 * cost its patience for every one of them. */
void tt_recorder_add(struct tt_recorder *, const struct tt_record *);
/* Try once more to write what waits.  false: *error; it is given up. */
bool tt_recorder_flush(struct tt_recorder *, const char **error);

#endif
