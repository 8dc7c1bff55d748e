/* Calls as works of the DSP. A row for each operator that it does says how its attributes and
 * shapes become numbers of a work; places follow. */
#include "device/cpu/cpu.h"
#include "driver/hexagon/state.h"
#include "ops/network/convolution.h"
#include "ops/network/pool.h"
#include "ops/rescaled.h"
#include "ops/shared.h"

#include <string.h>

enum {
    MOST_TAPS = 100,        /* of a pool: their numbers are bytes, and sums of int8 fit int16 */
    MOST_NUMBERS = 1 << 28, /* of a tensor */
    MOST_SCRATCH = 1 << 29, /* bytes */
};

typedef bool describe_window(const void *attributes, const qn_tensor *inputs, qn_convolution *c);

/* ---- windows ---- */

static bool linear_window(const void *attributes, const qn_tensor *inputs, qn_convolution *c) {
    (void)attributes;
    const qn_shape x = inputs[0].shape, w = inputs[1].shape;
    *c = (qn_convolution){.n = x.dims[0], .c = x.dims[1], .k = w.dims[0]};
    return x.rank == 2;
}

static bool linear_data_window(const void *attributes, const qn_tensor *inputs, qn_convolution *c) {
    (void)attributes;
    const qn_shape dy = inputs[0].shape, w = inputs[1].shape;
    *c = (qn_convolution){.n = dy.dims[0], .c = w.dims[1], .k = w.dims[0]};
    return dy.rank == 2;
}

static bool linear_weight_window(const void *attributes, const qn_tensor *inputs,
                                 qn_convolution *c) {
    (void)attributes;
    const qn_shape x = inputs[0].shape, dy = inputs[1].shape;
    *c = (qn_convolution){.n = x.dims[0], .c = x.dims[1], .k = dy.dims[1]};
    return x.rank == 2;
}

static bool conv2d_window(const void *attributes, const qn_tensor *inputs, qn_convolution *c) {
    *c = qn_conv2d_of(attributes, inputs);
    return true;
}

static bool backward_window(const void *attributes, const qn_tensor *inputs, qn_convolution *c) {
    (void)inputs;
    *c = ((const qn_conv2d_backward_attributes *)attributes)->shape;
    return true;
}

static bool max_pool_window(const void *attributes, const qn_tensor *inputs, qn_convolution *c) {
    return qn_max_pool_of(attributes, inputs[0].shape, c) == QN_OK;
}

/* ---- rows ---- */

typedef struct row {
    const qn_op *op;
    qn_dsp_kind kind;
    describe_window *window; /* null: number by number */
    bool is_linear;
} row;

static const row rows[] = {
    {&qn_op_rescaled_linear, QN_DSP_FORWARD, linear_window, true},
    {&qn_op_rescaled_linear_backward_data, QN_DSP_DATA, linear_data_window, true},
    {&qn_op_rescaled_linear_backward_weight, QN_DSP_FILTER, linear_weight_window, true},
    {&qn_op_rescaled_conv2d, QN_DSP_FORWARD, conv2d_window, false},
    {&qn_op_rescaled_conv2d_backward_data, QN_DSP_DATA, backward_window, false},
    {&qn_op_rescaled_conv2d_backward_filter, QN_DSP_FILTER, backward_window, false},
    {&qn_op_relu, QN_DSP_RELU, NULL, false},
    {&qn_op_activation_backward, QN_DSP_RELU_BACKWARD, NULL, false},
    {&qn_op_max_pool, QN_DSP_MAX_POOL, max_pool_window, false},
    {&qn_op_max_pool_backward, QN_DSP_MAX_POOL_BACKWARD, backward_window, false},
    {&qn_op_exponent_sum, QN_DSP_EXPONENTS, NULL, false},
};

static const row *find(const qn_op *op) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].op == op)
            return &rows[i];
    }
    return NULL;
}

static bool is_product(qn_dsp_kind kind) {
    return kind <= QN_DSP_FILTER;
}

static qn_dsp_window small_window(const qn_convolution *c) {
    return (qn_dsp_window){.n = (int32_t)c->n,
                           .h = (int32_t)c->h,
                           .w = (int32_t)c->w,
                           .c = (int32_t)c->c,
                           .k = (int32_t)c->k,
                           .r = (int32_t)c->r,
                           .s = (int32_t)c->s,
                           .p = (int32_t)c->p,
                           .q = (int32_t)c->q,
                           .stride_h = (int32_t)c->stride_h,
                           .stride_w = (int32_t)c->stride_w,
                           .pad_top = (int32_t)c->pad_top,
                           .pad_left = (int32_t)c->pad_left,
                           .dilation_h = (int32_t)c->dilation_h,
                           .dilation_w = (int32_t)c->dilation_w,
                           .y_stride = (int32_t)c->k};
}

/* Pixels of a gradient that lie apart have none between them, and the DSP would have to know. */
static bool is_fit(const row *r, const qn_convolution *c) {
    if (!is_product(r->kind))
        return c->r * c->s <= MOST_TAPS;
    return c->groups == 1 && c->dilation_h == 1 && c->dilation_w == 1 &&
           (r->kind != QN_DSP_DATA ||
            (c->stride_h == 1 && c->stride_w == 1 && c->pad_top < c->r && c->pad_left < c->s));
}

/* A window as large as its image, without margins: a linear layer of all numbers of the image. */
static bool is_whole(const qn_convolution *c) {
    return c->p == 1 && c->q == 1 && c->r == c->h && c->s == c->w && c->pad_top == 0 &&
           c->pad_left == 0 && c->groups == 1 && c->dilation_h == 1 && c->dilation_w == 1;
}

static void make_linear(qn_convolution *c) {
    c->groups = c->h = c->w = c->p = c->q = c->r = c->s = 1;
    c->stride_h = c->stride_w = c->dilation_h = c->dilation_w = 1;
}

static bool has_window(const row *r, const void *attributes, const qn_tensor *inputs,
                       qn_dsp_work *work) {
    qn_convolution c;
    if (!r->window(attributes, inputs, &c))
        return false;
    if (is_product(r->kind) && !r->is_linear && is_whole(&c)) {
        c.c *= c.h * c.w;
        make_linear(&c);
    }
    if (r->is_linear)
        make_linear(&c);
    if (!is_fit(r, &c))
        return false;
    work->window = small_window(&c);
    return true;
}

/* ---- types and sizes ---- */

static bool are_fit(const qn_tensor *tensors, int n) {
    for (int i = 0; i < n; i++) {
        const qn_dtype dtype = tensors[i].dtype;
        if ((dtype != QN_I8 && dtype != QN_I32 && dtype != QN_U16) ||
            qn_shape_count(tensors[i].shape) >= MOST_NUMBERS)
            return false;
    }
    return true;
}

/* The one activation of int8 is ReLU; sums have no other. */
static bool is_activation_fit(const qn_op *op, const void *attributes) {
    const qn_activation_attributes *a = attributes;
    const qn_conv2d_attributes *c = attributes;
    if (op == &qn_op_activation_backward)
        return a->activation.kind == QN_ACTIVATION_RELU;
    const qn_activation_kind kind = op == &qn_op_rescaled_linear   ? a->activation.kind
                                    : op == &qn_op_rescaled_conv2d ? c->activation.kind
                                                                   : QN_ACTIVATION_NONE;
    return kind == QN_ACTIVATION_NONE || kind == QN_ACTIVATION_RELU;
}

static bool has_relu(const qn_op *op, const void *attributes) {
    const qn_activation_attributes *a = attributes;
    const qn_conv2d_attributes *c = attributes;
    return (op == &qn_op_rescaled_linear && a->activation.kind == QN_ACTIVATION_RELU) ||
           (op == &qn_op_rescaled_conv2d && c->activation.kind == QN_ACTIVATION_RELU);
}

size_t qn_hexagon_work_bytes(const qn_dsp_work *work) {
    return is_product((qn_dsp_kind)work->kind) ? (size_t)qn_dsp_place(work).end : 0;
}

static void describe_product(const qn_op *op, const void *attributes, qn_dsp_work *work) {
    const qn_rescaling *how = qn_rescaling_of(op, attributes);
    work->relu = has_relu(op, attributes);
    work->adapts = how->adapts;
    work->period = how->period;
    work->is_pseudo = how->rounding == QN_ROUND_PSEUDO_STOCHASTIC;
}

bool qn_hexagon_describe(const qn_op *op, const void *attributes, int n_inputs, int n_outputs,
                         const qn_tensor *inputs, const qn_tensor *outputs, qn_dsp_work *work) {
    const row *r = find(op);
    memset(work, 0, sizeof *work);
    if (!r || n_inputs > QN_DSP_MOST_INPUTS || n_outputs > QN_DSP_MOST_OUTPUTS ||
        !are_fit(inputs, n_inputs) || !are_fit(outputs, n_outputs) ||
        !is_activation_fit(op, attributes))
        return false;
    work->kind = (int32_t)r->kind;
    work->n_inputs = n_inputs;
    if (r->window && !has_window(r, attributes, inputs, work))
        return false;
    if (is_product(r->kind))
        describe_product(op, attributes, work);
    return qn_hexagon_work_bytes(work) < MOST_SCRATCH;
}

/* ---- places ---- */

static bool find_place(const qn_hexagon *h, const void *address, uint32_t *place) {
    const uintptr_t at = (uintptr_t)address, base = (uintptr_t)h->shared.memory;
    *place = 0;
    if (!address)
        return true;
    if (at < base || at - base >= h->shared.bytes)
        return false;
    *place = (uint32_t)(at - base);
    return true;
}

static bool find_places(const qn_hexagon *h, const qn_call *call, qn_dsp_work *work) {
    bool is_found = find_place(h, call->workspace, &work->workspace);
    for (int i = 0; i < call->node->n_inputs; i++)
        is_found &= find_place(h, call->in[i], &work->in[i]);
    for (int i = 0; i < call->node->n_outputs; i++)
        is_found &= find_place(h, call->out[i], &work->out[i]);
    return is_found;
}

/* Rows that all lie together are one. */
static void describe_rows(const qn_call *call, qn_dsp_work *work) {
    const qn_rows all = qn_call_rows(call);
    const int n_inputs = work->n_inputs < 2 ? work->n_inputs : 2;
    bool is_dense = qn_call_out_stride(call, 0) == all.c;
    work->rows = (int32_t)all.rows;
    work->columns = (int32_t)all.c;
    work->strides[2] = (int32_t)qn_call_out_stride(call, 0);
    for (int i = 0; i < n_inputs; i++) {
        work->strides[i] = (int32_t)qn_call_in_stride(call, i);
        is_dense &= work->strides[i] == all.c;
    }
    if (is_dense) {
        work->rows = 1;
        work->columns = (int32_t)(all.rows * all.c);
    }
}

static void describe_strides(const qn_call *call, qn_dsp_work *work) {
    switch ((qn_dsp_kind)work->kind) {
    case QN_DSP_FORWARD:
    case QN_DSP_MAX_POOL:
        work->window.y_stride = (int32_t)qn_call_out_stride(call, 0);
        break;
    case QN_DSP_DATA:
    case QN_DSP_MAX_POOL_BACKWARD:
        work->window.y_stride = (int32_t)qn_call_in_stride(call, 0);
        break;
    case QN_DSP_FILTER:
        work->window.y_stride = (int32_t)qn_call_in_stride(call, 1);
        break;
    case QN_DSP_RELU:
    case QN_DSP_RELU_BACKWARD:
        describe_rows(call, work);
        break;
    case QN_DSP_EXPONENTS:
        break;
    }
}

bool qn_hexagon_make_task(const qn_hexagon *h, const qn_call *call, qn_hexagon_task *task) {
    const qn_node *node = call->node;
    *task = (qn_hexagon_task){.bits = 0};
    if (!qn_hexagon_describe(node->op, call->attributes, node->n_inputs, node->n_outputs,
                             call->inputs, call->outputs, &task->work) ||
        !find_places(h, call, &task->work))
        return false;
    describe_strides(call, &task->work);
    if (is_product((qn_dsp_kind)task->work.kind))
        task->bits = qn_rescaling_bits(qn_rescaling_of(node->op, call->attributes), call->step);
    return true;
}
