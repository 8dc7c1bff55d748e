/* Scaled dot-product attention: the attributes that devices need. */
#ifndef QN_OPS_NETWORK_ATTENTION_H
#define QN_OPS_NETWORK_ATTENTION_H

#include "graph/graph.h"
#include "quern/ops.h"

typedef struct qn_attention_attributes {
    double scale, rate;
    int64_t key;   /* of the random stream; 0: the node's own */
    int64_t first; /* number of the first sample in the batch: of a piece of it */
} qn_attention_attributes;

/* Numbers of inputs, forward and backward. */
enum {
    QN_ATTENTION_QUERY,
    QN_ATTENTION_KEY,
    QN_ATTENTION_VALUE,
    QN_ATTENTION_LENGTHS,
    QN_ATTENTION_N_FORWARD
};
enum {
    QN_ATTENTION_Y = 3,
    QN_ATTENTION_LOG_SUMS,
    QN_ATTENTION_DY,
    QN_ATTENTION_BACKWARD_LENGTHS,
    QN_ATTENTION_N_BACKWARD
};

qn_attention_shape qn_attention_of(const void *attributes, const qn_tensor *inputs);

/* The key of its random stream. */
uint64_t qn_attention_key(const qn_node *node);

#endif
