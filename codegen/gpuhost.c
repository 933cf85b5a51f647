/* What a host needs of kernels for GPUs: headers with sizes and a launch
 * wrapper, self-tests and benchmarks.  All of it is C99.
 *
 * A test is the same program in both languages; what it says of a device
 * stands in a few functions before it, which have the same names in both:
 *
 *   open_device, close_device   (argc, argv)
 *   need                        end the program unless a call succeeded
 *   device_get, device_free     memory
 *   to_device, from_device, wait_device
 *   device_seconds              of one launch, in benchmarks
 */
#include "config.h"

#include "codegen/ctest.h"

#include <string.h>

struct host {
  const struct tt_program *program;
  enum tt_gpu_language language;
  const struct tt_gpu_code *code;
  const char *name, *upper;
  struct cprinter c;
};

/* ---- names ------------------------------------------------------------- */

/* Names of the wrapper's own, which no parameter takes. */
static const char *const own[] = {
    "queue", "kernels", "events", "program", "status", "stream",
    "args",  "global",  "local",  "i",       "size",   "kernel",
};

static struct names *
new_names(const struct host *h)
{
  struct names *names = tt_names_new(h->c.arena);
  tt_names_bind_global(names, NULL, h->name);
  for (size_t i = 0; i < sizeof own / sizeof *own; i++)
    tt_names_bind_global(names, NULL, own[i]);
  return names;
}

static void
add_params(const struct host *h, struct names *names, enum tt_role role,
           struct tt_sb *sb)
{
  for (int i = 0; i < h->program->ntensors; i++) {
    const struct tt_tensor *t = h->program->tensors[i];
    if (t->role != role)
      continue;
    const char *name = tt_names_bind(names, t, t->name);
    if (h->language == TT_OPENCL)
      tt_sb_printf(sb, "cl_mem %s, ", name);
    else
      tt_sb_printf(sb, "%s%s *%s, ", role == TT_OUTPUT ? "" : "const ",
                   tt_c_storage(t->dtype), name);
  }
}

/* The memory that NAME_launch or NAME_prepare takes. */
static const char *
memory_params(const struct host *h, struct names *names, bool prepare)
{
  struct tt_sb sb = {0};
  bool cl = h->language == TT_OPENCL;
  add_params(h, names, prepare ? TT_WEIGHT : TT_INPUT, &sb);
  if (tt_has_weights(h->program))
    tt_sb_printf(&sb, "%sprepared, ",
                 cl        ? "cl_mem "
                 : prepare ? "void *"
                           : "const void *");
  if (!prepare) {
    add_params(h, names, TT_OUTPUT, &sb);
    tt_sb_printf(&sb, "%sworkspace, ", cl ? "cl_mem " : "void *");
  }
  const char *text = tt_arena_strdup(h->c.arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static const char *
arg_name(const struct tt_gpu_arg *a, const struct names *names)
{
  switch (a->what) {
  case TT_GPU_TENSOR:
    return names ? tt_names_of(names, a->tensor) : a->tensor->name;
  case TT_GPU_PREPARED:
    return "prepared";
  case TT_GPU_WORKSPACE:
    break;
  }
  return "workspace";
}

static const char *
arg_list(const struct host *h, const struct tt_gpu_launch *l,
         const struct names *names)
{
  struct tt_sb sb = {0};
  for (int a = 0; a < l->nargs; a++)
    tt_sb_printf(&sb, "%s%s", a ? ", " : "", arg_name(&l->args[a], names));
  const char *text = tt_arena_strdup(h->c.arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* ---- sizes ------------------------------------------------------------- */

static void
print_sizes(struct host *h)
{
  struct cprinter *c = &h->c;
  tt_c_line(c, "#define %s_WORKSPACE_BYTES %lld", h->upper,
            (long long)h->code->workspace_bytes);
  if (tt_has_weights(h->program))
    tt_c_line(c, "#define %s_PREPARED_BYTES %lld", h->upper,
              (long long)h->code->prepared_bytes);
  tt_c_line(c, "#define %s_KERNELS %d", h->upper, h->code->n);
  for (int i = 0; i < h->code->n; i++) {
    const struct tt_gpu_launch *l = &h->code->launches[i];
    const char *name = tt_c_upper(c->arena, l->name);
    const int64_t *g = l->grid, *b = l->block;
    bool cl = h->language == TT_OPENCL;
    tt_c_line(c, "/* %s(%s) */", l->name, arg_list(h, l, NULL));
    tt_c_line(c, "#define %s_%s {%lld, %lld, %lld}", name,
              cl ? "GLOBAL" : "GRID", (long long)(cl ? g[0] * b[0] : g[0]),
              (long long)(cl ? g[1] * b[1] : g[1]),
              (long long)(cl ? g[2] * b[2] : g[2]));
    tt_c_line(c, "#define %s_%s {%lld, %lld, %lld}", name,
              cl ? "LOCAL" : "BLOCK", (long long)b[0], (long long)b[1],
              (long long)b[2]);
  }
  tt_c_line(c, "%s", "");
}

/* ---- the wrapper of OpenCL --------------------------------------------- */

static void
print_cl_kernels(struct host *h, const char *linkage)
{
  struct cprinter *c = &h->c;
  tt_c_line(c, "%s cl_int", linkage);
  tt_c_line(c, "%s_kernels(cl_program program, cl_kernel *kernels)", h->name);
  tt_c_line(c, "{");
  tt_c_line(c, "  cl_int status = CL_SUCCESS;");
  for (int i = 0; i < h->code->n; i++) {
    tt_c_line(c, "  %skernels[%d] = clCreateKernel(program, \"%s\", &status);",
              i ? "if (status == CL_SUCCESS)\n    " : "", i,
              h->code->launches[i].name);
  }
  if (h->code->n == 0)
    tt_c_line(c, "  (void)program, (void)kernels;");
  tt_c_line(c, "  return status;");
  tt_c_line(c, "}");
  tt_c_line(c, "%s", "");
}

static void
print_cl_kernel(struct host *h, int i, const struct names *names)
{
  struct cprinter *c = &h->c;
  const struct tt_gpu_launch *l = &h->code->launches[i];
  const char *upper = tt_c_upper(c->arena, l->name);
  tt_c_line(c, "{");
  tt_c_line(c, "  const size_t global[3] = %s_GLOBAL;", upper);
  tt_c_line(c, "  const size_t local[3] = %s_LOCAL;", upper);
  tt_c_line(c, "  const cl_mem args[] = {%s};", arg_list(h, l, names));
  tt_c_line(c, "  for (cl_uint i = 0; i < %d && status == CL_SUCCESS; i++)",
            l->nargs);
  tt_c_line(c,
            "    status = clSetKernelArg(kernels[%d], i, sizeof args[i], "
            "&args[i]);",
            i);
  tt_c_line(c, "  if (status == CL_SUCCESS)");
  tt_c_line(c,
            "    status = clEnqueueNDRangeKernel(queue, kernels[%d], 3, NULL, "
            "global,",
            i);
  tt_c_line(c,
            "                                    local, 0, NULL, events ? "
            "&events[%d] : NULL);",
            i);
  tt_c_line(c, "}");
}

static bool
is_used(const struct host *h, bool prepare, const char *name)
{
  for (int i = 0; i < h->code->n; i++) {
    const struct tt_gpu_launch *l = &h->code->launches[i];
    for (int a = 0; a < l->nargs && l->prepare == prepare; a++)
      if (strcmp(arg_name(&l->args[a], NULL), name) == 0)
        return true;
  }
  return false;
}

static void
print_unused(struct host *h, const struct names *names, bool prepare)
{
  bool any = false;
  for (int i = 0; i < h->code->n; i++)
    any |= h->code->launches[i].prepare == prepare;
  if (!any)
    tt_c_line(&h->c, "(void)queue, (void)kernels, (void)events;");
  for (int i = 0; i < h->program->ntensors; i++) {
    const struct tt_tensor *t = h->program->tensors[i];
    bool param = prepare ? t->role == TT_WEIGHT
                         : t->role == TT_INPUT || t->role == TT_OUTPUT;
    if (param && !is_used(h, prepare, t->name))
      tt_c_line(&h->c, "(void)%s;", tt_names_of(names, t));
  }
  if (tt_has_weights(h->program) && !is_used(h, prepare, "prepared"))
    tt_c_line(&h->c, "(void)prepared;");
  if (!prepare && !is_used(h, false, "workspace"))
    tt_c_line(&h->c, "(void)workspace;");
}

static void
print_cl_launch(struct host *h, const char *linkage, bool prepare)
{
  struct cprinter *c = &h->c;
  struct names *names = new_names(h);
  const char *params = memory_params(h, names, prepare);
  tt_c_line(c, "%s cl_int", linkage);
  tt_c_line(c,
            "%s_%s(cl_command_queue queue, const cl_kernel *kernels, "
            "%scl_event *events)",
            h->name, prepare ? "prepare" : "launch", params);
  tt_c_line(c, "{");
  c->depth++;
  tt_c_line(c, "cl_int status = CL_SUCCESS;");
  for (int i = 0; i < h->code->n; i++)
    if (h->code->launches[i].prepare == prepare)
      print_cl_kernel(h, i, names);
  print_unused(h, names, prepare);
  tt_c_line(c, "return status;");
  c->depth--;
  tt_c_line(c, "}");
  tt_c_line(c, "%s", "");
  tt_names_free(names);
}

static void
print_cl_wrapper(struct host *h, const char *linkage)
{
  print_cl_kernels(h, linkage);
  if (tt_has_weights(h->program))
    print_cl_launch(h, linkage, true);
  print_cl_launch(h, linkage, false);
}

/* ---- the prototypes of CUDA -------------------------------------------- */

static void
print_cuda_prototypes(struct host *h)
{
  for (int prepare = tt_has_weights(h->program); prepare >= 0; prepare--) {
    struct names *names = new_names(h);
    tt_c_line(&h->c, "cudaError_t %s_%s(%scudaStream_t stream);", h->name,
              prepare ? "prepare" : "launch", memory_params(h, names, prepare));
    tt_names_free(names);
  }
}

/* ---- the header -------------------------------------------------------- */

static void
print_usage(const struct host *h, struct tt_sb *out)
{
  bool cl = h->language == TT_OPENCL;
  tt_sb_printf(out,
               " * Memory is the device's; `workspace` has\n"
               " * %s_WORKSPACE_BYTES bytes%s.\n",
               h->upper, cl ? ", or 1 where that is 0" : "");
  if (tt_has_weights(h->program))
    tt_sb_printf(out,
                 " * Call %s_prepare once with the weights; `prepared` has\n"
                 " * %s_PREPARED_BYTES bytes.\n",
                 h->name, h->upper);
  if (!cl) {
    tt_sb_printf(out,
                 " * All of it is aligned to 16 bytes, as cudaMalloc gives it; "
                 "else nothing\n"
                 " * runs and cudaErrorMisalignedAddress is returned.\n");
    return;
  }
  tt_sb_printf(
      out,
      " * Kernels run one after the other, in the order of their numbers; "
      "sizes are in\n"
      " * x, y, z.\n"
      " *\n"
      " * With %s_WITH_LAUNCH defined before it is included, this file has\n"
      " * functions for a host: %s_kernels makes the %s_KERNELS kernels of\n"
      " * the program, the others start them on a queue that keeps the order.\n"
      " * `events` is NULL or has room for %s_KERNELS events.\n",
      h->upper, h->name, h->upper, h->upper);
}

static struct host
new_host(struct tt_arena *arena, const struct tt_program *p,
         enum tt_gpu_language language, const struct tt_gpu_code *code)
{
  return (struct host){.program = p,
                       .language = language,
                       .code = code,
                       .name = p->name,
                       .upper = tt_c_upper(arena, p->name),
                       .c = {.arena = arena}};
}

void
tt_codegen_gpu_header(struct tt_arena *arena, const struct tt_program *p,
                      enum tt_gpu_language language,
                      const struct tt_gpu_code *code, struct tt_sb *out)
{
  struct host h = new_host(arena, p, language, code);
  struct cprinter *c = &h.c;
  tt_sb_printf(&c->body, "/* %s\n", h.name);
  tt_ctest_shapes(p, &c->body);
  print_usage(&h, &c->body);
  tt_sb_printf(&c->body, " */\n#ifndef %s_H\n#define %s_H\n\n", h.upper,
               h.upper);
  if (language == TT_CUDA)
    tt_sb_add(&c->body, "#include <cuda_runtime_api.h>\n#include <stdint.h>"
                        "\n\n");
  print_sizes(&h);
  if (language == TT_CUDA) {
    tt_sb_add(&c->body, "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    print_cuda_prototypes(&h);
    tt_sb_add(&c->body, "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n");
  } else {
    tt_sb_printf(&c->body, "#ifdef %s_WITH_LAUNCH\n#include <CL/cl.h>\n\n",
                 h.upper);
    print_cl_wrapper(&h, "static inline");
    tt_sb_add(&c->body, "#endif\n\n#endif\n");
  }
  tt_sb_addn(out, tt_sb_str(&c->body), c->body.len);
  tt_sb_free(&c->body);
}

/* ---- what programs say of a device ------------------------------------- */

static const char cl_head[] =
    "#define CL_TARGET_OPENCL_VERSION 120\n#include <CL/cl.h>\n";

static const char cl_device[] =
    "typedef cl_mem device_memory;\n"
    "static cl_context context;\n"
    "static cl_command_queue queue;\n"
    "static cl_program program;\n"
    "static cl_kernel kernels[KERNELS + 1];\n\n"
    "static void need(cl_int status, const char *what)\n{\n"
    "  if (status != CL_SUCCESS) {\n"
    "    fprintf(stderr, \"%s failed: OpenCL error %d\\n\", what, "
    "(int)status);\n"
    "    exit(2);\n  }\n}\n\n"
    "static char *read_file(const char *path)\n{\n"
    "  FILE *f = fopen(path, \"rb\");\n"
    "  long n = 0;\n"
    "  if (f && fseek(f, 0, SEEK_END) == 0)\n    n = ftell(f);\n"
    "  char *text = n > 0 ? get((size_t)n + 1) : NULL;\n"
    "  if (!text || fseek(f, 0, SEEK_SET) != 0 ||\n"
    "      fread(text, 1, (size_t)n, f) != (size_t)n) {\n"
    "    fprintf(stderr, \"cannot read %s\\n\", path);\n"
    "    exit(2);\n  }\n"
    "  fclose(f);\n  return text;\n}\n\n"
    "/* Device number n, counted through all platforms. */\n"
    "static cl_device_id find_device(unsigned long n)\n{\n"
    "  cl_platform_id platforms[16];\n"
    "  cl_uint np = 0;\n"
    "  clGetPlatformIDs(16, platforms, &np);\n"
    "  for (cl_uint i = 0; i < np && i < 16; i++) {\n"
    "    cl_device_id devices[64];\n"
    "    cl_uint nd = 0;\n"
    "    if (clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 64, devices, "
    "&nd) !=\n        CL_SUCCESS)\n      continue;\n"
    "    nd = nd < 64 ? nd : 64;\n"
    "    if (n < nd)\n      return devices[n];\n"
    "    n -= nd;\n  }\n"
    "  fputs(\"there is no such OpenCL device\\n\", stderr);\n"
    "  exit(2);\n}\n\n"
    "/* argv: the file with the kernels, and the number of a device. */\n"
    "static void open_device(int argc, char **argv)\n{\n"
    "  char *text = read_file(argc > 1 ? argv[1] : FILE_NAME);\n"
    "  const char *source = text;\n"
    "  cl_device_id device =\n"
    "      find_device(argc > 2 ? strtoul(argv[2], NULL, 10) : 0);\n"
    "  cl_int status;\n"
    "  context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);\n"
    "  need(status, \"clCreateContext\");\n"
    "  queue = clCreateCommandQueue(context, device, "
    "CL_QUEUE_PROFILING_ENABLE,\n                               &status);\n"
    "  need(status, \"clCreateCommandQueue\");\n"
    "  program = clCreateProgramWithSource(context, 1, &source, NULL, "
    "&status);\n"
    "  need(status, \"clCreateProgramWithSource\");\n"
    "  need(clBuildProgram(program, 1, &device, \"-cl-std=CL1.2\", NULL, "
    "NULL),\n       \"clBuildProgram\");\n"
    "  need(MAKE_KERNELS(program, kernels), \"clCreateKernel\");\n"
    "  free(text);\n}\n\n"
    "static void close_device(void)\n{\n"
    "  for (int i = 0; i < KERNELS; i++)\n"
    "    clReleaseKernel(kernels[i]);\n"
    "  clReleaseProgram(program);\n"
    "  clReleaseCommandQueue(queue);\n"
    "  clReleaseContext(context);\n}\n\n"
    "static device_memory device_get(size_t bytes)\n{\n"
    "  cl_int status;\n"
    "  cl_mem m = clCreateBuffer(context, CL_MEM_READ_WRITE, bytes ? bytes : "
    "1,\n                            NULL, &status);\n"
    "  need(status, \"clCreateBuffer\");\n  return m;\n}\n\n"
    "static void device_free(device_memory m)\n{\n"
    "  clReleaseMemObject(m);\n}\n\n"
    "static void to_device(device_memory to, const void *from, size_t "
    "bytes)\n{\n"
    "  need(clEnqueueWriteBuffer(queue, to, CL_TRUE, 0, bytes, from, 0, NULL, "
    "NULL),\n       \"clEnqueueWriteBuffer\");\n}\n\n"
    "static void wait_device(void)\n{\n"
    "  need(clFinish(queue), \"clFinish\");\n}\n\n";

static const char cl_from_device[] =
    "static void from_device(void *to, device_memory from, size_t bytes)\n{\n"
    "  need(clEnqueueReadBuffer(queue, from, CL_TRUE, 0, bytes, to, 0, NULL, "
    "NULL),\n       \"clEnqueueReadBuffer\");\n}\n\n";

/* From the start of the first kernel to the end of the last, by the device's
 * own clock. */
static const char cl_seconds[] =
    "static double device_seconds(const cl_event *events)\n{\n"
    "  cl_ulong from = 0, to = 0;\n"
    "  if (FIRST == KERNELS)\n    return 0;\n"
    "  need(clGetEventProfilingInfo(events[FIRST], "
    "CL_PROFILING_COMMAND_START,\n"
    "                               sizeof from, &from, NULL),\n"
    "       \"clGetEventProfilingInfo\");\n"
    "  need(clGetEventProfilingInfo(events[KERNELS - 1], "
    "CL_PROFILING_COMMAND_END,\n"
    "                               sizeof to, &to, NULL),\n"
    "       \"clGetEventProfilingInfo\");\n"
    "  for (int i = FIRST; i < KERNELS; i++)\n"
    "    clReleaseEvent(events[i]);\n"
    "  return (double)(to - from) * 1e-9;\n}\n\n";

static const char cuda_device[] =
    "typedef void *device_memory;\n\n"
    "static void need(cudaError_t status, const char *what)\n{\n"
    "  if (status != cudaSuccess) {\n"
    "    fprintf(stderr, \"%s failed: %s\\n\", what, "
    "cudaGetErrorString(status));\n"
    "    exit(2);\n  }\n}\n\n"
    "/* argv: the number of a device. */\n"
    "static void open_device(int argc, char **argv)\n{\n"
    "  need(cudaSetDevice(argc > 1 ? atoi(argv[1]) : 0), \"cudaSetDevice\");\n"
    "}\n\n"
    "static void close_device(void)\n{\n}\n\n"
    "static device_memory device_get(size_t bytes)\n{\n"
    "  void *m = NULL;\n"
    "  need(cudaMalloc(&m, bytes ? bytes : 1), \"cudaMalloc\");\n"
    "  return m;\n}\n\n"
    "static void device_free(device_memory m)\n{\n  cudaFree(m);\n}\n\n"
    "static void to_device(device_memory to, const void *from, size_t "
    "bytes)\n{\n"
    "  need(cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice), "
    "\"cudaMemcpy\");\n}\n\n"
    "static void wait_device(void)\n{\n"
    "  need(cudaDeviceSynchronize(), \"a kernel\");\n}\n\n";

static const char cuda_from_device[] =
    "static void from_device(void *to, device_memory from, size_t bytes)\n{\n"
    "  need(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "
    "\"cudaMemcpy\");\n}\n\n";

/* ---- programs ---------------------------------------------------------- */

static void
print_device(struct host *h, const char *file, bool bench)
{
  struct cprinter *c = &h->c;
  if (h->language == TT_CUDA) {
    tt_sb_add(&c->body, cuda_device);
    tt_sb_add(&c->body, bench ? "" : cuda_from_device);
    return;
  }
  int first = 0;
  while (first < h->code->n && h->code->launches[first].prepare)
    first++;
  print_sizes(h);
  print_cl_wrapper(h, "static");
  struct tt_sb quoted = {0};
  for (const char *s = file; *s; s++)
    tt_sb_printf(&quoted, "%s%c", *s == '"' || *s == '\\' ? "\\" : "", *s);
  tt_sb_printf(&c->body,
               "#define KERNELS %d\n#define FIRST %d /* after preparation */\n"
               "#define FILE_NAME \"%s\"\n#define MAKE_KERNELS %s_kernels\n\n",
               h->code->n, first, tt_sb_str(&quoted), h->name);
  tt_sb_free(&quoted);
  tt_sb_add(&c->body, cl_device);
  tt_sb_add(&c->body, bench ? cl_seconds : cl_from_device);
}

static const char *
open_program(struct host *h, const struct tt_nest *plain, const char *file,
             bool bench, struct tt_codegen_options *po)
{
  struct cprinter *c = &h->c;
  struct tt_codegen_options o = {0};
  struct tt_code_sizes sizes;
  tt_sb_printf(
      &c->body,
      "%s#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n"
      "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n%s\n",
      bench ? "#define _POSIX_C_SOURCE 199309L\n#include <time.h>\n" : "",
      h->language == TT_CUDA ? "#include <cuda_runtime_api.h>\n" : cl_head);
  if (h->language == TT_CUDA) {
    print_cuda_prototypes(h);
    tt_c_line(c, "%s", "");
  }
  const char *error =
      tt_ctest_plain(c->arena, h->program, plain, &o, po, &sizes, &c->body);
  if (error)
    return error;
  tt_sb_putc(&c->body, '\n');
  tt_ctest_tools(c, h->program, true, false);
  if (!bench && tt_ctest_has_bf16(h->program))
    tt_sb_add(&c->body, tt_ctest_from_bf16);
  if (bench)
    tt_sb_add(&c->body, tt_ctest_timer);
  print_device(h, file, bench);
  return NULL;
}

/* "d0, d2, ": the device's memory of a role. */
static void
device_args(const struct host *h, enum tt_role role, struct tt_sb *sb)
{
  for (int i = 0; i < h->program->ntensors; i++)
    if (h->program->tensors[i]->role == role)
      tt_sb_printf(sb, "d%d, ", i);
}

static void
print_call(struct host *h, bool prepare, const char *events)
{
  struct tt_sb sb = {0};
  bool cl = h->language == TT_OPENCL;
  device_args(h, prepare ? TT_WEIGHT : TT_INPUT, &sb);
  if (tt_has_weights(h->program))
    tt_sb_add(&sb, "prepared, ");
  if (!prepare) {
    device_args(h, TT_OUTPUT, &sb);
    tt_sb_add(&sb, "workspace, ");
  }
  tt_c_line(&h->c, "need(%s_%s(%s%s%s), \"a launch\");", h->name,
            prepare ? "prepare" : "launch", cl ? "queue, kernels, " : "",
            tt_sb_str(&sb), cl ? events : "0");
  tt_sb_free(&sb);
}

static bool
is_param(const struct tt_tensor *t)
{
  return t->role == TT_INPUT || t->role == TT_WEIGHT || t->role == TT_OUTPUT;
}

static void
open_main(struct host *h, const char *plain)
{
  struct cprinter *c = &h->c;
  const struct tt_program *p = h->program;
  tt_c_line(c, "int main(int argc, char **argv)");
  tt_c_line(c, "{");
  c->depth++;
  tt_c_line(c, "open_device(argc, argv);");
  tt_ctest_arrays(c, p);
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    if (!is_param(t))
      continue;
    tt_c_line(c, "device_memory d%d = device_get(%lldu * sizeof *v%d);", i,
              (long long)tt_tensor_size(t), i);
    if (t->role == TT_OUTPUT) /* what is not computed shall not look right */
      tt_c_line(c, "memset(v%d, 0x7f, %lldu * sizeof *v%d);", i,
                (long long)tt_tensor_size(t), i);
    tt_c_line(c, "to_device(d%d, v%d, %lldu * sizeof *v%d);", i, i,
              (long long)tt_tensor_size(t), i);
  }
  tt_c_line(c, "device_memory workspace = device_get(%lldu);",
            (long long)h->code->workspace_bytes);
  if (!tt_has_weights(p))
    return;
  struct tt_sb sb = {0};
  tt_ctest_args(&sb, p, TT_WEIGHT, 'v');
  tt_c_line(c, "device_memory prepared = device_get(%lldu);",
            (long long)h->code->prepared_bytes);
  tt_c_line(c, "void *prepared_plain = get(%s_prepared_size());", plain);
  tt_c_line(c, "%s_prepare(%s, prepared_plain);", plain, tt_sb_str(&sb));
  print_call(h, true, "NULL");
  tt_sb_free(&sb);
}

static void
close_main(struct host *h, const char *status)
{
  struct cprinter *c = &h->c;
  for (int i = 0; i < h->program->ntensors; i++)
    if (is_param(h->program->tensors[i]))
      tt_c_line(c, "device_free(d%d);", i);
  tt_c_line(c, "device_free(workspace);");
  if (tt_has_weights(h->program)) {
    tt_c_line(c, "device_free(prepared);");
    tt_c_line(c, "free(prepared_plain);");
  }
  tt_ctest_free(c, h->program);
  tt_c_line(c, "close_device();");
  tt_c_line(c, "return %s;", status);
  c->depth--;
  tt_c_line(c, "}");
}

static const char *
plain_args(const struct host *h, char prefix)
{
  struct tt_sb sb = {0};
  tt_ctest_args(&sb, h->program, TT_INPUT, 'v');
  if (tt_has_weights(h->program))
    tt_sb_printf(&sb, "%sprepared_plain", sb.len ? ", " : "");
  tt_ctest_args(&sb, h->program, TT_OUTPUT, prefix);
  const char *text = tt_arena_strdup(h->c.arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static void
print_test_body(struct host *h, const char *plain)
{
  struct cprinter *c = &h->c;
  const struct tt_program *p = h->program;
  tt_c_line(c, "unsigned long wrong = 0;");
  print_call(h, false, "NULL");
  tt_c_line(c, "wait_device();");
  for (int i = 0; i < p->ntensors; i++)
    if (p->tensors[i]->role == TT_OUTPUT)
      tt_c_line(c, "from_device(v%d, d%d, %lldu * sizeof *v%d);", i, i,
                (long long)tt_tensor_size(p->tensors[i]), i);
  tt_c_line(c, "%s(%s);", plain, plain_args(h, 'r'));
  tt_ctest_checks(c, p);
  tt_c_line(c, "printf(\"%s: %%s\\n\", wrong ? \"WRONG\" : \"ok\");", h->name);
  close_main(h, "wrong != 0");
}

/* One launch as often as the clock needs, and what it takes by the device's
 * events; the first ones warm the device up. */
static void
print_device_timing(struct host *h)
{
  struct cprinter *c = &h->c;
  bool cl = h->language == TT_OPENCL;
  tt_c_line(c, "{");
  c->depth++;
  tt_c_line(c, "double best = 1e300, sum = 0;");
  if (cl)
    tt_c_line(c, "cl_event events[KERNELS + 1];");
  else {
    tt_c_line(c, "cudaEvent_t from, to;");
    tt_c_line(c, "need(cudaEventCreate(&from), \"cudaEventCreate\");");
    tt_c_line(c, "need(cudaEventCreate(&to), \"cudaEventCreate\");");
  }
  tt_c_line(c, "for (int i = 0; i < 2000 && (i < 10 || sum < 0.5); i++) {");
  c->depth++;
  if (!cl)
    tt_c_line(c, "need(cudaEventRecord(from, 0), \"cudaEventRecord\");");
  print_call(h, false, "events");
  if (cl) {
    tt_c_line(c, "wait_device();");
    tt_c_line(c, "const double t = device_seconds(events);");
  } else {
    tt_c_line(c, "float ms = 0;");
    tt_c_line(c, "need(cudaEventRecord(to, 0), \"cudaEventRecord\");");
    tt_c_line(c, "wait_device();");
    tt_c_line(c, "need(cudaEventElapsedTime(&ms, from, to), "
                 "\"cudaEventElapsedTime\");");
    tt_c_line(c, "const double t = (double)ms * 1e-3;");
  }
  tt_c_line(c, "sum += t;");
  tt_c_line(c, "if (t > 0 && t < best)");
  tt_c_line(c, "  best = t;");
  c->depth--;
  tt_c_line(c, "}");
  tt_c_line(c, "printf(\"%%-24s %%14.1f ns %%8.2f GFLOP/s\\n\", \"%s\",",
            h->name);
  tt_c_line(c, "       best * 1e9, %.9g / best * 1e-9);",
            tt_program_flops(h->program));
  c->depth--;
  tt_c_line(c, "}");
}

const char *
tt_codegen_gpu_program(struct tt_arena *arena, const struct tt_program *p,
                       const struct tt_nest *plain,
                       enum tt_gpu_language language,
                       const struct tt_gpu_code *code, const char *file,
                       bool bench, struct tt_sb *out)
{
  struct host h = new_host(arena, p, language, code);
  struct tt_codegen_options po;
  tt_sb_printf(&h.c.body,
               bench ? "/* The speed of %s beside the plain loops on the CPU. "
                       "*/\n"
                     : "/* A test of %s against the plain loops: prints one "
                       "line, exits with 0 if equal,\n * 1 if not, and 2 where "
                       "there is no device. */\n",
               p->name);
  const char *error = open_program(&h, plain, file, bench, &po);
  if (!error) {
    open_main(&h, po.name);
    if (bench) {
      print_device_timing(&h);
      tt_ctest_timing(&h.c, po.name, plain_args(&h, 'r'), tt_program_flops(p));
      close_main(&h, "0");
    } else {
      print_test_body(&h, po.name);
    }
    tt_sb_addn(out, tt_sb_str(&h.c.body), h.c.body.len);
  }
  tt_sb_free(&h.c.body);
  return error;
}
