/* The history: what is stored comes back, two handles share a file, bad files
 * are refused and left alone, JSON lines round, pruning drops what it says. */
#include "config.h"

#include "tuner/history_db.h"

#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

struct fixture {
  struct tt_arena *arena;
  char dir[64];
  char path[96];
};

static const struct tt_workload work = {"0123456789abcdef0123456789abcdef",
                                        "C[4,4] = sum A*B",
                                        "cpu avx2",
                                        "gcc 12 -O3",
                                        "vector=32 threads=1",
                                        "input A[4]: f32; # \"odd\"\n"};

static int
setup(void **state)
{
  struct fixture *f = calloc(1, sizeof *f);

  f->arena = tt_arena_new();
  strcpy(f->dir, "/tmp/tt-history-XXXXXX");
  assert_non_null(mkdtemp(f->dir));
  snprintf(f->path, sizeof f->path, "%s/a/b/history.db", f->dir);
  *state = f;
  return 0;
}

static int
teardown(void **state)
{
  struct fixture *f = *state;
  char command[192];

  tt_arena_free(f->arena);
  snprintf(command, sizeof command, "chmod -R u+rwx %s; rm -rf %s", f->dir,
           f->dir);
  assert_int_equal(system(command), 0);
  free(f);
  return 0;
}

static struct tt_history *
must_open(const char *path)
{
  const char *error = NULL;
  struct tt_history *h = tt_history_open(path, &error);

  if (h == NULL)
    fail_msg("%s %s", path, error);
  return h;
}

static const int config[] = {3, 0, 12};

static struct tt_record
record(const char *schedule, enum tt_outcome outcome, double seconds)
{
  struct tt_record r = {schedule,
                        config,
                        3,
                        {.outcome = outcome,
                         .seconds = seconds,
                         .spread = 0.015625,
                         .max_error = 0.25,
                         .build_seconds = 0.1,
                         .run_seconds = 0.3,
                         .message = NULL}};
  return r;
}

static void
must_add(struct tt_history *h, const char *schedule, enum tt_outcome outcome,
         double seconds)
{
  struct tt_record r = record(schedule, outcome, seconds);
  const char *error = NULL;

  if (outcome != TT_OUT_OK)
    r.result.message = "line 1: \"odd\"\tword";
  assert_true(tt_history_add(h, &work, &r, &error));
}

static int
count(struct fixture *f, struct tt_history *h)
{
  struct tt_record *r;
  const char *error = NULL;
  int n = tt_history_load(h, f->arena, &work, &r, &error);

  assert_true(n >= 0);
  return n;
}

static void
test_round_trip(void **state)
{
  struct fixture *f = *state;
  struct tt_history *h = must_open(f->path);
  struct tt_workload other = work;
  struct tt_finished in = {"schedule { }", 0.1, 0.9, 61.5, 0.5, 77}, out;
  struct tt_record *r;
  const char *error = NULL;

  assert_int_equal(tt_history_load(h, f->arena, &work, &r, &error), 0);
  assert_int_equal(tt_history_finished(h, f->arena, &work, &out, &error), 0);
  must_add(h, "schedule { a; }", TT_OUT_OK, 1.0 / 3);
  must_add(h, "schedule { b; }", TT_OUT_WRONG, 0);
  assert_true(tt_history_finish(h, &work, &in, &error));
  tt_history_close(h);

  h = must_open(f->path);
  assert_int_equal(tt_history_load(h, f->arena, &work, &r, &error), 2);
  assert_string_equal(r[0].schedule, "schedule { a; }");
  assert_int_equal(r[0].nknobs, 3);
  assert_memory_equal(r[0].config, config, sizeof config);
  assert_true(r[0].result.seconds == 1.0 / 3);
  assert_true(r[0].result.spread == 0.015625);
  assert_null(r[0].result.message);
  assert_int_equal(r[1].result.outcome, TT_OUT_WRONG);
  assert_string_equal(r[1].result.message, "line 1: \"odd\"\tword");
  assert_int_equal(tt_history_finished(h, f->arena, &work, &out, &error), 1);
  assert_string_equal(out.schedule, in.schedule);
  assert_true(out.seconds == in.seconds && out.trials == 77 &&
              out.plain_seconds == in.plain_seconds &&
              out.max_error == in.max_error && out.spent == in.spent);
  /* Each part of the workload matters. */
  other.target = "cpu avx512";
  assert_int_equal(tt_history_load(h, f->arena, &other, &r, &error), 0);
  other = work;
  other.options = "vector=64 threads=1";
  assert_int_equal(tt_history_finished(h, f->arena, &other, &out, &error), 0);
  tt_history_close(h);
}

static void
test_finished_is_replaced(void **state)
{
  struct fixture *f = *state;
  struct tt_history *h = must_open(f->path);
  struct tt_finished a = {"schedule { a; }", 2, 9, 1, 0, 1}, out;
  struct tt_finished b = {"schedule { b; }", 1, 9, 1, 0, 1};
  const char *error = NULL;

  assert_true(tt_history_finish(h, &work, &a, &error));
  usleep(2000); /* times of rows are in microseconds */
  assert_true(tt_history_finish(h, &work, &b, &error));
  assert_int_equal(tt_history_finished(h, f->arena, &work, &out, &error), 1);
  assert_string_equal(out.schedule, b.schedule);
  tt_history_close(h);
}

static void
test_nan_is_stored(void **state)
{
  struct fixture *f = *state;
  struct tt_history *h = must_open(f->path);
  struct tt_record r = record("schedule { }", TT_OUT_WRONG, 0), *out;
  const char *error = NULL;

  r.config = NULL;
  r.nknobs = 0;
  r.result.max_error = NAN;
  r.result.spread = NAN;
  assert_true(tt_history_add(h, &work, &r, &error));
  assert_int_equal(tt_history_load(h, f->arena, &work, &out, &error), 1);
  assert_true(isinf(out[0].result.max_error));
  assert_true(out[0].result.spread == 0);
  assert_null(out[0].config);
  tt_history_close(h);
}

static void
test_two_processes(void **state)
{
  enum { CHILDREN = 3, EACH = 20 };
  struct fixture *f = *state;
  struct tt_history *h;
  int status;

  for (int c = 0; c < CHILDREN; c++) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
      const char *error = NULL;
      bool ok = true;
      h = tt_history_open(f->path, &error); /* all create it at once */
      for (int i = 0; ok && i < EACH; i++) {
        struct tt_record r = record("schedule { }", TT_OUT_OK, 1 + i);
        ok = h != NULL && tt_history_add(h, &work, &r, &error);
        usleep(100);
      }
      if (!ok)
        fprintf(stderr, "child: history %s\n", error);
      _exit(!ok); /* without closing: as if killed */
    }
  }
  for (int c = 0; c < CHILDREN; c++) {
    assert_true(wait(&status) > 0);
    assert_int_equal(status, 0);
  }
  h = must_open(f->path);
  /* Two children may add an equal record in one microsecond: hardly any. */
  assert_in_range(count(f, h), CHILDREN * EACH - 3, CHILDREN * EACH);
  tt_history_close(h);
}

/* Whoever comes while another creates the file finds it empty or whole. */
static void
test_created_by_several(void **state)
{
  enum { CHILDREN = 4, ROUNDS = 100 };
  struct fixture *f = *state;
  int status;

  for (int round = 0; round < ROUNDS; round++) {
    snprintf(f->path, sizeof f->path, "%s/%d.db", f->dir, round);
    for (int c = 0; c < CHILDREN; c++) {
      pid_t pid = fork();
      assert_true(pid >= 0);
      if (pid == 0) {
        const char *error = NULL;
        struct tt_history *h = tt_history_open(f->path, &error);
        if (h == NULL)
          fprintf(stderr, "child: history %s\n", error);
        _exit(h == NULL);
      }
    }
    for (int c = 0; c < CHILDREN; c++) {
      assert_true(wait(&status) > 0);
      assert_int_equal(status, 0);
    }
  }
}

static void
test_killed_writer_loses_nothing(void **state)
{
  struct fixture *f = *state;
  struct tt_history *h;
  int status, fds[2];
  char c;
  pid_t pid;

  assert_int_equal(pipe(fds), 0);
  pid = fork();
  if (pid == 0) {
    h = must_open(f->path);
    must_add(h, "schedule { 1; }", TT_OUT_OK, 1);
    must_add(h, "schedule { 2; }", TT_OUT_OK, 1);
    c = 'x';
    if (write(fds[1], &c, 1) == 1)
      pause();
    _exit(1);
  }
  assert_int_equal(read(fds[0], &c, 1), 1);
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
  close(fds[0]);
  close(fds[1]);
  h = must_open(f->path);
  assert_int_equal(count(f, h), 2);
  tt_history_close(h);
}

/* ---- bad files --------------------------------------------------------- */

static void
write_file(const char *path, const char *data, size_t n)
{
  FILE *file = fopen(path, "w");

  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, n, file), n);
  fclose(file);
}

static void
assert_refused(const char *path, const char *part)
{
  const char *error = NULL;
  struct tt_history *h = tt_history_open(path, &error);

  assert_null(h);
  assert_non_null(error);
  assert_null(strchr(error, '\n'));
  if (strstr(error, part) == NULL)
    fail_msg("'%s' does not say '%s'", error, part);
}

static void
test_not_a_database(void **state)
{
  struct fixture *f = *state;
  char path[96],
      text[] = "this is somebody's letter, not a database; "
               "it is long enough to hold a header of SQLite, "
               "which would be one hundred bytes.",
      back[256];
  FILE *file;
  size_t n;

  snprintf(path, sizeof path, "%s/letter", f->dir);
  write_file(path, text, strlen(text));
  assert_refused(path, "not a history file");
  file = fopen(path, "r");
  n = fread(back, 1, sizeof back, file);
  fclose(file);
  assert_int_equal(n, strlen(text));
  assert_memory_equal(back, text, n);
}

static void
test_other_databases(void **state)
{
  struct fixture *f = *state;
  char path[96];
  sqlite3 *db;
  struct tt_history *h;

  snprintf(path, sizeof path, "%s/other.db", f->dir);
  assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
  assert_int_equal(sqlite3_exec(db, "CREATE TABLE t(x)", 0, 0, 0), SQLITE_OK);
  sqlite3_close(db);
  assert_refused(path, "another program");

  h = must_open(f->path);
  assert_int_equal(sqlite3_exec(h->db, "PRAGMA user_version=999", 0, 0, 0),
                   SQLITE_OK);
  tt_history_close(h);
  assert_refused(f->path, "newer version");
  assert_refused(f->dir, "folder");
}

static void
test_missing_is_not_created(void **state)
{
  struct fixture *f = *state;
  const char *error = NULL;

  assert_null(tt_history_open_existing(f->path, &error));
  assert_string_equal(error, "does not exist");
  assert_int_not_equal(access(f->path, F_OK), 0);
}

/* Overwrite the middle of the file, past the first page. */
static void
damage(const char *path)
{
  char junk[3000];
  int fd = open(path, O_WRONLY);

  memset(junk, 0x5a, sizeof junk);
  assert_true(fd >= 0);
  for (int page = 1; page < 12; page++)
    assert_int_equal(pwrite(fd, junk, sizeof junk, page * 4096 + 8),
                     sizeof junk);
  close(fd);
}

static void
test_damaged_is_not_written(void **state)
{
  struct fixture *f = *state;
  struct tt_history *h = must_open(f->path);
  struct tt_record r = record("schedule { }", TT_OUT_OK, 1);
  const char *error = NULL;
  struct stat before, after;

  for (int i = 0; i < 50; i++)
    must_add(h, "schedule { padding padding padding padding padding; }",
             TT_OUT_OK, 1);
  tt_history_close(h);
  damage(f->path);
  assert_int_equal(stat(f->path, &before), 0);
  h = tt_history_open(f->path, &error);
  if (h != NULL) {
    assert_false(tt_history_add(h, &work, &r, &error));
    tt_history_close(h);
  }
  assert_non_null(strstr(error, "damaged"));
  assert_int_equal(stat(f->path, &after), 0);
  assert_int_equal(before.st_size, after.st_size);
}

static void
test_full_disk(void **state)
{
  struct fixture *f = *state;
  struct tt_history *h = must_open(f->path);
  struct tt_record r = record("schedule { }", TT_OUT_OK, 1);
  const char *error = NULL;
  int n = 0, kept;
  char *big = tt_arena_alloc(f->arena, 20001);

  memset(big, 'x', 20000);
  r.schedule = big;
  sqlite3_exec(h->db, "PRAGMA max_page_count=40", 0, 0, 0);
  while (n < 100 && tt_history_add(h, &work, &r, &error))
    n++;
  assert_in_range(n, 1, 99);
  assert_non_null(strstr(error, "no space left"));
  kept = count(f, h);
  assert_int_equal(kept, n); /* what was stored before stays */
  tt_history_close(h);
}

static void
test_read_only(void **state)
{
  struct fixture *f = *state;
  struct tt_history *h = must_open(f->path);

  tt_history_close(h);
  if (geteuid() == 0)
    skip(); /* root writes anywhere */
  chmod(f->path, 0400);
  assert_refused(f->path, "read-only");
}

static void
test_locked_after_patience(void **state)
{
  struct fixture *f = *state;
  struct tt_history *a = must_open(f->path), *b = must_open(f->path);
  struct tt_record r = record("schedule { }", TT_OUT_OK, 1);
  const char *error = NULL;

  assert_true(tt_history_begin(a, &error));
  sqlite3_busy_timeout(b->db, 10); /* the test's patience is shorter */
  assert_false(tt_history_add(b, &work, &r, &error));
  assert_non_null(strstr(error, "locked"));
  assert_true(tt_history_commit(a, &error));
  assert_true(tt_history_add(b, &work, &r, &error));
  tt_history_close(a);
  tt_history_close(b);
}

static void
test_default_path(void **state)
{
  struct fixture *f = *state;
  char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");

  cache = cache ? strdup(cache) : NULL;
  home = home ? strdup(home) : NULL;
  setenv("HOME", "/h", 1);
  setenv("XDG_CACHE_HOME", "/c", 1);
  assert_string_equal(tt_history_default_path(f->arena),
                      "/c/tcc-tune/history.db");
  setenv("XDG_CACHE_HOME", "relative", 1); /* the standard: ignored */
  assert_string_equal(tt_history_default_path(f->arena),
                      "/h/.cache/tcc-tune/history.db");
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  assert_null(tt_history_default_path(f->arena));
  if (cache)
    setenv("XDG_CACHE_HOME", cache, 1);
  if (home)
    setenv("HOME", home, 1);
  free(cache);
  free(home);
}

/* ---- what tcc-log does ------------------------------------------------- */

struct lines {
  struct tt_arena *arena;
  int n;
  const char *line[16];
};

static bool
keep_line(void *ctx, const struct tt_history_row *row, const char **error)
{
  struct lines *l = ctx;
  struct tt_sb sb = {0};

  (void)error;
  tt_history_row_json(row, &sb);
  assert_null(strchr(tt_sb_str(&sb), '\n'));
  assert_true(l->n < 16);
  l->line[l->n++] = tt_arena_strdup(l->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return true;
}

static struct lines
all_lines(struct fixture *f, struct tt_history *h)
{
  struct lines l = {f->arena, 0, {0}};
  const char *error = NULL;

  assert_true(tt_history_each(h, keep_line, &l, &error));
  return l;
}

static void
test_json_round_trip(void **state)
{
  struct fixture *f = *state;
  struct tt_history *a = must_open(f->path), *b;
  struct tt_finished won = {
      "schedule {\n  \\ \"q\" \xc3\xa9\x01 }", 0.1, 0.9, 61.5, INFINITY, 77};
  struct tt_record odd = record("schedule { }", TT_OUT_BUILD, 0);
  struct tt_history_row row;
  struct lines la, lb;
  const char *error = NULL;
  int added;

  must_add(a, "schedule { a; }", TT_OUT_OK, 1.0 / 3);
  must_add(a, "schedule { b; }", TT_OUT_CRASH, 0);
  odd.config = NULL;
  odd.result.message = "Latin-1: \xe9";
  assert_true(tt_history_add(a, &work, &odd, &error));
  assert_true(tt_history_finish(a, &work, &won, &error));
  la = all_lines(f, a);
  assert_int_equal(la.n, 4);
  b = must_open(tt_arena_printf(f->arena, "%s/b.db", f->dir));
  for (int i = 0; i < la.n; i++) {
    error =
        tt_history_row_parse(f->arena, la.line[i], strlen(la.line[i]), &row);
    if (error != NULL)
      fail_msg("%s: %s", error, la.line[i]);
    assert_true(tt_history_put(b, &row, &added, &error));
    assert_int_equal(added, 1);
    assert_true(tt_history_put(b, &row, &added, &error));
    assert_int_equal(added, 0); /* the same row again */
  }
  lb = all_lines(f, b);
  assert_int_equal(lb.n, la.n);
  for (int i = 0; i < la.n; i++) {
    if (strstr(la.line[i], "Latin") == NULL)
      assert_string_equal(la.line[i], lb.line[i]);
  }
  tt_history_close(a);
  tt_history_close(b);
}

/* Replace the first `from` in a good line. */
static const char *
spoil(struct fixture *f, const char *line, const char *from, const char *to)
{
  const char *at = strstr(line, from);

  assert_non_null(at);
  return tt_arena_printf(f->arena, "%.*s%s%s", (int)(at - line), line, to,
                         at + strlen(from));
}

static void
test_json_refuses(void **state)
{
  static const char *const cases[][3] = {
      {"\"v\":1", "\"v\":2", "another version"},
      {"\"type\":\"record\"", "\"type\":\"x\"", "bad value of 'type'"},
      {"0123456789abcdef\"", "XYZ\"", "not a hash"},
      {"\"ok\"", "\"fine\"", "unknown outcome"},
      {"\"seconds\":", "\"seconds\":-", "bad value of 'seconds'"},
      {"\"seconds\":", "\"sec\":", "unknown field 'sec'"},
      {"\"spread\":0.015625,", "", "no field 'spread'"},
      {"\"spread\":0.015625,", "\"spread\":1,\"spread\":1,", "two fields"},
      {"[3,0,12]", "[3,0,-1]", "bad list"},
      {"[3,0,12]", "[3,0,12", "bad number"},
      {"[3,0,12]", "[3,,12]", "bad number"},
      {"\"cpu avx2\"", "\"cpu \\q\"", "bad escape"},
      {"\"cpu avx2\"", "\"cpu \\u0000\"", "NUL"},
      {"\"cpu avx2\"", "\"cpu \\ud800\"", "surrogate"},
      {"\"cpu avx2\"", "\"cpu \xff\"", "UTF-8"},
      {"\"cpu avx2\"", "7", "bad value of 'target'"},
      {"}", "", "without an end"},
      {"}", "} x", "text after"},
      {"{", "[", "not a JSON object"},
      {"\"message\":null", "\"trials\":4", "has not"},
  };
  struct fixture *f = *state;
  struct tt_history *h = must_open(f->path);
  struct tt_history_row row;
  struct lines l;
  const char *line, *wrong;

  must_add(h, "schedule { a; }", TT_OUT_OK, 1.0 / 3);
  l = all_lines(f, h);
  tt_history_close(h);
  assert_null(
      tt_history_row_parse(f->arena, l.line[0], strlen(l.line[0]), &row));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    /* "}" also ends the schedule: take the last one of the line. */
    line = strcmp(cases[i][0], "}") == 0
               ? tt_arena_printf(f->arena, "%.*s%s", (int)strlen(l.line[0]) - 1,
                                 l.line[0], cases[i][1])
               : spoil(f, l.line[0], cases[i][0], cases[i][1]);
    wrong = tt_history_row_parse(f->arena, line, strlen(line), &row);
    if (wrong == NULL)
      fail_msg("accepted: %s", line);
    if (strstr(wrong, cases[i][2]) == NULL)
      fail_msg("'%s' does not say '%s': %s", wrong, cases[i][2], line);
  }
  /* Every prefix of a good line is refused. */
  for (size_t n = 0; n < strlen(l.line[0]); n++)
    assert_non_null(tt_history_row_parse(
        f->arena, tt_arena_strndup(f->arena, l.line[0], n), n, &row));
}

static void
test_rollback(void **state)
{
  struct fixture *f = *state;
  struct tt_history *h = must_open(f->path);
  struct tt_history_row row = {.workload = work,
                               .record = record("schedule { }", TT_OUT_OK, 1),
                               .tool = "1",
                               .created = 5};
  const char *error = NULL;
  int added;

  assert_true(tt_history_begin(h, &error));
  assert_true(tt_history_put(h, &row, &added, &error));
  assert_int_equal(added, 1);
  tt_history_rollback(h);
  assert_int_equal(count(f, h), 0);
  tt_history_close(h);
}

static void
test_list_and_prune(void **state)
{
  struct fixture *f = *state;
  struct tt_history *h = must_open(f->path);
  struct tt_history_row old = {.workload = work,
                               .record = record("old", TT_OUT_OK, 0.5),
                               .tool = "1",
                               .created = 1000};
  struct tt_prune p = {.keep = -1};
  struct tt_history_entry *e;
  const char *error = NULL;
  int added;

  assert_true(tt_history_put(h, &old, &added, &error));
  for (int i = 1; i <= 5; i++)
    must_add(h, tt_arena_printf(f->arena, "s%d", i), TT_OUT_OK, i);
  must_add(h, "bad", TT_OUT_TIMEOUT, 0);
  assert_int_equal(tt_history_list(h, f->arena, &e, &error), 1);
  assert_int_equal(e->records, 7);
  assert_int_equal(e->failures, 1);
  assert_true(e->best == 0.5);
  assert_false(e->finished);
  assert_string_equal(e->workload.compiler, work.compiler);

  p.failures = true;
  assert_int_equal(tt_history_prune(h, &p, &error), 1);
  p = (struct tt_prune){.keep = -1, .before = 2000};
  assert_int_equal(tt_history_prune(h, &p, &error), 1);
  assert_int_equal(count(f, h), 5);
  p = (struct tt_prune){.keep = 2};
  assert_int_equal(tt_history_prune(h, &p, &error), 3);
  assert_int_equal(tt_history_list(h, f->arena, &e, &error), 1);
  assert_int_equal(e->records, 2);
  assert_true(e->best == 1);
  p.keep = 0;
  assert_int_equal(tt_history_prune(h, &p, &error), 2);
  assert_int_equal(tt_history_list(h, f->arena, &e, &error), 0);
  tt_history_close(h);
}

/* ---- the hash ---------------------------------------------------------- */

/* C[m,n] = sum[k](A[m,k] * B[k,n]), or with sizes, names or a constant
 * changed. */
static const char *
hash_of(struct tt_arena *arena, int64_t m, const char *name, const char *axis,
        double scale, enum tt_red red)
{
  struct tt_program *p = tt_program_new(arena, name);
  int64_t da[2] = {m, 8}, db[2] = {8, 16}, dc[2] = {m, 16};
  struct tt_tensor *a, *b, *c;
  const struct tt_var *s[2], *k;
  const struct tt_expr *ia[2], *ib[2], *v;

  a = tt_program_tensor(p, name, TT_INPUT, TT_F32, 2, da);
  b = tt_program_tensor(p, "B", TT_INPUT, TT_F32, 2, db);
  c = tt_program_tensor(p, "C", TT_OUTPUT, TT_F32, 2, dc);
  s[0] = tt_program_var(p, axis, m);
  s[1] = tt_program_var(p, "n", 16);
  k = tt_program_var(p, "k", 8);
  ia[0] = tt_var_ref(arena, s[0]);
  ia[1] = ib[0] = tt_var_ref(arena, k);
  ib[1] = tt_var_ref(arena, s[1]);
  v = tt_binary(arena, TT_MUL, tt_load(arena, a, 2, ia),
                tt_load(arena, b, 2, ib));
  if (scale != 1)
    v = tt_binary(arena, TT_MUL, v, tt_flt(arena, TT_F32, scale));
  tt_program_stage(p, c, s, red, 1, &k, v, NULL);
  return tt_program_hash(arena, p);
}

static void
test_hash(void **state)
{
  struct tt_arena *arena = ((struct fixture *)*state)->arena;
  const char *base = hash_of(arena, 4, "A", "m", 1, TT_RED_SUM);

  assert_int_equal(strlen(base), 32);
  assert_int_equal(strspn(base, "0123456789abcdef"), 32);
  assert_string_equal(base, hash_of(arena, 4, "other", "y", 1, TT_RED_SUM));
  assert_string_not_equal(base, hash_of(arena, 5, "A", "m", 1, TT_RED_SUM));
  assert_string_not_equal(base, hash_of(arena, 4, "A", "m", 2, TT_RED_SUM));
  assert_string_not_equal(base, hash_of(arena, 4, "A", "m", 1, TT_RED_MAX));
}

int
main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
  const struct CMUnitTest tests[] = {
      TEST(test_round_trip),
      TEST(test_finished_is_replaced),
      TEST(test_nan_is_stored),
      TEST(test_two_processes),
      TEST(test_created_by_several),
      TEST(test_killed_writer_loses_nothing),
      TEST(test_not_a_database),
      TEST(test_other_databases),
      TEST(test_missing_is_not_created),
      TEST(test_damaged_is_not_written),
      TEST(test_full_disk),
      TEST(test_read_only),
      TEST(test_locked_after_patience),
      TEST(test_default_path),
      TEST(test_json_round_trip),
      TEST(test_json_refuses),
      TEST(test_rollback),
      TEST(test_list_and_prune),
      TEST(test_hash),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
