/* Mean of the losses whose label is not negative -> scalar: padding does not count. */
#include "ops/shared.h"

static qn_status mean_infer(qn_infer *infer) {
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    QN_TRY(qn_infer_expect(infer, 1, "labels", infer->inputs[0].shape));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, (qn_shape){0}};
    return QN_OK;
}

static qn_cost mean_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return qn_cost_elements(1, inputs);
}

static void mean_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_value inputs[] = {node->inputs[1], gradient->outputs[0]};
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_mean_valid_backward, inputs, 2, NULL);
}

static qn_value mean_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(13) : QN_SHAPE(3, 7);
    qn_value losses = qn_sample_parameter(graph, "losses", shape, 1);
    return qn_mean_valid(graph, "y", losses, qn_label(graph, "labels", QN_I32, shape));
}

const qn_op qn_op_mean_valid = {
    .name = "mean_valid",
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << 1,
    .infer = mean_infer,
    .gradient = mean_gradient,
    .cost = mean_cost,
    .n_samples = 2,
    .sample = mean_sample,
};

qn_value qn_mean_valid(qn_graph *graph, const char *name, qn_value losses, qn_value labels) {
    return qn_graph_add1(graph, &qn_op_mean_valid, name, (qn_value[]){losses, labels}, 2, NULL);
}

/* ---- gradient: dlosses from labels and dmean ---- */

static qn_status backward_infer(qn_infer *infer) {
    QN_TRY(qn_infer_dtype(infer, 0, QN_I32));
    QN_TRY(qn_infer_expect(infer, 1, "gradient", (qn_shape){0}));
    infer->outputs[0] = (qn_tensor){infer->inputs[1].dtype, infer->inputs[0].shape};
    return QN_OK;
}

const qn_op qn_op_mean_valid_backward = {
    .name = "mean_valid_backward",
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << 0,
    .infer = backward_infer,
    .looks_at_batch = true,
};
