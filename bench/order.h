/* How well scores order what was measured. */
#ifndef BENCH_ORDER_H
#define BENCH_ORDER_H

/* Spearman's rank correlation of n pairs, from -1 to 1; 0 where all values of
 * one side are equal. */
double bench_spearman(int n, const float *x, const float *y);
/* The highest label of those with the `top` highest scores; labels are not
 * negative. */
double bench_best_of_top(int n, int top, const float *scores,
                         const float *labels);
/* What that is in the mean of as many drawn without replacement. */
double bench_best_of_random(int n, int drawn, const float *labels);

#endif
