/* See gpu_made.h. */
#include "config.h"

#include "tests/gpu_made.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

bool
gpu_made(struct tt_arena *ar, const struct tt_nest *nest,
         enum tt_gpu_language language, struct gpu_made *out)
{
  struct tt_codegen_options *o = TT_NEW(ar, struct tt_codegen_options);
  *o = tt_gpu_options(language);
  struct pass p = {.arena = ar, .options = o, .nextvar = tt_next_var(nest)};
  const char *error = tt_gpu_make(&p, nest->body, &out->nest);
  if (error && (strstr(error, "GPU") || strstr(error, " dimension ")))
    return false;
  if (error)
    fail_msg("%s", error);
  out->barriers = TT_ARRAY(ar, struct gpu_barriers, (size_t)out->nest.n + 1);
  for (int i = 0; i < out->nest.n; i++)
    tt_gpu_barriers(ar, out->nest.kernels[i].body, &out->barriers[i]);
  return true;
}

void
gpu_made_free(struct gpu_made *m)
{
  for (int i = 0; i < m->nest.n; i++)
    free(m->barriers[i].items);
}

const char *
gpu_check_barriers(struct tt_arena *ar, const struct gpu_made *m)
{
  const char *error = NULL;
  for (int i = 0; i < m->nest.n && !error; i++) {
    const struct gpu_kernel *k = &m->nest.kernels[i];
    const struct gpu_barriers *b = &m->barriers[i];
    error = gpu_races(ar, k, b);
    if (error && (strstr(error, "follow") || strstr(error, "know")))
      return NULL; /* (an index that is read) */
    if (!tt_gpu_barriers_suffice(ar, k->body, b, NULL))
      error = "a place to wait is missing";
    for (int j = 0; j < b->n && !error; j++)
      if (tt_gpu_barriers_suffice(ar, k->body, b, &b->items[j]))
        error = "threads wait without need";
  }
  return error;
}

static const struct tt_stmt *
main_loop(const struct tt_stmt *s)
{
  if (s->kind == TT_FOR && s->for_kind == TT_SERIAL &&
      tt_gpu_has(s, TT_THREAD_X, TT_THREAD_Z))
    return s;
  if (s->kind == TT_FOR || s->kind == TT_ALLOC)
    return main_loop(s->body);
  for (int i = 0; s->kind == TT_SEQ && i < s->nitems; i++) {
    const struct tt_stmt *r = main_loop(s->items[i]);
    if (r)
      return r;
  }
  return NULL;
}

struct inside {
  const struct gpu_barriers *b;
  int n;
};

static void
count_inside(void *ctx, const struct tt_stmt *s)
{
  struct inside *in = ctx;
  for (int i = 0; i < in->b->n; i++)
    in->n += in->b->items[i].before == s;
}

int
gpu_waits_in_loop(const struct gpu_made *m)
{
  const struct tt_stmt *s = main_loop(m->nest.kernels[0].body);
  struct inside in = {&m->barriers[0], 0};
  if (s)
    tt_walk(s->body, count_inside, &in);
  return in.n;
}

struct shared {
  const char *name;
  const struct tt_tensor *tensor;
};

static void
find_shared(void *ctx, const struct tt_stmt *s)
{
  struct shared *f = ctx;
  if (s->kind == TT_ALLOC && s->tensor->scope == TT_SHARED &&
      strcmp(s->tensor->name, f->name) == 0)
    f->tensor = s->tensor;
}

const struct tt_tensor *
gpu_shared_tensor(const struct gpu_made *m, const char *name)
{
  struct shared f = {name, NULL};
  tt_walk(m->nest.kernels[0].body, find_shared, &f);
  return f.tensor;
}
