/* Matrix products over equal leading axes, either side transposed or not; their gradients are such
 * products again. If there are enough matrices the team divides them up, else it shares each one.
 * Both give the same bits, because a product does not depend on the size of its team. */
#include "ops/network/product.h"
#include "ops/shared.h"

static const qn_attribute matmul_fields[] = {
    QN_FIELD(qn_matmul_attributes, QN_ATTRIBUTE_BOOL, transpose_a),
    QN_FIELD(qn_matmul_attributes, QN_ATTRIBUTE_BOOL, transpose_b),
    {0},
};

static qn_status matmul_infer(qn_infer *infer) {
    const qn_matmul_attributes *attributes = infer->attributes;
    char a_text[QN_SHAPE_TEXT], b_text[QN_SHAPE_TEXT];
    const qn_shape a = infer->inputs[0].shape, b = infer->inputs[1].shape;
    qn_dtype type;
    QN_TRY(qn_infer_product(infer, QN_ACTIVATION_NONE, &type));
    bool fits = a.rank >= 2 && a.rank == b.rank;
    for (int i = 0; fits && i < a.rank - 2; i++)
        fits = a.dims[i] == b.dims[i];
    fits = fits && a.dims[a.rank - 1 - attributes->transpose_a] ==
                       b.dims[b.rank - 2 + attributes->transpose_b];
    if (!fits)
        return qn_fail(QN_ERROR_ARGUMENT, "%s%s times %s%s: not (..., M, K) and (..., K, N)",
                       qn_shape_print(a, a_text), attributes->transpose_a ? " transposed" : "",
                       qn_shape_print(b, b_text), attributes->transpose_b ? " transposed" : "");
    qn_shape y = a;
    y.dims[y.rank - 2] = a.dims[a.rank - 2 + attributes->transpose_a];
    y.dims[y.rank - 1] = b.dims[b.rank - 1 - attributes->transpose_b];
    infer->outputs[0] = (qn_tensor){type, y};
    return QN_OK;
}

static qn_cost matmul_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    const qn_matmul_attributes *a = attributes;
    const int64_t k = inputs[0].shape.dims[inputs[0].shape.rank - 1 - a->transpose_a];
    return (qn_cost){.flops = 2 * k * qn_shape_count(outputs[0].shape)};
}

static qn_value add_product(qn_graph *graph, const qn_node *node, const char *suffix, qn_value a,
                            qn_value b, bool transpose_a, bool transpose_b) {
    const qn_matmul_attributes attributes = {transpose_a, transpose_b};
    return qn_gradient_add(graph, node, suffix, &qn_op_matmul, (qn_value[]){a, b}, 2, &attributes);
}

/* d op(a) = dc op(b)^T and d op(b) = op(a)^T dc, each transposed where its operand is. */
static void matmul_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_matmul_attributes *t = node->attributes;
    const qn_value a = node->inputs[0], b = node->inputs[1], dc = gradient->outputs[0];
    if (gradient->wanted[0])
        gradient->inputs[0] =
            t->transpose_a ? add_product(graph, node, "backward_a", b, dc, t->transpose_b, true)
                           : add_product(graph, node, "backward_a", dc, b, false, !t->transpose_b);
    if (gradient->wanted[1])
        gradient->inputs[1] =
            t->transpose_b ? add_product(graph, node, "backward_b", dc, a, true, t->transpose_a)
                           : add_product(graph, node, "backward_b", a, dc, !t->transpose_a, false);
}

static qn_value matmul_sample(qn_graph *graph, int variant) {
    const bool transpose_a = variant & 1, transpose_b = variant >> 1 & 1;
    const int64_t m = 5, k = 7, n = 3;
    qn_shape a = transpose_a ? QN_SHAPE(2, 3, k, m) : QN_SHAPE(2, 3, m, k);
    qn_shape b = transpose_b ? QN_SHAPE(2, 3, n, k) : QN_SHAPE(2, 3, k, n);
    if (variant == 4) {
        a = QN_SHAPE(17, 9);
        b = QN_SHAPE(9, 33);
    }
    return qn_matmul(graph, "y", qn_sample_parameter(graph, "a", a, 1),
                     qn_sample_parameter(graph, "b", b, 1), transpose_a, transpose_b);
}

const qn_op qn_op_matmul = {
    .name = "matmul",
    .attributes_bytes = sizeof(qn_matmul_attributes),
    .attributes = matmul_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = QN_PRODUCT_INPUTS,
    .is_product = true,
    .infer = matmul_infer,
    .gradient = matmul_gradient,
    .cost = matmul_cost,
    .n_samples = 5,
    .sample = matmul_sample,
};

qn_value qn_matmul(qn_graph *graph, const char *name, qn_value a, qn_value b, bool transpose_a,
                   bool transpose_b) {
    const qn_matmul_attributes attributes = {transpose_a, transpose_b};
    return qn_graph_add1(graph, &qn_op_matmul, name, (qn_value[]){a, b}, 2, &attributes);
}
