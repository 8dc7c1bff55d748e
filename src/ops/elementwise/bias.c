/* x (..., C) plus bias (C), and its gradient, the column sums. */
#include "base/status.h"
#include "ops/shared.h"

static qn_status bias_infer(qn_infer *infer) {
    QN_TRY(qn_infer_expect(infer, 1, "bias", QN_SHAPE(qn_shape_columns(infer->inputs[0].shape))));
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

static qn_cost bias_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(1, outputs);
}

static void bias_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_value dy = gradient->outputs[0];
    if (gradient->wanted[1])
        gradient->inputs[1] = qn_gradient_columns(graph, gradient->node, "backward_bias", dy);
    gradient->inputs[0] = dy;
}

static qn_value bias_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(5, 7) : QN_SHAPE(3, 5, 2, 7);
    qn_value x = qn_sample_parameter(graph, "x", shape, 1);
    return qn_bias(graph, "y", x, qn_sample_parameter(graph, "bias", QN_SHAPE(7), 1));
}

const qn_op qn_op_bias = {
    .name = "bias",
    .min_inputs = 2,
    .max_inputs = 2,
    .is_sum = qn_is_always,
    .infer = bias_infer,
    .gradient = bias_gradient,
    .cost = bias_cost,
    .in_place = 1 << 0,
    .n_samples = 2,
    .sample = bias_sample,
};

qn_value qn_bias(qn_graph *graph, const char *name, qn_value x, qn_value bias) {
    return qn_graph_add1(graph, &qn_op_bias, name, (qn_value[]){x, bias}, 2, NULL);
}

qn_value qn_add_rows(qn_graph *graph, const char *name, qn_value x, qn_value rows) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    char is[QN_SHAPE_TEXT], sample[QN_SHAPE_TEXT];
    const qn_shape shape = qn_graph_shape(graph, x), row = qn_graph_shape(graph, rows);
    if (shape.rank < 1 || !qn_shape_equal(qn_shape_make(shape.rank - 1, shape.dims + 1), row)) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "%s%s (add_rows): rows %s are no sample of %s",
                      graph->scope, name ? name : "unnamed", qn_shape_print(row, is),
                      qn_shape_print(shape, sample));
        return QN_NO_VALUE;
    }
    const int64_t count = qn_shape_count(row);
    x = qn_reshape(graph, NULL, x, QN_SHAPE(shape.dims[0], count));
    x = qn_bias(graph, name, x, qn_reshape(graph, NULL, rows, QN_SHAPE(count)));
    return qn_reshape(graph, NULL, x, shape);
}

/* ---- sums (C) of x (..., C) ---- */

static qn_status sum_infer(qn_infer *infer) {
    if (infer->n_inputs > 1)
        QN_TRY(
            qn_infer_expect(infer, 1, "sum", QN_SHAPE(qn_shape_columns(infer->inputs[0].shape))));
    infer->outputs[0] =
        (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(qn_shape_columns(infer->inputs[0].shape))};
    return QN_OK;
}

static qn_cost sum_cost(const void *attributes, const qn_tensor *inputs, const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return (qn_cost){.flops = qn_shape_count(inputs[0].shape)};
}

const qn_op qn_op_column_sum = {
    .name = "column_sum",
    .sums_batch = true,
    .min_inputs = 1,
    .max_inputs = 2,
    .infer = sum_infer,
    .cost = sum_cost,
    .in_place = 1 << 1,
};
