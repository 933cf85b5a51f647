/* The static functions that emitted expressions call.
 *
 * Only what is used gets printed.  A scalar helper is named after what it
 * does and its type (min_f32, sat_i8_i32) and made from the name; vector
 * helpers apply an operation lane by lane or blend whole vectors.  In a file
 * that holds several kernels their names carry the kernel's.
 */
#include "config.h"

#include "codegen/cprint.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const char *
tt_c_add_helper(struct cprinter *c, const char *name, const char *text)
{
  static const char plain[] = "static inline";
  size_t n = strlen(plain);
  if (strncmp(text, plain, n) == 0)
    text = tt_arena_printf(c->arena, "%s%s", c->dialect->function, text + n);
  TT_PUSH(c->helpers, ((struct helper){name, text}));
  return name;
}

const char *
tt_c_helper_name(struct cprinter *c, const char *name)
{
  if (!c->options->entry)
    return name;
  return tt_arena_printf(c->arena, "%s_%s", c->name, name);
}

bool
tt_c_has_helper(const struct cprinter *c, const char *name)
{
  for (int i = 0; i < c->helpers.n; i++)
    if (strcmp(c->helpers.items[i].name, name) == 0)
      return true;
  return false;
}

/* Fixed texts: $ is the name, T the type, U its unsigned form, M its macro's
 * infix, F the suffix of math functions. */
static const struct {
  const char *op, *text;
  bool math;
} scalars[] = {
    {"min", "static inline T $(T a, T b)\n{\n  return a < b ? a : b;\n}\n",
     false},
    {"max", "static inline T $(T a, T b)\n{\n  return a > b ? a : b;\n}\n",
     false},
    {"abs",
     "static inline T $(T a)\n{\n  return a < 0 ? (T)(0u - (U)a) : a;\n}\n",
     false},
    {"quot",
     "static inline T $(T a, T b)\n{\n"
     "  return b == -1 ? (T)(0u - (U)a) : a / b;\n}\n",
     false},
    {"rem",
     "static inline T $(T a, T b)\n{\n  return b == -1 ? 0 : a % b;\n}\n",
     false},
    {"floordiv",
     "static inline T $(T a, T b)\n{\n"
     "  if (b == -1)\n    return (T)(0u - (U)a);\n"
     "  return a / b - (a % b != 0 && (a < 0) != (b < 0));\n}\n",
     false},
    {"floormod",
     "static inline T $(T a, T b)\n{\n"
     "  T r = b == -1 ? 0 : a % b;\n"
     "  return r != 0 && (r < 0) != (b < 0) ? r + b : r;\n}\n",
     false},
    {"f2i",
     "static inline int64_t $(double v)\n{\n"
     "  if (v != v)\n    return 0;\n"
     "  if (v >= 9223372036854775808.0)\n    return INT64_MAX;\n"
     "  if (v < -9223372036854775808.0)\n    return INT64_MIN;\n"
     "  return (int64_t)v;\n}\n",
     false},
    {"sqrdmulh",
     "static inline T $(T a, T b)\n{\n"
     "  if (a == INT32_MIN && b == INT32_MIN)\n    return INT32_MAX;\n"
     "  return (T)(((int64_t)a * b + (1 << 30)) >> 31);\n}\n",
     false},
    {"rdivp2",
     "static inline T $(T x, T e)\n{\n"
     "  const int64_t mask = ((int64_t)1 << e) - 1;\n"
     "  const int64_t rest = x & mask;\n"
     "  return (T)(((int64_t)x >> e) + (rest > (mask >> 1) + (x < 0)));\n}\n",
     false},
    {"opaque",
     "static inline T $(T v)\n{\n  asm(\"\" : \"+r\"(v));\n  return v;\n}\n",
     false},
    {"rsqrt", "static inline T $(T x)\n{\n  return 1 / sqrtF(x);\n}\n", true},
    {"sigmoid", "static inline T $(T x)\n{\n  return 1 / (1 + expF(-x));\n}\n",
     true},
    {"bf16_to",
     "static inline float $(uint16_t v)\n{\n"
     "  union {\n    uint32_t u;\n    float f;\n  } x;\n"
     "  x.u = (uint32_t)v << 16;\n  return x.f;\n}\n",
     false},
    {"f32_to",
     "static inline uint16_t $(float v)\n{\n"
     "  union {\n    uint32_t u;\n    float f;\n  } x;\n"
     "  x.f = v;\n"
     "  if (v != v)\n    return (uint16_t)(x.u >> 16 | 0x40);\n"
     "  return (uint16_t)((x.u + 0x7fff + (x.u >> 16 & 1)) >> 16);\n}\n",
     false},
};

static const char *
fill_in(struct cprinter *c, const char *text, const char *name, enum tt_dtype t)
{
  struct tt_sb sb = {0};
  const char *u = t == TT_I64 ? "uint64_t" : "uint32_t";
  for (const char *p = text; *p; p++) {
    bool word = p > text && (p[-1] == '_' || (p[-1] >= 'A' && p[-1] <= 'Z'));
    bool next = p[1] == '_' || (p[1] >= 'A' && p[1] <= 'Z') ||
                (p[1] >= '0' && p[1] <= '9');
    if (*p == '$')
      tt_sb_add(&sb, name);
    else if (*p == 'T' && !word && !next)
      tt_sb_add(&sb, tt_c_value(t));
    else if (*p == 'U' && !word && !next)
      tt_sb_add(&sb, u);
    else if (*p == 'F' && !next && p[1] == '(')
      tt_sb_add(&sb, t == TT_F64 ? "" : c->dialect->single);
    else
      tt_sb_putc(&sb, *p);
  }
  const char *r = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return r;
}

/* sat_T_S: the range of T as S; what does not fit is never converted. */
static const char *
sat_text(struct cprinter *c, const char *name, enum tt_dtype t, enum tt_dtype s)
{
  int p;
  const char *lo = tt_c_int(c, TT_I64, tt_dtype_min(t), &p);
  const char *hi = tt_c_int(c, TT_I64, tt_dtype_max(t), &p);
  const char *ts = tt_c_value(t), *ss = tt_c_value(s);
  if (tt_dtype_is_float(s)) {
    /* 2^n is exact where 2^n - 1 may not be; truncation is towards zero. */
    const char *f = s == TT_F32 ? ".0f" : ".0";
    long long above = (long long)tt_dtype_max(t) + 1;
    return tt_arena_printf(
        c->arena,
        "static inline %s %s(%s v)\n{\n  if (!(v > %lld%s))\n"
        "    return v != v ? 0 : %s;\n  return v >= %lld%s ? %s : (%s)v;\n}\n",
        ts, name, ss, (long long)tt_dtype_min(t), f, lo, above, f, hi, ts);
  }
  const char *low = tt_dtype_min(s) < tt_dtype_min(t)
                        ? tt_arena_printf(c->arena, "v < %s ? %s : ", lo, lo)
                        : "";
  const char *high = tt_dtype_max(s) > tt_dtype_max(t)
                         ? tt_arena_printf(c->arena, "v > %s ? %s : ", hi, hi)
                         : "";
  return tt_arena_printf(c->arena,
                         "static inline %s %s(%s v)\n{\n"
                         "  return (%s)(%s%sv);\n}\n",
                         ts, name, ss, ts, low, high);
}

/* f16 of GPUs: an integer in memory, f32 in registers. */
static const char *
half_text(struct cprinter *c, const char *name, bool to)
{
  static const char *const bodies[2][3] = {
      {"  union {\n    uint16_t u;\n    _Float16 h;\n  } x;\n"
       "  x.h = (_Float16)v;\n  return x.u;\n",
       "  uint16_t u;\n  vstore_half_rte(v, 0, (half *)&u);\n  return u;\n",
       "  return __half_as_ushort(__float2half_rn(v));\n"},
      {"  union {\n    uint16_t u;\n    _Float16 h;\n  } x;\n"
       "  x.u = v;\n  return x.h;\n",
       "  return vload_half(0, (const half *)&v);\n",
       "  return __half2float(__ushort_as_half(v));\n"}};
  return tt_arena_printf(c->arena, "static inline %s %s(%s v)\n{\n%s}\n",
                         to ? "float" : "uint16_t", name,
                         to ? "uint16_t" : "float",
                         bodies[to][c->dialect->style]);
}

static const char *
scalar_text(struct cprinter *c, const char *name, const char *full)
{
  const char *last = strrchr(name, '_');
  enum tt_dtype t = TT_I32, s;
  tt_dtype_parse(last + 1, &t);
  if (strncmp(name, "sat_", 4) == 0) {
    const char *mid = name + 4;
    s = t;
    tt_dtype_parse(tt_arena_strndup(c->arena, mid, (size_t)(last - mid)), &t);
    return sat_text(c, full, t, s);
  }
  bool to = strcmp(name, "f16_to_f32") == 0;
  if (to || strcmp(name, "f32_to_f16") == 0)
    return half_text(c, full, to);
  if (strcmp(name, "round_f16") == 0)
    return tt_arena_printf(
        c->arena,
        "static inline float %s(float v)\n{\n  return %s(%s(v));\n}\n", full,
        tt_c_helper(c, "f16_to_f32"), tt_c_helper(c, "f32_to_f16"));
  if (strcmp(name, "round_bf16") == 0)
    return tt_arena_printf(
        c->arena,
        "static inline float %s(float v)\n{\n  return %s(%s(v));\n}\n", full,
        tt_c_helper(c, "bf16_to_f32"), tt_c_helper(c, "f32_to_bf16"));
  for (size_t i = 0; i < sizeof scalars / sizeof *scalars; i++) {
    size_t n = (size_t)(last - name);
    if (strlen(scalars[i].op) == n && strncmp(scalars[i].op, name, n) == 0) {
      c->math = c->math || scalars[i].math;
      return fill_in(c, scalars[i].text, full, t);
    }
  }
  return "";
}

const char *
tt_c_helper(struct cprinter *c, const char *name)
{
  const char *full = tt_c_helper_name(c, name);
  if (!tt_c_has_helper(c, full))
    tt_c_add_helper(c, full, scalar_text(c, name, full));
  return full;
}

/* ---- vectors ---------------------------------------------------------- */

const char *
tt_c_vector_macro(struct cprinter *c, const char *name, const char *params,
                  const char *body)
{
  struct tt_sb sb = {0};
  tt_sb_printf(&sb, "#define %s(%s) __extension__({ \\\n", name, params);
  for (; *body; body++) {
    if (*body == '\n')
      tt_sb_add(&sb, " \\");
    tt_sb_putc(&sb, *body);
  }
  tt_sb_add(&sb, "})\n");
  const char *text = tt_arena_strdup(c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return text;
}

const char *
tt_c_vec_helper(struct cprinter *c, const char *op, enum tt_dtype t, int lanes)
{
  if (tt_c_is_half(t))
    t = TT_F32;
  const char *v = tt_c_vector(c, t, lanes);
  const char *m = tt_c_vector(c, tt_signed_of_bytes(tt_dtype_bytes(t)), lanes);
  const char *name =
      tt_c_helper_name(c, tt_arena_printf(c->arena, "%s_%s", op, v));
  if (tt_c_has_helper(c, name))
    return name;
  bool select = strcmp(op, "select") == 0;
  if (c->dialect->style == TT_OPENCL_VECTORS)
    return tt_c_add_helper(
        c, name,
        select ? tt_arena_printf(c->arena,
                                 "static inline %s %s(%s z, %s x, %s y)\n{\n"
                                 "  return select(y, x, z);\n}\n",
                                 v, name, m, v, v)
               : tt_arena_printf(c->arena,
                                 "static inline %s %s(%s x, %s y)\n{\n"
                                 "  return select(y, x, x %s y);\n}\n",
                                 v, name, v, v,
                                 strcmp(op, "min") == 0 ? "<" : ">"));
  const char *mask = select
                         ? "(z)"
                         : tt_arena_printf(c->arena, "tt_a %s tt_b",
                                           strcmp(op, "min") == 0 ? "<" : ">");
  const char *body =
      tt_arena_printf(c->arena,
                      "  const %s tt_a = (x), tt_b = (y);\n"
                      "  const %s tt_m = %s;\n"
                      "  (%s)((tt_m & (%s)tt_a) | (~tt_m & (%s)tt_b));\n",
                      v, m, mask, v, m, m);
  const char *text =
      tt_c_vector_macro(c, name, select ? "z, x, y" : "x, y", body);
  const char *condition,
      *fast = select ? NULL : tt_c_extremum(c, op, t, lanes, &condition);
  if (fast)
    text = tt_arena_printf(c->arena,
                           "#if %s\n#define %s(x, y) \\\n  (%s)\n"
                           "#else\n%s#endif\n",
                           condition, name, fast, text);
  return tt_c_add_helper(c, name, text);
}

/* __builtin_shuffle is gcc's alone, and older. */
const char *
tt_c_shuffle_helper(struct cprinter *c)
{
  const char *name = tt_c_helper_name(c, "shuffle");
  if (tt_c_has_helper(c, name))
    return name;
  const char *text =
      tt_arena_printf(c->arena,
                      "#if defined(__clang__) || __GNUC__ >= 12\n"
                      "#define %s(type, x, y, ...) \\\n"
                      "  __builtin_shufflevector(x, y, __VA_ARGS__)\n"
                      "#else\n"
                      "#define %s(type, x, y, ...) \\\n"
                      "  __builtin_shuffle(x, y, (type){__VA_ARGS__})\n"
                      "#endif\n",
                      name, name);
  return tt_c_add_helper(c, name, text);
}

/* Elements that lie `step` apart, from `step` loads of neighbours: the last
 * load ends with the last element, so that nothing outside is read. */
struct spread {
  int lanes; /* of a load */
  int n;     /* elements: all lanes or the first ones */
  int step;
  bool back; /* the last element comes first */
};

static int
load_at(const struct spread *s, int k)
{
  return k + 1 < s->step ? k * s->lanes : (s->n - 1) * s->step + 1 - s->lanes;
}

/* Tells which lane of what is there (the first load, or all lanes that the
 * loads before `k` gave) and of load `k` (counted from `lanes`) is lane i. */
static int
pick(const struct spread *s, int k, int i)
{
  if (i >= s->n)
    return i;
  int element = (s->back ? s->n - 1 - i : i) * s->step;
  int from = element / s->lanes;
  if (s->step == 1)
    return element;
  if (from == k)
    return s->lanes + element - load_at(s, k);
  return k == 1 && from == 0 ? element : i;
}

static void
add_shuffle(struct cprinter *c, struct tt_sb *sb, enum tt_dtype t,
            const struct spread *s, int k)
{
  enum tt_dtype m = tt_signed_of_bytes(tt_dtype_bytes(t));
  tt_sb_printf(sb, "%s(%s, tt_v, %s,", tt_c_shuffle_helper(c),
               tt_c_vector(c, m, s->lanes), s->step == 1 ? "tt_v" : "tt_w");
  for (int i = 0; i < s->lanes; i++)
    tt_sb_printf(sb, "%s%d%s", i % 16 ? " " : "\n      ", pick(s, k, i),
                 i + 1 < s->lanes ? "," : ");\n");
}

const char *
tt_c_spread_helper(struct cprinter *c, enum tt_dtype t, int lanes, int step)
{
  const struct spread s = {tt_c_lanes(lanes), lanes, abs(step), step < 0};
  const char *v = tt_c_vector(c, t, lanes);
  const char *u = tt_c_unaligned(c, t, s.lanes);
  const char *part = s.n < s.lanes ? tt_arena_printf(c->arena, "_%d", s.n) : "";
  const char *name = tt_c_helper_name(
      c, s.step == 1 ? tt_arena_printf(c->arena, "reversed_%s", v)
                     : tt_arena_printf(c->arena, "every%d_%s%s%s", s.step, v,
                                       part, s.back ? "_reversed" : ""));
  if (tt_c_has_helper(c, name))
    return name;
  struct tt_sb sb = {0};
  tt_sb_printf(&sb,
               "  const %s *tt_p = (p);\n  %s tt_v = *(const %s *)tt_p%s;\n",
               tt_c_storage(t), v, u, s.step > 1 ? ", tt_w" : "");
  if (s.step == 1) {
    tt_sb_add(&sb, "  ");
    add_shuffle(c, &sb, t, &s, 0);
  }
  for (int k = 1; k < s.step; k++) {
    tt_sb_printf(&sb, "  tt_w = *(const %s *)(tt_p + %d);\n  %s", u,
                 load_at(&s, k), k + 1 < s.step ? "tt_v = " : "");
    add_shuffle(c, &sb, t, &s, k);
  }
  const char *text = tt_c_vector_macro(c, name, "p", tt_sb_str(&sb));
  tt_sb_free(&sb);
  return tt_c_add_helper(c, name, text);
}

/* Products of 64 bits, rounded; what does not fit saturates. */
static const char sqrdmulh[] =
    "  const I tt_a = (x), tt_b = (y);\n"
    "  const L tt_p = __builtin_convertvector(tt_a, L) *\n"
    "    __builtin_convertvector(tt_b, L) + ((int64_t)1 << 30);\n"
    "  __builtin_convertvector(tt_p >> (int64_t)31, I) ^\n"
    "    ((tt_a == INT32_MIN) & (tt_b == INT32_MIN));\n";
/* Comparisons are -1 where they hold. */
static const char rdivp2[] =
    "  const I tt_a = (x), tt_b = (y);\n"
    "  const I tt_m = (I)((((U){0} + 1u) << (U)tt_b) - 1u);\n"
    "  (tt_a >> tt_b) - ((tt_a & tt_m) > (tt_m >> 1) - (tt_a < 0));\n";

const char *
tt_c_fixed_helper(struct cprinter *c, const struct tt_expr *e)
{
  bool product = e->fn == TT_FN_SQRDMULH;
  int lanes = e->type.lanes;
  if (e->kind != TT_CALL || (!product && e->fn != TT_FN_RDIVP2) ||
      e->args[1]->type.dtype != TT_I32 || c->dialect->style != TT_GNU_VECTORS)
    return NULL;
  const char *types[] = {tt_c_vector(c, TT_I32, lanes),
                         tt_c_vector(c, TT_U32, lanes),
                         product ? tt_c_vector(c, TT_I64, lanes) : ""};
  const char *name = tt_c_helper_name(
      c, tt_arena_printf(c->arena, "%s_%s", tt_fn_name(e->fn), types[0]));
  if (tt_c_has_helper(c, name))
    return name;
  struct tt_sb sb = {0};
  const char *text = product ? sqrdmulh : rdivp2;
  for (const char *p = text; *p; p++) {
    static const char letters[] = "IUL";
    const char *which = strchr(letters, *p);
    bool word = isalnum((unsigned char)p[1]) || p[1] == '_' ||
                (p > text && (isalnum((unsigned char)p[-1]) || p[-1] == '_'));
    if (which && !word)
      tt_sb_add(&sb, types[which - letters]);
    else
      tt_sb_putc(&sb, *p);
  }
  text = tt_c_vector_macro(c, name, "x, y", tt_sb_str(&sb));
  tt_sb_free(&sb);
  return tt_c_add_helper(c, name, text);
}

static const char *
op_name(const struct tt_expr *e)
{
  if (e->kind == TT_CALL)
    return tt_fn_name(e->fn);
  if (e->kind != TT_BINARY)
    return e->kind == TT_SAT ? "sat" : "cast";
  switch (e->op) {
  case TT_DIV:
    return "floordiv";
  case TT_MOD:
    return "floormod";
  case TT_SHL:
    return "shl";
  case TT_SHR:
    return "shr";
  case TT_OR:
  case TT_AND:
  case TT_EQ:
  case TT_NE:
  case TT_LT:
  case TT_GT:
  case TT_LE:
  case TT_GE:
  case TT_BOR:
  case TT_BXOR:
  case TT_BAND:
  case TT_ADD:
  case TT_SUB:
  case TT_MUL:
  case TT_MIN:
  case TT_MAX:
  case TT_NBINOPS:
    break;
  }
  return tt_binop_text(e->op);
}

/* An operand of the lane's expression: a variable of the vector's type. */
static const struct tt_expr *
lane_of(struct cprinter *c, const struct tt_expr *e, const char *name,
        const struct tt_var *i)
{
  struct tt_tensor *t = TT_NEW(c->arena, struct tt_tensor);
  t->name = name;
  t->dtype = e->type.dtype;
  t->role = TT_LOCAL;
  t->scope = TT_REGISTER;
  t->ndim = 1;
  t->dims[0] = e->type.lanes;
  const struct tt_expr *idx = tt_var_ref(c->arena, i);
  return tt_load(c->arena, t, 1, &idx);
}

static const struct tt_expr *
scalar_op(struct cprinter *c, const struct tt_expr *e,
          const struct tt_expr *const *x)
{
  if (e->kind == TT_CALL)
    return tt_call(c->arena, e->fn, e->type.dtype, e->nargs, x);
  if (e->kind == TT_BINARY)
    return tt_binary(c->arena, e->op, x[0], x[1]);
  if (e->kind == TT_SAT)
    return tt_sat(c->arena, e->type.dtype, x[0]);
  return tt_cast(c->arena, e->type.dtype, x[0]);
}

/* The same for OpenCL C, whose vectors have no subscripts. */
static const char *
lane_function(struct cprinter *c, const char *name, const struct tt_expr *e,
              int n, const char *const *types, const char *value)
{
  const char *result = tt_c_vector(c, e->type.dtype, e->type.lanes);
  const char *b = n > 1 ? tt_arena_printf(c->arena, ", %s tt_b", types[1]) : "";
  return tt_c_add_helper(
      c, name,
      tt_arena_printf(c->arena,
                      "static inline %s %s(%s tt_a%s)\n{\n  %s tt_r;\n"
                      "  for (int tt_i = 0; tt_i < %d; tt_i++)\n"
                      "    ((%s *)&tt_r)[tt_i] = %s;\n  return tt_r;\n}\n",
                      result, name, types[0], b, result, e->type.lanes,
                      tt_c_storage(e->type.dtype), value));
}

const char *
tt_c_opencl_math(struct cprinter *c, const struct tt_expr *e)
{
  bool wide =
      tt_dtype_is_float(e->type.dtype) && tt_dtype_bytes(e->type.dtype) >= 4;
  if (c->dialect->style != TT_OPENCL_VECTORS || e->kind != TT_CALL || !wide)
    return NULL;
  if (e->fn == TT_FN_ABS)
    return "fabs";
  if (e->fn != TT_FN_SIGMOID)
    return tt_fn_name(e->fn);
  const char *v = tt_c_vector(c, e->type.dtype, e->type.lanes);
  const char *name = tt_arena_printf(c->arena, "sigmoid_%s", v);
  if (tt_c_has_helper(c, name))
    return name;
  return tt_c_add_helper(
      c, name,
      tt_arena_printf(c->arena,
                      "static inline %s %s(%s x)\n{\n"
                      "  return (%s)1 / ((%s)1 + exp(-x));\n}\n",
                      v, name, v, v, v));
}

const char *
tt_c_lane_helper(struct cprinter *c, const struct tt_expr *e)
{
  static const char *const names[2] = {"tt_a", "tt_b"};
  const struct tt_expr *args[2] = {e->a, e->b};
  const char *types[2];
  int n = e->kind == TT_CALL ? e->nargs : e->b ? 2 : 1;
  int lanes = e->type.lanes;
  struct tt_var i = {"tt_i", lanes, -1};
  const struct tt_expr *x[2];
  for (int k = 0; k < n; k++) {
    if (e->kind == TT_CALL)
      args[k] = e->args[k];
    types[k] = tt_c_vector(c, args[k]->type.dtype, lanes);
    x[k] = lane_of(c, args[k], names[k], &i);
  }
  const char *result = tt_c_vector(c, e->type.dtype, lanes);
  const char *kind = op_name(e);
  if (e->kind == TT_SAT || e->kind == TT_CAST)
    kind =
        tt_arena_printf(c->arena, "%s_%s", kind, tt_dtype_name(e->type.dtype));
  if (tt_c_is_part(lanes))
    kind = tt_arena_printf(c->arena, "%s%d", kind, lanes);
  const char *name =
      tt_c_helper_name(c, tt_arena_printf(c->arena, "%s_%s", kind, types[0]));
  if (tt_c_has_helper(c, name))
    return name;
  const char *value = tt_c_expr(c, scalar_op(c, e, x), PREC_ANY);
  if (c->dialect->style == TT_OPENCL_VECTORS)
    return lane_function(c, name, e, n, types, value);
  const char *b =
      n > 1 ? tt_arena_printf(c->arena, "  const %s tt_b = (y);\n", types[1])
            : "";
  const char *body =
      tt_arena_printf(c->arena,
                      "  const %s tt_a = (x);\n%s  %s tt_r = {0};\n"
                      "  for (int tt_i = 0; tt_i < %d; tt_i++)\n"
                      "    tt_r[tt_i] = %s;\n  tt_r;\n",
                      types[0], b, result, lanes, value);
  return tt_c_add_helper(
      c, name, tt_c_vector_macro(c, name, n > 1 ? "x, y" : "x", body));
}
