/* Mutates the examples and compiles the results: never a crash, a hang, or a
 * program together with errors.
 *
 *   fuzz_frontend [ITERATIONS [SEED]]      (default 3000, 1)
 *
 * Mutations: bytes flipped, deleted, doubled; tokens of one example put into
 * another; the text cut short; numbers made extreme.  A failure prints the
 * seed of its iteration; `fuzz_frontend 1 SEED` repeats it alone.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>

#include "frontend/frontend.h"
#include "ir/passes.h"

struct text {
  char *name, *s;
  size_t len;
};

typedef TT_VEC(struct text) texts;

static uint64_t
next(uint64_t *state)
{
  uint64_t z = *state += 0x9e3779b97f4a7c15u;

  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static size_t
below(uint64_t *state, size_t n)
{
  return n ? (size_t)(next(state) % n) : 0;
}

static int
by_name(const void *a, const void *b)
{
  return strcmp(((const struct text *)a)->name, ((const struct text *)b)->name);
}

static texts
read_examples(const char *dir)
{
  texts v = {0};
  DIR *d = opendir(dir);
  struct dirent *e;

  while (d && (e = readdir(d)) != NULL) {
    struct tt_sb sb = {0}, path = {0};
    FILE *f;
    int c;
    size_t n = strlen(e->d_name);
    if (n < 4 || strcmp(e->d_name + n - 3, ".te") != 0)
      continue;
    tt_sb_printf(&path, "%s/%s", dir, e->d_name);
    f = fopen(tt_sb_str(&path), "rb");
    if (!f) {
      tt_sb_free(&path);
      continue;
    }
    while ((c = getc(f)) != EOF)
      tt_sb_putc(&sb, (char)c);
    fclose(f);
    TT_PUSH(v, ((struct text){path.s, sb.s, sb.len}));
  }
  if (d)
    closedir(d);
  if (v.n)
    qsort(v.items, (size_t)v.n, sizeof *v.items, by_name);
  return v;
}

/* The token at or after a place. */
static size_t
token(const char *s, size_t len, size_t *at)
{
  size_t i = *at, n = 0;

  while (i < len && strchr(" \n\t", s[i]))
    i++;
  *at = i;
  while (i + n < len &&
         strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                "0123456789_",
                s[i + n]))
    n++;
  return n ? n : i < len;
}

static void
replace(struct tt_sb *sb, size_t at, size_t old, const char *s, size_t n)
{
  struct tt_sb out = {0};

  tt_sb_addn(&out, tt_sb_str(sb), at);
  tt_sb_addn(&out, s, n);
  tt_sb_addn(&out, tt_sb_str(sb) + at + old, sb->len - at - old);
  tt_sb_free(sb);
  *sb = out;
}

static void
mutate(struct tt_sb *sb, const texts *all, uint64_t *state)
{
  static const char *const extreme[] = {
      "0",          "1",      "-1",          "9223372036854775807",
      "4294967296", "1e9",    "0.5",         "(1/0)",
      "1e308",      "X",      "((",          "))",
      "i8",         "else 0", "where 1 < 0", "max",
      "sum[i]",     "%",      "in 0..3"};
  const struct text *other = &all->items[below(state, (size_t)all->n)];
  size_t at = below(state, sb->len), from = below(state, other->len), n, m;
  const char *e = extreme[below(state, sizeof extreme / sizeof *extreme)];
  char byte = (char)below(state, 256);

  switch (below(state, 7)) {
  case 0: /* a byte */
    replace(sb, at, at < sb->len, &byte, 1);
    break;
  case 1: /* a token gone */
    n = token(tt_sb_str(sb), sb->len, &at);
    replace(sb, at, n, "", 0);
    break;
  case 2: /* a token of another example */
    n = token(tt_sb_str(sb), sb->len, &at);
    m = token(other->s, other->len, &from);
    replace(sb, at, n, other->s + from, m);
    break;
  case 3: /* an extreme value */
  case 4:
    n = token(tt_sb_str(sb), sb->len, &at);
    replace(sb, at, n, e, strlen(e));
    break;
  case 5: /* a piece twice */
    n = below(state, sb->len - at < 40 ? sb->len - at : 40);
    e = tt_sb_str(sb) + at;
    {
      char copy[40];
      memcpy(copy, e, n);
      replace(sb, at, 0, copy, n);
    }
    break;
  case 6: /* the end missing */
    if (below(state, 4) == 0)
      replace(sb, at, sb->len - at, "", 0);
    break;
  }
}

/* 0: all is well. */
static int
compile(const struct text *t, const struct tt_sb *sb)
{
  struct tt_arena *arena = tt_arena_new();
  struct tt_diags *diags = tt_diags_new(arena);
  struct tt_frontend_result r;
  struct tt_sb out = {0};
  const char *wrong = NULL;

  r = tt_compile_text(arena, diags, t->name, tt_sb_str(sb), sb->len, NULL,
                      true);
  tt_diags_print(diags, &out, false);
  if (!r.program && tt_diags_errors(diags) == 0)
    wrong = "no program and no error";
  else if (r.program && tt_diags_errors(diags) != 0)
    wrong = "a program in spite of errors";
  else if (r.program)
    wrong = tt_verify_program(arena, r.program);
  if (wrong)
    printf("%s\n%s", wrong, tt_sb_str(sb));
  tt_sb_free(&out);
  tt_arena_free(arena);
  return wrong != NULL;
}

int
main(int argc, char **argv)
{
  long iterations = argc > 1 ? atol(argv[1]) : 3000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  const char *top = getenv("abs_top_srcdir");
  char dir[4096];
  texts all;
  int failed = 0;

  snprintf(dir, sizeof dir, "%s/examples", top ? top : ".");
  all = read_examples(dir);
  if (all.n == 0) {
    printf("no examples in %s\n", dir);
    return 1;
  }
  for (long i = 0; i < iterations && !failed; i++) {
    uint64_t state = seed + (uint64_t)i;
    const struct text *t = &all.items[below(&state, (size_t)all.n)];
    struct tt_sb sb = {0};
    size_t n = 1 + below(&state, 3);
    tt_sb_addn(&sb, t->s, t->len);
    while (n-- > 0)
      mutate(&sb, &all, &state);
    failed = compile(t, &sb);
    if (failed)
      printf("seed %llu\n", (unsigned long long)(seed + (uint64_t)i));
    tt_sb_free(&sb);
  }
  for (int i = 0; i < all.n; i++) {
    free(all.items[i].name);
    free(all.items[i].s);
  }
  free(all.items);
  return failed;
}
