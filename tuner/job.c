/* One run of tcc-tune.  Owns the order of the steps and what is said on the
 * terminal, for each input:
 *
 *   read the file to check, or the schedule   (take_from_files)
 *   can the outputs be written?               (probe_outputs)
 *   source -> program                         (compile)
 *   machine                                   (find_target)
 *   a schedule: given, default, or            (choose_schedule)
 *
 * searched, for all inputs together           (tt_job_search)
 *
 *   texts of all outputs, written or compared (deliver)
 *
 * Invariant: of an input nothing is written before all that can fail has
 * succeeded; a step that fails has printed why, and the other inputs go on.
 */
#include "config.h"

#include "tuner/job.h"

#include "ir/passes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/build.h"
#include "tuner/banner.h"
#include "tuner/inputs.h"
#include "tuner/report.h"
#include "tuner/ui.h"

enum { NEWEST = 1000 }; /* architecture of CUDA */

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
    return tt_fail(TT_EXIT_INPUT, error);
  if (!tt_banner_options(job->arena, job->schedule_text, &theirs, &error))
    return tt_fail(TT_EXIT_INPUT,
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
  if (o->output && !ends_with(o->output, ".c") &&
      tt_options_language(o) == TT_LANGUAGE_C && !tt_output_special(o->output))
    return tt_fail(TT_EXIT_USAGE,
                   tt_arena_printf(job->arena,
                                   "-o '%s': the name must end in .c, .cu or "
                                   ".cl",
                                   o->output));
  for (int i = 0; i < N; i++) {
    for (int j = 0; paths[i] && j < i; j++)
      if (paths[j] && tt_output_same(paths[i], paths[j]))
        return tt_fail(
            TT_EXIT_USAGE,
            tt_arena_printf(job->arena, "two outputs to '%s'", paths[i]));
    if (paths[i] && tt_output_same(paths[i], o->input))
      return tt_fail(TT_EXIT_USAGE,
                     tt_arena_printf(job->arena, "the output '%s' is the input",
                                     paths[i]));
  }
  for (int i = 0; i < N && !o->check; i++) {
    const char *error = paths[i] ? tt_output_probe(job->arena, paths[i]) : NULL;
    if (error)
      return tt_fail(TT_EXIT_INPUT, error);
  }
  return TT_EXIT_DONE;
}

/* ---- the source -------------------------------------------------------- */

static enum tt_built_in
built_in(enum tt_language language)
{
  switch (language) {
  case TT_LANGUAGE_C:
    break;
  case TT_LANGUAGE_CUDA:
    return TT_BUILT_IN_CUDA;
  case TT_LANGUAGE_OPENCL:
    return TT_BUILT_IN_OPENCL;
  }
  return TT_BUILT_IN_NONE;
}

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
      .built_in = built_in(tt_options_language(o)),
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

static bool
has_output(const struct tt_program *p)
{
  bool any = false;
  for (int i = 0; i < p->ntensors; i++)
    any = any || p->tensors[i]->role == TT_OUTPUT;
  return any;
}

static enum tt_exit
compile(struct tt_job *job)
{
  struct tt_diags *diags = tt_diags_new(job->arena);
  struct tt_frontend_options fo = frontend_options(job);
  job->front = tt_compile_file(job->arena, diags, job->options->input, &fo,
                               job->options->dump == TT_DUMP_AST);
  tt_report_diags(diags);
  if (!job->front.program)
    return TT_EXIT_INPUT;
  tt_solve_congruences(job->front.program);
  tt_factor_sums(job->front.program, job->options->strict_fp);
  job->unit = unit_of(job->front.program);
  if (job->options->output && !has_output(job->front.program))
    return tt_fail(TT_EXIT_INPUT,
                   tt_arena_printf(job->arena,
                                   "%s has no output: there is nothing to "
                                   "compute (is it made to be included?)",
                                   job->options->input));
  return TT_EXIT_DONE;
}

/* ---- the machine ------------------------------------------------------- */

/* What is said of the machine, or else what was found out. */
static int64_t
said(int64_t given, int64_t found)
{
  return given < 0 ? found : given;
}

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
      .registers = (int)said(o->target.registers, registers),
      .l1 = said(o->target.l1, t.l1),
      .l2 = said(o->target.l2, t.l2),
      .l3 = said(o->target.l3, t.l3),
      .threads = (int)o->threads,
  };
  tt_detail(job, "target", job->target);
  tt_detail(job, "vectors",
            tt_arena_printf(job->arena, "%d bits, %d registers", o->vector_bits,
                            job->model.registers));
  tt_detail(job, "caches",
            tt_arena_printf(job->arena, "%lld, %lld, %lld KiB",
                            (long long)job->model.l1 / 1024,
                            (long long)job->model.l2 / 1024,
                            (long long)job->model.l3 / 1024));
}

/* ---- a schedule that is given ------------------------------------------ */

/* With a caret where the call is written; one made of choices has no place. */
static enum tt_exit
refused(const struct tt_job *job, const char *file, const struct tt_scall *bad,
        const struct tt_schedule *s)
{
  if (bad->span) {
    struct tt_diags *diags = tt_diags_new(job->arena);
    const struct tt_span *span = bad->span;
    tt_diag(diags, TT_D_SCHEDULE, *span, "%s", s->error);
    tt_report_diags(diags);
    return TT_EXIT_INPUT;
  }
  struct tt_sb call = {0};
  tt_scall_print(bad, &call);
  const char *text =
      tt_arena_printf(job->arena, "%s: %s: %s", file, call.s, s->error);
  tt_sb_free(&call);
  return tt_fail(TT_EXIT_INPUT, text);
}

/* A block with open choices: they are searched, or, where nothing is tuned,
 * the first that is legal is taken. */
static enum tt_exit
open_block(struct tt_job *job, const struct tt_sblock *block, const char *file)
{
  const struct tt_options *o = job->options;
  const struct tt_scall *bad;
  struct tt_space *space =
      tt_choices_space(job->arena, job->front.program, block, o->strict_fp);
  int *config = TT_ARRAY(job->arena, int, (size_t)space->nknobs + 1);
  (void)tt_choices_first(space, config);
  job->schedule = tt_choices_apply(job->arena, space, config, &bad);
  if (bad)
    return refused(job, file, bad, job->schedule);
  job->search = o->trials != 0 && o->output && !o->check;
  job->choices = block;
  return TT_EXIT_DONE;
}

static enum tt_exit
apply_block(struct tt_job *job, const struct tt_sblock *block, const char *file)
{
  const struct tt_scall *bad = NULL;
  if (tt_block_choices(block) > 0)
    return open_block(job, block, file);
  job->schedule =
      tt_schedule_new(job->arena, job->front.program, job->options->strict_fp);
  if (tt_schedule_apply(job->schedule, block, &bad))
    return TT_EXIT_DONE;
  return refused(job, file, bad, job->schedule);
}

static enum tt_exit
schedule_from_file(struct tt_job *job)
{
  job->origin = "the schedule given";
  struct tt_diags *diags = tt_diags_new(job->arena);
  const struct tt_sblock *block =
      tt_parse_schedule(job->arena, diags, job->schedule_file,
                        job->schedule_text, job->schedule_len);
  tt_report_diags(diags);
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
    tt_warn(
        tt_arena_printf(job->arena,
                        "none of the %d schedules in '%s' is used: all have "
                        "names",
                        p->nblocks, job->options->input));
  return p->nblocks == 1 ? &p->blocks[0] : NULL;
}

/* Does the code exceed no limit of GPUs? */
static bool
makes_kernels(struct tt_job *job, const struct tt_schedule *s)
{
  struct tt_nest nest;
  struct tt_gpu_code code;
  struct tt_sb text = {0};
  const char *error = NULL;
  if (tt_schedule_lower(job->arena, s, &nest, &error))
    error = tt_codegen_gpu(job->arena, &nest, TT_CUDA, NULL, &code, &text);
  tt_sb_free(&text);
  return !error;
}

/* Where the architecture is not known: which instruction of a newer one could
 * do a stage, if any. */
static void
hint_at_instruction(struct tt_job *job)
{
  struct tt_gpu_limits g = job->model.gpu;
  g.arch = NEWEST;
  const struct tt_schedule *s =
      tt_gpu_schedule(job->arena, job->front.program, &g,
                      job->options->strict_fp, TT_GPU_TENSORS);
  for (int i = 0; i < s->nstages && !job->hint; i++) {
    const struct tt_intrin *in = s->stages[i].intrin;
    if (in && in->built_in)
      job->hint = tt_arena_printf(
          job->arena,
          "%s: %s could compute it: name the GPU's architecture "
          "(--target=cuda:sm_%d or later)",
          s->stages[i].stage->out->name, in->name, tt_intrin_arch(in) / 10);
  }
}

/* That of the space where the device is known to be a CPU, else with tiles in
 * shared memory, those of instructions first, else plain. */
static struct tt_schedule *
gpu_schedule(struct tt_job *job)
{
  struct tt_arena *arena = job->arena;
  const struct tt_program *program = job->front.program;
  const struct tt_gpu_limits *g = &job->model.gpu;
  bool strict = job->options->strict_fp;
  struct tt_schedule *s = NULL;
  if (g->cpu) {
    struct tt_space *space =
        tt_gpu_space_new(arena, program, &job->model, strict);
    int *config = TT_ARRAY(arena, int, (size_t)space->nknobs + 1);
    tt_gpu_space_default(space, config);
    s = tt_gpu_space_schedule(arena, space, config);
  } else {
    s = tt_gpu_schedule(arena, program, g, strict, TT_GPU_TENSORS);
    if (!g->arch)
      hint_at_instruction(job);
    if (!makes_kernels(job, s))
      s = tt_gpu_schedule(arena, program, g, strict, TT_GPU_TILES);
  }
  return s && makes_kernels(job, s)
             ? s
             : tt_gpu_schedule(arena, program, g, strict, TT_GPU_PLAIN);
}

static enum tt_exit
default_schedule(struct tt_job *job)
{
  if (tt_options_language(job->options) != TT_LANGUAGE_C) {
    job->schedule = gpu_schedule(job);
    return TT_EXIT_DONE;
  }
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
  job->search = true;
  return TT_EXIT_DONE;
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
      return tt_fail(TT_EXIT_INPUT, error);
    const char *want = outs[i].text;
    have = tt_banner_strip(job->arena, have, &have_len);
    want = tt_banner_strip(job->arena, want, &want_len);
    if (have_len != want_len || memcmp(have, want, want_len) != 0)
      return tt_fail(TT_EXIT_INPUT,
                     tt_arena_printf(job->arena,
                                     "'%s' is not what '%s' gives: line %d "
                                     "differs (not counting what was measured)",
                                     path, job->options->input,
                                     first_difference(have, want)));
  }
  return TT_EXIT_DONE;
}

/* What does stages that no loops do; or what could, were the architecture
 * known. */
static void
instructions(const struct tt_job *job, struct tt_sb *sb)
{
  const struct tt_schedule *s = job->schedule;
  int sm = (int)job->options->target.sm;
  for (int i = 0; i < s->nstages; i++) {
    const struct tt_intrin *in = s->stages[i].intrin;
    const char *name = s->stages[i].stage->out->name;
    if (in && in->threads > 1 &&
        tt_options_language(job->options) != TT_LANGUAGE_CUDA)
      tt_sb_printf(sb, "%s: only CUDA C has %s: loops do its work here\n", name,
                   in->name);
    else if (in && sm > 0 && tt_intrin_arch(in) > 10 * sm)
      tt_sb_printf(
          sb,
          "%s: sm_%d does not have %s, which is of sm_%d: loops do its "
          "work there\n",
          name, sm, in->name, tt_intrin_arch(in) / 10);
    else if (in)
      tt_sb_printf(sb, "%s: computed by %s\n", name, in->name);
  }
  if (job->hint)
    tt_sb_printf(sb, "%s\n", job->hint);
}

static void
summary_json(const struct tt_job *job)
{
  static const char *const words[] = {"tuned", "reused", "interrupted",
                                      "no-candidate", "toolchain"};
  struct tt_sb sb = {0};
  tt_ui_json(&sb, words[job->tuned->status],
             job->several ? job->front.program->name : NULL, &job->tuned->final,
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
    tt_ui_stopped(&sb, t);
    if (t->final.stopped)
      tt_sb_putc(&sb, '\n');
  }
  instructions(job, &sb);
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
    return tt_fail(TT_EXIT_INPUT, error);
  if (job->options->check)
    return compare(job, n, outs);
  error = tt_outputs_commit(job->arena, n, outs);
  if (error)
    return tt_fail(TT_EXIT_INPUT, error);
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
  return error ? tt_fail(TT_EXIT_INPUT, error) : TT_EXIT_DONE;
}

static bool
is_early(const struct tt_options *o)
{
  return o->dump == TT_DUMP_AST || o->dump == TT_DUMP_PROGRAM;
}

/* All that comes before the search. */
static enum tt_exit
begin(struct tt_job *job)
{
  enum tt_exit status = take_from_files(job);
  tt_options_defaults(job->arena, job->options);
  if (!status)
    status = probe_outputs(job);
  if (!status)
    status = compile(job);
  if (!status && is_early(job->options))
    status = dump(job);
  job->over = !status && is_early(job->options) && !job->options->output;
  if (status || job->over)
    return status;
  find_target(job);
  if (tt_options_language(job->options) != TT_LANGUAGE_C)
    status = tt_job_find_device(job);
  return status ? status : choose_schedule(job);
}

/* All that comes after it. */
static enum tt_exit
end(struct tt_job *job)
{
  const struct tt_options *o = job->options;
  enum tt_exit status = job->status;
  if (status || job->over)
    return status;
  if (o->dump != TT_NOT_GIVEN && !is_early(o))
    status = dump(job);
  if (!status && o->output)
    status = deliver(job);
  return status;
}

/* The exit status of the whole: that of the first input that failed; but
 * that it was interrupted, if it was. */
static enum tt_exit
worst(int n, const struct tt_job *jobs)
{
  enum tt_exit status = TT_EXIT_DONE;
  for (int i = 0; i < n; i++)
    if (!status || jobs[i].status == TT_EXIT_INTERRUPTED)
      status = jobs[i].status;
  return status;
}

enum tt_exit
tt_job_run(struct tt_arena *arena, struct tt_options *o)
{
  struct tt_folders made = {0};
  struct tt_options *each;
  int n = o->inputs.n;
  struct tt_job *jobs = TT_ARRAY(arena, struct tt_job, (size_t)n + 1);
  const char *error;
  if (o->device && strcmp(o->device, "list") == 0)
    return tt_job_list_devices(arena, o);
  if (!tt_options_check(arena, o, &error))
    return tt_fail(TT_EXIT_USAGE, error);
  error = tt_inputs_options(arena, o, &each);
  if (error)
    return tt_fail(TT_EXIT_USAGE, error);
  error = o->check ? NULL : tt_inputs_folders(arena, o, &made);
  if (error)
    tt_fail(TT_EXIT_INPUT, error);
  for (int i = 0; i < n && !error; i++) {
    jobs[i] =
        (struct tt_job){.arena = arena, .options = &each[i], .several = n > 1};
    jobs[i].status = begin(&jobs[i]);
  }
  if (!error)
    tt_job_search(n, jobs);
  for (int i = 0; i < n && !error; i++)
    jobs[i].status = end(&jobs[i]);
  tt_inputs_tidy(&made);
  return error ? TT_EXIT_INPUT : worst(n, jobs);
}
