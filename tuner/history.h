/* The history D: every measured schedule, in SQLite (WAL).
 *
 * Written as results come, so kill -9 loses at most what was in flight; two
 * processes may share a file.  A database of a newer schema, a damaged or a
 * locked one is reported and left alone.
 */
#ifndef TT_HISTORY_H
#define TT_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

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
  const char *source;   /* a .te text that means the program; or NULL */
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
/* Open, creating file and folders.  NULL and *error (one line without the
 * path, a constant: "is locked by another process") on failure. */
struct tt_history *tt_history_open(const char *path, const char **error);
/* The same for a file that must be there already. */
struct tt_history *tt_history_open_existing(const char *path,
                                            const char **error);
/* NULL is ignored. */
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
/* Keep the workload's source with the records of its program that were written
 * without one.  false: *error. */
bool tt_history_add_source(struct tt_history *, const struct tt_workload *,
                           const char **error);
/* Mark the workload as tuned: a budget of `trials`/`seconds` was spent and
 * `schedule` won with `seconds` a call, beside `plain` of the plain loops. */
struct tt_finished {
  const char *schedule;
  double seconds, plain_seconds, spent;
  double max_error; /* of the winner, as in tt_result */
  int trials;
};
bool tt_history_finish(struct tt_history *, const struct tt_workload *,
                       const struct tt_finished *, const char **error);
/* 1 and *out: a finished winner; 0: none; -1: *error. */
int tt_history_finished(struct tt_history *, struct tt_arena *,
                        const struct tt_workload *, struct tt_finished *out,
                        const char **error);

/* ---- history_admin.c: what tcc-log does -------------------------------- */

/* A workload in the list, owned by the arena. */
struct tt_history_entry {
  struct tt_workload workload;
  int records, failures;
  double best; /* seconds of the fastest record; 0: none */
  bool finished;
  double won, plain; /* seconds of the winner and of the plain loops */
  int64_t last;      /* time of the newest record, microseconds */
};
/* All workloads, by the time of their newest record.  Returns the number, or
 * -1 and *error. */
int tt_history_list(struct tt_history *, struct tt_arena *,
                    struct tt_history_entry **out, const char **error);

/* A row of the history: a record, or a finished winner. */
struct tt_history_row {
  bool is_finished;
  struct tt_workload workload;
  struct tt_record record;     /* !is_finished */
  struct tt_finished finished; /* is_finished */
  const char *tool;            /* version that wrote it */
  int64_t created;             /* microseconds since 1970 */
};
/* Call `fn` for every row (valid during the call) in order of time; a false
 * result ends it.  false: *error, or what `fn` left there. */
typedef bool tt_history_row_fn(void *ctx, const struct tt_history_row *,
                               const char **error);
bool tt_history_each(struct tt_history *, tt_history_row_fn *, void *ctx,
                     const char **error);

/* One transaction around what follows: all of it or nothing. */
bool tt_history_begin(struct tt_history *, const char **error);
bool tt_history_commit(struct tt_history *, const char **error);
void tt_history_rollback(struct tt_history *);
/* Insert a row; *added is 0 when the history has it already.  A finished row
 * replaces an older one of its workload. */
bool tt_history_put(struct tt_history *, const struct tt_history_row *,
                    int *added, const char **error);

/* The row as one line of JSON, without the newline, appended to `out`. */
void tt_history_row_json(const struct tt_history_row *, struct tt_sb *out);
/* The reverse; line[len] is NUL.  NULL, or what is wrong with the line; *row
 * and the message are owned by the arena. */
const char *tt_history_row_parse(struct tt_arena *, const char *line,
                                 size_t len, struct tt_history_row *row);

struct tt_prune {
  int64_t before; /* microseconds: drop older records and winners; 0: keep */
  int keep;       /* of each workload, the fastest records; < 0: all */
  bool failures;  /* drop records of failures */
};
/* Returns the number of rows dropped, or -1 and *error.  Shrinks the file. */
int tt_history_prune(struct tt_history *, const struct tt_prune *,
                     const char **error);

#endif
