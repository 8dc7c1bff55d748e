/* The rule by which the shift of a product's sums is kept from step to step (ops/rescaled.h). Of
 * nothing but whole numbers, so that what runs on another processor includes it too. */
#ifndef QN_OPS_KEPT_SHIFT_H
#define QN_OPS_KEPT_SHIFT_H

#include <stdbool.h>
#include <stdint.h>

/* What is kept: a vector of QN_I32, all 0 before the first step. */
enum {
    QN_KEPT_SHIFT,
    QN_KEPT_LEFT,   /* steps of the period that are left */
    QN_KEPT_PERIOD, /* steps */
    QN_KEPT_STEPS,  /* so far; what follows counts them */
    QN_KEPT_MADE,   /* of stored sums by a shift that was computed */
    QN_KEPT_TWICE,  /* the kept shift was wrong: the product was made twice */
    QN_KEPT_WRONG,  /* the kept shift was wrong and was taken */
    QN_KEPT_COUNT,
};

enum {
    QN_LONGEST_PERIOD = 8,
    QN_SURE_FROM_STEPS = 4, /* the period of a shift that is likely to stay */
    QN_MOST_CUT = 1,        /* what a shift that is taken may be too small */
    QN_MOST_WASTED = 2,     /* and too large: bits of the result that carry nothing */
};

/* The shift that leaves so many bits of the largest sum: ceil(log2(largest)) - bits. */
static inline int qn_shift_for(uint32_t largest, int bits) {
    int power = 0;
    while (power < 32 && (UINT64_C(1) << power) < largest)
        power++;
    return power > bits ? power - bits : 0;
}

static inline int32_t qn_shift_in_range(int32_t shift) {
    return shift < 0 ? 0 : shift > 31 ? 31 : shift;
}

/* Whether the kept shift is taken in this step although another one is right. */
static inline bool qn_shift_may_stay(bool adapts, const int32_t *kept, int right) {
    const int more = kept[QN_KEPT_SHIFT] - right;
    return adapts && kept[QN_KEPT_STEPS] > 0 && more >= -QN_MOST_CUT && more <= QN_MOST_WASTED;
}

static inline int32_t qn_shift_counted(const int32_t *before, int what, bool is_one) {
    return before[what] + (is_one && before[what] < INT32_MAX);
}

/* What is kept of a step in which a shift was taken when another one was right, or that one;
 * is_stored: of sums that were stored before. */
static inline void qn_shift_keep(const int32_t *before, int shift, int right, bool is_stored,
                                 int32_t *after) {
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
    after[QN_KEPT_STEPS] = qn_shift_counted(before, QN_KEPT_STEPS, true);
    after[QN_KEPT_MADE] = qn_shift_counted(before, QN_KEPT_MADE, is_stored);
    after[QN_KEPT_TWICE] = qn_shift_counted(before, QN_KEPT_TWICE, !stayed && !is_stored);
    after[QN_KEPT_WRONG] = qn_shift_counted(before, QN_KEPT_WRONG, shift != right);
}

#endif
