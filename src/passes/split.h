/* Micro-batches: a training step whose graph processes the batch piece by piece. Nodes that work
 * sample by sample are copied for every piece, one piece after the other, so that only one piece's
 * feature maps are alive at a time. Sums over the batch continue from piece to piece, in place,
 * split at the kernels' chunks. If the chunks do not allow it, or the inputs are smaller than the
 * results, the inputs are collected and the node runs once after all pieces. Everything that
 * depends on sums (the loss, clipping, updates) runs once, after all pieces.
 *
 * Guarantees: parameters, optimiser state and results are equal in every bit. Refused, with the
 * reason: graphs in which a sample's value depends on other samples (batch norm), unless that
 * dependency is only on inputs from outside (how many labels count). */
#ifndef QN_PASSES_SPLIT_H
#define QN_PASSES_SPLIT_H

#include "device/machine.h"
#include "graph/graph.h"

/* What the new graph was made of; arrays in its memory. */
typedef struct qn_split_origins {
    const int32_t *node_of; /* (new n_nodes): the old node, or -1: it slices pieces or joins them */
    const qn_value *values; /* (old n_values): the value of the whole batch, or QN_NO_VALUE */
} qn_split_origins;

/* samples (n_samples): values from outside whose first axis is the batch, whose extent, the first
 * one's, pieces divides, or the batch times something (rows of each sample). machine: what
 * the graph will run on. QN_ERROR_UNSUPPORTED: the graph cannot be split so, with the reason. */
qn_status qn_split(const qn_graph *graph, const qn_machine *machine, const qn_value *samples,
                   int n_samples, int64_t pieces, qn_graph **split, qn_split_origins *origins);

/* For several processors, in the graph's order: nodes that work sample by sample are copied for
 * every piece, all others, sums and norms over the batch among them, run once. Of any graph. */
qn_status qn_split_apart(const qn_graph *graph, const qn_machine *machine, const qn_value *samples,
                         int n_samples, int64_t pieces, qn_graph **split,
                         qn_split_origins *origins);

#endif
