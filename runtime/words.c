/* Owns the splitting of command lines.  Every returned word is a heap string
 * of its own, and the array ends with NULL. */
#include "config.h"

#include "runtime/words.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"

struct words {
  char **items;
  int n, cap;
};

static bool
is_blank(char c)
{
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

/* Reads one word at *p into `out`, which has room for the rest of the line.
 * Returns NULL, or what is wrong. */
static const char *
one_word(const char **p, char *out)
{
  const char *s = *p;
  for (; *s && !is_blank(*s); s++) {
    if (*s == '\'') {
      for (s++; *s != '\''; s++) {
        if (!*s)
          return "a ' is not closed";
        *out++ = *s;
      }
    } else if (*s == '"') {
      for (s++; *s != '"'; s++) {
        if (!*s)
          return "a \" is not closed";
        if (*s == '\\' && s[1] && strchr("\"\\$`", s[1]))
          s++;
        *out++ = *s;
      }
    } else if (*s == '\\') {
      if (!s[1])
        return "a \\ stands at the end";
      *out++ = *++s;
    } else {
      *out++ = *s;
    }
  }
  *out = 0;
  *p = s;
  return NULL;
}

static void
push(struct words *w, char *item)
{
  if (w->n == w->cap) {
    w->cap = w->cap ? 2 * w->cap : 8;
    w->items = tt_xrealloc(w->items, (size_t)w->cap * sizeof *w->items);
  }
  w->items[w->n++] = item;
}

char **
tt_words_split(const char *line, int *n, const char **error)
{
  struct words w = {NULL, 0, 0};
  char *word = tt_xmalloc(strlen(line) + 1);
  *error = NULL;
  while (true) {
    while (is_blank(*line))
      line++;
    if (!*line)
      break;
    *error = one_word(&line, word);
    if (*error)
      break;
    push(&w, tt_xstrdup(word));
  }
  free(word);
  push(&w, NULL);
  if (*error) {
    tt_words_free(w.items);
    return NULL;
  }
  if (n)
    *n = w.n - 1;
  return w.items;
}

void
tt_words_free(char **words)
{
  if (!words)
    return;
  for (char **w = words; *w; w++)
    free(*w);
  free(words);
}
