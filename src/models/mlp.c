/* Multilayer perceptron: two hidden layers of 256 and 128 with ReLU, on any input. */
#include "models/models.h"

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    x = qn_relu(graph, "relu1", qn_linear_layer(graph, "fc1", x, 256));
    x = qn_relu(graph, "relu2", qn_linear_layer(graph, "fc2", x, 128));
    return qn_linear_layer(graph, "fc3", x, n_outputs);
}

const qn_model qn_model_mlp = {
    .name = "mlp",
    .domain = "image classification",
    .source = "Rumelhart et al. 1986",
    .input = {3, {28, 28, 1}},
    .n_classes = 10,
    .recipe = {.rate = 0.05, .momentum = 0.9, .schedule = QN_COSINE, .epochs = 5, .batch = 64},
    .build = build,
};
