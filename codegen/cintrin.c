/* Instructions as C: the text of an intrin under its guard, and what it does
 * as loops where the guard does not hold.
 *
 *   #if GUARD
 *     { registers of operands; their loads; the instruction }
 *   #else
 *     { loops }
 *   #endif
 *
 * Instructions that follow one another are printed as one: an operand that
 * several of them have in a register is loaded once.
 *
 * Invariant: where the text stands for a result in a register, all statements
 * on that result are instructions of the same intrin.
 */
#include "config.h"

#include "codegen/cprint.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Is an instruction's own text printed, or its body alone?  Several threads
 * are together in CUDA C only, and in plain C that stands for a kernel none
 * are. */
bool
tt_c_has_intrin(const struct cprinter *c, const struct tt_intrin *in)
{
  bool plain = c->options->gpu && c->dialect->style == TT_GNU_VECTORS;
  return !c->options->naive && !plain &&
         (in->threads == 1 || c->dialect->style == TT_CUDA_VECTORS);
}

static void
raw(struct cprinter *c, const char *text)
{
  tt_sb_printf(&c->body, "%s\n", text);
}

static void
open_guard(struct cprinter *c, const struct tt_intrin *in)
{
  if (in->guard)
    raw(c, tt_arena_printf(c->arena, "#if %s", in->guard));
}

/* ---- what a file needs ------------------------------------------------- */

static const char ld32_gnu[] = "#ifndef te_ld32\n"
                               "#define te_ld32 te_ld32\n"
                               "static inline uint32_t te_ld32(const void *p)\n"
                               "{\n"
                               "  uint32_t x;\n"
                               "  __builtin_memcpy(&x, p, sizeof x);\n"
                               "  return x;\n"
                               "}\n"
                               "#endif\n";
static const char ld32_cuda[] =
    "#ifndef te_ld32\n"
    "#define te_ld32 te_ld32\n"
    "static __device__ inline __attribute__((unused))\n"
    "uint32_t te_ld32(const void *p)\n"
    "{\n"
    "  uint32_t x;\n"
    "  memcpy(&x, p, sizeof x);\n"
    "  return x;\n"
    "}\n"
    "#endif\n";
static const char ld32_opencl[] = "#ifndef te_ld32\n"
                                  "#define te_ld32(p) as_uint(vload4(0, (p)))\n"
                                  "#endif\n";

static const char *
ld32(const struct cprinter *c)
{
  switch (c->dialect->style) {
  case TT_CUDA_VECTORS:
    return ld32_cuda;
  case TT_OPENCL_VECTORS:
    return ld32_opencl;
  case TT_GNU_VECTORS:
    break;
  }
  return ld32_gnu;
}

static bool
says(const struct tt_intrin *in, const char *word)
{
  const char *texts[] = {in->init, in->emit, in->store};
  for (int i = 0; i < 3; i++)
    if (texts[i] && strstr(texts[i], word))
      return true;
  for (int i = 0; i < in->noperands; i++)
    if (in->operands[i].load && strstr(in->operands[i].load, word))
      return true;
  return false;
}

/* The header and the function that the text may use. */
static void
need(struct cprinter *c, const struct tt_intrin *in)
{
  struct tt_sb sb = {0};
  bool loads = says(in, "te_ld32");
  const char *name = tt_arena_printf(c->arena, "intrin %s", in->name);
  if (tt_c_has_helper(c, name) || (!in->header && !loads))
    return;
  if (in->guard)
    tt_sb_printf(&sb, "#if %s\n", in->guard);
  if (in->header)
    tt_sb_printf(&sb, "#include <%s>\n", in->header);
  tt_sb_add(&sb, loads ? ld32(c) : "");
  if (in->guard)
    tt_sb_add(&sb, "#endif\n");
  tt_c_add_helper(c, name, tt_arena_strdup(c->arena, tt_sb_str(&sb)));
  tt_sb_free(&sb);
}

/* ---- words of the text ------------------------------------------------- */

/* One instruction, and the names of its operands' registers. */
struct use {
  struct cprinter *c;
  const struct tt_stmt *s;
  const char *reg[TT_MAX_OPERANDS];
  int in; /* the operand that $in is, or -1 */
};

static const char *
pointer(struct cprinter *c, const struct tt_stmt *s, int operand)
{
  const struct tt_expr *e = tt_operand_base(c->arena, s, operand);
  e = tt_simplify(c->arena, e, NULL);
  const char *at = tt_c_access(c, e->tensor, e->nargs, e->args, false);
  return tt_arena_printf(c->arena, "(&%s)", at);
}

/* The register of a result: number `offset / size` of its variable. */
static const char *
fragment(struct cprinter *c, const struct tt_stmt *s, int operand)
{
  const struct tt_expr *e = tt_operand_base(c->arena, s, operand);
  const struct tt_operand_of *r = &s->intrin->operands[s->intrin->result];
  const struct tt_expr *tile = tt_simplify(
      c->arena,
      tt_idiv(c->arena, tt_access_base(c->arena, e->tensor, e->nargs, e->args),
              tt_tensor_size(r->tensor)),
      NULL);
  return tt_arena_printf(c->arena, "%s[%s]", tt_c_tensor(c, e->tensor),
                         tt_c_index(c, tile, PREC_ANY));
}

/* What an operand of the statement is called: its register, its value, or
 * where it begins. */
static const char *
place(struct cprinter *c, const struct tt_stmt *s, int operand)
{
  const struct tt_expr *e = s->idx[operand];
  if (e->tensor->fragment)
    return fragment(c, s, operand);
  const struct tt_operand_of *o =
      &s->intrin
           ->operands[s->op == TT_INTRIN_EMIT ? operand : s->intrin->result];
  if (o->tensor->ndim > 0)
    return pointer(c, s, operand);
  bool result = s->op != TT_INTRIN_EMIT || operand == s->intrin->result;
  return result ? tt_c_access(c, e->tensor, e->nargs, e->args, true)
                : tt_c_expr(c, e, PREC_UNARY);
}

static int
operand_named(const struct tt_intrin *in, const char *name, size_t n)
{
  for (int i = 0; i < in->noperands; i++)
    if (strlen(in->operands[i].tensor->name) == n &&
        strncmp(in->operands[i].tensor->name, name, n) == 0)
      return i;
  return -1;
}

/* Position in the statement's operands of what a word stands for. */
static int
position(const struct use *u, const char *word, size_t n)
{
  if (n == 3 && strncmp(word, "out", n) == 0)
    return u->s->op == TT_INTRIN_STORE ? 1 : -1;
  if (n == 2 && strncmp(word, "in", n) == 0)
    return u->in;
  int o = operand_named(u->s->intrin, word, n);
  if (u->s->op == TT_INTRIN_EMIT)
    return o;
  return o == u->s->intrin->result ? 0 : -1;
}

static const char *
lane(const struct cprinter *c)
{
  switch (c->dialect->style) {
  case TT_CUDA_VECTORS:
    return "(int)threadIdx.x";
  case TT_OPENCL_VECTORS:
    return "(int)get_local_id(0)";
  case TT_GNU_VECTORS:
    break;
  }
  return "0";
}

static const char *expand(const struct use *u, const char *text, size_t n);

/* "(row, column)": where that element of an operand is; *p is moved behind it.
 */
static const char *
element(const struct use *u, int at, const char **p)
{
  struct cprinter *c = u->c;
  const struct tt_operand_of *o =
      &u->s->intrin
           ->operands[u->s->op == TT_INTRIN_EMIT ? at : u->s->intrin->result];
  const struct tt_expr *values[TT_MAX_DIMS];
  const struct tt_var *vars[TT_MAX_DIMS];
  struct tt_text args[TT_MAX_DIMS];
  int n = tt_text_arguments(*p, TT_MAX_DIMS, args, p);
  for (int d = 0; d < n; d++) {
    struct tt_var *v = TT_NEW(c->arena, struct tt_var);
    const char *text = expand(u, args[d].at, args[d].n);
    vars[d] = u->s->vars[o->index[d]];
    values[d] = tt_idx(c->arena, strtoll(text, NULL, 10));
    if (text[strspn(text, "0123456789")] == '\0')
      continue;
    *v = (struct tt_var){
        .name = "at", .extent = o->tensor->dims[d], .id = INT_MAX - d};
    tt_names_alias(c->names, v, tt_arena_printf(c->arena, "(%s)", text));
    values[d] = tt_var_ref(c->arena, v);
  }
  const struct tt_expr *e = tt_simplify(
      c->arena, tt_expr_subst(c->arena, u->s->idx[at], n, vars, values), NULL);
  return tt_arena_printf(c->arena, "(&%s)",
                         tt_c_access(c, e->tensor, e->nargs, e->args, false));
}

/* The text of "$word", "$word.2" or "$word(1, 2)"; *p is moved behind it. */
static const char *
replace(const struct use *u, const char **p)
{
  struct cprinter *c = u->c;
  const char *word = *p;
  size_t n = 0;
  while (isalnum((unsigned char)word[n]) || word[n] == '_')
    n++;
  *p += n;
  if (n == 4 && strncmp(word, "lane", n) == 0)
    return lane(c);
  int at = position(u, word, n);
  if (at < 0)
    return "";
  if (word[n] == '.' && isdigit((unsigned char)word[n + 1])) {
    int64_t strides[TT_MAX_DIMS] = {0};
    int d = word[n + 1] - '0';
    *p += 2;
    bool known = tt_operand_strides(c->arena, u->s, at, strides);
    return tt_arena_printf(c->arena, "%lld",
                           known && d < TT_MAX_DIMS ? (long long)strides[d]
                                                    : 0LL);
  }
  if (word[n] == '(')
    return element(u, at, p);
  bool memory = n == 2 && strncmp(word, "in", n) == 0;
  return u->reg[at] && !memory ? u->reg[at] : place(c, u->s, at);
}

/* The text with its words replaced. */
static const char *
expand(const struct use *u, const char *text, size_t n)
{
  struct tt_sb sb = {0};
  for (const char *p = text; p < text + n;)
    if (*p == '$' && p++)
      tt_sb_add(&sb, replace(u, &p));
    else
      tt_sb_putc(&sb, *p++);
  const char *r = tt_arena_strdup(u->c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return r;
}

/* Columns before the first word of a line. */
static int
margin(const char *line)
{
  return (int)strspn(line, " \t");
}

/* The least margin of lines that are not blank, the first one's aside if the
 * text begins on it. */
static int
common_margin(const char *text)
{
  int least = -1;
  for (const char *p = strchr(text, '\n'); p; p = strchr(p, '\n')) {
    int n = margin(++p);
    if (p[n] && p[n] != '\n' && (least < 0 || n < least))
      least = n;
  }
  return least < 0 ? 0 : least;
}

/* The lines of a C block, from the present depth on. */
static void
print_text(const struct use *u, const char *text)
{
  struct cprinter *c = u->c;
  struct tt_sb line = {0};
  int common = common_margin(text);
  for (const char *p = text + margin(text); *p;) {
    int more = p == text + margin(text) ? 0 : margin(p) - common;
    for (p += margin(p); *p && *p != '\n';)
      if (*p == '$' && p++)
        tt_sb_add(&line, replace(u, &p));
      else
        tt_sb_putc(&line, *p++);
    size_t n = line.len;
    while (n > 0 && isspace((unsigned char)tt_sb_str(&line)[n - 1]))
      n--;
    if (n > 0)
      tt_sb_printf(&c->body, "%*s%.*s\n", 2 * c->depth + (more > 0 ? more : 0),
                   "", (int)n, tt_sb_str(&line));
    tt_sb_clear(&line);
    p += *p == '\n';
  }
  tt_sb_free(&line);
}

/* ---- runs of instructions ---------------------------------------------- */

/* An operand that is in a register for a run. */
struct loaded {
  const struct tt_operand_of *operand;
  const struct tt_expr *at;
  const char *name;
};
struct loads {
  struct loaded *items;
  int n, cap;
};

static const char *
find_loaded(const struct loads *l, const struct tt_operand_of *o,
            const struct tt_expr *at)
{
  for (int i = 0; i < l->n; i++)
    if (l->items[i].operand == o && tt_expr_equal(l->items[i].at, at))
      return l->items[i].name;
  return NULL;
}

/* The registers of an instruction's operands, loaded if they are not yet. */
static void
load_operands(struct use *u, struct loads *l)
{
  struct cprinter *c = u->c;
  const struct tt_intrin *in = u->s->intrin;
  for (int o = 0; o < in->noperands && u->s->op == TT_INTRIN_EMIT; o++) {
    const struct tt_operand_of *op = &in->operands[o];
    if (o == in->result || !op->reg)
      continue;
    const struct tt_expr *at = tt_operand_base(c->arena, u->s, o);
    u->reg[o] = find_loaded(l, op, at);
    if (u->reg[o])
      continue;
    u->reg[o] = tt_names_bind(c->names, NULL, op->tensor->name);
    TT_PUSH(*l, ((struct loaded){op, at, u->reg[o]}));
    tt_sb_printf(&c->body, "%*s%s %s;\n", 2 * c->depth, "", op->reg, u->reg[o]);
    u->in = o;
    print_text(u, op->load);
    u->in = -1;
  }
}

static void
print_own(struct cprinter *c, int n, const struct tt_stmt *const *run)
{
  struct loads l = {0};
  int mark = tt_names_mark(c->names);
  tt_c_line(c, "{");
  c->depth++;
  for (int i = 0; i < n; i++) {
    const struct tt_intrin *in = run[i]->intrin;
    struct use u = {.c = c, .s = run[i], .in = -1};
    load_operands(&u, &l);
    print_text(&u, run[i]->op == TT_INTRIN_INIT   ? in->init
                   : run[i]->op == TT_INTRIN_EMIT ? in->emit
                                                  : in->store);
  }
  c->depth--;
  tt_c_line(c, "}");
  tt_names_release(c->names, mark);
  free(l.items);
}

static void
print_bodies(struct cprinter *c, int n, const struct tt_stmt *const *run)
{
  for (int i = 0; i < n; i++) {
    tt_c_line(c, "{");
    tt_c_block(c, run[i]->body);
    tt_c_line(c, "}");
  }
}

void
tt_c_instructions(struct cprinter *c, int n, const struct tt_stmt *const *run)
{
  const struct tt_intrin *in = run[0]->intrin;
  if (!tt_c_has_intrin(c, in)) {
    print_bodies(c, n, run);
    return;
  }
  need(c, in);
  open_guard(c, in);
  print_own(c, n, run);
  if (!in->guard)
    return;
  raw(c, "#else");
  print_bodies(c, n, run);
  raw(c, "#endif");
  c->guarded = true;
}

bool
tt_c_same_run(const struct tt_stmt *a, const struct tt_stmt *b)
{
  return a->kind == TT_INTRIN && b->kind == TT_INTRIN &&
         a->intrin == b->intrin && a->op == b->op && !b->comment;
}

/* ---- registers --------------------------------------------------------- */

void
tt_c_fragments(struct cprinter *c, const struct tt_tensor *t, const char *name,
               const char *start)
{
  const struct tt_intrin *in = t->fragment;
  const struct tt_operand_of *r = &in->operands[in->result];
  bool own = tt_c_has_intrin(c, in);
  if (own) {
    need(c, in);
    open_guard(c, in);
    tt_c_line(c, "%s %s[%lld];", r->reg, name,
              (long long)(tt_tensor_size(t) / tt_tensor_size(r->tensor)));
  }
  if (own && !in->guard)
    return;
  if (own)
    raw(c, "#else");
  tt_c_line(c, "%s %s[%lld]%s;", tt_c_memory(c, t->dtype), name,
            (long long)tt_tensor_size(t), start);
  if (own)
    raw(c, "#endif");
}
