/* Sums, means, products and largest along axes, and softmax. Axes that lie beside one another are
 * reduced at once, the others one run after the other, so that nothing is transposed; the rest
 * (norms, logarithms of sums) is put together of these and elementwise operators. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/fold.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

typedef enum reducing { SUM = QN_SUM, MEAN = QN_MEAN, MOST = QN_MAX, LEAST, PRODUCT } reducing;

/* ---- along some axes of a value; the result has 1s there ---- */

static qn_value function(qn_onnx_call *call, const char *suffix, qn_value x,
                         qn_function_kind kind) {
    const char *name = qn_onnx_side_name(call, suffix);
    return name ? qn_op_function(call->graph, name, x, (qn_function){.kind = kind}) : QN_NO_VALUE;
}

static qn_value scale(qn_onnx_call *call, const char *suffix, qn_value x, double factor) {
    const char *name = qn_onnx_side_name(call, suffix);
    return name ? qn_scale(call->graph, name, x, factor) : QN_NO_VALUE;
}

static qn_value combine(qn_onnx_call *call, const char *suffix, qn_combination kind, qn_value a,
                        qn_value b) {
    const char *name = qn_onnx_side_name(call, suffix);
    return name ? qn_op_combine(call->graph, name, kind, a, b) : QN_NO_VALUE;
}

/* Products of x (outer, n, inner) over n: of the first half with the second until one is left. */
static qn_value multiply_all(qn_onnx_call *call, qn_value x) {
    qn_graph *graph = call->graph;
    for (int64_t n = qn_graph_shape(graph, x).dims[1]; n > 1 && x.id >= 0; n = n / 2 + n % 2) {
        const int64_t half = n / 2;
        const char *name = qn_onnx_side_name(call, "product");
        const qn_value rest = n % 2 ? qn_slice(graph, NULL, x, 1, 2 * half, n) : QN_NO_VALUE;
        x = qn_multiply(graph, name, qn_slice(graph, NULL, x, 1, 0, half),
                        qn_slice(graph, NULL, x, 1, half, 2 * half));
        if (n % 2)
            x = qn_concat(graph, NULL, (qn_value[]){x, rest}, 2, 1);
    }
    return x;
}

static qn_value reduce_middle(qn_onnx_call *call, qn_value x, reducing what) {
    const char *name = qn_onnx_side_name(call, "axis");
    if (!name)
        return QN_NO_VALUE;
    if (what == PRODUCT)
        return multiply_all(call, x);
    if (what != LEAST)
        return qn_reduce(call->graph, name, x, 1, (qn_reduction)what);
    return scale(call, "least",
                 qn_reduce(call->graph, name, scale(call, "negative", x, -1), 1, QN_MAX), -1);
}

/* mask: bit i: axis i goes. */
static qn_value reduce_axes(qn_onnx_call *call, qn_value x, unsigned mask, reducing what) {
    qn_graph *graph = call->graph;
    qn_shape shape = qn_graph_shape(graph, x);
    for (int end = shape.rank, begin; end > 0 && x.id >= 0; end = begin) {
        for (begin = end; begin > 0 && mask >> (begin - 1) & 1;)
            begin--;
        const int64_t n = qn_shape_count_range(shape, begin, end);
        if (begin == end)
            begin--;
        if (n == 1)
            continue;
        x = qn_reshape(graph, NULL, x,
                       QN_SHAPE(qn_shape_count_range(shape, 0, begin), n,
                                qn_shape_count_range(shape, end, shape.rank)));
        x = reduce_middle(call, x, what);
        for (int axis = begin; axis < end; axis++)
            shape.dims[axis] = 1;
        x = qn_reshape(graph, NULL, x, shape);
    }
    return x;
}

/* x minus its largest along the axes, through which no gradient needs to flow, and that. */
static qn_value below_largest(qn_onnx_call *call, qn_value x, unsigned mask, qn_value *largest) {
    *largest = qn_stop_gradient(call->graph, NULL, reduce_axes(call, x, mask, MOST));
    return combine(call, "below", QN_COMBINE_SUBTRACT, x, *largest);
}

static qn_value log_sum_exp(qn_onnx_call *call, qn_value x, unsigned mask) {
    qn_value largest;
    x = function(call, "exp", below_largest(call, x, mask, &largest), QN_FUNCTION_EXP);
    x = function(call, "log", reduce_axes(call, x, mask, SUM), QN_FUNCTION_LOG);
    return combine(call, "sum", QN_COMBINE_ADD, x, largest);
}

static qn_value reduce(qn_onnx_call *call, qn_value x, unsigned mask) {
    const char *type = call->node->type + strlen("Reduce");
    if (strcmp(type, "LogSumExp") == 0)
        return log_sum_exp(call, x, mask);
    if (strcmp(type, "L1") == 0)
        return reduce_axes(call, function(call, "abs", x, QN_FUNCTION_ABS), mask, SUM);
    if (strcmp(type, "L2") == 0 || strcmp(type, "SumSquare") == 0) {
        const char *name = qn_onnx_side_name(call, "square");
        x = reduce_axes(call, name ? qn_multiply(call->graph, name, x, x) : QN_NO_VALUE, mask, SUM);
        return *type == 'L' ? function(call, "root", x, QN_FUNCTION_SQRT) : x;
    }
    if (strcmp(type, "LogSum") == 0)
        return function(call, "log", reduce_axes(call, x, mask, SUM), QN_FUNCTION_LOG);
    return reduce_axes(call, x, mask,
                       strcmp(type, "Sum") == 0    ? SUM
                       : strcmp(type, "Mean") == 0 ? MEAN
                       : strcmp(type, "Max") == 0  ? MOST
                       : strcmp(type, "Min") == 0  ? LEAST
                                                   : PRODUCT);
}

/* ---- the node ---- */

/* The axes of the file that go. */
qn_status qn_onnx_reduced_axes(qn_onnx_call *call, int rank, unsigned *mask) {
    const int64_t *axes;
    int n, axis;
    QN_TRY(qn_onnx_list(call, "axes", 1, &axes, &n));
    *mask = 0;
    for (int i = 0; i < n; i++) {
        QN_TRY(qn_onnx_axis(axes[i], rank, &axis));
        *mask |= 1u << axis;
    }
    if (n == 0 && !qn_onnx_int(call, "noop_with_empty_axes", 0))
        *mask = (1u << rank) - 1;
    return QN_OK;
}

/* What is left of a shape without the axes of a mask. */
static qn_shape without(qn_shape shape, unsigned mask) {
    qn_shape left = {.rank = 0};
    for (int i = 0; i < shape.rank; i++) {
        if (!(mask >> i & 1))
            left.dims[left.rank++] = shape.dims[i];
    }
    return left;
}

/* Sums, products, largest and least of numbers known at import. */
static qn_status fold_reduce(qn_onnx_call *call, unsigned mask, bool keeps) {
    const char *type = call->node->type + strlen("Reduce");
    const qn_onnx_constant *x = qn_onnx_constant_of(call, 0);
    const double *numbers = x ? qn_onnx_numbers(call, x) : NULL;
    double *y = x ? qn_onnx_scratch(call, ((size_t)x->n + 1) * sizeof *y) : NULL;
    if (!numbers || !y)
        return qn_onnx_give_constant(call, NULL);
    qn_shape kept = x->shape;
    for (int axis = 0; axis < kept.rank; axis++)
        kept.dims[axis] = mask >> axis & 1 ? 1 : kept.dims[axis];
    const int64_t n = qn_shape_count(kept);
    for (int64_t i = 0; i < n; i++)
        y[i] = strcmp(type, "Max") == 0    ? -INFINITY
               : strcmp(type, "Min") == 0  ? INFINITY
               : strcmp(type, "Prod") == 0 ? 1
                                           : 0;
    for (int64_t i = 0; i < x->n; i++) {
        int64_t at = 0, rest = i, step = 1;
        for (int axis = kept.rank - 1; axis >= 0; axis--) {
            at += mask >> axis & 1 ? 0 : rest % x->shape.dims[axis] * step;
            rest /= x->shape.dims[axis];
            step *= kept.dims[axis];
        }
        const double a = numbers[i], b = y[at];
        y[at] = strcmp(type, "Max") == 0    ? (a <= b || isnan(b) ? b : a) /* NaN stays */
                : strcmp(type, "Min") == 0  ? (a >= b || isnan(b) ? b : a)
                : strcmp(type, "Prod") == 0 ? a * b
                                            : a + b;
    }
    for (int64_t i = 0; i < n && strcmp(type, "Mean") == 0; i++)
        y[i] /= (double)(x->n / n);
    return qn_onnx_give_constant(
        call, qn_onnx_make_constant(call, x->type, keeps ? kept : without(x->shape, mask), y));
}

static bool is_folded(const char *type) {
    static const char *const all[] = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin",
                                      "ReduceProd"};
    bool is = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        is = is || strcmp(type, all[i]) == 0;
    return is;
}

/* Whether what is left of an image without some axes can only be said in the file's order: channels
 * behind other axes, but no batch. */
static bool needs_plain(qn_shape shape, unsigned mask) {
    const int n_left = without(shape, mask).rank;
    return (mask & 1) && !(mask & 2) && n_left > 1;
}

static qn_status build_reduce(qn_onnx_call *call) {
    const bool keeps = qn_onnx_int(call, "keepdims", 1) != 0;
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    const qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *graph = call->graph;
    unsigned mask, placed = 0;
    QN_TRY(qn_onnx_reduced_axes(call, shape.rank, &mask));
    if (mask == 0 && shape.rank > 0) {
        qn_onnx_give_input(call, 0, 0);
        return QN_OK;
    }
    if (qn_onnx_is_known(call, 0) && qn_shape_count(shape) > 0 && is_folded(call->node->type))
        return fold_reduce(call, mask, keeps);
    qn_onnx_operand x = qn_onnx_operand_of(call, 0);
    if (x.is_image && !keeps && needs_plain(shape, mask)) {
        x.x = qn_onnx_plain(call, 0);
        x.is_image = false;
    }
    for (int axis = 0; axis < shape.rank; axis++)
        placed |= mask >> axis & 1 ? 1u << qn_onnx_place_axis(&x, axis) : 0;
    const qn_shape lies = qn_graph_shape(graph, x.x);
    qn_value y = reduce(call, qn_onnx_as_reals(call, x.x), placed);
    if (!keeps) {
        y = qn_reshape(graph, call->name, y, without(lies, placed));
        x.is_image = x.is_image && !(mask & 3) && without(lies, placed).rank > 2;
    }
    qn_onnx_give_as(call, y, x.is_image, type);
    return graph->status;
}

/* ---- softmax ---- */

/* Over the last axis of x, or its logarithm. */
static qn_value softmax(qn_onnx_call *call, qn_value x) {
    qn_graph *graph = call->graph;
    qn_value largest;
    if (strcmp(call->node->type, "Softmax") == 0)
        return qn_softmax(graph, call->name, x);
    const unsigned last = 1u << (qn_graph_shape(graph, x).rank - 1);
    x = below_largest(call, x, last, &largest);
    const qn_value sum = reduce_axes(call, function(call, "exp", x, QN_FUNCTION_EXP), last, SUM);
    return qn_op_combine(graph, call->name, QN_COMBINE_SUBTRACT, x,
                         function(call, "log", sum, QN_FUNCTION_LOG));
}

/* Before opset 13 the axes from the given one on were one. */
static qn_status build_flat_softmax(qn_onnx_call *call) {
    const qn_shape shape = qn_onnx_shape(call, 0);
    qn_value x = qn_onnx_plain(call, 0);
    int axis;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 1), shape.rank, &axis));
    QN_TRY(call->graph->status);
    const int64_t rows = qn_shape_count_range(shape, 0, axis);
    x = softmax(call,
                qn_reshape(call->graph, NULL, x, QN_SHAPE(rows, qn_shape_count(shape) / rows)));
    qn_onnx_give(call, 0, qn_reshape(call->graph, NULL, x, shape), false);
    return call->graph->status;
}

static qn_status build_softmax(qn_onnx_call *call) {
    int axis, order[QN_MAX_RANK];
    if (call->opset < 13)
        return build_flat_softmax(call);
    const qn_onnx_operand operand = qn_onnx_operand_of(call, 0);
    const int rank = operand.shape.rank;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", -1), rank, &axis));
    QN_TRY(call->graph->status);
    axis = qn_onnx_place_axis(&operand, axis);
    for (int i = 0; i < rank; i++)
        order[i] = i;
    order[axis] = rank - 1;
    order[rank - 1] = axis;
    const char *there = qn_onnx_side_name(call, "last"), *back = qn_onnx_side_name(call, "back");
    const bool is_moved = axis != rank - 1;
    if (!there || !back)
        return QN_ERROR_MEMORY;
    qn_value x = is_moved ? qn_transpose(call->graph, there, operand.x, order) : operand.x;
    x = softmax(call, x);
    x = is_moved ? qn_transpose(call->graph, back, x, order) : x;
    qn_onnx_give(call, 0, x, operand.is_image);
    return call->graph->status;
}

const qn_onnx_translator qn_onnx_reduce_translators[] = {
    {"ReduceSum", 1, 2, build_reduce},
    {"ReduceMean", 1, 2, build_reduce},
    {"ReduceMax", 1, 2, build_reduce},
    {"ReduceMin", 1, 2, build_reduce},
    {"ReduceProd", 1, 2, build_reduce},
    {"ReduceL1", 1, 2, build_reduce},
    {"ReduceL2", 1, 2, build_reduce},
    {"ReduceSumSquare", 1, 2, build_reduce},
    {"ReduceLogSum", 1, 2, build_reduce},
    {"ReduceLogSumExp", 1, 2, build_reduce},
    {"Softmax", 1, 1, build_softmax},
    {"LogSoftmax", 1, 1, build_softmax},
    {NULL, 0, 0, NULL},
};
