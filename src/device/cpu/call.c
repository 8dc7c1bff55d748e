/* Parts of calls (cpu.h). */
#include "device/cpu/cpu.h"
#include "ops/shared.h"

#include <string.h>

bool qn_call_goes_on(const qn_call *call, int sum, int output) {
    if (call->node->n_inputs <= sum)
        return false;
    if (!qn_call_is_placed(call, sum))
        memcpy(call->out[output], call->in[sum], qn_tensor_bytes(call->outputs[output]));
    return true;
}

bool qn_call_is_placed(const qn_call *call, int input) {
    return call->is_placed && call->is_placed[input];
}

int64_t qn_call_count(const qn_call *call) {
    return qn_shape_count(call->outputs[0].shape);
}

const void *qn_call_hyper(const qn_call *call, double factor, double own[QN_HYPER_COUNT]) {
    if (factor == 1)
        return call->in[0];
    memcpy(own, call->in[0], QN_HYPER_COUNT * qn_dtype_bytes(call->inputs[0].dtype));
    if (call->inputs[0].dtype == QN_F64) {
        own[QN_HYPER_RATE] *= factor;
        return own;
    }
    float rate;
    memcpy(&rate, (float *)(void *)own + QN_HYPER_RATE, sizeof rate);
    rate = (float)(rate * factor);
    memcpy((float *)(void *)own + QN_HYPER_RATE, &rate, sizeof rate);
    return own;
}

int64_t qn_call_in_stride(const qn_call *call, int input) {
    return call->in_strides ? call->in_strides[input] : qn_shape_columns(call->inputs[input].shape);
}

int64_t qn_call_out_stride(const qn_call *call, int output) {
    return call->out_strides ? call->out_strides[output]
                             : qn_shape_columns(call->outputs[output].shape);
}

qn_rows qn_call_rows(const qn_call *call) {
    const qn_shape shape = call->outputs[0].shape;
    return (qn_rows){.rows = qn_shape_rows(shape), .c = qn_shape_columns(shape)};
}

qn_conv2d_shape qn_cpu_window(const qn_convolution *window, int64_t y_stride) {
    return (qn_conv2d_shape){.n = window->n,
                             .h = window->h,
                             .w = window->w,
                             .c = window->c,
                             .k = window->k,
                             .r = window->r,
                             .s = window->s,
                             .p = window->p,
                             .q = window->q,
                             .stride_h = window->stride_h,
                             .stride_w = window->stride_w,
                             .pad_top = window->pad_top,
                             .pad_left = window->pad_left,
                             .dilation_h = window->dilation_h,
                             .dilation_w = window->dilation_w,
                             .groups = window->groups,
                             .batch = window->batch,
                             .inside = window->inside,
                             .y_stride = y_stride};
}
