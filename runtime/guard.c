/* Owns guarded buffers: base | no access | fill | data | fill | no access. */
#include "config.h"

#include "runtime/guard.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BARRIER ((size_t)1 << 20) /* bytes on either side without access */
#define FILL_BYTES ((size_t)4096) /* at least, on either side */
#define FILL 0xA5

bool
tt_guard_new(struct tt_guard *g, size_t bytes, int index)
{
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  /* 9 and 64 share no factor: 64 buffers get 64 different offsets. */
  size_t stagger = (size_t)(index * 9 % 64) * 64;
  memset(g, 0, sizeof *g);
  if (bytes > SIZE_MAX / 4)
    return false;
  size_t zone = FILL_BYTES + stagger + bytes + FILL_BYTES;
  zone = (zone + page - 1) / page * page;
  size_t barrier = (BARRIER + page - 1) / page * page;
  size_t total = zone + 2 * barrier;
  char *base = mmap(NULL, total, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (base == MAP_FAILED)
    return false;
  if (mprotect(base + barrier, zone, PROT_READ | PROT_WRITE) != 0) {
    munmap(base, total);
    return false;
  }
  g->base = base;
  g->total = total;
  g->zone = base + barrier;
  g->zone_size = zone;
  g->data = g->zone + FILL_BYTES + stagger;
  g->bytes = bytes;
  memset(g->zone, FILL, (size_t)(g->data - g->zone));
  memset(g->data + bytes, FILL, (size_t)(g->zone + zone - (g->data + bytes)));
  return true;
}

void
tt_guard_free(struct tt_guard *g)
{
  if (g->base)
    munmap(g->base, g->total);
  memset(g, 0, sizeof *g);
}

static bool
filled(const char *lo, const char *hi)
{
  unsigned diff = 0;
  for (; lo < hi; lo++)
    diff |= (unsigned char)*lo ^ FILL;
  return diff == 0;
}

bool
tt_guard_intact(const struct tt_guard *g)
{
  return filled(g->zone, g->data) &&
         filled(g->data + g->bytes, g->zone + g->zone_size);
}

void
tt_guard_freeze(struct tt_guard *g)
{
  mprotect(g->zone, g->zone_size, PROT_READ);
}
