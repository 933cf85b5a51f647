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

/* The machine's own name of the vector: ps512, pd256, ps128 or ps. */
static const char *
machine_form(struct cprinter *c, int bytes, int lanes, bool short_forms)
{
  const char *element = bytes == 4 ? "ps" : "pd";
  int bits = bytes * lanes * 8;
  if (short_forms && bits == 128)
    return element;
  return tt_arena_printf(c->arena, "%s%d", element, bits);
}

/* What to do with a mask register.  The mask is hidden from the optimizer: gcc
 * takes a masked load by a constant for a load of the whole vector that is
 * blended. */
static const char *
by_mask(struct cprinter *c, const char *v, const char *as, int bytes, int full,
        bool store)
{
  const char *mask = full == 16 ? "unsigned short" : "unsigned char";
  const char *form = machine_form(c, bytes, full, false);
  const char *move =
      store ? tt_arena_printf(c->arena,
                              "__builtin_ia32_storeu%s_mask((void *)(p), "
                              "(%s)(x), tt_m)",
                              form, as)
            : tt_arena_printf(c->arena,
                              "(%s)__builtin_ia32_loadu%s_mask("
                              "(const void *)(p), (%s){0}, tt_m)",
                              v, form, as);
  return tt_arena_printf(c->arena,
                         "  %s tt_m = (%s)((1 << (n)) - 1);\n"
                         "  __asm__(\"\" : \"+Yk\"(tt_m));\n"
                         "  %s;\n",
                         mask, mask, move);
}

/* A load by a vector of masks, which older machines have.  (Their stores of
 * this kind are slow.) */
static const char *
by_vector(struct cprinter *c, const char *v, int bytes, int full)
{
  const char *m = tt_c_raw_vector(c, bytes, full);
  struct tt_sb sb = {0};
  tt_sb_printf(&sb, "  const %s tt_m = (%s)((%s){", m, m, m);
  for (int i = 0; i < full; i++)
    tt_sb_printf(&sb, "%d%s", i, i + 1 < full ? ", " : "} < (n));\n");
  tt_sb_printf(&sb,
               "  (%s)__builtin_ia32_maskload%s((const void *)(p), tt_m);\n", v,
               machine_form(c, bytes, full, true));
  const char *text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static const char *
by_moves(struct cprinter *c, const char *v, int bytes, bool store)
{
  if (store)
    return tt_arena_printf(c->arena,
                           "  const %s tt_v = (x);\n"
                           "  __builtin_memcpy(p, &tt_v, (n) * %d);\n",
                           v, bytes);
  return tt_arena_printf(c->arena,
                         "  %s tt_v = {0};\n"
                         "  __builtin_memcpy(&tt_v, p, (n) * %d);\n"
                         "  tt_v;\n",
                         v, bytes);
}

/* first_f32x16(p, n): n elements from p on, then zeros;
 * put_first_f32x16(p, n, x): the other way. */
static const char *
helper(struct cprinter *c, enum tt_dtype t, int full, bool store)
{
  int bytes = tt_dtype_bytes(t);
  const char *v = tt_c_vector(c, t, full);
  const char *name = tt_c_helper_name(
      c, tt_arena_printf(c->arena, "%s_%s", store ? "put_first" : "first", v));
  if (tt_c_has_helper(c, name))
    return name;
  const char *as = tt_c_vector(c, bytes == 4 ? TT_F32 : TT_F64, full);
  const char *params = store ? "p, n, x" : "p, n";
  struct tt_sb sb = {0};
  tt_sb_printf(&sb, "#if defined(__AVX512F__) && defined(__AVX512VL__)\n%s",
               tt_c_vector_macro(c, name, params,
                                 by_mask(c, v, as, bytes, full, store)));
  if (!store && full * bytes <= 32)
    tt_sb_printf(
        &sb, "#elif defined(__AVX__)\n%s",
        tt_c_vector_macro(c, name, params, by_vector(c, v, bytes, full)));
  tt_sb_printf(
      &sb, "#else\n%s#endif\n",
      tt_c_vector_macro(c, name, params, by_moves(c, v, bytes, store)));
  const char *text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
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
