/* DenseNet as first published (Huang et al. 2017, section 3, growth 12, no bottleneck, no
 * compression, no dropout): three dense blocks, each of whose layers appends 12 channels to all
 * that came before; a 1x1 convolution and an average pool between blocks. One form, for 32x32. */
#include "models/models.h"

enum { GROWTH = 12 };

/* What distinguishes the depths. */
typedef struct densenet {
    const char *name;
    int n_layers; /* of a block */
} densenet;

static qn_value norm_relu(qn_graph *graph, qn_value x) {
    return qn_relu(graph, "relu", qn_batch_norm_layer(graph, "norm", x, 1e-5));
}

static qn_value add_block(qn_graph *graph, qn_value x, int n_layers) {
    for (int i = 1; i <= n_layers; i++) {
        qn_graph_enter(graph, "layer%d", i);
        qn_value y = qn_conv2d_layer(graph, "conv", norm_relu(graph, x), GROWTH,
                                     qn_window_square(3, 1, 1), 1, false);
        x = qn_concat(graph, "concat", (const qn_value[]){x, y}, 2, -1);
        qn_graph_leave(graph);
    }
    return norm_relu(graph, x);
}

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    enum { N_BLOCKS = 3 };
    const densenet *net = user;
    if (!qn_needs_size(graph, net->name, x, 4, "two pools"))
        return QN_NO_VALUE;
    x = qn_conv2d_layer(graph, "stem", x, 16, qn_window_square(3, 1, 1), 1, false);
    for (int i = 1; i <= N_BLOCKS; i++) {
        qn_graph_enter(graph, "block%d", i);
        x = add_block(graph, x, net->n_layers);
        if (i < N_BLOCKS) {
            const int64_t channels = qn_graph_shape(graph, x).dims[3];
            x = qn_conv2d_layer(graph, "conv", x, channels, qn_window_square(1, 1, 0), 1, false);
            x = qn_average_pool(graph, "pool", x, qn_window_square(2, 2, 0));
        }
        qn_graph_leave(graph);
    }
    return qn_linear_layer(graph, "fc", qn_global_average_pool(graph, "mean", x), n_outputs);
}

static densenet depth40 = {"densenet40", 12}, depth100 = {"densenet100", 32};

#define DENSENET(NAME, NET)                                                                        \
    {                                                                                              \
        .name = NAME, .domain = "image classification", .source = "Huang et al. 2017",             \
        .input = {3, {32, 32, 3}}, .n_classes = 10,                                                \
        .recipe = {.rate = 0.1,                                                                    \
                   .momentum = 0.9,                                                                \
                   .weight_decay = 1e-4,                                                           \
                   .nesterov = true,                                                               \
                   .schedule = QN_COSINE,                                                          \
                   .epochs = 30,                                                                   \
                   .batch = 64},                                                                   \
        .user = &NET, .build = build,                                                              \
    }

const qn_model qn_model_densenet40 = DENSENET("densenet40", depth40);
const qn_model qn_model_densenet100 = DENSENET("densenet100", depth100);
