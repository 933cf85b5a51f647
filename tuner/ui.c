/* Progress and summary.  Owns the last line of the terminal while a bar
 * stands on it; all else is text made from a struct tt_progress.
 */
#include "config.h"

#include "tuner/ui.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

/* Redrawing more often than the eye can follow would cost tuning time. */
#define REDRAW_SECONDS 0.1

static double
now(void)
{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- texts ------------------------------------------------------------- */

/* Three digits: 1234, 123, 12.3, 1.23. */
static void
three(struct tt_sb *sb, double v)
{
  /* 9.996 is 10.0, not 10.00: the digits are counted after rounding. */
  tt_sb_printf(sb, "%.*f", v >= 99.95 ? 0 : v >= 9.995 ? 1 : 2, v);
}

void
tt_ui_seconds(struct tt_sb *sb, double seconds)
{
  static const struct {
    double scale;
    const char *unit;
  } units[] = {{1, "s"}, {1e3, "ms"}, {1e6, "us"}, {1e9, "ns"}};
  int u = 0;
  while (u < 3 && seconds * units[u].scale < 0.9995)
    u++;
  three(sb, seconds * units[u].scale);
  tt_sb_printf(sb, " %s", units[u].unit);
}

void
tt_ui_speed(struct tt_sb *sb, double seconds, double plain, double flops,
            const char *unit)
{
  tt_ui_seconds(sb, seconds);
  tt_sb_add(sb, " a call");
  if (flops > 0) {
    tt_sb_add(sb, ", ");
    three(sb, flops / seconds * 1e-9);
    tt_sb_printf(sb, " %s", unit);
  }
  if (plain > 0) {
    tt_sb_add(sb, ", ");
    three(sb, plain / seconds);
    tt_sb_add(sb, " times the plain loops (");
    tt_ui_seconds(sb, plain);
    tt_sb_putc(sb, ')');
  }
}

typedef const char *outcome_fn(enum tt_outcome);

/* "8 compiler error, 4 wrong result"; false if nothing failed.  What was
 * cancelled did not fail. */
static bool
failures(struct tt_sb *sb, const struct tt_progress *p, outcome_fn *word)
{
  const char *comma = "";
  for (int i = 0; i < TT_NOUTCOMES; i++) {
    if (i == TT_OUT_OK || i == TT_OUT_CANCELLED || !p->outcomes[i])
      continue;
    tt_sb_printf(sb, "%s%d %s", comma, p->outcomes[i],
                 word((enum tt_outcome)i));
    comma = ", ";
  }
  return *comma;
}

void
tt_ui_trials(struct tt_sb *sb, const struct tt_progress *p)
{
  struct tt_sb f = {0};
  tt_sb_printf(sb, "%d trial%s in %.1f s", p->trials, p->trials == 1 ? "" : "s",
               p->elapsed);
  if (failures(&f, p, tt_outcome_text))
    tt_sb_printf(sb, "; failed: %s", f.s);
  tt_sb_free(&f);
}

void
tt_ui_stopped(struct tt_sb *sb, const struct tt_tuned *t)
{
  const char *why = t->final.stopped;
  if (!why)
    return;
  if (strcmp(why, "gain") != 0) {
    tt_sb_add(sb, "stopped: every schedule of the space was measured");
    return;
  }
  tt_sb_printf(sb, "stopped: %d more trials are expected to gain %.2f %%",
               t->ahead, 100 * t->expected_gain);
  if (t->expected_gain < t->noise)
    tt_sb_printf(sb, ", within noise (%.2f %%)", 100 * t->noise);
}

/* The share of the budget that is spent, 0 when there is none. */
static double
spent(const struct tt_progress *p)
{
  double s = 0;
  if (p->max_seconds > 0)
    s = p->elapsed / p->max_seconds;
  if (p->max_trials > 0)
    s = fmax(s, (double)p->all_trials / p->max_trials);
  return fmin(s, 1);
}

/* The best so far: ", 18.7 ms, 115 GFLOP/s, 9.30x". */
static void
bar_best(struct tt_sb *line, const struct tt_progress *p, const char *unit)
{
  if (!(p->best > 0))
    return;
  tt_sb_add(line, ", ");
  tt_ui_seconds(line, p->best);
  if (p->flops > 0) {
    tt_sb_add(line, ", ");
    three(line, p->flops / p->best * 1e-9);
    tt_sb_printf(line, " %s", unit);
  }
  if (p->plain > 0) {
    tt_sb_add(line, ", ");
    three(line, p->plain / p->best);
    tt_sb_putc(line, 'x');
  }
}

void
tt_ui_bar(struct tt_sb *sb, const struct tt_progress *p, int n,
          const struct tt_ui_program *programs, int columns)
{
  enum { WIDTH = 10 };
  struct tt_sb line = {0}, f = {0};
  double share = spent(p);
  int full = (int)(share * WIDTH);
  const struct tt_ui_program *shown = &programs[p->program];
  tt_sb_printf(&line, "%s ", shown->name);
  if (n > 1)
    tt_sb_printf(&line, "(%d of %d) ", p->program + 1, n);
  if (p->max_seconds > 0 || p->max_trials > 0) {
    tt_sb_putc(&line, '[');
    for (int i = 0; i < WIDTH; i++)
      tt_sb_putc(&line, i < full ? '=' : i == full ? '>' : ' ');
    tt_sb_add(&line, "] ");
  }
  tt_sb_printf(&line, "%d", p->all_trials);
  if (p->max_trials > 0)
    tt_sb_printf(&line, "/%d", p->max_trials);
  tt_sb_printf(&line, " trials, %.0f s", p->elapsed);
  if (share > 0 && share < 1)
    tt_sb_printf(&line, ", %.0f s left", p->elapsed / share - p->elapsed);
  bar_best(&line, p, shown->unit);
  if (failures(&f, p, tt_outcome_name))
    tt_sb_printf(&line, ", failed: %s", f.s);
  if (p->phase)
    tt_sb_printf(&line, ", %s", p->phase);
  /* A line that wraps could not be redrawn. */
  size_t room = columns > 1 ? (size_t)columns - 1 : 0;
  tt_sb_addn(sb, line.s, line.len < room ? line.len : room);
  tt_sb_free(&line);
  tt_sb_free(&f);
}

void
tt_ui_quote(struct tt_sb *sb, const char *s)
{
  tt_sb_putc(sb, '"');
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\')
      tt_sb_printf(sb, "\\%c", c);
    else if (c < 0x20)
      tt_sb_printf(sb, "\\u%04x", c);
    else
      tt_sb_putc(sb, (char)c);
  }
  tt_sb_putc(sb, '"');
}

void
tt_ui_json(struct tt_sb *sb, const char *event, const char *program,
           const struct tt_progress *p, const char *output)
{
  tt_sb_printf(sb, "{\"event\": \"%s\"", event);
  if (program) {
    tt_sb_add(sb, ", \"program\": ");
    tt_ui_quote(sb, program);
  }
  tt_sb_printf(sb, ", \"trials\": %d", p->trials);
  if (p->max_trials > 0)
    tt_sb_printf(sb, ", \"max_trials\": %d", p->max_trials);
  tt_sb_printf(sb, ", \"elapsed\": %.3f", p->elapsed);
  if (p->max_seconds > 0)
    tt_sb_printf(sb, ", \"max_seconds\": %.17g", p->max_seconds);
  if (p->best > 0)
    tt_sb_printf(sb, ", \"best\": %.6g", p->best);
  if (p->plain > 0)
    tt_sb_printf(sb, ", \"plain\": %.6g", p->plain);
  if (p->flops > 0)
    tt_sb_printf(sb, ", \"flops\": %.17g", p->flops);
  if (p->phase) {
    tt_sb_add(sb, ", \"phase\": ");
    tt_ui_quote(sb, p->phase);
  }
  tt_sb_add(sb, ", \"outcomes\": {");
  const char *comma = "";
  for (int i = 0; i < TT_NOUTCOMES; i++) {
    if (!p->outcomes[i])
      continue;
    tt_sb_printf(sb, "%s\"%s\": %d", comma, tt_outcome_name((enum tt_outcome)i),
                 p->outcomes[i]);
    comma = ", ";
  }
  tt_sb_putc(sb, '}');
  if (p->stopped) {
    tt_sb_add(sb, ", \"stopped\": ");
    tt_ui_quote(sb, p->stopped);
  }
  if (output) {
    tt_sb_add(sb, ", \"output\": ");
    tt_ui_quote(sb, output);
  }
  tt_sb_putc(sb, '}');
}

/* ---- the terminal ------------------------------------------------------ */

static int
terminal_columns(int fd)
{
  struct winsize w;
  if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
    return w.ws_col;
  return 80;
}

void
tt_ui_start(struct tt_ui *ui, FILE *out, enum tt_progress_mode mode, int n,
            const struct tt_ui_program *programs)
{
  const char *term = getenv("TERM");
  bool terminal = isatty(fileno(out)) && (!term || strcmp(term, "dumb") != 0);
  *ui = (struct tt_ui){.out = out, .mode = mode, .n = n, .programs = programs};
  if (mode == TT_PROGRESS_AUTO)
    ui->mode = terminal ? TT_PROGRESS_BAR : TT_PROGRESS_NONE;
  ui->columns = terminal_columns(fileno(out));
}

void
tt_ui_clear(struct tt_ui *ui)
{
  if (!ui->drawn)
    return;
  fputs("\r\033[K", ui->out);
  fflush(ui->out);
  ui->drawn = false;
}

static void
draw_bar(struct tt_ui *ui, const struct tt_progress *p)
{
  double t = now();
  if (ui->drawn && t - ui->shown < REDRAW_SECONDS)
    return;
  struct tt_sb sb = {0};
  tt_ui_bar(&sb, p, ui->n, ui->programs, ui->columns);
  fprintf(ui->out, "\r%s\033[K", tt_sb_str(&sb));
  fflush(ui->out);
  tt_sb_free(&sb);
  ui->shown = t;
  ui->drawn = true;
}

void
tt_ui_progress(void *ctx, const struct tt_progress *p)
{
  struct tt_ui *ui = ctx;
  struct tt_sb sb = {0};
  switch (ui->mode) {
  case TT_PROGRESS_BAR:
    draw_bar(ui, p);
    break;
  case TT_PROGRESS_JSON:
    tt_ui_json(&sb, "progress",
               ui->n > 1 ? ui->programs[p->program].name : NULL, p, NULL);
    fprintf(ui->out, "%s\n", tt_sb_str(&sb));
    fflush(ui->out);
    break;
  case TT_PROGRESS_AUTO:
  case TT_PROGRESS_NONE:
    break;
  }
  tt_sb_free(&sb);
}
