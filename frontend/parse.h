/* Between scanner and parser: the state of parsing one text, and the
 * constructors that the grammar's actions call.
 */
#ifndef TT_PARSE_H
#define TT_PARSE_H

#include "frontend/ast.h"

enum {
  TT_MAX_FILE = 16 << 20, /* bytes of one file */
  TT_MAX_NESTING = 200,   /* open brackets */
  TT_MAX_DEPTH = 1000,    /* height of an expression's tree */
  TT_MAX_NODES = 1 << 21, /* nodes of one file's tree */
  TT_MAX_NAME = 1000      /* bytes of an identifier */
};

struct tt_loc { /* a half-open byte range */
  uint32_t lo, hi;
};

/* Lists grow on the heap while parsing and are copied to the arena. */
struct tt_list {
  int n, cap;
  void **items;
};

struct tt_parse {
  struct tt_arena *arena;
  struct tt_diags *diags;
  const struct tt_source *source;
  void *scanner;
  uint32_t offset; /* of the next token */
  uint32_t open;   /* where a comment began */
  int nesting;     /* open brackets */
  int nodes;
  bool gave_up; /* a limit was passed: the rest is not read */
  struct tt_list items;
};

/* Parse a text.  Diagnostics go to `diags`; the file holds what could be
 * read.  Never NULL. */
struct tt_file *tt_parse_text(struct tt_arena *, struct tt_diags *,
                              const struct tt_source *, const char *text,
                              size_t len);

struct tt_span tt_parse_span(const struct tt_parse *, struct tt_loc);
/* Report that a limit was passed and stop reading. */
void tt_parse_give_up(struct tt_parse *, enum tt_diag_code, struct tt_loc,
                      const char *what);

/* ---- lists: malloc'ed, consumed by the constructors ---- */
struct tt_list *tt_list_add(struct tt_list *, void *item); /* NULL: a new one */
void tt_list_free(struct tt_list *);

/* ---- expressions ---- */
struct tt_ast *tt_ast_error(struct tt_parse *, struct tt_loc);
struct tt_ast *tt_ast_int(struct tt_parse *, struct tt_loc, int64_t);
struct tt_ast *tt_ast_flt(struct tt_parse *, struct tt_loc, double);
struct tt_ast *tt_ast_bool(struct tt_parse *, struct tt_loc, bool);
struct tt_ast *tt_ast_name(struct tt_parse *, struct tt_ident *);
struct tt_ast *tt_ast_member(struct tt_parse *, struct tt_loc,
                             struct tt_ident *, struct tt_ident *member);
struct tt_ast *tt_ast_access(struct tt_parse *, struct tt_loc,
                             struct tt_ident *, struct tt_list *args,
                             struct tt_ast *otherwise);
struct tt_ast *tt_ast_call(struct tt_parse *, struct tt_loc, struct tt_ident *,
                           struct tt_list *args);
struct tt_ast *tt_ast_nary(struct tt_parse *, struct tt_loc, struct tt_loc at,
                           enum tt_reducer, struct tt_list *args);
struct tt_ast *tt_ast_reduce(struct tt_parse *, struct tt_loc, struct tt_loc at,
                             enum tt_reducer, struct tt_list *binders,
                             struct tt_ast *where, struct tt_ast *body);
struct tt_ast *tt_ast_binary(struct tt_parse *, struct tt_loc, struct tt_loc at,
                             enum tt_binop, struct tt_ast *, struct tt_ast *);
struct tt_ast *tt_ast_unary(struct tt_parse *, struct tt_loc, struct tt_loc at,
                            enum tt_ast_kind, struct tt_ast *);
struct tt_ast *tt_ast_cond(struct tt_parse *, struct tt_loc, struct tt_loc at,
                           struct tt_ast *, struct tt_ast *, struct tt_ast *);
/* The same node over a wider span: parentheses. */
struct tt_ast *tt_ast_paren(struct tt_parse *, struct tt_loc, struct tt_ast *);

/* ---- parts of items ---- */
struct tt_ident *tt_ident_new(struct tt_parse *, struct tt_loc,
                              const char *name);
struct tt_ident *tt_ident_number(struct tt_parse *, const struct tt_ident *,
                                 int64_t);
struct tt_binder *tt_binder_new(struct tt_parse *, struct tt_ast *index,
                                struct tt_ast *lo, struct tt_ast *hi);
struct tt_shape *tt_shape_new(struct tt_parse *, struct tt_ident *,
                              struct tt_list *dims);
struct tt_init *tt_init_expr(struct tt_parse *, struct tt_ast *);
struct tt_init *tt_init_list(struct tt_parse *, struct tt_loc,
                             struct tt_list *);
struct tt_attr *tt_attr_new(struct tt_parse *, struct tt_ident *,
                            const char *text, struct tt_list *args);
struct tt_operand *tt_operand_new(struct tt_parse *, struct tt_shape *,
                                  struct tt_ident *type, struct tt_list *attrs);

/* ---- items: each adds to what was parsed ---- */
struct tt_item *tt_item_new(struct tt_parse *, enum tt_item_kind,
                            struct tt_loc);
void tt_item_add(struct tt_parse *, struct tt_item *);
void tt_item_kernel(struct tt_parse *, struct tt_loc, struct tt_ident *);
void tt_item_include(struct tt_parse *, struct tt_loc, struct tt_ident *);
void tt_item_type(struct tt_parse *, struct tt_loc, struct tt_ident *,
                  struct tt_ident *type);
void tt_item_param(struct tt_parse *, struct tt_loc, struct tt_ident *,
                   struct tt_ident *type, struct tt_ast *);
void tt_item_const(struct tt_parse *, struct tt_loc, struct tt_shape *,
                   struct tt_ident *type, struct tt_init *);
void tt_item_require(struct tt_parse *, struct tt_loc, struct tt_ast *,
                     struct tt_ident *text);
void tt_item_tensors(struct tt_parse *, struct tt_loc, enum tt_role,
                     struct tt_list *shapes, struct tt_ident *type,
                     struct tt_binder *range, struct tt_list *attrs);
void tt_item_def(struct tt_parse *, struct tt_loc, struct tt_ident *,
                 struct tt_list *params, struct tt_ast *);
struct tt_item *tt_item_stage(struct tt_parse *, struct tt_loc,
                              struct tt_ident *, bool brackets,
                              struct tt_list *binders, struct tt_ident *type,
                              struct tt_ast *, bool update);
struct tt_item *tt_item_clause(struct tt_parse *, struct tt_loc,
                               struct tt_ident *, struct tt_ident *text,
                               bool block);
void tt_item_intrin(struct tt_parse *, struct tt_loc, struct tt_ident *,
                    struct tt_list *operands, struct tt_list *body);
struct tt_sarg *tt_sarg_new(struct tt_parse *, enum tt_sarg_kind,
                            const char *str, int64_t ival, struct tt_list *set);
struct tt_sarg *tt_sarg_keyed(struct tt_ident *key, struct tt_sarg *);
struct tt_scall *tt_scall_new(struct tt_parse *, struct tt_loc,
                              struct tt_ident *stage, struct tt_ident *,
                              struct tt_list *args);
void tt_item_schedule(struct tt_parse *, struct tt_loc, struct tt_ident *name,
                      struct tt_list *calls);
/* A boxed integer for lists. */
int64_t *tt_boxed(struct tt_parse *, int64_t);

#endif
