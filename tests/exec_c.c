/* Prints, compiles, loads and runs kernels; see exec_c.h.
 *
 * Buffers have guard zones filled with a pattern, outputs and scratch memory
 * start poisoned, and the temporary directory is removed whatever happens.
 * What is only read stands once behind and once before memory that cannot be
 * touched, so that reading outside of it ends the test.
 */
#include "config.h"

#include "tests/exec_c.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { ALIGN = 64, GUARD = 4096, POISON = 0xa5 };

/* ---- bytes ------------------------------------------------------------ */

#define PACK(type, value)                                                      \
  do {                                                                         \
    type x = (type)(value);                                                    \
    memcpy((char *)bytes + i * (int64_t)sizeof x, &x, sizeof x);               \
  } while (0)

void
exec_pack(const struct tt_tensor *t, struct tt_values *v, void *bytes)
{
  double *f;
  int64_t *k;
  tt_values_of(v, t, &f, &k);
  for (int64_t i = 0; i < tt_tensor_size(t); i++)
    switch (t->dtype) {
    case TT_F64:
      PACK(double, f[i]);
      break;
    case TT_F32:
      PACK(float, f[i]);
      break;
    case TT_F16:
      PACK(uint16_t, tt_f64_to_f16(f[i]));
      break;
    case TT_BF16:
      PACK(uint16_t, tt_f32_to_bf16((float)f[i]));
      break;
    case TT_I8:
    case TT_U8:
    case TT_BOOL:
      PACK(uint8_t, k[i]);
      break;
    case TT_I16:
    case TT_U16:
      PACK(uint16_t, k[i]);
      break;
    case TT_I32:
    case TT_U32:
      PACK(uint32_t, k[i]);
      break;
    case TT_I64:
      PACK(int64_t, k[i]);
      break;
    case TT_NDTYPES:
      break;
    }
}

#define UNPACK(type, to)                                                       \
  do {                                                                         \
    type x;                                                                    \
    memcpy(&x, (const char *)bytes + i * (int64_t)sizeof x, sizeof x);         \
    to;                                                                        \
  } while (0)

void
exec_unpack(const struct tt_tensor *t, const void *bytes, struct tt_values *v)
{
  double *f;
  int64_t *k;
  tt_values_of(v, t, &f, &k);
  for (int64_t i = 0; i < tt_tensor_size(t); i++)
    switch (t->dtype) {
    case TT_F64:
      UNPACK(double, f[i] = x);
      break;
    case TT_F32:
      UNPACK(float, f[i] = x);
      break;
    case TT_F16:
      UNPACK(uint16_t, f[i] = tt_f16_to_f64(x));
      break;
    case TT_BF16:
      UNPACK(uint16_t, f[i] = tt_bf16_to_f32(x));
      break;
    case TT_I8:
      UNPACK(int8_t, k[i] = x);
      break;
    case TT_U8:
    case TT_BOOL:
      UNPACK(uint8_t, k[i] = x);
      break;
    case TT_I16:
      UNPACK(int16_t, k[i] = x);
      break;
    case TT_U16:
      UNPACK(uint16_t, k[i] = x);
      break;
    case TT_I32:
      UNPACK(int32_t, k[i] = x);
      break;
    case TT_U32:
      UNPACK(uint32_t, k[i] = x);
      break;
    case TT_I64:
      UNPACK(int64_t, k[i] = x);
      break;
    case TT_NDTYPES:
      break;
    }
}

static double
program_tolerance(const struct tt_program *p)
{
  double tol = 1e-4;
  for (int i = 0; i < p->ntensors; i++)
    if (p->tensors[i]->dtype == TT_BF16 || p->tensors[i]->dtype == TT_F16)
      tol = p->tensors[i]->dtype == TT_BF16 ? 2e-1 : 1e-2;
  return tol;
}

const char *
exec_compare(struct tt_arena *ar, const struct tt_program *p,
             struct tt_values *want, struct tt_values *got)
{
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    double *wf, *gf, scale = 1;
    int64_t *wi, *gi;
    if (t->role != TT_OUTPUT)
      continue;
    tt_values_of(want, t, &wf, &wi);
    tt_values_of(got, t, &gf, &gi);
    for (int64_t k = 0; wf && k < tt_tensor_size(t); k++)
      if (fabs(wf[k]) > scale && !isinf(wf[k]))
        scale = fabs(wf[k]);
    for (int64_t k = 0; k < tt_tensor_size(t); k++) {
      bool same = wf ? wf[k] == gf[k] || (isnan(wf[k]) && isnan(gf[k])) ||
                           fabs(wf[k] - gf[k]) <= program_tolerance(p) * scale
                     : wi[k] == gi[k];
      if (!same)
        return tt_arena_printf(ar, "%s[%lld] is %.9g instead of %.9g", t->name,
                               (long long)k, wf ? gf[k] : (double)gi[k],
                               wf ? wf[k] : (double)wi[k]);
    }
  }
  return NULL;
}

/* ---- compiling -------------------------------------------------------- */

static void
write_file(const char *path, const char *text)
{
  FILE *f = fopen(path, "w");
  if (!f)
    return;
  fputs(text, f);
  fclose(f);
}

const char *
exec_read_file(struct tt_arena *arena, const char *path)
{
  struct tt_sb sb = {0};
  char buf[4096];
  FILE *f = fopen(path, "r");
  for (size_t n; f && (n = fread(buf, 1, sizeof buf, f)) > 0;)
    tt_sb_addn(&sb, buf, n);
  if (f)
    fclose(f);
  const char *text = tt_arena_strdup(arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

struct scratch {
  struct tt_arena *arena;
  char *dir;
  const char *c, *so, *log;
};

static bool
scratch_open(struct scratch *s, struct tt_arena *arena)
{
  const char *tmp = getenv("TMPDIR");
  s->arena = arena;
  s->dir = tt_arena_printf(arena, "%s/tt-exec-XXXXXX", tmp ? tmp : "/tmp");
  if (!mkdtemp(s->dir))
    return false;
  s->c = tt_arena_printf(arena, "%s/k.c", s->dir);
  s->so = tt_arena_printf(arena, "%s/k.so", s->dir);
  s->log = tt_arena_printf(arena, "%s/log", s->dir);
  return true;
}

static void
scratch_close(struct scratch *s)
{
  unlink(s->c);
  unlink(s->so);
  unlink(s->log);
  rmdir(s->dir);
}

/* NULL or the compiler's words. */
static const char *
compile(struct scratch *s, const char *cc, const char *flags, const char *text)
{
  write_file(s->c, text);
  const char *cmd = tt_arena_printf(
      s->arena, "%s %s -shared -fPIC '%s' -o '%s' -lm >'%s' 2>&1", cc, flags,
      s->c, s->so, s->log);
  if (system(cmd) == 0)
    return NULL;
  return tt_arena_printf(s->arena, "%s: %.2000s", cmd,
                         exec_read_file(s->arena, s->log));
}

const char *
exec_compile(struct tt_arena *arena, const char *cc, const char *flags,
             const char *text)
{
  struct scratch s;
  if (!scratch_open(&s, arena))
    return "no temporary directory";
  const char *error = compile(&s, cc, flags, text);
  scratch_close(&s);
  return error;
}

/* ---- running ---------------------------------------------------------- */

struct buffer {
  unsigned char *mem, *data;
  size_t size;
};

static struct buffer
buffer_new(struct tt_arena *arena, size_t size)
{
  struct buffer b = {.size = size};
  b.mem = tt_arena_alloc(arena, size + 2 * GUARD + ALIGN);
  b.data = b.mem + GUARD + (ALIGN - (uintptr_t)b.mem % ALIGN) % ALIGN;
  memset(b.mem, POISON, size + 2 * GUARD + ALIGN);
  return b;
}

static bool
buffer_intact(const struct buffer *b)
{
  for (int i = 1; i <= GUARD; i++) /* at least so many on each side */
    if (b->data[-i] != POISON || b->data[b->size + (size_t)i - 1] != POISON)
      return false;
  return true;
}

/* Whole pages between two that cannot be read or written. */
struct fenced {
  unsigned char *mem;
  size_t page, inside;
};

static bool
fenced_open(struct fenced *f, size_t size)
{
  f->page = (size_t)sysconf(_SC_PAGESIZE);
  f->inside = (size + f->page) / f->page * f->page;
  void *p = mmap(NULL, f->inside + 2 * f->page, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  f->mem = p == MAP_FAILED ? NULL : p;
  return f->mem &&
         mprotect(f->mem + f->page, f->inside, PROT_READ | PROT_WRITE) == 0;
}

/* The values again, at the beginning or the end of the pages. */
static void *
fenced_copy(const struct fenced *f, const struct buffer *b, bool end)
{
  unsigned char *p = f->mem + f->page + (end ? f->inside - b->size : 0);
  memcpy(p, b->data, b->size);
  return p;
}

static void
fenced_close(struct fenced *f)
{
  if (f->mem)
    munmap(f->mem, f->inside + 2 * f->page);
}

static double
default_tolerance(enum tt_dtype t)
{
  return t == TT_F64 ? 1e-11 : t == TT_F32 ? 1e-4 : t == TT_F16 ? 2e-2 : 2e-1;
}

static const char *
compare(struct tt_arena *arena, const struct tt_tensor *t,
        struct tt_values *want, struct tt_values *got, double tolerance)
{
  double *wf, *gf;
  int64_t *wi, *gi;
  tt_values_of(want, t, &wf, &wi);
  tt_values_of(got, t, &gf, &gi);
  double tol = tolerance;
  for (int64_t i = 0; i < tt_tensor_size(t); i++) {
    if (wi && wi[i] != gi[i])
      return tt_arena_printf(arena, "%s[%lld] is %lld instead of %lld", t->name,
                             (long long)i, (long long)gi[i], (long long)wi[i]);
    if (wi || wf[i] == gf[i] || (isnan(wf[i]) && isnan(gf[i])))
      continue;
    if (!(fabs(wf[i] - gf[i]) <= tol * (1 + fabs(wf[i]))))
      return tt_arena_printf(arena, "%s[%lld] is %.9g instead of %.9g", t->name,
                             (long long)i, gf[i], wf[i]);
  }
  return NULL;
}

static const enum tt_role param_roles[] = {TT_INPUT, TT_WEIGHT, TT_OUTPUT};

typedef void entry_fn(void **, int);

/* Calls the kernel with its inputs and weights (the first `n` buffers) at the
 * beginning and at the end of readable memory. */
static const char *
call_fenced(struct tt_arena *arena, int n, const struct buffer *b, void **args,
            entry_fn *entry, int order)
{
  struct fenced *f = TT_ARRAY(arena, struct fenced, (size_t)n + 1);
  bool ok = true;
  for (int i = 0; i < n; i++)
    ok = fenced_open(&f[i], b[i].size) && ok;
  for (int end = 0; end < 2 && ok; end++) {
    for (int i = 0; i < n; i++)
      args[i] = fenced_copy(&f[i], &b[i], end);
    entry(args, 2 * order);
    entry(args, 2 * order + 1);
  }
  for (int i = 0; i < n; i++)
    fenced_close(&f[i]);
  return ok ? NULL : "no memory between guards";
}

/* Is nothing written around the buffers, and are the outputs right? */
static const char *
check_buffers(struct tt_arena *arena, int n, const struct buffer *b,
              const struct tt_tensor *const *of, struct tt_values *want,
              double tol)
{
  struct tt_values *got = tt_values_new();
  const char *error = NULL;
  for (int i = 0; i < n && !error; i++) {
    if (!buffer_intact(&b[i]))
      error = tt_arena_printf(arena, "wrote outside of %s",
                              of[i] ? of[i]->name : "its scratch memory");
    if (!error && of[i] && of[i]->role == TT_OUTPUT) {
      exec_unpack(of[i], b[i].data, got);
      error = compare(arena, of[i], want, got, tol);
    }
  }
  tt_values_free(got);
  return error;
}

/* The orders of blocks and threads in plain C: see gpulang.c. */
enum { ORDERS = 3 };
static const char *const orders[ORDERS] = {"forwards", "backwards",
                                           "in strides"};

static const char *
run_case(struct tt_arena *arena, const struct exec_case *k,
         const struct tt_code_sizes *sizes, entry_fn *entry, double tolerance)
{
  /* Rounding of a coarser type further up shows in the outputs. */
  double tol = tolerance;
  const struct tt_program *program = k->nest->program;
  for (int i = 0; tolerance <= 0 && i < program->ntensors; i++)
    if (tt_dtype_is_float(program->tensors[i]->dtype) &&
        default_tolerance(program->tensors[i]->dtype) > tol)
      tol = default_tolerance(program->tensors[i]->dtype);
  const struct tt_program *p = k->nest->program;
  struct buffer *b = TT_ARRAY(arena, struct buffer, (size_t)p->ntensors + 2);
  void **args = TT_ARRAY(arena, void *, (size_t)p->ntensors + 2);
  const struct tt_tensor **of =
      TT_ARRAY(arena, const struct tt_tensor *, (size_t)p->ntensors + 2);
  const char *error = NULL;
  int n = 0, nread = 0;
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < p->ntensors; i++) {
      const struct tt_tensor *t = p->tensors[i];
      if (t->role != param_roles[r])
        continue;
      b[n] = buffer_new(arena, (size_t)tt_tensor_size(t) *
                                   (size_t)tt_dtype_bytes(t->dtype));
      if (t->role != TT_OUTPUT) {
        exec_pack(t, k->in, b[n].data);
        nread++;
      }
      of[n++] = t;
    }
  b[n++] = buffer_new(arena, (size_t)sizes->prepared_bytes);
  b[n++] = buffer_new(arena, (size_t)sizes->workspace_bytes);
  for (int i = 0; i < n; i++)
    args[i] = b[i].data;
  for (int order = 0; order < (k->gpu ? ORDERS : 1) && !error; order++) {
    for (int i = nread; i < n && order; i++)
      memset(b[i].data, POISON, b[i].size);
    error = call_fenced(arena, nread, b, args, entry, order);
    if (!error)
      error = check_buffers(arena, n, b, of, k->want, tol);
    if (error && k->gpu)
      error = tt_arena_printf(arena, "%s (threads %s)", error, orders[order]);
  }
  return error;
}

static const char *
print_kernels(struct tt_arena *arena, const struct exec_case *k,
              const char *name, struct tt_code_sizes *sizes, struct tt_sb *text)
{
  struct tt_gpu_code code;
  const char *error = tt_codegen_gpu(
      arena, k->nest, k->wide ? TT_GPU_C_WIDE : TT_GPU_C, name, &code, text);
  if (!error)
    *sizes = (struct tt_code_sizes){.workspace_bytes = code.workspace_bytes,
                                    .prepared_bytes = code.prepared_bytes};
  return error;
}

static const char *
print_all(struct tt_arena *arena, int n, const struct exec_case *cases,
          struct tt_code_sizes *sizes, struct tt_sb *text, int *failed)
{
  for (int i = 0; i < n; i++) {
    struct tt_codegen_options o = cases[i].options;
    o.name = tt_arena_printf(arena, "kernel%d", i);
    o.entry = true;
    const char *error =
        cases[i].gpu ? print_kernels(arena, &cases[i], o.name, &sizes[i], text)
                     : tt_codegen_c(arena, cases[i].nest, &o, &sizes[i], text);
    if (error) {
      *failed = i;
      return error;
    }
  }
  return NULL;
}

static const char *
run_all(struct scratch *s, int n, const struct exec_case *cases,
        const struct tt_code_sizes *sizes, double tolerance, int *failed)
{
  const char *error = NULL;
  void *so = dlopen(s->so, RTLD_NOW | RTLD_LOCAL);
  if (!so)
    return tt_arena_strdup(s->arena, dlerror());
  for (int i = 0; i < n && !error; i++) {
    void *sym = dlsym(so, tt_arena_printf(s->arena, "kernel%d_entry", i));
    entry_fn *entry;
    memcpy(&entry, &sym, sizeof entry);
    if (sym)
      error = run_case(s->arena, &cases[i], &sizes[i], entry, tolerance);
    else
      error = "the entry is missing";
    *failed = i;
  }
  dlclose(so);
  return error;
}

const char *
exec_c(struct tt_arena *arena, int n, const struct exec_case *cases,
       double tolerance, int *failed)
{
  int dummy;
  struct tt_sb text = {0};
  struct scratch s;
  struct tt_code_sizes *sizes =
      TT_ARRAY(arena, struct tt_code_sizes, (size_t)n + 1);
  if (!failed)
    failed = &dummy;
  *failed = 0;
  const char *error = print_all(arena, n, cases, sizes, &text, failed);
  if (!error && !scratch_open(&s, arena)) {
    error = "no temporary directory";
  } else if (!error) {
    const char *cc = getenv("CC");
    if (getenv("TT_EXEC_KEEP"))
      write_file(getenv("TT_EXEC_KEEP"), tt_sb_str(&text));
    const char *more = getenv("TT_EXEC_FLAGS");
    error = compile(&s, cc && *cc ? cc : "cc",
                    tt_arena_printf(arena,
                                    "-std=gnu11 -O1 -march=native -Wall "
                                    "-Wextra -Werror %s",
                                    more ? more : ""),
                    tt_sb_str(&text));
    const char *which = error ? strstr(error, "kernel") : NULL;
    if (which) /* the compiler names the function */
      *failed = atoi(which + strlen("kernel"));
    if (*failed < 0 || *failed >= n)
      *failed = 0;
    if (!error)
      error = run_all(&s, n, cases, sizes, tolerance, failed);
    scratch_close(&s);
  }
  tt_sb_free(&text);
  return error;
}
