/* Conversion between element types; tensor/number.h defines the rounding. Between types with
 * fractions the gradient is cast back; integers have no gradient. */
#include "ops/shared.h"

#include "graph/graph.h"

typedef struct cast_attributes {
    qn_dtype dtype; /* of what is made */
} cast_attributes;

static const qn_attribute cast_fields[] = {
    QN_FIELD(cast_attributes, QN_ATTRIBUTE_INT, dtype),
    {0},
};

static qn_status cast_infer(qn_infer *infer) {
    const cast_attributes *a = infer->attributes;
    if (a->dtype == QN_I64 || infer->inputs[0].dtype == QN_I64)
        return qn_fail(QN_ERROR_ARGUMENT, "i64 is cast by qn_op_integer");
    if (qn_dtype_bytes(a->dtype) == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no element type %d to cast to", (int)a->dtype);
    infer->outputs[0] = (qn_tensor){a->dtype, infer->inputs[0].shape};
    return QN_OK;
}

static void cast_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_dtype from = qn_graph_tensor(graph, gradient->node->inputs[0]).dtype;
    const cast_attributes back = {from};
    if (qn_dtype_is_float(from))
        gradient->inputs[0] = qn_gradient_add(graph, gradient->node, "backward",
                                              &qn_op_cast_forward, gradient->outputs, 1, &back);
}

/* Both ways, comparisons, and the same type, whose gradient is exact (others: test_types). */
static qn_value cast_sample(qn_graph *graph, int variant) {
    const bool is_same = variant == 4;
    if (variant == 0 || is_same)
        return qn_op_cast(graph, "y", qn_sample_parameter(graph, "x", QN_SHAPE(5, 7), 4),
                          is_same ? graph->real : QN_I32);
    qn_value a =
        qn_op_cast(graph, "a", qn_label(graph, "whole", QN_I32, QN_SHAPE(5, 7)), graph->real);
    if (variant == 1)
        return a;
    if (variant == 3)
        return qn_op_combine(graph, "y", QN_COMBINE_LESS, qn_input(graph, "x", QN_SHAPE(5, 7)), a);
    qn_value b = qn_op_cast(graph, "b", qn_label(graph, "row", QN_I32, QN_SHAPE(7)), graph->real);
    return qn_op_combine(graph, "y", QN_COMBINE_EQUAL, a, b);
}

const qn_op qn_op_cast_forward = {
    .name = "cast",
    .attributes_bytes = sizeof(cast_attributes),
    .attributes = cast_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = 1 << 0,
    .infer = cast_infer,
    .gradient = cast_gradient,
    .n_samples = 5,
    .sample = cast_sample,
};

qn_value qn_op_cast(qn_graph *graph, const char *name, qn_value x, qn_dtype dtype) {
    const cast_attributes attributes = {dtype};
    return qn_graph_add1(graph, &qn_op_cast_forward, name, &x, 1, &attributes);
}
