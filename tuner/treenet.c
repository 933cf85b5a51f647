/* The network of a TreeGRU: a recurrent unit composes the states of the loops
 * inside a loop with the context of that loop, from the leaves to the root;
 * every state h is scattered to slots by softmax(S h), and a linear layer
 * reads the sums in the slots.
 *
 *   z = s(x Wz + g Uz + bz)   r = s(x Wr + g Ur + br)   g: sum of the inner h
 *   c = tanh(x Wc + (r g) Uc + bc)        h = (1 - z) c + z g
 *   score = bias + sum over loops and slots of softmax(h S)_m (h . v_m)
 *
 * Invariant: nodes are ordered by height, so that a level is a range and all
 * products of a level, or of all levels, are one call of BLAS each.
 */
#include "config.h"
#include "tuner/treegru.h"

#include <cblas.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/arena.h"
#include "tuner/features.h"
#include "tuner/random.h"

enum {
  D = TT_TREE_INPUTS,
  H = TT_GRU_HIDDEN,
  M = TT_GRU_SLOTS,
  /* Where the parameters lie. */
  W_AT = 0,                 /* D x 3H: z, r, c */
  B_AT = W_AT + D * 3 * H,  /* 3H */
  U_AT = B_AT + 3 * H,      /* H x 2H: z, r */
  UC_AT = U_AT + H * 2 * H, /* H x H */
  S_AT = UC_AT + H * H,     /* H x M */
  V_AT = S_AT + H * M,      /* H x M */
  BIAS_AT = V_AT + H * M,   /* 1 */
  PARAMS = BIAS_AT + 1
};

struct tt_trees {
  int ntrees, n; /* nodes */
  int nlevels;
  int *level;  /* where each begins; one more at the end */
  int *parent; /* position, -1: a root */
  int *tree;
  float *x;     /* n x D */
  float *gate;  /* n x 3H: z, r, c after their functions */
  float *g;     /* n x H */
  float *rg;    /* n x H */
  float *h;     /* n x H */
  float *p, *q; /* n x M: shares of the slots, what they are worth */
  /* of the backward pass */
  float *dgate, *dg, *dh;
  float *dp, *dq;
};

int
tt_treegru_params(void)
{
  return PARAMS;
}

/* ---- products ---------------------------------------------------------- */

/* c (m x n) = beta * c + a (m x k) b (k x n); `ld` are lengths of rows. */
static void
product(int m, int n, int k, const float *a, int lda, const float *b, int ldb,
        float beta, float *c, int ldc)
{
  if (m > 0)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, a, lda,
                b, ldb, beta, c, ldc);
}

/* c (m x n) += a (m x k) b^T, b n x k. */
static void
product_bt(int m, int n, int k, const float *a, int lda, const float *b,
           int ldb, float beta, float *c, int ldc)
{
  if (m > 0)
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, m, n, k, 1, a, lda, b,
                ldb, beta, c, ldc);
}

/* c (m x n) += a^T b, a k x m. */
static void
product_at(int m, int n, int k, const float *a, int lda, const float *b,
           int ldb, float *c, int ldc)
{
  if (k > 0)
    cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, m, n, k, 1, a, lda, b,
                ldb, 1, c, ldc);
}

/* ---- trees ------------------------------------------------------------- */

static float *
floats(int n, int width)
{
  size_t size = ((size_t)n * (size_t)width + 1) * sizeof(float);
  float *p = tt_xmalloc(size);

  memset(p, 0, size);
  return p;
}

static int
nodes_of(const float *row)
{
  float n = row[0];

  return n >= 1 && n <= TT_TREE_NODES ? (int)n : 0;
}

/* The parent of node i of a row, outer nodes first; -1: none. */
static int
parent_of(const float *row, int i)
{
  float p = row[1 + i * TT_TREE_NODE];

  return p >= 0 && p < (float)i ? (int)p : -1;
}

/* Height of each node, in the order of the rows; returns the number of
 * levels. */
static int
heights(int n, const float *rows, int *height)
{
  int nlevels = 0, at = 0;

  for (int t = 0; t < n; t++) {
    const float *row = rows + (size_t)t * TT_TREE_WIDTH;
    int nodes = nodes_of(row);
    for (int i = 0; i < nodes; i++)
      height[at + i] = 0;
    for (int i = nodes - 1; i >= 0; i--) {
      int p = parent_of(row, i), h = height[at + i] + 1;
      if (p >= 0 && height[at + p] < h)
        height[at + p] = h;
      nlevels = h > nlevels ? h : nlevels;
    }
    at += nodes;
  }
  return nlevels;
}

static void
put_input(const float *from, const float *shift, const float *scale, float *to)
{
  for (int j = 0; j < D; j++) {
    float v = (from[j] - shift[j]) * scale[j];
    to[j] = isfinite(v) ? fminf(fmaxf(v, -8), 8) : 0;
  }
}

/* Puts all nodes in their places, given the first free one of each level. */
static void
place(struct tt_trees *t, const float *rows, const int *height, int *next,
      const float *shift, const float *scale)
{
  int at = 0, position[TT_TREE_NODES];

  for (int k = 0; k < t->ntrees; k++) {
    const float *row = rows + (size_t)k * TT_TREE_WIDTH;
    int nodes = nodes_of(row);
    for (int i = 0; i < nodes; i++) {
      int where = position[i] = next[height[at + i]]++, p = parent_of(row, i);
      t->parent[where] = p >= 0 ? position[p] : -1;
      t->tree[where] = k;
      put_input(row + 2 + i * TT_TREE_NODE, shift, scale, t->x + where * D);
    }
    at += nodes;
  }
}

static void
make_buffers(struct tt_trees *t)
{
  t->x = floats(t->n, D);
  t->gate = floats(t->n, 3 * H);
  t->dgate = floats(t->n, 3 * H);
  t->g = floats(t->n, H);
  t->rg = floats(t->n, H);
  t->h = floats(t->n, H);
  t->dg = floats(t->n, H);
  t->dh = floats(t->n, H);
  t->p = floats(t->n, M);
  t->q = floats(t->n, M);
  t->dp = floats(t->n, M);
  t->dq = floats(t->n, M);
}

struct tt_trees *
tt_trees_new(int n, const float *rows, const float *shift, const float *scale)
{
  struct tt_trees *t = tt_xmalloc(sizeof *t);
  int *height, next[TT_TREE_NODES + 1] = {0};

  memset(t, 0, sizeof *t);
  t->ntrees = n;
  for (int k = 0; k < n; k++)
    t->n += nodes_of(rows + (size_t)k * TT_TREE_WIDTH);
  make_buffers(t);
  t->parent = tt_xmalloc(((size_t)t->n + 1) * sizeof *t->parent);
  t->tree = tt_xmalloc(((size_t)t->n + 1) * sizeof *t->tree);
  height = tt_xmalloc(((size_t)t->n + 1) * sizeof *height);
  t->nlevels = heights(n, rows, height);
  t->level = tt_xmalloc(((size_t)t->nlevels + 1) * sizeof *t->level);
  memset(t->level, 0, ((size_t)t->nlevels + 1) * sizeof *t->level);
  for (int i = 0; i < t->n; i++)
    t->level[height[i] + 1]++;
  for (int l = 0; l < t->nlevels; l++) {
    t->level[l + 1] += t->level[l];
    next[l] = t->level[l];
  }
  place(t, rows, height, next, shift, scale);
  free(height);
  return t;
}

void
tt_trees_free(struct tt_trees *t)
{
  float *all[] = {t->x, t->gate, t->g,  t->rg,    t->h,  t->p,
                  t->q, t->dg,   t->dh, t->dgate, t->dp, t->dq};

  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    free(all[i]);
  free(t->level);
  free(t->parent);
  free(t->tree);
  free(t);
}

/* ---- forward ----------------------------------------------------------- */

void
tt_treegru_init(uint64_t *random, float *params)
{
  static const struct {
    int at, n, inputs;
  } parts[] = {{W_AT, D * 3 * H, D},
               {U_AT, H * 2 * H, H},
               {UC_AT, H * H, H},
               {S_AT, H * M, H},
               {V_AT, H * M, H}};

  memset(params, 0, PARAMS * sizeof *params);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
    /* Scores begin near 0. */
    double scale = (parts[i].at == V_AT ? 0.2 : 1.7) / sqrt(parts[i].inputs);
    for (int j = 0; j < parts[i].n; j++)
      params[parts[i].at + j] = (float)(scale * (2 * tt_draw_unit(random) - 1));
  }
}

static float
sigmoid(float x)
{
  return 1 / (1 + expf(-x));
}

/* Gates, candidate and state of the nodes from..to, whose g is complete. */
static void
forward_level(const float *w, struct tt_trees *t, int from, int to)
{
  int n = to - from;
  float *gate = t->gate + (size_t)from * 3 * H, *g = t->g + (size_t)from * H;
  float *rg = t->rg + (size_t)from * H, *h = t->h + (size_t)from * H;
  bool leaves = from == 0;

  if (!leaves)
    product(n, 2 * H, H, g, H, w + U_AT, 2 * H, 1, gate, 3 * H);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < H; j++) {
      gate[i * 3 * H + j] = sigmoid(gate[i * 3 * H + j]);
      gate[i * 3 * H + H + j] = sigmoid(gate[i * 3 * H + H + j]);
      rg[i * H + j] = gate[i * 3 * H + H + j] * g[i * H + j];
    }
  if (!leaves)
    product(n, H, H, rg, H, w + UC_AT, H, 1, gate + 2 * H, 3 * H);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < H; j++) {
      float *o = gate + i * 3 * H + j, z = o[0];
      o[2 * H] = tanhf(o[2 * H]);
      h[i * H + j] = (1 - z) * o[2 * H] + z * g[i * H + j];
    }
}

/* What is inside of the nodes from..to goes to their parents. */
static void
pass_up(struct tt_trees *t, int from, int to)
{
  for (int i = from; i < to; i++)
    for (int j = 0; j < H && t->parent[i] >= 0; j++)
      t->g[t->parent[i] * H + j] += t->h[i * H + j];
}

static void
softmax(float *x)
{
  float most = x[0], sum = 0;

  for (int m = 1; m < M; m++)
    most = fmaxf(most, x[m]);
  for (int m = 0; m < M; m++)
    sum += x[m] = expf(x[m] - most);
  for (int m = 0; m < M; m++)
    x[m] /= sum;
}

void
tt_treegru_forward(const float *w, struct tt_trees *t, float *scores)
{
  for (int i = 0; i < t->n; i++)
    memcpy(t->gate + (size_t)i * 3 * H, w + B_AT, 3 * H * sizeof *w);
  memset(t->g, 0, (size_t)t->n * H * sizeof *t->g);
  product(t->n, 3 * H, D, t->x, D, w + W_AT, 3 * H, 1, t->gate, 3 * H);
  for (int l = 0; l < t->nlevels; l++) {
    forward_level(w, t, t->level[l], t->level[l + 1]);
    pass_up(t, t->level[l], t->level[l + 1]);
  }
  product(t->n, M, H, t->h, H, w + S_AT, M, 0, t->p, M);
  product(t->n, M, H, t->h, H, w + V_AT, M, 0, t->q, M);
  for (int k = 0; k < t->ntrees; k++)
    scores[k] = w[BIAS_AT];
  for (int i = 0; i < t->n; i++) {
    softmax(t->p + i * M);
    for (int m = 0; m < M; m++)
      scores[t->tree[i]] += t->p[i * M + m] * t->q[i * M + m];
  }
}

/* ---- backward ---------------------------------------------------------- */

/* Slopes of p (before the softmax) and q, and from them those of h. */
static void
backward_slots(const float *w, struct tt_trees *t, const float *slopes,
               float *d)
{
  for (int i = 0; i < t->n; i++) {
    float s = slopes[t->tree[i]], mean = 0;
    const float *p = t->p + i * M, *q = t->q + i * M;
    for (int m = 0; m < M; m++)
      mean += p[m] * q[m];
    for (int m = 0; m < M; m++) {
      t->dq[i * M + m] = s * p[m];
      t->dp[i * M + m] = s * p[m] * (q[m] - mean);
    }
  }
  product_at(H, M, t->n, t->h, H, t->dp, M, d + S_AT, M);
  product_at(H, M, t->n, t->h, H, t->dq, M, d + V_AT, M);
  product_bt(t->n, H, M, t->dp, M, w + S_AT, M, 0, t->dh, H);
  product_bt(t->n, H, M, t->dq, M, w + V_AT, M, 1, t->dh, H);
}

/* Slopes of gates and of g of the nodes from..to, whose dh is complete. */
static void
backward_level(const float *w, struct tt_trees *t, int from, int to)
{
  int n = to - from;
  const float *gate = t->gate + (size_t)from * 3 * H;
  const float *g = t->g + (size_t)from * H, *dh = t->dh + (size_t)from * H;
  float *dgate = t->dgate + (size_t)from * 3 * H;
  float *dg = t->dg + (size_t)from * H;

  for (int i = 0; i < n; i++)
    for (int j = 0; j < H; j++) {
      const float *o = gate + i * 3 * H + j;
      float z = o[0], c = o[2 * H], s = dh[i * H + j];
      dgate[i * 3 * H + j] = s * (g[i * H + j] - c) * z * (1 - z);
      dgate[i * 3 * H + 2 * H + j] = s * (1 - z) * (1 - c * c);
      dg[i * H + j] = s * z;
    }
  if (from == 0)
    return; /* leaves: r and g play no part */
  float *drg = tt_xmalloc((size_t)n * H * sizeof *drg);
  product_bt(n, H, H, dgate + 2 * H, 3 * H, w + UC_AT, H, 0, drg, H);
  for (int i = 0; i < n; i++)
    for (int j = 0; j < H; j++) {
      float r = gate[i * 3 * H + H + j], s = drg[i * H + j];
      dgate[i * 3 * H + H + j] = s * g[i * H + j] * r * (1 - r);
      dg[i * H + j] += s * r;
    }
  product_bt(n, H, 2 * H, dgate, 3 * H, w + U_AT, 2 * H, 1, dg, H);
  free(drg);
}

/* The states inside have what their parents found about g. */
static void
pass_down(struct tt_trees *t, int from, int to)
{
  for (int i = from; i < to; i++)
    for (int j = 0; j < H && t->parent[i] >= 0; j++)
      t->dh[i * H + j] += t->dg[t->parent[i] * H + j];
}

void
tt_treegru_backward(const float *w, struct tt_trees *t, const float *slopes,
                    float *d)
{
  memset(t->dgate, 0, (size_t)t->n * 3 * H * sizeof *t->dgate);
  backward_slots(w, t, slopes, d);
  for (int l = t->nlevels - 1; l >= 0; l--) {
    pass_down(t, t->level[l], t->level[l + 1]);
    backward_level(w, t, t->level[l], t->level[l + 1]);
  }
  product_at(D, 3 * H, t->n, t->x, D, t->dgate, 3 * H, d + W_AT, 3 * H);
  product_at(H, 2 * H, t->n, t->g, H, t->dgate, 3 * H, d + U_AT, 2 * H);
  product_at(H, H, t->n, t->rg, H, t->dgate + 2 * H, 3 * H, d + UC_AT, H);
  for (int i = 0; i < t->n; i++)
    for (int j = 0; j < 3 * H; j++)
      d[B_AT + j] += t->dgate[i * 3 * H + j];
  for (int k = 0; k < t->ntrees; k++)
    d[BIAS_AT] += slopes[k];
}

/* ---- losses ------------------------------------------------------------ */

static double
rank_loss(int n, const float *scores, const float *labels, float *slopes)
{
  double loss = 0, pairs = 0;

  for (int i = 0; i < n; i++)
    for (int j = 0; j < i; j++) {
      if (!(labels[i] != labels[j]))
        continue;
      double sign = labels[i] > labels[j] ? 1 : -1;
      double d = sign * ((double)scores[i] - (double)scores[j]);
      double slope = -sign / (1 + exp(d));
      loss += d > 30 ? 0 : d < -30 ? -d : log1p(exp(-d));
      slopes[i] += (float)slope;
      slopes[j] -= (float)slope;
      pairs++;
    }
  for (int i = 0; i < n && pairs > 0; i++)
    slopes[i] /= (float)pairs;
  return pairs > 0 ? loss / pairs : 0;
}

double
tt_treegru_loss(enum tt_objective objective, int n, const float *scores,
                const float *labels, float *slopes)
{
  double loss = 0;

  memset(slopes, 0, (size_t)n * sizeof *slopes);
  if (objective == TT_RANK)
    return rank_loss(n, scores, labels, slopes);
  for (int i = 0; i < n; i++) {
    double d = (double)scores[i] - (double)labels[i];
    loss += d * d / n;
    slopes[i] = (float)(2 * d / n);
  }
  return loss;
}
