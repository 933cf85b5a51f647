/* What tests of the tuning loop put in place of a toolchain and of the derived
 * space.  A program of one stage with three loops is expected. */
#ifndef TT_TESTS_FAKE_TUNING_H
#define TT_TESTS_FAKE_TUNING_H

#include "tuner/tune.h"

/* Five knobs, 8 * 8 * 8 * 3 * 2 configurations, some of them illegal; in the
 * tiny one the three factors have two values each. */
extern const struct tt_space_ops fake_space, fake_tiny_space;

enum { FAKE_MOST = 2000 };
struct fake { /* the measurer, and what it is told to do */
  int opened, measured, finals, pumped;
  char *texts[FAKE_MOST];
  const struct tt_program *programs[FAKE_MOST]; /* of the texts */
  /* NULL, or a program whose schedules are all equally fast; whose candidates
   * are all wrong; for which there is no measurer. */
  const struct tt_program *flat, *hopeless, *bad;
  double scale;     /* of all times */
  double plain;     /* seconds of the plain loops */
  int interrupt_at; /* after that many trials; -1: never */
  int break_at;     /* the toolchain fails then; -1: never */
  bool open_fails, all_wrong;
  double final_gain; /* what finalists but the first get faster by */
  double final_spread;
  volatile sig_atomic_t interrupted;
};

/* Set before tuning, looked at after. */
extern struct fake fake;
extern const struct tt_measure_ops fake_ops;

/* Nothing fails, nothing interrupts. */
void fake_reset(void);

/* Forget what was measured, so that it may be measured again. */
void fake_forget(void);

/* What the measurer says of a schedule. */
double fake_seconds(const struct tt_schedule *);

#endif
