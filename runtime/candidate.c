/* Owns the child that runs candidates.  Nothing it does can be trusted, so
 * all it says goes through the report, and its end is judged outside. */
#include "config.h"

#include "runtime/candidate.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXTRA_BYTES ((int64_t)1 << 30)    /* beside what is known */
#define THREAD_BYTES ((int64_t)128 << 20) /* stack and malloc arena */

typedef void entry_fn(void **args, int what);

/* A candidate, loaded. */
struct loaded {
  entry_fn *entry;
  int64_t calls; /* timed ones */
  void *args[TT_MAX_TENSORS + 2];
  struct tt_guard prepared, workspace;
};

struct child {
  const struct tt_held *held;
  const struct tt_held_job *job;
  struct tt_report *report;
  struct tt_guard outputs[TT_MAX_TENSORS];
  struct loaded loaded[TT_MAX_DUEL];
};

/* Only for the signal handler, which gets no other context; set once, in a
 * child that runs nothing but one job. */
static struct tt_report *handler_report;

__attribute__((noreturn)) static void
finish(struct child *c, enum tt_run_status status)
{
  c->report->status = status;
  c->report->done = TT_REPORT_DONE;
  _exit(0);
}

/* ---- limits and signals ------------------------------------------------ */

/* Bytes of address space in use; no malloc, for the handler. */
static int64_t
address_space(void)
{
  char buf[64];
  int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd >= 0 ? read(fd, buf, sizeof buf) : 0;
  int64_t pages = 0;
  for (ssize_t i = 0; i < n && buf[i] >= '0' && buf[i] <= '9'; i++)
    pages = pages * 10 + (buf[i] - '0');
  if (fd >= 0)
    close(fd);
  return pages * sysconf(_SC_PAGESIZE);
}

static void
on_signal(int sig, siginfo_t *info, void *context)
{
  struct tt_report *r = handler_report;
  (void)context;
  r->used = address_space();
  r->address = sig == SIGSEGV || sig == SIGBUS ? info->si_addr : NULL;
  r->signal = sig;
  signal(sig, SIG_DFL);
  raise(sig);
}

static void
catch_signals(struct child *c)
{
  static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  stack_t alt = {.ss_size = 65536};
  struct sigaction sa = {.sa_sigaction = on_signal,
                         .sa_flags = SA_SIGINFO | SA_ONSTACK};
  handler_report = c->report;
  c->report->stack = (const char *)__builtin_frame_address(0);
  alt.ss_sp = tt_xmalloc(alt.ss_size);
  sigaltstack(&alt, NULL);
  sigemptyset(&sa.sa_mask);
  for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++)
    sigaction(fatal[i], &sa, NULL);
}

#ifdef __SANITIZE_ADDRESS__ /* its shadow memory takes terabytes */
#define LIMIT_SPACE 0
#else
#define LIMIT_SPACE 1
#endif

/* Bytes that the job needs beside what is mapped already. */
static int64_t
job_bytes(const struct child *c)
{
  int64_t sum = EXTRA_BYTES + c->held->threads * THREAD_BYTES;
  for (int i = 0; i < c->held->ntensors; i++) {
    const struct tt_held_tensor *t = &c->held->tensors[i];
    if (t->output)
      sum += t->elements * tt_dtype_bytes(t->dtype);
  }
  for (int i = 0; i < c->job->n; i++)
    sum += c->job->candidates[i].prepared + c->job->candidates[i].workspace;
  return sum;
}

static void
set_limit(__rlimit_resource_t what, int64_t value)
{
  /* At the hard limit of CPU time the kernel kills without a word. */
  struct rlimit r = {(rlim_t)value,
                     (rlim_t)(what == RLIMIT_CPU ? value + 2 : value)};
  setrlimit(what, &r);
}

static void
set_limits(struct child *c)
{
  if (LIMIT_SPACE) {
    c->report->limit = address_space() + job_bytes(c);
    set_limit(RLIMIT_AS, c->report->limit);
  }
  set_limit(RLIMIT_CORE, 0);
  set_limit(RLIMIT_FSIZE, 1 << 20);
  set_limit(RLIMIT_CPU, (int64_t)(c->job->timeout * c->held->threads) + 2);
}

/* The kernel gets no descriptor of ours, and nobody sees what it prints. */
static void
detach(void)
{
  int null = open("/dev/null", O_RDWR);
  for (int fd = 0; fd < 3; fd++)
    dup2(null, fd);
  for (int fd = 3; fd < 64; fd++)
    close(fd);
}

/* ---- buffers ----------------------------------------------------------- */

static void
add_region(struct child *c, const struct tt_guard *g, const char *name)
{
  struct tt_report *rep = c->report;
  struct tt_region *r = &rep->regions[rep->nregions++];
  r->lo = g->base;
  r->hi = g->base + g->total;
  r->zone_lo = g->zone;
  r->zone_hi = g->zone + g->zone_size;
  snprintf(r->name, sizeof r->name, "%s", name);
}

static void
need(struct child *c, struct tt_guard *g, int64_t bytes, int index,
     const char *name)
{
  if (bytes < 0 || !tt_guard_new(g, (size_t)bytes, index)) {
    snprintf(c->report->message, sizeof c->report->message,
             "no memory for %lld bytes of %s", (long long)bytes, name);
    finish(c, TT_RUN_MEMORY);
  }
  add_region(c, g, name);
}

static void
make_buffers(struct child *c)
{
  int n = c->held->ntensors;
  for (int i = 0; i < n; i++) {
    const struct tt_held_tensor *t = &c->held->tensors[i];
    if (t->output)
      need(c, &c->outputs[i], t->elements * tt_dtype_bytes(t->dtype), i,
           t->name);
    else
      add_region(c, &t->input, t->name);
  }
  for (int k = 0; k < c->job->n; k++) {
    struct loaded *l = &c->loaded[k];
    need(c, &l->prepared, c->job->candidates[k].prepared, n, "prepared");
    need(c, &l->workspace, c->job->candidates[k].workspace, n + 1,
         "the workspace");
    memset(l->prepared.data, 0xff, l->prepared.bytes);
    memset(l->workspace.data, 0xff, l->workspace.bytes);
    for (int i = 0; i < n; i++)
      l->args[i] = c->held->tensors[i].output ? c->outputs[i].data
                                              : c->held->tensors[i].input.data;
    l->args[n] = l->prepared.data;
    l->args[n + 1] = l->workspace.data;
  }
}

static void
poison(struct child *c)
{
  for (int i = 0; i < c->held->ntensors; i++) {
    const struct tt_held_tensor *t = &c->held->tensors[i];
    if (t->output)
      tt_check_poison(t->dtype, c->outputs[i].data, t->reference, t->elements);
  }
}

static void
load(struct child *c)
{
  char path[80];
  for (int k = 0; k < c->job->n; k++) {
    snprintf(path, sizeof path, "./%s", c->job->candidates[k].object);
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *entry = object ? dlsym(object, c->job->candidates[k].symbol) : NULL;
    if (!entry) {
      const char *why = dlerror();
      snprintf(c->report->message, sizeof c->report->message, "%s",
               why ? why : "the symbol is missing");
      bool memory = strstr(c->report->message, "annot allocate memory") ||
                    strstr(c->report->message, "annot map") ||
                    strstr(c->report->message, "failed to map");
      finish(c, memory ? TT_RUN_MEMORY : TT_RUN_LOAD);
    }
    memcpy(&c->loaded[k].entry, &entry, sizeof entry);
  }
}

/* ---- checks ------------------------------------------------------------ */

static void
check_guard(struct child *c, const struct tt_guard *g, const char *name)
{
  if (g->base && !tt_guard_intact(g)) {
    snprintf(c->report->message, sizeof c->report->message, "wrote outside %s",
             name);
    finish(c, TT_RUN_BOUNDS);
  }
}

static void
check_bounds(struct child *c)
{
  for (int i = 0; i < c->held->ntensors; i++)
    check_guard(c, &c->outputs[i], c->held->tensors[i].name);
  for (int k = 0; k < c->job->n; k++) {
    check_guard(c, &c->loaded[k].prepared, "prepared");
    check_guard(c, &c->loaded[k].workspace, "the workspace");
  }
}

static void
check_outputs(struct child *c)
{
  for (int i = 0; i < c->held->ntensors; i++) {
    const struct tt_held_tensor *t = &c->held->tensors[i];
    struct tt_check r;
    if (!t->output)
      continue;
    tt_check_compare(t->dtype, c->outputs[i].data, t->reference, t->elements,
                     &t->tolerance, t->rms, &r);
    if (r.error > c->report->error)
      c->report->error = r.error;
    if (r.wrong) {
      snprintf(c->report->message, sizeof c->report->message,
               "%s: %lld of %lld elements are wrong, the first is [%lld]: "
               "%.9g instead of %.9g",
               t->name, (long long)r.wrong, (long long)t->elements,
               (long long)r.first, r.got, r.want);
      finish(c, TT_RUN_WRONG);
    }
  }
}

static void
keep_reference(struct child *c)
{
  for (int i = 0; i < c->held->ntensors; i++) {
    const struct tt_held_tensor *t = &c->held->tensors[i];
    if (t->output)
      memcpy(t->reference, c->outputs[i].data, c->outputs[i].bytes);
  }
}

/* ---- the job ----------------------------------------------------------- */

static void
call_loaded(void *ctx)
{
  struct loaded *l = ctx;
  l->calls++;
  l->entry(l->args, 1);
}

/* One thread is timed by the processor time it got, so that whatever else the
 * machine does in between does not count; several by the clock on the wall. */
static double
thread_now(void *ctx)
{
  (void)ctx;
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double
wall_now(void *ctx)
{
  (void)ctx;
  return tt_now();
}

static double (*clock_of(const struct tt_held *held))(void *)
{
  return held->threads == 1 ? thread_now : wall_now;
}

/* Prepares, runs once on poisoned outputs and checks. Returns the seconds of
 * the run. */
static double
first_run(struct child *c, struct loaded *l)
{
  l->entry(l->args, 0);
  tt_guard_freeze(&l->prepared);
  double (*now)(void *) = clock_of(c->held);
  double start = now(NULL);
  l->entry(l->args, 1);
  double seconds = now(NULL) - start;
  check_bounds(c);
  if (c->job->mode == TT_RUN_REFERENCE)
    keep_reference(c);
  check_outputs(c);
  return seconds;
}

void
tt_candidate_run(const struct tt_held *held, const struct tt_held_job *job,
                 struct tt_report *report)
{
  struct child *c = tt_xmalloc(sizeof *c);
  memset(c, 0, sizeof *c);
  c->held = held;
  c->job = job;
  c->report = report;
  detach();
  catch_signals(c);
  set_limits(c);
  load(c);
  make_buffers(c);
  struct tt_timing_options o = tt_timing_defaults();
  struct tt_timed timed[TT_MAX_DUEL];
  for (int k = 0; k < job->n; k++) {
    poison(c);
    o.first = first_run(c, &c->loaded[k]);
    timed[k] = (struct tt_timed){call_loaded, clock_of(held), &c->loaded[k]};
  }
  o.best = job->best;
  report->n = job->n;
  poison(c); /* each call must do its work, not the first alone */
  if (job->mode == TT_RUN_DUEL) {
    o.min_time = 5e-3;
    o.budget = 0.25;
    tt_time_duel(job->n, timed, &o, report->timing);
  } else {
    tt_time_calls(&timed[0], &o, &report->timing[0]);
  }
  check_bounds(c);
  if (c->loaded[0].calls)
    check_outputs(c);
  finish(c, TT_RUN_OK);
}

/* ---- judging ----------------------------------------------------------- */

static bool
judge_address(struct tt_report *r)
{
  for (int i = 0; i < r->nregions; i++) {
    const struct tt_region *g = &r->regions[i];
    if (!r->address || r->address < g->lo || r->address >= g->hi)
      continue;
    bool inside = r->address >= g->zone_lo && r->address < g->zone_hi;
    r->status = TT_RUN_BOUNDS;
    snprintf(r->message, sizeof r->message, "%s %s",
             inside ? "wrote to" : "touched memory outside", g->name);
    return true;
  }
  return false;
}

static void
judge_signal(struct tt_report *r, int sig)
{
  r->status = TT_RUN_CRASH;
  if (sig == SIGXCPU) {
    r->status = TT_RUN_TIMEOUT;
    snprintf(r->message, sizeof r->message, "used too much CPU time");
  } else if (sig == SIGKILL) {
    r->status = TT_RUN_MEMORY;
    snprintf(r->message, sizeof r->message,
             "killed by the system, most likely for its memory");
  } else if (r->signal == sig && judge_address(r)) {
    return;
  } else if (r->signal == sig && r->limit &&
             r->used > r->limit - r->limit / 8) {
    r->status = TT_RUN_MEMORY;
    snprintf(r->message, sizeof r->message, "used more than %lld MiB",
             (long long)(r->limit >> 20));
  } else if (r->signal == sig && r->address && r->stack &&
             r->address < r->stack &&
             r->stack - r->address < (ptrdiff_t)1 << 30) {
    snprintf(r->message, sizeof r->message, "%s (stack overflow)",
             strsignal(sig));
  } else {
    snprintf(r->message, sizeof r->message, "killed by signal %d (%s)", sig,
             strsignal(sig));
  }
}

void
tt_candidate_judge(struct tt_report *r, int status, bool killed)
{
  bool known = r->signal >= 0 && r->nregions >= 0 &&
               r->nregions <= (int)(sizeof r->regions / sizeof *r->regions);
  if (!known)
    r->nregions = 0;
  r->message[sizeof r->message - 1] = 0;
  if (killed) {
    r->status = TT_RUN_TIMEOUT;
    snprintf(r->message, sizeof r->message, "ran too long");
  } else if (WIFSIGNALED(status)) {
    judge_signal(r, WTERMSIG(status));
  } else if (WEXITSTATUS(status) != 0 || r->done != TT_REPORT_DONE) {
    r->status = TT_RUN_CRASH;
    snprintf(r->message, sizeof r->message,
             "the code ended the process (exit status %d)",
             WEXITSTATUS(status));
  } else if (r->n < 0 || r->n > TT_MAX_DUEL ||
             (r->status == TT_RUN_OK && r->n < 1)) {
    r->status = TT_RUN_CRASH;
    snprintf(r->message, sizeof r->message, "the report is damaged");
  }
}
