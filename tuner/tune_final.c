/* How a program's search ends: the finalists' turns, the choice, and what a
 * search that was cut short gives.
 *
 * Invariant: what is chosen was right when it was measured, or nothing was
 * measured at all.
 */
#include "config.h"
#include "tuner/tune_run.h"

#include "tuner/finalists.h"

/* Add the trial with that text if it was right. */
static void
add_text(struct tt_run *r, struct tt_finalists *f, const char *text)
{
  const struct tt_trial *t = tt_trials_find(&r->trials, text);

  if (t != NULL && t->result.outcome == TT_OUT_OK)
    tt_finalists_add(r->arena, f, tt_trial_schedule(&r->trials, r->arena, t),
                     &t->result);
}

/* The incumbents: the winner of before, if there is one, and the default. */
static void
add_incumbents(struct tt_run *r, struct tt_finalists *f)
{
  struct tt_schedule *s;
  struct tt_finished before;
  const char *error = NULL;

  if (r->o->history != NULL && r->o->retune &&
      tt_history_finished(r->o->history, r->mine, &r->o->workload, &before,
                          &error) == 1)
    add_text(r, f, before.schedule);
  s = r->space_ops->schedule(r->mine, r->space, tt_run_initial(r));
  if (s != NULL)
    add_text(r, f, tt_schedule_text(r->mine, s));
}

/* The best trials; and the plain loops where nothing is clearly better. */
static void
add_challengers(struct tt_run *r, struct tt_finalists *f, int max)
{
  int best[TT_FINALISTS], n = tt_trials_best(&r->trials, TT_FINALISTS, best);
  double plain = r->out->plain_seconds;
  struct tt_result result = {.outcome = TT_OUT_OK, .seconds = plain};
  struct tt_trial *t;

  if (plain > 0 && n > 0 && plain < 1.05 * tt_run_best(r))
    tt_finalists_add(r->arena, f,
                     tt_schedule_new(r->arena, r->program, r->o->strict_fp),
                     &result);
  for (int i = 0; i < n && f->n < max; i++) {
    t = &r->trials.items[best[i]];
    tt_finalists_add(r->arena, f, tt_trial_schedule(&r->trials, r->arena, t),
                     &t->result);
  }
}

/* Its time is the least that was measured, in turns or before. */
static void
choose(struct tt_run *r, const struct tt_finalists *f, int i)
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
best_so_far(struct tt_run *r)
{
  struct tt_finalists f = {0};
  int best;

  if (tt_trials_best(&r->trials, 1, &best) == 1)
    tt_finalists_add(
        r->arena, &f,
        tt_trial_schedule(&r->trials, r->arena, &r->trials.items[best]),
        &r->trials.items[best].result);
  if (f.n > 0)
    choose(r, &f, 0);
  else if (r->trials.n == 0 && tt_run_interrupted(r))
    r->out->schedule =
        r->space_ops->schedule(r->arena, r->space, tt_run_initial(r));
}

bool
tt_run_choose(struct tt_run *r)
{
  struct tt_finalists f = {0};
  int max = tt_run_finalists(r), best;

  add_incumbents(r, &f);
  add_challengers(r, &f, max);
  if (f.n > 1) {
    tt_run_report(r, "finalists");
    if (!r->measure->finalists(r->measurer, f.n, f.schedules, f.results,
                               &r->error))
      return false;
  }
  if (tt_run_interrupted(r))
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
  tt_run_flush(r);
  tt_run_write_finished(r, f.texts[best]);
  return true;
}

void
tt_run_cut_short(struct tt_run *r)
{
  if (r->out->schedule != NULL || (!r->broken && !tt_run_interrupted(r)))
    return; /* it was not */
  r->out->status = tt_run_interrupted(r) ? TT_INTERRUPTED : TT_TOOLCHAIN;
  if (r->out->status == TT_TOOLCHAIN)
    r->out->error =
        tt_arena_strdup(r->arena, r->error ? r->error : "the toolchain failed");
  best_so_far(r);
}
