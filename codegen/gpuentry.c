/* What a runner calls of a candidate in CUDA C: it holds the device's memory
 * and the clock.  Any call that fails ends the process.
 *
 * Buffers lie between zones of a pattern; where one was written to, results are
 * spoilt, so that the runner finds them wrong.
 */
#include "config.h"

#include "codegen/cprint.h"

static const char before[] =
    "#include <stdlib.h>\n#include <string.h>\n\n"
    "enum { TT_ZONE = 4096, TT_FILL = 0xa5 };\n"
    "static unsigned char *tt_memory[TT_N];\n"
    "static double tt_seconds;\n"
    "static cudaEvent_t tt_from, tt_to;\n\n"
    "static void tt_need(cudaError_t e)\n{\n"
    "  if (e != cudaSuccess)\n    abort();\n}\n\n"
    "static void tt_get(int i, const void *data)\n{\n"
    "  const size_t n = tt_bytes[i];\n"
    "  unsigned char *m;\n"
    "  tt_need(cudaMalloc((void **)&m, n + 2 * TT_ZONE));\n"
    "  tt_need(cudaMemset(m, TT_FILL, n + 2 * TT_ZONE));\n"
    "  tt_memory[i] = m + TT_ZONE;\n"
    "  if (data)\n"
    "    tt_need(cudaMemcpy(tt_memory[i], data, n, "
    "cudaMemcpyHostToDevice));\n"
    "  else\n    tt_need(cudaMemset(tt_memory[i], 0xff, n));\n}\n\n"
    "static bool tt_intact(int i)\n{\n"
    "  unsigned char zone[2 * TT_ZONE];\n"
    "  bool ok = true;\n"
    "  tt_need(cudaMemcpy(zone, tt_memory[i] - TT_ZONE, TT_ZONE,\n"
    "                     cudaMemcpyDeviceToHost));\n"
    "  tt_need(cudaMemcpy(zone + TT_ZONE, tt_memory[i] + tt_bytes[i], "
    "TT_ZONE,\n                     cudaMemcpyDeviceToHost));\n"
    "  for (int k = 0; k < 2 * TT_ZONE; k++)\n"
    "    ok = ok && zone[k] == TT_FILL;\n"
    "  return ok;\n}\n\n";

static const char after[] =
    "static void tt_time(void)\n{\n"
    "  float ms = 0;\n"
    "  tt_need(cudaEventRecord(tt_from, 0));\n"
    "  tt_run();\n"
    "  tt_need(cudaEventRecord(tt_to, 0));\n"
    "  tt_need(cudaDeviceSynchronize());\n"
    "  tt_need(cudaEventElapsedTime(&ms, tt_from, tt_to));\n"
    "  tt_seconds += (double)ms * 1e-3;\n}\n\n"
    "static void tt_start(void **args)\n{\n"
    "  tt_need(cudaSetDevice(TT_DEVICE));\n"
    "  tt_need(cudaEventCreate(&tt_from));\n"
    "  tt_need(cudaEventCreate(&tt_to));\n"
    "  for (int i = 0; i < TT_N; i++)\n"
    "    tt_get(i, tt_kind[i] == 0 ? args[i] : NULL);\n"
    "  tt_prepare();\n"
    "  tt_need(cudaDeviceSynchronize());\n}\n\n"
    "static void tt_finish(void **args)\n{\n"
    "  bool ok = true;\n"
    "  for (int i = 0; i < TT_N; i++)\n    ok = tt_intact(i) && ok;\n"
    "  for (int i = 0; i < TT_N; i++) {\n"
    "    if (tt_kind[i] != 1)\n      continue;\n"
    "    tt_need(cudaMemcpy(args[i], tt_memory[i], tt_bytes[i],\n"
    "                       cudaMemcpyDeviceToHost));\n"
    "    if (!ok)\n      memset(args[i], 0x5a, tt_bytes[i]);\n  }\n}\n\n";

/* Roles in the order of the runner's arguments. */
static void
add_tables(const struct tt_program *p, const struct tt_gpu_code *code,
           struct tt_sb *out)
{
  static const enum tt_role roles[] = {TT_INPUT, TT_WEIGHT, TT_OUTPUT};
  struct tt_sb bytes = {0}, kinds = {0};
  int n = 2;
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < p->ntensors; i++) {
      const struct tt_tensor *t = p->tensors[i];
      if (t->role != roles[r])
        continue;
      tt_sb_printf(&bytes, "%lld, ",
                   (long long)(tt_tensor_size(t) * tt_dtype_bytes(t->dtype)));
      tt_sb_printf(&kinds, "%d, ", roles[r] == TT_OUTPUT);
      n++;
    }
  tt_sb_printf(out,
               "\nenum { TT_N = %d };\n"
               "static const size_t tt_bytes[TT_N] = {%s%lld, %lld};\n"
               "/* 0: inputs and weights, 1: outputs, 2: the others */\n"
               "static const char tt_kind[TT_N] = {%s2, 2};\n",
               n, tt_sb_str(&bytes), (long long)code->prepared_bytes,
               (long long)code->workspace_bytes, tt_sb_str(&kinds));
  tt_sb_free(&bytes);
  tt_sb_free(&kinds);
}

/* A call of NAME_launch or NAME_prepare with the device's memory. */
static void
add_call(const struct tt_program *p, const char *name, bool prepare,
         struct tt_sb *out)
{
  static const enum tt_role roles[] = {TT_INPUT, TT_WEIGHT, TT_OUTPUT};
  struct tt_sb args[3] = {{0}, {0}, {0}};
  int n = 0;
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < p->ntensors; i++) {
      const struct tt_tensor *t = p->tensors[i];
      if (t->role == roles[r])
        tt_sb_printf(&args[r], "(%s *)tt_memory[%d], ", tt_c_storage(t->dtype),
                     n++);
    }
  tt_sb_printf(out, "static void tt_%s(void)\n{\n",
               prepare ? "prepare" : "run");
  if (!prepare || tt_has_weights(p)) {
    tt_sb_printf(out, "  tt_need(%s_%s(%s", name,
                 prepare ? "prepare" : "launch", tt_sb_str(&args[prepare]));
    if (tt_has_weights(p))
      tt_sb_printf(out, "tt_memory[%d], ", n);
    if (!prepare)
      tt_sb_printf(out, "%stt_memory[%d], ", tt_sb_str(&args[2]), n + 1);
    tt_sb_add(out, "0));\n");
  }
  tt_sb_add(out, "}\n\n");
  for (int r = 0; r < 3; r++)
    tt_sb_free(&args[r]);
}

void
tt_codegen_cuda_entry(struct tt_arena *arena, const struct tt_program *p,
                      const struct tt_gpu_code *code, const char *name,
                      int device, const char *symbol, struct tt_sb *out)
{
  (void)arena;
  tt_sb_printf(out, "\n#define TT_DEVICE %d\n", device);
  add_tables(p, code, out);
  tt_sb_add(out, before);
  add_call(p, name, true, out);
  add_call(p, name, false, out);
  tt_sb_add(out, after);
  tt_sb_printf(out,
               "extern \"C\" double %s_clock(void)\n{\n"
               "  return tt_seconds;\n}\n\n"
               "extern \"C\" void %s(void **args, int what)\n{\n"
               "  if (what == 0)\n    tt_start(args);\n"
               "  else if (what == 1)\n    tt_time();\n"
               "  else if (what == 3)\n    tt_finish(args);\n"
               "  for (int i = 0; i < TT_N && what == 2; i++)\n"
               "    if (tt_kind[i] == 1)\n"
               "      tt_need(cudaMemcpy(tt_memory[i], args[i], tt_bytes[i],\n"
               "                         cudaMemcpyHostToDevice));\n}\n",
               symbol, symbol);
}
