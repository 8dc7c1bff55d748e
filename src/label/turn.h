/* Clusters that are long and slanted: a linear map that makes them round, from the covariance of
 * labelled samples about the centres of their clusters, common to all of them. It is used where a
 * half of the labelled samples foretells the other half better with it (learn.c). */
#ifndef QN_LABEL_TURN_H
#define QN_LABEL_TURN_H

#include <stdbool.h>
#include <stddef.h>

/* y = lower x, in place; lower (d, d) has zeros above its diagonal. */
void qn_turn_apply(const float *lower, int d, float *x);

/* x with y = lower x, in place. */
void qn_turn_undo(const float *lower, int d, float *x);

/* Makes lower from sums of products (d, d) of n deviations, of which it uses the part on and below
 * the diagonal, and destroys it; false: they have no such map. The map keeps the mean of the
 * features' logarithms of deviations. Covariances count less the fewer samples there are. */
bool qn_turn_make(double *products, double n, int d, float *lower);

/* Logarithm of what it multiplies volumes with. */
float qn_turn_log_volume(const float *lower, int d);

#endif
