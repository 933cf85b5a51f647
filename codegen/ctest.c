/* Headers, self-tests and benchmarks for an emitted kernel: C99 that links
 * with it.
 *
 * The test and the benchmark hold the plain loops of the same program under
 * another name, as the reference for values and for speed.
 */
#include "config.h"

#include "codegen/ctest.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

static const char *
kernel_name(const struct tt_program *p, const struct tt_codegen_options *o)
{
  return o->name ? o->name : p->name;
}

/* Which of <stddef.h> and <stdint.h> a text needs is not worth finding out
 * here: both are free. */
static void
print_prototypes(struct tt_arena *arena, const struct tt_program *p,
                 const struct tt_codegen_options *o, struct tt_sb *out)
{
  struct cprinter c = {.arena = arena};
  const char *name = kernel_name(p, o);
  if (tt_has_weights(p)) {
    tt_c_line(&c, "size_t %s_prepared_size(void);", name);
    tt_c_line(&c, "void %s_prepare(%s);", name,
              tt_c_prototype(arena, p, o, name, true));
  }
  tt_c_line(&c, "void %s(%s);", name, tt_c_prototype(arena, p, o, name, false));
  tt_sb_add(out, tt_sb_str(&c.body));
  tt_sb_free(&c.body);
}

void
tt_ctest_shapes(const struct tt_program *p, struct tt_sb *out)
{
  static const enum tt_role roles[] = {TT_INPUT, TT_WEIGHT, TT_OUTPUT};
  static const char *const words[] = {"input ", "weight", "output"};
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < p->ntensors; i++) {
      const struct tt_tensor *t = p->tensors[i];
      if (t->role != roles[r])
        continue;
      tt_sb_printf(out, " *   %s %s: %s", words[r], t->name,
                   tt_dtype_name(t->dtype));
      for (int d = 0; d < t->ndim; d++)
        tt_sb_printf(out, "[%lld]", (long long)t->dims[d]);
      tt_sb_putc(out, '\n');
    }
}

void
tt_codegen_header(const struct tt_program *p,
                  const struct tt_codegen_options *o,
                  const struct tt_code_sizes *sizes, struct tt_sb *out)
{
  struct tt_arena *arena = tt_arena_new();
  const char *name = kernel_name(p, o);
  const char *upper = tt_c_upper(arena, name);
  tt_sb_printf(out, "/* %s\n", name);
  tt_ctest_shapes(p, out);
  if (tt_has_weights(p))
    tt_sb_printf(out,
                 " * Call %s_prepare once with the weights; `prepared` has\n"
                 " * %s_prepared_size() bytes, aligned like malloc's.\n",
                 name, name);
  if (o->workspace == TT_WS_ARG)
    tt_sb_printf(out,
                 " * `workspace` has %s_WORKSPACE_BYTES bytes, aligned like\n"
                 " * malloc's; its contents need not survive a call.\n",
                 upper);
  tt_sb_printf(out, " */\n#ifndef %s_H\n#define %s_H\n\n", upper, upper);
  tt_sb_add(out, "#include <stddef.h>\n#include <stdint.h>\n\n");
  if (o->workspace == TT_WS_ARG)
    tt_sb_printf(out, "#define %s_WORKSPACE_BYTES %lld\n\n", upper,
                 (long long)sizes->workspace_bytes);
  tt_sb_add(out, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
  print_prototypes(arena, p, o, out);
  tt_sb_add(out, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
  tt_arena_free(arena);
}

/* ---- programs --------------------------------------------------------- */

/* The plain loops as static functions NAME_plain...; *ref gets the name. */
const char *
tt_ctest_plain(struct tt_arena *arena, const struct tt_program *p,
               const struct tt_nest *plain, const struct tt_codegen_options *o,
               struct tt_codegen_options *po, struct tt_code_sizes *sizes,
               struct tt_sb *out)
{
  *po = (struct tt_codegen_options){
      .c99 = true, .workspace = TT_WS_STATIC, .naive = true};
  po->name = tt_arena_printf(arena, "%s_plain", kernel_name(p, o));
  return tt_c_kernel(arena, plain, po, true, sizes, out);
}

static const char generator[] =
    "/* A small generator of numbers, the same on every machine.  Mixed, so\n"
    " * that long sums with any stride stay small. */\n"
    "static unsigned long state = 1;\n"
    "static unsigned long bits(void)\n{\n"
    "  state = (state * 1664525ul + 1013904223ul) & 0xfffffffful;\n"
    "  const unsigned long mixed = (state ^ state >> 15) * 2246822519ul;\n"
    "  return (mixed & 0xfffffffful) >> 8;\n}\n\n";

/* Memory for n bytes, or the end of the program. */
static const char allocator[] =
    "static void *get(size_t n)\n{\n"
    "  void *p = calloc(n ? n : 1, 1);\n"
    "  if (!p) {\n    fputs(\"out of memory\\n\", stderr);\n    exit(2);\n"
    "  }\n  return p;\n}\n\n";

/* The same for what is timed: in whole lines of a cache, as when it was
 * tuned. */
static const char line_allocator[] =
    "static void *get(size_t n)\n{\n  void *p;\n"
    "  if (posix_memalign(&p, 64, n ? n : 1) != 0) {\n"
    "    fputs(\"out of memory\\n\", stderr);\n    exit(2);\n"
    "  }\n  memset(p, 0, n);\n  return p;\n}\n\n";

static const char *
random_value(struct tt_arena *arena, const struct tt_tensor *t)
{
  if (t->dtype == TT_BOOL)
    return "(uint8_t)(bits() & 1)";
  if (t->dtype == TT_BF16) /* 1 to 2, with either sign */
    return "(uint16_t)(0x3f80u | (bits() & 0x807fu))";
  if (tt_dtype_is_float(t->dtype))
    return tt_arena_printf(arena, "(%s)(((int)(bits() %% 256) - 128) / 64.0)",
                           tt_c_storage(t->dtype));
  int64_t lo = t->has_range ? t->lo : tt_dtype_min(t->dtype);
  int64_t hi = t->has_range ? t->hi - 1 : tt_dtype_max(t->dtype);
  /* Wide types in a range that 24 bits reach. */
  int64_t limit = INT64_C(1) << 20;
  if (!t->has_range) {
    lo = lo < -limit ? -limit : lo;
    hi = hi > limit ? limit : hi;
  }
  uint64_t span = (uint64_t)hi - (uint64_t)lo + 1;
  if (span == 0 || span > (1u << 24))
    span = 1u << 24;
  return tt_arena_printf(arena, "(%s)((int64_t)(bits() %% %llu) + (%lld))",
                         tt_c_storage(t->dtype), (unsigned long long)span,
                         (long long)lo);
}

static bool
is_param(const struct tt_tensor *t)
{
  return t->role == TT_INPUT || t->role == TT_WEIGHT || t->role == TT_OUTPUT;
}

/* Arrays v0, v1, ... for the parameters by position in the program, and r0,
 * ... for the outputs of the reference. */
void
tt_ctest_arrays(struct cprinter *c, const struct tt_program *p)
{
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    long long n = (long long)tt_tensor_size(t);
    const char *type = tt_c_storage(t->dtype);
    if (!is_param(t))
      continue;
    tt_c_line(c, "%s *v%d = get(%lldu * sizeof *v%d); /* %s */", type, i, n, i,
              t->name);
    if (t->role == TT_OUTPUT)
      tt_c_line(c, "%s *r%d = get(%lldu * sizeof *r%d);", type, i, n, i);
    else {
      tt_c_line(c, "for (size_t i = 0; i < %lld; i++)", n);
      tt_c_line(c, "  v%d[i] = %s;", i, random_value(c->arena, t));
    }
  }
}

void
tt_ctest_free(struct cprinter *c, const struct tt_program *p)
{
  for (int i = 0; i < p->ntensors; i++) {
    if (is_param(p->tensors[i]))
      tt_c_line(c, "free(v%d);", i);
    if (p->tensors[i]->role == TT_OUTPUT)
      tt_c_line(c, "free(r%d);", i);
  }
}

void
tt_ctest_args(struct tt_sb *sb, const struct tt_program *p, enum tt_role role,
              char prefix)
{
  for (int i = 0; i < p->ntensors; i++)
    if (p->tensors[i]->role == role)
      tt_sb_printf(sb, "%s%c%d", sb->len ? ", " : "", prefix, i);
}

/* The arguments of NAME: outputs by `prefix`. */
static const char *
run_args(struct tt_arena *arena, const struct tt_program *p,
         const char *prepared, char prefix, bool workspace)
{
  struct tt_sb sb = {0};
  tt_ctest_args(&sb, p, TT_INPUT, 'v');
  if (tt_has_weights(p))
    tt_sb_printf(&sb, "%s%s", sb.len ? ", " : "", prepared);
  tt_ctest_args(&sb, p, TT_OUTPUT, prefix);
  if (workspace)
    tt_sb_printf(&sb, "%sworkspace", sb.len ? ", " : "");
  const char *text = tt_arena_strdup(arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static void
print_prepare_calls(struct cprinter *c, const struct tt_program *p,
                    const char *name, const char *plain)
{
  struct tt_sb sb = {0};
  if (!tt_has_weights(p))
    return;
  tt_ctest_args(&sb, p, TT_WEIGHT, 'v');
  tt_c_line(c, "void *prepared = get(%s_prepared_size());", name);
  tt_c_line(c, "void *prepared_plain = get(%s_prepared_size());", plain);
  tt_c_line(c, "%s_prepare(%s, prepared);", name, tt_sb_str(&sb));
  tt_c_line(c, "%s_prepare(%s, prepared_plain);", plain, tt_sb_str(&sb));
  tt_sb_free(&sb);
}

/* How much a float result may differ, relative to its size and to 1: the
 * sums of both orders err by the unit roundoff for every term. */
static double
tolerance(const struct tt_program *p, enum tt_dtype t)
{
  double terms = 16;
  for (int i = 0; i < p->nstages; i++) {
    double n = 1;
    for (int j = 0; j < p->stages[i]->nreduce; j++)
      n *= (double)p->stages[i]->reduce[j]->extent;
    terms += p->stages[i]->nreduce > 0 ? n : 0;
  }
  double unit = t == TT_F64 ? DBL_EPSILON : FLT_EPSILON;
  if (t == TT_F16)
    unit = 1.0 / 1024;
  if (t == TT_BF16)
    unit = 1.0 / 128;
  double tol = 2 * unit * terms;
  return tol > 0.05 ? 0.05 : tol;
}

void
tt_ctest_checks(struct cprinter *c, const struct tt_program *p)
{
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    long long n = (long long)tt_tensor_size(t);
    if (t->role != TT_OUTPUT)
      continue;
    tt_c_line(c, "for (size_t i = 0; i < %lld; i++) {", n);
    if (tt_dtype_is_float(t->dtype)) {
      const char *conv = t->dtype == TT_BF16 ? "from_bf16" : "(double)";
      tt_c_line(c, "  const double x = %s(v%d[i]), y = %s(r%d[i]);", conv, i,
                conv, i);
      tt_c_line(c, "  const double e = fabs(x - y) / (1 + fabs(y));");
      tt_c_line(c, "  if (x != y && (x == x || y == y) && !(e <= %.3g)) {",
                tolerance(p, t->dtype));
    } else {
      tt_c_line(c, "  if (v%d[i] != r%d[i]) {", i, i);
    }
    tt_c_line(c, "    if (wrong++ == 0)");
    tt_c_line(c,
              "      printf(\"%s[%%lu]: %%.9g instead of %%.9g\\n\", "
              "(unsigned long)i, (double)v%d[i], (double)r%d[i]);",
              t->name, i, i);
    tt_c_line(c, "  }");
    tt_c_line(c, "}");
  }
}

bool
tt_ctest_has_bf16(const struct tt_program *p)
{
  for (int i = 0; i < p->ntensors; i++)
    if (p->tensors[i]->role == TT_OUTPUT && p->tensors[i]->dtype == TT_BF16)
      return true;
  return false;
}

const char tt_ctest_from_bf16[] =
    "static double from_bf16(uint16_t v)\n{\n"
    "  union {\n    uint32_t u;\n    float f;\n  } x;\n"
    "  x.u = (uint32_t)v << 16;\n  return x.f;\n}\n\n";

void
tt_ctest_tools(struct cprinter *c, const struct tt_program *p, bool memory,
               bool lines)
{
  bool random = false;
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    random = random || (is_param(t) && t->role != TT_OUTPUT);
    memory = memory || is_param(t);
  }
  tt_sb_add(&c->body, random ? generator : "");
  if (memory)
    tt_sb_add(&c->body, lines ? line_allocator : allocator);
}

/* What both programs begin with, up to the body of main; `timing`: the
 * headers for that, or NULL. */
static const char *
open_program(struct cprinter *c, const struct tt_program *p,
             const struct tt_nest *plain, const struct tt_codegen_options *o,
             const char *timing, struct tt_codegen_options *po)
{
  struct tt_code_sizes sizes;
  tt_sb_printf(&c->body,
               "%s#include <math.h>\n#include <stddef.h>\n"
               "#include <stdint.h>\n#include <stdio.h>\n"
               "#include <stdlib.h>\n",
               timing ? timing : "");
  tt_sb_putc(&c->body, '\n');
  print_prototypes(c->arena, p, o, &c->body);
  tt_sb_putc(&c->body, '\n');
  const char *error =
      tt_ctest_plain(c->arena, p, plain, o, po, &sizes, &c->body);
  if (error)
    return error;
  tt_sb_putc(&c->body, '\n');
  tt_ctest_tools(c, p, o->workspace == TT_WS_ARG, timing != NULL);
  return NULL;
}

static void
open_main(struct cprinter *c, const struct tt_program *p, const char *name,
          const char *plain, const struct tt_codegen_options *o,
          const struct tt_code_sizes *sizes)
{
  tt_c_line(c, "int main(void)");
  tt_c_line(c, "{");
  c->depth++;
  tt_ctest_arrays(c, p);
  print_prepare_calls(c, p, name, plain);
  if (o->workspace == TT_WS_ARG)
    tt_c_line(c, "void *workspace = get(%lldu);",
              (long long)sizes->workspace_bytes);
}

static void
close_main(struct cprinter *c, const struct tt_program *p,
           const struct tt_codegen_options *o, const char *status)
{
  tt_ctest_free(c, p);
  if (tt_has_weights(p)) {
    tt_c_line(c, "free(prepared);");
    tt_c_line(c, "free(prepared_plain);");
  }
  if (o->workspace == TT_WS_ARG)
    tt_c_line(c, "free(workspace);");
  tt_c_line(c, "return %s;", status);
  c->depth--;
  tt_c_line(c, "}");
}

const char *
tt_codegen_test(struct tt_arena *arena, const struct tt_program *p,
                const struct tt_nest *plain, const struct tt_codegen_options *o,
                const struct tt_code_sizes *sizes, struct tt_sb *out)
{
  struct cprinter c = {.arena = arena};
  struct tt_codegen_options po;
  const char *name = kernel_name(p, o);
  tt_sb_printf(&c.body,
               "/* A test of %s against the plain loops: prints one line, "
               "exits with 0 if equal. */\n",
               name);
  const char *error = open_program(&c, p, plain, o, NULL, &po);
  if (!error) {
    bool arg = o->workspace == TT_WS_ARG;
    if (tt_ctest_has_bf16(p))
      tt_sb_add(&c.body, tt_ctest_from_bf16);
    open_main(&c, p, name, po.name, o, sizes);
    tt_c_line(&c, "unsigned long wrong = 0;");
    tt_c_line(&c, "%s(%s);", name, run_args(arena, p, "prepared", 'v', arg));
    tt_c_line(&c, "%s(%s);", po.name,
              run_args(arena, p, "prepared_plain", 'r', false));
    tt_ctest_checks(&c, p);
    tt_c_line(&c, "printf(\"%s: %%s\\n\", wrong ? \"WRONG\" : \"ok\");", name);
    close_main(&c, p, o, "wrong != 0");
    tt_sb_add(out, tt_sb_str(&c.body));
  }
  tt_sb_free(&c.body);
  return error;
}

const char tt_ctest_timer[] =
    "static double now(void)\n{\n  struct timespec t;\n"
    "  clock_gettime(CLOCK_MONOTONIC, &t);\n"
    "  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;\n}\n\n";

/* The best of several rounds, each long enough for the clock. */
void
tt_ctest_timing(struct cprinter *c, const char *name, const char *args,
                double flops)
{
  tt_c_line(c, "{");
  tt_c_line(c, "  double best = 1e300;");
  tt_c_line(c, "  long calls = 1;");
  tt_c_line(c, "  for (int round = 0; round < 5;) {");
  tt_c_line(c, "    double t = now();");
  tt_c_line(c, "    for (long i = 0; i < calls; i++)");
  tt_c_line(c, "      %s(%s);", name, args);
  tt_c_line(c, "    t = now() - t;");
  tt_c_line(c, "    if (t < 0.02 && calls < 1L << 30) {");
  tt_c_line(c, "      calls *= 2;");
  tt_c_line(c, "      continue;");
  tt_c_line(c, "    }");
  tt_c_line(c, "    round++;");
  tt_c_line(c, "    if (t / (double)calls < best)");
  tt_c_line(c, "      best = t / (double)calls;");
  tt_c_line(c, "  }");
  tt_c_line(c, "  printf(\"%%-24s %%14.1f ns %%8.2f GFLOP/s\\n\", \"%s\",",
            name);
  tt_c_line(c, "         best * 1e9, %.9g / best * 1e-9);", flops);
  tt_c_line(c, "}");
}

const char *
tt_codegen_bench(struct tt_arena *arena, const struct tt_program *p,
                 const struct tt_nest *plain,
                 const struct tt_codegen_options *o,
                 const struct tt_code_sizes *sizes, struct tt_sb *out)
{
  struct cprinter c = {.arena = arena};
  struct tt_codegen_options po;
  const char *name = kernel_name(p, o);
  double flops = tt_program_flops(p);
  tt_sb_printf(&c.body, "/* The speed of %s beside the plain loops. */\n",
               name);
  const char *error =
      open_program(&c, p, plain, o,
                   "#define _POSIX_C_SOURCE 200112L\n#include <string.h>\n"
                   "#include <time.h>\n",
                   &po);
  if (!error) {
    bool arg = o->workspace == TT_WS_ARG;
    tt_sb_add(&c.body, tt_ctest_timer);
    open_main(&c, p, name, po.name, o, sizes);
    tt_ctest_timing(&c, name, run_args(arena, p, "prepared", 'v', arg), flops);
    tt_ctest_timing(&c, po.name,
                    run_args(arena, p, "prepared_plain", 'r', false), flops);
    close_main(&c, p, o, "0");
    tt_sb_add(out, tt_sb_str(&c.body));
  }
  tt_sb_free(&c.body);
  return error;
}
