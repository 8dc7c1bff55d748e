/* Cross entropy of softmax(x (N, C) table (V, C) transposed) with labels (N) -> losses (N), where
 * the table is held as blocks and not trained: logits are made in slices and never stored. In
 * training it makes the slopes of each loss to its row of x in the same visit (N, C), which is what
 * the gradient needs. A negative label makes a loss and its gradient 0. */
#include "ops/language.h"
#include "ops/shared.h"

static const qn_attribute sliced_fields[] = {
    {"blocks", QN_ATTRIBUTE_INT, offsetof(qn_sliced_attributes, table.blocks)},
    {"columns", QN_ATTRIBUTE_INT64, offsetof(qn_sliced_attributes, table.columns)},
    QN_FIELD(qn_sliced_attributes, QN_ATTRIBUTE_DOUBLE, soft_cap),
    QN_FIELD(qn_sliced_attributes, QN_ATTRIBUTE_BOOL, makes_slopes),
    {0},
};

static qn_status sliced_infer(qn_infer *infer) {
    const qn_sliced_attributes *a = infer->attributes;
    const qn_tensor x = infer->inputs[QN_SLICED_X];
    QN_TRY(qn_frozen_expect(infer, QN_SLICED_TABLE));
    QN_TRY(qn_infer_rank(infer, QN_SLICED_X, 2, "(N, C)"));
    const int64_t n = x.shape.dims[0];
    QN_TRY(qn_infer_expect(infer, QN_SLICED_X, "input", QN_SHAPE(n, a->table.columns)));
    QN_TRY(qn_infer_dtype(infer, QN_SLICED_LABELS, QN_I32));
    QN_TRY(qn_infer_expect(infer, QN_SLICED_LABELS, "labels", QN_SHAPE(n)));
    if (!(a->soft_cap >= 0))
        return qn_fail(QN_ERROR_ARGUMENT, "a cap of %g is none", a->soft_cap);
    infer->outputs[0] = (qn_tensor){x.dtype, QN_SHAPE(n)};
    infer->outputs[1] = x;
    infer->n_outputs = 1 + a->makes_slopes;
    return QN_OK;
}

static qn_cost sliced_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    const qn_sliced_attributes *a = attributes;
    const int64_t n = inputs[QN_SLICED_X].shape.dims[0];
    const int64_t logits = n * inputs[QN_SLICED_TABLE].shape.dims[0];
    (void)outputs;
    return (qn_cost){.flops = logits * (2 * a->table.columns * (1 + a->makes_slopes) + 4)};
}

static void sliced_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    if (node->n_outputs < 2 || gradient->outputs[1].id >= 0) {
        qn_graph_fail(graph, QN_ERROR_UNSUPPORTED,
                      node->n_outputs < 2 ? "%s: it has a gradient in a training graph only"
                                          : "%s: no gradient flows through the slopes",
                      node->name);
        return;
    }
    if (!gradient->wanted[QN_SLICED_X])
        return;
    const int64_t n = qn_graph_shape(graph, node->inputs[QN_SLICED_X]).dims[0];
    const qn_value each = qn_reshape(graph, NULL, gradient->outputs[0], QN_SHAPE(n, 1));
    gradient->inputs[QN_SLICED_X] =
        qn_op_combine(graph, NULL, QN_COMBINE_MULTIPLY, node->outputs[1], each);
}

/* A cap; several slices; labels that are negative. */
static qn_value sliced_sample(qn_graph *graph, int variant) {
    const int64_t n = variant == 2 ? 1 : 9, rows = variant == 1 ? 333 : 5,
                  c = variant == 2 ? 32 : 7;
    const qn_blocks blocks = variant == 2 ? QN_BLOCKS_Q8_0 : QN_BLOCKS_BF16;
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(n, c), 1);
    const qn_frozen table = qn_frozen_sample(graph, blocks, rows, c);
    const qn_value labels = qn_label(graph, "labels", QN_I32, QN_SHAPE(n));
    return qn_sliced_cross_entropy(graph, "y", x, table, labels, variant ? 0 : 2.5);
}

const qn_op qn_op_sliced = {
    .name = "sliced_cross_entropy",
    .attributes_bytes = sizeof(qn_sliced_attributes),
    .attributes = sliced_fields,
    .min_inputs = 3,
    .max_inputs = 3,
    .any_type_inputs = 1 << QN_SLICED_TABLE | 1 << QN_SLICED_LABELS,
    .output_names = {NULL, "slopes"},
    .is_product = true,
    .infer = sliced_infer,
    .gradient = sliced_gradient,
    .cost = sliced_cost,
    .n_samples = 3,
    .sample = sliced_sample,
};

qn_value qn_sliced_cross_entropy(qn_graph *graph, const char *name, qn_value x, qn_frozen table,
                                 qn_value labels, double soft_cap) {
    QN_NEED_OR(graph, "graph", QN_NO_VALUE);
    const qn_sliced_attributes attributes = {
        {(int)table.blocks, table.columns}, soft_cap, graph->training};
    return qn_graph_add1(graph, &qn_op_sliced, name, (qn_value[]){x, table.value, labels}, 3,
                         &attributes);
}
