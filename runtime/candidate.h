/* Inside the runner: one child process that runs candidates, and what became
 * of it. */
#ifndef TT_CANDIDATE_H
#define TT_CANDIDATE_H

#include <sys/types.h>

#include "runtime/device.h"
#include "runtime/guard.h"
#include "runtime/runner.h"

/* A tensor as the runner holds it. */
struct tt_held_tensor {
  enum tt_dtype dtype;
  int64_t elements;
  bool output;
  char name[64];
  struct tt_tolerance tolerance;
  double rms;            /* of the reference */
  void *reference;       /* outputs: shared with the tuner */
  struct tt_guard input; /* inputs: frozen */
};

struct tt_held_job {
  enum tt_run_mode mode;
  int n;
  struct {
    char object[64], symbol[128];
    int64_t prepared, workspace;
  } candidates[TT_MAX_DUEL];
  double timeout, best;
};

struct tt_held {
  int ntensors, threads;
  int device; /* of OpenCL, that candidates may use; -1: none, or another's */
  struct tt_held_tensor tensors[TT_MAX_TENSORS];
};

/* Memory that the child may not touch as it likes; for messages. */
struct tt_region {
  const char *lo, *hi;           /* all of it, barriers included */
  const char *zone_lo, *zone_hi; /* what may be read */
  char name[64];
};

/* What the child tells; shared memory, so that no descriptor is needed. */
struct tt_report {
  uint32_t done; /* TT_REPORT_DONE: the child came to its end */
  enum tt_run_status status;
  double error;
  int n;
  struct tt_timing timing[TT_MAX_DUEL];
  char message[256];
  /* Of a fatal signal: */
  int signal;
  const char *address, *stack; /* stack: an address near its top */
  int64_t used, limit;         /* bytes of address space; limit 0: none */
  int nregions;
  struct tt_region regions[TT_MAX_TENSORS + 2 * TT_MAX_DUEL];
};
#define TT_REPORT_DONE 0x600Du

/* The child: runs the job and never returns. */
__attribute__((noreturn)) void tt_candidate_run(const struct tt_held *,
                                                const struct tt_held_job *,
                                                struct tt_report *);
/* The runner: fills status and message of a report from how the child ended
 * (a status of waitpid; `killed`: by the runner, for its time). */
void tt_candidate_judge(struct tt_report *, int status, bool killed);

#endif
