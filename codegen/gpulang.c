/* What the languages of GPUs say otherwise than C: a table for each, and the
 * plain C that tests run kernels in. */
#include "config.h"

#include "codegen/gpulang.h"

const struct language tt_cuda = {
    {"int", "__restrict__", false, "static __device__ inline",
     "static __device__ const", "f", TT_CUDA_VECTORS},
    {"blockIdx.x", "blockIdx.y", "blockIdx.z", "threadIdx.x", "threadIdx.y",
     "threadIdx.z"},
    "extern \"C\" __global__ void __launch_bounds__(%lld)",
    true,
    "",
    "__shared__ __align__(16) ",
    "",
    true,
    "__syncthreads();",
    "__syncthreads();",
    "#include <cuda_runtime.h>\n#include <math.h>\n#include <stdint.h>\n\n"};

const struct language tt_opencl = {
    {"int", "restrict", false, "static inline", "__constant", "",
     TT_OPENCL_VECTORS},
    {"(int)get_group_id(0)", "(int)get_group_id(1)", "(int)get_group_id(2)",
     "(int)get_local_id(0)", "(int)get_local_id(1)", "(int)get_local_id(2)"},
    "__kernel __attribute__((reqd_work_group_size(%lld, %lld, %lld))) void",
    false,
    "__global ",
    "__local ",
    " __attribute__((aligned(16)))",
    false,
    "barrier(CLK_LOCAL_MEM_FENCE);",
    "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
    ""};

const struct language tt_plain = {
    {"int", "restrict", false, "static inline", "static const", "f",
     TT_GNU_VECTORS},
    {"", "", "", "", "", ""},
    "static void",
    false,
    "",
    "",
    "",
    false,
    NULL,
    NULL,
    "#include <math.h>\n#include <stddef.h>\n#include <stdint.h>\n\n"
    /* Blocks and threads forwards, backwards, or in strides. */
    "#ifndef TT_ORDERS\n#define TT_ORDERS\n"
    "static int tt_order;\n"
    "static inline int tt_nth(int i, int n)\n{\n"
    "  return tt_order == 0   ? i\n"
    "         : tt_order == 1 ? n - 1 - i\n"
    "                         : (int)((7919LL * i + n / 2) % n);\n"
    "}\n#endif\n\n"};

/* What OpenCL C has under other names, and the word that needs it. */
static const struct {
  const char *word, *text;
} opencl_words[] = {
    {"double", "#pragma OPENCL EXTENSION cl_khr_fp64 : enable"},
    {"int8_t", "typedef char int8_t;"},
    {"uint8_t", "typedef uchar uint8_t;"},
    {"int16_t", "typedef short int16_t;"},
    {"uint16_t", "typedef ushort uint16_t;"},
    {"int32_t", "typedef int int32_t;"},
    {"uint32_t", "typedef uint uint32_t;"},
    {"int64_t", "typedef long int64_t;"},
    {"uint64_t", "typedef ulong uint64_t;"},
    {"INT32_MIN", "#define INT32_MIN INT_MIN"},
    {"INT32_MAX", "#define INT32_MAX INT_MAX"},
    {"INT64_MIN", "#define INT64_MIN LONG_MIN"},
    {"INT64_MAX", "#define INT64_MAX LONG_MAX"},
    {"INT64_C", "#define INT64_C(x) x##L"},
};

/* Words of these languages that C does not have. */
static const char *const reserved[] = {
    "half",    "kernel",    "global",    "local",      "constant",   "private",
    "generic", "uchar",     "ushort",    "uint",       "ulong",      "image",
    "event_t", "pipe",      "template",  "class",      "this",       "new",
    "delete",  "namespace", "operator",  "public",     "protected",  "friend",
    "virtual", "typename",  "using",     "try",        "catch",      "throw",
    "export",  "explicit",  "mutable",   "threadIdx",  "blockIdx",   "blockDim",
    "gridDim", "warpSize",  "dim3",      "and",        "or",         "not",
    "xor",     "bitand",    "bitor",     "compl",      "wchar_t",    "stream",
    "queue",   "program",   "read_only", "write_only", "read_write",
};

void
tt_gpu_reserve(struct names *names)
{
  for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
    tt_names_bind_global(names, NULL, reserved[i]);
}

void
tt_opencl_words(const char *text, struct tt_sb *out)
{
  size_t before = out->len;
  for (size_t i = 0; i < sizeof opencl_words / sizeof *opencl_words; i++)
    if (tt_c_has_word(text, opencl_words[i].word))
      tt_sb_printf(out, "%s\n", opencl_words[i].text);
  if (out->len > before)
    tt_sb_putc(out, '\n');
}
