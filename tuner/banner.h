/* The comment at the top of an emitted file, and reading it back. */
#ifndef TT_BANNER_H
#define TT_BANNER_H

#include "codegen/codegen.h"
#include "tuner/options.h"

/* What was measured: only in the output of a tuning run. */
struct tt_banner_measured {
  const char *speed;    /* tt_ui_speed() */
  const char *check;    /* what the result was compared with */
  const char *target;   /* the machine */
  const char *compiler; /* version and flags */
};

struct tt_banner {
  const char *kernel;     /* name of the C function */
  const char *source;     /* file name of the source, without folders */
  const char *code_words; /* tt_options_code_words() */
  struct tt_code_sizes sizes;
  const struct tt_banner_measured *measured; /* NULL: nothing was */
  const char *schedule;                      /* text form */
};

/* The whole comment with its marks.  The same banner gives the same bytes;
 * what differs from run to run stands on lines of its own, which
 * tt_banner_strip() takes out. */
void tt_banner_print(struct tt_sb *, const struct tt_banner *);
/* `text` without the lines of what was measured; owned by the arena. */
const char *tt_banner_strip(struct tt_arena *, const char *text, size_t *len);
/* The options that an emitted file says it was made with; none are set when
 * it has no banner of this program.  false and *error when the banner's
 * options cannot be read. */
bool tt_banner_options(struct tt_arena *, const char *text, struct tt_options *,
                       const char **error);

#endif
