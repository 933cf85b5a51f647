/* Genetic search: a population of configurations; children take each knob
 * from one of two parents and some are changed; of parents and children the
 * better ones live on.
 *
 * Invariant: as in search.c.  The population has `chains` entries, none of
 * them illegal as far as that is known, and goes on from round to round.
 */
#include "config.h"
#include "tuner/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "tuner/search_parts.h"

enum {
  ROUNDS = 3,   /* of a tournament between candidates for parents */
  TRIES = 40,   /* for each child of measured parents */
  ILLEGAL = 100 /* draws for a member of the first population */
};

/* Each knob from one of the parents; one time in two a knob is changed. */
static void
cross(struct tt_searcher *s, const int *a, const int *b, int *child)
{
  for (int i = 0; i < s->space.nknobs; i++)
    child[i] = tt_draw_below(&s->random, 2) ? a[i] : b[i];
  if (tt_draw_below(&s->random, 2))
    tt_search_change_knob(s, child);
  if (tt_draw_below(&s->random, 8) == 0)
    tt_search_change_knob(s, child);
}

/* ---- on the scores of a model ------------------------------------------ */

/* The first call draws the population; each call puts seeds into it. */
static void
settle(struct tt_searcher *s, int nseeds, const int *seeds)
{
  int n = s->params.chains, from = nseeds < n / 4 ? nseeds : n / 4;

  for (int i = 0; i < n && !s->bred; i++)
    for (int tries = 0; tries < ILLEGAL; tries++) {
      tt_search_draw(s, s->config);
      s->population[i] = tt_seen_find(&s->seen, s->config);
      if (tt_search_open(s, s->population[i]))
        break;
    }
  s->bred = true;
  for (int i = 0; i < from; i++)
    s->population[n - 1 - i] =
        tt_seen_find(&s->seen, seeds + (long)i * s->space.nknobs);
}

/* The best of a few members. */
static int
parent(struct tt_searcher *s)
{
  int best = s->population[tt_draw_below(&s->random, s->params.chains)];

  for (int i = 1; i < ROUNDS; i++) {
    int other = s->population[tt_draw_below(&s->random, s->params.chains)];
    if (tt_search_score_of(s, other) > tt_search_score_of(s, best))
      best = other;
  }
  return best;
}

static int
by_score(const void *x, const void *y, void *ctx)
{
  const struct tt_searcher *s = ctx;
  int a = *(const int *)x, b = *(const int *)y;
  float fa = tt_search_score_of(s, a), fb = tt_search_score_of(s, b);

  return fa > fb ? -1 : fa < fb ? 1 : (a > b) - (a < b);
}

/* Parents and children, without doubles, best first; where there are too few
 * of them the last members are doubles. */
static void
select_best(struct tt_searcher *s)
{
  int n = s->params.chains, kept = 0;

  qsort_r(s->population, 2 * (size_t)n, sizeof *s->population, by_score, s);
  for (int i = 0; i < 2 * n && kept < n; i++)
    if (kept == 0 || s->population[i] != s->population[kept - 1])
      s->population[kept++] = s->population[i];
  for (; kept < n; kept++)
    s->population[kept] = s->population[kept - 1];
}

static bool
breed(struct tt_searcher *s, struct tt_cost_model *m, int nseeds,
      const int *seeds, struct tt_top *top, const char **error)
{
  int n = s->params.chains, line = 0, last = 0;
  bool better = false;

  settle(s, nseeds, seeds);
  for (int i = 0; i < n; i++)
    tt_search_enqueue(s, s->population[i], &line);
  if (!tt_search_score(s, m, line, top, &better, error))
    return false;
  for (int step = 0; step < s->params.steps; step++) {
    line = 0;
    better = false;
    for (int i = 0; i < n; i++) {
      int a = parent(s), b = parent(s);
      cross(s, tt_seen_config(&s->seen, a), tt_seen_config(&s->seen, b),
            s->config);
      s->population[n + i] = tt_seen_find(&s->seen, s->config);
      tt_search_enqueue(s, s->population[n + i], &line);
    }
    if (!tt_search_score(s, m, line, top, &better, error))
      return false;
    select_best(s);
    last = better ? step : last;
    if (step - last >= s->params.patience || s->evaluations >= s->limit)
      break;
  }
  return true;
}

/* ---- on what was measured ---------------------------------------------- */

/* Children of the measured ones, better parents more often. */
static int
children(struct tt_searcher *s, int nseeds, const int *seeds, int n, int *out)
{
  int got = 0, k = s->space.nknobs;

  for (int i = 0; i < n * TRIES && got < n && k > 0; i++) {
    int a = tt_draw_below(&s->random, nseeds);
    int b = tt_draw_below(&s->random, nseeds);
    int c = tt_draw_below(&s->random, nseeds);
    cross(s, seeds + (long)(a < b ? a : b) * k, seeds + (long)c * k, s->config);
    int entry = tt_seen_find(&s->seen, s->config);
    if (tt_search_open(s, entry) &&
        tt_search_take(s, entry, out + (long)got * k))
      got++;
  }
  return got;
}

int
tt_search_genetic(struct tt_searcher *s, struct tt_cost_model *m, int nseeds,
                  const int *seeds, int n, int *out, const char **error)
{
  int got = 0;

  if (m != NULL)
    return tt_search_propose(s, m, breed, nseeds, seeds, n, out, error);
  if (nseeds > 0)
    got = children(s, nseeds, seeds, n - (n > 4), out);
  return got + tt_search_random(s, n - got, out + (long)got * s->space.nknobs);
}
