/* Lanes for a graph that runs in lane 0 but copies values to other memory spaces and back, as
 * swapping does. Each such space gets one lane of its device for copies into it, and one for copies
 * out of it. Each copy begins in its turn (qn_lane), so it starts no earlier than its place in the
 * graph, and continues beside the following nodes. */
#include "base/status.h"
#include "plan/plan.h"

/* The further space that a node copies to (*is_out is false) or from, or 0: to neither. */
static int space_of(const qn_graph *graph, const qn_node *node, bool *is_out) {
    const qn_op *op = node->op;
    if (!op->output_space)
        return 0;
    const int to = op->output_space(node->attributes);
    const int32_t maker = graph->values[qn_graph_unview(graph, node->inputs[0]).id]->producer;
    const qn_op *made_by = maker < 0 ? NULL : graph->nodes[maker]->op;
    *is_out = to == 0;
    if (to > 0)
        return to;
    return made_by && made_by->output_space ? made_by->output_space(graph->nodes[maker]->attributes)
                                            : 0;
}

/* The lane of a space's copies, added where it is not there yet; -1: there are too many. */
static int16_t lane_for(qn_lane *lanes, int16_t *numbers, int *n_lanes, const qn_machine *machine,
                        int space, bool is_out) {
    int16_t *number = &numbers[2 * space + is_out];
    if (*number == 0) {
        if (*n_lanes == QN_MAX_LANES)
            return -1;
        lanes[*n_lanes] = (qn_lane){.device = machine->spaces[space].device,
                                    .space = (int16_t)space,
                                    .n_threads = 1,
                                    .in_turn = true};
        *number = (int16_t)(*n_lanes)++;
    }
    return *number;
}

/* lane_of (n_nodes): zeroed. */
static qn_status find_lanes(const qn_graph *graph, const qn_machine *machine, qn_lane *lanes,
                            int *n_lanes, int16_t *lane_of) {
    int16_t numbers[2 * QN_MAX_SPACES] = {0};
    for (int n = 0; n < graph->n_nodes; n++) {
        bool is_out;
        const int space = space_of(graph, graph->nodes[n], &is_out);
        if (space < 0 || space >= machine->n_spaces)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "plan: %s is in memory space %d; the machine has %d, numbered from 0",
                           graph->nodes[n]->name, space, machine->n_spaces);
        if (space == 0)
            continue;
        lane_of[n] = lane_for(lanes, numbers, n_lanes, machine, space, is_out);
        if (lane_of[n] < 0)
            return qn_fail(QN_ERROR_ARGUMENT, "plan: values are copied to too many memory spaces");
    }
    return QN_OK;
}

qn_status qn_plan_order_copies(qn_plan *plan, const qn_graph *graph, const qn_machine *machine) {
    const size_t n_nodes = (size_t)graph->n_nodes;
    qn_lane lanes[QN_MAX_LANES] = {{.n_threads = (int16_t)machine->n_threads}};
    int16_t *lane_of;
    int n_lanes = 1;
    QN_TRY(qn_allocate(plan->allocator, n_nodes, sizeof *lane_of, &lane_of));
    qn_status status = find_lanes(graph, machine, lanes, &n_lanes, lane_of);
    const qn_assignment assignment = {
        .n_lanes = n_lanes, .n_spaces = machine->n_spaces, .lanes = lanes, .lane_of = lane_of};
    if (status == QN_OK && n_lanes > 1)
        status = qn_plan_order_lanes(plan, graph, machine, &assignment);
    qn_release(plan->allocator, lane_of, n_nodes, sizeof *lane_of);
    return status;
}
