/* How the CPU runs updates in place (optimisers, accumulation) and the factor that clips gradients.
 */
#include "ops/update.h"
#include "device/cpu/cpu.h"
#include "ops/shared.h"
#include "tensor/number.h"

#include <math.h>

/* ---- accumulate ---- */

static void accumulate_run(const qn_call *call) {
    const qn_rows rows = qn_call_rows(call);
    call->kernels->add(call->team, &rows, call->in[0], call->in[1],
                       (qn_activation){QN_ACTIVATION_NONE, 0}, call->out[0]);
}

/* ---- sgd ---- */

static void sgd_run(const qn_call *call) {
    const qn_sgd_attributes *a = call->attributes;
    double own[QN_HYPER_COUNT];
    call->kernels->sgd(call->team, qn_call_count(call), qn_call_hyper(call, a->rate, own),
                       a->nesterov, call->in[1], call->in[2], call->out[0],
                       call->node->n_outputs > 1 ? call->out[1] : NULL);
}

/* ---- adam ---- */

static void adam_run(const qn_call *call) {
    const qn_adam_attributes *a = call->attributes;
    double own[QN_HYPER_COUNT];
    call->kernels->adam(call->team, qn_call_count(call), qn_call_hyper(call, a->rate, own),
                        a->decoupled, call->in[1], call->in[2], call->out[0], call->out[1],
                        call->out[2]);
}

/* ---- clip ---- */

static size_t clip_workspace(const qn_kernels *kernels, const void *attributes,
                             const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)outputs;
    size_t largest = 0;
    for (int i = 1; i <= ((const qn_clip_attributes *)attributes)->n_gradients; i++) {
        size_t bytes = kernels->sum_workspace(qn_shape_count(inputs[i].shape), n_threads);
        largest = bytes > largest ? bytes : largest;
    }
    return largest;
}

static void clip_run(const qn_call *call) {
    const qn_clip_attributes *a = call->attributes;
    const qn_dtype real = call->outputs[0].dtype;
    double squares = 0;
    for (int i = 1; i <= a->n_gradients; i++) {
        call->kernels->sum_squares(call->team, qn_shape_count(call->inputs[i].shape), call->in[i],
                                   call->out[0], call->workspace);
        squares += qn_number_get(real, call->out[0], 0);
    }
    const double norm = sqrt(squares) * fabs(qn_number_get(real, call->in[0], QN_HYPER_GRADIENT));
    const double factor = norm > a->limit ? a->limit / norm : 1;
    qn_number_set(real, call->out[0], 0, isfinite(norm) ? factor : (double)NAN);
}

const qn_cpu_operator qn_cpu_update[] = {
    {&qn_op_accumulation, .run = accumulate_run},
    {&qn_op_sgd_step, .run = sgd_run},
    {&qn_op_adam_step, .run = adam_run},
    {&qn_op_clip, .run = clip_run, .workspace = clip_workspace},
    {0},
};
