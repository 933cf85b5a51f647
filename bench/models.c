/* How well the learned costs order schedules they have not seen, and what
 * features and scores cost: models FILE.te HISTORY.db, or models HISTORY.db
 *
 * The records of the history whose schedules are of the program are shuffled
 * and split in five; each part is scored by models fitted to the others.
 * Printed is the mean of Spearman's rank correlation with the measured speed,
 * by model, objective and representation, and the time of a candidate:
 * schedule from configuration, features, score.
 *
 * With a history alone each program of it, of those for the target, compiler
 * and options of its newest records, is scored by models fitted to the records
 * of all the others.  Beside the rank correlation is printed how the best of
 * the 16 schedules with the highest scores compares with the best record, and
 * with the best of 16 random ones (the mean of all). */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench/order.h"
#include "frontend/frontend.h"
#include "runtime/target.h"
#include "tuner/random.h"
#include "tuner/experience.h"
#include "tuner/trials.h"

enum { FOLDS = 5, MAX_RECORDS = 4000, TIMED = 4096 };

struct records {
  struct tt_arena *arena;
  int n;
  struct tt_record items[MAX_RECORDS];
};

static bool
keep(void *ctx, const struct tt_history_row *row, const char **error)
{
  struct records *r = ctx;
  struct tt_record *to = &r->items[r->n];

  (void)error;
  if (row->is_finished || r->n == MAX_RECORDS)
    return true;
  *to = row->record;
  to->schedule = tt_arena_strdup(r->arena, to->schedule);
  to->result.message = NULL;
  if (to->config != NULL)
    to->config = tt_arena_dup(r->arena, to->config,
                              (size_t)to->nknobs * sizeof *to->config);
  r->n++;
  return true;
}

/* Seconds of processor time. */
static double
cpu(void)
{
  struct timespec t;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- models ------------------------------------------------------------ */

struct made {
  const char *name;
  enum tt_model model;
  enum tt_objective objective;
  enum tt_features_kind features;
};

static const struct made all[] = {
    {"gbt rank relation", TT_MODEL_GBT, TT_RANK, TT_FEATURES_RELATION},
    {"gbt rank context", TT_MODEL_GBT, TT_RANK, TT_FEATURES_CONTEXT},
    {"gbt rank config", TT_MODEL_GBT, TT_RANK, TT_FEATURES_CONFIG},
    {"gbt regression relation", TT_MODEL_GBT, TT_REGRESSION,
     TT_FEATURES_RELATION},
    {"treegru rank", TT_MODEL_TREEGRU, TT_RANK, TT_FEATURES_TREE},
    {"treegru regression", TT_MODEL_TREEGRU, TT_REGRESSION, TT_FEATURES_TREE},
};

static float
speed(const struct tt_trial *t, double fastest)
{
  return t->result.outcome == TT_OUT_OK && t->result.seconds > 0
             ? (float)(fastest / t->result.seconds)
             : 0;
}

/* Moves the trials whose number is `fold` modulo FOLDS to the end; returns
 * how many stay in front. */
static int
split(const struct tt_trials *t, int fold, float *rows, float *labels)
{
  size_t width = (size_t)t->width;
  int front = 0, back = t->n, best;
  double fastest =
      tt_trials_best(t, 1, &best) ? t->items[best].result.seconds : 1;

  for (int i = 0; i < t->n; i++) {
    int to = i % FOLDS == fold ? --back : front++;
    memcpy(rows + (size_t)to * width, t->items[i].row, width * sizeof *rows);
    labels[to] = speed(&t->items[i], fastest);
  }
  return front;
}

static void
evaluate(const struct made *m, const struct tt_trials *t)
{
  struct tt_tune_options o = {.model = m->model, .objective = m->objective};
  float *rows = tt_xmalloc((size_t)t->n * (size_t)t->width * sizeof *rows);
  float *labels = tt_xmalloc((size_t)t->n * sizeof *labels);
  float *scores = tt_xmalloc((size_t)t->n * sizeof *scores);
  double sum = 0, fit = 0;
  const char *error;

  for (int fold = 0; fold < FOLDS; fold++) {
    struct tt_cost_model *model = tt_tune_model(&o, NULL, &error);
    int n = split(t, fold, rows, labels);
    double start = cpu();
    if (!tt_cost_fit(model, n, t->width, rows, labels, &error) ||
        !model->ops->predict(model, t->n, t->width, rows, scores, &error)) {
      fprintf(stderr, "%s: %s\n", m->name, error);
      exit(1);
    }
    fit += cpu() - start;
    sum += bench_spearman(t->n - n, scores + n, labels + n);
    model->ops->free(model);
  }
  printf("%-24s rank correlation %.3f, a fit %.0f ms", m->name, sum / FOLDS,
         1e3 * fit / FOLDS);
  free(rows);
  free(labels);
  free(scores);
}

/* Microseconds of schedule, features and score of a configuration. */
static void
clock_candidate(const struct made *m, const struct tt_trials *t)
{
  struct tt_tune_options o = {.model = m->model, .objective = m->objective};
  struct tt_arena *scratch = tt_arena_new();
  const char *error;
  struct tt_cost_model *model = tt_tune_model(&o, NULL, &error);
  float *rows = tt_xmalloc((size_t)TIMED * (size_t)t->width * sizeof *rows);
  float *scores = tt_xmalloc(TIMED * sizeof *scores);
  int *config = tt_xmalloc((size_t)t->space->nknobs * sizeof *config + 1);
  uint64_t random = 1;
  double made = 0, features = 0, scored = 0;
  int n = 0;

  tt_trials_fit(t, model, &error);
  for (int tries = 0; n < TIMED && tries < 20 * TIMED; tries++) {
    for (int k = 0; k < t->space->nknobs; k++)
      config[k] = tt_draw_below(&random, t->space->knobs[k].n);
    tt_arena_reset(scratch);
    double a = cpu();
    struct tt_schedule *s = t->ops->schedule(scratch, t->space, config);
    double b = cpu();
    if (s == NULL)
      continue;
    tt_features(t->features, s, t->target, t->space, config,
                rows + (size_t)n++ * (size_t)t->width);
    made += b - a;
    features += cpu() - b;
  }
  double start = cpu();
  for (int i = 0; i + 128 <= n; i += 128) /* as the search does */
    model->ops->predict(model, 128, t->width, rows + (size_t)i * t->width,
                        scores + i, &error);
  scored = cpu() - start;
  printf("; schedule %.1f, features %.1f, score %.1f us\n", 1e6 * made / n,
         1e6 * features / n, 1e6 * scored / n);
  model->ops->free(model);
  tt_arena_free(scratch);
  free(rows);
  free(scores);
  free(config);
}

static void
shuffle(struct records *r)
{
  uint64_t random = 1;

  for (int i = r->n - 1; i > 0; i--) {
    int j = tt_draw_below(&random, i + 1);
    struct tt_record v = r->items[i];
    r->items[i] = r->items[j];
    r->items[j] = v;
  }
}

static int
run(struct tt_arena *arena, const char *source, const char *path)
{
  static struct records records;
  const char *error = NULL;
  struct tt_diags *diags = tt_diags_new(arena);
  struct tt_frontend_options fo = {0};
  struct tt_program *p =
      tt_compile_file(arena, diags, source, &fo, false).program;
  struct tt_history *h = tt_history_open_existing(path, &error);
  struct tt_target target;

  records.arena = arena;
  if (p == NULL || h == NULL || !tt_history_each(h, keep, &records, &error)) {
    fprintf(stderr, "%s\n", error ? error : "the source has errors");
    return 1;
  }
  tt_history_close(h);
  shuffle(&records);
  target = tt_target_local();
  struct tt_target_model model = {.vector_bytes = target.vector_bytes,
                                  .registers = target.registers,
                                  .l1 = target.l1,
                                  .l2 = target.l2,
                                  .l3 = target.l3,
                                  .threads = 1};
  struct tt_space *space = tt_space_new(arena, p, &model, false);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    struct tt_tune_options o = {
        .model = all[i].model, .features = all[i].features, .target = model};
    struct tt_trials t;
    tt_trials_init(&t, p, space, &tt_derived_space, &o);
    tt_trials_resume(&t, records.n, records.items);
    if (i == 0)
      printf("%d records of %d\n", t.n, records.n);
    if (t.n >= 2 * FOLDS) {
      evaluate(&all[i], &t);
      clock_candidate(&all[i], &t);
    }
    tt_trials_free(&t);
  }
  return 0;
}

/* ---- across programs --------------------------------------------------- */

enum { TOP = 16, MOST_FOLDS = 12 };

/* The program's fold: that many are held out at once where there are many. */
static int
fold_of(const struct tt_experience *e, int group)
{
  int program = group;

  for (int g = group; g >= 0; g--)
    if (strcmp(e->programs[g], e->programs[group]) == 0)
      program = g;
  return program % MOST_FOLDS;
}

/* Rows of the groups of other folds, and those of this one behind. */
static struct tt_fit
hold_out(const struct tt_experience *e, int fold, float *rows, float *labels,
         int *groups)
{
  struct tt_fit f = e->fit;
  size_t width = (size_t)f.width;
  int at = 0, from = 0;

  f.ngroups = f.n = 0;
  for (int pass = 0; pass < 2; pass++, from = 0)
    for (int g = 0; g < e->fit.ngroups; from += e->fit.groups[g++]) {
      int n = e->fit.groups[g];
      if ((fold_of(e, g) == fold) != pass)
        continue;
      memcpy(rows + (size_t)at * width, e->fit.rows + (size_t)from * width,
             (size_t)n * width * sizeof *rows);
      memcpy(labels + at, e->fit.labels + from, (size_t)n * sizeof *labels);
      at += n;
      f.n += pass ? 0 : n;
      if (!pass)
        groups[f.ngroups++] = n;
    }
  f.rows = rows;
  f.labels = labels;
  f.groups = groups;
  return f;
}

struct mean {
  int n;
  double rho, top, random, fit;
};

static void
evaluate_group(const char *name, int n, const float *scores,
               const float *labels, struct mean *m)
{
  double rho = bench_spearman(n, scores, labels);
  double top = bench_best_of_top(n, TOP, scores, labels);
  double random = bench_best_of_random(n, TOP, labels);

  printf("  %-14s %4d records, rank correlation %6.3f, best of %d: %.3f "
         "(random %.3f)\n",
         name, n, rho, TOP, top, random);
  m->rho += rho;
  m->top += top;
  m->random += random;
  m->n++;
}

static void
evaluate_fold(const struct made *m, const struct tt_experience *e, int fold,
              const char *const *names, struct mean *mean)
{
  struct tt_tune_options o = {.model = m->model, .objective = m->objective};
  size_t n = (size_t)e->fit.n, width = (size_t)e->fit.width;
  float *rows = tt_xmalloc(n * width * sizeof *rows);
  float *labels = tt_xmalloc(n * sizeof *labels);
  float *scores = tt_xmalloc(n * sizeof *scores);
  int *groups = tt_xmalloc((size_t)e->fit.ngroups * sizeof *groups);
  const char *error = NULL;
  struct tt_cost_model *model = tt_tune_model(&o, NULL, &error);
  struct tt_fit f = hold_out(e, fold, rows, labels, groups);

  double start = cpu();
  if (!model->ops->fit(model, &f, &error) ||
      !model->ops->predict(model, e->fit.n, f.width, rows, scores, &error)) {
    fprintf(stderr, "%s: %s\n", m->name, error);
    exit(1);
  }
  mean->fit += cpu() - start;
  for (int g = 0, at = f.n; g < e->fit.ngroups; g++)
    if (fold_of(e, g) == fold) {
      if (e->fit.groups[g] > TOP)
        evaluate_group(names[g], e->fit.groups[g], scores + at, labels + at,
                       mean);
      at += e->fit.groups[g];
    }
  model->ops->free(model);
  free(rows);
  free(labels);
  free(scores);
  free(groups);
}

/* The kernel's name, from "kernel NAME;". */
static const char *
name_of(struct tt_arena *arena, const struct tt_history_entry *list, int n,
        const char *hash)
{
  for (int i = 0; i < n; i++) {
    const char *text = list[i].workload.text;
    if (strcmp(list[i].workload.program, hash) == 0 &&
        strncmp(text, "kernel ", 7) == 0)
      return tt_arena_printf(arena, "%.*s", (int)strcspn(text + 7, ";"),
                             text + 7);
  }
  return hash;
}

static void
evaluate_across(struct tt_arena *arena, const struct made *m,
                const struct tt_experience *e,
                const struct tt_history_entry *list, int n)
{
  size_t ngroups = (size_t)e->fit.ngroups;
  const char **names = TT_ARRAY(arena, const char *, ngroups + 1);
  struct mean mean = {0};
  int folds = 0;

  for (int g = 0; g < e->fit.ngroups; g++) {
    names[g] = name_of(arena, list, n, e->programs[g]);
    folds = fold_of(e, g) >= folds ? fold_of(e, g) + 1 : folds;
  }
  for (int f = 0; f < folds && folds > 1; f++)
    evaluate_fold(m, e, f, names, &mean);
  if (mean.n > 0)
    printf("%-24s %d programs, rank correlation %.3f, best of %d: %.3f "
           "(random %.3f), a fit %.0f ms\n",
           m->name, mean.n, mean.rho / mean.n, TOP, mean.top / mean.n,
           mean.random / mean.n, 1e3 * mean.fit / folds);
}

static int
run_across(struct tt_arena *arena, const char *path)
{
  const char *error = NULL;
  struct tt_history *h = tt_history_open_existing(path, &error);
  struct tt_history_entry *list;
  int n = h != NULL ? tt_history_list(h, arena, &list, &error) : -1;
  struct tt_target target = tt_target_local();
  struct tt_target_model model = {.vector_bytes = target.vector_bytes,
                                  .registers = target.registers,
                                  .l1 = target.l1,
                                  .l2 = target.l2,
                                  .l3 = target.l3,
                                  .threads = 1};

  if (n < 1) {
    fprintf(stderr, "%s\n", error ? error : "no records");
    return 1;
  }
  struct tt_workload any = list[n - 1].workload;
  any.program = "";
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    struct tt_experience e;
    struct tt_experience_query q = {.workload = &any,
                                    .features = all[i].model == TT_MODEL_TREEGRU
                                                    ? TT_FEATURES_TREE
                                                    : all[i].features,
                                    .target = &model,
                                    .most = 12 * TT_EXPERIENCE_MOST};
    double start = cpu();
    if (all[i].features == TT_FEATURES_CONFIG) /* mean nothing elsewhere */
      continue;
    if (!tt_experience_load(h, &q, &e, &error)) {
      fprintf(stderr, "%s\n", error);
      return 1;
    }
    printf("%s: %d records of %d programs, %d unread, %.0f ms\n", all[i].name,
           e.fit.n, e.fit.ngroups, e.unread, 1e3 * (cpu() - start));
    evaluate_across(arena, &all[i], &e, list, n);
    tt_experience_free(&e);
  }
  tt_history_close(h);
  return 0;
}

int
main(int argc, char **argv)
{
  struct tt_arena *arena = tt_arena_new();
  int status = 2;

  if (argc == 3)
    status = run(arena, argv[1], argv[2]);
  else if (argc == 2)
    status = run_across(arena, argv[1]);
  else
    fprintf(stderr, "usage: models [FILE.te] HISTORY.db\n");
  tt_arena_free(arena);
  return status;
}
