/* One generator of random numbers (splitmix64), its state a word of the
 * caller's. */
#ifndef TT_RANDOM_H
#define TT_RANDOM_H

#include <stdint.h>

static inline uint64_t
tt_draw(uint64_t *state)
{
  uint64_t x = *state += 0x9e3779b97f4a7c15u;

  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* 0..n-1 */
static inline int
tt_draw_below(uint64_t *state, int n)
{
  return (int)(((tt_draw(state) >> 32) * (uint64_t)n) >> 32);
}

/* 0 <= x < 1 */
static inline double
tt_draw_unit(uint64_t *state)
{
  return (double)(tt_draw(state) >> 11) * 0x1p-53;
}

#endif
