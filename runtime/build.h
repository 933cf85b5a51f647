/* Building candidates: C source to shared objects, several at once, in a
 * private temporary directory. */
#ifndef TT_BUILD_H
#define TT_BUILD_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/process.h"

/* The first line of `cc --version`, to be freed.  NULL and *error, to be
 * freed, when the compiler cannot be run or fails. */
char *tt_compiler_version(const char *cc, char **error);
/* Bytes of the widest vectors that code built with these flags may use (64,
 * 32, 16; 0: none) and the number of vector registers, from the compiler's
 * predefined macros.  false: it could not be asked. */
bool tt_compiler_vectors(const char *cc, const char *cflags, int *bytes,
                         int *registers);

struct tt_builder_options {
  const char *cc, *cflags;     /* split like a shell's words */
  int jobs;                    /* builds at once, >= 1 */
  double timeout;              /* seconds for one build */
  const struct tt_cpus *cpus;  /* where the compiler runs; NULL: anywhere */
  const struct tt_cpus *spare; /* where one more may run; NULL: nowhere */
};

enum tt_build_status {
  TT_BUILT,
  TT_BUILD_ERROR, /* the compiler refused it */
  TT_BUILD_TIMEOUT,
  TT_BUILD_BROKEN /* the toolchain itself fails: disk full, ... */
};

struct tt_built {
  int id;
  enum tt_build_status status;
  double seconds, cpu_seconds;
  char object[32]; /* file name within the directory */
  char *message;   /* first line of the error, to be freed; NULL if built */
};

struct tt_builder;

/* Makes the directory (under $TMPDIR or /tmp) and builds a probe, so that
 * later failures are the candidates'.  Directories that killed runs left
 * there are removed.  NULL and *error, to be freed. */
struct tt_builder *tt_builder_new(const struct tt_builder_options *,
                                  char **error);
/* Ends all builds, removes the directory. NULL is ignored. */
void tt_builder_free(struct tt_builder *);
const char *tt_builder_dir(const struct tt_builder *);
/* Sets what each build started from now on may take: seconds on the clock,
 * which a busy machine stretches, and of CPU time (0: no limit). */
void tt_builder_limits(struct tt_builder *, double seconds, int cpu_seconds);

/* Another compiler for what is built from now on, whose sources have names
 * that end in `suffix`; builds a probe.  false and *error, to be freed. */
bool tt_builder_switch(struct tt_builder *, const char *cc, const char *cflags,
                       const char *suffix, char **error);

/* May another build be started now?  spare: on the spare CPUs. */
bool tt_builder_free_job(const struct tt_builder *, bool spare);
int tt_builder_running(const struct tt_builder *);
/* Is one running on the spare CPUs? */
bool tt_builder_on_spare(const struct tt_builder *);
/* Starts a build; there is a free job of that kind.  false and *error, to be
 * freed, when the file cannot be written or the compiler not be run. */
bool tt_builder_start(struct tt_builder *, bool spare, int id,
                      const char *source, size_t length, char **error);
/* Puts a file there that needs no building; `object` gets its name, which ends
 * in `suffix`.  false and *error, to be freed. */
bool tt_builder_put(struct tt_builder *, const char *suffix, const char *text,
                    size_t length, char object[32], char **error);
/* The running compilers, for tt_process_poll(); at most `max`. */
int tt_builder_processes(const struct tt_builder *, struct tt_process **,
                         int max);
/* Takes one ended build; false: there is none. */
bool tt_builder_take(struct tt_builder *, struct tt_built *);
/* Removes an object that is no longer needed. */
void tt_builder_discard(struct tt_builder *, const char *object);
/* Kills all running builds and forgets them. */
void tt_builder_cancel(struct tt_builder *);

#endif
