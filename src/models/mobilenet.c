/* MobileNet: v1 of depthwise and 1x1 convolutions (Howard et al. 2017, table 1), v2 of inverted
 * residuals with ReLU6 (Sandler et al. 2018, table 2). The small forms of both have a stem of
 * stride 1; that of v2 keeps 32x32 through its second stage too and has no dropout. */
#include "models/models.h"

static qn_value build_v1(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    static const struct {
        int64_t filters;
        int stride;
    } blocks[] = {{64, 1},  {128, 2}, {128, 1}, {256, 2}, {256, 1},  {512, 2}, {512, 1},
                  {512, 1}, {512, 1}, {512, 1}, {512, 1}, {1024, 2}, {1024, 1}};
    (void)user;
    if (!qn_needs_size(graph, "mobilenet-v1", x, 16, "four strides of 2"))
        return QN_NO_VALUE;
    x = qn_conv_norm_relu(graph, "stem", x, 32, 3, qn_is_large(graph, x) ? 2 : 1, 1);
    for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
        const int64_t channels = qn_graph_shape(graph, x).dims[3];
        qn_graph_enter(graph, "block%zu", i + 1);
        x = qn_conv_norm_relu(graph, "depthwise", x, channels, 3, blocks[i].stride, channels);
        x = qn_conv_norm_relu(graph, "pointwise", x, blocks[i].filters, 1, 1, 1);
        qn_graph_leave(graph);
    }
    x = qn_global_average_pool(graph, "mean", x);
    return qn_linear_layer(graph, "fc", x, n_outputs);
}

static qn_value conv_norm_relu6(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                                int kernel, int stride, int64_t groups) {
    return qn_conv_norm_relu6_window(graph, name, x, filters, qn_window_keep_square(kernel, stride),
                                     groups, 1e-5);
}

static qn_value inverted_residual(qn_graph *graph, qn_value x, int64_t filters, int stride,
                                  int64_t factor) {
    const int64_t channels = qn_graph_shape(graph, x).dims[3], hidden = channels * factor;
    qn_value y = x;
    if (factor != 1)
        y = conv_norm_relu6(graph, "expand", y, hidden, 1, 1, 1);
    y = conv_norm_relu6(graph, "depthwise", y, hidden, 3, stride, hidden);
    y = qn_conv_norm(graph, "project", y, filters, 1, 1, 1);
    return stride == 1 && channels == filters ? qn_add(graph, "sum", x, y) : y;
}

static qn_value build_v2(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    static const struct {
        int64_t factor, filters;
        int n, small_stride, stride;
    } stages[] = {{1, 16, 1, 1, 1}, {6, 24, 2, 1, 2},  {6, 32, 3, 2, 2}, {6, 64, 4, 2, 2},
                  {6, 96, 3, 1, 1}, {6, 160, 3, 2, 2}, {6, 320, 1, 1, 1}};
    (void)user;
    const bool is_large = qn_is_large(graph, x);
    if (!qn_needs_size(graph, "mobilenet-v2", x, 8, "three strides of 2"))
        return QN_NO_VALUE;
    x = conv_norm_relu6(graph, "stem", x, 32, 3, is_large ? 2 : 1, 1);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const int stride = is_large ? stages[i].stride : stages[i].small_stride;
        qn_graph_enter(graph, "stage%zu", i + 1);
        for (int j = 0; j < stages[i].n; j++) {
            qn_graph_enter(graph, "block%d", j + 1);
            x = inverted_residual(graph, x, stages[i].filters, j ? 1 : stride, stages[i].factor);
            qn_graph_leave(graph);
        }
        qn_graph_leave(graph);
    }
    x = conv_norm_relu6(graph, "head", x, 1280, 1, 1, 1);
    x = qn_global_average_pool(graph, "mean", x);
    if (is_large)
        x = qn_dropout(graph, "drop", x, 0.2);
    return qn_linear_layer(graph, "fc", x, n_outputs);
}

#define MOBILENET(NAME, SOURCE, BUILD)                                                             \
    {                                                                                              \
        .name = NAME, .domain = "image classification", .source = SOURCE,                          \
        .input = {3, {32, 32, 3}}, .n_classes = 10, .large_size = QN_LARGE_IMAGE,                  \
        .recipe = {.rate = 0.1,                                                                    \
                   .momentum = 0.9,                                                                \
                   .weight_decay = 4e-5,                                                           \
                   .schedule = QN_COSINE,                                                          \
                   .epochs = 30,                                                                   \
                   .batch = 64},                                                                   \
        .build = BUILD,                                                                            \
    }

const qn_model qn_model_mobilenet_v1 = MOBILENET("mobilenet-v1", "Howard et al. 2017", build_v1);
const qn_model qn_model_mobilenet_v2 = MOBILENET("mobilenet-v2", "Sandler et al. 2018", build_v2);
