/* The frontend: a .te file becomes a checked program.
 *
 * scanner.l, parser.y -> ast.h -> sema (names, types, ranges, bounds)
 * -> lower -> tt_program.
 */
#ifndef TT_FRONTEND_H
#define TT_FRONTEND_H

#include "ir/diag.h"
#include "ir/ir.h"

struct tt_define { /* -D NAME=VALUE; value may be a number or a type */
  const char *name, *value;
};

/* Instructions that come with the tool: those of a target's language. */
enum tt_built_in { TT_BUILT_IN_NONE, TT_BUILT_IN_CUDA, TT_BUILT_IN_OPENCL };

struct tt_frontend_options {
  int ndefines;
  const struct tt_define *defines;
  int ninclude_dirs; /* -I, searched after the includer's own folder */
  const char *const *include_dirs;
  enum tt_built_in built_in; /* intrins of the program, beside its own */
};

/* What a compilation read, for -MD, and the AST for --dump=ast. */
struct tt_frontend_result {
  struct tt_program *program; /* NULL if there were errors */
  int nfiles;                 /* the file and all it includes */
  const char *const *files;
  const char *ast_dump; /* made only when want_ast */
  /* A text that means the same program by itself: with the included files and
   * the values of -D, without schedules.  NULL if there were errors, or if the
   * files have more than 64 KiB. */
  const char *source;
};

/* Compile a file.  Diagnostics go to `diags`; everything is owned by the
 * arena.  A file that cannot be read is a diagnostic without a place. */
struct tt_frontend_result tt_compile_file(struct tt_arena *, struct tt_diags *,
                                          const char *path,
                                          const struct tt_frontend_options *,
                                          bool want_ast);
/* The same for text in memory; `name` is shown in diagnostics and its stem
 * names the kernel. */
struct tt_frontend_result tt_compile_text(struct tt_arena *, struct tt_diags *,
                                          const char *name, const char *text,
                                          size_t len,
                                          const struct tt_frontend_options *,
                                          bool want_ast);
/* The .te text of instructions that come with the tool, and its name. */
const char *tt_built_in_text(enum tt_built_in, const char **name);
/* Parse the text of a `schedule { ... }` block (or a file that holds one, an
 * emitted file among them: text before "schedule" in a comment is skipped).
 * NULL and diagnostics on error. */
const struct tt_sblock *tt_parse_schedule(struct tt_arena *, struct tt_diags *,
                                          const char *name, const char *text,
                                          size_t len);

#endif
