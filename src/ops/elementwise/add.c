/* y = activation(a + b) for two values of one shape. */
#include "ops/shared.h"

static qn_cost add_cost(const void *attributes, const qn_tensor *inputs, const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(1, outputs);
}

static void add_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_activation_attributes *a = node->attributes;
    gradient->inputs[0] = gradient->inputs[1] =
        qn_gradient_activation(graph, node, a->activation, node->outputs[0], gradient->outputs[0]);
}

/* The third adds a value to itself: both readers are one node. */
static qn_value add_sample(qn_graph *graph, int variant) {
    static const qn_activation_kind activations[] = {QN_ACTIVATION_NONE, QN_ACTIVATION_TANH,
                                                     QN_ACTIVATION_NONE};
    const qn_activation_attributes attributes = {{activations[variant], 0}};
    qn_value a = qn_sample_parameter(graph, "a", QN_SHAPE(3, 5, 7), 1), b = a;
    if (variant < 2)
        b = qn_sample_parameter(graph, "b", QN_SHAPE(3, 5, 7), 1);
    return qn_graph_add1(graph, &qn_op_add, "y", (qn_value[]){a, b}, 2, &attributes);
}

const qn_op qn_op_add = {
    .name = "add",
    .attributes_bytes = sizeof(qn_activation_attributes),
    .attributes = qn_activation_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .halves = 1 << 0 | 1 << 1,
    .is_sum = qn_is_always,
    .infer = qn_infer_elementwise,
    .gradient = add_gradient,
    .cost = add_cost,
    .in_place = 1 << 0 | 1 << 1,
    .strided_inputs = 1 << 0 | 1 << 1,
    .strided_outputs = 1 << 0,
    .n_samples = 3,
    .sample = add_sample,
};

qn_value qn_add(qn_graph *graph, const char *name, qn_value a, qn_value b) {
    const qn_activation_attributes attributes = {0};
    return qn_graph_add1(graph, &qn_op_add, name, (qn_value[]){a, b}, 2, &attributes);
}
