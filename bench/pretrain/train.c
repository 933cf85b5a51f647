/* Trains the model that ships with the tool:
 *
 *   train LIST HISTORY FILE.def [LIST HISTORY]
 *
 * The records that HISTORY has of the programs of LIST are fitted, each
 * program a group of its own, and the trees written as FILE.def, which
 * tuner/pretrained.c includes.  Before that it is told how well such a model
 * orders programs it has not seen: they are dealt out to FOLDS parts, and each
 * part is scored by a model of the others.  Printed are, for each program,
 * Spearman's rank correlation with the speed, and how fast the schedule with
 * the highest score is, and the best of the BATCH with the highest ones,
 * against the best of as many drawn at random, as shares of the best of all.
 * The same is told of the programs of a second list, which are never learned
 * from. */
#include "config.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xgboost/c_api.h>

#include "bench/order.h"
#include "works.h"

enum {
  FOLDS = 5,
  FEWEST = 10, /* records a program is of use with */
  TREES = 120,
  DEPTH = 4,
  MOST_NODES = 2 << DEPTH,
  BATCH = 16,
  NO_FOLD = -1
};

/* What is told of a program; sums of it over several. */
struct told {
  int programs, records;
  double correlation, least, first, picked, drawn;
};

/* ---- fits -------------------------------------------------------------- */

static void
die(const char *what, const char *why)
{
  fprintf(stderr, "train: %s: %s\n", what, why);
  exit(1);
}

/* The rows and labels of a work, at the places given. */
static void
take_work(const struct work *w, float *rows, float *labels)
{
  size_t width = (size_t)w->trials.width;

  for (int i = 0; i < w->trials.n; i++) {
    memcpy(rows + (size_t)i * width, w->trials.items[i].row,
           width * sizeof *rows);
    labels[i] = work_speed(w, i);
  }
}

/* A model of the works that are not in the fold. */
static struct tt_cost_model *
fit(const struct works *ws, int fold)
{
  const char *error = NULL;
  struct tt_cost_model *m = tt_gbt_new(TT_RANK, 1, 1, &error);
  size_t width = (size_t)ws->all.items[0].trials.width, most = 0, n = 0;
  int *groups = tt_xmalloc((size_t)ws->all.n * sizeof *groups), ngroups = 0;

  for (int i = 0; i < ws->all.n; i++)
    most += (size_t)ws->all.items[i].trials.n;
  float *rows = tt_xmalloc((most + 1) * width * sizeof *rows);
  float *labels = tt_xmalloc((most + 1) * sizeof *labels);
  for (int i = 0; i < ws->all.n; i++) {
    const struct work *w = &ws->all.items[i];
    if (w->trials.n < FEWEST || i % FOLDS == fold)
      continue;
    take_work(w, rows + n * width, labels + n);
    groups[ngroups++] = w->trials.n;
    n += (size_t)w->trials.n;
  }
  struct tt_fit f = {.n = (int)n,
                     .width = (int)width,
                     .rows = rows,
                     .labels = labels,
                     .ngroups = ngroups,
                     .groups = groups};
  tt_gbt_size(m, TREES, DEPTH);
  if (!m->ops->fit(m, &f, &error))
    die("fit", error);
  free(rows);
  free(labels);
  free(groups);
  return m;
}

/* What the model says of a work that it does not know. */
static void
tell(const struct work *w, struct tt_cost_model *m, struct told *sum)
{
  size_t n = (size_t)w->trials.n, width = (size_t)w->trials.width;
  float *rows = tt_xmalloc(n * width * sizeof *rows);
  float *labels = tt_xmalloc(n * sizeof *labels);
  float *scores = tt_xmalloc(n * sizeof *scores);
  const char *error = NULL;
  double r, first, picked, drawn;

  take_work(w, rows, labels);
  if (!m->ops->predict(m, (int)n, (int)width, rows, scores, &error))
    die("score", error);
  r = bench_spearman((int)n, scores, labels);
  first = bench_best_of_top((int)n, 1, scores, labels);
  picked = bench_best_of_top((int)n, BATCH, scores, labels);
  drawn = bench_best_of_random((int)n, BATCH, labels);
  printf("| %s | %d | %.2f | %.2f | %.2f | %.2f |\n", w->name, w->trials.n, r,
         first, picked, drawn);
  sum->programs++;
  sum->records += w->trials.n;
  sum->correlation += r;
  sum->least = fmin(sum->least, r);
  sum->first += log(fmax(first, 1e-3));
  sum->picked += log(fmax(picked, 1e-3));
  sum->drawn += log(fmax(drawn, 1e-3));
  free(rows);
  free(labels);
  free(scores);
}

static void
tell_header(void)
{
  printf("| program | records | rank correlation | highest score | best of %d "
         "by score | best of %d at random |\n"
         "| --- | --- | --- | --- | --- | --- |\n",
         BATCH, BATCH);
}

static void
tell_sum(const struct told *t)
{
  int n = t->programs > 0 ? t->programs : 1;

  printf("| %d programs | %d | %.2f, least %.2f | %.2f | %.2f | %.2f |\n\n",
         t->programs, t->records, t->correlation / n, t->least,
         exp(t->first / n), exp(t->picked / n), exp(t->drawn / n));
}

static void
cross_validate(const struct works *ws)
{
  struct told sum = {.least = 1};

  tell_header();
  for (int fold = 0; fold < FOLDS; fold++) {
    struct tt_cost_model *m = fit(ws, fold);
    for (int i = fold; i < ws->all.n; i += FOLDS)
      if (ws->all.items[i].trials.n >= FEWEST)
        tell(&ws->all.items[i], m, &sum);
    m->ops->free(m);
  }
  tell_sum(&sum);
}

static bool
tell_of_others(const char *list, const char *history, struct tt_cost_model *m)
{
  struct tt_arena *arena = tt_arena_new();
  struct told sum = {.least = 1};
  struct works ws;
  bool ok = works_read(&ws, arena, list, 0) && works_load(&ws, history);

  if (ok)
    tell_header();
  for (int i = 0; i < ws.all.n && ok; i++)
    if (ws.all.items[i].trials.n >= FEWEST)
      tell(&ws.all.items[i], m, &sum);
  if (ok)
    tell_sum(&sum);
  works_free(&ws);
  tt_arena_free(arena);
  return ok;
}

/* ---- the file ---------------------------------------------------------- */

struct line { /* of XGBoost's text: node `id` */
  bool there;
  int feature, yes; /* yes 0: a leaf */
  char value[32];   /* threshold or score, as printed */
};

/* "3:[f12<0.5] yes=7,no=8,missing=7" or "7:leaf=0.25" */
static void
parse_line(const char *text, struct line *lines)
{
  struct line l = {.there = true};
  int id, no;

  if (sscanf(text, "%d:leaf=%31[^,\n]", &id, l.value) != 2 &&
      sscanf(text, "%d:[f%d<%31[^]]] yes=%d,no=%d", &id, &l.feature, l.value,
             &l.yes, &no) != 5)
    die("a tree", text);
  if (id < 0 || id >= MOST_NODES || (l.yes != 0 && no != l.yes + 1))
    die("a tree of another form", text);
  lines[id] = l;
}

/* Children beside each other, parents before them.  Returns the nodes. */
static int
write_tree(FILE *out, const char *tree)
{
  struct line lines[MOST_NODES] = {{0}};
  int order[MOST_NODES] = {0}, n = 1, count = 0;

  for (const char *s = tree + strspn(tree, "\t\n"); *s != '\0';
       s += strcspn(s, "\n"), s += strspn(s, "\t\n"), count++)
    parse_line(s, lines);
  fprintf(out, "TT_TREE(%d)\n", count);
  for (int i = 0; i < n; i++) {
    const struct line *l = &lines[order[i]];
    const char *point = strpbrk(l->value, ".e") != NULL ? "" : ".";
    if (!l->there)
      die("a tree", "lacks a node");
    if (l->yes == 0) {
      fprintf(out, "TT_LEAF(%s%sf)\n", l->value, point);
      continue;
    }
    fprintf(out, "TT_SPLIT(%d, %s%sf, %d)\n", l->feature, l->value, point,
            n - i);
    order[n++] = l->yes;
    order[n++] = l->yes + 1;
  }
  if (n != count)
    die("a tree", "has nodes apart");
  return n;
}

static void
write_model(struct tt_cost_model *m, int width, const char *path)
{
  FILE *out = fopen(path, "w");
  const char *error = NULL, **trees;
  BoosterHandle b = NULL;
  char *bytes;
  size_t size;
  bst_ulong n;
  int count = 0;

  if (out == NULL || !tt_gbt_save(m, &bytes, &size, &error))
    die(path, error != NULL ? error : "cannot be written");
  if (XGBoosterCreate(NULL, 0, &b) != 0 ||
      XGBoosterLoadModelFromBuffer(b, bytes, size) != 0 ||
      XGBoosterDumpModelEx(b, "", 0, "text", &n, &trees) != 0)
    die("XGBoost", XGBGetLastError());
  fprintf(out, "/* Made by bench/pretrain/train. */\nTT_PRETRAINED(%d, %d)\n",
          TT_FEATURES_VERSION, width);
  for (bst_ulong i = 0; i < n; i++)
    count += write_tree(out, trees[i]);
  XGBoosterFree(b);
  free(bytes);
  if (fclose(out) != 0)
    die(path, "cannot be written");
  printf("%s: %d trees, %d nodes\n", path, (int)n, count);
}

int
main(int argc, char **argv)
{
  struct tt_arena *arena = tt_arena_new();
  struct works ws;
  struct tt_cost_model *m;
  bool ok = true;

  if (argc != 4 && argc != 6) {
    fprintf(stderr, "usage: train LIST HISTORY FILE.def [LIST HISTORY]\n");
    return 2;
  }
  if (!works_read(&ws, arena, argv[1], 0) || !works_load(&ws, argv[2]) ||
      ws.all.n == 0)
    return 1;
  cross_validate(&ws);
  m = fit(&ws, NO_FOLD);
  write_model(m, ws.all.items[0].trials.width, argv[3]);
  if (argc == 6)
    ok = tell_of_others(argv[4], argv[5], m);
  m->ops->free(m);
  works_free(&ws);
  tt_arena_free(arena);
  return ok ? 0 : 1;
}
