/* Reductions whose results are too few for the threads: the space is derived
 * from the program with their sums in parts (rfactor), one for each thread,
 * and every schedule of the space begins with these calls.
 */
#include "config.h"

#include "schedule/space.h"

#include "schedule/state.h"

#include <string.h>

/* Less work is done before the threads have begun. */
#define MIN_WORK 5e5
/* Results that a thread needs for itself, or it is better off with a part of
 * the reduction. */
#define MIN_POINTS 4

static int
longest(const struct tt_stage *st)
{
  int best = -1;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (best < 0 || tt_space_extent(st, a) > tt_space_extent(st, best))
      best = a;
  return best;
}

/* As many parts as threads, or a few more if these are equal. */
static int64_t
parts_of(int64_t extent, int64_t threads)
{
  for (int64_t n = threads; n <= 2 * threads; n++)
    if (extent % n == 0)
      return n;
  return threads;
}

static bool
wants_parts(const struct tt_rules *r, const struct tt_stage *st)
{
  int64_t threads = r->target.threads;
  if (st->red == TT_RED_NONE || st->prepare || threads < 2 ||
      tt_tensor_size(st->out) >= MIN_POINTS * threads ||
      (r->strict_fp && tt_sum_rounds(st)))
    return false;
  return tt_space_extent(st, longest(st)) >= 64 * threads &&
         tt_stage_work(st) >= MIN_WORK;
}

static bool
name_taken(const struct tt_program *p, const char *name)
{
  for (int i = 0; i < p->ntensors; i++)
    if (strcmp(p->tensors[i]->name, name) == 0)
      return true;
  return false;
}

/* The stage's sums in parts; false if that is refused. */
static bool
cut(struct tt_rules *r, struct tt_schedule *s, int stage)
{
  const struct tt_stage *st = s->stages[stage].stage;
  int axis = longest(st);
  int64_t extent = tt_space_extent(st, axis);
  int64_t n = parts_of(extent, r->target.threads);
  const char *loop = s->stages[stage].loops[axis].name;
  const char *name = tt_arena_printf(r->arena, "%s_parts", st->out->name);
  while (name_taken(s->program, name))
    name = tt_arena_printf(r->arena, "%s_", name);
  return tt_rfactor(s, stage, axis, ceildiv(extent, n),
                    tt_arena_printf(r->arena, "%s_part", loop), name) >= 0;
}

void
tt_parts_derive(struct tt_rules *r)
{
  struct tt_schedule *s = tt_schedule_new(r->arena, r->program, r->strict_fp);
  r->in_parts = TT_ARRAY(r->arena, bool, 2 * (size_t)s->nstages + 1);
  /* From the back: positions before the stage stay. */
  for (int i = s->nstages - 1; i >= 0; i--)
    if (wants_parts(r, s->stages[i].stage) && cut(r, s, i)) {
      memmove(&r->in_parts[i + 1], &r->in_parts[i],
              (size_t)(s->nstages - 1 - i) * sizeof *r->in_parts);
      r->in_parts[i] = true;
    }
  r->start = s;
  r->program = s->program;
}

struct tt_schedule *
tt_parts_schedule(struct tt_arena *arena, const struct tt_rules *r)
{
  struct tt_schedule *s = tt_arena_dup(arena, r->start, sizeof *s);
  s->arena = arena;
  s->stages = tt_arena_dup(arena, r->start->stages,
                           (size_t)s->nstages * sizeof *s->stages);
  s->calls = NULL;
  s->capcalls = s->ncalls;
  if (s->ncalls)
    s->calls = tt_arena_dup(arena, r->start->calls,
                            (size_t)s->ncalls * sizeof *s->calls);
  return s;
}
