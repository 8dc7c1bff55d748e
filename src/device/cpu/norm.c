/* How the CPU runs batch norm and layer norm. */
#include "ops/network/norm.h"
#include "device/cpu/half.h"
#include "ops/shared.h"

/* ---- batch norm ---- */

/* How x is converted, in the caller's space, if it is of 16-bit floats; else null. */
static const qn_half_rows *halves_of(const qn_kernels *kernels, qn_dtype x, qn_half_rows *space) {
    *space = qn_half_rows_of(x, kernels->isa);
    return qn_dtype_is_half(x) ? space : NULL;
}

static size_t batch_norm_workspace(const qn_kernels *kernels, const void *attributes,
                                   const qn_tensor *inputs, const qn_tensor *outputs,
                                   int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_tensor x = inputs[0];
    qn_half_rows space;
    const qn_rows rows = {.rows = qn_shape_rows(x.shape),
                          .c = qn_shape_columns(x.shape),
                          .halves = halves_of(kernels, x.dtype, &space)};
    return kernels->batch_norm_workspace(&rows, n_threads);
}

static void batch_norm_run(const qn_call *call) {
    const qn_batch_norm_attributes *a = call->attributes;
    qn_half_rows space;
    qn_rows rows = qn_call_rows(call);
    rows.halves = halves_of(call->kernels, call->inputs[0].dtype, &space);
    rows.strides[0] = qn_call_in_stride(call, 0);
    rows.strides[1] = qn_call_out_stride(call, 0);
    call->kernels->batch_norm_forward(call->team, &rows, call->in[0], call->in[1], call->in[2],
                                      a->epsilon, a->activation, call->out[0], call->out[1],
                                      call->out[2], call->workspace);
}

static void batch_norm_backward_run(const qn_call *call) {
    const qn_batch_norm_attributes *a = call->attributes;
    qn_half_rows space;
    qn_rows rows = qn_call_rows(call);
    rows.halves = halves_of(call->kernels, call->inputs[0].dtype, &space);
    rows.strides[0] = qn_call_in_stride(call, 0);
    rows.strides[1] = call->in[1] ? qn_call_in_stride(call, 1) : 0;
    rows.strides[2] = qn_call_in_stride(call, 2);
    call->kernels->batch_norm_backward(call->team, &rows, call->in[0], call->in[1], call->in[2],
                                       call->in[3], call->in[4], call->in[5], a->activation,
                                       call->out[0], call->out[1], call->out[2], call->workspace);
}

static void batch_norm_running_run(const qn_call *call) {
    const qn_batch_norm_running_attributes *a = call->attributes;
    call->kernels->batch_norm_running(a->rows, qn_call_count(call), call->in[0], call->in[1],
                                      a->epsilon, a->momentum, call->out[0], call->out[1]);
}

static void batch_norm_inference_run(const qn_call *call) {
    const qn_batch_norm_attributes *a = call->attributes;
    qn_rows rows = qn_call_rows(call);
    rows.strides[0] = qn_call_in_stride(call, 0);
    rows.strides[1] = qn_call_out_stride(call, 0);
    call->kernels->batch_norm_inference(call->team, &rows, call->in[0], call->in[1], call->in[2],
                                        call->in[3], call->in[4], a->epsilon, a->activation,
                                        call->out[0]);
}

/* ---- layer norm ---- */

static void layer_norm_run(const qn_call *call) {
    const qn_layer_norm_attributes *a = call->attributes;
    const qn_shape x = call->inputs[0].shape;
    call->kernels->layer_norm_forward(call->team, qn_shape_rows(x), qn_shape_columns(x),
                                      call->in[0], call->in[1], call->in[2], a->epsilon,
                                      call->out[0], call->out[1], call->out[2]);
}

static size_t layer_norm_backward_workspace(const qn_kernels *kernels, const void *attributes,
                                            const qn_tensor *inputs, const qn_tensor *outputs,
                                            int n_threads) {
    (void)attributes;
    (void)outputs;
    const qn_shape x = inputs[0].shape;
    return kernels->layer_norm_workspace(qn_shape_rows(x), qn_shape_columns(x), n_threads);
}

static void layer_norm_backward_run(const qn_call *call) {
    const qn_shape x = call->inputs[0].shape;
    const bool goes_on = qn_call_goes_on(call, QN_LAYER_NORM_SUM, 1) &&
                         qn_call_goes_on(call, QN_LAYER_NORM_SUM + 1, 2);
    call->kernels->layer_norm_backward(call->team, qn_shape_rows(x), qn_shape_columns(x),
                                       call->in[0], call->in[1], call->in[2], call->in[3],
                                       call->in[4], goes_on, call->out[0], call->out[1],
                                       call->out[2], call->workspace);
}

/* Chunks of rows are powers of two; a sample may have any number of rows. */
static int64_t layer_norm_backward_chunk(const qn_kernels *kernels, const void *attributes,
                                         const qn_tensor *inputs) {
    const qn_shape x = inputs[0].shape;
    (void)attributes;
    if (x.rank < 2)
        return 0;
    const int64_t rows = qn_shape_rows(x) / x.dims[0];
    int64_t chunk = kernels->layer_norm_chunk(qn_shape_columns(x));
    for (int64_t rest = rows; chunk > 1 && rest % 2 == 0; rest /= 2)
        chunk /= 2;
    return chunk;
}

const qn_cpu_operator qn_cpu_norm[] = {
    {&qn_op_batch_norm, .types = QN_TYPES_HALF, .run = batch_norm_run,
     .workspace = batch_norm_workspace},
    {&qn_op_batch_norm, .run = batch_norm_run, .workspace = batch_norm_workspace},
    {&qn_op_batch_norm_backward, .types = QN_TYPES_HALF, .run = batch_norm_backward_run,
     .workspace = batch_norm_workspace},
    {&qn_op_batch_norm_backward, .run = batch_norm_backward_run, .workspace = batch_norm_workspace},
    {&qn_op_batch_norm_running, .run = batch_norm_running_run},
    {&qn_op_batch_norm_inference, QN_CPU_ON_HALF(rows)},
    {&qn_op_batch_norm_inference, .run = batch_norm_inference_run},
    {&qn_op_layer_norm, .run = layer_norm_run},
    {&qn_op_layer_norm_backward, .run = layer_norm_backward_run,
     .workspace = layer_norm_backward_workspace, .chunk = layer_norm_backward_chunk},
    {0},
};
