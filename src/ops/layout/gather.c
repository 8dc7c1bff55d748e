/* From each row of x (N, C) the element at an index (N) -> (N): the value of the chosen action. */
#include "ops/shared.h"

typedef struct gather_attributes {
    int64_t columns; /* of x, which its gradient cannot tell */
} gather_attributes;

static const qn_attribute gather_fields[] = {
    QN_FIELD(gather_attributes, QN_ATTRIBUTE_INT64, columns),
    {0},
};

static qn_status gather_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape;
    QN_TRY(qn_infer_rank(infer, 0, 2, "(N, C)"));
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    QN_TRY(qn_infer_expect(infer, 1, "indices", QN_SHAPE(x.dims[0])));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(x.dims[0])};
    return QN_OK;
}

static void gather_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const gather_attributes attributes = {qn_graph_shape(graph, node->inputs[0]).dims[1]};
    const qn_value inputs[] = {gradient->outputs[0], node->inputs[1]};
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_gather_backward, inputs, 2, &attributes);
}

static qn_value gather_sample(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(graph, "x", variant ? QN_SHAPE(7, 2) : QN_SHAPE(5, 9), 1);
    qn_value indices = qn_label(graph, "indices", QN_I32, QN_SHAPE(variant ? 7 : 5));
    return qn_gather(graph, "y", x, indices);
}

const qn_op qn_op_gather = {
    .name = "gather",
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << 1,
    .infer = gather_infer,
    .gradient = gather_gradient,
    .n_samples = 2,
    .sample = gather_sample,
};

qn_value qn_gather(qn_graph *graph, const char *name, qn_value x, qn_value indices) {
    return qn_graph_add1(graph, &qn_op_gather, name, (qn_value[]){x, indices}, 2, NULL);
}

/* ---- gradient: dx (N, C) from dy and indices (N) ---- */

static qn_status backward_infer(qn_infer *infer) {
    const gather_attributes *a = infer->attributes;
    const qn_shape dy = infer->inputs[0].shape;
    QN_TRY(qn_infer_rank(infer, 0, 1, "(N)"));
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    QN_TRY(qn_infer_expect(infer, 1, "indices", dy));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(dy.dims[0], a->columns)};
    return QN_OK;
}

const qn_op qn_op_gather_backward = {
    .name = "gather_backward",
    .attributes_bytes = sizeof(gather_attributes),
    .attributes = gather_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << 1,
    .infer = backward_infer,
};
