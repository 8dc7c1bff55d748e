/* y = max(x, 0). */
#include "ops/shared.h"

static qn_value relu_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(3, 5, 3, 7) : QN_SHAPE(11, 7);
    return qn_relu(graph, "y", qn_sample_parameter(graph, "x", shape, 2));
}

const qn_op qn_op_relu = {
    .name = "relu",
    .attributes_bytes = sizeof(qn_activation_attributes),
    .attributes = qn_activation_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .is_activation = true,
    .any_type_inputs = 1 << 0,
    .halves = 1 << 0,
    .infer = qn_infer_activation,
    .gradient = qn_activation_gradient,
    .cost = qn_activation_cost,
    .in_place = 1 << 0,
    .strided_inputs = 1 << 0,
    .strided_outputs = 1 << 0,
    .scaled_by = qn_scaled_by_first,
    .n_samples = 2,
    .sample = relu_sample,
};

qn_value qn_relu(qn_graph *graph, const char *name, qn_value x) {
    const qn_activation_attributes attributes = {{QN_ACTIVATION_RELU, 0}};
    return qn_graph_add1(graph, &qn_op_relu, name, &x, 1, &attributes);
}
