/* y (N, K) = activation(x (N, C) weight (K, C) transposed + bias (K)), and the two products of its
 * gradient. */
#include "ops/shared.h"

static qn_gemm_shape forward_gemm(const qn_tensor *inputs) {
    const qn_shape x = inputs[0].shape, weight = inputs[1].shape;
    return (qn_gemm_shape){
        .m = x.dims[0], .n = weight.dims[0], .k = x.dims[1], .transpose_b = true};
}

static qn_status linear_infer(qn_infer *infer) {
    char x_text[QN_SHAPE_TEXT], weight_text[QN_SHAPE_TEXT];
    const qn_shape x = infer->inputs[0].shape, weight = infer->inputs[1].shape;
    QN_TRY(qn_infer_rank(infer, 0, 2, "(N, C)"));
    QN_TRY(qn_infer_rank(infer, 1, 2, "a weight (K, C)"));
    if (x.dims[1] != weight.dims[1])
        return qn_fail(QN_ERROR_ARGUMENT, "weight %s does not fit input %s: %lld columns and %lld",
                       qn_shape_print(weight, weight_text), qn_shape_print(x, x_text),
                       (long long)weight.dims[1], (long long)x.dims[1]);
    if (infer->n_inputs > 2 && infer->inputs[2].dtype != QN_NONE)
        QN_TRY(qn_infer_expect(infer, 2, "bias", QN_SHAPE(weight.dims[0])));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(x.dims[0], weight.dims[0])};
    return QN_OK;
}

static qn_cost gemm_cost(qn_gemm_shape gemm) {
    return (qn_cost){.flops = 2 * gemm.m * gemm.n * gemm.k};
}

static qn_cost linear_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return gemm_cost(forward_gemm(inputs));
}

static size_t linear_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_gemm_shape gemm = forward_gemm(inputs);
    return kernels->gemm_workspace(&gemm, n_threads);
}

static void linear_run(const qn_call *call) {
    const qn_activation_attributes *a = call->attributes;
    qn_gemm_shape gemm = forward_gemm(call->inputs);
    const void *bias = call->node->n_inputs > 2 ? call->in[2] : NULL;
    gemm.cuts = call->kernels->cuts;
    call->kernels->gemm(call->team, &gemm, call->in[0], call->in[1], bias, a->activation,
                        call->out[0], call->workspace);
}

static void linear_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_activation_attributes *a = node->attributes;
    const qn_value dy =
        qn_gradient_activation(graph, node, a->activation, node->outputs[0], gradient->outputs[0]);
    if (node->n_inputs > 2 && gradient->wanted[2])
        gradient->inputs[2] = qn_gradient_columns(graph, node, "backward_bias", dy);
    if (gradient->wanted[1])
        gradient->inputs[1] =
            qn_gradient_add(graph, node, "backward_weight", &qn_op_linear_backward_weight,
                            (qn_value[]){node->inputs[0], dy}, 2, NULL);
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
    .is_product = true,
    .infer = linear_infer,
    .gradient = linear_gradient,
    .cost = linear_cost,
    .workspace = linear_workspace,
    .run = linear_run,
    .takes_cut = true,
    .n_samples = 3,
    .sample = linear_sample,
};

qn_value qn_linear(qn_graph *graph, const char *name, qn_value x, qn_value weight, qn_value bias) {
    const qn_activation_attributes attributes = {0};
    return qn_graph_add1(graph, &qn_op_linear, name, (qn_value[]){x, weight, bias}, 3, &attributes);
}

/* ---- gradient: dx (N, C) = dy (N, K) weight (K, C) ---- */

static qn_gemm_shape data_gemm(const qn_tensor *inputs) {
    const qn_shape dy = inputs[0].shape, weight = inputs[1].shape;
    return (qn_gemm_shape){.m = dy.dims[0], .n = weight.dims[1], .k = dy.dims[1]};
}

static qn_status data_infer(qn_infer *infer) {
    const qn_shape dy = infer->inputs[0].shape, weight = infer->inputs[1].shape;
    QN_TRY(qn_infer_rank(infer, 0, 2, "(N, K)"));
    QN_TRY(qn_infer_rank(infer, 1, 2, "a weight (K, C)"));
    QN_TRY(qn_infer_expect(infer, 1, "weight", QN_SHAPE(dy.dims[1], weight.dims[1])));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(dy.dims[0], weight.dims[1])};
    return QN_OK;
}

static qn_cost data_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return gemm_cost(data_gemm(inputs));
}

static size_t data_workspace(const qn_kernels *kernels, const void *attributes,
                             const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_gemm_shape gemm = data_gemm(inputs);
    return kernels->gemm_workspace(&gemm, n_threads);
}

static void data_run(const qn_call *call) {
    qn_gemm_shape gemm = data_gemm(call->inputs);
    gemm.cuts = call->kernels->cuts;
    call->kernels->gemm(call->team, &gemm, call->in[0], call->in[1], NULL,
                        (qn_activation){QN_ACTIVATION_NONE, 0}, call->out[0], call->workspace);
}

const qn_op qn_op_linear_backward_data = {
    .name = "linear_backward_data",
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = data_infer,
    .cost = data_cost,
    .workspace = data_workspace,
    .run = data_run,
    .takes_cut = true,
};

/* ---- gradient: dweight (K, C) = dy (N, K) transposed x (N, C) ---- */

static qn_gemm_shape weight_gemm(const qn_tensor *inputs) {
    const qn_shape x = inputs[0].shape, dy = inputs[1].shape;
    return (qn_gemm_shape){.m = dy.dims[1], .n = x.dims[1], .k = x.dims[0], .transpose_a = true};
}

static qn_status weight_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape, dy = infer->inputs[1].shape;
    QN_TRY(qn_infer_rank(infer, 0, 2, "(N, C)"));
    QN_TRY(qn_infer_rank(infer, 1, 2, "(N, K)"));
    QN_TRY(qn_infer_expect(infer, 1, "gradient", QN_SHAPE(x.dims[0], dy.dims[1])));
    if (infer->n_inputs > 2)
        QN_TRY(qn_infer_expect(infer, 2, "sum", QN_SHAPE(dy.dims[1], x.dims[1])));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(dy.dims[1], x.dims[1])};
    return QN_OK;
}

static qn_cost weight_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return gemm_cost(weight_gemm(inputs));
}

static size_t weight_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_gemm_shape gemm = weight_gemm(inputs);
    return kernels->gemm_workspace(&gemm, n_threads);
}

static void weight_run(const qn_call *call) {
    qn_gemm_shape gemm = weight_gemm(call->inputs);
    gemm.add = qn_call_goes_on(call, 2, 0);
    gemm.cuts = call->kernels->cuts;
    call->kernels->gemm(call->team, &gemm, call->in[1], call->in[0], NULL,
                        (qn_activation){QN_ACTIVATION_NONE, 0}, call->out[0], call->workspace);
}

static int64_t weight_chunk(const qn_kernels *kernels, const void *attributes,
                            const qn_tensor *inputs) {
    (void)attributes;
    (void)inputs;
    return kernels->gemm_chunk;
}

const qn_op qn_op_linear_backward_weight = {
    .name = "linear_backward_weight",
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = weight_infer,
    .cost = weight_cost,
    .workspace = weight_workspace,
    .run = weight_run,
    .takes_cut = true,
    .in_place = 1 << 2,
    .chunk = weight_chunk,
};
