/* Softmax over the last axis. */
#include "ops/shared.h"

static qn_cost softmax_cost(const void *attributes, const qn_tensor *inputs,
                            const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(4, outputs);
}

static void softmax_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_softmax_backward,
                        (qn_value[]){node->outputs[0], gradient->outputs[0]}, 2, NULL);
}

static qn_value softmax_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(3, 2, 7) : QN_SHAPE(7, 11);
    return qn_softmax(graph, "y", qn_sample_parameter(graph, "x", shape, 3));
}

const qn_op qn_op_softmax = {
    .name = "softmax",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = qn_infer_elementwise,
    .gradient = softmax_gradient,
    .cost = softmax_cost,
    .n_samples = 2,
    .sample = softmax_sample,
};

qn_value qn_softmax(qn_graph *graph, const char *name, qn_value x) {
    return qn_graph_add1(graph, &qn_op_softmax, name, &x, 1, NULL);
}

const qn_op qn_op_softmax_backward = {
    .name = "softmax_backward",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = qn_infer_elementwise,
    .cost = softmax_cost,
};
