/* Choosing by the scores of a model alone.
 *
 * Invariant: the configuration is legal, and its score is not lower than that
 * of the first. */
#include "config.h"
#include "walk.h"

#include <stdlib.h>
#include <string.h>

#include "tuner/search.h"

enum { MOST_STEPS = 40 };

struct walk {
  const struct tt_space *space;
  const struct tt_target_model *target;
  struct tt_cost_model *model;
  float margin;
  int width;
  double most_copies;
  struct tt_arena *scratch;
  float *rows, *scores; /* of the neighbours */
  int *knob, *value;    /* what each of them changes */
};

/* The row of a configuration; false: it is not legal, or too much code. */
static bool
look(void *ctx, const int *config, float *row)
{
  struct walk *w = ctx;
  struct tt_schedule *s;

  tt_arena_reset(w->scratch);
  s = tt_space_schedule(w->scratch, w->space, config);
  if (s == NULL || tt_code_copies(s) > w->most_copies)
    return false;
  tt_features(TT_FEATURES_RELATION, s, w->target, w->space, config, row);
  return true;
}

/* Rows of all that differ from `config` in one knob. */
static int
neighbours(struct walk *w, int *config)
{
  int n = 0, was;

  for (int k = 0; k < w->space->nknobs; k++) {
    was = config[k];
    for (int v = 0; v < w->space->knobs[k].n; v++) {
      if (v == was)
        continue;
      config[k] = v;
      if (!look(w, config, w->rows + (size_t)n * (size_t)w->width))
        continue;
      w->knob[n] = k;
      w->value[n++] = v;
    }
    config[k] = was;
  }
  return n;
}

/* One step, to the best neighbour; false: none is better by the margin. */
static bool
step(struct walk *w, int *config, float *score)
{
  int n = neighbours(w, config), best = 0;
  const char *error;

  if (n == 0 || !w->model->ops->predict(w->model, n, w->width, w->rows,
                                        w->scores, &error))
    return false;
  for (int i = 1; i < n; i++)
    if (w->scores[i] > w->scores[best])
      best = i;
  if (!(w->scores[best] > *score + w->margin))
    return false;
  *score = w->scores[best];
  config[w->knob[best]] = w->value[best];
  return true;
}

/* Ready to look, and the score of `config`. */
static struct walk
begin(const struct work *work, const struct tt_target_model *target,
      struct tt_cost_model *model, const int *config, float *score)
{
  struct walk w = {.space = work->space,
                   .target = target,
                   .model = model,
                   .width = work->trials.width,
                   .scratch = tt_arena_new()};
  const char *error;
  size_t most = 1;

  for (int k = 0; k < w.space->nknobs; k++)
    most += (size_t)w.space->knobs[k].n;
  w.rows = tt_xmalloc(most * (size_t)w.width * sizeof *w.rows);
  w.scores = tt_xmalloc(most * sizeof *w.scores);
  w.knob = tt_xmalloc(most * sizeof *w.knob);
  w.value = tt_xmalloc(most * sizeof *w.value);
  w.most_copies = tt_most_copies(tt_space_schedule(w.scratch, w.space, config));
  *score = 0;
  if (look(&w, config, w.rows))
    model->ops->predict(model, 1, w.width, w.rows, score, &error);
  return w;
}

static void
end(struct walk *w)
{
  free(w->rows);
  free(w->scores);
  free(w->knob);
  free(w->value);
  tt_arena_free(w->scratch);
}

void
walk(const struct work *work, const struct tt_target_model *target,
     struct tt_cost_model *model, float margin, int *config)
{
  float score;
  struct walk w = begin(work, target, model, config, &score);

  w.margin = margin;
  for (int i = 0; i < MOST_STEPS && step(&w, config, &score); i++)
    ;
  end(&w);
}

void
anneal(const struct work *work, const struct tt_target_model *target,
       struct tt_cost_model *model, int evaluations, int *config)
{
  float score, found = 0;
  struct walk w = begin(work, target, model, config, &score);
  size_t n = (size_t)w.space->nknobs;
  int *sizes = tt_xmalloc((n + 1) * sizeof *sizes);
  int *best = tt_xmalloc((n + 1) * sizeof *best);
  bool *ordered = tt_xmalloc((n + 1) * sizeof *ordered);
  struct tt_search_space space = {.nknobs = w.space->nknobs,
                                  .sizes = sizes,
                                  .ordered = ordered,
                                  .width = w.width,
                                  .features = look,
                                  .ctx = &w};
  struct tt_search_params params = tt_search_defaults;
  struct tt_searcher *s;
  const char *error;

  for (size_t k = 0; k < n; k++) {
    sizes[k] = w.space->knobs[k].n;
    ordered[k] = w.space->knobs[k].kind == TT_KNOB_FACTOR;
  }
  params.evaluations = evaluations;
  params.epsilon = 0;
  params.lambda = 1;
  params.alpha = 0;
  s = tt_searcher_new(&space, &params, 0);
  if (n > 0 && tt_search_anneal(s, model, 1, config, 1, best, &error) == 1 &&
      look(&w, best, w.rows) &&
      model->ops->predict(model, 1, w.width, w.rows, &found, &error) &&
      found > score)
    memcpy(config, best, n * sizeof *best);
  tt_searcher_free(s);
  free(sizes);
  free(best);
  free(ordered);
  end(&w);
}
