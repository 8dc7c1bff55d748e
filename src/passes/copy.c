/* See copy.h. */
#include "passes/copy.h"

#include "base/status.h"

qn_status qn_copy_begin(const qn_graph *from, qn_graph **to) {
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options),
                                      .allocator = from->allocator, .real = from->real,
                                      .training = from->training, .no_dropout = from->no_dropout};
    return qn_graph_create(&options, to);
}

qn_value qn_copy_source(qn_graph *to, const qn_value_info *info) {
    const qn_value value = qn_graph_add_source(to, info->kind, info->name, info->tensor,
                                               info->initial, info->trainable);
    qn_graph_give(to, value, info->given);
    qn_graph_lend(to, value, info->lent);
    if (value.id >= 0) {
        to->values[value.id]->is_result = info->is_result;
        to->values[value.id]->is_head = info->is_head;
        to->values[value.id]->part = info->part;
        to->values[value.id]->is_part = info->is_part;
        to->values[value.id]->wants_gradient = info->wants_gradient;
    }
    return value;
}

const qn_node *qn_copy_node(qn_graph *to, const qn_graph *from, const qn_node *node,
                            const char *name, const void *attributes, qn_value *values) {
    qn_value few[16], *inputs = few;
    if (node->n_inputs > 16)
        inputs = qn_arena_allocate(&to->arena, (size_t)node->n_inputs, sizeof *inputs);
    if (!inputs) {
        qn_graph_fail(to, QN_ERROR_MEMORY, "copy: %s", qn_error_message());
        return NULL;
    }
    for (int i = 0; i < node->n_inputs; i++)
        inputs[i] = node->inputs[i].id < 0 ? QN_NO_VALUE : values[node->inputs[i].id];
    const qn_node *copy = qn_graph_add(to, node->op, name, inputs, node->n_inputs, attributes);
    for (int i = 0; copy && i < node->n_outputs; i++) {
        values[node->outputs[i].id] = copy->outputs[i];
        to->values[copy->outputs[i].id]->kind = from->values[node->outputs[i].id]->kind;
    }
    return copy;
}

void qn_copy_results(qn_graph *to, const qn_graph *from, const qn_value *values) {
    for (int i = 0; i < from->n_results; i++)
        to->results[i] = values[from->results[i].id];
    to->n_results = from->n_results;
}
