/* What all activations share: y = f(x) elementwise, and dx from y and dy alone, so that x need not
 * be kept. */
#include "ops/shared.h"

qn_cost qn_activation_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(1, outputs);
}

void qn_activation_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_activation_backward,
                        (qn_value[]){node->outputs[0], gradient->outputs[0]}, 2, node->attributes);
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(2, outputs);
}

/* y counts by its sign. */
static int backward_scaled_by(const void *attributes) {
    const qn_activation_attributes *a = attributes;
    return a->activation.kind == QN_ACTIVATION_RELU ? 1 : -1;
}

const qn_op qn_op_activation_backward = {
    .name = "activation_backward",
    .attributes_bytes = sizeof(qn_activation_attributes),
    .attributes = qn_activation_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 3,
    .halves = 1 << 0 | 1 << 1,
    .infer = qn_infer_activation,
    .cost = backward_cost,
    .in_place = 1 << 0 | 1 << 1,
    .strided_inputs = 1 << 0 | 1 << 1,
    .strided_outputs = 1 << 0,
    .scaled_by = backward_scaled_by,
};
