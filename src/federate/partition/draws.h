/* Random numbers in the order in which they are asked for, of the laws that partitions need. */
#ifndef QN_FEDERATE_DRAWS_H
#define QN_FEDERATE_DRAWS_H

#include "base/rng.h"

typedef struct qn_draws {
    qn_rng rng;
    uint64_t next; /* word of the stream */
} qn_draws;

/* Uniform in (0, 1). */
double qn_draws_uniform(qn_draws *d);
double qn_draws_normal(qn_draws *d);

/* The logarithm of a gamma variable of scale 1: gamma variables of small shapes underflow. Shape 0:
 * minus infinity. */
double qn_draws_log_gamma(qn_draws *d, double shape);

/* Weights (n), the largest 1, of their logarithms; those for which is_open is 0 weigh nothing. */
void qn_weigh(const double *logarithms, const int64_t *is_open, int64_t n, double *weights);

/* One of n, with a chance in proportion to its weight; not all weights are 0. */
int64_t qn_draws_choose(qn_draws *d, const double *weights, int64_t n);

#endif
