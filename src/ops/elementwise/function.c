/* y = f(x) elementwise, for functions whose derivative needs x, which is therefore kept. An
 * attribute selects the function and its coefficients (kernels.h: qn_function). */
#include "ops/shared.h"

#include <math.h>

static const qn_attribute function_fields[] = {
    QN_FIELD(qn_function, QN_ATTRIBUTE_INT, kind),
    QN_FIELD(qn_function, QN_ATTRIBUTE_DOUBLE, a),
    QN_FIELD(qn_function, QN_ATTRIBUTE_DOUBLE, b),
    QN_FIELD(qn_function, QN_ATTRIBUTE_DOUBLE, least),
    QN_FIELD(qn_function, QN_ATTRIBUTE_DOUBLE, most),
    {0},
};

static qn_status function_infer(qn_infer *infer) {
    const qn_function *f = infer->attributes;
    if (f->kind >= QN_FUNCTION_COUNT)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no function %d", (int)f->kind);
    return qn_infer_elementwise(infer);
}

static qn_cost function_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    const qn_function *f = attributes;
    (void)inputs;
    return qn_cost_elements(f->kind <= QN_FUNCTION_RECIPROCAL ? 2 : 8, outputs);
}

/* A line without ends has the same slope everywhere: x need not be kept. */
static void function_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_function *f = node->attributes;
    if (f->kind == QN_FUNCTION_LINE && f->least == -INFINITY && f->most == INFINITY) {
        gradient->inputs[0] =
            f->a == 1 ? gradient->outputs[0] : qn_scale(graph, NULL, gradient->outputs[0], f->a);
        return;
    }
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_function_backward,
                        (qn_value[]){node->inputs[0], gradient->outputs[0]}, 2, node->attributes);
}

/* Of x, but for those that must be above 0, which get 1 + 0.4 x. */
static qn_value function_sample(qn_graph *graph, int variant) {
    static const qn_function all[] = {{QN_FUNCTION_LINE, 1.7, 0.3, -0.5, 1.1},
                                      {QN_FUNCTION_ABS, 0, 0, 0, 0},
                                      {QN_FUNCTION_SQRT, 0, 0, 0, 0},
                                      {QN_FUNCTION_RECIPROCAL, 0, 0, 0, 0},
                                      {QN_FUNCTION_EXP, 0, 0, 0, 0},
                                      {QN_FUNCTION_LOG, 0, 0, 0, 0},
                                      {QN_FUNCTION_ERF, 0, 0, 0, 0},
                                      {QN_FUNCTION_ELU, 0.7, 1.3, 0, 0},
                                      {QN_FUNCTION_SOFTPLUS, 0, 0, 0, 0},
                                      {QN_FUNCTION_HARD_SWISH, 0.8, 0.5, 0, 0},
                                      {QN_FUNCTION_POWER, 2.3, 0, 0, 0},
                                      {QN_FUNCTION_SIN, 0, 0, 0, 0},
                                      {QN_FUNCTION_COS, 0, 0, 0, 0},
                                      {QN_FUNCTION_ATAN, 0, 0, 0, 0},
                                      {QN_FUNCTION_SIGN, 0, 0, 0, 0},
                                      {QN_FUNCTION_FLOOR, 0, 0, 0, 0},
                                      {QN_FUNCTION_CEIL, 0, 0, 0, 0},
                                      {QN_FUNCTION_ROUND, 0, 0, 0, 0},
                                      {QN_FUNCTION_LINE, 1.7, 0.3, -INFINITY, INFINITY}};
    const qn_shape shape = variant % 2 ? QN_SHAPE(3, 5, 7) : QN_SHAPE(37);
    qn_value x = qn_sample_parameter(graph, "x", shape, 2);
    const qn_function_kind kind = all[variant].kind;
    if (kind == QN_FUNCTION_SQRT || kind == QN_FUNCTION_RECIPROCAL || kind == QN_FUNCTION_LOG ||
        kind == QN_FUNCTION_POWER)
        x = qn_op_function(graph, "positive", x,
                           (qn_function){QN_FUNCTION_LINE, 0.4, 1, -100, 100});
    if (kind >= QN_FUNCTION_SIGN && kind < QN_FUNCTION_COUNT) /* away from where they jump */
        x = qn_op_function(graph, "between", x,
                           (qn_function){QN_FUNCTION_LINE, 0.1, 0.3, 0.05, 0.45});
    return qn_op_function(graph, "y", x, all[variant]);
}

const qn_op qn_op_function_forward = {
    .name = "function",
    .attributes_bytes = sizeof(qn_function),
    .attributes = function_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .infer = function_infer,
    .gradient = function_gradient,
    .cost = function_cost,
    .in_place = 1 << 0,
    .n_samples = QN_FUNCTION_COUNT + 1,
    .sample = function_sample,
};

qn_value qn_op_function(qn_graph *graph, const char *name, qn_value x, qn_function function) {
    return qn_graph_add1(graph, &qn_op_function_forward, name, &x, 1, &function);
}

/* ---- gradient: dx from x and dy ---- */

const qn_op qn_op_function_backward = {
    .name = "function_backward",
    .attributes_bytes = sizeof(qn_function),
    .attributes = function_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = function_infer,
    .cost = function_cost,
    .in_place = 1 << 0 | 1 << 1,
};
