/* Which place of the swap file every swapped value has, and for how long: from the step that begins
 * to write it to the last that waits for it to be read. */
#include "base/status.h"
#include "plan/packing.h"
#include "plan/plan.h"

/* The node whose ticket a node that swaps goes on from, or -1. */
static int32_t find_before(const qn_graph *graph, const qn_node *node) {
    const int input = node->op->swapping == QN_SWAPPING_LOAD ? 0 : 1;
    if (node->op->swapping == QN_SWAPPING_STORE)
        return -1;
    return qn_graph_value(graph, node->inputs[input])->producer;
}

static qn_status add(qn_plan *plan, qn_tensor tensor, int32_t step) {
    const size_t bytes = qn_tensor_bytes(tensor);
    QN_TRY(qn_grow(plan->allocator, &plan->swapped, &plan->swapped_capacity,
                   (size_t)plan->n_swapped + 1, sizeof *plan->swapped));
    plan->swapped[plan->n_swapped++] =
        (qn_swapped){.bytes = (bytes + QN_SWAP_BLOCK - 1) / QN_SWAP_BLOCK * QN_SWAP_BLOCK,
                     .first = step,
                     .last = step};
    return QN_OK;
}

/* by_node (n_nodes): scratch. */
static qn_status find_swapped(qn_plan *plan, const qn_graph *graph, int32_t *by_node) {
    for (int32_t s = 0; s < plan->n_steps; s++) {
        qn_step *step = &plan->steps[s];
        const qn_node *node = graph->nodes[step->node];
        const qn_swapping swapping = node->op->swapping;
        if (swapping == QN_SWAPPING_NONE)
            continue;
        const int32_t before = find_before(graph, node);
        if (before < 0)
            QN_TRY(add(plan, qn_graph_tensor(graph, node->inputs[0]), s));
        step->swapped = before < 0 ? plan->n_swapped - 1 : by_node[before];
        by_node[step->node] = step->swapped;
        plan->swapped[step->swapped].last = s;
        plan->n_requests += swapping == QN_SWAPPING_STORE || swapping == QN_SWAPPING_LOAD;
    }
    return QN_OK;
}

/* boxes (n_swapped): scratch. */
static qn_status pack(qn_plan *plan, qn_box *boxes) {
    const qn_packing_options options = {.most_work = 0};
    qn_packing packing;
    for (int32_t i = 0; i < plan->n_swapped; i++) {
        const qn_swapped *s = &plan->swapped[i];
        boxes[i] = (qn_box){.lower = s->first, .upper = s->last + 1, .bytes = s->bytes};
    }
    QN_TRY(qn_pack(plan->allocator, boxes, plan->n_swapped, &options, &packing));
    for (int32_t i = 0; i < plan->n_swapped; i++)
        plan->swapped[i].offset = boxes[i].offset;
    plan->swap_bytes = packing.top_bytes;
    return QN_OK;
}

qn_status qn_plan_swap(qn_plan *plan, const qn_graph *graph) {
    const qn_allocator *a = plan->allocator;
    const size_t n_nodes = (size_t)graph->n_nodes;
    int32_t *by_node = NULL;
    qn_box *boxes = NULL;
    plan->n_swapped = plan->n_requests = 0;
    plan->swap_bytes = 0;
    qn_status status = qn_allocate(a, n_nodes, sizeof *by_node, &by_node);
    if (status == QN_OK)
        status = find_swapped(plan, graph, by_node);
    const size_t n_swapped = (size_t)plan->n_swapped;
    if (status == QN_OK)
        status = qn_allocate(a, n_swapped, sizeof *boxes, &boxes);
    if (status == QN_OK && n_swapped > 0)
        status = pack(plan, boxes);
    qn_release(a, by_node, n_nodes, sizeof *by_node);
    qn_release(a, boxes, n_swapped, sizeof *boxes);
    return status;
}
