/* Times generated kernels beside library routines, all in turns in one
 * process, and prints the least time of each.
 *
 *   bench [--rounds=N] [--pin] --args=ARG,ARG... CONTENDER...
 *
 * With --pin all run on one core, the last that is allowed.
 * ARG is ROLE:TYPE:COUNT, in the order of the kernel's parameters: ROLE is in,
 * weight or out, TYPE an element type of te(5), COUNT the number of elements.
 * CONTENDER is KIND:LABEL:FILE:REST, FILE a shared library (or several, with
 * commas between, of which the first that loads is taken):
 *
 *   kernel:LABEL:FILE:NAME       a kernel, with NAME_prepare when it has one
 *   blas:LABEL:FILE:M N K T      cblas_sgemm, the first operand K x M if T
 *   dnnl:LABEL:FILE:SPEC         an adaptor built from dnnl.c; see there
 *   peak:LABEL:FILE:CORES        roof.c: multiply-adds in registers
 *   copy:LABEL:FILE:             roof.c: the arguments read and written once
 *
 * For each contender one line, with tabs between: LABEL, seconds a call,
 * largest difference of the outputs from those of the first contender
 * (relative to the largest output), and a note. A contender that is not there
 * has '-' for the numbers and the reason as its note. `peak` gives floating-
 * point operations a second where others give seconds.
 *
 * Every contender reads the same inputs and has outputs of its own; libraries
 * are loaded each for itself, so that their equal symbols do not meet.
 */
#include "config.h"

#include <dlfcn.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_ARGS = 12, MAX_CONTENDERS = 16 };
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

/* A sample is repeated until it takes about this long. */
static const double least_sample = 2e-3;

struct type {
  const char *name;
  size_t bytes;
};

static const struct type types[] = {
    {"f32", 4}, {"f64", 8}, {"i32", 4},  {"i16", 2}, {"i8", 1},
    {"u8", 1},  {"f16", 2}, {"bf16", 2}, {NULL, 0},
};

struct arg {
  const char *role;
  const struct type *type;
  size_t count;
  void *data; /* inputs and weights; NULL for outputs */
};

typedef void sgemm_fn(int, int, int, int, int, int, float, const float *, int,
                      const float *, int, float, float *, int);

struct contender {
  char *kind, *label, *file, *rest;
  void *data[MAX_ARGS];   /* the arguments, with outputs of its own */
  void *passed[MAX_ARGS]; /* what a kernel is called with */
  int npassed;
  void (*kernel)(void);
  sgemm_fn *sgemm;
  int m, n, k, transposed;
  void (*dnnl_call)(void *);
  void (*dnnl_result)(void *);
  void *dnnl;
  double (*peak)(void);
  int cores;
  void (*copy)(const void *, size_t, void *, size_t);
  const void *read;
  void *write;
  size_t read_bytes, write_bytes;
  long calls; /* in one sample */
  int pause;  /* there may be several threads, which first come to rest */
  double best;
  char note[200];
};

static void
die(const char *format, ...)
{
  va_list ap;
  va_start(ap, format);
  fputs("bench: ", stderr);
  vfprintf(stderr, format, ap);
  fputc('\n', stderr);
  va_end(ap);
  exit(2);
}

static double
now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *
memory(size_t bytes)
{
  void *p = aligned_alloc(64, (bytes + 127) / 64 * 64);
  if (!p)
    die("out of memory");
  memset(p, 0, bytes);
  return p;
}

static size_t
arg_bytes(const struct arg *a)
{
  return a->count * a->type->bytes;
}

static int
is_out(const struct arg *a)
{
  return strcmp(a->role, "out") == 0;
}

/* Values in [-1, 1), of which f16 and bf16 hold each exactly. */
static void
fill(struct arg *a)
{
  const char *t = a->type->name;
  a->data = memory(arg_bytes(a));
  for (size_t i = 0; i < a->count; i++) {
    int n = rand() / 7 % 256 - 128;
    float f = (float)n / 128;
    uint32_t b;
    memcpy(&b, &f, sizeof b);
    if (!strcmp(t, "f32"))
      ((float *)a->data)[i] = f;
    else if (!strcmp(t, "f64"))
      ((double *)a->data)[i] = f;
    else if (!strcmp(t, "i32"))
      ((int32_t *)a->data)[i] = n;
    else if (!strcmp(t, "i16"))
      ((int16_t *)a->data)[i] = (int16_t)(n * 64);
    else if (!strcmp(t, "bf16"))
      ((uint16_t *)a->data)[i] = (uint16_t)(b >> 16);
    else if (!strcmp(t, "f16"))
      ((uint16_t *)a->data)[i] =
          n ? (uint16_t)((b >> 16 & 0x8000) |
                         (((b >> 13) - ((127 - 15) << 10)) & 0x7fff))
            : 0;
    else
      ((uint8_t *)a->data)[i] = (uint8_t)n;
  }
}

static double
element(const struct arg *a, const void *data, size_t i)
{
  const char *t = a->type->name;
  if (!strcmp(t, "f32"))
    return ((const float *)data)[i];
  if (!strcmp(t, "f64"))
    return ((const double *)data)[i];
  if (!strcmp(t, "i32"))
    return ((const int32_t *)data)[i];
  if (!strcmp(t, "i16"))
    return ((const int16_t *)data)[i];
  if (!strcmp(t, "i8"))
    return ((const int8_t *)data)[i];
  if (!strcmp(t, "u8"))
    return ((const uint8_t *)data)[i];
  die("outputs of type %s are not compared", t);
  return 0;
}

/* Splits off the part of *s before the first `c`, or all of it. */
static char *
part(char **s, char c)
{
  char *p = *s, *q = strchr(p, c);
  if (q)
    *q = 0;
  *s = q ? q + 1 : p + strlen(p);
  return p;
}

static int
parse_args(char *s, struct arg *args)
{
  int n = 0;
  while (*s) {
    if (n == MAX_ARGS)
      die("more than %d arguments", MAX_ARGS);
    char *word = part(&s, ',');
    struct arg *a = &args[n++];
    a->role = part(&word, ':');
    char *type = part(&word, ':');
    for (a->type = types; a->type->name; a->type++)
      if (!strcmp(a->type->name, type))
        break;
    a->count = strtoul(word, NULL, 10);
    if (!a->type->name || !a->count)
      die("what is the argument '%s:%s:%s'?", a->role, type, word);
    if (!is_out(a))
      fill(a);
  }
  return n;
}

static void *
load(struct contender *c)
{
  void *lib = NULL;
  char *files = c->file;
  while (*files && !lib)
    lib = dlopen(part(&files, ','), RTLD_NOW | RTLD_LOCAL);
  if (!lib)
    snprintf(c->note, sizeof c->note, "not here");
  return lib;
}

static void *
symbol(struct contender *c, void *lib, const char *prefix, const char *name,
       const char *suffix)
{
  char text[200];
  snprintf(text, sizeof text, "%s%s%s", prefix, name, suffix);
  void *p = dlsym(lib, text);
  if (!p)
    snprintf(c->note, sizeof c->note, "no %.100s in it", text);
  return p;
}

/* Functions are found as objects; C has no cast for that, memcpy does. */
#define FUNCTION(to, ...)                                                      \
  do {                                                                         \
    void *found_ = symbol(__VA_ARGS__);                                        \
    memcpy(&(to), &found_, sizeof(to));                                        \
  } while (0)

typedef void *p_;

/* Calls f with n pointers; the ABI passes all pointers alike. */
static void
call_with(void (*f)(void), void *const *p, int n)
{
  switch (n) {
  case 1:
    ((void (*)(p_))f)(p[0]);
    break;
  case 2:
    ((void (*)(p_, p_))f)(p[0], p[1]);
    break;
  case 3:
    ((void (*)(p_, p_, p_))f)(p[0], p[1], p[2]);
    break;
  case 4:
    ((void (*)(p_, p_, p_, p_))f)(p[0], p[1], p[2], p[3]);
    break;
  case 5:
    ((void (*)(p_, p_, p_, p_, p_))f)(p[0], p[1], p[2], p[3], p[4]);
    break;
  case 6:
    ((void (*)(p_, p_, p_, p_, p_, p_))f)(p[0], p[1], p[2], p[3], p[4], p[5]);
    break;
  case 7:
    ((void (*)(p_, p_, p_, p_, p_, p_, p_))f)(p[0], p[1], p[2], p[3], p[4],
                                              p[5], p[6]);
    break;
  default:
    die("%d parameters are too many", n);
  }
}

static int
open_kernel(struct contender *c, void *lib, const struct arg *args, int nargs)
{
  FUNCTION(c->kernel, c, lib, "", c->rest, "");
  if (!c->kernel)
    return 0;
  size_t (*size)(void);
  void (*prepare)(void);
  FUNCTION(size, c, lib, "", c->rest, "_prepared_size");
  FUNCTION(prepare, c, lib, "", c->rest, "_prepare");
  c->note[0] = 0;
  void *weights[MAX_ARGS];
  int nweights = 0, at = -1;
  for (int i = 0; i < nargs; i++) {
    int prepared = prepare && !strcmp(args[i].role, "weight");
    if (prepared)
      weights[nweights++] = args[i].data;
    if (prepared && at < 0)
      at = c->npassed;
    if (!prepared || at == c->npassed)
      c->passed[c->npassed++] = c->data[i];
  }
  if (prepare) {
    void *p = memory(size());
    weights[nweights++] = p;
    call_with(prepare, weights, nweights);
    c->passed[at] = p;
  }
  return 1;
}

static int
open_blas(struct contender *c, void *lib)
{
  FUNCTION(c->sgemm, c, lib, "", "cblas_sgemm", "");
  if (!c->sgemm)
    FUNCTION(c->sgemm, c, lib, "scipy_", "cblas_sgemm", "");
  if (!c->sgemm)
    return 0;
  if (sscanf(c->rest, "%d %d %d %d", &c->m, &c->n, &c->k, &c->transposed) != 4)
    die("M N K T expected, not '%s'", c->rest);
  c->note[0] = 0;
  return 1;
}

static int
open_dnnl(struct contender *c, void *lib)
{
  const char *(*opener)(const char *, void *const *, void **);
  FUNCTION(opener, c, lib, "", "bench_dnnl_open", "");
  FUNCTION(c->dnnl_call, c, lib, "", "bench_dnnl_call", "");
  FUNCTION(c->dnnl_result, c, lib, "", "bench_dnnl_result", "");
  if (!opener || !c->dnnl_call || !c->dnnl_result)
    return 0;
  const char *note = opener(c->rest, c->data, &c->dnnl);
  snprintf(c->note, sizeof c->note, "%s", note);
  return c->dnnl != NULL;
}

/* The memory roof: as many bytes read and written as the arguments have. */
static int
open_copy(struct contender *c, void *lib, const struct arg *args, int nargs)
{
  FUNCTION(c->copy, c, lib, "", "bench_copy", "");
  for (int i = 0; i < nargs; i++)
    *(is_out(&args[i]) ? &c->write_bytes : &c->read_bytes) +=
        arg_bytes(&args[i]);
  c->read = memory(c->read_bytes);
  c->write = memory(c->write_bytes);
  return c->copy != NULL;
}

static int
open_contender(struct contender *c, const struct arg *args, int nargs)
{
  for (int i = 0; i < nargs; i++)
    c->data[i] = is_out(&args[i]) ? memory(arg_bytes(&args[i])) : args[i].data;
  void *lib = load(c);
  if (!lib)
    return 0;
  if (!strcmp(c->kind, "kernel"))
    return open_kernel(c, lib, args, nargs);
  if (!strcmp(c->kind, "blas"))
    return open_blas(c, lib);
  if (!strcmp(c->kind, "dnnl"))
    return open_dnnl(c, lib);
  if (!strcmp(c->kind, "copy"))
    return open_copy(c, lib, args, nargs);
  if (strcmp(c->kind, "peak"))
    die("no contender is a '%s'", c->kind);
  FUNCTION(c->peak, c, lib, "", "bench_peak", "");
  c->cores = atoi(c->rest);
  return c->peak != NULL;
}

static void
call(const struct contender *c)
{
  if (c->kernel)
    call_with(c->kernel, c->passed, c->npassed);
  else if (c->sgemm)
    c->sgemm(ROW_MAJOR, c->transposed ? TRANS : NO_TRANS, NO_TRANS, c->m, c->n,
             c->k, 1, c->data[0], c->transposed ? c->m : c->k, c->data[1], c->n,
             0, c->data[2], c->n);
  else if (c->dnnl)
    c->dnnl_call(c->dnnl);
  else
    c->copy(c->read, c->read_bytes, c->write, c->write_bytes);
}

/* One sample; returns the seconds of a call. Threads that spin for work after
 * the sample before are given time to go to sleep.
 */
static double
sample(const struct contender *c)
{
  if (c->pause)
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
  double start = now();
  for (long i = 0; i < c->calls; i++)
    call(c);
  return (now() - start) / (double)c->calls;
}

static void
warm(struct contender *c)
{
  c->calls = 1;
  c->best = c->peak ? 0 : 1e30;
  if (c->peak)
    return;
  call(c);
  for (double s; (s = sample(c)) * (double)c->calls < least_sample;)
    c->calls = c->calls * 2 + (s > 0 ? (long)(least_sample / s / 4) : 0);
}

/* At least `rounds`, and more while someone still gets faster by 1 %: other
 * programs on the machine disturb contenders with threads of their own most.
 */
static void
contest(struct contender *c, int n, int rounds)
{
  int last = rounds;
  for (int r = 0; r < last; r++)
    for (int i = 0; i < n; i++) {
      double was = c[i].best, s;
      if (c[i].peak) {
        s = c[i].peak() * c[i].cores;
        c[i].best = s > was ? s : was;
        continue;
      }
      s = sample(&c[i]);
      c[i].best = s < was ? s : was;
      if (s < 0.99 * was && r + rounds > last)
        last = r + rounds < 8 * rounds ? r + rounds : 8 * rounds;
    }
}

/* The largest difference from `first`, relative to the largest output. */
static double
difference(const struct contender *c, const struct contender *first,
           const struct arg *args, int nargs)
{
  double worst = 0;
  for (int i = 0; i < nargs; i++) {
    if (!is_out(&args[i]))
      continue;
    double most = 0, apart = 0;
    for (size_t e = 0; e < args[i].count; e++) {
      double x = element(&args[i], first->data[i], e);
      double y = element(&args[i], c->data[i], e);
      most = fmax(most, fabs(x));
      apart = x == x && y == y ? fmax(apart, fabs(x - y)) : INFINITY;
    }
    worst = fmax(worst, most > 0 ? apart / most : apart);
  }
  return worst;
}

static void
pin_to_one_core(void)
{
  cpu_set_t all, one;
  if (sched_getaffinity(0, sizeof all, &all))
    return;
  int last = CPU_SETSIZE - 1;
  while (last > 0 && !CPU_ISSET(last, &all))
    last--;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  sched_setaffinity(0, sizeof one, &one);
}

int
main(int argc, char **argv)
{
  struct arg args[MAX_ARGS] = {0};
  static struct contender all[MAX_CONTENDERS];
  int nargs = 0, n = 0, rounds = 15, first = 1, pause = 1;
  for (; first < argc && argv[first][0] == '-'; first++) {
    if (!strncmp(argv[first], "--args=", 7))
      nargs = parse_args(argv[first] + 7, args);
    else if (!strncmp(argv[first], "--rounds=", 9))
      rounds = atoi(argv[first] + 9);
    else if (!strcmp(argv[first], "--pin"))
      pin_to_one_core(), pause = 0;
    else
      die("what is '%s'?", argv[first]);
  }
  if (!nargs)
    die("--args=... is missing");
  for (int i = first; i < argc; i++) {
    if (n == MAX_CONTENDERS)
      die("more than %d contenders", MAX_CONTENDERS);
    struct contender *c = &all[n];
    char *s = argv[i];
    c->kind = part(&s, ':');
    c->label = part(&s, ':');
    c->file = part(&s, ':');
    c->rest = s;
    c->pause = pause;
    if (!open_contender(c, args, nargs)) {
      printf("%s\t-\t-\t%s\n", c->label, c->note);
      *c = (struct contender){0};
    } else
      n++;
  }
  for (int i = 0; i < n; i++)
    warm(&all[i]);
  contest(all, n, rounds);
  for (int i = 0; i < n; i++) {
    struct contender *c = &all[i];
    if (c->dnnl)
      c->dnnl_result(c->dnnl);
    double d = c->peak || c->copy ? 0 : difference(c, &all[0], args, nargs);
    printf("%s\t%.4g\t%.2g\t%s\n", c->label, c->best, d, c->note);
  }
  return 0;
}
