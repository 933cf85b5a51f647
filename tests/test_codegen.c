/* Code generation: what the passes make of a loop means the same, and the C
 * that is printed does the same: its extents, strides, guards, locals.
 */
#include "config.h"

#include "codegen/codegen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/exec_c.h"
#include "tests/nest.h"

/* Every small extent, with chunks and all remainders. */
static void
test_extents(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "extents");
  const struct tt_stmt *items[48];
  int n = 0;
  for (int64_t e = 1; e <= 40; e++, n++) {
    struct tt_tensor *a =
        param(&f, tt_arena_printf(f.ar, "A%d", n), TT_INPUT, TT_F32, 1, &e);
    struct tt_tensor *o =
        param(&f, tt_arena_printf(f.ar, "O%d", n), TT_OUTPUT, TT_F32, 1, &e);
    const struct tt_var *v = var(&f, "x", e);
    const struct tt_expr *x = ref(&f, v);
    items[n] = vector(&f, v, 1 << n % 5,
                      store(&f, o, &x, tt_neg(f.ar, load(&f, a, &x))));
  }
  f.nest.body = tt_seq(f.ar, n, items);
  check_nest(&f);
}

static void
test_long_loop(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "copy");
  int64_t n = 1003;
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, &n);
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, &n);
  const struct tt_var *v = var(&f, "x", n);
  const struct tt_expr *x = ref(&f, v);
  f.nest.body = vector(&f, v, 16, store(&f, o, &x, load(&f, a, &x)));
  check_nest(&f);
}

/* Strides: loads of every second element, backwards, along rows, from one
 * place; stores along columns. */
static void
test_strides(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "strides");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 2, DIMS(24, 48));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 2, DIMS(5, 24));
  struct tt_tensor *q = param(&f, "Q", TT_OUTPUT, TT_F32, 2, DIMS(24, 3));
  const struct tt_var *v = var(&f, "x", 24);
  const struct tt_expr *x = ref(&f, v), *zero = tt_idx(f.ar, 0);
  const struct tt_expr *idx[5][2] = {{zero, tt_imul(f.ar, x, 2)},
                                     {zero, tt_isub(f.ar, tt_idx(f.ar, 23), x)},
                                     {x, zero},
                                     {zero, zero},
                                     {x, tt_iadd(f.ar, x, tt_idx(f.ar, 5))}};
  const struct tt_stmt *items[6];
  for (int i = 0; i < 5; i++)
    items[i] = store(&f, o, IDX(tt_idx(f.ar, i), x), load(&f, a, idx[i]));
  items[5] = store(&f, q, IDX(x, tt_idx(f.ar, 1)), load(&f, a, idx[1]));
  const struct tt_var *y = var(&f, "y", 3), *z = var(&f, "z", 24);
  f.nest.body = seq2(&f,
                     serial(&f, z,
                            serial(&f, y,
                                   store(&f, q, IDX(ref(&f, z), ref(&f, y)),
                                         tt_flt(f.ar, TT_F32, 0)))),
                     vector(&f, v, 8, tt_seq(f.ar, 6, items)));
  check_nest(&f);
}

/* Vectors of all elements of a tensor, `stride` apart, from end to end. */
static const struct tt_stmt *
end_to_end(struct fix *f, int number, enum tt_dtype d, int64_t elements,
           int64_t stride)
{
  int64_t step = stride < 0 ? -stride : stride;
  int64_t size = (elements - 1) * step + 1;
  struct tt_tensor *a =
      param(f, tt_arena_printf(f->ar, "A%d", number), TT_INPUT, d, 1, &size);
  struct tt_tensor *o = param(f, tt_arena_printf(f->ar, "O%d", number),
                              TT_OUTPUT, d, 1, &elements);
  const struct tt_var *v = var(f, "x", elements);
  const struct tt_expr *x = ref(f, v);
  const struct tt_expr *at = tt_iadd(f->ar, tt_imul(f->ar, x, stride),
                                     tt_idx(f->ar, stride < 0 ? size - 1 : 0));
  return vector(f, v, 64 / tt_dtype_bytes(d), store(f, o, &x, load(f, a, &at)));
}

/* Small strides forth and back in every type and width: up to both ends of
 * what may be read. */
static void
test_spread(void **state)
{
  (void)state;
  /* Remainders of 1, 5, 11, 14 and 15 of 16 lanes. */
  static const int64_t sizes[] = {81, 69, 75, 78, 79};
  for (int t = 0; t < TT_NDTYPES; t++) {
    struct fix f;
    start(&f, "spread");
    const struct tt_stmt *items[50];
    int n = 0;
    for (int64_t stride = -5; stride <= 5; stride++)
      for (int i = 0; stride && i < 5; i++, n++)
        items[n] = end_to_end(&f, n, (enum tt_dtype)t, sizes[i], stride);
    f.nest.body = tt_seq(f.ar, n, items);
    check_nest(&f);
  }
}

/* The rest of a loop of 14 is part of a vector where the machine has masks,
 * unless an unused lane could trap. */
static void
test_parts(void **state)
{
  (void)state;
  static const struct {
    enum tt_dtype type;
    enum tt_binop op;
    int bytes;
    bool part;
  } cases[] = {{TT_F32, TT_DIV, 64, true},  {TT_F32, TT_DIV, 32, true},
               {TT_F32, TT_DIV, 16, false}, {TT_I32, TT_ADD, 64, true},
               {TT_I32, TT_DIV, 64, false}, {TT_I8, TT_ADD, 64, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    struct fix f;
    start(&f, "part");
    enum tt_dtype d = cases[i].type;
    struct tt_tensor *a = param(&f, "A", TT_INPUT, d, 1, DIMS(14));
    struct tt_tensor *o = param(&f, "O", TT_OUTPUT, d, 1, DIMS(14));
    const struct tt_var *v = var(&f, "x", 14);
    const struct tt_expr *x = ref(&f, v), *y = load(&f, a, &x);
    y = tt_binary(f.ar, cases[i].op, y, y);
    f.nest.body = vector(&f, v, 16, store(&f, o, &x, y));
    struct tt_codegen_options opt = {.vector_bytes = cases[i].bytes};
    struct tt_code_sizes sizes;
    struct tt_sb text = {0};
    assert_null(tt_codegen_c(f.ar, &f.nest, &opt, &sizes, &text));
    assert_int_equal(strstr(tt_sb_str(&text), "first_") != NULL, cases[i].part);
    tt_sb_free(&text);
    tt_arena_free(f.ar);
  }
}

/* O[j, i] = A[i, j], copied or negated in vectors along j. */
static const struct tt_stmt *
across(struct fix *f, int number, enum tt_dtype d, int64_t m, int64_t n,
       bool plain)
{
  struct tt_tensor *a = param(f, tt_arena_printf(f->ar, "A%d", number),
                              TT_INPUT, d, 2, DIMS(m, n));
  struct tt_tensor *o = param(f, tt_arena_printf(f->ar, "O%d", number),
                              TT_OUTPUT, d, 2, DIMS(n, m));
  const struct tt_var *i = var(f, "i", m), *j = var(f, "j", n);
  const struct tt_expr *x = load(f, a, IDX(ref(f, i), ref(f, j)));
  const struct tt_stmt *s =
      store(f, o, IDX(ref(f, j), ref(f, i)), plain ? x : tt_neg(f->ar, x));
  return serial(
      f, i, plain ? serial(f, j, s) : vector(f, j, 64 / tt_dtype_bytes(d), s));
}

/* Transposed blocks of every size, and what is left beside them. */
static void
test_transpose(void **state)
{
  (void)state;
  static const enum tt_dtype types[] = {TT_F32, TT_F64, TT_I32};
  static const int64_t sizes[][2] = {{16, 16}, {14, 7},  {33, 20}, {5, 40},
                                     {4, 16},  {17, 17}, {7, 64},  {3, 16}};
  for (int t = 0; t < 3; t++) {
    struct fix f;
    start(&f, "transpose");
    const struct tt_stmt *items[16];
    int n = 0;
    for (; n < 16; n++)
      items[n] =
          across(&f, n, types[t], sizes[n / 2][0], sizes[n / 2][1], n % 2);
    f.nest.body = tt_seq(f.ar, n, items);
    check_nest(&f);
  }
  struct fix f;
  start(&f, "printed");
  f.nest.body = seq2(&f, across(&f, 0, TT_F32, 14, 32, false),
                     across(&f, 1, TT_F32, 32, 16, true));
  struct tt_codegen_options opt = {.vector_bytes = 64};
  struct tt_code_sizes bytes;
  struct tt_sb text = {0};
  assert_null(tt_codegen_c(f.ar, &f.nest, &opt, &bytes, &text));
  assert_non_null(strstr(tt_sb_str(&text), "transpose_14x16_f32(&O0["));
  assert_non_null(strstr(tt_sb_str(&text), "transpose_16x16_f32(&O1["));
  tt_sb_free(&text);
  tt_arena_free(f.ar);
}

/* A loop whose iterations depend on each other stays serial. */
static void
test_dependence(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "prefix");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(33));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, DIMS(34));
  const struct tt_var *v = var(&f, "x", 33);
  const struct tt_expr *x = ref(&f, v);
  const struct tt_expr *next = tt_iadd(f.ar, x, tt_idx(f.ar, 1));
  const struct tt_expr *zero = tt_idx(f.ar, 0);
  f.nest.body = seq2(
      &f, store(&f, o, &zero, tt_flt(f.ar, TT_F32, 0)),
      vector(&f, v, 16,
             store(&f, o, &next,
                   tt_binary(f.ar, TT_ADD, load(&f, o, &x), load(&f, a, &x)))));
  check_nest(&f);
}

/* A sum over the vector loop itself. */
static void
test_vector_reduction(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "total");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_I32, 1, DIMS(33));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_I32, 0, NULL);
  const struct tt_var *v = var(&f, "x", 33);
  const struct tt_expr *x = ref(&f, v);
  f.nest.body = seq2(&f, store(&f, o, NULL, tt_int(f.ar, TT_I32, 0)),
                     vector(&f, v, 16,
                            store(&f, o, NULL,
                                  tt_binary(f.ar, TT_ADD, load(&f, o, NULL),
                                            load(&f, a, &x)))));
  check_nest(&f);
}

/* Padding: a choice whose branch may not be evaluated in every lane. */
static void
test_padding(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "pad");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(70));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 2, DIMS(5, 16));
  const struct tt_var *y = var(&f, "y", 5), *v = var(&f, "x", 16);
  const struct tt_expr *i =
      tt_isub(f.ar, tt_iadd(f.ar, tt_imul(f.ar, ref(&f, y), 16), ref(&f, v)),
              tt_idx(f.ar, 3));
  const struct tt_expr *inside =
      tt_binary(f.ar, TT_AND, tt_binary(f.ar, TT_GE, i, tt_idx(f.ar, 0)),
                tt_binary(f.ar, TT_LT, i, tt_idx(f.ar, 70)));
  f.nest.body = serial(&f, y,
                       vector(&f, v, 8,
                              store(&f, o, IDX(ref(&f, y), ref(&f, v)),
                                    tt_select(f.ar, inside, load(&f, a, &i),
                                              tt_flt(f.ar, TT_F32, -0.0)))));
  check_nest(&f);
}

/* A guard around stores and a loop. */
static void
test_guard(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "guard");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(21));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, DIMS(21));
  const struct tt_var *y = var(&f, "y", 3), *v = var(&f, "x", 8);
  const struct tt_var *k = var(&f, "k", 4);
  const struct tt_expr *i =
      tt_iadd(f.ar, tt_imul(f.ar, ref(&f, y), 8), ref(&f, v));
  const struct tt_stmt *body = seq2(
      &f, store(&f, o, &i, tt_flt(f.ar, TT_F32, 1)),
      serial(&f, k,
             store(&f, o, &i,
                   tt_binary(f.ar, TT_ADD, load(&f, o, &i), load(&f, a, &i)))));
  f.nest.body =
      serial(&f, y,
             vector(&f, v, 4,
                    tt_if(f.ar, tt_binary(f.ar, TT_LT, i, tt_idx(f.ar, 21)),
                          body, NULL)));
  check_nest(&f);
}

/* A sum in a register inside of the vector loop. */
static void
test_private_sum(void **state)
{
  (void)state;
  for (int scope = TT_STACK; scope <= TT_REGISTER; scope++) {
    struct fix f;
    start(&f, "colsum");
    struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 2, DIMS(9, 77));
    struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, DIMS(77));
    struct tt_tensor *t =
        local(&f, "acc", (enum tt_scope)scope, TT_F32, 0, NULL);
    const struct tt_var *v = var(&f, "x", 77), *k = var(&f, "k", 9);
    const struct tt_expr *x = ref(&f, v);
    const struct tt_stmt *items[3] = {
        store(&f, t, NULL, tt_flt(f.ar, TT_F32, 0)),
        serial(&f, k,
               store(&f, t, NULL,
                     tt_binary(f.ar, TT_ADD, load(&f, t, NULL),
                               load(&f, a, IDX(ref(&f, k), x))))),
        store(&f, o, &x, load(&f, t, NULL))};
    f.nest.body =
        vector(&f, v, 8, tt_alloc_stmt(f.ar, t, tt_seq(f.ar, 3, items)));
    check_nest(&f);
  }
}

/* Lanes of a register tile that one loop writes as vectors and another reads
 * one by one, and one with a wider type. */
static void
test_mixed_tile(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "mixed");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_I8, 1, DIMS(48));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_I64, 1, DIMS(48));
  struct tt_tensor *q = param(&f, "Q", TT_OUTPUT, TT_I32, 1, DIMS(1));
  struct tt_tensor *t = local(&f, "t", TT_REGISTER, TT_I32, 1, DIMS(48));
  const struct tt_var *v = var(&f, "x", 48), *w = var(&f, "y", 48);
  const struct tt_expr *x = ref(&f, v), *y = ref(&f, w);
  const struct tt_expr *zero = tt_idx(f.ar, 0), *five = tt_idx(f.ar, 5);
  const struct tt_stmt *items[3] = {
      vector(&f, v, 16,
             store(&f, t, &x, tt_cast(f.ar, TT_I32, load(&f, a, &x)))),
      vector(&f, w, 16,
             store(&f, o, &y, tt_cast(f.ar, TT_I64, load(&f, t, &y)))),
      store(&f, q, &zero, load(&f, t, &five))};
  f.nest.body = tt_alloc_stmt(f.ar, t, tt_seq(f.ar, 3, items));
  check_nest(&f);
}

/* A register local with a variable index goes to memory. */
static void
test_not_registers(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "reverse");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(10));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, DIMS(10));
  struct tt_tensor *t = local(&f, "t", TT_REGISTER, TT_F32, 1, DIMS(10));
  const struct tt_var *v = var(&f, "x", 10), *w = var(&f, "x", 10);
  const struct tt_expr *x = ref(&f, v), *y = ref(&f, w);
  const struct tt_expr *back = tt_isub(f.ar, tt_idx(f.ar, 9), y);
  f.nest.body =
      tt_alloc_stmt(f.ar, t,
                    seq2(&f, serial(&f, v, store(&f, t, &x, load(&f, a, &x))),
                         serial(&f, w, store(&f, o, &y, load(&f, t, &back)))));
  check_nest(&f);
}

/* Loads of what was stored in between are not taken from an old name. */
static void
test_names_and_stores(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "swap");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 1, DIMS(4));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 1, DIMS(4));
  const struct tt_expr *i[4];
  for (int k = 0; k < 4; k++)
    i[k] = tt_idx(f.ar, k);
  const struct tt_expr *a0 = load(&f, a, &i[0]), *o0 = load(&f, o, &i[0]);
  const struct tt_stmt *items[5] = {
      store(&f, o, &i[0], tt_binary(f.ar, TT_ADD, a0, a0)),
      store(&f, o, &i[1], tt_binary(f.ar, TT_MUL, o0, o0)),
      store(&f, o, &i[0], tt_binary(f.ar, TT_MUL, o0, o0)),
      store(&f, o, &i[2], tt_binary(f.ar, TT_MUL, o0, a0)),
      store(&f, o, &i[3], tt_binary(f.ar, TT_SUB, o0, a0))};
  f.nest.body = tt_seq(f.ar, 5, items);
  check_nest(&f);
}

static void
test_parallel(void **state)
{
  (void)state;
  struct fix f;
  start(&f, "parallel");
  struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 2, DIMS(3, 9000));
  struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 2, DIMS(3, 9000));
  struct tt_tensor *big = local(&f, "big", TT_WORKSPACE, TT_F32, 1, DIMS(9000));
  struct tt_tensor *small =
      local(&f, "small", TT_WORKSPACE, TT_F32, 1, DIMS(1));
  const struct tt_var *y = var(&f, "y", 3), *v = var(&f, "x", 9000);
  const struct tt_var *w = var(&f, "x", 9000);
  const struct tt_expr *x = ref(&f, v), *z = ref(&f, w);
  const struct tt_expr *zero = tt_idx(f.ar, 0);
  const struct tt_stmt *items[3] = {
      store(&f, small, &zero, tt_flt(f.ar, TT_F32, 2)),
      serial(&f, v,
             store(&f, big, &x,
                   tt_binary(f.ar, TT_MUL, load(&f, small, &zero),
                             load(&f, a, IDX(ref(&f, y), x))))),
      vector(&f, w, 16, store(&f, o, IDX(ref(&f, y), z), load(&f, big, &z)))};
  f.nest.body =
      tt_for(f.ar, TT_PARALLEL, 1, y,
             tt_alloc_stmt(f.ar, small,
                           tt_alloc_stmt(f.ar, big, tt_seq(f.ar, 3, items))));
  struct tt_codegen_options opt = {.vector_bytes = 64};
  struct tt_code_sizes sizes;
  struct tt_sb sb = {0};
  assert_null(tt_codegen_c(f.ar, &f.nest, &opt, &sizes, &sb));
  assert_true(sizes.workspace_bytes >= 3 * 36000);
  assert_true(sizes.workspace_bytes < 3 * 36000 + 3 * 64 + 1);
  assert_true(sizes.stack_bytes == 64);
  assert_non_null(strstr(sb.s, "#pragma omp parallel for"));
  assert_null(exec_compile(f.ar, "cc", "-fopenmp -Wall -Wextra -Werror", sb.s));
  tt_sb_free(&sb);
  check_nest(&f);
}

/* The code of a nest with vectors; to be freed. */
static struct tt_sb
code_of(struct fix *f)
{
  struct tt_codegen_options opt = {.vector_bytes = 64};
  struct tt_code_sizes sizes;
  struct tt_sb sb = {0};
  assert_null(tt_codegen_c(f->ar, &f->nest, &opt, &sizes, &sb));
  return sb;
}

/* Eight rows, each a vector: their offsets share one pointer; where each is
 * read under a condition only, none, as it might point outside. */
static void
test_shared_pointers(void **state)
{
  (void)state;
  for (int lazy = 0; lazy < 2; lazy++) {
    struct fix f;
    start(&f, "shared");
    struct tt_tensor *a = param(&f, "A", TT_INPUT, TT_F32, 2, DIMS(48, 16));
    struct tt_tensor *o = param(&f, "O", TT_OUTPUT, TT_F32, 2, DIMS(48, 16));
    const struct tt_var *y = var(&f, "y", 6), *u = var(&f, "u", 8);
    const struct tt_var *v = var(&f, "x", 16);
    const struct tt_expr *row =
        tt_iadd(f.ar, tt_imul(f.ar, ref(&f, y), 8), ref(&f, u));
    struct tt_tensor *c = param(&f, "c", TT_INPUT, TT_I32, 1, DIMS(6));
    const struct tt_expr *yes = tt_binary(
        f.ar, TT_GT, load(&f, c, IDX(ref(&f, y))), tt_int(f.ar, TT_I32, 0));
    const struct tt_expr *all = load(&f, a, IDX(row, ref(&f, v)));
    const struct tt_expr *some =
        tt_select(f.ar, yes, all, tt_flt(f.ar, TT_F32, 0));
    f.nest.body = serial(
        &f, y,
        tt_for(f.ar, TT_UNROLL, 1, u,
               vector(&f, v, 16,
                      store(&f, o, IDX(row, ref(&f, v)), lazy ? some : all))));
    struct tt_sb sb = code_of(&f);
    assert_non_null(strstr(sb.s, "float *const O_at = &O["));
    assert_non_null(strstr(sb.s, "O_at[112]"));
    if (lazy)
      assert_null(strstr(sb.s, "A_at"));
    else
      assert_non_null(strstr(sb.s, "A_at[112]"));
    tt_sb_free(&sb);
    check_nest(&f);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_extents),
      cmocka_unit_test(test_long_loop),
      cmocka_unit_test(test_strides),
      cmocka_unit_test(test_spread),
      cmocka_unit_test(test_parts),
      cmocka_unit_test(test_transpose),
      cmocka_unit_test(test_dependence),
      cmocka_unit_test(test_vector_reduction),
      cmocka_unit_test(test_padding),
      cmocka_unit_test(test_guard),
      cmocka_unit_test(test_private_sum),
      cmocka_unit_test(test_mixed_tile),
      cmocka_unit_test(test_not_registers),
      cmocka_unit_test(test_names_and_stores),
      cmocka_unit_test(test_parallel),
      cmocka_unit_test(test_shared_pointers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
