/* Owns the syntax of protocol lines.  Whatever bytes come in, nothing is read
 * or written outside the given buffers. */
#include "config.h"

#include "runtime/protocol.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned
checksum(const char *text, size_t n)
{
  unsigned x = 0;
  for (size_t i = 0; i < n; i++)
    x ^= (unsigned char)text[i];
  return x;
}

void
tt_line_add(struct tt_sb *sb, const char *fmt, ...)
{
  va_list ap;
  tt_sb_add(sb, "@tt ");
  size_t start = sb->len;
  va_start(ap, fmt);
  tt_sb_vprintf(sb, fmt, ap);
  va_end(ap);
  tt_sb_printf(sb, "*%02x\n", checksum(sb->s + start, sb->len - start));
}

static bool
is_plain(unsigned char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || (c && strchr("_.,:/+-()'[]", c));
}

const char *
tt_line_quote(const char *value, char *buf, size_t size)
{
  size_t n = 0;
  for (; *value && n + 4 <= size; value++) {
    unsigned char c = (unsigned char)*value;
    if (is_plain(c))
      buf[n++] = (char)c;
    else
      n += (size_t)snprintf(buf + n, size - n, "%%%02x", c);
  }
  buf[n] = 0;
  return buf;
}

char *
tt_line_check(char *line)
{
  size_t n = strlen(line);
  if (n && line[n - 1] == '\r')
    line[--n] = 0;
  if (n < 7 || n > TT_MAX_LINE || strncmp(line, "@tt ", 4) ||
      line[n - 3] != '*')
    return NULL;
  char *end;
  unsigned long sum = strtoul(line + n - 2, &end, 16);
  if (end != line + n || strspn(line + n - 2, "0123456789abcdef") != 2 ||
      sum != checksum(line + 4, n - 7))
    return NULL;
  line[n - 3] = 0;
  return line + 4;
}

char *
tt_line_next(struct tt_sb *text, size_t *pos)
{
  if (*pos >= text->len)
    return NULL;
  char *start = text->s + *pos;
  char *end = memchr(start, '\n', text->len - *pos);
  if (!end)
    return NULL;
  *end = 0;
  *pos = (size_t)(end - text->s) + 1;
  return start;
}

/* The bounds of word n. */
static const char *
word(const char *text, int n, size_t *len)
{
  while (n > 0) {
    text += strcspn(text, " ");
    if (!*text)
      return NULL;
    text++;
    n--;
  }
  *len = strcspn(text, " ");
  return *len ? text : NULL;
}

bool
tt_line_word(const char *text, int n, char *buf, size_t size)
{
  size_t len;
  const char *w = word(text, n, &len);
  if (!w || len >= size)
    return false;
  memcpy(buf, w, len);
  buf[len] = 0;
  return true;
}

static int
hex(char c)
{
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                : -1;
}

bool
tt_line_get(const char *text, const char *key, char *buf, size_t size)
{
  size_t keylen = strlen(key), len, n = 0;
  const char *w;
  for (int i = 0; (w = word(text, i, &len)); i++)
    if (len > keylen && !strncmp(w, key, keylen) && w[keylen] == '=')
      break;
  if (!w)
    return false;
  const char *end = w + len;
  for (w += keylen + 1; w < end; w++) {
    char c = *w;
    if (c == '%') {
      if (end - w < 3 || hex(w[1]) < 0 || hex(w[2]) < 0)
        return false;
      c = (char)(hex(w[1]) * 16 + hex(w[2]));
      w += 2;
    }
    if (!c || n + 1 >= size)
      return false;
    buf[n++] = c;
  }
  buf[n] = 0;
  return true;
}

bool
tt_line_int(const char *text, const char *key, int64_t *out)
{
  char buf[32], *end;
  if (!tt_line_get(text, key, buf, sizeof buf) || !*buf)
    return false;
  errno = 0;
  *out = strtoll(buf, &end, 10);
  return *end == 0 && errno == 0;
}

bool
tt_line_float(const char *text, const char *key, double *out)
{
  char buf[64], *end;
  if (!tt_line_get(text, key, buf, sizeof buf) || !*buf)
    return false;
  *out = strtod(buf, &end);
  return *end == 0;
}

int
tt_line_floats(const char *text, const char *key, double *out, int max)
{
  char buf[TT_MAX_LINE];
  int n = 0;
  if (!tt_line_get(text, key, buf, sizeof buf))
    return 0;
  for (char *p = buf, *end; *p && n < max; p = end) {
    out[n] = strtod(p, &end);
    if (end == p)
      break;
    n++;
    if (*end == ',')
      end++;
  }
  return n;
}
