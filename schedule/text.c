/* The text form: calls applied by name, and a schedule printed as calls.
 *
 * A table names each primitive with the shape of its arguments, so that a
 * mistake is answered with what was expected.
 */
#include "config.h"

#include "schedule/state.h"

#include <stdlib.h>
#include <string.h>

struct call {
  struct tt_schedule *s;
  const struct tt_scall *c;
  int stage;
};

/* What was asked for as `kind`: the i-th positional argument. */
static const struct tt_sarg *
positional(const struct tt_scall *c, int i)
{
  for (int a = 0; a < c->nargs; a++)
    if (!c->args[a].key && i-- == 0)
      return &c->args[a];
  return NULL;
}

static const struct tt_sarg *
keyed(const struct tt_scall *c, const char *key)
{
  for (int a = 0; a < c->nargs; a++)
    if (c->args[a].key && strcmp(c->args[a].key, key) == 0)
      return &c->args[a];
  return NULL;
}

static int
count_positional(const struct tt_scall *c)
{
  int n = 0;
  for (int a = 0; a < c->nargs; a++)
    n += !c->args[a].key;
  return n;
}

static bool
no_loop(struct tt_schedule *s, int stage, const char *name)
{
  const struct tt_stage_schedule *ss = &s->stages[stage];
  struct tt_sb have = {0};
  for (int i = 0; i < ss->norder; i++)
    tt_sb_printf(&have, "%s%s", i ? " " : "", ss->loops[ss->order[i]].name);
  tt_refuse(s, "no loop '%s' in %s (have %s)", name, tt_stage_name(s, stage),
            tt_sb_str(&have));
  tt_sb_free(&have);
  return false;
}

/* Loop handle of an argument; `root` is TT_OUTSIDE where allowed. */
static bool
arg_loop(const struct call *k, int stage, int i, bool root, int *loop)
{
  const struct tt_sarg *a = positional(k->c, i);
  if (!a || a->kind != TT_SARG_ID)
    return tt_refuse(k->s, "argument %d of %s must be a loop", i + 1,
                     k->c->primitive);
  *loop = TT_OUTSIDE;
  if (root && strcmp(a->str, "root") == 0)
    return true;
  *loop = tt_find_loop(k->s, stage, a->str);
  return *loop >= 0 || no_loop(k->s, stage, a->str);
}

static bool
arg_int(const struct call *k, int i, int64_t *v)
{
  const struct tt_sarg *a = positional(k->c, i);
  if (!a || a->kind != TT_SARG_INT)
    return tt_refuse(k->s, "argument %d of %s must be a number%s", i + 1,
                     k->c->primitive,
                     a && (a->kind == TT_SARG_ANY || a->kind == TT_SARG_SET)
                         ? ", not a choice"
                         : "");
  *v = a->ival;
  return true;
}

static bool
arg_id(const struct call *k, int i, const char **id)
{
  const struct tt_sarg *a = positional(k->c, i);
  if (!a || a->kind != TT_SARG_ID)
    return tt_refuse(k->s, "argument %d of %s must be a name", i + 1,
                     k->c->primitive);
  *id = tt_arena_strdup(k->s->arena, a->str);
  return true;
}

static bool
key_int(const struct call *k, const char *key, int64_t *v)
{
  const struct tt_sarg *a = keyed(k->c, key);
  if (!a)
    return true;
  if (a->kind != TT_SARG_INT)
    return tt_refuse(k->s, "%s= of %s must be a number", key, k->c->primitive);
  *v = a->ival;
  return true;
}

/* The text of a keyed name or string; *v is kept when it is absent. */
static bool
key_text(const struct call *k, const char *key, const char **v)
{
  const struct tt_sarg *a = keyed(k->c, key);
  if (!a)
    return true;
  if (a->kind != TT_SARG_ID && a->kind != TT_SARG_STR)
    return tt_refuse(k->s, "%s= of %s must be a name", key, k->c->primitive);
  *v = tt_arena_strdup(k->s->arena, a->str);
  return true;
}

static bool
do_split(const struct call *k)
{
  int loop;
  int64_t factor;
  const char *name, *tail = "peel";
  if (!arg_loop(k, k->stage, 0, false, &loop) || !arg_int(k, 1, &factor) ||
      !arg_id(k, 2, &name) || !key_text(k, "tail", &tail))
    return false;
  enum tt_tail t;
  if (strcmp(tail, "peel") == 0)
    t = TT_TAIL_PEEL;
  else if (strcmp(tail, "guard") == 0)
    t = TT_TAIL_GUARD;
  else if (strcmp(tail, "shift") == 0)
    t = TT_TAIL_SHIFT;
  else if (strcmp(tail, "pad") == 0)
    t = TT_TAIL_PAD;
  else
    return tt_refuse(k->s, "tail=\"%s\": must be peel, guard, pad or shift",
                     tail);
  return tt_split(k->s, k->stage, loop, factor, name, t) >= 0;
}

static bool
do_tile(const struct call *k)
{
  int a, b;
  int64_t fa, fb;
  const char *na, *nb;
  return arg_loop(k, k->stage, 0, false, &a) &&
         arg_loop(k, k->stage, 1, false, &b) && arg_int(k, 2, &fa) &&
         arg_int(k, 3, &fb) && arg_id(k, 4, &na) && arg_id(k, 5, &nb) &&
         tt_tile(k->s, k->stage, a, b, fa, fb, na, nb);
}

static bool
do_fuse(const struct call *k)
{
  int a, b;
  const char *name;
  return arg_loop(k, k->stage, 0, false, &a) &&
         arg_loop(k, k->stage, 1, false, &b) && arg_id(k, 2, &name) &&
         tt_fuse(k->s, k->stage, a, b, name) >= 0;
}

static bool
do_reorder(const struct call *k)
{
  int loops[TT_MAX_LOOPS], n = count_positional(k->c);
  if (n > TT_MAX_LOOPS)
    return tt_refuse(k->s, "more than %d loops", TT_MAX_LOOPS);
  for (int i = 0; i < n; i++)
    if (!arg_loop(k, k->stage, i, false, &loops[i]))
      return false;
  return tt_reorder(k->s, k->stage, n, loops);
}

static bool
do_unroll(const struct call *k)
{
  int loop;
  return arg_loop(k, k->stage, 0, false, &loop) &&
         tt_unroll(k->s, k->stage, loop);
}

static bool
do_vectorize(const struct call *k)
{
  int loop;
  int64_t lanes;
  if (!arg_loop(k, k->stage, 0, false, &loop) || !arg_int(k, 1, &lanes))
    return false;
  if (lanes < 0 || lanes > 4096)
    lanes = 4096; /* refused below, with the number allowed */
  return tt_vectorize(k->s, k->stage, loop, (int)lanes);
}

static bool
do_parallel(const struct call *k)
{
  int loop;
  return arg_loop(k, k->stage, 0, false, &loop) &&
         tt_parallel(k->s, k->stage, loop);
}

static bool
do_bind(const struct call *k)
{
  int loop;
  const struct tt_sarg *a = positional(k->c, 1);
  if (!arg_loop(k, k->stage, 0, false, &loop))
    return false;
  for (int kind = TT_BLOCK_X;
       a && a->kind == TT_SARG_STR && kind <= (int)TT_THREAD_Z; kind++)
    if (strcmp(a->str, tt_bound_name((enum tt_for_kind)kind)) == 0)
      return tt_bind(k->s, k->stage, loop, (enum tt_for_kind)kind);
  if (a && a->kind == TT_SARG_STR && strcmp(a->str, "vthread") == 0)
    return tt_vthread(k->s, k->stage, loop);
  return tt_refuse(k->s, "argument 2 of bind must be \"block.x\", ... "
                         "\"thread.z\" or \"vthread\"");
}

static bool
do_rfactor(const struct call *k)
{
  int loop;
  int64_t factor;
  const char *inner, *name;
  return arg_loop(k, k->stage, 0, false, &loop) && arg_int(k, 1, &factor) &&
         arg_id(k, 2, &inner) && arg_id(k, 3, &name) &&
         tt_rfactor(k->s, k->stage, loop, factor, inner, name) >= 0;
}

static bool
do_shrink(const struct call *k)
{
  int loop;
  return arg_loop(k, k->stage, 0, false, &loop) &&
         tt_shrink(k->s, k->stage, loop);
}

static bool
do_reciprocal(const struct call *k)
{
  int loop;
  return arg_loop(k, k->stage, 0, false, &loop) &&
         tt_reciprocal(k->s, k->stage, loop);
}

static bool
do_inline(const struct call *k)
{
  return tt_inline(k->s, k->stage);
}

static bool
do_compute_at(const struct call *k)
{
  const char *name;
  if (!arg_id(k, 0, &name))
    return false;
  int consumer = tt_find_stage(k->s, name), loop;
  if (consumer < 0)
    return tt_refuse(k->s, "no stage '%s'", name);
  return arg_loop(k, consumer, 1, true, &loop) &&
         tt_compute_at(k->s, k->stage, consumer, loop);
}

static bool
do_finish(const struct call *k)
{
  const char *name;
  if (!arg_id(k, 0, &name))
    return false;
  int reduction = tt_find_stage(k->s, name);
  if (reduction < 0)
    return tt_refuse(k->s, "no stage '%s'", name);
  return tt_finish(k->s, k->stage, reduction);
}

static bool
do_compute_root(const struct call *k)
{
  return tt_compute_root(k->s, k->stage);
}

/* Loops of a layout: names separated by spaces. */
static bool
parse_layout(const struct call *k, const char *text, int *n, int *loops)
{
  *n = 0;
  char *copy = tt_arena_strdup(k->s->arena, text), *save = NULL;
  for (char *w = strtok_r(copy, " ", &save); w;
       w = strtok_r(NULL, " ", &save)) {
    if (*n == TT_MAX_DIMS)
      return tt_refuse(k->s, "a layout has at most %d loops", TT_MAX_DIMS);
    loops[*n] = tt_find_loop(k->s, k->stage, w);
    if (loops[*n] < 0)
      return no_loop(k->s, k->stage, w);
    ++*n;
  }
  return true;
}

/* Numbers of dimensions, separated by spaces. */
static bool
parse_dims(const struct call *k, const char *text, int *n, int *dims)
{
  *n = 0;
  char *copy = tt_arena_strdup(k->s->arena, text), *save = NULL;
  for (char *w = strtok_r(copy, " ", &save); w;
       w = strtok_r(NULL, " ", &save)) {
    char *end;
    long v = strtol(w, &end, 10);
    if (*end || *n == TT_MAX_DIMS || v < 0 || v >= TT_MAX_DIMS)
      return tt_refuse(k->s,
                       "the layout of a padded copy is a list of dimensions, "
                       "like \"0 2 1\"");
    dims[(*n)++] = (int)v;
  }
  return true;
}

static bool
do_layout(const struct call *k)
{
  const struct tt_sarg *a = positional(k->c, 0);
  int n = 0, dims[TT_MAX_DIMS];
  const struct tt_stage *st = k->s->stages[k->stage].stage;
  if (!a || a->kind != TT_SARG_STR)
    return tt_refuse(k->s, "argument 1 of layout must be a string of axes");
  char *copy = tt_arena_strdup(k->s->arena, a->str), *save = NULL;
  for (char *w = strtok_r(copy, " ", &save); w;
       w = strtok_r(NULL, " ", &save)) {
    int d = 0;
    while (d < st->nspatial && strcmp(st->spatial[d]->name, w) != 0)
      d++;
    if (d == st->nspatial)
      return tt_refuse(k->s, "%s has no axis '%s'",
                       tt_stage_name(k->s, k->stage), w);
    if (n == TT_MAX_DIMS)
      return tt_refuse(k->s, "a layout has at most %d axes", TT_MAX_DIMS);
    dims[n++] = d;
  }
  return tt_layout(k->s, k->stage, n, dims);
}

/* pad="copy", or a number of elements between rows. */
static bool
arg_pad(const struct call *k, const char **border, int64_t *pad)
{
  const struct tt_sarg *a = keyed(k->c, "pad");
  if (a && a->kind == TT_SARG_INT)
    return key_int(k, "pad", pad);
  if (!key_text(k, "pad", border))
    return false;
  if (*border && strcmp(*border, "copy") != 0)
    return tt_refuse(k->s, "pad=\"%s\": must be copy, or a number", *border);
  return true;
}

static int
small(int64_t v)
{
  return v < -1 || v > 4096 ? 4096 : (int)v; /* refused, with what is allowed */
}

/* How the new cache lies in shared memory; without that it is none. */
static bool
stage_cache(const struct call *k, int64_t pad)
{
  int64_t swizzle = 0, stages = 0;
  struct tt_schedule *s = k->s;
  if (!keyed(k->c, "swizzle") && !keyed(k->c, "stages") && !pad)
    return true;
  bool ok = key_int(k, "swizzle", &swizzle) && key_int(k, "stages", &stages);
  struct tt_staging staging = {
      .pad = small(pad), .swizzle = small(swizzle), .stages = small(stages)};
  if (ok && tt_cache_staging(s, k->stage, &staging))
    return true;
  s->stages[k->stage].ncaches--;
  s->ncalls--;
  return false;
}

static bool
do_cache_read(const struct call *k)
{
  const char *name, *layout = "", *alias = NULL, *pad = NULL;
  int loop, n, loops[TT_MAX_DIMS];
  int64_t lanes = 0, between = 0;
  if (!arg_id(k, 0, &name) || !arg_loop(k, k->stage, 1, true, &loop) ||
      !key_text(k, "layout", &layout) || !key_text(k, "name", &alias) ||
      !arg_pad(k, &pad, &between) || !key_int(k, "vectorize", &lanes))
    return false;
  /* Dimensions by their numbers, or loops. */
  bool by_dims = pad || strspn(layout, " 0123456789") == strlen(layout);
  if (!(by_dims ? parse_dims(k, layout, &n, loops)
                : parse_layout(k, layout, &n, loops)))
    return false;
  const struct tt_tensor *tensor = NULL;
  for (int i = 0; i < k->s->program->ntensors; i++)
    if (strcmp(k->s->program->tensors[i]->name, name) == 0)
      tensor = k->s->program->tensors[i];
  if (!tensor)
    return tt_refuse(k->s, "no tensor '%s'", name);
  if (!alias)
    alias = tt_arena_printf(k->s->arena, "%s_c", name);
  if (lanes < 0 || lanes > 4096)
    lanes = 4096;
  bool ok = pad ? tt_cache_padded(k->s, k->stage, tensor, loop, n, loops,
                                  (int)lanes, alias)
            : by_dims && n ? tt_cache_dims(k->s, k->stage, tensor, loop, n,
                                           loops, (int)lanes, alias)
                           : tt_cache_read(k->s, k->stage, tensor, loop, n,
                                           loops, (int)lanes, alias);
  return ok && stage_cache(k, between);
}

static bool
do_cache_write(const struct call *k)
{
  int loop;
  const char *scope = "register";
  if (!arg_loop(k, k->stage, 0, true, &loop) || !key_text(k, "scope", &scope))
    return false;
  if (strcmp(scope, "register") != 0)
    return tt_refuse(k->s, "scope=\"%s\": must be register", scope);
  return tt_cache_write(k->s, k->stage, loop);
}

static bool
do_prefetch(const struct call *k)
{
  int loop;
  int64_t distance;
  const char *name;
  return arg_id(k, 0, &name) && arg_loop(k, k->stage, 1, false, &loop) &&
         arg_int(k, 2, &distance) &&
         tt_prefetch_at(k->s, k->stage, name, loop, distance);
}

static bool
do_tensorize(const struct call *k)
{
  const char *name;
  int loop;
  if (!arg_loop(k, k->stage, 0, false, &loop) || !arg_id(k, 1, &name))
    return false;
  const struct tt_intrin *in = tt_find_intrin(k->s, name);
  if (in)
    return tt_tensorize(k->s, k->stage, loop, in);
  struct tt_sb have = {0};
  for (int i = 0; i < k->s->program->nintrins; i++)
    tt_sb_printf(&have, " %s", k->s->program->intrins[i]->name);
  tt_refuse(k->s, "no intrin '%s' (have%s)", name,
            have.len ? tt_sb_str(&have) : " none");
  tt_sb_free(&have);
  return false;
}

/* name, fewest and most positional arguments, allowed keys, how it is used */
static const struct primitive {
  const char *name;
  int min, max;
  const char *keys[6];
  const char *usage;
  bool (*apply)(const struct call *);
} primitives[] = {
    {"split", 3, 3, {"tail"}, "split(loop, factor, inner)", do_split},
    {"tile",
     6,
     6,
     {0},
     "tile(a, b, factor_a, factor_b, inner_a, inner_b)",
     do_tile},
    {"fuse", 3, 3, {0}, "fuse(outer, inner, name)", do_fuse},
    {"reorder", 1, TT_MAX_LOOPS, {0}, "reorder(loop, ...)", do_reorder},
    {"unroll", 1, 1, {0}, "unroll(loop)", do_unroll},
    {"vectorize", 2, 2, {0}, "vectorize(loop, lanes)", do_vectorize},
    {"parallel", 1, 1, {0}, "parallel(loop)", do_parallel},
    {"bind", 2, 2, {0}, "bind(loop, \"thread.x\")", do_bind},
    {"rfactor", 4, 4, {0}, "rfactor(loop, factor, inner, tensor)", do_rfactor},
    {"shrink", 1, 1, {0}, "shrink(loop)", do_shrink},
    {"reciprocal", 1, 1, {0}, "reciprocal(loop)", do_reciprocal},
    {"inline", 0, 0, {0}, "inline()", do_inline},
    {"compute_at", 2, 2, {0}, "compute_at(stage, loop)", do_compute_at},
    {"finish", 1, 1, {0}, "finish(reduction)", do_finish},
    {"compute_root", 0, 0, {0}, "compute_root()", do_compute_root},
    {"layout", 1, 1, {0}, "layout(\"axes\")", do_layout},
    {"cache_read",
     2,
     2,
     {"layout", "vectorize", "name", "pad", "swizzle", "stages"},
     "cache_read(tensor, loop, layout=\"...\", pad=\"copy\")",
     do_cache_read},
    {"cache_write",
     1,
     1,
     {"scope"},
     "cache_write(loop, scope=\"register\")",
     do_cache_write},
    {"tensorize", 2, 2, {0}, "tensorize(loop, intrin)", do_tensorize},
    {"prefetch", 3, 3, {0}, "prefetch(tensor, loop, distance)", do_prefetch},
};
#define NPRIMITIVES ((int)(sizeof primitives / sizeof primitives[0]))

static bool
check_keys(const struct call *k, const struct primitive *p)
{
  for (int a = 0; a < k->c->nargs; a++) {
    const char *key = k->c->args[a].key;
    bool known = !key;
    for (int i = 0; i < 6 && !known && p->keys[i]; i++)
      known = strcmp(key, p->keys[i]) == 0;
    if (!known)
      return tt_refuse(k->s, "%s has no argument %s=; it is %s", p->name, key,
                       p->usage);
  }
  int n = count_positional(k->c);
  if (n < p->min || n > p->max)
    return tt_refuse(k->s, "%d arguments for %s", n, p->usage);
  return true;
}

bool
tt_schedule_call(struct tt_schedule *s, const struct tt_scall *c)
{
  struct call k = {s, c, tt_find_stage(s, c->stage)};
  if (k.stage < 0)
    return tt_refuse(s, "no stage '%s'", c->stage);
  for (int i = 0; i < NPRIMITIVES; i++)
    if (strcmp(primitives[i].name, c->primitive) == 0)
      return check_keys(&k, &primitives[i]) && primitives[i].apply(&k);
  struct tt_sb have = {0};
  for (int i = 0; i < NPRIMITIVES; i++)
    tt_sb_printf(&have, "%s%s", i ? " " : "", primitives[i].name);
  tt_refuse(s, "no primitive '%s' (have %s)", c->primitive, tt_sb_str(&have));
  tt_sb_free(&have);
  return false;
}

bool
tt_schedule_apply(struct tt_schedule *s, const struct tt_sblock *block,
                  const struct tt_scall **bad)
{
  for (int i = 0; i < block->ncalls; i++)
    if (!tt_schedule_call(s, &block->calls[i])) {
      if (bad)
        *bad = &block->calls[i];
      return false;
    }
  return true;
}

static void
print_arg(struct tt_sb *sb, const struct tt_sarg *a)
{
  if (a->key)
    tt_sb_printf(sb, "%s=", a->key);
  switch (a->kind) {
  case TT_SARG_ID:
    tt_sb_add(sb, a->str);
    break;
  case TT_SARG_INT:
    tt_sb_printf(sb, "%lld", (long long)a->ival);
    break;
  case TT_SARG_STR:
    tt_sb_printf(sb, "\"%s\"", a->str);
    break;
  case TT_SARG_ANY:
    tt_sb_putc(sb, '?');
    break;
  case TT_SARG_SET:
    tt_sb_putc(sb, '{');
    for (int i = 0; i < a->nset; i++)
      tt_sb_printf(sb, "%s%lld", i ? ", " : "", (long long)a->set[i]);
    tt_sb_putc(sb, '}');
    break;
  }
}

void
tt_scall_print(const struct tt_scall *c, struct tt_sb *sb)
{
  tt_sb_printf(sb, "%s.%s(", c->stage, c->primitive);
  for (int a = 0; a < c->nargs; a++) {
    if (a)
      tt_sb_add(sb, ", ");
    print_arg(sb, &c->args[a]);
  }
  tt_sb_putc(sb, ')');
}

void
tt_schedule_print(const struct tt_schedule *s, struct tt_sb *sb)
{
  tt_sb_add(sb, "schedule {\n");
  for (int i = 0; i < s->ncalls; i++) {
    tt_sb_add(sb, "  ");
    tt_scall_print(&s->calls[i], sb);
    tt_sb_add(sb, ";\n");
  }
  tt_sb_add(sb, "}\n");
}
