/* The same elements in another shape: a view, so nothing runs. */
#include "ops/shared.h"

#include <stdio.h>

typedef struct reshape_attributes {
    qn_shape shape;
} reshape_attributes;

static const qn_attribute reshape_fields[] = {
    QN_FIELD(reshape_attributes, QN_ATTRIBUTE_SHAPE, shape),
    {0},
};

/* Replaces an extent of -1, if there is one, by what the others leave; 0 where that fails. */
static qn_shape complete(qn_shape shape, int64_t count) {
    int64_t rest = count;
    int open = -1;
    for (int i = 0; i < shape.rank; i++) {
        if (shape.dims[i] == -1 && open < 0) {
            open = i;
            continue;
        }
        if (shape.dims[i] < 1 || rest % shape.dims[i] != 0)
            return shape;
        rest /= shape.dims[i];
    }
    if (open >= 0)
        shape.dims[open] = rest;
    return shape;
}

static qn_status reshape_infer(qn_infer *infer) {
    const reshape_attributes *a = infer->attributes;
    char from[QN_SHAPE_TEXT], to[QN_SHAPE_TEXT];
    const qn_shape x = infer->inputs[0].shape;
    if (a->shape.rank < 0 || a->shape.rank > QN_MAX_RANK)
        return qn_fail(QN_ERROR_ARGUMENT, "a rank of %d is not in 0 to %d", a->shape.rank,
                       QN_MAX_RANK);
    const qn_shape shape = complete(a->shape, qn_shape_count(x));
    if (!qn_shape_is_valid(shape) || qn_shape_count(shape) != qn_shape_count(x))
        return qn_fail(QN_ERROR_ARGUMENT, "%s cannot become %s", qn_shape_print(x, from),
                       qn_shape_print(a->shape, to));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, shape};
    return QN_OK;
}

static void reshape_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const reshape_attributes back = {qn_graph_shape(graph, gradient->node->inputs[0])};
    gradient->inputs[0] = qn_gradient_add(graph, gradient->node, "backward", &qn_op_reshape,
                                          gradient->outputs, 1, &back);
}

/* A view is a view of something that is computed, so the samples compute something. */
static qn_value reshape_sample(qn_graph *graph, int variant) {
    qn_value x = qn_tanh(graph, "tanh", qn_sample_parameter(graph, "x", QN_SHAPE(3, 5, 2, 7), 1));
    if (variant == 1)
        return qn_flatten(graph, "y", x);
    return qn_reshape(graph, "y", x, QN_SHAPE(5, -1, 3));
}

const qn_op qn_op_reshape = {
    .name = "reshape",
    .attributes_bytes = sizeof(reshape_attributes),
    .attributes = reshape_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = 1 << 0,
    .scaled_by = qn_scaled_by_first,
    .infer = reshape_infer,
    .gradient = reshape_gradient,
    .is_view = true,
    .n_samples = 2,
    .sample = reshape_sample,
};

qn_value qn_reshape(qn_graph *graph, const char *name, qn_value x, qn_shape shape) {
    const reshape_attributes attributes = {shape};
    return qn_graph_add1(graph, &qn_op_reshape, name, &x, 1, &attributes);
}

qn_value qn_flatten(qn_graph *graph, const char *name, qn_value x) {
    const qn_shape shape = qn_graph_shape(graph, x);
    if (shape.rank == 2)
        return x;
    return qn_reshape(graph, name, x,
                      shape.rank > 0 ? QN_SHAPE(shape.dims[0], -1) : QN_SHAPE(1, 1));
}
