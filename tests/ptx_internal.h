/* What the parts of the interpreter of PTX share. */
#ifndef TT_TESTS_PTX_INTERNAL_H
#define TT_TESTS_PTX_INTERNAL_H

#include "tests/ptx.h"

enum ptx_class { PTX_BITS, PTX_UNSIGNED, PTX_SIGNED, PTX_FLOAT, PTX_BRAIN };

/* f16x2 is 32 bits of which each lane is f16. */
struct ptx_type {
  enum ptx_class class;
  int bits; /* 1: a predicate; 0: no type */
  bool pair;
};

enum ptx_space {
  PTX_GENERIC,
  PTX_GLOBAL,
  PTX_SHARED,
  PTX_LOCAL,
  PTX_PARAM,
  PTX_CONST
};

enum { PTX_MAX_OPERANDS = 8, PTX_MAX_WORDS = 14, PTX_MAX_VECTOR = 8 };

enum ptx_kind {
  PTX_REGISTER,
  PTX_VALUE,  /* of an immediate, or the address of a variable */
  PTX_MEMORY, /* value + register (if >= 0) */
  PTX_VECTOR_OF,
  PTX_SPECIAL, /* %tid.x ... */
  PTX_NAME,    /* of a function */
  PTX_NOTHING  /* _ */
};

struct ptx_operand {
  enum ptx_kind kind;
  int reg;
  bool negated;         /* !%p1 */
  uint64_t value;       /* of PTX_SPECIAL: which */
  enum ptx_space space; /* of a variable */
  int n;
  const struct ptx_operand *items;
  const char *name;
};

/* What the first word of a name says, as far as it is asked often. */
enum ptx_op {
  PTX_OTHER,
  PTX_BRA,
  PTX_RET,
  PTX_ADD,
  PTX_SUB,
  PTX_MUL,
  PTX_MAD,
  PTX_FMA,
  PTX_DIV,
  PTX_REM,
  PTX_MIN,
  PTX_MAX,
  PTX_AND,
  PTX_OR,
  PTX_XOR,
  PTX_NOT,
  PTX_NEG,
  PTX_ABS,
  PTX_SHL,
  PTX_SHR
};

struct thread;
struct ptx_instruction;
/* NULL, or what is wrong. */
typedef const char *ptx_fn(struct thread *, const struct ptx_instruction *);

struct ptx_instruction {
  const char *text; /* where it begins in the file */
  int guard;        /* register of the predicate, or -1 */
  bool guard_negated;
  int nwords;
  const char *words[PTX_MAX_WORDS]; /* of the name, between its dots */
  enum ptx_op op;
  ptx_fn *fn; /* of one thread */
  bool warp;  /* of a warp */
  int ntypes;
  struct ptx_type types[4]; /* in the order in which they are written */
  enum ptx_space space;
  int vector;   /* .v2, .v4; else 1 */
  int rounding; /* of fenv.h */
  bool sat, relu, high, wide;
  int target; /* of a branch */
  int n;
  struct ptx_operand operands[PTX_MAX_OPERANDS];
};

/* A variable of memory. */
struct ptx_variable {
  const char *name;
  enum ptx_space space;
  int64_t bytes, offset; /* inside its space; of globals: unused */
  uint8_t *data;         /* of globals and constants */
  bool dynamic;
};

struct ptx_function {
  const char *name;
  bool entry;
  int nregisters;
  int nparams, nresults;
  const struct ptx_variable *params, *results;
  int64_t shared, local, param; /* bytes */
  int n;
  const struct ptx_instruction *code;
};

struct ptx_module {
  int nfunctions;
  const struct ptx_function *functions;
  int nvariables;
  const struct ptx_variable *variables;
  bool dynamic; /* there is dynamic shared memory */
};

const struct ptx_function *ptx_function(const struct ptx_module *,
                                        const char *name);

/* ---- running ----------------------------------------------------------- */

struct region {
  uint8_t *data;
  int64_t bytes;
};

enum state { RUNS, AT_BARRIER, AT_WARP, ENDED };

/* An asynchronous copy on its way. */
struct copy {
  uint8_t *to;
  const uint8_t *from;
  int bytes, fill; /* `fill` bytes of zero behind them */
  int group;       /* -1: not committed */
};

struct block;

/* The registers of a function that runs. */
struct frame {
  const struct ptx_function *function;
  uint64_t *registers;
  uint8_t *param, *local;
};

struct thread {
  struct block *block;
  struct frame frame;
  int id[3], number;
  int at; /* instruction */
  enum state state;
  TT_VEC(struct copy) copies;
  int groups; /* committed */
};

struct block {
  struct tt_arena *arena;
  const struct ptx_module *module;
  const struct ptx_launch *launch;
  const struct ptx_function *function;
  enum ptx_order order;
  int id[3];
  struct region shared;
  int nthreads;
  struct thread *threads;
};

bool ptx_has(const struct ptx_instruction *, const char *word);
/* Type i of the instruction, the last one where it has fewer. */
struct ptx_type ptx_type(const struct ptx_instruction *, int i);
/* Bits beyond the type's are zero, or copies of the sign. */
uint64_t ptx_extend(struct ptx_type, uint64_t);
/* The bits of an operand, extended as the type says. */
uint64_t ptx_get(const struct thread *, const struct ptx_operand *,
                 struct ptx_type);
double ptx_get_float(const struct thread *, const struct ptx_operand *,
                     struct ptx_type);
void ptx_set(struct thread *, const struct ptx_operand *, struct ptx_type,
             uint64_t bits);
void ptx_set_float(struct thread *, const struct ptx_operand *, struct ptx_type,
                   double);
uint64_t ptx_float_bits(struct ptx_type, double);
double ptx_bits_float(struct ptx_type, uint64_t);
/* Where an address of that space lies; NULL: *error says what is wrong. */
uint8_t *ptx_at(const struct thread *, enum ptx_space, uint64_t address,
                int bytes, const char **error);
/* The address of a PTX_MEMORY operand. */
uint64_t ptx_address(const struct thread *, const struct ptx_operand *);

/* What executes the instruction; false: there is none of that name. */
bool ptx_find(struct ptx_instruction *); /* arithmetic and moves */
bool ptx_find_memory(struct ptx_instruction *);
bool ptx_find_warp(struct ptx_instruction *);
/* One instruction of all threads of a warp. */
const char *ptx_run_warp(struct thread *lanes, const struct ptx_instruction *);
/* A function of one thread, in its own frame. */
const char *ptx_call(struct thread *, const struct ptx_instruction *);

#endif
