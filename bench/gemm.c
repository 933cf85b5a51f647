/* Times a generated f32 matrix product beside the BLAS libraries that are
 * present, all in turns in one run, and prints ratios.
 *
 *   gemm KERNEL.so NAME M N K transposed(0|1)
 *
 * The kernel is `void NAME(const float *A, const float *B, float *C)`; A is
 * K x M when transposed. Libraries are loaded by name, each for itself, so
 * that their equal symbols do not meet.
 */
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef void kernel_fn(const float *, const float *, float *);
typedef void sgemm_fn(int, int, int, int, int, int, float, const float *, int,
                      const float *, int, float, float *, int);

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112, ROUNDS = 15 };

struct peer {
  const char *name;
  const char *files[3];
  sgemm_fn *sgemm;
  double best;
};

static double
now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static float *
matrix(size_t n)
{
  float *p = aligned_alloc(64, (n * sizeof *p + 63) / 64 * 64);
  if (!p) {
    fprintf(stderr, "gemm: out of memory\n");
    exit(1);
  }
  for (size_t i = 0; i < n; i++)
    p[i] = (float)(rand() % 256 - 128) / 64;
  return p;
}

static void *
load(const char *file)
{
  return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

int
main(int argc, char **argv)
{
  if (argc != 7) {
    fprintf(stderr, "usage: gemm KERNEL.so NAME M N K transposed\n");
    return 2;
  }
  int m = atoi(argv[3]), n = atoi(argv[4]), k = atoi(argv[5]);
  int t = atoi(argv[6]);
  void *lib = load(argv[1]);
  kernel_fn *kernel = lib ? (kernel_fn *)dlsym(lib, argv[2]) : NULL;
  if (!kernel) {
    fprintf(stderr, "gemm: %s\n", dlerror());
    return 1;
  }
  struct peer peers[] = {
      {"OpenBLAS", {"libopenblas.so.0", "libopenblas.so", NULL}, NULL, 1e30},
      {"BLIS", {"libblis.so.4", "libblis.so.3", "libblis.so"}, NULL, 1e30},
  };
  enum { NPEERS = sizeof peers / sizeof peers[0] };
  for (int i = 0; i < NPEERS; i++)
    for (int f = 0; f < 3 && !peers[i].sgemm && peers[i].files[f]; f++) {
      void *h = load(peers[i].files[f]);
      if (h)
        peers[i].sgemm = (sgemm_fn *)dlsym(h, "cblas_sgemm");
    }
  float *a = matrix((size_t)m * k), *b = matrix((size_t)k * n),
        *c = matrix((size_t)m * n), *d = matrix((size_t)m * n);
  double best = 1e30, error = 0;
  for (int r = 0; r < ROUNDS; r++) {
    double start = now();
    kernel(a, b, c);
    double s = now() - start;
    best = s < best ? s : best;
    for (int i = 0; i < NPEERS; i++) {
      if (!peers[i].sgemm)
        continue;
      start = now();
      peers[i].sgemm(ROW_MAJOR, t ? TRANS : NO_TRANS, NO_TRANS, m, n, k, 1, a,
                     t ? m : k, b, n, 0, d, n);
      s = now() - start;
      peers[i].best = s < peers[i].best ? s : peers[i].best;
      for (size_t e = 0; r == 0 && e < (size_t)m * n; e++)
        error = fmax(error, fabs((double)c[e] - d[e]));
    }
  }
  double flops = 2.0 * m * n * k;
  printf("%dx%dx%d%s: %.1f GFLOP/s", m, n, k, t ? " (A transposed)" : "",
         flops / best * 1e-9);
  for (int i = 0; i < NPEERS; i++)
    if (peers[i].sgemm)
      printf(", %.2f of %s (%.1f)", peers[i].best / best, peers[i].name,
             flops / peers[i].best * 1e-9);
    else
      printf(", no %s here", peers[i].name);
  printf(", difference %.2g\n", error);
  return 0;
}
