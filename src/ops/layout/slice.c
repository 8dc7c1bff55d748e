/* Elements [begin, end) of an axis; the gradient writes them between zeros. Along the last axis
 * they may be read in place (the planner decides); then nothing is copied. */
#include "ops/layout.h"
#include "ops/shared.h"

#include <string.h>

static const qn_attribute slice_fields[] = {
    QN_FIELD(qn_slice_attributes, QN_ATTRIBUTE_INT, axis),
    QN_FIELD(qn_slice_attributes, QN_ATTRIBUTE_INT64, begin),
    QN_FIELD(qn_slice_attributes, QN_ATTRIBUTE_INT64, end),
    QN_FIELD(qn_slice_attributes, QN_ATTRIBUTE_INT64, extent),
    {0},
};

static qn_status slice_infer(qn_infer *infer) {
    const qn_slice_attributes *a = infer->attributes;
    char text[QN_SHAPE_TEXT];
    qn_shape shape = infer->inputs[0].shape;
    if (a->axis < 0 || a->axis >= shape.rank || a->begin < 0 || a->begin >= a->end ||
        a->end > shape.dims[a->axis])
        return qn_fail(QN_ERROR_ARGUMENT, "elements %lld to %lld of axis %d are not in %s",
                       (long long)a->begin, (long long)a->end, a->axis,
                       qn_shape_print(shape, text));
    shape.dims[a->axis] = a->end - a->begin;
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, shape};
    return QN_OK;
}

static int64_t first_column(const void *attributes, qn_shape x) {
    const qn_slice_attributes *a = attributes;
    return a->axis == x.rank - 1 ? a->begin : -1;
}

static void slice_gradient(qn_graph *graph, const qn_gradient *gradient) {
    gradient->inputs[0] = qn_gradient_add(graph, gradient->node, "backward", &qn_op_slice_backward,
                                          gradient->outputs, 1, gradient->node->attributes);
}

static qn_value slice_sample(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(5, 7, 3), 1);
    return qn_slice(graph, "y", x, variant, 1, variant == 2 ? 3 : 4);
}

const qn_op qn_op_slice = {
    .name = "slice",
    .attributes_bytes = sizeof(qn_slice_attributes),
    .attributes = slice_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = 1 << 0,
    .infer = slice_infer,
    .gradient = slice_gradient,
    .strided_inputs = 1 << 0,
    .strided_outputs = 1 << 0,
    .sliced_column = first_column,
    .n_samples = 3,
    .sample = slice_sample,
};

qn_value qn_slice(qn_graph *graph, const char *name, qn_value x, int axis, int64_t begin,
                  int64_t end) {
    const qn_shape shape = qn_graph_shape(graph, x);
    qn_slice_attributes attributes = {
        .axis = axis < 0 ? axis + shape.rank : axis, .begin = begin, .end = end};
    if (attributes.axis >= 0 && attributes.axis < shape.rank)
        attributes.extent = shape.dims[attributes.axis];
    return qn_graph_add1(graph, &qn_op_slice, name, &x, 1, &attributes);
}

/* ---- gradient: dx from dy, zero outside ---- */

static qn_status backward_infer(qn_infer *infer) {
    const qn_slice_attributes *a = infer->attributes;
    char text[QN_SHAPE_TEXT];
    qn_shape shape = infer->inputs[0].shape;
    if (a->axis < 0 || a->axis >= shape.rank || a->end - a->begin != shape.dims[a->axis] ||
        a->begin < 0 || a->end > a->extent)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is not the slice of axis %d from %lld to %lld",
                       qn_shape_print(shape, text), a->axis, (long long)a->begin,
                       (long long)a->end);
    shape.dims[a->axis] = a->extent;
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, shape};
    return QN_OK;
}

const qn_op qn_op_slice_backward = {
    .name = "slice_backward",
    .attributes_bytes = sizeof(qn_slice_attributes),
    .attributes = slice_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .joins = true,
    .infer = backward_infer,
};
