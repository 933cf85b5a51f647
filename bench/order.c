/* How well scores order what was measured.
 *
 * Invariant: equal values share the mean of their ranks.
 */
#include "config.h"

#include "bench/order.h"

#include <math.h>
#include <stdlib.h>

#include "ir/arena.h"

struct ranked {
  float value;
  int at;
};

static int
by_value(const void *x, const void *y)
{
  const struct ranked *a = x, *b = y;

  return (a->value > b->value) - (a->value < b->value);
}

/* The values in order, lowest first; the caller frees them. */
static struct ranked *
in_order(int n, const float *values)
{
  struct ranked *r = tt_xmalloc((size_t)n * sizeof *r);

  for (int i = 0; i < n; i++)
    r[i] = (struct ranked){values[i], i};
  qsort(r, (size_t)n, sizeof *r, by_value);
  return r;
}

/* Ranks; equal values share the mean of theirs. */
static void
ranks(int n, const float *values, double *rank)
{
  struct ranked *r = in_order(n, values);

  for (int i = 0, j; i < n; i = j) {
    for (j = i; j < n && !(r[j].value > r[i].value); j++)
      ;
    for (int k = i; k < j; k++)
      rank[r[k].at] = (i + j - 1) / 2.0;
  }
  free(r);
}

double
bench_spearman(int n, const float *x, const float *y)
{
  double *a = tt_xmalloc((size_t)n * sizeof *a), xy = 0, xx = 0, yy = 0;
  double *b = tt_xmalloc((size_t)n * sizeof *b), mean = (n - 1) / 2.0;

  ranks(n, x, a);
  ranks(n, y, b);
  for (int i = 0; i < n; i++) {
    xy += (a[i] - mean) * (b[i] - mean);
    xx += (a[i] - mean) * (a[i] - mean);
    yy += (b[i] - mean) * (b[i] - mean);
  }
  free(a);
  free(b);
  return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0;
}

double
bench_best_of_top(int n, int top, const float *scores, const float *labels)
{
  struct ranked *r = in_order(n, scores);
  double best = 0;

  for (int i = n > top ? n - top : 0; i < n; i++)
    best = fmax(best, (double)labels[r[i].at]);
  free(r);
  return best;
}

double
bench_best_of_random(int n, int drawn, const float *labels)
{
  struct ranked *r = in_order(n, labels);
  double mean = 0, left = 1; /* the chance that no better one was drawn */

  for (int i = n - 1; i >= 0 && left > 1e-12; i--) {
    double p = fmin((double)drawn / (i + 1), 1); /* it is, if no better one */
    mean += left * p * (double)r[i].value;
    left *= 1 - p;
  }
  free(r);
  return mean;
}
