/* Kernels of every example as plain C under the address and undefined
 * behaviour sanitizers, blocks and threads in several orders: the default
 * schedule, and random ones.
 *
 * TT_GPU_ROADS=whole: with more random schedules, and random programs.  The
 * sanitizers' library must be the first that a process loads: the test starts
 * itself again with it.  Skipped where the compiler has none.
 */
#include "config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "schedule/schedule.h"
#include "tests/example_programs.h"
#include "tests/exec_c.h"
#include "tests/random_pairs.h"
#include "tests/random_program.h"
#include "tests/random_schedule.h"

enum { MAX_CASES = 64, FEW = 1, MANY = 20, PROGRAMS = 1000 };

static bool
whole(void)
{
  const char *w = getenv("TT_GPU_ROADS");
  return w && strcmp(w, "whole") == 0;
}

struct batch {
  struct tt_arena *arena;
  struct tt_program *program;
  struct tt_values *values;
  int n;
  struct exec_case cases[MAX_CASES];
  const struct tt_schedule *schedules[MAX_CASES];
};

/* Unless it exceeds a limit of GPUs. */
static void
add_case(struct batch *b, const struct tt_schedule *s, bool wide)
{
  struct tt_nest *nest = TT_NEW(b->arena, struct tt_nest);
  struct tt_gpu_code code;
  struct tt_sb text = {0};
  const char *error = NULL;
  if (!s || b->n == MAX_CASES || !tt_schedule_lower(b->arena, s, nest, &error))
    return;
  error = tt_codegen_gpu(b->arena, nest, wide ? TT_GPU_C_WIDE : TT_GPU_C, NULL,
                         &code, &text);
  tt_sb_free(&text);
  if (error)
    return;
  b->schedules[b->n] = s;
  b->cases[b->n++] = (struct exec_case){.nest = nest,
                                        .in = b->values,
                                        .want = b->values,
                                        .gpu = true,
                                        .wide = wide};
}

static void
check_example(const struct example *e)
{
  struct batch b = {.arena = tt_arena_new(), .values = tt_values_new()};
  b.program = tt_example_program(b.arena, e, false);
  if (!b.program)
    fail_msg("%s does not compile", e->file);
  add_case(&b,
           tt_gpu_schedule(b.arena, b.program, &tt_gpu_unknown, false, true),
           false);
  if (!b.n)
    fail_msg("%s has no kernels by default", e->file);
  if (whole()) {
    add_case(&b,
             tt_gpu_schedule(b.arena, b.program, &tt_gpu_unknown, false, true),
             true);
    add_case(&b,
             tt_gpu_schedule(b.arena, b.program, &tt_gpu_unknown, false, false),
             false);
  }
  for (uint64_t i = 1; i <= (whole() ? MANY : FEW); i++) {
    add_case(&b, tt_random_gpu_point(b.arena, b.program, i, false), i % 2);
    if (whole())
      add_case(&b,
               tt_random_schedule(b.arena, b.program, 7 * i + 5,
                                  4 + (int)(i % 30), false),
               i % 2);
  }
  tt_values_random(b.values, b.program, 1);
  int failed = 0;
  const char *error = tt_interpret_program(b.program, b.values);
  if (!error)
    error = exec_c(b.arena, b.n, b.cases, 0, &failed);
  if (error) {
    struct tt_sb sb = {0};
    tt_schedule_print(b.schedules[failed], &sb);
    fail_msg("%s: %s\n%s", e->file, tt_sb_str(&sb), error);
  }
  tt_values_free(b.values);
  tt_arena_free(b.arena);
}

static void
examples_are_clean(void **state)
{
  (void)state;
  for (int i = 0; i < tt_nexamples; i++)
    check_example(&tt_examples[i]);
}

static bool
make_case(struct tt_arena *ar, struct random_pair *p, struct exec_case *c)
{
  struct batch b = {.arena = ar, .values = tt_values_new()};
  p->program = b.program = tt_random_program(ar, p->seed);
  p->schedule = p->seed % 2
                    ? tt_random_gpu_point(ar, p->program, p->seed, false)
                    : tt_random_schedule(ar, p->program, 7 * p->seed + 5,
                                         4 + (int)(p->seed % 30), false);
  add_case(&b, p->schedule, p->seed / 2 % 2);
  if (!b.n) {
    tt_values_free(b.values);
    return false;
  }
  tt_values_random(b.values, p->program, p->seed);
  assert_null(tt_interpret_program(p->program, b.values));
  p->nest = *b.cases[0].nest;
  *c = b.cases[0];
  return true;
}

static void
random_programs_are_clean(void **state)
{
  (void)state;
  if (whole())
    check_random_pairs(PROGRAMS, 2, make_case);
}

/* ---- the sanitizers ---------------------------------------------------- */

/* The library of the compiler's sanitizer, or "". */
static void
find_library(char *path, size_t size)
{
  const char *cc = getenv("CC");
  char command[512];
  snprintf(command, sizeof command, "%s -print-file-name=libasan.so",
           cc && *cc ? cc : "cc");
  FILE *f = popen(command, "r");
  if (!f || !fgets(path, (int)size, f))
    path[0] = '\0';
  path[strcspn(path, "\n")] = '\0';
  if (path[0] != '/') /* it is not installed */
    path[0] = '\0';
  if (f)
    pclose(f);
}

static bool
is_loaded(void)
{
#ifdef __SANITIZE_ADDRESS__
  return true;
#else
  return getenv("LD_PRELOAD") != NULL;
#endif
}

int
main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(examples_are_clean),
      cmocka_unit_test(random_programs_are_clean),
  };
  char path[4096];
  (void)argc;
  if (!is_loaded()) {
    find_library(path, sizeof path);
    setenv("LD_PRELOAD", path, 1);
    setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
    if (path[0])
      execv("/proc/self/exe", argv);
    fprintf(stderr, "skipped: the compiler has no address sanitizer\n");
    return 77;
  }
  unsetenv("LD_PRELOAD"); /* compilers run without it */
  setenv("TT_EXEC_FLAGS",
         "-O0 -g -fsanitize=address,undefined -fno-sanitize-recover=all "
         "-Wno-error",
         1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
