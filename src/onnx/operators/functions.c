/* Functions of elements that quern has no operator for, put together of those that it has; of what
 * is known at import they are worked out. Tan, Softsign, Celu, ThresholdedRelu, Mish, Swish, Shrink
 * and the like, Mod, the tests for what is no number, and random numbers. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/fold.h"
#include "onnx/operators/formula.h"

#include <math.h>
#include <string.h>

/* ---- one operand ---- */

static qn_value build_tan(qn_onnx_call *call, qn_value x) {
    return qn_onnx_combine(call, NULL, QN_COMBINE_DIVIDE,
                           qn_onnx_apply_kind(call, "sin", x, QN_FUNCTION_SIN),
                           qn_onnx_apply_kind(call, "cos", x, QN_FUNCTION_COS));
}

/* x / (1 + |x|) */
static qn_value build_softsign(qn_onnx_call *call, qn_value x) {
    const qn_value size =
        qn_onnx_line(call, "plus", qn_onnx_apply_kind(call, "size", x, QN_FUNCTION_ABS), 1, 1);
    return qn_onnx_combine(call, NULL, QN_COMBINE_DIVIDE, x, size);
}

/* alpha elu(x / alpha)  (Barron 2017, equation 2) */
static qn_value build_celu(qn_onnx_call *call, qn_value x) {
    const double alpha = qn_onnx_float(call, "alpha", 1);
    const qn_function elu = {QN_FUNCTION_ELU, 1, alpha, 0, 0};
    return qn_onnx_apply(call, NULL, qn_onnx_line(call, "divided", x, 1 / alpha, 0), elu);
}

static qn_value build_thresholded(qn_onnx_call *call, qn_value x) {
    const qn_value least = qn_onnx_scalar(call, "least", qn_onnx_float(call, "alpha", 1));
    return qn_onnx_combine(call, NULL, QN_COMBINE_MULTIPLY, x,
                           qn_onnx_combine(call, "above", QN_COMBINE_LESS, least, x));
}

/* x tanh(log(1 + e^x))  (Misra 2019) */
static qn_value build_mish(qn_onnx_call *call, qn_value x) {
    const qn_value soft = qn_onnx_apply_kind(call, "softplus", x, QN_FUNCTION_SOFTPLUS);
    return qn_onnx_combine(call, NULL, QN_COMBINE_MULTIPLY, x,
                           qn_tanh(call->graph, qn_onnx_side_name(call, "tanh"), soft));
}

/* x + bias below -lambda, x - bias above lambda, 0 between. */
static qn_value build_shrink(qn_onnx_call *call, qn_value x) {
    const double bias = qn_onnx_float(call, "bias", 0), edge = qn_onnx_float(call, "lambd", 0.5);
    const qn_value size = qn_onnx_apply_kind(call, "size", x, QN_FUNCTION_ABS);
    const qn_value is_out =
        qn_onnx_combine(call, "out", QN_COMBINE_LESS, qn_onnx_scalar(call, "edge", edge), size);
    const qn_value less =
        qn_onnx_line(call, "less", qn_onnx_apply_kind(call, "sign", x, QN_FUNCTION_SIGN), bias, 0);
    return qn_onnx_combine(call, NULL, QN_COMBINE_MULTIPLY,
                           qn_onnx_combine(call, "moved", QN_COMBINE_SUBTRACT, x, less), is_out);
}

/* (e^x - e^-x) / 2, (e^x + e^-x) / 2 */
static qn_value build_hyperbolic(qn_onnx_call *call, qn_value x) {
    const bool is_sine = strcmp(call->node->type, "Sinh") == 0;
    const qn_value up = qn_onnx_apply_kind(call, "up", x, QN_FUNCTION_EXP);
    const qn_value down =
        qn_onnx_apply_kind(call, "down", qn_onnx_line(call, "negative", x, -1, 0), QN_FUNCTION_EXP);
    return qn_onnx_line(
        call, NULL,
        qn_onnx_combine(call, "both", is_sine ? QN_COMBINE_SUBTRACT : QN_COMBINE_ADD, up, down),
        0.5, 0);
}

/* atan(x / sqrt((1 - x) (1 + x))), and half a turn of a circle's quarter less that */
static qn_value build_arc(qn_onnx_call *call, qn_value x) {
    const bool is_sine = strcmp(call->node->type, "Asin") == 0;
    qn_value y =
        qn_onnx_combine(call, "square", QN_COMBINE_MULTIPLY, qn_onnx_line(call, "below", x, -1, 1),
                        qn_onnx_line(call, "above", x, 1, 1));
    y = qn_onnx_apply_kind(call, "root", y, QN_FUNCTION_SQRT);
    y = qn_onnx_combine(call, "tangent", QN_COMBINE_DIVIDE, x, y);
    y = qn_onnx_apply_kind(call, "arc", y, QN_FUNCTION_ATAN);
    return is_sine ? qn_onnx_line(call, NULL, y, 1, 0) : qn_onnx_line(call, NULL, y, -1, acos(0.0));
}

/* log(1 + x), exact also where x is small: log(w) x / (w - 1) with w = 1 + x (Goldberg 1991,
 * theorem 4), whose slope is that of log(w). */
static qn_value logarithm_above(qn_onnx_call *call, qn_value x) {
    qn_graph *g = call->graph;
    const qn_value w = qn_onnx_line(call, "above", x, 1, 1);
    const qn_value log = qn_onnx_apply_kind(call, "log", w, QN_FUNCTION_LOG);
    const qn_value rest = qn_onnx_line(call, "rest", w, 1, -1);
    const qn_value is_small =
        qn_onnx_combine(call, "small", QN_COMBINE_EQUAL, w, qn_onnx_scalar(call, "one", 1));
    qn_value exact = qn_onnx_combine(call, "ratio", QN_COMBINE_DIVIDE, x, rest);
    exact = qn_onnx_combine(call, "exact", QN_COMBINE_MULTIPLY, log, exact);
    exact = qn_onnx_where(call, "either", is_small, x, exact);
    const qn_value more = qn_onnx_combine(call, "more", QN_COMBINE_SUBTRACT, exact, log);
    const qn_value is_more = /* of infinities nothing is more */
        qn_onnx_combine(call, "finite", QN_COMBINE_EQUAL, more, more);
    const qn_value stopped = qn_stop_gradient(
        g, qn_onnx_side_name(call, "stop"),
        qn_onnx_where(call, "exactly", is_more, more, qn_onnx_scalar(call, "zero", 0)));
    return qn_onnx_combine(call, "logarithm", QN_COMBINE_ADD, log, stopped);
}

/* log(1 + |x| + x x / (1 + sqrt(1 + x x))) with the sign of x */
static qn_value build_asinh(qn_onnx_call *call, qn_value x) {
    const qn_value square = qn_multiply(call->graph, qn_onnx_side_name(call, "square"), x, x);
    qn_value root = qn_onnx_apply_kind(call, "root", qn_onnx_line(call, "plus", square, 1, 1),
                                       QN_FUNCTION_SQRT);
    root = qn_onnx_combine(call, "part", QN_COMBINE_DIVIDE, square,
                           qn_onnx_line(call, "whole", root, 1, 1));
    const qn_value size = qn_onnx_where(
        call, "size",
        qn_onnx_combine(call, "below", QN_COMBINE_LESS, x, qn_onnx_scalar(call, "zero", 0)),
        qn_onnx_line(call, "negative", x, -1, 0), x);
    const qn_value y =
        logarithm_above(call, qn_onnx_combine(call, "sum", QN_COMBINE_ADD, size, root));
    return qn_onnx_where(
        call, NULL,
        qn_onnx_combine(call, "below", QN_COMBINE_LESS, x, qn_onnx_scalar(call, "zero", 0)),
        qn_onnx_line(call, "negative", y, -1, 0), y);
}

/* log(1 + t + sqrt(t (t + 2))) with t = x - 1 */
static qn_value build_acosh(qn_onnx_call *call, qn_value x) {
    const qn_value t = qn_onnx_line(call, "less", x, 1, -1);
    const qn_value root = qn_onnx_apply_kind(call, "root",
                                             qn_onnx_combine(call, "square", QN_COMBINE_MULTIPLY, t,
                                                             qn_onnx_line(call, "plus", t, 1, 2)),
                                             QN_FUNCTION_SQRT);
    const qn_value y = logarithm_above(call, qn_onnx_combine(call, "sum", QN_COMBINE_ADD, t, root));
    return qn_onnx_line(call, NULL, y, 1, 0);
}

/* (log(1 + x) - log(1 - x)) / 2 */
static qn_value build_atanh(qn_onnx_call *call, qn_value x) {
    const qn_value up = logarithm_above(call, x);
    const qn_value down = logarithm_above(call, qn_onnx_line(call, "negative", x, -1, 0));
    return qn_onnx_line(call, NULL,
                        qn_onnx_combine(call, "difference", QN_COMBINE_SUBTRACT, up, down), 0.5, 0);
}

/* x / (1 + e^(-alpha x))  (Ramachandran et al. 2017) */
static qn_value build_swish(qn_onnx_call *call, qn_value x) {
    const qn_value steep = qn_onnx_line(call, "steep", x, qn_onnx_float(call, "alpha", 1), 0);
    return qn_onnx_combine(call, NULL, QN_COMBINE_MULTIPLY, x,
                           qn_sigmoid(call->graph, qn_onnx_side_name(call, "sigmoid"), steep));
}

/* What is no number is not equal to itself. */
static qn_value build_is_nan(qn_onnx_call *call, qn_value x) {
    return qn_onnx_line(call, NULL, qn_onnx_combine(call, "equal", QN_COMBINE_EQUAL, x, x), -1, 1);
}

/* Whether |x|, or with one attribute off x or -x, is infinite. */
static qn_value build_is_inf(qn_onnx_call *call, qn_value x) {
    const bool up = qn_onnx_int(call, "detect_positive", 1) != 0;
    const bool down = qn_onnx_int(call, "detect_negative", 1) != 0;
    qn_value size = up && down ? qn_onnx_apply_kind(call, "size", x, QN_FUNCTION_ABS)
                    : up       ? x
                               : qn_onnx_line(call, "negative", x, -1, 0);
    const qn_value is = qn_onnx_combine(call, "equal", QN_COMBINE_EQUAL, size,
                                        qn_onnx_scalar(call, "infinity", INFINITY));
    return qn_onnx_line(call, NULL, is, up || down ? 1 : 0, 0);
}

typedef struct formula {
    const char *type;
    qn_value (*build)(qn_onnx_call *call, qn_value x);
    bool is_truth;
} formula;

static const formula formulas[] = {
    {"Tan", build_tan, false},         {"Softsign", build_softsign, false},
    {"Celu", build_celu, false},       {"ThresholdedRelu", build_thresholded, false},
    {"Mish", build_mish, false},       {"Shrink", build_shrink, false},
    {"Sinh", build_hyperbolic, false}, {"Cosh", build_hyperbolic, false},
    {"Asin", build_arc, false},        {"Acos", build_arc, false},
    {"Asinh", build_asinh, false},     {"Acosh", build_acosh, false},
    {"Atanh", build_atanh, false},     {"Swish", build_swish, false},
    {"IsNaN", build_is_nan, true},     {"IsInf", build_is_inf, true},
};

static qn_status build_formula(qn_onnx_call *call) {
    const formula *f = formulas;
    while (strcmp(f->type, call->node->type) != 0)
        f++;
    const qn_value x = qn_onnx_as_reals(call, qn_onnx_value_of(call, 0));
    const qn_onnx_type type = f->is_truth ? QN_ONNX_BOOL : qn_onnx_type_at(call, 0);
    qn_onnx_give_as(call, f->build(call, x), qn_onnx_is_image(call, 0), type);
    return call->graph->status;
}

/* ---- remainders ---- */

static double remainder_of(double a, double b, bool is_truncated) {
    const double r = fmod(a, b);
    return !is_truncated && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static qn_status fold_mod(qn_onnx_call *call, bool is_truncated) {
    const qn_onnx_constant *a = qn_onnx_constant_of(call, 0), *b = qn_onnx_constant_of(call, 1);
    const double *p = a ? qn_onnx_numbers(call, a) : NULL;
    const double *q = b ? qn_onnx_numbers(call, b) : NULL;
    qn_shape shape;
    if (!p || !q)
        return qn_onnx_give_constant(call, NULL);
    if (!qn_shape_broadcast(a->shape, b->shape, &shape))
        return qn_fail(QN_ERROR_FORMAT, "its operands do not go together");
    const qn_tensor tensors[] = {{QN_F64, a->shape}, {QN_F64, b->shape}};
    const qn_broadcast layout = qn_broadcast_of(tensors, 2, shape);
    const int64_t n = qn_shape_count(shape);
    double *y = qn_onnx_scratch(call, ((size_t)n + 1) * sizeof *y);
    for (int64_t i = 0; y && i < n; i++) {
        int64_t at[2] = {0}, rest = i;
        for (int k = layout.rank - 1; k >= 0; rest /= layout.extents[k--]) {
            at[0] += rest % layout.extents[k] * layout.strides[0][k];
            at[1] += rest % layout.extents[k] * layout.strides[1][k];
        }
        if (q[at[1]] == 0 && !a->reals)
            return qn_fail(QN_ERROR_FORMAT, "it divides by 0");
        y[i] = remainder_of(p[at[0]], q[at[1]], is_truncated);
    }
    return qn_onnx_give_constant(call, y ? qn_onnx_make_constant(call, a->type, shape, y) : NULL);
}

/* a - b floor(a / b), or with the quotient cut off towards 0. */
static qn_status build_mod(qn_onnx_call *call) {
    const bool is_truncated = qn_onnx_int(call, "fmod", 0) != 0;
    const qn_onnx_type type = qn_onnx_type_at(call, 0);
    qn_value v[2];
    bool is_image;
    if (qn_onnx_folds(call))
        return fold_mod(call, is_truncated);
    qn_onnx_operands(call, 2, v, &is_image);
    qn_value q = qn_onnx_combine(call, "quotient", QN_COMBINE_DIVIDE, v[0], v[1]);
    if (is_truncated) {
        const qn_value sign = qn_onnx_apply_kind(call, "sign", q, QN_FUNCTION_SIGN);
        q = qn_onnx_apply_kind(call, "whole", qn_onnx_apply_kind(call, "size", q, QN_FUNCTION_ABS),
                               QN_FUNCTION_FLOOR);
        q = qn_onnx_combine(call, "signed", QN_COMBINE_MULTIPLY, sign, q);
    } else {
        q = qn_onnx_apply_kind(call, "whole", q, QN_FUNCTION_FLOOR);
    }
    q = qn_onnx_combine(call, "times", QN_COMBINE_MULTIPLY, v[1], q);
    qn_onnx_give_as(call, qn_onnx_combine(call, NULL, QN_COMBINE_SUBTRACT, v[0], q), is_image,
                    type);
    return call->graph->status;
}

/* ---- random numbers, of dropout's stream ---- */

/* A number in every place of a shape. */
static qn_value filled(qn_onnx_call *call, const char *suffix, double x, qn_shape shape) {
    const qn_value one = qn_onnx_scalar(call, "number", x);
    const char *name = qn_onnx_side_name(call, suffix);
    return name ? qn_op_broadcast(call->graph, name, one, shape, 1) : QN_NO_VALUE;
}

/* Numbers from 0 to 1: 24 bits, each of which is 0 or 1 by a dropout of a half. In a graph that
 * does not train there is no chance, and all are a half. */
static qn_status build_uniform(qn_onnx_call *call) {
    enum { BITS = 24 };
    const double low = qn_onnx_float(call, "low", 0), high = qn_onnx_float(call, "high", 1);
    const qn_shape shape = qn_onnx_shape(call, 0);
    qn_graph *g = call->graph;
    const qn_value ones = filled(call, "ones", 0.5, shape);
    qn_value sum = filled(call, "middle", g->training ? ldexp(0.5, -BITS) : 0.5, shape);
    for (int bit = 1; bit <= BITS && g->training; bit++) {
        const qn_value one = qn_dropout(g, qn_onnx_side_name(call, "bit"), ones, 0.5);
        const qn_value part = qn_scale(g, qn_onnx_side_name(call, "part"), one, ldexp(1, -bit));
        sum = qn_add(g, qn_onnx_side_name(call, "sum"), sum, part);
    }
    qn_onnx_give(call, 0, qn_onnx_line(call, NULL, sum, high - low, low), false);
    return g->status;
}

/* 1 with the probability that the input says, which must be one for all. Where nothing trains, that
 * probability, which is what it is on average. */
static qn_status build_bernoulli(qn_onnx_call *call) {
    const qn_onnx_constant *c = qn_onnx_is_known(call, 0) ? qn_onnx_constant_of(call, 0) : NULL;
    const qn_shape shape = qn_onnx_shape(call, 0);
    bool is_even = c && c->reals && c->n > 0;
    for (int64_t i = 1; is_even && i < c->n; i++)
        is_even = c->reals[i] == c->reals[0];
    if (!is_even || !(c->reals[0] > 0 && c->reals[0] <= 1))
        return qn_fail(QN_ERROR_UNSUPPORTED, "its probability is not one number above 0 that is "
                                             "known at import");
    const double p = c->reals[0];
    const qn_value y = filled(call, "probability", p, shape);
    qn_onnx_give(call, 0, p < 1 ? qn_dropout(call->graph, call->name, y, 1 - p) : y, false);
    return call->graph->status;
}

const qn_onnx_translator qn_onnx_function_translators[] = {
    {"Tan", 1, 1, build_formula},
    {"Softsign", 1, 1, build_formula},
    {"Celu", 1, 1, build_formula},
    {"ThresholdedRelu", 1, 1, build_formula},
    {"Mish", 1, 1, build_formula},
    {"Shrink", 1, 1, build_formula},
    {"Sinh", 1, 1, build_formula},
    {"Cosh", 1, 1, build_formula},
    {"Asin", 1, 1, build_formula},
    {"Acos", 1, 1, build_formula},
    {"Asinh", 1, 1, build_formula},
    {"Acosh", 1, 1, build_formula},
    {"Atanh", 1, 1, build_formula},
    {"Swish", 1, 1, build_formula},
    {"IsNaN", 1, 1, build_formula},
    {"IsInf", 1, 1, build_formula},
    {"Mod", 2, 2, build_mod},
    {"RandomUniformLike", 1, 1, build_uniform},
    {"Bernoulli", 1, 1, build_bernoulli},
    {NULL, 0, 0, NULL},
};
