/* ResNet: four stages of residual blocks at widths 64 to 512. The small form has a 3x3 stem of
 * stride 1; the ImageNet form a 7x7 stem of stride 2 and a pool. The stride of a bottleneck is in
 * its 3x3 convolution. */
#include "models/models.h"

/* What distinguishes the depths. */
typedef struct resnet {
    const char *name;
    bool has_bottleneck;
    int n_blocks[4];
} resnet;

static qn_value shortcut(qn_graph *graph, qn_value x, int64_t channels, int stride) {
    if (stride == 1 && qn_graph_shape(graph, x).dims[3] == channels)
        return x;
    return qn_conv_norm(graph, "shortcut", x, channels, 1, stride, 1);
}

static qn_value basic(qn_graph *graph, qn_value x, int64_t width, int stride) {
    qn_value y = qn_conv_norm_relu(graph, "part1", x, width, 3, stride, 1);
    y = qn_conv_norm(graph, "part2", y, width, 3, 1, 1);
    return qn_relu(graph, "relu", qn_add(graph, "sum", y, shortcut(graph, x, width, stride)));
}

static qn_value bottleneck(qn_graph *graph, qn_value x, int64_t width, int stride) {
    qn_value y = qn_conv_norm_relu(graph, "part1", x, width, 1, 1, 1);
    y = qn_conv_norm_relu(graph, "part2", y, width, 3, stride, 1);
    y = qn_conv_norm(graph, "part3", y, 4 * width, 1, 1, 1);
    return qn_relu(graph, "relu", qn_add(graph, "sum", y, shortcut(graph, x, 4 * width, stride)));
}

static qn_value add_stage(qn_graph *graph, const resnet *net, int stage, qn_value x) {
    qn_graph_enter(graph, "stage%d", stage + 1);
    for (int i = 0; i < net->n_blocks[stage]; i++) {
        const int stride = stage > 0 && i == 0 ? 2 : 1;
        const int64_t width = INT64_C(64) << stage;
        qn_graph_enter(graph, "block%d", i + 1);
        x = net->has_bottleneck ? bottleneck(graph, x, width, stride)
                                : basic(graph, x, width, stride);
        qn_graph_leave(graph);
    }
    qn_graph_leave(graph);
    return x;
}

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    const resnet *net = user;
    const bool is_large = qn_is_large(graph, x);
    if (!qn_needs_size(graph, net->name, x, 8, "three strides of 2"))
        return QN_NO_VALUE;
    x = is_large ? qn_conv_norm_relu(graph, "stem", x, 64, 7, 2, 1)
                 : qn_conv_norm_relu(graph, "stem", x, 64, 3, 1, 1);
    if (is_large)
        x = qn_max_pool(graph, "pool", x, qn_window_square(3, 2, 1));
    for (int stage = 0; stage < 4; stage++)
        x = add_stage(graph, net, stage, x);
    x = qn_global_average_pool(graph, "mean", x);
    return qn_linear_layer(graph, "fc", x, n_outputs);
}

static resnet depth18 = {"resnet18", false, {2, 2, 2, 2}},
              depth34 = {"resnet34", false, {3, 4, 6, 3}},
              depth50 = {"resnet50", true, {3, 4, 6, 3}},
              depth101 = {"resnet101", true, {3, 4, 23, 3}},
              depth152 = {"resnet152", true, {3, 8, 36, 3}};

#define RESNET(NAME, NET)                                                                          \
    {                                                                                              \
        .name = NAME, .domain = "image classification", .source = "He et al. 2016",                \
        .input = {3, {32, 32, 3}}, .n_classes = 10, .large_size = QN_LARGE_IMAGE,                  \
        .recipe = {.rate = 0.1,                                                                    \
                   .momentum = 0.9,                                                                \
                   .weight_decay = 5e-4,                                                           \
                   .schedule = QN_COSINE,                                                          \
                   .epochs = 30,                                                                   \
                   .batch = 64},                                                                   \
        .user = &NET, .build = build,                                                              \
    }

const qn_model qn_model_resnet18 = RESNET("resnet18", depth18);
const qn_model qn_model_resnet34 = RESNET("resnet34", depth34);
const qn_model qn_model_resnet50 = RESNET("resnet50", depth50);
const qn_model qn_model_resnet101 = RESNET("resnet101", depth101);
const qn_model qn_model_resnet152 = RESNET("resnet152", depth152);
