/* y = x > 0 ? x : slope * x, with slope > 0: the sign of y is that of x. */
#include "ops/shared.h"

static qn_value leaky_relu_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(3, 5, 3, 7) : QN_SHAPE(11, 7);
    return qn_leaky_relu(graph, "y", qn_sample_parameter(graph, "x", shape, 2), 0.1);
}

const qn_op qn_op_leaky_relu = {
    .name = "leaky_relu",
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
    .sample = leaky_relu_sample,
};

qn_value qn_leaky_relu(qn_graph *graph, const char *name, qn_value x, double slope) {
    if (!(slope > 0)) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "%s (leaky_relu): slope %g is not above 0",
                      name ? name : "unnamed", slope);
        return QN_NO_VALUE;
    }
    const qn_activation_attributes attributes = {{QN_ACTIVATION_LEAKY_RELU, slope}};
    return qn_graph_add1(graph, &qn_op_leaky_relu, name, &x, 1, &attributes);
}
