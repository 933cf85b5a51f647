/* Features of a schedule (section 3.1 and the supplement: loop context and
 * context relations), from the schedule's data, without lowering. */
#ifndef TT_FEATURES_H
#define TT_FEATURES_H

#include "schedule/schedule.h"

/* Changes whenever width or meaning of a representation does: what is stored
 * of rows or models has it. */
#define TT_FEATURES_VERSION 2

/* How a schedule is told to a model:
 * relation: numbers about the whole, and context relations: they mean the
 *   same for every program;
 * context: numbers about the whole, and the contexts of the innermost loops
 *   of the dearest stage one after the other;
 * config: the value of each knob, as the space has them: they mean something
 *   for one program alone;
 * tree: the contexts of all loops and how they are nested, for a TreeGRU. */
enum tt_features_kind {
  TT_FEATURES_RELATION,
  TT_FEATURES_CONTEXT,
  TT_FEATURES_CONFIG,
  TT_FEATURES_TREE
};

/* A row of loops: their number n, and for each, outer ones first, the
 * position of the loop around it (-1: none) and its inputs. */
enum {
  TT_TREE_NODES = 40,  /* at most: of the last stages */
  TT_TREE_INPUTS = 24, /* of a loop */
  TT_TREE_NODE = 1 + TT_TREE_INPUTS,
  TT_TREE_WIDTH = 1 + TT_TREE_NODES * TT_TREE_NODE
};

/* Floats of a row; the space is asked only for its knobs. */
int tt_features_width(enum tt_features_kind, const struct tt_space *);
/* Fill a row.  config: the schedule's configuration; NULL if it has none in
 * this space: then a row of knobs is NaN.  All others are finite. */
void tt_features(enum tt_features_kind, const struct tt_schedule *,
                 const struct tt_target_model *, const struct tt_space *,
                 const int *config, float *row);
/* Copies of statements that the code will have: unrolled, in vectors, and in
 * the nests of remainders.  The time of a build grows with them. */
double tt_code_copies(const struct tt_schedule *);
/* How many the code of a candidate may have, given the default schedule (NULL:
 * there is none): more take too long to build. */
double tt_most_copies(const struct tt_schedule *initial);

#endif
