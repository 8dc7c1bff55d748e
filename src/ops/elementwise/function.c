/* y = f(x) elementwise, for functions whose derivative needs x, which is therefore kept. An
 * attribute selects the function and its coefficients; functions.def has a row for each. */
#include "ops/shared.h"

#include <math.h>

/* Where the gradient check samples x. */
typedef enum domain { ANY, POSITIVE, BETWEEN } domain;

typedef struct row {
    const char *onnx;
    int flops;
    domain domain;
    double a, b, least, most; /* of the gradient check */
} row;

#define UNPACK(a, b, least, most) a, b, least, most
#define QN_FUNCTION(NAME, onnx, flops, domain, numbers, value, slope)                              \
    [QN_FUNCTION_##NAME] = {onnx, flops, domain, UNPACK numbers},
#define QN_FUNCTION_BUILDER(name, NAME)
static const row rows[] = {
#include "tensor/functions.def"
};
#undef QN_FUNCTION
#undef QN_FUNCTION_BUILDER

const char *qn_function_onnx(qn_function_kind kind) {
    return rows[kind].onnx;
}

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
    return qn_cost_elements(rows[f->kind].flops, outputs);
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

/* Of x, but for those that must be above 0, which get 1 + 0.4 x; the last: a line without ends. */
static qn_value function_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant % 2 ? QN_SHAPE(3, 5, 7) : QN_SHAPE(37);
    qn_value x = qn_sample_parameter(graph, "x", shape, 2);
    const bool is_endless = variant == QN_FUNCTION_COUNT;
    const row *r = &rows[is_endless ? QN_FUNCTION_LINE : variant];
    const qn_function f = {is_endless ? QN_FUNCTION_LINE : (qn_function_kind)variant, r->a, r->b,
                           is_endless ? -INFINITY : r->least, is_endless ? INFINITY : r->most};
    if (r->domain == POSITIVE)
        x = qn_op_function(graph, "positive", x,
                           (qn_function){QN_FUNCTION_LINE, 0.4, 1, -100, 100});
    if (r->domain == BETWEEN) /* away from where they jump */
        x = qn_op_function(graph, "between", x,
                           (qn_function){QN_FUNCTION_LINE, 0.1, 0.3, 0.05, 0.45});
    return qn_op_function(graph, "y", x, f);
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

#define QN_FUNCTION(NAME, onnx, flops, domain, numbers, value, slope)
#define QN_FUNCTION_BUILDER(id, NAME)                                                              \
    qn_value qn_##id(qn_graph *graph, const char *name, qn_value x) {                              \
        return qn_op_function(graph, name, x, (qn_function){.kind = QN_FUNCTION_##NAME});          \
    }
#include "tensor/functions.def"
#undef QN_FUNCTION
#undef QN_FUNCTION_BUILDER

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
