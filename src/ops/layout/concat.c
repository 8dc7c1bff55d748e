/* Concatenation along an axis; its gradient slices. Along the last axis the planner may have the
 * parts computed in place; then nothing is copied. */
#include "base/status.h"
#include "ops/layout.h"
#include "ops/shared.h"

#include <stdio.h>
#include <string.h>

static const qn_attribute concat_fields[] = {
    QN_FIELD(qn_concat_attributes, QN_ATTRIBUTE_INT, axis),
    {0},
};

static qn_status concat_infer(qn_infer *infer) {
    const int axis = ((const qn_concat_attributes *)infer->attributes)->axis;
    char text[QN_SHAPE_TEXT];
    qn_shape shape = infer->inputs[0].shape;
    if (axis < 0 || axis >= shape.rank)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no axis %d in %s", axis,
                       qn_shape_print(shape, text));
    for (int i = 1; i < infer->n_inputs; i++) {
        qn_shape wanted = infer->inputs[0].shape;
        if (infer->inputs[i].shape.rank == wanted.rank)
            wanted.dims[axis] = infer->inputs[i].shape.dims[axis];
        QN_TRY(qn_infer_expect(infer, i, "part", wanted));
        QN_TRY(qn_infer_dtype(infer, i, infer->inputs[0].dtype));
        if (__builtin_add_overflow(shape.dims[axis], wanted.dims[axis], &shape.dims[axis]))
            return qn_fail(QN_ERROR_ARGUMENT, "the parts are too large together");
    }
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, shape};
    return QN_OK;
}

static bool concat_joins_columns(const void *attributes, qn_shape first) {
    return ((const qn_concat_attributes *)attributes)->axis == first.rank - 1;
}

static void concat_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const int axis = ((const qn_concat_attributes *)node->attributes)->axis;
    int64_t begin = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        const int64_t end = begin + qn_graph_shape(graph, node->inputs[i]).dims[axis];
        char name[1024];
        snprintf(name, sizeof name, "%s.backward_%d", node->name, i);
        if (gradient->wanted[i])
            gradient->inputs[i] = qn_slice(graph, qn_graph_unique(graph, name, false),
                                           gradient->outputs[0], axis, begin, end);
        begin = end;
    }
}

static qn_value concat_sample(qn_graph *graph, int variant) {
    const int axis = variant == 0 ? -1 : variant - 1;
    qn_value parts[3];
    for (int i = 0; i < 3; i++) {
        char name[32];
        qn_shape shape = QN_SHAPE(3, 5, 4);
        shape.dims[axis < 0 ? 2 : axis] = 2 * i + 1;
        snprintf(name, sizeof name, "part%d", i);
        parts[i] = qn_sample_parameter(graph, name, shape, 1);
    }
    return qn_concat(graph, "y", parts, 3, axis);
}

const qn_op qn_op_concat = {
    .name = "concat",
    .attributes_bytes = sizeof(qn_concat_attributes),
    .attributes = concat_fields,
    .min_inputs = 1,
    .max_inputs = -1,
    .any_type_inputs = UINT32_MAX,
    .joins = true,
    .infer = concat_infer,
    .gradient = concat_gradient,
    .strided_inputs = UINT32_MAX,
    .strided_outputs = 1 << 0,
    .joins_columns = concat_joins_columns,
    .n_samples = 3,
    .sample = concat_sample,
};

qn_value qn_concat(qn_graph *graph, const char *name, const qn_value *parts, int n_parts,
                   int axis) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    QN_NEED_OR(parts, "parts", QN_NO_VALUE);
    const int rank = n_parts > 0 ? qn_graph_shape(graph, parts[0]).rank : 0;
    const qn_concat_attributes attributes = {axis < 0 ? axis + rank : axis};
    return qn_graph_add1(graph, &qn_op_concat, name, parts, n_parts, &attributes);
}
