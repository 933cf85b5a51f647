/* Random search and simulated annealing over configurations (section 3.3).
 *
 * Invariant: an entry that is taken was proposed or measured and is never
 * proposed again; one found illegal is never looked at again.  All choices
 * come from one generator, so that a search is a function of its seed, of the
 * calls and of the model's scores.
 */
#include "config.h"
#include "tuner/search.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "tuner/search_parts.h"

enum {
  LOOKED_AROUND = 4,    /* seeds whose neighbours are all scored */
  SEED_CHAINS = 16,     /* chains moved to the best measured ones */
  BLIND_TRIES = 300,    /* random draws in a row before going in order */
  LONG_TRIES = 20000,   /* the same in a space too large to go through */
  NEIGHBOUR_TRIES = 40, /* for each neighbour of a seed */
  REMEMBERED = 1 << 20  /* entries, before those without use are dropped */
};
static const double largest_walk = 1 << 20;

const struct tt_search_params tt_search_defaults = {
    .chains = 128,
    .steps = 500,
    .patience = 50,
    .evaluations = 512,
    .epsilon = 0.05,
    .scouts = 0.25,
    .lambda = 3,
    .alpha = 0.3,
};

/* ---- life -------------------------------------------------------------- */

struct tt_searcher *
tt_searcher_new(const struct tt_search_space *space,
                const struct tt_search_params *params, uint64_t seed)
{
  struct tt_searcher *s = tt_xmalloc(sizeof *s);
  size_t chains = (size_t)params->chains, knobs = (size_t)space->nknobs + 1;

  memset(s, 0, sizeof *s);
  s->space = *space;
  s->params = *params;
  s->random = seed * 0x2545f4914f6cdd1du + 0x1234567;
  tt_seen_init(&s->seen, space->nknobs);
  s->size = 1;
  for (int i = 0; i < space->nknobs; i++)
    s->size *= space->sizes[i];
  s->cursor = tt_xmalloc(knobs * sizeof *s->cursor);
  s->config = tt_xmalloc(knobs * sizeof *s->config);
  for (int i = 0; i < space->nknobs; i++)
    s->cursor[i] = tt_draw_below(&s->random, space->sizes[i]);
  s->chain = tt_xmalloc(chains * sizeof *s->chain);
  s->population = tt_xmalloc(2 * chains * sizeof *s->population);
  s->next = tt_xmalloc(chains * sizeof *s->next);
  s->pending = tt_xmalloc(chains * sizeof *s->pending);
  s->scores = tt_xmalloc(chains * sizeof *s->scores);
  s->rows = tt_xmalloc((chains + 1) * (size_t)space->width * sizeof *s->rows);
  return s;
}

void
tt_searcher_free(struct tt_searcher *s)
{
  if (s == NULL)
    return;
  tt_seen_free(&s->seen);
  free(s->cursor);
  free(s->config);
  free(s->chain);
  free(s->population);
  free(s->next);
  free(s->pending);
  free(s->scores);
  free(s->rows);
  free(s);
}

void
tt_searcher_know(struct tt_searcher *s, const int *config)
{
  int entry = tt_seen_find(&s->seen, config); /* may move the entries */

  s->seen.entries[entry].taken = true;
}

/* ---- one configuration ------------------------------------------------- */

/* Is the entry legal?  Its features are left in `row`. */
static bool
look(struct tt_searcher *s, int entry, float *row)
{
  bool ok =
      s->space.features(s->space.ctx, tt_seen_config(&s->seen, entry), row);

  s->seen.entries[entry].legal = ok;
  s->seen.entries[entry].illegal = !ok;
  s->illegal += !ok;
  return ok;
}

/* May the entry be proposed, as far as is known without a last look? */
bool
tt_search_open(struct tt_searcher *s, int entry)
{
  const struct tt_seen *e = &s->seen.entries[entry];

  if (e->taken || e->illegal)
    return false;
  return e->legal || look(s, entry, s->rows);
}

/* Propose an open entry: copy it to `out`.  false: it was no news. */
bool
tt_search_take(struct tt_searcher *s, int entry, int *out)
{
  const int *config = tt_seen_config(&s->seen, entry);

  s->seen.entries[entry].taken = true;
  if (s->space.fresh != NULL && !s->space.fresh(s->space.ctx, config))
    return false;
  if (s->space.nknobs > 0)
    memcpy(out, config, (size_t)s->space.nknobs * sizeof *out);
  return true;
}

void
tt_search_draw(struct tt_searcher *s, int *config)
{
  for (int i = 0; i < s->space.nknobs; i++)
    config[i] = tt_draw_below(&s->random, s->space.sizes[i]);
}

/* ---- random search ----------------------------------------------------- */

static void
advance(struct tt_searcher *s)
{
  for (int i = 0; i < s->space.nknobs; i++) {
    s->cursor[i] = (s->cursor[i] + 1) % s->space.sizes[i];
    /* Wrapped around to a value not its first: the walk is over when all
     * configurations were counted, wherever it began. */
    if (s->cursor[i] != 0)
      break;
  }
  s->walked++;
}

/* Go through the space in order for one that is open. */
static bool
walk(struct tt_searcher *s, int *out)
{
  while (s->walked < s->size) {
    int entry = tt_seen_find(&s->seen, s->cursor);
    advance(s);
    if (tt_search_open(s, entry) && tt_search_take(s, entry, out))
      return true;
  }
  s->exhausted = true;
  return false;
}

static bool
random_one(struct tt_searcher *s, int *out)
{
  bool small = s->size <= largest_walk;
  int tries = small ? BLIND_TRIES : LONG_TRIES;

  if (s->exhausted)
    return false;
  for (int i = 0; i < tries; i++) {
    tt_search_draw(s, s->config);
    int entry = tt_seen_find(&s->seen, s->config);
    if (tt_search_open(s, entry) && tt_search_take(s, entry, out))
      return true;
  }
  if (small)
    return walk(s, out);
  s->exhausted = true;
  return false;
}

int
tt_search_random(struct tt_searcher *s, int n, int *out)
{
  int got = 0;

  while (got < n && random_one(s, out + (long)got * s->space.nknobs))
    got++;
  return got;
}

/* ---- moves ------------------------------------------------------------- */

/* Change one knob of `config`; of a factor half of the time by a step. */
void
tt_search_change_knob(struct tt_searcher *s, int *config)
{
  int k, n, step, v;

  for (int tries = 0; tries < 64; tries++) {
    k = tt_draw_below(&s->random, s->space.nknobs);
    n = s->space.sizes[k];
    if (n < 2)
      continue;
    v = config[k];
    if (s->space.ordered[k] && n > 3 && tt_draw_below(&s->random, 2)) {
      step = 1 + tt_draw_below(&s->random, 2);
      v += tt_draw_below(&s->random, 2) ? step : -step;
      if (v < 0 || v >= n)
        continue;
    } else {
      v = tt_draw_below(&s->random, n - 1);
      v += v >= config[k];
    }
    config[k] = v;
    return;
  }
}

static void
neighbour(struct tt_searcher *s, const int *from, int *to)
{
  if (s->space.nknobs == 0)
    return;
  memcpy(to, from, (size_t)s->space.nknobs * sizeof *to);
  tt_search_change_knob(s, to);
  if (tt_draw_below(&s->random, 8) == 0)
    tt_search_change_knob(s, to);
}

/* Without a model: neighbours of what is known to be good. */
static int
neighbours(struct tt_searcher *s, int nseeds, const int *seeds, int n, int *out)
{
  int got = 0, k = s->space.nknobs;

  for (int i = 0; i < n * NEIGHBOUR_TRIES && got < n && k > 0; i++) {
    int a = tt_draw_below(&s->random, nseeds),
        b = tt_draw_below(&s->random, nseeds);
    neighbour(s, seeds + (long)(a < b ? a : b) * k, s->config);
    int entry = tt_seen_find(&s->seen, s->config);
    if (tt_search_open(s, entry) &&
        tt_search_take(s, entry, out + (long)got * k))
      got++;
  }
  return got;
}

/* ---- annealing --------------------------------------------------------- */

static bool
top_add(struct tt_top *t, float score)
{
  int least = 0;

  if (t->n < t->cap) {
    t->scores[t->n++] = score;
    return true;
  }
  for (int i = 1; i < t->n; i++)
    if (t->scores[i] < t->scores[least])
      least = i;
  if (t->n == 0 || score <= t->scores[least])
    return false;
  t->scores[least] = score;
  return true;
}

/* Put the entry in line for a score unless it has one of this round or is
 * illegal. */
void
tt_search_enqueue(struct tt_searcher *s, int entry, int *n)
{
  struct tt_seen *e = &s->seen.entries[entry];

  if (e->illegal || e->epoch == s->epoch)
    return;
  if (!look(s, entry, s->rows + (long)*n * s->space.width))
    return;
  e->epoch = s->epoch;
  s->pending[(*n)++] = entry;
}

/* Score what is in line.  *better: a new one is among the best. */
bool
tt_search_score(struct tt_searcher *s, struct tt_cost_model *m, int n,
                struct tt_top *top, bool *better, const char **error)
{
  if (!m->ops->predict(m, n, s->space.width, s->rows, s->scores, error))
    return false;
  for (int i = 0; i < n; i++) {
    struct tt_seen *e = &s->seen.entries[s->pending[i]];
    e->score = isfinite(s->scores[i]) ? s->scores[i] : -1e30f;
    if (top != NULL && !e->taken && top_add(top, e->score))
      *better = true;
  }
  s->evaluations += n;
  return true;
}

/* The first call draws the chains; each call moves some to the seeds. */
static void
place_chains(struct tt_searcher *s, int nseeds, const int *seeds)
{
  int k = s->space.nknobs, from = nseeds < SEED_CHAINS ? nseeds : SEED_CHAINS;

  if (from > s->params.chains)
    from = s->params.chains;
  if (!s->started)
    for (int i = 0; i < s->params.chains; i++) {
      tt_search_draw(s, s->config);
      s->chain[i] = tt_seen_find(&s->seen, s->config);
    }
  s->started = true;
  for (int i = 0; i < from; i++)
    s->chain[i] = tt_seen_find(&s->seen, seeds + (long)i * k);
}

float
tt_search_score_of(const struct tt_searcher *s, int entry)
{
  const struct tt_seen *e = &s->seen.entries[entry];

  return e->illegal ? -INFINITY : e->score;
}

/* Move the chains whose next position is accepted at temperature t. */
static void
accept(struct tt_searcher *s, double t)
{
  for (int i = 0; i < s->params.chains; i++) {
    float new = tt_search_score_of(s, s->next[i]),
          old = tt_search_score_of(s, s->chain[i]);
    double p;
    if (new == -INFINITY)
      p = 0;
    else if (old == -INFINITY)
      p = 1;
    else
      p = exp(fmin(((double)new - (double)old) / (t + 1e-5), 1));
    if (tt_draw_unit(&s->random) < p)
      s->chain[i] = s->next[i];
  }
}

/* Score all that differs in one knob from the best of the seeds: chains that
 * start hot leave them too fast. */
static bool
look_around(struct tt_searcher *s, struct tt_cost_model *m, int nseeds,
            const int *seeds, struct tt_top *top, const char **error)
{
  int k = s->space.nknobs, n = 0;
  bool better;

  for (int i = 0; i < nseeds && i < LOOKED_AROUND; i++)
    for (int j = 0; j < k; j++)
      for (int v = 0; v < s->space.sizes[j]; v++) {
        memcpy(s->config, seeds + (long)i * k, (size_t)k * sizeof *seeds);
        s->config[j] = v;
        tt_search_enqueue(s, tt_seen_find(&s->seen, s->config), &n);
        if (n < s->params.chains)
          continue;
        if (!tt_search_score(s, m, n, top, &better, error))
          return false;
        n = 0;
      }
  return tt_search_score(s, m, n, top, &better, error);
}

static bool
anneal(struct tt_searcher *s, struct tt_cost_model *m, int nseeds,
       const int *seeds, struct tt_top *top, const char **error)
{
  int n = 0, last = 0;
  bool better = false;

  place_chains(s, nseeds, seeds);
  for (int i = 0; i < s->params.chains; i++)
    tt_search_enqueue(s, s->chain[i], &n);
  if (!tt_search_score(s, m, n, top, &better, error))
    return false;
  for (int step = 0; step < s->params.steps; step++) {
    n = 0;
    better = false;
    for (int i = 0; i < s->params.chains; i++) {
      neighbour(s, tt_seen_config(&s->seen, s->chain[i]), s->config);
      s->next[i] = tt_seen_find(&s->seen, s->config);
      tt_search_enqueue(s, s->next[i], &n);
    }
    if (!tt_search_score(s, m, n, top, &better, error))
      return false;
    accept(s, 1 - (double)step / s->params.steps);
    if (better)
      last = step;
    if (step - last >= s->params.patience || s->evaluations >= s->limit)
      break;
  }
  return true;
}

/* ---- a batch ----------------------------------------------------------- */

/* A search of hours sees more than memory should hold: keep what was taken
 * and where the chains are.  What was illegal may be looked at again. */
static void
forget(struct tt_searcher *s)
{
  struct tt_seen_set old = s->seen;

  if (old.n <= REMEMBERED)
    return;
  tt_seen_init(&s->seen, s->space.nknobs);
  for (int i = 0; i < old.n; i++)
    if (old.entries[i].taken) {
      int entry = tt_seen_find(&s->seen, tt_seen_config(&old, i));
      s->seen.entries[entry] = old.entries[i];
    }
  for (int i = 0; s->started && i < s->params.chains; i++)
    s->chain[i] = tt_seen_find(&s->seen, tt_seen_config(&old, s->chain[i]));
  for (int i = 0; s->bred && i < s->params.chains; i++)
    s->population[i] =
        tt_seen_find(&s->seen, tt_seen_config(&old, s->population[i]));
  tt_seen_free(&old);
}

/* The share of random configurations in a batch of n. */
static int
random_share(const struct tt_searcher *s, int n)
{
  int random = (int)(s->params.epsilon * n + 0.5);

  return random == 0 && s->params.epsilon > 0 && n > 4 ? 1 : random;
}

int
tt_search_propose(struct tt_searcher *s, struct tt_cost_model *m,
                  tt_search_round *round, int nseeds, const int *seeds, int n,
                  int *out, const char **error)
{
  int random = random_share(s, n), got = 0;
  struct tt_top top = {0, n * s->params.lambda, NULL};
  bool ok;

  if (m != NULL && s->space.nknobs > 0 && !s->exhausted) {
    forget(s);
    s->epoch++;
    s->evaluations = 0;
    s->limit = n * s->params.evaluations;
    if (s->limit < 2 * s->params.chains)
      s->limit = 2 * s->params.chains;
    top.scores = tt_xmalloc((size_t)top.cap * sizeof *top.scores);
    ok = look_around(s, m, nseeds, seeds, &top, error) &&
         round(s, m, nseeds, seeds, &top, error);
    free(top.scores);
    if (!ok)
      return -1;
    got = tt_search_pick(s, m, n - random, out, error);
    if (got < 0)
      return -1;
  }
  return got + tt_search_random(s, n - got, out + (long)got * s->space.nknobs);
}

int
tt_search_anneal(struct tt_searcher *s, struct tt_cost_model *m, int nseeds,
                 const int *seeds, int n, int *out, const char **error)
{
  int got = 0;

  if (m == NULL && nseeds > 0)
    got = neighbours(s, nseeds, seeds, n - random_share(s, n), out);
  if (m == NULL)
    return got +
           tt_search_random(s, n - got, out + (long)got * s->space.nknobs);
  return tt_search_propose(s, m, anneal, nseeds, seeds, n, out, error);
}
