#include <stddef.h>

static double dense_workspace[8];

size_t dense_prepared_size(void)
{
  return 320;
}

void dense_prepare(const float *restrict W, const float *restrict bias, void *prepared)
{
  float *const W_p = (float *)prepared;
  float *const b_p = (float *)((unsigned char *)prepared + 256);
  float *const t = (float *)(unsigned char *)dense_workspace;
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

void dense(const float *restrict X, const void *restrict prepared, float *restrict Y)
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
