/* Lists of programs and their trials.
 *
 * Invariant: a trial's row is that of its schedule for this machine, whatever
 * options it was measured with. */
#include "config.h"
#include "works.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/passes.h"
#include "runtime/target.h"

enum { MOST_DEFINITIONS = 16 };

/* ---- the programs ------------------------------------------------------ */

/* The file of a program, beside the list or where the others are. */
static const char *
find_file(struct tt_arena *arena, const char *list, const char *name)
{
  static const char *const folders[] = {"", "../work/", "../../examples/"};
  const char *slash = strrchr(list, '/');
  int n = slash != NULL ? (int)(slash - list + 1) : 0;
  char *path = NULL;

  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    path = tt_arena_printf(arena, "%.*s%s%s.te", n, list, folders[i], name);
    FILE *f = fopen(path, "r");
    if (f == NULL)
      continue;
    fclose(f);
    break;
  }
  return path;
}

/* The definitions of a line, which is taken apart. */
static int
definitions(char *line, struct tt_define *out)
{
  int n = 0;
  char *save = NULL;

  for (char *word = strtok_r(line, " ", &save);
       word != NULL && n < MOST_DEFINITIONS;
       word = strtok_r(NULL, " ", &save)) {
    char *equals = strchr(word, '=');
    if (equals == NULL)
      continue;
    *equals = '\0';
    out[n++] = (struct tt_define){word, equals + 1};
  }
  return n;
}

static struct tt_program *
make_program(struct works *ws, const char *list, const char *line)
{
  size_t n = strcspn(line, " ");
  const char *name = tt_arena_strndup(ws->arena, line, n);
  const char *path = find_file(ws->arena, list, name), *slash;
  struct tt_define defines[MOST_DEFINITIONS];
  const char *examples;
  struct tt_diags *diags = tt_diags_new(ws->arena);
  struct tt_program *p;

  slash = strrchr(list, '/');
  examples = tt_arena_printf(ws->arena, "%.*s../../examples",
                             slash != NULL ? (int)(slash - list + 1) : 0, list);
  struct tt_frontend_options fo = {
      .ndefines = definitions(tt_arena_strdup(ws->arena, line + n), defines),
      .defines = defines,
      .ninclude_dirs = 1,
      .include_dirs = &examples};
  p = tt_compile_file(ws->arena, diags, path, &fo, false).program;
  if (p == NULL)
    return NULL;
  tt_solve_congruences(p);
  tt_factor_sums(p, false);
  return p;
}

static bool
add_work(struct works *ws, const char *list, char *line)
{
  struct work w = {.name = tt_arena_strdup(ws->arena, line)};

  w.program = make_program(ws, list, w.name);
  if (w.program == NULL) {
    fprintf(stderr, "%s: %s: not a program\n", list, w.name);
    return false;
  }
  w.hash = tt_program_hash(ws->arena, w.program);
  w.space = tt_space_new(ws->arena, w.program, &ws->target, false);
  TT_PUSH(ws->all, w);
  return true;
}

static void
find_target(struct works *ws, int vector_bits)
{
  struct tt_target t = tt_target_local();

  ws->target = (struct tt_target_model){
      .vector_bytes = vector_bits > 0 ? vector_bits / 8 : t.vector_bytes,
      .registers = t.registers,
      .l1 = t.l1,
      .l2 = t.l2,
      .l3 = t.l3,
      .threads = 1};
  ws->options = (struct tt_tune_options){.model = TT_MODEL_GBT,
                                         .features = TT_FEATURES_RELATION,
                                         .target = ws->target};
}

bool
works_read(struct works *ws, struct tt_arena *arena, const char *path,
           int vector_bits)
{
  FILE *f = fopen(path, "r");
  char line[512];
  bool ok = f != NULL;

  memset(ws, 0, sizeof *ws);
  ws->arena = arena;
  find_target(ws, vector_bits);
  if (f == NULL)
    perror(path);
  while (ok && fgets(line, sizeof line, f) != NULL) {
    line[strcspn(line, "\n")] = '\0';
    if (line[0] != '\0' && line[0] != '#')
      ok = add_work(ws, path, line);
  }
  if (f != NULL)
    fclose(f);
  for (int i = 0; i < ws->all.n; i++)
    tt_trials_init(&ws->all.items[i].trials, ws->all.items[i].program,
                   ws->all.items[i].space, &tt_derived_space, &ws->options);
  return ok;
}

void
works_free(struct works *ws)
{
  for (int i = 0; i < ws->all.n; i++)
    tt_trials_free(&ws->all.items[i].trials);
  free(ws->all.items);
}

/* ---- their records ----------------------------------------------------- */

static bool
take_row(void *ctx, const struct tt_history_row *row, const char **error)
{
  struct works *ws = ctx;

  (void)error;
  for (int i = 0; i < ws->all.n && !row->is_finished; i++)
    if (strcmp(ws->all.items[i].hash, row->workload.program) == 0)
      tt_trials_resume(&ws->all.items[i].trials, 1, &row->record);
  return true;
}

bool
works_load(struct works *ws, const char *history)
{
  const char *error = NULL;
  struct tt_history *h = tt_history_open_existing(history, &error);
  bool ok = h != NULL && tt_history_each(h, take_row, ws, &error);

  if (!ok)
    fprintf(stderr, "%s %s\n", history, error);
  tt_history_close(h);
  return ok;
}

float
work_speed(const struct work *w, int trial)
{
  const struct tt_result *r = &w->trials.items[trial].result;
  int best;

  if (r->outcome != TT_OUT_OK || r->seconds <= 0 ||
      tt_trials_best(&w->trials, 1, &best) == 0)
    return 0;
  return (float)(w->trials.items[best].result.seconds / r->seconds);
}
