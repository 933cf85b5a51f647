/* The tuning loop: Algorithm 1, its budgets, and how it ends.
 *
 * Invariant: a result that was measured is in the history, or waits to be
 * written there, before the next one is looked at; nothing that fails
 * (history, model, interrupt) loses the best schedule found so far.
 */
#include "config.h"
#include "tuner/tune.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tuner/features.h"
#include "tuner/finalists.h"
#include "tuner/recorder.h"
#include "tuner/search.h"
#include "tuner/trials.h"

const struct tt_measure_ops tt_real_measure = {
    tt_measurer_new, tt_measurer_free, tt_measure, tt_measure_finalists};
const struct tt_space_ops tt_derived_space = {tt_space_new, tt_space_schedule,
                                              tt_space_default};

enum {
  FIRST_BATCH = 16,
  SMALL_BATCH = 8,
  MAX_BATCH = 64,
  BATCHES = 10,      /* that a time budget should be good for */
  MAX_COPIES = 512,  /* of statements in the code of a candidate */
  SEEDS = 16,        /* best configurations given to the search */
  FINALIST_TURNS = 5 /* calls of one, at least */
};

struct run {
  const struct tt_program *program;
  const struct tt_tune_options *o;
  const struct tt_measure_ops *measure;
  const struct tt_space_ops *space_ops;
  struct tt_arena *arena; /* the caller's: the result */
  struct tt_arena *mine;  /* the space, records that wait */
  struct tt_arena *score; /* a schedule being scored */
  struct tt_arena *batch; /* schedules being measured */
  struct tt_space *space;
  struct tt_measurer *measurer;
  struct tt_cost_model *model;
  struct tt_searcher *searcher;
  struct tt_trials trials;
  struct tt_tuned *out;
  double start, loop_start;
  int resumed;  /* trials of earlier runs that count */
  int measured; /* trials of this run */
  bool timed_out, default_done;
  /* of the batch */
  struct tt_schedule *schedules[MAX_BATCH];
  const char *texts[MAX_BATCH];
  const int *configs[MAX_BATCH];
  int nbatch;
  double most_copies; /* of statements: more take too long to build */
  struct tt_recorder recorder;
  const char *failure; /* how the first trial that failed did */
};

static double
now(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool
interrupted(const struct run *r)
{
  return r->o->interrupted != NULL && *r->o->interrupted;
}

static void
report(struct run *r, const char *phase)
{
  struct tt_progress *p = &r->out->final;

  p->phase = phase;
  p->elapsed = now() - r->start;
  if (r->o->progress != NULL)
    r->o->progress(r->o->progress_ctx, p);
}

/* The first warning is the one that explains the others. */
static void
warn(struct run *r, const char *format, const char *why)
{
  if (r->out->warning == NULL)
    r->out->warning = tt_arena_printf(r->arena, format, why);
}

/* ---- history ----------------------------------------------------------- */

/* The last try for what could not be written. */
static void
flush_records(struct run *r)
{
  const char *error = NULL;

  if (!tt_recorder_flush(&r->recorder, &error))
    warn(r, "results were not saved: the history %s", error);
}

static void
load_records(struct run *r)
{
  struct tt_arena *arena;
  struct tt_record *records;
  const char *error = NULL;
  int n;

  if (r->o->history == NULL)
    return;
  arena = tt_arena_new();
  n = tt_history_load(r->o->history, arena, &r->o->workload, &records, &error);
  if (n < 0)
    warn(r, "earlier results were not used: the history %s", error);
  else
    r->resumed = tt_trials_resume(&r->trials, n, records);
  tt_arena_free(arena);
  if (r->o->retune)
    r->resumed = 0;
}

static void
write_finished(struct run *r, const char *text)
{
  struct tt_finished f = {.schedule = text,
                          .seconds = r->out->seconds,
                          .plain_seconds = r->out->plain_seconds,
                          .spent = now() - r->start,
                          .max_error = r->out->max_error,
                          .trials = r->measured + r->resumed};
  const char *error = NULL;

  if (r->o->history != NULL && !r->recorder.failed &&
      !tt_history_finish(r->o->history, &r->o->workload, &f, &error))
    warn(r, "the result was not saved: the history %s", error);
}

/* ---- reuse ------------------------------------------------------------- */

/* The winner of a program that differed in names: one of the records. */
static struct tt_schedule *
find_renamed(struct run *r, const char *text)
{
  for (int i = 0; i < r->trials.n; i++)
    if (tt_same_but_names(r->trials.items[i].text, text))
      return tt_trial_schedule(&r->trials, r->arena, &r->trials.items[i]);
  return NULL;
}

/* A finished record that still applies ends the run before it begins. */
static bool
reuse(struct run *r)
{
  struct tt_finished f;
  const char *error = NULL;
  int found;

  if (r->o->history == NULL || r->o->retune)
    return false;
  found =
      tt_history_finished(r->o->history, r->mine, &r->o->workload, &f, &error);
  if (found < 0)
    warn(r, "earlier results were not used: the history %s", error);
  if (found != 1)
    return false;
  r->out->schedule =
      tt_schedule_of_text(r->arena, r->program, r->o->strict_fp, f.schedule);
  if (r->out->schedule == NULL) {
    load_records(r);
    r->out->schedule = find_renamed(r, f.schedule);
  }
  if (r->out->schedule == NULL)
    return false;
  r->out->status = TT_REUSED;
  r->out->seconds = f.seconds;
  r->out->plain_seconds = f.plain_seconds;
  r->out->max_error = f.max_error;
  r->out->checked = true;
  r->out->final.best = f.seconds;
  r->out->final.plain = f.plain_seconds;
  return true;
}

static double
best_seconds(const struct run *r)
{
  int best;

  return tt_trials_best(&r->trials, 1, &best)
             ? r->trials.items[best].result.seconds
             : 0;
}

/* ---- the search -------------------------------------------------------- */

static bool
space_features(void *ctx, const int *config, float *row)
{
  struct run *r = ctx;
  struct tt_schedule *s;

  tt_arena_reset(r->score);
  s = r->space_ops->schedule(r->score, r->space, config);
  if (s == NULL || tt_code_copies(s) > r->most_copies)
    return false;
  tt_features(r->trials.features, s, &r->o->target, r->space, config, row);
  return true;
}

/* Put the configuration's schedule into the batch unless it is one that was
 * measured, or is in the batch already. */
static bool
space_fresh(void *ctx, const int *config)
{
  struct run *r = ctx;
  struct tt_schedule *s = r->space_ops->schedule(r->batch, r->space, config);
  const char *text;

  if (s == NULL || r->nbatch == MAX_BATCH)
    return false;
  text = tt_schedule_text(r->batch, s);
  if (tt_trials_find(&r->trials, text) != NULL)
    return false;
  for (int i = 0; i < r->nbatch; i++)
    if (strcmp(r->texts[i], text) == 0)
      return false;
  r->schedules[r->nbatch] = s;
  r->texts[r->nbatch] = text;
  r->configs[r->nbatch] =
      tt_arena_dup(r->batch, config, (size_t)r->space->nknobs * sizeof *config);
  r->nbatch++;
  return true;
}

/* Limit the code of candidates: that of the default schedule is allowed. */
static void
limit_copies(struct run *r)
{
  int *config = TT_ARRAY(r->mine, int, (size_t)r->space->nknobs + 1);
  struct tt_schedule *s;

  r->space_ops->initial(r->space, config);
  s = r->space_ops->schedule(r->mine, r->space, config);
  r->most_copies = s != NULL ? 2 * tt_code_copies(s) : 0;
  if (r->most_copies < MAX_COPIES)
    r->most_copies = MAX_COPIES;
}

static void
open_search(struct run *r)
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
                                  .fresh = space_fresh,
                                  .ctx = r};
  const char *error = NULL;

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
  if (r->o->search != TT_SEARCH_RANDOM)
    r->model = tt_tune_model(r->o, &error);
  if (r->model == NULL && error != NULL)
    warn(r, "searching without a cost model: %s", error);
}

/* The configurations of the best trials, best first. */
static int
best_configs(struct run *r, int *out)
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
drop_model(struct run *r, const char *error)
{
  warn(r, "the search went on without a cost model: %s", error);
  r->model->ops->free(r->model);
  r->model = NULL;
}

static void
learn(struct run *r)
{
  const char *error = NULL;

  if (r->model == NULL)
    return;
  report(r, "learning");
  if (!tt_trials_fit(&r->trials, r->model, &error))
    drop_model(r, error);
}

/* Before anything is known: half of the batch around the default schedule,
 * half anywhere. */
static void
propose_first(struct run *r, int n, int *out)
{
  int *initial = tt_xmalloc(((size_t)r->space->nknobs + 1) * sizeof *initial);
  const char *error = NULL;
  int got;

  r->space_ops->initial(r->space, initial);
  got = tt_search_anneal(r->searcher, NULL, 1, initial, n / 2, out, &error);
  tt_search_random(r->searcher, n - got, out);
  free(initial);
}

static void
propose_by_model(struct run *r, int n, int *out)
{
  size_t size = (size_t)SEEDS * (size_t)r->space->nknobs + 1;
  int *seeds = tt_xmalloc(size * sizeof *seeds), nseeds, got;
  const char *error = NULL;

  nseeds = best_configs(r, seeds);
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

/* Fill the batch with up to n more schedules: space_fresh() puts them there,
 * `out` is of no interest. */
static void
propose(struct run *r, int n)
{
  int *out =
      tt_xmalloc(((size_t)n * (size_t)r->space->nknobs + 1) * sizeof *out);

  switch (r->o->search) {
  case TT_SEARCH_RANDOM:
    tt_search_random(r->searcher, n, out);
    break;
  case TT_SEARCH_ANNEAL:
  case TT_SEARCH_GENETIC:
    if (best_seconds(r) > 0)
      propose_by_model(r, n, out);
    else
      propose_first(r, n, out);
    break;
  }
  free(out);
}

/* ---- budgets ----------------------------------------------------------- */

/* What one finalist's turns are thought to cost: its object is kept. */
static double
finalist_cost(const struct run *r)
{
  return 0.35 + FINALIST_TURNS * best_seconds(r);
}

/* Time kept back for the finalists: at most a fifth of the budget. */
static double
reserve(const struct run *r)
{
  double wanted = TT_FINALISTS * finalist_cost(r);
  double most = 0.2 * r->o->seconds;

  return wanted < most ? wanted : most;
}

/* Seconds left for trials; a large number without a budget. */
static double
time_left(const struct run *r)
{
  if (r->o->seconds <= 0)
    return 1e9;
  return r->o->seconds - reserve(r) - (now() - r->start);
}

/* How many trials the next batch should have; 0: the budget is spent.
 * Without a budget of time this does not depend on times. */
static int
next_batch(const struct run *r)
{
  double left = time_left(r), rate = 0, spent = now() - r->loop_start;
  int n = r->measured + r->resumed < 3 * FIRST_BATCH ? FIRST_BATCH : 32;
  int trials = r->o->trials - r->resumed - r->measured;

  if (r->measured > 0 && spent > 0)
    rate = r->measured / spent;
  if (r->o->seconds > 0 && rate == 0)
    n = SMALL_BATCH;
  if (r->o->seconds > 0 && rate > 0) {
    n = (int)(rate * r->o->seconds / BATCHES);
    n = n < SMALL_BATCH ? SMALL_BATCH : n > MAX_BATCH ? MAX_BATCH : n;
    if (left * rate < n)
      n = (int)(left * rate);
  }
  if (r->o->seconds > 0 && left <= 0 && r->default_done)
    return 0;
  if (r->o->trials >= 0 && trials < n)
    n = trials;
  return n > 0 ? n : 0;
}

/* ---- measuring --------------------------------------------------------- */

static const char *
describe_failure(struct run *r, const struct tt_result *result)
{
  return tt_arena_printf(r->arena, "%s%s%s", tt_outcome_text(result->outcome),
                         result->message ? ": " : "",
                         result->message ? result->message : "");
}

static bool
measured(void *ctx, int i, const struct tt_result *result)
{
  struct run *r = ctx;
  struct tt_progress *p = &r->out->final;
  struct tt_record record = {.schedule = r->texts[i],
                             .config = r->configs[i],
                             .nknobs = r->space->nknobs,
                             .result = *result};

  /* Ctrl-C reaches the children too: what failed then did not fail. */
  if (result->outcome != TT_OUT_CANCELLED &&
      (result->outcome == TT_OUT_OK || !interrupted(r))) {
    tt_trials_add(&r->trials, r->schedules[i], r->texts[i], r->configs[i],
                  result);
    tt_recorder_add(&r->recorder, &record);
    if (result->outcome != TT_OUT_OK && r->failure == NULL)
      r->failure = describe_failure(r, result);
    r->measured++;
    r->default_done = true;
    p->trials = r->measured + r->resumed;
    p->outcomes[result->outcome]++;
    p->best = best_seconds(r);
    report(r, "measuring");
  }
  r->timed_out = time_left(r) <= 0;
  return !interrupted(r) && !r->timed_out;
}

/* false: the toolchain failed. */
static bool
measure_batch(struct run *r, const char **error)
{
  struct tt_result results[MAX_BATCH];

  memset(results, 0, sizeof results);
  report(r, "building");
  return r->measure->measure(r->measurer, r->nbatch, r->schedules,
                             best_seconds(r), results, measured, r, error);
}

/* Trials until a budget is spent or the space is exhausted.  false: *error. */
static bool
loop(struct run *r, const char **error)
{
  int *config = TT_ARRAY(r->mine, int, (size_t)r->space->nknobs + 1);
  int n, before;

  r->loop_start = now();
  while (!interrupted(r) && (n = next_batch(r)) > 0) {
    tt_arena_reset(r->batch);
    r->nbatch = 0;
    if (r->measured == 0) {
      r->space_ops->initial(r->space, config);
      tt_searcher_know(r->searcher, config);
      space_fresh(r, config);
    }
    if (r->trials.n > 0)
      learn(r);
    if (r->nbatch < n && !interrupted(r))
      propose(r, n - r->nbatch);
    if (r->nbatch == 0)
      return true; /* exhausted */
    before = r->measured;
    if (!measure_batch(r, error))
      return false;
    if (r->timed_out || r->measured == before)
      return true;
  }
  return true;
}

/* ---- the end ----------------------------------------------------------- */

/* Add the trial with that text if it was right. */
static void
add_text(struct run *r, struct tt_finalists *f, const char *text)
{
  const struct tt_trial *t = tt_trials_find(&r->trials, text);

  if (t != NULL && t->result.outcome == TT_OUT_OK)
    tt_finalists_add(r->arena, f, tt_trial_schedule(&r->trials, r->arena, t),
                     &t->result);
}

/* The incumbents: the winner of before, if there is one, and the default. */
static void
add_incumbents(struct run *r, struct tt_finalists *f)
{
  int *config = TT_ARRAY(r->mine, int, (size_t)r->space->nknobs + 1);
  struct tt_schedule *s;
  struct tt_finished before;
  const char *error = NULL;

  if (r->o->history != NULL && r->o->retune &&
      tt_history_finished(r->o->history, r->mine, &r->o->workload, &before,
                          &error) == 1)
    add_text(r, f, before.schedule);
  r->space_ops->initial(r->space, config);
  s = r->space_ops->schedule(r->mine, r->space, config);
  if (s != NULL)
    add_text(r, f, tt_schedule_text(r->mine, s));
}

/* The best trials; and the plain loops where nothing is clearly better. */
static void
add_challengers(struct run *r, struct tt_finalists *f, int max)
{
  int best[TT_FINALISTS], n = tt_trials_best(&r->trials, TT_FINALISTS, best);
  double plain = r->out->plain_seconds;
  struct tt_result result = {.outcome = TT_OUT_OK, .seconds = plain};
  struct tt_trial *t;

  if (plain > 0 && n > 0 && plain < 1.05 * best_seconds(r))
    tt_finalists_add(r->arena, f,
                     tt_schedule_new(r->arena, r->program, r->o->strict_fp),
                     &result);
  for (int i = 0; i < n && f->n < max; i++) {
    t = &r->trials.items[best[i]];
    tt_finalists_add(r->arena, f, tt_trial_schedule(&r->trials, r->arena, t),
                     &t->result);
  }
}

/* How many finalists the time that is left allows, at least two. */
static int
finalists_allowed(const struct run *r)
{
  double left = r->o->seconds - (now() - r->start);
  int n;

  if (r->o->seconds <= 0)
    return TT_FINALISTS;
  n = (int)(left / finalist_cost(r));
  return n < 2 ? 2 : n > TT_FINALISTS ? TT_FINALISTS : n;
}

/* Its time is the least that was measured, in turns or before. */
static void
choose(struct run *r, const struct tt_finalists *f, int i)
{
  const struct tt_trial *t = tt_trials_find(&r->trials, f->texts[i]);

  r->out->schedule = f->schedules[i];
  r->out->seconds = f->results[i].seconds;
  if (t != NULL && t->result.outcome == TT_OUT_OK &&
      t->result.seconds < r->out->seconds)
    r->out->seconds = t->result.seconds;
  r->out->max_error = f->results[i].max_error;
  r->out->checked = true;
  r->out->final.best = r->out->seconds;
}

/* The fastest trial as it was measured.  Before any, if it was interrupted,
 * the default schedule. */
static void
best_so_far(struct run *r)
{
  struct tt_finalists f = {0};
  int best, *config;

  if (tt_trials_best(&r->trials, 1, &best) == 1)
    tt_finalists_add(
        r->arena, &f,
        tt_trial_schedule(&r->trials, r->arena, &r->trials.items[best]),
        &r->trials.items[best].result);
  if (f.n > 0) {
    choose(r, &f, 0);
  } else if (r->trials.n == 0 && interrupted(r)) {
    config = TT_ARRAY(r->mine, int, (size_t)r->space->nknobs + 1);
    r->space_ops->initial(r->space, config);
    r->out->schedule = r->space_ops->schedule(r->arena, r->space, config);
  }
}

/* Time the finalists in turns and choose; nothing is chosen when that is
 * interrupted.  false: the toolchain failed. */
static bool
finish(struct run *r, const char **error)
{
  struct tt_finalists f = {0};
  int max = finalists_allowed(r), best;

  add_incumbents(r, &f);
  add_challengers(r, &f, max);
  if (f.n > 1) {
    report(r, "finalists");
    if (!r->measure->finalists(r->measurer, f.n, f.schedules, f.results, error))
      return false;
  }
  if (interrupted(r))
    return true;
  best = tt_finalists_winner(&f);
  if (best < 0) {
    r->out->status = TT_NO_CANDIDATE;
    if (r->failure != NULL)
      r->out->error = tt_arena_printf(
          r->arena, "no candidate passed its check; the first of them: %s",
          r->failure);
    return true;
  }
  choose(r, &f, best);
  r->out->status = TT_TUNED;
  flush_records(r);
  write_finished(r, f.texts[best]);
  return true;
}

static void
toolchain_failed(struct run *r, const char *error)
{
  r->out->status = TT_TOOLCHAIN;
  r->out->error =
      tt_arena_strdup(r->arena, error ? error : "the toolchain failed");
}

/* ---- the whole --------------------------------------------------------- */

/* `ok`: the toolchain works.  Sets what a run that was cut short gives. */
static void
cut_short(struct run *r, bool ok, const char *error)
{
  if (r->out->schedule != NULL || (ok && !interrupted(r)))
    return; /* it was not */
  if (interrupted(r))
    r->out->status = TT_INTERRUPTED;
  else
    toolchain_failed(r, error);
  best_so_far(r);
}

static void
search_and_finish(struct run *r)
{
  const char *error = NULL;
  bool ok;

  load_records(r);
  open_search(r);
  r->out->final.trials = r->resumed;
  for (int i = 0; i < r->trials.n && !r->o->retune; i++)
    r->out->final.outcomes[r->trials.items[i].result.outcome]++;
  r->out->final.best = best_seconds(r);
  ok = loop(r, &error) && (interrupted(r) || finish(r, &error));
  cut_short(r, ok, error);
  flush_records(r);
}

static void
open_and_search(struct run *r)
{
  struct tt_measure_options options = r->o->measure;
  struct tt_result plain = {0};
  const char *error = NULL;

  if (options.interrupted == NULL)
    options.interrupted = r->o->interrupted;
  report(r, "building");
  r->measurer = r->measure->open(r->program, &options, &plain, &error);
  if (r->measurer == NULL) {
    cut_short(r, false, error);
    return;
  }
  r->out->plain_seconds = plain.seconds;
  r->out->final.plain = plain.seconds;
  search_and_finish(r);
  r->measure->close(r->measurer);
  tt_searcher_free(r->searcher);
  if (r->model != NULL)
    r->model->ops->free(r->model);
}

static void
tune(struct run *r)
{
  int *config;

  r->space =
      r->space_ops->open(r->mine, r->program, &r->o->target, r->o->strict_fp);
  tt_trials_init(&r->trials, r->program, r->space, r->space_ops, r->o);
  if (r->o->trials == 0) {
    config = TT_ARRAY(r->mine, int, (size_t)r->space->nknobs + 1);
    r->space_ops->initial(r->space, config);
    r->out->schedule = r->space_ops->schedule(r->arena, r->space, config);
    r->out->status = TT_TUNED;
  } else if (!reuse(r)) {
    tt_trials_free(&r->trials); /* what reuse() looked at */
    tt_trials_init(&r->trials, r->program, r->space, r->space_ops, r->o);
    open_and_search(r);
  }
  tt_trials_free(&r->trials);
}

struct tt_tuned
tt_tune(struct tt_arena *arena, const struct tt_program *program,
        const struct tt_tune_options *options)
{
  struct tt_tuned out = {.status = TT_NO_CANDIDATE};
  struct run r = {
      .program = program,
      .o = options,
      .measure = options->measure_ops ? options->measure_ops : &tt_real_measure,
      .space_ops = options->space_ops ? options->space_ops : &tt_derived_space,
      .arena = arena,
      .out = &out,
      .start = now()};

  r.mine = tt_arena_new();
  r.score = tt_arena_new();
  r.batch = tt_arena_new();
  tt_recorder_init(&r.recorder, options->history, &options->workload, r.mine);
  out.final.max_trials = options->trials;
  out.final.max_seconds = options->seconds;
  out.final.flops = tt_program_flops(program);
  out.final.phase = "building";
  tune(&r);
  out.final.elapsed = now() - r.start;
  tt_recorder_free(&r.recorder);
  tt_arena_free(r.batch);
  tt_arena_free(r.score);
  tt_arena_free(r.mine);
  return out;
}
