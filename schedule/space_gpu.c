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

#include "ir/passes.h"
#include "schedule/analysis.h"
#include "schedule/state.h"

#include <stdlib.h>
#include <string.h>

enum {
  MAX_AXES = 3,     /* candidates for vectors and rows */
  MAX_OPERANDS = 4, /* that can be laid out anew */
  MAX_KNOBS = 64,
  MAX_INTRINS = 4,
  MAX_THREADS = 64,    /* of a block on a CPU */
  REGISTERS = 1 << 16, /* floats that the threads of a processor share */
  MOST_SIDE = 256,     /* rows and columns of a block's tile */
  MOST_PARTS = 32,     /* of a reduction, and least steps of one */
  LEAST_PART = 32,
  LEAST_VECTOR = 4,
  ROWS = 8, /* of a tile, and vectors, by default */
  VECTORS = 2,
  MOST_ROWS = 16,
  MOST_VECTORS = 8
};

/* Positions of knobs; -1: no choice. */
struct rule {
  bool tiled; /* on a CPU */
  bool grid;  /* on other devices */
  /* rows and columns of a tile: virtual threads, threads, a run of each */
  int k_rvthreads, k_cvthreads, k_rrun, k_crun, k_rthreads, k_cthreads, k_steps;
  int k_splitk, k_share[2], k_stages, k_banks;
  int nintrins;
  const struct tt_intrin *intrin[MAX_INTRINS]; /* that can do the inside */
  int k_intrin, k_warps[5];                    /* as in tt_gpu_warps */
  int nvec, vec[MAX_AXES], nrow, row[MAX_AXES];
  unsigned pads; /* axes that can be rounded up, a bit each */
  int noperands;
  const struct tt_tensor *operand[MAX_OPERANDS];
  struct tt_access access[MAX_OPERANDS];
  bool padded[MAX_OPERANDS];
  int k_vec, k_row, k_mr, k_nr, k_threads, k_fast, k_ku, k_finish;
  int k_pack[MAX_OPERANDS];
};

struct rules {
  struct tt_arena *arena;
  const struct tt_program *program;
  struct tt_target_model target;
  bool strict_fp;
  struct rule *rule; /* by stage */
  struct tt_space *space;
  int *defaults;
};

static int64_t
min64(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

/* ---- knobs ------------------------------------------------------------- */

static int
add_knob(struct rules *r, int stage, const char *what, enum tt_knob_kind kind,
         int n, const int64_t *values, int64_t preferred)
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
add_choice(struct rules *r, int stage, const char *what, int n, int preferred)
{
  int64_t values[8];
  for (int i = 0; i < n; i++)
    values[i] = i;
  return add_knob(r, stage, what, TT_KNOB_CHOICE, n, values, preferred);
}

static int64_t
value_of(const struct rules *r, const int *config, int knob, int64_t fallback)
{
  return knob < 0 ? fallback : r->space->knobs[knob].values[config[knob]];
}

/* ---- deriving the rules ------------------------------------------------ */

static int64_t
extent_of(const struct tt_stage *st, int axis)
{
  return axis < st->nspatial ? st->spatial[axis]->extent
                             : st->reduce[axis - st->nspatial]->extent;
}

static int
lanes_of(const struct rules *r, const struct tt_stage *st)
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

/* The spatial axes along which everything that is read can be laid out. */
static unsigned
padded_axes(const struct tt_stage *st, const struct tt_access *acc, int nacc)
{
  unsigned axes = st->where || nacc > MAX_OPERANDS ? 0 : ~0u;
  for (int i = 0; i < nacc; i++)
    for (int a = 0; a < st->nspatial; a++)
      if (acc[i].stride[a] != 0 &&
          (acc[i].several || !acc[i].affine ||
           acc[i].tensor->role == TT_CONST || !is_inside(acc[i].load)))
        axes &= ~(1u << a);
  return axes;
}

/* Lanes of vectors along an axis: they divide it, since what stands over would
 * be shared out among threads that wait for each other, unless it can be
 * rounded up; 0: none. */
static int
lanes_along(const struct rules *r, const struct rule *rule,
            const struct tt_stage *st, int axis)
{
  int all = lanes_of(r, st), lanes = all;
  while (lanes > 1 && extent_of(st, axis) % lanes)
    lanes /= 2;
  if (lanes < all && extent_of(st, axis) > all && rule->pads >> axis & 1)
    return all;
  return lanes >= LEAST_VECTOR || extent_of(st, axis) == lanes ? lanes : 0;
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
is_vector_axis(const struct rules *r, const struct rule *rule,
               const struct tt_stage *st, int axis, const struct tt_access *acc,
               int nacc)
{
  int64_t points = 1;
  for (int a = 0; a < st->nspatial; a++)
    points *= st->spatial[a]->extent;
  if (lanes_along(r, rule, st, axis) < 2 ||
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
  while (longest && at > 0 && extent_of(st, axes[at - 1]) < extent_of(st, axis))
    at--;
  if (*n < MAX_AXES)
    (*n)++;
  else if (at >= MAX_AXES)
    return;
  for (int i = *n - 1; i > at; i--)
    axes[i] = axes[i - 1];
  axes[at] = axis;
}

static void
find_operands(struct rules *r, struct rule *rule, int stage,
              const struct tt_access *acc, int nacc)
{
  struct tt_schedule *trial =
      tt_schedule_new(r->arena, r->program, r->strict_fp);
  for (int i = 0; i < nacc && rule->noperands < MAX_OPERANDS; i++) {
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
add_factors(const struct rule *rule, const struct tt_stage *st, int axis,
            int64_t lanes, int64_t most, int64_t *out, int k)
{
  int64_t n = extent_of(st, axis), fits = 1;
  for (int64_t d = 1; d <= most && d * lanes <= n; d++)
    fits = n % (d * lanes) == 0 ? d : fits;
  if (n % lanes == 0)
    k = add_divisors(n / lanes, most, out, k);
  if (fits < most / 2 && n > most * lanes && rule->pads >> axis & 1)
    k = add_divisors(most, most, out, k);
  return k;
}

/* That factor of an axis, in so many at a time, which is nearest to the one
 * preferred: where none of at least half of it divides it, the next one that
 * does. */
static int64_t
legal_factor(const struct rule *rule, const struct tt_stage *st, int axis,
             int64_t lanes, int64_t preferred, int64_t most)
{
  int64_t n = extent_of(st, axis), d = preferred;
  while (d > 1 && n % (d * lanes))
    d--;
  if (2 * d >= preferred)
    return d;
  if (rule->pads >> axis & 1)
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

static void
add_knobs(struct rules *r, struct rule *rule, int stage)
{
  static const int64_t threads[] = {1, 2, 4, 8, 16, 32};
  static const int64_t unrolls[] = {1, 2, 4, 8};
  const struct tt_stage *st = r->program->stages[stage];
  int64_t mr[MOST_ROWS + 1], nr[MOST_VECTORS + 1];
  int nmr = 0, nnr = 0;
  for (int i = 0; i < rule->nrow; i++)
    nmr = add_factors(rule, st, rule->row[i], 1, MOST_ROWS, mr, nmr);
  for (int i = 0; i < rule->nvec; i++)
    nnr = add_factors(rule, st, rule->vec[i],
                      lanes_along(r, rule, st, rule->vec[i]), MOST_VECTORS, nr,
                      nnr);
  rule->k_vec = add_choice(r, stage, "vec", rule->nvec, 0);
  rule->k_row = add_choice(r, stage, "row", rule->nrow, 0);
  int u = rule->nrow && rule->row[0] == rule->vec[0]; /* see choose() */
  int64_t rows = u < rule->nrow
                     ? legal_factor(rule, st, rule->row[u], 1, ROWS, MOST_ROWS)
                     : 1;
  int64_t vectors = legal_factor(rule, st, rule->vec[0],
                                 lanes_along(r, rule, st, rule->vec[0]),
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
    bool bad = rule->access[i].stride[rule->vec[0]] > 1;
    if (!rule->padded[i] && rule->access[i].affine)
      rule->k_pack[i] = add_choice(r, stage, name, 2, bad);
  }
  rule->k_finish = add_choice(r, stage, "finish", 2, 1);
}

/* Parts of the reduction, which are whole. */
static int
add_parts(struct rules *r, int stage, int preferred)
{
  const struct tt_stage *st = r->program->stages[stage];
  int64_t n = longest_reduction(st), parts[MOST_PARTS];
  int64_t most = min64(MOST_PARTS, n / LEAST_PART);
  if (r->strict_fp && tt_sum_rounds(st))
    return -1;
  return add_knob(r, stage, "splitk", TT_KNOB_FACTOR,
                  add_divisors(n, most, parts, 0), parts, preferred);
}

/* How rows of shared copies are kept off each other's banks. */
static const struct tt_staging banks[] = {
    {.pad = 0}, {.pad = 4}, {.swizzle = 8}, {.swizzle = 16}};
enum { BANKS = sizeof banks / sizeof *banks };

/* The tiles of gpu_tiles.c. */
static void
derive_grid(struct rules *r, struct rule *rule, int stage)
{
  static const int64_t vthreads[] = {1, 2, 4, 8};
  static const int64_t runs[] = {1, 2, 4, 8};
  static const int64_t sides[] = {4, 8, 16, 32};
  static const int64_t steps[] = {4, 8, 16, 32};
  static const int64_t stages[] = {1, 2, 3, 4};
  struct tt_schedule *trial =
      tt_schedule_new(r->arena, r->program, r->strict_fp);
  struct tt_gpu_tile t; /* by default */
  rule->grid = tt_gpu_choose_tile(trial, stage, &t) &&
               tt_gpu_tile(trial, stage, &t) == TT_GPU_DONE;
  if (!rule->grid)
    return;
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
  while (bank < BANKS - 1 && (banks[bank].pad != t.staging.pad ||
                              banks[bank].swizzle != t.staging.swizzle))
    bank++;
  rule->k_banks = add_choice(r, stage, "banks", BANKS, bank);
  rule->k_finish = add_choice(r, stage, "finish", 2, 1);
}

/* Instructions of the program that threads execute together, in the language
 * that has them. */
static void
derive_tensor(struct rules *r, struct rule *rule, int stage)
{
  static const char *const names[] = {"trows", "tcols", "rwarps", "cwarps",
                                      "tsteps"};
  static const int64_t sizes[] = {1, 2, 4};
  rule->nintrins = tt_gpu_tensor_intrins(
      r->arena, r->program, stage, r->strict_fp, MAX_INTRINS, rule->intrin);
  if (!rule->nintrins)
    return;
  rule->k_intrin = add_choice(r, stage, "intrin", rule->nintrins + 1, 1);
  for (int i = 0; i < 5; i++)
    rule->k_warps[i] =
        add_knob(r, stage, names[i], TT_KNOB_FACTOR, 3, sizes, 2);
}

static void
derive(struct rules *r, int stage, double share)
{
  const struct tt_stage *st = r->program->stages[stage];
  struct rule *rule = &r->rule[stage];
  struct tt_access acc[TT_MAX_ACCESSES];
  rule->k_vec = rule->k_row = rule->k_mr = rule->k_nr = rule->k_threads =
      rule->k_fast = rule->k_ku = rule->k_finish = -1;
  for (int i = 0; i < MAX_OPERANDS; i++)
    rule->k_pack[i] = -1;
  rule->k_rvthreads = rule->k_cvthreads = rule->k_rrun = rule->k_crun = -1;
  rule->k_rthreads = rule->k_cthreads = rule->k_steps = -1;
  rule->k_splitk = rule->k_share[0] = rule->k_share[1] = -1;
  rule->k_stages = rule->k_banks = rule->k_intrin = -1;
  if (st->red == TT_RED_NONE || st->prepare || share < 0.01)
    return;
  if (!r->target.gpu.cpu)
    derive_grid(r, rule, stage);
  if (rule->grid && !r->target.gpu.vectors)
    derive_tensor(r, rule, stage);
  if (!lanes_of(r, st) || !r->target.gpu.cpu)
    return;
  int nacc = tt_accesses(r->arena, st, st->value, acc);
  rule->pads = padded_axes(st, acc, nacc);
  /* First those that are whole vectors. */
  for (int whole = 1; whole >= 0; whole--)
    for (int a = st->nspatial - 1; a >= 0; a--)
      if ((lanes_along(r, rule, st, a) == lanes_of(r, st)) == whole &&
          is_vector_axis(r, rule, st, a, acc, nacc))
        insert(rule->vec, &rule->nvec, a, st, false);
  for (int a = st->nspatial - 1; a >= 0; a--)
    if (reuse_along(a, acc, nacc) && extent_of(st, a) > 1)
      insert(rule->row, &rule->nrow, a, st, true);
  rule->tiled = rule->nvec > 0;
  if (!rule->tiled)
    return;
  find_operands(r, rule, stage, acc, nacc);
  add_knobs(r, rule, stage);
}

struct tt_space *
tt_gpu_space_new(struct tt_arena *arena, const struct tt_program *program,
                 const struct tt_target_model *target, bool strict_fp)
{
  struct rules *r = TT_NEW(arena, struct rules);
  double total = 0;
  *r = (struct rules){.arena = arena,
                      .program = program,
                      .target = *target,
                      .strict_fp = strict_fp};
  r->rule = TT_ARRAY(arena, struct rule, (size_t)program->nstages + 1);
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

/* ---- configurations ---------------------------------------------------- */

struct tile {
  int v, u; /* axes; u -1: none */
  int lanes;
  int64_t nr, mr, ku;
  int fast, slow; /* loops of blocks, -1: none */
  int vr, ur, k, kr, thread;
  unsigned padded; /* axes that are rounded up, a bit each */
};

static bool
choose(const struct rules *r, const int *config, const struct rule *rule,
       const struct tt_stage *st, struct tile *t)
{
  *t = (struct tile){.u = -1, .vr = -1, .ur = -1, .k = -1, .kr = -1};
  t->v = rule->vec[value_of(r, config, rule->k_vec, 0)];
  if (rule->nrow)
    t->u = rule->row[value_of(r, config, rule->k_row, 0)];
  for (int i = 0; i < rule->nrow && t->u == t->v; i++)
    t->u = rule->row[i];
  if (t->u == t->v)
    t->u = -1;
  t->lanes = lanes_along(r, rule, st, t->v);
  t->nr = t->lanes * value_of(r, config, rule->k_nr, 1);
  t->mr = t->u < 0 ? 1 : value_of(r, config, rule->k_mr, 1);
  if (extent_of(st, t->v) % t->nr)
    t->padded |= 1u << t->v;
  if (t->u >= 0 && extent_of(st, t->u) % t->mr)
    t->padded |= 1u << t->u;
  if (t->padded & ~rule->pads)
    return false;
  t->ku = value_of(r, config, rule->k_ku, 1);
  int64_t vectors = t->nr / t->lanes;
  return t->mr * vectors + min64(t->mr, vectors) + 1 <= r->target.registers + 2;
}

static int
split(struct tt_schedule *s, int stage, int loop, int64_t factor, bool pad,
      const char *suffix, int *outer)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const char *name =
      tt_arena_printf(s->arena, "%s%s", ss->loops[loop].name, suffix);
  int inner =
      tt_split(s, stage, loop, factor, name, pad ? TT_TAIL_PAD : TT_TAIL_PEEL);
  if (inner >= 0)
    *outer = ss->loops[inner].other;
  return inner;
}

/* A thread for each of some tiles side by side; at least two, since a block
 * without threads would be shared out among many. */
static bool
split_threads(struct tt_schedule *s, int stage, const struct rule *rule,
              int64_t threads, int axis, struct tile *t)
{
  int64_t n = s->stages[stage].loops[t->fast].extent, part = 0;
  for (int64_t d = 2; d <= n && d <= MAX_THREADS; d++)
    if (n % d == 0 && (d <= threads || !part))
      part = d;
  if ((part == 0 || part > threads) && n > 1 && rule->pads >> axis & 1) {
    part = threads < 2 ? 2 : min64(threads, n);
    t->padded |= n % part ? 1u << axis : 0;
  }
  if (!part)
    return false;
  t->thread = split(s, stage, t->fast, part, n % part, "_t", &t->fast);
  return t->thread >= 0;
}

/* Splits the axes of the tile, and threads off the blocks. */
static bool
split_axes(struct tt_schedule *s, int stage, const struct rule *rule,
           int64_t threads, bool rows_fast, struct tile *t)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  const struct tt_stage *st = ss->stage;
  int v, u = -1;
  t->vr = split(s, stage, t->v, t->nr, t->padded >> t->v & 1, "_v", &v);
  if (t->vr < 0)
    return false;
  if (t->u >= 0)
    t->ur = split(s, stage, t->u, t->mr, t->padded >> t->u & 1, "_r", &u);
  if (t->u >= 0 && t->ur < 0)
    return false;
  t->fast = u >= 0 && (rows_fast || ss->loops[v].extent < 2) &&
                    ss->loops[u].extent > 1
                ? u
                : v;
  t->slow = t->fast == u ? v : u;
  if (!split_threads(s, stage, rule, threads, t->fast == u ? t->u : t->v, t))
    return false;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    if (t->k < 0 || extent_of(st, a) > extent_of(st, t->k))
      t->k = a;
  if (t->k >= 0 && t->ku > 1) {
    if (extent_of(st, t->k) % t->ku)
      return false;
    t->kr = split(s, stage, t->k, t->ku, false, "_u", &t->k);
    return t->kr >= 0;
  }
  return true;
}

/* The other spatial axes, one after the other in the order, as one loop; -1:
 * there are none, -2: they cannot be. */
static int
fuse_rest(struct tt_schedule *s, int stage, const int *rest, int n)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  int loop = n ? rest[0] : -1;
  for (int i = 1; i < n; i++) {
    loop = tt_fuse(s, stage, loop, rest[i],
                   tt_arena_printf(s->arena, "%s_%s", ss->loops[loop].name,
                                   ss->loops[rest[i]].name));
    if (loop < 0)
      return -2;
  }
  return loop;
}

/* Orders the loops; *inner: where those of a block begin.  (Axes of which
 * there is but one iteration are no loops worth a block.) */
static bool
order_loops(struct tt_schedule *s, int stage, const struct tile *t, int *order,
            int *n, int *rest)
{
  const struct tt_stage *st = s->stages[stage].stage;
  int others[TT_MAX_DIMS], k = 0;
  *n = 0;
  for (int a = 0; a < st->nspatial; a++)
    if (a != t->v && a != t->u) {
      others[k++] = a;
      order[(*n)++] = a;
    }
  if (t->slow >= 0)
    order[(*n)++] = t->slow;
  order[(*n)++] = t->fast;
  order[(*n)++] = t->thread;
  for (int a = st->nspatial; a < st->nspatial + st->nreduce; a++)
    order[(*n)++] =
        t->kr >= 0 && a == s->stages[stage].loops[t->k].parent ? t->k : a;
  if (t->kr >= 0)
    order[(*n)++] = t->kr;
  if (t->ur >= 0)
    order[(*n)++] = t->ur;
  order[(*n)++] = t->vr;
  if (!tt_reorder(s, stage, *n, order))
    return false;
  *rest = fuse_rest(s, stage, others, k);
  if (k > 1) { /* one loop in place of k */
    order[k - 1] = *rest;
    memmove(order, order + k - 1, (size_t)(*n - k + 1) * sizeof *order);
    *n -= k - 1;
  }
  return *rest > -2;
}

/* Is it read along an axis that is rounded up? */
static bool
runs_over(const struct tt_access *a, const struct tile *t)
{
  for (int i = 0; i < TT_MAX_DIMS; i++)
    if ((t->padded >> i & 1) && a->stride[i] != 0)
      return true;
  return false;
}

static bool
lay_out(const struct rules *r, const int *config, const struct rule *rule,
        struct tt_schedule *s, int stage, const struct tile *t,
        const int *order, int n)
{
  int inner = 0;
  while (order[inner] != t->thread)
    inner++;
  for (int i = 0; i < rule->noperands; i++) {
    const struct tt_tensor *x = rule->operand[i];
    if (rule->padded[i]) {
      if (!tt_cache_padded(s, stage, x, TT_OUTSIDE, 0, NULL, 0,
                           tt_arena_printf(s->arena, "%s_pad", x->name)))
        return false;
      continue;
    }
    if ((value_of(r, config, rule->k_pack[i], 0) ||
         runs_over(&rule->access[i], t)) &&
        !tt_pack_operand(s, stage, x, order, n, inner, true, t->lanes))
      return false;
  }
  return true;
}

static bool
apply_tiled(const struct rules *r, const int *config, const struct rule *rule,
            struct tt_schedule *s, int stage)
{
  struct tile t;
  int order[TT_MAX_LOOPS], n, rest;
  if (!choose(r, config, rule, s->stages[stage].stage, &t))
    return false;
  int64_t threads = value_of(r, config, rule->k_threads, 4);
  bool rows_fast = value_of(r, config, rule->k_fast, 1);
  threads = min64(threads, MAX_THREADS);
  if (!split_axes(s, stage, rule, threads, rows_fast, &t) ||
      !order_loops(s, stage, &t, order, &n, &rest))
    return false;
  return (rest < 0 || tt_bind(s, stage, rest, TT_BLOCK_Z)) &&
         (t.slow < 0 || tt_bind(s, stage, t.slow, TT_BLOCK_Y)) &&
         tt_bind(s, stage, t.fast, TT_BLOCK_X) &&
         tt_bind(s, stage, t.thread, TT_THREAD_X) &&
         tt_cache_write(s, stage, t.thread) &&
         lay_out(r, config, rule, s, stage, &t, order, n) &&
         (t.kr < 0 || tt_unroll(s, stage, t.kr)) &&
         (t.ur < 0 || tt_unroll(s, stage, t.ur)) &&
         tt_vectorize(s, stage, t.vr, t.lanes);
}

static bool
apply_grid(const struct rules *r, const int *config, const struct rule *rule,
           struct tt_schedule *s, int stage)
{
  struct tt_gpu_tile t = {
      .row_run = (int)value_of(r, config, rule->k_rrun, 4),
      .col_run = (int)value_of(r, config, rule->k_crun, 4),
      .row_threads = (int)value_of(r, config, rule->k_rthreads, 16),
      .col_threads = (int)value_of(r, config, rule->k_cthreads, 16),
      .steps = (int)value_of(r, config, rule->k_steps, 16),
      .parts = (int)value_of(r, config, rule->k_splitk, 1),
      .shared = {value_of(r, config, rule->k_share[0], 1) != 0,
                 value_of(r, config, rule->k_share[1], 1) != 0},
      .staging = banks[value_of(r, config, rule->k_banks, 2)]};
  t.staging.stages = (int)value_of(r, config, rule->k_stages, 2);
  t.rows = t.row_threads * t.row_run *
           (int)value_of(r, config, rule->k_rvthreads, 1);
  t.cols = t.col_threads * t.col_run *
           (int)value_of(r, config, rule->k_cvthreads, 1);
  int64_t threads = (int64_t)t.row_threads * t.col_threads;
  int64_t each = (int64_t)t.rows * t.cols / threads;
  int64_t pad = t.staging.pad;
  int64_t tile = (int64_t)t.steps * ((t.shared[0] ? t.rows + pad : 0) +
                                     (t.shared[1] ? t.cols + pad : 0));
  int64_t shared = 4 * tile * t.staging.stages;
  /* Sums and a row and a column of operands are in registers, with two stages
   * what is on its way, too; beside them there are addresses. */
  if (t.staging.stages == 2)
    each += (tile + threads - 1) / threads;
  if (t.rows > MOST_SIDE || t.cols > MOST_SIDE ||
      each + t.rows / t.row_threads + t.cols / t.col_threads + 24 >
          r->target.gpu.registers ||
      threads * (each + 32) > REGISTERS || shared > r->target.gpu.shared)
    return false;
  return tt_gpu_tile(s, stage, &t) == TT_GPU_DONE;
}

static bool
apply_tensor(const struct rules *r, const int *config, const struct rule *rule,
             struct tt_schedule *s, int stage, const struct tt_intrin *in)
{
  int v[5];
  for (int i = 0; i < 5; i++)
    v[i] = (int)value_of(r, config, rule->k_warps[i], 2);
  const struct tt_gpu_warps w = {v[0], v[1], v[2], v[3], v[4]};
  return tt_gpu_tensor_fits(in, &w, &r->target.gpu) &&
         tt_gpu_tensor(s, stage, in, &w) == TT_GPU_DONE;
}

static bool
apply_rule(const struct rules *r, const int *config, const struct rule *rule,
           struct tt_schedule *s, int stage)
{
  int intrin = (int)value_of(r, config, rule->k_intrin, 0);
  if (intrin)
    return apply_tensor(r, config, rule, s, stage, rule->intrin[intrin - 1]);
  return (rule->grid ? apply_grid : apply_tiled)(r, config, rule, s, stage);
}

/* Threads of what is bound. */
static bool
within_limits(const struct rules *r, const struct tt_schedule *s)
{
  const struct tt_gpu_limits *g = &r->target.gpu;
  for (int i = 0; i < s->nstages; i++) {
    const struct tt_stage_schedule *ss = &s->stages[i];
    int64_t threads = 1;
    for (int k = 0; k < ss->norder; k++) {
      const struct tt_loop *l = &ss->loops[ss->order[k]];
      if (!tt_is_thread(l->kind))
        continue;
      threads *= l->extent;
      if (l->extent > g->items[l->kind - TT_THREAD_X])
        return false;
    }
    if (threads > g->threads)
      return false;
  }
  return true;
}

struct tt_schedule *
tt_gpu_space_schedule(struct tt_arena *arena, const struct tt_space *space,
                      const int *config)
{
  const struct rules *r = space->rules;
  struct tt_schedule *s = tt_schedule_new(arena, r->program, r->strict_fp);
  tt_gpu_inline(s);
  for (int i = 0, of = 0; i < s->nstages; i++, of++) { /* of the program */
    const struct rule *rule = &r->rule[of];
    int before = s->nstages;
    if (s->stages[i].place != TT_ROOT)
      continue;
    if ((rule->tiled || rule->grid) && !apply_rule(r, config, rule, s, i))
      return NULL;
    i += s->nstages - before; /* behind the sums of parts */
    if (s->nstages > before || !(rule->tiled || rule->grid))
      tt_gpu_bind(s, i);
    if (value_of(r, config, rule->k_finish, 1))
      tt_gpu_finish(s, i);
  }
  s->error = NULL;
  return within_limits(r, s) ? s : NULL;
}

void
tt_gpu_space_default(const struct tt_space *space, int *config)
{
  const struct rules *r = space->rules;
  memcpy(config, r->defaults, (size_t)space->nknobs * sizeof *config);
}
