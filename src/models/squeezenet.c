/* SqueezeNet 1.1 (Iandola et al. 2016, with the later strides): fire modules of a 1x1 squeeze and
 * 1x1 and 3x3 expansions side by side; the logits are the mean of a last convolution's maps behind
 * a ReLU. The small form has a stem of stride 1 and padded pools. */
#include "models/models.h"

#include <math.h>

static qn_value convolve(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                         qn_window window, qn_initial initial) {
    const int64_t channels = qn_graph_shape(graph, x).dims[3];
    qn_graph_enter(graph, "%s", name);
    const qn_value w =
        qn_parameter(graph, "conv.weight",
                     QN_SHAPE(filters, window.kernel_h, window.kernel_w, channels), initial, true);
    const qn_value b =
        qn_parameter(graph, "conv.bias", QN_SHAPE(filters), (qn_initial){QN_INITIAL_ZERO, 0}, true);
    x = qn_relu(graph, "relu", qn_conv2d(graph, "conv", x, w, b, window, 1));
    qn_graph_leave(graph);
    return x;
}

/* Without batch norm, weights that start as those of other layers do would let the signal fade, and
 * the outputs hang on their biases: half of them behind the last ReLU for ever. So these keep the
 * variance (He et al. 2015, equation 10). */
static qn_value conv_relu(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                          qn_window window) {
    const double fan_in =
        (double)window.kernel_h * window.kernel_w * (double)qn_graph_shape(graph, x).dims[3];
    const qn_initial initial = {QN_INITIAL_UNIFORM, fan_in > 0 ? sqrt(6 / fan_in) : 0};
    return convolve(graph, name, x, filters, window, initial);
}

static qn_value fire(qn_graph *graph, int number, qn_value x, int64_t squeeze, int64_t expand) {
    qn_graph_enter(graph, "fire%d", number);
    x = conv_relu(graph, "squeeze", x, squeeze, qn_window_square(1, 1, 0));
    const qn_value parts[] = {
        conv_relu(graph, "expand1", x, expand, qn_window_square(1, 1, 0)),
        conv_relu(graph, "expand3", x, expand, qn_window_square(3, 1, 1)),
    };
    x = qn_concat(graph, "concat", parts, 2, -1);
    qn_graph_leave(graph);
    return x;
}

static qn_value pool(qn_graph *graph, const char *name, qn_value x, bool is_large) {
    return is_large ? qn_max_pool_ceil(graph, name, x, 3, 2)
                    : qn_max_pool(graph, name, x, qn_window_square(3, 2, 1));
}

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    const bool is_large = qn_is_large(graph, x);
    if (!qn_needs_size(graph, "squeezenet", x, is_large ? 17 : 8, "the strides of its pools"))
        return QN_NO_VALUE;
    x = conv_relu(graph, "stem", x, 64,
                  is_large ? qn_window_square(3, 2, 0) : qn_window_square(3, 1, 1));
    x = pool(graph, "pool1", x, is_large);
    x = fire(graph, 1, x, 16, 64);
    x = fire(graph, 2, x, 16, 64);
    x = pool(graph, "pool2", x, is_large);
    x = fire(graph, 3, x, 32, 128);
    x = fire(graph, 4, x, 32, 128);
    x = pool(graph, "pool3", x, is_large);
    x = fire(graph, 5, x, 48, 192);
    x = fire(graph, 6, x, 48, 192);
    x = fire(graph, 7, x, 64, 256);
    x = fire(graph, 8, x, 64, 256);
    x = qn_dropout(graph, "drop", x, 0.5);
    x = convolve(graph, "head", x, n_outputs, qn_window_square(1, 1, 0),
                 (qn_initial){QN_INITIAL_NORMAL, 0.01});
    return qn_global_average_pool(graph, "mean", x);
}

const qn_model qn_model_squeezenet = {
    .name = "squeezenet",
    .domain = "image classification",
    .source = "Iandola et al. 2016",
    .input = {3, {32, 32, 3}},
    .n_classes = 10,
    .large_size = QN_LARGE_IMAGE,
    .recipe = {.optimizer = QN_ADAM,
               .rate = 5e-4,
               .schedule = QN_COSINE,
               .warmup = 200,
               .epochs = 30,
               .batch = 64},
    .build = build,
};
