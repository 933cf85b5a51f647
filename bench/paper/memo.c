/* Measurements that are remembered.
 *
 * Invariant: what a search sees depends on its seed and on the store alone,
 * never on the order in which candidates came to their end: results are given
 * to it when the batch is complete, in the order of the batch.  So a study
 * that was cut short goes on where it was when it is run again.
 */
#include "config.h"

#include "bench/paper/study.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BATCH = 64 };

/* The signatures of struct tt_measure_ops have no room for a context. */
static struct memo *current;

/* Behind the pointer that the tuning loop holds. */
struct measurer {
  struct memo *memo;
  const struct tt_program *program;
  struct tt_measure_options options;
  struct tt_measurer *real; /* opened when something is to be measured */
};

double
study_now(void)
{
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void
memo_init(struct memo *m, const struct tt_workload *workload)
{
  memset(m, 0, sizeof *m);
  m->arena = tt_arena_new();
  m->scratch = tt_arena_new();
  m->workload = *workload;
}

void
memo_free(struct memo *m)
{
  free(m->items);
  tt_arena_free(m->arena);
  tt_arena_free(m->scratch);
}

const struct memo_entry *
memo_find(const struct memo *m, const char *text)
{
  uint64_t hash = tt_text_hash(text);

  for (int i = 0; i < m->n; i++)
    if (m->items[i].hash == hash &&
        strcmp(m->items[i].record.schedule, text) == 0)
      return &m->items[i];
  return NULL;
}

/* The first measurement of a schedule counts. */
static void
add(struct memo *m, const struct tt_record *record)
{
  struct memo_entry e = {tt_text_hash(record->schedule), *record};

  if (record->result.outcome == TT_OUT_CANCELLED ||
      memo_find(m, record->schedule) != NULL)
    return;
  e.record.schedule = tt_arena_strdup(m->arena, record->schedule);
  e.record.config = NULL;
  e.record.result.message = NULL;
  TT_PUSH(*m, e);
}

bool
memo_load(struct memo *m, struct tt_history *h, const char **error)
{
  struct tt_arena *arena = tt_arena_new();
  struct tt_record *records;
  int n = tt_history_load(h, arena, &m->workload, &records, error);

  for (int i = 0; i < n; i++)
    add(m, &records[i]);
  tt_arena_free(arena);
  return n >= 0;
}

/* ---- the operations ---------------------------------------------------- */

static struct tt_measurer *
memo_open(const struct tt_program *program, const struct tt_measure_options *o,
          struct tt_result *plain, const char **error)
{
  struct measurer *m = tt_xmalloc(sizeof *m);

  *error = NULL;
  memset(plain, 0, sizeof *plain);
  *m = (struct measurer){current, program, *o, NULL};
  return (struct tt_measurer *)m;
}

static void
memo_close(struct tt_measurer *measurer)
{
  struct measurer *m = (struct measurer *)measurer;

  if (m->real != NULL)
    tt_measurer_free(m->real);
  free(m);
}

/* What is being measured. */
struct missing {
  struct memo *memo;
  int n;
  struct tt_schedule *schedules[BATCH];
  const char *texts[BATCH];
  const char *error;
};

static bool
keep(void *ctx, int i, const struct tt_result *result)
{
  struct missing *b = ctx;
  struct tt_record record = {.schedule = b->texts[i], .result = *result};

  if (result->outcome == TT_OUT_CANCELLED)
    return true;
  b->memo->measured++;
  add(b->memo, &record);
  return tt_history_add(b->memo->store, &b->memo->workload, &record, &b->error);
}

static bool
measure_missing(struct measurer *m, struct missing *b, double best,
                const char **error)
{
  struct tt_result plain, results[BATCH];

  if (m->real == NULL)
    m->real = tt_measurer_new(m->program, &m->options, &plain, error);
  if (m->real == NULL ||
      !tt_measure(m->real, b->n, b->schedules, best, results, keep, b, error))
    return false;
  *error = b->error;
  return b->error == NULL;
}

/* A batch does not grow: in a study a model has seen all of the one before. */
static bool
memo_batch(struct tt_measurer *measurer, const struct tt_stream *s,
           const char **error)
{
  struct measurer *m = (struct measurer *)measurer;
  struct memo *memo = m->memo;
  struct missing missing = {.memo = memo};
  const char *texts[BATCH];

  *error = NULL;
  tt_arena_reset(memo->scratch);
  for (int i = 0; i < s->n; i++) {
    texts[i] = tt_schedule_text(memo->scratch, s->schedules[i]);
    if (memo_find(memo, texts[i]) != NULL)
      continue;
    missing.texts[missing.n] = texts[i];
    missing.schedules[missing.n++] = s->schedules[i];
  }
  if (missing.n > 0 && (memo->store == NULL || study_now() > memo->deadline)) {
    memo->stopped = 1;
    return true;
  }
  if (missing.n > 0 && !measure_missing(m, &missing, s->best, error))
    return false;
  for (int i = 0; i < s->n; i++) {
    const struct memo_entry *e = memo_find(memo, texts[i]);
    if (e == NULL) { /* it was cancelled */
      memo->stopped = 1;
      return true;
    }
    s->results[i] = e->record.result;
    memo->build_seconds += s->results[i].build_seconds;
    if (!s->done(s->ctx, i, &s->results[i]))
      return true;
  }
  return true;
}

static void
memo_pump(struct tt_measurer *m)
{
  (void)m;
}

/* The best trial counts as it was measured, in every study. */
static bool
memo_finalists(struct tt_measurer *m, int n,
               struct tt_schedule *const *schedules, struct tt_result *results,
               const char **error)
{
  (void)m;
  (void)n;
  (void)schedules;
  (void)results;
  *error = NULL;
  return true;
}

const struct tt_measure_ops *
memo_measure(struct memo *m)
{
  static const struct tt_measure_ops ops = {memo_open, memo_close, memo_batch,
                                            memo_pump, memo_finalists};

  current = m;
  return &ops;
}
