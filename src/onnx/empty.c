/* Tensors without elements. Such a tensor is known at import whatever it comes from: it is a
 * constant with an extent of 0, and no value of the graph is one. What reads one is again without
 * elements, or goes on without it (Concat), or is a number that does not depend on it: an empty sum
 * is 0. The builder asks here before it asks a translator; what only moves elements folds as other
 * constants do. Left out: an input or output of the network without elements. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"

#include <math.h>
#include <string.h>

static bool is_empty(const qn_onnx_call *call, int input) {
    return qn_onnx_has(call, input) && qn_shape_count(qn_onnx_shape(call, input)) == 0;
}

qn_status qn_onnx_give_empty(qn_onnx_call *call, int output, qn_onnx_type type, qn_shape shape) {
    const double none = 0;
    if (qn_onnx_type_is_real(type)) {
        QN_TRY(qn_onnx_give_reals(call, output, shape, &none));
        qn_onnx_find_item(call->builder, call->node->outputs[output])->type = type;
        return QN_OK;
    }
    return qn_onnx_give_whole(call, output, type, shape, &(const int64_t){0});
}

/* ---- element by element ---- */

/* What comes out of operands that are broadcast, of the first one's type unless it says. */
typedef struct row {
    const char *type;
    enum { ALL, FIRST, TRUTHS, SECOND, CAST } gives;
} row;

static const row rows[] = {
    {"Abs", FIRST},
    {"Acos", FIRST},
    {"Acosh", FIRST},
    {"Asin", FIRST},
    {"Asinh", FIRST},
    {"Atan", FIRST},
    {"Atanh", FIRST},
    {"Ceil", FIRST},
    {"Celu", FIRST},
    {"Clip", FIRST},
    {"Cos", FIRST},
    {"Cosh", FIRST},
    {"Dropout", FIRST},
    {"Elu", FIRST},
    {"Erf", FIRST},
    {"Exp", FIRST},
    {"Floor", FIRST},
    {"Gelu", FIRST},
    {"HardSigmoid", FIRST},
    {"HardSwish", FIRST},
    {"Hardmax", FIRST},
    {"LayerNormalization", FIRST},
    {"LeakyRelu", FIRST},
    {"Log", FIRST},
    {"LogSoftmax", FIRST},
    {"Mish", FIRST},
    {"Neg", FIRST},
    {"Not", TRUTHS},
    {"Reciprocal", FIRST},
    {"RMSNormalization", FIRST},
    {"Relu", FIRST},
    {"Round", FIRST},
    {"Selu", FIRST},
    {"Shrink", FIRST},
    {"Sigmoid", FIRST},
    {"Sign", FIRST},
    {"Sin", FIRST},
    {"Sinh", FIRST},
    {"Softmax", FIRST},
    {"Softplus", FIRST},
    {"Softsign", FIRST},
    {"Sqrt", FIRST},
    {"Swish", FIRST},
    {"Tan", FIRST},
    {"Tanh", FIRST},
    {"ThresholdedRelu", FIRST},
    {"CumSum", FIRST},
    {"Add", ALL},
    {"BitwiseAnd", ALL},
    {"BitwiseOr", ALL},
    {"BitwiseXor", ALL},
    {"Div", ALL},
    {"Max", ALL},
    {"Mean", ALL},
    {"Min", ALL},
    {"Mod", ALL},
    {"Mul", ALL},
    {"PRelu", ALL},
    {"Pow", ALL},
    {"Sub", ALL},
    {"Sum", ALL},
    {"And", TRUTHS},
    {"Equal", TRUTHS},
    {"Greater", TRUTHS},
    {"GreaterOrEqual", TRUTHS},
    {"IsInf", TRUTHS},
    {"IsNaN", TRUTHS},
    {"Less", TRUTHS},
    {"LessOrEqual", TRUTHS},
    {"Or", TRUTHS},
    {"Xor", TRUTHS},
    {"Where", SECOND},
    {"Cast", CAST},
    {"CastLike", SECOND},
};

static const row *find_row(const char *type) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i].type, type) == 0)
            return &rows[i];
    }
    return NULL;
}

static qn_status give_row(qn_onnx_call *call, const row *r) {
    qn_shape shape = qn_onnx_shape(call, 0);
    const bool is_first = r->gives == FIRST || r->gives == CAST || strcmp(r->type, "CastLike") == 0;
    for (int i = 1; i < call->n_inputs && !is_first; i++) {
        if (!qn_shape_broadcast(shape, qn_onnx_shape(call, i), &shape))
            return qn_fail(QN_ERROR_FORMAT, "its operands do not go together");
    }
    const qn_onnx_type type = r->gives == TRUTHS ? QN_ONNX_BOOL
                              : r->gives == CAST ? (qn_onnx_type)qn_onnx_int(call, "to", 0)
                                                 : qn_onnx_type_at(call, r->gives == SECOND);
    return qn_onnx_give_empty(call, 0, type, shape);
}

/* ---- sums and products ---- */

/* What a reduction of nothing gives. */
static double nothing_of(const char *type) {
    if (strcmp(type, "ReduceProd") == 0)
        return 1;
    if (strcmp(type, "ReduceMean") == 0)
        return NAN;
    if (strcmp(type, "ReduceMin") == 0)
        return INFINITY;
    const bool is_log = strncmp(type, "ReduceLog", strlen("ReduceLog")) == 0;
    return is_log || strcmp(type, "ReduceMax") == 0 ? -INFINITY : 0;
}

/* Every element of a shape the same number. */
static qn_status give_filled(qn_onnx_call *call, qn_onnx_type type, qn_shape shape, double number) {
    const int64_t n = qn_shape_count(shape);
    QN_TRY(qn_onnx_check_made(n));
    double *numbers = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *numbers);
    for (int64_t i = 0; numbers && i < n; i++)
        numbers[i] = number;
    return qn_onnx_give_constant(call, numbers ? qn_onnx_make_constant(call, type, shape, numbers)
                                               : NULL);
}

static qn_status give_reduced(qn_onnx_call *call) {
    const qn_shape x = qn_onnx_shape(call, 0);
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    const bool keeps = qn_onnx_int(call, "keepdims", 1) != 0;
    qn_shape left = {.rank = 0};
    unsigned mask;
    QN_TRY(qn_onnx_reduced_axes(call, x.rank, &mask));
    for (int i = 0; i < x.rank; i++) {
        if (!(mask >> i & 1) || keeps)
            left.dims[left.rank++] = mask >> i & 1 ? 1 : x.dims[i];
    }
    return give_filled(call, type, left, nothing_of(call->node->type));
}

static qn_status give_product(qn_onnx_call *call) {
    const qn_shape a = qn_onnx_shape(call, 0), b = qn_onnx_shape(call, 1);
    if (a.rank < 2 || b.rank < 2 || a.dims[a.rank - 1] != b.dims[b.rank - 2])
        return qn_fail(QN_ERROR_UNSUPPORTED, "its operands without elements do not go together");
    qn_shape ahead_a = a, ahead_b = b, y;
    ahead_a.rank -= 2;
    ahead_b.rank -= 2;
    if (!qn_shape_broadcast(ahead_a, ahead_b, &y))
        return qn_fail(QN_ERROR_FORMAT, "its operands do not go together");
    y.dims[y.rank++] = a.dims[a.rank - 2];
    y.dims[y.rank++] = b.dims[b.rank - 1];
    return give_filled(call, qn_onnx_type_at(call, 0), y, 0);
}

/* ---- Concat ---- */

/* What is left when those without elements go; nothing: their extents are added. */
static qn_status give_joined(qn_onnx_call *call) {
    qn_onnx_item **inputs = qn_onnx_scratch(call, ((size_t)call->n_inputs + 1) * sizeof *inputs);
    qn_shape all = qn_onnx_shape(call, 0);
    qn_onnx_call rest = *call;
    int axis, n = 0;
    if (!inputs)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_onnx_axis(qn_onnx_int(call, "axis", 0), all.rank, &axis));
    all.dims[axis] = 0;
    for (int i = 0; i < call->n_inputs; i++) {
        const qn_shape shape = qn_onnx_shape(call, i);
        if (shape.rank != all.rank)
            return qn_fail(QN_ERROR_FORMAT, "its input %d has another number of axes", i);
        all.dims[axis] += shape.dims[axis];
        if (!is_empty(call, i))
            inputs[n++] = call->inputs[i];
    }
    if (n == 0)
        return qn_onnx_give_empty(call, 0, qn_onnx_type_at(call, 0), all);
    rest.inputs = inputs;
    rest.n_inputs = n;
    return qn_onnx_build_with(&rest);
}

/* ---- any of them ---- */

qn_status qn_onnx_build_empty(qn_onnx_call *call, bool *is_done) {
    const char *type = call->node->type;
    const row *r = find_row(type);
    bool has = false;
    for (int i = 0; i < call->n_inputs; i++)
        has = has || is_empty(call, i);
    *is_done = has;
    if (!has)
        return QN_OK;
    if (r)
        return give_row(call, r);
    if (strcmp(type, "Concat") == 0)
        return give_joined(call);
    if (strcmp(type, "MatMul") == 0)
        return give_product(call);
    if (strncmp(type, "Reduce", strlen("Reduce")) == 0 && is_empty(call, 0))
        return give_reduced(call);
    *is_done = false;
    return QN_OK;
}
