/* Rows of the history as lines of JSON: one flat object a row.
 *
 * Invariant: what tt_history_row_json() writes, tt_history_row_parse() reads
 * back to the same row; the reader takes nothing that is not such a row.
 */
#include "config.h"
#include "tuner/history.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KNOBS = 4096, FORMAT = 1 };

/* ---- writing ----------------------------------------------------------- */

/* Length of the UTF-8 sequence at s, 0: not valid. */
static int
utf8_length(const unsigned char *s)
{
  int n = s[0] < 0x80   ? 1
          : s[0] < 0xc2 ? 0
          : s[0] < 0xe0 ? 2
          : s[0] < 0xf0 ? 3
          : s[0] < 0xf5 ? 4
                        : 0;

  for (int i = 1; i < n; i++)
    if ((s[i] & 0xc0) != 0x80)
      return 0;
  if ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f) ||
      (s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f))
    return 0;
  return n;
}

static void
put_string(struct tt_sb *out, const char *text)
{
  const unsigned char *s = (const unsigned char *)text;
  int n;

  if (text == NULL) {
    tt_sb_add(out, "null");
    return;
  }
  tt_sb_putc(out, '"');
  for (; *s != '\0'; s += n ? n : 1) {
    n = utf8_length(s);
    if (n == 0) /* a compiler's message in another encoding */
      tt_sb_add(out, "\\ufffd");
    else if (*s == '"' || *s == '\\')
      tt_sb_printf(out, "\\%c", *s);
    else if (*s == '\n')
      tt_sb_add(out, "\\n");
    else if (*s < 0x20 || *s == 0x7f)
      tt_sb_printf(out, "\\u%04x", *s);
    else
      tt_sb_addn(out, (const char *)s, (size_t)n);
  }
  tt_sb_putc(out, '"');
}

static void
put_field(struct tt_sb *out, const char *name, const char *text)
{
  tt_sb_printf(out, ",\"%s\":", name);
  put_string(out, text);
}

static void
put_number(struct tt_sb *out, const char *name, double v)
{
  if (isfinite(v))
    tt_sb_printf(out, ",\"%s\":%.17g", name, v);
  else /* JSON has no infinity: a number too large reads back as one */
    tt_sb_printf(out, ",\"%s\":%s", name, v < 0 ? "-1e999" : "1e999");
}

static void
put_record(struct tt_sb *out, const struct tt_record *r)
{
  put_field(out, "schedule", r->schedule);
  tt_sb_add(out, ",\"config\":");
  if (r->config == NULL)
    tt_sb_add(out, "null");
  else {
    tt_sb_putc(out, '[');
    for (int i = 0; i < r->nknobs; i++)
      tt_sb_printf(out, i ? ",%d" : "%d", r->config[i]);
    tt_sb_putc(out, ']');
  }
  put_field(out, "outcome", tt_outcome_name(r->result.outcome));
  put_number(out, "seconds", r->result.seconds);
  put_number(out, "spread", r->result.spread);
  put_number(out, "max_error", r->result.max_error);
  put_number(out, "build_seconds", r->result.build_seconds);
  put_number(out, "run_seconds", r->result.run_seconds);
  put_field(out, "message", r->result.message);
}

void
tt_history_row_json(const struct tt_history_row *row, struct tt_sb *out)
{
  tt_sb_printf(out, "{\"v\":%d,\"type\":\"%s\"", FORMAT,
               row->is_finished ? "finished" : "record");
  put_field(out, "program", row->workload.program);
  put_field(out, "text", row->workload.text);
  if (row->workload.source != NULL)
    put_field(out, "source", row->workload.source);
  put_field(out, "target", row->workload.target);
  put_field(out, "compiler", row->workload.compiler);
  put_field(out, "options", row->workload.options);
  put_field(out, "tool", row->tool);
  tt_sb_printf(out, ",\"created\":%lld", (long long)row->created);
  if (row->is_finished) {
    put_field(out, "schedule", row->finished.schedule);
    put_number(out, "seconds", row->finished.seconds);
    put_number(out, "plain_seconds", row->finished.plain_seconds);
    put_number(out, "spent", row->finished.spent);
    put_number(out, "max_error", row->finished.max_error);
    tt_sb_printf(out, ",\"trials\":%d", row->finished.trials);
  } else {
    put_record(out, &row->record);
  }
  tt_sb_putc(out, '}');
}

/* ---- reading ----------------------------------------------------------- */

enum value_kind { STRING, NUMBER, NUMBERS, NOTHING };

struct reader {
  struct tt_arena *arena;
  const char *p, *end;
  const char *error;
  /* the value read last */
  enum value_kind kind;
  const char *string;
  double number;
  long long integer; /* of a number without point or exponent */
  bool integral;
  int n;
  int *list;
};

static bool
fail(struct reader *r, const char *message)
{
  if (r->error == NULL)
    r->error = message;
  return false;
}

static void
skip_space(struct reader *r)
{
  while (r->p < r->end && (*r->p == ' ' || *r->p == '\t' || *r->p == '\r'))
    r->p++;
}

/* Take the character if it comes next. */
static bool
take(struct reader *r, char c)
{
  skip_space(r);
  if (r->p >= r->end || *r->p != c)
    return false;
  r->p++;
  return true;
}

static bool
read_hex4(struct reader *r, unsigned *out)
{
  *out = 0;
  for (int i = 0; i < 4; i++, r->p++) {
    if (r->p >= r->end || !isxdigit((unsigned char)*r->p))
      return fail(r, "a bad \\u escape");
    *out = *out * 16 +
           (unsigned)(*r->p <= '9' ? *r->p - '0' : (*r->p | 32) - 'a' + 10);
  }
  return true;
}

static void
put_utf8(struct tt_sb *sb, unsigned c)
{
  if (c < 0x80) {
    tt_sb_putc(sb, (char)c);
  } else if (c < 0x800) {
    tt_sb_putc(sb, (char)(0xc0 | c >> 6));
    tt_sb_putc(sb, (char)(0x80 | (c & 63)));
  } else if (c < 0x10000) {
    tt_sb_putc(sb, (char)(0xe0 | c >> 12));
    tt_sb_putc(sb, (char)(0x80 | (c >> 6 & 63)));
    tt_sb_putc(sb, (char)(0x80 | (c & 63)));
  } else {
    tt_sb_putc(sb, (char)(0xf0 | c >> 18));
    tt_sb_putc(sb, (char)(0x80 | (c >> 12 & 63)));
    tt_sb_putc(sb, (char)(0x80 | (c >> 6 & 63)));
    tt_sb_putc(sb, (char)(0x80 | (c & 63)));
  }
}

/* After "\u". */
static bool
read_unicode(struct reader *r, struct tt_sb *sb)
{
  unsigned c, low;

  if (!read_hex4(r, &c))
    return false;
  if (c >= 0xd800 && c < 0xdc00) {
    if (r->end - r->p < 2 || r->p[0] != '\\' || r->p[1] != 'u')
      return fail(r, "half of a surrogate pair");
    r->p += 2;
    if (!read_hex4(r, &low))
      return false;
    if (low < 0xdc00 || low > 0xdfff)
      return fail(r, "half of a surrogate pair");
    c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
  } else if (c >= 0xdc00 && c <= 0xdfff) {
    return fail(r, "half of a surrogate pair");
  }
  if (c == 0)
    return fail(r, "a NUL character in a string");
  put_utf8(sb, c);
  return true;
}

static bool
read_escape(struct reader *r, struct tt_sb *sb)
{
  static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
  const char *at;

  if (r->p >= r->end)
    return fail(r, "a string without an end");
  if (*r->p == 'u') {
    r->p++;
    return read_unicode(r, sb);
  }
  at = *r->p != '\0' ? strchr(from, *r->p) : NULL;
  if (at == NULL)
    return fail(r, "a bad escape in a string");
  tt_sb_putc(sb, to[at - from]);
  r->p++;
  return true;
}

/* After the opening quote. */
static bool
read_string(struct reader *r)
{
  struct tt_sb sb = {0};
  bool ok = true;

  while (ok && r->p < r->end && *r->p != '"') {
    int n = (unsigned char)*r->p < 0x20
                ? 0
                : utf8_length((const unsigned char *)r->p);
    if (n == 0 || n > r->end - r->p)
      ok = fail(r, "a string that is not clean UTF-8");
    else if (*r->p == '\\') {
      r->p++;
      ok = read_escape(r, &sb);
    } else {
      tt_sb_addn(&sb, r->p, (size_t)n);
      r->p += n;
    }
  }
  if (ok && r->p >= r->end)
    ok = fail(r, "a string without an end");
  if (ok) {
    r->p++;
    r->kind = STRING;
    r->string = tt_arena_strdup(r->arena, tt_sb_str(&sb));
  }
  tt_sb_free(&sb);
  return ok;
}

static bool
read_number(struct reader *r)
{
  char text[64];
  size_t n = 0;
  char *stop;

  while (r->p + n < r->end && strchr("+-.eE0123456789", r->p[n]) &&
         r->p[n] != '\0')
    n++;
  if (n == 0 || n >= sizeof text || r->p[0] == '+' || r->p[0] == '.')
    return fail(r, "a bad number");
  memcpy(text, r->p, n);
  text[n] = '\0';
  r->number = strtod(text, &stop);
  if (*stop != '\0')
    return fail(r, "a bad number");
  r->integral = strpbrk(text, ".eE") == NULL;
  errno = 0;
  r->integer = strtoll(text, NULL, 10);
  if (errno != 0)
    r->integral = false;
  r->kind = NUMBER;
  r->p += n;
  return true;
}

/* After "[": the indices of a configuration. */
static bool
read_list(struct reader *r)
{
  int *list = TT_ARRAY(r->arena, int, MAX_KNOBS);
  int n = 0;

  if (!take(r, ']'))
    do {
      skip_space(r);
      if (!read_number(r))
        return false;
      if (n == MAX_KNOBS || !r->integral || r->integer < 0 ||
          r->integer > INT_MAX)
        return fail(r, "a bad list of knobs");
      list[n++] = (int)r->integer;
    } while (take(r, ','));
  if (r->p[-1] != ']' && !take(r, ']'))
    return fail(r, "a list without an end");
  r->kind = NUMBERS;
  r->n = n;
  r->list = list;
  return true;
}

static bool
read_value(struct reader *r)
{
  if (take(r, '"'))
    return read_string(r);
  if (take(r, '['))
    return read_list(r);
  if (r->end - r->p >= 4 && memcmp(r->p, "null", 4) == 0) {
    r->p += 4;
    r->kind = NOTHING;
    return true;
  }
  return read_number(r);
}

/* ---- fields ------------------------------------------------------------ */

/* One column of a row, and where its value goes. */
struct field {
  const char *name;
  enum value_kind kind;
  bool optional; /* may be null or absent */
  const char **string;
  double *number; /* >= 0 */
  int64_t *integer;
  bool seen;
};

static bool
store(struct reader *r, struct field *f, struct tt_history_row *row)
{
  if (f->seen)
    return fail(r, tt_arena_printf(r->arena, "two fields '%s'", f->name));
  if (r->kind == NOTHING && f->optional) {
    f->seen = true;
    return true;
  }
  if (r->kind != f->kind || (f->integer != NULL && !r->integral) ||
      (f->number != NULL && !(r->number >= 0)) ||
      (f->integer != NULL && r->integer < 0))
    return fail(r, tt_arena_printf(r->arena, "a bad value of '%s'", f->name));
  if (f->string != NULL)
    *f->string = r->string;
  if (f->number != NULL)
    *f->number = r->number;
  if (f->integer != NULL)
    *f->integer = r->integer;
  if (f->kind == NUMBERS) {
    row->record.config = r->list;
    row->record.nknobs = r->n;
  }
  f->seen = true;
  return true;
}

/* The object's fields, in any order. */
static bool
read_fields(struct reader *r, int n, struct field *fields,
            struct tt_history_row *row)
{
  const char *name;
  int i;

  if (!take(r, '{'))
    return fail(r, "not a JSON object");
  do {
    if (!take(r, '"'))
      return fail(r, "a field without a name");
    if (!read_string(r))
      return false;
    name = r->string;
    for (i = 0; i < n && strcmp(fields[i].name, name) != 0; i++)
      ;
    if (i == n)
      return fail(r,
                  tt_arena_printf(r->arena, "an unknown field '%.40s'", name));
    if (!take(r, ':'))
      return fail(r, "a field without a value");
    if (!read_value(r) || !store(r, &fields[i], row))
      return false;
  } while (take(r, ','));
  if (!take(r, '}'))
    return fail(r, "an object without an end");
  skip_space(r);
  if (r->p != r->end)
    return fail(r, "text after the object");
  return true;
}

static bool
is_hash(const char *s)
{
  return strlen(s) == 32 && strspn(s, "0123456789abcdef") == 32;
}

/* What the types of the fields do not say. */
static bool
check_row(struct reader *r, struct tt_history_row *row, const char *outcome)
{
  struct tt_result *t = &row->record.result;
  int i;

  if (!is_hash(row->workload.program))
    return fail(r, "a bad value of 'program': not a hash");
  if (row->is_finished)
    return row->finished.seconds > 0 && isfinite(row->finished.seconds)
               ? true
               : fail(r, "a bad value of 'seconds'");
  for (i = 0; i < TT_NOUTCOMES; i++)
    if (strcmp(outcome, tt_outcome_name((enum tt_outcome)i)) == 0)
      break;
  if (i == TT_NOUTCOMES)
    return fail(
        r, tt_arena_printf(r->arena, "an unknown outcome '%.40s'", outcome));
  t->outcome = (enum tt_outcome)i;
  if (!isfinite(t->seconds) || (t->outcome == TT_OUT_OK && !(t->seconds > 0)))
    return fail(r, "a bad value of 'seconds'");
  return true;
}

/* Every field of the row's type must be there, and none of the other's. */
static bool
check_seen(struct reader *r, const struct field *fields, int n, int common,
           int split, bool finished)
{
  for (int i = 0; i < n; i++) {
    bool wanted = i < common || (i < split) != finished;
    if (wanted && !fields[i].seen && !fields[i].optional)
      return fail(r,
                  tt_arena_printf(r->arena, "no field '%s'", fields[i].name));
    if (!wanted && fields[i].seen)
      return fail(r, tt_arena_printf(r->arena, "a field '%s' that a %s has not",
                                     fields[i].name,
                                     finished ? "winner" : "record"));
  }
  return true;
}

static bool
parse(struct reader *r, struct tt_history_row *row)
{
  int64_t version = 0, trials = 0;
  const char *type = "", *outcome = "", *schedule = "";
  double seconds = 0, max_error = 0;
  struct tt_result *t = &row->record.result;
  struct tt_workload *w = &row->workload;
  struct field fields[] = {
      {"v", NUMBER, false, NULL, NULL, &version, false},
      {"type", STRING, false, &type, NULL, NULL, false},
      {"program", STRING, false, &w->program, NULL, NULL, false},
      {"text", STRING, false, &w->text, NULL, NULL, false},
      {"target", STRING, false, &w->target, NULL, NULL, false},
      {"compiler", STRING, false, &w->compiler, NULL, NULL, false},
      {"options", STRING, false, &w->options, NULL, NULL, false},
      {"source", STRING, true, &w->source, NULL, NULL, false},
      {"tool", STRING, false, &row->tool, NULL, NULL, false},
      {"created", NUMBER, false, NULL, NULL, &row->created, false},
      {"schedule", STRING, false, &schedule, NULL, NULL, false},
      {"seconds", NUMBER, false, NULL, &seconds, NULL, false},
      {"max_error", NUMBER, false, NULL, &max_error, NULL, false},
      {"config", NUMBERS, true, NULL, NULL, NULL, false},
      {"outcome", STRING, false, &outcome, NULL, NULL, false},
      {"spread", NUMBER, false, NULL, &t->spread, NULL, false},
      {"build_seconds", NUMBER, false, NULL, &t->build_seconds, NULL, false},
      {"run_seconds", NUMBER, false, NULL, &t->run_seconds, NULL, false},
      {"message", STRING, true, &t->message, NULL, NULL, false},
      {"plain_seconds", NUMBER, false, NULL, &row->finished.plain_seconds, NULL,
       false},
      {"spent", NUMBER, false, NULL, &row->finished.spent, NULL, false},
      {"trials", NUMBER, false, NULL, NULL, &trials, false},
  };
  enum { N = sizeof fields / sizeof *fields, COMMON = 13, SPLIT = 19 };

  if (!read_fields(r, N, fields, row))
    return false;
  if (fields[0].seen && version != FORMAT)
    return fail(r, "a line of another version");
  row->is_finished = strcmp(type, "finished") == 0;
  if (!row->is_finished && strcmp(type, "record") != 0)
    return fail(r, "a bad value of 'type'");
  if (!check_seen(r, fields, N, COMMON, SPLIT, row->is_finished))
    return false;
  if (row->is_finished) {
    row->finished.schedule = schedule;
    row->finished.seconds = seconds;
    row->finished.max_error = max_error;
    row->finished.trials = trials > INT_MAX ? INT_MAX : (int)trials;
  } else {
    row->record.schedule = schedule;
    t->seconds = seconds;
    t->max_error = max_error;
  }
  return check_row(r, row, outcome);
}

const char *
tt_history_row_parse(struct tt_arena *arena, const char *line, size_t len,
                     struct tt_history_row *row)
{
  struct reader r = {.arena = arena, .p = line, .end = line + len};

  memset(row, 0, sizeof *row);
  if (parse(&r, row))
    return NULL;
  return r.error ? r.error : "not a row of a history";
}
