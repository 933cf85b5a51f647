/* A hash table with open addressing from configurations to entries.
 *
 * Invariant: at most half of the slots are used; configurations are compared
 * whole, so two of them never share an entry.
 */
#include "config.h"
#include "tuner/search_set.h"

#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"

void
tt_seen_init(struct tt_seen_set *set, int nknobs)
{
  memset(set, 0, sizeof *set);
  set->nknobs = nknobs;
}

void
tt_seen_free(struct tt_seen_set *set)
{
  free(set->entries);
  free(set->configs);
  free(set->slots);
}

static uint64_t
hash_of(const int *config, int n)
{
  uint64_t h = 0x9e3779b97f4a7c15u;

  for (int i = 0; i < n; i++) {
    h = (h ^ (uint64_t)config[i]) * 0xbf58476d1ce4e5b9u;
    h ^= h >> 29;
  }
  return h;
}

/* The slot of a configuration: its own, or the free one where it goes. */
static int *
slot_of(struct tt_seen_set *set, const int *config)
{
  size_t bytes = (size_t)set->nknobs * sizeof *config;
  uint64_t mask = (uint64_t)set->nslots - 1;
  uint64_t i = hash_of(config, set->nknobs) & mask;

  while (set->slots[i] != 0 &&
         memcmp(tt_seen_config(set, set->slots[i] - 1), config, bytes) != 0)
    i = (i + 1) & mask;
  return &set->slots[i];
}

static void
grow(struct tt_seen_set *set)
{
  set->cap = set->cap ? 2 * set->cap : 512;
  set->nslots = 2 * set->cap;
  set->entries =
      tt_xrealloc(set->entries, (size_t)set->cap * sizeof *set->entries);
  set->configs =
      tt_xrealloc(set->configs, (size_t)set->cap * (size_t)set->nknobs *
                                    sizeof *set->configs);
  free(set->slots);
  set->slots = tt_xmalloc((size_t)set->nslots * sizeof *set->slots);
  memset(set->slots, 0, (size_t)set->nslots * sizeof *set->slots);
  for (int i = 0; i < set->n; i++)
    *slot_of(set, tt_seen_config(set, i)) = i + 1;
}

int
tt_seen_find(struct tt_seen_set *set, const int *config)
{
  int *slot;

  if (set->n == set->cap)
    grow(set);
  slot = slot_of(set, config);
  if (*slot != 0)
    return *slot - 1;
  memset(&set->entries[set->n], 0, sizeof *set->entries);
  if (set->nknobs > 0)
    memcpy(set->configs + (long)set->n * set->nknobs, config,
           (size_t)set->nknobs * sizeof *config);
  *slot = ++set->n;
  return set->n - 1;
}
