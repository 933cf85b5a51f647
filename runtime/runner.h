/* The runner: a process of its own that runs candidates, checks what they
 * compute and times them.
 *
 * It is this very program, started again with a hidden first argument: the
 * tuner has threads, and forking children that load code is safe only in a
 * process that has none.  It keeps inputs and reference outputs as long as it
 * lives, forks a limited child for every candidate, and answers in lines
 * (runtime/protocol.h).  When it dies it is started again.
 */
#ifndef TT_RUNNER_H
#define TT_RUNNER_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/types.h"
#include "runtime/check.h"
#include "runtime/process.h"
#include "runtime/timing.h"

/* main() calls this first thing. Runs as a runner and returns its exit
 * status when the arguments say so, else returns -1. */
int tt_runner_main(int argc, char **argv);

#define TT_MAX_TENSORS 256

/* A parameter of the function.  A candidate is an object with the symbol
 *   void NAME(void **args, int what)
 * what 0: prepare, 1: run; args: the tensors in this order (all inputs,
 * weights, outputs), then the prepared bytes, then the workspace.  One that
 * works on a device has a function NAME_clock, too, the seconds of all runs so
 * far; it copies inputs to the device with what 0, outputs to it with 2 and
 * from it with 3.  Or it is a file of kernels: see runtime/device.h. */
struct tt_run_tensor {
  const char *name; /* for messages */
  enum tt_dtype dtype;
  int64_t elements;
  bool output;
};

struct tt_runner_options {
  int ntensors;                        /* 1 .. TT_MAX_TENSORS */
  const struct tt_run_tensor *tensors; /* copied */
  const char *dir;                     /* where the objects are */
  int threads;                         /* OMP_NUM_THREADS */
  const struct tt_cpus *cpus; /* where candidates run; NULL: anywhere */
  bool on_device; /* candidates use drivers, whose memory and threads have no
                     limit */
  int device;     /* which one of OpenCL */
};

enum tt_run_status {
  TT_RUN_OK,
  TT_RUN_LOAD, /* the object cannot be loaded: an undefined symbol */
  TT_RUN_CRASH,
  TT_RUN_TIMEOUT,
  TT_RUN_MEMORY,
  TT_RUN_WRONG,
  TT_RUN_BOUNDS,
  TT_RUN_BROKEN /* the runner itself does not work */
};

struct tt_run_candidate {
  const char *object; /* file name within dir; *.cl: a file of kernels */
  const char *symbol;
  int64_t prepared, workspace; /* bytes */
};

enum tt_run_mode {
  TT_RUN_CHECK,     /* compare with the reference, then time */
  TT_RUN_REFERENCE, /* the outputs become the reference; time */
  TT_RUN_DUEL       /* time several in turns */
};

struct tt_run_job {
  int id;
  enum tt_run_mode mode;
  int n; /* 1, or <= TT_MAX_DUEL for a duel */
  const struct tt_run_candidate *candidates;
  double timeout; /* seconds in all */
  double best;    /* see struct tt_timing_options */
};

struct tt_run_result {
  int id;
  enum tt_run_status status;
  double error;       /* largest, as a share of the tolerance */
  double run_seconds; /* that the job took in all */
  int n;
  struct tt_timing timing[TT_MAX_DUEL];
  char message[256]; /* what went wrong; "" if nothing did */
};

struct tt_runner;

/* Makes the memory for inputs and reference; no process is started yet.
 * NULL and *error, to be freed, when there is no memory. */
struct tt_runner *tt_runner_new(const struct tt_runner_options *, char **error);
/* Ends all processes. NULL is ignored. */
void tt_runner_free(struct tt_runner *);
/* The elements of a tensor: inputs are to be filled before the first job;
 * outputs are the reference, once there is one. Owned by the runner. */
void *tt_runner_data(struct tt_runner *, int tensor);
/* How outputs are compared; exactly until this is called. */
void tt_runner_tolerance(struct tt_runner *, int tensor,
                         const struct tt_tolerance *);

/* Starts a job, and the process where there is none.  Only one job at a
 * time.  false and *error, to be freed, when no runner can be started. */
bool tt_runner_submit(struct tt_runner *, const struct tt_run_job *,
                      char **error);
bool tt_runner_busy(const struct tt_runner *);
/* For tt_process_poll(); NULL when there is none. */
struct tt_process *tt_runner_process(const struct tt_runner *);
/* After a poll: takes the result when the job is over. */
bool tt_runner_take(struct tt_runner *, struct tt_run_result *);
/* Ends the job, and the process. */
void tt_runner_cancel(struct tt_runner *);

#endif
