/* Units of runtime/: words, processes, builds, the protocol, timing, checks
 * and guards. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/building.h"
#include "runtime/check.h"
#include "runtime/guard.h"
#include "runtime/protocol.h"
#include "runtime/target.h"
#include "runtime/timing.h"
#include "runtime/words.h"

/* ---- words ------------------------------------------------------------- */

static void
words_are(const char *line, int n, const char *const *want)
{
  int got;
  const char *error;
  char **w = tt_words_split(line, &got, &error);
  assert_non_null(w);
  assert_null(error);
  assert_int_equal(got, n);
  for (int i = 0; i < n; i++)
    assert_string_equal(w[i], want[i]);
  assert_null(w[n]);
  tt_words_free(w);
}

static void
test_words(void **state)
{
  (void)state;
  words_are("", 0, NULL);
  words_are(" \t\n ", 0, NULL);
  words_are("gcc  -O3\t-g", 3, (const char *[]){"gcc", "-O3", "-g"});
  words_are("'a b' \"c d\"e f\\ g", 3, (const char *[]){"a b", "c de", "f g"});
  words_are("\"a\\\"b\\n\" '\\' ''", 3, (const char *[]){"a\"b\\n", "\\", ""});
  words_are("$HOME `id` ; rm *", 5,
            (const char *[]){"$HOME", "`id`", ";", "rm", "*"});
  static const char *const bad[] = {"a 'b", "a \"b", "a \\", "\"a\\\""};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *error;
    assert_null(tt_words_split(bad[i], NULL, &error));
    assert_non_null(error);
  }
}

/* ---- processes --------------------------------------------------------- */

static struct tt_process *
run_shell(const char *script, struct tt_process_options o)
{
  const char *argv[] = {"sh", "-c", script, NULL};
  char *error;
  o.argv = argv;
  if (!o.max_output)
    o.max_output = 1000;
  if (!o.pass_fd)
    o.pass_fd = -1;
  struct tt_process *p = tt_process_run(&o, &error);
  assert_non_null(p);
  return p;
}

static void
test_process_output(void **state)
{
  (void)state;
  const char *env[] = {"TT_X=y", NULL};
  struct tt_process *p =
      run_shell("echo $TT_X; echo b >&2; pwd; cat; exit 3",
                (struct tt_process_options){.env = env, .cwd = "/"});
  assert_string_equal(tt_sb_str(&p->out), "y\n/\n");
  assert_string_equal(tt_sb_str(&p->err), "b\n");
  assert_int_equal(WEXITSTATUS(p->status), 3);
  char how[64];
  tt_process_describe(p, how, sizeof how);
  assert_string_equal(how, "exit status 3");
  tt_process_free(p);
  /* Output is bounded, and the writer does not block on it. */
  p = run_shell("head -c 3000000 /dev/zero | tr '\\0' x; echo end >&2",
                (struct tt_process_options){.max_output = 100});
  assert_int_equal(p->out.len, 100);
  assert_string_equal(tt_sb_str(&p->err), "end\n");
  tt_process_free(p);
}

static void
test_process_missing(void **state)
{
  (void)state;
  char *error;
  const char *argv[] = {"foo-cc", NULL};
  struct tt_process_options o = {.argv = argv, .pass_fd = -1};
  assert_null(tt_process_run(&o, &error));
  assert_string_equal(error, "cannot run 'foo-cc': No such file or directory");
  free(error);
}

static bool
is_alive(pid_t pid)
{
  /* A zombie that nobody waits for counts as dead. */
  char path[64], text[256];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  FILE *f = fopen(path, "r");
  if (!f)
    return false;
  size_t n = fread(text, 1, sizeof text - 1, f);
  fclose(f);
  text[n] = 0;
  char *paren = strrchr(text, ')');
  return paren && paren[1] && paren[2] != 'Z';
}

static bool
dies(pid_t pid)
{
  for (int i = 0; i < 500 && is_alive(pid); i++)
    usleep(10000);
  return !is_alive(pid);
}

static void
test_process_timeout(void **state)
{
  (void)state;
  struct tt_process *p = run_shell("sleep 100 & echo $!; wait; sleep 100",
                                   (struct tt_process_options){.timeout = 0.2});
  assert_true(p->timed_out);
  pid_t below = (pid_t)atoi(tt_sb_str(&p->out));
  assert_true(below > 1);
  assert_true(dies(below));
  tt_process_free(p);
  /* What outlives its parent is ended with it. */
  p = run_shell("sleep 100 & echo $!", (struct tt_process_options){0});
  assert_false(p->timed_out);
  assert_true(dies((pid_t)atoi(tt_sb_str(&p->out))));
  tt_process_free(p);
}

static void
test_process_limits(void **state)
{
  (void)state;
  struct tt_process *p =
      run_shell("ulimit -c; ulimit -t; ulimit -f; ulimit -v",
                (struct tt_process_options){.limit_cpu = 7,
                                            .limit_fsize = 512 * 1024,
                                            .limit_as = (int64_t)1 << 30});
  assert_string_equal(tt_sb_str(&p->out), "0\n7\n1024\n1048576\n");
  tt_process_free(p);
  p = run_shell("while :; do :; done",
                (struct tt_process_options){.limit_cpu = 1});
  assert_true(WIFSIGNALED(p->status));
  tt_process_free(p);
}

static void
test_process_several(void **state)
{
  (void)state;
  struct tt_process *ps[4] = {NULL};
  char *error;
  const char *argv[] = {"cat", NULL};
  struct tt_process_options o = {
      .argv = argv, .input = true, .max_output = 100, .pass_fd = -1};
  for (int i = 0; i < 3; i++) {
    ps[i] = tt_process_start(&o, &error);
    assert_non_null(ps[i]);
  }
  assert_true(tt_process_write(ps[1], "hello\n", 6));
  while (!ps[1]->out.len)
    assert_int_equal(tt_process_poll(ps, 4, 10), 0);
  assert_string_equal(tt_sb_str(&ps[1]->out), "hello\n");
  tt_process_kill(ps[0]);
  assert_true(ps[0]->done);
  assert_false(tt_process_write(ps[0], "x", 1));
  tt_process_deadline(ps[1], 0.01);
  while (!ps[1]->done)
    tt_process_poll(ps, 4, 10);
  assert_true(ps[1]->timed_out);
  assert_false(ps[2]->done);
  for (int i = 0; i < 4; i++)
    tt_process_free(ps[i]);
}

/* Who polls too late still finds what came in time. */
static void
test_process_late(void **state)
{
  (void)state;
  char *error;
  const char *quick[] = {"echo", "x", NULL};
  const char *chatty[] = {"sh", "-c", "echo x; sleep 100", NULL};
  struct tt_process_options o = {
      .argv = quick, .timeout = 0.05, .max_output = 100, .pass_fd = -1};
  struct tt_process *p = tt_process_start(&o, &error);
  usleep(300000);
  while (!p->done)
    tt_process_poll(&p, 1, -1);
  assert_false(p->timed_out);
  tt_process_free(p);
  o.argv = chatty;
  p = tt_process_start(&o, &error);
  usleep(300000);
  assert_int_equal(tt_process_poll(&p, 1, -1), 0);
  assert_string_equal(tt_sb_str(&p->out), "x\n");
  assert_false(p->timed_out);
  while (!p->done)
    tt_process_poll(&p, 1, -1);
  assert_true(p->timed_out);
  tt_process_free(p);
}

/* ---- builds ------------------------------------------------------------ */

static bool
exists(const char *dir, const char *name)
{
  char path[512];
  snprintf(path, sizeof path, "%s/%s", dir, name);
  return access(path, F_OK) == 0;
}

static void
test_build(void **state)
{
  (void)state;
  struct tt_builder *b = builder("cc", "-O1 '-DX=int x;'", 2, 20);
  char dir[256], *error;
  snprintf(dir, sizeof dir, "%s", tt_builder_dir(b));
  struct stat st;
  assert_int_equal(stat(dir, &st), 0);
  assert_int_equal(st.st_mode & 0777, 0700);
  assert_true(tt_builder_start(b, false, 5, "X", 1, &error));
  assert_true(tt_builder_free_job(b, false));
  assert_true(tt_builder_start(b, false, 6, "int f(", 6, &error));
  assert_false(tt_builder_free_job(b, false));
  assert_false(tt_builder_free_job(b, true)); /* it has no spare CPUs */
  for (int i = 0; i < 2; i++) {
    struct tt_built built = wait_built(b);
    if (built.id == 5) {
      assert_int_equal(built.status, TT_BUILT);
      assert_true(exists(dir, built.object));
      tt_builder_discard(b, built.object);
      assert_false(exists(dir, built.object));
    } else {
      assert_int_equal(built.status, TT_BUILD_ERROR);
      assert_non_null(strstr(built.message, "error"));
      assert_null(strchr(built.message, '\n'));
      assert_false(exists(dir, built.object));
    }
    free(built.message);
  }
  assert_int_equal(tt_builder_running(b), 0);
  build_one(b, 7, "X");
  char sub[300];
  snprintf(sub, sizeof sub, "%s/sub", dir);
  assert_int_equal(mkdir(sub, 0700), 0);
  tt_builder_free(b);
  assert_int_equal(access(dir, F_OK), -1);
}

/* What a killed run left behind goes; what is alive or young stays. */
static void
test_build_sweep(void **state)
{
  (void)state;
  char base[] = "/tmp/tt-test-XXXXXX", path[3][80], file[96];
  char *old = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
  static const char *const names[] = {"tcc-tune-aaaaaa", "tcc-tune-bbbbbb",
                                      "other"};
  struct timespec past[2] = {{1000000, 0}, {1000000, 0}};
  assert_non_null(mkdtemp(base));
  setenv("TMPDIR", base, 1);
  for (int i = 0; i < 3; i++) {
    snprintf(path[i], sizeof path[i], "%s/%s", base, names[i]);
    assert_int_equal(mkdir(path[i], 0700), 0);
  }
  snprintf(file, sizeof file, "%s/c1.so", path[0]);
  fclose(fopen(file, "w"));
  struct tt_builder *a = builder("cc", "", 1, 20);
  utimensat(AT_FDCWD, path[0], past, 0);
  utimensat(AT_FDCWD, path[2], past, 0);
  utimensat(AT_FDCWD, tt_builder_dir(a), past, 0);
  struct tt_builder *b = builder("cc", "", 1, 20);
  assert_int_equal(access(path[0], F_OK), -1);
  assert_int_equal(access(path[1], F_OK), 0);
  assert_int_equal(access(path[2], F_OK), 0);
  assert_int_equal(access(tt_builder_dir(a), F_OK), 0);
  tt_builder_free(a);
  tt_builder_free(b);
  assert_int_equal(rmdir(path[1]), 0);
  assert_int_equal(rmdir(path[2]), 0);
  assert_int_equal(rmdir(base), 0);
  if (old)
    setenv("TMPDIR", old, 1);
  else
    unsetenv("TMPDIR");
  free(old);
}

static void
test_build_slow(void **state)
{
  (void)state;
  char dir[] = "/tmp/tt-test-XXXXXX", script[64], cc[80];
  assert_non_null(mkdtemp(dir));
  snprintf(script, sizeof script, "%s/cc.sh", dir);
  FILE *f = fopen(script, "w");
  fputs("grep -q SLOW *.c && sleep 100\n"
        "grep -q FULL *.c && {\n"
        "  echo 'c.s: No space left on device' >&2\n"
        "  exit 1\n"
        "}\n"
        "grep -q BUSY *.c && while :; do :; done\n"
        "exec cc \"$@\"\n",
        f);
  fclose(f);
  snprintf(cc, sizeof cc, "sh %s", script);
  struct tt_builder *b = builder(cc, "", 1, 8.0);
  struct tt_built built = build_one(b, 1, "int SLOW;");
  assert_int_equal(built.status, TT_BUILD_TIMEOUT);
  free(built.message);
  built = build_one(b, 2, "int fine;");
  assert_int_equal(built.status, TT_BUILT);
  built = build_one(b, 2, "int FULL;");
  assert_int_equal(built.status, TT_BUILD_BROKEN);
  assert_string_equal(built.message, "c.s: No space left on device");
  free(built.message);
  tt_builder_limits(b, 60, 1);
  built = build_one(b, 2, "int BUSY;");
  assert_int_equal(built.status, TT_BUILD_TIMEOUT);
  assert_non_null(strstr(built.message, "1 s of CPU time"));
  free(built.message);
  built = build_one(b, 2, "int fine;");
  assert_int_equal(built.status, TT_BUILT);
  /* A builder can be freed in the midst of work. */
  char *error;
  assert_true(tt_builder_start(b, false, 3, "int SLOW;", 9, &error));
  tt_builder_free(b);
  unlink(script);
  rmdir(dir);
}

static void
no_builder(const char *cc, const char *cflags, const char *message)
{
  char *error = NULL;
  struct tt_builder_options o = {
      .cc = cc, .cflags = cflags, .jobs = 1, .timeout = 20};
  assert_null(tt_builder_new(&o, &error));
  assert_non_null(error);
  if (!strstr(error, message))
    print_message("got: %s\n", error);
  assert_non_null(strstr(error, message));
  free(error);
}

static void
test_build_broken(void **state)
{
  (void)state;
  no_builder("foo-cc", "", "cannot run 'foo-cc': No such file or directory");
  no_builder("", "", "the compiler command is empty");
  no_builder("cc 'x", "", "' is not closed");
  no_builder("cc", "\"x", "\" is not closed");
  no_builder("false", "", "does not work: the compiler failed: exit status 1");
  no_builder("cc", "--no-such-flag", "--no-such-flag");
  char *error = NULL, *v = tt_compiler_version("foo-cc", &error);
  assert_null(v);
  assert_string_equal(error, "cannot run 'foo-cc': No such file or directory");
  free(error);
  assert_null(tt_compiler_version("false", &error));
  assert_non_null(strstr(error, "'false --version' fails"));
  free(error);
  v = tt_compiler_version("cc", &error);
  assert_non_null(v);
  assert_null(strchr(v, '\n'));
  free(v);
  char *old = getenv("TMPDIR") ? strdup(getenv("TMPDIR")) : NULL;
  setenv("TMPDIR", "/nonexistent", 1);
  no_builder("cc", "", "cannot make a directory in /nonexistent: No such");
  if (old)
    setenv("TMPDIR", old, 1);
  else
    unsetenv("TMPDIR");
  free(old);
}

static void
test_target(void **state)
{
  (void)state;
  struct tt_target t = tt_target_local();
  assert_true(strlen(t.name) > 3);
  assert_null(strstr(t.name, "  "));
  assert_true(t.l1 > 0 && t.l2 > 0 && t.l3 >= t.l1 && t.cpus >= 1);
  assert_true(t.vector_bytes >= 16 && t.registers >= 16);
  int bytes, registers;
  assert_true(tt_compiler_vectors("cc", "", &bytes, &registers));
  assert_true(bytes <= 64 && registers >= 16);
#ifdef __x86_64__
  assert_true(tt_compiler_vectors("cc", "-mavx512f", &bytes, &registers));
  assert_int_equal(bytes, 64);
  assert_int_equal(registers, 32);
  assert_true(tt_compiler_vectors("cc", "-mavx2", &bytes, &registers));
  assert_int_equal(bytes, 32);
  assert_int_equal(registers, 16);
#endif
  assert_false(tt_compiler_vectors("foo-cc", "", &bytes, &registers));
}

static void
test_cpus(void **state)
{
  (void)state;
  struct tt_cpus before = tt_cpus_allowed();
  struct tt_claim a = tt_claim_cpu();
  assert_true(before.member[a.cpu]);
  assert_false(a.rest.member[a.cpu]);
  if (tt_cpus_count(&before) > 1)
    assert_true(tt_cpus_count(&a.rest) >= 1);
  struct tt_cpus one = {{false}};
  one.member[a.cpu] = true;
  tt_cpus_bind(0, &one);
  struct tt_cpus now = tt_cpus_allowed();
  assert_int_equal(tt_cpus_count(&now), 1);
  assert_true(now.member[a.cpu]);
  tt_cpus_bind(0, &before);
  tt_claim_release(&a);
  assert_int_equal(a.lock, -1);
}

/* ---- the protocol ------------------------------------------------------ */

static void
test_protocol(void **state)
{
  (void)state;
  struct tt_sb sb = {0};
  char quoted[64], buf[64];
  size_t pos = 0;
  int64_t i;
  double d[4];
  tt_line_quote("a *%\n=b", quoted, sizeof quoted);
  tt_line_add(&sb, "fail 3 kind=x msg=%s n=-12 e=%a l=1,2.5,%a", quoted, 0.1,
              0.3);
  assert_int_equal(sb.s[sb.len - 1], '\n');
  tt_sb_add(&sb, "half a line");
  char *text = tt_line_check(tt_line_next(&sb, &pos));
  assert_non_null(text);
  assert_null(tt_line_next(&sb, &pos));
  assert_true(tt_line_word(text, 0, buf, sizeof buf));
  assert_string_equal(buf, "fail");
  assert_true(tt_line_word(text, 1, buf, sizeof buf));
  assert_string_equal(buf, "3");
  assert_false(tt_line_word(text, 9, buf, sizeof buf));
  assert_true(tt_line_get(text, "msg", buf, sizeof buf));
  assert_string_equal(buf, "a *%\n=b");
  assert_false(tt_line_get(text, "ms", buf, sizeof buf));
  assert_false(tt_line_get(text, "msg", buf, 4));
  assert_true(tt_line_int(text, "n", &i));
  assert_int_equal(i, -12);
  assert_false(tt_line_int(text, "msg", &i));
  assert_true(tt_line_float(text, "e", d));
  assert_true(d[0] == 0.1);
  assert_int_equal(tt_line_floats(text, "l", d, 4), 3);
  assert_true(d[1] == 2.5 && d[2] == 0.3);
  assert_int_equal(tt_line_floats(text, "l", d, 2), 2);
  tt_sb_free(&sb);
  char bye[] = "@tt bye*7e", wrong[] = "@tt bye*7f", cr[] = "@tt bye*7e\r";
  assert_non_null(tt_line_check(bye));
  assert_null(tt_line_check(wrong));
  assert_non_null(tt_line_check(cr));
}

/* Every line that is damaged in one byte is refused, and no garbage makes the
 * parser read or write where it should not (sanitizers watch). */
static void
test_protocol_garbage(void **state)
{
  (void)state;
  unsigned seed = 12345;
  struct tt_sb sb = {0};
  tt_line_add(&sb, "time 3 k=0 inner=8 gave_up=0 s=1.5,2.5,%%41");
  sb.s[--sb.len] = 0;
  for (size_t i = 0; i < sb.len; i++) {
    for (int c = 1; c < 256; c++) {
      char *copy = strdup(sb.s);
      char was = copy[i];
      copy[i] = (char)c;
      char *text = tt_line_check(copy);
      if ((char)c != was)
        assert_null(text);
      free(copy);
    }
  }
  for (int round = 0; round < 20000; round++) {
    char line[80], buf[16];
    int64_t n;
    double d[3];
    size_t len = (size_t)rand_r(&seed) % (sizeof line - 1);
    for (size_t k = 0; k < len; k++) {
      static const char set[] = "@t *=%,0123456789abcdefkinesx \n\r\1\377";
      line[k] = set[(size_t)rand_r(&seed) % (sizeof set - 1)];
    }
    line[len] = 0;
    if (round % 2)
      memcpy(line, "@tt ", len < 4 ? len : 4);
    char *text = tt_line_check(line);
    if (!text)
      text = line;
    tt_line_word(text, round % 4, buf, sizeof buf);
    tt_line_get(text, "k", buf, sizeof buf);
    tt_line_int(text, "n", &n);
    assert_true(tt_line_floats(text, "s", d, 3) <= 3);
  }
  tt_sb_free(&sb);
}

/* ---- timing ------------------------------------------------------------ */

/* A clock that only calls move. */
struct fake {
  double now, cost, first_cost;
  int calls;
  const double *extra; /* added to single calls, if not NULL */
  int nextra;
};

static void
fake_call(void *ctx)
{
  struct fake *f = ctx;
  f->now += f->cost;
  if (f->calls < f->nextra)
    f->now += f->extra[f->calls];
  f->calls++;
}

static double
fake_now(void *ctx)
{
  return ((struct fake *)ctx)->now;
}

static struct tt_timing
fake_time(struct fake *f, double best, double first)
{
  struct tt_timed timed = {fake_call, fake_now, f};
  struct tt_timing_options o = tt_timing_defaults();
  struct tt_timing t;
  o.best = best;
  o.first = first;
  tt_time_calls(&timed, &o, &t);
  return t;
}

static bool
near(double a, double b)
{
  return fabs(a - b) <= 1e-6 * fabs(b);
}

static void
test_timing(void **state)
{
  (void)state;
  struct fake fast = {.cost = 1e-6}, mid = {.cost = 20e-3};
  struct tt_timing t = fake_time(&fast, 0, 0);
  assert_true(t.inner >= 2000 && t.inner < 6000);
  assert_int_equal(t.n, 3); /* they agree: no need for more */
  assert_true(near(tt_timing_min(&t), 1e-6));
  t = fake_time(&mid, 0, 0);
  assert_int_equal(t.inner, 1);
  assert_int_equal(t.n, 3);
  t = fake_time(&mid, 0, 21e-3); /* a long first call has a say */
  assert_int_equal(t.n, 2);
  assert_true(near(tt_timing_min(&t), 20e-3));
  assert_true(tt_timing_spread(&t) < 1e-6);
  /* Disagreement is followed up within the budget, and the least counts. */
  static const double extra[] = {3e-3, 2e-3, 4e-3, 0,    3e-3, 2e-3,
                                 3e-3, 2e-3, 4e-3, 3e-3, 3e-3, 2e-3};
  struct fake noisy = {.cost = 10e-3, .extra = extra, .nextra = 12};
  t = fake_time(&noisy, 0, 0);
  assert_true(t.n > 5 && t.n < 12);
  assert_true(near(tt_timing_min(&t), 10e-3));
  assert_true(near(tt_timing_spread(&t), 0.2) ||
              near(tt_timing_spread(&t), 0.25) ||
              near(tt_timing_spread(&t), 0.3));
  assert_false(t.gave_up);
}

static void
test_timing_losers(void **state)
{
  (void)state;
  struct fake slow = {.cost = 50e-3};
  struct tt_timing t = fake_time(&slow, 20e-3, 0);
  assert_true(t.gave_up);
  assert_int_equal(t.n, 1);
  slow = (struct fake){.cost = 26e-3};
  t = fake_time(&slow, 20e-3, 9e-3);
  assert_false(t.gave_up);
  t = fake_time(&slow, 20e-3, 0);
  assert_true(t.gave_up);
  assert_int_equal(t.n, 2);
  t = fake_time(&slow, 20e-3, 30e-3);
  assert_true(t.gave_up);
  assert_int_equal(t.n, 1);
  /* One interruption does not condemn. */
  static const double once[] = {30e-3};
  slow = (struct fake){.cost = 20e-3, .extra = once, .nextra = 1};
  t = fake_time(&slow, 20e-3, 21e-3);
  assert_false(t.gave_up);
  assert_true(near(tt_timing_min(&t), 20e-3));
  /* Hopeless by the first call alone: never called again. */
  slow = (struct fake){.cost = 100e-3};
  t = fake_time(&slow, 20e-3, 100e-3);
  assert_true(t.gave_up);
  assert_int_equal(slow.calls, 0);
  assert_true(near(tt_timing_min(&t), 100e-3));
  slow = (struct fake){.cost = 0.2};
  t = fake_time(&slow, 0, 0.21);
  assert_int_equal(slow.calls, 1);
  assert_int_equal(t.n, 2);
  assert_true(near(tt_timing_min(&t), 0.2));
  slow = (struct fake){.cost = 2};
  t = fake_time(&slow, 0, 2);
  assert_int_equal(slow.calls, 0);
  assert_false(t.gave_up);
  assert_true(tt_timing_min(&(struct tt_timing){0}) == 0);
}

static void
test_timing_duel(void **state)
{
  (void)state;
  struct fake f[2] = {{.cost = 10e-3}, {.cost = 12e-3}};
  struct tt_timed timed[2] = {{fake_call, fake_now, &f[0]},
                              {fake_call, fake_now, &f[1]}};
  struct tt_timing_options o = tt_timing_defaults();
  struct tt_timing t[2];
  tt_time_duel(2, timed, &o, t);
  assert_int_equal(t[0].n, t[1].n);
  assert_true(t[0].n >= 3);
  assert_int_equal(f[0].calls, f[1].calls);
  assert_true(near(tt_timing_min(&t[0]), 10e-3));
  assert_true(near(tt_timing_min(&t[1]), 12e-3));
}

/* ---- checks and guards ------------------------------------------------- */

static void
test_check(void **state)
{
  (void)state;
  float want[3000], got[3000];
  struct tt_check c;
  struct tt_tolerance tol = {1e-5, 0};
  for (int i = 0; i < 3000; i++)
    got[i] = want[i] = (float)(i % 7) - 3;
  double rms = tt_check_rms(TT_F32, want, 3000);
  assert_true(near(rms, sqrt(28.0 / 7)) || fabs(rms - 2) < 0.01);
  tt_check_compare(TT_F32, got, want, 3000, &tol, rms, &c);
  assert_true(c.error == 0 && c.wrong == 0 && c.first == -1);
  got[2500] += 1e-5f;
  tt_check_compare(TT_F32, got, want, 3000, &tol, rms, &c);
  assert_true(c.error > 0.1 && c.error < 1 && c.wrong == 0);
  got[1234] += 1e-3f;
  got[2999] = NAN;
  tt_check_compare(TT_F32, got, want, 3000, &tol, rms, &c);
  assert_true(isinf(c.error) && c.wrong == 2 && c.first == 1234);
  /* NaN and infinity are only equal to themselves; poison to nothing. */
  want[0] = NAN;
  want[1] = INFINITY;
  memcpy(got, want, sizeof got);
  got[0] = -NAN;
  tt_check_compare(TT_F32, got, want, 3000, &tol, 1, &c);
  assert_int_equal(c.wrong, 0);
  got[1] = -INFINITY;
  tt_check_compare(TT_F32, got, want, 3000, &tol, 1, &c);
  assert_int_equal(c.wrong, 1);
  tt_check_poison(TT_F32, got, want, 3000);
  tt_check_compare(TT_F32, got, want, 3000, &tol, 1, &c);
  assert_int_equal(c.wrong, 3000);
}

static void
test_check_types(void **state)
{
  (void)state;
  for (int t = 0; t < TT_NDTYPES; t++) {
    enum tt_dtype type = (enum tt_dtype)t;
    uint64_t want[8], got[8];
    struct tt_check c;
    struct tt_tolerance exact = {0, 0};
    int n = 64 / tt_dtype_bytes(type);
    memset(want, 0, sizeof want);
    tt_check_poison(type, got, want, n);
    tt_check_compare(type, got, want, n, &exact, 0, &c);
    assert_int_equal(c.wrong, n);
    assert_true(c.error > 1);
    memset(got, 0, sizeof got);
    tt_check_compare(type, got, want, n, &exact, 0, &c);
    assert_int_equal(c.wrong, 0);
  }
  /* Beyond the precision of double. */
  int64_t want = INT64_MAX, got = INT64_MAX - 1;
  struct tt_check c;
  struct tt_tolerance exact = {0, 0}, one = {0, 1};
  tt_check_compare(TT_I64, &got, &want, 1, &exact, 0, &c);
  assert_int_equal(c.wrong, 1);
  int8_t a[2] = {3, -4}, b[2] = {4, -4};
  tt_check_compare(TT_I8, a, b, 2, &one, 0, &c);
  assert_int_equal(c.wrong, 0);
  assert_true(c.error == 1);
  tt_check_compare(TT_I8, a, b, 2, &exact, 0, &c);
  assert_int_equal(c.wrong, 1);
  uint16_t h = 0x3c00, bf = 0x3f80;
  assert_true(tt_check_element(TT_F16, &h, 0) == 1);
  assert_true(tt_check_element(TT_BF16, &bf, 0) == 1);
}

static void
test_guard(void **state)
{
  (void)state;
  for (int i = 0; i < 5; i++) {
    struct tt_guard g;
    size_t bytes = (size_t)(i * i * 1000);
    assert_true(tt_guard_new(&g, bytes, i));
    assert_int_equal((uintptr_t)g.data % 64, 0);
    memset(g.data, 1, bytes);
    assert_true(tt_guard_intact(&g));
    g.data[-1]++;
    assert_false(tt_guard_intact(&g));
    g.data[-1]--;
    g.data[bytes]++;
    assert_false(tt_guard_intact(&g));
    g.data[bytes]--;
    assert_true(tt_guard_intact(&g));
    tt_guard_free(&g);
  }
  struct tt_guard huge;
  assert_false(tt_guard_new(&huge, SIZE_MAX / 2, 0));
}

int
main(void)
{
  const struct CMUnitTest units[] = {cmocka_unit_test(test_words),
                                     cmocka_unit_test(test_process_output),
                                     cmocka_unit_test(test_process_missing),
                                     cmocka_unit_test(test_process_timeout),
                                     cmocka_unit_test(test_process_limits),
                                     cmocka_unit_test(test_process_several),
                                     cmocka_unit_test(test_process_late),
                                     cmocka_unit_test(test_build),
                                     cmocka_unit_test(test_build_sweep),
                                     cmocka_unit_test(test_build_slow),
                                     cmocka_unit_test(test_build_broken),
                                     cmocka_unit_test(test_target),
                                     cmocka_unit_test(test_cpus),
                                     cmocka_unit_test(test_protocol),
                                     cmocka_unit_test(test_protocol_garbage),
                                     cmocka_unit_test(test_timing),
                                     cmocka_unit_test(test_timing_losers),
                                     cmocka_unit_test(test_timing_duel),
                                     cmocka_unit_test(test_check),
                                     cmocka_unit_test(test_check_types),
                                     cmocka_unit_test(test_guard)};
  return cmocka_run_group_tests_name("runtime", units, NULL, NULL);
}
