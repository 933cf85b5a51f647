/* Devices of a run: which one candidates run on, and what is known of it.
 * Where nothing is measured a device is asked for only if one was named.
 */
#include "config.h"

#include "tuner/job.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/report.h"
#include "tuner/ui.h"

enum { SHARED = 48 << 10, THREADS = 1024 }; /* of any GPU */

/* ---- the list ---------------------------------------------------------- */

static void
print_device(int number, const struct tt_device *d)
{
  printf("  %d  %s (%s)\n     %s, %lld processor%s, %lld MiB; blocks of up to "
         "%lld threads share %lld KiB\n",
         number, d->name, d->driver, d->cpu ? "CPU" : "GPU",
         (long long)d->units, d->units == 1 ? "" : "s",
         (long long)(d->memory >> 20), (long long)d->threads,
         (long long)(d->shared >> 10));
}

/* false: there is none. */
static bool
print_list(struct tt_arena *arena, bool cuda, const char **why)
{
  struct tt_device *devices = TT_ARRAY(arena, struct tt_device, TT_MAX_DEVICES);
  char *error = NULL;
  int n = tt_devices(cuda, devices, TT_MAX_DEVICES, &error);
  if (n > 0)
    printf("%s\n", cuda ? "CUDA, for -o FILE.cu:" : "OpenCL, for -o FILE.cl:");
  for (int i = 0; i < n; i++)
    print_device(i, &devices[i]);
  if (error)
    *why = tt_arena_printf(arena, "%s%s%s", *why ? *why : "", *why ? "; " : "",
                           error);
  free(error);
  return n > 0;
}

enum tt_exit
tt_job_list_devices(struct tt_arena *arena, const struct tt_options *o)
{
  enum tt_language language = tt_options_language(o);
  const char *why = NULL;
  bool any = false;
  if (language != TT_LANGUAGE_CUDA)
    any |= print_list(arena, false, &why);
  if (language != TT_LANGUAGE_OPENCL)
    any |= print_list(arena, true, &why);
  fflush(stdout);
  return any ? TT_EXIT_DONE : tt_fail(TT_EXIT_TOOLCHAIN, why);
}

/* ---- the choice -------------------------------------------------------- */

static bool
contains(const char *text, const char *part)
{
  size_t n = strlen(part);
  for (; *text; text++) {
    size_t i = 0;
    while (i < n &&
           tolower((unsigned char)text[i]) == tolower((unsigned char)part[i]))
      i++;
    if (i == n)
      return true;
  }
  return false;
}

/* The number of the device that is wanted: by number, by a part of its name,
 * or the first GPU, else the first of all; -1: none. */
static int
choose(const char *wanted, int n, const struct tt_device *devices)
{
  if (wanted && wanted[strspn(wanted, "0123456789")] == '\0')
    return strlen(wanted) < 4 && atoi(wanted) < n ? atoi(wanted) : -1;
  for (int i = 0; i < n; i++)
    if (wanted ? contains(devices[i].name, wanted) : !devices[i].cpu)
      return i;
  return wanted ? -1 : 0;
}

static void
set_limits(struct tt_job *job, const struct tt_device *d, bool cuda)
{
  struct tt_gpu_limits *g = &job->model.gpu;
  *g = (struct tt_gpu_limits){
      .cpu = d->cpu,
      .vectors = !cuda,
      .lanes = cuda || !d->cpu ? 1 : (int)d->lanes,
      .units = d->units > 0 ? d->units : 1,
      .warp = d->warp > 0 ? d->warp : 1,
      .threads = d->threads < THREADS ? d->threads : THREADS,
      .shared = cuda || d->shared < SHARED ? d->shared : SHARED,
      .scratchpad = d->scratchpad && !d->cpu,
      .registers = 255,
      .arch = job->sm,
  };
  for (int i = 0; i < 3; i++)
    g->items[i] = d->items[i];
}

/* Where no device is asked for: what is known of the architecture. */
static void
assume_limits(struct tt_job *job, bool cuda)
{
  struct tt_gpu_limits *g = &job->model.gpu;
  *g = tt_gpu_unknown;
  g->vectors = !cuda;
  g->arch = job->sm;
  if (!job->sm)
    return;
  const struct tt_device d = tt_cuda_typical(job->sm);
  g->units = d.units;
  g->shared = d.shared;
  tt_detail(job, "device", tt_arena_printf(job->arena, "as %s has", d.name));
}

enum tt_exit
tt_job_find_device(struct tt_job *job)
{
  const struct tt_options *o = job->options;
  bool cuda = tt_options_language(o) == TT_LANGUAGE_CUDA;
  char *error = NULL;
  job->sm = (int)(o->target.sm > 0 ? o->target.sm : 0);
  if (tt_options_search(o) || (o->device && o->output && !o->check)) {
    struct tt_device *all =
        TT_ARRAY(job->arena, struct tt_device, TT_MAX_DEVICES);
    int n = tt_devices(cuda, all, TT_MAX_DEVICES, &error);
    if (n < 1) {
      const char *text = tt_arena_printf(
          job->arena, "%s%s", error,
          tt_options_search(o) ? "; nothing can be measured (--trials=0 takes "
                                 "the default schedule)"
                               : "");
      free(error);
      return tt_fail(TT_EXIT_TOOLCHAIN, text);
    }
    job->device = choose(o->device, n, all);
    if (job->device < 0)
      return tt_fail(TT_EXIT_USAGE,
                     tt_arena_printf(job->arena,
                                     "there is no device '%s'; --device=list "
                                     "shows them",
                                     o->device));
    const struct tt_device *d = &all[job->device];
    job->sm = job->sm ? job->sm : d->sm;
    job->target = tt_arena_printf(job->arena, "%s (%s)", d->name, d->driver);
    tt_detail(job, "device", job->target);
    set_limits(job, d, cuda);
  } else {
    assume_limits(job, cuda);
  }
  if (o->target.processors > 0)
    job->model.gpu.units = o->target.processors;
  if (o->target.shared > 0)
    job->model.gpu.shared = o->target.shared;
  return TT_EXIT_DONE;
}
