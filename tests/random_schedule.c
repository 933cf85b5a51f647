/* Random legal schedules for tests. */
#include "config.h"

#include "tests/random_schedule.h"

#include <string.h>

struct dice {
  uint64_t state;
  int names;   /* counter for fresh names */
  bool pads;   /* tails are padded, too */
  bool stages; /* caches are for a GPU's shared memory */
  struct tt_schedule *s;
};

static uint64_t
roll(struct dice *d)
{
  d->state ^= d->state << 13;
  d->state ^= d->state >> 7;
  d->state ^= d->state << 17;
  return d->state;
}

static int
below(struct dice *d, int n)
{
  return n > 0 ? (int)((roll(d) >> 11) % (uint64_t)n) : 0;
}

static const char *
fresh(struct dice *d, const char *prefix)
{
  return tt_arena_printf(d->s->arena, "%s%d", prefix, d->names++);
}

static int
leaf(struct dice *d, int stage)
{
  const struct tt_stage_schedule *ss = &d->s->stages[stage];
  return ss->norder ? ss->order[below(d, ss->norder)] : -1;
}

static int
place(struct dice *d, int stage)
{
  return below(d, 6) == 0 ? TT_OUTSIDE : leaf(d, stage);
}

static void
try_split(struct dice *d, int stage)
{
  int l = leaf(d, stage);
  if (l < 0)
    return;
  enum tt_tail tails[] = {TT_TAIL_PEEL, TT_TAIL_PEEL, TT_TAIL_GUARD,
                          TT_TAIL_SHIFT};
  /* (Only where they were not, for the sake of seeds that once failed.) */
  if (d->pads)
    tails[0] = tails[2] = TT_TAIL_PAD;
  int64_t e = d->s->stages[stage].loops[l].extent;
  tt_split(d->s, stage, l, 1 + below(d, (int)(e < 16 ? e + 2 : 16)),
           fresh(d, "s"), tails[below(d, 4)]);
}

static void
try_fuse(struct dice *d, int stage)
{
  const struct tt_stage_schedule *ss = &d->s->stages[stage];
  if (ss->norder < 2)
    return;
  int i = below(d, ss->norder - 1);
  tt_fuse(d->s, stage, ss->order[i], ss->order[i + 1], fresh(d, "f"));
}

static void
try_reorder(struct dice *d, int stage)
{
  const struct tt_stage_schedule *ss = &d->s->stages[stage];
  int loops[TT_MAX_LOOPS], n = ss->norder;
  if (n <= 0)
    return;
  memcpy(loops, ss->order, (size_t)n * sizeof *loops);
  for (int i = n - 1; i > 0; i--) {
    int j = below(d, i + 1), t = loops[i];
    loops[i] = loops[j];
    loops[j] = t;
  }
  tt_reorder(d->s, stage, 1 + below(d, n), loops);
}

struct used {
  const struct tt_tensor *tensors[64];
  int n;
};

static void
note_tensor(void *ctx, const struct tt_expr *e)
{
  struct used *u = ctx;
  if (e->kind == TT_LOAD && u->n < 64)
    u->tensors[u->n++] = e->tensor;
}

static void
try_staging(struct dice *d, int stage)
{
  if (!d->stages)
    return;
  const struct tt_staging g = {.pad = below(d, 3) ? 0 : below(d, 9),
                               .swizzle = below(d, 2) ? 0 : 1 << below(d, 5),
                               .stages = below(d, 5)};
  tt_cache_staging(d->s, stage, &g); /* or it stays plain */
}

static void
try_cache_read(struct dice *d, int stage)
{
  const struct tt_stage_schedule *ss = &d->s->stages[stage];
  struct used u = {.n = 0};
  tt_expr_visit(ss->value, note_tensor, &u);
  if (!u.n)
    return;
  const struct tt_tensor *t = u.tensors[below(d, u.n)];
  int at = place(d, stage), layout[TT_MAX_DIMS], n = 0;
  bool inside = at == TT_OUTSIDE;
  if (below(d, 3))
    for (int i = 0; i < ss->norder; i++) {
      if (inside && n < TT_MAX_DIMS && below(d, 5))
        layout[n++] = ss->order[i];
      inside |= ss->order[i] == at;
    }
  for (int i = n - 1; i > 0; i--) {
    int j = below(d, i + 1), x = layout[i];
    layout[i] = layout[j];
    layout[j] = x;
  }
  static const int lanes[] = {0, 0, 4, 8};
  if (tt_cache_read(d->s, stage, t, at, n, layout, lanes[below(d, 4)],
                    fresh(d, "cache")))
    try_staging(d, stage);
}

static void
try_prefetch(struct dice *d, int stage)
{
  const struct tt_stage_schedule *ss = &d->s->stages[stage];
  int l = leaf(d, stage), what = below(d, 3);
  struct used u = {.n = 0};
  tt_expr_visit(ss->value, note_tensor, &u);
  const char *name = ss->stage->out->name;
  if (what == 1 && u.n)
    name = u.tensors[below(d, u.n)]->name;
  if (what == 2 && ss->ncaches)
    name = ss->caches[below(d, ss->ncaches)].name;
  if (l >= 0)
    tt_prefetch_at(d->s, stage, name, l, below(d, 4));
}

static void
shuffled(struct dice *d, int n, int *dims)
{
  for (int i = 0; i < n; i++)
    dims[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int j = below(d, i + 1), x = dims[i];
    dims[i] = dims[j];
    dims[j] = x;
  }
}

static void
try_layout(struct dice *d, int stage)
{
  int dims[TT_MAX_DIMS], n = d->s->stages[stage].stage->out->ndim;
  shuffled(d, n, dims);
  tt_layout(d->s, stage, n, dims);
}

static void
try_cache_padded(struct dice *d, int stage)
{
  struct used u = {.n = 0};
  tt_expr_visit(d->s->stages[stage].value, note_tensor, &u);
  if (!u.n)
    return;
  const struct tt_tensor *t = u.tensors[below(d, u.n)];
  int dims[TT_MAX_DIMS], n = below(d, 3) ? t->ndim : 0;
  static const int lanes[] = {0, 4, 8};
  shuffled(d, n, dims);
  bool padded = below(d, 2);
  if (padded ? tt_cache_padded(d->s, stage, t, place(d, stage), n, dims,
                               lanes[below(d, 3)], fresh(d, "pad"))
             : tt_cache_dims(d->s, stage, t, place(d, stage), n, dims,
                             lanes[below(d, 3)], fresh(d, "copy")))
    try_staging(d, stage);
}

static void
try_compute_at(struct dice *d, int stage)
{
  int n = d->s->nstages;
  if (stage + 1 >= n)
    return;
  int consumer = stage + 1 + below(d, n - stage - 1);
  tt_compute_at(d->s, stage, consumer, place(d, consumer));
}

/* (Early on, or the stage has a schedule already.) */
static void
try_rfactor(struct dice *d)
{
  struct tt_schedule *s = d->s;
  int stage = below(d, s->nstages);
  const struct tt_stage *st = s->stages[stage].stage;
  if (!st->nreduce)
    return;
  int loop = st->nspatial + below(d, st->nreduce);
  int64_t e = s->stages[stage].loops[loop].extent;
  tt_rfactor(s, stage, loop, 1 + below(d, e < 9 ? (int)e + 1 : 9),
             fresh(d, "ri"), fresh(d, "partial"));
}

/* An elementwise stage after a reduction, which may need its accumulators. */
static void
try_finish(struct dice *d)
{
  struct tt_schedule *s = d->s;
  for (int i = 1; i < s->nstages; i++)
    for (int j = 0; j < i; j++) {
      if (s->stages[i].stage->red != TT_RED_NONE ||
          s->stages[j].stage->red == TT_RED_NONE ||
          !tt_expr_uses_tensor(s->stages[i].value, s->stages[j].stage->out))
        continue;
      if (s->stages[j].cache_write == TT_NO_CACHE)
        tt_cache_write(s, j, place(d, j));
      tt_finish(s, i, j);
    }
}

/* A plain loop for an index of an intrin, of as many iterations, split off a
 * longer one; -1: there is none. */
static int
loop_for(struct dice *d, int stage, const struct tt_var *index, bool reduce,
         const bool *taken)
{
  const struct tt_stage_schedule *ss = &d->s->stages[stage];
  enum tt_tail tails[] = {TT_TAIL_PEEL, TT_TAIL_PEEL, TT_TAIL_PEEL,
                          TT_TAIL_SHIFT};
  int from = below(d, ss->norder);
  for (int i = 0; i < ss->norder; i++) {
    int h = ss->order[(from + i) % ss->norder];
    const struct tt_loop *l = &ss->loops[h];
    if (taken[h] || l->reduce != reduce || l->kind != TT_SERIAL ||
        l->extent < index->extent)
      continue;
    return l->extent == index->extent
               ? h
               : tt_split(d->s, stage, h, index->extent, fresh(d, "t"),
                          tails[below(d, 4)]);
  }
  return -1;
}

/* Other loops as they stand, or those of the reduction last; then the tile. */
static bool
tile_innermost(struct dice *d, int stage, int n, const int *tile,
               const bool *taken)
{
  const struct tt_stage_schedule *ss = &d->s->stages[stage];
  int order[TT_MAX_LOOPS], k = 0;
  bool sorted = below(d, 4) > 0;
  for (int pass = 0; pass < (sorted ? 2 : 1); pass++)
    for (int i = 0; i < ss->norder; i++)
      if (!taken[ss->order[i]] &&
          (!sorted || ss->loops[ss->order[i]].reduce == pass))
        order[k++] = ss->order[i];
  memcpy(order + k, tile, (size_t)n * sizeof *tile);
  return tt_reorder(d->s, stage, k + n, order);
}

/* Copies of what the tile reads, as it lies there: made outside of it. */
static void
copy_operands(struct dice *d, int stage, int n, const int *tile)
{
  const struct tt_stage_schedule *ss = &d->s->stages[stage];
  struct used u = {.n = 0};
  int at = ss->norder > n ? ss->order[below(d, ss->norder - n)] : TT_OUTSIDE;
  tt_expr_visit(ss->value, note_tensor, &u);
  for (int i = 0; i < u.n; i++) {
    bool done = false;
    for (int set = 1; set < 1 << n && !done; set++) {
      int layout[TT_MAX_DIMS], k = 0, from = at == TT_OUTSIDE ? 0 : 1;
      while (at != TT_OUTSIDE && ss->order[from - 1] != at)
        from++;
      for (int j = from; j < ss->norder - n && k < TT_MAX_DIMS - n; j++)
        if (below(d, 2))
          layout[k++] = ss->order[j];
      for (int j = 0; j < n; j++)
        if (set >> j & 1)
          layout[k++] = tile[j];
      done = tt_cache_read(d->s, stage, u.tensors[i], at, k, layout, 0,
                           fresh(d, "op"));
      if (done)
        try_staging(d, stage);
    }
  }
}

static void
try_tensorize(struct dice *d)
{
  struct tt_schedule *s = d->s;
  if (!s->program->nintrins)
    return;
  int stage = below(d, s->nstages), tile[TT_MAX_LOOPS], n = 0;
  const struct tt_intrin *in =
      s->program->intrins[below(d, s->program->nintrins)];
  const struct tt_stage_schedule *ss = &s->stages[stage];
  bool taken[TT_MAX_LOOPS] = {false};
  for (; n < in->nspatial + in->nreduce; n++) {
    bool reduce = n >= in->nspatial;
    tile[n] = loop_for(d, stage,
                       reduce ? in->reduce[n - in->nspatial] : in->spatial[n],
                       reduce, taken);
    if (tile[n] < 0)
      return;
    taken[tile[n]] = true;
  }
  if (!tile_innermost(d, stage, n, tile, taken))
    return;
  int first = 0;
  while (first < ss->norder - n && !ss->loops[ss->order[first]].reduce)
    first++;
  if (in->threads > 1 && first > 0)
    tt_bind(s, stage, ss->order[below(d, first)], TT_THREAD_Y);
  if (in->red == TT_RED_SUM && ss->cache_write == TT_NO_CACHE && below(d, 8))
    tt_cache_write(s, stage, first ? ss->order[first - 1] : TT_OUTSIDE);
  if (tt_tensorize(s, stage, tile[0], in) && below(d, 3))
    copy_operands(d, stage, n, ss->tile);
}

static void
try_one(struct dice *d)
{
  struct tt_schedule *s = d->s;
  int stage = below(d, s->nstages), l = leaf(d, stage);
  static const int lanes[] = {2, 4, 8, 16};
  switch (below(d, 22)) {
  case 0:
  case 1:
  case 2:
  case 3:
    try_split(d, stage);
    break;
  case 4:
    try_fuse(d, stage);
    break;
  case 5:
  case 6:
  case 7:
    try_reorder(d, stage);
    break;
  case 8:
    if (l >= 0 && s->stages[stage].loops[l].extent <= 8)
      tt_unroll(s, stage, l);
    break;
  case 9:
  case 10:
    if (l >= 0)
      tt_vectorize(s, stage, l, lanes[below(d, 4)]);
    break;
  case 11:
    if (l >= 0)
      tt_parallel(s, stage, l);
    break;
  case 12:
    tt_inline(s, stage);
    break;
  case 13:
  case 14:
    try_compute_at(d, stage);
    break;
  case 15:
    tt_cache_write(s, stage, place(d, stage));
    break;
  case 16:
    try_cache_read(d, stage);
    break;
  case 17:
    if (below(d, 4) == 0)
      tt_compute_root(s, stage);
    break;
  case 18:
  case 19:
    if (l >= 0)
      tt_shrink(s, stage, l);
    break;
  case 20:
    try_layout(d, stage);
    break;
  case 21:
    try_cache_padded(d, stage);
    break;
  }
}

static void
try_bind(struct dice *d)
{
  int stage = below(d, d->s->nstages), l = leaf(d, stage);
  int kind = TT_BLOCK_X + below(d, 6);
  const struct tt_stage_schedule *ss = &d->s->stages[stage];
  /* (At random few block loops would stand outermost.) */
  if (tt_is_block((enum tt_for_kind)kind) && ss->norder)
    l = ss->order[below(d, ss->norder > 1 ? 2 : 1)];
  if (l >= 0)
    tt_bind(d->s, stage, l, (enum tt_for_kind)kind);
}

static void
try_vthread(struct dice *d)
{
  int stage = below(d, d->s->nstages), l = leaf(d, stage);
  if (l >= 0 && d->s->stages[stage].loops[l].extent <= 8)
    tt_vthread(d->s, stage, l);
}

struct tt_schedule *
tt_random_schedule(struct tt_arena *arena, const struct tt_program *program,
                   uint64_t seed, int tries, bool strict_fp)
{
  struct dice d = {.state = seed * 0x9E3779B97F4A7C15u + 1};
  d.s = tt_schedule_new(arena, program, strict_fp);
  d.pads = seed % 11 == 3 || seed % 11 == 7;
  d.stages = seed % 7 == 5 && seed % 3 == 1;
  for (int i = 0; i < 8; i++)
    roll(&d);
  /* (The others stay what they were, for the sake of seeds that once
   * failed.) */
  for (uint64_t i = seed % 9 == 0 ? 3 : seed % 3 == 0; i > 0; i--)
    try_rfactor(&d);
  bool finishes = seed % 4 == 3;
  for (int i = 0; i < tries; i++) {
    if (finishes && i % 4 == 3)
      try_finish(&d);
    for (int t = i == 0 ? 8 : i % 4 == 2; t > 0; t--)
      try_tensorize(&d);
    try_one(&d);
    if (seed % 7 == 5)
      try_bind(&d);
    if (seed % 21 == 12)
      try_vthread(&d);
  }
  for (int i = 0; i < d.s->nstages && seed % 2; i++)
    if (d.s->stages[i].place != TT_FINISH && leaf(&d, i) >= 0)
      tt_reciprocal(d.s, i, leaf(&d, i));
  for (uint64_t i = seed % 5 == 0 ? 4 : 0; i > 0; i--)
    try_prefetch(&d, below(&d, d.s->nstages));
  d.s->error = NULL;
  return d.s;
}

struct tt_schedule *
tt_random_gpu_point(struct tt_arena *arena, const struct tt_program *program,
                    uint64_t seed, bool opencl)
{
  struct dice d = {.state = 88172645463325252ull ^ (seed * 2654435761u)};
  bool cpu = (seed + seed / 4) % 3 > 0;
  const struct tt_target_model target = {
      .registers = 32,
      .gpu = {.cpu = cpu,
              .vectors = cpu || below(&d, 2) || opencl,
              .lanes = cpu ? 4 << below(&d, 3) : 1,
              .units = 4,
              .warp = 32,
              .threads = 256,
              .items = {256, 256, 64},
              .shared = 16384,
              .scratchpad = !cpu,
              .registers = 255}};
  struct tt_space *space = tt_gpu_space_new(arena, program, &target, false);
  int *config = TT_ARRAY(arena, int, (size_t)space->nknobs + 1);
  struct tt_schedule *s = NULL;
  tt_gpu_space_default(space, config);
  for (int t = 0; t < 20 && !s; t++) {
    for (int k = 0; k < space->nknobs; k++)
      if (t > 0 || below(&d, 2))
        config[k] = below(&d, space->knobs[k].n);
    s = tt_gpu_space_schedule(arena, space, config);
  }
  return s;
}
