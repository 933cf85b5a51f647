/* The schedules that are timed again in turns, and who wins. */
#ifndef TT_FINALISTS_H
#define TT_FINALISTS_H

#include "tuner/measure.h"

enum { TT_FINALISTS = 6 };

struct tt_finalists {
  int n;
  struct tt_schedule *schedules[TT_FINALISTS]; /* the incumbent first */
  const char *texts[TT_FINALISTS];
  struct tt_result results[TT_FINALISTS];
};

/* Add a schedule unless it is NULL, there already, or there are enough; its
 * text is owned by the arena. */
void tt_finalists_add(struct tt_arena *, struct tt_finalists *,
                      struct tt_schedule *, const struct tt_result *);
/* The fastest of those that were right, but the incumbent at 0 unless it is
 * beaten beyond noise; -1: none was right. */
int tt_finalists_winner(const struct tt_finalists *);

#endif
