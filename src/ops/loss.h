/* Losses and their means: the attributes that devices need. */
#ifndef QN_OPS_LOSS_H
#define QN_OPS_LOSS_H

#include "graph/graph.h"
#include "quern/ops.h"

typedef struct qn_binary_cross_entropy_attributes {
    double target; /* where there is no input of that name */
} qn_binary_cross_entropy_attributes;

typedef struct qn_softmax_cross_entropy_attributes {
    double smoothing;
} qn_softmax_cross_entropy_attributes;

#endif
