/* What the searches share; private to search*.c. */
#ifndef TT_SEARCH_PARTS_H
#define TT_SEARCH_PARTS_H

#include "tuner/random.h"
#include "tuner/search.h"
#include "tuner/search_set.h"

struct tt_searcher {
  struct tt_search_space space;
  struct tt_search_params params;
  struct tt_seen_set seen;
  uint64_t random;
  int epoch;
  long illegal;
  double size;   /* configurations in the space */
  double walked; /* visited in order */
  int *cursor;   /* the next in order */
  bool exhausted;
  bool started, bred;     /* are there chains, is there a population? */
  int *chain;             /* entry of each chain's position */
  int *population;        /* entries, of `chains`; room for as many children */
  int *next;              /* entry it may move to, -1: none */
  int *config;            /* scratch: one configuration */
  float *rows;            /* scratch: chains rows */
  int *pending;           /* scratch: entries of the rows */
  float *scores;          /* scratch */
  int evaluations, limit; /* of this round */
};

/* Scores of the best open candidates of a round, to see whether it still
 * finds better ones. */
struct tt_top {
  int n, cap;
  float *scores;
};

/* Any configuration. */
void tt_search_draw(struct tt_searcher *, int *config);
/* Change one knob of `config`; of a factor half of the time by a step. */
void tt_search_change_knob(struct tt_searcher *, int *config);
/* May the entry be proposed, as far as is known without a last look? */
bool tt_search_open(struct tt_searcher *, int entry);
/* Propose an open entry: copy it to `out`.  false: it was no news. */
bool tt_search_take(struct tt_searcher *, int entry, int *out);
/* Put the entry in line for a score, at *n of at most `chains`, unless it has
 * one of this round or is illegal. */
void tt_search_enqueue(struct tt_searcher *, int entry, int *n);
/* Score what is in line.  *better: a new one is among the best (`top`, NULL:
 * of no interest). */
bool tt_search_score(struct tt_searcher *, struct tt_cost_model *, int n,
                     struct tt_top *, bool *better, const char **error);
/* The entry's score of this round; -infinity: it is illegal. */
float tt_search_score_of(const struct tt_searcher *, int entry);

/* A round of search on the scores of a model: it leaves many entries scored.
 * false: *error. */
typedef bool tt_search_round(struct tt_searcher *, struct tt_cost_model *,
                             int nseeds, const int *seeds, struct tt_top *,
                             const char **error);
/* What every search does around its round: the best candidates are thinned
 * for diversity, and random ones added. */
int tt_search_propose(struct tt_searcher *, struct tt_cost_model *,
                      tt_search_round *, int nseeds, const int *seeds, int n,
                      int *out, const char **error);

/* Up to n of what was scored in this round, and scouts, written to out; how
 * many, -1: *error. */
int tt_search_pick(struct tt_searcher *, struct tt_cost_model *, int n,
                   int *out, const char **error);

#endif
