/* The passes of code generation, top to bottom. */
#include "config.h"

#include "codegen/internal.h"

#include "ir/passes.h"

static const struct tt_stmt *
simplify(struct pass *p, const struct tt_stmt *s)
{
  return tt_simplify_stmt(p->arena, s);
}

static const struct tt_stmt *
partition(struct pass *p, const struct tt_stmt *s)
{
  /* (Vectors are only made of indices whose clamps are gone.) */
  return p->options->naive ? s : simplify(p, tt_pass_partition(p, s));
}

typedef const struct tt_stmt *pass_fn(struct pass *, const struct tt_stmt *);

static const struct {
  const char *name;
  pass_fn *run;
  bool unrolled; /* no unrolled loops are left after it */
} passes[] = {
    {"hoist ifs", tt_pass_hoist_ifs, false}, /* conditions out of loops */
    {"partition", partition, false}, /* borders apart from the interior */
    {"transpose", tt_pass_transpose, false}, /* copies across the grain */
    {"vectorize", tt_pass_vectorize, false}, /* vector loops: straight code */
    {"unroll", tt_pass_unroll, false},       /* unrolled loops written out */
    {"unique locals", tt_pass_unique_locals, false},
    {"simplify", simplify, false}, /* indices become constants */
    {"join ifs", tt_pass_join_ifs, false},
    {"promote", tt_pass_promote, true}, /* register tiles: variables */
    {"dots", tt_pass_dots, true}, /* products of narrow integers: groups */
    {"drop dead", tt_pass_drop_dead, true},
    {"gather", tt_pass_gather, true},
    {"name loads", tt_pass_name_loads, true},
};

/* The checker between passes.  What it proves of indices needs them simple. */
static void
check(struct pass *p, const char *name, bool unrolled, const struct tt_stmt *s)
{
  const char *bad =
      tt_verify_stmt(p->arena, tt_simplify_stmt(p->arena, s), unrolled);
  if (bad)
    p->error = tt_arena_printf(p->arena, "after %s: %s", name, bad);
}

const struct tt_stmt *
tt_pass_all(struct pass *p, const struct tt_stmt *s)
{
  int n = (int)(sizeof passes / sizeof passes[0]);
  for (int i = 0; i < n && !p->error; i++) {
    s = passes[i].run(p, s);
    if (p->options->verify_each && !p->error)
      check(p, passes[i].name, passes[i].unrolled, s);
  }
  if (!p->error)
    p->error = tt_verify_stmt(p->arena, s, true);
  return s;
}

int
tt_next_var(const struct tt_nest *nest)
{
  int id = nest->program->nvars - 1;
  int max = tt_max_var(nest->body);
  id = max > id ? max : id;
  if (nest->prepare) {
    max = tt_max_var(nest->prepare);
    id = max > id ? max : id;
  }
  return id + 1;
}

struct tt_nest
tt_codegen_passes(struct tt_arena *arena, const struct tt_nest *nest,
                  const struct tt_codegen_options *options, const char **error)
{
  struct tt_nest r = *nest;
  struct tt_codegen_options o = *options;
  if (o.c99)
    o.vector_bytes = 0;
  struct pass p = {.arena = arena, .options = &o, .nextvar = tt_next_var(nest)};
  r.body = tt_pass_all(&p, nest->body);
  p.ahead = true;
  if (nest->prepare && !p.error)
    r.prepare = tt_pass_all(&p, nest->prepare);
  *error = p.error;
  return r;
}
