/* GoogLeNet, or Inception-v1 (Szegedy et al. 2015, table 1), with batch norm behind every
 * convolution and without auxiliary heads. The small form has a single stem convolution, the
 * paper's 5x5 branches and dropout 0.4; the ImageNet form is the one whose weights are commonly
 * shared: 3x3 in place of 5x5, epsilon 1e-3, dropout 0.2. */
#include "models/models.h"

/* Output channels of a module's branches: 1x1; 1x1 and 3x3; 1x1 and 5x5; pool and 1x1. */
typedef struct module {
    const char *name;
    int direct, reduce3, out3, reduce5, out5, pooled;
} module;

/* What the forms differ in within a module. */
typedef struct form {
    int kernel5; /* of the third branch */
    double epsilon;
} form;

static qn_value conv(qn_graph *graph, const char *name, qn_value x, int filters, int kernel,
                     const form *f) {
    return qn_conv_norm_relu_window(graph, name, x, filters, qn_window_keep_square(kernel, 1),
                                    f->epsilon);
}

static qn_value add_module(qn_graph *graph, const module *m, const form *f, qn_value x) {
    qn_value parts[4];
    qn_graph_enter(graph, "%s", m->name);
    parts[0] = conv(graph, "direct", x, m->direct, 1, f);
    parts[1] = conv(graph, "reduce3", x, m->reduce3, 1, f);
    parts[1] = conv(graph, "conv3", parts[1], m->out3, 3, f);
    parts[2] = conv(graph, "reduce5", x, m->reduce5, 1, f);
    parts[2] = conv(graph, "conv5", parts[2], m->out5, f->kernel5, f);
    parts[3] = qn_max_pool(graph, "pool", x, qn_window_square(3, 1, 1));
    parts[3] = conv(graph, "pooled", parts[3], m->pooled, 1, f);
    x = qn_concat(graph, "concat", parts, 4, -1);
    qn_graph_leave(graph);
    return x;
}

static qn_value add_modules(qn_graph *graph, const module *modules, int n, const form *f,
                            qn_value x) {
    for (int i = 0; i < n; i++)
        x = add_module(graph, &modules[i], f, x);
    return x;
}

static const module stage3[] = {{"3a", 64, 96, 128, 16, 32, 32}, {"3b", 128, 128, 192, 32, 96, 64}};
static const module stage4[] = {{"4a", 192, 96, 208, 16, 48, 64},
                                {"4b", 160, 112, 224, 24, 64, 64},
                                {"4c", 128, 128, 256, 24, 64, 64},
                                {"4d", 112, 144, 288, 32, 64, 64},
                                {"4e", 256, 160, 320, 32, 128, 128}};
static const module stage5[] = {{"5a", 256, 160, 320, 32, 128, 128},
                                {"5b", 384, 192, 384, 48, 128, 128}};

static qn_value classify(qn_graph *graph, qn_value x, double dropout, int n_outputs) {
    x = qn_dropout(graph, "drop", qn_global_average_pool(graph, "mean", x), dropout);
    return qn_linear_layer(graph, "fc", x, n_outputs);
}

static qn_value build_small(qn_graph *graph, qn_value x, int n_outputs) {
    const form f = {5, 1e-5};
    x = conv(graph, "stem", x, 192, 3, &f);
    x = add_modules(graph, stage3, 2, &f, x);
    x = qn_max_pool(graph, "pool3", x, qn_window_square(3, 2, 1));
    x = add_modules(graph, stage4, 5, &f, x);
    x = qn_max_pool(graph, "pool4", x, qn_window_square(3, 2, 1));
    x = add_modules(graph, stage5, 2, &f, x);
    return classify(graph, x, 0.4, n_outputs);
}

static qn_value build_large(qn_graph *graph, qn_value x, int n_outputs) {
    const form f = {3, 1e-3};
    x = qn_conv_norm_relu_window(graph, "stem1", x, 64, qn_window_square(7, 2, 3), f.epsilon);
    x = qn_max_pool_ceil(graph, "pool1", x, 3, 2);
    x = conv(graph, "stem2", x, 64, 1, &f);
    x = conv(graph, "stem3", x, 192, 3, &f);
    x = qn_max_pool_ceil(graph, "pool2", x, 3, 2);
    x = add_modules(graph, stage3, 2, &f, x);
    x = qn_max_pool_ceil(graph, "pool3", x, 3, 2);
    x = add_modules(graph, stage4, 5, &f, x);
    x = qn_max_pool_ceil(graph, "pool4", x, 2, 2);
    x = add_modules(graph, stage5, 2, &f, x);
    return classify(graph, x, 0.2, n_outputs);
}

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    const bool is_large = qn_is_large(graph, x);
    if (!qn_needs_size(graph, "googlenet", x, is_large ? 15 : 4, "the strides of its pools"))
        return QN_NO_VALUE;
    return is_large ? build_large(graph, x, n_outputs) : build_small(graph, x, n_outputs);
}

const qn_model qn_model_googlenet = {
    .name = "googlenet",
    .domain = "image classification",
    .source = "Szegedy et al. 2015",
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
