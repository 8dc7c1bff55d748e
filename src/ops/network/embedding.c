/* Rows of a table (V, C) by indices (...) -> (..., C). The gradient is a whole table in which only
 * the used rows receive sums; indices that occur several times add up in their order. */
#include "ops/shared.h"

static qn_status embedding_infer(qn_infer *infer) {
    char text[QN_SHAPE_TEXT];
    const qn_shape table = infer->inputs[0].shape;
    qn_shape shape = infer->inputs[1].shape;
    QN_TRY(qn_infer_rank(infer, 0, 2, "a table (V, C)"));
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    if (shape.rank == QN_MAX_RANK)
        return qn_fail(QN_ERROR_ARGUMENT, "indices %s leave no axis for the table's columns",
                       qn_shape_print(shape, text));
    shape.dims[shape.rank++] = table.dims[1];
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, shape};
    return QN_OK;
}

typedef struct backward_attributes {
    int64_t rows; /* of the table */
} backward_attributes;

static void embedding_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const backward_attributes attributes = {qn_graph_shape(graph, node->inputs[0]).dims[0]};
    const qn_value inputs[] = {gradient->outputs[0], node->inputs[1]};
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_embedding_backward, inputs, 2, &attributes);
}

/* Indices of the samples repeat, and some lie outside of the table. */
static qn_value embedding_sample(qn_graph *graph, int variant) {
    const qn_shape tables[] = {QN_SHAPE(2, 7), QN_SHAPE(9, 70), QN_SHAPE(5, 1)};
    const qn_shape indices[] = {QN_SHAPE(3, 5), QN_SHAPE(11), (qn_shape){.rank = 0}};
    qn_value table = qn_sample_parameter(graph, "table", tables[variant], 1);
    return qn_embedding(graph, "y", table, qn_label(graph, "indices", QN_I32, indices[variant]));
}

const qn_op qn_op_embedding = {
    .name = "embedding",
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << 1,
    .infer = embedding_infer,
    .gradient = embedding_gradient,
    .n_samples = 3,
    .sample = embedding_sample,
};

qn_value qn_embedding(qn_graph *graph, const char *name, qn_value table, qn_value indices) {
    return qn_graph_add1(graph, &qn_op_embedding, name, (qn_value[]){table, indices}, 2, NULL);
}

/* ---- gradient: dtable (V, C) from dy (..., C) and indices (...) ---- */

static const qn_attribute backward_fields[] = {
    QN_FIELD(backward_attributes, QN_ATTRIBUTE_INT64, rows),
    {0},
};

static qn_status backward_infer(qn_infer *infer) {
    const backward_attributes *a = infer->attributes;
    const qn_shape dy = infer->inputs[0].shape;
    qn_shape indices = dy;
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    if (indices.rank > 0)
        indices.dims[--indices.rank] = 0;
    QN_TRY(qn_infer_expect(infer, 1, "indices", indices));
    if (infer->n_inputs > 2)
        QN_TRY(qn_infer_expect(infer, 2, "sum", QN_SHAPE(a->rows, qn_shape_columns(dy))));
    infer->outputs[0] =
        (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(a->rows, qn_shape_columns(dy))};
    return QN_OK;
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return qn_cost_elements(1, inputs);
}

const qn_op qn_op_embedding_backward = {
    .name = "embedding_backward",
    .sums_batch = true,
    .attributes_bytes = sizeof(backward_attributes),
    .attributes = backward_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .any_type_inputs = 1 << 1,
    .infer = backward_infer,
    .cost = backward_cost,
    .in_place = 1 << 2,
};
