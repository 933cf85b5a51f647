/* Asynchronous copies into shared memory, in CUDA C, and the memory itself
 * where it is more than a kernel can declare.
 *
 * Devices without such copies (before sm_80), and the other languages, copy
 * as they go: the waits are in the same places.
 */
#include "config.h"

#include "codegen/gpulang.h"

#include <string.h>

enum { MOST = 16 }; /* bytes of one copy */

static bool
is_cuda(const struct cprinter *c)
{
  return c->gpu && c->gpu->language == &tt_cuda;
}

/* One function a type: it names the instruction's size. */
static const char *
copy_helper(struct cprinter *c, const char *type, int bytes)
{
  const char *name =
      tt_c_helper_name(c, tt_arena_printf(c->arena, "copy_%s", type));
  if (!tt_c_has_helper(c, name))
    tt_c_add_helper(
        c, name,
        tt_arena_printf(
            c->arena,
            "static inline void %s(%s *to, const %s *from)\n{\n"
            "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800\n"
            "  asm volatile(\"cp.async.%s.shared.global [%%0], [%%1], %d;\" "
            ":\n               : "
            "\"r\"((unsigned)__cvta_generic_to_shared(to)),\n"
            "                 \"l\"(__cvta_generic_to_global(from)) : "
            "\"memory\");\n"
            "#else\n  *to = *from;\n#endif\n}\n",
            name, type, type, bytes == MOST ? "cg" : "ca", bytes));
  return name;
}

/* Ends a group of copies, or waits until at most so many groups are left. */
static const char *
group_helper(struct cprinter *c, int left)
{
  const char *name = tt_c_helper_name(
      c, left < 0 ? "copies_begun"
                  : tt_arena_printf(c->arena, "wait_copies_%d", left));
  const char *what = left < 0
                         ? "commit_group"
                         : tt_arena_printf(c->arena, "wait_group %d", left);
  if (!tt_c_has_helper(c, name))
    tt_c_add_helper(
        c, name,
        tt_arena_printf(c->arena,
                        "static inline void %s(void)\n{\n"
                        "#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800\n"
                        "  asm volatile(\"cp.async.%s;\" : : : \"memory\");\n"
                        "#endif\n}\n",
                        name, what));
  return name;
}

bool
tt_gpu_copy(struct cprinter *c, const struct tt_stmt *s)
{
  const struct tt_expr *v = s->value;
  const struct tt_tensor *t = s->tensor;
  int lanes, from_lanes, bytes;
  int64_t stride, from;
  if (!is_cuda(c) || t->scope != TT_SHARED || !t->staging.async ||
      v->kind != TT_LOAD || v->tensor->role == TT_LOCAL ||
      v->tensor->role == TT_CONST || v->tensor->dtype != t->dtype)
    return false;
  tt_access_shape(t, s->nidx, s->idx, &lanes, &stride);
  tt_access_shape(v->tensor, v->nargs, v->args, &from_lanes, &from);
  bytes = lanes * tt_dtype_bytes(t->dtype);
  if (lanes != from_lanes || (lanes > 1 && (stride != 1 || from != 1)) ||
      (bytes != 4 && bytes != 8 && bytes != MOST))
    return false;
  const char *type = lanes > 1 ? tt_c_memory_vector(c, t->dtype, lanes)
                               : tt_c_memory(c, t->dtype);
  const char *at =
      tt_c_element(c, t, tt_access_base(c->arena, t, s->nidx, s->idx));
  const char *of = tt_c_element(
      c, v->tensor, tt_access_base(c->arena, v->tensor, v->nargs, v->args));
  const char *copy = copy_helper(c, type, bytes);
  if (lanes > 1)
    tt_c_line(c, "%s((%s *)&%s, (const %s *)&%s);", copy, type, at, type, of);
  else
    tt_c_line(c, "%s(&%s, &%s);", copy, at, of);
  return true;
}

void
tt_gpu_wait_copies(struct cprinter *c, const struct gpu_barrier *b)
{
  if (is_cuda(c) && b->groups < TT_GPU_NO_GROUPS)
    tt_c_line(c, "%s();", group_helper(c, b->groups));
}

static void
find_copy(void *ctx, const struct tt_stmt *s)
{
  *(bool *)ctx |= s->kind == TT_STORE && s->tensor->scope == TT_SHARED &&
                  s->tensor->staging.async;
}

void
tt_gpu_end_copies(struct cprinter *c, const struct tt_stmt *phase)
{
  bool any = false;
  tt_walk(phase, find_copy, &any);
  if (any && is_cuda(c))
    tt_c_line(c, "%s();", group_helper(c, -1));
}

/* ---- memory ------------------------------------------------------------- */

int64_t
tt_gpu_dynamic(const struct language *language, const struct gpu_kernel *k)
{
  int64_t bytes = tt_gpu_shared(k->body);
  return language == &tt_cuda && bytes > TT_GPU_SHARED ? bytes : 0;
}

struct declaring {
  struct cprinter *c;
  const struct language *language;
  const char *dynamic; /* the memory that a launch asked for; or NULL */
  int64_t offset;
};

/* (In plain C nothing is in it that a block before has left there.) */
static void
declare(void *ctx, const struct tt_stmt *s)
{
  struct declaring *d = ctx;
  struct cprinter *c = d->c;
  if (s->kind != TT_ALLOC || s->tensor->scope != TT_SHARED)
    return;
  const struct tt_tensor *t = s->tensor;
  const char *name = tt_names_bind(c->names, t, t->name);
  const char *type = tt_c_memory(c, t->dtype);
  long long n = (long long)tt_tensor_size(t);
  if (d->dynamic) {
    tt_c_line(c, "%s *const %s = (%s *)(%s + %lld);", type, name, type,
              d->dynamic, (long long)d->offset);
    d->offset += (n * tt_dtype_bytes(t->dtype) + MOST - 1) / MOST * MOST;
    return;
  }
  tt_c_line(c, "%s%s %s[%lld]%s;", d->language->shared, type, name, n,
            d->language->shared_end);
  if (d->language == &tt_plain)
    tt_c_line(c, "for (int tt_i = 0; tt_i < %lld; tt_i++) %s[tt_i] = 99;", n,
              name);
}

void
tt_gpu_declare_shared(struct cprinter *c, const struct language *language,
                      const struct gpu_kernel *k)
{
  struct declaring d = {c, language, NULL, 0};
  if (tt_gpu_dynamic(language, k)) {
    d.dynamic = tt_names_bind(c->names, NULL, "shared");
    tt_c_line(c, "extern __shared__ __align__(16) unsigned char %s[];",
              d.dynamic);
  }
  tt_walk(k->body, declare, &d);
}
