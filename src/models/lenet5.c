/* LeNet-5 with tanh and average pooling on 28x28 images. The first convolution is padded by 2, so
 * that its output has the paper's size; the last one covers all of its input. */
#include "models/models.h"

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    const qn_window half = qn_window_square(2, 2, 0), five = qn_window_square(5, 1, 0);
    if (!qn_needs_size(graph, "lenet5", x, 28, "three 5x5 convolutions and two pools"))
        return QN_NO_VALUE;
    x = qn_tanh(graph, "tanh1",
                qn_conv2d_layer(graph, "conv1", x, 6, qn_window_square(5, 1, 2), 1, true));
    x = qn_average_pool(graph, "pool1", x, half);
    x = qn_tanh(graph, "tanh2", qn_conv2d_layer(graph, "conv2", x, 16, five, 1, true));
    x = qn_average_pool(graph, "pool2", x, half);
    x = qn_tanh(graph, "tanh3", qn_conv2d_layer(graph, "conv3", x, 120, five, 1, true));
    x = qn_tanh(graph, "tanh4", qn_linear_layer(graph, "fc1", x, 84));
    return qn_linear_layer(graph, "fc2", x, n_outputs);
}

const qn_model qn_model_lenet5 = {
    .name = "lenet5",
    .domain = "image classification",
    .source = "LeCun et al. 1998",
    .input = {3, {28, 28, 1}},
    .n_classes = 10,
    .recipe = {.rate = 0.05, .momentum = 0.9, .schedule = QN_COSINE, .epochs = 3, .batch = 64},
    .build = build,
};
