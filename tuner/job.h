/* One run of the compiler, from parsed options to written files. */
#ifndef TT_JOB_H
#define TT_JOB_H

#include "frontend/frontend.h"
#include "runtime/device.h"
#include "runtime/target.h"
#include "tuner/options.h"
#include "tuner/output.h"
#include "tuner/tune.h"

enum tt_exit {
  TT_EXIT_DONE = 0,
  TT_EXIT_INPUT = 1, /* errors in the input; a file that cannot be used */
  TT_EXIT_USAGE = 2,
  TT_EXIT_NO_CANDIDATE = 3,
  TT_EXIT_TOOLCHAIN = 4,
  TT_EXIT_INTERRUPTED = 130
};

/* What is known of one input while a run goes on; all of it is owned by the
 * arena. */
struct tt_job {
  struct tt_arena *arena;
  struct tt_options *options; /* its own */
  bool several;               /* there are other inputs: messages name it */
  bool over;                  /* all is done that was asked for */
  enum tt_exit status;
  struct tt_frontend_result front;
  const char *schedule_file; /* that `schedule_text` was read from, or NULL */
  const char *schedule_text;
  size_t schedule_len;
  struct tt_target_model model;
  const char *target;              /* the machine, for people */
  const char *compiler;            /* version and flags; NULL: not asked */
  int cpus;                        /* that may be used for building */
  int device;                      /* for GPUs: its number */
  int sm;                          /* of CUDA; 0: not known */
  bool search;                     /* a schedule is to be searched, ... */
  const struct tt_sblock *choices; /* among these choices of a block; NULL: in
                                      the space of the program */
  struct tt_schedule *schedule;
  const char *origin; /* of a schedule that was not searched: "given" */
  const struct tt_tuned *tuned; /* NULL: there was no search */
  const char *unit;             /* of a rate: "GFLOP/s" or "Gop/s" */
  const char *hint;             /* how to get better code, or NULL */
};

/* Does all that the options ask for; prints diagnostics and the summary to
 * stderr, dumps to stdout.  Returns the exit status. */
enum tt_exit tt_job_run(struct tt_arena *, struct tt_options *);

/* job_search.c: searches the schedules of those of n jobs that want it, in one
 * run of the tuner; sets the `status` of each. */
void tt_job_search(int n, struct tt_job *jobs);

/* job_device.c: --device=list. */
enum tt_exit tt_job_list_devices(struct tt_arena *, const struct tt_options *);
/* Code for a GPU: the device that candidates run on, if they do, and what is
 * known of it. */
enum tt_exit tt_job_find_device(struct tt_job *);

/* emit.c: the files of the job and their texts, in *outs (*n of them).  NULL,
 * or why the code cannot be made. */
const char *tt_emit(const struct tt_job *, struct tt_output **outs, int *n);
/* The code of --dump=schedule, loops or features. */
const char *tt_emit_dump(const struct tt_job *, struct tt_sb *);
/* Codegen's options as the job's options say. */
struct tt_codegen_options tt_job_codegen(const struct tt_options *);
/* The last component of a path. */
const char *tt_base_name(const char *path);

#endif
