/* Element by element work: functions of one operand, arithmetic and comparisons with broadcasting,
 * choices and casts. What is known at import is folded. Operands of an image keep the image's order
 * of axes. */
#include "base/status.h"
#include "onnx/builder.h"
#include "onnx/fold.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* ---- functions of one operand ---- */

static const qn_function line = {QN_FUNCTION_LINE, 1, 0, -INFINITY, INFINITY};

static qn_function line_of(double a, double b) {
    qn_function f = line;
    f.a = a;
    f.b = b;
    return f;
}

/* An attribute that is a float for want of a better type, as the number that was meant. */
static double meant(double attribute, double exact) {
    return (float)attribute == (float)exact ? exact : attribute;
}

static qn_status give_function(qn_onnx_call *call, qn_function f) {
    if (qn_onnx_is_known(call, 0))
        return qn_onnx_give_constant(call,
                                     qn_onnx_fold_function(call, &f, qn_onnx_constant_of(call, 0)));
    const qn_value x = qn_onnx_as_reals(call, qn_onnx_value_of(call, 0));
    qn_onnx_give_as(call, qn_op_function(call->graph, call->name, x, f), qn_onnx_is_image(call, 0),
                    qn_onnx_type_at(call, 0));
    return call->graph->status;
}

static qn_status build_function(qn_onnx_call *call) {
    qn_function f = line;
    const char *type = call->node->type;
    const bool is_selu = strcmp(type, "Selu") == 0;
    for (qn_function_kind kind = 0; kind < QN_FUNCTION_COUNT; kind++) {
        const char *own = qn_function_onnx(kind);
        if (own && strcmp(is_selu ? "Elu" : type, own) == 0)
            f.kind = kind;
    }
    if (f.kind == QN_FUNCTION_ELU) {
        /* Of selu: Klambauer et al. 2017, equation 14. */
        const double alpha = is_selu ? 1.6732632423543772848 : 1, gamma = 1.0507009873554804934;
        f.a = meant(qn_onnx_float(call, "alpha", alpha), alpha);
        f.b = is_selu ? meant(qn_onnx_float(call, "gamma", gamma), gamma) : 1;
    }
    if (f.kind == QN_FUNCTION_HARD_SWISH) {
        f.a = 1.0 / 6;
        f.b = 0.5;
    }
    return give_function(call, f);
}

static qn_status build_neg(qn_onnx_call *call) {
    return give_function(call, line_of(-1, 0));
}

static qn_status build_not(qn_onnx_call *call) {
    return give_function(call, line_of(-1, 1));
}

static qn_status build_hard_sigmoid(qn_onnx_call *call) {
    const double slope = meant(qn_onnx_float(call, "alpha", 0.2), 1.0 / 6);
    qn_function f = line_of(slope, qn_onnx_float(call, "beta", 0.5));
    f.least = 0;
    f.most = 1;
    return give_function(call, f);
}

/* Activations that quern has as operators of their own, whose gradient needs y alone. */
static qn_status build_activation(qn_onnx_call *call) {
    const qn_value x = qn_onnx_as_reals(call, qn_onnx_value_of(call, 0));
    const char *type = call->node->type;
    const double slope = qn_onnx_float(call, "alpha", 0.01);
    qn_value y;
    if (strcmp(type, "Sigmoid") == 0)
        y = qn_sigmoid(call->graph, call->name, x);
    else if (strcmp(type, "Tanh") == 0)
        y = qn_tanh(call->graph, call->name, x);
    else if (strcmp(type, "Relu") == 0 || slope == 0)
        y = qn_relu(call->graph, call->name, x);
    else if (slope < 0) /* the graph's operator tells the side of x by the sign of y */
        y = qn_add(
            call->graph, call->name, qn_relu(call->graph, qn_onnx_side_name(call, "above"), x),
            qn_op_function(call->graph, qn_onnx_side_name(call, "below"),
                           qn_op_function(call->graph, qn_onnx_side_name(call, "least"), x,
                                          (qn_function){QN_FUNCTION_LINE, 1, 0, -INFINITY, 0}),
                           line_of(slope, 0)));
    else
        y = qn_leaky_relu(call->graph, call->name, x, slope);
    qn_onnx_give_as(call, y, qn_onnx_is_image(call, 0), qn_onnx_type_at(call, 0));
    return call->graph->status;
}

/* ---- two operands ---- */

typedef struct rule {
    const char *type;
    qn_combination kind;
    bool is_swapped, is_not,
        is_truth; /* operands the other way; 1 - the result; the result is a bool */
} rule;

static const rule rules[] = {
    {"Add", QN_COMBINE_ADD, false, false, false},
    {"Sum", QN_COMBINE_ADD, false, false, false},
    {"Mean", QN_COMBINE_ADD, false, false, false},
    {"Sub", QN_COMBINE_SUBTRACT, false, false, false},
    {"Mul", QN_COMBINE_MULTIPLY, false, false, false},
    {"Div", QN_COMBINE_DIVIDE, false, false, false},
    {"Pow", QN_COMBINE_POWER, false, false, false},
    {"Min", QN_COMBINE_LEAST, false, false, false},
    {"Max", QN_COMBINE_MOST, false, false, false},
    {"PRelu", QN_COMBINE_SLOPE, false, false, false},
    {"Equal", QN_COMBINE_EQUAL, false, false, true},
    {"Less", QN_COMBINE_LESS, false, false, true},
    {"Greater", QN_COMBINE_LESS, true, false, true},
    {"LessOrEqual", QN_COMBINE_LESS, true, true, true},
    {"GreaterOrEqual", QN_COMBINE_LESS, false, true, true},
    {"And", QN_COMBINE_MULTIPLY, false, false, true},
    {"Or", QN_COMBINE_MOST, false, false, true},
    {"Xor", QN_COMBINE_EQUAL, false, true, true},
};

static const rule *find_rule(const char *type) {
    const rule *found = rules;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        found = strcmp(rules[i].type, type) == 0 ? &rules[i] : found;
    return found;
}

/* Whether b is one row of a, whose last axis it goes along. */
static bool is_row_of(qn_shape a, qn_shape b) {
    const int64_t n = qn_shape_count(b);
    return a.rank > 1 && b.rank > 0 && b.rank <= a.rank && n == b.dims[b.rank - 1] && n > 1 &&
           n == a.dims[a.rank - 1];
}

/* A rule by the operator that does it best: rows and equal shapes have operators of their own. */
static qn_value combine(qn_onnx_call *call, const char *name, qn_combination kind, qn_value a,
                        qn_value b) {
    qn_graph *graph = call->graph;
    const qn_shape m = qn_graph_shape(graph, a), n = qn_graph_shape(graph, b);
    if (kind == QN_COMBINE_ADD && qn_shape_equal(m, n))
        return qn_add(graph, name, a, b);
    if (kind == QN_COMBINE_MULTIPLY && qn_shape_equal(m, n))
        return qn_multiply(graph, name, a, b);
    if (kind == QN_COMBINE_ADD && is_row_of(m, n))
        return qn_bias(graph, name, a, qn_reshape(graph, NULL, b, QN_SHAPE(qn_shape_count(n))));
    if (kind == QN_COMBINE_ADD && is_row_of(n, m))
        return qn_bias(graph, name, b, qn_reshape(graph, NULL, a, QN_SHAPE(qn_shape_count(m))));
    return qn_op_combine(graph, name, kind, a, b);
}

/* The number that an input is in all, where it is known, is one element, and has no more axes than
 * the other: the result is the other's shape. */
static bool is_number(qn_onnx_call *call, int input, double *number) {
    const qn_onnx_constant *c =
        qn_onnx_is_known(call, input) ? qn_onnx_constant_of(call, input) : NULL;
    if (!c || c->n != 1 || c->shape.rank > qn_onnx_shape(call, 1 - input).rank)
        return false;
    *number = c->reals ? c->reals[0] : (double)c->whole[0];
    return true;
}

/* x (input) and a number, by a function of x alone. False: there is none. */
static bool combine_number(qn_onnx_call *call, qn_combination kind, int input, double c,
                           qn_value *y) {
    qn_graph *graph = call->graph;
    const bool is_first = input == 0;
    qn_function f = line;
    if (kind == QN_COMBINE_ADD)
        f.b = c;
    else if (kind == QN_COMBINE_SUBTRACT)
        f = is_first ? line_of(1, -c) : line_of(-1, c);
    else if (kind == QN_COMBINE_MULTIPLY || (kind == QN_COMBINE_DIVIDE && is_first && c != 0))
        f.a = kind == QN_COMBINE_DIVIDE ? 1 / c : c;
    else if (kind == QN_COMBINE_LEAST)
        f.most = c;
    else if (kind == QN_COMBINE_MOST)
        f.least = c;
    else if (kind == QN_COMBINE_POWER && is_first)
        f = (qn_function){c == 0.5 ? QN_FUNCTION_SQRT : QN_FUNCTION_POWER, c, 0, 0, 0};
    else
        return false;
    if (!isfinite(c) || !isfinite(f.a))
        return false;
    const qn_value x = qn_onnx_as_reals(call, qn_onnx_value_of(call, input));
    if (f.kind == QN_FUNCTION_POWER && c == 2)
        *y = qn_multiply(graph, call->name, x, x);
    else if (kind == QN_COMBINE_MULTIPLY)
        *y = qn_scale(graph, call->name, x, c);
    else
        *y = qn_op_function(graph, call->name, x, f);
    return true;
}

/* The type of a rule's result. */
static qn_onnx_type type_of(const qn_onnx_call *call, const rule *r) {
    return r->is_truth ? QN_ONNX_BOOL : qn_onnx_type_at(call, 0);
}

static qn_status fold_rule(qn_onnx_call *call, const rule *r) {
    const qn_onnx_type type = type_of(call, r);
    const qn_onnx_constant *y = qn_onnx_constant_of(call, 0);
    const qn_function not = line_of(-1, 1);
    for (int i = 1; y && i < call->n_inputs; i++) {
        const qn_onnx_constant *x = qn_onnx_constant_of(call, i);
        y = qn_onnx_fold_rule(call, r->kind, type, r->is_swapped ? x : y, r->is_swapped ? y : x,
                              NULL);
    }
    if (y && r->is_not)
        y = qn_onnx_fold_function(call, &not, y);
    return qn_onnx_give_constant(call, y);
}

/* Before opset 7 the second operand is laid along the first from an axis on, where the node says
 * "broadcast"; a slope of PRelu along its channels. *axis -1: from the end, as ever since. */
static qn_status find_axis(const qn_onnx_call *call, int *axis) {
    const qn_shape a = qn_onnx_shape(call, 0), b = qn_onnx_shape(call, call->n_inputs > 1);
    const bool is_slope = strcmp(call->node->type, "PRelu") == 0;
    const int64_t along = qn_onnx_int(call, "axis", is_slope && b.rank == 1 ? 1 : -1);
    *axis = -1;
    if (call->opset >= QN_ONNX_FIRST_OPSET || qn_shape_equal(a, b) || qn_shape_count(b) == 1)
        return QN_OK;
    if ((!is_slope && !qn_onnx_int(call, "broadcast", 0)) || along + b.rank > a.rank || along < -1)
        return qn_fail(QN_ERROR_FORMAT,
                       "its operands have different shapes, and it does not say how they go "
                       "together: export with opset %d or higher",
                       QN_ONNX_FIRST_OPSET);
    *axis = (int)along;
    return QN_OK;
}

/* The second operand with extents of 1 after its own. */
static qn_status build_along(qn_onnx_call *call, const rule *r, int axis) {
    qn_graph *g = call->graph;
    qn_shape shape = qn_onnx_shape(call, 1);
    while (shape.rank < qn_onnx_shape(call, 0).rank - axis)
        shape.dims[shape.rank++] = 1;
    const qn_value x = qn_onnx_as_reals(call, qn_onnx_plain(call, 0));
    const qn_value y = qn_reshape(g, qn_onnx_side_name(call, "along"),
                                  qn_onnx_as_reals(call, qn_onnx_plain(call, 1)), shape);
    if (r->is_not)
        return qn_fail(QN_ERROR_UNSUPPORTED, "with an axis; export with opset %d or higher",
                       QN_ONNX_FIRST_OPSET);
    qn_onnx_give_as(
        call, combine(call, call->name, r->kind, r->is_swapped ? y : x, r->is_swapped ? x : y),
        false, type_of(call, r));
    return g->status;
}

static qn_status build_rule(qn_onnx_call *call) {
    const rule *r = find_rule(call->node->type);
    qn_graph *graph = call->graph;
    qn_value v[2], y;
    double number;
    bool is_image = false;
    int axis;
    QN_TRY(find_axis(call, &axis));
    if (axis >= 0)
        return build_along(call, r, axis);
    if (qn_onnx_folds(call))
        return fold_rule(call, r);
    for (int i = 0; i < 2; i++) {
        if (!r->is_truth && is_number(call, 1 - i, &number) &&
            combine_number(call, r->kind, i, number, &y)) {
            qn_onnx_give_as(call, y, qn_onnx_is_image(call, i), type_of(call, r));
            return graph->status;
        }
    }
    qn_onnx_operands(call, 2, v, &is_image);
    const char *name = r->is_not ? qn_onnx_side_name(call, "not") : call->name;
    if (!name)
        return QN_ERROR_MEMORY;
    y = combine(call, name, r->kind, v[r->is_swapped], v[!r->is_swapped]);
    if (r->is_not)
        y = qn_op_function(graph, call->name, y, line_of(-1, 1));
    qn_onnx_give_as(call, y, is_image, type_of(call, r));
    return graph->status;
}

/* Sum, Mean, Min, Max of any number: one after the other, and by their number. */
static qn_status build_several(qn_onnx_call *call) {
    const rule *r = find_rule(call->node->type);
    const bool is_mean = strcmp(call->node->type, "Mean") == 0;
    qn_onnx_call pair = *call;
    qn_value v[2], y = QN_NO_VALUE;
    bool is_image = false;
    if (qn_onnx_folds(call) && !is_mean)
        return fold_rule(call, r);
    if (call->n_inputs == 1) {
        qn_onnx_give_input(call, 0, 0);
        return QN_OK;
    }
    for (int i = 1; i < call->n_inputs; i++) {
        qn_onnx_item *const inputs[] = {call->inputs[0], call->inputs[i]};
        const bool is_last = i + 1 == call->n_inputs && !is_mean;
        bool is_now_image;
        pair.inputs = inputs;
        pair.n_inputs = 2;
        qn_onnx_operands(&pair, 2, v, &is_now_image);
        if (i > 1 && is_now_image != is_image)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "it has operands of several ranks: use Add, Max, Min");
        is_image = is_now_image;
        y = combine(call, is_last ? call->name : qn_onnx_side_name(call, "part"), r->kind,
                    i == 1 ? v[0] : y, v[1]);
    }
    if (is_mean)
        y = qn_scale(call->graph, call->name, y, 1.0 / call->n_inputs);
    qn_onnx_give_as(call, y, is_image, type_of(call, r));
    return call->graph->status;
}

/* ---- three operands ---- */

/* A bound that is no operand: an attribute, an input that is known, or none. */
static bool is_fixed_bound(qn_onnx_call *call, int input, const char *attribute, double *bound) {
    if (call->opset < 11) {
        *bound = qn_onnx_float(call, attribute, *bound);
        return true;
    }
    if (!qn_onnx_has(call, input))
        return true;
    const qn_onnx_constant *c =
        qn_onnx_is_known(call, input) ? qn_onnx_constant_of(call, input) : NULL;
    if (c && c->n == 1)
        *bound = c->reals ? c->reals[0] : (double)c->whole[0];
    return c && c->n == 1;
}

static qn_status build_clip(qn_onnx_call *call) {
    qn_function f = line;
    qn_graph *graph = call->graph;
    const bool is_least = is_fixed_bound(call, 1, "min", &f.least);
    const bool is_most = is_fixed_bound(call, 2, "max", &f.most);
    if (f.least == -INFINITY && f.most == INFINITY && is_least && is_most) {
        qn_onnx_give_input(call, 0, 0);
        return QN_OK;
    }
    if ((is_least && is_most && f.least != 0) || qn_onnx_is_known(call, 0))
        return is_least && is_most
                   ? give_function(call, f)
                   : qn_fail(QN_ERROR_UNSUPPORTED, "its bounds must be known, as what is cut is");
    qn_value x = qn_onnx_as_reals(call, qn_onnx_value_of(call, 0));
    if (is_least && is_most && f.most == INFINITY)
        x = qn_relu(graph, call->name, x);
    else if (is_least && is_most && f.most == 6)
        x = qn_relu6(graph, call->name, x);
    else if (is_least && is_most)
        x = qn_op_function(graph, call->name, x, f);
    if (!is_least)
        x = qn_op_combine(graph, qn_onnx_side_name(call, "least"), QN_COMBINE_MOST, x,
                          qn_onnx_as_reals(call, qn_onnx_value_of(call, 1)));
    if (!is_most)
        x = qn_op_combine(graph, qn_onnx_side_name(call, "most"), QN_COMBINE_LEAST, x,
                          qn_onnx_as_reals(call, qn_onnx_value_of(call, 2)));
    if (is_least != is_most) /* one is an operand, the other is fixed */
        x = qn_op_function(graph, call->name, x, f);
    qn_onnx_give_as(call, x, qn_onnx_is_image(call, 0), qn_onnx_type_at(call, 0));
    return graph->status;
}

static qn_status build_where(qn_onnx_call *call) {
    const qn_onnx_type type = qn_onnx_type_at(call, 1);
    qn_value v[3];
    bool is_image;
    if (qn_onnx_folds(call))
        return qn_onnx_give_constant(
            call, qn_onnx_fold_rule(call, QN_COMBINE_WHERE, type, qn_onnx_constant_of(call, 0),
                                    qn_onnx_constant_of(call, 1), qn_onnx_constant_of(call, 2)));
    qn_onnx_operands(call, 3, v, &is_image);
    qn_onnx_give_as(call, qn_op_where(call->graph, call->name, v[0], v[1], v[2]), is_image, type);
    return call->graph->status;
}

/* ---- types ---- */

static qn_status build_identity(qn_onnx_call *call) {
    qn_onnx_give_input(call, 0, 0);
    return QN_OK;
}

/* Where x is 0 it is not true. */
static qn_value truth_of(qn_onnx_call *call, qn_value x) {
    qn_graph *graph = call->graph;
    const char *zero = qn_onnx_side_name(call, "zero"), *equal = qn_onnx_side_name(call, "equal");
    if (!zero || !equal)
        return QN_NO_VALUE;
    x = qn_op_combine(graph, equal, QN_COMBINE_EQUAL, x, qn_op_scalar(graph, zero, 0));
    return qn_op_function(graph, call->name, x, line_of(-1, 1));
}

/* Reals are floats whatever they are said to be; 16-bit ones are rounded, as is their gradient. */
static qn_status give_real(qn_onnx_call *call, qn_onnx_type from, qn_onnx_type to) {
    qn_onnx_item *item = qn_onnx_find_item(call->builder, call->node->outputs[0]);
    qn_onnx_give_input(call, 0, 0);
    if (from == to || !item || !qn_dtype_is_half(qn_onnx_dtype_of(to)))
        return QN_OK;
    const qn_value x = qn_onnx_value_of(call, 0);
    *item = (qn_onnx_item){.name = item->name,
                           .type = to,
                           .value = x,
                           .is_image = qn_onnx_is_image(call, 0),
                           .other = QN_NO_VALUE,
                           .row = QN_NO_VALUE};
    return qn_onnx_round_cast(call, item, to);
}

static qn_status build_cast(qn_onnx_call *call) {
    const qn_onnx_type from = qn_onnx_type_at(call, 0);
    const qn_onnx_type to = call->n_inputs > 1
                                ? qn_onnx_type_at(call, 1)
                                : (qn_onnx_type)qn_onnx_int(call, "to", QN_ONNX_FLOAT);
    const bool is_real = qn_onnx_type_is_real(to), was_real = qn_onnx_type_is_real(from);
    qn_graph *graph = call->graph;
    if (qn_onnx_type_bytes(to) == 0 || to == QN_ONNX_FLOAT8E4M3FN || to == QN_ONNX_FLOAT8E5M2)
        return qn_fail(QN_ERROR_UNSUPPORTED, "numbers are not cast to %s", qn_onnx_type_name(to));
    if (qn_onnx_is_known(call, 0)) {
        const qn_onnx_constant *x = qn_onnx_constant_of(call, 0);
        const double *numbers = x ? qn_onnx_numbers(call, x) : NULL;
        QN_TRY(qn_onnx_give_constant(
            call, numbers ? qn_onnx_make_constant(call, to, x->shape, numbers) : NULL));
        qn_onnx_item *item = qn_onnx_find_item(call->builder, call->node->outputs[0]);
        return item ? qn_onnx_round_cast(call, item, to) : QN_OK;
    }
    if (is_real && was_real)
        return give_real(call, from, to);
    qn_value x = qn_onnx_value_of(call, 0);
    const bool is_whole = qn_graph_tensor(graph, x).dtype == QN_I32;
    if (is_real && is_whole)
        x = qn_op_cast(graph, call->name, x, graph->real);
    else if (to == QN_ONNX_BOOL && from != QN_ONNX_BOOL)
        x = truth_of(call, qn_onnx_as_reals(call, x));
    else if (!is_real && to != QN_ONNX_BOOL && !is_whole)
        x = qn_op_cast(graph, call->name, x, QN_I32);
    qn_onnx_give_typed(call, 0, x, qn_onnx_is_image(call, 0), to);
    return graph->status;
}

const qn_onnx_translator qn_onnx_elementwise_translators[] = {
    {"Abs", 1, 1, build_function},
    {"Sqrt", 1, 1, build_function},
    {"Exp", 1, 1, build_function},
    {"Log", 1, 1, build_function},
    {"Erf", 1, 1, build_function},
    {"Reciprocal", 1, 1, build_function},
    {"Elu", 1, 1, build_function},
    {"Selu", 1, 1, build_function},
    {"Softplus", 1, 1, build_function},
    {"HardSwish", 1, 1, build_function},
    {"Neg", 1, 1, build_neg},
    {"Not", 1, 1, build_not},
    {"HardSigmoid", 1, 1, build_hard_sigmoid},
    {"Relu", 1, 1, build_activation},
    {"LeakyRelu", 1, 1, build_activation},
    {"Sigmoid", 1, 1, build_activation},
    {"Tanh", 1, 1, build_activation},
    {"Sin", 1, 1, build_function},
    {"Cos", 1, 1, build_function},
    {"Atan", 1, 1, build_function},
    {"Sign", 1, 1, build_function},
    {"Floor", 1, 1, build_function},
    {"Ceil", 1, 1, build_function},
    {"Round", 1, 1, build_function},
    {"Add", 2, 2, build_rule},
    {"Sub", 2, 2, build_rule},
    {"Mul", 2, 2, build_rule},
    {"Div", 2, 2, build_rule},
    {"Pow", 2, 2, build_rule},
    {"PRelu", 2, 2, build_rule},
    {"Equal", 2, 2, build_rule},
    {"Less", 2, 2, build_rule},
    {"Greater", 2, 2, build_rule},
    {"LessOrEqual", 2, 2, build_rule},
    {"GreaterOrEqual", 2, 2, build_rule},
    {"And", 2, 2, build_rule},
    {"Or", 2, 2, build_rule},
    {"Xor", 2, 2, build_rule},
    {"Sum", 1, -1, build_several},
    {"Mean", 1, -1, build_several},
    {"Min", 1, -1, build_several},
    {"Max", 1, -1, build_several},
    {"Clip", 1, 3, build_clip},
    {"Where", 3, 3, build_where},
    {"Identity", 1, 1, build_identity},
    {"Cast", 1, 1, build_cast},
    {"CastLike", 2, 2, build_cast},
    {NULL, 0, 0, NULL},
};
