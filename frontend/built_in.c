/* Instructions that come with the tool: the files of frontend/intrins, whose
 * text is part of the program and goes the way of any other source.
 *
 * Invariant: they parse (tests/test_tensorize looks).
 */
#include "config.h"

#include "frontend/sema.h"

#include <string.h>

static const char cuda[] =
#include "frontend/intrins/cuda.inc"
    ;
static const char opencl[] =
#include "frontend/intrins/opencl.inc"
    ;

const char *
tt_built_in_text(enum tt_built_in which, const char **name)
{
  switch (which) {
  case TT_BUILT_IN_NONE:
    break;
  case TT_BUILT_IN_CUDA:
    *name = "cuda.te";
    return cuda;
  case TT_BUILT_IN_OPENCL:
    *name = "opencl.te";
    return opencl;
  }
  *name = "";
  return "";
}

static bool
has_name(const struct tt_program *p, int n, const char *name)
{
  for (int i = 0; i < n; i++)
    if (strcmp(p->intrins[i]->name, name) == 0)
      return true;
  return false;
}

void
tt_add_built_in(struct tt_program *p, enum tt_built_in which)
{
  const char *name, *text = tt_built_in_text(which, &name);
  struct tt_diags *diags = tt_diags_new(p->arena);
  struct tt_frontend_result r = {0};
  int own = p->nintrins;

  if (*text)
    r = tt_compile_text(p->arena, diags, name, text, strlen(text), NULL, false);
  for (int i = 0; r.program && i < r.program->nintrins; i++) {
    struct tt_intrin *in = TT_NEW(p->arena, struct tt_intrin);
    *in = *r.program->intrins[i];
    in->built_in = true;
    if (!has_name(p, own, in->name))
      tt_program_intrin(p, in);
  }
}
