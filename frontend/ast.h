/* The syntax tree of one file, as written: nothing resolved, nothing checked.
 *
 * Nodes live in the arena of the compilation and are immutable once built.
 * Spans are byte ranges of the file's source.
 */
#ifndef TT_AST_H
#define TT_AST_H

#include "ir/diag.h"
#include "ir/ir.h"

/* Reductions of the language: those of the IR and the two that give an
 * index. */
enum tt_reducer {
  TT_REDUCE_SUM,
  TT_REDUCE_PROD,
  TT_REDUCE_MIN,
  TT_REDUCE_MAX,
  TT_REDUCE_ARGMIN,
  TT_REDUCE_ARGMAX,
  TT_REDUCE_ANY,
  TT_REDUCE_ALL
};
const char *tt_reducer_name(enum tt_reducer);

/* A name with its place. */
struct tt_ident {
  const char *name;
  struct tt_span span;
};

enum tt_ast_kind {
  TT_AST_ERROR,  /* a mistake that was reported */
  TT_AST_INT,    /* ival */
  TT_AST_FLT,    /* fval */
  TT_AST_BOOL,   /* ival */
  TT_AST_NAME,   /* name */
  TT_AST_MEMBER, /* name.member */
  TT_AST_ACCESS, /* name[args else other] */
  TT_AST_CALL,   /* name(args): builtins, defs, casts */
  TT_AST_NARY,   /* red(args): min, max of values */
  TT_AST_REDUCE, /* red[binders where cond](body) */
  TT_AST_BINARY, /* op(args[0], args[1]) */
  TT_AST_NEG,
  TT_AST_NOT,    /* ! */
  TT_AST_BITNOT, /* ~ */
  TT_AST_COND    /* args[0] ? args[1] : args[2] */
};

struct tt_ast;

/* `index`, `index in hi` or `index in lo..hi`.  `index` is any expression
 * here, so that Y[i+1] = ... gets a helpful message. */
struct tt_binder {
  const struct tt_ast *index;
  const struct tt_ast *lo, *hi; /* NULL: not given */
};
struct tt_binders {
  int n;
  const struct tt_binder *items;
};

struct tt_ast {
  unsigned char kind; /* enum tt_ast_kind */
  unsigned char op;   /* enum tt_binop, or enum tt_reducer */
  unsigned short depth;
  int nargs;
  struct tt_span span;
  struct tt_span at; /* the operator, or the name before ( or [ */
  union {
    int64_t ival;
    double fval;
    const char *name;
    const struct tt_binders *binders; /* REDUCE; the body is args[0] */
  };
  union {
    const struct tt_ast *other; /* ACCESS: else; REDUCE: where; or NULL */
    const char *member;
  };
  const struct tt_ast *const *args;
};

/* ---- items ------------------------------------------------------------- */

struct tt_shape { /* name or name[dims] */
  struct tt_ident id;
  bool brackets;
  int ndims;
  const struct tt_ast *const *dims;
};

/* A value or a braced list of them. */
struct tt_init {
  struct tt_span span;
  const struct tt_ast *expr; /* NULL: a list */
  int n;
  const struct tt_init *const *items;
};

struct tt_attr { /* name(args) or name "text" */
  struct tt_ident id;
  const char *text; /* NULL: arguments */
  int nargs;
  const struct tt_ast *const *args;
};

struct tt_operand { /* of an intrin */
  struct tt_shape shape;
  struct tt_ident type;
  int nattrs;
  const struct tt_attr *attrs;
};

enum tt_item_kind {
  TT_ITEM_KERNEL,  /* id */
  TT_ITEM_INCLUDE, /* text; id.span: the string */
  TT_ITEM_TYPE,    /* id = type */
  TT_ITEM_PARAM,   /* id [: type] = expr */
  TT_ITEM_CONST,   /* shape [: type] = init */
  TT_ITEM_REQUIRE, /* expr [, text] */
  TT_ITEM_TENSOR,  /* role, shape : type [in lo..hi] attrs */
  TT_ITEM_DEF,     /* id(params) = expr */
  TT_ITEM_STAGE,   /* id[binders] [: type] = expr */
  TT_ITEM_INTRIN,  /* id(operands) { items } */
  TT_ITEM_UPDATE,  /* inside an intrin: id[binders] = or += expr */
  TT_ITEM_CLAUSE,  /* inside an intrin: id "text" or id %{ text %} */
  TT_ITEM_SCHEDULE /* block */
};

struct tt_item {
  enum tt_item_kind kind;
  struct tt_span span;
  struct tt_ident id;
  struct tt_shape shape;
  bool has_type;
  struct tt_ident type;
  enum tt_role role;
  const struct tt_ast *expr;
  const struct tt_ast *lo, *hi; /* `in` of a tensor, or NULL */
  const struct tt_init *init;
  const char *text;
  bool block; /* CLAUSE: a C block;  UPDATE: += */
  struct tt_span text_span;
  int nattrs;
  const struct tt_attr *attrs;
  int nparams;
  const struct tt_ident *params; /* DEF */
  bool brackets;
  const struct tt_binders *binders; /* STAGE, UPDATE */
  int noperands;
  const struct tt_operand *operands;
  int nbody;
  struct tt_item *const *body;         /* INTRIN */
  const struct tt_sblock *schedule;    /* SCHEDULE */
  const struct tt_span *schedule_name; /* of its string, or NULL */
};

struct tt_file {
  const struct tt_source *source;
  int nitems;
  struct tt_item *const *items;
};

/* The text of a span on one line, shortened when long; arena-owned. */
const char *tt_span_text(struct tt_arena *, struct tt_span);

/* The tree of a file, for --dump=ast: one item a line, fully parenthesized. */
void tt_dump_ast(struct tt_sb *, const struct tt_file *);
/* The items of a program as one file that means the same by itself: with the
 * values that options give, without schedules. */
struct tt_frontend_options;
void tt_dump_source(struct tt_sb *, int n, struct tt_item *const *items,
                    const struct tt_frontend_options *);

#endif
