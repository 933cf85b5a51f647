/* tcc-log: lists, exports, imports, merges and prunes histories.
 *
 * Invariant: a history is changed by one transaction or not at all, and an
 * output file appears whole or not at all.
 */
#include "config.h"
#include "tuner/history.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { EXIT_DONE, EXIT_ERROR, EXIT_USAGE };
enum { MAX_ERRORS = 20 };

static const char help[] =
    "Usage: tcc-log [--history=FILE] COMMAND\n"
    "List, export, import, merge and prune what tcc-tune has measured.\n"
    "\n"
    "Commands:\n"
    "  list                  workloads, with their records and the best time\n"
    "  export [-o FILE]      every row as a line of JSON\n"
    "  import [FILE]         take such lines in: all of them or none\n"
    "  merge OTHER.db        take in the rows of another history\n"
    "  prune OPTION...       drop rows that match any of:\n"
    "    --older-than=DAYS     written more than DAYS days ago\n"
    "    --keep=N              not among the N fastest of their workload\n"
    "    --failures            trials that failed\n"
    "\n"
    "Options:\n"
    "  --history=FILE        the history (default:\n"
    "                        $XDG_CACHE_HOME/tcc-tune/history.db)\n"
    "  -o, --output=FILE     where export writes (default: standard output)\n"
    "  -h, --help            print this and exit\n"
    "      --version         print the version and exit\n"
    "\n"
    "Exit status: 0 done, 1 a file cannot be read, written or understood,\n"
    "2 usage.\n";

struct options {
  const char *history, *output;
  struct tt_prune prune;
  bool pruning, help, version;
  int nargs;
  char **args;
};

static int
failed(const char *what, const char *why)
{
  fprintf(stderr, "tcc-log: %s: %s\n", what, why);
  return EXIT_ERROR;
}

static int
history_failed(const char *path, const char *why)
{
  fprintf(stderr, "tcc-log: history %s %s\n", path, why);
  return EXIT_ERROR;
}

static int
usage(const char *message, const char *subject)
{
  fprintf(stderr, "tcc-log: %s%s\nTry 'tcc-log --help'.\n", message, subject);
  return EXIT_USAGE;
}

/* A whole number of at most `max`; -1: not one. */
static long
whole(const char *text, long max)
{
  char *end;
  long v;

  errno = 0;
  v = strtol(text, &end, 10);
  if (end == text || *end != '\0' || errno != 0 || v < 0 || v > max)
    return -1;
  return v;
}

static int64_t
days_ago(long days)
{
  return ((int64_t)time(NULL) - (int64_t)days * 86400) * 1000000;
}

/* EXIT_DONE, or EXIT_USAGE after a message. */
static int
parse_options(int argc, char **argv, struct options *o)
{
  enum { HISTORY = 256, OLDER, KEEP, FAILURES, SHOW_VERSION };
  static const struct option longs[] = {
      {"history", required_argument, NULL, HISTORY},
      {"output", required_argument, NULL, 'o'},
      {"older-than", required_argument, NULL, OLDER},
      {"keep", required_argument, NULL, KEEP},
      {"failures", no_argument, NULL, FAILURES},
      {"help", no_argument, NULL, 'h'},
      {"version", no_argument, NULL, SHOW_VERSION},
      {NULL, 0, NULL, 0}};
  long n;
  int c;

  while ((c = getopt_long(argc, argv, "o:h", longs, NULL)) != -1) {
    switch (c) {
    case HISTORY:
      o->history = optarg;
      break;
    case 'o':
      o->output = optarg;
      break;
    case OLDER:
      n = whole(optarg, 36500);
      if (n < 0)
        return usage("--older-than wants a number of days, not ", optarg);
      o->prune.before = days_ago(n);
      o->pruning = true;
      break;
    case KEEP:
      n = whole(optarg, INT_MAX);
      if (n < 0)
        return usage("--keep wants a number of records, not ", optarg);
      o->prune.keep = (int)n;
      o->pruning = true;
      break;
    case FAILURES:
      o->prune.failures = o->pruning = true;
      break;
    case 'h':
      o->help = true;
      break;
    case SHOW_VERSION:
      o->version = true;
      break;
    default:
      fputs("Try 'tcc-log --help'.\n", stderr);
      return EXIT_USAGE;
    }
  }
  o->nargs = argc - optind;
  o->args = argv + optind;
  return EXIT_DONE;
}

/* ---- list -------------------------------------------------------------- */

/* "1.234 ms" */
static const char *
show_time(double seconds, char buf[32])
{
  if (seconds <= 0)
    snprintf(buf, 32, "-");
  else if (seconds < 1e-3)
    snprintf(buf, 32, "%.3f us", seconds * 1e6);
  else if (seconds < 1)
    snprintf(buf, 32, "%.3f ms", seconds * 1e3);
  else
    snprintf(buf, 32, "%.3f s", seconds);
  return buf;
}

/* The program on one line, cut where it gets long. */
static void
show_program(const char *text)
{
  enum { WIDTH = 74 };
  int n = 0;

  fputs("    ", stdout);
  for (; *text != '\0' && n < WIDTH; text++) {
    bool space = isspace((unsigned char)*text);
    if (space && (n == 0 || isspace((unsigned char)text[1]) || text[1] == 0))
      continue;
    putchar(space ? ' ' : *text);
    n++;
  }
  puts(*text != '\0' ? "..." : "");
}

static void
show_workload(const struct tt_history_entry *e)
{
  const struct tt_workload *w = &e->workload;
  char best[32], date[32], speedup[32] = "";
  time_t t = (time_t)(e->last / 1000000);
  struct tm tm;

  strftime(date, sizeof date, "%Y-%m-%d %H:%M", localtime_r(&t, &tm));
  if (e->finished && e->won > 0 && e->plain > 0)
    snprintf(speedup, sizeof speedup, ", %.1fx plain", e->plain / e->won);
  printf("%.12s  %d record%s, %d failed, best %s, %s%s, %s\n", w->program,
         e->records, e->records == 1 ? "" : "s", e->failures,
         show_time(e->finished ? e->won : e->best, best),
         e->finished ? "finished" : "unfinished", speedup, date);
  show_program(w->text);
  printf("    %s; %s; %s\n", w->target, w->compiler, w->options);
}

static int
do_list(struct tt_history *h, const char *path)
{
  struct tt_arena *arena = tt_arena_new();
  struct tt_history_entry *entries;
  const char *error = NULL;
  int n = tt_history_list(h, arena, &entries, &error), rc = EXIT_DONE;

  for (int i = 0; i < n; i++)
    show_workload(&entries[i]);
  if (n < 0)
    rc = history_failed(path, error);
  else if (fflush(stdout) != 0 || ferror(stdout))
    rc = failed("standard output", strerror(errno));
  tt_arena_free(arena);
  return rc;
}

/* ---- export ------------------------------------------------------------ */

struct exporter {
  FILE *file;
  struct tt_sb line;
};

static bool
export_row(void *ctx, const struct tt_history_row *row, const char **error)
{
  struct exporter *x = ctx;

  tt_sb_clear(&x->line);
  tt_history_row_json(row, &x->line);
  tt_sb_putc(&x->line, '\n');
  if (fputs(tt_sb_str(&x->line), x->file) >= 0)
    return true;
  *error = NULL; /* errno says why */
  return false;
}

/* Write all rows to an open file; `name` is for messages. */
static int
export_to(struct tt_history *h, const char *path, FILE *file, const char *name)
{
  struct exporter x = {file, {0}};
  const char *error = NULL;
  bool ok = tt_history_each(h, export_row, &x, &error);

  tt_sb_free(&x.line);
  if (!ok && error != NULL)
    return history_failed(path, error);
  if (!ok || fflush(file) != 0 || ferror(file))
    return failed(name, strerror(errno));
  return EXIT_DONE;
}

static int
do_export(struct tt_history *h, const char *path, const char *output)
{
  char *temp;
  FILE *file;
  int fd, rc;

  if (output == NULL || strcmp(output, "-") == 0)
    return export_to(h, path, stdout, "standard output");
  temp = tt_xmalloc(strlen(output) + 8);
  snprintf(temp, strlen(output) + 8, "%s.XXXXXX", output);
  fd = mkstemp(temp);
  file = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (file == NULL) {
    rc = failed(output, strerror(errno));
    free(temp);
    return rc;
  }
  rc = export_to(h, path, file, output);
  if (fclose(file) != 0 && rc == EXIT_DONE)
    rc = failed(output, strerror(errno));
  if (rc == EXIT_DONE && rename(temp, output) != 0)
    rc = failed(output, strerror(errno));
  if (rc != EXIT_DONE)
    unlink(temp);
  free(temp);
  return rc;
}

/* ---- import ------------------------------------------------------------ */

struct counts {
  int rows, added, errors;
};

/* All lines of a file, in the transaction that is open.  Bad lines are
 * reported and counted; false: the history failed (*error). */
static bool
import_lines(struct tt_history *h, FILE *file, const char *name,
             struct counts *n, const char **error)
{
  struct tt_arena *arena = tt_arena_new();
  struct tt_history_row row;
  const char *wrong;
  char *line = NULL;
  size_t cap = 0;
  ssize_t len;
  bool ok = true;
  int added;

  for (int number = 1; ok && (len = getline(&line, &cap, file)) >= 0;
       number++) {
    if (len > 0 && line[len - 1] == '\n')
      line[--len] = '\0';
    if (strspn(line, " \t\r") == (size_t)len)
      continue;
    tt_arena_reset(arena);
    wrong = tt_history_row_parse(arena, line, (size_t)len, &row);
    if (wrong != NULL) {
      if (++n->errors <= MAX_ERRORS)
        fprintf(stderr, "%s:%d: error: %s\n", name, number, wrong);
      continue;
    }
    n->rows++;
    if (n->errors == 0) {
      ok = tt_history_put(h, &row, &added, error);
      n->added += added;
    }
  }
  free(line);
  tt_arena_free(arena);
  return ok;
}

static int
import_file(struct tt_history *h, const char *path, FILE *file,
            const char *name)
{
  struct counts n = {0};
  const char *error = NULL;

  if (!tt_history_begin(h, &error))
    return history_failed(path, error);
  if (!import_lines(h, file, name, &n, &error)) {
    tt_history_rollback(h);
    return history_failed(path, error);
  }
  if (ferror(file)) {
    tt_history_rollback(h);
    return failed(name, strerror(errno));
  }
  if (n.errors > 0) {
    tt_history_rollback(h);
    if (n.errors > MAX_ERRORS)
      fprintf(stderr, "%d more errors\n", n.errors - MAX_ERRORS);
    return failed(name, "nothing was imported");
  }
  if (!tt_history_commit(h, &error))
    return history_failed(path, error);
  printf("%d row%s read, %d added\n", n.rows, n.rows == 1 ? "" : "s", n.added);
  return EXIT_DONE;
}

static int
do_import(struct tt_history *h, const char *path, const char *input)
{
  FILE *file;
  int rc;

  if (input == NULL || strcmp(input, "-") == 0)
    return import_file(h, path, stdin, "standard input");
  file = fopen(input, "r");
  if (file == NULL)
    return failed(input, strerror(errno));
  rc = import_file(h, path, file, input);
  fclose(file);
  return rc;
}

/* ---- merge and prune --------------------------------------------------- */

struct merger {
  struct tt_history *into;
  const char *into_error;
  struct counts n;
};

static bool
merge_row(void *ctx, const struct tt_history_row *row, const char **error)
{
  struct merger *m = ctx;
  int added;

  if (!tt_history_put(m->into, row, &added, &m->into_error)) {
    *error = NULL;
    return false;
  }
  m->n.rows++;
  m->n.added += added;
  return true;
}

static int
do_merge(struct tt_history *h, const char *path, const char *other_path)
{
  struct merger m = {h, NULL, {0}};
  const char *error = NULL;
  struct tt_history *other = tt_history_open_existing(other_path, &error);
  bool ok;

  if (other == NULL)
    return history_failed(other_path, error);
  if (!tt_history_begin(h, &error)) {
    tt_history_close(other);
    return history_failed(path, error);
  }
  ok = tt_history_each(other, merge_row, &m, &error);
  tt_history_close(other);
  if (!ok) {
    tt_history_rollback(h);
    return error ? history_failed(other_path, error)
                 : history_failed(path, m.into_error);
  }
  if (!tt_history_commit(h, &error))
    return history_failed(path, error);
  printf("%d row%s read, %d added\n", m.n.rows, m.n.rows == 1 ? "" : "s",
         m.n.added);
  return EXIT_DONE;
}

static int
do_prune(struct tt_history *h, const char *path, const struct tt_prune *p)
{
  const char *error = NULL;
  int n = tt_history_prune(h, p, &error);

  if (n < 0)
    return history_failed(path, error);
  printf("%d row%s dropped\n", n, n == 1 ? "" : "s");
  return EXIT_DONE;
}

/* ---- the command ------------------------------------------------------- */

enum command { LIST, EXPORT, IMPORT, MERGE, PRUNE, NCOMMANDS };

/* The command that the arguments ask for, NCOMMANDS after a message. */
static enum command
parse_command(const struct options *o)
{
  static const struct {
    const char *name;
    int min, max; /* operands */
  } commands[] = {{"list", 0, 0},
                  {"export", 0, 0},
                  {"import", 0, 1},
                  {"merge", 1, 1},
                  {"prune", 0, 0}};
  int c = 0;

  if (o->nargs == 0) {
    usage("no command given", "");
    return NCOMMANDS;
  }
  while (c < NCOMMANDS && strcmp(commands[c].name, o->args[0]) != 0)
    c++;
  if (c == NCOMMANDS)
    usage("unknown command ", o->args[0]);
  else if (o->nargs - 1 < commands[c].min)
    usage("an operand is missing for ", o->args[0]);
  else if (o->nargs - 1 > commands[c].max)
    usage("too many operands for ", o->args[0]);
  else if (o->output != NULL && c != EXPORT)
    usage("--output goes with export, not ", o->args[0]);
  else if (o->pruning != (c == PRUNE))
    usage(o->pruning ? "--older-than, --keep and --failures go with prune, not "
                     : "nothing to do: give --older-than, --keep or --failures "
                       "to ",
          o->args[0]);
  else
    return (enum command)c;
  return NCOMMANDS;
}

static int
run(const struct options *o, enum command command, const char *path)
{
  const char *error = NULL;
  const char *operand = o->nargs > 1 ? o->args[1] : NULL;
  bool create = command == IMPORT || command == MERGE;
  struct tt_history *h = create ? tt_history_open(path, &error)
                                : tt_history_open_existing(path, &error);
  int rc = EXIT_ERROR;

  if (h == NULL)
    return history_failed(path, error);
  switch (command) {
  case LIST:
    rc = do_list(h, path);
    break;
  case EXPORT:
    rc = do_export(h, path, o->output);
    break;
  case IMPORT:
    rc = do_import(h, path, operand);
    break;
  case MERGE:
    rc = do_merge(h, path, operand);
    break;
  case PRUNE:
    rc = do_prune(h, path, &o->prune);
    break;
  case NCOMMANDS:
    break;
  }
  tt_history_close(h);
  return rc;
}

int
main(int argc, char **argv)
{
  struct options o = {.prune = {.keep = -1}};
  struct tt_arena *arena;
  enum command command;
  const char *path;
  int rc = parse_options(argc, argv, &o);

  if (rc != EXIT_DONE)
    return rc;
  if (o.help || o.version) {
    fputs(o.help ? help : "tcc-log " PACKAGE_VERSION "\n", stdout);
    return fflush(stdout) == 0 ? EXIT_DONE
                               : failed("standard output", strerror(errno));
  }
  command = parse_command(&o);
  if (command == NCOMMANDS)
    return EXIT_USAGE;
  arena = tt_arena_new();
  path = o.history ? o.history : tt_history_default_path(arena);
  if (path == NULL)
    rc = failed("history", "neither XDG_CACHE_HOME nor HOME is set; "
                           "give --history=FILE");
  else
    rc = run(&o, command, path);
  tt_arena_free(arena);
  return rc;
}
