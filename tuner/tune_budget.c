/* Budgets of trials and of time: how many trials come next, and what is kept
 * back for the finalists.
 *
 * Invariant: without a budget of time nothing here depends on times.
 */
#include "config.h"
#include "tuner/tune_run.h"

#include "tuner/finalists.h"

enum {
  FIRST_BATCH = 16,
  SMALL_BATCH = 8,
  BATCHES = 10,      /* that a time budget should be good for */
  FINALIST_TURNS = 5 /* calls of one, at least */
};

/* What one finalist's turns are thought to cost: its object is kept. */
static double
finalist_cost(const struct tt_run *r)
{
  return 0.35 + FINALIST_TURNS * tt_run_best(r);
}

/* Time kept back for the finalists: at most a fifth of the budget. */
static double
reserve(const struct tt_run *r)
{
  double wanted = TT_FINALISTS * finalist_cost(r);
  double most = 0.2 * r->budget->seconds;

  return wanted < most ? wanted : most;
}

/* Seconds left for trials; a large number without a budget. */
double
tt_run_time_left(const struct tt_run *r)
{
  if (r->budget->seconds <= 0)
    return 1e9;
  return r->budget->seconds - reserve(r) - (tt_tune_now() - r->budget->start);
}

/* How many trials the next batch should have; 0: the budget is spent.
 * Without a budget of time this does not depend on times. */
int
tt_run_next_batch(const struct tt_run *r)
{
  double left = tt_run_time_left(r), rate = 0, spent = r->busy;
  int n = r->measured + r->resumed < 3 * FIRST_BATCH ? FIRST_BATCH : 32;
  int trials = r->budget->trials - r->resumed - r->measured;

  if (r->measured > 0 && spent > 0)
    rate = r->measured / spent;
  if (r->budget->seconds > 0 && rate == 0)
    n = SMALL_BATCH;
  if (r->budget->seconds > 0 && rate > 0) {
    n = (int)(rate * r->budget->seconds / BATCHES);
    n = n < SMALL_BATCH ? SMALL_BATCH : n > TT_MAX_BATCH ? TT_MAX_BATCH : n;
    if (left * rate < n)
      n = (int)(left * rate);
  }
  if (r->budget->seconds > 0 && left <= 0 && r->default_done)
    return 0;
  if (r->budget->trials >= 0 && trials < n)
    n = trials;
  return n > 0 ? n : 0;
}

/* How many finalists the time that is left allows, at least two. */
int
tt_run_finalists(const struct tt_run *r)
{
  double left = r->budget->seconds - (tt_tune_now() - r->budget->start);
  int n;

  if (r->budget->seconds <= 0)
    return TT_FINALISTS;
  n = (int)(left / finalist_cost(r));
  return n < 2 ? 2 : n > TT_FINALISTS ? TT_FINALISTS : n;
}
