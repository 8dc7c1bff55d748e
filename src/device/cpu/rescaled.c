/* How the CPU runs products whose sums are shifted where they are made (ops/rescaled.h): by the
 * shift that is kept of the step before, and once more if the sums turn out to need another one.
 * Sums that are made in parts are stored anyway and are shifted by the right one at once. */
#include "ops/rescaled.h"
#include "device/cpu/cpu.h"

enum { AT_ONCE = 16384 }; /* sums of a task */

size_t qn_cpu_kept_bytes(const qn_tensor *outputs, bool keeps) {
    const size_t bytes = (size_t)qn_shape_count(outputs[0].shape) * sizeof(int32_t);
    return keeps ? (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT : 0;
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

/* The shift that leaves so many bits of the largest sum: ceil(log2(largest)) - bits. */
static int shift_for(uint32_t largest, int bits) {
    int power = 0;
    while (power < 32 && (UINT64_C(1) << power) < largest)
        power++;
    return power > bits ? power - bits : 0;
}

/* Whether the kept shift stays for this step although another one is right. */
static bool may_stay(const qn_rescaling *how, const int32_t *kept, int right) {
    return how->adapts && kept[QN_KEPT_STEPS] > 0 && kept[QN_KEPT_SHIFT] > right &&
           kept[QN_KEPT_LEFT] > 0;
}

/* What is kept of a step: that the product was made by a shift, when another one was right. */
static void keep(const int32_t *before, int shift, int right, bool is_made, int32_t *after) {
    const bool stayed = shift == before[QN_KEPT_SHIFT] && !is_made;
    int32_t period = before[QN_KEPT_PERIOD], left = before[QN_KEPT_LEFT];
    if (!stayed) {
        period = left = 1;
    } else if (left > 0) {
        left--;
    } else {
        period = period < QN_LONGEST_PERIOD / 2 ? 2 * period : QN_LONGEST_PERIOD;
        period = left = period > 0 ? period : 1;
    }
    after[QN_KEPT_SHIFT] = shift;
    after[QN_KEPT_LEFT] = left;
    after[QN_KEPT_PERIOD] = period;
    after[QN_KEPT_STEPS] = before[QN_KEPT_STEPS] + (before[QN_KEPT_STEPS] < INT32_MAX);
    after[QN_KEPT_MADE] = before[QN_KEPT_MADE] + (is_made && before[QN_KEPT_MADE] < INT32_MAX);
    after[QN_KEPT_WRONG] =
        before[QN_KEPT_WRONG] + (shift != right && before[QN_KEPT_WRONG] < INT32_MAX);
}

static int32_t in_range(int32_t shift) {
    return shift < 0 ? 0 : shift > 31 ? 31 : shift;
}

void qn_cpu_rescale(const qn_call *call, qn_integer_product *product, bool keeps) {
    const qn_rescaling *how = qn_rescaling_of(call->node->op, call->attributes);
    const int32_t *kept = call->in[2];
    const int bits = qn_rescaling_bits(how, call->step);
    uint32_t largest = 0;
    qn_call own = *call;
    qn_integer_result y = {
        .largest = &largest,
        .shift = {in_range(kept[QN_KEPT_SHIFT]), how->rounding == QN_ROUND_PSEUDO_STOCHASTIC}};
    own.workspace = (char *)call->workspace + qn_cpu_kept_bytes(call->outputs, keeps);
    if (keeps)
        y.sums = call->workspace;
    else
        y.shifted = call->out[0];
    product(&own, &y);
    const int right = shift_for(largest, bits);
    const bool is_made = y.shift.bits != right && !may_stay(how, kept, right);
    if (is_made)
        y.shift.bits = right;
    if (is_made && !keeps)
        product(&own, &y);
    if (keeps)
        qn_team_run(call->team, (qn_call_count(call) + AT_ONCE - 1) / AT_ONCE, shift_task,
                    &(shifting){call, &y});
    *(int32_t *)call->out[1] = y.shift.bits;
    keep(kept, y.shift.bits, right, is_made, call->out[2]);
}
