/* y = x * Phi(x) (Hendrycks and Gimpel 2016, section 2). Its derivative is not a function of y, so
 * x is kept. */
#include "ops/shared.h"

static qn_cost gelu_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(4, outputs);
}

static void gelu_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_gelu_backward,
                        (qn_value[]){node->inputs[0], gradient->outputs[0]}, 2, NULL);
}

static qn_value gelu_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(3, 5, 7) : QN_SHAPE(37);
    return qn_gelu(graph, "y", qn_sample_parameter(graph, "x", shape, 4));
}

const qn_op qn_op_gelu = {
    .name = "gelu",
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = qn_infer_elementwise,
    .gradient = gelu_gradient,
    .cost = gelu_cost,
    .in_place = 1 << 0,
    .n_samples = 2,
    .sample = gelu_sample,
};

qn_value qn_gelu(qn_graph *graph, const char *name, qn_value x) {
    return qn_graph_add1(graph, &qn_op_gelu, name, &x, 1, NULL);
}

/* ---- gradient: dx from x and dy ---- */

const qn_op qn_op_gelu_backward = {
    .name = "gelu_backward",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = qn_infer_elementwise,
    .cost = gelu_cost,
    .in_place = 1 << 0 | 1 << 1,
};
