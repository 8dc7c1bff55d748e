/* The transforms of a Winograd convolution F(4x4, 3x3): outputs of 4x4 pixels from inputs of 6x6 by
 * 49 products instead of 144. Source: Lavin and Gray, "Fast Algorithms for Convolutional Neural
 * Networks" (2016), section 4.1, with the points 0, 1, -1, i, -i and infinity, of Meng and
 * Brothers, "Efficient Winograd Convolution via Integer Arithmetic" (2019), section 4: the two
 * complex ones are a product of complex numbers, of three real products. The usual points 0, 1, -1,
 * 2, -2 need 36 products, but their powers make rounding errors several times those of the direct
 * sum; here all factors are 1, 1/2 and 1/4, and results are about as good. */
#ifndef QN_KERNELS_VECTOR_WINOGRAD_TILES_H
#define QN_KERNELS_VECTOR_WINOGRAD_TILES_H

#include "kernels/vector/winograd_frame.h"

enum { LINE = QN_WINOGRAD_LINE };

/* ---- in one dimension ----  Values at 0, 1, -1, the real part, the imaginary part, the sum of the
 * two, at infinity. */

INLINED void input_line(const vector *d, vector *v) {
    const vector a = d[1] + d[3], b = d[2] + d[4], c = d[3] - d[1], e = d[4] - d[2];
    v[0] = d[0] - d[4];
    v[1] = b + a;
    v[2] = b - a;
    v[3] = c + e;
    v[4] = c - e;
    v[5] = c;
    v[6] = d[5] - d[1];
}

INLINED void filter_line(const vector *g, vector *u) {
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

INLINED void output_line(const vector *m, vector *y) {
    const vector a = m[1] + m[2], b = m[1] - m[2], c = m[3] + m[5], e = m[4] + m[5];
    y[0] = m[0] + (a + c);
    y[1] = b + e;
    y[2] = a - c;
    y[3] = (b - e) + m[6];
}

/* The transposes of the last two: for the gradient of the filter. */

INLINED void gradient_line(const vector *d, vector *v) {
    const vector a = d[0] + d[2], b = d[1] + d[3], c = d[0] - d[2], e = d[1] - d[3];
    v[0] = d[0];
    v[1] = a + b;
    v[2] = a - b;
    v[3] = c;
    v[4] = e;
    v[5] = c + e;
    v[6] = d[3];
}

INLINED void filter_gradient_line(const vector *u, vector *g) {
    const vector a = (u[1] + u[2]) * 0.25f, c = (u[3] - u[5]) * 0.5f;
    g[0] = u[0] + (a + c);
    g[1] = (u[1] - u[2]) * 0.25f + (u[4] - u[5]) * 0.5f;
    g[2] = (a - c) + u[6];
}

/* ---- in two ---- */

static void winograd_input(const qn_winograd_tile *t, int64_t n, float *planes,
                           int64_t plane_stride) {
    pixels_to_planes(6, LINE, input_line, t, n, planes, plane_stride);
}

static void winograd_gradient(const qn_winograd_tile *t, int64_t n, float *planes,
                              int64_t plane_stride) {
    pixels_to_planes(4, LINE, gradient_line, t, n, planes, plane_stride);
}

static void winograd_output(const float *planes, int64_t plane_stride, int64_t n, const float *bias,
                            const qn_winograd_tile *t) {
    planes_to_pixels(false, 4, LINE, output_line, planes, plane_stride, n, bias, t);
}

static void winograd_filter(const float *taps, int64_t row_stride, int64_t tap_stride, int64_t n,
                            float *planes, int64_t plane_stride) {
    taps_to_planes(3, LINE, filter_line, taps, row_stride, tap_stride, n, planes, plane_stride);
}

static void winograd_filter_gradient(const float *planes, int64_t plane_stride, int64_t n,
                                     float *taps, int64_t row_stride, int64_t tap_stride,
                                     bool add) {
    planes_to_taps(3, LINE, filter_gradient_line, planes, plane_stride, n, taps, row_stride,
                   tap_stride, add);
}

const qn_winograd WINOGRAD = {winograd_input, winograd_gradient, winograd_output, winograd_filter,
                              winograd_filter_gradient};

#endif
