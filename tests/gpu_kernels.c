/* Writes kernels in CUDA C for a compiler to judge: of every example, of its
 * own sizes, under its default schedule and points of the space, and of random
 * programs under random legal schedules.
 *
 *   gpu_kernels FOLDER examples
 *   gpu_kernels FOLDER random FIRST COUNT
 *
 * Several kernels are one file, FOLDER/NAME-N.cu; on standard output there is a
 * line for each: the file, the number of pairs in it, and what they are.
 */
#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/codegen.h"
#include "schedule/schedule.h"
#include "tests/cuda_file.h"
#include "tests/example_programs.h"
#include "tests/random_program.h"
#include "tests/random_schedule.h"

enum { POINTS = 4, BATCH = 25 };

struct file {
  const char *folder, *name;
  int number; /* of files */
  struct cuda_file kernels;
  struct tt_sb what; /* they are */
};

static void
close_file(struct file *f)
{
  char path[4096];
  if (!f->kernels.n)
    return;
  snprintf(path, sizeof path, "%s/%s-%d.cu", f->folder, f->name, f->number++);
  if (!cuda_file_write(&f->kernels, path)) {
    fprintf(stderr, "cannot write %s\n", path);
    exit(1);
  }
  printf("%s %d%s\n", path, f->kernels.n, tt_sb_str(&f->what));
  cuda_file_clear(&f->kernels);
  tt_sb_clear(&f->what);
}

/* Unless it exceeds a limit of GPUs. */
static void
add(struct file *f, struct tt_arena *ar, const struct tt_schedule *s,
    const char *what)
{
  struct tt_nest nest;
  struct tt_gpu_code code;
  const char *error = NULL;
  if (s && tt_schedule_lower(ar, s, &nest, &error) &&
      !cuda_file_add(ar, &f->kernels, &nest, &code))
    tt_sb_printf(&f->what, " %s", what);
}

static void
add_examples(struct file *f)
{
  for (int i = 0; i < tt_nexamples; i++) {
    const struct example *e = &tt_examples[i];
    struct tt_arena *ar = tt_arena_new();
    /* (Some are listed for several sizes.) */
    bool again = false;
    for (int j = 0; j < i; j++)
      again |= strcmp(tt_examples[j].file, e->file) == 0;
    struct tt_program *p = tt_example_program(ar, e, !again);
    if (!p)
      exit(1);
    f->name = tt_arena_printf(ar, "%s-%d", e->file, i);
    f->number = 0;
    add(f, ar, tt_gpu_schedule(ar, p, &tt_gpu_unknown, false, true), "tiles");
    add(f, ar, tt_gpu_schedule(ar, p, &tt_gpu_unknown, false, false), "plain");
    for (uint64_t seed = 1; seed <= POINTS; seed++)
      add(f, ar, tt_random_gpu_point(ar, p, seed, false),
          tt_arena_printf(ar, "point%d", (int)seed));
    close_file(f);
    tt_arena_free(ar);
  }
}

/* (Schedules that exceed a limit of GPUs don't count.) */
static void
add_random(struct file *f, uint64_t first, uint64_t count)
{
  uint64_t written = 0;
  f->name = "random";
  f->number = (int)(first / BATCH);
  for (uint64_t i = first; written < count; i++) {
    int before = f->kernels.n;
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p = tt_random_program(ar, i);
    const struct tt_schedule *s =
        i % 3 ? tt_random_schedule(ar, p, 7 * i + 5, 4 + (int)(i % 30), false)
              : tt_random_gpu_point(ar, p, i, false);
    add(f, ar, s, tt_arena_printf(ar, "%d", (int)i));
    written += f->kernels.n > before;
    if (f->kernels.n == BATCH)
      close_file(f);
    tt_arena_free(ar);
  }
  close_file(f);
}

int
main(int argc, char **argv)
{
  struct file f = {.folder = argc > 1 ? argv[1] : NULL};
  if (argc == 3 && strcmp(argv[2], "examples") == 0) {
    add_examples(&f);
  } else if (argc == 5 && strcmp(argv[2], "random") == 0) {
    add_random(&f, strtoull(argv[3], NULL, 10), strtoull(argv[4], NULL, 10));
  } else {
    fprintf(stderr, "gpu_kernels FOLDER examples|random FIRST COUNT\n");
    return 2;
  }
  cuda_file_clear(&f.kernels);
  tt_sb_free(&f.what);
  return 0;
}
