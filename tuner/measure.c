/* Owns measurement: from schedules to times.  Candidates are lowered and
 * printed here, built by a builder and run by a runner; both work at once
 * when timing has a CPU of its own, else by turns, so that builds never
 * disturb what is timed.  While nothing can be timed its CPU builds, too.
 * Objects of the fastest are kept: finalists are not built again. */
#include "config.h"

#include "tuner/measure_parts.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUILD_CPU_LEAST 2  /* afterwards: twice the fastest's, or this */
#define SOURCE_LEAST 80000 /* bytes, likewise */
#define AHEAD 4            /* candidates built before they can be run */
#define MAX_OPS 1.5e12     /* a core and second: twice 64 lanes, 6 GHz */
#define MAX_BYTES 2e12     /* of outputs, likewise */
#define DEVICE 1024        /* cores that a device is good for */

static const char symbol[] = "kernel_entry"; /* of every candidate */

/* ---- printing candidates ----------------------------------------------- */

/* Prints the candidate's source.  NULL, or why it is illegal, owned by the
 * scratch arena. */
static const char *
print(struct tt_measurer *m, const struct tt_schedule *schedule,
      struct candidate *c, struct tt_sb *out)
{
  struct tt_nest nest;
  struct tt_code_sizes sizes = {0};
  struct tt_codegen_options o = m->o.codegen;
  const char *error = NULL;
  tt_arena_reset(m->scratch);
  bool ok = schedule ? tt_schedule_lower(m->scratch, schedule, &nest, &error)
                     : tt_plain_nest(m->scratch, m->program, &nest, &error);
  if (!ok)
    return error ? error : "it cannot be lowered";
  if (schedule && m->o.on != TT_ON_CPU)
    return tt_print_for_device(m->scratch, &nest, &m->o, &c->prepared,
                               &c->workspace, out);
  o.name = "kernel";
  o.entry = true;
  o.naive = !schedule;
  if (o.naive)
    o.vector_bytes = 0; /* with the functions of libm, as a person would */
  error = tt_codegen_c(m->scratch, &nest, &o, &sizes, out);
  c->prepared = sizes.prepared_bytes;
  c->workspace = o.workspace == TT_WS_ARG ? sizes.workspace_bytes : 0;
  return error;
}

/* ---- objects of the fastest -------------------------------------------- */

/* Takes over object and source of a candidate if it is one of the fastest. */
static void
keep(struct tt_measurer *m, struct candidate *c, double seconds)
{
  int at = m->nkept;
  if (at == TT_MAX_FINALISTS) {
    at = 0;
    for (int i = 1; i < m->nkept; i++)
      if (m->kept[i].seconds > m->kept[at].seconds)
        at = i;
    if (seconds >= m->kept[at].seconds)
      return;
    tt_builder_discard(m->builder, m->kept[at].object);
    free(m->kept[at].source);
  } else {
    m->nkept++;
  }
  struct kept *k = &m->kept[at];
  memcpy(k->object, c->object, sizeof k->object);
  k->source = c->source;
  k->seconds = seconds;
  c->object[0] = '\0';
  c->source = NULL;
}

/* Gives the object kept of the candidate's source back; false: there is
 * none. */
static bool
take_kept(struct tt_measurer *m, struct candidate *c)
{
  for (int i = 0; i < m->nkept; i++) {
    struct kept *k = &m->kept[i];
    if (strcmp(k->source, c->source) != 0)
      continue;
    memcpy(c->object, k->object, sizeof c->object);
    free(k->source);
    *k = m->kept[--m->nkept];
    return true;
  }
  return false;
}

/* ---- what a candidate may cost ------------------------------------------ */

/* Few of the candidates, those with the most code, would take most of the time
 * that builds take, and they are not the fast ones: what is allowed is twice
 * the code, and twice the time, of the fastest so far. */
static void
set_limits(struct tt_measurer *m, const struct candidate *c, double seconds)
{
  if (m->fastest > 0 && seconds >= m->fastest)
    return;
  double cpu = ceil(2 * c->build_cpu);
  cpu = fmin(fmax(cpu, BUILD_CPU_LEAST), BUILD_CPU);
  m->fastest = seconds;
  m->most_source = 2 * c->length > SOURCE_LEAST ? 2 * c->length : SOURCE_LEAST;
  tt_limit_builds(m, BUILD_TIMEOUT, cpu);
}

static bool
is_too_long(const struct batch *b, const struct candidate *c)
{
  return b->schedules && b->mode == TT_RUN_CHECK && !b->build_only &&
         b->m->most_source && c->length > b->m->most_source;
}

/* ---- results ----------------------------------------------------------- */

/* The batch grows at the same result in every run, whatever the builders do
 * meanwhile: a search stays a function of its results. */
static void
ask_for_more(struct batch *b)
{
  if (!b->more || b->asking || b->stop || !b->m->overlap || b->last < 4 ||
      b->finished != b->n - b->last / 4)
    return;
  b->asking = true;
  int n = b->more(b->ctx);
  b->asking = false;
  assert(b->n + n <= b->most);
  if (n == 0)
    b->more = NULL;
  b->n += n;
  b->last = n;
}

static void
finish(struct batch *b, int i, enum tt_outcome outcome, const char *message)
{
  struct tt_result *r = &b->results[i];
  struct candidate *c = &b->cands[i];
  r->outcome = outcome;
  if (outcome != TT_OUT_OK)
    r->seconds = r->spread = 0;
  r->message =
      message && *message ? tt_arena_strdup(b->m->arena, message) : NULL;
  c->state = FINISHED;
  if (outcome == TT_OUT_OK && b->mode == TT_RUN_CHECK && c->object[0]) {
    set_limits(b->m, c, r->seconds);
    keep(b->m, c, r->seconds);
  }
  if (c->object[0])
    tt_builder_discard(b->m->builder, c->object);
  free(c->source);
  c->source = NULL;
  b->finished++;
  if (b->done && !b->done(b->ctx, i, r))
    b->stop = true;
  ask_for_more(b);
}

static void
fail_all(struct batch *b, char *error)
{
  if (b->error)
    free(error);
  else
    b->error = error;
  b->stop = true;
}

static enum tt_outcome
outcome_of(enum tt_run_status s)
{
  switch (s) {
  case TT_RUN_OK:
    return TT_OUT_OK;
  case TT_RUN_LOAD:
    return TT_OUT_BUILD;
  case TT_RUN_CRASH:
  case TT_RUN_BROKEN:
    return TT_OUT_CRASH;
  case TT_RUN_TIMEOUT:
    return TT_OUT_TIMEOUT;
  case TT_RUN_MEMORY:
    return TT_OUT_MEMORY;
  case TT_RUN_WRONG:
    return TT_OUT_WRONG;
  case TT_RUN_BOUNDS:
    return TT_OUT_BOUNDS;
  }
  return TT_OUT_CRASH;
}

/* No machine is that fast: the call does not do its work.  Plain loops that
 * a compiler folds set a mark of their own. */
static bool
is_impossible(const struct tt_measurer *m, double seconds)
{
  if (m->plain_seconds > 0 && seconds * 4 >= m->plain_seconds)
    return false;
  double all = seconds * (m->o.on == TT_ON_CPU ? m->o.threads : DEVICE);
  return m->flops > MAX_OPS * all || m->out_bytes > MAX_BYTES * all;
}

static void
set_times(struct tt_result *r, const struct tt_timing *t)
{
  r->seconds = tt_timing_min(t);
  r->spread = tt_timing_spread(t);
}

static void
take_run(struct batch *b, const struct tt_run_result *run)
{
  int i = run->id;
  struct tt_result *r = &b->results[i];
  if (run->status == TT_RUN_BROKEN) {
    fail_all(b, tt_format("%s", run->message));
    return;
  }
  set_times(r, &run->timing[0]);
  r->run_seconds = run->run_seconds;
  r->max_error = fmin(run->error, 1e9);
  if (run->status == TT_RUN_OK && is_impossible(b->m, r->seconds)) {
    finish(b, i, TT_OUT_IMPOSSIBLE, "it does not do its work");
    return;
  }
  if (run->status == TT_RUN_OK && r->seconds > 0 &&
      (b->best <= 0 || r->seconds < b->best))
    b->best = r->seconds;
  finish(b, i, outcome_of(run->status), run->message);
}

static void
take_built(struct batch *b, struct tt_built *built)
{
  struct candidate *c = &b->cands[built->id];
  b->results[built->id].build_seconds = built->seconds;
  switch (built->status) {
  case TT_BUILT:
    memcpy(c->object, built->object, sizeof c->object);
    c->build_cpu = built->cpu_seconds;
    c->state = BUILT;
    break;
  case TT_BUILD_ERROR:
    finish(b, built->id, TT_OUT_BUILD, built->message);
    break;
  case TT_BUILD_TIMEOUT:
    finish(b, built->id, TT_OUT_BUILD_TIME, built->message);
    break;
  case TT_BUILD_BROKEN:
    fail_all(b, tt_format("the compiler fails: %s", built->message));
    break;
  }
  free(built->message);
}

/* ---- the loop ---------------------------------------------------------- */

static int
count(const struct batch *b, enum state state)
{
  int n = 0;
  for (int i = 0; i < b->n; i++)
    n += b->cands[i].state == state;
  return n;
}

static int
first(const struct batch *b, enum state state)
{
  for (int i = 0; i < b->n; i++)
    if (b->cands[i].state == state)
      return i;
  return -1;
}

/* Is the CPU that times idle, with nothing to be timed? */
static bool
is_starved(const struct batch *b)
{
  const struct tt_measurer *m = b->m;
  return m->overlap && first(b, BUILT) < 0 && !tt_runner_busy(m->runner);
}

/* May a build be started, and is it to be on the CPU that times?  That
 * happens while there is nothing to time; then what is being built is wanted
 * soon, and two builds do not share a CPU. */
static bool
may_build(const struct batch *b, bool *spare)
{
  const struct tt_measurer *m = b->m;
  bool starved = is_starved(b);
  int running = tt_builder_running(m->builder);
  bool room = !starved || running < tt_cpus_count(&m->claim.rest);
  *spare = false;
  if (room && tt_builder_free_job(m->builder, false))
    return true;
  *spare = true;
  return starved && tt_builder_free_job(m->builder, true);
}

/* Starts one build if that is due.  Returns whether anything was done. */
static bool
start_build(struct batch *b)
{
  struct tt_measurer *m = b->m;
  int i = first(b, WAITING);
  int ahead = b->build_only ? b->n : AHEAD * (m->overlap ? 1 : m->o.jobs);
  bool spare;
  if (i < 0 || b->stop || b->timing || !may_build(b, &spare) ||
      count(b, BUILT) + count(b, BUILDING) >= ahead)
    return false;
  struct tt_sb source = {0};
  struct candidate *c = &b->cands[i];
  char *error = NULL;
  const char *bad = print(m, b->schedules ? b->schedules[i] : NULL, c, &source);
  c->source = tt_xstrdup(tt_sb_str(&source));
  c->length = source.len;
  if (bad)
    finish(b, i, TT_OUT_ILLEGAL, bad);
  else if (is_too_long(b, c))
    finish(b, i, TT_OUT_BUILD_TIME, "its code is too long, it was not built");
  else if (take_kept(m, c))
    c->state = BUILT;
  else if (b->schedules && m->o.on == TT_ON_OPENCL
               ? tt_builder_put(m->builder, ".cl", c->source, source.len,
                                c->object, &error)
               : tt_builder_start(m->builder, spare, i, c->source, source.len,
                                  &error))
    c->state = b->schedules && m->o.on == TT_ON_OPENCL ? BUILT : BUILDING;
  else
    fail_all(b, error);
  tt_sb_free(&source);
  return true;
}

static bool
start_run(struct batch *b)
{
  struct tt_measurer *m = b->m;
  int i = first(b, BUILT);
  if (i < 0 || b->stop || b->build_only || tt_runner_busy(m->runner) ||
      tt_builder_on_spare(m->builder))
    return false;
  if (!m->overlap) {
    /* Build what fits, then run all of it. */
    if (!b->timing && tt_builder_running(m->builder))
      return false;
    b->timing = true;
  }
  const struct candidate *c = &b->cands[i];
  struct tt_run_candidate rc = {c->object, symbol, c->prepared, c->workspace};
  struct tt_run_job job = {.id = i,
                           .mode = b->mode,
                           .n = 1,
                           .candidates = &rc,
                           .timeout = b->timeout,
                           .best = b->best};
  char *error = NULL;
  if (tt_runner_submit(m->runner, &job, &error))
    b->cands[i].state = RUNNING;
  else
    fail_all(b, error);
  return true;
}

static void
collect(struct batch *b)
{
  struct tt_built built;
  struct tt_run_result run;
  while (!b->stop && tt_builder_take(b->m->builder, &built))
    take_built(b, &built);
  if (!b->stop && tt_runner_take(b->m->runner, &run))
    take_run(b, &run);
  if (first(b, BUILT) < 0 && first(b, RUNNING) < 0)
    b->timing = false;
}

/* `timeout`: seconds; < 0: until something happens. */
static void
poll_children(struct batch *b, double timeout)
{
  struct tt_process *ps[258];
  int n = tt_builder_processes(b->m->builder, ps, 257);
  if (tt_runner_busy(b->m->runner))
    ps[n++] = tt_runner_process(b->m->runner);
  tt_process_poll(ps, n, timeout);
  if (b->m->o.interrupted && *b->m->o.interrupted)
    b->stop = true;
}

static void
wait_for_something(struct batch *b)
{
  poll_children(b, -1);
}

static bool
is_over(const struct batch *b)
{
  int left = b->n - count(b, FINISHED);
  return b->stop || left == 0 || (b->build_only && left == count(b, BUILT));
}

void
tt_measure_pump(struct tt_measurer *m)
{
  struct batch *b = m->batch;
  if (!b || b->stop)
    return;
  poll_children(b, 0);
  collect(b);
  while (!is_over(b) && (start_run(b) || start_build(b)))
    ;
}

bool
tt_measure_batch(struct batch *b)
{
  struct tt_measurer *m = b->m;
  struct tt_cpus before = tt_cpus_allowed();
  memset(b->results, 0,
         (size_t)(b->most > b->n ? b->most : b->n) * sizeof *b->results);
  m->batch = b;
  /* Printing candidates must not disturb timing either. */
  if (m->pinned)
    tt_cpus_bind(0, &m->claim.rest);
  while (!is_over(b)) {
    bool did = start_run(b);
    did |= start_build(b);
    if (!did && !is_over(b))
      wait_for_something(b);
    collect(b);
  }
  m->batch = NULL;
  tt_cpus_bind(0, &before);
  if (b->stop) {
    tt_builder_cancel(m->builder);
    tt_runner_cancel(m->runner);
    for (int i = 0; i < b->n; i++) {
      if (b->cands[i].state == FINISHED)
        continue;
      b->done = NULL;
      finish(b, i, TT_OUT_CANCELLED, NULL);
    }
  }
  return !b->error;
}

bool
tt_measure_error(struct tt_measurer *m, char *text, const char **error)
{
  *error = text ? tt_arena_strdup(m->program->arena, text) : NULL;
  free(text);
  return false;
}

/* ---- the public functions ---------------------------------------------- */

bool
tt_measure_stream(struct tt_measurer *m, const struct tt_stream *s,
                  const char **error)
{
  struct batch b = {.m = m,
                    .n = s->n,
                    .last = s->n,
                    .schedules = s->schedules,
                    .results = s->results,
                    .done = s->done,
                    .more = s->more,
                    .most = s->most,
                    .ctx = s->ctx,
                    .best = s->best,
                    .timeout = m->o.timeout};
  *error = NULL;
  if (s->n < 1)
    return true;
  b.cands = calloc((size_t)s->most, sizeof *b.cands);
  bool ok = b.cands && tt_measure_batch(&b);
  free(b.cands);
  return ok || tt_measure_error(m, b.error, error);
}

bool
tt_measure(struct tt_measurer *m, int n, struct tt_schedule *const *schedules,
           double best, struct tt_result *results, tt_measured_fn *done,
           void *ctx, const char **error)
{
  const struct tt_stream s = {.n = n,
                              .most = n,
                              .schedules = schedules,
                              .best = best,
                              .results = results,
                              .done = done,
                              .ctx = ctx};
  return tt_measure_stream(m, &s, error);
}

/* Times one after the other what cannot be timed together. */
static bool
time_singly(struct batch *b)
{
  b->build_only = false;
  b->best = 0;
  return tt_measure_batch(b);
}

/* One child runs all that were built. */
static bool
duel(struct batch *b, struct tt_run_result *run)
{
  struct tt_measurer *m = b->m;
  struct tt_run_candidate rc[TT_MAX_FINALISTS];
  int who[TT_MAX_FINALISTS], k = 0;
  for (int i = 0; i < b->n; i++) {
    const struct candidate *c = &b->cands[i];
    if (c->state != BUILT)
      continue;
    rc[k] =
        (struct tt_run_candidate){c->object, symbol, c->prepared, c->workspace};
    who[k++] = i;
  }
  if (!k)
    return true;
  struct tt_run_job job = {.mode = TT_RUN_DUEL,
                           .n = k,
                           .candidates = rc,
                           .timeout = b->timeout * k + 60};
  if (!tt_runner_submit(m->runner, &job, &b->error))
    return false;
  while (!b->stop && !tt_runner_take(m->runner, run))
    wait_for_something(b);
  for (int i = 0; i < k && !b->stop && run->status == TT_RUN_OK; i++) {
    struct tt_result *r = &b->results[who[i]];
    set_times(r, &run->timing[i]);
    r->max_error = fmin(run->error, 1e9);
    finish(b, who[i], TT_OUT_OK, NULL);
  }
  return true;
}

bool
tt_measure_finalists(struct tt_measurer *m, int n,
                     struct tt_schedule *const *schedules,
                     struct tt_result *results, const char **error)
{
  struct candidate cands[TT_MAX_FINALISTS];
  struct tt_result fresh[TT_MAX_FINALISTS];
  struct tt_run_result run = {.status = TT_RUN_OK};
  memset(cands, 0, sizeof cands);
  struct batch b = {.m = m,
                    .n = n < TT_MAX_FINALISTS ? n : TT_MAX_FINALISTS,
                    .schedules = schedules,
                    .results = fresh,
                    .cands = cands,
                    .timeout = m->o.timeout,
                    .build_only = true};
  *error = NULL;
  if (n < 1)
    return true;
  /* Some may be of a run in which other limits held. */
  tt_limit_builds(m, BUILD_TIMEOUT, BUILD_CPU);
  bool ok = tt_measure_batch(&b) && (b.stop || duel(&b, &run));
  if (ok && !b.stop && run.status != TT_RUN_OK)
    ok = time_singly(&b);
  if (b.stop && ok)
    tt_runner_cancel(m->runner);
  for (int i = 0; i < b.n; i++) {
    if (!ok || cands[i].state != FINISHED ||
        fresh[i].outcome == TT_OUT_CANCELLED)
      continue;
    fresh[i].build_seconds = results[i].build_seconds;
    results[i] = fresh[i];
  }
  return ok || tt_measure_error(m, b.error, error);
}
