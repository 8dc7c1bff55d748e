/* Rounding, widening and what integer training does number by number: plain loops, which are the
 * specification and, compiled with the flags of a set, that set's kernels. All give the same bits:
 * products by powers of two are exact, and no multiplication and addition is fused. */
#ifndef QN_KERNELS_INTEGER_ROWS_H
#define QN_KERNELS_INTEGER_ROWS_H

#include "kernels/integer.h"

/* A magnitude that is shifted, before its sign. */
static inline uint32_t shift_away(uint32_t size, int shift, uint32_t half) {
    return (size >> shift) + ((size & half) != 0);
}

static inline uint32_t shift_pseudo(uint32_t size, int shift, uint32_t below, int low_bits) {
    const uint32_t rest = size & below, high = rest >> low_bits;
    const uint32_t low = rest & ((UINT32_C(1) << low_bits) - 1);
    return (size >> shift) + (high > low << (shift & 1));
}

static inline int8_t with_sign(uint32_t size, int32_t of) {
    const int32_t cut = size > 127 ? 127 : (int32_t)size;
    return (int8_t)(of < 0 ? -cut : cut);
}

static inline uint32_t magnitude(int32_t x) {
    return x < 0 ? -(uint32_t)x : (uint32_t)x;
}

static void rows_shift(int64_t n, const int32_t *restrict x, qn_shift by, int8_t *restrict y) {
    const uint32_t half = by.bits > 0 ? UINT32_C(1) << (by.bits - 1) : 0;
    const uint32_t below = (UINT32_C(1) << by.bits) - 1;
    if (by.is_pseudo) {
        for (int64_t i = 0; i < n; i++)
            y[i] = with_sign(shift_pseudo(magnitude(x[i]), by.bits, below, by.bits >> 1), x[i]);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        y[i] = with_sign(shift_away(magnitude(x[i]), by.bits, half), x[i]);
}

static uint32_t rows_largest(int64_t n, const int32_t *x) {
    uint32_t most = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t size = magnitude(x[i]);
        most = size > most ? size : most;
    }
    return most;
}

typedef union float_bits {
    float number;
    uint32_t bits;
} float_bits;

/* By bits, as comparisons of floats are branches: what is beyond 200 is beyond 127, a NaN is above
 * all. A product by a power of two that floats have is exact, or so small that it is rounded to 0,
 * or so large that it is cut. */
static void rows_round_away(int64_t n, const float *restrict x, float factor, int8_t *restrict y) {
    const uint32_t infinity = UINT32_C(0x7f800000), most = (float_bits){.number = 200}.bits;
    for (int64_t i = 0; i < n; i++) {
        const float_bits scaled = {.number = x[i] * factor};
        uint32_t size = scaled.bits & 0x7fffffff;
        size = size > infinity ? 0 : size;
        const float_bits bounded = {.bits = size > most ? most : size};
        const int32_t halves = (int32_t)(bounded.number * 2);
        y[i] = with_sign((uint32_t)(halves + 1) >> 1, (int32_t)scaled.bits);
    }
}

/* Cutting to whole ends before rounding is as good as behind it, and what is that small is rounded
 * by adding what has no place for a fraction. */
static void rows_round_even(int64_t n, const float *restrict x, float scale, float zero,
                            float least, float most, void *restrict to) {
    int8_t *y = to;
    const float whole = 0x1.8p23f;
    for (int64_t i = 0; i < n; i++) {
        float s = x[i] / scale;
        s = s > most - zero ? most - zero : s;
        s = s < least - zero ? least - zero : s;
        s = s == s ? s : 0;
        y[i] = (int8_t)(uint8_t)(int32_t)(s + whole - whole + zero);
    }
}

static void rows_widen(int64_t n, const int8_t *restrict x, double factor, float *restrict y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = (float)(x[i] * factor);
}

enum { RANGE_LANES = 64 };

static void rows_range(int64_t n, const float *x, float *least, float *most) {
    float low[RANGE_LANES] = {0}, high[RANGE_LANES] = {0};
    int64_t i = 0;
    for (; i + RANGE_LANES <= n; i += RANGE_LANES) {
        for (int j = 0; j < RANGE_LANES; j++) {
            low[j] = x[i + j] < low[j] ? x[i + j] : low[j];
            high[j] = x[i + j] > high[j] ? x[i + j] : high[j];
        }
    }
    for (; i < n; i++) {
        low[0] = x[i] < low[0] ? x[i] : low[0];
        high[0] = x[i] > high[0] ? x[i] : high[0];
    }
    *least = *most = 0;
    for (int j = 0; j < RANGE_LANES; j++) {
        *least = low[j] < *least ? low[j] : *least;
        *most = high[j] > *most ? high[j] : *most;
    }
}

/* x and y may be the same, as may y or dy and dx. */
static void rows_relu(int64_t n, const int8_t *x, int8_t *y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] > 0 ? x[i] : 0;
}

static void rows_relu_backward(int64_t n, const int8_t *y, const int8_t *dy, int8_t *dx) {
    for (int64_t i = 0; i < n; i++) {
        const int8_t error = dy[i];
        dx[i] = y[i] > 0 ? error : 0;
    }
}

static void rows_step(int64_t n, const int8_t *restrict gradient, int8_t *restrict w) {
    for (int64_t i = 0; i < n; i++) {
        const int16_t stepped = (int16_t)(w[i] - gradient[i]);
        const int16_t bounded = stepped > 127 ? 127 : stepped;
        w[i] = (int8_t)(bounded < -127 ? -127 : bounded);
    }
}

#define QN_ROWS                                                                                    \
    {                                                                                              \
        .shift = rows_shift, .largest = rows_largest, .round_away = rows_round_away,               \
        .round_even = rows_round_even, .widen = rows_widen, .range = rows_range,                   \
        .relu = rows_relu, .relu_backward = rows_relu_backward, .step = rows_step,                 \
    }

#endif
