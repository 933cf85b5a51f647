/* Tiles for a GPU whose inside is an instruction of the program that several
 * threads execute together.
 *
 * A block computes a tile of rows and columns, which its groups of threads
 * (warps) share: each keeps some of the instruction's results in registers.
 * What the block reads for some steps of the reduction lies in shared memory,
 * the rows of the instruction's operands below each other, swizzled where its
 * text asks for their places, padded where it does not, and copied ahead. Where
 * sizes do not divide the axes, tiles are whole, of zeros beyond the end.
 */
#include "config.h"

#include "schedule/state.h"

enum {
  MOVED = 16,          /* bytes that a thread copies at once */
  REGISTERS = 1 << 16, /* that the threads of a processor share */
  ADDRESSES = 32,      /* of a thread's registers are not results */
  SIDE_COST = 32,      /* rows, or columns, whose copies take as long */
  STEPS = 2,           /* of the instruction between copies, by default */
  AHEAD = 3,         /* copies there is room for, where they are asynchronous */
  ASYNCHRONOUS = 80, /* from this architecture on */
  MOST_WASTE = 2,    /* times the work that a product is, with its tails */
  MOST_GROUP = 8     /* rows of blocks that run side by side */
};

/* An axis of the tile: its loop of blocks, of groups of threads, of a group's
 * results, and inside a result. */
struct side {
  int loop, warp, tile, inner;
};

/* What a split into such parts leaves: nothing, or room for whole ones; false:
 * there is not even one. */
static bool
tail_of(int64_t extent, int64_t size, enum tt_tail *tail)
{
  *tail = extent % size ? TT_TAIL_PAD : TT_TAIL_PEEL;
  return extent >= size;
}

static bool
split_side(struct tt_schedule *s, int stage, int axis, int64_t warps,
           int64_t tiles, int64_t size, struct side *out)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  static const char *const suffix[] = {"w", "f", "i"};
  int64_t factors[] = {warps * tiles * size, tiles * size, size};
  int at[3], loop = axis;
  for (int i = 0; i < 3; i++) {
    const char *name =
        tt_arena_printf(s->arena, "%s_%s", ss->loops[axis].name, suffix[i]);
    enum tt_tail tail;
    if (!tail_of(ss->loops[loop].extent, factors[i], &tail))
      return false;
    loop = tt_split(s, stage, loop, factors[i], name, tail);
    if (loop < 0)
      return false;
    at[i] = loop;
  }
  *out = (struct side){ss->loops[at[0]].other, ss->loops[at[1]].other,
                       ss->loops[at[2]].other, at[2]};
  return true;
}

/* The loops of the reduction: outside of the copies, steps of the instruction,
 * and inside one. */
static bool
split_steps(struct tt_schedule *s, int stage, int axis, int64_t steps,
            int64_t size, struct side *out)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const char *stem = ss->loops[axis].name;
  enum tt_tail tail;
  if (!tail_of(ss->loops[axis].extent, steps * size, &tail))
    return false;
  int step = tt_split(s, stage, axis, steps * size,
                      tt_arena_printf(s->arena, "%s_f", stem), tail);
  int inner = step < 0 ? -1
                       : tt_split(s, stage, step, size,
                                  tt_arena_printf(s->arena, "%s_i", stem),
                                  TT_TAIL_PEEL);
  if (inner < 0)
    return false;
  *out =
      (struct side){ss->loops[step].other, -1, ss->loops[inner].other, inner};
  return true;
}

static bool
any_place(void *ctx, int operand, const struct tt_expr *e)
{
  (void)ctx;
  (void)operand;
  return e->kind == TT_LOAD;
}

/* The side that the operand's dimension runs along. */
static const struct side *
side_of(const struct tt_stage_schedule *ss, const struct tt_operand_of *o,
        int dim, const struct side *sides)
{
  for (int i = 0; i < 3; i++)
    if (ss->tile[o->index[dim]] == sides[i].inner)
      return &sides[i];
  return NULL;
}

/* The loops of a side, outermost first. */
static int
side_loops(const struct side *side, int *layout, int n)
{
  if (side->warp >= 0)
    layout[n++] = side->warp;
  layout[n++] = side->tile;
  layout[n++] = side->inner;
  return n;
}

static bool
asks_for_places(const struct tt_intrin *in)
{
  for (int o = 0; o < in->noperands; o++)
    if (o != in->result && in->operands[o].tensor->ndim == 2 &&
        !tt_operand_by_place(in, o))
      return false;
  return true;
}

/* Copies of the operands: rows of the block's tile below each other. */
static bool
stage_operands(struct tt_schedule *s, int stage, const struct side *sides,
               int stages)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_intrin *in = ss->intrin;
  const struct tt_expr *found[TT_MAX_OPERANDS];
  bool places = asks_for_places(in);
  if (!tt_intrin_matches(in, ss->value, any_place, NULL, found))
    return false;
  for (int o = 0; o < in->noperands; o++) {
    const struct tt_operand_of *op = &in->operands[o];
    int layout[TT_MAX_DIMS], n = 0;
    if (o == in->result || op->tensor->ndim != 2)
      continue;
    for (int d = 0; d < 2; d++)
      n = side_loops(side_of(ss, op, d, sides), layout, n);
    const struct tt_tensor *t = found[o]->tensor;
    int line = MOVED / tt_dtype_bytes(t->dtype);
    const struct tt_staging staging = {.pad = places ? 0 : line,
                                       .swizzle = places ? line : 0,
                                       .stages = stages};
    if (!tt_cache_read(s, stage, t, sides[2].loop, n, layout, line,
                       tt_arena_printf(s->arena, "%s_s", t->name)) ||
        !tt_cache_staging(s, stage, &staging))
      return false;
  }
  return true;
}

/* Spatial axes beside the tile's are blocks of the third dimension. */
static bool
bind_rest(struct tt_schedule *s, int stage, const int *rest, int n)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int loop = n ? rest[0] : -1;
  for (int i = 1; i < n && loop >= 0; i++)
    loop = tt_fuse(s, stage, loop, rest[i],
                   tt_arena_printf(s->arena, "%s_%s", ss->loops[loop].name,
                                   ss->loops[rest[i]].name));
  return n == 0 || (loop >= 0 && tt_bind(s, stage, loop, TT_BLOCK_Z));
}

/* Blocks of results: columns and rows of them, or, one after the other, those
 * of some rows, column by column, so that blocks which run at the same time
 * read the same rows and columns.  Returns the loop of all that are inside, or
 * -1. */
static int
bind_blocks(struct tt_schedule *s, int stage, const struct side *row,
            const struct side *col, int row_group)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const char *stem = ss->loops[row->loop].name;
  if (row_group == 1)
    return tt_bind(s, stage, row->loop, TT_BLOCK_Y) &&
                   tt_bind(s, stage, col->loop, TT_BLOCK_X)
               ? col->loop
               : -1;
  if (ss->loops[row->loop].extent % row_group)
    return -1;
  int inner = tt_split(s, stage, row->loop, row_group,
                       tt_arena_printf(s->arena, "%s_g", stem), TT_TAIL_PEEL);
  int order[] = {inner < 0 ? -1 : ss->loops[inner].other, col->loop, inner};
  if (inner < 0 || !tt_reorder(s, stage, 3, order))
    return -1;
  int loop = order[0];
  for (int i = 1; i < 3 && loop >= 0; i++)
    loop = tt_fuse(s, stage, loop, order[i],
                   tt_arena_printf(s->arena, "%s_b%d", stem, i));
  return loop >= 0 && tt_bind(s, stage, loop, TT_BLOCK_X) ? loop : -1;
}

/* How many times the work of the stage its tiles are. */
static double
waste(const struct tt_stage_schedule *ss)
{
  const struct tt_stage *st = ss->stage;
  double tiled = 1, points = 1;
  for (int i = 0; i < ss->norder; i++)
    tiled *= (double)ss->loops[ss->order[i]].extent;
  for (int a = 0; a < st->nspatial + st->nreduce; a++)
    points *= (double)ss->loops[a].axis->extent;
  return tiled / points;
}

static bool
tile_stage(struct tt_schedule *s, int stage, int row,
           const struct tt_intrin *in, const struct tt_gpu_warps *w)
{
  const struct tt_stage *st = s->stages[stage].stage;
  int col = st->nspatial - 1, rest[TT_MAX_DIMS], nrest = 0, n = 0;
  int order[TT_MAX_LOOPS];
  struct side sides[3];
  for (int a = 0; a < col; a++)
    if (a != row)
      order[n++] = rest[nrest++] = a;
  if (!split_side(s, stage, row, w->row_warps, w->rows, in->spatial[0]->extent,
                  &sides[0]) ||
      !split_side(s, stage, col, w->col_warps, w->cols, in->spatial[1]->extent,
                  &sides[1]) ||
      !split_steps(s, stage, st->nspatial, w->steps, in->reduce[0]->extent,
                   &sides[2]))
    return false;
  const int inside[] = {sides[0].loop,  sides[1].loop, sides[2].loop,
                        sides[0].warp,  sides[1].warp, sides[2].tile,
                        sides[0].tile,  sides[1].tile, sides[0].inner,
                        sides[1].inner, sides[2].inner};
  for (size_t i = 0; i < sizeof inside / sizeof *inside; i++)
    order[n++] = inside[i];
  if (waste(&s->stages[stage]) > MOST_WASTE ||
      !tt_reorder(s, stage, n, order) || !bind_rest(s, stage, rest, nrest))
    return false;
  int block = bind_blocks(s, stage, &sides[0], &sides[1], w->row_group);
  return block >= 0 && tt_bind(s, stage, sides[0].warp, TT_THREAD_Z) &&
         tt_bind(s, stage, sides[1].warp, TT_THREAD_Y) &&
         tt_cache_write(s, stage, block) &&
         tt_tensorize(s, stage, sides[0].inner, in) &&
         stage_operands(s, stage, sides, w->stages) &&
         tt_unroll(s, stage, sides[2].tile) &&
         tt_unroll(s, stage, sides[0].tile) &&
         tt_unroll(s, stage, sides[1].tile);
}

enum tt_gpu_step
tt_gpu_tensor(struct tt_schedule *s, int stage, const struct tt_intrin *in,
              const struct tt_gpu_warps *w)
{
  const struct tt_stage *st = s->stages[stage].stage;
  if (in->threads == 1 || in->nspatial != 2 || in->nreduce != 1 ||
      st->red != TT_RED_SUM || st->nspatial < 2 || st->nreduce != 1)
    return TT_GPU_NONE;
  struct tt_stage_schedule old = s->stages[stage];
  int ncalls = s->ncalls, nbound = s->nbound;
  for (int row = st->nspatial - 2; row >= 0; row--) {
    if (tile_stage(s, stage, row, in, w))
      return TT_GPU_DONE;
    s->stages[stage] = old;
    s->ncalls = ncalls;
    s->nbound = nbound;
  }
  return TT_GPU_NONE;
}

/* ---- which instructions -------------------------------------------------- */

bool
tt_gpu_has_intrin(const struct tt_gpu_limits *g, const struct tt_intrin *in)
{
  if (g->vectors)
    return false;
  return g->arch ? g->arch * 10 >= tt_intrin_arch(in) : !in->built_in;
}

static const struct tt_var *
axis_of(const struct tt_stage_schedule *ss, int loop)
{
  while (ss->loops[loop].node != TT_AXIS)
    loop = ss->loops[loop].parent;
  return ss->loops[loop].axis;
}

/* Do neighbours in an operand lie side by side in the tensor it is copied
 * from, for all of them? */
static bool
lies_along(const struct tt_stage_schedule *ss)
{
  const struct tt_intrin *in = ss->intrin;
  const struct tt_expr *found[TT_MAX_OPERANDS];
  if (!tt_intrin_matches(in, ss->value, any_place, NULL, found))
    return false;
  for (int o = 0; o < in->noperands; o++) {
    const struct tt_operand_of *op = &in->operands[o];
    int last = op->tensor->ndim - 1;
    if (o != in->result && last >= 0 &&
        !tt_expr_uses_var(found[o]->args[found[o]->nargs - 1],
                          axis_of(ss, ss->tile[op->index[last]])))
      return false;
  }
  return true;
}

struct tt_schedule *
tt_gpu_trial(struct tt_arena *arena, const struct tt_schedule *s)
{
  struct tt_schedule *t = TT_NEW(arena, struct tt_schedule);
  *t = *s;
  t->arena = arena;
  t->stages =
      tt_arena_dup(arena, s->stages, (size_t)s->nstages * sizeof *s->stages);
  t->calls = NULL;
  t->ncalls = t->capcalls = 0;
  return t;
}

int
tt_gpu_tensor_intrins(struct tt_arena *arena, const struct tt_schedule *s,
                      int stage, const struct tt_gpu_limits *g, int max,
                      const struct tt_intrin **out)
{
  static const struct tt_gpu_warps least = {1, 1, 1, 1, 1, 1, 1};
  const struct tt_program *p = s->program;
  bool along = false;
  int n = 0;
  for (int i = 0; i < p->nintrins; i++) {
    const struct tt_intrin *in = p->intrins[i];
    struct tt_schedule *trial = tt_gpu_trial(arena, s);
    if (!tt_gpu_has_intrin(g, in) ||
        tt_gpu_tensor(trial, stage, in, &least) != TT_GPU_DONE)
      continue;
    bool a = lies_along(&trial->stages[stage]);
    if (a && !along)
      n = 0;
    if ((a || !along) && n < max)
      out[n++] = in;
    along |= a;
  }
  return n;
}

/* ---- the tile ------------------------------------------------------------ */

/* Groups of threads along either side, and rows and columns of each. */
static const struct {
  int row_warps, col_warps, rows, cols;
} tiles[] = {
    {2, 4, 64, 64}, {2, 2, 64, 64}, {2, 4, 32, 32}, {4, 2, 32, 32},
    {2, 2, 32, 32}, {2, 2, 16, 32}, {2, 2, 32, 16}, {2, 2, 16, 16},
    {1, 2, 16, 16}, {2, 1, 16, 16}, {1, 1, 16, 16},
};

/* Of a step of the instruction, for threads that wait for each other. */
#define WAIT_COST 0.125

/* What it costs: a larger tile reads less, and gives fewer blocks. */
static double
tile_cost(int64_t rows, int64_t cols, double points,
          const struct tt_gpu_limits *g)
{
  return tt_gpu_idle(g, points / ((double)rows * (double)cols)) *
         (1 + SIDE_COST / (double)rows + SIDE_COST / (double)cols);
}

/* Rows of blocks that run side by side: some, where there are many more blocks
 * than run at once. */
static int
choose_group(struct tt_arena *arena, const struct tt_schedule *s, int stage,
             const struct tt_intrin *in, const struct tt_gpu_limits *g,
             struct tt_gpu_warps w, double points)
{
  double tile = (double)in->spatial[0]->extent * w.rows * w.row_warps *
                (double)in->spatial[1]->extent * w.cols * w.col_warps;
  for (w.row_group = MOST_GROUP; w.row_group > 1; w.row_group /= 2)
    if (points >= 2 * (double)g->units * tile &&
        tt_gpu_tensor(tt_gpu_trial(arena, s), stage, in, &w) == TT_GPU_DONE)
      break;
  return w.row_group;
}

bool
tt_gpu_choose_warps(struct tt_arena *arena, const struct tt_schedule *s,
                    int stage, const struct tt_intrin *in,
                    const struct tt_gpu_limits *g, struct tt_gpu_warps *out)
{
  const struct tt_stage *st = s->stages[stage].stage;
  int64_t ri = in->spatial[0]->extent, ci = in->spatial[1]->extent;
  double points = 1, least = 0;
  for (int i = 0; i < st->nspatial; i++)
    points *= (double)st->spatial[i]->extent;
  /* (Fewer copies, then fewer steps, where there is no room for more.) */
  int most = g->arch && g->arch < ASYNCHRONOUS ? AHEAD - 1 : AHEAD;
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
    for (int n = STEPS * most; n > 0; n--) {
      struct tt_gpu_warps w = {
          .rows = tiles[i].rows > ri ? tiles[i].rows / (int)ri : 1,
          .cols = tiles[i].cols > ci ? tiles[i].cols / (int)ci : 1,
          .row_warps = tiles[i].row_warps,
          .col_warps = tiles[i].col_warps,
          .steps = (n + most - 1) / most,
          .stages = (n - 1) % most + 1,
          .row_group = 1};
      struct tt_schedule *trial = tt_gpu_trial(arena, s);
      double cost = tile_cost(ri * w.rows * w.row_warps,
                              ci * w.cols * w.col_warps, points, g) *
                    (1 + WAIT_COST / w.steps);
      if ((least > 0 && cost >= least) || !tt_gpu_tensor_fits(in, &w, g) ||
          tt_gpu_tensor(trial, stage, in, &w) != TT_GPU_DONE)
        continue;
      cost *= waste(&trial->stages[stage]);
      if (least > 0 && cost >= least)
        continue;
      *out = w;
      least = cost;
    }
  if (least > 0)
    out->row_group = choose_group(arena, s, stage, in, g, *out, points);
  return least > 0;
}

/* (Results are spread over the threads that have them.) */
bool
tt_gpu_tensor_fits(const struct tt_intrin *in, const struct tt_gpu_warps *w,
                   const struct tt_gpu_limits *g)
{
  int64_t i = in->spatial[0]->extent, j = in->spatial[1]->extent, bytes = 1;
  for (int o = 0; o < in->noperands; o++) {
    int64_t b = tt_dtype_bytes(in->operands[o].tensor->dtype);
    bytes = o != in->result && b > bytes ? b : bytes;
  }
  int64_t each = w->rows * w->cols * i * j / in->threads;
  int64_t threads = (int64_t)w->row_warps * w->col_warps * in->threads;
  int64_t lines = w->row_warps * w->rows * i + w->col_warps * w->cols * j;
  int64_t row = w->steps * in->reduce[0]->extent * bytes;
  int64_t shared =
      w->stages * lines * (row + (asks_for_places(in) ? 0 : MOVED));
  shared += /* a tile of each on its way to a stage that finishes it */
      w->row_warps * w->col_warps * i * j *
      tt_dtype_bytes(in->operands[in->result].tensor->dtype);
  return each + 2 * ADDRESSES <= g->registers && threads <= g->threads &&
         threads * (each + ADDRESSES) <= REGISTERS && shared <= g->shared;
}
