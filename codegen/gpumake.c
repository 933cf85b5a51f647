/* The kernels of a nest after all passes, and their dump.  What exceeds a
 * limit of GPUs is refused here.
 */
#include "config.h"

#include "codegen/gpu.h"
#include "ir/passes.h"

enum {
  WIDEST = 64, /* bytes of a vector of OpenCL C */
  MOVED = 16   /* bytes that a thread moves at once, in CUDA C */
};

struct tt_codegen_options
tt_gpu_options(enum tt_gpu_language language)
{
  bool wide = language == TT_OPENCL || language == TT_GPU_C_WIDE;
  bool plain_c = language == TT_GPU_C || language == TT_GPU_C_WIDE;
  /* (In plain C helpers are named for a file of many kernels.) */
  return (struct tt_codegen_options){.c99 = true,
                                     .workspace = TT_WS_ARG,
                                     .vector_bytes = wide ? WIDEST : MOVED,
                                     .gpu = true,
                                     .moves = !wide,
                                     .shared_bytes =
                                         wide ? TT_GPU_SHARED : TT_GPU_DYNAMIC,
                                     .entry = plain_c};
}

/* "A_s 4096": what a block shares, and how many bytes each takes. */
static void
name_shared(void *ctx, const struct tt_stmt *s)
{
  struct tt_sb *sb = ctx;
  if (s->kind == TT_ALLOC && s->tensor->scope == TT_SHARED)
    tt_sb_printf(sb, "%s%s %lld", sb->len ? ", " : "", s->tensor->name,
                 (long long)(tt_tensor_size(s->tensor) *
                             tt_dtype_bytes(s->tensor->dtype)));
}

static const char *
shares_too_much(struct pass *p, const struct tt_stmt *body)
{
  struct tt_sb names = {0};
  tt_walk(body, name_shared, &names);
  const char *text = tt_arena_printf(
      p->arena, "blocks of a GPU would share %lld bytes (%s); at most %lld",
      (long long)tt_gpu_shared(body), tt_sb_str(&names),
      (long long)p->options->shared_bytes);
  tt_sb_free(&names);
  return text;
}

const char *
tt_gpu_make(struct pass *p, const struct tt_stmt *s, struct gpu_nest *out)
{
  *out = (struct gpu_nest){0};
  if (!s || tt_gpu_kernels(p, s, out))
    return p->error;
  for (int i = 0; i < out->n && !p->error; i++) {
    const struct tt_stmt *body = tt_pass_all(p, out->kernels[i].body);
    out->kernels[i].body = p->error ? body : tt_gpu_banks(p, body);
    if (out->kernels[i].body != body && !p->error)
      p->error = tt_verify_stmt(p->arena, out->kernels[i].body, true);
    if (!p->error &&
        tt_gpu_shared(out->kernels[i].body) > p->options->shared_bytes)
      p->error = shares_too_much(p, out->kernels[i].body);
    if (!p->error)
      out->kernels[i].body = tt_gpu_complete(p, &out->kernels[i]);
  }
  return p->error;
}

static void
dump(const struct gpu_nest *nest, const char *what, struct tt_sb *out)
{
  for (int i = 0; i < nest->n; i++) {
    const struct gpu_kernel *k = &nest->kernels[i];
    tt_sb_printf(out,
                 "%skernel, %lld x %lld x %lld blocks of %lld x %lld x "
                 "%lld threads:\n",
                 what, (long long)k->grid[0], (long long)k->grid[1],
                 (long long)k->grid[2], (long long)k->block[0],
                 (long long)k->block[1], (long long)k->block[2]);
    tt_dump_stmt(out, k->body, 1);
  }
}

const char *
tt_codegen_gpu_loops(struct tt_arena *arena, const struct tt_nest *nest,
                     enum tt_gpu_language language, struct tt_sb *out)
{
  struct tt_codegen_options o = tt_gpu_options(language);
  struct pass p = {.arena = arena, .options = &o, .nextvar = tt_next_var(nest)};
  struct gpu_nest body, prepare;
  const char *error = tt_gpu_make(&p, nest->body, &body);
  p.ahead = true;
  if (!error)
    error = tt_gpu_make(&p, nest->prepare, &prepare);
  if (error)
    return error;
  dump(&prepare, "prepare ", out);
  dump(&body, "", out);
  return NULL;
}
