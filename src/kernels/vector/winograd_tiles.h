/* The transforms of a Winograd convolution F(4x4, 3x3): outputs of 4x4 pixels from inputs of 6x6 by
 * 49 products instead of 144. Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural
 * Networks" (2016), section 4.1, with the points 0, 1, -1, i, -i and infinity, of Meng and
 * Brothers, "Efficient Winograd Convolution via Integer Arithmetic" (2019), section 4: the two
 * complex ones are a product of complex numbers, of three real products. The usual points 0, 1, -1,
 * 2, -2 need 36 products, but their powers make rounding errors several times those of the direct
 * sum; here all factors are 1, 1/2 and 1/4, and results are about as good. A transform of a plane
 * is one of its columns, then of its rows. */
#ifndef QN_KERNELS_VECTOR_WINOGRAD_TILES_H
#define QN_KERNELS_VECTOR_WINOGRAD_TILES_H

#include "kernels/vector/depthwise_rows.h"
#include "kernels/vector/tiles.h"

#if VL >= 8
#include <immintrin.h>
#endif

enum { LINE = QN_WINOGRAD_LINE };

/* ---- the first n lanes of a vector, 1 <= n <= VL ----  What lies beyond is not touched; when
 * read, it counts as zeros. */

static inline int64_t lanes_from(int64_t c, int64_t n) {
    return n - c < VL ? n - c : VL;
}

#if VL == 16
static inline vector load_part(const float *from, int64_t n) {
    return (vector)_mm512_maskz_loadu_ps((__mmask16)(0xffff >> (VL - n)), from);
}

static inline void store_part(float *to, vector v, int64_t n) {
    _mm512_mask_storeu_ps(to, (__mmask16)(0xffff >> (VL - n)), (__m512)v);
}
#elif VL == 8
static const int32_t part_masks[2 * VL] = {-1, -1, -1, -1, -1, -1, -1, -1};

static inline vector load_part(const float *from, int64_t n) {
    return (vector)_mm256_maskload_ps(from,
                                      _mm256_loadu_si256((const __m256i *)(part_masks + VL - n)));
}

static inline void store_part(float *to, vector v, int64_t n) {
    _mm256_maskstore_ps(to, _mm256_loadu_si256((const __m256i *)(part_masks + VL - n)), (__m256)v);
}
#else
static __attribute__((noinline)) vector load_part(const float *from, int64_t n) {
    vector v = {0};
    for (int64_t i = 0; i < n; i++)
        v[i] = from[i];
    return v;
}

static __attribute__((noinline)) void store_part(float *to, vector v, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        to[i] = v[i];
}
#endif

static inline vector load_lanes(const float *from, int64_t n) {
    return n == VL ? load(from) : load_part(from, n);
}

static inline void store_lanes(float *to, vector v, int64_t n) {
    if (n == VL)
        *(vector *)to = v;
    else
        store_part(to, v, n);
}

/* ---- in one dimension ----  Values at 0, 1, -1, the real part, the imaginary part, the sum of the
 * two, at infinity. */

static inline __attribute__((always_inline)) void input_line(const vector d[6], vector v[LINE]) {
    const vector a = d[1] + d[3], b = d[2] + d[4], c = d[3] - d[1], e = d[4] - d[2];
    v[0] = d[0] - d[4];
    v[1] = b + a;
    v[2] = b - a;
    v[3] = c + e;
    v[4] = c - e;
    v[5] = c;
    v[6] = d[5] - d[1];
}

static inline __attribute__((always_inline)) void filter_line(const vector g[3], vector u[LINE]) {
    const vector a = (g[0] + g[2]) * 0.25f, b = g[1] * 0.25f;
    const vector c = (g[0] - g[2]) * 0.5f, e = g[1] * 0.5f;
    u[0] = g[0];
    u[1] = a + b;
    u[2] = a - b;
    u[3] = c;
    u[4] = e;
    u[5] = -(c + e);
    u[6] = g[2];
}

static inline __attribute__((always_inline)) void output_line(const vector m[LINE], vector y[4]) {
    const vector a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[5], e = m[4] + m[5];
    y[0] = m[0] + (a + c);
    y[1] = b + e;
    y[2] = a - c;
    y[3] = (b - e) + m[6];
}

/* The transposes of the last two: for the gradient of the filter. */

static inline __attribute__((always_inline)) void gradient_line(const vector d[4], vector v[LINE]) {
    const vector a = d[0] + d[2], b = d[1] + d[3], c = d[0] - d[2], e = d[1] - d[3];
    v[0] = d[0];
    v[1] = a + b;
    v[2] = a - b;
    v[3] = c;
    v[4] = e;
    v[5] = c + e;
    v[6] = d[3];
}

static inline __attribute__((always_inline)) void filter_gradient_line(const vector u[LINE],
                                                                       vector g[3]) {
    const vector a = (u[1] + u[2]) * 0.25f, c = (u[3] - u[5]) * 0.5f;
    g[0] = u[0] + (a + c);
    g[1] = (u[1] - u[2]) * 0.25f + (u[4] - u[5]) * 0.5f;
    g[2] = (a - c) + u[6];
}

/* ---- in two ---- */

static inline __attribute__((always_inline)) vector load_inside(const qn_winograd_tile *t, int i,
                                                                int j, int64_t c, int64_t lanes) {
    if (i < t->top || i >= t->bottom || j < t->left || j >= t->right)
        return (vector){0};
    return load_lanes(t->pixels + i * t->row_stride + j * t->pixel_stride + c, lanes);
}

/* size x size pixels, channels [c, n) of them, to 7x7 planes. `plain`: all of the tile is inside,
 * and the channels are whole vectors. */
static inline __attribute__((always_inline)) void
pixels_to_planes(bool plain, int size, const qn_winograd_tile *t, int64_t c, int64_t n,
                 float *planes, int64_t plane_stride) {
    for (; c < n; c += VL) {
        vector columns[6][LINE]; /* [column][point] */
#pragma GCC unroll 6
        for (int j = 0; j < size; j++) {
            vector d[6];
#pragma GCC unroll 6
            for (int i = 0; i < size; i++)
                d[i] = plain ? load(t->pixels + i * t->row_stride + j * t->pixel_stride + c)
                             : load_inside(t, i, j, c, lanes_from(c, n));
            if (size == 6)
                input_line(d, columns[j]);
            else
                gradient_line(d, columns[j]);
        }
#pragma GCC unroll 7
        for (int i = 0; i < LINE; i++) {
            vector d[6], v[LINE];
#pragma GCC unroll 6
            for (int j = 0; j < size; j++)
                d[j] = columns[j][i];
            if (size == 6)
                input_line(d, v);
            else
                gradient_line(d, v);
#pragma GCC unroll 7
            for (int j = 0; j < LINE; j++)
                *(vector *)(planes + (i * LINE + j) * plane_stride + c) = v[j];
        }
    }
}

/* Channels of the tile's n that are plain. */
static int64_t plain_channels(const qn_winograd_tile *t, int size, int64_t n) {
    const bool inside = t->top == 0 && t->left == 0 && t->bottom == size && t->right == size;
    return inside ? n / VL * VL : 0;
}

static void winograd_input(const qn_winograd_tile *t, int64_t n, float *planes,
                           int64_t plane_stride) {
    const int64_t plain = plain_channels(t, 6, n);
    pixels_to_planes(true, 6, t, 0, plain, planes, plane_stride);
    pixels_to_planes(false, 6, t, plain, n, planes, plane_stride);
}

static void winograd_gradient(const qn_winograd_tile *t, int64_t n, float *planes,
                              int64_t plane_stride) {
    const int64_t plain = plain_channels(t, 4, n);
    pixels_to_planes(true, 4, t, 0, plain, planes, plane_stride);
    pixels_to_planes(false, 4, t, plain, n, planes, plane_stride);
}

static void winograd_output(const float *planes, int64_t plane_stride, int64_t n, const float *bias,
                            const qn_winograd_tile *t) {
    for (int64_t c = 0; c < n; c += VL) {
        const int64_t lanes = lanes_from(c, n);
        const vector shift = bias ? load_lanes(bias + c, lanes) : (vector){0};
        vector columns[LINE][4]; /* [column][row] */
#pragma GCC unroll 7
        for (int j = 0; j < LINE; j++) {
            vector m[LINE];
#pragma GCC unroll 7
            for (int i = 0; i < LINE; i++)
                m[i] = load(planes + (i * LINE + j) * plane_stride + c);
            output_line(m, columns[j]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            vector m[LINE], y[4];
#pragma GCC unroll 7
            for (int j = 0; j < LINE; j++)
                m[j] = columns[j][i];
            output_line(m, y);
            float *row = t->pixels + i * t->row_stride + c;
            for (int j = 0; i < t->bottom && j < t->right; j++)
                store_lanes(row + j * t->pixel_stride, y[j] + shift, lanes);
        }
    }
}

static void winograd_filter(const float *taps, int64_t row_stride, int64_t tap_stride, int64_t n,
                            float *planes, int64_t plane_stride) {
    for (int64_t c = 0; c < n; c += VL) {
        vector columns[3][LINE];
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) {
            vector g[3];
#pragma GCC unroll 3
            for (int i = 0; i < 3; i++)
                g[i] = load_lanes(taps + i * row_stride + j * tap_stride + c, lanes_from(c, n));
            filter_line(g, columns[j]);
        }
#pragma GCC unroll 7
        for (int i = 0; i < LINE; i++) {
            vector g[3] = {columns[0][i], columns[1][i], columns[2][i]}, u[LINE];
            filter_line(g, u);
#pragma GCC unroll 7
            for (int j = 0; j < LINE; j++)
                *(vector *)(planes + (i * LINE + j) * plane_stride + c) = u[j];
        }
    }
}

static void winograd_filter_gradient(const float *planes, int64_t plane_stride, int64_t n,
                                     float *taps, int64_t row_stride, int64_t tap_stride,
                                     bool add) {
    for (int64_t c = 0; c < n; c += VL) {
        const int64_t lanes = lanes_from(c, n);
        vector columns[LINE][3];
#pragma GCC unroll 7
        for (int j = 0; j < LINE; j++) {
            vector u[LINE];
#pragma GCC unroll 7
            for (int i = 0; i < LINE; i++)
                u[i] = load(planes + (i * LINE + j) * plane_stride + c);
            filter_gradient_line(u, columns[j]);
        }
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++) {
            vector u[LINE], g[3];
#pragma GCC unroll 7
            for (int j = 0; j < LINE; j++)
                u[j] = columns[j][i];
            filter_gradient_line(u, g);
#pragma GCC unroll 3
            for (int j = 0; j < 3; j++) {
                float *to = taps + i * row_stride + j * tap_stride + c;
                store_lanes(to, add ? (vector)(load_lanes(to, lanes) + g[j]) : g[j], lanes);
            }
        }
    }
}

const qn_winograd WINOGRAD = {winograd_input, winograd_gradient, winograd_output, winograd_filter,
                              winograd_filter_gradient};

#endif
