/* Largest element of each window of x (N, H, W, C) -> y (N, P, Q, C), and its position in the
 * window (N, P, Q, C), which the gradient needs. */
#include "ops/network/pool.h"
#include "ops/shared.h"

static const qn_attribute pool_fields[] = {
    QN_FIELD(qn_max_pool_attributes, QN_ATTRIBUTE_WINDOW, window),
    {0},
};

typedef qn_conv2d_backward_attributes backward_attributes;

static const qn_attribute backward_fields[] = {
    QN_FIELD(backward_attributes, QN_ATTRIBUTE_CONV2D, shape),
    {0},
};

qn_status qn_max_pool_of(const void *attributes, qn_shape x, qn_convolution *d) {
    const qn_window *w = &((const qn_max_pool_attributes *)attributes)->window;
    return qn_window_apply(w, x, x.dims[3], w->kernel_h, w->kernel_w, 1, d);
}

static qn_status pool_infer(qn_infer *infer) {
    qn_convolution d;
    QN_TRY(qn_infer_real_half_or_i8(infer, 0));
    QN_TRY(qn_infer_rank(infer, 0, 4, "(N, H, W, C)"));
    QN_TRY(qn_max_pool_of(infer->attributes, infer->inputs[0].shape, &d));
    if (d.r * d.s > UINT16_MAX + 1)
        return qn_fail(QN_ERROR_UNSUPPORTED, "a %lldx%lld window has more than 65536 places",
                       (long long)d.r, (long long)d.s);
    infer->n_outputs = 2;
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, qn_conv2d_output(&d)};
    infer->outputs[1] = (qn_tensor){QN_U16, qn_conv2d_output(&d)};
    return QN_OK;
}

static qn_cost pool_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)inputs;
    const qn_window *w = &((const qn_max_pool_attributes *)attributes)->window;
    return qn_cost_elements((int64_t)w->kernel_h * w->kernel_w, outputs);
}

static void pool_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    backward_attributes backward;
    if (qn_max_pool_of(node->attributes, qn_graph_shape(graph, node->inputs[0]), &backward.shape) !=
        QN_OK)
        return;
    gradient->inputs[0] =
        qn_gradient_add(graph, node, "backward", &qn_op_max_pool_backward,
                        (qn_value[]){gradient->outputs[0], node->outputs[1]}, 2, &backward);
}

static qn_value pool_sample(qn_graph *graph, int variant) {
    static const qn_window windows[] = {
        {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2},
        {.kernel_h = 3,
         .kernel_w = 3,
         .stride_h = 2,
         .stride_w = 2,
         .pad_top = 1,
         .pad_left = 1,
         .pad_bottom = 1,
         .pad_right = 1},
        {.kernel_h = 3, .kernel_w = 2, .stride_h = 1, .stride_w = 3, .pad_top = 2, .pad_right = 1},
    };
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(2, 7, 9, 3), 1);
    return qn_max_pool(graph, "y", x, windows[variant]);
}

const qn_op qn_op_max_pool = {
    .name = "max_pool",
    .attributes_bytes = sizeof(qn_max_pool_attributes),
    .attributes = pool_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .any_type_inputs = 1 << 0,
    .halves = 1 << 0,
    .output_names = {NULL, "index"},
    .infer = pool_infer,
    .gradient = pool_gradient,
    .cost = pool_cost,
    .strided_outputs = 1 << 0,
    .scaled_by = qn_scaled_by_first,
    .n_samples = 3,
    .sample = pool_sample,
};

qn_value qn_max_pool(qn_graph *graph, const char *name, qn_value x, qn_window window) {
    const qn_max_pool_attributes attributes = {window};
    return qn_graph_add1(graph, &qn_op_max_pool, name, &x, 1, &attributes);
}

/* ---- gradient: dx from dy and index ---- */

static qn_status backward_infer(qn_infer *infer) {
    const qn_convolution *d = &((const backward_attributes *)infer->attributes)->shape;
    QN_TRY(qn_infer_real_half_or_i8(infer, 0));
    QN_TRY(qn_infer_dtype(infer, 1, QN_U16));
    QN_TRY(qn_infer_expect(infer, 0, "gradient", qn_conv2d_output(d)));
    QN_TRY(qn_infer_expect(infer, 1, "index", qn_conv2d_output(d)));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, qn_conv2d_input(d)};
    return QN_OK;
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)outputs;
    const qn_convolution *d = &((const backward_attributes *)attributes)->shape;
    return qn_cost_elements(d->r * d->s, inputs);
}

const qn_op qn_op_max_pool_backward = {
    .name = "max_pool_backward",
    .attributes_bytes = sizeof(backward_attributes),
    .attributes = backward_fields,
    .min_inputs = 2,
    .max_inputs = 2,
    .any_type_inputs = 3,
    .halves = 1 << 0,
    .infer = backward_infer,
    .cost = backward_cost,
    .strided_inputs = 1 << 0,
    .scaled_by = qn_scaled_by_first,
    .split = qn_split_conv2d,
};
