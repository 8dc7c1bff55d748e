/* Copying a graph node by node into another one, for passes that change something on the way. */
#ifndef QN_PASSES_COPY_H
#define QN_PASSES_COPY_H

#include "graph/graph.h"

/* An empty graph of the same options. */
qn_status qn_copy_begin(const qn_graph *from, qn_graph **to);

/* A value given from outside. */
qn_value qn_copy_source(qn_graph *to, const qn_value_info *info);

/* A node under a name, with attributes of its operator; its inputs are looked up in values (by
 * value of from), and its outputs entered there, with their kinds. Results are the caller's. Null
 * after a failure, which the graph keeps. */
const qn_node *qn_copy_node(qn_graph *to, const qn_graph *from, const qn_node *node,
                            const char *name, const void *attributes, qn_value *values);

/* The list of results, as values says. */
void qn_copy_results(qn_graph *to, const qn_graph *from, const qn_value *values);

#endif
