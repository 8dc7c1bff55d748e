/* How a GPU runs sums, norms, softmax and cross entropy. */
#include "device/cpu/cpu.h"
#include "device/gpu/operators.h"
#include "ops/loss.h"
#include "ops/network/norm.h"
#include "ops/reduce.h"
#include "ops/shared.h"

/* Numbers in n (kernels/reductions.cl). */
enum { COLUMNS, ROWS, CHUNK_ROWS, X_STEP, Y_STEP, DY_STEP, WHAT, KIND, N_CHUNKS };
enum { SUM_X, SUM_SQUARES, SUM_GRADIENTS, SUM_NORMALISED };

/* ---- sums of columns ---- */

static int32_t chunk_rows(int64_t rows) {
    return qn_gpu_chunk(rows, 64, 128);
}

static int64_t count_chunks(int64_t rows) {
    return (rows + chunk_rows(rows) - 1) / chunk_rows(rows);
}

/* Parts (2, chunks, C), then (3, C) numbers of a norm. */
static size_t columns_workspace(const qn_query *query) {
    const qn_shape x = query->inputs[0].shape;
    return (size_t)((2 * count_chunks(qn_shape_rows(x)) + 3) * qn_shape_columns(x)) * sizeof(float);
}

static uint64_t numbers_place(const qn_gpu_arguments *a, uint64_t workspace) {
    return workspace +
           (uint64_t)2 * (uint64_t)a->n[N_CHUNKS] * (uint64_t)a->n[COLUMNS] * sizeof(float);
}

static qn_gpu_arguments columns_of(qn_shape x) {
    const int64_t rows = qn_shape_rows(x), c = qn_shape_columns(x);
    return (qn_gpu_arguments){.n = {[COLUMNS] = (int32_t)c,
                                    [ROWS] = (int32_t)rows,
                                    [CHUNK_ROWS] = chunk_rows(rows),
                                    [X_STEP] = (int32_t)c,
                                    [Y_STEP] = (int32_t)c,
                                    [DY_STEP] = (int32_t)c,
                                    [N_CHUNKS] = (int32_t)count_chunks(rows)}};
}

static void sum_columns(qn_gpu_line *line, qn_gpu_arguments *a, int what) {
    a->n[WHAT] = what;
    qn_gpu_start(line, QN_GPU_sum_columns, a, a->n[COLUMNS], a->n[N_CHUNKS], 1);
}

/* to = factor * the sums of parts; or, of variances, 1 / sqrt(it + epsilon). */
static void finish_columns(qn_gpu_line *line, const qn_gpu_arguments *sums, uint64_t parts,
                           uint64_t to, double factor, bool is_deviation, double epsilon) {
    qn_gpu_arguments a = *sums;
    a.p[0] = parts;
    a.p[1] = to;
    a.f[0] = (float)factor;
    a.f[1] = (float)epsilon;
    a.n[KIND] = is_deviation;
    qn_gpu_start(line, QN_GPU_finish_columns, &a, a.n[COLUMNS], 1, 1);
}

void qn_gpu_add_rows(qn_gpu_line *line, uint64_t from, int64_t rows, int64_t columns, uint64_t to) {
    const qn_gpu_arguments a = {.n = {[COLUMNS] = (int32_t)columns, [N_CHUNKS] = (int32_t)rows}};
    finish_columns(line, &a, from, to, 1, false, 0);
}

static void column_sum_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = columns_of(call->inputs[0].shape);
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[5] = qn_gpu_place(line, call->workspace);
    sum_columns(line, &a, SUM_X);
    finish_columns(line, &a, a.p[5], qn_gpu_place(line, call->out[0]), 1, false, 0);
}

static bool has_one_input(const qn_query *query) {
    return query->n_inputs == 1;
}

/* ---- batch norm ---- */

static void start_rows(qn_gpu_line *line, qn_gpu_kernel kernel, const qn_gpu_arguments *a) {
    qn_gpu_start(line, kernel, a, a->n[COLUMNS], a->n[ROWS], 1);
}

static void set_activation(qn_gpu_arguments *a, qn_activation activation) {
    a->n[KIND] = (int32_t)activation.kind;
    a->f[0] = (float)activation.slope;
}

static void batch_norm_run(qn_gpu_line *line, const qn_call *call) {
    const qn_batch_norm_attributes *b = call->attributes;
    qn_gpu_arguments a = columns_of(call->inputs[0].shape);
    const double share = 1 / (double)a.n[ROWS];
    const uint64_t parts = qn_gpu_place(line, call->workspace);
    a.n[X_STEP] = (int32_t)qn_call_in_stride(call, 0);
    a.n[Y_STEP] = (int32_t)qn_call_out_stride(call, 0);
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[3] = qn_gpu_place(line, call->out[1]);
    a.p[4] = qn_gpu_place(line, call->out[2]);
    a.p[5] = parts;
    sum_columns(line, &a, SUM_X);
    finish_columns(line, &a, parts, a.p[3], share, false, 0);
    sum_columns(line, &a, SUM_SQUARES);
    finish_columns(line, &a, parts, a.p[4], share, true, b->epsilon);
    a.p[1] = qn_gpu_place(line, call->in[1]);
    a.p[2] = qn_gpu_place(line, call->in[2]);
    a.p[5] = qn_gpu_place(line, call->out[0]);
    a.n[N_CHUNKS] = 0;
    set_activation(&a, b->activation);
    start_rows(line, QN_GPU_norm_apply, &a);
}

static void batch_norm_inference_run(qn_gpu_line *line, const qn_call *call) {
    const qn_batch_norm_attributes *b = call->attributes;
    qn_gpu_arguments a = columns_of(call->inputs[0].shape);
    a.n[X_STEP] = (int32_t)qn_call_in_stride(call, 0);
    a.n[Y_STEP] = (int32_t)qn_call_out_stride(call, 0);
    for (int i = 0; i < 5; i++)
        a.p[i] = qn_gpu_place(line, call->in[i]);
    a.p[5] = qn_gpu_place(line, call->out[0]);
    a.n[N_CHUNKS] = 1;
    a.f[1] = (float)b->epsilon;
    set_activation(&a, b->activation);
    start_rows(line, QN_GPU_norm_apply, &a);
}

/* Inputs: x, y, dy, scale, mean, inverse deviation. */
static void batch_norm_backward_run(qn_gpu_line *line, const qn_call *call) {
    const qn_batch_norm_attributes *b = call->attributes;
    qn_gpu_arguments a = columns_of(call->inputs[0].shape);
    const uint64_t parts = qn_gpu_place(line, call->workspace);
    const bool is_active = b->activation.kind != QN_ACTIVATION_NONE && call->in[1];
    a.n[X_STEP] = (int32_t)qn_call_in_stride(call, 0);
    a.n[Y_STEP] = is_active ? (int32_t)qn_call_in_stride(call, 1) : 0;
    a.n[DY_STEP] = (int32_t)qn_call_in_stride(call, 2);
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, is_active ? call->in[1] : NULL);
    a.p[2] = qn_gpu_place(line, call->in[2]);
    a.p[3] = qn_gpu_place(line, call->in[4]);
    a.p[5] = parts;
    set_activation(&a, b->activation);
    sum_columns(line, &a, SUM_GRADIENTS);
    qn_gpu_arguments g = a;
    g.p[0] = parts;
    g.p[1] = qn_gpu_place(line, call->in[3]);
    g.p[2] = qn_gpu_place(line, call->in[5]);
    g.p[3] = qn_gpu_place(line, call->out[1]);
    g.p[4] = qn_gpu_place(line, call->out[2]);
    g.p[5] = numbers_place(&a, parts);
    g.f[0] = (float)(1 / (double)a.n[ROWS]);
    qn_gpu_start(line, QN_GPU_norm_gradients, &g, a.n[COLUMNS], 1, 1);
    a.p[4] = g.p[5];
    a.p[5] = qn_gpu_place(line, call->out[0]);
    start_rows(line, QN_GPU_norm_backward, &a);
}

/* ---- rows ---- */

static void start_each_row(qn_gpu_line *line, qn_gpu_kernel kernel, const qn_gpu_arguments *a) {
    qn_gpu_start(line, kernel, a, a->n[ROWS], 1, 1);
}

/* Inputs, then outputs, as operands. */
static qn_gpu_arguments rows_of(qn_gpu_line *line, const qn_call *call) {
    const qn_shape x = call->inputs[0].shape;
    qn_gpu_arguments a = {.n = {(int32_t)qn_shape_columns(x), (int32_t)qn_shape_rows(x)}};
    int next = 0;
    for (int i = 0; i < call->node->n_inputs; i++)
        a.p[next++] = qn_gpu_place(line, call->in[i]);
    for (int i = 0; i < call->node->n_outputs; i++)
        a.p[next++] = qn_gpu_place(line, call->out[i]);
    return a;
}

static void layer_norm_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = rows_of(line, call);
    a.f[0] = (float)((const qn_layer_norm_attributes *)call->attributes)->epsilon;
    start_each_row(line, QN_GPU_layer_norm, &a);
}

/* Inputs: x, dy, scale, mean, inverse deviation. The columns first, as dx may lie where dy does. */
static void layer_norm_backward_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = columns_of(call->inputs[0].shape);
    const uint64_t parts = qn_gpu_place(line, call->workspace);
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[2] = qn_gpu_place(line, call->in[1]);
    a.p[3] = qn_gpu_place(line, call->in[3]);
    a.p[4] = qn_gpu_place(line, call->in[4]);
    a.p[5] = parts;
    sum_columns(line, &a, SUM_NORMALISED);
    finish_columns(line, &a, parts, qn_gpu_place(line, call->out[2]), 1, false, 0);
    const uint64_t dots = parts + (uint64_t)a.n[N_CHUNKS] * (uint64_t)a.n[COLUMNS] * sizeof(float);
    finish_columns(line, &a, dots, qn_gpu_place(line, call->out[1]), 1, false, 0);
    const qn_gpu_arguments rows = rows_of(line, call);
    start_each_row(line, QN_GPU_layer_norm_backward, &rows);
}

static bool has_five_inputs(const qn_query *query) {
    return query->n_inputs == 5;
}

static void softmax_run(qn_gpu_line *line, const qn_call *call) {
    const qn_gpu_arguments a = rows_of(line, call);
    start_each_row(line, QN_GPU_softmax, &a);
}

static void softmax_backward_run(qn_gpu_line *line, const qn_call *call) {
    const qn_gpu_arguments a = rows_of(line, call);
    start_each_row(line, QN_GPU_softmax_backward, &a);
}

static void cross_entropy_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = rows_of(line, call);
    a.f[0] = (float)((const qn_softmax_cross_entropy_attributes *)call->attributes)->smoothing;
    start_each_row(line, QN_GPU_cross_entropy, &a);
}

static void cross_entropy_backward_run(qn_gpu_line *line, const qn_call *call) {
    const double smoothing =
        ((const qn_softmax_cross_entropy_attributes *)call->attributes)->smoothing;
    qn_gpu_arguments a = rows_of(line, call);
    a.f[0] = (float)smoothing;
    a.f[1] = (float)(smoothing / (double)a.n[COLUMNS]);
    start_each_row(line, QN_GPU_cross_entropy_backward, &a);
}

/* ---- sums of all, and along an axis ---- */

static int32_t mean_chunk(int64_t n) {
    return qn_gpu_chunk(n, 256, 1024);
}

static int64_t mean_chunks(int64_t n) {
    return (n + mean_chunk(n) - 1) / mean_chunk(n);
}

static size_t mean_workspace(const qn_query *query) {
    return (size_t)mean_chunks(qn_shape_count(query->inputs[0].shape)) * sizeof(float);
}

static void mean_run(qn_gpu_line *line, const qn_call *call) {
    const int64_t n = qn_shape_count(call->inputs[0].shape);
    const qn_gpu_arguments a = {
        .p = {qn_gpu_place(line, call->in[0]), qn_gpu_place(line, call->workspace)},
        .n = {[COLUMNS] = 1,
              [ROWS] = (int32_t)n,
              [CHUNK_ROWS] = mean_chunk(n),
              [N_CHUNKS] = (int32_t)mean_chunks(n)}};
    qn_gpu_start(line, QN_GPU_sum_chunks, &a, a.n[N_CHUNKS], 1, 1);
    finish_columns(line, &a, a.p[1], qn_gpu_place(line, call->out[0]), 1 / (double)n, false, 0);
}

static void mean_valid_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = rows_of(line, call);
    a.n[0] = (int32_t)qn_shape_count(call->inputs[0].shape);
    qn_gpu_start(line, QN_GPU_mean_valid, &a, 1, 1, 1);
}

static qn_gpu_arguments axis_of(const qn_reduce_attributes *r, qn_shape x) {
    const int64_t n = x.dims[r->axis];
    return (qn_gpu_arguments){.n = {(int32_t)n, (int32_t)qn_shape_count_range(x, 0, r->axis),
                                    (int32_t)qn_shape_count_range(x, r->axis + 1, x.rank),
                                    r->reduction == QN_MAX},
                              .f = {(float)(r->reduction == QN_MEAN ? 1 / (double)n : 1)}};
}

static void reduce_run(qn_gpu_line *line, const qn_call *call) {
    const qn_reduce_attributes *r = call->attributes;
    qn_gpu_arguments a = axis_of(r, call->inputs[0].shape);
    const bool is_most = r->reduction == QN_MAX;
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, call->out[0]);
    a.p[2] = qn_gpu_place(line, is_most ? call->out[1] : NULL);
    qn_gpu_start(line, is_most ? QN_GPU_reduce_most : QN_GPU_reduce_sum, &a, a.n[2], a.n[1], 1);
}

static void reduce_backward_run(qn_gpu_line *line, const qn_call *call) {
    const qn_reduce_attributes *r = call->attributes;
    qn_gpu_arguments a = axis_of(r, r->shape);
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, a.n[3] ? call->in[1] : NULL);
    a.p[2] = qn_gpu_place(line, call->out[0]);
    qn_gpu_start(line, QN_GPU_reduce_backward, &a, a.n[2], (int64_t)a.n[0] * a.n[1], 1);
}

const qn_gpu_operator qn_gpu_reductions[] = {
    {&qn_op_column_sum, .run = column_sum_run, .supports = has_one_input,
     .workspace = columns_workspace},
    {&qn_op_batch_norm, .run = batch_norm_run, .workspace = columns_workspace},
    {&qn_op_batch_norm_backward, .run = batch_norm_backward_run, .workspace = columns_workspace},
    {&qn_op_batch_norm_inference, .run = batch_norm_inference_run},
    {&qn_op_layer_norm, .run = layer_norm_run},
    {&qn_op_layer_norm_backward, .run = layer_norm_backward_run, .supports = has_five_inputs,
     .workspace = columns_workspace},
    {&qn_op_softmax, .run = softmax_run},
    {&qn_op_softmax_backward, .run = softmax_backward_run},
    {&qn_op_softmax_cross_entropy, .run = cross_entropy_run},
    {&qn_op_softmax_cross_entropy_backward, .run = cross_entropy_backward_run},
    {&qn_op_mean, .run = mean_run, .workspace = mean_workspace},
    {&qn_op_mean_valid, .run = mean_valid_run},
    {&qn_op_reduce, .run = reduce_run},
    {&qn_op_reduce_backward, .run = reduce_backward_run},
    {0},
};
