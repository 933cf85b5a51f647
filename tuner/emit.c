/* From a schedule to the texts of all files that were asked for.  Owns what
 * stands in which file; nothing is written here.
 */
#include "config.h"

#include "tuner/job.h"

#include <stdlib.h>
#include <string.h>

#include "ir/passes.h"
#include "tuner/banner.h"
#include "tuner/features.h"
#include "tuner/ui.h"

#define MAX_OUTPUTS 5

const char *
tt_base_name(const char *path)
{
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

struct tt_codegen_options
tt_job_codegen(const struct tt_options *o)
{
  return (struct tt_codegen_options){
      .vector_bytes = o->vector_bits > 0 ? o->vector_bits / 8 : 0,
      .c99 = o->std == TT_STD_C99,
      .workspace = (enum tt_workspace)o->workspace,
  };
}

/* Take the text out of a string builder. */
static void
take(const struct tt_job *job, struct tt_output *out, const char *path,
     struct tt_sb *sb)
{
  out->path = path;
  out->len = sb->len;
  out->text = tt_arena_strndup(job->arena, tt_sb_str(sb), sb->len);
  tt_sb_free(sb);
}

/* ---- the banner -------------------------------------------------------- */

static const struct tt_banner_measured *
measured(const struct tt_job *job)
{
  const struct tt_tuned *t = job->tuned;
  struct tt_sb speed = {0};
  if (!t || !(t->seconds > 0))
    return NULL;
  struct tt_banner_measured *m = TT_NEW(job->arena, struct tt_banner_measured);
  tt_ui_speed(&speed, t->seconds, t->plain_seconds,
              tt_program_flops(job->front.program), job->unit);
  m->speed = tt_arena_strdup(job->arena, tt_sb_str(&speed));
  m->check =
      t->checked
          ? tt_arena_printf(job->arena,
                            "checked against the plain loops, largest error "
                            "%.2g %% of the tolerance",
                            100 * t->max_error)
          : "not checked";
  m->target = job->target;
  m->compiler = job->compiler;
  tt_sb_free(&speed);
  return m;
}

static void
banner(const struct tt_job *job, const struct tt_code_sizes *sizes,
       struct tt_sb *sb)
{
  struct tt_sb words = {0}, schedule = {0};
  tt_options_code_words(job->options, &words);
  tt_schedule_print(job->schedule, &schedule);
  const struct tt_banner b = {
      .kernel = job->front.program->name,
      .source = tt_base_name(job->options->input),
      .code_words = tt_sb_str(&words),
      .sizes = *sizes,
      .measured = measured(job),
      .schedule = tt_sb_str(&schedule),
  };
  tt_banner_print(sb, &b);
  tt_sb_free(&words);
  tt_sb_free(&schedule);
}

/* ---- make's rule ------------------------------------------------------- */

static void
make_word(struct tt_sb *sb, const char *path)
{
  for (; *path; path++) {
    if (*path == ' ' || *path == '#')
      tt_sb_putc(sb, '\\');
    if (*path == '$')
      tt_sb_putc(sb, '$');
    tt_sb_putc(sb, *path);
  }
}

static void
deps(const struct tt_job *job, struct tt_sb *sb)
{
  make_word(sb, job->options->output);
  tt_sb_putc(sb, ':');
  for (int i = 0; i < job->front.nfiles; i++) {
    tt_sb_putc(sb, ' ');
    make_word(sb, job->front.files[i]);
  }
  if (job->options->schedule) {
    tt_sb_putc(sb, ' ');
    make_word(sb, job->options->schedule);
  }
  tt_sb_putc(sb, '\n');
}

/* ---- all files --------------------------------------------------------- */

/* What is made of one schedule; `gpu` holds nothing of C. */
struct emitting {
  const struct tt_job *job;
  enum tt_language language;
  struct tt_codegen_options cg;
  struct tt_code_sizes sizes;
  struct tt_gpu_code gpu;
};

static enum tt_gpu_language
gpu_language(const struct emitting *e)
{
  return e->language == TT_LANGUAGE_CUDA ? TT_CUDA : TT_OPENCL;
}

/* --header. */
static void
add_header(struct emitting *e, struct tt_output *out)
{
  const struct tt_program *p = e->job->front.program;
  struct tt_sb sb = {0};
  if (e->language == TT_LANGUAGE_C)
    tt_codegen_header(p, &e->cg, &e->sizes, &sb);
  else
    tt_codegen_gpu_header(e->job->arena, p, gpu_language(e), &e->gpu, &sb);
  take(e->job, out, e->job->options->header, &sb);
}

/* --emit-test or --emit-bench. */
static const char *
add_program(struct emitting *e, const char *path, bool bench,
            struct tt_output *out)
{
  const struct tt_job *job = e->job;
  const struct tt_program *p = job->front.program;
  struct tt_nest plain;
  struct tt_sb sb = {0};
  const char *error = NULL;
  if (!tt_plain_nest(job->arena, p, &plain, &error))
    return error;
  if (e->language != TT_LANGUAGE_C)
    error =
        tt_codegen_gpu_program(job->arena, p, &plain, gpu_language(e), &e->gpu,
                               tt_base_name(job->options->output), bench, &sb);
  else
    error = (bench ? tt_codegen_bench : tt_codegen_test)(
        job->arena, p, &plain, &e->cg, &e->sizes, &sb);
  take(job, out, path, &sb);
  return error;
}

static const char *
gpu_code(struct emitting *e, const struct tt_nest *nest, struct tt_sb *out)
{
  const char *error =
      tt_codegen_gpu(e->job->arena, nest, gpu_language(e), NULL, &e->gpu, out);
  if (!error)
    e->sizes = (struct tt_code_sizes){.workspace_bytes = e->gpu.workspace_bytes,
                                      .prepared_bytes = e->gpu.prepared_bytes};
  return error;
}

/* The code with its banner, and the sizes that are known from it. */
static const char *
add_code(struct emitting *e, struct tt_output *out)
{
  const struct tt_job *job = e->job;
  struct tt_nest nest;
  struct tt_sb code = {0}, all = {0};
  const char *error = NULL;
  if (!tt_schedule_lower(job->arena, job->schedule, &nest, &error))
    return error;
  error = e->language == TT_LANGUAGE_C
              ? tt_codegen_c(job->arena, &nest, &e->cg, &e->sizes, &code)
              : gpu_code(e, &nest, &code);
  if (!error) {
    banner(job, &e->sizes, &all);
    tt_sb_addn(&all, tt_sb_str(&code), code.len);
  }
  tt_sb_free(&code);
  take(job, out, job->options->output, &all);
  return error;
}

const char *
tt_emit(const struct tt_job *job, struct tt_output **outs, int *n)
{
  const struct tt_options *o = job->options;
  struct emitting e = {
      .job = job, .language = tt_options_language(o), .cg = tt_job_codegen(o)};
  struct tt_output *list = TT_ARRAY(job->arena, struct tt_output, MAX_OUTPUTS);
  struct tt_sb sb = {0};
  *outs = list;
  *n = 0;
  const char *error = add_code(&e, &list[(*n)++]);
  if (!error && o->header)
    add_header(&e, &list[(*n)++]);
  if (!error && o->emit_test)
    error = add_program(&e, o->emit_test, false, &list[(*n)++]);
  if (!error && o->emit_bench)
    error = add_program(&e, o->emit_bench, true, &list[(*n)++]);
  if (!error && o->deps) {
    deps(job, &sb);
    take(job, &list[(*n)++], o->deps_file, &sb);
  }
  return error;
}

/* ---- dumps ------------------------------------------------------------- */

static const char *
dump_loops(const struct tt_job *job, struct tt_sb *sb)
{
  struct tt_nest nest;
  struct tt_codegen_options cg = tt_job_codegen(job->options);
  const char *error = NULL;
  if (!tt_schedule_lower(job->arena, job->schedule, &nest, &error))
    return error;
  enum tt_language language = tt_options_language(job->options);
  if (language != TT_LANGUAGE_C)
    return tt_codegen_gpu_loops(
        job->arena, &nest, language == TT_LANGUAGE_CUDA ? TT_CUDA : TT_OPENCL,
        sb);
  nest = tt_codegen_passes(job->arena, &nest, &cg, &error);
  if (error)
    return error;
  if (nest.prepare) {
    tt_sb_add(sb, "prepare:\n");
    tt_dump_stmt(sb, nest.prepare, 0);
    tt_sb_add(sb, "body:\n");
  }
  tt_dump_stmt(sb, nest.body, 0);
  return NULL;
}

static void
dump_features(const struct tt_job *job, struct tt_sb *sb)
{
  enum tt_features_kind kind =
      job->options->model == TT_MODEL_TREEGRU
          ? TT_FEATURES_TREE
          : (enum tt_features_kind)job->options->features;
  int width = tt_features_width(kind, NULL);
  float *row = TT_ARRAY(job->arena, float, (size_t)width);
  tt_features(kind, job->schedule, &job->model, NULL, NULL, row);
  for (int i = 0; i < width; i++)
    tt_sb_printf(sb, "%d %.6g\n", i, (double)row[i]);
}

const char *
tt_emit_dump(const struct tt_job *job, struct tt_sb *sb)
{
  switch ((enum tt_dump)job->options->dump) {
  case TT_DUMP_AST:
    tt_sb_add(sb, job->front.ast_dump);
    return NULL;
  case TT_DUMP_PROGRAM:
    tt_dump_program(sb, job->front.program);
    return NULL;
  case TT_DUMP_SCHEDULE:
    tt_schedule_print(job->schedule, sb);
    return NULL;
  case TT_DUMP_LOOPS:
    return dump_loops(job, sb);
  case TT_DUMP_FEATURES:
    dump_features(job, sb);
    return NULL;
  }
  return NULL;
}
