/* Operators along one axis, reductions and resampling: the attributes that devices need. */
#ifndef QN_OPS_REDUCE_H
#define QN_OPS_REDUCE_H

#include "graph/graph.h"
#include "quern/ops.h"

typedef struct qn_reduce_attributes {
    int axis, reduction;
    qn_shape shape; /* of x */
} qn_reduce_attributes;

enum { QN_RESAMPLE_MOST_TAPS = 4 };

typedef struct qn_resample_attributes {
    int axis;
    int64_t from, to; /* extents of the axis */
    int interpolation, border;
    double value, shift, step, scale, offset, cubic;
    bool leaves_outs;
} qn_resample_attributes;

/* What element i is made of; the number of places and weights, 0 to MOST_TAPS. */
int qn_resample_taps(const qn_resample_attributes *a, int64_t i, int32_t *at, double *weights);

int qn_resample_most_taps(const qn_resample_attributes *a);

#endif
