/* Indices of n elements in which negative ones count from the end, as in ONNX. An index outside
 * [-n, n) becomes QN_NO_INDEX, whose row is NaN, so that a wrong index shows in every result that
 * depends on it. No gradient flows. */
#include "ops/shared.h"

#include "ops/layout.h"

static const qn_attribute wrap_fields[] = {
    QN_FIELD(qn_wrap_attributes, QN_ATTRIBUTE_INT64, n),
    {0},
};

static qn_status wrap_infer(qn_infer *infer) {
    if (infer->inputs[0].dtype != QN_I64)
        QN_TRY(qn_infer_dtype(infer, 0, QN_I32));
    infer->outputs[0] = (qn_tensor){QN_I32, infer->inputs[0].shape};
    return QN_OK;
}

static qn_value wrap_sample(qn_graph *graph, int variant) {
    return qn_op_wrap_index(graph, "y",
                            qn_label(graph, "indices", variant ? QN_I64 : QN_I32, QN_SHAPE(5, 7)),
                            variant ? 2 : 9);
}

const qn_op qn_op_wrap = {
    .name = "wrap_index",
    .attributes_bytes = sizeof(qn_wrap_attributes),
    .attributes = wrap_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = 1 << 0,
    .stops_gradient = true,
    .infer = wrap_infer,
    .n_samples = 2,
    .sample = wrap_sample,
};

qn_value qn_op_wrap_index(qn_graph *graph, const char *name, qn_value indices, int64_t n) {
    const qn_wrap_attributes attributes = {n};
    return qn_graph_add1(graph, &qn_op_wrap, name, &indices, 1, &attributes);
}
