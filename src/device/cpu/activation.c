/* How the CPU runs activations, GELU and softmax. */
#include "device/cpu/cpu.h"
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
    {&qn_op_relu, .run = activation_run},
    {&qn_op_relu6, .run = activation_run},
    {&qn_op_leaky_relu, .run = activation_run},
    {&qn_op_tanh, .run = activation_run},
    {&qn_op_sigmoid, .run = activation_run},
    {&qn_op_activation_backward, .run = activation_backward_run},
    {&qn_op_gelu, .run = gelu_run},
    {&qn_op_gelu_backward, .run = gelu_backward_run},
    {&qn_op_softmax, .run = softmax_run},
    {&qn_op_softmax_backward, .run = softmax_backward_run},
    {0},
};
