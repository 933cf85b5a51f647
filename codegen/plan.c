/* Memory of the emitted functions: workspace, stack, prepared weights.
 *
 * TT_TEMPs live from the first to the last top-level statement that uses
 * them and share space when these ranges do not meet.  Locals are laid out
 * above them like a stack, following the nesting of TT_ALLOC.  A local of a
 * parallel loop is on the stack if it is small, else in a frame that every
 * iteration has for itself.
 */
#include "config.h"

#include "codegen/plan.h"

#include <stdlib.h>

enum { ALIGN = 64 };
static const int64_t SMALL = 16 << 10;    /* fits any thread's stack */
static const int64_t MAX_STACK = 1 << 20; /* --workspace=stack */
static const int64_t MAX_BYTES = INT64_C(1) << 40;

static int64_t
aligned(int64_t bytes)
{
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

/* Saturates at MAX_BYTES + 1, which no plan may reach. */
static int64_t
bytes_of(const struct tt_tensor *t)
{
  int64_t n = tt_tensor_size(t), bytes;
  if (__builtin_mul_overflow(n, (int64_t)tt_dtype_bytes(t->dtype), &bytes) ||
      bytes > MAX_BYTES)
    return MAX_BYTES + 1;
  return aligned(bytes);
}

/* ---- locals ----------------------------------------------------------- */

struct walk {
  struct layout *layout;
  const struct tt_var *var; /* of the parallel loop around; NULL: none */
};

static int64_t
max64(int64_t a, int64_t b)
{
  return a > b ? a : b;
}

static void place_locals(struct walk *w, const struct tt_stmt *s, int64_t at,
                         int64_t stack);

/* Iterations of a parallel loop run at the same time, each at another place
 * of its body: each has a frame of its own, in which the locals of the body
 * lie like a stack.  (A copy of each local an iteration would let locals that
 * take turns in one iteration meet those of another.) */
static void
place_frame(struct walk *w, const struct tt_stmt *loop, int64_t at,
            int64_t stack)
{
  struct layout *l = w->layout;
  struct walk inner = {l, loop->var};
  int first = l->n;
  int64_t around = l->workspace, frame, all;
  l->workspace = 0;
  place_locals(&inner, loop->body, 0, stack);
  frame = l->workspace;
  for (int i = first; i < l->n; i++)
    if (l->items[i].var) {
      l->items[i].offset += at;
      l->items[i].stride = frame;
    }
  if (__builtin_mul_overflow(frame, loop->var->extent, &all) ||
      __builtin_add_overflow(all, at, &all))
    all = MAX_BYTES + 1;
  l->workspace = max64(around, all);
}

/* `at`, `stack`: bytes in use around the statement. */
static void
place_locals(struct walk *w, const struct tt_stmt *s, int64_t at, int64_t stack)
{
  struct layout *l = w->layout;
  l->workspace = max64(l->workspace, at);
  l->stack = max64(l->stack, stack);
  if (at > MAX_BYTES)
    return;
  switch (s->kind) {
  case TT_STORE:
  case TT_PREFETCH:
    return;
  case TT_SEQ:
    for (int i = 0; i < s->nitems; i++)
      place_locals(w, s->items[i], at, stack);
    return;
  case TT_IF:
    place_locals(w, s->body, at, stack);
    if (s->other)
      place_locals(w, s->other, at, stack);
    return;
  case TT_INTRIN:
    place_locals(w, s->body, at, stack);
    return;
  case TT_FOR:
    if (s->for_kind == TT_PARALLEL && !w->var)
      place_frame(w, s, at, stack);
    else
      place_locals(w, s->body, at, stack);
    return;
  case TT_ALLOC: {
    const struct tt_tensor *t = s->tensor;
    int64_t bytes = bytes_of(t);
    struct place p = {.tensor = t, .offset = at};
    if (t->scope == TT_REGISTER) {
      place_locals(w, s->body, at, stack);
      return;
    }
    p.stack =
        t->fragment || (bytes <= SMALL && (t->scope == TT_STACK || w->var));
    if (!p.stack)
      p.var = w->var;
    TT_PUSH(*l, p);
    place_locals(w, s->body, p.stack ? at : at + bytes,
                 p.stack ? stack + bytes : stack);
    return;
  }
  }
}

/* ---- temporaries ------------------------------------------------------ */

struct life {
  const struct tt_tensor *tensor;
  int first, last; /* -1: unused */
  int64_t offset;
};

struct lives {
  struct life *items; /* by tensor id */
  int n;
  int now;
};

static void
touch(struct lives *l, const struct tt_tensor *t)
{
  if (t->role != TT_TEMP || t->id < 0 || t->id >= l->n)
    return;
  struct life *f = &l->items[t->id];
  f->tensor = t;
  if (f->first < 0)
    f->first = l->now;
  f->last = l->now;
}

static void
touch_load(void *ctx, const struct tt_expr *e)
{
  if (e->kind == TT_LOAD)
    touch(ctx, e->tensor);
}

static void
touch_expr(void *ctx, const struct tt_expr *e)
{
  tt_expr_visit(e, touch_load, ctx);
}

static void
touch_stmt(void *ctx, const struct tt_stmt *s)
{
  if (s->kind == TT_STORE || s->kind == TT_PREFETCH)
    touch(ctx, s->tensor);
  tt_own_exprs(s, touch_expr, ctx);
}

/* Free ranges of the workspace below `end`, sorted by offset. */
struct range {
  int64_t lo, hi;
};
struct ranges {
  struct range *items;
  int n, cap;
  int64_t end;
};

static int64_t
take(struct ranges *r, int64_t bytes)
{
  for (int i = 0; i < r->n; i++) {
    int64_t at = r->items[i].lo;
    if (r->items[i].hi - at < bytes)
      continue;
    r->items[i].lo += bytes;
    return at;
  }
  int64_t at = r->end;
  if (r->n > 0 && r->items[r->n - 1].hi == r->end) {
    at = r->items[r->n - 1].lo;
    r->n--;
  }
  r->end = at + bytes;
  return at;
}

static void
give(struct ranges *r, int64_t lo, int64_t hi)
{
  struct range new = {lo, hi};
  int n = 0;
  TT_PUSH(*r, new);
  for (int i = r->n - 1; i > 0 && r->items[i - 1].lo > lo; i--) {
    r->items[i] = r->items[i - 1];
    r->items[i - 1] = new;
  }
  for (int i = 0; i < r->n; i++) {
    if (r->items[i].lo == r->items[i].hi)
      continue;
    if (n > 0 && r->items[n - 1].hi == r->items[i].lo)
      r->items[n - 1].hi = r->items[i].hi;
    else
      r->items[n++] = r->items[i];
  }
  r->n = n;
}

static int
by_first(const void *x, const void *y)
{
  const struct life *a = *(struct life *const *)x;
  const struct life *b = *(struct life *const *)y;
  return a->first != b->first ? a->first - b->first
                              : a->tensor->id - b->tensor->id;
}

static int
by_last(const void *x, const void *y)
{
  const struct life *a = *(struct life *const *)x;
  const struct life *b = *(struct life *const *)y;
  return a->last != b->last ? a->last - b->last : a->tensor->id - b->tensor->id;
}

static int64_t
place_temps(struct tt_arena *arena, struct layout *layout,
            const struct tt_program *program, const struct tt_stmt *s)
{
  struct lives l = {.n = program->ntensors};
  l.items = TT_ARRAY(arena, struct life, (size_t)l.n + 1);
  for (int i = 0; i < l.n; i++)
    l.items[i].first = -1;
  if (s->kind == TT_SEQ) {
    for (int i = 0; i < s->nitems; i++, l.now++)
      tt_walk(s->items[i], touch_stmt, &l);
  } else {
    tt_walk(s, touch_stmt, &l);
  }
  struct life **start = TT_ARRAY(arena, struct life *, (size_t)l.n + 1);
  struct life **end = TT_ARRAY(arena, struct life *, (size_t)l.n + 1);
  int n = 0;
  for (int i = 0; i < l.n; i++)
    if (l.items[i].first >= 0) {
      start[n] = end[n] = &l.items[i];
      n++;
    }
  qsort(start, (size_t)n, sizeof *start, by_first);
  qsort(end, (size_t)n, sizeof *end, by_last);
  struct ranges free_ranges = {0};
  for (int i = 0, j = 0; i < n; i++) {
    for (; end[j]->last < start[i]->first; j++)
      give(&free_ranges, end[j]->offset,
           end[j]->offset + bytes_of(end[j]->tensor));
    start[i]->offset = take(&free_ranges, bytes_of(start[i]->tensor));
    struct place p = {.tensor = start[i]->tensor, .offset = start[i]->offset};
    TT_PUSH(*layout, p);
    if (free_ranges.end > MAX_BYTES)
      break;
  }
  free(free_ranges.items);
  return free_ranges.end;
}

/* ---- all -------------------------------------------------------------- */

static int
by_tensor(const void *x, const void *y)
{
  const struct tt_tensor *a = ((const struct place *)x)->tensor;
  const struct tt_tensor *b = ((const struct place *)y)->tensor;
  return a < b ? -1 : a > b;
}

static void
finish_layout(struct tt_arena *arena, struct layout *l)
{
  struct place *items = l->items;
  l->items = TT_ARRAY(arena, struct place, (size_t)l->n + 1);
  for (int i = 0; i < l->n; i++)
    l->items[i] = items[i];
  free(items);
  qsort(l->items, (size_t)l->n, sizeof *l->items, by_tensor);
}

static void
lay_out(struct tt_arena *arena, struct layout *l,
        const struct tt_program *program, const struct tt_stmt *s)
{
  struct walk w = {l, NULL};
  place_locals(&w, s, place_temps(arena, l, program, s), 0);
  finish_layout(arena, l);
}

static void
place_automatic(void *ctx, const struct tt_stmt *s)
{
  struct layout *l = ctx;
  if (s->kind == TT_ALLOC && s->tensor->scope != TT_REGISTER)
    TT_PUSH(*l, ((struct place){.tensor = s->tensor, .stack = true}));
}

void
tt_plan_automatic(struct tt_arena *arena, const struct tt_stmt *s,
                  struct layout *l)
{
  *l = (struct layout){0};
  tt_walk(s, place_automatic, l);
  finish_layout(arena, l);
}

const struct place *
tt_place_of(const struct layout *l, const struct tt_tensor *t)
{
  struct place key = {.tensor = t};
  return l->n ? bsearch(&key, l->items, (size_t)l->n, sizeof key, by_tensor)
              : NULL;
}

const char *
tt_plan(struct tt_arena *arena, const struct tt_nest *nest,
        const struct tt_codegen_options *options, struct plan *plan)
{
  *plan = (struct plan){0};
  lay_out(arena, &plan->body, nest->program, nest->body);
  if (nest->prepare)
    lay_out(arena, &plan->prepare, nest->program, nest->prepare);
  plan->prepared = TT_ARRAY(arena, int64_t, (size_t)nest->nprepared + 1);
  int64_t at = 0;
  for (int i = 0; i < nest->nprepared && at <= MAX_BYTES; i++) {
    plan->prepared[i] = at;
    at += bytes_of(nest->prepared[i]);
  }
  /* Static memory serves both functions; otherwise preparing works in the
   * same block as its results. */
  plan->scratch = at;
  struct tt_code_sizes *z = &plan->sizes;
  z->workspace_bytes = plan->body.workspace;
  if (options->workspace == TT_WS_STATIC)
    z->workspace_bytes = max64(z->workspace_bytes, plan->prepare.workspace);
  else
    at += plan->prepare.workspace;
  z->prepared_bytes = at;
  z->stack_bytes = max64(plan->body.stack, plan->prepare.stack);
  if (z->workspace_bytes > MAX_BYTES || at > MAX_BYTES ||
      z->stack_bytes > MAX_BYTES)
    return "the workspace is larger than a tebibyte";
  if (options->workspace == TT_WS_STACK) {
    if (z->workspace_bytes > MAX_STACK)
      return tt_arena_printf(arena,
                             "a workspace of %lld bytes is too large for "
                             "the stack (the limit is %lld)",
                             (long long)z->workspace_bytes,
                             (long long)MAX_STACK);
    z->stack_bytes += z->workspace_bytes;
    z->workspace_bytes = 0;
  }
  return NULL;
}
