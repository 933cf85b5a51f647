/* Would schedules chosen by the model that ships be better than the default
 * ones where nothing is measured?
 *
 *   zero LIST HISTORY [VECTOR-BITS]
 *
 * For each program of LIST kernels are timed in turns: of the default
 * schedule; of where walks from it lead on the model's scores, by steps that
 * must gain a margin (in the logarithm of odds); of a search by simulated
 * annealing; and of the fastest schedule that HISTORY knows.  Printed are
 * speeds as shares of the faster of the default and the last, the geometric
 * means and the least of them. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/runner.h"
#include "tuner/pretrained.h"
#include "walk.h"
#include "works.h"

enum { DEFAULT, WALK, ANNEAL = 4, TUNED, KERNELS, LOOKS = 1500 };
static const float margins[ANNEAL - WALK] = {0, 0.6f, 1.5f};

struct sums {
  int n;
  double logs[KERNELS], least[KERNELS], looked; /* seconds */
};

static double
cpu(void)
{
  struct timespec t;

  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The schedules, of which the last may be NULL; seconds of the look. */
static double
make_schedules(struct tt_arena *arena, struct work *w,
               const struct tt_target_model *target,
               struct tt_cost_model *model, struct tt_schedule **out)
{
  size_t n = (size_t)w->space->nknobs + 1;
  int *first = TT_ARRAY(arena, int, n), best;
  double start = cpu();

  tt_space_default(w->space, first);
  for (int i = DEFAULT; i <= ANNEAL; i++) {
    int *config = tt_arena_dup(arena, first, n * sizeof *config);
    if (i == ANNEAL)
      anneal(w, target, model, LOOKS, config);
    else if (i >= WALK)
      walk(w, target, model, margins[i - WALK], config);
    out[i] = tt_space_schedule(arena, w->space, config);
  }
  start = cpu() - start;
  out[TUNED] =
      tt_trials_best(&w->trials, 1, &best)
          ? tt_trial_schedule(&w->trials, arena, &w->trials.items[best])
          : NULL;
  return start;
}

/* Seconds of each schedule; equal ones are timed once.  false: failed. */
static bool
time_them(struct tt_arena *arena, const struct works *ws, struct work *w,
          struct tt_schedule *const *schedules, double *seconds)
{
  const char *error = NULL, *texts[KERNELS];
  struct tt_measure_options o = {.cc = "cc",
                                 .cflags = "-O2 -march=native -std=gnu11",
                                 .jobs = 2,
                                 .threads = 1,
                                 .timeout = 10};
  struct tt_result plain, results[KERNELS] = {{0}};
  struct tt_schedule *distinct[KERNELS];
  struct tt_measurer *m;
  int of[KERNELS], n = 0;
  bool ok;

  o.codegen.vector_bytes = ws->target.vector_bytes;
  for (int i = 0; i < KERNELS; i++) {
    if (schedules[i] == NULL)
      continue;
    const char *text = tt_schedule_text(arena, schedules[i]);
    for (of[i] = 0; of[i] < n && strcmp(texts[of[i]], text) != 0; of[i]++)
      ;
    texts[of[i]] = text;
    distinct[of[i]] = schedules[i];
    n += of[i] == n;
  }
  m = tt_measurer_new(w->program, &o, &plain, &error);
  ok = m != NULL && tt_measure_finalists(m, n, distinct, results, &error);
  for (int i = 0; i < KERNELS && ok; i++) {
    seconds[i] = schedules[i] != NULL ? results[of[i]].seconds : 0;
    if (schedules[i] != NULL && results[of[i]].outcome != TT_OUT_OK) {
      error = tt_outcome_text(results[of[i]].outcome);
      ok = false;
    }
  }
  if (!ok)
    fprintf(stderr, "%s: %s\n", w->name, error);
  if (m != NULL)
    tt_measurer_free(m);
  return ok;
}

static void
one(const struct works *ws, struct work *w, struct tt_cost_model *model,
    struct sums *sums)
{
  struct tt_arena *arena = tt_arena_new();
  struct tt_schedule *schedules[KERNELS];
  double seconds[KERNELS], fastest, share;

  sums->looked += make_schedules(arena, w, &ws->target, model, schedules);
  if (time_them(arena, ws, w, schedules, seconds)) {
    fastest = seconds[DEFAULT];
    if (seconds[TUNED] > 0)
      fastest = fmin(fastest, seconds[TUNED]);
    printf("| %s |", w->name);
    for (int i = 0; i <= ANNEAL; i++) {
      share = fastest / seconds[i];
      sums->logs[i] += log(share);
      sums->least[i] = fmin(sums->least[i], share);
      printf(" %.2f |", share);
    }
    printf("%s\n", seconds[TUNED] > 0 ? "" : " not tuned");
    fflush(stdout);
    sums->n++;
  }
  tt_arena_free(arena);
}

static void
print_row(const char *name, const struct sums *sums, bool mean)
{
  printf("| %s |", name);
  for (int i = 0; i <= ANNEAL; i++)
    printf(" %.2f |", mean ? exp(sums->logs[i] / sums->n) : sums->least[i]);
  printf("\n");
}

int
main(int argc, char **argv)
{
  struct tt_arena *arena = tt_arena_new();
  struct tt_cost_model *model;
  struct sums sums = {.least = {1, 1, 1, 1, 1}};
  struct works ws;
  int runner = tt_runner_main(argc, argv); /* this program, as a child */

  if (runner >= 0)
    return runner;
  if (argc < 3) {
    fprintf(stderr, "usage: zero LIST HISTORY [VECTOR-BITS]\n");
    return 2;
  }
  if (!works_read(&ws, arena, argv[1], argc > 3 ? atoi(argv[3]) : 0) ||
      !works_load(&ws, argv[2]))
    return 1;
  model = tt_pretrained_new(TT_FEATURES_RELATION, &ws.target);
  if (model == NULL) {
    fprintf(stderr, "zero: no model ships for this\n");
    return 1;
  }
  printf("| program | default | walk 0 | walk 0.6 | walk 1.5 | annealing |\n"
         "| --- | --- | --- | --- | --- | --- |\n");
  for (int i = 0; i < ws.all.n; i++)
    one(&ws, &ws.all.items[i], model, &sums);
  print_row("geometric mean", &sums, true);
  print_row("least", &sums, false);
  printf("%d programs, %.0f ms of thought each\n", sums.n,
         1e3 * sums.looked / sums.n);
  model->ops->free(model);
  works_free(&ws);
  tt_arena_free(arena);
  return 0;
}
