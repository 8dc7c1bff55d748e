/* Sum, mean or maximum along one axis, which is removed. The maximum stores the position of its
 * first occurrence for the gradient. */
#include "ops/reduce.h"
#include "ops/shared.h"

static const qn_attribute reduce_fields[] = {
    QN_FIELD(qn_reduce_attributes, QN_ATTRIBUTE_INT, axis),
    QN_FIELD(qn_reduce_attributes, QN_ATTRIBUTE_INT, reduction),
    QN_FIELD(qn_reduce_attributes, QN_ATTRIBUTE_SHAPE, shape),
    {0},
};

static qn_shape without_axis(qn_shape shape, int axis) {
    for (int i = axis; i + 1 < shape.rank; i++)
        shape.dims[i] = shape.dims[i + 1];
    shape.dims[--shape.rank] = 0;
    return shape;
}

static void reduce_split(const qn_graph *graph, const qn_node *node, int64_t piece, int64_t pieces,
                         void *attributes) {
    (void)graph;
    (void)node;
    (void)piece;
    qn_split_shape(pieces, &((qn_reduce_attributes *)attributes)->shape);
}

static qn_status reduce_infer(qn_infer *infer) {
    const qn_reduce_attributes *a = infer->attributes;
    char text[QN_SHAPE_TEXT];
    const qn_shape x = infer->inputs[0].shape;
    if (a->axis < 0 || a->axis >= x.rank)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has no axis %d", qn_shape_print(x, text), a->axis);
    if (a->reduction < QN_SUM || a->reduction > QN_MAX)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no reduction %d", a->reduction);
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, without_axis(x, a->axis)};
    if (a->reduction == QN_MAX) {
        infer->n_outputs = 2;
        infer->outputs[1] = (qn_tensor){QN_I32, infer->outputs[0].shape};
    }
    return QN_OK;
}

static qn_cost reduce_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return qn_cost_elements(1, inputs);
}

static void reduce_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    qn_reduce_attributes attributes = *(const qn_reduce_attributes *)node->attributes;
    attributes.shape = qn_graph_shape(graph, node->inputs[0]);
    const qn_value inputs[] = {gradient->outputs[0],
                               node->n_outputs > 1 ? node->outputs[1] : QN_NO_VALUE};
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_reduce_backward, inputs, 2, &attributes);
}

static qn_value reduce_sample(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(5, 7, 3), 1);
    return qn_reduce(graph, "y", x, variant % 3 - 1, (qn_reduction)(variant / 3));
}

const qn_op qn_op_reduce = {
    .name = "reduce",
    .attributes_bytes = sizeof(qn_reduce_attributes),
    .attributes = reduce_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .output_names = {NULL, "index"},
    .infer = reduce_infer,
    .gradient = reduce_gradient,
    .cost = reduce_cost,
    .split = reduce_split,
    .n_samples = 9,
    .sample = reduce_sample,
};

qn_value qn_reduce(qn_graph *graph, const char *name, qn_value x, int axis,
                   qn_reduction reduction) {
    const qn_shape shape = qn_graph_shape(graph, x);
    const qn_reduce_attributes attributes = {
        .axis = axis < 0 ? axis + shape.rank : axis, .reduction = (int)reduction, .shape = shape};
    return qn_graph_add1(graph, &qn_op_reduce, name, &x, 1, &attributes);
}

/* ---- gradient: dx from dy and, for the largest, index ---- */

static qn_status backward_infer(qn_infer *infer) {
    const qn_reduce_attributes *a = infer->attributes;
    const bool has_index = infer->n_inputs > 1 && infer->inputs[1].dtype != QN_NONE;
    QN_TRY(qn_infer_expect(infer, 0, "gradient", without_axis(a->shape, a->axis)));
    if (has_index) {
        QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
        QN_TRY(qn_infer_expect(infer, 1, "index", infer->inputs[0].shape));
    }
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, a->shape};
    return QN_OK;
}

const qn_op qn_op_reduce_backward = {
    .name = "reduce_backward",
    .attributes_bytes = sizeof(qn_reduce_attributes),
    .attributes = reduce_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .optional_inputs = 1 << 1,
    .any_type_inputs = 1 << 1,
    .infer = backward_infer,
    .split = reduce_split,
};
