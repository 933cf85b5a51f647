/* Names and texts of outcomes, from outcome.def.  In a file of its own so
 * that tcc-log need not link what measures. */
#include "config.h"
#include "tuner/measure.h"

const char *
tt_outcome_name(enum tt_outcome outcome)
{
  static const char *const names[] = {
#define TT_OUTCOME(e, name, text) name,
#include "tuner/outcome.def"
#undef TT_OUTCOME
  };
  return names[outcome];
}

const char *
tt_outcome_text(enum tt_outcome outcome)
{
  static const char *const texts[] = {
#define TT_OUTCOME(e, name, text) text,
#include "tuner/outcome.def"
#undef TT_OUTCOME
  };
  return texts[outcome];
}
