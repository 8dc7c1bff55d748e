/* Mean of each window of x (N, H, W, C), with or without the zeros of the padding -> (N, P, Q, C);
 * and the mean over all of H and W -> (N, C), a window as large as the image. */
#include "ops/network/pool.h"
#include "ops/shared.h"

static const qn_attribute pool_fields[] = {
    QN_FIELD(qn_average_pool_attributes, QN_ATTRIBUTE_WINDOW, window),
    QN_FIELD(qn_average_pool_attributes, QN_ATTRIBUTE_BOOL, inside),
    {0},
};

typedef qn_conv2d_backward_attributes backward_attributes;

static const qn_attribute backward_fields[] = {
    QN_FIELD(backward_attributes, QN_ATTRIBUTE_CONV2D, shape),
    {0},
};

qn_status qn_average_pool_of(const void *attributes, qn_shape x, qn_convolution *d) {
    const qn_average_pool_attributes *a = attributes;
    const qn_window *w = &a->window;
    QN_TRY(qn_window_apply(w, x, x.dims[3], w->kernel_h, w->kernel_w, 1, d));
    d->inside = a->inside;
    return QN_OK;
}

static qn_status pool_infer(qn_infer *infer) {
    qn_convolution d;
    QN_TRY(qn_infer_rank(infer, 0, 4, "(N, H, W, C)"));
    QN_TRY(qn_average_pool_of(infer->attributes, infer->inputs[0].shape, &d));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, qn_conv2d_output(&d)};
    return QN_OK;
}

static qn_cost pool_cost(const void *attributes, const qn_tensor *inputs,
                         const qn_tensor *outputs) {
    (void)inputs;
    const qn_window *w = &((const qn_average_pool_attributes *)attributes)->window;
    return qn_cost_elements((int64_t)w->kernel_h * w->kernel_w, outputs);
}

static void add_backward(qn_graph *graph, const qn_gradient *gradient, const qn_convolution *d) {
    const backward_attributes backward = {*d};
    gradient->inputs[0] =
        qn_gradient_add(graph, gradient->node, "backward", &qn_op_average_pool_backward,
                        &gradient->outputs[0], 1, &backward);
}

static void pool_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_node *node = gradient->node;
    qn_convolution d;
    if (qn_average_pool_of(node->attributes, qn_graph_shape(graph, node->inputs[0]), &d) == QN_OK)
        add_backward(graph, gradient, &d);
}

static qn_value pool_sample(qn_graph *graph, int variant) {
    static const qn_window windows[] = {
        {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2},
        {.kernel_h = 3,
         .kernel_w = 3,
         .stride_h = 2,
         .stride_w = 1,
         .pad_top = 1,
         .pad_left = 1,
         .pad_bottom = 1,
         .pad_right = 1},
    };
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(3, 7, 5, 3), 1);
    return variant < 2 ? qn_average_pool(graph, "y", x, windows[variant])
                       : qn_average_pool_inside(graph, "y", x, windows[1]);
}

const qn_op qn_op_average_pool = {
    .name = "average_pool",
    .attributes_bytes = sizeof(qn_average_pool_attributes),
    .attributes = pool_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .halves = 1 << 0,
    .infer = pool_infer,
    .gradient = pool_gradient,
    .cost = pool_cost,
    .strided_outputs = 1 << 0,
    .n_samples = 3,
    .sample = pool_sample,
};

qn_value qn_average_pool(qn_graph *graph, const char *name, qn_value x, qn_window window) {
    const qn_average_pool_attributes attributes = {window, false};
    return qn_graph_add1(graph, &qn_op_average_pool, name, &x, 1, &attributes);
}

qn_value qn_average_pool_inside(qn_graph *graph, const char *name, qn_value x, qn_window window) {
    const qn_average_pool_attributes attributes = {window, true};
    return qn_graph_add1(graph, &qn_op_average_pool, name, &x, 1, &attributes);
}

/* ---- gradient: dx from dy ---- */

static qn_status backward_infer(qn_infer *infer) {
    const qn_convolution *d = &((const backward_attributes *)infer->attributes)->shape;
    const bool is_global = infer->inputs[0].shape.rank == 2 && d->p == 1 && d->q == 1;
    QN_TRY(qn_infer_expect(infer, 0, "gradient",
                           is_global ? QN_SHAPE(d->n, d->k) : qn_conv2d_output(d)));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, qn_conv2d_input(d)};
    return QN_OK;
}

static qn_cost backward_cost(const void *attributes, const qn_tensor *inputs,
                             const qn_tensor *outputs) {
    (void)outputs;
    const qn_convolution *d = &((const backward_attributes *)attributes)->shape;
    return qn_cost_elements(d->r * d->s, inputs);
}

const qn_op qn_op_average_pool_backward = {
    .name = "average_pool_backward",
    .attributes_bytes = sizeof(backward_attributes),
    .attributes = backward_fields,
    .min_inputs = 1,
    .max_inputs = 1,
    .halves = 1 << 0,
    .infer = backward_infer,
    .cost = backward_cost,
    .strided_inputs = 1 << 0,
    .split = qn_split_conv2d,
};

/* ---- global: one window as large as the image ---- */

qn_convolution qn_global_pool_of(qn_shape x) {
    return (qn_convolution){
        .n = x.dims[0],
        .h = x.dims[1],
        .w = x.dims[2],
        .c = x.dims[3],
        .k = x.dims[3],
        .r = x.dims[1],
        .s = x.dims[2],
        .p = 1,
        .q = 1,
        .stride_h = 1,
        .stride_w = 1,
        .dilation_h = 1,
        .dilation_w = 1,
        .groups = 1,
    };
}

static qn_status global_infer(qn_infer *infer) {
    const qn_shape x = infer->inputs[0].shape;
    QN_TRY(qn_infer_rank(infer, 0, 4, "(N, H, W, C)"));
    infer->outputs[0] = (qn_tensor){infer->inputs[0].dtype, QN_SHAPE(x.dims[0], x.dims[3])};
    return QN_OK;
}

static qn_cost global_cost(const void *attributes, const qn_tensor *inputs,
                           const qn_tensor *outputs) {
    (void)attributes;
    (void)outputs;
    return qn_cost_elements(1, inputs);
}

static void global_gradient(qn_graph *graph, const qn_gradient *gradient) {
    const qn_convolution d = qn_global_pool_of(qn_graph_shape(graph, gradient->node->inputs[0]));
    add_backward(graph, gradient, &d);
}

static qn_value global_sample(qn_graph *graph, int variant) {
    (void)variant;
    return qn_global_average_pool(graph, "y",
                                  qn_sample_parameter(graph, "x", QN_SHAPE(3, 5, 7, 3), 1));
}

const qn_op qn_op_global_average_pool = {
    .name = "global_average_pool",
    .min_inputs = 1,
    .max_inputs = 1,
    .halves = 1 << 0,
    .infer = global_infer,
    .gradient = global_gradient,
    .cost = global_cost,
    .strided_outputs = 1 << 0,
    .n_samples = 1,
    .sample = global_sample,
};

qn_value qn_global_average_pool(qn_graph *graph, const char *name, qn_value x) {
    return qn_graph_add1(graph, &qn_op_global_average_pool, name, &x, 1, NULL);
}
