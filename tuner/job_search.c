/* The search of a run: what the tuning loop needs is gathered here, and its
 * answer judged.  Owns the signals while it runs.
 */
#include "config.h"

#include "tuner/job.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "ir/passes.h"
#include "runtime/build.h"
#include "tuner/report.h"
#include "tuner/ui.h"

/* Longest a candidate may run in all; a slower one is no candidate.  On a
 * device its driver starts and may compile in that time. */
#define CANDIDATE_SECONDS 10
#define DEVICE_SECONDS 30

/* Signals that come so soon after the first one are the same wish: timeout(1)
 * sends its signal twice. */
#define SAME_SIGNAL_SECONDS 0.5

static volatile sig_atomic_t interrupted;
static double interrupted_at;

/* The first signal stops the search; a later one ends the program as it
 * always would. */
static void
on_signal(int number)
{
  double now = tt_now();
  if (!interrupted) {
    interrupted = 1;
    interrupted_at = now;
  } else if (now - interrupted_at > SAME_SIGNAL_SECONDS) {
    signal(number, SIG_DFL);
    raise(number);
  }
}

static void
catch_signals(void)
{
  /* All are held back while one is handled. */
  struct sigaction a = {.sa_handler = on_signal}, old;
  sigfillset(&a.sa_mask);
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
  /* Under nohup the end of the terminal is no reason to stop. */
  if (sigaction(SIGHUP, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
    sigaction(SIGHUP, &a, NULL);
}

/* A history that was asked for must work; the one of the cache folder may be
 * out of reach, and then nothing is remembered. */
static enum tt_exit
open_history(const struct tt_job *job, struct tt_history **history)
{
  const char *path = job->options->history, *error = NULL;
  *history = NULL;
  if (!path)
    path = tt_history_default_path(job->arena);
  if (!path)
    return TT_EXIT_DONE;
  tt_detail(job, "history", path);
  *history = tt_history_open(path, &error);
  if (*history)
    return TT_EXIT_DONE;
  const char *text =
      tt_arena_printf(job->arena, "history '%s' %s", path, error);
  if (job->options->history)
    return tt_fail(TT_EXIT_INPUT, text);
  tt_warn(tt_arena_printf(job->arena, "%s; nothing is remembered", text));
  return TT_EXIT_DONE;
}

/* The compiler of CUDA is the one that PATH has.  Spills are errors: what
 * spills is slow. */
static const char *
nvcc_flags(const struct tt_job *job)
{
  return tt_arena_printf(job->arena,
                         "-O3 -arch=sm_%d --forward-unknown-to-host-compiler "
                         "-Xptxas=--warn-on-spills,--warning-as-error",
                         job->sm);
}

static enum tt_exit
ask_nvcc(int n, struct tt_job *jobs)
{
  char *error = NULL, *version = tt_compiler_version("nvcc", &error);
  if (!version) {
    const char *text = tt_arena_printf(jobs->arena,
                                       "%s; nothing can be measured "
                                       "(--trials=0 takes the default "
                                       "schedule)",
                                       error);
    free(error);
    return tt_fail(TT_EXIT_TOOLCHAIN, text);
  }
  for (int i = 0; i < n; i++)
    jobs[i].compiler =
        tt_arena_printf(jobs->arena, "%s, %s", version, nvcc_flags(&jobs[i]));
  free(version);
  tt_detail(jobs, "compiler", jobs->compiler);
  return TT_EXIT_DONE;
}

/* The same for all jobs. */
static enum tt_exit
ask_compiler(int n, struct tt_job *jobs)
{
  const struct tt_options *o = jobs->options;
  char *error = NULL, *version = tt_compiler_version(o->cc, &error);
  if (!version) {
    enum tt_exit status =
        tt_fail(TT_EXIT_TOOLCHAIN, tt_arena_strdup(jobs->arena, error));
    free(error);
    return status;
  }
  for (int i = 0; i < n; i++)
    jobs[i].compiler =
        tt_arena_printf(jobs->arena, "%s, %s", version, o->cflags);
  free(version);
  switch (tt_options_language(o)) {
  case TT_LANGUAGE_C:
    break;
  case TT_LANGUAGE_OPENCL:
    for (int i = 0; i < n; i++)
      jobs[i].compiler = "the driver's, -cl-std=CL1.2";
    break;
  case TT_LANGUAGE_CUDA:
    return ask_nvcc(n, jobs);
  }
  tt_detail(jobs, "compiler", jobs->compiler);
  return TT_EXIT_DONE;
}

/* What is timed here for a machine described as another one is no answer for
 * this one. */
static const char *
target_words(const struct tt_job *job)
{
  if (!job->options->target.given)
    return "";
  struct tt_sb sb = {0};
  tt_sb_add(&sb, " target=");
  tt_machine_print(&job->options->target, &sb);
  const char *text = tt_arena_strdup(job->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static struct tt_workload
workload(const struct tt_job *job)
{
  const struct tt_options *o = job->options;
  struct tt_sb sb = {0};
  enum tt_language language = tt_options_language(o);
  tt_dump_program(&sb, job->front.program);
  if (language != TT_LANGUAGE_C) {
    struct tt_workload g = {
        .program = tt_program_hash(job->arena, job->front.program),
        .text = tt_arena_strdup(job->arena, tt_sb_str(&sb)),
        .target = job->target,
        .compiler = job->compiler,
        .options =
            tt_arena_printf(job->arena, "language=%s strict-fp=%d%s",
                            language == TT_LANGUAGE_CUDA ? "cuda" : "opencl",
                            o->strict_fp, target_words(job)),
        .source = job->front.source,
    };
    tt_sb_free(&sb);
    return g;
  }
  struct tt_workload w = {
      .program = tt_program_hash(job->arena, job->front.program),
      .text = tt_arena_strdup(job->arena, tt_sb_str(&sb)),
      .target = job->target,
      .compiler = job->compiler,
      .options = tt_arena_printf(
          job->arena, "vector=%d std=%s workspace=%d strict-fp=%d threads=%d%s",
          o->vector_bits, o->std == TT_STD_C99 ? "c99" : "gnu11", o->workspace,
          o->strict_fp, (int)o->threads, target_words(job)),
      .source = job->front.source,
  };
  tt_sb_free(&sb);
  return w;
}

/* The flags of a trial: those given, the language, and OpenMP where more
 * than one core may be used. */
static const char *
trial_flags(const struct tt_job *job)
{
  const struct tt_options *o = job->options;
  return tt_arena_printf(job->arena, "%s -std=%s%s", o->cflags,
                         o->std == TT_STD_C99 ? "c99" : "gnu11",
                         o->threads > 1 ? " -fopenmp" : "");
}

static struct tt_search_params
search_params(const struct tt_options *o)
{
  struct tt_search_params p = tt_search_defaults;
  if (o->epsilon != TT_NOT_GIVEN)
    p.epsilon = o->epsilon;
  if (o->scouts != TT_NOT_GIVEN)
    p.scouts = o->scouts;
  if (o->lambda != TT_NOT_GIVEN)
    p.lambda = (int)o->lambda;
  if (o->alpha != TT_NOT_GIVEN)
    p.alpha = o->alpha;
  return p;
}

/* What all jobs of a run share. */
struct shared {
  struct tt_history *history;
  struct tt_ui ui;
  struct tt_claim claim;
};

static struct tt_tune_options
tune_options(const struct tt_job *job, struct shared *shared)
{
  const struct tt_options *o = job->options;
  enum tt_language language = tt_options_language(o);
  return (struct tt_tune_options){
      .trials = o->trials == TT_NOT_GIVEN ? -1 : (int)o->trials,
      .seconds = o->time,
      .min_gain = o->min_gain,
      .seed = (uint64_t)o->seed,
      .search = (enum tt_search)o->search,
      .model = (enum tt_model)o->model,
      .objective = (enum tt_objective)o->objective,
      .features = (enum tt_features_kind)o->features,
      .acquisition = (enum tt_acquisition)o->acquisition,
      .params = search_params(o),
      .target = job->model,
      .strict_fp = o->strict_fp,
      .retune = o->retune,
      .no_transfer = o->no_transfer,
      .transfer_any = o->transfer_any,
      .measure = {.on = language == TT_LANGUAGE_C      ? TT_ON_CPU
                        : language == TT_LANGUAGE_CUDA ? TT_ON_CUDA
                                                       : TT_ON_OPENCL,
                  .device = job->device,
                  .nvcc = "nvcc",
                  .nvflags = nvcc_flags(job),
                  .cc = o->cc,
                  .cflags = trial_flags(job),
                  .jobs = job->cpus,
                  .threads = (int)o->threads,
                  .timeout = language == TT_LANGUAGE_C ? CANDIDATE_SECONDS
                                                       : DEVICE_SECONDS,
                  .patience = o->patience,
                  .seed = (uint64_t)o->seed,
                  .codegen = tt_job_codegen(o),
                  .claim = &shared->claim},
      .history = shared->history,
      .workload = workload(job),
      .progress = tt_ui_progress,
      .progress_ctx = &shared->ui,
      .interrupted = &interrupted,
  };
}

/* Names the input where there are several. */
static const char *
of_input(const struct tt_job *job, const char *text)
{
  return job->several
             ? tt_arena_printf(job->arena, "%s: %s", job->options->input, text)
             : text;
}

static enum tt_exit
tune_status(struct tt_job *job)
{
  const struct tt_tuned *t = job->tuned;
  job->schedule = t->schedule;
  if (t->warning)
    tt_warn(of_input(job, t->warning));
  if (t->learned_records > 0)
    tt_detail(job, "transfer",
              tt_arena_printf(job->arena, "%d records of %d program%s",
                              t->learned_records, t->learned_programs,
                              t->learned_programs == 1 ? "" : "s"));
  else if (t->pretrained)
    tt_detail(job, "transfer", "the model that ships");
  switch (t->status) {
  case TT_TUNED:
  case TT_REUSED:
    return TT_EXIT_DONE;
  case TT_INTERRUPTED:
    if (t->schedule)
      return TT_EXIT_DONE; /* deliver() ends with 130 */
    return tt_fail(TT_EXIT_INTERRUPTED,
                   of_input(job, "interrupted before anything was found"));
  case TT_NO_CANDIDATE:
    return tt_fail(
        TT_EXIT_NO_CANDIDATE,
        of_input(job, t->error ? t->error : "no candidate passed its check"));
  case TT_TOOLCHAIN:
    return tt_fail(TT_EXIT_TOOLCHAIN, of_input(job, t->error));
  }
  return TT_EXIT_DONE;
}

/* The block as one line: records of one set of choices say nothing about
 * another. */
static const char *
block_text(const struct tt_job *job, const struct tt_sblock *block)
{
  struct tt_sb sb = {0};
  for (int i = 0; i < block->ncalls; i++) {
    tt_scall_print(&block->calls[i], &sb);
    tt_sb_putc(&sb, ';');
  }
  const char *text = tt_arena_strdup(job->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* ---- the space of a block with open choices ---------------------------- */

/* The block is the only one of the program that the loop is given. */
static struct tt_space *
open_choices(struct tt_arena *arena, const struct tt_program *program,
             const struct tt_target_model *model, bool strict_fp)
{
  (void)model;
  return tt_choices_space(arena, program, &program->blocks[0], strict_fp);
}

static void
first_choices(const struct tt_space *space, int *config)
{
  (void)tt_choices_first(space, config);
}

static const struct tt_space_ops choices_ops = {
    .open = open_choices,
    .schedule = tt_choices_schedule,
    .initial = first_choices,
};

static const struct tt_space_ops gpu_ops = {
    .open = tt_gpu_space_new,
    .schedule = tt_gpu_space_schedule,
    .initial = tt_gpu_space_default,
};

/* The program as the loop is given it: the winner refers to that. */
static const struct tt_program *
searched_program(struct tt_job *job, struct tt_tune_options *to)
{
  struct tt_program *program = TT_NEW(job->arena, struct tt_program);
  *program = *job->front.program;
  if (job->choices) {
    program->nblocks = 1;
    program->blocks = job->choices;
    to->space_ops = &choices_ops;
    to->workload.options =
        tt_arena_printf(job->arena, "%s choices=%s", to->workload.options,
                        block_text(job, job->choices));
  } else if (tt_options_language(job->options) != TT_LANGUAGE_C) {
    to->space_ops = &gpu_ops;
  }
  return program;
}

static void
search(int n, struct tt_job **jobs, struct shared *shared)
{
  struct tt_arena *arena = jobs[0]->arena;
  const struct tt_options *o = jobs[0]->options;
  size_t max = (size_t)n;
  struct tt_tuned *tuned = TT_ARRAY(arena, struct tt_tuned, max);
  struct tt_tune_options *options =
      TT_ARRAY(arena, struct tt_tune_options, max);
  const struct tt_program **programs =
      TT_ARRAY(arena, const struct tt_program *, max);
  struct tt_ui_program *shown = TT_ARRAY(arena, struct tt_ui_program, max);
  for (int i = 0; i < n; i++) {
    options[i] = tune_options(jobs[i], shared);
    programs[i] = searched_program(jobs[i], &options[i]);
    if (shared->history) { /* without it others learn nothing of this one */
      const char *error = NULL;
      (void)tt_history_add_source(shared->history, &options[i].workload,
                                  &error);
    }
    shown[i] =
        (struct tt_ui_program){jobs[i]->front.program->name, jobs[i]->unit};
    jobs[i]->tuned = &tuned[i];
  }
  tt_ui_start(&shared->ui, stderr,
              o->quiet ? TT_PROGRESS_NONE : (enum tt_progress_mode)o->progress,
              n, shown);
  catch_signals();
  tt_tune_several(arena, n, programs, options, tuned);
  tt_ui_clear(&shared->ui);
  for (int i = 0; i < n; i++)
    jobs[i]->status = tune_status(jobs[i]);
}

void
tt_job_search(int n, struct tt_job *jobs)
{
  struct shared shared = {.claim = {.cpu = -1, .lock = -1}};
  struct tt_job **wanted =
      TT_ARRAY(jobs->arena, struct tt_job *, (size_t)n + 1);
  enum tt_exit status;
  int k = 0;
  for (int i = 0; i < n; i++)
    if (!jobs[i].status && jobs[i].search)
      wanted[k++] = &jobs[i];
  if (k == 0)
    return;
  status = ask_compiler(n, jobs);
  if (!status)
    status = open_history(wanted[0], &shared.history);
  for (int i = 0; i < k && status; i++)
    wanted[i]->status = status;
  if (!status)
    search(k, wanted, &shared);
  tt_history_close(shared.history);
  tt_claim_release(&shared.claim);
}
