/* What a person (or a program) sees while tuning, on standard error. */
#ifndef TT_UI_H
#define TT_UI_H

#include <stdio.h>

#include "tuner/options.h"
#include "tuner/tune.h"

struct tt_ui_program {
  const char *name; /* of the kernel */
  const char *unit; /* "GFLOP/s", or "Gop/s" of integer programs */
};

struct tt_ui {
  FILE *out;
  enum tt_progress_mode mode;           /* never AUTO */
  int n;                                /* programs, ... */
  const struct tt_ui_program *programs; /* and what is said of each */
  int columns;                          /* of the terminal */
  double shown; /* when the bar was drawn last (monotonic) */
  bool drawn;   /* a bar stands on the current line */
};

/* AUTO becomes BAR when `out` is a terminal that can draw one, else NONE. */
void tt_ui_start(struct tt_ui *, FILE *out, enum tt_progress_mode, int n,
                 const struct tt_ui_program *);
/* A tt_progress_fn; ctx is a struct tt_ui. */
void tt_ui_progress(void *ui, const struct tt_progress *);
/* Remove the bar, so that something else can be printed. */
void tt_ui_clear(struct tt_ui *);

/* The texts, apart from the terminal, for tests.  No newline at the end. */
void tt_ui_bar(struct tt_sb *, const struct tt_progress *, int n,
               const struct tt_ui_program *, int columns);
/* One object.  The name of the program is NULL where there is one alone;
 * `output`, the file that was written, may be NULL. */
void tt_ui_json(struct tt_sb *, const char *event, const char *program,
                const struct tt_progress *, const char *output);
/* "18.7 ms": four digits at most. */
void tt_ui_seconds(struct tt_sb *, double seconds);
/* "18.7 ms a call, 115 GFLOP/s, 9.31 times the plain loops (174 ms)"; rate
 * and ratio are left out where they are not known. */
void tt_ui_speed(struct tt_sb *, double seconds, double plain, double flops,
                 const char *unit);
/* "412 trials in 60.0 s; failed: 8 compiler error, 4 wrong result". */
void tt_ui_trials(struct tt_sb *, const struct tt_progress *);
/* Why the search ended before its budget was spent; nothing if it did not. */
void tt_ui_stopped(struct tt_sb *, const struct tt_tuned *);
/* A string with JSON's quotes. */
void tt_ui_quote(struct tt_sb *, const char *);

#endif
