/* How the CPU runs activations, GELU and softmax. */
#include "device/cpu/half.h"
#include "ops/shared.h"

/* ---- activation ---- */

static void activation_run(const qn_call *call) {
    const qn_activation_attributes *a = call->attributes;
    qn_rows rows = qn_call_rows(call);
    rows.strides[0] = qn_call_in_stride(call, 0);
    rows.strides[1] = qn_call_out_stride(call, 0);
    call->kernels->activation_forward(call->team, a->activation, &rows, call->in[0], call->out[0]);
}

static void activation_backward_run(const qn_call *call) {
    const qn_activation_attributes *a = call->attributes;
    qn_rows rows = qn_call_rows(call);
    rows.strides[0] = qn_call_in_stride(call, 0);
    rows.strides[1] = qn_call_in_stride(call, 1);
    rows.strides[2] = qn_call_out_stride(call, 0);
    call->kernels->activation_backward(call->team, a->activation, &rows, call->in[0], call->in[1],
                                       call->out[0]);
}

/* ---- ReLU of I8, row by row ---- */

enum { AT_ONCE = 16384 }; /* numbers of a task, where rows lie together */

typedef struct int8_rows {
    const qn_call *call;
    int64_t rows, c, count, strides[3];
} int8_rows;

static int64_t width_of(const int8_rows *all, int64_t row) {
    const int64_t left = all->count - row * all->c;
    return left < all->c ? left : all->c;
}

static void relu_task(void *context, int64_t begin, int64_t end, int thread) {
    const int8_rows *all = context;
    (void)thread;
    for (int64_t i = begin; i < end; i++)
        qn_integer_kernels_get(all->call->kernels->isa)
            ->rows.relu(width_of(all, i), (const int8_t *)all->call->in[0] + i * all->strides[0],
                        (int8_t *)all->call->out[0] + i * all->strides[2]);
}

static void relu_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    const int8_rows *all = context;
    (void)thread;
    for (int64_t i = begin; i < end; i++)
        qn_integer_kernels_get(all->call->kernels->isa)
            ->rows.relu_backward(width_of(all, i),
                                 (const int8_t *)all->call->in[0] + i * all->strides[0],
                                 (const int8_t *)all->call->in[1] + i * all->strides[1],
                                 (int8_t *)all->call->out[0] + i * all->strides[2]);
}

/* Where no tensor has a step, rows are as long as a task. */
static void int8_run(const qn_call *call, int n_inputs, qn_team_task *task) {
    const qn_rows rows = qn_call_rows(call);
    int8_rows all = {call, rows.rows, rows.c, rows.rows * rows.c, {0}};
    bool is_dense = qn_call_out_stride(call, 0) == rows.c;
    all.strides[2] = qn_call_out_stride(call, 0);
    for (int i = 0; i < n_inputs; i++) {
        all.strides[i] = qn_call_in_stride(call, i);
        is_dense = is_dense && all.strides[i] == rows.c;
    }
    if (is_dense) {
        all.c = all.strides[0] = all.strides[1] = all.strides[2] = AT_ONCE;
        all.rows = (all.count + AT_ONCE - 1) / AT_ONCE;
    }
    qn_team_run(call->team, all.rows, task, &all);
}

static void int8_relu_run(const qn_call *call) {
    int8_run(call, 1, relu_task);
}

static void int8_relu_backward_run(const qn_call *call) {
    int8_run(call, 2, relu_backward_task);
}

/* ---- gelu ---- */

static void gelu_run(const qn_call *call) {
    call->kernels->gelu(call->team, qn_call_count(call), call->in[0], call->out[0]);
}

static void gelu_backward_run(const qn_call *call) {
    call->kernels->gelu_backward(call->team, qn_call_count(call), call->in[0], call->in[1],
                                 call->out[0]);
}

/* ---- softmax ---- */

static void softmax_run(const qn_call *call) {
    const qn_shape shape = call->inputs[0].shape;
    call->kernels->softmax(call->team, qn_shape_rows(shape), qn_shape_columns(shape), call->in[0],
                           call->out[0]);
}

static void softmax_backward_run(const qn_call *call) {
    const qn_shape shape = call->inputs[0].shape;
    call->kernels->softmax_backward(call->team, qn_shape_rows(shape), qn_shape_columns(shape),
                                    call->in[0], call->in[1], call->out[0]);
}

const qn_cpu_operator qn_cpu_activation[] = {
    {&qn_op_relu, .types = QN_TYPES(QN_I8), .run = int8_relu_run},
    {&qn_op_relu, QN_CPU_ON_HALF(rows)},
    {&qn_op_relu, .run = activation_run},
    {&qn_op_relu6, QN_CPU_ON_HALF(rows)},
    {&qn_op_relu6, .run = activation_run},
    {&qn_op_leaky_relu, QN_CPU_ON_HALF(rows)},
    {&qn_op_leaky_relu, .run = activation_run},
    {&qn_op_tanh, QN_CPU_ON_HALF(rows)},
    {&qn_op_tanh, .run = activation_run},
    {&qn_op_sigmoid, QN_CPU_ON_HALF(rows)},
    {&qn_op_sigmoid, .run = activation_run},
    {&qn_op_activation_backward, .types = QN_TYPES(QN_I8), .run = int8_relu_backward_run},
    {&qn_op_activation_backward, QN_CPU_ON_HALF(rows)},
    {&qn_op_activation_backward, .run = activation_backward_run},
    {&qn_op_gelu, .run = gelu_run},
    {&qn_op_gelu_backward, .run = gelu_backward_run},
    {&qn_op_softmax, .run = softmax_run},
    {&qn_op_softmax_backward, .run = softmax_backward_run},
    {0},
};
