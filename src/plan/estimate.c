/* What a node takes before anything has been measured: the roofline of Williams, Waterman and
 * Patterson ("Roofline", 2009). */
#include "base/status.h"
#include "os/os.h"
#include "plan/budget.h"

/* A call wakes a team. Memory is shared by all threads. */
static const double typical_bytes_per_ns = 10, call_ns = 2000;

/* About two thirds of what multiply-adds in registers reach in a thread. */
static double typical_flops_per_ns(void) {
    qn_isa isa;
    if (qn_cpu_isa(&isa) != QN_OK)
        return 12;
    switch (isa) {
    case QN_ISA_AVX512:
        return 90;
    case QN_ISA_AVX2:
        return 50;
    case QN_ISA_NEON:
        return 12;
    default:
        return 3;
    }
}

qn_speed qn_speed_typical(int n_threads) {
    return (qn_speed){.flops_per_ns = typical_flops_per_ns() * (n_threads > 1 ? n_threads : 1),
                      .bytes_per_ns = typical_bytes_per_ns};
}

enum { MOST_INPUTS = 64 };

/* An operator's own figure; what has none, or more inputs, is bound by memory. */
static qn_cost find_cost(const qn_graph *graph, const qn_node *node) {
    qn_tensor inputs[MOST_INPUTS], outputs[QN_MAX_OUTPUTS];
    if (!node->op->cost || node->n_inputs > MOST_INPUTS)
        return (qn_cost){0};
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = qn_graph_tensor(graph, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++)
        outputs[i] = qn_graph_tensor(graph, node->outputs[i]);
    return node->op->cost(node->attributes, inputs, outputs);
}

static size_t touched_bytes(const qn_graph *graph, const qn_node *node) {
    size_t bytes = 0;
    for (int i = 0; i < node->n_inputs; i++)
        bytes += qn_tensor_bytes(qn_graph_tensor(graph, node->inputs[i]));
    for (int i = 0; i < node->n_outputs; i++)
        bytes += qn_tensor_bytes(qn_graph_tensor(graph, node->outputs[i]));
    return bytes;
}

double qn_estimate_ns(const qn_graph *graph, int32_t node, const qn_speed *speed) {
    const qn_node *n = graph->nodes[node];
    if (n->op->is_view)
        return 0;
    const qn_cost cost = find_cost(graph, n);
    const double flops = speed->flops_per_ns > 0 ? speed->flops_per_ns : typical_flops_per_ns();
    const double rate = speed->bytes_per_ns > 0 ? speed->bytes_per_ns : typical_bytes_per_ns;
    const double bytes = cost.bytes > 0 ? (double)cost.bytes : (double)touched_bytes(graph, n);
    const double arithmetic_ns = (double)cost.flops / flops, memory_ns = bytes / rate;
    return (arithmetic_ns > memory_ns ? arithmetic_ns : memory_ns) + call_ns;
}
