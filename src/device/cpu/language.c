/* How the CPU runs norms by the root mean square, rotary positions, gated products,
 * causal attention and cross entropy in slices. */
#include "ops/language.h"
#include "device/cpu/cpu.h"
#include "kernels/language.h"
#include "ops/shared.h"

/* Input i, where there is one. */
static const void *input_at(const qn_call *call, int i) {
    return call->node->n_inputs > i ? call->in[i] : NULL;
}

static const qn_language_kernels *language_of(const qn_call *call) {
    return qn_language_kernels_get(call->kernels);
}

static void rms_norm_run(const qn_call *call) {
    const qn_rms_norm_attributes *a = call->attributes;
    const qn_shape x = call->inputs[0].shape;
    language_of(call)->rms_norm_forward(call->team, qn_shape_rows(x), qn_shape_columns(x),
                                        call->in[0], input_at(call, 1), a->offset, a->epsilon,
                                        call->out[0]);
}

static void rms_norm_backward_run(const qn_call *call) {
    const qn_rms_norm_attributes *a = call->attributes;
    const qn_shape x = call->inputs[0].shape;
    language_of(call)->rms_norm_backward(call->team, qn_shape_rows(x), qn_shape_columns(x),
                                         call->in[0], call->in[1], input_at(call, 2), a->offset,
                                         a->epsilon, call->out[0]);
}

static void rotary_run(const qn_call *call) {
    const qn_rotary_attributes *a = call->attributes;
    const int64_t *x = call->inputs[QN_ROTARY_X].shape.dims;
    const int64_t *table = call->inputs[QN_ROTARY_COSINES].shape.dims;
    const qn_rotary_shape shape = {.rows = x[0] * x[1],
                                   .t = x[1],
                                   .h = x[2],
                                   .d = x[3],
                                   .r = 2 * table[1],
                                   .table_rows = table[0],
                                   .neighbours = a->neighbours,
                                   .backwards = a->backwards};
    language_of(call)->rotary(call->team, &shape, call->in[QN_ROTARY_X],
                              call->in[QN_ROTARY_COSINES], call->in[QN_ROTARY_SINES],
                              input_at(call, QN_ROTARY_POSITIONS), call->out[0]);
}

static void gated_run(const qn_call *call) {
    const qn_gated_attributes *a = call->attributes;
    language_of(call)->gated_forward(call->team, (qn_gate)a->kind, qn_call_count(call), call->in[0],
                                     input_at(call, 1), call->out[0]);
}

static void gated_backward_run(const qn_call *call) {
    const qn_gated_attributes *a = call->attributes;
    const void *up = input_at(call, 2);
    language_of(call)->gated_backward(call->team, (qn_gate)a->kind, qn_call_count(call),
                                      call->in[0], up, call->in[1], call->out[0],
                                      up ? call->out[1] : NULL);
}

/* ---- causal attention ---- */

static size_t causal_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)outputs;
    const qn_causal_shape shape = qn_causal_of(attributes, inputs);
    return qn_language_kernels_get(kernels)->causal_attention_workspace(kernels, &shape, false,
                                                                        n_threads);
}

static void causal_run(const qn_call *call) {
    const qn_causal_shape shape = qn_causal_of(call->attributes, call->inputs);
    const qn_causal_operands operands = {.query = call->in[QN_CAUSAL_QUERY],
                                         .key = call->in[QN_CAUSAL_KEY],
                                         .value = call->in[QN_CAUSAL_VALUE],
                                         .first = input_at(call, QN_CAUSAL_FIRST),
                                         .last = input_at(call, QN_CAUSAL_LAST),
                                         .y = call->out[0],
                                         .log_sums = call->out[1]};
    language_of(call)->causal_attention_forward(call->kernels, call->team, &shape, &operands,
                                                call->workspace);
}

static size_t causal_backward_workspace(const qn_kernels *kernels, const void *attributes,
                                        const qn_tensor *inputs, const qn_tensor *outputs,
                                        int n_threads) {
    (void)outputs;
    const qn_causal_shape shape = qn_causal_of(attributes, inputs);
    return qn_language_kernels_get(kernels)->causal_attention_workspace(kernels, &shape, true,
                                                                        n_threads);
}

static void causal_backward_run(const qn_call *call) {
    const qn_causal_shape shape = qn_causal_of(call->attributes, call->inputs);
    const qn_causal_operands operands = {.query = call->in[QN_CAUSAL_QUERY],
                                         .key = call->in[QN_CAUSAL_KEY],
                                         .value = call->in[QN_CAUSAL_VALUE],
                                         .first = call->in[QN_CAUSAL_BACKWARD_FIRST],
                                         .last = call->in[QN_CAUSAL_BACKWARD_LAST],
                                         .y = call->in[QN_CAUSAL_Y],
                                         .log_sums = call->in[QN_CAUSAL_LOG_SUMS],
                                         .dy = call->in[QN_CAUSAL_DY],
                                         .dquery = call->out[0],
                                         .dkey = call->out[1],
                                         .dvalue = call->out[2]};
    language_of(call)->causal_attention_backward(call->kernels, call->team, &shape, &operands,
                                                 call->workspace);
}

/* ---- sliced cross entropy ---- */

/* Without data. */
static qn_sliced_operands sliced_of(const void *attributes, const qn_tensor *inputs) {
    const qn_sliced_attributes *a = attributes;
    return (qn_sliced_operands){.n = inputs[QN_SLICED_X].shape.dims[0],
                                .soft_cap = a->soft_cap,
                                .table = {.blocks = (qn_blocks)a->table.blocks,
                                          .rows = inputs[QN_SLICED_TABLE].shape.dims[0],
                                          .columns = a->table.columns},
                                .makes_slopes = a->makes_slopes};
}

static size_t sliced_workspace(const qn_kernels *kernels, const void *attributes,
                               const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)outputs;
    const qn_sliced_operands operands = sliced_of(attributes, inputs);
    return qn_language_kernels_get(kernels)->sliced_cross_entropy_workspace(kernels, &operands,
                                                                            n_threads);
}

static void sliced_run(const qn_call *call) {
    qn_sliced_operands operands = sliced_of(call->attributes, call->inputs);
    operands.x = call->in[QN_SLICED_X];
    operands.table.data = call->in[QN_SLICED_TABLE];
    operands.labels = call->in[QN_SLICED_LABELS];
    operands.losses = call->out[0];
    operands.slopes = operands.makes_slopes ? call->out[1] : NULL;
    language_of(call)->sliced_cross_entropy(call->kernels, call->team, &operands, call->workspace);
}

const qn_cpu_operator qn_cpu_language[] = {
    {&qn_op_rms_norm, .run = rms_norm_run},
    {&qn_op_rms_norm_backward, .run = rms_norm_backward_run},
    {&qn_op_rotary, .run = rotary_run},
    {&qn_op_gated, .run = gated_run},
    {&qn_op_gated_backward, .run = gated_backward_run},
    {&qn_op_causal, .run = causal_run, .workspace = causal_workspace},
    {&qn_op_causal_backward, .run = causal_backward_run, .workspace = causal_backward_workspace},
    {&qn_op_sliced, .run = sliced_run, .workspace = sliced_workspace},
    {0},
};
