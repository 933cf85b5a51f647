#include <stddef.h>

typedef float f32x4u __attribute__((vector_size(16), aligned(4), may_alias));
typedef float f32x2u __attribute__((vector_size(8), aligned(4), may_alias));

#define DENSE_WORKSPACE_BYTES 0

size_t dense_prepared_size(void)
{
  return 384;
}

void dense_prepare(const float *restrict W, const float *restrict bias, void *prepared)
{
  float *const W_p = (float *)prepared;
  float *const b_p = (float *)((unsigned char *)prepared + 256);
  float *const t = (float *)((unsigned char *)prepared + 320);
  for (ptrdiff_t o = 0; o < 10; o++) {
    for (ptrdiff_t i = 0; i < 6; i++) {
      W_p[o * 6 + i] = W[i * 10 + o];
    }
  }
  *(f32x4u *)&t[0] = *(const f32x4u *)&bias[0];
  *(f32x4u *)&t[4] = *(const f32x4u *)&bias[4];
  *(f32x2u *)&t[8] = *(const f32x2u *)&bias[8];
  *(f32x4u *)&b_p[0] = *(const f32x4u *)&t[0] * 2.0f;
  *(f32x4u *)&b_p[4] = *(const f32x4u *)&t[4] * 2.0f;
  *(f32x2u *)&b_p[8] = *(const f32x2u *)&t[8] * 2.0f;
}

void dense(const float *restrict X, const void *restrict prepared, float *restrict Y,
    void *workspace)
{
  const float *const W_p = (const float *)prepared;
  const float *const b_p = (const float *)((const unsigned char *)prepared + 256);
  (void)workspace;
  for (ptrdiff_t o = 0; o < 10; o++) {
    Y[o] = b_p[o];
    for (ptrdiff_t i = 0; i < 6; i++) {
      Y[o] += W_p[o * 6 + i] * X[i];
    }
  }
}
