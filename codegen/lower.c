/* The passes of code generation, top to bottom. */
#include "config.h"

#include "codegen/internal.h"

#include "ir/passes.h"

static const struct tt_stmt *
run_passes(struct pass *p, const struct tt_stmt *s)
{
  if (!p->options->naive)
    s = tt_pass_partition(p, s); /* borders apart from the interior */
  s = tt_pass_vectorize(p, s);   /* vector loops become straight code */
  s = tt_pass_unroll(p, s);      /* unrolled loops are written out */
  if (p->error)
    return s;
  s = tt_pass_unique_locals(p, s);
  s = tt_simplify_stmt(p->arena, s); /* indices become constants */
  s = tt_pass_join_ifs(p, s);
  s = tt_pass_promote(p, s); /* register tiles become variables */
  s = tt_pass_drop_dead(p, s);
  s = tt_pass_name_loads(p, s);
  p->error = tt_verify_stmt(p->arena, s, true);
  return s;
}

struct tt_nest
tt_codegen_passes(struct tt_arena *arena, const struct tt_nest *nest,
                  const struct tt_codegen_options *options, const char **error)
{
  struct tt_nest r = *nest;
  struct tt_codegen_options o = *options;
  if (o.c99)
    o.vector_bytes = 0;
  int id = nest->program->nvars - 1;
  int max = tt_max_var(nest->body);
  id = max > id ? max : id;
  if (nest->prepare) {
    max = tt_max_var(nest->prepare);
    id = max > id ? max : id;
  }
  struct pass p = {.arena = arena, .options = &o, .nextvar = id + 1};
  r.body = run_passes(&p, nest->body);
  if (nest->prepare && !p.error)
    r.prepare = run_passes(&p, nest->prepare);
  *error = p.error;
  return r;
}
