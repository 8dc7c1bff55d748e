/* How the CPU runs means and maxima of windows. */
#include "ops/network/pool.h"
#include "device/cpu/half.h"
#include "ops/shared.h"

/* ---- average pool ---- */

static void average_pool_run(const qn_call *call) {
    qn_convolution window;
    if (qn_average_pool_of(call->attributes, call->inputs[0].shape, &window) != QN_OK)
        return;
    const qn_conv2d_shape d = qn_cpu_window(&window, qn_call_out_stride(call, 0));
    call->kernels->average_pool(call->team, &d, call->in[0], call->out[0]);
}

static void average_pool_backward_run(const qn_call *call) {
    const qn_conv2d_backward_attributes *a = call->attributes;
    const qn_conv2d_shape d = qn_cpu_window(&a->shape, qn_call_in_stride(call, 0));
    call->kernels->average_pool_backward(call->team, &d, call->in[0], call->out[0]);
}

static void average_pool_global_run(const qn_call *call) {
    const qn_convolution window = qn_global_pool_of(call->inputs[0].shape);
    const qn_conv2d_shape d = qn_cpu_window(&window, qn_call_out_stride(call, 0));
    call->kernels->average_pool(call->team, &d, call->in[0], call->out[0]);
}

/* ---- max pool ---- */

static void max_pool_run(const qn_call *call) {
    qn_convolution window;
    if (qn_max_pool_of(call->attributes, call->inputs[0].shape, &window) != QN_OK)
        return;
    const qn_conv2d_shape d = qn_cpu_window(&window, qn_call_out_stride(call, 0));
    call->kernels->max_pool(call->team, &d, call->in[0], call->out[0], call->out[1]);
}

static void max_pool_backward_run(const qn_call *call) {
    const qn_conv2d_backward_attributes *a = call->attributes;
    const qn_conv2d_shape d = qn_cpu_window(&a->shape, qn_call_in_stride(call, 0));
    call->kernels->max_pool_backward(call->team, &d, call->in[0], call->in[1], call->out[0]);
}

/* ---- the same of I8 ---- */

static void integer_max_pool_run(const qn_call *call) {
    qn_convolution window;
    if (qn_max_pool_of(call->attributes, call->inputs[0].shape, &window) != QN_OK)
        return;
    const qn_conv2d_shape d = qn_cpu_window(&window, qn_call_out_stride(call, 0));
    qn_integer_kernels_get(call->kernels->isa)
        ->max_pool(call->team, &d, call->in[0], call->out[0], call->out[1]);
}

static void integer_max_pool_backward_run(const qn_call *call) {
    const qn_conv2d_backward_attributes *a = call->attributes;
    const qn_conv2d_shape d = qn_cpu_window(&a->shape, qn_call_in_stride(call, 0));
    qn_integer_kernels_get(call->kernels->isa)
        ->max_pool_backward(call->team, &d, call->in[0], call->in[1], call->out[0]);
}

const qn_cpu_operator qn_cpu_pool[] = {
    {&qn_op_average_pool, QN_CPU_ON_HALF(samples)},
    {&qn_op_average_pool, .run = average_pool_run},
    {&qn_op_average_pool_backward, QN_CPU_ON_HALF(samples)},
    {&qn_op_average_pool_backward, .run = average_pool_backward_run},
    {&qn_op_global_average_pool, QN_CPU_ON_HALF(samples)},
    {&qn_op_global_average_pool, .run = average_pool_global_run},
    {&qn_op_max_pool, .types = QN_TYPES(QN_I8), .run = integer_max_pool_run},
    {&qn_op_max_pool, QN_CPU_ON_HALF(samples)},
    {&qn_op_max_pool, .run = max_pool_run},
    {&qn_op_max_pool_backward, .types = QN_TYPES(QN_I8), .run = integer_max_pool_backward_run},
    {&qn_op_max_pool_backward, QN_CPU_ON_HALF(samples)},
    {&qn_op_max_pool_backward, .run = max_pool_backward_run},
    {0},
};
