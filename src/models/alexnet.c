/* AlexNet with the channel widths of "One weird trick" (Krizhevsky 2014). The small form has 3x3
 * convolutions and 2x2 pools for 32x32 images; the ImageNet form is the published one. */
#include "models/models.h"

static qn_value conv_relu(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                          qn_window window) {
    return qn_relu(graph, NULL, qn_conv2d_layer(graph, name, x, filters, window, 1, true));
}

static qn_value classify(qn_graph *graph, qn_value x, int n_outputs) {
    x = qn_dropout(graph, "drop1", qn_flatten(graph, "flatten", x), 0.5);
    x = qn_relu(graph, NULL, qn_linear_layer(graph, "fc1", x, 4096));
    x = qn_dropout(graph, "drop2", x, 0.5);
    x = qn_relu(graph, NULL, qn_linear_layer(graph, "fc2", x, 4096));
    return qn_linear_layer(graph, "fc3", x, n_outputs);
}

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    const bool is_large = qn_is_large(graph, x);
    const qn_window pool = is_large ? qn_window_square(3, 2, 0) : qn_window_square(2, 2, 0);
    const qn_window three = qn_window_square(3, 1, 1);
    if (!qn_needs_size(graph, "alexnet", x, is_large ? 63 : 16, "the strides and three pools"))
        return QN_NO_VALUE;
    x = conv_relu(graph, "conv1", x, 64,
                  is_large ? qn_window_square(11, 4, 2) : qn_window_square(3, 2, 1));
    x = qn_max_pool(graph, "pool1", x, pool);
    x = conv_relu(graph, "conv2", x, 192, is_large ? qn_window_square(5, 1, 2) : three);
    x = qn_max_pool(graph, "pool2", x, pool);
    x = conv_relu(graph, "conv3", x, 384, three);
    x = conv_relu(graph, "conv4", x, 256, three);
    x = conv_relu(graph, "conv5", x, 256, three);
    x = qn_max_pool(graph, "pool3", x, pool);
    return classify(graph, x, n_outputs);
}

const qn_model qn_model_alexnet = {
    .name = "alexnet",
    .domain = "image classification",
    .source = "Krizhevsky et al. 2012",
    .input = {3, {32, 32, 3}},
    .n_classes = 10,
    .large_size = QN_LARGE_IMAGE,
    .recipe = {.rate = 0.01,
               .momentum = 0.9,
               .weight_decay = 5e-4,
               .schedule = QN_COSINE,
               .epochs = 30,
               .batch = 64},
    .build = build,
};
