/* Files that are written whole or not at all. */
#ifndef TT_OUTPUT_H
#define TT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>

#include "ir/arena.h"

/* Can `path` be written?  Makes and removes a file beside it, to find out
 * before hours are spent.  "-" is standard output.  NULL, or what is wrong in
 * one line owned by the arena. */
const char *tt_output_probe(struct tt_arena *, const char *path);

/* Does `path` name something that exists and is no regular file (a pipe, a
 * terminal, /dev/null)?  It is then written in place. */
bool tt_output_special(const char *path);

/* Do the two paths name the same existing file, or are they the same text? */
bool tt_output_same(const char *a, const char *b);

/* Files to be put in place together.  Nothing at their paths changes before
 * tt_outputs_commit(). */
struct tt_output {
  const char *path;
  const char *text;
  size_t len;
};
/* Write all to temporary files beside their paths, flush them to disk, then
 * rename each.  On failure no temporary file is left, no regular file has
 * changed (save where one rename succeeds and the next fails), and the text
 * says why.  NULL when done. */
const char *tt_outputs_commit(struct tt_arena *, int n,
                              const struct tt_output *);

/* The whole of a file, owned by the arena and NUL-terminated, or NULL and
 * *error. */
const char *tt_read_file(struct tt_arena *, const char *path, size_t *len,
                         const char **error);

#endif
