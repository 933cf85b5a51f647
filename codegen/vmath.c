/* exp, log, tanh, sigmoid, erf and rsqrt as straight code over GNU vectors.
 *
 * A call of the library would take the vector apart.  (sqrt, which must be
 * correctly rounded, and pow still go lane by lane.)  Every function is one
 * template in which the element type and the number of lanes are filled in.
 * There are no branches; special values are blended in.  The scalar form wraps
 * a vector of one lane, so what an element becomes does not depend on the
 * schedule.
 *
 * All are within 2 ulp of the exact value, whether or not the compiler joins
 * multiplications and additions into one rounding: products that must be
 * exact are (n * ln2_hi), and no other step relies on either.  The bounds
 * printed with the functions are for both.  They need the usual rules of
 * floating point: not -ffast-math.
 *
 * Polynomials are minimax for the relative error of the result, found by
 * Remez' exchange in 200 bits, coefficients then rounded to the type:
 *
 *   exp    (exp(r) - 1 - r) / r^2             |r| <= 1.01 ln(2) / 2
 *   log    (log(1 + f) - f + f^2 / 2) / f^3   sqrt(1/2) <= 1 + f < sqrt(2)
 *   tanh   (tanh(x) / x - 1) / x^2, in x^2    |x| <= 0.625
 *   erf    erf(x) / x - 1, in x^2             |x| <= 0.921875
 *   erfc   -log(erfc(x))                      0.921875 <= x <= 4; f64: 6
 */
#include "config.h"

#include "codegen/vmath.h"

#include <assert.h>
#include <string.h>

/* ---- coefficients, from the highest power down ------------------------- */

static const double exp_32[] = {0.00138131611, 0.00836941879, 0.041668456,
                                0.166665152, 0.49999994};
static const double exp_64[] = {2.4998992160625014e-08, 2.7631687232140857e-07,
                                2.7557597189076595e-06, 2.48014893526465e-05,
                                0.00019841269486158084, 0.0013888888946919521,
                                0.0083333333335076625,  0.041666666666519157,
                                0.16666666666666385,    0.50000000000000122};
static const double log_32[] = {-0.0763449445, 0.12761575,   -0.131601825,
                                0.142017588,   -0.166233569, 0.200012267,
                                -0.250008196,  0.333333313};
static const double tanh_32[] = {-0.00570498127, 0.0206390824, -0.0537397154,
                                 0.133314416, -0.333332807};
static const double tanh_64[] = {
    6.0424665819063328e-06,  -3.0187215576879984e-05, 9.1558405714843279e-05,
    -0.00023701172589794738, 0.00058945179706542251,  -0.0014557259475252277,
    0.0035921139997739781,   -0.0088632343125661043,  0.021869488468714424,
    -0.053968253966058859,   0.13333333333329742,     -0.33333333333333315};
static const double erf_32[] = {8.37009429e-05, -0.000814270286, 0.00520103192,
                                -0.0268593989,  0.112836957,     -0.376126349,
                                0.128379166};
static const double erf_64[] = {
    -8.3292821697230841e-10, 1.3979231199388833e-08,  -1.6262859825164771e-07,
    1.6453870011167723e-06,  -1.4925211014456731e-05, 0.00012055317287176207,
    -0.00085483266530934627, 0.0052239776198861436,   -0.026866170644638192,
    0.11283791670952859,     -0.37612638903183709,    0.12837916709551259};
static const double erfc_32[] = {-0.00019572067, 0.003041093, -0.0222184509,
                                 0.103914022,    0.637202263, 1.12766373,
                                 0.000198554786};
static const double erfc_64[] = {
    -1.295906094302033e-12,  5.8199632251141648e-11,  -1.223835339968024e-09,
    1.59976117183654e-08,    -1.4536391942719403e-07, 9.7051739512362992e-07,
    -4.8850716288125257e-06, 1.8538176083776741e-05,  -5.0841308176673935e-05,
    8.3618881195034501e-05,  2.0666912705676379e-05,  -0.00060610486699640674,
    0.0017287498177661195,   -0.00024445227016278064, -0.019102771424647669,
    0.10275963339821235,     0.63662417013984174,     1.1283782617641005,
    8.5800799487362258e-08};
static const double log_64[] = {
    0.02615091692066366,   -0.059817009338993511, 0.065034906181730717,
    -0.056777844006696769, 0.056683779871524627,  -0.061966786017934025,
    0.066845890792366497,  -0.071494394654503454, 0.076915298182665071,
    -0.083329135452802669, 0.090909239322636212,  -0.10000015206035968,
    0.11111111147439037,   -0.12499999691448369,  0.1428571428009395,
    -0.16666666669825819,  0.20000000000066601,   -0.24999999999987976,
    0.33333333333333143};

static const struct {
  const char *name;
  int n32, n64;
  const double *f32, *f64;
} polynomials[] = {
#define N(a) ((int)(sizeof(a) / sizeof *(a)))
#define POLYNOMIAL(p)                                                          \
  {                                                                            \
#p, N(p##_32), N(p##_64), p##_32, p##_64                                   \
  }
    POLYNOMIAL(exp), POLYNOMIAL(log),  POLYNOMIAL(tanh),
    POLYNOMIAL(erf), POLYNOMIAL(erfc),
#undef POLYNOMIAL
#undef N
};

/* ---- templates ---------------------------------------------------------- */

/* Words that differ between f32 and f64. */
static const struct {
  const char *word, *f32, *f64;
} words[] = {
    {"inf", "__builtin_inff()", "__builtin_inf()"},
    {"log2e", "1.44269504f", "1.4426950408889634"},
    /* n * ln2_hi is exact for the n that occur */
    {"ln2_hi", "0.69314575f", "0.6931471803691238"},
    {"ln2_lo", "1.4286068e-6f", "1.9082149292705877e-10"},
    /* x + 1.5 * 2^bits rounds to an integer, in the low bits; more is added
     * so that these are an exponent: n + twice the bias, and so on */
    {"round_exp", "12583166.0f", "6755399441057790.0"},
    {"round_one", "12583039.0f", "6755399441056767.0"},
    {"round_sigmoid", "12582975.0f", "6755399441056255.0"},
    {"sigmoid_one", "0x1p-64f", "0x1p-512"},
    {"exp_min", "104.0f", "746.0"},
    {"exp_max", "89.0f", "710.0"},
    {"sigmoid_min", "40.0f", "40.0"},
    {"sigmoid_max", "105.0f", "747.0"},
    {"tanh_max", "10.0f", "20.0"},
    {"tanh_mid", "0.625f", "0.625"},
    {"erf_max", "4.0f", "6.0"},
    {"erf_mid", "0.921875f", "0.921875"},
    {"half", "0.5f", "0.5"},
    {"one", "1.0f", "1.0"},
    {"two", "2.0f", "2.0"},
    {"threehalfs", "1.5f", "1.5"},
    {"upper_half", "0xfffff000u", "0xfffffffff8000000u"},
    {"newton", "  r *= 1.5f - h * r * r;\n  r *= 1.5f - h * r * r;\n",
     "  r *= 1.5 - h * r * r;\n  r *= 1.5 - h * r * r;\n"
     "  r *= 1.5 - h * r * r;\n"},
    {"bits", "23", "52"},
    {"min_normal", "0x1p-126f", "0x1p-1022"},
    {"grow", "0x1p24f", "0x1p54"},
    {"grow_bits", "24.0f", "54.0"},
    /* of sqrt(1/2), below 1 by bias << bits */
    {"log_bias", "0x4afb0du", "0x95f619980c433u"},
    {"log_low", "0x3f3504f3u", "0x3fe6a09e667f3bcdu"},
    {"log_one", "0x4b000000u", "0x4330000000000000u"},
    {"log_int", "8388735.0f", "4503599627371519.0"},
    {"fraction", "0x7fffffu", "0xfffffffffffffu"},
    {"sign", "0x80000000u", "0x8000000000000000u"},
    {"not_sign", "0x7fffffffu", "0x7fffffffffffffffu"},
    {"inf_bits", "0x7f800000u", "0x7ff0000000000000u"},
    {"rsqrt_tiny", "0x1p-100f", "0x1p-1000"},
    {"rsqrt_up", "0x1p26f", "0x1p56"},
    {"rsqrt_down", "0x1p-4f", "0x1p-4"},
    {"root_up", "0x1p13f", "0x1p28"},
    {"root_down", "0x1p-2f", "0x1p-2"},
    {"rsqrt_guess", "0x5f375a86u", "0x5fe6eb50c7b537a9u"},
};

/* Bodies, which make *v of x: V: the vector; U, I: as many unsigned and
 * signed integers; @name: a vector helper; %word: see above; a line %name(p,
 * x): p becomes the polynomial's value at x.
 *
 * exp(y) = 2^n exp(r), |r| <= ln(2) / 2; t = exp(r) - 1. */
#define REDUCE(y, round)                                                       \
  "  /* exp(" y ") = 2^n * exp(r); the low bits of shifted hold n */\n"        \
  "  const V shifted = " y " * %log2e + %" round ";\n"                         \
  "  const V n = shifted - %" round ";\n"                                      \
  "  const V r = " y " - n * %ln2_hi - n * %ln2_lo;\n"                         \
  "%exp(p, r)\n"                                                               \
  "  const V t = p * r * r + r;\n"

#define SCALE "  const V scale = (V)((U)shifted << %bits);\n"

static const struct {
  enum tt_fn fn;
  /* The largest error, rounded up: over all values of f32, 25 million random
   * ones of f64. */
  const char *ulp32, *ulp64;
  const char *text;
} functions[] = {
    {TT_FN_EXP, "1.1", "1.1",
     "  const V y = @max(zero - %exp_min, @min(zero + %exp_max, x));\n" REDUCE(
         "y", "round_exp")
     /* 2^n may not be a float where the product is: two factors */
     "  const U half = (U)shifted >> 1;\n"
     "  const V scale = (V)(half << %bits);\n"
     "  *v = (t + %one) * scale * (V)(((U)shifted - half) << %bits);\n"},
    {TT_FN_LOG, "0.9", "0.9",
     "  const I tiny = x < %min_normal;\n"
     "  const U u = (U)@select(tiny, x * %grow, x) + %log_bias;\n"
     "  V n = (V)((u >> %bits) | %log_one) - %log_int;\n"
     "  n = @select(tiny, n - %grow_bits, n);\n"
     "  const V f = (V)((u & %fraction) + %log_low) - %one;\n"
     "%log(p, f)\n"
     "  const V f2 = f * f;\n"
     "  V r = f * f2 * p + n * %ln2_lo - %half * f2;\n"
     "  r = r + f + n * %ln2_hi;\n"
     "  r = @select(x < %inf, r, x);\n"
     "  r = @select(x == zero, zero - %inf, r);\n"
     "  *v = (V)((I)r | (x < zero)); /* all ones: NaN */\n"},
    {TT_FN_RSQRT, "0.8", "0.8",
     "  const I tiny = x < %rsqrt_tiny; /* keep squares in range */\n"
     "  const V y = x * @select(tiny, zero + %rsqrt_up, zero + %rsqrt_down);\n"
     "  const V h = y * %half;\n"
     "  V r = (V)(%rsqrt_guess - ((U)y >> 1));\n"
     "%newton"
     "  r = (V)((U)r & %upper_half); /* r * r is exact */\n"
     "  const V e = %half - r * r * h;\n"
     "  r += (%threehalfs * e * e + e) * r;\n"
     "  r *= @select(tiny, zero + %root_up, zero + %root_down);\n"
     "  r = @select(x == zero, (V)((U)x | %inf_bits), r);\n"
     "  r = @select(x == zero + %inf, zero, r);\n"
     "  *v = (V)((I)r | (x < zero)); /* all ones: NaN */\n"},
    {TT_FN_TANH, "1.3", "1.3",
     "  const V a = (V)((U)x & %not_sign);\n"
     "  const V b = @min(zero + %tanh_max, a);\n"
     "  const V y = b + b;\n" REDUCE("y", "round_one") SCALE
     "  const V large = %one - %two / (scale + (scale * t + %one));\n"
     "  const V z = a * a;\n"
     "%tanh(q, z)\n"
     "  const V small = q * z * a + a;\n"
     "  const V s = @select(a < %tanh_mid, small, large);\n"
     "  *v = (V)((U)s | ((U)x & %sign));\n"},
    {TT_FN_SIGMOID, "1.8", "1.8",
     "  const V one = zero + %sigmoid_one; /* scaled down */\n"
     "  const V y = @max(zero - %sigmoid_min, @min(zero + %sigmoid_max, "
     "-x));\n" REDUCE("y", "round_sigmoid") SCALE
     /* scale + one is exact, or scale far below one; if scale is above one,
        one goes to the smaller term instead */
     "  const V b = (V)((scale > one) & (I)one);\n"
     "  *v = one / ((one - b + scale) + (scale * t + b));\n"},
    {TT_FN_ERF, "1.3", "1.4",
     "  const V a = (V)((U)x & %not_sign);\n"
     "  const V b = @min(zero + %erf_max, a);\n"
     "%erfc(c, b)\n"
     "  const V y = -c;\n" REDUCE("y", "round_one") SCALE
     "  const V large = (%one - scale) - scale * t;\n"
     "  const V z = a * a;\n"
     "%erf(q, z)\n"
     "  const V small = q * a + a;\n"
     "  const V s = @select(a < %erf_mid, small, large);\n"
     "  *v = (V)((U)s | ((U)x & %sign));\n"},
};

/* ---- filling in --------------------------------------------------------- */

struct filling {
  struct cprinter *c;
  enum tt_dtype type;
  int lanes;
};

static bool
is_word(char ch)
{
  return (ch >= 'a' && ch <= 'z') || (ch >= 'A' && ch <= 'Z') ||
         (ch >= '0' && ch <= '9') || ch == '_';
}

static size_t
word_length(const char *p)
{
  size_t n = 0;
  while (is_word(p[n]))
    n++;
  return n;
}

static bool
is(const char *p, size_t n, const char *word)
{
  return strlen(word) == n && strncmp(p, word, n) == 0;
}

/* Horner's rule, a line a coefficient. */
static void
add_polynomial(const struct filling *f, size_t which, char p, char x,
               struct tt_sb *out)
{
  bool single = f->type == TT_F32;
  int n = single ? polynomials[which].n32 : polynomials[which].n64;
  const double *k = single ? polynomials[which].f32 : polynomials[which].f64;
  int prec;
  tt_sb_printf(out, "  V %c = %s", p, tt_c_float(f->c, f->type, k[0], &prec));
  for (int i = 1; i < n; i++)
    tt_sb_printf(out, "%s * %c %c %s",
                 i == 1 ? ""
                        : tt_arena_printf(f->c->arena, ";\n  %c = %c", p, p),
                 x, k[i] < 0 ? '-' : '+',
                 tt_c_float(f->c, f->type, k[i] < 0 ? -k[i] : k[i], &prec));
  tt_sb_putc(out, ';');
}

/* A word after %; returns what follows. */
static const char *
add_percent(const struct filling *f, const char *p, struct tt_sb *out)
{
  size_t n = word_length(p);
  for (size_t i = 0; i < sizeof polynomials / sizeof *polynomials; i++)
    if (p[n] == '(' && is(p, n, polynomials[i].name)) {
      add_polynomial(f, i, p[n + 1], p[n + 4], out);
      return p + n + 6; /* "(p, x)" */
    }
  for (size_t i = 0; i < sizeof words / sizeof *words; i++)
    if (is(p, n, words[i].word)) {
      tt_sb_add(out, f->type == TT_F32 ? words[i].f32 : words[i].f64);
      return p + n;
    }
  assert(!"a word of the table");
  return p + n;
}

/* Constants and polynomials first, which hold types too. */
static const char *
fill_words(const struct filling *f, const char *text)
{
  struct tt_sb sb = {0};
  for (const char *p = text; *p;)
    if (*p == '%')
      p = add_percent(f, p + 1, &sb);
    else
      tt_sb_putc(&sb, *p++);
  const char *r = tt_arena_strdup(f->c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return r;
}

static void
add_type(const struct filling *f, const char *p, size_t n, struct tt_sb *out)
{
  enum tt_dtype i = tt_signed_of_bytes(tt_dtype_bytes(f->type));
  if (is(p, n, "V"))
    tt_sb_add(out, tt_c_vector(f->c, f->type, f->lanes));
  else if (is(p, n, "U"))
    tt_sb_add(out, tt_c_uvector(f->c, i, f->lanes));
  else if (is(p, n, "I"))
    tt_sb_add(out, tt_c_vector(f->c, i, f->lanes));
  else
    for (size_t k = 0; k < n; k++)
      tt_sb_putc(out, p[k]);
}

static const char *
fill_types(const struct filling *f, const char *text)
{
  struct tt_sb sb = {0};
  for (const char *p = text; *p;) {
    size_t n = word_length(p + (*p == '@'));
    if (*p == '@') {
      const char *op = tt_arena_strndup(f->c->arena, p + 1, n++);
      tt_sb_add(&sb, tt_c_vec_helper(f->c, op, f->type, f->lanes));
    } else if (n > 0)
      add_type(f, p, n, &sb);
    else
      tt_sb_putc(&sb, p[n++]);
    p += n;
  }
  const char *r = tt_arena_strdup(f->c->arena, tt_sb_str(&sb));
  tt_sb_free(&sb);
  return r;
}

/* A function for the sake of its names, which takes a pointer for the reason
 * given at tt_c_vector_macro, and a macro that makes an expression of it. */
static const char *
vector_function(struct cprinter *c, size_t which, enum tt_dtype t, int lanes)
{
  const struct filling f = {c, t, lanes};
  const char *fn = tt_fn_name(functions[which].fn);
  const char *v = tt_c_vector(c, t, lanes);
  const char *name =
      tt_c_helper_name(c, tt_arena_printf(c->arena, "%s_%s", fn, v));
  if (tt_c_has_helper(c, name))
    return name;
  const char *ulp =
      t == TT_F32 ? functions[which].ulp32 : functions[which].ulp64;
  const char *body = fill_types(&f, fill_words(&f, functions[which].text));
  const char *call = tt_arena_printf(
      c->arena, "  %s tt_v = (x);\n  %s_at(&tt_v);\n  tt_v;\n", v, name);
  const char *text = tt_arena_printf(
      c->arena,
      "/* %s(*v), within %s ulp */\n"
      "static inline void %s_at(%s *v)\n"
      "{\n  const %s x = *v, zero = {0};\n%s}\n%s",
      fn, ulp, name, v, v, body, tt_c_vector_macro(c, name, "x", call));
  return tt_c_add_helper(c, name, text);
}

/* The rounding to an integer would be lost where sums may be reassociated or
 * are kept in more bits: wrong results, with no warning. */
static void
refuse_other_rounding(struct cprinter *c)
{
  const char *name = "rounding";
  if (!tt_c_has_helper(c, name))
    tt_c_add_helper(
        c, name,
        "#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || \\\n"
        "    __FLT_EVAL_METHOD__ == 2\n"
        "#error \"below, sums must be rounded: no -ffast-math, no x87\"\n"
        "#endif\n");
}

const char *
tt_c_vmath(struct cprinter *c, enum tt_fn fn, enum tt_dtype t, int lanes)
{
  size_t i = 0, n = sizeof functions / sizeof *functions;
  while (i < n && functions[i].fn != fn)
    i++;
  if (i == n || !c->dialect->vectors || (t != TT_F32 && t != TT_F64))
    return NULL;
  refuse_other_rounding(c);
  const char *vector = vector_function(c, i, t, lanes);
  if (lanes > 1)
    return vector;
  const char *name = tt_c_helper_name(
      c, tt_arena_printf(c->arena, "%s_%s", tt_fn_name(fn), tt_dtype_name(t)));
  const char *s = tt_c_value(t);
  if (tt_c_has_helper(c, name))
    return name;
  return tt_c_add_helper(c, name,
                         tt_arena_printf(c->arena,
                                         "static inline %s %s(%s x)\n{\n"
                                         "  return %s((%s){x})[0];\n}\n",
                                         s, name, s, vector,
                                         tt_c_vector(c, t, lanes)));
}
