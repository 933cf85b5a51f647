/* Loads and stores of the first lanes of a vector: the remainder of a loop
 * that is no power of two is one vector whose last lanes nobody reads.
 *
 * A vector of 14 lanes is an f32x16 in C.  Arithmetic does all 16; memory is
 * only touched where the program touches it, by masks where the machine has
 * them, else by moving so many bytes.
 */
#include "config.h"

#include "codegen/cprint.h"

int
tt_c_lanes(int lanes)
{
  int full = 1;
  while (full < lanes)
    full *= 2;
  return full;
}

bool
tt_c_is_part(int lanes)
{
  return tt_c_lanes(lanes) != lanes;
}

/* The machine's own name of the vector: ups512, upd256, ... */
static const char *
machine_form(struct cprinter *c, int bytes, int lanes)
{
  return tt_arena_printf(c->arena, "%s%d", bytes == 4 ? "ups" : "upd",
                         bytes * lanes * 8);
}

/* first_f32x16(p, n): n elements from p on, then zeros;
 * put_first_f32x16(p, n, x): the other way. */
static const char *
helper(struct cprinter *c, enum tt_dtype t, int full, bool store)
{
  int bytes = tt_dtype_bytes(t);
  enum tt_dtype f = bytes == 4 ? TT_F32 : TT_F64;
  const char *v = tt_c_vector(c, t, full);
  const char *name = tt_c_helper_name(
      c, tt_arena_printf(c->arena, "%s_%s", store ? "put_first" : "first", v));
  if (tt_c_has_helper(c, name))
    return name;
  const char *as = tt_c_vector(c, f, full);
  const char *form = machine_form(c, bytes, full);
  const char *text, *params = store ? "p, n, x" : "p, n";
  const char *mask = full == 16 ? "unsigned short" : "unsigned char";
  /* The mask is hidden from the optimizer: gcc takes a masked load by a
   * constant for a load of the whole vector that is blended. */
  if (store)
    text = tt_arena_printf(c->arena,
                           "  %s tt_m = (%s)((1 << (n)) - 1);\n"
                           "  __asm__(\"\" : \"+Yk\"(tt_m));\n"
                           "  __builtin_ia32_store%s_mask((void *)(p), "
                           "(%s)(x), tt_m);\n",
                           mask, mask, form, as);
  else
    text = tt_arena_printf(c->arena,
                           "  %s tt_m = (%s)((1 << (n)) - 1);\n"
                           "  __asm__(\"\" : \"+Yk\"(tt_m));\n"
                           "  (%s)__builtin_ia32_load%s_mask("
                           "(const void *)(p), (%s){0}, tt_m);\n",
                           mask, mask, v, form, as);
  const char *moved =
      store ? tt_arena_printf(c->arena,
                              "  const %s tt_v = (x);\n"
                              "  __builtin_memcpy(p, &tt_v, (n) * %d);\n",
                              v, bytes)
            : tt_arena_printf(c->arena,
                              "  %s tt_v = {0};\n"
                              "  __builtin_memcpy(&tt_v, p, (n) * %d);\n"
                              "  tt_v;\n",
                              v, bytes);
  text = tt_arena_printf(
      c->arena,
      "#if defined(__AVX512F__) && defined(__AVX512VL__)\n%s#else\n%s#endif\n",
      tt_c_vector_macro(c, name, params, text),
      tt_c_vector_macro(c, name, params, moved));
  return tt_c_add_helper(c, name, text);
}

const char *
tt_c_part_load(struct cprinter *c, enum tt_dtype t, int lanes, int n,
               const char *address)
{
  return tt_arena_printf(c->arena, "%s(%s, %d)", helper(c, t, lanes, false),
                         address, n);
}

const char *
tt_c_part_store(struct cprinter *c, enum tt_dtype t, int lanes, int n,
                const char *address, const char *value)
{
  return tt_arena_printf(c->arena, "%s(%s, %d, %s)", helper(c, t, lanes, true),
                         address, n, value);
}
