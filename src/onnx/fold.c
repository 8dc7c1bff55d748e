/* See fold.h. */
#include "onnx/fold.h"

#include "base/status.h"
#include "kernels/kernels.h"
#include "onnx/builder.h"
#include "onnx/integers.h"
#include "tensor/number.h"

#include <math.h>
#include <string.h>

/* ---- constants ---- */

/* A number truncated and wrapped to a type. */
static int64_t whole_of(double number, qn_onnx_type type) {
    if (type == QN_ONNX_BOOL)
        return number != 0;
    if (!(fabs(number) < 0x1p63))
        return number > 0 ? INT64_MAX : INT64_MIN;
    const int64_t whole = (int64_t)number;
    switch (type) {
    case QN_ONNX_UINT4:
        return whole & 15;
    case QN_ONNX_INT4:
        return ((whole & 15) ^ 8) - 8;
    case QN_ONNX_UINT8:
        return (uint8_t)whole;
    case QN_ONNX_INT8:
        return (int8_t)whole;
    case QN_ONNX_UINT16:
        return (uint16_t)whole;
    case QN_ONNX_INT16:
        return (int16_t)whole;
    case QN_ONNX_UINT32:
        return (uint32_t)whole;
    case QN_ONNX_INT32:
        return (int32_t)whole;
    default:
        return whole;
    }
}

const qn_onnx_constant *qn_onnx_make_constant(qn_onnx_call *call, qn_onnx_type type, qn_shape shape,
                                              const double *numbers) {
    const int64_t n = qn_shape_count(shape);
    qn_onnx_constant *made = qn_onnx_scratch(call, sizeof *made);
    double *reals = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *reals);
    int64_t *whole = (int64_t *)(void *)reals;
    const bool is_real = qn_onnx_type_is_real(type);
    if (!made || !reals)
        return NULL;
    for (int64_t i = 0; i < n; i++) {
        if (is_real)
            reals[i] = numbers[i];
        else
            whole[i] = whole_of(numbers[i], type);
    }
    *made = (qn_onnx_constant){.type = type, .shape = shape, .n = n};
    made->reals = is_real ? reals : NULL;
    made->whole = is_real ? NULL : whole;
    return made;
}

const double *qn_onnx_numbers(qn_onnx_call *call, const qn_onnx_constant *constant) {
    if (constant->reals)
        return constant->reals;
    double *numbers = qn_onnx_scratch(call, ((size_t)constant->n + 1) * sizeof *numbers);
    for (int64_t i = 0; numbers && i < constant->n; i++) {
        const int64_t number = constant->whole[i];
        if (number > QN_ONNX_MOST_EXACT || number < -QN_ONNX_MOST_EXACT) {
            qn_graph_fail(call->graph, QN_ERROR_UNSUPPORTED,
                          "%s: %lld is beyond what is exact here", call->name, (long long)number);
            return NULL;
        }
        numbers[i] = (double)number;
    }
    return numbers;
}

const qn_onnx_constant *qn_onnx_fold_function(qn_onnx_call *call, const qn_function *function,
                                              const qn_onnx_constant *x) {
    const double *numbers = x ? qn_onnx_numbers(call, x) : NULL;
    double *y = x ? qn_onnx_scratch(call, ((size_t)x->n + 1) * sizeof *y) : NULL;
    if (!numbers || !y)
        return NULL;
    qn_kernels_get(QN_F64, QN_ISA_REF)->function_forward(NULL, function, x->n, numbers, y);
    return qn_onnx_make_constant(call, x->type, x->shape, y);
}

const qn_onnx_constant *qn_onnx_fold_rule(qn_onnx_call *call, qn_combination kind,
                                          qn_onnx_type type, const qn_onnx_constant *a,
                                          const qn_onnx_constant *b, const qn_onnx_constant *c) {
    const qn_onnx_constant *const all[] = {a, b, c};
    const int n = c ? 3 : 2;
    const double *in[3] = {NULL};
    qn_tensor tensors[3];
    qn_shape shape = {0};
    for (int i = 0; i < n; i++) {
        if (!all[i] || !(in[i] = qn_onnx_numbers(call, all[i])))
            return NULL;
        tensors[i] = (qn_tensor){QN_F64, all[i]->shape};
        if (!qn_shape_broadcast(shape, all[i]->shape, &shape)) {
            qn_graph_fail(call->graph, QN_ERROR_FORMAT, "%s: its operands do not go together",
                          call->name);
            return NULL;
        }
    }
    double *y = qn_onnx_scratch(call, ((size_t)qn_shape_count(shape) + 1) * sizeof *y);
    if (!y)
        return NULL;
    const qn_broadcast layout = qn_broadcast_of(tensors, n, shape);
    qn_kernels_get(QN_F64, QN_ISA_REF)->combine(NULL, kind, &layout, in[0], in[1], in[2], y);
    return qn_onnx_make_constant(call, type, shape, y);
}

qn_status qn_onnx_give_constant(qn_onnx_call *call, const qn_onnx_constant *constant) {
    if (!constant)
        return call->graph->status != QN_OK ? call->graph->status : QN_ERROR_MEMORY;
    return constant->reals
               ? qn_onnx_give_reals(call, 0, constant->shape, constant->reals)
               : qn_onnx_give_whole(call, 0, constant->type, constant->shape, constant->whole);
}

/* ---- values ---- */

static const qn_onnx_constant *round_constant(qn_onnx_call *call, const qn_onnx_constant *c,
                                              qn_dtype dtype) {
    double *y = qn_onnx_scratch(call, ((size_t)c->n + 1) * sizeof *y);
    uint16_t bits;
    for (int64_t i = 0; y && i < c->n; i++) {
        qn_number_set(dtype, &bits, 0, c->reals[i]);
        y[i] = qn_number_get(dtype, &bits, 0);
    }
    return y ? qn_onnx_make_constant(call, c->type, c->shape, y) : NULL;
}

qn_status qn_onnx_round_cast(qn_onnx_call *call, qn_onnx_item *item, qn_onnx_type to) {
    const qn_dtype dtype = qn_onnx_dtype_of(to);
    qn_graph *g = call->graph;
    if (!qn_dtype_is_half(dtype) || g->status != QN_OK)
        return g->status;
    if (item->constant && item->constant->reals) {
        item->constant = round_constant(call, item->constant, dtype);
        return item->constant ? QN_OK : QN_ERROR_MEMORY;
    }
    const qn_value narrow = qn_op_cast(g, qn_onnx_side_name(call, "narrow"), item->value, dtype);
    item->value = qn_op_cast(g, qn_onnx_side_name(call, "rounded"), narrow, g->real);
    item->other = QN_NO_VALUE;
    return g->status;
}

qn_value qn_onnx_as_reals(qn_onnx_call *call, qn_value x) {
    const qn_dtype dtype = qn_graph_tensor(call->graph, x).dtype;
    if (dtype != QN_I32 && dtype != QN_I64)
        return x;
    const char *name = qn_onnx_side_name(call, "reals");
    if (dtype == QN_I64)
        return qn_onnx_integer_as_real(call, name, x, QN_ONNX_INT64);
    return name ? qn_op_cast(call->graph, name, x, call->graph->real) : QN_NO_VALUE;
}

/* Operators whose integers are small ones, or of reals, by what they mean. */
static bool makes_small_integers(const char *type) {
    static const char *const types[] = {
        "QuantizeLinear", "DynamicQuantizeLinear", "OneHot",  "MatMulInteger", "ConvInteger",
        "QLinearMatMul",  "QLinearConv",           "EyeLike", "Pow",           NULL};
    for (int i = 0; types[i]; i++) {
        if (strcmp(types[i], type) == 0)
            return true;
    }
    return false;
}

void qn_onnx_give_as(qn_onnx_call *call, qn_value value, bool is_image, qn_onnx_type type) {
    if (qn_onnx_type_is_integer(type) && !call->builder->is_moving &&
        !makes_small_integers(call->node->type))
        qn_graph_fail(
            call->graph, QN_ERROR_UNSUPPORTED,
            "%s: it is not computed exactly with integers here: cast them to float before "
            "it, and back after it",
            call->name);
    if (qn_onnx_type_is_integer(type))
        value = qn_onnx_real_as_integer(call, qn_onnx_side_name(call, "whole"), value, type);
    qn_onnx_give_typed(call, 0, value, is_image, type);
}

void qn_onnx_operands(qn_onnx_call *call, int n, qn_value *values, bool *is_image) {
    int rank = 0, image_rank = 0;
    for (int i = 0; i < n; i++) {
        const int own = qn_onnx_shape(call, i).rank;
        rank = own > rank ? own : rank;
        if (qn_onnx_is_image(call, i))
            image_rank = own;
    }
    *is_image = image_rank > 0 && image_rank == rank;
    for (int i = 0; i < n; i++) {
        values[i] = *is_image ? qn_onnx_channels_last(call, i, rank) : qn_onnx_plain(call, i);
        values[i] = qn_onnx_as_reals(call, values[i]);
    }
}

/* ---- what is made at import ---- */

qn_status qn_onnx_check_made(int64_t n) {
    return n >= 0 && n <= QN_ONNX_MOST_MADE
               ? QN_OK
               : qn_fail(QN_ERROR_UNSUPPORTED, "it makes more than %lld numbers at import",
                         (long long)QN_ONNX_MOST_MADE);
}

qn_value qn_onnx_made_value(qn_onnx_call *call, const char *suffix, qn_shape shape,
                            const double *reals) {
    const char *name = qn_onnx_side_name(call, suffix);
    const qn_onnx_constant c = {
        .type = QN_ONNX_FLOAT, .shape = shape, .n = qn_shape_count(shape), .reals = reals};
    qn_onnx_item item = {.name = name,
                         .type = QN_ONNX_FLOAT,
                         .value = QN_NO_VALUE,
                         .other = QN_NO_VALUE,
                         .row = QN_NO_VALUE,
                         .constant = &c};
    return name ? qn_onnx_item_value(call->builder, &item) : QN_NO_VALUE;
}

qn_status qn_onnx_numbers_of(qn_onnx_call *call, int input, const qn_onnx_constant **c,
                             const double **numbers) {
    *c = qn_onnx_constant_of(call, input);
    if (!*c)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "its input %d is known only when it runs, and no gradient flows through "
                       "it: export with constant shapes, or without it",
                       input);
    *numbers = qn_onnx_numbers(call, *c);
    if (*numbers)
        return QN_OK;
    return call->graph->status != QN_OK ? call->graph->status : QN_ERROR_MEMORY;
}

qn_status qn_onnx_number_of(qn_onnx_call *call, int input, int64_t *number) {
    const qn_onnx_constant *c;
    const double *numbers;
    QN_TRY(qn_onnx_numbers_of(call, input, &c, &numbers));
    if (c->n != 1)
        return qn_fail(QN_ERROR_FORMAT, "its input %d is not one number", input);
    *number = (int64_t)numbers[0];
    return QN_OK;
}
