/* Records of other programs as rows.
 *
 * Invariant: a row is of a schedule that applies today to a program which has
 * the hash that its records have; rows of a group were measured by one version
 * of the tool for one workload, and one of them at least was right.
 */
#include "config.h"
#include "tuner/experience.h"

#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/passes.h"
#include "tuner/history_db.h"
#include "tuner/trials.h"

enum { MOST_GROUPS = 1000 };

/* What one version measured of one workload. */
struct group {
  sqlite3_int64 program, target;
  const char *tool, *hash, *source;
  int records;
  double best; /* seconds */
};

struct loader {
  struct tt_history *h;
  const struct tt_experience_query *q;
  struct tt_experience *out;
  struct tt_arena *arena;   /* groups */
  struct tt_arena *program; /* of the group at hand */
  struct tt_arena *scratch; /* a schedule */
  TT_VEC(struct group) groups;
  TT_VEC(int) sizes;
  TT_VEC(const char *) hashes;
  float *rows, *labels;
};

struct tt_program *
tt_program_of_source(struct tt_arena *arena, const char *source,
                     enum tt_built_in built_in, bool strict_fp,
                     const char *hash)
{
  const struct tt_frontend_options o = {.built_in = built_in};
  struct tt_program *p = tt_compile_text(arena, tt_diags_new(arena), "history",
                                         source, strlen(source), &o, false)
                             .program;

  if (p == NULL)
    return NULL;
  tt_solve_congruences(p);
  tt_factor_sums(p, strict_fp);
  return strcmp(tt_program_hash(arena, p), hash) == 0 ? p : NULL;
}

/* ---- groups ------------------------------------------------------------ */

/* Options but for the choices that were open. */
#define PLAIN(x)                                                               \
  "substr(" x ", 1, instr(" x " || ' choices=', ' choices=') - 1)"

static sqlite3_stmt *
select_groups(struct loader *l, const char **error)
{
  static const char sql[] =
      "SELECT r.program, r.target, r.tool, p.hash, s.source, count(*),"
      " min(r.seconds) FILTER (WHERE r.outcome = 'ok' AND r.seconds > 0)"
      "   AS best"
      " FROM records r JOIN programs p ON p.id = r.program"
      " JOIN targets t ON t.id = r.target JOIN sources s ON s.hash = p.hash"
      " WHERE r.outcome <> 'cancelled'"
      " AND (t.options LIKE 'language=%') = (?4 LIKE 'language=%')"
      " AND (?5 OR (t.target = ?2 AND t.compiler = ?3 AND " PLAIN(
          "t.options") " = " PLAIN("?4") "))"
                                         " AND NOT (p.hash = ?1 AND t.target = "
                                         "?2 AND t.compiler = ?3"
                                         "   AND t.options = ?4)"
                                         " GROUP BY r.program, r.target, r.tool"
                                         " HAVING best IS NOT NULL AND "
                                         "count(*) > 1"
                                         " ORDER BY max(r.created) DESC, "
                                         "r.program, r.target LIMIT ?6";
  const struct tt_workload *w = l->q->workload;
  const char *const texts[] = {w->program, w->target, w->compiler, w->options};
  sqlite3_stmt *st = tt_db_prepare(l->h, sql, error);

  if (st == NULL)
    return NULL;
  for (int i = 0; i < 4; i++)
    sqlite3_bind_text(st, i + 1, texts[i] ? texts[i] : "", -1, SQLITE_STATIC);
  sqlite3_bind_int(st, 5, l->q->any_target);
  sqlite3_bind_int(st, 6, MOST_GROUPS);
  return st;
}

static bool
find_groups(struct loader *l, const char **error)
{
  sqlite3_stmt *st = select_groups(l, error);
  int rc;

  if (st == NULL)
    return false;
  while ((rc = sqlite3_step(st)) == SQLITE_ROW) {
    struct group g = {.program = sqlite3_column_int64(st, 0),
                      .target = sqlite3_column_int64(st, 1),
                      .tool = tt_db_text(l->arena, st, 2),
                      .hash = tt_db_text(l->arena, st, 3),
                      .source = tt_db_text(l->arena, st, 4),
                      .records = sqlite3_column_int(st, 5),
                      .best = sqlite3_column_double(st, 6)};
    TT_PUSH(l->groups, g);
  }
  sqlite3_finalize(st);
  if (rc != SQLITE_DONE)
    *error = tt_db_error(rc);
  return rc == SQLITE_DONE;
}

/* The most rows that every group may have so that all together fit. */
static int
quota(const struct loader *l)
{
  int lo = 1, hi = l->q->most;

  while (lo < hi) {
    int q = lo + (hi - lo + 1) / 2;
    int64_t total = 0;
    for (int i = 0; i < l->groups.n; i++)
      total += l->groups.items[i].records < q ? l->groups.items[i].records : q;
    if (total <= l->q->most)
      lo = q;
    else
      hi = q - 1;
  }
  return lo;
}

/* ---- rows -------------------------------------------------------------- */

/* The row of a record; false: it means no schedule of the program. */
static bool
put_row(struct loader *l, const struct tt_program *p, const struct group *g,
        sqlite3_stmt *st)
{
  const char *text = (const char *)sqlite3_column_text(st, 0);
  const char *outcome = (const char *)sqlite3_column_text(st, 1);
  double seconds = sqlite3_column_double(st, 2);
  struct tt_fit *f = &l->out->fit;
  struct tt_schedule *s;

  tt_arena_reset(l->scratch);
  s = text != NULL ? tt_schedule_of_text(l->scratch, p, l->q->strict_fp, text)
                   : NULL;
  if (s == NULL || outcome == NULL)
    return false;
  tt_features(l->q->features, s, l->q->target, NULL, NULL,
              l->rows + (size_t)f->n * (size_t)f->width);
  l->labels[f->n++] = strcmp(outcome, "ok") == 0 && seconds > 0
                          ? (float)(g->best / seconds)
                          : 0;
  return true;
}

static bool
read_group(struct loader *l, const struct tt_program *p, const struct group *g,
           int most, const char **error)
{
  static const char sql[] =
      "SELECT schedule, outcome, seconds FROM records WHERE program = ?"
      " AND target = ? AND tool = ? AND outcome <> 'cancelled'"
      " ORDER BY created DESC, id DESC LIMIT ?";
  sqlite3_stmt *st = tt_db_prepare(l->h, sql, error);
  int rc;

  if (st == NULL)
    return false;
  sqlite3_bind_int64(st, 1, g->program);
  sqlite3_bind_int64(st, 2, g->target);
  sqlite3_bind_text(st, 3, g->tool, -1, SQLITE_STATIC);
  sqlite3_bind_int(st, 4, most);
  while ((rc = sqlite3_step(st)) == SQLITE_ROW && l->out->fit.n < l->q->most)
    l->out->unread += !put_row(l, p, g, st);
  if (rc != SQLITE_DONE && rc != SQLITE_ROW)
    *error = tt_db_error(rc);
  sqlite3_finalize(st);
  return rc == SQLITE_DONE || rc == SQLITE_ROW;
}

static bool
is_known(const struct loader *l, const char *hash)
{
  for (int i = 0; i < l->hashes.n; i++)
    if (strcmp(l->hashes.items[i], hash) == 0)
      return true;
  return false;
}

/* Of the language that the workload is for. */
static enum tt_built_in
built_in(const struct tt_workload *w)
{
  static const char cuda[] = "language=cuda", opencl[] = "language=opencl";
  if (strncmp(w->options, cuda, sizeof cuda - 1) == 0)
    return TT_BUILT_IN_CUDA;
  return strncmp(w->options, opencl, sizeof opencl - 1) == 0
             ? TT_BUILT_IN_OPENCL
             : TT_BUILT_IN_NONE;
}

static bool
read_groups(struct loader *l, const char **error)
{
  int most = quota(l), before;
  struct tt_fit *f = &l->out->fit;
  size_t n = (size_t)l->q->most;

  l->rows = tt_xmalloc(n * (size_t)f->width * sizeof *l->rows);
  l->labels = tt_xmalloc(n * sizeof *l->labels);
  f->rows = l->rows;
  f->labels = l->labels;
  for (int i = 0; i < l->groups.n; i++) {
    const struct group *g = &l->groups.items[i];
    tt_arena_reset(l->program);
    struct tt_program *p =
        tt_program_of_source(l->program, g->source, built_in(l->q->workload),
                             l->q->strict_fp, g->hash);
    before = f->n;
    if (p == NULL)
      l->out->unread++;
    else if (!read_group(l, p, g, most, error))
      return false;
    if (f->n == before)
      continue;
    l->out->nprograms += !is_known(l, g->hash);
    TT_PUSH(l->sizes, f->n - before);
    TT_PUSH(l->hashes, g->hash);
  }
  f->ngroups = l->sizes.n;
  return true;
}

bool
tt_experience_load(struct tt_history *h, const struct tt_experience_query *q,
                   struct tt_experience *out, const char **error)
{
  struct loader l = {.h = h,
                     .q = q,
                     .out = out,
                     .arena = tt_arena_new(),
                     .program = tt_arena_new(),
                     .scratch = tt_arena_new()};
  bool ok;

  memset(out, 0, sizeof *out);
  out->fit.width = tt_features_width(q->features, NULL);
  ok = find_groups(&l, error) && (l.groups.n == 0 || read_groups(&l, error));
  if (!ok)
    out->fit.n = out->fit.ngroups = 0;
  out->fit.rows = l.rows;
  out->fit.labels = l.labels;
  out->fit.groups = l.sizes.items;
  out->arena = l.arena;
  out->programs = l.hashes.items;
  free(l.groups.items);
  tt_arena_free(l.program);
  tt_arena_free(l.scratch);
  return ok;
}

void
tt_experience_free(struct tt_experience *e)
{
  free((void *)e->fit.rows);
  free((void *)e->fit.labels);
  free((void *)e->fit.groups);
  free((void *)e->programs);
  if (e->arena != NULL)
    tt_arena_free(e->arena);
  memset(e, 0, sizeof *e);
}
