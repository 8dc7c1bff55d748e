/* How a GPU runs matrix products, convolutions with both gradients, and pools. */
#include "device/cpu/cpu.h"
#include "device/gpu/operators.h"
#include "ops/network/convolution.h"
#include "ops/network/pool.h"
#include "ops/network/product.h"
#include "ops/shared.h"

/* ---- products ---- */

/* Numbers of a plain product, as kernels/products.cl has them. */
enum { M, N, K, ROW_A, COLUMN_A, ROW_B, COLUMN_B, STEP_C, MATRIX_A, MATRIX_B, MATRIX_C };
/* Numbers of a convolution, likewise. */
enum {
    IN_N,
    IN_H,
    IN_W,
    IN_C,
    OUT_K,
    R,
    S,
    P,
    Q,
    STRIDE_H,
    STRIDE_W,
    PAD_H,
    PAD_W,
    DILATION_H,
    DILATION_W,
    GROUPS,
    Y_STEP,
    ACTIVATION,
    HAS_BIAS,
    CHUNK,
    GROUP_C,
    GROUP_K
};

static int64_t ceil_div(int64_t a, int64_t b) {
    return (a + b - 1) / b;
}

static void start_tiles(qn_gpu_line *line, qn_gpu_kernel kernel, const qn_gpu_arguments *a,
                        int64_t m, int64_t n, int64_t z) {
    const qn_gpu_tile *t = &line->device->tile;
    qn_gpu_start(line, kernel, a, ceil_div(n, qn_gpu_tile_columns(t)),
                 ceil_div(m, qn_gpu_tile_rows(t)), z);
}

static void set_bias(qn_gpu_line *line, const qn_call *call, qn_activation activation,
                     qn_gpu_arguments *a) {
    const bool has_bias = call->node->n_inputs > 2 && call->in[2];
    a->n[ACTIVATION] = (int32_t)activation.kind;
    a->f[0] = (float)activation.slope;
    a->n[HAS_BIAS] = has_bias;
    a->p[2] = qn_gpu_place(line, has_bias ? call->in[2] : NULL);
}

static void start_product(qn_gpu_line *line, qn_gpu_arguments *a, const void *left,
                          const void *right, const void *out, int64_t matrices) {
    a->p[0] = qn_gpu_place(line, left);
    a->p[1] = qn_gpu_place(line, right);
    a->p[3] = qn_gpu_place(line, out);
    start_tiles(line, QN_GPU_product, a, a->n[M], a->n[N], matrices);
}

/* Extents of the product, and how far apart elements of the operands are; dense. */
static qn_gpu_arguments product_of(int64_t m, int64_t n, int64_t k, bool transpose_a,
                                   bool transpose_b) {
    qn_gpu_arguments a = {.n = {[M] = (int32_t)m, [N] = (int32_t)n, [K] = (int32_t)k}};
    a.n[ROW_A] = transpose_a ? 1 : (int32_t)k;
    a.n[COLUMN_A] = transpose_a ? (int32_t)m : 1;
    a.n[ROW_B] = transpose_b ? 1 : (int32_t)n;
    a.n[COLUMN_B] = transpose_b ? (int32_t)k : 1;
    a.n[STEP_C] = (int32_t)n;
    return a;
}

void qn_gpu_start_matrices(qn_gpu_line *line, const qn_gpu_matrices *x, const void *a,
                           const void *b, const void *to) {
    qn_gpu_arguments numbers = product_of(x->m, x->n, x->k, x->transpose_a, x->transpose_b);
    numbers.n[MATRIX_A] = (int32_t)(x->m * x->k);
    numbers.n[MATRIX_B] = (int32_t)(x->k * x->n);
    numbers.n[MATRIX_C] = (int32_t)(x->m * x->n);
    if (x->row_a > 0)
        numbers.n[ROW_A] = (int32_t)x->row_a;
    start_product(line, &numbers, a, b, to, x->matrices);
}

void qn_gpu_multiply(qn_gpu_line *line, const float *a, const float *b, float *to, int64_t n) {
    qn_gpu_arguments numbers = product_of(n, n, n, false, false);
    start_product(line, &numbers, a, b, to, 1);
}

static void linear_run(qn_gpu_line *line, const qn_call *call) {
    const qn_activation_attributes *attributes = call->attributes;
    const qn_shape x = call->inputs[0].shape, w = call->inputs[1].shape;
    qn_gpu_arguments a = product_of(x.dims[0], w.dims[0], x.dims[1], false, true);
    set_bias(line, call, attributes->activation, &a);
    start_product(line, &a, call->in[0], call->in[1], call->out[0], 1);
}

static void linear_data_run(qn_gpu_line *line, const qn_call *call) {
    const qn_shape dy = call->inputs[0].shape, w = call->inputs[1].shape;
    qn_gpu_arguments a = product_of(dy.dims[0], w.dims[1], dy.dims[1], false, false);
    start_product(line, &a, call->in[0], call->in[1], call->out[0], 1);
}

static void linear_weight_run(qn_gpu_line *line, const qn_call *call) {
    const qn_shape x = call->inputs[0].shape, dy = call->inputs[1].shape;
    qn_gpu_arguments a = product_of(dy.dims[1], x.dims[1], x.dims[0], true, false);
    start_product(line, &a, call->in[1], call->in[0], call->out[0], 1);
}

static void matmul_run(qn_gpu_line *line, const qn_call *call) {
    const qn_matmul_attributes *t = call->attributes;
    const qn_shape x = call->inputs[0].shape, y = call->inputs[1].shape;
    const int64_t *left = x.dims + x.rank - 2, *right = y.dims + y.rank - 2;
    const qn_gpu_matrices matrices = {.m = left[t->transpose_a],
                                      .n = right[!t->transpose_b],
                                      .k = left[!t->transpose_a],
                                      .matrices = qn_shape_count_range(x, 0, x.rank - 2),
                                      .transpose_a = t->transpose_a,
                                      .transpose_b = t->transpose_b};
    qn_gpu_start_matrices(line, &matrices, call->in[0], call->in[1], call->out[0]);
}

/* Sums that go on from those of another piece of a batch are the CPU's. */
static bool has_two_inputs(const qn_query *query) {
    return query->n_inputs == 2;
}

/* ---- convolutions ---- */

static qn_gpu_arguments window_of(const qn_convolution *c, int64_t y_step) {
    qn_gpu_arguments a = {.n = {[IN_N] = (int32_t)c->n,
                                [IN_H] = (int32_t)c->h,
                                [IN_W] = (int32_t)c->w,
                                [IN_C] = (int32_t)c->c,
                                [OUT_K] = (int32_t)c->k,
                                [R] = (int32_t)c->r,
                                [S] = (int32_t)c->s,
                                [P] = (int32_t)c->p,
                                [Q] = (int32_t)c->q,
                                [STRIDE_H] = (int32_t)c->stride_h,
                                [STRIDE_W] = (int32_t)c->stride_w,
                                [PAD_H] = (int32_t)c->pad_top,
                                [PAD_W] = (int32_t)c->pad_left,
                                [DILATION_H] = (int32_t)c->dilation_h,
                                [DILATION_W] = (int32_t)c->dilation_w,
                                [GROUPS] = (int32_t)c->groups,
                                [Y_STEP] = (int32_t)y_step,
                                [GROUP_C] = (int32_t)(c->c / (c->groups > 0 ? c->groups : 1)),
                                [GROUP_K] = (int32_t)(c->k / (c->groups > 0 ? c->groups : 1))}};
    return a;
}

static bool is_depthwise(const qn_convolution *c) {
    return c->groups > 1 && c->c == c->groups;
}

static void conv2d_run(qn_gpu_line *line, const qn_call *call) {
    const qn_conv2d_attributes *attributes = call->attributes;
    const qn_convolution c = qn_conv2d_of(attributes, call->inputs);
    qn_gpu_arguments a = window_of(&c, qn_call_out_stride(call, 0));
    set_bias(line, call, attributes->activation, &a);
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, call->in[1]);
    a.p[3] = qn_gpu_place(line, call->out[0]);
    if (is_depthwise(&c))
        qn_gpu_start(line, QN_GPU_depthwise, &a, c.q * c.k, c.n * c.p, 1);
    else
        start_tiles(line, QN_GPU_convolve, &a, c.n * c.p * c.q, c.k / c.groups, c.groups);
}

static void run_data(qn_gpu_line *line, const qn_call *call, const qn_convolution *c) {
    qn_gpu_arguments a = window_of(c, qn_call_in_stride(call, 0));
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, call->in[1]);
    a.p[3] = qn_gpu_place(line, call->out[0]);
    if (is_depthwise(c))
        qn_gpu_start(line, QN_GPU_depthwise_data, &a, c->w * c->c, c->n * c->h, 1);
    else
        start_tiles(line, QN_GPU_convolve_data, &a, c->n * c->h * c->w, c->c / c->groups,
                    c->groups);
}

static const qn_convolution *backward_of(const void *attributes) {
    return &((const qn_conv2d_backward_attributes *)attributes)->shape;
}

static void conv2d_data_run(qn_gpu_line *line, const qn_call *call) {
    run_data(line, call, backward_of(call->attributes));
}

static void conv2d_transpose_run(qn_gpu_line *line, const qn_call *call) {
    const qn_convolution c = qn_conv2d_transpose_of(call->attributes, call->inputs);
    run_data(line, call, &c);
}

/* Pixels of a chunk of the sums of a filter's gradient: by the shape alone. */
static int32_t filter_chunk(const qn_convolution *c) {
    return qn_gpu_chunk(c->n * c->p * c->q, 1024, 64);
}

static int64_t filter_parts(const qn_convolution *c) {
    return ceil_div(c->n * c->p * c->q, filter_chunk(c));
}

static int64_t filter_count(const qn_convolution *c) {
    return c->k * c->r * c->s * (c->c / c->groups);
}

static size_t conv2d_filter_workspace(const qn_query *query) {
    const qn_convolution *c = backward_of(query->attributes);
    return filter_parts(c) > 1 ? (size_t)(filter_parts(c) * filter_count(c)) * sizeof(float) : 0;
}

static void conv2d_filter_run(qn_gpu_line *line, const qn_call *call) {
    const qn_convolution *c = backward_of(call->attributes);
    const int64_t parts = filter_parts(c);
    qn_gpu_arguments a = window_of(c, qn_call_in_stride(call, 1));
    a.n[CHUNK] = filter_chunk(c);
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, call->in[1]);
    a.p[3] = qn_gpu_place(line, parts > 1 ? call->workspace : call->out[0]);
    if (is_depthwise(c))
        qn_gpu_start(line, QN_GPU_depthwise_filter, &a, c->k, c->r * c->s * parts, 1);
    else
        start_tiles(line, QN_GPU_convolve_filter, &a, c->k / c->groups,
                    c->r * c->s * (c->c / c->groups), parts * c->groups);
    if (parts == 1)
        return;
    const qn_gpu_arguments sum = {.p = {a.p[3], qn_gpu_place(line, call->out[0])},
                                  .n = {(int32_t)filter_count(c), (int32_t)parts}};
    qn_gpu_start(line, QN_GPU_add_parts, &sum, filter_count(c), 1, 1);
}

/* ---- pools ---- */

static void run_pool(qn_gpu_line *line, const qn_call *call, qn_gpu_kernel kernel,
                     const qn_convolution *c) {
    qn_gpu_arguments a = window_of(c, qn_call_out_stride(call, 0));
    a.n[HAS_BIAS] = c->inside;
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[3] = qn_gpu_place(line, call->out[0]);
    a.p[4] = qn_gpu_place(line, call->node->n_outputs > 1 ? call->out[1] : NULL);
    qn_gpu_start(line, kernel, &a, c->q * c->c, c->n * c->p, 1);
}

static void max_pool_run(qn_gpu_line *line, const qn_call *call) {
    qn_convolution c;
    if (qn_max_pool_of(call->attributes, call->inputs[0].shape, &c) == QN_OK)
        run_pool(line, call, QN_GPU_pool_largest, &c);
}

static void average_pool_run(qn_gpu_line *line, const qn_call *call) {
    qn_convolution c;
    if (qn_average_pool_of(call->attributes, call->inputs[0].shape, &c) == QN_OK)
        run_pool(line, call, QN_GPU_pool_mean, &c);
}

static void global_pool_run(qn_gpu_line *line, const qn_call *call) {
    const qn_convolution c = qn_global_pool_of(call->inputs[0].shape);
    run_pool(line, call, QN_GPU_pool_mean, &c);
}

static void run_pool_backward(qn_gpu_line *line, const qn_call *call, bool is_largest) {
    const qn_convolution *c = backward_of(call->attributes);
    qn_gpu_arguments a = window_of(c, qn_call_in_stride(call, 0));
    a.n[HAS_BIAS] = c->inside;
    a.n[CHUNK] = is_largest;
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, is_largest ? call->in[1] : NULL);
    a.p[3] = qn_gpu_place(line, call->out[0]);
    qn_gpu_start(line, QN_GPU_pool_backward, &a, c->w * c->c, c->n * c->h, 1);
}

static void max_pool_backward_run(qn_gpu_line *line, const qn_call *call) {
    run_pool_backward(line, call, true);
}

static void average_pool_backward_run(qn_gpu_line *line, const qn_call *call) {
    run_pool_backward(line, call, false);
}

const qn_gpu_operator qn_gpu_products[] = {
    {&qn_op_linear, .run = linear_run},
    {&qn_op_linear_backward_data, .run = linear_data_run},
    {&qn_op_linear_backward_weight, .run = linear_weight_run, .supports = has_two_inputs},
    {&qn_op_matmul, .run = matmul_run},
    {&qn_op_conv2d, .run = conv2d_run},
    {&qn_op_conv2d_backward_data, .run = conv2d_data_run},
    {&qn_op_conv2d_backward_filter, .run = conv2d_filter_run, .supports = has_two_inputs,
     .workspace = conv2d_filter_workspace},
    {&qn_op_conv2d_transpose, .run = conv2d_transpose_run},
    {&qn_op_max_pool, .run = max_pool_run},
    {&qn_op_max_pool_backward, .run = max_pool_backward_run},
    {&qn_op_average_pool, .run = average_pool_run},
    {&qn_op_average_pool_backward, .run = average_pool_backward_run},
    {&qn_op_global_average_pool, .run = global_pool_run},
    {0},
};
