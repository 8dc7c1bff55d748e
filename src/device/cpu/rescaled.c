/* How the CPU runs products whose sums are shifted where they are made (ops/rescaled.h): by the
 * shift that is kept of the step before, and once more if the sums turn out to need another one.
 * Sums that are made in parts are stored anyway; exactly, the right one shifts them at once. */
#include "ops/rescaled.h"
#include "device/cpu/cpu.h"

enum {
    AT_ONCE = 16384,    /* sums of a task */
    FEW_PRODUCTS = 400, /* to make them twice takes no longer than to store and read sums */
};

size_t qn_cpu_sums_bytes(const qn_tensor *outputs, qn_sums sums) {
    const size_t bytes = (size_t)qn_shape_count(outputs[0].shape) * sizeof(int32_t);
    return sums == QN_SUMS_SHIFTED ? 0 : (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

qn_sums qn_cpu_sums(const qn_rescaling *how, int64_t products, bool in_parts) {
    if (in_parts)
        return QN_SUMS_STORED;
    return how->adapts || products < FEW_PRODUCTS ? QN_SUMS_SHIFTED : QN_SUMS_EITHER;
}

typedef struct shifting {
    const qn_call *call;
    const qn_integer_result *y;
} shifting;

static void shift_task(void *context, int64_t begin, int64_t end, int thread) {
    const shifting *s = context;
    const int64_t n = qn_call_count(s->call), first = begin * AT_ONCE;
    const int64_t last = end * AT_ONCE < n ? end * AT_ONCE : n;
    (void)thread;
    qn_integer_kernels_get(s->call->kernels->isa)
        ->rows.shift(last - first, s->y->sums + first, s->y->shift,
                     (int8_t *)s->call->out[0] + first);
}

/* Whether all sums of a step are stored before the first of them is shifted. */
static bool are_stored(const qn_rescaling *how, const int32_t *kept, qn_sums sums) {
    if (how->adapts && kept[QN_KEPT_STEPS] > 0)
        return false;
    return sums == QN_SUMS_STORED ||
           (sums == QN_SUMS_EITHER && kept[QN_KEPT_PERIOD] < QN_SURE_FROM_STEPS);
}

void qn_cpu_rescale(const qn_call *call, qn_integer_product *product, qn_sums sums) {
    const qn_rescaling *how = qn_rescaling_of(call->node->op, call->attributes);
    const int32_t *kept = call->in[2];
    const int bits = qn_rescaling_bits(how, call->step);
    const bool is_stored = are_stored(how, kept, sums);
    uint32_t largest = 0;
    qn_call own = *call;
    qn_integer_result y = {.largest = &largest,
                           .shift = {qn_shift_in_range(kept[QN_KEPT_SHIFT]),
                                     how->rounding == QN_ROUND_PSEUDO_STOCHASTIC}};
    own.workspace = (char *)call->workspace + qn_cpu_sums_bytes(call->outputs, sums);
    if (sums != QN_SUMS_SHIFTED)
        y.sums = call->workspace;
    if (!is_stored)
        y.shifted = call->out[0];
    product(&own, &y);
    const int right = qn_shift_for(largest, bits);
    const bool is_wrong = y.shift.bits != right && !qn_shift_may_stay(how->adapts, kept, right);
    if (is_wrong)
        y.shift.bits = right;
    if (is_wrong && !is_stored)
        product(&own, &y);
    if (is_stored)
        qn_team_run(call->team, (qn_call_count(call) + AT_ONCE - 1) / AT_ONCE, shift_task,
                    &(shifting){call, &y});
    *(int32_t *)call->out[1] = y.shift.bits;
    qn_shift_keep(how->adapts, how->period, kept, y.shift.bits, right, is_stored, call->out[2]);
}
