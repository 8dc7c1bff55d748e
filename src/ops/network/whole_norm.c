/* Batch norm on mantissas (ops/whole_norm.h): of numbers of 8 bits that share an exponent, to such
 * numbers. Sums over the batch are whole and exact, so its bits are those of any instruction set
 * and team. Leaves out an activation, and padding of steps between rows. No gradient: a translated
 * graph has the one below. */
#include "ops/whole_norm.h"

#include "base/status.h"
#include "ops/shared.h"

static const qn_attribute fields[] = {
    QN_FIELD(qn_whole_norm_attributes, QN_ATTRIBUTE_DOUBLE, epsilon),
    QN_FIELD(qn_whole_norm_attributes, QN_ATTRIBUTE_INT, bits),
    {0},
};

static qn_status check_mantissas(const qn_infer *infer, int input) {
    if (infer->inputs[input].dtype != QN_I8)
        return qn_fail(QN_ERROR_ARGUMENT, "input %d is %s where i8 is needed", input,
                       qn_dtype_name(infer->inputs[input].dtype));
    if (infer->inputs[input].shape.rank < 2)
        return qn_infer_rank(infer, input, 2, "(..., C)");
    const qn_tensor exponent = infer->inputs[input + 1];
    if (exponent.dtype != QN_NONE && (exponent.dtype != QN_I32 || exponent.shape.rank != 0))
        return qn_fail(QN_ERROR_ARGUMENT, "input %d is no exponent", input + 1);
    return QN_OK;
}

static qn_status check_bits(const qn_infer *infer) {
    const qn_whole_norm_attributes *a = infer->attributes;
    if (a->bits < 1 || a->bits > 7)
        return qn_fail(QN_ERROR_ARGUMENT, "%d bits of i8", a->bits);
    return QN_OK;
}

static qn_status forward_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape;
    QN_TRY(check_mantissas(infer, 0));
    QN_TRY(check_bits(infer));
    for (int i = 2; i < 4; i++)
        QN_TRY(qn_infer_expect(infer, i, "input", QN_SHAPE(qn_shape_columns(x))));
    infer->n_outputs = 4;
    infer->outputs[0] = infer->inputs[0];
    infer->outputs[1] = (qn_tensor){QN_I32, {0}};
    infer->outputs[2] = infer->outputs[3] = infer->inputs[2];
    return QN_OK;
}

static qn_status backward_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape;
    QN_TRY(check_mantissas(infer, 0));
    QN_TRY(check_mantissas(infer, 2));
    QN_TRY(check_bits(infer));
    QN_TRY(qn_infer_expect(infer, 2, "gradient", x));
    for (int i = 4; i < 7; i++)
        QN_TRY(qn_infer_expect(infer, i, "input", QN_SHAPE(qn_shape_columns(x))));
    infer->n_outputs = 4;
    infer->outputs[0] = infer->inputs[0];
    infer->outputs[1] = (qn_tensor){QN_I32, {0}};
    infer->outputs[2] = infer->outputs[3] = infer->inputs[4];
    return QN_OK;
}

static qn_cost forward_cost(const void *attributes, const qn_tensor *inputs,
                            const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(7, outputs);
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(10, outputs);
}

/* ---- samples ---- */

static const qn_whole_norm_attributes sample_attributes = {1e-5, 7};

static qn_value whole(qn_graph *graph, const char *name, qn_dtype dtype, qn_shape shape) {
    return qn_graph_add_source(graph, QN_KIND_LABEL, name, (qn_tensor){dtype, shape},
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
}

static qn_value channels(qn_graph *graph, const char *name, int64_t n) {
    return qn_parameter(graph, name, QN_SHAPE(n), (qn_initial){QN_INITIAL_ONE, 0}, false);
}

static qn_value forward_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(11, 5) : QN_SHAPE(3, 5, 7, 35);
    const int64_t n = qn_shape_columns(shape);
    qn_value inputs[4];
    inputs[0] = whole(graph, "x", QN_I8, shape);
    inputs[1] = whole(graph, "x_exponent", QN_I32, (qn_shape){0});
    inputs[2] = channels(graph, "scale", n);
    inputs[3] = channels(graph, "shift", n);
    return qn_graph_add1(graph, &qn_op_whole_norm, "y", inputs, 4, &sample_attributes);
}

static qn_value backward_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(11, 5) : QN_SHAPE(3, 5, 7, 35);
    const int64_t n = qn_shape_columns(shape);
    qn_value inputs[7];
    inputs[0] = whole(graph, "x", QN_I8, shape);
    inputs[1] = whole(graph, "x_exponent", QN_I32, (qn_shape){0});
    inputs[2] = whole(graph, "dy", QN_I8, shape);
    inputs[3] = whole(graph, "dy_exponent", QN_I32, (qn_shape){0});
    inputs[4] = channels(graph, "scale", n);
    inputs[5] = channels(graph, "mean", n);
    inputs[6] = channels(graph, "inv_std", n);
    return qn_graph_add1(graph, &qn_op_whole_norm_backward, "y", inputs, 7, &sample_attributes);
}

const qn_op qn_op_whole_norm = {
    .name = "whole_norm",
    .attributes_bytes = sizeof(qn_whole_norm_attributes),
    .attributes = fields,
    .min_inputs = 4,
    .max_inputs = 4,
    .optional_inputs = 1 << 1,
    .any_type_inputs = 3,
    .output_names = {NULL, "exponent", "mean", "inv_std"},
    .stops_gradient = true,
    .looks_at_batch = true,
    .infer = forward_infer,
    .cost = forward_cost,
    .n_samples = 2,
    .sample = forward_sample,
};

const qn_op qn_op_whole_norm_backward = {
    .name = "whole_norm_backward",
    .attributes_bytes = sizeof(qn_whole_norm_attributes),
    .attributes = fields,
    .min_inputs = 7,
    .max_inputs = 7,
    .optional_inputs = 1 << 1 | 1 << 3,
    .any_type_inputs = 15,
    .output_names = {NULL, "exponent", "scale", "shift"},
    .stops_gradient = true,
    .looks_at_batch = true,
    .infer = backward_infer,
    .cost = backward_cost,
    .n_samples = 2,
    .sample = backward_sample,
};
