/* Whole numbers (QN_I32) as reals, and reals as whole numbers, cut towards 0. No gradient flows. */
#include "ops/shared.h"

#include "graph/graph.h"

typedef struct cast_attributes {
    qn_dtype dtype; /* of what is made: QN_I32, or the graph's real type */
} cast_attributes;

static const qn_attribute cast_fields[] = {
    QN_FIELD(cast_attributes, QN_ATTRIBUTE_INT, dtype),
    {0},
};

static qn_status cast_infer(qn_infer *infer) {
    const cast_attributes *a = infer->attributes;
    if (qn_dtype_is_real(a->dtype))
        QN_TRY(qn_infer_dtype(infer, 0, QN_I32));
    else if (!qn_dtype_is_real(infer->inputs[0].dtype))
        return qn_fail(QN_ERROR_ARGUMENT, "input 0 is %s, but reals are needed",
                       qn_dtype_name(infer->inputs[0].dtype));
    infer->outputs[0] = (qn_tensor){a->dtype, infer->inputs[0].shape};
    return QN_OK;
}

static void cast_run(const qn_call *call) {
    call->kernels->cast(call->team, qn_call_count(call), call->outputs[0].dtype == QN_I32,
                        call->in[0], call->out[0]);
}

/* Both ways, and comparisons, which have no gradient either. */
static qn_value cast_sample(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(5, 7), 4);
    if (variant == 0)
        return qn_op_cast(graph, "y", x, QN_I32);
    qn_value a =
        qn_op_cast(graph, "a", qn_label(graph, "whole", QN_I32, QN_SHAPE(5, 7)), graph->real);
    if (variant == 1)
        return a;
    qn_value b = qn_op_cast(graph, "b", qn_label(graph, "row", QN_I32, QN_SHAPE(7)), graph->real);
    return variant == 2 ? qn_op_combine(graph, "y", QN_COMBINE_EQUAL, a, b)
                        : qn_op_combine(graph, "y", QN_COMBINE_LESS, x, a);
}

const qn_op qn_op_cast_forward = {
    .name = "cast",
    .attributes_bytes = sizeof(cast_attributes),
    .attributes = cast_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .integer_inputs = 1 << 0,
    .stops_gradient = true,
    .infer = cast_infer,
    .run = cast_run,
    .n_samples = 4,
    .sample = cast_sample,
};

qn_value qn_op_cast(qn_graph *graph, const char *name, qn_value x, qn_dtype dtype) {
    const cast_attributes attributes = {dtype};
    return qn_graph_add1(graph, &qn_op_cast_forward, name, &x, 1, &attributes);
}
