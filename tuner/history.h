/* The history D: every measured schedule, in SQLite (WAL).
 *
 * Written as results come, so kill -9 loses at most what was in flight; two
 * processes may share a file.  A database of a newer schema, a damaged or a
 * locked one is reported and left alone.
 */
#ifndef TT_HISTORY_H
#define TT_HISTORY_H

#include "tuner/measure.h"

struct tt_history;

/* What a record is valid for. */
struct tt_workload {
  const char *program;  /* tt_program_hash(): canonical, names do not matter */
  const char *text;     /* dump of the program, for people */
  const char *target;   /* CPU model and features */
  const char *compiler; /* version line of the compiler and the flags */
  const char *options;  /* what else changes the code: vector, threads,
                           strict-fp, workspace, std */
};

struct tt_record {
  const char *schedule; /* text form */
  const int *config;    /* NULL or nknobs values */
  int nknobs;
  struct tt_result result;
};

/* The canonical hash of a program, hex, owned by the arena. */
const char *tt_program_hash(struct tt_arena *, const struct tt_program *);

/* $XDG_CACHE_HOME/tcc-tune/history.db or ~/.cache/...; NULL when neither
 * variable is set.  Owned by the arena. */
const char *tt_history_default_path(struct tt_arena *);
/* Open, creating file and folders.  NULL and *error (one line) on failure. */
struct tt_history *tt_history_open(const char *path, const char **error);
void tt_history_close(struct tt_history *);
/* Add a record; false and *error when it could not be written (disk full,
 * locked for longer than the patience of 10 s). */
bool tt_history_add(struct tt_history *, const struct tt_workload *,
                    const struct tt_record *, const char **error);
/* All records of a workload, in order of time, owned by the arena.  Returns
 * the number, or -1 and *error. */
int tt_history_load(struct tt_history *, struct tt_arena *,
                    const struct tt_workload *, struct tt_record **out,
                    const char **error);
/* Mark the workload as tuned: a budget of `trials`/`seconds` was spent and
 * `schedule` won with `seconds` a call, beside `plain` of the plain loops. */
struct tt_finished {
  const char *schedule;
  double seconds, plain_seconds, spent;
  int trials;
};
bool tt_history_finish(struct tt_history *, const struct tt_workload *,
                       const struct tt_finished *, const char **error);
/* 1 and *out: a finished winner; 0: none; -1: *error. */
int tt_history_finished(struct tt_history *, struct tt_arena *,
                        const struct tt_workload *, struct tt_finished *out,
                        const char **error);

#endif
