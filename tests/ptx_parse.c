/* The text of PTX becomes functions of instructions.
 *
 * Invariant: what is not understood is an error.
 */
#include "config.h"

#include "tests/ptx_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Registers of one declaration: name, or name0 ... */
struct registers {
  const char *name; /* with its % */
  size_t len;
  int first, count;
};

struct label {
  const char *name;
  size_t len;
  int at;
};

struct parser {
  struct tt_arena *arena;
  const char *p;
  const char *error;
  TT_VEC(struct ptx_function) functions;
  TT_VEC(struct ptx_variable) variables; /* of the module */
  bool dynamic;
  /* of a function */
  struct ptx_function *f;
  TT_VEC(struct registers) registers;
  TT_VEC(struct ptx_variable) own;
  TT_VEC(struct label) labels;
  TT_VEC(struct ptx_instruction) code;
};

static void
fail(struct parser *ps, const char *what)
{
  if (!ps->error)
    ps->error = tt_arena_printf(ps->arena, "%s: %.*s", what,
                                (int)strcspn(ps->p, "\n"), ps->p);
}

/* ---- words ------------------------------------------------------------- */

static void
blanks(struct parser *ps)
{
  for (;;) {
    ps->p += strspn(ps->p, " \t\r\n");
    if (strncmp(ps->p, "//", 2) == 0) {
      ps->p += strcspn(ps->p, "\n");
    } else if (strncmp(ps->p, "/*", 2) == 0) {
      const char *end = strstr(ps->p, "*/");
      ps->p = end ? end + 2 : ps->p + strlen(ps->p);
    } else {
      return;
    }
  }
}

static bool
is_name(char c)
{
  return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

static size_t
name_length(const char *p)
{
  size_t n = 0;
  while (is_name(p[n]))
    n++;
  return n;
}

static bool
accept(struct parser *ps, const char *text)
{
  size_t n = strlen(text);
  blanks(ps);
  if (strncmp(ps->p, text, n) != 0)
    return false;
  if (is_name(text[n - 1]) && is_name(ps->p[n]))
    return false;
  ps->p += n;
  return true;
}

static void
expect(struct parser *ps, const char *text)
{
  if (!accept(ps, text))
    fail(ps, tt_arena_printf(ps->arena, "'%s' expected", text));
}

static const char *
name(struct parser *ps)
{
  blanks(ps);
  size_t n = name_length(ps->p);
  if (n == 0)
    fail(ps, "a name expected");
  const char *s = tt_arena_strndup(ps->arena, ps->p, n);
  ps->p += n;
  return s;
}

static int64_t
integer(struct parser *ps)
{
  char *end;
  blanks(ps);
  bool negative = *ps->p == '-';
  unsigned long long v = strtoull(ps->p + negative, &end, 0);
  if (end == ps->p + negative)
    fail(ps, "a number expected");
  ps->p = *end == 'U' ? end + 1 : end;
  return (int64_t)(negative ? 0 - v : v);
}

/* The items of a vector become the arena's; NULL: there are none. */
static void *
kept(struct parser *ps, const void *items, int n, size_t size)
{
  return n > 0 ? tt_arena_dup(ps->arena, items, (size_t)n * size) : NULL;
}

/* The next statement is no concern of ours. */
static void
skip_line(struct parser *ps)
{
  ps->p += strcspn(ps->p, "\n");
}

/* ---- variables --------------------------------------------------------- */

static int
type_bytes(struct parser *ps)
{
  static const struct {
    const char *name;
    int bytes;
  } types[] = {{".b8", 1},  {".u8", 1},  {".s8", 1},  {".b16", 2}, {".u16", 2},
               {".s16", 2}, {".f16", 2}, {".b32", 4}, {".u32", 4}, {".s32", 4},
               {".f32", 4}, {".b64", 8}, {".u64", 8}, {".s64", 8}, {".f64", 8}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (accept(ps, types[i].name))
      return types[i].bytes;
  fail(ps, "a type expected");
  return 1;
}

static void
initial_values(struct parser *ps, struct ptx_variable *v, int size)
{
  int64_t at = 0;
  expect(ps, "{");
  do {
    int64_t x = integer(ps);
    if (at + size <= v->bytes)
      memcpy(v->data + at, &x, (size_t)size);
    at += size;
  } while (!ps->error && accept(ps, ","));
  expect(ps, "}");
  if (at > v->bytes)
    fail(ps, "too many values");
}

/* .align 4 .b8 NAME[16] = {1, 2}, behind the space. */
static struct ptx_variable
variable(struct parser *ps, enum ptx_space space, int64_t *end)
{
  struct ptx_variable v = {.space = space};
  int64_t align = 0;
  if (accept(ps, ".align"))
    align = integer(ps);
  (void)accept(ps, ".ptr");
  int size = type_bytes(ps);
  if (align == 0)
    align = size;
  v.name = name(ps);
  v.bytes = size;
  if (accept(ps, "[")) {
    v.dynamic = accept(ps, "]");
    v.bytes = v.dynamic ? 0 : size * integer(ps);
    if (!v.dynamic)
      expect(ps, "]");
  }
  if (align <= 0 || ps->error)
    return v;
  *end = (*end + align - 1) / align * align;
  v.offset = *end;
  *end += v.bytes;
  if (space == PTX_GLOBAL || space == PTX_CONST) {
    v.data = tt_arena_alloc(ps->arena, (size_t)v.bytes + 1);
    if (accept(ps, "="))
      initial_values(ps, &v, size);
  }
  return v;
}

static const struct ptx_variable *
find_variable(const struct parser *ps, const char *s, size_t n)
{
  for (int i = ps->own.n - 1; i >= 0; i--)
    if (strlen(ps->own.items[i].name) == n &&
        memcmp(ps->own.items[i].name, s, n) == 0)
      return &ps->own.items[i];
  for (int i = 0; i < ps->variables.n; i++)
    if (strlen(ps->variables.items[i].name) == n &&
        memcmp(ps->variables.items[i].name, s, n) == 0)
      return &ps->variables.items[i];
  return NULL;
}

/* ---- operands ---------------------------------------------------------- */

static int
find_register(const struct parser *ps, const char *s, size_t n)
{
  for (int i = ps->registers.n - 1; i >= 0; i--) {
    const struct registers *r = &ps->registers.items[i];
    if (n < r->len || memcmp(r->name, s, r->len) != 0)
      continue;
    if (r->count < 0 && n == r->len)
      return r->first;
    if (r->count < 0 || n == r->len ||
        strspn(s + r->len, "0123456789") < n - r->len)
      continue;
    long k = strtol(s + r->len, NULL, 10);
    if (k < r->count)
      return r->first + (int)k;
  }
  return -1;
}

static const char *const specials[] = {
    "%tid.x",    "%tid.y",    "%tid.z",   "%ntid.x",  "%ntid.y",
    "%ntid.z",   "%ctaid.x",  "%ctaid.y", "%ctaid.z", "%nctaid.x",
    "%nctaid.y", "%nctaid.z", "%laneid",  "WARP_SZ"};

static bool
special(struct parser *ps, struct ptx_operand *o)
{
  for (size_t i = 0; i < sizeof specials / sizeof *specials; i++)
    if (accept(ps, specials[i])) {
      o->kind = PTX_SPECIAL;
      o->value = i;
      return true;
    }
  return false;
}

/* A variable's address is a number of its space; of globals, of the host. */
static void
of_variable(struct ptx_operand *o, const struct ptx_variable *v)
{
  o->space = v->space;
  o->value = v->data ? (uint64_t)(uintptr_t)v->data : (uint64_t)v->offset;
  if (v->dynamic)
    o->name = v->name;
}

static struct ptx_operand operand(struct parser *);

static void
vector(struct parser *ps, struct ptx_operand *o)
{
  struct ptx_operand *items =
      TT_ARRAY(ps->arena, struct ptx_operand, PTX_MAX_VECTOR);
  o->kind = PTX_VECTOR_OF;
  do {
    if (o->n == PTX_MAX_VECTOR)
      fail(ps, "a vector is too long");
    else
      items[o->n++] = operand(ps);
  } while (!ps->error && accept(ps, ","));
  expect(ps, "}");
  o->items = items;
}

static void
memory(struct parser *ps, struct ptx_operand *o)
{
  blanks(ps);
  size_t n = name_length(ps->p);
  const struct ptx_variable *v = find_variable(ps, ps->p, n);
  o->kind = PTX_MEMORY;
  o->reg = find_register(ps, ps->p, n);
  if (v)
    of_variable(o, v);
  else if (o->reg < 0)
    fail(ps, "an address expected");
  ps->p += n;
  if (accept(ps, "+"))
    o->value += (uint64_t)integer(ps);
  expect(ps, "]");
}

static uint64_t
hexadecimal(struct parser *ps, int digits)
{
  char text[17] = "";
  strncpy(text, ps->p + 2, (size_t)digits);
  if (strspn(text, "0123456789abcdefABCDEF") != (size_t)digits)
    fail(ps, "a number expected");
  ps->p += 2 + digits;
  return strtoull(text, NULL, 16);
}

static struct ptx_operand
operand(struct parser *ps)
{
  struct ptx_operand o = {.kind = PTX_VALUE, .reg = -1};
  blanks(ps);
  if (accept(ps, "{")) {
    vector(ps, &o);
    return o;
  }
  if (accept(ps, "[")) {
    memory(ps, &o);
    return o;
  }
  if (special(ps, &o))
    return o;
  o.negated = accept(ps, "!");
  if (strncmp(ps->p, "0f", 2) == 0 || strncmp(ps->p, "0F", 2) == 0) {
    o.value = hexadecimal(ps, 8);
    return o;
  }
  if (strncmp(ps->p, "0d", 2) == 0 || strncmp(ps->p, "0D", 2) == 0) {
    o.value = hexadecimal(ps, 16);
    return o;
  }
  if (*ps->p == '-' || isdigit((unsigned char)*ps->p)) {
    o.value = (uint64_t)integer(ps);
    return o;
  }
  size_t n = name_length(ps->p);
  const struct ptx_variable *v = find_variable(ps, ps->p, n);
  o.reg = find_register(ps, ps->p, n);
  if (n == 1 && *ps->p == '_') {
    o.kind = PTX_NOTHING;
  } else if (o.reg >= 0) {
    o.kind = PTX_REGISTER;
  } else if (v) {
    of_variable(&o, v);
  } else if (n > 0) {
    o.kind = PTX_NAME;
    o.name = tt_arena_strndup(ps->arena, ps->p, n);
  } else {
    fail(ps, "an operand expected");
  }
  ps->p += n;
  if (v && accept(ps, "+"))
    o.value += (uint64_t)integer(ps);
  return o;
}

/* ---- instructions ------------------------------------------------------ */

static bool
type_word(const char *w, struct ptx_type *t)
{
  static const struct {
    const char *name;
    struct ptx_type type;
  } types[] = {
      {"pred", {PTX_BITS, 1, false}},     {"b8", {PTX_BITS, 8, false}},
      {"b16", {PTX_BITS, 16, false}},     {"b32", {PTX_BITS, 32, false}},
      {"b64", {PTX_BITS, 64, false}},     {"u8", {PTX_UNSIGNED, 8, false}},
      {"u16", {PTX_UNSIGNED, 16, false}}, {"u32", {PTX_UNSIGNED, 32, false}},
      {"u64", {PTX_UNSIGNED, 64, false}}, {"s8", {PTX_SIGNED, 8, false}},
      {"s16", {PTX_SIGNED, 16, false}},   {"s32", {PTX_SIGNED, 32, false}},
      {"s64", {PTX_SIGNED, 64, false}},   {"f16", {PTX_FLOAT, 16, false}},
      {"f32", {PTX_FLOAT, 32, false}},    {"f64", {PTX_FLOAT, 64, false}},
      {"bf16", {PTX_BRAIN, 16, false}},   {"f16x2", {PTX_FLOAT, 16, true}},
      {"bf16x2", {PTX_BRAIN, 16, true}}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    if (strcmp(types[i].name, w) == 0) {
      *t = types[i].type;
      return true;
    }
  return false;
}

static void
modifier(struct ptx_instruction *i, const char *w)
{
  static const char *const spaces[] = {"",      "global", "shared",
                                       "local", "param",  "const"};
  struct ptx_type t;
  if (type_word(w, &t) && i->ntypes < 4)
    i->types[i->ntypes++] = t;
  for (int k = 1; k < 6; k++)
    if (strcmp(spaces[k], w) == 0 && i->space == PTX_GENERIC)
      i->space = (enum ptx_space)k;
  if (strcmp(w, "v2") == 0 || strcmp(w, "v4") == 0)
    i->vector = w[1] - '0';
}

/* fma.rn.f32 */
static void
instruction_name(struct parser *ps, struct ptx_instruction *i)
{
  i->words[i->nwords++] = name(ps);
  while (!ps->error && *ps->p == '.') {
    ps->p++;
    if (i->nwords == PTX_MAX_WORDS) {
      fail(ps, "too many parts of a name");
      return;
    }
    const char *w = name(ps);
    if (accept(ps, "::")) /* L2::128B: how much is cached */
      (void)name(ps);
    modifier(i, w);
    i->words[i->nwords++] = w;
  }
}

static void
operands(struct parser *ps, struct ptx_instruction *i)
{
  bool list = false;
  blanks(ps);
  while (!ps->error && *ps->p != ';') {
    if (i->n == PTX_MAX_OPERANDS) {
      fail(ps, "too many operands");
      return;
    }
    list |= accept(ps, "("); /* of a call */
    i->operands[i->n++] = operand(ps);
    if (list && accept(ps, ")"))
      list = false;
    if (!accept(ps, ","))
      break;
  }
  expect(ps, list ? ")" : ";");
}

static bool
control(struct ptx_instruction *i)
{
  const char *w = i->words[0];
  if (strcmp(w, "bra") == 0 && i->n == 1 && i->operands[0].kind == PTX_NAME)
    i->op = PTX_BRA;
  else if ((strcmp(w, "ret") == 0 || strcmp(w, "exit") == 0) && i->n == 0)
    i->op = PTX_RET;
  return i->op != PTX_OTHER;
}

static void
instruction(struct parser *ps)
{
  struct ptx_instruction i = {.text = ps->p, .guard = -1, .vector = 1};
  if (accept(ps, "@")) {
    i.guard_negated = accept(ps, "!");
    size_t n = name_length(ps->p);
    i.guard = find_register(ps, ps->p, n);
    if (i.guard < 0)
      fail(ps, "a predicate expected");
    ps->p += n;
    blanks(ps);
  }
  instruction_name(ps, &i);
  operands(ps, &i);
  const char *at = ps->p;
  ps->p = i.text;
  if (!ps->error && !control(&i) && !ptx_find(&i) && !ptx_find_memory(&i) &&
      !ptx_find_warp(&i))
    fail(ps, "unknown instruction");
  if (!ps->error)
    ps->p = at;
  TT_PUSH(ps->code, i);
}

/* .reg .b32 %r<108>; */
static void
declare_registers(struct parser *ps)
{
  blanks(ps);
  ps->p += strcspn(ps->p, " \t");
  do {
    struct registers r = {.first = ps->f->nregisters, .count = -1};
    r.name = name(ps);
    r.len = strlen(r.name);
    if (accept(ps, "<")) {
      r.count = (int)integer(ps);
      expect(ps, ">");
    }
    ps->f->nregisters += r.count < 0 ? 1 : r.count;
    TT_PUSH(ps->registers, r);
  } while (!ps->error && accept(ps, ","));
  expect(ps, ";");
}

static bool
label(struct parser *ps)
{
  blanks(ps);
  size_t n = name_length(ps->p);
  if (n == 0 || ps->p[n] != ':')
    return false;
  struct label l = {ps->p, n, ps->code.n};
  TT_PUSH(ps->labels, l);
  ps->p += n + 1;
  return true;
}

static void
own_variable(struct parser *ps, enum ptx_space space, int64_t *end)
{
  struct ptx_variable v = variable(ps, space, end);
  expect(ps, ";");
  TT_PUSH(ps->own, v);
}

static void
branches(struct parser *ps)
{
  for (int i = 0; i < ps->code.n && !ps->error; i++) {
    struct ptx_instruction *b = &ps->code.items[i];
    if (b->op != PTX_BRA)
      continue;
    b->target = -1;
    for (int k = 0; k < ps->labels.n; k++)
      if (strlen(b->operands[0].name) == ps->labels.items[k].len &&
          memcmp(b->operands[0].name, ps->labels.items[k].name,
                 ps->labels.items[k].len) == 0)
        b->target = ps->labels.items[k].at;
    if (b->target < 0) {
      ps->p = b->text;
      fail(ps, "a branch to nowhere");
    }
  }
}

static void
body(struct parser *ps)
{
  int depth = 0;
  expect(ps, "{");
  while (!ps->error) {
    blanks(ps);
    if (accept(ps, "{")) {
      depth++;
    } else if (accept(ps, "}")) {
      if (depth-- == 0)
        break;
    } else if (accept(ps, ".reg")) {
      declare_registers(ps);
    } else if (accept(ps, ".shared")) {
      own_variable(ps, PTX_SHARED, &ps->f->shared);
    } else if (accept(ps, ".local")) {
      own_variable(ps, PTX_LOCAL, &ps->f->local);
    } else if (accept(ps, ".param")) {
      own_variable(ps, PTX_PARAM, &ps->f->param);
    } else if (accept(ps, ".pragma") || accept(ps, ".loc")) {
      skip_line(ps);
    } else if (!label(ps)) {
      instruction(ps);
    }
  }
  branches(ps);
}

/* (.param .u64 a, .param .u64 b) */
static const struct ptx_variable *
params(struct parser *ps, int *n)
{
  int first = ps->own.n;
  expect(ps, "(");
  if (!accept(ps, ")")) {
    do {
      expect(ps, ".param");
      struct ptx_variable v = variable(ps, PTX_PARAM, &ps->f->param);
      TT_PUSH(ps->own, v);
    } while (!ps->error && accept(ps, ","));
    expect(ps, ")");
  }
  *n = ps->own.n - first;
  return kept(ps, *n > 0 ? ps->own.items + first : NULL, *n,
              sizeof *ps->own.items);
}

static void
function(struct parser *ps, bool entry)
{
  struct ptx_function f = {.entry = entry};
  ps->f = &f;
  ps->registers.n = ps->own.n = ps->labels.n = ps->code.n = 0;
  blanks(ps);
  if (!entry && *ps->p == '(')
    f.results = params(ps, &f.nresults);
  f.name = name(ps);
  blanks(ps);
  if (*ps->p == '(')
    f.params = params(ps, &f.nparams);
  if (accept(ps, ";")) /* only declared: vprintf and its like are not ours */
    return;
  while (!ps->error && !accept(ps, "{")) /* .maxntid 256, 1, 1 */
    skip_line(ps), blanks(ps);
  if (!ps->error) {
    ps->p--;
    body(ps);
  }
  f.n = ps->code.n;
  f.code = kept(ps, ps->code.items, f.n, sizeof *f.code);
  TT_PUSH(ps->functions, f);
}

static void
toplevel(struct parser *ps)
{
  int64_t end = 0;
  bool external = false;
  while (accept(ps, ".visible") || accept(ps, ".weak") || accept(ps, ".extern"))
    external = true;
  if (accept(ps, ".entry")) {
    function(ps, true);
  } else if (accept(ps, ".func")) {
    function(ps, false);
  } else if (accept(ps, ".global") || accept(ps, ".const")) {
    struct ptx_variable v = variable(ps, PTX_GLOBAL, &end);
    expect(ps, ";");
    TT_PUSH(ps->variables, v);
  } else if (external && accept(ps, ".shared")) {
    struct ptx_variable v = variable(ps, PTX_SHARED, &end);
    expect(ps, ";");
    ps->dynamic |= v.dynamic;
    TT_PUSH(ps->variables, v);
  } else if (accept(ps, ".version") || accept(ps, ".target") ||
             accept(ps, ".address_size")) {
    skip_line(ps);
  } else {
    fail(ps, "not understood");
  }
}

struct ptx_module *
ptx_parse(struct tt_arena *arena, const char *text, const char **error)
{
  struct parser ps = {.arena = arena, .p = text};
  blanks(&ps);
  while (!ps.error && *ps.p) {
    toplevel(&ps);
    blanks(&ps);
  }
  struct ptx_module *m = TT_NEW(arena, struct ptx_module);
  m->nfunctions = ps.functions.n;
  m->functions =
      kept(&ps, ps.functions.items, m->nfunctions, sizeof *m->functions);
  m->nvariables = ps.variables.n;
  m->variables =
      kept(&ps, ps.variables.items, m->nvariables, sizeof *m->variables);
  m->dynamic = ps.dynamic;
  free(ps.functions.items);
  free(ps.variables.items);
  free(ps.registers.items);
  free(ps.own.items);
  free(ps.labels.items);
  free(ps.code.items);
  *error = ps.error;
  return ps.error ? NULL : m;
}

const struct ptx_function *
ptx_function(const struct ptx_module *m, const char *name)
{
  for (int i = 0; i < m->nfunctions; i++)
    if (strcmp(m->functions[i].name, name) == 0)
      return &m->functions[i];
  return NULL;
}
