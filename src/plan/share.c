/* Which values are stored inside others: reshapes, slices of columns, and parts computed in place
 * in a wider value. Slices and parts are stored so only if every operator that writes or reads them
 * supports strided rows; otherwise they are copied. Left out: results, which are read from outside
 * as dense memory, and values that are given from outside or updated, whose content changes at
 * other times. */
#include "base/status.h"
#include "plan/plan.h"

static bool in_mask(uint32_t mask, int i) {
    return mask >> (i < 31 ? i : 31) & 1;
}

static bool joins(const qn_graph *graph, const qn_node *node) {
    return node->op->joins_columns &&
           node->op->joins_columns(node->attributes, qn_graph_tensor(graph, node->inputs[0]).shape);
}

static int64_t sliced_column_of(const qn_graph *graph, const qn_node *node) {
    return node->op->sliced_column
               ? node->op->sliced_column(node->attributes,
                                         qn_graph_tensor(graph, node->inputs[0]).shape)
               : -1;
}

static bool deals_with_columns(const qn_graph *graph, const qn_node *node) {
    if (node->op->joins_columns)
        return joins(graph, node);
    return !node->op->sliced_column || sliced_column_of(graph, node) >= 0;
}

bool qn_plan_reads_strided(const qn_graph *graph, const qn_node *node, int input) {
    return in_mask(node->op->strided_inputs, input) && deals_with_columns(graph, node);
}

bool qn_plan_writes_strided(const qn_graph *graph, const qn_node *node, int output) {
    return in_mask(node->op->strided_outputs, output) && deals_with_columns(graph, node);
}

qn_columns qn_plan_columns(const qn_graph *graph, const qn_node *node, int input) {
    int64_t column = sliced_column_of(graph, node);
    if (column >= 0)
        return (qn_columns){.inner = node->outputs[0].id, .outer = node->inputs[0].id, column};
    if (!joins(graph, node))
        return (qn_columns){-1, -1, 0};
    column = 0;
    for (int i = 0; i < input; i++) {
        const qn_shape shape = qn_graph_tensor(graph, node->inputs[i]).shape;
        column += shape.dims[shape.rank - 1];
    }
    return (qn_columns){.inner = node->inputs[input].id, .outer = node->outputs[0].id, column};
}

static bool is_own(const qn_value_info *info) {
    return info->producer >= 0 && info->overwrites < 0 && !info->is_overwritten;
}

/* Whether all that write or read a value can deal with rows that lie apart. */
static void find_strided(const qn_graph *graph, bool *may_be_strided) {
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        may_be_strided[v] =
            is_own(info) && !info->is_result &&
            qn_plan_writes_strided(graph, graph->nodes[info->producer], info->output);
    }
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0 && !qn_plan_reads_strided(graph, node, i))
                may_be_strided[node->inputs[i].id] = false;
        }
    }
}

static int32_t find_owner(const qn_berth *berths, int32_t value) {
    while (berths[value].outer >= 0)
        value = berths[value].outer;
    return value;
}

/* An inner value of a node lies in the outer one if nothing forbids it. Slices come before parts:
 * so there are no circles, for a slice lies in a value before it, and a part in one behind it, and
 * no value is both a slice and a whole. */
static void share(const qn_graph *graph, const bool *may_be_strided, qn_columns c,
                  qn_berth *berths) {
    if (c.inner >= 0 && may_be_strided[c.inner] && berths[c.inner].outer < 0 &&
        is_own(graph->values[find_owner(berths, c.outer)]))
        berths[c.inner] = (qn_berth){c.outer, c.column};
}

qn_status qn_plan_share(const qn_plan *plan, const qn_graph *graph, qn_berth *berths) {
    const size_t n_values = (size_t)graph->n_values;
    bool *may_be_strided = NULL;
    QN_TRY(qn_allocate(plan->allocator, n_values, sizeof *may_be_strided, &may_be_strided));
    find_strided(graph, may_be_strided);
    for (int v = 0; v < graph->n_values; v++) {
        const int32_t producer = graph->values[v]->producer;
        berths[v] = (qn_berth){-1, 0};
        if (producer >= 0 && graph->nodes[producer]->op->is_view)
            berths[v].outer = graph->nodes[producer]->inputs[0].id;
    }
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const qn_node *node = graph->nodes[plan->steps[s].node];
        if (node->op->sliced_column)
            share(graph, may_be_strided, qn_plan_columns(graph, node, 0), berths);
    }
    for (int32_t s = 0; s < plan->n_steps; s++) {
        const qn_node *node = graph->nodes[plan->steps[s].node];
        for (int i = 0; node->op->joins_columns && i < node->n_inputs; i++)
            share(graph, may_be_strided, qn_plan_columns(graph, node, i), berths);
    }
    qn_release(plan->allocator, may_be_strided, n_values, sizeof *may_be_strided);
    return QN_OK;
}
