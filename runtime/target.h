/* The machine that this program runs on. */
#ifndef TT_TARGET_H
#define TT_TARGET_H

#include <stdint.h>

struct tt_target {
  char name[192];     /* "x86_64 AMD EPYC avx2 fma avx512f": a key in history;
                         letters as the system gives them, single blanks */
  int vector_bytes;   /* widest usable vectors: 16, 32, 64; 0: none */
  int registers;      /* vector registers */
  int64_t l1, l2, l3; /* bytes of data caches one core sees; never 0 */
  int cpus;           /* that this process may use */
};

/* What can be found out; the rest gets the defaults of a small 64-bit
 * machine (32 KiB, 512 KiB, 4 MiB; 16-byte vectors, 16 registers). */
struct tt_target tt_target_local(void);

#endif
