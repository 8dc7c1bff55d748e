/* Convolutions, transposed convolutions, and the products of their gradients: the attributes that
 * devices need. */
#ifndef QN_OPS_NETWORK_CONVOLUTION_H
#define QN_OPS_NETWORK_CONVOLUTION_H

#include "graph/graph.h"
#include "quern/ops.h"

typedef struct qn_conv2d_attributes {
    qn_window window;
    int groups;
    qn_activation activation;
    int64_t batch; /* samples of the whole batch of which this is a piece; 0: all */
} qn_conv2d_attributes;

/* Its extents, from its inputs: x (N, H, W, C) and filter; and whether they fit: the shape rule
 * asks that once, and a node of a graph needs no check. */
qn_convolution qn_conv2d_of(const void *attributes, const qn_tensor *inputs);
qn_status qn_conv2d_check(const void *attributes, const qn_tensor *inputs, qn_convolution *d);

typedef struct qn_conv2d_transpose_attributes {
    qn_window window;
} qn_conv2d_transpose_attributes;

/* The convolution that it is the transpose of. */
qn_convolution qn_conv2d_transpose_of(const void *attributes, const qn_tensor *inputs);

#endif
