/* The transforms of a Winograd convolution F(3x3, 2x2): outputs of 3x3 pixels from inputs of 4x4 by
 * 16 products instead of 36, with the points 0, 1, -1 and infinity. They serve filters of 4x4 at
 * stride 2, whose every other row and column, a phase, is a filter of 2x2 at stride 1 over every
 * other row and column of the image (winograd.h). All factors are 1 and 1/2. */
#ifndef QN_KERNELS_VECTOR_PHASED_TILES_H
#define QN_KERNELS_VECTOR_PHASED_TILES_H

#include "kernels/vector/winograd_tiles.h"

enum { PHASED_LINE = 4 };

/* ---- in one dimension ----  Values at 0, 1, -1 and infinity. */

static inline __attribute__((always_inline)) void phased_input_line(const vector d[4],
                                                                    vector v[PHASED_LINE]) {
    v[0] = d[0] - d[2];
    v[1] = d[1] + d[2];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
}

static inline __attribute__((always_inline)) void phased_gradient_line(const vector d[3],
                                                                       vector v[PHASED_LINE]) {
    const vector a = d[0] + d[2];
    v[0] = d[0];
    v[1] = a + d[1];
    v[2] = a - d[1];
    v[3] = d[2];
}

static inline __attribute__((always_inline)) void phased_filter_line(const vector g[2],
                                                                     vector u[PHASED_LINE]) {
    u[0] = g[0];
    u[1] = (g[0] + g[1]) * 0.5f;
    u[2] = (g[0] - g[1]) * 0.5f;
    u[3] = g[1];
}

static inline __attribute__((always_inline)) void phased_output_line(const vector m[PHASED_LINE],
                                                                     vector y[3]) {
    const vector a = m[1] + m[2];
    y[0] = m[0] + a;
    y[1] = m[1] - m[2];
    y[2] = a + m[3];
}

static inline __attribute__((always_inline)) void
phased_filter_gradient_line(const vector u[PHASED_LINE], vector g[2]) {
    g[0] = u[0] + (u[1] + u[2]) * 0.5f;
    g[1] = (u[1] - u[2]) * 0.5f + u[3];
}

/* ---- in two ---- */

/* As pixels_to_planes of winograd_tiles.h. */
static inline __attribute__((always_inline)) void phased_planes(bool plain, int size,
                                                                const qn_winograd_tile *t,
                                                                int64_t c, int64_t n, float *planes,
                                                                int64_t plane_stride) {
    for (; c < n; c += VL) {
        vector columns[4][PHASED_LINE]; /* [column][point] */
#pragma GCC unroll 4
        for (int j = 0; j < size; j++) {
            vector d[4];
#pragma GCC unroll 4
            for (int i = 0; i < size; i++)
                d[i] = plain ? load(t->pixels + i * t->row_stride + j * t->pixel_stride + c)
                             : load_inside(t, i, j, c, lanes_from(c, n));
            if (size == 4)
                phased_input_line(d, columns[j]);
            else
                phased_gradient_line(d, columns[j]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < PHASED_LINE; i++) {
            vector d[4], v[PHASED_LINE];
#pragma GCC unroll 4
            for (int j = 0; j < size; j++)
                d[j] = columns[j][i];
            if (size == 4)
                phased_input_line(d, v);
            else
                phased_gradient_line(d, v);
#pragma GCC unroll 4
            for (int j = 0; j < PHASED_LINE; j++)
                *(vector *)(planes + (i * PHASED_LINE + j) * plane_stride + c) = v[j];
        }
    }
}

static void phased_input(const qn_winograd_tile *t, int64_t n, float *planes,
                         int64_t plane_stride) {
    const int64_t plain = plain_channels(t, 4, n);
    phased_planes(true, 4, t, 0, plain, planes, plane_stride);
    phased_planes(false, 4, t, plain, n, planes, plane_stride);
}

static void phased_gradient(const qn_winograd_tile *t, int64_t n, float *planes,
                            int64_t plane_stride) {
    const int64_t plain = plain_channels(t, 3, n);
    phased_planes(true, 3, t, 0, plain, planes, plane_stride);
    phased_planes(false, 3, t, plain, n, planes, plane_stride);
}

static void phased_output(const float *planes, int64_t plane_stride, int64_t n, const float *bias,
                          const qn_winograd_tile *t) {
    for (int64_t c = 0; c < n; c += VL) {
        const int64_t lanes = lanes_from(c, n);
        const vector shift = bias ? load_lanes(bias + c, lanes) : (vector){0};
        vector columns[PHASED_LINE][3]; /* [column][row] */
#pragma GCC unroll 4
        for (int j = 0; j < PHASED_LINE; j++) {
            vector m[PHASED_LINE];
#pragma GCC unroll 4
            for (int i = 0; i < PHASED_LINE; i++)
                m[i] = load(planes + (i * PHASED_LINE + j) * plane_stride + c);
            phased_output_line(m, columns[j]);
        }
#pragma GCC unroll 3
        for (int i = 0; i < 3; i++) {
            vector m[PHASED_LINE], y[3];
#pragma GCC unroll 4
            for (int j = 0; j < PHASED_LINE; j++)
                m[j] = columns[j][i];
            phased_output_line(m, y);
            float *row = t->pixels + i * t->row_stride + c;
#pragma GCC unroll 3
            for (int j = 0; j < 3; j++) {
                if (i >= t->top && i < t->bottom && j >= t->left && j < t->right)
                    store_lanes(row + j * t->pixel_stride, y[j] + shift, lanes);
            }
        }
    }
}

static void phased_filter(const float *taps, int64_t row_stride, int64_t tap_stride, int64_t n,
                          float *planes, int64_t plane_stride) {
    for (int64_t c = 0; c < n; c += VL) {
        vector columns[2][PHASED_LINE];
#pragma GCC unroll 2
        for (int j = 0; j < 2; j++) {
            const float *tap = taps + j * tap_stride + c;
            const vector g[2] = {load_lanes(tap, lanes_from(c, n)),
                                 load_lanes(tap + row_stride, lanes_from(c, n))};
            phased_filter_line(g, columns[j]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < PHASED_LINE; i++) {
            vector g[2] = {columns[0][i], columns[1][i]}, u[PHASED_LINE];
            phased_filter_line(g, u);
#pragma GCC unroll 4
            for (int j = 0; j < PHASED_LINE; j++)
                *(vector *)(planes + (i * PHASED_LINE + j) * plane_stride + c) = u[j];
        }
    }
}

static void phased_filter_gradient(const float *planes, int64_t plane_stride, int64_t n,
                                   float *taps, int64_t row_stride, int64_t tap_stride, bool add) {
    for (int64_t c = 0; c < n; c += VL) {
        const int64_t lanes = lanes_from(c, n);
        vector columns[PHASED_LINE][2];
#pragma GCC unroll 4
        for (int j = 0; j < PHASED_LINE; j++) {
            vector u[PHASED_LINE];
#pragma GCC unroll 4
            for (int i = 0; i < PHASED_LINE; i++)
                u[i] = load(planes + (i * PHASED_LINE + j) * plane_stride + c);
            phased_filter_gradient_line(u, columns[j]);
        }
#pragma GCC unroll 2
        for (int i = 0; i < 2; i++) {
            vector u[PHASED_LINE], g[2];
#pragma GCC unroll 4
            for (int j = 0; j < PHASED_LINE; j++)
                u[j] = columns[j][i];
            phased_filter_gradient_line(u, g);
#pragma GCC unroll 2
            for (int j = 0; j < 2; j++) {
                float *to = taps + i * row_stride + j * tap_stride + c;
                store_lanes(to, add ? (vector)(load_lanes(to, lanes) + g[j]) : g[j], lanes);
            }
        }
    }
}

const qn_winograd PHASED = {phased_input, phased_gradient, phased_output, phased_filter,
                            phased_filter_gradient};

#endif
