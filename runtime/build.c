/* Owns the private directory and the running compilers.  Sources live as
 * long as their build, objects until they are discarded; the directory is
 * removed with all that is in it. */
#include "config.h"

#include "runtime/build.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "runtime/words.h"

/* Enough for any sane object, and a stop for the insane ones. */
#define MAX_OBJECT_BYTES ((int64_t)1 << 30)
#define MAX_OUTPUT 16384
#define DIR_PREFIX "tcc-tune-"
#define STALE_SECONDS 600

struct job {
  struct tt_process *process; /* NULL: free */
  int id;
  char source[32], object[32];
};

struct tt_builder {
  char **cc, **flags;
  const char **argv; /* cc, flags, and room for the rest */
  int nfixed;
  struct tt_builder_options o;
  struct tt_cpus cpus, spare;
  char *dir, *tmpdir; /* tmpdir: "TMPDIR=dir" */
  int lock;           /* holds the directory */
  int serial;         /* of files */
  const char *suffix; /* of sources */
  int cpu_seconds;    /* of one build; 0: no limit */
  struct job *jobs;   /* o.jobs and the spare one */
};

/* ---- words of the compiler --------------------------------------------- */

/* Splits and refuses an empty command. */
static char **
split(const char *line, const char *what, bool need, char **error)
{
  int n;
  const char *bad;
  char **words = tt_words_split(line ? line : "", &n, &bad);
  if (!words) {
    *error = tt_format("%s '%s': %s", what, line, bad);
  } else if (need && n == 0) {
    tt_words_free(words);
    words = NULL;
    *error = tt_format("%s is empty", what);
  }
  return words;
}

/* The command's program, where it is a relative path: compilers run in
 * another folder than the one it is relative to. */
static void
make_absolute(char **words)
{
  char *path = strchr(words[0], '/') && words[0][0] != '/'
                   ? realpath(words[0], NULL)
                   : NULL;
  if (path) {
    free(words[0]);
    words[0] = path;
  }
}

/* words of cc + words of cflags + extra, on the heap, ended by NULL. */
static const char **
join(char **cc, char **flags, const char *const *extra, int *nfixed)
{
  int n = 0, m = 0, k = 0;
  while (cc[n])
    n++;
  while (flags && flags[m])
    m++;
  while (extra && extra[k])
    k++;
  const char **argv = tt_xmalloc((size_t)(n + m + k + 16) * sizeof *argv);
  for (int i = 0; i < n; i++)
    argv[i] = cc[i];
  for (int i = 0; i < m; i++)
    argv[n + i] = flags[i];
  for (int i = 0; i < k; i++)
    argv[n + m + i] = extra[i];
  argv[n + m + k] = NULL;
  if (nfixed)
    *nfixed = n + m;
  return argv;
}

/* Runs cc with flags and extra words; the output is in the result. */
static struct tt_process *
ask(const char *cc, const char *cflags, const char *const *extra, char **error)
{
  char **w = split(cc, "the compiler command", true, error);
  char **f = w ? split(cflags, "the compiler flags", false, error) : NULL;
  struct tt_process *p = NULL;
  if (w && f) {
    const char **argv = join(w, f, extra, NULL);
    static const char *const env[] = {"LC_ALL=C", NULL};
    struct tt_process_options o = {.argv = argv,
                                   .env = env,
                                   .timeout = 30,
                                   .max_output = 1 << 20,
                                   .pass_fd = -1};
    p = tt_process_run(&o, error);
    free(argv);
  }
  tt_words_free(w);
  tt_words_free(f);
  return p;
}

static bool
succeeded(const struct tt_process *p)
{
  return !p->timed_out && WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0;
}

/* A copy of the line at `s`, without controls and too much length. */
static char *
copy_line(const char *s)
{
  size_t n = strcspn(s, "\n");
  if (n > 300)
    n = 300;
  char *r = tt_xmalloc(n + 1);
  memcpy(r, s, n);
  r[n] = 0;
  for (char *p = r; *p; p++)
    if (iscntrl((unsigned char)*p))
      *p = ' ';
  return r;
}

/* The line to show of what a compiler wrote: the first with "error", else
 * the first that is not blank; NULL if there is none. */
static char *
error_line(const char *text)
{
  const char *first = NULL;
  for (const char *s = text; *s; s += strcspn(s, "\n"), s += *s == '\n') {
    size_t n = strcspn(s, "\n");
    size_t blank = strspn(s, " \t\r");
    if (blank >= n)
      continue;
    if (!first)
      first = s;
    const char *e = strstr(s, "error");
    if (e && e < s + n)
      return copy_line(s);
  }
  return first ? copy_line(first) : NULL;
}

static char *
failure(const struct tt_process *p)
{
  char how[96];
  char *line = error_line(tt_sb_str(&p->err));
  if (line)
    return line;
  tt_process_describe(p, how, sizeof how);
  return tt_format("the compiler failed: %s", how);
}

/* The first line of what it says, and that of its release, where it has one of
 * its own, as nvcc does. */
static char *
version_of(const char *text)
{
  char *first = copy_line(text);
  const char *release = strstr(text, ", release ");
  if (!release || release < text + strlen(first))
    return first;
  char *line = copy_line(release + strlen(", "));
  char *both = tt_format("%s, %s", first, line);
  free(first);
  free(line);
  return both;
}

char *
tt_compiler_version(const char *cc, char **error)
{
  static const char *const extra[] = {"--version", NULL};
  struct tt_process *p = ask(cc, "", extra, error);
  char *version = NULL;
  if (p && succeeded(p) && p->out.len) {
    version = version_of(tt_sb_str(&p->out));
  } else if (p) {
    char *why = failure(p);
    *error = tt_format("'%s --version' fails: %s", cc, why);
    free(why);
  }
  tt_process_free(p);
  return version;
}

bool
tt_compiler_vectors(const char *cc, const char *cflags, int *bytes,
                    int *registers)
{
  static const char *const extra[] = {"-dM", "-E",        "-x",
                                      "c",   "/dev/null", NULL};
  static const struct {
    const char *macro;
    int bytes, registers;
  } known[] = {
      {"#define __AVX512F__ ", 64, 32},   {"#define __AVX__ ", 32, 16},
      {"#define __SSE2__ ", 16, 16},      {"#define __ARM_NEON ", 16, 32},
      {"#define __ALTIVEC__ ", 16, 32},   {"#define __VX__ ", 16, 32},
      {"#define __loongarch_sx ", 16, 32}};
  char *error = NULL;
  struct tt_process *p = ask(cc, cflags, extra, &error);
  bool ok = p && succeeded(p) && p->out.len;
  *bytes = 0;
  *registers = 16;
  for (size_t i = 0; ok && i < sizeof known / sizeof *known; i++) {
    if (strstr(tt_sb_str(&p->out), known[i].macro)) {
      *bytes = known[i].bytes;
      *registers = known[i].registers;
      break;
    }
  }
  tt_process_free(p);
  free(error);
  return ok;
}

/* ---- the directory ----------------------------------------------------- */

/* Removes what is in the directory `fd` (closed afterwards), and below. */
static void
remove_below(int fd)
{
  DIR *d = fdopendir(fd);
  if (!d) {
    close(fd);
    return;
  }
  for (struct dirent *e; (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
      continue;
    if (unlinkat(fd, e->d_name, 0) == 0)
      continue;
    int sub =
        openat(fd, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (sub >= 0)
      remove_below(sub);
    unlinkat(fd, e->d_name, AT_REMOVEDIR);
  }
  closedir(d);
}

static void
remove_dir(const char *dir)
{
  int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd >= 0)
    remove_below(fd);
  rmdir(dir);
}

/* Removes directories of runs that were killed: ours, not young, and with no
 * process that holds their lock. */
static void
sweep(const char *base)
{
  DIR *d = opendir(base);
  if (!d)
    return;
  for (struct dirent *e; (e = readdir(d));) {
    struct stat st;
    if (strncmp(e->d_name, DIR_PREFIX, strlen(DIR_PREFIX)))
      continue;
    int fd = openat(dirfd(d), e->d_name,
                    O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
      continue;
    if (fstat(fd, &st) == 0 && st.st_uid == geteuid() &&
        st.st_mtime + STALE_SECONDS < time(NULL) &&
        flock(fd, LOCK_EX | LOCK_NB) == 0) {
      remove_below(fd); /* closes it */
      unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
    } else {
      close(fd);
    }
  }
  closedir(d);
}

/* Makes the directory and locks it for as long as *lock is open. */
static char *
make_dir(int *lock, char **error)
{
  const char *base = getenv("TMPDIR");
  if (!base || base[0] != '/')
    base = "/tmp";
  sweep(base);
  char *dir = tt_format("%s/" DIR_PREFIX "XXXXXX", base);
  if (mkdtemp(dir)) {
    *lock = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*lock >= 0)
      flock(*lock, LOCK_SH);
    return dir;
  }
  *error =
      tt_format("cannot make a directory in %s: %s", base, strerror(errno));
  free(dir);
  return NULL;
}

static bool
write_file(const struct tt_builder *b, const char *name, const char *text,
           size_t n, char **error)
{
  char *path = tt_format("%s/%s", b->dir, name);
  int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  bool ok = fd >= 0;
  while (ok && n) {
    ssize_t k = write(fd, text, n);
    if (k < 0 && errno == EINTR)
      continue;
    ok = k > 0;
    text += ok ? k : 0;
    n -= ok ? (size_t)k : 0;
  }
  int code = errno;
  if (fd >= 0 && close(fd) != 0 && ok) {
    code = errno;
    ok = false;
  }
  if (!ok)
    *error = tt_format("cannot write %s: %s", path, strerror(code));
  free(path);
  return ok;
}

static void
remove_file(const struct tt_builder *b, const char *name)
{
  char *path = tt_format("%s/%s", b->dir, name);
  unlink(path);
  free(path);
}

/* ---- building ---------------------------------------------------------- */

static bool
probe(struct tt_builder *b, char **error)
{
  static const char text[] =
      "int tt_probe(int x);\nint tt_probe(int x) { return x + 1; }\n";
  if (!tt_builder_start(b, false, 0, text, sizeof text - 1, error))
    return false;
  struct tt_built built = {0};
  while (!tt_builder_take(b, &built))
    tt_process_poll(&b->jobs[0].process, 1, -1);
  tt_builder_discard(b, built.object);
  if (built.status == TT_BUILT)
    return true;
  *error = tt_format("the compiler '%s' with flags '%s' does not work: %s",
                     b->o.cc, b->o.cflags, built.message);
  free(built.message);
  return false;
}

/* Takes the compiler of the options into use, and tries it. */
static bool
use_compiler(struct tt_builder *b, char **error)
{
  b->cc = split(b->o.cc, "the compiler command", true, error);
  if (b->cc)
    make_absolute(b->cc);
  if (b->cc)
    b->flags = split(b->o.cflags, "the compiler flags", false, error);
  if (!b->flags)
    return false;
  b->argv = join(b->cc, b->flags, NULL, &b->nfixed);
  return probe(b, error);
}

static void
drop_compiler(struct tt_builder *b)
{
  free(b->argv);
  tt_words_free(b->cc);
  tt_words_free(b->flags);
  free((char *)(uintptr_t)b->o.cc);
  free((char *)(uintptr_t)b->o.cflags);
  b->argv = NULL;
  b->cc = b->flags = NULL;
}

bool
tt_builder_switch(struct tt_builder *b, const char *cc, const char *cflags,
                  const char *suffix, char **error)
{
  drop_compiler(b);
  b->o.cc = tt_xstrdup(cc);
  b->o.cflags = tt_xstrdup(cflags);
  b->suffix = suffix;
  return use_compiler(b, error);
}

struct tt_builder *
tt_builder_new(const struct tt_builder_options *o, char **error)
{
  struct tt_builder *b = tt_xmalloc(sizeof *b);
  memset(b, 0, sizeof *b);
  b->o = *o;
  b->lock = -1;
  b->o.cc = tt_xstrdup(o->cc ? o->cc : "");
  b->o.cflags = tt_xstrdup(o->cflags ? o->cflags : "");
  if (b->o.jobs < 1)
    b->o.jobs = 1;
  if (o->cpus) {
    b->cpus = *o->cpus;
    b->o.cpus = &b->cpus;
  }
  if (o->spare) {
    b->spare = *o->spare;
    b->o.spare = &b->spare;
  }
  b->jobs = tt_xmalloc(((size_t)b->o.jobs + 1) * sizeof *b->jobs);
  memset(b->jobs, 0, ((size_t)b->o.jobs + 1) * sizeof *b->jobs);
  *error = NULL;
  b->suffix = ".c";
  b->dir = make_dir(&b->lock, error);
  if (b->dir) {
    b->tmpdir = tt_format("TMPDIR=%s", b->dir);
    if (use_compiler(b, error))
      return b;
  }
  tt_builder_free(b);
  return NULL;
}

void
tt_builder_free(struct tt_builder *b)
{
  if (!b)
    return;
  tt_builder_cancel(b);
  if (b->dir)
    remove_dir(b->dir);
  if (b->lock >= 0)
    close(b->lock);
  free(b->dir);
  free(b->tmpdir);
  drop_compiler(b);
  free(b->jobs);
  free(b);
}

const char *
tt_builder_dir(const struct tt_builder *b)
{
  return b->dir;
}

void
tt_builder_limits(struct tt_builder *b, double seconds, int cpu_seconds)
{
  b->o.timeout = seconds;
  b->cpu_seconds = cpu_seconds;
}

int
tt_builder_running(const struct tt_builder *b)
{
  int n = 0;
  for (int i = 0; i <= b->o.jobs; i++)
    n += b->jobs[i].process != NULL;
  return n;
}

bool
tt_builder_on_spare(const struct tt_builder *b)
{
  return b->jobs[b->o.jobs].process != NULL;
}

bool
tt_builder_free_job(const struct tt_builder *b, bool spare)
{
  if (spare)
    return b->o.spare && !tt_builder_on_spare(b);
  return tt_builder_running(b) - tt_builder_on_spare(b) < b->o.jobs;
}

bool
tt_builder_start(struct tt_builder *b, bool spare, int id, const char *source,
                 size_t length, char **error)
{
  struct job *j = spare ? &b->jobs[b->o.jobs] : b->jobs;
  while (j->process)
    j++;
  j->id = id;
  snprintf(j->source, sizeof j->source, "c%d%s", b->serial, b->suffix);
  snprintf(j->object, sizeof j->object, "c%d.so", b->serial);
  b->serial++;
  if (!write_file(b, j->source, source, length, error)) {
    remove_file(b, j->source);
    return false;
  }
  const char *rest[] = {"-shared", "-fPIC", "-o", j->object,
                        j->source, "-lm",   NULL};
  memcpy(b->argv + b->nfixed, rest, sizeof rest);
  const char *env[] = {"LC_ALL=C", b->tmpdir, NULL};
  /* A limit in any case: a pass of the compiler may outlive this program. */
  int64_t cpu = b->cpu_seconds ? b->cpu_seconds : (int64_t)b->o.timeout + 1;
  struct tt_process_options o = {.argv = b->argv,
                                 .cwd = b->dir,
                                 .env = env,
                                 .timeout = b->o.timeout,
                                 .max_output = MAX_OUTPUT,
                                 .limit_cpu = cpu,
                                 .limit_fsize = MAX_OBJECT_BYTES,
                                 .cpus = spare ? b->o.spare : b->o.cpus,
                                 .pass_fd = -1};
  j->process = tt_process_start(&o, error);
  if (!j->process)
    remove_file(b, j->source);
  return j->process != NULL;
}

bool
tt_builder_put(struct tt_builder *b, const char *suffix, const char *text,
               size_t length, char object[32], char **error)
{
  snprintf(object, 32, "c%d%s", b->serial++, suffix);
  return write_file(b, object, text, length, error);
}

int
tt_builder_processes(const struct tt_builder *b, struct tt_process **out,
                     int max)
{
  int n = 0;
  for (int i = 0; i <= b->o.jobs && n < max; i++)
    if (b->jobs[i].process)
      out[n++] = b->jobs[i].process;
  return n;
}

/* Does the compiler complain of the machine and not of the source? */
static bool
is_machine_trouble(const char *text)
{
  static const char *const signs[] = {
      "No space left on device", "Disk quota exceeded",
      "Cannot create temporary file", "Read-only file system"};
  for (size_t i = 0; i < sizeof signs / sizeof *signs; i++)
    if (strstr(text, signs[i]))
      return true;
  return false;
}

bool
tt_builder_take(struct tt_builder *b, struct tt_built *out)
{
  struct job *j = b->jobs, *end = b->jobs + b->o.jobs + 1;
  while (j < end && !(j->process && j->process->done))
    j++;
  if (j == end)
    return false;
  struct tt_process *p = j->process;
  memset(out, 0, sizeof *out);
  out->id = j->id;
  out->seconds = p->seconds;
  out->cpu_seconds = p->cpu_seconds;
  memcpy(out->object, j->object, sizeof out->object);
  if (p->timed_out) {
    out->status = TT_BUILD_TIMEOUT;
    out->message = tt_format("the compiler took more than %.0f s", p->seconds);
  } else if (!succeeded(p) && b->cpu_seconds &&
             p->cpu_seconds >= 0.6 * b->cpu_seconds) {
    /* Drivers report a killed pass in words of their own; the kernel's two
     * clocks agree roughly, on a busy machine very roughly. */
    out->status = TT_BUILD_TIMEOUT;
    out->message = tt_format("the compiler took more than %d s of CPU time",
                             b->cpu_seconds);
  } else if (!succeeded(p)) {
    out->status = is_machine_trouble(tt_sb_str(&p->err)) ? TT_BUILD_BROKEN
                                                         : TT_BUILD_ERROR;
    out->message = failure(p);
  }
  remove_file(b, j->source);
  if (out->status != TT_BUILT)
    remove_file(b, j->object);
  tt_process_free(p);
  j->process = NULL;
  return true;
}

void
tt_builder_discard(struct tt_builder *b, const char *object)
{
  remove_file(b, object);
}

void
tt_builder_cancel(struct tt_builder *b)
{
  for (int i = 0; i <= b->o.jobs; i++) {
    tt_process_free(b->jobs[i].process);
    b->jobs[i].process = NULL;
  }
}
