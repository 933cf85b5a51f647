/* Where the threads of a block wait for each other.
 *
 * A phase may not begin before all threads have done what was written or read
 * since they last waited, if it reads or overwrites that.  What each thread
 * has for itself does not count, nor does memory that the kernel only reads, or
 * only writes at places that do not meet: one place writes an element by one
 * thread.  Of a ring of copies, those
 * that a loop's iterations use are told apart: slot (k + c) % n is c slots
 * from that of iteration k, and one nearer in the next one.
 *
 * A place where nothing would be missed without it is none.  Asynchronous
 * copies come in groups, one a phase; a wait says how many of the last ones may
 * still be on their way.
 */
#include "config.h"

#include "codegen/gpu.h"
#include "ir/passes.h"

#include <stdlib.h>

enum { LANDED = -1, MOST_GROUPS = TT_GPU_NO_GROUPS };

struct touched {
  bool read, written;
  int groups; /* begun since that of an asynchronous copy to it, or LANDED */
};

/* A tensor that counts: what the kernel does with it, and where its slots are
 * in a state. */
struct counted {
  const struct tt_tensor *tensor;
  bool read, written;
  const struct tt_var *var; /* of the loop that goes round; NULL: none */
  int first, n;
};

struct state {
  int n;
  struct touched *items;
};

struct places {
  struct tt_arena *arena;
  struct gpu_barriers *out;
  const struct gpu_barrier *without; /* is not there */
  bool checking;                     /* places are not added */
  bool missing;                      /* one that is needed */
  int nslots;
  TT_VEC(struct counted) all;
};

static bool
is_own(const struct tt_tensor *t)
{
  return t->role == TT_LOCAL && t->scope != TT_SHARED;
}

static const struct counted *
find(const struct places *p, const struct tt_tensor *t)
{
  for (int i = 0; i < p->all.n; i++)
    if (p->all.items[i].tensor == t)
      return &p->all.items[i];
  return NULL;
}

/* ---- slots of a ring ---------------------------------------------------- */

/* The slot is (var + *slot) % n; with var NULL, *slot itself.  false: it is
 * something else. */
static bool
slot_of(struct tt_arena *ar, const struct access *a, const struct tt_var **var,
        int *slot)
{
  int64_t n = a->tensor->staging.ring;
  const struct tt_expr *e = a->idx[0];
  if (e->kind == TT_BINARY && e->op == TT_MOD && tt_is_int(e->b, n))
    e = e->a;
  if (e->type.lanes > 1)
    return false;
  struct tt_affine f = tt_affine_of(ar, e);
  *var = NULL;
  for (int i = 0; i < f.n; i++) {
    int64_t coef = (f.coef[i] % n + n) % n;
    if (coef == 0)
      continue;
    if (coef != 1 || *var || f.term[i]->kind != TT_VAR)
      return false;
    *var = f.term[i]->var;
  }
  *slot = (int)((f.c0 % n + n) % n);
  return true;
}

/* A ring goes round with one loop, or its slots are not told apart. */
static void
find_ring(struct places *p, struct counted *c, const struct accesses *all)
{
  c->n = c->tensor->staging.ring > 1 ? c->tensor->staging.ring : 1;
  for (int i = 0; i < all->n && c->n > 1; i++) {
    const struct tt_var *var;
    int slot;
    if (all->items[i].tensor != c->tensor)
      continue;
    if (!slot_of(p->arena, &all->items[i], &var, &slot) ||
        (var && c->var && var != c->var))
      c->n = 1;
    else if (var)
      c->var = var;
  }
  if (c->n == 1)
    c->var = NULL;
  c->first = p->nslots;
  p->nslots += c->n;
}

/* The slots of an access; `inside` the loop that goes round. */
static void
slots_of(const struct places *p, const struct counted *c,
         const struct access *a, bool inside, int *first, int *n)
{
  const struct tt_var *var;
  int slot;
  *first = c->first;
  *n = c->n;
  if (c->n == 1 || !slot_of(p->arena, a, &var, &slot) ||
      inside != (var != NULL))
    return; /* any of them */
  *first = c->first + slot;
  *n = 1;
}

/* The same slots as the loop's next iteration sees them. */
static void
go_round(const struct places *p, const struct tt_var *var, struct state *st)
{
  for (int i = 0; i < p->all.n; i++) {
    const struct counted *c = &p->all.items[i];
    if (c->n == 1 || c->var != var)
      continue;
    struct touched first = st->items[c->first];
    for (int k = 0; k + 1 < c->n; k++)
      st->items[c->first + k] = st->items[c->first + k + 1];
    st->items[c->first + c->n - 1] = first;
  }
}

static bool
join_one(struct touched *a, const struct touched *b)
{
  struct touched old = *a;
  a->read |= b->read;
  a->written |= b->written;
  if (b->groups != LANDED && (a->groups == LANDED || b->groups < a->groups))
    a->groups = b->groups;
  return a->read != old.read || a->written != old.written ||
         a->groups != old.groups;
}

/* After the loop nobody knows which slot was which. */
static void
blur(const struct places *p, const struct tt_var *var, struct state *st)
{
  for (int i = 0; i < p->all.n; i++) {
    const struct counted *c = &p->all.items[i];
    for (int k = 1; c->var == var && k < c->n; k++)
      join_one(&st->items[c->first], &st->items[c->first + k]);
    for (int k = 1; c->var == var && k < c->n; k++)
      st->items[c->first + k] = st->items[c->first];
  }
}

/* May both write the same element? */
static bool
may_meet(const struct access *a, const struct access *b)
{
  for (int d = 0; d < a->n; d++) {
    struct tt_interval x = tt_bounds(a->idx[d], NULL),
                       y = tt_bounds(b->idx[d], NULL);
    if (x.ok && y.ok && (x.hi < y.lo || y.hi < x.lo))
      return false;
  }
  return true;
}

/* The tensor is only written: by one place, or by some that do not meet? */
static bool
is_written_once(const struct accesses *all, const struct tt_tensor *t)
{
  for (int i = 0; i < all->n; i++)
    for (int j = 0; j < i && all->items[i].tensor == t; j++)
      if (all->items[j].tensor == t && may_meet(&all->items[i], &all->items[j]))
        return false;
  return true;
}

static void
collect(struct places *p, const struct tt_stmt *s)
{
  struct accesses all = {0};
  int n = 0;
  tt_collect_accesses(s, &all);
  for (int i = 0; i < all.n; i++) {
    const struct access *a = &all.items[i];
    struct counted *c = (struct counted *)find(p, a->tensor);
    if (is_own(a->tensor))
      continue;
    if (!c) {
      TT_PUSH(p->all, ((struct counted){.tensor = a->tensor}));
      c = &p->all.items[p->all.n - 1];
    }
    c->read |= !a->store;
    c->written |= a->store;
  }
  for (int i = 0; i < p->all.n; i++) {
    const struct counted *c = &p->all.items[i];
    if (c->written && (c->read || !is_written_once(&all, c->tensor)))
      p->all.items[n++] = *c;
  }
  p->all.n = n;
  for (int i = 0; i < n; i++)
    find_ring(p, &p->all.items[i], &all);
  free(all.items);
}

/* ---- waiting ------------------------------------------------------------ */

static struct gpu_barrier *
barrier_at(const struct places *p, const struct tt_stmt *s)
{
  for (int i = 0; i < p->out->n; i++)
    if (p->out->items[i].before == s && &p->out->items[i] != p->without)
      return &p->out->items[i];
  return NULL;
}

static void
all_wait(struct state *st, int groups)
{
  for (int i = 0; i < st->n; i++) {
    struct touched *t = &st->items[i];
    t->read = t->written = false;
    if (t->groups >= groups)
      t->groups = LANDED;
  }
}

/* Does the access meet what has been done since the threads last waited? */
static bool
meets(const struct touched *t, bool store)
{
  return t->written || (store && t->read);
}

struct walk {
  struct places *p;
  struct state *st;
  const struct tt_var *loops[TT_MAX_DIMS]; /* around, innermost last */
  int nloops;
};

static bool
goes_round(const struct walk *w, const struct counted *c)
{
  bool inside = false;
  for (int i = 0; i < w->nloops; i++)
    inside |= w->loops[i] == c->var;
  return inside && c->var;
}

typedef void touch_fn(struct walk *, struct touched *, const struct access *,
                      void *ctx);

static void
each_touched(struct walk *w, const struct accesses *all, touch_fn *fn,
             void *ctx)
{
  for (int i = 0; i < all->n; i++) {
    const struct counted *c = find(w->p, all->items[i].tensor);
    int first, n;
    if (!c)
      continue;
    slots_of(w->p, c, &all->items[i], goes_round(w, c), &first, &n);
    for (int k = first; k < first + n; k++)
      fn(w, &w->st->items[k], &all->items[i], ctx);
  }
}

struct need {
  bool wait, global;
};

static void
note_need(struct walk *w, struct touched *t, const struct access *a, void *ctx)
{
  struct need *need = ctx;
  bool met = meets(t, a->store);
  need->wait |= met;
  need->global |= met && a->tensor->role != TT_LOCAL;
  if (t->groups != LANDED)
    w->p->missing = true; /* it is not there yet */
}

static void
note_touch(struct walk *w, struct touched *t, const struct access *a, void *ctx)
{
  bool *copies = ctx;
  (void)w;
  t->read |= !a->store;
  t->written |= a->store;
  *copies |= a->store && a->tensor->staging.async;
}

static void
begin_group(struct walk *w, struct touched *t, const struct access *a,
            void *ctx)
{
  (void)w;
  (void)ctx;
  if (a->store && a->tensor->staging.async)
    t->groups = 0;
}

/* The accesses `all` happen, before `s` is over. */
static void
happen(struct walk *w, const struct accesses *all, const struct tt_stmt *s)
{
  struct places *p = w->p;
  struct need need = {false, false};
  struct gpu_barrier *b = barrier_at(p, s);
  bool copies = false;
  if (b)
    all_wait(w->st, b->groups);
  each_touched(w, all, note_need, &need);
  if (b)
    b->global |= need.global;
  if (need.wait && p->checking)
    p->missing = true;
  if (need.wait && !p->checking) {
    TT_PUSH(*p->out, ((struct gpu_barrier){s, need.global, 0}));
    all_wait(w->st, 0);
  }
  each_touched(w, all, note_touch, &copies);
  for (int i = 0; copies && i < w->st->n; i++)
    if (w->st->items[i].groups != LANDED &&
        w->st->items[i].groups < MOST_GROUPS - 1)
      w->st->items[i].groups++;
  if (copies)
    each_touched(w, all, begin_group, NULL);
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
  for (int i = 0; i < a->n; i++)
    more |= join_one(&a->items[i], &b->items[i]);
  return more;
}

static void walk(struct walk *w, const struct tt_stmt *s);

/* A loop that all threads run: what is touched at its end meets its start. */
static void
walk_loop(struct walk *w, const struct tt_stmt *s)
{
  struct state *st = w->st;
  bool deep = w->nloops < TT_MAX_DIMS;
  if (deep)
    w->loops[w->nloops++] = s->var;
  for (bool more = true; more;) {
    struct state end = copy_state(st), last;
    w->st = &end;
    walk(w, s->body);
    last = copy_state(&end);
    go_round(w->p, s->var, &end);
    more = join(st, &end);
    free(end.items);
    if (!more)
      *st = (free(st->items), last);
    else
      free(last.items);
  }
  w->nloops -= deep;
  w->st = st;
  blur(w->p, s->var, st);
}

static void
walk_if(struct walk *w, const struct tt_stmt *s)
{
  struct accesses all = {0};
  struct tt_stmt cond = *s;
  struct tt_stmt nothing = {.kind = TT_SEQ};
  cond.body = &nothing;
  cond.other = NULL;
  tt_collect_accesses(&cond, &all);
  happen(w, &all, s);
  free(all.items);
  struct state other = copy_state(w->st), *st = w->st;
  walk(w, s->body);
  w->st = &other;
  if (s->other)
    walk(w, s->other);
  w->st = st;
  join(st, &other);
  free(other.items);
}

static void
walk(struct walk *w, const struct tt_stmt *s)
{
  bool phases = tt_gpu_has(s, TT_THREAD_X, TT_THREAD_Z) &&
                !(s->kind == TT_FOR && tt_is_thread(s->for_kind));
  if (!phases) {
    struct accesses all = {0};
    tt_collect_accesses(s, &all);
    happen(w, &all, s);
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
      walk(w, s->items[i]);
    break;
  case TT_IF:
    walk_if(w, s);
    break;
  case TT_FOR:
    if (tt_is_block(s->for_kind))
      walk(w, s->body);
    else
      walk_loop(w, s);
    break;
  case TT_ALLOC:
    walk(w, s->body);
    break;
  }
}

static void
walk_kernel(struct places *p, const struct tt_stmt *s)
{
  struct state st = {p->nslots, NULL};
  struct walk w = {.p = p, .st = &st};
  st.items = malloc(((size_t)p->nslots + 1) * sizeof *st.items);
  if (!st.items)
    abort();
  for (int i = 0; i < p->nslots; i++)
    st.items[i] = (struct touched){false, false, LANDED};
  p->missing = false;
  walk(&w, s);
  free(st.items);
}

static bool
suffices(struct places *p, const struct tt_stmt *s,
         const struct gpu_barrier *without)
{
  p->checking = true;
  p->without = without;
  walk_kernel(p, s);
  p->without = NULL;
  return !p->missing;
}

bool
tt_gpu_barriers_suffice(struct tt_arena *arena, const struct tt_stmt *s,
                        const struct gpu_barriers *barriers,
                        const struct gpu_barrier *without)
{
  struct gpu_barriers copy = *barriers;
  struct places p = {.arena = arena, .out = &copy};
  collect(&p, s);
  bool ok = suffices(&p, s, without);
  free(p.all.items);
  return ok;
}

/* Those found on the way to what holds in all iterations may be none. */
static void
drop_needless(struct places *p, const struct tt_stmt *s)
{
  struct gpu_barriers *b = p->out;
  for (int i = b->n - 1; i >= 0; i--) {
    if (!suffices(p, s, &b->items[i]))
      continue;
    for (int k = i; k + 1 < b->n; k++)
      b->items[k] = b->items[k + 1];
    b->n--;
  }
}

static void
leave_on_the_way(struct places *p, const struct tt_stmt *s)
{
  struct gpu_barriers *b = p->out;
  bool any = false;
  for (int i = 0; i < p->all.n; i++)
    any |= p->all.items[i].tensor->staging.async;
  for (int i = 0; i < b->n; i++) {
    int *groups = &b->items[i].groups;
    if (!any)
      *groups = MOST_GROUPS;
    while (*groups < MOST_GROUPS) {
      ++*groups;
      if (suffices(p, s, NULL))
        continue;
      --*groups;
      break;
    }
  }
}

void
tt_gpu_barriers(struct tt_arena *arena, const struct tt_stmt *s,
                struct gpu_barriers *out)
{
  struct places p = {.arena = arena, .out = out};
  collect(&p, s);
  walk_kernel(&p, s);
  drop_needless(&p, s);
  leave_on_the_way(&p, s);
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
