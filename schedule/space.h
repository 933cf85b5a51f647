/* The rules of the derived space, between space.c (which derives them from a
 * program) and space_apply.c (which makes schedules of configurations). */
#ifndef TT_SPACE_H
#define TT_SPACE_H

#include "schedule/analysis.h"
#include "schedule/state.h"

#define TT_MAX_AXES 3     /* candidates for the vector or row axis */
#define TT_MAX_OPERANDS 4 /* that can be packed */
#define TT_MAX_KNOBS 96

enum tt_rule_kind {
  TT_TILED,
  TT_REDUCTION,
  TT_TRANSFORM,
  TT_PRODUCT,
  TT_ELEMENTWISE
};

/* A sum over short axes of entries of constant tables times one operand. */
struct tt_transform {
  const struct tt_expr *operand; /* its load */
  int ntables;
  const struct tt_expr *table[TT_MAX_ACCESSES]; /* their loads */
  int64_t unroll[TT_MAX_DIMS]; /* by spatial axis: innermost iterations that
                                  are unrolled; 0: none */
  int vec;                     /* the axis of vectors */
  int dim;                     /* the operand's dimension that is that axis */
  int attach;                  /* the transform that alone reads it; -1 */
  bool padded; /* the operand is read outside, with one border value */
  int k_place;
};

/* A sum of products of an operand that has the axis of vectors, and one that
 * does not and gives rows. */
struct tt_product {
  const struct tt_expr *vectors, *rows; /* loads */
  int vec, kaxis;
  int dim;      /* the dimension of `vectors` that is the axis of vectors */
  int64_t step; /* rows of a tile are a multiple of this */
  /* By spatial axis: iterations written out outside the tile; 0: none.  And
   * the axes of the sum but `kaxis`. */
  int64_t phase[TT_MAX_DIMS];
  bool unroll_sum;
  bool alone;  /* no transform reads it */
  bool padded; /* `rows` is read outside, with one border value */
  int nrow, row[TT_MAX_DIMS]; /* axes that make the rows */
  int64_t mr, nr;             /* the tile by default: rows, vectors */
};

/* What the threads of a tiled stage share. */
enum tt_parts { TT_PART_OTHERS, TT_PART_ROWS, TT_PART_VECTORS, TT_NPARTS };

/* Positions of knobs in the space; -1: no choice, the default is taken. */
struct tt_rule {
  enum tt_rule_kind kind;
  bool open; /* has knobs */
  int stage;
  /* TT_TILED */
  int nvec, vec[TT_MAX_AXES];
  int nrow, row[TT_MAX_AXES + 1]; /* -1: no row axis */
  int kaxis;                      /* the reduction axis that is blocked; -1 */
  int epilogue; /* elementwise stage it can be fused into; -1 */
  int noperands;
  const struct tt_tensor *operand[TT_MAX_OPERANDS];
  struct tt_access access[TT_MAX_OPERANDS]; /* how it is read */
  int k_vec, k_row, k_mr, k_nr, k_mc, k_nc, k_kc, k_ku, k_order, k_fuse, k_par;
  int k_pad;
  int k_pack[TT_MAX_OPERANDS];
  int64_t reuse[TT_MAX_OPERANDS]; /* how often each element is read by points
                                  that differ in axes it does not depend on */
  bool fixed[TT_MAX_OPERANDS];    /* the same on every call */
  bool padded[TT_MAX_OPERANDS];   /* is read outside, with one border value */
  bool shrinks; /* points outside can be left out of the reduction */
  int group;    /* products of neighbours to be summed at once; 0: none */
  int k_group;
  /* TT_REDUCTION, and TT_TILED where `k_style` chooses so */
  bool rows; /* the default is along a row */
  int rrow;  /* several rows at once along this axis; -1 */
  int vred;  /* reduction axis read with unit stride; -1 */
  int k_style, k_rmr, k_rw;
  /* TT_ELEMENTWISE */
  int consumer; /* the last stage that reads it */
  int k_place, k_width;
  int place;       /* the default: 1 inlined, 0 not */
  int wrow, wrows; /* axis along which windows overlap, or -1, and how many
                      of its iterations are done at once by default */
  int k_wrows;
  /* TT_TILED: the elementwise stage that can take its sums from the
   * registers, through those in between, and the calls in these; -1 */
  int finish, finish_calls;
  /* The stage in whose outer loops it can be computed, or itself, and how many
   * of its axes these are. */
  int owner, share;
  /* Of an owner: how many axes its group shares; iterations at once. */
  int depth, block, k_depth, k_block;
  struct tt_transform transform; /* TT_TRANSFORM */
  struct tt_product product;     /* TT_PRODUCT; its tile: k_mr, k_nr */
};

/* The stages that read a tensor: how many, and the last of them. */
struct tt_readers {
  int n, last;
};

struct tt_rules {
  struct tt_arena *arena;
  const struct tt_program *program; /* with the parts of sums, if any */
  struct tt_schedule *start;        /* what every schedule begins with */
  bool *in_parts; /* by stage: its first axis is shared by threads alone */
  struct tt_target_model target;
  bool strict_fp;
  struct tt_rule *rule;      /* by stage */
  struct tt_readers *reader; /* by tensor */
  struct tt_schedule *trial; /* to ask primitives what they would refuse */
  struct tt_space *space;
  int *defaults; /* index of the default value, by knob */
};

/* Is the tensor a weight, or computed from weights ahead of time? */
bool tt_space_is_fixed(const struct tt_program *, const struct tt_tensor *);

/* space_transform.c: is the stage a transform, or a product that one reads?
 * The rules of later stages are complete. */
bool tt_derive_transform(struct tt_rules *, struct tt_rule *,
                         const struct tt_stage *);
bool tt_derive_lone_product(struct tt_rules *, struct tt_rule *,
                            const struct tt_stage *);
bool tt_apply_transform(struct tt_schedule *, const struct tt_rules *,
                        const int *config, const struct tt_rule *);
bool tt_apply_product(struct tt_schedule *, const struct tt_rules *,
                      const int *config, const struct tt_rule *);
/* Lanes of a vector of the stage's widest type; 0: no vectors. */
int tt_space_lanes(const struct tt_rules *, const struct tt_stage *);
int64_t tt_space_extent(const struct tt_stage *, int axis);
/* A new knob, named after the stage; -1: there is no choice. */
int tt_space_knob(struct tt_rules *, int stage, const char *what,
                  enum tt_knob_kind, int n, const int64_t *values,
                  int64_t preferred);
/* The same for a choice of n. */
int tt_space_choice(struct tt_rules *, int stage, const char *what, int n,
                    int preferred);
/* The elementwise stage that alone reads this one, point by point; or -1. */
int tt_space_epilogue(const struct tt_rules *, int stage);

/* ---- sums in parts (space_parts.c) ---- */

/* Choose the reductions that are summed in parts, and make the program with
 * these the one of the rules. */
void tt_parts_derive(struct tt_rules *);
/* A new schedule of that program. */
struct tt_schedule *tt_parts_schedule(struct tt_arena *,
                                      const struct tt_rules *);

/* ---- chains of stages (space_chain.c) ---- */

/* The stage that can finish a reduction (tt_finish), the last of a chain that
 * begins at its epilogue; -1: none. */
int tt_chain_finish(const struct tt_rules *, int stage, int epilogue,
                    int *calls);
/* Is an elementwise stage better computed where the one that alone reads it
 * needs it? */
bool tt_chain_inlines(const struct tt_rules *, int stage);
/* The axis before the last along which an elementwise stage reads overlapping
 * windows, or the same vectors again: what neighbours read is then shared; or
 * -1.  *rows: how many
 * neighbours at once. */
int tt_chain_window(const struct tt_rules *, int stage, int *rows);
/* How the epilogue of a tiled reduction is computed by default: 0 after it, 1
 * by blocks, 2 from the registers. */
int tt_chain_fuses(const struct tt_rules *, const struct tt_rule *,
                   bool whole_copies);
/* Inline those in between and finish; marks all of them done. */
bool tt_chain_apply_finish(const struct tt_rules *, struct tt_schedule *,
                           int stage, int last, bool *done);
/* Find the groups, with their knobs, when all rules are derived. */
void tt_chain_derive(struct tt_rules *);
/* How many axes the stage shares with its owner in this configuration. */
int tt_chain_depth(const struct tt_rules *, const int *config, int stage);
/* Compute the stages of groups in the loops of their owners; stages have
 * their own schedules by then. */
void tt_chain_place(const struct tt_rules *, const int *config,
                    struct tt_schedule *);

static inline int64_t
min64(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

static inline int64_t
ceildiv(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

#endif
