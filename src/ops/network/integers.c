/* See ops/integers.h: places of the largest, and products of matrices of integers. */
#include "ops/integers.h"

#include "ops/shared.h"

/* ---- places of the largest ---- */

static const qn_attribute ranking_fields[] = {
    QN_FIELD(qn_ranking_attributes, QN_ATTRIBUTE_INT64, k),
    QN_FIELD(qn_ranking_attributes, QN_ATTRIBUTE_BOOL, is_largest),
    QN_FIELD(qn_ranking_attributes, QN_ATTRIBUTE_BOOL, is_unsigned),
    {0},
};

static qn_status ranking_infer(qn_infer *infer) {
    const qn_ranking_attributes *a = infer->attributes;
    const qn_shape x = infer->inputs[0].shape;
    const qn_dtype dtype = infer->inputs[0].dtype;
    QN_TRY(qn_infer_rank(infer, 0, 3, "(N, T, C)"));
    if (dtype != QN_I32 && dtype != QN_I64 && !qn_dtype_is_real(dtype))
        return qn_fail(QN_ERROR_ARGUMENT, "%s has no largest numbers", qn_dtype_name(dtype));
    if (a->k < 1 || a->k > x.dims[1])
        return qn_fail(QN_ERROR_ARGUMENT, "it takes %lld of %lld elements", (long long)a->k,
                       (long long)x.dims[1]);
    infer->outputs[0] = (qn_tensor){QN_I64, QN_SHAPE(x.dims[0], a->k, x.dims[2])};
    return QN_OK;
}

static qn_value ranking_sample(qn_graph *graph, int variant) {
    const qn_value x = variant ? qn_label(graph, "x", QN_I32, QN_SHAPE(3, 5, 2))
                               : qn_input(graph, "x", QN_SHAPE(3, 5, 2));
    const qn_ranking_attributes a = {.k = 2 + variant, .is_largest = variant == 0};
    return qn_op_ranked(graph, "y", x, &a);
}

const qn_op qn_op_ranked_places = {
    .name = "ranked_places",
    .attributes_bytes = sizeof(qn_ranking_attributes),
    .attributes = ranking_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = 1,
    .stops_gradient = true,
    .looks_at_batch = true,
    .infer = ranking_infer,
    .n_samples = 2,
    .sample = ranking_sample,
};

qn_value qn_op_ranked(qn_graph *graph, const char *name, qn_value x,
                      const qn_ranking_attributes *attributes) {
    return qn_graph_add1(graph, &qn_op_ranked_places, name, &x, 1, attributes);
}

/* ---- products ---- */

static const qn_attribute matmul_fields[] = {
    QN_FIELD(qn_integer_matmul_attributes, QN_ATTRIBUTE_INT, bits),
    QN_FIELD(qn_integer_matmul_attributes, QN_ATTRIBUTE_BOOL, is_signed),
    {0},
};

static qn_status matmul_infer(qn_infer *infer) {
    const qn_shape a = infer->inputs[0].shape, b = infer->inputs[1].shape;
    for (int i = 0; i < 2; i++) {
        const qn_dtype dtype = infer->inputs[i].dtype;
        QN_TRY(qn_infer_rank(infer, i, 3, i ? "(N, K, L)" : "(N, M, K)"));
        if (dtype != QN_I32 && dtype != QN_I64)
            return qn_fail(QN_ERROR_ARGUMENT, "input %d is %s, not i32 or i64", i,
                           qn_dtype_name(dtype));
    }
    if (a.dims[0] != b.dims[0] || a.dims[2] != b.dims[1])
        return qn_fail(QN_ERROR_ARGUMENT, "its matrices do not go together");
    infer->outputs[0] = (qn_tensor){QN_I64, QN_SHAPE(a.dims[0], a.dims[1], b.dims[2])};
    return QN_OK;
}

static qn_value matmul_sample(qn_graph *graph, int variant) {
    const qn_value a = qn_label(graph, "a", QN_I32, QN_SHAPE(2, 3, 5));
    const qn_value b = qn_label(graph, "b", variant ? QN_I64 : QN_I32, QN_SHAPE(2, 5, 4));
    const qn_integer_matmul_attributes attributes = {variant ? 16 : 64, true};
    return qn_op_integer_product(graph, "y", a, b, &attributes);
}

const qn_op qn_op_integer_matmul = {
    .name = "integer_matmul",
    .attributes_bytes = sizeof(qn_integer_matmul_attributes),
    .attributes = matmul_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 3,
    .stops_gradient = true,
    .looks_at_batch = true,
    .infer = matmul_infer,
    .n_samples = 2,
    .sample = matmul_sample,
};

qn_value qn_op_integer_product(qn_graph *graph, const char *name, qn_value a, qn_value b,
                               const qn_integer_matmul_attributes *attributes) {
    return qn_graph_add1(graph, &qn_op_integer_matmul, name, (qn_value[]){a, b}, 2, attributes);
}
