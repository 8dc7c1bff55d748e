/* EfficientNet-Lite 0 to 2: the EfficientNets (Tan and Le 2019) without squeeze-and-excitation and
 * with ReLU6, for integer hardware (Liu 2020, TensorFlow's TPU models). Inverted residuals whose
 * widths and depths grow together; stem, head, and the depth of the first and last stage stay. Pads
 * are TensorFlow's "same": the odd pixel is below and to the right. The small forms have a stem and
 * a second stage of stride 1 and no dropout. Leaves out: stochastic depth. */
#include "models/models.h"

typedef struct scale {
    const char *name;
    int width_percent, depth_percent;
    double dropout;
} scale;

enum { EIGHTHS = 8 };
static const double epsilon = 1e-3; /* of the batch norms */

/* TensorFlow's "same": as many windows as strides begin in the image. */
static qn_window window_same(const qn_graph *graph, qn_value x, int kernel, int stride) {
    const qn_shape shape = qn_graph_shape(graph, x);
    int pads[2];
    for (int i = 0; i < 2; i++) {
        const int64_t extent = shape.dims[1 + i], n = (extent + stride - 1) / stride;
        const int64_t pad = (n - 1) * stride + kernel - extent;
        pads[i] = pad > 0 ? (int)pad : 0;
    }
    return (qn_window){.kernel_h = kernel,
                       .kernel_w = kernel,
                       .stride_h = stride,
                       .stride_w = stride,
                       .pad_top = pads[0] / 2,
                       .pad_left = pads[1] / 2,
                       .pad_bottom = pads[0] - pads[0] / 2,
                       .pad_right = pads[1] - pads[1] / 2};
}

static qn_value conv_norm(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                          int kernel, int stride, int64_t groups) {
    return qn_conv_norm_window(graph, name, x, filters, window_same(graph, x, kernel, stride),
                               groups, epsilon);
}

static qn_value conv_norm_relu6(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                                int kernel, int stride, int64_t groups) {
    return qn_conv_norm_relu6_window(graph, name, x, filters, window_same(graph, x, kernel, stride),
                                     groups, epsilon);
}

static qn_value inverted_residual(qn_graph *graph, qn_value x, int64_t filters, int kernel,
                                  int stride, int64_t factor) {
    const int64_t channels = qn_graph_shape(graph, x).dims[3], hidden = channels * factor;
    qn_value y = x;
    if (factor != 1)
        y = conv_norm_relu6(graph, "expand", y, hidden, 1, 1, 1);
    y = conv_norm_relu6(graph, "depthwise", y, hidden, kernel, stride, hidden);
    y = conv_norm(graph, "project", y, filters, 1, 1, 1);
    return stride == 1 && channels == filters ? qn_add(graph, "sum", x, y) : y;
}

/* A multiple of eight, at most a tenth below what was meant. */
static int64_t scale_width(int64_t filters, const scale *s) {
    const int64_t meant = filters * s->width_percent; /* hundredths */
    int64_t width = (meant + 100 * EIGHTHS / 2) / (100 * EIGHTHS) * EIGHTHS;
    width = width < EIGHTHS ? EIGHTHS : width;
    return width * 1000 < 9 * meant ? width + EIGHTHS : width;
}

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    static const struct {
        int kernel, small_stride, stride, n;
        int64_t factor, filters;
        bool is_fixed; /* in its depth */
    } stages[] = {{3, 1, 1, 1, 1, 16, true},   {3, 1, 2, 2, 6, 24, false},
                  {5, 2, 2, 2, 6, 40, false},  {3, 2, 2, 3, 6, 80, false},
                  {5, 1, 1, 3, 6, 112, false}, {5, 2, 2, 4, 6, 192, false},
                  {3, 1, 1, 1, 6, 320, true}};
    const scale *s = user;
    const bool is_large = qn_is_large(graph, x);
    int number = 0;
    if (!qn_needs_size(graph, s->name, x, 8, "three strides of 2"))
        return QN_NO_VALUE;
    x = conv_norm_relu6(graph, "stem", x, 32, 3, is_large ? 2 : 1, 1);
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        const int stride = is_large ? stages[i].stride : stages[i].small_stride;
        const int n =
            stages[i].is_fixed ? stages[i].n : (stages[i].n * s->depth_percent + 99) / 100;
        for (int j = 0; j < n; j++) {
            qn_graph_enter(graph, "block%d", ++number);
            x = inverted_residual(graph, x, scale_width(stages[i].filters, s), stages[i].kernel,
                                  j ? 1 : stride, stages[i].factor);
            qn_graph_leave(graph);
        }
    }
    x = conv_norm_relu6(graph, "head", x, 1280, 1, 1, 1);
    x = qn_global_average_pool(graph, "mean", x);
    if (is_large)
        x = qn_dropout(graph, "drop", x, s->dropout);
    return qn_linear_layer(graph, "fc", x, n_outputs);
}

static scale scales[] = {
    {"efficientnet-lite0", 100, 100, 0.2},
    {"efficientnet-lite1", 100, 110, 0.2},
    {"efficientnet-lite2", 110, 120, 0.3},
};

#define LITE(I)                                                                                    \
    {                                                                                              \
        .name = "efficientnet-lite" #I, .domain = "image classification",                          \
        .source = "Tan and Le 2019, Liu 2020", .input = {3, {32, 32, 3}}, .n_classes = 10,         \
        .large_size = QN_LARGE_IMAGE,                                                              \
        .recipe = {.rate = 0.1,                                                                    \
                   .momentum = 0.9,                                                                \
                   .weight_decay = 4e-5,                                                           \
                   .schedule = QN_COSINE,                                                          \
                   .epochs = 30,                                                                   \
                   .batch = 64},                                                                   \
        .user = &scales[I], .build = build,                                                        \
    }

const qn_model qn_model_efficientnet_lite0 = LITE(0);
const qn_model qn_model_efficientnet_lite1 = LITE(1);
const qn_model qn_model_efficientnet_lite2 = LITE(2);
