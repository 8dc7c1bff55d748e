/* Fine-tuning as passes: choosing the trained parameters, and deriving the graph from that choice,
 * with adapters beside layers, and running statistics instead of a batch's if a norm is frozen.
 * Runs before fusion and autodiff, which then compute only what the trained parameters need. */
#ifndef QN_PASSES_TUNE_H
#define QN_PASSES_TUNE_H

#include "graph/graph.h"
#include "quern/tuning.h"

/* Whether there is anything to do. */
bool qn_tuning_is_used(const qn_tuning *tuning);

/* Says of the graph's parameters which are trained. Fails where none would be. */
qn_status qn_tune_select(qn_graph *graph, qn_value loss, const qn_tuning *tuning);

/* The graph with adapters, and, if it is one of training, frozen norms as in inference; nodes
 * before first_node stay. values: as those of qn_fuse. */
qn_status qn_tune(const qn_graph *graph, int first_node, const qn_tuning *tuning, qn_graph **tuned,
                  const qn_value **values);

/* Once all phases of a training graph are built: whether every pattern fitted something. */
qn_status qn_tune_check(qn_graph *graph, const qn_tuning *tuning);

/* The parameter that a value is, or what updates have made of it; null: it is none. */
const qn_value_info *qn_parameter_of(const qn_graph *graph, qn_value value);

/* Whether a layer, the node that reads a weight, is one of those of a list of patterns. */
bool qn_layer_matches(const char *patterns, const char *node_name, const char *weight_name);

/* Whether an adapter can stand beside a node: it is linear or a 1x1 convolution, over a parameter.
 */
bool qn_can_adapt(const qn_graph *graph, const qn_node *node);

/* Adds the adapter of a node whose copy in the graph is y, over x and a weight with so many
 * columns; returns their sum. */
qn_value qn_add_adapter(qn_graph *graph, const qn_node *node, const qn_value_info *weight,
                        qn_value x, qn_value y, const qn_tuning *tuning);

#endif
