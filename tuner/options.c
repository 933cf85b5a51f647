/* The command line.  Owns parsing and --help, both driven by the table
 * options.def; what is not in the table is not an option.
 *
 * Invariant: a word is consumed by exactly one option or is the input.
 */
#include "config.h"

#include "tuner/options.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/tune.h"

struct spec {
  enum tt_option_kind kind;
  size_t field;
  const char *name, *alias, *arg;
  double lo, hi;
  const char *help;
  const char *title; /* a heading of --help; all else is unset */
};

static const struct spec specs[] = {
#define TT_OPT_GROUP(text) {.title = text},
#define TT_OPT(k, f, n, al, a, l, h, text)                                     \
  {.kind = TT_OPT_##k,                                                         \
   .field = offsetof(struct tt_options, f),                                    \
   .name = n,                                                                  \
   .alias = al,                                                                \
   .arg = a,                                                                   \
   .lo = (double)(l),                                                          \
   .hi = (double)(h),                                                          \
   .help = text},
#include "tuner/options.def"
#undef TT_OPT
#undef TT_OPT_GROUP
};
#define NSPECS ((int)(sizeof specs / sizeof specs[0]))

bool
tt_options_name(int i, const char **name, const char **alias)
{
  for (int k = 0; k < NSPECS; k++) {
    if (specs[k].title || i-- > 0)
      continue;
    *name = specs[k].name;
    *alias = specs[k].alias;
    return true;
  }
  return false;
}

static void *
field(struct tt_options *o, const struct spec *s)
{
  return (char *)o + s->field;
}

struct tt_options
tt_options_none(void)
{
  struct tt_options o = {0};
  for (int k = 0; k < NSPECS; k++) {
    if (specs[k].title)
      continue;
    switch (specs[k].kind) {
    case TT_OPT_INTEGER:
      *(int64_t *)field(&o, &specs[k]) = TT_NOT_GIVEN;
      break;
    case TT_OPT_REAL:
      *(double *)field(&o, &specs[k]) = TT_NOT_GIVEN;
      break;
    case TT_OPT_CHOICE:
    case TT_OPT_BITS:
      *(int *)field(&o, &specs[k]) = TT_NOT_GIVEN;
      break;
    case TT_OPT_TARGET:
      *(struct tt_machine *)field(&o, &specs[k]) = tt_machine_unknown();
      break;
    case TT_OPT_FLAG:
    case TT_OPT_STRING:
    case TT_OPT_DEFINE:
    case TT_OPT_DIR:
      break;
    }
  }
  return o;
}

/* ---- suggestions ------------------------------------------------------- */

static int
min3(int a, int b, int c)
{
  int m = a < b ? a : b;
  return m < c ? m : c;
}

/* Levenshtein's distance of a[0..na) and b, capped for long words. */
static int
distance(const char *a, int na, const char *b)
{
  int nb = (int)strlen(b), row[64];
  if (na > 63 || nb > 63)
    return 64;
  for (int j = 0; j <= nb; j++)
    row[j] = j;
  for (int i = 1; i <= na; i++) {
    int diagonal = row[0];
    row[0] = i;
    for (int j = 1; j <= nb; j++) {
      int up = row[j];
      row[j] = min3(up + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1]));
      diagonal = up;
    }
  }
  return row[nb];
}

/* The option nearest to a word that is none, or NULL. */
static const char *
nearest(const char *word, int n)
{
  const char *best = NULL;
  int least = n / 3 < 1 ? 1 : n / 3;
  least = least > 3 ? 3 : least;
  if (n < 3) /* among one-letter options every one is near */
    return NULL;
  for (int k = 0; k < NSPECS; k++) {
    const char *names[2] = {specs[k].name, specs[k].alias};
    for (int i = 0; !specs[k].title && i < 2; i++) {
      int d = names[i] && names[i][1] == '-' ? distance(word, n, names[i]) : 64;
      if (d < least || (d == least && !best)) {
        least = d;
        best = names[i];
      }
    }
  }
  return best;
}

/* ---- values ------------------------------------------------------------ */

static bool
parse_choice(const char *words, const char *value, int *out)
{
  size_t n = strlen(value);
  for (int i = 0;; i++) {
    size_t w = strcspn(words, "|");
    if (w == n && memcmp(words, value, n) == 0) {
      *out = i;
      return true;
    }
    if (!words[w])
      return false;
    words += w + 1;
  }
}

/* "a|b|c" as "a, b or c". */
static const char *
choice_list(struct tt_arena *arena, const char *words)
{
  struct tt_sb sb = {0};
  const char *last = strrchr(words, '|');
  for (const char *p = words; *p; p++) {
    if (*p == '|')
      tt_sb_add(&sb, p == last ? " or " : ", ");
    else
      tt_sb_putc(&sb, *p);
  }
  const char *text = tt_arena_strdup(arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static bool
bad(struct tt_arena *arena, const struct spec *s, const char *value,
    const char *wanted, const char **error)
{
  *error =
      tt_arena_printf(arena, "%s '%s': %s expected", s->name, value, wanted);
  return false;
}

static bool
set_integer(struct tt_arena *arena, const struct spec *s, int64_t *out,
            const char *value, const char **error)
{
  char *end;
  errno = 0;
  long long v = strtoll(value, &end, 10);
  if (end == value || *end || errno || (double)v < s->lo || (double)v > s->hi ||
      *value == ' ') {
    const char *wanted =
        s->hi < 1e10
            ? tt_arena_printf(arena, "a whole number from %.0f to %.0f", s->lo,
                              s->hi)
            : tt_arena_printf(arena, "a whole number of at least %.0f", s->lo);
    return bad(arena, s, value, wanted, error);
  }
  *out = v;
  return true;
}

static bool
set_real(struct tt_arena *arena, const struct spec *s, double *out,
         const char *value, const char **error)
{
  char *end;
  double v = strtod(value, &end);
  if (end == value || *end || !(v >= s->lo && v <= s->hi) || *value == ' ')
    return bad(arena, s, value,
               tt_arena_printf(arena, "a number of at least %g", s->lo), error);
  *out = v;
  return true;
}

static bool
set_bits(struct tt_arena *arena, const struct spec *s, int *out,
         const char *value, const char **error)
{
  static const struct {
    const char *word;
    int bits;
  } widths[] = {{"none", 0}, {"128", 128}, {"256", 256}, {"512", 512}};
  for (size_t i = 0; i < sizeof widths / sizeof widths[0]; i++) {
    if (strcmp(value, widths[i].word) == 0) {
      *out = widths[i].bits;
      return true;
    }
  }
  return bad(arena, s, value, "128, 256, 512 or none", error);
}

static void
append(struct tt_arena *arena, struct tt_strings *words, const char *value)
{
  const char **items = TT_ARRAY(arena, const char *, (size_t)words->n + 1);
  if (words->n)
    memcpy(items, words->items, (size_t)words->n * sizeof *items);
  items[words->n++] = value;
  words->items = items;
}

static bool
set(struct tt_arena *arena, const struct spec *s, struct tt_options *o,
    const char *value, const char **error)
{
  void *f = field(o, s);
  switch (s->kind) {
  case TT_OPT_FLAG:
    *(bool *)f = true;
    return true;
  case TT_OPT_STRING:
    if (!*value)
      return bad(arena, s, value, s->arg, error);
    *(const char **)f = value;
    return true;
  case TT_OPT_INTEGER:
    return set_integer(arena, s, f, value, error);
  case TT_OPT_REAL:
    return set_real(arena, s, f, value, error);
  case TT_OPT_CHOICE:
    return parse_choice(s->arg, value, f) ||
           bad(arena, s, value, choice_list(arena, s->arg), error);
  case TT_OPT_BITS:
    return set_bits(arena, s, f, value, error);
  case TT_OPT_TARGET:
    return tt_machine_parse(arena, value, f, error);
  case TT_OPT_DEFINE:
    if (!strchr(value, '=') || *value == '=')
      return bad(arena, s, value, s->arg, error);
    append(arena, f, value);
    return true;
  case TT_OPT_DIR:
    append(arena, f, value);
    return true;
  }
  return true;
}

/* ---- words ------------------------------------------------------------- */

/* Is `word` this spelling, with its value attached or not?  *value is what
 * is attached, or NULL.  The exact spelling is sought first, so that -MD is
 * no attached value of another option. */
static bool
spells(const char *word, const char *name, bool takes, const char **value)
{
  size_t n = strlen(name);
  *value = NULL;
  if (strncmp(word, name, n) != 0)
    return false;
  if (!word[n])
    return true;
  if (name[1] == '-') {
    *value = word + n + 1;
    return word[n] == '=';
  }
  *value = word + n;
  return takes;
}

static const struct spec *
find(const char *word, const char **value)
{
  for (int exact = 1; exact >= 0; exact--) {
    for (int k = 0; k < NSPECS; k++) {
      const char *names[2] = {specs[k].name, specs[k].alias};
      for (int i = 0; !specs[k].title && i < 2; i++)
        if (names[i] && spells(word, names[i], specs[k].arg != NULL, value) &&
            (!exact || !*value))
          return &specs[k];
    }
  }
  return NULL;
}

static bool
unknown(struct tt_arena *arena, const char *word, const char **error)
{
  int n = (int)strcspn(word, "=");
  const char *near = nearest(word, n);
  *error =
      near ? tt_arena_printf(arena, "unknown option '%.*s'; did you mean '%s'?",
                             n, word, near)
           : tt_arena_printf(arena,
                             "unknown option '%.*s'; --help lists them all", n,
                             word);
  return false;
}

static void
add_input(struct tt_arena *arena, const char *word, struct tt_options *o)
{
  append(arena, &o->inputs, word);
  o->input = o->inputs.items[0];
}

bool
tt_options_parse(struct tt_arena *arena, int n, const char *const *words,
                 struct tt_options *o, const char **error)
{
  bool only_inputs = false;
  for (int i = 0; i < n; i++) {
    const char *word = words[i], *value;
    if (only_inputs || word[0] != '-' || !word[1]) {
      add_input(arena, word, o);
      continue;
    }
    if (strcmp(word, "--") == 0) {
      only_inputs = true;
      continue;
    }
    const struct spec *s = find(word, &value);
    if (!s)
      return unknown(arena, word, error);
    if (!s->arg && value) {
      *error = tt_arena_printf(arena, "%s takes no value", s->name);
      return false;
    }
    if (s->arg && !value) {
      if (i + 1 >= n) {
        *error =
            tt_arena_printf(arena, "%s needs a value: %s%s%s", s->name, s->name,
                            s->name[1] == '-' ? "=" : " ", s->arg);
        return false;
      }
      value = words[++i];
    }
    if (!set(arena, s, o, value, error))
      return false;
    if (o->help || o->version) /* whatever else is on the line */
      return true;
  }
  return true;
}

/* ---- what options say together ----------------------------------------- */

enum tt_language
tt_options_language(const struct tt_options *o)
{
  size_t n = o->output ? strlen(o->output) : 0;
  if (n > 3 && strcmp(o->output + n - 3, ".cu") == 0)
    return TT_LANGUAGE_CUDA;
  if (n > 3 && strcmp(o->output + n - 3, ".cl") == 0)
    return TT_LANGUAGE_OPENCL;
  return TT_LANGUAGE_C;
}

bool
tt_options_search(const struct tt_options *o)
{
  bool asked = o->trials > 0 || o->time > 0 || o->retune || o->device;
  if (tt_options_language(o) == TT_LANGUAGE_C)
    asked = true;
  return asked && o->trials != 0 && o->output && !o->check;
}

/* What has no meaning for GPUs, or for them alone; NULL: nothing of that was
 * given. */
static const char *
check_gpu(const struct tt_options *o)
{
  enum tt_language language = tt_options_language(o);
  if (o->target.sm >= 0 && language != TT_LANGUAGE_CUDA)
    return "--target=cuda:sm_NN goes with -o FILE.cu";
  if (language == TT_LANGUAGE_C)
    return o->device ? "--device goes with -o FILE.cl and -o FILE.cu" : NULL;
  if (o->target.given && o->target.sm < 0)
    return "--target=c is no GPU: it goes with -o FILE.c";
  if (o->dump == TT_DUMP_FEATURES)
    return "--dump=features is of C: it goes with -o FILE.c";
  if (o->vector_bits > 0 || o->std != TT_NOT_GIVEN ||
      o->workspace != TT_NOT_GIVEN || o->threads != TT_NOT_GIVEN)
    return "--vector, --std, --workspace and --threads go with -o FILE.c";
  return NULL;
}

/* What several inputs exclude; NULL: nothing of that was given. */
static const char *
check_several(const struct tt_options *o)
{
  if (o->inputs.n < 2)
    return NULL;
  if (o->dump != TT_NOT_GIVEN)
    return "--dump is for one input";
  if (o->schedule)
    return "--schedule is for one input";
  if (o->deps_file)
    return "-MF is for one input; with -MD alone each has a file of its own";
  if (o->output && strcmp(o->output, "-") == 0)
    return "-o - is for one input; give a folder for several: -o FOLDER";
  return NULL;
}

bool
tt_options_check(struct tt_arena *arena, const struct tt_options *o,
                 const char **error)
{
  *error = NULL;
  if (o->device && strcmp(o->device, "list") == 0)
    return true; /* whatever else is on the line */
  *error = check_several(o);
  if (*error)
    return false;
  if (!o->input)
    *error = "no input; usage: tcc-tune [options] FILE.te -o FILE.c";
  else if (!o->output && o->dump == TT_NOT_GIVEN)
    *error = "nothing to make; give -o FILE.c (or --dump=...)";
  else if (!o->output && (o->header || o->emit_test || o->emit_bench))
    *error = "--header, --emit-test and --emit-bench go with -o FILE.c";
  else if (o->check && (!o->output || strcmp(o->output, "-") == 0))
    *error = "--check needs -o FILE.c, the file to check";
  else if (o->check && o->schedule)
    *error = "--check takes the schedule from the file of -o; "
             "--schedule cannot be given too";
  else if (o->check && o->dump != TT_NOT_GIVEN)
    *error = "--check and --dump exclude each other";
  else if (o->features != TT_NOT_GIVEN && o->model == TT_MODEL_TREEGRU)
    *error = "--features is for boosted trees; a TreeGRU sees the loops "
             "themselves";
  else if (o->features == TT_FEATURES_CONFIG && o->dump == TT_DUMP_FEATURES)
    *error = "--dump=features shows no --features=config, which are those of "
             "a search";
  else if (o->deps_file && !o->deps)
    *error = "-MF goes with -MD";
  else if (o->deps && !o->output)
    *error = "-MD goes with -o FILE.c";
  else if (o->deps && !o->deps_file && strcmp(o->output, "-") == 0)
    *error = "-MD with -o - needs -MF FILE";
  else if (o->std == TT_STD_C99 && o->vector_bits > 0)
    *error = tt_arena_printf(
        arena, "--std=c99 has no vectors: --vector=%d needs --std=gnu11",
        o->vector_bits);
  else
    *error = check_gpu(o);
  return !*error;
}

/* "a/b.c" becomes "a/b.d". */
static const char *
deps_name(struct tt_arena *arena, const char *output)
{
  int stem = (int)strlen(output);
  if (stem > 2 && strcmp(output + stem - 2, ".c") == 0)
    stem -= 2;
  else if (stem > 3 && (strcmp(output + stem - 3, ".cu") == 0 ||
                        strcmp(output + stem - 3, ".cl") == 0))
    stem -= 3;
  return tt_arena_printf(arena, "%.*s.d", stem, output);
}

void
tt_options_defaults(struct tt_arena *arena, struct tt_options *o)
{
  if (o->deps && !o->deps_file)
    o->deps_file = deps_name(arena, o->output);
  if (tt_options_language(o) != TT_LANGUAGE_C) {
    o->vector_bits = 0;
    if (!tt_options_search(o))
      o->trials = 0;
  }
  if (!o->cc)
    o->cc = "cc";
  if (!o->cflags)
    o->cflags = "-O3 -march=native";
  if (o->std == TT_NOT_GIVEN)
    o->std = TT_STD_GNU11;
  if (o->std == TT_STD_C99 && o->vector_bits == TT_NOT_GIVEN)
    o->vector_bits = 0;
  if (o->vector_bits == TT_NOT_GIVEN)
    o->vector_bits = (int)o->target.vector;
  if (o->workspace == TT_NOT_GIVEN)
    o->workspace = 0;
  if (o->threads == TT_NOT_GIVEN)
    o->threads = 1;
  if (o->time == TT_NOT_GIVEN)
    o->time = o->trials == TT_NOT_GIVEN ? 60 : 0;
  if (o->min_gain == TT_NOT_GIVEN)
    o->min_gain = o->trials == TT_NOT_GIVEN ? 0.005 : 0;
  if (o->patience == TT_NOT_GIVEN)
    o->patience = 1;
  if (o->seed == TT_NOT_GIVEN)
    o->seed = 0;
  if (o->search == TT_NOT_GIVEN)
    o->search = 0;
  if (o->model == TT_NOT_GIVEN)
    o->model = 0;
  if (o->objective == TT_NOT_GIVEN)
    o->objective = 0;
  if (o->features == TT_NOT_GIVEN)
    o->features = 0;
  if (o->acquisition == TT_NOT_GIVEN)
    o->acquisition = 0;
  if (o->progress == TT_NOT_GIVEN)
    o->progress = TT_PROGRESS_AUTO;
}

/* ---- the words that decide the code ------------------------------------ */

static void
quoted(struct tt_sb *sb, const char *word)
{
  static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                              "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_=.+-";
  if (!word[strspn(word, plain)]) {
    tt_sb_add(sb, word);
    return;
  }
  tt_sb_putc(sb, '\'');
  for (; *word; word++) {
    if (*word == '\'')
      tt_sb_add(sb, "'\\''");
    else
      tt_sb_putc(sb, *word);
  }
  tt_sb_putc(sb, '\'');
}

void
tt_options_code_words(const struct tt_options *o, struct tt_sb *sb)
{
  static const char *const workspaces[] = {"static", "stack", "arg"};
  bool gpu = tt_options_language(o) != TT_LANGUAGE_C; /* has no such option */
  if (o->vector_bits > 0)
    tt_sb_printf(sb, "--vector=%d ", o->vector_bits);
  else if (!gpu)
    tt_sb_add(sb, "--vector=none ");
  if (o->std == TT_STD_C99)
    tt_sb_add(sb, "--std=c99 ");
  if (o->workspace > 0)
    tt_sb_printf(sb, "--workspace=%s ", workspaces[o->workspace]);
  if (o->strict_fp)
    tt_sb_add(sb, "--strict-fp ");
  for (int i = 0; i < o->defines.n; i++) {
    tt_sb_add(sb, "-D ");
    quoted(sb, o->defines.items[i]);
    tt_sb_putc(sb, ' ');
  }
}

static bool
defines_name(const struct tt_strings *words, const char *define)
{
  size_t n = strcspn(define, "=");
  for (int i = 0; i < words->n; i++)
    if (strcspn(words->items[i], "=") == n &&
        memcmp(words->items[i], define, n) == 0)
      return true;
  return false;
}

void
tt_options_inherit(struct tt_arena *arena, struct tt_options *o,
                   const struct tt_options *from)
{
  if (o->std == TT_NOT_GIVEN)
    o->std = from->std;
  if (o->vector_bits == TT_NOT_GIVEN && o->target.vector < 0 &&
      o->std != TT_STD_C99)
    o->vector_bits = from->vector_bits;
  if (o->workspace == TT_NOT_GIVEN)
    o->workspace = from->workspace;
  o->strict_fp |= from->strict_fp;
  struct tt_strings own = o->defines;
  for (int i = 0; i < from->defines.n; i++)
    if (!defines_name(&own, from->defines.items[i]))
      append(arena, &o->defines, from->defines.items[i]);
}

/* ---- --help ------------------------------------------------------------ */

void
tt_options_help(struct tt_sb *sb)
{
  tt_sb_add(sb, "Usage: tcc-tune [options] FILE.te -o FILE.c\n"
                "       tcc-tune [options] FILE.te... -o FOLDER\n"
                "Compile a tensor index expression to C, tuned for this "
                "machine.\n");
  for (int k = 0; k < NSPECS; k++) {
    const struct spec *s = &specs[k];
    struct tt_sb left = {0};
    if (s->title) {
      tt_sb_printf(sb, "\n%s:\n", s->title);
      continue;
    }
    tt_sb_printf(&left, "  %s", s->name);
    if (s->alias)
      tt_sb_printf(&left, ", %s", s->alias);
    if (s->arg)
      tt_sb_printf(&left, "%s%s", s->name[1] == '-' ? "=" : " ", s->arg);
    if (left.len > 24)
      tt_sb_printf(sb, "%s\n%26s%s\n", left.s, "", s->help);
    else
      tt_sb_printf(sb, "%-26s%s\n", left.s, s->help);
    tt_sb_free(&left);
  }
  tt_sb_add(sb, "\nExit status: 0 done, 1 errors in the input or a file that "
                "cannot be read or\nwritten, 2 usage, 3 no candidate passed, "
                "4 the C compiler failed,\n130 interrupted (the best so far "
                "is written).\n");
}
