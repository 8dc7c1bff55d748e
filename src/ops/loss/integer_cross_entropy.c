/* The gradient of softmax and cross entropy in whole numbers (Wang, Rasoulinezhad, Leong and So,
 * "NITI", 2020, section 4.4, and its authors' code, here with divisions that cut): logits (..., C),
 * QN_I8, their exponent, and labels (...), QN_I32 -> errors (..., C), QN_I8, which have no
 * exponent. A label that is no class makes no error. Batches are summed, not averaged. */
#include "ops/quantise.h"
#include "ops/shared.h"

static const qn_attribute entropy_fields[] = {
    QN_FIELD(qn_integer_entropy_attributes, QN_ATTRIBUTE_INT64, key),
    QN_FIELD(qn_integer_entropy_attributes, QN_ATTRIBUTE_INT64, first),
    {0},
};

static qn_status entropy_infer(qn_infer *infer) {
    qn_shape rows = infer->inputs[0].shape;
    if (rows.rank < 2)
        QN_TRY(qn_infer_rank(infer, 0, 2, "logits (N, C) or with more axes before C"));
    rows.dims[--rows.rank] = 0;
    QN_TRY(qn_infer_dtype(infer, 0, QN_I8));
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    QN_TRY(qn_infer_dtype(infer, 2, QN_I32));
    QN_TRY(qn_infer_expect(infer, 1, "exponent", (qn_shape){0}));
    QN_TRY(qn_infer_expect(infer, 2, "labels", rows));
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

static qn_cost entropy_cost(const void *attributes, const qn_tensor *inputs,
                            const qn_tensor *outputs) {
    (void)attributes;
    (void)inputs;
    return qn_cost_elements(8, outputs);
}

static void entropy_split(const qn_graph *graph, const qn_node *node, int64_t piece, int64_t pieces,
                          void *attributes) {
    qn_integer_entropy_attributes *a = attributes;
    a->key = a->key ? a->key : (int64_t)node->key;
    a->first = piece * (qn_shape_count(qn_graph_shape(graph, node->outputs[0])) / pieces);
}

static qn_value entropy_sample(qn_graph *graph, int variant) {
    const qn_shape shape = variant ? QN_SHAPE(3, 2, 4) : QN_SHAPE(7, 5);
    const qn_shape rows = variant ? QN_SHAPE(3, 2) : QN_SHAPE(7);
    const qn_value inputs[] = {
        qn_op_cast(graph, "logits", qn_label(graph, "wide", QN_I32, shape), QN_I8),
        qn_label(graph, "exponent", QN_I32, (qn_shape){0}),
        qn_label(graph, "labels", QN_I32, rows)};
    return qn_graph_add1(graph, &qn_op_integer_cross_entropy, "y", inputs, 3,
                         &(qn_integer_entropy_attributes){0});
}

const qn_op qn_op_integer_cross_entropy = {
    .name = "integer_cross_entropy",
    .attributes_bytes = sizeof(qn_integer_entropy_attributes),
    .attributes = entropy_fields,
    .min_inputs = 3,
    .max_inputs = 3,
    .any_type_inputs = 7,
    .stops_gradient = true,
    .infer = entropy_infer,
    .cost = entropy_cost,
    .split = entropy_split,
    .n_samples = 2,
    .sample = entropy_sample,
};
