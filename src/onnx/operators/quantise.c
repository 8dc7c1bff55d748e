/* Quantisation as nodes of its own: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear; and
 * products of quantised numbers, QLinearConv and QLinearMatMul, which are these around a product.
 * Quantised numbers are held as reals with the values of the whole type. Rounding passes its
 * gradient on unchanged (straight through, Bengio et al. 2013), cutting to the type's range only
 * inside of it. Scales do not train; weights that the file has as whole numbers stay as they
 * are. Leaves out: 8-bit floats, blocks. */
#include "base/status.h"
#include "onnx/builder.h"
#include "onnx/fold.h"

#include <math.h>

/* The least and the largest number of a whole type. */
static bool find_range(qn_onnx_type type, double *least, double *most) {
    static const struct {
        qn_onnx_type type;
        double least, most;
    } ranges[] = {{QN_ONNX_UINT8, 0, 255},
                  {QN_ONNX_INT8, -128, 127},
                  {QN_ONNX_UINT16, 0, 65535},
                  {QN_ONNX_INT16, -32768, 32767}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (ranges[i].type == type) {
            *least = ranges[i].least;
            *most = ranges[i].most;
            return true;
        }
    }
    return false;
}

/* A scale or zero point as reals that do not train, along the axis of a rank. */
static qn_value find_along(qn_onnx_call *call, int input, int rank, int64_t axis) {
    const bool is_weight =
        qn_onnx_type_at(call, input) == QN_ONNX_FLOAT && call->inputs[input]->initializer;
    const qn_shape given = qn_onnx_shape(call, input);
    qn_value value = is_weight && given.rank > 0 ? qn_onnx_parameter(call, input, NULL, false)
                                                 : qn_onnx_plain(call, input);
    qn_shape shape = {.rank = rank};
    value = qn_stop_gradient(call->graph, qn_onnx_side_name(call, input == 1 ? "scale" : "zero"),
                             qn_onnx_as_reals(call, value));
    for (int i = 0; i < rank; i++)
        shape.dims[i] = i == axis ? qn_shape_count(given) : 1;
    if (qn_shape_count(given) == 1) /* one for all, however these lie */
        shape = (qn_shape){.rank = 1, .dims = {1}};
    return qn_reshape(call->graph, NULL, value, shape);
}

/* x, and the others beside it. zero: or QN_NO_VALUE. */
static qn_status find_operands(qn_onnx_call *call, qn_value *x, qn_value *scale, qn_value *zero,
                               bool *is_image) {
    const qn_shape shape = qn_onnx_shape(call, 0), given = qn_onnx_shape(call, 1);
    int64_t axis = qn_onnx_int(call, "axis", 1);
    axis += axis < 0 ? shape.rank : 0;
    if (qn_onnx_int(call, "block_size", 0) != 0 || given.rank > 1)
        return qn_fail(QN_ERROR_UNSUPPORTED, "a scale for each block: use one for each index of an "
                                             "axis, or one for all");
    const int64_t n = qn_shape_count(given);
    if (n != 1 && (axis < 0 || axis >= shape.rank || shape.dims[axis] != n))
        return qn_fail(QN_ERROR_FORMAT,
                       "there are %lld scales, which is not the extent of axis "
                       "%lld",
                       (long long)n, (long long)axis);
    *is_image = n == 1 && qn_onnx_is_image(call, 0);
    *x = qn_onnx_as_reals(call, *is_image ? qn_onnx_value_of(call, 0) : qn_onnx_plain(call, 0));
    *scale = find_along(call, 1, shape.rank, axis);
    *zero = qn_onnx_has(call, 2) ? find_along(call, 2, shape.rank, axis) : QN_NO_VALUE;
    return call->graph->status;
}

/* round(x / scale) + zero, cut to the type's range; zero: or QN_NO_VALUE. */
static qn_value quantise(qn_onnx_call *call, qn_value x, qn_value scale, qn_value zero,
                         qn_function cut) {
    const qn_function round = {.kind = QN_FUNCTION_ROUND};
    qn_graph *graph = call->graph;
    x = qn_op_combine(graph, qn_onnx_side_name(call, "quotient"), QN_COMBINE_DIVIDE, x, scale);
    /* round(x) + (x - x), of which the last has no gradient: exactly whole, with the slope of x */
    const qn_value same = qn_stop_gradient(graph, qn_onnx_side_name(call, "same"), x);
    const qn_value rounded = qn_op_function(graph, qn_onnx_side_name(call, "rounded"), x, round);
    x = qn_op_combine(graph, qn_onnx_side_name(call, "nothing"), QN_COMBINE_SUBTRACT, x, same);
    x = qn_add(graph, qn_onnx_side_name(call, "whole"), rounded, x);
    if (zero.id >= 0)
        x = qn_op_combine(graph, qn_onnx_side_name(call, "moved"), QN_COMBINE_ADD, x, zero);
    return qn_op_function(graph, call->name, x, cut);
}

static qn_status build_quantise(qn_onnx_call *call) {
    const qn_onnx_type type = qn_onnx_has(call, 2) ? qn_onnx_type_at(call, 2) : QN_ONNX_UINT8;
    qn_function cut = {.kind = QN_FUNCTION_LINE, .a = 1};
    qn_value x, scale, zero;
    bool is_image;
    if (!find_range(type, &cut.least, &cut.most) || qn_onnx_int(call, "output_dtype", 0) != 0)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "it gives %s: quantise to 8 or 16 bits, with a zero point of that type",
                       qn_onnx_type_name(type));
    QN_TRY(find_operands(call, &x, &scale, &zero, &is_image));
    qn_onnx_give_typed(call, 0, quantise(call, x, scale, zero, cut), is_image, type);
    return call->graph->status;
}

/* The largest of sign times all elements and 0. */
static qn_value find_largest(qn_onnx_call *call, qn_value x, double sign) {
    qn_graph *graph = call->graph;
    const qn_function line = {QN_FUNCTION_LINE, sign, 0, -INFINITY, INFINITY};
    const qn_function positive = {QN_FUNCTION_LINE, 1, 0, 0, INFINITY};
    x = qn_reshape(graph, qn_onnx_side_name(call, "flat"), x, QN_SHAPE(1, -1));
    x = qn_op_function(graph, qn_onnx_side_name(call, "signed"), x, line);
    x = qn_reduce(graph, qn_onnx_side_name(call, "largest"), x, 1, QN_MAX);
    return qn_op_function(graph, qn_onnx_side_name(call, "end"), x, positive);
}

/* To unsigned bytes, with scale and zero point from the range of the numbers, 0 within it. Where
 * all are 0, the scale is 1. */
static qn_status build_dynamic(qn_onnx_call *call) {
    const qn_function byte = {QN_FUNCTION_LINE, 1, 0, 0, 255};
    const qn_function step = {QN_FUNCTION_LINE, 1.0 / 255, 0, -INFINITY, INFINITY};
    const qn_function round = {.kind = QN_FUNCTION_ROUND};
    const bool is_image = qn_onnx_is_image(call, 0);
    qn_graph *g = call->graph;
    const qn_value x = qn_onnx_value_of(call, 0);
    const qn_value constant = qn_stop_gradient(g, qn_onnx_side_name(call, "constant"), x);
    const qn_value below = find_largest(call, constant, -1);
    qn_value range =
        qn_add(g, qn_onnx_side_name(call, "range"), find_largest(call, constant, 1), below);
    const qn_value none = qn_op_combine(g, qn_onnx_side_name(call, "none"), QN_COMBINE_EQUAL, range,
                                        qn_op_scalar(g, qn_onnx_side_name(call, "zero"), 0));
    const qn_value scale =
        qn_op_combine(g, qn_onnx_side_name(call, "scale"), QN_COMBINE_ADD,
                      qn_op_function(g, qn_onnx_side_name(call, "step"), range, step), none);
    qn_value zero =
        qn_op_combine(g, qn_onnx_side_name(call, "place"), QN_COMBINE_DIVIDE, below, scale);
    zero = qn_op_function(g, qn_onnx_side_name(call, "point"), zero, round);
    zero = qn_op_function(g, qn_onnx_side_name(call, "byte"), zero, byte);
    qn_onnx_give_typed(call, 0, quantise(call, x, scale, zero, byte), is_image, QN_ONNX_UINT8);
    const qn_shape scalar = {.rank = 0};
    if (qn_onnx_is_used(call, 1))
        qn_onnx_give(call, 1, qn_reshape(g, qn_onnx_side_name(call, "y_scale"), scale, scalar),
                     false);
    if (qn_onnx_is_used(call, 2))
        qn_onnx_give_typed(call, 2, qn_reshape(g, qn_onnx_side_name(call, "y_zero"), zero, scalar),
                           false, QN_ONNX_UINT8);
    return g->status;
}

static qn_status build_dequantise(qn_onnx_call *call) {
    qn_graph *graph = call->graph;
    qn_value x, scale, zero;
    bool is_image;
    QN_TRY(find_operands(call, &x, &scale, &zero, &is_image));
    if (zero.id >= 0)
        x = qn_op_combine(graph, qn_onnx_side_name(call, "moved"), QN_COMBINE_SUBTRACT, x, zero);
    x = qn_op_combine(graph, call->name, QN_COMBINE_MULTIPLY, x, scale);
    qn_onnx_give(call, 0, x, is_image);
    return graph->status;
}

/* ---- products of quantised numbers ---- */

/* Runs another operator over items; *result: what it gives. axis: of a scale, or -1. */
static qn_status run_as(qn_onnx_call *call, const char *type, const char *suffix, int64_t axis,
                        qn_onnx_item *const *inputs, int n, qn_onnx_item *result) {
    const qn_onnx_attribute along = {.name = "axis", .kind = QN_ONNX_ATTRIBUTE_INT, .count = axis};
    qn_onnx_node node = *call->node;
    qn_onnx_call one = *call;
    qn_onnx_item *to = qn_onnx_find_item(call->builder, node.outputs[0]);
    node.type = type;
    if (axis >= 0) {
        node.attributes = &along;
        node.n_attributes = 1;
    }
    one.node = &node;
    one.name = suffix ? qn_onnx_side_name(call, suffix) : call->name;
    one.inputs = inputs;
    one.n_inputs = n;
    if (!one.name || !to)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_onnx_find_translator(type)->build(&one));
    *result = *to;
    return call->graph->status;
}

/* Two quantised operands as reals: inputs x, scale, zero, y, scale, zero. */
static qn_status read_factors(qn_onnx_call *call, int64_t axis, qn_onnx_item factors[2]) {
    for (int i = 0; i < 2; i++) {
        const bool is_along = axis >= 0 && i == 1 && qn_shape_count(qn_onnx_shape(call, 4)) != 1;
        QN_TRY(run_as(call, "DequantizeLinear", "factor", is_along ? axis : 0,
                      &call->inputs[3 * (size_t)i], 3, &factors[i]));
        factors[i].initializer = NULL;
        factors[i].constant = NULL;
    }
    return QN_OK;
}

/* What was multiplied, quantised by inputs 6 and 7. */
static qn_status give_quantised(qn_onnx_call *call, qn_onnx_item *product) {
    qn_onnx_item *const inputs[] = {product, call->inputs[6], call->inputs[7]};
    return run_as(call, "QuantizeLinear", NULL, 1, inputs, 3, &(qn_onnx_item){0});
}

static qn_status build_quantised_matmul(qn_onnx_call *call) {
    qn_onnx_item factors[2], product;
    for (int i = 1; i < 8; i += 3) {
        if (qn_shape_count(qn_onnx_shape(call, i)) != 1)
            return qn_fail(QN_ERROR_UNSUPPORTED, "its input %d is not one scale for all", i);
    }
    QN_TRY(read_factors(call, -1, factors));
    qn_onnx_item *const inputs[] = {&factors[0], &factors[1]};
    QN_TRY(run_as(call, "MatMul", "product", -1, inputs, 2, &product));
    return give_quantised(call, &product);
}

/* A bias in units of both scales, as reals. */
static qn_status read_quantised_bias(qn_onnx_call *call, qn_onnx_item *bias) {
    qn_graph *g = call->graph;
    const qn_value unit = qn_op_combine(g, qn_onnx_side_name(call, "unit"), QN_COMBINE_MULTIPLY,
                                        qn_onnx_plain(call, 1), qn_onnx_plain(call, 4));
    const qn_value x = qn_op_combine(g, qn_onnx_side_name(call, "bias"), QN_COMBINE_MULTIPLY,
                                     qn_onnx_as_reals(call, qn_onnx_plain(call, 8)), unit);
    *bias = (qn_onnx_item){.name = call->name,
                           .type = QN_ONNX_FLOAT,
                           .value = qn_stop_gradient(g, qn_onnx_side_name(call, "fixed"), x),
                           .other = QN_NO_VALUE,
                           .row = QN_NO_VALUE};
    return g->status;
}

static qn_status build_quantised_conv(qn_onnx_call *call) {
    qn_onnx_item factors[2], bias, product;
    QN_TRY(read_factors(call, 0, factors));
    if (qn_onnx_has(call, 8))
        QN_TRY(read_quantised_bias(call, &bias));
    qn_onnx_item *const inputs[] = {&factors[0], &factors[1], &bias};
    QN_TRY(run_as(call, "Conv", "product", -1, inputs, qn_onnx_has(call, 8) ? 3 : 2, &product));
    return give_quantised(call, &product);
}

const qn_onnx_translator qn_onnx_quantise_translators[] = {
    {"QuantizeLinear", 2, 3, build_quantise},       {"DequantizeLinear", 2, 3, build_dequantise},
    {"DynamicQuantizeLinear", 1, 1, build_dynamic}, {"QLinearMatMul", 8, 8, build_quantised_matmul},
    {"QLinearConv", 8, 9, build_quantised_conv},    {NULL, 0, 0, NULL},
};
