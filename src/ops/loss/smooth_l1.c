/* Smooth L1, or Huber's loss with delta 1, of each element of x - target (Girshick 2015, equation
 * 3). */
#include "ops/shared.h"

static qn_cost l1_cost(const void *attributes, const qn_tensor *inputs, const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(4, outputs);
}

/* The loss is symmetric: the target's gradient is x's with the two exchanged. */
static void l1_gradient(qn_graph *graph, const qn_gradient *gradient) {
    static const char *const names[] = {"backward", "backward_target"};
    const qn_node *node = gradient->node;
    for (int i = 0; i < 2; i++) {
        const qn_value inputs[] = {node->inputs[i], node->inputs[1 - i], gradient->outputs[0]};
        if (gradient->wanted[i])
            gradient->inputs[i] =
                qn_gradient_add(graph, node, names[i], &qn_op_smooth_l1_backward, inputs, 3, NULL);
    }
}

static qn_value l1_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(13) : QN_SHAPE(3, 5, 7);
    qn_value x = qn_sample_parameter(graph, "x", shape, 2);
    return qn_smooth_l1(graph, "y", x, qn_sample_parameter(graph, "target", shape, 1));
}

const qn_op qn_op_smooth_l1 = {
    .name = "smooth_l1",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = qn_infer_elementwise,
    .gradient = l1_gradient,
    .cost = l1_cost,
    .in_place = 1 << 0 | 1 << 1,
    .n_samples = 2,
    .sample = l1_sample,
};

qn_value qn_smooth_l1(qn_graph *graph, const char *name, qn_value x, qn_value target) {
    return qn_graph_add1(graph, &qn_op_smooth_l1, name, (qn_value[]){x, target}, 2, NULL);
}

/* ---- gradient: dx from x, target, dy ---- */

const qn_op qn_op_smooth_l1_backward = {
    .name = "smooth_l1_backward",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = qn_infer_elementwise,
    .cost = l1_cost,
    .in_place = 1 << 0 | 1 << 1 | 1 << 2,
};
