/* Blocks of threads run: each thread up to where it waits for others.
 *
 * Invariant: a barrier is passed by all threads of the block that have not
 * ended, an instruction of a warp by all its 32 threads at the same place.
 */
#include "config.h"

#include "tests/ptx_internal.h"

#include <stdlib.h>
#include <string.h>

enum { LANES = 32, MAX_STEPS = 100000000 };

static const char *
describe(struct tt_arena *arena, const char *error, const struct thread *t,
         const struct ptx_instruction *i)
{
  const struct block *b = t->block;
  return tt_arena_printf(arena, "%s, block %d %d %d, thread %d %d %d: %s: %.*s",
                         b->launch->kernel, b->id[0], b->id[1], b->id[2],
                         t->id[0], t->id[1], t->id[2], error,
                         (int)strcspn(i->text, "\n"), i->text);
}

static bool
holds(const struct thread *t, const struct ptx_instruction *i)
{
  return i->guard < 0 || (t->frame.registers[i->guard] & 1) != i->guard_negated;
}

/* Up to the end of the frame's function, or to where the thread waits. */
static const char *
run_thread(struct thread *t, bool inner)
{
  const struct ptx_function *f = t->frame.function;
  for (int64_t steps = 0; steps < MAX_STEPS; steps++) {
    if (t->at >= f->n)
      break;
    const struct ptx_instruction *i = &f->code[t->at];
    const char *error = NULL;
    if (i->warp) {
      if (inner || i->guard >= 0)
        return describe(t->block->arena, "threads wait under a condition", t,
                        i);
      t->state =
          i->words[0][0] == 'b' && !ptx_has(i, "warp") ? AT_BARRIER : AT_WARP;
      return NULL;
    }
    t->at++;
    if (!holds(t, i))
      continue;
    if (i->op == PTX_BRA)
      t->at = i->target;
    else if (i->op == PTX_RET)
      break;
    else
      error = i->fn(t, i);
    if (error)
      return describe(t->block->arena, error, t, i);
  }
  if (!inner)
    t->state = ENDED;
  return NULL;
}

/* call (result), name, (a, b): parameters are variables of the caller. */
const char *
ptx_call(struct thread *t, const struct ptx_instruction *i)
{
  const struct ptx_operand *o = i->operands;
  int k = 0;
  while (k < i->n && o[k].kind != PTX_NAME)
    k++;
  const struct ptx_function *f =
      k < i->n ? ptx_function(t->block->module, o[k].name) : NULL;
  if (!f || f->nresults != k || f->nparams != i->n - k - 1)
    return "a call of another form";
  struct frame outer = t->frame, *inner = &t->frame;
  int at = t->at;
  inner->function = f;
  inner->registers =
      tt_arena_alloc(t->block->arena, (size_t)(f->nregisters + 1) * 8);
  inner->param = tt_arena_alloc(t->block->arena, (size_t)f->param + 16);
  inner->local = tt_arena_alloc(t->block->arena, (size_t)f->local + 16);
  for (int p = 0; p < f->nparams; p++)
    memcpy(inner->param + f->params[p].offset, outer.param + o[k + 1 + p].value,
           (size_t)f->params[p].bytes);
  t->at = 0;
  const char *error = run_thread(t, true);
  for (int p = 0; p < f->nresults; p++)
    memcpy(outer.param + o[p].value, inner->param + f->results[p].offset,
           (size_t)f->results[p].bytes);
  t->frame = outer;
  t->at = at;
  return error;
}

/* ---- blocks ------------------------------------------------------------ */

static const char *
run_threads(struct block *b, struct thread *lanes, int n, bool *any)
{
  const char *error = NULL;
  for (int k = 0; k < n && !error; k++) {
    struct thread *t = &lanes[b->order == PTX_BACKWARD ? n - 1 - k : k];
    if (t->state != RUNS)
      continue;
    *any = true;
    error = run_thread(t, false);
  }
  return error;
}

/* What the threads of a warp wait to do together. */
static const char *
run_together(struct block *b, struct thread *lanes, int n, bool *any)
{
  const struct ptx_instruction *i =
      &b->function->code[lanes->at < b->function->n ? lanes->at : 0];
  for (int k = 0; k < n; k++)
    if (lanes[k].state != AT_WARP || lanes[k].at != lanes->at)
      return NULL;
  if (n < LANES)
    return describe(b->arena, "a warp is not whole", lanes, i);
  const char *error = ptx_run_warp(lanes, i);
  if (error)
    return describe(b->arena, error, lanes, i);
  for (int k = 0; k < n; k++) {
    lanes[k].at++;
    lanes[k].state = RUNS;
  }
  *any = true;
  return NULL;
}

/* One warp after the other goes as far as it can. */
static const char *
run_warps(struct block *b, bool *any)
{
  int nwarps = (b->nthreads + LANES - 1) / LANES;
  const char *error = NULL;
  for (int k = 0; k < nwarps; k++) {
    int first = (b->order == PTX_BACKWARD ? nwarps - 1 - k : k) * LANES;
    int n = b->nthreads - first < LANES ? b->nthreads - first : LANES;
    bool more;
    do {
      more = false;
      error = run_threads(b, &b->threads[first], n, &more);
      if (!error)
        error = run_together(b, &b->threads[first], n, &more);
      *any |= more;
    } while (more && !error);
    if (error)
      return error;
  }
  return NULL;
}

static void
pass_barrier(struct block *b, bool *any)
{
  int waiting = 0, ended = 0;
  for (int k = 0; k < b->nthreads; k++) {
    waiting += b->threads[k].state == AT_BARRIER;
    ended += b->threads[k].state == ENDED;
  }
  if (waiting == 0 || waiting + ended < b->nthreads)
    return;
  for (int k = 0; k < b->nthreads; k++)
    if (b->threads[k].state == AT_BARRIER) {
      b->threads[k].at++;
      b->threads[k].state = RUNS;
    }
  *any = true;
}

static void
begin_thread(struct block *b, struct thread *t, int number)
{
  const int64_t *size = b->launch->block;
  const struct ptx_function *f = b->function;
  struct frame frame = t->frame;
  free(t->copies.items);
  memset(t, 0, sizeof *t);
  t->block = b;
  t->number = number;
  t->id[0] = (int)(number % size[0]);
  t->id[1] = (int)(number / size[0] % size[1]);
  t->id[2] = (int)(number / size[0] / size[1]);
  if (!frame.registers) {
    frame.function = f;
    frame.registers = tt_arena_alloc(b->arena, (size_t)(f->nregisters + 1) * 8);
    frame.param = tt_arena_alloc(b->arena, (size_t)f->param + 16);
    frame.local = tt_arena_alloc(b->arena, (size_t)f->local + 16);
  }
  /* What is not set before it is used shows. */
  memset(frame.registers, 0xa5, (size_t)f->nregisters * 8);
  memset(frame.local, 0xa5, (size_t)f->local);
  for (int i = 0; i < f->nparams; i++) {
    uint64_t address = (uint64_t)(uintptr_t)b->launch->args[i].data;
    memcpy(frame.param + f->params[i].offset, &address, sizeof address);
  }
  t->frame = frame;
}

static const char *
run_block(struct block *b)
{
  memset(b->shared.data, 0xa5, (size_t)b->shared.bytes);
  for (int i = 0; i < b->nthreads; i++)
    begin_thread(b, &b->threads[i], i);
  for (;;) {
    bool any = false, all = true;
    const char *error = run_warps(b, &any);
    if (error)
      return error;
    pass_barrier(b, &any);
    for (int i = 0; i < b->nthreads; i++)
      all &= b->threads[i].state == ENDED;
    if (all)
      break;
    if (!any)
      return describe(b->arena, "threads wait at different places", b->threads,
                      &b->function->code[b->threads->at]);
  }
  for (int i = 0; i < b->nthreads; i++)
    if (b->threads[i].copies.n > 0)
      return describe(b->arena, "copies that nobody waited for", &b->threads[i],
                      &b->function->code[0]);
  return NULL;
}

const char *
ptx_run(struct tt_arena *arena, const struct ptx_module *m,
        const struct ptx_launch *l, enum ptx_order order)
{
  const struct ptx_function *f = ptx_function(m, l->kernel);
  const char *error = NULL;
  if (!f || !f->entry)
    return tt_arena_printf(arena, "there is no kernel %s", l->kernel);
  if (f->nparams != l->nargs)
    return tt_arena_printf(arena, "%s has %d parameters", l->kernel,
                           f->nparams);
  /* Dynamic memory begins where any type may. */
  int64_t fixed = l->shared > 0 ? (f->shared + 1023) / 1024 * 1024 : f->shared;
  struct tt_arena *scratch = tt_arena_new();
  struct block b = {.arena = scratch,
                    .module = m,
                    .launch = l,
                    .function = f,
                    .order = order};
  b.nthreads = (int)(l->block[0] * l->block[1] * l->block[2]);
  b.threads = TT_ARRAY(scratch, struct thread, (size_t)b.nthreads);
  b.shared.bytes = fixed + l->shared;
  /* (Generic addresses are aligned as offsets are.) */
  char *raw = tt_arena_alloc(scratch, (size_t)b.shared.bytes + 2048);
  b.shared.data = (uint8_t *)raw + (1024 - (uintptr_t)raw % 1024) % 1024;
  for (int64_t n = 0; n < l->grid[0] * l->grid[1] * l->grid[2] && !error; n++) {
    b.id[0] = (int)(n % l->grid[0]);
    b.id[1] = (int)(n / l->grid[0] % l->grid[1]);
    b.id[2] = (int)(n / l->grid[0] / l->grid[1]);
    error = run_block(&b);
  }
  for (int i = 0; i < b.nthreads; i++)
    free(b.threads[i].copies.items);
  if (error)
    error = tt_arena_strdup(arena, error);
  tt_arena_free(scratch);
  return error;
}
