/* Records on their way to the history.
 *
 * Invariant: a record was written, or waits, or was lost with an error that
 * tt_recorder_flush() gave.
 */
#include "config.h"
#include "tuner/recorder.h"

#include <stdlib.h>
#include <string.h>

void
tt_recorder_init(struct tt_recorder *r, struct tt_history *history,
                 const struct tt_workload *workload, struct tt_arena *arena)
{
  memset(r, 0, sizeof *r);
  r->history = history;
  r->workload = workload;
  r->arena = arena;
}

void
tt_recorder_free(struct tt_recorder *r)
{
  free(r->items);
}

static void
keep(struct tt_recorder *r, const struct tt_record *record)
{
  struct tt_record copy = *record;

  copy.schedule = tt_arena_strdup(r->arena, record->schedule);
  if (record->config != NULL)
    copy.config = tt_arena_dup(r->arena, record->config,
                               (size_t)record->nknobs * sizeof(int));
  if (record->result.message != NULL)
    copy.result.message = tt_arena_strdup(r->arena, record->result.message);
  TT_PUSH(*r, copy);
}

void
tt_recorder_add(struct tt_recorder *r, const struct tt_record *record)
{
  const char *error;

  if (r->history == NULL)
    return;
  if (!r->failed && tt_history_add(r->history, r->workload, record, &error))
    return;
  r->failed = true;
  keep(r, record);
}

bool
tt_recorder_flush(struct tt_recorder *r, const char **error)
{
  int i = 0, n = r->n;

  while (i < n && tt_history_add(r->history, r->workload, &r->items[i], error))
    i++;
  r->n = 0;
  if (i < n)
    return false;
  r->failed = false;
  return true;
}
