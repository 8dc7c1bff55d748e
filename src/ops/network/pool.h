/* Means and maxima of windows: the attributes that devices need. */
#ifndef QN_OPS_NETWORK_POOL_H
#define QN_OPS_NETWORK_POOL_H

#include "graph/graph.h"
#include "quern/ops.h"

typedef struct qn_average_pool_attributes {
    qn_window window;
    bool inside; /* the mean is that of the elements inside of the image */
} qn_average_pool_attributes;

/* The windows over x (N, H, W, C); all of H and W. */
qn_status qn_average_pool_of(const void *attributes, qn_shape x, qn_convolution *d);

qn_convolution qn_global_pool_of(qn_shape x);

typedef struct qn_max_pool_attributes {
    qn_window window;
} qn_max_pool_attributes;

qn_status qn_max_pool_of(const void *attributes, qn_shape x, qn_convolution *d);

#endif
