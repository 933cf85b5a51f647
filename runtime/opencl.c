/* The driver of OpenCL devices, in a child that ends soon: nothing is given
 * back before.
 *
 * Invariant: buffers lie between zones of a pattern, so that a kernel that
 * writes outside of one is caught.
 */
#include "config.h"

#include "runtime/opencl.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "runtime/clapi.h"
#include "runtime/process.h"
#include "runtime/protocol.h"

enum {
  ZONE = 4096, /* bytes before and behind a buffer; any alignment fits */
  FILL = 0xa5,
  MAX_KERNELS = 256,
  MAX_ARGS = 258
};

struct kernel {
  clhandle handle;
  bool prepare;
  size_t global[3], local[3];
  int nargs, args[MAX_ARGS];
};

struct buffer {
  clhandle all, inside;
  size_t bytes;
};

struct tt_cl {
  struct cl_api api;
  clhandle device, context, queue, program;
  int nkernels;
  struct kernel kernels[MAX_KERNELS];
  TT_VEC(struct buffer) buffers;
  double seconds;
  char error[128];
};

__attribute__((format(printf, 3, 4))) static bool
fail(char *message, size_t size, const char *fmt, ...)
{
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(message, size, fmt, ap);
  va_end(ap);
  return false;
}

/* ---- the library ------------------------------------------------------- */

static bool
load_api(struct cl_api *api, char *message, size_t size)
{
  void *lib = dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!lib)
    return fail(message, size, "there is no OpenCL here: %s", dlerror());
  void *f;
#define LOAD(result, name, params)                                             \
  if (!(f = dlsym(lib, #name)))                                                \
    return fail(message, size, "libOpenCL has no %s", #name);                  \
  memcpy(&api->name, &f, sizeof f);
  TT_CL_FUNCTIONS(LOAD)
#undef LOAD
  return true;
}

static int
list_handles(const struct cl_api *api, clhandle *out, int max)
{
  clhandle platforms[16];
  uint32_t np = 0, nd;
  int n = 0;
  if (api->clGetPlatformIDs(16, platforms, &np) != CL_SUCCESS_)
    return 0;
  for (uint32_t i = 0; i < np && i < 16 && n < max; i++) {
    nd = 0;
    if (api->clGetDeviceIDs(platforms[i], CL_DEVICE_ALL_, (uint32_t)(max - n),
                            out + n, &nd) == CL_SUCCESS_)
      n += (int)nd < max - n ? (int)nd : max - n;
  }
  return n;
}

/* ---- what devices are -------------------------------------------------- */

static int64_t
number(const struct cl_api *api, clhandle d, uint32_t what, size_t bytes)
{
  uint64_t wide = 0;
  uint32_t narrow = 0;
  void *to = bytes == 8 ? (void *)&wide : &narrow;
  if (api->clGetDeviceInfo(d, what, bytes, to, NULL) != CL_SUCCESS_)
    return 0;
  return bytes == 8 ? (int64_t)wide : (int64_t)narrow;
}

static void
text(const struct cl_api *api, clhandle d, uint32_t what, char *out,
     size_t size)
{
  char all[1024] = "";
  api->clGetDeviceInfo(d, what, sizeof all - 1, all, NULL);
  const char *s = all + strspn(all, " ");
  size_t n = strlen(s);
  while (n > 0 && s[n - 1] == ' ')
    n--;
  snprintf(out, size, "%.*s", (int)n, s);
}

/* Only extensions tell; most others have 32. */
static int64_t
warp(const struct cl_api *api, clhandle d)
{
  int64_t n = number(api, d, CL_DEVICE_WARP_NV_, 4);
  if (!n)
    n = number(api, d, CL_DEVICE_WAVEFRONT_AMD_, 4);
  return n ? n : 32;
}

static void
describe(const struct cl_api *api, clhandle d, struct tt_device *out)
{
  size_t items[8] = {1, 1, 1};
  memset(out, 0, sizeof *out);
  text(api, d, CL_DEVICE_NAME_, out->name, sizeof out->name);
  text(api, d, CL_DRIVER_VERSION_, out->driver, sizeof out->driver);
  out->cpu = number(api, d, CL_DEVICE_TYPE_, 8) & CL_DEVICE_CPU_;
  out->units = number(api, d, CL_DEVICE_UNITS_, 4);
  out->warp = warp(api, d);
  out->threads = number(api, d, CL_DEVICE_GROUP_, sizeof(size_t));
  out->shared = number(api, d, CL_DEVICE_LOCAL_, 8);
  out->scratchpad = number(api, d, CL_DEVICE_LOCAL_TYPE_, 4) == 1;
  out->memory = number(api, d, CL_DEVICE_MEMORY_, 8);
  out->lanes = number(api, d, CL_DEVICE_FLOATS_, 4);
  api->clGetDeviceInfo(d, CL_DEVICE_ITEMS_, sizeof items, items, NULL);
  for (int i = 0; i < 3; i++)
    out->items[i] = (int64_t)items[i];
}

int
tt_cl_list(struct tt_device *out, int max, char *message, size_t size)
{
  struct cl_api api;
  clhandle handles[TT_MAX_DEVICES];
  if (!load_api(&api, message, size))
    return -1;
  int n =
      list_handles(&api, handles, max < TT_MAX_DEVICES ? max : TT_MAX_DEVICES);
  for (int i = 0; i < n; i++)
    describe(&api, handles[i], &out[i]);
  if (n == 0)
    fail(message, size,
         "OpenCL has no device here (Debian's pocl-opencl-icd is one on the "
         "CPU)");
  return n ? n : -1;
}

/* ---- a file of kernels ------------------------------------------------- */

static bool
read_sizes(const char *line, const char *key, size_t *out)
{
  double v[3];
  if (tt_line_floats(line, key, v, 3) != 3)
    return false;
  for (int i = 0; i < 3; i++)
    out[i] = (size_t)v[i];
  return true;
}

static bool
read_kernel(struct tt_cl *cl, const char *line)
{
  char name[256];
  double args[MAX_ARGS];
  int64_t prepare;
  int32_t status;
  if (cl->nkernels == MAX_KERNELS ||
      !tt_line_get(line, "name", name, sizeof name) ||
      !tt_line_int(line, "prepare", &prepare))
    return false;
  struct kernel *k = &cl->kernels[cl->nkernels++];
  if (!read_sizes(line, "global", k->global) ||
      !read_sizes(line, "local", k->local))
    return false;
  k->prepare = prepare != 0;
  k->nargs = tt_line_floats(line, "args", args, MAX_ARGS);
  for (int i = 0; i < k->nargs; i++)
    k->args[i] = (int)args[i];
  k->handle = cl->api.clCreateKernel(cl->program, name, &status);
  return status == CL_SUCCESS_;
}

static bool
build(struct tt_cl *cl, const char *source, char *message, size_t size)
{
  int32_t status;
  static char log[1 << 14];
  cl->program =
      cl->api.clCreateProgramWithSource(cl->context, 1, &source, NULL, &status);
  if (status == CL_SUCCESS_)
    status = cl->api.clBuildProgram(cl->program, 1, &cl->device,
                                    "-cl-std=CL1.2", NULL, NULL);
  if (status == CL_SUCCESS_)
    return true;
  if (cl->program)
    cl->api.clGetProgramBuildInfo(cl->program, cl->device, CL_BUILD_LOG_,
                                  sizeof log - 1, log, NULL);
  const char *line = log + strspn(log, "\n ");
  return fail(message, size, "the driver refuses it (error %d)%s%.*s", status,
              *line ? ": " : "", (int)strcspn(line, "\n"), line);
}

static bool
open_device(struct tt_cl *cl, int device, char *message, size_t size)
{
  clhandle handles[TT_MAX_DEVICES];
  int32_t status;
  if (!load_api(&cl->api, message, size))
    return false;
  if (device < 0 || device >= list_handles(&cl->api, handles, TT_MAX_DEVICES))
    return fail(message, size, "device %d is gone", device);
  cl->device = handles[device];
  cl->context =
      cl->api.clCreateContext(NULL, 1, &cl->device, NULL, NULL, &status);
  if (status == CL_SUCCESS_)
    cl->queue = cl->api.clCreateCommandQueue(cl->context, cl->device,
                                             CL_QUEUE_PROFILING_, &status);
  return status == CL_SUCCESS_ ||
         fail(message, size, "the device cannot be opened (error %d)", status);
}

static bool
read_whole(const char *path, struct tt_sb *out)
{
  char piece[4096];
  FILE *f = fopen(path, "re");
  size_t n;
  while (f && (n = fread(piece, 1, sizeof piece, f)) > 0)
    tt_sb_addn(out, piece, n);
  bool ok = f && !ferror(f);
  if (f)
    fclose(f);
  return ok;
}

/* The source is built before the lines about its kernels are read. */
static bool
load(struct tt_cl *cl, struct tt_sb *file, char *message, size_t size)
{
  static const char mark[] = "@tt source";
  char *source = strstr(tt_sb_str(file), mark);
  char *end = source ? strchr(source, '\n') : NULL;
  size_t pos = 0;
  if (!end)
    return fail(message, size, "it is no file of kernels");
  if (!build(cl, end + 1, message, size))
    return false;
  for (char *line;
       pos < (size_t)(source - file->s) && (line = tt_line_next(file, &pos));) {
    const char *t = tt_line_check(line);
    if (!t || !read_kernel(cl, t))
      return fail(message, size, "a kernel of the file cannot be made");
  }
  return true;
}

struct tt_cl *
tt_cl_load(int device, const char *path, char *message, size_t size)
{
  struct tt_cl *cl = tt_xmalloc(sizeof *cl);
  struct tt_sb file = {0};
  memset(cl, 0, sizeof *cl);
  bool ok = read_whole(path, &file) ||
            fail(message, size, "the file of kernels cannot be read");
  ok = ok && open_device(cl, device, message, size) &&
       load(cl, &file, message, size);
  tt_sb_free(&file);
  if (ok)
    return cl;
  free(cl);
  return NULL;
}

/* ---- buffers ----------------------------------------------------------- */

static bool
called(struct tt_cl *cl, int32_t status, const char *what)
{
  if (status != CL_SUCCESS_ && !cl->error[0])
    snprintf(cl->error, sizeof cl->error, "%s: OpenCL error %d", what, status);
  return status == CL_SUCCESS_;
}

bool
tt_cl_buffer(struct tt_cl *cl, int64_t bytes, const void *data, char *message,
             size_t size)
{
  int32_t status;
  struct buffer b = {.bytes = bytes > 0 ? (size_t)bytes : 1};
  size_t inside = (b.bytes + ZONE - 1) / ZONE * ZONE, all = inside + 2 * ZONE;
  unsigned char *image = malloc(all);
  if (!image)
    return fail(message, size, "no memory for a buffer");
  memset(image, FILL, all);
  if (data && bytes > 0)
    memcpy(image + ZONE, data, b.bytes);
  else
    memset(image + ZONE, 0xff, b.bytes);
  b.all = cl->api.clCreateBuffer(cl->context,
                                 CL_MEM_READ_WRITE_ | CL_MEM_COPY_HOST_PTR_,
                                 all, image, &status);
  free(image);
  struct cl_region_ region = {ZONE, b.bytes};
  if (status == CL_SUCCESS_)
    b.inside = cl->api.clCreateSubBuffer(b.all, CL_MEM_READ_WRITE_,
                                         CL_BUFFER_REGION_, &region, &status);
  if (status != CL_SUCCESS_)
    return fail(message, size,
                "no memory for %lld bytes on the device (error "
                "%d)",
                (long long)bytes, status);
  TT_PUSH(cl->buffers, b);
  return true;
}

bool
tt_cl_write(struct tt_cl *cl, int buffer, const void *data)
{
  const struct buffer *b = &cl->buffers.items[buffer];
  return called(cl,
                cl->api.clEnqueueWriteBuffer(cl->queue, b->all, 1, ZONE,
                                             b->bytes, data, 0, NULL, NULL),
                "writing a buffer");
}

bool
tt_cl_read(struct tt_cl *cl, int buffer, void *data)
{
  const struct buffer *b = &cl->buffers.items[buffer];
  return called(cl,
                cl->api.clEnqueueReadBuffer(cl->queue, b->all, 1, ZONE,
                                            b->bytes, data, 0, NULL, NULL),
                "reading a buffer");
}

bool
tt_cl_intact(struct tt_cl *cl, int buffer)
{
  const struct buffer *b = &cl->buffers.items[buffer];
  unsigned char zone[ZONE];
  size_t inside = (b->bytes + ZONE - 1) / ZONE * ZONE;
  size_t behind = ZONE + inside - b->bytes; /* with what rounds it up */
  for (int part = 0; part < 2; part++) {
    size_t n = part == 0 ? ZONE : behind < ZONE ? behind : ZONE;
    size_t from = part == 0 ? 0 : ZONE + b->bytes;
    if (!called(cl,
                cl->api.clEnqueueReadBuffer(cl->queue, b->all, 1, from, n, zone,
                                            0, NULL, NULL),
                "reading a buffer"))
      return false;
    for (size_t i = 0; i < n; i++)
      if (zone[i] != FILL)
        return false;
  }
  return true;
}

/* ---- running ----------------------------------------------------------- */

static bool
start(struct tt_cl *cl, const struct kernel *k, clhandle *event)
{
  for (int i = 0; i < k->nargs; i++)
    if (k->args[i] < 0 || k->args[i] >= cl->buffers.n ||
        !called(cl,
                cl->api.clSetKernelArg(k->handle, (uint32_t)i, sizeof(clhandle),
                                       &cl->buffers.items[k->args[i]].inside),
                "an argument"))
      return false;
  return called(cl,
                cl->api.clEnqueueNDRangeKernel(cl->queue, k->handle, 3, NULL,
                                               k->global, k->local, 0, NULL,
                                               event),
                "starting a kernel");
}

/* From the start of the first kernel to the end of the last. */
static double
took(struct tt_cl *cl, int n, clhandle *events)
{
  uint64_t from = 0, to = 0;
  if (cl->api.clGetEventProfilingInfo(events[0], CL_PROFILING_START_,
                                      sizeof from, &from,
                                      NULL) != CL_SUCCESS_ ||
      cl->api.clGetEventProfilingInfo(events[n - 1], CL_PROFILING_END_,
                                      sizeof to, &to, NULL) != CL_SUCCESS_)
    return 0;
  return to > from ? (double)(to - from) * 1e-9 : 0;
}

bool
tt_cl_run(struct tt_cl *cl, bool prepare)
{
  clhandle events[MAX_KERNELS];
  int n = 0;
  double began = tt_now();
  for (int i = 0; i < cl->nkernels; i++)
    if (cl->kernels[i].prepare == prepare &&
        !start(cl, &cl->kernels[i], &events[n++]))
      return false;
  if (!called(cl, cl->api.clFinish(cl->queue), "waiting for a kernel"))
    return false;
  if (n == 0)
    return true;
  double seconds = took(cl, n, events);
  /* A device without a clock is timed from outside. */
  cl->seconds += seconds > 0 ? seconds : tt_now() - began;
  for (int i = 0; i < n; i++)
    cl->api.clReleaseEvent(events[i]);
  return true;
}

double
tt_cl_seconds(const struct tt_cl *cl)
{
  return cl->seconds;
}

const char *
tt_cl_error(const struct tt_cl *cl)
{
  return cl->error;
}
