/* y = factor * x. */
#include "ops/elementwise.h"
#include "ops/shared.h"

static const qn_attribute scale_fields[] = {
    QN_FIELD(qn_scale_attributes, QN_ATTRIBUTE_DOUBLE, factor),
    {0},
};

static qn_cost scale_cost(const void *attributes, const qn_tensor *inputs,
                          const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(1, outputs);
}

static void scale_gradient(qn_graph *graph, const qn_gradient *gradient) {
    gradient->inputs[0] = qn_gradient_add(graph, gradient->node, "backward", &qn_op_scale,
                                          gradient->outputs, 1, gradient->node->attributes);
}

static qn_value scale_sample(qn_graph *graph, int variant) {
    (void)variant;
    return qn_scale(graph, "y", qn_sample_parameter(graph, "x", QN_SHAPE(3, 5, 7), 1), -0.375);
}

const qn_op qn_op_scale = {
    .name = "scale",
    .attributes_bytes = sizeof(qn_scale_attributes),
    .attributes = scale_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = qn_infer_elementwise,
    .gradient = scale_gradient,
    .cost = scale_cost,
    .in_place = 1 << 0,
    .n_samples = 1,
    .sample = scale_sample,
};

qn_value qn_scale(qn_graph *graph, const char *name, qn_value x, double factor) {
    const qn_scale_attributes attributes = {factor};
    return qn_graph_add1(graph, &qn_op_scale, name, &x, 1, &attributes);
}
