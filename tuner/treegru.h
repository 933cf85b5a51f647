/* The network of a TreeGRU, apart from its training (treegru.c). */
#ifndef TT_TREEGRU_H
#define TT_TREEGRU_H

#include "tuner/model.h"

enum {
  TT_GRU_HIDDEN = 32, /* floats of a loop's state */
  TT_GRU_SLOTS = 8    /* vectors that states are scattered to */
};

/* A batch of loop trees, their nodes ordered by height: leaves first. */
struct tt_trees;
/* From n rows of TT_FEATURES_TREE; inputs become (x - shift) * scale, each
 * TT_TREE_INPUTS.  Sizes are those of the rows. */
struct tt_trees *tt_trees_new(int n, const float *rows, const float *shift,
                              const float *scale);
void tt_trees_free(struct tt_trees *);

/* Floats in the vector of parameters. */
int tt_treegru_params(void);
/* Parameters to begin with. */
void tt_treegru_init(uint64_t *random, float *params);
/* The score of each tree. */
void tt_treegru_forward(const float *params, struct tt_trees *, float *scores);
/* Adds the gradient of sum(slopes[i] * score[i]) after a forward pass with
 * the same parameters. */
void tt_treegru_backward(const float *params, struct tt_trees *,
                         const float *slopes, float *gradient);
/* The mean loss of the scores, and its slope by each of them. */
double tt_treegru_loss(enum tt_objective, int n, const float *scores,
                       const float *labels, float *slopes);

#endif
