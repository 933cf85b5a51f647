/* Which learned cost a search has, by its options. */
#include "config.h"
#include "tuner/tune.h"

enum { MEMBERS = 5 }; /* bootstrapped models of an acquisition */

enum tt_features_kind
tt_tune_features(const struct tt_tune_options *o)
{
  return o->model == TT_MODEL_TREEGRU ? TT_FEATURES_TREE : o->features;
}

static struct tt_cost_model *
one(const struct tt_tune_options *o, unsigned seed, const char **error)
{
  switch (o->model) {
  case TT_MODEL_GBT:
    return tt_gbt_new(o->objective, 1, seed, error);
  case TT_MODEL_TREEGRU:
    return tt_treegru_new(o->objective, seed, error);
  case TT_MODEL_NONE:
    break;
  }
  return NULL;
}

struct tt_cost_model *
tt_tune_model(const struct tt_tune_options *o, const char **error)
{
  struct tt_cost_model *members[MEMBERS];

  *error = NULL;
  if (o->acquisition == TT_MEAN || o->model == TT_MODEL_NONE)
    return one(o, (unsigned)o->seed, error);
  for (int i = 0; i < MEMBERS; i++) {
    members[i] = one(o, (unsigned)o->seed * MEMBERS + (unsigned)i, error);
    if (members[i] != NULL)
      continue;
    while (i-- > 0)
      members[i]->ops->free(members[i]);
    return NULL;
  }
  return tt_ensemble_new(o->acquisition, MEMBERS, members, o->seed);
}
