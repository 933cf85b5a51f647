/* Kernels for GPUs run on an OpenCL device: a product in tiles, every example,
 * and random programs under random schedules, against the interpreter.
 *
 * TT_RANDOM_COUNT sets the number of random pairs, TT_RANDOM_SEED where they
 * start.  Skipped where there is no device.
 */
#include "config.h"

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "codegen/codegen.h"
#include "frontend/frontend.h"
#include "ir/passes.h"
#include "schedule/schedule.h"
#include "tests/example_programs.h"
#include "tests/exec_c.h"
#include "tests/random_program.h"
#include "tests/random_schedule.h"

static struct {
  cl_device_id device;
  cl_context context;
  cl_command_queue queue;
} cl;

static bool
open_device(void)
{
  cl_platform_id platform[8];
  cl_uint n = 0;
  cl_int error;
  if (clGetPlatformIDs(8, platform, &n) != CL_SUCCESS)
    return false;
  for (cl_uint i = 0; i < n && i < 8; i++) {
    if (clGetDeviceIDs(platform[i], CL_DEVICE_TYPE_ALL, 1, &cl.device, NULL) !=
        CL_SUCCESS)
      continue;
    cl.context = clCreateContext(NULL, 1, &cl.device, NULL, NULL, &error);
    if (error != CL_SUCCESS)
      continue;
    cl.queue = clCreateCommandQueue(cl.context, cl.device, 0, &error);
    return error == CL_SUCCESS;
  }
  return false;
}

/* ---- running ----------------------------------------------------------- */

struct running {
  struct tt_arena *arena;
  const struct tt_program *program;
  const struct tt_gpu_code *code;
  cl_program built;
  cl_mem *tensors; /* by id */
  cl_mem prepared, workspace;
};

static const char *
build(struct running *r, const char *text)
{
  cl_int error;
  r->built = clCreateProgramWithSource(cl.context, 1, &text, NULL, &error);
  error = clBuildProgram(r->built, 1, &cl.device, "-cl-std=CL1.2", NULL, NULL);
  if (error == CL_SUCCESS)
    return NULL;
  char log[4000] = "";
  clGetProgramBuildInfo(r->built, cl.device, CL_PROGRAM_BUILD_LOG,
                        sizeof log - 1, log, NULL);
  return tt_arena_printf(r->arena, "error %d: %s\n%s", error, log, text);
}

static cl_mem
memory(int64_t bytes, void *data)
{
  cl_int error;
  cl_mem m = clCreateBuffer(
      cl.context, CL_MEM_READ_WRITE | (data ? CL_MEM_COPY_HOST_PTR : 0),
      (size_t)(bytes > 0 ? bytes : 1), data, &error);
  assert_int_equal(error, CL_SUCCESS);
  return m;
}

static int64_t
bytes_of(const struct tt_tensor *t)
{
  return tt_tensor_size(t) * tt_dtype_bytes(t->dtype);
}

static void
make_memory(struct running *r, struct tt_values *in)
{
  const struct tt_program *p = r->program;
  r->tensors = TT_ARRAY(r->arena, cl_mem, (size_t)p->ntensors + 1);
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    if (t->role != TT_INPUT && t->role != TT_WEIGHT && t->role != TT_OUTPUT)
      continue;
    void *data = tt_arena_alloc(r->arena, (size_t)bytes_of(t));
    memset(data, 0xa5, (size_t)bytes_of(t));
    if (t->role != TT_OUTPUT)
      exec_pack(t, in, data);
    r->tensors[i] = memory(bytes_of(t), data);
  }
  r->prepared = memory(r->code->prepared_bytes, NULL);
  r->workspace = memory(r->code->workspace_bytes, NULL);
}

static void
launch(struct running *r, const struct tt_gpu_launch *l)
{
  cl_int error;
  cl_kernel k = clCreateKernel(r->built, l->name, &error);
  assert_int_equal(error, CL_SUCCESS);
  size_t global[3], local[3];
  for (int i = 0; i < 3; i++) {
    local[i] = (size_t)l->block[i];
    global[i] = (size_t)(l->grid[i] * l->block[i]);
  }
  for (int i = 0; i < l->nargs; i++) {
    const cl_mem *m = l->args[i].what == TT_GPU_TENSOR
                          ? &r->tensors[l->args[i].tensor->id]
                      : l->args[i].what == TT_GPU_PREPARED ? &r->prepared
                                                           : &r->workspace;
    assert_int_equal(clSetKernelArg(k, (cl_uint)i, sizeof *m, m), CL_SUCCESS);
  }
  error = clEnqueueNDRangeKernel(cl.queue, k, 3, NULL, global, local, 0, NULL,
                                 NULL);
  assert_int_equal(error, CL_SUCCESS);
  assert_int_equal(clFinish(cl.queue), CL_SUCCESS);
  clReleaseKernel(k);
}

static void
read_outputs(struct running *r, struct tt_values *got)
{
  for (int i = 0; i < r->program->ntensors; i++) {
    const struct tt_tensor *t = r->program->tensors[i];
    if (t->role != TT_OUTPUT)
      continue;
    void *data = tt_arena_alloc(r->arena, (size_t)bytes_of(t));
    assert_int_equal(clEnqueueReadBuffer(cl.queue, r->tensors[i], CL_TRUE, 0,
                                         (size_t)bytes_of(t), data, 0, NULL,
                                         NULL),
                     CL_SUCCESS);
    exec_unpack(t, data, got);
  }
}

static void
release(struct running *r)
{
  for (int i = 0; i < r->program->ntensors && r->tensors; i++)
    if (r->tensors[i])
      clReleaseMemObject(r->tensors[i]);
  if (r->tensors) {
    clReleaseMemObject(r->prepared);
    clReleaseMemObject(r->workspace);
  }
  clReleaseProgram(r->built);
}

/* NULL, or what is wrong; *skipped: a limit of GPUs is exceeded. */
static const char *
check(struct tt_arena *ar, const struct tt_schedule *s,
      const struct tt_program *p, uint64_t seed, bool *skipped)
{
  struct tt_nest nest;
  struct tt_gpu_code code;
  struct tt_sb text = {0};
  const char *error = NULL;
  *skipped = !tt_schedule_lower(ar, s, &nest, &error);
  if (*skipped)
    return NULL;
  error = tt_codegen_gpu(ar, &nest, TT_OPENCL, NULL, &code, &text);
  if (error) {
    *skipped = strstr(error, "GPU") || strstr(error, "of a GPU") ||
               strstr(error, " dimension ") || strstr(error, "unrolling");
    return *skipped ? NULL : error;
  }
  struct running r = {.arena = ar, .program = p, .code = &code};
  struct tt_values *want = tt_values_new(), *got = tt_values_new();
  tt_values_random(want, p, seed);
  error = build(&r, tt_sb_str(&text));
  if (!error) {
    make_memory(&r, want);
    error = tt_interpret_program(p, want);
    if (error)
      error = tt_arena_strdup(ar, error);
  }
  for (int i = 0; i < code.n && !error; i++)
    launch(&r, &code.launches[i]);
  if (!error) {
    read_outputs(&r, got);
    error = exec_compare(ar, p, want, got);
  }
  if (error)
    error = tt_arena_printf(ar, "%s\n%s", tt_sb_str(&text), error);
  release(&r);
  tt_values_free(want);
  tt_values_free(got);
  tt_sb_free(&text);
  return error;
}

/* ---- examples ---------------------------------------------------------- */

static void
examples_are_right(void **state)
{
  (void)state;
  for (int i = 0; i < tt_nexamples; i++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p = tt_example_program(ar, &tt_examples[i], false);
    if (!p)
      fail_msg("%s does not compile", tt_examples[i].file);
    bool skipped;
    const char *error =
        check(ar, tt_gpu_schedule(ar, p, &tt_gpu_unknown, false, true), p, 1,
              &skipped);
    if (error || skipped)
      fail_msg("%s: %s", tt_examples[i].file, error ? error : "skipped");
    /* Its own schedule, with an instruction that the device may not have. */
    struct tt_schedule *own = tt_schedule_new(ar, p, false);
    if (p->nintrins) {
      assert_true(tt_schedule_apply(own, &p->blocks[0], NULL));
      error = check(ar, own, p, 1, &skipped);
      if (error || skipped)
        fail_msg("%s: %s", tt_examples[i].file, error ? error : "skipped");
    }
    /* Points of the space, of a CPU as a device and of others. */
    for (uint64_t seed = 2; seed < 4; seed++) {
      struct tt_schedule *point = tt_random_gpu_point(ar, p, seed, true);
      error = point ? check(ar, point, p, seed, &skipped) : NULL;
      if (error)
        fail_msg("%s, point %llu: %s", tt_examples[i].file,
                 (unsigned long long)seed, error);
    }
    tt_arena_free(ar);
  }
}

/* ---- tiles -------------------------------------------------------------- */

static const char tiles[] =
    "schedule { C.split(m, 16, my, tail=\"%s\"); C.split(my, 4, mr);"
    "C.split(n, 32, nx, tail=\"%s\"); C.split(nx, 4, nr); C.split(k, 8, ki);"
    "C.reorder(m, n, k, my, nx, ki, mr, nr);"
    "C.bind(m, \"block.y\"); C.bind(n, \"block.x\");"
    "C.bind(my, \"thread.y\"); C.bind(nx, \"thread.x\"); C.cache_write(n);"
    "C.cache_read(A, k, name=As%s); C.cache_read(B, k, name=Bs%s);"
    "C.unroll(mr); C.unroll(nr); }";

static const struct tt_define product_sizes[][3] = {
    {{"M", "32"}, {"N", "64"}, {"K", "16"}},
    {{"M", "37"}, {"N", "50"}, {"K", "21"}},
    {{"M", "5"}, {"N", "7"}, {"K", "3"}},
};

/* How operands lie in shared memory, and how far ahead they are copied. */
static const char *const stagings[] = {"", ", pad=4, stages=2",
                                       ", swizzle=4, stages=3"};

static void
tiles_are_right(void **state)
{
  (void)state;
  const char *top = getenv("abs_top_srcdir");
  for (int i = 0; i < 6; i++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_frontend_options o = {.ndefines = 3,
                                    .defines = product_sizes[i / 2]};
    const char *tail = i % 2 ? "guard" : "peel";
    const char *text = tt_arena_printf(ar, tiles, tail, tail, stagings[i % 3],
                                       stagings[(i + i / 2) % 3]);
    struct tt_diags *diags = tt_diags_new(ar);
    struct tt_frontend_result f = tt_compile_file(
        ar, diags,
        tt_arena_printf(ar, "%s/examples/matmul.te", top ? top : ".."), &o,
        false);
    const struct tt_sblock *block =
        tt_parse_schedule(ar, diags, "tiles", text, strlen(text));
    assert_non_null(f.program);
    assert_non_null(block);
    struct tt_schedule *s = tt_schedule_new(ar, f.program, false);
    if (!tt_schedule_apply(s, block, NULL))
      fail_msg("%s", s->error);
    bool skipped;
    const char *error = check(ar, s, f.program, 1, &skipped);
    if (error)
      fail_msg("%s", error);
    assert_false(skipped);
    tt_arena_free(ar);
  }
}

/* ---- instructions of several threads ------------------------------------ */

/* Loops of tiles that stand for an instruction of a warp, before and after a
 * loop with barriers.  (PoCL 3.1 aborted on a condition around each of them.)
 */
static const char warps[] =
    "schedule { C.split(m, 64, mf); C.split(mf, 64, mw); C.split(mw, 16, mi);"
    "C.split(n, 64, nw); C.split(nw, 32, nf); C.split(nf, 16, ni);"
    "C.split(k, 32, ks); C.split(ks, 16, ki);"
    "C.reorder(m, n, k, mf, nw, ks, mw, nf, mi, ni, ki);"
    "C.bind(m, \"block.y\"); C.bind(n, \"block.x\");"
    "C.bind(mf, \"thread.z\"); C.bind(nw, \"thread.y\"); C.cache_write(n);"
    "C.tensorize(mi, wmma16); C.cache_read(A, k, vectorize=8);"
    "C.cache_read(B, k, vectorize=8);"
    "C.unroll(ks); C.unroll(mw); C.unroll(nf); }";

static void
warps_are_right(void **state)
{
  (void)state;
  struct tt_arena *ar = tt_arena_new();
  const struct example e = {"hgemm.te",
                            {{"M", "128"}, {"N", "128"}, {"K", "64"}}};
  struct tt_program *p = tt_example_program(ar, &e, false);
  struct tt_diags *diags = tt_diags_new(ar);
  const struct tt_sblock *block =
      tt_parse_schedule(ar, diags, "warps", warps, strlen(warps));
  assert_non_null(p);
  assert_non_null(block);
  struct tt_schedule *s = tt_schedule_new(ar, p, false);
  if (!tt_schedule_apply(s, block, NULL))
    fail_msg("%s", s->error);
  bool skipped;
  const char *error = check(ar, s, p, 1, &skipped);
  if (error)
    fail_msg("%s", error);
  assert_false(skipped);
  tt_arena_free(ar);
}

/* ---- instructions that come with the tool ------------------------------ */

/* Four products of bytes at once, where the driver has them, by name. */
static void
instructions_are_right(void **state)
{
  (void)state;
  static const char block[] =
      "schedule {\n"
      "  C.split(m, 16, mt);  C.split(mt, 2, mr);\n"
      "  C.split(n, 32, nt);  C.split(nt, 4, nr);\n"
      "  C.split(k, 16, ki);  C.split(ki, 4, kq);\n"
      "  C.reorder(m, n, k, mt, nt, ki, mr, nr, kq);\n"
      "  C.bind(m, \"block.y\");  C.bind(n, \"block.x\");\n"
      "  C.bind(mt, \"thread.y\");  C.bind(nt, \"thread.x\");\n"
      "  C.cache_write(n);\n"
      "  C.cache_read(A, k, layout=\"ki mt mr kq\", vectorize=4);\n"
      "  C.cache_read(B, k, layout=\"ki nt nr kq\", vectorize=4);\n"
      "  C.unroll(mr);  C.unroll(nr);  C.tensorize(kq, %s);\n"
      "}\n";
  static const char *const names[][2] = {{"i8", "dp4a"}, {"u8", "dp4a_u8"}};
  for (int i = 0; i < 2; i++) {
    struct tt_arena *ar = tt_arena_new();
    const struct tt_frontend_options o = {.built_in = TT_BUILT_IN_OPENCL};
    struct tt_diags *diags = tt_diags_new(ar);
    const char *text =
        tt_arena_printf(ar,
                        "input A[32,48], B[64,48]: %s; output C[32,64]: i32;\n"
                        "C[m,n] = sum[k](i32(A[m,k]) * i32(B[n,k]));\n",
                        names[i][0]);
    struct tt_program *p =
        tt_compile_text(ar, diags, "t.te", text, strlen(text), &o, false)
            .program;
    text = tt_arena_printf(ar, block, names[i][1]);
    const struct tt_sblock *b =
        tt_parse_schedule(ar, diags, "t", text, strlen(text));
    assert_non_null(p);
    assert_non_null(b);
    struct tt_schedule *s = tt_schedule_new(ar, p, false);
    if (!tt_schedule_apply(s, b, NULL))
      fail_msg("%s", s->error);
    bool skipped;
    const char *error = check(ar, s, p, 1, &skipped);
    if (error || skipped)
      fail_msg("%s: %s", names[i][1], error ? error : "skipped");
    tt_arena_free(ar);
  }
}

/* ---- places of operands ------------------------------------------------- */

/* %s: how the rows that the instruction's text asks for lie. */
static const char by_place[] =
    "input A[32,96], B[96,16]: i8; output C[32,16]: i32;\n"
    "intrin quad(c[4]: i32, a[4,16]: i8 rows(1) aligned(4), b[16]: i8) {\n"
    "  c[i] += sum[k](i32(a[i,k]) * i32(b[k]));\n"
    "  emit %{\n"
    "    for (int i_ = 0; i_ < 4; i_++)\n"
    "      for (int k_ = 0; k_ < 16; k_ += 4)\n"
    "        for (int q_ = 0; q_ < 4; q_++)\n"
    "          $c[i_ * $c.0] += $a(i_, k_)[q_] * $b[(k_ + q_) * $b.0];\n"
    "  %}\n"
    "}\n"
    "C[m,n] = sum[k](i32(A[m,k]) * i32(B[k,n]));\n"
    "schedule {\n"
    "  C.split(m, 16, mt); C.split(mt, 4, mi);\n"
    "  C.split(n, 8, nt);  C.split(k, 32, ks); C.split(ks, 16, ki);\n"
    "  C.reorder(m, n, k, mt, nt, ks, mi, ki);\n"
    "  C.bind(m, \"block.y\"); C.bind(n, \"block.x\");\n"
    "  C.bind(mt, \"thread.y\"); C.bind(nt, \"thread.x\");\n"
    "  C.cache_read(A, k, name=As%s); C.cache_read(B, k, name=Bs);\n"
    "  C.tensorize(mi, quad);\n"
    "}\n";

static void
places_are_right(void **state)
{
  (void)state;
  static const char *const rows[] = {"", ", pad=4, stages=2", ", swizzle=4",
                                     ", swizzle=8, stages=3"};
  const char *at = strstr(by_place, "%s");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct tt_arena *ar = tt_arena_new();
    const char *text = tt_arena_printf(ar, "%.*s%s%s", (int)(at - by_place),
                                       by_place, rows[i], at + 2);
    struct tt_diags *diags = tt_diags_new(ar);
    struct tt_program *p =
        tt_compile_text(ar, diags, "t.te", text, strlen(text), NULL, false)
            .program;
    assert_non_null(p);
    struct tt_schedule *s = tt_schedule_new(ar, p, false);
    if (!tt_schedule_apply(s, &p->blocks[0], NULL))
      fail_msg("%s", s->error);
    bool skipped;
    const char *error = check(ar, s, p, 1, &skipped);
    if (error || skipped)
      fail_msg("%s: %s", rows[i], error ? error : "skipped");
    tt_arena_free(ar);
  }
}

/* ---- random pairs ------------------------------------------------------ */

static void
halves_are_right(void **state)
{
  (void)state;
  static const enum tt_dtype types[] = {TT_F16, TT_BF16};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p = tt_halves_program(ar, types[i], 20, 36, 24);
    bool skipped;
    const char *error =
        check(ar, tt_gpu_schedule(ar, p, &tt_gpu_unknown, false, true), p, 1,
              &skipped);
    if (error || skipped)
      fail_msg("%s: %s", tt_dtype_name(types[i]), error ? error : "skipped");
    tt_arena_free(ar);
  }
}

static void
random_kernels_are_right(void **state)
{
  (void)state;
  const char *count = getenv("TT_RANDOM_COUNT");
  const char *start = getenv("TT_RANDOM_SEED");
  uint64_t first = start ? strtoull(start, NULL, 10) : 1;
  uint64_t n = count ? strtoull(count, NULL, 10) : start ? 1 : 60, skips = 0;
  for (uint64_t i = first; i < first + n; i++) {
    struct tt_arena *ar = tt_arena_new();
    struct tt_program *p = tt_random_program(ar, i);
    uint64_t seed = 7 * i + 5; /* those that bind loops */
    struct tt_schedule *s =
        i % 3 == 0 ? tt_gpu_schedule(ar, p, &tt_gpu_unknown, false, i % 2)
                   : tt_random_schedule(ar, p, seed, 4 + (int)(i % 30), false);
    bool skipped;
    const char *error = check(ar, s, s->program, i, &skipped);
    skips += skipped;
    if (error) {
      struct tt_sb sb = {0};
      tt_dump_program(&sb, p);
      tt_schedule_print(s, &sb);
      fprintf(stderr, "%s\n%s\nTT_RANDOM_SEED=%llu\n", tt_sb_str(&sb), error,
              (unsigned long long)i);
      fail();
    }
    tt_arena_free(ar);
  }
  assert_true(skips * 2 <= n || n < 10);
}

int
main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tiles_are_right),
      cmocka_unit_test(warps_are_right),
      cmocka_unit_test(examples_are_right),
      cmocka_unit_test(halves_are_right),
      cmocka_unit_test(instructions_are_right),
      cmocka_unit_test(places_are_right),
      cmocka_unit_test(random_kernels_are_right),
  };
  setenv("POCL_KERNEL_CACHE", "0", 0); /* leaves nothing behind */
  if (!open_device()) {
    fprintf(stderr, "skipped: no OpenCL device\n");
    return 77;
  }
  if (getenv("TT_RANDOM_SEED"))
    cmocka_set_test_filter("random*");
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  clReleaseCommandQueue(cl.queue);
  clReleaseContext(cl.context);
  fflush(NULL);
  _exit(failed); /* what a driver never frees is not ours to report */
}
