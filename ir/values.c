/* Values of tensors for the interpreter, and random inputs.
 *
 * Invariant: every element is in range of, or rounded to, its tensor's type.
 */
#include "config.h"

#include "ir/values.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct tt_values {
  int n, cap; /* cap: a power of two, or 0 */
  struct tt_buffer **slots;
  char *error;
};

struct tt_values *
tt_values_new(void)
{
  struct tt_values *v = tt_xmalloc(sizeof *v);
  *v = (struct tt_values){0};
  return v;
}

void
tt_values_free(struct tt_values *v)
{
  if (!v)
    return;
  for (int i = 0; i < v->cap; i++)
    if (v->slots[i]) {
      free(v->slots[i]->f);
      free(v->slots[i]->i);
      free(v->slots[i]->written);
      free(v->slots[i]);
    }
  free(v->slots);
  free(v->error);
  free(v);
}

static struct tt_buffer **
find(const struct tt_values *v, const struct tt_tensor *t)
{
  size_t mask = (size_t)v->cap - 1;
  size_t at = (size_t)((uintptr_t)t >> 4) * 0x9e3779b97f4a7c15u >> 20 & mask;
  while (v->slots[at] && v->slots[at]->tensor != t)
    at = (at + 1) & mask;
  return &v->slots[at];
}

static void
grow(struct tt_values *v)
{
  struct tt_buffer **old = v->slots;
  int n = v->cap;
  v->cap = n ? 2 * n : 64;
  v->slots = tt_xmalloc((size_t)v->cap * sizeof *v->slots);
  memset(v->slots, 0, (size_t)v->cap * sizeof *v->slots);
  for (int i = 0; i < n; i++)
    if (old[i])
      *find(v, old[i]->tensor) = old[i];
  free(old);
}

static struct tt_buffer *
new_buffer(const struct tt_tensor *t)
{
  struct tt_buffer *b = tt_xmalloc(sizeof *b);
  *b = (struct tt_buffer){.tensor = t, .size = tt_tensor_size(t)};
  size_t bytes = (size_t)b->size * sizeof(int64_t);
  if (tt_dtype_is_float(t->dtype)) {
    b->f = tt_xmalloc(bytes);
    memset(b->f, 0, bytes);
    for (int64_t i = 0; t->role == TT_CONST && i < b->size; i++)
      b->f[i] = t->fdata[i];
  } else {
    b->i = tt_xmalloc(bytes);
    memset(b->i, 0, bytes);
    for (int64_t i = 0; t->role == TT_CONST && i < b->size; i++)
      b->i[i] = t->idata[i];
  }
  return b;
}

struct tt_buffer *
tt_values_buffer(struct tt_values *v, const struct tt_tensor *t)
{
  if (2 * v->n >= v->cap)
    grow(v);
  struct tt_buffer **slot = find(v, t);
  if (!*slot) {
    *slot = new_buffer(t);
    v->n++;
  }
  return *slot;
}

void
tt_buffer_poison(struct tt_buffer *b)
{
  if (!b->written)
    b->written = tt_xmalloc((size_t)b->size);
  memset(b->written, 0, (size_t)b->size);
}

const char *
tt_values_error(struct tt_values *v, const char *text)
{
  char *copy = tt_xstrdup(text);
  free(v->error);
  v->error = copy;
  return copy;
}

void
tt_values_of(struct tt_values *v, const struct tt_tensor *t, double **f,
             int64_t **i)
{
  struct tt_buffer *b = tt_values_buffer(v, t);
  *f = b->f;
  *i = b->i;
}

/* ---- random values ----------------------------------------------------- */

uint64_t
tt_random_bits(uint64_t seed, uint32_t tensor, uint64_t element)
{
  /* The finalizer of splitmix64, a round for each part. */
  uint64_t parts[] = {seed, tensor, element}, z = 0;
  for (int i = 0; i < 3; i++) {
    z += parts[i] + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
  }
  return z;
}

double
tt_random_float(uint64_t bits)
{
  return (double)((int64_t)(bits % 257) - 128) / 64;
}

int64_t
tt_random_int(uint64_t bits, const struct tt_tensor *t)
{
  if (t->has_range)
    return (int64_t)((uint64_t)t->lo +
                     bits % ((uint64_t)t->hi - (uint64_t)t->lo));
  return tt_wrap(t->dtype,
                 t->dtype == TT_BOOL ? (int64_t)(bits & 1) : (int64_t)bits);
}

void
tt_values_random(struct tt_values *v, const struct tt_program *p, uint64_t seed)
{
  for (int k = 0; k < p->ntensors; k++) {
    const struct tt_tensor *t = p->tensors[k];
    if (t->role != TT_INPUT && t->role != TT_WEIGHT)
      continue;
    struct tt_buffer *b = tt_values_buffer(v, t);
    for (int64_t i = 0; i < b->size; i++) {
      uint64_t bits = tt_random_bits(seed, (uint32_t)t->id, (uint64_t)i);
      if (b->f)
        b->f[i] = tt_random_float(bits);
      else
        b->i[i] = tt_random_int(bits, t);
    }
  }
}
