/* The value of --target.  Owns its words: one table from which parsing,
 * messages and printing are made.
 */
#include "config.h"

#include "tuner/machine.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum word_kind { BITS, COUNT, BYTES };

static const struct word {
  const char *name;
  enum word_kind kind;
  size_t field;
  int64_t lo, hi;
} words[] = {
#define FIELD(f) offsetof(struct tt_machine, f)
    {"vector", BITS, FIELD(vector), 0, 512},
    {"registers", COUNT, FIELD(registers), 8, 1024},
    {"l1", BYTES, FIELD(l1), 1024, INT64_C(1) << 40},
    {"l2", BYTES, FIELD(l2), 1024, INT64_C(1) << 40},
    {"l3", BYTES, FIELD(l3), 1024, INT64_C(1) << 40},
#undef FIELD
};
#define NWORDS ((int)(sizeof words / sizeof words[0]))

static int64_t *
field(struct tt_machine *m, const struct word *w)
{
  return (int64_t *)((char *)m + w->field);
}

struct tt_machine
tt_machine_unknown(void)
{
  return (struct tt_machine){false, -1, -1, -1, -1, -1, -1};
}

static const char *
expected(const struct word *w)
{
  switch (w->kind) {
  case BITS:
    return "128, 256, 512 or none";
  case COUNT:
    return "a number from 8 to 1024";
  case BYTES:
    return "a number of bytes from 1K to 1024G, as 48K or 2M";
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
take(struct tt_arena *arena, struct tt_machine *m, const char *pair,
     const char **error)
{
  const char *value = strchr(pair, '=');
  size_t n = value ? (size_t)(value - pair) : strlen(pair);
  struct tt_sb names = {0};
  for (int i = 0; i < NWORDS; i++) {
    tt_sb_printf(&names, "%s%s",
                 i == 0            ? ""
                 : i == NWORDS - 1 ? " or "
                                   : ", ",
                 words[i].name);
    if (strlen(words[i].name) != n || memcmp(words[i].name, pair, n) != 0)
      continue;
    tt_sb_free(&names);
    if (value && set(m, &words[i], value + 1))
      return true;
    *error =
        tt_arena_printf(arena, "--target: '%s': %s expected after %s=", pair,
                        expected(&words[i]), words[i].name);
    return false;
  }
  *error = tt_arena_printf(arena, "--target: '%s': %s=VALUE expected", pair,
                           tt_sb_str(&names));
  tt_sb_free(&names);
  return false;
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

/* "cuda:sm_90": what nvcc calls the architecture. */
static bool
parse_cuda(struct tt_arena *arena, const char *text, struct tt_machine *out,
           const char **error)
{
  static const char prefix[] = "cuda:sm_";
  struct tt_machine m = tt_machine_unknown();
  size_t n = sizeof prefix - 1;
  const char *digits = strncmp(text, prefix, n) == 0 ? text + n : "";
  size_t k = strspn(digits, "0123456789");
  if (k < 2 || k > 3 || digits[k] || digits[0] == '0') {
    *error = tt_arena_printf(
        arena, "--target '%s': cuda:sm_NN expected, as cuda:sm_90", text);
    return false;
  }
  m.given = true;
  m.sm = atoi(digits);
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
  char *copy = tt_arena_strdup(arena, text[1] ? text + 2 : "");
  while (*copy) {
    char *next = copy + strcspn(copy, ",");
    bool more = *next == ',';
    *next = 0;
    if (!take(arena, &m, copy, error))
      return false;
    copy = next + more;
    if (more && !*copy)
      return take(arena, &m, copy, error);
  }
  if (!check_order(&m, error))
    return false;
  *out = m;
  return true;
}

void
tt_machine_print(const struct tt_machine *m, struct tt_sb *sb)
{
  struct tt_machine copy = *m;
  char separator = ':';
  if (m->sm >= 0) {
    tt_sb_printf(sb, "cuda:sm_%lld", (long long)m->sm);
    return;
  }
  tt_sb_putc(sb, 'c');
  for (int i = 0; i < NWORDS; i++) {
    int64_t v = *field(&copy, &words[i]);
    if (v < 0)
      continue;
    tt_sb_printf(sb, "%c%s=", separator, words[i].name);
    if (words[i].kind == BITS && v == 0)
      tt_sb_add(sb, "none");
    else if (words[i].kind == BYTES && v % 1024 == 0)
      tt_sb_printf(sb, "%lldK", (long long)(v / 1024));
    else
      tt_sb_printf(sb, "%lld", (long long)v);
    separator = ',';
  }
}
