/* LeNet with ReLU and max pooling on 28x28 images: two 5x5 convolutions of 20 and 50 filters, not
 * padded, each followed by a pool, and a hidden layer of 500. All of it can be computed in
 * whole numbers. */
#include "models/models.h"

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    const qn_window half = qn_window_square(2, 2, 0), five = qn_window_square(5, 1, 0);
    if (!qn_needs_size(graph, "lenet-relu", x, 16, "two 5x5 convolutions and two pools"))
        return QN_NO_VALUE;
    x = qn_relu(graph, "relu1", qn_conv2d_layer(graph, "conv1", x, 20, five, 1, true));
    x = qn_max_pool(graph, "pool1", x, half);
    x = qn_relu(graph, "relu2", qn_conv2d_layer(graph, "conv2", x, 50, five, 1, true));
    x = qn_max_pool(graph, "pool2", x, half);
    x = qn_relu(graph, "relu3", qn_linear_layer(graph, "fc1", x, 500));
    return qn_linear_layer(graph, "fc2", x, n_outputs);
}

const qn_model qn_model_lenet_relu = {
    .name = "lenet-relu",
    .domain = "image classification",
    .source = "Jia et al. 2014",
    .input = {3, {28, 28, 1}},
    .n_classes = 10,
    .recipe = {.rate = 0.05, .momentum = 0.9, .schedule = QN_COSINE, .epochs = 3, .batch = 64},
    .build = build,
};
