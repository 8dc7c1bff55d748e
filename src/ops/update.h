/* Updates in place (optimisers, accumulation) and the factor that clips gradients: the attributes
 * that devices need. */
#ifndef QN_OPS_UPDATE_H
#define QN_OPS_UPDATE_H

#include "graph/graph.h"
#include "quern/ops.h"

typedef struct qn_sgd_attributes {
    bool nesterov;
    double rate; /* factor of the learning rate */
} qn_sgd_attributes;

typedef struct qn_adam_attributes {
    bool decoupled;
    double rate; /* factor of the learning rate */
} qn_adam_attributes;

typedef struct qn_clip_attributes {
    double limit;
    int n_gradients; /* inputs after hyper */
} qn_clip_attributes;

#endif
