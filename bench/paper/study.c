/* One search of the studies of "Learning to Optimize Tensor Programs":
 *
 *   study OPTION... -- [TUNING OPTION...] FILE.te
 *
 * searches a schedule as the options of tcc-tune after `--` say, and prints a
 * line whenever the best gets better, and one for the last trial:
 *
 *   study, program, variant, seed, trial, GFLOP/s, seconds of building so far
 *
 * with tabs between.  How it searches:
 *
 *   --mode=live      the tuning loop; measured is what neither --store nor
 *                    --random has, and it is added to --store
 *   --mode=table     the tuning loop's model picks among the records of
 *                    --random; nothing is measured
 *   --mode=random    the records of --random in an order of the seed's
 *   --mode=teach     no search: what --store and --random have of the program
 *                    is added to the history (--history of tcc-tune) that
 *                    searches of other programs then learn from
 *
 * Exit status: 0 done; 75: the time for measuring was over, or there is no
 * --store to measure for; nothing was printed, and the same command goes on
 * where this one was. */
#include "config.h"

#include "bench/paper/study.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "ir/passes.h"
#include "runtime/build.h"
#include "runtime/runner.h"
#include "runtime/target.h"
#include "tuner/options.h"
#include "tuner/random.h"

enum { DONE, FAILED, USAGE, AGAIN = 75 };
enum mode { LIVE, TABLE, RANDOM, TEACH };
/* Copies of statements in a first schedule drawn at random: no more than
 * leaves the limit of the search what it is. */
enum { FIRST_COPIES = 256 };

static const char usage[] =
    "usage: study --mode=live|table|random|teach --study=WORD --name=WORD\n"
    "             --variant=WORD [--random=FILE.db] [--store=FILE.db]\n"
    "             [--from=default|scratch] [--seconds=N]\n"
    "             -- [OPTION OF TCC-TUNE...] FILE.te\n";

struct asked {
  enum mode mode;
  const char *study, *name, *variant, *random, *store, *from;
  double seconds; /* for measuring */
  struct tt_options tune;
};

/* A whole run. */
struct run {
  struct tt_arena *arena;
  struct asked asked;
  struct tt_program *program;
  const char *source;
  struct tt_target target;
  struct tt_tune_options o;
  struct memo memo;
  struct tt_history *history; /* to learn other programs from, or NULL */
  struct tt_sb lines;
  int trials;
  double best, build_seconds;
};

static int
fail(const char *what, const char *why)
{
  fprintf(stderr, "study: %s%s%s\n", what, why ? ": " : "", why ? why : "");
  return FAILED;
}

/* ---- the command line -------------------------------------------------- */

static bool
mode_of(const char *word, enum mode *mode)
{
  static const char *const words[] = {"live", "table", "random", "teach"};

  for (int i = 0; i <= TEACH; i++)
    if (strcmp(word, words[i]) == 0) {
      *mode = (enum mode)i;
      return true;
    }
  return false;
}

/* Take `word` if it is --key=VALUE. */
static bool
take(const char *word, const char *key, const char **value)
{
  size_t n = strlen(key);

  if (strncmp(word, key, n) != 0 || word[n] != '=')
    return false;
  *value = word + n + 1;
  return true;
}

static bool
parse_own(const char *word, struct asked *a)
{
  const char *value;
  char *end;

  if (take(word, "--mode", &value))
    return mode_of(value, &a->mode);
  if (take(word, "--seconds", &value)) {
    a->seconds = strtod(value, &end);
    return *value != '\0' && *end == '\0' && a->seconds >= 0;
  }
  return take(word, "--study", &a->study) || take(word, "--name", &a->name) ||
         take(word, "--variant", &a->variant) ||
         take(word, "--random", &a->random) ||
         take(word, "--store", &a->store) || take(word, "--from", &a->from);
}

static bool
complete(const struct asked *a)
{
  bool from =
      strcmp(a->from, "default") == 0 || strcmp(a->from, "scratch") == 0;

  return a->study && a->name && a->variant && from && a->tune.input &&
         (a->tune.trials > 0 || a->mode == TEACH) &&
         (a->mode == LIVE || a->random);
}

static int
parse(struct tt_arena *arena, int argc, char **argv, struct asked *a)
{
  const char *error = NULL;
  int i = 1;

  *a = (struct asked){.from = "default", .seconds = 1e9};
  a->tune = tt_options_none();
  for (; i < argc && strcmp(argv[i], "--") != 0; i++)
    if (!parse_own(argv[i], a)) {
      fail("what is", argv[i]);
      fputs(usage, stderr);
      return USAGE;
    }
  if (i < argc &&
      !tt_options_parse(arena, argc - i - 1, (const char *const *)argv + i + 1,
                        &a->tune, &error)) {
    fail(error, NULL);
    return USAGE;
  }
  if (!complete(a)) {
    fputs(usage, stderr);
    return USAGE;
  }
  a->tune.output = "-";
  tt_options_defaults(arena, &a->tune);
  return DONE;
}

/* ---- the program and the machine --------------------------------------- */

static bool
compile(struct run *r)
{
  const struct tt_options *o = &r->asked.tune;
  struct tt_diags *diags = tt_diags_new(r->arena);
  struct tt_define *defines =
      TT_ARRAY(r->arena, struct tt_define, (size_t)o->defines.n + 1);

  for (int i = 0; i < o->defines.n; i++) {
    const char *d = o->defines.items[i];
    size_t n = strcspn(d, "=");
    defines[i].name = tt_arena_strndup(r->arena, d, n);
    defines[i].value = d + n + 1;
  }
  struct tt_frontend_options fo = {.ndefines = o->defines.n,
                                   .defines = defines};
  struct tt_frontend_result front =
      tt_compile_file(r->arena, diags, o->input, &fo, false);
  r->program = front.program;
  r->source = front.source;
  if (r->program == NULL)
    return false;
  tt_solve_congruences(r->program);
  tt_factor_sums(r->program, o->strict_fp);
  return true;
}

/* What tcc-tune says of the same run, so that they share histories. */
static bool
workload(struct run *r, struct tt_workload *w)
{
  struct tt_options *o = &r->asked.tune;
  char *error = NULL, *version = tt_compiler_version(o->cc, &error);
  struct tt_sb sb = {0};

  if (version == NULL) {
    fail(error, NULL);
    free(error);
    return false;
  }
  tt_dump_program(&sb, r->program);
  *w = (struct tt_workload){
      .program = tt_program_hash(r->arena, r->program),
      .text = tt_arena_strdup(r->arena, tt_sb_str(&sb)),
      .target = r->target.name,
      .compiler = tt_arena_printf(r->arena, "%s, %s", version, o->cflags),
      .options = tt_arena_printf(
          r->arena, "vector=%d std=gnu11 workspace=0 strict-fp=%d threads=%d",
          o->vector_bits, o->strict_fp, (int)o->threads),
      .source = r->source};
  tt_sb_free(&sb);
  free(version);
  return true;
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

static bool
set_options(struct run *r)
{
  struct tt_options *o = &r->asked.tune;
  int bytes, registers;

  r->target = tt_target_local();
  bytes = r->target.vector_bytes;
  registers = r->target.registers;
  tt_compiler_vectors(o->cc, o->cflags, &bytes, &registers);
  if (o->vector_bits == TT_NOT_GIVEN)
    o->vector_bits = bytes * 8;
  r->o = (struct tt_tune_options){
      .trials = (int)o->trials,
      .seed = (uint64_t)o->seed,
      .search = (enum tt_search)o->search,
      .model = (enum tt_model)o->model,
      .objective = (enum tt_objective)o->objective,
      .features = (enum tt_features_kind)o->features,
      .acquisition = (enum tt_acquisition)o->acquisition,
      .no_transfer = o->history == NULL, /* nor the model that ships */
      .params = search_params(o),
      .target = {.vector_bytes = o->vector_bits / 8,
                 .registers = registers,
                 .l1 = r->target.l1,
                 .l2 = r->target.l2,
                 .l3 = r->target.l3,
                 .threads = (int)o->threads},
      .strict_fp = o->strict_fp,
      .measure = {.cc = o->cc,
                  .cflags =
                      tt_arena_printf(r->arena, "%s -std=gnu11%s", o->cflags,
                                      o->threads > 1 ? " -fopenmp" : ""),
                  .jobs = r->target.cpus,
                  .threads = (int)o->threads,
                  .timeout = 10,
                  .seed = 1,
                  .codegen = {.vector_bytes = o->vector_bits / 8}}};
  return workload(r, &r->o.workload);
}

/* ---- lines ------------------------------------------------------------- */

static void
line(struct run *r)
{
  const struct asked *a = &r->asked;
  double rate = r->best > 0 ? tt_program_flops(r->program) / r->best * 1e-9 : 0;

  tt_sb_printf(&r->lines, "%s\t%s\t%s\t%lld\t%d\t%.2f\t%.1f\n", a->study,
               a->name, a->variant, (long long)a->tune.seed, r->trials, rate,
               r->build_seconds);
}

static void
trial(void *ctx, const struct tt_result *result)
{
  struct run *r = ctx;
  bool better = result->outcome == TT_OUT_OK && result->seconds > 0 &&
                (r->best <= 0 || result->seconds < r->best);

  r->trials++;
  r->build_seconds += result->build_seconds;
  if (better)
    r->best = result->seconds;
  if (better || r->trials == r->o.trials)
    line(r);
}

/* ---- from scratch ------------------------------------------------------ */

static uint64_t scratch_seed;

/* A legal configuration, drawn: what a search begins with that knows nothing
 * of the space. */
static void
drawn_initial(const struct tt_space *space, int *config)
{
  struct tt_arena *arena = tt_arena_new();
  uint64_t random = scratch_seed * 0x9e3779b97f4a7c15u + 7;
  const struct tt_schedule *s;

  do {
    tt_arena_reset(arena);
    for (int i = 0; i < space->nknobs; i++)
      config[i] = tt_draw_below(&random, space->knobs[i].n);
    s = tt_space_schedule(arena, space, config);
  } while (s == NULL || tt_code_copies(s) > FIRST_COPIES);
  tt_arena_free(arena);
}

/* ---- searches ---------------------------------------------------------- */

static void
progress(void *ctx, const struct tt_progress *p)
{
  struct run *r = ctx;

  if (strcmp(p->phase, "measuring") != 0)
    return;
  bool better = p->best > 0 && (r->best <= 0 || p->best < r->best);
  r->trials = p->trials;
  r->best = p->best;
  r->build_seconds = r->memo.build_seconds;
  if (better || r->trials == r->o.trials)
    line(r);
}

static int
live(struct run *r)
{
  static const struct tt_space_ops scratch = {tt_space_new, tt_space_schedule,
                                              drawn_initial};
  struct tt_tuned tuned;

  scratch_seed = r->o.seed;
  if (strcmp(r->asked.from, "scratch") == 0) {
    r->o.space_ops = &scratch;
    r->o.blind = true;
  }
  r->o.measure_ops = memo_measure(&r->memo);
  r->o.interrupted = &r->memo.stopped;
  r->o.progress = progress;
  r->o.progress_ctx = r;
  r->memo.deadline = study_now() + r->asked.seconds;
  tuned = tt_tune(r->arena, r->program, &r->o);
  if (tuned.warning != NULL)
    fail("warning", tuned.warning);
  fprintf(stderr,
          "study: %s %s %s %d: %d trials, %d of them measured now, %d "
          "records of others%s\n",
          r->asked.study, r->asked.name, r->asked.variant, (int)r->o.seed,
          r->trials, r->memo.measured, tuned.learned_records,
          r->memo.stopped ? ", more to come" : "");
  if (r->memo.stopped)
    return AGAIN;
  return tuned.error != NULL ? fail(tuned.error, NULL) : DONE;
}

static int
among_records(struct run *r, struct tt_history *h)
{
  const char *error = NULL;
  struct sample sample;
  bool ok = sample_open(&sample, r->arena, r->program, &r->o, h, &error);

  if (ok && sample.trials.n < r->o.trials) {
    ok = false;
    error = tt_arena_printf(r->arena, "%s has %d records of %s",
                            r->asked.random, sample.trials.n, r->asked.name);
  }
  if (ok && r->asked.mode == RANDOM)
    table_random(&sample, &r->o, trial, r);
  else if (ok)
    ok = table_search(&sample, &r->o, trial, r, &error);
  sample_close(&sample);
  return ok ? DONE : fail(error, NULL);
}

static struct tt_history *
open_history(const char *path, bool create)
{
  const char *error = NULL;
  struct tt_history *h = create ? tt_history_open(path, &error)
                                : tt_history_open_existing(path, &error);

  if (h == NULL)
    fail(path, error);
  return h;
}

/* What is known of the program, for searches of others. */
static int
teach(struct run *r)
{
  const char *error = NULL;
  bool ok = r->history != NULL;

  if (!ok)
    return fail("there is no --history", NULL);
  for (int i = 0; i < r->memo.n && ok; i++)
    ok = tt_history_add(r->history, &r->o.workload, &r->memo.items[i].record,
                        &error);
  return ok ? DONE : fail(r->asked.tune.history, error);
}

static int
search(struct run *r)
{
  const struct asked *a = &r->asked;
  struct tt_history *random = NULL;
  const char *error = NULL;
  int status = FAILED;

  memo_init(&r->memo, &r->o.workload);
  if (a->random != NULL && (random = open_history(a->random, false)) == NULL)
    goto out;
  if (a->tune.history != NULL &&
      (r->history = open_history(a->tune.history, true)) == NULL)
    goto out;
  r->o.history = r->history;
  if (a->mode == TABLE || a->mode == RANDOM) {
    status = among_records(r, random);
    goto out;
  }
  if (a->store != NULL &&
      (r->memo.store = open_history(a->store, true)) == NULL)
    goto out;
  /* What a search was told once stays: the store's word is first. */
  if ((a->store != NULL && !memo_load(&r->memo, r->memo.store, &error)) ||
      (random != NULL && !memo_load(&r->memo, random, &error)))
    fail(error, NULL);
  else
    status = a->mode == TEACH ? teach(r) : live(r);
out:
  tt_history_close(random);
  tt_history_close(r->history);
  tt_history_close(r->memo.store);
  memo_free(&r->memo);
  return status;
}

int
main(int argc, char **argv)
{
  struct run r = {0};
  int status, runner = tt_runner_main(argc, argv);

  if (runner >= 0) /* a child that runs candidates */
    return runner;
  r.arena = tt_arena_new();
  status = parse(r.arena, argc, argv, &r.asked);
  if (status == DONE && !compile(&r))
    status = fail(r.asked.tune.input, "it does not compile");
  else if (status == DONE)
    status = set_options(&r) ? search(&r) : FAILED;
  if (status == DONE)
    fputs(tt_sb_str(&r.lines), stdout);
  tt_sb_free(&r.lines);
  tt_arena_free(r.arena);
  return status;
}
