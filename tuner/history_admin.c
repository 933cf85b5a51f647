/* What tcc-log does with a history: lists it, walks its rows, takes rows in
 * and prunes it.
 *
 * Invariant: rows come out of and go into the database whole, through one
 * struct, so that export, import and merge keep every column.
 */
#include "config.h"
#include "tuner/history_db.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define WORKLOAD_COLUMNS                                                       \
  "p.hash, p.text, t.target, t.compiler, t.options, s.source"
enum { WORKLOAD = 6 /* columns */ };
#define WORKLOAD_JOIN(x)                                                       \
  " JOIN programs p ON p.id = " x ".program"                                   \
  " JOIN targets t ON t.id = " x ".target"                                     \
  " LEFT JOIN sources s ON s.hash = p.hash "

static void
read_workload(struct tt_arena *arena, sqlite3_stmt *st, int from,
              struct tt_workload *w)
{
  w->program = tt_db_text(arena, st, from);
  w->text = tt_db_text(arena, st, from + 1);
  w->target = tt_db_text(arena, st, from + 2);
  w->compiler = tt_db_text(arena, st, from + 3);
  w->options = tt_db_text(arena, st, from + 4);
  w->source = tt_db_text(arena, st, from + 5);
}

int
tt_history_list(struct tt_history *h, struct tt_arena *arena,
                struct tt_history_entry **out, const char **error)
{
  static const char sql[] =
      "SELECT " WORKLOAD_COLUMNS ", count(r.id),"
      " count(r.id) FILTER (WHERE r.outcome <> 'ok'),"
      " min(r.seconds) FILTER (WHERE r.outcome = 'ok'),"
      " f.seconds, f.plain_seconds, max(coalesce(max(r.created), 0),"
      " coalesce(f.created, 0)) AS newest"
      " FROM (SELECT program, target FROM records UNION"
      "       SELECT program, target FROM finished) w" WORKLOAD_JOIN(
          "w") " LEFT JOIN records r ON r.program = w.program AND r.target = "
               "w.target"
               " LEFT JOIN finished f ON f.program = w.program AND f.target = "
               "w.target"
               " GROUP BY w.program, w.target ORDER BY newest, w.program, "
               "w.target";
  TT_VEC(struct tt_history_entry) v = {0};
  struct tt_history_entry e;
  sqlite3_stmt *st = tt_db_prepare(h, sql, error);
  int rc;

  *out = NULL;
  if (st == NULL)
    return -1;
  while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
    memset(&e, 0, sizeof e);
    read_workload(arena, st, 0, &e.workload);
    e.records = sqlite3_column_int(st, WORKLOAD);
    e.failures = sqlite3_column_int(st, WORKLOAD + 1);
    e.best = sqlite3_column_double(st, WORKLOAD + 2);
    e.finished = sqlite3_column_type(st, WORKLOAD + 3) != SQLITE_NULL;
    e.won = sqlite3_column_double(st, WORKLOAD + 3);
    e.plain = sqlite3_column_double(st, WORKLOAD + 4);
    e.last = sqlite3_column_int64(st, WORKLOAD + 5);
    TT_PUSH(v, e);
  }
  sqlite3_finalize(st);
  if (rc != SQLITE_DONE)
    *error = tt_db_error(rc);
  else if (v.n > 0)
    *out = tt_arena_dup(arena, v.items, (size_t)v.n * sizeof *v.items);
  free(v.items);
  return rc == SQLITE_DONE ? v.n : -1;
}

/* ---- walking ----------------------------------------------------------- */

/* Rows of one table.  `columns`: how many the table's own part has. */
static bool
each_of(struct tt_history *h, bool finished, tt_history_row_fn *fn, void *ctx,
        const char **error)
{
  static const char records[] =
      "SELECT " WORKLOAD_COLUMNS ", r.tool, r.created, " TT_RECORD_COLUMNS
      " FROM records r" WORKLOAD_JOIN("r") "ORDER BY r.created, r.id";
  static const char winners[] =
      "SELECT " WORKLOAD_COLUMNS ", f.tool, f.created, " TT_FINISHED_COLUMNS
      " FROM finished f" WORKLOAD_JOIN("f") "ORDER BY f.created";
  sqlite3_stmt *st = tt_db_prepare(h, finished ? winners : records, error);
  struct tt_arena *arena;
  struct tt_history_row row;
  bool ok = true;
  int rc = SQLITE_DONE;

  if (st == NULL)
    return false;
  arena = tt_arena_new();
  while (ok && (rc = sqlite3_step(st)) == SQLITE_ROW) {
    tt_arena_reset(arena);
    memset(&row, 0, sizeof row);
    row.is_finished = finished;
    read_workload(arena, st, 0, &row.workload);
    row.tool = tt_db_text(arena, st, WORKLOAD);
    row.created = sqlite3_column_int64(st, WORKLOAD + 1);
    if (finished)
      tt_db_finished(arena, st, WORKLOAD + 2, &row.finished);
    else
      tt_db_record(arena, st, WORKLOAD + 2, &row.record);
    ok = fn(ctx, &row, error);
  }
  tt_arena_free(arena);
  sqlite3_finalize(st);
  if (ok && rc != SQLITE_DONE) {
    *error = tt_db_error(rc);
    ok = false;
  }
  return ok;
}

bool
tt_history_each(struct tt_history *h, tt_history_row_fn *fn, void *ctx,
                const char **error)
{
  return each_of(h, false, fn, ctx, error) && each_of(h, true, fn, ctx, error);
}

/* ---- taking in --------------------------------------------------------- */

static void
bind_text(sqlite3_stmt *st, int column, const char *text)
{
  if (text != NULL)
    sqlite3_bind_text(st, column, text, -1, SQLITE_TRANSIENT);
}

/* SQLite stores NaN as NULL, which no column takes. */
static void
bind_real(sqlite3_stmt *st, int column, double v, double instead)
{
  sqlite3_bind_double(st, column, isnan(v) ? instead : v);
}

static void
bind_config(sqlite3_stmt *st, int column, const struct tt_record *r)
{
  struct tt_sb sb = {0};

  if (r->config == NULL)
    return;
  for (int i = 0; i < r->nknobs; i++)
    tt_sb_printf(&sb, i ? " %d" : "%d", r->config[i]);
  bind_text(st, column, tt_sb_str(&sb));
  tt_sb_free(&sb);
}

static void
bind_record(sqlite3_stmt *st, const struct tt_record *r)
{
  bind_text(st, 5, r->schedule ? r->schedule : "");
  bind_config(st, 6, r);
  bind_text(st, 7, tt_outcome_name(r->result.outcome));
  bind_real(st, 8, r->result.seconds, 0);
  bind_real(st, 9, r->result.spread, 0);
  bind_real(st, 10, r->result.max_error, INFINITY);
  bind_real(st, 11, r->result.build_seconds, 0);
  bind_real(st, 12, r->result.run_seconds, 0);
  bind_text(st, 13, r->result.message);
}

static void
bind_finished(sqlite3_stmt *st, const struct tt_finished *f)
{
  bind_text(st, 5, f->schedule ? f->schedule : "");
  bind_real(st, 6, f->seconds, 0);
  bind_real(st, 7, f->plain_seconds, 0);
  bind_real(st, 8, f->spent, 0);
  bind_real(st, 9, f->max_error, INFINITY);
  sqlite3_bind_int(st, 10, f->trials);
}

bool
tt_history_put(struct tt_history *h, const struct tt_history_row *row,
               int *added, const char **error)
{
  static const char record[] =
      "INSERT OR IGNORE INTO records(program, target, tool, created, schedule,"
      " config, outcome, seconds, spread, max_error, build_seconds,"
      " run_seconds, message) "
      " VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?)";
  static const char winner[] =
      "INSERT INTO finished(program, target, tool, created, schedule, seconds,"
      " plain_seconds, spent, max_error, trials) VALUES(?,?,?,?,?,?,?,?,?,?)"
      " ON CONFLICT DO UPDATE SET tool = excluded.tool,"
      " created = excluded.created, schedule = excluded.schedule,"
      " seconds = excluded.seconds, plain_seconds = excluded.plain_seconds,"
      " spent = excluded.spent, max_error = excluded.max_error,"
      " trials = excluded.trials WHERE excluded.created > finished.created";
  sqlite3_int64 id[2];
  sqlite3_stmt *st;
  int rc;

  *added = 0;
  if (tt_db_workload(h, &row->workload, true, id, error) != 1)
    return false;
  st = tt_db_prepare(h, row->is_finished ? winner : record, error);
  if (st == NULL)
    return false;
  sqlite3_bind_int64(st, 1, id[0]);
  sqlite3_bind_int64(st, 2, id[1]);
  bind_text(st, 3, row->tool ? row->tool : "");
  sqlite3_bind_int64(st, 4, row->created);
  if (row->is_finished)
    bind_finished(st, &row->finished);
  else
    bind_record(st, &row->record);
  rc = sqlite3_step(st);
  if (rc == SQLITE_DONE)
    *added = sqlite3_changes(h->db);
  else
    *error = tt_db_error(rc);
  sqlite3_finalize(st);
  return rc == SQLITE_DONE;
}

/* ---- pruning ----------------------------------------------------------- */

/* Run a statement with one integer; the rows it changed, or -1. */
static int
change(struct tt_history *h, const char *sql, int64_t value, const char **error)
{
  sqlite3_stmt *st = tt_db_prepare(h, sql, error);
  int rc;

  if (st == NULL)
    return -1;
  if (sqlite3_bind_parameter_count(st) > 0)
    sqlite3_bind_int64(st, 1, value);
  rc = sqlite3_step(st);
  if (rc != SQLITE_DONE)
    *error = tt_db_error(rc);
  sqlite3_finalize(st);
  return rc == SQLITE_DONE ? sqlite3_changes(h->db) : -1;
}

static int
prune_rows(struct tt_history *h, const struct tt_prune *p, const char **error)
{
  int total = 0, n;

#define STEP(cond, sql, value)                                                 \
  if (cond) {                                                                  \
    n = change(h, sql, value, error);                                          \
    if (n < 0)                                                                 \
      return -1;                                                               \
    total += n;                                                                \
  }
  STEP(p->failures, "DELETE FROM records WHERE outcome <> 'ok'", 0)
  STEP(p->before > 0, "DELETE FROM records WHERE created < ?", p->before)
  STEP(p->before > 0, "DELETE FROM finished WHERE created < ?", p->before)
  STEP(p->keep >= 0,
       "DELETE FROM records WHERE id IN (SELECT id FROM (SELECT id,"
       " row_number() OVER (PARTITION BY program, target"
       " ORDER BY outcome <> 'ok', seconds, id) AS place FROM records)"
       " WHERE place > ?)",
       p->keep)
#undef STEP
  if (change(
          h,
          "DELETE FROM programs WHERE id NOT IN"
          " (SELECT program FROM records UNION SELECT program FROM finished)",
          0, error) < 0 ||
      change(h,
             "DELETE FROM targets WHERE id NOT IN"
             " (SELECT target FROM records UNION SELECT target FROM finished)",
             0, error) < 0 ||
      change(
          h,
          "DELETE FROM sources WHERE hash NOT IN (SELECT hash FROM programs)",
          0, error) < 0)
    return -1;
  return total;
}

int
tt_history_prune(struct tt_history *h, const struct tt_prune *p,
                 const char **error)
{
  int n;

  if (!tt_history_begin(h, error))
    return -1;
  n = prune_rows(h, p, error);
  if (n < 0) {
    tt_history_rollback(h);
    return -1;
  }
  if (!tt_history_commit(h, error))
    return -1;
  /* Only a matter of size: another process reading the file may forbid it. */
  if (n > 0)
    sqlite3_exec(h->db, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE)", NULL, NULL,
                 NULL);
  return n;
}
