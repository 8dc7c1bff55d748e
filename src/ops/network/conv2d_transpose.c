/* Transposed convolution of x (N, P, Q, K) with filter (K, R, S, C) -> y (N, H, W, C): a
 * convolution's gradient with respect to its data. Its own gradients are that convolution and the
 * gradient of its filter, so that all three share the convolution's kernels. */
#include "ops/network/convolution.h"
#include "ops/shared.h"

#include <stdio.h>

static const qn_attribute transpose_fields[] = {
    QN_FIELD(qn_conv2d_transpose_attributes, QN_ATTRIBUTE_WINDOW, window),
    {0},
};

/* (count - 1) * stride + dilation * (kernel - 1) + 1 - pads; 0 where that is none. */
static int64_t open_extent(int64_t count, int64_t kernel, int stride, int dilation, int pad_before,
                           int pad_after) {
    int64_t steps, reach;
    if (__builtin_mul_overflow(count - 1, stride ? stride : 1, &steps) ||
        __builtin_mul_overflow(kernel - 1, dilation ? dilation : 1, &reach) ||
        __builtin_add_overflow(steps, reach, &steps) || steps == INT64_MAX)
        return 0;
    steps += 1 - (int64_t)pad_before - pad_after;
    return steps > 0 ? steps : 0;
}

/* What it makes, which the convolution that it is the transpose of reads. */
static qn_shape output_of(const qn_window *w, qn_shape x, qn_shape filter) {
    return QN_SHAPE(x.dims[0],
                    open_extent(x.dims[1], filter.dims[1], w->stride_h, w->dilation_h, w->pad_top,
                                w->pad_bottom),
                    open_extent(x.dims[2], filter.dims[2], w->stride_w, w->dilation_w, w->pad_left,
                                w->pad_right),
                    filter.dims[3]);
}

qn_convolution qn_conv2d_transpose_of(const void *attributes, const qn_tensor *inputs) {
    const qn_window *w = &((const qn_conv2d_transpose_attributes *)attributes)->window;
    const qn_shape filter = inputs[1].shape;
    return qn_window_extents(w, output_of(w, inputs[0].shape, filter), filter.dims[0],
                             filter.dims[1], filter.dims[2], 1);
}

static qn_status check(const qn_conv2d_transpose_attributes *a, const qn_tensor *inputs,
                       qn_convolution *d) {
    const qn_window *w = &a->window;
    const qn_shape x = inputs[0].shape, filter = inputs[1].shape, y = output_of(w, x, filter);
    char x_text[QN_SHAPE_TEXT], filter_text[QN_SHAPE_TEXT];
    if (y.dims[1] < 1 || y.dims[2] < 1)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "filter %s with pads %d, %d, %d, %d leaves nothing of input %s",
                       qn_shape_print(filter, filter_text), w->pad_top, w->pad_left, w->pad_bottom,
                       w->pad_right, qn_shape_print(x, x_text));
    return qn_window_apply(w, y, filter.dims[0], filter.dims[1], filter.dims[2], 1, d);
}

static qn_status transpose_infer(qn_infer *infer) {
    const qn_tensor *in = infer->inputs;
    qn_convolution d;
    QN_TRY(qn_infer_rank(infer, 0, 4, "(N, P, Q, K)"));
    QN_TRY(qn_infer_rank(infer, 1, 4, "a filter (K, R, S, C)"));
    if (in[0].shape.dims[3] != in[1].shape.dims[0])
        return qn_fail(QN_ERROR_ARGUMENT, "the filter is for %lld channels, the input has %lld",
                       (long long)in[1].shape.dims[0], (long long)in[0].shape.dims[3]);
    QN_TRY(check(infer->attributes, in, &d));
    infer->outputs[0] = (qn_tensor){in[0].dtype, qn_conv2d_input(&d)};
    return QN_OK;
}

static qn_cost transpose_cost(const void *attributes, const qn_tensor *inputs,
                              const qn_tensor *outputs) {
    const qn_shape x = inputs[0].shape, filter = inputs[1].shape;
    (void)attributes;
    (void)outputs;
    return (qn_cost){.flops = 2 * x.dims[0] * x.dims[1] * x.dims[2] * qn_shape_count(filter)};
}

static void transpose_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    const qn_value x = node->inputs[0], filter = node->inputs[1], dy = gradient->outputs[0];
    const qn_tensor inputs[] = {qn_graph_tensor(graph, x), qn_graph_tensor(graph, filter)};
    const qn_conv2d_backward_attributes backward = {
        .shape = qn_conv2d_transpose_of(node->attributes, inputs)};
    char name[1024];
    if (gradient->wanted[1])
        gradient->inputs[1] =
            qn_gradient_add(graph, node, "backward_filter", &qn_op_conv2d_backward_filter,
                            (qn_value[]){dy, x}, 2, &backward);
    snprintf(name, sizeof name, "%s.backward_data", node->name);
    if (gradient->wanted[0])
        gradient->inputs[0] =
            qn_conv2d(graph, qn_graph_unique(graph, name, false), dy, filter, QN_NO_VALUE,
                      ((const qn_conv2d_transpose_attributes *)node->attributes)->window, 1);
}

/* Odd extents; strides, uneven pads and dilation; from one pixel; the whole of a dense layer. */
static const struct {
    qn_shape x, filter;
    qn_window window;
} samples[] = {
    {{4, {2, 4, 3, 5}}, {4, {5, 3, 3, 3}}, {.pad_top = 1, .pad_left = 1, .pad_right = 1}},
    {{4, {3, 3, 2, 4}}, {4, {4, 4, 4, 6}}, {0, 0, 2, 2, 1, 1, 1, 1, 0, 0}},
    {{4, {2, 3, 2, 3}}, {4, {3, 3, 2, 5}}, {0, 0, 2, 3, 0, 1, 1, 0, 0, 0}},
    {{4, {1, 2, 3, 4}}, {4, {4, 3, 3, 2}}, {0, 0, 0, 0, 0, 2, 0, 0, 2, 3}},
    {{4, {3, 1, 1, 7}}, {4, {7, 4, 3, 5}}, {0}},
};

static qn_value transpose_sample(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(graph, "x", samples[variant].x, 1);
    qn_value filter = qn_sample_parameter(graph, "filter", samples[variant].filter, 0.5);
    return qn_conv2d_transpose(graph, "y", x, filter, QN_NO_VALUE, samples[variant].window);
}

const qn_op qn_op_conv2d_transpose = {
    .name = "conv2d_transpose",
    .attributes_bytes = sizeof(qn_conv2d_transpose_attributes),
    .attributes = transpose_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .is_product = true,
    .is_convolution = true,
    .infer = transpose_infer,
    .gradient = transpose_gradient,
    .cost = transpose_cost,
    .n_samples = 5,
    .sample = transpose_sample,
};

qn_value qn_conv2d_transpose(qn_graph *graph, const char *name, qn_value x, qn_value filter,
                             qn_value bias, qn_window window) {
    const qn_conv2d_transpose_attributes attributes = {window};
    char product[1024];
    if (bias.id < 0)
        return qn_graph_add1(graph, &qn_op_conv2d_transpose, name, (qn_value[]){x, filter}, 2,
                             &attributes);
    snprintf(product, sizeof product, "%s.product", name ? name : "");
    x = qn_graph_add1(graph, &qn_op_conv2d_transpose, name ? product : NULL,
                      (qn_value[]){x, filter}, 2, &attributes);
    return qn_bias(graph, name, x, bias);
}
