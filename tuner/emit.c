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

typedef const char *program_fn(struct tt_arena *, const struct tt_program *,
                               const struct tt_nest *plain,
                               const struct tt_codegen_options *,
                               const struct tt_code_sizes *, struct tt_sb *);

/* Add --emit-test or --emit-bench. */
static const char *
add_program(const struct tt_job *job, const char *path, program_fn *fn,
            const struct tt_codegen_options *cg,
            const struct tt_code_sizes *sizes, struct tt_output *out)
{
  struct tt_nest plain;
  struct tt_sb sb = {0};
  const char *error = NULL;
  if (!tt_plain_nest(job->arena, job->front.program, &plain, &error))
    return error;
  error = fn(job->arena, job->front.program, &plain, cg, sizes, &sb);
  take(job, out, path, &sb);
  return error;
}

static const char *
gpu_code(const struct tt_job *job, const struct tt_nest *nest,
         enum tt_language language, struct tt_code_sizes *sizes,
         struct tt_sb *out)
{
  struct tt_gpu_code code;
  const char *error = tt_codegen_gpu(
      job->arena, nest, language == TT_LANGUAGE_CUDA ? TT_CUDA : TT_OPENCL,
      NULL, &code, out);
  if (!error)
    *sizes = (struct tt_code_sizes){.workspace_bytes = code.workspace_bytes,
                                    .prepared_bytes = code.prepared_bytes};
  return error;
}

/* The code with its banner, and the sizes that are known from it. */
static const char *
add_code(const struct tt_job *job, const struct tt_codegen_options *cg,
         struct tt_code_sizes *sizes, struct tt_output *out)
{
  struct tt_nest nest;
  struct tt_sb code = {0}, all = {0};
  const char *error = NULL;
  if (!tt_schedule_lower(job->arena, job->schedule, &nest, &error))
    return error;
  enum tt_language language = tt_options_language(job->options);
  error = language == TT_LANGUAGE_C
              ? tt_codegen_c(job->arena, &nest, cg, sizes, &code)
              : gpu_code(job, &nest, language, sizes, &code);
  if (!error) {
    banner(job, sizes, &all);
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
  struct tt_codegen_options cg = tt_job_codegen(o);
  struct tt_code_sizes sizes = {0};
  struct tt_output *list = TT_ARRAY(job->arena, struct tt_output, MAX_OUTPUTS);
  struct tt_sb sb = {0};
  *outs = list;
  *n = 0;
  const char *error = add_code(job, &cg, &sizes, &list[(*n)++]);
  if (!error && o->header) {
    tt_codegen_header(job->front.program, &cg, &sizes, &sb);
    take(job, &list[(*n)++], o->header, &sb);
    sb = (struct tt_sb){0};
  }
  if (!error && o->emit_test)
    error = add_program(job, o->emit_test, tt_codegen_test, &cg, &sizes,
                        &list[(*n)++]);
  if (!error && o->emit_bench)
    error = add_program(job, o->emit_bench, tt_codegen_bench, &cg, &sizes,
                        &list[(*n)++]);
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
