/* How a GPU runs elementwise operators and those that move elements. */
#include "ops/elementwise.h"
#include "base/rng.h"
#include "device/cpu/cpu.h"
#include "device/gpu/operators.h"
#include "ops/layout.h"
#include "ops/shared.h"

/* The numbers in n behind the steps (kernels/elementwise.cl). */
enum { KIND = 5, FIRST = 6, END = 7 };

static void start_rows(qn_gpu_line *line, qn_gpu_kernel kernel, const qn_gpu_arguments *a) {
    qn_gpu_start(line, kernel, a, a->n[0], a->n[1], 1);
}

/* Operand i of one input, then the output. */
static void run_unary(qn_gpu_line *line, const qn_call *call, qn_gpu_kernel kernel,
                      qn_gpu_arguments *a) {
    qn_gpu_rows(a, call->outputs[0].shape, qn_call_in_stride(call, 0), qn_call_out_stride(call, 0),
                0);
    a->p[0] = qn_gpu_place(line, call->in[0]);
    a->p[1] = qn_gpu_place(line, call->out[0]);
    start_rows(line, kernel, a);
}

static void run_binary(qn_gpu_line *line, const qn_call *call, qn_gpu_kernel kernel,
                       qn_gpu_arguments *a) {
    qn_gpu_rows(a, call->outputs[0].shape, qn_call_in_stride(call, 0), qn_call_in_stride(call, 1),
                qn_call_out_stride(call, 0));
    a->p[0] = qn_gpu_place(line, call->in[0]);
    a->p[1] = qn_gpu_place(line, call->in[1]);
    a->p[2] = qn_gpu_place(line, call->out[0]);
    start_rows(line, kernel, a);
}

static qn_gpu_arguments activation_of(const qn_call *call) {
    const qn_activation activation =
        ((const qn_activation_attributes *)call->attributes)->activation;
    return (qn_gpu_arguments){.n = {[KIND] = (int32_t)activation.kind},
                              .f = {(float)activation.slope}};
}

static void activation_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = activation_of(call);
    run_unary(line, call, QN_GPU_activation, &a);
}

static void activation_backward_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = activation_of(call);
    run_binary(line, call, QN_GPU_activation_backward, &a);
}

static void add_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = activation_of(call);
    run_binary(line, call, QN_GPU_add, &a);
}

void qn_gpu_add_vectors(qn_gpu_line *line, const float *a, const float *b, float *to, int64_t n) {
    qn_gpu_arguments numbers = {.n = {(int32_t)n, 1}};
    numbers.p[0] = qn_gpu_place(line, a);
    numbers.p[1] = qn_gpu_place(line, b);
    numbers.p[2] = qn_gpu_place(line, to);
    start_rows(line, QN_GPU_add, &numbers);
}

static void multiply_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = {.p = {0}};
    run_binary(line, call, QN_GPU_multiply_all, &a);
}

static void scale_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = {.f = {(float)((const qn_scale_attributes *)call->attributes)->factor}};
    run_unary(line, call, QN_GPU_scale, &a);
}

static void gelu_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = {.p = {0}};
    run_unary(line, call, QN_GPU_gelu, &a);
}

static void gelu_backward_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = {.p = {0}};
    run_binary(line, call, QN_GPU_gelu_backward, &a);
}

/* Steps of numbers that no operand has are those of dense rows. */
static qn_gpu_arguments rows_of(qn_shape shape) {
    const int32_t c = (int32_t)qn_shape_columns(shape);
    return (qn_gpu_arguments){.n = {c, (int32_t)qn_shape_rows(shape), c, c, c}};
}

static void bias_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = rows_of(call->inputs[0].shape);
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, call->in[1]);
    a.p[2] = qn_gpu_place(line, call->out[0]);
    start_rows(line, QN_GPU_bias, &a);
}

static void broadcast_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = {
        .f = {(float)((const qn_broadcast_attributes *)call->attributes)->factor}};
    const int64_t c = qn_shape_columns(call->outputs[0].shape);
    qn_gpu_rows(&a, call->outputs[0].shape, c, c, c);
    a.n[KIND] = 1;
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, call->out[0]);
    start_rows(line, QN_GPU_broadcast, &a);
}

static void constant_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = {.f = {(float)((const qn_constant_attributes *)call->attributes)->value},
                          .n = {1, 1, 1, 1, 1}};
    a.p[1] = qn_gpu_place(line, call->out[0]);
    start_rows(line, QN_GPU_broadcast, &a);
}

/* The same numbers as the CPU's. */
static void dropout_run(qn_gpu_line *line, const qn_call *call) {
    const qn_dropout_attributes *d = call->attributes;
    const qn_rng rng = qn_rng_make(call->seed, qn_dropout_key(call->node), call->step);
    qn_gpu_arguments a = {.p = {[2] = rng.key, [3] = rng.step, [4] = (uint64_t)d->first},
                          .f = {(float)d->rate, (float)(1 / (1 - d->rate))}};
    run_unary(line, call, QN_GPU_dropout, &a);
}

/* ---- moving ---- */

/* Rows of bytes, `from_step` and `to_step` from one to the next; words of 4 where all are whole. */
static void copy_rows(qn_gpu_line *line, uint64_t from, int64_t from_step, uint64_t to,
                      int64_t to_step, int64_t row, int64_t n) {
    const bool is_whole =
        (from | (uint64_t)from_step | to | (uint64_t)to_step | (uint64_t)row) % 4 == 0;
    const int64_t unit = is_whole ? 4 : 1;
    const qn_gpu_arguments a = {.p = {from, to},
                                .n = {(int32_t)(row / unit), (int32_t)n,
                                      (int32_t)(from_step / unit), (int32_t)(to_step / unit), 0,
                                      is_whole}};
    start_rows(line, QN_GPU_copy_rows, &a);
}

/* Bytes of a row of the axes from an axis on. */
static int64_t row_bytes(qn_tensor tensor, int axis) {
    return (int64_t)qn_dtype_bytes(tensor.dtype) *
           qn_shape_count_range(tensor.shape, axis, tensor.shape.rank);
}

/* And from one to the next, where the last axis has this step. */
static int64_t step_bytes(qn_tensor tensor, int axis, int64_t row_stride) {
    return axis == tensor.shape.rank - 1 ? (int64_t)qn_dtype_bytes(tensor.dtype) * row_stride
                                         : row_bytes(tensor, axis);
}

static void concat_run(qn_gpu_line *line, const qn_call *call) {
    const int axis = ((const qn_concat_attributes *)call->attributes)->axis;
    const qn_tensor y = call->outputs[0];
    uint64_t to = qn_gpu_place(line, call->out[0]);
    for (int i = 0; i < call->node->n_inputs; i++) {
        const qn_tensor x = call->inputs[i];
        if (!qn_call_is_placed(call, i))
            copy_rows(line, qn_gpu_place(line, call->in[i]),
                      step_bytes(x, axis, qn_call_in_stride(call, i)), to,
                      step_bytes(y, axis, qn_call_out_stride(call, 0)), row_bytes(x, axis),
                      qn_shape_count_range(x.shape, 0, axis));
        to += (uint64_t)row_bytes(x, axis);
    }
}

static void slice_run(qn_gpu_line *line, const qn_call *call) {
    const qn_slice_attributes *s = call->attributes;
    const qn_tensor x = call->inputs[0], y = call->outputs[0];
    const int64_t before = s->begin * row_bytes(x, s->axis) / x.shape.dims[s->axis];
    if (qn_call_is_placed(call, 0))
        return;
    copy_rows(line, qn_gpu_place(line, call->in[0]) + (uint64_t)before,
              step_bytes(x, s->axis, qn_call_in_stride(call, 0)), qn_gpu_place(line, call->out[0]),
              step_bytes(y, s->axis, qn_call_out_stride(call, 0)), row_bytes(y, s->axis),
              qn_shape_count_range(x.shape, 0, s->axis));
}

static void slice_backward_run(qn_gpu_line *line, const qn_call *call) {
    const qn_slice_attributes *s = call->attributes;
    const qn_shape large = call->outputs[0].shape;
    const int64_t inner = qn_shape_count_range(large, s->axis + 1, large.rank);
    const int64_t row = large.dims[s->axis] * inner, part = (s->end - s->begin) * inner;
    const qn_gpu_arguments a = {
        .p = {qn_gpu_place(line, call->in[0]), qn_gpu_place(line, call->out[0])},
        .n = {(int32_t)row, (int32_t)qn_shape_count_range(large, 0, s->axis), (int32_t)part,
              (int32_t)row, 0, 0, (int32_t)(s->begin * inner), (int32_t)(s->end * inner)}};
    start_rows(line, QN_GPU_widen, &a);
}

static void transpose_run(qn_gpu_line *line, const qn_call *call) {
    const qn_transpose_attributes *t = call->attributes;
    const qn_shape x = call->inputs[0].shape, y = call->outputs[0].shape;
    qn_gpu_arguments a = {.p = {qn_gpu_place(line, call->in[0]), qn_gpu_place(line, call->out[0])},
                          .n = {(int32_t)qn_shape_count(y), y.rank}};
    for (int i = 0; i < y.rank; i++) {
        a.n[2 + i] = (int32_t)y.dims[i];
        a.n[8 + i] = (int32_t)qn_shape_count_range(x, (int)t->order.dims[i] + 1, x.rank);
    }
    qn_gpu_start(line, QN_GPU_transpose, &a, a.n[0], 1, 1);
}

static bool has_few_axes(const qn_query *query) {
    return query->inputs[0].shape.rank <= 6;
}

static void embedding_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = rows_of(call->outputs[0].shape);
    a.n[FIRST] = (int32_t)call->inputs[0].shape.dims[0];
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, call->in[1]);
    a.p[2] = qn_gpu_place(line, call->out[0]);
    start_rows(line, QN_GPU_embed, &a);
}

static void embedding_backward_run(qn_gpu_line *line, const qn_call *call) {
    qn_gpu_arguments a = rows_of(call->outputs[0].shape);
    a.n[FIRST] = (int32_t)qn_shape_count(call->inputs[1].shape);
    a.p[0] = qn_gpu_place(line, call->in[0]);
    a.p[1] = qn_gpu_place(line, call->in[1]);
    a.p[2] = qn_gpu_place(line, call->out[0]);
    start_rows(line, QN_GPU_embed_backward, &a);
}

/* Each element of the table's gradient looks at all indices: worth it for small tables only. */
static bool is_small_table(const qn_query *query) {
    return query->n_inputs == 2 &&
           qn_shape_count(query->outputs[0].shape) * qn_shape_count(query->inputs[1].shape) <=
               (INT64_C(1) << 28);
}

const qn_gpu_operator qn_gpu_elementwise[] = {
    {&qn_op_relu, .run = activation_run},
    {&qn_op_relu6, .run = activation_run},
    {&qn_op_leaky_relu, .run = activation_run},
    {&qn_op_tanh, .run = activation_run},
    {&qn_op_sigmoid, .run = activation_run},
    {&qn_op_activation_backward, .run = activation_backward_run},
    {&qn_op_add, .run = add_run},
    {&qn_op_multiply, .run = multiply_run},
    {&qn_op_scale, .run = scale_run},
    {&qn_op_gelu, .run = gelu_run},
    {&qn_op_gelu_backward, .run = gelu_backward_run},
    {&qn_op_bias, .run = bias_run},
    {&qn_op_broadcast_scalar, .run = broadcast_run},
    {&qn_op_constant, .run = constant_run},
    {&qn_op_dropout, .run = dropout_run},
    {&qn_op_concat, .run = concat_run},
    {&qn_op_slice, .run = slice_run},
    {&qn_op_slice_backward, .run = slice_backward_run},
    {&qn_op_transpose, .run = transpose_run, .supports = has_few_axes},
    {&qn_op_embedding, .run = embedding_run},
    {&qn_op_embedding_backward, .run = embedding_backward_run, .supports = is_small_table},
    {0},
};
