/* The order of steps. Unneeded nodes are removed and the graph's order is kept, except that an
 * update moves up to just after the last node on which its inputs or the readers of the overwritten
 * value depend. */
#include "base/status.h"
#include "plan/plan.h"

typedef struct order {
    const qn_graph *graph;
    bool *is_needed; /* (n_nodes) */
    int64_t *rank;   /* (n_nodes): 2 * turn, odd for updates */
    int32_t *reader; /* (n_values): last needed node that reads it without overwriting it, or -1 */
    int32_t *counts; /* (2 * n_nodes + 2): nodes of lower rank */
} order;

static bool is_update(const qn_graph *graph, const qn_node *node) {
    for (int i = 0; i < node->n_outputs; i++) {
        if (qn_graph_value(graph, node->outputs[i])->overwrites >= 0)
            return true;
    }
    return false;
}

static bool has_result(const qn_graph *graph, const qn_node *node, const bool *is_read) {
    for (int i = 0; i < node->n_outputs; i++) {
        const qn_value_info *info = qn_graph_value(graph, node->outputs[i]);
        if (info->is_result || info->overwrites >= 0 || is_read[node->outputs[i].id])
            return true;
    }
    return false;
}

static void find_needed(order *o, bool *is_read) {
    for (int n = o->graph->n_nodes - 1; n >= 0; n--) {
        const qn_node *node = o->graph->nodes[n];
        o->is_needed[n] = has_result(o->graph, node, is_read);
        if (!o->is_needed[n])
            continue;
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                is_read[node->inputs[i].id] = true;
        }
    }
}

static bool overwrites(const qn_graph *graph, const qn_node *node, int32_t value) {
    for (int i = 0; i < node->n_outputs; i++) {
        if (qn_graph_value(graph, node->outputs[i])->overwrites == value)
            return true;
    }
    return false;
}

static void find_readers(order *o) {
    for (int v = 0; v < o->graph->n_values; v++)
        o->reader[v] = -1;
    for (int n = 0; n < o->graph->n_nodes; n++) {
        const qn_node *node = o->graph->nodes[n];
        for (int i = 0; o->is_needed[n] && i < node->n_inputs; i++) {
            int32_t v = node->inputs[i].id;
            if (v >= 0 && !overwrites(o->graph, node, v))
                o->reader[v] = n;
        }
    }
    /* Who reads a view reads what it is a view of. */
    for (int n = o->graph->n_nodes - 1; n >= 0; n--) {
        const qn_node *node = o->graph->nodes[n];
        int32_t last = node->op->is_view ? o->reader[node->outputs[0].id] : -1;
        if (last > -1 && o->reader[node->inputs[0].id] < last)
            o->reader[node->inputs[0].id] = last;
    }
}

static int64_t later(int64_t a, int64_t b) {
    return a > b ? a : b;
}

static int64_t update_rank(const order *o, const qn_node *node) {
    int64_t rank = 1;
    for (int i = 0; i < node->n_inputs; i++) {
        const qn_value_info *info = qn_graph_value(o->graph, node->inputs[i]);
        if (info && info->producer >= 0)
            rank = later(rank, o->rank[info->producer] | 1);
    }
    for (int i = 0; i < node->n_outputs; i++) {
        int32_t old = qn_graph_value(o->graph, node->outputs[i])->overwrites;
        if (old >= 0 && o->reader[old] >= 0)
            rank = later(rank, 2 * (int64_t)o->reader[old] + 1);
    }
    return rank;
}

static qn_step make_step(const qn_plan *plan, int32_t node) {
    return (qn_step){.node = node, .n_threads = (int16_t)plan->n_threads, .workspace = -1};
}

static void fill_steps(order *o, qn_plan *plan) {
    const int n_nodes = o->graph->n_nodes;
    for (int n = 0; n < n_nodes; n++) {
        const qn_node *node = o->graph->nodes[n];
        o->rank[n] = is_update(o->graph, node) ? update_rank(o, node) : 2 * (int64_t)n;
        if (o->is_needed[n] && !node->op->is_view)
            o->counts[o->rank[n] + 1]++;
    }
    for (int r = 0; r < 2 * n_nodes + 1; r++)
        o->counts[r + 1] += o->counts[r];
    plan->n_steps = o->counts[2 * n_nodes + 1];
    for (int n = 0; n < n_nodes; n++) {
        if (!o->is_needed[n] || o->graph->nodes[n]->op->is_view)
            continue;
        plan->steps[o->counts[o->rank[n]]++] = make_step(plan, n);
    }
}

qn_status qn_plan_order(qn_plan *plan, const qn_graph *graph) {
    const qn_allocator *a = plan->allocator;
    const size_t n_nodes = (size_t)graph->n_nodes, n_values = (size_t)graph->n_values;
    order o = {.graph = graph};
    bool *is_read = NULL;
    qn_status status = qn_allocate(a, n_nodes, sizeof *o.is_needed, &o.is_needed);
    if (status == QN_OK)
        status = qn_allocate(a, n_nodes, sizeof *o.rank, &o.rank);
    if (status == QN_OK)
        status = qn_allocate(a, n_values, sizeof *o.reader, &o.reader);
    if (status == QN_OK)
        status = qn_allocate(a, 2 * n_nodes + 2, sizeof *o.counts, &o.counts);
    if (status == QN_OK)
        status = qn_allocate(a, n_values, sizeof *is_read, &is_read);
    if (status == QN_OK)
        status = qn_grow(a, &plan->steps, &plan->step_capacity, n_nodes, sizeof *plan->steps);
    if (status == QN_OK) {
        find_needed(&o, is_read);
        find_readers(&o);
        fill_steps(&o, plan);
    }
    qn_release(a, o.is_needed, n_nodes, sizeof *o.is_needed);
    qn_release(a, o.rank, n_nodes, sizeof *o.rank);
    qn_release(a, o.reader, n_values, sizeof *o.reader);
    qn_release(a, o.counts, 2 * n_nodes + 2, sizeof *o.counts);
    qn_release(a, is_read, n_values, sizeof *is_read);
    return status;
}

qn_status qn_plan_keep_order(qn_plan *plan, const qn_graph *graph) {
    QN_TRY(qn_grow(plan->allocator, &plan->steps, &plan->step_capacity, (size_t)graph->n_nodes,
                   sizeof *plan->steps));
    for (int n = 0; n < graph->n_nodes; n++) {
        if (!graph->nodes[n]->op->is_view && !graph->nodes[n]->op->is_wait)
            plan->steps[plan->n_steps++] = make_step(plan, n);
    }
    return QN_OK;
}

qn_status qn_plan_take_order(qn_plan *plan, const int32_t *nodes, int32_t n) {
    QN_TRY(qn_grow(plan->allocator, &plan->steps, &plan->step_capacity, (size_t)n + 1,
                   sizeof *plan->steps));
    for (int32_t i = 0; i < n; i++)
        plan->steps[plan->n_steps++] = make_step(plan, nodes[i]);
    return QN_OK;
}
