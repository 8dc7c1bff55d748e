/* Recomputation and swapping in a plan, summed by node and value; see plan_report.h. */
#include "base/memory.h"
#include "base/status.h"
#include "report/plan_report.h"

#include <stdlib.h>

/* What is swapped comes first, as its time is not known by value. */
static int by_cost(const void *left, const void *right) {
    const qn_report_extra *a = left, *b = right;
    if (a->is_swapped != b->is_swapped)
        return a->is_swapped ? -1 : 1;
    if (a->ns != b->ns)
        return a->ns < b->ns ? 1 : -1;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? 1 : -1;
    return (a->id > b->id) - (a->id < b->id);
}

static size_t output_bytes(const qn_graph *graph, const qn_node *node) {
    size_t bytes = 0;
    for (int i = 0; i < node->n_outputs; i++)
        bytes += qn_tensor_bytes(qn_graph_tensor(graph, node->outputs[i]));
    return bytes;
}

/* Runs by node, and stores by value, of a sequence. */
static void count(const qn_sequence *sequence, int32_t *runs, int32_t *stores) {
    for (size_t i = 0; i < sequence->n; i++) {
        const qn_item *item = &sequence->items[i];
        if (item->action == QN_ACTION_RUN)
            runs[item->id]++;
        else if (item->action == QN_ACTION_STORE)
            stores[item->id]++;
    }
}

double qn_report_node_ns(const qn_report_program *p, int32_t node) {
    const qn_speed speed = qn_speed_typical(p->plan->n_threads);
    return p->node_ns && p->node_ns[node] >= 0 ? p->node_ns[node]
                                               : qn_estimate_ns(p->base, node, &speed);
}

static qn_report_extra of_node(const qn_report_program *p, int32_t id, int32_t n_times) {
    const qn_graph *base = p->base;
    const qn_node *node = base->nodes[id];
    return (qn_report_extra){.id = id,
                             .name = node->name,
                             .type = node->op->name,
                             .n_times = n_times,
                             .bytes = output_bytes(base, node),
                             .ns = n_times * qn_report_node_ns(p, id)};
}

static qn_report_extra of_value(const qn_graph *base, int32_t id, int32_t n_times) {
    return (qn_report_extra){.id = id,
                             .name = base->values[id]->name,
                             .type = "swapped",
                             .is_swapped = true,
                             .n_times = n_times,
                             .bytes = qn_tensor_bytes(base->values[id]->tensor)};
}

qn_status qn_plan_report_extra(qn_arena *memory, qn_report_program *p) {
    const qn_graph *base = p->base;
    p->n_again = 0;
    if (!p->budget)
        return QN_OK;
    const size_t n_nodes = (size_t)base->n_nodes + 1, n_values = (size_t)base->n_values + 1;
    int32_t *runs = qn_arena_allocate(memory, n_nodes, sizeof *runs);
    int32_t *stores = qn_arena_allocate(memory, n_values, sizeof *stores);
    p->again = qn_arena_allocate(memory, n_nodes + n_values, sizeof *p->again);
    if (!runs || !stores || !p->again)
        return QN_ERROR_MEMORY;
    count(&p->budget->sequence, runs, stores);
    for (int32_t n = 0; n < base->n_nodes; n++) {
        if (runs[n] > 1)
            p->again[p->n_again++] = of_node(p, n, runs[n] - 1);
    }
    for (int32_t v = 0; v < base->n_values; v++) {
        if (stores[v] > 0)
            p->again[p->n_again++] = of_value(base, v, stores[v]);
    }
    qsort(p->again, (size_t)p->n_again, sizeof *p->again, by_cost);
    return QN_OK;
}
