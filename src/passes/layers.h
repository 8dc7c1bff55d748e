/* How a user may refer to a parameter: by its own name; by the name of the layer that reads it,
 * which exports keep even if they lose the weights' names ("/features/features.0/Conv", or what
 * follows one of the slashes); or by the layer's position in the network, "#3" or "#1-10". */
#ifndef QN_PASSES_LAYERS_H
#define QN_PASSES_LAYERS_H

#include "base/patterns.h"
#include "graph/graph.h"

/* Layers are the nodes that are the first to read some weight of two axes or more, in the order of
 * the graph, from 1 on; a bias or norm is of the layer before it. */
typedef struct qn_layers {
    const qn_graph *graph;
    int n;
    int *readers;   /* (values) the node that reads a parameter first; -1: none */
    int *positions; /* (values) its layer */
} qn_layers;

/* In the graph's arena. */
qn_status qn_layers_find(qn_graph *graph, qn_layers *layers);

/* Whether a pattern fits a parameter in one of these ways. */
bool qn_layers_match(const qn_layers *layers, qn_pattern pattern, int value);

#endif
