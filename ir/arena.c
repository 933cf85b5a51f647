/* Arenas, growing strings and checked malloc.
 *
 * An arena is a list of chunks; `cur` is the one being filled, those after
 * it were used before a reset and are empty again.  Invariant: all bytes of a
 * chunk past `used` in and after `cur` may be dirty, so that allocation
 * clears what it hands out.
 */
#include "config.h"

#include "ir/arena.h"

#include <stdalign.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CHUNK = 16 << 10, MAX_CHUNK = 4 << 20 };

struct chunk {
  struct chunk *next;
  size_t used, cap;
  alignas(max_align_t) unsigned char data[];
};

struct tt_arena {
  struct chunk *first, *cur;
  size_t total; /* bytes handed out */
  size_t next_cap;
};

void *
tt_xmalloc(size_t size)
{
  void *p = malloc(size ? size : 1);
  if (!p)
    abort();
  return p;
}

void *
tt_xrealloc(void *p, size_t size)
{
  p = realloc(p, size ? size : 1);
  if (!p)
    abort();
  return p;
}

char *
tt_xstrdup(const char *s)
{
  size_t n = strlen(s) + 1;
  return memcpy(tt_xmalloc(n), s, n);
}

struct tt_arena *
tt_arena_new(void)
{
  struct tt_arena *arena = tt_xmalloc(sizeof *arena);
  *arena = (struct tt_arena){.next_cap = FIRST_CHUNK};
  return arena;
}

void
tt_arena_free(struct tt_arena *arena)
{
  if (!arena)
    return;
  for (struct chunk *c = arena->first; c;) {
    struct chunk *next = c->next;
    free(c);
    c = next;
  }
  free(arena);
}

void
tt_arena_reset(struct tt_arena *arena)
{
  for (struct chunk *c = arena->first; c; c = c->next)
    c->used = 0;
  arena->cur = arena->first;
  arena->total = 0;
}

/* Make `cur` a chunk with room for `size` bytes. */
static void
grow(struct tt_arena *arena, size_t size)
{
  struct chunk *c = arena->cur;
  while (c && c->next) {
    c = arena->cur = c->next;
    if (c->cap - c->used >= size)
      return;
  }
  size_t cap = size > arena->next_cap ? size : arena->next_cap;
  if (cap > SIZE_MAX - sizeof(struct chunk))
    abort();
  if (arena->next_cap < MAX_CHUNK)
    arena->next_cap *= 2;
  struct chunk *fresh = tt_xmalloc(sizeof *fresh + cap);
  fresh->next = NULL;
  fresh->used = 0;
  fresh->cap = cap;
  if (c)
    c->next = fresh;
  else
    arena->first = fresh;
  arena->cur = fresh;
}

void *
tt_arena_alloc(struct tt_arena *arena, size_t size)
{
  const size_t align = alignof(max_align_t);
  if (size > SIZE_MAX - align)
    abort();
  size = size ? (size + align - 1) / align * align : align;
  if (!arena->cur || arena->cur->cap - arena->cur->used < size)
    grow(arena, size);
  void *p = arena->cur->data + arena->cur->used;
  arena->cur->used += size;
  arena->total += size;
  return memset(p, 0, size);
}

void *
tt_arena_array(struct tt_arena *arena, size_t n, size_t size)
{
  size_t bytes;
  if (__builtin_mul_overflow(n, size, &bytes))
    abort();
  return tt_arena_alloc(arena, bytes);
}

void *
tt_arena_dup(struct tt_arena *arena, const void *data, size_t n)
{
  void *p = tt_arena_alloc(arena, n);
  if (n)
    memcpy(p, data, n);
  return p;
}

char *
tt_arena_strndup(struct tt_arena *arena, const char *s, size_t n)
{
  char *p = tt_arena_alloc(arena, n + 1);
  if (n)
    memcpy(p, s, n);
  return p;
}

char *
tt_arena_strdup(struct tt_arena *arena, const char *s)
{
  return tt_arena_strndup(arena, s, strlen(s));
}

char *
tt_arena_printf(struct tt_arena *arena, const char *fmt, ...)
{
  va_list ap, again;
  va_start(ap, fmt);
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  va_end(ap);
  if (n < 0)
    abort();
  char *p = tt_arena_alloc(arena, (size_t)n + 1);
  vsnprintf(p, (size_t)n + 1, fmt, again);
  va_end(again);
  return p;
}

size_t
tt_arena_used(const struct tt_arena *arena)
{
  return arena->total;
}

/* Room for `n` more bytes and the NUL. */
static void
sb_reserve(struct tt_sb *sb, size_t n)
{
  if (n > SIZE_MAX / 2 - sb->len - 1)
    abort();
  size_t need = sb->len + n + 1;
  if (need <= sb->cap)
    return;
  size_t cap = sb->cap ? sb->cap : 64;
  while (cap < need)
    cap *= 2;
  sb->s = tt_xrealloc(sb->s, cap);
  sb->cap = cap;
}

void
tt_sb_addn(struct tt_sb *sb, const char *s, size_t n)
{
  sb_reserve(sb, n);
  if (n)
    memcpy(sb->s + sb->len, s, n);
  sb->len += n;
  sb->s[sb->len] = '\0';
}

void
tt_sb_add(struct tt_sb *sb, const char *s)
{
  tt_sb_addn(sb, s, strlen(s));
}

void
tt_sb_putc(struct tt_sb *sb, char c)
{
  tt_sb_addn(sb, &c, 1);
}

void
tt_sb_vprintf(struct tt_sb *sb, const char *fmt, va_list ap)
{
  va_list again;
  va_copy(again, ap);
  int n = vsnprintf(NULL, 0, fmt, ap);
  if (n < 0)
    abort();
  sb_reserve(sb, (size_t)n);
  vsnprintf(sb->s + sb->len, (size_t)n + 1, fmt, again);
  va_end(again);
  sb->len += (size_t)n;
}

void
tt_sb_printf(struct tt_sb *sb, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  tt_sb_vprintf(sb, fmt, ap);
  va_end(ap);
}

const char *
tt_sb_str(const struct tt_sb *sb)
{
  return sb->s ? sb->s : "";
}

void
tt_sb_clear(struct tt_sb *sb)
{
  sb->len = 0;
  if (sb->s)
    sb->s[0] = '\0';
}

void
tt_sb_free(struct tt_sb *sb)
{
  free(sb->s);
  *sb = (struct tt_sb){0};
}
