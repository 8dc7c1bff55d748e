/* How the CPU runs losses and their means. */
#include "ops/loss.h"
#include "device/cpu/cpu.h"
#include "ops/shared.h"

/* ---- binary cross entropy ---- */

static void binary_cross_entropy_run(const qn_call *call) {
    const qn_binary_cross_entropy_attributes *a = call->attributes;
    call->kernels->binary_cross_entropy(call->team, qn_call_count(call), call->in[0], call->in[1],
                                        a->target, call->out[0]);
}

static void binary_cross_entropy_backward_run(const qn_call *call) {
    const qn_binary_cross_entropy_attributes *a = call->attributes;
    call->kernels->binary_cross_entropy_backward(call->team, qn_call_count(call), call->in[0],
                                                 call->in[1], a->target, call->in[2], call->out[0]);
}

/* ---- smooth l1 ---- */

static void smooth_l1_run(const qn_call *call) {
    call->kernels->smooth_l1(call->team, qn_call_count(call), call->in[0], call->in[1],
                             call->out[0]);
}

static void smooth_l1_backward_run(const qn_call *call) {
    call->kernels->smooth_l1_backward(call->team, qn_call_count(call), call->in[0], call->in[1],
                                      call->in[2], call->out[0]);
}

/* ---- softmax cross entropy ---- */

static void softmax_cross_entropy_run(const qn_call *call) {
    const qn_softmax_cross_entropy_attributes *a = call->attributes;
    const qn_shape logits = call->inputs[0].shape;
    call->kernels->cross_entropy(call->team, qn_shape_rows(logits), qn_shape_columns(logits),
                                 call->in[0], call->in[1], a->smoothing, call->out[0],
                                 call->out[1]);
}

static void softmax_cross_entropy_backward_run(const qn_call *call) {
    const qn_softmax_cross_entropy_attributes *a = call->attributes;
    const qn_shape shape = call->inputs[0].shape;
    call->kernels->cross_entropy_backward(call->team, qn_shape_rows(shape), qn_shape_columns(shape),
                                          call->in[0], call->in[1], a->smoothing, call->in[2],
                                          call->out[0]);
}

/* ---- squared error ---- */

static void squared_error_run(const qn_call *call) {
    const qn_shape x = call->inputs[0].shape;
    call->kernels->squared_error(call->team, x.dims[0], x.dims[1], call->in[0], call->in[1],
                                 call->out[0]);
}

static void squared_error_backward_run(const qn_call *call) {
    const qn_shape x = call->inputs[0].shape;
    call->kernels->squared_error_backward(call->team, x.dims[0], x.dims[1], call->in[0],
                                          call->in[1], call->in[2], call->out[0]);
}

/* ---- peer loss ---- */

static void peer_loss_run(const qn_call *call) {
    const qn_peer_loss_attributes *a = call->attributes;
    const double loss =
        a->peer->ask(a->peer->user, call->inputs[0], call->in[0], call->in[1], call->out[1]);
    if (call->outputs[0].dtype == QN_F64)
        *(double *)call->out[0] = loss;
    else
        *(float *)call->out[0] = (float)loss;
}

/* ---- mean ---- */

static size_t mean_workspace(const qn_kernels *kernels, const void *attributes,
                             const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)attributes;
    (void)outputs;
    return kernels->sum_workspace(qn_shape_count(inputs[0].shape), n_threads);
}

static void mean_run(const qn_call *call) {
    const int64_t n = qn_shape_count(call->inputs[0].shape);
    call->kernels->sum(call->team, n, call->in[0], call->out[0], call->workspace);
    call->kernels->scale(call->team, 1, 1.0 / (double)n, call->out[0], call->out[0]);
}

/* ---- mean valid ---- */

static void mean_valid_run(const qn_call *call) {
    call->kernels->mean_valid(qn_shape_count(call->inputs[0].shape), call->in[0], call->in[1],
                              call->out[0]);
}

static void mean_valid_backward_run(const qn_call *call) {
    call->kernels->mean_valid_backward(qn_call_count(call), call->in[0], call->in[1], call->out[0]);
}

const qn_cpu_operator qn_cpu_loss[] = {
    {&qn_op_binary_cross_entropy, .run = binary_cross_entropy_run},
    {&qn_op_binary_cross_entropy_backward, .run = binary_cross_entropy_backward_run},
    {&qn_op_smooth_l1, .run = smooth_l1_run},
    {&qn_op_smooth_l1_backward, .run = smooth_l1_backward_run},
    {&qn_op_softmax_cross_entropy, .run = softmax_cross_entropy_run},
    {&qn_op_softmax_cross_entropy_backward, .run = softmax_cross_entropy_backward_run},
    {&qn_op_squared_error, .run = squared_error_run},
    {&qn_op_squared_error_backward, .run = squared_error_backward_run},
    {&qn_op_peer_loss, .run = peer_loss_run},
    {&qn_op_mean, .run = mean_run, .workspace = mean_workspace},
    {&qn_op_mean_valid, .run = mean_valid_run},
    {&qn_op_mean_valid_backward, .run = mean_valid_backward_run},
    {0},
};
