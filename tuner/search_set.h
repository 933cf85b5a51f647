/* The configurations a search has seen: an index from configuration to entry.
 */
#ifndef TT_SEARCH_SET_H
#define TT_SEARCH_SET_H

#include <stdbool.h>
#include <stdint.h>

struct tt_seen {
  bool illegal;
  bool legal; /* known to be; neither: not looked at */
  bool taken; /* proposed or measured: never again */
  int epoch;  /* of the model that gave the score */
  float score;
};

/* Entries keep their number; `config` and `entries` move when it grows. */
struct tt_seen_set {
  int nknobs;
  int n, cap, nslots;
  struct tt_seen *entries;
  int *configs; /* n * nknobs */
  int *slots;   /* entry + 1, 0: free */
};

void tt_seen_init(struct tt_seen_set *, int nknobs);
void tt_seen_free(struct tt_seen_set *);
/* The number of the configuration's entry, added if it is new. */
int tt_seen_find(struct tt_seen_set *, const int *config);
static inline const int *
tt_seen_config(const struct tt_seen_set *set, int entry)
{
  return set->configs + (long)entry * set->nknobs;
}

#endif
