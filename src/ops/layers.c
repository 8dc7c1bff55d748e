/* Layers: operators with parameters of their own. */
#include "base/status.h"
#include "ops/shared.h"

#include <math.h>
#include <stdio.h>

enum { NAME_BYTES = 512 };

qn_window qn_window_square(int kernel, int stride, int pad) {
    return (qn_window){.kernel_h = kernel,
                       .kernel_w = kernel,
                       .stride_h = stride,
                       .stride_w = stride,
                       .pad_top = pad,
                       .pad_left = pad,
                       .pad_bottom = pad,
                       .pad_right = pad};
}

static bool has_name(qn_graph *graph, const char *layer, const char *name) {
    QN_NEED_OR(graph, "graph", false);
    if (!name)
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "a %s layer needs a name for its parameters",
                      layer);
    return graph->status == QN_OK;
}

/* The parameter "NAME.what". */
static qn_value parameter(qn_graph *graph, const char *name, const char *what, qn_shape shape,
                          qn_initial initial, bool trainable) {
    char full[NAME_BYTES];
    snprintf(full, sizeof full, "%s.%s", name, what);
    return qn_parameter(graph, full, shape, initial, trainable);
}

static qn_initial uniform(double fan_in) {
    return (qn_initial){QN_INITIAL_UNIFORM, fan_in > 0 ? 1 / sqrt(fan_in) : 0};
}

qn_value qn_conv2d_layer(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                         qn_window window, int groups, bool bias) {
    if (!has_name(graph, "conv2d", name))
        return QN_NO_VALUE;
    const qn_shape input = qn_graph_shape(graph, x);
    const int64_t channels = input.rank == 4 ? input.dims[3] : 0;
    const int parts = groups ? groups : 1;
    if (channels < 1 || parts < 0 || channels % parts != 0 || filters % parts != 0) {
        char text[QN_SHAPE_TEXT];
        qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                      "%s%s (conv2d): %lld filters in %d groups do not fit input %s", graph->scope,
                      name, (long long)filters, groups, qn_shape_print(input, text));
        return QN_NO_VALUE;
    }
    const qn_shape shape = QN_SHAPE(filters, window.kernel_h, window.kernel_w, channels / parts);
    const qn_initial initial =
        uniform((double)window.kernel_h * window.kernel_w * (double)(channels / parts));
    qn_value w = parameter(graph, name, "weight", shape, initial, true), b = QN_NO_VALUE;
    if (bias)
        b = parameter(graph, name, "bias", QN_SHAPE(filters), initial, true);
    return qn_conv2d(graph, name, x, w, b, window, groups);
}

qn_value qn_conv2d_transpose_layer(qn_graph *graph, const char *name, qn_value x, int64_t channels,
                                   qn_window window, bool bias) {
    if (!has_name(graph, "conv2d_transpose", name))
        return QN_NO_VALUE;
    const int64_t inputs = qn_shape_columns(qn_graph_shape(graph, x));
    const qn_shape shape = QN_SHAPE(inputs, window.kernel_h, window.kernel_w, channels);
    const qn_initial initial =
        uniform((double)window.kernel_h * window.kernel_w * (double)channels);
    qn_value w = parameter(graph, name, "weight", shape, initial, true), b = QN_NO_VALUE;
    if (bias)
        b = parameter(graph, name, "bias", QN_SHAPE(channels), initial, true);
    return qn_conv2d_transpose(graph, name, x, w, b, window);
}

qn_value qn_conv1d_layer(qn_graph *graph, const char *name, qn_value x, int64_t filters, int kernel,
                         int pad_before, int pad_after) {
    if (!has_name(graph, "conv1d", name))
        return QN_NO_VALUE;
    const int64_t channels = qn_shape_columns(qn_graph_shape(graph, x));
    const qn_initial initial = uniform((double)kernel * (double)channels);
    qn_value w =
        parameter(graph, name, "weight", QN_SHAPE(filters, kernel, channels), initial, true);
    qn_value b = parameter(graph, name, "bias", QN_SHAPE(filters), initial, true);
    return qn_conv1d(graph, name, x, w, b, pad_before, pad_after);
}

qn_value qn_linear_layer(qn_graph *graph, const char *name, qn_value x, int64_t outputs) {
    char flat[NAME_BYTES];
    if (!has_name(graph, "linear", name))
        return QN_NO_VALUE;
    snprintf(flat, sizeof flat, "%s.flatten", name);
    x = qn_flatten(graph, flat, x);
    const int64_t inputs = qn_graph_shape(graph, x).dims[1];
    const qn_initial initial = uniform((double)inputs);
    qn_value w = parameter(graph, name, "weight", QN_SHAPE(outputs, inputs), initial, true);
    qn_value b = parameter(graph, name, "bias", QN_SHAPE(outputs), initial, true);
    return qn_linear(graph, name, x, w, b);
}

/* Over the rows of x, whatever axes they have. */
qn_value qn_linear_last_layer(qn_graph *graph, const char *name, qn_value x, int64_t outputs) {
    char label[NAME_BYTES];
    if (!has_name(graph, "linear", name))
        return QN_NO_VALUE;
    qn_shape shape = qn_graph_shape(graph, x);
    if (shape.rank == 2)
        return qn_linear_layer(graph, name, x, outputs);
    if (shape.rank == 0) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "%s%s (linear): a scalar has no last axis",
                      graph->scope, name);
        return QN_NO_VALUE;
    }
    snprintf(label, sizeof label, "%s.rows", name);
    const qn_shape rows = QN_SHAPE(qn_shape_rows(shape), qn_shape_columns(shape));
    qn_value y = qn_linear_layer(graph, name, qn_reshape(graph, label, x, rows), outputs);
    shape.dims[shape.rank - 1] = outputs;
    snprintf(label, sizeof label, "%s.axes", name);
    return qn_reshape(graph, label, y, shape);
}

qn_value qn_embedding_layer(qn_graph *graph, const char *name, qn_value indices, int64_t n_rows,
                            int64_t channels, double deviation) {
    if (!has_name(graph, "embedding", name))
        return QN_NO_VALUE;
    const qn_initial initial = {QN_INITIAL_NORMAL, deviation};
    qn_value table = parameter(graph, name, "weight", QN_SHAPE(n_rows, channels), initial, true);
    return qn_embedding(graph, name, table, indices);
}

qn_value qn_layer_norm_layer(qn_graph *graph, const char *name, qn_value x, double epsilon) {
    if (!has_name(graph, "layer_norm", name))
        return QN_NO_VALUE;
    const qn_initial zero = {QN_INITIAL_ZERO, 0}, one = {QN_INITIAL_ONE, 0};
    const qn_shape shape = QN_SHAPE(qn_shape_columns(qn_graph_shape(graph, x)));
    qn_value scale = parameter(graph, name, "scale", shape, one, true);
    qn_value shift = parameter(graph, name, "shift", shape, zero, true);
    return qn_layer_norm(graph, name, x, scale, shift, epsilon);
}

/* Two biases, since others' models have two and count them. */
qn_lstm_result qn_lstm_layer(qn_graph *graph, const char *name, qn_value x, int64_t outputs,
                             qn_value h, qn_value c, qn_value lengths) {
    char label[NAME_BYTES];
    if (!has_name(graph, "lstm", name))
        return (qn_lstm_result){QN_NO_VALUE, QN_NO_VALUE, QN_NO_VALUE};
    const int64_t inputs = qn_shape_columns(qn_graph_shape(graph, x)), gates = 4 * outputs;
    const qn_initial initial = uniform((double)outputs);
    qn_value wx = parameter(graph, name, "weight_x", QN_SHAPE(gates, inputs), initial, true);
    qn_value wh = parameter(graph, name, "weight_h", QN_SHAPE(gates, outputs), initial, true);
    qn_value bx = parameter(graph, name, "bias_x", QN_SHAPE(gates), initial, true);
    qn_value bh = parameter(graph, name, "bias_h", QN_SHAPE(gates), initial, true);
    snprintf(label, sizeof label, "%s.bias", name);
    return qn_lstm(graph, name, x, wx, wh, qn_add(graph, label, bx, bh), h, c, lengths);
}

qn_value qn_batch_norm_layer(qn_graph *graph, const char *name, qn_value x, double epsilon) {
    if (!has_name(graph, "batch_norm", name))
        return QN_NO_VALUE;
    const qn_initial zero = {QN_INITIAL_ZERO, 0}, one = {QN_INITIAL_ONE, 0};
    const qn_shape shape = QN_SHAPE(qn_shape_columns(qn_graph_shape(graph, x)));
    qn_value scale = parameter(graph, name, "scale", shape, one, true);
    qn_value shift = parameter(graph, name, "shift", shape, zero, true);
    qn_value mean = parameter(graph, name, "running_mean", shape, zero, false);
    qn_value variance = parameter(graph, name, "running_variance", shape, one, false);
    return qn_batch_norm(graph, name, x, scale, shift, mean, variance, epsilon, 0.1);
}
