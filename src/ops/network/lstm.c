/* An LSTM layer over whole sequences. One linear node computes the input products of all steps; the
 * operator "lstm" is the recurrence alone. Its gates overwrite those products, and its gradient
 * overwrites the gates; the gradients of both weights are then products over all steps at once.
 *     lstm           x (N, T, 4 K), weight (4 K, K), h, c (N, K), lengths (N)
 *                    -> gates (N, T, 4 K), y (N, T, K), h, c (N, K), cells (N, T, K)
 *     lstm_before    y (N, T, K), h (N, K) -> h before each step (N, T, K)
 *     lstm_backward  -> dx (N, T, 4 K), and for the previous state dh, dc (N, K) */
#include "ops/network/lstm.h"
#include "base/status.h"
#include "ops/shared.h"

#include <stdio.h>
#include <string.h>

enum { QN_LSTM_GATES = 4, NAME_BYTES = 512 };

/* Weight, states and lengths, from input `first` on, against x or gates (N, T, 4 K). */
static qn_status expect_operands(const qn_infer *infer, int weight, int first_state, int n_states,
                                 int lengths) {
    QN_TRY(qn_infer_rank(infer, 0, 3, "(N, T, 4 K)"));
    const qn_shape x = infer->inputs[0].shape;
    const int64_t k = x.dims[2] / QN_LSTM_GATES;
    if (x.dims[2] % QN_LSTM_GATES != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%lld columns are no four gates", (long long)x.dims[2]);
    QN_TRY(qn_infer_expect(infer, weight, "weight", QN_SHAPE(QN_LSTM_GATES * k, k)));
    for (int i = first_state; i < first_state + n_states; i++) {
        if (infer->inputs[i].dtype != QN_NONE)
            QN_TRY(qn_infer_expect(infer, i, "state", QN_SHAPE(x.dims[0], k)));
    }
    if (infer->inputs[lengths].dtype == QN_NONE)
        return QN_OK;
    QN_TRY(qn_infer_dtype(infer, lengths, QN_I32));
    return qn_infer_expect(infer, lengths, "lengths", QN_SHAPE(x.dims[0]));
}

qn_lstm_shape qn_lstm_of(const qn_tensor *inputs) {
    const qn_shape x = inputs[0].shape;
    return (qn_lstm_shape){x.dims[0], x.dims[1], x.dims[2] / QN_LSTM_GATES};
}

/* The recurrent product, and so many operations more for each unit. */
static qn_cost recurrence_cost(const qn_tensor *inputs, int64_t flops_each) {
    const qn_lstm_shape d = qn_lstm_of(inputs);
    return (qn_cost){.flops = d.n * d.t * d.k * (2 * QN_LSTM_GATES * d.k + flops_each)};
}

/* ---- the recurrence; inputs: x, weight, h, c, lengths ---- */

static qn_status lstm_infer(qn_infer *infer) {
    QN_TRY(expect_operands(infer, QN_LSTM_IN_WEIGHT, QN_LSTM_IN_H, 2, QN_LSTM_IN_LENGTHS));
    const qn_lstm_shape d = qn_lstm_of(infer->inputs);
    const qn_dtype real = infer->inputs[0].dtype;
    infer->n_outputs = QN_LSTM_N_OUT;
    infer->outputs[QN_LSTM_OUT_GATES] = infer->inputs[QN_LSTM_IN_X];
    infer->outputs[QN_LSTM_OUT_Y] = (qn_tensor){real, QN_SHAPE(d.n, d.t, d.k)};
    infer->outputs[QN_LSTM_OUT_H] = (qn_tensor){real, QN_SHAPE(d.n, d.k)};
    infer->outputs[QN_LSTM_OUT_C] = infer->outputs[QN_LSTM_OUT_H];
    infer->outputs[QN_LSTM_OUT_CELLS] = infer->outputs[QN_LSTM_OUT_Y];
    return QN_OK;
}

static qn_cost lstm_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return recurrence_cost(inputs, 13);
}

/* (N, T, any) as (N * T, any). */
static qn_value add_rows(qn_graph *graph, const qn_node *node, const char *suffix, qn_value x) {
    char name[1024];
    snprintf(name, sizeof name, "%s.%s", node->name, suffix);
    return qn_reshape(graph, qn_graph_unique(graph, name, false), x,
                      QN_SHAPE(-1, qn_shape_columns(qn_graph_shape(graph, x))));
}

/* The gradient of the weight: over all steps, that of the gates times h before. */
static qn_value add_weight_gradient(qn_graph *graph, const qn_node *node, qn_value dx) {
    qn_value before = qn_gradient_add(
        graph, node, "before", &qn_op_lstm_before,
        (qn_value[]){node->outputs[QN_LSTM_OUT_Y], node->inputs[QN_LSTM_IN_H]}, 2, NULL);
    const qn_value inputs[] = {add_rows(graph, node, "before_rows", before),
                               add_rows(graph, node, "backward_rows", dx)};
    return qn_gradient_add(graph, node, "backward_weight", &qn_op_linear_backward_weight, inputs, 2,
                           NULL);
}

static void lstm_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const bool *wanted = gradient->wanted;
    const qn_lstm_backward_attributes attributes = {wanted[QN_LSTM_IN_H] || wanted[QN_LSTM_IN_C]};
    if (gradient->outputs[QN_LSTM_OUT_GATES].id >= 0 ||
        gradient->outputs[QN_LSTM_OUT_CELLS].id >= 0) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED, "%s: the gates and cells have no gradient",
                      node->name);
        return;
    }
    const qn_value inputs[] = {node->outputs[QN_LSTM_OUT_GATES], node->outputs[QN_LSTM_OUT_CELLS],
                               node->inputs[QN_LSTM_IN_WEIGHT],  node->inputs[QN_LSTM_IN_C],
                               node->inputs[QN_LSTM_IN_LENGTHS], gradient->outputs[QN_LSTM_OUT_Y],
                               gradient->outputs[QN_LSTM_OUT_H], gradient->outputs[QN_LSTM_OUT_C]};
    const qn_value dx =
        qn_gradient_add(graph, node, "backward", &qn_op_lstm_backward, inputs, 8, &attributes);
    if (dx.id < 0)
        return;
    const qn_node *backward = graph->nodes[qn_graph_value(graph, dx)->producer];
    gradient->inputs[QN_LSTM_IN_X] = dx;
    for (int i = 1; i < backward->n_outputs; i++)
        gradient->inputs[QN_LSTM_IN_H + i - 1] = backward->outputs[i];
    if (wanted[QN_LSTM_IN_WEIGHT])
        gradient->inputs[QN_LSTM_IN_WEIGHT] = add_weight_gradient(graph, node, dx);
}

/* Variants: y, h and c, with all operands; y with none that may be left out. */
static qn_value lstm_sample(qn_graph *graph, int variant) {
    const int64_t n = 5, t = 4, c = 3, k = variant == 3 ? 9 : 5;
    qn_value h = QN_NO_VALUE, cells = QN_NO_VALUE, lengths = QN_NO_VALUE;
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(n, t, c), 1);
    qn_value weight_x = qn_sample_parameter(graph, "weight_x", QN_SHAPE(QN_LSTM_GATES * k, c), 1);
    qn_value weight_h = qn_sample_parameter(graph, "weight_h", QN_SHAPE(QN_LSTM_GATES * k, k), 1);
    qn_value bias = qn_sample_parameter(graph, "bias", QN_SHAPE(QN_LSTM_GATES * k), 1);
    if (variant < 3) {
        h = qn_sample_parameter(graph, "h", QN_SHAPE(n, k), 1);
        cells = qn_sample_parameter(graph, "c", QN_SHAPE(n, k), 1);
        lengths = qn_label(graph, "lengths", QN_I32, QN_SHAPE(n));
    }
    const qn_lstm_result r = qn_lstm(graph, "lstm", x, weight_x, weight_h, bias, h, cells, lengths);
    return variant == 1 ? r.h : variant == 2 ? r.c : r.y;
}

const qn_op qn_op_lstm = {
    .name = "lstm",
    .min_inputs = QN_LSTM_N_IN,
    .max_inputs = QN_LSTM_N_IN,
    .optional_inputs = 1 << QN_LSTM_IN_H | 1 << QN_LSTM_IN_C | 1 << QN_LSTM_IN_LENGTHS,
    .any_type_inputs = 1 << QN_LSTM_IN_LENGTHS,
    .output_names = {NULL, "y", "h", "c", "cells"},
    .is_product = true,
    .infer = lstm_infer,
    .gradient = lstm_gradient,
    .cost = lstm_cost,
    .in_place = 1 << QN_LSTM_IN_X,
    .n_samples = 4,
    .sample = lstm_sample,
};

/* The input's products, (N, T, 4 K). */
static qn_value add_input(qn_graph *graph, const char *name, qn_value x, qn_value weight,
                          qn_value bias) {
    char part[NAME_BYTES];
    const qn_shape shape = qn_graph_shape(graph, x);
    snprintf(part, sizeof part, "%s.rows", name);
    x = qn_reshape(graph, part, x, QN_SHAPE(-1, shape.dims[2]));
    snprintf(part, sizeof part, "%s.input", name);
    x = qn_linear(graph, part, x, weight, bias);
    snprintf(part, sizeof part, "%s.steps", name);
    return qn_reshape(
        graph, part, x,
        QN_SHAPE(shape.dims[0], shape.dims[1], qn_shape_columns(qn_graph_shape(graph, x))));
}

qn_lstm_result qn_lstm(qn_graph *graph, const char *name, qn_value x, qn_value weight_x,
                       qn_value weight_h, qn_value bias, qn_value h, qn_value c, qn_value lengths) {
    const qn_lstm_result none = {QN_NO_VALUE, QN_NO_VALUE, QN_NO_VALUE};
    QN_NEED_OR(graph, "graph", none);
    char text[QN_SHAPE_TEXT];
    if (!name)
        name = qn_graph_unique(graph, "lstm", true);
    if (graph->status != QN_OK)
        return none;
    if (qn_graph_shape(graph, x).rank != 3) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "%s%s (lstm): x is %s, but (N, T, C) is needed",
                      graph->scope, name, qn_shape_print(qn_graph_shape(graph, x), text));
        return none;
    }
    const qn_value inputs[] = {add_input(graph, name, x, weight_x, bias), weight_h, h, c, lengths};
    const qn_node *node = qn_graph_add(graph, &qn_op_lstm, name, inputs, QN_LSTM_N_IN, NULL);
    if (!node)
        return none;
    return (qn_lstm_result){node->outputs[QN_LSTM_OUT_Y], node->outputs[QN_LSTM_OUT_H],
                            node->outputs[QN_LSTM_OUT_C]};
}

/* ---- h before each step ---- */

static qn_status before_infer(qn_infer *infer) {
    QN_TRY(qn_infer_rank(infer, 0, 3, "(N, T, K)"));
    const qn_shape y = infer->inputs[0].shape;
    if (infer->inputs[1].dtype != QN_NONE)
        QN_TRY(qn_infer_expect(infer, 1, "state", QN_SHAPE(y.dims[0], y.dims[2])));
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

const qn_op qn_op_lstm_before = {
    .name = "lstm_before",
    .min_inputs = 2,
    .max_inputs = 2,
    .optional_inputs = 1 << 1,
    .infer = before_infer,
};

/* ---- gradient; inputs: gates, cells, weight, c, lengths, dy, dh, dc ---- */

static const qn_attribute backward_fields[] = {
    QN_FIELD(qn_lstm_backward_attributes, QN_ATTRIBUTE_BOOL, state),
    {0},
};

static qn_status backward_infer(qn_infer *infer) {
    const qn_lstm_backward_attributes *a = infer->attributes;
    QN_TRY(expect_operands(infer, QN_LSTM_BACK_WEIGHT, QN_LSTM_BACK_C, 1, QN_LSTM_BACK_LENGTHS));
    QN_TRY(expect_operands(infer, QN_LSTM_BACK_WEIGHT, QN_LSTM_BACK_DH, 2, QN_LSTM_BACK_LENGTHS));
    const qn_lstm_shape d = qn_lstm_of(infer->inputs);
    QN_TRY(qn_infer_expect(infer, QN_LSTM_BACK_CELLS, "cells", QN_SHAPE(d.n, d.t, d.k)));
    if (infer->inputs[QN_LSTM_BACK_DY].dtype != QN_NONE)
        QN_TRY(qn_infer_expect(infer, QN_LSTM_BACK_DY, "gradient", QN_SHAPE(d.n, d.t, d.k)));
    infer->n_outputs = a->state ? 3 : 1;
    infer->outputs[0] = infer->inputs[QN_LSTM_BACK_GATES];
    infer->outputs[1] = infer->outputs[2] =
        (qn_tensor){infer->inputs[QN_LSTM_BACK_GATES].dtype, QN_SHAPE(d.n, d.k)};
    return QN_OK;
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return recurrence_cost(inputs, 30);
}

const qn_op qn_op_lstm_backward = {
    .name = "lstm_backward",
    .attributes_bytes = sizeof(qn_lstm_backward_attributes),
    .attributes = backward_fields,
    .min_inputs = 8,
    .max_inputs = 8,
    .optional_inputs = 1 << QN_LSTM_BACK_C | 1 << QN_LSTM_BACK_LENGTHS | 1 << QN_LSTM_BACK_DY |
                       1 << QN_LSTM_BACK_DH | 1 << QN_LSTM_BACK_DC,
    .any_type_inputs = 1 << QN_LSTM_BACK_LENGTHS,
    .output_names = {NULL, "h", "c"},
    .infer = backward_infer,
    .cost = backward_cost,
    .in_place = 1 << QN_LSTM_BACK_GATES,
};
