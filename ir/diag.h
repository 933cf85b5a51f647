/* Source texts and diagnostics with carets.
 *
 * A diagnostic has a stable code (ir/diag.def: code, severity, one line for
 * the manual), a span, a message and notes at other places.  They are
 * collected, sorted by place and printed by whoever owns the terminal;
 * nothing in the library prints.
 */
#ifndef TT_DIAG_H
#define TT_DIAG_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/arena.h"

struct tt_source; /* a named text; knows its lines */

/* A half-open byte range of a source; src NULL: no place (command line). */
struct tt_span {
  const struct tt_source *src;
  uint32_t lo, hi;
};

enum tt_diag_code {
#define TT_DIAG(code, name, severity, summary) TT_D_##code,
#include "ir/diag.def"
#undef TT_DIAG
  TT_NDIAGS
};

/* A source from memory (name and text copied to the arena). */
struct tt_source *tt_source_new(struct tt_arena *, const char *name,
                                const char *text, size_t len);
const char *tt_source_text(const struct tt_source *, size_t *len);
/* 1-based line and visual column (tabs to 8, UTF-8 counted once). */
void tt_source_place(const struct tt_source *, uint32_t offset, int *line,
                     int *column);

struct tt_diags; /* a bag of diagnostics, owned by an arena */
struct tt_diags *tt_diags_new(struct tt_arena *);
/* Add an error or warning (the code's severity decides). */
void tt_diag(struct tt_diags *, enum tt_diag_code, struct tt_span,
             const char *fmt, ...) __attribute__((format(printf, 4, 5)));
/* Attach a note to the diagnostic added last. */
void tt_diag_note(struct tt_diags *, struct tt_span, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int tt_diags_errors(const struct tt_diags *);
/* Has this code been reported?  For tests. */
bool tt_diags_has(const struct tt_diags *, enum tt_diag_code);
/* All of them, sorted by place, at most 20 errors (then "N more errors"):
 *   file:line:col: error: message [unbound-index]
 *    12 | source line
 *       |     ^~~~
 *   file:line:col: note: ...                                              */
void tt_diags_print(const struct tt_diags *, struct tt_sb *out, bool color);
const char *tt_diag_name(enum tt_diag_code);    /* "unbound-index" */
const char *tt_diag_summary(enum tt_diag_code); /* one line, for the manual */

#endif
