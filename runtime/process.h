/* Child processes: by argv, without a shell, in a process group of their
 * own, with limits, and with their output caught.  Several run at once. */
#ifndef TT_PROCESS_H
#define TT_PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "ir/arena.h"
#include "runtime/cpus.h"

struct tt_process_options {
  const char *const *argv;    /* argv[0] is looked up in PATH */
  const char *cwd;            /* NULL: the parent's */
  const char *const *env;     /* NAME=VALUE added to the environment, ended by
                                 NULL; NULL: none */
  double timeout;             /* seconds, then the group is killed; 0: none */
  size_t max_output;          /* bytes kept of each stream; the rest is read
                                 and dropped */
  int64_t limit_as;           /* bytes of address space; 0: no limit */
  int64_t limit_cpu;          /* seconds of one process; 0: no limit.  Holds
                                 for what it starts, and outlives us */
  int64_t limit_fsize;        /* bytes of a written file; 0: no limit */
  const struct tt_cpus *cpus; /* NULL: the parent's */
  bool input;                 /* give a stdin to write to; else /dev/null */
  int pass_fd;                /* becomes descriptor 3; -1: none */
};

/* Fields are to be read only, save out and err, which may be cleared. */
struct tt_process {
  pid_t pid;
  struct tt_sb out, err; /* what was caught so far */
  bool done;             /* has ended and was waited for */
  bool timed_out;
  int status;               /* as of waitpid, once done */
  double cpu_seconds;       /* of it and what it waited for, once done */
  double seconds;           /* from start to end, once done */
  double started, deadline; /* of tt_now(); deadline 0: none */
  bool late; /* past it, but what it wrote was to be looked at first */
  size_t max_output;
  int pidfd, outfd, errfd, infd;
};

/* Seconds of CLOCK_MONOTONIC. */
double tt_now(void);

/* Starts a process.  NULL and *error, to be freed, when it cannot be started
 * ("cannot run 'foo-cc': No such file or directory"). */
struct tt_process *tt_process_start(const struct tt_process_options *,
                                    char **error);
/* Waits until one of the processes that are not done has written or ended,
 * a deadline has passed, a signal came, or `timeout` seconds are over (< 0:
 * no limit).  Reads what there is; returns how many have ended just now.
 * NULLs among them are skipped.  A caller that comes late to a poll finds
 * what was written or has ended in time: only then deadlines are enforced. */
int tt_process_poll(struct tt_process *const *, int n, double timeout);
/* Writes to its stdin; false when it is gone or does not read. */
bool tt_process_write(struct tt_process *, const char *text, size_t n);
/* Sets a new deadline, seconds from now; 0: none. */
void tt_process_deadline(struct tt_process *, double seconds);
/* Kills the group and waits for it. */
void tt_process_kill(struct tt_process *);
/* Kills if it is not done, and frees.  NULL is ignored. */
void tt_process_free(struct tt_process *);
/* Starts, waits, and returns the ended process or NULL and *error. */
struct tt_process *tt_process_run(const struct tt_process_options *,
                                  char **error);
/* How it ended, for people: "exit status 1", "killed by signal 9 (Killed)".
 * `buf` has `size` bytes. */
void tt_process_describe(const struct tt_process *, char *buf, size_t size);

/* A formatted heap string: how this folder returns errors. */
char *tt_format(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
