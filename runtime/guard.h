/* Buffers whose surroundings are watched: filled zones on both sides of the
 * data, and pages beyond them that may not be touched at all. */
#ifndef TT_GUARD_H
#define TT_GUARD_H

#include <stdbool.h>
#include <stddef.h>

struct tt_guard {
  char *base; /* the whole mapping */
  size_t total;
  char *zone; /* the part that may be touched: fill, data, fill */
  size_t zone_size;
  char *data; /* aligned to 64 bytes */
  size_t bytes;
};

/* `index` staggers the buffers of one call, so that equal offsets in them do
 * not fall on the same cache sets.  The data is not initialized; false when
 * there is no memory. */
bool tt_guard_new(struct tt_guard *, size_t bytes, int index);
void tt_guard_free(struct tt_guard *);
/* Are the fills unharmed? */
bool tt_guard_intact(const struct tt_guard *);
/* From now on the data can only be read. */
void tt_guard_freeze(struct tt_guard *);

#endif
