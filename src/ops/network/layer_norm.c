/* Layer norm over the last axis of x (..., C) (Ba et al. 2016, equation 4; biased variance): y, and
 * for each row the mean and 1 / sqrt(variance + epsilon), which the gradient reads. */
#include "ops/network/norm.h"
#include "ops/shared.h"

static const qn_attribute norm_fields[] = {
    QN_FIELD(qn_layer_norm_attributes, QN_ATTRIBUTE_DOUBLE, epsilon),
    {0},
};

static qn_status norm_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape;
    if (x.rank < 1)
        return qn_infer_rank(infer, 0, 1, "(..., C)");
    QN_TRY(qn_infer_expect(infer, 1, "scale", QN_SHAPE(qn_shape_columns(x))));
    QN_TRY(qn_infer_expect(infer, 2, "shift", QN_SHAPE(qn_shape_columns(x))));
    infer->n_outputs = 3;
    infer->outputs[0] = infer->inputs[0];
    infer->outputs[1] = infer->outputs[2] =
        (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(qn_shape_rows(x))};
    return QN_OK;
}

static qn_cost norm_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(8, outputs);
}

static void norm_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    if (gradient->outputs[1].id >= 0 || gradient->outputs[2].id >= 0) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED, "%s: the statistics have no gradient",
                      node->name);
        return;
    }
    const qn_value inputs[] = {node->inputs[0], gradient->outputs[0], node->inputs[1],
                               node->outputs[1], node->outputs[2]};
    const qn_value dx =
        qn_gradient_add(graph, node, "backward", &qn_op_layer_norm_backward, inputs, 5, NULL);
    if (dx.id < 0)
        return;
    const qn_node *backward = graph->nodes[qn_graph_value(graph, dx)->producer];
    for (int i = 0; i < 3; i++)
        gradient->inputs[i] = backward->outputs[i];
}

static qn_value norm_sample(qn_graph *graph, int variant) {
    const qn_shape shapes[] = {QN_SHAPE(3, 5, 7), QN_SHAPE(4, 70), QN_SHAPE(9)};
    const qn_shape channels = QN_SHAPE(qn_shape_columns(shapes[variant]));
    qn_value x = qn_sample_parameter(graph, "x", shapes[variant], 2);
    qn_value scale = qn_sample_parameter(graph, "scale", channels, 1);
    return qn_layer_norm(graph, "y", x, scale, qn_sample_parameter(graph, "shift", channels, 1),
                         1e-5);
}

const qn_op qn_op_layer_norm = {
    .name = "layer_norm",
    .attributes_bytes = sizeof(qn_layer_norm_attributes),
    .attributes = norm_fields,
    .min_inputs = 3,
    .max_inputs = 3,
    .output_names = {NULL, "mean", "inv_std"},
    .is_norm = true,
    .infer = norm_infer,
    .gradient = norm_gradient,
    .cost = norm_cost,
    .in_place = 1 << 0,
    .n_samples = 3,
    .sample = norm_sample,
};

qn_value qn_layer_norm(qn_graph *graph, const char *name, qn_value x, qn_value scale,
                       qn_value shift, double epsilon) {
    const qn_layer_norm_attributes attributes = {epsilon};
    return qn_graph_add1(graph, &qn_op_layer_norm, name, (qn_value[]){x, scale, shift}, 3,
                         &attributes);
}

/* ---- gradient: dx, dscale, dshift from x, dy, scale, mean, inv_std ---- */

static qn_status backward_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape;
    QN_TRY(qn_infer_expect(infer, 1, "gradient", x));
    QN_TRY(qn_infer_expect(infer, 2, "scale", QN_SHAPE(qn_shape_columns(x))));
    QN_TRY(qn_infer_expect(infer, 3, "mean", QN_SHAPE(qn_shape_rows(x))));
    QN_TRY(qn_infer_expect(infer, 4, "deviation", QN_SHAPE(qn_shape_rows(x))));
    for (int i = QN_LAYER_NORM_SUM; i < infer->n_inputs; i++)
        QN_TRY(qn_infer_expect(infer, i, "sum", infer->inputs[2].shape));
    infer->n_outputs = 3;
    infer->outputs[0] = infer->inputs[0];
    infer->outputs[1] = infer->outputs[2] = infer->inputs[2];
    return QN_OK;
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(14, outputs);
}

const qn_op qn_op_layer_norm_backward = {
    .name = "layer_norm_backward",
    .sums_batch = true,
    .min_inputs = 5,
    .max_inputs = 7,
    .output_names = {NULL, "scale", "shift"},
    .infer = backward_infer,
    .cost = backward_cost,
    .in_place = 1 << 1,
};
