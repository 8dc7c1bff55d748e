/* Dropout: zero with probability rate, else x / (1 - rate). The mask is a function of seed, step,
 * key and element, so nothing is stored for the gradient, which is dropout with the same key. */
#include "base/status.h"
#include "ops/elementwise.h"
#include "ops/shared.h"

static const qn_attribute dropout_fields[] = {
    QN_FIELD(qn_dropout_attributes, QN_ATTRIBUTE_DOUBLE, rate),
    QN_FIELD(qn_dropout_attributes, QN_ATTRIBUTE_INT64, key),
    QN_FIELD(qn_dropout_attributes, QN_ATTRIBUTE_INT64, first),
    {0},
};

static qn_cost dropout_cost(const void *attributes, const qn_tensor *inputs,
                            const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(1, outputs);
}

uint64_t qn_dropout_key(const qn_node *node) {
    const qn_dropout_attributes *a = node->attributes;
    return a->key ? (uint64_t)a->key : node->key;
}

static void dropout_split(const qn_graph *graph, const qn_node *node, int64_t piece, int64_t pieces,
                          void *attributes) {
    qn_dropout_attributes *a = attributes;
    a->key = (int64_t)qn_dropout_key(node);
    a->first = piece * (qn_shape_count(qn_graph_shape(graph, node->outputs[0])) / pieces);
}

static void dropout_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_dropout_attributes *a = gradient->node->attributes;
    const qn_dropout_attributes attributes = {a->rate, (int64_t)qn_dropout_key(gradient->node),
                                              a->first};
    gradient->inputs[0] = qn_gradient_add(graph, gradient->node, "backward", &qn_op_dropout,
                                          gradient->outputs, 1, &attributes);
}

static qn_value dropout_sample(qn_graph *graph, int variant) {
    (void)variant;
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(7, 11), 1);
    return qn_dropout(graph, "y", x, 0.3);
}

const qn_op qn_op_dropout = {
    .name = "dropout",
    .attributes_bytes = sizeof(qn_dropout_attributes),
    .attributes = dropout_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = qn_infer_elementwise,
    .gradient = dropout_gradient,
    .cost = dropout_cost,
    .in_place = 1 << 0,
    .split = dropout_split,
    .n_samples = 1,
    .sample = dropout_sample,
};

qn_value qn_dropout(qn_graph *graph, const char *name, qn_value x, double rate) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    const qn_dropout_attributes attributes = {.rate = rate};
    if (!(rate >= 0 && rate < 1)) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "%s (dropout): rate %g is not in [0, 1)",
                      name ? name : "unnamed", rate);
        return QN_NO_VALUE;
    }
    if (!graph->training || graph->no_dropout || rate == 0)
        return x;
    return qn_graph_add1(graph, &qn_op_dropout, name, &x, 1, &attributes);
}
