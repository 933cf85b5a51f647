/* Searches among stored measurements: Algorithm 1 where the space is a random
 * sample of the space, every schedule of which was measured before.
 *
 * Invariant: entry i of the searcher is trial i of the sample, so that scores
 * and picks (tuner/search.c's own rule of diversity) speak of trials.
 */
#include "config.h"

#include "bench/paper/study.h"

#include <stdlib.h>
#include <string.h>

#include "tuner/search_parts.h"

enum { FIRST = 16, LATER = 32, SMALL_BATCHES = 3 };

/* ---- the sample -------------------------------------------------------- */

/* The records without the default schedule, which random search does not
 * draw but is given. */
static int
drawn(struct tt_arena *arena, const struct tt_space *space, int n,
      const struct tt_record *records, struct tt_record *out)
{
  int *config = TT_ARRAY(arena, int, (size_t)space->nknobs + 1), kept = 0;
  struct tt_schedule *s;
  const char *text = "";

  tt_space_default(space, config);
  s = tt_space_schedule(arena, space, config);
  if (s != NULL)
    text = tt_schedule_text(arena, s);
  for (int i = 0; i < n; i++)
    if (records[i].config != NULL && strcmp(records[i].schedule, text) != 0)
      out[kept++] = records[i];
  return kept;
}

bool
sample_open(struct sample *s, struct tt_arena *arena,
            const struct tt_program *program, const struct tt_tune_options *o,
            struct tt_history *h, const char **error)
{
  struct tt_record *records, *some;
  int n = tt_history_load(h, arena, &o->workload, &records, error), kept = 0;

  s->space = tt_space_new(arena, program, &o->target, o->strict_fp);
  tt_trials_init(&s->trials, program, s->space, &tt_derived_space, o);
  if (n < 0)
    return false;
  some = TT_ARRAY(arena, struct tt_record, (size_t)n + 1);
  n = drawn(arena, s->space, n, records, some);
  tt_trials_resume(&s->trials, n, some);
  for (int i = 0; i < s->trials.n; i++)
    if (s->trials.items[i].config != NULL)
      s->trials.items[kept++] = s->trials.items[i];
  s->trials.n = kept;
  return true;
}

void
sample_close(struct sample *s)
{
  tt_trials_free(&s->trials);
}

/* ---- random search ----------------------------------------------------- */

void
table_random(const struct sample *s, const struct tt_tune_options *o,
             study_trial_fn *trial, void *ctx)
{
  int n = s->trials.n, *order = tt_xmalloc((size_t)n * sizeof *order + 1);
  uint64_t random = o->seed * 0x2545f4914f6cdd1du + 1;

  for (int i = 0; i < n; i++)
    order[i] = i;
  for (int i = 0; i < n && i < o->trials; i++) {
    int j = i + tt_draw_below(&random, n - i), at = order[j];
    order[j] = order[i];
    trial(ctx, &s->trials.items[at].result);
  }
  free(order);
}

/* ---- searches by a model ----------------------------------------------- */

struct search {
  const struct sample *sample;
  struct tt_searcher *searcher;
  struct tt_cost_model *global, *model;
  struct tt_trials seen; /* what was picked, with what it points to */
  study_trial_fn *trial;
  void *ctx;
};

static bool
row_of(void *ctx, const int *config, float *row)
{
  struct search *s = ctx;
  int i = tt_seen_find(&s->searcher->seen, config);

  memcpy(row, s->sample->trials.items[i].row,
         (size_t)s->sample->trials.width * sizeof *row);
  return true;
}

/* A round that scores all that is left. */
static bool
score_all(struct tt_searcher *s, struct tt_cost_model *m, int nseeds,
          const int *seeds, struct tt_top *top, const char **error)
{
  bool better;
  int n = 0;

  (void)nseeds;
  (void)seeds;
  for (int i = 0; i < s->seen.n; i++)
    if (!s->seen.entries[i].taken)
      tt_search_enqueue(s, i, &n);
  return tt_search_score(s, m, n, top, &better, error);
}

static int
random_picks(struct search *s, int n, int *out)
{
  int got = 0, k = s->sample->space->nknobs;

  while (got < n) {
    int i = tt_draw_below(&s->searcher->random, s->searcher->seen.n);
    if (tt_search_open(s->searcher, i) &&
        tt_search_take(s->searcher, i, out + (long)got * k))
      got++;
  }
  return got;
}

static void
look_up(struct search *s, int n, const int *configs)
{
  for (int i = 0; i < n; i++) {
    int at = tt_seen_find(&s->searcher->seen,
                          configs + (long)i * s->sample->space->nknobs);
    const struct tt_trial *t = &s->sample->trials.items[at];
    TT_PUSH(s->seen, *t);
    s->trial(s->ctx, &t->result);
  }
}

static void
open_searcher(struct search *s, const struct tt_tune_options *o, int **sizes,
              bool **ordered)
{
  const struct tt_space *space = s->sample->space;
  size_t n = (size_t)space->nknobs + 1;
  struct tt_search_params params = o->params;
  struct tt_search_space in = {.nknobs = space->nknobs,
                               .width = s->sample->trials.width,
                               .features = row_of,
                               .ctx = s};

  *sizes = tt_xmalloc(n * sizeof **sizes);
  *ordered = tt_xmalloc(n * sizeof **ordered);
  for (int i = 0; i < space->nknobs; i++) {
    (*sizes)[i] = space->knobs[i].n;
    (*ordered)[i] = false;
  }
  in.sizes = *sizes;
  in.ordered = *ordered;
  params.chains = s->sample->trials.n; /* room for a row of each */
  params.epsilon = 0;                  /* random ones come from the sample */
  params.scouts = 0;
  s->searcher = tt_searcher_new(&in, &params, o->seed);
  for (int i = 0; i < s->sample->trials.n; i++)
    tt_seen_find(&s->searcher->seen, s->sample->trials.items[i].config);
}

/* One batch of n; false: *error. */
static bool
batch(struct search *s, const struct tt_tune_options *o, int n,
      const char **error)
{
  int random = (int)(o->params.epsilon * n + 0.5);
  int k = s->sample->space->nknobs, got = 0;
  int *out = tt_xmalloc(((size_t)n * (size_t)k + 1) * sizeof *out);

  if (random == 0 && o->params.epsilon > 0)
    random = 1;
  if (s->seen.n == 0) /* as the tuning loop begins */
    random = s->global != NULL ? n / 4 : n;
  if (random < n) {
    got = tt_trials_fit(&s->seen, s->model, error)
              ? tt_search_propose(s->searcher, s->model, score_all, 0, NULL,
                                  n - random, out, error)
              : -1;
  }
  if (got >= 0)
    look_up(s, got + random_picks(s, n - got, out + (long)got * k), out);
  free(out);
  return got >= 0;
}

bool
table_search(const struct sample *sample, const struct tt_tune_options *o,
             study_trial_fn *trial, void *ctx, const char **error)
{
  struct search s = {.sample = sample, .trial = trial, .ctx = ctx};
  int trials = o->trials < sample->trials.n ? o->trials : sample->trials.n;
  struct tt_tuned said;
  int *sizes;
  bool *ordered, ok = true;

  s.global = tt_tune_global(o, &said, error);
  s.model = *error == NULL ? tt_tune_model(o, s.global, error) : NULL;
  if (s.model == NULL)
    return false;
  s.seen = sample->trials;
  s.seen.items = NULL;
  s.seen.n = s.seen.cap = 0;
  open_searcher(&s, o, &sizes, &ordered);
  while (ok && s.seen.n < trials) {
    int n = s.seen.n < SMALL_BATCHES * FIRST ? FIRST : LATER;
    ok = batch(&s, o, n < trials - s.seen.n ? n : trials - s.seen.n, error);
  }
  tt_searcher_free(s.searcher);
  s.model->ops->free(s.model);
  if (s.global != NULL)
    s.global->ops->free(s.global);
  free(s.seen.items);
  free(sizes);
  free(ordered);
  return ok;
}
