/* A graph whose nodes are assigned to several lanes: the same graph, with a copy node wherever a
 * value crosses from one memory space to another. Values that come from outside are in the host's
 * space unless space_of says otherwise; results are.
 *
 * Values from outside that lie in another space (space_of) are changed there by nodes of its lane.
 * Nodes that must run on the host are moved to lane 0: updates in place of host memory and,
 * from lanes that can be lost, everything that depends on an update (plan.h says why).
 *
 * A graph that swaps values to a file (swap_space) keeps those of a device in the host's memory
 * instead, by copies in the device's lane; those of the host stay where they are. */
#ifndef QN_PLAN_LANES_PARTITION_H
#define QN_PLAN_LANES_PARTITION_H

#include "plan/plan.h"

typedef struct qn_partition {
    qn_graph *graph;
    qn_assignment assignment; /* of its nodes; lane_of is in the graph's memory */
    qn_value *values; /* (n_values of the graph before): what holds it at the end of a run, in
                         the host's space if it is a source or a result; in the graph's memory */
} qn_partition;

/* wanted->lane_of is by node of `graph` and not kept; wanted->lanes must outlive the partition. The
 * names and random numbers of nodes stay, so that results are the same bits. QN_ERROR_ARGUMENT: the
 * graph has copies between spaces already, but for those to the swap space. */
qn_status qn_partition_make(const qn_graph *graph, const qn_assignment *wanted,
                            qn_partition *partition);

#endif
