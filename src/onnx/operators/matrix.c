/* Matrix products. One with a weight of the file on the right is a linear layer, whose weight is
 * kept as (out, in) whatever way the file has it; other products go over leading axes, which are
 * broadcast, or are attention. */
#include "base/status.h"
#include "onnx/translate.h"

/* The second input, a weight (K, N), or (N, K) where it is transposed, as (N, K). */
static qn_value read_weight(qn_onnx_call *call, bool is_transposed) {
    static const int turned[] = {1, 0};
    return qn_onnx_parameter(call, 1, is_transposed ? NULL : turned, true);
}

/* ---- Gemm ---- */

/* Whether the third input can be a linear layer's bias: N numbers for N columns. */
static bool is_bias(const qn_onnx_call *call, int64_t columns) {
    const qn_shape c = qn_onnx_shape(call, 2);
    return (c.rank == 1 || (c.rank == 2 && c.dims[0] == 1)) && c.dims[c.rank - 1] == columns;
}

/* The third input, times beta, as (N). */
static qn_value read_bias(qn_onnx_call *call, double beta) {
    qn_graph *g = call->graph;
    qn_value bias = qn_onnx_parameter(call, 2, NULL, true);
    if (bias.id >= 0 && qn_graph_shape(g, bias).rank == 2)
        bias = qn_reshape(g, qn_onnx_side_name(call, "bias"), bias,
                          QN_SHAPE(qn_graph_shape(g, bias).dims[1]));
    return beta == 1 ? bias : qn_scale(g, qn_onnx_side_name(call, "beta"), bias, beta);
}

/* y (M, N) plus the third input, times beta, broadcast. */
static qn_value plus_rest(qn_onnx_call *call, qn_value y, double beta) {
    qn_graph *g = call->graph;
    qn_value c = qn_onnx_value_of(call, 2);
    const qn_shape shape = qn_graph_shape(g, y);
    if (y.id < 0 || c.id < 0)
        return QN_NO_VALUE;
    if (beta != 1)
        c = qn_scale(g, qn_onnx_side_name(call, "beta"), c, beta);
    c = qn_expand(g, qn_onnx_side_name(call, "rows"), c, shape);
    return qn_add(g, call->name, y, c);
}

static qn_status build_gemm(qn_onnx_call *call) {
    qn_graph *g = call->graph;
    const bool transpose_a = qn_onnx_int(call, "transA", 0),
               transpose_b = qn_onnx_int(call, "transB", 0);
    const double alpha = qn_onnx_float(call, "alpha", 1), beta = qn_onnx_float(call, "beta", 1);
    const bool has_c = qn_onnx_has(call, 2) && beta != 0;
    if (qn_onnx_shape(call, 0).rank != 2 || qn_onnx_shape(call, 1).rank != 2)
        return qn_fail(QN_ERROR_FORMAT, "its inputs are no matrices");
    const bool fits = has_c && is_bias(call, qn_onnx_shape(call, 1).dims[transpose_b ? 0 : 1]);
    qn_value a = qn_onnx_plain(call, 0);
    if (transpose_a)
        a = qn_transpose(g, qn_onnx_side_name(call, "a"), a, (int[]){1, 0});
    if (alpha != 1)
        a = qn_scale(g, qn_onnx_side_name(call, "alpha"), a, alpha);
    const char *name = has_c && !fits ? qn_onnx_side_name(call, "product") : call->name;
    const qn_value weight = read_weight(call, transpose_b);
    const qn_value bias = fits ? read_bias(call, beta) : QN_NO_VALUE;
    qn_value y = qn_linear(g, name, a, weight, bias);
    if (has_c && !fits)
        y = plus_rest(call, y, beta);
    qn_onnx_give(call, 0, y, false);
    return QN_OK;
}

/* ---- MatMul ---- */

/* a (..., M, K) by a matrix, over its rows. */
static qn_value over_rows(qn_onnx_call *call, qn_value a) {
    qn_graph *g = call->graph;
    qn_shape shape = qn_graph_shape(g, a);
    if (shape.rank == 2)
        return qn_linear(g, call->name, a, read_weight(call, false), QN_NO_VALUE);
    const qn_shape rows = QN_SHAPE(-1, shape.dims[shape.rank - 1]);
    a = qn_reshape(g, qn_onnx_side_name(call, "rows"), a, rows);
    const qn_value y = qn_linear(g, call->name, a, read_weight(call, false), QN_NO_VALUE);
    shape.dims[shape.rank - 1] = qn_graph_shape(g, y).dims[1];
    return y.id < 0 ? y : qn_reshape(g, qn_onnx_side_name(call, "axes"), y, shape);
}

/* Both with the leading axes that they have together; *a and *b keep their matrices. */
static void broadcast_leading(qn_onnx_call *call, qn_value *a, qn_value *b) {
    qn_shape from[2] = {qn_graph_shape(call->graph, *a), qn_graph_shape(call->graph, *b)}, to[2];
    const int rank = from[0].rank > from[1].rank ? from[0].rank : from[1].rank;
    for (int side = 0; side < 2; side++) {
        const qn_shape mine = from[side], other = from[!side];
        to[side] = (qn_shape){.rank = rank};
        for (int i = 0; i < rank; i++) {
            const int64_t own = i < rank - mine.rank ? 1 : mine.dims[i - (rank - mine.rank)];
            const int64_t its = i < rank - other.rank ? 1 : other.dims[i - (rank - other.rank)];
            to[side].dims[i] = i < rank - 2 && own == 1 ? its : own;
        }
    }
    if (!qn_shape_equal(from[0], to[0]))
        *a = qn_expand(call->graph, qn_onnx_side_name(call, "left"), *a, to[0]);
    if (!qn_shape_equal(from[1], to[1]))
        *b = qn_expand(call->graph, qn_onnx_side_name(call, "right"), *b, to[1]);
}

/* A vector as a matrix of one row, or of one column. */
static qn_value as_matrix(qn_onnx_call *call, qn_value x, bool is_column) {
    const qn_shape s = qn_graph_shape(call->graph, x);
    if (x.id < 0 || s.rank != 1)
        return x;
    return qn_reshape(call->graph, qn_onnx_side_name(call, is_column ? "column" : "row"), x,
                      is_column ? QN_SHAPE(s.dims[0], 1) : QN_SHAPE(1, s.dims[0]));
}

static qn_value general_product(qn_onnx_call *call, qn_value left) {
    qn_value a = as_matrix(call, left, false);
    qn_value b = as_matrix(call, qn_onnx_plain(call, 1), true);
    if (a.id < 0 || b.id < 0)
        return QN_NO_VALUE;
    broadcast_leading(call, &a, &b);
    return qn_matmul(call->graph, call->name, a, b, false, false);
}

/* Without the axes that vectors were given. */
static qn_value without_ones(qn_onnx_call *call, qn_value y, bool drop_rows, bool drop_columns) {
    const qn_shape s = qn_graph_shape(call->graph, y);
    qn_shape less = {.rank = 0};
    if (y.id < 0 || (!drop_rows && !drop_columns))
        return y;
    for (int i = 0; i < s.rank; i++) {
        if ((i == s.rank - 2 && drop_rows) || (i == s.rank - 1 && drop_columns))
            continue;
        less.dims[less.rank++] = s.dims[i];
    }
    return qn_reshape(call->graph, qn_onnx_side_name(call, "product"), y, less);
}

static qn_status build_matmul(qn_onnx_call *call) {
    const int left = qn_onnx_shape(call, 0).rank, right = qn_onnx_shape(call, 1).rank;
    if (left < 1 || right < 1)
        return qn_fail(QN_ERROR_FORMAT, "an input is a scalar");
    const qn_value a = qn_onnx_plain(call, 0);
    const bool is_layer = left > 1 && right == 2 && qn_onnx_is_weight(call, 1);
    const qn_value y = is_layer ? over_rows(call, a) : general_product(call, a);
    qn_onnx_give(call, 0, without_ones(call, y, left == 1, right == 1), false);
    return QN_OK;
}

/* ---- attention, which recognise_layers.c makes of several nodes ---- */

/* A part of one that is no attention here, since its keys and values are of several kinds. */
static qn_value take_apart(qn_onnx_call *call, const qn_value x[3], double scale, double rate) {
    qn_graph *g = call->graph;
    qn_value y = qn_matmul(g, qn_onnx_side_name(call, "scores"), x[0], x[1], false, true);
    y = qn_scale(g, qn_onnx_side_name(call, "scaled"), y, scale);
    y = qn_softmax(g, qn_onnx_side_name(call, "softmax"), y);
    if (rate > 0)
        y = qn_dropout(g, qn_onnx_side_name(call, "dropout"), y, rate);
    return qn_matmul(g, call->name, y, x[2], false, false);
}

/* Query, keys, values (N, H, T, D), lengths (N) of keys, dropout's ratio. */
static qn_status build_attention(qn_onnx_call *call) {
    const double scale = qn_onnx_float(call, "scale", 1);
    const qn_shape q = qn_onnx_shape(call, 0), k = qn_onnx_shape(call, 1);
    const bool is_whole = q.rank == 4 && k.rank == 4 && q.dims[0] == k.dims[0] &&
                          q.dims[1] == k.dims[1] && q.dims[3] == k.dims[3] &&
                          qn_shape_equal(k, qn_onnx_shape(call, 2));
    const qn_onnx_constant *ratio = qn_onnx_has(call, 4) ? qn_onnx_constant_of(call, 4) : NULL;
    qn_value x[3], lengths = QN_NO_VALUE;
    if (qn_onnx_has(call, 4) && (!ratio || ratio->n != 1 || !ratio->reals))
        return qn_fail(QN_ERROR_UNSUPPORTED, "its ratio is not a number that is known at import");
    const double rate = ratio ? ratio->reals[0] : 0;
    if (qn_onnx_has(call, 3) && !is_whole)
        return qn_fail(QN_ERROR_UNSUPPORTED, "its keys and values differ in shape; pad them");
    for (int i = 0; i < 3; i++)
        x[i] = qn_onnx_plain(call, i);
    if (qn_onnx_has(call, 3))
        lengths = qn_onnx_plain(call, 3);
    qn_onnx_give(call, 0,
                 is_whole
                     ? qn_attention(call->graph, call->name, x[0], x[1], x[2], lengths, scale, rate)
                     : take_apart(call, x, scale, rate),
                 false);
    return QN_OK;
}

const qn_onnx_translator qn_onnx_matrix_translators[] = {
    {"QuernAttention", 3, 5, build_attention},
    {"Gemm", 2, 3, build_gemm},
    {"MatMul", 2, 2, build_matmul},
    {NULL, 0, 0, NULL},
};
