/* Permutes axes: axis i of the result is axis order[i] of x. */
#include "base/status.h"
#include "ops/layout.h"
#include "ops/shared.h"

static const qn_attribute transpose_fields[] = {
    QN_FIELD(qn_transpose_attributes, QN_ATTRIBUTE_SHAPE, order),
    {0},
};

static qn_status transpose_infer(qn_infer *infer) {
    const qn_transpose_attributes *a = infer->attributes;
    char order[QN_SHAPE_TEXT], text[QN_SHAPE_TEXT];
    const qn_shape x = infer->inputs[0].shape;
    qn_shape y = x;
    unsigned seen = 0;
    for (int i = 0; i < x.rank && a->order.rank == x.rank; i++) {
        const int64_t axis = a->order.dims[i];
        if (axis < 0 || axis >= x.rank)
            break;
        seen |= 1u << axis;
        y.dims[i] = x.dims[axis];
    }
    if (x.rank < 2 || seen != (1u << x.rank) - 1)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s is not an order of the axes of %s, which has at least 2",
                       qn_shape_print(a->order, order), qn_shape_print(x, text));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, y};
    return QN_OK;
}

static void transpose_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_transpose_attributes *a = gradient->node->attributes;
    qn_transpose_attributes back = {.order = {.rank = a->order.rank}};
    for (int i = 0; i < a->order.rank; i++)
        back.order.dims[a->order.dims[i]] = i;
    gradient->inputs[0] = qn_gradient_add(graph, gradient->node, "backward", &qn_op_transpose,
                                          gradient->outputs, 1, &back);
}

static qn_value transpose_sample(qn_graph *graph, int variant) {
    static const struct {
        qn_shape shape;
        int order[QN_MAX_RANK];
    } all[] = {{{2, {5, 7}}, {1, 0}},
               {{4, {3, 5, 2, 7}}, {0, 2, 1, 3}},
               {{5, {2, 3, 5, 2, 4}}, {2, 0, 3, 1, 4}},
               {{3, {19, 2, 35}}, {2, 1, 0}},
               {{3, {3, 4, 5}}, {0, 1, 2}}};
    qn_value x = qn_sample_parameter(graph, "x", all[variant].shape, 1);
    return qn_transpose(graph, "y", x, all[variant].order);
}

const qn_op qn_op_transpose = {
    .name = "transpose",
    .attributes_bytes = sizeof(qn_transpose_attributes),
    .attributes = transpose_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = transpose_infer,
    .gradient = transpose_gradient,
    .n_samples = 5,
    .sample = transpose_sample,
};

qn_value qn_transpose(qn_graph *graph, const char *name, qn_value x, const int *order) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    QN_NEED_OR(order, "order", QN_NO_VALUE);
    qn_transpose_attributes attributes = {.order = {.rank = qn_graph_shape(graph, x).rank}};
    for (int i = 0; i < attributes.order.rank; i++)
        attributes.order.dims[i] = order[i];
    return qn_graph_add1(graph, &qn_op_transpose, name, &x, 1, &attributes);
}
