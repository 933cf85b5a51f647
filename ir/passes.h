/* Analyses and passes over the IR, each in a file of its own. */
#ifndef TT_PASSES_H
#define TT_PASSES_H

#include "ir/ir.h"

/* ---- interval.c -------------------------------------------------------- */

/* A closed interval of i64; `ok` false: nothing is known.  lo > hi: the facts
 * contradict each other, the place is never reached. */
struct tt_interval {
  bool ok;
  int64_t lo, hi;
};
/* Facts that hold in a scope beside 0 <= v < extent: a chain of conditions,
 * innermost first.  NULL: none. */
struct tt_facts {
  const struct tt_facts *outer;
  const struct tt_expr *cond; /* known to be true */
  bool negated;               /* known to be false instead */
};
/* Bounds of an integer or index expression over all variables, refined by
 * facts (comparisons of affine forms with constants or each other, &&). */
struct tt_interval tt_bounds(const struct tt_expr *, const struct tt_facts *);
/* 1: always true, 0: always false, -1: not known. */
int tt_prove(const struct tt_expr *cond, const struct tt_facts *);

/* ---- affine.c ---------------------------------------------------------- */

/* c0 + sum coef[i]*term[i]; terms are variables or opaque subexpressions
 * (div, mod, min, ...), distinct, in a canonical order. */
struct tt_affine {
  int64_t c0;
  int n;
  const struct tt_expr **term;
  int64_t *coef; /* none is 0 */
};
/* Decompose a scalar i64 expression; always succeeds. */
struct tt_affine tt_affine_of(struct tt_arena *, const struct tt_expr *);
const struct tt_expr *tt_affine_expr(struct tt_arena *,
                                     const struct tt_affine *);
/* A total order, the same in every run: variables by id first, then by
 * structure.  0 exactly when tt_expr_equal(). */
int tt_expr_compare(const struct tt_expr *, const struct tt_expr *);
/* Coefficient of a variable if the expression is affine in it: *coef is set
 * (0 when it does not occur) and true returned; false if it stands inside an
 * opaque term. */
bool tt_affine_coef(struct tt_arena *, const struct tt_expr *,
                    const struct tt_var *, int64_t *coef);
/* a - b when that is a constant. */
bool tt_const_difference(struct tt_arena *, const struct tt_expr *a,
                         const struct tt_expr *b, int64_t *out);

/* ---- simplify.c -------------------------------------------------------- */

/* An equal expression in canonical form: constants folded with the
 * language's arithmetic, affine parts normalized, (a*c+b)/c and %c reduced by
 * intervals, conditions proven, selects chosen, x*0 (integers; floats too:
 * constant tables, see below), x*1, x+0 removed.  Idempotent.
 * For floats, x*0 is folded to 0 only when 0 is a literal from a constant
 * table or source, which the language permits; x*1, x*-1 always. */
const struct tt_expr *tt_simplify(struct tt_arena *, const struct tt_expr *,
                                  const struct tt_facts *);
/* The same for every expression of a statement; loops of extent 1 are
 * replaced by their body, proven ifs by the branch, conditions become facts. */
const struct tt_stmt *tt_simplify_stmt(struct tt_arena *,
                                       const struct tt_stmt *);

/* ---- factor.c ---------------------------------------------------------- */

/* Split sums over several axes of products whose factors depend on different
 * ones into sums one after the other, where that saves half of the work or
 * more: sum[i,j](A[i] * B[j] * X[i,j]) is sum[j](B[j] * sum[i](A[i] *
 * X[i,j])).  The new stages are called NAME_part.  Changes the program; sums
 * of floats are left alone with `strict_fp`. */
void tt_factor_sums(struct tt_program *, bool strict_fp);

/* ---- residue.c --------------------------------------------------------- */

/* Where a reduction's condition is a congruence that gives one of its axes,
 * (e - r) % c == k, that axis runs over the solutions alone.  Changes the
 * program; results are the same to the last bit. */
void tt_solve_congruences(struct tt_program *);

/* ---- verify.c ---------------------------------------------------------- */

/* NULL if well formed, else what is wrong (owned by the arena).  Programs:
 * types agree, stages only read what is defined before, every access is
 * proven inside its tensor under its guards.  Statements: the same, every
 * variable bound by an enclosing loop, no two live loops with one variable,
 * locals allocated around their uses, registers indexed by constants
 * (`unrolled`: after unrolling). */
const char *tt_verify_program(struct tt_arena *, const struct tt_program *);
const char *tt_verify_stmt(struct tt_arena *, const struct tt_stmt *,
                           bool unrolled);

/* ---- dump.c ------------------------------------------------------------ */

void tt_dump_expr(struct tt_sb *, const struct tt_expr *);
void tt_dump_program(struct tt_sb *, const struct tt_program *);
void tt_dump_stmt(struct tt_sb *, const struct tt_stmt *, int indent);

/* ---- interp.c ---------------------------------------------------------- */

/* Values of tensors, by tensor: doubles for floats, i64 for the rest, each
 * rounded or wrapped to its type when stored. */
struct tt_values;
struct tt_values *tt_values_new(void);
void tt_values_free(struct tt_values *);
/* The elements of a float (f) or integer (i) tensor, allocated and zeroed on
 * first use; owned by `values`.  Exactly one of the two results is non-NULL. */
void tt_values_of(struct tt_values *, const struct tt_tensor *, double **f,
                  int64_t **i);
/* Fill all inputs and weights: floats are random multiples of 1/64 in -2..2
 * (sums of products stay exact), integers are uniform in their declared
 * range or type (indices stay legal); a function of seed, tensor position
 * and element alone.  The runner uses the same generator: */
uint64_t tt_random_bits(uint64_t seed, uint32_t tensor, uint64_t element);
double tt_random_float(uint64_t bits);
int64_t tt_random_int(uint64_t bits, const struct tt_tensor *);
void tt_values_random(struct tt_values *, const struct tt_program *,
                      uint64_t seed);
/* Run all stages in order: the oracle.  NULL or an error text (an indirect
 * index outside its tensor), owned by `values`. */
const char *tt_interpret_program(const struct tt_program *, struct tt_values *);
/* One element of a stage's result, computing only what it depends on (memoized
 * in `values`, which holds inputs and weights): to check large programs at a
 * sample of points.  NaN if that cannot be computed.  Results that
 * tt_interpret_program() left in `values` are used; inputs must not change
 * between calls. */
double tt_interpret_point(const struct tt_program *, struct tt_values *,
                          const struct tt_tensor *, const int64_t *index);
/* Run a loop nest: prepare (if any), then body; all loops one after the other
 * (parallel ones backwards).  Checks every index against its tensor, that no
 * element is read before it is written (locals start afresh when they are
 * allocated) and that every element of every output gets written.  NULL or an
 * error text owned by `values`, in which outputs and temps are left. */
const char *tt_interpret_nest(const struct tt_nest *, struct tt_values *);

#endif
