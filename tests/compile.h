/* Compiling a text in a test, with all that belongs to it. */
#ifndef TT_TESTS_COMPILE_H
#define TT_TESTS_COMPILE_H

#include "frontend/frontend.h"

/* One compilation. */
struct run {
  struct tt_arena *arena;
  struct tt_diags *diags;
  struct tt_frontend_result result;
  struct tt_sb text; /* the diagnostics as printed */
};

/* An arena and a bag of diagnostics, nothing compiled. */
struct run start(void);
/* Compile a text named t.te. */
struct run compile_text(const char *text, size_t len);
/* The same with the intrins that come with the tool. */
struct run compile_built_in(const char *text, enum tt_built_in);
void finish(struct run *);

#endif
