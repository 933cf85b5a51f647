/* How a call is timed: inner loops until the clock can see it, repeats until
 * they agree, and an early end for losers. */
#ifndef TT_TIMING_H
#define TT_TIMING_H

#include <stdbool.h>
#include <stdint.h>

#define TT_MAX_REPEATS 40
#define TT_MAX_DUEL 16

/* What is timed and the clock, so that tests can bring their own. */
struct tt_timed {
  void (*call)(void *ctx);
  double (*now)(void *ctx); /* seconds */
  void *ctx;
};

struct tt_timing_options {
  double min_time; /* seconds that one measurement takes at least */
  double budget;   /* seconds of all repeats; twice that for a call that is
                      about as good as the best or when none is known */
  double spread;   /* (median - min) / min that is good enough */
  double best;     /* seconds of the best call so far; 0: none */
  double first;    /* seconds of a first, cold call; 0: there was none */
};
struct tt_timing_options tt_timing_defaults(void);

struct tt_timing {
  int64_t inner; /* calls of one measurement */
  int n;
  double times[TT_MAX_REPEATS]; /* seconds a call of each measurement */
  bool gave_up; /* clearly slower than the best: fewer repeats */
};

/* Times one function.  The first call counts as a measurement when it took
 * more than 50 ms, and is the only one when it took half a second. */
void tt_time_calls(const struct tt_timed *, const struct tt_timing_options *,
                   struct tt_timing *out);
/* Times n <= TT_MAX_DUEL functions in turns (A B C A B C ...), so that slow
 * drifts of the machine meet them alike. */
void tt_time_duel(int n, const struct tt_timed *,
                  const struct tt_timing_options *, struct tt_timing *out);

/* The least time, and (median - min) / min; 0 without times. */
double tt_timing_min(const struct tt_timing *);
double tt_timing_spread(const struct tt_timing *);

#endif
