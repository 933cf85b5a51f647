/* Types and values of PTX: the bits of operands, and what they stand for.
 *
 * A register has 64 bits, extended as the type of the last write says.
 */
#include "config.h"

#include "tests/ptx_internal.h"

#include <string.h>

#include "ir/types.h"

typedef const struct ptx_instruction *ins;

bool
ptx_has(ins i, const char *word)
{
  for (int k = 1; k < i->nwords; k++)
    if (strcmp(i->words[k], word) == 0)
      return true;
  return false;
}

struct ptx_type
ptx_type(ins i, int k)
{
  return i->types[k < i->ntypes ? k : i->ntypes - 1];
}

uint64_t
ptx_extend(struct ptx_type t, uint64_t v)
{
  int bits = t.pair ? 32 : t.bits;
  if (bits == 64)
    return v;
  v &= (UINT64_C(1) << bits) - 1;
  if (t.class == PTX_SIGNED && v >> (bits - 1))
    v |= ~UINT64_C(0) << bits;
  return v;
}

static uint64_t
special(const struct thread *t, uint64_t which)
{
  const struct block *b = t->block;
  switch (which / 3) {
  case 0:
    return (uint64_t)t->id[which % 3];
  case 1:
    return (uint64_t)b->launch->block[which % 3];
  case 2:
    return (uint64_t)b->id[which % 3];
  case 3:
    return (uint64_t)b->launch->grid[which % 3];
  default:
    return which == 12 ? (uint64_t)t->number % 32 : 32;
  }
}

uint64_t
ptx_get(const struct thread *t, const struct ptx_operand *o,
        struct ptx_type type)
{
  uint64_t v = o->value;
  if (o->kind == PTX_REGISTER)
    v = t->frame.registers[o->reg];
  else if (o->kind == PTX_SPECIAL)
    v = special(t, o->value);
  else if (o->name && o->space == PTX_SHARED) /* behind what is static */
    v += (uint64_t)(t->block->shared.bytes - t->block->launch->shared);
  v = ptx_extend(type, v);
  return o->negated ? !v : v;
}

void
ptx_set(struct thread *t, const struct ptx_operand *o, struct ptx_type type,
        uint64_t bits)
{
  if (o->kind == PTX_REGISTER)
    t->frame.registers[o->reg] = ptx_extend(type, bits);
}

double
ptx_bits_float(struct ptx_type type, uint64_t bits)
{
  uint32_t low = (uint32_t)bits;
  float f;
  double d;
  if (type.class == PTX_BRAIN)
    return tt_bf16_to_f32((uint16_t)bits);
  if (type.bits == 16)
    return tt_f16_to_f64((uint16_t)bits);
  if (type.bits == 64) {
    memcpy(&d, &bits, sizeof d);
    return d;
  }
  memcpy(&f, &low, sizeof f);
  return f;
}

uint64_t
ptx_float_bits(struct ptx_type type, double v)
{
  float f = (float)v;
  uint32_t low;
  uint64_t bits;
  if (type.class == PTX_BRAIN)
    return tt_f32_to_bf16(f);
  if (type.bits == 16)
    return tt_f64_to_f16(v);
  memcpy(&bits, &v, sizeof bits);
  memcpy(&low, &f, sizeof low);
  return type.bits == 64 ? bits : low;
}

double
ptx_get_float(const struct thread *t, const struct ptx_operand *o,
              struct ptx_type type)
{
  return ptx_bits_float(type, ptx_get(t, o, type));
}

void
ptx_set_float(struct thread *t, const struct ptx_operand *o,
              struct ptx_type type, double v)
{
  ptx_set(t, o, type, ptx_float_bits(type, v));
}
