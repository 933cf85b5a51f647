/* Source texts and the bag of diagnostics.
 *
 * Owns: names, texts and line tables of sources; messages and notes.  All of
 * it lives in the arena, so spans stay valid as long as the program.
 * Invariant: `lines` holds the offset of every line's first byte, ascending.
 */
#include "config.h"

#include "ir/diag.h"

#include <stdlib.h>
#include <string.h>

enum {
  MAX_STORED = 500, /* beyond this diagnostics are counted, not kept */
  MAX_SHOWN = 20,   /* errors printed; and as many warnings */
  TAB = 8,
  WIDE = 160,   /* lines wider than this are shown in part */
  CONTEXT = 60, /* columns shown before the caret of a wide line */
  MAX_CARETS = 120
};

struct tt_source {
  const char *name, *text;
  size_t len;
  uint32_t nlines;
  uint32_t *lines;
};

struct note {
  struct tt_span span;
  const char *text;
  struct note *next;
};

struct entry {
  enum tt_diag_code code;
  struct tt_span span;
  int source_rank, seq;
  const char *text;
  struct note *notes, **tail;
};

struct tt_diags {
  struct tt_arena *arena;
  int errors, warnings;
  int n, cap;
  struct entry **entries;
  bool last_dropped;
  bool seen[TT_NDIAGS];
};

/* ---- the table --------------------------------------------------------- */

static const struct {
  const char *name, *summary;
  char severity;
} table[] = {
#define TT_DIAG(code, name, severity, summary) {name, summary, severity},
#include "ir/diag.def"
#undef TT_DIAG
};

const char *
tt_diag_name(enum tt_diag_code code)
{
  return table[code].name;
}

const char *
tt_diag_summary(enum tt_diag_code code)
{
  return table[code].summary;
}

/* ---- sources ----------------------------------------------------------- */

struct tt_source *
tt_source_new(struct tt_arena *arena, const char *name, const char *text,
              size_t len)
{
  struct tt_source *s = TT_NEW(arena, struct tt_source);
  uint32_t n = 1, i = 0;

  s->name = tt_arena_strdup(arena, name);
  s->text = tt_arena_strndup(arena, "", 0);
  if (len > 0) {
    char *copy = tt_arena_alloc(arena, len + 1);
    memcpy(copy, text, len);
    s->text = copy;
  }
  s->len = len;
  for (size_t k = 0; k < len; k++)
    n += s->text[k] == '\n';
  s->lines = TT_ARRAY(arena, uint32_t, n);
  s->nlines = n;
  for (size_t k = 0; k < len; k++)
    if (s->text[k] == '\n')
      s->lines[++i] = (uint32_t)k + 1;
  return s;
}

const char *
tt_source_text(const struct tt_source *s, size_t *len)
{
  if (len)
    *len = s->len;
  return s->text;
}

/* Position in `lines` of the line that holds the offset. */
static uint32_t
line_of(const struct tt_source *s, uint32_t offset)
{
  uint32_t lo = 0, hi = s->nlines;

  while (hi - lo > 1) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (s->lines[mid] <= offset)
      lo = mid;
    else
      hi = mid;
  }
  return lo;
}

/* Length of the well-formed UTF-8 sequence at p (at most n bytes), else 0. */
static int
utf8_length(const unsigned char *p, size_t n)
{
  int len = p[0] < 0x80                   ? 1
            : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
            : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
            : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                          : 0;

  if ((size_t)len > n)
    return 0;
  for (int i = 1; i < len; i++)
    if ((p[i] & 0xc0) != 0x80)
      return 0;
  return len;
}

/* The line as it is shown: tabs become spaces, what cannot be shown '?'.
 * column_of[i]: the 0-based column of byte i; the end included when the
 * caller passes lo or hi there. */
static int
show_line(const struct tt_source *s, uint32_t begin, uint32_t end,
          struct tt_sb *out, uint32_t mark_lo, uint32_t mark_hi, int *col_lo,
          int *col_hi)
{
  int col = 0;
  uint32_t i = begin;

  *col_lo = *col_hi = -1;
  while (i < end) {
    const unsigned char *p = (const unsigned char *)s->text + i;
    int len = utf8_length(p, end - i);
    if (*col_lo < 0 && i >= mark_lo)
      *col_lo = col;
    if (*col_hi < 0 && i >= mark_hi)
      *col_hi = col;
    if (*p == '\t') {
      do {
        if (out)
          tt_sb_putc(out, ' ');
        col++;
      } while (col % TAB);
      i++;
      continue;
    }
    if (out && (len == 0 || *p < 0x20 || *p == 0x7f))
      tt_sb_putc(out, '?');
    else if (out)
      tt_sb_addn(out, (const char *)p, (size_t)len);
    i += len > 0 ? (uint32_t)len : 1;
    col++;
  }
  if (*col_lo < 0)
    *col_lo = col;
  if (*col_hi < 0)
    *col_hi = col;
  return col;
}

void
tt_source_place(const struct tt_source *s, uint32_t offset, int *line,
                int *column)
{
  uint32_t l = line_of(s, offset);
  int lo, hi;

  if (offset > s->len)
    offset = (uint32_t)s->len;
  show_line(s, s->lines[l], offset, NULL, offset, offset, &lo, &hi);
  *line = (int)l + 1;
  *column = lo + 1;
}

/* ---- collecting -------------------------------------------------------- */

struct tt_diags *
tt_diags_new(struct tt_arena *arena)
{
  struct tt_diags *d = TT_NEW(arena, struct tt_diags);

  d->arena = arena;
  return d;
}

static const char *
format(struct tt_arena *arena, const char *fmt, va_list ap)
{
  struct tt_sb sb = {0};
  const char *text;

  tt_sb_vprintf(&sb, fmt, ap);
  text = tt_arena_strdup(arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static bool
same_span(struct tt_span a, struct tt_span b)
{
  return a.src == b.src && a.lo == b.lo && a.hi == b.hi;
}

/* Expanding a def twice finds its mistakes twice: one is enough. */
static bool
already_there(const struct tt_diags *d, enum tt_diag_code code,
              struct tt_span span, const char *text)
{
  if (!span.src)
    return false;
  for (int i = 0; i < d->n; i++)
    if (d->entries[i]->code == code && same_span(d->entries[i]->span, span) &&
        strcmp(d->entries[i]->text, text) == 0)
      return true;
  return false;
}

static int
rank_of_source(const struct tt_diags *d, const struct tt_source *src)
{
  int next = 1;

  if (!src)
    return 0;
  for (int i = 0; i < d->n; i++) {
    if (d->entries[i]->span.src == src)
      return d->entries[i]->source_rank;
    if (d->entries[i]->source_rank >= next)
      next = d->entries[i]->source_rank + 1;
  }
  return next;
}

static void
append(struct tt_diags *d, struct entry *e)
{
  if (d->n == d->cap) {
    int cap = d->cap ? 2 * d->cap : 16;
    struct entry **grown = TT_ARRAY(d->arena, struct entry *, (size_t)cap);
    if (d->n)
      memcpy(grown, d->entries, (size_t)d->n * sizeof *grown);
    d->entries = grown;
    d->cap = cap;
  }
  e->seq = d->n;
  d->entries[d->n++] = e;
}

void
tt_diag(struct tt_diags *d, enum tt_diag_code code, struct tt_span span,
        const char *fmt, ...)
{
  struct entry *e;
  const char *text;
  va_list ap;

  d->seen[code] = true;
  d->last_dropped = true;
  if (d->n < MAX_STORED) {
    va_start(ap, fmt);
    text = format(d->arena, fmt, ap);
    va_end(ap);
    if (already_there(d, code, span, text))
      return;
    e = TT_NEW(d->arena, struct entry);
    e->code = code;
    e->span = span;
    e->text = text;
    e->tail = &e->notes;
    e->source_rank = rank_of_source(d, span.src);
    append(d, e);
    d->last_dropped = false;
  }
  if (table[code].severity == 'E')
    d->errors++;
  else
    d->warnings++;
}

void
tt_diag_note(struct tt_diags *d, struct tt_span span, const char *fmt, ...)
{
  struct note *note;
  va_list ap;

  if (d->last_dropped || d->n == 0)
    return;
  note = TT_NEW(d->arena, struct note);
  note->span = span;
  va_start(ap, fmt);
  note->text = format(d->arena, fmt, ap);
  va_end(ap);
  *d->entries[d->n - 1]->tail = note;
  d->entries[d->n - 1]->tail = &note->next;
}

int
tt_diags_errors(const struct tt_diags *d)
{
  return d->errors;
}

bool
tt_diags_has(const struct tt_diags *d, enum tt_diag_code code)
{
  return d->seen[code];
}

/* ---- printing ---------------------------------------------------------- */

/* Bytes of `s` that take `columns` columns. */
static size_t
skip_columns(const char *s, size_t len, int columns)
{
  size_t i = 0;

  while (i < len && columns-- > 0) {
    i++;
    while (i < len && ((unsigned char)s[i] & 0xc0) == 0x80)
      i++;
  }
  return i;
}

/* "  12 | text" and the caret line below it.  A wide line is shown from
 * some columns before the caret on. */
static void
print_caret(const struct tt_span *span, struct tt_sb *out, const char *on,
            const char *off)
{
  const struct tt_source *s = span->src;
  uint32_t l = line_of(s, span->lo), begin = s->lines[l], end;
  struct tt_sb line = {0};
  int lo, hi, width, skip = 0;
  size_t from, to;

  end = l + 1 < s->nlines ? s->lines[l + 1] - 1 : (uint32_t)s->len;
  if (end > begin && s->text[end - 1] == '\r')
    end--;
  width = show_line(s, begin, end, &line, span->lo, span->hi, &lo, &hi);
  if (width > WIDE && lo > CONTEXT)
    skip = lo - CONTEXT;
  from = skip_columns(tt_sb_str(&line), line.len, skip);
  to = from + skip_columns(tt_sb_str(&line) + from, line.len - from, WIDE);
  tt_sb_printf(out, "%5u | %s", (unsigned)l + 1, skip ? "..." : "");
  tt_sb_addn(out, tt_sb_str(&line) + from, to - from);
  tt_sb_printf(out, "%s\n      | %s", to < line.len ? "..." : "",
               skip ? "   " : "");
  for (int i = skip; i < lo; i++)
    tt_sb_putc(out, ' ');
  tt_sb_printf(out, "%s^", on);
  for (int i = lo + 1; i < hi && i - lo < MAX_CARETS && i < skip + WIDE; i++)
    tt_sb_putc(out, '~');
  tt_sb_printf(out, "%s\n", off);
  tt_sb_free(&line);
}

static void
print_place(const struct tt_span *span, struct tt_sb *out)
{
  int line, column;

  if (!span->src) {
    tt_sb_add(out, "tcc-tune: ");
    return;
  }
  tt_source_place(span->src, span->lo, &line, &column);
  tt_sb_printf(out, "%s:%d:%d: ", span->src->name, line, column);
}

static void
print_entry(const struct entry *e, struct tt_sb *out, bool color)
{
  bool error = table[e->code].severity == 'E';
  const char *off = color ? "\033[0m" : "";
  const char *on = !color ? "" : error ? "\033[1;31m" : "\033[1;35m";
  const char *cyan = color ? "\033[1;36m" : "";

  print_place(&e->span, out);
  tt_sb_printf(out, "%s%s:%s %s [%s]\n", on, error ? "error" : "warning", off,
               e->text, table[e->code].name);
  if (e->span.src)
    print_caret(&e->span, out, on, off);
  for (const struct note *n = e->notes; n; n = n->next) {
    print_place(&n->span, out);
    tt_sb_printf(out, "%snote:%s %s\n", cyan, off, n->text);
    if (n->span.src)
      print_caret(&n->span, out, cyan, off);
  }
}

static int
by_place(const void *pa, const void *pb)
{
  const struct entry *a = *(struct entry *const *)pa;
  const struct entry *b = *(struct entry *const *)pb;

  if (a->source_rank != b->source_rank)
    return a->source_rank < b->source_rank ? -1 : 1;
  if (a->span.src && a->span.lo != b->span.lo)
    return a->span.lo < b->span.lo ? -1 : 1;
  return a->seq < b->seq ? -1 : 1;
}

void
tt_diags_print(const struct tt_diags *d, struct tt_sb *out, bool color)
{
  struct entry **sorted;
  int errors = 0, warnings = 0;

  if (d->n == 0)
    return;
  sorted = TT_ARRAY(d->arena, struct entry *, (size_t)d->n);
  memcpy(sorted, d->entries, (size_t)d->n * sizeof *sorted);
  qsort(sorted, (size_t)d->n, sizeof *sorted, by_place);
  for (int i = 0; i < d->n; i++) {
    bool error = table[sorted[i]->code].severity == 'E';
    int *count = error ? &errors : &warnings;
    if (*count == MAX_SHOWN)
      continue;
    ++*count;
    print_entry(sorted[i], out, color);
  }
  if (d->warnings > warnings)
    tt_sb_printf(out, "%d more warning%s\n", d->warnings - warnings,
                 d->warnings - warnings == 1 ? "" : "s");
  if (d->errors > errors)
    tt_sb_printf(out, "%d more error%s\n", d->errors - errors,
                 d->errors - errors == 1 ? "" : "s");
}
