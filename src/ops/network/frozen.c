/* Products with a weight (K, C) that is held as blocks and not trained, y (N, K) = x (N, C) weight
 * transposed + bias (K), with the gradient to x, and rows of such a table by indices. The numbers
 * are those of the weight widened as a whole; no widened copy exists. */
#include "ops/network/frozen.h"
#include "ops/shared.h"

static const qn_attribute frozen_fields[] = {
    QN_FIELD(qn_frozen_attributes, QN_ATTRIBUTE_INT, blocks),
    QN_FIELD(qn_frozen_attributes, QN_ATTRIBUTE_INT64, columns),
    {0},
};

qn_status qn_frozen_expect(const qn_infer *infer, int i) {
    const qn_frozen_attributes *a = infer->attributes; /* or what begins with them */
    const qn_shape weight = infer->inputs[i].shape;
    if (a->blocks <= QN_BLOCKS_NONE || a->blocks >= QN_BLOCKS_COUNT)
        return qn_fail(QN_ERROR_ARGUMENT, "%d is no format of blocks", a->blocks);
    const int64_t bytes =
        a->columns > 0 ? qn_blocks_row_bytes((qn_blocks)a->blocks, a->columns) : 0;
    if (bytes == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a row of %lld numbers is no whole number of blocks of %s",
                       (long long)a->columns, qn_blocks_name((qn_blocks)a->blocks));
    QN_TRY(qn_infer_rank(infer, i, 2, "a weight (K, bytes)"));
    QN_TRY(qn_infer_dtype(infer, i, QN_U8));
    return qn_infer_expect(infer, i, "weight", QN_SHAPE(weight.dims[0], bytes));
}

static qn_cost product_cost(const void *attributes, const qn_tensor *inputs,
                            const qn_tensor *outputs) {
    const qn_frozen_attributes *a = attributes;
    const int64_t rows = inputs[0].shape.dims[0];
    (void)outputs;
    return (qn_cost){.flops = 2 * rows * inputs[QN_FROZEN_WEIGHT].shape.dims[0] * a->columns};
}

/* ---- the product ---- */

static qn_status linear_infer(qn_infer *infer) {
    const qn_frozen_attributes *a = infer->attributes;
    const qn_tensor x = infer->inputs[QN_FROZEN_X];
    QN_TRY(qn_frozen_expect(infer, QN_FROZEN_WEIGHT));
    const int64_t rows = infer->inputs[QN_FROZEN_WEIGHT].shape.dims[0];
    QN_TRY(qn_infer_rank(infer, QN_FROZEN_X, 2, "(N, C)"));
    QN_TRY(qn_infer_expect(infer, QN_FROZEN_X, "input", QN_SHAPE(x.shape.dims[0], a->columns)));
    if (infer->n_inputs > QN_FROZEN_BIAS && infer->inputs[QN_FROZEN_BIAS].dtype != QN_NONE)
        QN_TRY(qn_infer_expect(infer, QN_FROZEN_BIAS, "bias", QN_SHAPE(rows)));
    infer->outputs[0] = (qn_tensor){x.dtype, QN_SHAPE(x.shape.dims[0], rows)};
    return QN_OK;
}

static void linear_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_value dy = gradient->outputs[0];
    if (node->n_inputs > QN_FROZEN_BIAS && gradient->wanted[QN_FROZEN_BIAS])
        gradient->inputs[QN_FROZEN_BIAS] = qn_gradient_columns(graph, node, "backward_bias", dy);
    if (gradient->wanted[QN_FROZEN_X])
        gradient->inputs[QN_FROZEN_X] =
            qn_gradient_add(graph, node, "backward_data", &qn_op_frozen_linear_backward_data,
                            (qn_value[]){dy, node->inputs[QN_FROZEN_WEIGHT]}, 2, node->attributes);
}

qn_frozen qn_frozen_sample(qn_graph *graph, qn_blocks blocks, int64_t rows, int64_t columns) {
    const qn_value value = qn_graph_add_source(
        graph, QN_KIND_PARAMETER, "weight",
        (qn_tensor){QN_U8, QN_SHAPE(rows, qn_blocks_row_bytes(blocks, columns))},
        (qn_initial){QN_INITIAL_UNIFORM, 63}, false);
    return (qn_frozen){value, blocks, columns};
}

static qn_value linear_sample(qn_graph *graph, int variant) {
    const qn_blocks blocks = (qn_blocks)(variant + QN_BLOCKS_F32);
    const int64_t n = 1 + variant * 2, k = 3 + 5 * (variant % 3),
                  numbers = qn_blocks_numbers(blocks);
    const int64_t c = numbers == 1 ? 13 : numbers * (1 + variant % 2);
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(n, c), 1);
    const qn_frozen weight = qn_frozen_sample(graph, blocks, k, c);
    const qn_value bias =
        variant % 2 ? QN_NO_VALUE : qn_sample_parameter(graph, "bias", QN_SHAPE(k), 1);
    return qn_frozen_linear(graph, "y", x, weight, bias);
}

const qn_op qn_op_frozen_linear = {
    .name = "frozen_linear",
    .attributes_bytes = sizeof(qn_frozen_attributes),
    .attributes = frozen_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .optional_inputs = 1 << QN_FROZEN_BIAS,
    .any_type_inputs = 1 << QN_FROZEN_WEIGHT,
    .is_product = true,
    .is_linear = true,
    .infer = linear_infer,
    .gradient = linear_gradient,
    .cost = product_cost,
    .n_samples = QN_BLOCKS_COUNT - QN_BLOCKS_F32,
    .sample = linear_sample,
};

qn_frozen qn_frozen_weight(qn_graph *graph, const char *name, qn_blocks blocks, int64_t rows,
                           int64_t columns, const void *data) {
    const qn_frozen none = {QN_NO_VALUE, blocks, columns};
    QN_NEED_OR(graph, "graph", none);
    const int64_t bytes =
        blocks > QN_BLOCKS_NONE && columns > 0 ? qn_blocks_row_bytes(blocks, columns) : 0;
    if (bytes == 0) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                      "%s: a row of %lld numbers is no whole number of blocks of %s", name,
                      (long long)columns, blocks ? qn_blocks_name(blocks) : "an unknown format");
        return none;
    }
    const qn_value value =
        qn_graph_add_parameter(graph, name, (qn_tensor){QN_U8, QN_SHAPE(rows, bytes)},
                               (qn_initial){QN_INITIAL_ZERO, 0}, false);
    qn_graph_lend(graph, value, data);
    return (qn_frozen){value, blocks, columns};
}

qn_value qn_frozen_linear(qn_graph *graph, const char *name, qn_value x, qn_frozen weight,
                          qn_value bias) {
    const qn_frozen_attributes attributes = {(int)weight.blocks, weight.columns};
    return qn_graph_add1(graph, &qn_op_frozen_linear, name, (qn_value[]){x, weight.value, bias}, 3,
                         &attributes);
}

/* ---- gradient: dx (N, C) = dy (N, K) weight (K, C) ---- */

static qn_status data_infer(qn_infer *infer) {
    const qn_frozen_attributes *a = infer->attributes;
    const qn_tensor dy = infer->inputs[0];
    QN_TRY(qn_frozen_expect(infer, QN_FROZEN_WEIGHT));
    QN_TRY(qn_infer_rank(infer, 0, 2, "(N, K)"));
    QN_TRY(
        qn_infer_expect(infer, 0, "gradient",
                        QN_SHAPE(dy.shape.dims[0], infer->inputs[QN_FROZEN_WEIGHT].shape.dims[0])));
    infer->outputs[0] = (qn_tensor){dy.dtype, QN_SHAPE(dy.shape.dims[0], a->columns)};
    return QN_OK;
}

const qn_op qn_op_frozen_linear_backward_data = {
    .name = "frozen_linear_backward_data",
    .attributes_bytes = sizeof(qn_frozen_attributes),
    .attributes = frozen_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << QN_FROZEN_WEIGHT,
    .infer = data_infer,
    .cost = product_cost,
};

/* ---- rows by indices ---- */

static qn_status embedding_infer(qn_infer *infer) {
    char text[QN_SHAPE_TEXT];
    const qn_frozen_embedding_attributes *a = infer->attributes;
    qn_shape shape = infer->inputs[1].shape;
    QN_TRY(qn_frozen_expect(infer, 0));
    QN_TRY(qn_infer_dtype(infer, 1, QN_I32));
    if (a->real != QN_F32 && a->real != QN_F64)
        return qn_fail(QN_ERROR_ARGUMENT, "rows are f32 or f64, not %s",
                       qn_dtype_name((qn_dtype)a->real));
    if (shape.rank == QN_MAX_RANK)
        return qn_fail(QN_ERROR_ARGUMENT, "indices %s leave no axis for the table's columns",
                       qn_shape_print(shape, text));
    shape.dims[shape.rank++] = a->weight.columns;
    infer->outputs[0] = (qn_tensor){(qn_dtype)a->real, shape};
    return QN_OK;
}

static const qn_attribute embedding_fields[] = {
    {"blocks", QN_ATTRIBUTE_INT, offsetof(qn_frozen_embedding_attributes, weight.blocks)},
    {"columns", QN_ATTRIBUTE_INT64, offsetof(qn_frozen_embedding_attributes, weight.columns)},
    QN_FIELD(qn_frozen_embedding_attributes, QN_ATTRIBUTE_INT, real),
    {0},
};

/* Indices of the samples repeat, and some lie outside of the table. */
static qn_value embedding_sample(qn_graph *graph, int variant) {
    const qn_blocks blocks = variant ? QN_BLOCKS_Q4_0 : QN_BLOCKS_BF16;
    const qn_frozen table = qn_frozen_sample(graph, blocks, variant ? 2 : 9, variant ? 64 : 7);
    const qn_shape shape = variant ? QN_SHAPE(3, 5) : QN_SHAPE(11);
    return qn_frozen_embedding(graph, "y", table, qn_label(graph, "indices", QN_I32, shape));
}

const qn_op qn_op_frozen_embedding = {
    .name = "frozen_embedding",
    .attributes_bytes = sizeof(qn_frozen_embedding_attributes),
    .attributes = embedding_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 1 << 0 | 1 << 1,
    .infer = embedding_infer,
    .n_samples = 2,
    .sample = embedding_sample,
};

qn_value qn_frozen_embedding(qn_graph *graph, const char *name, qn_frozen table, qn_value indices) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    const qn_frozen_embedding_attributes attributes = {{(int)table.blocks, table.columns},
                                                       (int)graph->real};
    return qn_graph_add1(graph, &qn_op_frozen_embedding, name, (qn_value[]){table.value, indices},
                         2, &attributes);
}
