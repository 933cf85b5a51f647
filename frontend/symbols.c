/* The table of names.
 *
 * Every declaration of all files is entered before anything is checked, so
 * that a use before the definition, a cycle and a free name can be told
 * apart.  Items are then checked in source order; a symbol is PENDING until
 * its item's turn, ACTIVE during it, DONE or BAD after.
 */
#include "config.h"

#include "frontend/sema.h"

#include <stdlib.h>
#include <string.h>

static size_t
hash(const char *s)
{
  size_t h = 14695981039346656037u;

  for (; *s; s++)
    h = (h ^ (unsigned char)*s) * 1099511628211u;
  return h ^ h >> 29;
}

static struct tt_sym *
find_here(const struct tt_sema *s, const char *name)
{
  struct tt_sym *sym;

  for (sym = s->buckets[hash(name) & (s->nbuckets - 1)]; sym; sym = sym->chain)
    if (strcmp(sym->name, name) == 0)
      return sym;
  return NULL;
}

struct tt_sym *
tt_symbol_find(const struct tt_sema *s, const char *name)
{
  struct tt_sym *sym = find_here(s, name);

  if (sym || !s->outer)
    return sym;
  /* An intrin sees the params, consts, types and defs of its file. */
  sym = tt_symbol_find(s->outer, name);
  return sym && sym->kind != TT_SYM_TENSOR && sym->kind != TT_SYM_STAGE ? sym
                                                                        : NULL;
}

static struct tt_sym *
enter(struct tt_sema *s, const char *name, enum tt_sym_kind kind)
{
  struct tt_sym *sym = TT_NEW(s->arena, struct tt_sym);
  struct tt_sym **bucket = &s->buckets[hash(name) & (s->nbuckets - 1)];

  sym->name = name;
  sym->kind = kind;
  sym->chain = *bucket;
  *bucket = sym;
  return sym;
}

static bool
declares(const struct tt_item *item, enum tt_sym_kind *kind)
{
  switch (item->kind) {
  case TT_ITEM_TYPE:
    *kind = TT_SYM_TYPE;
    return true;
  case TT_ITEM_PARAM:
    *kind = TT_SYM_PARAM;
    return true;
  case TT_ITEM_CONST:
    *kind = item->shape.brackets ? TT_SYM_TABLE : TT_SYM_CONST;
    return true;
  case TT_ITEM_TENSOR:
    *kind = TT_SYM_TENSOR;
    return true;
  case TT_ITEM_DEF:
    *kind = TT_SYM_DEF;
    return true;
  case TT_ITEM_STAGE:
    *kind = TT_SYM_STAGE;
    return true;
  case TT_ITEM_INTRIN:
    *kind = TT_SYM_INTRIN;
    return true;
  case TT_ITEM_KERNEL:
  case TT_ITEM_INCLUDE:
  case TT_ITEM_REQUIRE:
  case TT_ITEM_UPDATE:
  case TT_ITEM_CLAUSE:
  case TT_ITEM_SCHEDULE:
    return false;
  }
  return false;
}

void
tt_symbols_declare(struct tt_sema *s)
{
  enum tt_sym_kind kind;

  for (s->nbuckets = 64; s->nbuckets < 2 * (size_t)s->nitems;)
    s->nbuckets *= 2;
  s->buckets = TT_ARRAY(s->arena, struct tt_sym *, s->nbuckets);
  for (int i = 0; i < s->nitems; i++) {
    const struct tt_item *item = s->items[i];
    struct tt_sym *sym;
    if (!declares(item, &kind))
      continue;
    sym = find_here(s, item->id.name);
    if (!sym) {
      sym = enter(s, item->id.name, kind);
      sym->span = item->id.span;
      sym->item = item;
    }
    if (kind == TT_SYM_STAGE && !sym->stage)
      sym->stage = item;
  }
}

const char *
tt_symbol_generate(struct tt_sema *s, const char *stem)
{
  const char *name = stem;

  for (int n = 2; tt_symbol_find(s, name); n++)
    name = tt_arena_printf(s->arena, "%s_%d", stem, n);
  name = tt_arena_strdup(s->arena, name);
  enter(s, name, TT_SYM_GENERATED)->state = TT_DONE;
  return name;
}

const char *
tt_place_text(struct tt_sema *s, struct tt_span span)
{
  int line, column;

  if (!span.src)
    return "?";
  tt_source_place(span.src, span.lo, &line, &column);
  return tt_arena_printf(s->arena, "%d:%d", line, column);
}

void
tt_note_use(struct tt_sema *s, const struct tt_use *use)
{
  for (int n = 0; use && n < 3; use = use->outer, n++)
    tt_diag_note(s->diags, use->span, "in the expansion of '%s'", use->name);
}

const char *
tt_symbol_kind(const struct tt_sym *sym)
{
  switch (sym->kind) {
  case TT_SYM_PARAM:
    return "param";
  case TT_SYM_CONST:
  case TT_SYM_TABLE:
    return "const";
  case TT_SYM_TYPE:
    return "type";
  case TT_SYM_TENSOR:
    return sym->item->role == TT_INPUT    ? "input"
           : sym->item->role == TT_WEIGHT ? "weight"
                                          : "output";
  case TT_SYM_STAGE:
  case TT_SYM_GENERATED:
    return "stage";
  case TT_SYM_DEF:
    return "def";
  case TT_SYM_INTRIN:
    return "intrin";
  }
  return "";
}

bool
tt_symbol_taken(struct tt_sema *s, const struct tt_item *item,
                const struct tt_sym *sym)
{
  if (item->kind == TT_ITEM_DEF && tt_is_builtin(item->id.name)) {
    tt_diag(s->diags, TT_D_DUPLICATE, item->id.span, "'%s' is a builtin",
            item->id.name);
    return true;
  }
  if (sym->item == item)
    return false;
  tt_diag(s->diags, TT_D_DUPLICATE, item->id.span, "'%s' already declared (%s)",
          sym->name, tt_place_text(s, sym->span));
  tt_diag_note(s->diags, sym->span, "the %s is declared here",
               tt_symbol_kind(sym));
  return true;
}

/* ---- order and cycles -------------------------------------------------- */

/* A breadth-first search through what definitions name. */
struct search {
  struct tt_sema *s;
  TT_VEC(struct tt_sym *) queue;
  const struct tt_sym *goal;
  bool found;
};

static void
reach(struct search *q, const char *name, const struct tt_sym *from)
{
  struct tt_sym *sym = tt_symbol_find(q->s, name);

  if (!sym || sym->visit == q->s->visit)
    return;
  sym->visit = q->s->visit;
  sym->parent = from;
  if (sym == q->goal)
    q->found = true;
  TT_PUSH(q->queue, sym);
}

static void
reach_all(struct search *q, const struct tt_ast *e, const struct tt_sym *from)
{
  if (!e || q->found)
    return;
  if (e->kind == TT_AST_NAME || e->kind == TT_AST_ACCESS ||
      e->kind == TT_AST_CALL)
    reach(q, e->name, from);
  for (int i = 0; i < e->nargs; i++)
    reach_all(q, e->args[i], from);
  if (e->kind == TT_AST_ACCESS || e->kind == TT_AST_REDUCE)
    reach_all(q, e->other, from);
}

static void
reach_init(struct search *q, const struct tt_init *init,
           const struct tt_sym *from)
{
  if (init->expr)
    reach_all(q, init->expr, from);
  for (int i = 0; i < init->n; i++)
    reach_init(q, init->items[i], from);
}

/* Does `from`, when defined, need `goal`?  Then the parents lead back. */
static bool
depends(struct tt_sema *s, struct tt_sym *from, const struct tt_sym *goal)
{
  struct search q = {.s = s, .goal = goal};

  s->visit++;
  from->visit = s->visit;
  from->parent = NULL;
  q.found = from == goal;
  TT_PUSH(q.queue, from);
  for (int i = 0; i < q.queue.n && !q.found; i++) {
    struct tt_sym *sym = q.queue.items[i];
    const struct tt_item *item = sym->stage ? sym->stage : sym->item;
    if (!item)
      continue;
    reach_all(&q, item->expr, sym);
    if (item->init)
      reach_init(&q, item->init, sym);
  }
  free(q.queue.items);
  return q.found;
}

/* "p → z → p": parents lead from `goal` back to `from`, which `goal` uses. */
static const char *
cycle_text(struct tt_sema *s, const struct tt_sym *goal,
           const struct tt_sym *from)
{
  struct tt_sb sb = {0};
  const char *path = goal->name, *text;

  for (const struct tt_sym *p = goal; p != from && p->parent;) {
    p = p->parent;
    path = tt_arena_printf(s->arena, "%s → %s", p->name, path);
    if (strlen(path) > 200) {
      path = tt_arena_printf(s->arena, "%s → … → %s", from->name, goal->name);
      break;
    }
  }
  tt_sb_printf(&sb, "%s → %s", goal->name, path);
  text = tt_arena_strdup(s->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static void
complain_order(struct tt_sema *s, struct tt_sym *sym, struct tt_span span)
{
  const struct tt_sym *goal = s->active;
  const struct tt_item *item = sym->stage ? sym->stage : sym->item;
  bool cycle = sym == goal;

  if (!cycle && goal && s->cycle_budget > 0) {
    s->cycle_budget--;
    cycle = depends(s, sym, goal);
  } else if (cycle) {
    sym->parent = NULL;
  }
  if (cycle && sym->kind == TT_SYM_DEF && goal->kind == TT_SYM_DEF)
    tt_diag(s->diags, TT_D_RECURSION, span, "def %s expands itself: %s",
            goal->name, cycle_text(s, goal, sym));
  else if (cycle)
    tt_diag(s->diags, TT_D_CYCLE, span, "cycle %s", cycle_text(s, goal, sym));
  else if (sym->kind == TT_SYM_TENSOR && sym->tensor && !sym->stage)
    tt_diag(s->diags, TT_D_USE_BEFORE_DEFINITION, span,
            "output %s is read here but never defined", sym->name);
  else
    tt_diag(s->diags, TT_D_USE_BEFORE_DEFINITION, span,
            "%s is used at %s but defined at %s", sym->name,
            tt_place_text(s, span), tt_place_text(s, item->id.span));
  if (sym != goal)
    tt_diag_note(s->diags, item->id.span, "'%s' is defined here", sym->name);
}

/* ---- use --------------------------------------------------------------- */

/* Letters to change, add or drop to make b of a; at most 3. */
static int
distance(const char *a, const char *b)
{
  size_t n = strlen(a), m = strlen(b);
  int row[32];

  if (n > 30 || m > 30)
    return 3;
  for (size_t j = 0; j <= m; j++)
    row[j] = (int)j;
  for (size_t i = 1; i <= n; i++) {
    int diagonal = row[0];
    row[0] = (int)i;
    for (size_t j = 1; j <= m; j++) {
      int best = diagonal + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < best)
        best = row[j] + 1;
      if (row[j - 1] + 1 < best)
        best = row[j - 1] + 1;
      diagonal = row[j];
      row[j] = best;
    }
  }
  return row[m];
}

static const char *
did_you_mean(struct tt_sema *s, const char *name)
{
  const char *best = NULL;

  if (strlen(name) < 3 || s->cycle_budget <= 0)
    return "";
  s->cycle_budget--;
  for (int i = 0; i < s->nitems && i < 10000; i++) {
    const struct tt_item *item = s->items[i];
    enum tt_sym_kind kind;
    if (declares(item, &kind) &&
        distance(name, item->id.name) <= (strlen(name) < 6 ? 1 : 2))
      best = item->id.name;
  }
  return best ? tt_arena_printf(s->arena, "; did you mean '%s'?", best) : "";
}

struct tt_sym *
tt_symbol_use(struct tt_sema *s, const char *name, struct tt_span span,
              const struct tt_use *use, bool index_like)
{
  struct tt_sym *sym = tt_symbol_find(s, name);

  if (!sym || sym->kind == TT_SYM_GENERATED) {
    if (index_like)
      tt_diag(s->diags, TT_D_UNBOUND_INDEX, span,
              "index '%s' is not bound; put it on the left or in a "
              "reduction: sum[%s](…)",
              name, name);
    else
      tt_diag(s->diags, TT_D_UNDECLARED, span, "'%s' is not declared%s", name,
              did_you_mean(s, name));
    tt_note_use(s, use);
    return NULL;
  }
  if (sym->state == TT_DONE)
    return sym;
  if (sym->state != TT_BAD) {
    complain_order(s, sym, span);
    tt_note_use(s, use);
  }
  return NULL;
}
