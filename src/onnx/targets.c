/* See targets.h. */
#include "onnx/targets.h"

#include "base/status.h"
#include "onnx/inputs.h"
#include "ops/ops.h"

#include <string.h>

const char *const qn_loss_names[QN_LOSSES] = {"auto", "cross-entropy", "bce", "mse",
                                              "l1",   "huber",         "none"};

/* ---- layout ---- */

/* Where axis i of the file's order is in the graph. */
static int graph_axis(const qn_onnx_place *place, int rank, int i) {
    return !place->is_image || i == 0 ? i : i == 1 ? rank - 1 : i - 1;
}

/* Axes of the graph in the file's order, a class axis last (-1: none). */
static qn_value order_axes(qn_graph *graph, const qn_onnx_place *place, qn_value value,
                           int class_axis) {
    const int rank = qn_graph_shape(graph, value).rank;
    int order[QN_MAX_RANK], n = 0;
    bool is_same = true;
    for (int i = 0; i < rank; i++) {
        if (i != class_axis)
            order[n++] = graph_axis(place, rank, i);
    }
    if (class_axis >= 0)
        order[n++] = graph_axis(place, rank, class_axis);
    for (int i = 0; i < rank; i++)
        is_same = is_same && order[i] == i;
    return is_same ? value : qn_transpose(graph, NULL, value, order);
}

/* An input in the file's order, as the network takes it. */
static qn_value declare(qn_graph *graph, const qn_onnx_place *place, qn_shape shape) {
    int order[QN_MAX_RANK];
    if (place->dtype == QN_I32)
        return qn_index_input(graph, place->name, shape);
    const qn_value value = qn_input(graph, place->name, shape);
    for (int i = 0; i < shape.rank; i++)
        order[graph_axis(place, shape.rank, i)] = i;
    return place->is_image ? qn_transpose(graph, NULL, value, order) : value;
}

/* All inputs, and the network's outputs; null: the graph has failed. */
static qn_value *build_all(qn_graph *graph, qn_onnx_network *n, const qn_shape *shapes) {
    const size_t room = (size_t)(n->n_inputs + n->n_outputs) + 1;
    qn_value *values = qn_arena_allocate(&graph->arena, room, sizeof *values);
    if (!values) {
        qn_graph_fail(graph, QN_ERROR_MEMORY, "%s", qn_error_message());
        return NULL;
    }
    for (int i = 0; i < n->n_inputs; i++)
        values[i] = declare(graph, &n->inputs[i], shapes[i]);
    return qn_onnx_build(n, graph, values, values + n->n_inputs) == QN_OK ? values + n->n_inputs
                                                                          : NULL;
}

qn_status qn_onnx_find_outputs(qn_onnx_network *n, const qn_shape *inputs, qn_shape *outputs) {
    qn_graph *graph;
    QN_TRY(qn_graph_create(&(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .training = true},
                           &graph));
    const qn_value *values = build_all(graph, n, inputs);
    for (int i = 0; values && i < n->n_outputs; i++) {
        const qn_tensor tensor = qn_graph_tensor(graph, values[i]);
        outputs[i] = qn_onnx_shape_in_file(&n->outputs[i], tensor.shape);
        if (tensor.dtype == QN_I32)
            outputs[i].rank = -1;
    }
    const qn_status status = qn_graph_finish(graph);
    qn_graph_destroy(graph);
    return status;
}

/* ---- activations at the end ---- */

/* The node that an output is of, unless another node or output reads that too; or -1. */
static int find_last(const qn_onnx_model *m, int output) {
    const char *name = m->outputs[output].name;
    int last = -1;
    for (int i = 0; i < m->n_outputs; i++) {
        if (i != output && strcmp(m->outputs[i].name, name) == 0)
            return -1;
    }
    for (int n = 0; n < m->n_nodes; n++) {
        const qn_onnx_node *node = &m->nodes[n];
        if (qn_onnx_node_reads(node, name))
            return -1;
        if (!*node->domain && node->n_inputs == 1 && node->n_outputs == 1 &&
            strcmp(node->outputs[0], name) == 0)
            last = n;
    }
    return last;
}

bool qn_onnx_output_is_of(const qn_onnx_network *network, int output, const char *type) {
    const int last = find_last(network->source, output);
    return last >= 0 && strcmp(network->source->nodes[last].type, type) == 0;
}

/* Whether a softmax is over the axis of the classes. */
static bool is_over_classes(const qn_onnx_network *n, int output, int class_axis) {
    const qn_onnx_model *m = n->source;
    const qn_onnx_node *node = &m->nodes[find_last(m, output)];
    const qn_onnx_attribute *axis = qn_onnx_find_attribute(node, "axis");
    const int64_t number = axis ? axis->count : m->opset < 13 ? 1 : -1;
    const qn_onnx_place *place = &n->outputs[output];
    const int rank = n->tried[output].rank, in_file = rank - (place->batch_axis < 0);
    return rank == 0 ||
           (number < 0 ? number + in_file : number) == qn_onnx_file_axis(place, class_axis);
}

static bool has_own(const qn_onnx_network *n, int output, const qn_onnx_target *target) {
    if (target->loss == QN_LOSS_BCE)
        return qn_onnx_output_is_of(n, output, "Sigmoid");
    return target->loss == QN_LOSS_CROSS_ENTROPY &&
           (qn_onnx_output_is_of(n, output, "Softmax") ||
            qn_onnx_output_is_of(n, output, "LogSoftmax")) &&
           is_over_classes(n, output, target->class_axis);
}

qn_status qn_onnx_leave_out(qn_onnx_network *n, const qn_onnx_target *outputs) {
    memset(n->left_out, 0, (size_t)n->source->n_nodes * sizeof *n->left_out);
    for (int i = 0; i < n->n_outputs; i++) {
        if (has_own(n, i, &outputs[i]))
            n->left_out[find_last(n->source, i)] = true;
    }
    return QN_OK;
}

/* ---- losses ---- */

/* Training reads the loss alone. */
static qn_value add_results(qn_graph *graph, qn_value loss, qn_value losses, qn_value output) {
    if (!qn_graph_is_training(graph)) {
        qn_result(graph, losses);
        qn_result(graph, output);
    }
    return loss;
}

static qn_value add_classes(qn_graph *graph, const qn_onnx_place *place, qn_value output,
                            int class_axis) {
    output = order_axes(graph, place, output, class_axis);
    const qn_shape shape = qn_graph_shape(graph, output);
    const int64_t n_classes = shape.rank > 0 ? shape.dims[shape.rank - 1] : 1;
    if (shape.rank != 2)
        output = qn_reshape(graph, "rows", output, QN_SHAPE(-1, n_classes));
    const int64_t rows = qn_graph_shape(graph, output).dims[0];
    const qn_value labels = qn_label(graph, "target", QN_I32, QN_SHAPE(rows));
    const qn_value losses = qn_softmax_cross_entropy(graph, "losses", output, labels, 0);
    return add_results(graph, qn_mean_valid(graph, "loss", losses, labels), losses, output);
}

static qn_value add_reals(qn_graph *graph, const qn_onnx_place *place, qn_value output,
                          qn_loss loss) {
    output = order_axes(graph, place, output, -1);
    const qn_shape shape = qn_graph_shape(graph, output);
    const int64_t n = shape.rank > 0 ? shape.dims[0] : 1;
    if (shape.rank != 2)
        output = qn_reshape(graph, "rows", output, QN_SHAPE(n, -1));
    const qn_value target = qn_label(graph, "target", graph->real, qn_graph_shape(graph, output));
    qn_value losses;
    if (loss == QN_LOSS_BCE)
        losses = qn_binary_cross_entropy(graph, "losses", output, target);
    else if (loss == QN_LOSS_MSE)
        losses = qn_squared_error(graph, "losses", output, target);
    else if (loss == QN_LOSS_HUBER)
        losses = qn_smooth_l1(graph, "losses", output, target);
    else
        losses =
            qn_op_function(graph, "losses",
                           qn_op_combine(graph, "differences", QN_COMBINE_SUBTRACT, output, target),
                           (qn_function){.kind = QN_FUNCTION_ABS});
    return add_results(graph, qn_mean(graph, "loss", losses), losses, output);
}

static qn_value add_loss(qn_graph *graph, const qn_onnx_place *place, qn_value output,
                         const qn_onnx_target *target) {
    if (target->loss == QN_LOSS_OWN)
        return qn_mean(graph, "loss", output);
    if (target->loss == QN_LOSS_CROSS_ENTROPY)
        return add_classes(graph, place, output, target->class_axis);
    return add_reals(graph, place, output, target->loss);
}

static qn_value sum_losses(qn_graph *graph, const qn_onnx_targets *t, const qn_value *outputs) {
    qn_value sum = QN_NO_VALUE;
    for (int i = 0; i < t->network->n_outputs; i++) {
        if (t->outputs[i].loss == QN_LOSS_AUTO)
            continue;
        qn_graph_enter(graph, "loss.%s", t->network->outputs[i].name);
        const qn_value loss = add_loss(graph, &t->network->outputs[i], outputs[i], &t->outputs[i]);
        qn_graph_leave(graph);
        sum = sum.id < 0 ? loss : qn_add(graph, NULL, sum, loss);
    }
    return sum;
}

qn_value qn_onnx_build_targets(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_onnx_targets *t = user;
    (void)phase;
    (void)kept;
    const qn_value *outputs = build_all(graph, t->network, t->inputs);
    if (!outputs)
        return QN_NO_VALUE;
    const qn_value loss = sum_losses(graph, t, outputs);
    qn_result(graph, loss);
    return loss;
}
