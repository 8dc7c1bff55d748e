/* VGG-small: pairs of 3x3 convolutions of 128, 256 and 512 filters, a pool behind each pair, and
 * one linear layer. Without batch norm, all of it can be computed in whole numbers (NITI's
 * VGG-small-7). */
#include "models/models.h"

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    if (!qn_needs_size(graph, "vgg-small", x, 8, "three pools"))
        return QN_NO_VALUE;
    for (int stage = 0; stage < 3; stage++) {
        qn_graph_enter(graph, "stage%d", stage + 1);
        for (int i = 1; i <= 2; i++) {
            qn_graph_enter(graph, "block%d", i);
            x = qn_conv2d_layer(graph, "conv", x, 128 << stage, qn_window_square(3, 1, 1), 1, true);
            x = qn_relu(graph, "relu", x);
            qn_graph_leave(graph);
        }
        x = qn_max_pool(graph, "pool", x, qn_window_square(2, 2, 0));
        qn_graph_leave(graph);
    }
    return qn_linear_layer(graph, "fc", x, n_outputs);
}

const qn_model qn_model_vgg_small = {
    .name = "vgg-small",
    .domain = "image classification",
    .source = "Wang et al. 2020",
    .input = {3, {32, 32, 3}},
    .n_classes = 10,
    .recipe = {.rate = 0.02, .momentum = 0.9, .schedule = QN_COSINE, .epochs = 30, .batch = 64},
    .build = build,
};
