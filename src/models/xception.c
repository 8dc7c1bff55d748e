/* Xception (Chollet 2017, figure 5): separable convolutions, depthwise 3x3 and 1x1 with one batch
 * norm, in blocks with a shortcut. The small form has a stem and a first block of stride 1; the
 * ImageNet form has the paper's stem without padding. */
#include "models/models.h"

static qn_value separable(qn_graph *graph, const char *name, qn_value x, int64_t filters) {
    const int64_t channels = qn_graph_shape(graph, x).dims[3];
    qn_graph_enter(graph, "%s", name);
    x = qn_conv2d_layer(graph, "depthwise", x, channels, qn_window_square(3, 1, 1), (int)channels,
                        false);
    x = qn_conv2d_layer(graph, "pointwise", x, filters, qn_window_square(1, 1, 0), 1, false);
    x = qn_batch_norm_layer(graph, "norm", x, 1e-5);
    qn_graph_leave(graph);
    return x;
}

/* A residual block: its separable convolutions' filters, up to a 0, and its stride. */
typedef struct block {
    int64_t filters[3];
    int stride;
    bool begins_with_relu;
} block;

static qn_value add_block(qn_graph *graph, const block *b, qn_value x) {
    static const char *const names[] = {"part1", "part2", "part3"};
    static const char *const relus[] = {"relu1", "relu2", "relu3"};
    const int64_t channels = qn_graph_shape(graph, x).dims[3];
    qn_value y = x, side = x;
    for (int i = 0; i < 3 && b->filters[i]; i++) {
        if (i > 0 || b->begins_with_relu)
            y = qn_relu(graph, relus[i], y);
        y = separable(graph, names[i], y, b->filters[i]);
    }
    if (b->stride > 1)
        y = qn_max_pool(graph, "pool", y, qn_window_square(3, b->stride, 1));
    const int64_t filters = qn_graph_shape(graph, y).dims[3];
    if (b->stride > 1 || filters != channels)
        side = qn_conv_norm(graph, "shortcut", x, filters, 1, b->stride, 1);
    return qn_add(graph, "sum", y, side);
}

static qn_value add_blocks(qn_graph *graph, qn_value x, int first_stride) {
    enum { N_BLOCKS = 12 };
    for (int i = 0; i < N_BLOCKS; i++) {
        block b = {{728, 728, 728}, 1, true};
        if (i == 0)
            b = (block){{128, 128}, first_stride, false};
        else if (i == 1)
            b = (block){{256, 256}, 2, true};
        else if (i == 2)
            b = (block){{728, 728}, 2, true};
        else if (i == N_BLOCKS - 1)
            b = (block){{728, 1024}, 2, true};
        qn_graph_enter(graph, "block%d", i + 1);
        x = add_block(graph, &b, x);
        qn_graph_leave(graph);
    }
    return x;
}

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    const bool is_large = qn_is_large(graph, x);
    const qn_window three = qn_window_square(3, 1, is_large ? 0 : 1);
    if (!qn_needs_size(graph, "xception", x, 8, "the strides of its blocks"))
        return QN_NO_VALUE;
    x = qn_conv_norm_relu_window(graph, "stem1", x, 32,
                                 is_large ? qn_window_square(3, 2, 0) : three, 1e-5);
    x = qn_conv_norm_relu_window(graph, "stem2", x, 64, three, 1e-5);
    x = add_blocks(graph, x, is_large ? 2 : 1);
    x = qn_relu(graph, "relu1", separable(graph, "exit1", x, 1536));
    x = qn_relu(graph, "relu2", separable(graph, "exit2", x, 2048));
    return qn_linear_layer(graph, "fc", qn_global_average_pool(graph, "mean", x), n_outputs);
}

const qn_model qn_model_xception = {
    .name = "xception",
    .domain = "image classification",
    .source = "Chollet 2017",
    .input = {3, {32, 32, 3}},
    .n_classes = 10,
    .large_size = QN_LARGE_IMAGE,
    .recipe = {.rate = 0.05,
               .momentum = 0.9,
               .weight_decay = 5e-4,
               .schedule = QN_COSINE,
               .epochs = 30,
               .batch = 64},
    .build = build,
};
