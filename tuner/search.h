/* Searching the space S_e: which configurations to measure next. */
#ifndef TT_SEARCH_H
#define TT_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tuner/model.h"

/* What is searched: vectors of indices, one a knob. */
struct tt_search_space {
  int nknobs;          /* 0: there is one configuration, the empty one */
  const int *sizes;    /* values of each knob, >= 1 */
  const bool *ordered; /* neighbouring values are alike (factors) */
  int width;           /* of a row of features */
  /* Fill a row; false: the configuration is illegal. */
  bool (*features)(void *ctx, const int *config, float *row);
  /* A last look at a configuration about to be proposed; false: it is the
   * same schedule as one before.  NULL: all are different. */
  bool (*fresh)(void *ctx, const int *config);
  void *ctx;
};

struct tt_search_params {
  int chains, steps, patience; /* annealing; steps without a better candidate */
  int evaluations; /* rows scored for each configuration that is wanted, at
                      most */
  double epsilon;  /* share of random configurations */
  double scouts; /* share of those that are the best of a kind drawn at random,
                    of all that a model proposes */
  int lambda;    /* candidates for each configuration picked */
  double alpha;  /* weight of diversity against the score */
};
extern const struct tt_search_params tt_search_defaults;

struct tt_searcher;

/* The space is copied, what it points to is not.  A function of the seed. */
struct tt_searcher *tt_searcher_new(const struct tt_search_space *,
                                    const struct tt_search_params *,
                                    uint64_t seed);
void tt_searcher_free(struct tt_searcher *);
/* Never propose this configuration: it was measured. */
void tt_searcher_know(struct tt_searcher *, const int *config);
/* Up to `n` configurations never proposed before, written to out
 * (n * nknobs); returns how many, fewer only when the space is exhausted.
 *
 * random: uniformly.  anneal with a model: chains of simulated annealing on
 * its scores, which go on from one call to the next; the best candidates are
 * thinned for diversity and a few random ones added (section 3.3).  anneal
 * without a model: neighbours of the seeds.  seeds: the best configurations
 * measured (nseeds * nknobs), best first.
 * -1 and *error when the model fails. */
int tt_search_random(struct tt_searcher *, int n, int *out);
int tt_search_anneal(struct tt_searcher *, struct tt_cost_model *, int nseeds,
                     const int *seeds, int n, int *out, const char **error);
/* The same by a population that evolves on the model's scores; without a
 * model: children of the seeds. */
int tt_search_genetic(struct tt_searcher *, struct tt_cost_model *, int nseeds,
                      const int *seeds, int n, int *out, const char **error);

#endif
