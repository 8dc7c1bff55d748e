/* Inception-v3 (Szegedy et al. 2016, table 1) as its published weights have it, without the
 * auxiliary head: epsilon 1e-3, dropout 0.5. Both forms have the same layers: 299x299 images reach
 * the modules at 35, 17 and 8, 96x96 ones at 9, 4 and 1. */
#include "models/models.h"

static qn_value conv(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                     qn_window window) {
    return qn_conv_norm_relu_window(graph, name, x, filters, window, 1e-3);
}

/* Convolution that keeps the size. */
static qn_value keep(qn_graph *graph, const char *name, qn_value x, int64_t filters, int kernel_h,
                     int kernel_w) {
    return conv(graph, name, x, filters, qn_window_keep(kernel_h, kernel_w));
}

/* 3x3 without padding. */
static qn_value shrink(qn_graph *graph, const char *name, qn_value x, int64_t filters, int stride) {
    return conv(graph, name, x, filters, qn_window_square(3, stride, 0));
}

static qn_value pooled(qn_graph *graph, qn_value x, int64_t filters) {
    x = qn_average_pool(graph, "pool", x, qn_window_square(3, 1, 1));
    return keep(graph, "pooled", x, filters, 1, 1);
}

/* 1x1, 5x5 and two 3x3 in a row. */
static qn_value module_a(qn_graph *graph, qn_value x, int64_t n_pooled) {
    qn_value parts[4];
    parts[0] = keep(graph, "direct", x, 64, 1, 1);
    parts[1] = keep(graph, "five1", x, 48, 1, 1);
    parts[1] = keep(graph, "five2", parts[1], 64, 5, 5);
    parts[2] = keep(graph, "double1", x, 64, 1, 1);
    parts[2] = keep(graph, "double2", parts[2], 96, 3, 3);
    parts[2] = keep(graph, "double3", parts[2], 96, 3, 3);
    parts[3] = pooled(graph, x, n_pooled);
    return qn_concat(graph, "concat", parts, 4, -1);
}

/* Halves the size: 3x3, two 3x3 in a row, and a pool. */
static qn_value module_b(qn_graph *graph, qn_value x) {
    qn_value parts[3];
    parts[0] = shrink(graph, "three", x, 384, 2);
    parts[1] = keep(graph, "double1", x, 64, 1, 1);
    parts[1] = keep(graph, "double2", parts[1], 96, 3, 3);
    parts[1] = shrink(graph, "double3", parts[1], 96, 2);
    parts[2] = qn_max_pool(graph, "pool", x, qn_window_square(3, 2, 0));
    return qn_concat(graph, "concat", parts, 3, -1);
}

/* 1x1, and one and two 7x7 cut into rows and columns. */
static qn_value module_c(qn_graph *graph, qn_value x, int64_t width) {
    qn_value parts[4];
    parts[0] = keep(graph, "direct", x, 192, 1, 1);
    parts[1] = keep(graph, "seven1", x, width, 1, 1);
    parts[1] = keep(graph, "seven2", parts[1], width, 1, 7);
    parts[1] = keep(graph, "seven3", parts[1], 192, 7, 1);
    parts[2] = keep(graph, "double1", x, width, 1, 1);
    parts[2] = keep(graph, "double2", parts[2], width, 7, 1);
    parts[2] = keep(graph, "double3", parts[2], width, 1, 7);
    parts[2] = keep(graph, "double4", parts[2], width, 7, 1);
    parts[2] = keep(graph, "double5", parts[2], 192, 1, 7);
    parts[3] = pooled(graph, x, 192);
    return qn_concat(graph, "concat", parts, 4, -1);
}

/* Halves the size: 3x3, 7x7 and 3x3, and a pool. */
static qn_value module_d(qn_graph *graph, qn_value x) {
    qn_value parts[3];
    parts[0] = keep(graph, "three1", x, 192, 1, 1);
    parts[0] = shrink(graph, "three2", parts[0], 320, 2);
    parts[1] = keep(graph, "seven1", x, 192, 1, 1);
    parts[1] = keep(graph, "seven2", parts[1], 192, 1, 7);
    parts[1] = keep(graph, "seven3", parts[1], 192, 7, 1);
    parts[1] = shrink(graph, "seven4", parts[1], 192, 2);
    parts[2] = qn_max_pool(graph, "pool", x, qn_window_square(3, 2, 0));
    return qn_concat(graph, "concat", parts, 3, -1);
}

/* 1x1, and two branches that end in a row and a column side by side. */
static qn_value module_e(qn_graph *graph, qn_value x) {
    qn_value parts[6], y;
    parts[0] = keep(graph, "direct", x, 320, 1, 1);
    y = keep(graph, "three1", x, 384, 1, 1);
    parts[1] = keep(graph, "three_row", y, 384, 1, 3);
    parts[2] = keep(graph, "three_column", y, 384, 3, 1);
    y = keep(graph, "double1", x, 448, 1, 1);
    y = keep(graph, "double2", y, 384, 3, 3);
    parts[3] = keep(graph, "double_row", y, 384, 1, 3);
    parts[4] = keep(graph, "double_column", y, 384, 3, 1);
    parts[5] = pooled(graph, x, 192);
    return qn_concat(graph, "concat", parts, 6, -1);
}

static qn_value stem(qn_graph *graph, qn_value x) {
    x = shrink(graph, "stem1", x, 32, 2);
    x = shrink(graph, "stem2", x, 32, 1);
    x = keep(graph, "stem3", x, 64, 3, 3);
    x = qn_max_pool(graph, "pool1", x, qn_window_square(3, 2, 0));
    x = keep(graph, "stem4", x, 80, 1, 1);
    x = shrink(graph, "stem5", x, 192, 1);
    return qn_max_pool(graph, "pool2", x, qn_window_square(3, 2, 0));
}

/* A module's kind, and its width (c) or pooled channels (a). */
typedef struct module {
    char kind;
    int64_t width;
} module;

static qn_value add_module(qn_graph *graph, module m, qn_value x) {
    switch (m.kind) {
    case 'a':
        return module_a(graph, x, m.width);
    case 'b':
        return module_b(graph, x);
    case 'c':
        return module_c(graph, x, m.width);
    case 'd':
        return module_d(graph, x);
    default:
        return module_e(graph, x);
    }
}

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    static const module modules[] = {{'a', 32},  {'a', 64},  {'a', 64},  {'b', 0},
                                     {'c', 128}, {'c', 160}, {'c', 160}, {'c', 192},
                                     {'d', 0},   {'e', 0},   {'e', 0}};
    (void)user;
    if (!qn_needs_size(graph, "inception-v3", x, 75, "windows without padding"))
        return QN_NO_VALUE;
    x = stem(graph, x);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        qn_graph_enter(graph, "module%zu%c", i + 1, modules[i].kind);
        x = add_module(graph, modules[i], x);
        qn_graph_leave(graph);
    }
    x = qn_dropout(graph, "drop", qn_global_average_pool(graph, "mean", x), 0.5);
    return qn_linear_layer(graph, "fc", x, n_outputs);
}

const qn_model qn_model_inception_v3 = {
    .name = "inception-v3",
    .domain = "image classification",
    .source = "Szegedy et al. 2016",
    .input = {3, {96, 96, 3}},
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
