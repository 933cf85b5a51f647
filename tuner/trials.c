/* The data of one run, and how records of earlier runs become part of it.
 *
 * Invariant: no two trials have the same text; every trial has a schedule of
 * the program at hand, which can be built again from its configuration or its
 * text.
 */
#include "config.h"
#include "tuner/trials.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/frontend.h"
#include "tuner/features.h"

/* A fit should stay well below the time of a batch: beyond this the newest
 * trials have to do. */
enum { MAX_FIT = 4000, MAX_NAMES = 512 };

void
tt_trials_init(struct tt_trials *t, const struct tt_program *program,
               const struct tt_space *space, const struct tt_space_ops *ops,
               const struct tt_tune_options *options)
{
  memset(t, 0, sizeof *t);
  t->arena = tt_arena_new();
  t->scratch = tt_arena_new();
  t->program = program;
  t->space = space;
  t->ops = ops;
  t->target = &options->target;
  t->features = tt_tune_features(options);
  t->width = tt_features_width(t->features, space);
  t->strict_fp = options->strict_fp;
}

void
tt_trials_free(struct tt_trials *t)
{
  free(t->items);
  tt_arena_free(t->arena);
  tt_arena_free(t->scratch);
}

const char *
tt_schedule_text(struct tt_arena *arena, const struct tt_schedule *s)
{
  struct tt_sb sb = {0};
  const char *text;

  tt_schedule_print(s, &sb);
  text = tt_arena_strdup(arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

uint64_t
tt_text_hash(const char *text)
{
  uint64_t h = 0xcbf29ce484222325u;

  for (; *text != '\0'; text++)
    h = (h ^ (unsigned char)*text) * 0x100000001b3u;
  return h;
}

void
tt_trials_add(struct tt_trials *t, const struct tt_schedule *s,
              const char *text, const int *config,
              const struct tt_result *result)
{
  float *row = TT_ARRAY(t->arena, float, (size_t)t->width);
  struct tt_trial trial = {.text = tt_arena_strdup(t->arena, text),
                           .hash = tt_text_hash(text),
                           .row = row,
                           .result = *result};

  tt_features(t->features, s, t->target, t->space, config, row);
  if (config != NULL)
    trial.config = tt_arena_dup(t->arena, config,
                                (size_t)t->space->nknobs * sizeof *config);
  trial.result.message = NULL; /* the measurer's: it may be gone before us */
  TT_PUSH(*t, trial);
}

const struct tt_trial *
tt_trials_find(const struct tt_trials *t, const char *text)
{
  uint64_t hash = tt_text_hash(text);

  for (int i = 0; i < t->n; i++)
    if (t->items[i].hash == hash && strcmp(t->items[i].text, text) == 0)
      return &t->items[i];
  return NULL;
}

/* ---- names ------------------------------------------------------------- */

struct word {
  const char *s;
  size_t n;
};

static bool
word_char(char c)
{
  return isalnum((unsigned char)c) || c == '_';
}

/* The next token at *p: a word, or one other character; space is skipped.
 * n is 0 at the end. */
static struct word
next_token(const char **p)
{
  struct word w;

  while (isspace((unsigned char)**p))
    (*p)++;
  w.s = *p;
  w.n = **p != '\0';
  if (w.n > 0 && word_char(**p))
    while (word_char(w.s[w.n]))
      w.n++;
  *p += w.n;
  return w;
}

static bool
same_word(struct word a, struct word b)
{
  return a.n == b.n && memcmp(a.s, b.s, a.n) == 0;
}

/* Can this word only be one that the language gives: a number, a primitive
 * (after a dot), a key (before an equals sign)? */
static bool
fixed_word(struct word w, struct word before, const char *after)
{
  while (isspace((unsigned char)*after))
    after++;
  return isdigit((unsigned char)w.s[0]) || !word_char(w.s[0]) ||
         (before.n == 1 && before.s[0] == '.' && *after == '(') ||
         *after == '=';
}

/* The names of the two texts must map one to one. */
static bool
match_names(struct word *a, struct word *b, int *n, struct word x,
            struct word y)
{
  for (int i = 0; i < *n; i++) {
    bool sa = same_word(a[i], x), sb = same_word(b[i], y);
    if (sa || sb)
      return sa && sb;
  }
  if (*n == MAX_NAMES)
    return same_word(x, y);
  a[*n] = x;
  b[(*n)++] = y;
  return true;
}

bool
tt_same_but_names(const char *a, const char *b)
{
  struct word from[MAX_NAMES], to[MAX_NAMES], x = {"", 0}, y = {"", 0}, px, py;
  int n = 0;

  do {
    px = x;
    py = y;
    x = next_token(&a);
    y = next_token(&b);
    if (x.n == 0 || y.n == 0)
      return x.n == y.n;
    if (fixed_word(x, px, a) != fixed_word(y, py, b))
      return false;
  } while (fixed_word(x, px, a) ? same_word(x, y)
                                : match_names(from, to, &n, x, y));
  return false;
}

/* ---- records of earlier runs ------------------------------------------- */

struct tt_schedule *
tt_schedule_of_text(struct tt_arena *arena, const struct tt_program *program,
                    bool strict_fp, const char *text)
{
  struct tt_diags *diags = tt_diags_new(arena);
  const struct tt_sblock *block =
      tt_parse_schedule(arena, diags, "history", text, strlen(text));
  const struct tt_scall *bad;
  struct tt_schedule *s;

  if (block == NULL)
    return NULL;
  s = tt_schedule_new(arena, program, strict_fp);
  return tt_schedule_apply(s, block, &bad) ? s : NULL;
}

static bool
config_fits(const struct tt_space *space, const struct tt_record *r)
{
  if (r->config == NULL || r->nknobs != space->nknobs)
    return false;
  for (int i = 0; i < space->nknobs; i++)
    if (r->config[i] < 0 || r->config[i] >= space->knobs[i].n)
      return false;
  return true;
}

/* The schedule of a record in the scratch arena, NULL: it means nothing
 * here.  *config: is it also a configuration of this space? */
static struct tt_schedule *
schedule_of_record(struct tt_trials *t, const struct tt_record *r, bool *config)
{
  struct tt_schedule *s;

  *config = false;
  if (config_fits(t->space, r)) {
    s = t->ops->schedule(t->scratch, t->space, r->config);
    /* Another version may have had other knobs: the text decides.  A program
     * with other names has the same records. */
    *config = s != NULL &&
              tt_same_but_names(tt_schedule_text(t->scratch, s), r->schedule);
    if (*config)
      return s;
  }
  return tt_schedule_of_text(t->scratch, t->program, t->strict_fp, r->schedule);
}

int
tt_trials_resume(struct tt_trials *t, int n, const struct tt_record *records)
{
  int used = 0;

  for (int i = 0; i < n; i++) {
    const struct tt_record *r = &records[i];
    struct tt_schedule *s;
    const char *text;
    bool config;
    tt_arena_reset(t->scratch);
    if (r->schedule == NULL || r->result.outcome == TT_OUT_CANCELLED)
      continue;
    s = schedule_of_record(t, r, &config);
    if (s == NULL)
      continue;
    text = tt_schedule_text(t->scratch, s);
    if (tt_trials_find(t, text) != NULL)
      continue;
    tt_trials_add(t, s, text, config ? r->config : NULL, &r->result);
    used++;
  }
  tt_arena_reset(t->scratch);
  return used;
}

/* ---- use --------------------------------------------------------------- */

static bool
right(const struct tt_trial *trial)
{
  return trial->result.outcome == TT_OUT_OK && trial->result.seconds > 0;
}

int
tt_trials_best(const struct tt_trials *t, int max, int *out)
{
  int n = 0, at;

  for (int i = 0; i < t->n; i++) {
    if (!right(&t->items[i]))
      continue;
    for (at = n; at > 0 && t->items[out[at - 1]].result.seconds >
                               t->items[i].result.seconds;
         at--)
      if (at < max)
        out[at] = out[at - 1];
    if (at < max)
      out[at] = i;
    n += n < max;
  }
  return n;
}

bool
tt_trials_fit(const struct tt_trials *t, struct tt_cost_model *model,
              const char **error)
{
  int width = t->width, from = t->n > MAX_FIT ? t->n - MAX_FIT : 0;
  int n = t->n - from, best;
  float *rows, *labels;
  double fastest;
  bool ok;

  if (n == 0 || tt_trials_best(t, 1, &best) == 0)
    return tt_cost_fit(model, 0, width, NULL, NULL, error);
  fastest = t->items[best].result.seconds;
  rows = tt_xmalloc((size_t)n * (size_t)width * sizeof *rows);
  labels = tt_xmalloc((size_t)n * sizeof *labels);
  for (int i = 0; i < n; i++) {
    const struct tt_trial *trial = &t->items[from + i];
    memcpy(rows + (size_t)i * (size_t)width, trial->row,
           (size_t)width * sizeof *rows);
    labels[i] = right(trial) ? (float)(fastest / trial->result.seconds) : 0;
  }
  ok = tt_cost_fit(model, n, width, rows, labels, error);
  free(rows);
  free(labels);
  return ok;
}

struct tt_schedule *
tt_trial_schedule(const struct tt_trials *t, struct tt_arena *arena,
                  const struct tt_trial *trial)
{
  if (trial->config != NULL)
    return t->ops->schedule(arena, t->space, trial->config);
  return tt_schedule_of_text(arena, t->program, t->strict_fp, trial->text);
}
