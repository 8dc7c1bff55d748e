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

/* Who works out the loss of a batch, and what it does with x and labels. */
typedef struct qn_peer {
    void *user;
    /* x (N, ...) of a type; writes x's gradient to error, and returns the loss. */
    double (*ask)(void *user, qn_tensor tensor, const void *x, const int32_t *labels, void *error);
} qn_peer;

typedef struct qn_peer_loss_attributes {
    const qn_peer *peer; /* must outlive the graph */
} qn_peer_loss_attributes;

/* x (N, ...), labels (N) -> the loss, a scalar. */
qn_value qn_peer_loss(qn_graph *graph, const char *name, qn_value x, qn_value labels,
                      const qn_peer *peer);

#endif
