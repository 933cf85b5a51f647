/* The C printer; private to codegen/c*.c.
 *
 * cnames.c   identifiers
 * ctypes.c   names of types, constants
 * cexpr.c    scalar expressions
 * caccess.c  memory accesses
 * cbase.c    pointers that several accesses share
 * cvec.c     vector expressions
 * cdot.c     sums of products of narrow integers among them
 * chelp.c    the static functions that expressions call
 * cconv.c    conversions among them, and what has an instruction of its own
 * cpart.c    vectors that are not full
 * crows.c    vectors that are stored across
 * ctrans.c   copies of transposed blocks
 * vmath.c    exp, log, ... among them
 * cintrin.c  instructions that the program declares
 * cstmt.c    statements
 * cprint.c   functions and files
 * gpulang.c  what CUDA C and OpenCL C say otherwise
 * gpuprint.c kernels of GPUs
 * gpucopy.c  shared memory of them, and asynchronous copies into it
 * gpuhost.c  what launches them: headers, self-tests, benchmarks
 * ctest.c    the same for C
 */
#ifndef TT_CODEGEN_CPRINT_H
#define TT_CODEGEN_CPRINT_H

#include "codegen/plan.h"
#include "ir/passes.h"

/* How vectors are written: as GNU C's, OpenCL C's (float4, with operators and
 * vload4), or CUDA C's (float4, without operators: they only move data). */
enum vector_style { TT_GNU_VECTORS, TT_OPENCL_VECTORS, TT_CUDA_VECTORS };

/* Differences between the C-like languages that one printer serves. */
struct dialect {
  const char *index; /* type of a loop variable */
  const char *restrict_;
  bool vectors;         /* GNU vector types and attributes */
  const char *function; /* how a helper is declared */
  const char *table;    /* how a constant array is declared */
  const char *single;   /* suffix of mathematical functions of floats */
  enum vector_style style;
};
extern const struct dialect tt_plain_c;

struct names;
/* A block of C that is being printed, innermost first: names declared in it
 * are free again when it ends. */
struct names *tt_names_new(struct tt_arena *);
/* Mark, and forget all names bound since the mark. */
int tt_names_mark(const struct names *);
void tt_names_release(struct names *, int mark);
/* A C identifier close to `want` that nothing visible has, bound to the
 * variable or tensor `key` (NULL: to nothing). */
const char *tt_names_bind(struct names *, const void *key, const char *want);
/* The same, to be kept when blocks end. */
const char *tt_names_bind_global(struct names *, const void *key,
                                 const char *want);
/* Another key for a name that is bound already. */
void tt_names_alias(struct names *, const void *key, const char *name);
/* The name bound to the key; NULL: none. */
const char *tt_names_of(const struct names *, const void *key);
void tt_names_free(struct names *);

/* A static function of the emitted file. */
struct helper {
  const char *name;
  const char *text;
};

/* A variable whose declaration waits for its first value. */
struct pending {
  const struct tt_tensor *tensor;
  bool once;  /* gets no other */
  bool risky; /* a compiler may not see that it is set before it is read */
};

/* A pointer that accesses of a block share; see cbase.c. */
struct base {
  const struct tt_tensor *tensor;
  struct tt_affine at; /* the element it points to */
  const char *name;    /* NULL: none yet */
  int count;           /* of accesses */
  bool varied, stored; /* not all of one element; some write */
  bool used, declared;
};
struct block_mark {
  int n, block;
};

struct gpu_printer; /* see gpuprint.c */

struct cprinter {
  struct tt_arena *arena;
  const struct tt_codegen_options *options;
  const struct dialect *dialect;
  const struct layout *layout; /* of the function that is being printed */
  const char *workspace;       /* expression: its first byte */
  struct names *names;
  const char *name; /* of the kernel; prefix of what is static when batched */
  struct tt_sb body;
  const struct gpu_printer *gpu; /* printing a kernel of a GPU; or NULL */
  bool phase;                    /* of it: inside loops over threads */
  int depth;                     /* of indentation */
  int parallel;                  /* depth of parallel loops */
  int index;                     /* > 0: inside a subscript */
  const struct tt_expr *opaque;  /* the compiler is not to see what this is */
  /* What the file needs. */
  bool math;
  bool guarded; /* parts of it are left out by the preprocessor */
  TT_VEC(const char *) typedefs; /* the texts, in order of first use */
  TT_VEC(struct helper) helpers;
  TT_VEC(const struct tt_tensor *) consts;
  TT_VEC(struct pending) pending;
  TT_VEC(struct base) bases; /* outer blocks first */
  int block;                 /* where those of this block begin */
  int announced;             /* that the next line is to declare */
};

/* Precedence: tt_binop_prec for binary operators and around it: */
enum {
  PREC_ANY = -1, /* anything may stand here unbracketed */
  PREC_COND = 0, /* ?: */
  PREC_UNARY = 11,
  PREC_PRIMARY = 12
};

/* ---- ctypes.c ---- */
/* Type in memory and of a value: 16-bit floats are computed as float. */
const char *tt_c_storage(enum tt_dtype);
const char *tt_c_value(enum tt_dtype);
/* The same in memory for the language that is printed: GPUs' f16 is an integer
 * there, as bf16 is. */
const char *tt_c_memory(const struct cprinter *, enum tt_dtype);
/* A 16-bit float: computed, rounded after every operation, as f32. */
bool tt_c_is_half(enum tt_dtype);
const char *tt_c_uvector(struct cprinter *, enum tt_dtype, int lanes);
/* GNU vector type of values ("f32x16"), of what lies in memory (another one
 * for 16-bit floats), and the unaligned form of that ("f32x16u"). */
const char *tt_c_vector(struct cprinter *, enum tt_dtype, int lanes);
const char *tt_c_memory_vector(struct cprinter *, enum tt_dtype, int lanes);
const char *tt_c_unaligned(struct cprinter *, enum tt_dtype, int lanes);
/* The name of a vector of OpenCL C, "float4"; u: of the unsigned type. */
const char *tt_c_opencl_vector(struct cprinter *, enum tt_dtype, bool u,
                               int lanes);
/* The vectors of char, short, int, long long that compilers' builtins take. */
const char *tt_c_raw_vector(struct cprinter *, int bytes, int lanes);
enum tt_dtype tt_unsigned_of(enum tt_dtype);
/* The signed integer type of as many bytes. */
enum tt_dtype tt_signed_of_bytes(int bytes);
/* A constant that reads back exactly; *prec its precedence. */
const char *tt_c_float(struct cprinter *, enum tt_dtype, double, int *prec);
const char *tt_c_int(struct cprinter *, enum tt_dtype, int64_t, int *prec);

/* ---- cexpr.c ---- */
/* The text of a scalar expression, with parentheses if it binds looser than
 * `prec`.  Owned by the arena. */
const char *tt_c_expr(struct cprinter *, const struct tt_expr *, int prec);
/* The same for an index: arithmetic cannot overflow. */
const char *tt_c_index(struct cprinter *, const struct tt_expr *, int prec);
/* A byte that is widened, which nvcc 13 multiplies wrongly: it adds up two
 * products of bytes by one instruction, for which it takes bytes of a word as
 * halves where they lie as halves would.  So in CUDA C a function that the
 * compiler does not see through is around it. */
bool tt_c_is_byte(const struct cprinter *, const struct tt_expr *);
const char *tt_c_opaque(struct cprinter *, const struct tt_expr *);
/* An integer division or remainder by a power of two, floored, as a shift or
 * a mask; NULL if it is by something else. */
const struct tt_expr *tt_c_bits(struct cprinter *, const struct tt_expr *);
/* Can a op b (ADD, SUB, MUL) leave the range of its type? */
bool tt_c_wraps(const struct tt_expr *);
const char *tt_c_paren(struct cprinter *, const char *text, int has, int prec);
/* An operator's text with operands in place. */
const char *tt_c_infix(struct cprinter *, enum tt_binop, const char *a,
                       const char *b, int prec);
int tt_c_operand_prec(enum tt_binop op, const struct tt_expr *operand,
                      bool right);

/* ---- caccess.c ---- */
/* The offset of an element as an index. */
const char *tt_c_offset(struct cprinter *, const struct tt_affine *);
/* The name of a tensor in memory. */
const char *tt_c_tensor(struct cprinter *, const struct tt_tensor *);
/* Left side of an assignment or a load, all lanes; for a store of part of a
 * vector, and of any in OpenCL C, its address. */
const char *tt_c_access(struct cprinter *, const struct tt_tensor *, int n,
                        const struct tt_expr *const *idx, bool store);
/* A call that names the place of a TT_PREFETCH. */
const char *tt_c_prefetch(struct cprinter *, const struct tt_stmt *);
/* A vector of `n` elements from where lane 0 of the load lies. */
const char *tt_c_neighbours(struct cprinter *, const struct tt_expr *load,
                            int n);
/* Is it a variable (after promotion) rather than memory? */
bool tt_is_register(const struct tt_tensor *);

/* ---- cbase.c ---- */
/* Around the statements of a block. */
struct block_mark tt_c_bases_open(struct cprinter *, const struct tt_stmt *);
void tt_c_bases_close(struct cprinter *, struct block_mark);
/* Before a store: names for the pointers that its accesses share; before the
 * line of it is printed: declares those that it uses. */
void tt_c_bases_announce(struct cprinter *, const struct tt_stmt *);
void tt_c_bases_declare(struct cprinter *);
/* "A[m * 64 + 8]", or "A_at[8]" where there is a pointer. */
const char *tt_c_element(struct cprinter *, const struct tt_tensor *,
                         const struct tt_expr *offset);

/* ---- cvec.c ---- */
const char *tt_c_vexpr(struct cprinter *, const struct tt_expr *, int prec);
/* A vector of 16-bit floats as it goes to memory. */
const char *tt_c_half_stored(struct cprinter *, const struct tt_expr *);

/* ---- cpart.c ---- */
/* Lanes of the C vector that holds so many: the next power of two. */
int tt_c_lanes(int lanes);
bool tt_c_is_part(int lanes);
/* Load or store the first n of the lanes of a vector of 4-byte or 8-byte
 * elements; what is loaded into the others is 0. */
const char *tt_c_part_load(struct cprinter *, enum tt_dtype, int lanes, int n,
                           const char *address);
const char *tt_c_part_store(struct cprinter *, enum tt_dtype, int lanes, int n,
                            const char *address, const char *value);

/* ---- ctrans.c ---- */
/* A function (to, to_stride, from, from_stride), strides in elements, that
 * copies `rows` rows of `cols` elements (4 or 8 bytes each) to `cols` rows of
 * `rows`. */
const char *tt_c_transpose_helper(struct cprinter *, enum tt_dtype, int rows,
                                  int cols);

/* ---- crows.c ---- */
/* How many items of a sequence, from the first on, store lanes of vectors to
 * places that differ by constants, each its own; -n: the next n do not. */
int tt_c_rows_run(struct cprinter *, const struct tt_stmt *seq, int first);
/* Prints these stores, transposed where lanes are neighbours in memory.  The
 * vectors have been declared. */
void tt_c_rows(struct cprinter *, int n, const struct tt_stmt *const *);

/* ---- chelp.c ---- */
/* Make sure that the helper is printed; returns the name to call. */
const char *tt_c_helper(struct cprinter *, const char *name);
/* A function that applies the node's operation lane by lane. */
const char *tt_c_lane_helper(struct cprinter *, const struct tt_expr *);
/* sqrdmulh and rdivp2 of whole vectors; NULL: another function. */
const char *tt_c_fixed_helper(struct cprinter *, const struct tt_expr *);
/* OpenCL C's own function of vectors of floats for the call; NULL: none. */
const char *tt_c_opencl_math(struct cprinter *, const struct tt_expr *);
/* min, max and select of whole vectors. */
const char *tt_c_vec_helper(struct cprinter *, const char *op, enum tt_dtype,
                            int lanes);
/* Makes a vector of elements `step` apart (-4..4, not 0 or 1) of a pointer to
 * the one at the lowest address.  What is read lies between the first and the
 * last of them. */
const char *tt_c_spread_helper(struct cprinter *, enum tt_dtype, int lanes,
                               int step);
/* A macro (type, x, y, i...): a choice among the elements of two vectors by
 * constants; `type` is that of the vector of constants. */
const char *tt_c_shuffle_helper(struct cprinter *);
const char *tt_c_add_helper(struct cprinter *, const char *name,
                            const char *text);
/* What takes or returns vectors is a macro, not a function: compilers warn of
 * the ABI of functions whose vectors are wider than the machine's.  `body`
 * has its lines ended by \n; its last one is the value.  The names in it begin
 * with tt_, so that no argument can mean one of them. */
const char *tt_c_vector_macro(struct cprinter *, const char *name,
                              const char *params, const char *body);
/* A macro that is `fast` where the condition of the preprocessor holds, and
 * `slow` elsewhere; both are expressions of the parameters. */
const char *tt_c_either(struct cprinter *, const char *name, const char *params,
                        const char *condition, const char *fast,
                        const char *slow);
/* A condition: the machine has the feature ("__AVX2__") and the compiler the
 * builtin. */
const char *tt_c_builtin_if(struct cprinter *, const char *feature,
                            const char *builtin);
/* The name that a helper gets in this file, and is it there already? */
const char *tt_c_helper_name(struct cprinter *, const char *name);
bool tt_c_has_helper(const struct cprinter *, const char *name);

/* ---- cdot.c ---- */
/* A sum of products of narrow integers (see dot.h); NULL: it is none. */
const char *tt_c_dot(struct cprinter *, const struct tt_expr *, int prec);

/* ---- cconv.c ---- */
/* A vector of numbers converted to another type, none a 16-bit float, not
 * from float to integer: as by __builtin_convertvector. */
const char *tt_c_convert(struct cprinter *, const char *text, enum tt_dtype to,
                         enum tt_dtype from, int lanes);
/* min or max of two vectors, x and y, by a builtin, and where there is one;
 * NULL: nowhere. */
const char *tt_c_extremum(struct cprinter *, const char *op, enum tt_dtype,
                          int lanes, const char **condition);
/* Floats to an integer type of at most 16 bits, saturated; NaN gives 0. */
const char *tt_c_saturate(struct cprinter *, const char *text, enum tt_dtype to,
                          int lanes);
/* Vectors of 16-bit floats: from memory to values, rounded to a value, and
 * rounded to memory. */
const char *tt_c_half_load(struct cprinter *, enum tt_dtype, const char *text,
                           int lanes);
const char *tt_c_half_round(struct cprinter *, enum tt_dtype, const char *text,
                            int lanes);
const char *tt_c_half_store(struct cprinter *, enum tt_dtype, const char *text,
                            int lanes);

/* ---- cstmt.c ---- */
void tt_c_line(struct cprinter *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void tt_c_stmt(struct cprinter *, const struct tt_stmt *);
void tt_c_comment(struct cprinter *, const char *text);
/* The statements of a block, already opened. */
void tt_c_block(struct cprinter *, const struct tt_stmt *);
/* Does an allocation, maybe the last statement of its block, open a block? */
bool tt_c_needs_block(const struct tt_stmt *, bool last);

/* ---- cintrin.c ---- */
/* Is the text of an intrin printed, or what it does alone? */
bool tt_c_has_intrin(const struct cprinter *, const struct tt_intrin *);
/* Instructions one after the other, of which the first is followed by such
 * ones as tt_c_same_run(). */
void tt_c_instructions(struct cprinter *, int n, const struct tt_stmt *const *);
bool tt_c_same_run(const struct tt_stmt *, const struct tt_stmt *);
/* Declares a local that is an intrin's registers; `start`: how it is
 * initialized where it is an array. */
void tt_c_fragments(struct cprinter *, const struct tt_tensor *,
                    const char *name, const char *start);

/* ---- gpuprint.c ---- */
/* What comes before the statement: a barrier. */
void tt_gpu_before(struct cprinter *, const struct tt_stmt *);
/* Declares a local that is each thread's own where threads are loops further
 * in; false: it is a local like any other. */
bool tt_gpu_private(struct cprinter *, const struct tt_tensor *);
/* Is the compiler told to unroll the loop? */
bool tt_gpu_unrolls(const struct cprinter *, const struct tt_stmt *);
/* A loop over blocks or threads. */
void tt_gpu_loop(struct cprinter *, const struct tt_stmt *);

/* ---- gpucopy.c ---- */
/* Prints a store that is an asynchronous copy; false: it is none. */
bool tt_gpu_copy(struct cprinter *, const struct tt_stmt *);

/* ---- cprint.c ---- */
/* Prints the kernel's functions (static when `internal`) and what they need
 * before them into `out`. */
const char *tt_c_kernel(struct tt_arena *, const struct tt_nest *,
                        const struct tt_codegen_options *, bool internal,
                        struct tt_code_sizes *, struct tt_sb *out);
/* Parameters of NAME or NAME_prepare for a prototype, without parentheses;
 * `name` is the kernel's, which no parameter takes. */
const char *tt_c_prototype(struct tt_arena *, const struct tt_program *,
                           const struct tt_codegen_options *, const char *name,
                           bool prepare);
const char *tt_c_upper(struct tt_arena *, const char *name);
/* Prints the helpers and the tables of constants that have been used. */
void tt_c_definitions(struct cprinter *);
/* Is there a word that begins so in the text? */
bool tt_c_has_word(const char *text, const char *word);
bool tt_has_weights(const struct tt_program *);

#endif
