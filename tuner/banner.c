/* The banner of emitted files.  Owns its layout:
 *
 *   /\* matmul: made by tcc-tune 0.1.0 from matmul.te.  Do not edit.
 *    *
 *    * command: tcc-tune --vector=512 matmul.te
 *    * bytes: workspace 0, stack 0, prepared 0
 *    * measured: ...            (any number of these lines, or none)
 *    *
 *    * schedule {
 *    *   ...
 *    * }
 *    *\/
 *
 * Invariant: neither a date nor a folder is in it, and nothing ends the
 * comment early.
 */
#include "config.h"

#include "tuner/banner.h"

#include <stdarg.h>
#include <string.h>

#include "runtime/words.h"

#define COMMAND " * command: tcc-tune "
#define MEASURED " * measured: "

/* A line of the comment; what would end the comment is broken up, and so are
 * line ends. */
static void
line(struct tt_sb *sb, const char *mark, const char *text)
{
  tt_sb_add(sb, mark);
  for (const char *p = text; *p; p++) {
    tt_sb_putc(sb, *p == '\n' ? ' ' : *p);
    if (p[0] == '*' && p[1] == '/')
      tt_sb_putc(sb, ' ');
  }
  tt_sb_putc(sb, '\n');
}

static void linef(struct tt_sb *sb, const char *mark, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

static void
linef(struct tt_sb *sb, const char *mark, const char *fmt, ...)
{
  struct tt_sb text = {0};
  va_list ap;
  va_start(ap, fmt);
  tt_sb_vprintf(&text, fmt, ap);
  va_end(ap);
  line(sb, mark, tt_sb_str(&text));
  tt_sb_free(&text);
}

static void
schedule_lines(struct tt_sb *sb, const char *text)
{
  while (*text) {
    size_t n = strcspn(text, "\n");
    linef(sb, " * ", "%.*s", (int)n, text);
    text += n + (text[n] == '\n');
  }
}

void
tt_banner_print(struct tt_sb *sb, const struct tt_banner *b)
{
  linef(sb, "/* ", "%s: made by tcc-tune %s from %s.  Do not edit.", b->kernel,
        PACKAGE_VERSION, b->source);
  tt_sb_add(sb, " *\n");
  linef(sb, COMMAND, "%s%s", b->code_words, b->source);
  linef(sb, " * ", "bytes: workspace %lld, stack %lld, prepared %lld",
        (long long)b->sizes.workspace_bytes, (long long)b->sizes.stack_bytes,
        (long long)b->sizes.prepared_bytes);
  if (b->measured) {
    line(sb, MEASURED, b->measured->speed);
    line(sb, MEASURED, b->measured->check);
    line(sb, MEASURED, b->measured->target);
    line(sb, MEASURED, b->measured->compiler);
  }
  tt_sb_add(sb, " *\n");
  schedule_lines(sb, b->schedule);
  tt_sb_add(sb, " */\n");
}

static bool
starts(const char *s, const char *prefix)
{
  return strncmp(s, prefix, strlen(prefix)) == 0;
}

/* The banner is the comment that the file begins with: where it ends. */
static const char *
banner_end(const char *text)
{
  const char *end = starts(text, "/*") ? strstr(text, "*/") : NULL;
  return end ? end : text;
}

const char *
tt_banner_strip(struct tt_arena *arena, const char *text, size_t *len)
{
  struct tt_sb sb = {0};
  const char *end = banner_end(text), *all = text + *len;
  while (text < end) {
    size_t n = strcspn(text, "\n");
    n += text[n] == '\n';
    if (!starts(text, MEASURED))
      tt_sb_addn(&sb, text, n);
    text += n;
  }
  tt_sb_addn(&sb, text, (size_t)(all - text));
  *len = sb.len;
  const char *copy = tt_arena_strndup(arena, tt_sb_str(&sb), sb.len);
  tt_sb_free(&sb);
  return copy;
}

/* Parse the options of a command line up to its end. */
static bool
parse_command(struct tt_arena *arena, const char *line_text,
              struct tt_options *options, const char **error)
{
  const char *copy =
      tt_arena_strndup(arena, line_text, strcspn(line_text, "\n"));
  int n;
  char **words = tt_words_split(copy, &n, error);
  if (!words)
    return false;
  /* The options keep their words, which must therefore be the arena's. */
  const char **kept = TT_ARRAY(arena, const char *, (size_t)n + 1);
  for (int i = 0; i < n; i++)
    kept[i] = tt_arena_strdup(arena, words[i]);
  tt_words_free(words);
  return tt_options_parse(arena, n, kept, options, error);
}

bool
tt_banner_options(struct tt_arena *arena, const char *text,
                  struct tt_options *options, const char **error)
{
  const char *end = banner_end(text);
  *options = tt_options_none();
  while (text < end && !starts(text, COMMAND)) {
    text += strcspn(text, "\n");
    text += *text == '\n';
  }
  if (text >= end)
    return true;
  if (parse_command(arena, text + strlen(COMMAND), options, error))
    return true;
  *error = tt_arena_printf(arena, "its command cannot be read: %s", *error);
  return false;
}
