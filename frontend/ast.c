/* Constructors of the syntax tree, called by the grammar's actions.
 *
 * Invariant: no expression's tree is higher than TT_MAX_DEPTH and no file has
 * more than TT_MAX_NODES nodes, so that everything after may recurse.
 */
#include "config.h"

#include "frontend/ast.h"
#include "frontend/parse.h"

#include <stdlib.h>
#include <string.h>

const char *
tt_reducer_name(enum tt_reducer r)
{
  static const char *const names[] = {"sum",    "prod",   "min", "max",
                                      "argmin", "argmax", "any", "all"};

  return names[r];
}

struct tt_span
tt_parse_span(const struct tt_parse *p, struct tt_loc loc)
{
  return (struct tt_span){p->source, loc.lo, loc.hi};
}

void
tt_parse_give_up(struct tt_parse *p, enum tt_diag_code code, struct tt_loc loc,
                 const char *what)
{
  if (!p->gave_up)
    tt_diag(p->diags, code, tt_parse_span(p, loc), "%s", what);
  p->gave_up = true;
}

const char *
tt_span_text(struct tt_arena *arena, struct tt_span span)
{
  enum { MAX = 60 };
  struct tt_sb sb = {0};
  const char *text, *result;

  if (!span.src)
    return "";
  text = tt_source_text(span.src, NULL);
  for (uint32_t i = span.lo; i < span.hi && sb.len < MAX; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c > ' ')
      tt_sb_putc(&sb, (char)c);
    else if (sb.len > 0 && sb.s[sb.len - 1] != ' ')
      tt_sb_putc(&sb, ' ');
  }
  if (sb.len >= MAX)
    tt_sb_add(&sb, "...");
  result = tt_arena_strdup(arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return result;
}

/* ---- lists ------------------------------------------------------------- */

struct tt_list *
tt_list_add(struct tt_list *list, void *item)
{
  if (!list) {
    list = tt_xmalloc(sizeof *list);
    *list = (struct tt_list){0};
  }
  TT_PUSH(*list, item);
  return list;
}

void
tt_list_free(struct tt_list *list)
{
  if (list)
    free(list->items);
  free(list);
}

/* The pointers of a list, moved to the arena; frees the list. */
static void *
take_pointers(struct tt_parse *p, struct tt_list *list, int *n)
{
  void *items = NULL;

  *n = list ? list->n : 0;
  if (*n)
    items =
        tt_arena_dup(p->arena, list->items, (size_t)*n * sizeof *list->items);
  tt_list_free(list);
  return items;
}

/* The things that a list points to, copied side by side; frees the list. */
static void *
take_values(struct tt_parse *p, struct tt_list *list, size_t size, int *n)
{
  char *items = NULL;

  *n = list ? list->n : 0;
  if (*n)
    items = tt_arena_array(p->arena, (size_t)*n, size);
  for (int i = 0; i < *n; i++)
    memcpy(items + (size_t)i * size, list->items[i], size);
  tt_list_free(list);
  return items;
}

/* ---- expressions ------------------------------------------------------- */

static struct tt_ast *
node(struct tt_parse *p, struct tt_loc loc, enum tt_ast_kind kind)
{
  struct tt_ast *e = TT_NEW(p->arena, struct tt_ast);

  e->kind = (unsigned char)kind;
  e->span = e->at = tt_parse_span(p, loc);
  if (++p->nodes > TT_MAX_NODES)
    tt_parse_give_up(p, TT_D_TOO_LARGE, loc,
                     "the file has more than 2097152 terms");
  return e;
}

/* Set the height of a node from its children's; too high: an error. */
static struct tt_ast *
measured(struct tt_parse *p, struct tt_loc loc, struct tt_ast *e)
{
  int depth = e->other && e->kind != TT_AST_MEMBER ? e->other->depth : 0;

  for (int i = 0; i < e->nargs; i++)
    if (e->args[i]->depth > depth)
      depth = e->args[i]->depth;
  if (e->kind == TT_AST_REDUCE)
    for (int i = 0; i < e->binders->n; i++) {
      const struct tt_binder *b = &e->binders->items[i];
      const struct tt_ast *parts[] = {b->index, b->lo, b->hi};
      for (int k = 0; k < 3; k++)
        if (parts[k] && parts[k]->depth > depth)
          depth = parts[k]->depth;
    }
  if (depth >= TT_MAX_DEPTH) {
    tt_parse_give_up(p, TT_D_TOO_DEEP, loc,
                     "this expression nests more than 1000 deep");
    return tt_ast_error(p, loc);
  }
  e->depth = (unsigned short)(depth + 1);
  return e;
}

static struct tt_ast *
with_args(struct tt_parse *p, struct tt_loc loc, struct tt_ast *e, int n,
          const struct tt_ast *a, const struct tt_ast *b,
          const struct tt_ast *c)
{
  const struct tt_ast *args[3] = {a, b, c};

  e->nargs = n;
  e->args = tt_arena_dup(p->arena, args, (size_t)n * sizeof *args);
  return measured(p, loc, e);
}

struct tt_ast *
tt_ast_error(struct tt_parse *p, struct tt_loc loc)
{
  return node(p, loc, TT_AST_ERROR);
}

struct tt_ast *
tt_ast_int(struct tt_parse *p, struct tt_loc loc, int64_t v)
{
  struct tt_ast *e = node(p, loc, TT_AST_INT);

  e->ival = v;
  return e;
}

struct tt_ast *
tt_ast_flt(struct tt_parse *p, struct tt_loc loc, double v)
{
  struct tt_ast *e = node(p, loc, TT_AST_FLT);

  e->fval = v;
  return e;
}

struct tt_ast *
tt_ast_bool(struct tt_parse *p, struct tt_loc loc, bool v)
{
  struct tt_ast *e = node(p, loc, TT_AST_BOOL);

  e->ival = v;
  return e;
}

static struct tt_loc
loc_of(struct tt_span span)
{
  return (struct tt_loc){span.lo, span.hi};
}

struct tt_ast *
tt_ast_name(struct tt_parse *p, struct tt_ident *id)
{
  struct tt_ast *e = node(p, loc_of(id->span), TT_AST_NAME);

  e->name = id->name;
  return e;
}

struct tt_ast *
tt_ast_member(struct tt_parse *p, struct tt_loc loc, struct tt_ident *id,
              struct tt_ident *member)
{
  struct tt_ast *e = node(p, loc, TT_AST_MEMBER);

  e->name = id->name;
  e->member = member->name;
  e->at = member->span;
  return e;
}

struct tt_ast *
tt_ast_access(struct tt_parse *p, struct tt_loc loc, struct tt_ident *id,
              struct tt_list *args, struct tt_ast *otherwise)
{
  struct tt_ast *e = node(p, loc, TT_AST_ACCESS);

  e->name = id->name;
  e->at = id->span;
  e->other = otherwise;
  e->args = take_pointers(p, args, &e->nargs);
  return measured(p, loc, e);
}

struct tt_ast *
tt_ast_call(struct tt_parse *p, struct tt_loc loc, struct tt_ident *id,
            struct tt_list *args)
{
  struct tt_ast *e = node(p, loc, TT_AST_CALL);

  e->name = id->name;
  e->at = id->span;
  e->args = take_pointers(p, args, &e->nargs);
  return measured(p, loc, e);
}

struct tt_ast *
tt_ast_nary(struct tt_parse *p, struct tt_loc loc, struct tt_loc at,
            enum tt_reducer red, struct tt_list *args)
{
  struct tt_ast *e = node(p, loc, TT_AST_NARY);

  e->op = (unsigned char)red;
  e->at = tt_parse_span(p, at);
  e->args = take_pointers(p, args, &e->nargs);
  return measured(p, loc, e);
}

static struct tt_binders *
binders_new(struct tt_parse *p, struct tt_list *list)
{
  struct tt_binders *b = TT_NEW(p->arena, struct tt_binders);

  b->items = take_values(p, list, sizeof *b->items, &b->n);
  return b;
}

struct tt_ast *
tt_ast_reduce(struct tt_parse *p, struct tt_loc loc, struct tt_loc at,
              enum tt_reducer red, struct tt_list *binders,
              struct tt_ast *where, struct tt_ast *body)
{
  struct tt_ast *e = node(p, loc, TT_AST_REDUCE);

  e->op = (unsigned char)red;
  e->at = tt_parse_span(p, at);
  e->binders = binders_new(p, binders);
  e->other = where;
  return with_args(p, loc, e, 1, body, NULL, NULL);
}

struct tt_ast *
tt_ast_binary(struct tt_parse *p, struct tt_loc loc, struct tt_loc at,
              enum tt_binop op, struct tt_ast *a, struct tt_ast *b)
{
  struct tt_ast *e = node(p, loc, TT_AST_BINARY);

  e->op = (unsigned char)op;
  e->at = tt_parse_span(p, at);
  return with_args(p, loc, e, 2, a, b, NULL);
}

struct tt_ast *
tt_ast_unary(struct tt_parse *p, struct tt_loc loc, struct tt_loc at,
             enum tt_ast_kind kind, struct tt_ast *a)
{
  struct tt_ast *e = node(p, loc, kind);

  e->at = tt_parse_span(p, at);
  return with_args(p, loc, e, 1, a, NULL, NULL);
}

struct tt_ast *
tt_ast_cond(struct tt_parse *p, struct tt_loc loc, struct tt_loc at,
            struct tt_ast *c, struct tt_ast *a, struct tt_ast *b)
{
  struct tt_ast *e = node(p, loc, TT_AST_COND);

  e->at = tt_parse_span(p, at);
  return with_args(p, loc, e, 3, c, a, b);
}

struct tt_ast *
tt_ast_paren(struct tt_parse *p, struct tt_loc loc, struct tt_ast *e)
{
  e->span = tt_parse_span(p, loc);
  return e;
}

/* ---- parts of items ---------------------------------------------------- */

struct tt_ident *
tt_ident_new(struct tt_parse *p, struct tt_loc loc, const char *name)
{
  struct tt_ident *id = TT_NEW(p->arena, struct tt_ident);

  id->name = name;
  id->span = tt_parse_span(p, loc);
  return id;
}

struct tt_ident *
tt_ident_number(struct tt_parse *p, const struct tt_ident *id, int64_t n)
{
  return tt_ident_new(
      p, loc_of(id->span),
      tt_arena_printf(p->arena, "%s.%lld", id->name, (long long)n));
}

struct tt_binder *
tt_binder_new(struct tt_parse *p, struct tt_ast *index, struct tt_ast *lo,
              struct tt_ast *hi)
{
  struct tt_binder *b = TT_NEW(p->arena, struct tt_binder);

  b->index = index;
  b->lo = lo;
  b->hi = hi;
  return b;
}

struct tt_shape *
tt_shape_new(struct tt_parse *p, struct tt_ident *id, struct tt_list *dims)
{
  struct tt_shape *s = TT_NEW(p->arena, struct tt_shape);

  s->id = *id;
  s->brackets = dims != NULL;
  s->dims = take_pointers(p, dims, &s->ndims);
  return s;
}

struct tt_init *
tt_init_expr(struct tt_parse *p, struct tt_ast *e)
{
  struct tt_init *init = TT_NEW(p->arena, struct tt_init);

  init->span = e->span;
  init->expr = e;
  return init;
}

struct tt_init *
tt_init_list(struct tt_parse *p, struct tt_loc loc, struct tt_list *items)
{
  struct tt_init *init = TT_NEW(p->arena, struct tt_init);

  init->span = tt_parse_span(p, loc);
  init->items = take_pointers(p, items, &init->n);
  return init;
}

struct tt_attr *
tt_attr_new(struct tt_parse *p, struct tt_ident *id, const char *text,
            struct tt_list *args)
{
  struct tt_attr *a = TT_NEW(p->arena, struct tt_attr);

  a->id = *id;
  a->text = text;
  a->args = take_pointers(p, args, &a->nargs);
  return a;
}

struct tt_operand *
tt_operand_new(struct tt_parse *p, struct tt_shape *shape,
               struct tt_ident *type, struct tt_list *attrs)
{
  struct tt_operand *o = TT_NEW(p->arena, struct tt_operand);

  o->shape = *shape;
  o->type = *type;
  o->attrs = take_values(p, attrs, sizeof *o->attrs, &o->nattrs);
  return o;
}

/* ---- items ------------------------------------------------------------- */

struct tt_item *
tt_item_new(struct tt_parse *p, enum tt_item_kind kind, struct tt_loc loc)
{
  struct tt_item *item = TT_NEW(p->arena, struct tt_item);

  item->kind = kind;
  item->span = tt_parse_span(p, loc);
  return item;
}

void
tt_item_add(struct tt_parse *p, struct tt_item *item)
{
  TT_PUSH(p->items, item);
}

static void
set_type(struct tt_item *item, const struct tt_ident *type)
{
  item->has_type = type != NULL;
  if (type)
    item->type = *type;
}

void
tt_item_kernel(struct tt_parse *p, struct tt_loc loc, struct tt_ident *id)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_KERNEL, loc);

  item->id = *id;
  tt_item_add(p, item);
}

void
tt_item_include(struct tt_parse *p, struct tt_loc loc, struct tt_ident *text)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_INCLUDE, loc);

  item->id = *text;
  item->text = text->name;
  tt_item_add(p, item);
}

void
tt_item_type(struct tt_parse *p, struct tt_loc loc, struct tt_ident *id,
             struct tt_ident *type)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_TYPE, loc);

  item->id = *id;
  set_type(item, type);
  tt_item_add(p, item);
}

void
tt_item_param(struct tt_parse *p, struct tt_loc loc, struct tt_ident *id,
              struct tt_ident *type, struct tt_ast *e)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_PARAM, loc);

  item->id = *id;
  set_type(item, type);
  item->expr = e;
  tt_item_add(p, item);
}

void
tt_item_const(struct tt_parse *p, struct tt_loc loc, struct tt_shape *shape,
              struct tt_ident *type, struct tt_init *init)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_CONST, loc);

  item->id = shape->id;
  item->shape = *shape;
  set_type(item, type);
  item->init = init;
  item->expr = init->expr;
  tt_item_add(p, item);
}

void
tt_item_require(struct tt_parse *p, struct tt_loc loc, struct tt_ast *e,
                struct tt_ident *text)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_REQUIRE, loc);

  item->expr = e;
  item->text = text ? text->name : NULL;
  tt_item_add(p, item);
}

void
tt_item_tensors(struct tt_parse *p, struct tt_loc loc, enum tt_role role,
                struct tt_list *shapes, struct tt_ident *type,
                struct tt_binder *range, struct tt_list *attrs)
{
  int nattrs;
  struct tt_attr *all = take_values(p, attrs, sizeof *all, &nattrs);

  for (int i = 0; i < shapes->n; i++) {
    struct tt_item *item = tt_item_new(p, TT_ITEM_TENSOR, loc);
    item->shape = *(struct tt_shape *)shapes->items[i];
    item->id = item->shape.id;
    item->role = role;
    set_type(item, type);
    item->lo = range ? range->lo : NULL;
    item->hi = range ? range->hi : NULL;
    item->nattrs = i == 0 ? nattrs : 0; /* one report for all of them */
    item->attrs = all;
    tt_item_add(p, item);
  }
  tt_list_free(shapes);
}

void
tt_item_def(struct tt_parse *p, struct tt_loc loc, struct tt_ident *id,
            struct tt_list *params, struct tt_ast *e)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_DEF, loc);

  item->id = *id;
  item->params = take_values(p, params, sizeof *item->params, &item->nparams);
  item->expr = e;
  tt_item_add(p, item);
}

struct tt_item *
tt_item_stage(struct tt_parse *p, struct tt_loc loc, struct tt_ident *id,
              bool brackets, struct tt_list *binders, struct tt_ident *type,
              struct tt_ast *e, bool update)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_STAGE, loc);

  item->id = *id;
  item->brackets = brackets;
  item->binders = binders_new(p, binders);
  set_type(item, type);
  item->expr = e;
  item->block = update;
  return item;
}

struct tt_item *
tt_item_clause(struct tt_parse *p, struct tt_loc loc, struct tt_ident *id,
               struct tt_ident *text, bool block)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_CLAUSE, loc);

  item->id = *id;
  item->text = text->name;
  item->text_span = text->span;
  item->block = block;
  return item;
}

void
tt_item_intrin(struct tt_parse *p, struct tt_loc loc, struct tt_ident *id,
               struct tt_list *operands, struct tt_list *body)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_INTRIN, loc);

  item->id = *id;
  item->operands =
      take_values(p, operands, sizeof *item->operands, &item->noperands);
  item->body = take_pointers(p, body, &item->nbody);
  for (int i = 0; i < item->nbody; i++)
    if (item->body[i]->kind == TT_ITEM_STAGE)
      item->body[i]->kind = TT_ITEM_UPDATE;
  tt_item_add(p, item);
}

/* ---- schedules --------------------------------------------------------- */

int64_t *
tt_boxed(struct tt_parse *p, int64_t v)
{
  return tt_arena_dup(p->arena, &v, sizeof v);
}

struct tt_sarg *
tt_sarg_new(struct tt_parse *p, enum tt_sarg_kind kind, const char *str,
            int64_t ival, struct tt_list *set)
{
  struct tt_sarg *arg = TT_NEW(p->arena, struct tt_sarg);

  arg->kind = kind;
  arg->str = str;
  arg->ival = ival;
  arg->set = take_values(p, set, sizeof *arg->set, &arg->nset);
  return arg;
}

struct tt_sarg *
tt_sarg_keyed(struct tt_ident *key, struct tt_sarg *arg)
{
  arg->key = key->name;
  return arg;
}

struct tt_scall *
tt_scall_new(struct tt_parse *p, struct tt_loc loc, struct tt_ident *stage,
             struct tt_ident *primitive, struct tt_list *args)
{
  struct tt_scall *call = TT_NEW(p->arena, struct tt_scall);
  struct tt_span span = tt_parse_span(p, loc);

  call->stage = stage->name;
  call->primitive = primitive->name;
  call->args = take_values(p, args, sizeof *call->args, &call->nargs);
  call->span = tt_arena_dup(p->arena, &span, sizeof span);
  return call;
}

void
tt_item_schedule(struct tt_parse *p, struct tt_loc loc, struct tt_ident *name,
                 struct tt_list *calls)
{
  struct tt_item *item = tt_item_new(p, TT_ITEM_SCHEDULE, loc);
  struct tt_sblock *block = TT_NEW(p->arena, struct tt_sblock);

  block->name = name ? name->name : NULL;
  block->calls = take_values(p, calls, sizeof *block->calls, &block->ncalls);
  item->schedule = block;
  tt_item_add(p, item);
}
