/* Inside the frontend: symbols, resolved expressions, and what the checks
 * share.  One file a subject:
 *
 *   symbols.c  the table of names, order of definitions, cycles
 *   consts.c   params, consts, types, require, -D
 *   resolve.c  syntax tree -> resolved expression: names, expansion of defs
 *   ranges.c   the range of every index
 *   types.c    typing of operators and builtins, adapting literals
 *   fold.c     arithmetic on constants, evaluation at a point
 *   bounds.c   intervals, facts, proofs
 *   witness.c  points where an access is outside
 *   elab.c     resolved expression -> IR expression, accesses
 *   reduce.c   reductions: stages without a name, argmin, empty ones
 *   lower.c    items -> tensors and stages
 *   intrin.c   intrin declarations
 *   built_in.c those that come with the tool
 *
 * Every function reports its own errors; a "bad" value, symbol or expression
 * is one whose mistake was reported, and stays silent from then on.
 */
#ifndef TT_SEMA_H
#define TT_SEMA_H

#include "frontend/ast.h"
#include "frontend/frontend.h"
#include "ir/passes.h"

enum {
  TT_MAX_TERMS = 1 << 17,      /* of one expanded expression */
  TT_MAX_ALL_TERMS = 1 << 22,  /* of all of a program's */
  TT_MAX_REDUCE = TT_MAX_DIMS, /* indices of one reduction */
  TT_MAX_ACTIVE = 64           /* indices bound at one place */
};
#define TT_MAX_ELEMENTS ((int64_t)1 << 40) /* of a tensor, of a program */

/* ---- values ------------------------------------------------------------ */

enum tt_weakness {
  TT_STRONG,   /* has its type for good */
  TT_WEAK_INT, /* an i64 expression that adapts: literals, params, indices */
  TT_WEAK_FLT  /* an f64 constant that adapts */
};
/* An elaborated expression.  e NULL: bad. */
struct tt_value {
  const struct tt_expr *e;
  enum tt_weakness weak;
  bool literal; /* made of literals only: an integer may become a float */
};

/* ---- symbols ----------------------------------------------------------- */

enum tt_sym_kind {
  TT_SYM_PARAM,
  TT_SYM_CONST, /* a scalar */
  TT_SYM_TABLE, /* a const with dimensions */
  TT_SYM_TYPE,
  TT_SYM_TENSOR, /* input, weight, output */
  TT_SYM_STAGE,  /* an intermediate */
  TT_SYM_DEF,
  TT_SYM_INTRIN,
  TT_SYM_GENERATED /* the name of a stage without a name */
};
enum tt_sym_state { TT_PENDING, TT_ACTIVE, TT_DONE, TT_BAD };

struct tt_sym {
  const char *name;
  enum tt_sym_kind kind;
  enum tt_sym_state state;
  struct tt_span span; /* of the name where it is declared */
  const struct tt_item *item;
  const struct tt_item *stage; /* of an output: what defines it */
  struct tt_value value;       /* PARAM, CONST */
  enum tt_dtype dtype;         /* TYPE */
  struct tt_tensor *tensor;
  bool complained;      /* about its value: once is enough */
  struct tt_sym *chain; /* of the hash bucket */
  /* of the search for cycles */
  unsigned visit;
  const struct tt_sym *parent;
};

/* ---- resolved expressions ---------------------------------------------- */

/* Through which calls of defs a node came, innermost first. */
struct tt_use {
  const char *name;
  struct tt_span span;
  const struct tt_use *outer;
};

struct tt_axis {
  const char *name;
  struct tt_span span;
  const struct tt_use *use;
  bool left, bad;
  bool given;  /* by `in` or by the output: bare uses do not matter */
  bool ranged; /* lo and extent are known */
  int64_t lo, extent;
  const struct tt_sym *from; /* whose dimension gave the range, or NULL */
  int from_dim;
  struct tt_span from_span;
  bool compound;
  struct tt_span compound_span; /* a subscript it stands in */
  const struct tt_var *var;     /* while being elaborated */
};

enum tt_builtin {
  TT_B_MIN,
  TT_B_MAX,
  TT_B_CLAMP,
  TT_B_SQ,
  TT_B_CEILDIV,
  TT_B_FN /* a function of the IR: fn */
};

enum tt_rx_kind {
  TT_RX_BAD,
  TT_RX_VALUE, /* value; sym: the param or const, or NULL */
  TT_RX_AXIS,
  TT_RX_LOAD,   /* sym[args else other] */
  TT_RX_REDUCE, /* axes, other: where, args[0] */
  TT_RX_BINARY,
  TT_RX_NEG,
  TT_RX_NOT,
  TT_RX_BITNOT,
  TT_RX_COND,
  TT_RX_CAST, /* dtype */
  TT_RX_SAT,  /* dtype */
  TT_RX_CALL  /* builtin, fn */
};

struct tt_rx {
  enum tt_rx_kind kind;
  enum tt_binop op;
  enum tt_reducer red;
  enum tt_dtype dtype;
  enum tt_builtin builtin;
  enum tt_fn fn;
  int size, depth;
  struct tt_span span, at;
  const struct tt_use *use;
  struct tt_value value;
  struct tt_sym *sym;
  struct tt_axis *axis;
  int nargs, naxes;
  const struct tt_rx *const *args;
  struct tt_axis *const *axes;
  const struct tt_rx *other;
};

/* ---- the state of compiling one program -------------------------------- */

struct tt_sema {
  struct tt_arena *arena;
  struct tt_diags *diags;
  struct tt_program *program;
  const struct tt_frontend_options *options;
  const struct tt_sema *outer; /* inside an intrin: of the file */
  size_t nbuckets;
  struct tt_sym **buckets;
  int nitems;
  struct tt_item *const *items;
  const struct tt_item *kernel;
  const struct tt_sym *active; /* what is being defined */
  int nterms;                  /* of expanded expressions so far */
  bool too_many_terms;         /* reported */
  int64_t elements;            /* of all tensors */
  bool too_many_elements;
  unsigned visit;   /* of the search for cycles */
  int cycle_budget; /* searches left */
  int64_t points;   /* evaluations left for empty reductions */
};

/* Names that an expression sees beside the global ones. */
struct tt_names {
  const struct tt_names *outer;
  const char *name;
  struct tt_axis *axis;   /* an index, or */
  const struct tt_rx *rx; /* an argument of a def */
};

/* Check and lower all items; NULL if there were errors. */
struct tt_program *tt_lower(struct tt_sema *);

/* ---- symbols.c --------------------------------------------------------- */
void tt_symbols_declare(struct tt_sema *);
struct tt_sym *tt_symbol_find(const struct tt_sema *, const char *name);
/* A fresh name, entered as GENERATED. */
const char *tt_symbol_generate(struct tt_sema *, const char *stem);
/* The symbol if it may be used at `span` now; NULL after a diagnostic, or
 * silently when it is bad.  `index_like`: the name looks like an
 * index. */
struct tt_sym *tt_symbol_use(struct tt_sema *, const char *name, struct tt_span,
                             const struct tt_use *, bool index_like);
void tt_note_use(struct tt_sema *, const struct tt_use *);
/* "3:7" of a span, arena-owned. */
const char *tt_place_text(struct tt_sema *, struct tt_span);
/* "param", "input", ... */
const char *tt_symbol_kind(const struct tt_sym *);
/* An item declares a name that is someone else's already?  Reports. */
bool tt_symbol_taken(struct tt_sema *, const struct tt_item *,
                     const struct tt_sym *);

/* ---- consts.c ---------------------------------------------------------- */
void tt_defines_check(struct tt_sema *);
void tt_check_type_item(struct tt_sema *, struct tt_sym *);
void tt_check_param(struct tt_sema *, struct tt_sym *);
void tt_check_const(struct tt_sema *, struct tt_sym *);
void tt_check_require(struct tt_sema *, const struct tt_item *);
/* The value of an expression at compile time; bad after a diagnostic. */
struct tt_value tt_const_value(struct tt_sema *, const struct tt_ast *);
bool tt_sema_const_int(struct tt_sema *, const struct tt_ast *, int64_t *);
/* A size: at least 1, at most 2^40. */
bool tt_const_size(struct tt_sema *, const struct tt_ast *, int64_t *);
/* `lo..hi` or `hi`: the range of an index. */
bool tt_const_range(struct tt_sema *, const struct tt_ast *lo,
                    const struct tt_ast *hi, int64_t *first, int64_t *extent);
/* " (H=1, PAD=0)": the params and consts in an expression; "" if none. */
const char *tt_explain(struct tt_sema *, const struct tt_ast *);
/* An element type by name; false after a diagnostic. */
bool tt_type_of(struct tt_sema *, const struct tt_ident *, enum tt_dtype *);
/* Dimensions of a shape; false after a diagnostic. */
bool tt_shape_dims(struct tt_sema *, const struct tt_shape *, int64_t *dims);

/* ---- resolve.c --------------------------------------------------------- */
/* `axes` collects every index made (reductions), for ranges.c. */
struct tt_axes {
  int n, cap;
  struct tt_axis **items;
};
const struct tt_rx *tt_resolve(struct tt_sema *, const struct tt_ast *,
                               const struct tt_names *, bool constant,
                               struct tt_axes *);
void tt_check_def(struct tt_sema *, struct tt_sym *);
/* A new index for a binder; NULL after a diagnostic.  Its explicit range is
 * evaluated. */
struct tt_axis *tt_axis_new(struct tt_sema *, const struct tt_binder *,
                            const struct tt_use *, bool left);
/* Names in what is no plain index are taken as bound, so that their uses
 * give no second error. */
void tt_bind_names(struct tt_sema *, const struct tt_ast *,
                   const struct tt_names **);
bool tt_is_builtin(const char *name);

/* ---- ranges.c ---------------------------------------------------------- */
/* Infer what is not given; false after a diagnostic. */
bool tt_infer_ranges(struct tt_sema *, const struct tt_rx *,
                     const struct tt_axes *, bool quiet);

/* ---- fold.c ------------------------------------------------------------ */
/* The result on constants: 1 folded, 0 not constant or not foldable (a
 * division by zero, a result that is not finite). */
bool tt_fold_int(enum tt_binop, enum tt_dtype, int64_t a, int64_t b,
                 int64_t *out);
const struct tt_expr *tt_fold_binary(struct tt_arena *, enum tt_binop,
                                     const struct tt_expr *,
                                     const struct tt_expr *);
const struct tt_expr *tt_fold_unary(struct tt_arena *, enum tt_expr_kind,
                                    enum tt_dtype, const struct tt_expr *);
const struct tt_expr *tt_fold_call(struct tt_arena *, enum tt_fn, enum tt_dtype,
                                   int n, const struct tt_expr *const *);
bool tt_is_const(const struct tt_expr *);
/* A point: values of variables. */
struct tt_point {
  int n;
  const struct tt_var *vars[TT_MAX_ACTIVE];
  int64_t values[TT_MAX_ACTIVE];
};
/* The value of an integer or bool expression at a point; false: it depends on
 * data or on other variables. */
bool tt_eval_at(const struct tt_expr *, const struct tt_point *, int64_t *);

/* ---- bounds.c ---------------------------------------------------------- */
/* What is known of an integer expression under facts up to, not including,
 * `stop`.  Not ok: nothing. */
struct tt_interval tt_range_of(const struct tt_expr *, const struct tt_facts *,
                               const struct tt_facts *stop);
/* 0 <= e (lower) or e < limit, proven? */
bool tt_prove_lower(const struct tt_expr *, const struct tt_facts *,
                    const struct tt_facts *stop);
bool tt_prove_upper(const struct tt_expr *, int64_t limit,
                    const struct tt_facts *, const struct tt_facts *stop);
/* Facts with one more condition in front, split at && (or || if negated). */
const struct tt_facts *tt_facts_push(struct tt_arena *, const struct tt_facts *,
                                     const struct tt_expr *, bool negated);
/* ---- witness.c -------------------------------------------------------- */
/* A point allowed by the facts at which `e` is outside 0..limit-1; tries the
 * corners and, if there are few, all points. */
bool tt_witness(const struct tt_expr *, int64_t limit, const struct tt_facts *,
                struct tt_point *, int64_t *value);
/* The variables of an expression, in order of appearance, added to p. */
void tt_collect_vars(const struct tt_expr *, struct tt_point *);
bool tt_has_load(const struct tt_expr *);
/* More than 6 divisions in one another: no proof is tried. */
bool tt_too_hard(const struct tt_expr *);

/* ---- types.c ----------------------------------------------------------- */
struct tt_value tt_bad(void);
struct tt_value tt_strong(const struct tt_expr *);
/* "i8", "a literal", "an index": for messages. */
const char *tt_value_type(const struct tt_value *);
struct tt_value tt_adapt(struct tt_sema *, struct tt_value, enum tt_dtype,
                         const struct tt_rx *, const struct tt_facts *);
/* The type that a weak value takes where nothing else decides. */
enum tt_dtype tt_default_type(struct tt_sema *, struct tt_value,
                              const struct tt_facts *);
struct tt_value tt_type_binary(struct tt_sema *, const struct tt_rx *,
                               struct tt_value, struct tt_value,
                               const struct tt_facts *);
struct tt_value tt_type_unary(struct tt_sema *, const struct tt_rx *,
                              struct tt_value);
struct tt_value tt_type_cond(struct tt_sema *, const struct tt_rx *,
                             struct tt_value c, struct tt_value a,
                             struct tt_value b, const struct tt_facts *);
struct tt_value tt_type_cast(struct tt_sema *, const struct tt_rx *,
                             struct tt_value);
struct tt_value tt_type_call(struct tt_sema *, const struct tt_rx *,
                             struct tt_value *, const struct tt_facts *);
/* A condition: bool, or bad after a diagnostic. */
struct tt_value tt_type_bool(struct tt_sema *, const struct tt_rx *,
                             struct tt_value, const char *what);

/* ---- elab.c ------------------------------------------------------------ */
struct tt_hoisted; /* a stage without a name, made for this stage */

struct tt_elab {
  struct tt_sema *s;
  const char *stage; /* its name, for those of nested reductions */
  int nactive;
  struct tt_axis *active[TT_MAX_ACTIVE]; /* left indices, then reductions' */
  const struct tt_facts *facts;
  const struct tt_facts *barrier; /* facts where the innermost hoisted
                                     reduction begins */
  bool hoisting;
  int dead; /* inside a branch that is never taken */
  struct tt_hoisted *hoisted;
};
struct tt_value tt_elab(struct tt_elab *, const struct tt_rx *,
                        enum tt_dtype want);
/* The guard that makes `e` legal outside its enclosing conditions. */
const struct tt_expr *tt_enclosing_guard(struct tt_elab *);

/* ---- reduce.c ---------------------------------------------------------- */
struct tt_reduction {
  enum tt_red red;
  enum tt_dtype dtype;
  int n;
  const struct tt_var *vars[TT_MAX_REDUCE];
  const struct tt_expr *value, *where;
  bool has_range; /* of the result */
  int64_t lo, hi;
};
/* Elaborate a reduction; false after a diagnostic.  For argmin and argmax
 * the extremum becomes a stage and what remains is a min of indices. */
bool tt_reduce(struct tt_elab *, const struct tt_rx *, enum tt_dtype want,
               struct tt_reduction *);
/* The same inside an expression: a stage without a name, and a load of it. */
struct tt_value tt_reduce_nested(struct tt_elab *, const struct tt_rx *,
                                 enum tt_dtype want);

/* ---- lower.c ----------------------------------------------------------- */
/* Count a tensor's elements; false after a diagnostic. */
bool tt_count_elements(struct tt_sema *, const char *name, struct tt_span,
                       int ndim, const int64_t *dims);
/* Left indices, ranges, value of a stage: shared with intrins.  `dims` of the
 * tensor on the left or NULL. */
struct tt_left {
  int n;
  struct tt_axis *axes[TT_MAX_DIMS];
};
bool tt_left_side(struct tt_sema *, const struct tt_item *,
                  const struct tt_sym *out, struct tt_left *,
                  const struct tt_names **scope);

/* The value of a stage: a reduction as it is, anything else as a reduction
 * of kind NONE.  The result has type `want` if that is a type; `declared`:
 * where it is declared. */
bool tt_stage_value(struct tt_elab *, const struct tt_rx *,
                    const struct tt_item *, enum tt_dtype want,
                    struct tt_span declared, struct tt_reduction *);

/* ---- built_in.c -------------------------------------------------------- */
/* Add the instructions that come with the tool; a program's own of the same
 * name stand in their place. */
void tt_add_built_in(struct tt_program *, enum tt_built_in);

/* ---- intrin.c ---------------------------------------------------------- */
void tt_check_intrin(struct tt_sema *, struct tt_sym *);

#endif
