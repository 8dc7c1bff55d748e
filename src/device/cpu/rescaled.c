/* How the CPU runs products whose sums are shifted where they are made (ops/rescaled.h): by the
 * shift that is kept of the step before, and once more if the sums turn out to need another one.
 * Sums that are made in parts are stored anyway; exactly, the right one shifts them at once. */
#include "ops/rescaled.h"
#include "device/cpu/cpu.h"

enum {
    AT_ONCE = 16384,     /* sums of a task */
    FEW_PRODUCTS = 400,  /* to make them twice takes no longer than to store and read sums */
    SURE_FROM_STEPS = 4, /* the period of a shift that is likely to stay */
    MOST_CUT = 1,        /* what a shift that is taken may be too small */
    MOST_WASTED = 2,     /* and too large: bits of the result that carry nothing */
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

/* The shift that leaves so many bits of the largest sum: ceil(log2(largest)) - bits. */
static int shift_for(uint32_t largest, int bits) {
    int power = 0;
    while (power < 32 && (UINT64_C(1) << power) < largest)
        power++;
    return power > bits ? power - bits : 0;
}

/* Whether the kept shift is taken in this step although another one is right. */
static bool may_stay(const qn_rescaling *how, const int32_t *kept, int right) {
    const int more = kept[QN_KEPT_SHIFT] - right;
    return how->adapts && kept[QN_KEPT_STEPS] > 0 && more >= -MOST_CUT && more <= MOST_WASTED;
}

static int32_t counted(const int32_t *before, int what, bool is_one) {
    return before[what] + (is_one && before[what] < INT32_MAX);
}

/* What is kept of a step in which a shift was taken when another one was right, or that one. */
static void keep(const int32_t *before, int shift, int right, bool is_stored, int32_t *after) {
    const bool stayed = shift == before[QN_KEPT_SHIFT] && before[QN_KEPT_STEPS] > 0;
    int32_t period = before[QN_KEPT_PERIOD], left = before[QN_KEPT_LEFT];
    const bool stays = stayed && (shift == right || (shift > right && left > 0));
    if (!stays) {
        period = left = 1;
    } else if (left > 0) {
        left--;
    } else {
        period = period < QN_LONGEST_PERIOD / 2 ? 2 * period : QN_LONGEST_PERIOD;
        period = left = period > 0 ? period : 1;
    }
    after[QN_KEPT_SHIFT] = stays ? shift : right;
    after[QN_KEPT_LEFT] = left;
    after[QN_KEPT_PERIOD] = period;
    after[QN_KEPT_STEPS] = counted(before, QN_KEPT_STEPS, true);
    after[QN_KEPT_MADE] = counted(before, QN_KEPT_MADE, is_stored);
    after[QN_KEPT_TWICE] = counted(before, QN_KEPT_TWICE, !stayed && !is_stored);
    after[QN_KEPT_WRONG] = counted(before, QN_KEPT_WRONG, shift != right);
}

static int32_t in_range(int32_t shift) {
    return shift < 0 ? 0 : shift > 31 ? 31 : shift;
}

/* Whether all sums of a step are stored before the first of them is shifted. */
static bool are_stored(const qn_rescaling *how, const int32_t *kept, qn_sums sums) {
    if (how->adapts && kept[QN_KEPT_STEPS] > 0)
        return false;
    return sums == QN_SUMS_STORED ||
           (sums == QN_SUMS_EITHER && kept[QN_KEPT_PERIOD] < SURE_FROM_STEPS);
}

void qn_cpu_rescale(const qn_call *call, qn_integer_product *product, qn_sums sums) {
    const qn_rescaling *how = qn_rescaling_of(call->node->op, call->attributes);
    const int32_t *kept = call->in[2];
    const int bits = qn_rescaling_bits(how, call->step);
    const bool is_stored = are_stored(how, kept, sums);
    uint32_t largest = 0;
    qn_call own = *call;
    qn_integer_result y = {
        .largest = &largest,
        .shift = {in_range(kept[QN_KEPT_SHIFT]), how->rounding == QN_ROUND_PSEUDO_STOCHASTIC}};
    own.workspace = (char *)call->workspace + qn_cpu_sums_bytes(call->outputs, sums);
    if (sums != QN_SUMS_SHIFTED)
        y.sums = call->workspace;
    if (!is_stored)
        y.shifted = call->out[0];
    product(&own, &y);
    const int right = shift_for(largest, bits);
    const bool is_wrong = y.shift.bits != right && !may_stay(how, kept, right);
    if (is_wrong)
        y.shift.bits = right;
    if (is_wrong && !is_stored)
        product(&own, &y);
    if (is_stored)
        qn_team_run(call->team, (qn_call_count(call) + AT_ONCE - 1) / AT_ONCE, shift_task,
                    &(shifting){call, &y});
    *(int32_t *)call->out[1] = y.shift.bits;
    keep(kept, y.shift.bits, right, is_stored, call->out[2]);
}
