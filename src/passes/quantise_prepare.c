/* What numerics change of a network before its gradients are added, and behind its updates (see
 * quantise.h): maps that compensate for what rounding loses (Zhou et al. 2021, "Octo", section
 * 3.2), and what an optimiser's numbers are rounded to. */
#include "passes/quantise.h"

#include "base/status.h"
#include "passes/copy.h"

#include <stdio.h>
#include <string.h>

enum { NAME_BYTES = 512 };

static qn_value add_parameter(qn_graph *graph, const qn_node *node, const char *word,
                              qn_shape shape, qn_initial initial) {
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.400s%s%s", node->name, QN_COMPENSATION, word);
    const qn_value found = qn_graph_find(graph, name);
    return found.id >= 0 ? qn_graph_latest(graph, found)
                         : qn_parameter(graph, name, shape, initial, true);
}

/* y + alpha * mu + offset, learned: one number for each element of a sample. */
static qn_value compensate(qn_graph *graph, const qn_node *node, qn_value y, double deviation) {
    const qn_shape all = qn_graph_shape(graph, y);
    const qn_shape map = qn_shape_make(all.rank - 1, all.dims + 1);
    const qn_initial small = {QN_INITIAL_NORMAL, deviation};
    char names[3][NAME_BYTES];
    static const char *const words[] = {"product", "sum", "added"};
    for (int i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], "%.400s%s%s", node->name, QN_COMPENSATION, words[i]);
    const qn_value alpha =
        add_parameter(graph, node, "alpha", QN_SHAPE(1), (qn_initial){QN_INITIAL_ONE, 0});
    const qn_value mu = add_parameter(graph, node, "mu", map, small);
    const qn_value offset = add_parameter(graph, node, "offset", map, small);
    const qn_value product = qn_op_combine(graph, names[0], QN_COMBINE_MULTIPLY, mu, alpha);
    const qn_value sum = qn_op_combine(graph, names[1], QN_COMBINE_ADD, product, offset);
    return qn_op_combine(graph, names[2], QN_COMBINE_ADD, y, sum);
}

static void copy_graph(const qn_graph *from, int first_node, double deviation, qn_graph *to,
                       qn_value *values) {
    for (int v = 0; v < from->n_values && to->status == QN_OK; v++) {
        const qn_value_info *info = from->values[v];
        if (info->producer < 0) {
            values[v] = qn_copy_source(to, info);
            continue;
        }
        if (info->output > 0)
            continue;
        const qn_node *node = from->nodes[info->producer];
        qn_copy_node(to, from, node, node->name, node->attributes, values);
        const bool is_convolution = node->op->is_linear && info->tensor.shape.rank == 4;
        if (to->status == QN_OK && is_convolution && info->producer >= first_node)
            values[v] = compensate(to, node, values[v], deviation);
        if (info->is_result && to->status == QN_OK)
            to->values[values[v].id]->is_result = true;
    }
}

static qn_status add_compensation(const qn_graph *from, int first_node, double deviation,
                                  qn_graph **prepared, const qn_value **values) {
    qn_graph *to;
    QN_TRY(qn_copy_begin(from, &to));
    qn_value *made = qn_arena_allocate(&to->arena, (size_t)from->n_values + 1, sizeof *made);
    qn_status status = made ? QN_OK : QN_ERROR_MEMORY;
    if (status == QN_OK) {
        copy_graph(from, first_node, deviation, to, made);
        qn_copy_results(to, from, made);
        status = qn_graph_finish(to);
    }
    if (status != QN_OK) {
        qn_graph_destroy(to);
        return status;
    }
    *prepared = to;
    *values = made;
    return QN_OK;
}

qn_sparse qn_quantise_sparse(const qn_numerics *numerics) {
    return (qn_sparse){.is_used = numerics->trains_some,
                       .weights = numerics->trained_weights,
                       .biases = numerics->trained_biases,
                       .by = numerics->trained_channels,
                       .parts = numerics->trained_parts};
}

qn_status qn_quantise_prepare(qn_graph *graph, const qn_numerics *numerics, int first_node,
                              qn_graph **prepared, const qn_value **values) {
    *prepared = NULL;
    if (!(numerics->compensation_deviation > 0))
        return QN_OK;
    return add_compensation(graph, first_node, numerics->compensation_deviation, prepared, values);
}

bool qn_quantise_fuses(const qn_numerics *numerics) {
    for (int role = QN_ROLE_ACTIVATION; role <= QN_ROLE_ERROR; role++) {
        const qn_role_type *type = &numerics->roles[role];
        if (type->scaling != QN_SCALED_NONE || (type->dtype != QN_BF16 && type->dtype != QN_F16))
            return false;
    }
    return true;
}

/* ---- behind updates ---- */

static void settle(qn_graph *graph, const qn_settling *how, const qn_value_info *source,
                   qn_value made) {
    char name[NAME_BYTES];
    qn_value scale = QN_NO_VALUE, zero;
    const int rank = source->tensor.shape.rank;
    if (!how->is_used || (how->has_channels && rank < 2))
        return;
    if (how->has_channels) {
        const qn_scaling_rule rule = {.kind = QN_SCALE_SYMMETRIC, .axis = 0, .bits = 7};
        snprintf(name, sizeof name, "%.400s.settled.scale", source->name);
        scale = qn_op_scale_in(graph, name, made, &rule, &zero);
    }
    snprintf(name, sizeof name, "%.400s.settled", source->name);
    qn_op_settle(graph, name, made, scale, &how->format);
}

void qn_quantise_updates(qn_graph *graph, const qn_numerics *numerics, int first_node) {
    const int n_nodes = graph->n_nodes;
    for (int n = first_node; n < n_nodes && graph->status == QN_OK; n++) {
        const qn_node *node = graph->nodes[n];
        for (int i = 0; i < node->n_outputs; i++) {
            int v = graph->values[node->outputs[i].id]->overwrites;
            while (v >= 0 && graph->values[v]->producer >= 0)
                v = graph->values[v]->overwrites;
            if (v < 0)
                continue;
            const qn_value_info *source = graph->values[v];
            const bool is_state = source->kind == QN_KIND_STATE;
            if (!source->is_part && (is_state || source->trainable))
                settle(graph, is_state ? &numerics->state_settles : &numerics->weight_settles,
                       source, node->outputs[i]);
        }
    }
}
