/* Mean over the last axis of (x - target)^2 -> (N), for x, target (N, C). */
#include "ops/shared.h"

static qn_status error_infer(qn_infer *infer) {
    QN_TRY(qn_infer_rank(infer, 0, 2, "(N, C)"));
    QN_TRY(qn_infer_expect(infer, 1, "target", infer->inputs[0].shape));
    infer->outputs[0] =
        (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(infer->inputs[0].shape.dims[0])};
    return QN_OK;
}

static qn_cost error_cost(const void *attributes, const qn_tensor *inputs,
                          const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return qn_cost_elements(3, inputs);
}

/* The loss is symmetric: the target's gradient is x's with the two exchanged. */
static void error_gradient(qn_graph *graph, const qn_gradient *gradient) {
    static const char *const names[] = {"backward", "backward_target"};
    const qn_node *node = gradient->node;
    for (int i = 0; i < 2; i++) {
        const qn_value inputs[] = {node->inputs[i], node->inputs[1 - i], gradient->outputs[0]};
        if (gradient->wanted[i])
            gradient->inputs[i] = qn_gradient_add(graph, node, names[i],
                                                  &qn_op_squared_error_backward, inputs, 3, NULL);
    }
}

static qn_value error_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(5, 1) : QN_SHAPE(3, 7);
    qn_value x = qn_sample_parameter(graph, "x", shape, 1);
    return qn_squared_error(graph, "y", x, qn_sample_parameter(graph, "target", shape, 2));
}

const qn_op qn_op_squared_error = {
    .name = "squared_error",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = error_infer,
    .gradient = error_gradient,
    .cost = error_cost,
    .n_samples = 2,
    .sample = error_sample,
};

qn_value qn_squared_error(qn_graph *graph, const char *name, qn_value x, qn_value target) {
    return qn_graph_add1(graph, &qn_op_squared_error, name, (qn_value[]){x, target}, 2, NULL);
}

/* ---- gradient: dx from x, target, dloss ---- */

static qn_status backward_infer(qn_infer *infer) {
    QN_TRY(qn_infer_rank(infer, 0, 2, "(N, C)"));
    QN_TRY(qn_infer_expect(infer, 1, "target", infer->inputs[0].shape));
    QN_TRY(qn_infer_expect(infer, 2, "gradient", QN_SHAPE(infer->inputs[0].shape.dims[0])));
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

const qn_op qn_op_squared_error_backward = {
    .name = "squared_error_backward",
    .min_inputs = 3,
    .max_inputs = 3,
    .infer = backward_infer,
    .cost = error_cost,
};
