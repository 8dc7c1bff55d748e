/* How the CPU runs the recurrence of LSTM layers. */
#include "ops/network/lstm.h"
#include "device/cpu/cpu.h"
#include "ops/shared.h"

#include <string.h>

static size_t lstm_workspace(const qn_kernels *kernels, const void *attributes,
                             const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_lstm_shape d = qn_lstm_of(inputs);
    return kernels->lstm_workspace(&d, false, n_threads);
}

static void lstm_run(const qn_call *call) {
    const qn_lstm_shape d = qn_lstm_of(call->inputs);
    const qn_lstm_forward forward = {
        .x = call->in[QN_LSTM_IN_X],
        .weight = call->in[QN_LSTM_IN_WEIGHT],
        .h = call->in[QN_LSTM_IN_H],
        .c = call->in[QN_LSTM_IN_C],
        .lengths = call->in[QN_LSTM_IN_LENGTHS],
        .gates = call->out[QN_LSTM_OUT_GATES],
        .y = call->out[QN_LSTM_OUT_Y],
        .h_last = call->out[QN_LSTM_OUT_H],
        .c_last = call->out[QN_LSTM_OUT_C],
        .cells = call->out[QN_LSTM_OUT_CELLS],
    };
    call->kernels->lstm_forward(call->team, &d, &forward, call->workspace);
}

/* A task is a sequence. */
static void lstm_before_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const qn_call *call = context;
    const qn_tensor y = call->inputs[0];
    const size_t state = (size_t)y.shape.dims[2] * qn_dtype_bytes(y.dtype);
    const size_t sequence = (size_t)y.shape.dims[1] * state;
    for (int64_t n = begin; n < end; n++) {
        const char *from = (const char *)call->in[0] + (size_t)n * sequence;
        char *to = (char *)call->out[0] + (size_t)n * sequence;
        if (call->in[1])
            memcpy(to, (const char *)call->in[1] + (size_t)n * state, state);
        else
            memset(to, 0, state);
        memcpy(to + state, from, sequence - state);
    }
}

static void lstm_before_run(const qn_call *call) {
    qn_call copy = *call;
    qn_team_run(call->team, call->inputs[0].shape.dims[0], lstm_before_task, &copy);
}

static size_t lstm_backward_workspace(const qn_kernels *kernels, const void *attributes,
                                      const qn_tensor *inputs, const qn_tensor *outputs,
                                      int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_lstm_shape d = qn_lstm_of(inputs);
    return kernels->lstm_workspace(&d, true, n_threads);
}

static void lstm_backward_run(const qn_call *call) {
    const qn_lstm_backward_attributes *a = call->attributes;
    const qn_lstm_shape d = qn_lstm_of(call->inputs);
    const qn_lstm_backward backward = {
        .gates = call->in[QN_LSTM_BACK_GATES],
        .cells = call->in[QN_LSTM_BACK_CELLS],
        .weight = call->in[QN_LSTM_BACK_WEIGHT],
        .c = call->in[QN_LSTM_BACK_C],
        .lengths = call->in[QN_LSTM_BACK_LENGTHS],
        .dy = call->in[QN_LSTM_BACK_DY],
        .dh = call->in[QN_LSTM_BACK_DH],
        .dc = call->in[QN_LSTM_BACK_DC],
        .dx = call->out[0],
        .dh0 = a->state ? call->out[1] : NULL,
        .dc0 = a->state ? call->out[2] : NULL,
    };
    call->kernels->lstm_backward(call->team, &d, &backward, call->workspace);
}

const qn_cpu_operator qn_cpu_lstm[] = {
    {&qn_op_lstm, .run = lstm_run, .workspace = lstm_workspace},
    {&qn_op_lstm_before, .run = lstm_before_run},
    {&qn_op_lstm_backward, .run = lstm_backward_run, .workspace = lstm_backward_workspace},
    {0},
};
