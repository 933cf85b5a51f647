/* Budgets of trials and of time: how many trials come next, what is kept back
 * for the finalists, and when going on does not pay.
 *
 * Invariant: without a budget of time nothing here depends on the clock.
 */
#include "config.h"
#include "tuner/tune_run.h"

#include <math.h>

#include "tuner/finalists.h"
#include "tuner/gain.h"

enum {
  FIRST_BATCH = 16,
  SMALL_BATCH = 8,
  BATCHES = 10,      /* that a time budget should be good for */
  MANY = 4096,       /* trials: more are not looked ahead */
  ENOUGH = 64,       /* trials, before a search may be stopped */
  FINALIST_TURNS = 5 /* calls of one, at least */
};

/* What one finalist's turns are thought to cost: its object is kept. */
static double
finalist_cost(const struct tt_run *r)
{
  return 0.35 + FINALIST_TURNS * tt_run_best(r);
}

/* Time kept back for the finalists of all programs: at most a fifth of the
 * budget. */
static double
reserve(const struct tt_budget *b)
{
  double wanted = 0, most = 0.2 * b->seconds;

  for (int i = 0; i < b->n; i++)
    if (!b->runs[i].done)
      wanted += TT_FINALISTS * finalist_cost(&b->runs[i]);
  return wanted < most ? wanted : most;
}

double
tt_run_time_left(const struct tt_run *r)
{
  const struct tt_budget *b = r->budget;

  if (b->seconds <= 0)
    return 1e9;
  return b->seconds - reserve(b) - (tt_tune_now() - b->start);
}

int
tt_budget_used(const struct tt_budget *b)
{
  int n = 0;

  for (int i = 0; i < b->n; i++)
    n += b->runs[i].resumed + b->runs[i].measured;
  return n;
}

/* Programs that are to be searched; of them, or only those that wait for
 * their first trial. */
static int
programs(const struct tt_budget *b, bool waiting)
{
  int n = 0;

  for (int i = 0; i < b->n; i++)
    n += !b->runs[i].done && !b->runs[i].ended &&
         (!waiting || b->runs[i].trials.n == 0);
  return n;
}

/* The trials that are left, for this program: before its first one only a
 * fair share of them, but one at least. */
static int
trials_left(const struct tt_run *r)
{
  int left = r->budget->trials - tt_budget_used(r->budget) - r->pending;
  int waiting = programs(r->budget, true);

  if (r->trials.n + r->pending > 0)
    return left;
  left /= waiting > 1 ? waiting : 1;
  return left > 1 ? left : 1;
}

/* What time is left for.  Without a budget of time: the batch of n. */
static int
batch_in_time(const struct tt_run *r, int n)
{
  double left = tt_run_time_left(r), all = r->budget->seconds, rate;

  if (all <= 0)
    return n;
  if (left <= 0 && r->default_done)
    return 0;
  if (r->measured == 0)
    return SMALL_BATCH;
  rate = r->measured / tt_run_busy(r);
  n = (int)(rate * all / BATCHES / programs(r->budget, false));
  n = n < SMALL_BATCH ? SMALL_BATCH : n > TT_MAX_BATCH ? TT_MAX_BATCH : n;
  left = left * rate - r->pending;
  return left < n ? (int)left : n;
}

int
tt_run_next_batch(const struct tt_run *r)
{
  bool first = r->measured + r->pending + r->resumed < 3 * FIRST_BATCH;
  int n = batch_in_time(r, first ? FIRST_BATCH : 32);

  if (r->budget->trials >= 0 && trials_left(r) < n)
    n = trials_left(r);
  return n > 0 ? n : 0;
}

double
tt_run_promise(const struct tt_run *r)
{
  int n = tt_run_next_batch(r);

  if (n == 0)
    return 0;
  if (r->budget->seconds <= 0 || r->measured == 0)
    return tt_expected_gain(&r->trials, n) / n;
  return tt_expected_gain(&r->trials, n) / (n * tt_run_busy(r) / r->measured);
}

/* The trials that this program may still have; without a budget: as many as
 * it has had. */
static int
trials_ahead(const struct tt_run *r)
{
  const struct tt_budget *b = r->budget;
  double most = r->measured + r->resumed, n = programs(b, false);

  if (b->trials >= 0)
    most = (b->trials - tt_budget_used(b)) / n;
  if (b->seconds > 0)
    most = fmin(b->trials < 0 ? MANY : most,
                tt_run_time_left(r) * r->measured / tt_run_busy(r) / n);
  return most < 1 ? 1 : most > MANY ? MANY : (int)most;
}

bool
tt_run_enough(struct tt_run *r, bool final)
{
  struct tt_tuned *out = r->out;

  /* With `retune` what was measured before was not chosen by this search. */
  if (!(r->o->min_gain > 0) || r->measured + r->resumed < ENOUGH ||
      r->measured == 0 || tt_run_best(r) <= 0)
    return false;
  out->ahead = trials_ahead(r);
  out->expected_gain = tt_expected_gain(&r->trials, out->ahead);
  out->noise = tt_gain_noise(&r->trials);
  if (out->expected_gain >= r->o->min_gain && out->expected_gain >= out->noise)
    return false;
  if (final)
    out->final.stopped = "gain";
  return true;
}

int
tt_run_finalists(const struct tt_run *r)
{
  double left = r->budget->seconds - (tt_tune_now() - r->budget->start);
  int n = 0;

  if (r->budget->seconds <= 0)
    return TT_FINALISTS;
  for (int i = 0; i < r->budget->n; i++)
    n += !r->budget->runs[i].done;
  n = (int)(left / n / finalist_cost(r));
  return n < 2 ? 2 : n > TT_FINALISTS ? TT_FINALISTS : n;
}

struct tt_run *
tt_budget_next(const struct tt_budget *b)
{
  struct tt_run *best = NULL;
  double most = 0, promise;

  for (int i = 0; i < b->n; i++) {
    struct tt_run *r = &b->runs[i];
    if (r->ended)
      continue;
    promise = b->n > 1 ? tt_run_promise(r) : 0;
    if (best == NULL || promise > most ||
        (promise >= most && r->trials.n < best->trials.n)) {
      best = r;
      most = promise;
    }
  }
  return best;
}
