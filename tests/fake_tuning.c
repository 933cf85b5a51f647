/* Spaces over the schedules of tests/product.h and a measurer whose times are
 * a function of the schedule.  There is one measurer, `fake`, because what the
 * tuner calls to open one has no place for the test's own. */
#include "config.h"

#include "tests/fake_tuning.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* ---- the space --------------------------------------------------------- */

/* Knobs of the product's schedule: factors of y, x, k as powers of two, the
 * order of the inner loops, and whether x is vectorized. */
static int64_t powers[8] = {1, 2, 4, 8, 16, 32, 64, 128};
static int64_t choices[3] = {0, 1, 2};

/* What a space is of: the last ones that were opened. */
static struct {
  const struct tt_space *space;
  const struct tt_program *program;
} owners[8];
static int nowners;

static const struct tt_program *
program_of(const struct tt_space *space)
{
  for (int i = 0; i < 8 && i < nowners; i++)
    if (owners[(nowners - 1 - i) % 8].space == space || space == NULL)
      return owners[(nowners - 1 - i) % 8].program;
  fail_msg("a space that was never opened");
  return NULL;
}

static struct tt_space *
space_open(struct tt_arena *arena, const struct tt_program *p,
           const struct tt_target_model *t, bool strict)
{
  static const char *const names[5] = {"fy", "fx", "fk", "order", "vector"};
  struct tt_space *s = TT_NEW(arena, struct tt_space);

  (void)t;
  (void)strict;
  owners[nowners % 8].space = s;
  owners[nowners++ % 8].program = p;
  s->nknobs = 5;
  s->knobs = TT_ARRAY(arena, struct tt_knob, 5);
  for (int i = 0; i < 5; i++)
    s->knobs[i] =
        (struct tt_knob){names[i], i < 3 ? TT_KNOB_FACTOR : TT_KNOB_CHOICE,
                         i < 3    ? 8
                         : i == 3 ? 3
                                  : 2,
                         i < 3 ? powers : choices};
  s->size = 8 * 8 * 8 * 3 * 2;
  return s;
}

static struct tt_space *
tiny_open(struct tt_arena *arena, const struct tt_program *p,
          const struct tt_target_model *t, bool strict)
{
  struct tt_space *s = space_open(arena, p, t, strict);

  for (int i = 0; i < 3; i++)
    s->knobs[i].n = 2;
  return s;
}

static struct tt_schedule *
space_schedule(struct tt_arena *arena, const struct tt_space *space,
               const int *c)
{
  static const int orders[3][3] = {{0, 1, 2}, {2, 0, 1}, {0, 2, 1}};
  struct tt_schedule *s = tt_schedule_new(arena, program_of(space), false);
  int inner[3], order[6];

  if (c[0] == 7 && c[1] == 7)
    return NULL; /* illegal: too large a tile */
  for (int i = 0; i < 3; i++) {
    inner[i] =
        tt_split(s, 0, i, powers[c[i]],
                 tt_arena_printf(arena, "%s_in", s->stages[0].loops[i].name),
                 TT_TAIL_PEEL);
    assert_true(inner[i] >= 0);
  }
  for (int i = 0; i < 3; i++) {
    order[i] = s->stages[0].loops[inner[i]].other;
    order[3 + i] = inner[orders[c[3]][i]];
  }
  assert_true(tt_reorder(s, 0, 6, order));
  if (c[4] && c[3] == 0)
    return NULL; /* illegal: k is innermost; else this knob changes nothing */
  return s;
}

static void
space_initial(const struct tt_space *space, int *c)
{
  memset(c, 0, (size_t)space->nknobs * sizeof *c);
}

const struct tt_space_ops fake_space = {space_open, space_schedule,
                                        space_initial};
const struct tt_space_ops fake_tiny_space = {tiny_open, space_schedule,
                                             space_initial};

/* ---- the measurer ------------------------------------------------------ */

struct fake fake;

void
fake_reset(void)
{
  memset(&fake, 0, sizeof fake);
  fake.scale = 1;
  fake.plain = 0.5;
  fake.interrupt_at = fake.break_at = -1;
}

void
fake_forget(void)
{
  for (int i = 0; i < fake.measured; i++)
    free(fake.texts[i]);
  fake.measured = 0;
}

double
fake_seconds(const struct tt_schedule *s)
{
  double e[3] = {0}, cost;
  const struct tt_stage_schedule *ss = &s->stages[0];

  if (s->program == fake.flat)
    return 1e-3;
  for (int i = 0; i < ss->nloops; i++)
    if (ss->loops[i].node == TT_SPLIT_INNER && ss->loops[i].parent < 3)
      e[ss->loops[i].parent] = log2((double)ss->loops[i].factor);
  cost = 1 + 0.2 * (e[0] - 3) * (e[0] - 3) + 0.2 * (e[1] - 5) * (e[1] - 5) +
         0.1 * (e[2] - 6) * (e[2] - 6);
  for (int i = 0; i + 1 < ss->norder; i++) /* which inner loop is last */
    if (ss->loops[ss->order[ss->norder - 1]].parent != 1)
      cost += 0.3;
  return cost * 1e-3 * fake.scale;
}

static struct tt_measurer *
fake_open(const struct tt_program *p, const struct tt_measure_options *o,
          struct tt_result *plain, const char **error)
{
  (void)o;
  if (fake.open_fails || (fake.bad != NULL && p == fake.bad)) {
    *error = "cc: not found";
    return NULL;
  }
  fake.opened++;
  plain->outcome = TT_OUT_OK;
  plain->seconds = fake.plain;
  return (struct tt_measurer *)&fake;
}

static void
fake_close(struct tt_measurer *m)
{
  assert_ptr_equal(m, &fake);
  fake.opened--;
}

static bool
fake_measure(struct tt_measurer *m, const struct tt_stream *stream,
             const char **error)
{
  struct tt_schedule *const *s = stream->schedules;
  struct tt_result *results = stream->results;
  int n = stream->n, last = n;

  (void)m;
  for (int i = 0; i < stream->most; i++)
    results[i].outcome = TT_OUT_CANCELLED;
  for (int i = 0; i < n; i++) {
    if (last >= 4 && i == n - last / 4) {
      last = stream->more(stream->ctx);
      n += last;
      assert_true(n <= stream->most);
    }
    struct tt_sb sb = {0};
    if (fake.measured == fake.break_at) {
      *error = "the disk is full";
      return false;
    }
    tt_schedule_print(s[i], &sb);
    for (int j = 0; j < fake.measured; j++)
      if (fake.programs[j] == s[i]->program && strcmp(fake.texts[j], sb.s) == 0)
        fail_msg("measured twice: %s", sb.s);
    assert_true(fake.measured < FAKE_MOST);
    fake.programs[fake.measured] = s[i]->program;
    fake.texts[fake.measured++] = sb.s;
    results[i] = (struct tt_result){.outcome = TT_OUT_OK,
                                    .seconds = fake_seconds(s[i]),
                                    .spread = 0.001,
                                    .max_error = 0.125};
    if (fake.all_wrong || s[i]->program == fake.hopeless ||
        fake.measured % 10 == 7)
      results[i] = (struct tt_result){.outcome = TT_OUT_WRONG,
                                      .message = "C[0,1] is 3, not 4"};
    if (fake.measured == fake.interrupt_at)
      fake.interrupted = 1;
    if (!stream->done(stream->ctx, i, &results[i]))
      return true;
  }
  return true;
}

static void
fake_pump(struct tt_measurer *m)
{
  assert_ptr_equal(m, &fake);
  fake.pumped++;
}

static bool
fake_finalists(struct tt_measurer *m, int n, struct tt_schedule *const *s,
               struct tt_result *results, const char **error)
{
  (void)m;
  (void)error;
  fake.finals += n;
  for (int i = 0; i < n; i++) {
    results[i].seconds = s[i]->ncalls == 0 ? fake.plain : fake_seconds(s[i]);
    results[i].spread = fake.final_spread;
    if (fake.final_gain > 0)
      results[i].seconds = 1e-3 * (i == 0 ? 1 : 1 - fake.final_gain);
  }
  return true;
}

const struct tt_measure_ops fake_ops = {fake_open, fake_close, fake_measure,
                                        fake_pump, fake_finalists};
