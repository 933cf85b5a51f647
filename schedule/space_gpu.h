/* What a space for GPUs knows of a program, between space_gpu.c, which finds it
 * out, and space_gpu_apply.c, which makes schedules of it. */
#ifndef TT_SPACE_GPU_H
#define TT_SPACE_GPU_H

#include "schedule/analysis.h"
#include "schedule/state.h"

enum {
  TT_GPU_MAX_AXES = 3,     /* candidates for vectors and rows */
  TT_GPU_MAX_OPERANDS = 4, /* that can be laid out anew */
  TT_GPU_MAX_INTRINS = 4,
  TT_GPU_WARP_KNOBS = 7
};

/* Positions of knobs; -1: no choice. */
struct tt_gpu_rule {
  bool tiled; /* on a CPU */
  bool grid;  /* on other devices */
  /* rows and columns of a tile: virtual threads, threads, a run of each */
  int k_rvthreads, k_cvthreads, k_rrun, k_crun, k_rthreads, k_cthreads, k_steps;
  int k_splitk, k_share[2], k_stages, k_banks;
  const struct tt_intrin *dot; /* that a thread can use */
  int k_dot;
  int nintrins;
  const struct tt_intrin
      *intrin[TT_GPU_MAX_INTRINS];          /* that can do the inside */
  int k_intrin, k_warps[TT_GPU_WARP_KNOBS]; /* as in tt_gpu_warps */
  int nvec, vec[TT_GPU_MAX_AXES], nrow, row[TT_GPU_MAX_AXES];
  unsigned pads;     /* axes that can be rounded up, a bit each */
  unsigned vec_pads; /* vectors, too: copies with a border are read lane by
                        lane where these are not whole */
  int noperands;
  const struct tt_tensor *operand[TT_GPU_MAX_OPERANDS];
  struct tt_access access[TT_GPU_MAX_OPERANDS];
  bool padded[TT_GPU_MAX_OPERANDS];
  int k_vec, k_row, k_mr, k_nr, k_threads, k_fast, k_ku, k_finish;
  int k_pack[TT_GPU_MAX_OPERANDS];
};

struct tt_gpu_rules {
  struct tt_arena *arena;
  const struct tt_program *program;
  struct tt_target_model target;
  bool strict_fp;
  struct tt_gpu_rule *rule; /* by stage */
  struct tt_space *space;
  int *defaults;
};

/* How rows of shared copies are kept off each other's banks: the values of that
 * knob. */
enum { TT_GPU_BANKS = 4 };
extern const struct tt_staging tt_gpu_banks_of[TT_GPU_BANKS];

/* Of an axis of the stage: spatial ones first, then those of the reduction. */
int64_t tt_gpu_extent_of(const struct tt_stage *, int axis);
/* Lanes of vectors along the axis; 0: it has none. */
int tt_gpu_lanes_along(const struct tt_gpu_rules *, const struct tt_gpu_rule *,
                       const struct tt_stage *, int axis);

static inline int64_t
tt_min64(int64_t a, int64_t b)
{
  return a < b ? a : b;
}

#endif
