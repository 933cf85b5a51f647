/* Command lines as lists of words; no shell is ever run. */
#ifndef TT_WORDS_H
#define TT_WORDS_H

/* Split as a POSIX shell splits words: blanks and newlines separate, '...'
 * is taken as it stands, "..." and bare text know the backslash; nothing is
 * expanded.  Returns a NULL-terminated array for tt_words_free() and sets *n
 * (may be NULL).  An open quote or a backslash at the end gives NULL and a
 * constant text in *error. */
char **tt_words_split(const char *line, int *n, const char **error);
void tt_words_free(char **words);

#endif
