/* Linear layers and matrix products over equal leading axes: the attributes that devices need. */
#ifndef QN_OPS_NETWORK_PRODUCT_H
#define QN_OPS_NETWORK_PRODUCT_H

#include "graph/graph.h"
#include "quern/ops.h"

typedef struct qn_matmul_attributes {
    bool transpose_a, transpose_b;
} qn_matmul_attributes;

#endif
