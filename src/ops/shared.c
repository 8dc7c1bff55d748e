/* See shared.h. */
#include "ops/shared.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

const qn_attribute qn_activation_fields[] = {
    QN_FIELD(qn_activation_attributes, QN_ATTRIBUTE_ACTIVATION, activation),
    {0},
};

qn_status qn_infer_elementwise(qn_infer *infer) {
    for (int i = 1; i < infer->n_inputs; i++) {
        if (infer->inputs[i].dtype != QN_NONE)
            QN_TRY(qn_infer_expect(infer, i, "input", infer->inputs[0].shape));
    }
    infer->outputs[0] = infer->inputs[0];
    return QN_OK;
}

qn_status qn_infer_expect(const qn_infer *infer, int i, const char *what, qn_shape shape) {
    char is[QN_SHAPE_TEXT], wanted[QN_SHAPE_TEXT];
    if (qn_shape_equal(infer->inputs[i].shape, shape))
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "%s is %s, but %s is needed beside input %s", what,
                   qn_shape_print(infer->inputs[i].shape, is), qn_shape_print(shape, wanted),
                   qn_shape_print(infer->inputs[0].shape, (char[QN_SHAPE_TEXT]){0}));
}

qn_status qn_infer_rank(const qn_infer *infer, int i, int rank, const char *axes) {
    char is[QN_SHAPE_TEXT];
    if (infer->inputs[i].shape.rank == rank)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "input %d is %s, but %s is needed", i,
                   qn_shape_print(infer->inputs[i].shape, is), axes);
}

qn_status qn_infer_dtype(const qn_infer *infer, int i, qn_dtype dtype) {
    if (infer->inputs[i].dtype == dtype)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "input %d is %s, but %s is needed", i,
                   qn_dtype_name(infer->inputs[i].dtype), qn_dtype_name(dtype));
}

qn_status qn_infer_real_half_or_i8(const qn_infer *infer, int i) {
    const qn_dtype type = infer->inputs[i].dtype;
    if (qn_dtype_is_real(type) || qn_dtype_is_half(type) || type == QN_I8)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "input %d is %s, but f32, f64, bf16, f16 or i8 is needed", i,
                   qn_dtype_name(type));
}

qn_status qn_infer_activation(qn_infer *infer) {
    const qn_activation_attributes *a = infer->attributes;
    QN_TRY(qn_infer_real_half_or_i8(infer, 0));
    for (int i = 1; i < infer->n_inputs; i++)
        QN_TRY(qn_infer_dtype(infer, i, infer->inputs[0].dtype));
    if (infer->inputs[0].dtype == QN_I8 && a->activation.kind != QN_ACTIVATION_RELU)
        return qn_fail(QN_ERROR_ARGUMENT, "i8 has no activation but relu");
    return qn_infer_elementwise(infer);
}

qn_status qn_infer_product(const qn_infer *infer, qn_activation_kind activation, qn_dtype *result) {
    const qn_dtype type = infer->inputs[0].dtype;
    const bool is_half = qn_dtype_is_half(type);
    if (!qn_dtype_is_real(type) && !is_half && type != QN_I8)
        return qn_fail(QN_ERROR_ARGUMENT, "input 0 is %s, but f32, f64, bf16, f16 or i8 is needed",
                       qn_dtype_name(type));
    QN_TRY(qn_infer_dtype(infer, 1, type));
    *result = type == QN_I8 ? QN_I32 : type;
    if (infer->n_inputs > 2 && infer->inputs[2].dtype != QN_NONE)
        QN_TRY(qn_infer_dtype(infer, 2, is_half ? QN_F32 : *result));
    if (!qn_dtype_is_real(type) && activation != QN_ACTIVATION_NONE &&
        activation != QN_ACTIVATION_RELU)
        return qn_fail(QN_ERROR_ARGUMENT, "products of %s have no activation but relu",
                       qn_dtype_name(type));
    return QN_OK;
}

qn_status qn_infer_sums(const qn_infer *infer, qn_dtype *result) {
    QN_TRY(qn_infer_product(infer, QN_ACTIVATION_NONE, result));
    if (qn_dtype_is_half(*result))
        *result = QN_F32;
    return QN_OK;
}

int64_t qn_shape_columns(qn_shape shape) {
    return shape.rank > 0 ? shape.dims[shape.rank - 1] : 1;
}

int64_t qn_shape_rows(qn_shape shape) {
    return shape.rank > 0 ? qn_shape_count_range(shape, 0, shape.rank - 1) : 1;
}

/* Output extent of one axis, or 0 where the window does not fit. */
static int64_t window_extent(int64_t input, int64_t kernel, int64_t stride, int64_t dilation,
                             int64_t before, int64_t after) {
    const int64_t reach = dilation * (kernel - 1);
    if (before > reach || after > reach || input + before + after <= reach)
        return 0;
    return (input + before + after - reach - 1) / stride + 1;
}

qn_convolution qn_window_extents(const qn_window *w, qn_shape input, int64_t k, int64_t r,
                                 int64_t s, int64_t groups) {
    qn_convolution d = {
        .n = input.dims[0],
        .h = input.dims[1],
        .w = input.dims[2],
        .c = input.dims[3],
        .k = k,
        .r = r,
        .s = s,
        .stride_h = w->stride_h ? w->stride_h : 1,
        .stride_w = w->stride_w ? w->stride_w : 1,
        .pad_top = w->pad_top,
        .pad_left = w->pad_left,
        .dilation_h = w->dilation_h ? w->dilation_h : 1,
        .dilation_w = w->dilation_w ? w->dilation_w : 1,
        .groups = groups,
    };
    d.p = window_extent(d.h, r, d.stride_h, d.dilation_h, w->pad_top, w->pad_bottom);
    d.q = window_extent(d.w, s, d.stride_w, d.dilation_w, w->pad_left, w->pad_right);
    return d;
}

qn_status qn_window_apply(const qn_window *w, qn_shape input, int64_t k, int64_t r, int64_t s,
                          int64_t groups, qn_convolution *d) {
    char text[QN_SHAPE_TEXT];
    if (w->stride_h < 0 || w->stride_w < 0 || w->dilation_h < 0 || w->dilation_w < 0 ||
        w->pad_top < 0 || w->pad_left < 0 || w->pad_bottom < 0 || w->pad_right < 0 || r < 1 ||
        s < 1 || r > INT_MAX || s > INT_MAX)
        return qn_fail(QN_ERROR_ARGUMENT, "a window has a kernel of %lldx%lld, or negative numbers",
                       (long long)r, (long long)s);
    *d = qn_window_extents(w, input, k, r, s, groups);
    if (d->p < 1 || d->q < 1)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a %lldx%lld window with pads %d, %d, %d, %d does not fit input %s, or lies "
                       "in its padding",
                       (long long)r, (long long)s, w->pad_top, w->pad_left, w->pad_bottom,
                       w->pad_right, qn_shape_print(input, text));
    return QN_OK;
}

qn_shape qn_conv2d_input(const qn_convolution *d) {
    return QN_SHAPE(d->n, d->h, d->w, d->c);
}

qn_shape qn_conv2d_filter(const qn_convolution *d) {
    return QN_SHAPE(d->k, d->r, d->s, d->c / d->groups);
}

qn_shape qn_conv2d_output(const qn_convolution *d) {
    return QN_SHAPE(d->n, d->p, d->q, d->k);
}

int qn_scaled_by_first(const void *attributes) {
    (void)attributes;
    return 0;
}

bool qn_is_always(const void *attributes) {
    (void)attributes;
    return true;
}

void qn_split_shape(int64_t pieces, qn_shape *shape) {
    if (shape->rank > 0 && shape->dims[0] % pieces == 0)
        shape->dims[0] /= pieces;
}

void qn_split_conv2d(const qn_graph *graph, const qn_node *node, int64_t piece, int64_t pieces,
                     void *attributes) {
    qn_convolution *d = &((qn_conv2d_backward_attributes *)attributes)->shape;
    (void)graph;
    (void)node;
    (void)piece;
    d->batch = d->n;
    d->n /= pieces;
}

qn_cost qn_cost_elements(int64_t flops_each, const qn_tensor *outputs) {
    return (qn_cost){.flops = flops_each * qn_shape_count(outputs[0].shape)};
}

qn_value qn_gradient_add(qn_graph *graph, const qn_node *node, const char *suffix, const qn_op *op,
                         const qn_value *inputs, int n_inputs, const void *attributes) {
    char name[1024];
    snprintf(name, sizeof name, "%s.%s", node->name, suffix);
    const char *unique = qn_graph_unique(graph, name, false);
    return qn_graph_add1(graph, op, unique, inputs, n_inputs, attributes);
}

qn_value qn_gradient_activation(qn_graph *graph, const qn_node *node, qn_activation activation,
                                qn_value y, qn_value dy) {
    if (activation.kind == QN_ACTIVATION_NONE)
        return dy;
    const qn_activation_attributes attributes = {activation};
    return qn_gradient_add(graph, node, "backward_activation", &qn_op_activation_backward,
                           (qn_value[]){y, dy}, 2, &attributes);
}

qn_value qn_gradient_columns(qn_graph *graph, const qn_node *node, const char *suffix,
                             qn_value dy) {
    return qn_gradient_add(graph, node, suffix, &qn_op_column_sum, &dy, 1, NULL);
}

qn_value qn_sample_parameter(qn_graph *graph, const char *name, qn_shape shape, double scale) {
    return qn_parameter(graph, name, shape, (qn_initial){QN_INITIAL_UNIFORM, scale}, true);
}
