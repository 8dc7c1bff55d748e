/* Operators of whole arrays of integers (integers.h): the largest of an axis, one-hot rows and
 * products of matrices, exact as the type wraps. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"
#include "onnx/integers.h"
#include "ops/integers.h"

#include <string.h>

/* ---- TopK ---- */

/* Where row (i, ., l) of (outer, n, inner) begins: (outer, 1, inner). */
static qn_value beginnings(qn_onnx_call *call, int64_t outer, int64_t n, int64_t inner) {
    int64_t *numbers = qn_onnx_scratch(call, ((size_t)(outer * inner) + 1) * sizeof *numbers);
    for (int64_t i = 0; numbers && i < outer * inner; i++)
        numbers[i] = i / inner * n * inner + i % inner;
    return qn_onnx_integers_value(call, QN_SHAPE(outer, 1, inner), numbers);
}

qn_status qn_onnx_rank_axis(qn_onnx_call *call, int axis, int64_t k, bool is_largest,
                            qn_value *places, qn_value *elements) {
    const qn_shape s = qn_onnx_shape(call, 0);
    const int64_t outer = qn_shape_count_range(s, 0, axis), n = s.dims[axis];
    const int64_t inner = qn_shape_count_range(s, axis + 1, s.rank);
    const qn_ranking_attributes a = {.k = k,
                                     .is_largest = is_largest,
                                     .is_unsigned = qn_onnx_type_at(call, 0) == QN_ONNX_UINT64};
    qn_graph *g = call->graph;
    qn_value x = qn_reshape(g, qn_onnx_side_name(call, "columns"), qn_onnx_plain(call, 0),
                            QN_SHAPE(outer, n, inner));
    QN_TRY(g->status);
    *places = qn_op_ranked(g, qn_onnx_side_name(call, "ranked"), x, &a);
    const qn_value steps[] = {*places, qn_onnx_integers_value(call, (qn_shape){.rank = 0}, &inner)};
    const qn_value at[] = {
        qn_onnx_integer_rule(call, "steps", QN_INTEGER_MULTIPLY, QN_ONNX_INT64, steps, 2),
        beginnings(call, outer, n, inner)};
    *elements = qn_onnx_integer_rule(call, "elements", QN_INTEGER_ADD, QN_ONNX_INT64, at, 2);
    return g->status;
}

static qn_status fold_top_k(qn_onnx_call *call, int axis, int64_t k, bool is_largest,
                            qn_shape shape) {
    const qn_onnx_constant *x = qn_onnx_constant_of(call, 0);
    const qn_integer_ranking ranking = {k, is_largest, x && x->type == QN_ONNX_UINT64};
    const size_t count = (size_t)qn_shape_count(shape) + 1;
    int64_t *places = qn_onnx_scratch(call, count * sizeof *places);
    int64_t *values = qn_onnx_scratch(call, count * sizeof *values);
    qn_ranked *column =
        x ? qn_onnx_scratch(call, ((size_t)x->shape.dims[axis] + 1) * sizeof *column) : NULL;
    if (!places || !values || !column)
        return QN_ERROR_MEMORY;
    const int64_t inner = qn_shape_count_range(shape, axis + 1, shape.rank);
    const int64_t outer = qn_shape_count_range(shape, 0, axis), n = x->shape.dims[axis];
    qn_integer_rank(&ranking, QN_I64, x->whole, outer, n, inner, column, places);
    for (int64_t i = 0; i < outer * k * inner; i++)
        values[i] = x->whole[(i / (k * inner) * n + places[i]) * inner + i % inner];
    QN_TRY(qn_onnx_give_whole(call, 1, QN_ONNX_INT64, shape, places));
    return qn_onnx_give_whole(call, 0, x->type, shape, values);
}

static qn_status build_top_k(qn_onnx_call *call) {
    qn_shape shape = qn_onnx_shape(call, 0);
    const bool is_largest = qn_onnx_int(call, "largest", 1) != 0;
    int64_t k = qn_onnx_int(call, "k", 1);
    qn_value places, elements;
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", -1), shape.rank, &axis));
    if (qn_onnx_has(call, 1))
        QN_TRY(qn_onnx_number_of(call, 1, &k));
    const bool is_known = qn_onnx_is_known(call, 0);
    if (k < !is_known || k > shape.dims[axis])
        return qn_fail(QN_ERROR_FORMAT, "it takes %lld of %lld elements", (long long)k,
                       (long long)shape.dims[axis]);
    shape.dims[axis] = k;
    if (is_known)
        return fold_top_k(call, axis, k, is_largest, shape);
    QN_TRY(qn_onnx_rank_axis(call, axis, k, is_largest, &places, &elements));
    const qn_value x = qn_op_pick(call->graph, qn_onnx_side_name(call, "largest"),
                                  qn_onnx_plain(call, 0), elements);
    qn_onnx_give_typed(call, 0, qn_reshape(call->graph, call->name, x, shape), false,
                       qn_onnx_type_at(call, 0));
    return qn_onnx_is_used(call, 1) ? qn_onnx_give_integers(call, 1, places, shape, QN_ONNX_INT64)
                                    : call->graph->status;
}

/* ---- OneHot ---- */

/* 1 where an index is its place along the new axis, else 0: of the numbers on and off, of a type.
 * Indices below 0 count from the end. */
static qn_value one_hot(qn_onnx_call *call, qn_shape at, qn_shape row, int64_t depth,
                        qn_integer_rule last, const qn_value *on_off) {
    int64_t *places = qn_onnx_scratch(call, ((size_t)depth + 1) * sizeof *places);
    static const int64_t zero = 0;
    for (int64_t i = 0; places && i < depth; i++)
        places[i] = i;
    const qn_value x =
        qn_reshape(call->graph, qn_onnx_side_name(call, "at"), qn_onnx_plain(call, 0), at);
    const qn_value from_end[] = {x, qn_onnx_integers_value(call, (qn_shape){.rank = 0}, &depth)};
    const qn_value below[] = {x, qn_onnx_integers_value(call, (qn_shape){.rank = 0}, &zero)};
    const qn_value front[] = {
        qn_onnx_integer_rule(call, "below", QN_INTEGER_LESS, QN_ONNX_INT64, below, 2),
        qn_onnx_integer_rule(call, "back", QN_INTEGER_ADD, QN_ONNX_INT64, from_end, 2), x};
    const qn_value both[] = {
        qn_onnx_integer_rule(call, "front", QN_INTEGER_WHERE, QN_ONNX_INT64, front, 3),
        qn_onnx_integers_value(call, row, places)};
    const qn_value is =
        qn_onnx_integer_rule(call, "is_one", QN_INTEGER_EQUAL, QN_ONNX_INT64, both, 2);
    if (last == QN_INTEGER_EQUAL)
        return is;
    const qn_value all[] = {is, on_off[0], on_off[1]};
    return qn_onnx_integer_rule(call, "hot", last, QN_ONNX_INT64, all, 3);
}

static qn_status build_one_hot(qn_onnx_call *call) {
    const qn_shape from = qn_onnx_shape(call, 0);
    const qn_onnx_constant *values = qn_onnx_constant_of(call, 2);
    qn_shape at = {.rank = from.rank + 1}, row = at, shape = at;
    qn_graph *g = call->graph;
    int64_t depth;
    int axis;
    QN_TRY(qn_onnx_number_of(call, 1, &depth));
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", -1), from.rank + 1, &axis));
    QN_TRY(qn_onnx_check_made(depth));
    if (depth < 1 || !values || values->n != 2 || shape.rank > QN_MAX_RANK)
        return qn_fail(QN_ERROR_FORMAT, "it makes rows of %lld of %lld values", (long long)depth,
                       (long long)(values ? values->n : 0));
    for (int i = 0; i < shape.rank; i++) {
        at.dims[i] = i == axis ? 1 : from.dims[i - (i > axis)];
        row.dims[i] = i == axis ? depth : 1;
        shape.dims[i] = i == axis ? depth : at.dims[i];
    }
    if (values->whole) {
        const qn_value on_off[] = {
            qn_onnx_integers_value(call, (qn_shape){.rank = 0}, &values->whole[1]),
            qn_onnx_integers_value(call, (qn_shape){.rank = 0}, &values->whole[0])};
        return qn_onnx_give_integers(
            call, 0, one_hot(call, at, row, depth, QN_INTEGER_WHERE, on_off), shape, values->type);
    }
    const qn_value is = one_hot(call, at, row, depth, QN_INTEGER_EQUAL, NULL);
    QN_TRY(g->status);
    const qn_value truth =
        qn_onnx_integer_as_real(call, qn_onnx_side_name(call, "truth"), is, QN_ONNX_INT64);
    const qn_value on = qn_op_scalar(g, qn_onnx_side_name(call, "on"), values->reals[1]);
    const qn_value off = qn_op_scalar(g, qn_onnx_side_name(call, "off"), values->reals[0]);
    qn_onnx_give_typed(call, 0, qn_op_where(g, call->name, truth, on, off), false, values->type);
    return g->status;
}

/* ---- products ---- */

/* Integers with other leading axes, all of 1 or equal: those of zeros that are added. */
static qn_value with_leading(qn_onnx_call *call, qn_value x, qn_shape leading) {
    const qn_shape shape = qn_graph_shape(call->graph, x);
    const int64_t n = qn_shape_count(leading);
    int64_t *zeros = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *zeros);
    if (!zeros || call->graph->status != QN_OK)
        return QN_NO_VALUE;
    memset(zeros, 0, ((size_t)n + 1) * sizeof *zeros);
    qn_shape ones = leading;
    ones.dims[ones.rank++] = 1;
    ones.dims[ones.rank++] = 1;
    const qn_value both[] = {x, qn_onnx_integers_value(call, ones, zeros)};
    const qn_value y =
        qn_onnx_integer_rule(call, "leading", QN_INTEGER_ADD, QN_ONNX_INT64, both, 2);
    return qn_reshape(call->graph, qn_onnx_side_name(call, "matrices"), y,
                      QN_SHAPE(n, shape.dims[shape.rank - 2], shape.dims[shape.rank - 1]));
}

/* A vector as a matrix of one row, or column. */
static qn_value as_matrix(qn_onnx_call *call, int input) {
    const qn_shape s = qn_onnx_shape(call, input);
    const qn_value x = qn_onnx_plain(call, input);
    if (s.rank != 1)
        return x;
    return qn_reshape(call->graph, qn_onnx_side_name(call, "matrix"), x,
                      input ? QN_SHAPE(s.dims[0], 1) : QN_SHAPE(1, s.dims[0]));
}

static qn_status join_leading(qn_shape a, qn_shape b, qn_shape *leading) {
    a.rank -= 2;
    b.rank -= 2;
    return qn_shape_broadcast(a, b, leading)
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT, "its inputs do not go together");
}

static qn_value product_of(qn_onnx_call *call, qn_value a, qn_value b) {
    const qn_integer_type type = qn_onnx_integer_type_of(qn_onnx_type_at(call, 0));
    const qn_integer_matmul_attributes attributes = {type.bits, type.is_signed};
    return qn_op_integer_product(call->graph, qn_onnx_side_name(call, "product"), a, b,
                                 &attributes);
}

static qn_status build_matmul(qn_onnx_call *call) {
    const qn_shape left = qn_onnx_shape(call, 0), right = qn_onnx_shape(call, 1);
    if (left.rank < 1 || right.rank < 1)
        return qn_fail(QN_ERROR_FORMAT, "an input is a scalar");
    const qn_value a = as_matrix(call, 0), b = as_matrix(call, 1);
    qn_shape shape;
    QN_TRY(call->graph->status);
    QN_TRY(join_leading(qn_graph_shape(call->graph, a), qn_graph_shape(call->graph, b), &shape));
    const qn_value y = product_of(call, with_leading(call, a, shape), with_leading(call, b, shape));
    QN_TRY(call->graph->status);
    if (left.rank > 1)
        shape.dims[shape.rank++] = left.dims[left.rank - 2];
    if (right.rank > 1)
        shape.dims[shape.rank++] = right.dims[right.rank - 1];
    return qn_onnx_give_integers(call, 0, y, shape, qn_onnx_type_at(call, 0));
}

/* A matrix (1, rows, columns), or its transpose. */
static qn_value matrix_of(qn_onnx_call *call, int input, bool is_transposed) {
    const qn_shape s = qn_onnx_shape(call, input);
    const int64_t rows = s.dims[0], columns = s.dims[1];
    const qn_value x = qn_onnx_plain(call, input);
    if (!is_transposed)
        return qn_reshape(call->graph, qn_onnx_side_name(call, "matrix"), x,
                          QN_SHAPE(1, rows, columns));
    int64_t *places = qn_onnx_scratch(call, ((size_t)(rows * columns) + 1) * sizeof *places);
    for (int64_t i = 0; places && i < rows * columns; i++)
        places[i] = i % rows * columns + i / rows;
    return qn_op_pick(call->graph, qn_onnx_side_name(call, "transposed"), x,
                      qn_onnx_integers_value(call, QN_SHAPE(1, columns, rows), places));
}

static qn_status build_gemm(qn_onnx_call *call) {
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    if (qn_onnx_shape(call, 0).rank != 2 || qn_onnx_shape(call, 1).rank != 2)
        return qn_fail(QN_ERROR_FORMAT, "its inputs are no matrices");
    if (qn_onnx_float(call, "alpha", 1) != 1 || qn_onnx_float(call, "beta", 1) != 1)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it multiplies integers by reals; export it with "
                                             "alpha and beta 1");
    qn_value y = product_of(call, matrix_of(call, 0, qn_onnx_int(call, "transA", 0)),
                            matrix_of(call, 1, qn_onnx_int(call, "transB", 0)));
    QN_TRY(call->graph->status);
    const qn_shape s = qn_graph_shape(call->graph, y);
    if (qn_onnx_has(call, 2)) {
        const qn_value both[] = {y, qn_onnx_plain(call, 2)};
        y = qn_onnx_integer_rule(call, "sum", QN_INTEGER_ADD, type, both, 2);
    }
    return qn_onnx_give_integers(call, 0, y, QN_SHAPE(s.dims[1], s.dims[2]), type);
}

qn_status qn_onnx_build_integer_arrays(qn_onnx_call *call, bool *is_done) {
    static const struct {
        const char *type;
        qn_status (*build)(qn_onnx_call *call);
        bool needs_unknown; /* what is known is folded by the translator */
    } all[] = {{"TopK", build_top_k, false},
               {"OneHot", build_one_hot, true},
               {"MatMul", build_matmul, false},
               {"Gemm", build_gemm, false}};
    const bool has_integers = qn_onnx_type_is_integer(qn_onnx_type_at(call, 0));
    *is_done = false;
    for (size_t i = 0; has_integers && i < sizeof all / sizeof *all; i++) {
        if (strcmp(call->node->type, all[i].type) != 0 ||
            (all[i].needs_unknown && qn_onnx_is_known(call, 0)))
            continue;
        *is_done = true;
        return all[i].build(call);
    }
    return QN_OK;
}
