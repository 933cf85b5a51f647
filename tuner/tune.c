/* Algorithm 1 over one program or several: batches until the budget is spent
 * or nothing is to be gained.
 *
 * Invariant: however a search ends, its tt_tuned has the best schedule found.
 */
#include "config.h"
#include "tuner/tune.h"

#include <stdlib.h>

#include "ir/arena.h"
#include "tuner/tune_run.h"

const struct tt_measure_ops tt_real_measure = {
    tt_measurer_new, tt_measurer_free, tt_measure_stream, tt_measure_pump,
    tt_measure_finalists};
const struct tt_space_ops tt_derived_space = {tt_space_new, tt_space_schedule,
                                              tt_space_default};

/* A batch.  A search that was stopped gives its time back to the others, and
 * what it holds for measuring. */
static void
step(struct tt_run *r)
{
  tt_run_step(r);
  if (r->ended && r->out->final.stopped != NULL)
    tt_run_end(r);
}

void
tt_tune_several(struct tt_arena *arena, int n,
                const struct tt_program *const *programs,
                const struct tt_tune_options *options, struct tt_tuned *out)
{
  struct tt_budget budget = {
      .start = tt_tune_now(),
      .seconds = options->seconds,
      .trials = options->trials,
      .n = n,
      .runs = tt_xmalloc((size_t)n * sizeof *budget.runs),
  };
  struct tt_run *r;

  for (int i = 0; i < n; i++)
    tt_run_init(&budget.runs[i], arena, programs[i], &options[i], &budget,
                &out[i]);
  for (int i = 0; i < n; i++) {
    tt_run_open(&budget.runs[i]);
    step(&budget.runs[i]);
  }
  while ((r = tt_budget_next(&budget)) != NULL)
    step(r);
  for (int i = 0; i < n; i++)
    tt_run_end(&budget.runs[i]);
  for (int i = 0; i < n; i++)
    tt_run_free(&budget.runs[i]);
  free(budget.runs);
}

struct tt_tuned
tt_tune(struct tt_arena *arena, const struct tt_program *program,
        const struct tt_tune_options *options)
{
  struct tt_tuned out;

  tt_tune_several(arena, 1, &program, options, &out);
  return out;
}
