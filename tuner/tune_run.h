/* The search of one program as an object that goes on a batch at a time, so
 * that several programs can share a budget.  Private to tuner/tune*.c.
 *
 *   tt_run_init, tt_run_open, tt_run_step..., tt_run_end, tt_run_free
 */
#ifndef TT_TUNE_RUN_H
#define TT_TUNE_RUN_H

#include "tuner/recorder.h"
#include "tuner/trials.h"
#include "tuner/tune.h"

enum {
  TT_MAX_BATCH = 64,
  TT_MAX_STREAM = 8 * TT_MAX_BATCH /* one batch that follows another */
};

struct tt_searcher;

/* What a call of the tuner may spend, and the programs that share it. */
struct tt_budget {
  double start;   /* monotonic seconds */
  double seconds; /* <= 0: unlimited */
  int trials;     /* < 0: unlimited */
  int n;
  struct tt_run *runs;
};

struct tt_run {
  const struct tt_program *program;
  const struct tt_tune_options *o;
  const struct tt_measure_ops *measure;
  const struct tt_space_ops *space_ops;
  struct tt_budget *budget;
  struct tt_arena *arena; /* the caller's: the result */
  struct tt_arena *mine;  /* the space, records that wait */
  struct tt_arena *score; /* a schedule being scored */
  struct tt_arena *batch; /* schedules being measured */
  struct tt_space *space;
  struct tt_measurer *measurer;
  struct tt_cost_model *model, *global; /* global: a part of `model` */
  struct tt_searcher *searcher;
  struct tt_trials trials;
  struct tt_tuned *out;
  bool ended;        /* another batch makes no sense */
  bool done;         /* `out` is what it will be */
  bool broken;       /* the toolchain failed */
  const char *error; /* of it; NULL: none was given */
  double spent;      /* seconds, up to the last entry */
  double entry;      /* when the run was last entered */
  double busy;       /* seconds in tt_run_step() */
  int resumed;       /* trials of earlier runs that count */
  int measured;      /* trials of this run */
  bool timed_out, default_done;
  bool stepping; /* within tt_run_step() */
  int pending;   /* proposed, and not yet measured */
  int looks;     /* at configurations, by the search */
  /* of the batches of a step, which follow one another without a pause */
  struct tt_schedule *schedules[TT_MAX_STREAM];
  const char *texts[TT_MAX_STREAM];
  const int *configs[TT_MAX_STREAM];
  int nbatch;
  double most_copies; /* of statements: more take too long to build */
  struct tt_recorder recorder;
  const char *failure; /* how the first trial that failed did */
};

/* ---- tune_run.c -------------------------------------------------------- */

/* Nothing is done yet; tt_run_free() is due from now on.  What is given must
 * outlive the run. */
void tt_run_init(struct tt_run *, struct tt_arena *, const struct tt_program *,
                 const struct tt_tune_options *, struct tt_budget *,
                 struct tt_tuned *out);
/* Is there an answer already?  Else times the plain loops, takes up earlier
 * records, makes ready to search.  `done` is set when there is nothing to
 * search. */
void tt_run_open(struct tt_run *);
/* Proposes and measures a batch, or finds that the search has ended (budget,
 * little to gain, exhausted, interrupted, broken). */
void tt_run_step(struct tt_run *);
/* The finalists' turns and the choice; then `done`, and nothing is kept for
 * measuring. */
void tt_run_end(struct tt_run *);
void tt_run_free(struct tt_run *);

double tt_tune_now(void);
/* Seconds that its trials have taken. */
double tt_run_busy(const struct tt_run *);
bool tt_run_interrupted(const struct tt_run *);
void tt_run_report(struct tt_run *, const char *phase);
/* `format` has one %s.  The first warning is kept. */
void tt_run_warn(struct tt_run *, const char *format, const char *why);
/* Seconds of the fastest trial; 0: none was right. */
double tt_run_best(const struct tt_run *);
/* The last try for results that could not be written to the history. */
void tt_run_flush(struct tt_run *);
/* Where the space begins: the default configuration, owned by the run. */
const int *tt_run_initial(struct tt_run *);
/* Tell the history that the schedule with that text has won. */
void tt_run_write_finished(struct tt_run *, const char *text);

/* ---- tune_search.c ----------------------------------------------------- */

void tt_run_open_search(struct tt_run *);
/* Put the configuration's schedule into the batch unless it is one that was
 * measured, or is in the batch already. */
bool tt_run_fresh(void *run, const int *config);
/* Fit the model, if there is one, to all trials. */
void tt_run_learn(struct tt_run *);
/* Fill the batch with up to n more schedules. */
void tt_run_propose(struct tt_run *, int n);

/* ---- tune_budget.c ----------------------------------------------------- */

/* Seconds left for trials; a large number without a budget. */
double tt_run_time_left(const struct tt_run *);
/* Trials of all programs, those of earlier runs that count included. */
int tt_budget_used(const struct tt_budget *);
/* How many trials the next batch should have; 0: the budget is spent. */
int tt_run_next_batch(const struct tt_run *);
/* What a second (or, without a budget of time, a trial) of the next batch is
 * expected to gain. */
double tt_run_promise(const struct tt_run *);
/* Is what can still be gained within noise?  `final`: that ends the search;
 * says so in the result. */
bool tt_run_enough(struct tt_run *, bool final);
/* The run that the next batch is for; of equals that with the fewest trials.
 * NULL: all have ended. */
struct tt_run *tt_budget_next(const struct tt_budget *);
/* How many finalists the time that is left allows, at least two. */
int tt_run_finalists(const struct tt_run *);

/* ---- tune_final.c ------------------------------------------------------ */

/* Time the finalists in turns and choose; nothing is chosen when that is
 * interrupted.  false: the toolchain failed. */
bool tt_run_choose(struct tt_run *);
/* Sets what a run that was cut short gives, if it was. */
void tt_run_cut_short(struct tt_run *);

#endif
