/* Small networks for tests, built with the public interface as a user would. */
#ifndef QN_TESTS_SMALL_MODELS_H
#define QN_TESTS_SMALL_MODELS_H

#include "quern/quern.h"

/* Convolution, batch norm, dropout, pooling and a residual on 8x8x3. */
static qn_value small_conv_build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    qn_window window = qn_window_square(3, 1, 1);
    x = qn_conv2d_layer(graph, "conv1", x, 7, window, 1, false);
    x = qn_relu(graph, "relu1", qn_batch_norm_layer(graph, "bn1", x, 1e-5));
    qn_value y = qn_conv2d_layer(graph, "conv2", x, 7, window, 7, true);
    x = qn_relu6(graph, "relu2", qn_add(graph, "sum", x, y));
    x = qn_max_pool(graph, "pool", x, qn_window_square(2, 2, 0));
    x = qn_dropout(graph, "drop", x, 0.25);
    x = qn_tanh(graph, "tanh", qn_linear_layer(graph, "fc1", x, 13));
    return qn_linear_layer(graph, "fc2", x, n_outputs);
}

static const qn_model small_conv = {
    .name = "small-conv",
    .input = {3, {8, 8, 3}},
    .n_classes = 5,
    .recipe = {.rate = 0.05, .momentum = 0.9, .epochs = 1, .batch = 6},
    .build = small_conv_build,
};

/* One linear layer on 4 numbers: gradients can be worked out by hand. */
static qn_value small_linear_build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    return qn_linear_layer(graph, "fc", x, n_outputs);
}

static const qn_model small_linear = {
    .name = "small-linear",
    .input = {1, {4}},
    .n_classes = 3,
    .recipe = {.rate = 0.1, .epochs = 1, .batch = 8},
    .build = small_linear_build,
};

#endif
