#include <stddef.h>

#define MATMUL_WORKSPACE_BYTES 0

void matmul(const float *restrict A, const float *restrict B, float *restrict C,
    void *workspace)
{
  (void)workspace;
  /* C[y, x] = sum[k](A[k, y] * B[k, x]) */
  for (ptrdiff_t x = 0; x < 2; x++) {
    for (ptrdiff_t k = 0; k < 4; k++) {
      float Bp[512];
      /* copy of B */
      for (ptrdiff_t k1 = 0; k1 < 16; k1++) {
        for (ptrdiff_t xr = 0; xr < 32; xr++) {
          Bp[k1 * 32 + xr] = B[k * 1024 + k1 * 64 + x * 32 + xr];
        }
      }
      for (ptrdiff_t y = 0; y < 21; y++) {
        float C_acc[96];
        if (k == 0) {
          for (ptrdiff_t xr = 0; xr < 32; xr++) {
            C_acc[xr] = 0.0f;
          }
          for (ptrdiff_t xr = 0; xr < 32; xr++) {
            C_acc[xr + 32] = 0.0f;
          }
          for (ptrdiff_t xr = 0; xr < 32; xr++) {
            C_acc[xr + 64] = 0.0f;
          }
        } else {
          for (ptrdiff_t xr = 0; xr < 32; xr++) {
            C_acc[xr] = C[y * 192 + x * 32 + xr];
          }
          for (ptrdiff_t xr = 0; xr < 32; xr++) {
            C_acc[xr + 32] = C[y * 192 + x * 32 + xr + 64];
          }
          for (ptrdiff_t xr = 0; xr < 32; xr++) {
            C_acc[xr + 64] = C[y * 192 + x * 32 + xr + 128];
          }
        }
        for (ptrdiff_t k1 = 0; k1 < 16; k1++) {
          for (ptrdiff_t xr = 0; xr < 32; xr++) {
            C_acc[xr] += A[k * 1024 + k1 * 64 + y * 3] * Bp[k1 * 32 + xr];
          }
          for (ptrdiff_t xr = 0; xr < 32; xr++) {
            C_acc[xr + 32] += A[k * 1024 + k1 * 64 + y * 3 + 1] * Bp[k1 * 32 + xr];
          }
          for (ptrdiff_t xr = 0; xr < 32; xr++) {
            C_acc[xr + 64] += A[k * 1024 + k1 * 64 + y * 3 + 2] * Bp[k1 * 32 + xr];
          }
        }
        for (ptrdiff_t xr = 0; xr < 32; xr++) {
          C[y * 192 + x * 32 + xr] = C_acc[xr];
        }
        for (ptrdiff_t xr = 0; xr < 32; xr++) {
          C[y * 192 + x * 32 + xr + 64] = C_acc[xr + 32];
        }
        for (ptrdiff_t xr = 0; xr < 32; xr++) {
          C[y * 192 + x * 32 + xr + 128] = C_acc[xr + 64];
        }
      }
      float C_acc[32];
      if (k == 0) {
        for (ptrdiff_t xr = 0; xr < 32; xr++) {
          C_acc[xr] = 0.0f;
        }
      } else {
        for (ptrdiff_t xr = 0; xr < 32; xr++) {
          C_acc[xr] = C[x * 32 + xr + 4032];
        }
      }
      for (ptrdiff_t k1 = 0; k1 < 16; k1++) {
        for (ptrdiff_t xr = 0; xr < 32; xr++) {
          C_acc[xr] += A[k * 1024 + k1 * 64 + 63] * Bp[k1 * 32 + xr];
        }
      }
      for (ptrdiff_t xr = 0; xr < 32; xr++) {
        C[x * 32 + xr + 4032] = C_acc[xr];
      }
    }
  }
}
