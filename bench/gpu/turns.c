/* Kernels that tcc-tune wrote for OpenCL beside libraries, on one device, in
 * turns in one process.  bench/gpu/run compiles this for a work:
 *
 *   -DHEADER, LAUNCH, PREPARE, KERNELS, MAKE_KERNELS, WORKSPACE, PREPARED
 *                      the header of the kernels, and its names
 *   -DSGEMM=N          products of N by N, or
 *   -DCONV=H,C,K,R,STRIDE   a convolution, channels first
 *   -DWITH_CLBLAST, -DWITH_BLAST, -DWITH_DNNL   the libraries that are there
 *
 *   turns KERNELS.cl DEVICE NAME [ROUNDS]
 *
 * A line for each contender: its rate by the wall clock, from a call to its
 * end, the median of the rounds, and how many times as fast ours is.  In a
 * round everyone has a turn of the same length, beginning with another one each
 * time.  Libraries for CPUs take part where the device is one.  All results
 * are checked at random places against sums in double precision.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include HEADER

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#ifdef WITH_CLBLAST
#include <clblast_c.h>
#endif
#ifdef WITH_BLAST
#include <cblas.h>
#endif
#ifdef WITH_DNNL
const char *bench_dnnl_open(const char *, void *const *, void **);
void bench_dnnl_call(void *);
void bench_dnnl_result(void *);
#endif

enum { MOST_ROUNDS = 101, SAMPLES = 200 };
#define TURN 0.05 /* seconds */

struct contender {
  const char *name;
  void (*call)(void);
  void (*result)(void); /* to `out` */
  double seconds[MOST_ROUNDS];
  int bad; /* results that are wrong */
};

static struct {
  cl_context context;
  cl_device_id device;
  cl_command_queue queue;
  cl_kernel kernels[KERNELS + 1];
  cl_mem in[2], out, prepared, workspace;
  int cpu;
} cl;
static float *in[2], *out;
static size_t nin[2], nout;
static double flops;

static void
need(int ok, const char *what)
{
  if (ok)
    return;
  fprintf(stderr, "%s failed\n", what);
  exit(2);
}

static double
now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- the device --------------------------------------------------------- */

static void
find_device(unsigned long n)
{
  cl_platform_id platforms[16];
  cl_device_id devices[64];
  cl_device_type type = 0;
  cl_uint np = 0, nd;
  clGetPlatformIDs(16, platforms, &np);
  for (cl_uint i = 0; i < np && i < 16; i++) {
    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 64, devices, &nd) !=
        CL_SUCCESS)
      continue;
    if (n < nd) {
      cl.device = devices[n];
      clGetDeviceInfo(cl.device, CL_DEVICE_TYPE, sizeof type, &type, NULL);
      cl.cpu = (type & CL_DEVICE_TYPE_CPU) != 0;
      return;
    }
    n -= nd;
  }
  need(0, "finding the device");
}

static cl_mem
buffer(size_t bytes, void *data)
{
  cl_int e;
  cl_mem m = clCreateBuffer(
      cl.context, CL_MEM_READ_WRITE | (data ? CL_MEM_COPY_HOST_PTR : 0),
      bytes ? bytes : 1, data, &e);
  need(e == CL_SUCCESS, "clCreateBuffer");
  return m;
}

static char *
read_file(const char *path)
{
  FILE *f = fopen(path, "rb");
  long n = f && fseek(f, 0, SEEK_END) == 0 ? ftell(f) : 0;
  char *text = calloc((size_t)n + 1, 1);
  need(n > 0 && text && fseek(f, 0, SEEK_SET) == 0 &&
           fread(text, 1, (size_t)n, f) == (size_t)n,
       "reading the kernels");
  fclose(f);
  return text;
}

static void
open_device(const char *path, unsigned long number)
{
  cl_int e;
  find_device(number);
  cl.context = clCreateContext(NULL, 1, &cl.device, NULL, NULL, &e);
  need(e == CL_SUCCESS, "clCreateContext");
  cl.queue = clCreateCommandQueue(cl.context, cl.device, 0, &e);
  need(e == CL_SUCCESS, "clCreateCommandQueue");
  const char *text = read_file(path);
  cl_program program =
      clCreateProgramWithSource(cl.context, 1, &text, NULL, &e);
  need(e == CL_SUCCESS &&
           clBuildProgram(program, 1, &cl.device, "-cl-std=CL1.2", NULL,
                          NULL) == CL_SUCCESS,
       "building the kernels");
  need(MAKE_KERNELS(program, cl.kernels) == CL_SUCCESS, "clCreateKernel");
}

/* ---- works -------------------------------------------------------------- */

#ifdef SGEMM
static void
set_sizes(void)
{
  nin[0] = nin[1] = nout = (size_t)SGEMM * SGEMM;
  flops = 2.0 * SGEMM * (double)SGEMM * SGEMM;
}

static double
element(size_t i)
{
  double sum = 0;
  for (size_t k = 0; k < SGEMM; k++)
    sum += (double)in[0][i / SGEMM * SGEMM + k] *
           (double)in[1][k * SGEMM + i % SGEMM];
  return sum;
}
#else
static const long sizes[] = {CONV};
enum { H, C, K, R, STRIDE };
static long
pad(void)
{
  return (sizes[R] - 1) / 2;
}

static long
side(void)
{
  return (sizes[H] + 2 * pad() - sizes[R]) / sizes[STRIDE] + 1;
}

static void
set_sizes(void)
{
  nin[0] = (size_t)(sizes[C] * sizes[H] * sizes[H]);
  nin[1] = (size_t)(sizes[K] * sizes[C] * sizes[R] * sizes[R]);
  nout = (size_t)(sizes[K] * side() * side());
  flops = 2.0 * (double)nout * (double)(sizes[C] * sizes[R] * sizes[R]);
}

static double
element(size_t i)
{
  long k = (long)i / (side() * side()), y = (long)i / side() % side(),
       x = (long)i % side();
  double sum = 0;
  for (long c = 0; c < sizes[C]; c++)
    for (long r = 0; r < sizes[R]; r++)
      for (long s = 0; s < sizes[R]; s++) {
        long h = y * sizes[STRIDE] + r - pad(),
             w = x * sizes[STRIDE] + s - pad();
        if (h >= 0 && w >= 0 && h < sizes[H] && w < sizes[H])
          sum +=
              (double)in[0][(c * sizes[H] + h) * sizes[H] + w] *
              (double)in[1][((k * sizes[C] + c) * sizes[R] + r) * sizes[R] + s];
      }
  return sum;
}
#endif

static void
check(struct contender *c)
{
  for (size_t i = 0; i < nout; i++)
    out[i] = NAN;
  c->call();
  c->result();
  for (int s = 0; s < SAMPLES; s++) {
    size_t i = (size_t)rand() % nout;
    double want = element(i);
    c->bad += !(fabs(want - (double)out[i]) <= 1e-3 * (1 + fabs(want)));
  }
}

/* ---- ours ---------------------------------------------------------------- */

static void
call_ours(void)
{
#ifdef SGEMM
  cl_int e = LAUNCH(cl.queue, cl.kernels, cl.in[0], cl.in[1], cl.out,
                    cl.workspace, NULL);
#else
  cl_int e = LAUNCH(cl.queue, cl.kernels, cl.in[0], cl.prepared, cl.out,
                    cl.workspace, NULL);
#endif
  need(e == CL_SUCCESS && clFinish(cl.queue) == CL_SUCCESS, "our kernels");
}

static void
from_device(void)
{
  need(clEnqueueReadBuffer(cl.queue, cl.out, CL_TRUE, 0, nout * sizeof *out,
                           out, 0, NULL, NULL) == CL_SUCCESS,
       "reading results");
}

static void
set_up(const char *path, unsigned long device)
{
  open_device(path, device);
  set_sizes();
  for (int i = 0; i < 2; i++) {
    in[i] = malloc(nin[i] * sizeof *in[i]);
    need(in[i] != NULL, "memory");
    for (size_t k = 0; k < nin[i]; k++)
      in[i][k] = (float)rand() / (float)RAND_MAX - 0.5f;
    cl.in[i] = buffer(nin[i] * sizeof *in[i], in[i]);
  }
  out = malloc(nout * sizeof *out);
  need(out != NULL, "memory");
  cl.out = buffer(nout * sizeof *out, NULL);
  cl.workspace = buffer(WORKSPACE, NULL);
#ifdef CONV
  cl.prepared = buffer(PREPARED, NULL);
  need(PREPARE(cl.queue, cl.kernels, cl.in[1], cl.prepared, NULL) == CL_SUCCESS,
       "preparing weights");
#endif
}

/* ---- libraries ----------------------------------------------------------- */

#ifdef WITH_CLBLAST
static void
call_clblast(void)
{
  CLBlastStatusCode e = CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo,
                                     CLBlastTransposeNo, SGEMM, SGEMM, SGEMM, 1,
                                     cl.in[0], 0, SGEMM, cl.in[1], 0, SGEMM, 0,
                                     cl.out, 0, SGEMM, &cl.queue, NULL);
  need(e == CLBlastSuccess && clFinish(cl.queue) == CL_SUCCESS, "CLBlast");
}
#endif

static void
nothing(void)
{
}

#ifdef WITH_BLAST
static void
call_blas(void)
{
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, SGEMM, SGEMM, SGEMM, 1,
              in[0], SGEMM, in[1], SGEMM, 0, out, SGEMM);
}
#endif

#ifdef WITH_DNNL
static void *dnnl[2]; /* in the layouts given, and in its own */

static void
call_dnnl(void)
{
  bench_dnnl_call(dnnl[0]);
}

static void
call_dnnl_free(void)
{
  bench_dnnl_call(dnnl[1]);
}

static void
result_dnnl(void)
{
  bench_dnnl_result(dnnl[0]);
}

static void
result_dnnl_free(void)
{
  bench_dnnl_result(dnnl[1]);
}

static int
open_dnnl(int free)
{
  void *data[] = {in[0], in[1], out};
  char spec[200];
  snprintf(spec, sizeof spec,
           "conv %snchw direct %ld %ld %ld %ld %ld %ld 1 f32 f32 f32",
           free ? "free-" : "", sizes[H], sizes[C], sizes[K], sizes[R],
           sizes[STRIDE], pad());
  bench_dnnl_open(spec, data, &dnnl[free]);
  return dnnl[free] != NULL;
}
#endif

static int
add_libraries(struct contender *c, int n)
{
#ifdef WITH_CLBLAST
  c[n++] = (struct contender){
      .name = "CLBlast", .call = call_clblast, .result = from_device};
#endif
#ifdef WITH_BLAST
  if (cl.cpu)
    c[n++] = (struct contender){
        .name = "OpenBLAS", .call = call_blas, .result = nothing};
#endif
#ifdef WITH_DNNL
  if (cl.cpu && open_dnnl(0))
    c[n++] = (struct contender){
        .name = "oneDNN", .call = call_dnnl, .result = result_dnnl};
  if (cl.cpu && open_dnnl(1))
    c[n++] = (struct contender){.name = "oneDNN-free",
                                .call = call_dnnl_free,
                                .result = result_dnnl_free};
#endif
  (void)nothing;
  return n;
}

/* ---- turns --------------------------------------------------------------- */

static double
turn(const struct contender *c)
{
  double least = INFINITY, end = now() + TURN;
  do {
    double from = now();
    c->call();
    double t = now() - from;
    least = t < least ? t : least;
  } while (now() < end);
  return least;
}

static int
ascending(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double
median(struct contender *c, int n)
{
  qsort(c->seconds, (size_t)n, sizeof *c->seconds, ascending);
  return c->seconds[n / 2];
}

int
main(int argc, char **argv)
{
  struct contender c[8] = {
      {.name = "ours", .call = call_ours, .result = from_device}};
  int rounds = argc > 4 ? atoi(argv[4]) : 21;
  if (argc < 4 || rounds < 1 || rounds > MOST_ROUNDS) {
    fputs("turns KERNELS.cl DEVICE NAME [ROUNDS]\n", stderr);
    return 2;
  }
  set_up(argv[1], strtoul(argv[2], NULL, 10));
  int n = add_libraries(c, 1);
  for (int i = 0; i < n; i++)
    check(&c[i]);
  for (int r = 0; r < rounds; r++)
    for (int i = 0; i < n; i++) {
      int k = (r + i) % n;
      c[k].seconds[r] = turn(&c[k]);
    }
  double ours = median(&c[0], rounds);
  for (int i = 0; i < n; i++) {
    double t = i ? median(&c[i], rounds) : ours;
    printf("%-10s %-12s %10.2f %8.2f  %s\n", argv[3], c[i].name,
           flops / t * 1e-9, t / ours, c[i].bad ? "WRONG" : "ok");
  }
  return 0;
}
