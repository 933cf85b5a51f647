/* The speed of dense beside the plain loops. */
#define _POSIX_C_SOURCE 200112L
#include <string.h>
#include <time.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

size_t dense_prepared_size(void);
void dense_prepare(const float *W, const float *bias, void *prepared);
void dense(const float *X, const void *prepared, float *Y, void *workspace);

#include <stddef.h>

static double dense_plain_workspace[8];

static size_t dense_plain_prepared_size(void)
{
  return 320;
}

static void dense_plain_prepare(const float *restrict W, const float *restrict bias,
    void *prepared)
{
  float *const W_p = (float *)prepared;
  float *const b_p = (float *)((unsigned char *)prepared + 256);
  float *const t = (float *)(unsigned char *)dense_plain_workspace;
  for (ptrdiff_t o = 0; o < 10; o++) {
    for (ptrdiff_t i = 0; i < 6; i++) {
      W_p[o * 6 + i] = W[i * 10 + o];
    }
  }
  for (ptrdiff_t o = 0; o < 10; o++) {
    t[o] = bias[o];
  }
  for (ptrdiff_t o = 0; o < 10; o++) {
    b_p[o] = t[o] * 2.0f;
  }
}

static void dense_plain(const float *restrict X, const void *restrict prepared,
    float *restrict Y)
{
  const float *const W_p = (const float *)prepared;
  const float *const b_p = (const float *)((const unsigned char *)prepared + 256);
  for (ptrdiff_t o = 0; o < 10; o++) {
    Y[o] = b_p[o];
    for (ptrdiff_t i = 0; i < 6; i++) {
      Y[o] += W_p[o * 6 + i] * X[i];
    }
  }
}

/* A small generator of numbers, the same on every machine.  Mixed, so
 * that long sums with any stride stay small. */
static unsigned long state = 1;
static unsigned long bits(void)
{
  state = (state * 1664525ul + 1013904223ul) & 0xfffffffful;
  const unsigned long mixed = (state ^ state >> 15) * 2246822519ul;
  return (mixed & 0xfffffffful) >> 8;
}

static void *get(size_t n)
{
  void *p;
  if (posix_memalign(&p, 64, n ? n : 1) != 0) {
    fputs("out of memory\n", stderr);
    exit(2);
  }
  memset(p, 0, n);
  return p;
}

static double now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void)
{
  float *v0 = get(6u * sizeof *v0); /* X */
  for (size_t i = 0; i < 6; i++)
    v0[i] = (float)(((int)(bits() % 256) - 128) / 64.0);
  float *v1 = get(60u * sizeof *v1); /* W */
  for (size_t i = 0; i < 60; i++)
    v1[i] = (float)(((int)(bits() % 256) - 128) / 64.0);
  float *v2 = get(10u * sizeof *v2); /* bias */
  for (size_t i = 0; i < 10; i++)
    v2[i] = (float)(((int)(bits() % 256) - 128) / 64.0);
  float *v3 = get(10u * sizeof *v3); /* Y */
  float *r3 = get(10u * sizeof *r3);
  void *prepared = get(dense_prepared_size());
  void *prepared_plain = get(dense_plain_prepared_size());
  dense_prepare(v1, v2, prepared);
  dense_plain_prepare(v1, v2, prepared_plain);
  void *workspace = get(0u);
  {
    double best = 1e300;
    long calls = 1;
    for (int round = 0; round < 5;) {
      double t = now();
      for (long i = 0; i < calls; i++)
        dense(v0, prepared, v3, workspace);
      t = now() - t;
      if (t < 0.02 && calls < 1L << 30) {
        calls *= 2;
        continue;
      }
      round++;
      if (t / (double)calls < best)
        best = t / (double)calls;
    }
    printf("%-24s %14.1f ns %8.2f GFLOP/s\n", "dense",
           best * 1e9, 0 / best * 1e-9);
  }
  {
    double best = 1e300;
    long calls = 1;
    for (int round = 0; round < 5;) {
      double t = now();
      for (long i = 0; i < calls; i++)
        dense_plain(v0, prepared_plain, r3);
      t = now() - t;
      if (t < 0.02 && calls < 1L << 30) {
        calls *= 2;
        continue;
      }
      round++;
      if (t / (double)calls < best)
        best = t / (double)calls;
    }
    printf("%-24s %14.1f ns %8.2f GFLOP/s\n", "dense_plain",
           best * 1e9, 0 / best * 1e-9);
  }
  free(v0);
  free(v1);
  free(v2);
  free(v3);
  free(r3);
  free(prepared);
  free(prepared_plain);
  free(workspace);
  return 0;
}
