/* The zoo: finding models, their size and cost, and the blocks they share. */
#include "models/models.h"

#include "base/status.h"
#include "base/text.h"
#include "ops/ops.h"
#include "passes/layers.h"
#include "quern/engine.h"

#include <string.h>

const qn_model *const qn_zoo[] = {&qn_model_mlp,
                                  &qn_model_lenet5,
                                  &qn_model_lenet_relu,
                                  &qn_model_alexnet,
                                  &qn_model_vgg_small,
                                  &qn_model_vgg11,
                                  &qn_model_vgg16,
                                  &qn_model_vgg19,
                                  &qn_model_resnet18,
                                  &qn_model_resnet34,
                                  &qn_model_resnet50,
                                  &qn_model_resnet101,
                                  &qn_model_resnet152,
                                  &qn_model_squeezenet,
                                  &qn_model_mobilenet_v1,
                                  &qn_model_mobilenet_v2,
                                  &qn_model_efficientnet_lite0,
                                  &qn_model_efficientnet_lite1,
                                  &qn_model_efficientnet_lite2,
                                  &qn_model_googlenet,
                                  &qn_model_inception_v3,
                                  &qn_model_xception,
                                  &qn_model_densenet40,
                                  &qn_model_densenet100,
                                  &qn_model_char_cnn,
                                  &qn_model_char_lstm,
                                  &qn_model_next_word,
                                  &qn_model_seq2seq,
                                  &qn_model_dcgan,
                                  &qn_model_dqn,
                                  &qn_model_bert_base,
                                  &qn_model_bert_tiny,
                                  NULL};

const qn_model *qn_model_at(int index) {
    const int n = (int)(sizeof qn_zoo / sizeof *qn_zoo) - 1;
    return index >= 0 && index < n ? qn_zoo[index] : NULL;
}

const qn_model *qn_model_find(const char *name) {
    QN_NEED_OR(name, "name", NULL);
    const char *names[sizeof qn_zoo / sizeof *qn_zoo];
    int n = 0;
    for (; qn_zoo[n]; n++) {
        if (strcmp(qn_zoo[n]->name, name) == 0)
            return qn_zoo[n];
        names[n] = qn_zoo[n]->name;
    }
    const char *nearest = qn_text_nearest(name, names, n);
    if (nearest)
        qn_fail(QN_ERROR_ARGUMENT, "no model is called %s; did you mean %s?", name, nearest);
    else
        qn_fail(QN_ERROR_ARGUMENT, "no model is called %s; quern models lists all", name);
    return NULL;
}

static qn_status measure(void *user, qn_graph *graph) {
    qn_model_size *size = user;
    *size = (qn_model_size){0};
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (info->kind == QN_KIND_PARAMETER && info->producer < 0 && info->trainable)
            size->n_parameters += qn_shape_count(info->tensor.shape);
        if (info->producer >= 0 && info->overwrites < 0 &&
            !graph->nodes[info->producer]->op->is_view)
            size->feature_bytes += (int64_t)qn_tensor_bytes(info->tensor);
    }
    for (int n = 0; n < graph->n_nodes; n++) {
        if (graph->nodes[n]->op->is_product)
            size->forward_flops += qn_node_cost(graph, graph->nodes[n]).flops;
    }
    return QN_OK;
}

int64_t qn_model_batch(const qn_model *model) {
    return model->build && model->sizes.batch > 0 ? model->sizes.batch : 1;
}

/* The network over one sample of a shape, or a batch of those that it is made for. */
static void build_classifier(qn_graph *graph, const qn_model *model, qn_shape input,
                             int n_outputs) {
    qn_shape shape = {.rank = input.rank + 1, .dims = {qn_model_batch(model)}};
    memcpy(shape.dims + 1, input.dims, (size_t)input.rank * sizeof *input.dims);
    model->build(graph, model->user, qn_input(graph, "input", shape), n_outputs);
}

/* All that a step of the published network computes before its gradients. */
static void build_network(qn_graph *graph, const qn_model *model) {
    const int n_phases = model->n_phases > 0 ? model->n_phases : 1;
    qn_value kept[QN_MAX_KEPT];
    for (int i = 0; i < QN_MAX_KEPT; i++)
        kept[i] = QN_NO_VALUE;
    for (int phase = 0; phase < n_phases; phase++)
        model->network(graph, model->user, &model->sizes, phase, kept);
}

/* What is to be learned of a model's graph. */
typedef qn_status qn_look(void *user, qn_graph *graph);

static qn_status look_at(const qn_model *model, qn_shape input, int n_outputs, qn_look *look,
                         void *user) {
    qn_graph *graph;
    if (!model->network && (input.rank < 1 || input.rank >= QN_MAX_RANK))
        return qn_fail(QN_ERROR_ARGUMENT, "%s: an input has 1 to %d extents, not %d", model->name,
                       QN_MAX_RANK - 1, input.rank);
    QN_TRY(qn_graph_create(&(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .training = true},
                           &graph));
    if (model->network)
        build_network(graph, model);
    else
        build_classifier(graph, model, input, n_outputs);
    qn_status status = qn_graph_finish(graph);
    if (status == QN_OK)
        status = look(user, graph);
    qn_graph_destroy(graph);
    return status;
}

qn_status qn_model_measure(const qn_model *model, qn_shape input, int n_outputs,
                           qn_model_size *size) {
    QN_NEED(model, "model");
    QN_NEED(size, "size");
    QN_TRY(look_at(model, input, n_outputs, measure, size));
    size->feature_bytes /= qn_model_batch(model);
    size->forward_flops /= qn_model_batch(model);
    return QN_OK;
}

static qn_status list_parameters(void *user, qn_graph *graph) {
    const qn_parameter_list *list = user;
    qn_layers layers;
    QN_TRY(qn_layers_find(graph, &layers));
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (info->producer >= 0 || info->kind != QN_KIND_PARAMETER || !info->trainable)
            continue;
        const int reader = layers.readers[v];
        list->put(list->user, layers.positions[v], info->name, &info->tensor.shape,
                  reader >= 0 ? graph->nodes[reader]->name : "");
    }
    return QN_OK;
}

qn_status qn_model_list_parameters(const qn_model *model, qn_shape input, int n_outputs,
                                   const qn_parameter_list *list) {
    qn_parameter_list copy = *list;
    return look_at(model, input, n_outputs, list_parameters, &copy);
}

/* ---- blocks ---- */

bool qn_is_large(const qn_graph *graph, qn_value x) {
    const qn_shape shape = qn_graph_shape(graph, x);
    return shape.rank == 4 && shape.dims[1] >= QN_LARGE_IMAGE;
}

bool qn_needs_size(qn_graph *graph, const char *model, qn_value x, int64_t size, const char *why) {
    const qn_shape shape = qn_graph_shape(graph, x);
    if (shape.rank == 4 && shape.dims[1] >= size && shape.dims[2] >= size)
        return true;
    char text[QN_SHAPE_TEXT];
    qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                  "%s: a batch of %s will not do: %s need images of at "
                  "least %lldx%lld",
                  model, qn_shape_print(shape, text), why, (long long)size, (long long)size);
    return false;
}

qn_window qn_window_keep(int kernel_h, int kernel_w) {
    return (qn_window){.kernel_h = kernel_h,
                       .kernel_w = kernel_w,
                       .pad_top = kernel_h / 2,
                       .pad_left = kernel_w / 2,
                       .pad_bottom = kernel_h / 2,
                       .pad_right = kernel_w / 2};
}

qn_window qn_window_keep_square(int kernel, int stride) {
    return qn_window_square(kernel, stride, kernel / 2);
}

/* Rows beyond the image that the last window of an axis covers. */
static int overhang(int64_t extent, int kernel, int stride) {
    if (extent <= kernel)
        return (int)(kernel - extent);
    const int64_t n_more = (extent - kernel + stride - 1) / stride;
    const int64_t n_inside = (extent - 1) / stride;
    const int64_t end = (n_more < n_inside ? n_more : n_inside) * stride + kernel;
    return end > extent ? (int)(end - extent) : 0;
}

qn_value qn_max_pool_ceil(qn_graph *graph, const char *name, qn_value x, int kernel, int stride) {
    const qn_shape shape = qn_graph_shape(graph, x);
    qn_window window = qn_window_square(kernel, stride, 0);
    if (shape.rank == 4) {
        window.pad_bottom = overhang(shape.dims[1], kernel, stride);
        window.pad_right = overhang(shape.dims[2], kernel, stride);
    }
    return qn_max_pool(graph, name, x, window);
}

qn_value qn_conv_norm_window(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                             qn_window window, int64_t groups, double epsilon) {
    qn_graph_enter(graph, "%s", name);
    x = qn_conv2d_layer(graph, "conv", x, filters, window, (int)groups, false);
    x = qn_batch_norm_layer(graph, "norm", x, epsilon);
    qn_graph_leave(graph);
    return x;
}

static qn_value then_relu(qn_graph *graph, const char *name, qn_value x) {
    qn_graph_enter(graph, "%s", name);
    x = qn_relu(graph, "relu", x);
    qn_graph_leave(graph);
    return x;
}

qn_value qn_conv_norm(qn_graph *graph, const char *name, qn_value x, int64_t filters, int kernel,
                      int stride, int64_t groups) {
    return qn_conv_norm_window(graph, name, x, filters, qn_window_keep_square(kernel, stride),
                               groups, 1e-5);
}

qn_value qn_conv_norm_relu(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                           int kernel, int stride, int64_t groups) {
    x = qn_conv_norm(graph, name, x, filters, kernel, stride, groups);
    return then_relu(graph, name, x);
}

qn_value qn_conv_norm_relu6_window(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                                   qn_window window, int64_t groups, double epsilon) {
    x = qn_conv_norm_window(graph, name, x, filters, window, groups, epsilon);
    qn_graph_enter(graph, "%s", name);
    x = qn_relu6(graph, "relu6", x);
    qn_graph_leave(graph);
    return x;
}

qn_value qn_conv_norm_relu_window(qn_graph *graph, const char *name, qn_value x, int64_t filters,
                                  qn_window window, double epsilon) {
    return then_relu(graph, name, qn_conv_norm_window(graph, name, x, filters, window, 1, epsilon));
}
