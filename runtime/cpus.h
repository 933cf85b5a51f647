/* Sets of CPUs: which one is kept for timing, which are left for the rest. */
#ifndef TT_CPUS_H
#define TT_CPUS_H

#include <stdbool.h>

#define TT_MAX_CPUS 1024

struct tt_cpus {
  bool member[TT_MAX_CPUS];
};

/* The CPUs this thread may use now; never empty. */
struct tt_cpus tt_cpus_allowed(void);
int tt_cpus_count(const struct tt_cpus *);
/* Bind a process (0: the calling thread).  An empty set changes nothing. */
void tt_cpus_bind(int pid, const struct tt_cpus *);

/* One CPU kept for timing by this process.  Other processes of this program
 * on the machine that ask meanwhile get another one, as long as there is
 * one.  Takes about 30 ms, to see which CPUs are busy. */
struct tt_claim {
  int cpu;
  int lock;            /* a socket that holds the claim; -1: none */
  struct tt_cpus rest; /* for builds: without the CPU and, if others are
                          left, without its hyperthreads; empty when the
                          process may use one CPU alone */
};
struct tt_claim tt_claim_cpu(void);
void tt_claim_release(struct tt_claim *);

#endif
