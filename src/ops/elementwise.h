/* Operators that compute each element from elements of their operands, column sums, constants,
 * casts: the attributes that devices need. */
#ifndef QN_OPS_ELEMENTWISE_H
#define QN_OPS_ELEMENTWISE_H

#include "graph/graph.h"
#include "quern/ops.h"

typedef struct qn_scale_attributes {
    double factor;
} qn_scale_attributes;

typedef struct qn_broadcast_attributes {
    double factor;
    qn_shape shape;
} qn_broadcast_attributes;

typedef struct qn_combine_attributes {
    qn_combination kind;
} qn_combine_attributes;

typedef struct qn_dropout_attributes {
    double rate;
    int64_t key;   /* of the random stream; 0: the node's own */
    int64_t first; /* number of the first element in the stream: of a piece of a batch */
} qn_dropout_attributes;

/* The key of its random stream. */
uint64_t qn_dropout_key(const qn_node *node);

typedef struct qn_constant_attributes {
    double value;
    qn_dtype dtype;
} qn_constant_attributes;

#endif
