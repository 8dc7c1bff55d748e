/* A graph whose nodes are given to several lanes: the same graph with a node that copies wherever a
 * value crosses from one memory space to another. What is given from outside and what is read from
 * outside lie in the host's space.
 *
 * Nodes that must be the host's are moved to lane 0: updates in place of what the host holds,
 * swapping, and, from lanes that can be lost, whatever depends on an update (plan.h says why). */
#ifndef QN_PLAN_LANES_SPREAD_H
#define QN_PLAN_LANES_SPREAD_H

#include "plan/plan.h"

typedef struct qn_spread {
    qn_graph *graph;
    qn_assignment assignment; /* of its nodes; lane_of is in the graph's memory */
    qn_value *values; /* (n_values of the graph before): what holds it at the end of a run, in
                         the host's space if it is a source or a result; in the graph's memory */
} qn_spread;

/* wanted->lane_of is by node of `graph` and not kept; wanted->lanes must outlive the spread. The
 * names and random numbers of nodes stay, so that results are the same bits. */
qn_status qn_spread_make(const qn_graph *graph, const qn_assignment *wanted, qn_spread *spread);

#endif
