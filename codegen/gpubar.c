/* Where the threads of a block wait for each other.
 *
 * A phase may not begin before all threads have done what was written or read
 * since they last waited, if it reads or overwrites that.  What each thread
 * has for itself does not count, nor does memory that the kernel only reads or
 * only writes: no two threads write one element.
 */
#include "config.h"

#include "codegen/gpu.h"

#include <stdlib.h>

struct touched {
  const struct tt_tensor *tensor;
  bool read, written;
};

struct state {
  int n; /* as many as `all` */
  struct touched *items;
};

struct places {
  struct gpu_barriers *out;
  TT_VEC(struct touched) all; /* tensors that count, what the kernel does */
};

static bool
is_own(const struct tt_tensor *t)
{
  return t->role == TT_LOCAL && t->scope != TT_SHARED;
}

static int
find(const struct places *p, const struct tt_tensor *t)
{
  for (int i = 0; i < p->all.n; i++)
    if (p->all.items[i].tensor == t)
      return i;
  return -1;
}

static void
collect(struct places *p, const struct tt_stmt *s)
{
  struct accesses all = {0};
  int n = 0;
  tt_collect_accesses(s, &all);
  for (int i = 0; i < all.n; i++) {
    const struct access *a = &all.items[i];
    int k = find(p, a->tensor);
    if (is_own(a->tensor))
      continue;
    if (k < 0) {
      k = p->all.n;
      TT_PUSH(p->all, ((struct touched){a->tensor, false, false}));
    }
    p->all.items[k].read |= !a->store;
    p->all.items[k].written |= a->store;
  }
  free(all.items);
  for (int i = 0; i < p->all.n; i++)
    if (p->all.items[i].read && p->all.items[i].written)
      p->all.items[n++] = p->all.items[i];
  p->all.n = n;
}

static void
wait_before(struct places *p, const struct tt_stmt *s, bool global)
{
  for (int i = 0; i < p->out->n; i++)
    if (p->out->items[i].before == s) {
      p->out->items[i].global |= global;
      return;
    }
  TT_PUSH(*p->out, ((struct gpu_barrier){s, global}));
}

/* The accesses `all` happen, before `s` is over. */
static void
happen(struct places *p, struct state *st, const struct accesses *all,
       const struct tt_stmt *s)
{
  bool wait = false, global = false;
  for (int i = 0; i < all->n; i++) {
    int k = find(p, all->items[i].tensor);
    if (k < 0)
      continue;
    bool meets =
        st->items[k].written || (all->items[i].store && st->items[k].read);
    wait |= meets;
    global |= meets && all->items[i].tensor->role != TT_LOCAL;
  }
  if (wait) {
    wait_before(p, s, global);
    for (int i = 0; i < st->n; i++)
      st->items[i].read = st->items[i].written = false;
  }
  for (int i = 0; i < all->n; i++) {
    int k = find(p, all->items[i].tensor);
    if (k < 0)
      continue;
    st->items[k].read |= !all->items[i].store;
    st->items[k].written |= all->items[i].store;
  }
}

static struct state
copy_state(const struct state *st)
{
  struct state c = {st->n, NULL};
  c.items = malloc(((size_t)st->n + 1) * sizeof *c.items);
  if (!c.items)
    abort();
  for (int i = 0; i < st->n; i++)
    c.items[i] = st->items[i];
  return c;
}

/* Adds what is touched in `b`; was there more than before? */
static bool
join(struct state *a, const struct state *b)
{
  bool more = false;
  for (int i = 0; i < a->n; i++) {
    more |= (b->items[i].read && !a->items[i].read) ||
            (b->items[i].written && !a->items[i].written);
    a->items[i].read |= b->items[i].read;
    a->items[i].written |= b->items[i].written;
  }
  return more;
}

static void walk(struct places *p, struct state *st, const struct tt_stmt *s);

/* A loop that all threads run: what is touched at its end meets its start. */
static void
walk_loop(struct places *p, struct state *st, const struct tt_stmt *s)
{
  for (bool more = true; more;) {
    struct state end = copy_state(st);
    walk(p, &end, s->body);
    more = join(st, &end);
    if (!more)
      *st = (free(st->items), end);
    else
      free(end.items);
  }
}

static void
walk_if(struct places *p, struct state *st, const struct tt_stmt *s)
{
  struct accesses all = {0};
  struct tt_stmt cond = *s;
  struct tt_stmt nothing = {.kind = TT_SEQ};
  cond.body = &nothing;
  cond.other = NULL;
  tt_collect_accesses(&cond, &all);
  happen(p, st, &all, s);
  free(all.items);
  struct state other = copy_state(st);
  walk(p, st, s->body);
  if (s->other)
    walk(p, &other, s->other);
  join(st, &other);
  free(other.items);
}

static void
walk(struct places *p, struct state *st, const struct tt_stmt *s)
{
  bool phases = tt_gpu_has(s, TT_THREAD_X, TT_THREAD_Z) &&
                !(s->kind == TT_FOR && tt_is_thread(s->for_kind));
  if (!phases) {
    struct accesses all = {0};
    tt_collect_accesses(s, &all);
    happen(p, st, &all, s);
    free(all.items);
    return;
  }
  switch (s->kind) {
  case TT_STORE:
  case TT_PREFETCH:
  case TT_INTRIN: /* has no loops of threads */
    break;
  case TT_SEQ:
    for (int i = 0; i < s->nitems; i++)
      walk(p, st, s->items[i]);
    break;
  case TT_IF:
    walk_if(p, st, s);
    break;
  case TT_FOR:
    if (tt_is_block(s->for_kind))
      walk(p, st, s->body);
    else
      walk_loop(p, st, s);
    break;
  case TT_ALLOC:
    walk(p, st, s->body);
    break;
  }
}

void
tt_gpu_barriers(const struct tt_stmt *s, struct gpu_barriers *out)
{
  struct places p = {.out = out};
  collect(&p, s);
  struct state st = {p.all.n, NULL};
  st.items = calloc((size_t)p.all.n + 1, sizeof *st.items);
  if (!st.items)
    abort();
  walk(&p, &st, s);
  free(st.items);
  free(p.all.items);
}

/* ---- phases ------------------------------------------------------------ */

struct joining {
  struct pass *pass;
  const struct gpu_kernel *k;
  const struct gpu_barriers *barriers;
};

static bool
is_phase(const struct tt_stmt *s)
{
  return s->kind == TT_FOR && tt_is_thread(s->for_kind);
}

static bool
waits(const struct joining *j, const struct tt_stmt *s)
{
  for (int i = 0; i < j->barriers->n; i++)
    if (j->barriers->items[i].before == s)
      return true;
  return false;
}

static const struct tt_stmt *
join_run(struct joining *j, int n, const struct tt_stmt *const *run)
{
  int d = 0;
  while (d < TT_GPU_DIMS - 1 && j->k->block[d] == 1)
    d++;
  const struct tt_var *all = tt_pass_var(j->pass, "all", j->k->block[d]);
  return tt_for(j->pass->arena, (enum tt_for_kind)(TT_THREAD_X + d), 0, all,
                tt_seq(j->pass->arena, n, run));
}

static const struct tt_stmt *
join_phases(void *ctx, const struct tt_stmt *s)
{
  struct joining *j = ctx;
  if (is_phase(s) || s->kind != TT_SEQ)
    return is_phase(s) ? s : tt_map_children(j->pass, s, join_phases, j);
  const struct tt_stmt **items =
      TT_ARRAY(j->pass->arena, const struct tt_stmt *, (size_t)s->nitems + 1);
  int n = 0;
  for (int i = 0, end; i < s->nitems; i = end) {
    for (end = i + 1; is_phase(s->items[i]) && end < s->nitems &&
                      is_phase(s->items[end]) && !waits(j, s->items[end]);
         end++)
      ;
    items[n++] = end > i + 1 ? join_run(j, end - i, s->items + i)
                             : join_phases(j, s->items[i]);
  }
  return tt_seq(j->pass->arena, n, items);
}

const struct tt_stmt *
tt_gpu_join_phases(struct pass *pass, const struct gpu_kernel *k,
                   const struct gpu_barriers *barriers)
{
  struct joining j = {pass, k, barriers};
  return join_phases(&j, k->body);
}
