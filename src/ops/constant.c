/* A scalar constant: the 1 from which gradients start. */
#include "ops/elementwise.h"
#include "ops/shared.h"

static const qn_attribute constant_fields[] = {
    QN_FIELD(qn_constant_attributes, QN_ATTRIBUTE_DOUBLE, value),
    {0},
};

static qn_status constant_infer(qn_infer *infer) {
    const qn_constant_attributes *a = infer->attributes;
    infer->outputs[0] = (qn_tensor){a->dtype, (qn_shape){0}};
    return QN_OK;
}

static qn_value constant_sample(qn_graph *graph, int variant) {
    (void)variant;
    return qn_op_scalar(graph, "y", 0.3);
}

const qn_op qn_op_constant = {
    .name = "constant",
    .attributes_bytes = sizeof(qn_constant_attributes),
    .attributes = constant_fields,
    .infer = constant_infer,
    .n_samples = 1,
    .sample = constant_sample,
};

qn_value qn_op_scalar_of(qn_graph *graph, const char *name, double value, qn_dtype real) {
    const qn_constant_attributes attributes = {value, real};
    return qn_graph_add1(graph, &qn_op_constant, name, NULL, 0, &attributes);
}

qn_value qn_op_scalar(qn_graph *graph, const char *name, double value) {
    return qn_op_scalar_of(graph, name, value, graph->real);
}
