/* The value of --target.  Owns its words: tables from which parsing, messages
 * and printing are made.
 */
#include "config.h"

#include "tuner/machine.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum word_kind { BITS, COUNT, BYTES };

struct word {
  const char *name;
  enum word_kind kind;
  size_t field;
  int64_t lo, hi;
};

#define FIELD(f) offsetof(struct tt_machine, f)
static const struct word cpu_words[] = {
    {"vector", BITS, FIELD(vector), 0, 512},
    {"registers", COUNT, FIELD(registers), 8, 1024},
    {"l1", BYTES, FIELD(l1), 1024, INT64_C(1) << 40},
    {"l2", BYTES, FIELD(l2), 1024, INT64_C(1) << 40},
    {"l3", BYTES, FIELD(l3), 1024, INT64_C(1) << 40},
};
static const struct word cuda_words[] = {
    {"processors", COUNT, FIELD(processors), 1, 1024},
    {"shared", BYTES, FIELD(shared), 16 << 10, 227 << 10},
};
#undef FIELD

/* The words of a kind of machine. */
struct words {
  const struct word *items;
  int n;
};
#define WORDS(w)                                                               \
  (struct words)                                                               \
  {                                                                            \
    w, (int)(sizeof w / sizeof w[0])                                           \
  }

static int64_t *
field(struct tt_machine *m, const struct word *w)
{
  return (int64_t *)((char *)m + w->field);
}

struct tt_machine
tt_machine_unknown(void)
{
  return (struct tt_machine){false, -1, -1, -1, -1, -1, -1, -1, -1};
}

/* Bytes with the largest unit that divides them. */
static const char *
bytes_text(struct tt_arena *arena, int64_t v)
{
  static const char *const units[] = {"", "K", "M", "G"};
  int u = 0;
  for (; u < 3 && v % 1024 == 0; u++)
    v /= 1024;
  return tt_arena_printf(arena, "%lld%s", (long long)v, units[u]);
}

static const char *
expected(struct tt_arena *arena, const struct word *w)
{
  switch (w->kind) {
  case BITS:
    return "128, 256, 512 or none";
  case COUNT:
    return tt_arena_printf(arena, "a number from %lld to %lld",
                           (long long)w->lo, (long long)w->hi);
  case BYTES:
    return tt_arena_printf(arena, "a number of bytes from %s to %s, as 48K%s",
                           bytes_text(arena, w->lo), bytes_text(arena, w->hi),
                           w->hi > 2 << 20 ? " or 2M" : "");
  }
  return "";
}

/* A number, with K, M or G behind it where bytes are meant; -1: none. */
static int64_t
number(const struct word *w, const char *text)
{
  char *end;
  if (!isdigit((unsigned char)*text) || strlen(text) > 15)
    return -1;
  long long v = strtoll(text, &end, 10);
  static const char units[] = "KMG";
  const char *unit = *end ? strchr(units, *end) : NULL;
  if (w->kind == BYTES && unit && v <= w->hi) {
    v <<= 10 * (unit - units + 1);
    end++;
  }
  return *end || v < w->lo || v > w->hi ? -1 : v;
}

static bool
set(struct tt_machine *m, const struct word *w, const char *text)
{
  int64_t v = number(w, text);
  if (w->kind == BITS)
    v = strcmp(text, "none") == 0          ? 0
        : v == 128 || v == 256 || v == 512 ? v
                                           : -1;
  if (v < 0)
    return false;
  *field(m, w) = v;
  return true;
}

/* One NAME=VALUE. */
static bool
take(struct tt_arena *arena, struct tt_machine *m, struct words words,
     const char *pair, const char **error)
{
  const char *value = strchr(pair, '=');
  size_t n = value ? (size_t)(value - pair) : strlen(pair);
  struct tt_sb names = {0};
  for (int i = 0; i < words.n; i++) {
    const struct word *w = &words.items[i];
    tt_sb_printf(&names, "%s%s",
                 i == 0             ? ""
                 : i == words.n - 1 ? " or "
                                    : ", ",
                 w->name);
    if (strlen(w->name) != n || memcmp(w->name, pair, n) != 0)
      continue;
    tt_sb_free(&names);
    if (value && set(m, w, value + 1))
      return true;
    *error =
        tt_arena_printf(arena, "--target: '%s': %s expected after %s=", pair,
                        expected(arena, w), w->name);
    return false;
  }
  *error = tt_arena_printf(arena, "--target: '%s': %s=VALUE expected", pair,
                           tt_sb_str(&names));
  tt_sb_free(&names);
  return false;
}

/* NAME=VALUE,... */
static bool
take_all(struct tt_arena *arena, struct tt_machine *m, struct words words,
         const char *text, const char **error)
{
  char *copy = tt_arena_strdup(arena, text);
  while (*copy) {
    char *next = copy + strcspn(copy, ",");
    bool more = *next == ',';
    *next = 0;
    if (!take(arena, m, words, copy, error))
      return false;
    copy = next + more;
    if (more && !*copy)
      return take(arena, m, words, copy, error);
  }
  return true;
}

static bool
check_order(const struct tt_machine *m, const char **error)
{
  const int64_t l2 = m->l2 < 0 ? m->l1 : m->l2;
  if (m->l2 >= 0 && m->l1 > m->l2)
    *error = "--target: l1 is larger than l2";
  else if (m->l3 >= 0 && l2 > m->l3)
    *error = "--target: l3 is smaller than a cache before it";
  else
    return true;
  return false;
}

/* "cuda:sm_90": what nvcc calls the architecture; and what is said of it. */
static bool
parse_cuda(struct tt_arena *arena, const char *text, struct tt_machine *out,
           const char **error)
{
  static const char prefix[] = "cuda:sm_";
  struct tt_machine m = tt_machine_unknown();
  size_t n = sizeof prefix - 1;
  const char *digits = strncmp(text, prefix, n) == 0 ? text + n : "";
  size_t k = strspn(digits, "0123456789");
  const char *rest = digits + k;
  if (k < 2 || k > 3 || digits[0] == '0' || (*rest && *rest != ':') ||
      (*rest && !rest[1])) {
    *error = tt_arena_printf(arena,
                             "--target '%s': cuda:sm_NN or "
                             "cuda:sm_NN:NAME=VALUE,... expected, as "
                             "cuda:sm_90",
                             text);
    return false;
  }
  m.given = true;
  m.sm = atoi(digits);
  if (*rest && !take_all(arena, &m, WORDS(cuda_words), rest + 1, error))
    return false;
  *out = m;
  return true;
}

bool
tt_machine_parse(struct tt_arena *arena, const char *text,
                 struct tt_machine *out, const char **error)
{
  struct tt_machine m = tt_machine_unknown();
  m.given = true;
  if (strncmp(text, "cuda", 4) == 0)
    return parse_cuda(arena, text, out, error);
  if (text[0] != 'c' || (text[1] && text[1] != ':') || (text[1] && !text[2])) {
    *error = tt_arena_printf(
        arena, "--target '%s': c, c:NAME=VALUE,... or cuda:sm_NN expected",
        text);
    return false;
  }
  if (text[1] && !take_all(arena, &m, WORDS(cpu_words), text + 2, error))
    return false;
  if (!check_order(&m, error))
    return false;
  *out = m;
  return true;
}

void
tt_machine_print(const struct tt_machine *m, struct tt_sb *sb)
{
  struct tt_machine copy = *m;
  struct words words = m->sm >= 0 ? WORDS(cuda_words) : WORDS(cpu_words);
  char separator = ':';
  if (m->sm >= 0)
    tt_sb_printf(sb, "cuda:sm_%lld", (long long)m->sm);
  else
    tt_sb_putc(sb, 'c');
  for (int i = 0; i < words.n; i++) {
    const struct word *w = &words.items[i];
    int64_t v = *field(&copy, w);
    if (v < 0)
      continue;
    tt_sb_printf(sb, "%c%s=", separator, w->name);
    if (w->kind == BITS && v == 0)
      tt_sb_add(sb, "none");
    else if (w->kind == BYTES && v % 1024 == 0)
      tt_sb_printf(sb, "%lldK", (long long)(v / 1024));
    else
      tt_sb_printf(sb, "%lld", (long long)v);
    separator = ',';
  }
}
