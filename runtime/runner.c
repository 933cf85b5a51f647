/* Owns the tuner's side of a runner: the shared memory of the tensors, the
 * process, and the job in flight.  Whatever the process says or does not say,
 * each submitted job gets exactly one result. */
#include "config.h"

#include "runtime/runner.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "runtime/protocol.h"

#define MAX_BACKLOG ((size_t)1 << 20)
#define GRACE 10.0     /* seconds beyond a job's own timeout */
#define MAX_RESTARTS 3 /* of a runner that dies before it begins */

struct runner_tensor {
  struct tt_run_tensor t;
  int64_t offset;
  bool has_tolerance;
  struct tt_tolerance tolerance;
};

struct tt_runner {
  struct tt_runner_options o;
  struct runner_tensor *tensors;
  char *dir;
  struct tt_cpus cpus;
  int memory; /* descriptor of data */
  char *data;
  int64_t bytes;
  struct tt_process *process; /* NULL: to be started */
  bool busy;
  /* Of the job in flight: */
  struct tt_sb request; /* its lines, to be sent again after a restart */
  double timeout, started;
  bool begun, ended;
  int restarts;
  pid_t child;
  struct tt_run_result result;
};

/* ---- memory ------------------------------------------------------------ */

static bool
make_memory(struct tt_runner *r)
{
  r->bytes = 0;
  for (int i = 0; i < r->o.ntensors; i++) {
    struct runner_tensor *t = &r->tensors[i];
    int64_t size = t->t.elements * tt_dtype_bytes(t->t.dtype);
    t->offset = r->bytes;
    r->bytes += (size + 63) / 64 * 64;
  }
  r->memory = memfd_create("tcc-tune", MFD_CLOEXEC);
  if (r->memory < 0 || ftruncate(r->memory, r->bytes) != 0)
    return false;
  r->data = mmap(NULL, (size_t)r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                 r->memory, 0);
  if (r->data == MAP_FAILED)
    r->data = NULL;
  return r->data != NULL;
}

struct tt_runner *
tt_runner_new(const struct tt_runner_options *o, char **error)
{
  if (o->ntensors < 1 || o->ntensors > TT_MAX_TENSORS) {
    *error = tt_format("a function of %d parameters cannot be measured, %d "
                       "are the most",
                       o->ntensors, TT_MAX_TENSORS);
    return NULL;
  }
  struct tt_runner *r = tt_xmalloc(sizeof *r);
  memset(r, 0, sizeof *r);
  r->o = *o;
  r->memory = -1;
  r->dir = tt_xstrdup(o->dir);
  if (o->cpus) {
    r->cpus = *o->cpus;
    r->o.cpus = &r->cpus;
  }
  r->tensors = tt_xmalloc((size_t)o->ntensors * sizeof *r->tensors + 1);
  for (int i = 0; i < o->ntensors; i++) {
    memset(&r->tensors[i], 0, sizeof r->tensors[i]);
    r->tensors[i].t = o->tensors[i];
    r->tensors[i].t.name = tt_xstrdup(o->tensors[i].name);
  }
  *error = NULL;
  if (make_memory(r))
    return r;
  *error = tt_format("no memory for %lld bytes of inputs and outputs: %s",
                     (long long)r->bytes, strerror(errno));
  tt_runner_free(r);
  return NULL;
}

void
tt_runner_free(struct tt_runner *r)
{
  if (!r)
    return;
  tt_runner_cancel(r);
  tt_process_free(r->process);
  for (int i = 0; i < r->o.ntensors; i++)
    free((char *)(uintptr_t)r->tensors[i].t.name);
  free(r->tensors);
  if (r->data)
    munmap(r->data, (size_t)r->bytes);
  if (r->memory >= 0)
    close(r->memory);
  tt_sb_free(&r->request);
  free(r->dir);
  free(r);
}

void *
tt_runner_data(struct tt_runner *r, int tensor)
{
  return r->data + r->tensors[tensor].offset;
}

/* ---- starting ---------------------------------------------------------- */

static void
add_tolerance(const struct tt_runner *r, int i, struct tt_sb *sb)
{
  tt_line_add(sb, "tol %d rel=%a abs=%a", i, r->tensors[i].tolerance.rel,
              r->tensors[i].tolerance.abs);
}

static bool
start(struct tt_runner *r, char **error)
{
  char self[PATH_MAX], threads[48], name[64], cache[PATH_MAX + 32];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  self[n > 0 ? n : 0] = 0;
  /* The name is no use when the file was replaced meanwhile. */
  if (n <= 0 || access(self, X_OK) != 0)
    snprintf(self, sizeof self, "/proc/self/exe");
  snprintf(threads, sizeof threads, "OMP_NUM_THREADS=%d", r->o.threads);
  /* What drivers keep goes when the directory does. */
  snprintf(cache, sizeof cache, "POCL_CACHE_DIR=%s/cache", r->dir);
  const char *argv[] = {self, "--tt-runner", NULL};
  /* A BLAS that the program is linked with starts its threads when loaded:
   * the runner, which forks, has none. */
  const char *env[] = {threads,
                       "OMP_DYNAMIC=false",
                       "OPENBLAS_NUM_THREADS=1",
                       "BLIS_NUM_THREADS=1",
                       cache,
                       NULL};
  struct tt_process_options o = {.argv = argv,
                                 .cwd = r->dir,
                                 .env = env,
                                 .max_output = MAX_BACKLOG,
                                 .cpus = r->o.cpus,
                                 .input = true,
                                 .pass_fd = r->memory};
  r->process = tt_process_start(&o, error);
  if (!r->process)
    return false;
  struct tt_sb sb = {0};
  tt_line_add(&sb, "setup n=%d threads=%d device=%d bytes=%lld", r->o.ntensors,
              r->o.threads, r->o.on_device ? r->o.device : -1,
              (long long)r->bytes);
  for (int i = 0; i < r->o.ntensors; i++) {
    const struct runner_tensor *t = &r->tensors[i];
    tt_line_add(&sb,
                "tensor %d dtype=%d output=%d elements=%lld offset=%lld "
                "name=%s",
                i, (int)t->t.dtype, t->t.output, (long long)t->t.elements,
                (long long)t->offset,
                tt_line_quote(t->t.name, name, sizeof name));
  }
  tt_line_add(&sb, "ready");
  for (int i = 0; i < r->o.ntensors; i++)
    if (r->tensors[i].has_tolerance)
      add_tolerance(r, i, &sb);
  tt_process_write(r->process, sb.s, sb.len);
  tt_sb_free(&sb);
  return true;
}

void
tt_runner_tolerance(struct tt_runner *r, int i, const struct tt_tolerance *t)
{
  struct tt_sb sb = {0};
  r->tensors[i].tolerance = *t;
  r->tensors[i].has_tolerance = true;
  if (!r->process)
    return;
  add_tolerance(r, i, &sb);
  tt_process_write(r->process, sb.s, sb.len);
  tt_sb_free(&sb);
}

/* ---- jobs -------------------------------------------------------------- */

static void
send_request(struct tt_runner *r)
{
  tt_process_write(r->process, r->request.s, r->request.len);
  tt_process_deadline(r->process, r->timeout + GRACE);
  r->begun = r->ended = false;
}

bool
tt_runner_submit(struct tt_runner *r, const struct tt_run_job *job,
                 char **error)
{
  char object[128], symbol[256];
  tt_sb_clear(&r->request);
  for (int k = 0; k < job->n; k++) {
    const struct tt_run_candidate *c = &job->candidates[k];
    tt_line_add(&r->request,
                "cand object=%s symbol=%s prepared=%lld "
                "workspace=%lld",
                tt_line_quote(c->object, object, sizeof object),
                tt_line_quote(c->symbol, symbol, sizeof symbol),
                (long long)c->prepared, (long long)c->workspace);
  }
  tt_line_add(&r->request, "run %d mode=%d timeout=%a best=%a", job->id,
              (int)job->mode, job->timeout, job->best);
  *error = NULL;
  if (r->process && r->process->done) {
    tt_process_free(r->process);
    r->process = NULL;
  }
  if (!r->process && !start(r, error))
    return false;
  memset(&r->result, 0, sizeof r->result);
  r->result.id = job->id;
  r->result.n = job->n;
  r->timeout = job->timeout;
  r->started = tt_now();
  r->restarts = 0;
  r->child = 0;
  r->busy = true;
  send_request(r);
  return true;
}

bool
tt_runner_busy(const struct tt_runner *r)
{
  return r->busy;
}

struct tt_process *
tt_runner_process(const struct tt_runner *r)
{
  return r->process;
}

static enum tt_run_status
parse_kind(const char *kind)
{
  static const struct {
    const char *name;
    enum tt_run_status status;
  } kinds[] = {{"load", TT_RUN_LOAD},
               {"timeout", TT_RUN_TIMEOUT},
               {"memory", TT_RUN_MEMORY},
               {"wrong", TT_RUN_WRONG},
               {"bounds", TT_RUN_BOUNDS}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kind, kinds[i].name))
      return kinds[i].status;
  return TT_RUN_CRASH;
}

static void
read_time(struct tt_run_result *res, const char *line)
{
  int64_t k, inner, gave_up;
  if (!tt_line_int(line, "k", &k) || k < 0 || k >= res->n ||
      !tt_line_int(line, "inner", &inner) ||
      !tt_line_int(line, "gave_up", &gave_up))
    return;
  struct tt_timing *t = &res->timing[k];
  t->inner = inner;
  t->gave_up = gave_up != 0;
  t->n = tt_line_floats(line, "s", t->times, TT_MAX_REPEATS);
}

/* One line of the runner. */
static void
hear(struct tt_runner *r, const char *line)
{
  struct tt_run_result *res = &r->result;
  char verb[16], word[16];
  int64_t pid;
  if (!tt_line_word(line, 0, verb, sizeof verb))
    return;
  if (!strcmp(verb, "bad")) {
    res->status = TT_RUN_BROKEN;
    tt_line_get(line, "line", res->message, sizeof res->message);
    return;
  }
  if (!tt_line_word(line, 1, word, sizeof word) || atoi(word) != res->id)
    return;
  if (!strcmp(verb, "begin")) {
    r->begun = true;
    if (tt_line_int(line, "pid", &pid) && pid > 1)
      r->child = (pid_t)pid;
  } else if (!strcmp(verb, "time")) {
    read_time(res, line);
  } else if (!strcmp(verb, "out")) {
    tt_line_float(line, "err", &res->error);
  } else if (!strcmp(verb, "fail") &&
             tt_line_get(line, "kind", word, sizeof word)) {
    res->status = parse_kind(word);
    if (!tt_line_get(line, "msg", res->message, sizeof res->message))
      res->message[0] = 0;
  } else if (!strcmp(verb, "end")) {
    r->ended = true;
  }
}

static void
hear_all(struct tt_runner *r)
{
  struct tt_sb *out = &r->process->out;
  size_t pos = 0;
  char *line;
  while (!r->ended && (line = tt_line_next(out, &pos))) {
    char *text = tt_line_check(line);
    if (text)
      hear(r, text);
  }
  size_t rest = out->len - pos;
  if (pos && rest <= TT_MAX_LINE) {
    char keep[TT_MAX_LINE];
    memcpy(keep, tt_sb_str(out) + pos, rest);
    tt_sb_clear(out);
    tt_sb_addn(out, keep, rest);
  } else if (rest > TT_MAX_LINE) {
    tt_sb_clear(out);
  }
}

/* The runner died in the middle of a job. */
static void
mourn(struct tt_runner *r)
{
  struct tt_run_result *res = &r->result;
  char how[96];
  if (r->child > 1)
    kill(-r->child, SIGKILL);
  if (r->process->timed_out) {
    res->status = TT_RUN_TIMEOUT;
    snprintf(res->message, sizeof res->message, "the runner hung");
  } else {
    tt_process_describe(r->process, how, sizeof how);
    const char *err = tt_sb_str(&r->process->err);
    res->status = r->begun ? TT_RUN_CRASH : TT_RUN_BROKEN;
    snprintf(res->message, sizeof res->message, "the runner ended: %s%s%.*s",
             how, *err ? ": " : "", (int)strcspn(err, "\n"), err);
  }
  r->ended = true;
}

bool
tt_runner_take(struct tt_runner *r, struct tt_run_result *out)
{
  char *error = NULL;
  if (!r->busy)
    return false;
  hear_all(r);
  if (!r->ended && r->process->done) {
    bool again =
        !r->begun && !r->process->timed_out && r->restarts++ < MAX_RESTARTS;
    struct tt_process *dead = r->process;
    if (again) {
      r->process = NULL;
      if (start(r, &error)) {
        tt_process_free(dead);
        send_request(r);
        return false;
      }
      free(error);
      r->process = dead;
    }
    mourn(r);
  }
  if (!r->ended)
    return false;
  tt_process_deadline(r->process, 0);
  r->busy = false;
  r->result.run_seconds = tt_now() - r->started;
  if (r->result.status == TT_RUN_OK && !r->result.timing[0].n) {
    r->result.status = TT_RUN_CRASH;
    snprintf(r->result.message, sizeof r->result.message,
             "the runner told no time");
  }
  *out = r->result;
  return true;
}

void
tt_runner_cancel(struct tt_runner *r)
{
  if (!r->busy)
    return;
  hear_all(r);
  if (r->child > 1)
    kill(-r->child, SIGKILL);
  tt_process_free(r->process);
  r->process = NULL;
  r->busy = false;
}
