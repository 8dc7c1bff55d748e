/* Parts side by side along an axis; the gradient cuts them apart again. Along the last axis parts
 * may have been made where they belong (the planner sees to it); then nothing is copied. */
#include "ops/shared.h"

#include <stdio.h>
#include <string.h>

typedef struct concat_attributes {
    int axis;
} concat_attributes;

static const qn_attribute concat_fields[] = {
    QN_FIELD(concat_attributes, QN_ATTRIBUTE_INT, axis),
    {0},
};

static qn_status concat_infer(qn_infer *infer) {
    const int axis = ((const concat_attributes *)infer->attributes)->axis;
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
    return ((const concat_attributes *)attributes)->axis == first.rank - 1;
}

/* Bytes of a row of the axes before the axis, and from one to the next. */
typedef struct row_bytes {
    size_t row, step;
} row_bytes;

/* row_step: of the last axis. */
static row_bytes bytes_of(const qn_call *call, qn_tensor tensor, int64_t row_step) {
    const int axis = ((const concat_attributes *)call->attributes)->axis;
    const size_t row =
        qn_tensor_bytes(tensor) / (size_t)qn_shape_count_range(tensor.shape, 0, axis);
    const bool is_last = axis == tensor.shape.rank - 1;
    return (row_bytes){row, is_last ? qn_dtype_bytes(tensor.dtype) * (size_t)row_step : row};
}

/* A task is one row of the axes before the axis. */
static void concat_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const qn_call *call = context;
    const row_bytes whole = bytes_of(call, call->outputs[0], qn_call_out_step(call, 0));
    char *to = call->out[0];
    for (int i = 0; i < call->node->n_inputs; i++) {
        const row_bytes part = bytes_of(call, call->inputs[i], qn_call_in_step(call, i));
        const char *from = call->in[i];
        for (int64_t r = begin; r < end && from != to; r++)
            memcpy(to + (size_t)r * whole.step, from + (size_t)r * part.step, part.row);
        to += part.row;
    }
}

/* Whether every part lies where it belongs. */
static bool is_in_place(const qn_call *call) {
    const char *to = call->out[0];
    for (int i = 0; i < call->node->n_inputs; i++) {
        if (call->in[i] != to)
            return false;
        to += bytes_of(call, call->inputs[i], 0).row;
    }
    return true;
}

static void concat_run(const qn_call *call) {
    const int axis = ((const concat_attributes *)call->attributes)->axis;
    qn_call copy = *call;
    if (!is_in_place(call))
        qn_team_run(call->team, qn_shape_count_range(call->outputs[0].shape, 0, axis), concat_task,
                    &copy);
}

static void concat_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const int axis = ((const concat_attributes *)node->attributes)->axis;
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
    .attributes_bytes = sizeof(concat_attributes),
    .attributes = concat_fields,
    .min_inputs = 1,
    .max_inputs = -1,
    .integer_inputs = UINT32_MAX,
    .infer = concat_infer,
    .gradient = concat_gradient,
    .run = concat_run,
    .apart_inputs = UINT32_MAX,
    .apart_outputs = 1 << 0,
    .joins_columns = concat_joins_columns,
    .n_samples = 3,
    .sample = concat_sample,
};

qn_value qn_concat(qn_graph *graph, const char *name, const qn_value *parts, int n_parts,
                   int axis) {
    const int rank = n_parts > 0 ? qn_graph_shape(graph, parts[0]).rank : 0;
    const concat_attributes attributes = {axis < 0 ? axis + rank : axis};
    return qn_graph_add1(graph, &qn_op_concat, name, parts, n_parts, &attributes);
}
