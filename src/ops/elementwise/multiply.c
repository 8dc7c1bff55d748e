/* y = a * b, element by element, for two values of one shape. */
#include "ops/shared.h"

static qn_cost multiply_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(1, outputs);
}

static void multiply_gradient(qn_graph *graph, const qn_gradient *gradient) {
    static const char *const names[] = {"backward_a", "backward_b"};
    const qn_node *node = gradient->node;
    for (int i = 0; i < 2; i++) {
        const qn_value inputs[] = {gradient->outputs[0], node->inputs[1 - i]};
        if (gradient->wanted[i])
            gradient->inputs[i] =
                qn_gradient_add(graph, node, names[i], &qn_op_multiply, inputs, 2, NULL);
    }
}

/* The second is a square: both gradients flow to one value. */
static qn_value multiply_sample(qn_graph *graph, int variant) {
    qn_value a = qn_sample_parameter(graph, "a", QN_SHAPE(5, 7), 1), b = a;
    if (variant == 0)
        b = qn_sample_parameter(graph, "b", QN_SHAPE(5, 7), 1);
    return qn_multiply(graph, "y", a, b);
}

const qn_op qn_op_multiply = {
    .name = "multiply",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = qn_infer_elementwise,
    .gradient = multiply_gradient,
    .cost = multiply_cost,
    .in_place = 1 << 0 | 1 << 1,
    .n_samples = 2,
    .sample = multiply_sample,
};

qn_value qn_multiply(qn_graph *graph, const char *name, qn_value a, qn_value b) {
    return qn_graph_add1(graph, &qn_op_multiply, name, (qn_value[]){a, b}, 2, NULL);
}
