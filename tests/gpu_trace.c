/* See gpu_trace.h.  Invariant: every thread of the blocks that are looked at
 * does all that the kernel's text says, phase by phase; loops, conditions and
 * indices depend on loop variables alone. */
#include "config.h"

#include "tests/gpu_trace.h"

#include <stdlib.h>
#include <string.h>

enum {
  WARP = 32,
  BANKS = 32,
  WORD = 4,
  LINE = 16,
  ROWS = 8,
  EVERYONE = 1 << 16, /* no thread */
  MAX_VARS = 4096,
  MAX_TENSORS = 64
};

struct element {
  int writer, reader; /* threads, since they last waited; -1: none */
  bool several;       /* more than one reader */
  bool written;       /* ever */
  int group;          /* of an asynchronous copy that has not landed; 0: none */
};

struct memory {
  const struct tt_tensor *tensor;
  struct element *items;
};

/* One access of a thread of the warp: the n-th of a phase. */
struct step {
  int64_t word[WARP]; /* -1: the thread does not take part */
  int words;          /* of one thread */
  bool read;
};

struct trace {
  struct tt_arena *arena;
  const struct gpu_kernel *k;
  const struct gpu_barriers *barriers;
  const char *error;
  int64_t value[MAX_VARS];
  int64_t index[2 * TT_GPU_DIMS];
  int nmemory;
  struct memory memory[MAX_TENSORS];
  int groups; /* begun */
  /* Banks: */
  const char *name; /* NULL: races */
  int nsteps, capsteps, at[WARP];
  struct step *steps;
  struct gpu_steps sum;
};

/* ---- values -------------------------------------------------------------- */

static int64_t
floor_div(int64_t a, int64_t b)
{
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static int64_t eval(struct trace *t, const struct tt_expr *e);

static int64_t
eval_binary(struct trace *t, const struct tt_expr *e)
{
  int64_t a = eval(t, e->a);
  if (e->op == TT_AND || e->op == TT_OR)
    return (e->op == TT_AND) == (a != 0) ? eval(t, e->b) : a != 0;
  int64_t b = eval(t, e->b);
  switch (e->op) {
  case TT_ADD:
    return a + b;
  case TT_SUB:
    return a - b;
  case TT_MUL:
    return a * b;
  case TT_DIV:
    return floor_div(a, b);
  case TT_MOD:
    return a - floor_div(a, b) * b;
  case TT_MIN:
    return a < b ? a : b;
  case TT_MAX:
    return a > b ? a : b;
  case TT_BXOR:
    return a ^ b;
  case TT_EQ:
    return a == b;
  case TT_NE:
    return a != b;
  case TT_LT:
    return a < b;
  case TT_GT:
    return a > b;
  case TT_LE:
    return a <= b;
  case TT_GE:
    return a >= b;
  case TT_AND:
  case TT_OR:
  case TT_BOR:
  case TT_BAND:
  case TT_SHL:
  case TT_SHR:
  case TT_NBINOPS:
    break;
  }
  t->error = "an operator that the trace does not know";
  return 0;
}

static int64_t
eval(struct trace *t, const struct tt_expr *e)
{
  switch (e->kind) {
  case TT_INT:
    return e->ival;
  case TT_VAR:
    return t->value[e->var->id % MAX_VARS];
  case TT_BINARY:
    return eval_binary(t, e);
  case TT_NEG:
    return -eval(t, e->a);
  case TT_NOT:
    return !eval(t, e->a);
  case TT_SELECT:
    return eval(t, e->c) ? eval(t, e->a) : eval(t, e->b);
  case TT_CAST:
  case TT_BROADCAST:
  case TT_RAMP: /* of lane 0 */
    return eval(t, e->a);
  case TT_FLT:
  case TT_LOAD:
  case TT_SAT:
  case TT_CALL:
    break;
  }
  t->error = "an index that the trace cannot follow";
  return 0;
}

/* ---- accesses ------------------------------------------------------------ */

static int
thread_of(const struct trace *t)
{
  const int64_t *i = t->index + TT_GPU_DIMS, *n = t->k->block;
  return (int)((i[2] * n[1] + i[1]) * n[0] + i[0]);
}

static struct element *
elements_of(struct trace *t, const struct tt_tensor *x)
{
  for (int i = 0; i < t->nmemory; i++)
    if (t->memory[i].tensor == x)
      return t->memory[i].items;
  if (t->nmemory == MAX_TENSORS)
    abort();
  size_t n = (size_t)tt_tensor_size(x);
  struct element *e = TT_ARRAY(t->arena, struct element, n);
  for (size_t i = 0; i < n; i++)
    e[i].writer = e[i].reader = -1;
  t->memory[t->nmemory++] = (struct memory){x, e};
  return e;
}

static void
touch(struct trace *t, const struct tt_tensor *x, int64_t at, bool store,
      bool async)
{
  int me = thread_of(t);
  struct element *e = &elements_of(t, x)[at];
  bool other = (e->writer >= 0 && e->writer != me) ||
               (store && e->reader >= 0 && (e->reader != me || e->several));
  const char *what = other                   ? "threads meet"
                     : !store && !e->written ? "nothing was written"
                     : e->group              ? "a copy is not there"
                                             : NULL;
  if (what && !t->error)
    t->error = tt_arena_printf(t->arena, "%s at %s[%lld]", what, x->name,
                               (long long)at);
  if (store) {
    e->writer = me;
    e->written = true;
    e->group = async ? t->groups + 1 : 0;
  } else {
    e->several |= e->reader >= 0 && e->reader != me;
    e->reader = me;
  }
}

static void
note_step(struct trace *t, int64_t at, int lanes, int bytes, bool read)
{
  int me = thread_of(t);
  if (me >= WARP)
    return;
  int n = t->at[me]++;
  if (n == t->capsteps) {
    t->capsteps = t->capsteps ? 2 * t->capsteps : 256;
    t->steps = realloc(t->steps, (size_t)t->capsteps * sizeof *t->steps);
    if (!t->steps)
      abort();
  }
  if (n == t->nsteps) {
    t->nsteps++;
    for (int i = 0; i < WARP; i++)
      t->steps[n].word[i] = -1;
    t->steps[n].words = lanes * bytes / WORD;
    t->steps[n].read = read;
  }
  t->steps[n].word[me] = at * bytes / WORD;
}

/* What a thread reads of 16 bytes that lie together, compilers read at once. */
static void
note_read(struct trace *t, int64_t at, int bytes)
{
  int me = thread_of(t), line = LINE / bytes;
  int64_t word = at / line * LINE / WORD;
  for (int i = 0; me < WARP && i < t->at[me]; i++)
    if (t->steps[i].word[me] == word && t->steps[i].read)
      return;
  note_step(t, at / line * line, line, bytes, true);
}

static void
access_of(struct trace *t, const struct tt_tensor *x, int n,
          const struct tt_expr *const *idx, bool store, bool async)
{
  if (x->role != TT_LOCAL || x->scope != TT_SHARED)
    return;
  int lanes;
  int64_t stride;
  tt_access_shape(x, n, idx, &lanes, &stride);
  int64_t at = eval(t, tt_access_base(t->arena, x, n, idx));
  if (at < 0 || at + (lanes - 1) * stride >= tt_tensor_size(x)) {
    t->error = tt_arena_printf(t->arena, "%s[%lld] is outside of it", x->name,
                               (long long)at);
    return;
  }
  if (!t->name)
    for (int i = 0; i < lanes; i++)
      touch(t, x, at + i * stride, store, async);
  else if (strcmp(t->name, x->name) == 0 && store)
    note_step(t, at, lanes, tt_dtype_bytes(x->dtype), false);
  else if (strcmp(t->name, x->name) == 0)
    note_read(t, at, tt_dtype_bytes(x->dtype));
}

/* What is read of an expression: of a choice, the part that is chosen. */
static void
read_loads(struct trace *t, const struct tt_expr *e)
{
  if (!e)
    return;
  bool logical = e->kind == TT_BINARY && (e->op == TT_AND || e->op == TT_OR);
  if (e->kind == TT_SELECT) {
    read_loads(t, e->c);
    read_loads(t, eval(t, e->c) ? e->a : e->b);
    return;
  }
  read_loads(t, e->a);
  if (!logical || (eval(t, e->a) != 0) == (e->op == TT_AND))
    read_loads(t, e->b);
  read_loads(t, e->c);
  for (int i = 0; i < e->nargs; i++)
    read_loads(t, e->args[i]);
  if (e->kind == TT_LOAD)
    access_of(t, e->tensor, e->nargs, e->args, false, false);
}

/* Steps of some threads of the warp: each bank gives one word at a time. */
static int64_t
steps_of(const struct step *s, int from, int to)
{
  int64_t most = 0;
  for (int bank = 0; bank < BANKS; bank++) {
    int64_t seen[WARP * 4];
    int n = 0;
    for (int i = from; i < to; i++)
      for (int w = 0; w < s->words && s->word[i] >= 0; w++) {
        int64_t word = s->word[i] + w;
        bool found = word % BANKS != bank;
        for (int k = 0; k < n; k++)
          found |= seen[k] == word;
        if (!found)
          seen[n++] = word;
      }
    most = n > most ? n : most;
  }
  return most;
}

/* ---- statements ---------------------------------------------------------- */

static void
wait(struct trace *t, const struct gpu_barrier *b)
{
  for (int i = 0; i < t->nmemory; i++)
    for (int64_t k = 0; k < tt_tensor_size(t->memory[i].tensor); k++) {
      struct element *e = &t->memory[i].items[k];
      e->writer = e->reader = -1;
      e->several = false;
      if (b->groups < TT_GPU_NO_GROUPS && e->group <= t->groups - b->groups)
        e->group = 0;
    }
}

/* An element that any of the threads which execute an instruction may read, or
 * that one of them writes. */
static void
touch_together(struct trace *t, const struct tt_tensor *x, int64_t at,
               bool store)
{
  struct element *e = &elements_of(t, x)[at];
  if (e->writer >= 0)
    e->writer = EVERYONE;
  e->several |= e->reader >= 0;
  touch(t, x, at, store, false);
  e->several = !store;
  if (store)
    e->writer = EVERYONE;
}

/* All elements of operand number `i` of the statement, declared as `o`. */
static void
touch_operand(struct trace *t, const struct tt_stmt *s, int i,
              const struct tt_operand_of *o, const struct tt_expr *place, int d)
{
  if (d == o->tensor->ndim) {
    touch_together(t, s->idx[i]->tensor, eval(t, place),
                   s->op == TT_INTRIN_STORE);
    return;
  }
  const struct tt_var *v = s->vars[o->index[d]];
  for (int64_t k = 0; k < v->extent; k++) {
    t->value[v->id % MAX_VARS] = k;
    touch_operand(t, s, i, o, place, d + 1);
  }
}

/* Tensor cores take operands from shared memory by matrices of ROWS rows of 16
 * bytes, all of one at once: so many threads have the address of a row each. */
static void
note_matrices(struct trace *t, const struct tt_stmt *s, int operand,
              const struct tt_expr *place)
{
  const struct tt_operand_of *o = &s->intrin->operands[operand];
  const struct tt_tensor *x = s->idx[operand]->tensor;
  int bytes = tt_dtype_bytes(x->dtype), chunk = LINE / bytes;
  if (o->tensor->ndim != 2 || strcmp(t->name, x->name) != 0)
    return;
  const struct tt_var *row = s->vars[o->index[0]], *col = s->vars[o->index[1]];
  for (int64_t j = 0; j < col->extent; j += chunk)
    for (int64_t i = 0; i < row->extent; i += ROWS) {
      struct step step = {.words = LINE / WORD};
      t->value[col->id % MAX_VARS] = j;
      for (int k = 0; k < ROWS; k++) {
        t->value[row->id % MAX_VARS] = i + k;
        step.word[k] = eval(t, place) * bytes / WORD;
      }
      t->sum.taken += steps_of(&step, 0, ROWS);
      t->sum.least++;
    }
}

static void
run_instruction(struct trace *t, const struct tt_stmt *s)
{
  const struct tt_intrin *in = s->intrin;
  for (int i = 0; i < s->nidx; i++) {
    const struct tt_expr *e = s->idx[i];
    const struct tt_operand_of *o =
        &in->operands[s->op == TT_INTRIN_EMIT ? i : in->result];
    if (e->tensor->scope != TT_SHARED || thread_of(t) % in->threads)
      continue;
    const struct tt_expr *place =
        tt_access_base(t->arena, e->tensor, e->nargs, e->args);
    if (!t->name)
      touch_operand(t, s, i, o, place, 0);
    else if (thread_of(t) == 0 && s->op == TT_INTRIN_EMIT)
      note_matrices(t, s, i, place);
  }
}

static bool
is_asynchronous(const struct tt_stmt *s)
{
  return s->tensor->staging.async && s->value->kind == TT_LOAD &&
         s->value->tensor->role != TT_LOCAL;
}

static void
find_async(void *ctx, const struct tt_stmt *s)
{
  *(bool *)ctx |= s->kind == TT_STORE && s->tensor->staging.async;
}

/* A warp's vectors are moved as many threads at a time as fill the banks. */
static void
add_steps(struct trace *t)
{
  for (int n = 0; n < t->nsteps; n++) {
    const struct step *s = &t->steps[n];
    int at_once = s->words > 1 ? BANKS / s->words : WARP;
    for (int i = 0; i < WARP; i += at_once) {
      int64_t taken = steps_of(s, i, i + at_once);
      t->sum.taken += taken;
      t->sum.least += taken > 0;
    }
  }
  t->nsteps = 0;
  memset(t->at, 0, sizeof t->at);
}

static void run(struct trace *t, const struct tt_stmt *s, bool phase);

/* Another block begins: what was done before is none of its doing.  (What all
 * of them copy outside of this loop is there.) */
static void
forget(struct trace *t)
{
  const struct gpu_barrier all = {.groups = 0};
  wait(t, &all);
}

/* (Of the blocks in a direction, the first and the last.) */
static void
run_loop(struct trace *t, const struct tt_stmt *s, bool phase)
{
  bool block = tt_is_block(s->for_kind), thread = tt_is_thread(s->for_kind);
  int at = (int)s->for_kind - (int)TT_BLOCK_X;
  int64_t n = s->var->extent;
  for (int64_t i = 0; i < n; i += block && i == 0 && n > 2 ? n - 1 : 1) {
    t->value[s->var->id % MAX_VARS] = i;
    if (block || thread)
      t->index[at] = i;
    if (thread && t->name && thread_of(t) >= WARP)
      break;
    if (block && i > 0)
      forget(t);
    run(t, s->body, phase || thread);
  }
  if (block || thread)
    t->index[at] = 0;
}

static void
run_store(struct trace *t, const struct tt_stmt *s)
{
  read_loads(t, s->value);
  access_of(t, s->tensor, s->nidx, s->idx, true, is_asynchronous(s));
}

static void
run(struct trace *t, const struct tt_stmt *s, bool phase)
{
  bool outer = !phase && s->kind == TT_FOR && tt_is_thread(s->for_kind);
  bool async = false;
  for (int i = 0; i < t->barriers->n; i++)
    if (t->barriers->items[i].before == s)
      wait(t, &t->barriers->items[i]);
  switch (s->kind) {
  case TT_FOR:
    run_loop(t, s, phase);
    break;
  case TT_STORE:
    run_store(t, s);
    break;
  case TT_IF:
    read_loads(t, s->cond);
    if (eval(t, s->cond))
      run(t, s->body, phase);
    else if (s->other)
      run(t, s->other, phase);
    break;
  case TT_SEQ:
    for (int i = 0; i < s->nitems; i++)
      run(t, s->items[i], phase);
    break;
  case TT_ALLOC:
    run(t, s->body, phase);
    break;
  case TT_INTRIN:
    if (s->intrin->threads == 1)
      run(t, s->body, phase);
    else
      run_instruction(t, s);
    break;
  case TT_PREFETCH:
    break;
  }
  if (outer) {
    tt_walk(s, find_async, &async);
    t->groups += async;
    add_steps(t);
  }
}

const char *
gpu_races(struct tt_arena *arena, const struct gpu_kernel *k,
          const struct gpu_barriers *barriers)
{
  struct trace *t = TT_NEW(arena, struct trace);
  t->arena = arena;
  t->k = k;
  t->barriers = barriers;
  run(t, k->body, false);
  return t->error;
}

struct gpu_steps
gpu_bank_steps(struct tt_arena *arena, const struct gpu_kernel *k,
               const char *name)
{
  struct trace *t = TT_NEW(arena, struct trace);
  const struct gpu_barriers none = {0};
  t->arena = arena;
  t->k = k;
  t->barriers = &none;
  t->name = name;
  run(t, k->body, false);
  free(t->steps);
  return t->error ? (struct gpu_steps){0, 0} : t->sum;
}
