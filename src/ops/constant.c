/* A scalar that never changes: the 1 that gradients start from. */
#include "ops/shared.h"

typedef struct constant_attributes {
    double value;
    qn_dtype dtype;
} constant_attributes;

static const qn_attribute constant_fields[] = {
    QN_FIELD(constant_attributes, QN_ATTRIBUTE_DOUBLE, value),
    {0},
};

static qn_status constant_infer(qn_infer *infer) {
    const constant_attributes *a = infer->attributes;
    infer->outputs[0] = (qn_tensor){a->dtype, (qn_shape){0}};
    return QN_OK;
}

static void constant_run(const qn_call *call) {
    const constant_attributes *a = call->attributes;
    if (a->dtype == QN_F64)
        *(double *)call->out[0] = a->value;
    else
        *(float *)call->out[0] = (float)a->value;
}

static qn_value constant_sample(qn_graph *graph, int variant) {
    (void)variant;
    return qn_op_scalar(graph, "y", 0.3);
}

const qn_op qn_op_constant = {
    .name = "constant",
    .attributes_bytes = sizeof(constant_attributes),
    .attributes = constant_fields,
    .infer = constant_infer,
    .run = constant_run,
    .n_samples = 1,
    .sample = constant_sample,
};

qn_value qn_op_scalar(qn_graph *graph, const char *name, double value) {
    const constant_attributes attributes = {value, graph->real};
    return qn_graph_add1(graph, &qn_op_constant, name, NULL, 0, &attributes);
}
