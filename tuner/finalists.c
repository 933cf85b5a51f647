/* Finalists.
 *
 * Invariant: no two of them have the same text.
 */
#include "config.h"
#include "tuner/finalists.h"

#include <string.h>

#include "tuner/trials.h"

void
tt_finalists_add(struct tt_arena *arena, struct tt_finalists *f,
                 struct tt_schedule *s, const struct tt_result *result)
{
  const char *text;

  if (s == NULL || f->n == TT_FINALISTS)
    return;
  text = tt_schedule_text(arena, s);
  for (int i = 0; i < f->n; i++)
    if (strcmp(f->texts[i], text) == 0)
      return;
  f->schedules[f->n] = s;
  f->texts[f->n] = text;
  f->results[f->n++] = *result;
}

static bool
right(const struct tt_result *r)
{
  return r->outcome == TT_OUT_OK && r->seconds > 0;
}

/* Is `a` faster than `b` by more than their noise? */
static bool
beats(const struct tt_result *a, const struct tt_result *b)
{
  double noise = 0.5 * (a->spread > b->spread ? a->spread : b->spread);

  noise = noise < 0.005 ? 0.005 : noise > 0.05 ? 0.05 : noise;
  return a->seconds < b->seconds * (1 - noise);
}

int
tt_finalists_winner(const struct tt_finalists *f)
{
  int best = -1;

  for (int i = 0; i < f->n; i++)
    if (right(&f->results[i]) &&
        (best < 0 || f->results[i].seconds < f->results[best].seconds))
      best = i;
  if (best > 0 && right(&f->results[0]) &&
      !beats(&f->results[best], &f->results[0]))
    return 0;
  return best;
}
