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
typedef double clock_fn(void);

/* A candidate, loaded: a function, which may have a clock and a device of its
 * own, or kernels of OpenCL. */
struct loaded {
  struct child *child;
  entry_fn *entry;
  clock_fn *clock;
  struct tt_cl *cl;
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

__attribute__((noreturn)) static void
finish_with(struct child *c, enum tt_run_status status, const char *message)
{
  snprintf(c->report->message, sizeof c->report->message, "%s", message);
  finish(c, status);
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

/* What drivers of devices map and the threads they start have no limit that is
 * known. */
static void
set_limits(struct child *c)
{
  if (c->held->device >= 0) {
    set_limit(RLIMIT_CORE, 0);
    return;
  }
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

static bool
ends_with(const char *s, const char *suffix)
{
  size_t n = strlen(s), m = strlen(suffix);
  return n >= m && strcmp(s + n - m, suffix) == 0;
}

static void
load_kernels(struct child *c, struct loaded *l, const char *path)
{
  l->cl = tt_cl_load(c->held->device, path, c->report->message,
                     sizeof c->report->message);
  if (!l->cl)
    finish(c, TT_RUN_LOAD);
}

static void
load_object(struct child *c, struct loaded *l, const char *path,
            const char *symbol)
{
  char name[160];
  void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  void *entry = object ? dlsym(object, symbol) : NULL;
  if (!entry) {
    const char *why = dlerror();
    snprintf(c->report->message, sizeof c->report->message, "%s",
             why ? why : "the symbol is missing");
    bool memory = strstr(c->report->message, "annot allocate memory") ||
                  strstr(c->report->message, "annot map") ||
                  strstr(c->report->message, "failed to map");
    finish(c, memory ? TT_RUN_MEMORY : TT_RUN_LOAD);
  }
  memcpy(&l->entry, &entry, sizeof entry);
  snprintf(name, sizeof name, "%s_clock", symbol);
  void *clock = dlsym(object, name);
  memcpy(&l->clock, &clock, sizeof clock);
}

static void
load(struct child *c)
{
  char path[80];
  for (int k = 0; k < c->job->n; k++) {
    struct loaded *l = &c->loaded[k];
    l->child = c;
    snprintf(path, sizeof path, "./%s", c->job->candidates[k].object);
    if (ends_with(path, ".cl"))
      load_kernels(c, l, path);
    else
      load_object(c, l, path, c->job->candidates[k].symbol);
  }
}

/* ---- devices ----------------------------------------------------------- */

static void
need_cl(struct child *c, struct loaded *l, bool ok)
{
  if (!ok)
    finish_with(c, TT_RUN_CRASH, tt_cl_error(l->cl));
}

static bool
is_device(const struct loaded *l)
{
  return l->cl || l->clock;
}

/* Buffers of the device, numbered as the arguments of an entry are. */
static void
make_device_buffers(struct child *c, struct loaded *l)
{
  int n = c->held->ntensors;
  for (int i = 0; i < n + 2; i++) {
    const struct tt_held_tensor *t = &c->held->tensors[i];
    int64_t bytes = i == n       ? (int64_t)l->prepared.bytes
                    : i == n + 1 ? (int64_t)l->workspace.bytes
                                 : t->elements * tt_dtype_bytes(t->dtype);
    const void *data = i < n && !t->output ? t->input.data : NULL;
    if (!tt_cl_buffer(l->cl, bytes, data, c->report->message,
                      sizeof c->report->message))
      finish(c, TT_RUN_MEMORY);
  }
}

static void
prepare(struct child *c, struct loaded *l)
{
  if (l->cl) {
    make_device_buffers(c, l);
    need_cl(c, l, tt_cl_run(l->cl, true));
  } else {
    l->entry(l->args, 0);
  }
}

static void
run(struct child *c, struct loaded *l)
{
  if (l->cl)
    need_cl(c, l, tt_cl_run(l->cl, false));
  else
    l->entry(l->args, 1);
}

/* Poisoned outputs go to the device. */
static void
upload(struct child *c, struct loaded *l)
{
  if (!l->cl && l->clock)
    l->entry(l->args, 2);
  for (int i = 0; l->cl && i < c->held->ntensors; i++)
    if (c->held->tensors[i].output)
      need_cl(c, l, tt_cl_write(l->cl, i, c->outputs[i].data));
}

/* Results come from the device, if they were left in their place there. */
static void
download(struct child *c, struct loaded *l)
{
  int n = c->held->ntensors;
  if (!l->cl && l->clock)
    l->entry(l->args, 3);
  for (int i = 0; l->cl && i < n + 2; i++) {
    if (!tt_cl_intact(l->cl, i)) {
      need_cl(c, l, !*tt_cl_error(l->cl));
      snprintf(c->report->message, sizeof c->report->message,
               "wrote outside %s",
               i == n       ? "prepared"
               : i == n + 1 ? "the workspace"
                            : c->held->tensors[i].name);
      finish(c, TT_RUN_BOUNDS);
    }
    if (i < n && c->held->tensors[i].output)
      need_cl(c, l, tt_cl_read(l->cl, i, c->outputs[i].data));
  }
}

/* Inputs are constant on a device, too. */
static void
check_inputs(struct child *c, struct loaded *l)
{
  for (int i = 0; l->cl && i < c->held->ntensors; i++) {
    const struct tt_held_tensor *t = &c->held->tensors[i];
    void *copy = t->output ? NULL : malloc(t->input.bytes + 1);
    if (!copy)
      continue;
    need_cl(c, l, tt_cl_read(l->cl, i, copy));
    if (memcmp(copy, t->input.data, t->input.bytes) != 0) {
      snprintf(c->report->message, sizeof c->report->message, "wrote to %s",
               t->name);
      finish(c, TT_RUN_BOUNDS);
    }
    free(copy);
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
  run(l->child, l);
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

/* What a device did, by its own clock. */
static double
device_now(void *ctx)
{
  const struct loaded *l = ctx;
  return l->cl ? tt_cl_seconds(l->cl) : l->clock();
}

static double (*clock_of(const struct child *c, const struct loaded *l))(void *)
{
  if (is_device(l))
    return device_now;
  return c->held->threads == 1 ? thread_now : wall_now;
}

/* Prepares, runs once on poisoned outputs and checks. Returns the seconds of
 * the run; of a device those of another one, as drivers complete a kernel when
 * it is first started, and would do so between two kernels. */
static double
first_run(struct child *c, struct loaded *l)
{
  prepare(c, l);
  upload(c, l);
  tt_guard_freeze(&l->prepared);
  double (*now)(void *) = clock_of(c, l);
  double start = now(l);
  run(c, l);
  double seconds = now(l) - start;
  download(c, l);
  check_bounds(c);
  check_inputs(c, l);
  if (c->job->mode == TT_RUN_REFERENCE)
    keep_reference(c);
  check_outputs(c);
  if (is_device(l)) {
    start = now(l);
    run(c, l);
    seconds = now(l) - start;
  }
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
    timed[k] = (struct tt_timed){call_loaded, clock_of(c, &c->loaded[k]),
                                 &c->loaded[k]};
  }
  o.best = job->best;
  report->n = job->n;
  poison(c); /* each call must do its work, not the first alone */
  for (int k = 0; k < job->n; k++)
    upload(c, &c->loaded[k]);
  if (job->mode == TT_RUN_DUEL) {
    o.min_time = 5e-3;
    o.budget = 0.25;
    tt_time_duel(job->n, timed, &o, report->timing);
  } else {
    tt_time_calls(&timed[0], &o, &report->timing[0]);
  }
  check_bounds(c);
  for (int k = 0; k < job->n; k++) {
    bool own = is_device(&c->loaded[k]);
    if (!c->loaded[k].calls || (k > 0 && !own))
      continue;
    download(c, &c->loaded[k]);
    check_outputs(c);
  }
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
