/* The derived space for GPUs and other devices: what space.c is for a CPU.
 *
 * A device that is a CPU runs the threads of a block in turns, with vectors of
 * its own: there a thread computes a register tile of rows and vectors, as a
 * core does in space.c, and blocks are tiles side by side; axes that no tile
 * divides are rounded up, where all that is read along them can be laid out
 * anew with room for the rest.  On other devices blocks compute tiles as in
 * gpu_tiles.c, whose sizes are the knobs.  All other stages are scheduled as
 * gpu_default.c does.
 *
 * No rule knows an operator by name; what exceeds a limit of the device is no
 * schedule, before anything is built.
 */
#include "config.h"
#include "schedule/space_gpu.h"

#include "ir/passes.h"

#include <stdlib.h>
#include <string.h>

enum {
  MAX_KNOBS = 64,
  MOST_PARTS = 32, /* of a reduction, and least steps of one */
  LEAST_PART = 32,
  LEAST_VECTOR = 4,
  ROWS = 8, /* of a tile, and vectors, by default */
  VECTORS = 2,
  MOST_ROWS = 16,
  MOST_VECTORS = 8
};

/* ---- knobs ------------------------------------------------------------- */

static int
add_knob(struct tt_gpu_rules *r, int stage, const char *what,
         enum tt_knob_kind kind, int n, const int64_t *values,
         int64_t preferred)
{
  struct tt_space *sp = r->space;
  if (n < 2 || sp->nknobs == MAX_KNOBS)
    return -1;
  struct tt_knob *k = &sp->knobs[sp->nknobs];
  k->name = tt_arena_printf(r->arena, "%s.%s",
                            r->program->stages[stage]->out->name, what);
  k->kind = kind;
  k->n = n;
  k->values = tt_arena_dup(r->arena, values, (size_t)n * sizeof *values);
  int best = 0;
  for (int i = 0; i < n; i++)
    if (llabs(values[i] - preferred) < llabs(values[best] - preferred))
      best = i;
  r->defaults[sp->nknobs] = best;
  sp->size *= n;
  return sp->nknobs++;
}

static int
add_choice(struct tt_gpu_rules *r, int stage, const char *what, int n,
           int preferred)
{
  int64_t values[8];
  for (int i = 0; i < n; i++)
    values[i] = i;
  return add_knob(r, stage, what, TT_KNOB_CHOICE, n, values, preferred);
}

/* ---- deriving the rules ------------------------------------------------ */

int64_t
tt_gpu_extent_of(const struct tt_stage *st, int axis)
{
  return axis < st->nspatial ? st->spatial[axis]->extent
                             : st->reduce[axis - st->nspatial]->extent;
}

static int
lanes_of(const struct tt_gpu_rules *r, const struct tt_stage *st)
{
  int bytes = tt_widest_type(st);
  int lanes = r->target.gpu.lanes * 4 / bytes;
  return !r->target.gpu.vectors || lanes < 2 ? 0 : lanes > 16 ? 16 : lanes;
}

static bool
is_inside(const struct tt_expr *load)
{
  for (int d = 0; d < load->nargs; d++) {
    struct tt_interval in = tt_bounds(load->args[d], NULL);
    if (!in.ok || in.lo < 0 || in.hi >= load->tensor->dims[d])
      return false;
  }
  return true;
}

/* Is the tensor read through a copy that has its border? */
static bool
has_border(const struct tt_gpu_rule *rule, const struct tt_tensor *t)
{
  for (int i = 0; i < rule->noperands; i++)
    if (rule->operand[i] == t)
      return rule->padded[i];
  return false;
}

/* The spatial axes along which everything that is read can be laid out, or
 * (with borders) is read through a copy that has its border. */
static unsigned
padded_axes(const struct tt_gpu_rule *rule, const struct tt_stage *st,
            const struct tt_access *acc, int nacc, bool borders)
{
  unsigned axes = st->where || nacc > TT_GPU_MAX_OPERANDS ? 0 : ~0u;
  for (int i = 0; i < nacc; i++)
    for (int a = 0; a < st->nspatial; a++)
      if (acc[i].stride[a] != 0 &&
          (acc[i].several || !acc[i].affine ||
           acc[i].tensor->role == TT_CONST ||
           !(is_inside(acc[i].load) ||
             (borders && has_border(rule, acc[i].tensor)))))
        axes &= ~(1u << a);
  return axes;
}

/* Lanes of vectors along an axis: they divide it, since what stands over would
 * be shared out among threads that wait for each other, unless it can be
 * rounded up; 0: none. */
int
tt_gpu_lanes_along(const struct tt_gpu_rules *r, const struct tt_gpu_rule *rule,
                   const struct tt_stage *st, int axis)
{
  int all = lanes_of(r, st), lanes = all;
  while (lanes > 1 && tt_gpu_extent_of(st, axis) % lanes)
    lanes /= 2;
  if (lanes < all && tt_gpu_extent_of(st, axis) > all &&
      rule->vec_pads >> axis & 1)
    return all;
  return lanes >= LEAST_VECTOR || tt_gpu_extent_of(st, axis) == lanes ? lanes
                                                                      : 0;
}

/* Reads that stay the same along an axis. */
static int
reuse_along(int axis, const struct tt_access *acc, int nacc)
{
  int n = 0;
  for (int i = 0; i < nacc; i++)
    n += acc[i].stride[axis] == 0;
  return n;
}

/* Along an axis of vectors reads are the same, side by side, or could be once
 * the operand is laid out anew: what is read once alone is not worth it. */
static bool
is_vector_axis(const struct tt_gpu_rules *r, const struct tt_gpu_rule *rule,
               const struct tt_stage *st, int axis, const struct tt_access *acc,
               int nacc)
{
  int64_t points = 1;
  for (int a = 0; a < st->nspatial; a++)
    points *= st->spatial[a]->extent;
  if (tt_gpu_lanes_along(r, rule, st, axis) < 2 ||
      !tt_vectorizes(r->arena, st, st->value, st->where, axis, true))
    return false;
  for (int i = 0; i < nacc; i++) {
    int64_t stride = acc[i].stride[axis];
    if (stride == 0 || stride == 1)
      continue;
    if (acc[i].several || !acc[i].affine ||
        (acc[i].tensor->role != TT_WEIGHT && /* that is done ahead of time */
         points / tt_tensor_size(acc[i].tensor) < 1))
      return false;
    for (int a = axis + 1; a < st->nspatial; a++)
      if (acc[i].stride[a] == 1)
        return false; /* that one is better */
  }
  return true;
}

/* Longest first; few reads of its own first. */
static void
insert(int *axes, int *n, int axis, const struct tt_stage *st, bool longest)
{
  int at = *n;
  while (longest && at > 0 &&
         tt_gpu_extent_of(st, axes[at - 1]) < tt_gpu_extent_of(st, axis))
    at--;
  if (*n < TT_GPU_MAX_AXES)
    (*n)++;
  else if (at >= TT_GPU_MAX_AXES)
    return;
  for (int i = *n - 1; i > at; i--)
    axes[i] = axes[i - 1];
  axes[at] = axis;
}

static void
find_operands(struct tt_gpu_rules *r, struct tt_gpu_rule *rule, int stage,
              const struct tt_access *acc, int nacc)
{
  struct tt_schedule *trial =
      tt_schedule_new(r->arena, r->program, r->strict_fp);
  for (int i = 0; i < nacc && rule->noperands < TT_GPU_MAX_OPERANDS; i++) {
    bool seen = acc[i].several || acc[i].tensor->role == TT_CONST;
    for (int j = 0; j < rule->noperands; j++)
      seen |= rule->operand[j] == acc[i].tensor;
    if (seen)
      continue;
    rule->padded[rule->noperands] = tt_cache_padded(
        trial, stage, acc[i].tensor, TT_OUTSIDE, 0, NULL, 0, "trial");
    trial->stages[stage].ncaches = 0;
    rule->access[rule->noperands] = acc[i];
    rule->operand[rule->noperands++] = acc[i].tensor;
  }
}

/* Adds the divisors of n up to a bound, in order; returns how many there are
 * now. */
static int
add_divisors(int64_t n, int64_t most, int64_t *out, int k)
{
  for (int64_t d = 1; d <= n && d <= most; d++) {
    int at = k;
    while (at > 0 && out[at - 1] > d)
      at--;
    if (n % d || (at > 0 && out[at - 1] == d))
      continue;
    memmove(out + at + 1, out + at, (size_t)(k - at) * sizeof *out);
    out[at] = d;
    k++;
  }
  return k;
}

/* The same of an axis in so many at a time; where few divide it and it can be
 * rounded up, powers of two as well. */
static int
add_factors(unsigned pads, const struct tt_stage *st, int axis, int64_t lanes,
            int64_t most, int64_t *out, int k)
{
  int64_t n = tt_gpu_extent_of(st, axis), fits = 1;
  for (int64_t d = 1; d <= most && d * lanes <= n; d++)
    fits = n % (d * lanes) == 0 ? d : fits;
  if (n % lanes == 0)
    k = add_divisors(n / lanes, most, out, k);
  if (fits < most / 2 && n > most * lanes && pads >> axis & 1)
    k = add_divisors(most, most, out, k);
  return k;
}

/* That factor of an axis, in so many at a time, which is nearest to the one
 * preferred: where none of at least half of it divides it, the next one that
 * does. */
static int64_t
legal_factor(unsigned pads, const struct tt_stage *st, int axis, int64_t lanes,
             int64_t preferred, int64_t most)
{
  int64_t n = tt_gpu_extent_of(st, axis), d = preferred;
  while (d > 1 && n % (d * lanes))
    d--;
  if (2 * d >= preferred)
    return d;
  if (pads >> axis & 1)
    return preferred;
  for (int64_t more = preferred + 1; more <= most; more++)
    if (n % (more * lanes) == 0)
      return more;
  return d;
}

static int64_t
longest_reduction(const struct tt_stage *st)
{
  int64_t most = 1;
  for (int i = 0; i < st->nreduce; i++)
    most = st->reduce[i]->extent > most ? st->reduce[i]->extent : most;
  return most;
}

/* Are the vectors of the steps of a long sum on pages of their own, and read by
 * many rows of results?  Then a copy in which they lie together pays: where the
 * stride is a power of two all of them would be in one set of the cache. */
static bool
is_scattered(const struct tt_gpu_rule *rule, const struct tt_stage *st,
             const struct tt_access *a)
{
  enum { PAGE = 4096, LONG = 64, MANY = 64 };
  int64_t rows = 1;
  bool far = false;
  for (int i = 0; i < rule->nrow; i++)
    if (a->stride[rule->row[i]] == 0)
      rows *= tt_gpu_extent_of(st, rule->row[i]);
  for (int i = 0; i < st->nreduce; i++) {
    int64_t stride = a->stride[st->nspatial + i];
    far |= st->reduce[i]->extent >= LONG && stride < INT64_MAX &&
           stride * (int64_t)tt_dtype_bytes(a->tensor->dtype) >= PAGE;
  }
  return far && rows >= MANY;
}

static void
add_knobs(struct tt_gpu_rules *r, struct tt_gpu_rule *rule, int stage)
{
  static const int64_t threads[] = {1, 2, 4, 8, 16, 32};
  static const int64_t unrolls[] = {1, 2, 4, 8};
  const struct tt_stage *st = r->program->stages[stage];
  int64_t mr[MOST_ROWS + 1], nr[MOST_VECTORS + 1];
  int nmr = 0, nnr = 0;
  for (int i = 0; i < rule->nrow; i++)
    nmr = add_factors(rule->pads, st, rule->row[i], 1, MOST_ROWS, mr, nmr);
  for (int i = 0; i < rule->nvec; i++)
    nnr = add_factors(rule->vec_pads, st, rule->vec[i],
                      tt_gpu_lanes_along(r, rule, st, rule->vec[i]),
                      MOST_VECTORS, nr, nnr);
  rule->k_vec = add_choice(r, stage, "vec", rule->nvec, 0);
  rule->k_row = add_choice(r, stage, "row", rule->nrow, 0);
  int u = rule->nrow && rule->row[0] == rule->vec[0]; /* see choose() */
  int64_t rows = u < rule->nrow ? legal_factor(rule->pads, st, rule->row[u], 1,
                                               ROWS, MOST_ROWS)
                                : 1;
  int64_t vectors = legal_factor(rule->vec_pads, st, rule->vec[0],
                                 tt_gpu_lanes_along(r, rule, st, rule->vec[0]),
                                 VECTORS, MOST_VECTORS);
  rule->k_mr = add_knob(r, stage, "mr", TT_KNOB_FACTOR, nmr, mr, rows);
  rule->k_nr = add_knob(r, stage, "nr", TT_KNOB_FACTOR, nnr, nr, vectors);
  rule->k_threads =
      add_knob(r, stage, "threads", TT_KNOB_FACTOR, 6, threads, 4);
  rule->k_fast = add_choice(r, stage, "fast", rule->nrow ? 2 : 1, 1);
  int n = longest_reduction(st) >= 8 ? 4 : 1;
  rule->k_ku = add_knob(r, stage, "ku", TT_KNOB_FACTOR, n, unrolls, 1);
  for (int i = 0; i < rule->noperands; i++) {
    const char *name =
        tt_arena_printf(r->arena, "pack.%s", rule->operand[i]->name);
    int64_t along = rule->access[i].stride[rule->vec[0]];
    bool bad =
        along > 1 || (along == 1 && is_scattered(rule, st, &rule->access[i]));
    if (!rule->padded[i] && rule->access[i].affine)
      rule->k_pack[i] = add_choice(r, stage, name, 2, bad);
  }
  rule->k_finish = add_choice(r, stage, "finish", 2, 1);
}

/* Parts of the reduction, which are whole. */
static int
add_parts(struct tt_gpu_rules *r, int stage, int preferred)
{
  const struct tt_stage *st = r->program->stages[stage];
  int64_t n = longest_reduction(st), parts[MOST_PARTS];
  int64_t most = tt_min64(MOST_PARTS, n / LEAST_PART);
  if (r->strict_fp && tt_sum_rounds(st))
    return -1;
  return add_knob(r, stage, "splitk", TT_KNOB_FACTOR,
                  add_divisors(n, most, parts, 0), parts, preferred);
}

const struct tt_staging tt_gpu_banks_of[TT_GPU_BANKS] = {
    {.pad = 0}, {.pad = 4}, {.swizzle = 8}, {.swizzle = 16}};

/* The tiles of gpu_tiles.c. */
static void
derive_grid(struct tt_gpu_rules *r, struct tt_gpu_rule *rule, int stage)
{
  static const int64_t vthreads[] = {1, 2, 4, 8};
  static const int64_t runs[] = {1, 2, 4, 8};
  static const int64_t sides[] = {4, 8, 16, 32};
  static const int64_t steps[] = {4, 8, 16, 32};
  static const int64_t stages[] = {1, 2, 3, 4};
  struct tt_schedule *trial =
      tt_schedule_new(r->arena, r->program, r->strict_fp);
  struct tt_gpu_tile t; /* by default */
  rule->grid = tt_gpu_choose_tile(trial, stage, &r->target.gpu, &t) &&
               tt_gpu_tile(trial, stage, &t) == TT_GPU_DONE;
  if (!rule->grid)
    return;
  rule->dot = tt_gpu_dot(tt_schedule_new(r->arena, r->program, r->strict_fp),
                         stage, &r->target.gpu, &t);
  if (rule->dot)
    rule->k_dot = add_choice(r, stage, "dot", 2, 1);
  enum tt_knob_kind factor = TT_KNOB_FACTOR;
  int rv = t.rows / (t.row_threads * t.row_run);
  int cv = t.cols / (t.col_threads * t.col_run);
  rule->k_rvthreads = add_knob(r, stage, "rvthreads", factor, 4, vthreads, rv);
  rule->k_cvthreads = add_knob(r, stage, "cvthreads", factor, 4, vthreads, cv);
  rule->k_rrun = add_knob(r, stage, "rrun", factor, 4, runs, t.row_run);
  rule->k_crun = add_knob(r, stage, "crun", factor, 4, runs, t.col_run);
  rule->k_rthreads =
      add_knob(r, stage, "rthreads", factor, 4, sides, t.row_threads);
  rule->k_cthreads =
      add_knob(r, stage, "cthreads", factor, 4, sides, t.col_threads);
  rule->k_steps = add_knob(r, stage, "steps", factor, 4, steps, t.steps);
  rule->k_splitk = add_parts(r, stage, t.parts);
  rule->k_share[0] = add_choice(r, stage, "share.rows", 2, 1);
  rule->k_share[1] = add_choice(r, stage, "share.cols", 2, 1);
  /* (More than two are for asynchronous copies.) */
  rule->k_stages =
      add_knob(r, stage, "stages", factor, r->target.gpu.vectors ? 2 : 4,
               stages, t.staging.stages);
  int bank = 0;
  while (bank < TT_GPU_BANKS - 1 &&
         (tt_gpu_banks_of[bank].pad != t.staging.pad ||
          tt_gpu_banks_of[bank].swizzle != t.staging.swizzle))
    bank++;
  rule->k_banks = add_choice(r, stage, "banks", TT_GPU_BANKS, bank);
  rule->k_finish = add_choice(r, stage, "finish", 2, 1);
}

/* Instructions of the program that threads execute together, in the language
 * that has them. */
static void
derive_tensor(struct tt_gpu_rules *r, struct tt_gpu_rule *rule, int stage)
{
  static const struct {
    const char *name;
    int n;
    int64_t values[4];
  } knobs[] = {{"trows", 3, {1, 2, 4}},    {"tcols", 3, {1, 2, 4}},
               {"rwarps", 3, {1, 2, 4}},   {"cwarps", 3, {1, 2, 4}},
               {"tsteps", 3, {1, 2, 4}},   {"tstages", 4, {1, 2, 3, 4}},
               {"tgroup", 4, {1, 2, 4, 8}}};
  struct tt_schedule *s = tt_schedule_new(r->arena, r->program, r->strict_fp);
  const struct tt_gpu_limits *g = &r->target.gpu;
  struct tt_gpu_warps w = {1, 1, 1, 1, 1, 1, 1}; /* by default */
  tt_gpu_inline(s); /* as the schedules of the space */
  rule->nintrins = tt_gpu_tensor_intrins(r->arena, s, stage, g,
                                         TT_GPU_MAX_INTRINS, rule->intrin);
  if (!rule->nintrins)
    return;
  bool chosen = tt_gpu_choose_warps(r->arena, s, stage, rule->intrin[0], g, &w);
  const int preferred[] = {w.rows,  w.cols,   w.row_warps, w.col_warps,
                           w.steps, w.stages, w.row_group};
  rule->k_intrin = add_choice(r, stage, "intrin", rule->nintrins + 1, chosen);
  int n = TT_GPU_WARP_KNOBS -
          (w.row_group == 1); /* (Few blocks are in no groups.) */
  for (int i = 0; i < n; i++)
    rule->k_warps[i] = add_knob(r, stage, knobs[i].name, TT_KNOB_FACTOR,
                                knobs[i].n, knobs[i].values, preferred[i]);
}

static void
derive(struct tt_gpu_rules *r, int stage, double share)
{
  const struct tt_stage *st = r->program->stages[stage];
  struct tt_gpu_rule *rule = &r->rule[stage];
  struct tt_access acc[TT_MAX_ACCESSES];
  rule->k_vec = rule->k_row = rule->k_mr = rule->k_nr = rule->k_threads =
      rule->k_fast = rule->k_ku = rule->k_finish = -1;
  for (int i = 0; i < TT_GPU_MAX_OPERANDS; i++)
    rule->k_pack[i] = -1;
  rule->k_rvthreads = rule->k_cvthreads = rule->k_rrun = rule->k_crun = -1;
  rule->k_rthreads = rule->k_cthreads = rule->k_steps = -1;
  rule->k_splitk = rule->k_share[0] = rule->k_share[1] = -1;
  rule->k_stages = rule->k_banks = rule->k_intrin = rule->k_dot = -1;
  for (int i = 0; i < TT_GPU_WARP_KNOBS; i++)
    rule->k_warps[i] = -1;
  if (st->red == TT_RED_NONE || st->prepare || share < 0.01)
    return;
  if (!r->target.gpu.cpu)
    derive_grid(r, rule, stage);
  if (rule->grid && !r->target.gpu.vectors)
    derive_tensor(r, rule, stage);
  if (!lanes_of(r, st) || !r->target.gpu.cpu)
    return;
  int nacc = tt_accesses(r->arena, st, st->value, acc);
  find_operands(r, rule, stage, acc, nacc);
  rule->pads = padded_axes(rule, st, acc, nacc, true);
  rule->vec_pads = padded_axes(rule, st, acc, nacc, false);
  /* First those that are whole vectors. */
  for (int whole = 1; whole >= 0; whole--)
    for (int a = st->nspatial - 1; a >= 0; a--)
      if ((tt_gpu_lanes_along(r, rule, st, a) == lanes_of(r, st)) == whole &&
          is_vector_axis(r, rule, st, a, acc, nacc))
        insert(rule->vec, &rule->nvec, a, st, false);
  for (int a = st->nspatial - 1; a >= 0; a--)
    if (reuse_along(a, acc, nacc) && tt_gpu_extent_of(st, a) > 1)
      insert(rule->row, &rule->nrow, a, st, true);
  rule->tiled = rule->nvec > 0;
  if (!rule->tiled)
    return;
  add_knobs(r, rule, stage);
}

struct tt_space *
tt_gpu_space_new(struct tt_arena *arena, const struct tt_program *program,
                 const struct tt_target_model *target, bool strict_fp)
{
  struct tt_gpu_rules *r = TT_NEW(arena, struct tt_gpu_rules);
  double total = 0;
  *r = (struct tt_gpu_rules){.arena = arena,
                             .program = program,
                             .target = *target,
                             .strict_fp = strict_fp};
  r->rule = TT_ARRAY(arena, struct tt_gpu_rule, (size_t)program->nstages + 1);
  r->defaults = TT_ARRAY(arena, int, MAX_KNOBS);
  r->space = TT_NEW(arena, struct tt_space);
  r->space->knobs = TT_ARRAY(arena, struct tt_knob, MAX_KNOBS);
  r->space->size = 1;
  r->space->rules = r;
  for (int i = 0; i < program->nstages; i++)
    total += tt_stage_work(program->stages[i]);
  for (int i = program->nstages - 1; i >= 0; i--)
    derive(r, i, tt_stage_work(program->stages[i]) / total);
  return r->space;
}

void
tt_gpu_space_default(const struct tt_space *space, int *config)
{
  const struct tt_gpu_rules *r = space->rules;
  memcpy(config, r->defaults, (size_t)space->nknobs * sizeof *config);
}
