/* Owns the timing protocol: when to repeat and when to stop.  It knows no
 * clock and no kernel; see struct tt_timed. */
#include "config.h"

#include "runtime/timing.h"

#include <stdlib.h>
#include <string.h>

/* Seconds.  Filling caches costs a cold call milliseconds: a call that is not
 * short has a say when losers are judged, a long one is a measurement all the
 * same, and a very long one the only one. */
#define SHORT_CALL 0.01
#define LONG_CALL 0.05
#define VERY_LONG_CALL 0.5

struct tt_timing_options
tt_timing_defaults(void)
{
  return (struct tt_timing_options){
      .min_time = 2e-3, .budget = 50e-3, .spread = 0.02};
}

static int
ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

double
tt_timing_min(const struct tt_timing *t)
{
  double min = 0;
  for (int i = 0; i < t->n; i++)
    if (i == 0 || t->times[i] < min)
      min = t->times[i];
  return min;
}

double
tt_timing_spread(const struct tt_timing *t)
{
  double sorted[TT_MAX_REPEATS];
  if (!t->n)
    return 0;
  memcpy(sorted, t->times, (size_t)t->n * sizeof *sorted);
  qsort(sorted, (size_t)t->n, sizeof *sorted, ascending);
  double min = sorted[0];
  double median = t->n % 2 ? sorted[t->n / 2]
                           : (sorted[t->n / 2] + sorted[t->n / 2 - 1]) / 2;
  return min > 0 ? (median - min) / min : 0;
}

/* Seconds of `inner` calls. */
static double
measure(const struct tt_timed *f, int64_t inner)
{
  double start = f->now(f->ctx);
  for (int64_t i = 0; i < inner; i++)
    f->call(f->ctx);
  return f->now(f->ctx) - start;
}

/* Doubles the inner count until a measurement is long enough.  Returns the
 * seconds of the last one, which counts as the first repeat. */
static double
calibrate(const struct tt_timed *f, double min_time, int64_t *inner)
{
  double t;
  *inner = 1;
  while ((t = measure(f, *inner)) < min_time && *inner < INT64_C(1) << 30) {
    /* Leap when far off, so that little time goes into short ones. */
    double want = t > 0 ? min_time / t * (double)*inner : 0;
    int64_t leap = *inner * 16;
    if (want > 0 && want < (double)leap)
      leap = (int64_t)want + 1;
    *inner = leap > 2 * *inner ? leap : 2 * *inner;
  }
  return t;
}

/* Is it clear by now that it loses?  The cold first call has a say, so that
 * one interruption does not condemn a candidate. */
static bool
loses(const struct tt_timing *t, const struct tt_timing_options *o)
{
  double min = tt_timing_min(t);
  int n = t->n;
  if (o->best <= 0 || !n)
    return false;
  if (o->first > 0 && o->first < min)
    min = o->first;
  if (o->first > SHORT_CALL && o->first <= LONG_CALL)
    n++;
  double limit = n == 1 ? 2.0 : n == 2 ? 1.25 : 1.1;
  return min > limit * o->best;
}

static bool
is_done(const struct tt_timing *t, const struct tt_timing_options *o,
        double spent)
{
  double min = tt_timing_min(t);
  bool close = o->best <= 0 || min < 1.05 * o->best;
  int enough = o->first > SHORT_CALL ? 2 : 3;
  if (t->n == TT_MAX_REPEATS || min >= VERY_LONG_CALL)
    return true;
  if (t->n >= enough && tt_timing_spread(t) <= o->spread)
    return true;
  return t->n >= 2 && spent >= (close ? 2 : 1) * o->budget;
}

void
tt_time_calls(const struct tt_timed *f, const struct tt_timing_options *o,
              struct tt_timing *out)
{
  memset(out, 0, sizeof *out);
  out->inner = 1;
  if (o->first > LONG_CALL)
    out->times[out->n++] = o->first;
  if (o->first > VERY_LONG_CALL) {
    out->gave_up = o->best > 0 && o->first > o->best;
    return;
  }
  if (o->best > 0 && o->first > 2 * o->best + SHORT_CALL) {
    out->times[0] = o->first;
    out->n = 1;
    out->gave_up = true;
    return;
  }
  double start = f->now(f->ctx);
  double t = calibrate(f, o->min_time, &out->inner);
  while (true) {
    out->times[out->n++] = t / (double)out->inner;
    if (loses(out, o)) {
      out->gave_up = true;
      return;
    }
    if (is_done(out, o, f->now(f->ctx) - start))
      return;
    t = measure(f, out->inner);
  }
}

void
tt_time_duel(int n, const struct tt_timed *f, const struct tt_timing_options *o,
             struct tt_timing *out)
{
  double spent[TT_MAX_DUEL] = {0};
  memset(out, 0, (size_t)n * sizeof *out);
  for (int i = 0; i < n; i++)
    calibrate(&f[i], o->min_time, &out[i].inner);
  for (int round = 0; round < TT_MAX_REPEATS; round++) {
    double most = 0;
    for (int i = 0; i < n; i++) {
      double t = measure(&f[i], out[i].inner);
      spent[i] += t;
      out[i].times[out[i].n++] = t / (double)out[i].inner;
      if (spent[i] > most)
        most = spent[i];
    }
    if (round >= 2 && most >= o->budget)
      return;
  }
}
