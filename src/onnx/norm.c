/* Normalisation and dropout. Batch norm and dropout do in training what they are for, whether or
 * not the file was made for inference: a file says nothing of how it is to be trained further. */
#include "base/status.h"
#include "onnx/translate.h"
#include "ops/ops.h"

/* Running statistics. A file may have several batch norms share equal ones; each gets its own. */
static qn_value read_statistic(qn_onnx_call *call, int input, const char *suffix) {
    qn_onnx_item *item = call->inputs[input];
    if (!item->initializer)
        return qn_onnx_value_of(call, input);
    if (!item->is_statistic) {
        item->is_statistic = true;
        return qn_onnx_parameter(call, input, NULL, false);
    }
    qn_onnx_item again = *item, *const inputs[] = {&again};
    qn_onnx_call one = *call;
    again.value = QN_NO_VALUE;
    again.name = qn_onnx_side_name(call, suffix);
    one.inputs = inputs;
    one.n_inputs = 1;
    return again.name ? qn_onnx_parameter(&one, 0, NULL, false) : QN_NO_VALUE;
}

static qn_status build_batch_norm(qn_onnx_call *call) {
    const int rank = qn_onnx_shape(call, 0).rank;
    const double epsilon = qn_onnx_float(call, "epsilon", 1e-5);
    const double momentum = qn_onnx_float(call, "momentum", 0.9);
    if (!qn_onnx_int(call, "spatial", 1))
        return qn_fail(QN_ERROR_UNSUPPORTED, "spatial is 0; export with opset 9 or later");
    for (int i = 1; i < 5; i++) {
        if (!qn_onnx_has(call, i))
            return qn_fail(QN_ERROR_FORMAT, "input %d is left out", i);
    }
    const qn_value x = rank < 3 ? qn_onnx_plain(call, 0) : qn_onnx_channels_last(call, 0, rank);
    const qn_value scale = qn_onnx_parameter(call, 1, NULL, true);
    const qn_value shift = qn_onnx_parameter(call, 2, NULL, true);
    const qn_value mean = read_statistic(call, 3, "running_mean");
    const qn_value variance = read_statistic(call, 4, "running_variance");
    qn_onnx_give(call, 0,
                 qn_batch_norm(call->graph, call->name, x, scale, shift, mean, variance, epsilon,
                               qn_onnx_decimal((float)(1 - momentum))),
                 rank >= 3);
    return QN_OK;
}

/* ---- layer norm ---- */

/* An input as (columns), or that many of a number where it is left out. */
static qn_value read_columns(qn_onnx_call *call, int input, int64_t columns, double fallback) {
    qn_graph *g = call->graph;
    if (!qn_onnx_has(call, input))
        return qn_op_broadcast(g, qn_onnx_side_name(call, fallback > 0 ? "ones" : "zeros"),
                               qn_op_scalar(g, NULL, fallback), QN_SHAPE(columns), 1);
    const qn_value x = qn_onnx_parameter(call, input, NULL, true);
    if (x.id < 0 || qn_graph_shape(g, x).rank == 1)
        return x;
    return qn_reshape(g, qn_onnx_side_name(call, "columns"), x, QN_SHAPE(-1));
}

/* The mean and the inverse of the deviation of each row; no gradient flows through them. */
static void give_moments(qn_onnx_call *call, qn_value y, qn_shape shape, int axis) {
    static const char *const names[] = {NULL, "mean", "inv_std"};
    const qn_value_info *info = qn_graph_value(call->graph, y);
    for (int i = axis; i < shape.rank; i++)
        shape.dims[i] = 1;
    for (int i = 1; i < 3 && info; i++) {
        if (qn_onnx_is_used(call, i))
            qn_onnx_give(call, i,
                         qn_reshape(call->graph, qn_onnx_side_name(call, names[i]),
                                    call->graph->nodes[info->producer]->outputs[i], shape),
                         false);
    }
}

static qn_status build_layer_norm(qn_onnx_call *call) {
    qn_graph *g = call->graph;
    const qn_shape shape = qn_onnx_shape(call, 0);
    int64_t axis = qn_onnx_int(call, "axis", -1);
    axis += axis < 0 ? shape.rank : 0;
    if (axis < 0 || axis >= shape.rank)
        return qn_fail(QN_ERROR_FORMAT, "axis %lld of %d", (long long)axis, shape.rank);
    const int64_t columns = qn_shape_count_range(shape, (int)axis, shape.rank);
    qn_value x = qn_onnx_plain(call, 0);
    if (axis != shape.rank - 1)
        x = qn_reshape(g, qn_onnx_side_name(call, "rows"), x, QN_SHAPE(-1, columns));
    const qn_value scale = read_columns(call, 1, columns, 1),
                   shift = read_columns(call, 2, columns, 0);
    qn_value y =
        qn_layer_norm(g, call->name, x, scale, shift, qn_onnx_float(call, "epsilon", 1e-5));
    give_moments(call, y, shape, (int)axis);
    if (axis != shape.rank - 1)
        y = qn_reshape(g, qn_onnx_side_name(call, "axes"), y, shape);
    qn_onnx_give(call, 0, y, false);
    return QN_OK;
}

/* ---- dropout ---- */

static qn_status build_dropout(qn_onnx_call *call) {
    double rate = qn_onnx_float(call, "ratio", 0.5);
    if (qn_onnx_has(call, 1)) {
        const qn_onnx_constant *ratio = qn_onnx_constant_of(call, 1);
        if (!ratio || ratio->n != 1 || !ratio->reals)
            return qn_fail(QN_ERROR_UNSUPPORTED, "its ratio is no number that is known at import");
        rate = ratio->reals[0];
    }
    if (qn_onnx_is_used(call, 1))
        return qn_fail(QN_ERROR_UNSUPPORTED, "its mask is used; export without it");
    if (rate > 0)
        qn_onnx_give(call, 0, qn_dropout(call->graph, call->name, qn_onnx_value_of(call, 0), rate),
                     qn_onnx_is_image(call, 0));
    else
        qn_onnx_give_input(call, 0, 0);
    return QN_OK;
}

static qn_status build_gelu(qn_onnx_call *call) {
    qn_onnx_give(call, 0, qn_gelu(call->graph, call->name, qn_onnx_value_of(call, 0)),
                 qn_onnx_is_image(call, 0));
    return QN_OK;
}

const qn_onnx_translator qn_onnx_norm_translators[] = {
    {"BatchNormalization", 5, 5, build_batch_norm},
    {"LayerNormalization", 1, 3, build_layer_norm},
    {"Dropout", 1, 3, build_dropout},
    {"Gelu", 1, 1, build_gelu}, /* of later opsets, and what recognise.c makes of erf */
    {NULL, 0, 0, NULL},
};
