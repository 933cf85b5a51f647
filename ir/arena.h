/* Arenas, growing strings and vectors: the only allocators of the compiler.
 *
 * An arena owns everything that is built for one program or one candidate;
 * nodes are never freed one by one.  Running out of memory aborts: input is
 * bounded before it gets here.
 */
#ifndef TT_ARENA_H
#define TT_ARENA_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

struct tt_arena;

/* A new, empty arena.  The caller frees it with tt_arena_free(). */
struct tt_arena *tt_arena_new(void);
/* Free the arena and all that was allocated from it.  NULL is ignored. */
void tt_arena_free(struct tt_arena *arena);
/* Forget all allocations but keep the memory for the next candidate. */
void tt_arena_reset(struct tt_arena *arena);
/* `size` zeroed bytes aligned for any type; owned by the arena. */
void *tt_arena_alloc(struct tt_arena *arena, size_t size);
/* `n` zeroed elements of `size` bytes; the product is checked. */
void *tt_arena_array(struct tt_arena *arena, size_t n, size_t size);
/* A copy of `n` bytes (tt_arena_dup) or of a string, owned by the arena. */
void *tt_arena_dup(struct tt_arena *arena, const void *data, size_t n);
char *tt_arena_strdup(struct tt_arena *arena, const char *s);
char *tt_arena_strndup(struct tt_arena *arena, const char *s, size_t n);
char *tt_arena_printf(struct tt_arena *arena, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
/* Bytes handed out so far. */
size_t tt_arena_used(const struct tt_arena *arena);

#define TT_NEW(arena, type) ((type *)tt_arena_alloc((arena), sizeof(type)))
#define TT_ARRAY(arena, type, n)                                               \
  ((type *)tt_arena_array((arena), (n), sizeof(type)))

/* A growing string.  Zero-initialize; release with tt_sb_free().  `s` is
 * always NUL-terminated once something was added, else NULL. */
struct tt_sb {
  char *s;
  size_t len, cap;
};
void tt_sb_add(struct tt_sb *sb, const char *s);
void tt_sb_addn(struct tt_sb *sb, const char *s, size_t n);
void tt_sb_putc(struct tt_sb *sb, char c);
void tt_sb_printf(struct tt_sb *sb, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tt_sb_vprintf(struct tt_sb *sb, const char *fmt, va_list ap);
/* The text so far, never NULL; owned by `sb`. */
const char *tt_sb_str(const struct tt_sb *sb);
void tt_sb_clear(struct tt_sb *sb);
void tt_sb_free(struct tt_sb *sb);

/* malloc, realloc and strdup that abort when memory runs out. */
void *tt_xmalloc(size_t size);
void *tt_xrealloc(void *p, size_t size);
char *tt_xstrdup(const char *s);

/* A growing array `v` with fields `T *items; int n, cap;` on the heap.
 * TT_PUSH(v, x) appends; release with free(v.items). */
#define TT_VEC(T)                                                              \
  struct {                                                                     \
    T *items;                                                                  \
    int n, cap;                                                                \
  }
#define TT_PUSH(v, x)                                                          \
  do {                                                                         \
    if ((v).n == (v).cap) {                                                    \
      (v).cap = (v).cap ? 2 * (v).cap : 8;                                     \
      (v).items = tt_xrealloc((v).items, (size_t)(v).cap * sizeof *(v).items); \
    }                                                                          \
    (v).items[(v).n++] = (x);                                                  \
  } while (0)

#endif
