/* VGG: five stages of 3x3 convolutions, each ended by a pool. The small form has batch norm behind
 * every convolution (which keeps its bias) and a single linear layer; the ImageNet form is the
 * published one, without batch norm and with three linear layers. */
#include "models/models.h"

/* What distinguishes the depths. */
typedef struct vgg {
    const char *name;
    int n_blocks[5];
} vgg;

static qn_value add_stages(qn_graph *graph, const vgg *net, qn_value x, bool has_norm) {
    static const int64_t widths[5] = {64, 128, 256, 512, 512};
    for (int stage = 0; stage < 5; stage++) {
        qn_graph_enter(graph, "stage%d", stage + 1);
        for (int i = 1; i <= net->n_blocks[stage]; i++) {
            qn_graph_enter(graph, "block%d", i);
            x = qn_conv2d_layer(graph, "conv", x, widths[stage], qn_window_square(3, 1, 1), 1,
                                true);
            if (has_norm)
                x = qn_batch_norm_layer(graph, "norm", x, 1e-5);
            x = qn_relu(graph, "relu", x);
            qn_graph_leave(graph);
        }
        x = qn_max_pool(graph, "pool", x, qn_window_square(2, 2, 0));
        qn_graph_leave(graph);
    }
    return x;
}

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    const vgg *net = user;
    const bool is_large = qn_is_large(graph, x);
    if (!qn_needs_size(graph, net->name, x, 32, "five pools"))
        return QN_NO_VALUE;
    x = add_stages(graph, net, x, !is_large);
    if (!is_large)
        return qn_linear_layer(graph, "fc", x, n_outputs);
    x = qn_relu(graph, "relu1", qn_linear_layer(graph, "fc1", x, 4096));
    x = qn_dropout(graph, "drop1", x, 0.5);
    x = qn_relu(graph, "relu2", qn_linear_layer(graph, "fc2", x, 4096));
    x = qn_dropout(graph, "drop2", x, 0.5);
    return qn_linear_layer(graph, "fc3", x, n_outputs);
}

static vgg depth11 = {"vgg11", {1, 1, 2, 2, 2}}, depth16 = {"vgg16", {2, 2, 3, 3, 3}},
           depth19 = {"vgg19", {2, 2, 4, 4, 4}};

#define VGG(NAME, NET)                                                                             \
    {                                                                                              \
        .name = NAME, .domain = "image classification", .source = "Simonyan and Zisserman 2015",   \
        .input = {3, {32, 32, 3}}, .n_classes = 10, .large_size = QN_LARGE_IMAGE,                  \
        .recipe = {.rate = 0.05,                                                                   \
                   .momentum = 0.9,                                                                \
                   .weight_decay = 5e-4,                                                           \
                   .schedule = QN_COSINE,                                                          \
                   .epochs = 30,                                                                   \
                   .batch = 64},                                                                   \
        .user = &NET, .build = build,                                                              \
    }

const qn_model qn_model_vgg11 = VGG("vgg11", depth11);
const qn_model qn_model_vgg16 = VGG("vgg16", depth16);
const qn_model qn_model_vgg19 = VGG("vgg19", depth19);
