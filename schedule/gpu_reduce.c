/* Long reductions with few results, for a GPU: the threads of a block share a
 * result.  Each reduces a part, some of them what the others found, and one
 * the rest; where there is hardly any result to share out, blocks do the same
 * before.
 *
 * A thread's part lies together: it reads whole lines of memory.
 */
#include "config.h"

#include "schedule/state.h"

enum {
  THREADS = 256,
  SECOND = 16,    /* threads that reduce what all have found */
  PART = 4,       /* elements that a thread's part is a multiple of */
  SHORT = 128,    /* reductions that one thread does */
  BLOCKS = 2,     /* of each processor, for parts of one result */
  LONG = 64 << 10 /* reductions that are worth it */
};

struct contiguity {
  const struct tt_var *axis;
  bool found;
};

static void
look(void *ctx, const struct tt_expr *e)
{
  struct contiguity *c = ctx;
  if (e->kind == TT_LOAD && e->nargs > 0)
    c->found |= tt_expr_uses_var(e->args[e->nargs - 1], c->axis);
}

static int64_t
rounds(int64_t n, int64_t by)
{
  return (n + by - 1) / by;
}

/* The longest axis of a reduction that is worth it; -1: none. */
static int
shared_axis(const struct tt_stage_schedule *ss, const struct tt_gpu_limits *g)
{
  const struct tt_stage *st = ss->stage;
  int best = -1;
  if (st->red == TT_RED_NONE || ss->where)
    return -1;
  for (int i = 0; i < st->nreduce; i++)
    if (best < 0 || st->reduce[i]->extent > st->reduce[best]->extent)
      best = i;
  if (best < 0 || st->reduce[best]->extent < SHORT)
    return -1;
  struct contiguity c = {st->reduce[best], false};
  tt_expr_visit(ss->value, look, &c);
  /* (Fewer results than that do not fill the GPU with threads.) */
  return c.found || tt_tensor_size(st->out) < g->units * g->warp ? best : -1;
}

/* One more stage before `stage`, which reduces `part` elements at a time. */
static bool
part_of(struct tt_schedule *s, int stage, int axis, int64_t part,
        const char *suffix)
{
  const struct tt_stage *st = s->stages[stage].stage;
  const char *inner = tt_arena_printf(s->arena, "%s_i", st->reduce[axis]->name);
  return tt_rfactor(
             s, stage, st->nspatial + axis, part, inner,
             tt_arena_printf(s->arena, "%s_%s", st->out->name, suffix)) >= 0;
}

/* The spatial loops as one, the block's; TT_OUTSIDE: there are none. */
static bool
bind_block(struct tt_schedule *s, int stage, int *loop)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  *loop = TT_OUTSIDE;
  if (ss->stage->nspatial == 0)
    return true;
  int l = ss->order[0];
  for (int i = 1; i < ss->stage->nspatial && l >= 0; i++)
    l = tt_fuse(s, stage, l, ss->order[1],
                tt_arena_printf(s->arena, "%s_%s", ss->loops[l].name,
                                ss->loops[ss->order[1]].name));
  *loop = l;
  return l >= 0 && tt_bind(s, stage, l, TT_BLOCK_X);
}

/* The parts: their first loop, which counts them, is the threads'. */
static bool
place_parts(struct tt_schedule *s, int stage, int consumer, int loop)
{
  int threads = s->stages[stage].order[0];
  return tt_bind(s, stage, threads, TT_THREAD_X) &&
         tt_cache_write(s, stage, threads) &&
         tt_compute_at(s, stage, consumer, loop);
}

enum tt_gpu_step
tt_gpu_reduce(struct tt_schedule *s, int stage, const struct tt_gpu_limits *g)
{
  int axis = shared_axis(&s->stages[stage], g), loop;
  if (axis < 0)
    return TT_GPU_NONE;
  const struct tt_stage *st = s->stages[stage].stage;
  int64_t n = st->reduce[axis]->extent;
  if (n >= LONG && tt_tensor_size(st->out) <= SECOND) {
    int64_t part = rounds(rounds(n, BLOCKS * g->units), PART) * PART;
    return part_of(s, stage, axis, part, "blocks") ? TT_GPU_CUT : TT_GPU_NONE;
  }
  int64_t threads = g->threads < THREADS ? g->threads : THREADS;
  int64_t part = rounds(n, threads * PART) * PART;
  int64_t parts = rounds(n, part);
  if (!part_of(s, stage, axis, part, "parts"))
    return TT_GPU_NONE;
  int final = stage + 1;
  bool twice =
      parts > 2 * SECOND && part_of(s, final, 0, rounds(parts, SECOND), "more");
  final += twice;
  if (!bind_block(s, final, &loop) || !tt_cache_write(s, final, loop))
    return TT_GPU_REFUSED;
  if (twice && !place_parts(s, final - 1, final, loop))
    return TT_GPU_REFUSED;
  return place_parts(s, stage, final, loop) ? TT_GPU_DONE : TT_GPU_REFUSED;
}
