/* A stand-in for CUDA's runtime: one thread after the other on the host, for
 * kernels without barriers.  Launches are LAUNCH(kernel, grid, block, args). */
#include <chrono>
#include <stdlib.h>
#include <string.h>

#define __global__
#define __device__
#define __launch_bounds__(n)

typedef int cudaError_t;
typedef void *cudaStream_t;
typedef double cudaEvent_t;
enum {
  cudaSuccess,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaErrorMisalignedAddress = 716
};

struct dim3 {
  int x, y, z;
  dim3(int a, int b, int c) : x(a), y(b), z(c) {}
};
static dim3 blockIdx(0, 0, 0), threadIdx(0, 0, 0);

#define LAUNCH(f, g, b, args)                                                  \
  for (int i = 0; i < (g).x * (g).y * (g).z; i++)                              \
    for (int j = 0; j < (b).x * (b).y * (b).z; j++) {                          \
      blockIdx = dim3(i % (g).x, i / (g).x % (g).y, i / (g).x / (g).y);        \
      threadIdx = dim3(j % (b).x, j / (b).x % (b).y, j / (b).x / (b).y);       \
      f args;                                                                  \
    }

static inline int cudaSetDevice(int n) { return n != 0; }
static inline int cudaMalloc(void **p, size_t n) { return !(*p = malloc(n)); }
static inline int
cudaMemcpy(void *to, const void *from, size_t n, int)
{
  memcpy(to, from, n);
  return 0;
}
static inline int
cudaMemset(void *to, int v, size_t n)
{
  memset(to, v, n);
  return 0;
}
static inline int cudaDeviceSynchronize(void) { return 0; }
static inline int cudaGetLastError(void) { return 0; }
static inline int
cudaEventCreate(cudaEvent_t *e)
{
  *e = 0;
  return 0;
}
static inline int
cudaEventRecord(cudaEvent_t &e, cudaStream_t)
{
  using namespace std::chrono;
  e = duration<double>(steady_clock::now().time_since_epoch()).count();
  return 0;
}
static inline int
cudaEventElapsedTime(float *ms, cudaEvent_t a, cudaEvent_t b)
{
  *ms = (float)((b - a) * 1e3);
  return 0;
}
