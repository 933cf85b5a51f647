/* Owns the lists of devices, and the child that makes it: this very
 * program, started again with a hidden first argument.  What a driver prints
 * beside the lines of the protocol is skipped. */
#include "config.h"

#include "runtime/device.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/opencl.h"
#include "runtime/process.h"
#include "runtime/protocol.h"

#define LIST_TIMEOUT 60.0 /* seconds: some drivers compile when they start */
#define MAX_OUTPUT ((size_t)1 << 20)

/* ---- the child --------------------------------------------------------- */

static void
put_device(const struct tt_device *d, struct tt_sb *out)
{
  char name[400], driver[400];
  tt_line_add(out,
              "device name=%s driver=%s cpu=%d units=%lld threads=%lld "
              "x=%lld y=%lld z=%lld shared=%lld scratchpad=%d memory=%lld "
              "warp=%lld lanes=%lld sm=%d",
              tt_line_quote(d->name, name, sizeof name),
              tt_line_quote(d->driver, driver, sizeof driver), d->cpu,
              (long long)d->units, (long long)d->threads,
              (long long)d->items[0], (long long)d->items[1],
              (long long)d->items[2], (long long)d->shared, d->scratchpad,
              (long long)d->memory, (long long)d->warp, (long long)d->lanes,
              d->sm);
}

int
tt_device_main(int argc, char **argv)
{
  struct tt_device devices[TT_MAX_DEVICES];
  struct tt_sb out = {0};
  char message[256], quoted[768];
  if (argc != 3 || strcmp(argv[1], "--tt-devices"))
    return -1;
  int n = (strcmp(argv[2], "cuda") == 0 ? tt_cuda_list : tt_cl_list)(
      devices, TT_MAX_DEVICES, message, sizeof message);
  for (int i = 0; i < n; i++)
    put_device(&devices[i], &out);
  if (n < 0)
    tt_line_add(&out, "none why=%s",
                tt_line_quote(message, quoted, sizeof quoted));
  fwrite(tt_sb_str(&out), 1, out.len, stdout);
  fflush(stdout);
  tt_sb_free(&out);
  _exit(0); /* no driver needs to clean up */
}

/* ---- its caller -------------------------------------------------------- */

static bool
take_device(const char *line, struct tt_device *d)
{
  int64_t cpu, scratchpad, sm;
  memset(d, 0, sizeof *d);
  bool ok =
      tt_line_get(line, "name", d->name, sizeof d->name) &&
      tt_line_get(line, "driver", d->driver, sizeof d->driver) &&
      tt_line_int(line, "cpu", &cpu) && tt_line_int(line, "units", &d->units) &&
      tt_line_int(line, "threads", &d->threads) &&
      tt_line_int(line, "x", &d->items[0]) &&
      tt_line_int(line, "y", &d->items[1]) &&
      tt_line_int(line, "z", &d->items[2]) &&
      tt_line_int(line, "shared", &d->shared) &&
      tt_line_int(line, "scratchpad", &scratchpad) &&
      tt_line_int(line, "memory", &d->memory) &&
      tt_line_int(line, "warp", &d->warp) &&
      tt_line_int(line, "lanes", &d->lanes) && tt_line_int(line, "sm", &sm);
  if (!ok)
    return false;
  d->cpu = cpu != 0;
  d->scratchpad = scratchpad != 0;
  d->sm = (int)sm;
  return true;
}

/* How many devices the lines are of; -1: *error. */
static int
take_lines(struct tt_sb *text, struct tt_device *out, int max, char **error)
{
  char word[16], why[256];
  size_t pos = 0;
  int n = 0;
  for (char *line; (line = tt_line_next(text, &pos));) {
    const char *t = tt_line_check(line);
    if (!t || !tt_line_word(t, 0, word, sizeof word))
      continue;
    if (!strcmp(word, "none") && tt_line_get(t, "why", why, sizeof why)) {
      *error = tt_format("%s", why);
      return -1;
    }
    n += !strcmp(word, "device") && n < max && take_device(t, &out[n]);
  }
  return n;
}

int
tt_devices(bool cuda, struct tt_device *out, int max, char **error)
{
  char self[PATH_MAX], how[96];
  ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
  self[length > 0 ? length : 0] = 0;
  const char *argv[] = {length > 0 ? self : "/proc/self/exe", "--tt-devices",
                        cuda ? "cuda" : "opencl", NULL};
  struct tt_process_options o = {.argv = argv,
                                 .timeout = LIST_TIMEOUT,
                                 .max_output = MAX_OUTPUT,
                                 .pass_fd = -1};
  const char *library = cuda ? "CUDA" : "OpenCL";
  *error = NULL;
  struct tt_process *p = tt_process_run(&o, error);
  if (!p)
    return -1;
  int n = take_lines(&p->out, out, max, error);
  if (n == 0) {
    tt_process_describe(p, how, sizeof how);
    *error = p->timed_out
                 ? tt_format("%s hangs when its devices are asked for", library)
                 : tt_format("%s fails when its devices are asked for: %s",
                             library, how);
    n = -1;
  }
  tt_process_free(p);
  return n;
}
