/* The sum of a model that was fitted to other programs and of one that is
 * fitted to this one (section 4).
 *
 * Invariant: the local model learns what the global one leaves at the weight
 * that it has in the sum.  The weight halves with every HALF trials, and the
 * global model has it only as far as it orders the trials as they came out: one
 * that knows nothing of programs like this one is soon without a say.
 */
#include "config.h"
#include "tuner/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"

enum {
  HALF = 64,
  JUDGED = 512, /* trials by which the global model is judged, at most */
  LEAST = 8     /* fewer say nothing about it */
};

struct transfer {
  struct tt_cost_model base;
  struct tt_cost_model *global, *local;
  float weight; /* of the global one */
};

/* The pairs of rows in the scores' order less those that are not, as a share
 * of all that differ (Kendall's tau); 1 if none do. */
static double
agreement(int n, const float *scores, const float *labels)
{
  double sum = 0, pairs = 0;

  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++)
      if (labels[i] != labels[j]) {
        int s = (scores[i] > scores[j]) - (scores[i] < scores[j]);
        sum += labels[i] > labels[j] ? s : -s;
        pairs++;
      }
  return pairs > 0 ? sum / pairs : 1;
}

/* Three pairs of four in order are as good as it gets on another program. */
static float
weight_after(const struct tt_fit *f, const float *scores)
{
  int n = f->n < JUDGED ? f->n : JUDGED, from = f->n - n;
  double trust = 1;

  if (n >= LEAST)
    trust = 2 * agreement(n, scores + from, f->labels + from);
  trust = trust < 0 ? 0 : trust > 1 ? 1 : trust;
  return (float)(trust * exp2(-(double)f->n / HALF));
}

static bool
transfer_fit(struct tt_cost_model *model, const struct tt_fit *f,
             const char **error)
{
  struct transfer *t = (struct transfer *)model;
  float *base = tt_xmalloc(((size_t)f->n + 1) * sizeof *base);
  struct tt_fit left = *f;
  bool ok =
      t->global->ops->predict(t->global, f->n, f->width, f->rows, base, error);

  if (ok) {
    t->weight = weight_after(f, base);
    for (int i = 0; i < f->n; i++)
      base[i] = t->weight * base[i] + (f->base != NULL ? f->base[i] : 0);
    left.base = base;
    ok = t->local->ops->fit(t->local, &left, error);
  }
  free(base);
  return ok;
}

static bool
transfer_predict(struct tt_cost_model *model, int n, int width,
                 const float *rows, float *scores, const char **error)
{
  struct transfer *t = (struct transfer *)model;
  float *own;
  bool ok;

  if (!t->local->ops->predict(t->local, n, width, rows, scores, error))
    return false;
  if (t->weight < 1e-4f) /* what is left of it costs more than it says */
    return true;
  own = tt_xmalloc(((size_t)n + 1) * sizeof *own);
  ok = t->global->ops->predict(t->global, n, width, rows, own, error);
  for (int i = 0; i < n && ok; i++)
    scores[i] += t->weight * own[i];
  free(own);
  return ok;
}

static void
transfer_free(struct tt_cost_model *model)
{
  struct transfer *t = (struct transfer *)model;

  t->local->ops->free(t->local);
  free(t);
}

struct tt_cost_model *
tt_transfer_new(struct tt_cost_model *global, struct tt_cost_model *local)
{
  static const struct tt_cost_ops ops = {"transfer", transfer_fit,
                                         transfer_predict, transfer_free};
  struct transfer *t = tt_xmalloc(sizeof *t);

  *t = (struct transfer){{&ops}, global, local, 1};
  return &t->base;
}
