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

enum { LINE = QN_WINOGRAD_LINE };

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
                                                                int j, int64_t c) {
    if (i < t->top || i >= t->bottom || j < t->left || j >= t->right)
        return (vector){0};
    return load(t->pixels + i * t->row_step + j * t->pixel_step + c);
}

/* size x size pixels to 7x7 planes. `inside`: all of the tile is. */
static inline __attribute__((always_inline)) void pixels_to_planes(bool inside, int size,
                                                                   const qn_winograd_tile *t,
                                                                   int64_t n, float *planes,
                                                                   int64_t plane_step) {
    for (int64_t c = 0; c < n; c += VL) {
        vector columns[6][LINE]; /* [column][point] */
#pragma GCC unroll 6
        for (int j = 0; j < size; j++) {
            vector d[6];
#pragma GCC unroll 6
            for (int i = 0; i < size; i++)
                d[i] = inside ? load(t->pixels + i * t->row_step + j * t->pixel_step + c)
                              : load_inside(t, i, j, c);
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
                *(vector *)(planes + (i * LINE + j) * plane_step + c) = v[j];
        }
    }
}

static bool is_inside(const qn_winograd_tile *t, int size) {
    return t->top == 0 && t->left == 0 && t->bottom == size && t->right == size;
}

static void winograd_input(const qn_winograd_tile *t, int64_t n, float *planes,
                           int64_t plane_step) {
    if (is_inside(t, 6))
        pixels_to_planes(true, 6, t, n, planes, plane_step);
    else
        pixels_to_planes(false, 6, t, n, planes, plane_step);
}

static void winograd_gradient(const qn_winograd_tile *t, int64_t n, float *planes,
                              int64_t plane_step) {
    if (is_inside(t, 4))
        pixels_to_planes(true, 4, t, n, planes, plane_step);
    else
        pixels_to_planes(false, 4, t, n, planes, plane_step);
}

static void winograd_output(const float *planes, int64_t plane_step, int64_t n, const float *bias,
                            const qn_winograd_tile *t) {
    for (int64_t c = 0; c < n; c += VL) {
        const vector shift = bias ? load(bias + c) : (vector){0};
        vector columns[LINE][4]; /* [column][row] */
#pragma GCC unroll 7
        for (int j = 0; j < LINE; j++) {
            vector m[LINE];
#pragma GCC unroll 7
            for (int i = 0; i < LINE; i++)
                m[i] = load(planes + (i * LINE + j) * plane_step + c);
            output_line(m, columns[j]);
        }
#pragma GCC unroll 4
        for (int i = 0; i < 4; i++) {
            vector m[LINE], y[4];
#pragma GCC unroll 7
            for (int j = 0; j < LINE; j++)
                m[j] = columns[j][i];
            output_line(m, y);
            float *row = t->pixels + i * t->row_step + c;
            for (int j = 0; i < t->bottom && j < t->right; j++)
                *(vector *)(row + j * t->pixel_step) = y[j] + shift;
        }
    }
}

static void winograd_filter(const float *taps, int64_t row_step, int64_t tap_step, int64_t n,
                            float *planes, int64_t plane_step) {
    for (int64_t c = 0; c < n; c += VL) {
        vector columns[3][LINE];
#pragma GCC unroll 3
        for (int j = 0; j < 3; j++) {
            vector g[3];
#pragma GCC unroll 3
            for (int i = 0; i < 3; i++)
                g[i] = load(taps + i * row_step + j * tap_step + c);
            filter_line(g, columns[j]);
        }
#pragma GCC unroll 7
        for (int i = 0; i < LINE; i++) {
            vector g[3] = {columns[0][i], columns[1][i], columns[2][i]}, u[LINE];
            filter_line(g, u);
#pragma GCC unroll 7
            for (int j = 0; j < LINE; j++)
                *(vector *)(planes + (i * LINE + j) * plane_step + c) = u[j];
        }
    }
}

static void winograd_filter_gradient(const float *planes, int64_t plane_step, int64_t n,
                                     float *taps, int64_t row_step, int64_t tap_step, bool add) {
    for (int64_t c = 0; c < n; c += VL) {
        vector columns[LINE][3];
#pragma GCC unroll 7
        for (int j = 0; j < LINE; j++) {
            vector u[LINE];
#pragma GCC unroll 7
            for (int i = 0; i < LINE; i++)
                u[i] = load(planes + (i * LINE + j) * plane_step + c);
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
                vector *to = (vector *)(taps + i * row_step + j * tap_step + c);
                *to = add ? (vector)(*to + g[j]) : g[j];
            }
        }
    }
}

const qn_winograd WINOGRAD = {winograd_input, winograd_gradient, winograd_output, winograd_filter,
                              winograd_filter_gradient};

#endif
