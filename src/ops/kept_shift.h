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

/* Whether a kept shift is taken although another one is right: never; within limits and for periods
 * that grow; or always until a period ends. */
typedef enum qn_shift_rule {
    QN_SHIFTS_EXACT,
    QN_SHIFTS_ADAPTIVE,
    QN_SHIFTS_FIXED,
} qn_shift_rule;

enum {
    QN_LONGEST_PERIOD = 8,  /* unless another one is given */
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
static inline bool qn_shift_may_stay(int rule, const int32_t *kept, int right) {
    const int more = kept[QN_KEPT_SHIFT] - right;
    if (rule == QN_SHIFTS_EXACT || kept[QN_KEPT_STEPS] <= 0)
        return false;
    return rule == QN_SHIFTS_FIXED ? kept[QN_KEPT_LEFT] > 0
                                   : more >= -QN_MOST_CUT && more <= QN_MOST_WASTED;
}

static inline int32_t qn_shift_counted(const int32_t *before, int what, bool is_one) {
    return before[what] + (is_one && before[what] < INT32_MAX);
}

static inline void qn_shift_count(const int32_t *before, bool is_made, bool is_twice, bool is_wrong,
                                  int32_t *after) {
    after[QN_KEPT_STEPS] = qn_shift_counted(before, QN_KEPT_STEPS, true);
    after[QN_KEPT_MADE] = qn_shift_counted(before, QN_KEPT_MADE, is_made);
    after[QN_KEPT_TWICE] = qn_shift_counted(before, QN_KEPT_TWICE, is_twice);
    after[QN_KEPT_WRONG] = qn_shift_counted(before, QN_KEPT_WRONG, is_wrong);
}

/* The same by fixed periods: the shift of a step that begins one is computed. */
static inline void qn_shift_keep_fixed(const int32_t *before, int shift, int right, int period,
                                       int32_t *after) {
    const bool stays = before[QN_KEPT_STEPS] > 0 && before[QN_KEPT_LEFT] > 0;
    const int32_t left = before[QN_KEPT_LEFT];
    qn_shift_count(before, !stays, false, shift != right, after);
    after[QN_KEPT_SHIFT] = stays ? shift : right;
    after[QN_KEPT_LEFT] = stays ? left - 1 : period - 1;
    after[QN_KEPT_PERIOD] = period;
}

/* What is kept of a step in which a shift was taken when another one was right, or that one;
 * longest: period, 0: the usual one; is_stored: of sums that were stored before. */
static inline void qn_shift_keep(int rule, int longest, const int32_t *before, int shift, int right,
                                 bool is_stored, int32_t *after) {
    const bool stayed = shift == before[QN_KEPT_SHIFT] && before[QN_KEPT_STEPS] > 0;
    int32_t period = before[QN_KEPT_PERIOD], left = before[QN_KEPT_LEFT];
    const bool stays = stayed && (shift == right || (shift > right && left > 0));
    longest = longest > 0 ? longest : QN_LONGEST_PERIOD;
    if (rule == QN_SHIFTS_FIXED) {
        qn_shift_keep_fixed(before, shift, right, longest, after);
        return;
    }
    if (!stays) {
        period = left = 1;
    } else if (left > 0) {
        left--;
    } else {
        period = period <= longest / 2 ? 2 * period : longest;
        period = left = period > 0 ? period : 1;
    }
    qn_shift_count(before, is_stored, !stayed && !is_stored, shift != right, after);
    after[QN_KEPT_SHIFT] = stays ? shift : right;
    after[QN_KEPT_LEFT] = left;
    after[QN_KEPT_PERIOD] = period;
}

#endif
