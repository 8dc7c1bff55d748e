/* Rows put where indices say, which may change from step to step.
 *   scatter_add: updates (n, C), indices (n) -> (rows, C): the sum of the updates of each row, in
 *     their order. Its gradient picks rows.
 *   scatter_source: indices (n) -> (rows), QN_I32: where row r of a result comes from: r itself, or
 *     rows + i where update i is put there, of several the nth (from 0), or the last (nth -1).
 *     Rows picked by it from data and updates beside one another are data with the updates put; so
 *     it needs no gradient.
 * Indices, QN_I32, are clamped to 0 to rows - 1. One that is QN_NO_INDEX makes row 0 no number. */
#include "ops/shared.h"

#include "ops/layout.h"

static const qn_attribute scatter_fields[] = {
    QN_FIELD(qn_scatter_attributes, QN_ATTRIBUTE_INT64, rows),
    QN_FIELD(qn_scatter_attributes, QN_ATTRIBUTE_INT64, nth),
    {0},
};

static qn_status check_rows(int64_t rows) {
    return rows > 0 && rows <= INT32_MAX
               ? QN_OK
               : qn_fail(QN_ERROR_ARGUMENT, "it has %lld rows", (long long)rows);
}

/* ---- sums ---- */

static qn_status add_infer(qn_infer *infer) {
    const qn_scatter_attributes *a = infer->attributes;
    const qn_shape updates = infer->inputs[0].shape;
    QN_TRY(qn_infer_rank(infer, 0, 2, "updates (n, C)"));
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    QN_TRY(qn_infer_expect(infer, 1, "indices", QN_SHAPE(updates.dims[0])));
    QN_TRY(check_rows(a->rows));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(a->rows, updates.dims[1])};
    return QN_OK;
}

static void add_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_value inputs[] = {gradient->outputs[0], node->inputs[1]};
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_embedding, inputs, 2, NULL);
}

static qn_cost add_cost(const void *attributes, const qn_tensor *inputs, const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return qn_cost_elements(1, inputs);
}

static qn_value add_sample(qn_graph *graph, int variant) {
    qn_value updates =
        qn_sample_parameter(graph, "updates", variant ? QN_SHAPE(11, 40) : QN_SHAPE(5, 1), 1);
    qn_value indices = qn_label(graph, "indices", QN_I32, QN_SHAPE(variant ? 11 : 5));
    return qn_op_scatter_add(graph, "y", updates, indices, variant ? 4 : 9);
}

const qn_op qn_op_scatter_sum = {
    .name = "scatter_add",
    .attributes_bytes = sizeof(qn_scatter_attributes),
    .attributes = scatter_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << 1,
    .infer = add_infer,
    .gradient = add_gradient,
    .cost = add_cost,
    .n_samples = 2,
    .sample = add_sample,
};

qn_value qn_op_scatter_add(qn_graph *graph, const char *name, qn_value updates, qn_value indices,
                           int64_t rows) {
    const qn_scatter_attributes attributes = {rows, -1};
    return qn_graph_add1(graph, &qn_op_scatter_sum, name, (qn_value[]){updates, indices}, 2,
                         &attributes);
}

/* ---- sources ---- */

static qn_status source_infer(qn_infer *infer) {
    const qn_scatter_attributes *a = infer->attributes;
    QN_TRY(qn_infer_rank(infer, 0, 1, "indices (n)"));
    QN_TRY(qn_infer_dtype(infer, 0, QN_I32));
    QN_TRY(check_rows(a->rows));
    QN_TRY(check_rows(a->rows + infer->inputs[0].shape.dims[0]));
    infer->outputs[0] = (qn_tensor){QN_I32, QN_SHAPE(a->rows)};
    return QN_OK;
}

static qn_value source_sample(qn_graph *graph, int variant) {
    qn_value indices = qn_label(graph, "indices", QN_I32, QN_SHAPE(variant ? 11 : 5));
    return qn_op_scatter_source(graph, "y", indices, variant ? 4 : 9, variant - 1);
}

const qn_op qn_op_scatter_place = {
    .name = "scatter_source",
    .attributes_bytes = sizeof(qn_scatter_attributes),
    .attributes = scatter_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = 1 << 0,
    .stops_gradient = true,
    .infer = source_infer,
    .n_samples = 3,
    .sample = source_sample,
};

qn_value qn_op_scatter_source(qn_graph *graph, const char *name, qn_value indices, int64_t rows,
                              int64_t nth) {
    const qn_scatter_attributes attributes = {rows, nth};
    return qn_graph_add1(graph, &qn_op_scatter_place, name, &indices, 1, &attributes);
}
