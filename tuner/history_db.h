/* What history.c and history_admin.c share: the handle and SQLite's words. */
#ifndef TT_HISTORY_DB_H
#define TT_HISTORY_DB_H

#include <sqlite3.h>

#include "tuner/history.h"

struct tt_history {
  sqlite3 *db;
  bool sound; /* the file passed SQLite's check: it may be written */
};

/* One line for an SQLite result code; a constant. */
const char *tt_db_error(int rc);
/* Prepare; NULL and *error on failure.  Ended by sqlite3_finalize(). */
sqlite3_stmt *tt_db_prepare(struct tt_history *, const char *sql,
                            const char **error);
/* Run statements without results. */
bool tt_db_exec(struct tt_history *, const char *sql, const char **error);
/* Ids of the workload's program and target.  `create`: add what is missing.
 * 1; 0: not there; -1: *error. */
int tt_db_workload(struct tt_history *, const struct tt_workload *, bool create,
                   sqlite3_int64 id[2], const char **error);
/* A file that will be written is checked once: adding to a damaged one could
 * lose what can still be read. */
bool tt_db_sound(struct tt_history *, const char **error);
/* Columns from..: schedule, config, outcome, seconds, spread, max_error,
 * build_seconds, run_seconds, message. */
#define TT_RECORD_COLUMNS                                                      \
  "r.schedule, r.config, r.outcome, r.seconds, r.spread, r.max_error, "        \
  "r.build_seconds, r.run_seconds, r.message"
void tt_db_record(struct tt_arena *, sqlite3_stmt *, int from,
                  struct tt_record *out);
#define TT_FINISHED_COLUMNS                                                    \
  "f.schedule, f.seconds, f.plain_seconds, f.spent, f.max_error, f.trials"
void tt_db_finished(struct tt_arena *, sqlite3_stmt *, int from,
                    struct tt_finished *out);
/* A column's text copied to the arena; NULL for SQL's NULL. */
const char *tt_db_text(struct tt_arena *, sqlite3_stmt *, int column);
/* Now, in microseconds since 1970. */
int64_t tt_db_now(void);

#endif
