/* Rounding, widening and what integer training does number by number: plain loops, which are the
 * specification and, compiled with the flags of a set, that set's kernels. All give the same bits:
 * products by powers of two are exact, and no multiplication and addition is fused. */
#ifndef QN_KERNELS_INTEGER_ROWS_H
#define QN_KERNELS_INTEGER_ROWS_H

#include "kernels/integer.h"
#include "tensor/halves.h"

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
static inline int8_t round_away(float x) {
    const uint32_t infinity = UINT32_C(0x7f800000), most = UINT32_C(0x43480000); /* 200 */
    const float_bits scaled = {.number = x};
    uint32_t size = scaled.bits & 0x7fffffff;
    size = size > infinity ? 0 : size;
    const float_bits bounded = {.bits = size > most ? most : size};
    const int32_t halves = (int32_t)(bounded.number * 2);
    return with_sign((uint32_t)(halves + 1) >> 1, (int32_t)scaled.bits);
}

static void rows_round_away(int64_t n, const float *restrict x, float factor, int8_t *restrict y) {
    for (int64_t i = 0; i < n; i++)
        y[i] = round_away(x[i] * factor);
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

/* A product is rounded once, in floats too, where these have the factor. */
static void rows_widen(int64_t n, const int8_t *restrict x, double factor, float *restrict y) {
    const float same = (float)factor;
    if ((double)same == factor) {
        for (int64_t i = 0; i < n; i++)
            y[i] = (float)x[i] * same;
        return;
    }
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

#define ROWS_CONVERT(name, from, to, convert)                                                      \
    static void rows_##name(int64_t n, const from *restrict x, to *restrict y) {                   \
        for (int64_t i = 0; i < n; i++)                                                            \
            y[i] = convert(x[i]);                                                                  \
    }

ROWS_CONVERT(to_bf16, float, uint16_t, qn_bf16_of)
ROWS_CONVERT(of_bf16, uint16_t, float, qn_of_bf16)
ROWS_CONVERT(to_f16, float, uint16_t, qn_f16_of)
ROWS_CONVERT(of_f16, uint16_t, float, qn_of_f16)

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

/* ---- normalisation: (n, c) in strips of columns, of widths that compilers make vectors of ---- */

enum { STRIP = 64, NARROW_STRIP = 16 };

static inline int64_t strip_of(int64_t left) {
    return left >= STRIP ? STRIP : left >= NARROW_STRIP ? NARROW_STRIP : left;
}

/* A body for each width, the first argument. */
#define IN_STRIPS(c, call)                                                                         \
    for (int64_t j = 0, width; j < (c); j += width) {                                              \
        width = strip_of((c)-j);                                                                   \
        if (width == STRIP) {                                                                      \
            call(STRIP);                                                                           \
        } else if (width == NARROW_STRIP) {                                                        \
            call(NARROW_STRIP);                                                                    \
        } else {                                                                                   \
            call(width);                                                                           \
        }                                                                                          \
    }

/* Four rows are added up before they go to the sums. */
static inline __attribute__((always_inline)) void
sum_strip(int64_t width, int64_t n, int64_t c, const int8_t *restrict x, const int8_t *restrict d,
          int32_t *restrict sums, int32_t *restrict products) {
    const int64_t c2 = 2 * c, c3 = 3 * c;
    int32_t sum[STRIP] = {0}, product[STRIP] = {0};
    for (; n >= 4; n -= 4, x += 4 * c, d += 4 * c) {
        for (int64_t j = 0; j < width; j++) {
            sum[j] += (int16_t)(d[j] + d[j + c] + d[j + c2] + d[j + c3]);
            product[j] += (int16_t)(d[j] * x[j]) + (int16_t)(d[j + c] * x[j + c]) +
                          (int16_t)(d[j + c2] * x[j + c2]) + (int16_t)(d[j + c3] * x[j + c3]);
        }
    }
    for (; n > 0; n--, x += c, d += c) {
        for (int64_t j = 0; j < width; j++) {
            sum[j] += d[j];
            product[j] += d[j] * x[j];
        }
    }
    for (int64_t j = 0; j < width; j++) {
        sums[j] = sum[j];
        products[j] = product[j];
    }
}

static void rows_norm_sums(int64_t n, int64_t c, const int8_t *x, const int8_t *d,
                           int32_t *restrict sums, int32_t *restrict products) {
#define CALL(width) sum_strip(width, n, c, x + j, d + j, sums + j, products + j)
    IN_STRIPS(c, CALL)
#undef CALL
}

static inline __attribute__((always_inline)) void ends_strip(int64_t width, int64_t n, int64_t c,
                                                             const int8_t *restrict x,
                                                             int8_t *restrict least,
                                                             int8_t *restrict most) {
    int8_t low[STRIP], high[STRIP];
    for (int64_t j = 0; j < width; j++)
        low[j] = high[j] = n > 0 ? x[j] : 0;
    for (int64_t i = 1; i < n; i++) {
        x += c;
        for (int64_t j = 0; j < width; j++) {
            low[j] = x[j] < low[j] ? x[j] : low[j];
            high[j] = x[j] > high[j] ? x[j] : high[j];
        }
    }
    for (int64_t j = 0; j < width; j++) {
        least[j] = low[j];
        most[j] = high[j];
    }
}

static void rows_norm_ends(int64_t n, int64_t c, const int8_t *x, int8_t *least, int8_t *most) {
#define CALL(width) ends_strip(width, n, c, x + j, least + j, most + j)
    IN_STRIPS(c, CALL)
#undef CALL
}

static inline float line_at(const float *lines, int64_t c, int8_t x, int8_t d) {
    return (float)x * lines[0] + (float)d * lines[c] + lines[2 * c];
}

static inline __attribute__((always_inline)) float
largest_strip(int64_t width, int64_t n, int64_t c, const int8_t *restrict x,
              const int8_t *restrict d, const float *restrict lines) {
    float most[STRIP] = {0}, all = 0;
    for (int64_t i = 0; i < n; i++, x += c, d += c) {
        for (int64_t j = 0; j < width; j++) {
            const float y = line_at(lines + j, c, x[j], d[j]), size = y < 0 ? -y : y;
            most[j] = size > most[j] ? size : most[j];
        }
    }
    for (int64_t j = 0; j < width; j++)
        all = most[j] > all ? most[j] : all;
    return all;
}

static float rows_norm_largest(int64_t n, int64_t c, const int8_t *x, const int8_t *d,
                               const float *lines) {
    float all = 0, most;
#define CALL(width)                                                                                \
    most = largest_strip(width, n, c, x + j, d + j, lines + j);                                    \
    all = most > all ? most : all
    IN_STRIPS(c, CALL)
#undef CALL
    return all;
}

static inline __attribute__((always_inline)) void
apply_strip(int64_t width, int64_t n, int64_t c, const int8_t *restrict x, const int8_t *restrict d,
            const float *restrict lines, int8_t *restrict y) {
    for (int64_t i = 0; i < n; i++, x += c, y += c) {
        for (int64_t j = 0; j < width && d; j++)
            y[j] = round_away(line_at(lines + j, c, x[j], d[j]));
        for (int64_t j = 0; j < width && !d; j++)
            y[j] = round_away((float)x[j] * lines[j] + lines[2 * c + j]);
        d += d ? c : 0;
    }
}

static void rows_norm_apply(int64_t n, int64_t c, const int8_t *x, const int8_t *d,
                            const float *lines, int8_t *y) {
#define WITH(width)    apply_strip(width, n, c, x + j, d + j, lines + j, y + j)
#define WITHOUT(width) apply_strip(width, n, c, x + j, NULL, lines + j, y + j)
    if (d) {
        IN_STRIPS(c, WITH)
    } else {
        IN_STRIPS(c, WITHOUT)
    }
#undef WITH
#undef WITHOUT
}

#define QN_ROWS                                                                                    \
    {                                                                                              \
        .shift = rows_shift, .largest = rows_largest, .round_away = rows_round_away,               \
        .round_even = rows_round_even, .widen = rows_widen, .range = rows_range,                   \
        .to_bf16 = rows_to_bf16, .of_bf16 = rows_of_bf16, .to_f16 = rows_to_f16,                   \
        .of_f16 = rows_of_f16, .relu = rows_relu, .relu_backward = rows_relu_backward,             \
        .step = rows_step, .norm_sums = rows_norm_sums, .norm_ends = rows_norm_ends,               \
        .norm_largest = rows_norm_largest, .norm_apply = rows_norm_apply,                          \
    }

#endif
