/* The command line, from the table options.def. */
#ifndef TT_OPTIONS_H
#define TT_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "ir/arena.h"
#include "tuner/machine.h"

enum tt_option_kind {
  TT_OPT_FLAG,
  TT_OPT_STRING,
  TT_OPT_INTEGER,
  TT_OPT_REAL,
  TT_OPT_CHOICE,
  TT_OPT_DEFINE,
  TT_OPT_DIR,
  TT_OPT_BITS,
  TT_OPT_TARGET
};

/* Values of the choices, in the order of the words in options.def; those of
 * --workspace, --search, --model, --objective, --features and --acquisition
 * are enum tt_workspace, tt_search, ..., tt_features_kind and tt_acquisition.
 */
enum tt_std { TT_STD_C99, TT_STD_GNU11 };
enum tt_dump {
  TT_DUMP_AST,
  TT_DUMP_PROGRAM,
  TT_DUMP_SCHEDULE,
  TT_DUMP_LOOPS,
  TT_DUMP_FEATURES
};
enum tt_progress_mode {
  TT_PROGRESS_AUTO,
  TT_PROGRESS_BAR,
  TT_PROGRESS_JSON,
  TT_PROGRESS_NONE
};

/* Words of an option that may be given more than once; owned by the arena. */
struct tt_strings {
  int n;
  const char **items;
};

/* Types of the fields, by kind.  A field that was not given is NULL, false,
 * or TT_NOT_GIVEN (-1). */
#define TT_NOT_GIVEN (-1)
#define TT_FIELD_FLAG bool
#define TT_FIELD_STRING const char *
#define TT_FIELD_INTEGER int64_t
#define TT_FIELD_REAL double
#define TT_FIELD_CHOICE int
#define TT_FIELD_DEFINE struct tt_strings
#define TT_FIELD_DIR struct tt_strings
#define TT_FIELD_BITS int
#define TT_FIELD_TARGET struct tt_machine

struct tt_options {
#define TT_OPT_GROUP(title)
#define TT_OPT(kind, field, name, alias, arg, lo, hi, help)                    \
  TT_FIELD_##kind field;
#include "tuner/options.def"
#undef TT_OPT
#undef TT_OPT_GROUP
  const char *input;        /* FILE.te, the first of `inputs` */
  struct tt_strings inputs; /* all of them */
};

/* Parse words (without the program's name) into fields, leaving those that
 * are not mentioned as they are; start from tt_options_none().  false and
 * *error, one line owned by the arena, for an unknown option or a bad value.
 * Strings are not copied. */
struct tt_options tt_options_none(void);
bool tt_options_parse(struct tt_arena *, int n, const char *const *words,
                      struct tt_options *, const char **error);
/* Check what options say together, once all are parsed.  false and *error as
 * above. */
bool tt_options_check(struct tt_arena *, const struct tt_options *,
                      const char **error);
/* Put the defaults in place of what was not given, save vector_bits, which
 * depends on the machine. */
void tt_options_defaults(struct tt_arena *, struct tt_options *);
/* The language of the output, from its name. */
enum tt_language { TT_LANGUAGE_C, TT_LANGUAGE_CUDA, TT_LANGUAGE_OPENCL };
enum tt_language tt_options_language(const struct tt_options *);
/* Is a search asked for?  For GPUs it must be: code for them is often made
 * where there is none. */
bool tt_options_search(const struct tt_options *);
/* The text of --help. */
void tt_options_help(struct tt_sb *);
/* What of the command decides the emitted code, as words that
 * tt_options_parse() reads back, with a blank behind each:
 * "--vector=512 -D M=512 ".  No path is in it. */
void tt_options_code_words(const struct tt_options *, struct tt_sb *);
/* Give `opts` the fields that tt_options_code_words() writes from `defaults`
 * where they were not given. */
void tt_options_inherit(struct tt_arena *, struct tt_options *opts,
                        const struct tt_options *defaults);

/* Name and alias (or NULL) of option i, or false: there are no more. */
bool tt_options_name(int i, const char **name, const char **alias);

#endif
