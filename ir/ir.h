/* The intermediate representation: the one header that every part includes.
 *
 *   program   what to compute: tensors and single-assignment stages
 *   stmt      how: a loop nest over the same tensors and expressions
 *
 * Expressions and statements are immutable once built and live in an arena.
 * Everything is sized at compile time: a variable runs over 0 <= v < extent.
 */
#ifndef TT_IR_H
#define TT_IR_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/arena.h"
#include "ir/types.h"

#define TT_MAX_DIMS 12

/* ---- tensors and variables ------------------------------------------- */

enum tt_role {
  TT_INPUT,    /* parameter, changes on every call */
  TT_WEIGHT,   /* parameter of NAME_prepare */
  TT_OUTPUT,   /* parameter, written */
  TT_TEMP,     /* result of an intermediate stage, in workspace */
  TT_CONST,    /* compile-time table */
  TT_PREPARED, /* written by NAME_prepare, read by NAME */
  TT_LOCAL     /* made by the schedule: caches, tiles of computed-at stages */
};

/* Where a TT_LOCAL lives.  TT_REGISTER is a promise that every access has
 * constant indices once unrolled; it is printed as named variables. */
/* TT_SHARED, of a GPU: by the threads of a block. */
enum tt_scope { TT_WORKSPACE, TT_STACK, TT_REGISTER, TT_SHARED };

/* How a copy lies in the memory that the threads of a GPU's block share, and
 * when it is filled.  It says nothing of values: elsewhere it means nothing.  A
 * row is what lies at one index of the first dimension. */
struct tt_staging {
  int pad;     /* elements between one row and the next */
  int swizzle; /* elements of a group; groups of a row change places; 0: none */
  int lanes;   /* neighbouring rows whose groups change places alike */
  int stages;  /* iterations of the loop around it whose copies there is room
                  for; 0, 1: one */
  /* Set by code generation: */
  int ring;   /* so many copies in a dimension outside of the others; 0: none */
  bool async; /* plain copies into it need not be there before a wait */
  bool held;  /* registers of a copy on its way */
};

/* A dense row-major tensor.  `dims` has `ndim` entries, all >= 1; a scalar
 * has ndim 0.  Values of an integer input lie in lo..hi (half open) when
 * has_range. */
struct tt_tensor {
  const char *name;
  enum tt_dtype dtype;
  enum tt_role role;
  enum tt_scope scope;
  int ndim;
  int64_t dims[TT_MAX_DIMS];
  bool has_range;
  int64_t lo, hi;
  const double *fdata;       /* TT_CONST of a float type: the elements */
  const int64_t *idata;      /* TT_CONST of an integer type or bool */
  struct tt_staging staging; /* TT_LOCAL */
  int id;                    /* position in program->tensors; -1 for TT_LOCAL */
  /* TT_LOCAL: its last dimensions are a result of this intrin, in a register
   * of its type; TT_INTRIN statements alone use it.  NULL: plain memory. */
  const struct tt_intrin *fragment;
};

/* An index that runs over 0 <= v < extent (extent >= 1). */
struct tt_var {
  const char *name;
  int64_t extent;
  int id; /* unique within a program or a lowering */
};

/* ---- expressions ------------------------------------------------------ */

struct tt_type {
  enum tt_dtype dtype;
  int lanes; /* 1: a scalar */
};

/* Operators.  Integer arithmetic wraps in the type; DIV and MOD floor for
 * integers, DIV divides for floats; SHR is arithmetic for signed types.
 * Comparisons give bool; AND and OR are logical, on bool, and like SELECT
 * evaluate the right side only when needed (scalars). MIN and MAX are
 * a < b ? a : b and a > b ? a : b exactly (so NaN in a gives b). */
enum tt_binop {
#define TT_BINOP(e, text, prec) TT_##e,
#include "ir/binop.def"
#undef TT_BINOP
  TT_NBINOPS
};

/* Calls of builtins with one result. */
enum tt_fn {
#define TT_FN(e, name, nargs) TT_FN_##e,
#include "ir/fn.def"
#undef TT_FN
  TT_NFNS
};

enum tt_expr_kind {
  TT_INT,      /* ival: any integer type or bool */
  TT_FLT,      /* fval: already rounded to the type */
  TT_VAR,      /* var: type i64 */
  TT_LOAD,     /* tensor[idx...]; idx are i64 (or ramps of i64) */
  TT_BINARY,   /* op(a, b): equal types, save the count of a shift */
  TT_NEG,      /* -a */
  TT_NOT,      /* !a of bool, ~a of integers */
  TT_CAST,     /* a converted to type: wraps, truncates, rounds */
  TT_SAT,      /* a converted to type: saturates */
  TT_SELECT,   /* c ? a : b, lazy; c is bool */
  TT_CALL,     /* fn(args...) */
  TT_RAMP,     /* a, a+stride, ... : lanes; a scalar i64, ival the stride */
  TT_BROADCAST /* a in every lane; a scalar */
};

struct tt_expr {
  enum tt_expr_kind kind;
  struct tt_type type;
  enum tt_binop op;
  enum tt_fn fn;
  int64_t ival;
  double fval;
  const struct tt_var *var;
  const struct tt_tensor *tensor;
  int nargs;                         /* LOAD indices, CALL arguments */
  const struct tt_expr *const *args; /* LOAD indices, CALL arguments */
  const struct tt_expr *a, *b, *c;   /* operands; c: SELECT's condition */
};

/* Constructors: one a kind, no simplification.  All results are owned by the
 * arena; operands must live at least as long. */
const struct tt_expr *tt_int(struct tt_arena *, enum tt_dtype, int64_t);
const struct tt_expr *tt_flt(struct tt_arena *, enum tt_dtype, double);
/* An i64 constant: an index. */
const struct tt_expr *tt_idx(struct tt_arena *, int64_t);
const struct tt_expr *tt_bool(struct tt_arena *, bool);
/* The zero of any type. */
const struct tt_expr *tt_zero(struct tt_arena *, enum tt_dtype);
const struct tt_expr *tt_var_ref(struct tt_arena *, const struct tt_var *);
/* `n` indices, copied. */
const struct tt_expr *tt_load(struct tt_arena *, const struct tt_tensor *,
                              int n, const struct tt_expr *const *idx);
const struct tt_expr *tt_binary(struct tt_arena *, enum tt_binop,
                                const struct tt_expr *, const struct tt_expr *);
const struct tt_expr *tt_neg(struct tt_arena *, const struct tt_expr *);
const struct tt_expr *tt_not(struct tt_arena *, const struct tt_expr *);
const struct tt_expr *tt_cast(struct tt_arena *, enum tt_dtype,
                              const struct tt_expr *);
const struct tt_expr *tt_sat(struct tt_arena *, enum tt_dtype,
                             const struct tt_expr *);
const struct tt_expr *tt_select(struct tt_arena *, const struct tt_expr *cond,
                                const struct tt_expr *then,
                                const struct tt_expr *otherwise);
const struct tt_expr *tt_call(struct tt_arena *, enum tt_fn, enum tt_dtype,
                              int n, const struct tt_expr *const *args);
const struct tt_expr *tt_ramp(struct tt_arena *, const struct tt_expr *base,
                              int64_t stride, int lanes);
const struct tt_expr *tt_broadcast(struct tt_arena *, const struct tt_expr *,
                                   int lanes);

/* Index arithmetic with constant folding at the leaves (x+0, x*1, c1 op c2),
 * all i64 scalars. */
const struct tt_expr *tt_iadd(struct tt_arena *, const struct tt_expr *,
                              const struct tt_expr *);
const struct tt_expr *tt_isub(struct tt_arena *, const struct tt_expr *,
                              const struct tt_expr *);
const struct tt_expr *tt_imul(struct tt_arena *, const struct tt_expr *,
                              int64_t);
const struct tt_expr *tt_idiv(struct tt_arena *, const struct tt_expr *,
                              int64_t);
const struct tt_expr *tt_imod(struct tt_arena *, const struct tt_expr *,
                              int64_t);
const struct tt_expr *tt_imin(struct tt_arena *, const struct tt_expr *,
                              const struct tt_expr *);
const struct tt_expr *tt_imax(struct tt_arena *, const struct tt_expr *,
                              const struct tt_expr *);

bool tt_is_int(const struct tt_expr *, int64_t value); /* that constant */
/* Structural equality; variables and tensors by identity. */
bool tt_expr_equal(const struct tt_expr *, const struct tt_expr *);
/* Does the variable, or any load of the tensor, occur? */
bool tt_expr_uses_var(const struct tt_expr *, const struct tt_var *);
bool tt_expr_uses_tensor(const struct tt_expr *, const struct tt_tensor *);

/* Rebuild bottom-up.  `fn` sees each node after its operands were rewritten
 * and returns it or a replacement.  Unchanged subtrees are shared. */
typedef const struct tt_expr *tt_rewrite_fn(void *ctx, struct tt_arena *,
                                            const struct tt_expr *);
const struct tt_expr *tt_expr_rewrite(struct tt_arena *, const struct tt_expr *,
                                      tt_rewrite_fn *fn, void *ctx);
/* Visit every node, operands first. */
typedef void tt_visit_fn(void *ctx, const struct tt_expr *);
void tt_expr_visit(const struct tt_expr *, tt_visit_fn *fn, void *ctx);
/* Replace variables: vars[i] by repl[i]. */
const struct tt_expr *tt_expr_subst(struct tt_arena *, const struct tt_expr *,
                                    int n, const struct tt_var *const *vars,
                                    const struct tt_expr *const *repl);

const char *tt_binop_text(enum tt_binop);
int tt_binop_prec(enum tt_binop);
const char *tt_fn_name(enum tt_fn);
int tt_fn_nargs(enum tt_fn);

/* ---- programs --------------------------------------------------------- */

enum tt_red {
  TT_RED_NONE,
  TT_RED_SUM,
  TT_RED_PROD,
  TT_RED_MIN,
  TT_RED_MAX,
  TT_RED_ANY,
  TT_RED_ALL
};

/* out[spatial...] = value                          (red == NONE), or
 * out[spatial...] = red over reduce where(...) of value.
 * The spatial axes are those of `out`, in order: spatial[i]->extent ==
 * out->dims[i].  A reduction is never nested in a value: the frontend makes
 * it a stage of its own.  argmax/argmin arrive as two stages (the extremum,
 * then the min of the indices that attain it).  Reads outside a tensor are
 * never evaluated: they stand under a SELECT, or under `where`. */
struct tt_stage {
  struct tt_tensor *out;
  int nspatial, nreduce;
  const struct tt_var *const *spatial;
  const struct tt_var *const *reduce;
  enum tt_red red;
  const struct tt_expr *value;
  const struct tt_expr *where; /* NULL: always; bool */
  bool prepare;                /* depends on weights and constants alone */
  int id;                      /* position in program->stages */
};

/* ---- instructions ----------------------------------------------------- */

enum { TT_MAX_OPERANDS = 8 };

/* What an intrin asks of an operand.  Strides are in elements. */
struct tt_operand_of {
  const struct tt_tensor *tensor; /* its name, type and dimensions */
  int index[TT_MAX_DIMS];         /* each subscript: the intrin's index of that
                                     number, spatial ones first */
  const char *reg;                /* the C type of its register, or NULL */
  const char *load;               /* C text: its register from memory */
  int64_t inner;                  /* stride of the last dimension; 0: any */
  bool dense;      /* each dimension lies directly around the one inside */
  int64_t aligned; /* bytes that every row's address is a multiple of */
  bool shared;     /* in memory that the threads of a block share */
};

/* A declared instruction: out[spatial...] += sum over reduce of value (red ==
 * SUM), or = value (NONE), over tensors that stand for its operands, whose
 * subscripts are different indices.  The C text has $operand in it. */
struct tt_intrin {
  const char *name;
  int noperands;
  const struct tt_operand_of *operands;
  int result; /* the operand on the left */
  int nspatial, nreduce;
  const struct tt_var *const *spatial;
  const struct tt_var *const *reduce;
  enum tt_red red;
  const struct tt_expr *value;
  const char *guard, *header;      /* NULL: none */
  const char *init, *emit, *store; /* C text; NULL: none */
  int threads;                     /* that execute it together; 1: alone */
  bool built_in;                   /* it comes with the tool */
};

/* C text of the form "(a, b)" at `text`: where its arguments are, at most `max`
 * of them.  Returns how many there are, or -1: no bracket closes it; *end is
 * behind it. */
struct tt_text {
  const char *at;
  size_t n;
};
int tt_text_arguments(const char *text, int max, struct tt_text *args,
                      const char **end);
/* Does the C text say of an operand in memory by "$name(row, column)" alone
 * where its elements are? */
bool tt_operand_by_place(const struct tt_intrin *, int operand);

/* Does `value` say what the intrin does?  `accept` is asked of every operand
 * and the expression in its place, a load or a select around one; what it
 * accepted is in `found`, by operand. */
typedef bool tt_accept_fn(void *ctx, int operand, const struct tt_expr *);
bool tt_intrin_matches(const struct tt_intrin *, const struct tt_expr *value,
                       tt_accept_fn *accept, void *ctx,
                       const struct tt_expr *found[TT_MAX_OPERANDS]);

/* The least __CUDA_ARCH__ that the guard asks for (800 for sm_80); 0: none. */
int tt_intrin_arch(const struct tt_intrin *);

/* One call in a schedule block: `stage.primitive(args)`. */
enum tt_sarg_kind {
  TT_SARG_ID,
  TT_SARG_INT,
  TT_SARG_STR,
  TT_SARG_ANY,
  TT_SARG_SET
};
struct tt_sarg {
  const char *key; /* NULL: positional */
  enum tt_sarg_kind kind;
  const char *str; /* ID, STR */
  int64_t ival;    /* INT */
  int nset;        /* SET: {1, 2, 4}; ANY: `?` */
  const int64_t *set;
};
struct tt_scall {
  const char *stage, *primitive;
  int nargs;
  const struct tt_sarg *args;
  const void *span; /* opaque to all but the frontend's diagnostics */
};
struct tt_sblock {
  const char *name; /* NULL: unnamed */
  int ncalls;
  const struct tt_scall *calls;
};

struct tt_program {
  struct tt_arena *arena; /* owns all of it */
  const char *name;       /* the C function */
  int ntensors;
  struct tt_tensor **tensors; /* in order of declaration or definition */
  int nstages;
  struct tt_stage **stages; /* in order of definition: producers first */
  int nvars;                /* next free tt_var.id */
  int nblocks;
  const struct tt_sblock *blocks;
  int nintrins;
  const struct tt_intrin *const *intrins; /* that schedules may use */
};

/* Schedules of the program may use the intrin. */
void tt_program_intrin(struct tt_program *, const struct tt_intrin *);

/* The identity of a reduction in a type: 0, 1, the highest, the lowest
 * (infinities for floats), false, true. */
const struct tt_expr *tt_red_identity(struct tt_arena *, enum tt_red,
                                      enum tt_dtype);
/* acc ∘ x of a reduction. */
const struct tt_expr *tt_red_combine(struct tt_arena *, enum tt_red,
                                     const struct tt_expr *acc,
                                     const struct tt_expr *x);
const char *tt_red_name(enum tt_red);
/* Elements of the tensor; the frontend has checked that it fits. */
int64_t tt_tensor_size(const struct tt_tensor *);
/* Row-major stride of a dimension, in elements. */
int64_t tt_tensor_stride(const struct tt_tensor *, int dim);
/* The stage that defines a tensor, or NULL. O(stages). */
struct tt_stage *tt_stage_of(const struct tt_program *,
                             const struct tt_tensor *);
/* Arithmetic operations of the program done once (a multiply and an add are
 * two), counting every point of every reduction: for GFLOP/s. */
double tt_program_flops(const struct tt_program *);

/* Builders, used by the frontend and by tests. */
struct tt_program *tt_program_new(struct tt_arena *, const char *name);
struct tt_tensor *tt_program_tensor(struct tt_program *, const char *name,
                                    enum tt_role, enum tt_dtype, int ndim,
                                    const int64_t *dims);
const struct tt_var *tt_program_var(struct tt_program *, const char *name,
                                    int64_t extent);
struct tt_stage *tt_program_stage(struct tt_program *, struct tt_tensor *out,
                                  const struct tt_var *const *spatial,
                                  enum tt_red, int nreduce,
                                  const struct tt_var *const *reduce,
                                  const struct tt_expr *value,
                                  const struct tt_expr *where);

/* ---- loop nests ------------------------------------------------------- */

/* A pair of TT_TRANSPOSE loops, one directly inside the other, of at most 16
 * iterations each, holds nothing but a store of a load: the store has unit
 * stride in the inner one, the load in the outer one. */
/* TT_BLOCK_* and TT_THREAD_* loops run at the same time on a GPU, as its
 * blocks and the threads of a block; elsewhere they are plain loops. */
enum tt_for_kind {
  TT_SERIAL,
  TT_UNROLL,
  TT_VECTOR,
  TT_PARALLEL,
  TT_TRANSPOSE,
  TT_BLOCK_X,
  TT_BLOCK_Y,
  TT_BLOCK_Z,
  TT_THREAD_X,
  TT_THREAD_Y,
  TT_THREAD_Z
};

bool tt_is_block(enum tt_for_kind);
bool tt_is_thread(enum tt_for_kind);
/* "block.x"; NULL: of another kind of loop. */
const char *tt_bound_name(enum tt_for_kind);

enum tt_stmt_kind {
  TT_FOR,      /* for (var = 0; var < var->extent; var++) body */
  TT_STORE,    /* tensor[idx...] = value */
  TT_PREFETCH, /* tensor[idx...] will be used soon: says nothing of values.
                  The indices are scalars and may be outside the tensor. */
  TT_IF,       /* if (cond) body [else other] */
  TT_SEQ,      /* items in order */
  TT_INTRIN,   /* body, by an instruction where there is one */
  TT_ALLOC     /* tensor (TT_LOCAL) lives during body, contents undefined */
};

/* What a TT_INTRIN does: start a result in a register, the instruction itself,
 * or store a result. */
enum tt_intrin_op { TT_INTRIN_INIT, TT_INTRIN_EMIT, TT_INTRIN_STORE };

struct tt_stmt {
  enum tt_stmt_kind kind;
  enum tt_for_kind for_kind;
  int lanes; /* TT_VECTOR loops: lanes of the target's vectors to use; the
                loop's extent may be larger or no multiple */
  const struct tt_var *var;
  const struct tt_tensor *tensor;
  int nidx;
  const struct tt_expr *const *idx;
  const struct tt_expr *value; /* STORE */
  const struct tt_expr *cond;  /* IF */
  int nitems;
  const struct tt_stmt *const *items; /* SEQ */
  const struct tt_stmt *body, *other;
  const char *comment; /* printed above the statement; NULL: none */
  /* INTRIN: `idx` are loads of its operands' elements (EMIT), of the result
   * alone (INIT), or of it and of where it goes (STORE), over `vars`: its
   * indices, spatial ones first. */
  const struct tt_intrin *intrin;
  enum tt_intrin_op op;
  const struct tt_var *const *vars;
};

const struct tt_stmt *tt_for(struct tt_arena *, enum tt_for_kind, int lanes,
                             const struct tt_var *, const struct tt_stmt *);
const struct tt_stmt *tt_store(struct tt_arena *, const struct tt_tensor *,
                               int n, const struct tt_expr *const *idx,
                               const struct tt_expr *value);
const struct tt_stmt *tt_prefetch(struct tt_arena *, const struct tt_tensor *,
                                  int n, const struct tt_expr *const *idx);
const struct tt_stmt *tt_instruction(struct tt_arena *,
                                     const struct tt_intrin *,
                                     enum tt_intrin_op,
                                     const struct tt_var *const *vars, int n,
                                     const struct tt_expr *const *operands,
                                     const struct tt_stmt *body);
/* An operand, a load, where all of the statement's indices are 0, and the
 * strides along the dimensions of what the intrin declares. */
const struct tt_expr *tt_operand_base(struct tt_arena *, const struct tt_stmt *,
                                      int operand);
/* false: they are no constants. */
bool tt_operand_strides(struct tt_arena *, const struct tt_stmt *, int operand,
                        int64_t *strides);
/* Are all TT_INTRIN statements what their intrins ask for, of `tensor` or, if
 * it is NULL, of all that they use, in memory that is aligned to so many bytes?
 * NULL, or what is not. */
const char *tt_check_instructions(struct tt_arena *, const struct tt_stmt *,
                                  const struct tt_tensor *tensor,
                                  int64_t aligned);
const struct tt_stmt *tt_if(struct tt_arena *, const struct tt_expr *cond,
                            const struct tt_stmt *body,
                            const struct tt_stmt *other);
/* Flattens nested sequences; NULL items are dropped; one item is itself;
 * none gives an empty TT_SEQ. */
const struct tt_stmt *tt_seq(struct tt_arena *, int n,
                             const struct tt_stmt *const *items);
const struct tt_stmt *tt_alloc_stmt(struct tt_arena *, const struct tt_tensor *,
                                    const struct tt_stmt *body);
const struct tt_stmt *tt_comment(struct tt_arena *, const char *text,
                                 const struct tt_stmt *);
/* Rebuild with `fn` applied to every expression (index, value, condition);
 * fn is the whole-expression rewriter, not called per node. */
const struct tt_stmt *tt_stmt_map_exprs(struct tt_arena *,
                                        const struct tt_stmt *,
                                        tt_rewrite_fn *fn, void *ctx);

/* What lowering a schedule gives. `prepare` is NULL when the program has no
 * weights. Main reads TT_PREPARED tensors, never TT_WEIGHT ones. */
struct tt_nest {
  const struct tt_program *program;
  const struct tt_stmt *prepare;
  const struct tt_stmt *body;
  int nprepared;
  struct tt_tensor *const *prepared; /* in the order they lie in memory */
  int ntemps;
  struct tt_tensor *const *temps; /* TT_TEMP that live for the whole call */
};

#endif
