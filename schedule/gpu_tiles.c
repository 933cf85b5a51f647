/* Tiles for a GPU: reductions whose operands are used again by many results,
 * matrix products and convolutions by structure.
 *
 * The axes of the result fall into rows, columns and the rest: some operands
 * depend on the rows alone, others on the columns alone, and the rest makes
 * more blocks.  Rows, columns and the reduction are one loop each.  A block
 * computes a tile of rows and columns; what it reads for some steps of the
 * reduction lies in shared memory, and each thread keeps a part of the tile in
 * registers.
 *
 * Where there are too few tiles for a GPU, the reduction is cut into parts,
 * too: blocks compute sums of parts, which lie in memory, and a second kernel
 * sums these.
 */
#include "config.h"

#include "schedule/state.h"

#include <math.h>

enum {
  MAX_LOADS = 8,
  MAX_AXES = TT_MAX_DIMS,
  SIDE = 16,        /* threads of a block in either direction */
  LEAST_STEPS = 8,  /* of the reduction, and rows and columns */
  LEAST_PART = 256, /* steps of a part, by default */
  MAX_PARTS = 32,
  PART_COST = 50, /* steps that take as long as a sum that is kept in memory */
  LANES = 4,      /* that a thread copies at once */
  ADDRESSES = 24, /* of a thread's registers are none of its tile */
  REGISTERS = 1 << 16 /* that the threads of a processor share */
};

struct operand {
  const struct tt_tensor *tensor;
  unsigned spatial; /* axes that its place depends on, a bit each */
  unsigned reduce;
  bool turned; /* its neighbours in memory are steps of the reduction */
};

struct operands {
  const struct tt_stage *stage;
  int n;
  bool ok;
  struct operand items[MAX_LOADS];
};

static void
note_load(void *ctx, const struct tt_expr *e)
{
  struct operands *o = ctx;
  struct operand x = {.tensor = e->tensor};
  if (e->kind != TT_LOAD)
    return;
  for (int d = 0; d < e->nargs; d++) {
    for (int i = 0; i < o->stage->nspatial; i++)
      if (tt_expr_uses_var(e->args[d], o->stage->spatial[i]))
        x.spatial |= 1u << i;
    for (int i = 0; i < o->stage->nreduce; i++)
      if (tt_expr_uses_var(e->args[d], o->stage->reduce[i])) {
        x.reduce |= 1u << i;
        x.turned = d == e->nargs - 1;
      }
  }
  for (int i = 0; i < o->n; i++)
    if (o->items[i].tensor == e->tensor) {
      o->ok &= o->items[i].spatial == x.spatial;
      return;
    }
  if (o->n == MAX_LOADS)
    o->ok = false;
  else
    o->items[o->n++] = x;
}

/* Which axes are rows, columns, and neither. */
struct sides {
  unsigned rows, cols;
  int64_t nrows, ncols, rest, steps;
};

static unsigned
readers(const struct operands *o, int axis)
{
  unsigned r = 0;
  for (int i = 0; i < o->n; i++)
    if (o->items[i].spatial >> axis & 1)
      r |= 1u << i;
  return r;
}

static int64_t
product(const struct tt_var *const *axes, int n, unsigned which)
{
  int64_t p = 1;
  for (int i = 0; i < n; i++)
    if (which >> i & 1)
      p = p > INT32_MAX / axes[i]->extent ? INT32_MAX : p * axes[i]->extent;
  return p;
}

/* Columns are what is read as the last axis is; rows the largest group of axes
 * on which other operands depend. */
static bool
find_sides(const struct operands *o, struct sides *s)
{
  const struct tt_stage *st = o->stage;
  int last = st->nspatial - 1;
  *s = (struct sides){.nrows = 0};
  if (!o->ok || st->nspatial < 2)
    return false;
  unsigned col = readers(o, last), all = (1u << st->nspatial) - 1;
  for (int i = 0; i < st->nspatial; i++) {
    unsigned r = readers(o, i), group = 0;
    if (r == col)
      s->cols |= 1u << i;
    if (!r || r & col)
      continue;
    for (int j = 0; j < st->nspatial; j++)
      if (readers(o, j) == r)
        group |= 1u << j;
    int64_t n = product(st->spatial, st->nspatial, group);
    if (n > s->nrows) {
      s->rows = group;
      s->nrows = n;
    }
  }
  s->ncols = product(st->spatial, st->nspatial, s->cols);
  s->rest = product(st->spatial, st->nspatial, all & ~(s->rows | s->cols));
  s->steps = product(st->reduce, st->nreduce, (1u << st->nreduce) - 1);
  return col && s->rows && s->nrows >= LEAST_STEPS && s->ncols >= LEAST_STEPS &&
         s->steps >= LEAST_STEPS;
}

/* ---- the tile ----------------------------------------------------------- */

/* Threads that copy an operand that lies across the reduction write rows LANES
 * apart: the padding, or the groups that change places, send them to different
 * banks. */
#define TILE(rows, cols, row_run, col_run, side, steps)                        \
  {                                                                            \
    rows, cols, row_run, col_run, side, side, steps, 1, {true, true},          \
        {.pad = steps == 8 ? LANES : 0,                                        \
         .swizzle = steps == 8 ? 0 : 8,                                        \
         .stages = 2},                                                         \
        NULL                                                                   \
  }
static const struct tt_gpu_tile tiles[] = {
    TILE(128, 128, 4, 4, SIDE, 8),
    TILE(64, 128, 4, 4, SIDE, 8),
    TILE(128, 64, 4, 4, SIDE, 8),
    TILE(64, 64, 4, 4, SIDE, 16),
    TILE(32, 64, 2, 4, SIDE, 16),
    TILE(32, 32, 2, 2, SIDE, 16),
    /* Where blocks have fewer threads. */
    TILE(64, 64, 4, 4, SIDE / 2, 8),
    TILE(32, 32, 4, 4, SIDE / 2, 16),
};

static int64_t
rounds(int64_t n, int64_t by)
{
  return (n + by - 1) / by;
}

/* The axis that is cut: the longest. */
static int
cut_axis(const struct tt_stage *st)
{
  int best = 0;
  for (int i = 1; i < st->nreduce; i++)
    if (st->reduce[i]->extent > st->reduce[best]->extent)
      best = i;
  return best;
}

double
tt_gpu_idle(const struct tt_gpu_limits *g, double blocks)
{
  double units = (double)g->units;
  return ceil(blocks / units) * units / blocks;
}

/* Sums, a row and a column of operands, and with two stages what is on its way
 * are in registers. */
bool
tt_gpu_tile_fits(const struct tt_gpu_tile *t, const struct tt_gpu_limits *g)
{
  int64_t threads = (int64_t)t->row_threads * t->col_threads;
  int64_t each = (int64_t)t->rows * t->cols / threads;
  int64_t pad = t->staging.pad;
  int64_t tile = (int64_t)t->steps * ((t->shared[0] ? t->rows + pad : 0) +
                                      (t->shared[1] ? t->cols + pad : 0));
  if (t->staging.stages == 2)
    each += (tile + threads - 1) / threads;
  return threads <= g->threads && t->col_threads <= g->items[0] &&
         t->row_threads <= g->items[1] &&
         each + t->rows / t->row_threads + t->cols / t->col_threads +
                 ADDRESSES <=
             g->registers &&
         threads * (each + ADDRESSES) <= REGISTERS &&
         4 * tile * t->staging.stages <= g->shared;
}

/* What a tile costs, with the reduction in so many parts. */
static double
tile_cost(const struct sides *s, const struct tt_gpu_tile *t,
          const struct tt_gpu_limits *g, int parts)
{
  int64_t r = rounds(s->nrows, t->rows), c = rounds(s->ncols, t->cols);
  double waste = (double)(r * t->rows) * (double)(c * t->cols) /
                 ((double)s->nrows * (double)s->ncols);
  double blocks = (double)r * (double)c * (double)s->rest;
  double few = (double)g->units / blocks;
  double cost = tt_gpu_idle(g, blocks * parts) * waste;
  if (parts > 1) /* those of a half are worth no second kernel */
    cost *= few < 2 ? 2 : 1 + (double)PART_COST * parts / (double)s->steps;
  /* (A larger tile reads less.) */
  return cost * (1 + 8.0 / t->rows + 8.0 / t->cols);
}

/* The largest tile that keeps the processors busy and wastes little on what
 * stands over.  false: none fits. */
static bool
choose_tile(const struct tt_stage *st, const struct sides *s,
            const struct tt_gpu_limits *g, int most_parts,
            struct tt_gpu_tile *best)
{
  int64_t n = st->reduce[cut_axis(st)]->extent;
  double least = INFINITY;
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
    for (int parts = 1; parts <= most_parts; parts++) {
      if ((parts > 1 && (n % parts || s->steps / parts < LEAST_PART)) ||
          !tt_gpu_tile_fits(&tiles[i], g))
        continue;
      double cost = tile_cost(s, &tiles[i], g, parts);
      if (cost < least) {
        *best = tiles[i];
        best->parts = parts;
        least = cost;
      }
    }
  return least < INFINITY;
}

/* ---- loops --------------------------------------------------------------- */

/* The axes of a group, which stand side by side in the order, as one loop. */
static int
fuse_group(struct tt_schedule *s, int stage, int first, int n)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int at = 0, loop;
  while (ss->order[at] != first)
    at++;
  loop = first;
  for (int i = 1; i < n && loop >= 0; i++) {
    int next = ss->order[at + 1];
    loop = tt_fuse(s, stage, loop, next,
                   tt_arena_printf(s->arena, "%s_%s", ss->loops[loop].name,
                                   ss->loops[next].name));
  }
  return loop;
}

struct group {
  int first, n; /* handle of the first axis; how many */
  int loop;     /* as one */
};

/* The rest, rows, columns and the reduction, one loop each. */
static bool
group_loops(struct tt_schedule *s, int stage, const struct sides *sides,
            struct group *g)
{
  const struct tt_stage *st = s->stages[stage].stage;
  unsigned all = (1u << st->nspatial) - 1;
  unsigned set[3] = {all & ~(sides->rows | sides->cols), sides->rows,
                     sides->cols};
  int order[TT_MAX_LOOPS], n = 0;
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < st->nspatial; i++)
      if (set[k] >> i & 1) {
        if (!g[k].n++)
          g[k].first = i;
        order[n++] = i;
      }
  g[3] = (struct group){st->nspatial, st->nreduce, 0};
  if (!tt_reorder(s, stage, n, order))
    return false;
  for (int k = 0; k < 4; k++) {
    g[k].loop = g[k].n ? fuse_group(s, stage, g[k].first, g[k].n) : -1;
    if (g[k].n && g[k].loop < 0)
      return false;
  }
  return true;
}

/* A side of the tile: which block (the loop itself), which virtual thread,
 * which thread, which of the results that lie side by side. */
struct side {
  int loop, vthread, thread, run;
};

static bool
split_side(struct tt_schedule *s, int stage, int loop, int size, int threads,
           int run, struct side *out)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const char *stem = ss->loops[loop].name;
  static const char *const suffix[] = {"v", "t", "r"};
  int64_t factors[] = {size, (int64_t)threads * run, run};
  int at[3];
  out->loop = loop;
  for (int i = 0; i < 3; i++) {
    const char *name = tt_arena_printf(s->arena, "%s_%s", stem, suffix[i]);
    loop = tt_split(s, stage, loop, factors[i], name,
                    i ? TT_TAIL_PEEL : TT_TAIL_PAD);
    if (loop < 0)
      return false;
    at[i] = loop;
  }
  /* (The outer half of a split keeps the name, and has a new handle.) */
  out->loop = ss->loops[at[0]].other;
  out->vthread = ss->loops[at[1]].other;
  out->thread = ss->loops[at[2]].other;
  out->run = at[2];
  return true;
}

static bool
stage_operands(struct tt_schedule *s, int stage, const struct operands *o,
               const struct sides *sides, const struct tt_gpu_tile *t,
               const struct side *row, const struct side *col, int outer,
               int inner, int dot)
{
  for (int i = 0; i < o->n; i++) {
    const struct operand *x = &o->items[i];
    bool r = x->spatial & sides->rows, c = x->spatial & sides->cols;
    const struct side *side = r ? row : col;
    int layout[] = {inner, side->vthread, side->thread, side->run, dot};
    if (r == c || !x->reduce || !t->shared[r ? 0 : 1])
      continue;
    struct tt_staging staging = t->staging;
    if (!x->turned || t->dot)
      staging.pad = staging.swizzle = 0;
    if (!tt_cache_read(s, stage, x->tensor, outer, t->dot ? 5 : 4, layout,
                       LANES,
                       tt_arena_printf(s->arena, "%s_s", x->tensor->name)) ||
        !tt_cache_staging(s, stage, &staging))
      return false;
  }
  return true;
}

/* The reduction: outside of the copies, inside, and what an instruction does
 * of that. */
static bool
split_steps(struct tt_schedule *s, int stage, int loop,
            const struct sides *sides, const struct tt_gpu_tile *t, int *outer,
            int *inner, int *dot)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const char *stem = ss->loops[loop].name;
  int64_t each = t->dot ? t->dot->reduce[0]->extent : 1;
  int64_t steps =
      t->steps * each < sides->steps ? t->steps * each : sides->steps;
  *inner = tt_split(s, stage, loop, steps,
                    tt_arena_printf(s->arena, "%s_i", stem), TT_TAIL_PEEL);
  if (*inner < 0)
    return false;
  *outer = ss->loops[*inner].other;
  if (!t->dot)
    return true;
  *dot = tt_split(s, stage, *inner, each,
                  tt_arena_printf(s->arena, "%s_d", stem), TT_TAIL_PEEL);
  if (*dot < 0)
    return false;
  *inner = ss->loops[*dot].other;
  return true;
}

static bool
tile_stage(struct tt_schedule *s, int stage, const struct operands *o,
           const struct sides *sides, const struct tt_gpu_tile *t)
{
  struct group g[4] = {{0}};
  struct side row, col;
  if (!group_loops(s, stage, sides, g) ||
      !split_side(s, stage, g[1].loop, t->rows, t->row_threads, t->row_run,
                  &row) ||
      !split_side(s, stage, g[2].loop, t->cols, t->col_threads, t->col_run,
                  &col))
    return false;
  int outer, inner, dot = -1;
  if (!split_steps(s, stage, g[3].loop, sides, t, &outer, &inner, &dot))
    return false;
  int order[] = {row.loop,    col.loop,   outer,      row.vthread,
                 col.vthread, row.thread, col.thread, inner,
                 row.run,     col.run,    dot};
  if (!tt_reorder(s, stage, t->dot ? 11 : 10, order) ||
      (t->dot && !tt_tensorize(s, stage, dot, t->dot)))
    return false;
  if ((g[0].n && !tt_bind(s, stage, g[0].loop, TT_BLOCK_Z)) ||
      !tt_bind(s, stage, row.loop, TT_BLOCK_Y) ||
      !tt_bind(s, stage, col.loop, TT_BLOCK_X) ||
      !tt_vthread(s, stage, col.vthread) ||
      !tt_vthread(s, stage, row.vthread) ||
      !tt_bind(s, stage, row.thread, TT_THREAD_Y) ||
      !tt_bind(s, stage, col.thread, TT_THREAD_X) ||
      !tt_cache_write(s, stage, col.loop) ||
      !stage_operands(s, stage, o, sides, t, &row, &col, outer, inner, dot))
    return false;
  return tt_unroll(s, stage, row.run) &&
         (t->dot ? tt_unroll(s, stage, col.run)
                 : tt_vectorize(s, stage, col.run, LANES));
}

/* ---- parts of the reduction ---------------------------------------------- */

/* The stage of the sums of parts comes in the place of `stage`; the parts are
 * whole, so that copies of operands need no border. */
static bool
cut_reduction(struct tt_schedule *s, int stage, int parts)
{
  const struct tt_stage *st = s->stages[stage].stage;
  int axis = cut_axis(st);
  const struct tt_var *v = st->reduce[axis];
  return v->extent % parts == 0 &&
         tt_rfactor(s, stage, st->nspatial + axis, v->extent / parts,
                    tt_arena_printf(s->arena, "%s_p", v->name),
                    tt_arena_printf(s->arena, "%s_parts", st->out->name)) >= 0;
}

static bool
find_operands(const struct tt_stage_schedule *ss, struct operands *o,
              struct sides *sides)
{
  *o = (struct operands){.stage = ss->stage, .ok = true};
  if (ss->stage->red == TT_RED_NONE)
    return false;
  tt_expr_visit(ss->value, note_load, o);
  if (ss->where)
    tt_expr_visit(ss->where, note_load, o);
  return find_sides(o, sides);
}

bool
tt_gpu_choose_tile(const struct tt_schedule *s, int stage,
                   const struct tt_gpu_limits *g, struct tt_gpu_tile *tile)
{
  const struct tt_stage *st = s->stages[stage].stage;
  struct operands o;
  struct sides sides;
  if (!find_operands(&s->stages[stage], &o, &sides))
    return false;
  bool whole = s->strict_fp && tt_sum_rounds(st);
  return choose_tile(st, &sides, g, whole ? 1 : MAX_PARTS, tile);
}

enum tt_gpu_step
tt_gpu_tile(struct tt_schedule *s, int stage, const struct tt_gpu_tile *tile)
{
  struct operands o;
  struct sides sides;
  if (!find_operands(&s->stages[stage], &o, &sides))
    return TT_GPU_NONE;
  if (tile->parts > 1 && !cut_reduction(s, stage, tile->parts))
    return TT_GPU_REFUSED;
  return find_operands(&s->stages[stage], &o, &sides) &&
                 tile_stage(s, stage, &o, &sides, tile)
             ? TT_GPU_DONE
             : TT_GPU_REFUSED;
}

/* (Where points stand over there are loops, no instructions.) */
static bool
leaves_tails(const struct tt_stage_schedule *ss)
{
  for (int i = 0; i < ss->nloops; i++)
    if (ss->loops[i].node == TT_SPLIT_OUTER &&
        ss->loops[ss->loops[i].parent].extent % ss->loops[i].factor)
      return true;
  return false;
}

const struct tt_intrin *
tt_gpu_dot(const struct tt_schedule *s, int stage,
           const struct tt_gpu_limits *g, const struct tt_gpu_tile *tile)
{
  const struct tt_program *p = s->program;
  for (int i = 0; i < p->nintrins; i++) {
    struct tt_schedule *trial = tt_gpu_trial(s->arena, s);
    struct tt_gpu_tile t = *tile;
    t.dot = p->intrins[i];
    if (t.dot->threads == 1 && t.dot->nspatial == 0 && t.dot->nreduce == 1 &&
        tt_intrin_arch(t.dot) > 0 && /* else it may be a CPU's */
        tt_gpu_has_intrin(g, t.dot) &&
        tt_gpu_tile(trial, stage, &t) == TT_GPU_DONE &&
        !leaves_tails(&trial->stages[stage]))
      return t.dot;
  }
  return NULL;
}
