/* Adapts oneDNN, major version 2 or 3, to bench.c: one primitive on the CPU
 * over plain arrays. Built as a shared library by bench/run where there is a
 * dnnl.h; loaded by bench.c.
 *
 * What a primitive is asked to do is a line of text:
 *
 *   conv LAYOUT ALG H C K R STRIDE PAD G TYPES
 *                               X[1,C,H,H] F[K,C/G,R,R] Y[1,K,..]
 *   softmax B D                 X[B,D] Y[B,D]
 *   layernorm B D               X[B,D] g[D] b[D] Y[B,D]
 *   lstm I H                    x[1,I] h[1,H] c[1,H] W[4,H,I] U[4,H,H] b[4,H]
 *                               cn[1,H] hn[1,H]
 *   matmul B M N K T TYPES      A[B,M,K] B[B,K,N] C[B,M,N]
 *   attention B L S D           Q[B,L,D] K[B,S,D] V[B,S,D] O[B,L,D], by three
 *                               primitives in a row
 *
 * LAYOUT is that of X and Y: nchw or nhwc. With `free-` before it the layouts
 * are left to the library, and the arrays are converted outside the timed
 * calls. F is always in the order above, and is converted ahead of time. ALG is
 * direct or winograd. T tells that A is K x M, or with 2 that B is N x K; TYPES
 * are three of f32, f16, bf16, s8, u8, s32.
 *
 * Invariant: every array that a primitive wants in another layout is converted
 * when it is opened (inputs) or by bench_dnnl_result (outputs), never in
 * bench_dnnl_call.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <dnnl.h>

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t md_t;
typedef const_dnnl_memory_desc_t const_md_t;
#else
typedef dnnl_memory_desc_t *md_t;
typedef const dnnl_memory_desc_t *const_md_t;
#endif

enum { MOST = 12 };

struct op {
  dnnl_engine_t engine;
  dnnl_stream_t stream;
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t primitive;
  dnnl_exec_arg_t args[MOST];
  int nargs;
  struct back { /* outputs to be converted back */
    dnnl_memory_t from, to;
  } back[MOST];
  int nback;
  struct op *next; /* runs after this one */
  char note[160];
};

const char *bench_dnnl_open(const char *, void *const *, void **);
void bench_dnnl_call(void *);
void bench_dnnl_result(void *);

static md_t
described(int n, const dnnl_dim_t *sizes, dnnl_data_type_t type,
          dnnl_format_tag_t tag)
{
  dnnl_dims_t dims = {0};
  memcpy(dims, sizes, (size_t)n * sizeof *sizes);
#if DNNL_VERSION_MAJOR >= 3
  md_t md = NULL;
  return dnnl_memory_desc_create_with_tag(&md, n, dims, type, tag) ? NULL : md;
#else
  md_t md = calloc(1, sizeof *md);
  return md && !dnnl_memory_desc_init_by_tag(md, n, dims, type, tag) ? md
                                                                     : NULL;
#endif
}

#define MD(type, tag, ...)                                                     \
  described((int)(sizeof((dnnl_dim_t[]){__VA_ARGS__}) / sizeof(dnnl_dim_t)),   \
            (dnnl_dim_t[]){__VA_ARGS__}, type, tag)
#define F32(tag, ...) MD(dnnl_f32, tag, __VA_ARGS__)

static int
reorder(struct op *op, dnnl_memory_t from, const_md_t from_md, dnnl_memory_t to,
        const_md_t to_md)
{
  dnnl_primitive_desc_t pd;
  dnnl_primitive_t p;
  if (dnnl_reorder_primitive_desc_create(&pd, from_md, op->engine, to_md,
                                         op->engine, NULL) ||
      dnnl_primitive_create(&p, pd))
    return 0;
  dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
  int ok = !dnnl_primitive_execute(p, op->stream, 2, args) &&
           !dnnl_stream_wait(op->stream);
  dnnl_primitive_destroy(p);
  dnnl_primitive_desc_destroy(pd);
  return ok;
}

/* Argument `id` is the array `data`, laid out as `plain` says. */
static int
bind(struct op *op, int id, md_t plain, void *data, int out)
{
  const_md_t wanted =
      dnnl_primitive_desc_query_md(op->pd, dnnl_query_exec_arg_md, id);
  dnnl_memory_t mine, its;
  if (!plain || !wanted || dnnl_memory_create(&mine, plain, op->engine, data))
    return 0;
  its = mine;
  if (!dnnl_memory_desc_equal(plain, wanted)) {
    if (dnnl_memory_create(&its, wanted, op->engine, DNNL_MEMORY_ALLOCATE))
      return 0;
    if (out)
      op->back[op->nback++] = (struct back){its, mine};
    else if (!reorder(op, mine, plain, its, wanted))
      return 0;
  }
  op->args[op->nargs++] = (dnnl_exec_arg_t){id, its};
  return 1;
}

/* Makes op->pd from a descriptor; in version 3 there is none in between. */
#if DNNL_VERSION_MAJOR >= 3
#define CREATE(op, kind, desc_init, attr, ...)                                 \
  (!dnnl_##kind##_primitive_desc_create(&(op)->pd, (op)->engine, __VA_ARGS__,  \
                                        attr))
#else
#define CREATE(op, kind, desc_init, attr, ...)                                 \
  (!dnnl_##desc_init(&desc, __VA_ARGS__) &&                                    \
   !dnnl_primitive_desc_create(&(op)->pd, &desc, attr, (op)->engine, NULL))
#endif

static dnnl_data_type_t
type_named(const char *s)
{
  return !strcmp(s, "f16")    ? dnnl_f16
         : !strcmp(s, "bf16") ? dnnl_bf16
         : !strcmp(s, "s8")   ? dnnl_s8
         : !strcmp(s, "u8")   ? dnnl_u8
         : !strcmp(s, "s32")  ? dnnl_s32
                              : dnnl_f32;
}

static int
open_conv(struct op *op, const char *spec, void *const *data)
{
  char layout[12], alg[12], tx[8], tf[8], ty[8];
  int h, c, k, r, stride, pad, g;
  if (sscanf(spec, "conv %11s %11s %d %d %d %d %d %d %d %7s %7s %7s", layout,
             alg, &h, &c, &k, &r, &stride, &pad, &g, tx, tf, ty) != 12)
    return 0;
  int o = (h + 2 * pad - r) / stride + 1;
  dnnl_format_tag_t plain = strstr(layout, "nchw") ? dnnl_nchw : dnnl_nhwc;
  dnnl_format_tag_t tag =
      !strncmp(layout, "free-", 5) ? dnnl_format_tag_any : plain;
  dnnl_data_type_t x = type_named(tx), f = type_named(tf), y = type_named(ty);
  md_t wanted = g > 1 ? MD(f, dnnl_format_tag_any, g, k / g, c / g, r, r)
                      : MD(f, dnnl_format_tag_any, k, c, r, r);
  md_t mine = g > 1 ? MD(f, dnnl_goihw, g, k / g, c / g, r, r)
                    : MD(f, dnnl_oihw, k, c, r, r);
  dnnl_dims_t strides = {stride, stride}, pads = {pad, pad};
  dnnl_alg_kind_t kind = !strcmp(alg, "winograd") ? dnnl_convolution_winograd
                                                  : dnnl_convolution_direct;
  md_t src = MD(x, tag, 1, c, h, h), dst = MD(y, tag, 1, k, o, o);
#if DNNL_VERSION_MAJOR >= 3
  dnnl_dims_t dilates = {0, 0};
  int ok = CREATE(op, convolution_forward, , NULL, dnnl_forward_inference, kind,
                  src, wanted, NULL, dst, strides, dilates, pads, pads);
#else
  dnnl_convolution_desc_t desc;
  int ok =
      CREATE(op, , convolution_forward_desc_init, NULL, dnnl_forward_inference,
             kind, src, wanted, NULL, dst, strides, pads, pads);
#endif
  return ok && bind(op, DNNL_ARG_SRC, MD(x, plain, 1, c, h, h), data[0], 0) &&
         bind(op, DNNL_ARG_WEIGHTS, mine, data[1], 0) &&
         bind(op, DNNL_ARG_DST, MD(y, plain, 1, k, o, o), data[2], 1);
}

static int
add_softmax(struct op *op, md_t md, int axis, void *src, void *dst)
{
#if DNNL_VERSION_MAJOR < 3
  dnnl_softmax_v2_desc_t desc;
#endif
  return CREATE(op, softmax_forward, softmax_v2_forward_desc_init, NULL,
                dnnl_forward_inference, dnnl_softmax_accurate, md, md, axis) &&
         bind(op, DNNL_ARG_SRC, md, src, 0) &&
         bind(op, DNNL_ARG_DST, md, dst, 1);
}

static int
open_softmax(struct op *op, const char *spec, void *const *data)
{
  int b, d;
  return sscanf(spec, "softmax %d %d", &b, &d) == 2 &&
         add_softmax(op, F32(dnnl_ab, b, d), 1, data[0], data[1]);
}

static int
open_layernorm(struct op *op, const char *spec, void *const *data)
{
  int b, d;
  if (sscanf(spec, "layernorm %d %d", &b, &d) != 2)
    return 0;
  md_t md = F32(dnnl_ab, b, d), one = F32(dnnl_a, d);
  unsigned flags = dnnl_use_scale | dnnl_use_shift;
#if DNNL_VERSION_MAJOR >= 3
  int ok = CREATE(op, layer_normalization_forward, , NULL,
                  dnnl_forward_inference, md, md, NULL, 1e-5f, flags);
#else
  dnnl_layer_normalization_desc_t desc;
  int ok = CREATE(op, , layer_normalization_forward_desc_init, NULL,
                  dnnl_forward_inference, md, NULL, 1e-5f, flags);
#endif
  return ok && bind(op, DNNL_ARG_SRC, md, data[0], 0) &&
         bind(op, DNNL_ARG_SCALE, one, data[1], 0) &&
         bind(op, DNNL_ARG_SHIFT, one, data[2], 0) &&
         bind(op, DNNL_ARG_DST, md, data[3], 1);
}

static int
open_lstm(struct op *op, const char *spec, void *const *data)
{
  int i, h;
  if (sscanf(spec, "lstm %d %d", &i, &h) != 2)
    return 0;
  md_t x = F32(dnnl_tnc, 1, 1, i), y = F32(dnnl_tnc, 1, 1, h);
  md_t state = F32(dnnl_ldnc, 1, 1, 1, h);
  md_t bias = F32(dnnl_ldgo, 1, 1, 4, h);
  md_t w = F32(dnnl_format_tag_any, 1, 1, i, 4, h);
  md_t u = F32(dnnl_format_tag_any, 1, 1, h, 4, h);
#if DNNL_VERSION_MAJOR < 3
  dnnl_rnn_desc_t desc;
  int ok = CREATE(op, , lstm_forward_desc_init, NULL, dnnl_forward_inference,
                  dnnl_unidirectional_left2right, x, state, state, w, u, bias,
                  y, state, state, 0);
#else
  int ok = CREATE(op, lstm_forward, , NULL, dnnl_forward_inference,
                  dnnl_unidirectional_left2right, x, state, state, w, u, NULL,
                  NULL, bias, y, state, state, 0);
#endif
  /* The arrays have [gate][to][from], the library's order is l d i g o. */
  md_t mine_w = F32(dnnl_ldgoi, 1, 1, i, 4, h);
  md_t mine_u = F32(dnnl_ldgoi, 1, 1, h, 4, h);
  void *again = calloc((size_t)h, sizeof(float)); /* the state, also a layer */
  return ok && again && bind(op, DNNL_ARG_SRC_LAYER, x, data[0], 0) &&
         bind(op, DNNL_ARG_SRC_ITER, state, data[1], 0) &&
         bind(op, DNNL_ARG_SRC_ITER_C, state, data[2], 0) &&
         bind(op, DNNL_ARG_WEIGHTS_LAYER, mine_w, data[3], 0) &&
         bind(op, DNNL_ARG_WEIGHTS_ITER, mine_u, data[4], 0) &&
         bind(op, DNNL_ARG_BIAS, bias, data[5], 0) &&
         bind(op, DNNL_ARG_DST_LAYER, y, again, 1) &&
         bind(op, DNNL_ARG_DST_ITER, state, data[7], 1) &&
         bind(op, DNNL_ARG_DST_ITER_C, state, data[6], 1);
}

static int
add_matmul(struct op *op, md_t a, md_t b, md_t c, dnnl_primitive_attr_t attr,
           void *const *data)
{
#if DNNL_VERSION_MAJOR >= 3
  int ok = CREATE(op, matmul, , attr, a, b, NULL, c);
#else
  dnnl_matmul_desc_t desc;
  int ok = CREATE(op, , matmul_desc_init, attr, a, b, NULL, c);
#endif
  return ok && bind(op, DNNL_ARG_SRC, a, data[0], 0) &&
         bind(op, DNNL_ARG_WEIGHTS, b, data[1], 0) &&
         bind(op, DNNL_ARG_DST, c, data[2], 1);
}

static int
open_matmul(struct op *op, const char *spec, void *const *data)
{
  int b, m, n, k, t;
  char ta[8], tb[8], tc[8];
  if (sscanf(spec, "matmul %d %d %d %d %d %7s %7s %7s", &b, &m, &n, &k, &t, ta,
             tb, tc) != 8)
    return 0;
  return add_matmul(op, MD(type_named(ta), t ? dnnl_acb : dnnl_abc, b, m, k),
                    MD(type_named(tb), dnnl_abc, b, k, n),
                    MD(type_named(tc), dnnl_abc, b, m, n), NULL, data);
}

/* The next operation after `op`, with the same engine. */
static struct op *
after(struct op *op)
{
  op->next = calloc(1, sizeof *op);
  if (op->next)
    op->next->engine = op->engine, op->next->stream = op->stream;
  return op->next;
}

/* The product is scaled in its own primitive, as a caller would. */
static int
open_attention(struct op *op, const char *spec, void *const *data)
{
  int b, l, s, d;
  if (sscanf(spec, "attention %d %d %d %d", &b, &l, &s, &d) != 4)
    return 0;
  void *scores = aligned_alloc(64, (size_t)b * l * s * sizeof(float) + 64);
  md_t score = F32(dnnl_abc, b, l, s), value = F32(dnnl_abc, b, s, d);
  md_t row = F32(dnnl_abc, b, l, d);
  float scale = 1 / sqrtf((float)d);
  dnnl_primitive_attr_t attr;
  dnnl_post_ops_t post;
  if (!scores || dnnl_primitive_attr_create(&attr) ||
      dnnl_post_ops_create(&post) ||
#if DNNL_VERSION_MAJOR >= 3
      dnnl_post_ops_append_eltwise(post, dnnl_eltwise_linear, scale, 0) ||
#else
      dnnl_post_ops_append_eltwise(post, 1, dnnl_eltwise_linear, scale, 0) ||
#endif
      dnnl_primitive_attr_set_post_ops(attr, post))
    return 0;
  struct op *second, *third;
  return add_matmul(op, row, F32(dnnl_acb, b, d, s), score, attr,
                    (void *[]){data[0], data[1], scores}) &&
         (second = after(op)) &&
         add_softmax(second, score, 2, scores, scores) &&
         (third = after(second)) &&
         add_matmul(third, score, value, row, NULL,
                    (void *[]){scores, data[2], data[3]});
}

static const struct {
  const char *word;
  int (*open)(struct op *, const char *, void *const *);
} openers[] = {
    {"conv ", open_conv},           {"softmax ", open_softmax},
    {"layernorm ", open_layernorm}, {"lstm ", open_lstm},
    {"matmul ", open_matmul},       {"attention ", open_attention},
};

/* Returns a note: the version and implementation, or why there is none; *out
 * is then NULL. `data` are the arrays in the order of the line above.
 */
const char *
bench_dnnl_open(const char *spec, void *const *data, void **out)
{
  struct op *op = calloc(1, sizeof *op);
  *out = NULL;
  if (!op || dnnl_engine_create(&op->engine, dnnl_cpu, 0) ||
      dnnl_stream_create(&op->stream, op->engine, dnnl_stream_default_flags))
    return "no CPU engine";
  const dnnl_version_t *v = dnnl_version();
  int ok = 0;
  for (size_t i = 0; i < sizeof openers / sizeof openers[0] && !ok; i++)
    if (!strncmp(spec, openers[i].word, strlen(openers[i].word)))
      ok = openers[i].open(op, spec, data);
  for (struct op *o = op; o && ok; o = o->next)
    ok = !dnnl_primitive_create(&o->primitive, o->pd);
  const char *impl = "?";
  if (!ok) {
    snprintf(op->note, sizeof op->note, "%d.%d has none", v->major, v->minor);
    return op->note;
  }
  dnnl_primitive_desc_query(op->pd, dnnl_query_impl_info_str, 0, &impl);
  snprintf(op->note, sizeof op->note, "%d.%d %s", v->major, v->minor, impl);
  *out = op;
  return op->note;
}

void
bench_dnnl_call(void *state)
{
  struct op *first = state;
  for (struct op *op = first; op; op = op->next)
    dnnl_primitive_execute(op->primitive, op->stream, op->nargs, op->args);
  dnnl_stream_wait(first->stream);
}

void
bench_dnnl_result(void *state)
{
  for (struct op *op = state; op; op = op->next)
    for (int i = 0; i < op->nback; i++) {
      const_md_t from, to;
      dnnl_memory_get_memory_desc(op->back[i].from, &from);
      dnnl_memory_get_memory_desc(op->back[i].to, &to);
      reorder(op, op->back[i].from, from, op->back[i].to, to);
    }
}
