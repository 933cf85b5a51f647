/* The driver: reads files, follows includes, names the kernel, and runs the
 * passes: parse, check and lower.
 *
 * An included file's items take the place of the include.  A file is read
 * once; including it again is nothing, including it from itself an error.
 */
#include "config.h"

#include "frontend/frontend.h"

#include "ir/passes.h"
#include "frontend/parse.h"
#include "frontend/sema.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_INCLUDES = 64 };
#define MAX_ALL_FILES ((size_t)64 << 20) /* bytes of all files together */
#define MAX_SOURCE ((size_t)64 << 10)    /* of those kept as one text */

struct loaded {
  const char *path;
  dev_t dev;
  ino_t ino;
  bool open; /* it is being read: including it is a cycle */
};

struct loader {
  struct tt_arena *arena;
  struct tt_diags *diags;
  const struct tt_frontend_options *options;
  TT_VEC(struct loaded) files;
  TT_VEC(struct tt_item *) items;
  int depth;
  size_t bytes;
  const struct tt_file *first; /* the tree of the main file */
};

static const struct tt_span nowhere = {NULL, 0, 0};

static void load_include(struct loader *, const struct tt_item *,
                         const char *from);

/* ---- texts ------------------------------------------------------------- */

/* Parse a text and add its items, includes replaced by theirs. */
static void
load_text(struct loader *l, const char *name, const char *text, size_t len)
{
  struct tt_source *source;
  const struct tt_file *file;
  const char *nul;

  if (len > TT_MAX_FILE) {
    tt_diag(l->diags, TT_D_TOO_LARGE, nowhere,
            "%s: a file may have at most 16 MiB", name);
    return;
  }
  l->bytes += len;
  if (l->bytes > MAX_ALL_FILES) {
    tt_diag(l->diags, TT_D_TOO_LARGE, nowhere,
            "%s: all files together may have at most 64 MiB", name);
    return;
  }
  source = tt_source_new(l->arena, name, text, len);
  nul = len ? memchr(text, 0, len) : NULL;
  if (nul) {
    uint32_t at = (uint32_t)(nul - text);
    tt_diag(l->diags, TT_D_BAD_CHARACTER, (struct tt_span){source, at, at + 1},
            "a NUL byte: this is no text");
    return;
  }
  file = tt_parse_text(l->arena, l->diags, source, text, len);
  if (!l->first)
    l->first = file;
  for (int i = 0; i < file->nitems; i++) {
    if (file->items[i]->kind == TT_ITEM_INCLUDE)
      load_include(l, file->items[i], name);
    else
      TT_PUSH(l->items, file->items[i]);
  }
}

/* ---- files ------------------------------------------------------------- */

/* All of an open file, at most a byte more than is allowed; -1: errno. */
static ssize_t
read_all(int fd, struct tt_sb *out)
{
  char buffer[65536];
  ssize_t n;

  while ((n = read(fd, buffer, sizeof buffer)) != 0) {
    if (n < 0 && errno == EINTR)
      continue;
    if (n < 0)
      return -1;
    tt_sb_addn(out, buffer, (size_t)n);
    if (out->len > TT_MAX_FILE)
      break;
  }
  return (ssize_t)out->len;
}

static const char *
cycle_text(const struct loader *l, const struct loaded *again)
{
  struct tt_sb sb = {0};
  const char *text;

  for (int i = 0; i < l->files.n; i++)
    if (l->files.items[i].open && &l->files.items[i] >= again)
      tt_sb_printf(&sb, "%s → ", l->files.items[i].path);
  tt_sb_add(&sb, again->path);
  text = tt_arena_strdup(l->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* Read and parse an open file, unless it was. */
static void
load_open(struct loader *l, const char *path, int fd, const struct stat *st,
          struct tt_span span)
{
  struct tt_sb text = {0};
  int self;

  for (int i = 0; i < l->files.n; i++) {
    const struct loaded *f = &l->files.items[i];
    if (f->dev != st->st_dev || f->ino != st->st_ino)
      continue;
    if (f->open)
      tt_diag(l->diags, TT_D_INCLUDE_CYCLE, span, "include cycle: %s",
              cycle_text(l, f));
    return;
  }
  if (read_all(fd, &text) < 0) {
    tt_diag(l->diags, TT_D_CANNOT_READ, span, "cannot read %s: %s", path,
            strerror(errno));
    tt_sb_free(&text);
    return;
  }
  self = l->files.n;
  TT_PUSH(l->files, ((struct loaded){tt_arena_strdup(l->arena, path),
                                     st->st_dev, st->st_ino, true}));
  l->depth++;
  load_text(l, path, tt_sb_str(&text), text.len);
  l->depth--;
  l->files.items[self].open = false;
  tt_sb_free(&text);
}

/* 1: loaded or reported; 0: there is no such file. */
static int
load_file(struct loader *l, const char *path, struct tt_span span,
          bool must_exist)
{
  struct stat st;
  int fd = open(path, O_RDONLY | O_CLOEXEC);

  if (fd < 0 && !must_exist && (errno == ENOENT || errno == ENOTDIR))
    return 0;
  if (fd < 0 || fstat(fd, &st) < 0) {
    tt_diag(l->diags, TT_D_CANNOT_READ, span, "cannot read %s: %s", path,
            strerror(errno));
  } else if (S_ISDIR(st.st_mode)) {
    tt_diag(l->diags, TT_D_CANNOT_READ, span, "cannot read %s: %s", path,
            strerror(EISDIR));
  } else {
    load_open(l, path, fd, &st, span);
  }
  if (fd >= 0)
    close(fd);
  return 1;
}

static void
load_include(struct loader *l, const struct tt_item *item, const char *from)
{
  const char *slash = strrchr(from, '/'), *text = item->text;
  struct tt_span span = item->id.span;
  int folder = slash ? (int)(slash - from) + 1 : 0;

  if (l->depth >= MAX_INCLUDES) {
    tt_diag(l->diags, TT_D_TOO_DEEP, span, "includes nest more than %d deep",
            MAX_INCLUDES);
    return;
  }
  if (*text == '/') {
    load_file(l, text, span, true);
    return;
  }
  if (load_file(l, tt_arena_printf(l->arena, "%.*s%s", folder, from, text),
                span, false))
    return;
  for (int i = 0; i < l->options->ninclude_dirs; i++)
    if (load_file(l,
                  tt_arena_printf(l->arena, "%s/%s",
                                  l->options->include_dirs[i], text),
                  span, false))
      return;
  tt_diag(l->diags, TT_D_CANNOT_READ, span,
          "cannot find '%s' beside %s or in a folder of -I", text, from);
}

/* ---- the kernel's name ------------------------------------------------- */

static bool
is_c_name(const char *name)
{
  static const char *const reserved[] = {
      "auto",     "break",  "case",     "char",   "const",    "continue",
      "default",  "do",     "double",   "else",   "enum",     "extern",
      "float",    "for",    "goto",     "if",     "inline",   "int",
      "long",     "main",   "register", "return", "restrict", "short",
      "signed",   "sizeof", "static",   "struct", "switch",   "typedef",
      "typeof",   "union",  "unsigned", "void",   "volatile", "while",
      "asm",      "bool",   "true",     "false",  "nullptr",  "NULL",
      "constexpr"};

  for (size_t i = 0; i < sizeof reserved / sizeof reserved[0]; i++)
    if (strcmp(name, reserved[i]) == 0)
      return false;
  for (int i = 0; i < TT_NFNS; i++)
    if (strcmp(name, tt_fn_name((enum tt_fn)i)) == 0)
      return false; /* exp and the like are the C library's */
  return name[0] != '_' || (name[1] != '_' && (name[1] < 'A' || name[1] > 'Z'));
}

/* The file's stem as a C identifier. */
static const char *
stem_name(struct tt_arena *arena, const char *path)
{
  const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
  const char *dot = strrchr(base, '.');
  char *name = tt_arena_strndup(
      arena, base, dot && dot != base ? (size_t)(dot - base) : strlen(base));

  for (char *p = name; *p; p++)
    if (!((*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
          (*p >= '0' && *p <= '9')))
      *p = '_';
  if (!*name || (*name >= '0' && *name <= '9') || !is_c_name(name))
    return tt_arena_printf(arena, "kernel_%s", name);
  return name;
}

static const char *
kernel_name(struct loader *l, const char *path)
{
  const struct tt_item *first = NULL;

  for (int i = 0; i < l->items.n; i++) {
    const struct tt_item *item = l->items.items[i];
    if (item->kind != TT_ITEM_KERNEL)
      continue;
    if (first) {
      tt_diag(l->diags, TT_D_DUPLICATE, item->id.span,
              "the kernel has a name already: '%s'", first->id.name);
      tt_diag_note(l->diags, first->id.span, "named here");
      continue;
    }
    first = item;
    if (!is_c_name(item->id.name))
      tt_diag(l->diags, TT_D_BAD_KERNEL_NAME, item->id.span,
              "'%s' is reserved in C", item->id.name);
  }
  return first ? first->id.name : stem_name(l->arena, path);
}

/* ---- the passes -------------------------------------------------------- */

static const char *
dump(struct tt_arena *arena, const struct tt_file *file)
{
  struct tt_sb sb = {0};
  const char *text;

  if (file)
    tt_dump_ast(&sb, file);
  text = tt_arena_strdup(arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* Subscripts such as k/KG*CG + c, with sizes known, become what they are: the
 * schedule and its analyses see c. */
static void
simplify(struct tt_program *p)
{
  for (int i = 0; i < p->nstages; i++) {
    struct tt_stage *st = p->stages[i];
    st->value = tt_simplify(p->arena, st->value, NULL);
    if (st->where)
      st->where = tt_simplify(p->arena, st->where, NULL);
    if (st->where && st->where->kind == TT_INT && st->where->ival)
      st->where = NULL;
  }
}

static const char *
one_source(const struct loader *l)
{
  struct tt_sb sb = {0};
  const char *text;

  if (l->bytes > MAX_SOURCE)
    return NULL;
  tt_dump_source(&sb, l->items.n, l->items.items, l->options);
  text = tt_arena_strdup(l->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static struct tt_frontend_result
finish(struct loader *l, const char *path, bool want_ast)
{
  struct tt_frontend_result result = {0};
  struct tt_sema s = {.arena = l->arena,
                      .diags = l->diags,
                      .options = l->options,
                      .nitems = l->items.n,
                      .items = l->items.items};
  const char **files = TT_ARRAY(l->arena, const char *, (size_t)l->files.n);

  for (int i = 0; i < l->files.n; i++)
    files[i] = l->files.items[i].path;
  result.nfiles = l->files.n;
  result.files = files;
  if (want_ast)
    result.ast_dump = dump(l->arena, l->first);
  /* After a syntax error names may be missing: no checks. */
  if (tt_diags_errors(l->diags) == 0) {
    s.program = tt_program_new(l->arena, kernel_name(l, path));
    result.program = tt_lower(&s);
  }
  if (result.program) {
    simplify(result.program);
    tt_add_built_in(result.program, l->options->built_in);
    result.source = one_source(l);
  }
  free(l->items.items);
  free(l->files.items);
  return result;
}

static const struct tt_frontend_options no_options;

struct tt_frontend_result
tt_compile_file(struct tt_arena *arena, struct tt_diags *diags,
                const char *path, const struct tt_frontend_options *options,
                bool want_ast)
{
  struct loader l = {.arena = arena,
                     .diags = diags,
                     .options = options ? options : &no_options};

  load_file(&l, path, nowhere, true);
  return finish(&l, path, want_ast);
}

struct tt_frontend_result
tt_compile_text(struct tt_arena *arena, struct tt_diags *diags,
                const char *name, const char *text, size_t len,
                const struct tt_frontend_options *options, bool want_ast)
{
  struct loader l = {.arena = arena,
                     .diags = diags,
                     .options = options ? options : &no_options};

  load_text(&l, name, text, len);
  return finish(&l, name, want_ast);
}

/* ---- schedules --------------------------------------------------------- */

static bool
is_word_char(char c)
{
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '_';
}

/* The first `schedule {` or `schedule "name" {`; len if there is none. */
static size_t
find_schedule(const char *text, size_t len)
{
  static const char word[] = "schedule";
  size_t n = sizeof word - 1;

  for (size_t i = 0; i + n < len; i++) {
    size_t k = i + n;
    if (memcmp(text + i, word, n) != 0 ||
        (i > 0 && is_word_char(text[i - 1])) || is_word_char(text[k]))
      continue;
    while (k < len && strchr(" \t\r\n*", text[k]))
      k++;
    if (k < len && text[k] == '"') {
      for (k++; k < len && text[k] != '"' && text[k] != '\n'; k++)
        ;
      for (k++; k < len && strchr(" \t\r\n*", text[k]); k++)
        ;
    }
    if (k < len && text[k] == '{')
      return i;
  }
  return len;
}

/* One past the brace that closes the block at `from`. */
static size_t
end_of_block(const char *text, size_t from, size_t len)
{
  int depth = 0;
  bool string = false;

  for (size_t i = from; i < len; i++) {
    if (text[i] == '"')
      string = !string;
    else if (text[i] == '\n')
      string = false;
    else if (!string && text[i] == '{')
      depth++;
    else if (!string && text[i] == '}' && --depth == 0)
      return i + 1;
  }
  return len;
}

/* A copy in which all but the block is blank, and the " * " before the lines
 * of a C comment too: places stay those of the text. */
static char *
only_block(struct tt_arena *arena, const char *text, size_t len, size_t from,
           size_t to)
{
  char *copy = tt_arena_alloc(arena, len + 1);
  bool margin = false;

  for (size_t i = 0; i < len; i++) {
    if (text[i] == '\n')
      margin = true;
    else if (margin && text[i] != ' ' && text[i] != '\t' && text[i] != '*')
      margin = false;
    copy[i] = text[i] == '\n'                                     ? '\n'
              : i < from || i >= to || (margin && text[i] == '*') ? ' '
                                                                  : text[i];
  }
  return copy;
}

const struct tt_sblock *
tt_parse_schedule(struct tt_arena *arena, struct tt_diags *diags,
                  const char *name, const char *text, size_t len)
{
  struct tt_source *source;
  const struct tt_file *file;
  const char *nul = len ? memchr(text, 0, len) : NULL;
  size_t from;
  int errors = tt_diags_errors(diags);

  if (len > TT_MAX_FILE || nul) {
    tt_diag(diags, nul ? TT_D_BAD_CHARACTER : TT_D_TOO_LARGE, nowhere,
            nul ? "%s: a NUL byte: this is no text"
                : "%s: a file may have at most 16 MiB",
            name);
    return NULL;
  }
  from = find_schedule(text, len);
  if (from == len) {
    tt_diag(diags, TT_D_SCHEDULE, nowhere,
            "%s: there is no schedule { … } in this file", name);
    return NULL;
  }
  source = tt_source_new(arena, name, text, len);
  file = tt_parse_text(
      arena, diags, source,
      only_block(arena, text, len, from, end_of_block(text, from, len)), len);
  if (tt_diags_errors(diags) != errors || file->nitems == 0)
    return NULL;
  return file->items[0]->schedule;
}
