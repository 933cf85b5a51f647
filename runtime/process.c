/* Owns child processes.  Between fork and exec only calls that are safe
 * after fork in a program with threads are made; everything that allocates
 * happens before.  All descriptors are close-on-exec. */
#include "config.h"

#include "runtime/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

double
tt_now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

char *
tt_format(const char *fmt, ...)
{
  struct tt_sb sb = {0};
  va_list ap;
  va_start(ap, fmt);
  tt_sb_vprintf(&sb, fmt, ap);
  va_end(ap);
  return sb.s ? sb.s : tt_xstrdup("");
}

/* ---- the child's side -------------------------------------------------- */

/* The ends of pipes that the child gets; -1: none. */
struct ends {
  int in, out, err, report;
};

/* `grace`: how far the hard limit lies beyond; at that of CPU time the kernel
 * kills without a word. */
static void
limit(int what, int64_t value, int64_t grace)
{
  struct rlimit r;
  if (value <= 0 || getrlimit((__rlimit_resource_t)what, &r) != 0)
    return;
  rlim_t soft = (rlim_t)value, hard = (rlim_t)(value + grace);
  if (r.rlim_max == RLIM_INFINITY || hard < r.rlim_max)
    r.rlim_max = hard;
  r.rlim_cur = soft < r.rlim_max ? soft : r.rlim_max;
  setrlimit((__rlimit_resource_t)what, &r);
}

static bool
place_fds(const struct tt_process_options *o, const struct ends *e)
{
  int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (dup2(e->in >= 0 ? e->in : null, 0) < 0 || dup2(e->out, 1) < 0 ||
      dup2(e->err, 2) < 0)
    return false;
  /* dup2 of a descriptor onto itself would leave it close-on-exec. */
  if (o->pass_fd == 3)
    return fcntl(3, F_SETFD, 0) == 0;
  return o->pass_fd < 0 || dup2(o->pass_fd, 3) >= 0;
}

__attribute__((noreturn)) static void
child(const struct tt_process_options *o, char *const *env, struct ends *e,
      pid_t parent)
{
  sigset_t none;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(126);
  /* The report must not be where descriptor 3 is going to be. */
  if (e->report <= 3)
    e->report = fcntl(e->report, F_DUPFD_CLOEXEC, 10);
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  signal(SIGINT, SIG_DFL);
  signal(SIGTERM, SIG_DFL);
  signal(SIGPIPE, SIG_DFL);
  if (place_fds(o, e) && (!o->cwd || chdir(o->cwd) == 0)) {
    struct rlimit core = {0, 0};
    setrlimit(RLIMIT_CORE, &core);
    limit(RLIMIT_AS, o->limit_as, 0);
    limit(RLIMIT_CPU, o->limit_cpu, 2);
    limit(RLIMIT_FSIZE, o->limit_fsize, 0);
    if (o->cpus)
      tt_cpus_bind(0, o->cpus);
    execvpe(o->argv[0], (char *const *)(uintptr_t)o->argv, env);
  }
  int code = errno;
  ssize_t ignored = write(e->report, &code, sizeof code);
  (void)ignored;
  _exit(127);
}

/* ---- starting ---------------------------------------------------------- */

/* The environment with `extra` in front of what it replaces. */
static char **
environment(const char *const *extra)
{
  size_t n = 0, m = 0;
  while (environ && environ[n])
    n++;
  while (extra && extra[m])
    m++;
  char **env = tt_xmalloc((n + m + 1) * sizeof *env);
  size_t k = 0;
  for (size_t i = 0; i < n; i++) {
    bool replaced = false;
    for (size_t j = 0; j < m; j++) {
      size_t len = (size_t)(strchr(extra[j], '=') - extra[j]) + 1;
      if (strncmp(environ[i], extra[j], len) == 0)
        replaced = true;
    }
    if (!replaced)
      env[k++] = environ[i];
  }
  for (size_t j = 0; j < m; j++)
    env[k++] = (char *)(uintptr_t)extra[j];
  env[k] = NULL;
  return env;
}

static void
close_fd(int *fd)
{
  if (*fd >= 0)
    close(*fd);
  *fd = -1;
}

/* Waits for exec: returns 0, or the errno of its failure. */
static int
exec_result(int fd)
{
  int code = 0;
  ssize_t n;
  do
    n = read(fd, &code, sizeof code);
  while (n < 0 && errno == EINTR);
  return n == (ssize_t)sizeof code ? code : 0;
}

/* Opens the pipes: p[0..1] out, p[2..3] err, p[4..5] exec's report, p[6..7]
 * stdin (a socket, so that writing to a dead child raises no signal). */
static bool
open_pipes(int *p, bool input)
{
  for (int i = 0; i < 8; i++)
    p[i] = -1;
  return pipe2(p, O_CLOEXEC) == 0 && pipe2(p + 2, O_CLOEXEC) == 0 &&
         pipe2(p + 4, O_CLOEXEC) == 0 &&
         (!input ||
          socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, p + 6) == 0);
}

static struct tt_process *
new_process(const struct tt_process_options *o, pid_t pid, int *pipes)
{
  struct tt_process *p = tt_xmalloc(sizeof *p);
  memset(p, 0, sizeof *p);
  p->pid = pid;
  p->max_output = o->max_output;
  p->started = tt_now();
  p->deadline = o->timeout > 0 ? p->started + o->timeout : 0;
  p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
  p->outfd = pipes[0];
  p->errfd = pipes[2];
  p->infd = pipes[6];
  pipes[0] = pipes[2] = pipes[6] = -1;
  fcntl(p->outfd, F_SETFL, O_NONBLOCK);
  fcntl(p->errfd, F_SETFL, O_NONBLOCK);
  return p;
}

struct tt_process *
tt_process_start(const struct tt_process_options *o, char **error)
{
  int pipes[8];
  struct tt_process *p = NULL;
  int code = 0;
  char **env = environment(o->env);
  *error = NULL;
  if (!open_pipes(pipes, o->input)) {
    code = errno;
  } else {
    struct ends e = {pipes[7], pipes[1], pipes[3], pipes[5]};
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid == 0)
      child(o, env, &e, parent);
    if (pid < 0) {
      code = errno;
    } else {
      setpgid(pid, pid); /* both sides do: neither knows who is first */
      close_fd(&pipes[5]);
      code = exec_result(pipes[4]);
      if (code)
        waitpid(pid, NULL, 0);
      else
        p = new_process(o, pid, pipes);
    }
  }
  for (int i = 0; i < 8; i++)
    close_fd(&pipes[i]);
  free(env);
  if (!p)
    *error = tt_format("cannot run '%s': %s", o->argv[0], strerror(code));
  return p;
}

/* ---- running ----------------------------------------------------------- */

/* Reads what there is, but not for ever; closes at the end.  Returns whether
 * there was anything. */
static bool
drain(int *fd, struct tt_sb *sb, size_t max)
{
  char buf[8192];
  bool any = false;
  for (int rounds = 0; *fd >= 0 && rounds < 64; rounds++) {
    ssize_t n = read(*fd, buf, sizeof buf);
    if (n > 0) {
      any = true;
      size_t room = sb->len < max ? max - sb->len : 0;
      tt_sb_addn(sb, buf, (size_t)n < room ? (size_t)n : room);
    } else if (n == 0) {
      close_fd(fd);
    } else if (errno != EINTR) {
      if (errno != EAGAIN)
        close_fd(fd);
      break;
    }
  }
  return any;
}

/* Has it ended?  Then takes its status and kills what it left behind. */
static bool
reap(struct tt_process *p)
{
  pid_t r;
  struct rusage use = {0};
  do
    r = wait4(p->pid, &p->status, WNOHANG, &use);
  while (r < 0 && errno == EINTR);
  if (r == 0)
    return false;
  kill(-p->pid, SIGKILL);
  p->done = true;
  p->seconds = tt_now() - p->started;
  p->cpu_seconds = (double)(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
                   1e-6 * (double)(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
  drain(&p->outfd, &p->out, p->max_output);
  drain(&p->errfd, &p->err, p->max_output);
  close_fd(&p->outfd);
  close_fd(&p->errfd);
  close_fd(&p->infd);
  close_fd(&p->pidfd);
  return true;
}

static void
expire(struct tt_process *p, bool wrote)
{
  if (p->deadline <= 0 || tt_now() < p->deadline)
    return;
  if (wrote && !p->late) {
    p->late = true;
    return;
  }
  p->timed_out = true;
  p->deadline = 0;
  kill(-p->pid, SIGKILL);
  kill(p->pid, SIGKILL);
}

/* Seconds to wait at most: until the first deadline, and not long where the
 * kernel has no pidfd to tell of an end. */
static double
patience(struct tt_process *const *ps, int n, double timeout)
{
  double now = tt_now();
  for (int i = 0; i < n; i++) {
    const struct tt_process *p = ps[i];
    if (!p || p->done)
      continue;
    double left = p->deadline > 0 ? p->deadline - now : -1;
    if (p->deadline > 0 && left < 0)
      left = 0;
    if (p->pidfd < 0 && (left < 0 || left > 0.005))
      left = 0.005;
    if (left >= 0 && (timeout < 0 || left < timeout))
      timeout = left;
  }
  return timeout;
}

int
tt_process_poll(struct tt_process *const *ps, int n, double timeout)
{
  struct pollfd *fds = tt_xmalloc(((size_t)n * 3 + 1) * sizeof *fds);
  nfds_t nfds = 0;
  for (int i = 0; i < n; i++) {
    if (!ps[i] || ps[i]->done)
      continue;
    int want[3] = {ps[i]->pidfd, ps[i]->outfd, ps[i]->errfd};
    for (int k = 0; k < 3; k++)
      if (want[k] >= 0)
        fds[nfds++] = (struct pollfd){want[k], POLLIN, 0};
  }
  double t = patience(ps, n, timeout);
  struct timespec ts = {(time_t)t, (long)(1e9 * (t - (double)(time_t)t))};
  if (nfds || t >= 0)
    ppoll(fds, nfds, t < 0 ? NULL : &ts, NULL);
  free(fds);
  int ended = 0;
  for (int i = 0; i < n; i++) {
    struct tt_process *p = ps[i];
    if (!p || p->done)
      continue;
    bool wrote = drain(&p->outfd, &p->out, p->max_output);
    wrote |= drain(&p->errfd, &p->err, p->max_output);
    if (reap(p))
      ended++;
    else
      expire(p, wrote);
  }
  return ended;
}

bool
tt_process_write(struct tt_process *p, const char *text, size_t n)
{
  while (n && p->infd >= 0) {
    ssize_t k = send(p->infd, text, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (k < 0 && errno == EINTR)
      continue;
    if (k <= 0)
      return false;
    text += k;
    n -= (size_t)k;
  }
  return n == 0;
}

void
tt_process_deadline(struct tt_process *p, double seconds)
{
  p->deadline = seconds > 0 ? tt_now() + seconds : 0;
  p->late = false;
}

void
tt_process_kill(struct tt_process *p)
{
  if (p->done)
    return;
  kill(-p->pid, SIGKILL);
  kill(p->pid, SIGKILL);
  while (!p->done)
    tt_process_poll(&p, 1, -1);
}

void
tt_process_free(struct tt_process *p)
{
  if (!p)
    return;
  tt_process_kill(p);
  tt_sb_free(&p->out);
  tt_sb_free(&p->err);
  free(p);
}

struct tt_process *
tt_process_run(const struct tt_process_options *o, char **error)
{
  struct tt_process *p = tt_process_start(o, error);
  while (p && !p->done)
    tt_process_poll(&p, 1, -1);
  return p;
}

void
tt_process_describe(const struct tt_process *p, char *buf, size_t size)
{
  if (p->timed_out)
    snprintf(buf, size, "ran out of time");
  else if (WIFSIGNALED(p->status))
    snprintf(buf, size, "killed by signal %d (%s)", WTERMSIG(p->status),
             strsignal(WTERMSIG(p->status)));
  else
    snprintf(buf, size, "exit status %d", WEXITSTATUS(p->status));
}
