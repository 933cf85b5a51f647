/* The list of CUDA's devices, from the driver's library. */
#include "config.h"

#include "runtime/opencl.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* Numbers of cuDeviceGetAttribute(). */
enum {
  THREADS = 1,
  THREADS_X = 2,
  SHARED = 8,
  WARP = 10,
  UNITS = 16,
  MAJOR = 75,
  MINOR = 76,
  SHARED_ASKED_FOR = 97
};

struct cuda_api {
  int (*init)(unsigned);
  int (*version)(int *);
  int (*count)(int *);
  int (*name)(char *, int, int);
  int (*memory)(size_t *, int);
  int (*attribute)(int *, int, int);
};

static int
fail(char *message, size_t size, const char *what)
{
  snprintf(message, size, "there is no CUDA device here: %s", what);
  return -1;
}

static bool
load(struct cuda_api *api)
{
  void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  static const char *const names[] = {
      "cuInit",          "cuDriverGetVersion",  "cuDeviceGetCount",
      "cuDeviceGetName", "cuDeviceTotalMem_v2", "cuDeviceGetAttribute"};
  void *f[6];
  for (int i = 0; i < 6; i++)
    if (!lib || !(f[i] = dlsym(lib, names[i])))
      return false;
  memcpy(&api->init, &f[0], sizeof f[0]);
  memcpy(&api->version, &f[1], sizeof f[1]);
  memcpy(&api->count, &f[2], sizeof f[2]);
  memcpy(&api->name, &f[3], sizeof f[3]);
  memcpy(&api->memory, &f[4], sizeof f[4]);
  memcpy(&api->attribute, &f[5], sizeof f[5]);
  return true;
}

static int64_t
attribute(const struct cuda_api *api, int what, int device)
{
  int v = 0;
  return api->attribute(&v, what, device) == 0 ? v : 0;
}

static void
describe(const struct cuda_api *api, int i, struct tt_device *d)
{
  size_t memory = 0;
  int version = 0;
  memset(d, 0, sizeof *d);
  api->name(d->name, (int)sizeof d->name - 1, i);
  api->version(&version);
  api->memory(&memory, i);
  snprintf(d->driver, sizeof d->driver, "CUDA %d.%d", version / 1000,
           version % 1000 / 10);
  d->units = attribute(api, UNITS, i);
  d->warp = attribute(api, WARP, i);
  d->threads = attribute(api, THREADS, i);
  for (int k = 0; k < 3; k++)
    d->items[k] = attribute(api, THREADS_X + k, i);
  d->shared = attribute(api, SHARED_ASKED_FOR, i);
  if (!d->shared)
    d->shared = attribute(api, SHARED, i);
  d->scratchpad = true;
  d->memory = (int64_t)memory;
  d->lanes = 1;
  d->sm = (int)(10 * attribute(api, MAJOR, i) + attribute(api, MINOR, i));
}

int
tt_cuda_list(struct tt_device *out, int max, char *message, size_t size)
{
  struct cuda_api api;
  int n = 0;
  if (!load(&api)) {
    const char *why = dlerror();
    return fail(message, size, why ? why : "libcuda is not whole");
  }
  if (api.init(0) != 0 || api.count(&n) != 0 || n < 1)
    return fail(message, size, "the driver finds none");
  n = n < max ? n : max;
  for (int i = 0; i < n; i++)
    describe(&api, i, &out[i]);
  return n;
}
