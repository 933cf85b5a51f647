/* Sums that an elementwise stage takes from the accumulators: its value is
 * stored in place of them.
 *
 * Invariant: where parts of the reduction stand outside the accumulators, the
 * sums are whole in the last iteration of these alone, which is found here.
 *
 * Registers of an intrin have no elements to take, and none to leave out where
 * a tail was padded.  They are stored to memory a tile at a time:
 *
 *   for tiles:  for groups of threads:  registers -> results of the tile
 *               for groups of threads:  for lanes:  results -> stage
 */
#include "config.h"

#include "schedule/lower.h"

/* Is the present piece of every split above the loop the last one, so that
 * its last iteration is the last of all? */
static bool
in_last_piece(const struct tt_inst *in, int loop)
{
  for (int h = loop; in->ss->loops[h].node != TT_AXIS;) {
    const struct tt_loop *l = &in->ss->loops[h];
    int outer = in->ss->loops[l->parent].child[0];
    int64_t all = tt_max_extent(in, l->parent);
    if (in->lo[outer] + in->extent[outer] < (all + l->factor - 1) / l->factor)
      return false;
    h = l->parent;
  }
  return true;
}

/* True in the last of the reduction's iterations outside position i; NULL
 * when there are none outside. */
static const struct tt_expr *
last_iteration(const struct tt_inst *in, int i)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_expr *last = NULL;
  for (int j = 0; j < i; j++) {
    int h = in->ss->order[j];
    if (!in->ss->loops[h].reduce)
      continue;
    if (!in_last_piece(in, h))
      return tt_bool(ar, false);
    const struct tt_expr *end =
        tt_binary(ar, TT_EQ, in->val[h], tt_idx(ar, tt_max_extent(in, h) - 1));
    last = last ? tt_binary(ar, TT_AND, last, end) : end;
  }
  return last;
}

struct taking {
  const struct tt_tensor *sums;
  const struct tt_expr *sum;
};

static const struct tt_expr *
take_sum(void *ctx, struct tt_arena *ar, const struct tt_expr *e)
{
  const struct taking *t = ctx;
  (void)ar;
  return e->kind == TT_LOAD && e->tensor == t->sums ? t->sum : e;
}

const struct tt_stmt *
tt_lw_finished(struct tt_inst *in, const struct tt_expr *const *t,
               const struct tt_expr *sum)
{
  struct tt_lowering *lw = in->lw;
  const struct tt_stage *st = in->ss->stage;
  if (!in->finishing)
    return tt_store(lw->arena, in->target, st->nspatial, t, sum);
  const struct tt_stage_schedule *fs = &lw->s->stages[in->ss->finish];
  struct taking take = {st->out, sum};
  const struct tt_expr *value =
      tt_expr_rewrite(lw->arena, fs->value, take_sum, &take);
  /* (The caches are the reduction's own.) */
  struct tt_inst own = {.lw = lw, .ss = fs, .index = in->ss->finish};
  struct tt_place_values p = tt_lw_place_of(in);
  p.in = &own;
  p.naxes = st->nspatial;
  for (int d = 0; d < st->nspatial; d++)
    p.axis[d] = fs->stage->spatial[d];
  return tt_store(lw->arena, fs->stage->out, st->nspatial, t,
                  tt_lw_at_place(&p, value));
}

const struct tt_stmt *
tt_lw_finish_or_store(struct tt_inst *in, int i,
                      const struct tt_stmt *(*store)(struct tt_inst *, int i))
{
  if (in->ss->finish < 0)
    return store(in, i);
  const struct tt_expr *last = last_iteration(in, i);
  in->finishing = true;
  const struct tt_stmt *whole = store(in, i);
  in->finishing = false;
  return last ? tt_if(in->lw->arena, last, whole, store(in, i)) : whole;
}

/* ---- registers of an intrin ---------------------------------------------- */

enum { MAX_UNROLLED = 16 }; /* elements of a tile that a thread takes */

/* Loops of tiles are entered first, then those of groups of threads. */
struct tiling {
  int first, position;
  bool groups, take; /* of threads; sums are taken, or registers stored */
};

static bool
counts_groups(const struct tt_inst *in, int position)
{
  return tt_is_thread(in->ss->loops[in->ss->order[position]].kind);
}

int
tt_lw_tile_index(struct tt_inst *in, const struct tt_expr **idx)
{
  const struct tt_stage_schedule *ss = in->ss;
  int n = 0;
  for (int i = in->acc_position; i < tt_tensor_position(ss); i++)
    if (counts_groups(in, i))
      idx[n++] = in->val[ss->order[i]];
  for (int i = 0; i < ss->intrin->nspatial; i++)
    idx[n++] = in->val[ss->tile[i]];
  return n;
}

/* One element of the tile: from a register, or on to the stage. */
static const struct tt_stmt *
store_element(struct tt_inst *in, void *ctx)
{
  const struct tt_expr *to[TT_MAX_LOOPS], *from[TT_MAX_LOOPS];
  const struct tt_tensor *acc;
  (void)ctx;
  int n = tt_lw_tile_index(in, to);
  int k = tt_lw_result_index(in, true, &acc, from);
  return tt_store(in->lw->arena, in->results, n, to,
                  tt_load(in->lw->arena, acc, k, from));
}

static const struct tt_stmt *
take_element(struct tt_inst *in)
{
  const struct tt_expr *t[TT_MAX_DIMS], *from[TT_MAX_LOOPS];
  for (int d = 0; d < in->ss->stage->nspatial; d++)
    t[d] = tt_loop_value(in, d);
  int n = tt_lw_tile_index(in, from);
  return tt_lw_guarded(
      in, tt_lw_finished(in, t, tt_load(in->lw->arena, in->results, n, from)));
}

static struct tt_var *
new_var(struct tt_inst *in, const char *name, int64_t extent)
{
  struct tt_var *v = TT_NEW(in->lw->arena, struct tt_var);
  *v = (struct tt_var){.name = name, .extent = extent, .id = in->lw->nvars++};
  return v;
}

/* The elements of a tile, in turns by the threads that execute the intrin:
 * those beside each other take elements beside each other. */
static const struct tt_stmt *
take_tile(struct tt_inst *in)
{
  struct tt_arena *ar = in->lw->arena;
  const struct tt_intrin *k = in->ss->intrin;
  const int *tile = in->ss->tile;
  int64_t size = 1;
  for (int i = 0; i < k->nspatial; i++)
    size *= k->spatial[i]->extent;
  int64_t threads = in->lane ? k->threads : 1;
  int64_t turns = (size + threads - 1) / threads;
  struct tt_var *turn = new_var(in, "turn", turns);
  const struct tt_expr *at = tt_var_ref(ar, turn), *rest;
  if (in->lane)
    at = tt_iadd(ar, tt_imul(ar, at, threads), tt_var_ref(ar, in->lane));
  rest = at;
  for (int i = k->nspatial - 1; i >= 0; i--) {
    int64_t extent = k->spatial[i]->extent;
    in->val[tile[i]] = i ? tt_imod(ar, rest, extent) : rest;
    rest = tt_idiv(ar, rest, extent);
  }
  const struct tt_stmt *st = take_element(in);
  for (int i = 0; i < k->nspatial; i++)
    in->val[tile[i]] = NULL;
  if (turns * threads > size)
    st = tt_if(ar, tt_binary(ar, TT_LT, at, tt_idx(ar, size)), st, NULL);
  return tt_for(ar, turns > MAX_UNROLLED ? TT_SERIAL : TT_UNROLL, 0, turn, st);
}

static const struct tt_stmt *tiles_from(struct tt_inst *, struct tiling);

static const struct tt_stmt *
tiles_inside(struct tt_inst *in, void *ctx)
{
  struct tiling t = *(const struct tiling *)ctx;
  t.position++;
  return tiles_from(in, t);
}

static const struct tt_stmt *
tiles_from(struct tt_inst *in, struct tiling t)
{
  const struct tt_stage_schedule *ss = in->ss;
  int end = tt_tensor_position(ss);
  while (t.position < end && (ss->loops[ss->order[t.position]].reduce ||
                              counts_groups(in, t.position) != t.groups))
    t.position++;
  if (t.position < end)
    return tt_lw_enter(in, ss->order[t.position],
                       (struct tt_how){.scheduled = true}, tiles_inside, &t);
  if (!t.groups) {
    const struct tt_stmt *parts[2];
    for (int take = 0; take < 2; take++)
      parts[take] = tiles_from(
          in, (struct tiling){t.first, t.first, .groups = true, .take = take});
    return tt_seq(in->lw->arena, 2, parts);
  }
  return t.take ? take_tile(in)
                : tt_lw_instruction(in, TT_INTRIN_STORE, store_element, NULL);
}

const struct tt_stmt *
tt_lw_finish_tiles(struct tt_inst *in, int i)
{
  struct tt_lowering *lw = in->lw;
  const struct tt_stage_schedule *ss = in->ss;
  const struct tt_tensor *out = ss->stage->out;
  int64_t dims[TT_MAX_DIMS];
  int n = 0;
  for (int j = i; j < tt_tensor_position(ss); j++)
    if (counts_groups(in, j))
      dims[n++] = tt_max_extent(in, ss->order[j]);
  for (int j = 0; j < ss->intrin->nspatial; j++)
    dims[n++] = ss->intrin->spatial[j]->extent;
  in->results =
      tt_lw_local_tensor(lw, tt_arena_printf(lw->arena, "%s_tile", out->name),
                         out->dtype, n, dims);
  const struct tt_tensor *results = in->results;
  const struct tt_stmt *st =
      tiles_from(in, (struct tiling){i, i, false, false});
  in->results = NULL;
  return tt_alloc_stmt(lw->arena, results, st);
}
