/* Nests built by hand for the tests of code generation, and the check that
 * every stage of it keeps what they mean.  All that is built is the arena's,
 * which check_nest frees. */
#ifndef TT_TESTS_NEST_H
#define TT_TESTS_NEST_H

#include "ir/passes.h"

#define IDX(...) ((const struct tt_expr *[]){__VA_ARGS__})
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* A program under construction. */
struct fix {
  struct tt_arena *ar;
  struct tt_program *p;
  struct tt_nest nest;
  int nextvar;
};

static inline void
start(struct fix *f, const char *name)
{
  *f = (struct fix){.ar = tt_arena_new()};
  f->p = tt_program_new(f->ar, name);
  f->nest.program = f->p;
  f->nextvar = 1000;
}

static inline struct tt_tensor *
param(struct fix *f, const char *name, enum tt_role role, enum tt_dtype t,
      int ndim, const int64_t *dims)
{
  return tt_program_tensor(f->p, name, role, t, ndim, dims);
}

static inline struct tt_tensor *
local(struct fix *f, const char *name, enum tt_scope scope, enum tt_dtype d,
      int ndim, const int64_t *dims)
{
  struct tt_tensor *t = TT_NEW(f->ar, struct tt_tensor);
  t->name = name;
  t->role = TT_LOCAL;
  t->scope = scope;
  t->dtype = d;
  t->ndim = ndim;
  t->id = -1;
  for (int i = 0; i < ndim; i++)
    t->dims[i] = dims[i];
  return t;
}

static inline const struct tt_var *
var(struct fix *f, const char *name, int64_t extent)
{
  struct tt_var *v = TT_NEW(f->ar, struct tt_var);
  v->name = name;
  v->extent = extent;
  v->id = f->nextvar++;
  return v;
}

static inline const struct tt_expr *
ref(struct fix *f, const struct tt_var *v)
{
  return tt_var_ref(f->ar, v);
}

static inline const struct tt_expr *
load(struct fix *f, const struct tt_tensor *t, const struct tt_expr *const *i)
{
  return tt_load(f->ar, t, t->ndim, i);
}

static inline const struct tt_stmt *
store(struct fix *f, const struct tt_tensor *t, const struct tt_expr *const *i,
      const struct tt_expr *v)
{
  return tt_store(f->ar, t, t->ndim, i, v);
}

static inline const struct tt_stmt *
vector(struct fix *f, const struct tt_var *v, int lanes,
       const struct tt_stmt *body)
{
  return tt_for(f->ar, TT_VECTOR, lanes, v, body);
}

static inline const struct tt_stmt *
serial(struct fix *f, const struct tt_var *v, const struct tt_stmt *body)
{
  return tt_for(f->ar, TT_SERIAL, 1, v, body);
}

static inline const struct tt_stmt *
seq2(struct fix *f, const struct tt_stmt *a, const struct tt_stmt *b)
{
  return tt_seq(f->ar, 2, (const struct tt_stmt *[]){a, b});
}

/* The nest, what the passes make of it for every width, and the compiled C
 * give the same; else the test fails.  Frees the arena. */
void check_nest(struct fix *);

#endif
