/* What a run measures next: its space, its searcher and its learned cost.
 *
 * Invariant: a schedule is put into a batch once in the life of a program's
 * records; a model that fails is dropped, and the search goes on without.
 */
#include "config.h"
#include "tuner/tune_run.h"

#include <stdlib.h>
#include <string.h>

#include "tuner/features.h"
#include "tuner/search.h"

enum {
  LOOKS_A_PUMP = 64, /* about a millisecond of searching */
  SEEDS = 16         /* best configurations given to the search */
};

static bool
space_features(void *ctx, const int *config, float *row)
{
  struct tt_run *r = ctx;
  struct tt_schedule *s;

  /* While a batch is measured, its candidates go on. */
  if (++r->looks % LOOKS_A_PUMP == 0 && r->measurer != NULL)
    r->measure->pump(r->measurer);
  tt_arena_reset(r->score);
  s = r->space_ops->schedule(r->score, r->space, config);
  if (s == NULL || tt_code_copies(s) > r->most_copies)
    return false;
  tt_features(r->trials.features, s, &r->o->target, r->space, config, row);
  return true;
}

/* Put the configuration's schedule into the batch unless it is one that was
 * measured, or is in the batch already. */
bool
tt_run_fresh(void *ctx, const int *config)
{
  struct tt_run *r = ctx;
  struct tt_schedule *s = r->space_ops->schedule(r->batch, r->space, config);
  const char *text;

  if (s == NULL || r->nbatch == TT_MAX_STREAM)
    return false;
  text = tt_schedule_text(r->batch, s);
  if (tt_trials_find(&r->trials, text) != NULL)
    return false;
  for (int i = 0; i < r->nbatch; i++)
    if (strcmp(r->texts[i], text) == 0)
      return false;
  r->pending++;
  r->schedules[r->nbatch] = s;
  r->texts[r->nbatch] = text;
  r->configs[r->nbatch] =
      tt_arena_dup(r->batch, config, (size_t)r->space->nknobs * sizeof *config);
  r->nbatch++;
  return true;
}

/* Limit the code of candidates: that of the default schedule is allowed. */
static void
limit_copies(struct tt_run *r)
{
  struct tt_schedule *s =
      r->space_ops->schedule(r->mine, r->space, tt_run_initial(r));

  r->most_copies = tt_most_copies(s);
}

static void
open_models(struct tt_run *r)
{
  const char *error = NULL;

  if (r->o->search == TT_SEARCH_RANDOM)
    return;
  r->global = tt_tune_global(r->o, r->out, &error);
  if (error != NULL)
    tt_run_warn(r, "nothing was learned from other programs: the history %s",
                error);
  r->model = tt_tune_model(r->o, r->global, &error);
  if (r->model == NULL && error != NULL)
    tt_run_warn(r, "searching without a cost model: %s", error);
}

void
tt_run_open_search(struct tt_run *r)
{
  size_t n = (size_t)r->space->nknobs;
  int *sizes = TT_ARRAY(r->mine, int, n + 1);
  bool *ordered = TT_ARRAY(r->mine, bool, n + 1);
  struct tt_search_params params =
      r->o->params.chains > 0 ? r->o->params : tt_search_defaults;
  struct tt_search_space space = {.nknobs = r->space->nknobs,
                                  .sizes = sizes,
                                  .ordered = ordered,
                                  .width = r->trials.width,
                                  .features = space_features,
                                  .fresh = tt_run_fresh,
                                  .ctx = r};

  limit_copies(r);
  for (size_t i = 0; i < n; i++) {
    sizes[i] = r->space->knobs[i].n;
    ordered[i] = r->space->knobs[i].kind == TT_KNOB_FACTOR;
  }
  /* Scoring costs in proportion to the stages. */
  if (r->program->nstages > 8)
    params.evaluations = params.evaluations * 8 / r->program->nstages + 1;
  r->searcher = tt_searcher_new(&space, &params, r->o->seed);
  for (int i = 0; i < r->trials.n; i++)
    if (r->trials.items[i].config != NULL)
      tt_searcher_know(r->searcher, r->trials.items[i].config);
  open_models(r);
}

/* The configurations of the best trials, best first. */
static int
best_configs(struct tt_run *r, int *out)
{
  int best[SEEDS], n = tt_trials_best(&r->trials, SEEDS, best), got = 0;
  size_t k = (size_t)r->space->nknobs;

  for (int i = 0; i < n; i++)
    if (k > 0 && r->trials.items[best[i]].config != NULL)
      memcpy(out + (size_t)got++ * k, r->trials.items[best[i]].config,
             k * sizeof *out);
  return got;
}

/* A model that fails is dropped: the search goes on without it. */
static void
drop_model(struct tt_run *r, const char *error)
{
  tt_run_warn(r, "the search went on without a cost model: %s", error);
  r->model->ops->free(r->model);
  r->model = NULL;
}

void
tt_run_learn(struct tt_run *r)
{
  const char *error = NULL;

  if (r->model == NULL)
    return;
  tt_run_report(r, "learning");
  if (!tt_trials_fit(&r->trials, r->model, &error))
    drop_model(r, error);
}

/* Where nothing was measured the search begins at the default schedule. */
static void
propose_by_model(struct tt_run *r, int n, int *out)
{
  size_t size = (size_t)SEEDS * (size_t)r->space->nknobs + 1;
  int *seeds = tt_xmalloc(size * sizeof *seeds), nseeds, got;
  const char *error = NULL;

  nseeds = best_configs(r, seeds);
  if (nseeds == 0) {
    memcpy(seeds, tt_run_initial(r), (size_t)r->space->nknobs * sizeof *seeds);
    nseeds = 1;
  }
  got = r->o->search == TT_SEARCH_GENETIC
            ? tt_search_genetic(r->searcher, r->model, nseeds, seeds, n, out,
                                &error)
            : tt_search_anneal(r->searcher, r->model, nseeds, seeds, n, out,
                               &error);
  if (got < 0) {
    drop_model(r, error);
    tt_search_random(r->searcher, n, out);
  }
  free(seeds);
}

/* Before anything was measured: three quarters of the batch as other programs
 * taught, or half of it around the default schedule; the rest anywhere. */
static void
propose_first(struct tt_run *r, int n, int *out)
{
  const char *error = NULL;
  int before = r->nbatch;

  if (r->global != NULL && r->model != NULL)
    propose_by_model(r, n - n / 4, out);
  else if (!r->o->blind)
    tt_search_anneal(r->searcher, NULL, 1, tt_run_initial(r), n / 2, out,
                     &error);
  tt_search_random(r->searcher, n - (r->nbatch - before), out);
}

/* Fill the batch with up to n more schedules: tt_run_fresh() puts them there,
 * `out` is of no interest. */
void
tt_run_propose(struct tt_run *r, int n)
{
  int *out =
      tt_xmalloc(((size_t)n * (size_t)r->space->nknobs + 1) * sizeof *out);

  switch (r->o->search) {
  case TT_SEARCH_RANDOM:
    tt_search_random(r->searcher, n, out);
    break;
  case TT_SEARCH_ANNEAL:
  case TT_SEARCH_GENETIC:
    if (tt_run_best(r) > 0)
      propose_by_model(r, n, out);
    else
      propose_first(r, n, out);
    break;
  }
  free(out);
}
