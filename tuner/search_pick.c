/* Which of the scored configurations a batch takes: the best ones, as unlike
 * each other as may be, and scouts from elsewhere.
 *
 * Invariant: all come from entries that are open, and each is taken when it is
 * put into the batch.
 */
#include "config.h"
#include "tuner/search_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"

enum {
  DRAWS = 32,     /* configurations that a scout is the best of */
  DRAW_TRIES = 20 /* for each of them */
};

/* ---- the best ---------------------------------------------------------- */

static int
by_score(const void *a, const void *b, void *ctx)
{
  const struct tt_searcher *s = ctx;
  int x = *(const int *)a, y = *(const int *)b;
  float fx = s->seen.entries[x].score, fy = s->seen.entries[y].score;

  return fx > fy ? -1 : fx < fy ? 1 : (x > y) - (x < y);
}

/* Put the first of each run of equal scores in front, the others behind; both
 * stay in order.  Returns how many are in front. */
static int
one_of_each(struct tt_searcher *s, int n, int *cand)
{
  int *rest = tt_xmalloc(((size_t)n + 1) * sizeof *rest), nrest = 0, kept = 0;
  float last = NAN;

  for (int i = 0; i < n; i++) {
    float score = s->seen.entries[cand[i]].score;
    if (score == last)
      rest[nrest++] = cand[i];
    else
      cand[kept++] = cand[i];
    last = score;
  }
  if (nrest > 0)
    memcpy(cand + kept, rest, (size_t)nrest * sizeof *rest);
  free(rest);
  return kept;
}

/* The open entries scored in this round, best first; the caller frees *out.
 * Those with equal scores are alike to the model, which would learn little
 * from all of them: the first *unlike have different scores. */
static int
candidates(struct tt_searcher *s, int *unlike, int **out)
{
  TT_VEC(int) v = {0};

  for (int i = 0; i < s->seen.n; i++) {
    const struct tt_seen *e = &s->seen.entries[i];
    if (e->epoch == s->epoch && !e->taken && !e->illegal)
      TT_PUSH(v, i);
  }
  if (v.n > 0)
    qsort_r(v.items, (size_t)v.n, sizeof *v.items, by_score, s);
  *unlike = one_of_each(s, v.n, v.items);
  *out = v.items;
  return v.n;
}

/* Which values of each knob the batch has already. */
struct cover {
  bool *has; /* all knobs in a row */
  int *at;   /* where each knob begins */
};

static double
news(const struct tt_searcher *s, const struct cover *c, int entry)
{
  const int *config = tt_seen_config(&s->seen, entry);
  int n = 0;

  for (int k = 0; k < s->space.nknobs; k++)
    n += !c->has[c->at[k] + config[k]];
  return (double)n / (s->space.nknobs > 0 ? s->space.nknobs : 1);
}

static void
cover_add(const struct tt_searcher *s, struct cover *c, int entry)
{
  const int *config = tt_seen_config(&s->seen, entry);

  for (int k = 0; k < s->space.nknobs; k++)
    c->has[c->at[k] + config[k]] = true;
}

/* Maximize greedily the sum of scores (from 0 to 1 over the candidates) and
 * alpha times the share of values that are new: equation 3. */
static int
pick_diverse(struct tt_searcher *s, struct cover *c, int ncand, int *cand,
             int n, int *out)
{
  float hi = ncand > 0 ? s->seen.entries[cand[0]].score : 0;
  float lo = ncand > 0 ? s->seen.entries[cand[ncand - 1]].score : 0;
  float range = hi > lo ? hi - lo : 1;
  int got = 0, best;

  while (got < n) {
    double most = -1, value;
    best = -1;
    for (int i = 0; i < ncand; i++) {
      if (cand[i] < 0)
        continue;
      value = (double)((s->seen.entries[cand[i]].score - lo) / range) +
              s->params.alpha * news(s, c, cand[i]);
      if (value > most) {
        most = value;
        best = i;
      }
    }
    if (best < 0)
      break;
    if (tt_search_take(s, cand[best], out + (long)got * s->space.nknobs)) {
      cover_add(s, c, cand[best]);
      got++;
    }
    cand[best] = -1;
  }
  return got;
}

/* Up to n of the best, written to out. */
static int
pick_best(struct tt_searcher *s, int n, int *out)
{
  struct cover c;
  int *cand, ncand, unlike, got, total = 0, most = n * s->params.lambda;

  c.at = tt_xmalloc(((size_t)s->space.nknobs + 1) * sizeof *c.at);
  for (int k = 0; k < s->space.nknobs; k++) {
    c.at[k] = total;
    total += s->space.sizes[k];
  }
  c.has = tt_xmalloc((size_t)total + 1);
  memset(c.has, 0, (size_t)total + 1);
  ncand = candidates(s, &unlike, &cand);
  got = pick_diverse(s, &c, unlike < most ? unlike : most, cand, n, out);
  if (got < n && unlike < ncand) {
    ncand -= unlike;
    got += pick_diverse(s, &c, ncand < most ? ncand : most, cand + unlike,
                        n - got, out + (long)got * s->space.nknobs);
  }
  free(cand);
  free(c.has);
  free(c.at);
  return got;
}

/* ---- scouts ------------------------------------------------------------ */

/* Draw configurations that have the same values of all knobs without an order
 * (what a schedule is like, not how large its tiles are), and score them; the
 * entry of the best, -1: none of them is open.  false: *error. */
static bool
best_of_a_kind(struct tt_searcher *s, struct tt_cost_model *m, int *kind,
               int *best, const char **error)
{
  int drawn[DRAWS], most = s->params.chains < DRAWS ? s->params.chains : DRAWS;
  int n = 0, unscored = 0;
  bool better;

  tt_search_draw(s, kind);
  for (int i = 0; i < DRAW_TRIES * most && n < most; i++) {
    tt_search_draw(s, s->config);
    for (int k = 0; k < s->space.nknobs; k++)
      if (!s->space.ordered[k])
        s->config[k] = kind[k];
    int entry = tt_seen_find(&s->seen, s->config);
    if (s->seen.entries[entry].taken)
      continue;
    tt_search_enqueue(s, entry, &unscored);
    if (!s->seen.entries[entry].illegal)
      drawn[n++] = entry;
  }
  if (!tt_search_score(s, m, unscored, NULL, &better, error))
    return false;
  *best = -1;
  for (int i = 0; i < n; i++)
    if (*best < 0 ||
        s->seen.entries[drawn[i]].score > s->seen.entries[*best].score)
      *best = drawn[i];
  return true;
}

/* Where the best so far are of one kind, the model is asked about that kind
 * again and again, and believes of the others what a few bad ones at the start
 * told it.  A scout is the best that the model finds of a kind drawn at
 * random: far better than a random configuration, and it corrects the model
 * where it is wrong.  Returns how many there are, -1: *error. */
static int
scout(struct tt_searcher *s, struct tt_cost_model *m, int n, int *out,
      const char **error)
{
  int *kind = tt_xmalloc((size_t)s->space.nknobs * sizeof *kind), got = 0, best;
  bool ok = true;

  for (int tries = 0; tries < 2 * n && got < n && ok; tries++) {
    ok = best_of_a_kind(s, m, kind, &best, error);
    if (ok && best >= 0 &&
        tt_search_take(s, best, out + (long)got * s->space.nknobs))
      got++;
  }
  free(kind);
  return ok ? got : -1;
}

int
tt_search_pick(struct tt_searcher *s, struct tt_cost_model *m, int n, int *out,
               const char **error)
{
  int scouts = (int)(s->params.scouts * n + 0.5);
  int got = pick_best(s, n - scouts, out), more;

  more = scout(s, m, n - got, out + (long)got * s->space.nknobs, error);
  return more < 0 ? -1 : got + more;
}
