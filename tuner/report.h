/* What tcc-tune says to people on standard error, beside the progress. */
#ifndef TT_REPORT_H
#define TT_REPORT_H

#include "ir/diag.h"
#include "tuner/job.h"

/* "tcc-tune: error: TEXT"; returns the status, for `return tt_fail(...)`. */
enum tt_exit tt_fail(enum tt_exit status, const char *text);
void tt_warn(const char *text);
/* A line of -v: "tcc-tune: WHAT: TEXT". */
void tt_detail(const struct tt_job *, const char *what, const char *text);
/* Diagnostics with their carets. */
void tt_report_diags(const struct tt_diags *);

#endif
