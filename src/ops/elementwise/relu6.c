/* y = min(max(x, 0), 6). */
#include "ops/shared.h"

static qn_value relu6_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(3, 5, 3, 7) : QN_SHAPE(11, 7);
    return qn_relu6(graph, "y", qn_sample_parameter(graph, "x", shape, 9));
}

const qn_op qn_op_relu6 = {
    .name = "relu6",
    .attributes_bytes = sizeof(qn_activation_attributes),
    .attributes = qn_activation_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .halves = 1 << 0,
    .is_activation = true,
    .infer = qn_infer_elementwise,
    .gradient = qn_activation_gradient,
    .cost = qn_activation_cost,
    .in_place = 1 << 0,
    .strided_inputs = 1 << 0,
    .strided_outputs = 1 << 0,
    .n_samples = 2,
    .sample = relu6_sample,
};

qn_value qn_relu6(qn_graph *graph, const char *name, qn_value x) {
    const qn_activation_attributes attributes = {{QN_ACTIVATION_RELU6, 0}};
    return qn_graph_add1(graph, &qn_op_relu6, name, &x, 1, &attributes);
}
