/* Quantisation. Scales, exponents and zero points are values of the graph: measured by scale_of,
 * given, or computed by other operators. A scale is either a real number (affine: the number is (q
 * - zero) * scale, as in ONNX) or a shared integer exponent (q * 2^exponent, as in block floating
 * point), for the whole tensor or for each index of an axis.
 *
 * quantise has no gradient; for a straight-through estimate use x + stop_gradient(y - x).
 * dequantise has the gradient of a real scale. */
#include "ops/quantise.h"
#include "ops/shared.h"

#include <limits.h>

static const qn_attribute quantise_fields[] = {
    QN_FIELD(qn_quantise_attributes, QN_ATTRIBUTE_INT, dtype),
    QN_FIELD(qn_quantise_attributes, QN_ATTRIBUTE_INT, axis),
    QN_FIELD(qn_quantise_attributes, QN_ATTRIBUTE_INT, rounding),
    QN_FIELD(qn_quantise_attributes, QN_ATTRIBUTE_BOOL, is_symmetric),
    QN_FIELD(qn_quantise_attributes, QN_ATTRIBUTE_INT64, key),
    QN_FIELD(qn_quantise_attributes, QN_ATTRIBUTE_INT64, first),
    {0},
};

static const qn_attribute scale_of_fields[] = {
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_INT, kind),
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_INT, axis),
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_INT, bits),
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_INT, least),
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_INT, dtype),
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_INT, range),
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_INT, top),
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_DOUBLE, clip),
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_INT64, first_drop),
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_INT64, second_drop),
    QN_FIELD(qn_scale_of_attributes, QN_ATTRIBUTE_INT64, third_drop),
    {0},
};

enum { ALL_THREE = 7 };

uint64_t qn_quantise_key(const qn_node *node) {
    const qn_quantise_attributes *a = node->attributes;
    return a->key ? (uint64_t)a->key : node->key;
}

double qn_quantise_least(qn_dtype dtype, bool is_symmetric) {
    switch (dtype) {
    case QN_I8:
        return INT8_MIN + is_symmetric;
    case QN_I16:
        return INT16_MIN + is_symmetric;
    case QN_I32:
        return (double)INT32_MIN + is_symmetric;
    default:
        return 0;
    }
}

double qn_quantise_largest(qn_dtype dtype) {
    switch (dtype) {
    case QN_I8:
        return INT8_MAX;
    case QN_U8:
        return UINT8_MAX;
    case QN_I16:
        return INT16_MAX;
    case QN_U16:
        return UINT16_MAX;
    default:
        return INT32_MAX;
    }
}

static bool is_whole(qn_dtype dtype) {
    return dtype != QN_NONE && !qn_dtype_is_float(dtype);
}

/* ---- shapes ---- */

static qn_status check_axis(qn_shape x, int axis) {
    char text[QN_SHAPE_TEXT];
    if (axis < -1 || axis >= x.rank)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has no axis %d", qn_shape_print(x, text), axis);
    return QN_OK;
}

/* Of numbers that have one for all, or one for each index of an axis. */
static qn_shape shape_along(qn_shape x, int axis) {
    return axis < 0 ? (qn_shape){0} : qn_shape_make(1, &x.dims[axis]);
}

/* The scale and the zero point, which is of the whole type. */
static qn_status check_scale(const qn_infer *infer, qn_dtype whole, int axis) {
    const qn_dtype scale = infer->inputs[1].dtype;
    const qn_shape along = shape_along(infer->inputs[0].shape, axis);
    if (scale != QN_I32 && !qn_dtype_is_real(scale))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the scale is %s; it is f32, f64, or, as an exponent, i32",
                       qn_dtype_name(scale));
    QN_TRY(qn_infer_expect(infer, 1, "scale", along));
    if (infer->n_inputs < 3 || infer->inputs[2].dtype == QN_NONE)
        return QN_OK;
    if (!is_whole(whole))
        return qn_fail(QN_ERROR_ARGUMENT, "%s has no zero point", qn_dtype_name(whole));
    QN_TRY(qn_infer_dtype(infer, 2, whole));
    return qn_infer_expect(infer, 2, "zero point", along);
}

static qn_status quantise_infer(qn_infer *infer) {
    const qn_quantise_attributes *a = infer->attributes;
    const qn_dtype x = infer->inputs[0].dtype, scale = infer->inputs[1].dtype;
    const qn_dtype to = (qn_dtype)a->dtype;
    QN_TRY(check_axis(infer->inputs[0].shape, a->axis));
    QN_TRY(check_scale(infer, to, a->axis));
    if (qn_dtype_bytes(to) == 0 || qn_dtype_is_real(to))
        return qn_fail(QN_ERROR_ARGUMENT, "%s is no type to quantise to", qn_dtype_name(to));
    if (scale == QN_I32 ? x != QN_I32 && !qn_dtype_is_real(x) : x != scale)
        return qn_fail(QN_ERROR_ARGUMENT, "input 0 is %s where the scale is %s", qn_dtype_name(x),
                       qn_dtype_name(scale));
    if (a->rounding < QN_ROUND_EVEN || a->rounding > QN_ROUND_PSEUDO_STOCHASTIC)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no rounding %d", a->rounding);
    if (!is_whole(to) && a->rounding != QN_ROUND_EVEN)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is rounded to even", qn_dtype_name(to));
    if (a->rounding == QN_ROUND_PSEUDO_STOCHASTIC && x != QN_I32)
        return qn_fail(QN_ERROR_ARGUMENT, "pseudo-stochastic rounding is of i32, not of %s",
                       qn_dtype_name(x));
    infer->outputs[0] = (qn_tensor){to, infer->inputs[0].shape};
    return QN_OK;
}

static qn_status dequantise_infer(qn_infer *infer) {
    const qn_quantise_attributes *a = infer->attributes;
    const qn_dtype q = infer->inputs[0].dtype, scale = infer->inputs[1].dtype;
    const qn_dtype to = scale == QN_I32 ? (qn_dtype)a->dtype : scale;
    QN_TRY(check_axis(infer->inputs[0].shape, a->axis));
    QN_TRY(check_scale(infer, q, a->axis));
    if (qn_dtype_is_real(q) || !qn_dtype_is_real(to))
        return qn_fail(QN_ERROR_ARGUMENT, "%s is not dequantised to %s", qn_dtype_name(q),
                       qn_dtype_name(to));
    infer->outputs[0] = (qn_tensor){to, infer->inputs[0].shape};
    return QN_OK;
}

static qn_status scale_of_infer(qn_infer *infer) {
    const qn_scale_of_attributes *a = infer->attributes;
    const qn_dtype x = infer->inputs[0].dtype;
    const qn_shape along = shape_along(infer->inputs[0].shape, a->axis);
    QN_TRY(check_axis(infer->inputs[0].shape, a->axis));
    if (a->kind < QN_SCALE_EXPONENT || a->kind > QN_SCALE_AFFINE)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no kind of scale %d", a->kind);
    if (!qn_dtype_is_real(x) && (x != QN_I32 || a->kind != QN_SCALE_EXPONENT))
        return qn_fail(QN_ERROR_ARGUMENT, "input 0 is %s; of whole numbers, i32 have an exponent",
                       qn_dtype_name(x));
    if (a->kind == QN_SCALE_SYMMETRIC && (a->bits < 1 || a->bits > 31))
        return qn_fail(QN_ERROR_ARGUMENT, "%d bits; there are 1 to 31", a->bits);
    infer->outputs[0] = (qn_tensor){a->kind == QN_SCALE_EXPONENT ? QN_I32 : x, along};
    if (a->kind != QN_SCALE_AFFINE)
        return QN_OK;
    if (!is_whole((qn_dtype)a->dtype))
        return qn_fail(QN_ERROR_ARGUMENT, "%s has no zero point",
                       qn_dtype_name((qn_dtype)a->dtype));
    infer->n_outputs = 2;
    infer->outputs[1] = (qn_tensor){(qn_dtype)a->dtype, along};
    return QN_OK;
}

/* ---- costs, pieces, gradient ---- */

static qn_cost quantise_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(2, outputs);
}

static qn_cost scale_of_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return qn_cost_elements(2, inputs);
}

static void quantise_split(const qn_graph *graph, const qn_node *node, int64_t piece,
                           int64_t pieces, void *attributes) {
    qn_quantise_attributes *a = attributes;
    a->key = (int64_t)qn_quantise_key(node);
    a->first = piece * (qn_shape_count(qn_graph_shape(graph, node->outputs[0])) / pieces);
}

/* The sum of x over all axes but one, or over all of them. */
static qn_value sum_along(qn_graph *graph, const qn_node *node, qn_value x, int axis) {
    const qn_shape shape = qn_graph_shape(graph, x);
    const int64_t count = qn_shape_count(shape);
    int order[QN_MAX_RANK], n = 0;
    if (axis < 0)
        return qn_reduce(graph, NULL, qn_reshape(graph, NULL, x, QN_SHAPE(count)), 0, QN_SUM);
    for (int i = 0; i < shape.rank; i++) {
        if (i != axis)
            order[n++] = i;
    }
    order[n] = axis;
    return qn_gradient_columns(graph, node, "dscale",
                               axis == n ? x : qn_transpose(graph, NULL, x, order));
}

/* d(scale) is the sum of dy * (q - zero). */
static void dequantise_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_quantise_attributes *a = node->attributes;
    const qn_tensor scale = qn_graph_tensor(graph, node->inputs[1]);
    if (!gradient->wanted[1])
        return;
    const qn_value one =
        qn_op_broadcast(graph, NULL, qn_op_scalar_of(graph, NULL, 1, scale.dtype), scale.shape, 1);
    const qn_value inputs[] = {node->inputs[0], one,
                               node->n_inputs > 2 ? node->inputs[2] : QN_NO_VALUE};
    const qn_value q = qn_gradient_add(graph, node, "whole", node->op, inputs, node->n_inputs, a);
    gradient->inputs[1] =
        sum_along(graph, node, qn_multiply(graph, NULL, gradient->outputs[0], q), a->axis);
}

/* ---- samples ---- */

/* Powers of two, so that floats and doubles are quantised alike. */
static qn_value sample_scale(qn_graph *graph, qn_value x, int axis) {
    return qn_op_broadcast(graph, "scale", qn_op_scalar(graph, "one", 1),
                           shape_along(qn_graph_shape(graph, x), axis), 0x1p-6);
}

static qn_value quantise_sample(qn_graph *graph, int variant) {
    const qn_value x = qn_input(graph, "x", QN_SHAPE(3, 5, 7));
    const int axis = variant % 4 - 1;
    const qn_quantise how = {.axis = axis, .rounding = (qn_rounding)(variant / 4)};
    return qn_op_quantise(graph, "y", x, sample_scale(graph, x, axis), QN_NO_VALUE, QN_I8, &how);
}

static qn_value dequantise_sample(qn_graph *graph, int variant) {
    const qn_value x = qn_input(graph, "x", QN_SHAPE(3, 5, 7));
    const int axis = variant % 4 - 1;
    const qn_quantise how = {.axis = axis};
    const qn_shape along = shape_along(QN_SHAPE(3, 5, 7), axis);
    const qn_value zero =
        variant < 4
            ? QN_NO_VALUE
            : qn_op_cast(graph, "zero", qn_label(graph, "zero.label", QN_I32, along), QN_I8);
    const qn_value q =
        qn_op_quantise(graph, "q", x, sample_scale(graph, x, axis), zero, QN_I8, &how);
    const qn_value scale =
        qn_parameter(graph, "scale.learned", along, (qn_initial){QN_INITIAL_ONE, 0}, true);
    return qn_op_dequantise(graph, "y", q, scale, zero, axis);
}

static qn_value scale_of_sample(qn_graph *graph, int variant) {
    qn_value zero;
    const qn_value x = qn_input(graph, "x", QN_SHAPE(3, 5, 7));
    return qn_op_scale_of(graph, "y", x, (qn_scale_kind)(variant / 4), variant % 4 - 1, 7, QN_U8,
                          &zero);
}

const qn_op qn_op_quantise_number = {
    .name = "quantise",
    .attributes_bytes = sizeof(qn_quantise_attributes),
    .attributes = quantise_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .optional_inputs = 1 << 2,
    .any_type_inputs = ALL_THREE,
    .stops_gradient = true,
    .infer = quantise_infer,
    .cost = quantise_cost,
    .split = quantise_split,
    .n_samples = 12,
    .sample = quantise_sample,
};

const qn_op qn_op_dequantise_number = {
    .name = "dequantise",
    .attributes_bytes = sizeof(qn_quantise_attributes),
    .attributes = quantise_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .optional_inputs = 1 << 2,
    .any_type_inputs = ALL_THREE,
    .infer = dequantise_infer,
    .gradient = dequantise_gradient,
    .cost = quantise_cost,
    .n_samples = 8,
    .sample = dequantise_sample,
};

const qn_op qn_op_scale_of_numbers = {
    .name = "scale_of",
    .attributes_bytes = sizeof(qn_scale_of_attributes),
    .attributes = scale_of_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = 1 << 0,
    .output_names = {NULL, "zero"},
    .stops_gradient = true,
    .looks_at_batch = true,
    .infer = scale_of_infer,
    .cost = scale_of_cost,
    .n_samples = 12,
    .sample = scale_of_sample,
};

/* ---- builders ---- */

qn_value qn_op_quantise(qn_graph *graph, const char *name, qn_value x, qn_value scale,
                        qn_value zero, qn_dtype dtype, const qn_quantise *how) {
    const qn_quantise_attributes attributes = {.dtype = (int)dtype,
                                               .axis = how->axis,
                                               .rounding = (int)how->rounding,
                                               .is_symmetric = how->is_symmetric};
    const qn_value inputs[] = {x, scale, zero};
    return qn_graph_add1(graph, &qn_op_quantise_number, name, inputs, zero.id < 0 ? 2 : 3,
                         &attributes);
}

qn_value qn_op_dequantise(qn_graph *graph, const char *name, qn_value q, qn_value scale,
                          qn_value zero, int axis) {
    const qn_quantise_attributes attributes = {.dtype = (int)graph->real, .axis = axis};
    const qn_value inputs[] = {q, scale, zero};
    return qn_graph_add1(graph, &qn_op_dequantise_number, name, inputs, zero.id < 0 ? 2 : 3,
                         &attributes);
}

qn_value qn_op_scale_of(qn_graph *graph, const char *name, qn_value x, qn_scale_kind kind, int axis,
                        int bits, qn_dtype dtype, qn_value *zero) {
    const qn_scale_of_attributes attributes = {
        .kind = (int)kind, .axis = axis, .bits = bits, .least = INT_MIN, .dtype = (int)dtype};
    const qn_node *node = qn_graph_add(graph, &qn_op_scale_of_numbers, name, &x, 1, &attributes);
    *zero = node && node->n_outputs > 1 ? node->outputs[1] : QN_NO_VALUE;
    return node ? node->outputs[0] : QN_NO_VALUE;
}

qn_value qn_op_scale_in(qn_graph *graph, const char *name, qn_value x, const qn_scaling_rule *rule,
                        qn_value *zero) {
    const qn_scale_of_attributes attributes = {.kind = (int)rule->kind,
                                               .axis = rule->axis,
                                               .bits = rule->bits,
                                               .least = INT_MIN,
                                               .dtype = (int)rule->dtype,
                                               .range = (int)rule->range,
                                               .top = rule->top,
                                               .clip = rule->clip};
    const qn_node *node = qn_graph_add(graph, &qn_op_scale_of_numbers, name, &x, 1, &attributes);
    *zero = node && node->n_outputs > 1 ? node->outputs[1] : QN_NO_VALUE;
    return node ? node->outputs[0] : QN_NO_VALUE;
}

qn_value qn_op_shift_of(qn_graph *graph, const char *name, qn_value x, int axis, int bits) {
    const qn_scale_of_attributes attributes = {
        .kind = QN_SCALE_EXPONENT, .axis = axis, .bits = bits, .least = 0};
    return qn_graph_add1(graph, &qn_op_scale_of_numbers, name, &x, 1, &attributes);
}

qn_value qn_op_falling_shift_of(qn_graph *graph, const char *name, qn_value x, int bits,
                                const int64_t drops[QN_MOST_DROPS]) {
    const qn_scale_of_attributes attributes = {.kind = QN_SCALE_EXPONENT,
                                               .axis = -1,
                                               .bits = bits,
                                               .least = 0,
                                               .first_drop = drops[0],
                                               .second_drop = drops[1],
                                               .third_drop = drops[2]};
    return qn_graph_add1(graph, &qn_op_scale_of_numbers, name, &x, 1, &attributes);
}
