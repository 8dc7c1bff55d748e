/* Batch norm and layer norm: the attributes that devices need. */
#ifndef QN_OPS_NETWORK_NORM_H
#define QN_OPS_NETWORK_NORM_H

#include "graph/graph.h"
#include "quern/ops.h"

typedef struct qn_batch_norm_attributes {
    double epsilon;
    qn_activation activation;
} qn_batch_norm_attributes;

typedef struct qn_batch_norm_running_attributes {
    double epsilon, momentum;
    int64_t rows; /* of the batch: makes the variance unbiased */
} qn_batch_norm_running_attributes;

typedef struct qn_layer_norm_attributes {
    double epsilon;
} qn_layer_norm_attributes;

enum { QN_LAYER_NORM_SUM = 5 };

#endif
