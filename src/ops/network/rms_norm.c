/* Root mean square norm over the last axis of x (..., C): y = x / sqrt(mean of x^2 + epsilon) *
 * (scale (C) + offset). A scale that is not trained, as in most tuning, costs no gradient. */
#include "ops/language.h"
#include "ops/shared.h"

static const qn_attribute norm_fields[] = {
    QN_FIELD(qn_rms_norm_attributes, QN_ATTRIBUTE_DOUBLE, epsilon),
    QN_FIELD(qn_rms_norm_attributes, QN_ATTRIBUTE_DOUBLE, offset),
    {0},
};

static qn_status expect_scale(const qn_infer *infer, int i) {
    const qn_shape x = infer->inputs[0].shape;
    if (x.rank < 1)
        return qn_infer_rank(infer, 0, 1, "(..., C)");
    if (infer->n_inputs <= i || infer->inputs[i].dtype == QN_NONE)
        return QN_OK;
    return qn_infer_expect(infer, i, "scale", QN_SHAPE(qn_shape_columns(x)));
}

static qn_status norm_infer(qn_infer *infer) {
    QN_TRY(expect_scale(infer, 1));
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

static qn_cost norm_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(4, outputs);
}

/* The gradient of the scale is the sum over rows of dy times x normalised, which is made again. */
static qn_value scale_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    qn_rms_norm_attributes attributes = *(const qn_rms_norm_attributes *)node->attributes;
    attributes.offset = 0;
    const qn_value normal = qn_gradient_add(graph, node, "backward_normal", &qn_op_rms_norm,
                                            node->inputs, 1, &attributes);
    const qn_value product = qn_gradient_add(graph, node, "backward_product", &qn_op_multiply,
                                             (qn_value[]){gradient->outputs[0], normal}, 2, NULL);
    return qn_gradient_columns(graph, node, "backward_scale", product);
}

static void norm_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const bool has_scale = node->n_inputs > 1 && node->inputs[1].id >= 0;
    if (has_scale && gradient->wanted[1])
        gradient->inputs[1] = scale_gradient(graph, gradient);
    if (gradient->wanted[0])
        gradient->inputs[0] =
            qn_gradient_add(graph, node, "backward", &qn_op_rms_norm_backward,
                            (qn_value[]){node->inputs[0], gradient->outputs[0],
                                         has_scale ? node->inputs[1] : QN_NO_VALUE},
                            3, node->attributes);
}

static qn_value norm_sample(qn_graph *graph, int variant) {
    const qn_shape shapes[] = {QN_SHAPE(3, 5, 7), QN_SHAPE(4, 70), QN_SHAPE(9)};
    const qn_shape shape = shapes[variant];
    qn_value x = qn_sample_parameter(graph, "x", shape, 2);
    const qn_value scale =
        variant == 2 ? QN_NO_VALUE
                     : qn_sample_parameter(graph, "scale", QN_SHAPE(shape.dims[shape.rank - 1]), 1);
    return qn_rms_norm(graph, "y", x, scale, 1e-5, variant == 1);
}

const qn_op qn_op_rms_norm = {
    .name = "rms_norm",
    .attributes_bytes = sizeof(qn_rms_norm_attributes),
    .attributes = norm_fields,
    .min_inputs = 1,
    .max_inputs = 2,
    .optional_inputs = 1 << 1,
    .infer = norm_infer,
    .gradient = norm_gradient,
    .cost = norm_cost,
    .in_place = 1 << 0,
    .n_samples = 3,
    .sample = norm_sample,
};

qn_value qn_rms_norm(qn_graph *graph, const char *name, qn_value x, qn_value scale, double epsilon,
                     double offset) {
    const qn_rms_norm_attributes attributes = {epsilon, offset};
    return qn_graph_add1(graph, &qn_op_rms_norm, name, (qn_value[]){x, scale}, 2, &attributes);
}

/* ---- gradient: dx from x, dy, scale ---- */

static qn_status backward_infer(qn_infer *infer) {
    QN_TRY(expect_scale(infer, 2));
    QN_TRY(qn_infer_expect(infer, 1, "gradient", infer->inputs[0].shape));
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(9, outputs);
}

const qn_op qn_op_rms_norm_backward = {
    .name = "rms_norm_backward",
    .attributes_bytes = sizeof(qn_rms_norm_attributes),
    .attributes = norm_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .optional_inputs = 1 << 2,
    .infer = backward_infer,
    .cost = backward_cost,
    .in_place = 1 << 1,
};
