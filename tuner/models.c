/* Which learned cost a search has, by its options. */
#include "config.h"
#include "tuner/experience.h"
#include "tuner/pretrained.h"
#include "tuner/tune.h"

enum {
  MEMBERS = 5, /* bootstrapped models of an acquisition */
  /* Trees of a model of many programs: with those of one program's model the
   * first batch was clearly worse, larger ones gained nothing. */
  GLOBAL_ROUNDS = 100,
  GLOBAL_DEPTH = 4
};

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

/* The sum is inside of each member of an ensemble: where members disagree is
 * what matters, and theirs are scores of whole candidates. */
static struct tt_cost_model *
beside(struct tt_cost_model *global, struct tt_cost_model *local)
{
  return global != NULL && local != NULL ? tt_transfer_new(global, local)
                                         : local;
}

struct tt_cost_model *
tt_tune_model(const struct tt_tune_options *o, struct tt_cost_model *global,
              const char **error)
{
  struct tt_cost_model *members[MEMBERS];

  *error = NULL;
  if (o->acquisition == TT_MEAN || o->model == TT_MODEL_NONE)
    return beside(global, one(o, (unsigned)o->seed, error));
  for (int i = 0; i < MEMBERS; i++) {
    unsigned seed = (unsigned)o->seed * MEMBERS + (unsigned)i;
    members[i] = beside(global, one(o, seed, error));
    if (members[i] != NULL)
      continue;
    while (i-- > 0)
      members[i]->ops->free(members[i]);
    return NULL;
  }
  return tt_ensemble_new(o->acquisition, MEMBERS, members, o->seed);
}

/* A row of knobs means something for one program alone. */
static bool
can_transfer(const struct tt_tune_options *o)
{
  return !o->no_transfer && o->search != TT_SEARCH_RANDOM &&
         o->model != TT_MODEL_NONE && tt_tune_features(o) != TT_FEATURES_CONFIG;
}

/* A model of the history's records. */
static struct tt_cost_model *
of_history(const struct tt_tune_options *o, struct tt_tuned *out,
           const char **error)
{
  struct tt_experience_query q = {.workload = &o->workload,
                                  .any_target = o->transfer_any,
                                  .features = tt_tune_features(o),
                                  .target = &o->target,
                                  .strict_fp = o->strict_fp,
                                  .most = TT_EXPERIENCE_MOST};
  struct tt_cost_model *model = NULL;
  struct tt_experience e;

  if (tt_experience_load(o->history, &q, &e, error) &&
      e.fit.n >= TT_EXPERIENCE_LEAST)
    model = one(o, (unsigned)o->seed, error);
  if (model != NULL && o->model == TT_MODEL_GBT)
    tt_gbt_size(model, GLOBAL_ROUNDS, GLOBAL_DEPTH);
  if (model != NULL && !model->ops->fit(model, &e.fit, error)) {
    model->ops->free(model);
    model = NULL;
    *error = "has records that no model could be fitted to";
  }
  if (model != NULL) {
    out->learned_records = e.fit.n;
    out->learned_programs = e.nprograms;
  }
  tt_experience_free(&e);
  return model;
}

struct tt_cost_model *
tt_tune_global(const struct tt_tune_options *o, struct tt_tuned *out,
               const char **error)
{
  struct tt_cost_model *model = NULL;

  *error = NULL;
  if (!can_transfer(o))
    return NULL;
  if (o->history != NULL)
    model = of_history(o, out, error);
  if (model == NULL && o->model == TT_MODEL_GBT && o->objective == TT_RANK) {
    model = tt_pretrained_new(tt_tune_features(o), &o->target);
    out->pretrained = model != NULL;
  }
  return model;
}
