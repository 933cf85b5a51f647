/* A schedule block with open choices is a space of its own.  Owns the way
 * from a configuration to the block with every choice made.
 *
 *   C.split(m, ?, mi);              any factor that divides an extent, or a
 *                                   power of two
 *   C.vectorize(ni, {8, 16, 32});   one of these
 *
 * Invariant: a configuration has one index for each open argument, in the
 * order of the text.
 */
#include "config.h"

#include "schedule/schedule.h"

#include <string.h>

/* How many configurations are tried for one that is legal. */
#define MAX_TRIES 20000

struct choices {
  const struct tt_program *program;
  const struct tt_sblock *block;
  bool strict_fp;
};

static bool
is_open(const struct tt_sarg *a)
{
  return a->kind == TT_SARG_ANY || a->kind == TT_SARG_SET;
}

int
tt_block_choices(const struct tt_sblock *block)
{
  int n = 0;
  for (int i = 0; i < block->ncalls; i++)
    for (int k = 0; k < block->calls[i].nargs; k++)
      n += is_open(&block->calls[i].args[k]);
  return n;
}

/* ---- the values of `?` ------------------------------------------------- */

static bool
is_power_of_two(int64_t v)
{
  return (v & (v - 1)) == 0;
}

/* Does v divide the extent of an axis of the stage? */
static bool
divides_one(const struct tt_stage *st, int64_t v)
{
  for (int i = 0; i < st->nspatial; i++)
    if (st->spatial[i]->extent % v == 0)
      return true;
  for (int i = 0; i < st->nreduce; i++)
    if (st->reduce[i]->extent % v == 0)
      return true;
  return false;
}

static int64_t
largest_extent(const struct tt_stage *st)
{
  int64_t most = 1;
  for (int i = 0; i < st->nspatial; i++)
    if (st->spatial[i]->extent > most)
      most = st->spatial[i]->extent;
  for (int i = 0; i < st->nreduce; i++)
    if (st->reduce[i]->extent > most)
      most = st->reduce[i]->extent;
  return most;
}

/* Any number: which ones are worth trying follows from the axes.  Values that
 * are too large for the loop are refused when the call is applied. */
static void
any_values(struct tt_arena *arena, const struct tt_stage *st,
           struct tt_knob *knob)
{
  enum { MOST = 256 };
  int64_t most = st ? largest_extent(st) : 64;
  int64_t *values = TT_ARRAY(arena, int64_t, MOST);
  for (int64_t v = 1; v <= most && knob->n < MOST; v++) {
    if (v > 4096 && !is_power_of_two(v)) {
      /* On to the next power: larger factors leave few choices outside. */
      while (!is_power_of_two(v))
        v += v & -v;
      if (v > most)
        break;
    }
    if (is_power_of_two(v) || (st && divides_one(st, v)))
      values[knob->n++] = v;
  }
  knob->values = values;
}

static bool
is_id(const struct tt_sarg *a, const char *name)
{
  return a->kind == TT_SARG_ID && strcmp(a->str, name) == 0;
}

/* The stage of a name, or the one of whose sum it is a part (rfactor). */
static const struct tt_stage *
find_stage(const struct tt_program *program, const struct tt_sblock *block,
           const char *name)
{
  for (int c = block->ncalls - 1; c >= 0; c--) {
    const struct tt_scall *call = &block->calls[c];
    if (strcmp(call->primitive, "rfactor") == 0 && call->nargs == 4 &&
        is_id(&call->args[3], name))
      name = call->stage;
  }
  for (int i = 0; i < program->nstages; i++)
    if (strcmp(program->stages[i]->out->name, name) == 0)
      return program->stages[i];
  return NULL;
}

static void
make_knob(struct tt_arena *arena, const struct choices *c,
          const struct tt_scall *call, const struct tt_sarg *a,
          struct tt_knob *knob)
{
  knob->name = tt_arena_printf(arena, "%s.%s", call->stage, call->primitive);
  knob->kind = TT_KNOB_FACTOR;
  if (a->kind == TT_SARG_ANY) {
    any_values(arena, find_stage(c->program, c->block, call->stage), knob);
  } else {
    knob->n = a->nset;
    knob->values = a->set;
  }
}

struct tt_space *
tt_choices_space(struct tt_arena *arena, const struct tt_program *program,
                 const struct tt_sblock *block, bool strict_fp)
{
  struct tt_space *space = TT_NEW(arena, struct tt_space);
  struct choices *c = TT_NEW(arena, struct choices);
  *c = (struct choices){program, block, strict_fp};
  space->rules = c;
  space->size = 1;
  space->knobs =
      TT_ARRAY(arena, struct tt_knob, (size_t)tt_block_choices(block) + 1);
  for (int i = 0; i < block->ncalls; i++)
    for (int k = 0; k < block->calls[i].nargs; k++) {
      const struct tt_sarg *a = &block->calls[i].args[k];
      if (!is_open(a))
        continue;
      struct tt_knob *knob = &space->knobs[space->nknobs++];
      make_knob(arena, c, &block->calls[i], a, knob);
      space->size *= knob->n;
    }
  return space;
}

/* ---- configurations ---------------------------------------------------- */

/* The call with its choices made; *next counts the knobs used so far. */
static struct tt_scall
decided(struct tt_arena *arena, const struct tt_space *space,
        const struct tt_scall *call, const int *config, int *next)
{
  struct tt_scall out = *call;
  struct tt_sarg *args =
      TT_ARRAY(arena, struct tt_sarg, (size_t)call->nargs + 1);
  for (int k = 0; k < call->nargs; k++) {
    args[k] = call->args[k];
    if (!is_open(&args[k]))
      continue;
    args[k].kind = TT_SARG_INT;
    args[k].ival = space->knobs[*next].values[config[*next]];
    ++*next;
  }
  out.args = args;
  return out;
}

struct tt_schedule *
tt_choices_apply(struct tt_arena *arena, const struct tt_space *space,
                 const int *config, const struct tt_scall **bad)
{
  const struct choices *c = space->rules;
  struct tt_schedule *s = tt_schedule_new(arena, c->program, c->strict_fp);
  int next = 0;
  *bad = NULL;
  for (int i = 0; i < c->block->ncalls && !*bad; i++) {
    struct tt_scall call =
        decided(arena, space, &c->block->calls[i], config, &next);
    if (!tt_schedule_call(s, &call))
      *bad = &c->block->calls[i];
  }
  return s;
}

struct tt_schedule *
tt_choices_schedule(struct tt_arena *arena, const struct tt_space *space,
                    const int *config)
{
  const struct tt_scall *bad;
  struct tt_schedule *s = tt_choices_apply(arena, space, config, &bad);
  return bad ? NULL : s;
}

/* Count up, the last knob fastest; false after the last configuration. */
static bool
advance(const struct tt_space *space, int *config)
{
  for (int i = space->nknobs - 1; i >= 0; i--) {
    if (++config[i] < space->knobs[i].n)
      return true;
    config[i] = 0;
  }
  return false;
}

bool
tt_choices_first(const struct tt_space *space, int *config)
{
  struct tt_arena *scratch = tt_arena_new();
  bool legal = false, more = true;
  memset(config, 0, (size_t)space->nknobs * sizeof *config);
  for (int i = 0; i < MAX_TRIES && more && !legal; i++) {
    legal = tt_choices_schedule(scratch, space, config) != NULL;
    tt_arena_reset(scratch);
    more = legal || advance(space, config);
  }
  tt_arena_free(scratch);
  if (!legal)
    memset(config, 0, (size_t)space->nknobs * sizeof *config);
  return legal;
}
