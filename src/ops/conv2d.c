/* Convolution of x (N, H, W, C) with filter (K, R, S, C / groups) and bias (K), then an activation
 * -> y (N, P, Q, K), and the two products of its gradient. */
#include "ops/shared.h"

typedef struct conv2d_attributes {
    qn_window window;
    int groups;
    qn_activation activation;
    int64_t batch; /* samples of the whole batch of which this is a piece; 0: all */
} conv2d_attributes;

static const qn_attribute conv2d_fields[] = {
    QN_FIELD(conv2d_attributes, QN_ATTRIBUTE_WINDOW, window),
    QN_FIELD(conv2d_attributes, QN_ATTRIBUTE_INT, groups),
    QN_FIELD(conv2d_attributes, QN_ATTRIBUTE_ACTIVATION, activation),
    QN_FIELD(conv2d_attributes, QN_ATTRIBUTE_INT64, batch),
    {0},
};

static const qn_attribute backward_fields[] = {
    QN_FIELD(qn_conv2d_backward_attributes, QN_ATTRIBUTE_CONV2D, shape),
    {0},
};

static qn_status conv2d_shape(const void *attributes, const qn_tensor *inputs, qn_conv2d_shape *d) {
    const conv2d_attributes *a = attributes;
    const qn_shape x = inputs[0].shape, filter = inputs[1].shape;
    QN_TRY(qn_window_apply(&a->window, x, filter.dims[0], filter.dims[1], filter.dims[2], a->groups,
                           d));
    d->batch = a->batch;
    return QN_OK;
}

static void conv2d_cut(const qn_graph *graph, const qn_node *node, int64_t piece, int64_t pieces,
                       void *attributes) {
    (void)piece;
    (void)pieces;
    ((conv2d_attributes *)attributes)->batch = qn_graph_shape(graph, node->inputs[0]).dims[0];
}

static qn_status conv2d_infer(qn_infer *infer) {
    const conv2d_attributes *a = infer->attributes;
    const qn_shape x = infer->inputs[0].shape, filter = infer->inputs[1].shape;
    char x_text[QN_SHAPE_TEXT], filter_text[QN_SHAPE_TEXT];
    qn_conv2d_shape d;
    QN_TRY(qn_infer_rank(infer, 0, 4, "(N, H, W, C)"));
    QN_TRY(qn_infer_rank(infer, 1, 4, "a filter (K, R, S, C / groups)"));
    qn_shape_print(x, x_text);
    qn_shape_print(filter, filter_text);
    if (a->groups < 1 || x.dims[3] % a->groups != 0 || filter.dims[0] % a->groups != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%d groups do not divide the channels of %s and %s",
                       a->groups, x_text, filter_text);
    if (filter.dims[3] != x.dims[3] / a->groups)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "filter %s does not fit input %s: %lld channels / %d groups, filter has "
                       "%lld",
                       filter_text, x_text, (long long)x.dims[3], a->groups,
                       (long long)filter.dims[3]);
    QN_TRY(conv2d_shape(a, infer->inputs, &d));
    if (infer->n_inputs > 2 && infer->inputs[2].dtype != QN_NONE)
        QN_TRY(qn_infer_expect(infer, 2, "bias", QN_SHAPE(d.k)));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, qn_conv2d_output(&d)};
    return QN_OK;
}

static qn_cost product_cost(const qn_conv2d_shape *d) {
    return (qn_cost){.flops = 2 * d->n * d->p * d->q * d->k * d->r * d->s * (d->c / d->groups)};
}

static qn_cost conv2d_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)outputs;
    qn_conv2d_shape d = {.groups = 1};
    conv2d_shape(attributes, inputs, &d);
    return product_cost(&d);
}

static size_t conv2d_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)outputs;
    qn_conv2d_shape d;
    if (conv2d_shape(attributes, inputs, &d) != QN_OK)
        return 0;
    d.rules = kernels->rules;
    return kernels->conv2d_workspace(&d, QN_CONV2D_FORWARD, n_threads);
}

static void conv2d_run(const qn_call *call) {
    const conv2d_attributes *a = call->attributes;
    const void *bias = call->node->n_inputs > 2 ? call->in[2] : NULL;
    qn_conv2d_shape d;
    if (conv2d_shape(a, call->inputs, &d) != QN_OK)
        return;
    d.y_step = qn_call_out_step(call, 0);
    d.rules = call->kernels->rules;
    d.cuts = call->kernels->cuts;
    call->kernels->conv2d_forward(call->team, &d, call->in[0], call->in[1], bias, a->activation,
                                  call->out[0], call->workspace);
}

static void conv2d_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const conv2d_attributes *a = node->attributes;
    const qn_value x = node->inputs[0], filter = node->inputs[1];
    const qn_tensor inputs[] = {qn_graph_tensor(graph, x), qn_graph_tensor(graph, filter)};
    qn_conv2d_backward_attributes backward;
    if (conv2d_shape(a, inputs, &backward.shape) != QN_OK)
        return;
    const qn_value dy =
        qn_gradient_activation(graph, node, a->activation, node->outputs[0], gradient->outputs[0]);
    if (node->n_inputs > 2 && gradient->wanted[2])
        gradient->inputs[2] = qn_gradient_columns(graph, node, "backward_bias", dy);
    if (gradient->wanted[1])
        gradient->inputs[1] =
            qn_gradient_add(graph, node, "backward_filter", &qn_op_conv2d_backward_filter,
                            (qn_value[]){x, dy}, 2, &backward);
    if (gradient->wanted[0])
        gradient->inputs[0] =
            qn_gradient_add(graph, node, "backward_data", &qn_op_conv2d_backward_data,
                            (qn_value[]){dy, filter}, 2, &backward);
}

/* Odd extents; strides, uneven pads, dilation, groups, depthwise, and each with its activation. */
static const struct {
    int64_t n, h, w, c, k, r, s;
    qn_window window;
    int groups;
    bool has_bias;
    qn_activation_kind activation;
} samples[] = {
    {2,
     7,
     5,
     3,
     5,
     3,
     3,
     {.pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1},
     1,
     true,
     QN_ACTIVATION_NONE},
    {3,
     9,
     7,
     4,
     6,
     3,
     2,
     {.stride_h = 2, .stride_w = 3, .pad_top = 2, .pad_right = 1},
     2,
     false,
     QN_ACTIVATION_NONE},
    {1,
     9,
     11,
     2,
     3,
     3,
     3,
     {.dilation_h = 2, .dilation_w = 3, .pad_left = 4},
     1,
     true,
     QN_ACTIVATION_TANH},
    {2,
     6,
     7,
     5,
     5,
     3,
     3,
     {.stride_h = 2, .stride_w = 2, .pad_top = 1, .pad_left = 1, .pad_bottom = 1, .pad_right = 1},
     5,
     true,
     QN_ACTIVATION_NONE},
    {2, 5, 3, 7, 9, 1, 1, {0}, 1, true, QN_ACTIVATION_SIGMOID},
    {1,
     5,
     5,
     3,
     6,
     5,
     5,
     {.pad_top = 2, .pad_left = 2, .pad_bottom = 2, .pad_right = 2},
     3,
     false,
     QN_ACTIVATION_TANH},
};

static qn_value conv2d_sample(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(
        graph, "x",
        QN_SHAPE(samples[variant].n, samples[variant].h, samples[variant].w, samples[variant].c),
        1);
    qn_value filter =
        qn_sample_parameter(graph, "filter",
                            QN_SHAPE(samples[variant].k, samples[variant].r, samples[variant].s,
                                     samples[variant].c / samples[variant].groups),
                            0.5);
    qn_value bias = QN_NO_VALUE;
    if (samples[variant].has_bias)
        bias = qn_sample_parameter(graph, "bias", QN_SHAPE(samples[variant].k), 1);
    const conv2d_attributes attributes = {
        samples[variant].window, samples[variant].groups, {samples[variant].activation, 0}, 0};
    return qn_graph_add1(graph, &qn_op_conv2d, "y", (qn_value[]){x, filter, bias}, 3, &attributes);
}

const qn_op qn_op_conv2d = {
    .name = "conv2d",
    .attributes_bytes = sizeof(conv2d_attributes),
    .attributes = conv2d_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .optional_inputs = 1 << 2,
    .is_product = true,
    .infer = conv2d_infer,
    .gradient = conv2d_gradient,
    .cost = conv2d_cost,
    .workspace = conv2d_workspace,
    .run = conv2d_run,
    .takes_cut = true,
    .apart_outputs = 1 << 0,
    .cut = conv2d_cut,
    .n_samples = 6,
    .sample = conv2d_sample,
};

qn_value qn_conv2d(qn_graph *graph, const char *name, qn_value x, qn_value filter, qn_value bias,
                   qn_window window, int groups) {
    const conv2d_attributes attributes = {.window = window, .groups = groups ? groups : 1};
    return qn_graph_add1(graph, &qn_op_conv2d, name, (qn_value[]){x, filter, bias}, 3, &attributes);
}

/* ---- gradient: dx from dy and filter; dfilter from x and dy ---- */

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)inputs;
    (void)outputs;
    return product_cost(&((const qn_conv2d_backward_attributes *)attributes)->shape);
}

static qn_conv2d_shape backward_shape(const qn_kernels *kernels, const void *attributes) {
    qn_conv2d_shape d = ((const qn_conv2d_backward_attributes *)attributes)->shape;
    d.rules = kernels->rules;
    d.cuts = kernels->cuts;
    return d;
}

static qn_status backward_data_infer(qn_infer *infer) {
    const qn_conv2d_shape *d = &((const qn_conv2d_backward_attributes *)infer->attributes)->shape;
    QN_TRY(qn_infer_expect(infer, 0, "gradient", qn_conv2d_output(d)));
    QN_TRY(qn_infer_expect(infer, 1, "filter", qn_conv2d_filter(d)));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, qn_conv2d_input(d)};
    return QN_OK;
}

static size_t backward_data_workspace(const qn_kernels *kernels, const void *attributes,
                                      const qn_tensor *inputs, const qn_tensor *outputs,
                                      int n_threads) {
    (void)inputs;
    (void)outputs;
    const qn_conv2d_shape d = backward_shape(kernels, attributes);
    return kernels->conv2d_workspace(&d, QN_CONV2D_BACKWARD_DATA, n_threads);
}

static void backward_data_run(const qn_call *call) {
    qn_conv2d_shape d = backward_shape(call->kernels, call->attributes);
    d.y_step = qn_call_in_step(call, 0);
    call->kernels->conv2d_backward_data(call->team, &d, call->in[0], call->in[1], call->out[0],
                                        call->workspace);
}

const qn_op qn_op_conv2d_backward_data = {
    .name = "conv2d_backward_data",
    .attributes_bytes = sizeof(qn_conv2d_backward_attributes),
    .attributes = backward_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .infer = backward_data_infer,
    .cost = backward_cost,
    .workspace = backward_data_workspace,
    .run = backward_data_run,
    .takes_cut = true,
    .apart_inputs = 1 << 0,
    .cut = qn_cut_conv2d,
};

static qn_status backward_filter_infer(qn_infer *infer) {
    const qn_conv2d_shape *d = &((const qn_conv2d_backward_attributes *)infer->attributes)->shape;
    QN_TRY(qn_infer_expect(infer, 0, "input", qn_conv2d_input(d)));
    QN_TRY(qn_infer_expect(infer, 1, "gradient", qn_conv2d_output(d)));
    if (infer->n_inputs > 2)
        QN_TRY(qn_infer_expect(infer, 2, "sum", qn_conv2d_filter(d)));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, qn_conv2d_filter(d)};
    return QN_OK;
}

static size_t backward_filter_workspace(const qn_kernels *kernels, const void *attributes,
                                        const qn_tensor *inputs, const qn_tensor *outputs,
                                        int n_threads) {
    (void)inputs;
    (void)outputs;
    const qn_conv2d_shape d = backward_shape(kernels, attributes);
    return kernels->conv2d_workspace(&d, QN_CONV2D_BACKWARD_FILTER, n_threads);
}

static void backward_filter_run(const qn_call *call) {
    qn_conv2d_shape d = backward_shape(call->kernels, call->attributes);
    d.y_step = qn_call_in_step(call, 1);
    d.add = qn_call_goes_on(call, 2, 0);
    call->kernels->conv2d_backward_filter(call->team, &d, call->in[0], call->in[1], call->out[0],
                                          call->workspace);
}

static int64_t backward_filter_chunk(const qn_kernels *kernels, const void *attributes,
                                     const qn_tensor *inputs) {
    (void)inputs;
    const qn_conv2d_shape d = backward_shape(kernels, attributes);
    return kernels->conv2d_filter_chunk(&d);
}

const qn_op qn_op_conv2d_backward_filter = {
    .name = "conv2d_backward_filter",
    .attributes_bytes = sizeof(qn_conv2d_backward_attributes),
    .attributes = backward_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .infer = backward_filter_infer,
    .cost = backward_cost,
    .workspace = backward_filter_workspace,
    .run = backward_filter_run,
    .takes_cut = true,
    .in_place = 1 << 2,
    .apart_inputs = 1 << 1,
    .cut = qn_cut_conv2d,
    .chunk = backward_filter_chunk,
};
