/* Kernels of several nests are compiled as one file of CUDA C, and run by the
 * interpreter of PTX with memory of their own. */
#include "config.h"

#include "tests/exec_ptx.h"

#include <stdlib.h>
#include <string.h>

#include "tests/cuda_file.h"
#include "tests/ptx.h"

bool
exec_ptx_can(void)
{
  return system("nvcc --version >/dev/null 2>&1") == 0;
}

static struct ptx_buffer
buffer(struct tt_arena *ar, int64_t bytes)
{
  /* Aligned as a driver's are. */
  char *raw = tt_arena_alloc(ar, (size_t)bytes + 256);
  char *data = raw + (256 - (uintptr_t)raw % 256) % 256;
  memset(data, 0xa5, (size_t)bytes);
  return (struct ptx_buffer){data, bytes};
}

static const char *
launch(struct tt_arena *ar, const struct ptx_module *m,
       const struct tt_gpu_launch *l, const struct ptx_buffer *tensors,
       struct ptx_buffer prepared, struct ptx_buffer workspace,
       enum ptx_order order)
{
  struct ptx_buffer *args =
      TT_ARRAY(ar, struct ptx_buffer, (size_t)l->nargs + 1);
  for (int i = 0; i < l->nargs; i++)
    args[i] = l->args[i].what == TT_GPU_TENSOR ? tensors[l->args[i].tensor->id]
              : l->args[i].what == TT_GPU_PREPARED ? prepared
                                                   : workspace;
  struct ptx_launch p = {
      .kernel = l->name, .shared = l->shared, .nargs = l->nargs, .args = args};
  memcpy(p.grid, l->grid, sizeof p.grid);
  memcpy(p.block, l->block, sizeof p.block);
  return ptx_run(ar, m, &p, order);
}

static const char *
run(struct tt_arena *ar, const struct ptx_module *m, const struct exec_case *k,
    const struct tt_gpu_code *code, enum ptx_order order)
{
  const struct tt_program *p = k->nest->program;
  struct ptx_buffer *tensors =
      TT_ARRAY(ar, struct ptx_buffer, (size_t)p->ntensors + 1);
  const char *error = NULL;
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    if (t->role != TT_INPUT && t->role != TT_WEIGHT && t->role != TT_OUTPUT)
      continue;
    tensors[i] = buffer(ar, tt_tensor_size(t) * tt_dtype_bytes(t->dtype));
    if (t->role != TT_OUTPUT)
      exec_pack(t, k->in, tensors[i].data);
  }
  struct ptx_buffer prepared = buffer(ar, code->prepared_bytes),
                    workspace = buffer(ar, code->workspace_bytes);
  for (int i = 0; i < code->n && !error; i++)
    error =
        launch(ar, m, &code->launches[i], tensors, prepared, workspace, order);
  if (error)
    return error;
  struct tt_values *got = tt_values_new();
  for (int i = 0; i < p->ntensors; i++)
    if (p->tensors[i]->role == TT_OUTPUT)
      exec_unpack(p->tensors[i], tensors[i].data, got);
  error = exec_compare(ar, p, k->want, got);
  tt_values_free(got);
  return error;
}

static const char *
edited(struct tt_arena *arena, const char *text, const struct ptx_edit *edit,
       const char **error)
{
  struct tt_sb sb = {0};
  const char *at;
  if (!strstr(text, edit->from)) {
    *error = "the text to edit is not there";
    return NULL;
  }
  for (; (at = strstr(text, edit->from)); text = at + strlen(edit->from)) {
    tt_sb_addn(&sb, text, (size_t)(at - text));
    tt_sb_add(&sb, edit->to);
  }
  tt_sb_add(&sb, text);
  text = tt_arena_strdup(arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

const char *
exec_ptx(struct tt_arena *arena, const char *arch, int n,
         const struct exec_case *cases, const struct ptx_edit *edit,
         int *failed)
{
  struct cuda_file file = {0};
  struct tt_gpu_code *codes =
      TT_ARRAY(arena, struct tt_gpu_code, (size_t)n + 1);
  const char *error = NULL;
  const struct ptx_module *m = NULL;
  for (int i = 0; i < n && !error; i++) {
    error = cuda_file_add(arena, &file, cases[i].nest, &codes[i]);
    if (failed)
      *failed = i;
  }
  if (!error) {
    const char *text = cuda_file_ptx(arena, &file, arch, &error);
    if (text && edit)
      text = edited(arena, text, edit, &error);
    m = text ? ptx_parse(arena, text, &error) : NULL;
  }
  for (int i = 0; i < 2 * n && !error; i++) {
    struct tt_arena *ar = tt_arena_new();
    error = run(ar, m, &cases[i / 2], &codes[i / 2],
                i % 2 ? PTX_BACKWARD : PTX_FORWARD);
    if (error)
      error = tt_arena_strdup(arena, error);
    if (failed)
      *failed = i / 2;
    tt_arena_free(ar);
  }
  cuda_file_clear(&file);
  return error;
}
