/* Operators of which exporters mostly ask what is known at import: the largest and their places,
 * what is not 0, one-hot rows, triangles, running sums. All but NonZero, whose shape follows from
 * the data, are made of what changes, too; no gradient flows through places. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"
#include "onnx/integers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the largest, and how many ---- */

typedef struct ranked {
    double number;
    int64_t place;
} ranked;

static int compare_larger(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->number != b->number)
        return a->number > b->number ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

static int compare_smaller(const void *left, const void *right) {
    const ranked *a = left, *b = right;
    if (a->number != b->number)
        return a->number < b->number ? -1 : 1;
    return a->place < b->place ? -1 : 1;
}

/* The k first of every row along an axis, sorted: (outer, k, inner) numbers and places. */
static qn_status rank_axis(qn_onnx_call *call, const double *x, qn_shape shape, int axis, int64_t k,
                           bool is_largest, double *numbers, int64_t *places) {
    const int64_t n = shape.dims[axis], inner = qn_shape_count_range(shape, axis + 1, shape.rank);
    const int64_t outer = qn_shape_count_range(shape, 0, axis);
    ranked *row = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *row);
    if (!row)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < outer * inner; i++) {
        const int64_t begin = i / inner * n * inner + i % inner, to = i / inner * k * inner;
        for (int64_t j = 0; j < n; j++)
            row[j] = (ranked){x[begin + j * inner], j};
        qsort(row, (size_t)n, sizeof *row, is_largest ? compare_larger : compare_smaller);
        for (int64_t j = 0; j < k; j++) {
            numbers[to + j * inner + i % inner] = row[j].number;
            places[to + j * inner + i % inner] = row[j].place;
        }
    }
    return QN_OK;
}

/* ---- the same of what changes: rows (R, n) ---- */

/* Input 0 with an axis put last, as reals (R, n). */
static qn_value rows_along(qn_onnx_call *call, int axis) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    int order[QN_MAX_RANK];
    for (int i = 0; i < shape.rank; i++)
        order[i] = i == shape.rank - 1 ? axis : i < axis ? i : i + 1;
    qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
    if (axis != shape.rank - 1)
        x = qn_transpose(g, qn_onnx_side_name(call, "last"), x, order);
    return qn_reshape(g, qn_onnx_side_name(call, "rows"), x, QN_SHAPE(-1, shape.dims[axis]));
}

/* (R, k) with the last axis back where it was, of an extent of k. */
static qn_value back_to(qn_onnx_call *call, qn_value x, int axis, int64_t k) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    qn_shape moved = {.rank = shape.rank};
    int order[QN_MAX_RANK];
    for (int i = 0; i < shape.rank; i++) {
        moved.dims[i] = i == shape.rank - 1 ? k : shape.dims[i < axis ? i : i + 1];
        order[i] = i < axis ? i : i == axis ? shape.rank - 1 : i - 1;
    }
    x = qn_reshape(g, qn_onnx_side_name(call, "axes"), x, moved);
    return axis == shape.rank - 1 ? x : qn_transpose(g, qn_onnx_side_name(call, "back"), x, order);
}

/* The largest of each row (R, 1), and where it is: the first of equal ones, or the last. It is
 * there where n - i, or i + 1, of those that are equal to it is largest. */
static qn_value largest_of(qn_onnx_call *call, qn_value x, bool is_last, qn_value *place) {
    qn_graph *g = call->graph;
    const int64_t n = qn_graph_shape(g, x).dims[1];
    double *numbers = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *numbers);
    if (!numbers || n > QN_ONNX_MOST_MADE)
        return QN_NO_VALUE;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = (double)(is_last ? i + 1 : n - i);
    qn_value most = qn_reduce(g, qn_onnx_side_name(call, "most"), x, 1, QN_MAX);
    most = qn_reshape(g, qn_onnx_side_name(call, "column"), most, QN_SHAPE(-1, 1));
    qn_value is = qn_op_combine(g, qn_onnx_side_name(call, "is"), QN_COMBINE_EQUAL, x, most);
    is = qn_op_combine(g, qn_onnx_side_name(call, "ranks"), QN_COMBINE_MULTIPLY, is,
                       qn_onnx_made_value(call, "numbers", QN_SHAPE(n), numbers));
    is = qn_reduce(g, qn_onnx_side_name(call, "rank"), is, 1, QN_MAX);
    is = qn_reshape(g, qn_onnx_side_name(call, "rank_column"), is, QN_SHAPE(-1, 1));
    const qn_function line = {QN_FUNCTION_LINE, is_last ? 1 : -1, is_last ? -1 : (double)n,
                              -INFINITY, INFINITY};
    *place = qn_op_function(g, qn_onnx_side_name(call, "place"), is, line);
    return most;
}

/* Of many, their places by sorting. */
static qn_status give_ranked(qn_onnx_call *call, int axis, int64_t k, bool is_largest) {
    qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    qn_value places, elements;
    QN_TRY(qn_onnx_rank_axis(call, axis, k, is_largest, &places, &elements));
    shape.dims[axis] = k;
    const qn_value rows =
        qn_reshape(g, qn_onnx_side_name(call, "rows"), qn_onnx_plain(call, 0), QN_SHAPE(-1, 1));
    const qn_value at = qn_reshape(g, qn_onnx_side_name(call, "at"),
                                   qn_onnx_as_index(call, elements), QN_SHAPE(-1));
    const qn_value x = qn_embedding(g, qn_onnx_side_name(call, "largest"), rows, at);
    qn_onnx_give(call, 0, qn_reshape(g, call->name, x, shape), false);
    return qn_onnx_is_used(call, 1) ? qn_onnx_give_integers(call, 1, places, shape, QN_ONNX_INT64)
                                    : g->status;
}

/* None of them. */
static qn_status give_none(qn_onnx_call *call, int axis, qn_onnx_type type) {
    qn_shape shape = qn_onnx_shape(call, 0);
    shape.dims[axis] = 0;
    QN_TRY(qn_onnx_give_empty(call, 0, type, shape));
    return qn_onnx_is_used(call, 1) ? qn_onnx_give_empty(call, 1, QN_ONNX_INT64, shape) : QN_OK;
}

/* The largest, then the largest of the others, and so on. */
static qn_status give_top_k(qn_onnx_call *call, int axis, int64_t k, bool is_largest) {
    enum { MOST_TAKEN = 64 };
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    const int64_t n = qn_onnx_shape(call, 0).dims[axis];
    qn_value values[MOST_TAKEN], places[MOST_TAKEN];
    qn_graph *g = call->graph;
    if (k < 1)
        return give_none(call, axis, type);
    if (k > MOST_TAKEN)
        return give_ranked(call, axis, k, is_largest);
    double *numbers = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *numbers);
    if (!numbers)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < n; i++)
        numbers[i] = (double)i;
    qn_value x = rows_along(call, axis);
    x = is_largest ? x : qn_scale(g, qn_onnx_side_name(call, "negative"), x, -1);
    const qn_value at = qn_onnx_made_value(call, "at", QN_SHAPE(n), numbers);
    const qn_value least = qn_op_scalar(g, qn_onnx_side_name(call, "least"), -INFINITY);
    for (int i = 0; i < k; i++) {
        values[i] = largest_of(call, x, false, &places[i]);
        if (i + 1 < k)
            x = qn_op_where(
                g, qn_onnx_side_name(call, "rest"),
                qn_op_combine(g, qn_onnx_side_name(call, "taken"), QN_COMBINE_EQUAL, at, places[i]),
                least, x);
    }
    qn_value y = qn_concat(g, qn_onnx_side_name(call, "values"), values, (int)k, 1);
    y = is_largest ? y : qn_scale(g, qn_onnx_side_name(call, "positive"), y, -1);
    const qn_value where = qn_concat(g, qn_onnx_side_name(call, "places"), places, (int)k, 1);
    qn_onnx_give_as(call, back_to(call, y, axis, k), false, type);
    qn_onnx_give(
        call, 1,
        qn_op_cast(g, qn_onnx_side_name(call, "whole"), back_to(call, where, axis, k), QN_I32),
        false);
    return g->status;
}

static qn_status build_top_k(qn_onnx_call *call) {
    const qn_onnx_constant *x;
    const double *numbers;
    const qn_shape from = qn_onnx_shape(call, 0);
    const bool is_largest = qn_onnx_int(call, "largest", 1) != 0;
    int64_t k = qn_onnx_int(call, "k", 1);
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", -1), from.rank, &axis));
    if (qn_onnx_has(call, 1))
        QN_TRY(qn_onnx_number_of(call, 1, &k));
    if (k < 0 || k > from.dims[axis])
        return qn_fail(QN_ERROR_FORMAT, "it takes %lld of %lld elements", (long long)k,
                       (long long)from.dims[axis]);
    if (!qn_onnx_is_known(call, 0))
        return give_top_k(call, axis, k, is_largest);
    QN_TRY(qn_onnx_numbers_of(call, 0, &x, &numbers));
    qn_shape shape = x->shape;
    shape.dims[axis] = k;
    const size_t n = (size_t)qn_shape_count(shape) + 1;
    double *values = qn_onnx_scratch(call, n * sizeof *values);
    int64_t *places = qn_onnx_scratch(call, n * sizeof *places);
    if (!values || !places)
        return QN_ERROR_MEMORY;
    QN_TRY(rank_axis(call, numbers, x->shape, axis, k, is_largest, values, places));
    QN_TRY(qn_onnx_give_whole(call, 1, QN_ONNX_INT64, shape, places));
    return qn_onnx_give_constant(call, qn_onnx_make_constant(call, x->type, shape, values));
}

/* Of a constant: the first or the last of the largest or least along an axis, (count). */
static qn_status fold_places(qn_onnx_call *call, int axis, bool is_largest, bool is_last,
                             int64_t count, qn_shape shape) {
    const qn_onnx_constant *x;
    const double *numbers;
    QN_TRY(qn_onnx_numbers_of(call, 0, &x, &numbers));
    const int64_t n = x->shape.dims[axis];
    const int64_t inner = qn_shape_count_range(x->shape, axis + 1, x->shape.rank);
    int64_t *places = qn_onnx_scratch(call, ((size_t)count + 1) * sizeof *places);
    if (!places)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < count; i++) {
        const double *row = &numbers[i / inner * n * inner + i % inner];
        places[i] = 0;
        for (int64_t j = 1; j < n; j++) {
            const double old = row[places[i] * inner], new = row[j * inner];
            const bool is_better = is_largest ? new > old : new < old;
            if (is_better || (is_last && new == old))
                places[i] = j;
        }
    }
    return qn_onnx_give_whole(call, 0, QN_ONNX_INT64, shape, places);
}

/* ArgMax and ArgMin; of equal numbers the first, or the last. */
static qn_status build_arg(qn_onnx_call *call) {
    const bool is_largest = strcmp(call->node->type, "ArgMax") == 0;
    const bool is_last = qn_onnx_int(call, "select_last_index", 0) != 0;
    const bool keeps = qn_onnx_int(call, "keepdims", 1) != 0;
    const qn_shape from = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    qn_shape kept = from, less = {.rank = 0};
    qn_value place;
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), from.rank, &axis));
    kept.dims[axis] = 1;
    for (int i = 0; i < from.rank; i++) {
        if (i != axis)
            less.dims[less.rank++] = from.dims[i];
    }
    const qn_shape shape = keeps ? kept : less;
    if (qn_onnx_is_known(call, 0))
        return fold_places(call, axis, is_largest, is_last, qn_shape_count(kept), shape);
    qn_value x = rows_along(call, axis);
    x = is_largest ? x : qn_scale(g, qn_onnx_side_name(call, "negative"), x, -1);
    largest_of(call, x, is_last, &place);
    QN_TRY(g->status);
    place = qn_reshape(g, qn_onnx_side_name(call, "shape"), back_to(call, place, axis, 1), shape);
    qn_onnx_give(call, 0, qn_op_cast(g, call->name, place, QN_I32), false);
    return g->status;
}

/* 1 for the first of the largest along an axis, else 0; before opset 13 along all from the axis
 * on. */
static qn_status build_hardmax(qn_onnx_call *call) {
    qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    qn_value place;
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", call->opset < 13 ? 1 : -1), shape.rank, &axis));
    const bool is_flat = call->opset < 13;
    const int64_t n = is_flat ? qn_shape_count_range(shape, axis, shape.rank) : shape.dims[axis];
    double *numbers = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *numbers);
    for (int64_t i = 0; numbers && i < n; i++)
        numbers[i] = (double)i;
    if (!numbers)
        return QN_ERROR_MEMORY;
    qn_value x = is_flat
                     ? qn_reshape(g, qn_onnx_side_name(call, "rows"),
                                  qn_onnx_as_reals(call, qn_onnx_plain(call, 0)), QN_SHAPE(-1, n))
                     : rows_along(call, axis);
    largest_of(call, x, false, &place);
    x = qn_op_combine(g, qn_onnx_side_name(call, "is_largest"), QN_COMBINE_EQUAL,
                      qn_onnx_made_value(call, "at", QN_SHAPE(n), numbers), place);
    x = is_flat ? x : back_to(call, x, axis, n);
    qn_onnx_give(call, 0, qn_reshape(g, call->name, x, shape), false);
    return g->status;
}

static qn_status build_non_zero(qn_onnx_call *call) {
    const qn_onnx_constant *x;
    const double *numbers;
    int64_t found = 0, at = 0;
    QN_TRY(qn_onnx_numbers_of(call, 0, &x, &numbers));
    for (int64_t i = 0; i < x->n; i++)
        found += numbers[i] != 0;
    const int rank = x->shape.rank;
    int64_t *places =
        qn_onnx_scratch(call, ((size_t)(found * (rank > 0 ? rank : 1)) + 1) * sizeof *places);
    if (!places)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < x->n; i++) {
        for (int axis = 0; axis < rank && numbers[i] != 0; axis++)
            places[axis * found + at] =
                i / qn_shape_count_range(x->shape, axis + 1, rank) % x->shape.dims[axis];
        at += numbers[i] != 0;
    }
    return qn_onnx_give_whole(call, 0, QN_ONNX_INT64, QN_SHAPE(rank, found), places);
}

/* ---- triangles ---- */

/* 1 where Trilu keeps an element of (rows, columns), else 0. */
static double *triangle(qn_onnx_call *call, int64_t rows, int64_t columns, int64_t k,
                        bool is_upper) {
    double *kept = qn_onnx_scratch(call, ((size_t)(rows * columns) + 1) * sizeof *kept);
    for (int64_t i = 0; kept && i < rows * columns; i++) {
        const int64_t beyond = i % columns - i / columns;
        kept[i] = is_upper ? beyond >= k : beyond <= k;
    }
    return kept;
}

static qn_status build_trilu(qn_onnx_call *call) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    qn_graph *g = call->graph;
    int64_t k = 0;
    if (shape.rank < 2)
        return qn_fail(QN_ERROR_FORMAT, "its input is not a matrix");
    if (qn_onnx_has(call, 1))
        QN_TRY(qn_onnx_number_of(call, 1, &k));
    const int64_t rows = shape.dims[shape.rank - 2], columns = shape.dims[shape.rank - 1];
    QN_TRY(qn_onnx_check_made(rows * columns));
    double *kept = triangle(call, rows, columns, k, qn_onnx_int(call, "upper", 1) != 0);
    if (!kept)
        return QN_ERROR_MEMORY;
    if (qn_onnx_is_known(call, 0)) {
        const qn_onnx_constant *x;
        const double *numbers;
        QN_TRY(qn_onnx_numbers_of(call, 0, &x, &numbers));
        double *y = qn_onnx_scratch(call, ((size_t)x->n + 1) * sizeof *y);
        for (int64_t i = 0; y && i < x->n; i++)
            y[i] = kept[i % (rows * columns)] != 0 ? numbers[i] : 0;
        return qn_onnx_give_constant(call,
                                     y ? qn_onnx_make_constant(call, x->type, x->shape, y) : NULL);
    }
    const qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
    const qn_value is_kept = qn_onnx_made_value(call, "triangle", QN_SHAPE(rows, columns), kept);
    const qn_value zero = qn_op_scalar(g, qn_onnx_side_name(call, "zero"), 0);
    qn_onnx_give_as(call, qn_op_where(g, call->name, is_kept, x, zero), false, type);
    return g->status;
}

/* ---- running sums ---- */

static qn_status fold_cumulative(qn_onnx_call *call, int axis, bool is_exclusive, bool is_reverse) {
    const qn_onnx_constant *x;
    const double *numbers;
    QN_TRY(qn_onnx_numbers_of(call, 0, &x, &numbers));
    const int64_t n = x->shape.dims[axis];
    const int64_t inner = qn_shape_count_range(x->shape, axis + 1, x->shape.rank);
    double *y = qn_onnx_scratch(call, ((size_t)x->n + 1) * sizeof *y);
    for (int64_t row = 0; y && n > 0 && row < x->n / n; row++) {
        const int64_t begin = row / inner * n * inner + row % inner;
        double sum = 0;
        for (int64_t j = 0; j < n; j++) {
            const int64_t at = begin + (is_reverse ? n - 1 - j : j) * inner;
            y[at] = is_exclusive ? sum : sum + numbers[at];
            sum += numbers[at];
        }
    }
    return qn_onnx_give_constant(call,
                                 y ? qn_onnx_make_constant(call, x->type, x->shape, y) : NULL);
}

/* Of what changes: a product with a triangle of ones. */
static qn_status build_cum_sum(qn_onnx_call *call) {
    const bool is_exclusive = qn_onnx_int(call, "exclusive", 0) != 0;
    const bool is_reverse = qn_onnx_int(call, "reverse", 0) != 0;
    const qn_shape shape = qn_onnx_shape(call, 0);
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    qn_graph *g = call->graph;
    int64_t number;
    int axis, order[QN_MAX_RANK];
    QN_TRY(qn_onnx_number_of(call, 1, &number));
    QN_TRY(qn_onnx_axis(number, shape.rank, &axis));
    if (qn_onnx_is_known(call, 0))
        return fold_cumulative(call, axis, is_exclusive, is_reverse);
    const int64_t n = shape.dims[axis];
    QN_TRY(qn_onnx_check_made(n * n));
    double *ones = triangle(call, n, n, is_exclusive ? (is_reverse ? -1 : 1) : 0, !is_reverse);
    if (!ones)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < shape.rank; i++)
        order[i] = i == axis ? shape.rank - 1 : i == shape.rank - 1 ? axis : i;
    qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
    const bool is_moved = axis != shape.rank - 1;
    if (is_moved)
        x = qn_transpose(g, qn_onnx_side_name(call, "last"), x, order);
    const qn_shape moved = qn_graph_shape(g, x);
    x = qn_reshape(g, qn_onnx_side_name(call, "flat"), x, QN_SHAPE(-1, n));
    x = qn_matmul(g, qn_onnx_side_name(call, "sums"), x,
                  qn_onnx_made_value(call, "ones", QN_SHAPE(n, n), ones), false, false);
    x = qn_reshape(g, is_moved ? qn_onnx_side_name(call, "axes") : call->name, x, moved);
    if (is_moved)
        x = qn_transpose(g, call->name, x, order);
    qn_onnx_give_as(call, x, false, type);
    return g->status;
}

/* ---- one-hot rows ---- */

/* The same of indices that are known: of depth inner elements apart. */
static qn_status fold_one_hot(qn_onnx_call *call, int64_t depth, int axis, const double *pair,
                              qn_onnx_type type) {
    const qn_onnx_constant *x;
    const double *numbers;
    QN_TRY(qn_onnx_numbers_of(call, 0, &x, &numbers));
    qn_shape shape = {.rank = x->shape.rank + 1};
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = i == axis ? depth : x->shape.dims[i - (i > axis)];
    const int64_t inner = qn_shape_count_range(shape, axis + 1, shape.rank);
    QN_TRY(qn_onnx_check_made(x->n));
    QN_TRY(qn_onnx_check_made(x->n * depth));
    double *y = qn_onnx_scratch(call, ((size_t)(x->n * depth) + 1) * sizeof *y);
    for (int64_t i = 0; y && i < x->n * depth; i++) {
        const int64_t place = i / inner % depth, from = i / inner / depth * inner + i % inner;
        const double at = numbers[from] < 0 ? numbers[from] + (double)depth : numbers[from];
        y[i] = pair[at == (double)place];
    }
    return qn_onnx_give_constant(call, y ? qn_onnx_make_constant(call, type, shape, y) : NULL);
}

/* Depth after so many axes: indices are compared with 0, 1, ... */
static qn_status build_one_hot(qn_onnx_call *call) {
    const qn_shape from = qn_onnx_shape(call, 0);
    const qn_onnx_constant *values;
    const double *pair;
    qn_graph *g = call->graph;
    qn_shape at = from, row = {.rank = from.rank + 1};
    int64_t depth;
    int axis;
    QN_TRY(qn_onnx_number_of(call, 1, &depth));
    QN_TRY(qn_onnx_numbers_of(call, 2, &values, &pair));
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", -1), from.rank + 1, &axis));
    if (depth < 1 || values->n != 2 || from.rank + 1 > QN_MAX_RANK)
        return qn_fail(QN_ERROR_FORMAT, "it makes rows of %lld of %lld values", (long long)depth,
                       (long long)values->n);
    QN_TRY(qn_onnx_check_made(depth));
    if (qn_onnx_is_known(call, 0))
        return fold_one_hot(call, depth, axis, pair, values->type);
    double *places = qn_onnx_scratch(call, (size_t)depth * sizeof *places);
    for (int64_t i = 0; places && i < depth; i++)
        places[i] = (double)i;
    if (!places)
        return QN_ERROR_MEMORY;
    at.rank++;
    for (int i = 0; i < at.rank; i++) {
        at.dims[i] = i == axis ? 1 : from.dims[i - (i > axis)];
        row.dims[i] = i == axis ? depth : 1;
    }
    qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
    const qn_value count = qn_op_scalar(g, qn_onnx_side_name(call, "depth"), (double)depth);
    const qn_value zero = qn_op_scalar(g, qn_onnx_side_name(call, "zero"), 0);
    const qn_value below =
        qn_op_combine(g, qn_onnx_side_name(call, "below"), QN_COMBINE_LESS, x, zero);
    const qn_value back =
        qn_op_combine(g, qn_onnx_side_name(call, "back"), QN_COMBINE_ADD, x, count);
    x = qn_op_where(g, qn_onnx_side_name(call, "front"), below, back, x);
    x = qn_reshape(g, qn_onnx_side_name(call, "at"), x, at);
    const qn_value is_one = qn_op_combine(g, qn_onnx_side_name(call, "is_one"), QN_COMBINE_EQUAL, x,
                                          qn_onnx_made_value(call, "places", row, places));
    const qn_function line = {QN_FUNCTION_LINE, pair[1] - pair[0], pair[0], -INFINITY, INFINITY};
    qn_onnx_give_as(call, qn_op_function(g, call->name, is_one, line), false, values->type);
    return g->status;
}

static qn_status build_eye_like(qn_onnx_call *call) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    const int64_t k = qn_onnx_int(call, "k", 0);
    const qn_onnx_type type = (qn_onnx_type)qn_onnx_int(call, "dtype", qn_onnx_type_at(call, 0));
    if (shape.rank != 2)
        return qn_fail(QN_ERROR_FORMAT, "its input is not a matrix");
    QN_TRY(qn_onnx_check_made(qn_shape_count(shape)));
    const int64_t n = qn_shape_count(shape);
    double *y = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *y);
    for (int64_t i = 0; y && i < n; i++)
        y[i] = i % shape.dims[1] - i / shape.dims[1] == k;
    return qn_onnx_give_constant(call, y ? qn_onnx_make_constant(call, type, shape, y) : NULL);
}

const qn_onnx_translator qn_onnx_known_translators[] = {
    {"TopK", 1, 2, build_top_k},       {"ArgMax", 1, 1, build_arg},
    {"ArgMin", 1, 1, build_arg},       {"Hardmax", 1, 1, build_hardmax},
    {"NonZero", 1, 1, build_non_zero}, {"Trilu", 1, 2, build_trilu},
    {"CumSum", 2, 2, build_cum_sum},   {"OneHot", 3, 3, build_one_hot},
    {"EyeLike", 1, 1, build_eye_like}, {NULL, 0, 0, NULL},
};
