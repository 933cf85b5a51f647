/* The expected gain of more trials, from how the last ones were spread.
 *
 * The best of many trials is the extreme of a sample, and what exceeds a high
 * threshold u is close to exponential (peaks over threshold; here in the
 * logarithm of speed): P(y > u + x) = p exp(-x / s).  p is the share of the
 * last trials above u, s their mean excess.  A trial then beats the best one,
 * b, with q = p exp(-(b - u) / s), and the best of m trials gains
 *
 *   integral of 1 - (1 - q exp(-x / s))^m dx over x > 0
 *     = s * sum of (1 - (1 - q)^j) / j over j = 1 .. m.
 *
 * The last trials are what the learned cost thought best, as the next ones
 * will be: what it knows, and how often it is wrong, is in their spread; so is
 * the noise of measuring.  Speeds have a bound and an exponential has none,
 * so the gain is overestimated rather than underestimated.  A short and a long
 * window are asked and the more hopeful one believed: a search that has just
 * become better is not judged by what it did before, nor by one bad batch.
 *
 * Invariant: the result is finite, not negative, and depends on the order of
 * trials only by which are the last ones.
 */
#include "config.h"
#include "tuner/gain.h"

#include <math.h>
#include <stdlib.h>

enum {
  SHORT_WINDOW = 64,
  LONG_WINDOW = 128,
  TAIL = 8,    /* one trial in so many is above the threshold */
  MIN_TAIL = 5 /* trials above it, at least */
};

/* A machine that is noisier should not be believed so lightly. */
#define MOST_NOISE 0.0075

static int
descending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;

  return (x < y) - (x > y);
}

/* s * sum of (1 - (1 - q)^j) / j. */
static double
gain_of_tail(double q, double s, int more)
{
  double sum = 0, none = 1; /* (1 - q)^j */

  for (int j = 1; j <= more; j++) {
    none *= 1 - q;
    sum += (1 - none) / j;
  }
  return s * sum;
}

/* Of the last `window` trials; `best` is the logarithm of the best speed. */
static double
gain_of_window(const struct tt_trials *t, int window, double best, int more)
{
  int n = t->n < window ? t->n : window, right = 0;
  int k = n / TAIL < MIN_TAIL ? MIN_TAIL : n / TAIL;
  double y[LONG_WINDOW], excess = 0, s, q;

  for (int i = t->n - n; i < t->n; i++) {
    const struct tt_result *r = &t->items[i].result;
    if (r->outcome == TT_OUT_OK && r->seconds > 0)
      y[right++] = -log(r->seconds);
  }
  if (right < 2)
    return 0;
  if (k > right - 1)
    k = right - 1;
  qsort(y, (size_t)right, sizeof *y, descending);
  for (int i = 0; i < k; i++)
    excess += y[i] - y[k];
  s = excess / k;
  if (!(s > 0))
    return 0;
  q = (double)k / n * exp(-(best - y[k]) / s);
  return gain_of_tail(q < 1 ? q : 1, s, more);
}

double
tt_expected_gain(const struct tt_trials *t, int more)
{
  double best, recent, longer;
  int i;

  /* The rule of succession: n failures in a row. */
  if (tt_trials_best(t, 1, &i) == 0)
    return 1 - pow(1 - 1.0 / (t->n + 2), more);
  best = -log(t->items[i].result.seconds);
  recent = gain_of_window(t, SHORT_WINDOW, best, more);
  longer = gain_of_window(t, LONG_WINDOW, best, more);
  return recent > longer ? recent : longer;
}

double
tt_gain_noise(const struct tt_trials *t)
{
  enum { MOST = 10 };
  int best[MOST], n = tt_trials_best(t, MOST, best);
  double spreads[MOST], half;

  if (n == 0)
    return 0;
  for (int i = 0; i < n; i++)
    spreads[i] = t->items[best[i]].result.spread;
  qsort(spreads, (size_t)n, sizeof *spreads, descending);
  half = 0.5 * spreads[n / 2];
  return half < MOST_NOISE ? half : MOST_NOISE;
}
