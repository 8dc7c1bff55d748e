/* The table of value names. */
#ifndef QN_GRAPH_NAMES_H
#define QN_GRAPH_NAMES_H

#include "graph/graph.h"

/* Makes the value found by its name, which is not in the table yet. */
qn_status qn_graph_add_name(qn_graph *graph, qn_value value);

#endif
