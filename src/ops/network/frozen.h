/* Weights that stay as they are in a file, as blocks (tensor/blocks.h): what devices need to know,
 * and the builders. */
#ifndef QN_OPS_NETWORK_FROZEN_H
#define QN_OPS_NETWORK_FROZEN_H

#include "graph/graph.h"
#include "tensor/blocks.h"

/* Of the weight, input QN_FROZEN_WEIGHT (rows, bytes of a row), QN_U8, or, of the rows by index,
 * input 0. */
typedef struct qn_frozen_attributes {
    int blocks;      /* qn_blocks */
    int64_t columns; /* numbers of a row */
} qn_frozen_attributes;

/* Of rows by indices: those of the table come first. */
typedef struct qn_frozen_embedding_attributes {
    qn_frozen_attributes weight;
    int real; /* qn_dtype of the rows */
} qn_frozen_embedding_attributes;

enum { QN_FROZEN_X, QN_FROZEN_WEIGHT, QN_FROZEN_BIAS };

/* A weight (K, C) or a table (V, C) in a graph. */
typedef struct qn_frozen {
    qn_value value; /* (K, bytes of a row), QN_U8 */
    qn_blocks blocks;
    int64_t columns;
} qn_frozen;

/* A parameter that is not trained and lies at data, in memory that is lent (qn_graph_lend); null:
 * engines hold it, as any parameter. Rows are whole blocks. */
qn_frozen qn_frozen_weight(qn_graph *graph, const char *name, qn_blocks blocks, int64_t rows,
                           int64_t columns, const void *data);

/* y (N, K) = x (N, C) weight (K, C) transposed + bias (K), which may be QN_NO_VALUE. Gradients flow
 * to x and to the bias. */
qn_value qn_frozen_linear(qn_graph *graph, const char *name, qn_value x, qn_frozen weight,
                          qn_value bias);

/* Rows of a table by indices (...), QN_I32 -> (..., C) of the graph's type; as qn_embedding. */
qn_value qn_frozen_embedding(qn_graph *graph, const char *name, qn_frozen table, qn_value indices);

/* For shape rules: input i is a weight of attributes that begin with qn_frozen_attributes. */
qn_status qn_frozen_expect(const qn_infer *infer, int i);

/* For samples: a weight of bytes up to 63, so that no scale is beyond the numbers. */
qn_frozen qn_frozen_sample(qn_graph *graph, qn_blocks blocks, int64_t rows, int64_t columns);

#endif
