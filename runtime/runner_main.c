/* Owns the runner process: reads commands from stdin, holds the inputs, forks
 * a child for each job and tells the result on stdout.  One thread; it ends
 * when stdin does.
 *
 *   setup n= threads= device= bytes=   then n times
 *   tensor I dtype= output= elements= offset= name=
 *   ready                          -> hello proto=
 *   tol I rel= abs=
 *   cand object= symbol= prepared= workspace=     one or more
 *   run ID mode= timeout= best=    -> begin ID pid=, time ID k inner= s=...,
 *                                     out ID err=, fail ID kind= msg=, end ID
 *
 * Descriptor 3 is the memory of all tensors, shared with the tuner.
 */
#include "config.h"

#include "runtime/runner.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/candidate.h"
#include "runtime/protocol.h"

struct runner {
  struct tt_held held;
  struct tt_held_job job; /* being described */
  struct tt_report *report;
  char *data; /* descriptor 3 */
  bool ready; /* the tensors are known and filled */
  int64_t bytes;
  int64_t offsets[TT_MAX_TENSORS];
  struct tt_sb in, out;
};

static bool
flush(struct runner *r)
{
  const char *s = tt_sb_str(&r->out);
  size_t n = r->out.len;
  while (n) {
    ssize_t k = write(1, s, n);
    if (k < 0 && errno == EINTR)
      continue;
    if (k <= 0)
      return false;
    s += k;
    n -= (size_t)k;
  }
  tt_sb_clear(&r->out);
  return true;
}

/* ---- describing -------------------------------------------------------- */

static bool
do_setup(struct runner *r, const char *line)
{
  int64_t n, threads, device;
  if (!tt_line_int(line, "n", &n) || n < 1 || n > TT_MAX_TENSORS ||
      !tt_line_int(line, "threads", &threads) || threads < 1 ||
      !tt_line_int(line, "device", &device) || device < -1 ||
      device >= TT_MAX_DEVICES || !tt_line_int(line, "bytes", &r->bytes) ||
      r->bytes < 1)
    return false;
  r->held.ntensors = (int)n;
  r->held.threads = (int)threads;
  r->held.device = (int)device;
  r->data =
      mmap(NULL, (size_t)r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, 3, 0);
  if (r->data == MAP_FAILED)
    r->data = NULL;
  close(3);
  return r->data != NULL;
}

/* The tensor a line is about; NULL: there is none. */
static struct tt_held_tensor *
tensor_of(struct runner *r, const char *line, int *index)
{
  char word[16], *end;
  if (!tt_line_word(line, 1, word, sizeof word))
    return NULL;
  long i = strtol(word, &end, 10);
  if (*end || i < 0 || i >= r->held.ntensors)
    return NULL;
  *index = (int)i;
  return &r->held.tensors[i];
}

static bool
do_tensor(struct runner *r, const char *line)
{
  int i;
  int64_t dtype, output, elements, offset;
  struct tt_held_tensor *t = tensor_of(r, line, &i);
  if (!t || !tt_line_int(line, "dtype", &dtype) || dtype < 0 ||
      dtype >= TT_NDTYPES || !tt_line_int(line, "output", &output) ||
      !tt_line_int(line, "elements", &elements) || elements < 1 ||
      elements > r->bytes || !tt_line_int(line, "offset", &offset) ||
      offset < 0 || !tt_line_get(line, "name", t->name, sizeof t->name))
    return false;
  t->dtype = (enum tt_dtype)dtype;
  t->output = output != 0;
  t->elements = elements;
  r->offsets[i] = offset;
  int64_t size = elements * tt_dtype_bytes(t->dtype);
  return size <= r->bytes && offset <= r->bytes - size;
}

/* Copies the inputs into memory like that of a caller's arrays. */
static bool
do_ready(struct runner *r)
{
  for (int i = 0; i < r->held.ntensors; i++) {
    struct tt_held_tensor *t = &r->held.tensors[i];
    size_t size = (size_t)t->elements * (size_t)tt_dtype_bytes(t->dtype);
    if (!t->elements)
      return false;
    if (t->output) {
      t->reference = r->data + r->offsets[i];
    } else {
      if (!tt_guard_new(&t->input, size, i))
        return false;
      memcpy(t->input.data, r->data + r->offsets[i], size);
      tt_guard_freeze(&t->input);
    }
  }
  r->ready = true;
  tt_line_add(&r->out, "hello proto=%d", TT_PROTOCOL);
  return true;
}

static bool
do_tolerance(struct runner *r, const char *line)
{
  int i;
  struct tt_held_tensor *t = tensor_of(r, line, &i);
  if (!t || !t->output || !t->reference ||
      !tt_line_float(line, "rel", &t->tolerance.rel) ||
      !tt_line_float(line, "abs", &t->tolerance.abs))
    return false;
  t->rms = tt_check_rms(t->dtype, t->reference, t->elements);
  return true;
}

static bool
do_candidate(struct runner *r, const char *line)
{
  int k = r->job.n;
  if (k >= TT_MAX_DUEL)
    return false;
  r->job.n++;
  return tt_line_get(line, "object", r->job.candidates[k].object,
                     sizeof r->job.candidates[k].object) &&
         tt_line_get(line, "symbol", r->job.candidates[k].symbol,
                     sizeof r->job.candidates[k].symbol) &&
         tt_line_int(line, "prepared", &r->job.candidates[k].prepared) &&
         tt_line_int(line, "workspace", &r->job.candidates[k].workspace);
}

/* ---- running ----------------------------------------------------------- */

/* Waits for a child.  Returns whether its time was up and it was killed. */
static bool
wait_child(pid_t pid, double timeout, const sigset_t *chld, int *status)
{
  double deadline = tt_now() + timeout;
  bool killed = false;
  while (waitpid(pid, status, WNOHANG) == 0) {
    double left = deadline - tt_now();
    if (left <= 0) {
      kill(-pid, SIGKILL);
      kill(pid, SIGKILL);
      killed = true;
      left = 10;
    }
    struct timespec ts = {(time_t)left,
                          (long)(1e9 * (left - (double)(time_t)left))};
    sigtimedwait(chld, NULL, &ts);
  }
  kill(-pid, SIGKILL); /* what it may have forked */
  return killed;
}

static void
tell(struct runner *r, const char *id)
{
  static const char *const kinds[] = {"ok",     "load",  "crash",  "timeout",
                                      "memory", "wrong", "bounds", "broken"};
  const struct tt_report *rep = r->report;
  char message[768];
  tt_line_add(&r->out, "out %s err=%a", id, rep->error);
  if (rep->status != TT_RUN_OK) {
    unsigned kind = (unsigned)rep->status;
    tt_line_add(&r->out, "fail %s kind=%s msg=%s", id,
                kinds[kind < TT_RUN_BROKEN ? kind : TT_RUN_CRASH],
                tt_line_quote(rep->message, message, sizeof message));
  } else {
    for (int k = 0; k < rep->n; k++) {
      const struct tt_timing *t = &rep->timing[k];
      struct tt_sb list = {0};
      for (int i = 0; i < t->n && i < TT_MAX_REPEATS; i++)
        tt_sb_printf(&list, "%s%a", i ? "," : "", t->times[i]);
      tt_line_add(&r->out, "time %s k=%d inner=%lld gave_up=%d s=%s", id, k,
                  (long long)t->inner, t->gave_up, tt_sb_str(&list));
      tt_sb_free(&list);
    }
  }
  tt_line_add(&r->out, "end %s", id);
}

static bool
do_run(struct runner *r, const char *line)
{
  char id[16];
  int64_t mode;
  sigset_t chld, before;
  if (!tt_line_word(line, 1, id, sizeof id) ||
      !tt_line_int(line, "mode", &mode) || mode < 0 || mode > TT_RUN_DUEL ||
      !tt_line_float(line, "timeout", &r->job.timeout) ||
      !(r->job.timeout > 0 && r->job.timeout < 1e9) ||
      !tt_line_float(line, "best", &r->job.best) || r->job.n < 1)
    return false;
  r->job.mode = (enum tt_run_mode)mode;
  memset(r->report, 0, sizeof *r->report);
  sigemptyset(&chld);
  sigaddset(&chld, SIGCHLD);
  sigprocmask(SIG_BLOCK, &chld, &before);
  pid_t runner = getpid(), pid = fork();
  if (pid == 0) {
    sigprocmask(SIG_SETMASK, &before, NULL);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == runner)
      tt_candidate_run(&r->held, &r->job, r->report);
    _exit(1);
  }
  if (pid < 0)
    return false;
  setpgid(pid, pid);
  tt_line_add(&r->out, "begin %s pid=%d", id, (int)pid);
  flush(r);
  int status = 0;
  bool killed = wait_child(pid, r->job.timeout, &chld, &status);
  sigprocmask(SIG_SETMASK, &before, NULL);
  tt_candidate_judge(r->report, status, killed);
  tell(r, id);
  memset(&r->job, 0, sizeof r->job);
  return true;
}

/* ---- the loop ---------------------------------------------------------- */

static bool
command(struct runner *r, const char *line)
{
  char verb[16];
  if (!tt_line_word(line, 0, verb, sizeof verb))
    return false;
  if (!r->ready) {
    if (!strcmp(verb, "setup"))
      return !r->data && do_setup(r, line);
    if (!strcmp(verb, "tensor"))
      return r->data && do_tensor(r, line);
    return !strcmp(verb, "ready") && r->data && do_ready(r);
  }
  if (!strcmp(verb, "tol"))
    return do_tolerance(r, line);
  if (!strcmp(verb, "cand"))
    return do_candidate(r, line);
  if (!strcmp(verb, "run"))
    return do_run(r, line);
  return false;
}

/* Reads more of stdin; false at its end. */
static bool
read_more(struct runner *r)
{
  char buf[4096];
  ssize_t n;
  do
    n = read(0, buf, sizeof buf);
  while (n < 0 && errno == EINTR);
  if (n > 0)
    tt_sb_addn(&r->in, buf, (size_t)n);
  return n > 0;
}

/* Returns the exit status. */
static int
serve(struct runner *r)
{
  do {
    size_t pos = 0;
    char *line;
    while ((line = tt_line_next(&r->in, &pos))) {
      char *text = tt_line_check(line);
      if (text && !command(r, text)) {
        char quoted[256];
        tt_line_add(&r->out, "bad line=%s",
                    tt_line_quote(text, quoted, sizeof quoted));
        flush(r);
        return 1;
      }
      if (!flush(r))
        return 1;
    }
    size_t rest = r->in.len - pos;
    if (rest > TT_MAX_LINE)
      return 1;
    char keep[TT_MAX_LINE];
    memcpy(keep, tt_sb_str(&r->in) + pos, rest);
    tt_sb_clear(&r->in);
    tt_sb_addn(&r->in, keep, rest);
  } while (read_more(r));
  return 0;
}

int
tt_runner_main(int argc, char **argv)
{
  if (argc != 2 || strcmp(argv[1], "--tt-runner"))
    return -1;
  struct runner *r = tt_xmalloc(sizeof *r);
  memset(r, 0, sizeof *r);
  signal(SIGPIPE, SIG_IGN);
  signal(SIGINT, SIG_IGN);
  r->report = mmap(NULL, sizeof *r->report, PROT_READ | PROT_WRITE,
                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  int status = r->report == MAP_FAILED ? 1 : serve(r);
  for (int i = 0; i < r->held.ntensors; i++)
    tt_guard_free(&r->held.tensors[i].input);
  tt_sb_free(&r->in);
  tt_sb_free(&r->out);
  free(r);
  return status;
}
