/* See sample.h. */
#include "onnx/images/sample.h"

#include "base/status.h"
#include "onnx/operators/formula.h"

qn_status qn_onnx_sampling_init(qn_onnx_call *call, int64_t n, qn_onnx_sampling *s) {
    const qn_shape x = qn_onnx_shape(call, 0);
    *s = (qn_onnx_sampling){.call = call,
                            .n_axes = x.rank - 2,
                            .n = n,
                            .sample = QN_NO_VALUE,
                            .base = QN_NO_VALUE,
                            .n_samples = x.dims[0]};
    if (s->n_axes < 1 || s->n_axes > QN_ONNX_MOST_SPACE)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its input has rank %d", x.rank);
    for (int i = 0; i < s->n_axes; i++)
        s->extents[i] = x.dims[2 + i];
    s->table = qn_onnx_reshaped(call, "table", qn_onnx_channels_last(call, 0, x.rank),
                                QN_SHAPE(-1, x.dims[1]));
    return call->graph->status;
}

qn_value qn_onnx_pick(const qn_onnx_sampling *s, const qn_value *at) {
    qn_graph *g = s->call->graph;
    qn_value parts[QN_ONNX_MOST_SPACE + 1];
    qn_shape extents = {.rank = 0};
    if (s->sample.id >= 0) {
        parts[extents.rank] = s->sample;
        extents.dims[extents.rank++] = s->n_samples;
    }
    for (int i = 0; i < s->n_axes; i++) {
        parts[extents.rank] =
            qn_onnx_cut(s->call, "coordinate", at[i], 0, (double)s->extents[i] - 1);
        extents.dims[extents.rank++] = s->extents[i];
    }
    const qn_value all = extents.rank == 1 ? parts[0]
                                           : qn_concat(g, qn_onnx_side_name(s->call, "coordinates"),
                                                       parts, extents.rank, 1);
    const qn_value rows =
        qn_op_row_numbers(g, qn_onnx_side_name(s->call, "numbers"),
                          qn_onnx_to_whole(s->call, "whole", all), s->base, extents, 1);
    return qn_embedding(g, qn_onnx_side_name(s->call, "picked"), s->table, rows);
}

qn_value qn_onnx_is_inside(const qn_onnx_sampling *s, int axis, qn_value at) {
    return qn_onnx_combine(s->call, "inside", QN_COMBINE_EQUAL, at,
                           qn_onnx_cut(s->call, "cut", at, 0, (double)s->extents[axis] - 1));
}

/* Along one axis: the whole coordinates below and above, and their weights. */
typedef struct corner {
    qn_value at[2], weights[2];
} corner;

static corner corner_of(const qn_onnx_sampling *s, int axis, qn_value at) {
    qn_onnx_call *call = s->call;
    corner c;
    c.at[0] = qn_onnx_apply_kind(call, "below", at, QN_FUNCTION_FLOOR);
    c.at[1] = qn_onnx_line(call, "above", c.at[0], 1, 1);
    c.weights[1] = qn_onnx_combine(call, "fraction", QN_COMBINE_SUBTRACT, at, c.at[0]);
    c.weights[0] = qn_onnx_line(call, "rest", c.weights[1], -1, 1);
    for (int i = 0; i < 2 && s->is_zero_outside; i++)
        c.weights[i] = qn_onnx_combine(call, "weight", QN_COMBINE_MULTIPLY, c.weights[i],
                                       qn_onnx_is_inside(s, axis, c.at[i]));
    return c;
}

qn_value qn_onnx_sample_linear(const qn_onnx_sampling *s, const qn_value *at, bool is_most) {
    corner corners[QN_ONNX_MOST_SPACE];
    qn_value sum = QN_NO_VALUE;
    for (int i = 0; i < s->n_axes; i++)
        corners[i] = corner_of(s, i, at[i]);
    for (int k = 0; k < 1 << s->n_axes; k++) {
        qn_value whole[QN_ONNX_MOST_SPACE], weight = QN_NO_VALUE;
        for (int i = 0; i < s->n_axes; i++) {
            const int side = k >> i & 1;
            whole[i] = corners[i].at[side];
            weight = i == 0 ? corners[i].weights[side]
                            : qn_onnx_combine(s->call, "weight", QN_COMBINE_MULTIPLY, weight,
                                              corners[i].weights[side]);
        }
        const qn_value part = qn_onnx_combine(s->call, "weighed", QN_COMBINE_MULTIPLY,
                                              qn_onnx_pick(s, whole), weight);
        sum = k == 0 ? part
                     : qn_onnx_combine(s->call, "sum", is_most ? QN_COMBINE_MOST : QN_COMBINE_ADD,
                                       sum, part);
    }
    return sum;
}
