/* Messages of tcc-tune.  Owns their form, and when they have colors. */
#include "config.h"

#include "tuner/report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool
color(void)
{
  const char *term = getenv("TERM");
  return isatty(STDERR_FILENO) && !getenv("NO_COLOR") && term &&
         strcmp(term, "dumb") != 0;
}

static void
say(const char *severity, const char *paint, const char *text)
{
  if (color())
    fprintf(stderr, "tcc-tune: \033[%sm%s:\033[0m %s\n", paint, severity, text);
  else
    fprintf(stderr, "tcc-tune: %s: %s\n", severity, text);
}

enum tt_exit
tt_fail(enum tt_exit status, const char *text)
{
  say("error", "1;31", text);
  return status;
}

void
tt_warn(const char *text)
{
  say("warning", "1;35", text);
}

/* A line of -v. */
void
tt_detail(const struct tt_job *job, const char *what, const char *text)
{
  if (job->options->verbose && !job->options->quiet)
    fprintf(stderr, "tcc-tune: %s: %s\n", what, text);
}

void
tt_report_diags(const struct tt_diags *diags)
{
  struct tt_sb sb = {0};
  tt_diags_print(diags, &sb, color());
  fputs(tt_sb_str(&sb), stderr);
  tt_sb_free(&sb);
}
