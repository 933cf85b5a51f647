#include <stddef.h>

typedef float f32x16u __attribute__((vector_size(64), aligned(4), may_alias));
typedef float f32x16 __attribute__((vector_size(64)));

void matmul(const float *restrict A, const float *restrict B, float *restrict C)
{
  /* C[y, x] = sum[k](A[k, y] * B[k, x]) */
  for (ptrdiff_t x = 0; x < 2; x++) {
    for (ptrdiff_t k = 0; k < 4; k++) {
      float Bp[512] __attribute__((aligned(64)));
      /* copy of B */
      for (ptrdiff_t k1 = 0; k1 < 16; k1++) {
        *(f32x16u *)&Bp[k1 * 32] = *(const f32x16u *)&B[k * 1024 + k1 * 64 + x * 32];
        *(f32x16u *)&Bp[k1 * 32 + 16] = *(const f32x16u *)&B[k * 1024 + k1 * 64 + x * 32 + 16];
      }
      for (ptrdiff_t y = 0; y < 21; y++) {
        f32x16 C_acc_0_0, C_acc_0_1, C_acc_1_0, C_acc_1_1, C_acc_2_0, C_acc_2_1;
        if (k == 0) {
          C_acc_0_0 = (f32x16){0};
          C_acc_0_1 = (f32x16){0};
          C_acc_1_0 = (f32x16){0};
          C_acc_1_1 = (f32x16){0};
          C_acc_2_0 = (f32x16){0};
          C_acc_2_1 = (f32x16){0};
        } else {
          const float *const C_at = &C[y * 192 + x * 32];
          C_acc_0_0 = *(const f32x16u *)&C_at[0];
          C_acc_0_1 = *(const f32x16u *)&C_at[16];
          C_acc_1_0 = *(const f32x16u *)&C_at[64];
          C_acc_1_1 = *(const f32x16u *)&C_at[80];
          C_acc_2_0 = *(const f32x16u *)&C_at[128];
          C_acc_2_1 = *(const f32x16u *)&C_at[144];
        }
        for (ptrdiff_t k1 = 0; k1 < 16; k1++) {
          const f32x16 bp_0 = *(const f32x16u *)&Bp[k1 * 32];
          const float a_0 = A[k * 1024 + k1 * 64 + y * 3];
          C_acc_0_0 += a_0 * bp_0;
          const f32x16 bp_1 = *(const f32x16u *)&Bp[k1 * 32 + 16];
          C_acc_0_1 += a_0 * bp_1;
          const float a_1 = A[k * 1024 + k1 * 64 + y * 3 + 1];
          C_acc_1_0 += a_1 * bp_0;
          C_acc_1_1 += a_1 * bp_1;
          const float a_2 = A[k * 1024 + k1 * 64 + y * 3 + 2];
          C_acc_2_0 += a_2 * bp_0;
          C_acc_2_1 += a_2 * bp_1;
        }
        float *const C_at = &C[y * 192 + x * 32];
        *(f32x16u *)&C_at[0] = C_acc_0_0;
        *(f32x16u *)&C_at[16] = C_acc_0_1;
        *(f32x16u *)&C_at[64] = C_acc_1_0;
        *(f32x16u *)&C_at[80] = C_acc_1_1;
        *(f32x16u *)&C_at[128] = C_acc_2_0;
        *(f32x16u *)&C_at[144] = C_acc_2_1;
      }
      f32x16 C_acc_0, C_acc_1;
      if (k == 0) {
        C_acc_0 = (f32x16){0};
        C_acc_1 = (f32x16){0};
      } else {
        C_acc_0 = *(const f32x16u *)&C[x * 32 + 4032];
        C_acc_1 = *(const f32x16u *)&C[x * 32 + 4048];
      }
      for (ptrdiff_t k1 = 0; k1 < 16; k1++) {
        const float a_0 = A[k * 1024 + k1 * 64 + 63];
        C_acc_0 += a_0 * *(const f32x16u *)&Bp[k1 * 32];
        C_acc_1 += a_0 * *(const f32x16u *)&Bp[k1 * 32 + 16];
      }
      *(f32x16u *)&C[x * 32 + 4032] = C_acc_0;
      *(f32x16u *)&C[x * 32 + 4048] = C_acc_1;
    }
  }
}
