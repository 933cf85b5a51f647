/* A product of matrices, a processor for it, and features that are checked
 * as they are taken.  The program belongs to the caller's arena; the constants
 * are read only. */
#include "config.h"

#include "tests/product.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tuner/features.h"

const struct tt_target_model product_target = {
    .vector_bytes = 32,
    .registers = 16,
    .l1 = 32 << 10,
    .l2 = 1 << 20,
    .l3 = 32 << 20,
    .threads = 2,
};

const char *const product_names[6] = {"A", "B", "C", "y", "x", "k"};

struct tt_program *
product(struct tt_arena *arena, int64_t n, const char *const names[6])
{
  struct tt_program *p = tt_program_new(arena, "product");
  int64_t dims[2] = {n, n};
  struct tt_tensor *a, *b, *c;
  const struct tt_var *s[2], *k;
  const struct tt_expr *ia[2], *ib[2];

  a = tt_program_tensor(p, names[0], TT_INPUT, TT_F32, 2, dims);
  b = tt_program_tensor(p, names[1], TT_INPUT, TT_F32, 2, dims);
  c = tt_program_tensor(p, names[2], TT_OUTPUT, TT_F32, 2, dims);
  s[0] = tt_program_var(p, names[3], n);
  s[1] = tt_program_var(p, names[4], n);
  k = tt_program_var(p, names[5], n);
  ia[0] = ib[0] = tt_var_ref(arena, k);
  ia[1] = tt_var_ref(arena, s[0]);
  ib[1] = tt_var_ref(arena, s[1]);
  tt_program_stage(p, c, s, TT_RED_SUM, 1, &k,
                   tt_binary(arena, TT_MUL, tt_load(arena, a, 2, ia),
                             tt_load(arena, b, 2, ib)),
                   NULL);
  return p;
}

float *
features_of(struct tt_arena *arena, const struct tt_schedule *s)
{
  return features_of_kind(arena, s, TT_FEATURES_RELATION);
}

float *
features_of_kind(struct tt_arena *arena, const struct tt_schedule *s,
                 enum tt_features_kind kind)
{
  int width = tt_features_width(kind, NULL);
  float *row = TT_ARRAY(arena, float, (size_t)width);

  for (int i = 0; i < width; i++)
    row[i] = NAN; /* every entry must be written */
  tt_features(kind, s, &product_target, NULL, NULL, row);
  for (int i = 0; i < width; i++)
    if (!isfinite(row[i]))
      fail_msg("feature %d is not finite", i);
  return row;
}
