/* Reverse accumulation. Nodes are visited from the loss backwards. The gradients that the readers
 * of a value contribute are added in that order, each as soon as it exists, so that none is kept
 * longer than needed. Only values on a path from a wanted value to the loss get a gradient. */
#include "passes/passes.h"

#include "base/status.h"
#include "ops/ops.h"

#include <stdio.h>
#include <string.h>

/* Arrays over the values and nodes that were there before. */
typedef struct autodiff {
    qn_graph *graph;
    int n_values, n_nodes;
    bool *leads;         /* whether the value depends on a wanted one */
    qn_value *gradients; /* of each value; so far its sum */
    bool *wanted;        /* of the inputs of the node at hand */
    qn_value *results;   /* of the inputs of the node at hand */
} autodiff;

static bool allocate(autodiff *a) {
    qn_arena *arena = &a->graph->arena;
    size_t widest = 1;
    for (int n = 0; n < a->n_nodes; n++) {
        const size_t width = (size_t)a->graph->nodes[n]->n_inputs;
        widest = width > widest ? width : widest;
    }
    a->leads = qn_arena_allocate(arena, (size_t)a->n_values, sizeof *a->leads);
    a->gradients = qn_arena_allocate(arena, (size_t)a->n_values, sizeof *a->gradients);
    a->wanted = qn_arena_allocate(arena, widest, sizeof *a->wanted);
    a->results = qn_arena_allocate(arena, widest, sizeof *a->results);
    if (!a->leads || !a->gradients || !a->wanted || !a->results) {
        qn_graph_fail(a->graph, QN_ERROR_MEMORY, "autodiff: %s", qn_error_message());
        return false;
    }
    for (int v = 0; v < a->n_values; v++)
        a->gradients[v] = QN_NO_VALUE;
    return true;
}

/* From the wanted values forwards: what depends on them. Updates are left out: what they write is
 * the next step's; so is what stops gradients. */
static void find_leads(autodiff *a, const qn_value *wanted, int n) {
    for (int i = 0; i < n; i++) {
        if (wanted[i].id >= 0 && wanted[i].id < a->n_values)
            a->leads[wanted[i].id] = true;
    }
    for (int i = 0; i < a->n_nodes; i++) {
        const qn_node *node = a->graph->nodes[i];
        bool leads = false;
        for (int j = 0; j < node->n_inputs && !node->op->stops_gradient; j++)
            leads |= node->inputs[j].id >= 0 && a->leads[node->inputs[j].id];
        for (int j = 0; j < node->n_outputs; j++) {
            const qn_value_info *info = qn_graph_value(a->graph, node->outputs[j]);
            a->leads[node->outputs[j].id] |=
                leads && info->overwrites < 0 && qn_dtype_is_float(info->tensor.dtype);
        }
    }
}

/* The sum of two gradients of a type that nothing is computed in: rounded once. */
static qn_value add_narrow(qn_graph *graph, const char *name, qn_value x, qn_value y) {
    const qn_dtype dtype = qn_graph_tensor(graph, x).dtype;
    const qn_value wide = qn_op_cast(graph, NULL, x, QN_F32);
    const qn_value sum = qn_add(graph, NULL, wide, qn_op_cast(graph, NULL, y, QN_F32));
    return qn_op_cast(graph, name, sum, dtype);
}

static void add_gradient(autodiff *a, qn_value value, qn_value gradient) {
    qn_value *sum = &a->gradients[value.id];
    if (gradient.id < 0)
        return;
    if (sum->id < 0) {
        *sum = gradient;
        return;
    }
    char name[1024];
    snprintf(name, sizeof name, "%s.gradient", a->graph->values[value.id]->name);
    const char *unique = qn_graph_unique(a->graph, name, false);
    *sum = qn_dtype_is_real(qn_graph_tensor(a->graph, gradient).dtype)
               ? qn_add(a->graph, unique, *sum, gradient)
               : add_narrow(a->graph, unique, *sum, gradient);
}

static void visit(autodiff *a, const qn_node *node) {
    qn_value outputs[QN_MAX_OUTPUTS];
    bool has_gradient = false, is_wanted = false;
    for (int i = 0; i < node->n_outputs; i++) {
        outputs[i] = a->gradients[node->outputs[i].id];
        has_gradient |= outputs[i].id >= 0;
    }
    for (int i = 0; i < node->n_inputs; i++) {
        a->wanted[i] = node->inputs[i].id >= 0 && a->leads[node->inputs[i].id];
        a->results[i] = QN_NO_VALUE;
        is_wanted |= a->wanted[i];
    }
    if (!has_gradient || !is_wanted)
        return;
    if (!node->op->gradient) {
        qn_graph_fail(a->graph, QN_ERROR_UNSUPPORTED,
                      "%s: no gradient flows through the operator %s", node->name, node->op->name);
        return;
    }
    node->op->gradient(
        a->graph, &(qn_gradient){
                      .node = node, .outputs = outputs, .wanted = a->wanted, .inputs = a->results});
    for (int i = 0; i < node->n_inputs && a->graph->status == QN_OK; i++) {
        if (a->wanted[i])
            add_gradient(a, node->inputs[i], a->results[i]);
    }
}

/* What was added belongs to the gradients in memory reports. */
static void mark_kinds(autodiff *a) {
    for (int v = a->n_values; v < a->graph->n_values; v++) {
        if (a->graph->values[v]->kind == QN_KIND_FEATURE)
            a->graph->values[v]->kind = QN_KIND_GRADIENT;
    }
}

static void check_loss(qn_graph *graph, qn_value loss) {
    char text[QN_SHAPE_TEXT];
    const qn_value_info *info = qn_graph_value(graph, loss);
    if (!info)
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "autodiff: the loss is not a value of the graph");
    else if (info->tensor.shape.rank != 0 || !qn_dtype_is_real(info->tensor.dtype))
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "autodiff: the loss %s is %s, not a real scalar",
                      info->name, qn_shape_print(info->tensor.shape, text));
    else if (graph->depth > 0)
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "autodiff: scope \"%s\" was not left",
                      graph->scope);
}

qn_status qn_autodiff_for(qn_graph *graph, qn_value loss, const qn_value *wanted, int n,
                          qn_value *gradients) {
    check_loss(graph, loss);
    QN_TRY(qn_graph_finish(graph));
    autodiff a = {.graph = graph, .n_values = graph->n_values, .n_nodes = graph->n_nodes};
    if (!allocate(&a))
        return qn_graph_finish(graph);
    find_leads(&a, wanted, n);
    if (a.leads[loss.id])
        a.gradients[loss.id] = qn_op_scalar_of(graph, qn_graph_unique(graph, "autodiff.one", false),
                                               1, qn_graph_tensor(graph, loss).dtype);
    for (int i = graph->values[loss.id]->producer; i >= 0 && graph->status == QN_OK; i--)
        visit(&a, graph->nodes[i]);
    mark_kinds(&a);
    QN_TRY(qn_graph_finish(graph));
    for (int i = 0; i < n; i++)
        gradients[i] = wanted[i].id >= 0 && wanted[i].id < a.n_values ? a.gradients[wanted[i].id]
                                                                      : QN_NO_VALUE;
    return QN_OK;
}

static bool is_wanted(const qn_value_info *info, const char *prefix) {
    if (info->producer >= 0)
        return false;
    return info->wants_gradient || (info->kind == QN_KIND_PARAMETER && info->trainable &&
                                    (!prefix || strncmp(info->name, prefix, strlen(prefix)) == 0));
}

qn_status qn_autodiff(qn_graph *graph, qn_value loss, const char *prefix,
                      const qn_value **parameters, const qn_value **gradients, int *n_parameters) {
    const size_t n_values = (size_t)graph->n_values;
    int n = 0;
    QN_TRY(qn_graph_finish(graph));
    qn_value *wanted = qn_arena_allocate(&graph->arena, n_values + 1, sizeof *wanted);
    qn_value *results = qn_arena_allocate(&graph->arena, n_values + 1, sizeof *results);
    if (!wanted || !results) {
        qn_graph_fail(graph, QN_ERROR_MEMORY, "autodiff: %s", qn_error_message());
        return qn_graph_finish(graph);
    }
    for (int v = 0; v < graph->n_values; v++) {
        if (is_wanted(graph->values[v], prefix))
            wanted[n++] = (qn_value){v};
    }
    QN_TRY(qn_autodiff_for(graph, loss, wanted, n, results));
    *parameters = wanted;
    *gradients = results;
    *n_parameters = n;
    return QN_OK;
}
