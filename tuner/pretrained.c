/* The learned cost that ships with the tool: the trees of boosted trees as
 * constants, which bench/pretrain/train wrote.  They are walked here, so that
 * scores are the same whatever XGBoost is installed.
 *
 * Invariant: the children of a node are beside each other and after it, in
 * the same tree; a feature is below the width of a row.  test_pretrained
 * looks.
 */
#include "config.h"
#include "tuner/pretrained.h"

#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"

/* An inner node: below the threshold it is the child `next` after it, else
 * the one after that.  A leaf: next is 0, and `value` its part of the score.
 * Before each tree, in place of a feature: how many nodes it has. */
struct node {
  short feature, next;
  float value;
};

#define TT_PRETRAINED(version, width)
#define TT_TREE(count) {count, 0, 0},
#define TT_SPLIT(feature, threshold, next) {feature, next, threshold},
#define TT_LEAF(value) {0, 0, value},
static const struct node nodes[] = {
#include "tuner/pretrained.def"
};
#undef TT_PRETRAINED
#undef TT_TREE
#undef TT_SPLIT
#undef TT_LEAF

/* What it was trained on. */
#define TT_PRETRAINED(version, width) MADE_FOR = version, MADE_WIDTH = width,
#define TT_TREE(count)
#define TT_SPLIT(feature, threshold, next)
#define TT_LEAF(value)
enum {
#include "tuner/pretrained.def"
  NNODES = sizeof nodes / sizeof *nodes
};
#undef TT_PRETRAINED
#undef TT_TREE
#undef TT_SPLIT
#undef TT_LEAF

struct pretrained {
  struct tt_cost_model base;
};

static bool
no_fit(struct tt_cost_model *model, const struct tt_fit *f, const char **error)
{
  (void)model, (void)f;
  *error = "the model that ships is not fitted";
  return false;
}

static float
score(const float *row)
{
  float sum = 0;

  for (int i = 0; i < NNODES; i += 1 + nodes[i].feature) {
    const struct node *n = &nodes[i + 1];
    while (n->next != 0)
      n += row[n->feature] < n->value ? n->next : n->next + 1;
    sum += n->value;
  }
  return sum;
}

static bool
predict(struct tt_cost_model *model, int n, int width, const float *rows,
        float *scores, const char **error)
{
  (void)model;
  if (width != MADE_WIDTH) {
    *error = "the model that ships is for rows of another width";
    return false;
  }
  for (int i = 0; i < n; i++)
    scores[i] = score(rows + (size_t)i * (size_t)width);
  return true;
}

static void
release(struct tt_cost_model *model)
{
  free(model);
}

struct tt_cost_model *
tt_pretrained_new(enum tt_features_kind kind,
                  const struct tt_target_model *target)
{
  static const struct tt_cost_ops ops = {"pretrained", no_fit, predict,
                                         release};
  struct pretrained *p;

  if (kind != TT_FEATURES_RELATION || MADE_FOR != TT_FEATURES_VERSION ||
      MADE_WIDTH != tt_features_width(kind, NULL) ||
      target->vector_bytes == 0 || target->threads > 1)
    return NULL;
  p = tt_xmalloc(sizeof *p);
  p->base.ops = &ops;
  return &p->base;
}
