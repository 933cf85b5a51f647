/* The generator of random programs keeps what it promises: the programs are
 * valid, cheap, varied, finite, the same every time, and the simplifier and
 * both interpreters agree on them. */
#include "config.h"

#include "tests/random_program.h"

#include "ir/passes.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static uint64_t
scaled(uint64_t n)
{
  const char *scale = getenv("TEST_SCALE");
  return n * (scale ? strtoull(scale, NULL, 10) : 1);
}

static void
show(const struct tt_program *p, uint64_t seed, const char *why)
{
  struct tt_sb sb = {0};
  tt_dump_program(&sb, p);
  print_error("seed %llu: %s\n%s", (unsigned long long)seed, why,
              tt_sb_str(&sb));
  tt_sb_free(&sb);
}

static bool
all_finite(struct tt_values *v, const struct tt_tensor *t)
{
  double *f;
  int64_t *i;
  tt_values_of(v, t, &f, &i);
  for (int64_t k = 0; f && k < tt_tensor_size(t); k++)
    if (!isfinite(f[k]) || fabs(f[k]) > 1e4)
      return false;
  return true;
}

static int64_t
points(const struct tt_program *p)
{
  int64_t total = 0;
  for (int i = 0; i < p->nstages; i++) {
    const struct tt_stage *s = p->stages[i];
    int64_t n = tt_tensor_size(s->out);
    for (int j = 0; j < s->nreduce; j++)
      n *= s->reduce[j]->extent;
    total += n;
  }
  return total;
}

static void
valid_and_finite(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < scaled(1500); seed++) {
    struct tt_arena *arena = tt_arena_new();
    struct tt_program *p = tt_random_program(arena, seed);
    const char *bad = tt_verify_program(arena, p);
    if (bad)
      show(p, seed, bad);
    assert_null(bad);
    assert_true(points(p) <= 20000);
    struct tt_values *v = tt_values_new();
    tt_values_random(v, p, seed);
    bad = tt_interpret_program(p, v);
    for (int i = 0; i < p->nstages && !bad; i++)
      if (!all_finite(v, p->stages[i]->out))
        bad = p->stages[i]->out->name;
    if (bad)
      show(p, seed, bad);
    assert_null(bad);
    tt_values_free(v);
    tt_arena_free(arena);
  }
}

static void
same_every_time(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < 50; seed++) {
    struct tt_sb a = {0}, b = {0};
    for (int i = 0; i < 2; i++) {
      struct tt_arena *arena = tt_arena_new();
      tt_dump_program(i ? &a : &b, tt_random_program(arena, seed));
      tt_arena_free(arena);
    }
    assert_string_equal(tt_sb_str(&a), tt_sb_str(&b));
    tt_sb_free(&a);
    tt_sb_free(&b);
  }
}

struct seen {
  bool kind[TT_BROADCAST + 1], op[TT_NBINOPS], fn[TT_NFNS];
};

static void
see(void *ctx, const struct tt_expr *e)
{
  struct seen *s = ctx;
  s->kind[e->kind] = true;
  if (e->kind == TT_BINARY)
    s->op[e->op] = true;
  if (e->kind == TT_CALL)
    s->fn[e->fn] = true;
}

/* Whatever the language has turns up. */
static void
varied(void **state)
{
  (void)state;
  struct seen s = {0};
  bool red[TT_RED_ALL + 1] = {0}, dtype[TT_NDTYPES] = {0};
  int prepared = 0, where = 0, outputs = 0, scalars = 0, shared = 0;
  for (uint64_t seed = 0; seed < 600; seed++) {
    struct tt_arena *arena = tt_arena_new();
    struct tt_program *p = tt_random_program(arena, seed);
    int n = 0;
    for (int i = 0; i < p->nstages; i++) {
      const struct tt_stage *g = p->stages[i];
      int readers = 0;
      tt_expr_visit(g->value, see, &s);
      red[g->red] = dtype[g->out->dtype] = true;
      prepared += g->prepare;
      where += g->where != NULL;
      n += g->out->role == TT_OUTPUT;
      scalars += g->nspatial == 0;
      for (int j = i + 1; j < p->nstages; j++)
        readers += tt_expr_uses_tensor(p->stages[j]->value, g->out);
      shared += readers > 1;
    }
    outputs += n > 1;
    tt_arena_free(arena);
  }
  for (int i = 0; i < TT_RAMP; i++)
    assert_true(s.kind[i]);
  for (int i = 0; i < TT_NBINOPS; i++)
    assert_true(s.op[i]);
  for (int i = 0; i < TT_NFNS; i++)
    assert_true(s.fn[i]);
  for (int i = 0; i <= TT_RED_ALL; i++)
    assert_true(red[i]);
  for (int i = 0; i < TT_NDTYPES; i++)
    assert_true(dtype[i]);
  assert_true(prepared > 20 && where > 50 && outputs > 50 && scalars > 20 &&
              shared > 20);
}

static void
same_values(struct tt_values *a, struct tt_values *b,
            const struct tt_program *p, uint64_t seed)
{
  for (int i = 0; i < p->nstages; i++) {
    const struct tt_tensor *t = p->stages[i]->out;
    double *f, *g;
    int64_t *k, *l;
    tt_values_of(a, t, &f, &k);
    tt_values_of(b, t, &g, &l);
    for (int64_t x = 0; x < tt_tensor_size(t); x++) {
      bool ok = f ? f[x] == g[x] : k[x] == l[x];
      if (!ok)
        show(p, seed, t->name);
      assert_true(ok);
    }
  }
}

static void
simplified_stages_agree(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < scaled(400); seed++) {
    struct tt_arena *arena = tt_arena_new();
    struct tt_program *p = tt_random_program(arena, seed);
    struct tt_values *a = tt_values_new(), *b = tt_values_new();
    tt_values_random(a, p, seed);
    tt_values_random(b, p, seed);
    assert_null(tt_interpret_program(p, a));
    for (int i = 0; i < p->nstages; i++) {
      struct tt_stage *s = p->stages[i];
      struct tt_facts fact = {NULL, s->where, false};
      s->value = tt_simplify(arena, s->value, s->where ? &fact : NULL);
      s->where = s->where ? tt_simplify(arena, s->where, NULL) : NULL;
    }
    const char *bad = tt_verify_program(arena, p);
    bad = bad ? bad : tt_interpret_program(p, b);
    if (bad)
      show(p, seed, bad);
    assert_null(bad);
    same_values(a, b, p, seed);
    tt_values_free(a);
    tt_values_free(b);
    tt_arena_free(arena);
  }
}

static void
points_agree(void **state)
{
  (void)state;
  for (uint64_t seed = 0; seed < scaled(200); seed++) {
    struct tt_arena *arena = tt_arena_new();
    struct tt_program *p = tt_random_program(arena, seed);
    struct tt_values *a = tt_values_new(), *b = tt_values_new();
    tt_values_random(a, p, seed);
    tt_values_random(b, p, seed);
    assert_null(tt_interpret_program(p, a));
    const struct tt_tensor *t = p->stages[p->nstages - 1]->out;
    double *f;
    int64_t *k, index[TT_MAX_DIMS];
    tt_values_of(a, t, &f, &k);
    for (int64_t x = 0; x < tt_tensor_size(t); x += 7) {
      int64_t rest = x;
      for (int i = t->ndim - 1; i >= 0; i--) {
        index[i] = rest % t->dims[i];
        rest /= t->dims[i];
      }
      double want = f ? f[x] : (double)k[x];
      assert_true(tt_interpret_point(p, b, t, index) == want);
    }
    tt_values_free(a);
    tt_values_free(b);
    tt_arena_free(arena);
  }
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(valid_and_finite),
      cmocka_unit_test(same_every_time),
      cmocka_unit_test(varied),
      cmocka_unit_test(simplified_stages_agree),
      cmocka_unit_test(points_agree),
  };
  return cmocka_run_group_tests_name("random programs", tests, NULL, NULL);
}
