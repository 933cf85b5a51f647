/* One run of tcc-tune.  Owns the order of the steps and what is said on the
 * terminal:
 *
 *   read the file to check, or the schedule   (take_from_files)
 *   can the outputs be written?               (probe_outputs)
 *   source -> program                         (compile)
 *   machine and compiler                      (find_target)
 *   a schedule: given, default, or searched   (choose_schedule)
 *   texts of all outputs, written or compared (deliver)
 *
 * Invariant: nothing is written before all that can fail has succeeded, and
 * a step that fails has printed why.
 */
#include "config.h"

#include "tuner/job.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ir/passes.h"
#include "runtime/build.h"
#include "tuner/banner.h"
#include "tuner/ui.h"

/* Longest a candidate may run in all; a slower one is no candidate. */
#define CANDIDATE_SECONDS 10

/* ---- messages ---------------------------------------------------------- */

static bool
color(void)
{
  const char *term = getenv("TERM");
  return isatty(STDERR_FILENO) && !getenv("NO_COLOR") && term &&
         strcmp(term, "dumb") != 0;
}

static void
say(const char *severity, const char *paint, const char *text)
{
  if (color())
    fprintf(stderr, "tcc-tune: \033[%sm%s:\033[0m %s\n", paint, severity, text);
  else
    fprintf(stderr, "tcc-tune: %s: %s\n", severity, text);
}

static enum tt_exit
fail(enum tt_exit status, const char *text)
{
  say("error", "1;31", text);
  return status;
}

static void
warn(const char *text)
{
  say("warning", "1;35", text);
}

/* A line of -v. */
static void
detail(const struct tt_job *job, const char *what, const char *text)
{
  if (job->options->verbose && !job->options->quiet)
    fprintf(stderr, "tcc-tune: %s: %s\n", what, text);
}

static void
print_diags(const struct tt_diags *diags)
{
  struct tt_sb sb = {0};
  tt_diags_print(diags, &sb, color());
  fputs(tt_sb_str(&sb), stderr);
  tt_sb_free(&sb);
}

/* ---- what files say about the options ---------------------------------- */

/* --check takes schedule and options from the file it checks; --schedule
 * takes the width of vectors from an emitted file, because loops that were
 * vectorized for one width are not the same code with another. */
static enum tt_exit
take_from_files(struct tt_job *job)
{
  struct tt_options *o = job->options, theirs;
  const char *path = o->check ? o->output : o->schedule, *error;
  if (!path)
    return TT_EXIT_DONE;
  job->schedule_file = path;
  job->schedule_text =
      tt_read_file(job->arena, path, &job->schedule_len, &error);
  if (!job->schedule_text)
    return fail(TT_EXIT_INPUT, error);
  if (!tt_banner_options(job->arena, job->schedule_text, &theirs, &error))
    return fail(TT_EXIT_INPUT,
                tt_arena_printf(job->arena, "'%s': %s", path, error));
  if (o->check)
    tt_options_inherit(job->arena, o, &theirs);
  else if (o->vector_bits == TT_NOT_GIVEN && o->std != TT_STD_C99)
    o->vector_bits = theirs.vector_bits;
  return TT_EXIT_DONE;
}

/* ---- outputs ----------------------------------------------------------- */

static bool
ends_with(const char *s, const char *suffix)
{
  size_t n = strlen(s), m = strlen(suffix);
  return n > m && strcmp(s + n - m, suffix) == 0;
}

static enum tt_exit
probe_outputs(const struct tt_job *job)
{
  const struct tt_options *o = job->options;
  const char *paths[] = {o->output, o->header, o->emit_test, o->emit_bench,
                         o->deps_file};
  enum { N = sizeof paths / sizeof paths[0] };
  if (o->output && !ends_with(o->output, ".c") && !tt_output_special(o->output))
    return fail(TT_EXIT_USAGE,
                tt_arena_printf(job->arena,
                                "-o '%s': only C is written; the name must "
                                "end in .c",
                                o->output));
  for (int i = 0; i < N; i++) {
    for (int j = 0; paths[i] && j < i; j++)
      if (paths[j] && tt_output_same(paths[i], paths[j]))
        return fail(
            TT_EXIT_USAGE,
            tt_arena_printf(job->arena, "two outputs to '%s'", paths[i]));
    if (paths[i] && tt_output_same(paths[i], o->input))
      return fail(TT_EXIT_USAGE,
                  tt_arena_printf(job->arena, "the output '%s' is the input",
                                  paths[i]));
  }
  for (int i = 0; i < N && !o->check; i++) {
    const char *error = paths[i] ? tt_output_probe(job->arena, paths[i]) : NULL;
    if (error)
      return fail(TT_EXIT_INPUT, error);
  }
  return TT_EXIT_DONE;
}

/* ---- the source -------------------------------------------------------- */

static struct tt_frontend_options
frontend_options(const struct tt_job *job)
{
  const struct tt_options *o = job->options;
  struct tt_define *defines =
      TT_ARRAY(job->arena, struct tt_define, (size_t)o->defines.n + 1);
  for (int i = 0; i < o->defines.n; i++) {
    const char *d = o->defines.items[i];
    size_t n = strcspn(d, "=");
    defines[i].name = tt_arena_strndup(job->arena, d, n);
    defines[i].value = d + n + 1;
  }
  return (struct tt_frontend_options){
      .ndefines = o->defines.n,
      .defines = defines,
      .ninclude_dirs = o->include_dirs.n,
      .include_dirs = o->include_dirs.items,
  };
}

/* Rates of programs without a float in any stage are not of FLOPs. */
static const char *
unit_of(const struct tt_program *p)
{
  for (int i = 0; i < p->nstages; i++)
    if (tt_dtype_is_float(p->stages[i]->out->dtype))
      return "GFLOP/s";
  return "Gop/s";
}

static enum tt_exit
compile(struct tt_job *job)
{
  struct tt_diags *diags = tt_diags_new(job->arena);
  struct tt_frontend_options fo = frontend_options(job);
  job->front = tt_compile_file(job->arena, diags, job->options->input, &fo,
                               job->options->dump == TT_DUMP_AST);
  print_diags(diags);
  if (!job->front.program)
    return TT_EXIT_INPUT;
  job->unit = unit_of(job->front.program);
  return TT_EXIT_DONE;
}

/* ---- the machine ------------------------------------------------------- */

static void
find_target(struct tt_job *job)
{
  struct tt_options *o = job->options;
  struct tt_target t = tt_target_local();
  int bytes = t.vector_bytes, registers = t.registers;
  /* The flags decide what the code may use; a compiler that cannot be asked
   * is reported when it is needed. */
  (void)tt_compiler_vectors(o->cc, o->cflags, &bytes, &registers);
  if (o->vector_bits == TT_NOT_GIVEN)
    o->vector_bits = bytes * 8;
  job->cpus = t.cpus;
  job->target = tt_arena_strdup(job->arena, t.name);
  job->model = (struct tt_target_model){
      .vector_bytes = o->vector_bits / 8,
      .registers = registers,
      .l1 = t.l1,
      .l2 = t.l2,
      .l3 = t.l3,
      .threads = (int)o->threads,
  };
  detail(job, "target", job->target);
  detail(job, "vectors",
         tt_arena_printf(job->arena, "%d bits, %d registers", o->vector_bits,
                         registers));
}

/* ---- a schedule that is given ------------------------------------------ */

static bool
has_choices(const struct tt_sblock *block, const struct tt_scall **where)
{
  for (int i = 0; i < block->ncalls; i++)
    for (int k = 0; k < block->calls[i].nargs; k++)
      if (block->calls[i].args[k].kind == TT_SARG_ANY ||
          block->calls[i].args[k].kind == TT_SARG_SET) {
        *where = &block->calls[i];
        return true;
      }
  return false;
}

static enum tt_exit
apply_block(struct tt_job *job, const struct tt_sblock *block, const char *file)
{
  const struct tt_scall *bad = NULL;
  if (has_choices(block, &bad))
    return fail(TT_EXIT_INPUT,
                tt_arena_printf(job->arena,
                                "%s: %s.%s: a choice (? or {...}) is left "
                                "open; give one value",
                                file, bad->stage, bad->primitive));
  job->schedule =
      tt_schedule_new(job->arena, job->front.program, job->options->strict_fp);
  if (tt_schedule_apply(job->schedule, block, &bad))
    return TT_EXIT_DONE;
  return fail(TT_EXIT_INPUT,
              tt_arena_printf(job->arena, "%s: %s.%s: %s", file, bad->stage,
                              bad->primitive, job->schedule->error));
}

static enum tt_exit
schedule_from_file(struct tt_job *job)
{
  job->origin = "the schedule given";
  struct tt_diags *diags = tt_diags_new(job->arena);
  const struct tt_sblock *block =
      tt_parse_schedule(job->arena, diags, job->schedule_file,
                        job->schedule_text, job->schedule_len);
  print_diags(diags);
  if (!block)
    return TT_EXIT_INPUT;
  return apply_block(job, block, job->schedule_file);
}

/* The block of the source that is used: the one without a name, or the only
 * one. */
static const struct tt_sblock *
block_of_source(const struct tt_job *job)
{
  const struct tt_program *p = job->front.program;
  for (int i = 0; i < p->nblocks; i++)
    if (!p->blocks[i].name)
      return &p->blocks[i];
  if (p->nblocks > 1)
    warn(tt_arena_printf(job->arena,
                         "none of the %d schedules in '%s' is used: all have "
                         "names",
                         p->nblocks, job->options->input));
  return p->nblocks == 1 ? &p->blocks[0] : NULL;
}

static enum tt_exit
default_schedule(struct tt_job *job)
{
  struct tt_space *space = tt_space_new(job->arena, job->front.program,
                                        &job->model, job->options->strict_fp);
  int *config = TT_ARRAY(job->arena, int, (size_t)space->nknobs + 1);
  tt_space_default(space, config);
  job->schedule = tt_space_schedule(job->arena, space, config);
  if (!job->schedule) /* never illegal, but it may exceed a limit */
    job->schedule = tt_schedule_new(job->arena, job->front.program,
                                    job->options->strict_fp);
  return TT_EXIT_DONE;
}

/* ---- the search -------------------------------------------------------- */

static volatile sig_atomic_t interrupted;

static void
on_signal(int number)
{
  (void)number;
  interrupted = 1;
}

/* The first signal stops the search; a second one ends the program as it
 * always would. */
static void
catch_signals(void)
{
  struct sigaction a = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};
  sigaction(SIGINT, &a, NULL);
  sigaction(SIGTERM, &a, NULL);
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
  detail(job, "history", path);
  *history = tt_history_open(path, &error);
  if (*history)
    return TT_EXIT_DONE;
  const char *text =
      tt_arena_printf(job->arena, "history '%s' %s", path, error);
  if (job->options->history)
    return fail(TT_EXIT_INPUT, text);
  warn(tt_arena_printf(job->arena, "%s; nothing is remembered", text));
  return TT_EXIT_DONE;
}

static enum tt_exit
ask_compiler(struct tt_job *job)
{
  const struct tt_options *o = job->options;
  char *error = NULL, *version = tt_compiler_version(o->cc, &error);
  if (!version) {
    enum tt_exit status =
        fail(TT_EXIT_TOOLCHAIN, tt_arena_strdup(job->arena, error));
    free(error);
    return status;
  }
  job->compiler = tt_arena_printf(job->arena, "%s, %s", version, o->cflags);
  free(version);
  detail(job, "compiler", job->compiler);
  return TT_EXIT_DONE;
}

static struct tt_workload
workload(const struct tt_job *job)
{
  const struct tt_options *o = job->options;
  struct tt_sb sb = {0};
  tt_dump_program(&sb, job->front.program);
  struct tt_workload w = {
      .program = tt_program_hash(job->arena, job->front.program),
      .text = tt_arena_strdup(job->arena, tt_sb_str(&sb)),
      .target = job->target,
      .compiler = job->compiler,
      .options = tt_arena_printf(
          job->arena, "vector=%d std=%s workspace=%d strict-fp=%d threads=%d",
          o->vector_bits, o->std == TT_STD_C99 ? "c99" : "gnu11", o->workspace,
          o->strict_fp, (int)o->threads),
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

static struct tt_tune_options
tune_options(const struct tt_job *job, struct tt_history *history,
             struct tt_ui *ui)
{
  const struct tt_options *o = job->options;
  return (struct tt_tune_options){
      .trials = o->trials == TT_NOT_GIVEN ? -1 : (int)o->trials,
      .seconds = o->time,
      .seed = (uint64_t)o->seed,
      .search = (enum tt_search)o->search,
      .model = (enum tt_model)o->model,
      .target = job->model,
      .strict_fp = o->strict_fp,
      .retune = o->retune,
      .measure = {.cc = o->cc,
                  .cflags = trial_flags(job),
                  .jobs = job->cpus,
                  .threads = (int)o->threads,
                  .timeout = CANDIDATE_SECONDS,
                  .seed = (uint64_t)o->seed,
                  .codegen = tt_job_codegen(o)},
      .history = history,
      .workload = workload(job),
      .progress = tt_ui_progress,
      .progress_ctx = ui,
      .interrupted = &interrupted,
  };
}

static enum tt_exit
tune_status(struct tt_job *job)
{
  const struct tt_tuned *t = job->tuned;
  job->schedule = t->schedule;
  if (t->warning)
    warn(t->warning);
  switch (t->status) {
  case TT_TUNED:
  case TT_REUSED:
    return TT_EXIT_DONE;
  case TT_INTERRUPTED:
    if (t->schedule)
      return TT_EXIT_DONE; /* deliver() ends with 130 */
    return fail(TT_EXIT_INTERRUPTED, "interrupted before anything was found");
  case TT_NO_CANDIDATE:
    return fail(TT_EXIT_NO_CANDIDATE,
                t->error ? t->error : "no candidate passed its check");
  case TT_TOOLCHAIN:
    return fail(TT_EXIT_TOOLCHAIN, t->error);
  }
  return TT_EXIT_DONE;
}

static enum tt_exit
search(struct tt_job *job)
{
  const struct tt_options *o = job->options;
  struct tt_history *history;
  struct tt_ui ui;
  struct tt_tuned *tuned = TT_NEW(job->arena, struct tt_tuned);
  enum tt_exit status = ask_compiler(job);
  if (!status)
    status = open_history(job, &history);
  if (status)
    return status;
  tt_ui_start(&ui, stderr,
              o->quiet ? TT_PROGRESS_NONE : (enum tt_progress_mode)o->progress,
              job->front.program->name, job->unit);
  struct tt_tune_options to = tune_options(job, history, &ui);
  catch_signals();
  *tuned = tt_tune(job->arena, job->front.program, &to);
  tt_ui_clear(&ui);
  tt_history_close(history);
  job->tuned = tuned;
  return tune_status(job);
}

static enum tt_exit
choose_schedule(struct tt_job *job)
{
  const struct tt_options *o = job->options;
  const struct tt_sblock *block;
  if (job->schedule_file)
    return schedule_from_file(job);
  block = o->retune ? NULL : block_of_source(job);
  job->origin = "the schedule in the source";
  if (block)
    return apply_block(job, block, o->input);
  job->origin = "the default schedule";
  if (o->trials == 0 || !o->output)
    return default_schedule(job);
  return search(job);
}

/* ---- delivery ---------------------------------------------------------- */

/* The line where two texts begin to differ. */
static int
first_difference(const char *a, const char *b)
{
  int line = 1;
  for (; *a && *a == *b; a++, b++)
    line += *a == '\n';
  return line;
}

/* Compare with the files that are there.  What was measured may differ. */
static enum tt_exit
compare(const struct tt_job *job, int n, const struct tt_output *outs)
{
  for (int i = 0; i < n; i++) {
    const char *error, *path = outs[i].path;
    size_t have_len, want_len = outs[i].len;
    const char *have = tt_read_file(job->arena, path, &have_len, &error);
    if (!have)
      return fail(TT_EXIT_INPUT, error);
    const char *want = outs[i].text;
    have = tt_banner_strip(job->arena, have, &have_len);
    want = tt_banner_strip(job->arena, want, &want_len);
    if (have_len != want_len || memcmp(have, want, want_len) != 0)
      return fail(TT_EXIT_INPUT,
                  tt_arena_printf(job->arena,
                                  "'%s' is not what '%s' gives: line %d "
                                  "differs (not counting what was measured)",
                                  path, job->options->input,
                                  first_difference(have, want)));
  }
  return TT_EXIT_DONE;
}

static void
summary_json(const struct tt_job *job)
{
  static const char *const words[] = {"tuned", "reused", "interrupted",
                                      "no-candidate", "toolchain"};
  struct tt_sb sb = {0};
  tt_ui_json(&sb, words[job->tuned->status], &job->tuned->final,
             job->options->output);
  fprintf(stderr, "%s\n", sb.s);
  tt_sb_free(&sb);
}

static void
summary(const struct tt_job *job, int n, const struct tt_output *outs)
{
  const struct tt_tuned *t = job->tuned;
  struct tt_sb sb = {0};
  if (t && job->options->progress == TT_PROGRESS_JSON) {
    summary_json(job);
    return;
  }
  if (t && t->seconds > 0) {
    tt_sb_printf(&sb, "%s: ", job->front.program->name);
    tt_ui_speed(&sb, t->seconds, t->plain_seconds,
                tt_program_flops(job->front.program), job->unit);
    tt_sb_putc(&sb, '\n');
  }
  if (t && t->status == TT_REUSED)
    tt_sb_add(&sb, "from the history; --retune searches again\n");
  else if (t) {
    tt_ui_trials(&sb, &t->final);
    tt_sb_add(&sb, t->status == TT_INTERRUPTED ? ", interrupted\n" : "\n");
  }
  tt_sb_add(&sb, "wrote");
  for (int i = 0; i < n; i++)
    tt_sb_printf(&sb, "%s %s", i ? "," : "",
                 strcmp(outs[i].path, "-") == 0 ? "to standard output"
                                                : outs[i].path);
  if (!t)
    tt_sb_printf(&sb, " (%s, not measured)", job->origin);
  fprintf(stderr, "%s\n", sb.s);
  tt_sb_free(&sb);
}

static enum tt_exit
deliver(const struct tt_job *job)
{
  struct tt_output *outs;
  int n;
  const char *error = tt_emit(job, &outs, &n);
  if (error)
    return fail(TT_EXIT_INPUT, error);
  if (job->options->check)
    return compare(job, n, outs);
  error = tt_outputs_commit(job->arena, n, outs);
  if (error)
    return fail(TT_EXIT_INPUT, error);
  if (!job->options->quiet)
    summary(job, n, outs);
  return job->tuned && job->tuned->status == TT_INTERRUPTED
             ? TT_EXIT_INTERRUPTED
             : TT_EXIT_DONE;
}

static enum tt_exit
dump(const struct tt_job *job)
{
  struct tt_sb sb = {0};
  const char *error = tt_emit_dump(job, &sb);
  if (!error) {
    const struct tt_output out = {"-", tt_sb_str(&sb), sb.len};
    error = tt_outputs_commit(job->arena, 1, &out);
  }
  tt_sb_free(&sb);
  return error ? fail(TT_EXIT_INPUT, error) : TT_EXIT_DONE;
}

enum tt_exit
tt_job_run(struct tt_arena *arena, struct tt_options *o)
{
  struct tt_job job = {.arena = arena, .options = o};
  const char *error;
  bool early = o->dump == TT_DUMP_AST || o->dump == TT_DUMP_PROGRAM;
  if (!tt_options_check(arena, o, &error))
    return fail(TT_EXIT_USAGE, error);
  enum tt_exit status = take_from_files(&job);
  tt_options_defaults(arena, o);
  if (!status)
    status = probe_outputs(&job);
  if (!status)
    status = compile(&job);
  if (!status && early)
    status = dump(&job);
  if (status || (early && !o->output))
    return status;
  find_target(&job);
  status = choose_schedule(&job);
  if (!status && o->dump != TT_NOT_GIVEN && !early)
    status = dump(&job);
  if (!status && o->output)
    status = deliver(&job);
  return status;
}
