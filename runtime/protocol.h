/* The lines between the tuner and a runner: `@tt TEXT*XX`, XX being the XOR
 * of the bytes of TEXT in hexadecimal.  TEXT is words parted by single
 * blanks, some of them key=value; values are percent-encoded. */
#ifndef TT_PROTOCOL_H
#define TT_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ir/arena.h"

#define TT_PROTOCOL 1
#define TT_MAX_LINE 4096 /* longer ones are not lines of ours */

/* Appends a whole line, with its end; fmt gives TEXT. */
void tt_line_add(struct tt_sb *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Percent-encodes into buf (at most size - 1 bytes; cut if longer). */
const char *tt_line_quote(const char *value, char *buf, size_t size);
/* TEXT of a line without its newline, cut out in place; NULL when it is not
 * one of ours or damaged. */
char *tt_line_check(char *line);
/* Takes the next complete line out of `text`, from *pos on, and NUL-ends it
 * there; NULL when there is none yet. */
char *tt_line_next(struct tt_sb *text, size_t *pos);
/* Word n of TEXT (0: the first), or the decoded value of a key.  false when
 * it is missing or does not fit. */
bool tt_line_word(const char *text, int n, char *buf, size_t size);
bool tt_line_get(const char *text, const char *key, char *buf, size_t size);
/* Numbers: the whole value must be one. */
bool tt_line_int(const char *text, const char *key, int64_t *out);
bool tt_line_float(const char *text, const char *key, double *out);
/* A comma-separated list of floats; returns how many, at most max. */
int tt_line_floats(const char *text, const char *key, double *out, int max);

#endif
