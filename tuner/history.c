/* The history D in SQLite: opening, records, winners.
 *
 * Invariant: a file is changed only after it proved to be a sound database
 * of this program's schema; every record is a transaction of its own, so a
 * killed process loses nothing that was measured.
 */
#include "config.h"
#include "tuner/history_db.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000, SCHEMA = 1 };

/* "tcct": tells our files from other programs' databases. */
#define APPLICATION_ID "1952670580"

/* By hash: programs of files that an earlier version wrote have no source until
 * they are tuned again, and that version, which knows nothing of this table,
 * can go on using the file. */
#define SOURCES                                                                \
  " TABLE IF NOT EXISTS sources(hash TEXT PRIMARY KEY NOT NULL,"               \
  " source TEXT NOT NULL) WITHOUT ROWID;"

static const char schema[] =
    "CREATE TABLE programs(id INTEGER PRIMARY KEY, hash TEXT NOT NULL UNIQUE,"
    " text TEXT NOT NULL);"
    "CREATE TABLE targets(id INTEGER PRIMARY KEY, target TEXT NOT NULL,"
    " compiler TEXT NOT NULL, options TEXT NOT NULL,"
    " UNIQUE(target, compiler, options));"
    "CREATE TABLE records(id INTEGER PRIMARY KEY,"
    " program INTEGER NOT NULL REFERENCES programs,"
    " target INTEGER NOT NULL REFERENCES targets,"
    " schedule TEXT NOT NULL, config TEXT, outcome TEXT NOT NULL,"
    " seconds REAL NOT NULL, spread REAL NOT NULL, max_error REAL NOT NULL,"
    " build_seconds REAL NOT NULL, run_seconds REAL NOT NULL, message TEXT,"
    " tool TEXT NOT NULL, created INTEGER NOT NULL,"
    " UNIQUE(program, target, created, schedule));"
    "CREATE TABLE finished("
    " program INTEGER NOT NULL REFERENCES programs,"
    " target INTEGER NOT NULL REFERENCES targets,"
    " schedule TEXT NOT NULL, seconds REAL NOT NULL,"
    " plain_seconds REAL NOT NULL, spent REAL NOT NULL,"
    " max_error REAL NOT NULL, trials INTEGER NOT NULL,"
    " tool TEXT NOT NULL, created INTEGER NOT NULL,"
    " PRIMARY KEY(program, target));"
    "PRAGMA application_id=" APPLICATION_ID ";"
    "PRAGMA user_version=1;";

const char *
tt_db_error(int rc)
{
  switch (rc & 0xff) {
  case SQLITE_BUSY:
  case SQLITE_LOCKED:
    return "is locked by another process for more than 10 seconds";
  case SQLITE_NOTADB:
    return "is not a history file (not an SQLite database)";
  case SQLITE_CORRUPT:
    return "is damaged (a malformed SQLite database)";
  case SQLITE_FULL:
    return "cannot be written: no space left";
  case SQLITE_READONLY:
    return "cannot be written: read-only";
  case SQLITE_CANTOPEN:
    return "cannot be opened";
  case SQLITE_PERM:
  case SQLITE_AUTH:
    return "cannot be opened: permission denied";
  case SQLITE_IOERR:
    return "cannot be read or written: input/output error";
  default:
    return sqlite3_errstr(rc);
  }
}

sqlite3_stmt *
tt_db_prepare(struct tt_history *h, const char *sql, const char **error)
{
  sqlite3_stmt *st = NULL;
  int rc = sqlite3_prepare_v2(h->db, sql, -1, &st, NULL);

  if (rc == SQLITE_OK)
    return st;
  *error = tt_db_error(rc);
  sqlite3_finalize(st);
  return NULL;
}

bool
tt_db_exec(struct tt_history *h, const char *sql, const char **error)
{
  int rc = sqlite3_exec(h->db, sql, NULL, NULL, NULL);

  if (rc != SQLITE_OK)
    *error = tt_db_error(rc);
  return rc == SQLITE_OK;
}

/* The one integer that `sql` gives. */
static bool
query_int(struct tt_history *h, const char *sql, int64_t *out,
          const char **error)
{
  sqlite3_stmt *st = tt_db_prepare(h, sql, error);
  int rc;

  if (st == NULL)
    return false;
  rc = sqlite3_step(st);
  if (rc == SQLITE_ROW)
    *out = sqlite3_column_int64(st, 0);
  else
    *error = tt_db_error(rc);
  sqlite3_finalize(st);
  return rc == SQLITE_ROW;
}

int64_t
tt_db_now(void)
{
  struct timespec t;

  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

const char *
tt_db_text(struct tt_arena *arena, sqlite3_stmt *st, int column)
{
  const unsigned char *s = sqlite3_column_text(st, column);

  return s ? tt_arena_strdup(arena, (const char *)s) : NULL;
}

/* ---- opening ----------------------------------------------------------- */

/* Make the folders above `path`. */
static bool
make_folders(const char *path)
{
  char *copy = tt_xstrdup(path);
  bool ok = true;

  for (char *p = copy + 1; ok && *p != '\0'; p++)
    if (*p == '/') {
      *p = '\0';
      ok = mkdir(copy, 0700) == 0 || errno == EEXIST;
      *p = '/';
    }
  free(copy);
  return ok;
}

/* Is the database ours, of a schema we know?  Sets *empty for a new one. */
static bool
check_schema(struct tt_history *h, bool *empty, const char **error)
{
  int64_t version, app, tables;
  bool ok;

  /* Of one moment: another process may be creating the file. */
  if (!tt_db_exec(h, "SAVEPOINT look", error))
    return false;
  ok = query_int(h, "PRAGMA user_version", &version, error) &&
       query_int(h, "PRAGMA application_id", &app, error) &&
       query_int(h, "SELECT count(*) FROM sqlite_master", &tables, error);
  sqlite3_exec(h->db, "RELEASE look", NULL, NULL, NULL);
  if (!ok)
    return false;
  *empty = version == 0 && app == 0 && tables == 0;
  if (!*empty && app != atoll(APPLICATION_ID)) {
    *error = "is a database of another program";
    return false;
  }
  if (version > SCHEMA) {
    *error = "was written by a newer version of tcc-tune";
    return false;
  }
  return true;
}

/* Another process may be creating the same file: look again under a lock. */
static bool
create_schema(struct tt_history *h, const char **error)
{
  bool empty = false, ok;

  if (!tt_db_exec(h, "BEGIN IMMEDIATE", error))
    return false;
  ok = check_schema(h, &empty, error) &&
       (!empty || tt_db_exec(h, schema, error)) &&
       tt_db_exec(h, "COMMIT", error);
  if (!ok)
    sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL);
  return ok;
}

/* Switching to WAL needs the file alone for a moment, and SQLite does not
 * wait for that by itself. */
static bool
set_wal(struct tt_history *h, const char **error)
{
  int rc = SQLITE_BUSY;

  for (int ms = 0; ms < PATIENCE_MS; ms += 20) {
    rc = sqlite3_exec(h->db, "PRAGMA journal_mode=WAL", NULL, NULL, NULL);
    if ((rc & 0xff) != SQLITE_BUSY && (rc & 0xff) != SQLITE_LOCKED)
      break;
    sqlite3_sleep(20);
  }
  if (rc != SQLITE_OK)
    *error = tt_db_error(rc);
  return rc == SQLITE_OK;
}

/* A file of an earlier version gets the table of sources.  Of one that is
 * damaged or locked can be read what there is: then sources are kept for this
 * process alone. */
static bool
add_sources(struct tt_history *h, const char **error)
{
  const char *why = NULL;
  int64_t there = 0;

  if (!query_int(h, "SELECT count(*) FROM sqlite_master WHERE name = 'sources'",
                 &there, error))
    return false;
  return there > 0 ||
         (tt_db_sound(h, &why) && tt_db_exec(h, "CREATE" SOURCES, &why)) ||
         tt_db_exec(h, "CREATE TEMP" SOURCES, error);
}

static bool
set_up(struct tt_history *h, bool create, const char **error)
{
  bool empty;

  sqlite3_busy_timeout(h->db, PATIENCE_MS);
  if (!check_schema(h, &empty, error))
    return false;
  if (sqlite3_db_readonly(h->db, "main") == 1) {
    *error = tt_db_error(SQLITE_READONLY);
    return false;
  }
  if (empty && !create) {
    *error = "is empty";
    return false;
  }
  return set_wal(h, error) &&
         tt_db_exec(h, "PRAGMA synchronous=NORMAL", error) &&
         (!empty || create_schema(h, error)) && add_sources(h, error);
}

static struct tt_history *
open_file(const char *path, bool create, const char **error)
{
  struct tt_history *h;
  struct stat st;
  int rc;

  if (stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
    *error = "is a folder";
    return NULL;
  }
  h = tt_xmalloc(sizeof *h);
  memset(h, 0, sizeof *h);
  rc = sqlite3_open_v2(
      path, &h->db, SQLITE_OPEN_READWRITE | (create ? SQLITE_OPEN_CREATE : 0),
      NULL);
  if (rc == SQLITE_OK && set_up(h, create, error))
    return h;
  if (rc != SQLITE_OK)
    *error = tt_db_error(rc);
  tt_history_close(h);
  return NULL;
}

struct tt_history *
tt_history_open(const char *path, const char **error)
{
  if (!make_folders(path)) {
    *error = errno == EACCES || errno == EROFS
                 ? "cannot be created: permission denied"
             : errno == ENOSPC ? "cannot be created: no space left"
                               : "cannot be created: its folder cannot be made";
    return NULL;
  }
  return open_file(path, true, error);
}

struct tt_history *
tt_history_open_existing(const char *path, const char **error)
{
  if (access(path, F_OK) != 0) {
    *error = "does not exist";
    return NULL;
  }
  return open_file(path, false, error);
}

void
tt_history_close(struct tt_history *h)
{
  if (h == NULL)
    return;
  sqlite3_close(h->db);
  free(h);
}

const char *
tt_history_default_path(struct tt_arena *arena)
{
  const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

  /* The XDG specification: a relative path is to be ignored. */
  if (cache != NULL && cache[0] == '/')
    return tt_arena_printf(arena, "%s/tcc-tune/history.db", cache);
  if (home != NULL && home[0] != '\0')
    return tt_arena_printf(arena, "%s/.cache/tcc-tune/history.db", home);
  return NULL;
}

bool
tt_db_sound(struct tt_history *h, const char **error)
{
  sqlite3_stmt *st;
  const char *answer;
  int rc;

  if (h->sound)
    return true;
  st = tt_db_prepare(h, "PRAGMA quick_check(1)", error);
  if (st == NULL)
    return false;
  rc = sqlite3_step(st);
  answer = rc == SQLITE_ROW ? (const char *)sqlite3_column_text(st, 0) : NULL;
  h->sound = answer != NULL && strcmp(answer, "ok") == 0;
  if (!h->sound)
    *error = tt_db_error(rc == SQLITE_ROW ? SQLITE_CORRUPT : rc);
  sqlite3_finalize(st);
  return h->sound;
}

/* ---- workloads --------------------------------------------------------- */

/* Bind texts and step once.  1: a row (its first column in *id), 0: none. */
static int
step_texts(struct tt_history *h, const char *sql, int n,
           const char *const *texts, sqlite3_int64 *id, const char **error)
{
  sqlite3_stmt *st = tt_db_prepare(h, sql, error);
  int rc;

  if (st == NULL)
    return -1;
  for (int i = 0; i < n; i++)
    sqlite3_bind_text(st, i + 1, texts[i] ? texts[i] : "", -1, SQLITE_STATIC);
  rc = sqlite3_step(st);
  if (rc == SQLITE_ROW)
    *id = sqlite3_column_int64(st, 0);
  else if (rc != SQLITE_DONE)
    *error = tt_db_error(rc);
  sqlite3_finalize(st);
  return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : -1;
}

int
tt_db_workload(struct tt_history *h, const struct tt_workload *w, bool create,
               sqlite3_int64 id[2], const char **error)
{
  const char *program[2] = {w->program, w->text};
  const char *target[3] = {w->target, w->compiler, w->options};
  int got;

  if (create && w->source != NULL &&
      step_texts(h, "INSERT OR IGNORE INTO sources(hash, source) VALUES(?, ?)",
                 2, (const char *const[]){w->program, w->source}, id,
                 error) < 0)
    return -1;
  if (create &&
      (step_texts(h, "INSERT OR IGNORE INTO programs(hash, text) VALUES(?, ?)",
                  2, program, id, error) < 0 ||
       step_texts(h,
                  "INSERT OR IGNORE INTO targets(target, compiler, options)"
                  " VALUES(?, ?, ?)",
                  3, target, id, error) < 0))
    return -1;
  got = step_texts(h, "SELECT id FROM programs WHERE hash = ?", 1, program,
                   &id[0], error);
  if (got != 1)
    return got;
  return step_texts(h,
                    "SELECT id FROM targets"
                    " WHERE target = ? AND compiler = ? AND options = ?",
                    3, target, &id[1], error);
}

bool
tt_history_add_source(struct tt_history *h, const struct tt_workload *w,
                      const char **error)
{
  const char *const texts[2] = {w->program, w->source};
  sqlite3_int64 id;
  int got;

  if (w->source == NULL)
    return true;
  got = step_texts(h,
                   "SELECT 1 FROM programs p WHERE p.hash = ? AND NOT EXISTS"
                   " (SELECT 1 FROM sources s WHERE s.hash = p.hash)",
                   1, texts, &id, error);
  if (got != 1)
    return got == 0;
  return tt_db_sound(h, error) &&
         step_texts(h,
                    "INSERT OR IGNORE INTO sources(hash, source) VALUES(?, ?)",
                    2, texts, &id, error) >= 0;
}

/* ---- records ----------------------------------------------------------- */

bool
tt_history_begin(struct tt_history *h, const char **error)
{
  return tt_db_sound(h, error) && tt_db_exec(h, "BEGIN IMMEDIATE", error);
}

bool
tt_history_commit(struct tt_history *h, const char **error)
{
  if (tt_db_exec(h, "COMMIT", error))
    return true;
  tt_history_rollback(h);
  return false;
}

void
tt_history_rollback(struct tt_history *h)
{
  sqlite3_exec(h->db, "ROLLBACK", NULL, NULL, NULL);
}

/* One row in a transaction of its own. */
static bool
put_alone(struct tt_history *h, const struct tt_history_row *row,
          const char **error)
{
  int added;

  if (!tt_history_begin(h, error))
    return false;
  if (tt_history_put(h, row, &added, error))
    return tt_history_commit(h, error);
  tt_history_rollback(h);
  return false;
}

bool
tt_history_add(struct tt_history *h, const struct tt_workload *w,
               const struct tt_record *record, const char **error)
{
  struct tt_history_row row = {.is_finished = false,
                               .workload = *w,
                               .record = *record,
                               .tool = PACKAGE_VERSION,
                               .created = tt_db_now()};

  return put_alone(h, &row, error);
}

bool
tt_history_finish(struct tt_history *h, const struct tt_workload *w,
                  const struct tt_finished *finished, const char **error)
{
  struct tt_history_row row = {.is_finished = true,
                               .workload = *w,
                               .finished = *finished,
                               .tool = PACKAGE_VERSION,
                               .created = tt_db_now()};

  return put_alone(h, &row, error);
}

/* "3 0 12" -> values in the arena. */
static void
parse_config(struct tt_arena *arena, const char *text, struct tt_record *out)
{
  int n = 0, *config;
  char *end;

  out->config = NULL;
  out->nknobs = 0;
  if (text == NULL)
    return;
  for (const char *p = text; *p != '\0'; p++)
    n += *p != ' ' && (p == text || p[-1] == ' ');
  config = TT_ARRAY(arena, int, (size_t)n + 1);
  for (int i = 0; i < n; i++) {
    long v = strtol(text, &end, 10);
    config[i] = v < 0 || v > INT_MAX ? -1 : (int)v;
    if (end == text)
      return;
    text = end;
  }
  out->config = config;
  out->nknobs = n;
}

/* An outcome this version does not know is a failure of some kind. */
static enum tt_outcome
parse_outcome(const char *name)
{
  for (int i = 0; name != NULL && i < TT_NOUTCOMES; i++)
    if (strcmp(name, tt_outcome_name((enum tt_outcome)i)) == 0)
      return (enum tt_outcome)i;
  return TT_OUT_CRASH;
}

void
tt_db_record(struct tt_arena *arena, sqlite3_stmt *st, int from,
             struct tt_record *out)
{
  struct tt_result *r = &out->result;

  memset(out, 0, sizeof *out);
  out->schedule = tt_db_text(arena, st, from);
  parse_config(arena, (const char *)sqlite3_column_text(st, from + 1), out);
  r->outcome = parse_outcome((const char *)sqlite3_column_text(st, from + 2));
  r->seconds = sqlite3_column_double(st, from + 3);
  r->spread = sqlite3_column_double(st, from + 4);
  r->max_error = sqlite3_column_double(st, from + 5);
  r->build_seconds = sqlite3_column_double(st, from + 6);
  r->run_seconds = sqlite3_column_double(st, from + 7);
  r->message = tt_db_text(arena, st, from + 8);
}

void
tt_db_finished(struct tt_arena *arena, sqlite3_stmt *st, int from,
               struct tt_finished *out)
{
  memset(out, 0, sizeof *out);
  out->schedule = tt_db_text(arena, st, from);
  out->seconds = sqlite3_column_double(st, from + 1);
  out->plain_seconds = sqlite3_column_double(st, from + 2);
  out->spent = sqlite3_column_double(st, from + 3);
  out->max_error = sqlite3_column_double(st, from + 4);
  out->trials = sqlite3_column_int(st, from + 5);
}

int
tt_history_load(struct tt_history *h, struct tt_arena *arena,
                const struct tt_workload *w, struct tt_record **out,
                const char **error)
{
  TT_VEC(struct tt_record) v = {0};
  struct tt_record record;
  sqlite3_int64 id[2];
  sqlite3_stmt *st;
  int rc, found = tt_db_workload(h, w, false, id, error);

  *out = NULL;
  if (found != 1)
    return found;
  st = tt_db_prepare(h,
                     "SELECT " TT_RECORD_COLUMNS " FROM records r"
                     " WHERE r.program = ? AND r.target = ?"
                     " ORDER BY r.created, r.id",
                     error);
  if (st == NULL)
    return -1;
  sqlite3_bind_int64(st, 1, id[0]);
  sqlite3_bind_int64(st, 2, id[1]);
  while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
    tt_db_record(arena, st, 0, &record);
    TT_PUSH(v, record);
  }
  sqlite3_finalize(st);
  if (rc != SQLITE_DONE)
    *error = tt_db_error(rc);
  else if (v.n > 0)
    *out = tt_arena_dup(arena, v.items, (size_t)v.n * sizeof *v.items);
  free(v.items);
  return rc == SQLITE_DONE ? v.n : -1;
}

int
tt_history_finished(struct tt_history *h, struct tt_arena *arena,
                    const struct tt_workload *w, struct tt_finished *out,
                    const char **error)
{
  sqlite3_int64 id[2];
  sqlite3_stmt *st;
  int rc, found = tt_db_workload(h, w, false, id, error);

  if (found != 1)
    return found;
  st = tt_db_prepare(h,
                     "SELECT " TT_FINISHED_COLUMNS " FROM finished f"
                     " WHERE f.program = ? AND f.target = ?",
                     error);
  if (st == NULL)
    return -1;
  sqlite3_bind_int64(st, 1, id[0]);
  sqlite3_bind_int64(st, 2, id[1]);
  rc = sqlite3_step(st);
  if (rc == SQLITE_ROW)
    tt_db_finished(arena, st, 0, out);
  else if (rc != SQLITE_DONE)
    *error = tt_db_error(rc);
  sqlite3_finalize(st);
  return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : -1;
}
