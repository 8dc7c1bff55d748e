/* Numbers of rows that tuples of indices (n, k), QN_I32, name in a tensor whose first axes have k
 * extents: stride * (the row's number) + base (n), QN_I32, where that is given. Negative indices
 * count from the end, as in ONNX; a tuple outside of the extents becomes QN_NO_INDEX. Exact: what
 * is named fits QN_I32. No gradient flows. */
#include "ops/shared.h"

#include "ops/layout.h"

static const qn_attribute row_fields[] = {
    QN_FIELD(qn_row_attributes, QN_ATTRIBUTE_SHAPE, extents),
    QN_FIELD(qn_row_attributes, QN_ATTRIBUTE_INT64, stride),
    {0},
};

static qn_status row_infer(qn_infer *infer) {
    const qn_row_attributes *a = infer->attributes;
    const qn_shape indices = infer->inputs[0].shape;
    int64_t most = a->stride;
    QN_TRY(qn_infer_rank(infer, 0, 2, "indices (n, k)"));
    QN_TRY(qn_infer_dtype(infer, 0, QN_I32));
    if (indices.dims[1] != a->extents.rank)
        return qn_fail(QN_ERROR_ARGUMENT, "tuples of %lld indices for %d axes",
                       (long long)indices.dims[1], a->extents.rank);
    for (int i = 0; i < a->extents.rank; i++) {
        if (a->extents.dims[i] < 1 || __builtin_mul_overflow(most, a->extents.dims[i], &most) ||
            most > INT32_MAX)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "indices that are known only when it runs pick among more than %d rows",
                           INT32_MAX);
    }
    if (infer->n_inputs > 1) {
        QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
        QN_TRY(qn_infer_expect(infer, 1, "base", QN_SHAPE(indices.dims[0])));
    }
    infer->outputs[0] = (qn_tensor){QN_I32, QN_SHAPE(indices.dims[0])};
    return QN_OK;
}

static qn_value row_sample(qn_graph *graph, int variant) {
    const qn_value indices = qn_label(graph, "indices", QN_I32, QN_SHAPE(7, variant ? 2 : 1));
    return qn_op_row_numbers(graph, "y", indices,
                             variant ? qn_label(graph, "base", QN_I32, QN_SHAPE(7)) : QN_NO_VALUE,
                             variant ? QN_SHAPE(3, 9) : QN_SHAPE(9), variant ? 5 : 1);
}

const qn_op qn_op_row_number = {
    .name = "row_numbers",
    .attributes_bytes = sizeof(qn_row_attributes),
    .attributes = row_fields,
    .min_inputs = 1,
    .max_inputs = 2,
    .any_type_inputs = 1 << 0 | 1 << 1,
    .stops_gradient = true,
    .infer = row_infer,
    .n_samples = 2,
    .sample = row_sample,
};

qn_value qn_op_row_numbers(qn_graph *graph, const char *name, qn_value indices, qn_value base,
                           qn_shape extents, int64_t stride) {
    const qn_row_attributes attributes = {extents, stride};
    return qn_graph_add1(graph, &qn_op_row_number, name, (qn_value[]){indices, base},
                         base.id >= 0 ? 2 : 1, &attributes);
}
