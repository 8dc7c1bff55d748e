/* How the CPU runs scaled dot-product attention. */
#include "ops/network/attention.h"
#include "device/cpu/cpu.h"
#include "ops/shared.h"

static qn_rng attention_stream_of(const qn_call *call) {
    return qn_rng_make(call->seed, qn_attention_key(call->node), call->step);
}

static size_t attention_workspace(const qn_kernels *kernels, const void *attributes,
                                  const qn_tensor *inputs, const qn_tensor *outputs,
                                  int n_threads) {
    (void)outputs;
    const qn_attention_shape shape = qn_attention_of(attributes, inputs);
    return kernels->attention_workspace(&shape, false, n_threads);
}

static void attention_run(const qn_call *call) {
    const qn_attention_shape shape = qn_attention_of(call->attributes, call->inputs);
    const int32_t *lengths =
        call->node->n_inputs > QN_ATTENTION_LENGTHS ? call->in[QN_ATTENTION_LENGTHS] : NULL;
    call->kernels->attention_forward(call->team, &shape, attention_stream_of(call),
                                     call->in[QN_ATTENTION_QUERY], call->in[QN_ATTENTION_KEY],
                                     call->in[QN_ATTENTION_VALUE], lengths, call->out[0],
                                     call->out[1], call->workspace);
}

static size_t attention_backward_workspace(const qn_kernels *kernels, const void *attributes,
                                           const qn_tensor *inputs, const qn_tensor *outputs,
                                           int n_threads) {
    (void)outputs;
    const qn_attention_shape shape = qn_attention_of(attributes, inputs);
    return kernels->attention_workspace(&shape, true, n_threads);
}

static void attention_backward_run(const qn_call *call) {
    const qn_attention_shape shape = qn_attention_of(call->attributes, call->inputs);
    call->kernels->attention_backward(
        call->team, &shape, attention_stream_of(call), call->in[QN_ATTENTION_QUERY],
        call->in[QN_ATTENTION_KEY], call->in[QN_ATTENTION_VALUE],
        call->in[QN_ATTENTION_BACKWARD_LENGTHS], call->in[QN_ATTENTION_Y],
        call->in[QN_ATTENTION_LOG_SUMS], call->in[QN_ATTENTION_DY], call->out[0], call->out[1],
        call->out[2], call->workspace);
}

const qn_cpu_operator qn_cpu_attention[] = {
    {&qn_op_attention, .run = attention_run, .workspace = attention_workspace},
    {&qn_op_attention_backward, .run = attention_backward_run,
     .workspace = attention_backward_workspace},
    {0},
};
