/* See rehearsal.h. */
#include "run/rehearsal.h"

/* The sums of gradients are kept elsewhere where batches are accumulated. */
bool qn_rehearsal_can_run(const qn_engine *e, const qn_call *call) {
    const char *arena = e->arena;
    for (int i = 0; i < call->node->n_inputs; i++) {
        if (call->node->inputs[i].id >= 0 && !call->in[i])
            return false;
    }
    for (int i = 0; i < call->node->n_outputs; i++) {
        const char *out = call->out[i];
        if (out && (out < arena || out >= arena + e->arena_bytes))
            return false;
    }
    return true;
}

void qn_rehearsal_fill(qn_engine *e) {
    float *reals = e->arena;
    for (size_t i = 0; i < e->arena_bytes / sizeof *reals; i++)
        reals[i] = (float)(int)(i * 7 % 13) / 16 - 0.375F;
}
