/* CUDA C and OpenCL C: kernels, and what launches them.
 *
 * Both come from the C printer; a table of gpulang.c says what differs.
 * Pointers are parameters of every kernel that uses them, in the order inputs,
 * prepared weights, outputs, workspace; those of NAME_prepare: weights, what it
 * prepares.
 */
#include "config.h"

#include "codegen/gpulang.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 256 };

/* ---- statements -------------------------------------------------------- */

static const struct gpu_barrier *
barrier_before(const struct gpu_printer *g, const struct tt_stmt *s)
{
  for (int i = 0; i < g->barriers.n; i++)
    if (g->barriers.items[i].before == s)
      return &g->barriers.items[i];
  return NULL;
}

void
tt_gpu_before(struct cprinter *c, const struct tt_stmt *s)
{
  const struct gpu_barrier *b = barrier_before(c->gpu, s);
  if (b)
    tt_gpu_wait_copies(c, b);
  if (b && c->gpu->language != &tt_plain)
    tt_c_line(c, "%s",
              b->global ? c->gpu->language->global_fence
                        : c->gpu->language->local_fence);
}

static bool
is_bound(const struct tt_stmt *s)
{
  return s->kind == TT_FOR &&
         (tt_is_block(s->for_kind) || tt_is_thread(s->for_kind));
}

static int64_t
size_of(const struct gpu_kernel *k, int index)
{
  return index < TT_GPU_DIMS ? k->grid[index] : k->block[index - TT_GPU_DIMS];
}

static int64_t
threads_of(const struct gpu_kernel *k)
{
  return k->block[0] * k->block[1] * k->block[2];
}

/* In plain C: a loop over what runs at the same time on a GPU, in the order
 * that the entry was called with. */
static void
open_order(struct cprinter *c, const struct gpu_printer *g, int index,
           const char *brace)
{
  const char *i = g->index[index], *nth = g->nth[index];
  long long n = (long long)size_of(g->kernel, index);
  tt_c_line(c,
            "for (int %s = 0, %s __attribute__((unused)); %s < %lld && "
            "(%s = tt_nth(%s, %lld), 1);",
            nth, i, nth, n, i, nth, n);
  tt_c_line(c, "     %s++)%s", nth, brace);
}

/* In plain C a phase runs for one thread after the other. */
static void
open_threads(struct cprinter *c)
{
  for (int d = TT_GPU_DIMS - 1; d >= 0; d--)
    if (c->gpu->kernel->block[d] > 1)
      open_order(c, c->gpu, TT_GPU_DIMS + d, "");
}

bool
tt_gpu_private(struct cprinter *c, const struct tt_tensor *t)
{
  const struct gpu_printer *g = c->gpu;
  int64_t threads = threads_of(g->kernel);
  if (g->language != &tt_plain || c->phase || threads == 1 ||
      t->scope == TT_SHARED)
    return false;
  const char *name = tt_names_bind(c->names, NULL, t->name);
  if (tt_is_register(t))
    tt_c_line(c, "%s %s[%lld] = {0};",
              t->ndim ? tt_c_vector(c, t->dtype, (int)t->dims[0])
                      : tt_c_value(t->dtype),
              name, (long long)threads);
  else
    tt_c_line(c, "%s %s[%lld][%lld] = {{0}};", tt_c_memory(c, t->dtype), name,
              (long long)threads, (long long)tt_tensor_size(t));
  tt_names_alias(c->names, t,
                 tt_arena_printf(c->arena, "%s[%s]", name, g->thread));
  return true;
}

struct weight {
  int stores;
  bool loops;
};

static void
weigh(void *ctx, const struct tt_stmt *s)
{
  struct weight *w = ctx;
  w->stores += s->kind == TT_STORE;
  w->loops |= s->kind == TT_FOR;
}

/* Short innermost loops: what is loaded for the next iterations is on its way
 * while one computes. */
bool
tt_gpu_unrolls(const struct cprinter *c, const struct tt_stmt *s)
{
  struct weight w = {0};
  if (c->dialect->style != TT_CUDA_VECTORS || s->var->extent > 16)
    return false;
  tt_walk(s->body, weigh, &w);
  return !w.loops && w.stores * s->var->extent <= 2048;
}

/* Loops directly inside one another are one condition, of those blocks or
 * threads that have an iteration. */
void
tt_gpu_loop(struct cprinter *c, const struct tt_stmt *s)
{
  const struct gpu_printer *g = c->gpu;
  struct tt_sb cond = {0};
  bool threads = false;
  int mark = tt_names_mark(c->names);
  bool phase = !c->phase && tt_is_thread(s->for_kind);
  const struct tt_stmt *whole = s;
  if (phase && g->language == &tt_plain)
    open_threads(c);
  c->phase |= phase;
  for (;; s = s->body) {
    int i = (int)s->for_kind - (int)TT_BLOCK_X;
    int64_t n = s->var->extent;
    tt_names_alias(c->names, s->var, g->index[i]);
    threads |= tt_is_thread(s->for_kind);
    if (n < size_of(g->kernel, i) && n == 1)
      tt_sb_printf(&cond, "%s%s == 0", cond.len ? " && " : "", g->index[i]);
    else if (n < size_of(g->kernel, i))
      tt_sb_printf(&cond, "%s%s < %lld", cond.len ? " && " : "", g->index[i],
                   (long long)n);
    if (!is_bound(s->body) || s->body->comment || barrier_before(g, s->body) ||
        tt_is_block(s->for_kind) != tt_is_block(s->body->for_kind))
      break;
  }
  if (cond.len)
    tt_c_line(c, "if (%s) {", tt_sb_str(&cond));
  else if (threads)
    tt_c_line(c, "{");
  if (cond.len || threads) {
    tt_c_block(c, s->body);
    tt_c_line(c, "}");
  } else {
    tt_c_stmt(c, s->body);
  }
  if (phase) {
    c->phase = false;
    tt_gpu_end_copies(c, whole);
  }
  tt_sb_free(&cond);
  tt_names_release(c->names, mark);
}

/* ---- memory ------------------------------------------------------------ */

struct spot {
  const struct tt_tensor *tensor;
  int64_t offset;
};

/* Where tensors lie that are no parameters: in what is prepared, and in the
 * workspace.  (NAME_prepare works behind what it prepares.) */
struct memory {
  TT_VEC(struct spot) prepared;
  TT_VEC(struct spot) workspace;
  int64_t prepared_bytes, workspace_bytes;
};

static void
put(struct spot **items, int *n, int *cap, int64_t *bytes,
    const struct tt_tensor *t)
{
  struct {
    struct spot *items;
    int n, cap;
  } v = {*items, *n, *cap};
  TT_PUSH(v, ((struct spot){t, *bytes}));
  *items = v.items;
  *n = v.n;
  *cap = v.cap;
  int64_t size = tt_tensor_size(t) * tt_dtype_bytes(t->dtype);
  *bytes += (size + ALIGN - 1) / ALIGN * ALIGN;
}

/* ---- kernels ----------------------------------------------------------- */

struct file {
  struct pass *pass;
  struct cprinter c;
  struct gpu_printer g;
  const struct tt_nest *nest;
  struct memory memory;
  TT_VEC(struct tt_gpu_launch) launches;
};

static bool
uses(const struct accesses *all, const struct tt_tensor *t)
{
  for (int i = 0; i < all->n; i++)
    if (all->items[i].tensor == t)
      return true;
  return false;
}

static bool
uses_any(const struct accesses *all, const struct spot *items, int n)
{
  for (int i = 0; i < n; i++)
    if (uses(all, items[i].tensor))
      return true;
  return false;
}

struct params {
  struct tt_sb text, assume;
  TT_VEC(struct tt_gpu_arg) args;
};

static void
add_param(struct file *f, struct params *p, const char *type, const char *name,
          const char *restrict_, struct tt_gpu_arg arg)
{
  tt_sb_printf(&p->text, "%s%s%s *%s%s%s", p->text.len ? ", " : "",
               f->g.language->global, type, restrict_, *restrict_ ? " " : "",
               name);
  if (f->g.language->assume)
    tt_sb_printf(&p->assume, "  %s = (%s *)__builtin_assume_aligned(%s, 16);\n",
                 name, type, name);
  TT_PUSH(p->args, arg);
}

static void
add_role(struct file *f, struct params *p, const struct accesses *all,
         enum tt_role role)
{
  const struct tt_program *prog = f->nest->program;
  for (int i = 0; i < prog->ntensors; i++) {
    const struct tt_tensor *t = prog->tensors[i];
    if (t->role != role || !uses(all, t))
      continue;
    const char *type = tt_c_memory(&f->c, t->dtype);
    if (role != TT_OUTPUT)
      type = tt_arena_printf(f->c.arena, "const %s", type);
    add_param(f, p, type, tt_names_bind(f->c.names, t, t->name),
              f->c.dialect->restrict_, (struct tt_gpu_arg){t, TT_GPU_TENSOR});
  }
}

static void
point(struct file *f, const struct accesses *all, const struct spot *items,
      int n, const char *base, bool constant)
{
  struct cprinter *c = &f->c;
  for (int i = 0; i < n; i++) {
    const struct tt_tensor *t = items[i].tensor;
    if (!uses(all, t))
      continue;
    const char *type =
        tt_arena_printf(c->arena, "%s%s%s", f->g.language->global,
                        constant ? "const " : "", tt_c_memory(c, t->dtype));
    tt_c_line(c, "%s *const %s = (%s *)(%s + %lld);", type,
              tt_names_bind(c->names, t, t->name), type, base,
              (long long)items[i].offset);
  }
}

struct use {
  const struct gpu_kernel *kernel;
  int index;
  const struct tt_var *var; /* of the loop around */
  bool found;
};

static void
use_in_expr(void *ctx, const struct tt_expr *e)
{
  struct use *u = ctx;
  u->found |= tt_expr_uses_var(e, u->var);
}

static void
use_in_stmt(void *ctx, const struct tt_stmt *s)
{
  tt_own_exprs(s, use_in_expr, ctx);
}

static void
use_in_loop(void *ctx, const struct tt_stmt *s)
{
  struct use *u = ctx;
  if (!is_bound(s) || (int)s->for_kind - (int)TT_BLOCK_X != u->index)
    return;
  u->found |= s->var->extent < size_of(u->kernel, u->index);
  u->var = s->var;
  tt_walk(s->body, use_in_stmt, u);
}

/* Does anything depend on the index?  (Blocks or threads may all do the
 * same.) */
static bool
is_used(const struct gpu_kernel *k, int index)
{
  struct use u = {.kernel = k, .index = index};
  tt_walk(k->body, use_in_loop, &u);
  return u.found;
}

static void
declare_indices(struct file *f)
{
  static const char *const names[] = {"bx", "by", "bz", "tx", "ty", "tz"};
  for (int i = 0; i < 2 * TT_GPU_DIMS; i++) {
    if (size_of(f->g.kernel, i) == 1) {
      f->g.index[i] = "0";
      continue;
    }
    f->g.index[i] = tt_names_bind(f->c.names, NULL, names[i]);
    f->g.nth[i] = tt_names_bind(f->c.names, NULL, "nth");
    if (f->g.language == &tt_plain && i < TT_GPU_DIMS)
      open_order(&f->c, &f->g, i, " {");
    if (f->g.language != &tt_plain && is_used(f->g.kernel, i))
      tt_c_line(&f->c, "const int %s = %s;", f->g.index[i],
                f->g.language->index[i]);
  }
}

/* Ends the loops over blocks that declare_indices() begins. */
static void
end_blocks(struct file *f)
{
  for (int i = 0; i < TT_GPU_DIMS && f->g.language == &tt_plain; i++)
    if (f->g.kernel->grid[i] > 1)
      tt_c_line(&f->c, "}");
}

static const char *
attributes(const struct file *f)
{
  const int64_t *b = f->g.kernel->block;
  if (f->g.language->product)
    return tt_arena_printf(f->c.arena, f->g.language->kernel,
                           (long long)(b[0] * b[1] * b[2]));
  return tt_arena_printf(f->c.arena, f->g.language->kernel, (long long)b[0],
                         (long long)b[1], (long long)b[2]);
}

/* In plain C. */
static const char *
thread_number(const struct file *f)
{
  const int64_t *b = f->g.kernel->block;
  const char *const *i = f->g.index + TT_GPU_DIMS;
  return tt_arena_printf(f->c.arena, "(%s * %lld + %s) * %lld + %s", i[2],
                         (long long)b[1], i[1], (long long)b[0], i[0]);
}

static void
print_kernel(struct file *f, const struct gpu_kernel *k, bool prepare)
{
  struct cprinter *c = &f->c;
  struct accesses all = {0};
  struct params p = {0};
  struct layout layout;
  struct memory *m = &f->memory;
  int mark = tt_names_mark(c->names);
  const char *name =
      tt_arena_printf(c->arena, "%s_%s%d", c->name,
                      prepare ? "prepare" : "kernel", f->launches.n + 1);
  tt_collect_accesses(k->body, &all);
  tt_plan_automatic(c->arena, k->body, &layout);
  tt_gpu_barriers(c->arena, k->body, &f->g.barriers);
  c->layout = &layout;
  f->g.kernel = k;
  add_role(f, &p, &all, prepare ? TT_WEIGHT : TT_INPUT);
  if (uses_any(&all, m->prepared.items, m->prepared.n))
    add_param(f, &p, prepare ? "unsigned char" : "const unsigned char",
              "prepared", "", (struct tt_gpu_arg){NULL, TT_GPU_PREPARED});
  if (!prepare)
    add_role(f, &p, &all, TT_OUTPUT);
  if (!prepare && uses_any(&all, m->workspace.items, m->workspace.n))
    add_param(f, &p, "unsigned char", "workspace", "",
              (struct tt_gpu_arg){NULL, TT_GPU_WORKSPACE});
  if (k->comment)
    tt_c_comment(c, k->comment);
  tt_c_line(c, "%s", attributes(f));
  tt_c_line(c, "%s(%s)", name, tt_sb_str(&p.text));
  tt_c_line(c, "{");
  tt_sb_add(&c->body, tt_sb_str(&p.assume));
  c->depth++;
  point(f, &all, m->prepared.items, m->prepared.n, "prepared", !prepare);
  point(f, &all, m->workspace.items, m->workspace.n, "workspace", false);
  declare_indices(f);
  tt_gpu_declare_shared(c, f->g.language, k);
  c->depth--;
  c->gpu = &f->g;
  f->g.thread = thread_number(f);
  tt_c_block(c, f->g.language == &tt_plain
                    ? tt_gpu_join_phases(f->pass, k, &f->g.barriers)
                    : k->body);
  c->gpu = NULL;
  end_blocks(f);
  tt_c_line(c, "}");
  tt_c_line(c, "%s", "");
  struct tt_gpu_launch l = {.name = name,
                            .prepare = prepare,
                            .shared = tt_gpu_dynamic(f->g.language, k)};
  for (int i = 0; i < TT_GPU_DIMS; i++) {
    l.grid[i] = k->grid[i];
    l.block[i] = k->block[i];
  }
  l.nargs = p.args.n;
  l.args = tt_arena_dup(c->arena, p.args.items,
                        (size_t)p.args.n * sizeof *p.args.items);
  TT_PUSH(f->launches, l);
  free(p.args.items);
  free(all.items);
  free(f->g.barriers.items);
  f->g.barriers = (struct gpu_barriers){0};
  tt_sb_free(&p.text);
  tt_sb_free(&p.assume);
  tt_names_release(c->names, mark);
  c->pending.n = 0;
}

/* ---- launches ---------------------------------------------------------- */

static const char *
arg_name(const struct tt_gpu_arg *a)
{
  switch (a->what) {
  case TT_GPU_TENSOR:
    return a->tensor->name;
  case TT_GPU_PREPARED:
    return "prepared";
  case TT_GPU_WORKSPACE:
    break;
  }
  return "workspace";
}

/* Parameters of a launch, whatever the kernels use: `type` is what pointers
 * are, NULL: what they point to. */
static const char *
launch_params(struct file *f, bool prepare, const char *type)
{
  struct tt_sb sb = {0};
  const struct tt_program *p = f->nest->program;
  for (int part = 0; part < 2; part++) {
    enum tt_role role = prepare ? TT_WEIGHT : part ? TT_OUTPUT : TT_INPUT;
    for (int i = 0; i < p->ntensors && !(prepare && part); i++) {
      const struct tt_tensor *t = p->tensors[i];
      if (t->role != role)
        continue;
      const char *name = tt_names_bind(f->c.names, t, t->name);
      if (type)
        tt_sb_printf(&sb, "%s %s, ", type, name);
      else
        tt_sb_printf(&sb, "%s%s *%s, ", role == TT_OUTPUT ? "" : "const ",
                     tt_c_memory(&f->c, t->dtype), name);
    }
    if (part == (prepare ? 1 : 0) && tt_has_weights(p))
      tt_sb_printf(&sb, "%s%sprepared, ",
                   type      ? type
                   : prepare ? "void *"
                             : "const void *",
                   type ? " " : "");
  }
  if (!prepare)
    tt_sb_printf(&sb, "%s%sworkspace, ", type ? type : "void *",
                 type ? " " : "");
  const char *text = tt_arena_strdup(f->c.arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static const char *
cuda_arg(struct file *f, const struct tt_gpu_arg *a, bool prepare)
{
  switch (a->what) {
  case TT_GPU_TENSOR:
    return tt_names_of(f->c.names, a->tensor);
  case TT_GPU_PREPARED:
    return prepare ? "(unsigned char *)prepared"
                   : "(const unsigned char *)prepared";
  case TT_GPU_WORKSPACE:
    break;
  }
  return "(unsigned char *)workspace";
}

static void
print_cuda_kernel_launch(struct file *f, const struct tt_gpu_launch *l)
{
  struct tt_sb args = {0};
  for (int a = 0; a < l->nargs; a++)
    tt_sb_printf(&args, "%s%s", a ? ", " : "",
                 cuda_arg(f, &l->args[a], l->prepare));
  if (l->shared)
    tt_c_line(&f->c,
              "  if (cudaError_t error = cudaFuncSetAttribute(%s, "
              "cudaFuncAttributeMaxDynamicSharedMemorySize, %lld)) return "
              "error;",
              l->name, (long long)l->shared);
  tt_c_line(&f->c,
            "  %s<<<dim3(%lld, %lld, %lld), dim3(%lld, %lld, %lld), %lld, "
            "stream>>>(%s);",
            l->name, (long long)l->grid[0], (long long)l->grid[1],
            (long long)l->grid[2], (long long)l->block[0],
            (long long)l->block[1], (long long)l->block[2],
            (long long)l->shared, tt_sb_str(&args));
  tt_sb_free(&args);
}

static void
or_address(struct file *f, const char *address, const char *pointer)
{
  tt_c_line(&f->c, "  %s |= (uintptr_t)%s;", address, pointer);
}

/* What the kernels assume of their pointers: vectors of 16 bytes. */
static void
print_cuda_check(struct file *f, bool prepare)
{
  const struct tt_program *p = f->nest->program;
  const char *address = tt_names_bind(f->c.names, NULL, "address");
  tt_c_line(&f->c, "  uintptr_t %s = 0;", address);
  for (int i = 0; i < p->ntensors; i++) {
    enum tt_role role = p->tensors[i]->role;
    if (prepare ? role == TT_WEIGHT : role == TT_INPUT || role == TT_OUTPUT)
      or_address(f, address, tt_names_of(f->c.names, p->tensors[i]));
  }
  if (tt_has_weights(p))
    or_address(f, address, "prepared");
  if (!prepare)
    or_address(f, address, "workspace");
  tt_c_line(&f->c, "  if (%s %% 16 != 0)", address);
  tt_c_line(&f->c, "    return cudaErrorMisalignedAddress;");
}

/* A function that launches all kernels of NAME or of NAME_prepare. */
static void
print_cuda_launch(struct file *f, bool prepare)
{
  struct cprinter *c = &f->c;
  int mark = tt_names_mark(c->names);
  const char *params = launch_params(f, prepare, NULL);
  tt_c_line(c, "%s", "");
  tt_c_line(c, "extern \"C\" cudaError_t");
  tt_c_line(c, "%s_%s(%scudaStream_t stream)", c->name,
            prepare ? "prepare" : "launch", params);
  tt_c_line(c, "{");
  print_cuda_check(f, prepare);
  for (int i = 0; i < f->launches.n; i++)
    if (f->launches.items[i].prepare == prepare)
      print_cuda_kernel_launch(f, &f->launches.items[i]);
  tt_c_line(c, "  return cudaGetLastError();");
  tt_c_line(c, "}");
  tt_names_release(c->names, mark);
}

static void
print_entry_calls(struct file *f, bool prepare)
{
  const struct tt_program *p = f->nest->program;
  static const enum tt_role roles[] = {TT_INPUT, TT_WEIGHT, TT_OUTPUT};
  int *at = TT_ARRAY(f->c.arena, int, (size_t)p->ntensors + 1), n = 0;
  for (int r = 0; r < 3; r++)
    for (int i = 0; i < p->ntensors; i++)
      if (p->tensors[i]->role == roles[r])
        at[i] = n++;
  tt_c_line(&f->c, "  if (what == %d) {", !prepare);
  for (int i = 0; i < f->launches.n; i++) {
    const struct tt_gpu_launch *l = &f->launches.items[i];
    struct tt_sb args = {0};
    if (l->prepare != prepare)
      continue;
    for (int a = 0; a < l->nargs; a++)
      tt_sb_printf(&args, "%sargs[%d]", a ? ", " : "",
                   l->args[a].what == TT_GPU_TENSOR ? at[l->args[a].tensor->id]
                   : l->args[a].what == TT_GPU_PREPARED ? n
                                                        : n + 1);
    tt_c_line(&f->c, "    %s(%s);", l->name, tt_sb_str(&args));
    tt_sb_free(&args);
  }
  tt_c_line(&f->c, "  }");
}

static void
print_entry(struct file *f)
{
  tt_c_line(&f->c, "void %s_entry(void **args, int what)", f->c.name);
  tt_c_line(&f->c, "{");
  tt_c_line(&f->c, "  (void)args;");
  tt_c_line(&f->c, "  tt_order = what >> 1;");
  tt_c_line(&f->c, "  what &= 1;");
  print_entry_calls(f, true);
  print_entry_calls(f, false);
  tt_c_line(&f->c, "}");
}

/* The same as comments: names, sizes and arguments of the kernels. */
static void
print_launches(struct file *f, struct tt_sb *out)
{
  for (int i = 0; i < f->launches.n; i++) {
    const struct tt_gpu_launch *l = &f->launches.items[i];
    tt_sb_printf(out, " *   %s(", l->name);
    for (int a = 0; a < l->nargs; a++)
      tt_sb_printf(out, "%s%s", a ? ", " : "", arg_name(&l->args[a]));
    tt_sb_printf(out, "): global %lld %lld %lld, local %lld %lld %lld",
                 (long long)(l->grid[0] * l->block[0]),
                 (long long)(l->grid[1] * l->block[1]),
                 (long long)(l->grid[2] * l->block[2]), (long long)l->block[0],
                 (long long)l->block[1], (long long)l->block[2]);
    if (l->shared)
      tt_sb_printf(out, ", shared %lld bytes", (long long)l->shared);
    tt_sb_putc(out, '\n');
  }
}

/* ---- the file ---------------------------------------------------------- */

static bool
uses_of(const struct gpu_nest *g, const struct tt_tensor *t)
{
  struct accesses all = {0};
  for (int k = 0; k < g->n; k++)
    tt_collect_accesses(g->kernels[k].body, &all);
  bool found = uses(&all, t);
  free(all.items);
  return found;
}

/* (A stage that another one finishes has no memory at all.) */
static void
place(struct memory *m, const struct tt_nest *nest, const struct gpu_nest *body,
      const struct gpu_nest *prepare)
{
  for (int i = 0; i < nest->nprepared; i++)
    put(&m->prepared.items, &m->prepared.n, &m->prepared.cap,
        &m->prepared_bytes, nest->prepared[i]);
  for (int i = 0; i < nest->ntemps; i++) {
    const struct tt_tensor *t = nest->temps[i];
    if (uses_of(body, t))
      put(&m->workspace.items, &m->workspace.n, &m->workspace.cap,
          &m->workspace_bytes, t);
    else if (uses_of(prepare, t))
      put(&m->prepared.items, &m->prepared.n, &m->prepared.cap,
          &m->prepared_bytes, t);
  }
  for (int i = 0; i < body->nlocals; i++)
    put(&m->workspace.items, &m->workspace.n, &m->workspace.cap,
        &m->workspace_bytes, body->locals[i]);
  for (int i = 0; i < prepare->nlocals; i++)
    put(&m->prepared.items, &m->prepared.n, &m->prepared.cap,
        &m->prepared_bytes, prepare->locals[i]);
}

/* Which indices are numbers of 32 bits: all of them, or none. */
static bool
is_short(const struct tt_nest *nest)
{
  bool ok = true;
  for (int i = 0; i < nest->program->ntensors; i++)
    ok = ok && tt_tensor_size(nest->program->tensors[i]) <= INT32_MAX / 4;
  for (int i = 0; i < nest->nprepared; i++)
    ok = ok && tt_tensor_size(nest->prepared[i]) <= INT32_MAX / 4;
  return ok;
}

/* What has no form in these languages yet that is right everywhere. */
static const char *
check_types(const struct tt_nest *nest)
{
  return is_short(nest) ? NULL
                        : "a tensor is too large for the output for GPUs";
}

static void
assemble(struct file *f, struct tt_sb *out)
{
  struct cprinter *c = &f->c;
  const char *functions = tt_arena_strdup(c->arena, tt_sb_str(&c->body));
  tt_sb_clear(&c->body);
  for (int i = 0; i < c->typedefs.n; i++)
    tt_c_line(c, "%s", c->typedefs.items[i]);
  tt_c_definitions(c);
  tt_sb_add(&c->body, functions);
  const char *text = tt_sb_str(&c->body);
  if (f->g.language == &tt_cuda &&
      (strstr(text, "__half2float") || strstr(text, "__float2half")))
    tt_sb_add(out, "#include <cuda_fp16.h>\n");
  tt_sb_add(out, f->g.language->head);
  if (f->g.language == &tt_opencl)
    tt_opencl_words(tt_sb_str(&c->body), out);
  tt_sb_add(out, "/* Kernels in the order in which they run; sizes in x, y, "
                 "z:\n");
  print_launches(f, out);
  tt_sb_printf(out, " */\n#define %s_WORKSPACE_BYTES %lld\n",
               tt_c_upper(c->arena, c->name),
               (long long)f->memory.workspace_bytes);
  if (tt_has_weights(f->nest->program))
    tt_sb_printf(out, "#define %s_PREPARED_BYTES %lld\n",
                 tt_c_upper(c->arena, c->name),
                 (long long)f->memory.prepared_bytes);
  tt_sb_putc(out, '\n');
  tt_sb_add(out, tt_sb_str(&c->body));
}

static void
release(struct file *f)
{
  tt_sb_free(&f->c.body);
  free(f->c.typedefs.items);
  free(f->c.helpers.items);
  free(f->c.consts.items);
  free(f->c.pending.items);
  free(f->c.bases.items);
  free(f->memory.prepared.items);
  free(f->memory.workspace.items);
  free(f->launches.items);
  tt_names_free(f->c.names);
}

const char *
tt_codegen_gpu(struct tt_arena *arena, const struct tt_nest *nest,
               enum tt_gpu_language language, const char *name,
               struct tt_gpu_code *code, struct tt_sb *out)
{
  bool plain_c = language == TT_GPU_C || language == TT_GPU_C_WIDE;
  struct tt_codegen_options o = tt_gpu_options(language);
  struct pass p = {.arena = arena, .options = &o, .nextvar = tt_next_var(nest)};
  struct file f = {.pass = &p, .nest = nest};
  struct gpu_nest body, prepare;
  const char *error = check_types(nest);
  if (!error)
    error = tt_gpu_make(&p, nest->body, &body);
  p.ahead = true;
  if (!error)
    error = tt_gpu_make(&p, nest->prepare, &prepare);
  if (error)
    return error;
  f.g.language = language == TT_CUDA     ? &tt_cuda
                 : language == TT_OPENCL ? &tt_opencl
                                         : &tt_plain;
  f.c = (struct cprinter){.arena = arena,
                          .options = &o,
                          .dialect = &f.g.language->dialect,
                          .names = tt_names_new(arena),
                          .name = name ? name : nest->program->name};
  tt_names_bind_global(f.c.names, NULL, f.c.name);
  tt_gpu_reserve(f.c.names);
  place(&f.memory, nest, &body, &prepare);
  for (int i = 0; i < prepare.n; i++)
    print_kernel(&f, &prepare.kernels[i], true);
  for (int i = 0; i < body.n; i++)
    print_kernel(&f, &body.kernels[i], false);
  if (language == TT_CUDA && tt_has_weights(nest->program))
    print_cuda_launch(&f, true);
  if (language == TT_CUDA)
    print_cuda_launch(&f, false);
  if (plain_c)
    print_entry(&f);
  assemble(&f, out);
  *code = (struct tt_gpu_code){
      .n = f.launches.n,
      .launches = tt_arena_dup(arena, f.launches.items,
                               (size_t)f.launches.n * sizeof *code->launches),
      .workspace_bytes = f.memory.workspace_bytes,
      .prepared_bytes = f.memory.prepared_bytes};
  release(&f);
  return NULL;
}
