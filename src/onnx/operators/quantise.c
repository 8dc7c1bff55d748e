/* Quantisation as nodes of its own: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear; and
 * products of quantised numbers: QLinearConv and QLinearMatMul, which are these around a product,
 * and ConvInteger and MatMulInteger, whose sums are exact, in floats by parts of the numbers.
 * Quantised numbers are held as reals with the values of the whole type. Rounding passes its
 * gradient on unchanged (straight through, Bengio et al. 2013), cutting to the type's range only
 * inside of it. Scales do not train; weights that the file has as whole numbers stay as they
 * are. Leaves out: 8-bit floats. */
#include "base/status.h"
#include "onnx/builder.h"
#include "onnx/fold.h"
#include "onnx/integers.h"

#include <math.h>
#include <string.h>

/* The least and the largest number of a whole type. */
static bool find_range(qn_onnx_type type, double *least, double *most) {
    static const struct {
        qn_onnx_type type;
        double least, most;
    } ranges[] = {{QN_ONNX_UINT4, 0, 15},     {QN_ONNX_INT4, -8, 7},
                  {QN_ONNX_UINT8, 0, 255},    {QN_ONNX_INT8, -128, 127},
                  {QN_ONNX_UINT16, 0, 65535}, {QN_ONNX_INT16, -32768, 32767}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        if (ranges[i].type == type) {
            *least = ranges[i].least;
            *most = ranges[i].most;
            return true;
        }
    }
    return false;
}

/* A scale or zero point as reals that do not train. */
static qn_value read_fixed(qn_onnx_call *call, int input) {
    const bool is_weight =
        qn_onnx_type_at(call, input) == QN_ONNX_FLOAT && call->inputs[input]->initializer;
    const bool is_list = is_weight && qn_onnx_shape(call, input).rank > 0;
    const qn_value value =
        is_list ? qn_onnx_parameter(call, input, NULL, false) : qn_onnx_plain(call, input);
    return qn_stop_gradient(call->graph, qn_onnx_side_name(call, input == 1 ? "scale" : "zero"),
                            qn_onnx_as_reals(call, value));
}

/* The same for each block of an axis, for all elements of it: (..., n / block, ...) repeated. */
static qn_value find_blocks(qn_onnx_call *call, int input, int axis, int64_t block) {
    const qn_shape x = qn_onnx_shape(call, 0), given = qn_onnx_shape(call, input);
    const int64_t ahead = qn_shape_count_range(given, 0, axis);
    const int64_t behind = qn_shape_count_range(given, axis + 1, given.rank);
    const int64_t blocks = given.dims[axis];
    qn_value value = qn_reshape(call->graph, qn_onnx_side_name(call, "blocks"),
                                read_fixed(call, input), QN_SHAPE(ahead, blocks, 1, behind));
    value = qn_expand(call->graph, qn_onnx_side_name(call, "each"), value,
                      QN_SHAPE(ahead, blocks, block, behind));
    value = qn_reshape(call->graph, qn_onnx_side_name(call, "all"), value,
                       QN_SHAPE(ahead, blocks * block, behind));
    if (blocks * block != x.dims[axis])
        value = qn_slice(call->graph, qn_onnx_side_name(call, "first"), value, 1, 0, x.dims[axis]);
    return qn_reshape(call->graph, qn_onnx_side_name(call, "spread"), value, x);
}

/* The same along the axis of a rank. */
static qn_value find_along(qn_onnx_call *call, int input, int rank, int64_t axis) {
    const qn_shape given = qn_onnx_shape(call, input);
    const qn_value value = read_fixed(call, input);
    qn_shape shape = {.rank = rank};
    for (int i = 0; i < rank; i++)
        shape.dims[i] = i == axis ? qn_shape_count(given) : 1;
    if (qn_shape_count(given) == 1) /* one for all, however these lie */
        shape = (qn_shape){.rank = 1, .dims = {1}};
    return qn_reshape(call->graph, NULL, value, shape);
}

/* Whether scales (or zero points) are those of blocks of an axis. */
static qn_status check_blocks(const qn_onnx_call *call, int input, int axis, int64_t block) {
    const qn_shape x = qn_onnx_shape(call, 0), given = qn_onnx_shape(call, input);
    bool fits = given.rank == x.rank && block > 0;
    for (int i = 0; fits && i < x.rank; i++)
        fits = given.dims[i] == (i == axis ? (x.dims[i] - 1) / block + 1 : x.dims[i]);
    return fits ? QN_OK
                : qn_fail(QN_ERROR_FORMAT,
                          "its input %d is not one number for each block of %lld along axis %d",
                          input, (long long)block, axis);
}

/* Operands with a scale for each block of elements. */
static qn_status find_blocked(qn_onnx_call *call, int64_t axis, int64_t block, qn_value *scale,
                              qn_value *zero) {
    const bool has_zero = qn_onnx_has(call, 2);
    if (axis < 0 || axis >= qn_onnx_shape(call, 0).rank)
        return qn_fail(QN_ERROR_FORMAT, "it has no axis %lld", (long long)axis);
    QN_TRY(check_blocks(call, 1, (int)axis, block));
    if (has_zero)
        QN_TRY(check_blocks(call, 2, (int)axis, block));
    *scale = find_blocks(call, 1, (int)axis, block);
    *zero = has_zero ? find_blocks(call, 2, (int)axis, block) : QN_NO_VALUE;
    return call->graph->status;
}

/* x, and the others beside it. zero: or QN_NO_VALUE. */
static qn_status find_operands(qn_onnx_call *call, qn_value *x, qn_value *scale, qn_value *zero,
                               bool *is_image) {
    const qn_shape shape = qn_onnx_shape(call, 0), given = qn_onnx_shape(call, 1);
    int64_t axis = qn_onnx_int(call, "axis", 1);
    const int64_t block = qn_onnx_int(call, "block_size", 0);
    axis += axis < 0 ? shape.rank : 0;
    if (block != 0) {
        *is_image = false;
        *x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
        return find_blocked(call, axis, block, scale, zero);
    }
    if (given.rank > 1)
        return qn_fail(QN_ERROR_FORMAT, "its scales have %d axes and no block_size", given.rank);
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
static qn_value quantise(qn_onnx_call *call, const char *name, qn_value x, qn_value scale,
                         qn_value zero, qn_function cut) {
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
    return qn_op_function(graph, name, x, cut);
}

static qn_status build_quantise(qn_onnx_call *call) {
    const qn_onnx_type given = (qn_onnx_type)qn_onnx_int(call, "output_dtype", 0);
    const qn_onnx_type type = qn_onnx_has(call, 2) ? qn_onnx_type_at(call, 2)
                              : given != 0         ? given
                                                   : QN_ONNX_UINT8;
    qn_function cut = {.kind = QN_FUNCTION_LINE, .a = 1};
    qn_value x, scale, zero;
    bool is_image;
    if (given != 0 && given != type)
        return qn_fail(QN_ERROR_FORMAT, "its output_dtype is not its zero point's type");
    if (!find_range(type, &cut.least, &cut.most))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "it gives %s: quantise to whole numbers of 4, 8 or 16 bits",
                       qn_onnx_type_name(type));
    QN_TRY(find_operands(call, &x, &scale, &zero, &is_image));
    qn_onnx_give_typed(call, 0, quantise(call, call->name, x, scale, zero, cut), is_image, type);
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

/* Numbers as unsigned bytes, with scale and zero point from the range of the numbers, 0 within it.
 * Where all are 0, the scale is 1. */
typedef struct dynamic {
    qn_value bytes, scale, zero;
} dynamic;

static dynamic quantise_dynamic(qn_onnx_call *call, const char *name, qn_value x) {
    const qn_function byte = {QN_FUNCTION_LINE, 1, 0, 0, 255};
    const qn_function step = {QN_FUNCTION_LINE, 1.0 / 255, 0, -INFINITY, INFINITY};
    const qn_function round = {.kind = QN_FUNCTION_ROUND};
    qn_graph *g = call->graph;
    const qn_value constant = qn_stop_gradient(g, qn_onnx_side_name(call, "constant"), x);
    const qn_value below = find_largest(call, constant, -1);
    qn_value range =
        qn_add(g, qn_onnx_side_name(call, "range"), find_largest(call, constant, 1), below);
    const qn_value none = qn_op_combine(g, qn_onnx_side_name(call, "none"), QN_COMBINE_EQUAL, range,
                                        qn_op_scalar(g, qn_onnx_side_name(call, "zero"), 0));
    dynamic d;
    d.scale = qn_op_combine(g, qn_onnx_side_name(call, "scale"), QN_COMBINE_ADD,
                            qn_op_function(g, qn_onnx_side_name(call, "step"), range, step), none);
    d.zero = qn_op_combine(g, qn_onnx_side_name(call, "place"), QN_COMBINE_DIVIDE, below, d.scale);
    d.zero = qn_op_function(g, qn_onnx_side_name(call, "point"), d.zero, round);
    d.zero = qn_op_function(g, qn_onnx_side_name(call, "byte"), d.zero, byte);
    d.bytes = quantise(call, name, x, d.scale, d.zero, byte);
    return d;
}

static qn_status build_dynamic(qn_onnx_call *call) {
    const bool is_image = qn_onnx_is_image(call, 0);
    qn_graph *g = call->graph;
    const dynamic d = quantise_dynamic(call, call->name, qn_onnx_value_of(call, 0));
    qn_onnx_give_typed(call, 0, d.bytes, is_image, QN_ONNX_UINT8);
    const qn_shape scalar = {.rank = 0};
    if (qn_onnx_is_used(call, 1))
        qn_onnx_give(call, 1, qn_reshape(g, qn_onnx_side_name(call, "y_scale"), d.scale, scalar),
                     false);
    if (qn_onnx_is_used(call, 2))
        qn_onnx_give_typed(call, 2,
                           qn_reshape(g, qn_onnx_side_name(call, "y_zero"), d.zero, scalar), false,
                           QN_ONNX_UINT8);
    return g->status;
}

qn_value qn_onnx_rounded_to_bytes(qn_onnx_call *call, qn_value x) {
    qn_graph *g = call->graph;
    const dynamic d = quantise_dynamic(call, qn_onnx_side_name(call, "bytes"), x);
    x = qn_op_combine(g, qn_onnx_side_name(call, "centred"), QN_COMBINE_SUBTRACT, d.bytes, d.zero);
    return qn_op_combine(g, qn_onnx_side_name(call, "again"), QN_COMBINE_MULTIPLY, x, d.scale);
}

qn_value qn_onnx_dequantised(qn_onnx_call *call, int input, int scale, int zero) {
    const qn_shape shape = qn_onnx_shape(call, input);
    qn_graph *g = call->graph;
    qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, input));
    for (int i = zero; i >= scale; i -= zero - scale) {
        const qn_shape given = qn_onnx_shape(call, i);
        if (!qn_onnx_has(call, i))
            continue;
        /* one for all of an index of the first axis, or for each of the last axis, too */
        qn_shape beside = shape;
        for (int axis = 0; axis < shape.rank; axis++) {
            const bool is_own = axis == 0 || (axis == shape.rank - 1 && given.rank == 2);
            beside.dims[axis] = is_own ? shape.dims[axis] : 1;
        }
        if (qn_shape_count(given) != qn_shape_count(beside)) {
            qn_graph_fail(g, QN_ERROR_FORMAT, "%s: its input %d does not fit its input %d",
                          call->name, i, input);
            return QN_NO_VALUE;
        }
        const qn_value number =
            qn_reshape(g, qn_onnx_side_name(call, "beside"), read_fixed(call, i), beside);
        x = qn_op_combine(g, qn_onnx_side_name(call, i == zero ? "centred" : "scaled"),
                          i == zero ? QN_COMBINE_SUBTRACT : QN_COMBINE_MULTIPLY, x, number);
    }
    return x;
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

/* ---- MatMulInteger, ConvInteger ---- */

/* Terms of bytes whose sum a float holds, and of bytes by sixteenths of bytes (split_product). */
enum { MOST_TERMS = 258, MOST_SPLIT_TERMS = 4112 };

/* Whether all that reads a name casts it to reals. Then gradients may flow through it. */
static bool becomes_real(const qn_onnx_builder *b, const char *name) {
    bool is_read = false;
    for (int i = 0; i < b->model->n_outputs; i++) {
        if (strcmp(b->model->outputs[i].name, name) == 0)
            return false;
    }
    for (int n = 0; n < b->model->n_nodes; n++) {
        const qn_onnx_node *node = &b->model->nodes[n];
        if (!qn_onnx_node_reads(node, name))
            continue;
        const qn_onnx_attribute *to = qn_onnx_find_attribute(node, "to");
        if (strcmp(node->type, "Cast") != 0 || !to ||
            !qn_onnx_type_is_real((qn_onnx_type)to->count))
            return false;
        is_read = true;
    }
    return is_read;
}

static qn_onnx_item real_item(const qn_onnx_call *call, qn_value value, bool is_image) {
    return (qn_onnx_item){.name = call->name,
                          .type = QN_ONNX_FLOAT,
                          .value = value,
                          .is_image = is_image,
                          .other = QN_NO_VALUE,
                          .row = QN_NO_VALUE};
}

/* An operand less its zero point, as reals: one for all, or for each index of an axis; those of
 * more axes lie beside it. */
static qn_status read_operand(qn_onnx_call *call, int input, int axis, qn_onnx_item *item) {
    const qn_shape shape = qn_onnx_shape(call, input);
    const int zero = input + 2;
    qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, input));
    if (qn_onnx_has(call, zero)) {
        const qn_shape given = qn_onnx_shape(call, zero);
        const int64_t n = qn_shape_count(given);
        qn_shape beside = given;
        if (n == 1 || given.rank < 2) {
            beside = (qn_shape){.rank = n == 1 ? 1 : shape.rank};
            for (int i = 0; i < beside.rank; i++)
                beside.dims[i] = n > 1 && i == axis ? n : 1;
        }
        if (n != 1 && (axis < 0 || (given.rank < 2 && shape.dims[axis] != n)))
            return qn_fail(QN_ERROR_FORMAT, "its input %d is not one zero point for all", zero);
        const qn_value point =
            qn_stop_gradient(call->graph, qn_onnx_side_name(call, "zero"),
                             qn_reshape(call->graph, qn_onnx_side_name(call, "point"),
                                        qn_onnx_as_reals(call, qn_onnx_plain(call, zero)), beside));
        x = qn_op_combine(call->graph, qn_onnx_side_name(call, "centred"), QN_COMBINE_SUBTRACT, x,
                          point);
    }
    *item = real_item(call, x, false);
    return call->graph->status;
}

/* a in two parts, whose products with b floats hold exactly: a = 16 high + low. No gradient flows
 * through high, all through low. */
static qn_status split_product(qn_onnx_call *call, const char *type, qn_onnx_item factors[2],
                               qn_onnx_item *low, qn_onnx_item *high) {
    const qn_function sixteenth = {QN_FUNCTION_LINE, 1.0 / 16, 0, -INFINITY, INFINITY};
    const qn_function sixteen = {QN_FUNCTION_LINE, 16, 0, -INFINITY, INFINITY};
    const qn_function round = {.kind = QN_FUNCTION_ROUND};
    qn_graph *g = call->graph;
    const qn_value x = factors[0].value;
    qn_value top = qn_op_function(g, qn_onnx_side_name(call, "sixteenth"), x, sixteenth);
    top = qn_op_function(g, qn_onnx_side_name(call, "rounded"), top, round);
    top = qn_stop_gradient(g, qn_onnx_side_name(call, "high"), top);
    const qn_value back = qn_op_function(g, qn_onnx_side_name(call, "sixteen"), top, sixteen);
    const qn_value rest =
        qn_op_combine(g, qn_onnx_side_name(call, "low"), QN_COMBINE_SUBTRACT, x, back);
    qn_onnx_item parts[] = {real_item(call, rest, false), real_item(call, top, false)};
    qn_onnx_item *const of_low[] = {&parts[0], &factors[1]};
    qn_onnx_item *const of_high[] = {&parts[1], &factors[1]};
    QN_TRY(run_as(call, type, "of_low", -1, of_low, 2, low));
    QN_TRY(run_as(call, type, "of_high", -1, of_high, 2, high));
    return g->status;
}

/* The sum of both parts: as a real, rounded once, or exactly. */
static qn_status give_parts(qn_onnx_call *call, const qn_onnx_item *low, const qn_onnx_item *high,
                            bool is_real) {
    const qn_function line = {QN_FUNCTION_LINE, 16, 0, -INFINITY, INFINITY};
    qn_graph *g = call->graph;
    if (is_real) {
        const qn_value top = qn_op_function(g, qn_onnx_side_name(call, "top"), high->value, line);
        qn_onnx_give_typed(call, 0, qn_add(g, call->name, low->value, top), low->is_image,
                           QN_ONNX_INT32);
        return g->status;
    }
    static const int64_t sixteen = 16;
    qn_onnx_item *items[] = {(qn_onnx_item *)low, (qn_onnx_item *)high};
    qn_onnx_call one = *call;
    qn_value parts[2];
    one.inputs = items;
    one.n_inputs = 2;
    for (int i = 0; i < 2; i++)
        parts[i] = qn_onnx_plain(&one, i);
    QN_TRY(g->status);
    qn_value both[] = {parts[1], qn_onnx_integers_value(call, (qn_shape){.rank = 0}, &sixteen)};
    both[1] = qn_onnx_integer_rule(call, "top", QN_INTEGER_MULTIPLY, QN_ONNX_INT32, both, 2);
    both[0] = parts[0];
    const qn_value y = qn_onnx_integer_rule(call, "sum", QN_INTEGER_ADD, QN_ONNX_INT32, both, 2);
    return qn_onnx_give_integers(call, 0, y, qn_graph_shape(g, y), QN_ONNX_INT32);
}

static qn_status build_integer_product(qn_onnx_call *call, const char *type, int64_t n_terms,
                                       qn_onnx_item factors[2]) {
    const bool is_real = becomes_real(call->builder, call->node->outputs[0]);
    qn_onnx_item low, high;
    if (call->graph->real != QN_F64 && n_terms > MOST_TERMS) {
        if (!is_real && n_terms > MOST_SPLIT_TERMS)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "it sums %lld terms as integers, and %d are the most: cast it to float",
                           (long long)n_terms, MOST_SPLIT_TERMS);
        QN_TRY(split_product(call, type, factors, &low, &high));
        return give_parts(call, &low, &high, is_real);
    }
    qn_onnx_item *const inputs[] = {&factors[0], &factors[1]};
    QN_TRY(run_as(call, type, is_real ? NULL : "product", -1, inputs, 2, &low));
    if (is_real) {
        qn_onnx_give_typed(call, 0, low.value, low.is_image, QN_ONNX_INT32);
        return call->graph->status;
    }
    qn_onnx_item *items[] = {&low};
    qn_onnx_call one = *call;
    one.inputs = items;
    one.n_inputs = 1;
    const qn_value x = qn_onnx_plain(&one, 0);
    const qn_value y = qn_onnx_integer_rule(call, "sum", QN_INTEGER_CAST, QN_ONNX_INT32, &x, 1);
    QN_TRY(call->graph->status);
    return qn_onnx_give_integers(call, 0, y, qn_graph_shape(call->graph, y), QN_ONNX_INT32);
}

static qn_status build_matmul_integer(qn_onnx_call *call) {
    const qn_shape a = qn_onnx_shape(call, 0), b = qn_onnx_shape(call, 1);
    qn_onnx_item factors[2];
    if (a.rank < 1 || b.rank < 1)
        return qn_fail(QN_ERROR_FORMAT, "an input is a scalar");
    QN_TRY(read_operand(call, 0, a.rank - 2, &factors[0]));
    QN_TRY(read_operand(call, 1, b.rank - 1, &factors[1]));
    return build_integer_product(call, "MatMul", a.dims[a.rank - 1], factors);
}

static qn_status build_conv_integer(qn_onnx_call *call) {
    const qn_shape w = qn_onnx_shape(call, 1);
    qn_onnx_item factors[2];
    QN_TRY(read_operand(call, 0, -1, &factors[0]));
    QN_TRY(read_operand(call, 1, 0, &factors[1]));
    return build_integer_product(call, "Conv", qn_shape_count_range(w, 1, w.rank), factors);
}

const qn_onnx_translator qn_onnx_quantise_translators[] = {
    {"MatMulInteger", 2, 4, build_matmul_integer},  {"ConvInteger", 2, 4, build_conv_integer},
    {"QuantizeLinear", 2, 3, build_quantise},       {"DequantizeLinear", 2, 3, build_dequantise},
    {"DynamicQuantizeLinear", 1, 1, build_dynamic}, {"QLinearMatMul", 8, 8, build_quantised_matmul},
    {"QLinearConv", 8, 9, build_quantised_conv},    {NULL, 0, 0, NULL},
};
