/* y (N, K) = activation(x (N, C) weight (K, C) transposed + bias (K)), and the two products of its
 * gradient. */
#include "ops/shared.h"

static qn_status linear_infer(qn_infer *infer) {
    char x_text[QN_SHAPE_TEXT], weight_text[QN_SHAPE_TEXT];
    const qn_activation_attributes *a = infer->attributes;
    const qn_shape x = infer->inputs[0].shape, weight = infer->inputs[1].shape;
    qn_dtype type;
    QN_TRY(qn_infer_product(infer, a->activation.kind, &type));
    QN_TRY(qn_infer_rank(infer, 0, 2, "(N, C)"));
    QN_TRY(qn_infer_rank(infer, 1, 2, "a weight (K, C)"));
    if (x.dims[1] != weight.dims[1])
        return qn_fail(QN_ERROR_ARGUMENT, "weight %s does not fit input %s: %lld columns and %lld",
                       qn_shape_print(weight, weight_text), qn_shape_print(x, x_text),
                       (long long)weight.dims[1], (long long)x.dims[1]);
    if (infer->n_inputs > 2 && infer->inputs[2].dtype != QN_NONE)
        QN_TRY(qn_infer_expect(infer, 2, "bias", QN_SHAPE(weight.dims[0])));
    infer->outputs[0] = (qn_tensor){type, QN_SHAPE(x.dims[0], weight.dims[0])};
    return QN_OK;
}

/* A multiply-add for each element of a times columns. */
static qn_cost product_cost(const qn_tensor *a, int64_t columns) {
    return (qn_cost){.flops = 2 * qn_shape_count(a->shape) * columns};
}

static qn_cost linear_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return product_cost(&inputs[0], inputs[1].shape.dims[0]);
}

static void linear_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_activation_attributes *a = node->attributes;
    const qn_value dy =
        qn_gradient_activation(graph, node, a->activation, node->outputs[0], gradient->outputs[0]);
    if (node->n_inputs > 2 && gradient->wanted[2])
        gradient->inputs[2] = qn_gradient_columns(graph, node, "backward_bias", dy);
    if (gradient->wanted[1]) {
        qn_value x = node->inputs[0], channels;
        qn_part_find(graph, node, &x, &channels);
        gradient->inputs[1] =
            qn_gradient_add(graph, node, "backward_weight", &qn_op_linear_backward_weight,
                            (qn_value[]){x, dy}, 2, NULL);
    }
    if (gradient->wanted[0])
        gradient->inputs[0] =
            qn_gradient_add(graph, node, "backward_data", &qn_op_linear_backward_data,
                            (qn_value[]){dy, node->inputs[1]}, 2, NULL);
}

static qn_value linear_sample(qn_graph *graph, int variant) {
    static const struct {
        int64_t n, c, k;
        bool has_bias;
        qn_activation_kind activation;
    } all[] = {{5, 7, 3, true, QN_ACTIVATION_NONE},
               {1, 13, 17, false, QN_ACTIVATION_NONE},
               {9, 3, 5, true, QN_ACTIVATION_TANH}};
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(all[variant].n, all[variant].c), 1);
    qn_value weight =
        qn_sample_parameter(graph, "weight", QN_SHAPE(all[variant].k, all[variant].c), 0.5);
    qn_value bias = QN_NO_VALUE;
    if (all[variant].has_bias)
        bias = qn_sample_parameter(graph, "bias", QN_SHAPE(all[variant].k), 1);
    const qn_activation_attributes attributes = {{all[variant].activation, 0}};
    return qn_graph_add1(graph, &qn_op_linear, "y", (qn_value[]){x, weight, bias}, 3, &attributes);
}

const qn_op qn_op_linear = {
    .name = "linear",
    .attributes_bytes = sizeof(qn_activation_attributes),
    .attributes = qn_activation_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .optional_inputs = 1 << 2,
    .any_type_inputs = QN_PRODUCT_INPUTS,
    .is_product = true,
    .is_linear = true,
    .trains_parts = true,
    .infer = linear_infer,
    .gradient = linear_gradient,
    .cost = linear_cost,
    .n_samples = 3,
    .sample = linear_sample,
};

qn_value qn_linear(qn_graph *graph, const char *name, qn_value x, qn_value weight, qn_value bias) {
    const qn_activation_attributes attributes = {0};
    return qn_graph_add1(graph, &qn_op_linear, name, (qn_value[]){x, weight, bias}, 3, &attributes);
}

/* ---- gradient: dx (N, C) = dy (N, K) weight (K, C) ---- */

static qn_status data_infer(qn_infer *infer) {
    const qn_shape dy = infer->inputs[0].shape, weight = infer->inputs[1].shape;
    qn_dtype type;
    QN_TRY(qn_infer_product(infer, QN_ACTIVATION_NONE, &type));
    QN_TRY(qn_infer_rank(infer, 0, 2, "(N, K)"));
    QN_TRY(qn_infer_rank(infer, 1, 2, "a weight (K, C)"));
    QN_TRY(qn_infer_expect(infer, 1, "weight", QN_SHAPE(dy.dims[1], weight.dims[1])));
    infer->outputs[0] = (qn_tensor){type, QN_SHAPE(dy.dims[0], weight.dims[1])};
    return QN_OK;
}

static qn_cost data_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return product_cost(&inputs[0], inputs[1].shape.dims[1]);
}

const qn_op qn_op_linear_backward_data = {
    .name = "linear_backward_data",
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = QN_PRODUCT_INPUTS,
    .infer = data_infer,
    .cost = data_cost,
};

/* ---- gradient: dweight (K, C) = dy (N, K) transposed x (N, C) ---- */

static qn_status weight_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape, dy = infer->inputs[1].shape;
    qn_dtype type;
    QN_TRY(qn_infer_sums(infer, &type));
    QN_TRY(qn_infer_rank(infer, 0, 2, "(N, C)"));
    QN_TRY(qn_infer_rank(infer, 1, 2, "(N, K)"));
    QN_TRY(qn_infer_expect(infer, 1, "gradient", QN_SHAPE(x.dims[0], dy.dims[1])));
    if (infer->n_inputs > 2)
        QN_TRY(qn_infer_expect(infer, 2, "sum", QN_SHAPE(dy.dims[1], x.dims[1])));
    infer->outputs[0] = (qn_tensor){type, QN_SHAPE(dy.dims[1], x.dims[1])};
    return QN_OK;
}

static qn_cost weight_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return product_cost(&inputs[0], inputs[1].shape.dims[1]);
}

const qn_op qn_op_linear_backward_weight = {
    .name = "linear_backward_weight",
    .sums_batch = true,
    .min_inputs = 2,
    .max_inputs = 3,
    .any_type_inputs = QN_PRODUCT_INPUTS,
    .infer = weight_infer,
    .cost = weight_cost,
    .in_place = 1 << 2,
};
