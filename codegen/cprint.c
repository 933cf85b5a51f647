/* Functions and files of C.
 *
 * The order of parameters, the names of functions and the sizes depend on
 * the program and options alone, never on the schedule.  Equal input gives
 * equal bytes: nothing is printed in the order of addresses.
 */
#include "config.h"

#include "codegen/cprint.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const struct dialect gnu_c = {"ptrdiff_t",     "restrict",     true,
                                     "static inline", "static const", "f",
                                     TT_GNU_VECTORS};
const struct dialect tt_plain_c = {"ptrdiff_t",     "restrict",     false,
                                   "static inline", "static const", "f",
                                   TT_GNU_VECTORS};

bool
tt_has_weights(const struct tt_program *p)
{
  for (int i = 0; i < p->ntensors; i++)
    if (p->tensors[i]->role == TT_WEIGHT)
      return true;
  return false;
}

/* ---- parameters ------------------------------------------------------- */

static void
add_tensors(struct tt_sb *sb, struct names *names, const struct tt_program *p,
            enum tt_role role, const char *restrict_)
{
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    if (t->role != role)
      continue;
    tt_sb_printf(sb, "%s%s%s *%s%s%s", sb->len ? ", " : "",
                 role == TT_OUTPUT ? "" : "const ", tt_c_storage(t->dtype),
                 restrict_, *restrict_ ? " " : "",
                 tt_names_bind(names, t, t->name));
  }
}

static void
add_text(struct tt_sb *sb, const char *text)
{
  tt_sb_printf(sb, "%s%s", sb->len ? ", " : "", text);
}

static const char *
finish(struct tt_arena *arena, struct tt_sb *sb)
{
  const char *text = sb->len ? tt_arena_strdup(arena, tt_sb_str(sb)) : "void";
  tt_sb_free(sb);
  return text;
}

static const char *
run_params(struct tt_arena *arena, struct names *names,
           const struct tt_program *p, const struct tt_codegen_options *o,
           const char *restrict_)
{
  struct tt_sb sb = {0};
  add_tensors(&sb, names, p, TT_INPUT, restrict_);
  if (tt_has_weights(p))
    add_text(&sb, tt_arena_printf(arena, "const void *%s%sprepared", restrict_,
                                  *restrict_ ? " " : ""));
  add_tensors(&sb, names, p, TT_OUTPUT, restrict_);
  if (o->workspace == TT_WS_ARG)
    add_text(&sb, "void *workspace");
  return finish(arena, &sb);
}

static const char *
prepare_params(struct tt_arena *arena, struct names *names,
               const struct tt_program *p, const char *restrict_)
{
  struct tt_sb sb = {0};
  add_tensors(&sb, names, p, TT_WEIGHT, restrict_);
  add_text(&sb, "void *prepared");
  return finish(arena, &sb);
}

/* The names of files and functions, which parameters must not hide. */
static void
bind_functions(struct names *names, const char *name)
{
  tt_names_bind_global(names, NULL, name);
}

const char *
tt_c_prototype(struct tt_arena *arena, const struct tt_program *p,
               const struct tt_codegen_options *o, const char *name,
               bool prepare)
{
  struct names *names = tt_names_new(arena);
  bind_functions(names, name);
  const char *r = prepare ? prepare_params(arena, names, p, "")
                          : run_params(arena, names, p, o, "");
  tt_names_free(names);
  return r;
}

/* ---- functions -------------------------------------------------------- */

/* What a function body uses, in order of tensors. */
struct used {
  struct accesses all;
};

static bool
uses(const struct used *u, const struct tt_tensor *t)
{
  for (int i = 0; i < u->all.n; i++)
    if (u->all.items[i].tensor == t)
      return true;
  return false;
}

static void
mark_unused(struct cprinter *c, const struct tt_program *p, enum tt_role role,
            const struct used *u)
{
  for (int i = 0; i < p->ntensors; i++)
    if (p->tensors[i]->role == role && !uses(u, p->tensors[i]))
      tt_c_line(c, "(void)%s;", tt_names_of(c->names, p->tensors[i]));
}

/* An operand of a cast: the byte at `offset` from what `base` says. */
static const char *
bytes_at(struct cprinter *c, const char *base, int64_t offset)
{
  if (offset)
    return tt_arena_printf(c->arena, "(%s + %lld)", base, (long long)offset);
  return strchr(base, '+') ? tt_arena_printf(c->arena, "(%s)", base) : base;
}

/* Pointers to the prepared tensors; returns whether there were any. */
static bool
point_prepared(struct cprinter *c, const struct tt_nest *nest,
               const struct plan *plan, const struct used *u, bool constant)
{
  bool any = false;
  const char *k = constant ? "const " : "";
  for (int i = 0; i < nest->nprepared; i++) {
    const struct tt_tensor *t = nest->prepared[i];
    if (!uses(u, t))
      continue;
    any = true;
    const char *name = tt_names_bind(c->names, t, t->name);
    const char *type = tt_c_storage(t->dtype);
    const char *base =
        plan->prepared[i] == 0
            ? "prepared"
            : bytes_at(
                  c,
                  tt_arena_printf(c->arena, "(%sunsigned char *)prepared", k),
                  plan->prepared[i]);
    tt_c_line(c, "%s%s *const %s = (%s%s *)%s;", k, type, name, k, type, base);
  }
  return any;
}

static void
point_temps(struct cprinter *c, const struct tt_program *p)
{
  for (int i = 0; i < p->ntensors; i++) {
    const struct tt_tensor *t = p->tensors[i];
    const struct place *at =
        t->role == TT_TEMP ? tt_place_of(c->layout, t) : NULL;
    if (!at)
      continue;
    const char *type = tt_c_storage(t->dtype);
    const char *name = tt_names_bind(c->names, t, t->name);
    tt_c_line(c, "%s *const %s = (%s *)%s;", type, name, type,
              bytes_at(c, c->workspace, at->offset));
  }
}

/* The whole of a file's scratch memory, `bytes` of it. */
static void
declare_workspace(struct cprinter *c, const char *storage, const char *name,
                  int64_t bytes)
{
  if (c->dialect->vectors)
    tt_c_line(c, "%sunsigned char %s[%lld] __attribute__((aligned(64)));",
              storage, name, (long long)bytes);
  else /* aligned for any element type */
    tt_c_line(c, "%sdouble %s[%lld];", storage, name, (long long)(bytes / 8));
}

static const char *
as_bytes(struct cprinter *c, const char *name, bool is_void)
{
  if (c->dialect->vectors && !is_void)
    return name;
  return tt_arena_printf(c->arena, "(unsigned char *)%s", name);
}

static const char *
static_name(struct cprinter *c)
{
  return tt_arena_printf(c->arena, "%s_workspace", c->name);
}

static void
set_workspace(struct cprinter *c, const struct plan *plan, bool prepare)
{
  int64_t bytes = c->layout->workspace;
  switch (c->options->workspace) {
  case TT_WS_STATIC:
    c->workspace = as_bytes(c, static_name(c), false);
    return;
  case TT_WS_STACK:
  case TT_WS_ARG:
    if (prepare) {
      c->workspace =
          tt_arena_printf(c->arena, "(unsigned char *)prepared + %lld",
                          (long long)plan->scratch);
      return;
    }
    if (c->options->workspace == TT_WS_STACK && bytes > 0)
      declare_workspace(c, "", "workspace", bytes);
    c->workspace = as_bytes(c, "workspace", c->options->workspace == TT_WS_ARG);
    return;
  }
}

static void
open_function(struct cprinter *c, const char *head, const char *params)
{
  tt_c_line(c, "%s(%s)", head, params);
  tt_c_line(c, "{");
  c->depth++;
}

static void
print_run(struct cprinter *c, const struct tt_nest *nest,
          const struct plan *plan, const char *storage)
{
  const struct tt_program *p = nest->program;
  int mark = tt_names_mark(c->names);
  struct used u = {0};
  tt_collect_accesses(nest->body, &u.all);
  c->layout = &plan->body;
  open_function(
      c, tt_arena_printf(c->arena, "%svoid %s", storage, c->name),
      run_params(c->arena, c->names, p, c->options, c->dialect->restrict_));
  mark_unused(c, p, TT_INPUT, &u);
  mark_unused(c, p, TT_OUTPUT, &u);
  if (!point_prepared(c, nest, plan, &u, true) && tt_has_weights(p))
    tt_c_line(c, "(void)prepared;");
  if (c->options->workspace == TT_WS_ARG && plan->body.workspace == 0)
    tt_c_line(c, "(void)workspace;");
  set_workspace(c, plan, false);
  point_temps(c, p);
  c->depth--;
  tt_c_block(c, nest->body);
  tt_c_line(c, "}");
  free(u.all.items);
  tt_names_release(c->names, mark);
  c->pending.n = 0;
}

static void
print_prepare(struct cprinter *c, const struct tt_nest *nest,
              const struct plan *plan, const char *storage)
{
  const struct tt_program *p = nest->program;
  int mark = tt_names_mark(c->names);
  struct used u = {0};
  if (nest->prepare)
    tt_collect_accesses(nest->prepare, &u.all);
  c->layout = &plan->prepare;
  tt_c_line(c, "%ssize_t %s_prepared_size(void)", storage, c->name);
  tt_c_line(c, "{");
  tt_c_line(c, "  return %lld;", (long long)plan->sizes.prepared_bytes);
  tt_c_line(c, "}");
  tt_c_line(c, "%s", "");
  open_function(
      c, tt_arena_printf(c->arena, "%svoid %s_prepare", storage, c->name),
      prepare_params(c->arena, c->names, p, c->dialect->restrict_));
  mark_unused(c, p, TT_WEIGHT, &u);
  set_workspace(c, plan, true);
  if (!point_prepared(c, nest, plan, &u, false) && plan->prepare.workspace == 0)
    tt_c_line(c, "(void)prepared;");
  point_temps(c, p);
  c->depth--;
  if (nest->prepare)
    tt_c_block(c, nest->prepare);
  tt_c_line(c, "}");
  tt_c_line(c, "%s", "");
  free(u.all.items);
  tt_names_release(c->names, mark);
  c->pending.n = 0;
}

/* ---- the entry of the runner ------------------------------------------ */

static int
count_role(const struct tt_program *p, enum tt_role role)
{
  int n = 0;
  for (int i = 0; i < p->ntensors; i++)
    n += p->tensors[i]->role == role;
  return n;
}

static void
add_args(struct cprinter *c, struct tt_sb *sb, int from, int n)
{
  (void)c;
  for (int i = 0; i < n; i++)
    tt_sb_printf(sb, "%sargs[%d]", sb->len ? ", " : "", from + i);
}

static void
print_entry(struct cprinter *c, const struct tt_program *p)
{
  int in = count_role(p, TT_INPUT), weights = count_role(p, TT_WEIGHT);
  int out = count_role(p, TT_OUTPUT), all = in + weights + out;
  struct tt_sb run = {0}, prepare = {0};
  add_args(c, &run, 0, in);
  add_args(c, &prepare, in, weights);
  if (weights) {
    add_args(c, &run, all, 1);
    add_args(c, &prepare, all, 1);
  }
  add_args(c, &run, in + weights, out);
  if (c->options->workspace == TT_WS_ARG)
    add_args(c, &run, all + 1, 1);
  tt_c_line(c, "%s", "");
  tt_c_line(c, "void %s_entry(void **args, int what)", c->name);
  tt_c_line(c, "{");
  if (weights)
    tt_c_line(c, "  if (what == 0)");
  if (weights)
    tt_c_line(c, "    %s_prepare(%s);", c->name, tt_sb_str(&prepare));
  tt_c_line(c, "  if (what == 1)");
  tt_c_line(c, "    %s(%s);", c->name, tt_sb_str(&run));
  tt_c_line(c, "}");
  tt_sb_free(&run);
  tt_sb_free(&prepare);
}

/* ---- the file --------------------------------------------------------- */

/* (The elements are rounded already.) */
static uint16_t
half_bits(double v)
{
  _Float16 h = (_Float16)v;
  uint16_t u;
  memcpy(&u, &h, sizeof u);
  return u;
}

/* An initializer in rows that fit the line. */
static void
print_table(struct cprinter *c, const struct tt_tensor *t)
{
  int64_t n = tt_tensor_size(t);
  struct tt_sb row = {0};
  tt_c_line(c, "%s %s %s[%lld] = {", c->dialect->table,
            tt_c_memory(c, t->dtype), tt_names_of(c->names, t), (long long)n);
  for (int64_t i = 0; i < n; i++) {
    int prec;
    const char *v =
        t->dtype == TT_F16 && c->options->gpu
            ? tt_c_int(c, TT_I32, half_bits(t->fdata[i]), &prec)
        : t->dtype == TT_BF16
            ? tt_c_int(c, TT_I32, tt_f32_to_bf16((float)t->fdata[i]), &prec)
        : tt_dtype_is_float(t->dtype)
            ? tt_c_float(c, t->dtype, t->fdata[i], &prec)
            : tt_c_int(c, t->dtype, t->idata[i], &prec);
    if (row.len + strlen(v) > 90) {
      tt_c_line(c, "    %s", tt_sb_str(&row));
      tt_sb_clear(&row);
    }
    tt_sb_printf(&row, "%s%s%s", row.len ? " " : "", v, i + 1 < n ? "," : "");
  }
  tt_c_line(c, "    %s};", tt_sb_str(&row));
  tt_sb_free(&row);
}

bool
tt_c_has_word(const char *text, const char *word)
{
  size_t n = strlen(word);
  for (const char *p = strstr(text, word); p; p = strstr(p + n, word))
    if (p == text || !(isalnum((unsigned char)p[-1]) || p[-1] == '_'))
      return true;
  return false;
}

static bool
needs_stdint(const char *text)
{
  static const char *const words[] = {
      "int8_t",   "uint8_t", "int16_t",  "uint16_t",  "int32_t",
      "uint32_t", "int64_t", "uint64_t", "uintptr_t", "INT"};
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (tt_c_has_word(text, words[i]))
      return true;
  return false;
}

void
tt_c_definitions(struct cprinter *c)
{
  const char *function = c->dialect->function;
  size_t n = strlen(function);
  bool attributes = c->dialect->vectors || c->dialect->style == TT_CUDA_VECTORS;
  for (int i = 0; i < c->helpers.n; i++) {
    const char *text = c->helpers.items[i].text;
    if (c->guarded && attributes && strncmp(text, function, n) == 0) {
      tt_sb_printf(&c->body, "%s __attribute__((unused))", function);
      text += n;
    }
    tt_sb_add(&c->body, text);
    tt_c_line(c, "%s", "");
  }
  for (int i = 0; i < c->consts.n; i++) {
    print_table(c, c->consts.items[i]);
    tt_c_line(c, "%s", "");
  }
}

/* Types, helpers and tables, in the order in which they need each other. */
static void
print_needs(struct cprinter *c, int64_t workspace)
{
  for (int i = 0; i < c->typedefs.n; i++)
    tt_c_line(c, "%s", c->typedefs.items[i]);
  if (c->typedefs.n > 0)
    tt_c_line(c, "%s", "");
  tt_c_definitions(c);
  if (c->options->workspace == TT_WS_STATIC && workspace > 0) {
    declare_workspace(c, "static ", static_name(c), workspace);
    tt_c_line(c, "%s", "");
  }
  if (c->options->workspace == TT_WS_ARG && !c->options->entry) {
    tt_c_line(c, "#define %s_WORKSPACE_BYTES %lld",
              tt_c_upper(c->arena, c->name), (long long)workspace);
    tt_c_line(c, "%s", "");
  }
}

const char *
tt_c_upper(struct tt_arena *arena, const char *name)
{
  char *s = tt_arena_strdup(arena, name);
  for (char *p = s; *p; p++)
    *p = (char)toupper((unsigned char)*p);
  return s;
}

static void
assemble(struct cprinter *c, const char *functions, int64_t workspace,
         struct tt_sb *out)
{
  tt_sb_clear(&c->body);
  print_needs(c, workspace);
  const char *needs = tt_sb_str(&c->body);
  struct tt_sb head = {0};
  if (c->math)
    tt_sb_add(&head, "#include <math.h>\n");
  if (tt_c_has_word(functions, "ptrdiff_t") ||
      tt_c_has_word(functions, "size_t"))
    tt_sb_add(&head, "#include <stddef.h>\n");
  if (needs_stdint(functions) || needs_stdint(needs))
    tt_sb_add(&head, "#include <stdint.h>\n");
  if (head.len > 0)
    tt_sb_putc(&head, '\n');
  tt_sb_add(out, tt_sb_str(&head));
  tt_sb_add(out, needs);
  tt_sb_add(out, functions);
  tt_sb_free(&head);
}

static void
release(struct cprinter *c)
{
  tt_sb_free(&c->body);
  free(c->typedefs.items);
  free(c->helpers.items);
  free(c->consts.items);
  free(c->pending.items);
  free(c->bases.items);
  tt_names_free(c->names);
}

const char *
tt_c_kernel(struct tt_arena *arena, const struct tt_nest *nest,
            const struct tt_codegen_options *options, bool internal,
            struct tt_code_sizes *sizes, struct tt_sb *out)
{
  const char *error = NULL;
  struct tt_nest n = tt_codegen_passes(arena, nest, options, &error);
  struct plan plan;
  if (!error)
    error = tt_plan(arena, &n, options, &plan);
  if (error)
    return error;
  bool gnu = options->vector_bytes > 0 && !options->c99;
  struct cprinter c = {.arena = arena,
                       .options = options,
                       .dialect = gnu ? &gnu_c : &tt_plain_c,
                       .names = tt_names_new(arena),
                       .name = options->name ? options->name : n.program->name};
  bind_functions(c.names, c.name);
  const char *storage = internal ? "static " : "";
  if (tt_has_weights(n.program))
    print_prepare(&c, &n, &plan, storage);
  print_run(&c, &n, &plan, storage);
  if (options->entry)
    print_entry(&c, n.program);
  const char *functions = tt_arena_strdup(arena, tt_sb_str(&c.body));
  assemble(&c, functions, plan.sizes.workspace_bytes, out);
  *sizes = plan.sizes;
  release(&c);
  return NULL;
}

const char *
tt_codegen_c(struct tt_arena *arena, const struct tt_nest *nest,
             const struct tt_codegen_options *options,
             struct tt_code_sizes *sizes, struct tt_sb *out)
{
  struct tt_sb text = {0};
  const char *error = tt_c_kernel(arena, nest, options, false, sizes, &text);
  if (!error)
    tt_sb_add(out, tt_sb_str(&text));
  tt_sb_free(&text);
  return error;
}
