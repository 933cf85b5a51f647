/* The schedule for a GPU where nothing was searched or given: tiles of an
 * instruction where one can do a product, tiles where operands are used again,
 * the threads of a block for a long reduction, else a thread for every result,
 * which sums in a register.  What is cheap is computed where it is used, and
 * what follows a reduction element by element takes its sums from registers.
 */
#include "config.h"

#include "schedule/state.h"

#include <string.h>

enum {
  THREADS = 256,
  CPU_BLOCKS = 16, /* of each processor of a CPU, so that all end together */
  CHEAP = 12,
  MAX_PLAIN = 64
};

/* (As many processors as a large one has.) */
const struct tt_gpu_limits tt_gpu_unknown = {.lanes = 1,
                                             .units = 128,
                                             .warp = 32,
                                             .threads = 1024,
                                             .items = {1024, 1024, 64},
                                             .shared = 48 << 10,
                                             .scratchpad = true,
                                             .registers = 255};

static void
count_node(void *ctx, const struct tt_expr *e)
{
  int *n = ctx;
  *n += e->kind == TT_CALL ? CHEAP : 1;
}

void
tt_gpu_inline(struct tt_schedule *s)
{
  for (int i = 0; i < s->nstages; i++) {
    int n = 0;
    tt_expr_visit(s->stages[i].value, count_node, &n);
    if (n <= CHEAP && !s->stages[i].stage->prepare)
      tt_inline(s, i); /* unless it is refused */
  }
}

/* The spatial loops as one, or the innermost where that would be too long. */
static int
one_loop(struct tt_schedule *s, int stage)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int loop = ss->order[0];
  for (int i = 1; i < ss->stage->nspatial; i++) {
    int next = ss->order[1];
    if (ss->loops[loop].extent > INT32_MAX / ss->loops[next].extent)
      return -1;
    loop = tt_fuse(s, stage, loop, next,
                   tt_arena_printf(s->arena, "%s_%s", ss->loops[loop].name,
                                   ss->loops[next].name));
    if (loop < 0)
      return -1;
  }
  return loop;
}

/* Threads of a block: fewer, where there would be too few blocks for all of a
 * GPU's processors. */
static int64_t
threads_for(int64_t points, const struct tt_gpu_limits *g)
{
  int64_t n = THREADS, blocks = g->cpu ? CPU_BLOCKS * g->units : g->units;
  while (n > 1 && (n > g->threads || n > g->items[0] ||
                   (n > g->warp && points / n < blocks)))
    n /= 2;
  return n;
}

void
tt_gpu_bind(struct tt_schedule *s, int stage, const struct tt_gpu_limits *g)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int loop = TT_OUTSIDE;
  if (ss->stage->nspatial > 0) {
    loop = one_loop(s, stage);
    if (loop < 0)
      return;
    int64_t points = ss->loops[loop].extent, threads = threads_for(points, g);
    if (points > threads) {
      const char *name =
          tt_arena_printf(s->arena, "%s_t", ss->loops[loop].name);
      int inner = tt_split(s, stage, loop, threads, name, TT_TAIL_GUARD);
      if (inner < 0 || !tt_bind(s, stage, ss->loops[inner].other, TT_BLOCK_X))
        return;
      loop = inner;
    }
    tt_bind(s, stage, loop, TT_THREAD_X);
  }
  if (ss->stage->red != TT_RED_NONE)
    tt_cache_write(s, stage, loop);
}

/* The first elementwise stage that can take the sums from their registers. */
void
tt_gpu_finish(struct tt_schedule *s, int stage)
{
  const struct tt_tensor *sums = s->stages[stage].stage->out;
  if (s->stages[stage].cache_write == TT_NO_CACHE)
    return;
  for (int i = stage + 1; i < s->nstages; i++)
    if (s->stages[i].place == TT_ROOT &&
        s->stages[i].stage->red == TT_RED_NONE &&
        tt_expr_uses_tensor(s->stages[i].value, sums)) {
      tt_finish(s, i, stage); /* unless it is refused */
      return;
    }
}

/* Stages, by the names of their results, for which a primitive was refused
 * half way: the next attempt leaves them plain. */
struct plain {
  int n;
  const char *names[MAX_PLAIN];
  bool all;
};

static bool
is_plain(const struct plain *p, const char *name)
{
  bool found = p->all;
  for (int i = 0; i < p->n && !found; i++)
    found = strcmp(p->names[i], name) == 0;
  return found;
}

static bool
is_bound(const struct tt_stage_schedule *ss)
{
  for (int i = 0; i < ss->norder; i++)
    if (tt_is_block(ss->loops[ss->order[i]].kind) ||
        tt_is_thread(ss->loops[ss->order[i]].kind))
      return true;
  return false;
}

/* Tiles of the first instruction that can do the stage. */
static enum tt_gpu_step
tensor_stage(struct tt_schedule *s, int stage, const struct tt_gpu_limits *g)
{
  const struct tt_intrin *in;
  struct tt_gpu_warps w;
  if (!tt_gpu_tensor_intrins(s->arena, s, stage, g, 1, &in) ||
      !tt_gpu_choose_warps(s->arena, s, stage, in, g, &w))
    return TT_GPU_NONE;
  return tt_gpu_tensor(s, stage, in, &w);
}

static enum tt_gpu_step
shape_stage(struct tt_schedule *s, int stage, const struct tt_gpu_limits *g,
            enum tt_gpu_tiles tiles)
{
  struct tt_gpu_tile t;
  enum tt_gpu_step step = TT_GPU_NONE;
  if (tiles == TT_GPU_TENSORS)
    step = tensor_stage(s, stage, g);
  if (step == TT_GPU_NONE && tt_gpu_choose_tile(s, stage, g, &t)) {
    t.dot = tiles == TT_GPU_TENSORS ? tt_gpu_dot(s, stage, g, &t) : NULL;
    step = tt_gpu_tile(s, stage, &t);
  }
  return step == TT_GPU_NONE ? tt_gpu_reduce(s, stage, g) : step;
}

/* NULL: a stage was added to the plain ones. */
static struct tt_schedule *
attempt(struct tt_arena *arena, const struct tt_program *program,
        const struct tt_gpu_limits *g, bool strict_fp, enum tt_gpu_tiles tiles,
        struct plain *plain)
{
  struct tt_schedule *s = tt_schedule_new(arena, program, strict_fp);
  tt_gpu_inline(s);
  for (int i = 0; i < s->nstages; i++) {
    const char *name = s->stages[i].stage->out->name;
    enum tt_gpu_step step = TT_GPU_NONE;
    if (s->stages[i].place == TT_ROOT && !is_bound(&s->stages[i])) {
      if (!is_plain(plain, name))
        step = shape_stage(s, i, g, tiles);
      if (step == TT_GPU_REFUSED && plain->n < MAX_PLAIN)
        plain->names[plain->n++] = name;
      else if (step == TT_GPU_REFUSED)
        plain->all = true;
      if (step == TT_GPU_REFUSED)
        return NULL;
      if (step == TT_GPU_CUT ||
          (step == TT_GPU_DONE && s->stages[i].place != TT_ROOT)) {
        i--; /* other stages stand here now */
        continue;
      }
      if (step == TT_GPU_NONE)
        tt_gpu_bind(s, i, g);
    }
    if (s->stages[i].place == TT_ROOT)
      tt_gpu_finish(s, i);
  }
  s->error = NULL;
  return s;
}

struct tt_schedule *
tt_gpu_schedule(struct tt_arena *arena, const struct tt_program *program,
                const struct tt_gpu_limits *g, bool strict_fp,
                enum tt_gpu_tiles tiles)
{
  struct plain plain = {.all = tiles == TT_GPU_PLAIN};
  struct tt_schedule *s = NULL;
  while (!s)
    s = attempt(arena, program, g, strict_fp, tiles, &plain);
  return s;
}
