/* The rows of a schedule that are vectors: numbers about the whole of it with
 * context relations over all loops of all stages, or with the loop context of
 * its dearest stage flattened; or its knobs.
 *
 * Invariant: save for knobs, a row has finite floats whatever the program,
 * and an entry means the same for every program, so that a model may learn
 * from several.  Quantities are taken as sign(x) log2(|x| + 1).
 */
#include "config.h"
#include "tuner/features.h"

#include <math.h>
#include <string.h>

#include "tuner/feature_parts.h"

enum {
  LOOPS = 12, /* innermost loops in the flattened context */
  BUFFERS = TT_BUFFERS,
  LEVELS = 3,       /* caches */
  KINDS = 5,        /* of loops */
  BETAS = 8,        /* thresholds of a context relation */
  RELATED = 4,      /* features related to the memory touched */
  MOST_COPIES = 512 /* of statements, at least */
};

/* ---- the row ----------------------------------------------------------- */

enum global {
  ROOTS,
  INLINED,
  PLACED,
  CACHES,
  PACKED,
  VECTOR_FILLS,
  CACHE_BYTES,
  FILLS,
  FILLS_PER_OP,
  OPS,
  OPS_VECTOR,   /* share of operations in vectorized stages */
  OPS_PARALLEL, /* share in parallel stages */
  RECOMPUTED,   /* operations against those of the program */
  TRAFFIC_ALL,  /* per level */
  M_POINTS = TRAFFIC_ALL + LEVELS, /* the rest: of the dearest stage */
  M_LOOPS,
  M_ADD,
  M_MUL,
  M_DIV,
  M_SPECIAL,
  M_INTEGER,
  M_CHOICE,
  M_OUTER,
  M_ACCUMULATORS, /* elements of the register tile */
  M_TILE_VECTORS,
  M_TILE_LOADS, /* vectors of operands live beside it */
  M_PRESSURE,   /* all of them against the registers */
  M_FITS,
  M_INTENSITY,   /* tile vectors a loaded vector or broadcast */
  M_LANES_USED,  /* of the target's lanes */
  M_VECTOR_TAIL, /* share of points in whole vectors */
  M_CONTIGUOUS,  /* accesses along the vector loop: stride 1 */
  M_BROADCAST,   /* stride 0 */
  M_GATHER,      /* other strides */
  M_UNROLLED,    /* copies of the innermost body */
  M_BODY,        /* operations in it, vectors counted once */
  M_CODE,        /* copies with those of remainders */
  M_INNER_TRIPS, /* of the innermost loop that remains a loop */
  M_TAIL,        /* share of points outside peeled remainders */
  M_PARALLEL,    /* extent of the parallel loop */
  M_BALANCE,     /* share of the threads' time that is used */
  M_FORKS,       /* times that the parallel loop is entered */
  M_TASK,        /* points of one iteration of it */
  M_FIT,         /* per level: points of the largest nest that fits */
  M_TRAFFIC = M_FIT + LEVELS,            /* per level */
  M_BUFFER_TRAFFIC = M_TRAFFIC + LEVELS, /* per level and buffer */
  GLOBALS = M_BUFFER_TRAFFIC + LEVELS * BUFFERS
};

enum {
  LOOP_OWN = 4 + KINDS, /* extent, reduce, product outside, inside; kind */
  LOOP_BUFFER = 3,      /* stride, touched, reuse */
  LOOP_WIDTH = LOOP_OWN + BUFFERS * LOOP_BUFFER,
  CONTEXT_AT = GLOBALS,
  RELATION_AT = CONTEXT_AT + LOOPS * LOOP_WIDTH,
  RELATION_GROUPS = BUFFERS + 1, /* of the dearest stage, and all */
  WIDTH = RELATION_AT + RELATION_GROUPS * RELATED * BETAS,
  RELATION_WIDTH = GLOBALS + WIDTH - RELATION_AT,
  CONTEXT_WIDTH = RELATION_AT
};

/* Bytes touched, as powers of two. */
static const float betas[BETAS] = {6, 9, 12, 14, 16, 18, 21, 24};

int
tt_features_width(enum tt_features_kind kind, const struct tt_space *space)
{
  switch (kind) {
  case TT_FEATURES_RELATION:
    return RELATION_WIDTH;
  case TT_FEATURES_CONTEXT:
    return CONTEXT_WIDTH;
  case TT_FEATURES_CONFIG:
    return space->nknobs > 0 ? space->nknobs : 1;
  case TT_FEATURES_TREE:
    return TT_TREE_WIDTH;
  }
  return 0;
}

float
tt_lg(float x)
{
  union {
    float f;
    uint32_t u;
  } v = {.f = x + 1};
  int e = (int)(v.u >> 23) - 127;

  v.u = (v.u & 0x7fffff) | 0x3f800000;
  return (float)e + (-v.f / 3 + 2) * v.f - 5.0f / 3;
}

float
tt_slg(float x)
{
  return x < 0 ? -tt_lg(-x) : tt_lg(x);
}

/* ---- one stage --------------------------------------------------------- */

/* Bytes that `elements` in runs of `run` occupy in lines of 64 bytes. */
static float
line_bytes(float elements, float run, float bytes)
{
  float whole = elements * bytes;
  float lines = elements / run * 64 * ceilf(run * bytes / 64);

  return fmaxf(whole, lines);
}

void
tt_depths_fill(const struct tt_context *c, struct tt_depths *d)
{
  struct tt_ctx_cover cover;
  float run;

  tt_cover_none(c, &cover);
  d->inside[c->n] = 1;
  for (int i = c->n; i >= 0; i--) {
    if (i < c->n) {
      tt_cover_add(c, &cover, &c->loops[i]);
      d->inside[i] = d->inside[i + 1] * c->loops[i].extent;
    }
    d->total[i] = 0;
    for (int j = 0; j < c->naccesses; j++) {
      const struct tt_ctx_access *x = &c->accesses[j];
      float n = tt_ctx_touched(c, x, &cover, &run);
      bool packed =
          x->cache != NULL && x->cache->nlayout > 0 && i >= x->cache_depth;
      d->elements[i][j] = n;
      d->bytes[i][j] =
          packed ? n * (float)x->bytes : line_bytes(n, run, (float)x->bytes);
      d->total[i] += d->bytes[i][j];
    }
  }
  for (int i = 0; i <= c->n; i++)
    d->outside[i] = c->outer * d->inside[0] / d->inside[i];
}

/* The outermost depth whose data fit in `size` bytes. */
static int
fit_depth(const struct tt_context *c, const struct tt_depths *d, int64_t size)
{
  int i = c->n;

  while (i > 0 && d->total[i - 1] <= (float)size)
    i--;
  return i;
}

/* Bytes that access j moves into a cache which holds the nest from `depth`
 * inwards: loops right outside that do not move it leave it there. */
static float
traffic(const struct tt_context *c, const struct tt_depths *d, int depth, int j)
{
  float moved = d->bytes[depth][j];
  bool stays = true;

  for (int i = depth - 1; i >= 0; i--) {
    stays = stays && d->elements[i][j] == d->elements[i + 1][j];
    if (!stays)
      moved *= c->loops[i].extent;
  }
  return moved * c->outer;
}

static float
ops_of(const struct tt_ctx_ops *o)
{
  return o->add + o->mul + 4 * o->div + 12 * o->special + 0.5f * o->integer +
         o->choice + 0.25f;
}

/* ---- numbers about the whole schedule ---------------------------------- */

struct totals {
  float v[GLOBALS]; /* those before M_POINTS, not yet as logarithms */
  float ideal;      /* operations without recomputation */
  float dearest;    /* operations of the dearest stage */
};

static void
add_caches(const struct tt_context *c, const struct tt_depths *d,
           struct totals *t)
{
  for (int j = 0; j < c->naccesses; j++) {
    const struct tt_ctx_access *x = &c->accesses[j];
    if (x->cache == NULL)
      continue;
    t->v[CACHES] += 1;
    t->v[PACKED] += x->cache->nlayout > 0;
    t->v[VECTOR_FILLS] += x->cache->lanes > 0;
    t->v[CACHE_BYTES] += d->elements[x->cache_depth][j] * (float)x->bytes;
    t->v[FILLS] += d->elements[x->cache_depth][j] * d->outside[x->cache_depth];
  }
}

/* Points that a stage has by itself, were it computed once. */
static float
own_points(const struct tt_stage *s)
{
  float n = 1;

  for (int i = 0; i < s->nspatial; i++)
    n *= (float)s->spatial[i]->extent;
  for (int i = 0; i < s->nreduce; i++)
    n *= (float)s->reduce[i]->extent;
  return n;
}

/* Returns the operations of the stage. */
static float
add_stage(const struct tt_context *c, const struct tt_depths *d,
          const int64_t *caches, struct totals *t)
{
  float each = ops_of(&c->ops), ops = each * c->outer * d->inside[0];
  bool vector = false, parallel = false;

  t->v[ROOTS] += c->ss->place == TT_ROOT;
  t->v[PLACED] += c->ss->place == TT_AT;
  for (int i = 0; i < c->n; i++) {
    vector |= c->loops[i].kind == TT_VECTOR;
    parallel |= c->loops[i].kind == TT_PARALLEL;
  }
  t->v[OPS] += ops;
  t->v[OPS_VECTOR] += vector ? ops : 0;
  t->v[OPS_PARALLEL] += parallel ? ops : 0;
  t->ideal += each * own_points(c->ss->stage);
  add_caches(c, d, t);
  for (int l = 0; l < LEVELS; l++) {
    int depth = fit_depth(c, d, caches[l]);
    for (int j = 0; j < c->naccesses; j++)
      t->v[TRAFFIC_ALL + l] += traffic(c, d, depth, j);
  }
  return ops;
}

static void
put_totals(const struct totals *t, float *row)
{
  float ops = fmaxf(t->v[OPS], 1);

  for (int i = 0; i < M_POINTS; i++)
    row[i] = tt_lg(t->v[i]);
  row[FILLS_PER_OP] = tt_lg(1024 * t->v[FILLS] / ops);
  row[OPS_VECTOR] = t->v[OPS_VECTOR] / ops;
  row[OPS_PARALLEL] = t->v[OPS_PARALLEL] / ops;
  row[RECOMPUTED] = t->v[OPS] / fmaxf(t->ideal, 1);
}

/* ---- numbers about the dearest stage ----------------------------------- */

int
tt_pick_buffers(const struct tt_context *c, int pick[TT_BUFFERS])
{
  int n = 0;

  for (int j = 0; j < c->naccesses && n < BUFFERS; j++)
    if (j == 0 || c->accesses[j].tensor->ndim > 0)
      pick[n++] = j;
  return n;
}

static const struct tt_ctx_loop *
vector_loop(const struct tt_context *c)
{
  for (int i = c->n - 1; i >= 0; i--)
    if (c->loops[i].kind == TT_VECTOR)
      return &c->loops[i];
  return NULL;
}

static float
lanes_of(const struct tt_context *c, const struct tt_target_model *t)
{
  int bytes = tt_dtype_bytes(c->ss->stage->out->dtype);

  return t->vector_bytes > bytes ? (float)(t->vector_bytes / bytes) : 1;
}

/* Vectors that an access needs for the spatial loops inside the accumulator:
 * along the vector loop one a `lanes`, else a broadcast each. */
static float
operand_vectors(const struct tt_context *c, const struct tt_ctx_access *x,
                const struct tt_ctx_cover *cover, const struct tt_ctx_loop *v,
                float lanes)
{
  float run, n = tt_ctx_touched(c, x, cover, &run);

  if (v == NULL || tt_ctx_stride(c, x, v, true) == 0)
    return n;
  return n / fminf(lanes, v->extent);
}

static void
put_tile(const struct tt_context *c, const struct tt_target_model *t,
         float *row)
{
  const struct tt_ctx_loop *v = vector_loop(c);
  float lanes = lanes_of(c, t), tile = 1, vectors = 1, loads = 0, wide = 0, n;
  struct tt_ctx_cover cover;
  int from = c->n;

  tt_cover_none(c, &cover);
  if (c->ss->cache_write != TT_NO_CACHE) {
    from = 0;
    for (int i = 0; i < c->n && c->ss->cache_write >= 0; i++)
      if (c->loops[i].handle == c->ss->cache_write)
        from = i + 1;
  }
  for (int i = from; i < c->n; i++)
    if (!c->loops[i].reduce) {
      tt_cover_add(c, &cover, &c->loops[i]);
      tile *= c->loops[i].extent;
      vectors *=
          &c->loops[i] == v ? ceilf(v->extent / lanes) : c->loops[i].extent;
    }
  for (int j = 1; j < c->naccesses; j++) {
    n = operand_vectors(c, &c->accesses[j], &cover, v, lanes);
    loads += n;
    /* One broadcast is live at a time; vectors are kept. */
    wide += v && tt_ctx_stride(c, &c->accesses[j], v, true) != 0 ? n : 1;
  }
  row[M_ACCUMULATORS] = from < c->n ? tt_lg(tile) : 0;
  row[M_TILE_VECTORS] = tt_lg(vectors);
  row[M_TILE_LOADS] = tt_lg(loads);
  row[M_PRESSURE] =
      (vectors + wide) / (float)(t->registers > 0 ? t->registers : 16);
  row[M_FITS] = row[M_PRESSURE] <= 1;
  row[M_INTENSITY] = vectors / fmaxf(loads, 1);
}

static void
put_vector(const struct tt_context *c, const struct tt_target_model *t,
           float *row)
{
  const struct tt_ctx_loop *v = vector_loop(c);
  float lanes = lanes_of(c, t), stride;

  row[M_VECTOR_TAIL] = 1;
  if (v == NULL)
    return;
  row[M_LANES_USED] = fminf(v->extent, lanes) / lanes;
  row[M_VECTOR_TAIL] = v->extent / (ceilf(v->extent / lanes) * lanes);
  for (int j = 0; j < c->naccesses; j++) {
    stride = fabsf(tt_ctx_stride(c, &c->accesses[j], v, true));
    row[stride == 0 ? M_BROADCAST : stride == 1 ? M_CONTIGUOUS : M_GATHER] += 1;
  }
}

static void
put_body(const struct tt_context *c, const struct tt_target_model *t,
         float *row)
{
  float copies = 1, trips = 1, whole = 1, lanes = lanes_of(c, t);
  const struct tt_loop *l;

  for (int i = 0; i < c->n; i++) {
    if (c->loops[i].kind == TT_UNROLL)
      copies *= c->loops[i].extent;
    else if (c->loops[i].kind == TT_VECTOR)
      copies *= ceilf(c->loops[i].extent / lanes);
    else
      trips = c->loops[i].extent;
  }
  for (int i = 0; i < c->ss->nloops; i++) {
    l = &c->ss->loops[i];
    if (l->node == TT_SPLIT_INNER && l->parent >= 0) {
      float e = (float)c->ss->loops[l->parent].extent, f = (float)l->factor;
      if (f < e)
        whole *= floorf(e / f) * f / e;
    }
  }
  row[M_UNROLLED] = tt_lg(copies);
  row[M_BODY] = tt_lg(copies * ops_of(&c->ops));
  row[M_CODE] = tt_lg(tt_ctx_copies(c));
  row[M_INNER_TRIPS] = tt_lg(trips);
  row[M_TAIL] = whole;
}

static void
put_parallel(const struct tt_context *c, const struct tt_depths *d,
             const struct tt_target_model *t, float *row)
{
  float threads = (float)(t->threads > 0 ? t->threads : 1), n;

  row[M_BALANCE] = 1 / threads;
  for (int i = 0; i < c->n; i++)
    if (c->loops[i].kind == TT_PARALLEL) {
      n = c->loops[i].extent;
      row[M_PARALLEL] = tt_lg(n);
      row[M_BALANCE] = n / (ceilf(n / threads) * threads);
      row[M_FORKS] = tt_lg(d->outside[i]);
      row[M_TASK] = tt_lg(d->inside[i + 1]);
      return;
    }
}

static void
put_levels(const struct tt_context *c, const struct tt_depths *d,
           const int64_t *caches, float *row)
{
  int pick[BUFFERS], n = tt_pick_buffers(c, pick), depth;
  float all, moved;

  for (int l = 0; l < LEVELS; l++) {
    depth = fit_depth(c, d, caches[l]);
    row[M_FIT + l] = tt_lg(d->inside[depth]);
    all = 0;
    for (int j = 0; j < c->naccesses; j++) {
      moved = traffic(c, d, depth, j);
      all += moved;
      for (int b = 0; b < n; b++)
        if (pick[b] == j)
          row[M_BUFFER_TRAFFIC + l * BUFFERS + b] = tt_lg(moved);
    }
    row[M_TRAFFIC + l] = tt_lg(all);
  }
}

static void
put_stage(const struct tt_context *c, const struct tt_depths *d,
          const struct tt_target_model *t, const int64_t *caches, float *row)
{
  const float ops[] = {c->ops.add,     c->ops.mul,     c->ops.div,
                       c->ops.special, c->ops.integer, c->ops.choice};

  memset(row + M_POINTS, 0, (GLOBALS - M_POINTS) * sizeof *row);
  row[M_POINTS] = tt_lg(d->inside[0]);
  row[M_LOOPS] = (float)c->n;
  for (int i = 0; i < 6; i++)
    row[M_ADD + i] = tt_lg(ops[i]);
  row[M_OUTER] = tt_lg(c->outer);
  put_tile(c, t, row);
  put_vector(c, t, row);
  put_body(c, t, row);
  put_parallel(c, d, t, row);
  put_levels(c, d, caches, row);
}

/* ---- the flattened loop context ---------------------------------------- */

static void
put_context(const struct tt_context *c, const struct tt_depths *d, float *row)
{
  int pick[BUFFERS], n = tt_pick_buffers(c, pick);

  memset(row + CONTEXT_AT, 0, (RELATION_AT - CONTEXT_AT) * sizeof *row);
  for (int k = 0; k < LOOPS && k < c->n; k++) {
    int i = c->n - 1 - k;
    const struct tt_ctx_loop *l = &c->loops[i];
    float *o = row + CONTEXT_AT + k * LOOP_WIDTH;
    *o++ = tt_lg(l->extent);
    *o++ = l->reduce;
    *o++ = tt_lg(d->outside[i]);
    *o++ = tt_lg(d->inside[i]);
    o[l->kind] = 1;
    o += KINDS;
    for (int b = 0; b < n; b++, o += LOOP_BUFFER) {
      const struct tt_ctx_access *x = &c->accesses[pick[b]];
      o[0] = tt_slg(tt_ctx_stride(c, x, l, i >= x->cache_depth));
      o[1] = tt_lg(d->bytes[i][pick[b]]);
      o[2] = tt_lg(d->inside[i] / d->elements[i][pick[b]]);
    }
  }
}

/* ---- context relations ------------------------------------------------- */

/* R_t = max over loops that touch less than 2^beta_t bytes of: reuse, length,
 * product outside, product inside. -1: there is no such loop.  While loops
 * are added a cell holds what falls between two thresholds. */
static void
relate(float touched, const float related[RELATED], float *group)
{
  for (int t = 0; t < BETAS; t++)
    if (touched < betas[t]) {
      for (int i = 0; i < RELATED; i++)
        group[i * BETAS + t] = fmaxf(group[i * BETAS + t], related[i]);
      return;
    }
}

static void
accumulate(float *group)
{
  for (int i = 0; i < RELATED; i++)
    for (int t = 1; t < BETAS; t++)
      group[i * BETAS + t] =
          fmaxf(group[i * BETAS + t], group[i * BETAS + t - 1]);
}

static void
relate_access(const struct tt_context *c, const struct tt_depths *d, int j,
              float *group)
{
  for (int i = 0; i < c->n; i++) {
    const float related[RELATED] = {tt_lg(d->inside[i] / d->elements[i][j]),
                                    tt_lg(c->loops[i].extent),
                                    tt_lg(d->outside[i]), tt_lg(d->inside[i])};
    relate(tt_lg(d->bytes[i][j]), related, group);
  }
}

static void
clear_group(float *group)
{
  for (int i = 0; i < RELATED * BETAS; i++)
    group[i] = -1;
}

static void
put_relations(const struct tt_context *c, const struct tt_depths *d, float *row)
{
  int pick[BUFFERS], n = tt_pick_buffers(c, pick);

  for (int b = 0; b < BUFFERS; b++) {
    float *group = row + RELATION_AT + b * RELATED * BETAS;
    clear_group(group);
    if (b < n)
      relate_access(c, d, pick[b], group);
    accumulate(group);
  }
}

/* ---- all of it --------------------------------------------------------- */

/* The whole row; of the loops only what the kind has. */
static void
fill(enum tt_features_kind kind, const struct tt_schedule *s,
     const struct tt_target_model *target, float *row)
{
  const int64_t caches[LEVELS] = {target->l1, target->l2, target->l3};
  float *all = row + RELATION_AT + BUFFERS * RELATED * BETAS, ops;
  bool relations = kind == TT_FEATURES_RELATION;
  struct tt_context c;
  struct totals t = {.dearest = -1};
  struct tt_depths d;

  memset(row, 0, WIDTH * sizeof *row);
  clear_group(all);
  for (int i = 0; i < s->nstages; i++) {
    if (s->stages[i].place == TT_INLINE) {
      t.v[INLINED] += 1;
      continue;
    }
    tt_context(s, i, &c);
    tt_depths_fill(&c, &d);
    ops = add_stage(&c, &d, caches, &t);
    for (int j = 0; j < c.naccesses && relations; j++)
      relate_access(&c, &d, j, all);
    if (ops <= t.dearest)
      continue;
    t.dearest = ops;
    put_stage(&c, &d, target, caches, row);
    if (relations)
      put_relations(&c, &d, row);
    else
      put_context(&c, &d, row);
  }
  accumulate(all);
  put_totals(&t, row);
}

static void
put_knobs(const struct tt_space *space, const int *config, float *row)
{
  row[0] = 0; /* if there is no knob */
  for (int i = 0; i < space->nknobs; i++) {
    const struct tt_knob *k = &space->knobs[i];
    row[i] = config == NULL              ? NAN
             : k->kind == TT_KNOB_FACTOR ? tt_slg((float)k->values[config[i]])
                                         : (float)config[i];
  }
}

void
tt_features(enum tt_features_kind kind, const struct tt_schedule *s,
            const struct tt_target_model *target, const struct tt_space *space,
            const int *config, float *row)
{
  float whole[WIDTH];

  switch (kind) {
  case TT_FEATURES_RELATION:
    fill(kind, s, target, whole);
    memcpy(row, whole, GLOBALS * sizeof *row);
    memcpy(row + GLOBALS, whole + RELATION_AT,
           (WIDTH - RELATION_AT) * sizeof *row);
    break;
  case TT_FEATURES_CONTEXT:
    fill(kind, s, target, whole);
    memcpy(row, whole, CONTEXT_WIDTH * sizeof *row);
    break;
  case TT_FEATURES_CONFIG:
    put_knobs(space, config, row);
    break;
  case TT_FEATURES_TREE:
    tt_feature_tree(s, target, row);
    break;
  }
}

double
tt_code_copies(const struct tt_schedule *s)
{
  struct tt_context c;
  double n = 0;

  for (int i = 0; i < s->nstages; i++)
    if (s->stages[i].place != TT_INLINE && s->stages[i].place != TT_FINISH) {
      tt_context(s, i, &c);
      n += (double)tt_ctx_copies(&c);
    }
  return n;
}

double
tt_most_copies(const struct tt_schedule *initial)
{
  double n = initial != NULL ? 2 * tt_code_copies(initial) : 0;

  return n < MOST_COPIES ? MOST_COPIES : n;
}
