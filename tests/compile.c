/* Compiling a text in a test. */
#include "config.h"

#include "tests/compile.h"

#include <string.h>

struct run
start(void)
{
  struct run r = {0};

  r.arena = tt_arena_new();
  r.diags = tt_diags_new(r.arena);
  return r;
}

static struct run
compile(const char *text, size_t len, const struct tt_frontend_options *o)
{
  struct run r = start();

  r.result = tt_compile_text(r.arena, r.diags, "t.te", text, len, o, false);
  tt_diags_print(r.diags, &r.text, false);
  return r;
}

struct run
compile_text(const char *text, size_t len)
{
  return compile(text, len, NULL);
}

struct run
compile_built_in(const char *text, enum tt_built_in built_in)
{
  const struct tt_frontend_options o = {.built_in = built_in};
  return compile(text, strlen(text), &o);
}

void
finish(struct run *r)
{
  tt_sb_free(&r->text);
  tt_arena_free(r->arena);
}
