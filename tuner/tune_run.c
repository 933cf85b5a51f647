/* One program's search from its opening to its last batch, and what of it
 * goes to the history.
 *
 * Invariant: a result that was measured is in the history, or waits to be
 * written there, before the next one is looked at; nothing that fails
 * (history, model, interrupt) loses the best schedule found so far.
 */
#include "config.h"
#include "tuner/tune_run.h"

#include <string.h>
#include <time.h>

#include "tuner/search.h"

double
tt_tune_now(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

double
tt_run_busy(const struct tt_run *r)
{
  return r->busy + (r->stepping ? tt_tune_now() - r->entry : 0);
}

bool
tt_run_interrupted(const struct tt_run *r)
{
  return r->o->interrupted != NULL && *r->o->interrupted;
}

void
tt_run_report(struct tt_run *r, const char *phase)
{
  struct tt_progress *p = &r->out->final;

  p->phase = phase;
  p->program = (int)(r - r->budget->runs);
  p->all_trials = tt_budget_used(r->budget);
  p->elapsed = tt_tune_now() - r->budget->start;
  if (r->o->progress != NULL)
    r->o->progress(r->o->progress_ctx, p);
}

/* The first warning is the one that explains the others. */
void
tt_run_warn(struct tt_run *r, const char *format, const char *why)
{
  if (r->out->warning == NULL)
    r->out->warning = tt_arena_printf(r->arena, format, why);
}

/* ---- history ----------------------------------------------------------- */

/* The last try for what could not be written. */
void
tt_run_flush(struct tt_run *r)
{
  const char *error = NULL;

  if (!tt_recorder_flush(&r->recorder, &error))
    tt_run_warn(r, "results were not saved: the history %s", error);
}

static void
load_records(struct tt_run *r)
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
    tt_run_warn(r, "earlier results were not used: the history %s", error);
  else
    r->resumed = tt_trials_resume(&r->trials, n, records);
  tt_arena_free(arena);
  if (r->o->retune)
    r->resumed = 0;
}

void
tt_run_write_finished(struct tt_run *r, const char *text)
{
  struct tt_finished f = {.schedule = text,
                          .seconds = r->out->seconds,
                          .plain_seconds = r->out->plain_seconds,
                          .spent = r->spent + tt_tune_now() - r->entry,
                          .max_error = r->out->max_error,
                          .trials = r->measured + r->resumed};
  const char *error = NULL;

  if (r->o->history != NULL && !r->recorder.failed &&
      !tt_history_finish(r->o->history, &r->o->workload, &f, &error))
    tt_run_warn(r, "the result was not saved: the history %s", error);
}

/* ---- reuse ------------------------------------------------------------- */

/* The winner of a program that differed in names: one of the records. */
static struct tt_schedule *
find_renamed(struct tt_run *r, const char *text)
{
  for (int i = 0; i < r->trials.n; i++)
    if (tt_same_but_names(r->trials.items[i].text, text))
      return tt_trial_schedule(&r->trials, r->arena, &r->trials.items[i]);
  return NULL;
}

/* A finished record that still applies ends the run before it begins. */
static bool
reuse(struct tt_run *r)
{
  struct tt_finished f;
  const char *error = NULL;
  int found;

  if (r->o->history == NULL || r->o->retune)
    return false;
  found =
      tt_history_finished(r->o->history, r->mine, &r->o->workload, &f, &error);
  if (found < 0)
    tt_run_warn(r, "earlier results were not used: the history %s", error);
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

double
tt_run_best(const struct tt_run *r)
{
  int best;

  return tt_trials_best(&r->trials, 1, &best)
             ? r->trials.items[best].result.seconds
             : 0;
}

const int *
tt_run_initial(struct tt_run *r)
{
  int *config = TT_ARRAY(r->mine, int, (size_t)r->space->nknobs + 1);

  r->space_ops->initial(r->space, config);
  return config;
}

/* ---- a batch ----------------------------------------------------------- */

static const char *
describe_failure(struct tt_run *r, const struct tt_result *result)
{
  return tt_arena_printf(r->arena, "%s%s%s", tt_outcome_text(result->outcome),
                         result->message ? ": " : "",
                         result->message ? result->message : "");
}

static bool
measured(void *ctx, int i, const struct tt_result *result)
{
  struct tt_run *r = ctx;
  struct tt_progress *p = &r->out->final;
  struct tt_record record = {.schedule = r->texts[i],
                             .config = r->configs[i],
                             .nknobs = r->space->nknobs,
                             .result = *result};

  r->pending--;
  /* Ctrl-C reaches the children too: what failed then did not fail. */
  if (result->outcome != TT_OUT_CANCELLED &&
      (result->outcome == TT_OUT_OK || !tt_run_interrupted(r))) {
    tt_trials_add(&r->trials, r->schedules[i], r->texts[i], r->configs[i],
                  result);
    tt_recorder_add(&r->recorder, &record);
    if (result->outcome != TT_OUT_OK && r->failure == NULL)
      r->failure = describe_failure(r, result);
    r->measured++;
    r->default_done = true;
    p->trials = r->measured + r->resumed;
    p->outcomes[result->outcome]++;
    p->best = tt_run_best(r);
    tt_run_report(r, "measuring");
  }
  r->timed_out = tt_run_time_left(r) <= 0;
  return !tt_run_interrupted(r) && !r->timed_out;
}

/* Puts up to n schedules into the batch; returns how many. */
static int
fill(struct tt_run *r, int n)
{
  int before = r->nbatch;

  if (r->measured == 0 && r->nbatch == 0) {
    tt_searcher_know(r->searcher, tt_run_initial(r));
    tt_run_fresh(r, tt_run_initial(r));
  }
  if (r->trials.n > 0)
    tt_run_learn(r);
  n -= r->nbatch - before;
  if (n > 0 && !tt_run_interrupted(r))
    tt_run_propose(r, n);
  return r->nbatch - before;
}

/* While the last quarter of a batch is measured the next one is proposed, so
 * that builders and timing never wait for the search.  Here nothing is final:
 * the batch may end the search all the same. */
static int
more(void *ctx)
{
  struct tt_run *r = ctx;
  int n = tt_run_next_batch(r);

  if (n == 0 || r->nbatch + n > TT_MAX_STREAM || tt_run_interrupted(r) ||
      tt_budget_next(r->budget) != r || tt_run_enough(r, false))
    return 0;
  return fill(r, n);
}

/* false: the toolchain failed. */
static bool
measure_batch(struct tt_run *r)
{
  struct tt_result results[TT_MAX_STREAM];
  const struct tt_stream stream = {.n = r->nbatch,
                                   .most = TT_MAX_STREAM,
                                   .schedules = r->schedules,
                                   .best = tt_run_best(r),
                                   .results = results,
                                   .done = measured,
                                   .more = more,
                                   .ctx = r};

  tt_run_report(r, "building");
  return r->measure->measure(r->measurer, &stream, &r->error);
}

/* Proposes and measures n trials, and those that follow them without a pause.
 * false: that was all. */
static bool
batch_of(struct tt_run *r, int n)
{
  int before = r->measured;

  tt_arena_reset(r->batch);
  r->nbatch = r->pending = 0;
  if (fill(r, n) == 0) {
    if (!tt_run_interrupted(r))
      r->out->final.stopped = "exhausted";
    return false;
  }
  r->broken = !measure_batch(r);
  r->pending = 0;
  return !r->broken && !r->timed_out && r->measured > before;
}

/* ---- life -------------------------------------------------------------- */

/* What happens between these two is counted to the program. */
static void
enter(struct tt_run *r)
{
  r->entry = tt_tune_now();
}

static void
leave(struct tt_run *r)
{
  r->spent += tt_tune_now() - r->entry;
}

void
tt_run_step(struct tt_run *r)
{
  int n;

  enter(r);
  r->ended = r->ended || r->done || r->broken || tt_run_interrupted(r);
  if (!r->ended) {
    n = tt_run_next_batch(r);
    r->stepping = true;
    r->ended = n == 0 || tt_run_enough(r, true) || !batch_of(r, n);
    r->stepping = false;
    r->busy += tt_tune_now() - r->entry;
  }
  leave(r);
}

void
tt_run_init(struct tt_run *r, struct tt_arena *arena,
            const struct tt_program *program,
            const struct tt_tune_options *options, struct tt_budget *budget,
            struct tt_tuned *out)
{
  *out = (struct tt_tuned){.status = TT_NO_CANDIDATE};
  *r = (struct tt_run){
      .program = program,
      .o = options,
      .measure = options->measure_ops ? options->measure_ops : &tt_real_measure,
      .space_ops = options->space_ops ? options->space_ops : &tt_derived_space,
      .budget = budget,
      .arena = arena,
      .mine = tt_arena_new(),
      .score = tt_arena_new(),
      .batch = tt_arena_new(),
      .out = out};
  tt_recorder_init(&r->recorder, options->history, &options->workload, r->mine);
  out->final.max_trials = options->trials;
  out->final.max_seconds = options->seconds;
  out->final.flops = tt_program_flops(program);
  out->final.phase = "building";
  r->space = r->space_ops->open(r->mine, program, &options->target,
                                options->strict_fp);
  tt_trials_init(&r->trials, program, r->space, r->space_ops, options);
}

static void
open_measurer(struct tt_run *r)
{
  struct tt_measure_options options = r->o->measure;
  struct tt_result plain = {0};

  if (options.interrupted == NULL)
    options.interrupted = r->o->interrupted;
  tt_run_report(r, "building");
  r->measurer = r->measure->open(r->program, &options, &plain, &r->error);
  r->broken = r->measurer == NULL;
  r->out->plain_seconds = plain.seconds;
  r->out->final.plain = plain.seconds;
}

/* The answer is there without any measuring. */
static bool
answered(struct tt_run *r)
{
  if (r->o->trials != 0)
    return reuse(r);
  r->out->schedule =
      r->space_ops->schedule(r->arena, r->space, tt_run_initial(r));
  r->out->status = TT_TUNED;
  return true;
}

void
tt_run_open(struct tt_run *r)
{
  enter(r);
  r->done = answered(r);
  if (!r->done) {
    tt_trials_free(&r->trials); /* what reuse() looked at */
    tt_trials_init(&r->trials, r->program, r->space, r->space_ops, r->o);
    load_records(r);
    if (!tt_run_interrupted(r))
      open_measurer(r);
  }
  if (r->measurer != NULL) {
    tt_run_open_search(r);
    r->out->final.trials = r->resumed;
    for (int i = 0; i < r->trials.n && !r->o->retune; i++)
      r->out->final.outcomes[r->trials.items[i].result.outcome]++;
    r->out->final.best = tt_run_best(r);
  }
  leave(r);
}

void
tt_run_end(struct tt_run *r)
{
  enter(r);
  if (!r->done && !r->broken && !tt_run_interrupted(r))
    r->broken = !tt_run_choose(r);
  if (!r->done) {
    tt_run_cut_short(r);
    tt_run_flush(r);
  }
  r->done = true;
  if (r->measurer != NULL)
    r->measure->close(r->measurer);
  r->measurer = NULL;
  leave(r);
  r->out->final.elapsed = r->spent;
}

void
tt_run_free(struct tt_run *r)
{
  tt_searcher_free(r->searcher);
  if (r->model != NULL)
    r->model->ops->free(r->model);
  if (r->global != NULL)
    r->global->ops->free(r->global);
  tt_trials_free(&r->trials);
  tt_recorder_free(&r->recorder);
  tt_arena_free(r->batch);
  tt_arena_free(r->score);
  tt_arena_free(r->mine);
}
