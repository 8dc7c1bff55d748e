/* The estimated cost of a node, used until something has been measured. */
#include "ops/ops.h"
#include "plan/budget/budget.h"

double qn_estimate_ns(const qn_graph *graph, int32_t node, const qn_speed *speed) {
    const qn_node *n = graph->nodes[node];
    const qn_cost cost = qn_node_cost(graph, n);
    return n->op->is_view ? 0 : qn_speed_ns(speed, &cost);
}
