/* Algorithm 1: batches until the budget is spent.
 *
 * Invariant: however a search ends, tt_tuned has the best schedule found.
 */
#include "config.h"
#include "tuner/tune.h"

#include "tuner/tune_run.h"

const struct tt_measure_ops tt_real_measure = {
    tt_measurer_new, tt_measurer_free, tt_measure, tt_measure_finalists};
const struct tt_space_ops tt_derived_space = {tt_space_new, tt_space_schedule,
                                              tt_space_default};

struct tt_tuned
tt_tune(struct tt_arena *arena, const struct tt_program *program,
        const struct tt_tune_options *options)
{
  struct tt_budget budget = {
      .start = tt_tune_now(),
      .seconds = options->seconds,
      .trials = options->trials,
  };
  struct tt_tuned out;
  struct tt_run r;

  tt_run_init(&r, arena, program, options, &budget, &out);
  tt_run_open(&r);
  while (tt_run_step(&r))
    ;
  tt_run_end(&r);
  tt_run_free(&r);
  return out;
}
