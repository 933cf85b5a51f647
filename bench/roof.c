/* The two roofs: multiply-adds of f32 in registers, and plain traffic of
 * memory. Built with the flags of the kernels.
 */
#define _POSIX_C_SOURCE 199309L
#include <stddef.h>
#include <string.h>
#include <time.h>

#if defined __AVX512F__
enum { BYTES = 64 };
#elif defined __AVX__
enum { BYTES = 32 };
#else
enum { BYTES = 16 };
#endif
typedef float vector __attribute__((vector_size(BYTES)));
typedef float loose __attribute__((vector_size(BYTES), aligned(4), may_alias));

enum { ROUNDS = 20000 };

#if defined __x86_64__
#define KEEP(x) ({ __asm__ volatile("" : "+v"(x)); })
#else
#define KEEP(x) ({ __asm__ volatile("" : "+w"(x)); })
#endif

double bench_peak(void);
void bench_copy(const void *from, size_t from_bytes, void *to, size_t to_bytes);

static double
now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Operations a second with twelve independent accumulators. The empty asm keeps
 * the compiler from knowing what is summed.
 */
double
bench_peak(void)
{
  static volatile float one = 1;
  vector x = (vector){0} + one;
  vector a = x, b = x, c = x, d = x, e = x, f = x;
  vector g = x, h = x, i = x, j = x, k = x, l = x;
  double start = now();
  for (int r = 0; r < ROUNDS; r++) {
    a = a * x + x, b = b * x + x, c = c * x + x, d = d * x + x;
    e = e * x + x, f = f * x + x, g = g * x + x, h = h * x + x;
    i = i * x + x, j = j * x + x, k = k * x + x, l = l * x + x;
    KEEP(a), KEEP(b), KEEP(c), KEEP(d), KEEP(e), KEEP(f);
    KEEP(g), KEEP(h), KEEP(i), KEEP(j), KEEP(k), KEEP(l);
  }
  return 2.0 * ROUNDS * 12 * (BYTES / sizeof(float)) / (now() - start);
}

/* Reads all of `from` and writes all of `to`, side by side as far as both go.
 */
void
bench_copy(const void *from, size_t from_bytes, void *to, size_t to_bytes)
{
  const loose *f = from;
  loose *t = to;
  size_t reads = from_bytes / BYTES, writes = to_bytes / BYTES;
  size_t both = reads < writes ? reads : writes;
  vector sum[4] = {{0}, {0}, {0}, {0}};
  for (size_t i = 0; i < both; i++)
    t[i] = f[i];
  for (size_t i = both; i + 4 <= reads; i += 4)
    for (int j = 0; j < 4; j++)
      sum[j] += f[i + (size_t)j];
  for (size_t i = both; i < writes; i++)
    t[i] = sum[0];
  sum[0] += sum[1] + sum[2] + sum[3];
  KEEP(sum[0]); /* so that the reads are not dropped */
}
