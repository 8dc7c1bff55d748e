/* Normalisation and dropout. Batch norm and dropout do in training what they are for, whether or
 * not the file was made for inference: a file says nothing of how it is to be trained further. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"
#include "ops/ops.h"

#include <math.h>
#include <string.h>

static const double LEAST_SUM = 1e-30; /* of LpNormalization */

/* Running statistics. A file may have several batch norms share equal ones, with one another or
 * with weights that begin alike; each gets its own. */
static qn_value read_statistic(qn_onnx_call *call, int input, const char *suffix) {
    qn_onnx_item *item = call->inputs[input];
    if (!item->is_statistic && item->value.id < 0) {
        item->is_statistic = true;
        return qn_onnx_parameter(call, input, NULL, false);
    }
    qn_onnx_item again = *item, *const inputs[] = {&again};
    qn_onnx_call one = *call;
    again.value = QN_NO_VALUE;
    again.name = qn_onnx_side_name(call, suffix);
    one.inputs = inputs;
    one.n_inputs = 1;
    call->builder->statistic = input;
    return again.name ? qn_onnx_parameter(&one, 0, NULL, false) : QN_NO_VALUE;
}

/* The mean over all axes but the last, (C). */
static qn_value mean_of_channels(qn_onnx_call *call, qn_value x) {
    const qn_shape s = qn_graph_shape(call->graph, x);
    if (x.id < 0)
        return x;
    x = qn_reshape(call->graph, qn_onnx_side_name(call, "rows"), x,
                   QN_SHAPE(-1, s.dims[s.rank - 1]));
    return qn_reduce(call->graph, qn_onnx_side_name(call, "mean"), x, 0, QN_MEAN);
}

/* With statistics that are computed: in training mode the batch's own, those of the inputs do not
 * count then; otherwise those of the inputs. The same in training and inference.
 *     (x - mean) * scale / sqrt(variance + epsilon) + shift */
static qn_status give_computed_norm(qn_onnx_call *call, qn_value x, double epsilon) {
    const bool is_batch = qn_onnx_int(call, "training_mode", 0) != 0;
    const qn_function plus = {QN_FUNCTION_LINE, 1, epsilon, -INFINITY, INFINITY};
    qn_graph *g = call->graph;
    const qn_value mean = is_batch ? mean_of_channels(call, x) : qn_onnx_plain(call, 3);
    qn_value y = qn_op_combine(g, qn_onnx_side_name(call, "centred"), QN_COMBINE_SUBTRACT, x, mean);
    qn_value size =
        is_batch ? mean_of_channels(call, qn_multiply(g, qn_onnx_side_name(call, "square"), y, y))
                 : qn_onnx_plain(call, 4);
    size = qn_op_function(g, qn_onnx_side_name(call, "plus"), size, plus);
    size = qn_op_function(g, qn_onnx_side_name(call, "root"), size,
                          (qn_function){.kind = QN_FUNCTION_SQRT});
    size = qn_op_combine(g, qn_onnx_side_name(call, "factor"), QN_COMBINE_DIVIDE,
                         qn_onnx_parameter(call, 1, NULL, true), size);
    y = qn_op_combine(g, qn_onnx_side_name(call, "scaled"), QN_COMBINE_MULTIPLY, y, size);
    y = qn_op_combine(g, call->name, QN_COMBINE_ADD, y, qn_onnx_parameter(call, 2, NULL, true));
    qn_onnx_give(call, 0, y, qn_onnx_shape(call, 0).rank >= 3);
    return g->status;
}

/* Whether statistics are the file's own, which training moves. In training mode a norm that gives
 * no new ones, or has a node's constants, has nothing to move: it is by its batch, always. */
static bool has_statistics(const qn_onnx_call *call) {
    const bool is_batch = qn_onnx_int(call, "training_mode", 0) != 0;
    const qn_onnx_item *mean = call->inputs[3], *variance = call->inputs[4];
    if (!mean->initializer || !variance->initializer)
        return false;
    return !is_batch || (!mean->is_constant_node && !variance->is_constant_node &&
                         call->node->n_outputs > 1 && *call->node->outputs[1]);
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
    if (!has_statistics(call))
        return give_computed_norm(call, x, epsilon);
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
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "its ratio is not a number that is known at import");
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

/* ---- norms of samples and groups of channels ---- */

/* Numbers (C), or one for each of G groups, beside (N, C, ...): (C, 1, ...). */
static qn_value beside_channels(qn_onnx_call *call, int input, int64_t channels, int rank) {
    qn_graph *g = call->graph;
    qn_value x = qn_onnx_parameter(call, input, NULL, true);
    const qn_shape s = qn_graph_shape(g, x);
    qn_shape wide = {.rank = rank - 1, .dims = {channels}};
    for (int i = 1; i < wide.rank; i++)
        wide.dims[i] = 1;
    if (x.id < 0 || s.rank != 1 || s.dims[0] < 1 || channels % s.dims[0] != 0) {
        qn_graph_fail(g, QN_ERROR_FORMAT, "%s: its input %d is not one number for each channel",
                      call->name, input);
        return QN_NO_VALUE;
    }
    if (s.dims[0] != channels) {
        x = qn_reshape(g, qn_onnx_side_name(call, "groups"), x, QN_SHAPE(s.dims[0], 1));
        x = qn_expand(g, qn_onnx_side_name(call, "each"), x,
                      QN_SHAPE(s.dims[0], channels / s.dims[0]));
    }
    return qn_reshape(g, qn_onnx_side_name(call, "channels"), x, wide);
}

/* Of each sample so many rows, each with a mean of 0 and a deviation of 1; then scale and shift of
 * each channel (Wu and He 2018; Ulyanov et al. 2016, where each channel is a row). */
static qn_status give_group_norm(qn_onnx_call *call, int64_t groups) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    if (shape.rank < 2 || groups < 1 || shape.dims[1] % groups != 0)
        return qn_fail(QN_ERROR_FORMAT, "%lld groups do not divide its channels",
                       (long long)groups);
    const int64_t columns = qn_shape_count(shape) / shape.dims[0] / groups;
    qn_value x = qn_reshape(g, qn_onnx_side_name(call, "rows"), qn_onnx_plain(call, 0),
                            QN_SHAPE(shape.dims[0] * groups, columns));
    const qn_value one = qn_op_scalar(g, qn_onnx_side_name(call, "one"), 1);
    const qn_value zero = qn_op_scalar(g, qn_onnx_side_name(call, "zero"), 0);
    x = qn_layer_norm(
        g, qn_onnx_side_name(call, "norm"), x,
        qn_op_broadcast(g, qn_onnx_side_name(call, "ones"), one, QN_SHAPE(columns), 1),
        qn_op_broadcast(g, qn_onnx_side_name(call, "zeros"), zero, QN_SHAPE(columns), 1),
        qn_onnx_float(call, "epsilon", 1e-5));
    x = qn_reshape(g, qn_onnx_side_name(call, "axes"), x, shape);
    x = qn_op_combine(g, qn_onnx_side_name(call, "scaled"), QN_COMBINE_MULTIPLY, x,
                      beside_channels(call, 1, shape.dims[1], shape.rank));
    x = qn_op_combine(g, call->name, QN_COMBINE_ADD, x,
                      beside_channels(call, 2, shape.dims[1], shape.rank));
    qn_onnx_give(call, 0, x, false);
    return g->status;
}

static qn_status build_instance_norm(qn_onnx_call *call) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    return give_group_norm(call, shape.rank > 1 ? shape.dims[1] : 0);
}

static qn_status build_group_norm(qn_onnx_call *call) {
    return give_group_norm(call, qn_onnx_int(call, "num_groups", 0));
}

/* Sum or mean over the axes from one on; they stay, with an extent of 1. */
static qn_value reduce_from(qn_onnx_call *call, qn_value x, int axis, qn_reduction how) {
    qn_graph *g = call->graph;
    qn_shape shape = qn_graph_shape(g, x);
    x = qn_reshape(g, qn_onnx_side_name(call, "flat"), x,
                   QN_SHAPE(qn_shape_count_range(shape, 0, axis),
                            qn_shape_count_range(shape, axis, shape.rank)));
    x = qn_reduce(g, qn_onnx_side_name(call, "reduced"), x, 1, how);
    for (int i = axis; i < shape.rank; i++)
        shape.dims[i] = 1;
    return qn_reshape(g, qn_onnx_side_name(call, "beside"), x, shape);
}

/* x / sqrt(mean(x * x) + epsilon) * scale  (Zhang and Sennrich 2019) */
static qn_status build_rms_norm(qn_onnx_call *call) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", -1), shape.rank, &axis));
    const qn_value x = qn_onnx_plain(call, 0);
    const qn_value square = qn_multiply(g, qn_onnx_side_name(call, "square"), x, x);
    const qn_function plus = {QN_FUNCTION_LINE, 1, qn_onnx_float(call, "epsilon", 1e-5), -INFINITY,
                              INFINITY};
    qn_value size = reduce_from(call, square, axis, QN_MEAN);
    size = qn_op_function(g, qn_onnx_side_name(call, "plus"), size, plus);
    size = qn_op_function(g, qn_onnx_side_name(call, "root"), size,
                          (qn_function){.kind = QN_FUNCTION_SQRT});
    qn_value y = qn_op_combine(g, qn_onnx_side_name(call, "norm"), QN_COMBINE_DIVIDE, x, size);
    y = qn_op_combine(g, call->name, QN_COMBINE_MULTIPLY, y,
                      qn_onnx_parameter(call, 1, NULL, true));
    qn_onnx_give(call, 0, y, false);
    return g->status;
}

/* Over channels: x / (bias + alpha / size * the sum of squares of so many beside it) ^ beta
 * (Krizhevsky et al. 2012, section 3.3). */
static qn_status build_lrn(qn_onnx_call *call) {
    const int rank = qn_onnx_shape(call, 0).rank;
    const int64_t size = qn_onnx_int(call, "size", 0);
    const double alpha = qn_onnx_float(call, "alpha", 1e-4),
                 beta = qn_onnx_float(call, "beta", 0.75);
    qn_graph *g = call->graph;
    if (rank < 3 || size < 1 || size > 1024)
        return qn_fail(QN_ERROR_UNSUPPORTED, "a window of %lld channels of an input of rank %d",
                       (long long)size, rank);
    const qn_value x = qn_onnx_channels_last(call, 0, rank);
    const int64_t channels = qn_graph_shape(g, x).dims[rank - 1];
    qn_value square = qn_multiply(g, qn_onnx_side_name(call, "square"), x, x), sum = QN_NO_VALUE;
    if (size > 1)
        square = qn_pad(g, qn_onnx_side_name(call, "pad"), square, rank - 1, (size - 1) / 2,
                        size / 2, QN_BORDER_VALUE, 0);
    for (int64_t i = 0; i < size; i++) {
        const qn_value part = size == 1 ? square
                                        : qn_slice(g, qn_onnx_side_name(call, "part"), square,
                                                   rank - 1, i, i + channels);
        sum = i == 0 ? part : qn_add(g, qn_onnx_side_name(call, "sum"), sum, part);
    }
    const qn_function line = {QN_FUNCTION_LINE, alpha / (double)size,
                              qn_onnx_float(call, "bias", 1), -INFINITY, INFINITY};
    sum = qn_op_function(g, qn_onnx_side_name(call, "line"), sum, line);
    sum = qn_op_function(g, qn_onnx_side_name(call, "power"), sum,
                         (qn_function){.kind = QN_FUNCTION_POWER, .a = -beta});
    qn_onnx_give(call, 0, qn_multiply(g, call->name, x, sum), true);
    return g->status;
}

/* x over the sum of its absolute values, or the root of that of its squares, along an axis; zeros
 * stay zeros, as the sum counts at least LEAST_SUM. */
static qn_status build_lp_norm(qn_onnx_call *call) {
    const qn_onnx_operand x = qn_onnx_operand_of(call, 0);
    const int64_t p = qn_onnx_int(call, "p", 2);
    qn_graph *g = call->graph;
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", -1), x.shape.rank, &axis));
    axis = qn_onnx_place_axis(&x, axis);
    if (p != 1 && p != 2)
        return qn_fail(QN_ERROR_UNSUPPORTED, "a norm of power %lld", (long long)p);
    qn_value size = p == 2 ? qn_multiply(g, qn_onnx_side_name(call, "square"), x.x, x.x)
                           : qn_op_function(g, qn_onnx_side_name(call, "size"), x.x,
                                            (qn_function){.kind = QN_FUNCTION_ABS});
    qn_shape one = qn_graph_shape(g, x.x);
    size = qn_reduce(g, qn_onnx_side_name(call, "sum"), size, axis, QN_SUM);
    size = qn_op_function(g, qn_onnx_side_name(call, "least"), size,
                          (qn_function){QN_FUNCTION_LINE, 1, 0, LEAST_SUM, INFINITY});
    one.dims[axis] = 1;
    size = qn_reshape(g, qn_onnx_side_name(call, "beside"), size, one);
    if (p == 2)
        size = qn_op_function(g, qn_onnx_side_name(call, "root"), size,
                              (qn_function){.kind = QN_FUNCTION_SQRT});
    qn_onnx_give_like(call, 0, qn_op_combine(g, call->name, QN_COMBINE_DIVIDE, x.x, size),
                      x.is_image);
    return g->status;
}

/* x Phi(x), or by tanh, as one says (Hendrycks and Gimpel 2016, section 2). */
static qn_status build_gelu(qn_onnx_call *call) {
    qn_graph *g = call->graph;
    if (strcmp(qn_onnx_text(call, "approximate", "none"), "tanh") == 0) {
        const qn_value x = qn_onnx_value_of(call, 0);
        qn_value y = qn_multiply(g, qn_onnx_side_name(call, "square"), x, x);
        y = qn_multiply(g, qn_onnx_side_name(call, "cube"), y, x);
        y = qn_scale(g, qn_onnx_side_name(call, "small"), y, 0.044715);
        y = qn_add(g, qn_onnx_side_name(call, "sum"), y, x);
        y = qn_scale(g, qn_onnx_side_name(call, "inner"), y, 0.79788456080286535588);
        y = qn_tanh(g, qn_onnx_side_name(call, "tanh"), y);
        y = qn_op_function(g, qn_onnx_side_name(call, "half"), y,
                           (qn_function){QN_FUNCTION_LINE, 0.5, 0.5, -INFINITY, INFINITY});
        qn_onnx_give(call, 0, qn_multiply(g, call->name, x, y), qn_onnx_is_image(call, 0));
        return g->status;
    }
    qn_onnx_give(call, 0, qn_gelu(call->graph, call->name, qn_onnx_value_of(call, 0)),
                 qn_onnx_is_image(call, 0));
    return QN_OK;
}

const qn_onnx_translator qn_onnx_norm_translators[] = {
    {"BatchNormalization", 5, 5, build_batch_norm},
    {"LayerNormalization", 1, 3, build_layer_norm},
    {"InstanceNormalization", 3, 3, build_instance_norm},
    {"GroupNormalization", 3, 3, build_group_norm},
    {"RMSNormalization", 2, 2, build_rms_norm},
    {"LRN", 1, 1, build_lrn},
    {"LpNormalization", 1, 1, build_lp_norm},
    {"Dropout", 1, 3, build_dropout},
    {"Gelu", 1, 1, build_gelu}, /* of later opsets, and what recognise.c makes of erf */
    {NULL, 0, 0, NULL},
};
