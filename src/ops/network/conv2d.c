/* Convolution of x (N, H, W, C) with filter (K, R, S, C / groups) and bias (K), followed by an
 * activation -> y (N, P, Q, K), and the two products of its gradient. */
#include "ops/network/convolution.h"
#include "ops/shared.h"

static const qn_attribute conv2d_fields[] = {
    QN_FIELD(qn_conv2d_attributes, QN_ATTRIBUTE_WINDOW, window),
    QN_FIELD(qn_conv2d_attributes, QN_ATTRIBUTE_INT, groups),
    QN_FIELD(qn_conv2d_attributes, QN_ATTRIBUTE_ACTIVATION, activation),
    QN_FIELD(qn_conv2d_attributes, QN_ATTRIBUTE_INT64, batch),
    {0},
};

static const qn_attribute backward_fields[] = {
    QN_FIELD(qn_conv2d_backward_attributes, QN_ATTRIBUTE_CONV2D, shape),
    {0},
};

qn_convolution qn_conv2d_of(const void *attributes, const qn_tensor *inputs) {
    const qn_conv2d_attributes *a = attributes;
    const qn_shape filter = inputs[1].shape;
    qn_convolution d = qn_window_extents(&a->window, inputs[0].shape, filter.dims[0],
                                         filter.dims[1], filter.dims[2], a->groups);
    d.batch = a->batch;
    return d;
}

qn_status qn_conv2d_check(const void *attributes, const qn_tensor *inputs, qn_convolution *d) {
    const qn_conv2d_attributes *a = attributes;
    const qn_shape x = inputs[0].shape, filter = inputs[1].shape;
    QN_TRY(qn_window_apply(&a->window, x, filter.dims[0], filter.dims[1], filter.dims[2], a->groups,
                           d));
    d->batch = a->batch;
    return QN_OK;
}

static void conv2d_split(const qn_graph *graph, const qn_node *node, int64_t piece, int64_t pieces,
                         void *attributes) {
    (void)piece;
    (void)pieces;
    ((qn_conv2d_attributes *)attributes)->batch = qn_graph_shape(graph, node->inputs[0]).dims[0];
}

static qn_status conv2d_infer(qn_infer *infer) {
    const qn_conv2d_attributes *a = infer->attributes;
    const qn_shape x = infer->inputs[0].shape, filter = infer->inputs[1].shape;
    char x_text[QN_SHAPE_TEXT], filter_text[QN_SHAPE_TEXT];
    qn_convolution d;
    qn_dtype type;
    QN_TRY(qn_infer_product(infer, a->activation.kind, &type));
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
    QN_TRY(qn_conv2d_check(a, infer->inputs, &d));
    if (infer->n_inputs > 2 && infer->inputs[2].dtype != QN_NONE)
        QN_TRY(qn_infer_expect(infer, 2, "bias", QN_SHAPE(d.k)));
    infer->outputs[0] = (qn_tensor){type, qn_conv2d_output(&d)};
    return QN_OK;
}

static qn_cost product_cost(const qn_convolution *d) {
    return (qn_cost){.flops = 2 * d->n * d->p * d->q * d->k * d->r * d->s * (d->c / d->groups)};
}

static qn_cost conv2d_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)outputs;
    const qn_convolution d = qn_conv2d_of(attributes, inputs);
    return product_cost(&d);
}

/* The gradient to the filter, or to the part of it that is trained: some input channels, or, of a
 * depthwise convolution, some channels of both sides. */
static qn_value filter_gradient(qn_graph *graph, const qn_node *node, qn_value dy,
                                qn_conv2d_backward_attributes backward) {
    qn_value x = node->inputs[0], channels;
    if (qn_part_find(graph, node, &x, &channels)) {
        qn_convolution *d = &backward.shape;
        const bool is_depthwise = d->groups > 1;
        d->c = qn_graph_shape(graph, x).dims[3];
        if (is_depthwise) {
            d->groups = d->k = d->c;
            dy = qn_op_take(graph, NULL, dy, 3, channels);
        }
    }
    return qn_gradient_add(graph, node, "backward_filter", &qn_op_conv2d_backward_filter,
                           (qn_value[]){x, dy}, 2, &backward);
}

static void conv2d_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_conv2d_attributes *a = node->attributes;
    const qn_value x = node->inputs[0], filter = node->inputs[1];
    const qn_tensor inputs[] = {qn_graph_tensor(graph, x), qn_graph_tensor(graph, filter)};
    const qn_conv2d_backward_attributes backward = {.shape = qn_conv2d_of(a, inputs)};
    const qn_value dy =
        qn_gradient_activation(graph, node, a->activation, node->outputs[0], gradient->outputs[0]);
    if (node->n_inputs > 2 && gradient->wanted[2])
        gradient->inputs[2] = qn_gradient_columns(graph, node, "backward_bias", dy);
    if (gradient->wanted[1])
        gradient->inputs[1] = filter_gradient(graph, node, dy, backward);
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
    const qn_conv2d_attributes attributes = {
        samples[variant].window, samples[variant].groups, {samples[variant].activation, 0}, 0};
    return qn_graph_add1(graph, &qn_op_conv2d, "y", (qn_value[]){x, filter, bias}, 3, &attributes);
}

const qn_op qn_op_conv2d = {
    .name = "conv2d",
    .attributes_bytes = sizeof(qn_conv2d_attributes),
    .attributes = conv2d_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .optional_inputs = 1 << 2,
    .any_type_inputs = QN_PRODUCT_INPUTS,
    .is_product = true,
    .is_convolution = true,
    .is_linear = true,
    .trains_parts = true,
    .infer = conv2d_infer,
    .gradient = conv2d_gradient,
    .cost = conv2d_cost,
    .strided_outputs = 1 << 0,
    .split = conv2d_split,
    .n_samples = 6,
    .sample = conv2d_sample,
};

qn_value qn_conv2d(qn_graph *graph, const char *name, qn_value x, qn_value filter, qn_value bias,
                   qn_window window, int groups) {
    const qn_conv2d_attributes attributes = {.window = window, .groups = groups ? groups : 1};
    return qn_graph_add1(graph, &qn_op_conv2d, name, (qn_value[]){x, filter, bias}, 3, &attributes);
}

/* ---- gradient: dx from dy and filter; dfilter from x and dy ---- */

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)inputs;
    (void)outputs;
    return product_cost(&((const qn_conv2d_backward_attributes *)attributes)->shape);
}

static qn_status backward_data_infer(qn_infer *infer) {
    const qn_convolution *d = &((const qn_conv2d_backward_attributes *)infer->attributes)->shape;
    qn_dtype type;
    QN_TRY(qn_infer_product(infer, QN_ACTIVATION_NONE, &type));
    QN_TRY(qn_infer_expect(infer, 0, "gradient", qn_conv2d_output(d)));
    QN_TRY(qn_infer_expect(infer, 1, "filter", qn_conv2d_filter(d)));
    infer->outputs[0] = (qn_tensor){type, qn_conv2d_input(d)};
    return QN_OK;
}

const qn_op qn_op_conv2d_backward_data = {
    .name = "conv2d_backward_data",
    .attributes_bytes = sizeof(qn_conv2d_backward_attributes),
    .attributes = backward_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = QN_PRODUCT_INPUTS,
    .infer = backward_data_infer,
    .cost = backward_cost,
    .strided_inputs = 1 << 0,
    .split = qn_split_conv2d,
};

static qn_status backward_filter_infer(qn_infer *infer) {
    const qn_convolution *d = &((const qn_conv2d_backward_attributes *)infer->attributes)->shape;
    qn_dtype type;
    QN_TRY(qn_infer_sums(infer, &type));
    QN_TRY(qn_infer_expect(infer, 0, "input", qn_conv2d_input(d)));
    QN_TRY(qn_infer_expect(infer, 1, "gradient", qn_conv2d_output(d)));
    if (infer->n_inputs > 2)
        QN_TRY(qn_infer_expect(infer, 2, "sum", qn_conv2d_filter(d)));
    infer->outputs[0] = (qn_tensor){type, qn_conv2d_filter(d)};
    return QN_OK;
}

const qn_op qn_op_conv2d_backward_filter = {
    .name = "conv2d_backward_filter",
    .sums_batch = true,
    .attributes_bytes = sizeof(qn_conv2d_backward_attributes),
    .attributes = backward_fields,
    .min_inputs = 2,
    .max_inputs = 3,
    .any_type_inputs = QN_PRODUCT_INPUTS,
    .infer = backward_filter_infer,
    .cost = backward_cost,
    .in_place = 1 << 2,
    .strided_inputs = 1 << 1,
    .split = qn_split_conv2d,
};
