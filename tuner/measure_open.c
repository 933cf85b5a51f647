/* Opening and closing a measurer: the CPU that times, the builder, the runner,
 * and the plain loops, whose results are the reference.
 *
 * Invariant: a measurer that was opened has a reference that agrees with the
 * interpreter; one that could not be opened holds nothing.
 */
#include "config.h"

#include "tuner/measure_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/reference.h"
#include "tuner/tolerance.h"

#define PLAIN_TIMEOUT 600.0 /* seconds for building or running plain loops */
/* Compilers for devices are slow. */
#define DEVICE_BUILD_TIMEOUT 120.0
#define DEVICE_BUILD_CPU 60

static void
add_params(struct tt_measurer *m, enum tt_role role)
{
  for (int i = 0; i < m->program->ntensors; i++)
    if (m->program->tensors[i]->role == role)
      m->params[m->nparams++] = m->program->tensors[i];
}

static void
claim_cpu(struct tt_measurer *m)
{
  struct tt_claim *shared = m->o.claim;
  if (!shared) {
    m->claim = tt_claim_cpu();
    return;
  }
  if (shared->cpu < 0)
    *shared = tt_claim_cpu();
  m->claim = *shared;
  m->claim.lock = -1; /* the owner's */
}

static struct tt_cpus
timing_cpu(const struct tt_measurer *m)
{
  struct tt_cpus one = {{false}};
  if (m->pinned)
    one.member[m->claim.cpu] = true;
  return one;
}

static bool
make_runner(struct tt_measurer *m, char **error)
{
  struct tt_run_tensor *ts = tt_xmalloc((size_t)m->nparams * sizeof *ts + 1);
  struct tt_cpus one = timing_cpu(m);
  for (int i = 0; i < m->nparams; i++) {
    const struct tt_tensor *t = m->params[i];
    ts[i] = (struct tt_run_tensor){t->name, t->dtype, tt_tensor_size(t),
                                   t->role == TT_OUTPUT};
    if (ts[i].output)
      m->out_bytes += (double)ts[i].elements * tt_dtype_bytes(t->dtype);
  }
  struct tt_runner_options o = {.ntensors = m->nparams,
                                .tensors = ts,
                                .dir = tt_builder_dir(m->builder),
                                .threads = m->o.threads,
                                .cpus = m->pinned ? &one : NULL,
                                .on_device = m->o.on != TT_ON_CPU,
                                .device = m->o.device};
  m->runner = tt_runner_new(&o, error);
  free(ts);
  for (int i = 0; m->runner && i < m->nparams; i++)
    if (m->params[i]->role != TT_OUTPUT)
      tt_fill_input(m->params[i], m->o.seed, tt_runner_data(m->runner, i));
  return m->runner != NULL;
}

/* Compares the reference with the interpreter, sets the tolerances. */
static bool
check_reference(struct tt_measurer *m, char **error)
{
  struct tt_values *values = tt_values_new();
  const char *bad = NULL;
  tt_values_random(values, m->program, m->o.seed);
  for (int i = 0; i < m->nparams && !bad; i++) {
    const struct tt_tensor *t = m->params[i];
    if (t->role != TT_OUTPUT)
      continue;
    struct tt_tolerance tol = tt_output_tolerance(m->program, t);
    bad = tt_check_reference(m->arena, m->program, values, t, m->o.seed,
                             tt_runner_data(m->runner, i), &tol);
    tt_runner_tolerance(m->runner, i, &tol);
  }
  tt_values_free(values);
  if (bad)
    *error = tt_format("%s", bad);
  return !bad;
}

void
tt_limit_builds(struct tt_measurer *m, double seconds, double cpu)
{
  tt_builder_limits(m->builder, seconds * m->o.patience,
                    (int)ceil(cpu * m->o.patience));
}

/* Runs the plain loops and makes their outputs the reference. */
static bool
make_reference(struct tt_measurer *m, struct tt_result *plain, char **error)
{
  struct candidate c = {.state = WAITING};
  struct batch b = {.m = m,
                    .n = 1,
                    .results = plain,
                    .cands = &c,
                    .timeout = fmax(PLAIN_TIMEOUT, m->o.timeout),
                    .mode = TT_RUN_REFERENCE};
  if (!tt_measure_batch(&b)) {
    *error = b.error;
    return false;
  }
  if (plain->outcome == TT_OUT_CANCELLED)
    return false;
  if (plain->outcome != TT_OUT_OK) {
    *error = tt_format(
        "the plain loops fail (%s)%s%s", tt_outcome_text(plain->outcome),
        plain->message ? ": " : "", plain->message ? plain->message : "");
    return false;
  }
  m->plain_seconds = plain->seconds;
  return check_reference(m, error);
}

/* From the plain loops to candidates. */
static bool
set_up_candidates(struct tt_measurer *m, char **error)
{
  if (m->o.on == TT_ON_CUDA) {
    tt_limit_builds(m, DEVICE_BUILD_TIMEOUT, DEVICE_BUILD_CPU);
    return tt_builder_switch(m->builder, m->o.nvcc, m->o.nvflags, ".cu", error);
  }
  tt_limit_builds(m, BUILD_TIMEOUT, BUILD_CPU);
  return true;
}

static bool
set_up(struct tt_measurer *m, struct tt_result *plain, char **error)
{
  m->claim.lock = -1;
  m->pinned = m->o.threads == 1 && m->o.on == TT_ON_CPU;
  if (m->o.on == TT_ON_CUDA) {
    m->overlap = true;
    m->claim.rest = tt_cpus_allowed();
  }
  if (m->pinned) {
    claim_cpu(m);
    m->overlap = tt_cpus_count(&m->claim.rest) > 0;
  }
  struct tt_cpus one = timing_cpu(m);
  struct tt_builder_options o = {.cc = m->o.cc,
                                 .cflags = m->o.cflags,
                                 .jobs = m->o.jobs,
                                 .timeout = BUILD_TIMEOUT,
                                 .cpus = m->overlap ? &m->claim.rest : NULL,
                                 .spare =
                                     m->pinned && m->overlap ? &one : NULL};
  m->builder = tt_builder_new(&o, error);
  if (!m->builder || !make_runner(m, error))
    return false;
  tt_limit_builds(m, PLAIN_TIMEOUT, 0);
  if (!make_reference(m, plain, error))
    return false;
  return set_up_candidates(m, error);
}

struct tt_measurer *
tt_measurer_new(const struct tt_program *p, const struct tt_measure_options *o,
                struct tt_result *plain, const char **error)
{
  struct tt_measurer *m = tt_xmalloc(sizeof *m);
  char *text = NULL;
  memset(m, 0, sizeof *m);
  m->arena = tt_arena_new();
  m->scratch = tt_arena_new();
  m->program = p;
  m->o = *o;
  m->o.cc = tt_arena_strdup(m->arena, o->cc);
  m->o.cflags = tt_arena_strdup(m->arena, o->cflags ? o->cflags : "");
  m->o.nvcc = tt_arena_strdup(m->arena, o->nvcc ? o->nvcc : "");
  m->o.nvflags = tt_arena_strdup(m->arena, o->nvflags ? o->nvflags : "");
  if (m->o.threads < 1)
    m->o.threads = 1;
  if (!(m->o.patience > 0))
    m->o.patience = 1;
  m->o.timeout *= m->o.patience;
  m->o.jobs = o->jobs < 1 ? 1 : o->jobs > 256 ? 256 : o->jobs;
  m->flops = tt_program_flops(p);
  m->params =
      TT_ARRAY(m->arena, const struct tt_tensor *, (size_t)p->ntensors + 1);
  add_params(m, TT_INPUT);
  add_params(m, TT_WEIGHT);
  add_params(m, TT_OUTPUT);
  memset(plain, 0, sizeof *plain);
  if (set_up(m, plain, &text)) {
    *error = NULL;
    return m;
  }
  tt_measure_error(m, text, error);
  tt_measurer_free(m);
  return NULL;
}

void
tt_measurer_free(struct tt_measurer *m)
{
  if (!m)
    return;
  tt_runner_free(m->runner);
  tt_builder_free(m->builder);
  for (int i = 0; i < m->nkept; i++)
    free(m->kept[i].source);
  tt_claim_release(&m->claim);
  tt_arena_free(m->arena);
  tt_arena_free(m->scratch);
  free(m);
}
