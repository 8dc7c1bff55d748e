/* See baselines.h. */
#include "plan/baselines.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* Nodes are in the order in which they run, so their numbers are times. */
typedef struct counting {
    const qn_graph *graph;
    bool *is_run;  /* (n_nodes): something needs it */
    int32_t *last; /* (n_values): last node that reads it, or a view of it; n_nodes: to the end */
    size_t *freed; /* (n_nodes): bytes of values whose last reader it is */
} counting;

static bool is_view_of(const qn_graph *graph, int32_t value) {
    const int32_t producer = graph->values[value]->producer;
    return producer >= 0 && graph->nodes[producer]->op->is_view;
}

static int32_t find_owner(const qn_graph *graph, int32_t value) {
    while (is_view_of(graph, value))
        value = graph->nodes[graph->values[value]->producer]->inputs[0].id;
    return value;
}

static void find_last_readers(counting *u) {
    const qn_graph *graph = u->graph;
    for (int32_t v = 0; v < graph->n_values; v++)
        u->last[v] = graph->values[v]->producer;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        for (int i = 0; u->is_run[n] && i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                u->last[find_owner(graph, node->inputs[i].id)] = n;
        }
    }
    for (int32_t v = 0; v < graph->n_values; v++) {
        if (graph->values[v]->is_result)
            u->last[find_owner(graph, v)] = graph->n_nodes;
    }
}

static bool is_update(const qn_graph *graph, int32_t node) {
    return node < graph->n_nodes &&
           qn_graph_value(graph, graph->nodes[node]->outputs[0])->overwrites >= 0;
}

/* Gradients stay until the last of the updates that come next. */
static void keep_gradients(counting *u) {
    const qn_graph *graph = u->graph;
    int32_t end = -1;
    for (int32_t n = graph->n_nodes - 1; n >= 0; n--) {
        const qn_node *node = graph->nodes[n];
        if (is_update(graph, n) && !is_update(graph, n + 1))
            end = n;
        for (int i = 0; i < node->n_outputs; i++) {
            const int32_t v = node->outputs[i].id;
            if (graph->values[v]->kind == QN_KIND_GRADIENT && u->last[v] < end)
                u->last[v] = end;
        }
    }
}

/* Bytes that making a value takes. */
static size_t made_bytes(const counting *u, int32_t value) {
    const qn_value_info *info = u->graph->values[value];
    const bool is_made = info->producer >= 0 && u->is_run[info->producer];
    if (!is_made || info->overwrites >= 0 || is_view_of(u->graph, value))
        return 0;
    return qn_tensor_bytes(info->tensor);
}

static size_t most_alive(counting *u) {
    size_t alive = 0, most = 0;
    memset(u->freed, 0, (size_t)u->graph->n_nodes * sizeof *u->freed);
    for (int32_t v = 0; v < u->graph->n_values; v++) {
        if (u->last[v] >= 0 && u->last[v] < u->graph->n_nodes)
            u->freed[u->last[v]] += made_bytes(u, v);
    }
    for (int32_t n = 0; n < u->graph->n_nodes; n++) {
        const qn_node *node = u->graph->nodes[n];
        for (int i = 0; i < node->n_outputs; i++)
            alive += made_bytes(u, node->outputs[i].id);
        most = alive > most ? alive : most;
        alive -= u->freed[n];
    }
    return most;
}

static qn_status find_unplanned(counting *u, qn_plan *order, qn_unplanned *found) {
    const size_t n_nodes = (size_t)u->graph->n_nodes, n_values = (size_t)u->graph->n_values;
    QN_TRY(qn_plan_order(order, u->graph));
    QN_TRY(qn_allocate(order->allocator, n_nodes, sizeof *u->is_run, &u->is_run));
    QN_TRY(qn_allocate(order->allocator, n_values, sizeof *u->last, &u->last));
    QN_TRY(qn_allocate(order->allocator, n_nodes, sizeof *u->freed, &u->freed));
    for (int32_t s = 0; s < order->n_steps; s++)
        u->is_run[order->steps[s].node] = true;
    find_last_readers(u);
    found->freed_bytes = most_alive(u);
    keep_gradients(u);
    found->bytes = most_alive(u);
    return QN_OK;
}

static qn_status create_empty(const qn_allocator *allocator, int n_threads, qn_plan **plan) {
    QN_TRY(qn_allocate(allocator, 1, sizeof **plan, plan));
    (*plan)->allocator = allocator;
    (*plan)->n_threads = n_threads;
    return QN_OK;
}

qn_status qn_baseline_unplanned(const qn_allocator *allocator, const qn_graph *graph,
                                qn_unplanned *unplanned) {
    const size_t n_nodes = (size_t)graph->n_nodes, n_values = (size_t)graph->n_values;
    counting u = {.graph = graph};
    qn_plan *order;
    QN_TRY(create_empty(allocator, 1, &order));
    const qn_status status = find_unplanned(&u, order, unplanned);
    qn_release(allocator, u.is_run, n_nodes, sizeof *u.is_run);
    qn_release(allocator, u.last, n_values, sizeof *u.last);
    qn_release(allocator, u.freed, n_nodes, sizeof *u.freed);
    qn_plan_destroy(order);
    return status;
}

/* ---- late updates ---- */

static int by_node(const void *left, const void *right) {
    const qn_step *a = left, *b = right;
    return (a->node > b->node) - (a->node < b->node);
}

static qn_status fill_late(qn_plan *plan, const qn_graph *graph, const qn_machine *machine) {
    QN_TRY(qn_plan_order(plan, graph));
    if (plan->n_steps > 0)
        qsort(plan->steps, (size_t)plan->n_steps, sizeof *plan->steps, by_node);
    QN_TRY(qn_plan_lifetimes(plan, graph, machine));
    return qn_plan_pack(plan);
}

qn_status qn_baseline_plan_late(const qn_allocator *allocator, const qn_graph *graph,
                                const qn_machine *machine, qn_plan **plan) {
    qn_plan *fresh;
    QN_TRY(create_empty(allocator, machine->n_threads, &fresh));
    const qn_status status = fill_late(fresh, graph, machine);
    if (status != QN_OK) {
        qn_plan_destroy(fresh);
        return status;
    }
    *plan = fresh;
    return QN_OK;
}

/* ---- the peak ---- */

static size_t alive_at(const qn_plan *plan, int32_t step) {
    size_t bytes = 0;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        bytes +=
            !s->is_bound && s->space == 0 && s->first <= step && step <= s->last ? s->bytes : 0;
    }
    return bytes;
}

int32_t qn_plan_peak_step(const qn_plan *plan, size_t *bytes) {
    int32_t peak = 0;
    *bytes = 0;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const size_t alive = alive_at(plan, s);
        if (alive > *bytes) {
            *bytes = alive;
            peak = s;
        }
    }
    return peak;
}
