/* Candidates for devices: their text as the runner takes it. */
#include "config.h"

#include "tuner/measure.h"

#include "runtime/protocol.h"

/* The number that the runner gives to an argument: inputs, weights, outputs,
 * each in order of declaration, prepared, workspace. */
static int
number_of(const struct tt_program *p, const struct tt_gpu_arg *a)
{
  static const enum tt_role roles[] = {TT_INPUT, TT_WEIGHT, TT_OUTPUT};
  int n = 0;
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < p->ntensors; i++) {
      if (p->tensors[i]->role != roles[r])
        continue;
      if (a->what == TT_GPU_TENSOR && p->tensors[i] == a->tensor)
        return n;
      n++;
    }
  return a->what == TT_GPU_PREPARED ? n : n + 1;
}

static void
add_kernel(const struct tt_program *p, const struct tt_gpu_launch *l,
           struct tt_sb *out)
{
  struct tt_sb args = {0};
  char name[512];
  for (int a = 0; a < l->nargs; a++)
    tt_sb_printf(&args, "%s%d", a ? "," : "", number_of(p, &l->args[a]));
  tt_line_add(out,
              "kernel name=%s prepare=%d global=%lld,%lld,%lld "
              "local=%lld,%lld,%lld args=%s",
              tt_line_quote(l->name, name, sizeof name), l->prepare,
              (long long)(l->grid[0] * l->block[0]),
              (long long)(l->grid[1] * l->block[1]),
              (long long)(l->grid[2] * l->block[2]), (long long)l->block[0],
              (long long)l->block[1], (long long)l->block[2], tt_sb_str(&args));
  tt_sb_free(&args);
}

const char *
tt_print_for_device(struct tt_arena *arena, const struct tt_nest *nest,
                    const struct tt_measure_options *o, int64_t *prepared,
                    int64_t *workspace, struct tt_sb *out)
{
  struct tt_gpu_code code = {0};
  struct tt_sb text = {0};
  bool cuda = o->on == TT_ON_CUDA;
  const char *error = tt_codegen_gpu(arena, nest, cuda ? TT_CUDA : TT_OPENCL,
                                     "candidate", &code, &text);
  *prepared = code.prepared_bytes;
  *workspace = code.workspace_bytes;
  for (int i = 0; i < code.n && !error && !cuda; i++)
    add_kernel(nest->program, &code.launches[i], out);
  if (!error && !cuda)
    tt_line_add(out, "source");
  if (!error)
    tt_sb_addn(out, tt_sb_str(&text), text.len);
  if (!error && cuda)
    tt_codegen_cuda_entry(arena, nest->program, &code, "candidate", o->device,
                          "kernel_entry", out);
  tt_sb_free(&text);
  return error;
}
