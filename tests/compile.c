/* Compiling a text in a test. */
#include "config.h"

#include "tests/compile.h"

struct run
start(void)
{
  struct run r = {0};

  r.arena = tt_arena_new();
  r.diags = tt_diags_new(r.arena);
  return r;
}

struct run
compile_text(const char *text, size_t len)
{
  struct run r = start();

  r.result = tt_compile_text(r.arena, r.diags, "t.te", text, len, NULL, false);
  tt_diags_print(r.diags, &r.text, false);
  return r;
}

void
finish(struct run *r)
{
  tt_sb_free(&r->text);
  tt_arena_free(r->arena);
}
