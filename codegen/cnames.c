/* Identifiers of the emitted file.
 *
 * Names come from the source and from schedules; here they become C
 * identifiers that hide nothing: no keyword, no name of <stdint.h> or
 * <math.h>, no type or helper of our own, no name visible at that place.
 */
#include "config.h"

#include "codegen/cprint.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *const reserved[] = {
    "auto",        "break",     "case",      "char",          "const",
    "continue",    "default",   "do",        "double",        "else",
    "enum",        "extern",    "float",     "for",           "goto",
    "if",          "inline",    "int",       "long",          "register",
    "restrict",    "return",    "short",     "signed",        "sizeof",
    "static",      "struct",    "switch",    "typedef",       "typeof",
    "union",       "unsigned",  "void",      "volatile",      "while",
    "asm",         "bool",      "true",      "false",         "nullptr",
    "constexpr",   "alignas",   "alignof",   "static_assert", "thread_local",
    "ptrdiff_t",   "size_t",    "int8_t",    "uint8_t",       "int16_t",
    "uint16_t",    "int32_t",   "uint32_t",  "int64_t",       "uint64_t",
    "INT8_MIN",    "INT16_MIN", "INT32_MIN", "INT64_MIN",     "INT64_MAX",
    "INT64_C",     "INFINITY",  "NAN",       "NULL",          "main",
    "exp",         "log",       "sqrt",      "tanh",          "erf",
    "floor",       "ceil",      "round",     "pow",           "fabs",
    "expf",        "logf",      "sqrtf",     "tanhf",         "erff",
    "floorf",      "ceilf",     "roundf",    "powf",          "fabsf",
    "workspace",   "prepared",  "unix",      "linux",         "i386",
    "has_builtin",
};

struct binding {
  const void *key;
  const char *name;
  uint32_t hash; /* of the name */
};

struct names {
  struct tt_arena *arena;
  TT_VEC(struct binding) bound;
  TT_VEC(struct binding) global;
};

struct names *
tt_names_new(struct tt_arena *arena)
{
  struct names *n = TT_NEW(arena, struct names);
  n->arena = arena;
  return n;
}

void
tt_names_free(struct names *n)
{
  free(n->bound.items);
  free(n->global.items);
  n->bound.items = n->global.items = NULL;
}

int
tt_names_mark(const struct names *n)
{
  return n->bound.n;
}

void
tt_names_release(struct names *n, int mark)
{
  n->bound.n = mark;
}

/* f32x16, i8x64u: the vector types. */
static bool
is_vector_type(const char *s)
{
  const char *digits = "0123456789";
  if (!strchr("cfiu", *s) || !isdigit((unsigned char)s[1]))
    return false;
  s += 1 + strspn(s + 1, digits);
  if (*s != 'x' || !isdigit((unsigned char)s[1]))
    return false;
  s += 1 + strspn(s + 1, digits);
  return *s == '\0' || strcmp(s, "u") == 0;
}

/* min_f32, sat_i8_f32x16: our helpers end in a type. */
static bool
is_helper(const char *s)
{
  const char *last = strrchr(s, '_');
  enum tt_dtype t;
  if (!last)
    return false;
  return tt_dtype_parse(last + 1, &t) || is_vector_type(last + 1);
}

/* FNV-1a; with thousands of names, few are compared letter by letter. */
static uint32_t
hash_of(const char *s)
{
  uint32_t h = 2166136261u;
  for (; *s; s++)
    h = (h ^ (unsigned char)*s) * 16777619u;
  return h;
}

static bool
is_taken(const struct names *n, const char *s)
{
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
    if (strcmp(reserved[i], s) == 0)
      return true;
  uint32_t hash = hash_of(s);
  for (int i = n->bound.n - 1; i >= 0; i--)
    if (n->bound.items[i].hash == hash &&
        strcmp(n->bound.items[i].name, s) == 0)
      return true;
  for (int i = 0; i < n->global.n; i++)
    if (n->global.items[i].hash == hash &&
        strcmp(n->global.items[i].name, s) == 0)
      return true;
  return is_vector_type(s) || is_helper(s);
}

/* Letters, digits and single underscores, not beginning with a digit or with
 * what the implementation keeps for itself. */
static char *
sanitize(struct tt_arena *arena, const char *want)
{
  char *s = tt_arena_printf(arena, "v%s", want ? want : "");
  for (char *c = s; *c; c++)
    if (!isalnum((unsigned char)*c))
      *c = '_';
  bool keep = isdigit((unsigned char)s[1]) || s[1] == '_' || !s[1];
  return keep ? s : s + 1;
}

static const char *
fresh(struct names *n, const char *want)
{
  const char *base = sanitize(n->arena, want), *name = base;
  size_t len = strlen(base);
  const char *sep = len && isdigit((unsigned char)base[len - 1]) ? "_" : "";
  for (int i = 2; is_taken(n, name); i++)
    name = tt_arena_printf(n->arena, "%s%s%d", base, sep, i);
  return name;
}

const char *
tt_names_bind(struct names *n, const void *key, const char *want)
{
  const char *name = fresh(n, want);
  TT_PUSH(n->bound, ((struct binding){key, name, hash_of(name)}));
  return name;
}

const char *
tt_names_bind_global(struct names *n, const void *key, const char *want)
{
  const char *name = fresh(n, want);
  TT_PUSH(n->global, ((struct binding){key, name, hash_of(name)}));
  return name;
}

void
tt_names_alias(struct names *n, const void *key, const char *name)
{
  TT_PUSH(n->bound, ((struct binding){key, name, hash_of(name)}));
}

const char *
tt_names_of(const struct names *n, const void *key)
{
  for (int i = n->bound.n - 1; i >= 0; i--)
    if (n->bound.items[i].key == key)
      return n->bound.items[i].name;
  for (int i = 0; i < n->global.n; i++)
    if (n->global.items[i].key == key)
      return n->global.items[i].name;
  return NULL;
}
