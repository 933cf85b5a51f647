/* Memory accesses as C: offsets, elements, vectors of neighbours and vectors
 * whose elements lie apart.
 *
 * Invariant: an offset is a sum of terms that cannot overflow, largest strides
 * first; what is read or written is what the access says, in its lanes' order.
 */
#include "config.h"

#include "codegen/cprint.h"

#include <stdlib.h>

struct term {
  int64_t coef;
  int at;
};

static int
by_coef(const void *x, const void *y)
{
  const struct term *a = x, *b = y;
  uint64_t p = a->coef < 0 ? -(uint64_t)a->coef : (uint64_t)a->coef;
  uint64_t q = b->coef < 0 ? -(uint64_t)b->coef : (uint64_t)b->coef;
  return p != q ? (p < q ? 1 : -1) : a->at - b->at;
}

static void
add_term(struct cprinter *c, struct tt_sb *sb, const char *text, int64_t coef)
{
  bool neg = coef < 0;
  unsigned long long k = neg ? -(uint64_t)coef : (uint64_t)coef;
  if (sb->len > 0)
    tt_sb_add(sb, neg ? " - " : " + ");
  else if (neg)
    tt_sb_add(sb, "-");
  if (!text)
    tt_sb_printf(sb, "%llu", k);
  else if (k == 1)
    tt_sb_add(sb, text);
  else
    tt_sb_printf(sb, "%s * %llu", text, k);
  (void)c;
}

/* The sum with the largest strides first, as one would write it. */
const char *
tt_c_offset(struct cprinter *c, const struct tt_affine *a)
{
  struct term *terms = TT_ARRAY(c->arena, struct term, (size_t)a->n + 1);
  struct tt_sb sb = {0};
  for (int i = 0; i < a->n; i++)
    terms[i] = (struct term){a->coef[i], i};
  qsort(terms, (size_t)a->n, sizeof *terms, by_coef);
  bool first = a->c0 > 0 && a->n > 0 && terms[0].coef < 0;
  c->index++;
  if (first)
    add_term(c, &sb, NULL, a->c0);
  for (int i = 0; i < a->n; i++) {
    int prec = terms[i].coef == 1 ? 9 : 10;
    add_term(c, &sb, tt_c_index(c, a->term[terms[i].at], prec), terms[i].coef);
  }
  if ((a->c0 != 0 && !first) || a->n == 0)
    add_term(c, &sb, NULL, a->c0);
  c->index--;
  const char *text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

static const char *
subscript(struct cprinter *c, const struct tt_tensor *t, int n,
          const struct tt_expr *const *idx)
{
  struct tt_affine a =
      tt_affine_of(c->arena, tt_access_base(c->arena, t, n, idx));
  return tt_c_offset(c, &a);
}

bool
tt_is_register(const struct tt_tensor *t)
{
  return t->role == TT_LOCAL && t->scope == TT_REGISTER;
}

const char *
tt_c_tensor(struct cprinter *c, const struct tt_tensor *t)
{
  const char *name = tt_names_of(c->names, t);
  if (name || t->role != TT_CONST)
    return name ? name : t->name;
  TT_PUSH(c->consts, t);
  return tt_names_bind_global(
      c->names, t, tt_arena_printf(c->arena, "%s_%s", c->name, t->name));
}

/* The address is made of integers: it may lie outside the array. */
const char *
tt_c_prefetch(struct cprinter *c, const struct tt_stmt *s)
{
  const char *name = tt_c_helper_name(c, "prefetch_line");
  if (!tt_c_has_helper(c, name))
    tt_c_add_helper(
        c, name,
        tt_arena_printf(c->arena,
                        "#ifdef __GNUC__\n"
                        "#define %s(p, i) \\\n"
                        "  __builtin_prefetch((const void *)((uintptr_t)(p) + "
                        "\\\n"
                        "      (uintptr_t)(i) * sizeof *(p)))\n"
                        "#else\n"
                        "#define %s(p, i) ((void)(p), (void)(i))\n"
                        "#endif\n",
                        name, name));
  return tt_arena_printf(c->arena, "%s(%s, %s)", name,
                         tt_c_tensor(c, s->tensor),
                         subscript(c, s->tensor, s->nidx, s->idx));
}

/* Do loads of neighbours and shuffles make the vector in fewer steps than
 * loads of its elements?  The oldest vector units cannot shuffle elements of
 * less than four bytes; theirs are the shortest vectors. */
static bool
shuffles(enum tt_dtype t, int lanes, int64_t stride)
{
  int64_t step = stride < 0 ? -stride : stride;
  int bytes = tt_dtype_bytes(t);
  int full = tt_c_lanes(lanes);
  /* (All loads but the last are whole vectors inside.) */
  return step > 1 - (lanes == full) && step <= 4 && full >= 2 * step &&
         (step - 1) * full <= (lanes - 1) * step + 1 &&
         full * bytes >= (bytes < 4 ? 32 : 16);
}

/* every2_f32x8(&A[0]): a vector from a small stride. */
static const char *
spread(struct cprinter *c, const struct tt_tensor *t, int n,
       const struct tt_expr *const *idx, int lanes, int64_t stride)
{
  const struct tt_expr *low = tt_access_base(c->arena, t, n, idx);
  if (stride < 0)
    low = tt_iadd(c->arena, low, tt_idx(c->arena, stride * (lanes - 1)));
  /* 16-bit floats are moved as integers. */
  bool half = tt_c_is_half(t->dtype);
  return tt_arena_printf(
      c->arena, "%s(%s&%s)",
      tt_c_spread_helper(c, half ? TT_U16 : t->dtype, lanes, (int)stride),
      half ? "(const uint16_t *)" : "", tt_c_element(c, t, low));
}

/* {A[0], A[4], ...}: a vector from a stride. */
static const char *
gather(struct cprinter *c, const struct tt_tensor *t, int n,
       const struct tt_expr *const *idx, int lanes, int64_t stride)
{
  struct tt_sb sb = {0};
  const struct tt_expr *base = tt_access_base(c->arena, t, n, idx);
  bool opencl = c->dialect->style == TT_OPENCL_VECTORS;
  tt_sb_printf(&sb, opencl ? "((%s)(" : "((%s){",
               tt_c_memory_vector(c, t->dtype, lanes));
  for (int i = 0; i < lanes; i++)
    tt_sb_printf(
        &sb, "%s%s", i ? ", " : "",
        tt_c_element(c, t,
                     tt_iadd(c->arena, base, tt_idx(c->arena, i * stride))));
  tt_sb_add(&sb, opencl ? "))" : "})");
  const char *text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

/* v.x or v.s0; with an index that is no constant, only to be read. */
static const char *
one_lane(struct cprinter *c, const struct tt_tensor *t, const char *name,
         const struct tt_expr *lane)
{
  bool opencl = c->dialect->style == TT_OPENCL_VECTORS;
  lane = tt_simplify(c->arena, lane, NULL);
  if (lane->kind != TT_INT)
    return tt_arena_printf(c->arena, "((const %s *)&%s)[%s]",
                           tt_c_storage(t->dtype), name,
                           tt_c_index(c, lane, PREC_ANY));
  if (opencl)
    return tt_arena_printf(c->arena, "%s.s%llx", name, (long long)lane->ival);
  return tt_arena_printf(c->arena, "%s.%c", name, "xyzw"[lane->ival & 3]);
}

const char *
tt_c_access(struct cprinter *c, const struct tt_tensor *t, int n,
            const struct tt_expr *const *idx, bool store)
{
  const char *name = tt_c_tensor(c, t);
  int lanes;
  int64_t stride;
  tt_access_shape(t, n, idx, &lanes, &stride);
  if (tt_is_register(t)) {
    if (n == 0 || lanes > 1)
      return name;
    if (c->dialect->style != TT_GNU_VECTORS)
      return one_lane(c, t, name, idx[0]);
    return tt_arena_printf(c->arena, "%s[%s]", name, subscript(c, t, n, idx));
  }
  if (t->ndim == 0 && (t->role == TT_LOCAL || t->role == TT_CONST))
    return tt_arena_printf(c->arena, "%s[0]", name);
  if (lanes > 1 && stride != 1 && !c->options->gpu &&
      shuffles(t->dtype, lanes, stride))
    return spread(c, t, n, idx, lanes, stride);
  if (lanes > 1 && stride != 1)
    return gather(c, t, n, idx, lanes, stride);
  const char *s = tt_c_element(c, t, tt_access_base(c->arena, t, n, idx));
  if (tt_c_is_part(lanes)) {
    const char *address = tt_arena_printf(c->arena, "&%s", s);
    return store
               ? address
               : tt_c_part_load(c, t->dtype, tt_c_lanes(lanes), lanes, address);
  }
  if (lanes == 1)
    return s;
  if (c->dialect->style == TT_OPENCL_VECTORS)
    return store ? tt_arena_printf(c->arena, "&%s", s)
                 : tt_arena_printf(c->arena, "vload%d(0, &%s)", lanes, s);
  return tt_arena_printf(c->arena, "*(%s%s *)&%s", store ? "" : "const ",
                         tt_c_unaligned(c, t->dtype, lanes), s);
}

const char *
tt_c_neighbours(struct cprinter *c, const struct tt_expr *load, int n)
{
  const struct tt_tensor *t = load->tensor;
  return tt_arena_printf(c->arena, "*(const %s *)&%s[%s]",
                         tt_c_unaligned(c, t->dtype, n), tt_c_tensor(c, t),
                         subscript(c, t, load->nargs, load->args));
}
