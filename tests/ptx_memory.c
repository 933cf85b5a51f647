/* Loads, stores, addresses, asynchronous copies and calls of PTX.
 *
 * An address of shared or local memory is an offset in it; a generic one, or
 * one of global memory, is one of the host.  Invariant: nothing outside of the
 * buffers of the launch, its shared and its local memory is touched.
 */
#include "config.h"

#include "tests/ptx_internal.h"

#include <stdlib.h>
#include <string.h>

typedef const struct ptx_instruction *ins;

static bool
inside(const struct region *r, uint64_t address, int bytes)
{
  uint64_t base = (uint64_t)(uintptr_t)r->data;
  return r->data && address >= base &&
         address + (uint64_t)bytes <= base + (uint64_t)r->bytes;
}

static bool
is_ours(const struct thread *t, uint64_t address, int bytes)
{
  const struct ptx_launch *l = t->block->launch;
  const struct ptx_module *m = t->block->module;
  struct region local = {t->frame.local, t->frame.function->local};
  for (int i = 0; i < l->nargs; i++) {
    struct region r = {l->args[i].data, l->args[i].bytes};
    if (inside(&r, address, bytes))
      return true;
  }
  for (int i = 0; i < m->nvariables; i++) {
    struct region r = {m->variables[i].data, m->variables[i].bytes};
    if (inside(&r, address, bytes))
      return true;
  }
  return inside(&t->block->shared, address, bytes) ||
         inside(&local, address, bytes);
}

static uint8_t *
offset_in(uint8_t *data, int64_t size, uint64_t at, int bytes)
{
  return at + (uint64_t)bytes <= (uint64_t)size && at <= (uint64_t)size
             ? data + at
             : NULL;
}

uint8_t *
ptx_at(const struct thread *t, enum ptx_space space, uint64_t address,
       int bytes, const char **error)
{
  uint8_t *p = NULL;
  const struct frame *f = &t->frame;
  if (space == PTX_SHARED)
    p = offset_in(t->block->shared.data, t->block->shared.bytes,
                  address & 0xffffffff, bytes);
  else if (space == PTX_LOCAL)
    p = offset_in(f->local, f->function->local, address & 0xffffffff, bytes);
  else if (space == PTX_PARAM)
    p = offset_in(f->param, f->function->param, address, bytes);
  else if (is_ours(t, address, bytes))
    p = (uint8_t *)(uintptr_t)address; /* NOLINT: it is one */
  if (!p)
    *error = "an address outside of all buffers";
  else if ((uintptr_t)p % (uintptr_t)bytes != 0)
    *error = "an address that is not aligned";
  return *error ? NULL : p;
}

uint64_t
ptx_address(const struct thread *t, const struct ptx_operand *o)
{
  static const struct ptx_type u64 = {PTX_UNSIGNED, 64, false};
  struct ptx_operand base = *o;
  base.kind = PTX_VALUE;
  uint64_t v = ptx_get(t, &base, u64);
  return o->reg < 0 ? v : v + t->frame.registers[o->reg];
}

/* nvcc loads vectors of which it uses a part: what is aligned is in memory as a
 * whole, and buffers can be read up to the next 16 bytes. */
static uint8_t *
vector_at(struct thread *t, ins i, uint64_t address, int each,
          const char **error)
{
  const char *whole_error = NULL;
  int bytes = each * i->vector;
  uint8_t *p = ptx_at(t, i->space, address, bytes, &whole_error);
  if (!p && i->words[0][0] == 'l' && address % (uint64_t)bytes == 0)
    p = ptx_at(t, i->space, address, each, error);
  else
    *error = whole_error;
  return p;
}

static const char *
load_or_store(struct thread *t, ins i)
{
  bool store = i->words[0][0] == 's';
  const struct ptx_operand *address = &i->operands[store ? 0 : 1],
                           *value = &i->operands[store ? 1 : 0];
  struct ptx_type type = i->types[0];
  int bytes = (type.pair ? 32 : type.bits) / 8;
  const char *error = NULL;
  uint8_t *p = vector_at(t, i, ptx_address(t, address), bytes, &error);
  for (int k = 0; p && k < i->vector; k++) {
    const struct ptx_operand *o = i->vector > 1 ? &value->items[k] : value;
    uint64_t v = 0;
    if (store) {
      v = ptx_get(t, o, type);
      memcpy(p + k * bytes, &v, (size_t)bytes);
    } else {
      memcpy(&v, p + k * bytes, (size_t)bytes);
      ptx_set(t, o, type, v);
    }
  }
  return error;
}

/* cvta.SPACE: to a generic address; cvta.to.SPACE: from one. */
static const char *
convert_address(struct thread *t, ins i)
{
  static const struct ptx_type u64 = {PTX_UNSIGNED, 64, false};
  uint64_t v = ptx_get(t, &i->operands[1], u64);
  const uint8_t *base = i->space == PTX_SHARED  ? t->block->shared.data
                        : i->space == PTX_LOCAL ? t->frame.local
                                                : NULL;
  v = ptx_has(i, "to") ? v - (uint64_t)(uintptr_t)base
                       : v + (uint64_t)(uintptr_t)base;
  ptx_set(t, &i->operands[0], u64, v);
  return NULL;
}

/* ---- asynchronous copies ----------------------------------------------- */

static void
make_copy(const struct copy *c)
{
  memcpy(c->to, c->from, (size_t)c->bytes);
  memset(c->to + c->bytes, 0, (size_t)c->fill);
}

static const char *
begin_copy(struct thread *t, ins i)
{
  static const struct ptx_type u32 = {PTX_UNSIGNED, 32, false};
  const char *error = NULL;
  int size = (int)i->operands[2].value, read = size;
  if (i->n > 3)
    read = (int)ptx_get(t, &i->operands[3], u32);
  if ((size != 4 && size != 8 && size != 16) || read > size)
    return "a size of a copy";
  if (size != 16 && ptx_has(i, "cg"))
    return "a size of a copy beside the first cache";
  uint8_t *to =
      ptx_at(t, PTX_SHARED, ptx_address(t, &i->operands[0]), size, &error);
  if (error)
    return error;
  /* (What reads nothing may have any address.) */
  uint64_t address = ptx_address(t, &i->operands[1]);
  const uint8_t *from =
      read > 0 ? ptx_at(t, PTX_GLOBAL, address, size, &error) : to;
  if (error)
    return error;
  struct copy c = {to, from, read, size - read, -1};
  if (t->block->order == PTX_BACKWARD)
    make_copy(&c);
  else
    TT_PUSH(t->copies, c);
  return NULL;
}

static const char *
commit_copies(struct thread *t, ins i)
{
  (void)i;
  for (int k = 0; k < t->copies.n; k++)
    if (t->copies.items[k].group < 0)
      t->copies.items[k].group = t->groups;
  t->groups++;
  return NULL;
}

/* All groups but the last n are complete. */
static const char *
wait_for_copies(struct thread *t, ins i)
{
  bool all = ptx_has(i, "wait_all");
  int last = t->groups - (all ? 0 : (int)i->operands[0].value), kept = 0;
  for (int k = 0; k < t->copies.n; k++) {
    struct copy *c = &t->copies.items[k];
    if (all || (c->group >= 0 && c->group < last))
      make_copy(c);
    else
      t->copies.items[kept++] = *c;
  }
  t->copies.n = kept;
  return NULL;
}

static const char *
asynchronous(struct thread *t, ins i)
{
  if (ptx_has(i, "commit_group"))
    return commit_copies(t, i);
  if (ptx_has(i, "wait_group") || ptx_has(i, "wait_all"))
    return wait_for_copies(t, i);
  if (i->space != PTX_SHARED || !ptx_has(i, "global") || i->n < 3)
    return "a copy of that kind";
  return begin_copy(t, i);
}

bool
ptx_find_memory(struct ptx_instruction *i)
{
  const char *w = i->words[0];
  if (strcmp(w, "ld") == 0 || strcmp(w, "st") == 0) {
    i->fn = load_or_store;
    return i->ntypes == 1 && i->n == 2;
  }
  if (strcmp(w, "cvta") == 0) {
    i->fn = convert_address;
    return i->n == 2 && i->space != PTX_GENERIC;
  }
  if (strcmp(w, "cp") == 0 && ptx_has(i, "async")) {
    i->fn = asynchronous;
    if (ptx_has(i, "shared"))
      i->space = PTX_SHARED;
    return true;
  }
  if (strcmp(w, "call") == 0) {
    i->fn = ptx_call;
    return true;
  }
  return false;
}
